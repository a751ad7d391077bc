//! The thread that reads the log for a node, or the changes of its primary for a follower.
//!
//! It decides nothing: what comes goes to the writer, in order, and waits there in bounded number.
//! It is also the writer's clock, because it has something to tell many times a second.

use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender};

use crate::api::clock;
use crate::api::error::Refused;
use crate::directories::member::ChangeSource;
use crate::replication::chain::Halt;
use crate::replication::log::{Log, LogEntry, LogError, Reader};
use crate::replication::message::{BadMessage, Message};
use crate::replication::position::ClusterFile;
use crate::replication::primary_reader::{PrimaryReader, park};
use crate::shared::{Shared, ToWriter};
use crate::state::replica::{FAULT_AFTER, LogHolding, RefusedEntry};
use crate::threads::replica::beginning::{LogBeginning, LogLook};
use crate::threads::replica::settings::{LogShown, SettingsLook};

/// How often there is news at least.
const TICK: Duration = Duration::from_millis(50);
/// How long it waits before it tries to begin with the log again.
pub(super) const AGAIN: Duration = Duration::from_millis(500);
/// A node has caught up once it has been less than this behind the end of the log since its start.
pub(crate) const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(5);
/// The number of news that may wait for the writer. Entries take up to 256 KiB.
pub(crate) const NEWS_MAX: usize = 64;

/// What the log tells.
#[derive(Debug)]
pub(crate) enum News {
    /// It is read. Its entries follow. It can be appended to, unless it is a primary.
    Opened(Option<Arc<dyn Log>>),
    /// Its next entry.
    Entry(LogEntry),
    /// All entries that it had then were told.
    End(Instant),
    /// There is always more, but all entries that it had less than [`CAUGHT_UP_WITHIN`] ago were
    /// told.
    CaughtUp,
    /// It cannot be read now.
    Fault(String),
    /// It has discarded what would come next. Nothing follows.
    Discarded(String),
    /// It is read from the position in this file, not from the one that the node had, for this
    /// reason.
    Moved(Box<ClusterFile>, &'static str),
    /// What the log is now.
    Settings(Box<LogShown>),
    /// It cannot be read any further. Nothing follows.
    Halt(Halt),
}

/// The log, as far as it was read.
#[derive(Debug)]
pub(crate) struct LogReading {
    pub(crate) news: Receiver<News>,
    pub(crate) thread: Option<Thread>,
    /// An entry that cannot be stored now.
    pub(crate) held: Option<LogEntry>,
    /// When it last had everything; the start before that.
    pub(crate) level_at: Instant,
    /// Since the start it has been less than [`CAUGHT_UP_WITHIN`] behind.
    pub(crate) has_caught_up: bool,
    /// There is nothing else in the log, as far as it knows.
    pub(crate) is_at_end: bool,
    pub(crate) heard_at: Instant,
    pub(crate) ignored: u64,
    /// Something came since the start.
    pub(crate) was_heard: bool,
    /// Why what was read cannot be stored.
    pub(crate) full: Option<Refused>,
    fault: Option<Fault>,
    /// Why the log has refused the newest entry that it answered.
    refused: Option<Arc<str>>,
    last_refused: Option<RefusedEntry>,
    /// Why its settings are not those of a log that keeps what it is given.
    unsuitable: Option<String>,
    /// What the log had when it was last looked at.
    pub(crate) holding: Option<Arc<LogHolding>>,
}

/// The log cannot be read.
#[derive(Debug)]
struct Fault {
    why: String,
    since: Instant,
    is_told: bool,
    /// What comes next can be read no more.
    is_for_good: bool,
}

impl Fault {
    /// Whether it is worth telling: on a busy machine an entry may be late.
    fn lasts(&self) -> bool {
        self.since.elapsed() >= FAULT_AFTER
    }
}

impl LogReading {
    pub(crate) fn new(news: Receiver<News>, begun: Instant) -> Self {
        Self {
            news,
            thread: None,
            held: None,
            level_at: begun,
            has_caught_up: false,
            is_at_end: false,
            heard_at: begun,
            ignored: 0,
            was_heard: false,
            full: None,
            fault: None,
            refused: None,
            last_refused: None,
            unsuitable: None,
            holding: None,
        }
    }

    /// Everything was read that the log had then.
    pub(crate) fn comes_to_the_end(&mut self, confirmed_at: Instant) {
        self.recovers();
        (self.is_at_end, self.level_at, self.has_caught_up) = (true, confirmed_at, true);
    }

    /// The log cannot be read now.
    pub(crate) fn fails(&mut self, why: String) {
        self.is_at_end = false;
        let is_other = |fault: &mut Fault| !is_alike(&fault.why, &why);
        let since = self.fault.as_ref().map_or_else(clock::now, |fault| fault.since);
        self.fault.take_if(is_other);
        let new = || Fault { why: String::new(), since, is_told: false, is_for_good: false };
        let fault = self.fault.get_or_insert_with(new);
        fault.why = why;
        if fault.lasts() && !std::mem::replace(&mut fault.is_told, true) {
            tracing::warn!(why = fault.why, "the changes of others cannot be read; retrying");
        }
    }

    /// What comes next can be read no more.
    pub(crate) fn ends(&mut self, why: String) {
        self.fails(why);
        self.fault.iter_mut().for_each(|fault| fault.is_for_good = true);
    }

    /// Whether what comes next can be read no more.
    pub(crate) fn is_outdated(&self) -> bool {
        self.fault.as_ref().is_some_and(|fault| fault.is_for_good)
    }

    /// Why it cannot be read, and since when.
    pub(crate) fn fault(&self) -> Option<(&str, Instant)> {
        self.fault.as_ref().map(|fault| (fault.why.as_str(), fault.since))
    }

    /// The log can be read.
    pub(crate) fn recovers(&mut self) {
        if !std::mem::replace(&mut self.was_heard, true) {
            tracing::info!("reads what others store");
        }
        if self.fault.take().is_some_and(|fault| fault.is_told) {
            tracing::info!("the changes of others can be read again");
        }
    }

    /// The log has refused an entry.
    pub(crate) fn is_refused(&mut self, why: String) {
        if self.refused.as_deref() != Some(&*why) {
            tracing::error!(why, "the log refuses what this node appends; retrying");
        }
        let why = Arc::<str>::from(why);
        self.last_refused = Some(RefusedEntry { why: Arc::clone(&why), at: clock::now() });
        self.refused = Some(why);
    }

    /// The log has taken an entry, of this node or of another that leads.
    pub(crate) fn is_appended(&mut self) {
        if self.refused.take().is_some() {
            tracing::info!("the log takes entries again");
        }
    }

    /// The settings of the log were looked at.
    pub(crate) fn has_settings(&mut self, LogShown { unsuitable, holding }: LogShown) {
        self.holding = holding.map(Arc::new);
        if let Some(why) = unsuitable.as_ref().filter(|_| self.unsuitable != unsuitable) {
            tracing::error!(why, "the log was changed, and may lose what it acknowledges");
        }
        self.unsuitable = unsuitable;
    }

    /// Why the log does not take entries, or may lose them.
    pub(crate) fn not_kept(&self) -> Option<&str> {
        self.refused.as_deref().or(self.unsuitable.as_deref())
    }

    /// The last entry that the log has refused since the start.
    pub(crate) fn last_refused(&self) -> Option<&RefusedEntry> {
        self.last_refused.as_ref()
    }

    /// What was read cannot be stored now.
    pub(crate) fn waits_for_room(&mut self, why: &Refused) {
        if self.full.replace(why.clone()).as_ref() != Some(why) {
            tracing::warn!(%why, "what others store cannot be stored here; waiting");
        }
    }
}

/// Whether two reasons differ in numbers at most.
pub(super) fn is_alike(one: &str, other: &str) -> bool {
    let words = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    words(one) == words(other)
}

/// Reads a log, or the changes of a primary.
#[derive(Debug)]
pub(crate) struct LogThread {
    pub(crate) shared: Arc<Shared>,
    pub(crate) source: ChangeSource,
    pub(crate) news: Sender<News>,
}

/// What is read, and the log to ask where it ends, if there is one.
type Reading = (Box<dyn Reader>, Option<Arc<dyn Log>>);

/// Finds out when all is read of a log that grows meanwhile, so that reading may never come to its
/// end.
struct CatchingUp {
    /// Where the log ended when it was last asked.
    last: Option<u64>,
    asked_at: Instant,
}

impl CatchingUp {
    /// Whether, with this entry, everything is read that the log had less than [`CAUGHT_UP_WITHIN`]
    /// ago. To be asked with each entry.
    fn is_over(&mut self, entry: u64, log: &dyn Log) -> bool {
        if self.last.is_none() && self.asked_at.elapsed() >= AGAIN {
            self.asked_at = clock::now();
            self.last = log.bounds().ok().map(|bounds| bounds.last);
        }
        self.last.take_if(|last| *last <= entry).is_some()
            && self.asked_at.elapsed() < CAUGHT_UP_WITHIN
    }
}

impl LogThread {
    /// Runs until the writer has ended, or there is nothing more to tell.
    pub(crate) fn run(mut self) {
        let Some((mut reader, log)) = self.begin() else { return };
        if !self.tell(News::Opened(log.clone())) {
            return;
        }
        let catching_up = CatchingUp { last: None, asked_at: clock::now() };
        let mut catching_up = log.clone().map(|log| (catching_up, log));
        let mut settings = log.clone().map(|log| SettingsLook::new(log, &self.source));
        loop {
            if let Some(shown) = settings.as_mut().and_then(SettingsLook::result)
                && !self.tell(News::Settings(Box::new(shown)))
            {
                return;
            }
            let mut has_caught_up = false;
            let news = match reader.next(TICK) {
                Ok(Some(entry)) => {
                    let Some(entry) = self.undamaged(entry, log.as_deref()) else { return };
                    let is_over =
                        |(it, log): &mut (CatchingUp, Arc<dyn Log>)| it.is_over(entry.at, &**log);
                    has_caught_up = catching_up.take_if(is_over).is_some();
                    News::Entry(entry)
                }
                Ok(None) => {
                    catching_up = None;
                    News::End(reader.confirmed_at())
                }
                Err(error) => self.after(error),
            };
            let is_last = matches!(news, News::Discarded(_) | News::Halt(_));
            if !self.tell(news) || is_last {
                return;
            }
            if has_caught_up && !self.tell(News::CaughtUp) {
                return;
            }
        }
    }

    /// What an error of the reader means.
    fn after(&self, error: LogError) -> News {
        match error {
            LogError::Unreachable(why) | LogError::Refused(why) => News::Fault(why),
            LogError::Discarded(why) => News::Discarded(why),
            LogError::Diverged(why) => News::Halt(Halt::OtherHistory(why)),
            LogError::Gap { read, got } => News::Halt(Halt::Gap { read, got }),
            LogError::Regressed { last, read } => News::Halt(Halt::Regressed { last, read }),
            LogError::Another { identity } => News::Halt(match &self.source {
                ChangeSource::Log { file, .. } => {
                    Halt::OtherLog { read: file.log, found: identity }
                }
                ChangeSource::Primary { .. } => Halt::OtherHistory(error.to_string()),
            }),
        }
    }

    /// The entry, or what another server has in its place if it is damaged here: the digest tells.
    /// `None` if there is nobody to tell.
    fn undamaged(&self, entry: LogEntry, log: Option<&dyn Log>) -> Option<LogEntry> {
        let Some(log) = log else { return Some(entry) };
        let identity = &self.shared.identity;
        let is_damaged = |entry: &LogEntry| {
            matches!(Message::decode(&entry.bytes, identity), Err(BadMessage::Foreign))
        };
        if !is_damaged(&entry) {
            return Some(entry);
        }
        loop {
            match log.entry(entry.at) {
                Ok(Some(other)) if !is_damaged(&other) => {
                    let at = entry.at;
                    tracing::warn!(at, "an entry was damaged where it was read; others have it");
                    return Some(other);
                }
                Ok(_) => return Some(entry),
                Err(error) => {
                    if !self.tell(News::Fault(error.to_string())) {
                        return None;
                    }
                    park(AGAIN);
                }
            }
        }
    }

    /// Begins to read, for as long as that takes. `None` if there is nothing to read, or nobody to
    /// tell.
    fn begin(&mut self) -> Option<Reading> {
        let (options, file) = match &self.source {
            ChangeSource::Log { options, file } => (options.clone(), file.clone()),
            ChangeSource::Primary { changes, after } => {
                let changes = Arc::clone(changes);
                let reader = PrimaryReader::new(changes, self.shared.identity, *after);
                return Some((Box::new(reader), None));
            }
        };
        let identity = self.shared.identity;
        let next_in_journal = self.shared.published.load().view.sequence().next().get();
        let beginning =
            LogBeginning { options: &options, file: &file, identity: &identity, next_in_journal };
        let mut suspected = None;
        loop {
            match beginning.look(&mut suspected) {
                Ok(LogLook::Reads(log)) => {
                    return Some((log.read(file.position.at + 1), Some(log)));
                }
                Ok(LogLook::ReadsElsewhere(log, moved, why)) => {
                    let from = moved.position.at + 1;
                    if let ChangeSource::Log { file, .. } = &mut self.source {
                        file.clone_from(&moved);
                    }
                    let told = self.tell(News::Moved(Box::new(moved), why));
                    return told.then(|| (log.read(from), Some(log)));
                }
                Ok(LogLook::Ends(news)) => {
                    self.tell(news);
                    return None;
                }
                Err(why) => {
                    if !self.tell(News::Fault(why)) {
                        return None;
                    }
                    park(AGAIN);
                }
            }
        }
    }

    /// Tells the writer, once it has room; false if it has ended.
    fn tell(&self, mut news: News) -> bool {
        loop {
            match self.news.try_send(news) {
                Ok(()) => return self.shared.writer.send(ToWriter::Log).is_ok(),
                Err(TrySendError::Closed(_)) => return false,
                Err(TrySendError::Full(full)) => news = full,
            }
            // The writer may wait for something other than room.
            if self.shared.writer.send(ToWriter::Log).is_err() {
                return false;
            }
            thread::park_timeout(TICK);
        }
    }
}

//! The writer thread of a node or a follower: drives the [`Node`]. In a follower it only reads.
//!
//! ```text
//!   news of the log    read what came     |
//!   queue of writes    decide, append     |  one pass; then it waits for the next message
//!   timers             beat, repeat, lead |
//!   one sync           publish, answer    |
//!   others' requests   install what was built, freeze, sync: when nothing is under way
//! ```
//!
//! The next groups are decided before the sync, so that the log works on them meanwhile. A request
//! of a background thread holds up decisions until what is under way has come back, a few
//! milliseconds; without the log, until the node has given that up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use nearprint_index::compaction::policy::FULL_DELTAS_MAX;
use nearprint_machine::change::Record;
use nearprint_storage::{Disk, StorageError};
use tokio::sync::mpsc;

use crate::api::error::Refused;
use crate::api::replies::Readiness;
use crate::api::{clock, random};
use crate::directories::member::ChangeSource;
use crate::replication::chain::{Due, Halt};
use crate::replication::log::LogEntry;
use crate::replication::message::{LeaderId, Message};
use crate::shared::{Life, Shared, ToWriter};
use crate::state::replica::{NodeState, Observed};
use crate::threads::replica::appends::Appends;
use crate::threads::replica::candidacy::Candidacy;
use crate::threads::replica::gathering::Gathering;
use crate::threads::replica::log_thread::{LogReading, News};
use crate::threads::replica::node::group::room_in_group;
use crate::threads::replica::node::{Clocks, Decided, Node, Synced, Taken};
use crate::threads::replica::stored::Stored;
use crate::threads::writer::{next_group, refuse, refuse_additions, time_to_decide};
use crate::write::queued::QueuedWrite;
use crate::write::waiting::WaitingWrites;

/// Entries of so many bytes are read between two syncs.
const READ_BYTES_MAX: usize = 4 << 20;
/// A node that stops waits this long for what it has under way.
const LAST_WAIT: Duration = Duration::from_secs(3);
/// After this time without progress a leader gives up what it has under way, if snapshots, exports
/// or merges wait for it. Others take the lead before.
const IN_VAIN_AFTER: Duration = Duration::from_secs(5);

/// The state of the thread.
#[derive(Debug)]
pub(crate) struct NodeWriter {
    node: Node,
    shared: Arc<Shared>,
    inbox: mpsc::UnboundedReceiver<ToWriter>,
    waiting: WaitingWrites,
    gathering: Gathering,
    /// Requests of the background threads, in order.
    requests: VecDeque<ToWriter>,
    reading: LogReading,
    appends: Appends,
    /// `None` for a follower, whose journal is its position.
    stored: Option<Stored>,
    begun: Instant,
    /// How long it waits for a leader before it tries; `None` if it never does.
    takeover_ms: Option<u64>,
    candidacy: Candidacy,
    /// Something counted that is not published.
    is_unsynced: bool,
    has_told_halt: bool,
    /// When the engine began to stop, and whether this thread is the last one.
    stopping_since: Option<Instant>,
    stop: bool,
}

/// What a pass has left.
enum After {
    /// It waits for a message.
    Waits,
    /// There is more to read.
    GoesOn,
}

impl NodeWriter {
    pub(crate) fn new(
        node: Node,
        shared: Arc<Shared>,
        (inbox, news): (mpsc::UnboundedReceiver<ToWriter>, mpsc::Receiver<News>),
        (disk, source): (Arc<dyn Disk>, &ChangeSource),
    ) -> Self {
        let begun = clock::now();
        Self {
            node,
            inbox,
            waiting: WaitingWrites::default(),
            gathering: Gathering::default(),
            requests: VecDeque::new(),
            reading: LogReading::new(news, begun),
            appends: Appends::default(),
            stored: match source {
                ChangeSource::Log { file, .. } => {
                    Some(Stored { disk, file: file.clone(), at: begun, bytes: 0 })
                }
                ChangeSource::Primary { .. } => None,
            },
            begun,
            takeover_ms: drawn_takeover_ms(&shared),
            candidacy: Candidacy::default(),
            is_unsynced: false,
            has_told_halt: false,
            stopping_since: None,
            stop: false,
            shared,
        }
    }

    /// Runs until [`ToWriter::Stop`], or until storage or another thread fails.
    pub(crate) fn run(mut self, reader: Thread) {
        self.reading.thread = Some(reader);
        if let Err(error) = self.serve() {
            self.shared.fail_by(&error);
        }
        self.node.give_up(&Refused::OutcomeUnknown);
        self.inbox.close();
        let refused = self.shared.end_refusal();
        while let Ok(message) = self.inbox.try_recv() {
            self.take(message);
        }
        refuse(self.waiting.take_all(), &refused);
    }

    fn serve(&mut self) -> Result<(), StorageError> {
        loop {
            self.take_all();
            if self.shared.life() == Life::Failed {
                return Ok(());
            }
            match self.pass()? {
                After::GoesOn => continue,
                After::Waits => {}
            }
            self.node.seal()?;
            if self.has_finished() {
                self.store_position();
                return Ok(());
            }
            match self.inbox.blocking_recv() {
                Some(message) => self.take(message),
                None => self.stop = true,
            }
        }
    }

    /// Takes what has arrived. A leader with nothing to read lets others run until enough writes
    /// wait: a message wakes this thread, which would preempt the sender on a busy core.
    fn take_all(&mut self) {
        loop {
            let before = self.waiting.len();
            while let Ok(message) = self.inbox.try_recv() {
                self.take(message);
            }
            let waiting = self.waiting.len();
            let is_free = self.requests.is_empty() && self.node.accepts(self.now_ms());
            if waiting == 0
                || waiting >= self.shared.options.group_changes_max
                || !is_free
                || self.stop
                || !self.reading.news.is_empty()
                || self.node.under_way() > 0
                || (waiting == before && self.gathering.is_over(waiting, 0))
            {
                return;
            }
            thread::yield_now();
        }
    }

    fn take(&mut self, message: ToWriter) {
        match message {
            ToWriter::Write(write) => self.waiting.push_back(write),
            ToWriter::WriteAll(writes) => self.waiting.extend(writes),
            ToWriter::Install { .. } | ToWriter::Freeze { .. } | ToWriter::Sync { .. } => {
                self.requests.push_back(message);
            }
            ToWriter::Halt(why) => {
                if self.node.halted().is_none() {
                    self.node.halt(Halt::NoSeed(why));
                }
            }
            ToWriter::Log | ToWriter::Fail => {}
            ToWriter::Stop => self.stop = true,
        }
    }

    /// Whether it was stopped, and what it had under way has come back, or is not waited for any
    /// longer.
    fn has_finished(&self) -> bool {
        let is_done = self.waiting.is_empty() && self.node.is_settled();
        self.stop && (is_done || self.waits_no_longer())
    }

    /// Whether nothing has counted for so long that whoever waits for it is let go.
    fn waits_in_vain(&self) -> bool {
        self.waits_no_longer() || self.reading.heard_at.elapsed() >= IN_VAIN_AFTER
    }

    /// Whether the engine has been stopping for so long that nothing will come back.
    fn waits_no_longer(&self) -> bool {
        self.stopping_since.is_some_and(|since| since.elapsed() >= LAST_WAIT)
    }

    fn pass(&mut self) -> Result<After, StorageError> {
        if self.shared.life() == Life::Stopping {
            self.stopping_since.get_or_insert_with(clock::now);
        }
        self.appends.hear(&mut self.node, &mut self.reading, &*self.shared.observer);
        let after = self.read()?;
        self.decide()?;
        self.act()?;
        if self.is_unsynced {
            self.sync()?;
        }
        self.serve_requests()?;
        self.show();
        if self.stored.as_ref().is_some_and(Stored::is_due) {
            self.store_position();
        }
        Ok(after)
    }

    fn clocks(&self) -> Clocks {
        let now_ms = self.begun.elapsed().as_millis() as u64;
        Clocks { clock_ms: clock::now_ms(), now_ms }
    }

    fn now_ms(&self) -> u64 {
        self.clocks().now_ms
    }

    /// Reads what the log has told.
    fn read(&mut self) -> Result<After, StorageError> {
        let (mut bytes, mut has_taken) = (0, false);
        let after = loop {
            // What others decided goes into the delta; the flusher may have ended once it stops.
            let is_full = self.has_full_deltas() || self.stop;
            if (is_full && self.node.is_settled()) || self.node.halted().is_some() {
                break After::Waits;
            }
            if bytes >= READ_BYTES_MAX {
                break After::GoesOn;
            }
            let entry = match self.reading.held.take() {
                Some(entry) => entry,
                None => match self.reading.news.try_recv() {
                    Ok(news) => {
                        has_taken = true;
                        match self.hear(news) {
                            Some(entry) => entry,
                            None => continue,
                        }
                    }
                    Err(_) => break After::Waits,
                },
            };
            if let Some(refused) = self.cannot_store(&entry) {
                self.reading.waits_for_room(&refused);
                self.reading.held = Some(entry);
                break After::Waits;
            }
            bytes += entry.bytes.len();
            match self.read_entry(entry)? {
                Taken::Counts | Taken::Ignored => {}
                Taken::DiskFull | Taken::Halts(_) => break After::Waits,
            }
        };
        if let Some(stored) = &mut self.stored {
            stored.bytes += bytes;
        }
        // It may wait for room.
        if let Some(thread) = self.reading.thread.as_ref().filter(|_| has_taken) {
            thread.unpark();
        }
        Ok(after)
    }

    /// Why a follower cannot store what an entry adds. A node goes on without: that it does not
    /// lead is enough.
    fn cannot_store(&self, entry: &LogEntry) -> Option<Refused> {
        if self.takeover_ms.is_some() {
            return None;
        }
        match self.shared.readiness() {
            Readiness::DiskFull => self.adds(entry).then_some(Refused::DiskFull),
            Readiness::MemoryFull => self.adds(entry).then_some(Refused::MemoryFull),
            Readiness::DirectoryUnusable => Some(Refused::DirectoryUnusable),
            Readiness::Ready | Readiness::Stopping | Readiness::Failed => None,
        }
    }

    /// Whether an entry has documents to add. One that cannot be read has none.
    fn adds(&self, entry: &LogEntry) -> bool {
        let decoded = Message::decode(&entry.bytes, &self.shared.identity);
        let adds = |payload| Record::decode(payload).is_ok_and(|record| record.change.adds());
        decoded.is_ok_and(|(message, _)| message.records.iter().any(|record| adds(record.payload)))
    }

    fn read_entry(&mut self, entry: LogEntry) -> Result<Taken, StorageError> {
        let led = self.node.chain().leads();
        let depositions = self.node.depositions();
        let taken = self.node.read(&entry, self.now_ms())?;
        if self.node.depositions() > depositions {
            tracing::warn!("another node leads now, and what this one had decided did not count");
        }
        let was_at_end = std::mem::take(&mut self.reading.is_at_end);
        match taken {
            Taken::Counts => {
                self.reading.recovers();
                self.reading.full = None;
                self.is_unsynced = true;
                self.reading.heard_at = clock::now();
                let is_own = led || self.node.chain().leads();
                if was_at_end || (is_own && self.node.leads(self.now_ms())) {
                    let decided_ms = self.node.chain().position().at_ms;
                    self.candidacy.hear(entry.at_ms, (!is_own).then_some(decided_ms));
                }
                if !self.node.chain().leads() {
                    self.reading.is_appended();
                }
                self.tell_of_leader(led);
            }
            Taken::Ignored => self.reading.ignored += 1,
            Taken::DiskFull => {
                self.reading.waits_for_room(&Refused::DiskFull);
                self.reading.held = Some(entry);
            }
            Taken::Halts(_) => {}
        }
        Ok(taken)
    }

    /// Takes news; returns it if it is an entry.
    fn hear(&mut self, news: News) -> Option<LogEntry> {
        match news {
            News::Entry(entry) => return Some(entry),
            News::Opened(log) => {
                self.appends.log = log;
            }
            News::End(confirmed_at) => self.reading.comes_to_the_end(confirmed_at),
            News::CaughtUp => self.reading.has_caught_up = true,
            News::Fault(why) => self.reading.fails(why),
            News::Discarded(why) => {
                tracing::warn!(
                    why,
                    "this copy begins again with an export of another, once one has all that it has"
                );
                self.reading.ends(why);
            }
            News::Moved(file, why) => {
                tracing::warn!(entry = file.position.at + 1, "{why}");
                self.node.move_to(file.position.clone(), self.now_ms());
                if let Some(stored) = &mut self.stored {
                    stored.file = *file;
                    stored.write(self.shared.identity);
                }
            }
            News::Settings(shown) => self.reading.has_settings(*shown),
            News::Halt(halt) => drop(self.node.halt(halt)),
        }
        None
    }

    fn tell_of_leader(&mut self, led: bool) {
        let chain = self.node.chain();
        if chain.leads() != led {
            self.appends.counts.takeovers += u64::from(!led);
            let verb = if led { "no longer leads" } else { "leads" };
            tracing::info!(sequence = chain.position().next - 1, "this node {verb}");
        }
    }

    fn has_full_deltas(&self) -> bool {
        self.node.core().view().full_deltas().len() >= FULL_DELTAS_MAX
    }

    /// Decides what waits, and refuses it if this node cannot.
    fn decide(&mut self) -> Result<(), StorageError> {
        if !self.node.leads(self.now_ms()) {
            refuse(self.waiting.take_all(), &Refused::NoLeader);
        }
        while !self.waiting.is_empty()
            && self.requests.is_empty()
            && self.node.accepts(self.now_ms())
            && (self.gathering.is_over(self.waiting.len(), self.node.under_way()) || self.stop)
            && (!self.has_full_deltas() || self.stop)
        {
            let has_room = room_in_group(self.shared.options.group_changes_max);
            let group = next_group(&self.shared, &mut self.waiting, has_room);
            if group.is_empty() {
                continue;
            }
            let (clocks, writes) = (self.clocks(), group.len());
            let before = self.node.core().view().sequence().get();
            if clocks.clock_ms < self.node.core().machine().now_ms() {
                self.shared.times_set_back.fetch_add(1, Ordering::Release);
            }
            let free_bytes_min = self.shared.disk.needed.load(Ordering::Relaxed);
            match self.node.decide(group, clocks, free_bytes_min, &mut time_to_decide())? {
                Decided::Send(bytes, left) => {
                    self.gathering.sent(writes - left.len());
                    self.waiting.put_back(left);
                    let changes = self.node.core().view().sequence().get() - before;
                    self.append(bytes, changes);
                }
                Decided::Refused(refused, group) => {
                    refuse_additions(group, &refused, &mut self.waiting);
                }
            }
        }
        Ok(())
    }

    fn append(&mut self, bytes: Arc<[u8]>, changes: u64) {
        self.appends.append(bytes, self.node.chain().position().at, changes);
    }

    /// Sends what is due.
    fn act(&mut self) -> Result<(), StorageError> {
        let is_at_end = self.reading.is_at_end && self.reading.news.is_empty();
        let takeover_ms = self.takeover_ms.filter(|_| is_at_end);
        let clocks = self.clocks();
        let fitness = self.candidacy.fitness(&self.node, &self.shared);
        let is_long = |ms: u64| self.reading.heard_at.elapsed() >= Duration::from_millis(2 * ms);
        if self.takeover_ms.is_some_and(is_long) {
            self.candidacy.tell();
        }
        let bytes = match self.node.due(fitness, takeover_ms, clocks.now_ms) {
            Due::Nothing => return Ok(()),
            Due::Lead => {
                self.takeover_ms = drawn_takeover_ms(&self.shared);
                tracing::info!("tries to lead");
                self.node.lead(LeaderId(drawn()), clocks)?
            }
            Due::Beat => self.node.beat(clocks)?,
            Due::Resign => {
                tracing::info!(readiness = ?self.shared.readiness(), "leaves the lead to another");
                self.node.resign(clocks)?
            }
            Due::SendAgain => {
                let again: Vec<_> = self.node.chain().again().cloned().collect();
                for bytes in again {
                    self.append(bytes, 0);
                }
                return Ok(());
            }
        };
        self.append(bytes, 0);
        Ok(())
    }

    /// Makes durable what counts, publishes it, and answers.
    fn sync(&mut self) -> Result<(), StorageError> {
        let before = self.shared.published.load().view.sequence();
        let begun = clock::now();
        let Synced { published, writes } = self.node.sync()?;
        self.is_unsynced = false;
        let changes = published.view.sequence().get() - before.get();
        if changes > 0 {
            self.shared.observer.journal_synced(begun.elapsed());
            self.shared.observer.group_committed(changes);
        }
        self.shared.publish(published);
        writes.into_iter().for_each(QueuedWrite::acknowledge);
        Ok(())
    }

    /// Does what the background threads ask for, if nothing is under way.
    fn serve_requests(&mut self) -> Result<(), StorageError> {
        if !self.requests.is_empty() && !self.node.is_settled() && self.waits_in_vain() {
            tracing::warn!("what this node has sent does not count; it waits no longer for that");
            self.node.give_up(&Refused::OutcomeUnknown);
        }
        while self.node.is_settled()
            && let Some(request) = self.requests.pop_front()
        {
            // Whoever sent it may have stopped waiting, because the engine is closing.
            match request {
                ToWriter::Install { built, installed } => {
                    let view = self.node.install(&built);
                    self.publish();
                    drop(installed.send(view));
                }
                ToWriter::Freeze { frozen } => {
                    let state = self.node.freeze()?;
                    self.publish();
                    // A copy that is made of the snapshot needs no more of the log than follows.
                    self.store_position();
                    drop(frozen.send(state));
                }
                ToWriter::Sync { synced } => {
                    self.sync()?;
                    drop(synced.send(self.node.settle()?));
                }
                ToWriter::Write(_)
                | ToWriter::WriteAll(_)
                | ToWriter::Log
                | ToWriter::Halt(_)
                | ToWriter::Fail
                | ToWriter::Stop => {}
            }
        }
        Ok(())
    }

    fn publish(&self) {
        self.shared.publish(self.node.published());
    }

    /// Shows the rest of the program what the node does.
    fn show(&mut self) {
        if let Some(halt) = self.node.halted()
            && !std::mem::replace(&mut self.has_told_halt, true)
        {
            tracing::error!(why = %halt, "this copy goes no further; look-ups continue");
            // Where it is decides whether another log can be begun at it.
            self.store_position();
        }
        let chain = self.node.chain();
        let position = chain.position();
        let state = match self.node.halted() {
            Some(halt) => NodeState::Halted(halt.to_string()),
            None if self.node.leads(self.now_ms()) => NodeState::Leading,
            None if self.reading.has_caught_up => NodeState::Following,
            None => NodeState::CatchingUp,
        };
        let reading = &self.reading;
        self.shared.membership().set(Observed {
            state,
            leader: position.leader.as_ref().map(|leader| Arc::clone(&leader.address)),
            was_heard: reading.was_heard,
            is_outdated: reading.is_outdated(),
            has_caught_up: reading.has_caught_up,
            heard_at: reading.heard_at,
            level_at: reading.level_at,
            decided_ms: (!chain.follows_primary()).then_some(position.at_ms),
            fault: reading.fault().map(|(why, since)| (why.to_owned(), since)),
            full: reading.full.as_ref().map(Refused::to_string),
            not_kept: reading.not_kept().map(str::to_owned),
            lead_fault: self.takeover_ms.and(self.candidacy.fault()).map(str::to_owned),
            clock: self.candidacy.log_clock(),
            log: reading.holding.clone(),
            counts: self.appends.counts,
            last_refused: reading.last_refused().cloned(),
            read: position.at,
            ignored: reading.ignored,
        });
    }

    /// Stores how far the log was read, if it was.
    fn store_position(&mut self) {
        let Some(stored) = &mut self.stored else { return };
        let position = self.node.position();
        (stored.at, stored.bytes) = (clock::now(), 0);
        if self.appends.log.is_some() && stored.file.position != *position {
            stored.file.position.clone_from(position);
            stored.write(self.shared.identity);
        }
    }
}

/// The configured time, and up to a third of it more, so that two nodes seldom try at once; `None`
/// for a follower, which never leads.
fn drawn_takeover_ms(shared: &Shared) -> Option<u64> {
    let least = shared.membership().node()?.takeover_ms;
    Some(least + drawn() % (least / 3).max(1))
}

fn drawn() -> u64 {
    u64::from_le_bytes(random::bytes().expect("the system has given random numbers before"))
}

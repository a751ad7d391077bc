//! A pull consumer that is replaced whenever something unexpected happens.
//!
//! It is in the memory of one server and acknowledges nothing, so losing it loses nothing: the next
//! one begins at the next position. The library has an ordered consumer that does this too, but it
//! passes over gaps.
//!
//! A consumer alone does not notice that the stream was wiped: it waits for a position that will
//! come again one day. So the leader of the stream is asked once a second where it ends. That also
//! confirms the end, and finds a consumer that stands still. What the log has lost is reported when
//! it was found twice, half a second apart, because a server that has just begun to lead may not
//! have caught up.
//!
//! A server whose copy of an entry is damaged passes over it in silence. So a gap is looked at more
//! often, through consumers that may be on other servers, and the leader of the stream is asked for
//! what is missing.

use std::mem::discriminant;
use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::pull::{Config, MessagesError, Stream};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use nearprint_engine::log::{LogBounds, LogEntry, LogError, Reader};
use tokio::time::{sleep, timeout};

use super::{NatsLog, unix_ms, unreachable};

/// How often the consumer says that it is there. After twice this time without a sign it is
/// replaced.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// A request for entries ends after this time, and is made again.
const REQUEST_EXPIRES: Duration = Duration::from_secs(30);
/// How many entries are requested at once, and again when half of them came. They wait in memory:
/// at most 24 MiB of the largest messages.
const REQUEST_ENTRIES: usize = 64;
/// The server forgets a consumer that nobody has read for this time.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);
/// The pause before a consumer is replaced, so that one that fails at once is not made too often.
const REPLACE_PAUSE: Duration = Duration::from_millis(100);
/// The pause before something that was found to be wrong is looked at again.
const SUSPICION_PAUSE: Duration = Duration::from_millis(500);
/// A gap is reported when so many consumers in a row, each on a server that was drawn, have found
/// it.
const GAP_LOOKS: u32 = 10;
/// How often the leader of the stream is asked where it ends.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct NatsReader {
    log: NatsLog,
    /// The position of the next entry.
    next: u64,
    consumer: Consumer,
    check: BoxFuture<'static, Checked>,
    /// Where the log ends, if its leader has told it of late.
    last: Option<u64>,
    /// The next entry at the last check, if the log had it.
    awaited: Option<u64>,
    /// What seems to be lost, and how often it was found.
    suspected: Option<(LogError, u32)>,
    /// The server of the newest consumer.
    server: Option<String>,
}

/// A consumer that was made.
struct Opened {
    messages: Stream,
    bounds: LogBounds,
    server: Option<String>,
    /// What it passes over, from the leader of the stream.
    missing: Option<LogEntry>,
}

enum Consumer {
    /// It is being made; why the last one was given up.
    Opening(BoxFuture<'static, Result<Opened, LogError>>, String),
    Open(Box<Stream>),
}

/// What a check has found, and which entry was the next when it began.
struct Checked {
    next: u64,
    bounds: Result<LogBounds, LogError>,
}

enum Event {
    Opened(Result<Opened, LogError>),
    Message(Option<Result<Message, MessagesError>>),
    Checked(Checked),
}

impl NatsReader {
    pub(super) fn new(log: NatsLog, next: u64) -> Self {
        Self {
            consumer: open(&log, next, (Duration::ZERO, "it is being connected to"), false),
            check: check(&log, next),
            log,
            next,
            last: None,
            awaited: None,
            suspected: None,
            server: None,
        }
    }

    /// Waits for the next entry. May be dropped and called again at any time.
    async fn advance(&mut self) -> Result<LogEntry, LogError> {
        loop {
            let event = match &mut self.consumer {
                Consumer::Opening(opening, _) => Event::Opened(opening.await),
                Consumer::Open(messages) => tokio::select! {
                    biased;
                    message = messages.next() => Event::Message(message),
                    checked = &mut self.check => Event::Checked(checked),
                },
            };
            match event {
                Event::Opened(Ok(opened)) => {
                    self.last = Some(opened.bounds.last);
                    self.awaited = None;
                    let passed_over = std::mem::replace(&mut self.server, opened.server);
                    self.consumer = Consumer::Open(Box::new(opened.messages));
                    if let Some(entry) = opened.missing {
                        (self.next, self.suspected) = (entry.at + 1, None);
                        self.check = check(&self.log, self.next);
                        tracing::warn!(
                            entry = entry.at,
                            server = passed_over.unwrap_or_default(),
                            "a server of the log has passed over an entry, which may be damaged \
                             there; another has it"
                        );
                        return Ok(entry);
                    }
                    self.check = check(&self.log, self.next);
                }
                Event::Opened(Err(error)) => self.suspect(error)?,
                Event::Message(message) => {
                    if let Some(entry) = self.take(message)? {
                        return Ok(entry);
                    }
                }
                Event::Checked(checked) => self.compare(checked)?,
            }
        }
    }

    fn take(
        &mut self,
        message: Option<Result<Message, MessagesError>>,
    ) -> Result<Option<LogEntry>, LogError> {
        let read = match message {
            Some(Ok(message)) => match message.info() {
                Ok(info) => {
                    let (at, at_ms) = (info.stream_sequence, unix_ms(info.published));
                    Ok((at, message.message.payload, at_ms))
                }
                Err(error) => Err(error.to_string()),
            },
            Some(Err(error)) => Err(error.to_string()),
            None => Err("its connection was closed".to_owned()),
        };
        match read {
            Ok((at, bytes, at_ms)) if at == self.next => {
                self.next += 1;
                self.suspected = None;
                return Ok(Some(LogEntry { at, bytes: bytes.as_ref().into(), at_ms }));
            }
            // Perhaps the message was lost on its way here. The next consumer will tell.
            Ok((got, ..)) if got > self.next => {
                self.suspect(LogError::Gap { read: self.next - 1, got })?;
            }
            Ok(_) => self.replace(REPLACE_PAUSE, "it repeats entries"),
            Err(why) => self.replace(REPLACE_PAUSE, &why),
        }
        Ok(None)
    }

    /// Compares what was read with where the log ends.
    fn compare(&mut self, Checked { next, bounds }: Checked) -> Result<(), LogError> {
        self.check = check(&self.log, self.next);
        match bounds {
            Ok(bounds) => {
                self.last = Some(bounds.last);
                if let Err(lost) = is_there(next, bounds) {
                    return self.suspect(lost);
                }
                let awaited = (self.next <= bounds.last).then_some(self.next);
                if awaited.is_some() && awaited == self.awaited {
                    self.replace(REPLACE_PAUSE, "its consumer stood still");
                }
                self.awaited = awaited;
                Ok(())
            }
            Err(LogError::Unreachable(_)) => {
                self.last = None;
                Ok(())
            }
            Err(lost) => self.suspect(lost),
        }
    }

    /// Looks again at what has been found to be wrong; an error if it was found before.
    fn suspect(&mut self, error: LogError) -> Result<(), LogError> {
        if matches!(error, LogError::Unreachable(_)) {
            self.replace(REPLACE_PAUSE, &error.to_string());
            return Ok(());
        }
        let is_same = |known: &LogError| discriminant(known) == discriminant(&error);
        let before = self.suspected.take().filter(|(known, _)| is_same(known));
        let found = before.map_or(1, |(_, times)| times + 1);
        let looks = if matches!(error, LogError::Gap { .. }) { GAP_LOOKS } else { 2 };
        self.suspected = Some((error.clone(), found));
        self.replace(SUSPICION_PAUSE, &error.to_string());
        if found >= looks { Err(error) } else { Ok(()) }
    }

    fn replace(&mut self, pause: Duration, why: &str) {
        tracing::debug!(why, next = self.next, "reads the log with another consumer");
        self.last = None;
        let has_gap = matches!(self.suspected, Some((LogError::Gap { .. }, _)));
        self.consumer = open(&self.log, self.next, (pause, why), has_gap);
    }

    /// What it means that no entry came in time.
    fn silence(&self) -> Result<Option<LogEntry>, LogError> {
        let missing = || LogError::Unreachable(format!("entry {} has not come", self.next));
        match (&self.consumer, self.last) {
            (Consumer::Open(_), Some(last)) if last < self.next => Ok(None),
            (Consumer::Open(_), _) => Err(missing()),
            (Consumer::Opening(_, why), _) => {
                Err(LogError::Unreachable(self.log.why_unreachable(why.clone())))
            }
        }
    }
}

impl Reader for NatsReader {
    fn next(&mut self, wait: Duration) -> Result<Option<LogEntry>, LogError> {
        let runtime = self.log.runtime.clone();
        match runtime.block_on(async { timeout(wait, self.advance()).await }) {
            Ok(read) => read.map(Some),
            Err(_elapsed) => self.silence(),
        }
    }
}

impl std::fmt::Debug for NatsReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NatsReader")
            .field("log", &self.log)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

/// Whether the log has the entry before the next one, and may have the next one.
fn is_there(next: u64, LogBounds { first, last }: LogBounds) -> Result<(), LogError> {
    if last + 1 < next {
        Err(LogError::Regressed { last, read: next - 1 })
    } else if first > next {
        Err(LogError::discarded_before(first))
    } else {
        Ok(())
    }
}

fn check(log: &NatsLog, next: u64) -> BoxFuture<'static, Checked> {
    let log = log.clone();
    Box::pin(async move {
        sleep(CHECK_INTERVAL).await;
        Checked { next, bounds: log.current_bounds().await }
    })
}

/// Makes a consumer after a pause. After a gap, what is missing is asked for, too.
fn open(log: &NatsLog, next: u64, (pause, why): (Duration, &str), has_gap: bool) -> Consumer {
    let log = log.clone();
    let opening = async move {
        sleep(pause).await;
        let bounds = log.current_bounds().await?;
        is_there(next, bounds)?;
        let stream = log.context.get_stream_no_info(&*log.stream).await.map_err(unreachable)?;
        let missing = if has_gap { log.stored_entry(next).await? } else { None };
        let start_sequence = next + u64::from(missing.is_some());
        let config = Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence },
            ack_policy: AckPolicy::None,
            memory_storage: true,
            num_replicas: 1,
            inactive_threshold: FORGOTTEN_AFTER,
            ..Config::default()
        };
        let consumer = stream.create_consumer(config).await.map_err(unreachable)?;
        let cluster = consumer.cached_info().cluster.as_ref();
        let server = cluster.and_then(|cluster| cluster.leader.clone());
        let messages = consumer.stream().heartbeat(HEARTBEAT).expires(REQUEST_EXPIRES);
        let messages = messages.max_messages_per_batch(REQUEST_ENTRIES).messages().await;
        Ok(Opened { messages: messages.map_err(unreachable)?, bounds, server, missing })
    };
    Consumer::Opening(Box::pin(opening), why.to_owned())
}

//! The replicated log on NATS `JetStream`: a stream with one subject.
//!
//! ```text
//!   options   how the servers are reached, and how a stream is made
//!   reader    a pull consumer that is replaced whenever something unexpected happens
//!   monitors  whether the servers sync what they acknowledge
//! ```
//!
//! Nothing of `JetStream` is used but one order, three synced copies and reading from a position.
//! In a cluster its conditional appends are checked by the leader of the stream alone, so no safety
//! rests on them; nor on its deduplication.
//!
//! The methods wait for the servers on the thread that calls them. It must not be one of the async
//! runtime, whose threads do the work.

mod monitors;
mod options;
mod reader;

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::datetime::DateTime;
use async_nats::jetstream::context::{
    ContextBuilder, CreateStreamError, CreateStreamErrorKind, GetStreamErrorKind, PublishError,
    PublishErrorKind,
};
use async_nats::jetstream::stream::{
    ClusterInfo, Config, DiscardPolicy, Info, PeerInfo, RawMessageErrorKind, RetentionPolicy,
    StorageType,
};
use async_nats::jetstream::{Context, Error as JetStreamError, ErrorCode};
use bytes::Bytes;
use futures_util::FutureExt as _;
use nearprint_engine::log::{Log, LogBounds, LogEntry, LogError, LogSettings, Reader};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use self::options::ConnectionFault;
pub use self::options::{NatsOptions, NewStream, SignIn};
use self::reader::NatsReader;

/// A question to the servers, or an append, has no answer after this time. A server that was killed
/// is replaced by another long before.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Servers that have just started elect their leader within this time.
const BEGINS_WITHIN: Duration = Duration::from_secs(15);
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// A server that the leader of the stream has not heard for this time does not follow it. Servers
/// are heard every second.
const FOLLOWS_MAX: Duration = Duration::from_secs(5);
/// The most appends without an answer. Many more than a leader has under way.
const UNACKNOWLEDGED_MAX: usize = 1_024;

/// The names of streams begin with this, so that an operator knows whose they are.
const STREAM_PREFIX: &str = "NEARPRINT_";
/// The longest name of a log in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// A log on NATS `JetStream`. Clones share the connection.
#[derive(Debug, Clone)]
pub struct NatsLog {
    runtime: Handle,
    context: Context,
    stream: Arc<str>,
    identity: u64,
    monitors: Arc<[String]>,
    connection_fault: ConnectionFault,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// The name cannot be that of a stream.
    #[error(
        "a log cannot have the name {0:?}; use up to {NAME_BYTES_MAX} letters, digits, - and _ of \
         ASCII"
    )]
    Name(String),
    /// A file or URL of the options cannot be used.
    #[error("{what}: {source}")]
    Options {
        /// Which one.
        what: String,
        /// Why.
        source: std::io::Error,
    },
    /// The servers cannot be reached, or do not let the node in.
    #[error("cannot connect to the servers of the log: {0}")]
    Unreachable(String),
    /// There is no such stream.
    #[error("the servers have no stream {0}; make it with `nearprint cluster create`")]
    Missing(String),
    /// There is such a stream already.
    #[error("the servers have a stream {0} already; nothing was changed")]
    Exists(String),
    /// The stream was made or changed by someone else, and does not keep what it must.
    #[error("stream {stream} cannot be the log: {what}")]
    Unsuitable {
        /// Its name.
        stream: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The servers refuse to make the stream.
    #[error("the servers do not make stream {stream}: {reason}")]
    Refused {
        /// Its name.
        stream: String,
        /// What they say.
        reason: String,
    },
}

impl NatsLog {
    /// Connects to a log that exists.
    ///
    /// # Errors
    /// [`NatsError`].
    pub fn open(options: &NatsOptions, runtime: &Handle) -> Result<Self, NatsError> {
        let name = stream_name(&options.name)?;
        runtime.block_on(async {
            let (context, fault) = connect(options).await?;
            let stream = context.get_stream(&name).await.map_err(|error| {
                if is_not_found(error.kind()) {
                    NatsError::Missing(name)
                } else {
                    NatsError::Unreachable(error.to_string())
                }
            })?;
            Self::of((context, fault), stream.cached_info(), options)
        })
    }

    /// Makes a log, which is empty. Waits for servers that have just started: they make no stream
    /// before they have a leader.
    ///
    /// # Errors
    /// [`NatsError`].
    pub fn create(
        options: &NatsOptions,
        new: NewStream,
        runtime: &Handle,
    ) -> Result<Self, NatsError> {
        let name = stream_name(&options.name)?;
        runtime.block_on(async {
            let (context, fault) = connect(options).await?;
            let began = Instant::now();
            while !is_missing(&context, &name).await? && began.elapsed() < BEGINS_WITHIN {
                sleep(ASK_AGAIN).await;
            }
            // Creating a stream that exists with the same settings is no error, so it may be tried
            // again when it is not known whether it was made.
            let stream = loop {
                match context.create_stream(config(&name, new)).await {
                    Ok(stream) => break stream,
                    Err(error) if is_temporary(error.kind()) && began.elapsed() < BEGINS_WITHIN => {
                        sleep(ASK_AGAIN).await;
                    }
                    Err(error) => return Err(not_made(name, &error)),
                }
            };
            Self::of((context, fault), stream.cached_info(), options)
        })
    }

    /// Called on the runtime.
    fn of(
        (context, connection_fault): (Context, ConnectionFault),
        info: &Info,
        options: &NatsOptions,
    ) -> Result<Self, NatsError> {
        if let Some(what) = unsuitable(&info.config) {
            return Err(NatsError::Unsuitable { stream: info.config.name.clone(), what });
        }
        Ok(Self {
            runtime: Handle::current(),
            context,
            stream: info.config.name.as_str().into(),
            identity: identity(info),
            monitors: options.monitors.as_slice().into(),
            connection_fault,
        })
    }

    /// Why there is no connection, if there is none and the servers have said why; otherwise this.
    fn why_unreachable(&self, otherwise: String) -> String {
        let is_connected = self.context.client().connection_state() == State::Connected;
        self.connection_fault.get().filter(|_| !is_connected).unwrap_or(otherwise)
    }

    /// What the leader of the stream knows of it.
    async fn info(&self) -> Result<Info, LogError> {
        let stream = self.context.get_stream_no_info(&*self.stream).await;
        let stream = stream.map_err(unreachable)?;
        let info = stream.get_info().await.map_err(unreachable)?;
        if info.cluster.as_ref().is_none_or(has_quorum) {
            Ok(info)
        } else {
            let reason = "its stream has no leader that a majority of its servers follows";
            Err(LogError::Unreachable(reason.to_owned()))
        }
    }

    /// What the leader of the stream has at a position. Readers read from any of its servers.
    async fn stored_entry(&self, at: u64) -> Result<Option<LogEntry>, LogError> {
        let stream = self.context.get_stream_no_info(&*self.stream).await.map_err(unreachable)?;
        match stream.get_raw_message(at).await {
            Ok(stored) => {
                let (bytes, at_ms) = (stored.payload.as_ref().into(), unix_ms(stored.time));
                Ok(Some(LogEntry { at: stored.sequence, bytes, at_ms }).filter(|e| e.at == at))
            }
            Err(error) => match error.kind() {
                RawMessageErrorKind::NoMessageFound => Ok(None),
                RawMessageErrorKind::InvalidSubject
                | RawMessageErrorKind::JetStream(_)
                | RawMessageErrorKind::Other => Err(unreachable(error)),
            },
        }
    }

    async fn current_bounds(&self) -> Result<LogBounds, LogError> {
        let info = self.info().await?;
        if identity(&info) != self.identity {
            return Err(LogError::Another { identity: identity(&info) });
        }
        let (state, last) = (&info.state, info.state.last_sequence);
        Ok(LogBounds {
            first: if state.messages == 0 { last + 1 } else { state.first_sequence },
            last,
        })
    }
}

impl Log for NatsLog {
    fn append(&self, entry: Arc<[u8]>) -> oneshot::Receiver<Result<u64, LogError>> {
        let (answer, receiver) = oneshot::channel();
        let refuse = |answer: oneshot::Sender<_>, reason: &str| {
            drop(answer.send(Err(LogError::Unreachable(reason.to_owned()))));
        };
        // What waits for a connection would take memory, and come when nobody wants it any more.
        if self.context.client().connection_state() != State::Connected {
            refuse(answer, "there is no connection to its servers");
            return receiver;
        }
        let _timers = self.runtime.enter();
        let payload = Bytes::from_owner(entry);
        // Sending only puts the entry into the queue of the connection. If the queue is full, it
        // would wait, and nothing has been sent.
        match self.context.publish(self.stream.to_string(), payload).now_or_never() {
            Some(Ok(acknowledgement)) => {
                drop(self.runtime.spawn(async move {
                    let acknowledged = acknowledgement.await;
                    let position = acknowledged.map(|acknowledged| acknowledged.sequence);
                    drop(answer.send(position.map_err(|error| not_appended(&error))));
                }));
            }
            Some(Err(error)) => drop(answer.send(Err(not_appended(&error)))),
            None => refuse(answer, "too many entries wait to be sent"),
        }
        receiver
    }

    fn read(&self, from: u64) -> Box<dyn Reader> {
        Box::new(NatsReader::new(self.clone(), from))
    }

    fn entry(&self, at: u64) -> Result<Option<LogEntry>, LogError> {
        self.runtime.block_on(self.stored_entry(at))
    }

    fn bounds(&self) -> Result<LogBounds, LogError> {
        self.runtime.block_on(self.current_bounds())
    }

    fn settings(&self) -> Result<LogSettings, LogError> {
        let info = self.runtime.block_on(self.info())?;
        if let Some(what) = unsuitable(&info.config) {
            return Err(LogError::Refused(what.to_owned()));
        }
        let server = self.context.client().server_info();
        let entry_bytes_max = u64::try_from(info.config.max_message_size)
            .map_or(u64::MAX, |limit| if limit == 0 { u64::MAX } else { limit })
            .min(server.max_payload as u64);
        let servers = info.cluster.as_ref().map_or_else(
            || vec![server.server_name.clone()],
            |cluster| {
                let replicas = cluster.replicas.iter().map(|replica| replica.name.clone());
                cluster.leader.iter().cloned().chain(replicas).collect()
            },
        );
        Ok(LogSettings {
            identity: identity(&info),
            replicas: u32::try_from(info.config.num_replicas).unwrap_or(u32::MAX),
            syncs: monitors::all_sync(&self.monitors, &servers),
            bytes_max: u64::try_from(info.config.max_bytes).unwrap_or(u64::MAX),
            bytes: info.state.bytes,
            leader: info.cluster.as_ref().and_then(|cluster| cluster.leader.clone()),
            behind: info.cluster.as_ref().map_or_else(Vec::new, behind),
            entry_bytes_max,
        })
    }
}

/// The servers that do not follow the leader of the stream.
fn behind(cluster: &ClusterInfo) -> Vec<String> {
    let is_behind = |replica: &&PeerInfo| replica.offline || replica.active >= FOLLOWS_MAX;
    cluster.replicas.iter().filter(is_behind).map(|replica| replica.name.clone()).collect()
}

/// Whether what is told of the stream is what a majority of its servers has. Without a leader the
/// servers tell of an empty stream, and a leader that was cut off goes on to tell what it has.
fn has_quorum(cluster: &ClusterInfo) -> bool {
    let follows = |replica: &&PeerInfo| !replica.offline && replica.active < FOLLOWS_MAX;
    let heard = 1 + cluster.replicas.iter().filter(follows).count();
    let is_led = cluster.leader.as_ref().is_some_and(|leader| !leader.is_empty());
    is_led && 2 * heard > 1 + cluster.replicas.len()
}

async fn connect(options: &NatsOptions) -> Result<(Context, ConnectionFault), NatsError> {
    let (client, fault) = options.connect().await?;
    let context = ContextBuilder::new()
        .timeout(REQUEST_TIMEOUT)
        .max_ack_inflight(UNACKNOWLEDGED_MAX)
        .backpressure_on_inflight(false)
        .build(client);
    Ok((context, fault))
}

/// Whether there is no such stream; false if the servers do not know it yet.
///
/// # Errors
/// [`NatsError::Exists`].
async fn is_missing(context: &Context, name: &str) -> Result<bool, NatsError> {
    match context.get_stream(name).await {
        Ok(_) => Err(NatsError::Exists(name.to_owned())),
        Err(error) => Ok(is_not_found(error.kind())),
    }
}

fn is_not_found(kind: GetStreamErrorKind) -> bool {
    matches!(kind, GetStreamErrorKind::JetStream(refused)
        if refused.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// Whether the servers may make the stream a little later.
fn is_temporary(kind: CreateStreamErrorKind) -> bool {
    match kind {
        CreateStreamErrorKind::JetStream(refused) => {
            [ErrorCode::CLUSTER_NOT_AVAILABLE, ErrorCode::CLUSTER_NO_PEERS]
                .contains(&refused.error_code())
        }
        CreateStreamErrorKind::JetStreamUnavailable
        | CreateStreamErrorKind::TimedOut
        | CreateStreamErrorKind::Response => true,
        CreateStreamErrorKind::EmptyStreamName
        | CreateStreamErrorKind::InvalidStreamName
        | CreateStreamErrorKind::DomainAndExternalSet
        | CreateStreamErrorKind::NotFound
        | CreateStreamErrorKind::ResponseParse => false,
    }
}

fn not_made(stream: String, error: &CreateStreamError) -> NatsError {
    if let CreateStreamErrorKind::JetStream(refused) = error.kind()
        && refused.error_code() == ErrorCode::STREAM_NAME_EXIST
    {
        return NatsError::Exists(stream);
    }
    NatsError::Refused { stream, reason: error.to_string() }
}

/// The stream of the log of this name.
///
/// # Errors
/// [`NatsError::Name`].
pub(crate) fn stream_name(name: &str) -> Result<String, NatsError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_plain) {
        Ok(format!("{STREAM_PREFIX}{name}"))
    } else {
        Err(NatsError::Name(name.to_owned()))
    }
}

fn config(name: &str, new: NewStream) -> Config {
    Config {
        name: name.to_owned(),
        subjects: vec![name.to_owned()],
        description: Some("changes of a nearprint cluster, in order".to_owned()),
        storage: StorageType::File,
        num_replicas: new.replicas as usize,
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::Old,
        max_bytes: i64::try_from(new.bytes_max).unwrap_or(i64::MAX),
        max_messages: -1,
        max_messages_per_subject: -1,
        max_consumers: -1,
        deny_delete: true,
        deny_purge: true,
        ..Config::default()
    }
}

/// Why a stream does not keep every entry until there are too many bytes of newer ones.
fn unsuitable(config: &Config) -> Option<&'static str> {
    let rules = [
        (config.sealed, "it is sealed, so it takes no entries"),
        (config.subjects != [config.name.as_str()], "it has other subjects than its own name"),
        (config.storage != StorageType::File, "its entries are not in files"),
        (config.retention != RetentionPolicy::Limits, "it removes entries that were read"),
        (config.discard != DiscardPolicy::Old, "it refuses entries once it is full"),
        (!config.max_age.is_zero(), "it removes entries by their age"),
        (config.max_messages > 0, "it limits the number of entries"),
        (config.max_messages_per_subject > 0, "it limits the number of entries of a subject"),
        (config.allow_rollup, "an entry can replace those before it"),
        (config.mirror.is_some() || config.sources.is_some(), "it copies another stream"),
        (config.no_ack, "it does not acknowledge entries"),
    ];
    rules.iter().find_map(|(is_broken, what)| is_broken.then_some(*what))
}

/// When the stream was made: servers that restart know it, and a stream that is made anew has
/// another time.
fn identity(info: &Info) -> u64 {
    u64::try_from(info.created.unix_timestamp_nanos()).unwrap_or_default()
}

/// What the clock of a server said, in milliseconds since 1970.
fn unix_ms(time: DateTime) -> Option<u64> {
    u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok()
}

fn unreachable(error: impl std::error::Error) -> LogError {
    LogError::Unreachable(error.to_string())
}

/// Why an entry was not acknowledged: the servers refuse it, or did not answer.
fn not_appended(error: &PublishError) -> LogError {
    let refused = error.source().and_then(|source| source.downcast_ref::<JetStreamError>());
    match (error.kind(), refused) {
        (_, Some(refused)) if refused.error_code() != ErrorCode::CLUSTER_NOT_AVAILABLE => {
            LogError::Refused(refused.to_string())
        }
        (PublishErrorKind::MaxPayloadExceeded, _) => LogError::Refused(error.to_string()),
        _ => LogError::Unreachable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_without_a_majority_tells_nothing() {
        let replica = |seconds: u64, offline| {
            let active = seconds * 1_000_000_000;
            serde_json::json!({"name": "s", "current": true, "active": active, "offline": offline})
        };
        let (near, far, off) = (replica(1, false), replica(9, false), replica(1, true));
        let cases = [
            (Some("a"), vec![&near, &near], true),
            (Some("a"), vec![&near, &far], true),
            (Some("a"), vec![&far, &far], false),
            (Some("a"), vec![&off, &far], false),
            (Some("a"), vec![&far], false),
            (Some("a"), vec![], true),
            (Some(""), vec![&near, &near], false),
            (None, vec![&near, &near], false),
        ];
        for (leader, replicas, expected) in cases {
            let told = serde_json::json!({"leader": leader, "replicas": replicas});
            let cluster: ClusterInfo = serde_json::from_value(told.clone()).unwrap();
            assert_eq!(has_quorum(&cluster), expected, "{told}");
        }
    }
}

//! The log that a cluster begins with, which must be empty.

use std::sync::Arc;
use std::time::Duration;

use nearprint_engine::log::{Log as _, LogError, LogSettings};
use tokio::runtime::Runtime;

use crate::cli::error_report::ErrorReport;
use crate::cli::measure::arguments::bytes;
use crate::cli::measure::numbers;
use crate::replicas::ClusterOptions;
use crate::replicas::nats::{self, NatsError, NatsLog, NewStream};

/// A stream that was just made may not answer yet.
const ANSWERS: Duration = Duration::from_secs(20);
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// A node may have to read again what it has read since it stored its position: 64 MiB of messages
/// at most. With a log that keeps less than a few times that, nodes are filled anew that were away
/// for a moment.
const BYTES_MIN: u64 = 256 << 20;

/// Which log.
#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    /// The size from which the log discards its oldest entries, such as 64g; at least 256m. A node
    /// that was away for longer is filled from another one [default: 64 GiB]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    max_bytes: Option<u64>,
    /// Take the log that the servers have already; it must be empty
    #[arg(long, conflicts_with = "max_bytes")]
    existing: bool,
}

/// A log without entries that nodes can begin with.
pub(super) struct EmptyLog {
    log: NatsLog,
    settings: LogSettings,
    stream: String,
    runtime: Runtime,
}

impl EmptyLog {
    /// Makes it, or takes the one that is there if `args` say so, or `either`.
    ///
    /// # Errors
    /// What is wrong with it, and whether it was made.
    pub(super) fn open(
        options: &ClusterOptions,
        args: &LogArgs,
        either: bool,
    ) -> Result<Self, ErrorReport> {
        if let Some(bytes) = args.max_bytes.filter(|bytes| *bytes < BYTES_MIN) {
            let what = format!(
                "--max-bytes {bytes} is less than {}, and nodes keep that much behind; nothing was made",
                numbers::bytes(BYTES_MIN)
            );
            let next = "leave it out, or name a size that outlasts the longest repair of a node";
            return Err(ErrorReport::usage(what, next));
        }
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().map_err(|error| {
            let next = "look at the limits of this process: ulimit -a";
            ErrorReport::new("cannot start the runtime", next).because(error)
        })?;
        let log = if args.existing {
            NatsLog::open(&options.log, runtime.handle())
        } else {
            let bytes_max = args.max_bytes.unwrap_or(NewStream::default().bytes_max);
            let new = NewStream { replicas: options.required.replicas, bytes_max };
            match NatsLog::create(&options.log, new, runtime.handle()) {
                Err(NatsError::Exists(_)) if either => {
                    NatsLog::open(&options.log, runtime.handle())
                }
                made => made,
            }
        };
        let log = log.map_err(unusable)?;
        let stream = nats::stream_name(&options.log.name).map_err(unusable)?;
        let told = || Ok((log.bounds()?, log.settings()?));
        let (bounds, settings) = eventually(&runtime, told).map_err(|error| {
            let what = format!("stream {stream} does not answer");
            let next =
                "look at its servers, then run it again with --existing; no node was changed";
            ErrorReport::new(what, next).because(error)
        })?;
        if bounds.last > 0 {
            let what =
                format!("stream {stream} has entries, so it is the log of a cluster already");
            let next = "name another log: cluster.name; no node was changed";
            return Err(ErrorReport::new(what, next));
        }
        options.required.check(&settings).map_err(|unfit| {
            let what = format!("no node would begin with stream {stream}, which is empty");
            let next = "set its servers right (jetstream { sync_interval: always }, cluster.monitors, \
                        replicas), then run it again with --existing; no node was changed";
            ErrorReport::new(what, next).because(unfit)
        })?;
        Ok(Self { log, settings, stream, runtime })
    }

    pub(super) const fn identity(&self) -> u64 {
        self.settings.identity
    }

    /// Appends its first entry. More than once, if nothing tells whether it was appended: a
    /// repeated entry does not count.
    ///
    /// # Errors
    /// Perhaps it was appended.
    pub(super) fn append(&self, entry: &Arc<[u8]>) -> Result<(), LogError> {
        eventually(&self.runtime, || {
            let answer = self.log.append(Arc::clone(entry)).blocking_recv();
            let no_answer = |_| LogError::Unreachable("there is no answer".to_owned());
            answer.map_err(no_answer)?.map(drop)
        })
    }

    /// What it is, for people.
    pub(super) fn description(&self) -> String {
        let LogSettings { replicas, bytes_max, .. } = self.settings;
        let copies = if replicas == 1 { "1 copy" } else { &format!("{replicas} copies") };
        format!(
            "stream {}, {copies} of each entry, up to {}",
            self.stream,
            numbers::bytes(bytes_max)
        )
    }
}

/// Asks again while the log cannot be reached.
fn eventually<T>(
    runtime: &Runtime,
    mut ask: impl FnMut() -> Result<T, LogError>,
) -> Result<T, LogError> {
    let began = tokio::time::Instant::now();
    loop {
        match ask() {
            Err(LogError::Unreachable(_)) if began.elapsed() < ANSWERS => {
                runtime.block_on(tokio::time::sleep(ASK_AGAIN));
            }
            answer => return answer,
        }
    }
}

fn unusable(error: NatsError) -> ErrorReport {
    let next = match &error {
        NatsError::Exists(_) => {
            "if it is the log of a cluster, join that: start the node with an empty data directory; if \
             it is empty, run it again with --existing; otherwise name another log: cluster.name"
        }
        NatsError::Missing(_) => "leave out --existing, so that it is made",
        NatsError::Refused { .. } => {
            "a stream needs as many servers with JetStream as cluster.replicas, and room for --max-bytes"
        }
        NatsError::Name(_)
        | NatsError::Options { .. }
        | NatsError::Unreachable(_)
        | NatsError::Unsuitable { .. } => {
            "look at the servers of the log, and at the section [cluster] of the configuration"
        }
    };
    ErrorReport::new("there is no log to begin with; no node was changed", next).because(error)
}

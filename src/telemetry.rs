//! Logs: structured lines on standard error, as text for people or JSON for collectors.
//!
//! What is logged is decided where it happens (one line a request in [`crate::http`]); no line ever
//! holds the text of a document, an id or a fingerprint that a client sent.

use std::io::{self, BufWriter, IsTerminal as _, Stderr, Write};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How a line looks.
    pub format: Format,
    /// The least important level that is written.
    pub level: tracing::Level,
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people; coloured on a terminal.
    Text,
    /// One JSON object a line.
    Json,
}

/// So many lines wait to be written at most; what comes then is lost.
pub const LINES_WAITING_MAX: usize = 8_192;

/// How long lines gather: one write and one wake-up for all of them. Of 60,000 requests a second, 600
/// come meanwhile, few of [`LINES_WAITING_MAX`].
const GATHERING: Duration = Duration::from_millis(10);

/// The lines that were lost.
static LOST: OnceLock<ErrorCounter> = OnceLock::new();

/// How long the end of the process waits for the lines that wait to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Writes what waits when it is dropped; what nobody takes within a second is lost.
#[must_use = "lines are written until it is dropped"]
#[derive(Debug)]
pub struct Log(Option<WorkerGuard>);

impl Drop for Log {
    fn drop(&mut self) {
        let guard = self.0.take();
        let (ended, end) = mpsc::channel::<()>();
        // Where nobody reads the log, the guard says so on standard output; where that is closed, it
        // panics, which standard error is told: it may never return.
        let ends = thread::Builder::new().spawn(move || {
            drop(guard);
            drop(ended);
        });
        if ends.is_ok() {
            let _disconnected_or_late = end.recv_timeout(LAST_LINES);
        }
    }
}

/// Standard error as the thread that writes sees it, which flushes when no line waits: those that come
/// then wait for it in their queue, instead of each waking it.
#[derive(Debug)]
struct Gathered(BufWriter<Stderr>);

/// What is written at once; more lines are several writes.
const GATHERED_BYTES: usize = 64 << 10;

impl Write for Gathered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.0.buffer().is_empty() {
            return Ok(());
        }
        self.0.flush()?;
        thread::park_timeout(GATHERING);
        Ok(())
    }
}

/// Starts logging for the whole process. A second call changes nothing, so that tests may start
/// several servers.
///
/// A thread of its own writes, so that no request waits for whoever reads the log.
pub fn init(options: Options) -> Log {
    let (waiting, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(LINES_WAITING_MAX)
        .thread_name("log")
        .finish(Gathered(BufWriter::with_capacity(GATHERED_BYTES, io::stderr())));
    let lost = waiting.error_counter();
    let lines = fmt()
        .with_max_level(options.level)
        .with_target(false)
        .with_writer(waiting)
        // A line that cannot be written (the log's disk is full) is lost. Saying so on standard
        // error would panic in the middle of a request.
        .log_internal_errors(false);
    let begun = match options.format {
        Format::Text => lines.with_ansi(io::stderr().is_terminal()).try_init(),
        Format::Json => lines.json().flatten_event(true).try_init(),
    };
    // An error says that a subscriber is already there, which is what was asked for.
    if begun.is_ok() {
        LOST.get_or_init(|| lost);
    }
    Log(Some(guard))
}

/// How many lines were lost because too many waited.
pub fn lines_lost() -> u64 {
    LOST.get().map_or(0, |lost| lost.dropped_lines() as u64)
}

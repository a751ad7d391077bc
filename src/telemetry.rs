//! The log: structured lines on standard error, as text for people or JSON for collectors.
//!
//! Modules log where things happen (one line a request in [`crate::http`]). No line contains the
//! text of a document, or an id or fingerprint that a client sent.

use std::cell::RefCell;
use std::fmt::Debug;
use std::io::{self, BufWriter, IsTerminal as _, Stderr, Write};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::field::Field;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::time::FormatTime;

/// What is logged, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// The format of a line.
    pub format: LogFormat,
    /// The least important level that is written.
    pub level: tracing::Level,
}

/// The format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people; coloured on a terminal.
    Text,
    /// One JSON object a line.
    Json,
}

/// The maximum number of lines that wait to be written; further ones are lost.
pub const LINES_WAITING_MAX: usize = 8_192;

/// How long lines are gathered, so that they share one write and one wake-up. At 60,000 requests a
/// second 600 lines arrive meanwhile, a small part of [`LINES_WAITING_MAX`].
const GATHER_INTERVAL: Duration = Duration::from_millis(10);

static LOST: OnceLock<ErrorCounter> = OnceLock::new();

/// How long the end of the process waits for the last lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Writes the waiting lines when it is dropped. Lines that nobody reads within a second are lost.
#[must_use = "lines are written until it is dropped"]
#[derive(Debug)]
pub struct Log(Option<WorkerGuard>);

impl Drop for Log {
    fn drop(&mut self) {
        let guard = self.0.take();
        let (done, flushed) = mpsc::channel::<()>();
        // If nobody reads the log, dropping the guard may block forever: it prints a message on
        // standard output, and if that is closed, panics with a message on standard error.
        let spawned = thread::Builder::new().spawn(move || {
            drop(guard);
            drop(done);
        });
        if spawned.is_ok() {
            let _disconnected_or_late = flushed.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

/// Standard error with a buffer. The writing thread flushes it when no line waits, and then pauses,
/// so that lines arriving meanwhile wait in the queue instead of each waking the thread.
#[derive(Debug)]
struct Buffered(BufWriter<Stderr>);

/// The buffer size; more bytes take several writes.
const BUFFER_BYTES: usize = 64 << 10;

impl Write for Buffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.0.buffer().is_empty() {
            return Ok(());
        }
        self.0.flush()?;
        thread::park_timeout(GATHER_INTERVAL);
        Ok(())
    }
}

/// Starts logging for the whole process. A second call changes nothing, so that tests may start
/// several servers.
///
/// A thread of its own writes, so that no request waits for a slow reader of the log.
pub fn init(options: LogOptions) -> Log {
    let (waiting, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(LINES_WAITING_MAX)
        .thread_name("log")
        .finish(Buffered(BufWriter::with_capacity(BUFFER_BYTES, io::stderr())));
    let lost = waiting.error_counter();
    let lines = fmt()
        .with_max_level(options.level)
        .with_target(false)
        .with_timer(Utc)
        .with_writer(waiting)
        // A line that cannot be written (the log's disk is full) is lost. Reporting it on standard
        // error would panic in the middle of a request.
        .log_internal_errors(false);
    let initialized = match options.format {
        LogFormat::Text if io::stderr().is_terminal() => lines.try_init(),
        LogFormat::Text => lines.with_ansi(false).fmt_fields(plain_fields()).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    // An error means that a subscriber is installed already.
    if initialized.is_ok() {
        LOST.get_or_init(|| lost);
    }
    Log(Some(guard))
}

/// Writes fields as the default formatter does, but without asking for a colour at each of them.
/// That halves the cost of a line, which was a quarter of the instructions of a health check.
fn plain_fields() -> impl for<'writer> FormatFields<'writer> {
    let field = |writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| match field.name() {
        "message" => write!(writer, "{value:?}"),
        name => write!(writer, "{name}={value:?}"),
    };
    debug_fn(field).delimited(" ")
}

/// The time in UTC with microseconds, in the format of RFC 3339. Each thread formats the date and
/// the second once a second, because they take a quarter of the cost of a line.
struct Utc;

#[expect(clippy::disallowed_methods, reason = "the time of a line in the log decides nothing")]
impl FormatTime for Utc {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        thread_local! {
            static SECOND: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
        }
        let since_epoch = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = since_epoch();
        SECOND.with_borrow_mut(|(second, text)| {
            if *second == now.as_secs() {
                return write!(writer, "{text}.{:06}Z", now.subsec_micros());
            }
            text.clear();
            fmt::time::SystemTime.format_time(&mut Writer::new(text))?;
            writer.write_str(text)?;
            text.truncate("2026-01-31T23:59:59".len());
            // The formatter reads the clock itself, perhaps in the next second.
            *second =
                if since_epoch().as_secs() == now.as_secs() { now.as_secs() } else { u64::MAX };
            Ok(())
        })
    }
}

/// The number of lines that were lost because too many waited.
pub fn lines_lost() -> u64 {
    LOST.get().map_or(0, |lost| lost.dropped_lines() as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Written {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    fn lines(subscriber: impl FnOnce(Written) -> tracing::Dispatch) -> String {
        let written = Written::default();
        tracing::dispatcher::with_default(&subscriber(written.clone()), || {
            let (status, request_id) = (200_u16, "a \"quoted\" \u{1b}[31m name");
            tracing::info!(status, request_id, duration_us = 7_u64, "request");
            let error = io::Error::other("no space");
            tracing::error!(%error, source = Some("disk"), path = ?"/a b", "writes have stopped");
            tracing::warn!("only a message");
        });
        String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn plain_fields_are_those_of_the_library_without_colours() {
        let plain = lines(|writer| {
            let lines = fmt().with_ansi(false).without_time().with_writer(writer);
            lines.fmt_fields(plain_fields()).finish().into()
        });
        let library = lines(|writer| {
            fmt().with_ansi(false).without_time().with_writer(writer).finish().into()
        });
        assert_eq!(plain, library);
    }

    #[test]
    fn the_time_is_that_of_the_library_in_every_line() {
        for _ in 0..3 {
            let (mut ours, mut before, mut after) = (String::new(), String::new(), String::new());
            fmt::time::SystemTime.format_time(&mut Writer::new(&mut before)).unwrap();
            Utc.format_time(&mut Writer::new(&mut ours)).unwrap();
            fmt::time::SystemTime.format_time(&mut Writer::new(&mut after)).unwrap();
            // Texts of RFC 3339 with as many digits are in the order of their times.
            assert_eq!(ours.len(), before.len());
            assert!((&before..=&after).contains(&&ours), "{before} {ours} {after}");
        }
    }
}

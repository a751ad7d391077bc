//! Logs: structured lines on standard error, as text for people or JSON for collectors.
//!
//! What is logged is decided where it happens (one line a request in [`crate::http`]); no line ever
//! holds the text of a document, an id or a fingerprint that a client sent.

use std::io::IsTerminal as _;

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

/// Starts logging for the whole process. A second call changes nothing, so that tests may start
/// several servers.
pub fn init(options: Options) {
    let lines = fmt()
        .with_max_level(options.level)
        .with_target(false)
        .with_writer(std::io::stderr)
        // A line that cannot be written (the log's disk is full) is lost. Saying so on standard
        // error would panic in the middle of a request.
        .log_internal_errors(false);
    // An error here says that a subscriber is already there, which is what was asked for.
    drop(match options.format {
        Format::Text => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
        Format::Json => lines.json().flatten_event(true).try_init(),
    });
}

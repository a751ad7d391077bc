//! Error reports for people: what failed, why, and what to do next.

use std::error::Error;
use std::fmt;

use nearprint_storage::is_out_of_files;

use crate::cli::exit_code;
use crate::cli::printable::printable_lines;

/// What to do if the process may not open another file.
const OPEN_FILES_NEXT: &str = "raise the hard limit of open files (ulimit -H -n, LimitNOFILE=): each journal file of a \
     data directory is one";

/// An error with advice.
#[derive(Debug)]
pub struct ErrorReport {
    what: String,
    next: String,
    why: Option<anyhow::Error>,
    code: u8,
}

impl ErrorReport {
    /// `what` failed; `next` is what the reader can do about it.
    pub fn new(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), next: next.into(), why: None, code: exit_code::FAILED }
    }

    /// The command line is wrong.
    pub fn usage(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self::new(what, next).with_code(exit_code::USAGE)
    }

    /// Adds the cause, which is shown between the two.
    #[must_use]
    pub fn because(mut self, why: impl Into<anyhow::Error>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// Sets an exit code other than 1.
    #[must_use]
    pub fn with_code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }
}

/// The exit code of a process that ends with this error.
pub fn exit_code_of(error: &anyhow::Error) -> u8 {
    report_in(error).map_or(exit_code::FAILED, |report| report.code)
}

fn report_in(error: &anyhow::Error) -> Option<&ErrorReport> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

impl fmt::Display for ErrorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for ErrorReport {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.why.as_ref().map(|why| why.as_ref() as _)
    }
}

/// Whether another file could not be opened, which can happen to every command.
fn needs_more_files(error: &anyhow::Error) -> bool {
    let mut errors = error.chain().filter_map(|cause| cause.downcast_ref());
    errors.any(is_out_of_files)
}

/// The text of an error, a line each for what, why and next; without a final line end.
pub fn render(error: &anyhow::Error) -> String {
    let mut shown = error.to_string();
    let mut lines = vec![format!("error: {shown}")];
    for cause in error.chain().skip(1) {
        let why = cause.to_string();
        // Many libraries repeat their cause in their own message.
        if !shown.contains(&why) {
            lines.push(format!("  why: {why}"));
        }
        shown = why;
    }
    let next = if needs_more_files(error) {
        Some(OPEN_FILES_NEXT)
    } else {
        report_in(error).map(|report| report.next.as_str())
    };
    lines.extend(next.map(|next| format!("  next: {next}")));
    // It may have text of others: of a service, or of a file.
    printable_lines(&lines.join("\n")).into_owned()
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_limit_of_open_files_is_named_whatever_was_opened() {
        let error = anyhow::Error::new(io::Error::from(Errno::MFILE)).context("cannot open it");
        assert!(render(&error).contains("next: raise the hard limit of open files"));
        let error = ErrorReport::new("not read", "look at it").because(error);
        assert!(render(&error.into()).contains("next: raise the hard limit of open files"));
        let other = anyhow::Error::new(io::Error::from(Errno::NOENT)).context("cannot open it");
        assert!(!render(&other).contains("next:"));
    }

    #[test]
    fn text_of_others_cannot_command_the_terminal() {
        let error = anyhow::anyhow!("the id \u{202e}").context("refused: \u{1b}[2J");
        assert_eq!(render(&error), "error: refused: \\u{1b}[2J\n  why: the id \\u{202e}");
    }

    #[test]
    fn what_why_and_next_have_a_line_each() {
        let report = ErrorReport::new("cannot reach the server", "start it")
            .because(anyhow::anyhow!("connection refused").context("connect: connection refused"));
        assert_eq!(
            render(&report.into()),
            concat!(
                "error: cannot reach the server\n",
                "  why: connect: connection refused\n",
                "  next: start it",
            )
        );
    }
}

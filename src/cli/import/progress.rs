//! The progress of an import: a bar on a terminal, a line every few seconds elsewhere.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use nearprint_files::{BytesRead, bytes_total};

use crate::cli::error_report::ErrorReport;
use crate::cli::printable::printable;

/// The time between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// How many bytes the inputs of a command have; `None` if one is a stream.
///
/// # Errors
/// One of them is not there, or cannot be read.
pub(crate) fn input_bytes(inputs: &[PathBuf]) -> Result<Option<u64>, ErrorReport> {
    bytes_total(inputs).map_err(|bad| {
        let is_pattern = bad.place.to_string().contains(['*', '?', '[']);
        let next = if is_pattern {
            "name files or folders that exist, or a pattern that matches some"
        } else {
            "name files, folders or patterns ('*.warc.gz') that exist and that you may read"
        };
        ErrorReport::new(bad.to_string(), next)
    })
}

/// Shows the progress of an import on standard error.
pub(crate) struct ImportProgress {
    bytes: BytesRead,
    total: Option<u64>,
    started: Instant,
    shown: Duration,
    /// Only on a terminal.
    bar: Option<ProgressBar>,
}

impl ImportProgress {
    /// For an input of `total` bytes, if that is known.
    pub(crate) fn new(total: Option<u64>, bytes: BytesRead) -> Self {
        Self {
            bytes,
            total,
            started: now(),
            shown: Duration::ZERO,
            bar: std::io::stderr().is_terminal().then(|| bar(total)),
        }
    }

    /// Shows how many documents are done.
    pub(crate) fn at(&mut self, documents: u64) {
        let elapsed = now().duration_since(self.started);
        let read = self.bytes.get();
        let left = self.total.and_then(|total| remaining(read, total, elapsed));
        let left =
            left.map_or(String::new(), |left| format!(", about {} left", HumanDuration(left)));
        let shown = format!("{}{left}", speed(documents, elapsed));
        if let Some(bar) = &self.bar {
            bar.set_message(shown);
            bar.set_position(read);
        } else if elapsed >= self.shown + LINE_INTERVAL {
            self.shown = elapsed;
            say!("{shown}");
        }
    }

    /// Prints a line above the bar.
    pub(crate) fn say(&self, line: &str) {
        let line = printable(line);
        match &self.bar {
            Some(bar) => bar.println(line),
            None => say!("{line}"),
        }
    }
}

impl Drop for ImportProgress {
    /// Removes the bar; the summary or an error follows.
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "{bar:30} {percent:>3}%  {msg}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {msg}"),
    };
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    bar.with_style(style.progress_chars("=> "))
}

fn speed(documents: u64, elapsed: Duration) -> String {
    let millis = u64::try_from(elapsed.as_millis()).map_or(1, |millis| millis.max(1));
    format!(
        "{} documents, {}/s",
        HumanCount(documents),
        HumanCount(documents.saturating_mul(1_000) / millis)
    )
}

/// The remaining time at the speed so far; `None` before anything was read, and once everything is:
/// how long the documents take that were read and not stored, nobody knows.
fn remaining(read: u64, total: u64, elapsed: Duration) -> Option<Duration> {
    let left = total.checked_sub(read).filter(|left| *left > 0)?;
    let millis = elapsed.as_millis() * u128::from(left);
    let millis = millis.checked_div(u128::from(read))?;
    Some(Duration::from_millis(u64::try_from(millis).ok()?))
}

#[expect(clippy::disallowed_methods, reason = "how long a person has waited decides nothing")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_the_speed_so_far_says() {
        let elapsed = Duration::from_secs(10);
        assert_eq!(remaining(0, 100, elapsed), None);
        assert_eq!(remaining(25, 100, elapsed), Some(Duration::from_secs(30)));
        assert_eq!(remaining(100, 100, elapsed), None);
        assert_eq!(remaining(110, 100, elapsed), None);
        assert_eq!(speed(5_000, elapsed), "5,000 documents, 500/s");
    }
}

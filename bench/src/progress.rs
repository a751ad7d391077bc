//! The progress of a benchmark: a bar on a terminal, a line for each step elsewhere.

use std::io::IsTerminal;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

/// A step of a benchmark, shown on standard error.
#[derive(Debug)]
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    /// A step with a length, such as fingerprints to store.
    pub(super) fn of(doing: &str, total: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            eprintln!("{doing}: {}", HumanCount(total));
            return Self(None);
        }
        let template = "{msg}  {bar:30} {percent:>3}%  {human_pos}, {per_sec}, {eta} left";
        let style = ProgressStyle::with_template(template).expect("the template is a constant");
        let bar = ProgressBar::new(total).with_style(style.progress_chars("=> "));
        Self(Some(bar.with_message(doing.to_owned())))
    }

    /// A step of unknown length.
    pub(super) fn during(doing: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            eprintln!("{doing}");
            return Self(None);
        }
        let style = ProgressStyle::with_template("{msg}").expect("the template is a constant");
        let bar = ProgressBar::new_spinner().with_style(style).with_message(doing.to_owned());
        bar.tick();
        Self(Some(bar))
    }

    /// Shows how much is done.
    pub(super) fn at(&self, done: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

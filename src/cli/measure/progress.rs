//! How far a bench is: a bar on a terminal, one line a step elsewhere.

use std::io::IsTerminal;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

/// A step of a bench, shown on the standard error.
#[derive(Debug)]
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// A step with a length, such as fingerprints to store.
    pub fn of(doing: &str, total: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            eprintln!("{doing}: {}", HumanCount(total));
            return Self(None);
        }
        let template = "{msg}  {bar:30} {percent:>3}%  {human_pos}, {per_sec}, {eta} left";
        let style = ProgressStyle::with_template(template).expect("the template is a constant");
        let bar = ProgressBar::new(total).with_style(style.progress_chars("=> "));
        Self(Some(bar.with_message(doing.to_owned())))
    }

    /// A step that ends when it ends.
    pub fn during(doing: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            eprintln!("{doing}");
            return Self(None);
        }
        let style = ProgressStyle::with_template("{msg}").expect("the template is a constant");
        let bar = ProgressBar::new_spinner().with_style(style).with_message(doing.to_owned());
        bar.tick();
        Self(Some(bar))
    }

    /// So much of it is done.
    pub fn at(&self, done: u64) {
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

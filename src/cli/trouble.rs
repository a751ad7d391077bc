//! Errors for people: what did not work, why, and what to do next.

use std::error::Error;
use std::fmt;

/// A failure with a way out of it.
#[derive(Debug)]
pub struct Trouble {
    what: String,
    next: String,
    why: Option<anyhow::Error>,
    code: u8,
}

/// The exit code of a command that did not do its work.
const FAILURE: u8 = 1;

impl Trouble {
    /// `what` did not work; `next` is what the reader can do about it.
    pub fn new(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), next: next.into(), why: None, code: FAILURE }
    }

    /// Keeps the cause, which is shown between the two.
    #[must_use]
    pub fn because(mut self, why: impl Into<anyhow::Error>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// Ends the process with this exit code instead of 1.
    #[must_use]
    pub fn with_code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }
}

/// The exit code of a process that ends with this error.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    of(error).map_or(FAILURE, |trouble| trouble.code)
}

fn of(error: &anyhow::Error) -> Option<&Trouble> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for Trouble {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.why.as_ref().map(|why| why.as_ref() as _)
    }
}

/// An error as it is printed, without its last line end.
pub fn for_people(error: &anyhow::Error) -> String {
    let mut said = error.to_string();
    let mut lines = vec![format!("error: {said}")];
    for cause in error.chain().skip(1) {
        let why = cause.to_string();
        // Many libraries repeat their cause in their own message.
        if !said.contains(&why) {
            lines.push(format!("  why: {why}"));
        }
        said = why;
    }
    if let Some(trouble) = of(error) {
        lines.push(format!("  next: {}", trouble.next));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_why_and_next_stand_on_a_line_each() {
        let trouble = Trouble::new("cannot reach the server", "start it")
            .because(anyhow::anyhow!("connection refused").context("connect: connection refused"));
        assert_eq!(
            for_people(&trouble.into()),
            concat!(
                "error: cannot reach the server\n",
                "  why: connect: connection refused\n",
                "  next: start it",
            )
        );
    }
}

//! Messages and questions for people, on standard error.
//!
//! A message that cannot be written (the disk of a log is full, its reader has left) is lost; the
//! work goes on, and the exit code tells how it ended. `eprintln!` would panic.

use std::fmt;
use std::io::{self, BufRead as _, IsTerminal as _, Write};

/// Prints a line on standard error, or loses it.
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::cli::messages::line(format_args!($($argument)*))
    };
}

/// Prints a line; see [`say!`].
pub(crate) fn line(line: fmt::Arguments<'_>) {
    // One write a line, so that those of several threads do not mix.
    drop(io::stderr().lock().write_all(format!("{line}\n").as_bytes()));
}

/// The standard error of a command, which never fails.
#[derive(Debug)]
pub(crate) struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        drop(io::stderr().lock().write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether somebody can be asked: the standard input is a terminal.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal()
}

/// Asks before something that cannot be undone; without a terminal the answer is no.
pub(crate) fn agreed(question: &str) -> io::Result<bool> {
    if !can_ask() {
        return Ok(false);
    }
    write!(StandardError, "{question} Type yes: ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}

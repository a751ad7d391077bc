//! A question before something that cannot be undone.

use std::io::{self, BufRead as _, IsTerminal as _};

/// Whether somebody can be asked: the standard input is a terminal.
pub(super) fn is_possible() -> bool {
    io::stdin().is_terminal()
}

/// Asks on standard error; without a terminal the answer is no.
pub(super) fn agreed(question: &str) -> io::Result<bool> {
    if !is_possible() {
        return Ok(false);
    }
    eprint!("{question} Type yes: ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}

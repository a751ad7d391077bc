//! The standard output of a command, whose reader may leave before the end.

use std::cell::Cell;
use std::io::{self, StdoutLock, Write};
use std::rc::Rc;

/// The standard output. When its reader has left (`nearprint ... | head`), it swallows what
/// follows, so that a command ends with its own verdict.
#[derive(Debug)]
pub struct StandardOutput {
    sink: StdoutLock<'static>,
    closed: Closed,
}

/// Tells whether the reader of the standard output has left.
#[derive(Debug, Clone, Default)]
pub(crate) struct Closed(Rc<Cell<bool>>);

impl Closed {
    pub(crate) fn is_closed(&self) -> bool {
        self.0.get()
    }
}

impl StandardOutput {
    /// Takes the standard output until it is dropped.
    pub fn lock() -> Self {
        Self { sink: io::stdout().lock(), closed: Closed::default() }
    }

    /// What a command with long output looks at, to stop early.
    pub(crate) fn closed(&self) -> Closed {
        self.closed.clone()
    }

    /// For data that must be whole: here a reader that has left is an error.
    pub(crate) fn whole(&mut self) -> &mut dyn Write {
        &mut self.sink
    }

    /// What an attempt came to; `lost` takes its place if the reader has left.
    fn unless_closed<T>(&self, tried: io::Result<T>, lost: T) -> io::Result<T> {
        match tried {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed.0.set(true);
                Ok(lost)
            }
            tried => tried,
        }
    }
}

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed.is_closed() {
            return Ok(bytes.len());
        }
        let tried = self.sink.write(bytes);
        self.unless_closed(tried, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.closed.is_closed() {
            return Ok(());
        }
        let tried = self.sink.flush();
        self.unless_closed(tried, ())
    }
}

//! Ctrl-C and SIGTERM: a command ends what it is doing in good order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

use crate::cli::exit_code;

/// Whether the user wants the command to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for signals from now on. The first one is noted and answered with a message, the
    /// second one ends the process.
    ///
    /// # Errors
    /// The process cannot listen for signals.
    pub(crate) fn listen(message: &'static str) -> std::io::Result<Self> {
        let interrupt = Self::default();
        let noted = interrupt.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let (mut interrupts, mut terminations) = runtime.block_on(async {
            let interrupts = signal(SignalKind::interrupt())?;
            Ok::<_, std::io::Error>((interrupts, signal(SignalKind::terminate())?))
        })?;
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async move {
                for _ in 0..2 {
                    tokio::select! {
                        _ = interrupts.recv() => {}
                        _ = terminations.recv() => {}
                    }
                    if noted.0.swap(true, Ordering::Relaxed) {
                        end();
                    }
                    eprintln!("{message}; once more to end at once");
                }
            });
        })?;
        Ok(interrupt)
    }

    /// Whether a signal came.
    pub(crate) fn is_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[expect(clippy::exit, reason = "what is being stored may wait for a service that does not reply")]
fn end() {
    std::process::exit(i32::from(exit_code::INTERRUPTED));
}

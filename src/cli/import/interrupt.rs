//! Ctrl-C and SIGTERM: a command ends what it is doing in good order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::cli::exit_code;

/// How long a command that waits for others may take to end by itself: a service may be silent, and
/// the other end of a pipe slow, or there may be none.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Whether the user wants the command to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_noted: AtomicBool,
    ends_at_once: AtomicBool,
}

impl Interrupt {
    /// Listens for signals from now on. The first one is noted and answered with a message, the
    /// second one ends the process.
    ///
    /// # Errors
    /// The process cannot listen for signals.
    pub(crate) fn listen(message: &'static str) -> std::io::Result<Self> {
        Self::listen_and(message, None)
    }

    /// The same for a command that waits for others, such as for a service, or to write to a pipe:
    /// the process also ends some time after the first signal. Nothing is lost by that, as files
    /// appear when they are whole, and the next run sends again what a service has not answered.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn listen_while_waiting(message: &'static str) -> std::io::Result<Self> {
        Self::listen_and(message, Some(ENDS_WITHIN))
    }

    fn listen_and(message: &'static str, within: Option<Duration>) -> std::io::Result<Self> {
        let interrupt = Self::default();
        let noted = interrupt.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut interrupts, mut terminations) = runtime.block_on(async {
            let interrupts = signal(SignalKind::interrupt())?;
            Ok::<_, std::io::Error>((interrupts, signal(SignalKind::terminate())?))
        })?;
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let mut next = async || {
                    tokio::select! {
                        _ = interrupts.recv() => {}
                        _ = terminations.recv() => {}
                    }
                };
                next().await;
                if noted.0.ends_at_once.load(Ordering::Relaxed) {
                    end();
                }
                noted.0.is_noted.store(true, Ordering::Relaxed);
                say!("{message}; once more to end at once");
                match within {
                    None => next().await,
                    Some(within) => {
                        if tokio::time::timeout(within, next()).await.is_err() {
                            say!("ended without waiting any longer; run the same command again");
                        }
                    }
                }
                end();
            });
        })?;
        Ok(interrupt)
    }

    /// Whether a signal came.
    pub(crate) fn is_noted(&self) -> bool {
        self.0.is_noted.load(Ordering::Relaxed)
    }

    /// From now on a signal ends the process: the work is done, and what is left is to print it.
    pub(crate) fn end_at_once(&self) {
        self.0.ends_at_once.store(true, Ordering::Relaxed);
    }
}

#[expect(clippy::exit, reason = "what is being stored may wait for a service that does not reply")]
fn end() {
    std::process::exit(i32::from(exit_code::INTERRUPTED));
}

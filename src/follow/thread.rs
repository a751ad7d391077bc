//! The thread that follows the primary.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearprint_client::PeerError;
use nearprint_engine::Engine;
use nearprint_engine::following::FollowEnd;
use nearprint_wire::code::Code;

use super::primary;
use super::state::{Following, SILENCE_MAX};

/// How long it waits before it asks the primary again: at first, and at most.
const AGAIN: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// The thread that follows; ends when it is dropped, as soon as its connection lets it.
#[derive(Debug)]
pub(crate) struct FollowThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FollowThread {
    /// Starts following.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub(crate) fn start(following: Arc<Following>, engine: Engine) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let run = move || Follower { following, engine, stopped, why: String::new() }.run();
        let thread = thread::Builder::new().name("follow".to_owned()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Asks it to end, and does not wait.
    pub(crate) fn ask_to_stop(&mut self) {
        drop(self.stop.take());
    }
}

impl Drop for FollowThread {
    fn drop(&mut self) {
        self.ask_to_stop();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Follower {
    following: Arc<Following>,
    engine: Engine,
    stopped: Receiver<()>,
    /// Why it waits, as the log has it.
    why: String,
}

/// Why following has ended, and what comes next.
enum Next {
    /// Asks again after a while.
    Again(String),
    /// The copy has to begin again with an export.
    Seed(String),
    /// Nothing: somebody has to look at it.
    Halt(String),
    Stop,
}

impl Follower {
    fn run(mut self) {
        let [first, longest] = AGAIN;
        let mut pause = first;
        loop {
            let mut heard = false;
            let next = self.follow(&mut heard);
            self.following.lost();
            if heard {
                pause = first;
            }
            match next {
                Next::Again(why) => self.tell(why),
                Next::Seed(why) => {
                    tracing::warn!(why, "this copy begins again with an export of the primary");
                    self.following.outdated.notify_one();
                    return;
                }
                Next::Halt(why) => {
                    tracing::error!(why, "stopped following; look-ups continue on this copy");
                    self.following.halt(why);
                    return;
                }
                Next::Stop => return,
            }
            if !matches!(self.stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                return;
            }
            pause = longest.min(pause * 2);
        }
    }

    /// Follows for as long as a connection lasts.
    fn follow(&mut self, heard: &mut bool) -> Next {
        let position = match self.engine.follower_position() {
            Ok(position) => position,
            Err(refused) => return Next::Again(refused.to_string()),
        };
        // The token is read each time, so that it can be replaced.
        let changes = primary::changes(&self.following.options, &position, SILENCE_MAX);
        let mut changes = match changes {
            Ok(changes) => changes,
            Err(error) => return after(&error),
        };
        let end = self.engine.follow(&mut changes, &mut |is_level| {
            if !*heard {
                tracing::info!(primary = self.following.primary(), "following");
            }
            *heard = true;
            self.why.clear();
            self.following.heard(is_level);
            matches!(self.stopped.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty))
        });
        match end {
            FollowEnd::Diverged(why) => Next::Halt(why),
            FollowEnd::Broken(why) => Next::Again(why),
            FollowEnd::Refused(refused) => Next::Again(refused.to_string()),
            FollowEnd::Stopped => Next::Stop,
        }
    }

    /// Logs why it waits, once.
    fn tell(&mut self, why: String) {
        if self.why != why {
            tracing::warn!(why, "cannot follow the primary; retrying");
            self.why = why;
        }
    }
}

/// What comes after an error of the primary.
fn after(error: &PeerError) -> Next {
    let code = match error {
        PeerError::Refused { code, .. } => *code,
        PeerError::Credentials(_) | PeerError::Unreachable { .. } => None,
    };
    match code {
        Some(Code::ChangesPacked) => Next::Seed(error.to_string()),
        Some(Code::Diverged) => Next::Halt(error.to_string()),
        _ => Next::Again(error.to_string()),
    }
}

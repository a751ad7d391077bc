//! How far a follower has come, for the replies and metrics of the service.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::forward::Forwarder;
use super::{FollowError, FollowOptions};

/// A primary that is beyond this without a word is taken for gone: it sends something every second.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(5);

/// The following of a primary by this service.
#[derive(Debug)]
pub(crate) struct Following {
    pub(super) options: FollowOptions,
    state: Mutex<State>,
    forwarder: Option<Forwarder>,
    /// The primary no longer has the changes that this copy lacks.
    pub(super) outdated: Notify,
}

#[derive(Debug)]
struct State {
    /// When it last had everything that the primary had; the start before that.
    level_at: Instant,
    /// Whether it ever had, since the start.
    was_level: bool,
    /// Whether it has now, as far as it knows.
    is_level: bool,
    heard_at: Option<Instant>,
    /// Why it follows no longer, for good.
    halted: Option<String>,
}

/// How far the copy has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    /// It has not had everything since it was started.
    CatchingUp,
    /// It has had everything, and goes on.
    Following,
    /// It follows no longer, and says why.
    Halted(String),
}

impl Following {
    /// # Errors
    /// [`FollowError`]: a file that the options name cannot be used.
    pub(crate) fn new(options: FollowOptions) -> Result<Self, FollowError> {
        let forwarder = options.forward.then(|| Forwarder::new(&options)).transpose()?;
        let state = State {
            level_at: Instant::now(),
            was_level: false,
            is_level: false,
            heard_at: None,
            halted: None,
        };
        Ok(Self { options, state: Mutex::new(state), forwarder, outdated: Notify::new() })
    }

    /// Resolves when the primary no longer has what this copy lacks.
    pub(crate) async fn outdated(&self) {
        self.outdated.notified().await;
    }

    /// The address of the primary.
    pub(crate) fn primary(&self) -> &str {
        &self.options.url
    }

    /// How requests that write are passed on, if they are.
    pub(crate) fn forwarder(&self) -> Option<&Forwarder> {
        self.forwarder.as_ref()
    }

    pub(crate) fn position(&self) -> Position {
        let state = self.state();
        match &state.halted {
            Some(why) => Position::Halted(why.clone()),
            None if state.was_level => Position::Following,
            None => Position::CatchingUp,
        }
    }

    /// How long ago it had everything that the primary had; none while it has everything.
    pub(crate) fn lag(&self) -> Duration {
        let state = self.state();
        let hears = state.heard_at.is_some_and(|at| at.elapsed() < SILENCE_MAX);
        if state.is_level && hears && state.halted.is_none() {
            Duration::ZERO
        } else {
            state.level_at.elapsed()
        }
    }

    /// The same in whole milliseconds.
    pub(crate) fn lag_ms(&self) -> u64 {
        u64::try_from(self.lag().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the primary was heard a moment ago.
    pub(crate) fn is_connected(&self) -> bool {
        let state = self.state();
        state.halted.is_none() && state.heard_at.is_some_and(|at| at.elapsed() < SILENCE_MAX)
    }

    /// Notes a message of the primary, and whether everything is enacted with it.
    pub(super) fn heard(&self, is_level: bool) {
        let mut state = self.state();
        let now = Instant::now();
        state.heard_at = Some(now);
        state.is_level = is_level;
        if is_level {
            (state.level_at, state.was_level) = (now, true);
        }
    }

    /// Notes that the connection has ended.
    pub(super) fn lost(&self) {
        let mut state = self.state();
        (state.is_level, state.heard_at) = (false, None);
    }

    pub(super) fn halt(&self, why: String) {
        self.state().halted = Some(why);
    }

    /// Poison is ignored: the fields are plain.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

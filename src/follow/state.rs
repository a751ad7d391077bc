//! How far a follower has come, for the replies and metrics of the service.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::FollowOptions;

/// A primary that is beyond this without a word is taken for gone: it sends something every second.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(5);

/// The following of a primary by this service.
#[derive(Debug)]
pub(crate) struct Following {
    pub(super) options: FollowOptions,
    progress: Mutex<Progress>,
    /// The primary no longer has the changes that this copy lacks.
    pub(super) outdated: Notify,
}

#[derive(Debug)]
struct Progress {
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

/// Whether a follower follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FollowState {
    /// It has not had everything since it was started.
    CatchingUp,
    /// It has had everything, and goes on.
    Following,
    /// It follows no longer, and says why.
    Halted(String),
}

impl Progress {
    fn is_connected(&self) -> bool {
        self.heard_at.is_some_and(|at| at.elapsed() < SILENCE_MAX)
    }
}

impl Following {
    pub(crate) fn new(options: FollowOptions) -> Self {
        let progress = Progress {
            level_at: Instant::now(),
            was_level: false,
            is_level: false,
            heard_at: None,
            halted: None,
        };
        Self { options, progress: Mutex::new(progress), outdated: Notify::new() }
    }

    /// Resolves when the primary no longer has what this copy lacks.
    pub(crate) async fn outdated(&self) {
        self.outdated.notified().await;
    }

    /// The address of the primary.
    pub(crate) fn primary(&self) -> &str {
        &self.options.url
    }

    pub(crate) fn state(&self) -> FollowState {
        let progress = self.progress();
        match &progress.halted {
            Some(why) => FollowState::Halted(why.clone()),
            None if progress.was_level => FollowState::Following,
            None => FollowState::CatchingUp,
        }
    }

    /// How long ago it had everything that the primary had; none while it has everything.
    pub(crate) fn lag(&self) -> Duration {
        let progress = self.progress();
        if progress.is_level && progress.is_connected() {
            Duration::ZERO
        } else {
            progress.level_at.elapsed()
        }
    }

    /// The same in whole milliseconds.
    pub(crate) fn lag_ms(&self) -> u64 {
        u64::try_from(self.lag().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the primary was heard a moment ago.
    pub(crate) fn is_connected(&self) -> bool {
        self.progress().is_connected()
    }

    /// Notes a message of the primary, and whether everything is enacted with it.
    pub(super) fn heard(&self, is_level: bool) {
        let mut progress = self.progress();
        let now = Instant::now();
        progress.heard_at = Some(now);
        progress.is_level = is_level;
        if is_level {
            (progress.level_at, progress.was_level) = (now, true);
        }
    }

    /// Notes that the connection has ended.
    pub(super) fn lost(&self) {
        let mut progress = self.progress();
        (progress.is_level, progress.heard_at) = (false, None);
    }

    pub(super) fn halt(&self, why: String) {
        self.progress().halted = Some(why);
    }

    /// Poison is ignored: the fields are plain.
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(700);

    fn following() -> Following {
        let url = "http://primary:7878".to_owned();
        let options = FollowOptions { url, token_file: None, ca_file: None, forward: false };
        Following::new(options)
    }

    #[tokio::test(start_paused = true)]
    async fn the_lag_begins_when_something_is_missing_or_nothing_is_heard() {
        let following = following();
        assert_eq!(following.state(), FollowState::CatchingUp);
        following.heard(false);
        tokio::time::advance(MOMENT).await;
        assert_eq!((following.lag(), following.is_connected()), (MOMENT, true));
        following.heard(true);
        tokio::time::advance(MOMENT).await;
        assert_eq!((following.lag_ms(), following.state()), (0, FollowState::Following));
        following.heard(false);
        assert_eq!(following.lag(), MOMENT, "since it last had everything");
        following.heard(true);
        tokio::time::advance(SILENCE_MAX).await;
        assert_eq!((following.lag(), following.is_connected()), (SILENCE_MAX, false));
        following.heard(true);
        following.lost();
        tokio::time::advance(MOMENT).await;
        assert_eq!((following.lag(), following.is_connected()), (MOMENT, false));
        assert_eq!(following.state(), FollowState::Following, "it was level once");
        following.halt("another history".to_owned());
        assert_eq!(following.state(), FollowState::Halted("another history".to_owned()));
    }
}

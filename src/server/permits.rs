//! Permits for connections: how many there are, and which connection loses its own when all are
//! taken.
//!
//! When all permits are taken, the connection that has waited longest without completing its first
//! request is closed to make room. So a crowd of silent connections keeps nobody out, and a client
//! that has made a request is never closed for another.
//!
//! The accept loop owns [`Permits`], and requests never touch it: the [`Phase`] of a connection
//! records whether it has made a request.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use super::phase::Phase;
use crate::metrics;

/// The list of connections is swept when it is this long, at least.
const SWEEP_MIN: usize = 64;

#[derive(Debug)]
pub(super) struct Permits {
    free: Arc<Semaphore>,
    /// The oldest first. Some of them have made a request or ended since.
    new: VecDeque<New>,
    sweep_at: usize,
}

#[derive(Debug)]
struct New {
    phase: Phase,
    task: AbortHandle,
}

/// The permit of a connection; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Permit {
    phase: Phase,
    _permit: OwnedSemaphorePermit,
}

impl Permits {
    pub(super) fn new(count: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), new: VecDeque::new(), sweep_at: SWEEP_MIN }
    }

    /// A free permit, or that of the oldest connection without a request, which is closed. `None`
    /// when every connection has made a request. Waits only for an aborted task to end.
    pub(super) async fn acquire(&mut self) -> Option<Permit> {
        let free = Arc::clone(&self.free);
        let permit = if let Ok(permit) = free.try_acquire_owned() {
            permit
        } else {
            self.close_oldest()?;
            Arc::clone(&self.free).acquire_owned().await.ok()?
        };
        Some(Permit { phase: Phase::new(), _permit: permit })
    }

    /// Closes the connection that has waited longest without completing its first request.
    fn close_oldest(&mut self) -> Option<()> {
        while let Some(New { phase, task }) = self.new.pop_front() {
            if phase.evict() {
                task.abort();
                metrics::connection_turned_away();
                return Some(());
            }
        }
        None
    }

    /// Registers the task that serves a connection with a permit.
    pub(super) fn register(&mut self, phase: Phase, task: AbortHandle) {
        self.new.push_back(New { phase, task });
        if self.new.len() >= self.sweep_at {
            self.new.retain(|connection| connection.phase.is_new());
            self.sweep_at = SWEEP_MIN.max(self.new.len().saturating_mul(2));
        }
    }
}

impl Permit {
    pub(super) fn phase(&self) -> &Phase {
        &self.phase
    }
}

impl Drop for Permit {
    /// Ends the phase before the permit is given back, so that no ended connection counts as new.
    fn drop(&mut self) {
        self.phase.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that does nothing.
    async fn connect(permits: &mut Permits) -> Option<Phase> {
        let permit = permits.acquire().await?;
        let phase = permit.phase().clone();
        let task = tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(permit);
        });
        permits.register(phase.clone(), task.abort_handle());
        Some(phase)
    }

    #[tokio::test]
    async fn the_connection_that_was_silent_longest_makes_room() {
        let mut permits = Permits::new(2);
        let first = connect(&mut permits).await.unwrap();
        let second = connect(&mut permits).await.unwrap();
        let third = connect(&mut permits).await.unwrap();
        assert!(!first.is_new() && second.is_new() && third.is_new());
        assert!(first.busy().is_none(), "a request that comes too late is not answered");
    }

    #[tokio::test]
    async fn a_connection_that_made_a_request_keeps_its_permit() {
        let mut permits = Permits::new(2);
        let idle = connect(&mut permits).await.unwrap();
        drop(idle.busy().unwrap());
        let busy = connect(&mut permits).await.unwrap();
        let _answering = busy.busy().unwrap();
        assert!(connect(&mut permits).await.is_none());
    }

    #[tokio::test]
    async fn an_ended_connection_gives_its_permit_back_and_is_forgotten() {
        let mut permits = Permits::new(1);
        for _ in 0..10 * SWEEP_MIN {
            let permit = permits.acquire().await.unwrap();
            let task = tokio::spawn(async {});
            permits.register(permit.phase().clone(), task.abort_handle());
            drop(permit);
            assert!(permits.new.len() < SWEEP_MIN);
        }
    }
}

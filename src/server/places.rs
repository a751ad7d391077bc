//! Places for connections: how many there are, and who gives one up when all are taken.
//!
//! When all places are taken, the connection that has waited longest without completing its first
//! request is closed to make room. So a crowd of silent connections keeps nobody out, and a client
//! that has made a request is never closed for another.
//!
//! [`Places`] belongs to the accept loop, and requests never touch it: a connection tells by its
//! [`Phase`] whether it has made a request.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use super::patience::Phase;
use crate::metrics;

/// The list of connections is swept when it is this long, at least.
const SWEEP_AT_LEAST: usize = 64;

/// Places for connections.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// The oldest first. Some of them have made a request or ended since.
    silent: VecDeque<Silent>,
    sweep_at: usize,
}

#[derive(Debug)]
struct Silent {
    phase: Phase,
    task: AbortHandle,
}

/// The place of a connection; dropping it frees the place.
#[derive(Debug)]
pub(super) struct Place {
    phase: Phase,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(count: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(count)),
            silent: VecDeque::new(),
            sweep_at: SWEEP_AT_LEAST,
        }
    }

    /// A free place, or that of the oldest silent connection, which is closed. `None` when every
    /// connection has made a request. Waits for nothing but the end of a task that was aborted.
    pub(super) async fn take(&mut self) -> Option<Place> {
        let free = Arc::clone(&self.free);
        let permit = if let Ok(permit) = free.try_acquire_owned() {
            permit
        } else {
            self.close_oldest()?;
            Arc::clone(&self.free).acquire_owned().await.ok()?
        };
        Some(Place { phase: Phase::new(), _permit: permit })
    }

    /// Closes the connection that has waited longest without completing its first request.
    fn close_oldest(&mut self) -> Option<()> {
        while let Some(Silent { phase, task }) = self.silent.pop_front() {
            if phase.evict() {
                task.abort();
                metrics::connection_turned_away();
                return Some(());
            }
        }
        None
    }

    /// Notes a connection that has a place, and the task that serves it.
    pub(super) fn occupied(&mut self, phase: Phase, task: AbortHandle) {
        self.silent.push_back(Silent { phase, task });
        if self.silent.len() >= self.sweep_at {
            self.silent.retain(|silent| silent.phase.is_new());
            self.sweep_at = SWEEP_AT_LEAST.max(self.silent.len().saturating_mul(2));
        }
    }
}

impl Place {
    pub(super) fn phase(&self) -> &Phase {
        &self.phase
    }
}

impl Drop for Place {
    /// Before the permit goes back, so that no ended connection is taken for a silent one.
    fn drop(&mut self) {
        self.phase.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that does nothing.
    async fn connect(places: &mut Places) -> Option<Phase> {
        let place = places.take().await?;
        let phase = place.phase().clone();
        let task = tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(place);
        });
        places.occupied(phase.clone(), task.abort_handle());
        Some(phase)
    }

    #[tokio::test]
    async fn the_connection_that_was_silent_longest_makes_room() {
        let mut places = Places::new(2);
        let first = connect(&mut places).await.unwrap();
        let second = connect(&mut places).await.unwrap();
        let third = connect(&mut places).await.unwrap();
        assert!(!first.is_new() && second.is_new() && third.is_new());
        assert!(first.busy().is_none(), "a request that comes too late is not answered");
    }

    #[tokio::test]
    async fn a_connection_that_made_a_request_keeps_its_place() {
        let mut places = Places::new(2);
        let idle = connect(&mut places).await.unwrap();
        drop(idle.busy().unwrap());
        let busy = connect(&mut places).await.unwrap();
        let _answering = busy.busy().unwrap();
        assert!(connect(&mut places).await.is_none());
    }

    #[tokio::test]
    async fn an_ended_connection_leaves_its_place_and_is_forgotten() {
        let mut places = Places::new(1);
        for _ in 0..10 * SWEEP_AT_LEAST {
            let place = places.take().await.unwrap();
            let task = tokio::spawn(async {});
            places.occupied(place.phase().clone(), task.abort_handle());
            drop(place);
            assert!(places.silent.len() < SWEEP_AT_LEAST);
        }
    }
}

//! Permits for connections: how many there are, and which connection loses its own when all are
//! taken.
//!
//! When all permits are taken, the connection that has waited longest without completing its first
//! request is closed to make room. If there is none, it is the oldest connection between two
//! requests of the client with most, provided that the new one's client has no more then. So
//! neither silent connections nor those of one client keep others out, and no connection is closed
//! while a request is answered. Here a client is an address: who has which token is not known yet.
//!
//! The accept loop owns [`Permits`], and requests never touch it: the [`Phase`] of a connection
//! records whether it has made a request.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use nearprint_engine::Client;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use crate::metrics;
use crate::server::connection::phase::Phase;

/// The list of connections is swept when it is this long, at least.
const SWEEP_MIN: usize = 64;

#[derive(Debug)]
pub(crate) struct Permits {
    free: Arc<Semaphore>,
    /// The oldest first. Some of them have ended since.
    connections: VecDeque<Connected>,
    sweep_at: usize,
}

#[derive(Debug)]
struct Connected {
    client: Client,
    phase: Phase,
    task: AbortHandle,
}

/// The permit of a connection; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Permit {
    phase: Phase,
    _permit: OwnedSemaphorePermit,
}

impl Permits {
    pub(crate) fn new(count: usize) -> Self {
        let free = Arc::new(Semaphore::new(count));
        Self { free, connections: VecDeque::new(), sweep_at: SWEEP_MIN }
    }

    /// A free permit, or that of a connection which is closed for this client; `None` when there is
    /// none to close. Waits only for an aborted task to end.
    pub(crate) async fn acquire(&mut self, client: &Client) -> Option<Permit> {
        let free = Arc::clone(&self.free);
        let permit = if let Ok(permit) = free.try_acquire_owned() {
            permit
        } else {
            self.close_one(client)?;
            Arc::clone(&self.free).acquire_owned().await.ok()?
        };
        Some(Permit { phase: Phase::new(), _permit: permit })
    }

    /// Closes a connection for one of this client.
    fn close_one(&self, client: &Client) -> Option<()> {
        let silent = self.connections.iter().find(|one| one.phase.evict_new());
        let closed = silent.or_else(|| self.evict_idle_above_share(client))?;
        closed.task.abort();
        metrics::connection_turned_away();
        Some(())
    }

    /// Evicts the oldest idle connection of the client with most, unless `client` would have more
    /// then. Costs a pass over all connections.
    fn evict_idle_above_share(&self, client: &Client) -> Option<&Connected> {
        let mut held: BTreeMap<&Client, usize> = BTreeMap::new();
        for one in self.connections.iter().filter(|one| one.phase.is_open()) {
            let held = held.entry(&one.client).or_default();
            *held = held.saturating_add(1);
        }
        let own = held.get(client).copied().unwrap_or(0).saturating_add(1);
        let (most, largest) = held.into_iter().map(|(client, held)| (held, client)).max()?;
        let mut of_largest = self.connections.iter().filter(|one| one.client == *largest);
        of_largest.find(|one| most > own && one.phase.evict_idle())
    }

    /// Registers the task that serves a connection with a permit.
    pub(crate) fn register(&mut self, client: Client, phase: Phase, task: AbortHandle) {
        self.connections.push_back(Connected { client, phase, task });
        if self.connections.len() >= self.sweep_at {
            self.connections.retain(|connection| connection.phase.is_open());
            self.sweep_at = SWEEP_MIN.max(self.connections.len().saturating_mul(2));
        }
    }
}

impl Permit {
    pub(crate) fn phase(&self) -> &Phase {
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

    /// A connection that does nothing, from an address that ends with a number.
    async fn connect_from(permits: &mut Permits, number: u8) -> Option<Phase> {
        let client = Client::at([192, 0, 2, number].into());
        let permit = permits.acquire(&client).await?;
        let phase = permit.phase().clone();
        let task = tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(permit);
        });
        permits.register(client, phase.clone(), task.abort_handle());
        Some(phase)
    }

    async fn connect(permits: &mut Permits) -> Option<Phase> {
        connect_from(permits, 1).await
    }

    #[tokio::test]
    async fn the_connection_that_was_silent_longest_makes_room() {
        let mut permits = Permits::new(2);
        let first = connect(&mut permits).await.unwrap();
        let second = connect(&mut permits).await.unwrap();
        let third = connect(&mut permits).await.unwrap();
        assert!(!first.is_open() && second.is_open() && third.is_open());
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
    async fn idle_connections_of_the_client_with_most_make_room_for_others() {
        let mut permits = Permits::new(4);
        let mut many = Vec::new();
        for _ in 0..4 {
            many.push(connect_from(&mut permits, 1).await.unwrap());
        }
        let _answering = many[0].busy().unwrap();
        many[1..].iter().for_each(|idle| drop(idle.busy().unwrap()));
        for closed in 1..3 {
            let other = connect_from(&mut permits, 2).await.unwrap();
            drop(other.busy().unwrap());
            assert!(many[0].is_busy() && !many[closed].is_open() && many[closed + 1].is_open());
        }
        assert!(connect_from(&mut permits, 2).await.is_none(), "it would have more than half");
        assert!(connect_from(&mut permits, 1).await.is_none(), "so would this");
        assert!(connect_from(&mut permits, 3).await.is_some());
    }

    #[tokio::test]
    async fn an_ended_connection_gives_its_permit_back_and_is_forgotten() {
        let mut permits = Permits::new(1);
        for _ in 0..10 * SWEEP_MIN {
            let client = Client::at([192, 0, 2, 1].into());
            let permit = permits.acquire(&client).await.unwrap();
            let task = tokio::spawn(async {});
            permits.register(client, permit.phase().clone(), task.abort_handle());
            drop(permit);
            assert!(permits.connections.len() < SWEEP_MIN);
        }
    }
}

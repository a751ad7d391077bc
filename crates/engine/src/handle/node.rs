//! An engine that is a copy of others: a node of a cluster, or a follower.

use std::sync::Arc;
use std::time::Duration;

use nearprint_machine::commands::{Reason, RemoveMany};
use nearprint_storage::{DirectoryLock, Disk, RealDisk};

use crate::api::clock;
use crate::api::error::{OpenError, Refused};
use crate::api::observer::Observer;
use crate::api::options::{Durability, Options};
use crate::handle::Engine;
use crate::shared::ToWriter;
use crate::state::replica::{Membership, NodeStatus, ReplicaOptions};
use crate::write::outbox::Admission;

impl Engine {
    /// Opens the directory of a node or of a follower, recovers, and starts the threads. It answers
    /// look-ups at once, and catches up with the log or the primary. Blocks.
    ///
    /// # Errors
    /// [`OpenError`]; [`OpenError::NotANode`] and [`OpenError::NotAFollower`] if the directory is
    /// not of that kind.
    pub fn open_replica(
        options: Options,
        replica: ReplicaOptions,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, OpenError> {
        let options = match &replica {
            // Its position in the log must never be ahead of what its disk has.
            ReplicaOptions::Node(_) => {
                Options { is_node: true, durability: Durability::Always, ..options }
            }
            ReplicaOptions::Follower(_) => Options { follows: true, ..options },
        };
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(&options.data)?);
        let lock = DirectoryLock::acquire(&options.data)?;
        Self::open_on(&disk, lock, (options, Some(replica)), observer)
    }

    /// What it does as a node or a follower; `None` if it is neither.
    pub fn node(&self) -> Option<Arc<NodeStatus>> {
        self.shared.node.as_ref().map(|node| Arc::new(node.status()))
    }

    /// Leaves the lead to another node, and does not take it again: for one that is about to stop.
    pub fn step_down(&self) {
        if let Some(node) = &self.shared.node {
            node.step_down();
        }
    }

    /// Leaves the lead to another node for so long.
    pub fn stand_back(&self, time: Duration) {
        if let Some(node) = &self.shared.node {
            node.stand_back_until(clock::now() + time);
        }
    }

    /// Resolves when what this copy lacks can be read no more, so that it has to begin with the
    /// content of another. It goes on answering look-ups.
    pub async fn outdated(&self) {
        match &self.shared.node {
            Some(node) => node.outdated().await,
            None => std::future::pending().await,
        }
    }

    /// How long a caller waits for a write before its outcome is unknown, if it waits for others.
    pub fn write_timeout(&self) -> Option<Duration> {
        self.shared.node.as_ref().and_then(Membership::write_timeout)
    }

    /// Resolves when somebody leads the cluster, and not at this address.
    pub async fn led_by_another(&self, address: &str) {
        match &self.shared.node {
            Some(node) => node.led_by_another(address).await,
            None => std::future::pending().await,
        }
    }

    /// Ends the part of this copy in the cluster, for this reason; look-ups continue.
    pub fn halt(&self, why: String) {
        // A writer that has ended has nothing to halt.
        drop(self.shared.writer.send(ToWriter::Halt(why)));
    }

    /// Resolves when everything is published that was answered by any node before this call. Only
    /// the leader can tell.
    ///
    /// # Errors
    /// [`Refused::NoLeader`] and others: it cannot be told now.
    pub async fn fresh(&self) -> Result<(), Refused> {
        let nothing = RemoveMany { namespace: None, documents: Vec::new(), reason: Reason::Expiry };
        self.submit(nothing, Admission::Wait, 0).await?.wait().await.map(drop)
    }
}

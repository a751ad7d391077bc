//! An engine that is a node of a cluster.

use std::sync::Arc;

use nearprint_machine::commands::{Reason, RemoveMany};
use nearprint_storage::{DirectoryLock, Disk, RealDisk};

use crate::api::error::{OpenError, Refused};
use crate::api::observer::Observer;
use crate::api::options::Options;
use crate::api::replies::Admission;
use crate::handle::Engine;
use crate::state::member::{NodeOptions, NodeStatus};

impl Engine {
    /// Opens the directory of a node, recovers, and starts the threads. The node answers look-ups
    /// at once, and catches up with the log. Blocks.
    ///
    /// # Errors
    /// [`OpenError`]; [`OpenError::NotANode`] if the directory is not that of a node.
    pub fn open_node(
        options: Options,
        node: NodeOptions,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, OpenError> {
        let options = Options { is_node: true, ..options };
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(&options.data)?);
        let lock = DirectoryLock::acquire(&options.data)?;
        Self::open_on(&disk, lock, (options, Some(node)), observer)
    }

    /// What it does as a node of a cluster; `None` if it is not one.
    pub fn node(&self) -> Option<Arc<NodeStatus>> {
        self.shared.node.as_ref().map(|node| node.status.load_full())
    }

    /// Leaves the lead to another node, and does not take it again: for one that is about to stop.
    pub fn step_down(&self) {
        if let Some(node) = &self.shared.node {
            node.step_down();
        }
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

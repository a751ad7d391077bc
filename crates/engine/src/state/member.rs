//! How an engine takes part in a cluster, and what the rest of the program sees of it.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use nearprint_storage::{Disk, Identity};

use crate::api::error::OpenError;
use crate::replication::log::Log;
use crate::replication::log::required::Required;
use crate::replication::position::ClusterFile;

/// Opens the log of a cluster.
pub trait OpenLog: Debug + Send + Sync {
    /// Blocks; called again after an error.
    ///
    /// # Errors
    /// Why there is no log, for people.
    fn open(&self) -> Result<Arc<dyn Log>, String>;
}

/// How an engine takes part in a cluster.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// Where other nodes reach it while it leads, such as `http://10.0.0.1:7878`; at most
    /// [`ADDRESS_BYTES_MAX`](crate::replication::message::ADDRESS_BYTES_MAX) bytes.
    pub address: Arc<str>,
    /// The log.
    pub log: Arc<dyn OpenLog>,
    /// What is asked of it. The identity is that of the log that the directory has read.
    pub required: Required,
    /// After this time without a leader a node tries to lead, or up to a third of it later.
    pub takeover_ms: u64,
    /// A caller waits this long for a write, and then learns that its outcome is unknown.
    pub write_timeout_ms: u64,
}

/// What a node does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeState {
    /// Since its start it has not been less than five seconds behind the end of the log.
    CatchingUp,
    /// It enacts what a leader decides.
    Following,
    /// It decides.
    Leading,
    /// It goes no further, for this reason. Look-ups continue.
    Halted(String),
}

/// A node, as of now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// What it does.
    pub state: NodeState,
    /// Where the leader is reached; `None` if nobody leads.
    pub leader: Option<Arc<str>>,
    /// How long ago a message counted, in milliseconds; since the start, if none has.
    pub heard_ms: u64,
    /// How far it is behind the end of the log, in milliseconds.
    pub lag_ms: u64,
    /// The last entry of the log that it has read.
    pub read: u64,
    /// The number of entries that did not count, since the start.
    pub ignored: u64,
    /// Why the log cannot be read now, if so.
    pub log_fault: Option<String>,
}

/// Why an engine has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineEnd {
    /// A fault has stopped writes for good: the process should exit with an error.
    Failed,
    /// Another node leads now, and what this one had decided did not count: open it again.
    Deposed,
    /// The log has discarded what the node has not read: it has to begin with the content of
    /// another.
    Outdated,
}

/// A node that is about to start.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) options: NodeOptions,
    pub(crate) file: ClusterFile,
}

impl Member {
    /// Reads where the directory is in the log, which is not beyond its journal.
    ///
    /// # Errors
    /// [`OpenError::NotANode`], [`OpenError::BehindItsPosition`], those of the disk.
    pub(crate) fn open(
        options: NodeOptions,
        disk: &dyn Disk,
        (identity, next_in_journal): (Identity, u64),
    ) -> Result<Self, OpenError> {
        let file = ClusterFile::read(disk, &identity)?.ok_or(OpenError::NotANode)?;
        let (journal, position) = (next_in_journal, file.position.next);
        if journal < position {
            return Err(OpenError::BehindItsPosition {
                journal: journal - 1,
                position: position - 1,
            });
        }
        Ok(Self { options, file })
    }

    pub(crate) fn membership(&self) -> Membership {
        Membership::new(self.options.clone(), self.file.position.at)
    }
}

/// What the threads of a node tell the rest of the engine.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) options: NodeOptions,
    pub(crate) status: ArcSwap<NodeStatus>,
    /// The same as in the status, for every write.
    leads: AtomicBool,
    /// It should leave the lead to another.
    steps_down: AtomicBool,
}

impl Membership {
    fn new(options: NodeOptions, read: u64) -> Self {
        let status = NodeStatus {
            state: NodeState::CatchingUp,
            leader: None,
            heard_ms: 0,
            lag_ms: 0,
            read,
            ignored: 0,
            log_fault: None,
        };
        Self {
            options,
            status: ArcSwap::from_pointee(status),
            leads: AtomicBool::new(false),
            steps_down: AtomicBool::new(false),
        }
    }

    pub(crate) fn leads(&self) -> bool {
        self.leads.load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, status: NodeStatus) {
        self.leads.store(status.state == NodeState::Leading, Ordering::Release);
        self.status.store(Arc::new(status));
    }

    pub(crate) fn step_down(&self) {
        self.steps_down.store(true, Ordering::Release);
    }

    pub(crate) fn steps_down(&self) -> bool {
        self.steps_down.load(Ordering::Acquire)
    }
}

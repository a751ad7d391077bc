//! How an engine is a copy of others, and what the rest of the program sees of it.
//!
//! A node of a cluster reads the replicated log, and may lead. A follower is a node that never
//! leads, and whose log is the stream of changes of its primary.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::replication::chain::Position;
use crate::replication::log::Log;
use crate::replication::log::required::Required;
use crate::replication::primary_reader::OpenChanges;

/// Opens the log of a cluster.
pub trait OpenLog: Debug + Send + Sync {
    /// Blocks; called again after an error.
    ///
    /// # Errors
    /// Why there is no log, for people.
    fn open(&self) -> Result<Arc<dyn Log>, String>;
}

/// How an engine is a copy of others.
#[derive(Debug, Clone)]
pub enum ReplicaOptions {
    /// It is a node of a cluster.
    Node(NodeOptions),
    /// It follows a primary.
    Follower(FollowerOptions),
}

/// How an engine follows a primary.
#[derive(Debug, Clone)]
pub struct FollowerOptions {
    /// Where the primary is reached, as it is shown.
    pub primary: Arc<str>,
    /// Its changes.
    pub changes: Arc<dyn OpenChanges>,
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

/// What a node does; a follower is one that never leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeState {
    /// Since its start it has not been less than five seconds behind the end of the log, or a
    /// follower has not had all changes.
    CatchingUp,
    /// It enacts what a leader decides.
    Following,
    /// It decides.
    Leading,
    /// It goes no further, for this reason. Look-ups continue.
    Halted(String),
}

/// A node or a follower, as of now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// What it does.
    pub state: NodeState,
    /// Where the leader is reached, or the primary of a follower; `None` if nobody leads.
    pub leader: Option<Arc<str>>,
    /// Whether the log can be read, or the primary answers.
    pub is_connected: bool,
    /// How long ago a message counted, in milliseconds; since the start, if none has.
    pub heard_ms: u64,
    /// How far it is behind the end of the log or its primary, in milliseconds.
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

/// What the threads of a node tell the rest of the engine.
#[derive(Debug)]
pub(crate) struct Membership {
    options: ReplicaOptions,
    pub(crate) status: ArcSwap<NodeStatus>,
    /// The same as in the status, for every write.
    leads: AtomicBool,
    /// It should leave the lead to another.
    steps_down: AtomicBool,
}

impl Membership {
    pub(crate) fn new(options: ReplicaOptions, position: &Position) -> Self {
        let status = NodeStatus {
            state: NodeState::CatchingUp,
            leader: None,
            is_connected: false,
            heard_ms: 0,
            lag_ms: 0,
            read: position.at,
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

    /// The options of a node, which may lead; `None` for a follower.
    pub(crate) fn node(&self) -> Option<&NodeOptions> {
        match &self.options {
            ReplicaOptions::Node(options) => Some(options),
            ReplicaOptions::Follower(_) => None,
        }
    }

    /// How long a caller waits for a write.
    pub(crate) fn write_timeout(&self) -> Option<Duration> {
        self.node().map(|node| Duration::from_millis(node.write_timeout_ms))
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

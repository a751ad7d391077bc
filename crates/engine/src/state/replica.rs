//! How an engine is a copy of others, and what the rest of the program sees of it.
//!
//! A node of a cluster reads the replicated log, and may lead. A follower is a node that never
//! leads, and whose log is the stream of changes of its primary.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::api::clock;
use crate::replication::chain::Position;
use crate::replication::clocks::Heard;
use crate::replication::log::required::Required;
use crate::replication::log::{Log, LogBounds};
use crate::replication::primary_reader::OpenChanges;

/// A log that cannot be read for this time has a fault: on a busy machine an entry may be late.
pub(crate) const FAULT_AFTER: Duration = Duration::from_secs(1);
/// A copy that had everything has no lag for this time. A primary says each second that it has
/// nothing else.
const LEVEL_FOR: Duration = Duration::from_millis(1_500);

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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NodeState {
    #[default]
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

/// What the log of a cluster had when it was last looked at, less than a minute or so ago.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogHolding {
    /// The server that orders its entries, as far as it tells.
    pub leader: Option<String>,
    /// The servers that do not follow that one.
    pub behind: Vec<String>,
    /// Its size.
    pub bytes: u64,
    /// The size from which it discards its oldest entries.
    pub bytes_max: u64,
    /// Its entries.
    pub bounds: LogBounds,
}

impl LogHolding {
    /// How many bytes others may append before the log discards what comes after an entry: a node
    /// that has read so far has to be filled anew then. All entries are taken to be of one size.
    pub fn bytes_left(&self, read: u64) -> u64 {
        let LogBounds { first, last } = self.bounds;
        let entries = last.saturating_sub(first).saturating_add(1).max(1);
        let unread = u128::from(last.saturating_sub(read));
        let unread_bytes = u128::from(self.bytes) * unread / u128::from(entries);
        self.bytes_max.saturating_sub(u64::try_from(unread_bytes).unwrap_or(u64::MAX))
    }
}

/// What a node has sent to the log since its start, and how often it has begun to lead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeadCounts {
    /// How often it has begun to lead.
    pub takeovers: u64,
    /// Entries that it has appended, repeated ones included.
    pub appended: u64,
    /// The changes in those entries; a repeated entry adds none.
    pub changes: u64,
    /// Entries that the log has refused.
    pub refused: u64,
    /// Entries that the log has not answered in time.
    pub unanswered: u64,
}

/// An entry that the log has refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedEntry {
    /// What the log said.
    pub why: Arc<str>,
    /// When that was heard.
    pub at: Instant,
}

/// A node or a follower, as of now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// What it does.
    pub state: NodeState,
    /// Where the leader is reached, or the primary of a follower; `None` if nobody leads, or this
    /// node does not know where.
    pub leader: Option<Arc<str>>,
    /// Whether the log can be read, or the primary answers.
    pub is_connected: bool,
    /// Whether what it has not read can be read no more: it has to begin with the content of
    /// another.
    pub is_outdated: bool,
    /// How long ago a message counted, in milliseconds; since the start, if none has.
    pub heard_ms: u64,
    /// How far it is behind the end of the log or its primary, in milliseconds.
    pub lag_ms: u64,
    /// The last entry of the log that it has read.
    pub read: u64,
    /// The number of entries that did not count, since the start.
    pub ignored: u64,
    /// Why the log or the primary cannot be read now, why it does not take or may lose what a
    /// leader appends, or why what was read cannot be stored.
    pub log_fault: Option<String>,
    /// Why a node does not try to lead, or only if nobody else does.
    pub lead_fault: Option<String>,
    /// How far the clock is ahead of the log's, in milliseconds; `None` while it is not known.
    pub clock_ahead_ms: Option<i64>,
    /// What the log had when it was last looked at.
    pub log: Option<LogHolding>,
    /// What it has sent.
    pub counts: LeadCounts,
    /// The last of its entries that the log has refused since the start.
    pub last_refused: Option<RefusedEntry>,
}

/// What the writer of a node has seen last.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) state: NodeState,
    pub(crate) leader: Option<Arc<str>>,
    /// Something came since the start.
    pub(crate) was_heard: bool,
    /// See [`NodeStatus::is_outdated`].
    pub(crate) is_outdated: bool,
    /// Since the start it has been near the end.
    pub(crate) has_caught_up: bool,
    /// When a message counted last, and when it had everything; the start before that.
    pub(crate) heard_at: Instant,
    pub(crate) level_at: Instant,
    /// The time of the newest decision, in milliseconds since 1970; a follower does not know it.
    pub(crate) decided_ms: Option<u64>,
    /// Why the log cannot be read, and since when.
    pub(crate) fault: Option<(String, Instant)>,
    /// Why what was read cannot be stored.
    pub(crate) full: Option<String>,
    /// Why the log does not take what this node appends, or may lose it.
    pub(crate) not_kept: Option<String>,
    /// See [`NodeStatus::lead_fault`].
    pub(crate) lead_fault: Option<String>,
    /// The log's clock.
    pub(crate) clock: Option<Heard>,
    /// See [`NodeStatus::log`].
    pub(crate) log: Option<Arc<LogHolding>>,
    pub(crate) counts: LeadCounts,
    pub(crate) last_refused: Option<RefusedEntry>,
    pub(crate) read: u64,
    pub(crate) ignored: u64,
}

impl Observed {
    /// Nothing yet.
    fn at(position: &Position) -> Self {
        let now = clock::now();
        Self {
            state: NodeState::CatchingUp,
            leader: position.leader.as_ref().map(|leader| Arc::clone(&leader.address)),
            was_heard: false,
            is_outdated: false,
            has_caught_up: false,
            heard_at: now,
            level_at: now,
            decided_ms: None,
            fault: None,
            full: None,
            not_kept: None,
            lead_fault: None,
            clock: None,
            log: None,
            counts: LeadCounts::default(),
            last_refused: None,
            read: position.at,
            ignored: 0,
        }
    }

    /// What that means now: the writer may have nothing to tell for seconds.
    fn status(&self) -> NodeStatus {
        let is_halted = matches!(self.state, NodeState::Halted(_));
        let lasts = |since: &Instant| since.elapsed() >= FAULT_AFTER;
        let fault = self.fault.as_ref().filter(|(_, since)| lasts(since) && !is_halted);
        let fault = fault.map(|(why, _)| why.clone());
        let others = self.not_kept.clone().or_else(|| self.full.clone()).filter(|_| !is_halted);
        NodeStatus {
            state: self.state.clone(),
            leader: self.leader.clone().filter(|address| !address.is_empty()),
            is_connected: self.was_heard && fault.is_none() && !is_halted,
            is_outdated: self.is_outdated,
            heard_ms: elapsed_ms(self.heard_at),
            lag_ms: self.lag_ms(fault.is_some() || is_halted),
            read: self.read,
            ignored: self.ignored,
            log_fault: fault.or(others),
            lead_fault: self.lead_fault.clone(),
            clock_ahead_ms: self.clock.map(|log| log.own_ahead_ms()),
            log: self.log.as_deref().cloned(),
            counts: self.counts,
            last_refused: self.last_refused.clone(),
        }
    }

    fn lag_ms(&self, is_cut: bool) -> u64 {
        let since_level = self.level_at.elapsed();
        if self.state == NodeState::Leading || since_level < LEVEL_FOR {
            return 0;
        }
        match self.decided_ms.filter(|_| self.has_caught_up && !is_cut) {
            // It reads, and never comes to the end, because there is always more.
            Some(at_ms) => elapsed_ms(self.level_at).min(clock::now_ms().saturating_sub(at_ms)),
            None => elapsed_ms(self.level_at),
        }
    }
}

fn elapsed_ms(since: Instant) -> u64 {
    since.elapsed().as_millis() as u64
}

/// How long a node leaves the lead to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StandsBack {
    ForGood,
    Until(Instant),
}

/// What the threads of a node tell the rest of the engine.
#[derive(Debug)]
pub(crate) struct Membership {
    options: ReplicaOptions,
    observed: ArcSwap<Observed>,
    /// Whether it leads, for every write.
    leads: AtomicBool,
    /// It leaves the lead to others.
    stands_back: Mutex<Option<StandsBack>>,
    /// The same as in the status, for whoever waits for it.
    outdated: watch::Sender<bool>,
    leader: watch::Sender<Option<Arc<str>>>,
}

impl Membership {
    pub(crate) fn new(options: ReplicaOptions, position: &Position) -> Self {
        Self {
            options,
            observed: ArcSwap::from_pointee(Observed::at(position)),
            leads: AtomicBool::new(false),
            stands_back: Mutex::new(None),
            outdated: watch::Sender::new(false),
            leader: watch::Sender::new(None),
        }
    }

    /// What it does now.
    pub(crate) fn status(&self) -> NodeStatus {
        self.observed.load().status()
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

    pub(crate) fn set(&self, observed: Observed) {
        self.leads.store(observed.state == NodeState::Leading, Ordering::Release);
        let is = observed.is_outdated;
        self.outdated.send_if_modified(|was| std::mem::replace(was, is) != is);
        self.leader.send_if_modified(|leader| {
            let is_other = *leader != observed.leader;
            if is_other {
                leader.clone_from(&observed.leader);
            }
            is_other
        });
        self.observed.store(Arc::new(observed));
    }

    /// Resolves when it has to begin with the content of another.
    pub(crate) async fn outdated(&self) {
        drop(self.outdated.subscribe().wait_for(|is| *is).await);
    }

    /// Resolves when somebody leads, and not at this address.
    pub(crate) async fn led_by_another(&self, address: &str) {
        let is_other = |leader: &Option<Arc<str>>| {
            leader.as_deref().is_some_and(|leader| leader != address && !leader.is_empty())
        };
        drop(self.leader.subscribe().wait_for(is_other).await);
    }

    /// Leaves the lead to others for good.
    pub(crate) fn step_down(&self) {
        *self.stands_back() = Some(StandsBack::ForGood);
    }

    /// Leaves the lead to others until then, unless it has left it for good.
    pub(crate) fn stand_back_until(&self, end: Instant) {
        let mut stands_back = self.stands_back();
        if *stands_back != Some(StandsBack::ForGood) {
            *stands_back = Some(StandsBack::Until(end));
        }
    }

    /// Whether it leaves the lead to others now.
    pub(crate) fn is_standing_back(&self) -> bool {
        match *self.stands_back() {
            None => false,
            Some(StandsBack::ForGood) => true,
            Some(StandsBack::Until(end)) => clock::now() < end,
        }
    }

    fn stands_back(&self) -> MutexGuard<'_, Option<StandsBack>> {
        self.stands_back.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::position::ClusterFile;

    fn ago(time: Duration) -> Instant {
        clock::now().checked_sub(time).expect("the clock is not that young")
    }

    /// A copy that had everything this long ago, and has followed since.
    fn observed(level_ago_ms: u64) -> Observed {
        let position = ClusterFile::new(1, 1).position;
        let level_at = ago(Duration::from_millis(level_ago_ms));
        let (state, was_heard, has_caught_up) = (NodeState::Following, true, true);
        Observed { state, was_heard, has_caught_up, level_at, ..Observed::at(&position) }
    }

    #[test]
    fn a_follower_lags_since_it_had_everything_and_a_node_by_what_it_reads() {
        assert_eq!(observed(1_400).status().lag_ms, 0);
        let far = observed(60_000);
        assert!(far.status().lag_ms >= 60_000);
        let decided_ms = Some(clock::now_ms() - 3_000);
        let reads = Observed { decided_ms, ..far.clone() };
        assert!((3_000..60_000).contains(&reads.status().lag_ms), "{:?}", reads.status());
        let leads = Observed { state: NodeState::Leading, ..reads.clone() };
        assert_eq!(leads.status().lag_ms, 0);
        let since = ago(FAULT_AFTER);
        let cut = Observed { fault: Some(("away".to_owned(), since)), ..reads };
        assert!(cut.status().lag_ms >= 60_000, "nothing is read");
    }

    #[test]
    fn a_node_has_as_many_bytes_left_as_the_log_keeps_after_it() {
        let bounds = LogBounds { first: 101, last: 200 };
        let (leader, behind) = (None, vec![]);
        let log = LogHolding { leader, behind, bytes: 5_000, bytes_max: 6_000, bounds };
        assert_eq!([200, 150, 100, 0].map(|read| log.bytes_left(read)), [6_000, 3_500, 1_000, 0]);
        let empty = LogHolding { bytes: 0, bounds: LogBounds { first: 1, last: 0 }, ..log };
        assert_eq!(empty.bytes_left(0), 6_000);
    }

    #[test]
    fn who_has_halted_or_cannot_read_is_not_connected() {
        let (now, why) = (clock::now(), || "away".to_owned());
        assert!(observed(0).status().is_connected);
        let late = Observed { fault: Some((why(), now)), ..observed(0) };
        assert!(late.status().is_connected && late.status().log_fault.is_none());
        let cut = Observed { fault: Some((why(), ago(FAULT_AFTER))), ..observed(0) };
        assert!(!cut.status().is_connected && cut.status().log_fault == Some(why()));
        let halted = Observed { state: NodeState::Halted(why()), ..observed(60_000) };
        assert!(!halted.status().is_connected && halted.status().lag_ms >= 60_000);
        let full = Observed { full: Some("the disk is full".to_owned()), ..observed(0) };
        assert!(full.status().is_connected, "what cannot be stored was read");
        assert_eq!(full.status().log_fault.as_deref(), Some("the disk is full"));
        assert!(!Observed { was_heard: false, ..observed(0) }.status().is_connected);
    }
}

//! Promise: nodes with all their threads are one engine: of near-identical writes one wins, whoever
//! leads; who is stopped, cut off or deposed ends with the same content; a purge is finished by the
//! next leader; a log that lost something halts nodes, and can be begun anew. Method: real
//! directories, a log in memory.

use std::sync::Arc;
use std::time::Duration;

use nearprint_fingerprint::recipe::Recipe;
use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_machine::commands::Verdict;
use nearprint_machine::document::{Document, DocumentId, Sequence};
use nearprint_machine::jobs::{JobState, NamespaceFilter, Purge};
use nearprint_machine::query::Criteria;
use tempfile::TempDir;

use crate::api::error::{OpenError, Refused};
use crate::api::options::Options;
use crate::api::replies::{QueryOptions, StoreOptions};
use crate::directories::node;
use crate::directories::offline::restore;
use crate::handle::Engine;
use crate::replication::log::Log;
use crate::replication::log::required::Required;
use crate::replication::log::simulated::{CutOff, Faults, SimulatedLog};
use crate::state::replica::{NodeOptions, NodeState, OpenLog, ReplicaOptions};
use crate::write::outbox::Admission;

pub(super) const NODES: usize = 3;
/// A hang is a failure.
pub(super) const DEADLINE: Duration = Duration::from_mins(1);
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(10);
pub(super) const WRITE_TIMEOUT_MS: u64 = 1_500;
/// Longer than anything here takes.
const NEVER_MS: u64 = 600_000;

#[derive(Debug)]
struct Opened(SimulatedLog);

impl OpenLog for Opened {
    fn open(&self) -> Result<Arc<dyn Log>, String> {
        Ok(Arc::new(self.0.clone()))
    }
}

/// Three nodes, some of which run.
pub(super) struct Cluster {
    pub(super) logs: Vec<SimulatedLog>,
    pub(super) folders: Vec<TempDir>,
    pub(super) engines: Vec<Option<Engine>>,
    write_timeout_ms: u64,
    /// For nodes that are opened from now on.
    pub(super) takeover_ms: u64,
    pub(super) disk_free_bytes_min: u64,
}

pub(super) fn options(folder: &TempDir) -> Options {
    Options {
        delta_events: 64,
        disk_free_bytes_min: 0,
        lookup_threads: 1,
        list_threads: 1,
        ..Options::new(folder.path(), Recipe::Np2)
    }
}

impl Cluster {
    /// Three nodes with the content of a directory that was alone, all running.
    pub(super) async fn start() -> Self {
        let logs = SimulatedLog::new(1, NODES, Faults::default());
        let folders: Vec<_> = (0..NODES).map(|_| tempfile::tempdir().unwrap()).collect();
        let identity = logs[0].settings().unwrap().identity;
        node::found(&options(&folders[0]), identity).unwrap();
        let mut cluster = Self {
            logs,
            folders,
            engines: vec![None; NODES],
            write_timeout_ms: WRITE_TIMEOUT_MS,
            takeover_ms: 3_000,
            disk_free_bytes_min: 0,
        };
        cluster.open(0);
        cluster.copy(0, 1).await;
        cluster.copy(0, 2).await;
        cluster.open(1);
        cluster.open(2);
        cluster
    }

    pub(super) fn open(&mut self, node: usize) {
        let member = NodeOptions {
            address: format!("http://node{node}").into(),
            log: Arc::new(Opened(self.logs[node].clone())),
            required: Required { replicas: 3, trust_sync: false, identity: None },
            takeover_ms: self.takeover_ms,
            write_timeout_ms: self.write_timeout_ms,
        };
        let member = ReplicaOptions::Node(member);
        let disk_free_bytes_min = self.disk_free_bytes_min;
        let options = Options { disk_free_bytes_min, ..options(&self.folders[node]) };
        let opened = Engine::open_replica(options, member, Arc::new(()));
        self.engines[node] = Some(opened.unwrap());
    }

    pub(super) async fn close(&mut self, node: usize) {
        let engine = self.engines[node].take().unwrap();
        tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
    }

    /// Fills the directory of one from another.
    pub(super) async fn copy(&mut self, from: usize, to: usize) {
        let export = self.engine(from).export().await.unwrap();
        let mut bytes = Vec::new();
        export.write(&mut bytes).unwrap();
        self.folders[to] = tempfile::tempdir().unwrap();
        restore(&mut &bytes[..], self.folders[to].path()).unwrap();
    }

    pub(super) fn engine(&self, node: usize) -> &Engine {
        self.engines[node].as_ref().expect("it runs")
    }

    pub(super) fn running(&self) -> impl Iterator<Item = &Engine> {
        self.engines.iter().flatten()
    }

    /// The node that leads, once one does and the others that run know it.
    pub(super) async fn leader(&self) -> usize {
        let mut found = None;
        eventually("one leads", || {
            let is_leading = |node: &usize| {
                let engine = self.engines[*node].as_ref();
                engine.is_some_and(|engine| state(engine) == NodeState::Leading)
            };
            let leading: Vec<_> = (0..NODES).filter(is_leading).collect();
            let [leader] = leading[..] else { return false };
            found = Some(leader);
            let address = format!("http://node{leader}");
            self.running().all(|engine| engine.node().unwrap().leader.as_deref() == Some(&address))
        })
        .await;
        found.unwrap()
    }

    /// Waits until all that run have the same content.
    pub(super) async fn level(&self) -> Sequence {
        let newest = self.running().map(Engine::sequence).max().unwrap();
        eventually("all have the same", || self.running().all(|one| one.sequence() >= newest))
            .await;
        let documents = |engine: &Engine| engine.stats().documents;
        let first = self.running().next().unwrap();
        assert!(self.running().all(|one| documents(one) == documents(first)));
        newest
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let engines: Vec<_> = self.engines.drain(..).flatten().collect();
        for engine in engines {
            engine.step_down();
            tokio::task::block_in_place(|| engine.close());
        }
    }
}

pub(super) fn state(engine: &Engine) -> NodeState {
    engine.node().unwrap().state.clone()
}

pub(super) fn halted(engine: &Engine) -> Option<String> {
    match state(engine) {
        NodeState::Halted(why) => Some(why),
        NodeState::CatchingUp | NodeState::Following | NodeState::Leading => None,
    }
}

pub(super) async fn eventually(what: &str, mut has_happened: impl FnMut() -> bool) {
    let looking = async {
        while !has_happened() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, looking).await.is_ok(), "{what}");
}

pub(super) fn document(id: &str, bits: u64) -> Document {
    let id = Some(DocumentId::new(id).unwrap());
    Document { id, ..Document::bare(Fingerprint::new(bits)) }
}

pub(super) fn within_3() -> QueryOptions {
    let criteria = Criteria::within(Distance::new(3).unwrap());
    QueryOptions { criteria, limit: 10, with_metadata: false }
}

/// Whether a check-and-insert stored its document.
async fn check(engine: &Engine, document: Document) -> Result<bool, Refused> {
    let storing = StoreOptions { store_duplicates: false, touch: true, renew: false };
    let begun =
        engine.begin_check_and_insert(document, within_3(), storing, Admission::Wait).await?;
    let checked = begun.wait().await?;
    Ok(checked.written.verdict == Verdict::Inserted)
}

pub(super) async fn insert(engine: &Engine, document: Document) -> Result<Sequence, Refused> {
    let begun = engine.begin_insert(document, Admission::Wait).await?;
    begun.wait().await.map(|inserted| inserted.written.sequence)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_decides_all_have_it_and_the_next_goes_on() {
    let mut cluster = Cluster::start().await;
    let mut stored = 0;
    for round in 0..3_u64 {
        let leader = cluster.leader().await;
        for number in 0..200_u64 {
            let bits = (1 + round * 1_000 + number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let engine = cluster.engine(leader);
            let [one, other] = [bits, bits ^ 7].map(|bits| Document::bare(Fingerprint::new(bits)));
            let (one, other) = tokio::join!(check(engine, one), check(engine, other));
            assert_eq!(u8::from(one.unwrap()) + u8::from(other.unwrap()), 1, "one of the two wins");
            stored += 1;
        }
        for node in (0..NODES).filter(|node| *node != leader) {
            let refused = check(cluster.engine(node), document("c", 1 << 50)).await;
            assert_eq!(refused, Err(Refused::NoLeader));
            assert_eq!(cluster.engine(node).fresh().await, Err(Refused::NoLeader));
        }
        cluster.engine(leader).fresh().await.unwrap();
        cluster.level().await;
        cluster.engine(leader).step_down();
        cluster.close(leader).await;
        cluster.leader().await;
        cluster.open(leader);
    }
    cluster.leader().await;
    cluster.level().await;
    assert_eq!(cluster.engine(0).stats().documents, stored);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_cut_off_goes_on_with_what_counted() {
    let cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    insert(cluster.engine(leader), document("before", 1)).await.unwrap();
    cluster.logs[leader].cut_off(CutOff { appends: true, reads: true });
    let lost = insert(cluster.engine(leader), document("lost", 1 << 9)).await;
    assert_eq!(lost, Err(Refused::OutcomeUnknown));
    assert!(cluster.engine(leader).snapshot().await.is_ok(), "it gives up what is under way");
    let id = DocumentId::new("lost").unwrap();
    assert_eq!(cluster.engine(leader).document(None, &id).await, Ok(None), "it did not count");
    let others = || cluster.engines.iter().enumerate().filter(|(node, _)| *node != leader);
    eventually("another leads", || {
        others().any(|(_, engine)| state(engine.as_ref().unwrap()) == NodeState::Leading)
    })
    .await;
    let (next, _) =
        others().find(|(_, one)| state(one.as_ref().unwrap()) == NodeState::Leading).unwrap();
    insert(cluster.engine(next), document("after", 1 << 30)).await.unwrap();
    cluster.logs[leader].cut_off(CutOff::default());
    cluster.level().await;
    for (name, bits) in [("before", 1), ("after", 1 << 30)] {
        let found = cluster.engine(leader).query(&document("q", bits), within_3()).await.unwrap();
        assert!(found.duplicate, "{name}");
    }
    assert_eq!(cluster.engine(leader).document(None, &id).await, Ok(None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_is_finished_by_the_next_leader() {
    let mut cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    let documents = 9_000;
    for number in 0..documents / 1_000 {
        let bits = (0..1_000_u64).map(|bits| Fingerprint::new((number * 1_000 + bits) << 8));
        let packed = bits.collect::<Vec<_>>();
        let begun = cluster.engine(leader).begin_insert_packed(packed, Admission::Wait).await;
        begun.unwrap().wait().await.unwrap();
    }
    let purge =
        Purge { reach: NamespaceFilter::All, prefix: None, stored_before_ms: None, dry_run: false };
    let job = cluster.engine(leader).begin_purge(purge).await.unwrap().number;
    cluster.engine(leader).step_down();
    cluster.close(leader).await;
    let next = cluster.leader().await;
    assert_ne!(next, leader);
    let ended = || cluster.engine(next).job(job).is_some_and(|job| job.has_ended());
    eventually("the job has ended", ended).await;
    let ended = cluster.engine(next).job(job).unwrap();
    assert_eq!(ended.state, JobState::Done);
    assert_eq!(cluster.engine(next).stats().documents, 0);
    cluster.open(leader);
    cluster.leader().await;
    cluster.level().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_starts_while_there_is_always_more_has_caught_up_all_the_same() {
    let mut cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    // Entries that do not count, whatever the disks do meanwhile.
    let log = cluster.logs[leader].clone();
    let writing = tokio::spawn(async move {
        loop {
            drop(log.append(Arc::new([0])));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let late = (leader + 1) % NODES;
    cluster.close(late).await;
    cluster.open(late);
    eventually("it follows", || state(cluster.engine(late)) == NodeState::Following).await;
    writing.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_behind_what_the_log_keeps_begins_with_the_content_of_another() {
    let mut cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    let behind = (leader + 1) % NODES;
    cluster.close(behind).await;
    for number in 0..100 {
        insert(cluster.engine(leader), document(&number.to_string(), number << 20)).await.unwrap();
    }
    cluster.level().await;
    cluster.logs[0].trim(10, u64::MAX);
    cluster.open(behind);
    cluster.engine(behind).outdated().await;
    let query = cluster.engine(behind).query(&document("q", 1), within_3()).await;
    assert!(query.is_ok(), "it answers look-ups while it waits");
    cluster.engine(behind).halt("no seed has what this node has".to_owned());
    let halted = NodeState::Halted("no seed has what this node has".to_owned());
    eventually("it halts", || state(cluster.engine(behind)) == halted).await;
    assert!(cluster.engine(behind).snapshot().await.is_ok());
    cluster.close(behind).await;
    cluster.copy(leader, behind).await;
    cluster.open(behind);
    cluster.leader().await;
    cluster.level().await;
    let path = cluster.folders[behind].path();
    let alone = tokio::task::block_in_place(|| Engine::open(options(&cluster.folders[behind])));
    assert!(alone.is_err(), "it is in use");
    assert!(node::read(path).unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_lost_halts_all_and_is_begun_anew_at_one() {
    let mut cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    insert(cluster.engine(leader), document("a", 1)).await.unwrap();
    cluster.level().await;
    let behind = (leader + 1) % NODES;
    cluster.close(behind).await;
    insert(cluster.engine(leader), document("b", 1 << 9)).await.unwrap();
    cluster.level().await;
    // A last word of all, so that they are where they have been.
    let level = (leader + 2) % NODES;
    cluster.engine(leader).step_down();
    cluster.engine(level).step_down();
    let nobody = |engine: &Engine| engine.node().unwrap().leader.is_none();
    eventually("nobody leads", || cluster.running().all(nobody)).await;
    cluster.level().await;
    cluster.logs[0].begin_anew();
    cluster.close(leader).await;
    cluster.close(level).await;
    cluster.open(level);
    let is_waiting = || {
        let status = cluster.engine(level).node().unwrap();
        status.log_fault.as_deref().is_some_and(|why| why.contains("begun anew"))
    };
    eventually("a log without an entry is waited for", is_waiting).await;
    let identity = cluster.logs[0].settings().unwrap().identity;
    let log = cluster.logs[0].clone();
    let append = |entry| {
        drop(log.append(entry));
        Ok::<_, OpenError>(())
    };
    let refounded = node::refound(&options(&cluster.folders[leader]), identity, append);
    assert_eq!(refounded.unwrap().documents, 2);
    cluster.open(leader);
    // The other has the same, and goes on. This one has less.
    cluster.open(behind);
    cluster.engine(behind).outdated().await;
    cluster.close(behind).await;
    cluster.leader().await;
    cluster.copy(level, behind).await;
    cluster.open(behind);
    let leader = cluster.leader().await;
    insert(cluster.engine(leader), document("c", 1 << 18)).await.unwrap();
    cluster.level().await;
    assert_eq!(cluster.engine(behind).stats().documents, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_forgets_halts_its_nodes_and_look_ups_go_on() {
    let cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    for number in 0..20 {
        insert(cluster.engine(leader), document("a", number << 20)).await.unwrap();
    }
    cluster.level().await;
    cluster.logs[0].forget(15);
    drop(insert(cluster.engine(leader), document("b", 1 << 50)).await);
    eventually("the leader halts", || halted(cluster.engine(leader)).is_some()).await;
    assert!(halted(cluster.engine(leader)).unwrap().contains("regressed"));
    let refused = insert(cluster.engine(leader), document("c", 1 << 51)).await;
    assert_eq!(refused, Err(Refused::NoLeader));
    let found = cluster.engine(leader).query(&document("q", 19 << 20), within_3()).await.unwrap();
    assert!(found.duplicate);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_directory_of_a_node_is_read_and_not_written_without_its_cluster() {
    let mut cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    insert(cluster.engine(leader), document("a", 1)).await.unwrap();
    cluster.close(leader).await;
    let alone = Engine::open_to_read_at_least(options(&cluster.folders[leader])).unwrap();
    assert_eq!(alone.stats().documents, 1);
    assert_eq!(insert(&alone, document("b", 2)).await, Err(Refused::NoLeader));
    tokio::task::block_in_place(|| alone.close());
    let refused = Engine::open(options(&cluster.folders[leader])).map(drop);
    assert!(matches!(refused, Err(OpenError::NodeOfCluster)), "{refused:?}");
    node::leave(cluster.folders[leader].path()).unwrap();
    let left = Engine::open(options(&cluster.folders[leader])).unwrap();
    insert(&left, document("b", 2)).await.unwrap();
    tokio::task::block_in_place(|| left.close());
}

/// Without it the caller would be told that storage has failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_closes_without_its_log_does_not_know_what_was_done() {
    let mut cluster = Cluster::start().await;
    cluster.write_timeout_ms = NEVER_MS;
    for node in 0..NODES {
        cluster.close(node).await;
        cluster.open(node);
    }
    let leader = cluster.leader().await;
    cluster.logs[leader].cut_off(CutOff { appends: true, reads: true });
    let engine = cluster.engine(leader).clone();
    let written = tokio::spawn(async move { insert(&engine, document("a", 1)).await });
    let sees_nobody = || state(cluster.engine(leader)) == NodeState::Following;
    eventually("the leader is not followed any more", sees_nobody).await;
    cluster.close(leader).await;
    assert_eq!(written.await.unwrap(), Err(Refused::OutcomeUnknown));
}

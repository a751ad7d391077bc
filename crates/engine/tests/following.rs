//! Promise: a follower that has heard everything holds what its primary holds, whatever was stored,
//! replaced, removed and purged, wherever its connection broke; and it notices a primary with
//! another history. Method: two engines and the stream between them, cut at many bytes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/options.rs"]
mod common;

use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use nearprint_engine::following::{
    ChangesEnd, ChangesError, FollowerPosition, OpenChanges, follower,
};
use nearprint_engine::replica::{FollowerOptions, NodeState, NodeStatus, ReplicaOptions};
use nearprint_engine::{
    Admission, Criteria, Durability, Engine, JobState, ListQuery, NamespaceFilter, OpenError,
    Options, OriginalsOrder, OriginalsQuery, Purge, QueryOptions, Readiness, Refused,
    StoredDocument,
};
use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_machine::document::{Document, DocumentId, Metadata, Namespace, Packed, Sequence};
use nearprint_storage::{Disk as _, RealDisk};

/// A hang is a failure; nothing here takes a few seconds.
const DEADLINE: Duration = Duration::from_mins(1);
const ADDRESS: &str = "http://primary:7878";

fn open(directory: &Path) -> Engine {
    Engine::open(common::options(directory)).unwrap()
}

fn open_follower(directory: &Path, wiring: &Arc<Wiring>) -> Engine {
    open_limited(common::options(directory), wiring)
}

fn open_limited(options: Options, wiring: &Arc<Wiring>) -> Engine {
    let changes: Arc<dyn OpenChanges> = Arc::<Wiring>::clone(wiring);
    let replica = ReplicaOptions::Follower(FollowerOptions { primary: ADDRESS.into(), changes });
    Engine::open_replica(options, replica, Arc::new(())).unwrap()
}

fn close(engine: &Engine) {
    tokio::task::block_in_place(|| engine.close());
}

fn spread(number: u64) -> Fingerprint {
    Fingerprint::new((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn document(number: u64) -> Document {
    Document {
        id: Some(DocumentId::new(format!("id-{number}")).unwrap()),
        namespace: number.is_multiple_of(3).then(|| Namespace::new("news").unwrap()),
        metadata: Metadata::new(format!("{{\"n\":{number}}}")),
        ..Document::bare(spread(number))
    }
}

async fn store(engine: &Engine, document: Document) {
    engine.begin_insert(document, Admission::Wait).await.unwrap().wait().await.unwrap();
}

async fn store_packed(engine: &Engine, numbers: std::ops::Range<u64>) {
    let fingerprints: Vec<_> = numbers.map(spread).collect();
    let packed = Packed { namespace: None, expiry: None, fingerprints };
    engine.begin_insert_packed(packed, Admission::Wait).await.unwrap().wait().await.unwrap();
}

/// Changes of every kind.
async fn change(engine: &Engine, round: u64) {
    for number in 0..40 {
        store(engine, document(100 * round + number)).await;
    }
    // Replaced, removed, reset, packed, and a duplicate of what is stored.
    let replaced = Document { fingerprint: spread(7 + round), ..document(100 * round + 1) };
    store(engine, replaced).await;
    engine.remove(None, DocumentId::new(format!("id-{}", 100 * round + 2)).unwrap()).await.unwrap();
    engine.remove_fingerprint(None, spread(100 * round + 4)).await.unwrap();
    store_packed(engine, 10_000 * (round + 1)..10_000 * (round + 1) + 3_000).await;
    check_and_insert(engine, Document::bare(spread(100 * round + 5))).await;
}

async fn check_and_insert(engine: &Engine, document: Document) {
    let criteria = Criteria::within(Distance::new(3).unwrap());
    let options = QueryOptions { criteria, limit: 1, with_metadata: false };
    let pending = engine.begin_check_and_insert(document, options, false, Admission::Wait);
    pending.await.unwrap().wait().await.unwrap();
}

async fn purge(engine: &Engine) {
    let reach = NamespaceFilter::Namespace(Some(Namespace::new("news").unwrap()));
    let prefix = Some("id-1".into());
    let purge = Purge { reach, prefix, stored_before_ms: None, dry_run: false };
    let job = engine.begin_purge(purge).await.unwrap().number;
    until("the purge ends", || engine.job(job).unwrap().state == JobState::Done).await;
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waits = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, waits).await.is_ok(), "waiting until {what}");
}

/// Fills a directory from an export of a primary.
async fn seed(primary: &Engine, directory: &Path) {
    let export = primary.export().await.unwrap();
    let mut bytes = Vec::new();
    export.write(&mut bytes).unwrap();
    follower::seed(&mut &bytes[..], directory, ADDRESS).unwrap();
}

/// How a follower reaches a primary of this process.
#[derive(Debug)]
struct Wiring {
    runtime: tokio::runtime::Handle,
    state: Mutex<Wired>,
}

#[derive(Debug)]
struct Wired {
    /// `None` while it cannot be reached.
    primary: Option<Engine>,
    /// After so many bytes a connection breaks.
    bytes: usize,
    /// Where the follower was at each connection.
    positions: Vec<FollowerPosition>,
    /// The follower does not say which record it has last.
    hides_record: bool,
    /// The primary sends this instead of its changes.
    sends: Option<Vec<u8>>,
}

impl Wiring {
    fn new(primary: Option<&Engine>) -> Arc<Self> {
        let state = Wired {
            primary: primary.cloned(),
            bytes: usize::MAX,
            positions: Vec::new(),
            hides_record: false,
            sends: None,
        };
        let runtime = tokio::runtime::Handle::current();
        Arc::new(Self { runtime, state: Mutex::new(state) })
    }

    /// Where the follower was when it connected last.
    fn position(&self) -> FollowerPosition {
        *self.state.lock().unwrap().positions.last().unwrap()
    }
}

impl OpenChanges for Wiring {
    fn open(&self, after: &FollowerPosition) -> Result<Box<dyn Read + Send>, ChangesError> {
        let mut state = self.state.lock().unwrap();
        state.positions.push(*after);
        let bytes = state.bytes;
        // So that it breaks within messages, between them, and at last not at all.
        state.bytes = state.bytes.saturating_mul(3).div_ceil(2).saturating_add(1);
        let unreachable = || ChangesError::Unreachable("the primary is away".to_owned());
        let primary = state.primary.clone().ok_or_else(unreachable)?;
        let (sender, receiver) = mpsc::channel();
        if let Some(sends) = &state.sends {
            sender.send(sends.clone()).unwrap();
            return Ok(Box::new(Wire { receiver, received: Vec::new(), left: bytes }));
        }
        let record = after.record.filter(|_| !state.hides_record);
        let changes = primary.changes(&FollowerPosition { record, ..*after });
        let mut changes = changes.map_err(|end| match end {
            ChangesEnd::Diverged(why) => ChangesError::Diverged(why),
            end @ ChangesEnd::Packed(_) => ChangesError::Packed(end.to_string()),
            end @ ChangesEnd::Refused(_) => ChangesError::Unreachable(end.to_string()),
        })?;
        self.runtime.spawn(async move {
            while let Ok(message) = changes.next().await
                && sender.send(message).is_ok()
            {}
        });
        Ok(Box::new(Wire { receiver, received: Vec::new(), left: bytes }))
    }
}

/// The stream of a primary, which ends after some bytes.
struct Wire {
    receiver: mpsc::Receiver<Vec<u8>>,
    received: Vec<u8>,
    left: usize,
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.received.is_empty() && self.left > 0 {
            self.received = match self.receiver.recv_timeout(Duration::from_millis(20)) {
                Ok(message) => message,
                Err(mpsc::RecvTimeoutError::Timeout) => return Err(io::ErrorKind::TimedOut.into()),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(0),
            };
        }
        let taken = buffer.len().min(self.received.len()).min(self.left);
        buffer[..taken].copy_from_slice(&self.received[..taken]);
        self.received.drain(..taken);
        self.left -= taken;
        Ok(taken)
    }
}

/// Waits until a follower has what its primary has.
async fn level(primary: &Engine, follower: &Engine) {
    until("the follower has everything", || {
        follower.sequence() == primary.sequence() && status(follower).state == NodeState::Following
    })
    .await;
}

fn status(follower: &Engine) -> Arc<NodeStatus> {
    follower.node().unwrap()
}

/// Lets a follower in this directory read until it halts, and returns why.
async fn halts(directory: &Path, wiring: &Arc<Wiring>) -> String {
    let follower = open_follower(directory, wiring);
    let halted = || match &status(&follower).state {
        NodeState::Halted(why) => Some(why.clone()),
        NodeState::CatchingUp | NodeState::Following | NodeState::Leading => None,
    };
    until("the follower halts", || halted().is_some()).await;
    let why = halted().unwrap();
    assert!(follower.snapshot().await.is_ok(), "it goes on with what it has");
    close(&follower);
    why
}

/// A primary with a document, and its follower.
async fn pair(folder: &Path) -> (Engine, Engine) {
    let (primary, two) = (open(&folder.join("primary")), folder.join("follower"));
    store(&primary, document(1)).await;
    seed(&primary, &two).await;
    let follower = open_follower(&two, &Wiring::new(Some(&primary)));
    (primary, follower)
}

/// Everything that an engine stores, and the states of its jobs.
async fn content(engine: &Engine) -> (Vec<StoredDocument>, String, u64) {
    let query = ListQuery { reach: NamespaceFilter::All, prefix: None, after: Sequence::ZERO };
    let listed = engine.list(query, 1_000_000).await.unwrap().items;
    (listed, format!("{:?}", engine.jobs()), engine.stats().documents)
}

/// Asserts that both hold the same, and find the same.
async fn assert_same(primary: &Engine, follower: &Engine) {
    assert_eq!(primary.sequence(), follower.sequence());
    assert_eq!(content(primary).await, content(follower).await);
    let distance = Distance::new(3).unwrap();
    let probes: Vec<_> = (0..60_000).map(spread).collect();
    let [one, other] = [primary, follower].map(|engine| engine.nearest(&probes, distance).unwrap());
    assert!(one == other, "look-ups differ");
    assert!(one.contains(&0) && one.contains(&255), "some are found, and some are not");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_holds_what_its_primary_holds_wherever_the_connection_breaks() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("primary"), folder.path().join("follower"));
    let primary = open(&one);
    change(&primary, 0).await;
    seed(&primary, &two).await;
    let wiring = Wiring::new(Some(&primary));
    wiring.state.lock().unwrap().bytes = 1;
    let mut follower = open_follower(&two, &wiring);
    assert_same(&primary, &follower).await;
    for round in 1..4 {
        change(&primary, round).await;
        if round == 2 {
            purge(&primary).await;
        }
        level(&primary, &follower).await;
        assert_same(&primary, &follower).await;
        close(&follower);
        follower = open_follower(&two, &wiring);
        assert_same(&primary, &follower).await;
    }
    assert!(wiring.state.lock().unwrap().positions.len() > 15, "connections break");
    // Its own journal is enough, also without its snapshots.
    close(&follower);
    let disk = RealDisk::open(&two).unwrap();
    let kept = ["journal-", "records-", "directory", "follower"];
    for name in disk.list().unwrap() {
        if !kept.iter().any(|kept| name.starts_with(kept)) {
            disk.remove(&name).unwrap();
        }
    }
    follower = open_follower(&two, &wiring);
    assert_same(&primary, &follower).await;
    close(&follower);
    close(&primary);
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_of_originals_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let (primary, follower) = pair(folder.path()).await;
    level(&primary, &follower).await;
    for _ in 0..3 {
        check_and_insert(&primary, Document::bare(spread(1))).await;
    }
    let query = || OriginalsQuery {
        reach: NamespaceFilter::All,
        order: OriginalsOrder::Duplicates,
        after: None,
    };
    let one = primary.originals(query(), 10).await.unwrap().items;
    assert_eq!(one.len(), 1);
    assert_eq!(one[0].touch.duplicates, 3);
    let waits = async {
        while follower.originals(query(), 10).await.unwrap().items != one {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, waits).await.is_ok(), "the counts arrive");
    close(&follower);
    close(&primary);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_decides_nothing_and_a_directory_has_one_role() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("primary"), folder.path().join("follower"));
    let primary = open(&one);
    change(&primary, 0).await;
    seed(&primary, &two).await;
    let follower = open_follower(&two, &Wiring::new(None));
    let begun = follower.begin_insert(document(1), Admission::Wait).await;
    assert_eq!(begun.err(), Some(Refused::Follower));
    assert!(follower.snapshot().await.is_ok(), "backups are taken here");
    close(&follower);
    let refused = Engine::open(common::options(&two)).unwrap_err();
    assert!(matches!(&refused, OpenError::Follower { primary } if primary == ADDRESS), "{refused}");
    // Commands that only read do not care.
    let reading = Engine::open_to_read_at_least(common::options(&two)).unwrap();
    assert_same(&primary, &reading).await;
    close(&reading);
    close(&primary);
    let following = Options { follows: true, ..common::options(&one) };
    assert!(matches!(Engine::open(following), Err(OpenError::NotAFollower)));
    let nothing: &[u8] = &[];
    let refused = follower::seed(&mut &*nothing, &one, ADDRESS).unwrap_err();
    assert!(matches!(refused, OpenError::NotAFollower), "{refused}");
    assert!(matches!(follower::needs_seed(&one), Err(OpenError::NotAFollower)));
    assert!(matches!(follower::promote(&one), Err(OpenError::NotPromoted { .. })));
    assert_eq!(follower::promote(&two).unwrap(), ADDRESS);
    let promoted = open(&two);
    store(&promoted, document(1_000_000)).await;
    close(&promoted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_was_cut_begins_again() {
    let folder = tempfile::tempdir().unwrap();
    let two = folder.path().join("follower");
    let primary = open(&folder.path().join("primary"));
    change(&primary, 0).await;
    let mut export = Vec::new();
    primary.export().await.unwrap().write(&mut export).unwrap();
    assert!(follower::needs_seed(&two).unwrap());
    for length in [0, 1, 100, export.len() / 2, export.len() - 1] {
        assert!(follower::seed(&mut &export[..length], &two, ADDRESS).is_err());
        assert!(follower::needs_seed(&two).unwrap(), "{length}");
        assert!(follower::promote(&two).is_err(), "{length}");
        assert!(Engine::open(common::options(&two)).is_err(), "{length}");
    }
    follower::seed(&mut &export[..], &two, ADDRESS).unwrap();
    assert!(!follower::needs_seed(&two).unwrap());
    // A second copy takes the place of the first one.
    change(&primary, 1).await;
    seed(&primary, &two).await;
    let follower = open_follower(&two, &Wiring::new(None));
    assert_same(&primary, &follower).await;
    close(&follower);
    close(&primary);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_with_another_history_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("primary"), folder.path().join("follower"));
    let primary = open(&one);
    change(&primary, 0).await;
    let mut export = Vec::new();
    primary.export().await.unwrap().write(&mut export).unwrap();
    follower::seed(&mut &export[..], &two, ADDRESS).unwrap();
    change(&primary, 1).await;
    let wiring = Wiring::new(Some(&primary));
    let follower = open_follower(&two, &wiring);
    level(&primary, &follower).await;
    let (sequence, documents) = (follower.sequence(), follower.stats().documents);
    close(&follower);
    // One that was set back is behind.
    let restored = folder.path().join("restored");
    nearprint_engine::open::offline::restore(&mut &export[..], &restored).unwrap();
    let behind = open(&restored);
    wiring.state.lock().unwrap().primary = Some(behind.clone());
    let why = halts(&two, &wiring).await;
    assert!(why.contains("lost"), "{why}");
    assert_eq!(wiring.position().sequence, sequence);
    // And has another history once it is as far.
    while behind.sequence() < sequence {
        store(&behind, document(500_000 + behind.sequence().get())).await;
    }
    let why = halts(&two, &wiring).await;
    assert!(why.contains("is another one"), "{why}");
    // The same without the record of the last change, if only the number of documents differs.
    assert_ne!(behind.stats().documents, documents);
    wiring.state.lock().unwrap().hides_record = true;
    let why = halts(&two, &wiring).await;
    assert!(why.contains("documents"), "{why}");
    // Another directory altogether.
    let other = open(&folder.path().join("other"));
    let nothing = FollowerPosition { sequence: Sequence::ZERO, record: None };
    let mut changes = other.changes(&nothing).unwrap();
    wiring.state.lock().unwrap().sends = Some(changes.next().await.unwrap());
    let why = halts(&two, &wiring).await;
    assert!(why.contains("another data directory"), "{why}");
    for engine in [&other, &behind, &primary] {
        close(engine);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_is_ready_although_its_primary_is_never_idle() {
    let folder = tempfile::tempdir().unwrap();
    let (primary, follower) = pair(folder.path()).await;
    level(&primary, &follower).await;
    close(&follower);
    let (writer, stop) = (primary.clone(), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let writing = tokio::spawn(async move {
        for number in (100..).take_while(|_| !stopped.load(Ordering::Relaxed)) {
            store(&writer, document(number)).await;
        }
    });
    let two = folder.path().join("follower");
    let follower = open_follower(&two, &Wiring::new(Some(&primary)));
    until("it has had everything", || status(&follower).state == NodeState::Following).await;
    stop.store(true, Ordering::Relaxed);
    writing.await.unwrap();
    level(&primary, &follower).await;
    assert_same_documents(&primary, &follower).await;
    close(&follower);
    close(&primary);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_says_that_there_is_nothing_however_often_it_publishes() {
    let folder = tempfile::tempdir().unwrap();
    let primary = open(folder.path());
    let nothing = FollowerPosition { sequence: Sequence::ZERO, record: None };
    let mut changes = primary.changes(&nothing).unwrap();
    changes.next().await.unwrap();
    let publishing = primary.clone();
    let publishing = tokio::spawn(async move {
        loop {
            publishing.snapshot().await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(tokio::time::timeout(DEADLINE, changes.next()).await.is_ok());
    publishing.abort();
    drop(publishing.await);
    close(&primary);
}

async fn assert_same_documents(primary: &Engine, follower: &Engine) {
    assert_eq!(content(primary).await, content(follower).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_stops_at_its_limit_of_memory_and_goes_on_with_a_larger_one() {
    let folder = tempfile::tempdir().unwrap();
    let (primary, follower) = pair(folder.path()).await;
    close(&follower);
    // More than one message.
    for first in (0..48_000).step_by(8_000) {
        store_packed(&primary, first..first + 8_000).await;
    }
    let two = folder.path().join("follower");
    let wiring = Wiring::new(Some(&primary));
    // Until it has published once it does not know how much it takes.
    let limited = Options { memory_bytes_max: 10_000, ..common::options(&two) };
    let follower = open_limited(limited, &wiring);
    until("the follower has no memory", || {
        status(&follower).log_fault.as_deref() == Some("the memory limit is reached")
    })
    .await;
    assert!(follower.sequence() < primary.sequence());
    close(&follower);
    let follower = open_follower(&two, &wiring);
    level(&primary, &follower).await;
    assert_same_documents(&primary, &follower).await;
    close(&follower);
    close(&primary);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_leaves_the_reserve_of_its_disk_and_goes_on_with_a_smaller_one() {
    let folder = tempfile::tempdir().unwrap();
    let (primary, follower) = pair(folder.path()).await;
    level(&primary, &follower).await;
    close(&follower);
    let two = folder.path().join("follower");
    let wiring = Wiring::new(Some(&primary));
    let reserve = Options { disk_free_bytes_min: 1 << 50, ..common::options(&two) };
    let follower = open_limited(reserve, &wiring);
    until("the disk is full", || follower.readiness() == Readiness::DiskFull).await;
    store(&primary, document(2)).await;
    until("the follower waits", || {
        status(&follower).log_fault.as_deref() == Some("the disk is full")
    })
    .await;
    assert!(follower.sequence() < primary.sequence());
    close(&follower);
    let follower = open_follower(&two, &wiring);
    level(&primary, &follower).await;
    assert_same_documents(&primary, &follower).await;
    close(&follower);
    close(&primary);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_packed_has_to_be_copied_again() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        journal_file_bytes: 65_536,
        durability: Durability::None,
        ..common::options(&folder.path().join("primary"))
    };
    let primary = Engine::open(options).unwrap();
    store(&primary, document(0)).await;
    // It is never replaced, so that a pack keeps it as it is.
    store(&primary, document(50_000)).await;
    let two = folder.path().join("follower");
    seed(&primary, &two).await;
    for turn in 0.. {
        if primary.stats().packs > 0 {
            break;
        }
        assert!(turn < 1_000, "nothing is packed");
        for round in 0..200 {
            for number in 0..20 {
                let fingerprint = spread(round * 20 + number);
                store(&primary, Document { fingerprint, ..document(number) }).await;
            }
        }
        primary.snapshot().await.unwrap();
    }
    let wiring = Wiring::new(Some(&primary));
    let follower = open_follower(&two, &wiring);
    assert!(tokio::time::timeout(DEADLINE, follower.outdated()).await.is_ok());
    let position = wiring.position();
    assert!(
        matches!(primary.changes(&position), Err(ChangesEnd::Packed(at)) if at == position.sequence)
    );
    // A copy with another history is not taken for one that is behind.
    assert!(position.record.is_some());
    let other = FollowerPosition { record: position.record.map(|record| record ^ 1), ..position };
    assert!(matches!(primary.changes(&other), Err(ChangesEnd::Diverged(_))));
    close(&follower);
    seed(&primary, &two).await;
    let follower = open_follower(&two, &wiring);
    level(&primary, &follower).await;
    assert_same_documents(&primary, &follower).await;
    close(&follower);
    close(&primary);
}

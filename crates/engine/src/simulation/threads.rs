//! Promises of the threads together. A write whose group fails is refused and never visible. With
//! `interval` a window ends in time whatever else the engine does, and a power cut takes only the
//! writes of the last one. When writes pause, the newest segments are merged even during a long
//! merge. Method: the real threads over a simulated disk that fails, or delays a snapshot or a
//! merge.

use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use nearprint_fingerprint::recipe::Recipe;
use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_index::compaction::policy::Load;
use nearprint_machine::document::{Document, DocumentId, Sequence};
use nearprint_machine::query::Criteria;
use nearprint_storage::simulated::{Failure, Faults, Operation};
use nearprint_storage::{DirectoryLock, Disk, DiskFile, SimulatedDisk, StorageError};

use crate::api::error::Refused;
use crate::api::options::{Durability, Options};
use crate::api::replies::{Findings, QueryOptions, Readiness};
use crate::directories::recovery::recover;
use crate::handle::Engine;
use crate::threads::pause::Writes;
use crate::write::outbox::Admission;

const ENTROPY: [u8; 40] = [0x5e; 40];
/// The maximum number of checks, 10 ms apart, until something happens; a window has 20 ms.
const LOOKS: usize = 1_000;
/// The number of events in a delta for tests that need many segments.
const FEW_EVENTS: usize = 16;

/// A disk that makes no files whose names begin so while its gate is shut.
#[derive(Debug, Clone)]
struct Gated {
    disk: SimulatedDisk,
    gate: Arc<Gate>,
    names: &'static str,
}

#[derive(Debug, Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
    waiting: Mutex<bool>,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        *self.waiting.lock().unwrap() = true;
        let shut = self.open.lock().unwrap();
        drop(self.opened.wait_while(shut, |open| !*open).unwrap());
    }
}

impl Disk for Gated {
    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError> {
        if name.starts_with(self.names) {
            self.gate.pass();
        }
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError> {
        self.disk.open(name)
    }

    fn list(&self) -> Result<Vec<String>, StorageError> {
        self.disk.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), StorageError> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), StorageError> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> Result<(), StorageError> {
        self.disk.sync_directory()
    }

    fn free_bytes(&self) -> Result<u64, StorageError> {
        self.disk.free_bytes()
    }
}

fn options(durability: Durability) -> Options {
    Options {
        lookup_threads: 1,
        durability,
        delta_events: 1_024,
        queue_changes_max: 1_024,
        group_changes_max: 1_024,
        journal_file_bytes: 1 << 20,
        snapshot_interval_ms: 60_000,
        snapshot_changes: 1 << 30,
        disk_free_bytes_min: 0,
        clock_behind_ms_max: None,
        expired_kept_ms: 0,
        ..Options::new("", Recipe::Np2)
    }
}

/// Whether something happens in time.
fn happens(has_happened: impl FnMut() -> bool) -> bool {
    happens_within(LOOKS, has_happened)
}

/// The same with another number of checks.
fn happens_within(looks: usize, mut has_happened: impl FnMut() -> bool) -> bool {
    let (_never, nothing) = mpsc::channel::<()>();
    (0..looks).any(|_| has_happened() || nothing.recv_timeout(Duration::from_millis(10)).is_ok())
}

fn durable_upto(disk: &SimulatedDisk) -> u64 {
    let durable: Arc<dyn Disk> = Arc::new(disk.durable());
    let recovered = recover(&durable, &options(Durability::Always), &ENTROPY).unwrap();
    recovered.core.view().sequence().get()
}

async fn write(engine: &Engine, bits: u64) -> u64 {
    let pending = engine.begin_insert_packed(vec![Fingerprint::new(bits)], Admission::Wait).await;
    pending.unwrap().wait().await.unwrap().sequence.get()
}

/// An engine on a disk whose gate for segments is shut.
fn engine(options: Options) -> (Engine, Gated, tempfile::TempDir) {
    engine_without(options, "segment-")
}

/// An engine on a disk whose gate is shut for names that begin so.
fn engine_without(options: Options, names: &'static str) -> (Engine, Gated, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let gated = Gated { disk: SimulatedDisk::new(), gate: Arc::default(), names };
    let disk: Arc<dyn Disk> = Arc::new(gated.clone());
    let recovered = recover(&disk, &options, &ENTROPY).unwrap();
    let lock = DirectoryLock::acquire(folder.path()).unwrap();
    let engine = Engine::start((options, Arc::new(())), &disk, (recovered, None), lock).unwrap();
    (engine, gated, folder)
}

/// Otherwise readers would see what a restart does not find.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_group_fails_is_refused_and_never_visible() {
    for operation in [Operation::Write, Operation::Sync] {
        let (engine, gated, _folder) = engine(options(Durability::Always));
        gated.gate.open();
        let fail = vec![(operation, 1, Failure::Io)];
        gated.disk.set_faults(Faults { fail, ..Faults::default() });

        let id = DocumentId::new("lost").unwrap();
        let bare = Document::bare(Fingerprint::new(7));
        let document = Document { id: Some(id.clone()), ..bare.clone() };
        let pending = engine.begin_insert(document, Admission::Shed).await.unwrap();
        assert_eq!(pending.wait().await.unwrap_err(), Refused::Failed, "{operation:?}");

        assert_eq!(engine.readiness(), Readiness::Failed, "{operation:?}");
        assert_eq!(engine.sequence(), Sequence::ZERO, "{operation:?}");
        assert_eq!(engine.document(None, &id).await, Ok(None), "{operation:?}");
        let criteria = Criteria::within(Distance::default());
        let options = QueryOptions { criteria, limit: 10, with_metadata: false };
        let found = engine.query(&bare, options).await.unwrap();
        assert_eq!(found, Findings::default(), "{operation:?}");
        tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_ends_while_a_snapshot_waits() {
    let (engine, gated, _folder) = engine(options(Durability::Interval { ms: 20 }));
    write(&engine, 1).await;
    let snapshot = tokio::spawn({
        let engine = engine.clone();
        async move { engine.snapshot().await }
    });
    let waiting = || *gated.gate.waiting.lock().unwrap();
    assert!(happens(waiting), "the snapshot is being written");
    let mut answered = 0;
    for bits in 2..50 {
        answered = write(&engine, bits << 20).await;
    }
    assert!(happens(|| durable_upto(&gated.disk) == answered), "the window never ends");
    gated.gate.open();
    snapshot.await.unwrap().unwrap();
    tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
    assert_eq!(durable_upto(&gated.disk), answered, "after a close");
}

/// Space is kept for the next snapshot. What that has written of itself is no longer needed.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_takes_the_space_that_is_kept_for_it() {
    let (engine, gated, _folder) = engine_without(options(Durability::Always), "snapshot-");
    store(&engine, 400, 1_000).await;
    let view = || engine.shared.published.load().view.clone();
    let is_settled = || view().full_deltas().is_empty() && view().next_merge(Load::Idle).is_none();
    assert!(happens(is_settled));
    let (disk, index) = (|| engine.stats().disk, view().settled_bytes());
    assert!(happens(|| disk().needed_bytes > index));
    let needed = disk().needed_bytes;
    let limit = |bytes| {
        gated.disk.set_faults(Faults { capacity_bytes: Some(bytes), ..Faults::default() });
    };
    let most = 1 << 40;
    limit(most);
    limit(most - gated.disk.free_bytes().unwrap() + needed + index / 16);
    assert!(happens(|| disk().free_bytes < needed + index));
    let snapshot = tokio::spawn({
        let engine = engine.clone();
        async move { engine.snapshot().await }
    });
    assert!(happens(|| *gated.gate.waiting.lock().unwrap()), "its parts are written");
    assert!(happens(|| disk().free_bytes < needed - index / 4), "{:?}, {needed}", disk());
    write(&engine, 7).await;
    limit(most);
    gated.gate.open();
    snapshot.await.unwrap().unwrap();
    assert!(happens(|| disk().needed_bytes > needed - index / 2), "it is kept for the next one");
    tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn always_answers_what_is_durable_and_none_leaves_it_to_the_system() {
    for durability in [Durability::Always, Durability::None] {
        let (engine, gated, _folder) = engine(options(durability));
        gated.gate.open();
        for bits in 1..20 {
            let answered = write(&engine, bits << 20).await;
            let durable = durable_upto(&gated.disk);
            match durability {
                Durability::Always => assert_eq!(durable, answered),
                Durability::Interval { .. } | Durability::None => assert_eq!(durable, 0),
            }
        }
        tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
        assert_eq!(durable_upto(&gated.disk), 19, "after a close");
    }
}

/// Writes enough to fill this many deltas.
async fn fill_deltas(engine: &Engine, deltas: usize) {
    store(engine, deltas, FEW_EVENTS as u64).await;
}

/// Stores batches of this many different fingerprints.
async fn store(engine: &Engine, batches: usize, each: u64) {
    for _ in 0..batches {
        let after = engine.shared.published.load().view.sequence().get();
        let numbers = after + 1..=after + each;
        let bits = numbers.map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let batch: Vec<_> = bits.map(Fingerprint::new).collect();
        let pending = engine.begin_insert_packed(batch, Admission::Wait).await;
        pending.unwrap().wait().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_writes_pause_the_newest_segments_are_merged_while_a_long_merge_waits() {
    let small = Options {
        delta_events: FEW_EVENTS,
        small_segment_max: 4 * FEW_EVENTS as u64,
        ..options(Durability::None)
    };
    let (engine, gated, _folder) = engine(small);
    let shared = &engine.shared;
    // As during a snapshot: the first partitioned merge waits, and with it all others.
    let turn = shared.snapshot_merge_lock.lock().await;
    let waits = || !happens_within(30, || shared.merging().is_none());
    for _ in 0..LOOKS {
        if waits() {
            break;
        }
        fill_deltas(&engine, 8).await;
    }
    fill_deltas(&engine, 3).await;
    let few = || {
        let view = &shared.published.load().view;
        let small = view.segments().iter().filter(|segment| segment.sorted().is_small());
        view.full_deltas().is_empty() && small.count() <= 1
    };
    assert!(happens(few), "{:?}", engine.stats().segments);
    assert!(shared.merging().is_some(), "the merge still waits");
    drop(turn);
    gated.gate.open();
    tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_wait_have_not_paused() {
    let (engine, gated, _folder) = engine(options(Durability::None));
    gated.gate.open();
    let mut writes = Writes::new(&engine.shared);
    let mut paused = || writes.load(&engine.shared) == Load::Idle;
    let waits = engine.shared.queue.take(Admission::Shed, 1).await.unwrap();
    assert!(!happens_within(150, &mut paused), "one waits");
    drop(waits);
    assert!(happens(paused));
    tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
}

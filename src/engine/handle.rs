//! The handle: what the floors above call.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::document::{Document, DocumentId, Sequence};
use crate::engine::answers::{
    Admission, Findings, PackedInserted, QueryOptions, Readiness, Removed, SnapshotInfo,
    StoredDocument, WriteOutcome, Written,
};
use crate::engine::background::flusher;
use crate::engine::background::merger;
use crate::engine::background::reclaimer::ReclaimerThread;
use crate::engine::background::snapshots::Export;
use crate::engine::background::snapshotter::{SnapshotRequest, Snapshotter};
use crate::engine::background::spawn::{join, spawn};
use crate::engine::background::syncer;
use crate::engine::blocking::off_async;
use crate::engine::clock::{Clock, SystemClock};
use crate::engine::error::OpenError;
use crate::engine::error::Refused;
use crate::engine::open::recovery::{Recovered, recover};
use crate::engine::options::{Durability, Options};
use crate::engine::published::Published;
use crate::engine::read::found::{Checked, Found};
use crate::engine::read::reader;
use crate::engine::read::reader::{Ids, Listing};
use crate::engine::read::scheduler::{BatchScheduler, Share};
use crate::engine::shared::{Life, Message, Shared, Submission};
use crate::engine::write::core::Decided;
use crate::engine::write::writer::Writer;
use crate::fingerprint::{Distance, Fingerprint};
use crate::index::levels::ids::IdKey;
use crate::machine::apply::{Command, Outcome, PackedSearch, Verdict};
use crate::machine::change::PACKED_MAX;
use crate::machine::search::{Probe, Search};
use crate::storage::{DirectoryLock, Disk, RealDisk};

/// A handle on the running engine; cloning is shallow.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(super) shared: Arc<Shared>,
    threads: Arc<Mutex<Option<Threads>>>,
    snapshot_requests: Arc<Mutex<Option<Sender<SnapshotRequest>>>>,
}

/// What ends when the engine is closed.
#[derive(Debug)]
struct Threads {
    writer: JoinHandle<()>,
    snapshots: JoinHandle<()>,
    flusher: JoinHandle<()>,
    merges: JoinHandle<()>,
    stop_merges: Sender<()>,
    /// Of the policy `interval` alone.
    syncs: Option<(JoinHandle<()>, Sender<()>)>,
    reclaim: JoinHandle<()>,
    stop_reclaim: Sender<()>,
    _lock: DirectoryLock,
}

/// A write that is in the queue.
///
/// Dropping it does not take the write back.
#[must_use = "a write is answered when it is waited for"]
pub struct Pending<T> {
    answer: oneshot::Receiver<Result<Decided, Refused>>,
    finish: Finish<T>,
    bytes: usize,
}

/// How a decided command becomes its answer.
type Finish<T> = Box<dyn FnOnce(Decided) -> T + Send>;

impl<T> std::fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pending")
    }
}

impl<T> Pending<T> {
    /// Memory that it takes until it is waited for, in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits until the write is as durable as the policy promises.
    ///
    /// # Errors
    /// [`Refused`] when it was not done.
    pub async fn wait(self) -> Result<T, Refused> {
        // The writer answers everything it took, unless it panicked.
        let decided = self.answer.await.unwrap_or(Err(Refused::Failed))?;
        Ok((self.finish)(decided))
    }
}

impl Engine {
    /// Opens (or creates) the data directory, recovers, and starts the threads. Blocks.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong with the directory and what to do.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let real = RealDisk::open(&options.data)?;
        let lock = DirectoryLock::acquire(&options.data)?;
        let mut entropy = [0; 40];
        getrandom::fill(&mut entropy).map_err(|error| OpenError::System {
            what: format!("no random numbers for a new data directory: {error}"),
        })?;
        let disk: Arc<dyn Disk> = Arc::new(real);
        let recovered = recover(&disk, &options, &entropy)?;
        Self::start(options, &disk, recovered, lock)
    }

    /// Starts the threads over what was recovered.
    pub(super) fn start(
        options: Options,
        disk: &Arc<dyn Disk>,
        recovered: Recovered,
        lock: DirectoryLock,
    ) -> Result<Self, OpenError> {
        let Recovered { core, snapshots } = recovered;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let (writer, inbox) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            published: ArcSwap::from_pointee(Published {
                view: core.view().clone(),
                records: core.records().pin(),
            }),
            id_secret: core.machine().id_secret(),
            permits: Arc::new(Semaphore::new(options.queue_changes_max)),
            life: watch::Sender::new(Life::Running),
            disk_full: false.into(),
            memory_full: false.into(),
            snapshots: ArcSwap::from_pointee(snapshots.list()),
            reclaimable_upto: snapshots.covered_by_both().get().into(),
            reclaim_wanted: false.into(),
            space: ArcSwap::default(),
            scheduler: BatchScheduler::new(options.lookup_threads),
            flusher: OnceLock::new(),
            merging: Mutex::default(),
            snapshot_merge_lock: tokio::sync::Mutex::default(),
            options,
            clock: Arc::clone(&clock),
            writer,
        });
        let (snapshot_requests, requests) = std::sync::mpsc::channel();
        let (stop_merges, merges_stopped) = std::sync::mpsc::channel();
        let (settle, settle_requests) = std::sync::mpsc::channel();
        let snapshotter = Snapshotter {
            shared: Arc::clone(&shared),
            snapshots,
            disk: Arc::clone(disk),
            requests,
            settle,
            last_ms: clock.now_ms(),
            last_failed: false,
        };
        let (stop_reclaim, reclaim_stopped) = std::sync::mpsc::channel();
        let reclaim = ReclaimerThread::new(Arc::clone(&shared), core.reclaimer(), reclaim_stopped);
        let writer = Writer::new(core, Arc::clone(&shared), inbox);
        let (merged, flushed) = (Arc::clone(&shared), Arc::clone(&shared));
        let syncs = match shared.options.durability {
            Durability::Interval { ms } => {
                let (stop, stopped) = std::sync::mpsc::channel();
                let (synced, window) = (Arc::clone(&shared), Duration::from_millis(ms));
                let run = move || syncer::run(&synced, window, &stopped);
                Some((spawn(&shared, "syncs", run)?, stop))
            }
            Durability::Always | Durability::None => None,
        };
        let threads = Threads {
            writer: spawn(&shared, "writer", move || writer.run())?,
            snapshots: spawn(&shared, "snapshots", move || snapshotter.run())?,
            flusher: spawn(&shared, "flusher", move || flusher::run(&flushed, &settle_requests))?,
            merges: spawn(&shared, "merges", move || {
                merger::run(&merged, &merges_stopped);
            })?,
            stop_merges,
            syncs,
            reclaim: spawn(&shared, "reclaim", move || reclaim.run())?,
            stop_reclaim,
            _lock: lock,
        };
        Ok(Self {
            shared,
            threads: Arc::new(Mutex::new(Some(threads))),
            snapshot_requests: Arc::new(Mutex::new(Some(snapshot_requests))),
        })
    }

    /// Looks up near-duplicates of a document; a stored document with its id is left out.
    ///
    /// Cost: microseconds without hits; hits read their records, off the async threads.
    ///
    /// # Errors
    /// [`Refused::DistanceAboveMax`], [`Refused::Unreadable`].
    pub async fn query(
        &self,
        document: &Document,
        options: QueryOptions,
    ) -> Result<Findings, Refused> {
        Ok(self.find(document, options).await?.show(usize::MAX).await?.into_findings())
    }

    /// The same, for callers that bound the bytes of what is shown: [`Found::show`].
    ///
    /// # Errors
    /// As [`Self::query`].
    pub async fn find(&self, document: &Document, options: QueryOptions) -> Result<Found, Refused> {
        self.check_distance(options.criteria.distance)?;
        let key = self.key(document);
        let probe = Probe { document, key, criteria: options.criteria };
        let state = self.shared.published.load();
        let search = Search::begin(&state.view, &probe);
        if !reader::reads_records(&search) {
            return finish_query(&state, &probe, search, options.limit);
        }
        let state = Arc::clone(&state);
        let document = document.clone();
        off_async(move || {
            let probe = Probe { document: &document, key, criteria: options.criteria };
            finish_query(&state, &probe, search, options.limit)
        })
        .await
    }

    /// The part of one request in the threads that batches are looked up on.
    pub fn share(&self) -> Share {
        self.shared.scheduler.share()
    }

    /// The distance of the nearest stored fingerprint of each query, or 255 for none; with the
    /// permits of the batch scheduler.
    ///
    /// # Errors
    /// [`Refused::DistanceAboveMax`].
    pub async fn nearest_scheduled(
        &self,
        share: &Share,
        queries: Vec<Fingerprint>,
        distance: Distance,
    ) -> Result<Vec<u8>, Refused> {
        self.check_distance(distance)?;
        let shared = Arc::clone(&self.shared);
        let look_up = move |piece: &[Fingerprint]| {
            reader::nearest(&shared.published.load().view, piece, distance)
        };
        share.look_up(&queries.into(), look_up).await
    }

    /// The same on the caller's thread, whatever else runs. CPU-bound: call it off the async
    /// threads for more than a few hundred queries.
    ///
    /// # Errors
    /// [`Refused::DistanceAboveMax`].
    pub fn nearest(&self, queries: &[Fingerprint], distance: Distance) -> Result<Vec<u8>, Refused> {
        self.check_distance(distance)?;
        Ok(reader::nearest(&self.shared.published.load().view, queries, distance))
    }

    /// Stores a document whatever is there.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_insert(
        &self,
        document: Document,
        admission: Admission,
    ) -> Result<Pending<Written>, Refused> {
        let finish = Box::new(|decided: Decided| {
            let Outcome::Written { verdict, .. } = decided.outcome else {
                unreachable!("an insert writes")
            };
            written(verdict, decided.sequence)
        });
        self.submit(Command::Insert { document }, admission, (finish, 0)).await
    }

    /// Looks up and, if nothing counts (or `store_duplicates`), stores: one atomic step.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_check_and_insert(
        &self,
        document: Document,
        options: QueryOptions,
        store_duplicates: bool,
        admission: Admission,
    ) -> Result<Pending<Checked>, Refused> {
        let QueryOptions { criteria, limit } = options;
        self.check_distance(criteria.distance)?;
        let (search, ids) = self.search(&document, options).await?;
        // The command has the search, and what was decided another: one of them at a time.
        let bytes = search.bytes() + ids.bytes();
        let short = document.short;
        let command = Command::CheckAndInsert { document, criteria, store_duplicates, search };
        let finish = Box::new(move |decided: Decided| {
            let (Outcome::Written { verdict, search: Some(search) }, Some(before)) =
                (decided.outcome, decided.before)
            else {
                unreachable!("a check-and-insert writes what it searched")
            };
            let found = Found::unread(before, (search, ids), (short, limit));
            Checked { written: written(verdict, decided.sequence), found }
        });
        self.submit(command, admission, (finish, bytes)).await
    }

    /// Stores bare fingerprints, at most [`PACKED_MAX`].
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_insert_packed(
        &self,
        fingerprints: Vec<Fingerprint>,
        admission: Admission,
    ) -> Result<Pending<PackedInserted>, Refused> {
        assert!(fingerprints.len() <= PACKED_MAX, "callers cut batches");
        let inserted = fingerprints.len() as u64;
        let finish = Box::new(move |decided: Decided| PackedInserted {
            inserted,
            sequence: decided.sequence,
        });
        self.submit(Command::InsertPacked { fingerprints }, admission, (finish, 0)).await
    }

    /// For each bare fingerprint in order, at most [`PACKED_MAX`]: the distance of the nearest hit,
    /// or 255 and it is stored. The batch scheduler runs the search.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_check_and_insert_packed(
        &self,
        share: &Share,
        fingerprints: Vec<Fingerprint>,
        distance: Distance,
        admission: Admission,
    ) -> Result<Pending<Vec<u8>>, Refused> {
        assert!(fingerprints.len() <= PACKED_MAX, "callers cut batches");
        self.check_distance(distance)?;
        let state = self.shared.published.load_full();
        let (since, queries) = (state.view.sequence(), fingerprints.as_slice().into());
        // All pieces see the same view: the writer adds what is newer than it.
        let look_up = move |piece: &[Fingerprint]| reader::nearest(&state.view, piece, distance);
        let nearest = share.look_up(&queries, look_up).await?;
        let search = PackedSearch { since, nearest };
        let command = Command::CheckAndInsertPacked { fingerprints, distance, search };
        let finish = Box::new(|decided: Decided| {
            let Outcome::CheckedPacked(nearest) = decided.outcome else {
                unreachable!("a packed check-and-insert answers for each")
            };
            nearest
        });
        self.submit(command, admission, (finish, 0)).await
    }

    /// Forgets the document with this id.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn remove(&self, id: DocumentId) -> Result<Removed, Refused> {
        self.removal(Command::Remove { id }).await
    }

    /// Forgets a fingerprint with all its documents.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn remove_fingerprint(&self, fingerprint: Fingerprint) -> Result<Removed, Refused> {
        self.removal(Command::Reset { fingerprint }).await
    }

    /// What is stored under an id.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub async fn document(&self, id: &DocumentId) -> Result<Option<StoredDocument>, Refused> {
        let key = IdKey::of(id.as_str(), &self.shared.id_secret);
        let state = self.shared.published.load_full();
        let Some(located) = state.view.find_id(key) else { return Ok(None) };
        off_async(move || reader::stored(&state.records, located.posting.sequence).map(Some)).await
    }

    /// Takes a snapshot now; answers when it is on disk.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn snapshot(&self) -> Result<SnapshotInfo, Refused> {
        let (request, taken) = oneshot::channel();
        self.request_snapshot(SnapshotRequest::Take(request))?;
        taken.await.unwrap_or(Err(Refused::Failed))
    }

    /// Takes a snapshot, and opens all that an export of it and the records needs.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn export(&self) -> Result<Export, Refused> {
        let (request, opened) = oneshot::channel();
        self.request_snapshot(SnapshotRequest::Export(request))?;
        opened.await.unwrap_or(Err(Refused::Failed))
    }

    fn request_snapshot(&self, request: SnapshotRequest) -> Result<(), Refused> {
        let requests = self.snapshot_requests.lock().expect("no panic while it is held");
        let requests = requests.as_ref().ok_or(Refused::Stopping)?;
        requests.send(request).map_err(|_| Refused::Failed)
    }

    /// The snapshots on disk, newest first.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        self.shared.snapshots.load().to_vec()
    }

    /// Whether writes are accepted, and if not, why.
    pub fn readiness(&self) -> Readiness {
        self.shared.readiness()
    }

    /// Stops accepting writes, finishes those that have a place, syncs, takes a snapshot. Blocks.
    /// The second call does nothing.
    pub fn close(&self) {
        self.shared.enter(Life::Stopping);
        // When the channel closes the snapshotter takes the last snapshot, for which it needs the writer.
        drop(self.snapshot_requests.lock().expect("no panic while it is held").take());
        let Some(threads) = self.threads.lock().expect("no panic while it is held").take() else {
            return;
        };
        drop(threads.stop_reclaim);
        join(threads.snapshots);
        join(threads.reclaim);
        // The snapshotter held the flusher's only request channel.
        self.shared.wake_flusher();
        join(threads.flusher);
        drop(threads.stop_merges);
        join(threads.merges);
        if let Some((syncs, stop)) = threads.syncs {
            drop(stop);
            join(syncs);
        }
        // A writer that failed has ended already.
        drop(self.shared.writer.send(Message::Stop));
        join(threads.writer);
    }

    /// Resolves when a fault has stopped writes for good: the process should exit non-zero.
    pub async fn failed(&self) {
        let mut life = self.shared.life.subscribe();
        // The sender lives in `shared`, as long as this handle.
        let failed = life.wait_for(|life| *life == Life::Failed).await;
        debug_assert!(failed.is_ok(), "the sender outlives the handle");
    }

    async fn removal(&self, command: Command) -> Result<Removed, Refused> {
        let finish = Box::new(|decided: Decided| {
            let Outcome::Removed { documents } = decided.outcome else {
                unreachable!("a removal removes")
            };
            Removed { documents, sequence: decided.sequence }
        });
        self.submit(command, Admission::Shed, (finish, 0)).await?.wait().await
    }

    async fn search(
        &self,
        document: &Document,
        options: QueryOptions,
    ) -> Result<(Search, Ids), Refused> {
        let (key, criteria) = (self.key(document), options.criteria);
        let state = self.shared.published.load_full();
        let mut search = Search::begin(&state.view, &Probe { document, key, criteria });
        if !reader::reads_records(&search) {
            return Ok((search, Ids::default()));
        }
        let document = document.clone();
        off_async(move || {
            let probe = Probe { document: &document, key, criteria };
            let mut ids = Ids::default();
            reader::verify(&state.view, &state.records, &probe, &mut search, &mut ids)?;
            Ok((search, ids))
        })
        .await
    }

    async fn submit<T>(
        &self,
        command: Command,
        admission: Admission,
        (finish, bytes): (Finish<T>, usize),
    ) -> Result<Pending<T>, Refused> {
        if let Some(refused) = self.shared.refusal(&command) {
            return Err(refused);
        }
        let changes = command.changes_max().min(self.shared.options.queue_changes_max) as u32;
        let permits = Arc::clone(&self.shared.permits);
        let permits = match admission {
            Admission::Shed => {
                permits.try_acquire_many_owned(changes).map_err(|_| Refused::Overloaded)?
            }
            Admission::Wait => {
                permits.acquire_many_owned(changes).await.map_err(|_| Refused::Stopping)?
            }
        };
        let (answer, decided) = oneshot::channel();
        let submission = Submission { command, answer, permits };
        let gone = || match self.shared.life() {
            Life::Failed => Refused::Failed,
            Life::Running | Life::Stopping => Refused::Stopping,
        };
        self.shared.writer.send(Message::Write(submission)).map_err(|_| gone())?;
        Ok(Pending { answer: decided, finish, bytes })
    }

    fn key(&self, document: &Document) -> Option<IdKey> {
        document.id.as_ref().map(|id| IdKey::of(id.as_str(), &self.shared.id_secret))
    }

    fn check_distance(&self, asked: Distance) -> Result<(), Refused> {
        let max = self.shared.options.distance_max;
        if asked <= max {
            return Ok(());
        }
        Err(Refused::DistanceAboveMax { asked: asked.get(), max: max.get() })
    }
}

/// Verifies what was found, and reads the ids of the hits where they are few.
fn finish_query(
    state: &Published,
    probe: &Probe<'_>,
    mut search: Search,
    limit: usize,
) -> Result<Found, Refused> {
    let Published { view, records } = state;
    let mut ids = Ids::default();
    reader::verify(view, records, probe, &mut search, &mut ids)?;
    let short = probe.document.short;
    let listing = Listing { short, limit, bytes_max: Found::READ_AT_ONCE_BYTES };
    let findings = reader::show(view, records, &search, &ids, listing)?;
    if findings.hits.len() == search.matches.len().min(limit) {
        return Ok(Found::read(findings));
    }
    Ok(Found::unread(state.clone(), (search, ids), (short, limit)))
}

const fn written(verdict: Verdict, sequence: Sequence) -> Written {
    let (outcome, stored) = match verdict {
        Verdict::Inserted => (WriteOutcome::Inserted, true),
        Verdict::Replaced => (WriteOutcome::Replaced, true),
        Verdict::AlreadyPresent => (WriteOutcome::AlreadyPresent, true),
        Verdict::Duplicate { stored } => (WriteOutcome::Duplicate, stored),
    };
    Written { outcome, stored, sequence }
}

//! The handle: what the layers above call.

use std::borrow::Borrow;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_index::id_key::IdKey;
use nearprint_index::namespace_key::NamespaceKey;
use nearprint_machine::change::PACKED_MAX;
use nearprint_machine::commands::{
    CheckAndInsert, CheckAndInsertPacked, Insert, InsertPacked, Remove, Reset,
};
use nearprint_machine::document::{Document, DocumentId, Namespace, Packed};
use nearprint_machine::query::Criteria;
use nearprint_machine::search::{PackedSearch, Probe, nearest};
use nearprint_storage::{DirectoryLock, Disk, ReadingDisk, RealDisk};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::api::error::{OpenError, Refused};
use crate::api::observer::Observer;
use crate::api::options::Options;
use crate::api::replies::{
    Admission, Findings, PackedInserted, PackedQuery, QueryOptions, Readiness, Removed,
    SnapshotInfo, StoreOptions, StoredDocument,
};
use crate::background::snapshot::snapshots::Export;
use crate::background::snapshot::snapshotter::SnapshotRequest;
use crate::background::threads::Threads;
use crate::background::watcher::DiskState;
use crate::blocking::off_async;
use crate::client::Client;
use crate::clock;
use crate::cluster::member::{EngineEnd, Member, NodeOptions};
use crate::cluster::offline;
use crate::following::follower;
use crate::groups::board::Board;
use crate::jobs::PurgeOwners;
use crate::open::recovery::{Recovered, recover};
use crate::originals::touches::Touches;
use crate::published::Published;
use crate::random;
use crate::read::found::{Checked, Found, Inserted, Unread};
use crate::read::reader::{self, Listing, RecordLookup};
use crate::read::scans::Scans;
use crate::read::scheduler::{BatchScheduler, Share, piece};
use crate::shared::{Life, Message, Shared};
use crate::write::command::{Command, SearchedCheckAndInsert, SearchedCheckAndInsertPacked};
use crate::write::queued::{Pending, QueueRoom, Queued};

/// A single look-up that visits more cells is a piece of work for the batch scheduler: it takes
/// more than about 100 us, for which an async thread would serve nobody else.
const CELLS_ON_ASYNC_THREADS_MAX: usize = 4_096;

/// The same for a single look-up that finds more than this, counted in every table.
const FOUND_ON_ASYNC_THREADS_MAX: usize = 1_024;

/// A single look-up that may read more records is a piece of work, too.
const RECORDS_READ_AT_ONCE_MAX: usize = 64;

/// A handle on the running engine; cloning is shallow.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(super) shared: Arc<Shared>,
    /// On whose behalf it is called.
    pub(super) client: Option<Client>,
    /// `None` once the engine is closed.
    threads: Arc<Mutex<Option<Threads>>>,
}

impl Engine {
    /// Opens (or creates) the data directory, recovers, and starts the threads. Blocks.
    ///
    /// # Errors
    /// [`OpenError`], whose message is for the operator: what is wrong with the directory, and what
    /// to do.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        Self::open_observed(options, Arc::new(()))
    }

    /// As [`Self::open`], and reports the work of the threads to `observer`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_observed(options: Options, observer: Arc<dyn Observer>) -> Result<Self, OpenError> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(&options.data)?);
        let lock = DirectoryLock::acquire(&options.data)?;
        Self::open_on(&disk, lock, (options, None), observer)
    }

    /// As [`Self::open`], for commands that change nothing: a directory that this process may not
    /// write is opened all the same, and refuses every write ([`Readiness::DirectoryUnusable`]).
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_to_read_at_least(options: Options) -> Result<Self, OpenError> {
        // What follows a primary is only read here, and keeps following it.
        let follows = follower::primary_at(&options.data).is_ok_and(|primary| primary.is_some());
        // What is read of a node it has, if not the newest of its cluster.
        let is_node = offline::is_node(&options.data).is_ok_and(|is_node| is_node);
        let options = Options { follows, is_node, ..options };
        if !options.data.is_dir() || RealDisk::check_writable(&options.data).is_ok() {
            return Self::open(options);
        }
        let disk: Arc<dyn Disk> = Arc::new(ReadingDisk::open(&options.data)?);
        let lock = DirectoryLock::acquire_to_read(&options.data)?;
        Self::open_on(&disk, lock, (options, None), Arc::new(()))
    }

    pub(super) fn open_on(
        disk: &Arc<dyn Disk>,
        lock: DirectoryLock,
        (options, node): (Options, Option<NodeOptions>),
        observer: Arc<dyn Observer>,
    ) -> Result<Self, OpenError> {
        let recovered = recover(disk, &options, &random::bytes()?)?;
        let node = node.map(|node| Member::open(node, &**disk, &recovered));
        Self::start((options, observer), disk, (recovered, node.transpose()?), lock)
    }

    /// The bytes of the model of the recipe, if it needs one; they have passed
    /// [`Options::model_check`].
    pub fn model(&self) -> Option<Arc<[u8]>> {
        self.shared.model.clone()
    }

    /// Starts the threads over what was recovered.
    pub(super) fn start(
        (options, observer): (Options, Arc<dyn Observer>),
        disk: &Arc<dyn Disk>,
        (recovered, member): (Recovered, Option<Member>),
        lock: DirectoryLock,
    ) -> Result<Self, OpenError> {
        let Recovered { core, mut snapshots, model } = recovered;
        let (writer, inbox) = mpsc::unbounded_channel();
        let survey = core.survey(snapshots.take_survey());
        let shared = Arc::new(Shared {
            published: ArcSwap::from_pointee(core.published()),
            identity: snapshots.identity(),
            id_secret: core.machine().id_secret(),
            queue: QueueRoom::new(options.queue_changes_max),
            life: watch::Sender::new(Life::Running),
            disk: DiskState::new(&**disk),
            memory_full: false.into(),
            snapshots: ArcSwap::from_pointee(snapshots.list()),
            reclaimable_upto: snapshots.covered_by_both().get().into(),
            reclaim_wanted: false.into(),
            purge_owners: PurgeOwners::default(),
            groups: Board::new(options.groups_kept_max, options.groups_memory_bytes_max),
            touches: Touches::new(options.originals_max, snapshots.take_touches()).into(),
            space: ArcSwap::default(),
            survey: ArcSwap::from_pointee(survey),
            changed: Notify::new(),
            times_set_back: AtomicU64::new(0),
            scheduler: BatchScheduler::start(options.lookup_threads)?,
            scans: Scans::start(&options, Arc::clone(&observer))?,
            flusher: OnceLock::new(),
            merging: Mutex::default(),
            snapshot_merge_lock: tokio::sync::Mutex::default(),
            node: member.as_ref().map(Member::membership),
            options,
            observer,
            model,
            writer,
        });
        let writing = (core, member, inbox);
        let threads = Threads::start(&shared, disk, writing, snapshots, lock)?;
        Ok(Self { shared, client: None, threads: Arc::new(Mutex::new(Some(threads))) })
    }

    /// The same engine for the requests of a client, which has one share of everything that is
    /// limited. Without a client, everything may be taken.
    #[must_use]
    pub fn on_behalf_of(&self, client: Client) -> Self {
        Self { client: Some(client), ..self.clone() }
    }

    /// Looks up near-duplicates of a document, without the stored document with its id.
    ///
    /// Cost: microseconds without hits; with hits it reads their records, off the async threads.
    ///
    /// # Errors
    /// [`Refused::DistanceAboveMax`], [`Refused::Unreadable`].
    pub async fn query(
        &self,
        document: impl Borrow<Document>,
        options: QueryOptions,
    ) -> Result<Findings, Refused> {
        Ok(self.find(document.borrow(), options).await?.show(usize::MAX).await?.into_findings())
    }

    /// The same for callers that bound the bytes of the hits ([`Found::show`]).
    ///
    /// # Errors
    /// As [`Self::query`].
    pub async fn find(&self, document: &Document, options: QueryOptions) -> Result<Found, Refused> {
        let QueryOptions { criteria, limit, .. } = options;
        self.check_distance(criteria.distance)?;
        let finish = move |state: &Published, probe: &Probe<'_>, lookup| {
            finish_query(state, probe, lookup, limit)
        };
        self.look_up(document, options, clock::now_ms(), finish).await
    }

    /// One request's share of the batch scheduler.
    pub fn share(&self) -> Share {
        self.shared.scheduler.share(self.client.clone())
    }

    /// For each fingerprint the distance of the nearest stored one, or 255 if none is within the
    /// distance. The batch scheduler runs the look-ups.
    ///
    /// # Errors
    /// [`Refused::DistanceAboveMax`].
    pub async fn nearest_scheduled(
        &self,
        share: &Share,
        fingerprints: Vec<Fingerprint>,
        query: &PackedQuery,
    ) -> Result<Vec<u8>, Refused> {
        let criteria = query.criteria;
        self.check_distance(criteria.distance)?;
        let shared = Arc::clone(&self.shared);
        let (namespace, at_ms) = (self.namespace_key(query.namespace.as_ref()), clock::now_ms());
        let look_up = move |piece: &[Fingerprint]| {
            let view = &shared.published.load().view;
            let visibility = view.visibility(namespace, at_ms, criteria.max_age_s);
            nearest(view, piece, criteria.distance, visibility)
        };
        let cells = self.shared.published.load().view.cells_visited(criteria.distance);
        share.look_up(&fingerprints.into(), piece(cells), look_up).await
    }

    /// The same in the default namespace, on the caller's thread, without a permit. Call it off the
    /// async threads for more than a few hundred fingerprints.
    ///
    /// # Errors
    /// [`Refused::DistanceAboveMax`].
    pub fn nearest(
        &self,
        fingerprints: &[Fingerprint],
        distance: Distance,
    ) -> Result<Vec<u8>, Refused> {
        self.check_distance(distance)?;
        let view = &self.shared.published.load().view;
        let visibility = view.visibility(None, clock::now_ms(), None);
        Ok(nearest(view, fingerprints, distance, visibility))
    }

    /// Stores a document, whatever is stored already.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_insert(
        &self,
        insert: impl Into<Insert>,
        admission: Admission,
    ) -> Result<Pending<Inserted>, Refused> {
        self.submit(insert.into(), admission, 0).await
    }

    /// Looks up a document and stores it unless a hit counts (or even so, if `storing` says so),
    /// in one atomic step.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_check_and_insert(
        &self,
        document: impl Into<Document>,
        options: QueryOptions,
        storing: impl Into<StoreOptions>,
        admission: Admission,
    ) -> Result<Pending<Checked>, Refused> {
        let QueryOptions { criteria, limit, .. } = options;
        self.check_distance(criteria.distance)?;
        let at_ms = clock::now_ms();
        let verify = |state: &Published, probe: &Probe<'_>, mut lookup: RecordLookup| {
            lookup.verify(state, probe).map(|()| lookup)
        };
        let document = document.into();
        let lookup = self.look_up(&document, options, at_ms, verify).await?;
        let bytes = lookup.bytes();
        let StoreOptions { store_duplicates, touch, renew: renews } = storing.into();
        let command = CheckAndInsert { document, criteria, store_duplicates, renews };
        let touches = touch.then(|| Arc::clone(&self.shared.touches));
        let command = SearchedCheckAndInsert { command, lookup, limit, touches };
        self.submit_at(command, at_ms, admission, bytes).await
    }

    /// Stores bare fingerprints, at most [`PACKED_MAX`].
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_insert_packed(
        &self,
        packed: impl Into<Packed>,
        admission: Admission,
    ) -> Result<Pending<PackedInserted>, Refused> {
        let packed = packed.into();
        assert!(packed.fingerprints.len() <= PACKED_MAX, "callers cut batches");
        self.submit(InsertPacked { packed }, admission, 0).await
    }

    /// Stores each bare fingerprint, in order, that has no other within the distance; at most
    /// [`PACKED_MAX`]. The reply is, for each, the distance of the nearest hit, or 255 if it was
    /// stored. The batch scheduler runs the search.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_check_and_insert_packed(
        &self,
        share: &Share,
        packed: impl Into<Packed>,
        criteria: Criteria,
        admission: Admission,
    ) -> Result<Pending<Vec<u8>>, Refused> {
        let packed = packed.into();
        assert!(packed.fingerprints.len() <= PACKED_MAX, "callers cut batches");
        self.check_distance(criteria.distance)?;
        let (state, at_ms) = (self.shared.published.load_full(), clock::now_ms());
        let (since, queries) = (state.view.sequence(), packed.fingerprints.as_slice().into());
        let namespace = self.namespace_key(packed.namespace.as_ref());
        let visibility = state.view.visibility(namespace, at_ms, criteria.max_age_s);
        let cells = state.view.cells_visited(criteria.distance);
        // All pieces search the same view; the writer adds what is newer.
        let look_up =
            move |piece: &[Fingerprint]| nearest(&state.view, piece, criteria.distance, visibility);
        let nearest = share.look_up(&queries, piece(cells), look_up).await?;
        let search = PackedSearch { since, visibility, nearest };
        let command = CheckAndInsertPacked { packed, criteria };
        let command = SearchedCheckAndInsertPacked { command, search };
        self.submit_at(command, at_ms, admission, 0).await
    }

    /// Removes the document with this id in a namespace.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn remove(
        &self,
        namespace: Option<Namespace>,
        id: DocumentId,
    ) -> Result<Removed, Refused> {
        self.begin_remove(namespace, id, Admission::Shed).await?.wait().await
    }

    /// Begins to remove the document with this id in a namespace.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_remove(
        &self,
        namespace: Option<Namespace>,
        id: DocumentId,
        admission: Admission,
    ) -> Result<Pending<Removed>, Refused> {
        self.submit(Remove { namespace, id }, admission, 0).await
    }

    /// Removes a fingerprint with all its documents in a namespace.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn remove_fingerprint(
        &self,
        namespace: Option<Namespace>,
        fingerprint: Fingerprint,
    ) -> Result<Removed, Refused> {
        self.submit(Reset { namespace, fingerprint }, Admission::Shed, 0).await?.wait().await
    }

    /// The secret of the data directory, which survives a restart and is never shown: for keys that
    /// come from it.
    pub fn secret(&self) -> [u8; 16] {
        self.shared.id_secret
    }

    /// The time, in milliseconds since 1970, by the clock that the engine uses.
    pub fn now_ms() -> u64 {
        clock::now_ms()
    }

    /// The document with an id in a namespace.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub async fn document(
        &self,
        namespace: Option<&Namespace>,
        id: &DocumentId,
    ) -> Result<Option<StoredDocument>, Refused> {
        let key = IdKey::of(id.as_str(), namespace, &self.shared.id_secret);
        let state = self.shared.published.load_full();
        let visibility =
            state.view.visibility(self.namespace_key(namespace), clock::now_ms(), None);
        let found = state.view.find_id(key).filter(|found| !visibility.has_expired(found.posting));
        let Some(found) = found else { return Ok(None) };
        off_async(move || reader::stored(&state.records, found.posting.sequence).map(Some)).await
    }

    pub(super) fn namespace_key(&self, namespace: Option<&Namespace>) -> Option<NamespaceKey> {
        namespace.map(|namespace| NamespaceKey::of(namespace, &self.shared.id_secret))
    }

    /// Takes a snapshot now, and returns when it is on disk.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn snapshot(&self) -> Result<SnapshotInfo, Refused> {
        let (request, taken) = oneshot::channel();
        self.request_snapshot(SnapshotRequest::Take(request))?;
        taken.await.unwrap_or(Err(Refused::Failed))
    }

    /// Takes a snapshot, and opens the files of an export: its own and all records.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn export(&self) -> Result<Export, Refused> {
        let (request, opened) = oneshot::channel();
        self.request_snapshot(SnapshotRequest::Export(request))?;
        opened.await.unwrap_or(Err(Refused::Failed))
    }

    fn request_snapshot(&self, request: SnapshotRequest) -> Result<(), Refused> {
        let threads = self.threads.lock().expect("no panic while it is locked");
        let requests = &threads.as_ref().ok_or(Refused::Stopping)?.snapshot_requests;
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

    /// Why writes are not accepted, in words, as far as there is more to say than
    /// [`Self::readiness`] does.
    pub fn explanation(&self) -> Option<String> {
        match self.readiness() {
            Readiness::DirectoryUnusable => {
                self.shared.disk.fault.load().as_deref().map(ToOwned::to_owned)
            }
            Readiness::DiskFull => {
                let disk = self.shared.disk.stats.load();
                Some(format!(
                    "{} bytes are free, and {} are needed. {}",
                    disk.free_bytes,
                    disk.needed_bytes,
                    disk.freeing.explanation()
                ))
            }
            Readiness::Ready | Readiness::Stopping | Readiness::Failed | Readiness::MemoryFull => {
                None
            }
        }
    }

    /// Stops accepting writes, finishes those in the queue, syncs, takes a snapshot. Blocks.
    /// The second call does nothing.
    pub fn close(&self) {
        self.shared.enter(Life::Stopping);
        let threads = self.threads.lock().expect("no panic while it is locked").take();
        if let Some(threads) = threads {
            threads.stop(&self.shared);
        }
    }

    /// Resolves when the engine has ended without having been closed. It has to be closed all the
    /// same.
    pub async fn ended(&self) -> EngineEnd {
        let mut life = self.shared.life.subscribe();
        loop {
            if let Life::Ended(end) = *life.borrow_and_update() {
                return end;
            }
            // The sender lives in `shared`, as long as this handle.
            let changed = life.changed().await;
            debug_assert!(changed.is_ok(), "the sender outlives the handle");
        }
    }

    /// Finds the matches of a document, and finishes the look-up: off the async threads if that
    /// reads records, and in turn with long work of other clients if it takes long.
    pub(crate) async fn look_up<T: Send + 'static>(
        &self,
        document: &Document,
        options: QueryOptions,
        at_ms: u64,
        finish: impl FnOnce(&Published, &Probe<'_>, RecordLookup) -> Result<T, Refused> + Send + 'static,
    ) -> Result<T, Refused> {
        let QueryOptions { criteria, limit, with_metadata } = options;
        let probe = Probe::new(document, criteria, at_ms, &self.shared.id_secret);
        let state = self.shared.published.load();
        let mut begun = if state.view.cells_visited(criteria.distance) > CELLS_ON_ASYNC_THREADS_MAX
        {
            None
        } else {
            let crowd = FOUND_ON_ASYNC_THREADS_MAX;
            RecordLookup::begin_unless_crowded(&state.view, &probe, with_metadata, crowd)
        };
        if let Some(lookup) = begun.take_if(|lookup| !lookup.reads_records()) {
            return finish(&state, &probe, lookup);
        }
        let records = |lookup: &RecordLookup| {
            lookup.search.sketches_to_read() + lookup.search.matches.len().min(limit)
        };
        let is_long =
            begun.as_ref().is_none_or(|lookup| records(lookup) > RECORDS_READ_AT_ONCE_MAX);
        let (state, document) = (Guard::into_inner(state), document.clone());
        let (key, namespace) = (probe.key, probe.namespace);
        let look_up = move || {
            let probe = Probe { document: &document, key, namespace, criteria, at_ms };
            let begin = || RecordLookup::begin(&state.view, &probe, with_metadata);
            let lookup = begun.unwrap_or_else(begin);
            finish(&state, &probe, lookup)
        };
        if is_long {
            return self.share().run(look_up).await?;
        }
        off_async(look_up).await
    }

    /// Puts a command that is accepted now in the queue of the writer; its reply takes about
    /// `bytes` bytes.
    pub(super) async fn submit<C: Command>(
        &self,
        command: C,
        admission: Admission,
        bytes: usize,
    ) -> Result<Pending<C::Reply>, Refused> {
        self.submit_at(command, clock::now_ms(), admission, bytes).await
    }

    async fn submit_at<C: Command>(
        &self,
        command: C,
        at_ms: u64,
        admission: Admission,
        bytes: usize,
    ) -> Result<Pending<C::Reply>, Refused> {
        let bounds = command.bounds();
        if let Some(refused) = self.shared.refusal(bounds) {
            return Err(refused);
        }
        if self.shared.options.follows {
            return Err(Refused::Follower);
        }
        if self.shared.options.is_node && !self.shared.leads() {
            return Err(Refused::NoLeader);
        }
        let room = self.shared.queue.take(admission, bounds.changes).await?;
        let (queued, pending) =
            Queued::new(command, at_ms, (self.client.clone(), Some(room)), bytes);
        let sent = self.shared.writer.send(Message::Write(queued));
        sent.map_err(|_| self.shared.end_refusal())?;
        let wait_max = self.shared.node.as_ref().map(|node| node.options.write_timeout_ms);
        Ok(pending.no_longer_than(wait_max.map(Duration::from_millis)))
    }

    pub(super) fn check_distance(&self, asked: Distance) -> Result<(), Refused> {
        let max = self.shared.options.distance_max;
        if asked <= max {
            return Ok(());
        }
        Err(Refused::DistanceAboveMax { asked: asked.get(), max: max.get() })
    }
}

/// Verifies the matches, and reads the documents of the hits if they are few.
fn finish_query(
    state: &Published,
    probe: &Probe<'_>,
    mut lookup: RecordLookup,
    limit: usize,
) -> Result<Found, Refused> {
    lookup.verify(state, probe)?;
    let short = probe.document.short;
    let listing = Listing { short, limit, bytes_max: Found::READ_AT_ONCE_BYTES };
    let findings = lookup.show(state, listing)?;
    if !findings.is_cut {
        return Ok(Found::read(findings));
    }
    Ok(Unread { published: state.clone(), lookup, short, limit }.into())
}

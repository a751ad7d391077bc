//! The handle, [`Engine`]: all that other crates call, one file a subject.

pub(crate) mod changes;
pub(crate) mod listing;

mod groups;
mod jobs;
mod lookups;
mod node;
mod originals;
mod stats;
mod writes;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};

use arc_swap::ArcSwap;
use nearprint_storage::{DirectoryLock, Disk, ReadingDisk, RealDisk};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::api::client::Client;
use crate::api::error::{OpenError, Refused};
use crate::api::observer::Observer;
use crate::api::options::Options;
use crate::api::replies::{Readiness, SnapshotInfo};
use crate::api::{clock, random};
use crate::directories::follower;
use crate::directories::member::Member;
use crate::directories::node::is_node;
use crate::directories::recovery::{Recovered, recover};
use crate::shared::{Life, Shared};
use crate::snapshot::snapshots::Export;
use crate::state::board::Board;
use crate::state::disk::DiskState;
use crate::state::jobs::PurgeOwners;
use crate::state::replica::ReplicaOptions;
use crate::state::scans::Scans;
use crate::state::scheduler::BatchScheduler;
use crate::state::touches::Touches;
use crate::threads::lifecycle::Threads;
use crate::threads::snapshotter::SnapshotRequest;
use crate::write::queued::QueueRoom;

/// A handle on the running engine; cloning is shallow.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
    /// On whose behalf it is called.
    client: Option<Client>,
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
        let is_node = is_node(&options.data).is_ok_and(|is_node| is_node);
        let options = Options { follows, is_node, ..options };
        if !options.data.is_dir() || RealDisk::check_writable(&options.data).is_ok() {
            return Self::open(options);
        }
        let disk: Arc<dyn Disk> = Arc::new(ReadingDisk::open(&options.data)?);
        let lock = DirectoryLock::acquire_to_read(&options.data)?;
        Self::open_on(&disk, lock, (options, None), Arc::new(()))
    }

    pub(crate) fn open_on(
        disk: &Arc<dyn Disk>,
        lock: DirectoryLock,
        (options, replica): (Options, Option<ReplicaOptions>),
        observer: Arc<dyn Observer>,
    ) -> Result<Self, OpenError> {
        let recovered = recover(disk, &options, &random::bytes()?)?;
        let identity = recovered.snapshots.identity();
        let open = |replica| Member::open(replica, &**disk, identity, &recovered.core);
        let member = replica.map(open).transpose()?;
        Self::start((options, observer), disk, (recovered, member), lock)
    }

    /// The bytes of the model of the recipe, if it needs one; they have passed
    /// [`Options::model_check`].
    pub fn model(&self) -> Option<Arc<[u8]>> {
        self.shared.model.clone()
    }

    /// Starts the threads over what was recovered.
    pub(crate) fn start(
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
            disk: DiskState::new(&**disk, snapshots.begun_bytes()),
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

    /// The secret of the data directory, which survives a restart and is never shown: for keys that
    /// come from it.
    pub fn secret(&self) -> [u8; 16] {
        self.shared.id_secret
    }

    /// The time, in milliseconds since 1970, by the clock that the engine uses.
    pub fn now_ms() -> u64 {
        clock::now_ms()
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

    /// Resolves when a fault has stopped writes for good: the process should exit with an error.
    /// The engine has to be closed all the same.
    pub async fn failed(&self) {
        let mut life = self.shared.life.subscribe();
        // The sender lives in `shared`, as long as this handle.
        let failed = life.wait_for(|life| *life == Life::Failed).await;
        debug_assert!(failed.is_ok(), "the sender outlives the handle");
    }
}

//! What the threads of the engine share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

use arc_swap::ArcSwap;
use nearprint_index::compaction::built::Built;
use nearprint_index::levels::segment::Segment;
use nearprint_index::tables::secondary::SecondaryTable;
use nearprint_index::view::View;
use nearprint_machine::document::Sequence;
use nearprint_storage::{Identity, StorageError};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::api::error::Refused;
use crate::api::observer::Observer;
use crate::api::options::Options;
use crate::api::replies::{Readiness, RecordSpace, SnapshotInfo};
use crate::snapshot::placing::Movable;
use crate::state::board::Board;
use crate::state::disk::DiskState;
use crate::state::jobs::PurgeOwners;
use crate::state::memory::memory_stats;
use crate::state::published::Published;
use crate::state::replica::Membership;
use crate::state::scans::Scans;
use crate::state::scheduler::BatchScheduler;
use crate::state::survey::Survey;
use crate::state::touches::Touches;
use crate::write::command::{Bounds, Command};
use crate::write::core::Durable;
use crate::write::queued::{Pending, QueueRoom, Queued, QueuedWrite};

/// State shared by the handle, the writer and the background threads.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) observer: Arc<dyn Observer>,
    /// The published state: durable as the policy promises.
    pub(crate) published: ArcSwap<Published>,
    pub(crate) identity: Identity,
    pub(crate) id_secret: [u8; 16],
    pub(crate) scheduler: BatchScheduler,
    pub(crate) scans: Scans,
    pub(crate) model: Option<Arc<[u8]>>,
    pub(crate) writer: mpsc::UnboundedSender<ToWriter>,
    pub(crate) queue: QueueRoom,
    pub(crate) life: watch::Sender<Life>,
    pub(crate) disk: DiskState,
    pub(crate) memory_full: AtomicBool,
    pub(crate) snapshots: ArcSwap<Vec<SnapshotInfo>>,
    /// Set once it runs.
    pub(crate) flusher: OnceLock<Thread>,
    /// The last change that both kept snapshots contain.
    pub(crate) reclaimable_upto: AtomicU64,
    /// Whether there may be enough garbage to be worth a sweep.
    pub(crate) reclaim_wanted: AtomicBool,
    /// How often documents were named as originals.
    pub(crate) touches: Arc<Touches>,
    pub(crate) purge_owners: PurgeOwners,
    /// The jobs that find groups.
    pub(crate) groups: Board,
    pub(crate) space: ArcSwap<RecordSpace>,
    /// What is known of the garbage in the journal.
    pub(crate) survey: ArcSwap<Survey>,
    /// Wakes who waits for changes.
    pub(crate) changed: Notify,
    /// How often the time of commands went back, because the clock was set back.
    pub(crate) times_set_back: AtomicU64,
    /// Locked while segments to merge are chosen.
    pub(crate) merging: Mutex<Option<Merging>>,
    /// Snapshots and partitioned merges take turns, first come, first served: a snapshot would keep
    /// in memory what the merge has finished with, and write its intermediate results.
    pub(crate) snapshot_merge_lock: tokio::sync::Mutex<()>,
    /// What it does as a node of a cluster, if it is one.
    pub(crate) node: Option<Membership>,
}

/// The merge that is under way.
#[derive(Debug)]
pub(crate) struct Merging {
    /// Its inputs, which the flusher must not merge.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// The same, if it merges secondary tables.
    pub(crate) secondary_tables: Vec<SecondaryTable>,
    /// The last change when it began.
    pub(crate) since: Sequence,
}

impl Merging {
    /// Whether a part is among the inputs.
    pub(crate) fn has(&self, part: &Movable) -> bool {
        match part {
            Movable::Segment(part) => self.segments.iter().any(|input| Arc::ptr_eq(input, part)),
            Movable::Table(part) => {
                self.secondary_tables.iter().any(|input| Arc::ptr_eq(&input.table, &part.table))
            }
        }
    }
}

/// Whether the engine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Running,
    Stopping,
    /// A fault has stopped writes for good.
    Failed,
}

/// A message to the writer.
#[derive(Debug)]
pub(crate) enum ToWriter {
    /// Decide a command.
    Write(Box<dyn QueuedWrite>),
    /// Decide these in their order: as one group, if there is time.
    WriteAll(Vec<Box<dyn QueuedWrite>>),
    /// Install what was built from parts of the published view, and publish. The new view is sent
    /// back.
    Install { built: Built, installed: oneshot::Sender<View> },
    /// Close the delta and publish. Everything in the state that is sent back is durable.
    Freeze { frozen: oneshot::Sender<Durable> },
    /// Sync what was written, and publish. Everything in the state that is sent back is durable.
    Sync { synced: oneshot::Sender<Durable> },
    /// The log of the cluster has news.
    Log,
    /// It cannot go on as a copy, for this reason.
    Halt(String),
    /// The engine has failed: refuse what waits, and end.
    Fail,
    /// Commit what waits, and end.
    Stop,
}

impl ToWriter {
    /// The writes in it.
    pub(crate) fn into_writes(self) -> Vec<Box<dyn QueuedWrite>> {
        match self {
            Self::Write(write) => vec![write],
            Self::WriteAll(writes) => writes,
            Self::Install { .. }
            | Self::Freeze { .. }
            | Self::Sync { .. }
            | Self::Log
            | Self::Halt(_)
            | Self::Fail
            | Self::Stop => Vec::new(),
        }
    }
}

impl Shared {
    pub(crate) fn life(&self) -> Life {
        *self.life.borrow()
    }

    /// Whether it is a node that leads its cluster.
    pub(crate) fn leads(&self) -> bool {
        self.node.as_ref().is_some_and(Membership::leads)
    }

    /// What is being merged. Poison is ignored, because a panic in any thread ends the process.
    pub(crate) fn merging(&self) -> MutexGuard<'_, Option<Merging>> {
        self.merging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message to the writer and waits for its reply; `None` if the writer has ended.
    pub(crate) fn send_and_wait<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<T>) -> ToWriter,
    ) -> Option<T> {
        let (reply, received) = oneshot::channel();
        self.writer.send(message(reply)).ok()?;
        received.blocking_recv().ok()
    }

    /// Puts a command of the engine itself in the queue of the writer.
    ///
    /// # Errors
    /// [`Refused`], if the engine stops or has failed.
    pub(crate) fn send_own<C: Command>(
        &self,
        command: C,
        at_ms: u64,
    ) -> Result<Pending<C::Reply>, Refused> {
        if let Some(refused) = self.refusal(command.bounds()) {
            return Err(refused);
        }
        let (queued, pending) = Queued::new(command, at_ms, (None, None), 0);
        self.writer.send(ToWriter::Write(queued)).map_err(|_| Refused::Stopping)?;
        Ok(pending)
    }

    /// Publishes a state, which is as durable as the policy promises.
    pub(crate) fn publish(&self, published: Published) {
        let bytes_max = self.options.memory_bytes_max;
        let is_full = bytes_max > 0 && memory_stats(&published.view).total() > bytes_max;
        let has_full_deltas = !published.view.full_deltas().is_empty();
        self.memory_full.store(is_full, Ordering::Relaxed);
        self.published.store(Arc::new(published));
        self.changed.notify_waiters();
        if has_full_deltas {
            self.wake_flusher();
        }
    }

    pub(crate) fn wake_flusher(&self) {
        if let Some(flusher) = self.flusher.get() {
            flusher.unpark();
        }
    }

    /// Enters a state, but never leaves [`Life::Failed`].
    pub(crate) fn enter(&self, life: Life) {
        self.life.send_modify(|now| {
            if !matches!(now, Life::Failed) {
                *now = life;
            }
        });
    }

    /// Why a command is refused that comes when the writer has ended.
    pub(crate) fn end_refusal(&self) -> Refused {
        match self.life() {
            Life::Running | Life::Stopping => Refused::Stopping,
            Life::Failed => Refused::Failed,
        }
    }

    /// Notes that the engine has ended by an error of storage, and logs it.
    pub(crate) fn fail_by(&self, error: &StorageError) {
        let error: &dyn std::error::Error = error;
        let source = error.source().map(ToString::to_string);
        tracing::error!(%error, source, "writes have stopped; restart to recover from disk");
        self.enter(Life::Failed);
    }

    /// Stops the engine for good: it accepts no more commands, and the writer refuses those that
    /// wait.
    pub(crate) fn fail(&self) {
        self.enter(Life::Failed);
        // If the writer has ended, nothing waits.
        drop(self.writer.send(ToWriter::Fail));
    }

    /// What the threads of a node or a follower tell.
    ///
    /// # Panics
    /// If the engine is neither.
    pub(crate) fn membership(&self) -> &Membership {
        self.node.as_ref().expect("it is the writer of a node")
    }

    pub(crate) fn readiness(&self) -> Readiness {
        match self.life() {
            Life::Failed => Readiness::Failed,
            Life::Stopping => Readiness::Stopping,
            Life::Running if self.disk.fault.load().is_some() => Readiness::DirectoryUnusable,
            Life::Running if self.disk.is_full.load(Ordering::Relaxed) => Readiness::DiskFull,
            Life::Running if self.memory_full.load(Ordering::Relaxed) => Readiness::MemoryFull,
            Life::Running => Readiness::Ready,
        }
    }

    /// Refuses what needs a running engine.
    ///
    /// # Errors
    /// [`Refused`], if the engine stops or has failed.
    pub(crate) fn check_running(&self) -> Result<(), Refused> {
        match self.life() {
            Life::Running => Ok(()),
            Life::Stopping | Life::Failed => Err(self.end_refusal()),
        }
    }

    /// Why a command must be refused now, if so.
    pub(crate) fn refusal(&self, bounds: Bounds) -> Option<Refused> {
        match self.readiness() {
            Readiness::Ready => None,
            Readiness::Failed => Some(Refused::Failed),
            Readiness::Stopping => Some(Refused::Stopping),
            Readiness::DirectoryUnusable => Some(Refused::DirectoryUnusable),
            Readiness::DiskFull => bounds.adds.then_some(Refused::DiskFull),
            Readiness::MemoryFull => bounds.adds.then_some(Refused::MemoryFull),
        }
    }
}

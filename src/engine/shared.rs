//! What the threads of the engine share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

use arc_swap::ArcSwap;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::document::Sequence;
use crate::engine::answers::{Readiness, RecordSpace, SnapshotInfo};
use crate::engine::clock::Clock;
use crate::engine::error::Refused;
use crate::engine::options::Options;
use crate::engine::published::Published;
use crate::engine::read::scheduler::BatchScheduler;
use crate::engine::write::command::Bounds;
use crate::engine::write::queued::QueuedWrite;
use crate::index::compaction::built::Built;
use crate::index::levels::segment::Segment;
use crate::index::view::View;

/// State shared by the handle, the writer and the background threads.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    /// The published state: durable as the policy promises.
    pub(crate) published: ArcSwap<Published>,
    pub(crate) id_secret: [u8; 16],
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) scheduler: BatchScheduler,
    pub(crate) writer: mpsc::UnboundedSender<Message>,
    /// A permit for each change that may wait.
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) life: watch::Sender<Life>,
    pub(crate) disk_full: AtomicBool,
    pub(crate) memory_full: AtomicBool,
    pub(crate) snapshots: ArcSwap<Vec<SnapshotInfo>>,
    /// Once it runs.
    pub(crate) flusher: OnceLock<Thread>,
    /// Up to here both kept snapshots hold everything.
    pub(crate) reclaimable_upto: AtomicU64,
    /// There may be enough records of no use to give their space back.
    pub(crate) reclaim_wanted: AtomicBool,
    pub(crate) space: ArcSwap<RecordSpace>,
    /// Whoever chooses segments to merge holds it.
    pub(crate) merging: Mutex<Option<Merging>>,
    /// Snapshots and partitioned merges take turns, in the order in which they ask: a snapshot would keep
    /// in memory what the merge no longer needs, and write its intermediate results.
    pub(crate) snapshot_merge_lock: tokio::sync::Mutex<()>,
}

/// The merge that is under way.
#[derive(Debug)]
pub(crate) struct Merging {
    /// What it takes the place of: not for the flusher.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// The last change when it began.
    pub(crate) since: Sequence,
}

/// Whether the engine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Running,
    Stopping,
    Failed,
}

/// A message to the writer.
#[derive(Debug)]
pub(crate) enum Message {
    /// Decide a command.
    Write(Box<dyn QueuedWrite>),
    /// Something was built from parts of the published view.
    Built { built: Built, done: oneshot::Sender<()> },
    /// Close the delta and publish; everything in the view is durable then.
    Freeze { frozen: oneshot::Sender<View> },
    /// Sync what was written (policy `interval`).
    Sync { done: oneshot::Sender<()> },
    /// Sync what was written, publish, and send the state.
    Synced { synced: oneshot::Sender<View> },
    /// The engine has failed: wake up, refuse what waits, and end.
    Fail,
    /// Commit what waits, and end.
    Stop,
}

impl Shared {
    pub(crate) fn life(&self) -> Life {
        *self.life.borrow()
    }

    /// What is being merged. A thread that panicked ends the process, so poison says nothing more.
    pub(crate) fn merging(&self) -> MutexGuard<'_, Option<Merging>> {
        self.merging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the flusher.
    pub(crate) fn wake_flusher(&self) {
        if let Some(flusher) = self.flusher.get() {
            flusher.unpark();
        }
    }

    /// A fault outlasts a stop.
    pub(crate) fn enter(&self, life: Life) {
        self.life.send_modify(|now| {
            if *now != Life::Failed {
                *now = life;
            }
        });
    }

    /// Stops the engine for good: no command is accepted any more, and the writer refuses those that wait.
    pub(crate) fn fail(&self) {
        self.enter(Life::Failed);
        // Without a writer nothing waits.
        drop(self.writer.send(Message::Fail));
    }

    pub(crate) fn readiness(&self) -> Readiness {
        match self.life() {
            Life::Failed => Readiness::Failed,
            Life::Stopping => Readiness::Stopping,
            Life::Running if self.disk_full.load(Ordering::Relaxed) => Readiness::DiskFull,
            Life::Running if self.memory_full.load(Ordering::Relaxed) => Readiness::MemoryFull,
            Life::Running => Readiness::Ready,
        }
    }

    /// Why a command cannot be taken now, if so.
    pub(crate) fn refusal(&self, bounds: Bounds) -> Option<Refused> {
        match self.readiness() {
            Readiness::Ready => None,
            Readiness::Failed => Some(Refused::Failed),
            Readiness::Stopping => Some(Refused::Stopping),
            Readiness::DiskFull => bounds.adds.then_some(Refused::DiskFull),
            Readiness::MemoryFull => bounds.adds.then_some(Refused::MemoryFull),
        }
    }
}

//! The keepers: threads that merge segments and take snapshots.
//!
//! They read the published view, build beside it, and hand the result to the writer, which installs
//! it between two groups; neither readers nor the writer wait for the building. One keeper builds
//! from deltas and takes snapshots, the other merges, so that a long merge does not hold up either. A
//! third one keeps the windows of the policy `interval`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::document::Sequence;
use crate::engine::answers::SnapshotInfo;
use crate::engine::background::flusher::{SettleRequest, tell};
use crate::engine::background::pause::Writes;
use crate::engine::background::reclaim;
use crate::engine::background::snapshots::{Export, Snapshots};
use crate::engine::error::Refused;
use crate::engine::shared::{Life, Merging, Message, Shared};
use crate::index::compaction::merge;
use crate::index::compaction::work::Work;
use crate::metrics;
use crate::storage::{Disk, StorageError};

/// How often the keepers look for work that nobody told them of.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The niceness of merges: a third of a core is left for them where look-ups want all.
const MERGE_NICENESS: i32 = 5;

/// After this time without a write segments are merged further.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// Takes snapshots on request or when they are due.
#[derive(Debug)]
pub(crate) struct SnapshotKeeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) snapshots: Snapshots,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) requests: Receiver<SnapshotRequest>,
    pub(crate) settle: Sender<SettleRequest>,
    pub(crate) last_ms: u64,
    pub(crate) last_failed: bool,
}

/// What the keeper of snapshots is asked for.
#[derive(Debug)]
pub(crate) enum SnapshotRequest {
    /// A snapshot, now.
    Take(oneshot::Sender<Result<SnapshotInfo, Refused>>),
    /// The files of a snapshot that is taken now, and of all records, open.
    Export(oneshot::Sender<Result<Export, Refused>>),
}

impl SnapshotKeeper {
    /// Runs until the handle and the writer are gone. A request channel that closes asks for the
    /// last snapshot.
    pub(crate) fn run(mut self) {
        loop {
            match self.requests.recv_timeout(LOOK_EVERY) {
                Ok(SnapshotRequest::Take(request)) => {
                    let taken = self.take_snapshot().ok_or(Refused::Failed);
                    // The caller may have left; the snapshot is taken all the same.
                    drop(request.send(taken));
                }
                Ok(SnapshotRequest::Export(request)) => {
                    let export = self.take_snapshot().and_then(|_| self.export());
                    drop(request.send(export.ok_or(Refused::Failed)));
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.look();
                    if self.is_due() {
                        let taken = match self.unsaved_changes() {
                            0 => self.repeat_snapshot(),
                            _ => self.take_snapshot(),
                        };
                        self.last_failed = taken.is_none();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    if self.shared.life() != Life::Failed && self.unsaved_changes() > 0 {
                        self.take_snapshot();
                    }
                    return;
                }
            }
        }
    }

    /// Open files stay readable when they are removed, and what is written behind their ends does
    /// not belong to the export: nobody waits for whoever reads it.
    fn export(&self) -> Option<Export> {
        let records = self.shared.published.load().records.files();
        self.snapshots
            .export(records)
            .inspect_err(|error| tracing::error!(%error, "no export"))
            .ok()
    }

    fn look(&self) {
        let options = &self.shared.options;
        if options.disk_free_bytes_min > 0 {
            // A disk that cannot be asked is not known to be full; writing will tell.
            let free = self.disk.free_bytes().unwrap_or(u64::MAX);
            self.shared.disk_full.store(free < options.disk_free_bytes_min, Ordering::Relaxed);
        }
    }

    fn unsaved_changes(&self) -> u64 {
        let saved = self.snapshots.list().first().map_or(0, |newest| newest.sequence.get());
        self.sequence().get() - saved
    }

    fn sequence(&self) -> Sequence {
        self.shared.published.load().view.sequence()
    }

    fn is_due(&self) -> bool {
        let options = &self.shared.options;
        let unsaved = self.unsaved_changes();
        let waited = self.shared.clock.now_ms().saturating_sub(self.last_ms);
        // One that failed is tried again in time, not at every look.
        let many = unsaved >= options.snapshot_changes;
        let (older, now) = (self.snapshots.held_by_both(), self.sequence());
        let in_the_way = older < now && reclaim::is_snapshot_due(&self.shared, older);
        ((many || in_the_way) && !self.last_failed)
            || (unsaved > 0 && waited >= options.snapshot_interval_ms)
    }

    /// Takes a snapshot of everything published so far; `None` where it failed, which is logged.
    fn take_snapshot(&mut self) -> Option<SnapshotInfo> {
        let shared = Arc::clone(&self.shared);
        let _turn = shared.snapshot_merge_lock.blocking_lock();
        let begun = self.shared.clock.monotonic();
        let (request, settled) = oneshot::channel();
        self.settle.send(request).ok()?;
        self.shared.wake_flusher();
        let parts = settled.blocking_recv().ok()?.parts();
        self.last_ms = self.shared.clock.now_ms();
        let taken = self.snapshots.take(parts, self.last_ms);
        self.tell_of(taken, begun)
    }

    /// Has the newest snapshot count as two, where nothing has changed since.
    fn repeat_snapshot(&mut self) -> Option<SnapshotInfo> {
        let begun = self.shared.clock.monotonic();
        let taken = self.snapshots.repeat();
        self.tell_of(taken, begun)
    }

    fn tell_of(
        &self,
        taken: Result<SnapshotInfo, StorageError>,
        begun: Duration,
    ) -> Option<SnapshotInfo> {
        self.shared.snapshots.store(Arc::new(self.snapshots.list()));
        let upto = self.snapshots.held_by_both().get();
        self.shared.reclaimable_upto.store(upto, Ordering::Release);
        let took = self.shared.clock.since(begun);
        match taken {
            Ok(info) => {
                metrics::snapshot_taken(took);
                tracing::info!(
                    sequence = %info.sequence, bytes = info.bytes,
                    duration_ms = took.as_millis() as u64, "snapshot taken"
                );
                Some(info)
            }
            Err(error) => {
                tracing::error!(%error, "no snapshot; the journal still has everything");
                None
            }
        }
    }
}

/// Merges segments while there is something to merge; ends when it is told to.
pub(crate) fn keep_merged(shared: &Arc<Shared>, stop: &Receiver<()>) {
    yield_to_readers();
    let mut writes = Writes::new(shared);
    while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(LOOK_EVERY) {
        let is_idle = writes.pause(shared) >= IDLE_AFTER;
        let ratio = if is_idle { merge::RATIO_IDLE } else { merge::RATIO };
        while merge_once(shared, ratio).is_some() {}
    }
}

/// Lowers the priority of the calling thread: nobody waits for a merge, and look-ups that share a core
/// with one do. Where that is not allowed, merges are as urgent as the rest.
fn yield_to_readers() {
    // On Linux a thread has a priority of its own, and "no process" is the calling thread.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, MERGE_NICENESS) {
        tracing::debug!(%error, "merges run at the priority of look-ups");
    }
}

/// Has the journal synced at the end of each window (policy `interval`), until it is told to end. A
/// thread of its own: a snapshot or a merge that takes long makes no window longer.
pub(crate) fn keep_synced(shared: &Arc<Shared>, window: Duration, stop: &Receiver<()>) {
    while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(window) {
        if tell(shared, |done| Message::Sync { done }).is_err() {
            return;
        }
    }
}

fn merge_once(shared: &Arc<Shared>, ratio: u64) -> Option<()> {
    let work = {
        // The flusher may be merging; what it leaves is what there is to choose from.
        let mut merging = shared.merging();
        let view = &shared.published.load().view;
        let work = Work::merge(view, ratio)?;
        *merging = Some(Merging { segments: work.segments().to_vec(), since: view.sequence() });
        work
    };
    let _turn = work.is_partitioned().then(|| shared.snapshot_merge_lock.blocking_lock());
    if shared.life() != Life::Running {
        // Whoever closes the engine waits for the last snapshot, not for merges that it did without.
        *shared.merging() = None;
        return None;
    }
    if let Some(merging) = &mut *shared.merging() {
        // What came while it waited for its turn came during no merge.
        merging.since = shared.published.load().view.sequence();
    }
    let (begun, size) = (shared.clock.monotonic(), work.size());
    let mut told = Ok(());
    for built in work.steps() {
        let segments = built.segments().to_vec();
        told = tell(shared, |done| Message::Built { built, done });
        if told.is_err() {
            break;
        }
        if let Some(merging) = &mut *shared.merging() {
            merging.segments = segments;
        }
    }
    *shared.merging() = None;
    told.ok()?;
    metrics::merge_finished(shared.clock.since(begun), size);
    Some(())
}

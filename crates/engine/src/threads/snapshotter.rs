//! The snapshotter: the thread that takes snapshots on request and when they are due.
//!
//! It asks the flusher for a view without deltas, and writes the parts that have no file yet.
//! Neither readers nor the writer wait for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use nearprint_index::view::Parts;
use nearprint_machine::document::Sequence;
use nearprint_machine::jobs::Jobs;
use nearprint_storage::StorageError;
use tokio::sync::oneshot;

use crate::api::clock;
use crate::api::error::Refused;
use crate::api::replies::SnapshotInfo;
use crate::shared::{Life, Shared, ToWriter};
use crate::snapshot::placing::Movable;
use crate::snapshot::snapshots::{Export, Snapshots};
use crate::threads::flusher::SettleRequest;
use crate::threads::reclaimer;

/// How often it checks whether a snapshot is due.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// If the index has become smaller by this since a kept snapshot, and has halved, the files of both
/// are worth replacing.
const SHRUNK_BYTES_MIN: u64 = 4 << 20;
/// How often segments and tables leave memory at most.
const MOVE_EVERY: Duration = Duration::from_secs(2);
/// How long it waits after a part could not be opened in its file.
const RETRY_MOVE_AFTER: Duration = Duration::from_mins(1);
/// It is worth a snapshot if those that can leave are more than this part of the limit.
const MOVED_PART: u64 = 8;
/// A snapshot that did not fit is tried again when this much space was freed since.
const RETRY_BYTES: u64 = 1 << 20;

/// Takes snapshots on request or when they are due.
#[derive(Debug)]
pub(crate) struct Snapshotter {
    pub(crate) shared: Arc<Shared>,
    pub(crate) snapshots: Snapshots,
    pub(crate) requests: Receiver<SnapshotRequest>,
    pub(crate) settle: Sender<SettleRequest>,
    /// When the last one was begun, or the engine.
    pub(crate) last: Instant,
    /// The free space when the last one failed, if it did.
    pub(crate) last_failed: Option<u64>,
    /// Until then no snapshot is taken to move parts of the index out of memory.
    pub(crate) move_after: Instant,
    /// The bytes of the segments and tables in the kept snapshots, newest first.
    pub(crate) kept_index_bytes: [u64; 2],
}

/// A request to the snapshotter.
#[derive(Debug)]
pub(crate) enum SnapshotRequest {
    Take(oneshot::Sender<Result<SnapshotInfo, Refused>>),
    /// Take a snapshot now, and open its files and those of all records.
    Export(oneshot::Sender<Result<Export, Refused>>),
}

impl Snapshotter {
    /// Runs until the request channel closes, and then takes the last snapshot.
    pub(crate) fn run(mut self) {
        loop {
            match self.requests.recv_timeout(LOOK_EVERY) {
                Ok(SnapshotRequest::Take(request)) => {
                    let taken = self.take_snapshot().ok_or(Refused::Failed);
                    // The caller may have left; the snapshot stays.
                    drop(request.send(taken));
                }
                Ok(SnapshotRequest::Export(request)) => {
                    let export = self.take_snapshot().and_then(|_| self.export());
                    drop(request.send(export.ok_or(Refused::Failed)));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if self.is_due() {
                        let taken = if self.has_shrunk() {
                            self.retake_snapshot()
                        } else if self.is_unsaved() {
                            self.take_snapshot()
                        } else if self.should_move_parts() {
                            self.retake_snapshot()
                        } else {
                            self.repeat_snapshot()
                        };
                        let free = || self.shared.disk.stats.load().free_bytes;
                        self.last_failed = taken.is_none().then(free);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let is_usable = self.shared.disk.fault.load().is_none();
                    if self.shared.life() != Life::Failed && is_usable {
                        if self.is_unsaved() {
                            self.take_snapshot();
                        }
                        self.save_indexes();
                    }
                    return;
                }
            }
        }
    }

    /// Opens the files of an export. Nothing waits for its reader: open files stay readable when
    /// they are removed, and bytes appended later are not part of it.
    fn export(&self) -> Option<Export> {
        self.snapshots
            .export(|| self.shared.published.load().records.files())
            .inspect_err(|error| tracing::error!(%error, "an export failed"))
            .ok()
    }

    /// Whether a snapshot must not be tried again yet: the last one failed, and no space was freed
    /// since, or it was not space that was missing.
    fn has_failed(&self) -> bool {
        let disk = &self.shared.disk;
        self.last_failed.is_some_and(|free| {
            !disk.snapshot_failed.load(Ordering::Relaxed)
                || disk.stats.load().free_bytes < free.saturating_add(RETRY_BYTES)
        })
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
        let waited = self.last.elapsed();
        let many = unsaved >= options.snapshot_changes;
        let (older, now) = (self.snapshots.covered_by_both(), self.sequence());
        let blocks_reclaim = older < now && reclaimer::is_snapshot_due(&self.shared, older);
        if self.shared.disk.fault.load().is_some() {
            return false;
        }
        // A failed snapshot is retried after the interval, not at every check.
        ((many || blocks_reclaim || self.has_shrunk() || self.should_move_parts())
            && !self.has_failed())
            || (self.is_unsaved() && waited >= Duration::from_millis(options.snapshot_interval_ms))
    }

    /// Whether the newest snapshot lacks a change, or a count of duplicates.
    fn is_unsaved(&self) -> bool {
        self.unsaved_changes() > 0 || self.shared.touches.is_unsaved()
    }

    /// Whether merges have dropped most of what a kept snapshot has files of, as after a purge.
    fn has_shrunk(&self) -> bool {
        let now = self.shared.published.load().view.index_bytes();
        self.kept_index_bytes.iter().any(|kept| now.max(SHRUNK_BYTES_MIN) <= kept / 2)
    }

    /// Whether segments and tables take more memory than they may, and enough of them can leave it
    /// with a snapshot.
    fn should_move_parts(&self) -> bool {
        let bytes_max = self.shared.options.index_memory_bytes_max;
        let view = &self.shared.published.load().view;
        let is_soon = self.last.elapsed() < MOVE_EVERY || clock::now() < self.move_after;
        if bytes_max == 0 || view.settled_bytes() <= bytes_max || is_soon {
            return false;
        }
        let merging = self.shared.merging();
        let movable = Movable::in_memory(view);
        let free =
            movable.iter().filter(|m| merging.as_ref().is_none_or(|merging| !merging.has(m)));
        free.map(Movable::bytes).sum::<u64>() > bytes_max / MOVED_PART
    }

    /// Moves what is in temporary files into those of the snapshot, and the largest segments and
    /// tables out of memory, until the rest takes as much of it as it may. What is being merged
    /// stays.
    fn move_into_files(&mut self) {
        let bytes_max = self.shared.options.index_memory_bytes_max;
        let view = self.shared.published.load().view.clone();
        for movable in Movable::in_temporary_files(&view) {
            self.move_into_file(&movable);
        }
        let mut bytes = if bytes_max == 0 { 0 } else { view.settled_bytes() };
        for movable in Movable::in_memory(&view) {
            if bytes <= bytes_max {
                return;
            }
            if self.move_into_file(&movable) {
                bytes = bytes.saturating_sub(movable.bytes());
                tracing::info!(bytes = movable.bytes(), "a part of the index has left memory");
            }
        }
    }

    /// Moves a part into its file, if it has one and is not being merged; returns whether it did.
    fn move_into_file(&mut self, movable: &Movable) -> bool {
        let built = match self.snapshots.moved(movable) {
            Ok(Some(built)) => built,
            Ok(None) => return false,
            Err(error) => {
                tracing::error!(%error, "a part of the index stays where it is");
                self.move_after = clock::now() + RETRY_MOVE_AFTER;
                return false;
            }
        };
        // While it is locked no merge begins.
        let merging = self.shared.merging();
        if merging.as_ref().is_some_and(|merging| merging.has(movable)) {
            return false;
        }
        self.shared.send_and_wait(|installed| ToWriter::Install { built, installed }).is_some()
    }

    /// Takes a snapshot of everything published so far; `None` if that failed, which is logged.
    fn take_snapshot(&mut self) -> Option<SnapshotInfo> {
        // A second snapshot of the same changes has the same name, and only the counts differ.
        if self.unsaved_changes() == 0 && self.shared.touches.is_unsaved() {
            return self.retake_snapshot();
        }
        let [newest, _] = self.kept_index_bytes;
        let known = self.snapshots.list().first().map(|newest| newest.sequence);
        let (taken, bytes) = self.write_snapshot(Snapshots::take)?;
        if known != Some(taken.sequence) {
            self.kept_index_bytes = [bytes, newest];
        }
        Some(taken)
    }

    /// Replaces both kept snapshots: otherwise the older one would keep its files until the next
    /// snapshot, which may be the last change away.
    fn retake_snapshot(&mut self) -> Option<SnapshotInfo> {
        let (taken, bytes) = self.write_snapshot(Snapshots::retake)?;
        self.kept_index_bytes = [bytes; 2];
        Some(taken)
    }

    /// Writes everything published so far; also returns the bytes of its segments and tables.
    fn write_snapshot(
        &mut self,
        write: impl FnOnce(&mut Snapshots, Parts, &Arc<Jobs>, u64) -> Result<SnapshotInfo, StorageError>,
    ) -> Option<(SnapshotInfo, u64)> {
        let shared = Arc::clone(&self.shared);
        let turn = shared.snapshot_merge_lock.blocking_lock();
        let begun = clock::now();
        let (request, settled) = oneshot::channel();
        self.settle.send(request).ok()?;
        self.shared.wake_flusher();
        let (parts, jobs) = settled.blocking_recv().ok()?.parts();
        self.last = clock::now();
        self.snapshots.keep_touches(shared.touches.for_snapshot(&shared.published.load().view));
        let (sequence, records) = (parts.counts.sequence, &shared.published.load().records);
        self.snapshots.keep_survey(shared.survey.load().for_snapshot(records, sequence));
        let bytes = parts.bytes();
        let taken = write(&mut self.snapshots, parts, &jobs, clock::now_ms());
        let taken = self.report(taken, begun)?;
        self.move_into_files();
        drop(turn);
        self.save_indexes();
        Some((taken, bytes))
    }

    /// Writes index files for the next start.
    fn save_indexes(&self) {
        if let Err(error) = self.shared.published.load().records.save_indexes() {
            tracing::warn!(%error, "the index of a journal file was not saved; its first read after a start takes longer");
        }
    }

    /// Writes the newest snapshot's manifest a second time.
    fn repeat_snapshot(&mut self) -> Option<SnapshotInfo> {
        let begun = clock::now();
        let taken = self.snapshots.repeat();
        self.report(taken, begun)
    }

    fn report(
        &self,
        taken: Result<SnapshotInfo, StorageError>,
        begun: Instant,
    ) -> Option<SnapshotInfo> {
        self.shared.snapshots.store(Arc::new(self.snapshots.list()));
        let upto = self.snapshots.covered_by_both().get();
        self.shared.reclaimable_upto.store(upto, Ordering::Release);
        let took = begun.elapsed();
        match taken {
            Ok(info) => {
                self.shared.observer.snapshot_taken(took);
                self.shared.disk.snapshot_failed.store(false, Ordering::Relaxed);
                let (sequence, duration_ms) = (info.sequence.get(), took.as_millis() as u64);
                tracing::info!(sequence, bytes = info.bytes, duration_ms, "snapshot taken");
                Some(info)
            }
            Err(error) => {
                self.shared.disk.snapshot_failed.store(error.is_full(), Ordering::Relaxed);
                tracing::error!(%error, "a snapshot failed; the journal still has everything");
                None
            }
        }
    }
}

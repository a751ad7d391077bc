//! The reclaimer: the thread that reclaims the space of records that are no longer needed.
//!
//! Garbage is every byte of the journal that is no record of a stored document. How much there is *at
//! most* is always known, without reading: every change is either a stored document or of no use, so
//! their number is known, and [`Sizes`] says how long the records of so many can be. When that is a
//! fifth of all, the files that both kept snapshots hold are surveyed, which gives the exact figure;
//! when that is a fifth too, they are swept (see [`crate::storage::journal::reclaim`]). What lies behind the
//! older snapshot cannot be swept: where that is a fifth, snapshots are due ([`is_snapshot_due`]), which
//! also cut the journal. So with everything settled garbage is less than half, and the records take
//! at most twice the bytes of those of stored documents, and eight steps ([`step_bytes`]);
//! `docs/disk-format.md` has the sum.
//!
//! Neither the writer nor readers wait for it. It reads and writes at most [`BYTES_PER_SECOND`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::document::Sequence;
use crate::engine::answers::RecordSpace;
use crate::engine::background::needed::{Needed, NeededPart};
use crate::engine::background::sizes::{RECORD_BYTES_MAX, Sizes};
use crate::engine::shared::{Message, Shared};
use crate::index::view::View;
use crate::storage::journal::reclaim::Keep;
use crate::storage::journal::writer::step_bytes;
use crate::storage::{Reclaimer, RecordRef, StorageError, Sweep, SweepRange, Usage};

/// Bytes that are read or written for it in a second: 256 MiB.
const BYTES_PER_SECOND: u64 = 256 << 20;
/// Garbage of one in so many bytes is worth the work.
const WORTH_SHARE: u64 = 5;
/// After a survey, one in so many bytes must have become garbage before there is another.
const NEWS_SHARE: u64 = 16;
/// How often it looks whether there is something to do.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Whether what lies behind the older of the kept snapshots, `older`, keeps garbage from being given
/// back.
pub(crate) fn is_snapshot_due(shared: &Shared, older: Sequence) -> bool {
    let records = &shared.published.load().records;
    let worth = worth(shared, records.extent().bytes).max(2 * step(shared));
    shared.reclaim_wanted.load(Ordering::Relaxed) && records.bytes_after(older.get()) >= worth
}

/// From so much garbage on something is done where all files have so many bytes. On a full disk every
/// step counts, however much is written for it: only removals are accepted, and they need room too.
fn worth(shared: &Shared, bytes: u64) -> u64 {
    if shared.disk_full.load(Ordering::Relaxed) {
        return step(shared);
    }
    (bytes / WORTH_SHARE).max(step(shared))
}

fn step(shared: &Shared) -> u64 {
    step_bytes(shared.options.journal_file_bytes)
}

/// Hands on what a state needs of a record, with the number of documents that it stores.
pub(crate) fn keep_needed(
    needed: &mut Needed<'_>,
    record: RecordRef<'_>,
    keep: &mut dyn FnMut(RecordRef<'_>),
) -> u64 {
    match needed.of(record) {
        NeededPart::Nothing => 0,
        NeededPart::All { documents } => {
            keep(record);
            documents
        }
        NeededPart::Some { first, record, documents } => {
            let mut payload = Vec::new();
            record.encode(&mut payload);
            keep(RecordRef { first, count: record.change.count(), payload: &payload });
            documents
        }
    }
}

/// The thread's state.
#[derive(Debug)]
pub(crate) struct ReclaimerThread {
    shared: Arc<Shared>,
    reclaimer: Reclaimer,
    stop: Receiver<()>,
    space: RecordSpace,
    last: Survey,
    /// The last change before this process: how long the records up to it are, only a survey tells.
    begun_at: Sequence,
}

/// What is known since the last survey; before the first, that nothing was looked at.
#[derive(Debug)]
struct Survey {
    /// The older of the kept snapshots then: files before it were looked at.
    upto: Sequence,
    /// The last change, and how many documents were stored, then.
    sequence: Sequence,
    stored: u64,
    usage: Usage,
    /// Of the records in these files that were needed.
    sizes: Sizes,
    /// Changes behind these files, up to then, that are no stored document.
    useless_behind: u64,
    /// Garbage at most, then.
    garbage: u64,
}

impl ReclaimerThread {
    pub(crate) fn new(shared: Arc<Shared>, reclaimer: Reclaimer, stop: Receiver<()>) -> Self {
        let (begun_at, stored) = {
            let view = &shared.published.load().view;
            (view.sequence(), view.documents())
        };
        let extent = reclaimer.extent();
        let last = Survey {
            upto: Sequence::ZERO,
            sequence: begun_at,
            stored,
            usage: Usage::default(),
            sizes: Sizes::new(),
            useless_behind: extent.changes.saturating_sub(stored),
            garbage: 0,
        };
        Self { shared, reclaimer, stop, space: RecordSpace::default(), last, begun_at }
    }

    /// Runs until it is told to stop.
    pub(crate) fn run(mut self) {
        while let Err(RecvTimeoutError::Timeout) = self.stop.recv_timeout(LOOK_EVERY) {
            match self.check() {
                Ok(()) => {}
                Err(error @ StorageError::Poisoned { .. }) => {
                    // What the directory holds is not known any more.
                    tracing::error!(%error, "writes have stopped; restart to recover from disk");
                    self.shared.fail();
                    return;
                }
                // Nothing is lost by it.
                Err(error) => {
                    tracing::error!(%error, "no space of old records could be given back");
                    self.last.upto = self.upto();
                    self.last.garbage = self.garbage_at_most();
                }
            }
        }
    }

    fn check(&mut self) -> Result<(), StorageError> {
        let (bytes, garbage) = (self.reclaimer.extent().bytes, self.garbage_at_most());
        self.space.live_bytes = bytes.saturating_sub(garbage);
        self.publish();
        let wanted = garbage >= worth(&self.shared, bytes);
        self.shared.reclaim_wanted.store(wanted, Ordering::Relaxed);
        let upto = self.upto();
        if !wanted || upto == Sequence::ZERO {
            return Ok(());
        }
        let news = garbage.saturating_sub(self.last.garbage);
        let news_enough = if self.shared.disk_full.load(Ordering::Relaxed) {
            step(&self.shared) / 2
        } else {
            (bytes / NEWS_SHARE).max(step(&self.shared) / 4)
        };
        if upto == self.last.upto && news < news_enough {
            return Ok(());
        }
        if !self.survey(upto)? {
            return Ok(());
        }
        let usage = self.last.usage;
        if usage.bytes.saturating_sub(usage.live_bytes) >= worth(&self.shared, bytes) {
            self.sweep(upto)?;
        }
        Ok(())
    }

    /// Up to here both kept snapshots hold everything.
    fn upto(&self) -> Sequence {
        Sequence::new(self.shared.reclaimable_upto.load(Ordering::Acquire))
    }

    /// Garbage in all files, at most.
    fn garbage_at_most(&self) -> u64 {
        let last = &self.last;
        let state = self.shared.published.load();
        // Each change since then is a document more, or of no use; each document that has gone has
        // left a record of no use.
        let changes = state.view.sequence().get().saturating_sub(last.sequence.get());
        let useless = (changes + last.stored).saturating_sub(state.view.documents());
        let Usage { bytes, live_bytes } = last.usage;
        let all = self.reclaimer.extent().bytes;
        let behind = all.saturating_sub(bytes);
        let ours = last.upto >= self.begun_at;
        let longest = if ours { self.reclaimer.longest_written() } else { RECORD_BYTES_MAX };
        let behind_useless = (last.useless_behind + useless).saturating_mul(longest);
        let known = bytes.saturating_sub(live_bytes);
        (known + last.sizes.largest(useless) + behind.min(behind_useless)).min(all)
    }

    /// Looks at the files that both snapshots hold; whether it came to an end.
    fn survey(&mut self, upto: Sequence) -> Result<bool, StorageError> {
        let Some(view) = self.durable_view() else { return Ok(false) };
        let (sequence, stored) = (view.sequence(), view.documents());
        let mut needed = Needed::new(&view, self.shared.id_secret);
        let (mut sizes, mut documents) = (Sizes::new(), 0);
        let mut keep = |record: RecordRef<'_>, keep: &mut dyn FnMut(RecordRef<'_>)| {
            let mut bytes = 0;
            let live = keep_needed(&mut needed, record, &mut |part| {
                bytes += part.frame_bytes();
                keep(part);
            });
            sizes.add(bytes, live);
            documents += live;
        };
        let next = upto.next().get();
        let Some(surveyed) = self.reclaimer.survey(next, &mut keep, &mut |b| self.pace(b))? else {
            return Ok(false);
        };
        let behind = sequence.get().saturating_sub(surveyed.next.saturating_sub(1));
        let useless_behind = (behind + documents).saturating_sub(stored);
        let usage = surveyed.usage;
        self.last = Survey { upto, sequence, stored, usage, sizes, useless_behind, garbage: 0 };
        self.last.garbage = self.garbage_at_most();
        tracing::debug!(%upto, ?usage, "surveyed the records");
        Ok(true)
    }

    fn sweep(&mut self, upto: Sequence) -> Result<(), StorageError> {
        let mut range = SweepRange { from: 1, next: upto.next().get(), pack_bytes: 0 };
        let mut reclaimed = 0;
        loop {
            range.pack_bytes = self.pack_bytes();
            let Some((next, freed)) = self.sweep_once(range)? else { break };
            range.from = next;
            reclaimed += freed;
            self.space.reclaimed_bytes += freed;
            self.space.sweep = Some((next - 1, upto.get()));
            self.publish();
        }
        self.space.sweep = None;
        let usage = &mut self.last.usage;
        usage.bytes = usage.bytes.saturating_sub(reclaimed);
        usage.live_bytes = usage.bytes;
        self.last.garbage = self.garbage_at_most();
        self.publish();
        tracing::info!(%upto, reclaimed, "space of old records given back");
        Ok(())
    }

    /// The size of the next pack: where there is little room, as little as can be.
    fn pack_bytes(&self) -> u64 {
        let step = step(&self.shared);
        if self.shared.disk_full.load(Ordering::Relaxed) {
            return step;
        }
        let all = self.reclaimer.extent().bytes;
        (all / NEWS_SHARE).clamp(step, self.shared.options.journal_file_bytes)
    }

    /// Makes a pack; the sequence that comes next, and the bytes that it has given back.
    fn sweep_once(&self, range: SweepRange) -> Result<Option<(u64, u64)>, StorageError> {
        let Some(view) = self.durable_view() else { return Ok(None) };
        let mut needed = Needed::new(&view, self.shared.id_secret);
        let keep: &mut Keep<'_> = &mut |record, keep| {
            keep_needed(&mut needed, record, keep);
        };
        Ok(match self.reclaimer.sweep(range, keep, &mut |bytes| self.pace(bytes))? {
            Sweep::UpTo { next, freed } => Some((next, freed)),
            Sweep::Done | Sweep::Stopped => None,
        })
    }

    fn publish(&self) {
        self.shared.space.store(Arc::new(self.space));
    }

    /// The newest state, when it is on disk: what a power cut takes back must not have had a say.
    fn durable_view(&self) -> Option<View> {
        let (synced, view) = oneshot::channel();
        self.shared.writer.send(Message::Synced { synced }).ok()?;
        view.blocking_recv().ok()
    }

    /// Waits as long as so many bytes may take; false when it is to stop.
    fn pace(&self, bytes: u64) -> bool {
        let wait = Duration::from_micros(bytes * 1_000_000 / BYTES_PER_SECOND);
        matches!(self.stop.recv_timeout(wait), Err(RecvTimeoutError::Timeout))
    }
}

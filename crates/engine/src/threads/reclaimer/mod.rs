//! The reclaimer: the thread that reclaims the space of records that are no longer needed.
//!
//! Garbage is every byte of the journal that is not in a record of a stored document. An upper
//! bound is always known without reading: every change is either a stored document or garbage, so
//! the number of useless changes is known, and [`Survey`] bounds the bytes of that many records. If
//! the bound is a fifth of all bytes, a survey reads the files that both kept snapshots cover,
//! which gives the exact figure. If that is a fifth as well, a sweep rewrites them
//! ([`nearprint_storage::journal::reclaim`]). Files after the older snapshot cannot be swept; if
//! they are a fifth, snapshots are due ([`is_snapshot_due`]), which also start a new journal file.
//! So when everything has settled, less than half is garbage: the records take at most twice the
//! bytes of those of stored documents, plus eight steps ([`step_bytes`]). `docs/disk-format.md` has
//! the calculation.
//!
//! Neither the writer nor readers wait for it. It reads and writes at most [`BYTES_PER_SECOND`].

pub(crate) mod needed;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use nearprint_index::memory::file::catch_unreadable;
use nearprint_machine::document::Sequence;
use nearprint_storage::journal::reclaim::Keep;
use nearprint_storage::journal::writer::step_bytes;
use nearprint_storage::sizes::Sizes;
use nearprint_storage::{Reclaimer, RecordRef, StorageError, Sweep, SweepRange};

use crate::api::error::storage_error;
use crate::api::replies::RecordSpace;
use crate::shared::{Shared, ToWriter};
use crate::state::survey::Survey;
use crate::threads::reclaimer::needed::{Needed, NeededPart};
use crate::write::core::Durable;

/// The maximum bytes read and written in a second: 256 MiB.
const BYTES_PER_SECOND: u64 = 256 << 20;
/// One byte of garbage in this many bytes is worth the work.
const WORTH_SHARE: u64 = 5;
/// After a survey, one in this many bytes must have become garbage before the next survey.
const NEWS_SHARE: u64 = 16;
/// How often it checks whether there is something to do.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Whether garbage waits for a snapshot, because too much lies after `older`, the end of the older
/// of the kept snapshots, where it cannot be swept.
pub(crate) fn is_snapshot_due(shared: &Shared, older: Sequence) -> bool {
    let records = &shared.published.load().records;
    let is_short = shared.disk.is_short.load(Ordering::Relaxed);
    let steps = if is_short { 1 } else { 2 };
    let worth = worth(shared, records.extent().bytes).max(steps * step(shared));
    shared.reclaim_wanted.load(Ordering::Relaxed) && records.bytes_after(older.get()) >= worth
}

/// The garbage that is worth the work, if all files have this many bytes. If space is short, a step
/// is enough.
fn worth(shared: &Shared, bytes: u64) -> u64 {
    if shared.disk.is_short.load(Ordering::Relaxed) {
        return step(shared);
    }
    (bytes / WORTH_SHARE).max(step(shared))
}

pub(crate) fn step(shared: &Shared) -> u64 {
    step_bytes(shared.options.journal_file_bytes)
}

/// Passes the needed part of a record to `keep`, and returns the number of documents in it.
pub(crate) fn keep_needed(
    needed: &Needed<'_>,
    record: RecordRef<'_>,
    keep: &mut dyn FnMut(RecordRef<'_>),
) -> u64 {
    match needed.of(record) {
        NeededPart::Nothing => 0,
        NeededPart::All { documents } => {
            keep(record);
            documents
        }
        NeededPart::Some { records, documents } => {
            for (first, record) in records {
                let mut payload = Vec::new();
                record.encode(&mut payload);
                keep(RecordRef { first, count: record.change.count(), payload: &payload });
            }
            documents
        }
    }
}

/// Reads the files that end at or before `upto`, and decides by a durable state what is needed of
/// them. `None` if `pace` stops it.
///
/// # Errors
/// [`StorageError`].
pub(crate) fn survey(
    reclaimer: &Reclaimer,
    state: &Durable,
    id_secret: [u8; 16],
    upto: Sequence,
    pace: &mut dyn FnMut(u64) -> bool,
) -> Result<Option<Survey>, StorageError> {
    let (sequence, stored) = (state.view.sequence(), state.view.documents());
    let needed = Needed::new(state, id_secret);
    let (mut sizes, mut documents) = (Sizes::default(), 0);
    let mut keep = |record: RecordRef<'_>, keep: &mut dyn FnMut(RecordRef<'_>)| {
        let mut bytes = 0;
        let live = keep_needed(&needed, record, &mut |part| {
            bytes += part.frame_bytes();
            keep(part);
        });
        sizes.add(bytes, live);
        documents += live;
    };
    let Some(surveyed) = reclaimer.survey(upto.next().get(), &mut keep, pace)? else {
        return Ok(None);
    };
    let next = surveyed.next;
    let after = sequence.get().saturating_sub(next.saturating_sub(1));
    Ok(Some(Survey {
        next,
        sequence,
        stored,
        live_bytes: surveyed.usage.live_bytes,
        sizes,
        useless_after: (after + documents).saturating_sub(stored),
        unread: Sizes::default(),
        read_from: next,
    }))
}

#[derive(Debug)]
pub(crate) struct ReclaimerThread {
    shared: Arc<Shared>,
    reclaimer: Reclaimer,
    stop: Receiver<()>,
    space: RecordSpace,
    /// Published for snapshots.
    last: Arc<Survey>,
    /// The older of the kept snapshots at the last survey, and the upper bound of garbage then.
    surveyed: (Sequence, u64),
    /// The free space when a sweep did not fit.
    free_at_failure: u64,
}

impl ReclaimerThread {
    pub(crate) fn new(shared: Arc<Shared>, reclaimer: Reclaimer, stop: Receiver<()>) -> Self {
        let last = shared.survey.load_full();
        let space = RecordSpace::default();
        let surveyed = (Sequence::ZERO, 0);
        Self { shared, reclaimer, stop, space, last, surveyed, free_at_failure: 0 }
    }

    /// Runs until it is stopped.
    pub(crate) fn run(mut self) {
        while let Err(RecvTimeoutError::Timeout) = self.stop.recv_timeout(LOOK_EVERY) {
            let checked = catch_unreadable(|| self.check());
            match checked.unwrap_or_else(|error| Err(storage_error(error))) {
                Ok(()) => {}
                Err(error @ StorageError::Poisoned { .. }) => {
                    // The contents of the directory are no longer known.
                    tracing::error!(%error, "writes have stopped; restart to recover from disk");
                    self.shared.fail();
                    return;
                }
                // No record is lost.
                Err(error) => {
                    tracing::error!(%error, "the space of old records could not be reclaimed");
                    self.shared.disk.sweep_failed.store(error.is_full(), Ordering::Relaxed);
                    self.free_at_failure = self.free_bytes();
                    self.surveyed = (self.upto(), self.garbage_at_most());
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
        let is_usable = self.shared.disk.fault.load().is_none();
        if !wanted || !is_usable || upto == Sequence::ZERO {
            return Ok(());
        }
        let (surveyed_upto, surveyed_garbage) = self.surveyed;
        let news = garbage.saturating_sub(surveyed_garbage);
        let news_enough = if self.shared.disk.is_short.load(Ordering::Relaxed) {
            step(&self.shared) / 2
        } else {
            (bytes / NEWS_SHARE).max(step(&self.shared) / 4)
        };
        let failed = self.shared.disk.sweep_failed.load(Ordering::Relaxed);
        let may_fit =
            failed && self.free_bytes() >= self.free_at_failure.saturating_add(step(&self.shared));
        if upto == surveyed_upto && news < news_enough && !may_fit {
            return Ok(());
        }
        if !self.survey(upto)? {
            return Ok(());
        }
        if self.last.garbage(self.reclaimer.records()) >= worth(&self.shared, bytes) {
            self.sweep(upto)?;
        }
        Ok(())
    }

    /// The last change that both kept snapshots contain.
    fn upto(&self) -> Sequence {
        Sequence::new(self.shared.reclaimable_upto.load(Ordering::Acquire))
    }

    /// The upper bound of garbage in all files.
    fn garbage_at_most(&self) -> u64 {
        let state = self.shared.published.load();
        self.last.garbage_at_most(self.reclaimer.records(), &state.view)
    }

    /// Reads the files that both snapshots cover. Returns false if it was stopped.
    fn survey(&mut self, upto: Sequence) -> Result<bool, StorageError> {
        let Some(state) = self.durable_state() else { return Ok(false) };
        let secret = self.shared.id_secret;
        let survey = survey(&self.reclaimer, &state, secret, upto, &mut |b| self.pace(b))?;
        let Some(survey) = survey else { return Ok(false) };
        self.last = Arc::new(survey);
        self.shared.survey.store(Arc::clone(&self.last));
        self.surveyed = (upto, self.garbage_at_most());
        tracing::debug!(upto = upto.get(), garbage = self.surveyed.1, "surveyed the records");
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
        self.shared.disk.sweep_failed.store(false, Ordering::Relaxed);
        self.surveyed.1 = self.garbage_at_most();
        self.publish();
        tracing::info!(upto = upto.get(), reclaimed, "space of old records reclaimed");
        Ok(())
    }

    fn free_bytes(&self) -> u64 {
        self.shared.disk.stats.load().free_bytes
    }

    /// The size of the next pack: as small as possible if space is short.
    fn pack_bytes(&self) -> u64 {
        let step = step(&self.shared);
        if self.shared.disk.is_short.load(Ordering::Relaxed) {
            return step;
        }
        let all = self.reclaimer.extent().bytes;
        (all / NEWS_SHARE).clamp(step, self.shared.options.journal_file_bytes)
    }

    /// Makes a pack. Returns the next sequence to sweep, and the bytes reclaimed.
    fn sweep_once(&self, range: SweepRange) -> Result<Option<(u64, u64)>, StorageError> {
        let Some(state) = self.durable_state() else { return Ok(None) };
        let needed = Needed::new(&state, self.shared.id_secret);
        let keep: &mut Keep<'_> = &mut |record, keep| {
            keep_needed(&needed, record, keep);
        };
        Ok(match self.reclaimer.sweep(range, keep, &mut |bytes| self.pace(bytes))? {
            Sweep::UpTo { next, freed } => Some((next, freed)),
            Sweep::Done | Sweep::Stopped => None,
        })
    }

    fn publish(&self) {
        self.shared.space.store(Arc::new(self.space));
    }

    /// The newest state, once it is durable: a change that a power cut takes back must not decide
    /// which records are needed.
    fn durable_state(&self) -> Option<Durable> {
        self.shared.send_and_wait(|synced| ToWriter::Sync { synced })
    }

    /// Waits as long as this many bytes may take; false if it is stopped.
    fn pace(&self, bytes: u64) -> bool {
        let wait = Duration::from_micros(bytes * 1_000_000 / BYTES_PER_SECOND);
        matches!(self.stop.recv_timeout(wait), Err(RecvTimeoutError::Timeout))
    }
}

//! The remover: the thread that removes documents that have expired, and runs purges.
//!
//! It finds the documents in the published view, off the writer, and the writer removes those that
//! are still stored: each step is a command like any other, so it is journaled, and a purge
//! continues after a restart where it was. A document is not a hit from the second on in which it
//! expires; the remover only frees its memory and its space on disk. So the remover can wait after
//! the start, after the clock was set forward, and after a node began to lead, whose clock is not
//! that of the leader before it: if the clock is wrong, the documents have not expired.
//!
//! When the clock was set back and nobody writes, the remover also writes a record, so that the
//! time of the newest record is right again.
//!
//! A step waits for the one before it, so writes of clients wait for at most [`STEP`] removals.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nearprint_fingerprint::Fingerprint;
use nearprint_index::id_key::IdKey;
use nearprint_index::namespaces::NamespaceNumber;
use nearprint_index::times::second;
use nearprint_index::view::{Expired, Listed, Selection, View};
use nearprint_machine::change::REMOVED_MAX;
use nearprint_machine::commands::{EndJob, NoteTime, Reason, RemoveMany, Step};
use nearprint_machine::document::{DocumentId, Sequence};
use nearprint_machine::jobs::{Job, JobFailure, JobState, PurgeWork};

use crate::api::blocking::reading;
use crate::api::clock::{self, ClockWatch};
use crate::api::error::Refused;
use crate::api::replies::{Freeing, Removed};
use crate::read::reader;
use crate::shared::Shared;
use crate::state::published::Published;
use crate::write::queued::Pending;

/// How often it checks whether there is something to remove.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Expired documents are looked for at most this part of the time.
const EXPIRY_SHARE: u32 = 20;
/// How long it waits after a file of the index could not be read.
const RETRY_AFTER: Duration = Duration::from_mins(1);
/// By how much the newest record may be later than the clock says.
const RECORD_AHEAD_MS_MAX: u64 = 1_000;
/// Documents that one pass over the view finds: at most 40 MiB.
const FOUND_MAX: usize = 1 << 19;
/// Documents whose removal the writer is asked for at one time: a few milliseconds of its time.
const STEP: usize = 2_048;
const _: () = assert!(STEP <= REMOVED_MAX);
/// How often it looks for reclaimed space before it removes more all the same: 30 s.
const SPACE_LOOKS_MAX: u32 = 150;

/// The thread's state.
#[derive(Debug)]
pub(crate) struct Remover {
    shared: Arc<Shared>,
    stop: Receiver<()>,
    /// Documents that expire up to this second were removed.
    expired_upto: u32,
    /// How often the time of commands had gone back then.
    times_set_back: u64,
    clock: ClockWatch,
    /// From then on the clock is trusted, and what has expired is removed.
    trusted_from: Instant,
    /// The newest record is later than the clock said at the last look.
    is_ahead: bool,
    /// How long the next search for expired documents has to wait.
    rest: Duration,
}

impl Remover {
    pub(crate) fn new(shared: Arc<Shared>, stop: Receiver<()>) -> Self {
        let (times_set_back, trusted_from) = (0, trusted_from(&shared));
        let (clock, rest, is_ahead) = (ClockWatch::new(), Duration::ZERO, false);
        let expired_upto = 0;
        Self { shared, stop, expired_upto, times_set_back, clock, trusted_from, is_ahead, rest }
    }

    /// Runs until it is stopped.
    pub(crate) fn run(mut self) {
        while self.waits(LOOK_EVERY) {
            self.rest = self.rest.saturating_sub(LOOK_EVERY);
            if self.shared.options.is_node && !self.shared.leads() {
                // What others store meanwhile may expire earlier than what was removed before.
                self.expired_upto = 0;
                self.trusted_from = trusted_from(&self.shared);
                continue;
            }
            // An engine that refuses its own commands is about to stop.
            let _stopping =
                self.look_at_clock().and_then(|()| self.expire()).and_then(|()| self.run_jobs());
        }
    }

    /// Waits; false if it is to stop.
    fn waits(&self, time: Duration) -> bool {
        matches!(self.stop.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }

    fn state(&self) -> Arc<Published> {
        self.shared.published.load_full()
    }

    /// Notices when the clock is set, and brings the time of the newest record back to that of the
    /// clock.
    fn look_at_clock(&mut self) -> Result<(), JobFailure> {
        if let Some(by_ms) = self.clock.read() {
            self.shared.observer.clock_set(by_ms);
            if by_ms > 0 {
                self.trusted_from = trusted_from(&self.shared);
            }
        }
        let (stored_ms, now_ms) = (self.state().view.times().now_ms(), clock::now_ms());
        let was_ahead = self.is_ahead;
        self.is_ahead = stored_ms.saturating_sub(now_ms) > RECORD_AHEAD_MS_MAX;
        if !self.is_ahead {
            return Ok(());
        }
        if !was_ahead {
            let by = clock::duration(stored_ms - now_ms);
            tracing::warn!(
                by,
                stored = clock::utc(stored_ms),
                now = clock::utc(now_ms),
                "the newest change is later than the clock says: what is stored from now on has the \
                 time of the clock, and what was stored at a later time counts as stored now"
            );
        }
        match self.shared.send_own(NoteTime, now_ms)?.wait_blocking() {
            // Until there is space, `clock_behind_ms` of the statistics shows it.
            Err(Refused::DiskFull) => Ok(()),
            noted => noted.map_err(JobFailure::from),
        }
    }

    /// Removes what has expired.
    fn expire(&mut self) -> Result<(), JobFailure> {
        if clock::now() < self.trusted_from {
            return Ok(());
        }
        let set_back = self.shared.times_set_back.load(Ordering::Acquire);
        if set_back != self.times_set_back {
            // What was stored since may expire earlier than what was removed before.
            (self.times_set_back, self.expired_upto) = (set_back, 0);
        }
        let now_ms = clock::now_ms();
        let is_due =
            |view: &View| view.first_expiry().is_some_and(|first| first.second() <= second(now_ms));
        if !self.rest.is_zero()
            || second(now_ms) <= self.expired_upto
            || !is_due(&self.state().view)
        {
            return Ok(());
        }
        // Moves the time of the machine on: what is stored from then on expires later than now, so
        // nothing that expires now can be missed, unless the clock is set back.
        let nothing = RemoveMany { namespace: None, documents: Vec::new(), reason: Reason::Expiry };
        self.shared.send_own(nothing, now_ms)?.wait_blocking()?;
        let now = second(self.state().view.times().now_ms());
        let mut selection = Selection {
            namespace: None,
            after: Sequence::ZERO,
            upto: self.state().view.sequence(),
            expired: Expired::Between(self.expired_upto, now),
        };
        let begun = clock::now();
        loop {
            // Not its records: they keep swept files on the disk.
            let view = &self.state().view.clone();
            let Ok(found) = reading(|| Ok(view.list(selection, FOUND_MAX))) else {
                self.rest = RETRY_AFTER;
                return Ok(());
            };
            let Some(last) = found.last() else { break };
            selection.after = last.posting.sequence;
            let mut steps = Steps::new(&self.shared);
            self.remove(&mut steps, view, &found, |_| Reason::Expiry)?;
            steps.finish()?;
        }
        self.expired_upto = now;
        self.rest = begun.elapsed() * EXPIRY_SHARE;
        Ok(())
    }

    /// Runs the jobs that have not ended, the oldest first.
    fn run_jobs(&self) -> Result<(), JobFailure> {
        while let Some(job) = self.state().jobs.next().cloned() {
            let state = match self.run_job(&job) {
                Ok(()) => JobState::Done,
                Err(JobFailure::Stopping) => return Err(JobFailure::Stopping),
                Err(failure) => JobState::Failed(failure),
            };
            let end = EndJob { job: job.number, state };
            self.shared.send_own(end, clock::now_ms())?.wait_blocking()?;
            tracing::info!(job = job.number, ?state, "a job has ended");
        }
        Ok(())
    }

    fn run_job(&self, job: &Job<PurgeWork>) -> Result<(), JobFailure> {
        let mut through = job.work.through;
        let upto = stored_upto(&self.state().view, job);
        while self.is_running(job) {
            self.check_stop()?;
            let state = self.state();
            let namespace = job.work.purge.reach.in_view(&state.view, &self.shared.id_secret);
            let now = second(clock::now_ms());
            let expired = Expired::Not(now);
            let selection = Selection { namespace, after: through, upto, expired };
            let mut found = reading(|| Ok(state.view.list(selection, FOUND_MAX)))?;
            let Some(last) = found.last() else { return Ok(()) };
            through = last.posting.sequence;
            keep_wanted(&state, job, &mut found)?;
            // The records of a state keep swept files on the disk, for whose space a step may wait.
            let view = state.view.clone();
            drop(state);
            self.step(job, &view, &found, through)?;
        }
        Ok(())
    }

    /// Removes the documents that a pass has found, and notes how far the job has come.
    fn step(
        &self,
        job: &Job<PurgeWork>,
        view: &View,
        found: &[Listed],
        through: Sequence,
    ) -> Result<(), JobFailure> {
        let number = job.number;
        let reason = |through, matched| Reason::Purge(Step { job: number, through, matched });
        let known = self.state().jobs.get(number).map(|job| job.work.through);
        let before = known.unwrap_or(job.work.through);
        let mut steps = Steps::new(&self.shared);
        let mut matched = found.len() as u64;
        if !job.work.purge.dry_run {
            matched = 0;
            // After a crash the pass is repeated, and finds what is left.
            self.remove(&mut steps, view, found, |documents| reason(before, documents))?;
        }
        let reason = reason(through, matched);
        steps.send(RemoveMany { namespace: None, documents: Vec::new(), reason })?;
        steps.finish()
    }

    /// Removes documents, a step at a time; `reason` is that of a step, by how many it removes.
    fn remove(
        &self,
        steps: &mut Steps<'_>,
        view: &View,
        found: &[Listed],
        reason: impl Fn(u64) -> Reason,
    ) -> Result<(), JobFailure> {
        for (namespace, documents) in by_namespace(view, found) {
            for documents in documents.chunks(STEP) {
                self.check_stop()?;
                self.wait_for_space()?;
                if view.is_in_files() {
                    // The writer shall find them in the page cache of the operating system.
                    reading(|| Ok(view.documents_at(documents)))?;
                }
                let reason = reason(documents.len() as u64);
                steps.send(RemoveMany { namespace, documents: documents.to_vec(), reason })?;
            }
        }
        Ok(())
    }

    /// Waits while removals have used their share of a full disk and space is being reclaimed, so
    /// that a purge takes bounded space however many documents it removes. What is not reclaimed in
    /// time does not stop it: the documents that it removes next may free whole files.
    fn wait_for_space(&self) -> Result<(), JobFailure> {
        let disk = &self.shared.disk;
        for _ in 0..SPACE_LOOKS_MAX {
            let is_reclaiming = disk.stats.load().freeing == Freeing::Reclaiming;
            if !(disk.is_low.load(Ordering::Relaxed) && is_reclaiming) {
                break;
            }
            if !self.waits(LOOK_EVERY) {
                return Err(JobFailure::Stopping);
            }
        }
        Ok(())
    }

    fn is_running(&self, job: &Job<PurgeWork>) -> bool {
        self.state().jobs.get(job.number).is_some_and(|job| !job.has_ended())
    }

    fn check_stop(&self) -> Result<(), JobFailure> {
        if self.waits(Duration::ZERO) { Ok(()) } else { Err(JobFailure::Stopping) }
    }
}

/// When the clock is trusted, if it may have begun to be wrong now.
fn trusted_from(shared: &Shared) -> Instant {
    clock::now() + Duration::from_millis(shared.options.expired_kept_ms)
}

/// Leaves the documents with the prefix that were stored early enough. Reads their records as
/// far as the index does not know.
fn keep_wanted(
    state: &Published,
    job: &Job<PurgeWork>,
    found: &mut Vec<Listed>,
) -> Result<(), JobFailure> {
    let prefix = job.work.purge.prefix.as_deref();
    let certain = job.work.purge.stored_before_ms.map(|before_ms| {
        // Documents older than the second, or the minute, of the limit are certainly old enough.
        let last = state.view.times().last_until(second(before_ms));
        (last.unwrap_or(Sequence::ZERO), before_ms)
    });
    let mut failed = None;
    found.retain(|listed| {
        let sequence = listed.posting.sequence;
        let limit = certain.filter(|(certain, _)| sequence >= *certain);
        if (prefix.is_none() && limit.is_none()) || failed.is_some() {
            return true;
        }
        if prefix.is_some() && !listed.posting.is_listed {
            return false;
        }
        match reader::stored(&state.records, sequence) {
            Ok(stored) => {
                let id = stored.document.id.as_ref().map(DocumentId::as_str);
                let has_prefix =
                    prefix.is_none_or(|prefix| id.is_some_and(|id| id.starts_with(prefix)));
                has_prefix && limit.is_none_or(|(_, before)| stored.stored_at_ms < before)
            }
            Err(refused) => {
                failed = Some(refused);
                true
            }
        }
    });
    // The log has the facts.
    failed.map_or(Ok(()), |refused| Err(refused.into()))
}

/// The last change whose document a job may remove: one before the job that is not surely too new.
fn stored_upto(view: &View, job: &Job<PurgeWork>) -> Sequence {
    let limit = job.work.purge.stored_before_ms.and_then(|before_ms| {
        let first_too_new = view.times().first_since(second(before_ms.saturating_add(999)))?;
        Some(Sequence::new(first_too_new.get().saturating_sub(1)))
    });
    let begun = Sequence::new(job.number);
    limit.map_or(begun, |limit| limit.min(begun))
}

/// Commands that the writer has not decided yet, few at a time.
struct Steps<'a> {
    shared: &'a Shared,
    pending: Vec<Pending<Removed>>,
    documents: usize,
}

impl<'a> Steps<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self { shared, pending: Vec::new(), documents: 0 }
    }

    fn send(&mut self, command: RemoveMany) -> Result<(), JobFailure> {
        let documents = command.documents.len();
        if self.documents + documents > STEP {
            self.wait()?;
        }
        self.documents += documents.max(1);
        self.pending.push(self.shared.send_own(command, clock::now_ms())?);
        Ok(())
    }

    fn wait(&mut self) -> Result<(), JobFailure> {
        self.documents = 0;
        self.pending.drain(..).try_for_each(|pending| pending.wait_blocking().map(drop))?;
        Ok(())
    }

    fn finish(mut self) -> Result<(), JobFailure> {
        self.wait()
    }
}

/// Documents of one namespace: its key, and for each the change that stored it and its masked
/// fingerprint.
type OfNamespace = (Option<IdKey>, Vec<(Sequence, Fingerprint)>);

/// The documents by namespace, in each ascending by sequence. A namespace that has vanished
/// meanwhile has no documents to remove.
fn by_namespace(view: &View, found: &[Listed]) -> Vec<OfNamespace> {
    let mut of_number: HashMap<NamespaceNumber, Vec<_>> = HashMap::new();
    for Listed { posting, masked } in found {
        of_number.entry(posting.namespace).or_default().push((posting.sequence, *masked));
    }
    let default = of_number.remove(&NamespaceNumber::DEFAULT).map(|documents| (None, documents));
    let mut all: Vec<OfNamespace> = default.into_iter().collect();
    if !of_number.is_empty() {
        for entry in view.namespaces().iter() {
            all.extend(of_number.remove(&entry.number).map(|found| (Some(entry.key), found)));
        }
    }
    all
}

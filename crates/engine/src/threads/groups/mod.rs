//! The thread that finds groups: it runs the jobs of the board one after the other.
//!
//! A job reads one published view, which stays in memory until it ends, and the records of pairs
//! that have sketches to compare. Its threads have a lower priority than those that serve, and
//! leave half of the cores alone.

pub(crate) mod judge;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use nearprint_index::groups::{BYTES_EACH, EvidenceSource as _, Groups, PairSearch, SketchJudge};
use nearprint_index::namespace_key::NamespaceKey;
use nearprint_index::namespaces::NamespaceNumber;
use nearprint_index::view::{Expired, Selection};
use nearprint_machine::document::{Namespace, Sequence};
use nearprint_machine::jobs::JobFailure;
use nearprint_machine::query::SearchKind;

use crate::api::blocking::{lower_priority, reading};
use crate::api::clock;
use crate::read::reader::{self, RecordReader};
use crate::shared::Shared;
use crate::state::board::{FoundGroups, GroupsRun};
use crate::state::published::Published;
use crate::threads::groups::judge::RecordEvidence;

/// How often it checks whether a job waits.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The niceness of jobs: look-ups that want a core take it from them.
const NICENESS: i32 = 10;

/// The share of the progress that collecting the documents takes, in pieces of all pieces.
const COLLECTED: u64 = 10;

/// Runs jobs until `stop` closes.
pub(crate) fn run(shared: &Arc<Shared>, stop: &Receiver<()>) {
    lower_priority(NICENESS);
    while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(LOOK_EVERY) {
        while let Some((job, run)) = shared.groups.next() {
            let begun = clock::now();
            let found = reading(|| Ok(find(shared, &run)));
            let outcome = found.unwrap_or_else(|refused| Err(refused.into()));
            match &outcome {
                Ok(found) => tracing::info!(
                    job,
                    groups = found.groups.all().len(),
                    documents = found.groups.documents(),
                    duration_ms = begun.elapsed().as_millis() as u64,
                    "groups found"
                ),
                Err(_) if run.is_cancelled.load(Ordering::Relaxed) => {}
                Err(failure) => tracing::warn!(job, ?failure, "a search for groups failed"),
            }
            shared.groups.end(job, outcome, clock::now_ms());
        }
    }
    // Jobs that still wait never run.
    while let Some((job, _)) = shared.groups.next() {
        shared.groups.end(job, Err(JobFailure::Stopping), clock::now_ms());
    }
}

fn find(shared: &Arc<Shared>, run: &GroupsRun) -> Result<FoundGroups, JobFailure> {
    let request = &run.request;
    let state = shared.published.load_full();
    let view = &state.view;
    let needed = view.documents().saturating_mul(BYTES_EACH);
    shared.groups.make_room(run.owner.as_ref(), needed)?;
    run.sequence.get_or_init(|| view.sequence());
    let visibility = view.visibility(None, clock::now_ms(), None);
    let selection = Selection {
        namespace: request.reach.in_view(view, &shared.id_secret),
        after: Sequence::ZERO,
        upto: view.sequence(),
        expired: Expired::Not(visibility.now_s),
    };
    let mut search = PairSearch::begin(view, selection, request.criteria.distance);
    let pieces = search.pieces() as u64;
    let is_likely = request.criteria.search == SearchKind::Likely && view.may_have_sketches();
    let likely_pieces = if is_likely { PairSearch::LIKELY_PIECES as u64 } else { 0 };
    run.total.store(pieces + pieces / COLLECTED + likely_pieces, Ordering::Relaxed);
    let evidence = || RecordEvidence { shared, run, records: RecordReader::new(&state.records) };
    evidence().goes_on()?;
    run.done.store(pieces / COLLECTED, Ordering::Relaxed);
    let threshold = request.criteria.threshold.filter(|_| view.may_have_sketches());
    let judge = || SketchJudge::new(view, visibility, threshold, evidence());
    // On half of the cores.
    let threads = std::thread::available_parallelism().map_or(1, usize::from) / 2;
    let note = |_| {
        run.done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    search.run(threads, judge, note)?;
    if is_likely {
        search.run_likely(threads, judge, note)?;
    }
    search.count_partly_compared(&mut judge())?;
    let groups = search.finish(request.size_min, |member| member);
    let names = names(shared, &state, &groups)?;
    Ok(FoundGroups { groups, names })
}

/// The names of the namespaces of groups, with their masks.
fn names(
    shared: &Shared,
    state: &Published,
    groups: &Groups,
) -> Result<HashMap<NamespaceNumber, (Namespace, u64)>, JobFailure> {
    let mut names = HashMap::new();
    for group in groups.all() {
        if group.namespace == NamespaceNumber::DEFAULT || names.contains_key(&group.namespace) {
            continue;
        }
        let before = NamespaceNumber::new(group.namespace.get() - 1);
        let entry = state.view.namespaces().page(before, 1);
        let entry = entry.first().filter(|entry| entry.number == group.namespace);
        let entry = entry.ok_or(JobFailure::Unreadable)?;
        let name = reader::name(&state.records, entry.named_by)?;
        let mask = NamespaceKey::of(&name, &shared.id_secret).mask;
        names.insert(group.namespace, (name, mask));
    }
    Ok(names)
}

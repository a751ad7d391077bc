//! The thread that finds groups: it runs the jobs of the board one after the other.
//!
//! A job reads one published view, which stays in memory until it ends, and the records of pairs that
//! have sketches to compare. Its threads have a lower priority than those that serve, and leave half of
//! the cores alone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearprint_index::groups::{BYTES_EACH, Groups, Judge as _, Search};
use nearprint_index::namespaces::NamespaceNumber;
use nearprint_index::view::{Expired, Selection};
use nearprint_index::visibility::NamespaceKey;

use crate::background::spawn::lower_priority;
use crate::clock;
use crate::document::{Namespace, Sequence};
use crate::groups::board::{FoundGroups, Next};
use crate::groups::jobs::GroupsFailure;
use crate::groups::judge::{GroupsEnded, SketchJudge};
use crate::published::Published;
use crate::read::reader;
use crate::shared::Shared;

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
        while let Some(next) = shared.groups.next() {
            let begun = clock::now();
            let outcome = match find(shared, &next) {
                Ok(found) => {
                    tracing::info!(
                        job = next.number,
                        groups = found.groups.all().len(),
                        documents = found.groups.documents(),
                        duration_ms = begun.elapsed().as_millis() as u64,
                        "groups found"
                    );
                    Ok(found)
                }
                Err(GroupsEnded::Cancelled) => continue,
                Err(GroupsEnded::Failed(failure)) => {
                    tracing::warn!(job = next.number, ?failure, "a search for groups failed");
                    Err(failure)
                }
            };
            shared.groups.end(next.number, outcome, clock::now_ms());
        }
    }
    // Jobs that still wait never run.
    while let Some(next) = shared.groups.next() {
        shared.groups.end(next.number, Err(GroupsFailure::Stopping), clock::now_ms());
    }
}

fn find(shared: &Arc<Shared>, next: &Next) -> Result<FoundGroups, GroupsEnded> {
    let Next { number, request, run } = next;
    let state = shared.published.load_full();
    let view = &state.view;
    let needed = view.documents().saturating_mul(BYTES_EACH);
    shared.groups.make_room(needed).map_err(GroupsEnded::Failed)?;
    shared.groups.sees(*number, view.sequence());
    let visibility = view.visibility(None, clock::now_ms(), None);
    let selection = Selection {
        namespace: request.reach.in_view(view, &shared.id_secret),
        after: Sequence::ZERO,
        upto: view.sequence(),
        expired: Expired::Not(visibility.now_s),
    };
    let search = Search::begin(view, selection, request.criteria.distance);
    let pieces = search.pieces() as u64;
    run.total.store(pieces + pieces / COLLECTED, Ordering::Relaxed);
    let judge = || {
        let threshold = request.criteria.min_resemblance;
        SketchJudge::new(shared, &state, run, visibility, threshold)
    };
    judge().goes_on()?;
    run.done.store(pieces / COLLECTED, Ordering::Relaxed);
    run_pieces(&search, &run.done, judge)?;
    let groups = search.finish(request.size_min);
    let names = names(shared, &state, &groups)?;
    Ok(FoundGroups { groups, names })
}

/// Runs all pieces, on half of the cores.
fn run_pieces<'a>(
    search: &Search<'_>,
    done: &AtomicU64,
    judge: impl Fn() -> SketchJudge<'a> + Sync,
) -> Result<(), GroupsEnded> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, ended) = (AtomicUsize::new(0), Mutex::new(None));
    let work = || {
        let mut judge = judge();
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= search.pieces() {
                return;
            }
            if let Err(why) = search.piece(piece, &mut judge) {
                // The others stop at their next piece.
                next.store(search.pieces(), Ordering::Relaxed);
                *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                return;
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        // Threads inherit the priority of the one that starts them.
        for _ in 1..cores / 2 {
            scope.spawn(work);
        }
        work();
    });
    ended.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// The names of the namespaces of groups, with their masks.
fn names(
    shared: &Shared,
    state: &Published,
    groups: &Groups,
) -> Result<HashMap<NamespaceNumber, (Namespace, u64)>, GroupsEnded> {
    let mut names = HashMap::new();
    for group in groups.all() {
        if group.namespace == NamespaceNumber::DEFAULT || names.contains_key(&group.namespace) {
            continue;
        }
        let before = NamespaceNumber::new(group.namespace.get() - 1);
        let entry = state.view.namespaces().page(before, 1);
        let entry = entry.first().filter(|entry| entry.number == group.namespace);
        let entry = entry.ok_or(GroupsEnded::Failed(GroupsFailure::Unreadable))?;
        let name = reader::name(&state.records, entry.named_by)?;
        let mask = NamespaceKey::of(&name, &shared.id_secret).mask;
        names.insert(group.namespace, (name, mask));
    }
    Ok(names)
}

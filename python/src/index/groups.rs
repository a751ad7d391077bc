//! Groups of near-duplicates: documents that chains of near-duplicates connect.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use nearprint_index::groups::{Evidence, EvidenceSource, GroupingCriteria, Groups};
use nearprint_index::view::View;
use nearprint_machine::document::Sequence;
use nearprint_machine::query::{Criteria, SearchKind};
use pyo3::prelude::*;

use super::state::Snapshot;
use crate::work;

/// The groups of the documents of an index, by their ids.
pub(super) fn of_documents(
    py: Python<'_>,
    snapshot: &Snapshot,
    criteria: Criteria,
    threads: NonZero<usize>,
) -> PyResult<Vec<Vec<String>>> {
    let stored = |at: Sequence| {
        let known = snapshot.documents.binary_search_by_key(&at, |(at, _)| *at);
        &*snapshot.documents[known.expect("the index has no other documents")].1
    };
    let evidence = |at| {
        let stored = stored(at);
        Evidence { is_short: stored.short, sketch: stored.sketch.as_deref().cloned() }
    };
    let criteria = GroupingCriteria {
        distance: criteria.distance,
        threshold: criteria.threshold,
        is_likely: criteria.search == SearchKind::Likely,
        threads: threads.get(),
    };
    let groups = find(py, &snapshot.view, criteria, &evidence)?;
    let ids = |group: &[Sequence]| group.iter().map(|at| stored(*at).id.to_string()).collect();
    Ok(groups.iter().map(ids).collect())
}

/// Finds the groups of at least two documents, the largest first; each document is the change that
/// stored it.
///
/// # Errors
/// The exception of Ctrl-C, or of a panic.
pub(super) fn find(
    py: Python<'_>,
    view: &View,
    criteria: GroupingCriteria,
    evidence: &(impl Fn(Sequence) -> Evidence + Sync),
) -> PyResult<Groups<Sequence>> {
    let (is_cancelled, found) = (AtomicBool::new(false), Mutex::new(None));
    let source = || InMemory { evidence, is_cancelled: &is_cancelled };
    let job = || {
        let watch = |_, _| source().goes_on();
        let groups = criteria.groups(view, source, watch, |member| member.sequence);
        *found.lock().unwrap_or_else(PoisonError::into_inner) = groups.ok();
    };
    work::watched(py, 1, &job, &is_cancelled)?;
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(found.expect("only Ctrl-C ends it early"))
}

/// Evidence that is in memory.
struct InMemory<'a, F> {
    evidence: &'a F,
    is_cancelled: &'a AtomicBool,
}

/// Ctrl-C came.
struct Cancelled;

impl<F: Fn(Sequence) -> Evidence> EvidenceSource for InMemory<'_, F> {
    type Error = Cancelled;

    fn evidence(&mut self, document: Sequence) -> Result<Evidence, Cancelled> {
        Ok((self.evidence)(document))
    }

    fn goes_on(&mut self) -> Result<(), Cancelled> {
        if self.is_cancelled.load(Ordering::Relaxed) { Err(Cancelled) } else { Ok(()) }
    }
}

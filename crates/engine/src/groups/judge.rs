//! Which pairs of a view join, by the sketches of their documents.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nearprint_fingerprint::{Fingerprint, MinResemblance};
use nearprint_index::groups::{Judge, Pair};
use nearprint_index::namespaces::NamespaceNumber;
use nearprint_index::visibility::Visibility;

use crate::api::error::Refused;
use crate::groups::board::GroupsRun;
use crate::groups::jobs::GroupsFailure;
use crate::machine::groups::{Compared, SKETCHES_COMPARED_MAX, joins};
use crate::published::Published;
use crate::read::reader::RecordReader;
use crate::shared::{Life, Shared};

/// Fingerprints whose sketches each thread keeps: at most 8 MiB, and a tenth of it as a rule, because few
/// fingerprints have many documents.
const KEPT: usize = 4_096;

/// Why a piece ends before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupsEnded {
    /// The job was removed.
    Cancelled,
    /// The job fails.
    Failed(GroupsFailure),
}

impl From<Refused> for GroupsEnded {
    fn from(_: Refused) -> Self {
        Self::Failed(GroupsFailure::Unreadable)
    }
}

/// Decides for one thread.
#[derive(Debug)]
pub(crate) struct SketchJudge<'a> {
    shared: &'a Shared,
    state: &'a Published,
    run: &'a GroupsRun,
    visibility: Visibility,
    /// `None` joins every pair.
    threshold: Option<MinResemblance>,
    records: RecordReader,
    kept: HashMap<(Fingerprint, NamespaceNumber), Arc<Compared>>,
}

impl<'a> SketchJudge<'a> {
    /// A judge over a state. `visibility` tells the time; it is of any namespace.
    pub(crate) fn new(
        shared: &'a Shared,
        state: &'a Published,
        run: &'a GroupsRun,
        visibility: Visibility,
        threshold: Option<MinResemblance>,
    ) -> Self {
        let threshold = threshold.filter(|_| state.view.may_have_sketches());
        let records = RecordReader::new(&state.records);
        Self { shared, state, run, visibility, threshold, records, kept: HashMap::new() }
    }

    fn compared(
        &mut self,
        masked: Fingerprint,
        namespace: NamespaceNumber,
    ) -> Result<Arc<Compared>, Refused> {
        let key = (masked, namespace);
        if let Some(kept) = self.kept.get(&key) {
            return Ok(Arc::clone(kept));
        }
        // What is compared with many others comes again at once.
        if self.kept.len() >= KEPT {
            self.kept.clear();
        }
        let compared = Arc::new(self.read(masked, namespace)?);
        self.kept.insert(key, Arc::clone(&compared));
        Ok(compared)
    }

    fn read(
        &mut self,
        masked: Fingerprint,
        namespace: NamespaceNumber,
    ) -> Result<Compared, Refused> {
        let visibility = Visibility { namespace, mask: 0, ..self.visibility };
        // The mask is 0 because the fingerprint has that of its namespace already.
        let documents = self.state.view.documents_of(masked, visibility);
        let mut compared = Compared::default();
        let mut samples = HashSet::new();
        let of_each_sample =
            documents.filter(|posting| posting.sample.is_some_and(|sample| samples.insert(sample)));
        for posting in of_each_sample.take(SKETCHES_COMPARED_MAX) {
            let stored = self.records.stored(posting.sequence)?;
            let is_first = compared.sketches.is_empty();
            compared.is_short = stored.document.short && (is_first || compared.is_short);
            compared.sketches.extend(stored.document.sketch.map(|sketch| *sketch));
        }
        Ok(compared)
    }
}

impl Judge for SketchJudge<'_> {
    type Error = GroupsEnded;

    fn joins(&mut self, pair: &Pair) -> Result<bool, GroupsEnded> {
        let Some(threshold) = self.threshold else { return Ok(true) };
        let [one, other] = pair.masked;
        let one = self.compared(one, pair.namespace)?;
        let other = self.compared(other, pair.namespace)?;
        Ok(joins(&one, &other, pair.distance, threshold))
    }

    fn goes_on(&mut self) -> Result<(), GroupsEnded> {
        if self.run.is_cancelled.load(Ordering::Relaxed) {
            return Err(GroupsEnded::Cancelled);
        }
        if self.shared.life() != Life::Running {
            return Err(GroupsEnded::Failed(GroupsFailure::Stopping));
        }
        Ok(())
    }
}

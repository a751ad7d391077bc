//! Which pairs of documents join, by their sketches: the rule of hits, for both sides.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use nearprint_fingerprint::{Distance, Fingerprint, Sample, Sketch, Threshold, Verification};

use crate::document::Sequence;
use crate::groups::{Judge, Pair};
use crate::levels::posting::Posting;
use crate::namespaces::NamespaceNumber;
use crate::view::View;
use crate::visibility::Visibility;

/// The maximum number of sketches of one fingerprint that are compared with those of another, each
/// with other sampled bins: texts with the same bins are nearly the same.
pub(super) const SKETCHES_COMPARED_MAX: usize = 256;

/// Fingerprints whose sketches each judge keeps: at most 8 MiB, and a tenth of it as a rule,
/// because few fingerprints have many documents.
const KEPT: usize = 4_096;

/// Samples of a fingerprint that are compared before any sketch is read; of one with more, the
/// sketches are compared.
const SAMPLES_MAX: usize = 8;

/// Rows with the same minima after which a search for similar texts asks whether to go on.
const RUNS_AT_A_TIME: u32 = 256;

/// What is known of the text of a document.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// Whether it is too short to be compared by its fingerprint.
    pub is_short: bool,
    /// Its sketch.
    pub sketch: Option<Sketch>,
}

/// Where the evidence of documents is.
pub trait EvidenceSource {
    /// Why evidence cannot be read, or the search must not go on.
    type Error;

    /// The sample of the sketch of a document, if it has one.
    fn sample(&self, document: Posting) -> Option<Sample> {
        document.sample
    }

    /// The evidence of a document.
    ///
    /// # Errors
    /// It cannot be read.
    fn evidence(&mut self, document: Sequence) -> Result<Evidence, Self::Error>;

    /// As [`Judge::goes_on`].
    ///
    /// # Errors
    /// Why the search must not go on.
    fn goes_on(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Joins two fingerprints if a document of one would find the other to be a hit that counts.
#[derive(Debug)]
pub struct SketchJudge<'a, S> {
    view: &'a View,
    visibility: Visibility,
    threshold: Option<Threshold>,
    source: S,
    kept: HashMap<(Fingerprint, NamespaceNumber), Arc<Compared>>,
    runs: u32,
}

/// The documents of a fingerprint that are compared: of those with a sketch, the oldest of each
/// sample ([`Threshold::alike`]).
#[derive(Debug, Default)]
struct Compared {
    sketches: Vec<Sketch>,
    /// Whether there are any and all of them are short.
    is_short: bool,
}

impl<'a, S: EvidenceSource> SketchJudge<'a, S> {
    /// A judge of the documents of a view. `visibility` tells the time; it is of any namespace.
    /// Without a threshold every pair joins.
    pub fn new(
        view: &'a View,
        visibility: Visibility,
        threshold: Option<Threshold>,
        source: S,
    ) -> Self {
        Self { view, visibility, threshold, source, kept: HashMap::new(), runs: 0 }
    }

    /// Whether the samples of two fingerprints do not refute that their texts are similar.
    pub(super) fn may_be_similar(&self, pair: &Pair) -> bool {
        let Some(threshold) = self.threshold else { return false };
        let samples = |masked| {
            let documents = self.view.documents_of(masked, self.of_namespace(pair.namespace));
            documents.filter_map(|posting| self.source.sample(posting)).take(SAMPLES_MAX)
        };
        let [one, other] = pair.masked.map(|masked| samples(masked).collect::<Vec<Sample>>());
        let is_cut = one.len() == SAMPLES_MAX || other.len() == SAMPLES_MAX;
        let may_reach =
            |one: &Sample| other.iter().any(|other| one.may_reach(*other, threshold.resemblance));
        is_cut || one.iter().any(may_reach)
    }

    /// Whether texts of two fingerprints share a label and their sketches agree, so that a likely
    /// search for one finds the other.
    ///
    /// # Errors
    /// Those of the source.
    pub(super) fn are_similar(&mut self, pair: &Pair) -> Result<bool, S::Error> {
        let [one, other] = pair.masked;
        let one = self.compared(one, pair.namespace)?;
        let other = self.compared(other, pair.namespace)?;
        let agree = |sketch: &Sketch, stored: &Sketch| {
            sketch.shares_label(stored)
                && Verification::between(Some(sketch), Some(stored), self.threshold).is_confirmed()
        };
        Ok(one.sketches.iter().any(|one| other.sketches.iter().any(|other| agree(one, other))))
    }

    /// Asks whether to go on once in a while.
    ///
    /// # Errors
    /// Those of the source.
    pub(super) fn goes_on_with_similar(&mut self) -> Result<(), S::Error> {
        self.runs += 1;
        if self.runs.is_multiple_of(RUNS_AT_A_TIME) { self.source.goes_on() } else { Ok(()) }
    }

    /// The mask is 0 because the fingerprints of pairs have that of their namespace already.
    const fn of_namespace(&self, namespace: NamespaceNumber) -> Visibility {
        Visibility { namespace, mask: 0, ..self.visibility }
    }

    /// The documents of a fingerprint that are compared, and whether there are others.
    fn oldest_of_samples(
        &self,
        masked: Fingerprint,
        namespace: NamespaceNumber,
    ) -> (Vec<Sequence>, bool) {
        let (mut seen, mut oldest) = (HashSet::new(), Vec::new());
        let alike = |sample| self.threshold.map_or(sample, |threshold| threshold.alike(sample));
        for posting in self.view.documents_of(masked, self.of_namespace(namespace)) {
            if self.source.sample(posting).is_some_and(|sample| seen.insert(alike(sample))) {
                if oldest.len() == SKETCHES_COMPARED_MAX {
                    return (oldest, true);
                }
                oldest.push(posting.sequence);
            }
        }
        (oldest, false)
    }

    /// Whether a fingerprint has sketches that are not compared with those of others.
    pub(super) fn leaves_sketches(&self, masked: Fingerprint, namespace: NamespaceNumber) -> bool {
        self.threshold.is_some() && self.oldest_of_samples(masked, namespace).1
    }

    fn compared(
        &mut self,
        masked: Fingerprint,
        namespace: NamespaceNumber,
    ) -> Result<Arc<Compared>, S::Error> {
        let key = (masked, namespace);
        if let Some(kept) = self.kept.get(&key) {
            return Ok(Arc::clone(kept));
        }
        // What is compared with many others comes again at once.
        if self.kept.len() >= KEPT {
            self.kept.clear();
        }
        let (oldest, _) = self.oldest_of_samples(masked, namespace);
        let mut compared = Compared { sketches: Vec::with_capacity(oldest.len()), is_short: true };
        for document in oldest {
            let Evidence { is_short, sketch } = self.source.evidence(document)?;
            compared.is_short &= is_short || sketch.is_none();
            compared.sketches.extend(sketch);
        }
        compared.is_short &= !compared.sketches.is_empty();
        let compared = Arc::new(compared);
        self.kept.insert(key, Arc::clone(&compared));
        Ok(compared)
    }
}

impl<S: EvidenceSource> Judge for SketchJudge<'_, S> {
    type Error = S::Error;

    fn joins(&mut self, pair: &Pair) -> Result<bool, S::Error> {
        let Some(threshold) = self.threshold else { return Ok(true) };
        let [one, other] = pair.masked;
        let one = self.compared(one, pair.namespace)?;
        let other = self.compared(other, pair.namespace)?;
        Ok(joins(&one, &other, pair.distance, threshold))
    }

    fn goes_on(&mut self) -> Result<(), S::Error> {
        self.source.goes_on()
    }
}

/// The best resemblance decides; where nothing can be compared the distance does, unless all
/// documents are short.
fn joins(one: &Compared, other: &Compared, distance: Distance, threshold: Threshold) -> bool {
    let mut best = Verification::Unverifiable;
    for sketch in &one.sketches {
        for stored in &other.sketches {
            let found = Verification::between(Some(sketch), Some(stored), Some(threshold));
            best = best.better(found);
        }
    }
    best.counts(distance, one.is_short && other.is_short)
}

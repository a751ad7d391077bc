//! The machine against the model: any commands, decided on searches of any age.

use std::cmp::Reverse;
use std::convert::Infallible;
use std::sync::Arc;

use proptest::prelude::*;

use crate::document::{Document, DocumentId};
use crate::fingerprint::{Distance, Fingerprint};
use crate::index::permutation::Permutation;
use crate::index::view::{DocumentCounts, Shape, View};
use crate::machine::apply::Machine;
use crate::machine::change::{Change, Record};
use crate::machine::commands::{
    Applied, CheckAndInsert, CheckAndInsertPacked, Insert, InsertPacked, Remove, Reset,
};
use crate::machine::model::Model;
use crate::machine::query::Criteria;
use crate::machine::search::{
    DOCUMENTS_COMPARED_MAX, MATCHES_KEPT_MAX, MATCHES_VERIFIED_MAX, Match, PackedSearch, Probe,
    Search, Stale,
};
use crate::sketch::{BINS, MinResemblance, Sketch};

const SIMILARITIES: [f64; 4] = [0.0, 0.5, 0.83, 1.0];
const SECRET: [u8; 16] = *b"a secret of ours";

#[derive(Debug, Clone)]
enum Step {
    Insert(Document),
    CheckAndInsert(Document, Criteria, bool),
    InsertPacked(Vec<Fingerprint>),
    CheckAndInsertPacked(Vec<Fingerprint>, Distance),
    Remove(DocumentId),
    Reset(Fingerprint),
    /// Remember the view: later searches run on it.
    Publish,
    Rotate,
    SettleDeltas,
}

fn fingerprints() -> impl Strategy<Value = Fingerprint> {
    let base = prop_oneof![3 => Just(0), 1 => Just(u64::MAX)];
    (base, prop::collection::vec(0..64_u32, 0..5)).prop_map(|(base, flips)| {
        Fingerprint::new(flips.iter().fold(base, |value, bit| value ^ 1 << bit))
    })
}

fn ids() -> impl Strategy<Value = DocumentId> {
    (0..8_u8).prop_map(|id| DocumentId::new(id.to_string()).unwrap())
}

/// Sketches that resemble each other more or less: the first bins agree.
fn sketches() -> impl Strategy<Value = Box<Sketch>> {
    (0..4_u8, 0..30_usize).prop_map(|(code, changed)| {
        let mut codes = [0; BINS];
        for (bin, to) in codes.iter_mut().enumerate().take(60) {
            *to = if bin < changed { code } else { 1 };
        }
        Box::new(Sketch::from_codes(&codes))
    })
}

fn documents() -> impl Strategy<Value = Document> {
    let parts =
        (prop::option::of(ids()), fingerprints(), prop::option::of(sketches()), any::<bool>());
    parts.prop_map(|(id, fingerprint, sketch, short)| Document { id, fingerprint, sketch, short })
}

fn criteria() -> impl Strategy<Value = Criteria> {
    (0..=3_u8, 0..4_u8).prop_map(|(distance, tenths)| Criteria {
        distance: Distance::new(distance).unwrap(),
        min_resemblance: MinResemblance::of_similarity(SIMILARITIES[usize::from(tenths)]),
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let distance = (0..=3_u8).prop_map(|bits| Distance::new(bits).unwrap());
    let batch = || prop::collection::vec(fingerprints(), 1..8);
    prop_oneof![
        6 => documents().prop_map(Step::Insert),
        12 => (documents(), criteria(), any::<bool>())
            .prop_map(|(document, criteria, store)| Step::CheckAndInsert(document, criteria, store)),
        2 => batch().prop_map(Step::InsertPacked),
        3 => (batch(), distance).prop_map(|(batch, d)| Step::CheckAndInsertPacked(batch, d)),
        3 => ids().prop_map(Step::Remove),
        2 => fingerprints().prop_map(Step::Reset),
        5 => Just(Step::Publish),
        1 => Just(Step::Rotate),
        1 => Just(Step::SettleDeltas),
    ]
}

/// A machine with the records of its changes, and the view that its readers have.
struct Rig {
    machine: Machine,
    published: View,
    changes: Vec<Change>,
    model: Model,
}

impl Rig {
    fn new() -> Self {
        let view = View::new(Shape {
            distance_max: Distance::new(3).unwrap(),
            delta_events: 12,
            small_max: 20,
            permutation: Arc::new(Permutation::from_secret(7)),
        });
        let machine = Machine::new(view.clone(), SECRET);
        Self { machine, published: view, changes: Vec::new(), model: Model::default() }
    }

    fn search(&self, view: &View, document: &Document, criteria: Criteria) -> Search {
        let probe = Probe::new(document, criteria, &SECRET);
        let sketches = &mut |_, posting: crate::index::levels::posting::Posting| {
            let stored = self.changes_put(posting.sequence.get());
            Ok::<_, Infallible>(stored.sketch.as_deref().cloned())
        };
        let mut search = Search::begin(view, &probe);
        let Ok(()) = search.verify(view, &probe, sketches);
        search
    }

    /// The document that a change stored, as the journal would tell.
    fn changes_put(&self, sequence: u64) -> Document {
        let mut next = 1;
        for change in &self.changes {
            if (next..next + u64::from(change.count())).contains(&sequence)
                && let Change::Put { document } = change
            {
                return document.clone();
            }
            next += u64::from(change.count());
        }
        panic!("sequence {sequence} put no document with a record")
    }

    /// Keeps the change of a command for the journal.
    fn journal<R>(&mut self, applied: Applied<R>) -> R {
        self.changes.extend(applied.change);
        applied.reply
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Insert(document) => {
                let expected = self.model.insert(document);
                let applied = self.machine.insert(Insert { document: document.clone() });
                assert_eq!(self.journal(applied), expected);
            }
            Step::CheckAndInsert(document, criteria, store_duplicates) => {
                self.check_and_insert(document, *criteria, *store_duplicates);
            }
            Step::InsertPacked(batch) => {
                self.model.enact(&Change::PutPacked { fingerprints: batch.clone() });
                let command = InsertPacked { fingerprints: batch.clone() };
                let applied = self.machine.insert_packed(command);
                self.journal(applied);
            }
            Step::CheckAndInsertPacked(batch, distance) => {
                let expected = self.model.check_and_insert_packed(batch, *distance);
                let mut search = PackedSearch::new(&self.published, batch, *distance);
                if search.is_stale(self.machine.view()) {
                    search = PackedSearch::new(self.machine.view(), batch, *distance);
                }
                let (fingerprints, distance) = (batch.clone(), *distance);
                let command = CheckAndInsertPacked { fingerprints, distance };
                let applied = self.machine.check_and_insert_packed(command, search);
                assert_eq!(self.journal(applied), expected);
            }
            Step::Remove(id) => {
                let documents = u64::from(self.model.find(id).is_some());
                if documents > 0 {
                    self.model.enact(&Change::Remove { id: id.clone() });
                }
                let applied = self.machine.remove(Remove { id: id.clone() });
                assert_eq!(self.journal(applied), documents);
            }
            Step::Reset(fingerprint) => {
                let stored = self.model.documents().iter();
                let documents =
                    stored.filter(|(_, d)| d.fingerprint == *fingerprint).count() as u64;
                if documents > 0 {
                    self.model.enact(&Change::Reset { fingerprint: *fingerprint });
                }
                let applied = self.machine.reset(Reset { fingerprint: *fingerprint });
                assert_eq!(self.journal(applied), documents);
            }
            Step::Publish => self.published = self.machine.view().clone(),
            Step::Rotate => self.machine.view_mut().rotate(),
            Step::SettleDeltas => {
                let view = self.machine.view_mut();
                while let Some(work) = view.next_flush() {
                    view.complete(work);
                }
            }
        }
        assert_eq!(self.machine.view().sequence(), self.model.sequence());
    }

    /// Searches the readers' view, and the newest one if that search is too old: what the engine
    /// does.
    fn check_and_insert(&mut self, document: &Document, criteria: Criteria, store: bool) {
        let expected_matches = self.model.matches(document, criteria);
        let known = expected_matches.iter().map(|found| self.known(found.3, document.id.as_ref()));
        let expected_known: Vec<(DocumentCounts, bool)> = known.collect();
        let expected = self.model.check_and_insert(document, criteria, store);
        let mut search = self.search(&self.published, document, criteria);
        let probe = Probe::new(document, criteria, &SECRET);
        if let Err(Stale) = search.update(self.machine.view(), &probe) {
            search = self.search(self.machine.view(), document, criteria);
        }
        let (document, store_duplicates) = (document.clone(), store);
        let short = document.short;
        let command = CheckAndInsert { document, criteria, store_duplicates };
        let applied = self.machine.check_and_insert(command, &search);
        assert_eq!(self.journal(applied), expected);
        let shown: Vec<_> = search.matches.iter().map(|found| shown(found, short)).collect();
        assert_eq!(shown, expected_matches);
        let known = search.matches.iter().map(|found| (found.counts, found.has_sketch));
        assert_eq!(known.collect::<Vec<_>>(), expected_known);
    }

    /// How many documents a fingerprint has, and whether one but that under an id has a sketch.
    fn known(&self, fingerprint: Fingerprint, own: Option<&DocumentId>) -> (DocumentCounts, bool) {
        let stored = || {
            let documents = self.model.documents().iter().map(|(_, document)| document);
            documents.filter(|document| document.fingerprint == fingerprint)
        };
        let counts = DocumentCounts {
            documents: stored().count() as u64,
            with_id: stored().filter(|document| document.id.is_some()).count() as u64,
        };
        let others = stored().filter(|document| own.is_none() || document.id.as_ref() != own);
        (counts, others.take(DOCUMENTS_COMPARED_MAX).any(|document| document.sketch.is_some()))
    }
}

fn shown(found: &Match, short: bool) -> crate::machine::model::ModelMatch {
    let counts = found.verification.counts(found.distance, short);
    (Reverse(counts), found.distance, found.oldest, found.fingerprint)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn verdicts_are_those_of_the_model_whatever_the_age_of_the_search(
        steps in prop::collection::vec(steps(), 0..60),
    ) {
        let mut rig = Rig::new();
        for step in &steps {
            rig.take(step);
        }
        // The recorded changes alone lead to the same state.
        let mut again = Rig::new();
        for change in &rig.changes {
            let mut bytes = Vec::new();
            Record { at_ms: 0, change: change.clone() }.encode(&mut bytes);
            again.machine.enact(&Record::decode(&bytes).unwrap().change);
            again.model.enact(change);
        }
        prop_assert_eq!(again.machine.view().counts(), rig.machine.view().counts());
        prop_assert_eq!(&again.model, &rig.model);
        for (sequence, document) in rig.model.documents() {
            for rig in [&rig, &again] {
                let mut stored = rig.machine.view().documents_of(document.fingerprint);
                prop_assert!(stored.any(|posting| posting.sequence == *sequence));
                if let Some(id) = &document.id {
                    let located = rig.machine.view().find_id(rig.machine.key(id)).unwrap();
                    prop_assert_eq!(located.posting.sequence, *sequence);
                }
            }
        }
    }
}

/// A sketch of nothing but this code: unlike every sketch of another one.
fn plain_sketch(code: u8) -> Sketch {
    Sketch::from_codes(&[code; BINS])
}

/// Verification moves matches that it refutes behind all that it does not reach, and still the
/// first thousand are those that a search without a limit would show.
#[test]
fn a_search_of_a_crowd_keeps_the_first_thousand_hits_and_counts_all() {
    const SHOWN: usize = 1_000;
    let mut rig = Rig::new();
    let pairs = (0..64_u32).flat_map(|one| (0..one).map(move |other| 1_u64 << one | 1 << other));
    let near: Vec<u64> = pairs.chain((0..64).map(|bit| 1 << bit)).collect();
    for (number, bits) in near.iter().enumerate() {
        let sketch = (number % 3 == 0).then(|| Box::new(plain_sketch(2)));
        rig.take(&Step::Insert(Document { sketch, ..Document::bare(Fingerprint::new(*bits)) }));
    }
    assert!(near.len() > MATCHES_KEPT_MAX + 500);
    let probe =
        Document { sketch: Some(Box::new(plain_sketch(1))), ..Document::bare(Fingerprint::new(0)) };
    let criteria = Criteria {
        distance: Distance::new(3).unwrap(),
        min_resemblance: MinResemblance::of_similarity(0.83),
    };
    let search = rig.search(rig.machine.view(), &probe, criteria);
    assert_eq!((search.count, search.matches.len()), (near.len(), MATCHES_KEPT_MAX));
    let mut expected: Vec<_> = near.iter().enumerate().map(|(age, bits)| (bits, age)).collect();
    expected.sort_by_key(|(bits, age)| (bits.count_ones(), *age));
    let (verified, others) = expected.split_at(MATCHES_VERIFIED_MAX);
    let (refuted, unverified): (Vec<_>, Vec<_>) =
        verified.iter().partition(|(_, age)| age % 3 == 0);
    let expected = unverified.into_iter().chain(others).chain(refuted).map(|(bits, _)| *bits);
    let expected: Vec<u64> = expected.take(SHOWN).copied().collect();
    let shown: Vec<u64> =
        search.matches.iter().take(SHOWN).map(|found| found.fingerprint.bits()).collect();
    assert_eq!(shown, expected);
}

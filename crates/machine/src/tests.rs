//! The machine against the model: any commands, decided on searches of any age.

use std::cmp::Reverse;
use std::convert::Infallible;
use std::sync::Arc;

use nearprint_fingerprint::{BINS, Distance, Fingerprint, Label, Numbers, Sketch, Threshold};
use nearprint_index::labels::ROWS_MAX;
use nearprint_index::namespace_key::NamespaceKey;
use nearprint_index::namespaces::NamespaceNumber;
use nearprint_index::permutation::Permutation;
use nearprint_index::view::{COUNTED_MAX, DocumentCounts, Expired, Listed, Selection, Shape, View};
use nearprint_index::visibility::Visibility;
use proptest::prelude::*;

use crate::change::{Change, Record};
use crate::commands::{
    Applied, CheckAndInsert, CheckAndInsertPacked, DecidedWrite, Insert, InsertPacked, NoteTime,
    Reason, Remove, RemoveMany, Reset,
};
use crate::decide::Machine;
use crate::document::{Document, DocumentId, Expiry, Metadata, Namespace, Packed, Sequence};
use crate::jobs::Jobs;
use crate::model::{Model, ModelMatch};
use crate::query::{Criteria, SearchKind};
use crate::search::{
    MATCHES_KEPT_MAX, MATCHES_VISITED_MAX, Match, PackedSearch, Probe, SKETCHES_COMPARED_MAX,
    Search, Stale,
};

const SIMILARITIES: [f64; 4] = [0.0, 0.5, 0.83, 1.0];
const SECRET: [u8; 16] = *b"a secret of ours";
/// When a test begins, in seconds since 1970.
const BEGIN_S: u64 = 1_000_000;

#[derive(Debug, Clone)]
enum Step {
    Insert(Insert),
    /// Also whether it stores duplicates, and whether it renews what is there already.
    CheckAndInsert(Document, Criteria, (bool, bool)),
    InsertPacked(Packed),
    CheckAndInsertPacked(Packed, Criteria),
    Remove(Option<Namespace>, DocumentId),
    Reset(Option<Namespace>, Fingerprint),
    /// Time passes, in milliseconds.
    Wait(u64),
    /// The clock is set, by milliseconds.
    SetClock(i64),
    /// The newest record gets the time of the clock.
    NoteTime,
    /// Removes what has expired in the view of the readers.
    Expire,
    /// Remember the view: later searches run on it.
    Publish,
    Rotate,
    SettleDeltas,
}

fn fingerprints() -> impl Strategy<Value = Fingerprint> {
    let base = prop_oneof![3 => Just(0), 1 => Just(u64::MAX)];
    let bit = prop_oneof![0..12_u32, 0..64_u32];
    (base, prop::collection::vec(bit, 0..5)).prop_map(|(base, flips)| {
        Fingerprint::new(flips.iter().fold(base, |value, bit| value ^ 1 << bit))
    })
}

/// The default namespace and three others.
fn namespaces() -> impl Strategy<Value = Option<Namespace>> {
    (0..6_u8).prop_map(|number| {
        let number = number.checked_sub(3)?;
        Some(Namespace::new(format!("namespace {number}")).unwrap())
    })
}

/// A fingerprint in a namespace. Half of them are *planted*: indexed like the same fingerprint of
/// the default namespace, which by chance happens to nobody.
fn within(
    namespace: Option<&Namespace>,
    fingerprint: Fingerprint,
    is_planted: bool,
) -> Fingerprint {
    let mask = namespace.map_or(0, |namespace| NamespaceKey::of(namespace, &SECRET).mask);
    Fingerprint::new(fingerprint.bits() ^ if is_planted { mask } else { 0 })
}

/// Expiries that a few seconds of a test reach, and never.
fn expiries() -> impl Strategy<Value = Option<Expiry>> {
    prop::option::weighted(0.4, (0..9_u64).prop_map(|after| Expiry::at(BEGIN_S + after).unwrap()))
}

fn batches() -> impl Strategy<Value = Packed> {
    let fingerprints = prop::collection::vec((fingerprints(), any::<bool>()), 1..8);
    (namespaces(), expiries(), fingerprints).prop_map(|(namespace, expiry, fingerprints)| {
        let within = |(f, is_planted)| within(namespace.as_ref(), f, is_planted);
        let fingerprints = fingerprints.into_iter().map(within).collect();
        Packed { namespace, expiry, fingerprints }
    })
}

fn ids() -> impl Strategy<Value = DocumentId> {
    (0..8_u8).prop_map(|id| DocumentId::new(id.to_string()).unwrap())
}

/// Sketches that resemble each other more or less: the first bins agree. Some share labels, some
/// have numbers.
fn sketches() -> impl Strategy<Value = Box<Sketch>> {
    let numbers = prop::sample::select(vec![0, 0x11, 0x12, 0x2000_0012]);
    (0..4_u8, 0..30_usize, numbers).prop_map(|(code, changed, numbers)| {
        // Texts with the same sketch have the same labels.
        let labels = [0, usize::from(code), changed / 2, changed % 4 + 4 * usize::from(code)];
        let labels = labels.map(|label| Label::from_bits((label as u64) << 8));
        let labels = if changed % 2 == 1 { labels } else { [99; 4].map(Label::from_bits) };
        let mut codes = [0; BINS];
        for (bin, to) in codes.iter_mut().enumerate().take(60) {
            *to = if bin < changed { code } else { 1 };
        }
        let numbers = Numbers::from_bits(numbers);
        Box::new(Sketch::from_codes(&codes).with_labels(labels).with_numbers(numbers))
    })
}

fn documents() -> impl Strategy<Value = Document> {
    let names = (namespaces(), prop::option::of(ids()));
    let content = (fingerprints(), any::<bool>(), prop::option::of(sketches()), any::<bool>());
    let metadata = prop::option::weighted(0.2, Just(Metadata::new("{\"a\":1}").unwrap()));
    (names, content, expiries(), metadata).prop_map(
        |((namespace, id), (fingerprint, is_planted, sketch, short), expiry, metadata)| Document {
            fingerprint: within(namespace.as_ref(), fingerprint, is_planted),
            namespace,
            id,
            sketch,
            short,
            expiry,
            metadata,
        },
    )
}

fn criteria() -> impl Strategy<Value = Criteria> {
    let age = prop::option::weighted(0.3, 0..6_u32);
    let least = (0..4_u8, prop::sample::select(vec![0.0, 0.0, 0.3, 0.9]));
    (0..=3_u8, least, age, any::<bool>(), any::<bool>()).prop_map(
        |(distance, (tenths, numbers), max_age_s, is_likely, all_hits)| Criteria {
            distance: Distance::new(distance).unwrap(),
            threshold: Threshold::of_similarity(SIMILARITIES[usize::from(tenths)])
                .map(|least| least.with_numbers(numbers)),
            max_age_s,
            search: if is_likely { SearchKind::Likely } else { SearchKind::Exact },
            all_hits,
        },
    )
}

fn steps() -> impl Strategy<Value = Step> {
    let placed = (namespaces(), fingerprints(), any::<bool>());
    prop_oneof![
        6 => (documents(), any::<bool>())
            .prop_map(|(document, renews)| Step::Insert(Insert { document, renews })),
        12 => (documents(), criteria(), any::<[bool; 2]>()).prop_map(|(document, criteria, how)| {
            Step::CheckAndInsert(document, criteria, how.into())
        }),
        2 => batches().prop_map(Step::InsertPacked),
        3 => (batches(), criteria()).prop_map(|(batch, c)| Step::CheckAndInsertPacked(batch, c)),
        3 => (namespaces(), ids()).prop_map(|(namespace, id)| Step::Remove(namespace, id)),
        2 => placed.prop_map(|(namespace, fingerprint, is_planted)| {
            let fingerprint = within(namespace.as_ref(), fingerprint, is_planted);
            Step::Reset(namespace, fingerprint)
        }),
        3 => (0..2_500_u64).prop_map(Step::Wait),
        1 => prop_oneof![
            -3_000..3_000_i64,
            prop::sample::select(vec![-7_200_000, 7_200_000, 600_000_000_000, -600_000_000_000]),
        ]
        .prop_map(Step::SetClock),
        1 => Just(Step::NoteTime),
        1 => Just(Step::Expire),
        5 => Just(Step::Publish),
        1 => Just(Step::Rotate),
        1 => Just(Step::SettleDeltas),
    ]
}

/// A machine with the records of its changes, and the view that its readers have.
struct Rig {
    machine: Machine,
    published: View,
    /// When the readers' view was published.
    published_ms: u64,
    now_ms: u64,
    records: Vec<Record>,
    model: Model,
}

impl Rig {
    fn new() -> Self {
        Self::with_distance_max(3)
    }

    /// With one of 3 large segments have halves, from 4 on thirds.
    fn with_distance_max(distance_max: u8) -> Self {
        let view = View::new(Shape {
            distance_max: Distance::new(distance_max).unwrap(),
            delta_events: 12,
            small_max: 20,
            permutation: Arc::new(Permutation::from_secret(7)),
            has_labels: true,
        });
        let machine = Machine::new(view.clone(), Arc::new(Jobs::default()), SECRET);
        let (now_ms, model) = (BEGIN_S * 1_000, Model::with_secret(SECRET));
        let (published, published_ms, records) = (view, now_ms, Vec::new());
        Self { machine, published, published_ms, now_ms, records, model }
    }

    fn search(&self, view: &View, document: &Document, criteria: Criteria) -> Search {
        let probe = Probe::new(document, criteria, self.published_ms, &SECRET);
        let sketches = &mut |_, posting: nearprint_index::levels::posting::Posting| {
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
        for Record { change, .. } in &self.records {
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
        let at_ms = self.machine.now_ms();
        self.records.extend(applied.change.map(|change| Record { at_ms, change }));
        applied.reply
    }

    /// What the machine sees, of any age.
    fn visibility(&self, namespace: Option<&Namespace>) -> Visibility {
        let key = self.machine.namespace_key(namespace);
        self.machine.view().visibility(key, self.machine.now_ms(), None)
    }

    fn take(&mut self, step: &Step) {
        self.machine.set_time(self.now_ms);
        self.model.set_time(self.now_ms);
        match step {
            Step::Insert(insert) => {
                let previous = self.model.previous(&insert.document);
                let verdict = self.model.insert(&insert.document, insert.renews);
                let applied = self.machine.insert(insert.clone());
                assert_eq!(self.journal(applied), DecidedWrite { verdict, previous });
            }
            Step::CheckAndInsert(sought, criteria, how) => {
                self.check_and_insert(sought, *criteria, *how);
            }
            Step::InsertPacked(batch) => {
                self.model.enact(&Change::PutPacked { packed: batch.clone() });
                let command = InsertPacked { packed: batch.clone() };
                let applied = self.machine.insert_packed(command);
                self.journal(applied);
            }
            Step::CheckAndInsertPacked(batch, criteria) => {
                self.check_and_insert_packed(batch, *criteria);
            }
            Step::Remove(namespace, id) => {
                let documents = u64::from(self.model.find(namespace.as_ref(), id).is_some());
                let (namespace, id) = (namespace.clone(), id.clone());
                if documents > 0 {
                    let (namespace, id) = (namespace.clone(), id.clone());
                    self.model.enact(&Change::Remove { namespace, id });
                }
                let applied = self.machine.remove(Remove { namespace, id });
                assert_eq!(self.journal(applied), documents);
            }
            Step::Reset(namespace, fingerprint) => {
                let is_removed = |(_, d): &&(Sequence, Document)| {
                    let is_it = d.fingerprint == *fingerprint && d.namespace == *namespace;
                    is_it && !self.model.has_expired(d)
                };
                let documents = self.model.documents().iter().filter(is_removed).count() as u64;
                let (namespace, fingerprint) = (namespace.clone(), *fingerprint);
                if documents > 0 {
                    let namespace = namespace.clone();
                    self.model.enact(&Change::Reset { namespace, fingerprint });
                }
                let applied = self.machine.reset(Reset { namespace, fingerprint });
                assert_eq!(self.journal(applied), documents);
            }
            Step::Wait(ms) => self.now_ms += ms,
            Step::SetClock(by_ms) => {
                let set_ms = self.now_ms.saturating_add_signed(*by_ms);
                self.now_ms = set_ms.min((u64::from(Expiry::MAX.second()) - 1_000) * 1_000);
            }
            Step::NoteTime => {
                let (namespace, documents, progress) = (None, Vec::new(), None);
                self.model.enact(&Change::RemoveMany { namespace, documents, progress });
                let applied = self.machine.note_time(NoteTime);
                self.journal(applied);
            }
            Step::Expire => self.expire(),
            Step::Publish => {
                self.published = self.machine.view().clone();
                self.published_ms = self.now_ms;
            }
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

    /// Searches the readers' view, and the newest one if that search is too old.
    fn check_and_insert_packed(&mut self, batch: &Packed, criteria: Criteria) {
        let expected = self.model.check_and_insert_packed(batch, criteria);
        let search = |view: &View, at_ms| {
            let namespace = self.machine.namespace_key(batch.namespace.as_ref());
            let visibility = view.visibility(namespace, at_ms, criteria.max_age_s);
            PackedSearch::new(view, &batch.fingerprints, criteria.distance, visibility)
        };
        let newest = search(self.machine.view(), self.machine.now_ms());
        let mut search = search(&self.published, self.published_ms);
        if search.is_stale(self.machine.view(), &newest.visibility) {
            search = newest;
        } else {
            search.visibility = newest.visibility;
        }
        let command = CheckAndInsertPacked { packed: batch.clone(), criteria };
        let applied = self.machine.check_and_insert_packed(command, search);
        assert_eq!(self.journal(applied), expected);
    }

    /// What the remover does: it finds what has expired in a view, and the machine removes what is
    /// still there.
    fn expire(&mut self) {
        let selection = Selection {
            namespace: None,
            after: Sequence::ZERO,
            upto: self.published.sequence(),
            expired: Expired::Between(0, self.machine.view().times().now_s()),
        };
        let listed = self.published.list(selection, usize::MAX / 2);
        let names = (0..3).map(|number| Namespace::new(format!("namespace {number}")).unwrap());
        for namespace in names.map(Some).chain([None]) {
            let key = self.machine.namespace_key(namespace.as_ref()).map(|namespace| namespace.key);
            let number = key.map_or(Some(NamespaceNumber::DEFAULT), |key| {
                self.published.namespaces().get(key).map(|entry| entry.number)
            });
            let of = |listed: &&Listed| Some(listed.posting.namespace) == number;
            let documents: Vec<_> =
                listed.iter().filter(of).map(|l| (l.posting.sequence, l.masked)).collect();
            let sequences: Vec<_> = documents.iter().map(|(sequence, _)| *sequence).collect();
            let expected = self.model.expire(namespace.as_ref(), &sequences);
            let reason = Reason::Expiry;
            let applied =
                self.machine.remove_many(RemoveMany { namespace: key, documents, reason });
            assert_eq!(applied.change, expected);
            self.journal(applied);
        }
    }

    /// Searches the readers' view, and the newest one if that search is too old: what the engine
    /// does.
    fn check_and_insert(&mut self, document: &Document, criteria: Criteria, how: (bool, bool)) {
        let hits = self.model.hits(document, criteria);
        let known = hits.iter().map(|hit| self.counts(hit.3, document, criteria));
        let expected_counts: Vec<DocumentCounts> = known.collect();
        let previous = self.model.previous(document);
        let verdict = self.model.check_and_insert(document, criteria, how);
        // The newest view at its own time: what every older search must come to.
        let published_ms = std::mem::replace(&mut self.published_ms, self.now_ms);
        let newest = self.search(self.machine.view(), document, criteria);
        self.published_ms = published_ms;
        let mut search = self.search(&self.published, document, criteria);
        let probe = Probe::new(document, criteria, self.machine.now_ms(), &SECRET);
        if let Err(Stale) = search.update(self.machine.view(), &probe) {
            search = newest.clone();
        }
        let short = document.short;
        assert_eq!(
            search.shown(short).iter().map(|found| shown(found, short)).collect::<Vec<_>>(),
            newest.shown(short).iter().map(|found| shown(found, short)).collect::<Vec<_>>(),
        );
        let (document, (store_duplicates, renews)) = (document.clone(), how);
        let command = CheckAndInsert { document, criteria, store_duplicates, renews };
        let applied = self.machine.check_and_insert(command, &search);
        assert_eq!(self.journal(applied), DecidedWrite { verdict, previous });
        let found: Vec<_> = search.shown(short).iter().map(|found| shown(found, short)).collect();
        let counts: Vec<_> = search.shown(short).iter().map(|found| found.counts).collect();
        if criteria.all_hits {
            assert_eq!((found, counts), (hits.clone(), expected_counts));
            assert_eq!(search.hit_count(), hits.len());
        } else {
            let is_duplicate = hits.first().is_some_and(|(Reverse(counts), ..)| *counts);
            assert_eq!(found.len(), usize::from(is_duplicate));
            let is_hit = |found: &ModelMatch| hits.contains(found) && found.0 == Reverse(true);
            assert!(found.iter().all(is_hit), "{found:?} of {hits:?}");
            let at = |found: &ModelMatch| hits.iter().position(|hit| hit == found);
            let expected = found.iter().filter_map(|found| expected_counts.get(at(found)?));
            assert!(counts.iter().eq(expected));
        }
    }

    /// How many visible documents a fingerprint has.
    fn counts(
        &self,
        fingerprint: Fingerprint,
        probe: &Document,
        criteria: Criteria,
    ) -> DocumentCounts {
        let stored = || {
            let documents = self.model.documents().iter();
            documents.filter(|(sequence, document)| {
                let is_it = document.fingerprint == fingerprint;
                is_it && self.model.is_seen(*sequence, document, probe, criteria)
            })
        };
        let stored = || stored().map(|(_, document)| document);
        let counts = DocumentCounts {
            documents: stored().count() as u64,
            listed: stored().filter(|d| d.id.is_some() || d.metadata.is_some()).count() as u64,
            is_at_least: false,
        };
        assert!(counts.documents <= COUNTED_MAX, "the number is exact");
        counts
    }
}

fn shown(found: &Match, short: bool) -> ModelMatch {
    let counts = found.verification.counts(found.distance, short);
    (Reverse(counts), found.distance, found.oldest, found.fingerprint)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn verdicts_are_those_of_the_model_whatever_the_age_of_the_search(
        steps in prop::collection::vec(steps(), 0..60),
        distance_max in prop::sample::select(vec![3, 6]),
    ) {
        let mut rig = Rig::with_distance_max(distance_max);
        for step in &steps {
            rig.take(step);
        }
        // The recorded changes alone lead to the same state.
        let mut again = Rig::with_distance_max(distance_max);
        for record in &rig.records {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            again.machine.replay(&Record::decode(&bytes).unwrap());
            again.model.set_time(record.at_ms);
            again.model.enact(&record.change);
        }
        prop_assert_eq!(again.machine.view().counts(), rig.machine.view().counts());
        let times = |rig: &Rig| rig.machine.view().times().iter().collect::<Vec<_>>();
        prop_assert_eq!(times(&again), times(&rig));
        prop_assert_eq!(again.model.documents(), rig.model.documents());
        for (sequence, document) in rig.model.documents() {
            let namespace = document.namespace.as_ref();
            for rig in [&rig, &again] {
                let masked = rig.visibility(namespace).masked(document.fingerprint);
                let stored = rig.machine.view().documents_at(&[(*sequence, masked)]);
                prop_assert_eq!(stored.len(), 1);
                if let Some(id) = &document.id {
                    let key = rig.machine.key(namespace, id);
                    let located = rig.machine.view().find_id(key).unwrap();
                    prop_assert_eq!(located.posting.sequence, *sequence);
                }
            }
        }
        // Namespaces and listings know exactly what is there.
        let view = rig.machine.view();
        for number in 0..3 {
            let namespace = Namespace::new(format!("namespace {number}")).unwrap();
            let stored = rig.model.documents().iter();
            let count = stored.filter(|(_, d)| d.namespace.as_ref() == Some(&namespace)).count();
            let key = NamespaceKey::of(&namespace, &SECRET).key;
            let entry = view.namespaces().get(key);
            prop_assert_eq!(entry.map_or(0, |entry| entry.documents), count as u64);
        }
        let upto = view.sequence();
        let all = Selection { namespace: None, after: Sequence::ZERO, upto, expired: Expired::Any };
        for at_most in [1, 3, 1_000] {
            let (mut selection, mut listed) = (all, Vec::new());
            loop {
                let page = view.list(selection, at_most);
                let Some(last) = page.last() else { break };
                selection.after = last.posting.sequence;
                listed.extend(page.iter().map(|listed| listed.posting.sequence));
            }
            let stored: Vec<_> = rig.model.documents().iter().map(|(s, _)| *s).collect();
            prop_assert_eq!(listed, stored);
        }
    }
}

/// A sketch of nothing but this code: unlike every sketch of another one.
fn plain_sketch(code: u8) -> Sketch {
    Sketch::from_codes(&[code; BINS])
}

#[test]
fn a_likely_search_compares_each_text_of_a_fingerprint_if_numbers_are_demanded() {
    let form = |bits: u64, numbers: u64| Document {
        sketch: Some(Box::new(plain_sketch(1).with_numbers(Numbers::from_bits(numbers)))),
        ..Document::bare(Fingerprint::new(bits))
    };
    let criteria = Criteria {
        threshold: Threshold::of_similarity(0.5).map(|least| least.with_numbers(0.9)),
        search: SearchKind::Likely,
        ..Criteria::within(Distance::ZERO)
    };
    let mut rig = Rig::new();
    // The same words with other numbers; only the second form agrees with the third in them.
    rig.take(&Step::Insert(form(0, 0x11).into()));
    rig.take(&Step::Insert(form(0, 0x12).into()));
    let third = form(0b11, 0x12);
    let found = rig.search(rig.machine.view(), &third, criteria);
    assert!(found.is_duplicate(third.short));
    rig.take(&Step::CheckAndInsert(third, criteria, (false, false)));
}

/// A crowd of more matches than are kept, and more sketches than are compared.
struct Crowd {
    rig: Rig,
    near: Vec<u64>,
}

impl Crowd {
    /// All fingerprints within two bits of zero but itself; some have an unlike sketch.
    fn new(has_sketch: impl Fn(usize) -> bool) -> Self {
        let mut rig = Rig::new();
        let pairs =
            (0..64_u32).flat_map(|one| (0..one).map(move |other| 1_u64 << one | 1 << other));
        let near: Vec<u64> = pairs.chain((0..64).map(|bit| 1 << bit)).collect();
        for (number, bits) in near.iter().enumerate() {
            let sketch = has_sketch(number).then(|| Box::new(plain_sketch(2)));
            let document = Document { sketch, ..Document::bare(Fingerprint::new(*bits)) };
            rig.take(&Step::Insert(document.into()));
        }
        assert!(near.len() > MATCHES_KEPT_MAX + 500);
        Self { rig, near }
    }

    fn search(&self, all_hits: bool) -> Search {
        let sketch = Some(Box::new(plain_sketch(1)));
        let probe = Document { sketch, ..Document::bare(Fingerprint::new(0)) };
        let criteria = Criteria {
            threshold: Threshold::of_similarity(0.83),
            all_hits,
            ..Criteria::within(Distance::new(3).unwrap())
        };
        self.rig.search(self.rig.machine.view(), &probe, criteria)
    }
}

#[test]
fn a_search_of_a_crowd_keeps_the_likeliest_hits_and_counts_all() {
    let crowd = Crowd::new(|number| number % 3 != 0);
    let search = crowd.search(true);
    assert_eq!((search.count, search.matches.len()), (crowd.near.len(), MATCHES_KEPT_MAX));
    // Those without a sketch count, the nearest first.
    let shown: Vec<_> = search.matches.iter().map(|found| found.fingerprint.bits()).collect();
    let bare = shown.iter().take_while(|bits| {
        crowd.near.iter().position(|near| near == *bits).unwrap().is_multiple_of(3)
    });
    let bare: Vec<u64> = bare.copied().collect();
    assert_eq!(bare.len(), crowd.near.len().div_ceil(3), "all of them");
    assert!(bare.is_sorted_by_key(|bits| bits.count_ones()));
    assert_eq!(search.unverified, crowd.near.len() - bare.len() - SKETCHES_COMPARED_MAX);
}

#[test]
fn a_search_of_a_huge_crowd_visits_the_nearest_and_says_that_it_left_some() {
    let triples = (2..64_u32).flat_map(|a| (1..a).map(move |b| 1_u64 << a | 1 << b | 1));
    let mut crowd = Crowd::new(|_| true);
    for bits in triples.chain((2..64).flat_map(|a| (2..a).map(move |b| 1 << a | 1 << b | 2))) {
        let document = Document {
            sketch: (bits != 0b111).then(|| Box::new(plain_sketch(2))),
            ..Document::bare(Fingerprint::new(bits))
        };
        crowd.rig.take(&Step::Insert(document.into()));
        crowd.near.push(bits);
    }
    let count = crowd.near.len();
    assert!(count > MATCHES_VISITED_MAX + 1_000, "{count}");
    for all_hits in [true, false] {
        let search = crowd.search(all_hits);
        assert_eq!((search.count, search.matches.len()), (count, MATCHES_KEPT_MAX));
        // The one without a sketch has the first fingerprint of those at its distance.
        assert!(search.is_duplicate(false));
        assert_eq!(search.matches[0].fingerprint, Fingerprint::new(0b111));
        if all_hits {
            assert_eq!(search.unverified, count - 1 - SKETCHES_COMPARED_MAX);
        }
    }
}

#[test]
fn what_a_limit_leaves_unread_is_no_duplicate() {
    for all_hits in [true, false] {
        let crowd = Crowd::new(|_| true);
        let search = crowd.search(all_hits);
        assert!(!search.is_duplicate(false));
        assert_eq!(search.unverified, crowd.near.len() - SKETCHES_COMPARED_MAX);
    }
}

#[test]
fn an_identical_text_is_found_among_any_number_of_others_under_its_fingerprint() {
    let mut rig = Rig::new();
    let text = |number: u32| {
        let codes = std::array::from_fn(|bin| {
            ((bin as u32).wrapping_mul(number.wrapping_mul(0x9e37_79b9) | 1) >> 16) as u8 % 3 + 1
        });
        let sketch = Some(Box::new(Sketch::from_codes(&codes)));
        Document { sketch, ..Document::bare(Fingerprint::new(7)) }
    };
    for number in 0..1_000 {
        rig.take(&Step::Insert(text(number).into()));
    }
    let criteria = Criteria {
        threshold: Threshold::of_similarity(0.99),
        all_hits: false,
        ..Criteria::within(Distance::new(3).unwrap())
    };
    for number in [0, 16, 17, 500, 999] {
        let search = rig.search(rig.machine.view(), &text(number), criteria);
        assert!(search.is_duplicate(false), "{number}");
        assert_eq!(search.unverified, 0);
    }
    let search = rig.search(rig.machine.view(), &text(1_000), criteria);
    assert!(!search.is_duplicate(false));
}

/// As long pages that differ in a counter do.
#[test]
fn an_identical_text_is_found_among_any_number_with_its_fingerprint_and_its_sampled_bins() {
    const SIBLINGS: usize = 2 * SKETCHES_COMPARED_MAX;
    let mut rig = Rig::new();
    let text = |number: usize| {
        let mut codes = [1; BINS];
        // Bins that are not sampled, two for each text.
        for half in [number % 31 + 1, number / 31 % 31 + 33] {
            codes[half] = 2;
        }
        let sketch = Some(Box::new(Sketch::from_codes(&codes)));
        Document { sketch, ..Document::bare(Fingerprint::new(7)) }
    };
    for number in 0..SIBLINGS {
        rig.take(&Step::Insert(text(number).into()));
    }
    for (number, similarity, all_hits) in
        (0..SIBLINGS).flat_map(|number| [(number, 1.0, false), (number, 0.9999, true)])
    {
        let criteria = Criteria {
            threshold: Threshold::of_similarity(similarity),
            all_hits,
            ..Criteria::within(Distance::new(3).unwrap())
        };
        let search = rig.search(rig.machine.view(), &text(number), criteria);
        assert!(search.is_duplicate(false), "{number} at {similarity}");
        assert_eq!(search.unverified, 0);
    }
}

#[test]
fn an_identical_text_is_shown_first_in_a_crowd_of_bare_fingerprints() {
    let mut crowd = Crowd::new(|_| false);
    let sketch = Some(Box::new(plain_sketch(1)));
    let text = Document { sketch, ..Document::bare(Fingerprint::new(0)) };
    crowd.rig.take(&Step::Insert(text.into()));
    let search = crowd.search(true);
    assert!(search.matches[0].verification.is_confirmed());
    assert_eq!((search.matches[0].distance, search.unverified), (Distance::ZERO, 0));
}

/// A text of one shingle, at a distance of `bits` ones; all of them share a label.
fn short_text(bits: u64, bin: usize) -> Document {
    let mut codes = [0; BINS];
    codes[bin] = 1;
    let sketch = Some(Box::new(Sketch::from_codes(&codes)));
    Document { sketch, ..Document::bare(Fingerprint::new(bits)) }
}

/// A likely search for a text without differences.
fn search_of_label(rig: &Rig, bin: usize) -> Search {
    let criteria = Criteria {
        threshold: Threshold::of_similarity(0.83),
        search: SearchKind::Likely,
        all_hits: false,
        ..Criteria::within(Distance::new(3).unwrap())
    };
    rig.search(rig.machine.view(), &short_text(0, bin), criteria)
}

#[test]
fn what_cannot_count_takes_no_place_in_a_likely_search() {
    let mut rig = Rig::new();
    // Copies, bare fingerprints, and what has expired, all nearer than the text that counts.
    for number in 0..5 * ROWS_MAX as u64 {
        let bits = 0xff << 40 | number << 20;
        let expiry = Expiry::at(BEGIN_S + 1);
        rig.take(&Step::Insert(short_text(0xff << 40, 1).into()));
        rig.take(&Step::Insert(Document::bare(Fingerprint::new(bits)).into()));
        rig.take(&Step::Insert(Document { expiry, ..short_text(bits, 1) }.into()));
    }
    rig.take(&Step::Insert(short_text(0xff << 40 | 0b111, 7).into()));
    rig.take(&Step::Wait(2_000));
    rig.take(&Step::Publish);
    let search = search_of_label(&rig, 7);
    assert!(search.is_duplicate(false));
    assert_eq!(search.unverified, 0);
}

#[test]
fn a_likely_search_that_met_a_bound_says_so() {
    let crowd = |others: u64, bits: u64| {
        let mut rig = Rig::new();
        for number in 0..others {
            rig.take(&Step::Insert(short_text(0xff << 40 | number << 20, 1).into()));
        }
        rig.take(&Step::Insert(short_text(bits, 7).into()));
        rig.take(&Step::Publish);
        let search = search_of_label(&rig, 7);
        (search.is_duplicate(false), search.unverified)
    };
    // The lowest bits decide which of equal labels is nearer.
    let far = 0xff << 40 | 0b111;
    assert_eq!(crowd(ROWS_MAX as u64 - 1, far), (true, 0));
    assert_eq!(crowd(ROWS_MAX as u64 + 1, far), (false, 1));
}

//! The index against the oracle: every plan, every distance, any mixture of changes and levels.

mod files;
mod hot;
mod naive;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use naive::Naive;
use nearprint_fingerprint::{BINS, Distance, Fingerprint, LABELS, Label, MinResemblance, Sketch};
use proptest::prelude::*;

use crate::compaction::built::Built;
use crate::compaction::merge;
use crate::compaction::policy::Load;
use crate::compaction::work::Steps;
use crate::document::Sequence;
use crate::id_key::IdKey;
use crate::image;
use crate::labels;
use crate::levels::segment::Segment;
use crate::lookup::{COLLECTED_MAX, NEAR_MAX};
use crate::memory::file::tests::FilesInMemory;
use crate::memory::placed::Placement;
use crate::namespace_key::NamespaceKey;
use crate::permutation::Permutation;
use crate::plan::{Plan, Plans};
use crate::tables::secondary::SecondaryTable;
use crate::tables::table::Table;
use crate::view::{Near, Put, Shape, SimilarTo, View};
use crate::visibility::Visibility;

fn distance(bits: u8) -> Distance {
    Distance::new(bits).unwrap()
}

/// Small segments have at most 12 fingerprints, so that a few changes make both kinds.
fn empty(distance_max: u8, delta_events: usize) -> View {
    with_small_max(12, distance_max, delta_events)
}

fn with_small_max(small_max: u64, distance_max: u8, delta_events: usize) -> View {
    View::new(Shape {
        distance_max: distance(distance_max),
        delta_events,
        small_max,
        permutation: Arc::new(Permutation::from_secret(0x5eed)),
        has_labels: true,
    })
}

/// Turns full deltas into levels.
fn settle_deltas(view: &mut View) {
    while let Some(work) = view.next_flush() {
        view.complete(work);
    }
}

/// A merge that is under way.
struct Merging {
    steps: Steps,
    /// Segments that no other merge may take.
    apart: Vec<Arc<Segment>>,
}

/// Runs the next step of a merge while deltas become segments and the newest segments are merged
/// among themselves. Begins a merge if none is running.
fn merge_beside_the_newest(view: &mut View, merging: &mut Option<Merging>) {
    if merging.is_none() {
        let Some(work) = view.next_merge(Load::Writing) else { return };
        *merging = Some(Merging { apart: work.segments().to_vec(), steps: work.steps() });
    }
    let Some(Merging { steps, apart }) = merging else { return };
    settle_deltas(view);
    while let Some(newest) = view.next_merge_of_newest(Some(apart), Load::Writing) {
        view.complete(newest);
    }
    let Some(built) = steps.next() else {
        *merging = None;
        return;
    };
    let before = view.segments().len();
    view.install(&built);
    // Were one of its inputs gone, its result would be thrown away.
    assert_eq!(view.segments().len(), before - apart.len() + built.segments().len());
    *apart = built.segments().to_vec();
}

/// Merges everything into one segment and one table of each role, and writes these to bytes and
/// reads them back.
fn settle(view: &mut View) {
    view.rotate();
    settle_deltas(view);
    while let Some(work) = view.next_merge_towards_one() {
        view.complete(work);
    }
    if view.segments().is_empty() {
        return;
    }
    let from = view.segments().to_vec();
    if from[0].tombstones() > 0 {
        let into_large = !from[0].sorted().is_small();
        let merge::Merged { segment: merged, secondary_tables, dropped } =
            merge::merge(view.plans(), &from, into_large, true);
        view.install(&Built::Segments { from, into: vec![merged], secondary_tables, dropped });
        // What was dropped leaves the other tables too.
        while let Some(work) = view.next_merge(Load::Writing) {
            view.complete(work);
        }
    }
    let (segments, secondary_tables) = (view.segments().to_vec(), view.secondary_tables().to_vec());
    let dropped = 0;
    let merged = Arc::new(read(&written(&segments[0]), view.plans()).unwrap());
    let into = vec![merged];
    view.install(&Built::Segments { from: segments, into, secondary_tables: Vec::new(), dropped });
    for SecondaryTable { table, cleaned_at } in secondary_tables {
        let merged = reread(&table, view.plans());
        let (from, into) =
            (SecondaryTable { table, cleaned_at }, SecondaryTable { table: merged, cleaned_at });
        view.install(&Built::Tables { from: vec![from], into: vec![into] });
    }
}

/// Keeps what a snapshot stores: segments without the count that each adds, and the total of
/// fingerprints. Large segments and their tables stay in files from then on.
fn restart(view: &mut View) {
    restart_in(&FilesInMemory::default(), view);
}

fn restart_in(files: &FilesInMemory, view: &mut View) {
    view.rotate();
    settle_deltas(view);
    let mut parts = view.parts_of(view);
    for segment in &mut parts.segments {
        let file = files.file_of(written(segment));
        *segment = Arc::new(image::open_segment(file, view.plans(), 1).unwrap());
    }
    for other in &mut parts.secondary_tables {
        let file = files.file_of(written_table(&other.table));
        other.table = Arc::new(image::open_table(file, &view.plans().large, 1).unwrap());
    }
    let placement = Placement::Files(Arc::new(files.clone()));
    *view = View::restored(view.shape().clone(), parts).with_placement(placement, 0);
}

fn reread(table: &Table, plans: &Plans) -> Arc<Table> {
    Arc::new(image::read_table(&mut &written_table(table)[..], &plans.large).unwrap())
}

fn written_table(table: &Table) -> Vec<u8> {
    let mut bytes = Vec::new();
    image::write_table(table, &mut bytes).unwrap();
    bytes
}

fn written(segment: &Segment) -> Vec<u8> {
    let mut bytes = Vec::new();
    image::write_segment(segment, &mut bytes).unwrap();
    bytes
}

fn read(bytes: &[u8], plans: &Plans) -> std::io::Result<Segment> {
    image::read_segment(&mut &bytes[..], plans)
}

/// What a view answers, in the oracle's form.
fn near(view: &View, query: Fingerprint, within: Distance) -> BTreeMap<Fingerprint, Vec<Sequence>> {
    let visibility = Visibility::DEFAULT;
    let hits = view.near(query, within, &visibility);
    let found: BTreeMap<_, _> = hits
        .iter()
        .map(|hit| {
            assert_eq!(hit.distance, query.distance(hit.fingerprint));
            let documents: Vec<_> = view.documents_of(hit.fingerprint, visibility).collect();
            let counts = view.document_counts(hit.fingerprint, &visibility);
            assert_eq!(documents.len() as u64, counts.documents);
            let listed = documents.iter().filter(|posting| posting.is_listed).count() as u64;
            assert_eq!(listed, counts.listed);
            (hit.fingerprint, documents.iter().map(|posting| posting.sequence).collect())
        })
        .collect();
    assert_eq!(found.len(), hits.len(), "each hit once");
    let nearest = view.nearest(&[query], within, visibility).next().unwrap();
    assert_eq!(nearest, hits.iter().map(|hit| hit.distance).min());
    found
}

/// The labels of the text of a fingerprint: texts share them at random.
fn labels_of(fingerprint: Fingerprint) -> [Label; LABELS] {
    let bits = fingerprint.bits();
    [3, 5, 7, 11].map(|few| Label::from_bits(((bits % few) << 8) | (bits % 13)))
}

/// What is similar to the text of a fingerprint, and whether a bound left any out, here and by the
/// oracle.
fn similar(view: &View, naive: &Naive, query: Fingerprint) -> [(BTreeSet<Fingerprint>, bool); 2] {
    let (labels, visibility) = (labels_of(query), Visibility::DEFAULT);
    // A sketch of nothing, whose sample refutes none.
    let sketch = Sketch::from_codes(&[0; BINS]).with_labels(labels);
    let threshold = MinResemblance::of_similarity(0.83).unwrap();
    // Nothing is as near as this but the fingerprint itself.
    let beyond = Distance::default();
    let text = SimilarTo { fingerprint: query, sketch: &sketch, threshold, beyond };
    let (found, is_cut) = view.similar(text, &visibility, &mut |_| true);
    assert!(found.is_sorted_by_key(|near| near.distance));
    assert!(found.iter().all(|near| near.distance == query.distance(near.fingerprint)));
    let all: BTreeSet<_> = found.iter().map(|near| near.fingerprint).collect();
    assert_eq!(all.len(), found.len(), "each once");
    let texts: Vec<_> = naive
        .documents()
        .filter(|(sequence, fingerprint)| sketch_of(*sequence, *fingerprint).is_some())
        .map(|(_, fingerprint)| ((fingerprint, labels_of(fingerprint)), fingerprint != query))
        .collect();
    let order = |fingerprint| view.shape().permutation.apply(fingerprint);
    [(all, is_cut), labels::naive::similar(&(query, labels), &texts, order)]
}

/// The sketch of the document that [`take`] stores with a change. Some segments have none.
fn sketch_of(sequence: Sequence, fingerprint: Fingerprint) -> Option<Sketch> {
    let number = sequence.get();
    let codes = std::array::from_fn(|bin| (bin as u64 * number % 7 % 4) as u8);
    let sketch = || Sketch::from_codes(&codes).with_labels(labels_of(fingerprint));
    (number % 32 > 16 && !number.is_multiple_of(3)).then(sketch)
}

/// Whether each document near a query has the sample of the sketch with which it was stored.
fn samples_are_kept(view: &View, query: Fingerprint, within: Distance) -> bool {
    let near = view.near(query, within, &Visibility::DEFAULT);
    near.iter().all(|near| {
        view.documents_of(near.fingerprint, Visibility::DEFAULT).all(|posting| {
            let sketch = sketch_of(posting.sequence, near.fingerprint);
            posting.sample == sketch.as_ref().map(Sketch::sample)
                && (sketch.is_none() || view.may_have_sketches())
        })
    })
}

/// All matches in the default namespace.
fn near_all(view: &View, query: Fingerprint, within: u8) -> Vec<Near> {
    view.near(query, distance(within), &Visibility::DEFAULT)
}

#[derive(Debug, Clone)]
enum Step {
    Put(u64, Option<u8>),
    Remove(u8),
    Reset(u64),
    Rotate,
    SettleDeltas,
    Merge,
    SettleAll,
    Restart,
}

/// Few distinct fingerprints close to each other, so that hits, groups and removals meet.
fn fingerprints() -> impl Strategy<Value = u64> {
    let base = prop_oneof![Just(0), Just(u64::MAX), Just(0x0123_4567_89ab_cdef)];
    let bit = prop_oneof![2 => 0..12_u32, 3 => 0..64_u32];
    // One in four is so far from the others that only the larger distances reach it.
    let near_and_far = prop_oneof![3 => 0..5_usize, 1 => 5..14_usize];
    let flips = near_and_far.prop_flat_map(move |count| prop::collection::vec(bit.clone(), count));
    (base, flips).prop_map(|(base, flips)| flips.iter().fold(base, |value, bit| value ^ 1 << bit))
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (fingerprints(), prop::option::of(0..12_u8)).prop_map(|(f, id)| Step::Put(f, id)),
        3 => (0..12_u8).prop_map(Step::Remove),
        2 => fingerprints().prop_map(Step::Reset),
        1 => Just(Step::Rotate),
        2 => Just(Step::SettleDeltas),
        4 => Just(Step::Merge),
        1 => Just(Step::SettleAll),
        1 => Just(Step::Restart),
    ]
}

fn key(id: u8) -> IdKey {
    IdKey { high: u64::from(id) << 56, low: u32::from(id) }
}

/// Does the same to the view and to the oracle, as the machine would, with no merge under way after
/// it.
fn take(view: &mut View, naive: &mut Naive, step: &Step) {
    let mut merging = None;
    take_beside(&mut merging, view, naive, step);
    while merging.is_some() {
        merge_beside_the_newest(view, &mut merging);
    }
}

/// Does the same to the view and to the oracle while a merge may be running.
fn take_beside(merging: &mut Option<Merging>, view: &mut View, naive: &mut Naive, step: &Step) {
    match *step {
        Step::Put(bits, id) => {
            let (fingerprint, id) = (Fingerprint::new(bits), id.map(key));
            if let Some(located) = id.and_then(|id| view.find_id(id)) {
                view.remove(located, None);
            }
            let is_listed = id.is_some();
            let sketch = sketch_of(view.sequence().next(), fingerprint).map(Box::new);
            view.put(fingerprint, Put { id, sketch, is_listed, ..Put::default() });
            naive.put(fingerprint, id);
        }
        Step::Remove(id) => {
            if let Some(located) = view.find_id(key(id)) {
                view.remove(located, None);
            }
            view.advance();
            naive.remove(key(id));
        }
        Step::Reset(bits) => {
            view.reset(Fingerprint::new(bits), None);
            view.advance();
            naive.reset(Fingerprint::new(bits));
        }
        Step::Rotate => view.rotate(),
        Step::SettleDeltas => settle_deltas(view),
        Step::Merge => merge_beside_the_newest(view, merging),
        // Other merges finish an interrupted one.
        Step::SettleAll => {
            *merging = None;
            settle(view);
        }
        Step::Restart => {
            *merging = None;
            restart(view);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_changes_in_any_levels_answer_as_the_oracle(
        steps in prop::collection::vec(steps(), 0..120),
        queries in prop::collection::vec(fingerprints(), 1..6),
        distance_max in 0..=12_u8,
        delta_events in 2..20_usize,
        small_max in prop::sample::select(vec![0, 5, 12, 1_000]),
    ) {
        let view = with_small_max(small_max, distance_max, delta_events);
        let (mut view, mut naive, mut merging) = (view, Naive::default(), None);
        let mut earlier = Vec::new();
        for (i, step) in steps.iter().enumerate() {
            take_beside(&mut merging, &mut view, &mut naive, step);
            if i % 16 == 0 || merging.is_some() {
                earlier.push((view.clone(), naive.clone()));
            }
        }
        earlier.push((view, naive));
        // Published views must not change when the writer goes on, so all are asked at the end.
        for (i, (view, naive)) in earlier.into_iter().enumerate() {
            prop_assert_eq!(view.counts().documents, naive.len() as u64);
            for &query in &queries {
                // Every other distance, to save time.
                for asked in (i as u8 % 2..=distance_max).step_by(2) {
                    let (query, asked) = (Fingerprint::new(query), distance(asked));
                    prop_assert_eq!(near(&view, query, asked), naive.near(query, asked));
                    prop_assert!(samples_are_kept(&view, query, asked));
                }
                let [found, expected] = similar(&view, &naive, Fingerprint::new(query));
                prop_assert_eq!(found, expected);
            }
            for id in 0..12 {
                let found = view.find_id(key(id)).map(|l| (l.posting.sequence, l.masked));
                prop_assert_eq!(found, naive.find_id(key(id)));
            }
        }
    }

    #[test]
    fn what_changed_since_is_all_that_changed(
        before in prop::collection::vec(steps(), 0..30),
        after in prop::collection::vec(steps(), 0..30),
        query in fingerprints(),
    ) {
        let (mut view, mut naive) = (with_small_max(0, 3, 6), Naive::default());
        for step in &before {
            take(&mut view, &mut naive, step);
        }
        let (since, old) = (view.sequence(), naive.near(Fingerprint::new(query), distance(3)));
        for step in &after {
            take(&mut view, &mut naive, step);
        }
        let new = naive.near(Fingerprint::new(query), distance(3));
        // None is the honest answer where a delta since then has become a segment.
        let query = Fingerprint::new(query);
        let changed = view.near_changed_since(since, query, distance(3), &Visibility::DEFAULT);
        if let Some(changed) = changed {
            let changed: Vec<_> = changed.iter().map(|near| near.fingerprint).collect();
            for (fingerprint, documents) in old.iter().chain(&new) {
                if old.get(fingerprint) != new.get(fingerprint) {
                    prop_assert!(changed.contains(fingerprint), "{fingerprint} {documents:?}");
                }
            }
        }
    }

    #[test]
    fn a_fork_goes_its_own_way(
        before in prop::collection::vec(steps(), 0..30),
        lost in prop::collection::vec(steps(), 0..20),
        after in prop::collection::vec(steps(), 0..20),
        queries in prop::collection::vec(fingerprints(), 1..6),
    ) {
        let (mut view, mut naive) = (with_small_max(0, 3, 6), Naive::default());
        for step in &before {
            take(&mut view, &mut naive, step);
        }
        let (mut ahead, mut naive_ahead) = (view.clone(), naive.clone());
        for step in &lost {
            take(&mut ahead, &mut naive_ahead, step);
        }
        let (mut fork, mut naive_fork) = (view.fork(), naive.clone());
        for step in &after {
            take(&mut fork, &mut naive_fork, step);
        }
        for (view, naive) in [(view, naive), (ahead, naive_ahead), (fork, naive_fork)] {
            for query in queries.iter().copied().map(Fingerprint::new) {
                prop_assert_eq!(near(&view, query, distance(3)), naive.near(query, distance(3)));
                let [found, expected] = similar(&view, &naive, query);
                prop_assert_eq!(found, expected);
            }
            for id in 0..12 {
                let found = view.find_id(key(id)).map(|l| (l.posting.sequence, l.masked));
                prop_assert_eq!(found, naive.find_id(key(id)));
            }
        }
    }

    #[test]
    fn a_view_filled_at_once_says_what_puts_say(
        values in prop::collection::vec(fingerprints(), 0..200),
        queries in prop::collection::vec(fingerprints(), 1..6),
        distance_max in 0..=12_u8,
    ) {
        let mut put = empty(distance_max, 64);
        for &bits in &values {
            put.put(Fingerprint::new(bits), Put::default());
        }
        let stored = values.iter().copied().map(Fingerprint::new);
        let filled = View::filled(put.shape().clone(), values.len() as u64, stored);
        prop_assert_eq!(filled.counts(), put.counts());
        for query in queries.into_iter().map(Fingerprint::new) {
            let within = distance(distance_max);
            prop_assert_eq!(near(&filled, query, within), near(&put, query, within));
        }
    }
}

/// Thousands of texts with the same labels, in deltas, small segments and large ones: far more than
/// a look-up compares.
#[test]
fn a_crowd_of_one_label_is_cut_as_the_oracle_says() {
    let labels = [77 << 8; LABELS].map(Label::from_bits);
    let sketch = Sketch::from_codes(&[0; BINS]).with_labels(labels);
    let (mut view, mut texts) = (with_small_max(700, 3, 300), Vec::new());
    for number in 0..3_000_u64 {
        let bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let fingerprint = Fingerprint::new(bits);
        // Half of them are copies.
        for _ in 0..=number % 2 {
            let sketch = Some(Box::new(sketch.clone()));
            view.put(fingerprint, Put { sketch, ..Put::default() });
        }
        texts.push(fingerprint);
        if number % 1_000 == 777 {
            settle_deltas(&mut view);
            while let Some(work) = view.next_merge(Load::Writing) {
                view.complete(work);
            }
        }
    }
    assert!(view.segments().len() > 1 && view.deltas().any(|delta| delta.length() > 0));
    let order = |fingerprint| view.shape().permutation.apply(fingerprint);
    let threshold = MinResemblance::of_similarity(0.83).unwrap();
    for query in (0..40).map(|number| Fingerprint::new(number * 0x0123_4567_89ab)) {
        let beyond = Distance::default();
        let text = SimilarTo { fingerprint: query, sketch: &sketch, threshold, beyond };
        let (found, is_cut) = view.similar(text, &Visibility::DEFAULT, &mut |_| true);
        let found: BTreeSet<_> = found.into_iter().map(|near| near.fingerprint).collect();
        let texts = texts.iter().map(|&text| ((text, labels), text.distance(query) > beyond));
        let expected = labels::naive::similar(&(query, labels), &texts.collect::<Vec<_>>(), order);
        assert_eq!((found, is_cut), expected);
        assert!(is_cut);
    }
}

#[test]
fn a_look_up_that_leaves_rows_of_a_delta_unseen_says_so() {
    // Twice the rows that are passed over, and all documents are gone.
    const COUNT: u64 = 2 * 16 * 256;
    let sketch =
        Sketch::from_codes(&[0; BINS]).with_labels([77 << 8; LABELS].map(Label::from_bits));
    let mut view = with_small_max(700, 3, 1 << 15);
    let fingerprint = |number: u64| Fingerprint::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for number in 0..COUNT {
        let sketch = Some(Box::new(sketch.clone()));
        view.put(fingerprint(number), Put { sketch, ..Put::default() });
    }
    for number in 0..COUNT {
        view.reset(fingerprint(number), None);
        view.advance();
    }
    assert_eq!(view.deltas().count(), 1);
    let threshold = MinResemblance::of_similarity(0.83).unwrap();
    let (fingerprint, beyond) = (Fingerprint::new(0x0123_4567_89ab), Distance::default());
    let text = SimilarTo { fingerprint, sketch: &sketch, threshold, beyond };
    let (found, is_cut) = view.similar(text, &Visibility::DEFAULT, &mut |_| true);
    assert!(found.is_empty() && is_cut);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// More texts with the same label than a look-up takes, in every kind of level.
    #[test]
    fn a_bound_keeps_the_same_texts_whatever_the_levels(
        values in prop::collection::vec(0..1_u64 << 12, 200..1_200),
        gone in prop::collection::vec(any::<prop::sample::Index>(), 0..100),
        query in 0..1_u64 << 12,
        delta_events in 20..400_usize,
        small_max in prop::sample::select(vec![0, 60, 10_000]),
        steps in prop::collection::vec(prop::sample::select(vec![
            Step::Rotate, Step::SettleDeltas, Step::Merge, Step::Restart,
        ]), 8),
    ) {
        let view = with_small_max(small_max, 3, delta_events);
        let (mut view, mut naive) = (view, Naive::default());
        // 15 of 105 combinations, so that a table has a label in common with a third or more.
        let bits = |value: u64| value / 15 * 1_155 + value % 15 * 77;
        for (at, &value) in values.iter().enumerate() {
            take(&mut view, &mut naive, &Step::Put(bits(value), None));
            if at % 150 == 149 {
                take(&mut view, &mut naive, &steps[at / 150]);
            }
        }
        for at in gone {
            take(&mut view, &mut naive, &Step::Reset(bits(values[at.index(values.len())])));
        }
        let [found, expected] = similar(&view, &naive, Fingerprint::new(bits(query)));
        prop_assert_eq!(found, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn damaged_images_are_refused_or_read_but_never_panic(
        steps in prop::collection::vec(steps(), 1..40),
        at in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
        small_max in prop::sample::select(vec![0, 12]),
    ) {
        let (mut view, mut naive) = (with_small_max(small_max, 3, 6), Naive::default());
        for step in &steps {
            take(&mut view, &mut naive, step);
        }
        settle(&mut view);
        if let Some(segment) = view.segments().first() {
            let mut bytes = written(segment);
            let at = at.index(bytes.len());
            prop_assert!(read(&bytes[..at], view.plans()).is_err(), "cut");
            bytes[at] ^= flip;
            if let Ok(segment) = read(&bytes, view.plans()) {
                // Every way through it stays inside.
                prop_assert!(segment.sorted().entries().count() >= segment.fingerprints());
                let value = view.shape().permutation.apply(Fingerprint::new(0));
                segment.postings_from(value, Sequence::ZERO).count();
            }
        }
    }
}

/// A replacement is two events of one change. Found by the property above.
#[test]
fn a_change_never_lies_in_two_deltas() {
    let (mut view, mut naive) = (empty(3, 4), Naive::default());
    for bits in [0, 1, 2] {
        take(&mut view, &mut naive, &Step::Put(bits, Some(bits as u8)));
    }
    let since = view.sequence();
    take(&mut view, &mut naive, &Step::Put(1 << 40, Some(0)));
    settle_deltas(&mut view);
    let query = Fingerprint::new(0);
    let changed = view.near_changed_since(since, query, distance(0), &Visibility::DEFAULT);
    assert!(changed.is_none_or(|changed| changed.len() == 1), "the removal is not forgotten");
}

/// All 41,664 + 2,016 + 64 + 1 neighbours of a stored fingerprint hit, and no neighbour beyond.
#[test]
fn every_neighbour_within_three_hits_and_none_at_four() {
    for settled in [false, true] {
        let mut view = empty(3, 64);
        let stored = Fingerprint::new(0x00ff_1234_8000_0001);
        view.put(Fingerprint::new(0), Put::default());
        view.put(stored, Put::default());
        view.put(Fingerprint::new(u64::MAX), Put::default());
        if settled {
            settle(&mut view);
        }
        let mut count = [0; 5];
        for (bits, count) in count.iter_mut().enumerate() {
            each_mask(bits, &mut |mask| {
                let near = near_all(&view, Fingerprint::new(stored.bits() ^ mask), 3);
                assert_eq!(near.len(), usize::from(bits <= 3), "{mask:x}");
                *count += 1;
            });
        }
        assert_eq!(count, [1, 64, 2_016, 41_664, 635_376]);
    }
}

fn each_mask(bits: usize, visit: &mut impl FnMut(u64)) {
    fn from(low: u32, bits: usize, mask: u64, visit: &mut impl FnMut(u64)) {
        if bits == 0 {
            return visit(mask);
        }
        for bit in low..64 {
            from(bit + 1, bits - 1, mask | 1 << bit, visit);
        }
    }
    from(0, bits, 0, visit);
}

/// A fingerprint that differs in exactly `flips` bits.
fn flipped(bits: u64, flips: u8, random: &mut impl FnMut() -> u64) -> Fingerprint {
    let mut mask = 0_u64;
    while mask.count_ones() < u32::from(flips) {
        mask |= 1 << (random() % 64);
    }
    Fingerprint::new(bits ^ mask)
}

/// Two namespaces with the same crowded fingerprints: each look-up sees those of its own, at every
/// distance.
#[test]
fn namespaces_answer_as_a_scan_at_every_distance() {
    let mut random = random_from(2);
    let spaces = [None, Some(NamespaceKey { key: key(1), mask: 0x5a5a_0ff0_1234_8765 })];
    let mut stored = [Vec::new(), Vec::new()];
    for small_max in [0, 10_000] {
        let mut view = with_small_max(small_max, 12, 64);
        for i in 0..2_000_u64 {
            let at = (random() % 2) as usize;
            let fingerprint = flipped(0, (i % 14) as u8, &mut random);
            view.put(fingerprint, Put { namespace: spaces[at], ..Put::default() });
            stored[at].push(fingerprint);
        }
        settle_deltas(&mut view);
        for (namespace, stored) in spaces.iter().zip(&stored) {
            let visibility = view.visibility(*namespace, 0, None);
            for asked in (0..=12).map(distance) {
                let query = flipped(0, 3, &mut random);
                let mut found: Vec<_> = view
                    .near(query, asked, &visibility)
                    .iter()
                    .map(|near| near.fingerprint)
                    .collect();
                let within = |other: &&Fingerprint| query.distance(**other) <= asked;
                let mut scanned: Vec<_> = stored.iter().filter(within).copied().collect();
                found.sort_unstable();
                scanned.sort_unstable();
                scanned.dedup();
                assert_eq!(found, scanned, "{asked} {small_max}");
            }
        }
        stored = [Vec::new(), Vec::new()];
    }
}

/// A collection of so little entropy that a look-up matches nearly all of it.
#[test]
fn a_look_up_gives_the_nearest_of_too_many_matches() {
    let stored: Vec<Fingerprint> = (0..1 << 17).map(|i: u64| Fingerprint::new(i << 20)).collect();
    for small_max in [0, 1 << 20] {
        let shape = with_small_max(small_max, 12, 64).shape().clone();
        let view = View::filled(shape, stored.len() as u64, stored.iter().copied());
        for query in [0, 0x15 << 22].map(Fingerprint::new) {
            let near = view.near(query, distance(12), &Visibility::DEFAULT);
            let mut distances: Vec<_> = near.iter().map(|near| near.distance).collect();
            distances.sort_unstable();
            let all = stored.iter().map(|&other| query.distance(other));
            let mut scanned: Vec<_> = all.filter(|&other| other <= distance(12)).collect();
            scanned.sort_unstable();
            assert!(scanned.len() > COLLECTED_MAX, "more than are collected at a time");
            assert_eq!(distances, scanned[..NEAR_MAX]);
            let distinct: BTreeSet<_> = near.iter().map(|near| near.fingerprint).collect();
            assert_eq!(distinct.len(), NEAR_MAX);
            let few = |asked| view.near_unless_crowded(query, asked, &Visibility::DEFAULT, 1_000);
            assert_eq!(few(distance(12)), None);
            assert_eq!(few(distance(0)).unwrap().len(), 1);
        }
    }
}

#[test]
fn a_look_up_counts_the_cells_that_it_visits() {
    let mut view = with_small_max(10, 12, 64);
    let cells = |view: &View| [0, 3, 12].map(|within| view.cells_visited(distance(within)));
    assert_eq!(cells(&view), [0; 3]);
    view.put(Fingerprint::new(1), Put::default());
    let [none, three, twelve] = cells(&view);
    assert_eq!((none, three), (1, 4));
    assert!(twelve > 100, "{twelve}");
    for bits in 0..1_000 {
        view.put(Fingerprint::new(bits << 20), Put::default());
    }
    settle(&mut view);
    let [none, three, twelve] = cells(&view);
    assert_eq!(none, 1);
    assert!(4 < three && 2 * three < twelve, "{three} {twelve}");
}

fn random_from(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state ^ state >> 29
    }
}

/// Every distance on segments of every size that has another geometry, and on small ones.
#[test]
fn planted_neighbours_are_found_in_segments_of_every_plan() {
    let mut random = random_from(1);
    for distance_max in 0..=12 {
        let sizes = [0, 1, 2, 300, 20_000, 120_000];
        for (count, small_max) in sizes.iter().flat_map(|&count| [(count, 0), (count, 30_000)]) {
            let mut view = with_small_max(small_max, distance_max, 4_096);
            let stored: Vec<u64> = (0..count).map(|_| random()).collect();
            for &bits in &stored {
                view.put(Fingerprint::new(bits), Put::default());
            }
            settle(&mut view);
            for &bits in stored.iter().take(100) {
                let planted = Fingerprint::new(bits);
                for flips in 0..=distance_max + 1 {
                    let query = flipped(bits, flips, &mut random);
                    let finds = |within| {
                        let found = near_all(&view, query, within);
                        found.iter().any(|near| near.fingerprint == planted)
                    };
                    assert_eq!(finds(distance_max), flips <= distance_max);
                    assert!(flips > distance_max || finds(flips), "{flips}");
                    assert!(flips == 0 || !finds(flips - 1), "{flips}");
                }
            }
            let query = Fingerprint::new(random());
            let scanned = stored
                .iter()
                .filter(|&&bits| query.distance(Fingerprint::new(bits)).get() <= distance_max);
            assert_eq!(near_all(&view, query, distance_max).len(), scanned.count());
        }
    }
}

#[test]
fn the_extreme_fingerprints_are_stored_and_found() {
    let mut view = empty(3, 16);
    for settled in [false, true] {
        assert_eq!(near_all(&view, Fingerprint::new(7), 3).is_empty(), !settled);
        view.put(Fingerprint::new(0), Put::default());
        view.put(Fingerprint::new(u64::MAX), Put::default());
        settle(&mut view);
        for bits in [0, u64::MAX] {
            let near = near_all(&view, Fingerprint::new(bits), 0);
            assert_eq!(near.len(), 1);
            assert_eq!(near[0].fingerprint, Fingerprint::new(bits));
        }
    }
}

#[test]
fn memory_comes_back_after_deletes_are_merged() {
    let mut view = empty(3, 64);
    for bits in 0..2_000_u64 {
        let id = IdKey { high: bits << 50, low: 0 };
        view.put(Fingerprint::new(bits << 20), Put { id: Some(id), ..Put::default() });
    }
    settle(&mut view);
    for bits in 0..2_000_u64 {
        view.remove(view.find_id(IdKey { high: bits << 50, low: 0 }).unwrap(), None);
        view.advance();
    }
    settle(&mut view);
    let bytes = view.segments()[0].bytes();
    assert!(bytes.total() < 2_048, "{bytes:?}");
    let plan = Plan::of(Distance::new(3).unwrap());
    let [_, second] = plan.tables() else { panic!("{plan}") };
    let without_entries = Table::build(*second, 1, &[]).bytes() as u64;
    assert!(view.secondary_tables_bytes() <= without_entries, "no table has what is gone");
    assert_eq!((bytes.ids, bytes.removals), (0, 0));
    assert_eq!(view.segments()[0].fingerprints(), 0);
}

/// Small segments that become a large one with nothing below it keep no removals.
#[test]
fn the_oldest_large_segment_has_nothing_to_hide() {
    let mut view = with_small_max(3, 3, 3);
    let mut naive = Naive::default();
    let puts = (0..8).map(|i| Step::Put(i << 8, Some(i as u8)));
    for step in puts.chain([Step::Remove(1), Step::Reset(2 << 8), Step::Rotate]) {
        take(&mut view, &mut naive, &step);
    }
    settle_deltas(&mut view);
    assert!(view.segments().iter().all(|segment| segment.sorted().is_small()));
    assert!(view.segments().iter().any(|segment| segment.tombstones() > 0));
    while let Some(work) = view.next_merge_towards_one() {
        view.complete(work);
    }
    let [only] = &view.segments()[..] else { panic!("all were merged") };
    assert!(!only.sorted().is_small());
    assert_eq!((only.tombstones(), only.fingerprints()), (0, 6));
}

/// Puts this many documents with distinct fingerprints, and closes the delta.
fn put_spread(view: &mut View, count: u64) {
    for _ in 0..count {
        let bits = view.sequence().get().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        view.put(Fingerprint::new(bits), Put::default());
    }
    view.rotate();
    settle_deltas(view);
}

/// Small segments keep coming, and after each there is time for one merge alone.
#[test]
fn large_segments_are_merged_though_small_ones_keep_coming() {
    let mut view = with_small_max(16, 3, 8);
    for _ in 0..600 {
        put_spread(&mut view, 8);
        if let Some(work) = view.next_merge(Load::Writing) {
            view.complete(work);
        }
        let large = view.segments().iter().filter(|segment| !segment.sorted().is_small()).count();
        assert!(large <= 20, "{large}");
    }
}

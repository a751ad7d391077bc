//! Merging adjacent segments, or secondary tables of one role, into one.
//!
//! All inputs are in one order, so a merge is one pass over sorted runs
//! ([`crate::tables::runs`]); only small segments that become part of a large one are
//! first brought into its order. A merge has its inputs and its result in memory at once, unless
//! an input is in files: then the result is, too.
//! Segments and secondary tables are merged one after the other, so the whole index is never in
//! memory twice, and large segments are merged one partition at a time
//! ([`crate::compaction::partition`]).

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use crate::compaction::entries::{MergeEntries, newest_ids};
use crate::compaction::numbers::NewNumbers;
use crate::document::Sequence;
use crate::id_key::IdKey;
use crate::labels::tables::LabelTarget;
use crate::levels::level::{Expected, Level};
use crate::levels::posting::Common;
use crate::levels::segment::{FingerprintRow, Segment, SegmentBuilder};
use crate::memory::placed::Placement;
use crate::permutation::Permuted;
use crate::plan::{Key, Plans};
use crate::tables::runs;
use crate::tables::runs::{Run, RunItem};
use crate::tables::table::Table;
use crate::tables::table::build;

/// The size of a segment: each of these entries takes memory, is visited by look-ups and has to be
/// merged.
pub fn size(segment: &Segment) -> u64 {
    (segment.documents() + segment.tombstones()) as u64
}

/// The result of a merge of segments.
#[derive(Debug)]
pub struct Merged {
    pub segment: Arc<Segment>,
    /// The secondary tables of small segments that became a large one.
    pub secondary_tables: Vec<Arc<Table>>,
    /// The number of fingerprints of the inputs that have no document in it, if it is large.
    pub dropped: u64,
}

/// Merges adjacent segments, oldest first, into one with the same content.
///
/// With `oldest` there are no older segments: removals and resets have nothing left to act on and
/// are dropped.
///
/// # Panics
/// When some are small and some large, or when large ones are to become a small one.
pub fn merge(plans: &Plans, segments: &[Arc<Segment>], into_large: bool, oldest: bool) -> Merged {
    merge_placed(&Placement::Memory, plans, segments, (into_large, oldest))
}

/// The same, with the arrays of a large result elsewhere.
///
/// # Panics
/// As [`merge`].
pub fn merge_placed(
    placement: &Placement,
    plans: &Plans,
    segments: &[Arc<Segment>],
    (into_large, oldest): (bool, bool),
) -> Merged {
    let all_small = segments.iter().all(|segment| segment.sorted().is_small());
    if all_small && into_large {
        return promote(plans, segments, oldest);
    }
    let (count, common) = extent(segments);
    let builder = if into_large {
        let count = count_rows(segments, oldest);
        SegmentBuilder::large(placement, plans.large.tables()[0], count, common)
    } else {
        SegmentBuilder::small(plans.small.distance_max(), count, common)
    };
    let (segment, dropped) = match placement {
        Placement::Files(_) if into_large => fill_files(placement, builder, segments, oldest),
        Placement::Files(_) | Placement::Memory => fill(builder, segments, oldest),
    };
    // No secondary table has the fingerprints that small segments drop.
    let dropped = if into_large { dropped } else { 0 };
    Merged { segment: Arc::new(segment), secondary_tables: Vec::new(), dropped }
}

/// Builds a segment by merging some; also returns how many of their fingerprints have no document
/// in it.
fn fill(mut builder: SegmentBuilder, segments: &[Arc<Segment>], oldest: bool) -> (Segment, u64) {
    let entries = MergeEntries::of(segments);
    let mut numbers = entries.new_numbers();
    let dropped = push_rows(&mut builder, &entries, oldest, &mut numbers);
    let labels = |target: &LabelTarget<'_>| entries.labels(&numbers, target);
    (builder.finish(ids_of(segments), labels), dropped)
}

/// The same with the result in files: all inputs are read in order, and nothing is looked up in
/// the result.
fn fill_files(
    placement: &Placement,
    mut builder: SegmentBuilder,
    segments: &[Arc<Segment>],
    oldest: bool,
) -> (Segment, u64) {
    let entries = MergeEntries::of(segments);
    let (mut numbers, mut dropped) = (entries.numbers_in_order(builder.numbers()), 0);
    each_row(&entries, oldest, |key, row, items| {
        let later = builder.later();
        match builder.push(key, row) {
            Some(number) => numbers.note(&entries, items, (row, later), number),
            None => dropped += 1,
        }
    });
    numbers.finish();
    let ids = |segment: &Segment| entries.ids(placement, &numbers, segment.sorted().numbers());
    let labels = |target: &LabelTarget<'_>| {
        entries.renumbered_labels(placement, &|at, old| numbers.fingerprint(at, old), target)
    };
    (builder.finish_with(ids, labels), dropped)
}

/// The newest document of each id, by key.
fn ids_of(segments: &[Arc<Segment>]) -> impl Iterator<Item = (IdKey, Permuted, Sequence)> + '_ {
    newest_ids(segments).map(|(key, at, number)| {
        let (value, posting) = segments[at].document(number);
        (key, value, posting.sequence)
    })
}

/// The same for a partition; also returns a builder of the next one.
pub fn fill_partition(
    mut builder: SegmentBuilder,
    segments: &[Arc<Segment>],
    oldest: bool,
) -> (Segment, Option<SegmentBuilder>, u64) {
    let entries = MergeEntries::of(segments);
    let mut numbers = entries.new_numbers();
    let dropped = push_rows(&mut builder, &entries, oldest, &mut numbers);
    let labels = |target: &LabelTarget<'_>| entries.labels(&numbers, target);
    let (segment, next) = builder.finish_partition(ids_of(segments), labels);
    (segment, next, dropped)
}

/// Pushes the rows of all entries, and notes their new numbers; returns how many fingerprints have
/// no document any more.
fn push_rows(
    builder: &mut SegmentBuilder,
    entries: &MergeEntries<'_>,
    oldest: bool,
    numbers: &mut NewNumbers,
) -> u64 {
    let mut dropped = 0;
    each_row(entries, oldest, |key, row, items| match builder.push(key, row) {
        Some(number) => items.iter().for_each(|&(_, entry)| numbers.set(entry, number)),
        None => dropped += 1,
    });
    dropped
}

/// Merges small segments, oldest first, into a large one.
fn promote(plans: &Plans, segments: &[Arc<Segment>], oldest: bool) -> Merged {
    let (count, common) = extent(segments);
    let expected = Expected { plans, small: false, count, common, oldest };
    let entries = MergeEntries::of(segments);
    let numbers = RefCell::new(entries.new_numbers());
    let add = |entry, row: &mut FingerprintRow| entries.add(entry, row);
    let numbered = |entry, number| numbers.borrow_mut().set(entry, number);
    let labels = |target: &LabelTarget<'_>| entries.labels(&numbers.borrow(), target);
    let Level { segment, secondary_tables } =
        Level::of(expected, entries.all(), (add, numbered), ids_of(segments), labels);
    // No secondary table has the fingerprints that they drop.
    Merged { segment, secondary_tables, dropped: 0 }
}

/// The number of fingerprints of some segments, and the properties that their postings share.
pub fn extent(segments: &[Arc<Segment>]) -> (usize, Common) {
    let count = segments.iter().map(|segment| segment.fingerprints()).sum();
    let common = segments.iter().filter_map(|segment| segment.common()).reduce(Common::and);
    (count, common.unwrap_or(Common::NONE))
}

/// How many fingerprints a merged segment will have: exactly if there are removals, otherwise at
/// most, since segments may share fingerprints.
pub fn count_rows(segments: &[Arc<Segment>], oldest: bool) -> u64 {
    if segments.iter().all(|segment| segment.tombstones() == 0) {
        return segments.iter().map(|segment| segment.fingerprints() as u64).sum();
    }
    let (mut left, entries) = (0, MergeEntries::of(segments));
    each_row(&entries, oldest, |_, row, _| left += u64::from(!row.postings.is_empty()));
    left
}

/// Calls `each` with the combined row of each fingerprint and its entries, by key.
fn each_row(
    entries: &MergeEntries<'_>,
    oldest: bool,
    mut each: impl FnMut(Key, &FingerprintRow, &[RunItem]),
) {
    let mut row = FingerprintRow::default();
    entries.each(|key, items| {
        row.clear();
        for &(_, entry) in items {
            entries.add(entry, &mut row);
        }
        if oldest {
            row.forget_older();
        }
        each(key, &row, items);
    });
}

/// Whether a fingerprint has a document, when the merge began.
#[derive(Clone)]
pub struct Liveness {
    pub is_live: Arc<IsLive>,
    /// Says which fingerprints are asked next.
    pub prefetch: Arc<Prefetch>,
}

/// Whether a fingerprint has a document.
pub type IsLive = dyn Fn(Permuted) -> bool + Send + Sync;

/// Takes fingerprints of which somebody will ask next.
pub type Prefetch = dyn Fn(&[Permuted]) + Send + Sync;

impl fmt::Debug for Liveness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Liveness")
    }
}

/// Merges tables of one role, keeping the fingerprints for which `is_live` holds.
///
/// # Panics
/// When there is no table.
pub fn merge_tables(
    placement: &Placement,
    tables: &[Arc<Table>],
    liveness: Option<&Liveness>,
) -> Table {
    // To count exactly would ask twice for each fingerprint whether it is live.
    let count = match placement {
        Placement::Memory => count_keys(tables, liveness),
        Placement::Files(_) => count_keys(tables, None),
    };
    let (plan, role) = (tables[0].plan(), tables[0].role());
    let mut builder = build::TableBuilder::placed(placement, plan, role, count);
    each_key(tables, liveness, |key| {
        builder.push(key);
    });
    builder.finish()
}

/// How many entries a table merged from tables of one role will have: exactly if some may have
/// gone, otherwise at most, since tables may share entries.
pub fn count_keys(tables: &[Arc<Table>], liveness: Option<&Liveness>) -> u64 {
    if liveness.is_none() {
        return tables.iter().map(|table| table.len()).sum();
    }
    let mut left = 0;
    each_key(tables, liveness, |_| left += 1);
    left
}

/// Builds a partition by merging those of tables of one role; also returns a builder of the next
/// one.
pub fn fill_table(
    mut builder: build::TableBuilder,
    tables: &[Arc<Table>],
    liveness: Option<&Liveness>,
) -> (Table, Option<build::TableBuilder>) {
    each_key(tables, liveness, |key| {
        builder.push(key);
    });
    builder.finish_partition()
}

/// Calls `each` with every key of the tables, ascending.
fn each_key(tables: &[Arc<Table>], liveness: Option<&Liveness>, mut each: impl FnMut(Key)) {
    let Some(plan) = tables.first().map(|table| table.plan()) else { return };
    let mut values = Vec::new();
    runs::each_stretch(tables.iter().map(|table| run_of(table)).collect(), |stretch| {
        if let Some(liveness) = liveness {
            values.clear();
            values.extend(stretch.iter().map(|&(key, _)| plan.value(key)));
            (liveness.prefetch)(&values);
        }
        for same in stretch.chunk_by(|a, b| a.0 == b.0) {
            let key = same[0].0;
            if liveness.is_none_or(|liveness| (liveness.is_live)(plan.value(key))) {
                each(key);
            }
        }
    });
}

/// The keys of a table.
fn run_of(table: &Table) -> Run<'_> {
    let mut entries = table.entries();
    Run::new(move |ahead| entries.next_few(|item| ahead.push(item)))
}

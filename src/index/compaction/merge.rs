//! Choosing adjacent segments or secondary tables to merge, and merging them into one.
//!
//! Sizes stay geometric: a segment has at least a certain share of the size of all newer ones
//! together. Under load that share is a half: seven segments on average at a hundred million
//! documents, and each entry is rewritten five or six times on its way (with a factor of three:
//! four segments and eleven rewrites). When writes pause, a larger share leaves fewer segments, and
//! look-ups get quicker.
//!
//! All inputs are in one order, so a merge is one pass over sorted runs
//! ([`crate::index::compaction::runs`]); only small segments that become part of a large one are
//! first brought into its order. A merge holds its inputs and its result in memory at once.
//! Segments and secondary tables are merged one after the other, so the whole index is never held
//! twice, and large segments are merged one partition at a time
//! ([`crate::index::compaction::partition`]).
//!
//! In a collection that is not much larger than a small segment, small segments dominate, so the
//! oldest are *promoted*: merged into a large segment before their sizes require it.

use std::ops::Range;
use std::sync::Arc;

use crate::document::Sequence;
use crate::index::compaction::entries::MergeEntries;
use crate::index::compaction::runs;
use crate::index::compaction::runs::{Item, Run};
use crate::index::levels::ids::IdKey;
use crate::index::levels::level::{Expected, Level};
use crate::index::levels::posting::Common;
use crate::index::levels::segment::{Builder, Row, Segment};
use crate::index::levels::sorted::Sorted;
use crate::index::permutation::Permuted;
use crate::index::plan::{Key, Plans, TablePlan};
use crate::index::tables::table::Table;
use crate::index::tables::table::build;
use crate::index::tables::table::build::Counts;

/// A segment is left alone if it has at least this many percent of the size of all newer ones
/// together.
pub const RATIO: u64 = 50;

/// The ratio while there are no writes.
pub const RATIO_IDLE: u64 = 1_000;

/// Whether a ratio is for a time without writes.
pub fn is_idle(ratio: u64) -> bool {
    ratio > RATIO
}

/// This many large segments are merged with each other before small ones become another one: under
/// load there are always some.
const LARGE_MANY: usize = 3;

/// This many small segments are worth a merge of their own.
const SMALL_MANY: usize = 3;

/// Small segments are promoted once the oldest hold more than this part of the largest small
/// segment.
const PROMOTE_PART: u64 = 2;

/// Small segments are promoted only while all segments together have at most this many times the
/// fingerprints of the largest small segment. Beyond that, large segments of that size are merged
/// so often that merges cannot keep up with inserts, and small segments are a minor part of the
/// whole.
const PROMOTE_MAX: u64 = 8;

/// The newest small segments are left out of a merge under load if they are at most this part of
/// it.
const LEFT_PART: u64 = 4;

/// The largest number of documents of a merged segment: its slots are numbered by 32 bits, and a
/// crowded collection may take three times as many slots as an even one.
pub const MERGED_MAX: u64 = 1_000_000_000;

/// The segments to merge next, given their sizes, oldest first.
pub fn choose(sizes: &[u64], ratio: u64) -> Option<Range<usize>> {
    let mut newer = 0_u64;
    let mut from = None;
    for (i, &size) in sizes.iter().enumerate().rev() {
        if newer > 0 && size < newer.saturating_mul(ratio) / 100 {
            from = Some(i);
        }
        newer += size.max(1);
    }
    let all = from.map(|from| from..sizes.len())?;
    // Segments that would not fit into one are left out, the oldest first.
    let mut sum = 0;
    let fits = |size: &u64| {
        sum += size;
        sum <= MERGED_MAX
    };
    let count = sizes[all.clone()].iter().rev().copied().take_while(fits).count();
    (count > 1).then(|| all.end - count..all.end)
}

/// The size of a segment: each of these entries takes memory, is visited by look-ups and has to be
/// merged.
pub fn size(segment: &Segment) -> u64 {
    (segment.documents() + segment.tombstones()) as u64
}

/// The result of a merge of segments.
#[derive(Debug)]
pub struct Merged {
    /// The merged segment.
    pub segment: Arc<Segment>,
    /// The secondary tables of small segments that became a large one.
    pub secondary_tables: Vec<Arc<Table>>,
    /// The number of fingerprints of the inputs that have no document in it, if it is large.
    pub dropped: u64,
}

/// The run of segments of one kind in a range to merge first, and whether into a large segment.
/// Small segments between large ones are first merged into one large segment, so that the large
/// ones need not be in memory together with that result.
pub fn run_of_one_kind(
    plans: &Plans,
    segments: &[Arc<Segment>],
    range: Range<usize>,
) -> (Range<usize>, bool) {
    let is_small = |at: &usize| segments[*at].sorted().is_small();
    let Some(first) = range.clone().find(is_small) else { return (range, true) };
    if first - range.start >= LARGE_MANY {
        return (range.start..first, true);
    }
    let small = first..first + (first..range.end).take_while(is_small).count();
    let count: usize = segments[small.clone()].iter().map(|s| s.fingerprints()).sum();
    let is_large = small != range || !plans.is_small(count as u64);
    (small, is_large)
}

/// The oldest small segments that together are worth a large one, if there is a large one already
/// or all small ones together exceed the size of a small one. Their merge holds inputs and result
/// in memory at once, so it takes no more of them than necessary.
pub fn promotable(plans: &Plans, segments: &[Arc<Segment>]) -> Option<Range<usize>> {
    let small = |segment: &&Arc<Segment>| segment.sorted().is_small();
    let first = segments.iter().position(|segment| small(&segment))?;
    let run = || segments[first..].iter().take_while(small);
    let sizes = || run().map(|segment| segment.fingerprints() as u64);
    if run().count() == segments.len() && plans.is_small(sizes().sum()) {
        return None;
    }
    let all: u64 = segments.iter().map(|segment| segment.fingerprints() as u64).sum();
    if all > PROMOTE_MAX * plans.small_max {
        return None;
    }
    let mut sum = 0;
    let last = sizes().position(|size| {
        sum += size;
        sum > plans.small_max / PROMOTE_PART
    })?;
    Some(first..first + last + 1)
}

/// The range without its newest segments, if these are small and a minor part of it: the inputs of
/// a merge stay in the view until it ends, and each is visited by every look-up, while the newest
/// can be merged into one much sooner.
pub fn without_newest(segments: &[Arc<Segment>], range: Range<usize>) -> Range<usize> {
    let all: u64 = segments[range.clone()].iter().map(|segment| size(segment)).sum();
    let mut sum = 0;
    let is_little = |segment: &&Arc<Segment>| {
        sum += size(segment);
        segment.sorted().is_small() && sum <= all / LEFT_PART
    };
    let newest = segments[range.clone()].iter().rev().take_while(is_little).count();
    let rest = range.start..range.end - newest;
    if newest >= SMALL_MANY && rest.len() > 1 { rest } else { range }
}

/// Merges adjacent segments, oldest first, into one with the same content.
///
/// With `oldest` there are no older segments: removals and resets have nothing left to act on and
/// are dropped.
///
/// # Panics
/// When some are small and some large, or when large ones are to become a small one.
pub fn merge(plans: &Plans, segments: &[Arc<Segment>], into_large: bool, oldest: bool) -> Merged {
    let all_small = segments.iter().all(|segment| segment.sorted().is_small());
    if all_small && into_large {
        return promote(plans, segments, oldest);
    }
    let (count, common) = extent(segments);
    let builder = if into_large {
        Builder::large(&count_rows(plans, segments, oldest), common)
    } else {
        Builder::small(plans.small.distance_max(), count, common)
    };
    let (segment, dropped) = fill(builder, segments, oldest);
    // No secondary table has the fingerprints that small segments drop.
    let dropped = if into_large { dropped } else { 0 };
    Merged { segment: Arc::new(segment), secondary_tables: Vec::new(), dropped }
}

/// Builds a segment by merging some; also returns how many of their fingerprints have no document
/// in it.
pub fn fill(mut builder: Builder, segments: &[Arc<Segment>], oldest: bool) -> (Segment, u64) {
    let mut dropped = 0;
    each_row(segments, oldest, |key, row| {
        dropped += u64::from(row.postings.is_empty());
        builder.push(key, row);
    });
    (builder.finish_merged(segments, newest_ids(segments)), dropped)
}

/// Merges small segments, oldest first, into a large one.
fn promote(plans: &Plans, segments: &[Arc<Segment>], oldest: bool) -> Merged {
    let (count, common) = extent(segments);
    let expected = Expected { plans, small: false, count, common, oldest };
    let entries = MergeEntries::of(segments);
    let all = || entries.all();
    let add = |entry, row: &mut Row| entries.add(entry, row);
    let Level { segment, secondary_tables } = Level::of(expected, all, add, newest_ids(segments));
    // No secondary table has the fingerprints that they drop.
    Merged { segment, secondary_tables, dropped: 0 }
}

/// The number of fingerprints of some segments, and what their postings have in common.
pub fn extent(segments: &[Arc<Segment>]) -> (usize, Common) {
    let count = segments.iter().map(|segment| segment.fingerprints()).sum();
    let common = segments.iter().filter_map(|segment| segment.common()).reduce(Common::and);
    (count, common.unwrap_or(Common::NONE))
}

/// Counts the fingerprints that will have a document in a large segment; the others get no slot.
pub fn count_rows(plans: &Plans, segments: &[Arc<Segment>], oldest: bool) -> Counts {
    let order = *plans.large.tables().first().expect("a plan has a table");
    if segments.iter().all(|segment| segment.tombstones() == 0) {
        let tables = segments.iter().filter_map(|segment| match segment.sorted() {
            Sorted::Large(table) => Some(table),
            Sorted::Small(_) => None,
        });
        return count(order, tables);
    }
    let mut left = 0;
    each_row(segments, oldest, |_, row| left += u64::from(!row.postings.is_empty()));
    let mut counts = Counts::new(order, left);
    each_row(segments, oldest, |key, row| {
        if !row.postings.is_empty() {
            counts.add(key);
        }
    });
    counts
}

/// Calls `each` with the combined row of each fingerprint, by key.
fn each_row(segments: &[Arc<Segment>], oldest: bool, mut each: impl FnMut(Key, &Row)) {
    let entries = MergeEntries::of(segments);
    let mut row = Row::default();
    entries.each(|key, items| {
        row.clear();
        for &(_, entry) in items {
            entries.add(entry, &mut row);
        }
        if oldest {
            row.forget_older();
        }
        each(key, &row);
    });
}

/// Calls `each` with the row of each fingerprint in each segment by itself, by key, then by the
/// index of the segment. All segments are small or all are large.
pub fn each_row_by_segment(segments: &[Arc<Segment>], mut each: impl FnMut(Key, usize, &Row)) {
    let entries = MergeEntries::of(segments);
    let mut row = Row::default();
    entries.each(|key, items| {
        let of = |item: &Item| entries.segment_of(item.1);
        for items in items.chunk_by(|a, b| of(a) == of(b)) {
            row.clear();
            for &(_, entry) in items {
                entries.add(entry, &mut row);
            }
            each(key, of(&items[0]), &row);
        }
    });
}

/// Merges tables of one role, keeping the fingerprints for which `is_live` holds.
///
/// # Panics
/// When there is no table.
pub fn merge_tables(tables: &[Arc<Table>], is_live: Option<&dyn Fn(Permuted) -> bool>) -> Table {
    let counts = count_keys(tables, is_live);
    fill_table(build::Builder::new(tables[0].role(), &counts), tables, is_live)
}

/// Counts the entries of a table merged from tables of one role.
///
/// # Panics
/// When there is no table.
pub fn count_keys(tables: &[Arc<Table>], is_live: Option<&dyn Fn(Permuted) -> bool>) -> Counts {
    let plan = tables.first().expect("there is something to merge").plan();
    if is_live.is_none() {
        return count(plan, tables.iter().map(|table| &**table));
    }
    let mut left = 0;
    each_key(tables, is_live, |_| left += 1);
    let mut counts = Counts::new(plan, left);
    each_key(tables, is_live, |key| counts.add(key));
    counts
}

/// Builds a table by merging tables of one role.
pub fn fill_table(
    mut builder: build::Builder,
    tables: &[Arc<Table>],
    is_live: Option<&dyn Fn(Permuted) -> bool>,
) -> Table {
    each_key(tables, is_live, |key| {
        builder.push(key);
    });
    builder.finish()
}

/// Calls `each` with every key of the tables, ascending.
fn each_key(
    tables: &[Arc<Table>],
    is_live: Option<&dyn Fn(Permuted) -> bool>,
    mut each: impl FnMut(Key),
) {
    let Some(plan) = tables.first().map(|table| table.plan()) else { return };
    runs::each_stretch(tables.iter().map(|table| run_of(table)).collect(), |stretch| {
        for same in stretch.chunk_by(|a, b| a.0 == b.0) {
            let key = same[0].0;
            if is_live.is_none_or(|is_live| is_live(plan.value(key))) {
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

/// Counts the entries of tables that become one.
fn count<'a>(plan: TablePlan, tables: impl Iterator<Item = &'a Table> + Clone) -> Counts {
    let mut counts = Counts::new(plan, tables.clone().map(Table::len).sum());
    tables.for_each(|table| counts.add_lines(table));
    counts
}

/// The newest document of each id, by key.
fn newest_ids(segments: &[Arc<Segment>]) -> impl Iterator<Item = (IdKey, Permuted, Sequence)> {
    let mut sources: Vec<_> = segments.iter().map(|s| s.ids().iter().peekable()).collect();
    std::iter::from_fn(move || {
        let key = sources.iter_mut().filter_map(|source| Some(source.peek()?.0)).min()?;
        let mut newest = None;
        for (segment, source) in segments.iter().zip(&mut sources) {
            if let Some((_, number)) = source.next_if(|(other, _)| *other == key) {
                newest = Some((segment, number));
            }
        }
        let (segment, number) = newest.expect("a source has the smallest key");
        let (value, posting) = segment.document(number);
        Some((key, value, posting.sequence))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_geometric_and_few_while_segments_arrive() {
        let mut sizes: Vec<u64> = Vec::new();
        let mut rewritten = 0;
        for _ in 0..4_000 {
            sizes.push(1);
            while let Some(range) = choose(&sizes, RATIO) {
                let merged: u64 = sizes.drain(range).sum();
                rewritten += merged;
                sizes.push(merged);
            }
            assert!(sizes.len() <= 15, "{sizes:?}");
        }
        assert_eq!(sizes.iter().sum::<u64>(), 4_000);
        assert!(rewritten < 4_000 * 7, "each entry was rewritten {} times", rewritten / 4_000);
    }

    #[test]
    fn nothing_is_chosen_where_nothing_gains() {
        assert_eq!(choose(&[], RATIO), None);
        assert_eq!(choose(&[5], RATIO), None);
        assert_eq!(choose(&[100, 10, 10], RATIO), None);
        assert_eq!(choose(&[100, 4, 10], RATIO), Some(1..3));
        assert_eq!(choose(&[4, 10], RATIO), Some(0..2));
        assert_eq!(choose(&[50, 10], RATIO_IDLE), Some(0..2));
        assert_eq!(choose(&[700_000_000, 200_000_000, 200_000_000], RATIO_IDLE), Some(1..3));
        assert_eq!(choose(&[700_000_000, 400_000_000], RATIO_IDLE), None);
    }
}

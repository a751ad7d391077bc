//! Merging adjacent segments into one, and tables into one; choosing which.
//!
//! Sizes stay geometric: a segment is at least so large in proportion to all newer ones together.
//! Under load half as large will do: seven segments on average at a hundred million documents, and
//! each entry is rewritten five or six times on its way (with three times as large: four segments,
//! and eleven times). When writes pause, a larger proportion leaves fewer segments, and look-ups get
//! quicker. All inputs are in one order, so a merge is one pass over sorted runs
//! ([`crate::index::compaction::runs`]); only small segments that become part of a large one are brought into its order before. A merge needs the
//! memory of its result beside that of its inputs; segments and the other tables are merged one
//! after the other, so that is never twice the whole, and large segments a quarter at a time
//! ([`crate::index::compaction::partition`]). In a collection that is not much larger than a small segment, the small ones are
//! what is too much: there they *ripen*, the oldest become a large one before their sizes ask for it.

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

/// How large a segment has to be to be left alone, in percent of all newer ones together.
pub const RATIO: u64 = 50;

/// The same for a time without writes.
pub const RATIO_IDLE: u64 = 1_000;

/// Whether a ratio is one for a time without writes.
pub fn is_idle(ratio: u64) -> bool {
    ratio > RATIO
}

/// So many large segments are merged before small ones become another one: under load there are always
/// some.
const LARGE_MANY: usize = 3;

/// So many small segments are worth a merge of their own.
const SMALL_MANY: usize = 3;

/// Small segments ripen when they have more than this part of what a small segment may have.
const PROMOTE_PART: u64 = 2;

/// They ripen as long as all segments have at most so many times what a small one may have. Of more documents,
/// large segments that small are merged so often that merges do not keep up with inserts, and small ones are
/// little beside all.
const PROMOTE_MAX: u64 = 8;

/// They are left out of a merge under load, if they are at most this part of it.
const LEFT_PART: u64 = 4;

/// A merged segment has at most so many documents: its slots are numbered by 32 bits, and a crowd may
/// take three times as many as an even collection.
pub const MERGED_MAX: u64 = 1_000_000_000;

/// Which segments to merge next, given their sizes, oldest first.
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
    // What would not fit into one stays apart, the oldest first.
    let mut sum = 0;
    let fits = |size: &u64| {
        sum += size;
        sum <= MERGED_MAX
    };
    let count = sizes[all.clone()].iter().rev().copied().take_while(fits).count();
    (count > 1).then(|| all.end - count..all.end)
}

/// What counts towards a segment's size: it costs to keep, to visit and to merge.
pub fn size(segment: &Segment) -> u64 {
    (segment.documents() + segment.tombstones()) as u64
}

/// A merged segment.
#[derive(Debug)]
pub struct Merged {
    /// It.
    pub segment: Arc<Segment>,
    /// The other tables of small segments that became part of a large one.
    pub secondary_tables: Vec<Arc<Table>>,
    /// How many fingerprints of the inputs have no document in it, if it is large.
    pub dropped: u64,
}

/// Which of the segments in a range to merge first, and whether into a large one: small ones among large
/// ones are made one large one before, so that these need not lie beside the result as well.
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

/// The oldest small segments that are enough for a large one, if there is a large one already or all small ones
/// together would not be small. A merge of them needs memory for its result beside theirs: the fewer, the less.
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

/// Without the newest few, if they are small ones and a little part of all: what is merged stands until the
/// merge ends, each segment visited by every look-up, and those are made one long before.
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

/// Merges adjacent segments, oldest first, into the segment that says the same.
///
/// With `oldest`, nothing lies below them: removals and resets have done their work and go.
///
/// # Panics
/// When some of them are small and some large, or large ones are to make a small one.
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
    // No other table has what small segments drop.
    let dropped = if into_large { dropped } else { 0 };
    Merged { segment: Arc::new(segment), secondary_tables: Vec::new(), dropped }
}

/// Has a segment built of some, and tells how many of their fingerprints have no document in it.
pub fn fill(mut builder: Builder, segments: &[Arc<Segment>], oldest: bool) -> (Segment, u64) {
    let mut dropped = 0;
    each_row(segments, oldest, |key, row| {
        dropped += u64::from(row.postings.is_empty());
        builder.push(key, row);
    });
    (builder.finish_merged(segments, newest_ids(segments)), dropped)
}

/// What small segments say, oldest first, in the form of large ones.
fn promote(plans: &Plans, segments: &[Arc<Segment>], oldest: bool) -> Merged {
    let (count, common) = extent(segments);
    let expected = Expected { plans, small: false, count, common, oldest };
    let entries = MergeEntries::of(segments);
    let all = || entries.all();
    let add = |entry, row: &mut Row| entries.add(entry, row);
    let Level { segment, secondary_tables } = Level::of(expected, all, add, newest_ids(segments));
    // No other table has what they drop.
    Merged { segment, secondary_tables, dropped: 0 }
}

/// How many fingerprints some segments have, and what their postings have in common.
pub fn extent(segments: &[Arc<Segment>]) -> (usize, Common) {
    let count = segments.iter().map(|segment| segment.fingerprints()).sum();
    let common = segments.iter().filter_map(|segment| segment.common()).reduce(Common::and);
    (count, common.unwrap_or(Common::NONE))
}

/// Counts what will have a document in a large segment: what is gone gets no room.
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

/// Calls `each` with all that the segments together say about each fingerprint, by key.
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

/// Calls `each` with what each segment by itself says about each fingerprint, by key, then by the place of
/// the segment. They are of one form.
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

/// Merges tables of one role; with `kept`, without the fingerprints that are not.
///
/// # Panics
/// When there is no table.
pub fn merge_tables(tables: &[Arc<Table>], is_live: Option<&dyn Fn(Permuted) -> bool>) -> Table {
    let counts = count_keys(tables, is_live);
    fill_table(build::Builder::new(tables[0].role(), &counts), tables, is_live)
}

/// Counts what a table will have that is merged of some of one role.
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

/// Has a table built of some of one role.
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

/// Calls `each` with every key in some tables, ascending.
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

/// Counts the entries of some tables, for one of all of them.
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

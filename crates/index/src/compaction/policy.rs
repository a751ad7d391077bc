//! The compaction policy: which segments and tables are merged next, how, and when writes are
//! throttled.
//!
//! A full delta becomes a small segment. Sizes of segments stay *geometric*: each has at least a
//! certain share of all newer ones together. Under load that share is a half, which gives seven
//! segments on average at a hundred million documents, and each entry is rewritten five or six
//! times on its way. When writes pause, a larger share leaves fewer segments, and look-ups get
//! faster. Secondary tables follow the same rule by themselves.
//!
//! Pure: the policy sees sizes ([`LevelSizes`]) and the load, and answers with numbers. It reads no
//! clock and touches no entry.
//!
//! Without the write throttle, 100 million fingerprints take 41 bytes each at the peak instead of
//! 27; if the newest segments were not left out of merges, the p99 of look-ups during merges would
//! be 13 us instead of 5 at 10 million (decision 24).

use std::ops::Range;
use std::time::Duration;

/// The share of all newer segments together that a segment must have to be left alone, in percent.
/// A factor of three instead of a half: four segments instead of seven, and eleven rewrites of each
/// entry instead of five or six.
const SHARE_WRITING: u64 = 50;

/// The share while writes pause: segments are merged until the oldest has ten times the rest.
const SHARE_PAUSED: u64 = 1_000;

/// Writes have paused once there was none for this long.
const PAUSED_AFTER: Duration = Duration::from_millis(40);

/// The index is idle once there was no write for this long. Only then are large segments merged
/// further, since a client that writes in bursts would have to wait for such a merge.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// This many large segments are merged with each other before small ones become another one: under
/// load there are always some small ones, which would otherwise come first forever.
const LARGE_MANY: usize = 3;

/// The newest small segments are merged by themselves if there are at least this many.
const SMALL_MANY: usize = 3;

/// The newest small segments are left out of a merge under load if they are at most this part of
/// it.
const LEFT_PART: u64 = 4;

/// Merges of at least this many times the entries of the largest small segment are partitioned
/// ([`crate::compaction::partition`]). Smaller merges take little extra memory, and a
/// partitioned merge makes look-ups visit eight times as many tables.
const PARTITIONED_FROM: u64 = 8;

/// The factor while the index is idle, when a merge takes the whole index.
const PARTITIONED_FROM_IDLE: u64 = 2;

/// A table is rebuilt once one in this many of its fingerprints may have been dropped.
const DROPPED_PART: u64 = 8;

/// The largest number of entries of a merged segment: they have numbers of 32 bits, of which a
/// table leaves up to 64 unused in each partition.
pub const MERGED_MAX: u64 = 4_000_000_000;

/// The most entries that the flusher merges at a time while a larger merge runs: the writer may
/// have to wait for it, a fraction of a second, and both merges keep their inputs in memory.
const NEWEST_MAX: u64 = 1 << 20;

/// With this many full deltas that wait to become segments, writes wait too: this bounds their
/// memory and what look-ups visit.
pub const FULL_DELTAS_MAX: usize = 2;

/// The entries that may arrive while a merge runs before writes are throttled.
const ARRIVED: Allowance = Allowance { part: 16, min: 1_000_000 };

/// The entries that may be in small segments before writes are throttled: these take more than
/// twice the memory of large ones. The policy leaves about as many in them when nothing is merged.
const SMALL: Allowance = Allowance { part: 8, min: 8_000_000 };

/// The delay of the next delta, in milliseconds, at twice an allowance; and the longest delay.
const DELAY_MS: u64 = 100;
const DELAY_MS_MAX: u64 = 500;

/// The write load, as far as it matters to the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Writes arrive.
    Writing,
    /// There has been no write for a moment.
    Paused,
    /// There has been no write for a second.
    Idle,
}

impl Load {
    /// The load when there has been no write for this long.
    pub fn after(pause: Duration) -> Self {
        match pause {
            _ if pause >= IDLE_AFTER => Self::Idle,
            _ if pause >= PAUSED_AFTER => Self::Paused,
            _ => Self::Writing,
        }
    }

    /// The share that all segments and tables must have.
    fn share(self) -> u64 {
        if self == Self::Idle { SHARE_PAUSED } else { SHARE_WRITING }
    }
}

/// A segment, as the policy sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSize {
    /// Documents and tombstones: each takes memory, is visited by look-ups and has to be merged.
    pub entries: u64,
    /// Distinct fingerprints.
    pub fingerprints: u64,
    /// Whether it is a small one ([`crate::plan::Plans`]).
    pub is_small: bool,
}

/// A secondary table, as the policy sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSize {
    pub entries: u64,
    /// The number of fingerprints that may no longer have a document.
    pub dropped: u64,
}

/// The sizes of everything that can be merged.
#[derive(Debug, Clone, Default)]
pub struct LevelSizes {
    /// Oldest first.
    pub segments: Vec<SegmentSize>,
    /// For each role but the first, the tables, oldest first.
    pub tables: Vec<Vec<TableSize>>,
    /// The largest number of fingerprints of a small segment.
    pub small_max: u64,
}

/// A merge, as indices into [`LevelSizes`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merge {
    /// Adjacent segments become one.
    Segments {
        /// Which ones: all small or all large.
        range: Range<usize>,
        /// Whether the result is a large segment.
        into_large: bool,
        /// Whether to merge one partition of the keys at a time.
        partitioned: bool,
    },
    /// Adjacent secondary tables of one role become one.
    Tables {
        /// Their role, from 1 on.
        role: usize,
        /// Which ones of that role.
        range: Range<usize>,
        /// Whether to merge one partition of the keys at a time.
        partitioned: bool,
    },
}

/// What to merge next; `None` if no merge is due.
pub fn next(levels: &LevelSizes, load: Load) -> Option<Merge> {
    next_by_share(levels, load.share(), load)
}

/// The next merge towards one segment and one table of each role.
#[cfg(test)]
pub fn next_towards_one(levels: &LevelSizes) -> Option<Merge> {
    next_by_share(levels, u64::MAX, Load::Idle)
}

fn next_by_share(levels: &LevelSizes, share: u64, load: Load) -> Option<Merge> {
    let segments = || levels.next_segments(share, load);
    let tables = || levels.next_tables(share, load);
    // A look-up visits segments and tables alike, so neither list may fall behind the other.
    let large = levels.segments.iter().filter(|segment| !segment.is_small).count();
    let secondary: usize = levels.tables.iter().map(Vec::len).sum();
    if secondary > (large + 1) * levels.tables.len() {
        tables().or_else(segments)
    } else {
        segments().or_else(tables)
    }
}

/// The next merge of the newest segments among themselves, which the flusher does while a larger
/// merge runs and as soon as writes pause: every look-up visits each of them. `running` is where
/// the segments begin that a running merge leaves free.
pub fn next_of_newest(levels: &LevelSizes, running: Option<usize>, load: Load) -> Option<Merge> {
    let share = if load == Load::Writing { SHARE_WRITING } else { SHARE_PAUSED };
    let (free, max) = match running {
        Some(free) => (free, NEWEST_MAX),
        None if load == Load::Writing => return None,
        None => (0, levels.small_max),
    };
    let sizes: Vec<u64> = levels.segments[free..].iter().map(|segment| segment.entries).collect();
    let mut sum = 0;
    let fits = |size: &u64| {
        sum += size;
        sum <= max
    };
    let newest = sizes.iter().rev().copied().take_while(fits).count();
    let first = levels.segments.len() - newest;
    let range = out_of_proportion(&sizes[sizes.len() - newest..], share)?;
    let (range, into_large) = levels.of_one_kind(first + range.start..first + range.end);
    Some(levels.merge_of(range, into_large, load))
}

/// The delay of the next delta, so that merges keep up with writes: while deltas wait, the writer
/// waits. `arrived` is what arrived since the running merge began.
pub fn write_delay(levels: &LevelSizes, arrived: u64) -> Duration {
    let small = levels.segments.iter().filter(|segment| segment.is_small);
    let small = small.map(|segment| segment.entries).sum();
    let all = levels.segments.iter().map(|segment| segment.entries).sum();
    ARRIVED.delay(arrived, all).max(SMALL.delay(small, all))
}

/// The number of entries that may wait to be merged: a part of all, but at least `min`.
struct Allowance {
    part: u64,
    min: u64,
}

impl Allowance {
    /// The delay while this many wait: it grows gradually, so that no write waits long at once.
    fn delay(&self, waiting: u64, all: u64) -> Duration {
        let free = (all / self.part).max(self.min);
        let delay_ms = waiting.saturating_sub(free).saturating_mul(DELAY_MS) / free;
        Duration::from_millis(delay_ms.min(DELAY_MS_MAX))
    }
}

impl LevelSizes {
    fn next_segments(&self, share: u64, load: Load) -> Option<Merge> {
        let sizes: Vec<u64> = self.segments.iter().map(|segment| segment.entries).collect();
        let (mut range, into_large) = self.of_one_kind(out_of_proportion(&sizes, share)?);
        if load != Load::Idle {
            range = self.without_newest(range);
        }
        Some(self.merge_of(range, into_large, load))
    }

    fn next_tables(&self, share: u64, load: Load) -> Option<Merge> {
        self.tables.iter().zip(1..).find_map(|(tables, role)| {
            let sizes: Vec<u64> = tables.iter().map(|table| table.entries).collect();
            let stale = |table: &TableSize| {
                table.dropped > 0 && table.dropped >= table.entries / DROPPED_PART
            };
            let range = out_of_proportion(&sizes, share).or_else(|| {
                let at = tables.iter().position(stale)?;
                Some(at..at + 1)
            })?;
            let entries = sizes[range.clone()].iter().sum();
            Some(Merge::Tables { role, range, partitioned: self.is_partitioned(entries, load) })
        })
    }

    fn merge_of(&self, range: Range<usize>, into_large: bool, load: Load) -> Merge {
        let segments = &self.segments[range.clone()];
        let entries = segments.iter().map(|segment| segment.entries).sum();
        // Small segments are in another order, so they have no partitions.
        let partitioned =
            self.is_partitioned(entries, load) && segments.iter().all(|segment| !segment.is_small);
        Merge::Segments { range, into_large, partitioned }
    }

    fn is_partitioned(&self, entries: u64, load: Load) -> bool {
        let from = if load == Load::Idle { PARTITIONED_FROM_IDLE } else { PARTITIONED_FROM };
        entries >= from * self.small_max
    }

    /// The segments of one kind in a range to merge first, and whether into a large segment. Small
    /// segments between large ones are first merged into one large segment, so that the large ones
    /// need not be in memory together with that result.
    fn of_one_kind(&self, range: Range<usize>) -> (Range<usize>, bool) {
        let is_small = |at: &usize| self.segments[*at].is_small;
        let Some(first) = range.clone().find(is_small) else { return (range, true) };
        if first - range.start >= LARGE_MANY {
            return (range.start..first, true);
        }
        let small = first..first + (first..range.end).take_while(is_small).count();
        let count: u64 = self.segments[small.clone()].iter().map(|s| s.fingerprints).sum();
        let into_large = small != range || count > self.small_max;
        (small, into_large)
    }

    /// The range without its newest segments, if these are small and a minor part of it: the inputs
    /// of a merge stay in the view until it ends, and each is visited by every look-up, while the
    /// newest can be merged into one much sooner.
    fn without_newest(&self, range: Range<usize>) -> Range<usize> {
        let segments = &self.segments[range.clone()];
        let all: u64 = segments.iter().map(|segment| segment.entries).sum();
        let mut sum = 0;
        let is_little = |segment: &&SegmentSize| {
            sum += segment.entries;
            segment.is_small && sum <= all / LEFT_PART
        };
        let newest = segments.iter().rev().take_while(is_little).count();
        let rest = range.start..range.end - newest;
        if newest >= SMALL_MANY && rest.len() > 1 { rest } else { range }
    }
}

/// The newest sizes to merge so that each of the others has at least `share` percent of all newer
/// ones together. Sizes are given oldest first.
fn out_of_proportion(sizes: &[u64], share: u64) -> Option<Range<usize>> {
    let mut newer = 0_u64;
    let mut from = None;
    for (i, &size) in sizes.iter().enumerate().rev() {
        if newer > 0 && size < newer.saturating_mul(share) / 100 {
            from = Some(i);
        }
        newer += size.max(1);
    }
    let all = from.map(|from| from..sizes.len())?;
    // The oldest are left out where all would not fit into one.
    let mut sum = 0;
    let fits = |size: &u64| {
        sum += size;
        sum <= MERGED_MAX
    };
    let count = sizes[all.clone()].iter().rev().copied().take_while(fits).count();
    (count > 1).then(|| all.end - count..all.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments with these numbers of entries; those of at most `small_max` are small.
    fn levels(small_max: u64, sizes: &[u64]) -> LevelSizes {
        let segment = |&entries: &u64| SegmentSize {
            entries,
            fingerprints: entries,
            is_small: entries <= small_max,
        };
        let segments = sizes.iter().map(segment).collect();
        LevelSizes { segments, tables: Vec::new(), small_max }
    }

    fn merged(levels: &LevelSizes, load: Load) -> Option<Range<usize>> {
        next(levels, load).map(|merge| match merge {
            Merge::Segments { range, .. } | Merge::Tables { range, .. } => range,
        })
    }

    #[test]
    fn sizes_stay_geometric_and_few_while_segments_arrive() {
        let mut levels = levels(4_000, &[]);
        let mut rewritten = 0;
        for _ in 0..4_000 {
            levels.segments.push(SegmentSize { entries: 1, fingerprints: 1, is_small: true });
            while let Some(range) = merged(&levels, Load::Writing) {
                let entries = levels.segments[range.clone()].iter().map(|s| s.entries).sum();
                rewritten += entries;
                let one = SegmentSize { entries, fingerprints: entries, is_small: true };
                levels.segments.splice(range, [one]);
            }
            assert!(levels.segments.len() <= 15, "{levels:?}");
        }
        assert_eq!(levels.segments.iter().map(|segment| segment.entries).sum::<u64>(), 4_000);
        assert!(rewritten < 4_000 * 7, "each entry was rewritten {} times", rewritten / 4_000);
    }

    #[test]
    fn segments_are_merged_where_one_is_too_small_beside_all_newer_ones() {
        for (sizes, writing, idle) in [
            (&[][..], None, None),
            (&[5], None, None),
            (&[100, 10, 10], None, Some(0..3)),
            (&[100, 4, 10], Some(1..3), Some(0..3)),
            (&[4, 10], Some(0..2), Some(0..2)),
            (&[50, 10], None, Some(0..2)),
            (&[101, 10], None, None),
        ] {
            let levels = levels(1_000, sizes);
            assert_eq!(merged(&levels, Load::Writing), writing, "{sizes:?}");
            assert_eq!(merged(&levels, Load::Paused), writing, "{sizes:?}");
            assert_eq!(merged(&levels, Load::Idle), idle, "{sizes:?}");
        }
    }

    #[test]
    fn segments_that_do_not_fit_into_one_are_left_apart() {
        let of = |sizes| merged(&levels(1, sizes), Load::Idle);
        assert_eq!(of(&[2_800_000_000, 800_000_000, 800_000_000]), Some(1..3));
        assert_eq!(of(&[2_800_000_000, 1_600_000_000]), None);
    }

    #[test]
    fn segments_of_one_kind_are_merged_and_large_ones_are_not_forgotten() {
        for (sizes, range, into_large) in [
            // Small ones that fit into a small one, and that do not.
            (&[4, 6][..], 0..2, false),
            (&[6, 9], 0..2, true),
            // Small ones between large ones become a large one first.
            (&[20, 6, 9, 50], 1..3, true),
            (&[20, 9, 90], 1..2, true),
            // Three large ones are merged before small ones become another.
            (&[20, 20, 20, 9, 90], 0..3, true),
        ] {
            let merge = next(&levels(10, sizes), Load::Idle);
            let expected = Merge::Segments { range, into_large, partitioned: false };
            let unpartitioned = merge.map(|merge| match merge {
                Merge::Segments { range, into_large, .. } => {
                    Merge::Segments { range, into_large, partitioned: false }
                }
                tables @ Merge::Tables { .. } => tables,
            });
            assert_eq!(unpartitioned, Some(expected), "{sizes:?}");
        }
    }

    #[test]
    fn the_newest_small_ones_are_left_out_of_a_merge_under_load() {
        for (newest, writing, idle) in
            [(&[8, 8, 8][..], 0..2, 0..5), (&[8, 8], 0..4, 0..4), (&[8, 8, 20], 0..5, 0..5)]
        {
            let sizes = [&[30, 50][..], newest].concat();
            assert_eq!(merged(&levels(256, &sizes), Load::Writing), Some(writing), "{newest:?}");
            assert_eq!(merged(&levels(256, &sizes), Load::Idle), Some(idle), "{newest:?}");
        }
    }

    #[test]
    fn the_newest_are_merged_while_a_larger_merge_runs_or_writes_pause() {
        let levels = levels(NEWEST_MAX * 2, &[NEWEST_MAX, 100, 90, 80]);
        let newest = |running, load| match next_of_newest(&levels, running, load) {
            Some(Merge::Segments { range, .. }) => Some(range),
            _ => None,
        };
        assert_eq!(newest(None, Load::Writing), None);
        assert_eq!(newest(Some(1), Load::Writing), None, "100 is a half of 90 and 80");
        assert_eq!(newest(Some(1), Load::Paused), Some(1..4));
        assert_eq!(newest(Some(2), Load::Paused), Some(2..4));
        assert_eq!(newest(Some(4), Load::Paused), None);
        assert_eq!(newest(None, Load::Paused), Some(1..4), "the oldest has enough");
    }

    #[test]
    fn large_merges_are_partitioned_from_fewer_entries_on_when_idle() {
        for (sizes, load, expected) in [
            (&[70, 200][..], Load::Writing, false),
            (&[150, 361], Load::Writing, false),
            (&[150, 362], Load::Writing, true),
            (&[70, 65], Load::Idle, true),
            (&[65, 65, 65], Load::Idle, true),
        ] {
            let Some(Merge::Segments { partitioned, .. }) = next(&levels(64, sizes), load) else {
                panic!("{sizes:?} are merged");
            };
            assert_eq!(partitioned, expected, "{sizes:?}");
        }
    }

    #[test]
    fn tables_are_merged_first_where_there_are_more_of_them_than_large_segments() {
        let table = |entries| TableSize { entries, dropped: 0 };
        let mut levels = levels(16, &[20, 50]);
        levels.tables = vec![vec![table(20), table(50)]];
        assert!(matches!(next(&levels, Load::Writing), Some(Merge::Segments { .. })));
        levels.tables[0].extend([table(30), table(20)]);
        assert!(matches!(next(&levels, Load::Writing), Some(Merge::Tables { role: 1, .. })));
        // One in eight dropped: the table is rebuilt by itself.
        levels.tables = vec![vec![TableSize { entries: 800, dropped: 100 }]];
        levels.segments.clear();
        let alone = Merge::Tables { role: 1, range: 0..1, partitioned: true };
        assert_eq!(next(&levels, Load::Writing), Some(alone));
        levels.tables[0][0].dropped = 99;
        assert_eq!(next(&levels, Load::Writing), None);
    }

    #[test]
    fn writes_are_slowed_down_gradually_by_what_waits() {
        let arrived = |waiting, all| ARRIVED.delay(waiting, all).as_millis();
        // A million is free, and a sixteenth of many.
        assert_eq!((arrived(0, 0), arrived(1_000_000, 5_000_000)), (0, 0));
        assert_eq!((arrived(6_250_000, 100_000_000), arrived(6_250_000, 50_000_000)), (0, 100));
        assert_eq!((arrived(1_500_000, 10), arrived(3_000_000, 10)), (50, 200));
        assert_eq!((arrived(6_100_000, 10), arrived(u64::MAX, 10)), (500, 500));
        let small = |waiting, all| SMALL.delay(waiting, all).as_millis();
        assert_eq!((small(8_000_000, 20_000_000), small(12_000_000, 20_000_000)), (0, 50));
        assert_eq!((small(12_500_000, 100_000_000), small(25_000_000, 100_000_000)), (0, 100));
    }
}

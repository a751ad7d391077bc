//! The speed of this machine's memory, which limits look-ups.
//!
//! One thread measures arrays like those of the tables (on 2 MiB pages, if the kernel grants them).
//! A look-up loads random cache lines. At best each costs as much as an independent one, at worst
//! as a dependent one, whose address is known only once the line before it has arrived. The cost
//! depends on how much of the array fits in the caches, so several sizes are measured. The quickest
//! of several passes counts, because other work on the machine only adds time.

use std::hint::black_box;
use std::time::Instant;

use nearprint::cli::measure::numbers::{float, ratio};
use nearprint_fingerprint::prefetch;
use nearprint_index::memory::array::Array;
use procfs::process::Process;
use serde::Serialize;

/// Array sizes that are measured in addition to the index: about an L2, an L3, and far more than
/// both.
const SIZES_BYTES: [u64; 3] = [4 << 20, 64 << 20, 1 << 30];
/// The smallest array that is measured; it has huge pages.
const BYTES_MIN: u64 = SIZES_BYTES[0];

/// Passes for each figure. A pass takes about a millisecond: long enough for the clock, and short
/// enough that some are not interrupted.
const PASSES: usize = 32;
/// Lines loaded in a pass, independent and dependent.
const INDEPENDENT_LINES: u64 = 1 << 18;
const DEPENDENT_LINES: u64 = 1 << 14;
/// Words read in sequence in a pass; the next pass continues after them.
const SEQUENTIAL_WORDS: usize = 1 << 20;

/// Words of a cache line.
const LINE: usize = 8;
/// Lines prefetched together: about those of the four queries of a look-up at distance 3.
const PREFETCHED: usize = 128;

/// What the machine does with an array of one size.
#[derive(Debug, Serialize)]
pub(super) struct Limit {
    /// The size of the array.
    pub(super) array_bytes: u64,
    /// The part of it on huge pages, 0 to 1; `None` where the kernel does not say.
    pub(super) huge_pages: Option<f64>,
    /// A random line while many loads are in flight.
    pub(super) independent_line_ns: f64,
    /// A random line whose address is known only after the one before.
    pub(super) dependent_line_ns: f64,
    /// A random line that was prefetched with others, as in look-ups.
    pub(super) prefetched_line_ns: f64,
    /// The next line, when both were prefetched.
    pub(super) next_line_ns: f64,
    /// Reading the array from its start, 10^9 bytes a second.
    pub(super) sequential_gb_s: f64,
}

/// Measures arrays as large as each index, and a few smaller ones.
///
/// Cost: the memory of one array at a time, and about a second for each GiB.
pub(super) fn measure(indexes_bytes: &[u64]) -> Vec<Limit> {
    sizes(indexes_bytes).into_iter().map(limit).collect()
}

fn sizes(indexes_bytes: &[u64]) -> Vec<u64> {
    let round = |bytes: &u64| bytes.next_multiple_of(2 << 20).max(BYTES_MIN);
    let largest = indexes_bytes.iter().map(round).max().unwrap_or(BYTES_MIN);
    let fixed = SIZES_BYTES.into_iter().filter(|&bytes| bytes <= largest);
    let mut sizes: Vec<u64> = indexes_bytes.iter().map(round).chain(fixed).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn limit(bytes: u64) -> Limit {
    let huge_before = huge_page_bytes();
    let array = filled(bytes);
    let huge = huge_before.zip(huge_page_bytes());
    let prefetched_line_ns = prefetched_lines_ns(&array, 1);
    Limit {
        array_bytes: bytes,
        huge_pages: huge.map(|(before, after)| ratio(after.saturating_sub(before), bytes).min(1.0)),
        independent_line_ns: independent_line_ns(&array),
        dependent_line_ns: dependent_line_ns(&array),
        prefetched_line_ns,
        next_line_ns: (prefetched_lines_ns(&array, 2) - prefetched_line_ns).max(0.0),
        sequential_gb_s: sequential_gb_s(&array),
    }
}

/// An array with a random number in each line. Writing to it makes its pages real: untouched ones
/// are all the same page of zeros.
fn filled(bytes: u64) -> Array<u64> {
    let mut array = Array::zeros(bytes as usize / size_of::<u64>());
    let mut state = 0;
    for line in array.chunks_exact_mut(LINE) {
        state = next_random(state);
        line[0] = state;
    }
    array
}

fn independent_line_ns(array: &[u64]) -> f64 {
    let mut at = Walk::new(array);
    quickest_ns(INDEPENDENT_LINES, || {
        (0..INDEPENDENT_LINES).fold(0, |sum: u64, _| sum.wrapping_add(array[at.next(0)]))
    })
}

fn dependent_line_ns(array: &[u64]) -> f64 {
    let mut at = Walk::new(array);
    quickest_ns(DEPENDENT_LINES, || {
        (0..DEPENDENT_LINES).fold(0, |loaded, _| array[at.next(loaded)])
    })
}

/// Prefetches `together` lines at each of some random places while the ones before are read; the
/// time for each place.
fn prefetched_lines_ns(array: &[u64], together: u32) -> f64 {
    let lines: &[[u64; LINE]] = bytemuck::cast_slice(array);
    let mut at = Walk::new(&array[..array.len() - LINE]);
    let (mut now, mut next) = ([0_u32; PREFETCHED], [0_u32; PREFETCHED]);
    quickest_ns(INDEPENDENT_LINES, || {
        let mut sum = 0_u64;
        for _ in 0..INDEPENDENT_LINES / PREFETCHED as u64 {
            std::mem::swap(&mut now, &mut next);
            for place in &mut next {
                *place = (at.next(0) / LINE) as u32;
                (*place..*place + together).for_each(|line| prefetch(lines, line));
            }
            for line in now.iter().flat_map(|&place| place..place + together) {
                sum = sum.wrapping_add(lines[line as usize][0]);
            }
        }
        sum
    })
}

/// A random walk over the lines of an array, a few cycles a step. It continues from pass to pass,
/// or the lines of one pass would be in a cache during the next.
struct Walk {
    state: u64,
    lines: u128,
}

impl Walk {
    fn new(array: &[u64]) -> Self {
        Self { state: 1, lines: (array.len() / LINE) as u128 }
    }

    /// The first word of the next line. It depends on `loaded`, but never runs in a circle.
    fn next(&mut self, loaded: u64) -> usize {
        self.state = next_random(self.state);
        let random = self.state.wrapping_add(loaded);
        ((u128::from(random) * self.lines) >> 64) as usize * LINE
    }
}

/// The generator of Knuth's MMIX. Its upper bits are good, and only these decide the line.
const fn next_random(state: u64) -> u64 {
    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

/// The bytes of this process on huge pages.
fn huge_page_bytes() -> Option<u64> {
    let rollup = Process::myself().ok()?.smaps_rollup().ok()?;
    rollup.memory_map_rollup.0.first()?.extension.map.get("AnonHugePages").copied()
}

fn sequential_gb_s(array: &[u64]) -> f64 {
    let size = SEQUENTIAL_WORDS.min(array.len());
    let mut parts = array.chunks_exact(size).cycle();
    let word_ns = quickest_ns(size as u64, || {
        let part = parts.next().unwrap_or_default();
        part.iter().fold(0, |sum: u64, word| sum.wrapping_add(*word))
    });
    float(size_of::<u64>() as u64) / word_ns
}

/// The nanoseconds for each of `steps`, in the quickest of some passes.
fn quickest_ns(steps: u64, mut pass: impl FnMut() -> u64) -> f64 {
    let passes = (0..PASSES).map(|_| {
        #[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
        let begun = Instant::now();
        black_box(pass());
        begun.elapsed().as_nanos() as u64
    });
    ratio(passes.min().unwrap_or_default().max(1), steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_indexes_and_what_lies_below_the_largest() {
        assert_eq!(sizes(&[]), [4 << 20]);
        assert_eq!(sizes(&[1_000]), [4 << 20]);
        assert_eq!(sizes(&[480_000_001, 48_000_000]), [4 << 20, 46 << 20, 64 << 20, 458 << 20]);
        assert_eq!(sizes(&[5 << 30]).last(), Some(&(5 << 30)));
    }

    #[test]
    fn a_walk_visits_most_lines_and_no_word_beside_them() {
        let array = filled(1 << 16);
        let mut at = Walk::new(&array);
        let lines = array.len() / LINE;
        let mut visited = vec![false; lines];
        let mut loaded = 0;
        for _ in 0..8 * lines {
            let word = at.next(loaded);
            assert_eq!(word % LINE, 0);
            visited[word / LINE] = true;
            loaded = array[word];
        }
        assert!(visited.iter().filter(|visited| **visited).count() > lines * 9 / 10);
    }
}

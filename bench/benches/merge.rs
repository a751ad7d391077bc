//! Merges of segments in this process, for Criterion:
//! `cargo bench -p nearprint-bench --bench merge`.
//!
//! Small segments into a small one and into a large one, large ones into a large one, and their
//! secondary tables. All documents are bare, as the index has them while packed batches arrive.

use std::hint::black_box;
use std::sync::Arc;

use criterion::measurement::WallTime;
use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main,
};
use nearprint_bench::random::Stream;
use nearprint_engine::document::Sequence;
use nearprint_fingerprint::Distance;
use nearprint_index::compaction::merge;
use nearprint_index::compaction::merge::Merged;
use nearprint_index::levels::level::Level;
use nearprint_index::levels::segment::Segment;
use nearprint_index::memory::placed::Placement;
use nearprint_index::plan::Plans;

/// The fingerprints in small segments at one moment of loading ten million.
const SIZES: [u64; 6] = [1_277_000, 1_081_000, 884_000, 851_000, 393_000, 131_000];
/// The newest of them that are merged among themselves.
const NEWEST: usize = 3;
const SEED: u64 = 1;

fn small(plans: &Plans, first: u64, count: u64) -> Arc<Segment> {
    let values = Stream::of("merged", SEED);
    let values = (first..first + count).map(|number| values.number(number));
    Level::of_bare(plans, (Sequence::new(first), count), values).segment
}

fn measure<T>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    (name, count): (&str, u64),
    mut merge: impl FnMut() -> T,
) {
    group.throughput(Throughput::Elements(count));
    group.bench_function(name, |bencher| {
        // Results are dropped outside the timed section.
        bencher.iter_batched(|| (), |()| black_box(merge()), BatchSize::PerIteration);
    });
}

fn merges(criterion: &mut Criterion) {
    let plans = Plans::of(Distance::new(3).expect("below 64"));
    let mut next = 1;
    let segments = SIZES.map(|count| {
        next += count;
        small(&plans, next - count, count)
    });
    let (newest, all) = (&segments[SIZES.len() - NEWEST..], SIZES.iter().sum::<u64>());
    let few = SIZES[SIZES.len() - NEWEST..].iter().sum::<u64>();
    let larges =
        [&segments[..2], &segments[2..]].map(|some| merge::merge(&plans, some, true, false));
    let [one, other] = &larges;
    let large_segments = [&one.segment, &other.segment].map(Arc::clone);
    let tables =
        [one, other].map(|Merged { secondary_tables, .. }| Arc::clone(&secondary_tables[0]));

    let mut group = criterion.benchmark_group("merge");
    group.sample_size(10);
    measure(&mut group, ("small segments into a small one", few), || {
        merge::merge(&plans, newest, false, false)
    });
    measure(&mut group, ("small segments into a large one", all), || {
        merge::merge(&plans, &segments, true, false)
    });
    measure(&mut group, ("large segments", all), || {
        merge::merge(&plans, &large_segments, true, false)
    });
    measure(&mut group, ("other tables", all), || {
        merge::merge_tables(&Placement::Memory, &tables, None)
    });
    group.finish();
}

criterion_group!(benches, merges);
criterion_main!(benches);

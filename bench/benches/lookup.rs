//! Look-ups of an index in this process, and of ids, for Criterion:
//! `cargo bench -p nearprint-bench --bench lookup`.
//!
//! The index and the queries of fingerprints are those of `nearprint-bench lookup`, which also
//! verifies the answers; here what counts is the comparison with an earlier run.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nearprint_bench::data::{Queries, Stored, view_of};
use nearprint_bench::random::Stream;
use nearprint_fingerprint::Distance;
use nearprint_index::id_key::IdKey;
use nearprint_index::levels::ids::IdTable;
use nearprint_index::visibility::Visibility;

const SIZES: [u64; 2] = [10_000, 1_000_000];
const IDS: [u32; 3] = [100_000, 1_000_000, 10_000_000];
const QUERIES: u64 = 10_000;
const SEED: u64 = 1;

fn lookup(criterion: &mut Criterion) {
    let distance = Distance::new(3).expect("below 64");
    for count in SIZES {
        let view = view_of(count, SEED, distance);
        let stored = Stored::random(count, SEED);
        let queries = Queries::aimed_at((&stored, &stored.whole()), QUERIES, distance, SEED);
        let queries = queries.fingerprints;

        let mut group = criterion.benchmark_group("near");
        let mut next = queries.iter().cycle().copied();
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| {
                next.next().map(|query| view.near(black_box(query), distance, &Visibility::DEFAULT))
            });
        });
        group.finish();

        let mut group = criterion.benchmark_group("nearest");
        group.throughput(Throughput::Elements(QUERIES));
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| {
                view.nearest(black_box(&queries), distance, Visibility::DEFAULT).flatten().count()
            });
        });
        group.finish();
    }
}

/// Half of the ids in the queries are stored.
fn id(criterion: &mut Criterion) {
    let keys = Stream::of("ids", SEED);
    let key = |place: u64| IdKey { high: keys.number(place), low: 0 };
    let mut group = criterion.benchmark_group("id");
    for count in IDS {
        let mut sorted: Vec<_> =
            (0..count).map(|document| (key(document.into()), document)).collect();
        sorted.sort_unstable();
        let table = IdTable::from_sorted(sorted.into_iter());
        let asked = Stream::of("asked", SEED);
        let mut places = (0..).map(|number| asked.number(number) % (2 * u64::from(count)));
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| places.next().map(|place| table.get(black_box(key(place)))));
        });
    }
    group.finish();
}

criterion_group!(benches, lookup, id);
criterion_main!(benches);

//! From a text to its fingerprint and sketch, for Criterion:
//! `cargo bench -p nearprint-bench --bench text`.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nearprint_bench::prose::{self, Kind};
use nearprint_text::{analyse_text, content_of_html};

const SIZES: [usize; 2] = [500, 5_000];
const SEED: u64 = 1;

fn text(criterion: &mut Criterion) {
    for (kind, name) in
        [(Kind::English, "english"), (Kind::Chinese, "chinese"), (Kind::Html, "html")]
    {
        let mut group = criterion.benchmark_group(name);
        for bytes in SIZES {
            let document = prose::document(kind, bytes, SEED);
            group.throughput(Throughput::Bytes(document.len() as u64));
            group.bench_function(BenchmarkId::from_parameter(bytes), |bencher| {
                bencher.iter(|| match kind {
                    Kind::English | Kind::Chinese => analyse_text(black_box(&document)),
                    Kind::Html => analyse_text(&content_of_html(black_box(&document))),
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, text);
criterion_main!(benches);

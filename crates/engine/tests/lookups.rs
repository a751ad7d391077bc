//! Promise: a batch is answered as its fingerprints would be one by one, on however many threads.
//! Method: the same documents and a batch of several chunks, on one, two and eight threads.

#[path = "common/options.rs"]
mod common;

use futures_util::future::try_join_all;
use nearprint_engine::{Admission, Durability, Engine, Options, PackedQuery, QueryOptions};
use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_machine::change::PACKED_MAX;
use nearprint_machine::document::Document;
use nearprint_machine::query::Criteria;

const DISTANCE: u8 = 3;
const NO_HIT: u8 = 255;
const STORED: u64 = 12_000;

fn distance() -> Distance {
    Distance::new(DISTANCE).expect("at most 64")
}

fn options(directory: &std::path::Path, lookup_threads: usize) -> Options {
    Options {
        lookup_threads,
        durability: Durability::None,
        delta_events: 4_096,
        journal_file_bytes: 1 << 24,
        ..common::options(directory)
    }
}

fn stored(number: u64) -> Fingerprint {
    Fingerprint::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// More than three chunks: at every distance from 0 to 4 of a stored one, in turn, then others.
fn batch() -> Vec<Fingerprint> {
    let flipped = |number: u64| {
        let bits = (1_u64 << (number % 5)) - 1;
        Fingerprint::new(stored(number % (STORED * 2)).bits() ^ bits << (number % 60))
    };
    (0..3 * PACKED_MAX as u64 + 700).map(flipped).collect()
}

async fn filled(directory: &std::path::Path, threads: usize) -> Engine {
    let engine = Engine::open(options(directory, threads)).expect("it opens");
    for first in (0..STORED).step_by(4_000) {
        let chunk: Vec<_> = (first..first + 4_000).map(stored).collect();
        let pending =
            engine.begin_insert_packed(chunk, Admission::Wait).await.expect("it has its place");
        pending.wait().await.expect("it is stored");
    }
    engine
}

async fn one_by_one(engine: &Engine, queries: &[Fingerprint]) -> Vec<u8> {
    let criteria = Criteria::within(distance());
    let options = QueryOptions { criteria, limit: 1, with_metadata: false };
    let mut nearest = Vec::new();
    for &query in queries {
        let findings = engine.query(&Document::bare(query), options).await.expect("it is answered");
        nearest.push(findings.hits.first().map_or(NO_HIT, |hit| hit.distance.get()));
    }
    nearest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_answered_as_one_by_one_on_any_number_of_threads() {
    let queries = batch();
    for threads in [1, 2, 8] {
        let directory = tempfile::tempdir().unwrap();
        let engine = filled(directory.path(), threads).await;
        let share = engine.share();
        let chunks = queries.chunks(PACKED_MAX).map(<[_]>::to_vec);
        let query = PackedQuery { namespace: None, criteria: Criteria::within(distance()) };
        let answers = chunks.map(|chunk| engine.nearest_scheduled(&share, chunk, &query));
        let answers = try_join_all(answers).await.unwrap().concat();
        assert_eq!(answers, one_by_one(&engine, &queries).await, "{threads} threads");
        assert!((0..=DISTANCE).chain([NO_HIT]).all(|answer| answers.contains(&answer)));
        engine.close();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn verdicts_of_a_batch_do_not_depend_on_the_number_of_threads() {
    let mut verdicts = Vec::new();
    for threads in [1, 2, 8] {
        let directory = tempfile::tempdir().unwrap();
        let engine = filled(directory.path(), threads).await;
        let share = engine.share();
        let mut pending = Vec::new();
        for chunk in batch().chunks(PACKED_MAX).map(<[_]>::to_vec) {
            let criteria = Criteria::within(distance());
            let begun = engine
                .begin_check_and_insert_packed(&share, chunk, criteria, Admission::Wait)
                .await;
            pending.push(begun.unwrap().wait());
        }
        verdicts.push(try_join_all(pending).await.unwrap().concat());
        engine.close();
    }
    assert!(verdicts[0].contains(&NO_HIT) && verdicts[0].contains(&0));
    assert!(verdicts.iter().all(|of_threads| *of_threads == verdicts[0]));
}

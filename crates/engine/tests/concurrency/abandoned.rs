//! Promise: a client that leaves does no harm: its write took effect as a whole or not at all, its
//! permit of the queue is given back, and repeating the write shows which. Method: writes dropped
//! at each point of their path, among clients that stay.

use std::collections::BTreeSet;

use futures_util::future::poll_immediate;
use nearprint_engine::{Admission, Durability, Engine, Verdict};
use nearprint_machine::document::DocumentId;

use super::{DEADLINE, Random, document, engine, query_options};

const WRITES: u64 = 3_000;

fn bits(number: u64) -> u64 {
    Random(number).next()
}

/// Begins a write and drops it: before it has its permit, or between journal and reply.
async fn leave(engine: &Engine, number: u64) {
    let document = document(Some(number.to_string()), bits(number));
    let begun =
        Box::pin(engine.begin_check_and_insert(document, query_options(), false, Admission::Wait));
    match number % 3 {
        // Never polled, or polled once and then dropped.
        0 => drop(begun),
        1 => drop(poll_immediate(begun).await),
        _ => drop(begun.await.expect("it has its place")),
    }
}

async fn stay(engine: &Engine, number: u64) -> Verdict {
    let document = document(Some(number.to_string()), bits(number));
    let begun = engine.begin_check_and_insert(document, query_options(), false, Admission::Wait);
    let written = tokio::time::timeout(DEADLINE, async {
        begun.await.expect("it has its place").wait().await.expect("it is answered")
    });
    written.await.expect("every place was given back").written.verdict
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_leaves_the_state_right() {
    let directory = tempfile::tempdir().unwrap();
    let first = engine(directory.path(), Durability::Always);
    for number in 0..WRITES {
        leave(&first, number).await;
        if number % 10 == 0 {
            assert_eq!(stay(&first, WRITES + number).await, Verdict::Inserted);
        }
    }
    // Behind everything in the queue.
    stay(&first, 3 * WRITES).await;
    let mut stored = BTreeSet::new();
    for number in 0..WRITES {
        let id = DocumentId::new(number.to_string()).unwrap();
        let there = first.document(None, &id).await.unwrap().is_some();
        // A write with a permit took effect; one that was never polled did not.
        match number % 3 {
            0 => assert!(!there, "{number} was never sent"),
            2 => assert!(there, "{number} had its place"),
            _ => {}
        }
        let again = stay(&first, number).await;
        let expected = if there { Verdict::AlreadyPresent } else { Verdict::Inserted };
        assert_eq!(again, expected, "{number}");
        stored.insert(number);
    }
    let documents = first.stats().documents;
    assert_eq!(documents, stored.len() as u64 + WRITES / 10 + 1);
    tokio::task::spawn_blocking(move || first.close()).await.unwrap();

    let second = engine(directory.path(), Durability::Always);
    assert_eq!(second.stats().documents, documents, "after a restart");
    tokio::task::spawn_blocking(move || second.close()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_future_that_is_dropped_while_it_waits_for_a_place_holds_none() {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(directory.path(), Durability::Always);
    // Each needs all permits.
    let all = || vec![nearprint_fingerprint::Fingerprint::new(7); 4_096];
    for _ in 0..200 {
        let mut waiting: Vec<_> =
            (0..20).map(|_| Box::pin(engine.begin_insert_packed(all(), Admission::Wait))).collect();
        for begun in &mut waiting {
            if let Some(pending) = poll_immediate(begun).await {
                drop(pending.expect("it has its place"));
            }
        }
    }
    assert_eq!(stay(&engine, 1).await, Verdict::Inserted);
    tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
}

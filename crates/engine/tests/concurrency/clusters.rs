//! Promise: of concurrent check-and-inserts of near-identical documents exactly one wins, every
//! loser gets the id of the winner, also when it repeats its request. Method: 64 clients, well
//! separated clusters of eight documents within two bits, all members of a cluster sent at one
//! time.

use std::sync::Arc;

use nearprint_engine::{Admission, Durability, Engine, Findings, Verdict, Written};
use tokio::sync::Barrier;

use super::{Random, document, engine, query_options, runs};

/// The first waits for the disk and the second has ids; `make torture` makes 200 runs.
const RUNS: u64 = 4;
const CLUSTERS: usize = 10_000;
const MEMBERS: usize = 8;
const CLIENTS: usize = 64;
/// Clusters that 64 clients race for at one time.
const ABREAST: usize = CLIENTS / MEMBERS;
/// After this many clusters, all members of one repeat their request.
const RETRIED: usize = 16;

/// The member of a cluster that a client sends in a round.
fn member(seed: u64, cluster: usize, member: usize) -> (String, u64) {
    let center = Random(seed ^ (cluster as u64) << 20).next();
    (format!("{cluster}/{member}"), center ^ 1 << (member * 7))
}

/// The reply to a client.
type Answer = (Written, Findings);

async fn send(engine: &Engine, seed: u64, cluster: usize, number: usize) -> Answer {
    let (id, bits) = member(seed, cluster, number);
    let document = document(has_ids(seed).then_some(id), bits);
    let begun = engine.begin_check_and_insert(document, query_options(), false, Admission::Wait);
    let checked = begun.await.expect("it has its place").wait().await.expect("it is answered");
    let shown = checked.found.show(usize::MAX).await.expect("its records are read");
    (checked.written, shown.into_findings())
}

/// Ids are read from the journal for every answer; most runs go without, and are mostly races.
fn has_ids(seed: u64) -> bool {
    seed % 10 == 1
}

/// One client: in each round it sends one member of one of the clusters abreast.
async fn client(
    engine: Engine,
    seed: u64,
    number: usize,
    start: Arc<Barrier>,
) -> Vec<(usize, usize, Answer)> {
    let mut answers = Vec::new();
    for first in (0..CLUSTERS).step_by(ABREAST) {
        let cluster = first + number / MEMBERS;
        if first % (ABREAST * 50) == 0 {
            // Together again, or the quickest would win everything.
            start.wait().await;
        }
        // Who sends which member differs from round to round.
        let member = (number + first) % MEMBERS;
        answers.push((cluster, member, send(&engine, seed, cluster, member).await));
    }
    answers
}

/// The winner in the reply to a loser: its only hit.
fn winner_of(findings: &Findings) -> (u64, Option<String>) {
    let hits = &findings.hits;
    assert_eq!(hits.len(), 1, "{findings:?}");
    let id = hits[0].documents.first().and_then(|document| document.id.as_ref());
    let id = id.map(|id| id.as_str().to_owned());
    (hits[0].fingerprint.bits(), id)
}

async fn race(seed: u64, durability: Durability) {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(directory.path(), durability);
    let start = Arc::new(Barrier::new(CLIENTS));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(client(engine.clone(), seed, number, Arc::clone(&start))))
        .collect();
    let named = |cluster: usize, number: usize| {
        let (id, bits) = member(seed, cluster, number);
        (bits, has_ids(seed).then_some(id))
    };
    let mut winners: Vec<Option<(u64, Option<String>)>> = vec![None; CLUSTERS];
    let mut losers = Vec::new();
    for client in clients {
        for (cluster, number, (written, findings)) in client.await.unwrap() {
            match written.verdict {
                Verdict::Inserted => {
                    let second = winners[cluster].replace(named(cluster, number));
                    assert_eq!(second, None, "cluster {cluster}, seed {seed}: two winners");
                }
                Verdict::Duplicate { stored: false } => {
                    losers.push((cluster, winner_of(&findings)));
                }
                other @ (Verdict::AlreadyPresent
                | Verdict::Refreshed
                | Verdict::Replaced
                | Verdict::Duplicate { stored: true }) => {
                    panic!("{other:?}, cluster {cluster}, seed {seed}")
                }
            }
        }
    }
    assert!(winners.iter().all(Option::is_some), "seed {seed}: each cluster has one winner");
    assert_eq!(losers.len(), CLUSTERS * (MEMBERS - 1));
    for (cluster, named) in losers {
        assert_eq!(winners[cluster].as_ref(), Some(&named), "cluster {cluster}, seed {seed}");
    }
    for cluster in (0..CLUSTERS).step_by(RETRIED) {
        for number in 0..MEMBERS {
            let (again, findings) = send(&engine, seed, cluster, number).await;
            if has_ids(seed) && winners[cluster] == Some(named(cluster, number)) {
                assert_eq!(again.verdict, Verdict::AlreadyPresent);
            } else {
                assert_eq!(again.verdict, Verdict::Duplicate { stored: false });
                assert_eq!(winners[cluster], Some(winner_of(&findings)));
            }
        }
    }
    assert_eq!(engine.stats().documents, CLUSTERS as u64);
    tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_near_duplicates_exactly_one_wins() {
    for run in 0..RUNS * runs() {
        // The races are in memory; one run in ten waits for the disk in each group.
        let durability = if run % 10 == 0 { Durability::Always } else { Durability::None };
        race(run, durability).await;
    }
}

//! Many clients at once: one winner, no lost write.

use std::sync::Barrier;

use serde_json::{Value, json};

use crate::support::{Server, hex, ids};

/// The replies of `clients` threads that start together.
pub(crate) fn together(clients: usize, ask: impl Fn(usize) -> Value + Sync) -> Vec<Value> {
    let start = Barrier::new(clients);
    std::thread::scope(|scope| {
        let client = |number| {
            let (start, ask) = (&start, &ask);
            scope.spawn(move || {
                start.wait();
                ask(number)
            })
        };
        let threads: Vec<_> = (0..clients).map(client).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn count(replies: &[Value], outcome: &str) -> usize {
    replies.iter().filter(|reply| reply["outcome"] == outcome).count()
}

#[test]
fn of_64_concurrent_near_identical_documents_exactly_one_is_inserted() {
    let server = Server::start();
    for cluster in 0..20_u64 {
        // Pairwise at most 2 bits apart, and far from every other cluster.
        let base = cluster.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let replies = together(64, |client| {
            let id = format!("{cluster}/{client}");
            let body = json!({"id": id, "fingerprint": hex(base ^ (1 << client))});
            server.post("/v1/check-and-insert", &body).json()
        });
        assert_eq!(count(&replies, "inserted"), 1, "cluster {cluster}");
        assert_eq!(count(&replies, "duplicate"), 63);
        let winner = replies.iter().position(|reply| reply["outcome"] == "inserted").unwrap();
        let winner = json!([format!("{cluster}/{winner}")]);
        let losers = replies.iter().filter(|reply| reply["outcome"] == "duplicate");
        assert!(losers.into_iter().all(|reply| ids(&reply["hits"][0]) == winner));
    }
}

/// Over HTTP what `crates/engine/tests/concurrency` does in process: 64 clients on connections of
/// their own, all members of a cluster sent at about one time.
#[test]
fn each_of_ten_thousand_clusters_has_one_winner() {
    const CLUSTERS: u64 = 10_000;
    const MEMBERS: u64 = 8;
    let server = Server::start();
    let member = |cluster: u64, number: u64| {
        let mixed = (cluster + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let center = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hex(center ^ 1 << (number * 7))
    };
    let replies = together(64, |client| {
        let mut connection = server.connect();
        let client = client as u64;
        let answers = (0..CLUSTERS / MEMBERS).map(|round| {
            let cluster = round * MEMBERS + client / MEMBERS;
            let body = json!({"fingerprint": member(cluster, (client + round) % MEMBERS)});
            let headers = [("content-type", "application/json")];
            let body = body.to_string();
            connection.send("POST /v1/check-and-insert", &headers, body.as_bytes()).json()
        });
        Value::from(answers.collect::<Vec<_>>())
    });
    let of_cluster = |cluster: u64| {
        let round = (cluster / MEMBERS) as usize;
        let clients = (cluster % MEMBERS * MEMBERS) as usize..;
        let replies = replies[clients].iter().take(MEMBERS as usize);
        replies.map(move |replies| replies[round].clone()).collect::<Vec<_>>()
    };
    for cluster in 0..CLUSTERS {
        let replies = of_cluster(cluster);
        assert_eq!(count(&replies, "inserted"), 1, "cluster {cluster}");
        let winner = replies.iter().find(|reply| reply["outcome"] == "inserted").unwrap();
        let losers = replies.iter().filter(|reply| reply["outcome"] == "duplicate");
        let right = losers.filter(|r| r["hits"][0]["fingerprint"] == winner["fingerprint"]).count();
        assert_eq!(right, MEMBERS as usize - 1, "cluster {cluster}");
    }
}

#[test]
fn concurrent_retries_of_one_document_store_it_once() {
    let server = Server::start();
    let replies = together(64, |_| {
        let body = json!({"id": "same", "fingerprint": hex(1)});
        server.post("/v1/check-and-insert", &body).json()
    });
    assert_eq!((count(&replies, "inserted"), count(&replies, "already_present")), (1, 63));
    assert_eq!(server.get("/v1/stats").json()["documents"], 1);
}

#[test]
fn concurrent_inserts_all_get_their_own_sequence() {
    let server = Server::start();
    let replies = together(64, |client| server.insert(&client.to_string(), &hex(client as u64)));
    let mut sequences: Vec<_> = replies.iter().map(|r| r["sequence"].as_u64().unwrap()).collect();
    sequences.sort_unstable();
    assert_eq!(sequences, (1..=64).collect::<Vec<_>>());
}

#[test]
fn batches_and_single_writers_race_for_one_winner() {
    let server = Server::start();
    let replies = together(8, |client| {
        let line = |i: u64| json!({"id": format!("{client}/{i}"), "fingerprint": hex(i << 32)});
        let lines: Vec<_> = (0..100).map(|i| format!("{}\n", line(i))).collect();
        Value::from(server.post_lines("/v1/check-and-insert/batch", &lines.concat()))
    });
    for i in 0..100 {
        let of_line: Vec<_> = replies.iter().map(|replies| replies[i].clone()).collect();
        let total = count(&of_line, "inserted") + count(&of_line, "duplicate");
        assert_eq!(total, 8);
    }
    let stored = server.get("/v1/stats").json()["documents"].as_u64().unwrap() as usize;
    let won: usize =
        replies.iter().map(|replies| count(replies.as_array().unwrap(), "inserted")).sum();
    assert_eq!(stored, won);
}

//! A cluster of real processes: three nodes and a log on NATS, on loopback and in temporary
//! directories. Nodes are killed, stopped, paused, emptied and left behind; whatever was answered
//! is on all of them in the end.
//!
//! The log alone is tested in `nats_log`. `NEARPRINT_TEST_NATS_SERVER` names its program
//! (`nats-server` without it), which tools/test installs from `PyPI`. Without it the tests are
//! skipped, unless `NEARPRINT_TEST_PROGRAMS` is `required`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests have deadlines, pause processes and lay out their files"
)]

mod checker;
mod commands;
mod faults;
mod hosts;
mod jobs;
mod lost_log;
mod nats_log;
mod network;
mod nodes;
mod requests;
mod servers;
#[expect(dead_code, reason = "other tests use more of it")]
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use nodes::{Cluster, OverAtEnd};

/// Anything that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(90);

#[test]
fn who_leads_may_die_or_stop_and_whoever_comes_back_catches_up() {
    let Some(mut cluster) = Cluster::start(3) else { return };
    cluster.write("first");
    cluster.until_equal();

    let killed = cluster.leader();
    cluster.kill(killed);
    cluster.write("after the kill");
    assert_ne!(cluster.leader(), killed);
    cluster.begin(killed);
    cluster.until_equal();

    let stopped = cluster.leader();
    assert!(cluster.terminate(stopped).success(), "{}", cluster.log(stopped));
    cluster.write("after the stop");
    assert_ne!(cluster.leader(), stopped);
    cluster.begin(stopped);
    cluster.until_equal();

    let emptied = cluster.follower();
    assert!(cluster.terminate(emptied).success(), "{}", cluster.log(emptied));
    cluster.write("while it is away");
    cluster.empty(emptied);
    cluster.begin(emptied);
    cluster.until_equal();

    for at in 0..3 {
        cluster.kill(at);
    }
    for at in 0..3 {
        cluster.begin(at);
    }
    cluster.write("after all were killed");
    cluster.until_equal();
    assert_eq!(cluster.documents(0), cluster.written(), "nothing else, and nothing twice");
}

/// It wakes up with writes that it had decided, and with requests that were sent meanwhile.
#[test]
fn a_leader_that_was_paused_comes_back_as_a_follower_with_equal_content() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.write("first");
    for round in 0..3 {
        cluster.until_equal();
        let paused = cluster.leader();
        let (clients, is_over) = (cluster.clients(), AtomicBool::new(false));
        let (next, is_over) = (&AtomicU64::new(1_000 * (round + 1)), &is_over);
        let answered: Vec<String> = thread::scope(|scope| {
            let writers = (0..8).map(|writer| {
                let client = clients[if writer < 6 { paused } else { writer % 3 }].clone();
                scope.spawn(move || {
                    let mut answered = Vec::new();
                    while !is_over.load(Ordering::Relaxed) {
                        let id = format!("w-{}", next.fetch_add(1, Ordering::Relaxed));
                        let reply = client.post("/v1/insert", &nodes::document(&id));
                        if matches!(reply, Ok((200, _))) {
                            answered.push(id);
                        }
                    }
                    answered
                })
            });
            let writers: Vec<_> = writers.collect();
            let over = OverAtEnd(is_over);
            cluster
                .until("some writes are answered", |cluster| cluster.sequence(paused) > Some(20));
            cluster.signal(paused, "STOP");
            cluster.until("another leads", |cluster| {
                (0..3).any(|at| at != paused && cluster.state(at).as_deref() == Some("leading"))
            });
            cluster.signal(paused, "CONT");
            cluster.until("it is no leader", |cluster| {
                cluster.state(paused).as_deref() == Some("following")
            });
            drop(over);
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        assert!(cluster.runs(paused), "{}", cluster.log(paused));
        cluster.until_equal();
        let stored = cluster.documents(paused);
        let lost: Vec<_> = answered.iter().filter(|id| !stored.contains(*id)).collect();
        assert!(lost.is_empty(), "answered, and not stored: {lost:?}");
    }
}

#[test]
fn a_node_that_lacks_what_the_log_has_discarded_is_filled_again() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.write("first");
    cluster.until_equal();
    let behind = cluster.follower();
    assert!(cluster.terminate(behind).success(), "{}", cluster.log(behind));
    store_megabytes(&cluster);
    cluster.log_servers().change_stream(|stream| stream.max_bytes = 1 << 20);
    cluster.begin(behind);
    cluster.until("it copies a node", |cluster| {
        cluster.log(behind).contains("copied another service")
    });
    cluster.until_level();
}

/// About 2 MB of changes.
fn store_megabytes(cluster: &Cluster) {
    for round in 0..6 {
        let line = |number| {
            let id = format!("{round}-{number}");
            json!({"id": format!("{id:0250}"), "fingerprint": nodes::fingerprint(&id)})
        };
        let lines: Vec<_> = (0..1_000).map(line).collect();
        cluster.store(&lines);
    }
}

/// Their positions are old, and nobody else has anything.
#[test]
fn nodes_that_were_all_killed_read_on_from_where_a_small_log_begins() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.write("first");
    cluster.until_equal();
    let file = |cluster: &Cluster, at| cluster.data(at).join("cluster");
    let stored = [0, 1, 2].map(|at| fs::read(file(&cluster, at)).unwrap());
    store_megabytes(&cluster);
    cluster.until_level();
    for (at, stored) in stored.iter().enumerate() {
        cluster.kill(at);
        // It is replaced after each snapshot, and here there are many.
        fs::write(file(&cluster, at), stored).unwrap();
    }
    cluster.log_servers().change_stream(|stream| stream.max_bytes = 1 << 20);
    (0..3).for_each(|at| cluster.begin(at));
    cluster.write("after all were killed");
    cluster.until_equal();
    assert_eq!(cluster.documents(0).len(), 6_002);
    assert!((0..3).all(|at| cluster.log(at).contains("reads on from there")));
}

#[test]
fn an_append_that_was_refused_is_told_in_the_status() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.write("first");
    cluster.until_equal();
    assert!((0..3).all(|at| cluster.last_refused(at).is_none()));
    cluster.log_servers().change_stream(|stream| stream.sealed = true);
    let refused = |cluster: &Cluster| {
        (0..3).find(|at| cluster.last_refused(*at).is_some_and(|why| why.contains("sealed")))
    };
    cluster.until("a node tells what was refused", |cluster| refused(cluster).is_some());
    let at = refused(&cluster).unwrap();
    let shown = cluster.run(at, "status", &["--json"]).stdout;
    let shown = String::from_utf8(shown).unwrap();
    let rows = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let whys = rows.map(|row| row["last_refused"]["why"].to_string()).collect::<Vec<_>>();
    assert!(whys.iter().any(|why| why.contains("sealed")), "{whys:?}");
}

#[test]
fn a_node_warns_at_its_start_if_it_does_not_find_itself_at_its_address() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.write("first");
    cluster.until_equal();
    let warned = "does not find itself at its address";
    assert!((0..3).all(|at| !cluster.log(at).contains(warned)));
    let address = "http://127.0.0.1:1";
    assert!(cluster.terminate(0).success(), "{}", cluster.log(0));
    cluster.begin_with(0, &[("NEARPRINT_CLUSTER__ADDRESS", address)]);
    cluster.until("it warns", |cluster| {
        let log = cluster.log(0);
        log.contains(warned) && log.contains(address) && log.contains("set cluster.address")
    });
}

/// It leads for a moment, alone, and moves the time of all documents on. Then it is gone.
#[test]
fn a_leader_with_a_fast_clock_says_why_it_does_not_lead_and_others_do() {
    let Some(library) = std::env::var("NEARPRINT_TEST_LIBFAKETIME").ok() else { return };
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.write("first");
    cluster.until_equal();
    (0..3).for_each(|at| assert!(cluster.terminate(at).success(), "{}", cluster.log(at)));
    let fast = [
        ("LD_PRELOAD", library.as_str()),
        ("FAKETIME", "+90s"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
    ];
    cluster.begin_with(0, &fast);
    cluster.until("it says why it does not lead", |cluster| {
        let why = cluster.lead_fault(0).unwrap_or_default();
        why.contains("s ahead of that of the log") && cluster.state(0).unwrap() == "following"
    });
    cluster.kill(0);
    cluster.begin(1);
    cluster.begin(2);
    cluster.write("after a leader with a fast clock");
    assert_eq!([1, 2].map(|at| cluster.lead_fault(at)), [None, None]);
    cluster.begin_with(0, &fast);
    cluster.until_equal();
    assert_ne!(cluster.leader(), 0);
}

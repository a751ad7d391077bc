//! A real server in a process of its own, with real documents, killed and stopped under load.
//!
//! Several clients insert, check and insert, remove and query, singly and in batches, each keeping
//! a ledger of what was answered. The server is killed at a random time; after its restart the
//! ledgers must agree with it: every acknowledged write is stored, every verdict is the same when
//! its request is sent again, and what was not answered is there wholly or not at all.
//!
//! What is done to the server, each in a file of its own: it is killed at a random time (`kill`)
//! and in each of its system calls (`syscalls`) and in each call of a pack (`reclaim`), its disk is
//! full (`disk_full`), its files are removed (`data_files`), the power goes (`power_cut`, and
//! `power_states` from a record of its calls), it is killed while it removes documents
//! (`removals`), it is followed by another one (`follower`), it is stopped while it works (`stop`),
//! and its clock is set (`clock`). What its log has is in `log_lines`, and what its clients can do
//! to it in `edge`. `NEARPRINT_TEST_SEED` repeats a run.

mod clock;
mod commands;
mod corpus;
mod data_files;
mod disk_full;
mod edge;
mod follower;
mod kill;
mod load;
mod log_lines;
mod power_cut;
mod power_states;
mod random;
mod reclaim;
mod record;
mod recorded_disk;
mod removals;
mod stop;
mod strace;
#[expect(dead_code, reason = "other tests use more of it")]
#[path = "../support/mod.rs"]
mod support;
mod syscalls;
mod worker;

use std::process::Stdio;
use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};

use load::{compare, pause, under_load, workers};
use random::Random;
use support::server::{self, Client, Server};

/// How often the server is stopped under load; 500 times in `make torture`.
const STOPS: u64 = 5;

#[test]
fn sigterm_under_load_exits_with_0_and_loses_nothing() {
    let mut random = Random::of_run();
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let mut workers = workers(6, &mut random);
    for _ in 0..random::variable("NEARPRINT_TEST_STOPS").unwrap_or(STOPS) {
        let server = Server::start(data);
        workers = under_load(workers, &server, |server| {
            pause(20 + random.below(200));
            let ended = server.terminate();
            assert!(ended.success(), "{ended}\n{}", server::log(data));
        });
        let server = Server::start(data);
        compare(&mut workers, &server.client());
        server.kill();
    }
}

#[test]
fn an_empty_server_is_restarted_and_answers_at_once() {
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let query = json!({"text": "nothing like these words was ever stored in this place"});
    for clean in [true, false, true] {
        let server = Server::start(data);
        let reply = Client::expect(server.client().post("/v1/query", &query));
        assert_eq!((&reply["duplicate"], &reply["hit_count"]), (&json!(false), &json!(0)));
        if clean {
            assert!(server.terminate().success());
        } else {
            server.kill();
        }
    }
}

#[test]
fn statistics_after_a_restart_equal_those_before() {
    let mut random = Random::of_run();
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let counts = |client: &Client| {
        let stats = Client::expect(client.get("/v1/stats"));
        ["documents", "sequence"].map(|name| stats[name].clone())
    };
    let lines: Vec<Value> = (0..500)
        .map(|at| json!({"id": format!("id-{}", at % 400), "fingerprint": random.next() % 300}))
        .collect();
    let server = Server::start(data);
    assert_eq!(server.client().post_lines("/v1/insert/batch", &lines).len(), 500);
    Client::expect(server.client().delete("/v1/documents/id-7"));
    let before = counts(&server.client());
    server.kill();

    let server = Server::start(data);
    assert_eq!(counts(&server.client()), before, "after SIGKILL: from the journal");
    assert!(server.terminate().success());

    let server = Server::start(data);
    assert_eq!(counts(&server.client()), before, "after SIGTERM: from the snapshot");
}

#[test]
fn a_second_process_on_the_same_directory_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let first = Server::start(data);

    let mut second = Server::command(data);
    let second = second.stderr(Stdio::piped()).output().unwrap();

    let said = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success(), "{said}");
    assert!(said.contains("error: "), "{said}");
    assert_eq!(first.client().get("/readyz").unwrap().0, 200, "the first goes on");
}

#[test]
fn of_64_concurrent_near_duplicates_exactly_one_is_inserted() {
    let mut random = Random::of_run();
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data.path().join("data"));
    for _ in 0..8 {
        let base = random.next();
        let start = Barrier::new(64);
        let replies: Vec<Value> = thread::scope(|scope| {
            // Two of these differ in two bits at most.
            let clients = (0..64_u32).map(|bit| {
                let (client, start) = (server.client(), &start);
                scope.spawn(move || {
                    let bits = format!("{:016x}", base ^ 1 << bit);
                    let body = json!({"id": format!("{base:x}-{bit}"), "fingerprint": bits});
                    start.wait();
                    Client::expect(client.post("/v1/check-and-insert", &body))
                })
            });
            let clients: Vec<_> = clients.collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });

        let winners: Vec<_> =
            replies.iter().filter(|reply| reply["outcome"] == "inserted").collect();
        assert_eq!(winners.len(), 1, "{replies:#?}");
        let winner = &winners[0]["fingerprint"];
        for loser in replies.iter().filter(|reply| reply["outcome"] != "inserted") {
            assert_eq!(loser["outcome"], "duplicate");
            assert_eq!(&loser["hits"][0]["fingerprint"], winner);
        }
    }
}

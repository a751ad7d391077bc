//! A real server in a process of its own, with real documents, killed and stopped under load.
//!
//! Several clients insert, check and insert, remove and query, singly and in batches, each keeping
//! a ledger of what was answered. The server is killed at a random time; after its restart the
//! ledgers must agree with it: every answered write is there, every verdict holds when its request
//! is sent again, and what was not answered is there wholly or not at all.
//!
//! `NEARPRINT_TEST_KILL_CYCLES` says how often (10; `make torture` 50), `NEARPRINT_TEST_SEED`
//! repeats a run.

mod commands;
mod corpus;
mod random;
mod server;
mod worker;

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use random::Random;
use server::{Client, Server};
use worker::Worker;

const WORKERS: usize = 6;
const CYCLES_DEFAULT: u64 = 10;

#[test]
fn an_answered_write_survives_being_killed_and_every_verdict_holds() {
    let mut random = Random::of_run();
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let mut workers = workers(&mut random);
    let cycles = random::variable("NEARPRINT_TEST_KILL_CYCLES").unwrap_or(CYCLES_DEFAULT);
    let mut verdicts = 0;
    for cycle in 1..=cycles {
        if random.below(4) == 0 {
            kill_during_recovery(data, &mut random);
        }
        let server = Server::start(data);
        workers = under_load(workers, &server, |server| {
            pause(200 + random.below(800));
            server.kill();
        });

        let server = Server::start(data);
        verdicts += compare(&mut workers, &server.client());
        server.kill();
        let answered: u64 = workers.iter().map(Worker::answered).sum();
        println!("cycle {cycle}: {answered} writes answered, {verdicts} verdicts repeated");
    }
    let answered: u64 = workers.iter().map(Worker::answered).sum();
    assert!(answered > 20 * cycles, "only {answered} writes were answered: this proves nothing");
    assert!(verdicts > 0);
}

#[test]
fn sigterm_under_load_exits_with_0_and_loses_nothing() {
    let mut random = Random::of_run();
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let mut workers = workers(&mut random);
    for _ in 0..3 {
        let server = Server::start(data);
        workers = under_load(workers, &server, |server| {
            pause(200 + random.below(400));
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
        ["documents", "fingerprints", "sequence"].map(|name| stats[name].clone())
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

fn workers(random: &mut Random) -> Vec<Worker> {
    let corpus = Arc::new(corpus::documents());
    (0..WORKERS).map(|name| Worker::new(name, random.next(), Arc::clone(&corpus))).collect()
}

/// Lets all workers send requests until `end` has ended the server.
fn under_load(workers: Vec<Worker>, server: &Server, end: impl FnOnce(&Server)) -> Vec<Worker> {
    let client = server.client();
    thread::scope(|scope| {
        let running: Vec<_> = workers
            .into_iter()
            .map(|worker| {
                let client = client.clone();
                scope.spawn(move || worker.run(&client))
            })
            .collect();
        end(server);
        running.into_iter().map(|worker| worker.join().expect("its assertions hold")).collect()
    })
}

/// Starts a server and kills it before it can have recovered, or just after.
fn kill_during_recovery(data: &Path, random: &mut Random) {
    let mut child = Server::command(data).stdout(Stdio::null()).spawn().expect("the binary starts");
    pause(random.below(60));
    child.kill().expect("it is our child");
    child.wait().expect("it is our child");
}

/// Holds the ledgers against the server; how many verdicts were repeated.
fn compare(workers: &mut [Worker], client: &Client) -> usize {
    let stats = Client::expect(client.get("/v1/stats"));
    let sequence = stats["sequence"].as_u64().expect("a number");
    for worker in &mut *workers {
        worker.check_documents(client, sequence);
    }
    let all: HashMap<String, usize> = workers.iter().flat_map(Worker::stored).collect();
    let check = |worker: &mut Worker| {
        worker.check_queries(client, &all);
        worker.check_verdicts(client, &all)
    };
    workers.iter_mut().map(check).sum()
}

/// Lets the load run for a while: how much of it is done by then is what shall vary.
fn pause(ms: usize) {
    let (_never, nothing) = mpsc::channel::<()>();
    let ended = nothing.recv_timeout(Duration::from_millis(ms as u64));
    assert_eq!(ended, Err(mpsc::RecvTimeoutError::Timeout));
}

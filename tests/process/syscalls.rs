//! Promise: a process that ends in any system call, or whose disk fails in any sync, has lost
//! nothing that was answered. Method: `strace` kills the server in the N-th durable call of a
//! thread, or makes its N-th sync fail or take long; then everything is compared after a start
//! without it.

use std::path::Path;
use std::process::ExitStatus;

use serde_json::json;

use crate::load::{answered, compare, pause, under_load, workers};
use crate::random::{self, Random};
use crate::strace::{self, ThreadFault};
use crate::support::server::{self, Server};
use crate::worker::Worker;

const WORKERS: usize = 4;
/// From call 10 on, the server is killed in every 40th call; `make torture` takes each call.
const STEP: u64 = 40;
const CALLS: u64 = 300;
const FAILING_SYNCS: u64 = 50;
/// Every 7th sync fails; `make torture` takes each sync.
const FAILING_STEP: u64 = 7;
/// For a server to end by itself; a hang is a failure.
const TIMEOUT_MS: usize = 20_000;
/// A thread may not reach some calls in this time; then the test kills it.
const REACHED_MS: usize = 3_000;

/// Puts load on a server until it ends, at most for so long; how it ended, if it did.
fn until_it_ends(
    running: Vec<Worker>,
    server: &Server,
    most_ms: usize,
) -> (Vec<Worker>, Option<ExitStatus>) {
    let mut ended = None;
    let running = under_load(running, server, |server| {
        for _ in 0..most_ms / 10 {
            ended = server.ended();
            if ended.is_some() {
                break;
            }
            pause(10);
        }
        if ended.is_none() {
            server.kill();
        }
    });
    (running, ended)
}

fn compared(running: &mut [Worker], data: &Path) {
    let server = Server::start(data);
    compare(running, &server.client());
    server.kill();
}

#[test]
fn a_kill_in_any_durable_call_loses_nothing_that_was_answered() {
    if !strace::is_here() {
        return;
    }
    let mut random = Random::of_run();
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let mut running = workers(WORKERS, &mut random);
    let step = random::variable("NEARPRINT_TEST_CALL_STEP").unwrap_or(STEP);
    for calls in strace::DURABLE {
        let (mut kills, mut at) = (0, 1);
        while at <= CALLS {
            let command = strace::command(calls, &format!("signal=KILL:when={at}"), data);
            // Killed before it listens: in its recovery.
            let mut was_killed = true;
            if let Some(server) = Server::of(command) {
                let ended;
                (running, ended) = until_it_ends(running, &server, REACHED_MS);
                was_killed = ended.is_some();
            }
            compared(&mut running, data);
            kills += u64::from(was_killed);
            if !was_killed {
                println!("{calls}: no thread comes to call {at} in time");
                break;
            }
            // The first calls, of recovery and rotation, one by one.
            at += if at < 10 { 1 } else { step };
        }
        println!("{calls}: {kills} kills, {} writes answered", answered(&running));
        assert!(kills > 5, "{calls}: only {kills} kills");
    }
    assert!(answered(&running) > 100, "too few writes were answered: this proves nothing");
}

#[test]
fn a_failed_sync_ends_the_process_and_loses_nothing_that_was_answered() {
    if !strace::is_here() {
        return;
    }
    let mut random = Random::of_run();
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let mut running = workers(WORKERS, &mut random);
    let step = random::variable("NEARPRINT_TEST_CALL_STEP").unwrap_or(FAILING_STEP);
    for at in (1..=FAILING_SYNCS).step_by(step as usize) {
        let command = strace::command("fdatasync", &format!("error=EIO:when={at}"), data);
        if let Some(server) = Server::of(command) {
            let ended;
            (running, ended) = until_it_ends(running, &server, TIMEOUT_MS);
            let ended =
                ended.unwrap_or_else(|| panic!("sync {at}: it goes on\n{}", server::log(data)));
            assert_eq!(ended.code(), Some(1), "sync {at}: {ended}");
        }
        compared(&mut running, data);
    }
    assert!(answered(&running) > 100, "too few writes were answered: this proves nothing");
}

/// A thread that answers a request wakes the runtime with a write; when that fails, the runtime
/// panics in the thread that was to answer.
#[test]
fn a_panic_in_an_engine_thread_ends_the_process_and_loses_nothing_that_was_answered() {
    if !strace::is_here() {
        return;
    }
    let mut random = Random::of_run();
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let mut running = workers(WORKERS, &mut random);
    for thread in ["writer", "snapshots"] {
        let server = Server::start(data);
        let Some(fault) = ThreadFault::into_thread(&server, thread, "write:error=EIO:when=1")
        else {
            return;
        };
        let client = server.client();
        let ended;
        let asking = std::thread::spawn(move || {
            // Each is answered by the thread that takes snapshots, until it panics.
            while client.post("/v1/snapshots", &json!({})).is_ok() {}
        });
        (running, ended) = until_it_ends(running, &server, TIMEOUT_MS);
        asking.join().unwrap();
        drop(fault);
        let said = server::log(data);
        let ended = ended.unwrap_or_else(|| panic!("{thread}: it goes on\n{said}"));
        assert_eq!(ended.code(), Some(1), "{thread}: {ended}\n{said}");
        assert!(said.contains(&format!("thread '{thread}' ")), "{thread} panicked:\n{said}");
        compared(&mut running, data);
    }
    assert!(answered(&running) > 10, "too few writes were answered: this proves nothing");
}

/// Workers assert that each reply is a success, or 503 while the queue is full.
#[test]
fn syncs_of_200_ms_lose_nothing_and_are_shared() {
    if !strace::is_here() {
        return;
    }
    let mut random = Random::of_run();
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let running = workers(32, &mut random);
    let server = Server::of(strace::command("fdatasync", "delay_exit=200000", data)).unwrap();
    let mut running = under_load(running, &server, |server| {
        pause(4_000);
        server.kill();
    });
    // Twenty syncs, one after the other; alone, each would be for one write.
    let answered = answered(&running);
    assert!(answered > 40, "{answered} writes in twenty syncs");
    compared(&mut running, data);
}

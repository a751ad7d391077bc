//! Promise: an acknowledged write survives `kill -9`, and every verdict stays true. Method: 32
//! clients with mixed requests, the server killed at a random time, also while it recovers; then
//! everything is compared. A mutant that loses the end of its journal must be caught by the same
//! comparison.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::load::{answered, compare, pause, under_load, until_answered, workers};
use crate::random::{self, Random};
use crate::support::server::Server;
use crate::worker::Worker;

const WORKERS: usize = 32;
/// `make torture` makes 3,000 of them.
const CYCLES: u64 = 5;
/// The writes that are answered before each kill; fewer would prove little.
const ANSWERS_MIN: u64 = 21;
/// What a server would lose that answers before it has written: more than one group of all workers.
const FORGOTTEN_BYTES: u64 = 40_000;

/// Puts load on a server and kills it.
fn killed(workers: Vec<Worker>, data: &Path, random: &mut Random) -> Vec<Worker> {
    let server = Server::start(data);
    let enough = until_answered(ANSWERS_MIN, &workers);
    under_load(workers, &server, |server| {
        enough();
        pause(50 + random.below(250));
        // What has not ended leaves nothing behind.
        let begun = server.client().post("/v1/groups", &json!({"all_namespaces": true}));
        begun.expect("the server runs");
        server.kill();
    })
}

/// Starts a server and kills it before it can have recovered, or just after.
fn kill_during_recovery(data: &Path, random: &mut Random) {
    let mut child = Server::command(data).stdout(Stdio::null()).spawn().expect("the binary starts");
    pause(random.below(60));
    child.kill().expect("it is our child");
    child.wait().expect("it is our child");
}

#[test]
fn an_answered_write_survives_being_killed_and_every_verdict_holds() {
    let mut random = Random::of_run();
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let mut workers = workers(WORKERS, &mut random);
    let cycles = random::variable("NEARPRINT_TEST_KILL_CYCLES").unwrap_or(CYCLES);
    let (mut verdicts, mut in_recovery) = (0, 0);
    for cycle in 1..=cycles {
        if random.below(4) == 0 {
            kill_during_recovery(data, &mut random);
            in_recovery += 1;
        }
        workers = killed(workers, data, &mut random);
        let server = Server::start(data);
        verdicts += compare(&mut workers, &server.client());
        server.kill();
        if cycle % 50 == 0 || cycle == cycles {
            let answered = answered(&workers);
            println!(
                "{cycle} kills and {in_recovery} in recoveries: {answered} writes answered, \
                 {verdicts} verdicts repeated"
            );
        }
    }
    let answered = answered(&workers);
    assert!(answered > 20 * cycles, "only {answered} writes were answered: this proves nothing");
    assert!(verdicts > 0);
}

/// Takes the end off the newest journal file, as if it had never been written.
fn forget(data: &Path) {
    let entries = std::fs::read_dir(data).expect("the server made it");
    let journals = entries.map(|entry| entry.expect("readable").path());
    let journals = journals.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
    let newest = journals.max().expect("there is a journal");
    let file = std::fs::File::options().write(true).open(newest).expect("nobody has it");
    let length = file.metadata().expect("it is open").len();
    file.set_len(length.saturating_sub(FORGOTTEN_BYTES).max(68)).expect("it is shortened");
}

#[test]
fn a_server_that_forgets_is_caught_within_ten_kills() {
    let mut random = Random::of_run();
    let caught = (1..=10).find(|_| {
        let data = tempfile::tempdir().unwrap();
        let data = &data.path().join("data");
        let mut workers = killed(workers(WORKERS, &mut random), data, &mut random);
        forget(data);
        let server = Server::of(Server::command(data));
        let compared = catch_unwind(AssertUnwindSafe(|| {
            compare(&mut workers, &server.as_ref().expect("it starts").client())
        }));
        compared.is_err()
    });
    println!("caught by kill {caught:?}");
    assert!(caught.is_some(), "the comparison proves nothing");
}

/// Kills a reindex after a random time, or lets it end; then the directory must have everything.
#[test]
fn a_directory_whose_reindex_is_killed_opens_with_everything() {
    let mut random = Random::of_run();
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let mut workers = killed(workers(WORKERS, &mut random), data, &mut random);
    let mut ended = 0;
    for cycle in 0..CYCLES {
        let distance = if cycle % 2 == 0 { "6" } else { "3" };
        let mut reindex = Command::new(env!("CARGO_BIN_EXE_nearprint"));
        reindex.args(["reindex", "--distance", distance, "--data"]).arg(data);
        let mut reindex = reindex.stdout(Stdio::null()).spawn().expect("the binary starts");
        if cycle + 2 < CYCLES {
            pause(random.below(60));
            // It may have ended by itself.
            drop(reindex.kill());
        }
        let status = reindex.wait().expect("it is our child");
        ended += u64::from(status.success());
        assert_ne!(status.code(), Some(1), "it was killed or succeeded");
        let server = Server::start(data);
        compare(&mut workers, &server.client());
        server.kill();
    }
    assert!(ended >= 2, "the last two are not killed");
}

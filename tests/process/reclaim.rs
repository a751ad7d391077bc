//! Promise: the space of replaced or removed records is freed while the server runs, within the
//! documented bound; a process that ends in the middle of it loses nothing. Method: a few documents
//! replaced many times and most of them removed, on a real disk under the default policy; the size
//! of the directory; `strace` kills the server in each durable call of a pack.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::load::pause;
use crate::strace;
use crate::support::server::{self, Client, Server};

const DOCUMENTS: u64 = 1_000;
/// Every tenth of these is there at the end.
const KEPT_EVERY: u64 = 10;
/// The size of a journal file in the small runs.
const FILE_BYTES: u64 = 1 << 20;
/// Frame, kind, time, flags, fingerprint, id.
const RECORD_BYTES: u64 = 60 + 1 + 8 + 1 + 8 + 1_000;
/// A bound for a test that hangs, 50 ms each.
const LOOKS_MAX: u32 = 2_400;

fn id(number: u64) -> String {
    format!("{number:01000}")
}

fn fingerprint(number: u64, round: u64) -> String {
    format!("{:016x}", (number << 32 | round).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Stores documents as they are in a round; whether all were answered.
fn store(client: &Client, numbers: impl Iterator<Item = u64>, round: u64) -> bool {
    let line = |number| json!({"id": id(number), "fingerprint": fingerprint(number, round)});
    let lines: Vec<Value> = numbers.map(line).collect();
    let replies = client.post_lines("/v1/insert/batch", &lines);
    replies.len() == lines.len() && replies.iter().all(|reply| reply["stored"] == json!(true))
}

/// Its fingerprint, if it is there.
fn stored(client: &Client, number: u64) -> Option<String> {
    let (status, document) =
        client.get(&format!("/v1/documents/{}", id(number))).expect("it is up");
    (status == 200).then(|| document["fingerprint"].as_str().expect("a text").to_owned())
}

fn assert_stored(client: &Client, round: u64) {
    for number in 0..DOCUMENTS {
        let expected = (number % KEPT_EVERY == 0).then(|| fingerprint(number, round));
        assert_eq!(stored(client, number), expected, "document {number}");
    }
    let stats = Client::expect(client.get("/v1/stats"));
    assert_eq!(stats["documents"], DOCUMENTS / KEPT_EVERY);
}

/// Bytes of the files whose names begin with one of these.
fn bytes(data: &Path, prefixes: &[&str]) -> u64 {
    let files = std::fs::read_dir(data).expect("it is there").map(|entry| entry.expect("listed"));
    let counted = files.filter(|entry| {
        let name = entry.file_name().into_string().expect("ASCII");
        prefixes.iter().any(|prefix| name.starts_with(prefix))
    });
    // What was removed meanwhile has no size.
    counted.map(|entry| entry.metadata().map_or(0, |metadata| metadata.len())).sum()
}

fn records_of(data: &Path) -> u64 {
    bytes(data, &["journal-", "records-"])
}

fn reclaimed(client: &Client) -> u64 {
    let stats = Client::expect(client.get("/v1/stats"));
    stats["journal"]["reclaimed_bytes"].as_u64().expect("a number")
}

/// A server with all defaults, but for a size of journal files.
fn command(data: &Path, file_bytes: Option<u64>) -> Command {
    let mut command = Server::command(data);
    command.env_remove("NEARPRINT_ENGINE__SNAPSHOT_CHANGES");
    command.env_remove("NEARPRINT_ENGINE__SNAPSHOT_INTERVAL_MS");
    if let Some(bytes) = file_bytes {
        command.env("NEARPRINT_ENGINE__JOURNAL_FILE_BYTES", bytes.to_string());
    }
    command
}

/// Waits until the records take at most this many bytes.
fn wait_for(data: &Path, bound: u64) {
    for look in 0.. {
        if records_of(data) <= bound {
            return;
        }
        assert!(
            look < LOOKS_MAX,
            "{} bytes, not {bound}:\n{}",
            records_of(data),
            server::log(data)
        );
        pause(50);
    }
}

/// Documents replaced in each round and most of them removed in the end, then a kill and a start.
fn replaced_and_removed(file_bytes: Option<u64>, rounds: u64, bound: u64) {
    let folder = tempfile::tempdir().expect("the disk has space");
    let data = &folder.path().join("data");
    let server = Server::of(command(data, file_bytes)).expect("it starts");
    let client = server.client();
    for round in 0..rounds {
        assert!(store(&client, 0..DOCUMENTS, round));
    }
    for number in (0..DOCUMENTS).filter(|number| number % KEPT_EVERY != 0) {
        Client::expect(client.delete(&format!("/v1/documents/{}", id(number))));
    }
    wait_for(data, bound);
    // Shown once the last file of a sweep has been removed.
    while reclaimed(&client) + bound < rounds * DOCUMENTS * RECORD_BYTES {
        pause(50);
    }
    assert_stored(&client, rounds - 1);
    server.kill();

    let server = Server::of(command(data, file_bytes)).expect("it starts again");
    assert_stored(&server.client(), rounds - 1);
    assert!(server.terminate().success());
    assert!(records_of(data) <= bound);
    let index = bytes(data, &["segment-", "table-", "snapshot-"]);
    assert!(index < 1 << 20, "snapshots of {index} bytes");
}

/// The bound is that of `docs/disk-format.md`: twice the records of what is stored, and eight
/// steps.
#[test]
fn the_journal_takes_twice_what_is_stored_and_eight_steps_at_most() {
    let live = DOCUMENTS / KEPT_EVERY * RECORD_BYTES;
    let bound = 2 * live + 8 * (FILE_BYTES / 2);
    replaced_and_removed(Some(FILE_BYTES), 40, bound);
}

#[test]
fn space_is_given_back_with_the_settings_that_come_with_it() {
    // 65 MB are written; of these, steps of 16 MiB.
    replaced_and_removed(None, 60, 45 << 20);
}

/// Replaces documents with 60 KB of metadata, and starts the server again before their space is
/// reclaimed: what it knows of the sizes of records does not end with the process.
#[test]
fn large_records_from_before_a_restart_are_reclaimed() {
    const METADATA_BYTES: usize = 60_000;
    let folder = tempfile::tempdir().expect("the disk has space");
    let data = &folder.path().join("data");
    let start = || {
        let mut command = command(data, Some(FILE_BYTES));
        command.env("NEARPRINT_DOCUMENTS__METADATA_BYTES_MAX", "65536");
        Server::of(command).expect("it starts")
    };
    let metadata = json!({"text": "x".repeat(METADATA_BYTES)});
    let line = |number| json!({"id": id(number), "fingerprint": number, "metadata": metadata});
    let lines: Vec<Value> = (0..20).map(line).collect();
    let server = start();
    for _ in 0..10 {
        assert_eq!(server.client().post_lines("/v1/insert/batch", &lines).len(), lines.len());
    }
    server.kill();

    let server = start();
    let live = 20 * (METADATA_BYTES as u64 + RECORD_BYTES);
    wait_for(data, 2 * live + 8 * (FILE_BYTES / 2));
    let journal = &Client::expect(server.client().get("/v1/stats"))["journal"];
    assert!(journal["live_bytes"].as_u64().expect("a number") <= 2 * live, "{journal}");
    server.kill();
}

#[test]
fn files_of_which_all_is_needed_are_not_touched() {
    let folder = tempfile::tempdir().expect("the disk has space");
    let data = &folder.path().join("data");
    let server = Server::of(command(data, Some(65_536))).expect("it starts");
    let client = server.client();
    for part in 0..10 {
        assert!(store(&client, part * 100..(part + 1) * 100, 0));
        Client::expect(client.post("/v1/snapshots", &json!({})));
    }
    pause(1_000);
    assert_eq!(reclaimed(&client), 0);
    assert_eq!(bytes(data, &["records-"]), 0, "nothing is rewritten");
    let stats = Client::expect(client.get("/v1/stats"));
    assert_eq!(stats["journal"]["live_bytes"], stats["journal"]["bytes"]);
    server.kill();
}

/// A server that is killed in the `at`-th of these calls on a file of its directory.
fn killed_at(data: &Path, file: &str, call: &str, at: u64) -> Command {
    let (trace, file) = (format!("trace={call}"), data.join(file).display().to_string());
    let inject = format!("inject={call}:signal=KILL:when={at}");
    let runner = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-P", &file];
    let runner = [&runner[..], &["-e", &trace, "-e", &inject]].concat();
    let mut command = Server::command_under(&runner, data);
    command.env("NEARPRINT_ENGINE__JOURNAL_FILE_BYTES", "65536");
    command
}

/// Documents that are replaced until space is given back, or the server is killed in that; whether
/// it was killed. Every answered write is there after a start.
fn is_killed_at(file: &str, call: &str, at: u64) -> bool {
    const NUMBERS: u64 = 50;
    let folder = tempfile::tempdir().expect("the disk has space");
    let data = &folder.path().join("data");
    // The calls that create the directory are not meant.
    Server::start(data).kill();
    let server = Server::of(killed_at(data, file, call, at)).expect("it starts");
    let client = server.client();
    let (mut round, mut answered, mut given_back) = (0, None, 0);
    while server.ended().is_none() && given_back == 0 {
        if store(&client, 0..NUMBERS, round) {
            answered = Some(round);
        }
        round += 1;
        let stats = client.get("/v1/stats").ok();
        given_back = stats.map_or(0, |(_, stats)| {
            stats["journal"]["reclaimed_bytes"].as_u64().expect("a number")
        });
    }
    server.kill();
    let server = Server::start(data);
    let answered = answered.expect("a round was answered");
    for number in 0..NUMBERS {
        // One of the rounds that were not answered may be there, in part.
        let expected = (answered..=round).map(|round| fingerprint(number, round));
        let stored = stored(&server.client(), number).expect("it is there");
        assert!(expected.into_iter().any(|one| one == stored), "{number} of {answered}: {stored}");
    }
    assert!(store(&server.client(), 0..NUMBERS, round));
    server.kill();
    given_back == 0
}

#[test]
fn a_kill_in_any_durable_call_of_a_pack_loses_nothing_that_was_answered() {
    if !strace::is_here() {
        return;
    }
    let pack = "records-00000000000000000001.tmp";
    // The last file that the pack replaces.
    let old = "journal-00000000000000000001.log";
    let calls = [
        (pack, "openat", 1),
        (pack, "pwrite64", 2),
        (pack, "fdatasync", 1),
        (pack, "rename", 1),
        (old, "unlink", 1),
    ];
    for (file, call, expected) in calls {
        let kills = (1..100).take_while(|&at| is_killed_at(file, call, at)).count();
        assert!(kills >= expected, "{kills} kills in {call} of {file}");
    }
}

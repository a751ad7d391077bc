//! Promise: once a clock that was wrong is right again, expiry, age and the times that are shown
//! are right within a second, also after restarts; a start whose clock is far behind what is stored
//! is refused, and names the way. Method: a real server whose clock libfaketime sets.

#![expect(
    clippy::disallowed_methods,
    reason = "the test sets the clock of its server, and compares it with its own"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::load::pause;
use crate::support::server::{self, Client, Server};
use crate::support::wait::until;

/// How far a time may be from that of the test, which is not measured: a minute, of hours and
/// years.
const NEAR_S: u64 = 60;

/// Clocks that are wrong.
const AHEAD: [&str; 3] = ["+7200", "+631152000", "@2107-01-01 00:00:00"];
const BEHIND: [&str; 2] = ["-7200", "@1970-01-02 00:00:00"];

/// The clock of servers on a data directory of their own.
struct Clock {
    library: PathBuf,
    file: PathBuf,
    folder: tempfile::TempDir,
}

impl Clock {
    /// A right one; `None` without the library.
    fn right() -> Option<Self> {
        let library = library()?;
        let folder = tempfile::tempdir().expect("the disk has space");
        let clock = Self { library, file: folder.path().join("clock"), folder };
        clock.set("+0");
        Some(clock)
    }

    /// Sets it, also for a server that runs: an offset in seconds, or `@` and a time.
    fn set(&self, to: &str) {
        let next = self.file.with_extension("next");
        fs::write(&next, format!("{to}\n")).expect("the disk has space");
        fs::rename(next, &self.file).expect("it is there");
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self) -> Command {
        let mut command = Server::command(&self.data());
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1")
            .env("TZ", "UTC");
        command
    }

    fn start(&self) -> Server {
        let server = Server::of(self.command());
        server.unwrap_or_else(|| panic!("it does not start; it says:\n{}", self.log()))
    }

    fn start_accepting(&self) -> Server {
        let mut command = self.command();
        command.arg("--accept-time");
        Server::of(command).unwrap_or_else(|| panic!("it does not start:\n{}", self.log()))
    }

    /// A start that is refused because of the clock.
    fn expect_refusal(&self) {
        assert!(Server::of(self.command()).is_none(), "a start with a wrong clock");
        let log = self.log();
        let said = log.lines().rev().take(3).collect::<Vec<_>>().join("\n");
        for word in ["the newest change", "date -u", "nearprint serve --accept-time"] {
            assert!(said.contains(word), "{word} is not in\n{said}");
        }
    }

    fn log(&self) -> String {
        server::log(&self.data())
    }
}

/// The library that sets the clocks of processes. `tools/test` installs and names it.
#[expect(clippy::print_stdout, reason = "why a test did nothing")]
fn library() -> Option<PathBuf> {
    const NAME: &str = "faketime/libfaketimeMT.so.1";
    if let Some(named) = std::env::var_os("NEARPRINT_TEST_LIBFAKETIME") {
        assert!(Path::new(&named).exists(), "{} is not there", named.display());
        return Some(named.into());
    }
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let found = folders.map(|folder| folder.path().join(NAME)).find(|path| path.exists());
    if found.is_none() {
        println!("skipped: no libfaketime here; next: apt-get install libfaketime");
    }
    found
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

fn fingerprint(number: u64) -> String {
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Stores a document under an id that is its number, and returns status and reply.
fn insert(client: &Client, number: u64, expires_in: Option<u64>) -> (u16, Value) {
    let mut document = json!({"id": number.to_string(), "fingerprint": fingerprint(number)});
    if let Some(seconds) = expires_in {
        document["expires_in"] = json!(seconds);
    }
    client.post("/v1/insert", &document).expect("the server is up")
}

fn stored(client: &Client, number: u64) -> Option<Value> {
    let (status, document) = client.get(&format!("/v1/documents/{number}")).expect("it is up");
    assert!([200, 404].contains(&status), "{document}");
    (status == 200).then_some(document)
}

fn is_found(client: &Client, number: u64, max_age: u64) -> bool {
    let query = json!({"fingerprint": fingerprint(number), "distance": 0, "max_age": max_age});
    Client::expect(client.post("/v1/query", &query))["duplicate"] == json!(true)
}

/// Waits until the server has noticed that its clock was set back.
fn until_right(client: &Client) {
    until("the newest change is no later than the clock", || {
        let stats = Client::expect(client.get("/v1/stats"));
        let clock = &stats["clock"];
        let is_near = clock["now_ms"].as_u64().unwrap_or(0) / 1_000 + NEAR_S >= now_s();
        is_near && clock["behind_ms"] == json!(0)
    });
}

/// Checks what is stored from now on, under numbers from `first` on.
fn expect_right_times(client: &Client, first: u64, what: &str) {
    let [soon, later, plain] = [first, first + 1, first + 2];
    for (number, expires_in) in [(soon, Some(2)), (later, Some(3_600)), (plain, None)] {
        let (status, reply) = insert(client, number, expires_in);
        assert_eq!((status, &reply["stored"]), (200, &json!(true)), "{what}: {reply}");
    }
    let at = |document: &Value, field: &str, unit: u64| {
        let at = document[field].as_u64().expect("a number") / unit;
        at.abs_diff(now_s())
    };
    let document = stored(client, later).unwrap_or_else(|| panic!("{what}: it is gone at once"));
    assert!(at(&document, "stored_at_ms", 1_000) < NEAR_S, "{what}: {document}");
    assert!(at(&document, "expires_at", 1).abs_diff(3_600) < NEAR_S, "{what}: {document}");
    until(&format!("{what}: what lives two seconds expires"), || stored(client, soon).is_none());
    until(&format!("{what}: a document gets too old"), || !is_found(client, plain, 1));
    assert!(is_found(client, plain, 600) && stored(client, later).is_some(), "{what}");
}

/// A clock that is wrong for a moment.
fn wrong_for_a_moment(wrong: &str) {
    let Some(clock) = Clock::right() else { return };
    let server = clock.start();
    let client = server.client();
    assert_eq!(insert(&client, 1, None).0, 200);
    assert_eq!(insert(&client, 2, Some(3_600)).0, 200);
    clock.set(wrong);
    assert_eq!(insert(&client, 3, None).0, 200);
    let (status, reply) = insert(&client, 4, Some(3_600));
    if wrong.contains("2107") {
        assert_eq!((status, &reply["code"]), (500, &json!("clock_beyond_expiries")), "{reply}");
        assert!(stored(&client, 4).is_none());
    } else {
        assert_eq!((status, &reply["stored"]), (200, &json!(true)), "{reply}");
        assert!(stored(&client, 4).is_some(), "{wrong}");
    }
    until("it is logged", || clock.log().contains("the clock was set"));
    clock.set("+0");
    expect_right_times(&client, 10, wrong);
    assert!(stored(&client, 2).is_some(), "{wrong}: its hour is not over");
    assert!(is_found(&client, 1, 600), "{wrong}: stored a minute ago");
    server.kill();
    let server = clock.start();
    expect_right_times(&server.client(), 20, &format!("{wrong}, after a restart"));
    assert!(is_found(&server.client(), 1, 600), "{wrong}: stored a minute ago, before a restart");
    assert!(server.terminate().success());
    let server = clock.start();
    expect_right_times(&server.client(), 30, &format!("{wrong}, after a stop"));
    assert!(is_found(&server.client(), 1, 600), "{wrong}: stored a minute ago, before a stop");
}

#[test]
fn times_are_right_once_a_clock_that_ran_ahead_is() {
    AHEAD.into_iter().for_each(wrong_for_a_moment);
}

#[test]
fn times_are_right_once_a_clock_that_ran_behind_is() {
    BEHIND.into_iter().for_each(wrong_for_a_moment);
}

#[test]
fn a_clock_that_is_set_right_while_nobody_writes_lets_the_next_start_through() {
    let Some(clock) = Clock::right() else { return };
    let server = clock.start();
    clock.set("@2107-01-01 00:00:00");
    assert_eq!(insert(&server.client(), 1, None).0, 200);
    clock.set("+0");
    until_right(&server.client());
    server.kill();
    let server = clock.start();
    expect_right_times(&server.client(), 10, "after a restart");
}

#[test]
fn a_start_far_behind_what_is_stored_is_refused_until_it_is_told_which_time_is_right() {
    for wrong in AHEAD {
        let Some(clock) = Clock::right() else { return };
        clock.set(wrong);
        let server = clock.start();
        assert_eq!(insert(&server.client(), 1, None).0, 200);
        server.kill();
        clock.set("+0");
        clock.expect_refusal();
        // The clock was right: it is set back, and the directory opens.
        clock.set(wrong);
        clock.start().kill();
        clock.set("+0");
        let server = clock.start_accepting();
        expect_right_times(&server.client(), 10, &format!("{wrong}, accepted"));
        until_right(&server.client());
        server.kill();
        let server = clock.start();
        expect_right_times(&server.client(), 20, &format!("{wrong}, and started again"));
    }
}

/// The documents that a server keeps in memory and on disk, hits or not.
fn kept(server: &Server) -> Value {
    Client::expect(server.client().get("/v1/stats"))["documents"].clone()
}

#[test]
fn a_start_with_a_clock_that_runs_ahead_loses_no_document_that_expires() {
    let Some(clock) = Clock::right() else { return };
    let server = clock.start();
    for number in 1..=5 {
        assert_eq!(insert(&server.client(), number, Some(86_400)).0, 200);
    }
    // These have expired before the clock is wrong.
    assert_eq!(insert(&server.client(), 6, Some(1)).0, 200);
    assert!(server.terminate().success());
    clock.set("+172800");
    let server = clock.start();
    assert!(stored(&server.client(), 1).is_none(), "no hits meanwhile");
    // Enough changes for a snapshot, which must hold them as well.
    let lines: Vec<Value> =
        (100..1_200).map(|number| json!({"fingerprint": fingerprint(number)})).collect();
    assert_eq!(server.client().post_lines("/v1/insert/batch", &lines).len(), lines.len());
    pause(2_500);
    assert_eq!(kept(&server), 6 + lines.len());
    assert!(server.terminate().success());
    clock.set("+0");
    let server = clock.start_accepting();
    assert!((1..=5).all(|number| stored(&server.client(), number).is_some()), "they are back");
    assert!(stored(&server.client(), 6).is_none());
}

#[test]
fn what_has_expired_is_removed_once_the_clock_is_trusted() {
    let Some(clock) = Clock::right() else { return };
    let mut command = clock.command();
    command.env("NEARPRINT_ENGINE__EXPIRED_KEPT_MS", "1");
    let server = Server::of(command).expect("it starts");
    assert_eq!(insert(&server.client(), 1, Some(1)).0, 200);
    until("it is removed", || kept(&server) == 0);
}

#[test]
fn a_clock_at_1970_is_refused_and_harmless_if_it_is_accepted() {
    let Some(clock) = Clock::right() else { return };
    let server = clock.start();
    assert_eq!(insert(&server.client(), 1, None).0, 200);
    assert_eq!(insert(&server.client(), 2, Some(3_600)).0, 200);
    assert!(server.terminate().success());
    clock.set("@1970-01-01 00:00:01");
    clock.expect_refusal();
    let server = clock.start_accepting();
    let client = server.client();
    assert_eq!(insert(&client, 3, None).0, 200);
    clock.set("+0");
    expect_right_times(&client, 10, "the clock was at 1970");
    assert!(stored(&client, 2).is_some() && is_found(&client, 1, 600));
    server.kill();
    let server = clock.start();
    expect_right_times(&server.client(), 20, "and after a restart");
    assert!(is_found(&server.client(), 1, 600));
}

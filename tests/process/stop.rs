//! Promise: a signal ends the process in order, within its grace, whatever it is doing, and a
//! second one ends it at once; nothing acknowledged is lost. Method: clients that never read their
//! replies, and system calls that `strace` makes take minutes.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::strace::{self, ThreadFault};
use crate::support::server::{self, Client, Server};
use crate::support::wait::{until, until_within};

/// A grace that no test waits for, in milliseconds.
const LONG_GRACE: &str = "600000";

/// Sends lines with long replies until the socket takes no more, and reads none.
fn unread(server: &Server) -> TcpStream {
    let address = server.url().trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("the server runs");
    stream.set_write_timeout(Some(Duration::from_millis(500))).expect("it is open");
    let head = "POST /v1/fingerprint/batch?explain=true HTTP/1.1\r\nhost: localhost\r\n\
        content-type: application/x-ndjson\r\ncontent-length: 1000000000\r\n\r\n";
    let lines = "{\"text\":\"some words to explain at length\"}\n".repeat(1_000);
    stream.write_all(head.as_bytes()).expect("the socket takes a head");
    while stream.write_all(lines.as_bytes()).is_ok() {}
    stream
}

#[test]
fn a_second_signal_ends_a_stop_that_waits_and_loses_nothing() {
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let mut command = Server::command(data);
    command.env("NEARPRINT_SERVER__SHUTDOWN_GRACE_MS", LONG_GRACE);
    command.env("NEARPRINT_SERVER__BODY_TIMEOUT_MS", LONG_GRACE);
    let server = Server::of(command).expect("it starts");
    Client::expect(server.client().post("/v1/insert", &json!({"id": "a", "fingerprint": 1})));
    let _unread = unread(&server);
    server.signal("TERM");
    until("the stop", || server::log(data).contains("stopping"));
    assert!(server.ended().is_none(), "it waits for the reply to be read");
    let ended = server.terminate();
    assert_eq!(ended.code(), Some(1), "{ended}");
    let log = server::log(data);
    assert!(log.contains("a second signal ended the stop"), "{log}");
    let server = Server::start(data);
    Client::expect(server.client().get("/v1/documents/a"));
}

/// Whether the process runs the server, and handles SIGTERM.
fn handles_signals(process: u32) -> bool {
    const TERM: u32 = 1 << 14;
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let caught = u64::from_str_radix(field("SigCgt:").trim(), 16).unwrap_or_default();
    field("Name:").trim() == "nearprint" && caught & u64::from(TERM) != 0
}

#[test]
fn a_signal_during_recovery_ends_it_in_order() {
    if !strace::is_here() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let server = Server::start(data);
    Client::expect(server.client().post("/v1/insert", &json!({"id": "a", "fingerprint": 1})));
    server.kill();
    let files = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    let journal = files
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("journal-"))
        .max()
        .unwrap();
    // The recovery waits for each of these calls on the journal, and so does the tracer when the
    // process ends meanwhile: no longer than the test does.
    let runner = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-P", journal.to_str().unwrap()];
    let calls = "openat,read,pread64";
    let (trace, inject) = (format!("trace={calls}"), format!("inject={calls}:delay_enter=4000000"));
    let runner = [&runner[..], &["-e", &trace, "-e", &inject]].concat();
    let mut recovering = Server::command_under(&runner, data).spawn().unwrap();
    until("the handler of signals", || handles_signals(recovering.id()));
    server::signal(&recovering, "TERM");
    let mut ended = None;
    until_within(Duration::from_secs(20), "the end", || {
        ended = recovering.try_wait().unwrap();
        ended.is_some()
    });
    let log = server::log(data);
    assert!(ended.unwrap().success() && log.contains("nothing was served"), "{log}");
    let server = Server::start(data);
    Client::expect(server.client().get("/v1/documents/a"));
}

#[test]
fn a_stop_gives_up_a_snapshot_that_takes_too_long() {
    if !strace::is_here() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let mut command = Server::command(data);
    command.env("NEARPRINT_SERVER__SHUTDOWN_GRACE_MS", "1000");
    command.env("NEARPRINT_ENGINE__SNAPSHOT_INTERVAL_MS", LONG_GRACE);
    let server = Server::of(command).expect("it starts");
    let slow = ThreadFault::into_thread(&server, "snapshots", "rename:delay_enter=600000000");
    let Some(_slow) = slow else { return };
    Client::expect(server.client().post("/v1/insert", &json!({"id": "a", "fingerprint": 1})));
    let ended = server.terminate();
    assert!(ended.success(), "{ended}");
    let log = server::log(data);
    assert!(log.contains("stopped without the last snapshot"), "{log}");
    let server = Server::start(data);
    Client::expect(server.client().get("/v1/documents/a"));
}

//! Slow clients are closed in time while others are served, and a stop is orderly.

use std::time::Duration;

use nearprint::config::Config;
use serde_json::json;

use crate::support::{Connection, Server, now, until};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
const NDJSON: [(&str, &str); 1] = [("content-type", "application/x-ndjson")];

fn impatient(config: &mut Config) {
    config.server.header_timeout_ms = 300;
    config.server.body_timeout_ms = 300;
    config.server.idle_timeout_ms = 900;
}

/// How long it takes the server to close the connection, with `drip` sent every 50 ms.
fn closed_after(connection: &mut Connection, drip: &[u8]) -> Duration {
    let begun = now();
    while begun.elapsed() < Duration::from_secs(10) {
        if connection.is_readable_within(Duration::from_millis(50)) && connection.is_closed() {
            return begun.elapsed();
        }
        drop(connection.write(drip));
    }
    panic!("the connection stayed open");
}

#[test]
fn a_silent_a_partial_and_a_dribbling_head_are_closed() {
    let server = Server::with(impatient);
    let shapes: [(&[u8], &[u8]); 3] =
        [(b"", b""), (b"GET /healthz HTTP/1.1\r\nhost", b""), (b"GET /healthz HTTP/1.1\r\n", b"a")];
    for (start, drip) in shapes {
        let mut slow = server.connect();
        slow.write(start).unwrap();
        let took = closed_after(&mut slow, drip);
        assert!((250..3_000).contains(&took.as_millis()), "{took:?}");
        assert_eq!(server.get("/healthz").status, 200);
    }
}

#[test]
fn an_idle_connection_is_kept_longer_than_a_slow_head() {
    let server = Server::with(impatient);
    let mut idle = server.connect();
    assert_eq!(idle.send("GET /healthz", &[], b"").status, 200);
    let took = closed_after(&mut idle, b"");
    assert!((800..4_000).contains(&took.as_millis()), "{took:?}");
    // A second request whose head dribbles has the time of a head, not of an idle connection.
    let mut second = server.connect();
    assert_eq!(second.send("GET /healthz", &[], b"").status, 200);
    second.write(b"G").unwrap();
    let took = closed_after(&mut second, b"");
    assert!((250..800).contains(&took.as_millis()), "{took:?}");
}

#[test]
fn a_connection_in_use_is_never_idle() {
    let server = Server::with(impatient);
    let mut busy = server.connect();
    let begun = now();
    // For longer than the idle timeout, with requests that are answered at once.
    while begun.elapsed() < Duration::from_millis(2_500) {
        assert_eq!(busy.send("GET /healthz", &[], b"").status, 200);
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn a_slow_body_is_answered_408() {
    let server = Server::with(impatient);
    let mut slow = server.connect();
    slow.begin_chunked("POST /v1/insert", &JSON);
    for _ in 0..12 {
        drop(slow.chunk(b" "));
        std::thread::park_timeout(Duration::from_millis(50));
    }
    assert_eq!(slow.reply().problem(), (408, "request_timeout".to_owned()));
    let mut silent = server.connect();
    silent.begin_chunked("POST /v1/insert", &JSON);
    assert_eq!(silent.reply().problem(), (408, "request_timeout".to_owned()));
}

#[test]
fn a_batch_must_bring_a_line_in_each_time_of_a_body() {
    let server = Server::with(impatient);
    let mut batch = server.connect();
    batch.begin_chunked("POST /v1/insert/batch?early_reply=true", &NDJSON);
    assert_eq!(batch.reply_head().status, 200);
    // Longer in all than the time of a body, but never without a line for so long.
    for i in 0..6 {
        batch.chunk(format!("{{\"fingerprint\":{i}}}\n").as_bytes()).unwrap();
        assert!(batch.next_chunk().is_some());
        std::thread::park_timeout(Duration::from_millis(100));
    }
    // Bytes that complete no line are not progress.
    let mut last = None;
    for _ in 0..20 {
        drop(batch.chunk(b" "));
        if batch.is_readable_within(Duration::from_millis(50)) {
            last = batch.next_chunk();
            break;
        }
    }
    let last = String::from_utf8(last.unwrap()).unwrap();
    assert!(last.contains("request_timeout") && last.contains("\"line\":7"), "{last}");
    assert_eq!(batch.next_chunk(), None);
    assert_eq!(server.get("/v1/stats").json()["documents"], 6);
}

#[test]
fn a_client_that_reads_nothing_of_its_reply_is_closed() {
    let server = Server::with(impatient);
    let mut stuck = server.connect();
    stuck.begin_chunked("POST /v1/fingerprint/batch?explain=true", &NDJSON);
    let lines = "{\"text\":\"some words to explain at length\"}\n".repeat(1_000);
    // Nothing is read, so the buffers fill up, and then the server gives up.
    let begun = now();
    while stuck.chunk(lines.as_bytes()).is_ok() {
        assert!(begun.elapsed() < Duration::from_mins(2), "it was never closed");
    }
    assert_eq!(server.get("/healthz").status, 200);
}

/// Nothing but a stop ends a connection.
fn without_timeouts(config: &mut Config) {
    config.server.header_timeout_ms = 600_000;
    config.server.body_timeout_ms = 600_000;
    config.server.idle_timeout_ms = 600_000;
    config.server.shutdown_grace_ms = 600_000;
}

#[test]
fn a_stop_ends_connections_that_are_idle_or_send_nothing_more() {
    let mut server = Server::with(without_timeouts);
    let [mut silent, mut partial, mut idle, mut body] = [(); 4].map(|()| server.connect());
    partial.write(b"GET /healthz HTTP/1.1\r\nhost").unwrap();
    assert_eq!(idle.send("GET /healthz", &[], b"").status, 200);
    body.begin_chunked("POST /v1/insert", &JSON);
    body.chunk(b"{\"id\":").unwrap();
    // A request after them: theirs have been read as far as they go.
    assert_eq!(server.get("/healthz").status, 200);
    server.begin_stop();
    let refused = body.reply();
    assert_eq!(refused.header("connection"), Some("close"));
    assert_eq!(refused.problem(), (503, "stopping".to_owned()));
    for closed in [&mut silent, &mut partial, &mut idle, &mut body] {
        assert!(closed.is_closed());
    }
    // The clients keep their ends open, and the server stops all the same.
    server.stop().unwrap();
}

#[test]
fn a_stop_ends_a_batch_that_is_being_read_and_its_last_line_says_so() {
    let mut server = Server::with(without_timeouts);
    let mut batch = server.connect();
    batch.begin_chunked("POST /v1/insert/batch", &NDJSON);
    batch.chunk(b"{\"id\":\"a\",\"fingerprint\":1}\n").unwrap();
    until("the line is stored", || server.get("/v1/stats").json()["documents"] == 1);
    server.begin_stop();
    let lines = batch.reply().lines();
    assert_eq!((lines.len(), &lines[0]["stored"]), (2, &json!(true)), "{lines:?}");
    assert_eq!(
        (&lines[1]["error"]["code"], &lines[1]["error"]["line"]),
        (&json!("stopping"), &json!(2))
    );
    server.stop().unwrap();
    let server = server.restarted();
    assert_eq!(server.get("/v1/documents/a").status, 200, "what was acknowledged stays");
}

#[test]
fn a_stop_does_not_wait_longer_than_its_grace_for_who_does_not_read() {
    let mut server = Server::with(|config| {
        without_timeouts(config);
        config.server.shutdown_grace_ms = 200;
    });
    let mut stuck = server.connect();
    stuck.begin_chunked("POST /v1/fingerprint/batch?explain=true", &NDJSON);
    stuck.give_up_writing_after(Duration::from_millis(500));
    let lines = "{\"text\":\"some words to explain at length\"}\n".repeat(1_000);
    while stuck.chunk(lines.as_bytes()).is_ok() {}
    server.stop().unwrap();
}

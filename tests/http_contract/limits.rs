//! The limits: each refuses what is above it, and the service continues.

use std::time::Duration;

use nearprint::config::Config;
use serde_json::json;

use crate::support::{Server, hex, ids, now, text};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

fn small(config: &mut Config) {
    config.server.body_bytes_max = 2_048;
}

fn body_of(bytes: usize) -> Vec<u8> {
    let frame = "{\"text\":\"\"}".len();
    format!("{{\"text\":\"{}\"}}", "x".repeat(bytes - frame)).into_bytes()
}

#[test]
fn a_body_has_the_limit_and_not_one_byte_more() {
    let server = Server::with(small);
    for path in ["/v1/fingerprint", "/v1/insert", "/v1/query"] {
        let line = format!("POST {path}");
        assert_eq!(server.send(&line, &JSON, &body_of(2_048)).status, 200);
        for bytes in [2_049, 20_480, 5_000_000] {
            let reply = server.send(&line, &JSON, &body_of(bytes));
            assert_eq!(reply.problem(), (413, "body_too_large".to_owned()), "{bytes}");
            assert!(reply.text().contains("2048"), "the limit is in the text");
        }
    }
    assert_eq!(server.send("POST /v1/compare", &JSON, &body_of(2_049)).status, 413);
}

#[test]
fn a_body_in_chunks_is_stopped_at_the_limit() {
    let server = Server::with(small);
    let mut connection = server.connect();
    connection.begin_chunked("POST /v1/insert", &JSON);
    // Endless chunks: the server must answer although the body never ends.
    connection.chunk(b"{\"text\":\"").unwrap();
    for _ in 0..64 {
        drop(connection.chunk(&[b'x'; 1_024]));
    }
    assert_eq!(connection.reply().problem(), (413, "body_too_large".to_owned()));
}

#[test]
fn a_body_that_breaks_off_is_refused_and_changes_nothing() {
    let server = Server::start();
    let mut connection = server.connect();
    let head = "POST /v1/insert HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        content-length: 1000\r\n\r\n{\"fingerprint\":1}";
    connection.write(head.as_bytes()).unwrap();
    drop(connection);
    let mut chunked = server.connect();
    chunked.begin_chunked("POST /v1/insert", &JSON);
    chunked.write(b"zzzz\r\n").unwrap();
    assert_eq!(chunked.reply().status, 400);
    assert_eq!(server.get("/v1/stats").json()["documents"], 0);
}

#[test]
fn a_refusal_that_leaves_a_body_unread_keeps_the_connection_or_says_that_it_ends() {
    let server = Server::start();
    let unread = [("content-type", "image/png")];
    let mut connection = server.connect();
    for bytes in [1, 10_000, 70_000, 1_000_000] {
        let refused = connection.send("POST /v1/insert", &unread, &vec![b'x'; bytes]);
        assert_eq!(refused.problem(), (415, "unsupported_media_type".to_owned()), "{bytes}");
        assert_eq!(refused.header("connection"), None, "{bytes}");
        assert_eq!(connection.send("GET /healthz", &[], b"").status, 200, "{bytes}: the same one");
    }
    let refused = connection.send("POST /v1/insert", &unread, &vec![b'x'; 8_000_000]);
    assert_eq!(refused.problem(), (415, "unsupported_media_type".to_owned()));
    assert_eq!(refused.header("connection"), Some("close"));
    assert!(connection.is_closed());
}

#[test]
fn a_client_that_asks_before_it_sends_is_refused_without_sending() {
    let server = Server::start();
    let ask = |kind: &str| {
        let mut asking = server.connect();
        let head = format!(
            "POST /v1/insert HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n\
             content-length: 7\r\nexpect: 100-continue\r\n\r\n"
        );
        asking.write(head.as_bytes()).unwrap();
        let head: Vec<String> =
            std::iter::repeat_with(|| asking.line()).take_while(|line| !line.is_empty()).collect();
        (head, asking)
    };
    let (refused, _) = ask("image/png");
    assert!(refused[0].starts_with("HTTP/1.1 415"), "without an invitation before: {refused:?}");
    assert!(refused.iter().any(|line| line == "connection: close"), "{refused:?}");
    let (invited, mut asking) = ask("text/plain");
    assert_eq!(invited, ["HTTP/1.1 100 Continue"]);
    asking.write(b"a b c d").unwrap();
    assert_eq!(asking.reply().json()["outcome"], "inserted");
}

#[test]
fn bodies_in_memory_are_bounded() {
    let server = Server::with(|config| {
        config.server.body_bytes_max = 300_000;
        config.server.bodies_held_bytes_max = 400_000;
    });
    let send = || server.send("POST /v1/fingerprint", &JSON, &body_of(250_000));
    // Two bodies of 250,000 bytes do not fit together; which one is refused is a matter of time.
    let refused = poll(|| {
        let mut first = server.connect();
        first.begin_chunked("POST /v1/fingerprint", &JSON);
        first.chunk(&body_of(250_000)[..200_000]).unwrap();
        let second = send();
        drop(first.chunk(b"\"}"));
        first.end_chunked();
        (first.reply().status == 200 && second.status != 200).then_some(second)
    });
    assert_eq!(refused.problem(), (503, "overloaded".to_owned()));
    // Both are closed, and their bytes no longer count.
    assert_eq!(poll(|| Some(send()).filter(|reply| reply.status == 200)).status, 200);
}

#[test]
fn unfinished_lines_of_batches_count_among_the_bodies_in_memory() {
    let server = Server::with(|config| {
        config.server.body_bytes_max = 1_024;
        config.server.bodies_held_bytes_max = 300_000;
    });
    let mut batch = server.connect();
    batch.begin_chunked("POST /v1/insert/batch", &[("content-type", "application/x-ndjson")]);
    batch.chunk(b"{\"fingerprint\":1}\n").unwrap();
    for _ in 0..40 {
        drop(batch.chunk(&[b'x'; 10_000]));
    }
    let reply = batch.reply();
    let lines = reply.lines();
    assert_eq!(lines[0]["stored"], true);
    assert_eq!(
        (&lines[1]["error"]["code"], &lines[1]["error"]["line"]),
        (&json!("overloaded"), &json!(2))
    );
}

#[test]
fn a_connection_above_the_limit_is_refused_and_closed() {
    let server = Server::with(|config| config.server.connections_max = 2);
    let mut one = server.connect();
    let mut two = server.connect();
    assert_eq!(one.send("GET /healthz", &[], b"").status, 200);
    assert_eq!(two.send("GET /healthz", &[], b"").status, 200);
    let mut third = server.connect();
    let refused = third.send("GET /v1/stats", &[], b"");
    assert_eq!(refused.problem(), (503, "overloaded".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.text().contains("server.connections_max"), "{}", refused.text());
    assert!(third.is_closed());
    assert_eq!(server.get("/healthz").status, 200, "a probe is answered all the same");
    drop(one);
    // Once the server notices that one has closed, it accepts another.
    poll(|| Some(server.get("/v1/stats")).filter(|reply| reply.status == 200));
    assert_eq!(two.send("GET /healthz", &[], b"").status, 200);
}

#[test]
fn the_memory_limit_refuses_writes_with_507_and_reads_go_on() {
    let server = Server::with(|config| {
        // One byte for the index: full after the first write.
        let requests = config.server.bodies_held_bytes_max + config.server.replies_held_bytes_max;
        config.engine.memory_bytes_max = (requests + 1).to_string();
    });
    server.insert("first", &hex(1));
    let refused = poll(|| {
        let reply = server.post("/v1/insert", &json!({"text": text(1, 20)}));
        (reply.status != 200).then_some(reply)
    });
    assert_eq!(refused.problem(), (507, "memory_full".to_owned()));
    assert_eq!(ids(&server.query(&hex(1))["hits"][0]), json!(["first"]));
    let ready = server.get("/readyz");
    assert_eq!(ready.problem(), (503, "memory_full".to_owned()));
    let batch = server.post_packed("/v1/insert/batch", &[], &[1, 2]);
    assert_eq!(batch.problem(), (507, "memory_full".to_owned()));
}

#[test]
fn a_disk_below_its_reserve_refuses_writes_with_507() {
    let server = Server::with(|config| config.engine.disk_free_bytes_min = 1 << 60);
    let refused = poll(|| {
        let reply = server.post("/v1/insert", &json!({"fingerprint": hex(1)}));
        (reply.status != 200).then_some(reply)
    });
    assert_eq!(refused.problem(), (507, "disk_full".to_owned()));
    assert_eq!(server.query(&hex(1))["fingerprint"], hex(1));
    for path in ["/readyz", "/readyz/writes"] {
        assert_eq!(server.get(path).problem(), (503, "disk_full".to_owned()), "{path}");
    }
}

#[test]
fn nested_pages_and_large_texts_are_analysed_in_time() {
    let server = Server::start();
    let deep = format!("{}word", "<ul><li>".repeat(64 * 1024));
    let headers = [("content-type", "text/html")];
    let begun = now();
    assert_eq!(server.send("POST /v1/fingerprint", &headers, deep.as_bytes()).status, 200);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let large = json!({"text": text(9, 200_000)});
    assert_eq!(server.post("/v1/query", &large).status, 200);
}

/// Repeats a request until it is answered, for a few seconds.
pub(crate) fn poll<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..500 {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("it never came");
}

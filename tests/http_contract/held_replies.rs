//! The reply of a batch begins when the body has ended: for proxies that stop sending once it
//! begins, and for plain clients, which send everything before they read.

use serde_json::{Value, json};

use crate::limits::poll;
use crate::support::{Connection, Server, hex, text};

const NDJSON: (&str, &str) = ("content-type", "application/x-ndjson");
const PACKED: (&str, &str) = ("content-type", "application/octet-stream");
const PATHS: [&str; 4] =
    ["/v1/fingerprint/batch", "/v1/query/batch", "/v1/insert/batch", "/v1/check-and-insert/batch"];

/// Far from the others.
fn fingerprint(number: u64) -> String {
    hex(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn lines(count: u64) -> String {
    let line = |i| format!("{{\"id\":\"{i}\",\"fingerprint\":\"{}\"}}\n", fingerprint(i));
    (0..count).map(line).collect()
}

fn documents(server: &Server) -> u64 {
    server.get("/v1/stats").json()["documents"].as_u64().unwrap()
}

fn replies_bytes(server: &Server) -> u64 {
    server.get("/v1/stats").json()["memory"]["replies_bytes"].as_u64().unwrap()
}

/// The head of a request with this many bytes, and nothing of its body.
fn head(connection: &mut Connection, path: &str, kind: (&str, &str), length: usize, more: &str) {
    let (name, kind) = kind;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{name}: {kind}\r\ncontent-length: {length}\r\n{more}\r\n"
    );
    connection.write(head.as_bytes()).unwrap();
}

#[test]
fn the_head_of_a_reply_does_not_come_before_the_last_byte_of_the_body() {
    let server = Server::start();
    let words: Vec<u8> = (0..20_000_u64).flat_map(u64::to_le_bytes).collect();
    let documents = lines(20_000).into_bytes();
    let ndjson = PATHS.map(|path| (path, NDJSON, &documents));
    let packed = [PATHS[1], PATHS[3]].map(|path| (path, PACKED, &words));
    for (path, kind, body) in ndjson.into_iter().chain(packed) {
        let mut connection = server.connect();
        head(&mut connection, path, kind, body.len(), "");
        let (last, rest) = body.split_last().unwrap();
        connection.write(rest).unwrap();
        // Only time shows that nothing comes.
        let waits = !connection.is_readable_within(std::time::Duration::from_millis(200));
        assert!(waits, "{path}");
        connection.write(&[*last]).unwrap();
        let reply = connection.reply();
        let replies = if kind == NDJSON { reply.lines().len() } else { reply.body.len() };
        assert_eq!((reply.status, replies), (200, 20_000), "{path}");
        assert_eq!(connection.send("GET /healthz", &[], b"").status, 200, "{path}");
    }
}

#[test]
fn a_client_that_asks_before_it_sends_is_told_to_and_then_answered() {
    let server = Server::start();
    for (path, kind, body) in [
        ("/v1/insert/batch", NDJSON, &b"{\"fingerprint\":1}\n{\"fingerprint\":2}\n"[..]),
        ("/v1/insert/batch?early_reply=true", NDJSON, b"{\"fingerprint\":3}\n"),
        ("/v1/query/batch?early_reply=true", PACKED, &[0; 16]),
        ("/v1/check-and-insert/batch", PACKED, &[0; 16]),
        ("/v1/insert/batch", PACKED, &[0; 16]),
    ] {
        let mut connection = server.connect();
        head(&mut connection, path, kind, body.len(), "expect: 100-continue\r\n");
        assert_eq!(connection.line(), "HTTP/1.1 100 Continue", "{path}");
        assert_eq!(connection.line(), "", "{path}");
        connection.write(body).unwrap();
        assert_eq!(connection.reply().status, 200, "{path}");
    }
    // Refused, it sends nothing.
    let mut refused = server.connect();
    head(&mut refused, "/v1/insert/batch?limit=1", NDJSON, 16, "expect: 100-continue\r\n");
    assert_eq!(refused.reply().problem(), (400, "unknown_field".to_owned()));
}

#[test]
fn replies_are_the_same_whether_they_waited_or_not() {
    let server = Server::start();
    for i in 0..64 {
        let words = text(i % 32, 40);
        let metadata = json!({"n": i});
        let document =
            json!({"id": format!("\"\u{e9}\u{1}{i}"), "text": words, "metadata": metadata});
        server.post("/v1/insert", &document).json();
        server
            .post("/v1/insert", &json!({"fingerprint": hex(i << 20), "expires_in": 9_999}))
            .json();
    }
    let queries: String = (0..500_u64)
        .map(|i| match i % 8 {
            0 => "oops\n".to_owned(),
            1 => format!("{}\n", json!({"text": text(i % 40, 40), "explain": true})),
            2 => format!("{}\n", json!({"text": text(i % 40, 40), "include": ["metadata"]})),
            3 => format!("{}\n", json!({"fingerprint": hex(i << 18), "limit": 100})),
            4 => format!("{}\n", json!({"fingerprint": hex(u64::MAX - i)})),
            _ => format!("{}\n", json!({"text": text(i % 40, 40), "limit": 1 + i % 5})),
        })
        .collect();
    for path in ["/v1/query/batch", "/v1/fingerprint/batch"] {
        let held = server.post_lines(path, &queries);
        let early = server.post_lines(&format!("{path}?early_reply=true"), &queries);
        assert_eq!(held.len(), 500);
        assert_eq!(held, early);
    }
    let one = |line: &str| {
        server.send("POST /v1/query", &[("content-type", "application/json")], line.as_bytes())
    };
    for (line, reply) in queries.lines().zip(server.post_lines("/v1/query/batch", &queries)) {
        if reply["error"].is_null() {
            assert_eq!(one(line).json(), reply);
        }
    }
}

/// Sends everything before it reads anything, as most libraries do.
#[test]
fn a_plain_client_gets_all_replies_to_a_long_batch() {
    let server = Server::start();
    let documents = lines(80_000);
    for (path, outcome) in [
        ("/v1/insert/batch", "inserted"),
        ("/v1/insert/batch", "already_present"),
        ("/v1/check-and-insert/batch?distance=0", "already_present"),
    ] {
        let replies = server.post_lines(path, &documents);
        assert_eq!(replies.len(), 80_000);
        for (i, reply) in replies.iter().enumerate() {
            assert_eq!(reply["fingerprint"], fingerprint(i as u64));
            assert_eq!(reply["outcome"], outcome);
        }
    }
    poll(|| (replies_bytes(&server) == 0).then_some(()));
}

/// A server on which few replies may wait, with this time for a body.
fn small(timeout_ms: u64) -> Server {
    Server::with(|config| {
        config.server.reply_bytes_max = 131_072;
        config.server.replies_held_bytes_max = 262_144;
        config.server.body_timeout_ms = timeout_ms;
    })
}

#[test]
fn a_client_that_reads_nothing_of_too_many_replies_is_told_how_far_it_came() {
    let server = small(4_000);
    let body = lines(300_000);
    for (path, is_first) in [("/v1/insert/batch", true), ("/v1/query/batch", false)] {
        let mut connection = server.connect();
        connection.begin(&format!("POST {path}"), &[NDJSON], body.as_bytes());
        let replies = connection.reply().lines();
        let (last, before) = replies.split_last().unwrap();
        let error = &last["error"];
        assert_eq!((&error["code"], &error["status"]), (&json!("reply_not_read"), &json!(408)));
        assert_eq!(error["line"], before.len() as u64 + 1, "{path}");
        assert!(before.iter().all(|reply| reply["error"] == Value::Null), "{path}");
        let detail = error["detail"].as_str().unwrap();
        assert!(detail.contains("server.replies_held_bytes_max"), "{detail}");
        if is_first {
            assert_eq!(documents(&server), before.len() as u64);
        }
    }
}

#[test]
fn a_body_that_comes_too_slowly_is_told_that_replies_waited_for_it() {
    let server = small(500);
    let detail = |path: &str| {
        let mut connection = server.connect();
        connection.begin_chunked(&format!("POST {path}"), &[NDJSON]);
        connection.chunk(b"{\"fingerprint\":1}\n{\"finger").unwrap();
        let replies = connection.reply().lines();
        let error = &replies[1]["error"];
        assert_eq!((&error["code"], &error["line"]), (&json!("request_timeout"), &json!(2)));
        error["detail"].as_str().unwrap().to_owned()
    };
    let held = detail("/v1/insert/batch");
    assert!(held.contains("early_reply=true") && held.contains("server.body_timeout_ms"), "{held}");
    let early = detail("/v1/insert/batch?early_reply=true");
    assert!(!early.contains("early_reply"), "{early}");
}

#[test]
fn replies_that_wait_count_within_their_budget_and_go_back_when_their_client_leaves() {
    let server = small(30_000);
    let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.begin_chunked("POST /v1/insert/batch", &[NDJSON]);
        client.chunk(lines(3_000).as_bytes()).unwrap();
    }
    let held = poll(|| Some(replies_bytes(&server)).filter(|&bytes| bytes > 65_536));
    assert!(held <= 262_144, "{held}");
    poll(|| (documents(&server) == 3_000).then_some(()));
    drop(clients);
    poll(|| (replies_bytes(&server) == 0).then_some(()));
}

/// While others use up the budget, a batch holds some replies all the same.
#[test]
fn a_short_batch_is_held_whatever_others_hold() {
    let server = small(30_000);
    let mut others: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for other in &mut others {
        other.begin_chunked("POST /v1/insert/batch", &[NDJSON]);
        other.chunk(lines(5_000).as_bytes()).unwrap();
    }
    poll(|| Some(replies_bytes(&server)).filter(|&bytes| bytes > 65_536));
    for path in PATHS {
        let body = lines(200);
        let (first, last) = body.split_at(body.len() - 1);
        let mut connection = server.connect();
        head(&mut connection, path, NDJSON, body.len(), "");
        connection.write(first.as_bytes()).unwrap();
        let waits = !connection.is_readable_within(std::time::Duration::from_millis(100));
        assert!(waits, "{path}");
        connection.write(last.as_bytes()).unwrap();
        assert_eq!(connection.reply().lines().len(), 200, "{path}");
    }
}

#[test]
fn early_reply_is_a_parameter_of_batches_alone() {
    let server = Server::start();
    let reply =
        server.send("POST /v1/query?early_reply=true", &[("content-type", "text/plain")], b"x");
    assert_eq!(reply.problem(), (400, "unknown_field".to_owned()));
    let reply = server.send("POST /v1/query/batch?early_reply=soon", &[NDJSON], b"");
    assert_eq!(reply.problem_at(), (400, "invalid_value".to_owned(), "early_reply".to_owned()));
    let reply =
        server.send("POST /v1/query/batch", &[NDJSON], b"{\"text\":\"x\",\"early_reply\":true}");
    assert_eq!(reply.lines()[0]["error"]["code"], "unknown_field");
}

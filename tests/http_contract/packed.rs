//! Packed batches: one byte a fingerprint, counts, full replies, and lengths that do not fit.

use serde_json::json;

use crate::support::{Server, hex, ids};

const PACKED: (&str, &str) = ("content-type", "application/octet-stream");

fn words(count: u64) -> Vec<u64> {
    (1..=count).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}

#[test]
fn an_insert_counts_and_a_query_gives_the_nearest_distance_of_each() {
    let server = Server::start();
    let stored = words(20_000);
    let counts = server.post_packed("/v1/insert/batch", &[], &stored).json();
    assert_eq!(
        counts,
        json!({"received": 20_000, "inserted": 20_000, "stored": true, "sequence": 20_000})
    );
    let mut queries = Vec::new();
    let mut expected = Vec::new();
    for (i, bits) in stored.iter().enumerate() {
        let distance = i % 5;
        queries.push(bits ^ [0, 1 << 7, 0b11 << 30, 0b111 << 61, 0b1111 << 20][distance]);
        expected.push([0, 1, 2, 3, 255][distance]);
    }
    let reply = server.post_packed("/v1/query/batch", &[], &queries);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/octet-stream"));
    assert_eq!(reply.header("content-length"), Some("20000"));
    assert_eq!(reply.body, expected);
    let strict = server.post_packed("/v1/query/batch?distance=1", &[], &queries);
    let expected: Vec<_> = expected.iter().map(|&d| if d > 1 { 255 } else { d }).collect();
    assert_eq!(strict.body, expected);
}

#[test]
fn a_check_and_insert_says_255_for_inserted() {
    let server = Server::start();
    let reply = server.post_packed("/v1/check-and-insert/batch", &[], &[0, 1, 0b111, u64::MAX, 0]);
    assert_eq!(reply.body, [255, 1, 3, 255, 0]);
    assert_eq!(server.get("/v1/stats").json()["documents"], 2);
}

#[test]
fn accept_ndjson_gives_full_replies() {
    let server = Server::start();
    let full = [("accept", "application/x-ndjson")];
    let reply = server.post_packed("/v1/check-and-insert/batch?limit=1", &full, &[0, 1, u64::MAX]);
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    let lines = reply.lines();
    let outcomes: Vec<_> = lines.iter().map(|line| line["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["inserted", "duplicate", "inserted"]);
    let lines = server.post_packed("/v1/query/batch", &full, &[1]).lines();
    assert_eq!(lines[0]["hits"][0]["fingerprint"], hex(0));
    assert_eq!(ids(&lines[0]["hits"][0]), json!([]));
}

#[test]
fn a_length_that_is_no_multiple_of_8_is_refused_whole() {
    let server = Server::start();
    for path in ["/v1/insert/batch", "/v1/query/batch", "/v1/check-and-insert/batch"] {
        for length in [1, 7, 9, 8_191] {
            let body = vec![1; length];
            let reply = server.send(&format!("POST {path}"), &[PACKED], &body);
            assert_eq!(reply.problem(), (400, "packed_length".to_owned()), "{path} {length}");
            let mut chunked = server.connect();
            chunked.begin_chunked(&format!("POST {path}"), &[PACKED]);
            chunked.chunk(&body).unwrap();
            chunked.end_chunked();
            assert_eq!(chunked.reply().problem(), (400, "packed_length".to_owned()));
        }
    }
    assert_eq!(server.get("/v1/stats").json()["documents"], 0);
}

#[test]
fn a_body_without_a_length_is_taken_up_to_the_limit_of_a_body() {
    let server = Server::with(|config| config.server.body_bytes_max = 1_024);
    let send = |bytes: usize| {
        let mut connection = server.connect();
        connection.begin_chunked("POST /v1/insert/batch", &[PACKED]);
        connection.chunk(&vec![7; bytes]).unwrap();
        connection.end_chunked();
        connection.reply()
    };
    assert_eq!(send(1_024).json()["inserted"], 128);
    assert_eq!(send(1_032).problem(), (411, "length_required".to_owned()));
    assert_eq!(server.get("/v1/stats").json()["documents"], 128);
    // With a length there is no limit.
    let counts = server.post_packed("/v1/insert/batch", &[], &words(1_000)).json();
    assert_eq!(counts["inserted"], 1_000);
}

#[test]
fn an_empty_packed_body_is_an_empty_batch() {
    let server = Server::start();
    let counts = server.post_packed("/v1/insert/batch", &[], &[]).json();
    assert_eq!((&counts["inserted"], &counts["stored"]), (&json!(0), &json!(false)));
    assert!(server.post_packed("/v1/query/batch", &[], &[]).body.is_empty());
    assert!(server.post_packed("/v1/check-and-insert/batch", &[], &[]).body.is_empty());
}

#[test]
fn options_that_packed_replies_cannot_honour_are_refused() {
    let server = Server::start();
    let reply = server.post_packed("/v1/check-and-insert/batch?on_duplicate=insert", &[], &[1]);
    assert_eq!(reply.problem_at().2, "on_duplicate");
    let reply = server.post_packed("/v1/check-and-insert/batch?touch=true", &[], &[1]);
    assert_eq!(reply.problem_at().2, "touch");
    let reply = server.post_packed("/v1/check-and-insert/batch?touch=false", &[], &[1]);
    assert_eq!(reply.status, 200);
    let reply = server.post_packed("/v1/query/batch?distance=9", &[], &[1]);
    assert_eq!(reply.problem(), (400, "distance_above_max".to_owned()));
    let reply = server.post_packed("/v1/fingerprint/batch", &[], &[1]);
    assert_eq!(reply.problem(), (415, "unsupported_media_type".to_owned()));
}

#[test]
fn early_replies_stream_while_the_words_still_come() {
    let server = Server::start();
    let mut connection = server.connect();
    let head = "POST /v1/check-and-insert/batch?early_reply=true HTTP/1.1\r\nhost: localhost\r\n\
        content-length: 24\r\ncontent-type: application/octet-stream\r\n\r\n";
    connection.write(head.as_bytes()).unwrap();
    assert_eq!(connection.reply_head().header("content-length"), Some("3"));
    for (bits, reply) in [(0_u64, 255), (1, 1), (3, 2)] {
        connection.write(&bits.to_le_bytes()).unwrap();
        assert_eq!(connection.byte(), reply);
    }
}

#[test]
fn words_before_a_body_that_breaks_off_are_stored_and_answered() {
    let server = Server::with(|config| config.server.body_timeout_ms = 300);
    let begin = |path: &str| {
        let mut connection = server.connect();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 24\r\n\
             content-type: application/octet-stream\r\n\r\n"
        );
        connection.write(head.as_bytes()).unwrap();
        connection.write(&[7; 8]).unwrap();
        connection
    };
    let reply = begin("/v1/insert/batch").reply();
    assert_eq!(reply.problem(), (408, "request_timeout".to_owned()));
    assert!(reply.text().contains("its first 1 fingerprints were stored"), "{}", reply.text());
    for path in ["/v1/query/batch", "/v1/check-and-insert/batch"] {
        let mut connection = begin(path);
        assert_eq!(connection.reply_head().header("content-length"), Some("3"));
        assert_eq!(connection.byte(), 0, "{path}");
        assert!(connection.is_closed(), "{path}: two bytes are missing");
    }
    assert_eq!(server.get("/v1/stats").json()["documents"], 1);
}

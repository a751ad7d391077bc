//! Compressed bodies: each coding gives what the plain body gives, within the same limits.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::limits::poll;
use crate::support::{Reply, Server, hex, text};

const NDJSON: &str = "application/x-ndjson";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

/// A body in each coding: as a whole, and in several members or frames, of which one is empty.
fn codings(bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let parts = |pack: fn(&[u8]) -> Vec<u8>| [first, b"", second].map(pack).concat();
    vec![
        ("gzip", gzip(bytes)),
        ("X-GZIP", gzip(bytes)),
        ("gzip", parts(gzip)),
        ("zstd", zstd(bytes)),
        ("ZStd", parts(zstd)),
    ]
}

fn post(server: &Server, path: &str, kind: &str, coding: &str, body: &[u8]) -> Reply {
    let headers = [("content-type", kind), ("content-encoding", coding)];
    server.send(&format!("POST {path}"), &headers, body)
}

fn documents(server: &Server) -> Value {
    server.get("/v1/stats").json()["documents"].clone()
}

/// The request in each coding, sent as a whole and byte by byte, gives this reply.
fn assert_all_answer(server: &Server, path: &str, kind: &str, plain: &[u8]) {
    let expected = server.send(&format!("POST {path}"), &[("content-type", kind)], plain);
    assert!(expected.status < 300, "{}", expected.text());
    for (coding, body) in codings(plain) {
        let reply = post(server, path, kind, coding, &body);
        assert_eq!(reply.text(), expected.text(), "{path} {kind} {coding}");
        let mut dribbling = server.connect();
        let headers = [("content-type", kind), ("content-encoding", coding)];
        dribbling.begin_chunked(&format!("POST {path}"), &headers);
        for byte in body {
            dribbling.chunk(&[byte]).unwrap();
        }
        dribbling.end_chunked();
        assert_eq!(dribbling.reply().text(), expected.text(), "{path} {kind} {coding}, dribbling");
    }
}

#[test]
fn each_coding_gives_what_the_plain_body_gives() {
    let server = Server::start();
    let words = text(1, 60);
    server.post("/v1/insert", &json!({"id": "a", "text": words})).json();
    let json = json!({"text": words, "limit": 1}).to_string();
    assert_all_answer(&server, "/v1/query", "application/json", json.as_bytes());
    assert_all_answer(&server, "/v1/query", "text/plain", words.as_bytes());
    let page = format!("<html><p>{words}</p></html>");
    assert_all_answer(&server, "/v1/query", "text/html", page.as_bytes());
    assert_all_answer(&server, "/v1/query", "application/xhtml+xml", page.as_bytes());
    let both = json!({"a": {"text": words}, "b": {"text": words}}).to_string();
    assert_all_answer(&server, "/v1/compare", "application/json", both.as_bytes());
    let line = |n: u64| json!({"text": text(n, 9)}).to_string();
    let lines = (0..300).map(line).collect::<Vec<_>>().join("\n");
    assert_all_answer(&server, "/v1/query/batch", NDJSON, lines.as_bytes());
    let packed: Vec<u8> = (0..300_u64).flat_map(u64::to_le_bytes).collect();
    assert_all_answer(&server, "/v1/query/batch", "application/octet-stream", &packed);
    let removals = "{\"id\": \"x\"}\n{\"id\": 7}\n";
    assert_all_answer(&server, "/v1/delete/batch", NDJSON, removals.as_bytes());
    assert_eq!(documents(&server), 1);
}

#[test]
fn a_batch_is_read_while_it_is_decompressed() {
    let server = Server::start();
    let line = |n: usize| format!("{{\"id\": {n}, \"text\": \"{}\"}}\n", text(n as u64, 60));
    for (coding, pack) in [("gzip", gzip as fn(&[u8]) -> Vec<u8>), ("zstd", zstd)] {
        let headers = [("content-type", NDJSON), ("content-encoding", coding)];
        let mut connection = server.connect();
        connection.begin_chunked("POST /v1/insert/batch?early_reply=true", &headers);
        assert_eq!(connection.reply_head().status, 200, "{coding}");
        for n in 0..3 {
            connection.chunk(&pack(line(n).as_bytes())).unwrap();
            let reply = String::from_utf8(connection.next_chunk().unwrap()).unwrap();
            assert!(reply.contains("\"stored\":true"), "{coding} {n} {reply}");
        }
        connection.end_chunked();
        assert_eq!(connection.next_chunk(), None, "{coding}");
        // The connection can be used again.
        assert_eq!(connection.send("GET /healthz", &[], b"").status, 200, "{coding}");
    }
    // A large one above the limit of a single body is a batch like any other.
    let server = Server::with(|config| config.server.body_bytes_max = 65_536);
    let many: String = (0..2_000).map(line).collect();
    for (coding, body) in codings(many.as_bytes()) {
        let lines = post(&server, "/v1/insert/batch", NDJSON, coding, &body).lines();
        assert_eq!(lines.len(), 2_000, "{coding}");
        assert!(lines.iter().all(|line| line["stored"] == true), "{coding}");
    }
    assert_eq!(documents(&server), 2_000);
}

#[test]
fn the_head_of_a_compressed_batch_is_held_and_its_body_is_asked_for() {
    let server = Server::start();
    let body = gzip(b"{\"fingerprint\": 1}\n{\"fingerprint\": 2}\n");
    let mut connection = server.connect();
    let head = format!(
        "POST /v1/insert/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: {NDJSON}\r\n\
         content-encoding: gzip\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
        body.len()
    );
    connection.write(head.as_bytes()).unwrap();
    assert_eq!(connection.line(), "HTTP/1.1 100 Continue");
    assert_eq!(connection.line(), "");
    let (most, last) = body.split_at(body.len() - 1);
    connection.write(most).unwrap();
    assert!(!connection.is_readable_within(std::time::Duration::from_millis(100)), "held");
    connection.write(last).unwrap();
    assert_eq!(connection.reply().lines().len(), 2);
}

#[test]
fn a_coding_that_is_not_known_is_415_and_names_those_that_are() {
    let server = Server::start();
    let words = text(1, 40);
    for coding in ["br", "deflate", "gzip, zstd", "gzip,gzip", "*", "none"] {
        for (path, kind) in [("/v1/insert", "text/plain"), ("/v1/insert/batch", NDJSON)] {
            let reply = post(&server, path, kind, coding, words.as_bytes());
            assert_eq!(reply.problem(), (415, "unsupported_encoding".to_owned()), "{coding}");
            assert_eq!(reply.header("accept-encoding"), Some("gzip, zstd"));
            let detail = reply.problem_body()["detail"].to_string();
            assert!(detail.contains(&format!("Content-Encoding {coding} ")), "{detail}");
        }
    }
    let twice = [
        ("content-type", "text/plain"),
        ("content-encoding", "gzip"),
        ("content-encoding", "gzip"),
    ];
    let reply = server.send("POST /v1/insert", &twice, &gzip(words.as_bytes()));
    assert_eq!(reply.problem(), (415, "unsupported_encoding".to_owned()));
    assert_eq!(documents(&server), 0);
    assert_eq!(post(&server, "/v1/insert", "text/plain", "identity", words.as_bytes()).status, 200);
    assert_eq!(documents(&server), 1);
}

#[test]
fn a_compressed_body_that_is_cut_or_damaged_is_refused() {
    let server = Server::start();
    let json = json!({"text": text(1, 400)}).to_string();
    for (coding, body) in codings(json.as_bytes()) {
        let insert = |body: &[u8]| post(&server, "/v1/insert", "application/json", coding, body);
        for cut in [1, 4, body.len() / 2, body.len() - 1] {
            let code = "body_incomplete".to_owned();
            assert_eq!(insert(&body[..cut]).problem(), (400, code), "{coding} {cut}");
        }
        let garbage = [&body[..], b"garbage"].concat();
        let other_magic = [b"\x00\x00\x00\x00", &body[4..]].concat();
        for damaged in [&garbage, &other_magic, &json.as_bytes().to_vec()] {
            let reply = insert(damaged);
            assert_eq!(reply.problem(), (400, "malformed_encoding".to_owned()), "{coding}");
        }
    }
    // The checksum of gzip.
    let mut wrong = gzip(json.as_bytes());
    let checksum = wrong.len() - 8;
    wrong[checksum] ^= 1;
    let reply = post(&server, "/v1/insert", "application/json", "gzip", &wrong);
    assert_eq!(reply.problem(), (400, "malformed_encoding".to_owned()));
    assert_eq!(documents(&server), 0);
}

#[test]
fn a_batch_that_is_damaged_keeps_the_lines_before_and_says_where_it_ended() {
    let server = Server::start();
    for (coding, pack) in [("gzip", gzip as fn(&[u8]) -> Vec<u8>), ("zstd", zstd)] {
        let lines = pack(b"{\"fingerprint\": 1}\n{\"fingerprint\": 2}\n{\"fing");
        for (tail, code) in
            [(&b"garbage"[..], "malformed_encoding"), (&lines[..9], "body_incomplete")]
        {
            let body = [&lines[..], tail].concat();
            let replies = post(&server, "/v1/insert/batch", NDJSON, coding, &body).lines();
            assert_eq!(replies.len(), 3, "{coding} {replies:?}");
            assert_eq!(
                (&replies[0]["stored"], &replies[1]["stored"]),
                (&json!(true), &json!(true))
            );
            let error = &replies[2]["error"];
            assert_eq!((&error["code"], &error["line"]), (&json!(code), &json!(3)), "{coding}");
        }
        let packed = pack(&7_u64.to_le_bytes());
        let body = [&packed[..], b"garbage"].concat();
        let kind = "application/octet-stream";
        let reply = post(&server, "/v1/insert/batch", kind, coding, &body);
        assert_eq!(reply.problem(), (400, "malformed_encoding".to_owned()), "nothing is stored");
    }
    assert_eq!(documents(&server), 8);
}

#[test]
fn the_limit_on_a_body_counts_what_it_expands_to() {
    let server = Server::with(|config| config.server.body_bytes_max = 65_536);
    let body = |bytes: usize| {
        let json = json!({"text": ""}).to_string();
        let words = text(1, 60) + &" ".repeat(bytes);
        let mut json = json.replace("\"\"", &format!("\"{words}\""));
        json.truncate(bytes - 2);
        json + "\"}"
    };
    for (coding, fits) in codings(body(65_536).as_bytes()) {
        let reply = post(&server, "/v1/insert", "application/json", coding, &fits);
        assert_eq!(reply.status, 200, "{coding} {}", reply.text());
    }
    for (coding, above) in codings(body(65_537).as_bytes()) {
        let reply = post(&server, "/v1/insert", "application/json", coding, &above);
        assert_eq!(reply.problem(), (413, "body_too_large".to_owned()), "{coding}");
    }
    let packed = vec![0; 65_544];
    for (coding, above) in codings(&packed) {
        let kind = "application/octet-stream";
        let reply = post(&server, "/v1/insert/batch", kind, coding, &above);
        assert_eq!(reply.problem(), (411, "length_required".to_owned()), "{coding}");
        let detail = reply.problem_body()["detail"].to_string();
        assert!(detail.contains("no Content-Encoding"), "{detail}");
    }
}

#[test]
fn a_bomb_ends_early_whatever_it_expands_to() {
    let server = Server::with(|config| config.server.body_bytes_max = 65_536);
    // The same piece of compressed zeros or blank lines again and again: gigabytes.
    for byte in [b'\0', b'\n', b' '] {
        for (coding, member) in codings(&vec![byte; 8 << 20]) {
            let bomb = member.repeat((4 << 20) / member.len());
            for (path, kind) in [("/v1/insert", "text/plain"), ("/v1/compare", "application/json")]
            {
                let reply = post(&server, path, kind, coding, &bomb);
                assert_eq!(reply.problem(), (413, "body_too_large".to_owned()), "{path} {coding}");
            }
            let replies = post(&server, "/v1/insert/batch", NDJSON, coding, &bomb).lines();
            let error = &replies.last().unwrap()["error"];
            assert_eq!(error["code"], "body_too_large", "{coding} {replies:?}");
            let detail = error["detail"].as_str().unwrap();
            assert!(detail.contains("256 times") && detail.contains("body_bytes_max"), "{detail}");
        }
    }
    let stats = server.get("/v1/stats").json();
    assert_eq!((&stats["documents"], &stats["memory"]["bodies_bytes"]), (&json!(0), &json!(0)));
}

#[test]
fn the_window_of_a_decoder_is_bounded_and_counts_as_memory_of_bodies() {
    let body = json!({"text": text(1, 400)}).to_string();
    let with_window = |log: u32| {
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(log).unwrap();
        encoder.write_all(body.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let insert = |server: &Server, log: u32| {
        post(server, "/v1/insert", "application/json", "zstd", &with_window(log))
    };
    let server = Server::start();
    assert_eq!(insert(&server, 23).status, 200);
    let refused = insert(&server, 24);
    assert_eq!(refused.problem(), (400, "malformed_encoding".to_owned()));
    let detail = refused.problem_body()["detail"].to_string();
    assert!(detail.contains("8 MiB"), "{detail}");
    // What is filled of it counts, with the body itself.
    let small = Server::with(|config| {
        config.server.body_bytes_max = 4 << 20;
        config.server.bodies_held_bytes_max = 4 << 20;
    });
    let body = json!({"text": text(1, 300_000)}).to_string();
    assert!((2 << 20..3 << 20).contains(&body.len()), "{}", body.len());
    let packed = |log: u32| {
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(log).unwrap();
        encoder.write_all(body.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let insert = |log: u32| post(&small, "/v1/insert", "application/json", "zstd", &packed(log));
    assert_eq!(insert(23).problem(), (503, "overloaded".to_owned()));
    assert_eq!(insert(17).status, 200);
    assert_eq!(bodies_bytes(&small), 0);
}

fn bodies_bytes(server: &Server) -> u64 {
    server.get("/v1/stats").json()["memory"]["bodies_bytes"].as_u64().unwrap()
}

/// The header of a frame with a window of 8 MiB, which announces this size of the content.
fn frame_header(size: Option<u32>) -> Vec<u8> {
    let window = 13 << 3;
    let head = [0x28, 0xb5, 0x2f, 0xfd, if size.is_some() { 0x80 } else { 0 }, window];
    [&head[..], &size.map_or(Vec::new(), |size| size.to_le_bytes().to_vec())].concat()
}

#[test]
fn bodies_that_have_only_begun_count_with_their_decoders_and_no_more() {
    for (coding, begin) in [("zstd", frame_header(None)), ("gzip", gzip(b"text")[..12].to_vec())] {
        begun_bodies_count(coding, &begin);
    }
}

fn begun_bodies_count(coding: &str, begin: &[u8]) {
    let server = Server::with(|config| {
        config.server.body_bytes_max = 1 << 20;
        config.server.bodies_held_bytes_max = 4 << 20;
    });
    let headers = [("content-type", "application/json"), ("content-encoding", coding)];
    let begun: Vec<_> = (0..20)
        .map(|_| {
            let mut connection = server.connect();
            connection.begin_chunked("POST /v1/insert", &headers);
            connection.chunk(begin).unwrap();
            connection
        })
        .collect();
    // Each decoder counts with a little.
    poll(|| (bodies_bytes(&server) > 20 * (64 << 10)).then_some(()));
    let body = json!({"text": text(1, 40_000)}).to_string();
    assert!(body.len() > 256 << 10, "it counts, too");
    assert_eq!(server.post_text("/v1/insert", &body).status, 200);
    drop(begun);
    poll(|| (bodies_bytes(&server) == 0).then_some(()));
}

#[test]
fn a_frame_that_announces_more_than_it_has_is_refused() {
    let server = Server::start();
    let last_is_empty = [1, 0, 0];
    let raw = [&(4_u32 << 3).to_le_bytes()[..3], b"none"].concat();
    for (content, announced) in [(&[][..], 8 << 20), (&raw, 8 << 20), (&raw, 5), (&raw, 3)] {
        let frame = [&frame_header(Some(announced)), content, &last_is_empty].concat();
        let text = post(&server, "/v1/insert", "text/plain", "zstd", &frame);
        assert_eq!(text.problem(), (400, "malformed_encoding".to_owned()), "{announced}");
        let lines = post(&server, "/v1/insert/batch", NDJSON, "zstd", &frame).lines();
        assert_eq!(lines.last().unwrap()["error"]["code"], "malformed_encoding", "{announced}");
        let mut dribbling = server.connect();
        let headers = [("content-type", "text/plain"), ("content-encoding", "zstd")];
        dribbling.begin_chunked("POST /v1/insert", &headers);
        for byte in frame {
            dribbling.chunk(&[byte]).unwrap();
        }
        dribbling.end_chunked();
        assert_eq!(dribbling.reply().problem(), (400, "malformed_encoding".to_owned()));
    }
    // It may have exactly that, and a frame that is skipped announces nothing.
    let skipped = [&b"\x50\x2a\x4d\x18\x03\0\0\0"[..], b"abc"].concat();
    let whole = [&skipped[..], &frame_header(Some(4)), &raw, &last_is_empty].concat();
    assert_eq!(post(&server, "/v1/query", "text/plain", "zstd", &whole).status, 200);
    assert_eq!(documents(&server), 0);
}

#[test]
fn an_empty_body_is_empty_in_every_coding() {
    let server = Server::start();
    for coding in ["gzip", "zstd"] {
        let reply = post(&server, "/v1/insert/batch", NDJSON, coding, b"");
        assert_eq!((reply.status, reply.body.len()), (200, 0), "{coding}");
        let reply = post(&server, "/v1/insert", "application/json", coding, b"");
        assert_eq!(reply.problem(), (400, "malformed_json".to_owned()), "{coding}");
    }
    let reply = server.query(&hex(1));
    assert_eq!(reply["duplicate"], false);
}

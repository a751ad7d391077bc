//! The bytes of replies: a limit for each, a budget for all that wait, few exports at a time.
//!
//! Sixty-four stored fingerprints lie within one bit of 0, each with ten ids of 2,000 bytes: a
//! reply that lists them all has 1.3 MB.

use std::time::Duration;

use nearprint::server::Settings;
use serde_json::{Value, json};

use crate::limits::poll;
use crate::support::{Connection, Server, hex};

const NEAR: usize = 64;
const IDS: usize = 10;
const ID_BYTES: usize = 2_000;

/// The smallest limit of a reply.
const REPLY_BYTES_MIN: u64 = 131_072;

fn id(bit: usize, number: usize, filling: &str) -> String {
    format!("{bit}/{number}/{}", filling.repeat(ID_BYTES / filling.len()))
}

/// The batch of the sixty-four, with ids filled by a character.
pub(crate) fn near_documents(filling: &str) -> String {
    let lines = (0..NEAR).flat_map(|bit| {
        (0..IDS).map(move |number| {
            let line = json!({"id": id(bit, number, filling), "fingerprint": hex(1 << bit)});
            format!("{line}\n")
        })
    });
    lines.collect()
}

/// Stores the sixty-four.
fn fill(server: &Server, filling: &str) {
    let replies = server.post_lines("/v1/insert/batch", &near_documents(filling));
    assert!(replies.iter().all(|reply| reply["stored"] == true), "{:?}", replies.first());
}

pub(crate) fn query_of_all() -> Value {
    json!({"fingerprint": hex(0), "limit": 1_000})
}

/// Not all hits are listed, but all are counted, and the reply is as long as it may be.
fn assert_cut(reply: &[u8], bytes_max: u64) {
    let json: Value = serde_json::from_slice(reply).unwrap();
    let listed = json["hits"].as_array().unwrap().len();
    assert!(listed > 0 && listed < NEAR, "{listed}");
    assert_eq!((&json["truncated"], &json["hit_count"]), (&json!(true), &json!(NEAR)));
    assert!(reply.len() as u64 <= bytes_max, "{}", reply.len());
}

#[test]
fn a_reply_lists_as_many_hits_as_fit_in_its_limit() {
    let server = Server::with(|config| config.server.reply_bytes_max = REPLY_BYTES_MIN);
    fill(&server, "x");
    assert_cut(&server.post("/v1/query", &query_of_all()).body, REPLY_BYTES_MIN);
    assert_cut(&server.post("/v1/check-and-insert", &query_of_all()).body, REPLY_BYTES_MIN);
    for route in ["/v1/query/batch", "/v1/check-and-insert/batch"] {
        let lines = format!("{}\n{}\n", query_of_all(), query_of_all());
        let reply = server.send(&format!("POST {route}"), &NDJSON, lines.as_bytes());
        let lines: Vec<_> = reply.body.split_inclusive(|&byte| byte == b'\n').collect();
        assert_eq!(lines.len(), 2);
        for line in lines {
            assert_cut(line, REPLY_BYTES_MIN);
        }
    }
    // With a higher limit all are listed.
    let roomy = Server::start();
    fill(&roomy, "x");
    let all = roomy.post("/v1/query", &query_of_all()).json();
    assert_eq!((all["hits"].as_array().unwrap().len(), &all["truncated"]), (NEAR, &json!(false)));
}

/// The ids are read within the limit; escaped they are six times as long.
#[test]
fn characters_that_need_an_escape_count_as_they_are_sent() {
    let server = Server::with(|config| config.server.reply_bytes_max = REPLY_BYTES_MIN);
    fill(&server, "\u{1}");
    assert_cut(&server.post("/v1/query", &query_of_all()).body, REPLY_BYTES_MIN);
    assert_cut(&server.post("/v1/check-and-insert", &query_of_all()).body, REPLY_BYTES_MIN);
}

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
const NDJSON: [(&str, &str); 1] = [("content-type", "application/x-ndjson")];

/// Requests long replies, more than the operating system buffers, and reads none.
fn unread(server: &Server, line: &str) -> Connection {
    let mut connection = server.connect();
    for _ in 0..12 {
        connection.begin(line, &JSON, query_of_all().to_string().as_bytes());
    }
    connection
}

/// Waits until the operating system takes no more of an unread reply: until then the counted bytes
/// fall and rise with each reply of the connection.
fn wait_until_blocked(server: &Server) {
    let mut last = (counted_bytes(server), 0);
    poll(|| {
        let now = counted_bytes(server);
        last = if now == last.0 { (now, last.1 + 1) } else { (now, 0) };
        (now > 1 << 20 && last.1 == 10).then_some(())
    });
}

fn counted_bytes(server: &Server) -> u64 {
    server.get("/v1/stats").json()["memory"]["replies_bytes"].as_u64().unwrap()
}

#[test]
fn unread_long_replies_are_counted_and_further_ones_wait() {
    let server = Server::with(|config| {
        config.server.reply_bytes_max = 2 << 20;
        config.server.replies_held_bytes_max = 4 << 20;
    });
    fill(&server, "x");
    assert_eq!(counted_bytes(&server), 0);
    let first = unread(&server, "POST /v1/query");
    wait_until_blocked(&server);
    // A query is refused; a write is done, and its reply lists what is short enough.
    let refused = server.post("/v1/query", &query_of_all());
    assert_eq!(refused.problem(), (503, "overloaded".to_owned()));
    assert!(refused.text().contains("server.replies_held_bytes_max"), "{}", refused.text());
    assert!(refused.header("retry-after").is_some());
    let written = server.post("/v1/check-and-insert", &query_of_all());
    assert_cut(&written.body, 32 << 10);
    assert_eq!(written.json()["outcome"], "duplicate");
    // A page of a list gets shorter.
    let page = server.get("/v1/documents?limit=1000");
    assert!(page.body.len() <= 16 << 10, "{}", page.body.len());
    assert!(!page.json()["documents"].as_array().unwrap().is_empty());
    assert!(page.json()["next"].is_string());
    // Short replies are still sent, and so is a batch of them.
    let short = json!({"fingerprint": hex(0), "limit": 1, "distance": 0});
    assert_eq!(server.post("/v1/query", &short).status, 200);
    assert_eq!(server.post_lines("/v1/query/batch", &format!("{short}\n").repeat(100)).len(), 100);
    drop(first);
    let again = poll(|| {
        Some(server.post("/v1/query", &query_of_all())).filter(|reply| reply.status == 200)
    });
    assert_eq!(again.json()["hits"].as_array().unwrap().len(), NEAR);
    poll(|| (counted_bytes(&server) == 0).then_some(()));
}

#[test]
fn a_line_of_a_batch_waits_for_the_budget_instead_of_failing() {
    let server = Server::with(|config| {
        config.server.reply_bytes_max = 2 << 20;
        config.server.replies_held_bytes_max = 4 << 20;
    });
    fill(&server, "x");
    let first = unread(&server, "POST /v1/query");
    wait_until_blocked(&server);
    let mut batch = server.connect();
    batch.begin("POST /v1/query/batch", &NDJSON, format!("{}\n", query_of_all()).as_bytes());
    drop(first);
    let replies = batch.reply().lines();
    assert_eq!(replies[0]["hits"].as_array().unwrap().len(), NEAR);
}

#[test]
fn unread_exports_delay_nothing_and_further_ones_are_refused() {
    let never = |settings: &mut Settings| settings.http.export_stall = Duration::from_hours(1);
    let server = Server::tuned(|config| config.server.exports_max = 2, never);
    // Eight megabytes: more than the operating system and the queue of pieces buffer.
    let document = |number| json!({"id": id(number, 0, "x"), "fingerprint": hex(number as u64)});
    let lines: Vec<_> = (0..4_000).map(|number| document(number).to_string()).collect();
    assert_eq!(server.post_lines("/v1/insert/batch", &lines.join("\n")).len(), 4_000);
    let export = "GET /v1/snapshots/export";
    let unread: Vec<_> = (0..2)
        .map(|_| {
            let mut connection = server.connect();
            connection.begin(export, &[], b"");
            assert_eq!(connection.reply_head().status, 200);
            connection
        })
        .collect();
    let refused = server.send(export, &[], b"");
    assert_eq!(refused.problem(), (503, "overloaded".to_owned()));
    assert!(refused.text().contains("server.exports_max"), "{}", refused.text());
    let document = server.get(&format!("/v1/documents/{}", id(0, 0, "x").replace('/', "%2F")));
    assert_eq!(document.status, 200);
    drop(unread);
    poll(|| Some(server.send(export, &[], b"")).filter(|reply| reply.status == 200));
}

//! Promise: whatever a client sends, it gets an answer: 2xx, or 4xx with a complete problem
//! document. No 5xx, no panic, no hang. Method: 100,000 requests made from valid ones by changes
//! that know their structure (fields, types, nesting, encodings, lines, lengths), on connections
//! that are kept alive.
//!
//! `NEARPRINT_TEST_MUTATED` sets how many, `NEARPRINT_TEST_SEED` repeats a run.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::random::{Random, variable};
use crate::support::{Reply, Server, hex, now, text};

const REQUESTS: u64 = 10_000;
const CLIENTS: u64 = 4;
/// A hang is a failure; the machine may be busy, so this is generous.
const SLOWEST: Duration = Duration::from_secs(10);

/// Further choices of these tests.
impl Random {
    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

const ROUTES: &[&str] = &[
    "/v1/fingerprint",
    "/v1/fingerprint/batch",
    "/v1/compare",
    "/v1/query",
    "/v1/query/batch",
    "/v1/insert",
    "/v1/insert/batch",
    "/v1/check-and-insert",
    "/v1/check-and-insert/batch",
    "/v1/documents",
    "/v1/documents/some-id",
    "/v1/fingerprints/00000000000000ff",
    "/v1/stats",
    "/v1/namespaces",
    "/v1/purge",
    "/v1/originals",
    "/v1/groups",
    "/v1/groups/00000000000000000000000000000001",
    "/v1/groups/00000000000000000000000000000001/0",
    "/v1/jobs",
    "/v1/jobs/00000000000000000000000000000001",
    "/healthz",
    "/readyz",
    "/readyz/reads",
    "/readyz/writes",
    "/openapi.json",
    "/nothing/here",
];

const TYPES: &[&str] = &[
    "application/json",
    "application/json; charset=utf-8",
    "application/json; charset=latin1",
    "text/plain",
    "text/plain; charset=shift_jis",
    "text/plain; charset=nothing",
    "text/html",
    "text/html; charset=\"windows-1252\"",
    "application/xhtml+xml",
    "application/x-ndjson",
    "application/octet-stream",
    "image/png",
    "a/b; ;;=;charset",
];

const FIELDS: &[&str] = &[
    "id",
    "text",
    "html",
    "features",
    "fingerprint",
    "recipe",
    "distance",
    "limit",
    "min_similarity",
    "on_duplicate",
    "extract",
    "explain",
    "namespace",
    "all_namespaces",
    "metadata",
    "expires_in",
    "expires_at",
    "max_age",
    "include",
    "id_from",
    "prefix",
    "after",
    "stored_before",
    "dry_run",
    "a",
    "b",
    "unknown",
    "",
    "\u{0}",
];

/// A value that fits a field of this name.
fn fitting(random: &mut Random, field: &str) -> Value {
    match field {
        "id" => json!(format!("id-{}", random.below(500))),
        "text" => json!(text(random.next() % 50, random.below(40))),
        "html" => json!(format!("<p>{}</p>", text(random.next() % 50, random.below(40)))),
        "features" => json!([["one", 1.5], ["two", 2]]),
        "fingerprint" => json!(hex(random.next())),
        "recipe" => json!("np2"),
        "distance" => json!(random.below(4)),
        "limit" => json!(1 + random.below(20)),
        "min_similarity" => json!(0.5),
        "on_duplicate" => json!("insert"),
        "extract" => json!("main"),
        "explain" | "dry_run" => json!(random.one_in(2)),
        "namespace" => json!("news"),
        "all_namespaces" => json!(true),
        "metadata" => json!({"source": {"name": "feed", "numbers": [1, 2.5, null]}}),
        "expires_in" | "max_age" => json!(1 + random.below(100)),
        "expires_at" => json!(4_000_000_000_u64),
        "include" => json!(["metadata"]),
        "id_from" => json!("fingerprint"),
        "prefix" => json!("id-1"),
        "after" => json!("00000000000000000000000000000003"),
        "stored_before" => json!(1_000_000_000),
        _ => json!({"text": text(random.next() % 50, 20)}),
    }
}

/// A value that rarely fits.
fn odd(random: &mut Random) -> Value {
    match random.below(16) {
        0 => Value::Null,
        1 => json!(-1),
        2 => json!(u64::MAX),
        3 => json!(1e308),
        4 => json!(-0.0),
        5 => json!(""),
        6 => json!("\u{0}\u{ffff}\u{202e}"),
        7 => json!("x".repeat(random.below(5_000))),
        8 => json!([]),
        9 => json!({}),
        10 => json!([[[[[[[[1]]]]]]]]),
        11 => json!([["weight", -1], ["weight", 1e300], [3, "weight"]]),
        12 => json!(true),
        13 => json!("fffffffffffffffff"),
        14 => json!("\u{1f9ea}".repeat(random.below(700))),
        _ => json!(random.next()),
    }
}

/// A JSON object as text: fields that fit and some that do not, some of them twice.
fn object(random: &mut Random) -> String {
    let mut fields = Map::new();
    let document = random.pick(&["text", "html", "fingerprint", "features"]);
    fields.insert(document.to_owned(), fitting(random, document));
    for _ in 0..random.below(4) {
        let name = random.pick(FIELDS);
        let value = if random.one_in(3) { odd(random) } else { fitting(random, name) };
        fields.insert(name.to_owned(), value);
    }
    let written = Value::Object(fields).to_string();
    match random.below(12) {
        // A field twice.
        0 => format!("{{\"id\":\"twice\",{}", &written[1..]),
        // Half a surrogate, and numbers beyond every type.
        1 => format!("{{\"text\":\"\\ud800\",{}", &written[1..]),
        2 => format!("{{\"limit\":1e999,{}", &written[1..]),
        3 => "[".repeat(random.below(3_000)) + &written,
        4 => "{\"text\":".repeat(random.below(3_000)) + "1",
        _ => written,
    }
}

fn html(random: &mut Random) -> String {
    let piece = |random: &mut Random| match random.below(10) {
        0 => "<ul><li>".repeat(random.below(300)),
        1 => "<script>if (a < b) {</script".to_owned(),
        2 => "<!-- never closed".to_owned(),
        3 => "&#x110000;&#0;&notanentity;&amp".to_owned(),
        4 => format!("<p title=\"{}", text(random.next() % 50, 5)),
        5 => "<meta charset=utf-16><title>".to_owned(),
        6 => "<![CDATA[ ]]></p></p></p>".to_owned(),
        _ => format!("<p>{}</p>", text(random.next() % 50, random.below(30))),
    };
    (0..=random.below(8)).map(|_| piece(random)).collect()
}

fn body(random: &mut Random, kind: &str) -> Vec<u8> {
    let mut body = if kind.contains("ndjson") {
        let lines = (0..random.below(12)).map(|_| match random.below(8) {
            0 => String::new(),
            1 => " \t\r".to_owned(),
            2 => "null".to_owned(),
            _ => object(random),
        });
        lines.collect::<Vec<_>>().join("\n").into_bytes()
    } else if kind.contains("octet-stream") {
        (0..random.below(600)).map(|_| random.next().to_le_bytes()[0]).collect()
    } else if kind.contains("html") {
        html(random).into_bytes()
    } else if kind.contains("plain") {
        text(random.next() % 50, random.below(60)).into_bytes()
    } else {
        object(random).into_bytes()
    };
    // Mutations without structure come last, and rarely.
    if random.one_in(3) && !body.is_empty() {
        for _ in 0..=random.below(4) {
            let at = random.below(body.len());
            match random.below(5) {
                0 => body[at] ^= 1 << random.below(8),
                1 => body[at] = [0, 0xff, 0xc0, b'"', b'\n'][random.below(5)],
                2 => body.truncate(at + 1),
                3 => body.insert(at, random.next().to_le_bytes()[0]),
                _ => {
                    let piece = body[at..(at + 40).min(body.len())].to_vec();
                    body.extend(piece);
                }
            }
        }
    }
    body
}

/// Path and query string: printable, as HTTP/1.1 requires.
fn target(random: &mut Random) -> String {
    let mut target = random.pick(ROUTES).to_owned();
    if random.one_in(3) {
        target.push('?');
        for _ in 0..=random.below(3) {
            let name = random.pick(&FIELDS[..14]);
            let value = random.pick(&[
                "1",
                "-1",
                "0.5",
                "%00",
                "%ff%fe",
                "%",
                "%zz",
                "+",
                "00000000000000ff",
                "true",
                "insert",
                "a=b",
                "%F0%9F%A7%AA",
                "99999999999999999999",
            ]);
            write!(target, "{name}={value}&").unwrap();
        }
    }
    target
}

/// Whether a reply keeps the promise.
fn check(reply: &Reply, line: &str, body: &[u8]) {
    let sent = || format!("{line}\n{}", String::from_utf8_lossy(&body[..body.len().min(2_000)]));
    assert!(reply.status < 500, "{} to {}\n{}", reply.status, sent(), reply.text());
    if reply.status >= 400 {
        reply.problem_body();
    } else if reply.header("content-type") == Some("application/x-ndjson") {
        for answer in reply.lines() {
            let status = answer["error"]["status"].as_u64().unwrap_or(200);
            assert!(status < 500, "{answer} in the answer to {}", sent());
        }
    }
}

/// Sends requests on connections that are kept alive; returns how many were refused.
fn client(server: &Server, seed: u64, requests: u64) -> (u64, Duration) {
    let mut random = Random(seed);
    let mut connection = server.connect();
    let (mut refused, mut slowest) = (0, Duration::ZERO);
    for _ in 0..requests {
        let kind = random.pick(TYPES);
        let method = random.pick(&["POST", "POST", "POST", "POST", "POST", "GET", "DELETE", "PUT"]);
        let line = format!("{method} {}", target(&mut random));
        let body = body(&mut random, kind);
        let mut headers = vec![("content-type", kind)];
        if random.one_in(20) {
            headers.push(("accept", "application/x-ndjson"));
        }
        if random.one_in(50) {
            headers.remove(0);
        }
        let begun = now();
        let reply = connection.send_if_open(&line, &headers, &body).unwrap_or_else(|| {
            // Closed after the request before. On a new connection every request has its answer.
            connection = server.connect();
            connection.send(&line, &headers, &body)
        });
        slowest = slowest.max(begun.elapsed());
        check(&reply, &line, &body);
        refused += u64::from(reply.status >= 400);
        if reply.header("connection") == Some("close") {
            connection = server.connect();
        }
    }
    (refused, slowest)
}

#[test]
fn mutated_requests_are_answered_or_refused_and_never_fail() {
    let server = Server::start();
    let requests = variable("NEARPRINT_TEST_MUTATED").unwrap_or(REQUESTS) / CLIENTS;
    let seed = variable("NEARPRINT_TEST_SEED").unwrap_or(1);
    let results: Vec<_> = std::thread::scope(|scope| {
        let (server, random) = (&server, &mut Random(seed));
        let seeds: Vec<u64> = (0..CLIENTS).map(|_| random.next()).collect();
        let clients = seeds.into_iter().map(|s| scope.spawn(move || client(server, s, requests)));
        let clients: Vec<_> = clients.collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let refused: u64 = results.iter().map(|(refused, _)| refused).sum();
    let slowest = results.iter().map(|(_, slowest)| *slowest).max().unwrap();
    let all = requests * CLIENTS;
    println!("seed {seed}: {refused} of {all} refused, the slowest took {slowest:?}");
    assert!(refused > all / 4 && refused < all, "valid and invalid ones: {refused} refused");
    assert!(slowest < SLOWEST, "{slowest:?}");
    // The service still answers.
    assert_eq!(server.insert("afterwards", &hex(1))["stored"], true);
}

//! A token that is limited to namespaces learns nothing countable about the others.

use std::collections::BTreeMap;

use nearprint::access::Token;
use nearprint::config::Config;
use nearprint::server::Settings;
use serde_json::{Value, json};

use crate::limits::poll;
use crate::support::{Reply, Server, hex, name, text};

/// Headers that tell the time, or name the request.
const OF_THE_MOMENT: [&str; 2] = ["date", "x-request-id"];

/// What a service says that passes a request on. It does not make a client one.
const OF_COPIES: [(&str, &str); 2] =
    [("nearprint-forwarded", "1"), ("nearprint-change", "00000000000000000000000000000001")];

/// The tokens of two clients, limited to `a` and to `b/...`, and of the operator.
struct Tokens([Token; 3]);

impl Tokens {
    fn new() -> Self {
        Self([(); 3].map(|()| Token::generate().unwrap()))
    }

    fn server(&self, change: impl FnOnce(&mut Config), tune: impl FnOnce(&mut Settings)) -> Server {
        let [a, b, all] = [0, 1, 2].map(|at: usize| self.0[at].digest());
        let with_tokens = |config: &mut Config| {
            config.access.tokens = format!(
                "a read,write,admin {a} namespaces=a\n\
                 b read,write,admin {b} namespaces=b/*\n\
                 all read,write,admin {all}"
            );
            change(config);
        };
        Server::tuned(with_tokens, tune)
    }

    fn client<'s>(&self, server: &'s Server, at: usize) -> Client<'s> {
        Client { server, bearer: format!("Bearer {}", self.0[at].reveal()) }
    }
}

struct Client<'s> {
    server: &'s Server,
    bearer: String,
}

impl Client<'_> {
    fn send_as(&self, media_type: &str, line: &str, body: &[u8]) -> Reply {
        let kind = if line.starts_with("GET") { "accept" } else { "content-type" };
        let own = [("authorization", &*self.bearer), (kind, media_type)];
        self.server.send(line, &[&own[..], &OF_COPIES].concat(), body)
    }

    fn send(&self, line: &str, body: &Value) -> Reply {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send_as("application/json", line, body.as_bytes())
    }

    fn lines(&self, line: &str, lines: &[Value]) -> Reply {
        let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
        self.send_as("application/x-ndjson", line, lines.join("\n").as_bytes())
    }

    fn packed(&self, line: &str, bits: &[u64]) -> Reply {
        let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        self.send_as("application/octet-stream", line, &bytes)
    }

    /// A job when it has ended.
    fn ended(&self, job: &Value) -> Reply {
        let path = format!("GET /v1/jobs/{}", name(job));
        poll(|| {
            Some(self.send(&path, &Value::Null))
                .filter(|reply| !reply.json()["ended_at_ms"].is_null())
        })
    }
}

/// A client that notes what it learns, and others that work before each of its calls.
struct Asking<'s> {
    client: &'s Client<'s>,
    others: Box<dyn FnMut() + 's>,
    learned: Vec<(String, String)>,
}

impl<'s> Asking<'s> {
    /// Sends a request and notes what the reply tells: all but times, and one word for whatever is
    /// encrypted.
    fn ask(&mut self, what: &str, send: impl FnOnce(&Client<'s>) -> Reply) -> Reply {
        (self.others)();
        let reply = send(self.client);
        let mut learned = format!("{} {:?}", reply.status, headers(&reply));
        for line in reply.text().lines() {
            let shown = match serde_json::from_str::<Value>(line) {
                Ok(mut json) => {
                    hide(&mut json);
                    json.to_string()
                }
                Err(_) => line.to_owned(),
            };
            learned.push('\n');
            learned.push_str(&shown);
        }
        self.learned.push((what.to_owned(), learned));
        reply
    }

    fn send(&mut self, line: &str, body: &Value) -> Reply {
        self.ask(line, |client| client.send(line, body))
    }

    fn get(&mut self, path: &str) -> Reply {
        self.send(&format!("GET {path}"), &Value::Null)
    }
}

fn headers(reply: &Reply) -> BTreeMap<&str, &str> {
    let all = reply.all_headers().iter();
    let all = all.map(|(name, value)| (name.as_str(), value.as_str()));
    all.filter(|(name, _)| !OF_THE_MOMENT.contains(name)).collect()
}

fn hide(json: &mut Value) {
    match json {
        Value::Object(fields) => {
            assert!(!fields.contains_key("sequence"), "{fields:?}");
            for (name, value) in fields {
                if name.ends_with("_ms") && value.is_u64() {
                    *value = json!("a time");
                } else if ["job", "next"].contains(&name.as_str()) && value.is_string() {
                    assert_eq!(value.as_str().unwrap().len(), 32, "{value}");
                    *value = json!("encrypted");
                } else {
                    hide(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Every kind of call that a client limited to `a` may do, while others work.
fn all_calls<'s>(client: &'s Client<'s>, others: impl FnMut() + 's) -> Vec<(String, String)> {
    let mut asking = Asking { client, others: Box::new(others), learned: Vec::new() };
    write(&mut asking);
    list(&mut asking);
    find_groups(&mut asking);
    remove(&mut asking);
    for path in [
        "/v1/stats?namespace=a",
        "/v1/stats",
        "/v1/snapshots",
        "/metrics",
        "/readyz",
        "/readyz/reads?max_lag_ms=1000",
        "/readyz/writes",
    ] {
        asking.get(path);
    }
    asking.learned
}

fn write(asking: &mut Asking<'_>) {
    let document = |id: &str, seed| json!({"id": id, "text": text(seed, 40), "namespace": "a"});
    for (id, seed) in [("1", 1), ("1", 1), ("1", 2)] {
        asking.send("POST /v1/insert", &document(id, seed)).json();
    }
    for id in ["2", "3"] {
        asking.send("POST /v1/check-and-insert", &document(id, 3)).json();
    }
    asking.send("POST /v1/query", &document("4", 3)).json();
    asking.get("/v1/query?namespace=a&fingerprint=0000000000000007").json();
    asking.get("/v1/documents/1?namespace=a").json();
    let lines: Vec<Value> =
        (0..40).map(|i| json!({"id": format!("l{i}"), "fingerprint": hex(i << 8)})).collect();
    asking.ask("lines", |client| client.lines("POST /v1/fingerprint/batch", &lines));
    for route in ["query", "insert", "check-and-insert", "check-and-insert"] {
        let line = format!("POST /v1/{route}/batch?namespace=a");
        asking.ask(&line, |client| client.lines(&line, &lines));
        asking.ask(&line, |client| client.packed(&line, &[1 << 50, 7, 7]));
    }
}

fn list(asking: &mut Asking<'_>) {
    let stream = "GET /v1/documents?namespace=a";
    asking.ask(stream, |client| client.send_as("application/x-ndjson", stream, b""));
    for list in [
        "/v1/documents?namespace=a&include=sketch",
        "/v1/documents?namespace=a&prefix=l1",
        "/v1/fingerprints/0000000000000007?namespace=a",
        "/v1/namespaces?",
        "/v1/originals?namespace=a",
    ] {
        let first = asking.get(&format!("{list}&limit=1")).json();
        if let Some(next) = first["next"].as_str() {
            let second = format!("GET {list}&limit=7&after={next}");
            asking.ask(list, |client| client.send(&second, &Value::Null));
        }
    }
}

fn find_groups(asking: &mut Asking<'_>) {
    let job = asking.send("POST /v1/groups", &json!({"namespace": "a"})).accepted();
    asking.ask("the end of the search", |client| client.ended(&job));
    let path = format!("/v1/groups/{}", name(&job));
    for rest in ["?limit=1", "/0?limit=1", "/99999"] {
        let line = format!("GET {path}{rest}");
        asking.ask(rest, |client| client.send(&line, &Value::Null));
    }
    let remove = format!("DELETE /v1/jobs/{}", name(&job));
    asking.ask("remove the groups", |client| client.send(&remove, &Value::Null));
}

fn remove(asking: &mut Asking<'_>) {
    let delete =
        |asking: &mut Asking<'_>, path: &str| asking.send(&format!("DELETE {path}"), &Value::Null);
    delete(asking, "/v1/documents/1?namespace=a").json();
    delete(asking, "/v1/fingerprints/0000000000000007?namespace=a").json();
    asking.ask("remove lines", |client| {
        client.lines("POST /v1/delete/batch?namespace=a", &[json!({"id": "l1"}), json!({"id": 9})])
    });
    let purge = json!({"namespace": "a", "prefix": "l2"});
    let purge = asking.send("POST /v1/purge", &purge).accepted();
    asking.ask("the end of the purge", |client| client.ended(&purge));
    let cancel = format!("DELETE /v1/jobs/{}", name(&purge));
    asking.ask("cancel", |client| client.send(&cancel, &Value::Null));
    let removed = asking.send("POST /v1/purge", &json!({"namespace": "a"})).accepted();
    asking.ask("the end of the namespace", |client| client.ended(&removed));
    asking.get("/v1/jobs?limit=1");
}

/// What others do before each call: they write, search, remove, and begin namespaces and jobs.
fn at_work<'s>(other: &'s Client<'_>, operator: &'s Client<'_>) -> impl FnMut() + 's {
    let mut turn = 0;
    move || {
        turn += 1;
        let lines: Vec<Value> = (0..20)
            .map(|i| {
                let namespace = format!("b/{}", turn * 20 + i);
                json!({"id": format!("{turn}/{i}"), "fingerprint": hex(i << 8), "namespace": namespace})
            })
            .collect();
        assert_eq!(other.lines("POST /v1/check-and-insert/batch", &lines).status, 200);
        other.packed("POST /v1/insert/batch?namespace=b/packed", &[7; 1_000]);
        operator.lines("POST /v1/insert/batch", &[json!({"fingerprint": hex(7)})]);
        operator.send("DELETE /v1/fingerprints/0000000000000007", &Value::Null).json();
        if turn % 8 == 0 {
            let purge = json!({"namespace": format!("b/{turn}")});
            let purge = other.send("POST /v1/purge", &purge).accepted();
            other.ended(&purge);
            let groups = other.send("POST /v1/groups", &json!({"namespace": "b/packed"}));
            other.ended(&groups.accepted());
        }
    }
}

#[test]
fn a_limited_token_learns_the_same_whatever_others_do() {
    let tokens = Tokens::new();
    let quiet = tokens.server(|_| {}, |_| {});
    let alone = all_calls(&tokens.client(&quiet, 0), || {});
    // So small that the namespaces of others take several looks.
    let busy = tokens.server(|_| {}, |settings| settings.engine.list_scan_max = 100);
    let (other, operator) = (tokens.client(&busy, 1), tokens.client(&busy, 2));
    let among_others = all_calls(&tokens.client(&busy, 0), at_work(&other, &operator));
    assert!(alone.len() > 40, "{}", alone.len());
    for (alone, among_others) in alone.iter().zip(&among_others) {
        assert_eq!(alone, among_others);
    }
    assert_eq!(alone.len(), among_others.len());
    let stats = operator.send("GET /v1/stats", &Value::Null).json();
    assert!(stats["sequence"].as_u64().unwrap() > 20_000, "they did work: {stats}");
}

#[test]
fn an_unlimited_token_sees_sequences_and_how_far_jobs_have_come() {
    let tokens = Tokens::new();
    let server = tokens.server(|_| {}, |_| {});
    let operator = tokens.client(&server, 2);
    let insert = |id: &str| {
        let document = json!({"id": id, "fingerprint": hex(1), "namespace": "a"});
        operator.send("POST /v1/insert", &document).json()["sequence"].clone()
    };
    assert_eq!((insert("1"), insert("2")), (json!(1), json!(2)));
    let purge = operator.send("POST /v1/purge", &json!({"namespace": "a"})).accepted();
    assert!(purge["progress"].is_f64(), "{purge}");
    let limited = tokens.client(&server, 0);
    let seen = limited.send(&format!("GET /v1/jobs/{}", name(&purge)), &Value::Null).json();
    assert_eq!(seen["job"], purge["job"], "a job has one name");
}

#[test]
fn a_limited_token_cannot_ask_how_much_is_written() {
    let tokens = Tokens::new();
    let server = tokens.server(|_| {}, |_| {});
    let document = json!({"id": "1", "fingerprint": hex(1), "namespace": "a"});
    tokens.client(&server, 2).send("POST /v1/insert", &document).json();
    let document = "GET /v1/documents/1?namespace=a";
    let (limited, operator) = (tokens.client(&server, 0), tokens.client(&server, 2));
    assert_eq!(limited.send(document, &Value::Null).status, 200);
    for wanted in [0, 1, 1_000_000] {
        let asked = limited.send(&format!("{document}&min_sequence={wanted}"), &Value::Null);
        assert_eq!(asked.problem(), (403, "namespace_not_allowed".to_owned()), "{wanted}");
    }
    let seen = operator.send(&format!("{document}&min_sequence=1"), &Value::Null);
    assert_eq!(seen.status, 200);
    let fresh = limited.send(&format!("{document}&fresh=true"), &Value::Null);
    assert_eq!(fresh.status, 200, "it tells nothing about others");
}

#[test]
fn a_failed_job_of_a_limited_token_does_not_tell_how_much_memory_others_take() {
    let tokens = Tokens::new();
    let server = tokens.server(|config| config.groups.memory_bytes_max = 1 << 20, |_| {});
    let (limited, operator) = (tokens.client(&server, 0), tokens.client(&server, 2));
    let many = vec![7; 20_000];
    operator.packed("POST /v1/insert/batch", &many).json();
    let job = limited.send("POST /v1/groups", &json!({"namespace": "a"})).accepted();
    let error =
        |client: &Client<'_>| client.ended(&job).json()["error"].as_str().unwrap().to_owned();
    assert!(!error(&limited).contains(|c: char| c.is_ascii_digit()), "{}", error(&limited));
    assert!(error(&limited).contains("groups.memory_bytes_max"), "{}", error(&limited));
    assert!(error(&operator).contains("1280000"), "{}", error(&operator));
}

#[test]
fn a_cursor_is_good_for_its_own_list_alone_and_after_a_restart() {
    let server = Server::start();
    server.insert_all((0..3).map(|i| json!({"id": i.to_string(), "fingerprint": hex(1)})));
    for _ in 0..2 {
        server.post("/v1/check-and-insert", &json!({"fingerprint": hex(1)})).json();
    }
    server.insert_all([json!({"id": "4", "fingerprint": hex(1 << 40)})]);
    server.post("/v1/check-and-insert", &json!({"fingerprint": hex(1 << 40)})).json();
    server.insert_all(["x", "y"].map(|name| json!({"fingerprint": hex(1), "namespace": name})));
    for _ in 0..2 {
        server.post("/v1/purge", &json!({"namespace": "z", "dry_run": true})).accepted();
    }
    poll(|| Some(()).filter(|()| !server.get("/v1/jobs").text().contains("\"ended_at_ms\":null")));
    let of_fingerprint = format!("/v1/fingerprints/{}", hex(1));
    let lists = ["/v1/documents", &of_fingerprint, "/v1/namespaces", "/v1/originals", "/v1/jobs"];
    let page =
        |server: &Server, list: &str, after: &str| server.get(&format!("{list}?limit=1{after}"));
    let cursors = lists.map(|list| {
        let page = page(&server, list, "").json();
        page["next"].as_str().unwrap_or_else(|| panic!("{list}: {page}")).to_owned()
    });
    let seconds: Vec<Value> = lists
        .iter()
        .zip(&cursors)
        .map(|(list, cursor)| page(&server, list, &format!("&after={cursor}")).json())
        .collect();
    let server = server.restarted();
    let refused = (400, "invalid_value".to_owned(), "after".to_owned());
    for (at, list) in lists.iter().enumerate() {
        let get = |cursor: &str| page(&server, list, &format!("&after={cursor}"));
        let (again, second) = (get(&cursors[at]).json(), &seconds[at]);
        if *list != "/v1/originals" {
            assert_eq!(&again, second, "{list}");
        }
        for (_, foreign) in cursors.iter().enumerate().filter(|(other, _)| *other != at) {
            assert_eq!(get(foreign).problem_at(), refused, "{list}");
        }
        let upper = cursors[at].to_ascii_uppercase();
        for forged in ["0", "2", "1.2", &"0".repeat(32), &format!("{}0", cursors[at]), &upper] {
            assert_eq!(get(forged).problem_at(), refused, "{list} {forged}");
        }
        // That of another directory.
        let other = Server::start();
        let there = page(&other, list, &format!("&after={}", cursors[at]));
        assert_eq!(there.problem_at(), refused, "{list}");
    }
    let detail = page(&server, "/v1/documents", "&after=2").problem_body()["detail"].clone();
    assert_eq!(detail, "after is `2`; it takes the `next` of another page of this list.");
}

#[test]
fn request_ids_do_not_tell_how_many_requests_lie_between() {
    let server = Server::start();
    let id = || {
        let reply = server.get("/healthz");
        u64::from_str_radix(reply.header("x-request-id").unwrap(), 16).unwrap()
    };
    // The inverse of the mix of SplitMix64, by which ids were once made of numbers.
    let number = |id: u64| {
        let z = (id ^ id >> 31 ^ id >> 62).wrapping_mul(0x3196_42b2_d24d_8ec3);
        let z = (z ^ z >> 27 ^ z >> 54).wrapping_mul(0x96de_1b17_3f11_9089);
        z ^ z >> 30 ^ z >> 60
    };
    let (first, second) = (id(), id());
    assert!(second.wrapping_sub(first) > 1_000 && first.wrapping_sub(second) > 1_000);
    let [first, second] = [first, second].map(number);
    assert!(second.wrapping_sub(first) > 1_000, "{first} {second}");
}

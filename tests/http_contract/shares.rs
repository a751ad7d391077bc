//! Shares: what all clients share is divided among them, so that no client keeps another one out.

use nearprint::access::Token;
use nearprint::config::Config;
use nearprint::server::Settings;
use serde_json::json;

use crate::limits::poll;
use crate::replies::{near_documents, query_of_all};
use crate::support::{Connection, Reply, Server, hex, name};

const JSON: (&str, &str) = ("content-type", "application/json");

/// A server, and clients with tokens of their own.
fn with_clients<const N: usize>(change: impl FnOnce(&mut Config)) -> (Server, [Client; N]) {
    with_tuned_clients(change, |_| {})
}

fn with_tuned_clients<const N: usize>(
    change: impl FnOnce(&mut Config),
    tune: impl FnOnce(&mut Settings),
) -> (Server, [Client; N]) {
    let clients = [(); N].map(|()| Client(Token::generate().unwrap()));
    let line = |(at, Client(token)): (usize, &Client)| {
        format!("client-{at} read,write,admin {}", token.digest())
    };
    let lines: Vec<String> = clients.iter().enumerate().map(line).collect();
    let with_tokens = |config: &mut Config| {
        config.access.tokens = lines.join("\n");
        change(config);
    };
    (Server::tuned(with_tokens, tune), clients)
}

struct Client(Token);

impl Client {
    fn send(&self, server: &Server, line: &str, body: &str) -> Reply {
        self.send_as(server, line, JSON.1, body)
    }

    fn send_as(&self, server: &Server, line: &str, kind: &str, body: &str) -> Reply {
        let headers = [("content-type", kind), ("authorization", &self.bearer())];
        server.send(line, &headers, body.as_bytes())
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.0.reveal())
    }

    fn query(&self, server: &Server) -> Reply {
        self.send(server, "POST /v1/query", &json!({"fingerprint": hex(1)}).to_string())
    }

    /// A request that is worked on until its connection ends, or its refusal.
    fn endless(&self, server: &Server) -> (Connection, Reply) {
        let mut connection = server.connect();
        let headers = [("authorization", &*self.bearer())];
        connection.begin("GET /v1/changes?after=0", &headers, b"");
        let head = connection.reply_head();
        (connection, head)
    }
}

/// Begins a request whose body the server waits for.
fn begin_slowly(server: &Server, line: &str, kind: &str) -> Connection {
    let mut connection = server.connect();
    connection.begin_chunked(line, &[("content-type", kind), ("expect", "100-continue")]);
    assert_eq!([connection.line(), connection.line()], ["HTTP/1.1 100 Continue", ""]);
    connection
}

#[test]
fn a_request_has_no_place_while_it_waits_for_its_client() {
    // Room for one that is about to wait and for another.
    let server = Server::with(|config| config.server.requests_in_flight_max = 5);
    let stored = |count: u64| {
        let stats = server.get("/v1/stats");
        (stats.status == 200 && stats.json()["documents"] == count).then_some(())
    };
    let batches = (1..=8_u64).map(|number| {
        let mut batch = begin_slowly(&server, "POST /v1/insert/batch", "application/x-ndjson");
        batch.chunk(format!("{{\"fingerprint\":{number}}}\n").as_bytes()).unwrap();
        poll(|| stored(number));
        batch
    });
    let batches: Vec<_> = batches.collect();
    let singles = (0..8).map(|_| {
        let mut single = begin_slowly(&server, "POST /v1/query", "application/json");
        single.chunk(b"{\"finger").unwrap();
        single
    });
    let singles: Vec<_> = singles.collect();
    assert_eq!(server.post("/v1/query", &json!({"fingerprint": hex(1)})).status, 200);
    for mut batch in batches {
        batch.chunk(b"{\"fingerprint\":9}\n").unwrap();
        batch.end_chunked();
        assert_eq!(batch.reply().lines().len(), 2);
    }
    for mut single in singles {
        single.chunk(b"print\":1}").unwrap();
        single.end_chunked();
        assert_eq!(single.reply().json()["duplicate"], true);
    }
}

#[test]
fn a_client_that_has_its_share_of_the_places_is_refused_and_others_are_not() {
    let (server, [busy, other]) = with_clients(|config| config.server.requests_in_flight_max = 4);
    let _held = [(); 2].map(|()| {
        let (connection, head) = busy.endless(&server);
        assert_eq!(head.status, 200);
        connection
    });
    let refused = busy.query(&server);
    assert_eq!(refused.problem(), (503, "overloaded".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    let text = refused.text();
    assert!(
        text.contains(
            "2 of the 4 places for requests (server.requests_in_flight_max), which is its share"
        ),
        "{text}"
    );
    assert_eq!(other.query(&server).status, 200);
    for path in ["/healthz", "/readyz", "/readyz/reads", "/readyz/writes"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    assert_eq!(busy.send(&server, "GET /metrics", "").status, 200);
}

#[test]
fn clients_share_the_places_of_streams() {
    let (server, [busy, other]) = with_clients(|config| config.server.exports_max = 3);
    let held = [(); 3].map(|()| {
        let (connection, head) = busy.endless(&server);
        assert_eq!(head.status, 200);
        connection
    });
    let refused = busy.send(&server, "GET /v1/snapshots/export", "");
    assert_eq!(refused.problem(), (503, "overloaded".to_owned()));
    assert!(
        refused.text().contains("(server.exports_max), which is its share"),
        "{}",
        refused.text()
    );
    assert_eq!(other.send(&server, "GET /v1/snapshots/export", "").status, 200);
    drop(held);
}

#[test]
fn kept_groups_of_some_clients_make_room_for_those_of_another() {
    let few = |settings: &mut Settings| settings.engine.groups_kept_max = 4;
    let (server, [one, two, three]) = with_tuned_clients(|_| {}, few);
    let groups = |client: &Client| {
        let begun = client.send(&server, "POST /v1/groups", "{}").accepted();
        let path = format!("GET /v1/groups/{}", name(&begun));
        poll(|| {
            let job = client.send(&server, &path, "").json();
            (job["state"] == "done").then(|| path.clone())
        })
    };
    let kept = [&one, &one, &two, &two].map(groups);
    let new = groups(&three);
    let status = |path: &str| three.send(&server, path, "").status;
    assert_eq!(
        [&kept[0], &kept[1], &kept[2], &kept[3]].map(|path| status(path)),
        [404, 200, 200, 200]
    );
    assert_eq!(status(&new), 200);
}

/// The value of a part of memory in the statistics.
fn bytes_of(client: &Client, server: &Server, part: &str) -> u64 {
    client.send(server, "GET /v1/stats", "").json()["memory"][part].as_u64().unwrap()
}

#[test]
fn half_sent_bodies_of_a_client_leave_bytes_to_others() {
    const BODY: usize = 900_000;
    let (server, [busy, other]) = with_clients(|config| {
        config.server.body_bytes_max = 1_000_000;
        config.server.bodies_held_bytes_max = 40_000_000;
    });
    let text = "a ".repeat(BODY / 2);
    let headers = [("content-type", "text/plain"), ("authorization", &*busy.bearer())];
    let begin = || {
        let mut connection = server.connect();
        connection.begin_chunked("POST /v1/fingerprint", &headers);
        // One that is refused may be closed already.
        drop(connection.chunk(text.as_bytes()));
        connection
    };
    let send =
        |client: &Client| client.send_as(&server, "POST /v1/fingerprint", "text/plain", &text);
    // Together more than all may hold.
    let mut half_sent: Vec<_> = std::iter::repeat_with(begin).take(50).collect();
    let refused = poll(|| {
        half_sent.push(begin());
        Some(send(&busy)).filter(|reply| reply.status != 200)
    });
    assert_eq!(send(&other).status, 200);
    assert_eq!(refused.problem(), (503, "overloaded".to_owned()));
    assert!(refused.text().contains("this client's share"), "{}", refused.text());
    assert!(bytes_of(&other, &server, "bodies_bytes") <= 20_000_000);
    drop(half_sent);
    poll(|| (send(&busy).status == 200).then_some(()));
}

#[test]
fn unread_replies_of_a_client_leave_bytes_to_others() {
    let (server, [busy, other]) = with_clients(|config| {
        config.server.reply_bytes_max = 2 << 20;
        config.server.replies_held_bytes_max = 24 << 20;
    });
    let kind = "application/x-ndjson";
    let stored = other.send_as(&server, "POST /v1/insert/batch", kind, &near_documents("x"));
    assert_eq!(stored.status, 200);
    let query = query_of_all().to_string();
    let headers = [JSON, ("authorization", &*busy.bearer())];
    let begin = || {
        let mut connection = server.connect();
        for _ in 0..12 {
            connection.begin("POST /v1/query", &headers, query.as_bytes());
        }
        connection
    };
    let ask = |client: &Client| client.send(&server, "POST /v1/query", &query);
    let mut unread = Vec::new();
    let refused = poll(|| {
        unread.push(begin());
        Some(ask(&busy)).filter(|reply| reply.status != 200)
    });
    assert_eq!(refused.problem(), (503, "overloaded".to_owned()));
    assert!(refused.text().contains("this client's share"), "{}", refused.text());
    for _ in 0..20 {
        assert_eq!(ask(&other).status, 200);
    }
    drop(unread);
    poll(|| (ask(&busy).status == 200).then_some(()));
}

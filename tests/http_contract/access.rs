//! Tokens: which request needs which, and how a request without it is refused.

use nearprint::access::{Permission, Token};
use nearprint::config::Config;
use serde_json::Value;

use crate::support::{Reply, Server, hex};

/// A server with one token for each scope, and the tokens.
fn guarded() -> (Server, Vec<(Permission, Token)>) {
    guarded_with(|_| {})
}

pub(crate) fn guarded_with(change: impl FnOnce(&mut Config)) -> (Server, Vec<(Permission, Token)>) {
    let tokens = Permission::ALL.map(|permission| (permission, Token::generate().unwrap()));
    let line = |(permission, token): &(Permission, Token)| {
        format!("some {} {}\n", permission.name(), token.digest())
    };
    let lines: String = tokens.iter().map(line).collect();
    let server = Server::with(|config| {
        config.access.tokens = lines;
        change(config);
    });
    (server, tokens.into())
}

fn ask(server: &Server, line: &str, token: Option<&str>) -> Reply {
    let value = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> = value.iter().map(|value| ("authorization", value.as_str())).collect();
    server.send(line, &headers, b"")
}

/// Each operation of the description, and the scopes it says it needs; `None` is open to all.
fn described() -> Vec<(String, Option<Vec<String>>)> {
    let document = serde_json::to_value(nearprint::http::openapi()).unwrap();
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let needs = operation["security"].as_array().unwrap().first().map(|requirement| {
                let scopes = requirement["token"].as_array().unwrap().iter();
                scopes.map(|scope| scope.as_str().unwrap().to_owned()).collect()
            });
            all.push((format!("{} {path}", method.to_uppercase()), needs));
        }
    }
    all
}

/// The same, with values in the paths.
fn operations() -> Vec<(String, Option<Vec<String>>)> {
    let named = |line: String| {
        let line = line.replace("{id}", "x").replace("{hex}", &hex(1));
        let line = line.replace("{job}", &"0".repeat(32)).replace("{group}", "0");
        line.replace("{file}", "main.js")
    };
    described().into_iter().map(|(line, needs)| (named(line), needs)).collect()
}

/// Every route with the scope that it needs. A new route stands here, too.
const NEEDED: [(&str, &[&str]); 5] = [
    (
        "nothing",
        &[
            "GET /",
            "GET /console/{file}",
            "GET /favicon.ico",
            "GET /healthz",
            "GET /readyz",
            "GET /readyz/reads",
            "GET /readyz/writes",
        ],
    ),
    ("any token", &["GET /openapi.json", "GET /v1/me"]),
    (
        "read",
        &[
            "GET /metrics",
            "GET /v1/documents",
            "GET /v1/documents/{id}",
            "GET /v1/fingerprints/{hex}",
            "GET /v1/groups/{job}",
            "GET /v1/groups/{job}/{group}",
            "GET /v1/history",
            "GET /v1/jobs",
            "GET /v1/jobs/{job}",
            "GET /v1/namespaces",
            "GET /v1/nodes",
            "GET /v1/originals",
            "GET /v1/query",
            "GET /v1/stats",
            "POST /v1/compare",
            "POST /v1/fingerprint",
            "POST /v1/fingerprint/batch",
            "POST /v1/groups",
            "POST /v1/query",
            "POST /v1/query/batch",
        ],
    ),
    (
        "write",
        &[
            "DELETE /v1/documents/{id}",
            "DELETE /v1/fingerprints/{hex}",
            "DELETE /v1/jobs/{job}",
            "POST /v1/check-and-insert",
            "POST /v1/check-and-insert/batch",
            "POST /v1/delete/batch",
            "POST /v1/insert",
            "POST /v1/insert/batch",
            "POST /v1/purge",
        ],
    ),
    (
        "admin",
        &[
            "GET /v1/changes",
            "GET /v1/snapshots",
            "GET /v1/snapshots/export",
            "POST /v1/cluster/stand-back",
            "POST /v1/snapshots",
        ],
    ),
];

#[test]
fn every_route_needs_the_scope_that_is_listed_here() {
    let mut described: Vec<_> = described()
        .into_iter()
        .map(|(line, needs)| match needs {
            None => (line, "nothing".to_owned()),
            Some(scopes) if scopes.is_empty() => (line, "any token".to_owned()),
            Some(scopes) => (line, scopes.join(",")),
        })
        .collect();
    described.sort();
    let lines = |&(need, lines): &(&str, &[&str])| {
        lines.iter().map(move |line| ((*line).to_owned(), need.to_owned())).collect::<Vec<_>>()
    };
    let mut listed: Vec<_> = NEEDED.iter().flat_map(lines).collect();
    listed.sort();
    assert_eq!(described, listed);
}

#[test]
fn every_route_of_the_description_asks_for_its_scope_or_is_health_or_a_file_of_the_console() {
    let (server, tokens) = guarded();
    let (mut open, mut closed) = (Vec::new(), 0);
    for (line, needs) in operations() {
        let Some(needs) = needs else {
            assert_eq!(ask(&server, &line, None).status, 200, "{line}");
            open.push(line);
            continue;
        };
        let refused = ask(&server, &line, None);
        assert_eq!(refused.problem(), (401, "token_missing".to_owned()), "{line}");
        let challenge = refused.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer realm=\"nearprint\""), "{challenge}");
        let refused = ask(&server, &line, Some(Token::generate().unwrap().reveal()));
        assert_eq!(refused.problem(), (401, "token_unknown".to_owned()), "{line}");
        for (permission, token) in &tokens {
            let reply = ask(&server, &line, Some(token.reveal()));
            if needs.is_empty() || needs.iter().any(|need| need == permission.name()) {
                assert!(![401, 403].contains(&reply.status), "{line} with {permission:?}");
            } else {
                let expected = (403, "scope_missing".to_owned());
                assert_eq!(reply.problem(), expected, "{line} with {permission:?}");
                let challenge = reply.header("www-authenticate").unwrap();
                let scope = format!("scope=\"{}\"", needs[0]);
                assert!(challenge.contains(&scope), "{line}: {challenge}");
            }
        }
        closed += 1;
    }
    let console = ["GET /", "GET /console/main.js", "GET /favicon.ico"];
    let health = ["GET /healthz", "GET /readyz", "GET /readyz/reads", "GET /readyz/writes"];
    assert_eq!(open, [&console[..], &health[..]].concat());
    assert!(closed > 20, "{closed}");
}

#[test]
fn an_unknown_route_needs_a_token_as_well() {
    let (server, tokens) = guarded();
    for line in ["GET /nowhere", "GET /v1", "DELETE /v1/query", "PATCH /v1/stats"] {
        assert_eq!(ask(&server, line, None).status, 401, "{line}");
    }
    assert_eq!(ask(&server, "GET /nowhere", Some(tokens[0].1.reveal())).status, 404);
}

#[test]
fn a_refused_write_changes_nothing_and_its_body_is_not_taken() {
    let (server, tokens) = guarded();
    let read = format!("Bearer {}", tokens[0].1.reveal());
    let body = br#"{"id":"a","fingerprint":1}"#;
    let kind = ("content-type", "application/json");
    assert_eq!(server.send("POST /v1/insert", &[kind], body).status, 401);
    assert_eq!(server.send("POST /v1/insert", &[kind, ("authorization", &read)], body).status, 403);
    let large = vec![b'x'; 8 << 20];
    assert_eq!(server.send("POST /v1/insert", &[kind], &large).status, 401);
    let stats = server.send("GET /v1/stats", &[("authorization", &read)], b"").json();
    assert_eq!(stats["documents"], 0);
}

/// A server with a token of all scopes that is limited to `news/*`, as the value of a header.
pub(crate) fn limited() -> (Server, String) {
    let token = Token::generate().unwrap();
    let line = format!("some read,write,admin {} namespaces=news/*", token.digest());
    let server = Server::with(|config| config.access.tokens = line);
    (server, format!("Bearer {}", token.reveal()))
}

#[test]
fn a_limited_token_reaches_neither_the_default_namespace_nor_all_of_them() {
    let (server, bearer) = limited();
    let headers = [("content-type", "application/json"), ("authorization", &bearer)];
    let (document, two) =
        (r#"{"fingerprint":1}"#, r#"{"a":{"fingerprint":1},"b":{"fingerprint":1}}"#);
    let mut open = Vec::new();
    for (line, _) in operations() {
        let (query, body) = match line.as_str() {
            batch if batch.ends_with("/batch") => continue,
            "POST /v1/compare" => (String::new(), two),
            "GET /v1/query" => (format!("?fingerprint={}", hex(1)), ""),
            "POST /v1/purge" => (String::new(), r#"{"prefix":"x"}"#),
            "POST /v1/groups" => (String::new(), "{}"),
            "GET /v1/originals" => (String::new(), ""),
            _ => (String::new(), document),
        };
        let reply = server.send(&format!("{line}{query}"), &headers, body.as_bytes());
        if reply.status == 200 {
            open.push(line);
        } else if line.contains(" /v1/groups/0") {
            assert_eq!(reply.problem(), (404, "groups_not_found".to_owned()), "{line}");
        } else if line.contains(" /v1/jobs/0") {
            assert_eq!(reply.problem(), (404, "job_not_found".to_owned()), "{line}");
        } else {
            assert_eq!(reply.problem(), (403, "namespace_not_allowed".to_owned()), "{line}");
        }
    }
    open.sort();
    let expected = [
        "GET /",
        "GET /console/main.js",
        "GET /favicon.ico",
        "GET /healthz",
        "GET /openapi.json",
        "GET /readyz",
        "GET /readyz/reads",
        "GET /readyz/writes",
        // They show what the token reaches.
        "GET /v1/jobs",
        "GET /v1/me",
        "GET /v1/namespaces",
        "POST /v1/compare",
        "POST /v1/fingerprint",
    ];
    assert_eq!(open, expected);
}

#[test]
fn a_limited_token_is_refused_for_each_document_of_a_batch() {
    let (server, bearer) = limited();
    let send = |line: &str, kind: &str, body: &[u8]| {
        server.send(line, &[("content-type", kind), ("authorization", &bearer)], body)
    };
    let ndjson =
        |line: &str| send(line, "application/x-ndjson", b"{\"fingerprint\":1}\n{}").lines();
    for name in ["query", "insert", "check-and-insert"] {
        let line = format!("POST /v1/{name}/batch");
        let replies = ndjson(&line);
        assert_eq!(replies[0]["error"]["code"], "namespace_not_allowed", "{line}");
        assert_eq!(replies[0]["error"]["status"], 403, "{line}");
        assert_eq!(replies[1]["error"]["code"], "document_missing", "{line}");
        let packed = send(&line, "application/octet-stream", &[0; 8]);
        assert_eq!(packed.problem(), (403, "namespace_not_allowed".to_owned()), "{line}");
    }
    assert_eq!(ndjson("POST /v1/fingerprint/batch")[0]["fingerprint"], hex(1));
}

#[test]
fn a_rate_is_answered_429_with_the_time_to_wait() {
    let (server, tokens) = guarded_with(|config| config.access.requests_per_second = 1);
    let stats = || ask(&server, "GET /v1/stats", Some(tokens[0].1.reveal()));
    let refused = (0..100).map(|_| stats()).find(|reply| reply.status != 200).unwrap();
    assert_eq!(refused.problem(), (429, "rate_limited".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    // Others are not touched by it.
    let other = ask(&server, "POST /v1/snapshots", Some(tokens[2].1.reveal()));
    assert_eq!(other.status, 200);
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn a_token_comes_as_a_password_too_but_no_reply_makes_a_browser_ask_for_it() {
    let (server, tokens) = guarded();
    for line in ["GET /v1/stats", "GET /openapi.json"] {
        let refused = server.connect().send_head(line);
        let challenges = refused.headers("www-authenticate");
        assert_eq!((refused.status, challenges.len()), (401, 1), "{line}");
        assert!(challenges[0].starts_with("Bearer "), "{challenges:?}");
    }
    let basic = |token: &str| {
        let line = format!("printf '%s' 'me:{token}' | base64 -w 0");
        let out = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
        format!("Basic {}", String::from_utf8(out.stdout).unwrap())
    };
    let status = |token: &str| {
        server.send("GET /openapi.json", &[("authorization", &basic(token))], b"").status
    };
    assert_eq!((status(tokens[0].1.reveal()), status("guess")), (200, 401));
}

#[test]
fn a_page_of_another_site_cannot_write() {
    let server = Server::start();
    let send = |line: &str, site: &str| {
        let headers = [("content-type", "text/plain"), ("sec-fetch-site", site)];
        server.send(line, &headers, b"some words to store here")
    };
    for site in ["cross-site", "same-site"] {
        let refused = send("POST /v1/insert", site);
        assert_eq!(refused.problem(), (403, "cross_site".to_owned()), "{site}");
        assert_eq!(send("DELETE /v1/documents/x", site).status, 403, "{site}");
        assert_eq!(send("GET /v1/stats", site).status, 200, "links are followed");
    }
    assert_eq!(server.get("/v1/stats").json()["documents"], 0);
    for site in ["same-origin", "none"] {
        assert_eq!(send("POST /v1/insert", site).status, 200, "{site}");
    }
}

#[test]
fn no_reply_shows_a_token_or_its_digest() {
    let (server, tokens) = guarded();
    let (_, reader) = &tokens[0];
    let digest = reader.digest().to_string();
    let digest = digest.strip_prefix("sha256:").unwrap();
    for (line, _) in operations() {
        for token in [Some(reader.reveal()), Some("some-guess"), None] {
            let text = ask(&server, &line, token).text();
            for secret in [reader.reveal(), digest, "some-guess"] {
                assert!(!text.contains(secret), "{line}: {text}");
            }
        }
    }
}

#[test]
fn the_description_names_the_scheme() {
    let (server, tokens) = guarded();
    let token = tokens[0].1.reveal();
    let document: Value = ask(&server, "GET /openapi.json", Some(token)).json();
    let scheme = &document["components"]["securitySchemes"]["token"];
    assert_eq!((&scheme["type"], &scheme["scheme"]), (&"http".into(), &"bearer".into()));
    assert_eq!(document["paths"]["/healthz"]["get"]["security"], serde_json::json!([]));
}

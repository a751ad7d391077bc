//! Errors: every refusal is a problem document with a stable code, and changes nothing.

use serde_json::json;

use crate::support::{Server, hex};

const POSTS: [&str; 5] =
    ["/v1/fingerprint", "/v1/compare", "/v1/query", "/v1/insert", "/v1/check-and-insert"];

#[test]
fn malformed_json_is_400() {
    let server = Server::start();
    for body in ["", "{", "nonsense", "{\"text\":\"x\"} x", "{\"text\":\"\\x\"}", "{'text':1}"] {
        for path in POSTS.into_iter().filter(|path| *path != "/v1/compare") {
            let reply = server.post_text(path, body);
            assert_eq!(reply.problem(), (400, "malformed_json".to_owned()), "{path} {body}");
        }
    }
    let reply = server.post_text("/v1/compare", "{\"a\":");
    assert_eq!(reply.problem(), (400, "malformed_json".to_owned()));
    let not_utf8 = [b"{\"text\":\"".as_slice(), b"\xff\xfe", b"\"}"].concat();
    let headers = [("content-type", "application/json")];
    let reply = server.send("POST /v1/insert", &headers, &not_utf8);
    assert_eq!(reply.problem().0, 400);
    for body in ["[]", "7", "\"text\"", "null"] {
        assert_eq!(server.post_text("/v1/insert", body).problem().0, 400, "{body}");
    }
}

#[test]
fn half_of_a_surrogate_pair_is_a_replacement_character_in_a_text_and_an_error_in_a_name() {
    let server = Server::start();
    let replaced = server.post("/v1/fingerprint", &json!({"text": "one \u{fffd} two"})).json();
    let half = server.post_text("/v1/fingerprint", r#"{"text":"one \ud83d two"}"#);
    assert_eq!(half.json(), replaced);
    for (field, json) in [
        ("id", r#"{"text":"x","id":"a\ud83d"}"#),
        ("namespace", r#"{"text":"x","namespace":"\ude00"}"#),
        ("metadata", r#"{"text":"x","metadata":{"a":"\ud83d"}}"#),
    ] {
        let refused = server.post_text("/v1/insert", json).problem_at();
        assert_eq!(refused, (400, "malformed_json".to_owned(), field.to_owned()));
    }
    assert_eq!(server.get("/v1/stats").json()["documents"], 0);
}

#[test]
fn null_is_as_good_as_a_missing_field() {
    let server = Server::start();
    // As a reply shows a document.
    let document = json!({"id": null, "namespace": null, "fingerprint": hex(1), "text": null,
        "metadata": null, "expires_at": null, "expires_in": null, "recipe": null});
    assert_eq!(server.post("/v1/insert", &document).json()["outcome"], "inserted");
    let lines = format!("{document}\n");
    assert_eq!(server.post_lines("/v1/insert/batch", &lines)[0]["outcome"], "inserted");
    let query = json!({"fingerprint": hex(1), "limit": null, "counts": null, "include": null});
    assert_eq!(server.post("/v1/query", &query).json()["hits"][0]["document_count"], 2);
    let pair = json!({"a": {"fingerprint": hex(1), "id": null}, "b": {"fingerprint": hex(1)},
        "distance": null});
    assert_eq!(server.post("/v1/compare", &pair).json()["distance"], 0);
    server.post("/v1/groups", &json!({"namespace": null, "distance": null})).accepted();
    let unknown = server.post("/v1/insert", &json!({"fingerprint": hex(1), "unheard": null}));
    assert_eq!(unknown.problem_at().1, "unknown_field");
    // A client whose variable is empty means less than a whole namespace.
    let purge = server.post("/v1/purge", &json!({"namespace": "x", "prefix": null}));
    assert_eq!(purge.problem_at(), (400, "invalid_value".to_owned(), "prefix".to_owned()));
}

#[test]
fn a_number_of_a_query_string_has_no_plus_and_no_space() {
    let server = Server::start();
    for (path, field) in [
        ("/v1/documents?after=", "after"),
        ("/v1/documents?limit=", "limit"),
        ("/v1/namespaces?after=", "after"),
        ("/v1/jobs?after=", "after"),
        ("/v1/originals?after=", "after"),
        ("/v1/query?fingerprint=0000000000000001&distance=", "distance"),
        ("/v1/query?fingerprint=0000000000000001&min_similarity=", "min_similarity"),
    ] {
        for number in ["+1", "%2B1", "%201", "1%20", "-1", ""] {
            let refused = server.get(&format!("{path}{number}")).problem_at();
            let expected = (400, "invalid_value".to_owned(), field.to_owned());
            assert_eq!(refused, expected, "{path}{number}");
        }
    }
    let spaced = server.get("/v1/query?fingerprint=%200000000000000001");
    assert_eq!(spaced.problem_at().2, "fingerprint");
}

#[test]
fn options_are_answered_with_the_methods() {
    let token = nearprint::access::Token::generate().unwrap();
    let server = Server::with(|config| {
        config.access.tokens = format!("reader read {}", token.digest());
    });
    for (path, method) in [("/", "GET"), ("/v1/insert", "POST"), ("*", "DELETE")] {
        let reply = server.send(&format!("OPTIONS {path}"), &[], b"");
        assert_eq!((reply.status, reply.text().as_str()), (204, ""), "{path}");
        assert!(reply.header("allow").unwrap().split(',').any(|own| own == method), "{path}");
    }
    assert_eq!(server.send("OPTIONS /v2", &[], b"").problem().0, 404);
    // As HAProxy asks.
    let mut probe = server.connect();
    probe.write(b"OPTIONS / HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(probe.reply_head().status, 204);
    // A browser asks before a page of another site writes.
    let preflight = server.send("OPTIONS /v1/insert", &[("origin", "http://evil.example")], b"");
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (403, None));
}

#[test]
fn unknown_and_repeated_fields_are_errors_that_name_them() {
    let server = Server::start();
    for path in ["/v1/fingerprint", "/v1/query", "/v1/insert", "/v1/check-and-insert"] {
        let reply = server.post(path, &json!({"text": "x", "treshold": 1}));
        let expected = (400, "unknown_field".to_owned(), "treshold".to_owned());
        assert_eq!(reply.problem_at(), expected, "{path}");
        let reply = server.post_text(path, "{\"text\":\"x\",\"text\":\"y\"}");
        let expected = (400, "repeated_field".to_owned(), "text".to_owned());
        assert_eq!(reply.problem_at(), expected, "{path}");
    }
    // An option of another route is as unknown.
    let reply = server.post("/v1/insert", &json!({"text": "x", "distance": 1}));
    assert_eq!(reply.problem_at().2, "distance");
    let reply = server.post("/v1/query?limit=1", &json!({"text": "x", "limit": 2}));
    assert_eq!(reply.problem_at(), (400, "repeated_field".to_owned(), "limit".to_owned()));
    let reply = server.post("/v1/compare", &json!({"a": {"text": "x"}, "c": {"text": "x"}}));
    assert_eq!(reply.problem_at().2, "c");
}

#[test]
fn wrong_types_are_errors_that_name_the_field() {
    let server = Server::start();
    for (field, value) in
        [("text", json!(1)), ("html", json!(["x"])), ("id", json!({})), ("recipe", json!(1))]
    {
        let mut body = json!({"fingerprint": hex(1)});
        body[field] = value;
        let reply = server.post("/v1/insert", &body);
        assert_eq!(reply.problem_at(), (400, "invalid_value".to_owned(), field.to_owned()));
    }
    let reply = server.post("/v1/fingerprint", &json!({"text": "x", "explain": "yes"}));
    assert_eq!(reply.problem_at().2, "explain");
    assert_eq!(server.get("/v1/stats").json()["documents"], 0);
}

#[test]
fn content_types_that_are_not_taken_are_415_and_say_what_is() {
    let server = Server::start();
    for path in POSTS {
        let missing = server.send(&format!("POST {path}"), &[], b"{}").problem_body();
        assert_eq!(missing["code"], "unsupported_media_type");
        assert!(missing["detail"].as_str().unwrap().contains("application/json"), "{missing}");
        for content_type in ["application/xml", "image/png", "application/octet-stream", "nonsense"]
        {
            let reply =
                server.send(&format!("POST {path}"), &[("content-type", content_type)], b"x");
            assert_eq!(reply.problem(), (415, "unsupported_media_type".to_owned()), "{path}");
        }
        let form = [("content-type", "application/x-www-form-urlencoded")];
        let reply = server.send(&format!("POST {path}"), &form, b"{}").problem_body();
        let detail = reply["detail"].as_str().unwrap();
        assert!(detail.contains("-H 'Content-Type: application/json'"), "{detail}");
    }
    for path in ["/v1/insert/batch", "/v1/query/batch"] {
        let reply = server.post(path, &json!({"text": "x"}));
        assert_eq!(reply.problem(), (415, "unsupported_media_type".to_owned()));
    }
}

#[test]
fn a_path_that_is_not_there_is_404_and_a_wrong_method_405_with_allow() {
    let server = Server::start();
    for path in ["/v1", "/v2/query", "/v1/query/", "/v1/documents/a/b", "/robots.txt"] {
        assert_eq!(server.get(path).problem(), (404, "not_found".to_owned()), "{path}");
    }
    let reply = server.get("/v1/insert");
    assert_eq!(reply.problem(), (405, "method_not_allowed".to_owned()));
    assert_eq!(reply.header("allow"), Some("POST"));
    let reply = server.delete("/v1/query");
    assert_eq!(reply.problem(), (405, "method_not_allowed".to_owned()));
    let mut allowed: Vec<_> = reply.header("allow").unwrap().split(',').collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["GET", "HEAD", "POST"]);
}

#[test]
fn no_reply_repeats_much_of_the_request() {
    let server = Server::start();
    let long = "y".repeat(100_000);
    for body in [
        json!({"fingerprint": long.clone()}),
        json!({long.clone(): 1}),
        json!({"fingerprint": hex(1), "recipe": long.clone()}),
        json!({"text": "x", "explain": long.clone()}),
    ] {
        let reply = server.post("/v1/fingerprint", &body);
        assert_eq!(reply.status / 100, 4);
        assert!(reply.body.len() < 1_500, "{} bytes", reply.body.len());
    }
}

#[test]
fn every_reply_has_a_request_id_and_may_not_be_sniffed() {
    let server = Server::start();
    let given = server.send("GET /healthz", &[("x-request-id", "crawler-7/42")], b"");
    assert_eq!(given.header("x-request-id"), Some("crawler-7/42"));
    let first = server.get("/healthz");
    let second = server.get("/nowhere");
    let ids = [&first, &second].map(|reply| reply.header("x-request-id").unwrap().to_owned());
    assert_ne!(ids[0], ids[1]);
    assert!(ids.iter().all(|id| id.len() == 16), "{ids:?}");
    for bad in ["with space", &"x".repeat(129), ""] {
        let reply = server.send("GET /healthz", &[("x-request-id", bad)], b"");
        assert_eq!(reply.header("x-request-id").unwrap().len(), 16, "{bad:?}");
    }
    assert_eq!(second.header("x-content-type-options"), Some("nosniff"));
}

#[test]
fn a_request_for_changes_names_what_is_wrong_with_it() {
    let server = Server::start();
    server.post("/v1/insert", &json!({"fingerprint": 1})).json();
    for (query, status, code) in [
        ("", 400, "invalid_value"),
        ("?after=x", 400, "invalid_value"),
        ("?after=-1", 400, "invalid_value"),
        ("?after=1&record=12", 400, "invalid_value"),
        ("?after=1&record=+123456789abcdef", 400, "invalid_value"),
        ("?after=1&limit=2", 400, "unknown_field"),
        ("?after=2", 409, "diverged"),
        ("?after=1&record=0123456789abcdef", 409, "diverged"),
    ] {
        let reply = server.get(&format!("/v1/changes{query}"));
        assert_eq!(reply.problem(), (status, code.to_owned()), "{query}");
    }
}

//! Errors: every refusal is a problem document with a stable code, and changes nothing.

use serde_json::json;

use crate::support::{Server, hex};

const POSTS: [&str; 5] =
    ["/v1/fingerprint", "/v1/compare", "/v1/query", "/v1/insert", "/v1/check-and-insert"];

#[test]
fn malformed_json_is_400() {
    let server = Server::start();
    for body in ["", "{", "nonsense", "{\"text\":\"x\"} x", "{\"text\":\"\\ud800\"}", "{'text':1}"]
    {
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
    for (field, value) in [
        ("text", json!(1)),
        ("text", json!(null)),
        ("html", json!(["x"])),
        ("id", json!(null)),
        ("id", json!({})),
        ("recipe", json!(1)),
    ] {
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
    for path in ["/v1", "/v2/query", "/v1/query/", "/v1/documents/a/b", "/favicon.ico"] {
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

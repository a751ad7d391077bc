//! The OpenAPI document describes what the service does: its parameters, its nulls and its tokens.

use nearprint::access::Token;
use serde_json::json;

use crate::support::{Server, hex};

/// Probes and browsers append parameters of their own, so these routes pass over any.
const LENIENT: &[&str] = &["/healthz", "/readyz", "/metrics", "/", "/page.css", "/page.js"];

#[test]
fn a_query_parameter_that_a_route_does_not_take_is_refused() {
    let server = Server::start();
    let document = server.get("/openapi.json").json();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let content = operation["requestBody"]["content"].as_object();
            let kind = content.and_then(|content| content.keys().next()).map_or("", String::as_str);
            let target = path
                .replace("{id}", "a")
                .replace("{hex}", "00000000000000ff")
                .replace("{name}", "a")
                .replace("{job}", "1");
            let line = format!("{} {target}?surprise=1", method.to_uppercase());
            let reply = server.send(&line, &[("content-type", kind)], b"{}\n");
            if LENIENT.contains(&path.as_str()) {
                assert_eq!(reply.status, 200, "{line}");
            } else {
                let refused = (400, "unknown_field".to_owned(), "surprise".to_owned());
                assert_eq!(reply.problem_at(), refused, "{line}");
            }
        }
    }
}

#[test]
fn the_description_asks_for_tokens_only_where_the_service_does() {
    let server = Server::start();
    let open = server.get("/openapi.json").json();
    assert_eq!(open["components"]["securitySchemes"], json!(null));
    assert_eq!(open["paths"]["/v1/stats"]["get"]["security"], json!(null));

    let token = Token::generate().unwrap();
    let server = Server::with(|config| {
        config.access.tokens = format!("reader read {}", token.digest());
    });
    let bearer = format!("Bearer {}", token.reveal());
    let reply = server.send("GET /openapi.json", &[("authorization", &bearer)], b"");
    let with_tokens = reply.json();
    assert!(with_tokens["components"]["securitySchemes"]["token"].is_object());
    assert_eq!(with_tokens["paths"]["/v1/stats"]["get"]["security"], json!([{"token": ["read"]}]));
}

/// No field of a request is described as nullable. Null is as good as a missing field, except where
/// that would remove more.
#[test]
fn null_is_a_missing_field_and_refused_in_a_purge() {
    let server = Server::start();
    let document = server.get("/openapi.json").json();
    let schemas = &document["components"]["schemas"];
    for (route, schema) in [
        ("/v1/fingerprint", "FingerprintRequest"),
        ("/v1/query", "QueryRequest"),
        ("/v1/insert", "InsertRequest"),
        ("/v1/check-and-insert", "CheckAndInsertRequest"),
        ("/v1/compare", "CompareRequest"),
        ("/v1/purge", "PurgeRequest"),
    ] {
        for (field, described) in schemas[schema]["properties"].as_object().unwrap() {
            assert!(!described.to_string().contains("\"null\""), "{schema}.{field}: {described}");
            let reply = server.post(route, &json!({ field.as_str(): null }));
            let is_strict = schema == "PurgeRequest";
            let code = if is_strict { "invalid_value" } else { "document_missing" };
            assert_eq!(reply.problem(), (400, code.to_owned()), "{route} {field}");
        }
    }
}

#[test]
fn the_description_of_a_distance_is_what_the_service_takes() {
    let server = Server::with(|config| config.data.distance_max = 12);
    let document = server.get("/openapi.json").json();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for (route, schema) in [("/v1/query", "QueryRequest"), ("/v1/groups", "GroupsBody")] {
        assert_eq!(schemas[schema]["properties"]["distance"]["maximum"], 12, "{schema}");
        let body = json!({"fingerprint": hex(1), "distance": 12});
        let body = if route == "/v1/groups" { json!({"distance": 12}) } else { body };
        assert!(server.post(route, &body).status < 300, "{route}");
    }
}

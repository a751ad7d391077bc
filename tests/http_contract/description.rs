//! The OpenAPI document describes what the service does: its parameters, its nulls and its tokens.

use nearprint::access::Token;
use serde_json::json;

use crate::support::{Server, hex};

/// Probes and browsers append parameters of their own, so these routes pass over any.
const LENIENT: &[&str] =
    &["/healthz", "/readyz", "/readyz/writes", "/metrics", "/", "/console/{file}", "/favicon.ico"];

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
                .replace("{job}", "1")
                .replace("{file}", "main.js");
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
fn the_description_names_two_ways_to_present_a_token_and_asks_where_the_service_does() {
    let server = Server::start();
    let open = server.get("/openapi.json").json();
    let schemes = &open["components"]["securitySchemes"];
    let kinds = (&schemes["token"]["scheme"], &schemes["password"]["scheme"]);
    assert_eq!(kinds, (&json!("bearer"), &json!("basic")));
    let either = json!([{"token": ["read"]}, {"password": ["read"]}]);
    let or_none = json!([{}, either[0], either[1]]);
    assert_eq!(open["paths"]["/v1/stats"]["get"]["security"], or_none);
    assert_eq!(open["paths"]["/healthz"]["get"]["security"], json!([]));

    let token = Token::generate().unwrap();
    let server = Server::with(|config| {
        config.access.tokens = format!("reader read {}", token.digest());
    });
    let bearer = format!("Bearer {}", token.reveal());
    let reply = server.send("GET /openapi.json", &[("authorization", &bearer)], b"");
    assert_eq!(reply.json()["paths"]["/v1/stats"]["get"]["security"], either);
}

#[test]
fn each_operation_lists_the_errors_that_it_can_give_and_no_others() {
    let server = Server::start();
    let document = server.get("/openapi.json").json();
    let statuses = |path: &str, method: &str| {
        let responses = document["paths"][path][method]["responses"].as_object().unwrap();
        responses.keys().map(|status| status.parse::<u16>().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(statuses("/healthz", "get"), [200, 400, 403, 421, 500, 501]);
    assert_eq!(statuses("/v1/stats", "get"), [200, 400, 401, 403, 421, 429, 500, 501, 503]);
    let of_one = [200, 400, 401, 403, 404, 421, 429, 500, 501, 503];
    assert_eq!(statuses("/v1/documents/{id}", "get"), of_one);
    let sets: std::collections::HashSet<_> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|item| item.as_object().unwrap().values())
        .map(|operation| operation["responses"].as_object().unwrap().keys().collect::<Vec<_>>())
        .collect();
    assert!(sets.len() > 12, "{sets:?}");
    let codes = |path: &str| document["paths"][path]["post"]["responses"]["400"].to_string();
    assert!(codes("/v1/query/batch").contains("distance_above_max"));
    assert!(!codes("/v1/insert/batch").contains("distance_above_max"));
    let retry = &document["paths"]["/v1/insert"]["post"]["responses"];
    for (status, response) in retry.as_object().unwrap() {
        let says_when = response["headers"]["Retry-After"].is_object();
        assert_eq!(says_when, ["429", "503", "507"].contains(&status.as_str()), "{status}");
    }
}

#[test]
fn pairs_that_exclude_each_other_are_described_as_such() {
    let server = Server::start();
    let document = server.get("/openapi.json").json();
    let pairs =
        |path: &str, method: &str| document["paths"][path][method]["x-dependencies"].clone();
    let both = ["ZeroOrOne(expires_in, expires_at)", "ZeroOrOne(id, id_from)"];
    assert_eq!(pairs("/v1/insert", "post"), json!(both));
    assert_eq!(pairs("/v1/insert/batch", "post"), json!(both[..1]));
    assert_eq!(pairs("/v1/stats", "get"), json!(null));
    for (target, field) in [
        ("POST /v1/insert?expires_in=1&expires_at=4000000000", "expires_at"),
        ("POST /v1/insert?id=a&id_from=fingerprint", "id_from"),
        ("GET /v1/documents?namespace=a&all_namespaces=true", "all_namespaces"),
    ] {
        let reply =
            server.send(target, &[("content-type", "application/json")], b"{\"text\":\"a b\"}");
        assert_eq!(reply.problem_at().2, field, "{target}");
    }
    let demands = document["components"]["schemas"]["InsertRequest"]["allOf"].to_string();
    assert!(demands.contains(r#"{"not":{"required":["expires_in","expires_at"]}}"#), "{demands}");
    assert!(demands.contains(r#"{"required":["vector"]}"#), "{demands}");
}

/// A flag excludes a field at one of its values: the description says which, and the service
/// agrees.
#[test]
fn a_flag_excludes_a_field_at_one_value_only() {
    let server = Server::start();
    let document = server.get("/openapi.json").json();
    for (flag, value, other, given) in [
        ("all_namespaces", true, "namespace", json!("a")),
        ("verified", false, "min_similarity", json!(0.5)),
        ("verified", false, "min_numbers", json!(0.5)),
    ] {
        let excluded = json!({"not": {
            "properties": { flag: {"const": value} }, "required": [flag, other],
        }});
        let described = &document["components"]["schemas"]["GroupsBody"]["allOf"];
        assert!(described.as_array().unwrap().contains(&excluded), "{described}");
        let refused = server.post("/v1/groups", &json!({ flag: value, other: given }));
        assert_eq!(refused.problem_at().2, flag);
        let taken = server.post("/v1/groups", &json!({ flag: !value, other: given }));
        assert_eq!(taken.status, 202, "{flag} {}", !value);
    }
    for path in ["/v1/documents", "/v1/originals"] {
        let pairs = document["paths"][path]["get"]["x-dependencies"].to_string();
        assert!(pairs.contains("IF all_namespaces==true THEN NOT namespace"), "{path}: {pairs}");
        let taken = server.get(&format!("{path}?namespace=a&all_namespaces=false"));
        assert_eq!(taken.status, 200, "{path}");
    }
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
    let maxima = |server: &Server| {
        let document = server.get("/openapi.json").json();
        let schemas = &document["components"]["schemas"];
        let of = |schema: &str| schemas[schema]["properties"]["distance"]["maximum"].clone();
        let parameters = document["paths"]["/v1/query"]["get"]["parameters"].as_array().unwrap();
        let parameter = parameters.iter().find(|one| one["name"] == "distance").unwrap();
        json!([of("QueryRequest"), of("GroupsBody"), parameter["schema"]["maximum"]])
    };
    assert_eq!(maxima(&Server::start()), json!([3, 3, 3]));
    let server = Server::with(|config| config.data.distance_max = 12);
    assert_eq!(maxima(&server), json!([12, 12, 12]));
    for route in ["/v1/query", "/v1/groups"] {
        let body = json!({"fingerprint": hex(1), "distance": 12});
        let body = if route == "/v1/groups" { json!({"distance": 12}) } else { body };
        assert!(server.post(route, &body).status < 300, "{route}");
    }
}

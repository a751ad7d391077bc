//! Namespaces: documents of one never meet those of another, whatever the route, and a token that
//! is limited to some reaches no other.

use serde_json::{Value, json};

use crate::access::limited;
use crate::support::{Reply, Server, hex, ids, name, text};

const NDJSON: (&str, &str) = ("content-type", "application/x-ndjson");

/// A document in two namespaces and in the default one, each time under the id `a`.
fn three() -> Server {
    let server = Server::start();
    server.insert_all([
        json!({"id": "a", "fingerprint": hex(1)}),
        json!({"id": "a", "fingerprint": hex(2), "namespace": "news"}),
        json!({"id": "a", "fingerprint": hex(4), "namespace": "shop"}),
    ]);
    server
}

fn fingerprints(reply: &Value) -> Vec<&str> {
    let hits = reply["hits"].as_array().unwrap().iter();
    hits.map(|hit| hit["fingerprint"].as_str().unwrap()).collect()
}

#[test]
fn a_look_up_finds_documents_of_its_namespace_only() {
    let server = three();
    for (namespace, found) in [("news", vec![hex(2)]), ("shop", vec![hex(4)]), ("new", vec![])] {
        let body = json!({"fingerprint": hex(0), "namespace": namespace});
        assert_eq!(fingerprints(&server.post("/v1/query", &body).json()), found);
        let path = format!("/v1/query?fingerprint={}&namespace={namespace}", hex(0));
        assert_eq!(fingerprints(&server.get(&path).json()), found);
    }
    assert_eq!(fingerprints(&server.query(&hex(0))), [hex(1)]);
}

#[test]
fn a_raw_body_names_its_namespace_in_the_query_string() {
    let server = Server::start();
    let plain = [("content-type", "text/plain")];
    let text = text(1, 30);
    let send = |line: &str| server.send(line, &plain, text.as_bytes()).json();
    assert_eq!(send("POST /v1/insert?id=a&namespace=news%2Ffr")["stored"], true);
    assert_eq!(send("POST /v1/query?namespace=news/fr")["duplicate"], true);
    assert_eq!(send("POST /v1/query")["duplicate"], false);
    assert_eq!(send("POST /v1/check-and-insert")["outcome"], "inserted");
    assert_eq!(send("POST /v1/check-and-insert?namespace=news/fr")["outcome"], "duplicate");
}

#[test]
fn a_document_is_a_duplicate_in_its_own_namespace_only() {
    let server = Server::start();
    let check = |namespace: &str| {
        let body = json!({"fingerprint": hex(1), "namespace": namespace});
        server.post("/v1/check-and-insert", &body).json()["outcome"].clone()
    };
    let outcomes = ["a", "b", "a", "b"].map(check);
    assert_eq!(outcomes, ["inserted", "inserted", "duplicate", "duplicate"]);
}

#[test]
fn an_id_is_unique_within_its_namespace() {
    let server = three();
    let insert = |namespace: &str, bits| {
        let body = json!({"id": "a", "namespace": namespace, "fingerprint": hex(bits)});
        server.post("/v1/insert", &body).json()["outcome"].clone()
    };
    assert_eq!(insert("news", 2), "already_present");
    assert_eq!(insert("news", 9), "replaced");
    assert_eq!(insert("other", 9), "inserted");
    let shown = |query: &str| server.get(&format!("/v1/documents/a{query}")).json();
    assert_eq!(shown("")["fingerprint"], hex(1));
    assert_eq!(shown("")["namespace"], json!(null));
    assert_eq!(shown("?namespace=news")["fingerprint"], hex(9));
    assert_eq!(shown("?namespace=shop")["namespace"], "shop");
}

#[test]
fn a_document_is_shown_and_removed_in_its_namespace() {
    let server = three();
    assert_eq!(server.get("/v1/documents/a?namespace=news").json()["fingerprint"], hex(2));
    let gone = server.get("/v1/documents/a?namespace=none");
    assert_eq!(gone.problem(), (404, "document_not_found".to_owned()));
    assert_eq!(server.delete("/v1/documents/a?namespace=none").json()["removed"], 0);
    assert_eq!(server.delete("/v1/documents/a?namespace=news").json()["removed"], 1);
    assert_eq!(server.delete("/v1/documents/a?namespace=shop").json()["removed"], 1);
    assert_eq!(server.get("/v1/documents/a").json()["fingerprint"], hex(1));
}

#[test]
fn a_fingerprint_is_removed_in_its_namespace() {
    let server = Server::start();
    let of = |namespace: &str| json!({"fingerprint": hex(7), "namespace": namespace});
    server.insert_all([of("a"), of("a"), of("b"), json!({"fingerprint": hex(7)})]);
    let path = format!("/v1/fingerprints/{}", hex(7));
    assert_eq!(server.delete(&format!("{path}?namespace=a")).json()["removed"], 2);
    assert_eq!(server.delete(&path).json()["removed"], 1);
    assert_eq!(server.post("/v1/query", &of("b")).json()["hit_count"], 1);
}

#[test]
fn a_batch_has_a_default_namespace_and_its_lines_may_have_their_own() {
    let server = Server::start();
    let lines =
        "{\"id\":\"x\",\"fingerprint\":1}\n{\"id\":\"x\",\"fingerprint\":1,\"namespace\":\"b\"}\n";
    server.post_lines("/v1/insert/batch?namespace=a", lines);
    for namespace in ["a", "b"] {
        let path = format!("/v1/query/batch?namespace={namespace}");
        let found = server.post_lines(&path, "{\"fingerprint\":1}");
        assert_eq!(ids(&found[0]["hits"][0]), json!(["x"]), "{namespace}");
    }
    assert_eq!(server.query(&hex(1))["hit_count"], 0);
    let checked =
        server.post_lines("/v1/check-and-insert/batch?namespace=a", "{\"fingerprint\":1}");
    assert_eq!(checked[0]["outcome"], "duplicate");
}

#[test]
fn a_packed_batch_has_one_namespace() {
    let server = Server::start();
    let insert = server.post_packed("/v1/insert/batch?namespace=a", &[], &[1, 2]);
    assert_eq!(insert.json()["inserted"], 2);
    let query = |namespace: &str| {
        let path = format!("/v1/query/batch{namespace}");
        server.post_packed(&path, &[], &[1, u64::MAX]).body
    };
    assert_eq!((query("?namespace=a"), query("?namespace=b")), (vec![0, 255], vec![255, 255]));
    assert_eq!(query(""), [255, 255]);
    let check = server.post_packed("/v1/check-and-insert/batch?namespace=b", &[], &[1, 1]);
    assert_eq!(check.body, [255, 0]);
    let full = [("accept", "application/x-ndjson")];
    let lines = server.post_packed("/v1/query/batch?namespace=b", &full, &[1]).lines();
    assert_eq!(lines[0]["hits"][0]["document_count"], 1);
}

#[test]
fn namespaces_are_listed_in_the_order_in_which_they_began() {
    let server = three();
    server.insert_all([json!({"fingerprint": hex(8), "namespace": "news"})]);
    let listed = server.get("/v1/namespaces").json();
    let expected = json!([
        {"namespace": "news", "documents": 2},
        {"namespace": "shop", "documents": 1},
    ]);
    assert_eq!((&listed["namespaces"], &listed["next"]), (&expected, &json!(null)));
    assert_eq!(listed["default_documents"], 1);
    let first = server.get("/v1/namespaces?limit=1").json();
    assert_eq!(first["namespaces"], json!([expected[0]]));
    let after = first["next"].as_str().unwrap();
    let second = server.get(&format!("/v1/namespaces?limit=1&after={after}")).json();
    assert_eq!(second["namespaces"], json!([expected[1]]));
}

#[test]
fn a_namespace_ends_with_its_last_document() {
    let server = three();
    server.delete("/v1/documents/a?namespace=news").json();
    let listed = server.get("/v1/namespaces").json();
    assert_eq!(listed["namespaces"], json!([{"namespace": "shop", "documents": 1}]));
    let stats = server.get("/v1/stats").json();
    assert_eq!((&stats["documents"], &stats["namespaces"]), (&json!(2), &json!(1)));
}

#[test]
fn stats_count_the_documents_of_a_namespace() {
    let server = three();
    let of = |name: &str| server.get(&format!("/v1/stats?namespace={name}")).json();
    assert_eq!(of("news"), json!({"namespace": "news", "documents": 1}));
    assert_eq!(of("none"), json!({"namespace": "none", "documents": 0}));
    assert!(server.get("/v1/stats").json()["memory"]["namespaces_bytes"].is_u64());
}

#[test]
fn metrics_count_namespaces_and_never_name_them() {
    let server = Server::start();
    let secret = json!({"fingerprint": hex(1), "namespace": "secret-name"});
    server.post("/v1/insert", &secret).json();
    server.post("/v1/query", &secret).json();
    server.get("/v1/stats?namespace=secret-name").json();
    let page = server.get("/metrics").text();
    assert!(
        page.contains("\nnearprint_namespaces 1") && page.contains("\nnearprint_jobs_running ")
    );
    assert!(!page.contains("secret-name"));
}

#[test]
fn any_name_of_256_bytes_is_a_namespace() {
    let server = Server::start();
    for name in ["\u{8336}/a b", "%2F", "a,b;*", &"\u{e9}".repeat(128)] {
        let body = json!({"id": "a", "fingerprint": hex(1), "namespace": name});
        assert_eq!(server.post("/v1/insert", &body).json()["outcome"], "inserted", "{name}");
        let encoded: Vec<_> = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let encoded = encoded.concat();
        let shown = server.get(&format!("/v1/documents/a?namespace={encoded}")).json();
        assert_eq!(shown["namespace"], *name);
        server.post("/v1/purge", &json!({"namespace": name})).accepted();
    }
}

#[test]
fn a_name_of_no_bytes_or_too_many_is_refused() {
    let server = Server::start();
    let refused = (400, "invalid_value".to_owned(), "namespace".to_owned());
    for name in [json!(""), json!("x".repeat(257)), json!(1), json!(["a"])] {
        for route in ["query", "insert", "check-and-insert"] {
            let body = json!({"fingerprint": hex(1), "namespace": name});
            assert_eq!(server.post(&format!("/v1/{route}"), &body).problem_at(), refused, "{name}");
        }
    }
    let long = "x".repeat(257);
    for path in [
        "/v1/documents?namespace=".to_owned(),
        format!("/v1/documents/a?namespace={long}"),
        format!("/v1/stats?namespace={long}"),
        format!("/v1/fingerprints/{}?namespace={long}", hex(1)),
        format!("/v1/query?fingerprint={}&namespace={long}", hex(1)),
    ] {
        assert_eq!(server.get(&path).problem_at(), refused, "{path}");
    }
    for name in [&*long, ""] {
        let refused_purge = server.post("/v1/purge", &json!({"namespace": name})).problem_at();
        assert_eq!(refused_purge, refused, "{name}");
    }
}

#[test]
fn documents_that_are_only_compared_have_no_namespace() {
    let server = Server::start();
    let document = json!({"fingerprint": hex(1), "namespace": "a"});
    let refused = server.post("/v1/fingerprint", &document);
    assert_eq!(refused.problem_at(), (400, "unknown_field".to_owned(), "namespace".to_owned()));
    let refused = server.post("/v1/compare", &json!({"a": document, "b": {"fingerprint": 1}}));
    assert_eq!(refused.problem_at(), (400, "unknown_field".to_owned(), "a.namespace".to_owned()));
}

/// Sends requests with a token that is limited to `news/*`.
fn with_token<'a>(server: &'a Server, bearer: &'a str) -> impl Fn(&str, &str) -> Reply + 'a {
    move |line, body| {
        let headers = [("authorization", bearer), ("content-type", "application/json")];
        server.send(line, &headers, body.as_bytes())
    }
}

#[test]
fn a_limited_token_may_do_everything_in_its_namespaces() {
    let (server, bearer) = limited();
    let send = with_token(&server, &bearer);
    let document = r#"{"id":"a","fingerprint":1,"namespace":"news/fr"}"#;
    for route in ["insert", "query", "check-and-insert"] {
        assert_eq!(send(&format!("POST /v1/{route}"), document).status, 200, "{route}");
    }
    for line in [
        "GET /v1/query?fingerprint=0000000000000001&namespace=news/fr",
        "GET /v1/documents/a?namespace=news/fr",
        "GET /v1/documents?namespace=news/fr",
        "GET /v1/fingerprints/0000000000000001?namespace=news/fr",
        "GET /v1/stats?namespace=news/fr",
        "GET /v1/namespaces",
        "GET /v1/jobs",
        "DELETE /v1/documents/a?namespace=news/fr",
        "DELETE /v1/fingerprints/0000000000000001?namespace=news/fr",
    ] {
        assert_eq!(send(line, "").status, 200, "{line}");
    }
    let job = send("POST /v1/purge", r#"{"namespace":"news/fr"}"#).accepted();
    assert_eq!(send(&format!("GET /v1/jobs/{}", name(&job)), "").json()["job"], job["job"]);
}

#[test]
fn a_limited_token_may_do_nothing_in_other_namespaces() {
    let (server, bearer) = limited();
    let send = with_token(&server, &bearer);
    let refused = (403, "namespace_not_allowed".to_owned());
    for namespace in [r#","namespace":"shop""#, ""] {
        let document = format!(r#"{{"id":"a","fingerprint":1{namespace}}}"#);
        for route in ["insert", "query", "check-and-insert"] {
            assert_eq!(send(&format!("POST /v1/{route}"), &document).problem(), refused, "{route}");
        }
        let purge = format!(r#"{{"prefix":"a"{namespace}}}"#);
        assert_eq!(send("POST /v1/purge", &purge).problem(), refused);
    }
    for line in [
        "GET /v1/query?fingerprint=0000000000000001&namespace=shop",
        "GET /v1/documents/a?namespace=shop",
        "GET /v1/documents/a",
        "GET /v1/documents",
        "GET /v1/documents?namespace=shop",
        "GET /v1/documents?all_namespaces=true",
        "GET /v1/fingerprints/0000000000000001",
        "GET /v1/stats?namespace=shop",
        "GET /v1/stats",
        "DELETE /v1/documents/a?namespace=shop",
        "DELETE /v1/fingerprints/0000000000000001?namespace=shop",
    ] {
        assert_eq!(send(line, "").problem(), refused, "{line}");
    }
    assert_eq!(send("POST /v1/purge", r#"{"all_namespaces":true}"#).problem(), refused);
    let stream = [("authorization", &*bearer), ("accept", "application/x-ndjson")];
    let all = server.send("GET /v1/documents?all_namespaces=true", &stream, b"");
    assert_eq!(all.problem(), refused);
}

#[test]
fn a_limited_token_is_refused_line_by_line_and_a_packed_batch_whole() {
    let (server, bearer) = limited();
    let authorization = ("authorization", &*bearer);
    let lines = b"{\"fingerprint\":1,\"namespace\":\"shop\"}\n{\"fingerprint\":1}\n";
    for route in ["query", "insert", "check-and-insert"] {
        let line = format!("POST /v1/{route}/batch?namespace=news/de");
        let replies = server.send(&line, &[authorization, NDJSON], lines).lines();
        assert_eq!(replies[0]["error"]["code"], "namespace_not_allowed", "{route}");
        assert_eq!(replies[1]["fingerprint"], hex(1), "{route}");
        let path = format!("/v1/{route}/batch?namespace=");
        let packed =
            |name: &str| server.post_packed(&format!("{path}{name}"), &[authorization], &[1]);
        assert_eq!(packed("shop").problem(), (403, "namespace_not_allowed".to_owned()), "{route}");
        assert_eq!(packed("news/de").status, 200, "{route}");
    }
}

#[test]
fn a_limited_token_sees_its_namespaces_and_jobs_only() {
    let (server, bearer) = limited();
    let send = with_token(&server, &bearer);
    send("POST /v1/insert", r#"{"fingerprint":1,"namespace":"news/fr"}"#).json();
    let listed = send("GET /v1/namespaces", "").json();
    assert_eq!(listed["namespaces"], json!([{"namespace": "news/fr", "documents": 1}]));
    assert_eq!(listed["default_documents"], json!(null));
    let job = send("POST /v1/purge", r#"{"namespace":"news/fr","dry_run":true}"#).accepted();
    let jobs = send("GET /v1/jobs", "").json();
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(jobs["jobs"][0]["job"], job["job"]);
}

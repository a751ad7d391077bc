//! Originals: how often documents were named as the original of a duplicate.

use serde_json::{Value, json};

use crate::access::limited;
use crate::support::{Server, hex};

/// Checks a fingerprint that is a duplicate, so many times.
fn check(server: &Server, document: &Value, times: usize) {
    for _ in 0..times {
        let reply = server.post("/v1/check-and-insert", document).json();
        assert_eq!(reply["outcome"], "duplicate", "{reply}");
    }
}

/// `a` was named once and `b` three times, both in the default namespace; `x` twice.
fn touched() -> Server {
    let server = Server::start();
    let bits = [("a", 0), ("b", 0xff00), ("never", 0xff << 32)];
    server.insert_all(
        bits.map(|(id, bits)| json!({"id": id, "fingerprint": hex(bits), "metadata": {"of": id}})),
    );
    server.insert_all([json!({"id": "x", "fingerprint": hex(0), "namespace": "x"})]);
    check(&server, &json!({"fingerprint": hex(0xff01)}), 3);
    check(&server, &json!({"fingerprint": hex(1)}), 1);
    check(&server, &json!({"fingerprint": hex(1), "namespace": "x"}), 2);
    server
}

/// The ids and counts of a list.
fn listed(server: &Server, query: &str) -> Vec<(String, u64)> {
    let page = server.get(&format!("/v1/originals{query}")).json();
    let originals = page["originals"].as_array().unwrap().iter();
    let each = |original: &Value| {
        let id = original["id"].as_str().unwrap().to_owned();
        (id, original["duplicates"].as_u64().unwrap())
    };
    originals.map(each).collect()
}

fn of(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    expected.iter().map(|(id, count)| ((*id).to_owned(), *count)).collect()
}

#[test]
fn the_documents_that_come_again_and_again_come_first() {
    let server = touched();
    assert_eq!(listed(&server, ""), of(&[("b", 3), ("a", 1)]));
    assert_eq!(listed(&server, "?namespace=x"), of(&[("x", 2)]));
    let all = "?all_namespaces=true&order=duplicates";
    assert_eq!(listed(&server, all), of(&[("b", 3), ("x", 2), ("a", 1)]));
    assert_eq!(listed(&server, "?order=recent").len(), 2);
    let page = server.get("/v1/originals?include=metadata&limit=1").json();
    let original = &page["originals"][0];
    assert_eq!(
        (&original["metadata"], &original["fingerprint"]),
        (&json!({"of": "b"}), &json!(hex(0xff00)))
    );
    let last = original["last_duplicate_at_ms"].as_u64().unwrap();
    assert!(last / 1_000 >= original["stored_at_ms"].as_u64().unwrap() / 1_000);
    let next = page["next"].as_str().unwrap();
    assert_eq!(listed(&server, &format!("?after={next}")), of(&[("a", 1)]));
}

#[test]
fn a_document_shows_how_often_it_was_named() {
    let server = touched();
    assert_eq!(server.get("/v1/documents/b").json()["duplicates"], 3);
    let never = server.get("/v1/documents/never").json();
    assert!(never.get("duplicates").is_none() && never.get("last_duplicate_at_ms").is_none());
}

#[test]
fn what_is_not_to_be_counted_is_not() {
    let server = touched();
    check(&server, &json!({"fingerprint": hex(1), "touch": false}), 2);
    let body = format!("{{\"fingerprint\":\"{}\"}}", hex(1));
    server.post_lines("/v1/check-and-insert/batch?touch=false", &body);
    assert_eq!(listed(&server, ""), of(&[("b", 3), ("a", 1)]));
    server.post_lines("/v1/check-and-insert/batch", &body);
    assert_eq!(listed(&server, ""), of(&[("b", 3), ("a", 2)]));
}

#[test]
fn counts_of_removed_documents_go_and_the_others_survive_a_restart() {
    let server = touched();
    server.delete("/v1/documents/b").json();
    assert_eq!(listed(&server, ""), of(&[("a", 1)]));
    let server = server.restarted();
    assert_eq!(listed(&server, "?all_namespaces=true"), of(&[("x", 2), ("a", 1)]));
    // It is another document.
    server.insert("b", &hex(0xff00));
    assert_eq!(listed(&server, ""), of(&[("a", 1)]));
}

#[test]
fn counts_survive_a_restart_when_nothing_else_has_changed() {
    let server = touched().restarted();
    check(&server, &json!({"fingerprint": hex(1)}), 1);
    let server = server.restarted();
    assert_eq!(listed(&server, ""), of(&[("b", 3), ("a", 2)]));
    check(&server, &json!({"fingerprint": hex(1)}), 1);
    // On request, too.
    server.post("/v1/snapshots", &json!({})).json();
    let server = server.restarted();
    assert_eq!(listed(&server, ""), of(&[("a", 3), ("b", 3)]));
}

#[test]
fn the_limit_forgets_and_0_counts_nothing() {
    let server = Server::tuned(|_| {}, |settings| settings.engine.originals_max = 0);
    server.insert("a", &hex(0));
    check(&server, &json!({"fingerprint": hex(1)}), 1);
    assert!(listed(&server, "").is_empty());
}

#[test]
fn a_request_that_makes_no_sense_is_refused() {
    let server = Server::start();
    for (query, field) in [
        ("order=worst", "order"),
        ("after=x", "after"),
        ("limit=0", "limit"),
        ("namespace=a&all_namespaces=true", "all_namespaces"),
    ] {
        assert_eq!(server.get(&format!("/v1/originals?{query}")).problem_at().2, field);
    }
}

#[test]
fn a_limited_token_sees_its_namespaces_only() {
    let (server, bearer) = limited();
    let headers = [("authorization", bearer.as_str())];
    let get = |query: &str| server.send(&format!("GET /v1/originals{query}"), &headers, b"");
    assert_eq!(get("?namespace=news/a").json()["originals"], json!([]));
    for query in ["", "?all_namespaces=true", "?namespace=other"] {
        assert_eq!(get(query).problem(), (403, "namespace_not_allowed".to_owned()), "{query}");
    }
}

//! Comparisons with documents that are stored.

use nearprint::access::Token;
use serde_json::{Value, json};

use crate::support::{Server, hex, text};

fn compared(server: &Server, a: &Value, b: &Value) -> Value {
    server.post("/v1/compare", &json!({ "a": a, "b": b, "distance": 2, "min_numbers": 0.4 })).json()
}

/// Texts that are equal, near, far apart, short, or differ in their numbers alone; and what is no
/// text.
fn contents() -> Vec<Value> {
    let long = text(1, 60);
    let order = |number: u32| format!("{} order {number}.{number} of {number}", text(2, 40));
    vec![
        json!({ "text": long }),
        json!({ "text": format!("{long} kalomi") }),
        json!({ "text": text(3, 60) }),
        json!({ "text": "black tea" }),
        json!({ "text": order(17) }),
        json!({ "text": order(99) }),
        json!({ "html": format!("<p>{long}") }),
        json!({ "features": {"lamp": 3, "wire": 1.5} }),
        json!({ "fingerprint": hex(0xff) }),
        json!({ "fingerprint": hex(0xfe) }),
    ]
}

#[test]
fn a_stored_document_compares_as_the_one_that_was_sent() {
    let server = Server::start();
    let contents = contents();
    for (number, content) in contents.iter().enumerate() {
        let mut document = content.clone();
        document["id"] = json!(format!("id {number}"));
        assert_eq!(server.post("/v1/insert", &document).json()["stored"], true);
    }
    let stored = |number: usize| json!({ "id": format!("id {number}") });
    for (i, a) in contents.iter().enumerate() {
        for (j, b) in contents.iter().enumerate() {
            let expected = compared(&server, a, b);
            for (one, other) in
                [(stored(i), b.clone()), (a.clone(), stored(j)), (stored(i), stored(j))]
            {
                assert_eq!(compared(&server, &one, &other), expected, "{i} {j}");
            }
        }
    }
}

#[test]
fn a_document_that_is_not_stored_is_named_by_its_side() {
    let server = Server::start();
    server.insert("here", &hex(1));
    let (here, gone) = (json!({"id": "here"}), json!({"id": "gone"}));
    for (a, b, field) in [(&gone, &here, "a.id"), (&here, &gone, "b.id"), (&gone, &gone, "a.id")] {
        let refused = server.post("/v1/compare", &json!({ "a": a, "b": b }));
        let expected = (404, "document_not_found".to_owned(), field.to_owned());
        assert_eq!(refused.problem_at(), expected);
    }
    let elsewhere = json!({"id": "here", "namespace": "shop"});
    let refused = server.post("/v1/compare", &json!({ "a": here, "b": elsewhere }));
    assert_eq!(refused.problem().1, "document_not_found");
}

#[test]
fn only_an_id_without_content_is_that_of_a_stored_document() {
    let server = Server::start();
    let compare = |a: Value| server.post("/v1/compare", &json!({ "a": a, "b": {"text": "tea"} }));
    // The id of a document that is given is not looked up.
    assert_eq!(compare(json!({"id": "gone", "text": "tea"})).json()["distance"], 0);
    for (a, code, field) in [
        (json!({"text": "tea", "namespace": "shop"}), "unknown_field", "a.namespace"),
        (json!({"namespace": "shop"}), "unknown_field", "a.namespace"),
        (json!({"id": "gone", "recipe": "np2"}), "document_missing", ""),
        (json!({"id": {"from": "fingerprint"}}), "document_missing", ""),
        (json!({}), "document_missing", ""),
    ] {
        let refused = compare(a.clone()).problem_at();
        assert_eq!((refused.0, refused.1.as_str()), (400, code), "{a}");
        assert!(refused.2.starts_with(field), "{a}: {refused:?}");
    }
}

#[test]
fn a_limited_token_compares_what_it_reaches() {
    let token = Token::generate().unwrap();
    let all = Token::generate().unwrap();
    let lines =
        format!("some read {} namespaces=news/*\nall read,write {}", token.digest(), all.digest());
    let server = Server::with(|config| config.access.tokens = lines);
    let send = |token: &Token, path: &str, body: &Value| {
        let bearer = format!("Bearer {}", token.reveal());
        let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
        server.send(&format!("POST {path}"), &headers, body.to_string().as_bytes())
    };
    for namespace in [json!("news/fr"), json!("shop"), json!(null)] {
        let document = json!({"id": "x", "fingerprint": hex(1), "namespace": namespace});
        assert_eq!(send(&all, "/v1/insert", &document).status, 200);
    }
    let compare = |token: &Token, namespace: Value| {
        let b = json!({"id": "x", "namespace": namespace});
        send(token, "/v1/compare", &json!({"a": {"fingerprint": hex(1)}, "b": b}))
    };
    assert_eq!(compare(&token, json!("news/fr")).json()["distance"], 0);
    for namespace in [json!("shop"), json!(null), json!("nothing")] {
        let refused = compare(&token, namespace.clone()).problem();
        assert_eq!(refused, (403, "namespace_not_allowed".to_owned()), "{namespace}");
    }
    assert_eq!(compare(&all, json!("shop")).status, 200);
}

#[test]
fn the_nearest_text_that_does_not_count_and_why_are_found_in_two_requests() {
    let server = Server::start();
    let words = text(5, 60);
    let mut other: Vec<&str> = words.split(' ').collect();
    other[20..36].fill("zzz");
    server.post("/v1/insert", &json!({"id": "near", "text": other.join(" ")})).json();
    server.post("/v1/insert", &json!({"id": "far", "text": text(6, 60)})).json();
    let asked = json!({"text": words});
    assert_eq!(server.post("/v1/query", &asked).json()["hits"], json!([]));
    let loose = json!({"text": words, "min_similarity": 0.0001});
    let hits = server.post("/v1/query", &loose).json()["hits"].clone();
    let nearest = &hits[0];
    assert_eq!(nearest["documents"][0]["id"], "near", "{hits}");
    let compared = json!({"a": asked, "b": {"id": "near"}});
    let compared = server.post("/v1/compare", &compared).json();
    assert_eq!(compared["duplicate"], false);
    assert_eq!(compared["kept_apart_by"], "similarity", "{compared}");
    assert_eq!(compared["similarity"], nearest["similarity"]);
}

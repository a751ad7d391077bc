//! Showing and removing: documents by id, fingerprints, many at once.

use serde_json::{Value, json};

use crate::support::{Server, hex, ids, text};

#[test]
fn a_document_is_shown_under_its_percent_encoded_id() {
    let server = Server::start();
    let id = "https://a.example/1?x=1&y=%20#\u{e9}";
    let body = json!({"id": id, "text": text(1, 30)});
    let written = server.post("/v1/insert", &body).json();
    let encoded = "https%3A%2F%2Fa.example%2F1%3Fx%3D1%26y%3D%2520%23%C3%A9";
    let shown = server.get(&format!("/v1/documents/{encoded}")).json();
    assert_eq!(shown["id"], id);
    assert_eq!(shown["fingerprint"], written["fingerprint"]);
    assert_eq!((&shown["sequence"], &shown["recipe"]), (&written["sequence"], &json!("np2")));
    assert_eq!((&shown["short"], &shown["verifiable"]), (&json!(false), &json!(true)));
    assert!(shown["stored_at_ms"].as_u64().unwrap() > 1_700_000_000_000);
}

#[test]
fn any_id_is_shown_and_removed_under_its_path() {
    let server = Server::start();
    for (id, encoded) in [
        ("a/b", "a%2Fb"),
        ("/", "%2F"),
        ("?", "%3f"),
        ("#", "%23"),
        ("100 %", "100%20%25"),
        ("%2F", "%252F"),
        (".", "%2E"),
        ("..", "%2e%2E"),
        ("..", ".."),
        ("a/../b", "a%2F..%2Fb"),
        ("\u{8336}", "%E8%8C%B6"),
    ] {
        server.insert(id, &hex(1));
        let path = format!("/v1/documents/{encoded}");
        assert_eq!(server.get(&path).json()["id"], id, "{encoded}");
        assert_eq!(server.delete(&path).json()["removed"], 1, "{encoded}");
        assert_eq!(server.get("/v1/stats").json()["documents"], 0, "{encoded}");
    }
}

#[test]
fn an_id_that_is_not_stored_is_not_found() {
    let server = Server::start();
    assert_eq!(server.get("/v1/documents/none").problem(), (404, "document_not_found".to_owned()));
    let unknown = server.get("/v1/documents?id=none").problem_at();
    assert_eq!(unknown, (400, "unknown_field".to_owned(), "id".to_owned()));
    assert_eq!(server.delete("/v1/documents?id=none").status, 405);
    assert_eq!(server.get("/v1/documents/%ff").problem_at().2, "id");
    let long = format!("/v1/documents/{}", "x".repeat(2049));
    assert_eq!(server.get(&long).problem_at().2, "id");
}

#[test]
fn the_longest_id_is_stored_and_found() {
    let server = Server::start();
    let id = "\u{e9}".repeat(1024);
    assert_eq!(server.insert(&id, &hex(1))["stored"], true);
    assert_eq!(ids(&server.query(&hex(1))["hits"][0]), json!([id]));
    let encoded = "%C3%A9".repeat(1024);
    assert_eq!(server.get(&format!("/v1/documents/{encoded}")).json()["id"], id);
}

#[test]
fn a_deleted_document_is_found_no_more_at_any_distance() {
    let server = Server::start();
    server.insert("https://a.example/1", &hex(0));
    let removed = server.delete("/v1/documents/https%3A%2F%2Fa.example%2F1").json();
    assert_eq!((&removed["removed"], &removed["stored"]), (&json!(1), &json!(false)));
    assert!(removed["sequence"].as_u64().unwrap() > 0);
    for bits in [0, 1, 0b11, 0b111] {
        assert_eq!(server.query(&hex(bits))["hit_count"], 0);
    }
    assert_eq!(server.get("/v1/documents/https%3A%2F%2Fa.example%2F1").status, 404);
    assert_eq!(server.get("/v1/stats").json()["documents"], 0);
}

#[test]
fn deleting_again_succeeds_and_removes_nothing() {
    let server = Server::start();
    server.insert("a", &hex(0));
    assert_eq!(server.delete("/v1/documents/a").json()["removed"], 1);
    assert_eq!(server.delete("/v1/documents/a").json()["removed"], 0);
    assert_eq!(server.delete(&format!("/v1/fingerprints/{}", hex(0))).json()["removed"], 0);
}

#[test]
fn three_deletions_remove_three_documents_of_one_fingerprint() {
    let server = Server::start();
    for id in ["a", "b", "c", "d"] {
        server.insert(id, &hex(3));
    }
    for id in ["a", "c", "b"] {
        assert_eq!(server.delete(&format!("/v1/documents/{id}")).json()["removed"], 1);
    }
    let hit = &server.query(&hex(3))["hits"][0];
    assert_eq!((&ids(hit), &hit["document_count"]), (&json!(["d"]), &json!(1)));
}

#[test]
fn a_deleted_fingerprint_takes_all_its_documents_and_no_neighbour() {
    let server = Server::start();
    for id in ["a", "b", "c"] {
        server.insert(id, &hex(8));
    }
    server.post("/v1/insert", &json!({"fingerprint": hex(8)})).json();
    server.insert("near", &hex(9));
    let removed = server.delete(&format!("/v1/fingerprints/0x{}", hex(8).to_uppercase())).json();
    assert_eq!(removed["removed"], 4);
    let left = server.query(&hex(8));
    assert_eq!((&left["hit_count"], &ids(&left["hits"][0])), (&json!(1), &json!(["near"])));
    assert_eq!(server.get("/v1/documents/b").status, 404);
    assert_eq!(server.get("/v1/stats").json()["documents"], 1);
}

#[test]
fn a_deleted_id_can_be_stored_again() {
    let server = Server::start();
    server.insert("a", &hex(1));
    server.delete("/v1/documents/a").json();
    let again = server.insert("a", &hex(1));
    assert_eq!((&again["outcome"], &again["stored"]), (&json!("inserted"), &json!(true)));
    assert_eq!(ids(&server.query(&hex(1))["hits"][0]), json!(["a"]));
}

#[test]
fn many_ids_are_removed_in_one_request() {
    let token = nearprint::access::Token::generate().unwrap();
    let server = Server::with(|config| {
        config.access.tokens = format!("me read,write {} namespaces=n,m", token.digest());
    });
    let bearer = format!("Bearer {}", token.reveal());
    let ndjson = ("content-type", "application/x-ndjson");
    let post = |path: &str, lines: &str| {
        server.send(path, &[("authorization", &bearer), ndjson], lines.as_bytes())
    };
    let document =
        |at: u64| format!("{{\"id\":\"{at}\",\"fingerprint\":{at},\"namespace\":\"n\"}}\n");
    let stored = (0..100).map(document).collect::<Vec<_>>().concat();
    assert_eq!(post("POST /v1/insert/batch", &stored).lines().len(), 100);
    let lines = "{\"id\":\"0\"}\n{\"id\":1}\n\n{\"id\":\"1\"}\n{\"id\":\"2\",\"namespace\":\"m\"}\n\
        {\"id\":\"3\",\"namespace\":\"other\"}\n{}\noops\n{\"id\":\"3\",\"namespace\":null}";
    let replies = post("POST /v1/delete/batch?namespace=n", lines).lines();
    let outcome = |reply: &Value| match reply["error"]["code"].as_str() {
        Some(code) => format!("{code} {}", reply["error"]["line"]),
        None => format!("{} {}", reply["removed"], reply["stored"]),
    };
    assert_eq!(
        replies.iter().map(outcome).collect::<Vec<_>>(),
        [
            "1 false",
            "1 false",
            "0 false",
            "0 false",
            "namespace_not_allowed 6",
            "invalid_value 7",
            "malformed_json 8",
            "1 false"
        ]
    );
    let all = (0..10_000).map(|at| format!("{{\"id\":\"{at}\"}}\n")).collect::<Vec<_>>().concat();
    let one_more = post("POST /v1/delete/batch?namespace=n", &format!("{all}{{\"id\":\"x\"}}"));
    assert_eq!(one_more.problem(), (413, "body_too_large".to_owned()));
    assert!(one_more.text().contains("10000"), "{}", one_more.text());
    let removed = post("POST /v1/delete/batch?namespace=n", &all).lines();
    assert_eq!(removed.len(), 10_000);
    assert_eq!(removed.iter().filter(|reply| reply["removed"] == 1).count(), 97);
    let json = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let refused = server.send("POST /v1/delete/batch", &json, b"{\"id\":\"0\"}");
    assert_eq!(refused.problem(), (415, "unsupported_media_type".to_owned()));
}

#[test]
fn an_integer_is_an_id_by_its_decimal_text_and_a_float_is_none() {
    let server = Server::start();
    let longest = "9".repeat(2_048);
    for id in ["0", "17", "-17", "18446744073709551616", &longest] {
        let body = format!("{{\"id\":{id},\"fingerprint\":1}}");
        for path in ["/v1/insert", "/v1/check-and-insert"] {
            assert_eq!(server.post_text(path, &body).status, 200, "{path} {id}");
            let stored = server.get(&format!("/v1/documents/{id}")).json();
            assert_eq!(stored["id"], id, "{path}");
            let removed = server.delete(&format!("/v1/documents/{id}")).json();
            assert_eq!(removed["removed"], 1, "{path} {id}");
        }
        let lines = format!("{body}\n");
        server.post_lines("/v1/insert/batch", &lines);
        let removed = server.post_lines("/v1/delete/batch", &format!("{{\"id\":{id}}}\n"));
        assert_eq!(removed[0]["removed"], 1, "{id}");
    }
    for (id, why) in [
        ("1.0", "id is the number 1.0; it takes a string, an integer"),
        ("1e3", "id is the number 1e3; it takes a string, an integer"),
        ("true", "it takes a string, an integer"),
        (&*format!("{longest}9"), "2048"),
    ] {
        let body = format!("{{\"id\":{id},\"fingerprint\":1}}");
        let refused = server.post_text("/v1/insert", &body);
        assert_eq!(refused.problem_at(), (400, "invalid_value".to_owned(), "id".to_owned()));
        let detail = refused.problem_body()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(why), "{detail}");
        let line = &server.post_lines("/v1/insert/batch", &body)[0]["error"];
        assert_eq!((&line["code"], &line["field"]), (&json!("invalid_value"), &json!("id")));
    }
    assert_eq!(server.get("/v1/stats").json()["documents"], 0);
}

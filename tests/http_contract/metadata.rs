//! Metadata: stored with a document, given back as it was sent; and ids that are made from the
//! document.

use serde_json::{Value, json};

use crate::support::{Server, hex, ids, text};

/// A document with metadata, as JSON text.
fn document(id: &str, metadata: &str) -> String {
    format!(r#"{{"id":"{id}","fingerprint":"{}","metadata":{metadata}}}"#, hex(1))
}

#[test]
fn metadata_comes_back_as_it_was_sent_without_white_space() {
    let server = Server::start();
    let sent = "{ \"z\": 1.50, \"a\": [1e3, {\"\u{8336} \u{1f375}\": \" \\\"x\\\" \\u00e9 \"}],\n\t\"m\": null }";
    let kept =
        "{\"z\":1.50,\"a\":[1e3,{\"\u{8336} \u{1f375}\":\" \\\"x\\\" \\u00e9 \"}],\"m\":null}";
    for route in ["insert", "check-and-insert"] {
        server.post_text(&format!("/v1/{route}"), &document("a", sent)).json();
        let shown = server.get("/v1/documents/a").text();
        assert!(shown.contains(&format!("\"metadata\":{kept}")), "{route} {shown}");
    }
}

#[test]
fn metadata_may_have_exactly_the_configured_bytes() {
    let server = Server::with(|config| config.documents.metadata_bytes_max = 100);
    let of = |bytes: usize| format!("{{ \"a\" : \"{}\" }}", "x".repeat(bytes - 8));
    assert_eq!(server.post_text("/v1/insert", &document("a", &of(100))).status, 200);
    let refused = server.post_text("/v1/insert", &document("b", &of(101)));
    let expected = (413, "metadata_too_large".to_owned(), "metadata".to_owned());
    assert_eq!(refused.problem_at(), expected);
    assert!(refused.text().contains("documents.metadata_bytes_max"), "{}", refused.text());
    let huge = server.post_text("/v1/check-and-insert", &document("b", &of(200_000)));
    assert_eq!(huge.problem_at(), expected);
    let lines = format!("{}\n{}\n", document("c", &of(101)), document("d", &of(100)));
    let replies = server.post_lines("/v1/insert/batch", &lines);
    assert_eq!(replies[0]["error"]["code"], "metadata_too_large");
    assert_eq!(replies[1]["stored"], true);
}

#[test]
fn the_largest_metadata_of_all_is_stored() {
    let server = Server::with(|config| config.documents.metadata_bytes_max = 65_536);
    let largest = format!("{{\"a\":\"{}\"}}", "x".repeat(65_528));
    for id in 0..10 {
        assert_eq!(
            server.post_text("/v1/insert", &document(&id.to_string(), &largest)).status,
            200
        );
    }
    let body = json!({"fingerprint": hex(1), "include": ["metadata"]});
    let found = server.post("/v1/query", &body);
    let hit = &found.json()["hits"][0];
    assert_eq!(hit["documents"].as_array().unwrap().len(), 10);
    assert_eq!(hit["documents"][9]["metadata"].to_string(), largest);
}

#[test]
fn what_is_no_object_is_no_metadata() {
    let server = Server::start();
    let refused = (400, "invalid_value".to_owned(), "metadata".to_owned());
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100), "]".repeat(100));
    for wrong in ["1", "\"{}\"", "[]", "true", &deep] {
        let reply = server.post_text("/v1/insert", &document("a", wrong));
        assert_eq!(reply.problem_at(), refused, "{wrong}");
    }
    let lone = server.post_text("/v1/insert", &document("a", r#"{"a":"\ud800"}"#));
    assert_eq!(lone.problem(), (400, "malformed_json".to_owned()));
    let query = server.post_text("/v1/query", &document("a", "{}"));
    assert_eq!(query.problem_at(), (400, "unknown_field".to_owned(), "metadata".to_owned()));
    let raw = server.send(
        "POST /v1/insert?metadata={}",
        &[("content-type", "text/plain")],
        b"some words",
    );
    assert_eq!(raw.problem_at(), (400, "unknown_field".to_owned(), "metadata".to_owned()));
}

#[test]
fn hits_show_metadata_if_it_is_wanted() {
    let server = Server::start();
    server.post_text("/v1/insert", &document("a", "{\"k\":1}")).json();
    server.insert("b", &hex(1));
    let metadata = |reply: &Value| {
        let documents = reply["hits"][0]["documents"].as_array().unwrap().iter();
        documents.map(|document| document["metadata"].clone()).collect::<Vec<_>>()
    };
    let (shown, hidden) = ([json!({"k": 1}), json!(null)], [json!(null), json!(null)]);
    let body = json!({"fingerprint": hex(1), "include": ["metadata"]});
    assert_eq!(metadata(&server.query(&hex(1))), hidden);
    assert_eq!(metadata(&server.post("/v1/query", &body).json()), shown);
    assert_eq!(metadata(&server.post("/v1/check-and-insert", &body).json()), shown);
    let path = format!("/v1/query?include=metadata&fingerprint={}", hex(1));
    assert_eq!(metadata(&server.get(&path).json()), shown);
    let lines = server.post_lines("/v1/query/batch?include=metadata", "{\"fingerprint\":1}");
    assert_eq!(metadata(&lines[0]), shown);
    let lines = server.post_lines("/v1/check-and-insert/batch", &body.to_string());
    assert_eq!(metadata(&lines[0]), shown);
    let none = json!({"fingerprint": hex(1), "include": []});
    assert_eq!(metadata(&server.post("/v1/query", &none).json()), hidden);
}

#[test]
fn a_document_with_metadata_and_no_id_is_listed_in_its_hit() {
    let server = Server::start();
    server.insert_all([
        json!({"fingerprint": hex(1), "metadata": {"k": 1}}),
        json!({"fingerprint": hex(1)}),
    ]);
    let hit = &server.query(&hex(1))["hits"][0];
    assert_eq!((ids(hit), &hit["document_count"]), (json!([null]), &json!(2)));
}

#[test]
fn an_insert_with_metadata_renews_that_of_the_stored_document() {
    let server = Server::start();
    let outcome = |metadata: &str| {
        server.post_text("/v1/insert", &document("a", metadata)).json()["outcome"].clone()
    };
    assert_eq!(
        (outcome("{\"k\":1}"), outcome("{\"k\":2}")),
        (json!("inserted"), json!("refreshed"))
    );
    assert_eq!(server.get("/v1/documents/a").json()["metadata"], json!({"k": 2}));
    assert_eq!(server.insert("a", &hex(1))["outcome"], "already_present");
    assert_eq!(server.get("/v1/documents/a").json()["metadata"], json!({"k": 2}));
    assert_eq!(server.get("/v1/stats").json()["documents"], 1);
}

#[test]
fn a_part_that_hits_do_not_have_is_refused() {
    let server = Server::start();
    let refused = (400, "invalid_value".to_owned(), "include".to_owned());
    for include in [json!(["sketch"]), json!("metadata"), json!([1]), json!({}), json!([""])] {
        let body = json!({"fingerprint": hex(1), "include": include});
        assert_eq!(server.post("/v1/query", &body).problem_at(), refused, "{include}");
    }
    for include in ["sketch", "", "metadata,x"] {
        let path = format!("/v1/query?fingerprint={}&include={include}", hex(1));
        assert_eq!(server.get(&path).problem_at(), refused, "{include}");
    }
}

#[test]
fn an_id_is_made_from_the_fingerprint() {
    let server = Server::start();
    let body = json!({"fingerprint": hex(0xab), "id": {"from": "fingerprint"}});
    let outcome = |route: &str| server.post(route, &body).json()["outcome"].clone();
    assert_eq!(outcome("/v1/insert"), "inserted");
    assert_eq!(outcome("/v1/insert"), "already_present");
    assert_eq!(outcome("/v1/check-and-insert"), "already_present");
    assert_eq!(server.get("/v1/documents/fp:00000000000000ab").json()["fingerprint"], hex(0xab));
}

#[test]
fn an_id_is_made_from_the_text_as_it_was_sent() {
    let server = Server::start();
    let insert = |text: &str| {
        let body = json!({"text": text, "id": {"from": "text-hash"}});
        server.post("/v1/insert", &body).json()["outcome"].clone()
    };
    let (one, same_fingerprint) = ("A lamp, a wire, and a lift.", "A lamp, a wire, and a lift!");
    assert_eq!((insert(one), insert(one)), (json!("inserted"), json!("already_present")));
    assert_eq!(insert(same_fingerprint), "inserted");
    let expected = format!("xxh3:{:032x}", xxhash_rust::xxh3::xxh3_128(one.as_bytes()));
    assert_eq!(server.get(&format!("/v1/documents/{expected}")).status, 200);
    let raw = server.send(
        "POST /v1/insert?id_from=text-hash",
        &[("content-type", "text/plain")],
        one.as_bytes(),
    );
    assert_eq!(raw.json()["outcome"], "already_present");
}

#[test]
fn a_batch_makes_ids_for_lines_without_one() {
    let server = Server::start();
    let lines = "{\"fingerprint\":1}\n{\"fingerprint\":1}\n{\"fingerprint\":1,\"id\":\"own\"}\n";
    let replies = server.post_lines("/v1/insert/batch?id_from=fingerprint", lines);
    let outcomes: Vec<_> = replies.iter().map(|reply| &reply["outcome"]).collect();
    assert_eq!(outcomes, ["inserted", "already_present", "inserted"]);
    assert_eq!(ids(&server.query(&hex(1))["hits"][0]), json!(["fp:0000000000000001", "own"]));
    let full = [("accept", "application/x-ndjson")];
    let path = "/v1/check-and-insert/batch?id_from=fingerprint";
    assert_eq!(server.post_packed(path, &full, &[1]).lines()[0]["outcome"], "already_present");
    let packed = server.post_packed("/v1/insert/batch?id_from=fingerprint", &[], &[1]);
    assert_eq!(packed.problem_at(), (400, "invalid_value".to_owned(), "id_from".to_owned()));
}

#[test]
fn an_id_that_is_an_integer_is_its_decimal_text() {
    let server = Server::start();
    for (id, text) in
        [(json!(7), "7"), (json!(-1), "-1"), (json!(u64::MAX), "18446744073709551615")]
    {
        let body = json!({"fingerprint": hex(1), "id": id});
        assert_eq!(server.post("/v1/insert", &body).json()["outcome"], "inserted", "{text}");
        assert_eq!(server.get(&format!("/v1/documents/{text}")).json()["id"], text);
    }
}

#[test]
fn an_id_that_cannot_be_made_is_refused() {
    let server = Server::start();
    let refused = (400, "invalid_value".to_owned(), "id".to_owned());
    for id in [
        json!({"from": "text"}),
        json!({"from": 1}),
        json!({}),
        json!({"from": "text-hash"}),
        json!(7.5),
        json!(["a"]),
    ] {
        let body = json!({"fingerprint": hex(1), "id": id});
        assert_eq!(server.post("/v1/insert", &body).problem_at(), refused, "{id}");
    }
    let unknown = json!({"fingerprint": hex(1), "id": {"from": "fingerprint", "of": 1}});
    assert_eq!(server.post("/v1/insert", &unknown).problem().1, "unknown_field");
    let features = json!({"features": {"a": 1}, "id": {"from": "text-hash"}});
    assert_eq!(server.post("/v1/insert", &features).problem_at(), refused);
    let body = json!({"fingerprint": hex(1), "id": "a"});
    let both = server.post("/v1/insert?id_from=fingerprint", &body);
    assert_eq!(both.problem_at(), (400, "repeated_field".to_owned(), "id".to_owned()));
    let plain = [("content-type", "text/plain")];
    let words = text(1, 20);
    let send =
        |query: &str| server.send(&format!("POST /v1/insert?{query}"), &plain, words.as_bytes());
    assert_eq!(send("id=a&id_from=fingerprint").problem_at().2, "id_from");
    assert_eq!(send("id_from=url").problem_at().2, "id_from");
}

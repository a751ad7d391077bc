//! What a write says of the document that its id had: how far it has changed since.

use serde_json::{Value, json};

use crate::support::{Server, hex, text};

const PAGE: u64 = 7;

/// A page as it is at a visit: some of its words change.
fn page(changed: usize) -> String {
    let text = text(PAGE, 100);
    let mut words: Vec<&str> = text.split(' ').collect();
    words[..changed].fill("harbour");
    format!("{} 17 18", words.join(" "))
}

fn write(server: &Server, route: &str, text: &str) -> Value {
    server.post(route, &json!({"id": "page", "text": text})).json()
}

#[test]
fn a_new_id_has_no_previous_document() {
    let server = Server::start();
    for route in ["/v1/insert", "/v1/check-and-insert"] {
        let body = json!({"id": route, "text": page(0), "on_duplicate": Value::Null});
        let body = if route == "/v1/insert" { json!({"id": "a", "text": page(0)}) } else { body };
        assert_eq!(server.post(route, &body).json().get("previous"), None);
    }
    assert_eq!(server.post("/v1/insert", &json!({"text": page(0)})).json().get("previous"), None);
}

#[test]
fn each_write_says_how_far_the_document_has_changed() {
    for route in ["/v1/insert", "/v1/check-and-insert"] {
        let server = Server::start();
        write(&server, route, &page(0));
        let stored_at_ms = server.get("/v1/documents/page").json()["stored_at_ms"].clone();
        let distance = |one: usize, other: usize| {
            let pair = json!({"a": {"text": page(one)}, "b": {"text": page(other)}});
            server.post("/v1/compare", &pair).json()
        };

        let same = write(&server, route, &page(0));
        assert_eq!(same["outcome"], "already_present");
        let expected = json!({"distance": 0, "similarity": 1.0, "numbers": 1.0,
            "stored_at_ms": stored_at_ms});
        assert_eq!(same["previous"], expected, "{route}");

        let changed = write(&server, route, &page(20));
        assert_eq!(changed["outcome"], "replaced");
        let compared = distance(0, 20);
        let previous = &changed["previous"];
        assert_eq!(previous["distance"], compared["distance"]);
        assert_eq!(previous["similarity"], compared["similarity"]);
        assert!(previous["similarity"].as_f64().unwrap() < 0.95);
        assert_eq!((&previous["numbers"], &previous["stored_at_ms"]), (&json!(1.0), &stored_at_ms));

        let back = write(&server, route, &page(0));
        assert_eq!(back["previous"]["similarity"], compared["similarity"]);
        assert!(back["previous"]["stored_at_ms"].as_u64() >= stored_at_ms.as_u64());
    }
}

#[test]
fn a_duplicate_of_another_document_says_so_too() {
    let server = Server::start();
    server.post("/v1/insert", &json!({"id": "other", "text": page(20)}));
    server.post("/v1/insert", &json!({"id": "page", "text": page(0)}));
    let dropped = write(&server, "/v1/check-and-insert", &page(20));
    assert_eq!((&dropped["outcome"], &dropped["stored"]), (&json!("duplicate"), &json!(false)));
    assert!(dropped["previous"]["similarity"].as_f64().unwrap() < 0.95, "{dropped}");
    // Its outdated document is gone.
    let again = write(&server, "/v1/check-and-insert", &page(20));
    assert_eq!((&again["outcome"], again.get("previous")), (&json!("duplicate"), None));
}

#[test]
fn without_sketches_the_distance_tells() {
    let server = Server::start();
    server.insert("page", &hex(0));
    let reply = server.insert("page", &hex(0b111));
    let previous = &reply["previous"];
    assert_eq!((&previous["distance"], &previous["similarity"]), (&json!(3), &Value::Null));
    assert_eq!(previous["numbers"], Value::Null);
}

#[test]
fn what_has_expired_or_was_removed_is_no_previous_document() {
    let server = Server::start();
    write(&server, "/v1/insert", &page(0));
    assert_eq!(server.delete("/v1/documents/page").status, 200);
    assert_eq!(write(&server, "/v1/insert", &page(0)).get("previous"), None);
    let elsewhere = json!({"id": "page", "text": page(0), "namespace": "b"});
    assert_eq!(server.post("/v1/insert", &elsewhere).json().get("previous"), None);
}

/// The second line finds the first one, which is not on disk when the second is decided.
#[test]
fn lines_of_a_batch_say_it_of_each_other() {
    for route in ["/v1/insert/batch", "/v1/check-and-insert/batch"] {
        let server = Server::start();
        let lines: String = [0, 20, 20]
            .map(|changed| format!("{}\n", json!({"id": "page", "text": page(changed)})))
            .concat();
        let replies = server.post_lines(route, &lines);
        assert_eq!(replies[0].get("previous"), None, "{route}");
        let similarity = replies[1]["previous"]["similarity"].as_f64().unwrap();
        assert!(similarity < 0.95, "{similarity}");
        assert_eq!(replies[2]["previous"]["similarity"], 1.0);
    }
}

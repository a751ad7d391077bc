//! Writes: outcomes, identity, retries, and what survives a restart.

use serde_json::{Value, json};

use crate::support::{Server, hex, ids, text};

fn check(server: &Server, id: &str, bits: u64) -> Value {
    server.post("/v1/check-and-insert", &json!({"id": id, "fingerprint": hex(bits)})).json()
}

#[test]
fn a_unique_document_is_inserted_and_its_reply_is_complete() {
    let server = Server::start();
    assert_eq!(
        check(&server, "a", 0),
        json!({"outcome": "inserted", "stored": true, "sequence": 1, "fingerprint": hex(0),
            "short": false, "duplicate": false, "hits": [], "hit_count": 0, "truncated": false})
    );
}

#[test]
fn a_duplicate_is_not_stored_and_its_hits_say_of_what() {
    let server = Server::start();
    check(&server, "a", 0);
    let duplicate = check(&server, "b", 0b111);
    assert_eq!((&duplicate["outcome"], &duplicate["stored"]), (&json!("duplicate"), &json!(false)));
    assert_eq!(ids(&duplicate["hits"][0]), json!(["a"]));
    assert_eq!(duplicate["duplicate"], true);
    assert_eq!(server.get("/v1/documents/b").status, 404);
    assert_eq!(check(&server, "c", 0b1111)["outcome"], "inserted");
}

#[test]
fn on_duplicate_insert_stores_duplicates_too() {
    let server = Server::start();
    check(&server, "a", 0);
    let body = json!({"id": "b", "fingerprint": hex(1), "on_duplicate": "insert"});
    let reply = server.post("/v1/check-and-insert", &body).json();
    assert_eq!((&reply["outcome"], &reply["stored"]), (&json!("duplicate"), &json!(true)));
    assert_eq!(server.get("/v1/documents/b").json()["fingerprint"], hex(1));
    let body = json!({"id": "c", "fingerprint": hex(1), "on_duplicate": "replace"});
    assert_eq!(server.post("/v1/check-and-insert", &body).problem_at().2, "on_duplicate");
}

#[test]
fn a_retry_is_already_present_and_changes_nothing() {
    let server = Server::start();
    let first = check(&server, "a", 5);
    let again = check(&server, "a", 5);
    assert_eq!((&again["outcome"], &again["stored"]), (&json!("already_present"), &json!(true)));
    assert_eq!(again["sequence"], first["sequence"]);
    let plain = server.insert("a", &hex(5));
    assert_eq!((&plain["outcome"], &plain["stored"]), (&json!("already_present"), &json!(true)));
    assert_eq!(server.get("/v1/stats").json()["sequence"], first["sequence"]);
}

#[test]
fn an_id_with_new_unique_content_is_replaced() {
    let server = Server::start();
    check(&server, "a", 0);
    let replaced = check(&server, "a", u64::MAX);
    assert_eq!((&replaced["outcome"], &replaced["stored"]), (&json!("replaced"), &json!(true)));
    assert_eq!(server.query(&hex(0))["hit_count"], 0);
    assert_eq!(server.get("/v1/documents/a").json()["fingerprint"], hex(u64::MAX));
    let near_itself = check(&server, "a", u64::MAX ^ 1);
    assert_eq!(near_itself["outcome"], "replaced");
    assert_eq!(server.insert("a", &hex(7))["outcome"], "replaced");
    assert_eq!(server.get("/v1/stats").json()["documents"], 1);
}

#[test]
fn a_refetched_page_that_became_a_duplicate_loses_its_old_entry() {
    let server = Server::start();
    check(&server, "other", 0);
    check(&server, "page", u64::MAX);
    let duplicate = check(&server, "page", 1);
    assert_eq!((&duplicate["outcome"], &duplicate["stored"]), (&json!("duplicate"), &json!(false)));
    assert_eq!(ids(&duplicate["hits"][0]), json!(["other"]));
    assert_eq!(server.get("/v1/documents/page").status, 404);
    assert_eq!(server.query(&hex(u64::MAX))["hit_count"], 0);
}

#[test]
fn an_insert_stores_a_duplicate_too() {
    let server = Server::start();
    for id in ["a", "b"] {
        let reply = server.insert(id, &hex(3));
        assert_eq!((&reply["outcome"], &reply["stored"]), (&json!("inserted"), &json!(true)));
    }
    assert_eq!(server.query(&hex(3))["hits"][0]["document_count"], 2);
}

#[test]
fn sequences_count_the_accepted_changes() {
    let server = Server::start();
    let sequences: Vec<_> = (0..5)
        .map(|i| server.insert(&i.to_string(), &hex(i))["sequence"].as_u64().unwrap())
        .collect();
    assert_eq!(sequences, [1, 2, 3, 4, 5]);
}

#[test]
fn a_text_with_unlike_content_at_a_near_fingerprint_is_not_a_duplicate() {
    let server = Server::start();
    let original = text(7, 200);
    server.post("/v1/check-and-insert", &json!({"id": "a", "text": original})).json();
    let same = json!({"id": "b", "text": original});
    assert_eq!(server.post("/v1/check-and-insert", &same).json()["outcome"], "duplicate");
    // The same fingerprint would need the same text; a threshold of 1 shows the rule instead.
    let edited = format!("{original} and so it ends");
    let edited = json!({"id": "c", "text": edited, "min_similarity": 1, "counts": true});
    let reply = server.post("/v1/check-and-insert", &edited).json();
    assert_eq!((&reply["outcome"], &reply["duplicate"]), (&json!("inserted"), &json!(false)));
    assert_eq!(reply["hits"][0]["confirmed"], false);
}

#[test]
fn acknowledged_writes_survive_a_restart_and_are_counted_once() {
    let server = Server::start();
    for i in 0..20_u64 {
        server.insert(&format!("{i}"), &hex(i << 8));
    }
    server.delete("/v1/documents/3").json();
    let before = server.get("/v1/stats").json();
    let server = server.restarted();
    let after = server.get("/v1/stats").json();
    for name in ["documents", "sequence"] {
        assert_eq!(after[name], before[name], "{name}");
    }
    assert_eq!(ids(&server.query(&hex(5 << 8))["hits"][0])[0], "5");
    assert_eq!(server.get("/v1/documents/3").status, 404);
}

#[test]
fn an_empty_server_restarts_and_answers_at_once() {
    let server = Server::start().restarted();
    assert_eq!(server.query(&hex(1))["hit_count"], 0);
    assert_eq!(server.insert("a", &hex(1))["sequence"], 1);
}

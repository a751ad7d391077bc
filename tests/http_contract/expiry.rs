//! Time: when documents expire, and how old those may be that count.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::limits::poll;
use crate::support::{Server, hex, ids};

/// Seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "a test of expiry reads the clock")]
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn expires_at(server: &Server, id: &str) -> Value {
    server.get(&format!("/v1/documents/{id}")).json()["expires_at"].clone()
}

#[test]
fn a_document_is_no_hit_once_it_has_expired() {
    let server = Server::with(|config| config.engine.expired_kept_ms = 0);
    server.insert_all([
        json!({"id": "soon", "fingerprint": hex(1), "expires_in": 1}),
        json!({"id": "late", "fingerprint": hex(1), "expires_in": 1_000}),
        json!({"id": "never", "fingerprint": hex(1)}),
    ]);
    assert_eq!(server.query(&hex(1))["hits"][0]["document_count"], 3);
    let found =
        poll(|| Some(server.query(&hex(1))).filter(|found| ids(&found["hits"][0])[0] != "soon"));
    assert_eq!(ids(&found["hits"][0]), json!(["late", "never"]));
    assert_eq!(found["hits"][0]["document_count"], 2);
    assert_eq!(server.get("/v1/documents/soon").status, 404);
    let listed = server.get("/v1/documents").json();
    assert_eq!(listed["documents"].as_array().unwrap().len(), 2);
    poll(|| (server.get("/v1/stats").json()["documents"] == 2).then_some(()));
}

#[test]
fn an_expired_document_makes_no_duplicate() {
    let server = Server::start();
    let check = || {
        let body = json!({"fingerprint": hex(1), "expires_in": 1});
        server.post("/v1/check-and-insert", &body).json()["outcome"].clone()
    };
    assert_eq!((check(), check()), (json!("inserted"), json!("duplicate")));
    poll(|| (check() == "inserted").then_some(()));
}

#[test]
fn expires_in_counts_from_now_and_expires_at_from_1970() {
    let server = Server::start();
    let before = now_s();
    server.insert_all([
        json!({"id": "in", "fingerprint": hex(1), "expires_in": 60}),
        json!({"id": "at", "fingerprint": hex(2), "expires_at": 4_000_000_000_u64}),
        json!({"id": "century", "fingerprint": hex(3), "expires_in": 3_155_760_000_u64}),
        json!({"id": "never", "fingerprint": hex(4)}),
    ]);
    let at = expires_at(&server, "in").as_u64().unwrap();
    assert!((before + 60..=now_s() + 61).contains(&at), "{at}");
    assert_eq!(expires_at(&server, "at"), 4_000_000_000_u64);
    assert_eq!(expires_at(&server, "century"), u32::MAX, "the latest that there is");
    assert_eq!(expires_at(&server, "never"), json!(null));
    let hit = &server.query(&hex(2))["hits"][0];
    let at = |bits: u64| {
        let hits = server.query(&hex(bits))["hits"].clone();
        hits[0]["documents"][0]["expires_at"].clone()
    };
    assert_eq!((hit["distance"].clone(), at(2)), (json!(0), json!(4_000_000_000_u64)));
}

#[test]
fn an_expiry_is_a_query_parameter_as_well() {
    let server = Server::start();
    let plain = [("content-type", "text/plain")];
    let at = 4_000_000_000_u64;
    for (number, route) in (0..).zip(["insert", "check-and-insert"]) {
        let line = format!("POST /v1/{route}?id={route}&expires_at={at}");
        let text = crate::support::text(number, 30);
        server.send(&line, &plain, text.as_bytes()).json();
        assert_eq!(expires_at(&server, route), at, "{route}");
    }
    let lines = "{\"id\":\"default\",\"fingerprint\":1}\n\
                 {\"id\":\"own\",\"fingerprint\":2,\"expires_at\":4100000000}\n\
                 {\"id\":\"other\",\"fingerprint\":3,\"expires_in\":4000000000}\n";
    let replies = server.post_lines(&format!("/v1/insert/batch?expires_at={at}"), lines);
    assert_eq!(replies[2]["error"]["field"], "expires_in");
    assert_eq!(expires_at(&server, "default"), at);
    assert_eq!(expires_at(&server, "own"), 4_100_000_000_u64);
}

#[test]
fn a_line_of_a_batch_may_name_its_expiry_the_other_way() {
    let server = Server::start();
    let lines = "{\"id\":\"a\",\"fingerprint\":1,\"expires_at\":4000000000}";
    let replies = server.post_lines("/v1/insert/batch?expires_in=1000", lines);
    assert_eq!(replies[0]["outcome"], "inserted");
    assert_eq!(expires_at(&server, "a"), 4_000_000_000_u64);
}

#[test]
fn packed_fingerprints_expire_as_well() {
    let server = Server::start();
    server.post_packed("/v1/insert/batch?expires_in=1", &[], &[1]).json();
    let check = server.post_packed("/v1/check-and-insert/batch?expires_in=1", &[], &[u64::MAX]);
    assert_eq!(check.body, [255]);
    server.post_packed("/v1/insert/batch?expires_in=1000", &[], &[0xffff]).json();
    let nearest = || server.post_packed("/v1/query/batch", &[], &[1, u64::MAX, 0xffff]).body;
    assert_eq!(nearest(), [0, 0, 0]);
    poll(|| (nearest() == [255, 255, 0]).then_some(()));
}

#[test]
fn documents_without_an_expiry_get_that_of_the_configuration() {
    let server = Server::with(|config| config.documents.expires_in_s = 1_000);
    server.insert("a", &hex(1));
    let at = expires_at(&server, "a").as_u64().unwrap();
    assert!((now_s() + 900..=now_s() + 1_001).contains(&at), "{at}");
    let body = json!({"id": "b", "fingerprint": hex(2), "expires_at": 4_000_000_000_u64});
    server.post("/v1/insert", &body).json();
    assert_eq!(expires_at(&server, "b"), 4_000_000_000_u64);
}

#[test]
fn an_insert_with_an_expiry_renews_the_stored_document() {
    let server = Server::start();
    let insert = |at: Value| {
        let mut body = json!({"id": "a", "fingerprint": hex(1)});
        if !at.is_null() {
            body["expires_at"] = at;
        }
        server.post("/v1/insert", &body).json()["outcome"].clone()
    };
    assert_eq!(insert(json!(4_000_000_000_u64)), "inserted");
    assert_eq!(insert(json!(4_100_000_000_u64)), "refreshed");
    assert_eq!(expires_at(&server, "a"), 4_100_000_000_u64);
    assert_eq!(insert(json!(null)), "already_present");
    assert_eq!(expires_at(&server, "a"), 4_100_000_000_u64);
}

/// Sends a document to a path, and returns its reply.
type Send<'s> = &'s dyn Fn(&str, Value) -> Value;

#[test]
fn an_expiry_is_taken_off_by_an_insert_that_says_never() {
    let server = Server::start();
    let at = 4_000_000_000_u64;
    let ways: [(&str, &str, Send<'_>); 5] = [
        ("insert", "", &|path, body| server.post(path, &body).json()),
        ("check-and-insert", "", &|path, body| server.post(path, &body).json()),
        ("insert", "?expires_in=never", &|path, mut body| {
            body.as_object_mut().unwrap().remove("expires_in");
            server.post(path, &body).json()
        }),
        ("insert/batch", "", &|path, body| server.post_lines(path, &body.to_string())[0].clone()),
        ("check-and-insert/batch", "?expires_at=4100000000", &|path, body| {
            server.post_lines(path, &body.to_string())[0].clone()
        }),
    ];
    for (number, (route, query, send)) in (0_u64..).zip(ways) {
        let (id, bits) = (number.to_string(), hex(number * 0xffff));
        server.insert_all([json!({"id": id, "fingerprint": bits, "expires_at": at})]);
        assert_eq!(expires_at(&server, &id), at, "{route}{query}");
        let body = json!({"id": id, "fingerprint": bits, "expires_in": "never"});
        let reply = send(&format!("/v1/{route}{query}"), body);
        assert_eq!(reply["outcome"], "refreshed", "{route}{query} {reply}");
        assert_eq!(expires_at(&server, &id), json!(null), "{route}{query}");
        // A retry says nothing of an expiry, and changes nothing.
        server.insert_all([json!({"id": id, "fingerprint": bits, "expires_at": at})]);
        server.insert(&id, &bits);
        assert_eq!(expires_at(&server, &id), at, "{route}{query}");
    }
    assert_eq!(server.get("/v1/stats").json()["documents"], 5);
}

#[test]
fn a_document_that_never_expires_does_not_get_the_expiry_of_the_configuration() {
    let server = Server::with(|config| {
        config.documents.expires_in_s = 1;
        config.engine.expired_kept_ms = 0;
    });
    server.insert_all([
        json!({"id": "kept", "fingerprint": hex(1), "expires_in": "never"}),
        json!({"id": "gone", "fingerprint": hex(2)}),
    ]);
    server.post_packed("/v1/insert/batch?expires_in=never", &[], &[4]).json();
    assert_eq!(expires_at(&server, "kept"), json!(null));
    poll(|| (server.get("/v1/documents/gone").status == 404).then_some(()));
    poll(|| (server.get("/v1/stats").json()["documents"] == 2).then_some(()));
    assert_eq!(server.query(&hex(4))["hits"][0]["document_count"], 1);
}

#[test]
fn an_expiry_out_of_range_is_refused() {
    let server = Server::start();
    let past = now_s() - 1;
    for (field, value) in [
        ("expires_in", json!(0)),
        ("expires_in", json!(3_155_760_001_u64)),
        ("expires_in", json!(1.5)),
        ("expires_in", json!(-1)),
        ("expires_in", json!("60")),
        ("expires_in", json!("Never")),
        ("expires_in", json!("")),
        ("expires_in", json!(false)),
        ("expires_at", json!("never")),
        ("expires_at", json!(0)),
        ("expires_at", json!(past)),
        ("expires_at", json!(4_294_967_296_u64)),
        ("expires_at", json!("2030-01-01")),
    ] {
        for route in ["insert", "check-and-insert"] {
            let body = json!({"fingerprint": hex(1), field: value});
            let refused = server.post(&format!("/v1/{route}"), &body).problem_at();
            assert_eq!(refused, (400, "invalid_value".to_owned(), field.to_owned()), "{body}");
        }
    }
    let both = json!({"fingerprint": hex(1), "expires_in": 1, "expires_at": 4_000_000_000_u64});
    let refused = (400, "invalid_value".to_owned(), "expires_at".to_owned());
    assert_eq!(server.post("/v1/insert", &both).problem_at(), refused);
    let both =
        json!({"fingerprint": hex(1), "expires_in": "never", "expires_at": 4_000_000_000_u64});
    assert_eq!(server.post("/v1/insert", &both).problem_at(), refused);
    let body = json!({"fingerprint": hex(1), "expires_in": 1});
    let split = server.post("/v1/insert?expires_at=4000000000", &body);
    assert_eq!(split.problem_at(), refused);
    let packed = server.post_packed(&format!("/v1/insert/batch?expires_at={past}"), &[], &[1]);
    assert_eq!(packed.problem_at(), refused);
    let query = server.post("/v1/query", &body).problem_at();
    assert_eq!(query, (400, "unknown_field".to_owned(), "expires_in".to_owned()));
    assert_eq!(server.get("/v1/stats").json()["documents"], 0);
}

#[test]
fn only_documents_that_are_young_enough_count() {
    let server = Server::start();
    server.insert("a", &hex(1));
    let is_hit = |max_age: u64| {
        let body = json!({"fingerprint": hex(1), "max_age": max_age});
        server.post("/v1/query", &body).json()["hit_count"] == 1
    };
    assert!(is_hit(1_000) && is_hit(u64::from(u32::MAX)));
    poll(|| (!is_hit(1)).then_some(()));
    let path = format!("/v1/query?fingerprint={}&max_age=1", hex(1));
    assert_eq!(server.get(&path).json()["hit_count"], 0);
    let lines = server.post_lines("/v1/query/batch?max_age=1", "{\"fingerprint\":1}");
    assert_eq!(lines[0]["hit_count"], 0);
    assert_eq!(server.post_packed("/v1/query/batch?max_age=1", &[], &[1]).body, [255]);
    assert_eq!(server.post_packed("/v1/query/batch?max_age=1000", &[], &[1]).body, [0]);
    assert!(is_hit(1_000));
    let check = |max_age: u64| {
        let body = json!({"fingerprint": hex(1), "max_age": max_age});
        server.post("/v1/check-and-insert", &body).json()["outcome"].clone()
    };
    assert_eq!((check(1_000), check(1)), (json!("duplicate"), json!("inserted")));
}

#[test]
fn an_age_out_of_range_is_refused() {
    let server = Server::start();
    let refused = (400, "invalid_value".to_owned(), "max_age".to_owned());
    for age in [json!(0), json!(4_294_967_296_u64), json!(-1), json!("1h"), json!(0.5)] {
        for route in ["query", "check-and-insert"] {
            let body = json!({"fingerprint": hex(1), "max_age": age});
            assert_eq!(server.post(&format!("/v1/{route}"), &body).problem_at(), refused, "{age}");
        }
    }
    assert_eq!(server.post_packed("/v1/query/batch?max_age=0", &[], &[1]).problem_at(), refused);
    let insert = server.post("/v1/insert", &json!({"fingerprint": hex(1), "max_age": 1}));
    assert_eq!(insert.problem().1, "unknown_field");
}

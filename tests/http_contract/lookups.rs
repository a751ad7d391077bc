//! Queries: what is found, in which order, how it is shown, and what a request may say.

use serde_json::{Value, json};

use crate::support::{Server, hex, ids, text};

fn distances(reply: &Value) -> Vec<u64> {
    reply["hits"].as_array().unwrap().iter().map(|hit| hit["distance"].as_u64().unwrap()).collect()
}

#[test]
fn an_empty_index_answers_with_no_hits() {
    let server = Server::start();
    assert_eq!(
        server.query(&hex(7)),
        json!({"fingerprint": hex(7), "short": false, "duplicate": false, "hits": [],
            "hit_count": 0, "truncated": false})
    );
}

#[test]
fn the_radius_is_inclusive_at_both_ends_of_the_range() {
    let server = Server::start();
    server.insert("lowest", &hex(0));
    server.insert("highest", &hex(u64::MAX));
    for (query, found) in [(0, "lowest"), (0b111, "lowest"), (u64::MAX ^ 0b111, "highest")] {
        assert_eq!(ids(&server.query(&hex(query))["hits"][0]), json!([found]));
    }
    for query in [0b1111, u64::MAX ^ 0b1111] {
        assert_eq!(server.query(&hex(query))["hit_count"], 0);
    }
}

#[test]
fn a_hit_is_shown_as_the_contract_says() {
    let server = Server::start();
    server.insert("https://a.example/1", &hex(1));
    let mut reply = server.query(&hex(3));
    let stored_at_ms = reply["hits"][0]["documents"][0]["stored_at_ms"].take();
    assert!(stored_at_ms.as_u64().unwrap() > 1_700_000_000_000);
    assert_eq!(
        reply,
        json!({"fingerprint": hex(3), "short": false, "duplicate": true,
            "hits": [{"fingerprint": hex(1), "distance": 1, "similarity": null, "numbers": null,
                "confirmed": null, "documents": [{"id": "https://a.example/1", "stored_at_ms": null}],
                "document_count": 1}],
            "hit_count": 1, "truncated": false})
    );
}

#[test]
fn several_documents_with_one_fingerprint_are_all_returned_once_each() {
    let server = Server::start();
    let all: Vec<_> = (0..12).map(|i| format!("id-{i:02}")).collect();
    for id in &all[..10] {
        server.insert(id, &hex(5));
    }
    let hit = &server.query(&hex(5))["hits"][0];
    assert_eq!((&ids(hit), &hit["document_count"]), (&json!(all[..10]), &json!(10)));
    for id in &all[10..] {
        server.insert(id, &hex(5));
    }
    // Oldest first, cut at ten; the count is the true one.
    let hit = &server.query(&hex(5))["hits"][0];
    assert_eq!((&ids(hit), &hit["document_count"]), (&json!(all[..10]), &json!(12)));
}

#[test]
fn a_count_that_stops_says_that_there_are_more() {
    let server = Server::start();
    let store = |value: u64, count: usize, query: &str| {
        let path = format!("/v1/insert/batch{query}");
        server.post_packed(&path, &[], &vec![value; count]).json();
    };
    store(1, 1_000, "?expires_in=1000");
    store(1 << 20, 1_001, "?expires_in=1000");
    store(1 << 40, 1_001, "");
    let counted = |value: u64| {
        let body = json!({"fingerprint": hex(value), "distance": 0});
        let hit = server.post("/v1/query", &body).json()["hits"][0].clone();
        let line = server.post_lines("/v1/query/batch", &body.to_string())[0]["hits"][0].clone();
        assert_eq!(hit, line);
        (hit["document_count"].clone(), hit["document_count_is_at_least"].clone())
    };
    let (exact, at_least) = (json!(null), json!(true));
    assert_eq!(counted(1 << 40), (json!(1_001), exact.clone()));
    assert_eq!(counted(1), (json!(1_000), exact.clone()));
    assert_eq!(counted(1 << 20), (json!(1_000), at_least.clone()));
    server.insert("a", &hex(1));
    assert_eq!(counted(1), (json!(1_000), at_least));
}

#[test]
fn hits_are_ordered_by_distance_then_age_then_fingerprint_and_always_the_same() {
    let server = Server::start();
    for (id, bits) in [("a", 0b11), ("b", 0b101), ("c", 0b1), ("d", 0b10), ("e", 0)] {
        server.insert(id, &hex(bits));
    }
    let first = server.query(&hex(0));
    let found: Vec<_> =
        first["hits"].as_array().unwrap().iter().map(|hit| ids(hit)[0].clone()).collect();
    assert_eq!(found, ["e", "c", "d", "a", "b"]);
    for _ in 0..5 {
        assert_eq!(server.query(&hex(0)), first);
    }
}

#[test]
fn a_cut_list_says_so_and_keeps_the_true_count() {
    let server = Server::start();
    for bit in 0..20 {
        server.insert(&format!("{bit}"), &hex(1 << bit));
    }
    let cut = server.post("/v1/query", &json!({"fingerprint": hex(0), "limit": 3})).json();
    assert_eq!(cut["hits"].as_array().unwrap().len(), 3);
    assert_eq!((&cut["hit_count"], &cut["truncated"]), (&json!(20), &json!(true)));
    let default = server.query(&hex(0));
    assert_eq!(default["hits"].as_array().unwrap().len(), 10);
    let all = server.post("/v1/query", &json!({"fingerprint": hex(0), "limit": 1000})).json();
    assert_eq!((all["hits"].as_array().unwrap().len(), &all["truncated"]), (20, &json!(false)));
}

#[test]
fn distance_is_an_option_up_to_the_configured_maximum() {
    let server = Server::start();
    for bits in [0, 1, 0b11, 0b111] {
        server.insert(&format!("{bits}"), &hex(bits));
    }
    for distance in 0..=3_usize {
        let body = json!({"fingerprint": hex(0), "distance": distance});
        let found = distances(&server.post("/v1/query", &body).json());
        assert_eq!(found, (0..=distance as u64).collect::<Vec<_>>());
        let path = format!("/v1/query?fingerprint={}&distance={distance}", hex(0));
        assert_eq!(distances(&server.get(&path).json()), found);
    }
    let wide = Server::with(|config| {
        config.data.distance_max = 6;
        config.query.distance = 5;
    });
    wide.insert("six", &hex(0b11_1111));
    wide.insert("five", &hex(0b1_1111));
    assert_eq!(distances(&wide.query(&hex(0))), [5]);
    let body = json!({"fingerprint": hex(0), "distance": 6});
    assert_eq!(distances(&wide.post("/v1/query", &body).json()), [5, 6]);
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    let server = Server::start();
    for (field, value, code) in [
        ("distance", json!(4), "distance_above_max"),
        ("distance", json!(300), "distance_above_max"),
        ("distance", json!(-1), "invalid_value"),
        ("distance", json!("3"), "invalid_value"),
        ("distance", json!(2.5), "invalid_value"),
        ("limit", json!(0), "invalid_value"),
        ("limit", json!(1001), "invalid_value"),
        ("min_similarity", json!(1.01), "invalid_value"),
        ("min_similarity", json!(-0.1), "invalid_value"),
        ("min_similarity", json!("high"), "invalid_value"),
        ("id", json!(""), "invalid_value"),
        ("id", json!("x".repeat(2049)), "invalid_value"),
        ("id", json!(7.5), "invalid_value"),
    ] {
        let body = json!({"fingerprint": hex(1), field: value});
        let expected = (400, code.to_owned(), field.to_owned());
        assert_eq!(server.post("/v1/query", &body).problem_at(), expected, "{value}");
        assert_eq!(server.post("/v1/check-and-insert", &body).problem_at(), expected, "{value}");
    }
    for (parameter, field) in [
        ("distance=4", "distance"),
        ("distance=-1", "distance"),
        ("limit=0", "limit"),
        ("limit=1e3", "limit"),
        ("min_similarity=nan", "min_similarity"),
        ("min_similarity=2", "min_similarity"),
        ("nonsense=1", "nonsense"),
        ("limit=1&limit=2", "limit"),
        ("id=", "id"),
        ("id=%ff", "id"),
    ] {
        let reply = server.get(&format!("/v1/query?fingerprint={}&{parameter}", hex(1)));
        assert_eq!((reply.status, reply.problem_at().2.as_str()), (400, field), "{parameter}");
    }
    assert_eq!(server.get("/v1/stats").json()["documents"], 0);
}

#[test]
fn the_document_itself_is_left_out_by_its_id() {
    let server = Server::start();
    server.insert("me", &hex(9));
    let body = json!({"fingerprint": hex(9), "id": "me"});
    assert_eq!(server.post("/v1/query", &body).json()["hit_count"], 0);
    server.insert("other", &hex(9));
    let found = server.post("/v1/query", &body).json();
    assert_eq!(ids(&found["hits"][0]), json!(["other"]));
    let path = format!("/v1/query?fingerprint={}&id=me", hex(9));
    assert_eq!(ids(&server.get(&path).json()["hits"][0]), json!(["other"]));
}

#[test]
fn documents_without_an_id_are_counted_and_not_listed() {
    let server = Server::start();
    for _ in 0..2 {
        server.post("/v1/insert", &json!({"fingerprint": hex(4)})).json();
    }
    let hit = &server.query(&hex(4))["hits"][0];
    assert_eq!((&ids(hit), &hit["document_count"]), (&json!([]), &json!(2)));
    assert_eq!(server.get("/v1/stats").json()["documents"], 2);
}

#[test]
fn texts_are_verified_and_the_shown_similarity_agrees_with_the_verdict() {
    let server = Server::start();
    let original = text(1, 300);
    let edited = format!("{original} and one more sentence");
    server.post("/v1/insert", &json!({"id": "original", "text": original})).json();
    for min_similarity in [0.5, 0.83, 0.99, 1.0] {
        let body = json!({"text": edited, "distance": 3, "min_similarity": min_similarity});
        let reply = server.post("/v1/query", &body).json();
        let hit = &reply["hits"][0];
        assert!(hit.is_object(), "the edit moved too many bits: {reply}");
        let similarity = hit["similarity"].as_f64().unwrap();
        assert!(similarity > 0.9 && similarity < 1.0, "{reply}");
        assert_eq!(hit["confirmed"], similarity >= min_similarity, "{reply}");
        assert_eq!(reply["duplicate"], hit["confirmed"]);
    }
    // 0 switches verification off: the distance alone decides.
    let body = json!({"text": edited, "min_similarity": 0});
    let reply = server.post("/v1/query", &body).json();
    assert_eq!((&reply["hits"][0]["confirmed"], &reply["duplicate"]), (&json!(null), &json!(true)));
}

#[test]
fn a_hit_without_a_sketch_is_not_verifiable_and_counts() {
    let server = Server::start();
    let body = json!({"text": text(2, 50)});
    let fingerprint = server.post("/v1/fingerprint", &body).json()["fingerprint"].clone();
    server.insert("bare", fingerprint.as_str().unwrap());
    let reply = server.post("/v1/query", &body).json();
    let hit = &reply["hits"][0];
    assert_eq!((&hit["similarity"], &hit["confirmed"]), (&json!(null), &json!(null)));
    assert_eq!(reply["duplicate"], true);
}

#[test]
fn a_short_text_counts_at_distance_0_alone() {
    let server = Server::start();
    let short =
        server.post("/v1/fingerprint", &json!({"text": "nine words are not enough"})).json();
    assert_eq!(short["short"], true);
    let bits = u64::from_str_radix(short["fingerprint"].as_str().unwrap(), 16).unwrap();
    server.insert("near", &hex(bits ^ 1));
    let body = json!({"text": "nine words are not enough"});
    let near = server.post("/v1/query", &body).json();
    assert_eq!((&near["hit_count"], &near["duplicate"]), (&json!(1), &json!(false)));
    server.insert("same", &hex(bits));
    let same = server.post("/v1/query", &body).json();
    assert_eq!((&ids(&same["hits"][0]), &same["duplicate"]), (&json!(["same"]), &json!(true)));
}

#[test]
fn a_comparison_says_what_a_look_up_would() {
    let server = Server::start();
    let near = json!({"a": {"fingerprint": hex(0)}, "b": {"fingerprint": hex(0b111)}});
    assert_eq!(
        server.post("/v1/compare", &near).json(),
        json!({"a": {"fingerprint": hex(0), "short": false},
            "b": {"fingerprint": hex(0b111), "short": false},
            "distance": 3, "similarity": null, "numbers": null, "confirmed": null, "duplicate": true,
            "found_by": "distance", "kept_apart_by": null})
    );
    let far = json!({"a": {"fingerprint": hex(0)}, "b": {"fingerprint": hex(0b1111)}});
    let far = server.post("/v1/compare", &far).json();
    assert_eq!((&far["duplicate"], &far["found_by"]), (&json!(false), &Value::Null));
    let closer = json!({"a": {"fingerprint": hex(0)}, "b": {"fingerprint": hex(1)}, "distance": 0});
    assert_eq!(server.post("/v1/compare", &closer).json()["duplicate"], false);
    let texts = json!({"a": {"text": text(3, 100)}, "b": {"html": format!("<p>{}", text(3, 100))}});
    let same = server.post("/v1/compare", &texts).json();
    assert_eq!((&same["distance"], &same["similarity"]), (&json!(0), &json!(1.0)));
    assert_eq!(server.post("/v1/compare", &json!({"a": {"text": "x"}})).problem_at().2, "b");
    let empty = json!({"a": {"text": "x"}, "b": {"text": " "}});
    assert_eq!(server.post("/v1/compare", &empty).problem(), (422, "empty_document".to_owned()));
}

//! Likely searches: what is found beyond the distance, and where a search ends.

use serde_json::{Value, json};

use crate::support::{Server, hex, ids, text};

const TEXTS: u64 = 40;
const WORDS: usize = 60;

/// A text with one other word.
fn edited(seed: u64) -> String {
    let text = text(seed, WORDS);
    let mut words: Vec<&str> = text.split(' ').collect();
    words[seed as usize % WORDS] = "harbour";
    words.join(" ")
}

fn with_texts() -> Server {
    let server = Server::start();
    for seed in 0..TEXTS {
        let body = json!({"id": seed.to_string(), "text": text(seed, WORDS)});
        assert_eq!(server.post("/v1/insert", &body).json()["outcome"], "inserted");
    }
    server
}

fn hits(reply: &Value) -> &Vec<Value> {
    reply["hits"].as_array().unwrap()
}

#[test]
fn one_changed_word_of_sixty_is_found() {
    let server = with_texts();
    let (mut likely_found, mut exact_found) = (0, 0);
    for seed in 0..TEXTS {
        let query = |search: &str| {
            let body = json!({"text": edited(seed), "search": search});
            server.post("/v1/query", &body).json()
        };
        let (likely, exact) = (query("likely"), query("exact"));
        assert_eq!(server.post("/v1/query", &json!({"text": edited(seed)})).json(), likely);
        for hit in hits(&likely) {
            assert_eq!(ids(hit), json!([seed.to_string()]));
            let distance = hit["distance"].as_u64().unwrap();
            assert!(distance <= 32 && hit["confirmed"] == true, "{hit}");
            assert!(hit["similarity"].as_f64().unwrap() >= 0.83);
        }
        let within = hits(&likely).iter().filter(|hit| hit["distance"].as_u64().unwrap() <= 3);
        assert_eq!(within.count(), hits(&exact).len());
        assert_eq!(likely["hit_count"], hits(&likely).len());
        likely_found += u64::from(likely["duplicate"] == true);
        exact_found += u64::from(exact["duplicate"] == true);
    }
    assert!(likely_found >= 39 && likely_found > exact_found, "{likely_found}, {exact_found}");
}

#[test]
fn what_a_look_up_finds_beyond_the_distance_a_check_and_insert_finds_too() {
    let server = with_texts();
    for seed in 0..TEXTS {
        let found = server.post("/v1/query", &json!({"text": edited(seed)})).json();
        let checked = server.post("/v1/check-and-insert", &json!({"text": edited(seed)})).json();
        assert_eq!(checked["duplicate"], found["duplicate"]);
        assert_eq!(checked["outcome"] == "duplicate", found["duplicate"] == true);
        assert_eq!(checked["hits"], found["hits"]);
    }
}

/// A text and its edited copy, whichever is stored, in any directory.
#[test]
fn a_pair_is_found_whichever_of_the_two_came_first() {
    let [forth, back] = [false, true].map(|edited_first| {
        let server = Server::start();
        let pair = |seed| {
            let pair = (text(seed, WORDS), edited(seed));
            if edited_first { (pair.1, pair.0) } else { pair }
        };
        for seed in 0..TEXTS {
            server.post("/v1/insert", &json!({"id": seed.to_string(), "text": pair(seed).0}));
        }
        let found = |seed| {
            let reply = server.post("/v1/query", &json!({"text": pair(seed).1})).json();
            hits(&reply).iter().map(|hit| (ids(hit), hit["similarity"].clone())).collect()
        };
        (0..TEXTS).map(found).collect::<Vec<Vec<_>>>()
    });
    assert_eq!(forth, back);
}

#[test]
fn groups_join_what_look_ups_find() {
    let server = with_texts();
    let mut found = 0;
    for seed in 0..TEXTS {
        let body = json!({"text": edited(seed)});
        found += u64::from(server.post("/v1/query", &body).json()["duplicate"] == true);
    }
    for seed in 0..TEXTS {
        let body = json!({"id": format!("{seed}e"), "text": edited(seed)});
        server.post("/v1/insert", &body);
    }
    let groups = |request| crate::groups::found(&server, &request)["groups"].as_u64().unwrap();
    assert_eq!(groups(json!({})), found);
    assert!(groups(json!({"search": "exact"})) < found);
}

#[test]
fn a_directory_without_labels_finds_what_is_within_the_distance() {
    let server = Server::with(|config| config.data.search = "exact".into());
    for seed in 0..TEXTS {
        server.post("/v1/insert", &json!({"id": seed.to_string(), "text": text(seed, WORDS)}));
    }
    assert_eq!(server.get("/v1/stats").json()["memory"]["labels_bytes"], 0);
    for seed in 0..TEXTS {
        let reply = server.post("/v1/query", &json!({"text": edited(seed)})).json();
        assert!(hits(&reply).iter().all(|hit| hit["distance"].as_u64().unwrap() <= 3), "{reply}");
    }
}

/// A comparison knows why.
#[test]
fn a_comparison_says_how_a_pair_is_found() {
    let server = Server::start();
    let mut found = Vec::new();
    for seed in 0..TEXTS {
        let body = json!({"a": {"text": text(seed, WORDS)}, "b": {"text": edited(seed)}});
        let reply = server.post("/v1/compare", &body).json();
        let within = reply["distance"].as_u64().unwrap() <= 3;
        assert_eq!(reply["found_by"] == "distance", within, "{reply}");
        assert_eq!(reply["duplicate"] == true, !reply["found_by"].is_null());
        assert_eq!(reply["kept_apart_by"].is_null(), reply["duplicate"] == true, "{reply}");
        found.push(reply["found_by"].clone());
    }
    assert!(found.iter().filter(|by| *by == "likely").count() > 5, "{found:?}");
}

#[test]
fn a_comparison_says_what_keeps_a_pair_from_counting() {
    let server = Server::start();
    let apart = |mut body: Value, least: f64| {
        body["min_similarity"] = least.into();
        server.post("/v1/compare", &body).json()["kept_apart_by"].clone()
    };
    let (one, other) = (text(1, WORDS), text(2, WORDS));
    let bits = |bits| json!({"fingerprint": hex(bits)});
    assert_eq!(apart(json!({"a": {"text": one}, "b": {"text": other}}), 0.83), "labels");
    assert_eq!(apart(json!({"a": bits(0), "b": bits(0xff)}), 0.83), "distance");
    assert_eq!(apart(json!({"a": {"text": one}, "b": {"text": edited(1)}}), 0.999), "similarity");
    assert_eq!(apart(json!({"a": bits(0), "b": bits(1)}), 0.83), Value::Null);
    let (form, filled) = (format!("{one} 4711 of 1999"), format!("{one} 8086 of 2024"));
    let mut body = json!({"a": {"text": form}, "b": {"text": filled}, "min_numbers": 0.5});
    assert_eq!(apart(body.clone(), 0.83), "numbers");
    body["min_numbers"] = 0.0.into();
    assert_eq!(apart(body, 0.83), Value::Null);
}

#[test]
fn without_a_sketch_or_a_threshold_the_distance_decides_alone() {
    let server = Server::start();
    for seed in 0..TEXTS {
        let analysed = server.post("/v1/fingerprint", &json!({"text": text(seed, WORDS)})).json();
        server.insert(&seed.to_string(), analysed["fingerprint"].as_str().unwrap());
    }
    for seed in 0..TEXTS {
        for body in
            [json!({"text": edited(seed)}), json!({"text": edited(seed), "min_similarity": 0.0})]
        {
            let reply = server.post("/v1/query", &body).json();
            assert!(hits(&reply).iter().all(|hit| hit["distance"].as_u64().unwrap() <= 3));
        }
    }
}

#[test]
fn a_search_without_counts_ends_at_the_first_hit_that_counts() {
    let server = Server::start();
    for bits in [1, 2, 4] {
        server.insert(&bits.to_string(), &hex(bits));
    }
    let ids_of = |reply: &Value| hits(reply).iter().map(ids).collect::<Vec<_>>();
    let body = json!({"fingerprint": hex(1), "counts": false});
    let first = server.post("/v1/query", &body).json();
    assert_eq!(ids_of(&first), [json!(["1"])]);
    assert_eq!((&first["hit_count"], &first["truncated"]), (&json!(3), &json!(true)));
    let checked = server.post("/v1/check-and-insert", &json!({"fingerprint": hex(1)})).json();
    assert_eq!((&checked["outcome"], ids_of(&checked)), (&json!("duplicate"), vec![json!(["1"])]));
    let body = json!({"fingerprint": hex(1), "counts": true});
    let all = server.post("/v1/check-and-insert", &body).json();
    assert_eq!(ids_of(&all), [json!(["1"]), json!(["2"]), json!(["4"])]);
    assert_eq!((&all["hit_count"], &all["truncated"]), (&json!(3), &json!(false)));
}

#[test]
fn a_reply_says_that_more_texts_share_a_label_than_are_compared() {
    const CROWD: usize = 600;
    let server = Server::start();
    let base = text(1, WORDS);
    let with_word = |at: usize, word: &str| {
        let mut words: Vec<&str> = base.split(' ').collect();
        words[at] = word;
        words.join(" ")
    };
    let crowd = (0..CROWD).map(|number| {
        let text = with_word(1 + number % 57, &format!("harbour{number}"));
        json!({"text": text, "namespace": "crowded"}).to_string()
    });
    let stored = server.post_lines("/v1/insert/batch", &crowd.collect::<Vec<_>>().join("\n"));
    assert!(stored.iter().all(|reply| reply["outcome"] == "inserted"));

    let asked = with_word(59, "quay");
    let query = |namespace: &str| {
        server.post("/v1/query", &json!({"text": asked, "namespace": namespace})).json()
    };
    let found = query("crowded");
    assert_eq!((&found["duplicate"], &found["unverified_matches"]), (&json!(true), &json!(1)));
    // The crowd of another namespace takes nobody's place.
    let body = json!({"id": "base", "text": base, "namespace": "quiet"});
    assert_eq!(server.post("/v1/insert", &body).json()["outcome"], "inserted");
    let found = query("quiet");
    assert_eq!((&found["duplicate"], &found["hit_count"]), (&json!(true), &json!(1)));
    assert_eq!(found.get("unverified_matches"), None);
}

#[test]
fn wrong_values_are_refused_by_name() {
    let server = Server::start();
    for (body, field) in [
        (json!({"text": "tea", "search": "all"}), "search"),
        (json!({"text": "tea", "counts": "no"}), "counts"),
    ] {
        let (status, code, at) = server.post("/v1/query", &body).problem_at();
        assert_eq!((status, code.as_str(), at.as_str()), (400, "invalid_value", field));
    }
}

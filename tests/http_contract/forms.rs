//! The numbers of texts: what hits say of them, what `min_numbers` demands, and what a
//! check-and-insert says that drops a text with other numbers.

use serde_json::{Value, json};

use crate::groups::found;
use crate::support::{Server, ids};

/// A form, filled in with an order, a sum and a day.
fn form(order: u32, sum: &str, day: &str) -> String {
    format!(
        "Thank you for your order {order} of {day}. We have received your payment of {sum} euros, and \
         the goods have left our warehouse today. You can follow the parcel on our page, and if you \
         are not content with your purchase you can send it back free of charge within a month. \
         Please keep this message for your records, and write to us if anything is missing from the \
         parcel or was damaged on its way to you. Your team of the shop at the harbour"
    )
}

fn first() -> String {
    form(172_093, "19.99", "2026-03-04")
}

fn other() -> String {
    form(884_516, "240.50", "2025-11-27")
}

/// The first form with another word in it.
fn revised() -> String {
    first().replace("missing", "absent")
}

fn with_first() -> Server {
    let server = Server::start();
    let stored = server.post("/v1/insert", &json!({"id": "first", "text": first()})).json();
    assert_eq!(stored["outcome"], "inserted");
    server
}

fn query(server: &Server, text: &str, min_numbers: Option<f64>) -> Value {
    let body = json!({"text": text, "distance": 3, "min_numbers": min_numbers});
    server.post("/v1/query", &body).json()
}

#[test]
fn a_hit_says_which_share_of_the_numbers_is_the_same() {
    let server = with_first();
    let hit = |text: &str| query(&server, text, None)["hits"][0].clone();
    assert_eq!(hit(&revised())["numbers"], 1.0);
    let differs = hit(&other());
    assert_eq!((&differs["confirmed"], ids(&differs)), (&json!(true), json!(["first"])));
    assert!(differs["numbers"].as_f64().unwrap() < 0.3, "{differs}");
    // Half of them, by the estimate.
    let half = hit(&form(172_093, "19.99", "2025-11-27"))["numbers"].as_f64().unwrap();
    assert!((0.2..0.8).contains(&half), "{half}");
}

#[test]
fn where_a_text_has_no_number_nothing_is_known_and_nothing_demanded() {
    let server = with_first();
    let without = "Thank you for your order. We have received your payment, and ".to_owned()
        + first().split_once("euros, and ").unwrap().1;
    let body = json!({"text": without, "min_numbers": 1.0, "min_similarity": 0.5, "distance": 3});
    let stored = server.post("/v1/insert", &json!({"id": "none", "text": without})).json();
    assert_eq!(stored["outcome"], "inserted");
    let reply = server.post("/v1/query", &body).json();
    assert_eq!((&reply["hits"][0]["numbers"], &reply["duplicate"]), (&Value::Null, &json!(true)));
    let compared = json!({"a": {"text": without}, "b": {"text": first()}, "min_numbers": 1.0,
        "min_similarity": 0.5});
    let compared = server.post("/v1/compare", &compared).json();
    assert_eq!((&compared["numbers"], &compared["confirmed"]), (&Value::Null, &json!(true)));
    // A bare fingerprint has no numbers either.
    let bare = json!({"fingerprint": reply["fingerprint"], "min_numbers": 1.0});
    let reply = server.post("/v1/query", &bare).json();
    assert_eq!((&reply["hits"][0]["numbers"], &reply["duplicate"]), (&Value::Null, &json!(true)));
}

#[test]
fn min_numbers_leaves_out_a_form_that_is_filled_in_differently() {
    let server = with_first();
    let refuted = query(&server, &other(), Some(0.5));
    assert_eq!(refuted["duplicate"], false);
    for hit in refuted["hits"].as_array().unwrap() {
        // The words agree all the same, and the reply says so.
        assert_eq!(hit["confirmed"], false);
        assert!(hit["similarity"].as_f64().unwrap() >= 0.83, "{hit}");
    }
    assert_eq!(query(&server, &revised(), Some(1.0))["duplicate"], true);
    assert_eq!(query(&server, &other(), Some(0.0))["duplicate"], true);
    let pair = json!({"a": {"text": first()}, "b": {"text": other()}, "min_numbers": 0.5});
    let compared = server.post("/v1/compare", &pair).json();
    assert_eq!((&compared["duplicate"], &compared["confirmed"]), (&json!(false), &json!(false)));
    assert!(
        compared["numbers"].as_f64().unwrap() < 0.3 && compared["similarity"].as_f64() > Some(0.83)
    );
}

#[test]
fn a_check_and_insert_says_that_it_drops_a_text_with_other_numbers() {
    let server = with_first();
    let check = |body: &Value| server.post("/v1/check-and-insert", body).json();
    let dropped = check(&json!({"id": "b", "text": other()}));
    assert_eq!((&dropped["outcome"], &dropped["stored"]), (&json!("duplicate"), &json!(false)));
    assert_eq!(dropped["numbers_differ"], true);
    // Not where they agree, and not where it is stored.
    let revision = check(&json!({"id": "c", "text": revised()}));
    assert_eq!((&revision["outcome"], revision.get("numbers_differ")), (&json!("duplicate"), None));
    let stored = check(&json!({"id": "d", "text": other(), "on_duplicate": "insert"}));
    assert_eq!((&stored["stored"], stored.get("numbers_differ")), (&json!(true), None));
    assert_eq!(server.delete("/v1/documents/d").status, 200);
    let demanded = check(&json!({"id": "e", "text": other(), "min_numbers": 0.5}));
    assert_eq!((&demanded["outcome"], demanded.get("numbers_differ")), (&json!("inserted"), None));
}

#[test]
fn lines_of_a_batch_say_the_same_as_single_replies() {
    let server = with_first();
    let lines = [revised(), other()].map(|text| json!({"text": text}).to_string()).join("\n");
    let path = "/v1/check-and-insert/batch";
    let replies = server.post_lines(path, &lines);
    assert_eq!(
        (&replies[0]["hits"][0]["numbers"], replies[0].get("numbers_differ")),
        (&json!(1.0), None)
    );
    assert_eq!(replies[1]["numbers_differ"], true);
    assert!(replies[1]["hits"][0]["numbers"].as_f64().unwrap() < 0.3);
    let replies = server.post_lines(&format!("{path}?min_numbers=0.5"), &lines);
    assert_eq!([&replies[0]["outcome"], &replies[1]["outcome"]], ["duplicate", "inserted"]);
    let replies = server.post_lines("/v1/query/batch?min_numbers=0.5", &lines);
    assert_eq!([&replies[0]["duplicate"], &replies[1]["duplicate"]], [true, true]);
}

#[test]
fn groups_join_forms_unless_numbers_are_demanded() {
    let server = with_first();
    server.post("/v1/insert", &json!({"id": "other", "text": other()}));
    server.post("/v1/insert", &json!({"id": "revised", "text": revised()}));
    let documents = |min_numbers: f64| {
        let body = json!({"distance": 3, "min_numbers": min_numbers});
        found(&server, &body)["documents"].clone()
    };
    assert_eq!((documents(0.0), documents(0.5)), (json!(3), json!(2)));
}

#[test]
fn min_numbers_is_a_share_and_needs_verification() {
    let server = Server::start();
    for wrong in [json!(1.5), json!(-0.1), json!("half")] {
        let body = json!({"text": first(), "min_numbers": wrong});
        let problem = server.post("/v1/query", &body).problem_at();
        assert_eq!(
            (problem.0, problem.1.as_str(), problem.2.as_str()),
            (400, "invalid_value", "min_numbers")
        );
    }
    let body = json!({"text": first(), "min_numbers": 0.5, "min_similarity": 0.0});
    let problem = server.post("/v1/query", &body).problem_at();
    assert_eq!((problem.1.as_str(), problem.2.as_str()), ("invalid_value", "min_numbers"));
    let body = json!({"text": first(), "min_numbers": 0.0, "min_similarity": 0.0});
    assert_eq!(server.post("/v1/query", &body).status, 200);
}

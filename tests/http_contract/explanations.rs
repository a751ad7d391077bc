//! `"explain": true`: why a document has its fingerprint, and why two differ.

use serde_json::{Value, json};

use crate::support::{Server, hex};

const LAMP: &str = "the lamp on the second floor flickers when the lift starts, and nobody has found the loose wire";
const OTHER_LAMP: &str = "the lamp on the third floor flickers when the lift starts, and nobody has found the loose wire";

fn bits_of(hex: &Value) -> u64 {
    u64::from_str_radix(hex.as_str().unwrap(), 16).unwrap()
}

#[test]
fn a_comparison_names_the_bits_that_differ_and_the_features_that_decide_them() {
    let server = Server::start();
    let request = json!({"a": {"text": LAMP}, "b": {"text": OTHER_LAMP}, "explain": true});
    let reply = server.post("/v1/compare", &request).json();
    let [a, b] = ["a", "b"].map(|side| bits_of(&reply[side]["fingerprint"]));
    let why = &reply["explanation"];
    assert_eq!((&why["a"]["tokens"], &why["b"]["tokens"]), (&json!(18), &json!(18)));
    let differing = why["differing_bits"].as_array().unwrap();
    assert_eq!(differing.len() as u64, reply["distance"].as_u64().unwrap());
    assert!(!differing.is_empty());
    for bit in differing {
        let place = bit["bit"].as_u64().unwrap();
        assert_eq!((a ^ b) >> place & 1, 1);
        assert_eq!(a >> place & 1 == 1, bit["sum_a"].as_f64().unwrap() > 0.0);
        assert_eq!(b >> place & 1 == 1, bit["sum_b"].as_f64().unwrap() > 0.0);
        let feature = &bit["features"][0];
        assert_ne!(feature["weight_a"], feature["weight_b"], "{bit}");
    }
    let silent = json!({"a": {"text": LAMP}, "b": {"text": OTHER_LAMP}});
    assert!(server.post("/v1/compare", &silent).json().get("explanation").is_none());
}

#[test]
fn a_comparison_with_a_bare_fingerprint_explains_the_other_side() {
    let server = Server::start();
    let request = json!({"a": {"text": LAMP}, "b": {"fingerprint": hex(7)}, "explain": true});
    let why = server.post("/v1/compare", &request).json()["explanation"].clone();
    assert_eq!((&why["b"], &why["differing_bits"]), (&Value::Null, &Value::Null));
    assert_eq!(why["a"]["sums"].as_array().unwrap().len(), 64);
}

#[test]
fn a_query_explains_itself_and_the_bits_of_its_hits() {
    let server = Server::start();
    let query = server.post("/v1/fingerprint", &json!({"text": LAMP})).json();
    let near = bits_of(&query["fingerprint"]) ^ 0b101;
    server.insert("near", &hex(near));
    let reply = server.post("/v1/query", &json!({"text": LAMP, "explain": true})).json();
    let sums = &reply["explanation"]["sums"];
    let size = |bit: usize| sums[bit].as_f64().unwrap().abs();
    let rank =
        |bit: usize| (0..64).filter(|&other| (size(other), other) < (size(bit), bit)).count();
    let expected = json!([
        {"bit": 0, "sum": sums[0], "rank": rank(0)},
        {"bit": 2, "sum": sums[2], "rank": rank(2)},
    ]);
    assert_eq!(reply["hits"][0]["differing_bits"], expected);
    let by_parameter = server.send(
        "POST /v1/query?explain=true",
        &[("content-type", "text/plain")],
        LAMP.as_bytes(),
    );
    assert_eq!(by_parameter.json(), reply);
    let bare = server.get(&format!("/v1/query?fingerprint={}&explain=true", hex(near ^ 8))).json();
    assert_eq!(bare["hits"][0]["differing_bits"], json!([{"bit": 3, "sum": null, "rank": null}]));
    assert!(bare.get("explanation").is_none());
    let silent = server.post("/v1/query", &json!({"text": LAMP})).json();
    assert!(silent["hits"][0].get("differing_bits").is_none());
}

#[test]
fn the_bits_near_zero_are_those_with_the_smallest_sums() {
    let server = Server::start();
    let reply = server.post("/v1/fingerprint", &json!({"text": LAMP, "explain": true})).json();
    let size = |value: &Value| value.as_f64().unwrap().abs();
    let mut sums: Vec<f64> =
        reply["explanation"]["sums"].as_array().unwrap().iter().map(size).collect();
    sums.sort_by(f64::total_cmp);
    let near_zero: Vec<f64> = reply["explanation"]["near_zero"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bit| size(&bit["sum"]))
        .collect();
    assert_eq!(near_zero, sums[..8]);
}

/// A token as long as the body is named by the explanation of both sides, and of each bit that
/// differs.
#[test]
fn a_huge_feature_is_shown_by_its_beginning() {
    let server = Server::start();
    let huge = "\u{e9}".repeat(1 << 20);
    let request =
        json!({"a": {"features": {&huge: 1}}, "b": {"features": {"b": 1}}, "explain": true});
    let reply = server.post("/v1/compare", &request);
    assert!(reply.body.len() < 64 << 10, "{}", reply.body.len());
    let why = &reply.json()["explanation"];
    let shown = format!("{}\u{2026}", "\u{e9}".repeat(128));
    assert_eq!(why["a"]["heaviest"][0]["feature"], json!(shown));
    assert_eq!(
        why["differing_bits"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|bit| {
                bit["features"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|feature| feature["feature"] == json!(shown))
            })
            .count() as u64,
        reply.json()["distance"].as_u64().unwrap()
    );
}

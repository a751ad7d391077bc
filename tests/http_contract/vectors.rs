//! Services of recipes for vectors: every route, and every wrong vector.

use serde_json::{Value, json};

use crate::support::Server;

fn with_recipe(id: &str) -> Server {
    Server::with(|config| id.clone_into(&mut config.data.recipe))
}

#[test]
fn every_route_that_takes_documents_takes_vectors() {
    let server = with_recipe("hyperplanes-3");
    let vector = json!({"vector": [3, -1, 2]});
    let reply = server.post("/v1/fingerprint", &vector).json();
    let expected = json!({
        "fingerprint": "ac27395d5b001aaa", "recipe": "hyperplanes-3", "features": null, "short": false,
    });
    assert_eq!(reply, expected);
    for (path, id) in [("/v1/insert", "a"), ("/v1/check-and-insert", "b")] {
        let document = json!({"id": id, "vector": [3, -1, 2], "on_duplicate": "insert"});
        let document = if id == "a" { json!({"id": id, "vector": [3, -1, 2]}) } else { document };
        assert_eq!(server.post(path, &document).json()["stored"], true, "{path}");
    }
    assert_eq!(server.post("/v1/query", &vector).json()["duplicate"], true);
    let pair = json!({"a": vector, "b": {"vector": [-3, 1, -2]}});
    let compared = server.post("/v1/compare", &pair).json();
    assert_eq!((&compared["distance"], &compared["similarity"]), (&json!(64), &Value::Null));
    for path in ["/v1/fingerprint", "/v1/query", "/v1/insert", "/v1/check-and-insert"] {
        let lines = format!("{vector}\n{}\n", json!({"vector": [0, 0, 1]}));
        let replies = server.post_lines(&format!("{path}/batch"), &lines);
        assert_eq!(replies[0]["fingerprint"], "ac27395d5b001aaa", "{path}");
        assert_eq!(replies[1]["fingerprint"], "4827b96fd230dafa", "{path}");
    }
}

#[test]
fn an_explanation_of_a_vector_has_its_sums_and_no_features() {
    let server = with_recipe("hyperplanes-3");
    let vector = json!({"vector": [3, -1, 2], "explain": true});
    let explanation = server.post("/v1/fingerprint", &vector).json()["explanation"].clone();
    assert_eq!(explanation["heaviest"], json!([]));
    assert_eq!(explanation["sums"][0], -555.0);
    assert_eq!(explanation["sums"].as_array().unwrap().len(), 64);
}

#[test]
fn a_wrong_vector_is_refused_with_what_is_wrong() {
    let server = with_recipe("hyperplanes-3");
    let numbers = |count: usize| format!("[{}1]", "0,".repeat(count - 1));
    for (vector, status, code) in [
        ("[1,2]".to_owned(), 400, "dimension_mismatch"),
        ("[]".to_owned(), 400, "dimension_mismatch"),
        (numbers(8_192), 400, "dimension_mismatch"),
        (numbers(8_193), 400, "invalid_value"),
        ("[0,0,0]".to_owned(), 422, "empty_document"),
        ("[0,-0.0,1e-60]".to_owned(), 422, "empty_document"),
        ("[1,2,1e39]".to_owned(), 400, "invalid_value"),
        ("[1,2,1e999]".to_owned(), 400, "invalid_value"),
        ("[1,2,null]".to_owned(), 400, "invalid_value"),
        ("[1,2,\"3\"]".to_owned(), 400, "invalid_value"),
        ("[1,2,[3]]".to_owned(), 400, "invalid_value"),
        ("{\"0\":1}".to_owned(), 400, "invalid_value"),
        ("1".to_owned(), 400, "invalid_value"),
    ] {
        let reply = server.post_text("/v1/insert", &format!("{{\"vector\":{vector}}}"));
        let (found, found_code, field) = reply.problem_at();
        assert_eq!(
            (found, found_code.as_str()),
            (status, code),
            "{}",
            &vector[..vector.len().min(40)]
        );
        assert!(field.starts_with("vector"), "{field}");
    }
    // JSON has no NaN.
    let nan = server.post_text("/v1/insert", "{\"vector\":[NaN,1,2]}");
    assert_eq!(nan.problem(), (400, "malformed_json".to_owned()));
    let hash = json!({"vector": [1, 2, 3], "id": {"from": "text-hash"}});
    assert_eq!(server.post("/v1/insert", &hash).problem_at().2, "id");
    let two = json!({"vector": [1, 2, 3], "fingerprint": 1});
    assert_eq!(server.post("/v1/insert", &two).problem(), (400, "document_ambiguous".to_owned()));
    assert_eq!(server.get("/v1/stats").json()["documents"], 0);
}

#[test]
fn recipes_of_vectors_and_of_texts_take_no_documents_of_each_other() {
    let mismatch = (409, "recipe_mismatch".to_owned());
    let server = with_recipe("hyperplanes-3");
    for document in [json!({"text": "tea"}), json!({"html": "tea"}), json!({"features": {"a": 1}})]
    {
        assert_eq!(server.post("/v1/insert", &document).problem(), mismatch, "{document}");
    }
    let text = server.send("POST /v1/insert", &[("content-type", "text/plain")], b"tea");
    assert_eq!(text.problem(), mismatch);
    for recipe in ["np2", "features", "words-1"] {
        let server = with_recipe(recipe);
        let reply = server.post("/v1/insert", &json!({"vector": [1, 2, 3]}));
        assert_eq!(reply.problem_at(), (409, "recipe_mismatch".to_owned(), "vector".to_owned()));
    }
}

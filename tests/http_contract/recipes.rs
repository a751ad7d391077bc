//! Services of other recipes than `np2`, and pages read for their main text.

use serde_json::{Value, json};

use crate::support::Server;

const TEXT: &str =
    "the baker of the village bakes rye bread before the first light on every market day";

fn with_recipe(id: &str) -> Server {
    Server::with(|config| id.clone_into(&mut config.data.recipe))
}

#[test]
fn every_recipe_names_itself_and_makes_fingerprints_of_its_own() {
    let mut seen = Vec::new();
    for id in ["np2", "np2-5", "words-1", "words-2", "words-1-stop", "keywords-9"] {
        let server = with_recipe(id);
        let reply = server.post("/v1/fingerprint", &json!({"text": TEXT})).json();
        assert_eq!(reply["recipe"], id);
        assert_eq!(server.get("/v1/stats").json()["recipe"], id);
        assert!(!seen.contains(&reply["fingerprint"]), "{id}");
        seen.push(reply["fingerprint"].clone());

        let document = json!({"id": "x", "text": TEXT, "recipe": id});
        assert_eq!(server.post("/v1/check-and-insert", &document).json()["outcome"], "inserted");
        let stored = server.get("/v1/documents/x").json();
        assert_eq!((&stored["recipe"], &stored["verifiable"]), (&json!(id), &json!(true)));
        let again = server.post("/v1/query", &json!({"text": TEXT})).json();
        assert_eq!(
            (&again["duplicate"], &again["hits"][0]["confirmed"]),
            (&json!(true), &json!(true))
        );
        let other = if id == "np2" { "np2-5" } else { "np2" };
        let foreign = json!({"fingerprint": reply["fingerprint"], "recipe": other});
        assert_eq!(
            server.post("/v1/query", &foreign).problem(),
            (409, "recipe_mismatch".to_owned())
        );
    }
}

#[test]
fn a_text_without_a_feature_of_the_recipe_is_empty() {
    // Nothing but stop words; no word of two characters.
    for (id, text) in [("words-1-stop", "of the"), ("keywords-9", "\u{8336}")] {
        let reply = with_recipe(id).post("/v1/insert", &json!({"text": text}));
        assert_eq!(reply.problem(), (422, "empty_document".to_owned()), "{id}");
    }
}

#[test]
fn a_service_of_features_takes_no_texts() {
    let server = with_recipe("features");
    for text in [json!({"text": TEXT}), json!({"html": TEXT})] {
        let reply = server.post("/v1/insert", &text);
        assert_eq!(reply.problem(), (409, "recipe_mismatch".to_owned()));
    }
    let features = json!({"features": [["tea", 2.5], ["pot", 1.0]]});
    assert_eq!(server.post("/v1/check-and-insert", &features).json()["outcome"], "inserted");
    assert_eq!(server.post("/v1/query", &features).json()["duplicate"], true);
}

/// Two pages of a site: the same surroundings, another article.
fn page(article: &str) -> String {
    let link = |i| format!("<li><a href=\"/{i}\">Department {i} of the town council</a></li>");
    let links = (0..40).map(link).collect::<Vec<_>>().concat();
    let paragraphs =
        format!("<p>{article}, as it has been for many years, and will be.</p>").repeat(12);
    format!(
        "<html><body><div class=\"menu\"><ul>{links}</ul></div><article><h1>News</h1>{paragraphs}\
         </article><div class=\"sidebar\"><ul>{links}</ul></div></body></html>"
    )
}

fn compared(server: &Server, more: &Value) -> u64 {
    let [a, b] =
        ["the bridge over the river is closed", "a new school opens after the summer"].map(page);
    let mut request = json!({"a": {"html": a}, "b": {"html": b}});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.post("/v1/compare", &request).json()["distance"].as_u64().unwrap()
}

#[test]
fn the_main_text_of_pages_of_one_site_is_far_apart_where_their_visible_text_is_near() {
    let server = Server::start();
    let visible = compared(&server, &json!({"extract": "visible"}));
    let main = compared(&server, &json!({"extract": "main"}));
    assert!(visible <= 18 && main >= visible + 3, "{visible}, {main}");
    // Nothing on these pages marks the content.
    assert_eq!(compared(&server, &json!({})), visible);
    let by_default = Server::with(|config| "main".clone_into(&mut config.query.extract));
    assert_eq!(compared(&by_default, &json!({})), main);
}

#[test]
fn extract_is_an_option_of_bodies_parameters_and_lines() {
    let server = Server::start();
    let page = page("the bridge over the river is closed");
    let print = |reply: Value| reply["fingerprint"].as_str().unwrap().to_owned();
    let main =
        print(server.post("/v1/fingerprint", &json!({"html": page, "extract": "main"})).json());
    assert_ne!(print(server.post("/v1/fingerprint", &json!({"html": page})).json()), main);
    let html = [("content-type", "text/html")];
    for path in ["/v1/fingerprint", "/v1/query", "/v1/insert", "/v1/check-and-insert"] {
        let line = format!("POST {path}?extract=main");
        assert_eq!(print(server.send(&line, &html, page.as_bytes()).json()), main, "{path}");
        let lines = format!("{}\n", json!({"html": page}));
        let batch = format!("{path}/batch?extract=main");
        assert_eq!(print(server.post_lines(&batch, &lines)[0].clone()), main, "{batch}");
    }
    let bad = server.post("/v1/query", &json!({"html": page, "extract": "all"}));
    assert_eq!(bad.problem_at(), (400, "invalid_value".to_owned(), "extract".to_owned()));
    let bad = server.send("POST /v1/query?extract=all", &html, page.as_bytes());
    assert_eq!(bad.problem().0, 400);
}

#[test]
fn deep_and_huge_pages_fall_back_to_their_visible_text_in_time() {
    let server = Server::start();
    for page in
        ["<div>".repeat(100_000) + "words in the depth", "<b><i>".repeat(50_000) + "tea pot"]
    {
        let fingerprint = |extract: &str| {
            server.post("/v1/fingerprint", &json!({"html": page, "extract": extract})).json()
        };
        assert_eq!(fingerprint("main"), fingerprint("visible"));
    }
}

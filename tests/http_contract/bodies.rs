//! The forms a document comes in: JSON of four kinds, and raw bodies for curl.

use serde_json::json;

use crate::support::{Server, ids, text};

fn raw(server: &Server, path: &str, content_type: &str, body: &[u8]) -> crate::support::Reply {
    server.send(&format!("POST {path}"), &[("content-type", content_type)], body)
}

#[test]
fn a_fingerprint_says_its_recipe_and_features() {
    let server = Server::start();
    let reply = server.post("/v1/fingerprint", &json!({"text": text(1, 40)})).json();
    assert_eq!(reply["recipe"], "np2");
    assert_eq!(reply["short"], false);
    assert!(reply["features"].as_u64().unwrap() > 30);
    assert_eq!(reply["fingerprint"].as_str().unwrap().len(), 16);
    assert_eq!(server.get("/v1/stats").json()["documents"], 0);
}

#[test]
fn raw_text_and_raw_html_are_the_document_itself() {
    let server = Server::start();
    let words = text(2, 60);
    let by_json = server.post("/v1/fingerprint", &json!({"text": words})).json();
    assert_eq!(raw(&server, "/v1/fingerprint", "text/plain", words.as_bytes()).json(), by_json);
    let html = format!("<!doctype html><title>x</title><nav>Menu</nav><p>{words}</p>");
    let by_html = server.post("/v1/fingerprint", &json!({"html": html})).json();
    let raw_html = raw(&server, "/v1/fingerprint", "text/html; charset=UTF-8", html.as_bytes());
    assert_eq!(raw_html.json(), by_html);
}

#[test]
fn the_media_type_decides_the_syntax_of_a_page() {
    let server = Server::start();
    let words = text(2, 60);
    let page = format!("<html><title/><script src='x'/><p>{words}</p><script> </script></html>");
    let by_text = server.post("/v1/fingerprint", &json!({"text": words})).json();
    let of = |kind: &str| raw(&server, "/v1/fingerprint", kind, page.as_bytes());
    assert_eq!(of("application/xhtml+xml; charset=utf-8").json(), by_text);
    assert_eq!(of("text/html").problem().0, 422, "the first script extends to the end");
}

#[test]
fn raw_bodies_take_their_options_from_the_query_string() {
    let server = Server::start();
    let words = text(3, 60);
    let path = "/v1/insert?id=https%3A%2F%2Fa.example%2F1%3Fx%3D1%26y";
    assert_eq!(raw(&server, path, "text/plain", words.as_bytes()).json()["stored"], true);
    let found = raw(&server, "/v1/query?distance=0&limit=1", "text/plain", words.as_bytes()).json();
    assert_eq!(ids(&found["hits"][0]), json!(["https://a.example/1?x=1&y"]));
    let path = "/v1/check-and-insert?id=2&min_similarity=0.5&on_duplicate=insert";
    let written = raw(&server, path, "text/plain", words.as_bytes()).json();
    assert_eq!((&written["outcome"], &written["stored"]), (&json!("duplicate"), &json!(true)));
}

#[test]
fn other_charsets_are_decoded() {
    let server = Server::start();
    let words = "caf\u{e9} cr\u{e8}me br\u{fb}l\u{e9}e d\u{e9}j\u{e0} vu \u{e0} la carte na\u{ef}ve r\u{e9}sum\u{e9} no\u{eb}l";
    let expected = server.post("/v1/fingerprint", &json!({"text": words})).json();
    let latin: Vec<u8> = words.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    for label in ["iso-8859-1", "\"windows-1252\"", "LATIN1"] {
        let content_type = format!("text/plain;charset={label}");
        assert_eq!(raw(&server, "/v1/fingerprint", &content_type, &latin).json(), expected);
    }
    let page = [b"<meta charset=windows-1252><p>".as_slice(), &latin].concat();
    assert_eq!(raw(&server, "/v1/fingerprint", "text/html", &page).json(), expected);
    for unknown in ["text/html; charset=klingon", "text/html; charset=none", "text/html; charset="]
    {
        assert_eq!(raw(&server, "/v1/fingerprint", unknown, &page).json(), expected, "{unknown}");
    }
    for twice in ["text/html, text/html; charset='windows-1252'", "text/html;charset=x,text/html"] {
        assert_eq!(raw(&server, "/v1/fingerprint", twice, &page).json(), expected, "{twice}");
    }
    let json = raw(&server, "/v1/fingerprint", "application/json; charset=latin1", b"{}");
    assert_eq!(json.problem(), (415, "unsupported_charset".to_owned()));
}

#[test]
fn features_come_as_an_object_or_as_pairs_and_weights_matter() {
    let server = Server::start();
    let object = json!({"features": {"lamp": 3, "lift": 1.5, "wire": -2}});
    let pairs = json!({"features": [["lamp", 3], ["lift", 1.5], ["wire", -2]]});
    let one = server.post("/v1/fingerprint", &object).json();
    assert_eq!(server.post("/v1/fingerprint", &pairs).json(), one);
    assert_eq!((&one["features"], &one["short"]), (&json!(3), &json!(false)));
    let heavier = json!({"features": {"lamp": 3, "lift": 15, "wire": -2}});
    assert_ne!(server.post("/v1/fingerprint", &heavier).json()["fingerprint"], one["fingerprint"]);
}

#[test]
fn features_without_weight_are_refused() {
    let server = Server::start();
    for features in [json!({}), json!([]), json!({"a": 0}), json!([["a", 1], ["a", -1]])] {
        let reply = server.post("/v1/insert", &json!({"features": features}));
        assert_eq!(reply.problem().0, 422, "{features}");
    }
    for text in [
        r#"{"features":{"a":1e999}}"#,
        r#"{"features":{"a":"1"}}"#,
        r#"{"features":{"a":null}}"#,
        r#"{"features":[["a"]]}"#,
        r#"{"features":["a",1]}"#,
        r#"{"features":[["a",1,2]]}"#,
        r#"{"features":"a"}"#,
    ] {
        let reply = server.post_text("/v1/insert", text);
        assert_eq!(reply.problem_at().2, "features", "{text}");
        assert_eq!(reply.status, 400, "{text}");
    }
}

#[test]
fn repeated_words_make_a_difference() {
    let server = Server::start();
    let print = |text: &str| {
        let reply = server.post("/v1/fingerprint", &json!({"text": text})).json();
        reply["fingerprint"].as_str().unwrap().to_owned()
    };
    let once = format!("lantern {}", text(5, 8));
    let often = format!("{} {}", "lantern ".repeat(40), text(5, 8));
    assert_ne!(print(&once), print(&often));
}

#[test]
fn a_document_without_a_feature_is_refused_and_changes_nothing() {
    let server = Server::start();
    for body in
        [json!({"text": ""}), json!({"text": " ... !?"}), json!({"html": "<script>x</script>"})]
    {
        for path in ["/v1/fingerprint", "/v1/query", "/v1/insert", "/v1/check-and-insert"] {
            let reply = server.post(path, &body);
            assert_eq!(reply.problem(), (422, "empty_document".to_owned()), "{path} {body}");
        }
    }
    let reply = raw(&server, "/v1/insert", "text/plain", b"");
    assert_eq!(reply.problem(), (422, "empty_document".to_owned()));
    assert_eq!(server.get("/v1/stats").json()["documents"], 0);
}

#[test]
fn a_document_has_exactly_one_form() {
    let server = Server::start();
    for path in ["/v1/fingerprint", "/v1/query", "/v1/insert", "/v1/check-and-insert"] {
        let reply = server.post(path, &json!({"id": "x"}));
        assert_eq!(reply.problem(), (400, "document_missing".to_owned()));
        let reply = server.post(path, &json!({"text": "x", "html": "x"}));
        let expected = (400, "document_ambiguous".to_owned(), "html".to_owned());
        assert_eq!(reply.problem_at(), expected);
    }
}

#[test]
fn an_explanation_gives_the_64_sums_and_the_heaviest_features() {
    let server = Server::start();
    let body = json!({"text": "tea tea tea and bread", "explain": true});
    let reply = server.post("/v1/fingerprint", &body).json();
    let sums = reply["explanation"]["sums"].as_array().unwrap();
    assert_eq!(sums.len(), 64);
    let bits = (0..64).filter(|&i: &usize| sums[i].as_f64().unwrap() > 0.0);
    let bits: u64 = bits.map(|i| 1 << i).sum();
    assert_eq!(reply["fingerprint"], crate::support::hex(bits));
    let heaviest = &reply["explanation"]["heaviest"][0];
    assert_eq!(heaviest["hash"].as_str().unwrap().len(), 16);
    assert!(heaviest["weight"].as_f64().unwrap() >= 2.0, "{heaviest}");
    let by_parameter =
        raw(&server, "/v1/fingerprint?explain=true", "text/plain", b"tea tea tea and bread");
    assert_eq!(by_parameter.json(), reply);
}

#[test]
fn a_fingerprint_of_another_recipe_is_refused() {
    let server = Server::start();
    let own = json!({"fingerprint": "00000000000000aa", "recipe": "np2"});
    assert_eq!(server.post("/v1/insert", &own).status, 200);
    let foreign = json!({"fingerprint": "00000000000000aa", "recipe": "np0"});
    for path in ["/v1/query", "/v1/insert", "/v1/check-and-insert"] {
        let expected = (409, "recipe_mismatch".to_owned(), "recipe".to_owned());
        assert_eq!(server.post(path, &foreign).problem_at(), expected);
    }
    let reply = server.get("/v1/query?fingerprint=00000000000000aa&recipe=np0");
    assert_eq!(reply.problem(), (409, "recipe_mismatch".to_owned()));
}

#[test]
fn a_byte_order_mark_is_no_part_of_json() {
    let server = Server::start();
    let expected = server.post("/v1/fingerprint", &json!({"text": "some words"})).json();
    let marked = b"\xef\xbb\xbf{\"text\": \"some words\"}\n".as_slice();
    assert_eq!(raw(&server, "/v1/fingerprint", "application/json", marked).json(), expected);
    // Files that were joined have a mark at the beginning of each.
    let joined = [marked, b"\xef\xbb\xbf\n", marked].concat();
    for kind in ["application/x-ndjson", "application/ndjson", "application/jsonl"] {
        let reply = raw(&server, "/v1/fingerprint/batch", kind, &joined);
        assert_eq!(reply.status, 200, "{kind}");
        assert_eq!(reply.lines(), [expected.clone(), expected.clone()], "{kind}");
    }
}

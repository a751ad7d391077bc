//! The parts of documents in JSON objects; the readers test the other formats.

use nearprint_fingerprint::Fingerprint;

use super::*;
use crate::offer::Content;

fn parse_with(line: &str, mapping: &Mapping) -> Result<Parsed, String> {
    assemble(&JsonFields::parse(line)?, mapping)
}

fn parse(line: &[u8]) -> Result<Parsed, String> {
    parse_with(str::from_utf8(line).unwrap(), &Mapping::default())
}

fn body(line: &str) -> Result<Content<'static>, String> {
    parse(line.as_bytes()).map(|parsed| parsed.content)
}

#[test]
fn each_form_of_a_document_is_read() {
    let (id, text) = (Some("a".to_owned()), Content::Text("t".into()));
    assert_eq!(
        parse(br#"{"id": "a", "text": "t"}"#),
        Ok(Parsed { id, content: text, passed: Vec::new() })
    );
    assert_eq!(body(r#"{"html": "<p>t"}"#), Ok(Content::Html("<p>t".into())));
    let pairs = Content::Features(vec![("b".into(), 2.0), ("a".into(), -0.5)]);
    assert_eq!(body(r#"{"features": {"b": 2, "a": -0.5}}"#), Ok(pairs.clone()));
    assert_eq!(body(r#"{"features": [["b", 2], ["a", -0.5]]}"#), Ok(pairs));
    assert_eq!(body(r#"{"vector": [1, -0.1]}"#), Ok(Content::Vector(vec![1.0, -0.1].into())));
}

#[test]
fn a_vector_has_a_bounded_number_of_finite_components() {
    let line = |count: usize| format!("{{\"vector\": [{}0]}}", "0,".repeat(count - 1));
    assert!(body(&line(8_192)).is_ok());
    assert!(body(&line(8_193)).unwrap_err().contains("at most 8192 dimensions"));
    let beyond = body(r#"{"vector": [0, 3.5e38]}"#).unwrap_err();
    assert_eq!(beyond, "component 1 of the vector is beyond single precision");
    assert!(body(r#"{"vector": [1e999]}"#).is_err());
    assert!(body(r#"{"vector": ["1"]}"#).is_err());
}

#[test]
fn ids_and_texts_are_found_under_the_names_that_other_programs_write() {
    for (line, id, text) in [
        (r#"{"url": "u", "content": "c"}"#, Some("u"), "c"),
        (r#"{"uri": "u", "url": null, "body": "c"}"#, Some("u"), "c"),
        (r#"{"WARC-Target-URI": "u", "raw_content": "c"}"#, Some("u"), "c"),
        (r#"{"ID": "i", "url": "u", "Text": "t", "content": "c", "lang": "en"}"#, Some("i"), "t"),
        (r#"{"id": -17, "text": "t"}"#, Some("-17"), "t"),
        (r#"{"text": "t", "html": null, "key": null}"#, None, "t"),
        (r#"{"id": "a", "_id": "b", "text": "a \"t\" \u00e9"}"#, Some("a"), "a \"t\" \u{e9}"),
    ] {
        let parsed = parse(line.as_bytes()).unwrap();
        assert_eq!(parsed.id.as_deref(), id, "{line}");
        assert_eq!(parsed.content, Content::Text(text.into()), "{line}");
        assert_eq!(parsed.passed, [], "{line}");
    }
}

#[test]
fn a_record_that_would_lose_its_id_or_has_no_content_is_refused() {
    for (line, why) in [
        (r#"{"_id": "a", "text": "t"}"#, "has no `id`, and `_id` may be one: pass --id _id"),
        (r#"{"id": "a", "lang": "en"}"#, "has no text: none of text, html"),
        (r#"{"id": "a", "lang": "en"}"#, "Its fields: id, lang"),
        (r#"{"text": "t", "html": "h"}"#, "has both `text` and `html`: pass --text text"),
        (r#"{"text": 7}"#, "text is the number 7; it takes a string"),
        (r#"{"id": "a", "id": "b", "text": "t"}"#, "has several fields `id`"),
        (r#"{"id": 1.5, "text": "t"}"#, "`id` is 1.5, and an id is a string or an integer"),
        (r#"{"id": ["a"], "text": "t"}"#, "`id` is [\"a\"], and an id"),
        (r#"{"text": "t"} {}"#, "trailing characters"),
        (r#"{"text": "t"#, "EOF while parsing"),
        (r#"["text"]"#, "a JSON object"),
    ] {
        let refused = body(line).unwrap_err();
        assert!(refused.contains(why), "{line}: {refused}");
    }
}

#[test]
fn the_command_line_names_fields_by_paths() {
    let mapping = Mapping {
        id: Some("meta.url".to_owned()),
        body: Some((BodyKind::Html, "page".to_owned())),
        namespace: Some("meta.lang".to_owned()),
        metadata: vec!["n".to_owned(), "meta.lang".to_owned(), "none".to_owned(), "a.b".to_owned()],
    };
    let line = r#"{"id": "i", "meta": {"url": "u", "lang": 7}, "text": "t", "page": "p", "n": [1.0],
        "a.b": "dotted", "a": {"b": "nested"}, "metadata": {"x": 1}}"#;
    let parsed = parse_with(line, &mapping).unwrap();
    assert_eq!(parsed.id.as_deref(), Some("u"));
    assert_eq!(parsed.content, Content::Html("p".into()));
    let metadata = r#"{"n":[1.0],"meta.lang":7,"a.b":"dotted"}"#;
    assert_eq!(parsed.passed, [("namespace", r#""7""#.into()), ("metadata", metadata.into())]);

    let missing = parse_with(r#"{"page": "p", "meta": {"lang": "x"}}"#, &mapping).unwrap_err();
    assert_eq!(missing, "has no field `meta.url`, or it is empty");
    let missing = parse_with(r#"{"text": "t"}"#, &mapping).unwrap_err();
    assert_eq!(missing, "has no field `page`, or it is empty");
}

#[test]
fn the_explanation_names_what_is_taken_and_what_is_left() {
    let explained = |line, mapping: &Mapping| explain(&JsonFields::parse(line).unwrap(), mapping);
    let line = r#"{"URL": "u", "content": "c", "lang": "en", "meta": {"a": 1}, "namespace": "n"}"#;
    assert_eq!(
        explained(line, &Mapping::default()).unwrap(),
        "id from `URL`, text from `content`; not imported: lang, meta"
    );
    let mapping = Mapping { metadata: vec!["meta.a".to_owned()], ..Mapping::default() };
    assert_eq!(
        explained(line, &mapping).unwrap(),
        "id from `URL`, text from `content`, metadata from `meta.a`; not imported: lang"
    );
    assert_eq!(
        explained(r#"{"text": "t"}"#, &mapping).unwrap(),
        "no id, text from `text`, metadata from `meta.a`"
    );
    assert_eq!(explained("{}", &mapping), None);
}

#[test]
fn an_id_may_say_how_to_make_one() {
    let made = parse(br#"{"id": {"from": "text-hash"}, "text": "t"}"#).unwrap();
    assert_eq!(made.id, None);
    assert_eq!(made.passed, [("id", r#"{"from": "text-hash"}"#.into())]);
}

#[test]
fn what_the_service_keeps_with_a_document_is_passed_on_as_it_is() {
    let line =
        br#"{"text": "t", "metadata": {"n": 1.50, "n": 2}, "namespace": 7, "expires_in": 60}"#;
    let passed = parse(line).unwrap().passed;
    let expected =
        [("namespace", "7"), ("metadata", r#"{"n": 1.50, "n": 2}"#), ("expires_in", "60")];
    assert_eq!(passed, expected.map(|(name, json)| (name, json.into())));
    let text = br#"{"text": "t", "metadata": "{\"n\": 1}"}"#;
    assert_eq!(parse(text).unwrap().passed, [("metadata", r#"{"n": 1}"#.into())]);
}

#[test]
fn a_fingerprint_is_hex_or_an_integer_of_either_sign() {
    for (written, bits) in [
        (r#""00000000000000ab""#, 0xab),
        ("18446744073709551615", u64::MAX),
        ("9007199254740993", (1 << 53) + 1),
        ("-1", u64::MAX),
    ] {
        assert_eq!(
            body(&format!(r#"{{"fingerprint": {written}}}"#)),
            Ok(Content::Fingerprint(Fingerprint::new(bits))),
            "{written}"
        );
    }
    assert!(body(r#"{"fingerprint": 1.5}"#).is_err());
}

#[test]
fn none_or_two_forms_at_once_are_refused() {
    assert!(body(r#"{"id": "a"}"#).is_err());
    assert!(body(r#"{"text": "t", "html": "h"}"#).is_err());
    assert!(body("not json").is_err());
}

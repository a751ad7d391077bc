//! The parts of documents in JSON objects; the readers test the other formats.

use nearprint_fingerprint::Fingerprint;
use nearprint_wire::offer::Content;

use super::*;

fn parse_with(line: &str, mapping: &Mapping) -> Result<Parsed, String> {
    assemble(&JsonFields::parse(line)?, mapping, Rules::default())
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
    assert_eq!(missing, "has no field `page`. Its fields: text");
}

#[test]
fn the_explanation_names_what_is_taken_and_what_is_left() {
    let explained = |line, mapping: &Mapping| {
        explain(&JsonFields::parse(line).unwrap(), mapping, Rules::default())
    };
    let line = r#"{"URL": "u", "content": "c", "lang": "en", "meta": {"a": 1}, "namespace": "n"}"#;
    assert_eq!(
        explained(line, &Mapping::default()).unwrap(),
        "id from `URL`, text from `content`; not used: lang, meta"
    );
    let mapping = Mapping { metadata: vec!["meta.a".to_owned()], ..Mapping::default() };
    assert_eq!(
        explained(line, &mapping).unwrap(),
        "id from `URL`, text from `content`, metadata from `meta.a`; not used: lang"
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
    let never = parse(br#"{"text": "t", "expires_in": "never"}"#).unwrap();
    assert_eq!(never.passed, [("expires_in", r#""never""#.into())]);
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

#[test]
fn the_advice_about_an_id_works() {
    let line = r#"{"_id": {"$oid": "65f"}, "text": "t"}"#;
    let advised = |line: &str, mapping: &Mapping| {
        let refused = parse_with(line, mapping).unwrap_err();
        let advice = refused.split("--id ").nth(1).unwrap().split(',').next().unwrap();
        let path = advice.trim_matches('\'').to_owned();
        (advice.to_owned(), parse_with(line, &Mapping { id: Some(path), ..Mapping::default() }))
    };
    let named = Mapping { id: Some("_id".to_owned()), ..Mapping::default() };
    for mapping in [&Mapping::default(), &named] {
        let (advice, parsed) = advised(line, mapping);
        assert_eq!(advice, "'_id.$oid'");
        assert_eq!(parsed.unwrap().id.as_deref(), Some("65f"));
    }
    let (advice, parsed) = advised(r#"{"key": {"n": 7}, "text": "t"}"#, &Mapping::default());
    assert_eq!((&*advice, parsed.unwrap().id.as_deref()), ("key.n", Some("7")));
}

#[test]
fn an_integer_with_a_fraction_of_zero_is_an_id() {
    let id = |json: &str| {
        parse(format!("{{\"id\": {json}, \"text\": \"t\"}}").as_bytes()).map(|parsed| parsed.id)
    };
    for (json, expected) in [
        ("1.0", "1"),
        ("-4.00", "-4"),
        ("1e3", "1000"),
        ("9007199254740992.0", "9007199254740992"),
        ("18446744073709551616", "18446744073709551616"),
    ] {
        assert_eq!(id(json), Ok(Some(expected.to_owned())), "{json}");
    }
    for json in ["1.5", "1e400", "9007199254740994.0", "true"] {
        assert!(id(json).is_err(), "{json}");
    }
}

#[test]
fn numbers_of_python_are_errors_only_where_they_are_used() {
    let line = r#"{"score": NaN, "id": "a", "x": [Infinity, -Infinity, "NaN \" {"], "text": "t"}"#;
    let parsed = parse(line.as_bytes()).unwrap();
    assert_eq!((parsed.id.as_deref(), parsed.content), (Some("a"), Content::Text("t".into())));
    for field in ["score", "x"] {
        let mapping = Mapping { metadata: vec![field.to_owned()], ..Mapping::default() };
        let refused = parse_with(line, &mapping).unwrap_err();
        assert_eq!(refused, format!("`{field}` holds NaN or Infinity, which is not JSON"));
    }
    for broken in [r#"{"a": NaN, "text": "t""#, r#"{"a": Nan, "text": "t"}"#, "{NaN: 1}"] {
        assert!(parse(broken.as_bytes()).is_err(), "{broken}");
    }
}

#[test]
fn half_a_surrogate_pair_is_a_replacement_character_in_texts_and_no_id() {
    assert_eq!(body(r#"{"text": "a \ud83d b"}"#), Ok(Content::Text("a \u{fffd} b".into())));
    assert_eq!(body(r#"{"text": "t", "title": "\udc4d"}"#), Ok(Content::Text("t".into())));
    let refused = body(r#"{"id": "\ud83d", "text": "t"}"#).unwrap_err();
    assert!(refused.contains("`id` has half of a surrogate pair"), "{refused}");
}

#[test]
fn a_lenient_reader_needs_neither_an_id_nor_a_text() {
    let rules = Rules { is_lenient: true, ..Rules::default() };
    let lenient = |line: &str| {
        let mapping = Mapping {
            namespace: Some("ns".to_owned()),
            metadata: vec!["n".to_owned()],
            ..Mapping::default()
        };
        assemble(&JsonFields::parse(line).unwrap(), &mapping, rules)
    };
    for line in [
        r#"{"_id": {"$oid": "a"}, "text": "t"}"#,
        r#"{"id": 1.5, "text": "t", "ns": null}"#,
        r#"{"id": ["a"], "text": "t", "n": NaN}"#,
        r#"{"id": "\ud83d", "text": "t"}"#,
    ] {
        let parsed = lenient(line).unwrap();
        assert_eq!((parsed.id, parsed.content), (None, Content::Text("t".into())), "{line}");
        assert_eq!(parsed.passed, [("metadata", "{}".into())], "{line}");
    }
    assert_eq!(lenient(r#"{"text": null}"#).unwrap().content, Content::Text("".into()));
    // A missing field is a missing text, and a wrong one is an error.
    assert!(lenient(r#"{"id": "a"}"#).is_err() && lenient(r#"{"text": 7}"#).is_err());
    assert!(body(r#"{"text": null}"#).is_err());
}

#[test]
fn fingerprints_in_texts_follow_one_rule() {
    use FingerprintFormat::{Decimal, Hex};

    let read = |fingerprints, text: &str| {
        let line = format!("{{\"fingerprint\": \"{text}\"}}");
        let rules = Rules { fingerprints, ..Rules::default() };
        let fields = JsonFields::parse(&line).unwrap();
        assemble(&fields, &Mapping::default(), rules).map(|parsed| parsed.content)
    };
    let is = |bits| Ok(Content::Fingerprint(Fingerprint::new(bits)));
    assert_eq!(read(Hex, "1234567890123456"), is(0x1234_5678_9012_3456));
    assert_eq!(read(Decimal, "1234567890123456"), is(1_234_567_890_123_456));
    assert_eq!(read(Decimal, "-1"), is(u64::MAX));
    for (format, text) in [(Hex, "12345678901234567"), (Decimal, "00000000000000ff")] {
        let refused = read(format, text).unwrap_err();
        assert!(refused.contains("--fingerprint-format"), "{refused}");
    }
}

#[test]
fn a_cell_with_a_number_beyond_a_double_is_json() {
    let json = values::json(RecordValue::Cell("{\"big\":1e400,\"z\":-0}".into()), false);
    assert_eq!(json, "{\"big\":1e400,\"z\":-0}");
}

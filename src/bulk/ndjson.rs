//! NDJSON: one document a line, with the fields of the HTTP API.
//!
//! Fields that the reader does not know are refused: if `url` were ignored, the document would be
//! stored without an id.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::entry::{Body, Parsed};
use crate::fingerprint::Fingerprint;
use crate::recipe::DIMENSIONS_MAX;

/// The fields of which a line has exactly one.
const BODIES: [&str; 5] = ["text", "html", "features", "vector", "fingerprint"];
/// The fields that a line may have in addition.
const OTHERS: [&str; 5] = ["id", "namespace", "metadata", "expires_in", "expires_at"];
/// Names that other programs give to the id of a document.
const OTHER_IDS: [&str; 14] = [
    "url",
    "uri",
    "link",
    "href",
    "key",
    "_id",
    "uid",
    "uuid",
    "guid",
    "doc_id",
    "docid",
    "docno",
    "document_id",
    "page_id",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    id: Option<Value>,
    text: Option<String>,
    html: Option<String>,
    features: Option<Value>,
    vector: Option<Vec<f64>>,
    fingerprint: Option<Value>,
    namespace: Option<Box<RawValue>>,
    metadata: Option<Box<RawValue>>,
    expires_in: Option<Box<RawValue>>,
    expires_at: Option<Box<RawValue>>,
}

/// Parses the object of a line.
pub(super) fn parse(line: &[u8]) -> Result<Parsed, String> {
    let fields: Fields = serde_json::from_slice(line)
        .map_err(|error| unknown_field(line).unwrap_or_else(|| error.to_string()))?;
    let passed = [
        ("namespace", fields.namespace),
        ("metadata", fields.metadata),
        ("expires_in", fields.expires_in),
        ("expires_at", fields.expires_at),
    ];
    let as_it_is = |(name, json): (_, Option<Box<RawValue>>)| Some((name, json?.into()));
    let mut passed: Vec<_> = passed.into_iter().filter_map(as_it_is).collect();
    let id = match fields.id {
        None => None,
        Some(Value::String(id)) => Some(id),
        // How the service is to make an id.
        Some(from @ Value::Object(_)) => {
            passed.push(("id", from.to_string().into()));
            None
        }
        Some(other) => return Err(format!("`id` is {other}, and an id is a string")),
    };
    let bodies = [
        fields.text.map(|text| Ok(Body::Text(text))),
        fields.html.map(|html| Ok(Body::Html(html))),
        fields.features.as_ref().map(features),
        fields.vector.as_deref().map(vector),
        fields.fingerprint.as_ref().map(fingerprint),
    ];
    let mut bodies = bodies.into_iter().flatten();
    match (bodies.next(), bodies.next()) {
        (Some(body), None) => Ok(Parsed { id, body: body?, passed }),
        _ => Err(format!("needs exactly one of {}", BODIES.join(", "))),
    }
}

/// The error message for an unknown field; `None` if the line has another error.
fn unknown_field(line: &[u8]) -> Option<String> {
    let fields: Map<String, Value> = serde_json::from_slice(line).ok()?;
    let is_known = |field: &str| BODIES.contains(&field) || OTHERS.contains(&field);
    let unknown = fields.keys().find(|field| !is_known(field))?;
    let is_id = OTHER_IDS.contains(&unknown.to_ascii_lowercase().as_str());
    let advice = if is_id && !fields.contains_key("id") {
        "did you mean `id`? Rename it, or the document has none"
    } else {
        "put it into `metadata` to keep it, or leave it out"
    };
    let (bodies, others) = (BODIES.join(", "), OTHERS.join(", "));
    Some(format!(
        "unknown field `{unknown}`: {advice}. A line has exactly one of {bodies}, and maybe {others}"
    ))
}

/// Parses weighted features: `{"token": weight}` or `[["token", weight], ...]`.
///
/// # Errors
/// The text is not JSON, or has another shape; the error says which.
pub fn parse_features(json: &str) -> Result<Body, String> {
    features(&serde_json::from_str(json).map_err(|error| error.to_string())?)
}

/// Parses a dense vector: an array of numbers.
///
/// # Errors
/// The text is not JSON, or no array of at most [`DIMENSIONS_MAX`] numbers; the error says which.
pub fn parse_vector(json: &str) -> Result<Body, String> {
    let numbers: Vec<f64> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    vector(&numbers)
}

/// The vector in single precision.
fn vector(numbers: &[f64]) -> Result<Body, String> {
    let vector: Vec<f32> = numbers.iter().map(|&number| number as f32).collect();
    if vector.len() > usize::from(DIMENSIONS_MAX) {
        return Err(format!(
            "a vector has at most {DIMENSIONS_MAX} dimensions, this one has {}",
            vector.len()
        ));
    }
    // The service would refuse it as well, but JSON has no infinite number to send it as.
    match vector.iter().position(|number| !number.is_finite()) {
        Some(at) => Err(format!("component {at} of the vector is beyond single precision")),
        None => Ok(Body::Vector(vector)),
    }
}

/// `{"token": weight}` or `[["token", weight], ...]`.
fn features(value: &Value) -> Result<Body, String> {
    let pair = |token: &str, weight: &Value| {
        let weight =
            weight.as_f64().ok_or_else(|| format!("the weight of {token:?} is not a number"))?;
        Ok::<_, String>((token.to_owned(), weight))
    };
    let features: Result<Vec<_>, _> = match value {
        Value::Object(map) => map.iter().map(|(token, w)| pair(token, w)).collect(),
        Value::Array(pairs) => pairs
            .iter()
            .map(|each| match each.as_array().map(Vec::as_slice) {
                Some([Value::String(token), weight]) => pair(token, weight),
                _ => Err("features are pairs of a token and a weight".to_owned()),
            })
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err("features are an object or an array of pairs".to_owned())
        }
    };
    features.map(Body::Features)
}

/// Sixteen hex digits, or an integer: unsigned, or negative in two's complement.
fn fingerprint(value: &Value) -> Result<Body, String> {
    let bits = match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number
            .as_u64()
            .or_else(|| number.as_i64().map(i64::cast_unsigned))
            .map(Fingerprint::new),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    bits.map(Body::Fingerprint)
        .ok_or_else(|| "a fingerprint is 16 hex digits or a 64-bit integer".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(line: &str) -> Result<Body, String> {
        parse(line.as_bytes()).map(|parsed| parsed.body)
    }

    #[test]
    fn each_form_of_a_document_is_read() {
        let (id, text) = (Some("a".to_owned()), Body::Text("t".to_owned()));
        assert_eq!(
            parse(br#"{"id": "a", "text": "t"}"#),
            Ok(Parsed { id, body: text, passed: Vec::new() })
        );
        assert_eq!(body(r#"{"html": "<p>t"}"#), Ok(Body::Html("<p>t".to_owned())));
        let pairs = Body::Features(vec![("b".to_owned(), 2.0), ("a".to_owned(), -0.5)]);
        assert_eq!(body(r#"{"features": {"b": 2, "a": -0.5}}"#), Ok(pairs.clone()));
        assert_eq!(body(r#"{"features": [["b", 2], ["a", -0.5]]}"#), Ok(pairs));
        assert_eq!(body(r#"{"vector": [1, -0.1]}"#), Ok(Body::Vector(vec![1.0, -0.1])));
    }

    #[test]
    fn an_unknown_field_is_named_with_those_that_are_taken() {
        let refused = |line: &str| body(line).unwrap_err();
        assert_eq!(
            refused(r#"{"text": "t", "url": "https://a.example/1"}"#),
            "unknown field `url`: did you mean `id`? Rename it, or the document has none. A line \
             has exactly one of text, html, features, vector, fingerprint, and maybe id, \
             namespace, metadata, expires_in, expires_at"
        );
        assert!(refused(r#"{"_id": "a", "text": "t"}"#).contains("did you mean `id`?"));
        for line in
            [r#"{"id": "a", "url": "b", "text": "t"}"#, r#"{"id": "a", "lang": "en", "text": "t"}"#]
        {
            assert!(refused(line).contains("put it into `metadata`"), "{line}");
        }
        let twice = refused(r#"{"id": "a", "id": "b", "text": "t"}"#);
        assert!(twice.starts_with("duplicate field `id`"), "{twice}");
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
    fn an_id_is_a_string_or_says_how_to_make_one() {
        let wrong = body(r#"{"id": 17, "text": "t"}"#).unwrap_err();
        assert_eq!(wrong, "`id` is 17, and an id is a string");
        let made = parse(br#"{"id": {"from": "text-hash"}, "text": "t"}"#).unwrap();
        assert_eq!(made.id, None);
        assert_eq!(made.passed, [("id", r#"{"from":"text-hash"}"#.into())]);
    }

    #[test]
    fn what_the_service_keeps_with_a_document_is_passed_on_as_it_is() {
        let line =
            br#"{"text": "t", "metadata": {"n": 1.50, "n": 2}, "namespace": 7, "expires_in": 60}"#;
        let passed = parse(line).unwrap().passed;
        let expected =
            [("namespace", "7"), ("metadata", r#"{"n": 1.50, "n": 2}"#), ("expires_in", "60")];
        assert_eq!(passed, expected.map(|(name, json)| (name, json.into())));
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
                Ok(Body::Fingerprint(Fingerprint::new(bits))),
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
}

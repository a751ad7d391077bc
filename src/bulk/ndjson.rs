//! NDJSON: one document a line, with the fields of the HTTP API.
//!
//! An object may have the fields `id`, `text`, `html`, `features` and `fingerprint` and no other:
//! if `url` were ignored, the document would be stored without an id.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::entry::Body;
use crate::fingerprint::Fingerprint;

/// The fields of a line.
const FIELDS: [&str; 5] = ["id", "text", "html", "features", "fingerprint"];
/// Names that other programs give to the id of a document.
const OTHER_IDS: [&str; 6] = ["url", "uri", "key", "_id", "doc_id", "docid"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    id: Option<String>,
    text: Option<String>,
    html: Option<String>,
    features: Option<Value>,
    fingerprint: Option<Value>,
}

/// Parses the object of a line.
pub(super) fn parse(line: &[u8]) -> Result<(Option<String>, Body), String> {
    let fields: Fields = serde_json::from_slice(line)
        .map_err(|error| unknown_field(line).unwrap_or_else(|| error.to_string()))?;
    let bodies = [
        fields.text.map(|text| Ok(Body::Text(text))),
        fields.html.map(|html| Ok(Body::Html(html))),
        fields.features.as_ref().map(features),
        fields.fingerprint.as_ref().map(fingerprint),
    ];
    let mut bodies = bodies.into_iter().flatten();
    match (bodies.next(), bodies.next()) {
        (Some(body), None) => Ok((fields.id, body?)),
        _ => Err("needs exactly one of text, html, features, fingerprint".to_owned()),
    }
}

/// The error message for an unknown field; `None` if the line has another error.
fn unknown_field(line: &[u8]) -> Option<String> {
    let fields: Map<String, Value> = serde_json::from_slice(line).ok()?;
    let unknown = fields.keys().find(|field| !FIELDS.contains(&field.as_str()))?;
    let lower = unknown.to_ascii_lowercase();
    let advice = if OTHER_IDS.contains(&lower.as_str()) { "; did you mean `id`?" } else { "" };
    let [id, bodies @ ..] = FIELDS;
    let bodies = bodies.join(", ");
    Some(format!("unknown field `{unknown}`: a line has {id}, and exactly one of {bodies}{advice}"))
}

/// Parses weighted features: `{"token": weight}` or `[["token", weight], ...]`.
///
/// # Errors
/// The text is not JSON, or has another shape; the error says which.
pub fn parse_features(json: &str) -> Result<Body, String> {
    features(&serde_json::from_str(json).map_err(|error| error.to_string())?)
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
        parse(line.as_bytes()).map(|(_, body)| body)
    }

    #[test]
    fn each_form_of_a_document_is_read() {
        assert_eq!(
            parse(br#"{"id": "a", "text": "t"}"#),
            Ok((Some("a".to_owned()), Body::Text("t".to_owned())))
        );
        assert_eq!(body(r#"{"html": "<p>t"}"#), Ok(Body::Html("<p>t".to_owned())));
        let pairs = Body::Features(vec![("b".to_owned(), 2.0), ("a".to_owned(), -0.5)]);
        assert_eq!(body(r#"{"features": {"b": 2, "a": -0.5}}"#), Ok(pairs.clone()));
        assert_eq!(body(r#"{"features": [["b", 2], ["a", -0.5]]}"#), Ok(pairs));
    }

    #[test]
    fn an_unknown_field_is_named_with_those_that_are_taken() {
        let refused = |line: &str| body(line).unwrap_err();
        assert_eq!(
            refused(r#"{"text": "t", "url": "https://a.example/1"}"#),
            "unknown field `url`: a line has id, and exactly one of text, html, features, \
             fingerprint; did you mean `id`?"
        );
        assert!(refused(r#"{"_id": "a", "text": "t"}"#).ends_with("did you mean `id`?"));
        assert!(refused(r#"{"id": "a", "lang": "en", "text": "t"}"#).ends_with("fingerprint"));
        let twice = refused(r#"{"id": "a", "id": "b", "text": "t"}"#);
        assert!(twice.starts_with("duplicate field `id`"), "{twice}");
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

//! The values of fields as the parts of a document.

use std::borrow::Cow;

use nearprint_fingerprint::Fingerprint;
use nearprint_text::DIMENSIONS_MAX;
use serde_json::Value as Json;

use super::fields::{BodyKind, Value, shortened};
use crate::entry::Body;

/// What a field says about the id.
pub(super) enum Id {
    Is(String),
    /// JSON that says how the service is to make it.
    IsMade(String),
}

/// The id that a field holds: a string, or an integer in decimal digits.
pub(super) fn id(name: &str, value: Value<'_>) -> Result<Id, String> {
    match value {
        Value::Text(id) | Value::Cell(id) => Ok(Id::Is(id.into_owned())),
        Value::Json(json) if json.starts_with('{') => Ok(Id::IsMade(json.into_owned())),
        Value::Json(json) if is_integer(&json) => Ok(Id::Is(json.into_owned())),
        Value::Json(json) => {
            let json = shortened(&json, 60).into_owned();
            Err(format!("`{name}` is {json}, and an id is a string or an integer"))
        }
    }
}

fn is_integer(json: &str) -> bool {
    let digits = json.strip_prefix('-').unwrap_or(json);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The content that a field holds.
pub(super) fn body(kind: BodyKind, value: Value<'_>) -> Result<Body, String> {
    let string = |value| match value {
        Value::Text(text) | Value::Cell(text) => Ok(text.into_owned()),
        Value::Json(_) => Err("is not a string".to_owned()),
    };
    match kind {
        BodyKind::Text => string(value).map(Body::Text),
        BodyKind::Html => string(value).map(Body::Html),
        BodyKind::Features => {
            let (Value::Text(json) | Value::Json(json) | Value::Cell(json)) = value;
            parse_features(&json)
        }
        BodyKind::Vector => {
            let (Value::Text(json) | Value::Json(json) | Value::Cell(json)) = value;
            parse_vector(&json)
        }
        BodyKind::Fingerprint => fingerprint(&value),
    }
}

/// The JSON of a value. A cell of CSV is JSON itself unless it `is_text`; what is not JSON becomes a
/// string.
pub(super) fn json(value: Value<'_>, is_text: bool) -> String {
    match value {
        Value::Json(json) => json.into_owned(),
        Value::Cell(cell) if !is_text && serde_json::from_str::<Json>(&cell).is_ok() => {
            cell.into_owned()
        }
        Value::Text(text) | Value::Cell(text) => quoted(&text),
    }
}

/// A string of JSON.
pub(super) fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}

/// Parses weighted features: `{"token": weight}` or `[["token", weight], ...]`.
///
/// # Errors
/// The text is not JSON, or has another shape; the error says which.
pub fn parse_features(json: &str) -> Result<Body, String> {
    features(&serde_json::from_str(json).map_err(|error| error.to_string())?)
}

/// `{"token": weight}` or `[["token", weight], ...]`.
fn features(value: &Json) -> Result<Body, String> {
    let pair = |token: &str, weight: &Json| {
        let weight =
            weight.as_f64().ok_or_else(|| format!("the weight of {token:?} is not a number"))?;
        Ok::<_, String>((token.to_owned(), weight))
    };
    let features: Result<Vec<_>, _> = match value {
        Json::Object(map) => map.iter().map(|(token, w)| pair(token, w)).collect(),
        Json::Array(pairs) => pairs
            .iter()
            .map(|each| match each.as_array().map(Vec::as_slice) {
                Some([Json::String(token), weight]) => pair(token, weight),
                _ => Err("features are pairs of a token and a weight".to_owned()),
            })
            .collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {
            Err("features are an object or an array of pairs".to_owned())
        }
    };
    features.map(Body::Features)
}

/// Parses a dense vector: an array of numbers.
///
/// # Errors
/// The text is not JSON, or no array of at most [`DIMENSIONS_MAX`] numbers; the error says which.
pub fn parse_vector(json: &str) -> Result<Body, String> {
    let numbers: Vec<f64> = serde_json::from_str(json).map_err(|error| error.to_string())?;
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

/// Sixteen hex digits, or an integer: unsigned, or negative in two's complement.
fn fingerprint(value: &Value<'_>) -> Result<Body, String> {
    let hex = |text: &Cow<'_, str>| text.trim().parse::<Fingerprint>().ok();
    let integer = |text: &Cow<'_, str>| {
        let signed = || text.parse().ok().map(i64::cast_unsigned);
        text.parse().ok().or_else(signed).map(Fingerprint::new)
    };
    let bits = match value {
        Value::Text(text) => hex(text),
        Value::Json(json) => integer(json),
        Value::Cell(cell) => hex(cell).or_else(|| integer(cell)),
    };
    bits.map(Body::Fingerprint)
        .ok_or_else(|| "is no fingerprint, which is 16 hex digits or a 64-bit integer".to_owned())
}

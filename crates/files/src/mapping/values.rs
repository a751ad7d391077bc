//! The values of fields as the parts of a document.

use std::borrow::Cow;

use nearprint_fingerprint::Fingerprint;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::fields::{BodyKind, RecordValue, shortened};
use crate::offer::{Content, Fault, FieldValue as _, Value, is_integer};

/// What a field says about the id.
pub(super) enum Id {
    Is(String),
    /// JSON that says how the service is to make it.
    IsMade(String),
}

/// The id that a field holds: a string, or an integer in decimal digits.
pub(super) fn id(name: &str, value: RecordValue<'_>) -> Result<Id, String> {
    match value {
        RecordValue::Text(id) | RecordValue::Cell(id) => Ok(Id::Is(id.into_owned())),
        RecordValue::Json(json) if json.starts_with('{') => Ok(Id::IsMade(json.into_owned())),
        RecordValue::Json(json) if is_integer(&json) => Ok(Id::Is(json.into_owned())),
        RecordValue::Json(json) => {
            let json = shortened(&json, 60).into_owned();
            Err(format!("`{name}` is {json}, and an id is a string or an integer"))
        }
    }
}

/// The content that a field holds.
pub(super) fn content(kind: BodyKind, value: RecordValue<'_>) -> Result<Content<'static>, Fault> {
    let string = |value| match value {
        RecordValue::Text(text) | RecordValue::Cell(text) => Ok(text.into_owned().into()),
        RecordValue::Json(json) => Err(Value::Json(&json).fault("a string")),
    };
    match kind {
        BodyKind::Text => string(value).map(Content::Text),
        BodyKind::Html => string(value).map(Content::Html),
        BodyKind::Features => parse_features(value.json()),
        BodyKind::Vector => parse_vector(value.json()),
        BodyKind::Fingerprint => Fingerprint::read(value.offered()).map(Content::Fingerprint),
    }
}

/// The JSON of a value. A cell of CSV is JSON itself unless it `is_text`; what is not JSON becomes a
/// string.
pub(super) fn json(value: RecordValue<'_>, is_text: bool) -> String {
    match value {
        RecordValue::Json(json) => json.into_owned(),
        RecordValue::Cell(cell) if !is_text && serde_json::from_str::<Json>(&cell).is_ok() => {
            cell.into_owned()
        }
        RecordValue::Text(text) | RecordValue::Cell(text) => quoted(&text),
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
pub fn parse_features(json: &str) -> Result<Content<'static>, Fault> {
    let features = Vec::<(Cow<'_, str>, f64)>::read(Value::Json(checked(json)?))?;
    let owned = |(token, weight): (Cow<'_, str>, f64)| (token.into_owned().into(), weight);
    Ok(Content::Features(features.into_iter().map(owned).collect()))
}

/// Parses a dense vector: an array of numbers.
///
/// # Errors
/// The text is not JSON, or no array of at most [`nearprint_text::DIMENSIONS_MAX`] numbers; the error
/// says which.
pub fn parse_vector(json: &str) -> Result<Content<'static>, Fault> {
    let vector = Vec::<f32>::read(Value::Json(checked(json)?))?;
    // The service would refuse it as well, but JSON has no infinite number to send it as.
    match vector.iter().position(|number| !number.is_finite()) {
        Some(at) => {
            Err(Fault::value(format!("component {at} of the vector is beyond single precision")))
        }
        None => Ok(Content::Vector(vector.into())),
    }
}

/// The JSON of a text, without the white space around it.
fn checked(json: &str) -> Result<&str, Fault> {
    serde_json::from_str::<&RawValue>(json)
        .map(RawValue::get)
        .map_err(|error| Fault::syntax(&error))
}

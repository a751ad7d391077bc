//! The values of fields as the parts of a document.

use std::borrow::Cow;

use nearprint_fingerprint::Fingerprint;
use nearprint_wire::offer::{Content, Fault, FieldValue as _, Value, is_integer};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::fields::{BodyKind, FingerprintFormat, RecordValue, shortened};
use super::json::JsonFields;

/// Above this, a number with a fraction or an exponent may have lost digits.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// What a field says about the id.
pub(super) enum Id {
    Is(String),
    /// JSON that says how the service is to make it.
    IsMade(String),
}

/// The id that a field holds: a string, or an integer in decimal digits. A column of integers that
/// lacks some becomes one of numbers with a fraction in many programs: 1.0 is 1.
pub(super) fn id(name: &str, value: RecordValue<'_>) -> Result<Id, String> {
    match value {
        RecordValue::Text(id) | RecordValue::Cell(id) => Ok(Id::Is(id.into_owned())),
        RecordValue::Hex(id) => Ok(Id::Is(id)),
        RecordValue::Mended(_) => {
            Err(format!("`{name}` has half of a surrogate pair in a \\u escape"))
        }
        RecordValue::Json(json) if json.starts_with('{') => match nested_id(name, &json) {
            Some(path) => Err(format!("`{name}` is an object: pass --id {path}")),
            None => Ok(Id::IsMade(json.into_owned())),
        },
        RecordValue::Json(json) if is_integer(&json) => Ok(Id::Is(json.into_owned())),
        RecordValue::Json(json) if let Some(integer) = whole(&json) => {
            Ok(Id::Is(integer.to_string()))
        }
        RecordValue::Json(json) => {
            let json = shortened(&json, 60).into_owned();
            Err(format!("`{name}` is {json}, and an id is a string or an integer"))
        }
    }
}

/// The integer that a number with a fraction or an exponent is.
fn whole(json: &str) -> Option<i64> {
    let number: f64 = json.parse().ok()?;
    (number.fract() == 0.0 && number.abs() <= EXACT_MAX).then_some(number as i64)
}

/// The path to an id in an object, as it is written on a command line; `None` if the object says
/// how to make the id, or has none.
pub(super) fn nested_id(name: &str, json: &str) -> Option<String> {
    let fields = JsonFields::parse(json).ok()?;
    let inner = fields.scalar().filter(|inner| *inner != "from")?;
    let path = format!("{name}.{inner}");
    let is_plain = |c: char| c.is_alphanumeric() || "._-".contains(c);
    Some(if path.chars().all(is_plain) { path } else { format!("'{path}'") })
}

/// The content that a field holds.
pub(super) fn content(
    kind: BodyKind,
    value: RecordValue<'_>,
    fingerprints: FingerprintFormat,
) -> Result<Content<'static>, Fault> {
    let string = |value| match value {
        RecordValue::Text(text) | RecordValue::Cell(text) => Ok(text.into_owned().into()),
        RecordValue::Mended(text) => Ok(text.into()),
        RecordValue::Hex(_) => Err(Fault::value("its text is bytes that are not UTF-8")),
        RecordValue::Json(json) => Err(Value::Json(&json).fault("a string")),
    };
    match kind {
        BodyKind::Text => string(value).map(Content::Text),
        BodyKind::Html => string(value).map(Content::Html),
        BodyKind::Features => parse_features(value.json()),
        BodyKind::Vector => parse_vector(value.json()),
        BodyKind::Fingerprint => fingerprint(&value, fingerprints).map(Content::Fingerprint),
    }
}

/// A fingerprint: a number as it is, and a text by the rule of its file.
fn fingerprint(value: &RecordValue<'_>, format: FingerprintFormat) -> Result<Fingerprint, Fault> {
    let text = match value {
        RecordValue::Text(text) | RecordValue::Cell(text) => text.trim(),
        RecordValue::Json(_) | RecordValue::Mended(_) | RecordValue::Hex(_) => {
            return Fingerprint::read(value.offered());
        }
    };
    let integer = || {
        let signed = || text.parse().ok().map(i64::cast_unsigned);
        text.parse().ok().or_else(signed).map(Fingerprint::new)
    };
    let (found, takes) = match format {
        FingerprintFormat::Hex => (
            text.parse().ok(),
            "16 hex digits, or with --fingerprint-format decimal integers of 64 bits",
        ),
        FingerprintFormat::Decimal => {
            (integer(), "integers of 64 bits, or with --fingerprint-format hex 16 hex digits")
        }
    };
    found.ok_or_else(|| Value::Cell(text).fault(takes))
}

/// The JSON of a value. A cell of CSV is JSON itself unless it `is_text`; what is not JSON becomes
/// a string.
pub(super) fn json(value: RecordValue<'_>, is_text: bool) -> String {
    match value {
        RecordValue::Json(json) => json.into_owned(),
        // Not its value: a number may be beyond those of this program.
        RecordValue::Cell(cell) if !is_text && serde_json::from_str::<&RawValue>(&cell).is_ok() => {
            cell.into_owned()
        }
        RecordValue::Text(text) | RecordValue::Cell(text) => quoted(&text),
        RecordValue::Mended(text) | RecordValue::Hex(text) => quoted(&text),
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
/// The text is not JSON, or no array of at most [`nearprint_text::DIMENSIONS_MAX`] numbers; the
/// error says which.
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

//! Metadata as it is offered: JSON, kept as text, because parsing it into a tree would cost more
//! than everything else, and could not keep its numbers and the order of its keys.

use nearprint_machine::document::Metadata;

use super::escapes::unescaped;
use super::fault::Fault;
use super::value::{FieldValue, Value};

/// How deeply objects and arrays may be nested. Most JSON parsers refuse much more.
const DEPTH_MAX: usize = 100;

/// Metadata of a document, without white space between its tokens.
#[derive(Debug, Clone)]
pub enum OfferedMetadata {
    /// It is within [`Metadata::BYTES_MAX`].
    Fits(Metadata),
    /// Its size in bytes, which is above every limit.
    TooLarge(usize),
}

impl FieldValue<'_> for OfferedMetadata {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        let takes = "a JSON object";
        let (Value::Json(json) | Value::Cell(json) | Value::Parameter(json)) = value;
        if !json.starts_with('{') {
            return Err(value.fault(takes));
        }
        let compact = compact(json)?;
        Ok(match compact.text {
            Some(text) => Self::Fits(Metadata::new(text).expect("an object within the length")),
            None => Self::TooLarge(compact.bytes),
        })
    }
}

/// JSON without white space between its tokens.
struct Compact {
    bytes: usize,
    /// `None` if it is longer than any metadata may be.
    text: Option<String>,
}

/// Takes the white space out of JSON whose syntax is known to be right.
fn compact(json: &str) -> Result<Compact, Fault> {
    let mut text = String::with_capacity(json.len().min(Metadata::BYTES_MAX));
    let (mut bytes, mut depth) = (0_usize, 0_usize);
    let mut rest = json;
    while let Some(first) = rest.as_bytes().first() {
        let length = match first {
            b'"' => string(rest)?,
            b'{' | b'[' => {
                depth = depth.saturating_add(1);
                1
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                1
            }
            b' ' | b'\t' | b'\n' | b'\r' => 0,
            _ => rest
                .find(|c: char| c.is_ascii_whitespace() || "\"{}[]".contains(c))
                .unwrap_or(rest.len()),
        };
        if depth > DEPTH_MAX {
            return Err(Fault::value(
                "metadata has more than 100 objects and arrays within one another",
            ));
        }
        let (token, left) = rest.split_at(length);
        bytes = bytes.saturating_add(length);
        if bytes <= Metadata::BYTES_MAX {
            text.push_str(token);
        }
        rest = if length == 0 { left.trim_ascii_start() } else { left };
    }
    let fits = bytes <= Metadata::BYTES_MAX;
    Ok(Compact { bytes, text: fits.then_some(text) })
}

/// The length of the string at the beginning of JSON, whose escapes must make characters.
fn string(json: &str) -> Result<usize, Fault> {
    let inner = json.get(1..).unwrap_or_default();
    let mut escaped = false;
    let end = inner.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    let inner = inner.get(..end.unwrap_or_default()).unwrap_or_default();
    if inner.contains("\\u") {
        unescaped(inner).map_err(Fault::escape)?;
    }
    Ok(inner.len().saturating_add(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compacted(json: &str) -> String {
        compact(json).unwrap().text.unwrap()
    }

    #[test]
    fn white_space_goes_and_everything_else_stays() {
        assert_eq!(compacted("{ }"), "{}");
        assert_eq!(
            compacted("{\n  \"b\" : [ 1.0, 1e400 ,true ],\t\"a\": {\"c d\": \" \\\" , \\\\\"} }"),
            "{\"b\":[1.0,1e400,true],\"a\":{\"c d\":\" \\\" , \\\\\"}}"
        );
        assert_eq!(compacted("{\"\\u00e9\": \"\u{8336} \\ud83d\\ude00\"}").len(), 29);
    }

    #[test]
    fn what_is_too_long_or_too_deep_is_not_kept() {
        let of_length = |bytes: usize| format!("{{ \"a\": \"{}\"}}", "x".repeat(bytes - 8));
        assert_eq!(compacted(&of_length(Metadata::BYTES_MAX)).len(), Metadata::BYTES_MAX);
        let longer = compact(&of_length(Metadata::BYTES_MAX + 1)).unwrap();
        assert_eq!((longer.bytes, longer.text), (Metadata::BYTES_MAX + 1, None));
        let nested = |depth: usize| "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth);
        assert!(compact(&nested(DEPTH_MAX)).is_ok());
        assert!(compact(&nested(DEPTH_MAX + 1)).is_err());
        assert!(compact("{\"a\":\"\\ud800\"}").is_err());
    }
}

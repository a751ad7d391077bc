//! Makes the report for the client from an error of serde: the code, the field, and what it takes.
//!
//! serde's kinds of errors differ in their messages only, so this module parses their beginnings.
//! The unit tests of [`crate::http::request::types`] pin them.

use serde::de::{Error, Expected, Unexpected};
use serde_path_to_error::{Path, Segment};

use crate::http::problem::{Code, Problem, quoted};

/// A longer message repeats a long value.
const MESSAGE_BYTES_MAX: usize = 200;

/// The longest string that an error repeats, in bytes. serde would repeat all of a string of the
/// wrong type, with escapes: six times the memory of a body of control characters.
pub(crate) const REPEATED_MAX: usize = 256;

/// The part of a string that an error repeats.
pub(crate) fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(REPEATED_MAX)]
}

/// The error for a string in the place of something else.
pub(crate) fn not_a_string<E: Error>(text: &str, expected: &dyn Expected) -> E {
    E::invalid_type(Unexpected::Str(beginning(text)), expected)
}

/// What is wrong with a field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault<'a> {
    /// The request does not take the field `name`; `known` lists those it takes, if any.
    Unknown { name: &'a str, known: String },
    /// It is there twice.
    Repeated { name: &'a str },
    /// Its value is wrong.
    Value,
}

impl<'a> Fault<'a> {
    /// The fault that a message of serde describes.
    pub(crate) fn of(message: &'a str) -> Self {
        let repeated = message.strip_prefix("duplicate field `");
        if let Some(name) = repeated.and_then(|rest| rest.strip_suffix('`')) {
            return Self::Repeated { name };
        }
        let Some(name) = message.strip_prefix("unknown field `") else { return Self::Value };
        // The name comes from the client and may contain anything, so this searches from the end.
        let (name, known) = name
            .rsplit_once("`, expected ")
            .or_else(|| Some((name.strip_suffix("`, there are no fields")?, "")))
            .unwrap_or((name, ""));
        let known = known.trim_start_matches("one of ").replace('`', "").replace(" or ", ", ");
        Self::Unknown { name, known }
    }

    /// The report for the client.
    pub(crate) fn problem(code: Code, detail: String, field: Option<String>) -> Problem {
        let problem = Problem::new(code, detail);
        match field {
            Some(field) => problem.of_field(quoted(&field).to_owned()),
            None => problem,
        }
    }
}

/// The field that a path leads to: `text`, or `a.text` in a comparison. A fault inside the value of
/// a field is reported for the field.
pub(crate) fn field_at(path: &Path) -> Option<String> {
    let mut keys = path.iter().map_while(|segment| match segment {
        Segment::Map { key } => Some(key.as_str()),
        Segment::Seq { .. } | Segment::Enum { .. } | Segment::Unknown => None,
    });
    let field = keys.next()?;
    match keys.next() {
        Some(inner) if matches!(field, "a" | "b") => Some(format!("{field}.{}", quoted(inner))),
        _ => Some(quoted(field).to_owned()),
    }
}

/// The beginning of a message, and what was expected, without most of a long value.
pub(crate) fn shortened(message: &str) -> String {
    if message.len() <= MESSAGE_BYTES_MAX {
        return message.to_owned();
    }
    let expected = message.rfind(", expected ").and_then(|at| message.get(at..)).unwrap_or("");
    let begin = message.get(..message.floor_char_boundary(MESSAGE_BYTES_MAX / 2));
    format!("{}...{}", begin.unwrap_or_default(), quoted(expected))
}

//! Reads the JSON of a request into its type, and reports which field is wrong.
//!
//! A body is read with `serde_json` alone. Only one that is refused is read again with
//! `serde_path_to_error`, which knows the path to the fault and takes longer.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::error::Category;

use crate::http::problem::{Code, Problem, quoted};
use crate::http::request::escapes::LONE_SURROGATE;
use crate::http::request::report::{Fault, field_at, message_of, not_a_string, shortened};

/// Reads the JSON object of a request.
pub(crate) fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, Problem> {
    match serde_json::from_slice(json) {
        Ok(Object(value)) => return Ok(value),
        // It repeats a name that is most of the body, and the path would be another copy.
        Err(error) if message_of(&error).1 => return Err(problem(&error, None)),
        Err(_) => {}
    }
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let Object(value) = serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| problem(error.inner(), field_at(error.path())))?;
    deserializer.end().map_err(|error| problem(&error, None))?;
    Ok(value)
}

fn problem(error: &serde_json::Error, field: Option<String>) -> Problem {
    let (text, _) = message_of(error);
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = text.strip_suffix(&position).unwrap_or(&text);
    // A line of a batch, and a body of one line, need no number of the line.
    let position =
        if error.line() == 1 { format!(" (column {})", error.column()) } else { position };
    let is_syntax = match error.classify() {
        Category::Data => message == LONE_SURROGATE,
        // A number that no f64 can hold is bad syntax to serde_json, and a bad value to us.
        Category::Syntax | Category::Eof | Category::Io => {
            !message.starts_with("number out of range")
        }
    };
    if is_syntax {
        return Problem::new(Code::MalformedJson, format!("{message}{position}"));
    }
    match Fault::of(message) {
        Fault::Unknown { name, known } => Fault::problem(
            Code::UnknownField,
            format!("this request takes {known}{position}"),
            field.or_else(|| Some(quoted(name).to_owned())),
        ),
        Fault::Repeated { name } => {
            let field = field.map_or_else(|| name.to_owned(), |outer| format!("{outer}.{name}"));
            let detail = format!("the field is there twice{position}");
            Fault::problem(Code::RepeatedField, detail, Some(field))
        }
        Fault::Value => {
            Fault::problem(Code::InvalidValue, format!("{}{position}", shortened(message)), field)
        }
    }
}

/// A struct that is read from a JSON object alone: serde's derived code takes an array as well, and
/// its elements for the fields in their order.
#[derive(Debug)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Err(not_a_string(text, &self))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        // Asked for a map, `serde_json` itself would report a string, and repeat it whole.
        deserializer.deserialize_any(Fields(PhantomData))
    }
}

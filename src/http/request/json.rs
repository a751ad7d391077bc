//! Reads the JSON of a request into its type, and reports which field is wrong.
//!
//! Only a body that `serde_json` refuses is read again, with `serde_path_to_error`, which finds the
//! path to the fault and takes longer.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::error::Category;

use crate::http::problem::{Code, Problem};
use crate::http::request::escapes::LONE_SURROGATE;
use crate::http::request::report::{
    Fault, REPEATED_MAX, beginning, field_at, not_a_string, shortened,
};

/// Reads the JSON object of a request.
pub(crate) fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, Problem> {
    let error = match serde_json::from_slice(json) {
        Ok(Object(value)) => return Ok(value),
        Err(error) => error,
    };
    // A name that was cut may be most of the body, and a path would contain it twice.
    if let Fault::Unknown { name, .. } = Fault::of(&error.to_string())
        && name.len().saturating_add(char::MAX.len_utf8()) > REPEATED_MAX
    {
        return Err(problem(&error, Some(name.to_owned())));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let Object(value) = serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| problem(error.inner(), field_at(error.path())))?;
    deserializer.end().map_err(|error| problem(&error, None))?;
    Ok(value)
}

fn problem(error: &serde_json::Error, field: Option<String>) -> Problem {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = text.strip_suffix(&position).unwrap_or(&text);
    // A line of a batch, and a body of one line, need no line number.
    let position =
        if error.line() == 1 { format!(" (column {})", error.column()) } else { position };
    let is_syntax = match error.classify() {
        Category::Data => message == LONE_SURROGATE,
        // To serde_json a number beyond every f64 is bad syntax; here it is a bad value.
        Category::Syntax | Category::Eof | Category::Io => {
            !message.starts_with("number out of range")
        }
    };
    if is_syntax {
        return Problem::new(Code::MalformedJson, format!("{message}{position}"));
    }
    match Fault::of(message) {
        Fault::Unknown { known, .. } => Fault::problem(
            Code::UnknownField,
            format!("this request takes {known}{position}"),
            field,
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

/// A struct that is read from a JSON object only. serde's derived code would also read an array,
/// whose elements are the fields in their order.
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
                T::deserialize(MapAccessDeserializer::new(ShortNames(map))).map(Object)
            }
        }
        // `deserialize_map` would report a string itself, and repeat all of it.
        deserializer.deserialize_any(Fields(PhantomData))
    }
}

/// The fields of an object, with their names cut: serde's error about an unknown field repeats the
/// name, which may be most of a body. No known name is long enough to be cut.
struct ShortNames<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for ShortNames<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        self.0.next_key_seed(ShortName(seed))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}

/// Reads a name and passes on its beginning.
struct ShortName<K>(K);

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for ShortName<K> {
    type Value = K::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<K::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de, K: DeserializeSeed<'de>> Visitor<'de> for ShortName<K> {
    type Value = K::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<K::Value, E> {
        self.0.deserialize(StrDeserializer::<E>::new(beginning(name)))
    }
}

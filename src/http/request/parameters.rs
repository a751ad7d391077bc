//! Reads the query string of a request into its type.
//!
//! It has the form encoding of browsers and client libraries: `%xx`, and `+` for a space.

use std::borrow::Cow;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::percent_decode;
use serde::Deserialize;
use serde::de::value::{Error, MapDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use crate::http::problem::{Code, Problem, quoted};
use crate::http::request::report::{Fault, field_at, shortened};

/// Reads a query string.
pub(crate) fn read<T: DeserializeOwned>(query: Option<&str>) -> Result<T, Problem> {
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let pairs: Vec<_> = pairs.map(decoded_pair).collect::<Result<_, Problem>>()?;
    let parameters = || {
        let parameter = |(name, value)| Parameter { name, value };
        MapDeserializer::new(
            pairs.iter().map(move |(name, value)| (&**name, parameter((&**name, &**value)))),
        )
    };
    if let Ok(value) = T::deserialize(parameters()) {
        return Ok(value);
    }
    serde_path_to_error::deserialize(parameters())
        .map_err(|error| problem(error.inner(), field_at(error.path())))
}

fn problem(error: &Error, field: Option<String>) -> Problem {
    let message = error.to_string();
    match Fault::of(&message) {
        Fault::Unknown { known, .. } => {
            let detail = match known.as_str() {
                "" => "This request takes no query parameters.".to_owned(),
                known => format!("This request takes the query parameters {known}."),
            };
            Fault::problem(Code::UnknownField, detail, field)
        }
        Fault::Repeated { name } => {
            let detail = "The query parameter is there twice.".to_owned();
            Fault::problem(Code::RepeatedField, detail, Some(name.to_owned()))
        }
        Fault::Value => Fault::problem(Code::InvalidValue, shortened(&message), field),
    }
}

/// The extractor of routes without query parameters: refuses any.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoParameters {}

impl<S: Sync> FromRequestParts<S> for NoParameters {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        read(parts.uri.query())
    }
}

/// A parameter, whose text is read as the type of its field.
struct Parameter<'a> {
    name: &'a str,
    value: &'a str,
}

impl Parameter<'_> {
    fn parse<T: std::str::FromStr>(&self, takes: &str) -> Result<T, Error> {
        self.value.parse().map_err(|_| Error::custom(format!("{} takes {takes}.", self.name)))
    }
}

impl IntoDeserializer<'_> for Parameter<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Parameter<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.value)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u64(self.parse("a whole number of 0 or more")?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f64(self.parse("a number")?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.parse("true or false")?)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 char str string bytes byte_buf option unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// The name and the value of a parameter.
fn decoded_pair(pair: &str) -> Result<(Cow<'_, str>, Cow<'_, str>), Problem> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    let decoded_name = decoded(name).ok_or_else(|| not_utf8(name))?;
    let value = decoded(value).ok_or_else(|| not_utf8(&decoded_name))?;
    Ok((decoded_name, value))
}

fn not_utf8(name: &str) -> Problem {
    Problem::invalid(quoted(name).to_owned(), "A query parameter must be percent-encoded UTF-8.")
}

fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['%', '+']) {
        return Some(Cow::Borrowed(text));
    }
    let spaced = text.replace('+', " ");
    let bytes: Vec<u8> = percent_decode(spaced.as_bytes()).collect();
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

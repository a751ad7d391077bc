//! The fields of a document besides its text, as a request has them: its namespace, its id, its
//! metadata, and what hits show of stored documents.
//!
//! Metadata is kept as text: parsing it into a tree would cost more than everything else, and could
//! not keep its numbers and the order of its keys.

use std::fmt;
use std::marker::PhantomData;

use nearprint_engine::document::{DocumentId, Metadata, Namespace};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::http::request::escapes::unescaped;
use crate::http::request::json::Object;
use crate::http::request::report::{beginning, not_a_string};
use crate::http::request::values::{Borrowed, Field, given, kind};

/// Objects and arrays within one another in metadata. Most JSON parsers refuse much more.
const METADATA_DEPTH_MAX: usize = 100;

/// The name of a namespace, within its length.
#[derive(Debug, Clone)]
pub(crate) struct NamespaceIn(pub(crate) Namespace);

impl<'de> Deserialize<'de> for NamespaceIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Borrowed::deserialize(deserializer)?.0;
        Namespace::new(text).map(Self).map_err(D::Error::custom)
    }
}

impl Field<'_> for NamespaceIn {}

/// What an id is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", remote = "Self")]
pub(crate) enum IdSource {
    /// The fingerprint: `fp:` and its 16 hex digits.
    Fingerprint,
    /// The text or page as it was sent: `xxh3:` and the 32 hex digits of its XXH3-128.
    TextHash,
}

impl<'de> Deserialize<'de> for IdSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // From a string: in place of an enum, `serde_json` reports a value of another type as bad
        // syntax.
        let text = Borrowed::deserialize(deserializer)?.0;
        Self::deserialize(IntoDeserializer::<D::Error>::into_deserializer(beginning(&text)))
    }
}

impl Field<'_> for IdSource {}

/// The id of a document, or what to make it from.
#[derive(Debug)]
pub(crate) enum IdIn {
    Given(DocumentId),
    From(IdSource),
}

/// `{"from": ...}` in the place of an id.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MadeFrom {
    #[serde(default, deserialize_with = "given")]
    from: Option<IdSource>,
}

impl<'de> Deserialize<'de> for IdIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrObject;
        impl<'de> Visitor<'de> for TextOrObject {
            type Value = IdIn;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, or {\"from\": \"fingerprint\"} or {\"from\": \"text-hash\"}")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<IdIn, E> {
                DocumentId::new(text).map(IdIn::Given).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<IdIn, A::Error> {
                let Object(made) =
                    Object::<MadeFrom>::deserialize(MapAccessDeserializer::new(map))?;
                let missing = || A::Error::custom("an id that is an object needs the field `from`");
                Ok(IdIn::From(made.from.ok_or_else(missing)?))
            }
        }
        deserializer.deserialize_any(TextOrObject)
    }
}

impl Field<'_> for IdIn {}

impl ToSchema for IdIn {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((IdSource::name().into(), IdSource::schema()));
    }
}

impl PartialSchema for IdIn {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .max_length(Some(DocumentId::BYTES_MAX));
        let source = Ref::from_schema_name(IdSource::name());
        let made = ObjectBuilder::new().property("from", source).required("from");
        OneOfBuilder::new()
            .item(text)
            .item(made)
            .description(Some(
                "The caller's name for the document, usually its URL; or what to make it from.",
            ))
            .into()
    }
}

/// Metadata of a document, without white space between its tokens.
#[derive(Debug, Clone)]
pub(crate) enum MetadataIn {
    Fits(Metadata),
    /// Its size in bytes is above every limit.
    TooLarge(usize),
}

impl<'de> Deserialize<'de> for MetadataIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        if !raw.get().starts_with('{') {
            return Err(D::Error::invalid_type(kind(raw), &"a JSON object"));
        }
        let compact = compact(raw.get()).map_err(D::Error::custom)?;
        Ok(match compact.text {
            Some(text) => Self::Fits(Metadata::new(text).expect("an object within the length")),
            None => Self::TooLarge(compact.bytes),
        })
    }
}

impl Field<'_> for MetadataIn {}

impl ToSchema for MetadataIn {}

impl PartialSchema for MetadataIn {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some("Any JSON object; opaque to the service."))
            .into()
    }
}

/// JSON without white space between its tokens.
struct Compact {
    bytes: usize,
    /// `None` if it is longer than any metadata may be.
    text: Option<String>,
}

/// Takes the white space out of JSON whose syntax is known to be right.
fn compact(json: &str) -> Result<Compact, &'static str> {
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
        if depth > METADATA_DEPTH_MAX {
            return Err("metadata has more than 100 objects and arrays within one another");
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
fn string(json: &str) -> Result<usize, &'static str> {
    let inner = json.get(1..).unwrap_or_default();
    let mut escaped = false;
    let end = inner.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    let inner = inner.get(..end.unwrap_or_default()).unwrap_or_default();
    if inner.contains("\\u") {
        unescaped(inner)?;
    }
    Ok(inner.len().saturating_add(2))
}

/// What hits show of their documents in addition to their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HitPart {
    Metadata,
}

/// What lists show of documents in addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DocumentPart {
    Metadata,
    Sketch,
}

/// What to show in addition: an array in a body, and names with commas between them in a query
/// parameter.
#[derive(Debug, Clone)]
pub(crate) struct Include<P>(Vec<P>);

impl<P: PartialEq> Include<P> {
    pub(crate) fn has(&self, part: &P) -> bool {
        self.0.contains(part)
    }
}

fn part<'de, P: Deserialize<'de>, E: Error>(name: &str) -> Result<P, E> {
    P::deserialize(IntoDeserializer::<E>::into_deserializer(beginning(name)))
}

impl<'de, P: for<'a> Deserialize<'a>> Deserialize<'de> for Include<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list = Borrowed::deserialize(deserializer)?.0;
        list.split(',').map(part).collect::<Result<_, _>>().map(Self)
    }
}

impl<'de, P: for<'a> Deserialize<'a>> Field<'de> for Include<P> {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names<P>(PhantomData<P>);
        impl<'de, P: for<'a> Deserialize<'a>> Visitor<'de> for Names<P> {
            type Value = Include<P>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of names")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Err(not_a_string(text, &self))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut parts = Vec::new();
                while let Some(name) = seq.next_element::<Borrowed<'de>>()? {
                    parts.push(part::<P, A::Error>(&name.0)?);
                }
                Ok(Include(parts))
            }
        }
        deserializer.deserialize_any(Names(PhantomData))
    }
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
        assert!(compact(&nested(METADATA_DEPTH_MAX)).is_ok());
        assert!(compact(&nested(METADATA_DEPTH_MAX + 1)).is_err());
        assert!(compact("{\"a\":\"\\ud800\"}").is_err());
    }
}

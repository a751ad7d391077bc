//! The types of the fields of a request: each reads one JSON value and describes itself for
//! OpenAPI.
//!
//! Three have a visitor of their own, because serde's derived code (`untagged`) would first copy
//! the value into a tree, and then could not say what is wrong with it. The text of a document is
//! borrowed from the body if it has no escape.

use std::borrow::Cow;
use std::fmt;

use nearprint_engine::document::DocumentId;
use nearprint_engine::machine::query::SearchKind;
use nearprint_fingerprint::Fingerprint;
use nearprint_text::DIMENSIONS_MAX;
use nearprint_text::Extract;
use serde::Deserialize;
use serde::de::{
    Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{Object, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::http::request::escapes::unescaped;
use crate::http::request::json;
use crate::http::request::report::{beginning, not_a_string};

/// Reads a field of a body that is present, so that `null` is a wrong value and not a missing
/// field.
pub(crate) fn given<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Field<'de>,
{
    T::read(deserializer).map(Some)
}

/// Reads a query parameter that is present.
pub(crate) fn given_parameter<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// A field of a body. Its errors are short, however long its value is.
pub(crate) trait Field<'de>: Deserialize<'de> {
    /// Reads the value of the field.
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

impl<'de> Field<'de> for Text<'de> {}
impl<'de> Field<'de> for Borrowed<'de> {}
impl<'de> Field<'de> for FeaturesIn<'de> {}
impl<'de, T: Deserialize<'de>> Field<'de> for json::Object<T> {}
impl Field<'_> for FingerprintIn {}
impl Field<'_> for VectorIn {}
impl Field<'_> for IdValue {}
impl Field<'_> for ExtractChoice {}
impl Field<'_> for OnDuplicateChoice {}
impl Field<'_> for SearchChoice {}

/// Numbers and booleans. Only their errors about strings differ from those of serde: the error of
/// `deserialize_u64` itself would repeat all of a string, so they use `deserialize_any`.
macro_rules! scalar_field {
    ($type:ident) => {
        impl<'de> Field<'de> for $type {
            fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Scalar;
                impl Visitor<'_> for Scalar {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(match stringify!($type) {
                            "bool" => "a boolean",
                            name => name,
                        })
                    }

                    fn visit_bool<E: Error>(self, value: bool) -> Result<$type, E> {
                        $type::deserialize(IntoDeserializer::<E>::into_deserializer(value))
                    }

                    fn visit_u64<E: Error>(self, value: u64) -> Result<$type, E> {
                        $type::deserialize(IntoDeserializer::<E>::into_deserializer(value))
                    }

                    fn visit_i64<E: Error>(self, value: i64) -> Result<$type, E> {
                        $type::deserialize(IntoDeserializer::<E>::into_deserializer(value))
                    }

                    fn visit_f64<E: Error>(self, value: f64) -> Result<$type, E> {
                        $type::deserialize(IntoDeserializer::<E>::into_deserializer(value))
                    }

                    fn visit_str<E: Error>(self, text: &str) -> Result<$type, E> {
                        Err(not_a_string(text, &self))
                    }
                }
                deserializer.deserialize_any(Scalar)
            }
        }
    };
}

scalar_field!(u64);
scalar_field!(f64);
scalar_field!(bool);

/// The text of a document, which may be most of the body.
#[derive(Debug)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        let inner = raw.get().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let inner = inner.ok_or_else(|| D::Error::invalid_type(kind(raw), &"a string"))?;
        unescaped(inner).map(Self).map_err(D::Error::custom)
    }
}

/// The type of a value other than a string.
pub(crate) fn kind(raw: &RawValue) -> Unexpected<'_> {
    match raw.get().as_bytes() {
        [b'{', ..] => Unexpected::Map,
        [b'[', ..] => Unexpected::Seq,
        b"true" => Unexpected::Bool(true),
        b"false" => Unexpected::Bool(false),
        b"null" => Unexpected::Unit,
        _ => Unexpected::Other("number"),
    }
}

/// A short string, borrowed from the body if it has no escape.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Borrowed<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// The id of a document, within its length.
#[derive(Debug)]
pub(crate) struct IdValue(pub(crate) DocumentId);

impl<'de> Deserialize<'de> for IdValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Borrowed::deserialize(deserializer)?.0;
        DocumentId::new(text).map(Self).map_err(D::Error::custom)
    }
}

/// Which text of a page of HTML counts: its content, all that is visible, or the article alone.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", remote = "Self")]
pub(crate) enum ExtractChoice {
    Content,
    Visible,
    Main,
}

impl<'de> Deserialize<'de> for ExtractChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // From a string: in place of an enum, `serde_json` reports a value of another type as bad
        // syntax.
        let text = Borrowed::deserialize(deserializer)?.0;
        Self::deserialize(IntoDeserializer::<D::Error>::into_deserializer(beginning(&text)))
    }
}

impl From<ExtractChoice> for Extract {
    fn from(choice: ExtractChoice) -> Self {
        match choice {
            ExtractChoice::Content => Self::Content,
            ExtractChoice::Visible => Self::Visible,
            ExtractChoice::Main => Self::Main,
        }
    }
}

/// What a check-and-insert does with a duplicate: `skip` (the default) or `insert`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", remote = "Self")]
pub(crate) enum OnDuplicateChoice {
    Insert,
    Skip,
}

impl<'de> Deserialize<'de> for OnDuplicateChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // From a string: in place of an enum, `serde_json` reports a value of another type as bad
        // syntax.
        let text = Borrowed::deserialize(deserializer)?.0;
        Self::deserialize(IntoDeserializer::<D::Error>::into_deserializer(beginning(&text)))
    }
}

/// How far a search for a text goes: `likely` or `exact`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", remote = "Self")]
pub(crate) enum SearchChoice {
    Likely,
    Exact,
}

impl<'de> Deserialize<'de> for SearchChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As for the choices above.
        let text = Borrowed::deserialize(deserializer)?.0;
        Self::deserialize(IntoDeserializer::<D::Error>::into_deserializer(beginning(&text)))
    }
}

impl From<SearchChoice> for SearchKind {
    fn from(choice: SearchChoice) -> Self {
        match choice {
            SearchChoice::Likely => Self::Likely,
            SearchChoice::Exact => Self::Exact,
        }
    }
}

/// A fingerprint: 16 hex digits with or without `0x`, or an integer of 64 bits, signed or not.
///
/// A number with a fraction or an exponent, or beyond 64 bits, has already lost bits, so it is
/// refused.
#[derive(Debug)]
pub(crate) struct FingerprintIn(pub(crate) Fingerprint);

impl<'de> Deserialize<'de> for FingerprintIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HexOrInteger;
        impl Visitor<'_> for HexOrInteger {
            type Value = FingerprintIn;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string of 16 hex digits, or an integer of 64 bits")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<FingerprintIn, E> {
                text.parse().map(FingerprintIn).map_err(E::custom)
            }

            fn visit_u64<E>(self, bits: u64) -> Result<FingerprintIn, E> {
                Ok(FingerprintIn(Fingerprint::new(bits)))
            }

            fn visit_i64<E>(self, bits: i64) -> Result<FingerprintIn, E> {
                // Databases and Java clients write the same 64 bits as a signed number.
                Ok(FingerprintIn(Fingerprint::new(bits.cast_unsigned())))
            }
        }
        deserializer.deserialize_any(HexOrInteger)
    }
}

impl ToSchema for FingerprintIn {}

impl PartialSchema for FingerprintIn {
    fn schema() -> RefOr<Schema> {
        let description = "A fingerprint in a request: 16 hex digits with or without `0x`, or a \
                           64-bit integer, signed or unsigned.";
        OneOfBuilder::new()
            .item(Object::with_type(Type::String))
            .item(Object::with_type(Type::Integer))
            .description(Some(description))
            .into()
    }
}

/// Weighted features: an object of weights, or an array of pairs.
#[derive(Debug)]
pub(crate) struct FeaturesIn<'a>(pub(crate) Vec<(Cow<'a, str>, f64)>);

impl<'de> Deserialize<'de> for FeaturesIn<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = FeaturesIn<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object {\"token\": weight} or an array [[\"token\", weight]]")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Err(not_a_string(text, &self))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut features = Vec::new();
                while let Some((token, weight)) = map.next_entry::<Borrowed<'de>, Weight>()? {
                    features.push((token.0, weight.0));
                }
                Ok(FeaturesIn(features))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut features = Vec::new();
                while let Some(Pair(token, weight)) = seq.next_element::<Pair<'de>>()? {
                    features.push((token, weight));
                }
                Ok(FeaturesIn(features))
            }
        }
        deserializer.deserialize_any(List)
    }
}

impl ToSchema for FeaturesIn<'_> {}

impl PartialSchema for FeaturesIn<'_> {
    fn schema() -> RefOr<Schema> {
        let number = || Object::with_type(Type::Number);
        // utoipa describes a tuple by `items: false`, which not every tool understands.
        let pair = ArrayBuilder::new()
            .items(OneOfBuilder::new().item(Object::with_type(Type::String)).item(number()))
            .min_items(Some(2))
            .max_items(Some(2))
            .description(Some("A token and its weight."));
        OneOfBuilder::new()
            .item(ObjectBuilder::new().additional_properties(Some(Schema::from(number()))))
            .item(ArrayBuilder::new().items(pair))
            .description(Some(
                "Weighted features: `{\"token\": weight}` or `[[\"token\", weight]]`.",
            ))
            .into()
    }
}

/// A dense vector in single precision, of at most [`DIMENSIONS_MAX`] dimensions. A number beyond
/// single precision is infinite here.
#[derive(Debug)]
pub(crate) struct VectorIn(pub(crate) Vec<f32>);

impl<'de> Deserialize<'de> for VectorIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl<'de> Visitor<'de> for Numbers {
            type Value = VectorIn;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an array of at most {DIMENSIONS_MAX} numbers")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Err(not_a_string(text, &self))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut vector = Vec::new();
                while let Some(Weight(number)) = seq.next_element()? {
                    if vector.len() == usize::from(DIMENSIONS_MAX) {
                        let detail = format!("a vector has at most {DIMENSIONS_MAX} dimensions");
                        return Err(A::Error::custom(detail));
                    }
                    vector.push(number as f32);
                }
                Ok(VectorIn(vector))
            }
        }
        deserializer.deserialize_any(Numbers)
    }
}

impl ToSchema for VectorIn {}

impl PartialSchema for VectorIn {
    fn schema() -> RefOr<Schema> {
        ArrayBuilder::new()
            .items(Object::with_type(Type::Number))
            .min_items(Some(1))
            .max_items(Some(usize::from(DIMENSIONS_MAX)))
            .description(Some(
                "A dense vector, for recipes of vectors: as many numbers as the recipe has \
                 dimensions, read in single precision, not all zero.",
            ))
            .into()
    }
}

/// The weight of a feature, or a component of a vector.
struct Weight(f64);

impl<'de> Deserialize<'de> for Weight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::read(deserializer).map(Self)
    }
}

/// A token and its weight, as an array of exactly two.
struct Pair<'a>(Cow<'a, str>, f64);

impl<'de> Deserialize<'de> for Pair<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Two;
        impl<'de> Visitor<'de> for Two {
            type Value = Pair<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a pair [\"token\", weight]")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Err(not_a_string(text, &self))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let missing = |length| A::Error::invalid_length(length, &Self);
                let token = seq.next_element::<Borrowed<'de>>()?.ok_or_else(|| missing(0))?;
                let weight = seq.next_element::<Weight>()?.ok_or_else(|| missing(1))?;
                match seq.next_element::<IgnoredAny>()? {
                    None => Ok(Pair(token.0, weight.0)),
                    Some(_) => Err(missing(3)),
                }
            }
        }
        deserializer.deserialize_any(Two)
    }
}

//! Reading the JSON object of a request in one pass, without an intermediate tree.
//!
//! Serde's derived structs cannot say which field holds a wrong value. So one hand-written visitor
//! reads every field that any request may have; each kind of request hands in the list of those it
//! takes. Text is borrowed from the body where it holds no escape.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::value::RawValue;

use crate::document::DocumentId;
use crate::fingerprint::Fingerprint;
use crate::http::problem::{Code, Problem, quoted};
use crate::http::request::escapes::unescaped;
use crate::text::Extract;

/// A field of a document or of the options beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Text,
    Html,
    Features,
    Fingerprint,
    Recipe,
    Id,
    Distance,
    Limit,
    MinSimilarity,
    OnDuplicate,
    Extract,
    Explain,
}

impl Field {
    const ALL: [Self; 12] = [
        Self::Text,
        Self::Html,
        Self::Features,
        Self::Fingerprint,
        Self::Recipe,
        Self::Id,
        Self::Distance,
        Self::Limit,
        Self::MinSimilarity,
        Self::OnDuplicate,
        Self::Extract,
        Self::Explain,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Html => "html",
            Self::Features => "features",
            Self::Fingerprint => "fingerprint",
            Self::Recipe => "recipe",
            Self::Id => "id",
            Self::Distance => "distance",
            Self::Limit => "limit",
            Self::MinSimilarity => "min_similarity",
            Self::OnDuplicate => "on_duplicate",
            Self::Extract => "extract",
            Self::Explain => "explain",
        }
    }

    pub(crate) fn named(name: &str, allowed: &[Self]) -> Option<Self> {
        let named = |field: &Self| field.name() == name;
        Self::ALL.into_iter().find(named).filter(|field| allowed.contains(field))
    }

    pub(crate) fn list(fields: &[Self]) -> String {
        let names: Vec<_> = fields.iter().map(|field| field.name()).collect();
        names.join(", ")
    }
}

/// Weighted features as they came.
pub(crate) type Features<'a> = Vec<(Cow<'a, str>, f64)>;

/// The fields of one document with its options, as they came.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a> {
    pub(crate) text: Option<Cow<'a, str>>,
    pub(crate) html: Option<Cow<'a, str>>,
    pub(crate) features: Option<Features<'a>>,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) recipe: Option<Cow<'a, str>>,
    pub(crate) id: Option<DocumentId>,
    pub(crate) asked: Asked,
}

impl Fields<'_> {
    /// Whether the document is a copy of its own, and not a part of the body: one with escapes in it.
    pub(crate) fn is_a_copy(&self) -> bool {
        let is_part = |document: &Option<Cow<'_, str>>| matches!(document, Some(Cow::Borrowed(_)));
        !is_part(&self.text) && !is_part(&self.html) && self.features.is_none()
    }

    /// The same without the body, and without features; copies what is no copy yet.
    pub(crate) fn into_copy(self) -> Fields<'static> {
        let owned = |string: Option<Cow<'_, str>>| string.map(|string| string.into_owned().into());
        Fields {
            text: owned(self.text),
            html: owned(self.html),
            features: None,
            fingerprint: self.fingerprint,
            recipe: owned(self.recipe),
            id: self.id,
            asked: self.asked,
        }
    }
}

/// The options of one request, as they came; ranges are checked later, against the configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Asked {
    pub(crate) distance: Option<u64>,
    pub(crate) limit: Option<u64>,
    pub(crate) min_similarity: Option<f64>,
    pub(crate) store_duplicates: Option<bool>,
    pub(crate) extract: Option<Extract>,
    pub(crate) explain: Option<bool>,
}

impl Asked {
    /// What `self` leaves open, from `other`.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            distance: self.distance.or(other.distance),
            limit: self.limit.or(other.limit),
            min_similarity: self.min_similarity.or(other.min_similarity),
            store_duplicates: self.store_duplicates.or(other.store_duplicates),
            extract: self.extract.or(other.extract),
            explain: self.explain.or(other.explain),
        }
    }

    /// The first option that both give.
    pub(crate) fn given_in_both(self, other: Self) -> Option<Field> {
        let both = [
            (self.distance.is_some() && other.distance.is_some(), Field::Distance),
            (self.limit.is_some() && other.limit.is_some(), Field::Limit),
            (self.min_similarity.is_some() && other.min_similarity.is_some(), Field::MinSimilarity),
            (
                self.store_duplicates.is_some() && other.store_duplicates.is_some(),
                Field::OnDuplicate,
            ),
            (self.extract.is_some() && other.extract.is_some(), Field::Extract),
            (self.explain.is_some() && other.explain.is_some(), Field::Explain),
        ];
        both.into_iter().find(|(both, _)| *both).map(|(_, field)| field)
    }
}

/// Reads one document with its options.
pub(crate) fn parse<'a>(json: &'a [u8], allowed: &'static [Field]) -> Result<Fields<'a>, Problem> {
    let trail = Trail::default();
    let seed = FieldsSeed { trail: &trail, allowed };
    parse_with(json, seed, &trail)
}

/// The fields of a comparison: two documents and the options.
#[derive(Debug, Default)]
pub(crate) struct ComparisonFields<'a> {
    pub(crate) a: Option<Fields<'a>>,
    pub(crate) b: Option<Fields<'a>>,
    pub(crate) asked: Asked,
}

/// Reads two documents to compare, each with the fields `allowed`.
pub(crate) fn parse_comparison<'a>(
    json: &'a [u8],
    allowed: &'static [Field],
) -> Result<ComparisonFields<'a>, Problem> {
    let trail = Trail::default();
    let seed = ComparisonSeed { trail: &trail, allowed };
    parse_with(json, seed, &trail)
}

fn parse_with<'a, S: DeserializeSeed<'a>>(
    json: &'a [u8],
    seed: S,
    trail: &Trail,
) -> Result<S::Value, Problem> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    seed.deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| trail.problem(&error))
}

/// Where the reader is, so that an error can say so.
#[derive(Debug, Default)]
struct Trail {
    outer: Cell<Option<&'static str>>,
    field: RefCell<Option<Cow<'static, str>>>,
    code: Cell<Option<Code>>,
}

impl Trail {
    fn enter(&self, field: &'static str) {
        *self.field.borrow_mut() = Some(field.into());
    }

    fn leave(&self) {
        *self.field.borrow_mut() = None;
    }

    fn unknown<E: de::Error>(&self, name: &str, known: &str) -> E {
        self.code.set(Some(Code::UnknownField));
        *self.field.borrow_mut() = Some(quoted(name).to_owned().into());
        E::custom(format_args!("this request takes {known}"))
    }

    fn repeated<E: de::Error>(&self) -> E {
        self.code.set(Some(Code::RepeatedField));
        E::custom("the field is there twice")
    }

    fn problem(&self, error: &serde_json::Error) -> Problem {
        use serde_json::error::Category;
        let text = placed(error);
        // A number that no f64 can hold is bad syntax to serde_json, and a bad value to us.
        let unheld = text.starts_with("number out of range");
        let code = match error.classify() {
            Category::Data => self.code.get().unwrap_or(Code::InvalidValue),
            Category::Syntax | Category::Eof | Category::Io if unheld => Code::InvalidValue,
            Category::Syntax | Category::Eof | Category::Io => Code::MalformedJson,
        };
        let problem = Problem::new(code, quoted(&text).to_owned());
        if code == Code::MalformedJson {
            return problem;
        }
        match (self.outer.get(), self.field.borrow_mut().take()) {
            (None, None) => problem,
            (None, Some(field)) => problem.of_field(field),
            (Some(outer), None) => problem.of_field(outer),
            (Some(outer), Some(field)) => problem.of_field(field).inside(outer),
        }
    }
}

/// The message of an error; a body or line of a batch that is one line has columns alone.
fn placed(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line 1 column ") {
        Some(at) => {
            let what = text.get(..at).unwrap_or_default();
            format!("{} (column {})", quoted(what), error.column())
        }
        None => text,
    }
}

struct FieldsSeed<'t> {
    trail: &'t Trail,
    allowed: &'static [Field],
}

impl FieldsSeed<'_> {
    /// The text of a document, which may be most of the body.
    fn document<'de, E: de::Error>(&self, raw: &'de RawValue) -> Result<Cow<'de, str>, E> {
        let inner = raw.get().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let inner = inner.ok_or_else(|| E::invalid_type(kind(raw), &"a string"))?;
        unescaped(inner).map_err(|wrong| {
            self.trail.code.set(Some(Code::MalformedJson));
            E::custom(wrong)
        })
    }
}

/// What a value is that is no string.
fn kind(raw: &RawValue) -> Unexpected<'_> {
    match raw.get().as_bytes() {
        [b'{', ..] => Unexpected::Map,
        [b'[', ..] => Unexpected::Seq,
        b"true" => Unexpected::Bool(true),
        b"false" => Unexpected::Bool(false),
        b"null" => Unexpected::Unit,
        _ => Unexpected::Other("number"),
    }
}

impl<'de> DeserializeSeed<'de> for FieldsSeed<'_> {
    type Value = Fields<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Fields<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldsSeed<'_> {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields::default();
        while let Some(name) = map.next_key::<Borrowed<'de>>()? {
            let Some(field) = Field::named(&name.0, self.allowed) else {
                return Err(self.trail.unknown(&name.0, &Field::list(self.allowed)));
            };
            self.trail.enter(field.name());
            let first = match field {
                Field::Text => put(&mut fields.text, self.document(map.next_value()?)?),
                Field::Html => put(&mut fields.html, self.document(map.next_value()?)?),
                Field::Features => {
                    put(&mut fields.features, map.next_value::<FeatureList<'de>>()?.0)
                }
                Field::Fingerprint => put(&mut fields.fingerprint, map.next_value::<Bits>()?.0),
                Field::Recipe => put(&mut fields.recipe, map.next_value::<Borrowed<'de>>()?.0),
                Field::Id => put(&mut fields.id, map.next_value::<Id>()?.0),
                Field::Distance => put(&mut fields.asked.distance, map.next_value()?),
                Field::Limit => put(&mut fields.asked.limit, map.next_value()?),
                Field::MinSimilarity => put(&mut fields.asked.min_similarity, map.next_value()?),
                Field::OnDuplicate => {
                    put(&mut fields.asked.store_duplicates, map.next_value::<OnDuplicate>()?.0)
                }
                Field::Extract => put(&mut fields.asked.extract, map.next_value::<Choice>()?.0),
                Field::Explain => put(&mut fields.asked.explain, map.next_value()?),
            };
            if !first {
                return Err(self.trail.repeated());
            }
            self.trail.leave();
        }
        Ok(fields)
    }
}

/// Fills an empty place; false if it was filled already.
fn put<T>(place: &mut Option<T>, value: T) -> bool {
    place.replace(value).is_none()
}

const COMPARISON_TAKES: &str = "a, b, distance, min_similarity, extract, explain";

struct ComparisonSeed<'t> {
    trail: &'t Trail,
    allowed: &'static [Field],
}

impl<'de> DeserializeSeed<'de> for ComparisonSeed<'_> {
    type Value = ComparisonFields<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ComparisonSeed<'_> {
    type Value = ComparisonFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with two documents, a and b")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = ComparisonFields::default();
        let document = || FieldsSeed { trail: self.trail, allowed: self.allowed };
        while let Some(name) = map.next_key::<Borrowed<'de>>()? {
            let first = match name.0.as_ref() {
                "a" => {
                    self.trail.outer.set(Some("a"));
                    put(&mut fields.a, map.next_value_seed(document())?)
                }
                "b" => {
                    self.trail.outer.set(Some("b"));
                    put(&mut fields.b, map.next_value_seed(document())?)
                }
                "distance" => {
                    self.trail.enter("distance");
                    put(&mut fields.asked.distance, map.next_value()?)
                }
                "min_similarity" => {
                    self.trail.enter("min_similarity");
                    put(&mut fields.asked.min_similarity, map.next_value()?)
                }
                "extract" => {
                    self.trail.enter("extract");
                    put(&mut fields.asked.extract, map.next_value::<Choice>()?.0)
                }
                "explain" => {
                    self.trail.enter("explain");
                    put(&mut fields.asked.explain, map.next_value()?)
                }
                other => return Err(self.trail.unknown(other, COMPARISON_TAKES)),
            };
            if !first {
                return Err(self.trail.repeated());
            }
            self.trail.outer.set(None);
            self.trail.leave();
        }
        Ok(fields)
    }
}

/// A string, borrowed from the input where it holds no escape.
struct Borrowed<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Borrowed<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Borrowed<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Borrowed(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Borrowed(Cow::Owned(text.to_owned())))
            }

            fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
                Ok(Borrowed(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// A document id within its length.
struct Id(DocumentId);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Borrowed::deserialize(deserializer)?.0;
        DocumentId::new(text).map(Self).map_err(de::Error::custom)
    }
}

/// A fingerprint: a string of 16 hex digits, or an integer of 64 bits, signed or not.
///
/// A number with a fraction or an exponent, or beyond 64 bits, has lost bits already: an error.
struct Bits(Fingerprint);

impl<'de> Deserialize<'de> for Bits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Bits;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string of 16 hex digits, or an integer of 64 bits")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bits, E> {
                text.parse().map(Bits).map_err(E::custom)
            }

            fn visit_u64<E>(self, bits: u64) -> Result<Bits, E> {
                Ok(Bits(Fingerprint::new(bits)))
            }

            fn visit_i64<E>(self, bits: i64) -> Result<Bits, E> {
                // Databases and Java clients hold the same 64 bits as a signed number.
                Ok(Bits(Fingerprint::new(bits.cast_unsigned())))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Which text of a page counts.
struct Choice(Extract);

impl<'de> Deserialize<'de> for Choice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Borrowed::deserialize(deserializer)?.0;
        Extract::named(&text).map(Self).ok_or_else(|| de::Error::custom(EXTRACT_TAKES))
    }
}

pub(crate) const EXTRACT_TAKES: &str = "extract takes \"visible\" or \"main\"";

/// What a duplicate of a check-and-insert does; `insert` is the only choice besides the default.
struct OnDuplicate(bool);

impl<'de> Deserialize<'de> for OnDuplicate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Borrowed::deserialize(deserializer)?.0;
        store_duplicates(&text).map(Self).ok_or_else(|| de::Error::custom(ON_DUPLICATE_TAKES))
    }
}

pub(crate) const ON_DUPLICATE_TAKES: &str =
    "on_duplicate takes \"insert\" or \"skip\" (the default)";

pub(crate) fn store_duplicates(text: &str) -> Option<bool> {
    match text {
        "insert" => Some(true),
        "skip" => Some(false),
        _ => None,
    }
}

/// Weighted features: an object of weights, or an array of pairs.
struct FeatureList<'a>(Features<'a>);

impl<'de> Deserialize<'de> for FeatureList<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = FeatureList<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object {\"token\": weight} or an array [[\"token\", weight]]")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut features = Vec::new();
                while let Some((token, weight)) = map.next_entry::<Borrowed<'de>, f64>()? {
                    features.push((token.0, weight));
                }
                Ok(FeatureList(features))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut features = Vec::new();
                while let Some((token, weight)) =
                    seq.next_element::<Pair<'de>>()?.map(|pair| pair.0)
                {
                    features.push((token, weight));
                }
                Ok(FeatureList(features))
            }
        }
        deserializer.deserialize_any(List)
    }
}

/// A token and its weight, as an array of exactly two.
struct Pair<'a>((Cow<'a, str>, f64));

impl<'de> Deserialize<'de> for Pair<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Two;
        impl<'de> Visitor<'de> for Two {
            type Value = Pair<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a pair [\"token\", weight]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let missing = |length| de::Error::invalid_length(length, &Self);
                let token = seq.next_element::<Borrowed<'de>>()?.ok_or_else(|| missing(0))?;
                let weight = seq.next_element()?.ok_or_else(|| missing(1))?;
                match seq.next_element::<de::IgnoredAny>()? {
                    None => Ok(Pair((token.0, weight))),
                    Some(_) => Err(missing(3)),
                }
            }
        }
        deserializer.deserialize_seq(Two)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Field] = &Field::ALL;

    fn bits(json: &str) -> Option<u64> {
        let json = format!("{{\"fingerprint\":{json}}}");
        let fields = parse(json.as_bytes(), ALL).ok()?;
        fields.fingerprint.map(Fingerprint::bits)
    }

    #[test]
    fn a_fingerprint_comes_as_hex_or_as_a_signed_or_unsigned_integer() {
        assert_eq!(bits("\"ffffffffffffffff\""), Some(u64::MAX));
        assert_eq!(bits("\"0x00000000000000aB\""), Some(0xab));
        assert_eq!(bits("18446744073709551615"), Some(u64::MAX));
        assert_eq!(bits("9007199254740993"), Some((1 << 53) + 1));
        assert_eq!(bits("-1"), Some(u64::MAX));
        assert_eq!(bits("-9223372036854775808"), Some(1 << 63));
        assert_eq!(bits("0"), Some(0));
    }

    #[test]
    fn any_other_fingerprint_is_an_error_that_names_the_field() {
        for json in [
            "1.0",
            "1e3",
            "18446744073709551616",
            "-9223372036854775809",
            "\"ab\"",
            "null",
            "true",
            "[]",
            "{}",
            "1e999",
        ] {
            let json = format!("{{\"fingerprint\":{json}}}");
            let problem = parse(json.as_bytes(), ALL).unwrap_err();
            let body = serde_json::to_value(problem.body()).unwrap();
            assert_eq!(body["code"], "invalid_value", "{json} {body}");
            assert_eq!(body["field"], "fingerprint", "{json} {body}");
        }
    }

    #[test]
    fn text_without_an_escape_is_borrowed() {
        let fields = parse(br#"{"text":"plain"}"#, ALL).unwrap();
        assert!(matches!(fields.text, Some(Cow::Borrowed("plain"))));
        let fields = parse(br#"{"text":"a\n"}"#, ALL).unwrap();
        assert!(matches!(fields.text, Some(Cow::Owned(_))));
    }

    #[test]
    fn a_comparison_names_the_inner_field() {
        let json = br#"{"a":{"text":"x"},"b":{"fingerprint":1.5}}"#;
        let problem = parse_comparison(json, ALL).unwrap_err();
        assert_eq!(serde_json::to_value(problem.body()).unwrap()["field"], "b.fingerprint");
    }
}

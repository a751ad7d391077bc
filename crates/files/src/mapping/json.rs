//! The fields of a JSON object.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use smallvec::SmallVec;

use super::fields::{Fields, Value};

/// The outermost fields of an object, each a slice of its text; nothing is unescaped or built that
/// is not asked for.
pub(crate) struct JsonFields<'a>(SmallVec<[(Cow<'a, str>, &'a str); 12]>);

impl<'a> JsonFields<'a> {
    /// # Errors
    /// The text is not one JSON object.
    pub(crate) fn parse(json: &'a str) -> Result<Self, String> {
        let mut reader = serde_json::Deserializer::from_str(json);
        let fields = reader.deserialize_map(Collect).and_then(|fields| {
            reader.end()?;
            Ok(fields)
        });
        fields.map(Self).map_err(|error| error.to_string())
    }

    fn field(&self, name: &str) -> Result<Option<&'a str>, String> {
        let mut found = self.0.iter().filter(|(own, _)| own == name);
        match (found.next(), found.next()) {
            (None, _) => Ok(None),
            (Some((_, json)), None) => Ok(Some(json)),
            (Some(_), Some(_)) => Err(format!("has several fields `{name}`")),
        }
    }
}

impl<'a> JsonFields<'a> {
    /// The value at a path, which borrows from the JSON alone.
    fn at(&self, path: &str) -> Result<Option<Value<'a>>, String> {
        if let Some(json) = self.field(path)? {
            return value(json);
        }
        let Some((name, rest)) = path.split_once('.') else { return Ok(None) };
        match self.field(name)? {
            Some(json) if json.starts_with('{') => within(json, rest),
            _ => Ok(None),
        }
    }
}

impl Fields for JsonFields<'_> {
    fn get(&self, path: &str) -> Result<Option<Value<'_>>, String> {
        self.at(path)
    }

    fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| &**name).collect()
    }

    fn spelt(&self, name: &str) -> Option<&str> {
        self.0.iter().map(|(own, _)| &**own).find(|own| own.eq_ignore_ascii_case(name))
    }
}

/// The value at a path within an object.
///
/// # Errors
/// The text is not one JSON object.
pub(crate) fn within<'a>(json: &'a str, path: &str) -> Result<Option<Value<'a>>, String> {
    JsonFields::parse(json)?.at(path)
}

/// The value that some JSON stands for; `None` for null.
pub(crate) fn value(json: &str) -> Result<Option<Value<'_>>, String> {
    Ok(match json.as_bytes().first() {
        Some(b'n') => None,
        Some(b'"') => Some(Value::Text(string(json)?)),
        _ => Some(Value::Json(Cow::Borrowed(json))),
    })
}

/// The content of a string, borrowed if nothing in it is escaped.
fn string(json: &str) -> Result<Cow<'_, str>, String> {
    struct Unescaped;
    impl<'de> Visitor<'de> for Unescaped {
        type Value = Cow<'de, str>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
            Ok(Cow::Borrowed(text))
        }

        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Cow::Owned(text.to_owned()))
        }
    }
    let mut reader = serde_json::Deserializer::from_str(json);
    reader.deserialize_str(Unescaped).map_err(|error| error.to_string())
}

struct Collect;

impl<'de> Visitor<'de> for Collect {
    type Value = SmallVec<[(Cow<'de, str>, &'de str); 12]>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = SmallVec::new();
        while let Some(name) = map.next_key::<Name<'de>>()? {
            fields.push((name.0, map.next_value::<&RawValue>()?.get()));
        }
        Ok(fields)
    }
}

/// A name, borrowed if nothing in it is escaped; a `Cow` alone would always be owned.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

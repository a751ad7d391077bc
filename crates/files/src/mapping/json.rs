//! The fields of a JSON object.

use std::borrow::Cow;

use smallvec::SmallVec;

use nearprint_wire::offer::{Value, escapes, is_integer, json};
use serde_json::value::RawValue;

use super::fields::{Fields, RecordValue};

/// The outermost fields of an object, each a slice of its text; nothing is unescaped or built that
/// is not asked for.
pub(crate) struct JsonFields<'a> {
    fields: SmallVec<[(Cow<'a, str>, &'a str); 12]>,
    /// Values may hold numbers that are not JSON.
    is_python: bool,
}

impl<'a> JsonFields<'a> {
    /// # Errors
    /// The text is not one JSON object.
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        let mut fields = SmallVec::new();
        let read = json::object(text.as_bytes(), &mut |name, json| {
            fields.push((name, json));
            Ok(())
        });
        match read {
            Ok(()) => Ok(Self { fields, is_python: false }),
            Err(fault) => Self::of_python(text).ok_or_else(|| fault.in_text(text.as_bytes())),
        }
    }

    /// An object as Python writes it, with `NaN` and `Infinity` for numbers.
    fn of_python(text: &'a str) -> Option<Self> {
        let finite = finite(text)?;
        let mut fields = SmallVec::new();
        let read = json::object(finite.as_bytes(), &mut |name, json| {
            let start = json.as_ptr().addr() - finite.as_ptr().addr();
            fields.push((Cow::Owned(name.into_owned()), &text[start..start + json.len()]));
            Ok(())
        });
        read.ok().map(|()| Self { fields, is_python: true })
    }

    /// The first member that can be an id.
    pub(super) fn scalar(&self) -> Option<&str> {
        let is_scalar = |json: &str| json.starts_with('"') || is_integer(json);
        self.fields.iter().find(|(_, json)| is_scalar(json)).map(|(name, _)| &**name)
    }

    fn field(&self, name: &str) -> Result<Option<&'a str>, String> {
        let mut found = self.fields.iter().filter(|(own, _)| own == name);
        match (found.next(), found.next()) {
            (None, _) => Ok(None),
            (Some((_, json)), None) if self.is_python && !is_json(json) => {
                Err(format!("`{name}` holds NaN or Infinity, which is not JSON"))
            }
            (Some((_, json)), None) => Ok(Some(json)),
            (Some(_), Some(_)) => Err(format!("has several fields `{name}`")),
        }
    }

    /// The value at a path, which borrows from the JSON alone.
    fn at(&self, path: &str) -> Result<Option<RecordValue<'a>>, String> {
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
    fn get(&self, path: &str) -> Result<Option<RecordValue<'_>>, String> {
        self.at(path)
    }

    fn names(&self) -> Vec<&str> {
        self.fields.iter().map(|(name, _)| &**name).collect()
    }

    fn spelt(&self, name: &str) -> Option<&str> {
        self.fields.iter().map(|(own, _)| &**own).find(|own| own.eq_ignore_ascii_case(name))
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// The same text with numbers of the same length for those that are not JSON; `None` if there are
/// none.
fn finite(text: &str) -> Option<String> {
    let numbers = [("NaN", "1e0"), ("-Infinity", "-1e000000"), ("Infinity", "1e000000")];
    let (mut finite, mut rest, mut in_string) = (String::with_capacity(text.len()), text, false);
    while let Some(first) = rest.chars().next() {
        let number = numbers.iter().find(|(name, _)| !in_string && rest.starts_with(name));
        let (taken, put) = match (number, first) {
            (Some((name, number)), _) => (name.len(), *number),
            (None, '\\') if rest.len() > 1 && rest.is_char_boundary(2) => (2, &rest[..2]),
            (None, _) => (first.len_utf8(), &rest[..first.len_utf8()]),
        };
        in_string ^= first == '"';
        finite.push_str(put);
        rest = &rest[taken..];
    }
    (finite != text).then_some(finite)
}

/// The value at a path within an object.
///
/// # Errors
/// The text is not one JSON object.
pub(crate) fn within<'a>(json: &'a str, path: &str) -> Result<Option<RecordValue<'a>>, String> {
    JsonFields::parse(json)?.at(path)
}

/// The value that some JSON stands for; `None` for null.
fn value(json: &str) -> Result<Option<RecordValue<'_>>, String> {
    Ok(match json.as_bytes().first() {
        Some(b'n') => None,
        Some(b'"') => match Value::Json(json).string("a string") {
            Ok(text) => Some(RecordValue::Text(text)),
            Err(fault) => {
                let mended = escapes::mended(&json[1..json.len() - 1]);
                Some(RecordValue::Mended(mended.ok_or_else(|| fault.to_string())?))
            }
        },
        _ => Some(RecordValue::Json(json.into())),
    })
}

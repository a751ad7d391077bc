//! The fields of a JSON object.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::fields::{Fields, RecordValue};
use crate::offer::{Value, json};

/// The outermost fields of an object, each a slice of its text; nothing is unescaped or built that
/// is not asked for.
pub(crate) struct JsonFields<'a>(SmallVec<[(Cow<'a, str>, &'a str); 12]>);

impl<'a> JsonFields<'a> {
    /// # Errors
    /// The text is not one JSON object.
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        let mut fields = SmallVec::new();
        json::object(text.as_bytes(), &mut |name, json| {
            fields.push((name, json));
            Ok(())
        })
        .map_err(|fault| fault.in_text(text.as_bytes()))?;
        Ok(Self(fields))
    }

    fn field(&self, name: &str) -> Result<Option<&'a str>, String> {
        let mut found = self.0.iter().filter(|(own, _)| own == name);
        match (found.next(), found.next()) {
            (None, _) => Ok(None),
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
pub(crate) fn within<'a>(json: &'a str, path: &str) -> Result<Option<RecordValue<'a>>, String> {
    JsonFields::parse(json)?.at(path)
}

/// The value that some JSON stands for; `None` for null.
fn value(json: &str) -> Result<Option<RecordValue<'_>>, String> {
    Ok(match json.as_bytes().first() {
        Some(b'n') => None,
        Some(b'"') => {
            let text = Value::Json(json).string("a string").map_err(|fault| fault.to_string())?;
            Some(RecordValue::Text(text))
        }
        _ => Some(RecordValue::Json(json.into())),
    })
}

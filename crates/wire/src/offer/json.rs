//! The one reader of JSON: objects as names with slices of their text, arrays as slices.
//!
//! `serde_json` checks the syntax and finds the slices. Nothing is unescaped or built that no field
//! asks for. Every fault knows its place in the text, because every slice does.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::fault::Fault;

/// The byte order mark of UTF-8, which does not belong to the JSON after it.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a JSON object: calls `member` with the name and the JSON of each member, in their order,
/// until it refuses one.
///
/// # Errors
/// The first fault: bad syntax, something other than an object, or what `member` refused, with the
/// name of its field.
pub fn object<'a>(
    json: &'a [u8],
    member: &mut dyn FnMut(Cow<'a, str>, &'a str) -> Result<(), Fault>,
) -> Result<(), Fault> {
    // Editors of Windows begin a file with a byte order mark; joined files have it within.
    let json = json.strip_prefix(BYTE_ORDER_MARK).unwrap_or(json);
    let mut reader = serde_json::Deserializer::from_slice(json);
    if json.trim_ascii_start().first() != Some(&b'{') {
        let value = <&RawValue>::deserialize(&mut reader).map_err(|error| Fault::syntax(&error))?;
        return Err(Fault::kind(value.get(), "a JSON object").at(value.get()));
    }
    let mut fault = None;
    let read = reader.deserialize_map(Members { member, fault: &mut fault });
    match fault {
        Some(fault) => Err(fault),
        None => read.and_then(|()| reader.end()).map_err(|error| Fault::syntax(&error)),
    }
}

/// Reads a JSON array whose syntax is known to be right: calls `element` with the JSON of each
/// element, until it refuses one.
///
/// # Errors
/// What `element` refused, or that the value is no array, and what the field `takes` instead.
pub(super) fn array<'a>(
    json: &'a str,
    takes: &'static str,
    element: &mut dyn FnMut(&'a str) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if !json.starts_with('[') {
        return Err(Fault::kind(json, takes));
    }
    let mut fault = None;
    let elements = Elements { element, fault: &mut fault };
    let read = serde_json::Deserializer::from_str(json).deserialize_seq(elements);
    match fault {
        Some(fault) => Err(fault),
        None => read.map_err(|error| Fault::syntax(&error)),
    }
}

struct Members<'a, 'f> {
    member: &'f mut dyn FnMut(Cow<'a, str>, &'a str) -> Result<(), Fault>,
    fault: &'f mut Option<Fault>,
}

impl<'a> Visitor<'a> for Members<'a, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = map.next_key()? {
            let json = map.next_value::<&RawValue>()?.get();
            if let Err(fault) = (self.member)(name.clone(), json) {
                // A name with an escape is a copy, which has no place.
                let part = match &name {
                    Cow::Borrowed(name) if fault.is_of_the_name() => name,
                    Cow::Borrowed(_) | Cow::Owned(_) => json,
                };
                *self.fault = Some(fault.at(part).of_field(&name));
                return Err(A::Error::custom("a member was refused"));
            }
        }
        Ok(())
    }
}

struct Elements<'a, 'f> {
    element: &'f mut dyn FnMut(&'a str) -> Result<(), Fault>,
    fault: &'f mut Option<Fault>,
}

impl<'a> Visitor<'a> for Elements<'a, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut array: A) -> Result<(), A::Error> {
        while let Some(json) = array.next_element::<&RawValue>()? {
            if let Err(fault) = (self.element)(json.get()) {
                *self.fault = Some(fault.at(json.get()));
                return Err(A::Error::custom("an element was refused"));
            }
        }
        Ok(())
    }
}

/// A name, borrowed if nothing in it is escaped; a `Cow` alone would always be owned.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

//! The values of fields, whatever door they come by: JSON, a cell of a table, a query parameter or
//! an option of the command line.
//!
//! This is the one place that knows how lenient we are: ids may be integers, fingerprints may be
//! hex or integers of either sign, null is as good as a missing field, and half of a surrogate pair
//! is U+FFFD in a text, but not in a name.

use std::borrow::Cow;

use nearprint_fingerprint::{Fingerprint, Sketch};
use nearprint_machine::document::{DocumentId, Namespace};
use nearprint_machine::query::OriginalsOrder;
use nearprint_machine::query::SearchKind;
use nearprint_text::{DIMENSIONS_MAX, Extract};

use super::fault::{Fault, shortened};
use super::{DuplicateAction, ExpiresIn, IdSource, OfferedId, escapes, json};

/// The value of a field as its door has it.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// JSON.
    Json(&'a str),
    /// Text without a type: a cell of CSV.
    Cell(&'a str),
    /// A decoded query parameter, or the value of an option.
    Parameter(&'a str),
}

/// A type that the value of a field has.
pub trait FieldValue<'v>: Sized {
    /// Reads the value.
    ///
    /// # Errors
    /// The field takes other values.
    fn read(value: Value<'v>) -> Result<Self, Fault>;
}

impl<'v> Value<'v> {
    /// Whether it is the null of JSON.
    pub fn is_null(self) -> bool {
        matches!(self, Self::Json("null"))
    }

    /// The text of a string that names something: an id, a namespace, a choice.
    ///
    /// # Errors
    /// The value is something else than a string, and the field `takes` this; or an escape stands
    /// for no character.
    pub fn string(self, takes: &'static str) -> Result<Cow<'v, str>, Fault> {
        match self {
            Self::Cell(text) | Self::Parameter(text) => Ok(text.into()),
            Self::Json(json) => escapes::unescaped(inner(json, takes)?).map_err(Fault::escape),
        }
    }

    /// The text of a string that is content: half of a surrogate pair becomes U+FFFD, as the bytes
    /// of a broken character do.
    ///
    /// # Errors
    /// The value is something else than a string, and the field `takes` this.
    pub fn content(self, takes: &'static str) -> Result<Cow<'v, str>, Fault> {
        match self {
            Self::Cell(text) | Self::Parameter(text) => Ok(text.into()),
            Self::Json(json) => {
                let inner = inner(json, takes)?;
                escapes::unescaped(inner)
                    .or_else(|why| escapes::mended(inner).map(Cow::Owned).ok_or(why))
                    .map_err(Fault::escape)
            }
        }
    }

    /// One of a few choices by its name.
    ///
    /// # Errors
    /// The value is none of their names, which `takes` lists.
    pub fn choice<T: Copy>(self, takes: &'static str, choices: &[(&str, T)]) -> Result<T, Fault> {
        let name = self.string(takes)?;
        let choice = choices.iter().find(|(own, _)| *own == name);
        choice.map(|(_, choice)| *choice).ok_or_else(|| Fault::text(&name, takes))
    }

    /// Several names: an array of strings in JSON, elsewhere a text with commas between them.
    ///
    /// # Errors
    /// Something else, or what `each` refuses.
    pub fn names(
        self,
        takes: &'static str,
        each: &mut dyn FnMut(&str) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        match self {
            Self::Json(json) => {
                json::array(json, takes, &mut |name| each(&Value::Json(name).string("a name")?))
            }
            Self::Cell(names) | Self::Parameter(names) => names.split(',').try_for_each(each),
        }
    }

    /// The members of an object.
    ///
    /// # Errors
    /// The value is something else than an object, or what `member` refuses.
    pub fn object(
        self,
        member: &mut dyn FnMut(&str, Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Self::Json(json) = self else { return Err(self.fault("a JSON object")) };
        json::object(json.as_bytes(), &mut |name, value| member(&name, Self::Json(value)))
    }

    /// The text of a number, a truth value, or anything that is not a string.
    fn plain(self) -> &'v str {
        match self {
            Self::Json(text) | Self::Cell(text) | Self::Parameter(text) => text,
        }
    }

    /// The fault of this value, for a field that `takes` something else.
    pub fn fault(self, takes: &'static str) -> Fault {
        match self {
            Self::Json(json) => Fault::kind(json, takes),
            Self::Cell(text) | Self::Parameter(text) => Fault::text(text, takes),
        }
    }

    fn parsed<T: std::str::FromStr>(self, takes: &'static str) -> Result<T, Fault> {
        let text = self.plain();
        // `parse` takes a plus sign before a number, and JSON does not.
        let parsed = if text.starts_with('+') { None } else { text.parse().ok() };
        parsed.ok_or_else(|| self.fault(takes))
    }
}

/// What stands between the quotes of a string.
fn inner<'v>(json: &'v str, takes: &'static str) -> Result<&'v str, Fault> {
    let inner = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.ok_or_else(|| Fault::kind(json, takes))
}

impl FieldValue<'_> for u64 {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        value.parsed("a whole number of 0 or more")
    }
}

impl FieldValue<'_> for bool {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        value.parsed("true or false")
    }
}

impl FieldValue<'_> for f64 {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        match value {
            Value::Json(json) => number(json, "a number"),
            Value::Cell(_) | Value::Parameter(_) => value.parsed("a number"),
        }
    }
}

impl<'v> FieldValue<'v> for Cow<'v, str> {
    fn read(value: Value<'v>) -> Result<Self, Fault> {
        value.content("a string")
    }
}

impl FieldValue<'_> for Box<str> {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        value.string("a string").map(Into::into)
    }
}

impl FieldValue<'_> for Namespace {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        Self::new(value.string("a string")?).map_err(Fault::value)
    }
}

impl FieldValue<'_> for DocumentId {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        let takes = "a string or an integer";
        let id = match value {
            Value::Json(json) if is_integer(json) => json.into(),
            Value::Json(_) | Value::Cell(_) | Value::Parameter(_) => value.string(takes)?,
        };
        Self::new(id).map_err(Fault::value)
    }
}

impl FieldValue<'_> for OfferedId {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        let takes =
            "a string, an integer, {\"from\": \"fingerprint\"} or {\"from\": \"text-hash\"}";
        match value {
            Value::Json(json) if json.starts_with('{') => {
                let mut from = None;
                value
                    .object(&mut |name, source| match (name, from) {
                        ("from", None) => {
                            from = Some(IdSource::read(source)?);
                            Ok(())
                        }
                        ("from", Some(_)) => Err(Fault::repeated()),
                        _ => Err(Fault::unknown(["from"])),
                    })
                    .map_err(Fault::of_whole)?;
                let missing = || Fault::value("an id that is an object needs the field `from`");
                from.map(Self::From).ok_or_else(missing)
            }
            Value::Json(json) if !json.starts_with('"') && !is_integer(json) => {
                Err(value.fault(takes))
            }
            Value::Json(_) | Value::Cell(_) | Value::Parameter(_) => {
                DocumentId::read(value).map(Self::Given)
            }
        }
    }
}

/// Whether JSON is a number without a fraction and an exponent.
pub fn is_integer(json: &str) -> bool {
    let digits = json.strip_prefix('-').unwrap_or(json);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

impl FieldValue<'_> for IdSource {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        let choices = [Self::Fingerprint, Self::TextHash].map(|source| (source.name(), source));
        value.choice("fingerprint or text-hash", &choices)
    }
}

impl FieldValue<'_> for Extract {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        value.choice("content, visible or main", &Self::ALL.map(|choice| (choice.name(), choice)))
    }
}

impl FieldValue<'_> for SearchKind {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        value.choice("likely or exact", &[("likely", Self::Likely), ("exact", Self::Exact)])
    }
}

impl FieldValue<'_> for OriginalsOrder {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        let choices = [("duplicates", Self::Duplicates), ("recent", Self::Recent)];
        value.choice("duplicates or recent", &choices)
    }
}

impl FieldValue<'_> for DuplicateAction {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        value.choice("skip or insert", &[("skip", Self::Skip), ("insert", Self::Insert)])
    }
}

impl FieldValue<'_> for ExpiresIn {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        let takes = "a whole number of seconds, or `never`";
        match value {
            Value::Json(json) if json.starts_with('"') => {
                value.choice(takes, &[("never", Self::Never)])
            }
            Value::Cell("never") | Value::Parameter("never") => Ok(Self::Never),
            Value::Json(_) | Value::Cell(_) | Value::Parameter(_) => {
                value.parsed(takes).map(Self::Seconds)
            }
        }
    }
}

/// A fingerprint: 16 hex digits with or without `0x`; in JSON and in cells also an integer of 64
/// bits, signed or not, because databases and Java clients write the same bits as a signed number.
///
/// A number with a fraction or an exponent, or beyond 64 bits, has already lost bits, so it is
/// refused.
impl FieldValue<'_> for Fingerprint {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        let takes = "16 hex digits, or an integer of 64 bits";
        let integer = |text: &str| {
            let signed = || text.parse().ok().map(i64::cast_unsigned);
            text.parse().ok().or_else(signed).map(Self::new)
        };
        let hex = |text: &str| text.trim().parse::<Self>();
        match value {
            Value::Json(json) if json.starts_with('"') => {
                hex(&value.string(takes)?).map_err(Fault::value)
            }
            Value::Json(json) => integer(json).ok_or_else(|| value.fault(takes)),
            Value::Cell(text) => {
                hex(text).ok().or_else(|| integer(text)).ok_or_else(|| value.fault(takes))
            }
            Value::Parameter(text) => text.parse().map_err(Fault::value),
        }
    }
}

/// A sketch: two hex digits for each of its bytes.
impl FieldValue<'_> for Box<Sketch> {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        let takes = "312 hex digits";
        let digits = value.string(takes)?;
        let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
        let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
        let bytes: Option<Vec<u8>> = digits
            .as_bytes()
            .chunks(2)
            .map(|pair| (pair.len() == 2).then_some(pair).and_then(byte))
            .collect();
        let bytes = bytes.and_then(|bytes| <[u8; Sketch::BYTES]>::try_from(bytes).ok());
        bytes.map(|bytes| Self::new(Sketch::from_bytes(&bytes))).ok_or_else(|| value.fault(takes))
    }
}

/// Weighted features: `{"token": weight}` or `[["token", weight]]`.
impl<'v> FieldValue<'v> for Vec<(Cow<'v, str>, f64)> {
    fn read(value: Value<'v>) -> Result<Self, Fault> {
        let takes = "an object {\"token\": weight} or an array [[\"token\", weight]]";
        let mut features = Self::new();
        let json = value.plain();
        if json.starts_with('{') {
            json::object(json.as_bytes(), &mut |token, weight| {
                let weight = number(weight, "a number").map_err(|_| {
                    let why = format!("the weight of {:?} is not a number", shortened(&token));
                    Fault::value(why)
                })?;
                features.push((token, weight));
                Ok(())
            })
            .map_err(Fault::of_whole)?;
        } else {
            json::array(json, takes, &mut |element| {
                features.push(pair(element)?);
                Ok(())
            })?;
        }
        Ok(features)
    }
}

/// A token and its weight, as an array of exactly two.
fn pair(json: &str) -> Result<(Cow<'_, str>, f64), Fault> {
    let takes = "a pair [\"token\", weight]";
    let (mut token, mut weight, mut count) = (None, None, 0_usize);
    json::array(json, takes, &mut |element| {
        match count {
            0 => token = Some(Value::Json(element).string("a string as token")?),
            1 => weight = Some(number(element, "a number as weight")?),
            _ => {}
        }
        count = count.saturating_add(1);
        Ok(())
    })?;
    match (token, weight, count) {
        (Some(token), Some(weight), 2) => Ok((token, weight)),
        _ => Err(Fault::value(format!("an array of {count} is not {takes}"))),
    }
}

/// A dense vector in single precision, of at most [`DIMENSIONS_MAX`] dimensions. A number beyond
/// single precision is infinite here.
impl FieldValue<'_> for Vec<f32> {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        let mut vector = Self::new();
        json::array(value.plain(), "an array of numbers", &mut |element| {
            if vector.len() == usize::from(DIMENSIONS_MAX) {
                let why = format!("a vector has at most {DIMENSIONS_MAX} dimensions");
                return Err(Fault::value(why));
            }
            vector.push(number(element, "an array of numbers")? as f32);
            Ok(())
        })?;
        Ok(vector)
    }
}

fn number(json: &str, takes: &'static str) -> Result<f64, Fault> {
    serde_json::from_str(json).map_err(|_| Fault::kind(json, takes))
}

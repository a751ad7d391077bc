//! Reads the query string of a request into its fields.
//!
//! It has the form encoding of browsers and client libraries: `%xx`, and `+` for a space.

use std::borrow::Cow;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use nearprint_wire::fields;
use nearprint_wire::offer::{Fault, FaultKind, FieldSet, Value};
use percent_encoding::percent_decode;

use crate::http::problem::{Code, Problem, quoted};

pub(crate) fn read<T: for<'v> FieldSet<'v>>(query: Option<&str>) -> Result<T, Problem> {
    let mut fields = T::default();
    read_into(query, &mut |name, value| fields.set_known(name, value))?;
    Ok(fields)
}

/// Reads a query string, and passes its fields on.
pub(crate) fn read_into(
    query: Option<&str>,
    set: &mut dyn FnMut(&str, Value<'_>) -> Result<(), Fault>,
) -> Result<(), Problem> {
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    for pair in pairs {
        let (name, value) = decoded_pair(pair)?;
        set(&name, Value::Parameter(&value)).map_err(|fault| problem(fault.of_field(&name)))?;
    }
    Ok(())
}

/// The error of a parameter.
pub(super) fn problem(fault: Fault) -> Problem {
    let (code, detail) = match &fault.kind {
        FaultKind::Unknown { takes } if takes.is_empty() => {
            (Code::UnknownField, "This request takes no query parameters.".to_owned())
        }
        FaultKind::Unknown { takes } => {
            (Code::UnknownField, format!("This request takes the query parameters {takes}."))
        }
        FaultKind::Repeated => {
            (Code::RepeatedField, "The query parameter is there twice.".to_owned())
        }
        FaultKind::Type { .. } => (Code::InvalidValue, format!("{fault}.")),
        FaultKind::Value(_) | FaultKind::Syntax { .. } => (Code::InvalidValue, fault.to_string()),
    };
    Problem::new(code, detail).of_field(fault.field.unwrap_or_default())
}

fields! {
    /// The extractor of routes without query parameters: refuses any.
    pub(crate) struct NoParameters {}
}

impl<S: Sync> FromRequestParts<S> for NoParameters {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        read(parts.uri.query())
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

//! Reading the query string of a request: the same fields as in a body, as text.
//!
//! Form encoding, as browsers and client libraries write it: `%xx`, and `+` for a space.

use std::borrow::Cow;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::percent_decode;

use crate::document::DocumentId;
use crate::fingerprint::Fingerprint;
use crate::http::problem::{Code, Problem, quoted};
use crate::http::request::fields::{
    Asked, EXTRACT_TAKES, Field, ON_DUPLICATE_TAKES, store_duplicates,
};
use crate::text::Extract;

/// What the query string says.
#[derive(Debug, Default, Clone)]
pub(crate) struct Parameters {
    pub(crate) id: Option<DocumentId>,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) recipe: Option<String>,
    pub(crate) asked: Asked,
}

/// Reads a query string that may hold the fields `allowed`.
pub(crate) fn parse(query: Option<&str>, allowed: &[Field]) -> Result<Parameters, Problem> {
    let mut parameters = Parameters::default();
    let pairs = query.unwrap_or_default().split('&');
    for pair in pairs.filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decoded(name).ok_or_else(|| not_utf8(name))?;
        let Some(field) = Field::named(&name, allowed) else {
            return Err(unknown(&name, allowed));
        };
        let value = decoded(value).ok_or_else(|| not_utf8(field.name()))?;
        if !parameters.set(field, &value)? {
            let detail = "The query parameter is there twice.";
            return Err(Problem::new(Code::RepeatedField, detail).of_field(field.name()));
        }
    }
    Ok(parameters)
}

/// Refuses query parameters, as an extractor of the routes that take none.
pub(crate) struct NoParameters;

impl<S: Sync> FromRequestParts<S> for NoParameters {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parse(parts.uri.query(), &[]).map(|_| Self)
    }
}

impl Parameters {
    /// Sets a field; false if it was set before.
    fn set(&mut self, field: Field, value: &str) -> Result<bool, Problem> {
        let asked = &mut self.asked;
        Ok(match field {
            Field::Id => put(&mut self.id, DocumentId::new(value)?),
            Field::Fingerprint => {
                let fingerprint = value.parse();
                put(
                    &mut self.fingerprint,
                    fingerprint.map_err(|_| invalid(field, "16 hex digits, with or without 0x"))?,
                )
            }
            Field::Recipe => put(&mut self.recipe, value.to_owned()),
            Field::Distance => put(&mut asked.distance, number(field, value)?),
            Field::Limit => put(&mut asked.limit, number(field, value)?),
            Field::MinSimilarity => {
                let similarity = value.parse();
                put(
                    &mut asked.min_similarity,
                    similarity.map_err(|_| invalid(field, "a number, 0 to 1"))?,
                )
            }
            Field::OnDuplicate => put(
                &mut asked.store_duplicates,
                store_duplicates(value)
                    .ok_or_else(|| Problem::invalid(field.name(), ON_DUPLICATE_TAKES))?,
            ),
            Field::Extract => put(
                &mut asked.extract,
                Extract::named(value)
                    .ok_or_else(|| Problem::invalid(field.name(), EXTRACT_TAKES))?,
            ),
            Field::Explain => {
                let explain = value.parse();
                put(&mut asked.explain, explain.map_err(|_| invalid(field, "true or false"))?)
            }
            Field::Text | Field::Html | Field::Features => {
                return Err(invalid(field, "a body, not a query parameter"));
            }
        })
    }
}

fn put<T>(place: &mut Option<T>, value: T) -> bool {
    place.replace(value).is_none()
}

fn number(field: Field, value: &str) -> Result<u64, Problem> {
    value.parse().map_err(|_| invalid(field, "a whole number of 0 or more"))
}

fn invalid(field: Field, takes: &str) -> Problem {
    Problem::invalid(field.name(), format!("{} takes {takes}.", field.name()))
}

fn unknown(name: &str, allowed: &[Field]) -> Problem {
    let detail = match Field::list(allowed) {
        none if none.is_empty() => "This request takes no query parameters.".to_owned(),
        list => format!("This request takes the query parameters {list}."),
    };
    Problem::new(Code::UnknownField, detail).of_field(quoted(name).to_owned())
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

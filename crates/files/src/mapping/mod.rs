//! Which fields of a record become the parts of a document.
//!
//! The command line names fields ([`Mapping`]), or the usual names are found: first those of the
//! HTTP API, then those that other programs write ([`IDS`], [`TEXTS`]). A field that would be an id
//! under another name is never dropped silently ([`OTHER_IDS`]).
//!
//! The readers of formats with named fields implement [`Fields`]; this module knows no format.

mod fields;
mod json;
mod values;

use std::borrow::Cow;

use nearprint_wire::offer::Content;

use super::entry::Parsed;

pub use fields::{BodyKind, FingerprintFormat, Mapping};
pub(super) use fields::{Fields, RecordValue, Rules, shortened};
pub(super) use json::{JsonFields, within};
pub use values::{parse_features, parse_vector};

/// Names under which an id is found, the most telling first.
const IDS: [&str; 4] = ["id", "url", "uri", "warc-target-uri"];
/// The names that the HTTP API gives to the content of a document; a record has one of them.
const BODIES: [(&str, BodyKind); 5] = [
    ("text", BodyKind::Text),
    ("html", BodyKind::Html),
    ("features", BodyKind::Features),
    ("vector", BodyKind::Vector),
    ("fingerprint", BodyKind::Fingerprint),
];
/// Names under which a text is found if the record has none of [`BODIES`].
const TEXTS: [&str; 3] = ["content", "body", "raw_content"];
/// Fields that the service takes as they are.
const PASSED: [&str; 4] = ["namespace", "metadata", "expires_in", "expires_at"];
/// Fields that the service takes with a fingerprint, if an export wrote its sketch.
const OF_SKETCH: [&str; 2] = ["sketch", "recipe"];
/// Names that other programs give to the id of a document. They are too doubtful to be found, and
/// too likely ids to be dropped.
const OTHER_IDS: [&str; 12] = [
    "link",
    "href",
    "key",
    "_id",
    "uid",
    "uuid",
    "guid",
    "doc_id",
    "docid",
    "docno",
    "document_id",
    "page_id",
];

/// The fields that were chosen: their names, and what they hold.
struct Choice<'a> {
    id: Option<(&'a str, RecordValue<'a>)>,
    body: (BodyKind, &'a str, Option<RecordValue<'a>>),
}

/// Makes the parts of a document of a record.
///
/// # Errors
/// A field that the document needs is missing, or cannot be what it is to be; the error names it.
pub(super) fn assemble(
    fields: &dyn Fields,
    mapping: &Mapping,
    rules: Rules,
) -> Result<Parsed, String> {
    let Choice { id, body: (kind, name, value) } = choose(fields, mapping, rules)?;
    let mut passed = Vec::new();
    let namespace = passed_field(fields, mapping.namespace.as_deref(), "namespace");
    passed.extend(rules.optional(namespace)?.map(|namespace| ("namespace", namespace)));
    if mapping.metadata.is_empty() {
        let metadata = rules.optional(passed_field(fields, None, "metadata"))?;
        passed.extend(metadata.map(|json| ("metadata", json)));
    } else {
        passed.push(("metadata", metadata(fields, &mapping.metadata, rules)?));
    }
    for name in ["expires_in", "expires_at"] {
        let expiry = rules.optional(passed_field(fields, None, name))?;
        passed.extend(expiry.map(|json| (name, json)));
    }
    if kind == BodyKind::Fingerprint && fields.spelt(OF_SKETCH[0]).is_some() {
        for name in OF_SKETCH {
            let value = rules.optional(fields.get(name))?;
            // Digits are a text, whatever they look like.
            passed.extend(value.map(|value| (name, values::json(value, true).into())));
        }
    }
    let id = id.map(|(name, value)| values::id(name, value)).transpose();
    let id = match rules.optional(id)? {
        None => None,
        Some(values::Id::Is(id)) => Some(id),
        Some(values::Id::IsMade(how)) => {
            passed.push(("id", how.into()));
            None
        }
    };
    let content = match value {
        Some(value) => values::content(kind, value, rules.fingerprints)
            .map_err(|fault| fault.of_field(name).to_string())?,
        None => Content::Text("".into()),
    };
    Ok(Parsed { id, content, passed })
}

impl Rules {
    /// A part that a document may lack: without it, if it cannot be read and need not be.
    fn optional<T>(self, part: Result<Option<T>, String>) -> Result<Option<T>, String> {
        if self.is_lenient { Ok(part.unwrap_or_default()) } else { part }
    }
}

fn choose<'a>(
    fields: &'a dyn Fields,
    mapping: &'a Mapping,
    rules: Rules,
) -> Result<Choice<'a>, String> {
    let body = match &mapping.body {
        Some((kind, path)) => match fields.get(path)? {
            None if !(rules.is_lenient && fields.has(path)) => return Err(missing(path, fields)),
            value => (*kind, path.as_str(), value),
        },
        None => match found_body(fields) {
            Ok((kind, name, value)) => (kind, name, Some(value)),
            Err(why) => match null_body(fields).filter(|_| rules.is_lenient) {
                Some(name) => (BodyKind::Text, name, None),
                None => return Err(why),
            },
        },
    };
    let id = match &mapping.id {
        Some(path) => match fields.get(path) {
            Ok(None) => Err(missing(path, fields)),
            value => value.map(|value| value.map(|value| (path.as_str(), value))),
        },
        None => found_id(fields),
    };
    Ok(Choice { id: rules.optional(id)?, body })
}

/// A field for content that is null, in a record that has no other.
fn null_body(fields: &dyn Fields) -> Option<&str> {
    let names = BODIES.iter().map(|(name, _)| *name).chain(TEXTS);
    let mut found = names.filter_map(|name| fields.spelt(name)).peekable();
    let first = *found.peek()?;
    found.all(|name| matches!(fields.get(name), Ok(None))).then_some(first)
}

/// The text that holds the fingerprint of a record, if one does.
pub(super) fn fingerprint_text<'a>(
    fields: &'a dyn Fields,
    mapping: &'a Mapping,
) -> Option<Cow<'a, str>> {
    match choose(fields, mapping, Rules { is_lenient: true, ..Rules::default() }).ok()?.body {
        (BodyKind::Fingerprint, _, Some(RecordValue::Text(text) | RecordValue::Cell(text))) => {
            Some(text)
        }
        _ => None,
    }
}

/// Whether one of these columns can have the content of a document.
pub(super) fn has_content(columns: &[String], mapping: &Mapping) -> bool {
    let names = BODIES.iter().map(|(name, _)| *name).chain(TEXTS);
    match &mapping.body {
        Some((_, path)) => {
            let outermost = path.split('.').next().unwrap_or_default();
            columns.iter().any(|column| column == path || column == outermost)
        }
        None => names
            .into_iter()
            .any(|name| columns.iter().any(|column| column.eq_ignore_ascii_case(name))),
    }
}

/// Whether a record has no field that the user names for the content, or that is known to have it.
/// Programs for learning call something else `features`: that is one only if it can be read.
pub(super) fn is_without_content(fields: &dyn Fields, mapping: &Mapping) -> bool {
    let names = BODIES.iter().map(|(name, kind)| (*name, Some(*kind)));
    let mut known = names.chain(TEXTS.map(|name| (name, None))).filter(|(name, kind)| {
        let Some(own) = fields.spelt(name) else { return false };
        let is_read = |value| values::content(BodyKind::Features, value, FingerprintFormat::Hex);
        match fields.get(own) {
            Ok(Some(value)) if *kind == Some(BodyKind::Features) => is_read(value).is_ok(),
            _ => true,
        }
    });
    mapping.body.is_none() && known.next().is_none()
}

/// The error of a record without a field that the user names, which may be mistyped.
fn missing(path: &str, fields: &dyn Fields) -> String {
    if fields.has(path) {
        return format!("has no field `{path}`, or it is empty");
    }
    format!("has no field `{path}`. Its fields: {}", names_of(fields))
}

/// The names of the outermost fields, for people.
fn names_of(fields: &dyn Fields) -> String {
    let names = fields.names();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    shortened(&names, NAMES_SHOWN_MAX).into_owned()
}

/// The first of [`IDS`] that the record has.
fn found_id(fields: &dyn Fields) -> Result<Option<(&str, RecordValue<'_>)>, String> {
    for id in IDS {
        if let Some(found) = find(fields, id)? {
            return Ok(Some(found));
        }
    }
    for id in OTHER_IDS {
        if let Some((name, value)) = find(fields, id)? {
            let nested = if let RecordValue::Json(json) = &value {
                values::nested_id(name, json)
            } else {
                None
            };
            let path = nested.unwrap_or_else(|| name.to_owned());
            return Err(format!(
                "has no `id`, and `{name}` may be one: pass --id {path}, or --id with another \
                 field"
            ));
        }
    }
    Ok(None)
}

/// The one of [`BODIES`] that the record has, or else the first of [`TEXTS`].
fn found_body(fields: &dyn Fields) -> Result<(BodyKind, &str, RecordValue<'_>), String> {
    let mut found = None;
    for (name, kind) in BODIES {
        if let Some((name, value)) = find(fields, name)? {
            if let Some((_, other, _)) = found {
                return Err(format!(
                    "has both `{other}` and `{name}`: pass --{other} {other} to use the first"
                ));
            }
            found = Some((kind, name, value));
        }
    }
    if let Some(found) = found {
        return Ok(found);
    }
    for name in TEXTS {
        if let Some((name, value)) = find(fields, name)? {
            return Ok((BodyKind::Text, name, value));
        }
    }
    Err(format!(
        "has no text: none of text, html, features, vector, fingerprint, {}; name the field with \
         --text, --html, --vector or --fingerprint. Its fields: {}",
        TEXTS.join(", "),
        names_of(fields)
    ))
}

const NAMES_SHOWN_MAX: usize = 200;

/// An outermost field by its name, whatever the case of its letters.
fn find<'a>(
    fields: &'a dyn Fields,
    name: &str,
) -> Result<Option<(&'a str, RecordValue<'a>)>, String> {
    let Some(own) = fields.spelt(name) else { return Ok(None) };
    Ok(fields.get(own)?.map(|value| (own, value)))
}

/// The JSON of a field that the service takes as it is.
fn passed_field(
    fields: &dyn Fields,
    path: Option<&str>,
    name: &str,
) -> Result<Option<Box<str>>, String> {
    match fields.get(path.unwrap_or(name))? {
        // A namespace of a column of numbers is the string of its digits.
        Some(RecordValue::Json(json)) if path.is_some() && !json.starts_with(['{', '[']) => {
            Ok(Some(values::quoted(&json).into()))
        }
        // Tables that have no objects, as Parquet written by an export, keep them as text.
        Some(RecordValue::Text(text)) if name == "metadata" => {
            Ok(Some(values::json(RecordValue::Cell(text), false).into()))
        }
        Some(value) => Ok(Some(values::json(value, name == "namespace").into())),
        None => path.map_or(Ok(None), |path| Err(missing(path, fields))),
    }
}

/// An object of the fields at these paths; a field that the record lacks is left out.
fn metadata(fields: &dyn Fields, paths: &[String], rules: Rules) -> Result<Box<str>, String> {
    let mut object = String::from("{");
    for path in paths {
        if let Some(value) = rules.optional(fields.get(path))? {
            let comma = if object.len() > 1 { "," } else { "" };
            let is_text = matches!(value, RecordValue::Cell(_));
            let (name, json) = (values::quoted(path), values::json(value, is_text));
            object.extend([comma, &name, ":", &json]);
        }
    }
    object.push('}');
    Ok(object.into())
}

/// How a record is understood, for people: the fields that are taken, and those that are left.
/// `None` if it is not a document.
pub(super) fn explain(fields: &dyn Fields, mapping: &Mapping, rules: Rules) -> Option<String> {
    let Choice { id, body: (kind, body, _) } = choose(fields, mapping, rules).ok()?;
    let part = match kind {
        BodyKind::Text => "text",
        BodyKind::Html => "html",
        BodyKind::Features => "features",
        BodyKind::Vector => "vector",
        BodyKind::Fingerprint => "fingerprint",
    };
    let id = id.map(|(name, _)| name);
    let mut taken = vec![match (id, &mapping.id) {
        (Some(id), _) => format!("id from `{id}`"),
        (None, Some(path)) => format!("no id: it has no `{path}`"),
        (None, None) => "no id".to_owned(),
    }];
    taken.push(format!("{part} from `{body}`"));
    if let Some(namespace) = &mapping.namespace {
        taken.push(match fields.get(namespace) {
            Ok(Some(_)) => format!("namespace from `{namespace}`"),
            _ => format!("no namespace: it has no `{namespace}`"),
        });
    }
    if !mapping.metadata.is_empty() {
        taken.push(format!("metadata from `{}`", mapping.metadata.join("`, `")));
    }
    let named = [mapping.id.as_deref(), mapping.namespace.as_deref(), Some(body), id];
    let named: Vec<&str> =
        named.into_iter().flatten().chain(mapping.metadata.iter().map(String::as_str)).collect();
    let is_taken = |name: &str| {
        let within =
            |path: &&str| path.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        let is_passed =
            PASSED.contains(&name) || kind == BodyKind::Fingerprint && OF_SKETCH.contains(&name);
        is_passed || named.contains(&name) || named.iter().any(within)
    };
    let left: Vec<_> = fields.names().into_iter().filter(|name| !is_taken(name)).collect();
    let mut mapping = taken.join(", ");
    if !left.is_empty() {
        mapping.push_str("; not used: ");
        mapping.push_str(&shortened(&left.join(", "), NAMES_SHOWN_MAX));
    }
    Some(mapping)
}

/// Whether a record may need its outermost field of this name.
pub(super) fn is_wanted(name: &str, mapping: &Mapping) -> bool {
    let body = mapping.body.as_ref().map(|(_, path)| path);
    let mut paths = [mapping.id.as_ref(), body, mapping.namespace.as_ref()]
        .into_iter()
        .flatten()
        .chain(&mapping.metadata);
    let leads_to = |path: &String| {
        path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let bodies = BODIES.iter().map(|(name, _)| name);
    let passed = PASSED.iter().chain(&OF_SKETCH);
    let mut found = IDS.iter().chain(&OTHER_IDS).chain(&TEXTS).chain(passed).chain(bodies);
    paths.any(leads_to) || found.any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests;

//! A document of the command line: its wire form, its analysis, and where it comes from.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::trouble::Trouble;
use crate::bulk::{self, Body};
use crate::fingerprint::Fingerprint;
use crate::text::{self, Analysis, Source, Wanted};

/// The fields of a document in a request.
pub(super) fn to_wire(id: Option<&str>, body: &Body) -> Map<String, Value> {
    let mut fields = Map::new();
    if let Some(id) = id {
        fields.insert("id".to_owned(), json!(id));
    }
    let (name, value) = match body {
        Body::Text(text) => ("text", json!(text)),
        Body::Html(html) => ("html", json!(html)),
        // Pairs keep their order and their repeats, which an object would not.
        Body::Features(features) => ("features", json!(features)),
        Body::Fingerprint(fingerprint) => ("fingerprint", json!(fingerprint.to_string())),
    };
    fields.insert(name.to_owned(), value);
    fields
}

/// Makes the fingerprint of a body; one that comes as such has no features to count.
pub(super) fn analyse(body: &Body) -> Result<Analysis> {
    let source = match body {
        Body::Text(text) => Source::Text(text),
        Body::Html(html) => Source::Html(html),
        Body::Features(features) => Source::Features(features),
        Body::Fingerprint(fingerprint) => {
            return Ok(Analysis {
                fingerprint: *fingerprint,
                features: None,
                tokens: 0,
                short: false,
                sketch: None,
            });
        }
    };
    Ok(text::analyse(source, Wanted::ALL)?)
}

/// Reads a file, or the standard input for `-`, as one document.
pub(super) fn read(path: &Path, html: bool) -> Result<Body> {
    let named = || format!("cannot read {}", path.display());
    bulk::read_document(path, html).with_context(named)?.ok_or_else(|| {
        let next = "name a text or an HTML file";
        Trouble::new(format!("{} is a binary file", path.display()), next).into()
    })
}

/// An argument that may be a fingerprint, a file, or (when it can be nothing else) a text.
pub(super) fn of_argument(argument: &str, html: bool, as_text: bool) -> Result<Body> {
    let verbatim = || {
        if html { Body::Html(argument.to_owned()) } else { Body::Text(argument.to_owned()) }
    };
    if as_text {
        return Ok(verbatim());
    }
    if let Ok(fingerprint) = argument.parse::<Fingerprint>() {
        return Ok(Body::Fingerprint(fingerprint));
    }
    let path = Path::new(argument);
    if argument == "-" || path.exists() {
        return read(path, html);
    }
    if argument.contains(char::is_whitespace) {
        return Ok(verbatim());
    }
    let what = format!("{argument:?} is neither a file nor a fingerprint of 16 hex digits");
    Err(Trouble::new(what, "to use the words themselves as a text, pass --text").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_file_name_is_not_taken_for_a_text() {
        assert!(of_argument("no-such-file.txt", false, false).is_err());
        assert_eq!(
            of_argument("no-such-file.txt", false, true).unwrap(),
            Body::Text("no-such-file.txt".to_owned())
        );
        assert_eq!(
            of_argument("a few words", false, false).unwrap(),
            Body::Text("a few words".to_owned())
        );
        assert_eq!(
            of_argument("0x00000000000000ff", false, false).unwrap(),
            Body::Fingerprint(Fingerprint::new(0xff))
        );
    }

    #[test]
    fn the_wire_form_has_the_id_and_one_body() {
        let features = Body::Features(vec![("b".to_owned(), 2.0), ("a".to_owned(), 0.5)]);
        assert_eq!(
            Value::Object(to_wire(Some("x"), &features)).to_string(),
            r#"{"id":"x","features":[["b",2.0],["a",0.5]]}"#
        );
        let bare = Body::Fingerprint(Fingerprint::new(1));
        assert_eq!(
            Value::Object(to_wire(None, &bare)).to_string(),
            r#"{"fingerprint":"0000000000000001"}"#
        );
    }
}

//! A document on the command line: where it comes from, its analysis, and its JSON.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use nearprint_engine::read_model;
use nearprint_files::Body;
use nearprint_fingerprint::Fingerprint;
use nearprint_text::{Analysis, Extract, Method, NoFingerprint, Source, Wanted};
use nearprint_text::{Recipe, UnknownRecipe};
use serde_json::{Map, Value, json};

use super::error_report::ErrorReport;

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
        Body::Vector(vector) => ("vector", json!(vector)),
        Body::Fingerprint(fingerprint) => ("fingerprint", json!(fingerprint.to_string())),
    };
    fields.insert(name.to_owned(), value);
    fields
}

/// How documents become fingerprints, on the command line.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct MethodArgs {
    /// The recipe that makes fingerprints: np2, np2-5, words-N[-stop], keywords-N[-wL],
    /// textrank-N[-wL], hyperplanes-D, spectral-D
    #[arg(long, value_name = "ID", default_value_t, value_parser = recipe)]
    recipe: Recipe,
    /// Which text of a page of HTML counts: content, visible or main (the article alone)
    #[arg(long, value_name = "TEXT", default_value = "content", value_parser = extract)]
    extract: Extract,
    /// The model of the recipe spectral-D
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
}

impl MethodArgs {
    pub(super) const fn recipe(&self) -> Recipe {
        self.recipe
    }

    /// The method, after reading its model, which stays in memory until the process ends.
    pub(super) fn method(&self) -> Result<Method> {
        let read = |file: &PathBuf| read_model(file, self.recipe);
        let model = self.model.as_ref().map(read).transpose()?;
        let model = model.map(|model| &*Box::leak(Box::new(model)));
        Ok(Method { recipe: self.recipe, extract: self.extract, model })
    }
}

fn recipe(id: &str) -> Result<Recipe, String> {
    id.parse().map_err(|unknown: UnknownRecipe| format!("recipes are {unknown}"))
}

fn extract(name: &str) -> Result<Extract, &'static str> {
    Extract::named(name).ok_or("it is content, visible or main")
}

/// Makes the fingerprint of a body; a bare fingerprint has no features to count.
pub(super) fn analyse(body: &Body, method: Method) -> Result<Analysis, NoFingerprint> {
    match source(body) {
        Ok(source) => nearprint_text::analyse(&source, method, Wanted::ALL),
        Err(fingerprint) => Ok(Analysis::bare(fingerprint)),
    }
}

/// The source of the fingerprint of a body, or the fingerprint that it is.
pub(super) fn source(body: &Body) -> Result<Source<'_>, Fingerprint> {
    match body {
        Body::Text(text) => Ok(Source::Text(text.into())),
        Body::Html(html) => Ok(Source::Html(html.into())),
        Body::Features(features) => Ok(Source::features(features)),
        Body::Vector(vector) => Ok(Source::Vector(vector.into())),
        Body::Fingerprint(fingerprint) => Err(*fingerprint),
    }
}

/// Reads a file, or the standard input for `-`, as one document.
pub(super) fn read(path: &Path, html: bool) -> Result<Body> {
    let named = || format!("cannot read {}", path.display());
    nearprint_files::read_document(path, html).with_context(named)?.ok_or_else(|| {
        let next = "name a text or an HTML file";
        ErrorReport::new(format!("{} is a binary file", path.display()), next).into()
    })
}

/// Reads a file whose text is JSON, such as features or a vector, with one of the parsers of
/// [`nearprint_files`].
pub(super) fn read_json(path: &Path, parse: fn(&str) -> Result<Body, String>) -> Result<Body> {
    let Body::Text(json) = read(path, false)? else {
        bail!("{} contains HTML, not JSON", path.display());
    };
    parse(&json).map_err(|why| anyhow!("{}: {why}", path.display()))
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
    Err(ErrorReport::new(what, "to use the words themselves as a text, pass --text").into())
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

//! A document on the command line: where it comes from, its analysis, and its JSON.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use nearprint_files::parse_vector;
use nearprint_fingerprint::Fingerprint;
use nearprint_text::{Analysis, Extract, Method, NoFingerprint, Recipe, UnknownRecipe, Wanted};
use nearprint_wire::offer::{Content, Fault};
use serde_json::{Map, Value};

use super::error_report::ErrorReport;
use crate::model;

/// The fields of a document in a request.
pub(super) fn to_wire(id: Option<&str>, content: &Content<'_>) -> Map<String, Value> {
    let id = id.map(|id| ("id".to_owned(), id.into()));
    id.into_iter().chain([(content.field().to_owned(), content.to_json())]).collect()
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

    /// The file of the model.
    pub(super) fn model(&self) -> Option<&Path> {
        self.model.as_deref()
    }

    /// The method, after reading its model, which stays in memory until the process ends.
    pub(super) fn method(&self) -> Result<Method> {
        let read = |file: &PathBuf| model::of_file(file, self.recipe).map_err(anyhow::Error::msg);
        let model = self.model.as_ref().map(read).transpose()?;
        Ok(Method { recipe: self.recipe, extract: self.extract, model })
    }
}

fn recipe(id: &str) -> Result<Recipe, String> {
    id.parse().map_err(|unknown: UnknownRecipe| format!("recipes are {unknown}"))
}

fn extract(name: &str) -> Result<Extract, &'static str> {
    Extract::named(name).ok_or("it is content, visible or main")
}

/// In which form documents are given.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct FormArgs {
    /// Read as HTML
    #[arg(long)]
    html: bool,
    /// Take the argument itself as a text
    #[arg(long)]
    text: bool,
    /// Read as JSON of a dense vector: [number, ...]
    #[arg(long, conflicts_with_all = ["html", "text"])]
    vector: bool,
}

impl FormArgs {
    /// The document that an argument names.
    ///
    /// # Errors
    /// It names none, or one of another form.
    pub(super) fn read(self, argument: &str) -> Result<Content<'static>> {
        if self.vector {
            return read_json(argument.as_ref(), parse_vector);
        }
        of_argument(argument, self.html, self.text)
    }
}

/// Makes the fingerprint of a document; a bare fingerprint has no features to count.
pub(super) fn analyse(content: &Content<'_>, method: Method) -> Result<Analysis, NoFingerprint> {
    match content.borrowed().into_source() {
        Ok(source) => nearprint_text::analyse(&source, method, Wanted::ALL),
        Err(fingerprint) => Ok(Analysis::bare(fingerprint)),
    }
}

/// Reads a file, or the standard input for `-`, as one document.
pub(super) fn read(path: &Path, html: bool) -> Result<Content<'static>> {
    let unread = |error: io::Error| {
        let next = if error.kind() == io::ErrorKind::IsADirectory {
            "name a file; `nearprint import`, `match` and `dedup` take folders"
        } else {
            "name a file that is there and that this user may read"
        };
        ErrorReport::new(format!("cannot read {}", path.display()), next).because(error)
    };
    nearprint_files::read_document(path, html).map_err(unread)?.ok_or_else(|| {
        let next = "name a text or an HTML file";
        ErrorReport::new(format!("{} is a binary file", path.display()), next).into()
    })
}

/// Reads a file whose text is JSON, such as features or a vector, with one of the parsers of
/// [`nearprint_files`].
pub(super) fn read_json(
    path: &Path,
    parse: fn(&str) -> Result<Content<'static>, Fault>,
) -> Result<Content<'static>> {
    let Content::Text(json) = read(path, false)? else {
        bail!("{} contains HTML, not JSON", path.display());
    };
    parse(&json).map_err(|fault| anyhow!("{}: {}", path.display(), fault.in_text(json.as_bytes())))
}

/// An argument that may be a fingerprint, a file, or (when it can be nothing else) a text.
fn of_argument(argument: &str, html: bool, as_text: bool) -> Result<Content<'static>> {
    let verbatim = || {
        if html {
            Content::Html(argument.to_owned().into())
        } else {
            Content::Text(argument.to_owned().into())
        }
    };
    if as_text {
        return Ok(verbatim());
    }
    if let Ok(fingerprint) = argument.parse::<Fingerprint>() {
        return Ok(Content::Fingerprint(fingerprint));
    }
    let path = Path::new(argument);
    if argument == "-" || path.exists() {
        return read(path, html);
    }
    if argument.contains(char::is_whitespace) && !looks_like_a_path(argument) {
        return Ok(verbatim());
    }
    let what = format!("{argument:?} is neither a file nor a fingerprint of 16 hex digits");
    Err(ErrorReport::new(what, "to use the words themselves as a text, pass --text").into())
}

/// Whether it begins like a path, or ends like the name of a file.
fn looks_like_a_path(argument: &str) -> bool {
    let begins = ["/", "./", "../", "~/"].iter().any(|start| argument.starts_with(start));
    let extension = Path::new(argument).extension().and_then(OsStr::to_str);
    let is_name = |ending: &str| ending.len() <= 8 && ending.chars().all(char::is_alphanumeric);
    begins || extension.is_some_and(|ending| !ending.is_empty() && is_name(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_file_name_is_not_taken_for_a_text() {
        for name in ["no-such-file.txt", "page 1.txt", "/tmp/no such file", "./no such file"] {
            assert!(of_argument(name, false, false).is_err(), "{name}");
        }
        for text in ["Two sentences. And an end.", "a few words ...", "3.5 is a number"] {
            let content = of_argument(text, false, false).unwrap();
            assert_eq!(content, Content::Text(text.into()));
        }
        assert_eq!(
            of_argument("no-such-file.txt", false, true).unwrap(),
            Content::Text("no-such-file.txt".into())
        );
        assert_eq!(
            of_argument("a few words", false, false).unwrap(),
            Content::Text("a few words".into())
        );
        assert_eq!(
            of_argument("0x00000000000000ff", false, false).unwrap(),
            Content::Fingerprint(Fingerprint::new(0xff))
        );
    }

    #[test]
    fn the_wire_form_has_the_id_and_one_body() {
        let features = Content::Features(vec![("b".into(), 2.0), ("a".into(), 0.5)]);
        assert_eq!(
            Value::Object(to_wire(Some("x"), &features)).to_string(),
            r#"{"id":"x","features":[["b",2.0],["a",0.5]]}"#
        );
        let bare = Content::Fingerprint(Fingerprint::new(1));
        assert_eq!(
            Value::Object(to_wire(None, &bare)).to_string(),
            r#"{"fingerprint":"0000000000000001"}"#
        );
    }
}

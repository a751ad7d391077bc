//! Real documents with their near-duplicates.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use nearprint::config::Config;
use nearprint_fingerprint::{Fingerprint, Sketch, Threshold};
use nearprint_machine::query::Verification;
use nearprint_text::Analysis;
use serde_json::Value;

/// The labelled files are large; this many documents of each are enough here.
const DOCUMENTS_MAX: usize = 400;

/// A text of the small corpus without its last characters is a near-duplicate.
const LAST_CHARACTERS: usize = 12;

/// The default distance and resemblance of a request.
static DEFAULTS: LazyLock<(u64, Threshold)> = LazyLock::new(|| {
    let query = Config::default().query;
    let least = Threshold::of_similarity(query.min_similarity);
    (query.distance, least.expect("verification is on"))
});

/// A text with its analysis.
pub(crate) struct Document {
    pub(crate) text: String,
    pub(crate) fingerprint: Fingerprint,
    short: bool,
    sketch: Option<Box<Sketch>>,
}

impl Document {
    /// Whether the default settings take it for a near-duplicate of a stored document: by the
    /// definition, without an index.
    pub(crate) fn is_near(&self, stored: &Self) -> bool {
        let distance = self.fingerprint.distance(stored.fingerprint);
        let verification = match (&self.sketch, &stored.sketch) {
            (Some(a), Some(b)) => {
                let (resemblance, numbers) = (a.resemblance(b), None);
                let confirmed = resemblance.reaches(DEFAULTS.1.resemblance);
                Verification::Compared { resemblance, numbers, confirmed }
            }
            _ => Verification::Unverifiable,
        };
        u64::from(distance.get()) <= DEFAULTS.0 && verification.counts(distance, self.short)
    }
}

/// The labelled documents where they are present, and otherwise the project's own small corpus; one
/// of each fingerprint, since a ledger knows a stored document by its fingerprint.
pub(crate) fn documents() -> Vec<Document> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let labelled = root.join("../shared/quality/dev");
    let texts = if labelled.is_dir() {
        let files = ["docs.jsonl", "short.jsonl"];
        files.map(|name| labelled_texts(&labelled.join(name))).concat()
    } else {
        own_texts(&root.join("tests/corpus"))
    };
    let documents = texts.into_iter().filter_map(|text| {
        let Analysis { fingerprint, short, sketch, .. } =
            nearprint_text::analyse_text(&text).ok()?;
        Some(Document { text, fingerprint, short, sketch })
    });
    let mut taken = HashSet::new();
    let documents: Vec<Document> =
        documents.filter(|document| taken.insert(document.fingerprint)).collect();
    assert!(documents.len() >= 100, "a corpus of {}", documents.len());
    documents
}

fn labelled_texts(file: &Path) -> Vec<String> {
    let text_of = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("a JSON object a line");
        line["text"].as_str().expect("with a text").to_owned()
    };
    let lines = read(file);
    lines.lines().take(DOCUMENTS_MAX).map(text_of).collect()
}

/// Some texts of many languages: too few, so each is joined with each other, in full and without
/// its end, which makes near-duplicates.
fn own_texts(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("tests/corpus is part of the project");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("readable").path())
        .filter(|file| file.extension().is_some_and(|ending| ending == "txt"))
        .collect();
    files.sort();
    let texts: Vec<String> = files.iter().map(|file| read(file)).collect();
    let pairs = texts.iter().flat_map(|a| texts.iter().map(move |b| (a, b)));
    pairs
        .flat_map(|(a, b)| {
            let whole = format!("{a}\n{b}");
            let most = whole.chars().count().saturating_sub(LAST_CHARACTERS);
            [whole.chars().take(most).collect(), whole]
        })
        .collect()
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

//! Real documents with their near-duplicates.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use nearprint::fingerprint::Fingerprint;
use nearprint::text;
use serde_json::Value;

/// The labelled documents are large; so many of each file are plenty here.
const DOCUMENTS_MAX: usize = 400;

/// A text and the fingerprint that it must have.
pub(crate) struct Document {
    pub(crate) text: String,
    pub(crate) fingerprint: Fingerprint,
}

/// The labelled documents where they are present, and otherwise the project's own small corpus.
pub(crate) fn documents() -> Vec<Document> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let labelled = root.join("../shared/quality/dev");
    let files = if labelled.is_dir() {
        vec![labelled.join("docs.jsonl"), labelled.join("short.jsonl")]
    } else {
        own_corpus(&root.join("tests/corpus"))
    };
    let documents: Vec<Document> = files.iter().flat_map(|file| read(file)).collect();
    assert!(documents.len() >= 20, "a corpus of {} documents", documents.len());
    documents
}

fn own_corpus(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("tests/corpus is part of the project");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "jsonl"));
    files.sort();
    files
}

fn read(file: &Path) -> Vec<Document> {
    let open = File::options().read(true).open(file);
    let open = open.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    BufReader::new(open)
        .lines()
        .filter_map(|line| {
            let line: Value = serde_json::from_str(&line.expect("readable")).expect("JSON");
            let text = line["text"].as_str().expect("a text").to_owned();
            let fingerprint = text::analyse_text(&text).ok()?.fingerprint;
            Some(Document { text, fingerprint })
        })
        .take(DOCUMENTS_MAX)
        .collect()
}

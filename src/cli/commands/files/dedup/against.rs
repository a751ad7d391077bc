//! The collection whose documents count as duplicates too.

use std::path::Path;

use anyhow::{Result, bail};
use nearprint_files::Entry;
use nearprint_files::dedup::scan::Known;
use serde_json::Value;

use crate::cli::collection::{self, Collection, Service};
use crate::cli::commands::files::dedup::args::DedupArgs;
use crate::cli::document;
use crate::cli::reply::Reply;

/// A collection that documents are looked up in.
pub(super) struct Against {
    collection: Collection,
    /// The route with its query parameters.
    path: String,
}

impl Against {
    /// Opens a service by its URL, or a data directory. The options say which documents are
    /// near-duplicates.
    ///
    /// # Errors
    /// There is no such directory, or it is in use, or the service does not reply.
    pub(super) fn open(name: &str, args: &DedupArgs) -> Result<Self> {
        let collection = if name.contains("://") {
            Collection::Service(Service::new(name, &args.credentials)?)
        } else {
            Collection::in_directory(Path::new(name), None)?
        };
        collection.check_ready()?;
        let path = collection::path(
            "/v1/query/batch",
            &[
                ("distance", Some(args.distance.to_string())),
                ("min_similarity", Some(args.min_similarity.to_string())),
                ("search", Some(args.search.name().to_owned())),
                ("counts", Some("false".to_owned())),
            ],
        );
        Ok(Self { collection, path })
    }

    /// For each document, the stored one that it is a duplicate of.
    ///
    /// # Errors
    /// The collection does not reply, or cannot compare documents of this kind.
    pub(super) fn find(&self, entries: &[Entry]) -> Result<Vec<Option<Known>>> {
        let lines: Vec<String> = entries.iter().map(line).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        self.collection.post_lines(&self.path, &lines)?.into_iter().map(stored).collect()
    }
}

/// A document as one line of a batch.
fn line(entry: &Entry) -> String {
    let mut fields = document::to_wire(None, &entry.content);
    let namespace = entry.passed.iter().find(|(name, _)| *name == "namespace");
    if let Some(namespace) = namespace.and_then(|(_, json)| serde_json::from_str(json).ok()) {
        fields.insert("namespace".to_owned(), namespace);
    }
    Value::Object(fields).to_string()
}

fn stored(reply: Reply) -> Result<Option<Known>> {
    match reply.error {
        Some(problem) if problem.code == "empty_document" => return Ok(None),
        Some(problem) => bail!("the collection cannot look for a document: {problem}"),
        None => {}
    }
    let hit = reply.hits.iter().find(|hit| hit.counts(reply.short));
    Ok(hit.map(|hit| Known {
        name: hit.name().into(),
        distance: hit.distance,
        similarity: hit.similarity,
    }))
}

//! The collection whose documents count as duplicates too.

use std::path::Path;

use anyhow::{Result, bail};
use nearprint_files::dedup::scan::Known;
use nearprint_files::{Entry, Raw};
use nearprint_service::Operation;
use nearprint_wire::answer::Answer;
use nearprint_wire::code::Code;

use crate::cli::collection::{BatchRequest, Collection, RemoteService};
use crate::cli::commands::files::dedup::args::DedupArgs;

/// A collection that documents are looked up in.
pub(super) struct Against {
    collection: Collection,
    request: BatchRequest,
}

impl Against {
    /// Opens a service by its URL, or a data directory. The options say which documents are
    /// near-duplicates.
    ///
    /// # Errors
    /// There is no such directory, or it is in use, or the service does not reply.
    pub(super) fn open(name: &str, args: &DedupArgs) -> Result<Self> {
        let collection = if name.contains("://") {
            Collection::Service(RemoteService::new(name, &args.client)?.into())
        } else {
            Collection::in_directory(Path::new(name), None)?
        };
        collection.check_ready()?;
        let options = vec![
            ("distance", Some(args.distance.to_string())),
            ("min_similarity", Some(args.min_similarity.to_string())),
            ("min_numbers", Some(args.min_numbers.to_string())),
            ("search", Some(args.search.name().to_owned())),
            ("counts", Some("false".to_owned())),
        ];
        let operation = Operation::Query;
        let request = BatchRequest { operation, options, shows_previous: false };
        Ok(Self { collection, request })
    }

    /// For each document, the stored one that it is a duplicate of.
    ///
    /// # Errors
    /// The collection does not reply, or cannot compare documents of this kind.
    pub(super) fn find(&self, entries: &[Entry]) -> Result<Vec<Option<Known>>> {
        let asked: Vec<Entry> = entries.iter().map(unnamed).collect();
        let asked: Vec<&Entry> = asked.iter().collect();
        self.collection.batch(&self.request, &asked)?.into_iter().map(stored).collect()
    }
}

/// A document without its id, whose own document in the collection would not count as a duplicate,
/// and without what a look-up does not take.
fn unnamed(entry: &Entry) -> Entry {
    let is_name = |json: &str| serde_json::from_str::<String>(json).is_ok();
    let passed = entry.passed.iter().filter(|(name, json)| *name == "namespace" && is_name(json));
    Entry { id: None, passed: passed.cloned().collect(), raw: Raw::None, ..entry.clone() }
}

fn stored(reply: Answer) -> Result<Option<Known>> {
    match reply.error {
        Some(problem) if problem.code() == Some(Code::EmptyDocument) => return Ok(None),
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

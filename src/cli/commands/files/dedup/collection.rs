//! A collection that documents are compared with: a service, or the directory of a stopped one.

use std::io::{BufRead as _, Cursor};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use nearprint_files::Entry;
use nearprint_files::dedup::scan::Known;
use serde_json::Value;

use crate::cli::client::{self, Client};
use crate::cli::commands::files::dedup::args::Args;
use crate::cli::document;
use crate::cli::error_report::ErrorReport;
use crate::cli::import::directory::ImportDirectory;
use crate::cli::reply::Reply;

enum Place {
    Service(Client),
    Directory(Box<ImportDirectory>),
}

/// A collection.
pub(super) struct Collection {
    place: Place,
    path: String,
}

impl Collection {
    /// Opens the directory, or makes a client. The options say which documents are near-duplicates.
    ///
    /// # Errors
    /// There is no such directory, or it is in use, or the service does not reply.
    pub(super) fn open(name: &str, args: &Args) -> Result<Self> {
        let place = if name.contains("://") {
            let client = Client::new(name, &args.credentials)?;
            client.copy("/readyz", &mut std::io::sink())?;
            Place::Service(client)
        } else {
            let path = Path::new(name);
            if !path.is_dir() {
                let what = format!("there is no directory {name}");
                let next = "name a data directory, or the URL of a service: http://127.0.0.1:7878";
                return Err(ErrorReport::new(what, next).into());
            }
            Place::Directory(Box::new(ImportDirectory::open(path, None)?))
        };
        let path = client::path(
            "/v1/query/batch",
            &[
                ("distance", Some(args.distance.to_string())),
                ("min_similarity", Some(args.min_similarity.to_string())),
                ("search", Some(args.search.name().to_owned())),
                ("counts", Some("false".to_owned())),
            ],
        );
        Ok(Self { place, path })
    }

    /// For each document, the stored one that it is a duplicate of.
    ///
    /// # Errors
    /// The collection does not reply, or cannot compare documents of this kind.
    pub(super) fn find(&self, entries: &[Entry]) -> Result<Vec<Option<Known>>> {
        let lines: Vec<String> = entries.iter().map(line).collect();
        let replies: Box<dyn std::io::BufRead> = match &self.place {
            Place::Service(client) => {
                Box::new(client.post_ndjson(&self.path, lines.join("\n").as_bytes())?)
            }
            Place::Directory(directory) => {
                let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                Box::new(Cursor::new(directory.post_ndjson(&self.path, &lines)?))
            }
        };
        let mut found = Vec::with_capacity(entries.len());
        for reply in replies.lines() {
            let reply = reply.context("the collection stopped in the middle of a reply")?;
            found.push(stored(serde_json::from_str(&reply)?)?);
        }
        if found.len() != entries.len() {
            bail!("the collection stopped in the middle of a reply");
        }
        Ok(found)
    }

    /// Closes a directory.
    pub(super) fn close(&self) {
        if let Place::Directory(directory) = &self.place {
            directory.close();
        }
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

//! `get`: what is stored under an id.

use std::io::{self, Write};

use anyhow::Result;
use nearprint_wire::answer::DocumentReply;
use nearprint_wire::code::Code;
use serde_json::value::RawValue;

use super::options::{NamespaceArgs, ReplyArgs};
use crate::cli::collection;
use crate::cli::measure::numbers::count;
use crate::cli::measure::times;
use crate::cli::printable::printable;

const AFTER_HELP: &str = "\
Exit codes:
  0  a document with this id is stored
  1  no document with this id is stored
  2  the look-up failed, or the arguments are invalid

Examples:
  nearprint get https://a.example/1
  nearprint get --namespace crawl-7 --json https://a.example/1";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct GetArgs {
    /// The id of the document
    id: String,
    #[command(flatten)]
    namespace: NamespaceArgs,
    #[command(flatten)]
    reply: ReplyArgs,
}

/// Returns whether there is such a document.
pub(crate) fn run(args: &GetArgs, out: &mut dyn Write) -> Result<bool> {
    let service = args.reply.service.open()?;
    // As it is: metadata may have numbers such as 1.50.
    let reply: Box<RawValue> = match service.get_json(&path(&args.id, &args.namespace)) {
        Ok(reply) => reply,
        Err(error) if collection::code_of(&error) == Some(Code::DocumentNotFound) => {
            say!("no document with this id is stored");
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let document = args.reply.read(&reply, out)?;
    if !args.reply.json {
        print(&document, out)?;
    }
    Ok(true)
}

pub(super) fn path(id: &str, namespace: &NamespaceArgs) -> String {
    let document = collection::item("/v1/documents", id);
    collection::path(&document, &[("namespace", namespace.name.clone())])
}

fn print(document: &DocumentReply<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut row = |name: &str, value: Option<&str>| match value {
        Some(value) => writeln!(out, "{name:<12}{}", printable(value)),
        None => Ok(()),
    };
    row("id", document.id.as_deref())?;
    row("namespace", document.namespace.as_deref())?;
    row("fingerprint", Some(&document.fingerprint.to_string()))?;
    row("recipe", document.recipe.as_deref())?;
    let kind = match (document.verifiable, document.short) {
        (true, true) => "a short text, which only equal fingerprints make a duplicate",
        (true, false) => "a text, so hits on it are verified",
        (false, _) => "without a text, so hits on it are not verified",
    };
    row("document", Some(kind))?;
    row("stored", Some(&times::shown_ms(Some(document.stored_at_ms))))?;
    let expires = document.expires_at.map(|second| times::shown(Some(second.into())));
    row("expires", expires.as_deref())?;
    let duplicates = document.duplicates.map(|duplicates| {
        let last = times::shown_ms(document.last_duplicate_at_ms);
        format!("{}, the last at {last}", count(duplicates.into()))
    });
    row("duplicates", duplicates.as_deref())?;
    row("metadata", document.metadata.as_ref().map(|json| json.get()))
}

//! The options that these commands share, and the requests that they make.

use std::io::{self, Write};

use anyhow::Result;
use clap::builder::NonEmptyStringValueParser;
use nearprint_service::Operation;
use nearprint_wire::offer::{ExpiresIn, IdSource};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::cli::collection::{Replied, ServiceArgs, foreign};
use crate::cli::commands::files::SearchRule;
use crate::cli::document::{self, FormArgs};
use crate::cli::import::options::expires_in;

/// The fields of a request.
pub(super) type Request = Map<String, Value>;

/// A document.
#[derive(Debug, clap::Args)]
pub(super) struct DocumentArgs {
    /// A file, a fingerprint of 16 hex digits, or a text of several words; - is the standard input
    #[arg(default_value = "-")]
    document: String,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    namespace: NamespaceArgs,
}

impl DocumentArgs {
    /// The request for this document.
    ///
    /// # Errors
    /// There is no such document.
    pub(super) fn request(&self) -> Result<Request> {
        let content = self.form.read(&self.document)?;
        let mut request = document::to_wire(None, &content);
        add(&mut request, "namespace", self.namespace.name.as_ref());
        Ok(request)
    }
}

/// The namespace of a document.
#[derive(Debug, clap::Args)]
pub(super) struct NamespaceArgs {
    /// The namespace; without it, the default one
    #[arg(long = "namespace", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(super) name: Option<String>,
}

/// What counts as a near-duplicate.
#[derive(Debug, clap::Args)]
pub(super) struct SearchArgs {
    /// The largest distance, 0 to the maximum of the service [default: that of the service]
    #[arg(long, value_name = "BITS")]
    distance: Option<u8>,
    /// How much of two texts must agree, 0 to 1; 0 does not compare them [default: that of the
    /// service]
    #[arg(long, value_name = "SIMILARITY")]
    min_similarity: Option<f64>,
    /// How many of their numbers two texts must share, 0 to 1; 0 does not compare them [default:
    /// that of the service]
    #[arg(long, value_name = "SHARE")]
    min_numbers: Option<f64>,
    /// How texts are searched: exact finds only what is within the distance; likely also similar
    /// texts beyond it [default: that of the service]
    #[arg(long, value_enum, value_name = "HOW")]
    search: Option<SearchRule>,
    /// Leave out documents that were stored longer ago than this
    #[arg(long, value_name = "SECONDS")]
    max_age: Option<u64>,
    /// The maximum number of hits to list
    #[arg(long, value_name = "COUNT")]
    limit: Option<u16>,
}

impl SearchArgs {
    /// Adds what is given to a request.
    pub(super) fn add_to(&self, request: &mut Request) {
        add(request, "distance", self.distance);
        add(request, "min_similarity", self.min_similarity);
        add(request, "min_numbers", self.min_numbers);
        add(request, "search", self.search.map(SearchRule::name));
        add(request, "max_age", self.max_age);
        add(request, "limit", self.limit);
    }
}

/// What is stored with a document.
#[derive(Debug, clap::Args)]
pub(super) struct StoringArgs {
    /// The id of the document, such as its URL
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Make the id of the document
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "id")]
    id_from: Option<IdSource>,
    /// A JSON object to keep with the document; hits show it
    #[arg(long, value_name = "JSON", value_parser = object)]
    metadata: Option<Value>,
    /// Forget the document after this time; `never` takes off the expiry of one that is stored
    /// already
    #[arg(long, value_name = "SECONDS", value_parser = expires_in)]
    expires_in: Option<ExpiresIn>,
}

impl StoringArgs {
    /// Adds what is given to a request.
    pub(super) fn add_to(&self, request: &mut Request) {
        add(request, "id", self.id.as_ref());
        add(request, "id", self.id_from.map(|source| json!({"from": source.name()})));
        add(request, "metadata", self.metadata.as_ref());
        add(
            request,
            "expires_in",
            self.expires_in.map(|expiry| match expiry {
                ExpiresIn::Seconds(seconds) => json!(seconds),
                ExpiresIn::Never => json!("never"),
            }),
        );
    }
}

/// The service that a command asks, and the form in which its reply is printed.
#[derive(Debug, clap::Args)]
pub(super) struct ReplyArgs {
    #[command(flatten)]
    pub(super) service: ServiceArgs,
    /// Print the reply of the service as it is
    #[arg(long)]
    pub(super) json: bool,
}

impl ReplyArgs {
    /// Sends a document, and reads the reply.
    ///
    /// # Errors
    /// The service refuses it, or cannot be reached.
    pub(super) fn send(
        &self,
        operation: Operation,
        request: &Request,
        is_quiet: bool,
        out: &mut dyn Write,
    ) -> Result<Replied> {
        let service = self.service.open()?;
        let service = if is_quiet { service.quiet() } else { service };
        let replied = service.document(operation, request)?;
        self.print(&replied.json, out)?;
        Ok(replied)
    }

    /// Reads a reply, and prints it as it is if that was asked for.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        reply: &RawValue,
        out: &mut dyn Write,
    ) -> Result<T> {
        let read = serde_json::from_str(reply.get()).map_err(foreign)?;
        self.print(reply, out)?;
        Ok(read)
    }

    fn print(&self, reply: &RawValue, out: &mut dyn Write) -> io::Result<()> {
        if self.json { writeln!(out, "{reply}") } else { Ok(()) }
    }
}

/// Adds a field that has a value.
pub(super) fn add(request: &mut Request, name: &str, value: Option<impl serde::Serialize>) {
    request.extend(value.map(|value| (name.to_owned(), json!(value))));
}

/// Reads a JSON object.
fn object(text: &str) -> Result<Value, String> {
    let read: Result<Map<String, Value>, _> = serde_json::from_str(text);
    read.map(Value::Object).map_err(|error| format!("it takes a JSON object: {error}"))
}

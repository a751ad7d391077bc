//! The options of an import.

use clap::builder::NonEmptyStringValueParser;
use nearprint_files::{
    BatchOptions, BodyKind, Charset, FingerprintFormat, Format, Mapping, Quoting, ReadOptions,
};
use nearprint_wire::offer::{DuplicateAction, ExpiresIn, FieldValue as _, IdSource, Value};

use crate::cli::commands::files::SearchRule;

/// How each document is stored.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ImportOptions {
    /// The namespace of documents whose record names none; the default one without it
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) namespace: Option<String>,
    /// Forget documents after this time, if their record does not say when; `never` keeps them, and
    /// takes the expiry off those that are stored already
    #[arg(long, value_name = "SECONDS", value_parser = expires_in)]
    pub(crate) expires_in: Option<ExpiresIn>,
    /// Make ids for documents without one. A document without an id that is imported again is
    /// stored again
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) id_from: Option<IdSource>,
    /// Look for near-duplicates first, and do not store a document that is one
    #[arg(long)]
    pub(crate) check: bool,
    /// With --check: what to do with a duplicate
    #[arg(
        long,
        value_enum,
        value_name = "ACTION",
        default_value_t = DuplicateAction::Skip,
        requires = "checking",
    )]
    pub(crate) on_duplicate: DuplicateAction,
    /// With --check: the largest distance of a near-duplicate
    #[arg(long, value_name = "BITS", requires = "checking")]
    pub(crate) distance: Option<u8>,
    /// With --check: how much of two texts must agree, 0 to 1; 0 does not compare them
    #[arg(long, value_name = "SIMILARITY", requires = "checking")]
    pub(crate) min_similarity: Option<f64>,
    /// With --check: how many of their numbers two texts must share, 0 to 1; 0 does not compare
    /// them
    #[arg(long, value_name = "SHARE", requires = "checking")]
    pub(crate) min_numbers: Option<f64>,
    /// With --check: how texts are searched: exact finds only what is within the distance; likely
    /// also similar texts beyond it
    #[arg(long, value_enum, value_name = "HOW", requires = "checking")]
    pub(crate) search: Option<SearchRule>,
    /// How many hits each reply lists
    #[arg(skip = 1_u16)]
    pub(crate) limit: u16,
}

/// Reads `--expires-in`.
pub(crate) fn expires_in(text: &str) -> Result<ExpiresIn, String> {
    let read = ExpiresIn::read(Value::Parameter(text)).ok();
    let read = read.filter(|expiry| *expiry != ExpiresIn::Seconds(0));
    read.ok_or_else(|| "it takes a whole number of seconds, 1 or more, or `never`".to_owned())
}

/// Reads `--delimiter`.
fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => Ok(*byte),
        _ => Err("it must be one ASCII character other than a quote or a line end".to_owned()),
    }
}

/// Which fields of records are what, and how files are read.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Fields and formats")]
pub(crate) struct ReadingArgs {
    /// The format of the files, whatever their names and first bytes say
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The field or column with the id [found: id, url, uri, warc-target-uri]. A path of names with
    /// dots between them leads into objects: meta.url
    #[arg(long, value_name = "FIELD")]
    id: Option<String>,
    /// The field with the text [found: text, content, body, `raw_content`]
    #[arg(long, value_name = "FIELD", group = "content")]
    text: Option<String>,
    /// The field with HTML [found: html]
    #[arg(long, value_name = "FIELD", group = "content")]
    html: Option<String>,
    /// The field with a dense vector, an array of numbers [found: vector]
    #[arg(long, value_name = "FIELD", group = "content")]
    vector: Option<String>,
    /// The field with a fingerprint, 16 hex digits or an integer [found: fingerprint]
    #[arg(long, value_name = "FIELD", group = "content")]
    fingerprint: Option<String>,
    /// How fingerprints are written in texts and cells [default: a sample of each file decides]
    #[arg(long, value_enum, value_name = "HOW")]
    fingerprint_format: Option<FingerprintFormat>,
    /// The encoding of tables, lines and texts, such as windows-1252 or utf-16le [default: UTF-8,
    /// or UTF-16 with its byte order mark]
    #[arg(long, value_name = "LABEL")]
    charset: Option<Charset>,
    /// Delimiter of CSV cells, if the first line does not show it: |, \t or another ASCII character
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter)]
    delimiter: Option<u8>,
    /// How cells of CSV and TSV are quoted [default: double; in TSV, a sample of each file decides]
    #[arg(long, value_enum, value_name = "HOW")]
    quote: Option<Quoting>,
    /// The field with the namespace of each document [found: namespace]
    #[arg(long, value_name = "FIELD")]
    namespace_field: Option<String>,
}

impl ReadingArgs {
    /// The format that the command line names.
    pub(crate) const fn format(&self) -> Option<Format> {
        self.format
    }
}

impl From<ReadingArgs> for ReadOptions {
    fn from(reading: ReadingArgs) -> Self {
        let body = [
            (BodyKind::Text, reading.text),
            (BodyKind::Html, reading.html),
            (BodyKind::Vector, reading.vector),
            (BodyKind::Fingerprint, reading.fingerprint),
        ];
        let body = body.into_iter().find_map(|(kind, field)| Some((kind, field?)));
        let mapping = Mapping {
            id: reading.id,
            body,
            namespace: reading.namespace_field,
            metadata: Vec::new(),
        };
        Self {
            format: reading.format,
            mapping,
            charset: reading.charset,
            delimiter: reading.delimiter,
            quoting: reading.quote,
            fingerprints: reading.fingerprint_format,
            ..Self::default()
        }
    }
}

/// What follows when a record cannot be read or stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnError {
    /// It is counted and reported, and the command goes on with the next one
    Skip,
    /// The command ends there with an error
    Stop,
}

impl OnError {
    /// The batches that are sent together. The service replies while it reads; a batch of this many
    /// bytes and its replies fit in the buffers of a connection, so that the two sides cannot
    /// deadlock.
    pub(crate) fn batches(self) -> BatchOptions {
        BatchOptions { items_max: 256, bytes_max: 512 << 10, stops_at_errors: self == Self::Stop }
    }
}

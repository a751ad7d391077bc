//! The options of an import.

use std::num::NonZero;

use clap::builder::NonEmptyStringValueParser;

/// How each document is stored.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// The namespace of documents whose line names none; the default one without it
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) namespace: Option<String>,
    /// Forget documents after this time, if their line does not say when
    #[arg(long, value_name = "SECONDS")]
    pub(crate) expires_in: Option<NonZero<u64>>,
    /// Make ids for documents without one. A document without an id that is imported again is
    /// stored again
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) id_from: Option<IdFrom>,
    /// Look for near-duplicates first, and do not store a document that is one
    #[arg(long)]
    pub(crate) check: bool,
    /// With --check: what to do with a duplicate
    #[arg(long, value_enum, default_value_t = OnDuplicate::Skip, requires = "checking")]
    pub(crate) on_duplicate: OnDuplicate,
    /// With --check: the largest distance of a near-duplicate
    #[arg(long, value_name = "BITS", requires = "checking")]
    pub(crate) distance: Option<u8>,
    /// With --check: how much of two texts must agree, 0 to 1; 0 switches the check off
    #[arg(long, value_name = "PART", requires = "checking")]
    pub(crate) min_similarity: Option<f64>,
    /// How many hits each reply lists
    #[arg(skip = 1_u16)]
    pub(crate) limit: u16,
}

/// What the service makes an id of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum IdFrom {
    /// The fingerprint: of all documents with equal fingerprints, the last one is kept
    Fingerprint,
    /// The text: only documents with equal texts have one id
    TextHash,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnDuplicate {
    /// It is not stored
    Skip,
    /// It is stored as well
    Insert,
}

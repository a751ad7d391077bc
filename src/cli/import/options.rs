//! The options of an import.

/// How each document is stored.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnDuplicate {
    /// It is not stored
    Skip,
    /// It is stored as well
    Insert,
}

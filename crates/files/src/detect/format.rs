//! The formats that there are readers for.

use std::path::Path;

use super::names::NameKind;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Format {
    /// A JSON object a line.
    Ndjson,
    /// A JSON array of objects.
    Json,
    /// A table with a header, its cells separated by commas, or by semicolons or tabs if the header
    /// has no comma.
    Csv,
    /// A table with a header, its cells separated by tabs.
    Tsv,
    /// Parquet.
    Parquet,
    /// A web archive (WARC, WET).
    Warc,
    /// A fingerprint of 16 hex digits a line, alone, before a tab and an id, or behind an id and a
    /// space.
    Hex,
    /// A text a line.
    Lines,
    /// The whole file is one document.
    Document,
}

impl Format {
    /// Whether a file at `path` may have this format by its name. A name without a known ending
    /// promises nothing.
    pub fn fits_name(self, path: &Path) -> bool {
        match NameKind::of(path) {
            NameKind::Ndjson => self == Self::Ndjson,
            NameKind::Json => matches!(self, Self::Json | Self::Ndjson),
            NameKind::Csv => self == Self::Csv,
            NameKind::Tsv => self == Self::Tsv,
            NameKind::Parquet => self == Self::Parquet,
            NameKind::Warc => self == Self::Warc,
            NameKind::Text
            | NameKind::Html
            | NameKind::Hex
            | NameKind::Foreign(_)
            | NameKind::Other => true,
        }
    }

    /// The value of `--format` that stands for it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Parquet => "parquet",
            Self::Warc => "warc",
            Self::Hex => "hex",
            Self::Lines => "lines",
            Self::Document => "document",
        }
    }
}

//! The command line of `dedup`.

use std::path::PathBuf;
use std::str::FromStr;

use nearprint_files::dedup::choice::KeepBy;
use nearprint_files::dedup::grouping;
use nearprint_fingerprint::Distance;

use crate::cli::collection::ClientArgs;
use crate::cli::commands::files::scanning::SearchRule;
use crate::cli::document::MethodArgs;
use crate::cli::import::options::{OnError, ReadingArgs};
use crate::cli::measure::arguments::{bytes, distance, similarity};
use crate::config::Config;

const AFTER_HELP: &str = "\
Exit codes:
  0  every record was read
  1  some records could not be read, or could not be copied, or there is no copy
  2  invalid arguments
  3  nothing was read: the files are empty

Examples:
  nearprint dedup dump.jsonl -o unique.jsonl
  nearprint dedup crawl/ -o unique/
  nearprint dedup dump.jsonl --groups groups.parquet --pairs pairs.csv
  nearprint dedup dump.jsonl -o new.jsonl --against nearprint-data
  zcat dump.gz | nearprint dedup - -o unique.jsonl.zst";

#[derive(Debug, clap::Args)]
#[command(
    after_help = AFTER_HELP,
    group = clap::ArgGroup::new("what").args(["output", "groups", "pairs", "dry_run"]).multiple(true).required(true),
)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct DedupArgs {
    /// Files, folders and patterns ('*.warc.gz'), as for import; - is the standard input. They are
    /// read twice; what comes from the standard input is kept in a temporary file meanwhile
    #[arg(value_name = "PATH", required = true)]
    pub(super) paths: Vec<PathBuf>,
    /// Write the records that are kept to this file, unchanged. All inputs must have one format; a
    /// name that ends with .gz, .zst, .bz2 or .xz compresses it. A name that ends with a slash is a
    /// folder, which gets a file for each input. It appears only when it is complete
    #[arg(short, long, value_name = "FILE|FOLDER/")]
    pub(super) output: Option<PathBuf>,
    /// Write all records, each with the fields `duplicate_of`, `distance`, `similarity` and `group`
    #[arg(long, requires = "output")]
    pub(super) mark: bool,
    /// Write a revisit record for each page of a web archive that is dropped, so that its address
    /// leads to the page that is kept
    #[arg(long, requires = "output", conflicts_with = "mark")]
    pub(super) revisit: bool,
    /// Write the groups to this file: NDJSON, or CSV or Parquet, by its name, with a row for each
    /// document
    #[arg(long, value_name = "FILE")]
    pub(super) groups: Option<PathBuf>,
    /// Write the pairs to this file: NDJSON, CSV or Parquet, by its name
    #[arg(long, value_name = "FILE")]
    pub(super) pairs: Option<PathBuf>,
    /// Read everything, but write no file
    #[arg(long, conflicts_with_all = ["output", "groups", "pairs"])]
    pub(super) dry_run: bool,
    /// Also drop near-duplicates of documents in this collection: the address of a service, with
    /// its scheme, or the data directory of a stopped one
    #[arg(long, value_name = "URL|DIR")]
    pub(super) against: Option<String>,
    #[command(flatten)]
    pub(super) client: ClientArgs,
    /// Which document of a group to keep: first, last, longest, max:FIELD (with the largest number
    /// in it), none
    #[arg(long, value_name = "RULE", default_value = "first")]
    pub(super) keep: KeepRule,
    /// The largest distance of two near-duplicates
    #[arg(long, value_name = "BITS", value_parser = distance, default_value_t = grouping::DISTANCE_DEFAULT)]
    pub(super) distance: Distance,
    /// How much of two texts must agree, 0 to 1; 0 does not compare them
    #[arg(long, value_name = "SIMILARITY", value_parser = similarity, default_value_t = Config::default().query.min_similarity)]
    pub(super) min_similarity: f64,
    /// How many of their numbers two texts must share, 0 to 1; 0 does not compare them
    #[arg(long, value_name = "SHARE", value_parser = similarity, default_value_t = Config::default().query.min_numbers)]
    pub(super) min_numbers: f64,
    /// How texts are searched: exact finds only what is within the distance; likely also finds
    /// similar texts beyond it, which their sketches confirm
    #[arg(long, value_enum, value_name = "HOW", default_value_t = SearchRule::Likely)]
    pub(super) search: SearchRule,
    #[command(flatten)]
    pub(super) method: MethodArgs,
    /// How many threads make fingerprints and search [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub(super) threads: Option<u16>,
    /// Take at most this much memory: 500m, 16g. Documents that cannot be searched at once within
    /// it are searched in parts, which takes longer [default: what is free]
    #[arg(long, alias = "memory-max", value_name = "BYTES", value_parser = bytes)]
    pub(super) max_memory: Option<u64>,
    /// Leave records that cannot be read out of the copy, which otherwise has them as they are
    #[arg(long, requires = "output")]
    pub(super) drop_unreadable: bool,
    /// What to do about a record that cannot be read
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = OnError::Skip)]
    pub(super) on_error: OnError,
    /// Print the summary as a JSON object
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) reading: ReadingArgs,
}

/// The value of `--keep`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeepRule {
    pub(super) keep: KeepBy,
    pub(super) field: Option<String>,
}

impl FromStr for KeepRule {
    type Err = &'static str;

    fn from_str(rule: &str) -> Result<Self, Self::Err> {
        let of = |keep| Ok(Self { keep, field: None });
        match rule {
            "first" => of(KeepBy::First),
            "last" => of(KeepBy::Last),
            "longest" => of(KeepBy::Longest),
            "none" => of(KeepBy::None),
            _ => match rule.strip_prefix("max:") {
                Some(field) if !field.is_empty() => {
                    Ok(Self { keep: KeepBy::Largest, field: Some(field.to_owned()) })
                }
                _ => Err("it is first, last, longest, max:FIELD or none"),
            },
        }
    }
}

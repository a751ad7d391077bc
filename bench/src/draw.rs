//! `nearprint-bench draw` and `sums`: data for other programs, on standard output.
//!
//! `draw` writes the fingerprints that the benches store, so that other engines can be measured on
//! the same ones. `sums` writes what `bench/quality/fit_model.py` fits its model to.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use nearprint::cli::measure::arguments::count;
use nearprint_fingerprint::Fingerprint;
use nearprint_text::{Explained, Method, Source};

use crate::arguments::Drawn;
use crate::data::Fresh;
use crate::pages;
use crate::progress::Progress;

/// The lengths of the passages that a model is fitted to, in bytes.
const PASSAGE_BYTES: std::ops::Range<u64> = 600..8_192;

/// The arguments of `draw`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many fingerprints
    #[arg(long, value_name = "N", default_value = "1m", value_parser = count)]
    count: u64,
    #[command(flatten)]
    drawn: Drawn,
    /// Write fingerprints that are drawn anew from the source of those that this seed stores
    #[arg(long, value_name = "N", value_parser = count)]
    fresh: Option<u64>,
    /// The seed; the same seed draws the same again
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write eight bytes each, little-endian, instead of lines of 16 hex digits
    #[arg(long)]
    packed: bool,
}

/// The arguments of `sums`.
#[derive(Debug, clap::Args)]
pub(super) struct SumsArgs {
    /// Files and folders of texts, of each of which an equal number of passages is taken
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// How many passages at most
    #[arg(long, value_name = "N", default_value = "50k", value_parser = count)]
    count: u64,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let progress = Progress::during("drawing fingerprints");
    let stored = args.drawn.stored(args.count, args.seed);
    drop(progress);
    let mut write = |fingerprint: Fingerprint| {
        if args.packed {
            out.write_all(&fingerprint.bits().to_le_bytes())
        } else {
            writeln!(out, "{fingerprint}")
        }
    };
    match args.fresh {
        None => stored.all().try_for_each(&mut write)?,
        Some(count) => {
            let fresh = Fresh::like(&stored, args.seed);
            (0..count).map(|place| fresh.at(place)).try_for_each(&mut write)?;
        }
    }
    Ok(())
}

/// Writes the 64 sums of each passage: `i32`, little-endian, that of bit 0 first. The magnitudes
/// are those of the recipe, whose scale differs from text to text.
pub(super) fn sums(args: &SumsArgs, out: &mut dyn Write) -> Result<()> {
    let passages = pages::found(&args.paths, args.count as usize, &PASSAGE_BYTES)?;
    let mut written = 0;
    for passage in &passages {
        let source = Source::Text(passage.into());
        let Ok(explained) = Explained::of(&source, Method::default()) else { continue };
        if explained.analysis().short {
            continue;
        }
        // The sums of whole weights are whole.
        for sum in explained.sums() {
            out.write_all(&(*sum as i32).to_le_bytes())?;
        }
        written += 1;
    }
    ensure!(written > 0, "no passage has a sketch, and so none has sums");
    Ok(())
}

//! The arguments that several benches share.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use crate::data::Stored;
use nearprint::bulk::{Body, Documents, Format};
use nearprint::cli::measure::arguments::{count, distance};
use nearprint::fingerprint::{Distance, Fingerprint};

/// The default number of stored fingerprints.
const COUNT_DEFAULT: u64 = 1_000_000;

/// The stored fingerprints and the look-ups.
#[derive(Debug, clap::Args)]
pub(super) struct Data {
    /// How many fingerprints are stored; several sizes are measured one after the other: 1m,10m
    /// [default: 1m, or all of --file]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = count)]
    count: Vec<u64>,
    /// The distances of the look-ups, each on an index made for it
    #[arg(
        long,
        value_name = "BITS",
        value_delimiter = ',',
        default_value = "3",
        value_parser = distance
    )]
    pub(super) distance: Vec<Distance>,
    /// The seed of data and queries; the same seed repeats a run
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Store these fingerprints (16 hex digits a line) instead of random ones
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

impl Data {
    /// The fingerprints to store, one set for each size.
    pub(super) fn stored(&self) -> Result<Vec<Stored>> {
        let Some(file) = &self.file else {
            let random = |&count: &u64| Stored::random(count, self.seed);
            return Ok(self.counts().iter().map(random).collect());
        };
        let all = of_file(file.clone())?;
        let whole = [all.len() as u64];
        let counts = if self.count.is_empty() { &whole[..] } else { &self.count };
        let first = |&count: &u64| {
            Stored::listed("of the file", &all, count).with_context(|| {
                format!("--count {count}, but {} holds {}", file.display(), all.len())
            })
        };
        counts.iter().map(first).collect()
    }

    /// The sizes of the command line, or the default.
    pub(super) fn counts(&self) -> &[u64] {
        if self.count.is_empty() { &[COUNT_DEFAULT] } else { &self.count }
    }
}

/// The fingerprints of a file; at least one.
fn of_file(file: PathBuf) -> Result<Arc<[Fingerprint]>> {
    let named = format!("cannot read {} as a list of fingerprints", file.display());
    let mut all = Vec::new();
    for entry in Documents::new(vec![file], Format::Hex) {
        if let Body::Fingerprint(fingerprint) = entry.with_context(|| named.clone())?.body {
            all.push(fingerprint);
        }
    }
    ensure!(!all.is_empty(), "{named}: there is none in it");
    Ok(all.into())
}

/// Reads a number of threads; at least 1.
pub(super) fn threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|&threads| threads > 0);
    threads.ok_or_else(|| "is not a number of threads from 1 on".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_never_zero() {
        assert_eq!((threads("2"), threads("0").is_err()), (Ok(2), true));
    }
}

//! The arguments that several benches share.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use nearprint::cli::measure::arguments::{count, distance};
use nearprint_files::{Documents, Format};
use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_wire::offer::Content;

use crate::data::Stored;

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
    /// Store these fingerprints (16 hex digits a line) instead of drawn ones
    #[arg(long, value_name = "FILE", conflicts_with = "like")]
    file: Option<PathBuf>,
    #[command(flatten)]
    drawn: Drawn,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

/// What drawn fingerprints are like.
#[derive(Debug, clap::Args)]
pub(super) struct Drawn {
    /// Whether fingerprints are random, or as crowded as those of text
    #[arg(long, value_enum, default_value_t = Like::Random)]
    pub(super) like: Like,
    /// Of fingerprints like text, the share that belongs to families of near-copies: 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.2, value_parser = share)]
    pub(super) families: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Like {
    /// Each bit is a fair coin
    Random,
    /// Drawn from a model of real text
    Text,
}

impl Drawn {
    /// As many as `count`.
    pub(super) fn stored(&self, count: u64, seed: u64) -> Stored {
        match self.like {
            Like::Random => Stored::random(count, seed),
            Like::Text => Stored::like_text(count, self.families, seed),
        }
    }
}

impl Data {
    /// The fingerprints to store, one set for each size, each drawn when it is its turn.
    pub(super) fn stored(&self) -> Result<impl Iterator<Item = Stored>> {
        let list = self.file.clone().map(of_file).transpose()?;
        let counts = match &list {
            Some(list) if self.count.is_empty() => vec![list.len() as u64],
            _ => self.counts().to_vec(),
        };
        if let (Some(list), Some(file)) = (&list, &self.file) {
            let fits = |&count: &u64| count <= list.len() as u64;
            let over = counts.iter().find(|count| !fits(count));
            if let Some(count) = over {
                bail!("--count {count}, but {} holds {}", file.display(), list.len());
            }
        }
        Ok(counts.into_iter().map(move |count| match &list {
            Some(list) => Stored::listed("of the file", list, count),
            None => self.drawn.stored(count, self.seed),
        }))
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
        if let Content::Fingerprint(fingerprint) = entry.with_context(|| named.clone())?.content {
            all.push(fingerprint);
        }
    }
    ensure!(!all.is_empty(), "{named}: there is none in it");
    Ok(all.into())
}

/// Reads a share of a whole.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "is not a share from 0 to 1".into())
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

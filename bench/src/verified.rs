//! `nearprint-bench verified`: single queries with sketches, whose hits are verified from the
//! journal.
//!
//! The stored documents form families, each document with an id and a sketch. Their fingerprints
//! are within three bits of a center. Every other one has the sketch of its family, the rest have
//! their own (like the false neighbours in a large collection). The engine is queried as for a
//! text: half of the queries have the center and sketch of a family, so that the records of all its
//! members are read and compared; half match nothing. The journal is in the page cache, because it
//! was just written.

use std::collections::VecDeque;
use std::path::PathBuf;

use anyhow::Result;
use nearprint::cli::measure::arguments::{count, distance};
use nearprint::cli::measure::numbers::{per_second, ratio};
use nearprint_engine::document::{Document, DocumentId};
use nearprint_engine::{Admission, QueryOptions};
use nearprint_fingerprint::{Distance, Fingerprint, Sketch, Threshold};
use nearprint_machine::query::{Criteria, Hit, Verification};
use tokio::runtime;

use crate::clock::Stopwatch;
use crate::data::Dice;
use crate::latency::Latencies;
use crate::limits;
use crate::progress::Progress;
use crate::random::Stream;
use crate::report::{Report, Row};
use crate::scratch::{Driven, Scratch, index_bytes};
use crate::verify::Verdict;

/// The number of documents in a family.
const FAMILY: u64 = 10;

/// Writes waiting for their sync at a time.
const WRITES_AHEAD: usize = 4_096;

/// The similarity that confirms a hit: the service's default.
const MIN_SIMILARITY: f64 = 0.83;

/// The arguments of `bench verified`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many documents are stored
    #[arg(long, value_name = "N", default_value = "1m", value_parser = count)]
    count: u64,
    /// The distance of the look-ups, for which the index is made; at least 3
    #[arg(long, value_name = "BITS", default_value = "6", value_parser = distance)]
    distance: Distance,
    /// How many queries
    #[arg(long, value_name = "N", default_value = "200k", value_parser = count)]
    queries: u64,
    /// The seed of documents and queries; the same seed repeats a run
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Make the data directory below this one; it is removed at the end [default: .]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

/// The stored documents: families of similar ones.
struct Families {
    centers: Stream,
    members: Stream,
    sketches: Stream,
}

impl Families {
    fn of(seed: u64) -> Self {
        let stream = |purpose| Stream::of(purpose, seed);
        Self {
            centers: stream("centers"),
            members: stream("members"),
            sketches: stream("sketches"),
        }
    }

    fn center(&self, family: u64) -> Fingerprint {
        Fingerprint::new(self.centers.number(family))
    }

    fn document(&self, place: u64) -> Document {
        let (family, member) = (place / FAMILY, place % FAMILY);
        let bits = self.members.number(place);
        // One of six bits that no other member flips, and two of the highest four.
        let flips = 1 << (6 * member + bits % 6)
            | 1 << (60 + (bits >> 8 & 3))
            | 1 << (60 + (bits >> 16 & 3));
        let sketch =
            if is_true(member) { self.sketch(2 * family) } else { self.sketch(2 * place + 1) };
        Document {
            id: Some(DocumentId::new(format!("https://example.org/{place}")).expect("a short id")),
            sketch: Some(Box::new(sketch)),
            ..Document::bare(Fingerprint::new(self.center(family).bits() ^ flips))
        }
    }

    /// A sketch of a text of hundreds of words, one for each number; two have little in common.
    fn sketch(&self, number: u64) -> Sketch {
        let mut bytes = [0; Sketch::BYTES];
        for (i, chunk) in (0..).zip(bytes.chunks_exact_mut(8)) {
            chunk.copy_from_slice(&self.sketches.number(16 * number + i).to_le_bytes());
        }
        Sketch::from_bytes(&bytes)
    }
}

/// Whether a member has the sketch of its family.
const fn is_true(member: u64) -> bool {
    member.is_multiple_of(2)
}

pub(super) fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("verified", args.seed);
    let scratch = Scratch::below(args.data_dir.as_deref())?;
    let families = Families::of(args.seed);
    // Whole families, at least one.
    let count = args.count.div_ceil(FAMILY) * FAMILY;
    let driven = Driven::open(&scratch.settings("verified", args.distance)?)?;
    fill(&driven, &families, count)?;
    let stats = driven.settle()?;
    let bytes = ratio(index_bytes(&stats), count);
    for (what, planted) in [("query with verified hits", true), ("query without a hit", false)] {
        let (times, verdict, ns) = ask(args, (&driven, &families), count, planted)?;
        let row = Row::new(what, count).at(args.distance);
        let row = row.rate(per_second(times.count(), ns), "queries").times(&times, "a query");
        report.results.push(Row { index_bytes_a_fingerprint: Some(bytes), ..row });
        report.verified(verdict);
    }
    driven.close();
    report.limits = limits::measure(&[index_bytes(&stats)]);
    Ok(report)
}

/// Stores all documents and waits until they are on the disk.
fn fill(driven: &Driven, families: &Families, count: u64) -> Result<()> {
    let progress = Progress::of("storing documents", count);
    let runtime = runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let mut under_way = VecDeque::new();
        for place in 0..count {
            let document = families.document(place);
            under_way.push_back(driven.engine.begin_insert(document, Admission::Wait).await?);
            if under_way.len() == WRITES_AHEAD {
                for pending in under_way.drain(..WRITES_AHEAD / 2) {
                    pending.wait().await?;
                }
                progress.at(place);
            }
        }
        for pending in under_way {
            pending.wait().await?;
        }
        Ok(())
    })
}

/// Asks one query after the other: latencies, whether they were right, and the time of all.
fn ask(
    args: &Args,
    (driven, families): (&Driven, &Families),
    count: u64,
    planted: bool,
) -> Result<(Latencies, Verdict, u64)> {
    let _progress = Progress::during("asking");
    let criteria = Criteria {
        threshold: Threshold::of_similarity(MIN_SIMILARITY),
        ..Criteria::within(args.distance)
    };
    let options = QueryOptions { criteria, limit: FAMILY as usize, with_metadata: false };
    let mut dice = Dice::of("queries", args.seed);
    let strangers = Stream::of("strangers", args.seed);
    let (mut times, mut verdict) = (Latencies::new(), Verdict::default());
    let runtime = runtime::Builder::new_current_thread().build()?;
    let all = Stopwatch::start();
    runtime.block_on(async {
        for number in 0..args.queries {
            let family = dice.within(0..count / FAMILY);
            let fingerprint = if planted {
                families.center(family)
            } else {
                Fingerprint::new(strangers.number(number))
            };
            let sketch = Some(Box::new(families.sketch(2 * family)));
            let document = Document { sketch, ..Document::bare(fingerprint) };
            let begun = Stopwatch::start();
            let findings = driven.engine.query(&document, options).await?;
            times.record(begun.ns());
            let confirmed = |hit: &&Hit| {
                matches!(hit.verification, Verification::Compared { confirmed: true, .. })
            };
            let counting = findings.hits.iter().filter(confirmed).count();
            let hits = if planted { FAMILY } else { 0 };
            verdict.add(Verdict {
                checked: 1,
                hits,
                missed: hits.saturating_sub(findings.hit_count as u64),
                wrong: u64::from(counting as u64 != hits / 2),
            });
        }
        anyhow::Ok(())
    })?;
    Ok((times, verdict, all.ns()))
}

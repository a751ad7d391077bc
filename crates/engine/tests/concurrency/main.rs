//! Many clients on one engine, in this process: one winner a cluster, verdicts that are those of a
//! sequential replay in the order of `sequence`, and clients that go away.
//!
//! `NEARPRINT_TEST_RUNS` multiplies the number of runs and operations (1; 50 in `make torture`).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod abandoned;
mod clusters;
mod replay;

#[path = "../common/options.rs"]
mod common;
#[path = "../../../../tests/support/random.rs"]
mod random;

use std::path::Path;
use std::time::Duration;

use nearprint_engine::{Durability, Engine, Options, QueryOptions};
use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_machine::document::{Document, DocumentId};
use nearprint_machine::query::Criteria;
use random::{Random, variable};

/// A hang is a failure; nothing here waits a second for one answer.
const DEADLINE: Duration = Duration::from_mins(2);

const DISTANCE: u8 = 3;

fn distance() -> Distance {
    Distance::new(DISTANCE).expect("at most 64")
}

fn criteria() -> Criteria {
    Criteria::within(distance())
}

fn query_options() -> QueryOptions {
    QueryOptions { criteria: criteria(), limit: 1_000, with_metadata: false }
}

/// Deltas so small that searches grow old and segments are merged, some in partitions, while
/// clients wait.
fn engine(directory: &Path, durability: Durability) -> Engine {
    let options = Options {
        durability,
        small_segment_max: 4_096,
        group_changes_max: 4_096,
        journal_file_bytes: 4 << 20,
        snapshot_interval_ms: 500,
        ..common::options(directory)
    };
    Engine::open(options).expect("an empty directory opens")
}

fn document(id: Option<String>, bits: u64) -> Document {
    let id = id.map(|id| DocumentId::new(id).expect("a short id"));
    Document { id, ..Document::bare(Fingerprint::new(bits)) }
}

/// The factor on the number of runs and operations.
fn runs() -> u64 {
    variable("NEARPRINT_TEST_RUNS").unwrap_or(1)
}

//! Ten million random fingerprints in memory: how long they take to index and to look up.
//!
//! `cargo run --release -p nearprint-index --example near -- [COUNT]`

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example measures and prints"
)]

use std::time::Instant;

use nearprint_index::{Distance, Fingerprint, InMemoryIndex};

const LOOKUPS: u32 = 100_000;

fn main() {
    let count = std::env::args().nth(1).map_or(10_000_000, |count| count.parse().expect("a count"));
    let three = Distance::new(3).expect("at most 64");

    let begun = Instant::now();
    let index = InMemoryIndex::of_fingerprints(three, (0..count).map(random));
    println!("indexed {} fingerprints in {:.1?}", index.len(), begun.elapsed());

    // Each query is a stored fingerprint with two bits changed.
    let query =
        |number: u32| Fingerprint::new(random(number % count).bits() ^ 0b101 << (number % 60));
    let begun = Instant::now();
    let found = (0..LOOKUPS).map(|number| index.near(query(number), three).len()).sum::<usize>();
    println!("{LOOKUPS} look-ups, {found} found: {:.0?} each", begun.elapsed() / LOOKUPS);

    let queries: Vec<Fingerprint> = (0..LOOKUPS).map(query).collect();
    let begun = Instant::now();
    let found = index.nearest(&queries, three).iter().flatten().count();
    println!("{LOOKUPS} in a batch, {found} found: {:.0?} each", begun.elapsed() / LOOKUPS);
}

/// The number-th output of `SplitMix64`.
fn random(number: u32) -> Fingerprint {
    let z = u64::from(number).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Fingerprint::new(z ^ (z >> 31))
}

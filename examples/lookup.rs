//! Measures look-ups of an index in process: `cargo run --release --example lookup [count]`.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement reads the clock and prints"
)]

use std::sync::Arc;
use std::time::Instant;

use nearprint::fingerprint::{Distance, Fingerprint};
use nearprint::index::lookup::Lookup;
use nearprint::index::permutation::Permutation;
use nearprint::index::view::{Shape, View};

fn main() {
    let count: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(10_000_000);
    let distance: u8 = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(3);
    let distance = Distance::new(distance).expect("below 64");
    let shape = Shape {
        distance_max: distance,
        delta_events: 65_536,
        permutation: Arc::new(Permutation::from_secret(42)),
    };
    let begun = Instant::now();
    let view =
        View::filled(shape, (0..count as u32).map(|i| Fingerprint::new(random(u64::from(i)))));
    println!("built in {:.2} s", begun.elapsed().as_secs_f64());
    let bytes: u64 =
        view.segments().iter().map(|s| s.bytes().total()).sum::<u64>() + view.others_bytes();
    println!(
        "{:.2} bytes each; {:?}",
        bytes as f64 / count as f64,
        view.segments()[0].table().geometry()
    );
    let queries: Vec<Fingerprint> = (0..1_000_000)
        .map(|i| if i % 2 == 0 { random(i * 7 % count) ^ (1 << (i % 64)) } else { random(!i) })
        .map(Fingerprint::new)
        .collect();
    for _ in 0..3 {
        let mut lookup = Lookup::default();
        let begun = cpu_ns();
        let hits = queries
            .iter()
            .filter(|&&query| !view.near_with(&mut lookup, query, distance).is_empty())
            .count();
        let one = (cpu_ns() - begun) / queries.len() as u64;
        let begun = cpu_ns();
        let found = view.nearest(&queries, distance).flatten().count();
        let batch = (cpu_ns() - begun) / queries.len() as u64;
        println!("one query {one} ns, in a batch {batch} ns, {hits} and {found} hits");
    }
}

/// Time of this thread on a core: other work on the machine does not count, but for the caches.
fn cpu_ns() -> u64 {
    let read = std::fs::read_to_string("/proc/self/schedstat").expect("a Linux kernel");
    read.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds first")
}

/// A random bijection of the numbers (`SplitMix64`).
fn random(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

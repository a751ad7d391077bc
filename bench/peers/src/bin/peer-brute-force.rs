//! Brute force: every stored fingerprint is compared. The floor under all indexes, in memory and
//! in simplicity; built for this very processor, the loop is some vector instructions.

use nearprint_peers::{Bench, DISTANCE, Failure};

fn main() -> Result<(), Failure> {
    let mut bench = Bench::from_arguments()?;
    let stored = bench.build(|data| Ok(data.all().collect::<Vec<u64>>()))?;
    let near = |query: u64, other: u64| (query ^ other).count_ones() <= DISTANCE;
    bench.check(|query, found| {
        found.extend(stored.iter().copied().filter(|&other| near(query, other)));
    });
    bench.one_by_one(|query| stored.iter().filter(|&&other| near(query, other)).count());
    bench.report("brute force", "a linear scan");
    Ok(())
}

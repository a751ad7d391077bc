//! mih-rs: multi-index hashing after Norouzi, Punjani and Fleet.
//!
//! Settings: the number of blocks; without them it chooses by the size, as its documentation
//! advises. Its answers are places in what was stored.

use mih_rs::Index;
use nearprint_peers::{Bench, DISTANCE, Failure};

fn main() -> Result<(), Failure> {
    let mut bench = Bench::from_arguments()?;
    let blocks = bench.settings().map(str::parse).transpose()?;
    let index = bench.build(|data| {
        let codes: Vec<u64> = data.all().collect();
        Ok(match blocks {
            Some(blocks) => Index::with_blocks(codes, blocks)?,
            None => Index::new(codes)?,
        })
    })?;
    let data = bench.data();
    let mut searcher = index.range_searcher();
    bench.check(|query, found| {
        let places = searcher.run(query, DISTANCE as usize);
        found.extend(places.iter().map(|&place| data.stored(place.into())));
    });
    bench.one_by_one(|query| searcher.run(query, DISTANCE as usize).len());
    bench.report("mih-rs", format_args!("{} blocks", index.num_blocks()));
    Ok(())
}

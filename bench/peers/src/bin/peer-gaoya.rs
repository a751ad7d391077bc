//! gaoya: the permuted tables of Manku, Jain and Das Sarma as hash maps.
//!
//! Settings: blocks and distance, `6,4` without them. gaoya answers with what is *below* its
//! distance, so 4 finds everything up to 3, and it has to be 4 for the tables to be exact; the
//! blocks decide between few tables with large buckets and many with small ones. Ids are `u32`, the
//! smallest that hold the places.

use gaoya::simhash::SimHashIndex;
use nearprint_peers::{Bench, DISTANCE, Failure};

fn main() -> Result<(), Failure> {
    let mut bench = Bench::from_arguments()?;
    let settings = bench.settings().unwrap_or("6,4").to_owned();
    let (blocks, below) = settings.split_once(',').ok_or("settings are BLOCKS,DISTANCE")?;
    let (blocks, below): (usize, usize) = (blocks.parse()?, below.parse()?);
    if below <= DISTANCE as usize {
        return Err(format!("with {below} nothing at distance {DISTANCE} is found").into());
    }
    let index = bench.build(|data| {
        let mut index = SimHashIndex::<u64, u32>::new(blocks, below);
        for (id, fingerprint) in (0..).zip(data.all()) {
            index.insert(id, fingerprint);
        }
        Ok(index)
    })?;
    let data = bench.data();
    bench.check(|query, found| {
        found.extend(index.query(&query).into_iter().map(|&id| data.stored(id.into())));
    });
    bench.one_by_one(|query| index.query(&query).len());
    bench.batch(|queries, hits| {
        let answers = index.par_bulk_query(&queries.to_vec());
        hits.extend(answers.iter().map(|ids| !ids.is_empty()));
    });
    bench.report("gaoya", format_args!("{blocks} blocks, distance below {below}"));
    Ok(())
}

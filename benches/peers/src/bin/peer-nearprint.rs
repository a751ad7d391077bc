//! nearprint itself, in process: a view as readers of the service load it.

use std::sync::Arc;

use nearprint::fingerprint::{Distance, Fingerprint};
use nearprint::index::merge;
use nearprint::index::permutation::Permutation;
use nearprint::index::view::{Put, Shape, View};
use nearprint_peers::{Bench, DISTANCE, Data, Failure};

fn main() -> Result<(), Failure> {
    let distance = distance();
    let mut bench = Bench::from_arguments()?;
    let view = bench.build(|data| Ok(build(data.count, data.seed)))?;
    bench.check(|query, found| {
        let near = view.near(Fingerprint::new(query), distance);
        found.extend(near.iter().map(|near| near.fingerprint.bits()));
    });
    bench.one_by_one(|query| view.near(Fingerprint::new(query), distance).len());
    bench.batch(|queries, hits| {
        let queries: Vec<Fingerprint> = queries.iter().copied().map(Fingerprint::new).collect();
        hits.extend(view.nearest(&queries, distance).map(|nearest| nearest.is_some()));
    });
    let largest = view.segments().iter().max_by_key(|segment| segment.documents());
    let plan = largest.map_or("no segment".to_owned(), |segment| segment.plan().to_string());
    bench.report("nearprint", plan);
    Ok(())
}

/// The index over the fingerprints that this seed draws, settled as after a pause of the writes.
fn build(count: u64, seed: u64) -> View {
    let distance = distance();
    let mut view = View::new(Shape {
        distance_max: distance,
        delta_events: 65_536,
        permutation: Arc::new(Permutation::from_secret(seed)),
    });
    for fingerprint in (Data { count, seed }).all() {
        view.put(Fingerprint::new(fingerprint), Put::default());
        while let Some(delta) = view.full_deltas().first() {
            let segment = Arc::new(delta.at(u32::MAX).to_segment());
            view.install_oldest_delta(segment);
            let sizes: Vec<u64> = view.segments().iter().map(|s| merge::size(s)).collect();
            if let Some(range) = merge::choose(&sizes, merge::RATIO) {
                let from = view.segments()[range.clone()].to_vec();
                let merged = merge::merge(&from, distance, range.start == 0);
                view.install_merged(&from, &Arc::new(merged));
            }
        }
    }
    let all = view.segments().to_vec();
    view.install_merged(&all, &Arc::new(merge::merge(&all, distance, true)));
    view
}

fn distance() -> Distance {
    Distance::new(DISTANCE as u8).expect("below 64")
}

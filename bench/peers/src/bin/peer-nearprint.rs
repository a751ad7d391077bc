//! nearprint itself, in process: a view as readers of the service load it.

use std::sync::Arc;

use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_index::permutation::Permutation;
use nearprint_index::plan::SMALL_MAX;
use nearprint_index::view::{Shape, View};
use nearprint_index::visibility::Visibility;
use nearprint_peers::{Bench, DISTANCE, Data, Failure};

fn main() -> Result<(), Failure> {
    let distance = distance();
    let mut bench = Bench::from_arguments()?;
    let view = bench.build(|data| Ok(build(data)))?;
    bench.check(|query, found| {
        let near = view.near(Fingerprint::new(query), distance, &Visibility::DEFAULT);
        found.extend(near.iter().map(|near| near.fingerprint.bits()));
    });
    bench.one_by_one(|query| {
        view.near(Fingerprint::new(query), distance, &Visibility::DEFAULT).len()
    });
    bench.batch(|queries, hits| {
        let queries: Vec<Fingerprint> = queries.iter().copied().map(Fingerprint::new).collect();
        hits.extend(
            view.nearest(&queries, distance, Visibility::DEFAULT).map(|nearest| nearest.is_some()),
        );
    });
    bench.report("nearprint", view.plans().for_count(view.documents()).to_string());
    Ok(())
}

/// The index over the fingerprints, as after a pause of the writes.
fn build(data: Data) -> View {
    let distance = distance();
    let permutation = Arc::new(Permutation::from_secret(data.seed));
    let shape = Shape {
        distance_max: distance,
        delta_events: 32_768,
        small_max: SMALL_MAX,
        permutation,
        has_labels: true,
    };
    View::filled(shape, data.count, data.all().map(Fingerprint::new))
}

fn distance() -> Distance {
    Distance::new(DISTANCE as u8).expect("below 64")
}

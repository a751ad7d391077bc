//! Promise: statistics cost little while millions arrive, and report what they leave out. Method:
//! more fingerprints than are counted at once; statistics before and after a count.

#[path = "common/options.rs"]
mod common;

use nearprint_engine::{Admission, Engine, Options};
use nearprint_fingerprint::Fingerprint;

const STORED: u64 = 1_200_000;
const TWICE: u64 = 1_000;

#[tokio::test(flavor = "multi_thread")]
async fn millions_are_told_apart_later() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { delta_events: 32_768, ..common::options(directory.path()) };
    let engine = Engine::open(options).unwrap();
    let spread = |i: u64| Fingerprint::new(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for first in (0..STORED + TWICE).step_by(8_192) {
        // The last ones are the first ones again.
        let last = (first + 8_192).min(STORED + TWICE);
        let chunk: Vec<_> = (first..last).map(|i| spread(i % STORED)).collect();
        let pending = engine.begin_insert_packed(chunk, Admission::Wait).await.unwrap();
        pending.wait().await.unwrap();
    }
    let stats = engine.stats();
    assert_eq!(stats.documents, STORED + TWICE);
    assert!(stats.fingerprints == 0 && stats.uncounted >= STORED, "{stats:?}");
    // A snapshot contains the number. Segments that were merged while it was counted are counted
    // again by the next one.
    while engine.stats().uncounted > 0 {
        engine.snapshot().await.unwrap();
    }
    let stats = engine.stats();
    assert_eq!((stats.fingerprints, stats.uncounted), (STORED, 0));
    engine.close();
    let reopened = Engine::open(common::options(directory.path())).unwrap();
    let stats = reopened.stats();
    assert_eq!((stats.fingerprints, stats.uncounted), (STORED, 0));
    reopened.close();
}

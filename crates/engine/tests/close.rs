//! Promise: closing the engine answers every write in the queue, however full it is. Method: a
//! queue that fills many deltas, closed at once; the real threads and a real disk. Also: a
//! directory keeps the settings that it was created with.

#[path = "common/options.rs"]
mod common;

use std::time::Duration;

use nearprint_engine::{Admission, Engine, Options};
use nearprint_fingerprint::recipe::Recipe;
use nearprint_fingerprint::{Distance, Fingerprint};

/// A hang is a failure; nothing here takes a second.
const DEADLINE: Duration = Duration::from_mins(1);

fn options(directory: &std::path::Path) -> Options {
    Options { delta_events: 256, group_changes_max: 4_096, ..common::options(directory) }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_in_a_full_queue_are_answered_when_the_engine_closes() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::open(options(directory.path())).unwrap();
    let mut pending = Vec::new();
    for first in (0..65_536_u64).step_by(4_096) {
        let chunk: Vec<_> =
            (first..first + 4_096).map(|bits| Fingerprint::new(bits << 20)).collect();
        pending.push(engine.begin_insert_packed(chunk, Admission::Wait).await.unwrap());
    }
    let closing = tokio::task::spawn_blocking(move || engine.close());
    tokio::time::timeout(DEADLINE, closing).await.expect("closing ends").unwrap();
    for write in pending {
        assert_eq!(write.wait().await.map(|answer| answer.inserted), Ok(4_096));
    }
    let reopened = Engine::open(options(directory.path())).unwrap();
    assert_eq!(reopened.stats().documents, 65_536);
    reopened.close();
}

#[test]
fn a_directory_keeps_the_recipe_and_the_distance_it_was_created_with() {
    let directory = tempfile::tempdir().unwrap();
    Engine::open(options(directory.path())).unwrap().close();
    let refused =
        |options| Engine::open(options).map(|engine| engine.close()).unwrap_err().to_string();
    let recipe = Recipe::Words { in_a_row: 2, without_stop_words: false };
    let error = refused(Options { recipe, ..options(directory.path()) });
    assert!(error.contains("recipe = np2") && error.contains("words-2"), "{error}");
    assert!(error.contains("set data.recipe to np2"), "{error}");
    let distance_max = Distance::new(6).unwrap();
    let error = refused(Options { distance_max, ..options(directory.path()) });
    assert!(error.contains("set data.distance_max to 3"), "{error}");
    Engine::open(options(directory.path())).unwrap().close();
}

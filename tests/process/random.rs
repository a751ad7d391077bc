//! Seeds of a run: a failing one prints its seed and replays with `NEARPRINT_TEST_SEED`.
//!
//! What the threads of a process do to each other does not replay, but which requests they send
//! and when the server is killed does.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

pub(crate) use crate::support::random::{Random, variable};

impl Random {
    /// The seed of `NEARPRINT_TEST_SEED`, or a fresh one; prints it.
    #[expect(clippy::print_stdout, reason = "the seed repeats the run")]
    pub(crate) fn of_run() -> Self {
        let seed = variable("NEARPRINT_TEST_SEED")
            .unwrap_or_else(|| RandomState::new().build_hasher().finish());
        println!("NEARPRINT_TEST_SEED={seed}");
        Self(seed)
    }
}

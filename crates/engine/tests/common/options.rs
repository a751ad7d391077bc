//! The engine as most tests want it: small deltas and files, nothing taken by the clock.

use std::path::Path;

use nearprint_engine::Options;
use nearprint_fingerprint::recipe::Recipe;

pub(crate) fn options(data: &Path) -> Options {
    Options {
        delta_events: 1_024,
        journal_file_bytes: 1 << 20,
        snapshot_interval_ms: 600_000,
        snapshot_changes: 1 << 30,
        disk_free_bytes_min: 0,
        clock_behind_ms_max: None,
        expired_kept_ms: 0,
        ..Options::new(data, Recipe::Np2)
    }
}

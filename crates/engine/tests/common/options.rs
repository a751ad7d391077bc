//! The engine as most tests want it: small deltas and files, nothing taken by the clock.

use std::path::Path;

use nearprint_engine::{Durability, ModelCheck, Options, SMALL_SEGMENT_MAX};
use nearprint_fingerprint::Distance;
use nearprint_fingerprint::recipe::Recipe;

pub(crate) fn options(data: &Path) -> Options {
    Options {
        data: data.to_owned(),
        recipe: Recipe::Np2,
        model_file: None,
        model_check: ModelCheck::default(),
        distance_max: Distance::new(3).expect("at most 64"),
        has_labels: true,
        lookup_threads: 0,
        list_threads: 0,
        list_scan_max: 20_000,
        durability: Durability::Always,
        delta_events: 1_024,
        small_segment_max: SMALL_SEGMENT_MAX,
        queue_changes_max: 65_536,
        group_changes_max: 16_384,
        journal_file_bytes: 1 << 20,
        snapshot_interval_ms: 600_000,
        snapshot_changes: 1 << 30,
        memory_bytes_max: 0,
        originals_max: 1_000_000,
        groups_kept_max: 8,
        groups_memory_bytes_max: 1 << 30,
        disk_free_bytes_min: 0,
        clock_behind_ms_max: None,
        expired_kept_ms: 0,
        follows: false,
        is_node: false,
    }
}

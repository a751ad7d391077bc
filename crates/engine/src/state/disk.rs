//! The disk as the watcher has seen it last: whether it is full, and whether it can be used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use arc_swap::{ArcSwap, ArcSwapOption};
use nearprint_storage::Disk;

use crate::api::replies::DiskStats;

/// What the watcher has seen last.
#[derive(Debug, Default)]
pub(crate) struct DiskState {
    /// Writes that add documents are refused.
    pub(crate) is_full: AtomicBool,
    /// Space is reclaimed early.
    pub(crate) is_short: AtomicBool,
    /// Removals have used their share of the reserve, and wait for what is being reclaimed.
    pub(crate) is_low: AtomicBool,
    /// How many bytes must be free for writes that add documents.
    pub(crate) needed: AtomicU64,
    /// Of the snapshot that is being written, these bytes are on the disk.
    pub(crate) snapshot_begun_bytes: Arc<AtomicU64>,
    /// The last sweep did not fit.
    pub(crate) sweep_failed: AtomicBool,
    /// The last snapshot did not fit.
    pub(crate) snapshot_failed: AtomicBool,
    pub(crate) stats: ArcSwap<DiskStats>,
    /// Why the directory cannot be used any more.
    pub(crate) fault: ArcSwapOption<String>,
}

impl DiskState {
    pub(crate) fn new(disk: &dyn Disk, snapshot_begun_bytes: Arc<AtomicU64>) -> Self {
        let free_bytes = disk.free_bytes().unwrap_or(u64::MAX);
        let stats = DiskStats { free_bytes, ..DiskStats::default() };
        let fault = ArcSwapOption::from_pointee(disk.fault());
        let stats = ArcSwap::from_pointee(stats);
        Self { snapshot_begun_bytes, stats, fault, ..Self::default() }
    }
}

//! The watcher: the thread that looks at the disk, independently of what other threads wait for.
//!
//! It compares the free space with what must always fit, so that a full disk can be emptied by
//! removing documents: the next snapshot, the next pack of a sweep, and the records of removals.
//! Writes that add documents are refused below that. It also notices when the directory or files in
//! it are removed: the process could write to them for ever, and a restart would find nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use nearprint_storage::{Disk, Records, StorageError};

use crate::api::replies::{DiskStats, Freeing};
use crate::directory_file;
use crate::shared::{Life, Shared};
use crate::threads::reclaimer::step;

/// How often it looks at the free space.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// It looks at the files every so many times.
const FILES_EVERY: u32 = 10;
/// A removal takes this many times the bytes of its record: in the journal, and in a snapshot as a
/// removal of the index.
const REMOVAL_SHARE: u64 = 3;
/// Space is short, and reclaimed early, when less than one part in this many is free above what is
/// needed.
const SHORT_SHARE: u64 = 4;
/// Writes resume when one part in this many of what is needed is free above it, or
/// [`RESUME_BYTES_MAX`], so that they do not stop and resume with every file.
const RESUME_SHARE: u64 = 16;
const RESUME_BYTES_MAX: u64 = 8 << 20;

/// Looks until `stop` closes. `records` are those of the journal as they are now.
pub(crate) fn run(shared: &Shared, disk: &dyn Disk, records: &Records, stop: &Receiver<()>) {
    let mut looks = 0_u32;
    loop {
        if shared.life() == Life::Running {
            look_at_space(shared, disk, records);
            if looks.is_multiple_of(FILES_EVERY) {
                look_at_files(shared, disk, records);
            }
        }
        looks = looks.wrapping_add(1);
        if !matches!(stop.recv_timeout(LOOK_EVERY), Err(RecvTimeoutError::Timeout)) {
            return;
        }
    }
}

/// What must be free for writes that add documents, and what of it removals may use. A snapshot
/// that is being written takes the space that was kept for it.
fn needed(shared: &Shared, records: &Records) -> (u64, u64) {
    let view = &shared.published.load().view;
    let removals = REMOVAL_SHARE * step(shared);
    let namespaces = view.namespaces().bytes() as u64;
    let index = view.settled_bytes() + view.temporary_bytes();
    let begun = shared.disk.snapshot_begun_bytes.load(Ordering::Relaxed);
    let snapshot = (index + view.delta_bytes() + namespaces).saturating_sub(begun);
    // The longest file that a sweep rewrites, and what the pack has already.
    let pack = records.extent().bytes.min(shared.options.journal_file_bytes) + step(shared);
    let needed = snapshot.saturating_add(pack).saturating_add(removals);
    (needed.max(shared.options.disk_free_bytes_min), removals)
}

fn look_at_space(shared: &Shared, disk: &dyn Disk, records: &Records) {
    let (needed, removals) = needed(shared, records);
    // If the free space is unknown, the next write finds out whether the disk is full.
    let free = disk.free_bytes().unwrap_or(u64::MAX);
    let state = &shared.disk;
    let was_full = state.is_full.load(Ordering::Relaxed);
    let resume = if was_full { (needed / RESUME_SHARE).min(RESUME_BYTES_MAX) } else { 0 };
    let is_full = free < needed.saturating_add(resume);
    let is_short = is_full || free < needed.saturating_add(needed / SHORT_SHARE);
    let stats = DiskStats { free_bytes: free, needed_bytes: needed, freeing: freeing(shared) };
    let before = state.stats.swap(Arc::new(stats));
    state.needed.store(needed, Ordering::Relaxed);
    state.is_short.store(is_short, Ordering::Relaxed);
    state.is_low.store(free < needed.saturating_sub(removals), Ordering::Relaxed);
    state.is_full.store(is_full, Ordering::Relaxed);
    if is_full && !(was_full && before.freeing == stats.freeing) {
        let explanation = stats.freeing.explanation();
        tracing::warn!(free, needed, explanation, "the disk is full, and writes are refused");
    } else if was_full && !is_full {
        tracing::info!(free, needed, "the disk has space, and writes are accepted again");
    }
}

/// What is done to free space, or why nothing is.
fn freeing(shared: &Shared) -> Freeing {
    let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
    if is_set(&shared.disk.sweep_failed) {
        Freeing::NoSpaceToSweep
    } else if is_set(&shared.disk.snapshot_failed) {
        Freeing::NoSpaceForSnapshot
    } else if is_set(&shared.reclaim_wanted) {
        Freeing::Reclaiming
    } else {
        Freeing::NothingToReclaim
    }
}

/// Notices that files are gone, or that nothing can be written any more.
fn look_at_files(shared: &Shared, disk: &dyn Disk, records: &Records) {
    let looked = match disk.fault() {
        None => missing_file(disk, records),
        fault => Ok(fault),
    };
    let fault = match looked {
        Ok(fault) => fault,
        // It cannot look now; what it saw before stands.
        Err(error) if error.is_out_of_files() => return,
        Err(error) => Some(error.to_string()),
    };
    let before = shared.disk.fault.swap(fault.clone().map(Arc::new));
    match (before, fault) {
        (None, Some(fault)) => tracing::error!(
            fault,
            "the data directory cannot be used, and writes are refused; look-ups go on"
        ),
        (Some(_), None) => tracing::info!("the data directory can be used again"),
        (None, None) | (Some(_), Some(_)) => {}
    }
}

/// Names the first record file that is gone; the file that identifies the directory counts as one.
fn missing_file(disk: &dyn Disk, records: &Records) -> Result<Option<String>, StorageError> {
    let expected = || {
        let files = records.files().into_iter().map(|file| file.name);
        files.chain([directory_file::NAME.to_owned()])
    };
    let before: HashSet<String> = expected().collect();
    let listed: HashSet<String> = disk.list()?.into_iter().collect();
    // A sweep may have replaced files meanwhile.
    let is_missing = |name: &String| before.contains(name) && !listed.contains(name);
    let missing: Vec<String> = expected().filter(is_missing).collect();
    let (count, all) = (missing.len(), before.len());
    Ok(missing.first().map(|first| format!("{first} is gone ({count} of {all} files)")))
}

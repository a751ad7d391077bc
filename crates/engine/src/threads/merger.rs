//! The merger: the thread that merges segments and secondary tables.
//!
//! It reads the published view, builds next to it, and sends each result to the writer, which
//! installs it between two groups. Neither readers nor the writer wait for it. The compaction
//! policy ([`nearprint_index::compaction::policy`]) chooses what it merges.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use nearprint_index::compaction::policy::Load;
use nearprint_index::memory::file::catch_unreadable;

use crate::api::blocking::lower_priority;
use crate::api::clock;
use crate::api::error::storage_error;
use crate::shared::{Life, Merging, Shared, ToWriter};
use crate::threads::pause::Writes;

/// How often it checks whether there is something to merge.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long it waits after a merge that failed: the disk may be full, or a page damaged.
const RETRY_AFTER: Duration = Duration::from_mins(1);

/// The niceness of merges: they get a third of a core that look-ups could use fully.
const MERGE_NICENESS: i32 = 5;

/// Merges whatever the policy names, until `stop` closes.
pub(crate) fn run(shared: &Arc<Shared>, stop: &Receiver<()>) {
    // A merge delays look-ups on the same core.
    lower_priority(MERGE_NICENESS);
    let (mut writes, mut retry_at) = (Writes::new(shared), clock::now());
    while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(LOOK_EVERY) {
        let load = writes.load(shared);
        if clock::now() < retry_at {
            continue;
        }
        loop {
            match merge_once(shared, load) {
                Ok(true) => {}
                Ok(false) => break,
                Err(MergeFailed) => {
                    retry_at = clock::now() + RETRY_AFTER;
                    break;
                }
            }
        }
    }
}

/// A file of the index could not be read or written, or the disk has no room for one.
struct MergeFailed;

/// Does a merge, if one is due; returns whether it did.
fn merge_once(shared: &Arc<Shared>, load: Load) -> Result<bool, MergeFailed> {
    let work = {
        // Waits while the flusher merges, so that the two never choose the same segments.
        let mut merging = shared.merging();
        let view = &shared.published.load().view;
        let Some(work) = view.next_merge(load) else { return Ok(false) };
        *merging = Some(Merging {
            segments: work.segments().to_vec(),
            secondary_tables: work.secondary_tables().to_vec(),
            since: view.sequence(),
        });
        work
    };
    let _turn = work.is_partitioned().then(|| shared.snapshot_merge_lock.blocking_lock());
    if shared.life() != Life::Running {
        // A close waits for the last snapshot, but not for another merge.
        *shared.merging() = None;
        return Ok(false);
    }
    if let Some(merging) = &mut *shared.merging() {
        // Changes that arrived while it waited for the lock did not arrive during the merge.
        merging.since = shared.published.load().view.sequence();
    }
    let (begun, size) = (clock::now(), work.size());
    // The next snapshot copies the result.
    let (bytes, disk) = (work.file_bytes_max().saturating_mul(2), &shared.disk);
    let free = disk.stats.load().free_bytes;
    if bytes > 0 && free < bytes.saturating_add(disk.needed.load(Ordering::Relaxed)) {
        *shared.merging() = None;
        tracing::warn!(bytes, free, "a merge in files waits for space on the disk");
        return Err(MergeFailed);
    }
    let mut installed = None;
    let mut steps = work.steps();
    loop {
        let built = match catch_unreadable(|| steps.next()) {
            Ok(Some(built)) => built,
            Ok(None) => break,
            Err(error) => {
                *shared.merging() = None;
                let error = storage_error(error);
                tracing::error!(%error, "a merge failed, and is tried again in a minute");
                return Err(MergeFailed);
            }
        };
        let (segments, tables) = (built.segments().to_vec(), built.secondary_tables().to_vec());
        installed = shared.send_and_wait(|installed| ToWriter::Install { built, installed });
        if installed.is_none() {
            break;
        }
        if let Some(merging) = &mut *shared.merging() {
            (merging.segments, merging.secondary_tables) = (segments, tables);
        }
    }
    *shared.merging() = None;
    if installed.is_none() {
        return Ok(false);
    }
    shared.observer.merge_finished(begun.elapsed(), size);
    Ok(true)
}

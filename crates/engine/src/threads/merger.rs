//! The merger: the thread that merges segments and secondary tables.
//!
//! It reads the published view, builds next to it, and sends each result to the writer, which
//! installs it between two groups. Neither readers nor the writer wait for it. The compaction
//! policy ([`nearprint_index::compaction::policy`]) chooses what it merges.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use nearprint_index::compaction::policy::Load;

use crate::api::blocking::lower_priority;
use crate::api::clock;
use crate::shared::{Life, Merging, Shared, ToWriter};
use crate::threads::pause::Writes;

/// How often it checks whether there is something to merge.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The niceness of merges: they get a third of a core that look-ups could use fully.
const MERGE_NICENESS: i32 = 5;

/// Merges whatever the policy names, until `stop` closes.
pub(crate) fn run(shared: &Arc<Shared>, stop: &Receiver<()>) {
    // A merge delays look-ups on the same core.
    lower_priority(MERGE_NICENESS);
    let mut writes = Writes::new(shared);
    while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(LOOK_EVERY) {
        let load = writes.load(shared);
        while merge_once(shared, load).is_some() {}
    }
}

fn merge_once(shared: &Arc<Shared>, load: Load) -> Option<()> {
    let work = {
        // Waits while the flusher merges, so that the two never choose the same segments.
        let mut merging = shared.merging();
        let view = &shared.published.load().view;
        let work = view.next_merge(load)?;
        *merging = Some(Merging { segments: work.segments().to_vec(), since: view.sequence() });
        work
    };
    let _turn = work.is_partitioned().then(|| shared.snapshot_merge_lock.blocking_lock());
    if shared.life() != Life::Running {
        // A close waits for the last snapshot, but not for another merge.
        *shared.merging() = None;
        return None;
    }
    if let Some(merging) = &mut *shared.merging() {
        // Changes that arrived while it waited for the lock did not arrive during the merge.
        merging.since = shared.published.load().view.sequence();
    }
    let (begun, size) = (clock::now(), work.size());
    let mut installed = None;
    for built in work.steps() {
        let segments = built.segments().to_vec();
        installed = shared.send_and_wait(|installed| ToWriter::Install { built, installed });
        if installed.is_none() {
            break;
        }
        if let Some(merging) = &mut *shared.merging() {
            merging.segments = segments;
        }
    }
    *shared.merging() = None;
    installed?;
    shared.observer.merge_finished(begun.elapsed(), size);
    Some(())
}

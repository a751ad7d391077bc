//! Reindexing: a stopped directory gets another maximum distance.
//!
//! The index is built anew from the records alone, so no text is needed and only one index is in
//! memory. The order makes a crash harmless at every point:
//!
//! 1. The journal is opened, which makes everything that is replayed durable.
//! 2. The new index is written as a snapshot next to those of the distance in force, which ignore
//!    it.
//! 3. The file `directory` is replaced. From here on the new distance is in force.
//! 4. The snapshots of the old distance are removed. The next snapshot does it if a crash comes
//!    first.
//!
//! Tested by a cut at every operation on a simulated disk (`engine/simulation/reindex.rs`).

use std::sync::Arc;

use nearprint_fingerprint::Distance;
use nearprint_index::plan::Plans;
use nearprint_index::view::Counts;
use nearprint_storage::{Disk, Journal, StorageError, require_space, sealed};

use crate::api::error::OpenError;
use crate::api::options::Options;
use crate::api::replies::SnapshotInfo;
use crate::directories::recovery::{replay, settle};
use crate::directories::repair;
use crate::directory_file::DirectoryFile;
use crate::snapshot::manifest::{is_manifest, read_manifest_of};
use crate::snapshot::snapshots::{Loaded, Snapshots};

/// Rebuilds the directory for the maximum distance of the options. `at_ms` is in milliseconds since
/// 1970; `progress` receives the bytes of records read.
///
/// # Errors
/// [`OpenError`]. The directory then has its old distance.
pub(crate) fn reindex(
    disk: &Arc<dyn Disk>,
    directory: &DirectoryFile,
    options: &Options,
    at_ms: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Counts, OpenError> {
    if repair::is_unfinished(&**disk)? {
        return Err(OpenError::RepairUnfinished);
    }
    sealed::remove_leftovers(&**disk)?;
    // An interrupted reindex may have left files that take space.
    Snapshots::remove_others(Arc::clone(disk), *directory)?;
    check_space(&**disk, directory, options.distance_max)?;
    let (distance_max, has_labels) = options.searches();
    let new = DirectoryFile { distance_max, has_labels, ..*directory };
    let built = build(disk, &new, options, at_ms, progress).and_then(|counts| {
        new.write(disk)?;
        Ok(counts)
    });
    if built.is_err() {
        // The new index is useless now, and the first error is the one to report.
        drop(Snapshots::remove_others(Arc::clone(disk), *directory));
        return built;
    }
    if let Err(error) = Snapshots::remove_others(Arc::clone(disk), new) {
        tracing::warn!(%error, "the old index is still there; the next snapshot removes it");
    }
    built
}

/// Builds the new index from the records, and writes it as a snapshot.
fn build(
    disk: &Arc<dyn Disk>,
    new: &DirectoryFile,
    options: &Options,
    at_ms: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Counts, OpenError> {
    let snapshot = repair::durable_upto(&**disk, new)?;
    let (mut machine, tail) = replay(disk, new, (Loaded::default(), options), progress)?;
    if tail.last < snapshot {
        return Err(OpenError::JournalTooShort { journal: tail.last, snapshot });
    }
    let file_bytes = options.journal_file_bytes;
    drop(Journal::open(Arc::clone(disk), new.identity, tail, file_bytes)?);
    machine.view_mut().rotate();
    settle(machine.view_mut());
    let (parts, jobs) = (machine.view().parts_of(machine.view()), Arc::clone(machine.jobs()));
    // Each part is dropped as soon as it is written.
    drop(machine);
    let counts = parts.counts;
    Snapshots::write_beside(Arc::clone(disk), *new, (parts, &jobs), at_ms)?;
    Ok(counts)
}

/// Refuses if the disk has no room for the new index. Its size follows from that of the newest
/// snapshot and the number of tables; without a snapshot it is unknown, and a full disk ends the
/// reindex later, with nothing changed.
fn check_space(
    disk: &dyn Disk,
    directory: &DirectoryFile,
    distance_max: Distance,
) -> Result<(), StorageError> {
    let Some(newest) = newest_snapshot(disk, directory)? else { return Ok(()) };
    let tables = |distance| {
        let plans = Plans::of(distance);
        plans.for_count(newest.documents).tables().len() as u64
    };
    let (before, after) = (tables(directory.distance_max), tables(distance_max));
    let needed = (newest.bytes / before).saturating_mul(before.max(after));
    require_space(disk, needed, "the new index")
}

fn newest_snapshot(
    disk: &dyn Disk,
    directory: &DirectoryFile,
) -> Result<Option<SnapshotInfo>, StorageError> {
    let names = disk.list()?;
    let manifests = names.iter().rev().filter(|name| is_manifest(name));
    let mut readable = manifests.filter_map(|name| read_manifest_of(disk, directory, name).ok());
    Ok(readable.next().map(|(info, _)| info))
}

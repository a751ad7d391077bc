//! The repair of a damaged data directory: the plan, with what it loses, and carrying it out.
//!
//! A repair that is interrupted at any point is run again from the beginning, with the same result:
//! it makes a marker first and removes it last. The marker keeps the last sequence of the records,
//! which only the snapshots knew, and while it exists no service starts. A damaged file is copied
//! aside before it is replaced, and nothing is removed without a copy or a replacement.
//!
//! Tested by a power cut in every operation of a repair.

use std::io::Write;
use std::sync::Arc;

use nearprint_storage::journal::salvage::{self, Finding};
use nearprint_storage::sealed::remove_leftovers;
use nearprint_storage::{Disk, FileKind, SealedReader, SealedWriter, StorageError, require_space};

use crate::directory_file::DirectoryFile;
use crate::snapshot::manifest::{is_manifest, read_manifest_of};
use crate::snapshot::snapshots::Snapshots;

/// The name of the marker.
const MARKER: &str = "repair-unfinished";
const MARKER_KIND: FileKind = FileKind(7);
const MARKER_BYTES: u64 = 8;

/// What a repair would keep and lose.
#[derive(Debug)]
pub struct RepairPlan {
    /// Every file of the journal.
    pub files: Vec<Finding>,
    /// Snapshots that cannot be used, or that name records that are lost.
    pub snapshots: Vec<String>,
    /// Whether an earlier repair was interrupted.
    pub is_resumed: bool,
    durable_upto: u64,
}

impl RepairPlan {
    /// Whether there is nothing to repair.
    pub fn is_empty(&self) -> bool {
        self.snapshots.is_empty()
            && !self.is_resumed
            && self.files.iter().all(|file| file.damage.is_none())
    }

    /// Whether the last file of the journal is damaged, so that the number of its records is
    /// unknown.
    pub fn end_is_unknown(&self) -> bool {
        self.files.last().is_some_and(|file| file.damage.is_some() && !file.is_pack)
    }

    /// The maximum number of changes lost, among those known.
    pub fn lost(&self) -> u64 {
        self.files.iter().map(|file| file.lost).sum()
    }
}

/// Whether a repair was interrupted.
///
/// # Errors
/// [`StorageError::Io`].
pub(crate) fn is_unfinished(disk: &dyn Disk) -> Result<bool, StorageError> {
    Ok(disk.list()?.iter().any(|name| name == MARKER))
}

/// The last sequence known to have been recorded, by the snapshots and by the marker of a repair.
///
/// # Errors
/// [`StorageError`]. Snapshots that cannot be read are ignored.
pub(crate) fn durable_upto(
    disk: &dyn Disk,
    directory: &DirectoryFile,
) -> Result<u64, StorageError> {
    let mut upto = 0;
    if is_unfinished(disk)? {
        let mut marker = SealedReader::open(disk, MARKER, MARKER_KIND, &directory.identity)?;
        let body = marker.read_rest(MARKER_BYTES)?;
        upto = body.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    }
    for name in disk.list()?.iter().filter(|name| is_manifest(name)) {
        if let Ok((info, _)) = read_manifest_of(disk, directory, name) {
            upto = upto.max(info.sequence.get());
        }
    }
    Ok(upto)
}

/// Plans a repair. `progress` receives the bytes of records read.
///
/// # Errors
/// [`StorageError::Io`].
pub(crate) fn plan(
    disk: &Arc<dyn Disk>,
    directory: &DirectoryFile,
    progress: &mut dyn FnMut(u64),
) -> Result<RepairPlan, StorageError> {
    let is_resumed = is_unfinished(&**disk)?;
    let durable_upto = durable_upto(&**disk, directory)?;
    let files = salvage::examine(&**disk, &directory.identity, durable_upto, progress)?;
    let damaged = is_resumed || files.iter().any(|file| file.damage.is_some());
    let mut snapshots = Vec::new();
    for name in disk.list()?.into_iter().filter(|name| is_manifest(name)) {
        // If records are lost, a snapshot may contain documents whose records no longer exist.
        match Snapshots::verify(Arc::clone(disk), *directory, &name) {
            Err(error @ StorageError::Io { .. }) if !is_damage(&error) => return Err(error),
            // The next start passes it over by itself.
            Err(error) if error.is_of_other_version() && !damaged => {}
            Err(_) => snapshots.push(name),
            Ok(()) if damaged => snapshots.push(name),
            Ok(()) => {}
        }
    }
    Ok(RepairPlan { files, snapshots, is_resumed, durable_upto })
}

/// Copies damaged files aside and replaces them with packs of the records that can be read. The
/// next start rebuilds the index from the records if no snapshot is left.
///
/// # Errors
/// [`StorageError::Io`]; it can be run again.
pub(crate) fn carry_out(
    disk: &Arc<dyn Disk>,
    directory: &DirectoryFile,
    plan: &RepairPlan,
) -> Result<(), StorageError> {
    let identity = &directory.identity;
    remove_leftovers(&**disk)?;
    // A damaged file is copied aside, and written again with what can be read of it.
    let damaged = plan.files.iter().filter(|finding| finding.damage.is_some());
    let needed = damaged.map(|finding| finding.bytes.saturating_mul(2)).sum();
    require_space(&**disk, needed, "the copies of damaged files")?;
    let mut marker = SealedWriter::create(Arc::clone(disk), MARKER, MARKER_KIND, *identity)?;
    let written = marker.write_all(&plan.durable_upto.to_le_bytes());
    written.map_err(|error| StorageError::from_io(error, "write", MARKER))?;
    marker.finish()?;
    for (position, finding) in plan.files.iter().enumerate() {
        if finding.damage.is_some() {
            let after = plan.files.get(position + 1).and_then(|file| file.name.as_ref());
            let chain = after.and_then(|name| salvage::chain_of(&**disk, identity, name));
            finding.repair(&**disk, identity, chain)?;
        }
    }
    for name in &plan.snapshots {
        disk.rename(name, &salvage::name_aside(&**disk, name)?)?;
    }
    // The repair is durable before the marker is removed.
    disk.sync_directory()?;
    disk.remove(MARKER)?;
    disk.sync_directory()
}

fn is_damage(error: &StorageError) -> bool {
    error.is_not_found()
        || matches!(error, StorageError::Io { source, .. }
            if source.kind() == std::io::ErrorKind::InvalidData)
}

//! The data directory of a follower: how it begins, and how it becomes a primary.
//!
//! The file `follower` marks it, and names the primary for people. While it is there the directory
//! opens only to follow. It is not part of an export: who restores one gets a primary.

use std::io::Read;
use std::path::Path;

use nearprint_storage::export::Exported;
use nearprint_storage::{DirectoryLock, Disk, ReadingDisk, RealDisk, StorageError};

use crate::api::error::OpenError;
use crate::directories::offline::{LOCK_OF_EARLIER_BUILDS, is_empty, refill};
use crate::directory_file::{self, RESTORE_MARKER};
use crate::replication::position;

/// The name of the mark.
pub(crate) const MARK: &str = "follower";

/// The longest address that is shown.
const ADDRESS_BYTES_MAX: usize = 2_048;

/// The primary that the directory at a path follows; `None` if it follows none.
///
/// # Errors
/// [`StorageError::Io`].
pub fn primary_at(path: &Path) -> Result<Option<String>, StorageError> {
    primary_of(&ReadingDisk::open(path)?)
}

/// The primary that the directory on a disk follows; `None` if it follows none.
///
/// # Errors
/// [`StorageError::Io`].
pub(crate) fn primary_of(disk: &dyn Disk) -> Result<Option<String>, StorageError> {
    let mark = match disk.open(MARK) {
        Err(error) if error.is_not_found() => return Ok(None),
        opened => opened?,
    };
    let mut address = vec![0; ADDRESS_BYTES_MAX];
    let read = mark.read_at(0, &mut address)?;
    Ok(Some(shown(address.get(..read).unwrap_or_default())))
}

/// An address as it is shown; a mark that a crash has cut is one all the same.
fn shown(address: &[u8]) -> String {
    let address = String::from_utf8_lossy(address).trim().to_owned();
    if address.is_empty() { "URL".to_owned() } else { address }
}

/// Whether the directory at a path must be seeded before it can follow.
///
/// # Errors
/// [`OpenError::NotAFollower`] if it has documents of its own.
pub fn needs_seed(path: &Path) -> Result<bool, OpenError> {
    if !path.exists() {
        return Ok(true);
    }
    let names = RealDisk::open(path)?.list()?;
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    if !has(MARK) {
        return if is_empty(&names) { Ok(true) } else { Err(OpenError::NotAFollower) };
    }
    Ok(has(RESTORE_MARKER) || has(position::NAME) || !has(directory_file::NAME))
}

/// Makes a directory a follower of the primary at an address, whose export the source has. Empties
/// it first if it is that of a follower already.
///
/// After a crash at any point, [`needs_seed`] says that it has to begin again.
///
/// # Errors
/// [`OpenError::NotAFollower`] if it has documents of its own; those of the source and the disk.
pub fn seed(source: &mut dyn Read, path: &Path, primary: &str) -> Result<Exported, OpenError> {
    let disk = RealDisk::open(path)?;
    let _lock = DirectoryLock::acquire(path)?;
    let names = disk.list()?;
    let is_follower = names.iter().any(|name| name == MARK);
    if !is_follower && !is_empty(&names) {
        return Err(OpenError::NotAFollower);
    }
    mark(&disk, primary, is_follower)?;
    let copied = refill(source, &disk, &[MARK, LOCK_OF_EARLIER_BUILDS])?;
    // The primary may be a node of a cluster; its copy is not.
    disk.remove_if_present(position::NAME)?;
    disk.sync_directory()?;
    Ok(copied)
}

/// Makes a follower's directory that of a primary. Returns the primary that it has followed.
///
/// # Errors
/// [`OpenError::NotPromoted`] if it is not a follower, or was not seeded yet; those of the disk.
pub fn promote(path: &Path) -> Result<String, OpenError> {
    let not = |why: &str| OpenError::NotPromoted { why: format!("{} {why}", path.display()) };
    if !path.is_dir() {
        return Err(not("is not a directory"));
    }
    let Some(primary) = primary_at(path)? else {
        return Err(not("does not follow a primary"));
    };
    if needs_seed(path)? {
        return Err(not("was not filled from its primary completely"));
    }
    let disk = RealDisk::open(path)?;
    let _lock = DirectoryLock::acquire(path)?;
    disk.remove(MARK)?;
    disk.sync_directory()?;
    Ok(primary)
}

/// Writes the mark durably, in place of the one that is there.
pub(crate) fn mark(disk: &dyn Disk, primary: &str, is_there: bool) -> Result<(), StorageError> {
    let file = if is_there { disk.open(MARK)? } else { disk.create(MARK)? };
    let text = format!("{primary}\n");
    file.write_at(0, text.as_bytes())?;
    file.truncate(text.len() as u64)?;
    file.sync_data()?;
    disk.sync_directory()
}

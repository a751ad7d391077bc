//! Index files: the sparse index of a closed record file, saved for later starts. Without it, the
//! first read of the file reads all its frame headers.
//!
//! An index file is a sealed file. It only repeats what the frame headers say, so it counts if it
//! fits: it has the length of the record file and the chain value of its last frame, which stands
//! for all frames before it. One that is missing, damaged or does not fit is ignored, so it is not
//! synced. Index files are written after a snapshot, because recovery reads what is newer anyway,
//! and at a stop.

use std::collections::HashSet;
use std::io::Write as _;
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::StorageError;
use crate::frame::{FRAME_CHECKSUM_BYTES, chain_at_end};
use crate::journal::file::JournalFile;
use crate::journal::index::SparseIndex;
use crate::names::{index_name, indexed_file};
use crate::sealed::{FileKind, SealedReader, SealedWriter};

/// The kind of these sealed files.
const INDEX_KIND: FileKind = FileKind(14);

/// The index of a closed file by its index file; `None` if there is none that fits.
pub(crate) fn read(disk: &dyn Disk, file: &JournalFile) -> Option<SparseIndex> {
    let (name, identity) = (index_name(&file.name), &file.header.identity);
    let body =
        SealedReader::open(disk, &name, INDEX_KIND, identity).ok()?.read_rest(u64::MAX).ok()?;
    let (chain, body) = body.split_first_chunk()?;
    let index = SparseIndex::decode(body)?;
    let fits = file.file.len().ok()? == index.end
        && last_chain(file, index.end).ok()? == u64::from_le_bytes(*chain);
    fits.then_some(index)
}

/// Writes the indexes of closed files that are in memory and have no index file yet, and removes
/// the index files of record files that are gone. Only one thread may call it for a directory.
///
/// # Errors
/// The first [`StorageError::Io`]; it goes on with the other files.
pub(crate) fn save(disk: &Arc<dyn Disk>, files: &[Arc<JournalFile>]) -> Result<(), StorageError> {
    let removed = remove_others(&**disk, files);
    // The last one is not closed.
    let closed = files.iter().rev().skip(1);
    let written = closed.filter_map(|file| Some(write(disk, file, &file.unsaved_index()?)));
    written.fold(removed, Result::and)
}

fn remove_others(disk: &dyn Disk, files: &[Arc<JournalFile>]) -> Result<(), StorageError> {
    let there: HashSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
    for name in disk.list()? {
        if indexed_file(&name).is_some_and(|of| !there.contains(of)) {
            disk.remove(&name)?;
        }
    }
    Ok(())
}

/// The body: the chain value of the last frame, and the index.
fn write(
    disk: &Arc<dyn Disk>,
    file: &JournalFile,
    index: &SparseIndex,
) -> Result<(), StorageError> {
    let (name, identity) = (index_name(&file.name), file.header.identity);
    let mut body = last_chain(file, index.end)?.to_le_bytes().to_vec();
    index.encode(&mut body);
    let mut writer = SealedWriter::create(Arc::clone(disk), &name, INDEX_KIND, identity)?;
    if let Err(error) = writer.write_all(&body) {
        writer.abandon()?;
        return Err(StorageError::from_io(error, "write", &name));
    }
    // Whatever a power cut leaves of it, the checksums tell.
    writer.finish_unsynced()?;
    file.set_index_saved();
    Ok(())
}

/// The chain value of the frame that ends at `end`.
fn last_chain(file: &JournalFile, end: u64) -> Result<u64, StorageError> {
    let mut checksum = [0; FRAME_CHECKSUM_BYTES];
    file.file.read_at(end.saturating_sub(FRAME_CHECKSUM_BYTES as u64), &mut checksum)?;
    Ok(chain_at_end(&checksum).unwrap_or_default())
}

//! Packs: closed files of the journal, rewritten with only the records that are still needed.
//!
//! Does not know what is needed; the caller decides. A pack stands for a range of sequences and
//! contains, in their order, frames as the journal has them; a sequence of the range without a
//! frame was reclaimed. Its last frame is a seal at the end of the range. A pack is written under a
//! temporary name, read back, and renamed only once it is durable. Reading a record of it costs the
//! same as in the journal.
//!
//! Tested by every bit flipped and every cut of a small pack, and by power cuts at every operation.

use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::frame;
use crate::frame::{FRAME_OVERHEAD_BYTES, FrameHeader, RecordRef};
use crate::header::{Identity, Seed};
use crate::journal::file::JournalFile;
use crate::journal::header::{PACK_HEADER_BYTES, Pack, RecordHeader};
use crate::names::temporary_name;

/// The size of a write.
const WRITE_BYTES: usize = 256 << 10;
/// A pack is synced in steps of this size, so that concurrent syncs of the journal stay short.
const SYNC_STEP_BYTES: u64 = 16 << 20;

#[derive(Debug)]
pub(crate) struct PackWriter<'a> {
    disk: &'a dyn Disk,
    file: Box<dyn DiskFile>,
    temporary: String,
    identity: Identity,
    first: u64,
    changes: u64,
    /// The chain value of the last frame.
    chain: u64,
    buffer: Vec<u8>,
    written: u64,
    synced: u64,
}

impl<'a> PackWriter<'a> {
    /// Begins a pack whose first sequence is `first`; removes what an earlier attempt left.
    pub(crate) fn create(
        disk: &'a dyn Disk,
        identity: Identity,
        first: u64,
    ) -> Result<Self, StorageError> {
        let temporary = temporary_name(&format!("records-{first:020}"));
        disk.remove_if_present(&temporary)?;
        Ok(Self {
            file: disk.create(&temporary)?,
            disk,
            temporary,
            identity,
            first,
            changes: 0,
            chain: 0,
            buffer: Vec::new(),
            written: PACK_HEADER_BYTES as u64,
            synced: 0,
        })
    }

    /// Its length so far, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Adds a record, which must be newer than all before.
    pub(crate) fn push(&mut self, record: RecordRef<'_>) -> Result<(), StorageError> {
        let header = FrameHeader {
            payload_bytes: record.payload.len() as u32,
            count: record.count,
            sequence: record.first,
            chain: self.chain,
            durable_upto: record.first.saturating_sub(1),
        };
        let seed = self.identity.seed();
        self.chain = frame::encode(&mut self.buffer, seed, &header, record.payload);
        self.changes += u64::from(record.count);
        if self.buffer.len() >= WRITE_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Ends the range before `next`, makes the pack durable, reads it back and renames it. `chain`
    /// is the value that the journal file after it continues.
    ///
    /// # Errors
    /// [`StorageError::Poisoned`] if the new name may or may not be durable. After any other error
    /// nothing has changed.
    pub(crate) fn finish(mut self, next: u64, chain: u64) -> Result<JournalFile, StorageError> {
        let pack = Some(Pack { next, changes: self.changes });
        let header = RecordHeader { identity: self.identity, first: self.first, chain, pack };
        if let Err(error) = self.end_and_sync(&header, next) {
            // The first error is the one to report.
            drop(self.abandon());
            return Err(error);
        }
        let name = header.name();
        let mut pack = JournalFile::new(name.clone(), header, Arc::from(self.file), self.written);
        match pack.walk(next, self.identity.seed(), &mut |_| Ok(())) {
            Ok(walked) => pack.set_index(walked.index),
            Err(error) => {
                drop(self.disk.remove(&self.temporary));
                return Err(error);
            }
        }
        let renamed = self.disk.rename(&self.temporary, &name);
        renamed.and_then(|()| self.disk.sync_directory()).map_err(StorageError::fatal)?;
        Ok(pack)
    }

    fn end_and_sync(&mut self, header: &RecordHeader, next: u64) -> Result<(), StorageError> {
        let seal = end_seal(next, self.chain);
        frame::encode(&mut self.buffer, self.identity.seed(), &seal, &[]);
        self.write()?;
        self.file.write_at(0, &header.encode())?;
        self.file.sync_data()
    }

    /// Removes the temporary file.
    pub(crate) fn abandon(self) -> Result<(), StorageError> {
        self.disk.remove(&self.temporary)
    }

    fn write(&mut self) -> Result<(), StorageError> {
        self.file.write_at(self.written, &self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        if self.written - self.synced >= SYNC_STEP_BYTES {
            self.file.sync_data()?;
            self.synced = self.written;
        }
        Ok(())
    }
}

/// The seal at the end of a pack whose range ends before `next`.
fn end_seal(next: u64, chain: u64) -> FrameHeader {
    let durable_upto = next.saturating_sub(1);
    FrameHeader { payload_bytes: 0, count: 0, sequence: next, chain, durable_upto }
}

/// Whether a pack ends with the seal before `next`, and so was neither cut nor extended.
pub(crate) fn ends_whole(
    file: &dyn DiskFile,
    bytes: u64,
    next: u64,
    seed: Seed,
) -> Result<bool, StorageError> {
    let Some(at) = bytes.checked_sub(FRAME_OVERHEAD_BYTES as u64) else { return Ok(false) };
    let mut last = [0; FRAME_OVERHEAD_BYTES];
    let read = file.read_at(at, &mut last)?;
    let Ok(frame) = frame::decode(&last, seed) else { return Ok(false) };
    Ok(read == FRAME_OVERHEAD_BYTES && frame.header == end_seal(next, frame.header.chain))
}

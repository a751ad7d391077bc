//! Packs: closed files of the journal, rewritten with only the records that are still needed.
//!
//! Knows no content: what is needed is for the floor above to say. A pack stands for a range of
//! sequences and holds, in their order, frames as the journal has them; a sequence of the range
//! without a frame was given back. Its last frame is a seal at the end of the range. It comes into
//! being under a temporary name, is read back, and takes its own name only when it is durable.
//! A record is read from it as from the journal, at the same cost.
//!
//! Tested by every bit flipped and every cut of a small pack, and by power cuts at every operation.

use std::sync::{Arc, RwLock};

use crate::storage::header::{BadHeader, Seed, check_crc, check_magic, check_version, u64_at};
use crate::storage::journal::frame;
use crate::storage::journal::frame::{FRAME_OVERHEAD_BYTES, FrameHeader};
use crate::storage::journal::records::JournalFile;
use crate::storage::journal::scan::RecordRef;
use crate::storage::sealed::{remove_if_there, temporary_name};
use crate::storage::{Damage, Disk, DiskFile, Identity, StorageError, file_number};

/// The version of the format that is written and read.
pub const PACK_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"\x89nppack\n";

// Magic and version stand where those of a journal file stand.
const IDENTITY_AT: usize = 16;
const FIRST_AT: usize = IDENTITY_AT + 32;
const NEXT_AT: usize = FIRST_AT + 8;
const CHANGES_AT: usize = NEXT_AT + 8;
const CHAIN_AT: usize = CHANGES_AT + 8;
const CRC_AT: usize = CHAIN_AT + 8;
/// The length of a pack's header.
pub const PACK_HEADER_BYTES: usize = CRC_AT + 4;

/// Frames are written in pieces of this size.
const WRITE_BYTES: usize = 256 << 10;
/// A pack is synced in steps of this size, so that syncs of the journal beside it stay short.
const SYNC_STEP_BYTES: u64 = 16 << 20;

/// What a pack says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackHeader {
    pub(crate) identity: Identity,
    /// The first sequence of its range.
    pub(crate) first: u64,
    /// The sequence after its range.
    pub(crate) next: u64,
    /// How many changes its records stand for.
    pub(crate) changes: u64,
    /// The chain value that the journal file after it begins with.
    pub(crate) chain: u64,
}

impl PackHeader {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PACK_HEADER_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&PACK_VERSION.to_le_bytes());
        out.extend_from_slice(&0_u32.to_le_bytes());
        self.identity.put(&mut out);
        for number in [self.first, self.next, self.changes, self.chain] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the header at the beginning of `bytes`.
    pub(crate) fn decode(bytes: &[u8], expected: &Identity) -> Result<Self, BadHeader> {
        let bytes: &[u8; PACK_HEADER_BYTES] =
            bytes.first_chunk().ok_or(BadHeader::Damaged(Damage::FileHeader))?;
        check_crc(bytes, CRC_AT).map_err(BadHeader::Damaged)?;
        check_magic(bytes, MAGIC).map_err(BadHeader::Refused)?;
        check_version(bytes, PACK_VERSION).map_err(BadHeader::Refused)?;
        let identity = Identity::get(bytes, IDENTITY_AT);
        expected.accept(&identity).map_err(BadHeader::Refused)?;
        Ok(Self {
            identity,
            first: u64_at(bytes, FIRST_AT),
            next: u64_at(bytes, NEXT_AT),
            changes: u64_at(bytes, CHANGES_AT),
            chain: u64_at(bytes, CHAIN_AT),
        })
    }

    /// The name of the pack.
    pub(crate) fn name(&self) -> String {
        format!("records-{:020}-{:020}.pack", self.first, self.next)
    }

    /// The seal that ends it.
    fn end(&self, chain: u64) -> FrameHeader {
        let durable_upto = self.next.saturating_sub(1);
        FrameHeader { payload_bytes: 0, count: 0, sequence: self.next, chain, durable_upto }
    }
}

/// The range in a pack's name; `None` for every other file.
pub(crate) fn pack_range(name: &str) -> Option<(u64, u64)> {
    let (first, next) = name.strip_prefix("records-")?.strip_suffix(".pack")?.split_once('-')?;
    let (first, next) = (file_number(first)?, file_number(next)?);
    (first < next).then_some((first, next))
}

/// Writes a pack that begins with a sequence.
#[derive(Debug)]
pub(crate) struct PackWriter<'a> {
    disk: &'a dyn Disk,
    file: Box<dyn DiskFile>,
    temporary: String,
    header: PackHeader,
    seed: Seed,
    /// The chain value of the last frame.
    chain: u64,
    buffer: Vec<u8>,
    written: u64,
    synced: u64,
}

impl<'a> PackWriter<'a> {
    /// Begins a pack; what an earlier try has left is removed.
    pub(crate) fn create(
        disk: &'a dyn Disk,
        identity: Identity,
        first: u64,
    ) -> Result<Self, StorageError> {
        let temporary = temporary_name(&format!("records-{first:020}"));
        remove_if_there(disk, &temporary)?;
        Ok(Self {
            file: disk.create(&temporary)?,
            disk,
            temporary,
            header: PackHeader { identity, first, next: first, changes: 0, chain: 0 },
            seed: identity.seed(),
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

    /// Adds a record, which is newer than all before.
    pub(crate) fn push(&mut self, record: RecordRef<'_>) -> Result<(), StorageError> {
        let header = FrameHeader {
            payload_bytes: record.payload.len() as u32,
            count: record.count,
            sequence: record.first,
            chain: self.chain,
            durable_upto: record.first.saturating_sub(1),
        };
        self.chain = frame::encode(&mut self.buffer, self.seed, &header, record.payload);
        self.header.changes += u64::from(record.count);
        if self.buffer.len() >= WRITE_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Ends the range before `next`, makes the pack durable and reads it back; only then does it
    /// take its name. `chain` is what the journal file after it begins with.
    ///
    /// # Errors
    /// [`StorageError::Poisoned`] where the name may or may not be durable; any other, and nothing
    /// has changed.
    pub(crate) fn finish(mut self, next: u64, chain: u64) -> Result<JournalFile, StorageError> {
        (self.header.next, self.header.chain) = (next, chain);
        if let Err(error) = self.end_and_sync() {
            // The disk may be full, and the error that counts is the first.
            drop(self.abandon());
            return Err(error);
        }
        let name = self.header.name();
        let pack = JournalFile {
            name: name.clone(),
            first: self.header.first,
            file: Arc::from(self.file),
            bytes: self.written,
            index: RwLock::new(None),
            pack: Some(self.header),
        };
        if let Err(error) = pack.walk(next, self.seed, &mut |_| Ok(())) {
            drop(self.disk.remove(&self.temporary));
            return Err(error);
        }
        let renamed = self.disk.rename(&self.temporary, &name);
        renamed.and_then(|()| self.disk.sync_directory()).map_err(StorageError::fatal)?;
        Ok(pack)
    }

    fn end_and_sync(&mut self) -> Result<(), StorageError> {
        let end = self.header.end(self.chain);
        frame::encode(&mut self.buffer, self.seed, &end, &[]);
        self.write()?;
        self.file.write_at(0, &self.header.encode())?;
        self.file.sync_data()
    }

    /// Gives up and removes the temporary file.
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

/// Whether a pack ends as it was written: cut or extended, it does not.
pub(crate) fn ends_whole(
    file: &dyn DiskFile,
    bytes: u64,
    header: &PackHeader,
) -> Result<bool, StorageError> {
    let Some(at) = bytes.checked_sub(FRAME_OVERHEAD_BYTES as u64) else { return Ok(false) };
    let mut last = [0; FRAME_OVERHEAD_BYTES];
    let read = file.read_at(at, &mut last)?;
    let frame::Decoded::Complete(frame) = frame::decode(&last, header.identity.seed()) else {
        return Ok(false);
    };
    let end = header.end(frame.header.chain);
    Ok(read == FRAME_OVERHEAD_BYTES && frame.header == end)
}

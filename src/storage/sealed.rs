//! Files written once and never changed: snapshots' parts, manifests, the directory's identity.
//!
//! Knows no content. A file is a header, a body in blocks of 64 KiB each followed by its XXH3-64,
//! and a trailer with the body's length and the XXH3-128 of the whole. It comes into being under a
//! temporary name and takes its own only when it is durable, so a file under its own name is whole
//! or damaged, never half written. A block is verified before a byte of it is handed out, the whole
//! before the last block is.
//!
//! Cost: two passes of XXH3, 8 bytes for each block, one block in memory. Tested by every bit of
//! the header and the trailer flipped, a flip in each block, cuts, extensions, swapped blocks and
//! foreign files.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use super::header::{Seed, array_at, check_crc, check_magic, check_version, u32_at, u64_at};
use super::{Damage, Disk, DiskFile, Identity, Refusal, StorageError};

/// The version of the format that is written and read.
pub const SEALED_VERSION: u32 = 1;
/// The bytes of the body in one block.
pub const BLOCK_BYTES: usize = 64 << 10;

const MAGIC: [u8; 8] = *b"\x89npseal\n";

// The header. Magic and version stand where those of a journal file stand.
const KIND_AT: usize = 12;
const IDENTITY_AT: usize = KIND_AT + 4;
const HEADER_CRC_AT: usize = IDENTITY_AT + 32;
/// The length of a sealed file's header.
pub const SEALED_HEADER_BYTES: usize = HEADER_CRC_AT + 4;

const BLOCK_CHECKSUM_BYTES: usize = 8;

// The trailer.
const BODY_BYTES_AT: usize = 0;
const CHECKSUM_AT: usize = BODY_BYTES_AT + 8;
const TRAILER_CRC_AT: usize = CHECKSUM_AT + 16;
/// The length of a sealed file's trailer.
pub const TRAILER_BYTES: usize = TRAILER_CRC_AT + 4;

/// A long file is synced in steps of this size, so that its last sync, and those of the journal
/// beside it, stay short.
const SYNC_STEP_BYTES: u64 = 16 << 20;

const TEMPORARY_SUFFIX: &str = ".tmp";

/// What a sealed file is for; the numbers are given out by the floor above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileKind(pub u32);

/// The facts of a finished sealed file, such as a manifest lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// The length of the body.
    pub body_bytes: u64,
    /// The length of the file.
    pub file_bytes: u64,
    /// XXH3-128 of the header and the body.
    pub checksum: u128,
}

/// Writes `<name>.tmp`; [`SealedWriter::finish`] makes it durable under its name.
///
/// ```
/// use std::io::Write;
/// use std::sync::Arc;
/// use nearprint::storage::{FileKind, Identity, SealedReader, SealedWriter, SimulatedDisk};
/// let (disk, identity) = (Arc::new(SimulatedDisk::new()), Identity::new([7; 16], "np1"));
/// let mut writer = SealedWriter::create(disk.clone(), "part", FileKind(1), identity)?;
/// writer.write_all(b"body")?;
/// writer.finish()?;
/// let mut reader = SealedReader::open(&*disk, "part", FileKind(1), &identity)?;
/// assert_eq!(reader.read_rest(100)?, b"body");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SealedWriter {
    disk: Arc<dyn Disk>,
    name: String,
    file: Box<dyn DiskFile>,
    seed: Seed,
    whole: Xxh3,
    /// The block being filled.
    block: Vec<u8>,
    blocks: u64,
    body_bytes: u64,
    written: u64,
    synced: u64,
}

impl SealedWriter {
    /// Begins a file; a leftover `<name>.tmp` is removed.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn create(
        disk: Arc<dyn Disk>,
        name: &str,
        kind: FileKind,
        identity: Identity,
    ) -> Result<Self, StorageError> {
        let temporary = temporary_name(name);
        remove_if_there(&*disk, &temporary)?;
        let file = disk.create(&temporary)?;
        let header = encode_header(kind, &identity);
        file.write_at(0, &header)?;
        let seed = identity.seed();
        let mut whole = Xxh3::with_seed(seed.0);
        whole.update(&header);
        Ok(Self {
            disk,
            name: name.to_owned(),
            file,
            seed,
            whole,
            block: Vec::with_capacity(BLOCK_BYTES + BLOCK_CHECKSUM_BYTES),
            blocks: 0,
            body_bytes: 0,
            written: SEALED_HEADER_BYTES as u64,
            synced: 0,
        })
    }

    /// Writes the trailer, syncs, renames to the name (replacing a file that has it), syncs the
    /// directory. Then it is durable.
    ///
    /// # Errors
    /// [`StorageError::Io`]; the temporary file may be left and is no harm.
    pub fn finish(mut self) -> Result<Sealed, StorageError> {
        if !self.block.is_empty() {
            self.write_block()?;
        }
        let sealed = Sealed {
            body_bytes: self.body_bytes,
            file_bytes: self.written + TRAILER_BYTES as u64,
            checksum: self.whole.digest128(),
        };
        self.file.write_at(self.written, &encode_trailer(&sealed))?;
        self.file.sync_data()?;
        self.disk.rename(&temporary_name(&self.name), &self.name)?;
        self.disk.sync_directory()?;
        Ok(sealed)
    }

    /// Gives up and removes the temporary file.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn abandon(self) -> Result<(), StorageError> {
        self.disk.remove(&temporary_name(&self.name))
    }

    fn write_block(&mut self) -> Result<(), StorageError> {
        self.whole.update(&self.block);
        self.body_bytes += self.block.len() as u64;
        let checksum = block_checksum(&self.block, self.blocks, self.seed);
        self.block.extend_from_slice(&checksum.to_le_bytes());
        self.file.write_at(self.written, &self.block)?;
        self.written += self.block.len() as u64;
        self.blocks += 1;
        self.block.clear();
        if self.written - self.synced >= SYNC_STEP_BYTES {
            self.file.sync_data()?;
            self.synced = self.written;
        }
        Ok(())
    }
}

/// Errors carry the [`StorageError`]; [`StorageError::from_io`] takes it out.
impl Write for SealedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = BLOCK_BYTES - self.block.len();
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.block.extend_from_slice(taken);
        if self.block.len() == BLOCK_BYTES {
            self.write_block()?;
        }
        Ok(taken.len())
    }

    /// Does nothing: only [`SealedWriter::finish`] makes bytes visible.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for SealedWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedWriter")
            .field("name", &self.name)
            .field("body_bytes", &self.body_bytes)
            .finish_non_exhaustive()
    }
}

/// Reads a sealed file; every block is verified before a byte of it is handed out, the whole before
/// the last block is.
pub struct SealedReader {
    name: String,
    file: Box<dyn DiskFile>,
    identity: Identity,
    seed: Seed,
    sealed: Sealed,
    whole: Xxh3,
    /// The verified block, and how much of it was handed out.
    block: Vec<u8>,
    taken: usize,
    blocks: u64,
    /// The bytes of the body behind the block in memory.
    body_left: u64,
}

impl SealedReader {
    /// Opens a file of this kind and identity; header, trailer and length are verified.
    ///
    /// # Errors
    /// [`StorageError::Refused`], [`StorageError::DamagedSealed`], [`StorageError::Io`].
    pub fn open(
        disk: &dyn Disk,
        name: &str,
        kind: FileKind,
        identity: &Identity,
    ) -> Result<Self, StorageError> {
        Self::open_checked(disk, name, kind, Some(identity))
    }

    /// Opens a file whose identity is not known yet: the one that tells the directory's.
    ///
    /// # Errors
    /// As [`SealedReader::open`], without the refusals of another directory or recipe.
    pub fn open_first(disk: &dyn Disk, name: &str, kind: FileKind) -> Result<Self, StorageError> {
        Self::open_checked(disk, name, kind, None)
    }

    fn open_checked(
        disk: &dyn Disk,
        name: &str,
        kind: FileKind,
        expected: Option<&Identity>,
    ) -> Result<Self, StorageError> {
        let file = disk.open(name)?;
        let length = file.len()?;
        let mut header = [0; SEALED_HEADER_BYTES];
        if file.read_at(0, &mut header)? < SEALED_HEADER_BYTES {
            return Err(damaged(name, 0, Damage::FileHeader));
        }
        check_crc(&header, HEADER_CRC_AT).map_err(|why| damaged(name, 0, why))?;
        let identity = decode_header(&header, kind, expected).map_err(|why| {
            let file = name.to_owned();
            StorageError::Refused { file, why }
        })?;
        let seed = identity.seed();
        let sealed = read_trailer(&*file, length)?
            .ok_or_else(|| damaged(name, trailer_offset(length), Damage::Trailer))?;
        let mut whole = Xxh3::with_seed(seed.0);
        whole.update(&header);
        let reader = Self {
            name: name.to_owned(),
            file,
            identity,
            seed,
            sealed,
            whole,
            block: Vec::new(),
            taken: 0,
            blocks: 0,
            body_left: sealed.body_bytes,
        };
        reader.check_whole_at_end()?;
        Ok(reader)
    }

    /// The identity in the header.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Length and checksum, as [`SealedWriter::finish`] returned them. That the checksum is that
    /// of the bytes is verified with the last block.
    pub fn sealed(&self) -> Sealed {
        self.sealed
    }

    /// The next verified bytes: a block of 64 KiB but for the last one, or what `read` has left of
    /// one; `None` after the last.
    ///
    /// # Errors
    /// [`StorageError::DamagedSealed`], [`StorageError::Io`].
    pub fn next_block(&mut self) -> Result<Option<&[u8]>, StorageError> {
        self.fill()?;
        let rest = self.block.get(self.taken..).unwrap_or_default();
        self.taken = self.block.len();
        Ok((!rest.is_empty()).then_some(rest))
    }

    /// The rest of the body, at most `bytes_max` bytes.
    ///
    /// # Errors
    /// As [`SealedReader::next_block`]; [`StorageError::PayloadTooLarge`] above `bytes_max`.
    pub fn read_rest(&mut self, bytes_max: u64) -> Result<Vec<u8>, StorageError> {
        let held = self.block.len() - self.taken;
        let bytes = usize::try_from(self.body_left).unwrap_or(usize::MAX).saturating_add(held);
        if bytes as u64 > bytes_max {
            return Err(StorageError::PayloadTooLarge { bytes });
        }
        let mut rest = Vec::with_capacity(bytes);
        while let Some(block) = self.next_block()? {
            rest.extend_from_slice(block);
        }
        Ok(rest)
    }

    /// Reads and verifies a block when all of the last one was handed out.
    fn fill(&mut self) -> Result<(), StorageError> {
        if self.taken < self.block.len() || self.body_left == 0 {
            return Ok(());
        }
        let offset =
            SEALED_HEADER_BYTES as u64 + self.blocks * (BLOCK_BYTES + BLOCK_CHECKSUM_BYTES) as u64;
        let body_bytes = self.body_left.min(BLOCK_BYTES as u64) as usize;
        self.taken = 0;
        self.block.clear();
        self.block.resize(body_bytes + BLOCK_CHECKSUM_BYTES, 0);
        let filled = self.file.read_at(offset, &mut self.block)?;
        let stored = self.block.split_off(body_bytes);
        let expected = block_checksum(&self.block, self.blocks, self.seed).to_le_bytes();
        if filled < body_bytes + BLOCK_CHECKSUM_BYTES || stored != expected {
            self.block.clear();
            return Err(damaged(&self.name, offset, Damage::Block));
        }
        self.whole.update(&self.block);
        self.blocks += 1;
        self.body_left -= body_bytes as u64;
        self.check_whole_at_end().inspect_err(|_| self.block.clear())
    }

    fn check_whole_at_end(&self) -> Result<(), StorageError> {
        if self.body_left > 0 || self.whole.digest128() == self.sealed.checksum {
            return Ok(());
        }
        Err(damaged(&self.name, 0, Damage::Whole))
    }
}

/// Errors carry the [`StorageError`]; [`StorageError::from_io`] takes it out.
impl Read for SealedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fill()?;
        let mut rest = self.block.get(self.taken..).unwrap_or_default();
        let bytes = rest.read(buffer)?;
        self.taken += bytes;
        Ok(bytes)
    }
}

impl fmt::Debug for SealedReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedReader")
            .field("name", &self.name)
            .field("sealed", &self.sealed)
            .finish_non_exhaustive()
    }
}

/// Removes every `*.tmp`, left by a process that ended before it finished a file.
///
/// # Errors
/// [`StorageError::Io`].
pub fn remove_leftovers(disk: &dyn Disk) -> Result<(), StorageError> {
    for name in disk.list()? {
        if name.ends_with(TEMPORARY_SUFFIX) {
            disk.remove(&name)?;
        }
    }
    disk.sync_directory()
}

pub(super) fn temporary_name(name: &str) -> String {
    format!("{name}{TEMPORARY_SUFFIX}")
}

pub(super) fn remove_if_there(disk: &dyn Disk, name: &str) -> Result<(), StorageError> {
    match disk.remove(name) {
        Err(error) if !error.is_not_found() => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn encode_header(kind: FileKind, identity: &Identity) -> Vec<u8> {
    let mut out = Vec::with_capacity(SEALED_HEADER_BYTES);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&SEALED_VERSION.to_le_bytes());
    out.extend_from_slice(&kind.0.to_le_bytes());
    identity.put(&mut out);
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

fn decode_header(
    header: &[u8; SEALED_HEADER_BYTES],
    kind: FileKind,
    expected: Option<&Identity>,
) -> Result<Identity, Refusal> {
    check_magic(header, MAGIC)?;
    check_version(header, SEALED_VERSION)?;
    let got = u32_at(header, KIND_AT);
    if got != kind.0 {
        let expected = kind.0;
        return Err(Refusal::Kind { expected, got });
    }
    let identity = Identity::get(header, IDENTITY_AT);
    if let Some(expected) = expected {
        expected.accept(&identity)?;
    }
    Ok(identity)
}

fn encode_trailer(sealed: &Sealed) -> Vec<u8> {
    let mut out = Vec::with_capacity(TRAILER_BYTES);
    out.extend_from_slice(&sealed.body_bytes.to_le_bytes());
    out.extend_from_slice(&sealed.checksum.to_le_bytes());
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// The trailer of a file of `length` bytes; `None` when it does not fit the file.
fn read_trailer(file: &dyn DiskFile, length: u64) -> Result<Option<Sealed>, StorageError> {
    let mut trailer = [0; TRAILER_BYTES];
    let whole = file.read_at(trailer_offset(length), &mut trailer)? == TRAILER_BYTES;
    let body_bytes = u64_at(&trailer, BODY_BYTES_AT);
    if !whole
        || check_crc(&trailer, TRAILER_CRC_AT).is_err()
        || file_bytes(body_bytes) != Some(length)
    {
        return Ok(None);
    }
    Ok(Some(Sealed {
        body_bytes,
        file_bytes: length,
        checksum: u128::from_le_bytes(array_at(&trailer, CHECKSUM_AT)),
    }))
}

fn trailer_offset(length: u64) -> u64 {
    length.saturating_sub(TRAILER_BYTES as u64)
}

/// The length of a file with a body of this length; `None` when there can be none.
fn file_bytes(body_bytes: u64) -> Option<u64> {
    let checksums =
        body_bytes.div_ceil(BLOCK_BYTES as u64).checked_mul(BLOCK_CHECKSUM_BYTES as u64)?;
    body_bytes.checked_add(checksums)?.checked_add((SEALED_HEADER_BYTES + TRAILER_BYTES) as u64)
}

/// Seeded with the place of the block, so that blocks cannot be swapped.
fn block_checksum(block: &[u8], number: u64, seed: Seed) -> u64 {
    xxh3_64_with_seed(block, seed.0 ^ number)
}

fn damaged(name: &str, offset: u64, why: Damage) -> StorageError {
    StorageError::DamagedSealed { file: name.to_owned(), offset, why }
}

//! Sealed files, which are written once and never changed: the parts and manifests of snapshots,
//! the identity of the directory, the indexes of record files.
//!
//! Knows no content. A file has a header, a body in blocks, each followed by its XXH3-64, and a
//! trailer with the length of the body and the XXH3-128 of header and body. It is written under a
//! temporary name and renamed only once it is durable, so under its final name it is whole or
//! damaged, never half written. The reader verifies a block before it returns a byte of it, and the
//! XXH3-128 of the file before it returns the last block.
//!
//! Blocks have 64 KiB, or fill pages of 4 KiB ([`layout`]): a file in pages can also be read at
//! any place ([`pages`]).
//!
//! Cost: two passes of XXH3, 8 bytes for each block, and some 64 KiB in memory. Tested by flips of
//! every bit of header and trailer and of a bit in each block, by cuts, extensions, swapped blocks,
//! and files of other directories.

mod layout;
pub mod pages;

pub use layout::{BLOCK_BYTES, BodyLayout, PAGE_BODY_BYTES, PAGE_BYTES, SEALED_HEADER_BYTES};

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, FileRefusal, StorageError};
use crate::header::{
    BadHeader, Identity, KIND_AT, Seed, append_crc, array_at, has_crc, u32_at, u64_at,
};
use crate::names::{is_temporary, temporary_name};
use crate::sealed::layout::{BLOCK_CHECKSUM_BYTES, block_checksum, verified};
use crate::sealed::pages::SealedPages;

const BODY_BYTES_AT: usize = 0;
const CHECKSUM_AT: usize = BODY_BYTES_AT + 8;
/// The length of a sealed file's trailer, which ends in a CRC32C.
pub const TRAILER_BYTES: usize = CHECKSUM_AT + 16 + 4;

/// A long file is synced in steps of this size, so that its last sync and concurrent syncs of the
/// journal stay short.
const SYNC_STEP_BYTES: u64 = 16 << 20;

/// What a sealed file is for; who writes it defines the number (`docs/disk-format.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileKind(pub u32);

/// The length and checksum of a finished sealed file, as a manifest lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// The length of the body.
    pub body_bytes: u64,
    /// The length of the file.
    pub file_bytes: u64,
    /// XXH3-128 of the header and the body.
    pub checksum: u128,
}

/// Writes `<name>.tmp`; [`SealedWriter::finish`] makes it durable and renames it to `<name>`.
///
/// ```
/// use std::io::Write;
/// use std::sync::Arc;
/// use nearprint_storage::{FileKind, Identity, RealDisk, SealedReader, SealedWriter};
/// # let directory = tempfile::tempdir()?;
/// let disk = Arc::new(RealDisk::open(directory.path())?);
/// let identity = Identity::new([7; 16], "np2");
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
    layout: BodyLayout,
    /// Of the blocks.
    seed: Seed,
    whole: Xxh3,
    /// What is not written yet: whole blocks with their checksums, and the block being filled.
    pending: Vec<u8>,
    /// Where in it that block begins.
    block_at: usize,
    blocks: u64,
    body_bytes: u64,
    written: u64,
    synced: u64,
}

impl SealedWriter {
    /// Begins a file in blocks, and removes an old `<name>.tmp`.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn create(
        disk: Arc<dyn Disk>,
        name: &str,
        kind: FileKind,
        identity: Identity,
    ) -> Result<Self, StorageError> {
        Self::create_in(BodyLayout::Blocks, disk, name, (kind, identity))
    }

    /// Begins a temporary file in pages, and unlinks it: it goes away with what
    /// [`Self::into_pages`] returns, or with this writer.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_unlinked(
        disk: Arc<dyn Disk>,
        name: &str,
        identity: Identity,
    ) -> Result<Self, StorageError> {
        let writer = Self::create_in(BodyLayout::Pages, disk, name, (FileKind(0), identity))?;
        writer.disk.remove(&temporary_name(name))?;
        Ok(writer)
    }

    /// Begins a file with this layout, and removes an old `<name>.tmp`.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_in(
        layout: BodyLayout,
        disk: Arc<dyn Disk>,
        name: &str,
        (kind, identity): (FileKind, Identity),
    ) -> Result<Self, StorageError> {
        let temporary = temporary_name(name);
        disk.remove_if_present(&temporary)?;
        let file = disk.create(&temporary)?;
        let mut header = layout.format().encode(kind.0, &identity, &[]);
        header.resize(layout.header_bytes(), 0);
        file.write_at(0, &header)?;
        let seed = identity.seed();
        let mut whole = Xxh3::with_seed(seed.0);
        whole.update(&header);
        Ok(Self {
            disk,
            name: name.to_owned(),
            file,
            layout,
            seed: layout.block_seed(name, seed),
            whole,
            pending: Vec::with_capacity(BLOCK_BYTES + PAGE_BYTES),
            block_at: 0,
            blocks: 0,
            body_bytes: 0,
            written: header.len() as u64,
            synced: 0,
        })
    }

    /// Writes the trailer, syncs, renames the file (replacing one that has its name) and syncs the
    /// directory. Then it is durable.
    ///
    /// # Errors
    /// [`StorageError::Io`]; the temporary file may remain, which does no harm.
    pub fn finish(mut self) -> Result<Sealed, StorageError> {
        let sealed = self.end()?;
        self.file.sync_data()?;
        self.disk.rename(&temporary_name(&self.name), &self.name)?;
        self.disk.sync_directory()?;
        Ok(sealed)
    }

    /// The same without a sync, for what can be built again: a power cut may leave a damaged file,
    /// or none.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub(crate) fn finish_unsynced(mut self) -> Result<(), StorageError> {
        self.end()?;
        self.disk.rename(&temporary_name(&self.name), &self.name)
    }

    /// Writes what is left of the body, and the trailer.
    fn end(&mut self) -> Result<Sealed, StorageError> {
        self.end_body()?;
        let sealed = Sealed {
            body_bytes: self.body_bytes,
            file_bytes: self.written + TRAILER_BYTES as u64,
            checksum: self.whole.digest128(),
        };
        self.file.write_at(self.written, &encode_trailer(&sealed))?;
        Ok(sealed)
    }

    /// Removes the temporary file.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn abandon(self) -> Result<(), StorageError> {
        self.disk.remove(&temporary_name(&self.name))
    }

    /// The body of an unlinked file, to be read from now on.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn into_pages(mut self) -> Result<SealedPages, StorageError> {
        self.end_body()?;
        Ok(SealedPages::of(self.name, self.file, self.seed, self.body_bytes))
    }

    /// Writes what is left of the body.
    fn end_body(&mut self) -> Result<(), StorageError> {
        if self.pending.len() > self.block_at {
            self.end_block();
        }
        self.write_pending()
    }

    /// Ends the block that is being filled.
    fn end_block(&mut self) {
        let block = self.pending.get(self.block_at..).unwrap_or_default();
        self.whole.update(block);
        self.body_bytes += block.len() as u64;
        let checksum = block_checksum(block, self.blocks, self.seed);
        self.pending.extend_from_slice(&checksum.to_le_bytes());
        self.block_at = self.pending.len();
        self.blocks += 1;
    }

    fn write_pending(&mut self) -> Result<(), StorageError> {
        self.file.write_at(self.written, &self.pending)?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        self.block_at = 0;
        if self.written - self.synced >= SYNC_STEP_BYTES {
            self.file.sync_data()?;
            self.synced = self.written;
        }
        Ok(())
    }
}

/// The errors contain a [`StorageError`]; [`StorageError::from_io`] extracts it.
impl Write for SealedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let free = self.block_at + self.layout.block_bytes() - self.pending.len();
        let taken = bytes.get(..free).unwrap_or(bytes);
        self.pending.extend_from_slice(taken);
        if taken.len() == free {
            self.end_block();
            if self.pending.len() >= BLOCK_BYTES {
                self.write_pending()?;
            }
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

/// Reads a sealed file, and verifies what it returns as the module's header describes.
pub struct SealedReader {
    name: String,
    file: Box<dyn DiskFile>,
    identity: Identity,
    layout: BodyLayout,
    /// Of the blocks.
    seed: Seed,
    sealed: Sealed,
    whole: Xxh3,
    /// Verified bytes: those of a block, or of some pages. The first `taken` were returned.
    block: Vec<u8>,
    taken: usize,
    /// As they were read, with their checksums.
    raw: Vec<u8>,
    blocks: u64,
    /// The bytes of the body after `block`.
    body_left: u64,
}

impl SealedReader {
    /// Opens a file of this kind and identity, and verifies header, trailer and length.
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

    /// Opens a file of unknown identity: the one that defines that of the directory.
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
        let mut header = vec![0; PAGE_BYTES];
        let read = file.read_at(0, &mut header)?;
        header.truncate(read);
        let (identity, layout) =
            decode_header(&header, kind, expected).map_err(|bad| match bad {
                BadHeader::Damaged => damaged(name, 0, Damage::FileHeader),
                BadHeader::Refused(why) => StorageError::Refused { file: name.to_owned(), why },
            })?;
        let seed = identity.seed();
        let sealed = read_trailer(&*file, layout, length)?
            .ok_or_else(|| damaged(name, trailer_offset(length), Damage::Trailer))?;
        let mut whole = Xxh3::with_seed(seed.0);
        // The length of the file shows that it has a whole header.
        whole.update(header.get(..layout.header_bytes()).unwrap_or_default());
        let reader = Self {
            name: name.to_owned(),
            file,
            identity,
            layout,
            seed: layout.block_seed(name, seed),
            sealed,
            whole,
            block: Vec::new(),
            taken: 0,
            raw: Vec::new(),
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

    /// Length and checksum, as [`SealedWriter::finish`] returned them. The checksum is verified
    /// with the last block.
    pub fn sealed(&self) -> Sealed {
        self.sealed
    }

    /// Whether it can be read at any place.
    pub fn is_in_pages(&self) -> bool {
        self.layout == BodyLayout::Pages
    }

    /// The body, to be read at any place: each page is verified when it is read, the file as a
    /// whole is not. `None` if the file is not in pages.
    pub fn into_pages(self) -> Option<SealedPages> {
        let Self { name, file, seed, layout, sealed, .. } = self;
        (layout == BodyLayout::Pages).then(|| SealedPages::of(name, file, seed, sealed.body_bytes))
    }

    /// The next verified bytes: the rest of a block from which [`Read::read`] took some, or else
    /// the next block, or some pages; `None` at the end.
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
        let loaded = self.block.len() - self.taken;
        let bytes = usize::try_from(self.body_left).unwrap_or(usize::MAX).saturating_add(loaded);
        if bytes as u64 > bytes_max {
            return Err(StorageError::PayloadTooLarge { bytes });
        }
        let mut rest = Vec::with_capacity(bytes);
        while let Some(block) = self.next_block()? {
            rest.extend_from_slice(block);
        }
        Ok(rest)
    }

    /// Reads and verifies the next block if the last one was returned completely.
    fn fill(&mut self) -> Result<(), StorageError> {
        if self.taken < self.block.len() || self.body_left == 0 {
            return Ok(());
        }
        let block_bytes = self.layout.block_bytes();
        let at_a_time = BLOCK_BYTES / block_bytes * block_bytes;
        let body_bytes = self.body_left.min(at_a_time as u64) as usize;
        let first = self.layout.header_bytes() as u64
            + self.blocks * (block_bytes + BLOCK_CHECKSUM_BYTES) as u64;
        self.taken = 0;
        self.block.clear();
        self.raw.resize(body_bytes + body_bytes.div_ceil(block_bytes) * BLOCK_CHECKSUM_BYTES, 0);
        let filled = self.file.read_at(first, &mut self.raw)?;
        let read = self.raw.get(..filled).unwrap_or_default();
        let mut offset = first;
        for raw in read.chunks(block_bytes + BLOCK_CHECKSUM_BYTES) {
            let Some(block) = verified(raw, self.blocks, self.seed) else { break };
            self.whole.update(block);
            self.block.extend_from_slice(block);
            self.blocks += 1;
            offset += raw.len() as u64;
        }
        if self.block.len() < body_bytes {
            self.block.clear();
            return Err(damaged(&self.name, offset, Damage::Block));
        }
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

/// The errors contain a [`StorageError`]; [`StorageError::from_io`] extracts it.
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

/// Removes every temporary file of a process that ended before it finished it.
///
/// # Errors
/// [`StorageError::Io`].
pub fn remove_leftovers(disk: &dyn Disk) -> Result<(), StorageError> {
    for name in disk.list()? {
        if is_temporary(&name) {
            disk.remove(&name)?;
        }
    }
    disk.sync_directory()
}

fn decode_header(
    header: &[u8],
    kind: FileKind,
    expected: Option<&Identity>,
) -> Result<(Identity, BodyLayout), BadHeader> {
    let (identity, layout) = match BodyLayout::Pages.format().decode(header) {
        Ok((identity, [])) => (identity, BodyLayout::Pages),
        Err(BadHeader::Refused(FileRefusal::Version { .. })) => {
            let (identity, []) = BodyLayout::Blocks.format().decode(header)?;
            (identity, BodyLayout::Blocks)
        }
        Err(bad) => return Err(bad),
    };
    let (expected_kind, got) = (kind.0, u32_at(header, KIND_AT));
    if got != expected_kind {
        return Err(BadHeader::Refused(FileRefusal::Kind { expected: expected_kind, got }));
    }
    if let Some(expected) = expected {
        expected.accept(&identity).map_err(BadHeader::Refused)?;
    }
    Ok((identity, layout))
}

fn encode_trailer(sealed: &Sealed) -> Vec<u8> {
    let mut out = Vec::with_capacity(TRAILER_BYTES);
    out.extend_from_slice(&sealed.body_bytes.to_le_bytes());
    out.extend_from_slice(&sealed.checksum.to_le_bytes());
    append_crc(&mut out);
    out
}

/// The trailer of a file of `length` bytes; `None` if it does not fit the file.
fn read_trailer(
    file: &dyn DiskFile,
    layout: BodyLayout,
    length: u64,
) -> Result<Option<Sealed>, StorageError> {
    let mut trailer = [0; TRAILER_BYTES];
    let whole = file.read_at(trailer_offset(length), &mut trailer)? == TRAILER_BYTES;
    let body_bytes = u64_at(&trailer, BODY_BYTES_AT);
    if !whole || !has_crc(&trailer) || file_bytes(layout, body_bytes) != Some(length) {
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

/// The length of a file with a body of this length; `None` if it overflows.
fn file_bytes(layout: BodyLayout, body_bytes: u64) -> Option<u64> {
    let blocks = body_bytes.div_ceil(layout.block_bytes() as u64);
    let checksums = blocks.checked_mul(BLOCK_CHECKSUM_BYTES as u64)?;
    body_bytes.checked_add(checksums)?.checked_add((layout.header_bytes() + TRAILER_BYTES) as u64)
}

pub(crate) fn damaged(name: &str, offset: u64, why: Damage) -> StorageError {
    StorageError::DamagedSealed { file: name.to_owned(), offset, why }
}

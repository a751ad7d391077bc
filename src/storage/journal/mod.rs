//! The single writer of the journal.
//!
//! A *group* of records is appended to a buffer, flushed with one write and synced once; what a
//! frame says of durability (`durable_upto`) is what was synced when it was appended. When the
//! writer falls idle it seals. Files rotate at a configured size, in an order that [`mod@scan`]
//! relies on: the old file is sealed and synced, then the new one is created, its header synced, the
//! directory synced, and only then is it written to.
//!
//! Knows no thread: one owner calls it. Cost of an append: one pass of XXH3 and one copy. After any
//! failed write or sync nothing is tried again, since what the disk holds is unknown until it is
//! read back. Tested against a model through seeded power cuts, failing writes and full disks.

use std::sync::{Arc, RwLock};

use super::header::{JOURNAL_HEADER_BYTES, JournalHeader, Seed, journal_name};
use super::sealed::remove_if_there;
use super::{Disk, Identity, Reclaimer, Records, StorageError, Tail, holds_records};
use crate::storage::journal::frame::{FRAME_OVERHEAD_BYTES, FrameHeader, PAYLOAD_BYTES_MAX};
use crate::storage::journal::records::JournalFile;
use crate::storage::journal::scan::TailFile;

/// Room is asked for in steps of this size, so that a group rarely costs a system call.
const RESERVE_STEP_BYTES: u64 = 1 << 20;

/// How much of an unproven tail is written again at a time.
const REWRITE_BYTES: usize = 1 << 20;

/// A file that is one in so many bytes of all is worth cutting.
const CUT_SHARE: u64 = 16;

/// The grain in which space is given back: 16 MiB, or half a journal file where that is less.
pub fn step_bytes(file_bytes: u64) -> u64 {
    (16 << 20).min(file_bytes / 2)
}

/// The settings of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalOptions {
    /// A file is closed by the flush that brings it to this size; it is larger by at most a group.
    pub file_bytes: u64,
}

/// The single writer. After a failed write or sync every later call fails
/// ([`StorageError::Poisoned`]); a full disk met by [`Journal::reserve`] poisons nothing.
#[derive(Debug)]
pub struct Journal {
    disk: Arc<dyn Disk>,
    identity: Identity,
    seed: Seed,
    options: JournalOptions,
    records: Records,
    live: Arc<JournalFile>,
    /// Where the next write goes in the live file.
    written: u64,
    /// Up to where the live file has room for sure.
    reserved: u64,
    /// Encoded frames that are not written yet, and their headers for the index.
    buffer: Vec<u8>,
    pending: Vec<FrameHeader>,
    next: u64,
    chain: u64,
    durable_upto: u64,
    /// What the last seal says, or at the start the largest `durable_upto` that was found.
    claimed: u64,
    poison: Option<String>,
}

impl Journal {
    /// Continues after what [`super::scan()`] found: cuts the torn tail, makes everything before it
    /// durable, creates the first file of an empty directory, and seals.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn open(
        disk: Arc<dyn Disk>,
        identity: Identity,
        tail: Tail,
        options: JournalOptions,
    ) -> Result<Self, StorageError> {
        let next = tail.last.saturating_add(1);
        if let Some(torn) = tail.torn.as_ref().filter(|torn| torn.offset == 0) {
            disk.remove(&torn.file)?;
        }
        // What is in the page cache of a process that was killed is not durable yet, and neither
        // is the name of a file it created last.
        disk.sync_directory()?;
        // A crash came between a durable pack and the removal of what it took the place of.
        for name in &tail.leftovers {
            disk.remove(name)?;
        }
        let seed = identity.seed();
        let begin = JournalHeader { identity, first: next, chain: tail.chain };
        let newest = tail.files.last().filter(|file| file.pack.is_none());
        let header = newest.map_or(begin, |file| file.header);
        let mut files: Vec<_> = tail.files.into_iter().map(reader_side).collect();
        let live = if let Some(live) = files.last().filter(|file| file.pack.is_none()) {
            if let Some(torn) = tail.torn.as_ref().filter(|torn| torn.offset > 0) {
                live.file.truncate(torn.offset)?;
            }
            make_durable(live, &header, tail.claimed)?;
            Arc::clone(live)
        } else {
            let first = Arc::new(create_file(&*disk, &header)?);
            files.push(Arc::clone(&first));
            first
        };
        let written = match tail.torn.filter(|torn| torn.offset > 0) {
            Some(torn) => torn.offset,
            None => live.file.len()?,
        };
        let mut journal = Self {
            disk,
            identity,
            seed,
            options,
            records: Records::new(seed, files),
            live,
            written,
            reserved: 0,
            buffer: Vec::new(),
            pending: Vec::new(),
            next,
            chain: tail.chain,
            durable_upto: tail.last,
            claimed: tail.claimed,
            poison: None,
        };
        journal.seal()?;
        Ok(journal)
    }

    /// Creates the first file of a new directory. Made before anything says that there is a directory: one
    /// without a record file has lost it.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn create_first(disk: &dyn Disk, identity: Identity) -> Result<(), StorageError> {
        remove_if_there(disk, &journal_name(1))?;
        create_file(disk, &JournalHeader { identity, first: 1, chain: 0 }).map(drop)
    }

    /// A reader of all flushed records; cheap to clone and to send to other threads.
    pub fn records(&self) -> Records {
        self.records.clone()
    }

    /// Gives back the space of records in closed files.
    pub fn reclaimer(&self) -> Reclaimer {
        let (disk, records) = (Arc::clone(&self.disk), self.records.clone());
        Reclaimer::new(disk, self.identity, records)
    }

    /// The sequence the next change will get.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// The last sequence known to be durable; 0 for none.
    pub fn durable_upto(&self) -> u64 {
        self.durable_upto
    }

    /// Puts a record into the buffer and returns the sequence of the first of its `count` changes.
    /// No input or output.
    ///
    /// # Errors
    /// [`StorageError::PayloadTooLarge`], [`StorageError::Poisoned`]; nothing was appended.
    ///
    /// # Panics
    /// When `count` is 0.
    pub fn append(&mut self, payload: &[u8], count: u32) -> Result<u64, StorageError> {
        assert!(count > 0, "a record stands for at least one change");
        self.check_poison()?;
        let bytes = payload.len();
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(StorageError::PayloadTooLarge { bytes });
        }
        let header = self.next_header(count, bytes);
        self.chain = frame::encode(&mut self.buffer, self.seed, &header, payload);
        self.pending.push(header);
        self.next = header.next_sequence();
        Ok(header.sequence)
    }

    /// Writes the buffer with one write; from then on the records can be read. Begins a new file
    /// when this one has reached its size (that syncs the old one first). A disk too full for a new
    /// file lets the old one grow.
    ///
    /// # Errors
    /// [`StorageError::Io`], [`StorageError::Poisoned`].
    pub fn flush(&mut self) -> Result<(), StorageError> {
        self.check_poison()?;
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = self.live.file.write_at(self.written, &self.buffer);
        self.or_poison(written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        let pending = &self.pending;
        self.live.extend(|index| pending.iter().for_each(|header| index.push(header)));
        for header in pending {
            self.records.note_length(header);
        }
        self.pending.clear();
        if self.written >= self.options.file_bytes {
            let rotated = self.rotate();
            self.or_poison(rotated)?;
        }
        Ok(())
    }

    /// Makes everything durable, and begins a new file when this one is a considerable part of all:
    /// a 16th, and a step ([`step_bytes`]). What is in it can then be given back.
    ///
    /// # Errors
    /// [`StorageError::Io`], [`StorageError::Poisoned`].
    pub fn cut(&mut self) -> Result<(), StorageError> {
        self.sync()?;
        let step = step_bytes(self.options.file_bytes);
        let worth = (self.records.extent().bytes / CUT_SHARE).max(step);
        // An empty file's successor would have its name.
        if self.written >= worth && self.next > self.live.first {
            let rotated = self.rotate();
            self.or_poison(rotated)?;
        }
        Ok(())
    }

    /// Flushes, and makes every record durable. Free when nothing was flushed since the last sync.
    /// Returns the last durable sequence.
    ///
    /// # Errors
    /// [`StorageError::Io`], [`StorageError::Poisoned`].
    pub fn sync(&mut self) -> Result<u64, StorageError> {
        self.flush()?;
        let last = self.next - 1;
        if self.durable_upto < last {
            let synced = self.live.file.sync_data();
            self.or_poison(synced)?;
            self.durable_upto = last;
        }
        Ok(self.durable_upto)
    }

    /// Writes a seal, which says that everything before it is durable; does not sync it. Call it
    /// after a sync when no record waits, so that a later flip in the last record is told from a
    /// torn tail. Does nothing when a record waits or is not durable, when the disk says already
    /// what is durable, and when it is full.
    ///
    /// # Errors
    /// [`StorageError::Io`], [`StorageError::Poisoned`].
    pub fn seal(&mut self) -> Result<(), StorageError> {
        self.check_poison()?;
        let sealed = self.write_seal();
        self.or_poison(sealed)
    }

    /// Asks for room for a group of `records` records with payloads of `payload_bytes` together,
    /// and for the seal behind them.
    ///
    /// Cost: one system call for about each MiB of journal.
    ///
    /// # Errors
    /// [`StorageError::Io`]: when [`StorageError::is_full`], nothing is poisoned and the group can
    /// be refused; [`StorageError::Poisoned`].
    pub fn reserve(&mut self, records: u64, payload_bytes: u64) -> Result<(), StorageError> {
        self.check_poison()?;
        let frames = records.saturating_add(1);
        let bytes = frames
            .saturating_mul(FRAME_OVERHEAD_BYTES as u64)
            .saturating_add(payload_bytes)
            .saturating_add(self.buffer.len() as u64);
        match self.reserve_bytes(bytes) {
            Err(error) if error.is_full() => Err(error),
            other => self.or_poison(other),
        }
    }

    fn reserve_bytes(&mut self, bytes: u64) -> Result<(), StorageError> {
        let end = self.written.saturating_add(bytes);
        if end <= self.reserved {
            return Ok(());
        }
        let step = bytes.max(RESERVE_STEP_BYTES);
        let stepped = match self.live.file.reserve(self.written, step) {
            Ok(()) => step,
            Err(error) if error.is_full() => {
                self.live.file.reserve(self.written, bytes)?;
                bytes
            }
            Err(error) => return Err(error),
        };
        self.reserved = self.written.saturating_add(stepped);
        Ok(())
    }

    fn next_header(&self, count: u32, payload_bytes: usize) -> FrameHeader {
        FrameHeader {
            payload_bytes: payload_bytes as u32,
            count,
            sequence: self.next,
            chain: self.chain,
            durable_upto: self.durable_upto,
        }
    }

    fn write_seal(&mut self) -> Result<(), StorageError> {
        let idle = self.buffer.is_empty() && self.durable_upto == self.next - 1;
        if !idle || self.claimed >= self.durable_upto {
            return Ok(());
        }
        let header = self.next_header(0, 0);
        let mut seal = Vec::with_capacity(FRAME_OVERHEAD_BYTES);
        let chain = frame::encode(&mut seal, self.seed, &header, &[]);
        match self.live.file.write_at(self.written, &seal) {
            // A part of it may be there; the next group is written over it, and until then it is a
            // torn tail without a record.
            Err(error) if error.is_full() => return Ok(()),
            other => other?,
        }
        self.written += seal.len() as u64;
        self.chain = chain;
        self.claimed = self.durable_upto;
        self.live.extend(|index| index.push(&header));
        Ok(())
    }

    /// Closes the live file and begins the next one; see the module's header for the order. On a
    /// full disk the live file stays.
    fn rotate(&mut self) -> Result<(), StorageError> {
        self.live.file.sync_data()?;
        self.durable_upto = self.next - 1;
        self.write_seal()?;
        // Gives back the room reserved behind the end.
        self.live.file.truncate(self.written)?;
        self.reserved = 0;
        self.live.file.sync_data()?;
        let header = JournalHeader { identity: self.identity, first: self.next, chain: self.chain };
        match create_file(&*self.disk, &header) {
            Ok(file) => {
                self.live = Arc::new(file);
                self.written = JOURNAL_HEADER_BYTES as u64;
                self.records.publish(&self.live);
                Ok(())
            }
            Err(error) if error.is_full() => {
                // While its name may be on disk, the live file passes for closed.
                match self.disk.remove(&journal_name(self.next)) {
                    Err(error) if !error.is_not_found() => return Err(error),
                    Ok(()) | Err(_) => {}
                }
                self.disk.sync_directory()
            }
            Err(error) => Err(error),
        }
    }

    fn check_poison(&self) -> Result<(), StorageError> {
        match &self.poison {
            None => Ok(()),
            Some(first) => Err(StorageError::Poisoned { first: first.clone() }),
        }
    }

    fn or_poison(&mut self, result: Result<(), StorageError>) -> Result<(), StorageError> {
        if let Err(error) = &result {
            self.poison = Some(error.to_string());
        }
        result
    }
}

/// Whether there is no record file but what [`Journal::create_first`] leaves when it is cut short.
///
/// # Errors
/// [`StorageError::Io`].
pub fn is_unwritten(disk: &dyn Disk) -> Result<bool, StorageError> {
    for name in disk.list()?.iter().filter(|name| holds_records(name)) {
        let is_begun = *name == journal_name(1);
        if !is_begun || disk.open(name)?.len()? > JOURNAL_HEADER_BYTES as u64 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Creates a journal file; when this returns, its header and its name are durable.
fn create_file(disk: &dyn Disk, header: &JournalHeader) -> Result<JournalFile, StorageError> {
    let name = journal_name(header.first);
    let file = disk.create(&name)?;
    // A full disk is met here, before a byte is written.
    file.reserve(0, JOURNAL_HEADER_BYTES as u64)?;
    file.write_at(0, &header.encode())?;
    file.sync_data()?;
    disk.sync_directory()?;
    let journal_file = JournalFile {
        name,
        first: header.first,
        file: Arc::from(file),
        bytes: JOURNAL_HEADER_BYTES as u64,
        index: RwLock::new(None),
        pack: None,
    };
    journal_file.extend(|_| {});
    Ok(journal_file)
}

/// Makes what the scan has read of the live file durable, by writing it again.
///
/// A sync alone is not enough: after a failed sync the system takes the unwritten bytes in its page
/// cache for clean. The process that met the failure has ended; this one reads those bytes, and its
/// own sync would succeed without writing them.
fn make_durable(
    live: &JournalFile,
    header: &JournalHeader,
    claimed: u64,
) -> Result<(), StorageError> {
    live.file.write_at(0, &header.encode())?;
    let (mut offset, end) = live.unproven(claimed);
    let mut bytes = vec![0; REWRITE_BYTES];
    while offset < end {
        let most = end.saturating_sub(offset).min(REWRITE_BYTES as u64) as usize;
        let part = bytes.get_mut(..most).unwrap_or_default();
        let read = live.file.read_at(offset, part)?;
        if read == 0 {
            break;
        }
        live.file.write_at(offset, part.get(..read).unwrap_or_default())?;
        offset += read as u64;
    }
    live.file.sync_data()
}

fn reader_side(file: TailFile) -> Arc<JournalFile> {
    Arc::new(JournalFile {
        name: file.name,
        first: file.header.first,
        file: file.file,
        bytes: file.bytes,
        index: RwLock::new(file.index),
        pack: file.pack,
    })
}
pub(crate) mod continuity;
pub mod frame;
pub(crate) mod index;
pub mod pack;
pub mod reclaim;
pub mod records;
pub mod salvage;
pub mod scan;
pub(crate) mod window;

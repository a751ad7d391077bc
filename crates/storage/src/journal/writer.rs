//! The single writer of the journal.
//!
//! A *group* of records is appended to a buffer, flushed with one write and synced once. The
//! `durable_upto` of a frame is what was synced when the frame was appended. An idle writer writes
//! a seal. Files rotate at a configured size, in an order that [`mod@super::recovery`] relies on:
//! the old file is sealed and synced; then the new one is created, its header and the directory are
//! synced, and only then does it receive frames.
//!
//! Knows no thread: one owner calls it. An append costs one pass of XXH3 and one copy. After a
//! failed write or sync nothing is retried, because only reading the disk again shows what is on
//! it. Tested against a model through seeded power cuts, failing writes and full disks.

use std::sync::Arc;

use crate::disk::{Disk, read_in_pieces, require_space};
use crate::error::StorageError;
use crate::frame;
use crate::frame::{FRAME_OVERHEAD_BYTES, FrameHeader, PAYLOAD_BYTES_MAX};
use crate::header::{Identity, Seed};
use crate::journal::file::JournalFile;
use crate::journal::header::{JOURNAL_HEADER_BYTES, RecordHeader};
use crate::journal::index::SparseIndex;
use crate::journal::reader::Records;
use crate::journal::reclaim::Reclaimer;
use crate::journal::recovery::Tail;
use crate::names::{holds_records, journal_name};

/// Disk space is reserved in steps of this size, so that a group rarely costs a system call.
const RESERVE_STEP_BYTES: u64 = 1 << 20;

/// A live file is closed early once it has one part in this many of all bytes.
const CUT_SHARE: u64 = 16;

/// The smallest amount of space worth reclaiming: 16 MiB, or half a journal file if that is less.
pub fn step_bytes(file_bytes: u64) -> u64 {
    (16 << 20).min(file_bytes / 2)
}

/// The single writer. After a failed write or sync every later call fails
/// ([`StorageError::Poisoned`]), except that a full disk in [`Journal::reserve`] poisons nothing.
#[derive(Debug)]
pub struct Journal {
    disk: Arc<dyn Disk>,
    identity: Identity,
    seed: Seed,
    /// The flush that brings a file to this size closes it, so it is larger by at most a group.
    file_bytes: u64,
    records: Records,
    live: Arc<JournalFile>,
    /// The offset of the next write to the live file.
    written: u64,
    /// The offset up to which disk space is reserved.
    reserved: u64,
    /// Encoded frames that are not written yet; `pending` has their headers.
    buffer: Vec<u8>,
    pending: Vec<FrameHeader>,
    next: u64,
    chain: u64,
    durable_upto: u64,
    /// The durable sequence in the last seal; at the start, the largest `durable_upto` on disk.
    claimed: u64,
    poison: Option<String>,
}

impl Journal {
    /// Continues the journal at the end that [`scan`](crate::scan()) found: cuts off the
    /// torn tail, makes everything before it durable, creates the first file of an empty directory,
    /// and writes a seal. A flush that brings a file to `file_bytes` closes it.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn open(
        disk: Arc<dyn Disk>,
        identity: Identity,
        tail: Tail,
        file_bytes: u64,
    ) -> Result<Self, StorageError> {
        let next = tail.last.saturating_add(1);
        if let Some(torn) = tail.torn.as_ref().filter(|torn| torn.offset == 0) {
            disk.remove(&torn.file)?;
        }
        // What a killed process left in the page cache is not durable yet, nor is the name of the
        // file that it created last.
        disk.sync_directory()?;
        // A crash came between a durable pack and the removal of the files that it replaces.
        for name in &tail.replaced {
            disk.remove(name)?;
        }
        let seed = identity.seed();
        let mut files: Vec<_> = tail.files.into_iter().map(Arc::new).collect();
        let live = if let Some(live) = files.last()
            && !live.is_pack()
        {
            if let Some(torn) = tail.torn.as_ref().filter(|torn| torn.offset > 0) {
                live.file.truncate(torn.offset)?;
            }
            make_durable(live, tail.claimed)?;
            Arc::clone(live)
        } else {
            let first = Arc::new(create_file(&*disk, identity, next, tail.chain)?);
            files.push(Arc::clone(&first));
            first
        };
        let written = match tail.torn.filter(|torn| torn.offset > 0) {
            Some(torn) => torn.offset,
            None => live.file.len()?,
        };
        let records = Records::new(Arc::clone(&disk), seed, files);
        let mut journal = Self {
            disk,
            identity,
            seed,
            file_bytes,
            records,
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

    /// Creates the first file of a new data directory. This comes before the file that identifies
    /// the directory, because a directory without a record file has lost it.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn create_first(disk: &dyn Disk, identity: Identity) -> Result<(), StorageError> {
        disk.remove_if_present(&journal_name(1))?;
        create_file(disk, identity, 1, 0).map(drop)
    }

    /// A reader of all flushed records; cheap to clone and to send to other threads.
    pub fn records(&self) -> Records {
        self.records.clone()
    }

    /// Reclaims the space of records in closed files.
    pub fn reclaimer(&self) -> Reclaimer {
        let (disk, records) = (Arc::clone(&self.disk), self.records.clone());
        Reclaimer::new(disk, self.identity, records)
    }

    /// The sequence of the next change.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// The last sequence known to be durable; 0 for none.
    pub fn durable_upto(&self) -> u64 {
        self.durable_upto
    }

    /// Appends a record to the buffer and returns the sequence of the first of its `count` changes.
    /// Does not access the disk.
    ///
    /// # Errors
    /// [`StorageError::PayloadTooLarge`], [`StorageError::Poisoned`]; nothing was appended.
    ///
    /// # Panics
    /// If `count` is 0.
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

    /// Writes the buffer with one write; from then on the records can be read. Begins a new file if
    /// this one has reached its size, after syncing it. If the disk is too full for a new file, or
    /// the process may not have more ([`Disk::record_files_max`]), the old one grows.
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
        self.pending.clear();
        if self.written >= self.file_bytes && self.may_have_another_file() {
            let rotated = self.rotate();
            self.or_poison(rotated)?;
        }
        Ok(())
    }

    /// Makes everything durable. Begins a new file if this one has at least a 16th of all bytes and
    /// at least [`step_bytes`], so that its space can be reclaimed.
    ///
    /// # Errors
    /// [`StorageError::Io`], [`StorageError::Poisoned`].
    pub fn cut(&mut self) -> Result<(), StorageError> {
        self.sync()?;
        let step = step_bytes(self.file_bytes);
        let worth = (self.records.extent().bytes / CUT_SHARE).max(step);
        // The file after an empty one would have its name.
        if self.written >= worth && self.next > self.live.first() && self.may_have_another_file() {
            let rotated = self.rotate();
            self.or_poison(rotated)?;
        }
        Ok(())
    }

    /// Flushes, makes every record durable, and returns the last durable sequence. Free if nothing
    /// was appended since the last sync.
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

    /// Writes a seal, which claims that everything before it is durable; does not sync it. Call
    /// this after a sync when no record is waiting, so that a later flip in the last record counts
    /// as damage and not as a torn tail. Does nothing if a record is waiting or not durable, if a
    /// claim on disk already covers every record, or if the disk is full.
    ///
    /// # Errors
    /// [`StorageError::Io`], [`StorageError::Poisoned`].
    pub fn seal(&mut self) -> Result<(), StorageError> {
        self.check_poison()?;
        let sealed = self.write_seal();
        self.or_poison(sealed)
    }

    /// Syncs everything, and then a seal that says so. A disk that has lost a record in spite of
    /// the sync then shows damage, and not an older journal.
    ///
    /// # Errors
    /// [`StorageError::Io`], [`StorageError::Poisoned`].
    pub fn sync_sealed(&mut self) -> Result<(), StorageError> {
        self.sync()?;
        self.seal()?;
        let synced = self.live.file.sync_data();
        self.or_poison(synced)
    }

    /// Reserves disk space for a group of `records` records, whose payloads have `payload_bytes`
    /// together, and for the seal after them. Leaves `free_bytes_min` bytes of the disk free.
    ///
    /// Cost: one system call for about each MiB of journal.
    ///
    /// # Errors
    /// [`StorageError::Io`]; if [`StorageError::is_full`], nothing is poisoned and the caller can
    /// refuse the group. [`StorageError::Poisoned`].
    pub fn reserve(
        &mut self,
        records: u64,
        payload_bytes: u64,
        free_bytes_min: u64,
    ) -> Result<(), StorageError> {
        self.check_poison()?;
        let frames = records.saturating_add(1);
        let bytes = frames
            .saturating_mul(FRAME_OVERHEAD_BYTES as u64)
            .saturating_add(payload_bytes)
            .saturating_add(self.buffer.len() as u64);
        match self.reserve_bytes(bytes, free_bytes_min) {
            Err(error) if error.is_full() => Err(error),
            other => self.or_poison(other),
        }
    }

    fn reserve_bytes(&mut self, bytes: u64, free_bytes_min: u64) -> Result<(), StorageError> {
        let end = self.written.saturating_add(bytes);
        if end <= self.reserved {
            return Ok(());
        }
        if free_bytes_min > 0 {
            require_space(&*self.disk, bytes.saturating_add(free_bytes_min), "the journal")?;
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
            // The next group overwrites what was written of the seal; until then that is a torn
            // tail without a record.
            Err(error) if error.is_full() => return Ok(()),
            other => other?,
        }
        self.written += seal.len() as u64;
        self.chain = chain;
        self.claimed = self.durable_upto;
        self.live.extend(|index| index.push(&header));
        Ok(())
    }

    fn may_have_another_file(&self) -> bool {
        self.records.extent().files < self.disk.record_files_max()
    }

    /// Closes the live file and begins the next one, in the order of the module's header. Where
    /// there is no room for another file, the live file stays.
    fn rotate(&mut self) -> Result<(), StorageError> {
        self.live.file.sync_data()?;
        self.durable_upto = self.next - 1;
        self.write_seal()?;
        // Frees the space reserved after the end.
        self.live.file.truncate(self.written)?;
        self.reserved = 0;
        self.live.file.sync_data()?;
        match create_file(&*self.disk, self.identity, self.next, self.chain) {
            Ok(file) => {
                self.live.extend(SparseIndex::shrink);
                self.live = Arc::new(file);
                self.written = JOURNAL_HEADER_BYTES as u64;
                self.records.publish(&self.live);
                Ok(())
            }
            Err(error) if error.is_full() || error.is_out_of_files() => {
                // As long as its name is on disk, recovery takes the live file for closed.
                self.disk.remove_if_present(&journal_name(self.next))?;
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

/// Whether there is no record file, or only what a crash leaves of [`Journal::create_first`].
///
/// # Errors
/// [`StorageError::Io`].
pub fn is_unwritten(disk: &dyn Disk) -> Result<bool, StorageError> {
    for name in disk.list()?.iter().filter(|name| holds_records(name)) {
        if *name != journal_name(1) || disk.open(name)?.len()? > JOURNAL_HEADER_BYTES as u64 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Creates a journal file. When this returns, its header and its name are durable.
fn create_file(
    disk: &dyn Disk,
    identity: Identity,
    first: u64,
    chain: u64,
) -> Result<JournalFile, StorageError> {
    let header = RecordHeader { identity, first, chain, pack: None };
    let name = header.name();
    let file = disk.create(&name)?;
    // A full disk is noticed here, before a byte is written.
    file.reserve(0, JOURNAL_HEADER_BYTES as u64)?;
    file.write_at(0, &header.encode())?;
    file.sync_data()?;
    disk.sync_directory()?;
    let created = JournalFile::new(name, header, Arc::from(file), JOURNAL_HEADER_BYTES as u64);
    created.extend(|_| {});
    Ok(created)
}

/// Makes what recovery has read of the live file durable, by writing it again.
///
/// A sync alone is not enough: after a failed sync, Linux marks the unwritten bytes in its page
/// cache as clean. The process with the failed sync has ended; this one reads those bytes, and its
/// own sync would succeed without writing them.
fn make_durable(live: &JournalFile, claimed: u64) -> Result<(), StorageError> {
    live.file.write_at(0, &live.header.encode())?;
    let file = &*live.file;
    read_in_pieces(file, live.unproven(claimed), |offset, piece| file.write_at(offset, piece))?;
    live.file.sync_data()
}

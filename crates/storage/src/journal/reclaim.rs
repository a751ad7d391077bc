//! Reclaims the space of records that are no longer needed, while the journal is written.
//!
//! A *sweep* visits the closed files of the journal and the packs, oldest first, and rewrites them
//! as packs with only the records that are still needed; the caller decides which. Files whose
//! records are all needed stay. A pack is durable and read back before it is published to readers,
//! and only then are the files that it replaces removed: after a crash in between both exist, and
//! the next start removes the older ones. Pinned readers continue to read removed files.
//!
//! The order matters: a record that only removes older documents may go because the records of
//! those documents have gone before it, in this sweep or an earlier one. So the records alone
//! always lead to the state, even without any snapshot.
//!
//! Knows no content and no clock. Cost: reads every file, and rewrites those with records that are
//! not needed. Needs free disk space for one pack. Tested by a crash at every operation.

use std::sync::Arc;

use crate::disk::Disk;
use crate::error::StorageError;
use crate::frame::RecordRef;
use crate::header::Identity;
use crate::journal::pack::PackWriter;
use crate::journal::reader::{ClosedFile, Extent, Records};

/// Passes to the second argument what is still needed of a record: the record itself, parts whose
/// changes lie within its range, or nothing.
pub type Keep<'a> = dyn FnMut(RecordRef<'_>, &mut dyn FnMut(RecordRef<'_>)) + 'a;

/// Receives the number of bytes read since the last call; returns whether to continue. It may wait.
pub(crate) type Pace<'a> = dyn FnMut(u64) -> bool + 'a;

/// How much of the files is needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of the files.
    pub bytes: u64,
    /// The bytes of only the needed records.
    pub live_bytes: u64,
}

/// The result of a survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surveyed {
    /// The usage of the surveyed files.
    pub usage: Usage,
    /// The sequence after them.
    pub next: u64,
}

/// Which files a sweep rewrites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepRange {
    /// Files before this sequence are already swept.
    pub from: u64,
    /// Only files that end before this sequence are swept.
    pub next: u64,
    /// The approximate size of a pack.
    pub pack_bytes: u64,
}

/// The progress of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// A part is done; continue.
    UpTo {
        /// Everything before this sequence is done.
        next: u64,
        /// How many bytes were reclaimed.
        freed: u64,
    },
    /// There is nothing more.
    Done,
    /// The caller stopped it; the current files are unchanged.
    Stopped,
}

/// Sweeps the files of a journal. Only one may sweep at a time.
#[derive(Debug, Clone)]
pub struct Reclaimer {
    disk: Arc<dyn Disk>,
    identity: Identity,
    records: Records,
}

impl Reclaimer {
    pub(crate) fn new(disk: Arc<dyn Disk>, identity: Identity, records: Records) -> Self {
        Self { disk, identity, records }
    }

    /// The size of all files, including the live one.
    pub fn extent(&self) -> Extent {
        self.records.extent()
    }

    /// The files.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// How much of the closed files that end before `next` is needed; `None` if `pace` stops it.
    ///
    /// # Errors
    /// [`StorageError::Damaged`], [`StorageError::Io`].
    pub fn survey(
        &self,
        next: u64,
        keep: &mut Keep<'_>,
        pace: &mut Pace<'_>,
    ) -> Result<Option<Surveyed>, StorageError> {
        let mut surveyed = Surveyed { usage: Usage::default(), next: 1 };
        for closed in self.records.closed_files(1, next) {
            let Some(live) = self.live(&closed, keep, pace)? else { return Ok(None) };
            surveyed.usage.bytes += closed.file.length();
            surveyed.usage.live_bytes += live.bytes;
            surveyed.next = closed.next;
        }
        Ok(Some(surveyed))
    }

    /// Writes the next pack of a sweep. `keep` must decide by a durable state, and no later call by
    /// an older one.
    ///
    /// # Errors
    /// After [`StorageError::Damaged`] and [`StorageError::Io`] all files are unchanged. After
    /// [`StorageError::Poisoned`] it is unknown whether a pack keeps its new name after a power
    /// cut, so nothing may be written to the directory any more.
    pub fn sweep(
        &self,
        range: SweepRange,
        keep: &mut Keep<'_>,
        pace: &mut Pace<'_>,
    ) -> Result<Sweep, StorageError> {
        let mut packed = Packed { writer: None, files: Vec::new(), gains: false, chain: 0 };
        for closed in self.records.closed_files(range.from, range.next) {
            let Some(live) = self.live(&closed, keep, pace)? else {
                return packed.abandon();
            };
            // A small file whose records are all needed is merged with its neighbours.
            let stays = live.is_all && closed.file.length() >= range.pack_bytes / 2;
            if stays && packed.files.is_empty() {
                continue;
            }
            let full = packed.writer.as_ref().is_some_and(|w| w.bytes() >= range.pack_bytes);
            if stays || full {
                break;
            }
            packed.gains |= !live.is_all || !packed.files.is_empty();
            match self.copy(&mut packed, closed, keep, pace) {
                Ok(true) => {}
                Ok(false) => return packed.abandon(),
                Err(error) => {
                    packed.abandon()?;
                    return Err(error);
                }
            }
        }
        self.install(packed)
    }

    /// What is needed of a file; `None` if `pace` stops it.
    fn live(
        &self,
        closed: &ClosedFile,
        keep: &mut Keep<'_>,
        pace: &mut Pace<'_>,
    ) -> Result<Option<Live>, StorageError> {
        let (mut all_bytes, mut kept_bytes, mut is_all) = (0, 0, true);
        let chain = self.each(closed, pace, &mut |record| {
            let mut kept = false;
            keep(record, &mut |part| {
                kept_bytes += part.frame_bytes();
                kept |= part == record;
            });
            all_bytes += record.frame_bytes();
            is_all &= kept;
            Ok(())
        })?;
        let rest = closed.file.length().saturating_sub(all_bytes);
        Ok(chain.map(|_| Live { bytes: rest + kept_bytes, is_all }))
    }

    /// Appends what is needed of a file to the pack; false if `pace` stops it.
    fn copy<'s>(
        &'s self,
        packed: &mut Packed<'s>,
        closed: ClosedFile,
        keep: &mut Keep<'_>,
        pace: &mut Pace<'_>,
    ) -> Result<bool, StorageError> {
        let begun = match packed.writer.take() {
            Some(writer) => writer,
            None => PackWriter::create(&*self.disk, self.identity, closed.file.first())?,
        };
        let writer = packed.writer.insert(begun);
        let chain = self.each(&closed, pace, &mut |record| {
            let mut written = Ok(());
            keep(record, &mut |part| {
                if written.is_ok() {
                    written = writer.push(part);
                }
            });
            written
        })?;
        let Some(chain) = chain else { return Ok(false) };
        packed.chain = if closed.file.is_pack() { closed.file.header.chain } else { chain };
        packed.files.push(closed);
        Ok(true)
    }

    /// Visits the records of a file. Returns the chain value of its last frame, or `None` if `pace`
    /// stops it.
    fn each(
        &self,
        closed: &ClosedFile,
        pace: &mut Pace<'_>,
        visit: &mut dyn FnMut(RecordRef<'_>) -> Result<(), StorageError>,
    ) -> Result<Option<u64>, StorageError> {
        let (mut bytes_read, mut continues) = (0, true);
        let walked = closed.file.walk(closed.next, self.records.seed(), &mut |record| {
            bytes_read += record.frame_bytes();
            if bytes_read >= PACE_BYTES {
                continues &= pace(std::mem::take(&mut bytes_read));
            }
            if continues { visit(record) } else { Ok(()) }
        })?;
        Ok((continues && pace(bytes_read)).then_some(walked.chain))
    }

    fn install(&self, packed: Packed<'_>) -> Result<Sweep, StorageError> {
        let (Some(writer), Some(last)) = (packed.writer, packed.files.last()) else {
            return Ok(Sweep::Done);
        };
        let next = last.next;
        if !packed.gains {
            writer.abandon()?;
            return Ok(Sweep::UpTo { next, freed: 0 });
        }
        let pack = Arc::new(writer.finish(next, packed.chain)?);
        self.records.replace(&pack, next);
        let old = packed.files.iter().filter(|closed| closed.file.name != pack.name);
        old.map(|closed| self.disk.remove(&closed.file.name))
            .collect::<Result<Vec<()>, _>>()
            .and_then(|_| self.disk.sync_directory())
            .map_err(StorageError::fatal)?;
        let before: u64 = packed.files.iter().map(|closed| closed.file.length()).sum();
        Ok(Sweep::UpTo { next, freed: before.saturating_sub(pack.length()) })
    }
}

/// `pace` is called after this many bytes.
const PACE_BYTES: u64 = 1 << 20;

/// What is needed of a file.
struct Live {
    /// The bytes of only the needed records.
    bytes: u64,
    /// Whether every record is needed unchanged.
    is_all: bool,
}

/// A pack that is being written.
struct Packed<'a> {
    writer: Option<PackWriter<'a>>,
    /// The files that it replaces.
    files: Vec<ClosedFile>,
    /// Whether it is smaller than those files, or fewer.
    gains: bool,
    /// The chain value that the file after them continues.
    chain: u64,
}

impl Packed<'_> {
    fn abandon(self) -> Result<Sweep, StorageError> {
        self.writer.map_or(Ok(()), PackWriter::abandon)?;
        Ok(Sweep::Stopped)
    }
}

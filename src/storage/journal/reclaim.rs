//! Gives back the space of records that are no longer needed, while the journal is written.
//!
//! A *sweep* goes over the closed files of the journal and the packs, oldest first, and rewrites
//! them as packs with only what the floor above still needs. Files of which all is needed stay as
//! they are. Each pack is durable and read back before readers get it, and readers have it before
//! the files that it takes the place of are removed: a crash between leaves both, and the start
//! removes the older ones. Readers with a pinned list go on reading files that are removed.
//!
//! Oldest first matters: a record that only forgets older ones (a removal) may go because all that
//! it forgets has gone before, in the same sweep or an earlier one. So the records alone always
//! lead to the state, whatever becomes of the snapshots.
//!
//! Knows no content and no clock. Cost: a read of every file, a write of what is needed where
//! anything is not. Room needed on the disk: one pack. Tested by a crash at every operation.

use std::sync::Arc;

use crate::storage::journal::pack::PackWriter;
use crate::storage::journal::records::Piece;
use crate::storage::journal::scan::RecordRef;
use crate::storage::{Disk, Extent, Identity, Records, StorageError};

/// Hands to the second argument what is still needed of a record: the record itself, a part of it
/// (first and count lie within the record's), or nothing.
pub type Keep<'a> = dyn FnMut(RecordRef<'_>, &mut dyn FnMut(RecordRef<'_>)) + 'a;

/// Told how many bytes were gone over; answers whether to go on. It may wait.
pub type Pace<'a> = dyn FnMut(u64) -> bool + 'a;

/// How much of the files is needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of the files.
    pub bytes: u64,
    /// What they would have if they held only what is needed.
    pub live_bytes: u64,
}

/// What a survey found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surveyed {
    /// Of the files that were looked at.
    pub usage: Usage,
    /// The sequence after them.
    pub next: u64,
}

/// What a sweep is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepRange {
    /// Files before this sequence are done.
    pub from: u64,
    /// Only files that end before this sequence are touched.
    pub next: u64,
    /// A pack gets about so many bytes.
    pub pack_bytes: u64,
}

/// How far a sweep is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// A part is done; go on.
    UpTo {
        /// Everything before this sequence is done.
        next: u64,
        /// How many bytes were given back.
        freed: u64,
    },
    /// There is nothing more.
    Done,
    /// It was told to stop; what it was at is as it was.
    Stopped,
}

/// Rewrites what has been written; there is one of these at work.
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

    /// The size of all files, the one that is written to included.
    pub fn extent(&self) -> Extent {
        self.records.extent()
    }

    /// The bytes of the longest frame written since the journal was opened, for each of its changes.
    pub fn longest_written(&self) -> u64 {
        self.records.longest_written()
    }

    /// How much of the closed files that end before `next` is needed; `None` when told to stop.
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
        for piece in self.records.closed_pieces(1, next) {
            let Some(live) = self.live(&piece, keep, pace)? else { return Ok(None) };
            surveyed.usage.bytes += piece.file.length();
            surveyed.usage.live_bytes += live.bytes;
            surveyed.next = piece.next;
        }
        Ok(Some(surveyed))
    }

    /// Makes the next pack of a sweep. `keep` must speak of a state that is durable and that no later
    /// call goes behind.
    ///
    /// # Errors
    /// [`StorageError::Damaged`], [`StorageError::Io`]: what was there is there still.
    /// [`StorageError::Poisoned`]: a pack took its name, and whether it has it after a power cut is
    /// not known. Nothing may be written to the directory any more.
    pub fn sweep(
        &self,
        range: SweepRange,
        keep: &mut Keep<'_>,
        pace: &mut Pace<'_>,
    ) -> Result<Sweep, StorageError> {
        let mut packed = Packed { writer: None, pieces: Vec::new(), gains: false, chain: 0 };
        for piece in self.records.closed_pieces(range.from, range.next) {
            let Some(live) = self.live(&piece, keep, pace)? else {
                return packed.abandon();
            };
            // A small file is copied for the sake of its neighbours.
            let stays = live.is_all && piece.file.length() >= range.pack_bytes / 2;
            if stays && packed.pieces.is_empty() {
                continue;
            }
            let full = packed.writer.as_ref().is_some_and(|w| w.bytes() >= range.pack_bytes);
            if stays || full {
                break;
            }
            packed.gains |= !live.is_all || !packed.pieces.is_empty();
            match self.copy(&mut packed, piece, keep, pace) {
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

    /// What is needed of a file; `None` when told to stop.
    fn live(
        &self,
        piece: &Piece,
        keep: &mut Keep<'_>,
        pace: &mut Pace<'_>,
    ) -> Result<Option<Live>, StorageError> {
        let (mut all_bytes, mut kept_bytes, mut is_all) = (0, 0, true);
        let chain = self.each(piece, pace, &mut |record| {
            let mut kept = false;
            keep(record, &mut |part| {
                kept_bytes += part.frame_bytes();
                kept |= part == record;
            });
            all_bytes += record.frame_bytes();
            is_all &= kept;
            Ok(())
        })?;
        let rest = piece.file.length().saturating_sub(all_bytes);
        Ok(chain.map(|_| Live { bytes: rest + kept_bytes, is_all }))
    }

    /// Copies what is needed of a file behind what is packed; false when told to stop.
    fn copy<'s>(
        &'s self,
        packed: &mut Packed<'s>,
        piece: Piece,
        keep: &mut Keep<'_>,
        pace: &mut Pace<'_>,
    ) -> Result<bool, StorageError> {
        let begun = match packed.writer.take() {
            Some(writer) => writer,
            None => PackWriter::create(&*self.disk, self.identity, piece.file.first)?,
        };
        let writer = packed.writer.insert(begun);
        let chain = self.each(&piece, pace, &mut |record| {
            let mut written = Ok(());
            keep(record, &mut |part| {
                if written.is_ok() {
                    written = writer.push(part);
                }
            });
            written
        })?;
        let Some(chain) = chain else { return Ok(false) };
        packed.chain = piece.file.pack.map_or(chain, |pack| pack.chain);
        packed.pieces.push(piece);
        Ok(true)
    }

    /// Visits the records of a file at the pace of the caller; the chain value of its last frame, or
    /// `None` when told to stop.
    fn each(
        &self,
        piece: &Piece,
        pace: &mut Pace<'_>,
        visit: &mut dyn FnMut(RecordRef<'_>) -> Result<(), StorageError>,
    ) -> Result<Option<u64>, StorageError> {
        let (mut gone_over, mut goes_on) = (0, true);
        let chain = piece.file.walk(piece.next, self.records.seed(), &mut |record| {
            gone_over += record.frame_bytes();
            if gone_over >= PACE_BYTES {
                goes_on &= pace(std::mem::take(&mut gone_over));
            }
            if goes_on { visit(record) } else { Ok(()) }
        })?;
        Ok((goes_on && pace(gone_over)).then_some(chain))
    }

    fn install(&self, packed: Packed<'_>) -> Result<Sweep, StorageError> {
        let (Some(writer), Some(last)) = (packed.writer, packed.pieces.last()) else {
            return Ok(Sweep::Done);
        };
        let next = last.next;
        if !packed.gains {
            writer.abandon()?;
            return Ok(Sweep::UpTo { next, freed: 0 });
        }
        let pack = Arc::new(writer.finish(next, packed.chain)?);
        self.records.replace(&pack, next);
        let old = packed.pieces.iter().filter(|piece| piece.file.name != pack.name);
        old.map(|piece| self.disk.remove(&piece.file.name))
            .collect::<Result<Vec<()>, _>>()
            .and_then(|_| self.disk.sync_directory())
            .map_err(StorageError::fatal)?;
        let before: u64 = packed.pieces.iter().map(|piece| piece.file.length()).sum();
        Ok(Sweep::UpTo { next, freed: before.saturating_sub(pack.length()) })
    }
}

/// The pace is asked about after so many bytes.
const PACE_BYTES: u64 = 1 << 20;

/// What is needed of a file.
struct Live {
    /// What it would have if it held nothing else.
    bytes: u64,
    /// Whether that is every record as it is.
    is_all: bool,
}

/// A pack in the making.
struct Packed<'a> {
    writer: Option<PackWriter<'a>>,
    /// What it takes the place of.
    pieces: Vec<Piece>,
    /// Whether something goes by it, or files become fewer.
    gains: bool,
    /// The chain value that the file after these begins with.
    chain: u64,
}

impl Packed<'_> {
    fn abandon(self) -> Result<Sweep, StorageError> {
        self.writer.map_or(Ok(()), PackWriter::abandon)?;
        Ok(Sweep::Stopped)
    }
}

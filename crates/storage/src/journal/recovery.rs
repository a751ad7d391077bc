//! Recovery: reads the journal in order, verifies everything, and finds its end.
//!
//! Changes nothing on disk; [`crate::Journal::open`] cuts off a torn tail. Files that a
//! snapshot covers are read at both ends only: each file must exist, because its records are the
//! only copy of ids and sketches.
//!
//! # A torn tail and damage
//!
//! Let `s` be the sequence that is expected where the bytes stop continuing the journal. They are a
//! *torn tail* if they lie in the newest file and nothing claims that `s` was durable. Such claims
//! are `from` (a snapshot contains those changes) and the `durable_upto` of any intact frame
//! header, also after the bad bytes: all of them are searched. Everything else is *damage* and
//! refused, because cutting it off would lose acknowledged writes.
//!
//! A valid frame *after* the bad bytes proves nothing by itself: the frames of one group that was
//! not synced may reach the disk in any order, so after a power cut a later frame may be whole and
//! an earlier one lost. Such a later frame never claims that the lost one is durable, because its
//! `durable_upto` is what was synced when it was written. A header counts even if its payload is
//! torn: it was true when it was made, and its checksum is seeded with the secret directory id.
//!
//! A file was synced before the next one was created, and its header was synced before its first
//! frame was written. So bad bytes in an older file are damage. A bad header is damage if an intact
//! frame header follows it; otherwise a crash cut a rotation short.
//!
//! What cannot be detected: a flip in a record that was synced, if the power was cut before a later
//! frame or the seal was on disk; and a newest file that was cut or removed, if no claim in the
//! rest and no snapshot covers what is gone.
//!
//! Tested by every cut and every flipped bit of a small journal, and by simulated power cuts.

use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, MissingRecords, StorageError};
use crate::frame::{FRAME_HEADER_BYTES, Frame, MAGIC, RecordRef, decode_header};
use crate::header::{Identity, Seed};
use crate::journal::continuity;
use crate::journal::continuity::Ends;
use crate::journal::file::JournalFile;
use crate::journal::header::{Pack, RecordHeader};
use crate::journal::index::SparseIndex;
use crate::journal::pack::ends_whole;
use crate::names::{RecordFile, RecordFiles, record_range};
use crate::window::FileWindow;

/// The size of a read.
const CHUNK_BYTES: usize = 256 << 10;

/// The unacknowledged rest that [`crate::Journal::open`] cuts off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The newest journal file.
    pub file: String,
    /// Where it is cut, in bytes; 0 if the whole file is removed.
    pub offset: u64,
    /// How many bytes are cut off.
    pub bytes: u64,
}

/// Where the journal ends; what [`crate::Journal::open`] needs to continue it.
#[derive(Debug, Default)]
pub struct Tail {
    /// The last change of the last whole record; 0 for an empty journal.
    pub last: u64,
    /// What will be cut off, for the log.
    pub torn: Option<TornTail>,
    /// Files that a pack has replaced; [`crate::Journal::open`] removes them.
    pub(crate) replaced: Vec<String>,
    /// All other files, by first sequence. Those wholly at or before `from` have no index.
    pub(crate) files: Vec<JournalFile>,
    /// The chain value of the last frame.
    pub(crate) chain: u64,
    /// The largest durable sequence that a frame on disk claims.
    pub(crate) claimed: u64,
}

impl Tail {
    /// Whether there is no journal file and no pack.
    pub fn has_no_files(&self) -> bool {
        self.files.is_empty() && self.torn.is_none()
    }
}

/// Visits every record with a change after `from`, in order, each verified; changes nothing.
///
/// The first visited record may begin at or before `from` if it covers several changes. Files
/// wholly at or before `from` are read at both ends only. After an error, discard what was visited.
///
/// # Errors
/// [`StorageError::Damaged`], [`StorageError::Missing`], [`StorageError::Refused`],
/// [`StorageError::Io`].
pub fn scan(
    disk: &dyn Disk,
    identity: &Identity,
    from: u64,
    visit: &mut dyn FnMut(RecordRef<'_>),
) -> Result<Tail, StorageError> {
    let mut tail = Tail::default();
    open_files(disk, identity, &mut tail)?;
    check_continuity(&tail, from, identity)?;
    read_files(identity, from, tail, visit)
}

/// As [`scan`], but of the newest file alone, even if files before it are missing. For a repair.
///
/// # Errors
/// As [`scan`].
pub(crate) fn scan_newest(
    disk: &dyn Disk,
    identity: &Identity,
    from: u64,
) -> Result<Tail, StorageError> {
    let mut tail = Tail::default();
    open_files(disk, identity, &mut tail)?;
    read_files(identity, from, tail, &mut |_| ())
}

fn read_files(
    identity: &Identity,
    from: u64,
    mut tail: Tail,
    visit: &mut dyn FnMut(RecordRef<'_>),
) -> Result<Tail, StorageError> {
    let seed = identity.seed();
    let begin = from.saturating_add(1);
    check_snapshot(&tail.files, from)?;
    let after = tail.files.partition_point(|file| file.first() <= begin);
    let Some(start) = after.checked_sub(1) else {
        if tail.files.is_empty() && from == 0 {
            return Ok(tail);
        }
        return Err(missing(begin, None));
    };
    // If a crash cut a rotation short, there is a newer file, and this one was synced whole.
    let newest_is_torn = tail.torn.is_some();
    let count = tail.files.len();
    let mut expected: Option<(u64, u64)> = None;
    for (position, file) in tail.files.iter_mut().enumerate().skip(start) {
        let (next, chain) = expected.unwrap_or((file.first(), file.header.chain));
        if file.first() > next {
            return Err(missing(next, Some(file)));
        }
        if file.first() != next || (!file.is_pack() && file.header.chain != chain) {
            return Err(StorageError::damaged(&file.name, 0, next, Damage::Chain));
        }
        if let Some(Pack { next, .. }) = file.header.pack {
            if from == 0 {
                let walked = file.walk(next, seed, &mut |record| {
                    visit(record);
                    Ok(())
                })?;
                file.set_index(walked.index);
            }
            tail.last = next.saturating_sub(1);
            (tail.claimed, tail.chain) = (tail.last, file.header.chain);
            expected = Some((next, tail.chain));
            continue;
        }
        let mut pass = Pass {
            from,
            seed,
            claimed: tail.claimed,
            chain,
            may_be_torn: position + 1 == count && !newest_is_torn,
        };
        let (index, torn) = pass.read(file, visit)?;
        let next = index.next;
        file.set_index(index);
        tail.torn = tail.torn.take().or(torn);
        (tail.claimed, tail.chain) = (pass.claimed, pass.chain);
        tail.last = next.saturating_sub(1);
        expected = Some((next, pass.chain));
    }
    if tail.last < from {
        let name = tail.files.last().map_or("", |file| &file.name);
        let sequence = tail.last.saturating_add(1);
        return Err(StorageError::damaged(name, 0, sequence, Damage::EndsEarly));
    }
    Ok(tail)
}

/// Opens every record file and verifies its header. A newest file whose header never became durable
/// is the torn tail.
fn open_files(disk: &dyn Disk, identity: &Identity, tail: &mut Tail) -> Result<(), StorageError> {
    let found = RecordFiles::among(disk.list()?);
    let newest = found.newest_journal().map(str::to_owned);
    tail.replaced = found.replaced;
    for RecordFile { name, first, .. } in found.files {
        let file: Arc<dyn DiskFile> = Arc::from(disk.open(&name)?);
        let bytes = file.len()?;
        match RecordHeader::read(&name, &*file, identity) {
            Ok(header) if header.name() != name => {
                return Err(StorageError::damaged(&name, 0, first, Damage::FileName));
            }
            Ok(header) => {
                if let Some(Pack { next, .. }) = header.pack
                    && !ends_whole(&*file, bytes, next, identity.seed())?
                {
                    return Err(StorageError::damaged(&name, bytes, first, Damage::EndsEarly));
                }
                tail.files.push(JournalFile::new(name, header, file, bytes));
            }
            Err(StorageError::Damaged { .. })
                if newest.as_ref() == Some(&name)
                    && search_claims(&*file, 0, identity.seed())?.is_none() =>
            {
                tail.torn = Some(TornTail { file: name, offset: 0, bytes });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Checks that the files cover every sequence from the first one on, also those up to `from`: a
/// snapshot has their documents, but only these files have their records.
fn check_continuity(tail: &Tail, from: u64, identity: &Identity) -> Result<(), StorageError> {
    if tail.has_no_files() {
        if from == 0 {
            return Ok(());
        }
        let all = MissingRecords { first: 1, last: Some(from), followed_by: None };
        return Err(StorageError::Missing(all));
    }
    let files = tail.files.iter();
    let ends = files.map(|file| Ends::read(&file.name, &*file.file, file.bytes));
    let mut ends = ends.collect::<Result<Vec<_>, _>>()?;
    // A newest file whose header never became durable.
    ends.extend(tail.torn.as_ref().map(|torn| Ends::new(&torn.file, 0)));
    continuity::check(&ends, identity)
}

/// No snapshot can be continued within the range of a pack, because packs contain no removals.
fn check_snapshot(files: &[JournalFile], from: u64) -> Result<(), StorageError> {
    let newest = files.iter().rev().find_map(|file| Some((&file.name, file.header.pack?)));
    match newest {
        Some((name, pack)) if from > 0 && from.saturating_add(1) < pack.next => {
            let sequence = from.saturating_add(1);
            Err(StorageError::damaged(name, 0, sequence, Damage::Reclaimed))
        }
        Some(_) | None => Ok(()),
    }
}

/// The first sequence after all packs; 1 without packs. A snapshot that ends before it cannot be
/// continued; then only reading all records from the first one on leads to the state.
///
/// # Errors
/// [`StorageError::Io`].
pub fn packed_before(disk: &dyn Disk) -> Result<u64, StorageError> {
    let names = disk.list()?;
    let ends = names.iter().filter_map(|name| record_range(name)?.1);
    Ok(ends.max().unwrap_or(1))
}

/// The read of one journal file.
struct Pass {
    from: u64,
    seed: Seed,
    /// The largest `durable_upto` so far.
    claimed: u64,
    chain: u64,
    may_be_torn: bool,
}

impl Pass {
    /// Visits the records of a file; returns its index and its torn tail.
    fn read(
        &mut self,
        file: &JournalFile,
        visit: &mut dyn FnMut(RecordRef<'_>),
    ) -> Result<(SparseIndex, Option<TornTail>), StorageError> {
        let mut index = file.empty_index();
        let whole_file = usize::try_from(file.bytes).unwrap_or(CHUNK_BYTES);
        let mut window = FileWindow::new(&*file.file, CHUNK_BYTES.min(whole_file));
        while index.end < file.bytes {
            match self.next_frame(&mut window, &index)? {
                Ok(frame) => {
                    let is_new = frame.header.next_sequence() > self.from.saturating_add(1);
                    if let Some(record) = frame.record().filter(|_| is_new) {
                        visit(record);
                    }
                    self.chain = frame.chain;
                    self.claimed = self.claimed.max(frame.header.durable_upto);
                    index.push(&frame.header);
                }
                Err(why) => {
                    self.check_torn(file, &index, why)?;
                    let (offset, bytes) = (index.end, file.bytes.saturating_sub(index.end));
                    return Ok((index, Some(TornTail { file: file.name.clone(), offset, bytes })));
                }
            }
        }
        Ok((index, None))
    }

    /// The frame at the end of `index`, if it continues the journal.
    fn next_frame<'w>(
        &self,
        window: &'w mut FileWindow<'_>,
        index: &SparseIndex,
    ) -> Result<Result<Frame<'w>, Damage>, StorageError> {
        Ok(match window.frame(index.end, self.seed)? {
            Ok(Frame { header, .. })
                if header.sequence != index.next || header.chain != self.chain =>
            {
                Err(Damage::Chain)
            }
            frame => frame.map_err(Damage::Frame),
        })
    }

    /// Refuses bad bytes that are damage and not a torn tail.
    fn check_torn(
        &self,
        file: &JournalFile,
        index: &SparseIndex,
        why: Damage,
    ) -> Result<(), StorageError> {
        let claimed_later = search_claims(&*file.file, index.end, self.seed)?.unwrap_or(0);
        let durable = self.claimed.max(self.from).max(claimed_later);
        if self.may_be_torn && durable < index.next {
            return Ok(());
        }
        Err(StorageError::damaged(&file.name, index.end, index.next, why))
    }
}

/// The largest `durable_upto` of any intact frame header at or after `offset`, wherever it begins;
/// `None` if there is none.
///
/// Cost: one read of the rest of the file. Only a bad tail needs it.
fn search_claims(
    file: &dyn DiskFile,
    mut offset: u64,
    seed: Seed,
) -> Result<Option<u64>, StorageError> {
    let mut window = FileWindow::new(file, CHUNK_BYTES);
    let mut claimed = None;
    loop {
        let bytes = window.at(offset, CHUNK_BYTES)?;
        let mut rest = bytes;
        while let Some(skip) = rest.iter().position(|byte| *byte == MAGIC[0]) {
            rest = rest.get(skip..).unwrap_or_default();
            if let Ok(header) = decode_header(rest, seed) {
                claimed = claimed.max(Some(header.durable_upto));
            }
            rest = rest.get(1..).unwrap_or_default();
        }
        if bytes.len() < CHUNK_BYTES {
            return Ok(claimed);
        }
        // The pieces overlap by a header less one byte, so that none is cut in two.
        offset += (CHUNK_BYTES - (FRAME_HEADER_BYTES - 1)) as u64;
    }
}

/// The error that no file has the records from `first` up to the file `after`.
fn missing(first: u64, after: Option<&JournalFile>) -> StorageError {
    StorageError::Missing(MissingRecords {
        first,
        last: after.map(|after| after.first().saturating_sub(1)),
        followed_by: after.map(|after| after.name.clone()),
    })
}

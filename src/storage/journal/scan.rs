//! Recovery: reads the journal in order, verifies everything, and finds its end.
//!
//! Changes nothing on disk; [`crate::storage::Journal::open`] cuts what was found torn. Files that a snapshot
//! covers are not read, but their ends are: every one must be there, for the records in them are the only
//! copy of ids and sketches.
//!
//! # A torn tail and damage
//!
//! The first bytes that do not continue the journal, where sequence `s` is expected, are a *torn
//! tail* if and only if they lie in the newest file and nothing says that `s` was durable. What can
//! say so is `from` (a snapshot holds those changes) and the `durable_upto` of any intact frame
//! header, wherever it lies, also behind the bad bytes: all of them are searched. Everything else is
//! *damage* and refused, since cutting it would lose answered writes.
//!
//! That a valid frame merely *follows* the bad bytes proves nothing: the frames of one group that
//! was not synced yet may reach the disk in any order, so after a power cut a later one may be whole
//! while an earlier one is lost. Such a follower never claims the lost one durable, because
//! `durable_upto` is what was synced when it was written. A header counts even when its payload is
//! torn; it was true when it was made, and its checksum is seeded with the directory's secret id.
//!
//! A file older than the newest was synced before the newest was created, and the header of a
//! file was synced before its first frame was written. So bad bytes in an older file are damage, and
//! a bad header is damage when an intact frame header follows it, else a rotation cut short.
//!
//! What cannot be seen: a flip in a record that was synced when the power went before a later frame
//! or the seal was on disk; and a newest file that was cut, or removed, where no claim in what is left and
//! no snapshot speaks of what is gone.
//!
//! Tested by every cut and every flipped bit of a small journal, and by simulated power cuts.

use std::sync::{Arc, RwLock};

use crate::storage::header::{BadHeader, JOURNAL_HEADER_BYTES, JournalHeader, Seed, journal_first};
use crate::storage::journal::continuity;
use crate::storage::journal::continuity::{Ends, Span};
use crate::storage::journal::frame::{
    BadFrame, Decoded, FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, Frame, MAGIC, decode,
    decode_header,
};
use crate::storage::journal::index::SparseIndex;
use crate::storage::journal::pack::{PACK_HEADER_BYTES, PackHeader, ends_whole, pack_range};
use crate::storage::journal::records::JournalFile;
use crate::storage::journal::window::Window;
use crate::storage::{Damage, Disk, DiskFile, Identity, MissingRecords, StorageError};

/// How much is read at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// A record met by the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// The sequence of its first change.
    pub first: u64,
    /// How many consecutive changes it stands for, at least 1.
    pub count: u32,
    /// The bytes as they were appended.
    pub payload: &'a [u8],
}

impl RecordRef<'_> {
    /// The length of its frame in bytes.
    pub fn frame_bytes(&self) -> u64 {
        (FRAME_OVERHEAD_BYTES.saturating_add(self.payload.len())) as u64
    }
}

/// The unanswered rest that [`crate::storage::Journal::open`] cuts off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The newest journal file.
    pub file: String,
    /// Where it is cut, in bytes; 0 when the whole file goes.
    pub offset: u64,
    /// How many bytes go.
    pub bytes: u64,
}

/// Where the journal ends; what [`crate::storage::Journal::open`] needs to continue.
#[derive(Debug, Default)]
pub struct Tail {
    /// The last whole record's last change; 0 for an empty journal.
    pub last: u64,
    /// What will be cut, for the log.
    pub torn: Option<TornTail>,
    /// Files whose place a pack has taken; [`crate::storage::Journal::open`] removes them.
    pub(crate) leftovers: Vec<String>,
    /// All files that stay, by first sequence.
    pub(crate) files: Vec<TailFile>,
    /// The chain value of the last frame.
    pub(crate) chain: u64,
    /// The largest durable sequence that a frame on disk claims.
    pub(crate) claimed: u64,
}

/// A file of the journal as the scan left it.
#[derive(Debug)]
pub(crate) struct TailFile {
    pub(crate) name: String,
    pub(crate) header: JournalHeader,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) bytes: u64,
    /// `None` where everything lies at or before `from`.
    pub(crate) index: Option<SparseIndex>,
    /// What it says about itself when it is a pack.
    pub(crate) pack: Option<PackHeader>,
}

/// Visits every record with a change after `from`, in order, each verified; changes nothing.
///
/// The first record visited may begin at or before `from` when it covers several changes. Files
/// wholly at or before `from` are not read beyond their headers. What was visited is to be thrown
/// away on an error.
///
/// # Errors
/// [`StorageError::Damaged`], [`StorageError::Refused`], [`StorageError::Io`].
pub fn scan(
    disk: &dyn Disk,
    identity: &Identity,
    from: u64,
    visit: &mut dyn FnMut(RecordRef<'_>),
) -> Result<Tail, StorageError> {
    let seed = identity.seed();
    let mut tail = Tail::default();
    open_files(disk, identity, &mut tail)?;
    check_continuity(&tail, from, seed)?;
    read_files(identity, from, tail, visit)
}

/// The same for the newest file alone, whatever is missing before it. For a repair.
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
    let after = tail.files.partition_point(|file| file.header.first <= begin);
    let Some(start) = after.checked_sub(1) else {
        if tail.files.is_empty() && from == 0 {
            return Ok(tail);
        }
        return Err(missing(begin, None));
    };
    // A rotation cut short has left a newer file: then this one was synced whole.
    let newest_is_torn = tail.torn.is_some();
    let count = tail.files.len();
    let mut expected: Option<(u64, u64)> = None;
    for (position, file) in tail.files.iter_mut().enumerate().skip(start) {
        let (next, chain) = expected.unwrap_or((file.header.first, file.header.chain));
        if file.header.first > next {
            return Err(missing(next, Some(file)));
        }
        if file.header.first != next || (file.pack.is_none() && file.header.chain != chain) {
            return Err(damaged(&file.name, 0, next, Damage::Chain));
        }
        if let Some(pack) = file.pack {
            if from == 0 {
                file.walk_pack(&pack, seed, visit)?;
            }
            tail.last = pack.next.saturating_sub(1);
            (tail.claimed, tail.chain) = (tail.last, pack.chain);
            expected = Some((pack.next, pack.chain));
            continue;
        }
        let mut pass = Pass {
            from,
            seed,
            claimed: tail.claimed,
            chain,
            may_be_torn: position + 1 == count && !newest_is_torn,
        };
        let torn = pass.file(file, visit)?;
        tail.torn = tail.torn.take().or(torn);
        (tail.claimed, tail.chain) = (pass.claimed, pass.chain);
        let next = file.index.as_ref().map_or(next, |index| index.next);
        tail.last = next.saturating_sub(1);
        expected = Some((next, pass.chain));
    }
    if tail.last < from {
        let name = tail.files.last().map_or("", |file| &file.name);
        let (offset, sequence) = (0, tail.last.saturating_add(1));
        return Err(damaged(name, offset, sequence, Damage::EndsEarly));
    }
    Ok(tail)
}

/// Opens every journal file and verifies its header. A newest file whose header never became
/// durable is left out and noted as torn.
fn open_files(disk: &dyn Disk, identity: &Identity, tail: &mut Tail) -> Result<(), StorageError> {
    let Listed { packs, journals, leftovers } = list_files(disk.list()?);
    tail.leftovers = leftovers;
    for name in packs {
        tail.files.push(open_pack(disk, identity, name)?);
    }
    let newest = journals.last().map(|(first, _)| *first);
    for (first, name) in journals {
        let file: Arc<dyn DiskFile> = Arc::from(disk.open(&name)?);
        let bytes = file.len()?;
        let mut window = Window::new(&*file, JOURNAL_HEADER_BYTES);
        let decoded = JournalHeader::decode(window.at(0, JOURNAL_HEADER_BYTES)?, identity);
        match decoded {
            Ok(header) if header.first == first => {
                tail.files.push(TailFile { name, header, file, bytes, index: None, pack: None });
            }
            Ok(_) => return Err(damaged(&name, 0, first, Damage::FileName)),
            Err(BadHeader::Refused(why)) => return Err(StorageError::Refused { file: name, why }),
            Err(BadHeader::Damaged(why)) => {
                let has_frames = search_claims(&*file, 0, identity.seed())?.is_some();
                if Some(first) != newest || has_frames {
                    return Err(damaged(&name, 0, first, why));
                }
                tail.torn = Some(TornTail { file: name, offset: 0, bytes });
            }
        }
    }
    tail.files.sort_by_key(|file| file.header.first);
    Ok(())
}

/// The names of the files of the journal, each list by sequence.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) packs: Vec<String>,
    /// With their first sequences.
    pub(crate) journals: Vec<(u64, String)>,
    /// Within the range of a pack, which has taken their place.
    pub(crate) leftovers: Vec<String>,
}

pub(crate) fn list_files(names: Vec<String>) -> Listed {
    let mut listed = Listed::default();
    let range = |name: &str| pack_range(name).or_else(|| Some((journal_first(name)?, 0)));
    let names = names.into_iter();
    let mut ranges: Vec<_> = names.filter_map(|name| Some((range(&name)?, name))).collect();
    // Of those that begin together, the one that ends last is the newest.
    ranges.sort_unstable_by_key(|((first, next), _)| (*first, u64::MAX - next));
    let mut covered = 0;
    for ((first, next), name) in ranges {
        if first < covered {
            listed.leftovers.push(name);
        } else if next > 0 {
            covered = next;
            listed.packs.push(name);
        } else {
            listed.journals.push((first, name));
        }
    }
    listed
}

/// Opens a pack, and verifies its header and its end.
fn open_pack(disk: &dyn Disk, identity: &Identity, name: String) -> Result<TailFile, StorageError> {
    let file: Arc<dyn DiskFile> = Arc::from(disk.open(&name)?);
    let bytes = file.len()?;
    let mut window = Window::new(&*file, PACK_HEADER_BYTES);
    let (first, _) = pack_range(&name).unwrap_or_default();
    let pack = match PackHeader::decode(window.at(0, PACK_HEADER_BYTES)?, identity) {
        Ok(pack) => pack,
        Err(bad) => return Err(bad.of(&name, first)),
    };
    if pack.name() != name {
        return Err(damaged(&name, 0, first, Damage::FileName));
    }
    if !ends_whole(&*file, bytes, &pack)? {
        return Err(damaged(&name, bytes, first, Damage::EndsEarly));
    }
    let header = JournalHeader { identity: *identity, first, chain: pack.chain };
    Ok(TailFile { name, header, file, bytes, index: None, pack: Some(pack) })
}

/// Checks that the files hold every sequence from the first one on, those before `from` included:
/// their documents are in the snapshot, but their records are only here.
fn check_continuity(tail: &Tail, from: u64, seed: Seed) -> Result<(), StorageError> {
    let mut spans = Vec::with_capacity(tail.files.len());
    for TailFile { name, header, file, bytes, pack, .. } in &tail.files {
        spans.push(if let Some(pack) = pack {
            Span::of_pack(name, *bytes, pack)
        } else {
            let end = Ends::read(name, &**file, *bytes)?.end;
            Span::of_journal(name, *bytes, header, &end, seed)
        });
    }
    // A newest file whose header never became durable.
    let unfinished = tail.torn.as_ref().map(|torn| torn.file.as_str());
    if let Some((name, first)) = unfinished.and_then(|name| Some((name, journal_first(name)?))) {
        spans.push(Span::of_unfinished(name, first));
    }
    if spans.is_empty() && from > 0 {
        return Err(StorageError::Missing(MissingRecords {
            first: 1,
            last: Some(from),
            followed_by: None,
        }));
    }
    continuity::check(&spans)
}

/// No snapshot is continued within what packs cover: they hold no removals.
fn check_snapshot(files: &[TailFile], from: u64) -> Result<(), StorageError> {
    let newest = files.iter().rev().find_map(|file| Some((&file.name, file.pack?)));
    match newest {
        Some((name, pack)) if from > 0 && from.saturating_add(1) < pack.next => {
            Err(damaged(name, 0, from.saturating_add(1), Damage::Reclaimed))
        }
        Some(_) | None => Ok(()),
    }
}

/// The first sequence behind everything that was packed: a snapshot that ends before it cannot be
/// continued, and only the records from the first one on lead to the state. 1 without packs.
///
/// # Errors
/// [`StorageError::Io`].
pub fn packed_before(disk: &dyn Disk) -> Result<u64, StorageError> {
    let names = disk.list()?;
    let ends = names.iter().filter_map(|name| pack_range(name)).map(|(_, next)| next);
    Ok(ends.max().unwrap_or(1))
}

impl Tail {
    /// Whether there is no journal file and no pack.
    pub fn has_no_files(&self) -> bool {
        self.files.is_empty() && self.torn.is_none()
    }
}

impl TailFile {
    fn walk_pack(
        &self,
        pack: &PackHeader,
        seed: Seed,
        visit: &mut dyn FnMut(RecordRef<'_>),
    ) -> Result<(), StorageError> {
        let file = JournalFile {
            name: self.name.clone(),
            first: pack.first,
            file: Arc::clone(&self.file),
            bytes: self.bytes,
            index: RwLock::new(None),
            pack: Some(*pack),
        };
        let mut visit = |record: RecordRef<'_>| {
            visit(record);
            Ok(())
        };
        file.walk(pack.next, seed, &mut visit).map(drop)
    }
}

/// The scan of one file.
struct Pass {
    from: u64,
    seed: Seed,
    /// The largest `durable_upto` met.
    claimed: u64,
    chain: u64,
    may_be_torn: bool,
}

impl Pass {
    /// Visits the records of a file and builds its index; returns its torn tail.
    fn file(
        &mut self,
        file: &mut TailFile,
        visit: &mut dyn FnMut(RecordRef<'_>),
    ) -> Result<Option<TornTail>, StorageError> {
        let mut index = SparseIndex::new(file.header.first);
        let whole_file = usize::try_from(file.bytes).unwrap_or(CHUNK_BYTES);
        let mut window = Window::new(&*file.file, CHUNK_BYTES.min(whole_file));
        let mut torn = None;
        while index.end < file.bytes {
            match self.next_frame(&mut window, &index)? {
                Ok(frame) => {
                    if frame.header.count > 0 && frame.header.next_sequence() > self.from + 1 {
                        visit(RecordRef {
                            first: frame.header.sequence,
                            count: frame.header.count,
                            payload: frame.payload,
                        });
                    }
                    self.chain = frame.chain;
                    self.claimed = self.claimed.max(frame.header.durable_upto);
                    index.push(&frame.header);
                }
                Err(why) => {
                    self.judge(file, &index, why)?;
                    torn = Some(TornTail {
                        file: file.name.clone(),
                        offset: index.end,
                        bytes: file.bytes.saturating_sub(index.end),
                    });
                    break;
                }
            }
        }
        file.index = Some(index);
        Ok(torn)
    }

    /// The frame at the end of `index`, if it continues the journal.
    fn next_frame<'w>(
        &self,
        window: &'w mut Window<'_>,
        index: &SparseIndex,
    ) -> Result<Result<Frame<'w>, Damage>, StorageError> {
        let header = decode_header(window.at(index.end, FRAME_HEADER_BYTES)?, self.seed);
        let needed = header.map_or(FRAME_HEADER_BYTES, |header| header.frame_bytes());
        let frame = match decode(window.at(index.end, needed)?, self.seed) {
            Decoded::Complete(frame) => frame,
            Decoded::Incomplete { .. } => return Ok(Err(Damage::Frame(BadFrame::Short))),
            Decoded::Bad(why) => return Ok(Err(Damage::Frame(why))),
        };
        if frame.header.sequence != index.next || frame.header.chain != self.chain {
            return Ok(Err(Damage::Chain));
        }
        Ok(Ok(frame))
    }

    /// Refuses bad bytes that are damage; see the module's header.
    fn judge(&self, file: &TailFile, index: &SparseIndex, why: Damage) -> Result<(), StorageError> {
        let behind = search_claims(&*file.file, index.end, self.seed)?.unwrap_or(0);
        let durable = self.claimed.max(self.from).max(behind);
        if self.may_be_torn && durable < index.next {
            return Ok(());
        }
        Err(damaged(&file.name, index.end, index.next, why))
    }
}

/// The largest `durable_upto` of any intact frame header at or behind `offset`, at whatever byte it
/// begins; `None` when there is none.
///
/// Cost: one read of the rest of the file; only ever of a tail that is bad.
fn search_claims(
    file: &dyn DiskFile,
    mut offset: u64,
    seed: Seed,
) -> Result<Option<u64>, StorageError> {
    let mut window = Window::new(file, CHUNK_BYTES);
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
        // The windows overlap by a header less one byte, so that none is cut in two.
        offset += (CHUNK_BYTES - (FRAME_HEADER_BYTES - 1)) as u64;
    }
}

/// The records from `first` on are missing, up to those of `after`.
fn missing(first: u64, after: Option<&TailFile>) -> StorageError {
    StorageError::Missing(MissingRecords {
        first,
        last: after.map(|after| after.header.first.saturating_sub(1)),
        followed_by: after.map(|after| after.name.clone()),
    })
}

fn damaged(file: &str, offset: u64, sequence: u64, why: Damage) -> StorageError {
    StorageError::Damaged { file: file.to_owned(), offset, sequence, why }
}

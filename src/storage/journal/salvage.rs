//! Looks at the files of the journal one by one, damaged ones too, and saves what can be read.
//!
//! For an operator whose directory is refused: [`crate::storage::scan()`] says only where the first damage is.
//! Nothing here is for a directory in use. What can be saved of a damaged file are its intact
//! frames, found at whatever byte they begin; [`Finding::repair`] puts them into a pack, which takes
//! the place of the file. The damaged file stays under the name `<name>.damaged`.
//!
//! Cost: a read of every file; one file's frames are in memory at a time. Tested by damage of every
//! sort to small directories, and by what they open to afterwards.

use std::sync::{Arc, RwLock};

use crate::storage::header::{JOURNAL_HEADER_BYTES, JournalHeader, journal_first};
use crate::storage::journal::frame::{Decoded, FRAME_HEADER_BYTES, MAGIC, decode, decode_header};
use crate::storage::journal::pack::{PACK_HEADER_BYTES, PackHeader, PackWriter, pack_range};
use crate::storage::journal::records::JournalFile;
use crate::storage::journal::scan::{Listed, RecordRef, list_files, scan, scan_newest};
use crate::storage::journal::window::Window;
use crate::storage::sealed::{remove_if_there, temporary_name};
use crate::storage::{Disk, DiskFile, Identity, MissingRecords, Record, StorageError};

/// How much is searched at a time.
const CHUNK_BYTES: usize = 256 << 10;
/// What a damaged file is called afterwards.
const DAMAGED_SUFFIX: &str = ".damaged";

/// One file of the journal, or the gap where one is missing.
#[derive(Debug)]
pub struct Finding {
    /// Its name; none where a file is missing.
    pub name: Option<String>,
    /// Whether it is a pack.
    pub is_pack: bool,
    /// The first sequence of its range.
    pub first: u64,
    /// The sequence after its range; of a damaged newest file, after the last one known of.
    pub next: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// How many changes have an intact record in it.
    pub changes: u64,
    /// What is wrong with it.
    pub damage: Option<StorageError>,
    /// Changes that had a record and have none that can be read, at most.
    pub lost: u64,
    chain: u64,
}

/// Looks at every file, oldest first. Changes up to `durable_upto` are known to have had a record, from
/// a snapshot. `progress` is told how many bytes were read.
///
/// # Errors
/// [`StorageError::Io`]; damage is among the findings.
pub fn examine(
    disk: &dyn Disk,
    identity: &Identity,
    durable_upto: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Finding>, StorageError> {
    let Listed { packs, journals, .. } = list_files(disk.list()?);
    let packs = packs.into_iter().filter_map(|name| Some((pack_range(&name)?, name)));
    let journals = journals.into_iter().map(|(first, name)| ((first, 0), name));
    let mut files: Vec<_> = packs.chain(journals).collect();
    files.sort_unstable();
    let mut findings = Vec::new();
    let mut expected = 1;
    for (position, ((first, end), name)) in files.iter().enumerate() {
        if *first > expected {
            findings.push(Finding::gap(expected, *first, Some(name.clone())));
        }
        let after = files.get(position + 1).map(|((first, _), _)| *first);
        let next = if *end > 0 { Some(*end) } else { after };
        let range = Range { first: *first, next, durable_upto };
        let finding = look(disk, identity, name, range)?;
        progress(finding.bytes);
        expected = finding.next;
        findings.push(finding);
    }
    if expected <= durable_upto {
        findings.push(Finding::gap(expected, durable_upto.saturating_add(1), None));
    }
    // Where no file is wrong by itself they may be wrong together.
    if findings.iter().all(|finding| finding.damage.is_none())
        && let Err(error) = scan(disk, identity, 0, &mut |_| ())
    {
        let StorageError::Damaged { file, .. } = &error else { return Err(error) };
        let named = findings.iter_mut().find(|finding| finding.name.as_ref() == Some(file));
        match named {
            Some(finding) => finding.damage = Some(error),
            None => return Err(error),
        }
    }
    Ok(findings)
}

impl Finding {
    fn gap(first: u64, next: u64, followed_by: Option<String>) -> Self {
        let last = Some(next.saturating_sub(1));
        let damage = StorageError::Missing(MissingRecords { first, last, followed_by });
        let lost = next.saturating_sub(first);
        Self {
            name: None,
            is_pack: false,
            first,
            next,
            bytes: 0,
            changes: 0,
            damage: Some(damage),
            lost,
            chain: 0,
        }
    }

    /// Puts what can be read of a damaged file into a pack that takes its place, once a copy of the file
    /// is aside. `chain` is what the file after it begins with, where there is one.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn repair(
        &self,
        disk: &dyn Disk,
        identity: &Identity,
        chain: Option<u64>,
    ) -> Result<(), StorageError> {
        let records = match &self.name {
            Some(name) => intact(&*disk.open(name)?, identity, (self.first, self.next))?.records,
            None => Vec::new(),
        };
        if let Some(name) = &self.name {
            copy_aside(disk, name)?;
        }
        if self.next > self.first {
            let mut writer = PackWriter::create(disk, *identity, self.first)?;
            for Record { first, count, payload } in &records {
                writer.push(RecordRef { first: *first, count: *count, payload })?;
            }
            drop(writer.finish(self.next, chain.unwrap_or(self.chain))?);
        }
        // A pack that takes the place of a pack has its name.
        if let Some(name) = self.name.as_ref().filter(|_| !self.is_pack) {
            disk.remove(name)?;
        }
        disk.sync_directory()
    }
}

/// Copies a file to a name of its own; durable when it returns.
fn copy_aside(disk: &dyn Disk, name: &str) -> Result<(), StorageError> {
    let aside = name_aside(disk, name)?;
    let temporary = temporary_name(&aside);
    remove_if_there(disk, &temporary)?;
    let (from, to) = (disk.open(name)?, disk.create(&temporary)?);
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let read = from.read_at(offset, &mut buffer)?;
        if read == 0 {
            break;
        }
        to.write_at(offset, buffer.get(..read).unwrap_or_default())?;
        offset += read as u64;
    }
    to.sync_data()?;
    disk.rename(&temporary, &aside)?;
    disk.sync_directory()
}

/// What a damaged file is called afterwards: a name that nothing has.
///
/// # Errors
/// [`StorageError::Io`].
pub fn name_aside(disk: &dyn Disk, name: &str) -> Result<String, StorageError> {
    let taken = disk.list()?;
    let numbered = (2..).map(|number: u32| format!("{name}{DAMAGED_SUFFIX}-{number}"));
    let mut names = std::iter::once(format!("{name}{DAMAGED_SUFFIX}")).chain(numbered);
    Ok(names.find(|name| !taken.contains(name)).unwrap_or_default())
}

/// The chain value in the header of a journal file, if it can be read.
pub fn chain_of(disk: &dyn Disk, identity: &Identity, name: &str) -> Option<u64> {
    journal_first(name)?;
    let file = disk.open(name).ok()?;
    let mut bytes = [0; JOURNAL_HEADER_BYTES];
    file.read_at(0, &mut bytes).ok()?;
    JournalHeader::decode(&bytes, identity).ok().map(|header| header.chain)
}

/// What a file is to hold.
#[derive(Clone, Copy)]
struct Range {
    first: u64,
    /// The sequence after it; none for the file that was written to.
    next: Option<u64>,
    /// Changes up to here had a record.
    durable_upto: u64,
}

fn look(
    disk: &dyn Disk,
    identity: &Identity,
    name: &str,
    Range { first, next, durable_upto }: Range,
) -> Result<Finding, StorageError> {
    let file: Arc<dyn DiskFile> = Arc::from(disk.open(name)?);
    let bytes = file.len()?;
    let (is_pack, seed) = (pack_range(name).is_some(), identity.seed());
    let mut header = [0; PACK_HEADER_BYTES];
    file.read_at(0, &mut header)?;
    let (pack, header_error) = if is_pack {
        match PackHeader::decode(&header, identity) {
            Ok(pack) => (Some(pack), None),
            Err(bad) => (None, Some(bad.of(name, first))),
        }
    } else {
        (None, JournalHeader::decode(&header, identity).err().map(|bad| bad.of(name, first)))
    };
    if let Some(error @ StorageError::Refused { .. }) = header_error {
        return Err(error);
    }
    let mut finding = Finding {
        name: Some(name.to_owned()),
        is_pack,
        first,
        next: next.unwrap_or(first),
        bytes,
        changes: 0,
        damage: header_error,
        lost: 0,
        chain: pack.map_or(0, |pack| pack.chain),
    };
    let walked = JournalFile {
        name: name.to_owned(),
        first,
        file: Arc::clone(&file),
        bytes,
        index: RwLock::new(None),
        pack,
    };
    if finding.damage.is_none() {
        let mut changes = 0;
        let mut count = |record: RecordRef<'_>| {
            changes += u64::from(record.count);
            Ok(())
        };
        match (walked.walk(next.unwrap_or(0), seed, &mut count), next) {
            (Ok(chain), Some(_)) => finding.chain = if is_pack { finding.chain } else { chain },
            (Err(error @ StorageError::Io { .. }), _) => return Err(error),
            (Err(error), Some(_)) => finding.damage = Some(error),
            // The newest one may end in a torn tail: the scan tells that from damage.
            (_, None) => {
                let before = first.saturating_sub(1);
                match scan_newest(disk, identity, before.max(durable_upto)) {
                    Ok(tail) => {
                        changes = tail.last.saturating_sub(before);
                        finding.next = tail.last.saturating_add(1).max(first);
                        finding.chain = tail.chain;
                    }
                    Err(error @ StorageError::Io { .. }) => return Err(error),
                    Err(error) => finding.damage = Some(error),
                }
            }
        }
        finding.changes = changes;
    }
    if finding.damage.is_some() {
        let intact = intact(&*file, identity, (first, next.unwrap_or(u64::MAX)))?;
        finding.changes = intact.records.iter().map(|record| u64::from(record.count)).sum();
        let end = intact.end.max(durable_upto.saturating_add(1));
        finding.next = next.unwrap_or(end);
        let had = pack.map_or(finding.next - first, |pack| pack.changes);
        finding.lost = had.saturating_sub(finding.changes);
    }
    Ok(finding)
}

/// What can be read of a file.
struct Intact {
    /// In their order.
    records: Vec<Record>,
    /// The sequence after all that its frames speak of.
    end: u64,
}

/// The intact records of a file within a range of sequences, wherever they begin.
fn intact(
    file: &dyn DiskFile,
    identity: &Identity,
    (mut first, next): (u64, u64),
) -> Result<Intact, StorageError> {
    let (seed, length, mut end) = (identity.seed(), file.len()?, first);
    let mut window = Window::new(file, CHUNK_BYTES);
    let (mut records, mut offset) = (Vec::new(), 0);
    while offset < length {
        let bytes = window.at(offset, FRAME_HEADER_BYTES)?;
        let Some(skip) = bytes.iter().position(|byte| *byte == MAGIC[0]) else {
            offset += bytes.len().max(1) as u64;
            continue;
        };
        offset += skip as u64;
        let header = decode_header(window.at(offset, FRAME_HEADER_BYTES)?, seed);
        let needed = header.map_or(FRAME_HEADER_BYTES, |header| header.frame_bytes());
        match decode(window.at(offset, needed)?, seed) {
            Decoded::Complete(frame) => {
                let header = frame.header;
                end = end.max(header.next_sequence()).max(header.durable_upto.saturating_add(1));
                if header.count > 0 && header.sequence >= first && header.next_sequence() <= next {
                    first = header.next_sequence();
                    let payload = frame.payload.to_vec();
                    let (first, count) = (header.sequence, header.count);
                    records.push(Record { first, count, payload });
                }
                offset += needed as u64;
            }
            Decoded::Incomplete { .. } | Decoded::Bad(_) => offset += 1,
        }
    }
    Ok(Intact { records, end })
}

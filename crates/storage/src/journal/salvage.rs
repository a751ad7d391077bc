//! Examines the files of the journal one by one, also damaged ones, and saves what can be read.
//!
//! For an operator whose directory is refused: [`crate::scan()`] reports only the first
//! damage. The directory must not be in use. What can be saved of a damaged file are its intact
//! frames, wherever they begin; [`Finding::repair`] writes them to a pack, which replaces the file.
//! A copy of the damaged file stays under the name `<name>.damaged`.
//!
//! Cost: reads every file; the frames of one damaged file are in memory at a time. Tested by damage
//! of every kind to small directories, and by what is stored after the repair.

use std::ops::Range;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, read_in_pieces};
use crate::error::{MissingRecords, StorageError};
use crate::frame::{FRAME_HEADER_BYTES, MAGIC, RecordRef, StoredRecord};
use crate::header::Identity;
use crate::journal::file::JournalFile;
use crate::journal::header::RecordHeader;
use crate::journal::pack::PackWriter;
use crate::journal::recovery::{scan, scan_newest};
use crate::names::{RecordFile, RecordFiles, temporary_name};
use crate::window::FileWindow;

/// The size of a read.
const CHUNK_BYTES: usize = 256 << 10;
/// The suffix of damaged files that were put aside.
const DAMAGED_SUFFIX: &str = ".damaged";

/// One file of the journal, or the gap where one is missing.
#[derive(Debug, Default)]
pub struct Finding {
    /// Its name; `None` where a file is missing.
    pub name: Option<String>,
    /// Whether it is a pack.
    pub is_pack: bool,
    /// The first sequence of its range.
    pub first: u64,
    /// The sequence after its range; for a damaged newest file, after the last known sequence.
    pub next: u64,
    pub bytes: u64,
    /// How many changes have an intact record in it.
    pub changes: u64,
    /// What is wrong with it.
    pub damage: Option<StorageError>,
    /// The largest number of changes whose records may be lost.
    pub lost: u64,
    chain: u64,
}

/// Looks at every file, oldest first. Changes up to `durable_upto` are known to have had a record,
/// from a snapshot. `progress` receives the number of bytes read since the last call.
///
/// # Errors
/// [`StorageError::Io`]; damage is among the findings.
pub fn examine(
    disk: &dyn Disk,
    identity: &Identity,
    durable_upto: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Finding>, StorageError> {
    let RecordFiles { files, .. } = RecordFiles::among(disk.list()?);
    let mut findings = Vec::new();
    let mut expected = 1;
    for (position, file) in files.iter().enumerate() {
        if file.first > expected {
            findings.push(Finding::gap(expected, file.first, Some(file.name.clone())));
        }
        let next = file.next.or_else(|| Some(files.get(position + 1)?.first));
        let finding = examine_file(disk, identity, file, next, durable_upto)?;
        progress(finding.bytes);
        expected = finding.next;
        findings.push(finding);
    }
    if expected <= durable_upto {
        findings.push(Finding::gap(expected, durable_upto.saturating_add(1), None));
    }
    // Files that are intact by themselves may still not belong together.
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
        Self { first, next, damage: Some(damage), lost, ..Self::default() }
    }

    /// Replaces a damaged file by a pack of what can be read of it, after copying the file to
    /// another name. `chain` is the value that the file after it continues, if there is one.
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
            Some(name) => intact(&*disk.open(name)?, identity, self.first..self.next)?.records,
            None => Vec::new(),
        };
        if let Some(name) = &self.name {
            copy_aside(disk, name)?;
        }
        if self.next > self.first {
            let mut writer = PackWriter::create(disk, *identity, self.first)?;
            for StoredRecord { first, count, payload } in &records {
                writer.push(RecordRef { first: *first, count: *count, payload })?;
            }
            drop(writer.finish(self.next, chain.unwrap_or(self.chain))?);
        }
        // A pack that replaces a pack has its name.
        if let Some(name) = self.name.as_ref().filter(|_| !self.is_pack) {
            disk.remove(name)?;
        }
        disk.sync_directory()
    }
}

/// Copies a file to the name of a damaged one, durably.
fn copy_aside(disk: &dyn Disk, name: &str) -> Result<(), StorageError> {
    let aside = name_aside(disk, name)?;
    let temporary = temporary_name(&aside);
    disk.remove_if_present(&temporary)?;
    let (from, to) = (disk.open(name)?, disk.create(&temporary)?);
    read_in_pieces(&*from, 0..from.len()?, |offset, piece| to.write_at(offset, piece))?;
    to.sync_data()?;
    disk.rename(&temporary, &aside)?;
    disk.sync_directory()
}

/// An unused name for a damaged file that is put aside.
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
    let header = RecordHeader::read(name, &*disk.open(name).ok()?, identity).ok()?;
    header.pack.is_none().then_some(header.chain)
}

/// Examines a file whose range ends before `next` (`None` for the newest journal file). Changes up
/// to `durable_upto` had a record.
fn examine_file(
    disk: &dyn Disk,
    identity: &Identity,
    RecordFile { name, first, next: pack_next }: &RecordFile,
    next: Option<u64>,
    durable_upto: u64,
) -> Result<Finding, StorageError> {
    let file: Arc<dyn DiskFile> = Arc::from(disk.open(name)?);
    let mut finding = Finding {
        name: Some(name.clone()),
        is_pack: pack_next.is_some(),
        first: *first,
        next: next.unwrap_or(*first),
        bytes: file.len()?,
        ..Finding::default()
    };
    let mut pack_changes = None;
    let walked = RecordHeader::read(name, &*file, identity).and_then(|header| {
        if let Some(pack) = header.pack {
            (finding.chain, pack_changes) = (header.chain, Some(pack.changes));
        }
        let file = JournalFile::new(name.clone(), header, Arc::clone(&file), finding.bytes);
        let chain = if let Some(next) = next {
            file.walk(next, identity.seed(), &mut |record| {
                finding.changes += u64::from(record.count);
                Ok(())
            })?
            .chain
        } else {
            // The newest file may end in a torn tail; recovery distinguishes that from damage.
            let before = first.saturating_sub(1);
            let tail = scan_newest(disk, identity, before.max(durable_upto))?;
            finding.changes = tail.last.saturating_sub(before);
            finding.next = tail.last.saturating_add(1).max(*first);
            tail.chain
        };
        if header.pack.is_none() {
            finding.chain = chain;
        }
        Ok(())
    });
    match walked {
        Ok(()) => return Ok(finding),
        Err(error @ (StorageError::Io { .. } | StorageError::Refused { .. })) => return Err(error),
        Err(error) => finding.damage = Some(error),
    }
    let intact = intact(&*file, identity, *first..next.unwrap_or(u64::MAX))?;
    finding.changes = intact.records.iter().map(|record| u64::from(record.count)).sum();
    let end = intact.end.max(durable_upto.saturating_add(1));
    finding.next = next.unwrap_or(end);
    let had = pack_changes.unwrap_or(finding.next.saturating_sub(*first));
    finding.lost = had.saturating_sub(finding.changes);
    Ok(finding)
}

/// What can be read of a file.
struct Intact {
    records: Vec<StoredRecord>,
    /// The sequence after the last one that a frame mentions.
    end: u64,
}

/// The intact records of a file within a range of sequences, wherever they begin.
fn intact(
    file: &dyn DiskFile,
    identity: &Identity,
    range: Range<u64>,
) -> Result<Intact, StorageError> {
    let (seed, length) = (identity.seed(), file.len()?);
    let (mut first, mut end) = (range.start, range.start);
    let mut window = FileWindow::new(file, CHUNK_BYTES);
    let (mut records, mut offset) = (Vec::new(), 0);
    while offset < length {
        let bytes = window.at(offset, FRAME_HEADER_BYTES)?;
        let Some(skip) = bytes.iter().position(|byte| *byte == MAGIC[0]) else {
            offset += bytes.len().max(1) as u64;
            continue;
        };
        offset += skip as u64;
        let Ok(frame) = window.frame(offset, seed)? else {
            offset += 1;
            continue;
        };
        let header = frame.header;
        end = end.max(header.next_sequence()).max(header.durable_upto.saturating_add(1));
        let in_range = header.sequence >= first && header.next_sequence() <= range.end;
        if let Some(record) = frame.record().filter(|_| in_range) {
            first = header.next_sequence();
            let RecordRef { first, count, payload } = record;
            records.push(StoredRecord { first, count, payload: payload.to_vec() });
        }
        offset += header.frame_bytes() as u64;
    }
    Ok(Intact { records, end })
}

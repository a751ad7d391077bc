//! Snapshots: the segments and tables of a view as files, and a manifest that names them.
//!
//! Neither ever changes, so each is written once, whichever snapshots it is part of; a manifest
//! `snapshot-<sequence>.manifest` lists those of one view with their checksums, and the last change
//! they contain. The last two snapshots are kept, and every file that neither names is removed. A
//! manifest counts only with all its files, each verified when it is loaded.

use std::io::{self, BufReader, Read, Write};
use std::sync::{Arc, Weak};

use crate::document::Sequence;
use crate::engine::answers::SnapshotInfo;
use crate::engine::directory_file;
use crate::engine::directory_file::DirectoryFile;
use crate::index::image;
use crate::index::levels::segment::Segment;
use crate::index::plan::Plans;
use crate::index::tables::secondary::SecondaryTable;
use crate::index::tables::table::Table;
use crate::index::view::{Counts, Parts};
use crate::storage::export::{ExportFile, Exported, check_files, write_export};
use crate::storage::{
    Damage, Disk, DiskFile, FileKind, Identity, Sealed, SealedReader, SealedWriter, StorageError,
    file_number, holds_records, packed_before,
};

// Kinds 2 and 3 were segments and manifests before tables had files of their own.
const MANIFEST_KIND: FileKind = FileKind(4);
const SEGMENT_KIND: FileKind = FileKind(5);
const TABLE_KIND: FileKind = FileKind(6);
const MANIFEST_SUFFIX: &str = ".manifest";
const AGAIN_SUFFIX: &str = "-again.manifest";
/// A manifest names a few dozen files at most.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;
/// How many snapshots are kept.
const KEPT: usize = 2;

/// The snapshots of a data directory; there is one of these.
#[derive(Debug)]
pub struct Snapshots {
    disk: Arc<dyn Disk>,
    directory: DirectoryFile,
    plans: Plans,
    /// What is in memory and on disk already.
    segments: Written<Segment>,
    tables: Written<Table>,
    next_number: u64,
    /// Newest first.
    kept: Vec<Manifest>,
    /// How many of these, from the newest on, were read back whole by this process.
    verified: usize,
}

/// The parts in memory that have a file.
#[derive(Debug)]
struct Written<T>(Vec<(Weak<T>, PartFile)>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Manifest {
    /// Whether it is the second one of its state; its name says so.
    again: bool,
    taken_at_ms: u64,
    counts: Counts,
    segments: Vec<PartFile>,
    others: Vec<OtherFile>,
}

/// A file of a segment or of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PartFile {
    number: u64,
    bytes: u64,
    checksum: u128,
}

/// The file of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OtherFile {
    file: PartFile,
    /// How many fingerprints had been dropped from segments since it was rid of them.
    gone: u64,
}

/// A part of a snapshot that is being taken.
#[derive(Debug)]
enum Part<T> {
    /// It has a file. The part itself is let go: were it merged meanwhile, it would lie beside the result.
    OnDisk(PartFile),
    /// It has none yet.
    InMemory(Arc<T>),
}

impl<T> Written<T> {
    fn part(&self, part: Arc<T>) -> Part<T> {
        let known = self.0.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(&part));
        known.map_or(Part::InMemory(part), |(_, file)| Part::OnDisk(*file))
    }

    fn add(&mut self, part: &Arc<T>, file: PartFile) {
        self.0.push((Arc::downgrade(part), file));
    }

    fn forget_dropped(&mut self) {
        self.0.retain(|(part, _)| part.strong_count() > 0);
    }
}

/// Everything that an export holds, open.
#[derive(Debug)]
pub struct Export {
    identity: Identity,
    files: Vec<ExportFile>,
}

impl Export {
    /// Writes it.
    ///
    /// # Errors
    /// Of the sink and the files.
    pub fn write(&self, sink: &mut dyn Write) -> io::Result<Exported> {
        write_export(sink, self.identity, &self.files)
    }
}

impl Snapshots {
    /// The newest snapshot, these files of records, and last the file `directory`, without which
    /// nothing that was half restored is opened.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn export(&self, records: Vec<ExportFile>) -> Result<Export, StorageError> {
        let mut names = Vec::new();
        if let Some(newest) = self.kept.first() {
            let (_, files) = read_manifest_of(&*self.disk, &self.directory, &newest.name())?;
            names.extend(files.into_iter().map(|(name, _)| name));
        }
        let mut files = records;
        for name in names.into_iter().chain([directory_file::NAME.to_owned()]) {
            let file: Arc<dyn DiskFile> = Arc::from(self.disk.open(&name)?);
            let bytes = file.len()?;
            files.push(ExportFile { name, file, bytes });
        }
        check_files(&files, &self.directory.identity)?;
        Ok(Export { identity: self.directory.identity, files })
    }

    /// Loads the newest snapshot that is whole; one that is not is passed over with a warning,
    /// since the journal leads from the older one to the same state.
    ///
    /// # Errors
    /// [`StorageError`] where the disk fails, or a link or a folder has the name of a file. Damage is no
    /// error here.
    pub fn load(
        disk: Arc<dyn Disk>,
        directory: DirectoryFile,
    ) -> Result<(Self, Parts), StorageError> {
        let mut snapshots = Self::none(disk, directory);
        let names = snapshots.disk.list()?;
        let numbers = names.iter().filter_map(|name| part_number(name));
        snapshots.next_number = numbers.max().unwrap_or(0) + 1;
        let packed_before = packed_before(&*snapshots.disk)?;
        let mut loaded: Option<Parts> = None;
        // Names carry the sequence in twenty digits: the newest is the last.
        for name in names.iter().rev().filter(|name| is_manifest(name)) {
            let read = snapshots.read_manifest(name).and_then(|manifest| {
                if manifest.counts.sequence.next().get() < packed_before {
                    return Err(superseded(name));
                }
                if loaded.is_none() {
                    loaded = Some(snapshots.read_parts(&manifest)?);
                }
                Ok(manifest)
            });
            match read {
                Ok(manifest) if snapshots.kept.len() < KEPT => snapshots.kept.push(manifest),
                Ok(_) => {}
                Err(error @ StorageError::NotAFile { .. }) => return Err(error),
                Err(error) => tracing::warn!(snapshot = name, %error, "passing over a snapshot"),
            }
        }
        snapshots.verified = usize::from(loaded.is_some());
        Ok((snapshots, loaded.unwrap_or_default()))
    }

    fn none(disk: Arc<dyn Disk>, directory: DirectoryFile) -> Self {
        Self {
            disk,
            plans: Plans::of(directory.distance_max),
            directory,
            segments: Written(Vec::new()),
            tables: Written(Vec::new()),
            next_number: 1,
            kept: Vec::new(),
            verified: 0,
        }
    }

    /// Reads the snapshot of a manifest as a start would, and verifies all of it.
    ///
    /// # Errors
    /// [`StorageError`] says what is wrong with it.
    pub fn verify(
        disk: Arc<dyn Disk>,
        directory: DirectoryFile,
        name: &str,
    ) -> Result<(), StorageError> {
        let snapshots = Self::none(disk, directory);
        let manifest = snapshots.read_manifest(name)?;
        if manifest.counts.sequence.next().get() < packed_before(&*snapshots.disk)? {
            return Err(superseded(name));
        }
        snapshots.read_parts(&manifest).map(drop)
    }

    /// Writes a snapshot of these parts; then removes what no kept snapshot needs. A snapshot of the
    /// same state is not taken twice.
    ///
    /// # Errors
    /// [`StorageError`]; the earlier snapshots stay.
    pub fn take(&mut self, parts: Parts, taken_at_ms: u64) -> Result<SnapshotInfo, StorageError> {
        let Parts { segments, secondary_tables, dropped, counts } = parts;
        if let Some(newest) = self.kept.first().filter(|newest| newest.counts == counts) {
            return Ok(newest.info());
        }
        self.segments.forget_dropped();
        self.tables.forget_dropped();
        let segments: Vec<_> = segments.into_iter().map(|s| self.segments.part(s)).collect();
        let of_other =
            |other: SecondaryTable| (self.tables.part(other.table), dropped - other.cleaned_at);
        let others: Vec<_> = secondary_tables.into_iter().map(of_other).collect();
        // The newest first, and each let go when it is written: soon merges want it out of memory.
        let segments = segments.into_iter().rev().map(|segment| self.segment_file(segment));
        let mut segments = segments.collect::<Result<Vec<_>, _>>()?;
        segments.reverse();
        let others = others
            .into_iter()
            .rev()
            .map(|(table, gone)| self.table_file(table).map(|file| OtherFile { file, gone }));
        let mut others = others.collect::<Result<Vec<_>, _>>()?;
        others.reverse();
        let manifest = Manifest { again: false, taken_at_ms, counts, segments, others };
        self.keep(manifest)
    }

    /// Has the newest snapshot count as two: all its files are read again, and its manifest is
    /// written a second time. For a state that nothing changes any more: else the journal behind the
    /// older snapshot would be kept until something does.
    ///
    /// # Errors
    /// [`StorageError`]; the earlier snapshots stay.
    pub fn repeat(&mut self) -> Result<SnapshotInfo, StorageError> {
        let Some(newest) = self.kept.first().cloned() else {
            return Err(StorageError::NoRecord { sequence: 0, last: 0 });
        };
        for &file in &newest.segments {
            self.read_back(&segment_name(file.number), SEGMENT_KIND, file)?;
        }
        for other in &newest.others {
            self.read_back(&table_name(other.file.number), TABLE_KIND, other.file)?;
        }
        if newest.again {
            return Ok(newest.info());
        }
        self.keep(Manifest { again: true, ..newest })
    }

    /// Writes the manifest, and removes what no kept snapshot needs.
    fn keep(&mut self, manifest: Manifest) -> Result<SnapshotInfo, StorageError> {
        self.write(&manifest.name(), MANIFEST_KIND, |sink| sink.write_all(&manifest.encode()))?;
        let info = manifest.info();
        self.kept.insert(0, manifest);
        self.kept.truncate(KEPT);
        self.verified = self.kept.len().min(self.verified + 1);
        self.remove_unneeded()?;
        Ok(info)
    }

    /// Up to where both kept snapshots hold everything, each read back whole: the journal before
    /// that is needed for its records alone. 0 while there are not two.
    pub fn covered_by_both(&self) -> Sequence {
        let older = self.kept.get(KEPT - 1).filter(|_| self.verified == KEPT);
        older.map_or(Sequence::ZERO, |older| older.counts.sequence)
    }

    /// The kept snapshots, newest first.
    pub fn list(&self) -> Vec<SnapshotInfo> {
        self.kept.iter().map(Manifest::info).collect()
    }

    fn segment_file(&mut self, segment: Part<Segment>) -> Result<PartFile, StorageError> {
        let segment = match segment {
            Part::OnDisk(file) => return Ok(file),
            Part::InMemory(segment) => segment,
        };
        let write = |sink: &mut dyn Write| image::write_segment(&segment, sink);
        let file = self.write_part(SEGMENT_KIND, segment_name, write)?;
        self.segments.add(&segment, file);
        Ok(file)
    }

    fn table_file(&mut self, table: Part<Table>) -> Result<PartFile, StorageError> {
        let table = match table {
            Part::OnDisk(file) => return Ok(file),
            Part::InMemory(table) => table,
        };
        let write = |sink: &mut dyn Write| image::write_table(&table, sink);
        let file = self.write_part(TABLE_KIND, table_name, write)?;
        self.tables.add(&table, file);
        Ok(file)
    }

    fn write_part(
        &mut self,
        kind: FileKind,
        name: fn(u64) -> String,
        body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<PartFile, StorageError> {
        let number = self.next_number;
        self.next_number += 1;
        let sealed = self.write(&name(number), kind, body)?;
        Ok(PartFile { number, bytes: sealed.file_bytes, checksum: sealed.checksum })
    }

    fn write(
        &self,
        name: &str,
        kind: FileKind,
        body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Sealed, StorageError> {
        let (disk, identity) = (Arc::clone(&self.disk), self.directory.identity);
        let mut writer = SealedWriter::create(disk, name, kind, identity)?;
        match body(&mut writer) {
            Ok(()) => {
                let sealed = writer.finish()?;
                let Sealed { file_bytes: bytes, checksum, .. } = sealed;
                self.read_back(name, kind, PartFile { number: 0, bytes, checksum })?;
                Ok(sealed)
            }
            Err(error) => {
                writer.abandon()?;
                Err(StorageError::from_io(error, "write", name))
            }
        }
    }

    /// A file counts when what the disk gives back is what was written.
    fn read_back(&self, name: &str, kind: FileKind, written: PartFile) -> Result<(), StorageError> {
        let mut reader = self.open_part(name, kind, written)?;
        // The last block verifies the whole.
        while reader.next_block()?.is_some() {}
        Ok(())
    }

    /// Opens a file that is what a manifest says.
    fn open_part(
        &self,
        name: &str,
        kind: FileKind,
        file: PartFile,
    ) -> Result<SealedReader, StorageError> {
        let reader = SealedReader::open(&*self.disk, name, kind, &self.directory.identity)?;
        let sealed = reader.sealed();
        if (sealed.file_bytes, sealed.checksum) != (file.bytes, file.checksum) {
            let other = io::Error::new(io::ErrorKind::InvalidData, "not the file that was written");
            return Err(StorageError::from_io(other, "read", name));
        }
        Ok(reader)
    }

    fn read_manifest(&self, name: &str) -> Result<Manifest, StorageError> {
        Manifest::read(&*self.disk, &self.directory, name)
    }

    /// Reads and verifies the segments and tables, on all cores.
    fn read_parts(&self, manifest: &Manifest) -> Result<Parts, StorageError> {
        let Manifest { counts, segments, others, .. } = manifest;
        let dropped = others.iter().map(|other| other.gone).max().unwrap_or(0);
        let segment = |file: PartFile| {
            self.read_part(&segment_name(file.number), SEGMENT_KIND, file, |source| {
                image::read_segment(source, &self.plans)
            })
        };
        let other = |other: OtherFile| {
            let name = table_name(other.file.number);
            let table = self.read_part(&name, TABLE_KIND, other.file, |source| {
                image::read_table(source, &self.plans.large)
            });
            Ok(SecondaryTable { table: table?, cleaned_at: dropped - other.gone })
        };
        let (segments, others) = std::thread::scope(|scope| {
            let segments: Vec<_> =
                segments.iter().map(|&file| scope.spawn(move || segment(file))).collect();
            let others: Vec<_> =
                others.iter().map(|&file| scope.spawn(move || other(file))).collect();
            (joined(segments), joined(others))
        });
        Ok(Parts { segments: segments?, secondary_tables: others?, dropped, counts: *counts })
    }

    fn read_part<T>(
        &self,
        name: &str,
        kind: FileKind,
        file: PartFile,
        body: impl FnOnce(&mut dyn Read) -> io::Result<T>,
    ) -> Result<Arc<T>, StorageError> {
        let reader = self.open_part(name, kind, file)?;
        let read = |error| StorageError::from_io(error, "read", name);
        let mut reader = BufReader::new(reader);
        let part = body(&mut reader).map_err(read)?;
        // The end verifies the whole.
        if reader.read(&mut [0]).map_err(read)? > 0 {
            let longer = io::Error::new(io::ErrorKind::InvalidData, "the file has a tail");
            return Err(read(longer));
        }
        Ok(Arc::new(part))
    }

    fn remove_unneeded(&self) -> Result<(), StorageError> {
        let needed = |name: &str| match part_number(name) {
            Some(number) => self.kept.iter().any(|m| m.files().any(|file| file.number == number)),
            None => !is_manifest(name) || self.kept.iter().any(|m| m.name() == name),
        };
        let names = self.disk.list()?;
        // Manifests go first, so that a crash between leaves none without its segments.
        let (manifests, others): (Vec<_>, Vec<_>) =
            names.iter().filter(|name| !needed(name)).partition(|name| is_manifest(name));
        for unneeded in [manifests, others] {
            if !unneeded.is_empty() {
                unneeded.into_iter().try_for_each(|name| self.disk.remove(name))?;
                self.disk.sync_directory()?;
            }
        }
        Ok(())
    }
}

type Reading<'scope, T> = std::thread::ScopedJoinHandle<'scope, Result<T, StorageError>>;

fn joined<T>(threads: Vec<Reading<'_, T>>) -> Result<Vec<T>, StorageError> {
    let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
    joined.map(|read| read.expect("reading a file does not panic")).collect()
}

fn superseded(name: &str) -> StorageError {
    let why = "records that would continue it were given back";
    StorageError::from_io(io::Error::new(io::ErrorKind::InvalidData, why), "continue", name)
}

fn segment_name(number: u64) -> String {
    format!("segment-{number:020}.seg")
}

fn table_name(number: u64) -> String {
    format!("table-{number:020}.seg")
}

/// The number of a segment's or a table's file; they share one counter.
fn part_number(name: &str) -> Option<u64> {
    let name = name.strip_prefix("segment-").or_else(|| name.strip_prefix("table-"))?;
    file_number(name.strip_suffix(".seg")?)
}

/// Whether a file of this name is a manifest.
pub fn is_manifest(name: &str) -> bool {
    let sequence = name.strip_prefix("snapshot-").and_then(|rest| {
        rest.strip_suffix(AGAIN_SUFFIX).or_else(|| rest.strip_suffix(MANIFEST_SUFFIX))
    });
    sequence.and_then(file_number).is_some()
}

/// Whether a file of this name is part of a snapshot: a manifest, or what one names.
pub fn is_of_snapshot(name: &str) -> bool {
    is_manifest(name) || part_number(name).is_some()
}

/// Whether a file of this name belongs to the directory, and not to a process or to a repair.
pub fn is_exported(name: &str) -> bool {
    holds_records(name) || is_of_snapshot(name) || name == directory_file::NAME
}

/// What a manifest says, and its files with their bytes, itself included.
///
/// # Errors
/// [`StorageError`].
pub fn read_manifest_of(
    disk: &dyn Disk,
    directory: &DirectoryFile,
    name: &str,
) -> Result<(SnapshotInfo, Vec<(String, u64)>), StorageError> {
    let manifest = Manifest::read(disk, directory, name)?;
    let own = [(name.to_owned(), disk.open(name)?.len()?)];
    let segments = manifest.segments.iter().map(|file| (segment_name(file.number), file.bytes));
    let tables = manifest.others.iter().map(|other| other.file);
    let tables = tables.map(|file| (table_name(file.number), file.bytes));
    Ok((manifest.info(), own.into_iter().chain(segments).chain(tables).collect()))
}

impl Manifest {
    fn read(disk: &dyn Disk, directory: &DirectoryFile, name: &str) -> Result<Self, StorageError> {
        let mut reader = SealedReader::open(disk, name, MANIFEST_KIND, &directory.identity)?;
        let body = reader.read_rest(MANIFEST_BYTES_MAX)?;
        let mut manifest = Self::decode(&mut &body[..])
            .map_err(|error| StorageError::from_io(error, "decode", name))?;
        manifest.again = name.ends_with(AGAIN_SUFFIX);
        if manifest.name() != name {
            let (file, why) = (name.to_owned(), Damage::FileName);
            return Err(StorageError::DamagedSealed { file, offset: 0, why });
        }
        Ok(manifest)
    }

    fn name(&self) -> String {
        let suffix = if self.again { AGAIN_SUFFIX } else { MANIFEST_SUFFIX };
        format!("snapshot-{:020}{suffix}", self.counts.sequence.get())
    }

    fn info(&self) -> SnapshotInfo {
        SnapshotInfo {
            sequence: self.counts.sequence,
            taken_at_ms: self.taken_at_ms,
            bytes: self.files().map(|file| file.bytes).sum(),
            documents: self.counts.documents,
        }
    }

    fn files(&self) -> impl Iterator<Item = PartFile> {
        let others = self.others.iter().map(|other| other.file);
        self.segments.iter().copied().chain(others)
    }

    fn encode(&self) -> Vec<u8> {
        let Counts { sequence, documents, fingerprints } = self.counts;
        let mut out = Vec::new();
        let (segments, others) = (self.segments.len() as u64, self.others.len() as u64);
        let numbers = [self.taken_at_ms, sequence.get(), documents, fingerprints, segments, others];
        for number in numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for file in self.files() {
            out.extend_from_slice(&file.number.to_le_bytes());
            out.extend_from_slice(&file.bytes.to_le_bytes());
            out.extend_from_slice(&file.checksum.to_le_bytes());
        }
        for other in &self.others {
            out.extend_from_slice(&other.gone.to_le_bytes());
        }
        out
    }

    fn decode(source: &mut dyn Read) -> io::Result<Self> {
        let taken_at_ms = read_number(source)?;
        let counts = Counts {
            sequence: Sequence::new(read_number(source)?),
            documents: read_number(source)?,
            fingerprints: read_number(source)?,
        };
        let (segments, others) = (read_number(source)?, read_number(source)?);
        let files: Vec<PartFile> =
            (0..segments).map(|_| PartFile::decode(source)).collect::<io::Result<_>>()?;
        let tables: Vec<PartFile> =
            (0..others).map(|_| PartFile::decode(source)).collect::<io::Result<_>>()?;
        let other = |file| Ok(OtherFile { file, gone: read_number(source)? });
        let others = tables.into_iter().map(other).collect::<io::Result<_>>()?;
        Ok(Self { again: false, taken_at_ms, counts, segments: files, others })
    }
}

impl PartFile {
    fn decode(source: &mut dyn Read) -> io::Result<Self> {
        let (number, bytes) = (read_number(source)?, read_number(source)?);
        let (low, high) = (u128::from(read_number(source)?), u128::from(read_number(source)?));
        Ok(Self { number, bytes, checksum: high << 64 | low })
    }
}

fn read_number(source: &mut dyn Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    source.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_has_a_file_is_let_go() {
        let (part, mut written) = (Arc::new(()), Written(Vec::new()));
        let unwritten = written.part(Arc::clone(&part));
        assert!(matches!(unwritten, Part::InMemory(_)));
        drop(unwritten);
        let file = PartFile { number: 1, bytes: 2, checksum: 3 };
        written.add(&part, file);
        let known = written.part(Arc::clone(&part));
        assert!(matches!(known, Part::OnDisk(known) if known == file));
        assert_eq!(Arc::strong_count(&part), 1);
    }
}

//! Snapshots: the segments and tables of a view as files, a file of namespaces, times and jobs, and
//! a manifest that names them.
//!
//! None of them ever changes, so each is written once, however many snapshots it is part of. A
//! manifest `snapshot-<sequence>.manifest` lists the files of one view with their checksums, and
//! the last change that they contain. The last two snapshots are kept, and every file that neither
//! names is removed. A manifest counts only with all its files, each of which is verified when it
//! is loaded.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nearprint_index::memory::file::catch_unreadable;
use nearprint_index::plan::Plans;
use nearprint_index::tables::secondary::SecondaryTable;
use nearprint_index::tables::table::Table;
use nearprint_index::view::Parts;
use nearprint_machine::document::Sequence;
use nearprint_machine::jobs::Jobs;
use nearprint_machine::query::Touch;
use nearprint_storage::export::{Exported, check_files, write_export};
use nearprint_storage::{
    BodyLayout, Disk, ExportFile, FileKind, Identity, SealedReader, SealedWriter, StorageError,
    packed_before, require_space,
};

use crate::api::replies::SnapshotInfo;
use crate::directory_file::{self, DirectoryFile};
use crate::replication::position::{self, ClusterFile};
use crate::snapshot::files::Counted;
use crate::snapshot::manifest::{
    Contents, MANIFEST_KIND, Manifest, PartFile, TableFile, is_manifest, of_older_version,
    part_number, read_manifest_of,
};
use crate::snapshot::parts::{Part, WrittenParts};
use crate::snapshot::placing::in_files;
use crate::snapshot::state_file::StateFile;
use crate::state::survey::Survey;

/// The number of snapshots that are kept.
const KEPT: usize = 2;

/// The snapshots of a data directory, which has one of these.
#[derive(Debug)]
pub(crate) struct Snapshots {
    pub(super) disk: Arc<dyn Disk>,
    directory: DirectoryFile,
    pub(super) plans: Plans,
    pub(super) written: WrittenParts,
    next_number: u64,
    /// Newest first.
    kept: Vec<Manifest>,
    /// The number of these, from the newest on, that this process has read back completely.
    verified: usize,
    /// How often documents were named as originals: of the snapshot that was loaded, or for the
    /// next one.
    touches: Vec<Touch>,
    /// What is known of the garbage in the journal: by the snapshot that was loaded, or for the
    /// next one.
    survey: Option<Survey>,
    /// The bytes on the disk of the snapshot that is being written.
    begun_bytes: Arc<AtomicU64>,
}

/// What is read from a snapshot.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// The index.
    pub(crate) parts: Parts,
    pub(crate) jobs: Arc<Jobs>,
    touches: Vec<Touch>,
    survey: Option<Survey>,
    /// It was read completely.
    is_whole: bool,
}

/// The files of an export, open.
#[derive(Debug)]
pub struct Export {
    identity: Identity,
    files: Vec<ExportFile>,
}

impl Export {
    /// Writes it.
    ///
    /// # Errors
    /// Those of the sink and the files.
    pub fn write(&self, sink: &mut dyn Write) -> io::Result<Exported> {
        write_export(sink, self.identity, &self.files)
    }
}

impl Snapshots {
    /// The identity of the directory.
    pub(crate) fn identity(&self) -> Identity {
        self.directory.identity
    }

    /// An export of the newest snapshot, the files of records, and last the file `directory`,
    /// without which a half-restored directory does not open. The file `cluster` of a node is
    /// opened before the files of records, so that they have all that it says was read.
    ///
    /// # Errors
    /// [`StorageError`].
    pub(crate) fn export(
        &self,
        records: impl FnOnce() -> Vec<ExportFile>,
    ) -> Result<Export, StorageError> {
        let mut files = Vec::new();
        if ClusterFile::is_there(&*self.disk)? {
            files.push(open_to_export(&*self.disk, position::NAME.to_owned())?);
        }
        files.extend(records());
        let mut names = Vec::new();
        if let Some(newest) = self.kept.first() {
            let (_, files) = read_manifest_of(&*self.disk, &self.directory, &newest.name())?;
            names.extend(files.into_iter().map(|(name, _)| name));
        }
        names.push(directory_file::NAME.to_owned());
        for name in names {
            files.push(open_to_export(&*self.disk, name)?);
        }
        check_files(&files, &self.directory.identity)?;
        Ok(Export { identity: self.directory.identity, files })
    }

    /// Loads the newest complete snapshot, with at most `memory_bytes_max` bytes of its segments
    /// and tables in memory, if that is not 0; the largest stay in their files, of which no more
    /// than the directories is read. It passes over any other with a warning, because the journal
    /// leads from the older snapshot to the same state.
    ///
    /// # Errors
    /// [`StorageError`] if the disk fails, or a link or a folder has the name of a file. Damage is
    /// no error here.
    pub(crate) fn load(
        disk: Arc<dyn Disk>,
        directory: DirectoryFile,
        memory_bytes_max: u64,
    ) -> Result<(Self, Loaded), StorageError> {
        let mut snapshots = Self::none(disk, directory);
        let names = snapshots.disk.list()?;
        let numbers = names.iter().filter_map(|name| part_number(name));
        snapshots.next_number = numbers.max().unwrap_or(0) + 1;
        let packed_before = packed_before(&*snapshots.disk)?;
        let mut loaded: Option<Loaded> = None;
        // Names have the sequence in twenty digits: the newest is the last.
        for name in names.iter().rev().filter(|name| is_manifest(name)) {
            let read = snapshots.read_manifest(name, packed_before).and_then(|manifest| {
                if loaded.is_none() && manifest.is_in_force(&directory) {
                    loaded = Some(snapshots.read_parts(&manifest, memory_bytes_max)?);
                }
                Ok(manifest)
            });
            match read {
                Ok(manifest) if !manifest.is_in_force(&directory) => {
                    tracing::info!(snapshot = name, "ignoring a snapshot for another distance");
                }
                Ok(manifest) if snapshots.kept.len() < KEPT => snapshots.kept.push(manifest),
                Ok(_) => {}
                Err(error @ StorageError::NotAFile { .. }) => return Err(error),
                Err(error) => tracing::warn!(snapshot = name, %error, "passing over a snapshot"),
            }
        }
        let mut loaded = loaded.unwrap_or_default();
        // What stays in its file is verified page by page, when it is asked for.
        snapshots.verified = usize::from(loaded.is_whole);
        snapshots.touches = std::mem::take(&mut loaded.touches);
        snapshots.survey = loaded.survey.take();
        Ok((snapshots, loaded))
    }

    /// The bytes on the disk of the snapshot that is being written, at any time.
    pub(crate) fn begun_bytes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.begun_bytes)
    }

    /// How often documents were named, of the snapshot that was loaded.
    pub(crate) fn take_touches(&mut self) -> Vec<Touch> {
        std::mem::take(&mut self.touches)
    }

    /// Sets how often documents were named, for the next snapshot.
    pub(crate) fn keep_touches(&mut self, touches: Vec<Touch>) {
        self.touches = touches;
    }

    /// What the snapshot that was loaded knew of the garbage in the journal.
    pub(crate) fn take_survey(&mut self) -> Option<Survey> {
        self.survey.take()
    }

    /// Sets what is known of the garbage in the journal, for the next snapshot.
    pub(crate) fn keep_survey(&mut self, survey: Survey) {
        self.survey = Some(survey);
    }

    fn none(disk: Arc<dyn Disk>, directory: DirectoryFile) -> Self {
        Self {
            disk,
            plans: Plans::of(directory.distance_max),
            directory,
            written: WrittenParts::default(),
            next_number: 1,
            kept: Vec::new(),
            verified: 0,
            touches: Vec::new(),
            survey: None,
            begun_bytes: Arc::default(),
        }
    }

    /// Reads the snapshot of a manifest as a start would, and verifies all of it.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read or is damaged.
    pub(crate) fn verify(
        disk: Arc<dyn Disk>,
        directory: DirectoryFile,
        name: &str,
    ) -> Result<(), StorageError> {
        let mut snapshots = Self::none(disk, directory);
        let manifest = snapshots.read_manifest(name, packed_before(&*snapshots.disk)?)?;
        snapshots.plans = Plans::of(manifest.distance_max);
        snapshots.read_parts(&manifest, 0).map(drop)
    }

    /// Writes a snapshot of these parts, unless there is one of the same state; then removes what
    /// no kept snapshot needs.
    ///
    /// # Errors
    /// [`StorageError`]; the earlier snapshots stay.
    pub(crate) fn take(
        &mut self,
        parts: Parts,
        jobs: &Arc<Jobs>,
        taken_at_ms: u64,
    ) -> Result<SnapshotInfo, StorageError> {
        if let Some(newest) = self.kept.first().filter(|newest| newest.counts == parts.counts) {
            return Ok(newest.info());
        }
        let manifest = self.write_whole(parts, jobs, taken_at_ms)?;
        self.keep(manifest)
    }

    /// Writes the parts that have no file yet. If that fails, removes those that were written: on a
    /// full disk their space is needed.
    fn write_whole(
        &mut self,
        parts: Parts,
        jobs: &Arc<Jobs>,
        taken_at_ms: u64,
    ) -> Result<Manifest, StorageError> {
        let written =
            self.check_space(&parts).and_then(|()| self.write_parts(parts, jobs, taken_at_ms));
        if written.is_err() {
            let kept = &self.kept;
            self.written.0.retain(|(_, part)| names_part(kept, part.number));
            // The first error is the one to report; the next snapshot removes what is left.
            drop(self.remove_unneeded());
            self.begun_bytes.store(0, Ordering::Relaxed);
        }
        written
    }

    /// Refuses if the parts that have no file yet do not fit on the disk.
    fn check_space(&self, parts: &Parts) -> Result<(), StorageError> {
        let new = |has_file: bool, bytes: u64| if has_file { 0 } else { bytes };
        let segments = parts
            .segments
            .iter()
            .map(|s| new(self.written.known(s).is_some(), s.bytes().total() + s.file_bytes()));
        let tables = parts
            .secondary_tables
            .iter()
            .map(|SecondaryTable { table, .. }| (table, table.bytes() as u64 + table.file_bytes()))
            .map(|(table, bytes)| new(self.written.known(table).is_some(), bytes));
        let needed: u64 = segments.chain(tables).sum();
        require_space(&*self.disk, needed, "a snapshot")
    }

    /// Writes a snapshot of these parts for the maximum distance of `directory`, which is not in
    /// force yet, next to those of the distance that is.
    ///
    /// # Errors
    /// [`StorageError`]; what was written so far stays, until [`Self::remove_others`].
    pub(crate) fn write_beside(
        disk: Arc<dyn Disk>,
        directory: DirectoryFile,
        state: (Parts, &Arc<Jobs>),
        taken_at_ms: u64,
    ) -> Result<SnapshotInfo, StorageError> {
        let mut snapshots = Self::none(disk, directory);
        let names = snapshots.disk.list()?;
        let numbers = names.iter().filter_map(|name| part_number(name));
        snapshots.next_number = numbers.max().unwrap_or(0) + 1;
        let manifest = snapshots.write_parts(state.0, state.1, taken_at_ms)?;
        let manifest = Manifest { reindexed: true, ..manifest };
        snapshots
            .write(&manifest.name(), MANIFEST_KIND, |sink| sink.write_all(&manifest.encode()))?;
        Ok(manifest.info())
    }

    /// Removes the snapshots for other distances than that of the directory, and every part that no
    /// snapshot for this one names. Removes nothing if a manifest cannot be read.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub(crate) fn remove_others(
        disk: Arc<dyn Disk>,
        directory: DirectoryFile,
    ) -> Result<(), StorageError> {
        let mut snapshots = Self::none(disk, directory);
        for name in snapshots.disk.list()?.iter().filter(|name| is_manifest(name)) {
            let Ok(manifest) = Manifest::read(&*snapshots.disk, &directory, name) else {
                return Ok(());
            };
            if manifest.is_in_force(&directory) {
                snapshots.kept.push(manifest);
            }
        }
        snapshots.remove_unneeded()
    }

    /// Writes the parts that have no file yet.
    fn write_parts(
        &mut self,
        parts: Parts,
        jobs: &Arc<Jobs>,
        taken_at_ms: u64,
    ) -> Result<Manifest, StorageError> {
        let Parts { segments, secondary_tables, dropped, counts, namespaces, times } = parts;
        self.written.forget_dropped();
        let segments: Vec<_> = segments.into_iter().map(|s| self.written.file_of(s)).collect();
        let with_file = |SecondaryTable { table, cleaned_at }| {
            (self.written.file_of(table), dropped - cleaned_at)
        };
        let tables: Vec<_> = secondary_tables.into_iter().map(with_file).collect();
        // The newest first, and each is dropped once written: soon merges want it out of memory.
        let segments = segments.into_iter().rev().map(|segment| self.write_part(segment));
        let mut segments = segments.collect::<Result<Vec<_>, _>>()?;
        segments.reverse();
        let tables = tables
            .into_iter()
            .rev()
            .map(|(table, gone)| self.write_part(table).map(|file| TableFile { file, gone }));
        let mut tables = tables.collect::<Result<Vec<_>, _>>()?;
        tables.reverse();
        let touches = self.take_touches();
        let state = StateFile { namespaces, times, jobs: Arc::clone(jobs), touches };
        let state = self.write_part(Err(Arc::new(state)))?;
        let distance_max = self.directory.distance_max;
        let (again, reindexed) = (false, false);
        Ok(Manifest {
            again,
            reindexed,
            distance_max,
            taken_at_ms,
            counts,
            segments,
            tables,
            state,
            survey: self.survey.take(),
        })
    }

    /// Makes the newest snapshot count as two: reads all its files again, and writes its manifest a
    /// second time. For a state that no longer changes: otherwise the journal after the older
    /// snapshot would be kept until it does.
    ///
    /// # Errors
    /// [`StorageError`]; the earlier snapshots stay.
    pub(crate) fn repeat(&mut self) -> Result<SnapshotInfo, StorageError> {
        let Some(newest) = self.kept.first().cloned() else {
            return Err(StorageError::NoRecord { sequence: 0, last: 0 });
        };
        for (kind, PartFile { number, contents }) in newest.files() {
            self.read_back(&kind.name(number), kind.file_kind(), contents)?;
        }
        if newest.again {
            return Ok(newest.info());
        }
        self.keep(Manifest { again: true, ..newest })
    }

    /// Replaces the kept snapshots by two of these parts. For a state that no longer changes, whose
    /// parts were merged into far smaller ones since the newest snapshot.
    ///
    /// # Errors
    /// [`StorageError`]; what was not replaced stays.
    pub(crate) fn retake(
        &mut self,
        parts: Parts,
        jobs: &Arc<Jobs>,
        taken_at_ms: u64,
    ) -> Result<SnapshotInfo, StorageError> {
        // The newest stays until the other is whole: its name is written last.
        let again = self.kept.first().is_some_and(|newest| !newest.again);
        let manifest = self.write_whole(parts, jobs, taken_at_ms)?;
        self.keep(Manifest { again, ..manifest.clone() })?;
        self.keep(Manifest { again: !again, ..manifest })
    }

    /// Writes the manifest, and removes what no kept snapshot needs.
    fn keep(&mut self, manifest: Manifest) -> Result<SnapshotInfo, StorageError> {
        self.write(&manifest.name(), MANIFEST_KIND, |sink| sink.write_all(&manifest.encode()))?;
        let info = manifest.info();
        self.kept.insert(0, manifest);
        self.kept.truncate(KEPT);
        self.verified = self.kept.len().min(self.verified + 1);
        self.remove_unneeded()?;
        self.begun_bytes.store(0, Ordering::Relaxed);
        Ok(info)
    }

    /// The last change that both kept snapshots contain, each of which was read back completely:
    /// the journal up to it is needed for its records only. 0 unless there are two.
    pub(crate) fn covered_by_both(&self) -> Sequence {
        let older = self.kept.get(KEPT - 1).filter(|_| self.verified == KEPT);
        older.map_or(Sequence::ZERO, |older| older.counts.sequence)
    }

    /// The kept snapshots, newest first.
    pub(crate) fn list(&self) -> Vec<SnapshotInfo> {
        self.kept.iter().map(Manifest::info).collect()
    }

    /// The file of a part, which is written now if there is none.
    fn write_part<T: Part>(
        &mut self,
        part: Result<PartFile, Arc<T>>,
    ) -> Result<PartFile, StorageError> {
        let part = match part {
            Ok(file) => return Ok(file),
            Err(part) => part,
        };
        let number = self.next_number;
        self.next_number += 1;
        let contents = self.write_in(
            BodyLayout::Pages,
            (&T::KIND.name(number), T::KIND.file_kind()),
            |sink| catch_unreadable(|| part.write(sink))?,
        )?;
        let file = PartFile { number, contents };
        self.written.add(part, file);
        Ok(file)
    }

    fn write(
        &self,
        name: &str,
        kind: FileKind,
        body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Contents, StorageError> {
        self.write_in(BodyLayout::Blocks, (name, kind), body)
    }

    fn write_in(
        &self,
        layout: BodyLayout,
        (name, kind): (&str, FileKind),
        body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Contents, StorageError> {
        let (disk, identity) = (Arc::clone(&self.disk), self.directory.identity);
        let mut writer = SealedWriter::create_in(layout, disk, name, (kind, identity))?;
        let written = body(&mut Counted { sink: &mut writer, bytes: &self.begun_bytes });
        if let Err(error) = written {
            writer.abandon()?;
            return Err(StorageError::from_io(error, "write", name));
        }
        let contents = writer.finish()?.into();
        self.read_back(name, kind, contents)?;
        Ok(contents)
    }

    /// Reads a file from the disk: it counts only if the disk returns what was written.
    fn read_back(
        &self,
        name: &str,
        kind: FileKind,
        contents: Contents,
    ) -> Result<(), StorageError> {
        let mut reader = self.open(name, kind, contents)?;
        // The last block verifies the whole file.
        while reader.next_block()?.is_some() {}
        Ok(())
    }

    /// Opens a file with these contents.
    pub(super) fn open(
        &self,
        name: &str,
        kind: FileKind,
        contents: Contents,
    ) -> Result<SealedReader, StorageError> {
        let reader = SealedReader::open(&*self.disk, name, kind, &self.directory.identity);
        let reader = reader.map_err(of_older_version)?;
        if Contents::from(reader.sealed()) != contents {
            return Err(invalid("not the file that was written", "read", name));
        }
        Ok(reader)
    }

    /// Reads the manifest of a snapshot that the journal continues.
    fn read_manifest(&self, name: &str, packed_before: u64) -> Result<Manifest, StorageError> {
        let manifest = Manifest::read(&*self.disk, &self.directory, name)?;
        if manifest.counts.sequence.next().get() < packed_before {
            return Err(invalid("records that would continue it were reclaimed", "continue", name));
        }
        Ok(manifest)
    }

    /// Reads and verifies all parts, on all cores, but those that stay in their files.
    fn read_parts(
        &mut self,
        manifest: &Manifest,
        memory_bytes_max: u64,
    ) -> Result<Loaded, StorageError> {
        let in_files = in_files(manifest, memory_bytes_max);
        let Manifest { counts, segments, tables, state, survey, .. } = manifest;
        let (state, _): (Arc<StateFile>, _) = self.read_part(*state)?;
        let StateFile { namespaces, times, jobs, touches } = (*state).clone();
        let dropped = tables.iter().map(|table| table.gone).max().unwrap_or(0);
        let (this, in_files) = (&*self, &in_files);
        let (loaded_segments, loaded_tables) = std::thread::scope(|scope| {
            let segments = segments.iter();
            let segments: Vec<_> =
                segments.map(|&file| scope.spawn(move || this.place(file, in_files))).collect();
            let tables = tables.iter().map(|table| table.file);
            let tables: Vec<_> =
                tables.map(|file| scope.spawn(move || this.place(file, in_files))).collect();
            (joined(segments), joined(tables))
        });
        let (loaded_segments, loaded_tables) = (loaded_segments?, loaded_tables?);
        let is_whole = in_files.is_empty();
        for (part, &file) in loaded_segments.iter().zip(segments) {
            self.know(part, file);
        }
        for (part, table) in loaded_tables.iter().zip(tables) {
            self.know(part, table.file);
        }
        let segments = loaded_segments.into_iter().map(|(segment, _)| segment).collect();
        let secondary_table = |((table, _), file): ((Arc<Table>, bool), &TableFile)| {
            SecondaryTable { table, cleaned_at: dropped - file.gone }
        };
        let secondary_tables = loaded_tables.into_iter().zip(tables).map(secondary_table).collect();
        let counts = *counts;
        let parts = Parts { segments, secondary_tables, dropped, counts, namespaces, times };
        Ok(Loaded { parts, jobs, touches, survey: survey.clone(), is_whole })
    }

    fn remove_unneeded(&self) -> Result<(), StorageError> {
        let needed = |name: &str| match part_number(name) {
            Some(number) => names_part(&self.kept, number),
            None => !is_manifest(name) || self.kept.iter().any(|m| m.name() == name),
        };
        let names = self.disk.list()?;
        // Manifests go first, so that a crash in between leaves none without its files.
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

fn names_part(manifests: &[Manifest], number: u64) -> bool {
    manifests.iter().any(|manifest| manifest.files().any(|(_, file)| file.number == number))
}

type Reading<'visibility, T> = std::thread::ScopedJoinHandle<'visibility, Result<T, StorageError>>;

fn joined<T>(threads: Vec<Reading<'_, T>>) -> Result<Vec<T>, StorageError> {
    let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
    joined.map(|read| read.expect("reading a file does not panic")).collect()
}

pub(super) fn invalid(why: &str, operation: &'static str, name: &str) -> StorageError {
    StorageError::from_io(io::Error::new(io::ErrorKind::InvalidData, why), operation, name)
}

/// Opens a file of a directory for an export.
///
/// # Errors
/// [`StorageError`].
pub(crate) fn open_to_export(disk: &dyn Disk, name: String) -> Result<ExportFile, StorageError> {
    let file = disk.open(&name)?;
    let bytes = file.len()?;
    Ok(ExportFile { name, file: Arc::from(file), bytes })
}

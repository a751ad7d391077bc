//! The manifest of a snapshot: which files it consists of, and the last change that they contain.

use std::io::{self, Read};

use nearprint_fingerprint::Distance;
use nearprint_index::view::Counts;
use nearprint_machine::document::Sequence;
use nearprint_storage::{
    Damage, Disk, FileKind, FileRefusal, Sealed, SealedReader, StorageError, file_number,
    holds_records,
};

use crate::api::replies::SnapshotInfo;
use crate::directory_file::{self, DirectoryFile};
use crate::replication::position;
use crate::state::survey::Survey;

/// Kinds that only older versions wrote: segments and manifests before tables had files of their
/// own, segments whose postings had four bytes of a sketch, and segments and tables whose lines had
/// slack.
const KINDS_OF_OLDER_VERSIONS: [u32; 5] = [2, 3, 5, 6, 11];
pub(super) const MANIFEST_KIND: FileKind = FileKind(4);
const SUFFIX: &str = ".manifest";
const AGAIN_SUFFIX: &str = "-again.manifest";
/// In the name of a manifest that a reindex has written, with two digits after it.
const DISTANCE_INFIX: &str = "-distance-";
/// A manifest names a few dozen files at most.
const BYTES_MAX: u64 = 1 << 20;

/// The files of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manifest {
    /// Whether it is the second one of its state; its name shows it.
    pub(super) again: bool,
    /// Whether a reindex has written it. Its name then has the distance, so that it does not
    /// replace the snapshot of the same state for the distance in force.
    pub(super) reindexed: bool,
    /// The maximum distance that its segments and tables are made for.
    pub(super) distance_max: Distance,
    pub(super) taken_at_ms: u64,
    pub(super) counts: Counts,
    pub(super) segments: Vec<PartFile>,
    pub(super) tables: Vec<TableFile>,
    /// Namespaces, times and jobs.
    pub(super) state: PartFile,
    /// What was known of the garbage in the journal; `None` in a snapshot of an earlier version
    /// or of a reindex.
    pub(super) survey: Option<Survey>,
}

/// The kind of a part of a snapshot, which has a file of its own.
#[derive(Debug, Clone, Copy)]
pub(super) enum PartKind {
    Segment,
    Table,
    State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartFile {
    pub(super) number: u64,
    pub(super) contents: Contents,
}

/// What identifies the contents of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) bytes: u64,
    checksum: u128,
}

/// The file of a secondary table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableFile {
    pub(super) file: PartFile,
    /// The number of fingerprints that segments have dropped and the table has not.
    pub(super) gone: u64,
}

impl From<Sealed> for Contents {
    fn from(sealed: Sealed) -> Self {
        Self { bytes: sealed.file_bytes, checksum: sealed.checksum }
    }
}

impl PartKind {
    pub(super) fn file_kind(self) -> FileKind {
        match self {
            Self::Segment => FileKind(12),
            Self::Table => FileKind(13),
            Self::State => FileKind(9),
        }
    }

    pub(super) fn name(self, number: u64) -> String {
        match self {
            Self::Segment => format!("segment-{number:020}.seg"),
            Self::Table => format!("table-{number:020}.seg"),
            Self::State => format!("state-{number:020}.seg"),
        }
    }
}

/// Reports a file of a kind that only older versions wrote as made by them.
pub(super) fn of_older_version(error: StorageError) -> StorageError {
    if let StorageError::Refused { file, why: FileRefusal::Kind { got, .. } } = &error
        && KINDS_OF_OLDER_VERSIONS.contains(got)
    {
        return StorageError::Refused { file: file.clone(), why: FileRefusal::OlderPart };
    }
    error
}

/// The number of the file of a part; all kinds share one counter.
pub(super) fn part_number(name: &str) -> Option<u64> {
    let name = ["segment-", "table-", "state-"].iter().find_map(|kind| name.strip_prefix(kind))?;
    file_number(name.strip_suffix(".seg")?)
}

/// Whether a file of this name is a manifest.
pub(crate) fn is_manifest(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("snapshot-") else { return false };
    let Some(stem) = rest.strip_suffix(AGAIN_SUFFIX).or_else(|| rest.strip_suffix(SUFFIX)) else {
        return false;
    };
    let sequence = match stem.split_once(DISTANCE_INFIX) {
        Some((sequence, bits)) if bits.len() == 2 && bits.bytes().all(|b| b.is_ascii_digit()) => {
            sequence
        }
        Some(_) => return false,
        None => stem,
    };
    file_number(sequence).is_some()
}

/// Whether a file of this name is part of a snapshot: a manifest, or a file that one names.
pub(crate) fn is_of_snapshot(name: &str) -> bool {
    is_manifest(name) || part_number(name).is_some()
}

/// Whether a file of this name belongs to the directory, and not to a process or a repair.
pub(crate) fn is_exported(name: &str) -> bool {
    let is_of_directory =
        [directory_file::NAME, directory_file::MODEL_NAME, position::NAME].contains(&name);
    holds_records(name) || is_of_snapshot(name) || is_of_directory
}

/// Reads a manifest: the snapshot, and its files with their bytes, itself included.
///
/// # Errors
/// [`StorageError`].
pub(crate) fn read_manifest_of(
    disk: &dyn Disk,
    directory: &DirectoryFile,
    name: &str,
) -> Result<(SnapshotInfo, Vec<(String, u64)>), StorageError> {
    let manifest = Manifest::read(disk, directory, name)?;
    let mut files = vec![(name.to_owned(), disk.open(name)?.len()?)];
    files
        .extend(manifest.files().map(|(kind, file)| (kind.name(file.number), file.contents.bytes)));
    Ok((manifest.info(), files))
}

impl Manifest {
    pub(super) fn read(
        disk: &dyn Disk,
        directory: &DirectoryFile,
        name: &str,
    ) -> Result<Self, StorageError> {
        let reader = SealedReader::open(disk, name, MANIFEST_KIND, &directory.identity);
        let mut reader = reader.map_err(of_older_version)?;
        let body = reader.read_rest(BYTES_MAX)?;
        let mut manifest =
            Self::decode(&body).map_err(|error| StorageError::from_io(error, "decode", name))?;
        manifest.again = name.ends_with(AGAIN_SUFFIX);
        manifest.reindexed = name.contains(DISTANCE_INFIX);
        if manifest.name() != name {
            let (file, why) = (name.to_owned(), Damage::FileName);
            return Err(StorageError::DamagedSealed { file, offset: 0, why });
        }
        Ok(manifest)
    }

    pub(super) fn name(&self) -> String {
        let suffix = if self.again { AGAIN_SUFFIX } else { SUFFIX };
        let distance = if self.reindexed {
            format!("{DISTANCE_INFIX}{:02}", self.distance_max.get())
        } else {
            String::new()
        };
        format!("snapshot-{:020}{distance}{suffix}", self.counts.sequence.get())
    }

    pub(super) fn info(&self) -> SnapshotInfo {
        SnapshotInfo {
            sequence: self.counts.sequence,
            taken_at_ms: self.taken_at_ms,
            bytes: self.files().map(|(_, file)| file.contents.bytes).sum(),
            documents: self.counts.documents,
        }
    }

    /// Whether it is for the maximum distance of the directory. Any other is not damage: a reindex
    /// was interrupted before or after the directory was switched to its distance.
    pub(super) fn is_in_force(&self, directory: &DirectoryFile) -> bool {
        self.distance_max == directory.distance_max
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (PartKind, PartFile)> {
        let segments = self.segments.iter().map(|file| (PartKind::Segment, *file));
        let tables = self.tables.iter().map(|table| (PartKind::Table, table.file));
        segments.chain(tables).chain([(PartKind::State, self.state)])
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let Counts { sequence, documents } = self.counts;
        let mut out = Vec::new();
        let (segments, tables) = (self.segments.len() as u64, self.tables.len() as u64);
        let distance_max = self.distance_max.get().into();
        let numbers = [
            self.taken_at_ms,
            distance_max,
            sequence.get(),
            documents,
            // Earlier versions read the number of distinct fingerprints here, and rely on it not
            // being too small.
            documents,
            segments,
            tables,
        ];
        for number in numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for (_, PartFile { number, contents }) in self.files() {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&contents.bytes.to_le_bytes());
            out.extend_from_slice(&contents.checksum.to_le_bytes());
        }
        for table in &self.tables {
            out.extend_from_slice(&table.gone.to_le_bytes());
        }
        // Earlier versions stop reading here.
        if let Some(survey) = &self.survey {
            survey.encode(&mut out);
        }
        out
    }

    fn decode(mut body: &[u8]) -> io::Result<Self> {
        let source = &mut body;
        let taken_at_ms = read_number(source)?;
        let distance_max = u8::try_from(read_number(source)?).ok().and_then(Distance::new);
        let distance_max = distance_max.ok_or(io::ErrorKind::InvalidData)?;
        let counts = Counts {
            sequence: Sequence::new(read_number(source)?),
            documents: read_number(source)?,
        };
        read_number(source)?;
        let (segments, tables) = (read_number(source)?, read_number(source)?);
        let mut parts = |count| (0..count).map(|_| PartFile::decode(source)).collect();
        let segments = parts(segments)?;
        let tables: io::Result<Vec<_>> = parts(tables);
        let state = PartFile::decode(source)?;
        let table = |file| Ok(TableFile { file, gone: read_number(source)? });
        let tables = tables?.into_iter().map(table).collect::<io::Result<_>>()?;
        let survey = if body.is_empty() { None } else { Some(Survey::decode(&mut body)?) };
        Ok(Self {
            again: false,
            reindexed: false,
            distance_max,
            taken_at_ms,
            counts,
            segments,
            tables,
            state,
            survey,
        })
    }
}

impl PartFile {
    fn decode(source: &mut dyn Read) -> io::Result<Self> {
        let (number, bytes) = (read_number(source)?, read_number(source)?);
        let (low, high) = (u128::from(read_number(source)?), u128::from(read_number(source)?));
        Ok(Self { number, contents: Contents { bytes, checksum: high << 64 | low } })
    }
}

fn read_number(source: &mut dyn Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    source.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

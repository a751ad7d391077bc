//! Snapshots: the segments of a view as files, and a manifest that names them.
//!
//! Segments never change, so each is written once, whichever snapshots it is part of; a manifest
//! `snapshot-<sequence>.manifest` lists the segments of one view with their checksums, and the last
//! change they contain. The last two snapshots are kept, and every file that neither names is
//! removed. A manifest counts only with all its segments, each verified when it is loaded.

use std::io::{self, BufReader, Read, Write};
use std::sync::{Arc, Weak};

use crate::document::Sequence;
use crate::engine::answers::SnapshotInfo;
use crate::engine::directory::Directory;
use crate::index::image;
use crate::index::segment::Segment;
use crate::index::view::Counts;
use crate::storage::{Disk, FileKind, Sealed, SealedReader, SealedWriter, StorageError};

const SEGMENT_KIND: FileKind = FileKind(2);
const MANIFEST_KIND: FileKind = FileKind(3);
const MANIFEST_SUFFIX: &str = ".manifest";
/// A manifest names a few dozen segments at most.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;
/// How many snapshots are kept.
const KEPT: usize = 2;

/// The snapshots of a data directory; there is one of these.
#[derive(Debug)]
pub struct Snapshots {
    disk: Arc<dyn Disk>,
    directory: Directory,
    /// The segments in memory that are on disk already.
    written: Vec<(Weak<Segment>, SegmentFile)>,
    next_number: u64,
    /// Newest first.
    kept: Vec<Manifest>,
}

/// What is loaded from a snapshot.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Its segments, oldest first.
    pub segments: Vec<Arc<Segment>>,
    /// Its totals.
    pub counts: Counts,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Manifest {
    taken_at_ms: u64,
    counts: Counts,
    segments: Vec<SegmentFile>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SegmentFile {
    number: u64,
    bytes: u64,
    checksum: u128,
}

impl Snapshots {
    /// Loads the newest snapshot that is whole; one that is not is passed over with a warning,
    /// since the journal leads from the older one to the same state.
    ///
    /// # Errors
    /// [`StorageError`] where the disk fails. Damage is no error here.
    pub fn load(disk: Arc<dyn Disk>, directory: Directory) -> Result<(Self, Loaded), StorageError> {
        let mut snapshots =
            Self { disk, directory, written: Vec::new(), next_number: 1, kept: Vec::new() };
        let names = snapshots.disk.list()?;
        let numbers = names.iter().filter_map(|name| segment_number(name));
        snapshots.next_number = numbers.max().unwrap_or(0) + 1;
        let mut loaded: Option<Loaded> = None;
        // Names carry the sequence in twenty digits: the newest is the last.
        for name in names.iter().rev().filter(|name| name.ends_with(MANIFEST_SUFFIX)) {
            let manifest = match snapshots.read_manifest(name) {
                Ok(manifest) => manifest,
                Err(error) => {
                    tracing::warn!(snapshot = name, %error, "passing over a snapshot");
                    continue;
                }
            };
            if loaded.is_none() {
                match snapshots.read_segments(&manifest) {
                    Ok(segments) => {
                        let files = segments.iter().map(Arc::downgrade);
                        snapshots.written = files.zip(manifest.segments.clone()).collect();
                        loaded = Some(Loaded { segments, counts: manifest.counts });
                    }
                    Err(error) => {
                        tracing::warn!(snapshot = name, %error, "passing over a snapshot");
                        continue;
                    }
                }
            }
            if snapshots.kept.len() < KEPT {
                snapshots.kept.push(manifest);
            }
        }
        Ok((snapshots, loaded.unwrap_or_default()))
    }

    /// Writes a snapshot of these segments, oldest first, which together are the state with these
    /// totals; then removes what no kept snapshot needs. A snapshot of the same state is not taken
    /// twice.
    ///
    /// # Errors
    /// [`StorageError`]; the earlier snapshots stay.
    pub fn take(
        &mut self,
        segments: &[Arc<Segment>],
        counts: Counts,
        taken_at_ms: u64,
    ) -> Result<SnapshotInfo, StorageError> {
        if let Some(newest) = self.kept.first().filter(|newest| newest.counts == counts) {
            return Ok(newest.info());
        }
        self.written.retain(|(segment, _)| segment.strong_count() > 0);
        let files: Vec<SegmentFile> =
            segments.iter().map(|segment| self.file_of(segment)).collect::<Result<_, _>>()?;
        let manifest = Manifest { taken_at_ms, counts, segments: files };
        let name = manifest_name(counts.sequence);
        let writer = self.writer(&name, MANIFEST_KIND)?;
        write(writer, &name, |sink| sink.write_all(&manifest.encode()))?;
        let info = manifest.info();
        self.kept.insert(0, manifest);
        self.kept.truncate(KEPT);
        self.remove_unneeded()?;
        Ok(info)
    }

    /// The kept snapshots, newest first.
    pub fn list(&self) -> Vec<SnapshotInfo> {
        self.kept.iter().map(Manifest::info).collect()
    }

    fn file_of(&mut self, segment: &Arc<Segment>) -> Result<SegmentFile, StorageError> {
        let known = self.written.iter().find(|(w, _)| w.as_ptr() == Arc::as_ptr(segment));
        if let Some((_, file)) = known {
            return Ok(*file);
        }
        let number = self.next_number;
        self.next_number += 1;
        let name = segment_name(number);
        let writer = self.writer(&name, SEGMENT_KIND)?;
        let sealed = write(writer, &name, |sink| image::write(segment, sink))?;
        let file = SegmentFile { number, bytes: sealed.file_bytes, checksum: sealed.checksum };
        self.written.push((Arc::downgrade(segment), file));
        Ok(file)
    }

    fn writer(&self, name: &str, kind: FileKind) -> Result<SealedWriter, StorageError> {
        SealedWriter::create(Arc::clone(&self.disk), name, kind, self.directory.identity)
    }

    fn read_manifest(&self, name: &str) -> Result<Manifest, StorageError> {
        let identity = &self.directory.identity;
        let mut reader = SealedReader::open(&*self.disk, name, MANIFEST_KIND, identity)?;
        let body = reader.read_rest(MANIFEST_BYTES_MAX)?;
        Manifest::decode(&mut &body[..])
            .map_err(|error| StorageError::from_io(error, "decode", name))
    }

    /// Reads, verifies and builds the segments, on all cores.
    fn read_segments(&self, manifest: &Manifest) -> Result<Vec<Arc<Segment>>, StorageError> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = manifest
                .segments
                .iter()
                .map(|file| scope.spawn(|| self.read_segment(*file)))
                .collect();
            let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined.map(|segment| segment.expect("reading a segment does not panic")).collect()
        })
    }

    fn read_segment(&self, file: SegmentFile) -> Result<Arc<Segment>, StorageError> {
        let name = segment_name(file.number);
        let Directory { identity, distance_max, .. } = &self.directory;
        let reader = SealedReader::open(&*self.disk, &name, SEGMENT_KIND, identity)?;
        let sealed = reader.sealed();
        let read = |error| StorageError::from_io(error, "read", &name);
        if (sealed.file_bytes, sealed.checksum) != (file.bytes, file.checksum) {
            return Err(read(io::Error::new(
                io::ErrorKind::InvalidData,
                "not the segment that the manifest names",
            )));
        }
        let mut reader = BufReader::new(reader);
        let segment = image::read(&mut reader, *distance_max).map_err(read)?;
        // The end verifies the whole.
        let rest = reader.read(&mut [0]).map_err(read)?;
        if rest > 0 {
            let longer = io::Error::new(io::ErrorKind::InvalidData, "the segment has a tail");
            return Err(read(longer));
        }
        Ok(Arc::new(segment))
    }

    fn remove_unneeded(&self) -> Result<(), StorageError> {
        let needed = |name: &str| match segment_number(name) {
            Some(number) => self.kept.iter().any(|m| m.segments.iter().any(|s| s.number == number)),
            None => {
                !name.ends_with(MANIFEST_SUFFIX)
                    || self.kept.iter().any(|m| manifest_name(m.counts.sequence) == name)
            }
        };
        let names = self.disk.list()?;
        // Manifests go first, so that a crash between leaves none without its segments.
        let (manifests, others): (Vec<_>, Vec<_>) = names
            .iter()
            .filter(|name| !needed(name))
            .partition(|name| name.ends_with(MANIFEST_SUFFIX));
        for unneeded in [manifests, others] {
            if !unneeded.is_empty() {
                unneeded.into_iter().try_for_each(|name| self.disk.remove(name))?;
                self.disk.sync_directory()?;
            }
        }
        Ok(())
    }
}

fn write(
    mut writer: SealedWriter,
    name: &str,
    body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<Sealed, StorageError> {
    match body(&mut writer) {
        Ok(()) => writer.finish(),
        Err(error) => {
            writer.abandon()?;
            Err(StorageError::from_io(error, "write", name))
        }
    }
}

fn manifest_name(sequence: Sequence) -> String {
    format!("snapshot-{:020}{MANIFEST_SUFFIX}", sequence.get())
}

fn segment_name(number: u64) -> String {
    format!("segment-{number:020}.seg")
}

fn segment_number(name: &str) -> Option<u64> {
    name.strip_prefix("segment-")?.strip_suffix(".seg")?.parse().ok()
}

impl Manifest {
    fn info(&self) -> SnapshotInfo {
        SnapshotInfo {
            sequence: self.counts.sequence,
            taken_at_ms: self.taken_at_ms,
            bytes: self.segments.iter().map(|segment| segment.bytes).sum(),
            documents: self.counts.documents,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let Counts { sequence, documents, fingerprints } = self.counts;
        let mut out = Vec::new();
        let segments = self.segments.len() as u64;
        for number in [self.taken_at_ms, sequence.get(), documents, fingerprints, segments] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for segment in &self.segments {
            out.extend_from_slice(&segment.number.to_le_bytes());
            out.extend_from_slice(&segment.bytes.to_le_bytes());
            out.extend_from_slice(&segment.checksum.to_le_bytes());
        }
        out
    }

    fn decode(source: &mut dyn Read) -> io::Result<Self> {
        let mut number = || -> io::Result<u64> {
            let mut bytes = [0; 8];
            source.read_exact(&mut bytes)?;
            Ok(u64::from_le_bytes(bytes))
        };
        let taken_at_ms = number()?;
        let counts = Counts {
            sequence: Sequence::new(number()?),
            documents: number()?,
            fingerprints: number()?,
        };
        let mut segments = Vec::new();
        for _ in 0..number()? {
            let (file, bytes) = (number()?, number()?);
            let (low, high) = (u128::from(number()?), u128::from(number()?));
            segments.push(SegmentFile { number: file, bytes, checksum: high << 64 | low });
        }
        Ok(Self { taken_at_ms, counts, segments })
    }
}

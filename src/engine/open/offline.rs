//! A data directory without a service: what an operator asks of it, and does to it.
//!
//! Takes the directory's lock, so that no service runs on it meanwhile. Everything but
//! [`Stopped::repair`] and [`restore`] only reads.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use crate::engine::answers::SnapshotInfo;
use crate::engine::background::snapshots;
use crate::engine::background::snapshots::Snapshots;
use crate::engine::directory_file;
use crate::engine::directory_file::{DirectoryFile, RESTORE_MARKER};
use crate::engine::error::OpenError;
use crate::engine::open::repair;
pub use crate::engine::open::repair::Plan;
use crate::storage::export::{ExportFile, Exported, check_files, read_export, write_export};
use crate::storage::journal::salvage;
pub use crate::storage::journal::salvage::Finding;
use crate::storage::{
    Damage, DirectoryLock, Disk, DiskFile, RealDisk, StorageError, holds_records,
};

/// Earlier builds locked a file of this name.
const LOCK_OF_EARLIER_BUILDS: &str = "lock";

/// A data directory that no service uses.
#[derive(Debug)]
pub struct Stopped {
    disk: Arc<dyn Disk>,
    directory: DirectoryFile,
    _lock: DirectoryLock,
}

/// A snapshot as it lies on the disk.
#[derive(Debug)]
pub struct SnapshotFound {
    /// The name of its manifest.
    pub name: String,
    /// What it says, or why it cannot be read.
    pub manifest: Result<SnapshotInfo, StorageError>,
    /// Its files and their bytes; empty where the manifest cannot be read.
    pub files: Vec<(String, u64)>,
}

impl Stopped {
    /// Takes a directory that is there.
    ///
    /// # Errors
    /// [`OpenError`]; [`StorageError::Locked`] while a service runs on it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        if !path.is_dir() {
            let what = format!("{} is no directory", path.display());
            return Err(OpenError::System { what });
        }
        let lock = DirectoryLock::acquire(path)?;
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(path)?);
        let directory = DirectoryFile::read(&*disk)?.ok_or(OpenError::NoDirectoryFile)?;
        if !disk.list()?.iter().any(|name| holds_records(name)) {
            return Err(OpenError::NoRecords);
        }
        Ok(Self { disk, directory, _lock: lock })
    }

    /// The snapshots, newest first; their manifests are read.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn snapshots(&self) -> Result<Vec<SnapshotFound>, StorageError> {
        let mut names = self.disk.list()?;
        names.retain(|name| snapshots::is_manifest(name));
        let found = names.into_iter().rev().map(|name| {
            match snapshots::read_manifest_of(&*self.disk, &self.directory, &name) {
                Ok((info, files)) => SnapshotFound { name, manifest: Ok(info), files },
                Err(error) => SnapshotFound { name, manifest: Err(error), files: Vec::new() },
            }
        });
        Ok(found.collect())
    }

    /// Reads a snapshot whole and verifies all of it.
    ///
    /// # Errors
    /// [`StorageError`] says what is wrong with it.
    pub fn verify_snapshot(&self, name: &str) -> Result<(), StorageError> {
        Snapshots::verify(Arc::clone(&self.disk), self.directory, name)
    }

    /// Every file of the journal, read whole and verified. `progress` is told how many bytes.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn journal(&self, progress: &mut dyn FnMut(u64)) -> Result<Vec<Finding>, StorageError> {
        let durable_upto = repair::durable_upto(&*self.disk, &self.directory)?;
        salvage::examine(&*self.disk, &self.directory.identity, durable_upto, progress)
    }

    /// The bytes of all files.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn bytes(&self) -> Result<u64, StorageError> {
        self.export_files()?.iter().map(|file| Ok(file.bytes)).sum()
    }

    /// Writes all files into one.
    ///
    /// # Errors
    /// Of the sink and the disk; [`StorageError::Missing`] where a record file is not there.
    pub fn export(&self, sink: &mut dyn Write) -> std::io::Result<Exported> {
        let (identity, files) = (self.directory.identity, self.export_files()?);
        self.check_snapshots()?;
        check_files(&files, &identity)?;
        write_export(sink, identity, &files)
    }

    /// Finds out what a repair would do.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn plan_repair(&self, progress: &mut dyn FnMut(u64)) -> Result<Plan, StorageError> {
        repair::plan(&self.disk, &self.directory, progress)
    }

    /// Does it; see [`crate::engine::open::repair`].
    ///
    /// # Errors
    /// [`StorageError::Io`]; it can be begun again.
    pub fn repair(&self, plan: &Plan) -> Result<(), StorageError> {
        repair::carry_out(&self.disk, &self.directory, plan)
    }

    /// Checks that each manifest can be read, and that its files are there.
    fn check_snapshots(&self) -> std::io::Result<()> {
        for SnapshotFound { name, manifest, files } in self.snapshots()? {
            let cannot = |error: StorageError| {
                let what = format!(
                    "{name} is not whole: {error}; next: put it aside, which loses no record \
                     (nearprint repair)"
                );
                std::io::Error::new(std::io::ErrorKind::InvalidData, what)
            };
            manifest.map_err(cannot)?;
            for (file, bytes) in files {
                let length = self.disk.open(&file).and_then(|file| file.len()).map_err(cannot)?;
                if length != bytes {
                    let (offset, why) = (length, Damage::Trailer);
                    return Err(cannot(StorageError::DamagedSealed { file, offset, why }));
                }
            }
        }
        Ok(())
    }

    /// The file `directory` comes last: without it nothing that was half restored is opened.
    fn export_files(&self) -> Result<Vec<ExportFile>, StorageError> {
        let mut files = Vec::new();
        let mut names = self.disk.list()?;
        names.retain(|name| snapshots::is_exported(name));
        names.sort_by_key(|name| name == directory_file::NAME);
        for name in names {
            let file: Arc<dyn DiskFile> = Arc::from(self.disk.open(&name)?);
            let bytes = file.len()?;
            files.push(ExportFile { name, file, bytes });
        }
        Ok(files)
    }
}

/// Restores an export into a directory that is empty or not there.
///
/// # Errors
/// [`OpenError::System`] where it is not empty; of the source and the disk.
pub fn restore(source: &mut dyn Read, path: &Path) -> Result<Exported, OpenError> {
    let disk = RealDisk::open(path)?;
    let _lock = DirectoryLock::acquire(path)?;
    if disk.list()?.iter().any(|name| name != LOCK_OF_EARLIER_BUILDS) {
        let what = format!("{} is not empty; nothing was restored", path.display());
        return Err(OpenError::System { what });
    }
    drop(disk.create(RESTORE_MARKER)?);
    disk.sync_directory()?;
    match read_export(source, Some(&disk)) {
        Ok(restored) => {
            disk.remove(RESTORE_MARKER)?;
            disk.sync_directory()?;
            Ok(restored)
        }
        Err(error) => {
            for name in disk.list()? {
                disk.remove(&name)?;
            }
            Err(StorageError::from_io(error, "restore", "the export").into())
        }
    }
}

/// Reads an export and verifies all of it.
///
/// # Errors
/// Of the source; [`std::io::ErrorKind::InvalidData`] where it is not whole.
pub fn verify_export(source: &mut dyn Read) -> std::io::Result<Exported> {
    read_export(source, None)
}

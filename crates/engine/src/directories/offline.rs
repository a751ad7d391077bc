//! A data directory without a service, for the commands that inspect, verify, export, restore and
//! repair.
//!
//! Takes the directory's lock, so that no service starts on it meanwhile. Everything except
//! [`OfflineDirectory::repair`], [`OfflineDirectory::reindex`] and [`restore`] only reads, also
//! where this process may not write.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nearprint_fingerprint::Distance;
use nearprint_fingerprint::recipe::{Recipe, UnknownRecipe};
use nearprint_index::view::Counts;
use nearprint_storage::export::{Exported, check_files, read_export, write_export};
use nearprint_storage::journal::salvage;
pub use nearprint_storage::journal::salvage::Finding;
use nearprint_storage::{
    Damage, DirectoryLock, Disk, ExportFile, ReadingDisk, RealDisk, StorageError, holds_records,
};

use crate::api::clock;
use crate::api::error::OpenError;
use crate::api::options::Options;
use crate::api::replies::SnapshotInfo;
use crate::directories::reindex::reindex;
use crate::directories::repair;
pub(crate) use crate::directories::repair::RepairPlan;
use crate::directory_file::{self, DirectoryFile, RESTORE_MARKER};
use crate::snapshot::manifest::{is_exported, is_manifest, read_manifest_of};
use crate::snapshot::snapshots::{Snapshots, open_to_export};

/// Earlier builds locked a file of this name.
pub(crate) const LOCK_OF_EARLIER_BUILDS: &str = "lock";

/// A data directory that no service uses.
#[derive(Debug)]
pub struct OfflineDirectory {
    disk: Arc<dyn Disk>,
    directory: DirectoryFile,
    path: PathBuf,
    /// For reading, until something is to be changed.
    lock: Mutex<Option<DirectoryLock>>,
}

/// A snapshot on the disk.
#[derive(Debug)]
pub struct SnapshotFound {
    /// The name of its manifest.
    pub name: String,
    /// The snapshot, or why its manifest cannot be read.
    pub manifest: Result<SnapshotInfo, StorageError>,
    /// Its files and their bytes; empty if the manifest cannot be read.
    pub files: Vec<(String, u64)>,
}

impl OfflineDirectory {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// [`OpenError`]; [`StorageError::Locked`] if a service runs on it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        if !path.is_dir() {
            let what = format!("{} is not a directory", path.display());
            return Err(OpenError::System { what });
        }
        let lock = DirectoryLock::acquire_to_read(path)?;
        let disk: Arc<dyn Disk> = Arc::new(ReadingDisk::open(path)?);
        let directory = DirectoryFile::read(&*disk)?.ok_or(OpenError::NoDirectoryFile)?;
        if !disk.list()?.iter().any(|name| holds_records(name)) {
            return Err(OpenError::NoRecords);
        }
        let (path, lock) = (path.to_path_buf(), Mutex::new(Some(lock)));
        Ok(Self { disk, directory, path, lock })
    }

    /// The same directory to be changed. From now on nobody else reads it.
    fn to_change(&self) -> Result<Arc<dyn Disk>, StorageError> {
        RealDisk::check_writable(&self.path)?;
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(lock.take());
        *lock = Some(DirectoryLock::acquire(&self.path)?);
        Ok(Arc::new(RealDisk::open(&self.path)?))
    }

    /// Reads the manifests of the snapshots, newest first.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn snapshots(&self) -> Result<Vec<SnapshotFound>, StorageError> {
        let mut names = self.disk.list()?;
        names.retain(|name| is_manifest(name));
        let found = names.into_iter().rev().map(|name| {
            match read_manifest_of(&*self.disk, &self.directory, &name) {
                Ok((info, files)) => SnapshotFound { name, manifest: Ok(info), files },
                Err(error) => SnapshotFound { name, manifest: Err(error), files: Vec::new() },
            }
        });
        Ok(found.collect())
    }

    /// Reads and verifies all of a snapshot.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read or is damaged.
    pub fn verify_snapshot(&self, name: &str) -> Result<(), StorageError> {
        Snapshots::verify(Arc::clone(&self.disk), self.directory, name)
    }

    /// Reads and verifies every file of the journal. `progress` receives the bytes read.
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
    /// Those of the sink and the disk; [`StorageError::Missing`] if a record file is missing.
    pub fn export(&self, sink: &mut dyn Write) -> std::io::Result<Exported> {
        let (identity, files) = (self.directory.identity, self.export_files()?);
        self.check_snapshots()?;
        check_files(&files, &identity)?;
        write_export(sink, identity, &files)
    }

    /// Plans a repair.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn plan_repair(&self, progress: &mut dyn FnMut(u64)) -> Result<RepairPlan, StorageError> {
        repair::plan(&self.disk, &self.directory, progress)
    }

    /// Carries out a repair; see [`crate::directories::repair`].
    ///
    /// # Errors
    /// [`StorageError::Io`]; it can be run again.
    pub fn repair(&self, plan: &RepairPlan) -> Result<(), StorageError> {
        repair::carry_out(&self.to_change()?, &self.directory, plan)
    }

    /// The maximum distance of a look-up.
    pub fn distance_max(&self) -> Distance {
        self.directory.distance_max
    }

    /// The bytes of the files with records.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn record_bytes(&self) -> Result<u64, StorageError> {
        let mut names = self.disk.list()?;
        names.retain(|name| holds_records(name));
        names.iter().map(|name| self.disk.open(name)?.len()).sum()
    }

    /// Whether its texts are also found by their labels.
    pub fn has_labels(&self) -> bool {
        self.directory.has_labels
    }

    /// Rebuilds the index for another maximum distance, with or without labels; see
    /// [`crate::directories::reindex`].
    /// `progress` receives the bytes of records read.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is lost, and it can be run again.
    pub fn reindex(
        &self,
        (distance_max, has_labels): (Distance, bool),
        progress: &mut dyn FnMut(u64),
    ) -> Result<Counts, OpenError> {
        let recipe = self.directory.identity.recipe();
        let recipe = recipe.parse::<Recipe>().map_err(|unknown: UnknownRecipe| {
            let what = format!("the recipe {recipe} of the data directory is unknown: {unknown}");
            OpenError::System { what }
        })?;
        let options = Options { distance_max, has_labels, ..Options::new("", recipe) };
        reindex(&self.to_change()?, &self.directory, &options, clock::now_ms(), progress)
    }

    /// Checks that each manifest can be read, and that its files exist.
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

    /// The file `directory` comes last, because without it a half-restored directory does not open.
    fn export_files(&self) -> Result<Vec<ExportFile>, StorageError> {
        let mut names = self.disk.list()?;
        names.retain(|name| is_exported(name));
        names.sort_by_key(|name| name == directory_file::NAME);
        names.into_iter().map(|name| open_to_export(&*self.disk, name)).collect()
    }
}

/// Restores an export into a directory that is empty or does not exist.
///
/// # Errors
/// [`OpenError::System`] if it is not empty; those of the source and the disk.
pub fn restore(source: &mut dyn Read, path: &Path) -> Result<Exported, OpenError> {
    let disk = RealDisk::open(path)?;
    let _lock = DirectoryLock::acquire(path)?;
    if !is_empty(&disk.list()?) {
        let what = format!("{} is not empty; nothing was restored", path.display());
        return Err(OpenError::System { what });
    }
    restore_on(source, &disk, &[LOCK_OF_EARLIER_BUILDS])
}

/// Replaces everything on a disk by an export, except for what is to be kept. After a crash at any
/// point the disk has [`RESTORE_MARKER`], or nothing else than what is to be kept.
///
/// # Errors
/// Those of the source and the disk; then only what is to be kept is left.
pub(crate) fn refill(
    source: &mut dyn Read,
    disk: &dyn Disk,
    kept: &[&str],
) -> Result<Exported, OpenError> {
    mark_unfinished(disk)?;
    // Without this file the rest is nothing that opens.
    disk.remove_if_present(directory_file::NAME)?;
    disk.sync_directory()?;
    let kept_while_restoring = [kept, &[RESTORE_MARKER]].concat();
    remove_all(disk, &kept_while_restoring)?;
    restore_on(source, disk, kept)
}

/// Restores an export on a disk that has nothing else than what is to be kept.
///
/// # Errors
/// Those of the source and the disk; then only what is to be kept is left.
pub(crate) fn restore_on(
    source: &mut dyn Read,
    disk: &dyn Disk,
    kept: &[&str],
) -> Result<Exported, OpenError> {
    mark_unfinished(disk)?;
    match read_export(source, Some(disk)) {
        Ok(restored) => {
            disk.remove(RESTORE_MARKER)?;
            disk.sync_directory()?;
            Ok(restored)
        }
        Err(error) => {
            let kept_while_removing = [kept, &[RESTORE_MARKER]].concat();
            remove_all(disk, &kept_while_removing)?;
            disk.remove(RESTORE_MARKER)?;
            Err(StorageError::from_io(error, "restore", "the export").into())
        }
    }
}

/// Whether a directory with these files has nothing.
pub(crate) fn is_empty(names: &[String]) -> bool {
    names.iter().all(|name| name == LOCK_OF_EARLIER_BUILDS)
}

/// Says that what the disk has is not whole.
fn mark_unfinished(disk: &dyn Disk) -> Result<(), StorageError> {
    if !disk.list()?.iter().any(|name| name == RESTORE_MARKER) {
        drop(disk.create(RESTORE_MARKER)?);
    }
    disk.sync_directory()
}

/// Removes everything but what is to be kept.
pub(crate) fn remove_all(disk: &dyn Disk, kept: &[&str]) -> Result<(), StorageError> {
    let names = disk.list()?;
    let mut others = names.iter().filter(|name| !kept.contains(&name.as_str()));
    others.try_for_each(|name| disk.remove(name))
}

/// Reads an export and verifies all of it.
///
/// # Errors
/// Those of the source; [`std::io::ErrorKind::InvalidData`] if it is not complete.
pub fn verify_export(source: &mut dyn Read) -> std::io::Result<Exported> {
    read_export(source, None)
}

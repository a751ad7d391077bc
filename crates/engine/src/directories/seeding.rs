//! How the data directory of a node begins: with the export of another node.
//!
//! Who has a position in the log, the file `cluster`, came to it by enacting the log from the
//! position of the export on. So the service never writes that file itself.

use std::io::Read;
use std::path::Path;

use nearprint_storage::export::Exported;
use nearprint_storage::{DirectoryLock, Disk as _, RealDisk};

use crate::api::error::OpenError;
use crate::directories::follower;
use crate::directories::offline::{LOCK_OF_EARLIER_BUILDS, is_empty, refill, remove_all};
use crate::directory_file::RESTORE_MARKER;
use crate::replication::position;

/// Whether the directory at a path must be seeded before it can be that of a node: it is missing or
/// empty, or an earlier attempt was interrupted.
///
/// # Errors
/// [`OpenError::NotANode`] if it has documents of its own.
pub fn needs_seed(path: &Path) -> Result<bool, OpenError> {
    if !path.exists() {
        return Ok(true);
    }
    is_unfilled(&RealDisk::open(path)?.list()?)
}

fn is_unfilled(names: &[String]) -> Result<bool, OpenError> {
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    if is_empty(names) {
        Ok(true)
    } else if has(follower::MARK) || !(has(RESTORE_MARKER) || has(position::NAME)) {
        Err(OpenError::NotANode)
    } else {
        Ok(has(RESTORE_MARKER))
    }
}

/// Makes a directory that of a node with the content of another, whose export the source has.
/// Empties it first if it is that of a node already.
///
/// After a crash at any point, [`needs_seed`] says that it has to begin again.
///
/// # Errors
/// [`OpenError::NotANode`] if it has documents of its own; [`OpenError::SeedIsNoNode`] if the
/// export is not that of a node, and then the directory is empty; those of the source and the disk.
pub fn seed(source: &mut dyn Read, path: &Path) -> Result<Exported, OpenError> {
    let disk = RealDisk::open(path)?;
    let _lock = DirectoryLock::acquire(path)?;
    is_unfilled(&disk.list()?)?;
    let copied = refill(source, &disk, &[LOCK_OF_EARLIER_BUILDS])?;
    if disk.list()?.iter().any(|name| name == position::NAME) {
        return Ok(copied);
    }
    remove_all(&disk, &[LOCK_OF_EARLIER_BUILDS])?;
    Err(OpenError::SeedIsNoNode)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the directories of a test")]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::sync::Arc;

    use nearprint_storage::export::write_export;
    use nearprint_storage::{Disk, DiskFile, ExportFile};
    use tempfile::TempDir;

    use super::*;
    use crate::api::options::Options;
    use crate::directory_file::{self, DirectoryFile};
    use crate::handle::Engine;
    use crate::replication::position::ClusterFile;

    /// The export of a directory with these files in addition to its own.
    fn export(more: &[&str]) -> Vec<u8> {
        let folder = TempDir::new().unwrap();
        Engine::open(Options::new(folder.path(), "np2".parse().unwrap())).unwrap().close();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(folder.path()).unwrap());
        let identity = DirectoryFile::read(&*disk).unwrap().unwrap().identity;
        if more.contains(&position::NAME) {
            ClusterFile::new(7, 1).write(&disk, identity).unwrap();
        }
        let mut names = disk.list().unwrap();
        names.sort_by_key(|name| name == directory_file::NAME);
        let files = names.into_iter().map(|name| {
            let file: Arc<dyn DiskFile> = disk.open(&name).unwrap().into();
            let bytes = file.len().unwrap();
            ExportFile { name, file, bytes }
        });
        let mut bytes = Vec::new();
        write_export(&mut bytes, identity, &files.collect::<Vec<_>>()).unwrap();
        bytes
    }

    fn with(names: &[&str]) -> (TempDir, PathBuf) {
        let folder = TempDir::new().unwrap();
        for name in names {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let path = folder.path().to_owned();
        (folder, path)
    }

    fn names(path: &Path) -> Vec<String> {
        RealDisk::open(path).unwrap().list().unwrap()
    }

    #[test]
    fn what_has_nothing_whole_needs_a_seed_and_documents_of_its_own_are_refused() {
        assert!(needs_seed(Path::new("/nowhere/at/all")).unwrap());
        let whole = [position::NAME, directory_file::NAME];
        let cases: [(&[&str], Option<bool>); 6] = [
            (&[], Some(true)),
            (&["lock"], Some(true)),
            (&whole, Some(false)),
            (&["cluster", "directory", RESTORE_MARKER], Some(true)),
            (&[directory_file::NAME], None),
            (&[follower::MARK, RESTORE_MARKER], None),
        ];
        for (names, expected) in cases {
            let (_folder, path) = with(names);
            match (needs_seed(&path), expected) {
                (Ok(needs), Some(expected)) => assert_eq!(needs, expected, "{names:?}"),
                (Err(OpenError::NotANode), None) => {
                    let source = &mut &export(&[position::NAME])[..];
                    let refused = seed(source, &path).unwrap_err();
                    assert!(matches!(refused, OpenError::NotANode), "{refused}");
                }
                (other, _) => panic!("{names:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn the_export_of_a_node_replaces_everything() {
        let export = export(&[position::NAME]);
        let interrupted = [RESTORE_MARKER, "segment-1"];
        for old in [&[][..], &interrupted, &[position::NAME, directory_file::NAME, "old"]] {
            let (_folder, path) = with(old);
            seed(&mut &export[..], &path).unwrap();
            let names = names(&path);
            assert!(names.iter().any(|name| name == position::NAME), "{names:?}");
            assert!(
                !names.iter().any(|name| old.contains(&name.as_str())
                    && fs::read(path.join(name)).unwrap().is_empty()),
                "{names:?}"
            );
            assert!(!needs_seed(&path).unwrap());
        }
    }

    #[test]
    fn a_cut_export_and_that_of_a_lone_service_leave_an_empty_directory() {
        let whole = export(&[position::NAME]);
        let (_folder, path) = with(&[position::NAME, directory_file::NAME]);
        seed(&mut &whole[..whole.len() - 1], &path).unwrap_err();
        assert!(is_empty(&names(&path)) && needs_seed(&path).unwrap());
        let refused = seed(&mut &export(&[])[..], &path).unwrap_err();
        assert!(matches!(refused, OpenError::SeedIsNoNode), "{refused}");
        assert!(is_empty(&names(&path)) && needs_seed(&path).unwrap());
    }
}

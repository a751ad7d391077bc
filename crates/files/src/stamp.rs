//! Tells whether a file or a folder has changed since it was read.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use walkdir::WalkDir;
use xxhash_rust::xxh3::Xxh3;

/// The names of files, their sizes and the times of their last changes, as one hash. Equal stamps:
/// the same files, as far as a file system tells without reading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(pub u128);

impl Stamp {
    /// Of a file, or of everything below a folder. Reads the metadata of each file.
    ///
    /// # Errors
    /// The metadata of a file cannot be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut hash = Xxh3::new();
        for file in WalkDir::new(path).follow_root_links(true).sort_by_file_name() {
            let file = file?;
            let metadata = if file.depth() == 0 { path.metadata()? } else { file.metadata()? };
            if metadata.is_dir() {
                continue;
            }
            let changed = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            hash.update(file.path().as_os_str().as_bytes());
            hash.update(&metadata.len().to_le_bytes());
            hash.update(&changed.as_nanos().to_le_bytes());
        }
        Ok(Self(hash.digest128()))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay out their own files")]

    use std::fs;

    use super::*;

    #[test]
    fn a_stamp_changes_with_the_size_the_time_and_the_files_of_a_folder() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::write(at("a"), "one").unwrap();
        let (file, folder) = (Stamp::of(&at("a")).unwrap(), Stamp::of(root.path()).unwrap());
        assert_eq!(Stamp::of(&at("a")).unwrap(), file);

        fs::File::options().write(true).open(at("a")).unwrap().set_modified(UNIX_EPOCH).unwrap();
        let older = Stamp::of(&at("a")).unwrap();
        assert_ne!(older, file);
        fs::write(at("b"), "").unwrap();
        assert_ne!(Stamp::of(root.path()).unwrap(), folder);
        assert_eq!(Stamp::of(&at("a")).unwrap(), older);
        assert!(Stamp::of(&at("missing")).is_err());
    }
}

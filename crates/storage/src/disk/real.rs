//! The disk of the operating system.
//!
//! Continues short and interrupted reads and writes. Errors have the full path. Each open file
//! costs one descriptor, the directory another.

#![expect(
    clippy::disallowed_methods,
    reason = "everything else accesses the data directory through this module"
)]

use std::fs::{self, File, OpenOptions};
use std::io;
#[cfg(target_os = "linux")]
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FallocateFlags, OFlags, StatVfsMountFlags, access, fallocate, fstatvfs};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
#[cfg(target_os = "linux")]
use rustix::{
    fs::{Advice, fadvise},
    io::ReadWriteFlags,
};

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

/// A directory of the operating system.
#[derive(Debug)]
pub struct RealDisk {
    path: PathBuf,
    directory: File,
}

impl RealDisk {
    /// Opens a directory. Creates it durably if it does not exist.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        create_durably(path)?;
        Self::open_existing(path)
    }

    /// Opens an existing directory.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub(crate) fn open_existing(path: &Path) -> Result<Self, StorageError> {
        let directory = File::open(path).map_err(|source| failed("open", path, source))?;
        Ok(Self { path: path.to_path_buf(), directory })
    }

    /// Whether this process may create files in a directory.
    ///
    /// # Errors
    /// [`StorageError::Io`]: it may not, or there is no such directory.
    pub fn check_writable(path: &Path) -> Result<(), StorageError> {
        let allowed = Access::WRITE_OK | Access::EXEC_OK;
        access(path, allowed).map_err(|errno| failed("write to", path, errno.into()))
    }

    /// As [`Disk::open`], for reading only.
    ///
    /// # Errors
    /// As [`Disk::open`].
    pub(crate) fn open_to_read(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError> {
        self.open_existing_file(name, false)
    }

    fn open_existing_file(
        &self,
        name: &str,
        to_write: bool,
    ) -> Result<Box<dyn DiskFile>, StorageError> {
        let mut options = OpenOptions::new();
        // Refuses links, and does not wait for the other end of a pipe.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.read(true).write(to_write).custom_flags(flags.bits().cast_signed());
        self.open_with(&options, "open", name)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, name: &str) -> PathBuf {
        debug_assert!(!name.contains('/'), "names are flat: {name}");
        self.path.join(name)
    }

    fn open_with(
        &self,
        options: &OpenOptions,
        operation: &'static str,
        name: &str,
    ) -> Result<Box<dyn DiskFile>, StorageError> {
        let path = self.file(name);
        let opened = options.open(&path).and_then(|file| Ok((file.metadata()?.is_file(), file)));
        match opened {
            Ok((true, file)) => Ok(Box::new(RealFile { path, file })),
            Ok((false, _)) => Err(failed_or_no_file(operation, &path, Errno::INVAL.into())),
            Err(source) => Err(failed_or_no_file(operation, &path, source)),
        }
    }
}

impl Disk for RealDisk {
    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        self.open_with(&options, "create", name)
    }

    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError> {
        self.open_existing_file(name, true)
    }

    fn list(&self) -> Result<Vec<String>, StorageError> {
        let listing = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.path)? {
                let entry = entry?;
                // The service writes only UTF-8 names; `lost+found` belongs to the filesystem.
                match entry.file_name().into_string() {
                    Ok(name) if name != "lost+found" => names.push(name),
                    Ok(_) | Err(_) => {}
                }
            }
            names.sort_unstable();
            Ok(names)
        };
        listing().map_err(|source| failed("list", &self.path, source))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), StorageError> {
        let path = self.file(from);
        fs::rename(&path, self.file(to)).map_err(|source| failed("rename", &path, source))
    }

    fn remove(&self, name: &str) -> Result<(), StorageError> {
        let path = self.file(name);
        fs::remove_file(&path).map_err(|source| failed_or_no_file("remove", &path, source))
    }

    fn sync_directory(&self) -> Result<(), StorageError> {
        self.directory.sync_all().map_err(|source| failed("sync", &self.path, source))
    }

    fn fault(&self) -> Option<String> {
        let open = match self.directory.metadata() {
            Ok(open) => open,
            Err(error) => return Some(format!("it cannot be read: {error}")),
        };
        match fs::metadata(&self.path) {
            Ok(named) if (named.dev(), named.ino()) != (open.dev(), open.ino()) => {
                return Some("another directory is in its place".to_owned());
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Some("it was removed or moved away".to_owned());
            }
            Err(error) => return Some(format!("it cannot be read: {error}")),
        }
        match fstatvfs(&self.directory) {
            Ok(space) if space.f_flag.contains(StatVfsMountFlags::RDONLY) => {
                Some("its file system is read-only".to_owned())
            }
            Ok(_) => None,
            Err(errno) => Some(format!("its file system does not answer: {errno}")),
        }
    }

    /// Half of what this process may open: the rest is for snapshots and connections.
    fn record_files_max(&self) -> u64 {
        getrlimit(Resource::Nofile).current.map_or(u64::MAX, |files| files / 2)
    }

    fn free_bytes(&self) -> Result<u64, StorageError> {
        let space = fstatvfs(&self.directory)
            .map_err(|errno| failed("ask for the free space of", &self.path, errno.into()))?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }
}

#[derive(Debug)]
struct RealFile {
    path: PathBuf,
    file: File,
}

impl RealFile {
    fn named<T>(&self, operation: &'static str, result: io::Result<T>) -> Result<T, StorageError> {
        result.map_err(|source| failed(operation, &self.path, source))
    }
}

/// Fills a buffer from `offset` on, as far as there is something to read.
fn filled(
    offset: u64,
    buffer: &mut [u8],
    read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..)
        && !rest.is_empty()
    {
        match read(rest, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads what the page cache has. Fails where it has nothing, and on file systems that cannot tell.
#[cfg(target_os = "linux")]
fn read_from_cache(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut buffers = [io::IoSliceMut::new(buffer)];
    Ok(rustix::io::preadv2(file, &mut buffers, offset, ReadWriteFlags::NOWAIT)?)
}

#[cfg(not(target_os = "linux"))]
fn read_from_cache(_: &File, _: &mut [u8], _: u64) -> io::Result<usize> {
    Err(io::ErrorKind::WouldBlock.into())
}

impl DiskFile for RealFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), StorageError> {
        self.named("write", self.file.write_all_at(bytes, offset))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StorageError> {
        self.named("read", filled(offset, buffer, |rest, at| self.file.read_at(rest, at)))
    }

    fn read_in_memory(&self, offset: u64, buffer: &mut [u8]) -> Option<usize> {
        filled(offset, buffer, |rest, at| read_from_cache(&self.file, rest, at)).ok()
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        // Without it the bytes are read when they are asked for.
        #[cfg(target_os = "linux")]
        let _begun: Result<(), Errno> =
            fadvise(&self.file, offset, NonZeroU64::new(bytes), Advice::WillNeed);
        #[cfg(not(target_os = "linux"))]
        let _ = (offset, bytes);
    }

    fn sync_data(&self) -> Result<(), StorageError> {
        self.named("sync", self.file.sync_data())
    }

    fn truncate(&self, bytes: u64) -> Result<(), StorageError> {
        self.named("truncate", self.file.set_len(bytes))
    }

    fn len(&self) -> Result<u64, StorageError> {
        let metadata = self.file.metadata();
        self.named("ask for the length of", metadata.map(|metadata| metadata.len()))
    }

    fn reserve(&self, offset: u64, bytes: u64) -> Result<(), StorageError> {
        loop {
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, bytes) {
                Err(Errno::INTR) => {}
                // This filesystem cannot reserve space; the write itself will fail if it is full.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
                Err(errno) => return Err(failed("reserve space in", &self.path, errno.into())),
            }
        }
    }
}

fn failed(operation: &'static str, path: &Path, source: io::Error) -> StorageError {
    StorageError::Io { operation, path: path.to_path_buf(), source }
}

/// The error of an operation, or [`StorageError::NotAFile`] for a link or a folder.
fn failed_or_no_file(operation: &'static str, path: &Path, source: io::Error) -> StorageError {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            StorageError::NotAFile { path: path.to_path_buf(), what: name_of(metadata.file_type()) }
        }
        Ok(_) | Err(_) => failed(operation, path, source),
    }
}

fn name_of(kind: fs::FileType) -> &'static str {
    if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a pipe"
    } else {
        "a socket or a device"
    }
}

/// Creates the directory and its missing parents, each durable in its parent: if a power cut lost
/// the name of the data directory, every acknowledged write would be lost with it.
fn create_durably(path: &Path) -> Result<(), StorageError> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    create_durably(parent)?;
    match fs::create_dir(path) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed("create", path, source));
        }
        Ok(()) | Err(_) => {}
    }
    File::open(parent)
        .and_then(|directory| directory.sync_all())
        .map_err(|source| failed("sync", parent, source))
}

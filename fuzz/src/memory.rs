//! A disk in memory on which nothing fails.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use nearprint_storage::{Disk, DiskFile, StorageError};

/// The files by name. A clone is the same disk.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<BTreeMap<String, MemoryFile>>>);

#[derive(Debug, Clone, Default)]
struct MemoryFile(Arc<Mutex<Vec<u8>>>);

impl MemoryDisk {
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let file = MemoryFile(Arc::new(Mutex::new(bytes.to_vec())));
        self.files().insert(name.to_owned(), file);
    }

    /// The bytes of a file; none if there is no such file.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        self.files().get(name).map(|file| file.bytes().clone()).unwrap_or_default()
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, MemoryFile>> {
        self.0.lock().expect("no thread panics")
    }
}

impl MemoryFile {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().expect("no thread panics")
    }
}

fn missing(operation: &'static str, name: &str) -> StorageError {
    StorageError::Io { operation, path: name.into(), source: io::ErrorKind::NotFound.into() }
}

impl Disk for MemoryDisk {
    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError> {
        let mut files = self.files();
        if files.contains_key(name) {
            let source = io::ErrorKind::AlreadyExists.into();
            return Err(StorageError::Io { operation: "create", path: name.into(), source });
        }
        Ok(Box::new(files.entry(name.to_owned()).or_default().clone()))
    }

    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError> {
        let file = self.files().get(name).cloned();
        Ok(Box::new(file.ok_or_else(|| missing("open", name))?))
    }

    fn list(&self) -> Result<Vec<String>, StorageError> {
        Ok(self.files().keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), StorageError> {
        let mut files = self.files();
        let file = files.remove(from).ok_or_else(|| missing("rename", from))?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), StorageError> {
        self.files().remove(name).map(drop).ok_or_else(|| missing("remove", name))
    }

    fn sync_directory(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64, StorageError> {
        Ok(u64::MAX)
    }
}

impl DiskFile for MemoryFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), StorageError> {
        let mut file = self.bytes();
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        let length = file.len().max(end);
        file.resize(length, 0);
        file[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StorageError> {
        let file = self.bytes();
        let rest = &file[file.len().min(offset as usize)..];
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn read_in_memory(&self, offset: u64, buffer: &mut [u8]) -> Option<usize> {
        self.read_at(offset, buffer).ok()
    }

    fn sync_data(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> Result<(), StorageError> {
        self.bytes().resize(bytes as usize, 0);
        Ok(())
    }

    fn len(&self) -> Result<u64, StorageError> {
        Ok(self.bytes().len() as u64)
    }

    fn reserve(&self, _: u64, _: u64) -> Result<(), StorageError> {
        Ok(())
    }
}

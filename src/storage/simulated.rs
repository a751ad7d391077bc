//! A disk in memory that forgets what was not synced. For tests, of any crate.

use super::{Disk, DiskFile, StorageError};

/// The simulated disk; a cloneable handle.
#[derive(Debug, Clone)]
pub struct SimulatedDisk {}

impl SimulatedDisk {
    /// An empty disk without faults.
    pub fn new() -> Self {
        todo!()
    }

    /// The disk after a power cut: unsynced writes are kept, lost or torn by `seed`. All handles
    /// on this one fail from now on.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        todo!()
    }

    /// The disk after the process died: everything written is there, unsynced still.
    #[must_use]
    pub fn kill(&self) -> Self {
        todo!()
    }

    /// How many changing operations were tried.
    pub fn operations(&self) -> u64 {
        todo!()
    }
}

impl Default for SimulatedDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl Disk for SimulatedDisk {
    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError> {
        todo!()
    }
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError> {
        todo!()
    }
    fn list(&self) -> Result<Vec<String>, StorageError> {
        todo!()
    }
    fn rename(&self, from: &str, to: &str) -> Result<(), StorageError> {
        todo!()
    }
    fn remove(&self, name: &str) -> Result<(), StorageError> {
        todo!()
    }
    fn sync_directory(&self) -> Result<(), StorageError> {
        todo!()
    }
    fn free_bytes(&self) -> Result<u64, StorageError> {
        todo!()
    }
}

//! The identity of a data directory, and the header of a journal file.

/// To which directory and recipe a file belongs. Stands in the header of every file.
///
/// The directory id is random and not shown to clients: it seeds the checksums, so that bytes sent
/// by a client can never pass for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    directory: [u8; 16],
    recipe: [u8; 16],
}

impl Identity {
    /// The identity of a directory.
    ///
    /// # Panics
    /// When the recipe id is empty, longer than 16 bytes, or contains a zero byte.
    pub fn new(directory: [u8; 16], recipe: &str) -> Self {
        todo!()
    }
}

//! What the headers of all files have in common, and the identity of a data directory.
//!
//! ```text
//!   magic 8 | version 4 | kind 4 | directory id 16 | recipe id 16 | numbers 8 each | CRC32C 4
//! ```
//!
//! The CRC32C is verified before any field is used, and a file of another directory, recipe or
//! version is refused with that reason. All versions keep this form.

use xxhash_rust::xxh3::xxh3_64;

use super::error::FileRefusal;

const MAGIC_AT: usize = 0;
const VERSION_AT: usize = MAGIC_AT + 8;
pub(crate) const KIND_AT: usize = VERSION_AT + 4;
const DIRECTORY_AT: usize = KIND_AT + 4;
const RECIPE_AT: usize = DIRECTORY_AT + 16;
const NUMBERS_AT: usize = RECIPE_AT + 16;
const CRC_BYTES: usize = 4;

/// The length of a header with this many numbers.
pub(crate) const fn header_bytes(numbers: usize) -> usize {
    NUMBERS_AT + 8 * numbers + CRC_BYTES
}

/// The data directory and the recipe that a file belongs to.
///
/// The directory id is random and never shown to clients. It seeds the checksums, so that a client
/// cannot send bytes that pass for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    directory: [u8; 16],
    recipe: [u8; 16],
}

impl Identity {
    /// The identity of a directory.
    ///
    /// # Panics
    /// If the recipe id is empty, longer than 16 bytes, or contains a zero byte.
    pub fn new(directory: [u8; 16], recipe: &str) -> Self {
        let bytes = recipe.as_bytes();
        assert!(
            !bytes.is_empty() && bytes.len() <= 16 && !bytes.contains(&0),
            "a recipe id has 1 to 16 bytes, none of them zero: {recipe:?}"
        );
        let mut padded = [0; 16];
        for (to, from) in padded.iter_mut().zip(bytes) {
            *to = *from;
        }
        Self { directory, recipe: padded }
    }

    /// The random id of the directory.
    pub fn directory(&self) -> [u8; 16] {
        self.directory
    }

    /// The id of the recipe, with replacement characters for bytes that are not UTF-8.
    pub fn recipe(&self) -> String {
        let bytes = self.recipe.split(|byte| *byte == 0).next();
        String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
    }

    pub fn seed(&self) -> Seed {
        Seed(xxh3_64(&self.directory))
    }

    /// Refuses a file with another identity.
    pub(crate) fn accept(&self, other: &Self) -> Result<(), FileRefusal> {
        if other.directory != self.directory {
            return Err(FileRefusal::Directory);
        }
        if other.recipe != self.recipe {
            return Err(FileRefusal::Recipe { expected: self.recipe(), got: other.recipe() });
        }
        Ok(())
    }
}

/// The seed of all checksums of one directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

/// Why a header is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadHeader {
    /// Its bytes have changed since they were written.
    Damaged,
    /// It is intact, but the file is not for this program or directory.
    Refused(FileRefusal),
}

/// The magic bytes of one kind of file, and the version that is written and read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileFormat {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u32,
}

impl FileFormat {
    pub(crate) fn encode(&self, kind: u32, identity: &Identity, numbers: &[u64]) -> Vec<u8> {
        let mut out = Vec::with_capacity(header_bytes(numbers.len()));
        out.extend_from_slice(&self.magic);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&identity.directory);
        out.extend_from_slice(&identity.recipe);
        for number in numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
        // Without the seed: a file of another directory is to be refused as such, not as damage.
        append_crc(&mut out);
        out
    }

    /// Verifies checksum, magic and version of the header at the beginning of `bytes`, and returns
    /// its identity and numbers.
    pub(crate) fn decode<const NUMBERS: usize>(
        &self,
        bytes: &[u8],
    ) -> Result<(Identity, [u64; NUMBERS]), BadHeader> {
        let header = bytes.get(..header_bytes(NUMBERS)).filter(|header| has_crc(header));
        let header = header.ok_or(BadHeader::Damaged)?;
        self.check_magic(header).map_err(BadHeader::Refused)?;
        let directory = array_at(header, DIRECTORY_AT);
        let identity = Identity { directory, recipe: array_at(header, RECIPE_AT) };
        let (expected, got) = (self.version, u32_at(header, VERSION_AT));
        if got != expected {
            let recipe = identity.recipe();
            return Err(BadHeader::Refused(FileRefusal::Version { expected, got, recipe }));
        }
        Ok((identity, std::array::from_fn(|i| u64_at(header, NUMBERS_AT + 8 * i))))
    }

    pub(crate) fn check_magic(&self, bytes: &[u8]) -> Result<(), FileRefusal> {
        if array_at(bytes, MAGIC_AT) == self.magic { Ok(()) } else { Err(FileRefusal::Magic) }
    }
}

pub(crate) fn append_crc(bytes: &mut Vec<u8>) {
    let crc = crc32c::crc32c(bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
}

/// Whether the last four bytes are the CRC32C of those before.
pub(crate) fn has_crc(bytes: &[u8]) -> bool {
    bytes
        .split_last_chunk()
        .is_some_and(|(covered, crc)| crc32c::crc32c(covered).to_le_bytes() == *crc)
}

/// A field at a constant offset.
///
/// # Panics
/// If the field does not lie within the bytes.
pub(crate) fn array_at<const LEN: usize>(bytes: &[u8], at: usize) -> [u8; LEN] {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    *field.expect("the field lies within the bytes")
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

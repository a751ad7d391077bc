//! The identity of a data directory, and the header of a journal file.
//!
//! Knows nothing of frames. A header is read whole, its CRC32C is checked before a field is
//! looked at, and a file of another directory, recipe or version is refused by name. The first
//! [`JOURNAL_HEADER_BYTES`] bytes keep this form in every version.

use xxhash_rust::xxh3::xxh3_64;

use super::{Damage, Refusal, StorageError, file_number};

/// The version of the journal's format that is written and read.
pub const JOURNAL_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"\x89npjrnl\n";

const MAGIC_AT: usize = 0;
const VERSION_AT: usize = MAGIC_AT + 8;
const RESERVED_AT: usize = VERSION_AT + 4;
const DIRECTORY_AT: usize = RESERVED_AT + 4;
const RECIPE_AT: usize = DIRECTORY_AT + 16;
const FIRST_AT: usize = RECIPE_AT + 16;
const CHAIN_AT: usize = FIRST_AT + 8;
const CRC_AT: usize = CHAIN_AT + 8;
/// The length of a journal file's header.
pub const JOURNAL_HEADER_BYTES: usize = CRC_AT + 4;

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

    /// The id of the recipe; what is not UTF-8 is shown as such.
    pub fn recipe(&self) -> String {
        let bytes = self.recipe.split(|byte| *byte == 0).next();
        String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
    }

    /// What binds checksums to the directory.
    pub(crate) fn seed(&self) -> Seed {
        Seed(xxh3_64(&self.directory))
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.directory);
        out.extend_from_slice(&self.recipe);
    }

    /// The identity that [`Identity::put`] wrote at `at`.
    pub(crate) fn get<const N: usize>(bytes: &[u8; N], at: usize) -> Self {
        Self { directory: array_at(bytes, at), recipe: array_at(bytes, at + 16) }
    }

    /// Refuses a file of `other`.
    pub(crate) fn accept(&self, other: &Self) -> Result<(), Refusal> {
        if other.directory != self.directory {
            return Err(Refusal::Directory);
        }
        if other.recipe != self.recipe {
            return Err(Refusal::Recipe { expected: self.recipe(), got: other.recipe() });
        }
        Ok(())
    }
}

/// The seed of all checksums of one directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub(crate) u64);

/// What a journal file says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalHeader {
    pub(crate) identity: Identity,
    /// The sequence of the first change in the file.
    pub(crate) first: u64,
    /// The chain value of the last frame of the file before; 0 in the first file.
    pub(crate) chain: u64,
}

/// Why a journal file's header is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadHeader {
    /// Its bytes are not what was written.
    Damaged(Damage),
    /// It is intact but not for us.
    Refused(Refusal),
}

impl BadHeader {
    /// The error of the file that begins with sequence `first`.
    pub(crate) fn of(self, file: &str, sequence: u64) -> StorageError {
        let file = file.to_owned();
        match self {
            Self::Damaged(why) => StorageError::Damaged { file, offset: 0, sequence, why },
            Self::Refused(why) => StorageError::Refused { file, why },
        }
    }
}

impl JournalHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(JOURNAL_HEADER_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&JOURNAL_VERSION.to_le_bytes());
        out.extend_from_slice(&0_u32.to_le_bytes());
        self.identity.put(&mut out);
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.chain.to_le_bytes());
        // Without the seed: a foreign directory is to be called by its name, not damage.
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the header at the beginning of `bytes`.
    pub(crate) fn decode(bytes: &[u8], expected: &Identity) -> Result<Self, BadHeader> {
        let bytes: &[u8; JOURNAL_HEADER_BYTES] =
            bytes.first_chunk().ok_or(BadHeader::Damaged(Damage::FileHeader))?;
        check_crc(bytes, CRC_AT).map_err(BadHeader::Damaged)?;
        check_magic(bytes, MAGIC).map_err(BadHeader::Refused)?;
        check_version(bytes, JOURNAL_VERSION).map_err(BadHeader::Refused)?;
        let identity = Identity::get(bytes, DIRECTORY_AT);
        expected.accept(&identity).map_err(BadHeader::Refused)?;
        Ok(Self { identity, first: u64_at(bytes, FIRST_AT), chain: u64_at(bytes, CHAIN_AT) })
    }
}

/// The name of the journal file that begins with `first`.
pub(crate) fn journal_name(first: u64) -> String {
    format!("journal-{first:020}.log")
}

/// The first sequence in a journal file's name; `None` for every other file.
pub(crate) fn journal_first(name: &str) -> Option<u64> {
    file_number(name.strip_prefix("journal-")?.strip_suffix(".log")?)
}

pub(crate) fn check_crc<const N: usize>(bytes: &[u8; N], crc_at: usize) -> Result<(), Damage> {
    let covered = bytes.get(..crc_at).expect("the checksum lies in the header");
    if crc32c::crc32c(covered) == u32_at(bytes, crc_at) { Ok(()) } else { Err(Damage::FileHeader) }
}

pub(crate) fn check_magic<const N: usize>(bytes: &[u8; N], magic: [u8; 8]) -> Result<(), Refusal> {
    if array_at(bytes, MAGIC_AT) == magic { Ok(()) } else { Err(Refusal::Magic) }
}

pub(crate) fn check_version<const N: usize>(bytes: &[u8; N], expected: u32) -> Result<(), Refusal> {
    let got = u32_at(bytes, VERSION_AT);
    if got == expected { Ok(()) } else { Err(Refusal::Version { expected, got }) }
}

/// A field of a header; its place is a constant below the header's length.
pub(crate) fn array_at<const LEN: usize, const N: usize>(bytes: &[u8; N], at: usize) -> [u8; LEN] {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .copied()
        .expect("the field lies in the header")
}

pub(crate) fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u64_at<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

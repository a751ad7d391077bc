//! The headers of record files: journal files and packs.

use crate::storage::error::Damage;
use crate::storage::header::{BadHeader, Format, Identity, header_bytes, numbers};
use crate::storage::names::pack_name;

const JOURNAL: Format = Format { magic: *b"\x89npjrnl\n", version: 1 };
const PACK: Format = Format { magic: *b"\x89nppack\n", version: 1 };

/// The length of a journal file's header.
pub(crate) const JOURNAL_HEADER_BYTES: usize = header_bytes(2);
/// The length of a pack's header.
pub(crate) const PACK_HEADER_BYTES: usize = header_bytes(4);

/// The header of a journal file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalHeader {
    pub(crate) identity: Identity,
    /// The sequence of the first change in the file.
    pub(crate) first: u64,
    /// The chain value of the last frame in the file before; 0 in the first file.
    pub(crate) chain: u64,
}

impl JournalHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        JOURNAL.encode(0, &self.identity, &[self.first, self.chain])
    }

    /// Reads the header at the beginning of `bytes`.
    pub(crate) fn decode(bytes: &[u8], expected: &Identity) -> Result<Self, BadHeader> {
        let bytes = first_chunk::<JOURNAL_HEADER_BYTES>(bytes)?;
        let identity = JOURNAL.decode_of(bytes, expected)?;
        let [first, chain] = numbers(bytes);
        Ok(Self { identity, first, chain })
    }
}

/// The header of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackHeader {
    pub(crate) identity: Identity,
    /// The first sequence of its range.
    pub(crate) first: u64,
    /// The sequence after its range.
    pub(crate) next: u64,
    /// How many changes its records stand for.
    pub(crate) changes: u64,
    /// The chain value that the journal file after it begins with.
    pub(crate) chain: u64,
}

impl PackHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let numbers = [self.first, self.next, self.changes, self.chain];
        PACK.encode(0, &self.identity, &numbers)
    }

    /// Reads the header at the beginning of `bytes`.
    pub(crate) fn decode(bytes: &[u8], expected: &Identity) -> Result<Self, BadHeader> {
        let bytes = first_chunk::<PACK_HEADER_BYTES>(bytes)?;
        let identity = PACK.decode_of(bytes, expected)?;
        let [first, next, changes, chain] = numbers(bytes);
        Ok(Self { identity, first, next, changes, chain })
    }

    pub(crate) fn name(&self) -> String {
        pack_name(self.first, self.next)
    }
}

/// The header of either kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RecordHeader {
    Journal(JournalHeader),
    Pack(PackHeader),
}

impl RecordHeader {
    /// The first sequence of the file.
    pub(crate) fn first(&self) -> u64 {
        match self {
            Self::Journal(header) => header.first,
            Self::Pack(header) => header.first,
        }
    }

    /// The chain value that a journal file continues, or that the file after a pack continues.
    pub(crate) fn chain(&self) -> u64 {
        match self {
            Self::Journal(header) => header.chain,
            Self::Pack(header) => header.chain,
        }
    }

    /// Its length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Journal(_) => JOURNAL_HEADER_BYTES,
            Self::Pack(_) => PACK_HEADER_BYTES,
        }
    }
}

fn first_chunk<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], BadHeader> {
    bytes.first_chunk().ok_or(BadHeader::Damaged(Damage::FileHeader))
}

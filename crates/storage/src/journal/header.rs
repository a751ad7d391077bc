//! The header of a record file: a journal file or a pack.

use crate::disk::DiskFile;
use crate::error::{Damage, StorageError};
use crate::header::{BadHeader, FileFormat, Identity, header_bytes};
use crate::names::{journal_name, pack_name, record_range};

const JOURNAL: FileFormat = FileFormat { magic: *b"\x89npjrnl\n", version: 2 };
const PACK: FileFormat = FileFormat { magic: *b"\x89nppack\n", version: 2 };

/// The length of a journal file's header.
pub const JOURNAL_HEADER_BYTES: usize = header_bytes(2);
/// The length of a pack's header.
pub(crate) const PACK_HEADER_BYTES: usize = header_bytes(4);

const _: () = assert!(JOURNAL_HEADER_BYTES <= PACK_HEADER_BYTES, "one read covers either header");

/// The header of a journal file or a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) identity: Identity,
    /// The first sequence of the file's range.
    pub(crate) first: u64,
    /// The chain value that a journal file continues (0 in the first file), or that the file after
    /// a pack continues.
    pub(crate) chain: u64,
    /// `None` in a journal file.
    pub(crate) pack: Option<Pack>,
}

/// What only the header of a pack has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pack {
    /// The sequence after its range.
    pub(crate) next: u64,
    /// How many changes its records stand for.
    pub(crate) changes: u64,
}

impl RecordHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self { identity, first, chain, pack } = *self;
        match pack {
            Some(Pack { next, changes }) => {
                PACK.encode(0, &identity, &[first, next, changes, chain])
            }
            None => JOURNAL.encode(0, &identity, &[first, chain]),
        }
    }

    /// Reads and verifies the header of the file with this name.
    pub(crate) fn read(
        name: &str,
        file: &dyn DiskFile,
        expected: &Identity,
    ) -> Result<Self, StorageError> {
        let mut head = [0; PACK_HEADER_BYTES];
        let read = file.read_at(0, &mut head)?;
        Self::decode(name, head.get(..read).unwrap_or_default(), expected)
    }

    /// Verifies the header at the beginning of `head`, the first bytes of the file with this name.
    pub(crate) fn decode(
        name: &str,
        head: &[u8],
        expected: &Identity,
    ) -> Result<Self, StorageError> {
        let (first_in_name, next) = record_range(name).unwrap_or_default();
        let header = if next.is_some() {
            PACK.decode(head).map(|(identity, [first, next, changes, chain])| Self {
                identity,
                first,
                chain,
                pack: Some(Pack { next, changes }),
            })
        } else {
            let decoded = JOURNAL.decode(head);
            decoded.map(|(identity, [first, chain])| Self { identity, first, chain, pack: None })
        };
        let accepted = header.and_then(|header| {
            expected.accept(&header.identity).map_err(BadHeader::Refused)?;
            Ok(header)
        });
        accepted.map_err(|bad| match bad {
            BadHeader::Damaged => StorageError::damaged(name, 0, first_in_name, Damage::FileHeader),
            BadHeader::Refused(why) => StorageError::Refused { file: name.to_owned(), why },
        })
    }

    /// The name of the file.
    pub(crate) fn name(&self) -> String {
        match self.pack {
            Some(Pack { next, .. }) => pack_name(self.first, next),
            None => journal_name(self.first),
        }
    }

    /// Its length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        if self.pack.is_some() { PACK_HEADER_BYTES } else { JOURNAL_HEADER_BYTES }
    }
}

//! How the body of a sealed file lies in it, and the checksums of its blocks.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::header::{FileFormat, Seed, header_bytes};

/// The bytes of the body in one block.
pub const BLOCK_BYTES: usize = 64 << 10;

/// The length of a sealed file's header. In a file in pages, zeros follow to the end of the page.
pub const SEALED_HEADER_BYTES: usize = header_bytes(0);

/// The size of a page, with its checksum.
pub const PAGE_BYTES: usize = 4 << 10;

/// The bytes of the body in one page.
pub const PAGE_BODY_BYTES: usize = PAGE_BYTES - BLOCK_CHECKSUM_BYTES;

pub(super) const BLOCK_CHECKSUM_BYTES: usize = 8;

/// How the body of a sealed file lies in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLayout {
    /// Blocks of 64 KiB, to be read from the beginning to the end.
    Blocks,
    /// Blocks that fill pages of 4 KiB with their checksums, to be read at any place, too. The
    /// header has a page of its own. The checksums depend on the name of the file, so that a page
    /// of another file in the same place is noticed without reading the whole.
    Pages,
}

impl BodyLayout {
    pub(super) const fn format(self) -> FileFormat {
        let version = match self {
            Self::Blocks => 2,
            Self::Pages => 3,
        };
        FileFormat { magic: *b"\x89npseal\n", version }
    }

    /// The bytes of the body in one block.
    pub(super) const fn block_bytes(self) -> usize {
        match self {
            Self::Blocks => BLOCK_BYTES,
            Self::Pages => PAGE_BODY_BYTES,
        }
    }

    /// Where the body begins.
    pub(super) const fn header_bytes(self) -> usize {
        match self {
            Self::Blocks => SEALED_HEADER_BYTES,
            Self::Pages => PAGE_BYTES,
        }
    }

    /// The seed of the checksums of blocks.
    pub(super) fn block_seed(self, name: &str, seed: Seed) -> Seed {
        match self {
            Self::Blocks => seed,
            Self::Pages => Seed(xxh3_64_with_seed(name.as_bytes(), seed.0)),
        }
    }
}

/// The number of the block is part of the seed, so that blocks cannot be swapped.
pub(super) fn block_checksum(block: &[u8], number: u64, seed: Seed) -> u64 {
    xxh3_64_with_seed(block, seed.0 ^ number)
}

/// A block without its checksum, if that is right.
pub(super) fn verified(raw: &[u8], number: u64, seed: Seed) -> Option<&[u8]> {
    let (block, stored) = raw.split_last_chunk()?;
    (u64::from_le_bytes(*stored) == block_checksum(block, number, seed)).then_some(block)
}

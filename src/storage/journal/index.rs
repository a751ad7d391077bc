//! The sparse index of one journal file: where to begin looking for a sequence.
//!
//! One entry of 16 bytes for about each 4 KiB of the file. It is derived and can be rebuilt from
//! the frame headers; the writer extends that of the live file.

use crate::storage::header::{JOURNAL_HEADER_BYTES, Seed};
use crate::storage::journal::frame::{BadFrame, FRAME_HEADER_BYTES, FrameHeader, decode_header};
use crate::storage::journal::pack::PACK_HEADER_BYTES;
use crate::storage::journal::records::JournalFile;
use crate::storage::journal::window::Window;
use crate::storage::{Damage, StorageError};

/// The distance of two entries in bytes of the file, at least.
pub(crate) const STRIDE_BYTES: u64 = 4096;

/// How much of a file is read at a time when its index is built.
const BUILD_CHUNK_BYTES: usize = 256 << 10;

/// Sequences and offsets of some records of a file, both ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SparseIndex {
    entries: Vec<(u64, u64)>,
    /// The sequence after the last readable record.
    pub(crate) next: u64,
    /// Where the readable frames end, in bytes.
    pub(crate) end: u64,
}

impl SparseIndex {
    /// The index of a file without frames.
    pub(crate) fn new(first: u64) -> Self {
        Self { entries: Vec::new(), next: first, end: JOURNAL_HEADER_BYTES as u64 }
    }

    /// The index of a pack without frames.
    pub(crate) fn of_pack(first: u64) -> Self {
        Self { end: PACK_HEADER_BYTES as u64, ..Self::new(first) }
    }

    /// Takes up the frame that begins at the present end.
    pub(crate) fn push(&mut self, header: &FrameHeader) {
        let last = self.entries.last().map(|(_, offset)| *offset);
        if header.count > 0 && last.is_none_or(|last| self.end >= last.saturating_add(STRIDE_BYTES))
        {
            self.entries.push((header.sequence, self.end));
        }
        self.next = header.next_sequence();
        self.end = self.end.saturating_add(header.frame_bytes() as u64);
    }

    /// Where to begin hopping for `sequence`; `None` when the file does not reach it.
    pub(crate) fn locate(&self, sequence: u64) -> Option<u64> {
        if sequence >= self.next {
            return None;
        }
        let after = self.entries.partition_point(|(first, _)| *first <= sequence);
        let (_, offset) = self.entries.get(after.checked_sub(1)?)?;
        Some(*offset)
    }

    /// Builds the index of a closed file by hopping over its frame headers. The payloads are
    /// verified when they are read.
    ///
    /// Cost: one sequential read of the file's headers (of the whole file when records are small).
    pub(crate) fn build(file: &JournalFile, seed: Seed) -> Result<Self, StorageError> {
        let mut index = file.empty_index();
        let length = file.file.len()?;
        let mut window = Window::new(&*file.file, BUILD_CHUNK_BYTES);
        while index.end < length {
            let bytes = window.at(index.end, FRAME_HEADER_BYTES)?;
            let header = decode_header(bytes, seed)
                .map_err(Damage::Frame)
                .and_then(|header| index.check_next(file, &header, length).map(|()| header));
            match header {
                Ok(header) => index.push(&header),
                Err(why) => {
                    return Err(StorageError::Damaged {
                        file: file.name.clone(),
                        offset: index.end,
                        sequence: index.next,
                        why,
                    });
                }
            }
        }
        Ok(index)
    }

    fn check_next(
        &self,
        file: &JournalFile,
        header: &FrameHeader,
        length: u64,
    ) -> Result<(), Damage> {
        if !file.continues(self.next, header.sequence) {
            return Err(Damage::Chain);
        }
        if self.end.saturating_add(header.frame_bytes() as u64) > length {
            return Err(Damage::Frame(BadFrame::Short));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_stands_for_about_four_kibibytes_and_begins_before_its_sequences() {
        let mut index = SparseIndex::new(1);
        let mut offsets = vec![0];
        for sequence in 1..=1_000 {
            let header =
                FrameHeader { payload_bytes: 300, count: 1, sequence, chain: 0, durable_upto: 0 };
            offsets.push(index.end);
            index.push(&header);
        }
        assert!(index.entries.len() as u64 <= index.end / STRIDE_BYTES + 1);
        for (sequence, offset) in offsets.iter().enumerate().skip(1) {
            let start = index.locate(sequence as u64).unwrap();
            assert!(start <= *offset && offset - start < STRIDE_BYTES + 360);
        }
        assert_eq!(index.locate(1_001), None);
    }
}

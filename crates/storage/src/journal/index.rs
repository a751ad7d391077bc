//! The sparse index of one record file: from which frame on to search for a sequence.
//!
//! It has an entry of 16 bytes for about each 4 KiB of the file. It can be rebuilt from the frame
//! headers; the writer extends that of the live file.

use crate::frame::FrameHeader;
use crate::sizes::Sizes;

/// The least distance of two entries in bytes of the file.
pub(crate) const STRIDE_BYTES: u64 = 4096;

/// Sequences and offsets of some records of a file, both ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SparseIndex {
    entries: Vec<(u64, u64)>,
    /// The sequence after the last readable record.
    pub(crate) next: u64,
    /// Where the readable frames end, in bytes.
    pub(crate) end: u64,
    /// The sizes of the records.
    pub(crate) sizes: Sizes,
}

impl SparseIndex {
    /// The index of a file without frames, by its first sequence and the length of its header.
    pub(crate) fn new(first: u64, header_bytes: usize) -> Self {
        Self { entries: Vec::new(), next: first, end: header_bytes as u64, sizes: Sizes::default() }
    }

    /// Adds the frame that begins at `end`.
    pub(crate) fn push(&mut self, header: &FrameHeader) {
        let last = self.entries.last().map(|(_, offset)| *offset);
        let is_due = last.is_none_or(|last| self.end >= last.saturating_add(STRIDE_BYTES));
        if header.count > 0 && is_due {
            self.entries.push((header.sequence, self.end));
        }
        self.sizes.add(header.frame_bytes() as u64, u64::from(header.count));
        self.next = header.next_sequence();
        self.end = self.end.saturating_add(header.frame_bytes() as u64);
    }

    /// The offset of a frame at or shortly before that of `sequence`; `None` if no frame of the
    /// file can have it.
    pub(crate) fn locate(&self, sequence: u64) -> Option<u64> {
        if sequence >= self.next {
            return None;
        }
        let after = self.entries.partition_point(|(first, _)| *first <= sequence);
        let (_, offset) = self.entries.get(after.checked_sub(1)?)?;
        Some(*offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_stands_for_about_four_kibibytes_and_begins_before_its_sequences() {
        let mut index = SparseIndex::new(1, 60);
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

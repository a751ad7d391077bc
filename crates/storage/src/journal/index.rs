//! The sparse index of one record file: from which frame on to search for a sequence.
//!
//! It has an entry for about each 4 KiB of the file, in two levels: the first entry of each group
//! has its sequence and offset in full, the others are relative to it, in 4 bytes. So it takes a
//! thousandth of the file's size. It can be rebuilt from the frame headers; the writer
//! extends that of the live file.

use crate::frame::FrameHeader;
use crate::sizes::Sizes;

/// The least distance of two entries in bytes of the file.
pub(crate) const STRIDE_BYTES: u64 = 4096;

/// The low bits of an entry, for its offset: a group extends over up to 256 KiB of the file. The
/// other 14 are for its sequence.
const OFFSET_BITS: u32 = 18;

/// Sequences and offsets of some records of a file, both ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SparseIndex {
    groups: Vec<Group>,
    /// The entries of all groups but the first of each.
    entries: Vec<u32>,
    /// The sequence after the last readable record.
    pub(crate) next: u64,
    /// Where the readable frames end, in bytes.
    pub(crate) end: u64,
    /// The sizes of the records.
    pub(crate) sizes: Sizes,
}

/// The first entry of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    sequence: u64,
    offset: u64,
    /// How many of [`SparseIndex::entries`] come before those of the group.
    begin: u32,
}

impl Group {
    /// An entry of this group; `None` if it needs a new one.
    fn entry(&self, sequence: u64, offset: u64) -> Option<u32> {
        let (sequences, bytes) = (sequence - self.sequence, offset - self.offset);
        let fits = sequences >> (u32::BITS - OFFSET_BITS) == 0 && bytes >> OFFSET_BITS == 0;
        fits.then_some((sequences << OFFSET_BITS | bytes) as u32)
    }

    fn sequence_of(&self, entry: u32) -> u64 {
        self.sequence.saturating_add(u64::from(entry >> OFFSET_BITS))
    }

    fn offset_of(&self, entry: u32) -> u64 {
        self.offset.saturating_add(u64::from(entry & ((1 << OFFSET_BITS) - 1)))
    }
}

impl SparseIndex {
    /// The index of a file without frames, by its first sequence and the length of its header.
    pub(crate) fn new(first: u64, header_bytes: usize) -> Self {
        Self {
            groups: Vec::new(),
            entries: Vec::new(),
            next: first,
            end: header_bytes as u64,
            sizes: Sizes::default(),
        }
    }

    /// Adds the frame that begins at `end`.
    pub(crate) fn push(&mut self, header: &FrameHeader) {
        let is_due =
            self.last_offset().is_none_or(|last| self.end >= last.saturating_add(STRIDE_BYTES));
        if header.count > 0 && is_due {
            match self.groups.last().and_then(|group| group.entry(header.sequence, self.end)) {
                Some(entry) => self.entries.push(entry),
                None => self.groups.push(Group {
                    sequence: header.sequence,
                    offset: self.end,
                    begin: self.entries.len() as u32,
                }),
            }
        }
        self.sizes.add(header.frame_bytes() as u64, u64::from(header.count));
        self.next = header.next_sequence();
        self.end = self.end.saturating_add(header.frame_bytes() as u64);
    }

    /// Gives back the memory for further entries: the file is closed.
    pub(crate) fn shrink(&mut self) {
        self.groups.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    /// The offset of a frame at or shortly before that of `sequence`; `None` if no frame of the
    /// file can have it.
    pub(crate) fn locate(&self, sequence: u64) -> Option<u64> {
        if sequence >= self.next {
            return None;
        }
        let after = self.groups.partition_point(|group| group.sequence <= sequence);
        let number = after.checked_sub(1)?;
        let group = self.groups.get(number)?;
        let entries = self.entries_of(number);
        let upto = entries.partition_point(|entry| group.sequence_of(*entry) <= sequence);
        let entry = upto.checked_sub(1).and_then(|at| entries.get(at));
        Some(entry.map_or(group.offset, |entry| group.offset_of(*entry)))
    }

    /// Numbers of 8 bytes: `next`, `end`, how many groups and entries; the three of each group.
    /// Then the entries, 4 bytes each, and the sizes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let counts = [self.groups.len() as u64, self.entries.len() as u64];
        let groups = self.groups.iter();
        let groups = groups.flat_map(|group| [group.sequence, group.offset, group.begin.into()]);
        for number in [self.next, self.end].into_iter().chain(counts).chain(groups) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for entry in &self.entries {
            out.extend_from_slice(&entry.to_le_bytes());
        }
        self.sizes.encode(out);
    }

    /// What [`Self::encode`] has written; `None` for other bytes.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut number = || {
            let (number, rest) = bytes.split_first_chunk()?;
            bytes = rest;
            Some(u64::from_le_bytes(*number))
        };
        let (next, end, groups, entries) = (number()?, number()?, number()?, number()?);
        let mut group = || {
            let (sequence, offset) = (number()?, number()?);
            Some(Group { sequence, offset, begin: number()?.try_into().ok()? })
        };
        let groups = (0..groups).map(|_| group()).collect::<Option<Vec<_>>>()?;
        let entry_bytes = usize::try_from(entries).ok()?.checked_mul(size_of::<u32>())?;
        let (entries, mut rest) = bytes.split_at_checked(entry_bytes)?;
        let (entries, _) = entries.as_chunks();
        let entries = entries.iter().map(|entry| u32::from_le_bytes(*entry)).collect();
        let sizes = Sizes::decode(&mut rest).ok()?;
        let mut index = Self { groups, entries, next, end, sizes };
        index.shrink();
        rest.is_empty().then_some(index)
    }

    /// The entries of a group but its first.
    fn entries_of(&self, number: usize) -> &[u32] {
        let begin = |number: usize| self.groups.get(number).map(|group| group.begin as usize);
        let end = begin(number + 1).unwrap_or(self.entries.len());
        begin(number).and_then(|begin| self.entries.get(begin..end)).unwrap_or_default()
    }

    /// The offset of the last entry.
    fn last_offset(&self) -> Option<u64> {
        let number = self.groups.len().checked_sub(1)?;
        let group = self.groups.get(number)?;
        let entry = self.entries_of(number).last();
        Some(entry.map_or(group.offset, |entry| group.offset_of(*entry)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same index in one level, with all entries in full.
    struct Entries(Vec<(u64, u64)>);

    impl Entries {
        fn push(&mut self, header: &FrameHeader, begin: u64) {
            let last = self.0.last().map(|(_, offset)| *offset);
            if header.count > 0 && last.is_none_or(|last| begin >= last + STRIDE_BYTES) {
                self.0.push((header.sequence, begin));
            }
        }

        fn locate(&self, sequence: u64) -> Option<u64> {
            self.0.iter().rev().find(|(first, _)| *first <= sequence).map(|(_, offset)| *offset)
        }
    }

    fn header(payload_bytes: u32, count: u32, sequence: u64) -> FrameHeader {
        FrameHeader { payload_bytes, count, sequence, chain: 0, durable_upto: 0 }
    }

    fn bytes_of(index: &SparseIndex) -> usize {
        size_of_val(index.groups.as_slice()) + size_of_val(index.entries.as_slice())
    }

    /// A frame: the sequences that a pack lacks before it, its payload, its changes.
    fn frame() -> impl Strategy<Value = (u64, u32, u32)> {
        let lacking = prop_oneof![8 => Just(0), 2 => 0_u64..100, 1 => 0_u64..40_000];
        let payload = prop_oneof![8 => 0_u32..2_000, 2 => 0_u32..20_000, 1 => 0_u32..600_000];
        let count = prop_oneof![8 => Just(1), 2 => 1_u32..5_000, 1 => 1_u32..40_000];
        prop_oneof![9 => (lacking, payload, count), 1 => Just((0, 0, 0))]
    }

    proptest! {
        #[test]
        fn two_levels_locate_what_one_would(
            first in prop_oneof![Just(1), 1_u64 << 40..1 << 62],
            frames in proptest::collection::vec(frame(), 0..2_000),
        ) {
            let mut index = SparseIndex::new(first, 68);
            let mut expected = Entries(Vec::new());
            let mut asked = vec![0, first - 1, first];
            for (lacking, payload_bytes, count) in frames {
                let header = header(payload_bytes, count, index.next + lacking);
                expected.push(&header, index.end);
                index.push(&header);
                asked.extend([header.sequence.saturating_sub(1), header.sequence, index.next - 1]);
            }
            index.shrink();
            for sequence in asked.into_iter().filter(|sequence| *sequence < index.next) {
                prop_assert_eq!(index.locate(sequence), expected.locate(sequence));
            }
            prop_assert_eq!(index.locate(index.next), None);
            let mut bytes = Vec::new();
            index.encode(&mut bytes);
            prop_assert_eq!(SparseIndex::decode(&bytes[..bytes.len() - 1]), None);
            prop_assert_eq!(SparseIndex::decode(&bytes), Some(index));
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(
            numbers in proptest::collection::vec(prop_oneof![0_u64..9, any::<u64>()], 0..40),
        ) {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            if let Some(index) = SparseIndex::decode(&bytes) {
                index.locate(index.next / 2);
            }
        }
    }

    #[test]
    fn an_entry_stands_for_about_four_kibibytes_and_begins_before_its_sequences() {
        let mut index = SparseIndex::new(1, 60);
        let mut offsets = vec![0];
        for sequence in 1..=1_000 {
            offsets.push(index.end);
            index.push(&header(300, 1, sequence));
        }
        for (sequence, offset) in offsets.iter().enumerate().skip(1) {
            let start = index.locate(sequence as u64).unwrap();
            assert!(start <= *offset && offset - start < STRIDE_BYTES + 360);
        }
        assert_eq!(index.locate(1_001), None);
    }

    #[test]
    fn an_index_takes_about_a_thousandth_of_its_file() {
        // Records of 80 to 600 bytes, and a pack of every hundredth of them.
        for (payload_bytes, apart) in [(80, 1), (300, 1), (600, 1), (300, 100)] {
            let mut index = SparseIndex::new(1, 68);
            while index.end < 16 << 20 {
                index.push(&header(payload_bytes, 1, index.next + apart - 1));
            }
            assert!(bytes_of(&index) as u64 <= index.end / 750, "{payload_bytes} {apart}");
        }
    }
}

//! What the index keeps of one document: its sequence, and whether its record holds more.

use crate::document::Sequence;

/// A document under a fingerprint.
///
/// The sequence is its age and the key of its journal record. The flags tell without reading the
/// record whether there is an id to show or a sketch to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Posting {
    /// The change that stored the document.
    pub sequence: Sequence,
    /// Its record has an id.
    pub has_id: bool,
    /// Its record has a sketch.
    pub has_sketch: bool,
}

/// A list of postings, packed to six bytes each: 46 bits of sequence and the two flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Postings(Vec<[u8; 6]>);

/// The largest sequence that a posting can hold: 7e13.
pub const SEQUENCE_MAX: u64 = (1 << 46) - 1;

impl Postings {
    /// An empty list with room for `count`.
    pub fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    /// Appends one.
    pub fn push(&mut self, posting: Posting) {
        debug_assert!(posting.sequence.get() <= SEQUENCE_MAX, "46 bits outlast any disk");
        let packed = posting.sequence.get() << 2
            | u64::from(posting.has_sketch) << 1
            | u64::from(posting.has_id);
        let bytes = packed.to_le_bytes();
        self.0.push(*bytes.first_chunk().expect("six of eight bytes"));
    }

    /// The posting at `index`.
    ///
    /// # Panics
    /// When there is none.
    pub fn get(&self, index: usize) -> Posting {
        let mut bytes = [0; 8];
        bytes[..6].copy_from_slice(&self.0[index]);
        let packed = u64::from_le_bytes(bytes);
        Posting {
            sequence: Sequence::new(packed >> 2),
            has_id: packed & 1 == 1,
            has_sketch: packed & 2 == 2,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * 6
    }

    /// Gives back memory that is not used.
    pub fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }

    /// The packed form, for images.
    pub(crate) fn packed(&self) -> &[[u8; 6]] {
        &self.0
    }

    /// From the packed form.
    pub(crate) fn from_packed(packed: Vec<[u8; 6]>) -> Self {
        Self(packed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postings_come_back_as_they_went_in() {
        let mut postings = Postings::default();
        let mut expected = Vec::new();
        for sequence in [0, 1, 255, 1 << 40, SEQUENCE_MAX] {
            for (has_id, has_sketch) in [(false, false), (true, false), (false, true), (true, true)]
            {
                let posting = Posting { sequence: Sequence::new(sequence), has_id, has_sketch };
                postings.push(posting);
                expected.push(posting);
            }
        }
        let read: Vec<Posting> = (0..postings.len()).map(|i| postings.get(i)).collect();
        assert_eq!(read, expected);
    }
}

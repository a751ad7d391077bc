//! What the index keeps of one document: its sequence, and whether its record holds more.

use crate::document::Sequence;
use crate::index::array::Array;

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
#[derive(Debug, Default)]
pub struct Postings(Array<[u8; 6]>);

/// The largest sequence that a posting can hold: 7e13.
pub const SEQUENCE_MAX: u64 = (1 << 46) - 1;

impl Postings {
    /// Packs a list.
    pub fn pack(postings: &[PackedPosting]) -> Self {
        Self(Array::copied(postings))
    }

    /// Takes a packed list.
    pub fn from_packed(packed: Array<PackedPosting>) -> Self {
        Self(packed)
    }

    /// The posting at `index`.
    ///
    /// # Panics
    /// When there is none.
    pub fn get(&self, index: usize) -> Posting {
        Posting::unpack(self.0[index])
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
        self.0.bytes()
    }

    /// The packed form.
    pub fn packed(&self) -> &[PackedPosting] {
        &self.0
    }
}

/// A posting in six bytes.
pub type PackedPosting = [u8; 6];

impl Posting {
    /// Into six bytes.
    pub fn pack(self) -> PackedPosting {
        debug_assert!(self.sequence.get() <= SEQUENCE_MAX, "46 bits outlast any disk");
        let packed =
            self.sequence.get() << 2 | u64::from(self.has_sketch) << 1 | u64::from(self.has_id);
        *packed.to_le_bytes().first_chunk().expect("six of eight bytes")
    }

    /// From six bytes.
    pub fn unpack(packed: PackedPosting) -> Self {
        let mut bytes = [0; 8];
        bytes[..6].copy_from_slice(&packed);
        let packed = u64::from_le_bytes(bytes);
        Self {
            sequence: Sequence::new(packed >> 2),
            has_id: packed & 1 == 1,
            has_sketch: packed & 2 == 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postings_come_back_as_they_went_in() {
        let mut expected = Vec::new();
        for sequence in [0, 1, 255, 1 << 40, SEQUENCE_MAX] {
            for (has_id, has_sketch) in [(false, false), (true, false), (false, true), (true, true)]
            {
                expected.push(Posting { sequence: Sequence::new(sequence), has_id, has_sketch });
            }
        }
        let packed: Vec<PackedPosting> = expected.iter().map(|posting| posting.pack()).collect();
        let postings = Postings::pack(&packed);
        let read: Vec<Posting> = (0..postings.len()).map(|i| postings.get(i)).collect();
        assert_eq!(read, expected);
    }
}

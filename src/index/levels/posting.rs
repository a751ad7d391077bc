//! The index entry of one document: its sequence, and which optional parts its record has.

use std::borrow::Cow;
use std::ops::Range;

use crate::document::Sequence;
use crate::index::memory::array::Array;

/// A document under a fingerprint.
///
/// The sequence is the document's age and the key of its journal record. The flags tell, without
/// reading the record, whether there is an id to show or a sketch to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Posting {
    /// The change that stored the document.
    pub sequence: Sequence,
    /// Its record has an id.
    pub has_id: bool,
    /// Its record has a sketch.
    pub has_sketch: bool,
}

/// The largest sequence of a posting: 7e13.
pub const SEQUENCE_MAX: u64 = (1 << 46) - 1;

/// The properties that all postings of a list share, which are stored once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Common {
    /// The smallest sequence.
    pub first: Sequence,
    /// The largest sequence.
    pub last: Sequence,
    /// The flags, if they are the same in all postings.
    pub flags: Option<u8>,
}

impl Common {
    /// The common properties of no postings.
    pub const NONE: Self = Self { first: Sequence::ZERO, last: Sequence::ZERO, flags: Some(0) };

    /// The common properties of one posting.
    pub fn of(posting: Posting) -> Self {
        let Posting { sequence, .. } = posting;
        Self { first: sequence, last: sequence, flags: Some(posting.flags()) }
    }

    /// The common properties of two lists together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            flags: self.flags.filter(|_| self.flags == other.flags),
        }
    }

    /// Bits a posting takes.
    fn bits(self) -> u32 {
        let most = self.last.get().saturating_sub(self.first.get());
        (u64::BITS - most.leading_zeros()) + if self.flags.is_some() { 0 } else { 2 }
    }
}

/// A list of postings, each packed into as many bits as the list needs.
///
/// The sequence is stored as its distance from the first, the two flags only if they differ. A
/// hundred million fingerprints without ids take 27 bits each.
#[derive(Debug)]
pub struct Postings {
    common: Common,
    bits: u32,
    words: Array<u64>,
    /// The bit of the first word at which the first posting begins: not 0 in a part of another
    /// list.
    first_bit: usize,
    /// The number of packed postings.
    len: usize,
    /// Postings of the other list behind this part.
    behind: Vec<Posting>,
}

impl Postings {
    /// A list of `len` places, not filled.
    pub fn new(common: Common, len: usize) -> Self {
        debug_assert!(common.last.get() <= SEQUENCE_MAX, "46 bits outlast any disk");
        Self::from_words(common, len, Array::zeros(words(len, common.bits())))
    }

    /// A list of two runs of postings. The first run shares its memory if that is large; both lists
    /// are read-only from then on.
    ///
    /// # Panics
    /// When it has no such places.
    #[must_use]
    pub fn part(&self, first: Range<u32>, behind: Range<u32>) -> Self {
        let bit = |place: u32| self.first_bit + place as usize * self.bits as usize;
        // With the word behind the last one, as in every list.
        let end = (bit(first.end) / 64 + 2).min(self.words.len());
        let words = self.words.share((bit(first.start) / 64).min(end)..end);
        let first_bit = bit(first.start) % 64;
        let behind = behind.map(|place| self.get(place as usize)).collect();
        Self { words, first_bit, len: first.len(), behind, ..*self }
    }

    /// Grows the list to `len` places; not in a part of another list.
    pub fn extend_to(&mut self, len: usize) {
        debug_assert!(self.first_bit == 0 && self.behind.is_empty(), "a part is only read");
        self.len = self.len.max(len);
        if self.words.len() < words(self.len, self.bits) {
            let mut larger = Array::zeros(words(self.len + self.len / 8, self.bits));
            larger[..self.words.len()].copy_from_slice(&self.words);
            self.words = larger;
        }
    }

    /// Puts a posting into a place that was not filled; the list grows if the place is beyond its
    /// end.
    #[inline]
    pub fn set(&mut self, index: usize, posting: Posting) {
        if index >= self.len {
            self.extend_to(index + 1);
        }
        let mut packed = posting.sequence.get() - self.common.first.get();
        if self.common.flags.is_none() {
            packed = packed << 2 | u64::from(posting.flags());
        }
        let bit = index * self.bits as usize;
        let two = u128::from(packed) << (bit % 64);
        self.words[bit / 64] |= two as u64;
        self.words[bit / 64 + 1] |= (two >> 64) as u64;
    }

    /// Puts the postings at some places of another list into adjacent places that were not filled.
    ///
    /// # Panics
    /// When the other one has no such places.
    pub fn copy(&mut self, from: &Self, places: Range<u32>, to: u32) {
        for (place, to) in places.zip(to..) {
            self.set(to as usize, from.get(place as usize));
        }
    }

    /// The posting at a place.
    ///
    /// # Panics
    /// When there is no such place.
    #[inline]
    pub fn get(&self, index: usize) -> Posting {
        if let Some(behind) = index.checked_sub(self.len)
            && let Some(posting) = self.behind.get(behind)
        {
            return *posting;
        }
        let bit = self.first_bit + index * self.bits as usize;
        let two = u128::from(self.words[bit / 64]) | u128::from(self.words[bit / 64 + 1]) << 64;
        let packed = (two >> (bit % 64)) as u64 & ((1 << self.bits) - 1);
        let (offset, flags) = match self.common.flags {
            Some(flags) => (packed, flags),
            None => (packed >> 2, packed as u8 & 3),
        };
        Posting {
            sequence: Sequence::new(self.common.first.get() + offset),
            has_id: flags & 1 == 1,
            has_sketch: flags & 2 == 2,
        }
    }

    /// The number of postings.
    pub fn len(&self) -> usize {
        self.len + self.behind.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The parts that all postings share.
    pub fn common(&self) -> Common {
        self.common
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.words.bytes() + self.behind.capacity() * size_of::<Posting>()
    }

    /// The packed form, which an image stores. A part of another list is packed anew.
    pub(crate) fn words(&self) -> Cow<'_, [u64]> {
        let len = words(self.len(), self.bits);
        if self.first_bit == 0 && self.behind.is_empty() && len <= self.words.len() {
            return Cow::Borrowed(&self.words[..len]);
        }
        let mut packed = Self::new(self.common, self.len());
        packed.copy(self, 0..self.len() as u32, 0);
        Cow::Owned(packed.words[..len].to_vec())
    }

    /// The number of words of the image of such a list; `None` if no list has these values.
    pub(crate) fn words_of(common: Common, len: usize) -> Option<usize> {
        let possible = common.last.get() <= SEQUENCE_MAX
            && common.first <= common.last
            && common.flags.is_none_or(|flags| flags < 4);
        possible.then(|| words(len, common.bits()))
    }

    /// The list with this packed form.
    pub(crate) fn from_words(common: Common, len: usize, words: Array<u64>) -> Self {
        Self { common, bits: common.bits(), words, first_bit: 0, len, behind: Vec::new() }
    }
}

/// The number of words for `len` postings, and one more, so that any two adjacent ones can be read.
fn words(len: usize, bits: u32) -> usize {
    if len == 0 { 0 } else { (len * bits as usize).div_ceil(64).max(1) + 1 }
}

impl Posting {
    /// The flags as two bits.
    fn flags(self) -> u8 {
        u8::from(self.has_sketch) << 1 | u8::from(self.has_id)
    }

    /// Packs it into six bytes: 46 bits of sequence and the flags.
    pub fn pack(self) -> [u8; 6] {
        let packed = self.sequence.get() << 2 | u64::from(self.flags());
        *packed.to_le_bytes().first_chunk().expect("six of eight bytes")
    }

    /// Unpacks it from six bytes.
    pub fn unpack(packed: [u8; 6]) -> Self {
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
    use proptest::prelude::*;

    fn posting() -> impl Strategy<Value = Posting> {
        let sequence = prop_oneof![0..20_u64, 0..=SEQUENCE_MAX, Just(SEQUENCE_MAX)];
        (sequence, any::<bool>(), any::<bool>()).prop_map(|(sequence, has_id, has_sketch)| {
            Posting { sequence: Sequence::new(sequence), has_id, has_sketch }
        })
    }

    proptest! {
        #[test]
        fn postings_come_back_as_they_went_in(
            postings in prop::collection::vec(posting(), 1..60),
            room in 0..60_usize,
            same_flags: bool,
        ) {
            let postings: Vec<Posting> = postings
                .iter()
                .map(|p| if same_flags { Posting { has_id: true, has_sketch: false, ..*p } } else { *p })
                .collect();
            let common = postings.iter().copied().map(Common::of).reduce(Common::and).unwrap();
            prop_assert!(!same_flags || common.flags == Some(1));
            let mut packed = Postings::new(common, room);
            for (i, &posting) in postings.iter().enumerate().rev() {
                packed.set(i, posting);
            }
            prop_assert_eq!(packed.len(), room.max(postings.len()));
            // Also as a part of another list.
            let (start, behind) = (packed.len() as u32 / 3, packed.len() as u32 * 2 / 3);
            let part = packed.part(start..behind, 0..start);
            let places = (start..behind).chain(0..start);
            prop_assert!(places.map(|i| packed.get(i as usize)).eq((0..part.len()).map(|i| part.get(i))));
            let words = Array::copied(&part.words());
            let part_again = Postings::from_words(common, part.len(), words);
            prop_assert!((0..part.len()).all(|i| part.get(i) == part_again.get(i)));
            let words = Array::copied(&packed.words());
            prop_assert_eq!(Postings::words_of(common, packed.len()), Some(words.len()));
            let again = Postings::from_words(common, packed.len(), words);
            for (i, &posting) in postings.iter().enumerate() {
                prop_assert_eq!(packed.get(i), posting);
                prop_assert_eq!(again.get(i), posting);
                prop_assert_eq!(Posting::unpack(posting.pack()), posting);
            }
        }
    }

    #[test]
    fn a_hundred_million_bare_postings_take_27_bits_each() {
        let bare = |sequence| {
            Common::of(Posting {
                sequence: Sequence::new(sequence),
                has_id: false,
                has_sketch: false,
            })
        };
        assert_eq!(bare(1).and(bare(100_000_000)).bits(), 27);
    }
}

//! The index entry of one document: its sequence, its namespace, when it expires, and which
//! optional parts its record has.

use std::io::{self, Write};
use std::ops::Range;

use nearprint_fingerprint::Sample;

use crate::document::{Expiry, Sequence};
use crate::memory::column::PackedColumn;
use crate::memory::placed::{PlacedArray, Placement};
use crate::namespaces::NamespaceNumber;

/// A document under a fingerprint.
///
/// The sequence is the document's age and the key of its journal record. The rest tells, without
/// reading the record, whether there is something to show or a sketch that may confirm a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Posting {
    /// The change that stored the document.
    pub sequence: Sequence,
    pub namespace: NamespaceNumber,
    pub expiry: Option<Expiry>,
    /// Its record has an id or metadata.
    pub is_listed: bool,
    /// Eight bytes of its sketch, if its record has one.
    pub sample: Option<Sample>,
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
    /// The smallest and the largest number of a namespace.
    pub namespaces: (NamespaceNumber, NamespaceNumber),
    /// The first and the last expiry of those that expire.
    pub expiries: Option<(Expiry, Expiry)>,
    /// Whether all of them expire.
    pub all_expire: bool,
    /// Whether any of them has a sketch.
    pub any_sketch: bool,
}

impl Common {
    /// The common properties of no postings.
    pub const NONE: Self = Self {
        first: Sequence::ZERO,
        last: Sequence::ZERO,
        flags: Some(0),
        namespaces: (NamespaceNumber::DEFAULT, NamespaceNumber::DEFAULT),
        expiries: None,
        all_expire: false,
        any_sketch: false,
    };

    /// The common properties of one posting.
    pub fn of(posting: Posting) -> Self {
        let Posting { sequence, namespace, expiry, .. } = posting;
        Self {
            first: sequence,
            last: sequence,
            flags: Some(posting.flags()),
            namespaces: (namespace, namespace),
            expiries: expiry.map(|expiry| (expiry, expiry)),
            all_expire: expiry.is_some(),
            any_sketch: posting.sample.is_some(),
        }
    }

    /// The common properties of two lists together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let expiries = match (self.expiries, other.expiries) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
            (one, other) => one.or(other),
        };
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            flags: self.flags.filter(|_| self.flags == other.flags),
            namespaces: (
                self.namespaces.0.min(other.namespaces.0),
                self.namespaces.1.max(other.namespaces.1),
            ),
            expiries,
            all_expire: self.all_expire && other.all_expire,
            any_sketch: self.any_sketch || other.any_sketch,
        }
    }

    /// Bits of a sequence and of the flags, if they differ.
    fn sequence_bits(self) -> u32 {
        let most = self.last.get().saturating_sub(self.first.get());
        bits_of(most) + if self.flags.is_some() { 0 } else { 2 }
    }

    fn namespace_bits(self) -> u32 {
        bits_of(self.namespaces.1.get().saturating_sub(self.namespaces.0.get()))
    }

    /// Bits of an expiry. Unless all expire, 0 is never, and the first expiry is 1.
    fn expiry_bits(self) -> u32 {
        self.expiries.map_or(0, |(first, last)| {
            bits_of(u64::from(last.second() - first.second()) + u64::from(!self.all_expire))
        })
    }

    /// Bits of a sample: every posting has room for one if any has a sketch.
    fn sample_bits(self) -> u32 {
        if self.any_sketch { u64::BITS } else { 0 }
    }

    fn pack_expiry(self, expiry: Option<Expiry>) -> u64 {
        match (expiry, self.expiries) {
            (Some(expiry), Some((first, _))) => {
                u64::from(expiry.second() - first.second()) + u64::from(!self.all_expire)
            }
            (None, _) | (_, None) => 0,
        }
    }

    fn unpack_expiry(self, packed: u64) -> Option<Expiry> {
        let (first, _) = self.expiries?;
        let behind = if self.all_expire { Some(packed) } else { packed.checked_sub(1) };
        behind.and_then(|behind| Expiry::at(u64::from(first.second()) + behind))
    }
}

const fn bits_of(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// A list of postings, each packed into as many bits as the list needs.
///
/// The sequence is stored as its distance from the first; flags, namespaces and expiries only if
/// they differ. A hundred million fingerprints of one namespace, without ids, take 27 bits each.
/// Samples of sketches take 64 bits more in a list in which any posting has one: bare fingerprints
/// pay for them only where they share a segment with documents that have sketches. A rank over the
/// places would save that, but most collections have sketches either everywhere or nowhere.
#[derive(Debug)]
pub struct Postings {
    common: Common,
    /// Sequences with their flags.
    sequences: PackedColumn,
    namespaces: PackedColumn,
    expiries: PackedColumn,
    samples: PackedColumn,
    len: usize,
}

/// The packed form of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Words<T> {
    /// Sequences with their flags.
    pub(crate) sequences: T,
    /// Namespaces; empty if all are the same.
    pub(crate) namespaces: T,
    /// Expiries; empty if all are the same.
    pub(crate) expiries: T,
    /// Samples of sketches; empty if no document has a sketch.
    pub(crate) samples: T,
}

impl Postings {
    /// A list of `len` places in memory, not filled.
    pub fn new(common: Common, len: usize) -> Self {
        Self::placed(&Placement::Memory, common, len)
    }

    /// A list of `len` places, not filled.
    pub fn placed(placement: &Placement, common: Common, len: usize) -> Self {
        debug_assert!(common.last.get() <= SEQUENCE_MAX, "46 bits outlast any disk");
        let column = |bits| PackedColumn::placed(placement, bits, len);
        Self {
            common,
            sequences: column(common.sequence_bits()),
            namespaces: column(common.namespace_bits()),
            expiries: column(common.expiry_bits()),
            samples: column(common.sample_bits()),
            len,
        }
    }

    /// A list of these postings in memory.
    pub fn of(postings: &[Posting]) -> Self {
        Self::placed_of(&Placement::Memory, postings)
    }

    /// A list of these postings.
    pub fn placed_of(placement: &Placement, postings: &[Posting]) -> Self {
        let common = postings.iter().copied().map(Common::of).reduce(Common::and);
        let mut list = Self::placed(placement, common.unwrap_or(Common::NONE), postings.len());
        for (place, &posting) in postings.iter().enumerate() {
            list.set(place, posting);
        }
        list.truncate(postings.len());
        list
    }

    /// The postings at some places, which share their memory if it is large; both lists are
    /// read-only from then on.
    #[must_use]
    pub fn part(&self, range: &Range<u32>) -> Self {
        self.of_columns(range.len(), |column| column.part(range))
    }

    /// Cuts off the places from a multiple of 64 on.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        let Self { sequences, namespaces, expiries, samples, .. } = self;
        let rest = Self {
            common: self.common,
            sequences: sequences.split_off(at),
            namespaces: namespaces.split_off(at),
            expiries: expiries.split_off(at),
            samples: samples.split_off(at),
            len: self.len - at,
        };
        self.len = at;
        rest
    }

    /// Joins lists that [`Self::split_off`] cut.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn joined(parts: &[&Self]) -> Self {
        let join = |column: fn(&Self) -> &PackedColumn| {
            PackedColumn::joined(&parts.iter().map(|part| column(part)).collect::<Vec<_>>())
        };
        Self {
            common: parts.first().expect("there is something to join").common,
            sequences: join(|part| &part.sequences),
            namespaces: join(|part| &part.namespaces),
            expiries: join(|part| &part.expiries),
            samples: join(|part| &part.samples),
            len: parts.iter().map(|part| part.len).sum(),
        }
    }

    fn of_columns(&self, len: usize, of: impl Fn(&PackedColumn) -> PackedColumn) -> Self {
        Self {
            common: self.common,
            sequences: of(&self.sequences),
            namespaces: of(&self.namespaces),
            expiries: of(&self.expiries),
            samples: of(&self.samples),
            len,
        }
    }

    /// Keeps the first `len` places.
    pub fn truncate(&mut self, len: usize) {
        let Self { sequences, namespaces, expiries, samples, .. } = self;
        for column in [sequences, namespaces, expiries, samples] {
            column.truncate(len);
        }
        self.len = self.len.min(len);
    }

    /// Puts a posting into a place that was not filled.
    ///
    /// # Panics
    /// When there is no such place.
    #[inline]
    pub fn set(&mut self, index: usize, posting: Posting) {
        let mut packed = posting.sequence.get() - self.common.first.get();
        if self.common.flags.is_none() {
            packed = packed << 2 | u64::from(posting.flags());
        }
        self.sequences.set(index, packed);
        if self.namespaces.bits() > 0 {
            let number = posting.namespace.get() - self.common.namespaces.0.get();
            self.namespaces.set(index, number);
        }
        if self.expiries.bits() > 0 {
            self.expiries.set(index, self.common.pack_expiry(posting.expiry));
        }
        if let Some(sample) = posting.sample {
            debug_assert!(self.common.any_sketch, "there is room for its sample");
            self.samples.set(index, sample.bits());
        }
    }

    /// The posting at a place.
    ///
    /// # Panics
    /// When there is no such place.
    #[inline]
    pub fn get(&self, index: usize) -> Posting {
        let common = &self.common;
        let packed = self.sequences.get(index);
        let (offset, flags) = match common.flags {
            Some(flags) => (packed, flags),
            None => (packed >> 2, packed as u8 & 3),
        };
        let namespace = match self.namespaces.bits() {
            0 => common.namespaces.0,
            _ => NamespaceNumber::new(common.namespaces.0.get() + self.namespaces.get(index)),
        };
        let expiry = match (common.expiries, self.expiries.bits()) {
            (None, _) => None,
            (Some((first, _)), 0) => Some(first),
            (Some(_), _) => common.unpack_expiry(self.expiries.get(index)),
        };
        Posting {
            sequence: Sequence::new(common.first.get() + offset),
            namespace,
            expiry,
            is_listed: flags & 1 == 1,
            sample: (flags & Posting::SKETCH != 0)
                .then(|| Sample::from_bits(self.samples.get(index))),
        }
    }

    /// Prefetches the sample of the posting at a place.
    pub(crate) fn prefetch_sample(&self, index: usize) {
        self.samples.prefetch(index);
    }

    /// The sample of the posting at a place; without a sketch, one that refutes nothing.
    pub(crate) fn sample(&self, index: usize) -> Sample {
        Sample::from_bits(self.samples.get(index))
    }

    pub fn len(&self) -> usize {
        self.len
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
        self.columns().iter().map(|column| column.bytes()).sum()
    }

    /// The bytes in files.
    pub fn file_bytes(&self) -> u64 {
        self.columns().iter().map(|column| column.file_bytes()).sum()
    }

    fn columns(&self) -> [&PackedColumn; 4] {
        [&self.sequences, &self.namespaces, &self.expiries, &self.samples]
    }

    /// Writes the packed form, which an image stores: each column after the count of its words.
    ///
    /// # Errors
    /// Those of the sink.
    pub(crate) fn write(&self, sink: &mut dyn Write) -> io::Result<()> {
        self.columns().iter().try_for_each(|column| {
            let words = PackedColumn::words_for(column.bits(), self.len) as u64;
            sink.write_all(&words.to_le_bytes())?;
            column.write(self.len, sink)
        })
    }

    /// The number of words of the image of such a list; `None` if no list has these values.
    pub(crate) fn words_of(common: Common, len: usize) -> Option<Words<usize>> {
        let possible = common.last.get() <= SEQUENCE_MAX
            && common.first <= common.last
            && common.flags.is_none_or(|flags| flags < 4)
            && common.namespaces.0 <= common.namespaces.1
            && common.namespaces.1.get() < 1 << 48
            && common.expiries.is_none_or(|(first, last)| first <= last)
            && (common.expiries.is_some() || !common.all_expire)
            && (common.any_sketch || common.flags.is_none_or(|flags| flags & Posting::SKETCH == 0));
        possible.then(|| Words {
            sequences: PackedColumn::words_for(common.sequence_bits(), len),
            namespaces: PackedColumn::words_for(common.namespace_bits(), len),
            expiries: PackedColumn::words_for(common.expiry_bits(), len),
            samples: PackedColumn::words_for(common.sample_bits(), len),
        })
    }

    /// The list with this packed form.
    pub(crate) fn from_words(common: Common, len: usize, words: Words<PlacedArray<u64>>) -> Self {
        let column = PackedColumn::of_words;
        Self {
            common,
            sequences: column(common.sequence_bits(), words.sequences),
            namespaces: column(common.namespace_bits(), words.namespaces),
            expiries: column(common.expiry_bits(), words.expiries),
            samples: column(common.sample_bits(), words.samples),
            len,
        }
    }
}

impl Posting {
    /// The namespace of a group of this one document ([`NamespaceNumber::and`]).
    pub(crate) fn group_namespace(self) -> NamespaceNumber {
        if self.expiry.is_some() { NamespaceNumber::MIXED } else { self.namespace }
    }

    /// The flag of a posting whose record has a sketch.
    pub(crate) const SKETCH: u8 = 1 << 1;

    /// The flags as two bits.
    fn flags(self) -> u8 {
        u8::from(self.sample.is_some()) << 1 | u8::from(self.is_listed)
    }

    /// Packs it into four words: sequence and flags, namespace, expiry, sample.
    pub(crate) fn pack(self) -> [u64; 4] {
        [
            self.sequence.get() << 2 | u64::from(self.flags()),
            self.namespace.get(),
            self.expiry.map_or(0, |expiry| u64::from(expiry.second())),
            self.sample.map_or(0, Sample::bits),
        ]
    }

    /// Unpacks it from four words.
    pub(crate) fn unpack([sequence, namespace, expiry, sample]: [u64; 4]) -> Self {
        Self {
            sequence: Sequence::new(sequence >> 2),
            namespace: NamespaceNumber::new(namespace),
            expiry: Expiry::at(expiry),
            is_listed: sequence & 1 == 1,
            sample: (sequence & u64::from(Self::SKETCH) != 0).then(|| Sample::from_bits(sample)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::array::Array;
    use proptest::prelude::*;

    fn posting() -> impl Strategy<Value = Posting> {
        let sequence = prop_oneof![0..20_u64, 0..=SEQUENCE_MAX, Just(SEQUENCE_MAX)];
        let namespace = prop_oneof![0..3_u64, 0..1_u64 << 40];
        let expiry = prop_oneof![0..4_u64, 0..=u64::from(u32::MAX)];
        (sequence, namespace, expiry, any::<bool>(), any::<Option<u64>>()).prop_map(
            |(sequence, namespace, expiry, is_listed, sample)| Posting {
                sequence: Sequence::new(sequence),
                namespace: NamespaceNumber::new(namespace),
                expiry: Expiry::at(expiry),
                is_listed,
                sample: sample.map(Sample::from_bits),
            },
        )
    }

    /// Makes some properties the same in all postings: a bit of `same` for each.
    fn alike(posting: Posting, same: u8) -> Posting {
        let is_same = |bit: u8| same >> bit & 1 == 1;
        let mut posting = posting;
        if is_same(0) {
            (posting.is_listed, posting.sample) = (true, None);
        }
        if is_same(1) {
            posting.namespace = NamespaceNumber::new(7);
        }
        if is_same(2) {
            posting.expiry = Expiry::at(9);
        } else if is_same(3) {
            posting.expiry = None;
        } else if is_same(4) {
            posting.expiry = posting.expiry.or(Expiry::at(11));
        }
        posting
    }

    proptest! {
        #[test]
        fn postings_come_back_as_they_went_in(
            postings in prop::collection::vec(posting(), 1..60),
            room in 0..60_usize,
            same: u8,
        ) {
            let postings: Vec<Posting> = postings.iter().map(|p| alike(*p, same)).collect();
            let common = postings.iter().copied().map(Common::of).reduce(Common::and).unwrap();
            prop_assert!(same & 1 == 0 || common.flags == Some(1) && common.sample_bits() == 0);
            let mut packed = Postings::new(common, room.max(postings.len()));
            for (i, &posting) in postings.iter().enumerate().rev() {
                packed.set(i, posting);
            }
            prop_assert_eq!(packed.len(), room.max(postings.len()));
            // Also as a part of another list.
            let (start, end) = (packed.len() as u32 / 3, packed.len() as u32 * 2 / 3);
            let part = packed.part(&(start..end));
            prop_assert!((start..end).map(|i| packed.get(i as usize)).eq((0..part.len()).map(|i| part.get(i))));
            let part_again = Postings::from_words(common, part.len(), words(&part));
            prop_assert!((0..part.len()).all(|i| part.get(i) == part_again.get(i)));
            let words = words(&packed);
            let lengths = Words {
                sequences: words.sequences.len(),
                namespaces: words.namespaces.len(),
                expiries: words.expiries.len(),
                samples: words.samples.len(),
            };
            prop_assert_eq!(Postings::words_of(common, packed.len()), Some(lengths));
            let again = Postings::from_words(common, packed.len(), words);
            // Also cut into two and joined again.
            let rest = packed.split_off(packed.len() / 64 * 64);
            let joined = Postings::joined(&[&packed, &rest]);
            for (i, &posting) in postings.iter().enumerate() {
                prop_assert_eq!(joined.get(i), posting);
                prop_assert_eq!(again.get(i), posting);
                prop_assert_eq!(Posting::unpack(posting.pack()), posting);
            }
        }
    }

    fn words(list: &Postings) -> Words<PlacedArray<u64>> {
        let copied = |column: &PackedColumn| Array::copied(&column.stored(list.len())).into();
        Words {
            sequences: copied(&list.sequences),
            namespaces: copied(&list.namespaces),
            expiries: copied(&list.expiries),
            samples: copied(&list.samples),
        }
    }

    fn sequenced(sequence: u64) -> Posting {
        Posting { sequence: Sequence::new(sequence), ..Posting::default() }
    }

    #[test]
    fn a_hundred_million_bare_postings_take_27_bits_each() {
        let common = Common::of(sequenced(1)).and(Common::of(sequenced(100_000_000)));
        let of_posting = common.sequence_bits() + common.namespace_bits() + common.expiry_bits();
        assert_eq!((of_posting, common.sample_bits()), (27, 0));
    }

    #[test]
    fn room_for_samples_is_made_where_a_posting_has_a_sketch() {
        let bare = Common::of(Posting { is_listed: true, ..sequenced(1) });
        let sketched = Posting { sample: Some(Sample::default()), ..sequenced(2) };
        assert_eq!(bare.and(Common::of(sequenced(2))).sample_bits(), 0);
        assert_eq!(bare.and(Common::of(sketched)).sample_bits(), 64);
        let impossible = Common { flags: Some(Posting::SKETCH), ..Common::NONE };
        assert_eq!(Postings::words_of(impossible, 1), None);
    }

    #[test]
    fn one_namespace_and_one_expiry_take_no_bits_and_a_million_namespaces_20() {
        let of = |number: u64, expiry: u64| Posting {
            namespace: NamespaceNumber::new(number),
            expiry: Expiry::at(expiry),
            ..Posting::default()
        };
        let bits = |one, other| {
            let common = Common::of(one).and(Common::of(other));
            (common.namespace_bits(), common.expiry_bits())
        };
        assert_eq!(bits(of(5, 9), of(5, 9)), (0, 0));
        assert_eq!(bits(of(1, 9), of(1_000_000, 10)), (20, 1));
        assert_eq!(bits(of(5, 0), of(5, 9)), (0, 1));
    }
}

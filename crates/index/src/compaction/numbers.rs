//! Which numbers the fingerprints and documents of merged segments have in the result, for the rows
//! of labels and the ids.
//!
//! In memory a merge keeps the new number of each entry: 4 bytes each, and one cache miss a
//! question. Segments in files may have far more entries than memory has room for. They have the
//! order of the result, so a fingerprint keeps its place among those of its segment, and two sets
//! of bits tell its new number ([`RankedSet`]). The documents of fingerprints with several have a
//! list.

use crate::compaction::entries::MergeEntries;
use crate::compaction::ranks::RankedSet;
use crate::levels::segment::FingerprintRow;
use crate::tables::runs::RunItem;
use crate::tables::table::Number;

/// The number of an entry whose fingerprint has no document any more.
const NONE: Number = Number::MAX;

/// The new numbers of fingerprints, by entry; empty if nobody asks.
#[derive(Debug)]
pub(crate) struct NewNumbers(Vec<Number>);

/// The new numbers of the fingerprints and documents of segments in the order of the result.
#[derive(Debug)]
pub(crate) struct NumbersInOrder(Vec<NumbersOfSegment>);

#[derive(Debug)]
struct NumbersOfSegment {
    /// The numbers of its fingerprints that have a document in the result,
    kept: RankedSet,
    /// and those that they have there.
    new: RankedSet,
    /// The documents of fingerprints with several, in its order or that of the result.
    moved: Vec<Moved>,
}

/// A document and its new place; sorted by document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moved {
    document: u32,
    to: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Gone,
    /// It is the oldest of its fingerprint, which has this number.
    Oldest(Number),
    /// The place among all later postings.
    Later(u32),
}

impl NewNumbers {
    /// No new numbers yet of `entries` entries.
    pub(crate) fn of_entries(entries: usize) -> Self {
        Self(vec![NONE; entries])
    }

    /// Notes the number that the fingerprint of an entry has in the result.
    pub(crate) fn set(&mut self, entry: u32, number: Number) {
        if let Some(new) = self.0.get_mut(entry as usize) {
            *new = number;
        }
    }

    /// The new number of the fingerprint of an entry.
    pub(crate) fn of(&self, entry: u32) -> Option<Number> {
        Some(self.0[entry as usize]).filter(|&new| new != NONE)
    }
}

impl NumbersInOrder {
    /// No new numbers yet of segments with numbers below these, in a result with at most `new`.
    pub(crate) fn below(old: impl Iterator<Item = usize>, new: usize) -> Self {
        let of = |old| NumbersOfSegment {
            kept: RankedSet::below(old),
            new: RankedSet::below(new),
            moved: Vec::new(),
        };
        Self(old.map(of).collect())
    }

    /// Notes the number that the entries of a fingerprint have in the result. Fingerprints come in
    /// order. `later` is the place of the row's second document among all later postings.
    pub(crate) fn note(
        &mut self,
        entries: &MergeEntries<'_>,
        items: &[RunItem],
        (row, later): (&FingerprintRow, u32),
        number: Number,
    ) {
        let is_one = items.len() == 1 && row.postings.len() == 1;
        for &(_, entry) in items {
            let Some((at, segment, old)) = entries.put_of(entry) else { continue };
            self.0[at].kept.push(old);
            self.0[at].new.push(number);
            if is_one {
                continue;
            }
            let moved = segment.documents_at(old).map(|(document, posting)| {
                let found = row.postings.binary_search_by_key(&posting.sequence, |p| p.sequence);
                let to = match found {
                    Err(_) => Place::Gone,
                    Ok(0) => Place::Oldest(number),
                    Ok(place) => Place::Later(later + place as u32 - 1),
                };
                Moved { document, to }
            });
            self.0[at].moved.extend(moved);
        }
    }

    /// Call it after the last fingerprint.
    pub(crate) fn finish(&mut self) {
        for segment in &mut self.0 {
            segment.moved.sort_unstable();
        }
    }

    /// The new number of a fingerprint of the segment with this index.
    pub(crate) fn fingerprint(&self, segment: usize, old: Number) -> Option<Number> {
        self.0[segment].fingerprint(old)
    }

    /// The new number of a document of a segment, in a result with fingerprints below `numbers`.
    pub(crate) fn document(&self, segment: usize, document: u32, numbers: usize) -> Option<u32> {
        self.0[segment].document(document, numbers)
    }
}

impl NumbersOfSegment {
    fn fingerprint(&self, old: Number) -> Option<Number> {
        self.new.select(self.kept.rank(old)?)
    }

    fn document(&self, document: u32, numbers: usize) -> Option<u32> {
        let at = self.moved.binary_search_by_key(&document, |moved| moved.document);
        match at.map(|at| self.moved[at].to) {
            Ok(Place::Gone) => None,
            Ok(Place::Later(place)) => Some(numbers as u32 + place),
            Ok(Place::Oldest(number)) => Some(number),
            Err(_) => self.fingerprint(document),
        }
    }
}

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

/// The new numbers of the fingerprints of a merge.
#[derive(Debug)]
pub(crate) enum NewNumbers {
    /// Nobody asks.
    Unknown,
    /// By entry.
    Each(Vec<Number>),
    /// By segment, and of documents too.
    InOrder(Vec<NumbersInOrder>),
}

/// The new numbers of a segment in the order of the result.
#[derive(Debug)]
pub(crate) struct NumbersInOrder {
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
    /// Notes the number that the entries of a fingerprint have in the result; `None` if it has no
    /// document there.
    pub(crate) fn note(&mut self, items: &[RunItem], number: Option<Number>) {
        if let (Self::Each(new), Some(number)) = (self, number) {
            for &(_, entry) in items {
                new[entry as usize] = number;
            }
        }
    }

    /// The same for segments in the order of the result, of which the fingerprints come in order.
    /// `later` is the place of the row's second document among all later postings.
    pub(crate) fn note_in_order(
        &mut self,
        entries: &MergeEntries<'_>,
        items: &[RunItem],
        (row, later): (&FingerprintRow, u32),
        number: Option<Number>,
    ) {
        let (Self::InOrder(segments), Some(number)) = (self, number) else { return };
        let is_one = items.len() == 1 && row.postings.len() == 1;
        for &(_, entry) in items {
            let Some((at, segment, old)) = entries.put_of(entry) else { continue };
            segments[at].kept.push(old);
            segments[at].new.push(number);
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
            segments[at].moved.extend(moved);
        }
    }

    /// Call it after the last fingerprint.
    pub(crate) fn finish(&mut self) {
        if let Self::InOrder(segments) = self {
            for segment in segments {
                segment.moved.sort_unstable();
            }
        }
    }

    /// The new number of a fingerprint of a segment, of which the puts begin at an entry.
    pub(crate) fn fingerprint(&self, (at, put): (usize, u32), old: Number) -> Option<Number> {
        match self {
            Self::Unknown => None,
            Self::Each(new) => Some(new[(put + old) as usize]).filter(|&new| new != NONE),
            Self::InOrder(segments) => segments[at].fingerprint(old),
        }
    }

    /// No new numbers yet of `entries` entries.
    pub(crate) fn each(entries: usize) -> Self {
        Self::Each(vec![NONE; entries])
    }
}

impl NumbersInOrder {
    /// No new numbers yet of a segment with numbers below `old`, in a result with at most `new`.
    pub(crate) fn new(old: usize, new: usize) -> Self {
        Self { kept: RankedSet::below(old), new: RankedSet::below(new), moved: Vec::new() }
    }

    fn fingerprint(&self, old: Number) -> Option<Number> {
        self.new.select(self.kept.rank(old)?)
    }

    /// The new number of a document, in a result with fingerprints below `numbers`.
    pub(crate) fn document(&self, document: u32, numbers: usize) -> Option<u32> {
        let at = self.moved.binary_search_by_key(&document, |moved| moved.document);
        match at.map(|at| self.moved[at].to) {
            Ok(Place::Gone) => None,
            Ok(Place::Later(place)) => Some(numbers as u32 + place),
            Ok(Place::Oldest(number)) => Some(number),
            Err(_) => self.fingerprint(document),
        }
    }
}

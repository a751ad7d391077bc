//! What was found, for people and for scripts.

use serde::Serialize;

use crate::dedup::choice::Choice;
use crate::dedup::grouping::DuplicateGroups;
use crate::dedup::scan::Scanned;

/// Groups that a summary names.
const LARGEST: usize = 5;

/// What a run has found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Documents that were read.
    pub documents: u64,
    /// Those of them that have no fingerprint, and stay.
    pub without_fingerprint: u64,
    /// Records that could not be read. The copy has them as they are, unless they are to be
    /// dropped.
    pub failed: u64,
    /// Groups of near-duplicates.
    pub groups: u64,
    /// Documents in groups.
    pub in_groups: u64,
    /// Documents that a collection has, and that go.
    pub in_collection: u64,
    /// Documents that stay.
    pub kept: u64,
    /// Documents that go.
    pub dropped: u64,
    /// How many fingerprints may belong to a larger group, because they have more sketches than are
    /// compared; missing if there are none.
    #[serde(skip_serializing_if = "is_zero")]
    pub partly_compared: u64,
    /// Bytes of content of all documents.
    pub content_bytes: u64,
    /// Bytes of content of those that go.
    pub dropped_bytes: u64,
    /// The largest groups.
    pub largest: Vec<Largest>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A large group.
#[derive(Debug, Serialize)]
pub struct Largest {
    /// How many documents it has.
    pub documents: u64,
    /// The document that stands for it, if names were kept.
    pub original: Option<Box<str>>,
}

impl Report {
    /// Of all documents.
    pub fn of(scanned: &Scanned, groups: &DuplicateGroups, choice: &Choice) -> Self {
        let bytes = |documents: &mut dyn Iterator<Item = u32>| {
            documents.map(|of| u64::from(scanned.lengths[of as usize])).sum()
        };
        let members = groups.iter().flatten().copied();
        let gone = members.filter(|&of| choice.fate(of).is_some_and(|fate| !fate.stays));
        let gone: Vec<u32> = gone.chain(scanned.known.keys().copied()).collect();
        let without = scanned.fingerprints.absent();
        let largest = groups.iter().zip(choice.originals()).take(LARGEST);
        let documents = scanned.len() as u64;
        Self {
            documents,
            without_fingerprint: (without - scanned.known.len()) as u64,
            failed: scanned.bad_count,
            groups: groups.all().len() as u64,
            in_groups: groups.documents() as u64,
            in_collection: scanned.known.len() as u64,
            kept: documents - gone.len() as u64,
            dropped: gone.len() as u64,
            partly_compared: groups.partly_compared(),
            content_bytes: bytes(&mut (0..scanned.len() as u32)),
            dropped_bytes: bytes(&mut gone.iter().copied()),
            largest: largest
                .map(|(group, &original)| Largest {
                    documents: group.len() as u64,
                    original: scanned.names.get(original).map(Box::from),
                })
                .collect(),
        }
    }
}

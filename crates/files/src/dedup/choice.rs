//! Which document of each group stays.

use nearprint_fingerprint::Distance;

use crate::dedup::grouping::{DuplicateGroups, similarity};
use crate::dedup::scan::Scanned;

/// The rule by which one document of a group stays. Of equal ones the first stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepBy {
    /// The first one.
    First,
    /// The last one.
    Last,
    /// The one with the most content.
    Longest,
    /// The one with the largest number in a field; those without a number come last.
    Largest,
    /// None of a group stays, only documents that have no near-duplicate.
    None,
}

/// What becomes of every document.
#[derive(Debug, Default)]
pub struct Choice {
    /// Of each group: the document that stands for it.
    originals: Vec<u32>,
    /// Documents of groups, ascending, with the number of their group, counted from 0.
    members: Vec<(u32, u32)>,
    keeps_originals: bool,
}

/// What becomes of a document that has near-duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fate {
    /// The number of its group, counted from 0; the largest group has 0.
    pub group: u32,
    /// The document that stands for the group.
    pub original: u32,
    /// Whether it stays.
    pub stays: bool,
}

impl Choice {
    /// Chooses in each group.
    pub fn of(groups: &DuplicateGroups, scanned: &Scanned, keep: KeepBy) -> Self {
        let originals = groups.iter().map(|group| original(group, scanned, keep)).collect();
        let mut members = Vec::with_capacity(groups.documents());
        for (number, group) in (0..).zip(groups.iter()) {
            members.extend(group.iter().map(|&of| (of, number)));
        }
        members.sort_unstable();
        Self { originals, members, keeps_originals: keep != KeepBy::None }
    }

    /// What becomes of a document; `None` if it has no near-duplicate, and stays.
    pub fn fate(&self, document: u32) -> Option<Fate> {
        let at = self.members.binary_search_by_key(&document, |&(member, _)| member).ok()?;
        let group = self.members[at].1;
        let original = self.originals[group as usize];
        let stays = self.keeps_originals && original == document;
        Some(Fate { group, original, stays })
    }

    /// The documents that stand for the groups.
    pub fn originals(&self) -> &[u32] {
        &self.originals
    }
}

fn original(group: &[u32], scanned: &Scanned, keep: KeepBy) -> u32 {
    let score = |document: u32| {
        let score = scanned.scores.get(document as usize).copied();
        score.filter(|score| !score.is_nan()).unwrap_or(f64::NEG_INFINITY)
    };
    // The last of equal ones is the largest for the iterator, so it runs backwards.
    let backwards = || group.iter().rev().copied();
    let chosen = match keep {
        KeepBy::First | KeepBy::None => group.first().copied(),
        KeepBy::Last => group.last().copied(),
        KeepBy::Longest => backwards().max_by_key(|&of| scanned.lengths[of as usize]),
        KeepBy::Largest => backwards().max_by(|&one, &other| score(one).total_cmp(&score(other))),
    };
    chosen.expect("a group has documents")
}

impl Scanned {
    /// Whether any document has a number in the field by which documents are chosen.
    pub const fn has_scores(&self) -> bool {
        !self.scores.is_empty()
    }

    /// The distance of two documents that have fingerprints.
    pub(super) fn distance(&self, one: u32, other: u32) -> Option<Distance> {
        let fingerprint = |document| self.fingerprints.get(document);
        Some(fingerprint(one)?.distance(fingerprint(other)?))
    }

    /// The similarity of the texts of two documents, 0 to 1; `None` unless both have sketches.
    pub(super) fn similarity(&self, one: u32, other: u32) -> std::io::Result<Option<f64>> {
        let Some(spill) = &self.spill else { return Ok(None) };
        let (one, other) = (spill.get(one as usize)?, spill.get(other as usize)?);
        Ok(similarity(&one, &other))
    }

    /// The name of a document; names must have been wanted.
    pub(super) fn name(&self, document: u32) -> &str {
        self.names.get(document).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use nearprint_fingerprint::Fingerprint;

    use super::*;
    use crate::dedup::grouping::{DISTANCE_DEFAULT, GroupingCriteria, Index};

    #[test]
    fn each_rule_chooses_its_document() {
        let scanned = Scanned {
            lengths: vec![5, 9, 9, 1, 7],
            scores: vec![f64::NAN, 2.0, -1.0, 2.0],
            ..Scanned::default()
        };
        let mut scanned = Scanned { lengths: [scanned.lengths, vec![7]].concat(), ..scanned };
        scanned.all_namespaces.push("".into());
        for bits in [0, 0, 0, 0, 0xff, 0xff] {
            scanned.fingerprints.push(Some(Fingerprint::new(bits)));
        }
        let criteria = GroupingCriteria {
            distance: DISTANCE_DEFAULT,
            threshold: None,
            is_likely: false,
            threads: 1,
        };
        let index = Index::of(&scanned, criteria, &|_| true).unwrap();
        let groups = index.groups(&scanned, criteria, &|_, _| true).unwrap();
        let chosen = |keep| Choice::of(&groups, &scanned, keep).originals;
        assert_eq!(chosen(KeepBy::First), [0, 4]);
        assert_eq!(chosen(KeepBy::Last), [3, 5]);
        assert_eq!(chosen(KeepBy::Longest), [1, 4]);
        assert_eq!(chosen(KeepBy::Largest), [1, 4]);
        let choice = Choice::of(&groups, &scanned, KeepBy::Last);
        assert_eq!(choice.fate(3), Some(Fate { group: 0, original: 3, stays: true }));
        assert_eq!(choice.fate(0), Some(Fate { group: 0, original: 3, stays: false }));
        assert_eq!(choice.fate(6), None);
        let none = Choice::of(&groups, &scanned, KeepBy::None);
        assert_eq!(none.fate(0), Some(Fate { group: 0, original: 0, stays: false }));
    }
}

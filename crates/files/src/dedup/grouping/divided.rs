//! The groups of documents of which no index fits into memory: an index of one part after the other
//! ([`Division`]).

use std::io;

use nearprint_index::groups::{DividedSearch, Division};

use super::{DuplicateGroups, GroupingCriteria, Index, going_on, is_likely};
use crate::dedup::scan::{PART_DOCUMENT_BYTES, Scanned};

/// The most parts of a division. Memory that is enough for the groups leaves enough for a fifth of
/// the documents ([`Scanned::bytes_left`]); more parts are tried where these have much in common.
const PARTS_MAX: u64 = 200;

/// The part of a document that is in none.
const NO_PART: u8 = u8::MAX;

/// Documents that are divided before `watch` is asked.
const DIVIDED_AT_A_TIME: usize = 1 << 16;

/// The groups of at least two documents, within `memory_max` bytes of memory for the whole run.
/// Each document is searched once for each [`Division`], so this takes several times as long as
/// [`Index::groups`]. The groups are the same; [`DividedSearch`] has the exception. `watch` is told
/// how much of the search is done, and how much there is, and says whether to go on.
///
/// # Errors
/// Those of [`Index::groups`], and [`io::ErrorKind::OutOfMemory`] if too many documents have the
/// same block of bits, or label, to be searched within the memory.
pub fn groups(
    scanned: &Scanned,
    criteria: GroupingCriteria,
    memory_max: u64,
    watch: &(dyn Fn(u64, u64) -> bool + Sync),
) -> io::Result<DuplicateGroups> {
    let criteria = GroupingCriteria { is_likely: is_likely(criteria, scanned), ..criteria };
    let fits = scanned.bytes_left(memory_max) / PART_DOCUMENT_BYTES;
    let mut search = DividedSearch::new(scanned.len(), criteria);
    let divisions: Vec<Division> = Division::all(criteria).collect();
    let all = divisions.len() as u64 * scanned.len() as u64;
    let mut done = 0;
    for division in divisions {
        let parts = Parts::of(scanned, division, fits, &|| watch(done, all))?;
        for part in 0..parts.count {
            let shape = division.shape(criteria);
            let has_sketches = criteria.threshold.is_some();
            let indexing = |_| watch(done, all);
            let some = parts.documents(part);
            let index = Index::of_some(scanned, (shape, has_sketches), some, &indexing)?;
            going_on(watch(done, all))?;
            let documents = parts.documents(part).count() as u64;
            let searching =
                |pieces, all_pieces: u64| watch(done + documents * pieces / all_pieces.max(1), all);
            index.join_groups(scanned, (division, &mut search), &searching)?;
            done += documents;
        }
        done += parts.without;
    }
    let fingerprint = |document| (scanned.namespace(document), scanned.fingerprints.get(document));
    Ok(search.finish(fingerprint))
}

/// The parts of a division.
struct Parts {
    /// By document.
    of: Vec<u8>,
    count: u8,
    /// The documents that are in no part.
    without: u64,
}

impl Parts {
    /// As few parts as have at most `fits` documents each.
    fn of(
        scanned: &Scanned,
        division: Division,
        fits: u64,
        goes_on: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let mut parts = (scanned.len() as u64).div_ceil(fits.max(1)).clamp(1, PARTS_MAX);
        loop {
            let divided = Self::divided(scanned, division, parts, goes_on)?;
            let mut counts = vec![0; parts as usize];
            for of in divided.of.iter().filter(|&&of| of != NO_PART) {
                counts[usize::from(*of)] += 1;
            }
            let largest = counts.into_iter().max().unwrap_or(0);
            if largest <= fits {
                return Ok(divided);
            }
            if parts == PARTS_MAX {
                let what = match division {
                    Division::Block { .. } => "a block of their fingerprints",
                    Division::Label(_) => "a label",
                };
                let why = format!(
                    "{largest} documents agree in {what}, and {fits} can be searched at once"
                );
                return Err(io::Error::new(io::ErrorKind::OutOfMemory, why));
            }
            parts = (parts + parts.div_ceil(4)).min(PARTS_MAX);
        }
    }

    /// So many parts, whatever their size.
    fn divided(
        scanned: &Scanned,
        division: Division,
        parts: u64,
        goes_on: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let has_labels = matches!(division, Division::Label(_));
        let spill = scanned.spill.as_ref().filter(|_| has_labels);
        let mut sketches = spill.map(|spill| spill.sketches());
        let (mut of, mut without) = (Vec::with_capacity(scanned.len()), 0);
        for document in 0..scanned.len() as u32 {
            if (document as usize).is_multiple_of(DIVIDED_AT_A_TIME) {
                going_on(goes_on())?;
            }
            let sketch = sketches.as_mut().map(|sketches| sketches.get(document)).transpose()?;
            let sketch = sketch.flatten();
            let part = scanned.fingerprints.get(document).and_then(|fingerprint| {
                let namespace = scanned.namespace(document);
                division.part((namespace, fingerprint, sketch.as_ref()), parts)
            });
            without += u64::from(part.is_none());
            of.push(part.map_or(NO_PART, |part| part as u8));
        }
        Ok(Self { of, count: parts as u8, without })
    }

    /// The documents of a part, ascending.
    fn documents(&self, part: u8) -> impl Iterator<Item = u32> + '_ {
        let own = (0..).zip(&self.of).filter(move |&(_, &of)| of == part);
        own.map(|(document, _)| document)
    }
}

#[cfg(test)]
mod tests {
    use nearprint_fingerprint::Threshold;

    use super::*;
    use crate::dedup::grouping::DISTANCE_DEFAULT;
    use crate::dedup::grouping::tests::scanned;
    use crate::dedup::scan::{DIVIDED_DOCUMENT_BYTES, FIXED_BYTES};

    fn criteria() -> GroupingCriteria {
        GroupingCriteria {
            distance: DISTANCE_DEFAULT,
            threshold: Threshold::of_similarity(0.83),
            is_likely: true,
            threads: 1,
        }
    }

    /// The least memory with which so many documents are begun.
    fn least(documents: usize) -> u64 {
        FIXED_BYTES + documents as u64 * DIVIDED_DOCUMENT_BYTES
    }

    /// Texts of 60 words in families of three, two of which differ in five words: some families are
    /// found by their fingerprints, and some by their labels.
    #[test]
    fn texts_are_grouped_as_in_an_index_of_all() {
        let word = |text: u64, at: u64| {
            let family = if at.is_multiple_of(13) { text } else { text / 3 * 3 };
            format!(
                "word{} ",
                xxhash_rust::xxh3::xxh3_64_with_seed(&at.to_le_bytes(), family) % 999
            )
        };
        let text = |text| (0..60).map(|at| word(text, at)).chain(["\n".to_owned()]).collect();
        let lines: Vec<String> = (0..600).map(text).collect();
        // Lines without letters have no fingerprint.
        let scanned = scanned(&lines.join("...\n"));
        let whole = Index::of(&scanned, criteria(), &|_| true).unwrap();
        let whole = whole.groups(&scanned, criteria(), &|_, _| true).unwrap();
        let memory = least(scanned.len());
        assert!(scanned.bytes_left(memory) / PART_DOCUMENT_BYTES < scanned.len() as u64 / 4);
        let divided = groups(&scanned, criteria(), memory, &|_, _| true).unwrap();
        assert!(divided.iter().eq(whole.iter()));
        let exact = GroupingCriteria { is_likely: false, ..criteria() };
        let near = groups(&scanned, exact, memory, &|_, _| true).unwrap();
        assert!(0 < near.documents() && near.documents() < divided.documents());
    }

    #[test]
    fn documents_that_agree_and_do_not_fit_are_an_error_and_a_search_can_be_ended() {
        let scanned = scanned(&"the same text of the same page\n".repeat(500));
        let ended = groups(&scanned, criteria(), least(500), &|_, _| true);
        let error = ended.expect_err("they fall into one part");
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(error.to_string().starts_with("500 documents agree in a block"), "{error}");
        let ended = groups(&scanned, criteria(), u64::MAX, &|_, _| false);
        assert_eq!(ended.expect_err("it does not go on").kind(), io::ErrorKind::Interrupted);
    }
}

//! Deduplication of a column: as the command `nearprint dedup` does with files.

use std::convert::identity;

use nearprint_fingerprint::{Sketch, Threshold};
use nearprint_index::compaction::policy::Load;
use nearprint_index::groups::{Evidence, GroupingCriteria, Groups, settle, shape};
use nearprint_index::view::{Put, View};
use nearprint_machine::document::Sequence;
use nearprint_machine::query::SearchKind;
use nearprint_text::{Analysis, Wanted};
use numpy::PyArray1;
use pyo3::prelude::*;

use super::arguments::{checked_share, distance_of, search_of};
use super::groups::find;
use crate::columns::DocumentColumn;
use crate::documents::{Accepts, Keywords, Reading, RowErrors};
use crate::work;

/// The group of a document that has no near-duplicate.
const NO_GROUP: i64 = -1;

/// Find the groups of near-duplicates in a column of documents, in one pass on all cores.
///
/// >>> import nearprint
/// >>> texts = ["black tea", "bread", "...", "black tea"]
/// >>> keep, group, original = nearprint.dedup(texts)
/// >>> [text for text, keeps in zip(texts, keep) if keeps]
/// ['black tea', 'bread', '...']
/// >>> group.tolist(), original.tolist()
/// ([0, -1, -1, 0], [0, 1, 2, 0])
///
/// The groups are those of the command ``nearprint dedup`` with the same options, and what it keeps
/// is the first document of each. A document that has no fingerprint, such as a null, is kept.
///
/// :param documents: What :func:`fingerprint_many` takes, or fingerprints.
/// :param distance: The largest number of bits in which fingerprints may differ, 0 to 12.
/// :param min_similarity: The similarity from which two texts count as near-duplicates, 0 to 1; 0
///     compares no sketches.
/// :param min_numbers: The share of their numbers that two texts must have in common, 0 to 1.
/// :param search: ``likely`` finds near-duplicates of texts beyond the distance, too; ``exact``
///     does not.
/// :returns: A :class:`Deduplicated` of three arrays of numpy, with a row for each document.
#[pyfunction]
#[pyo3(
    signature = (documents, *, distance=3, min_similarity=0.83, min_numbers=0.0, search="likely", recipe=None, html=false, charset=None, extract="content", threads=None),
    text_signature = "(documents, *, distance=3, min_similarity=0.83, min_numbers=0.0, search='likely', recipe='np2', html=False, charset=None, extract='content', threads=None)"
)]
pub(crate) fn dedup<'py>(
    documents: &Bound<'py, PyAny>,
    distance: u8,
    min_similarity: f64,
    min_numbers: f64,
    search: &str,
    recipe: Option<Bound<'py, PyAny>>,
    html: bool,
    charset: Option<String>,
    extract: &str,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = documents.py();
    let reading = Reading::of(py, Keywords { recipe, html, charset, extract })?;
    let threads = work::threads(py, threads)?;
    let threshold = Threshold::of_similarity(checked_share(py, "min_similarity", min_similarity)?);
    let numbers = checked_share(py, "min_numbers", min_numbers)?;
    let criteria = GroupingCriteria {
        distance: distance_of(py, "distance", distance)?,
        threshold: threshold.map(|threshold| threshold.with_numbers(numbers)),
        is_likely: search_of(py, search)? == SearchKind::Likely,
        threads: threads.get(),
    };
    let mut column = Column::new(criteria);
    let wanted = Wanted { sketch: criteria.threshold.is_some(), features: false };
    DocumentColumn::of(documents, (Accepts::FingerprintsToo, RowErrors::Raise))?.analyse(
        py,
        (&reading, RowErrors::Raise),
        (wanted, threads),
        identity,
        |analyses| work::detached(py, usize::MAX, || column.add(analyses)),
    )?;
    work::detached(py, usize::MAX, || column.settle())?;
    let groups = find(py, &column.view, criteria, &|at| column.evidence(at))?;
    let (keep, group, original) = column.rows(&groups);
    let arrays = (
        PyArray1::from_vec(py, keep),
        PyArray1::from_vec(py, group),
        PyArray1::from_vec(py, original),
    );
    py.import("nearprint._deduplicated")?.getattr("Deduplicated")?.call1(arrays)
}

/// The documents of a column that have a fingerprint, by the change that put each into the view.
struct Column {
    view: View,
    /// The place of each among all rows.
    places: Vec<usize>,
    texts: Vec<Text>,
    rows: usize,
}

struct Text {
    is_short: bool,
    sketch: Option<Box<Sketch>>,
}

impl Column {
    fn new(criteria: GroupingCriteria) -> Self {
        let has_labels = criteria.is_likely && criteria.threshold.is_some();
        let view = View::new(shape(criteria.distance, has_labels));
        Self { view, places: Vec::new(), texts: Vec::new(), rows: 0 }
    }

    fn add(&mut self, analyses: Vec<Option<Analysis>>) {
        for analysis in analyses {
            if let Some(Analysis { fingerprint, short: is_short, sketch, .. }) = analysis {
                self.view.put(fingerprint, Put { sketch: sketch.clone(), ..Put::default() });
                self.places.push(self.rows);
                self.texts.push(Text { is_short, sketch });
            }
            self.rows += 1;
        }
        settle(&mut self.view, Load::Writing);
    }

    /// Prepares the view for the search.
    fn settle(&mut self) {
        self.view.rotate();
        settle(&mut self.view, Load::Idle);
    }

    /// Which document a change stored, counted from 0.
    fn number(at: Sequence) -> usize {
        usize::try_from(at.get() - 1).expect("all are in memory")
    }

    fn evidence(&self, at: Sequence) -> Evidence {
        let Text { is_short, sketch } = &self.texts[Self::number(at)];
        Evidence { is_short: *is_short, sketch: sketch.as_deref().cloned() }
    }

    /// For each row: whether it stays, its group, and the row that stands for it.
    fn rows(&self, groups: &Groups<Sequence>) -> (Vec<bool>, Vec<i64>, Vec<i64>) {
        let (mut keep, mut group) = (vec![true; self.rows], vec![NO_GROUP; self.rows]);
        let mut original: Vec<i64> = (0..).take(self.rows).collect();
        for (number, members) in (0..).zip(groups.iter()) {
            let places = members.iter().map(|at| self.places[Self::number(*at)]);
            let first = places.clone().next().expect("a group has documents");
            for place in places {
                keep[place] = place == first;
                group[place] = number;
                original[place] = original[first];
            }
        }
        (keep, group, original)
    }
}

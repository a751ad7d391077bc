//! Similar texts beyond the distance: the neighbours in the sorted tables of labels.
//!
//! Look-ups of all texts would find the same pairs ([`crate::labels`] has the rule). But the tables
//! are sorted, so one pass over each has the texts that share the first two minima one after the
//! other. Where these are more than [`ROWS_MAX`], the nearest to each are compared, those that a
//! sample refutes included, and the nearest one that is left out is noted
//! ([`PairSearch::count_partly_compared`]).

use nearprint_fingerprint::LABELS;

use super::documents::DocumentSet;
use super::{EvidenceSource, Pair, PairSearch, SketchJudge, on_threads};
use crate::labels::{self, LOOKED_AT_MAX, LabelKey, ROWS_MAX};
use crate::view::View;

/// The pieces of a table: the rows whose keys begin with the same byte.
const PIECES_OF_TABLE: usize = 256;

/// A row of a table: its key, and the first document of its fingerprint in a namespace.
type FingerprintRow = (LabelKey, u32);

impl PairSearch<'_> {
    /// The number of pieces of [`Self::run_likely`].
    pub const LIKELY_PIECES: usize = LABELS * PIECES_OF_TABLE;

    /// Joins the groups of similar texts, after [`Self::run`] and like it. A microsecond or two for
    /// each text.
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub fn run_likely<'j, S: EvidenceSource<Error: Send>>(
        &self,
        threads: usize,
        judge: impl Fn() -> SketchJudge<'j, S> + Sync,
        watch: impl Fn(u64) -> Result<(), S::Error> + Sync,
    ) -> Result<(), S::Error> {
        let newest: [Vec<FingerprintRow>; LABELS] =
            std::array::from_fn(|table| rows_of_deltas(self.view, &self.documents, table));
        let piece = |number: usize, judge: &mut SketchJudge<'j, S>| {
            let (table, byte) = (number / PIECES_OF_TABLE, (number % PIECES_OF_TABLE) as u8);
            let newest = &newest[table];
            let begins = |byte: usize| newest.partition_point(|row| (row.0 >> 56) < byte as u64);
            let newest = &newest[begins(byte.into())..begins(usize::from(byte) + 1)];
            let mut rows = rows_of_segments(self.view, &self.documents, (table, byte));
            rows.extend(newest);
            rows.sort_unstable();
            rows.dedup();
            rows.chunk_by(|a, b| labels::is_shared(a.0, b.0)).try_for_each(|rows| {
                judge.goes_on_with_similar()?;
                self.join_similar(rows, judge)
            })
        };
        on_threads((Self::LIKELY_PIECES, threads), judge, piece, watch)
    }

    /// Joins the groups of texts that share the first two minima of a label.
    fn join_similar<S: EvidenceSource>(
        &self,
        rows: &[FingerprintRow],
        judge: &mut SketchJudge<'_, S>,
    ) -> Result<(), S::Error> {
        let (mut near, mut left_out): (Vec<FingerprintRow>, _) = (Vec::new(), Vec::new());
        for (at, row) in rows.iter().enumerate() {
            if rows.len() <= ROWS_MAX {
                // Each pair once.
                for other in &rows[at + 1..] {
                    if labels::is_near(row.0 ^ other.0) {
                        self.join_rows([*row, *other], judge)?;
                    }
                }
                continue;
            }
            near.clear();
            labels::nearest(rows, &|row| row.0, row.0, LOOKED_AT_MAX + 1, &mut |some| {
                near.extend(some.iter().filter(|other| other.1 != row.1));
            });
            let mut keep = |near: &mut Vec<FingerprintRow>, max| {
                if near.len() <= max {
                    return;
                }
                let order = |other: &FingerprintRow| (row.0 ^ other.0, other.1);
                let (_, other, _) = near.select_nth_unstable_by_key(max, order);
                left_out.push([row.1, other.1]);
                near.truncate(max);
            };
            keep(&mut near, LOOKED_AT_MAX);
            near.retain(|other| labels::is_near(row.0 ^ other.0));
            keep(&mut near, ROWS_MAX);
            for other in &near {
                self.join_rows([*row, *other], judge)?;
            }
        }
        if !left_out.is_empty() {
            self.left_out().append(&mut left_out);
        }
        Ok(())
    }

    /// Joins the groups of two texts, if they are two and their sketches agree.
    fn join_rows<S: EvidenceSource>(
        &self,
        [one, other]: [FingerprintRow; 2],
        judge: &mut SketchJudge<'_, S>,
    ) -> Result<(), S::Error> {
        let [one, other] = [one.1 as usize, other.1 as usize];
        let namespace = self.documents.namespace(one);
        if self.documents.namespace(other) != namespace || self.joined.are_joined(one, other) {
            return Ok(());
        }
        let permutation = &self.view.shape().permutation;
        let masked = [one, other].map(|at| permutation.restore(self.documents.value(at)));
        let pair = Pair { masked, distance: masked[0].distance(masked[1]), namespace };
        if judge.may_be_similar(&pair) && judge.are_similar(&pair)? {
            self.joined.join(one, other);
        }
        Ok(())
    }
}

/// The rows whose keys begin with a byte, of the selected documents.
fn rows_of_segments(
    view: &View,
    documents: &DocumentSet,
    (table, byte): (usize, u8),
) -> Vec<FingerprintRow> {
    let mut rows = Vec::new();
    for segment in view.segments().iter() {
        for (key, number) in segment.labels().all()[table].beginning_with(byte) {
            let firsts = documents.firsts(segment.sorted().value(number));
            rows.extend(firsts.map(|at| (key, at as u32)));
        }
    }
    rows
}

/// The rows of the changes that are in no segment yet, sorted.
fn rows_of_deltas(view: &View, documents: &DocumentSet, table: usize) -> Vec<FingerprintRow> {
    let mut rows = Vec::new();
    for delta in view.deltas() {
        for text in delta.texts() {
            let firsts = documents.firsts(delta.value_of(text.node));
            rows.extend(firsts.map(|at| (text.keys[table], at as u32)));
        }
    }
    rows.sort_unstable();
    rows
}

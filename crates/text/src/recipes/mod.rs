//! The recipes: which features a document has, and their weights. One file for each recipe family.
//!
//! To add one: a variant in [`nearprint_fingerprint::recipe`], a file here, an arm in [`dispatch`]
//! and a row of vectors in `tests/fixtures/recipes.tsv`.

pub(crate) mod dispatch;
pub(crate) mod keywords;
pub(crate) mod np2;
pub(crate) mod numbered;
pub(crate) mod segmenter;
pub(crate) mod textrank;
pub(crate) mod vectors;
pub(crate) mod weighted;
pub(crate) mod words;

//! The recipes: which features a document has, and what each of them weighs. One file a recipe family.
//!
//! To add one: a variant in [`crate::recipe`], a file here, a line in [`crate::text::analyse`] and a row of
//! vectors in `tests/fixtures/recipes.tsv`.

pub(crate) mod keywords;
pub mod np1;
pub(crate) mod weighted;
pub(crate) mod words;

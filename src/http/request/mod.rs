//! From the bytes of a request to a document with its options.
//!
//! [`body`] reads the bytes within the limits, [`fields`] (with [`escapes`]) and [`parameters`] parse them, and
//! [`prepare`] turns them into a document. [`lines`] cuts the bodies of batches.

pub(crate) mod body;
pub(crate) mod escapes;
pub(crate) mod fields;
pub(crate) mod lines;
pub(crate) mod parameters;
pub(crate) mod prepare;

//! Dense vectors, such as embeddings: from numbers in single precision to a fingerprint.
//!
//! A vector has no tokens, no features and no sketch; bits of its fingerprint come from the sides
//! of planes on which it lies. [`hyperplanes`] draws random planes from a published generator;
//! [`spectral`] uses a model, which [`training`] learns from a sample.
//! All sums have one order and only exact products, so a fingerprint is the same on every machine.
//! `docs/recipes.md` defines the recipes so that they can be repeated in any language.

mod eigen;
pub(crate) mod hyperplanes;
pub(crate) mod spectral;
pub(crate) mod training;
pub(crate) mod vector;

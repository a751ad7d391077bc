//! The values that stand for a text: its fingerprint and its sketch.
//!
//! A [`Fingerprint`] is 64 bits; similar texts have fingerprints at a small [`Distance`]. A
//! [`Sketch`] is 156 bytes of a text: those that estimate the similarity of two texts, its
//! [`Label`]s, by which similar texts are found, and its [`Numbers`].
//!
//! A [`recipe::Recipe`] is the id of the definition that makes them.
//!
//! This crate only stores, writes and compares them. nearprint-text makes them from texts, and
//! nearprint-index finds fingerprints that are near each other; neither needs the other. Both
//! choose their SIMD instructions by [`Simd`].
//!
//! ```
//! use nearprint_fingerprint::{Distance, Fingerprint};
//!
//! let one: Fingerprint = "c02fef1d44a45133".parse()?;
//! let other = Fingerprint::new(one.bits() ^ 0b101);
//! assert_eq!(one.distance(other), Distance::new(2).expect("at most 64"));
//! assert_eq!(other.to_string(), "c02fef1d44a45136");
//! # Ok::<(), nearprint_fingerprint::NotAFingerprint>(())
//! ```

mod fingerprint;
mod label;
#[cfg(target_arch = "aarch64")]
#[doc(hidden)]
pub mod neon;
mod numbers;
pub mod recipe;
mod simd;
mod sketch;
mod threshold;
mod verification;

pub use fingerprint::{Distance, Fingerprint, NotAFingerprint};
pub use label::{LABELS, Label, MINIMA};
pub use numbers::{MinNumbers, NumberAgreement, Numbers};
pub use simd::{Simd, instruction_set, prefetch};
pub use sketch::{BINS, MinResemblance, Resemblance, Sample, Sketch};
pub use threshold::Threshold;
pub use verification::Verification;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

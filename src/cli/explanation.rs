//! Explanations for people: the heaviest features, the bits that flip first, and why two documents
//! differ.

use std::fmt;

use super::columns::{Column, write_columns};
use crate::text::{DifferingBit, Explained, Explanation, HeavyFeature};

/// Why a document has its fingerprint.
pub(super) struct Why(Explanation);

impl Why {
    pub(super) fn new(explained: &Explained) -> Self {
        Self(explained.explanation())
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let features: &[Column<HeavyFeature>] = &[
            ("heaviest features", |heavy| format!("{:?}", heavy.feature)),
            ("weight", |heavy| number(heavy.weight)),
        ];
        write_columns(f, features, &self.0.heaviest)?;
        let bits: &[Column<(u8, f64)>] = &[
            ("bits that tip first", |(bit, _)| bit.to_string()),
            ("sum", |(_, sum)| number(*sum)),
        ];
        writeln!(f)?;
        write_columns(f, bits, &self.0.near_zero())
    }
}

/// Why two documents differ.
pub(super) struct Differences(Vec<DifferingBit>);

impl Differences {
    pub(super) fn new(a: &Explained, b: &Explained) -> Self {
        Self(a.differing_bits(b))
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return writeln!(f, "no bit differs");
        }
        let columns: &[Column<DifferingBit>] = &[
            ("bits that differ", |bit| bit.bit.to_string()),
            ("sum in a", |bit| number(bit.sums[0])),
            ("in b", |bit| number(bit.sums[1])),
            ("decided by (weight in a, in b)", |bit| deciding(bit)),
        ];
        write_columns(f, columns, &self.0)
    }
}

fn deciding(bit: &DifferingBit) -> String {
    let features = bit.deciding.iter().map(|deciding| {
        let [a, b] = deciding.weights.map(number);
        format!("{:?} ({a}, {b})", deciding.feature)
    });
    features.collect::<Vec<_>>().join(", ")
}

/// A whole number as such, others with three decimals.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.3}") }
}

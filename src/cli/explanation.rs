//! Explanations for people: the heaviest features, the bits that flip first, and why two documents
//! differ.

use nearprint_text::{DifferingBit, Explained, HeavyFeature};

use super::columns::{Column, table};

/// Why a document has its fingerprint.
pub(super) fn why(explained: &Explained) -> String {
    let features: &[Column<HeavyFeature>] = &[
        ("heaviest features", |heavy| format!("{:?}", heavy.feature)),
        ("weight", |heavy| number(heavy.weight)),
    ];
    let bits: &[Column<(u8, f64)>] =
        &[("bits that tip first", |(bit, _)| bit.to_string()), ("sum", |(_, sum)| number(*sum))];
    let explanation = explained.explanation();
    let (heaviest, near_zero) = (&explanation.heaviest, &explanation.near_zero());
    format!("{}\n{}", table(features, heaviest), table(bits, near_zero))
}

/// Why two documents differ.
pub(super) fn differences(a: &Explained, b: &Explained) -> String {
    let differing = a.differing_bits(b);
    if differing.is_empty() {
        return "no bit differs\n".to_owned();
    }
    let columns: &[Column<DifferingBit>] = &[
        ("bits that differ", |bit| bit.bit.to_string()),
        ("sum in a", |bit| number(bit.sums[0])),
        ("in b", |bit| number(bit.sums[1])),
        ("decided by (weight in a, in b)", deciding),
    ];
    table(columns, &differing)
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

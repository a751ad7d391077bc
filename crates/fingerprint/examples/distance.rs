//! The distance of two fingerprints, and the bits in which they differ.
//!
//! `cargo run -p nearprint-fingerprint --example distance c02fef1d44a45133 c02fef1d44a45136`

#![expect(clippy::print_stdout, reason = "an example prints")]

use nearprint_fingerprint::{Fingerprint, NotAFingerprint};

fn main() -> Result<(), NotAFingerprint> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().unwrap_or_default().parse::<Fingerprint>();
    let (one, other) = (next()?, next()?);
    let differing = one.bits() ^ other.bits();
    let bits: Vec<u32> = (0..64).filter(|bit| differing >> bit & 1 == 1).collect();
    println!("distance {}, bits {bits:?}", one.distance(other).get());
    Ok(())
}

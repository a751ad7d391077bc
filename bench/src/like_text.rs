//! Fingerprints that are crowded as those of real text are.
//!
//! Real texts of one kind share frequent words, so their fingerprints lie in crowds: a look-up
//! meets many more candidates than among random ones. The model in `bench/model` imitates the 64
//! sums of a `SimHash`, scaled to a root mean square of 1: a mixture of 1,024 Gaussians with a
//! center and a deviation each, and one covariance for all. `bench/quality/fit_model.py` fits it to
//! texts. A fingerprint has a bit set where the sum is positive.
//!
//! The mixture has no near-copies. A share of the documents therefore forms families, whose sizes
//! are heavy-tailed: the sums of a member are those of its family plus independent noise.
//!
//! Deterministic: the same seed draws the same fingerprints on every machine, since only additions,
//! multiplications and divisions of floating-point numbers are used. Cost: about 0.3 microseconds a
//! fingerprint.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a model is no more exact than its numbers"
)]

use nearprint_fingerprint::Fingerprint;

use crate::data::Dice;
use crate::random::Stream;

/// The bits of a fingerprint.
const BITS: usize = 64;
/// The Gaussians of the mixture.
const CLUSTERS: usize = 1_024;

/// The model as `fit_model.py` writes it: the centers (`i8`, in 1/32), the deviations (`u8`, in
/// 1/200), the documents of each cluster (`u16`, little-endian), and the lower triangular factor of
/// the covariance (`i16`, little-endian, in 1/4096, row by row).
const MODEL: &[u8; CLUSTERS * (BITS + 1 + 2) + BITS * BITS * 2] =
    include_bytes!("../model/text-like.bin");

const CENTER_UNIT: f32 = 1.0 / 32.0;
const DEVIATION_UNIT: f32 = 1.0 / 200.0;
const FACTOR_UNIT: f32 = 1.0 / 4_096.0;

/// Rolls of the dice for one fingerprint: one for the cluster, one for each of the 64 normals.
const ROLLS: u64 = 65;
/// Fingerprints of one stream that can be drawn for different purposes without a common roll.
const PLACES: u64 = 1 << 40;

/// The deviation of a family's members from it: the sums of a page change little between two
/// versions, more between two pages of a template.
const SPREAD: std::ops::Range<f32> = 0.05..0.35;

/// No family has more members.
const FAMILY_MAX: u64 = 10_000;

/// The 64 sums of a document.
type Sums = [f32; BITS];

#[derive(Debug)]
struct Mixture {
    centers: Vec<Sums>,
    deviations: Vec<f32>,
    /// For each cluster the documents up to it and in it.
    cumulated: Vec<u32>,
    /// The columns of the factor, so that the sum over columns is one over whole vectors.
    columns: Vec<Sums>,
}

impl Mixture {
    fn new() -> Self {
        let (centers, rest) = MODEL.split_at(CLUSTERS * BITS);
        let (deviations, rest) = rest.split_at(CLUSTERS);
        let (documents, factor) = rest.split_at(2 * CLUSTERS);
        let scaled = |center: &[u8]| {
            std::array::from_fn(|bit| f32::from(center[bit].cast_signed()) * CENTER_UNIT)
        };
        let mut total = 0;
        let cumulate = |pair: &[u8]| {
            total += u32::from(u16::from_le_bytes([pair[0], pair[1]]));
            total
        };
        let at = |row: usize, column: usize| {
            let place = 2 * (row * BITS + column);
            f32::from(i16::from_le_bytes([factor[place], factor[place + 1]])) * FACTOR_UNIT
        };
        Self {
            centers: centers.chunks_exact(BITS).map(scaled).collect(),
            deviations: deviations.iter().map(|&unit| f32::from(unit) * DEVIATION_UNIT).collect(),
            cumulated: documents.chunks_exact(2).map(cumulate).collect(),
            columns: (0..BITS).map(|column| std::array::from_fn(|row| at(row, column))).collect(),
        }
    }

    fn draw(&self, dice: &mut Dice) -> Sums {
        let documents = self.cumulated.last().copied().unwrap_or_default();
        let document = dice.within(0..documents.into()) as u32;
        let cluster = self.cumulated.partition_point(|&up_to| up_to <= document);
        let normals = normals(dice);
        let mut noise = [0.0; BITS];
        for (column, (values, normal)) in self.columns.iter().zip(normals).enumerate() {
            // The factor is lower triangular: above the diagonal there are only zeros.
            let from = column / 8 * 8;
            for (noise, value) in noise[from..].iter_mut().zip(&values[from..]) {
                *noise += value * normal;
            }
        }
        let (center, deviation) = (&self.centers[cluster], self.deviations[cluster]);
        std::array::from_fn(|bit| center[bit] + deviation * noise[bit])
    }
}

/// Numbers that are nearly normal, with a mean of 0 and a variance of 1: each the sum of the four
/// quarters of a random number.
fn normals(dice: &mut Dice) -> Sums {
    /// The deviation of a sum of four even numbers below 2^16.
    const DEVIATION: f32 = 37_837.0;
    std::array::from_fn(|_| {
        let roll = dice.roll();
        let quarters = [roll, roll >> 16, roll >> 32, roll >> 48].map(|part| part & 0xffff);
        (quarters.iter().sum::<u64>() as f32 - 131_070.0) / DEVIATION
    })
}

fn fingerprint(sums: &Sums) -> Fingerprint {
    let bit = |(bit, sum): (usize, &f32)| u64::from(*sum > 0.0) << bit;
    Fingerprint::new(sums.iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit))
}

/// The documents of a collection: single ones of the mixture, and families of near-copies.
#[derive(Debug)]
pub struct LikeText {
    mixture: Mixture,
    stream: Stream,
    singles: u64,
    /// For each family the members up to it and in it.
    members: Vec<u64>,
}

/// The purposes of one stream.
#[derive(Clone, Copy)]
enum Purpose {
    Single,
    Center,
    Member,
    Fresh,
}

impl LikeText {
    /// A collection of `count` documents, a share of which (0 to 1) belongs to families.
    pub fn new(count: u64, families: f64, seed: u64) -> Self {
        let stream = Stream::of("like text", seed);
        let in_families = ((count as f64 * families) as u64).min(count);
        let mut dice = Dice::of("sizes of families", seed);
        let (mut members, mut total) = (Vec::new(), 0);
        while total < in_families {
            total = (total + family_size(&mut dice)).min(in_families);
            members.push(total);
        }
        Self { mixture: Mixture::new(), stream, singles: count - in_families, members }
    }

    /// All documents in a random order.
    pub fn all(&self, seed: u64) -> Vec<Fingerprint> {
        let single =
            |number| fingerprint(&self.mixture.draw(&mut self.dice(Purpose::Single, number)));
        let mut all: Vec<Fingerprint> = (0..self.singles).map(single).collect();
        let mut from = 0;
        for (family, &to) in (0..).zip(&self.members) {
            let center = self.center(family);
            all.extend((from..to).map(|number| self.member(&center, number)));
            from = to;
        }
        let mut dice = Dice::of("order", seed);
        for last in (1..all.len()).rev() {
            all.swap(last, dice.within(0..last as u64 + 1) as usize);
        }
        all
    }

    /// A document that is not stored, of a family as often as the stored ones are. The second value
    /// tells whether it is.
    pub fn fresh(&self, number: u64) -> (Fingerprint, bool) {
        let in_families = self.members.last().copied().unwrap_or_default();
        let mut dice = self.dice(Purpose::Fresh, number);
        let place = dice.within(0..(self.singles + in_families).max(1));
        if place >= in_families {
            return (fingerprint(&self.mixture.draw(&mut dice)), false);
        }
        let family = self.members.partition_point(|&up_to| up_to <= place);
        (self.member(&self.center(family as u64), in_families + number), true)
    }

    fn center(&self, family: u64) -> (Sums, f32) {
        let mut dice = self.dice(Purpose::Center, family);
        let part = dice.within(0..1 << 16) as f32 / 65_536.0;
        let spread = SPREAD.start + (SPREAD.end - SPREAD.start) * part;
        (self.mixture.draw(&mut dice), spread)
    }

    fn member(&self, (center, spread): &(Sums, f32), number: u64) -> Fingerprint {
        let noise = normals(&mut self.dice(Purpose::Member, number));
        let sum = |bit: usize| center[bit] + spread * noise[bit];
        fingerprint(&std::array::from_fn(sum))
    }

    fn dice(&self, purpose: Purpose, number: u64) -> Dice {
        let place = PLACES * purpose as u64 + number;
        // One roll more than a drawing needs, for the choice before it.
        Dice::after(self.stream, place * (ROLLS + 1))
    }
}

/// A size from 2 on; larger than `n` with a probability of about 2/n.
fn family_size(dice: &mut Dice) -> u64 {
    let part = dice.within(1..1 << 32);
    ((2 << 32) / part).min(FAMILY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_again_and_another_seed_others() {
        let drawn = |seed| LikeText::new(500, 0.3, seed).all(seed);
        assert_eq!(drawn(1).len(), 500);
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn sums_have_a_root_mean_square_of_one() {
        let model = LikeText::new(2_000, 0.0, 3);
        let square = |number| {
            let sums = model.mixture.draw(&mut model.dice(Purpose::Single, number));
            sums.iter().map(|sum| sum * sum).sum::<f32>() / BITS as f32
        };
        let mean = (0..2_000).map(square).sum::<f32>() / 2_000.0;
        assert!((0.9..1.1).contains(&mean), "{mean}");
    }

    #[test]
    fn noise_is_nearly_normal() {
        let mut dice = Dice::of("noise", 1);
        let all: Vec<f32> = (0..1_000).flat_map(|_| normals(&mut dice)).collect();
        let moment = |power| all.iter().map(|x| x.powi(power)).sum::<f32>() / all.len() as f32;
        assert!(moment(1).abs() < 0.02, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.02, "{}", moment(2));
        let beyond_two = all.iter().filter(|x| x.abs() > 2.0).count() as f32 / all.len() as f32;
        assert!((0.04..0.05).contains(&beyond_two), "{beyond_two}");
    }

    #[test]
    fn only_families_bring_near_copies() {
        let with_a_neighbour = |families| {
            let all = LikeText::new(2_000, families, 5).all(5);
            let near = |one: &Fingerprint| {
                all.iter().filter(|other| one.distance(**other).get() <= 8).count() > 1
            };
            all.iter().filter(|one| near(one)).count()
        };
        assert!(with_a_neighbour(0.0) < 200, "{}", with_a_neighbour(0.0));
        assert!(with_a_neighbour(0.5) > 600, "{}", with_a_neighbour(0.5));
    }

    #[test]
    fn fresh_documents_belong_to_families_as_often_as_stored_ones() {
        let model = LikeText::new(10_000, 0.25, 2);
        let of_families = (0..4_000).filter(|&number| model.fresh(number).1).count();
        assert!((850..1_150).contains(&of_families), "{of_families}");
    }
}

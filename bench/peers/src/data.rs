//! The fingerprints that are stored and those that are asked for: a function of two numbers.
//!
//! `SplitMix64`, so that Python draws the same ones (`python_peer.py`), and because it can be run
//! backwards: whether a fingerprint is stored is told without keeping any, which would blur what a
//! peer's memory is. Both sides print a digest; the driver compares them.
//!
//! Fingerprints like text come from files instead ([`Listed`]), which `nearprint-bench draw` wrote.
//! They are in memory before a peer builds anything.

use std::fs;
use std::io;
use std::path::Path;

use crate::DISTANCE;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const FIRST: u64 = 0xbf58_476d_1ce4_e5b9;
const SECOND: u64 = 0x94d0_49bb_1331_11eb;

/// How many queries the digest speaks of.
const DIGESTED: u64 = 1000;

/// What is stored.
#[derive(Debug, Clone, Copy)]
pub struct Data {
    /// How many fingerprints; all of them differ.
    pub count: u64,
    /// The seed that they and the queries are drawn from.
    pub seed: u64,
    /// Drawn ones, in the place of random ones.
    pub listed: Option<&'static Listed>,
}

/// Fingerprints of files, eight bytes each, little-endian.
#[derive(Debug)]
pub struct Listed {
    stored: Vec<u64>,
    sorted: Vec<u64>,
    fresh: Vec<u64>,
}

impl Listed {
    /// Reads `stored.bin`, what is stored, and `fresh.bin`, from which queries are taken.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let list = |name| -> io::Result<Vec<u64>> {
            let bytes = fs::read(folder.join(name))?;
            let (eights, _) = bytes.as_chunks::<8>();
            Ok(eights.iter().copied().map(u64::from_le_bytes).collect())
        };
        let (stored, fresh) = (list("stored.bin")?, list("fresh.bin")?);
        let mut sorted = stored.clone();
        sorted.sort_unstable();
        Ok(Self { stored, sorted, fresh })
    }
}

/// One question.
#[derive(Debug, Clone, Copy)]
pub struct Query {
    /// The fingerprint asked for.
    pub fingerprint: u64,
    /// The stored fingerprint that it was made from, by flipping at most [`DISTANCE`] bits; `None`
    /// for another query, which is near nothing but by a chance of one in millions if it is random.
    pub planted: Option<u64>,
}

impl Data {
    /// The stored fingerprint at a place below the count.
    pub fn stored(self, place: u64) -> u64 {
        match self.listed {
            None => draw(self.seed, place),
            Some(listed) => listed.stored[place as usize],
        }
    }

    /// All stored fingerprints, in order.
    pub fn all(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |place| self.stored(place))
    }

    /// Whether a fingerprint is stored.
    pub fn holds(self, fingerprint: u64) -> bool {
        match self.listed {
            None => undraw(self.seed, fingerprint) < self.count,
            Some(listed) => listed.sorted.binary_search(&fingerprint).is_ok(),
        }
    }

    /// The query of a number: the even ones are planted, at distances 0 to [`DISTANCE`] in turn.
    pub fn query(self, number: u64) -> Query {
        let seed = mix(!self.seed);
        let random = |n: u64| draw(seed, number * 8 + n);
        if number % 2 == 1 {
            let fingerprint = match self.listed {
                None => random(0),
                Some(listed) => listed.fresh[number as usize / 2 % listed.fresh.len()],
            };
            return Query { fingerprint, planted: None };
        }
        let stored = self.stored(random(0) % self.count);
        let distance = (number / 2 % u64::from(DISTANCE + 1)) as u32;
        let mut flips = 0_u64;
        let mut n = 0;
        while flips.count_ones() < distance {
            n += 1;
            flips |= 1 << (random(n) >> 58);
        }
        Query { fingerprint: stored ^ flips, planted: Some(stored) }
    }

    /// A number that two programs agree on when they ask and store the same.
    pub fn digest(self) -> u64 {
        let queries = (0..DIGESTED).map(|number| self.query(number).fingerprint);
        queries.fold(self.stored(self.count - 1), |digest, query| mix(digest ^ query))
    }
}

/// The number at a place of the sequence with this seed.
fn draw(seed: u64, place: u64) -> u64 {
    mix(seed.wrapping_add(place.wrapping_add(1).wrapping_mul(GOLDEN)))
}

/// The place of a number in the sequence with this seed.
fn undraw(seed: u64, number: u64) -> u64 {
    unmix(number).wrapping_sub(seed).wrapping_mul(const { inverse(GOLDEN) }).wrapping_sub(1)
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(FIRST);
    z = (z ^ (z >> 27)).wrapping_mul(SECOND);
    z ^ (z >> 31)
}

fn unmix(mut z: u64) -> u64 {
    z = (z ^ (z >> 31) ^ (z >> 62)).wrapping_mul(const { inverse(SECOND) });
    z = (z ^ (z >> 27) ^ (z >> 54)).wrapping_mul(const { inverse(FIRST) });
    z ^ (z >> 30) ^ (z >> 60)
}

/// The inverse of an odd number modulo 2^64, by Newton's method: each step doubles the right bits.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut bits = 3;
    while bits < 64 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: Data = Data { count: 10_000, seed: 42, listed: None };

    #[test]
    fn what_is_stored_is_known_to_be_stored() {
        assert!(DATA.all().all(|fingerprint| DATA.holds(fingerprint)));
        assert!(!DATA.holds(DATA.stored(DATA.count)));
        assert!(!DATA.holds(DATA.stored(0) ^ 1));
    }

    #[test]
    fn half_of_the_queries_are_planted_at_every_distance_alike() {
        let mut at = [0; 4];
        for number in 0..800 {
            let query = DATA.query(number);
            if let Some(stored) = query.planted {
                assert!(DATA.holds(stored));
                at[(stored ^ query.fingerprint).count_ones() as usize] += 1;
            }
        }
        assert_eq!(at, [100; 4]);
    }

    #[test]
    fn the_digest_is_that_of_python() {
        assert_eq!(format!("{:016x}", DATA.digest()), "e52bae5e52329352");
    }
}

//! The sets of ranks that a small change of a text flips, the likeliest first.
//!
//! Bit r of a mask stands for rank r. The list comes from a Gaussian model of the sums of two
//! similar texts; no real text went into it. It is part of the rule, so it never changes.

/// The number of ranks that the listed sets are made of.
pub const RANKS: usize = 14;

/// The masks, each of at least two ranks.
pub(super) const MASKS: [u16; 192] = [
    3, 5, 6, 9, 7, 10, 17, 11, 12, 18, 33, 13, 19, 20, 34, 14, 65, 21, 24, 15, 35, 36, 66, 22, 129,
    25, 37, 40, 23, 67, 68, 130, 26, 257, 38, 41, 48, 69, 27, 72, 28, 131, 132, 39, 258, 42, 49,
    29, 70, 513, 73, 80, 133, 136, 43, 259, 44, 260, 71, 30, 50, 74, 514, 81, 96, 134, 31, 45, 137,
    1025, 144, 51, 261, 264, 52, 75, 76, 135, 515, 82, 516, 46, 97, 138, 145, 53, 160, 1026, 262,
    56, 265, 272, 77, 47, 2049, 83, 84, 517, 139, 98, 520, 140, 54, 263, 146, 57, 1027, 161, 192,
    1028, 78, 266, 273, 288, 85, 55, 88, 99, 2050, 141, 518, 100, 521, 79, 147, 528, 58, 148, 4097,
    267, 162, 1029, 193, 268, 1032, 86, 274, 320, 289, 89, 142, 519, 59, 2051, 101, 2052, 60, 104,
    149, 522, 529, 544, 152, 163, 87, 269, 164, 1030, 4098, 194, 275, 143, 1033, 1040, 276, 90, 61,
    384, 290, 321, 102, 8193, 105, 2053, 150, 112, 523, 524, 2056, 153, 270, 530, 1031, 165, 576,
    545, 91, 168, 195, 92, 277, 4099,
];

/// The place in the list of each set of ranks, or [`UNLISTED`].
static PLACES: [u8; 1 << RANKS] = places();

const UNLISTED: u8 = u8::MAX;

/// Whether a set of ranks is one of the first `count` masks.
pub(super) fn is_listed(ranks: u16, count: usize) -> bool {
    usize::from(PLACES[usize::from(ranks) % (1 << RANKS)]) < count
}

const fn places() -> [u8; 1 << RANKS] {
    let mut places = [UNLISTED; 1 << RANKS];
    let mut at = 0;
    while at < MASKS.len() {
        places[MASKS[at] as usize] = at as u8;
        at += 1;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_sets_of_ranks_and_each_is_listed_from_its_place_on() {
        for (at, &mask) in MASKS.iter().enumerate() {
            assert!(mask.count_ones() >= 2 && mask < 1 << RANKS);
            assert!(!is_listed(mask, at) && is_listed(mask, at + 1), "{mask} at {at}");
        }
        assert!(!is_listed(0, MASKS.len()) && !is_listed(1, MASKS.len()));
    }
}

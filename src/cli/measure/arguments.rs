//! Values of command line arguments: sizes, times, distances and similarities.

use std::time::Duration;

use nearprint_fingerprint::Distance;

/// Reads `250`, `10k`, `1m`, and `1g` or `1b`; at least 1.
///
/// # Errors
/// What a size looks like.
pub fn count(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = match lower.as_bytes().last() {
        Some(b'k') => (&lower[..lower.len() - 1], 1_000),
        Some(b'm') => (&lower[..lower.len() - 1], 1_000_000),
        Some(b'g' | b'b') => (&lower[..lower.len() - 1], 1_000_000_000),
        Some(_) | None => (lower.as_str(), 1),
    };
    let number: Option<u64> = digits.parse().ok();
    let counted = number.and_then(|number: u64| number.checked_mul(unit));
    counted
        .filter(|&count| count > 0)
        .ok_or_else(|| "is not a size such as 250, 10k, 1m or 1b".into())
}

/// Reads `250`, `10k`, `1m`, `64g` or `64GiB` as a number of bytes; the units are powers of 1,024.
///
/// # Errors
/// What a size looks like.
pub fn bytes(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let short = lower.trim_end_matches("ib");
    let digits = short.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &short[digits.len()..] {
        "" if short.len() == lower.len() => Some(0),
        "k" => Some(10),
        "m" => Some(20),
        "g" => Some(30),
        "t" => Some(40),
        _ => None,
    };
    let number: Option<u64> = digits.trim_end().parse().ok();
    let counted = number.zip(shift).and_then(|(number, shift)| number.checked_mul(1 << shift));
    let is_size = counted.filter(|&bytes| bytes > 0);
    is_size.ok_or_else(|| "is not a size in bytes such as 500m or 64g".to_owned())
}

/// Reads a distance that an index can be made for.
///
/// # Errors
/// Which distances there are.
pub fn distance(text: &str) -> Result<Distance, String> {
    let distance = text.parse().ok().and_then(Distance::new);
    distance
        .filter(|&distance| distance <= Distance::LOOKUP_MAX)
        .ok_or_else(|| format!("is not a distance of 0 to {}", Distance::LOOKUP_MAX))
}

/// Reads a similarity.
///
/// # Errors
/// Which similarities there are.
pub fn similarity(text: &str) -> Result<f64, String> {
    let similarity = text.parse().ok().filter(|similarity| (0.0..=1.0).contains(similarity));
    similarity.ok_or_else(|| "is not a number from 0 to 1".to_owned())
}

/// The longest time that a command can be told to wait.
const TIMEOUT_MAX: Duration = Duration::from_hours(24);

/// Reads a time in seconds, whole or not.
///
/// # Errors
/// Which times there are.
pub fn timeout(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok();
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero() && *time <= TIMEOUT_MAX)
        .ok_or_else(|| format!("it takes seconds, above 0 and up to {}", TIMEOUT_MAX.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_units_in_which_they_are_shown() {
        let units = [("7", 7), ("10k", 10 << 10), ("256M", 256 << 20), ("64g", 64 << 30)];
        for (text, read) in units.into_iter().chain([("2 GiB", 2 << 30), ("1TiB", 1 << 40)]) {
            assert_eq!(bytes(text), Ok(read), "{text}");
        }
        for text in ["", "0", "g", "ib", "5ib", "1.5g", "-1", "7x", "9gg", "99999999999t"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_suffixes_and_are_never_zero() {
        let giga = [("2g", 2_000_000_000), ("1b", 1_000_000_000)];
        for (text, read) in [("7", 7), ("10k", 10_000), ("1M", 1_000_000)].into_iter().chain(giga) {
            assert_eq!(count(text), Ok(read), "{text}");
        }
        for text in ["", "k", "0", "1.5m", "-1", "10 k", "99999999999g"] {
            assert!(count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn similarities_are_parts_of_one() {
        assert_eq!(
            [similarity("0"), similarity("0.83"), similarity("1")],
            [Ok(0.0), Ok(0.83), Ok(1.0)]
        );
        for text in ["-0.1", "1.01", "NaN", "", "83%"] {
            assert!(similarity(text).is_err(), "{text}");
        }
    }

    #[test]
    fn distances_end_where_look_ups_do() {
        assert_eq!(distance("12"), Ok(Distance::LOOKUP_MAX));
        assert!(distance("13").is_err());
        assert!(distance("three").is_err());
    }

    #[test]
    fn times_to_wait_are_neither_nothing_nor_for_ever() {
        assert_eq!(timeout("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(timeout("86400"), Ok(TIMEOUT_MAX));
        for wrong in ["0", "-1", "inf", "nan", "86401", "1e300", "soon", ""] {
            assert!(timeout(wrong).is_err(), "{wrong}");
        }
    }
}

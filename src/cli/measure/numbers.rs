//! Counts as floating-point numbers, and both as people read them.

use indicatif::HumanCount;

/// A count for a division. Exact up to 2^53, which no count here reaches.
#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds stay below 2^53")]
pub fn float(count: u64) -> f64 {
    count as f64
}

/// How many a second; 0 where no time passed.
pub fn per_second(count: u64, ns: u64) -> f64 {
    ratio(count, ns) * 1e9
}

/// A quotient; 0 of nothing.
pub fn ratio(of: u64, to: u64) -> f64 {
    if to == 0 { 0.0 } else { float(of) / float(to) }
}

/// A positive number with three digits or more: `1,234,567`, `12.3`, `1.23`.
pub fn number(value: f64) -> String {
    if value >= 100.0 {
        whole(value)
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// A count with separators.
pub fn count(count: u64) -> String {
    HumanCount(count).to_string()
}

/// A time in the unit that fits.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns < 10_000.0 => format!("{} ns", whole(ns)),
        ns if ns < 1e7 => format!("{} us", number(ns / 1e3)),
        ns if ns < 1e10 => format!("{} ms", number(ns / 1e6)),
        ns => format!("{} s", number(ns / 1e9)),
    }
}

/// A size in binary units.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        bytes if bytes < 10 << 10 => format!("{bytes} B"),
        bytes if bytes < 1 << 20 => format!("{} KiB", whole(ratio(bytes, 1 << 10))),
        bytes if bytes < 10 << 30 => format!("{} MiB", whole(ratio(bytes, 1 << 20))),
        bytes => format!("{} GiB", whole(ratio(bytes, 1 << 30))),
    }
}

/// Rounded, with separators.
#[expect(clippy::cast_sign_loss, reason = "what is measured is not negative")]
fn whole(value: f64) -> String {
    count(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits_and_times_a_unit() {
        assert_eq!(number(1_234_567.4), "1,234,567");
        assert_eq!([number(45.66), number(3.456), number(0.0)], ["45.7", "3.46", "0.00"]);
        assert_eq!([time(987.4), time(9_999.0), time(45_600.0)], ["987 ns", "9,999 ns", "45.6 us"]);
        assert_eq!([time(12_345_678.0), time(2.5e10)], ["12.3 ms", "25.0 s"]);
        assert_eq!([bytes(512), bytes(64 << 20), bytes(24 << 30)], ["512 B", "64 MiB", "24 GiB"]);
    }

    #[test]
    fn nothing_a_time_that_did_not_pass_is_nothing() {
        assert!(per_second(5, 0).abs() < f64::EPSILON);
        assert!((per_second(5, 1_000_000_000) - 5.0).abs() < f64::EPSILON);
    }
}

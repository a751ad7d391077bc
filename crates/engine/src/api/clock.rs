//! The time, which the engine reads here only and passes on from here.

use std::time::{Duration, Instant, SystemTime};

use nearprint_machine::document::Expiry;

/// A clock that differs by more than this from what the last reading let expect was set.
const SET_MS_MIN: u64 = 1_000;
/// A reading that took longer than this shows nothing: the thread was interrupted.
const READING_MAX: Duration = Duration::from_millis(100);

/// Milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// This moment, to measure a duration from.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Notices that the clock was set, by comparing it with the time that has passed.
#[derive(Debug)]
pub(crate) struct ClockWatch {
    last: Reading,
}

/// What the clock said.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    ms: u64,
}

impl ClockWatch {
    pub(crate) fn new() -> Self {
        let now_ms = now_ms();
        warn_if_beyond(now_ms);
        Self { last: Reading { at: now(), ms: now_ms } }
    }

    /// Reads the clock. If it was set since the last time, logs that, and returns by how many
    /// milliseconds; back if it is negative.
    pub(crate) fn read(&mut self) -> Option<i64> {
        let (begun, ms, at) = (now(), now_ms(), now());
        if at - begun > READING_MAX {
            return None;
        }
        let by_ms = self.compare(Reading { at, ms })?;
        let now = utc(ms);
        let by = duration(by_ms.unsigned_abs());
        let way = if by_ms < 0 { "back" } else { "forward" };
        tracing::warn!(by, by_ms, now, "the clock was set {way}");
        warn_if_beyond(ms);
        Some(by_ms)
    }

    fn compare(&mut self, now: Reading) -> Option<i64> {
        let Reading { at, ms } = std::mem::replace(&mut self.last, now);
        let expected = ms.saturating_add((now.at - at).as_millis() as u64);
        let by_ms = i64::try_from(i128::from(now.ms) - i128::from(expected)).ok()?;
        (by_ms.unsigned_abs() > SET_MS_MIN).then_some(by_ms)
    }
}

fn warn_if_beyond(now_ms: u64) {
    if Expiry::MAX.has_passed(now_ms) {
        let now = utc(now_ms);
        tracing::warn!(now, "the clock is past 2106: documents that are to expire are refused");
    }
}

/// A time in milliseconds since 1970 for people, such as `2026-03-01T12:00:00Z`.
pub(crate) fn utc(ms: u64) -> String {
    let (mut days, second) = (ms / 86_400_000, ms / 1_000 % 86_400);
    // Years of 400 have the same days; counted from a March the leap day comes last.
    days += 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leaps = day_of_era / 1_460 + day_of_era / 146_096 - day_of_era / 36_524;
    let year = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

/// A duration for people, in its two largest units: `80 years and 37 days`, `2 hours`.
pub(crate) fn duration(ms: u64) -> String {
    const UNITS: [(&str, u64); 5] =
        [("year", 31_557_600), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)];
    let seconds = ms / 1_000;
    let mut rest = seconds;
    let counted = UNITS.map(|(unit, length)| {
        let count = rest / length;
        rest %= length;
        (unit, count)
    });
    let largest = counted.iter().position(|(_, count)| *count > 0).unwrap_or(UNITS.len() - 1);
    let shown = |(unit, count): &(&str, u64)| {
        let plural = if *count == 1 { "" } else { "s" };
        format!("{count} {unit}{plural}")
    };
    let next = counted.get(largest + 1).filter(|(_, count)| *count > 0);
    match next {
        Some(next) => format!("{} and {}", shown(&counted[largest]), shown(next)),
        None => shown(&counted[largest]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_utc() {
        for (second, shown) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_772_366_399, "2026-03-01T11:59:59Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (4_294_967_295, "2106-02-07T06:28:15Z"),
        ] {
            assert_eq!(utc(second * 1_000 + 999), shown);
        }
    }

    #[test]
    fn a_duration_is_shown_in_its_two_largest_units() {
        for (seconds, shown) in [
            (0, "0 seconds"),
            (61, "1 minute and 1 second"),
            (7_200, "2 hours"),
            (7_201, "2 hours"),
            (90_000, "1 day and 1 hour"),
            (31_557_600 * 80 + 86_400 * 37, "80 years and 37 days"),
        ] {
            assert_eq!(duration(seconds * 1_000), shown);
        }
    }

    #[test]
    fn a_clock_that_was_set_is_noticed_and_one_that_runs_is_not() {
        let at = now();
        let mut watch = ClockWatch { last: Reading { at, ms: 10_000_000 } };
        let mut read =
            |after_ms, ms| watch.compare(Reading { at: at + Duration::from_millis(after_ms), ms });
        assert_eq!(read(200, 10_000_200), None);
        // As a clock does that is slewed.
        assert_eq!(read(60_200, 10_060_900), None);
        assert_eq!(read(60_400, 17_261_100), Some(7_200_000));
        assert_eq!(read(60_600, 17_261_300), None);
        assert_eq!(read(60_800, 10_061_500), Some(-7_200_000));
        assert_eq!(read(61_000, 0), Some(-10_061_700));
    }
}

//! When changes were made: the first change of each second, for look-ups by age.
//!
//! Time comes with the changes and never goes back. Every second of the last day that had a change
//! is known, and every minute before it: 12 bytes each, at most about 7 MiB for each year. So an
//! age of more than a day is exact to the minute.

use imbl::OrdMap;

use crate::document::Sequence;

/// A second is kept for this long.
const SECONDS_KEPT: u32 = 24 * 60 * 60;

/// The first change of each second.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    /// The newest time that the changes have named, in milliseconds since 1970.
    now_ms: u64,
    /// Seconds since 1970, each with its first change.
    firsts: OrdMap<u32, Sequence>,
    newest: u32,
    /// Seconds before this one are thinned to minutes.
    thinned: u32,
}

impl Times {
    /// From the newest time and the seconds that were kept, ascending.
    pub fn restored(now_ms: u64, firsts: impl Iterator<Item = (u32, Sequence)>) -> Self {
        let mut times = Self { now_ms, ..Self::default() };
        for (second, first) in firsts {
            times.add(second, first);
        }
        times
    }

    /// The newest time, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The newest time, in seconds since 1970.
    pub fn now_s(&self) -> u32 {
        second(self.now_ms)
    }

    /// Moves the time on. An earlier time leaves it as it is. Returns the time.
    pub fn advance(&mut self, at_ms: u64) -> u64 {
        self.now_ms = self.now_ms.max(at_ms);
        self.now_ms
    }

    /// Notes a change that is made now.
    #[inline]
    pub fn note(&mut self, change: Sequence) {
        let now = self.now_s();
        if now > self.newest {
            self.add(now, change);
        }
    }

    /// The first change that was made in this second or later; `None` if none was.
    pub fn first_since(&self, second: u32) -> Option<Sequence> {
        self.firsts.get_next(&second).map(|(_, first)| *first)
    }

    /// The first change that is known of the last second, up to this one, in which something
    /// changed: all changes before it were made before that second.
    pub fn last_until(&self, second: u32) -> Option<Sequence> {
        self.firsts.get_prev(&second).map(|(_, first)| *first)
    }

    /// The seconds that are kept, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Sequence)> + '_ {
        self.firsts.iter().map(|(second, first)| (*second, *first))
    }

    /// The number of seconds that are kept.
    pub fn len(&self) -> usize {
        self.firsts.len()
    }

    /// Whether no second is kept.
    pub fn is_empty(&self) -> bool {
        self.firsts.is_empty()
    }

    fn add(&mut self, second: u32, first: Sequence) {
        self.newest = second;
        self.firsts.insert(second, first);
        let old = second.saturating_sub(SECONDS_KEPT);
        while let Some(next) = self.firsts.get_next(&self.thinned).map(|(&next, _)| next)
            && next < old
        {
            let minute = next - next % 60;
            let is_first =
                self.firsts.get_prev(&(next - 1)).is_none_or(|(&before, _)| before < minute);
            if !is_first {
                self.firsts.remove(&next);
            }
            self.thinned = next + 1;
        }
    }
}

/// The second of a time in milliseconds.
pub fn second(at_ms: u64) -> u32 {
    u32::try_from(at_ms / 1_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list of all changes: exact within a day, to the minute beyond.
        #[test]
        fn the_first_change_since_a_second_is_found(
            steps in prop::collection::vec(prop_oneof![8 => 0_u64..3_000, 1 => 0_u64..40_000_000], 1..300),
            ages in prop::collection::vec(0_u32..400_000, 1..30),
        ) {
            let mut times = Times::default();
            let (mut at_ms, mut all) = (1_000_000_000_000, Vec::new());
            for (change, step) in (1..).zip(steps) {
                at_ms += step;
                prop_assert_eq!(times.advance(at_ms - step / 2), at_ms - step / 2);
                times.advance(at_ms);
                times.note(Sequence::new(change));
                all.push((second(at_ms), Sequence::new(change)));
            }
            let again = Times::restored(times.now_ms(), times.iter());
            for age in ages {
                let wanted = times.now_s() - age;
                let first = |from: u32| all.iter().find(|(at, _)| *at >= from).map(|(_, change)| *change);
                let found = times.first_since(wanted);
                if age < SECONDS_KEPT {
                    prop_assert_eq!(found, first(wanted));
                } else {
                    prop_assert!(found >= first(wanted));
                    prop_assert!(found <= first(wanted.next_multiple_of(60)));
                }
                prop_assert_eq!(again.first_since(wanted), found);
            }
        }
    }

    #[test]
    fn a_year_of_seconds_is_kept_as_minutes() {
        let mut times = Times::default();
        for second in 0..3 * SECONDS_KEPT {
            times.advance(u64::from(second) * 1_000);
            times.note(Sequence::new(u64::from(second) + 1));
        }
        let minutes = 2 * SECONDS_KEPT / 60;
        let kept = times.len() as u32;
        assert!(
            (SECONDS_KEPT + minutes - 61..=SECONDS_KEPT + minutes + 61).contains(&kept),
            "{kept}"
        );
    }

    #[test]
    fn time_never_goes_back() {
        let mut times = Times::default();
        assert_eq!(times.advance(5_000), 5_000);
        assert_eq!(times.advance(4_000), 5_000);
        assert_eq!(times.now_s(), 5);
    }
}

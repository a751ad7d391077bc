//! When changes were made: the first change of each second, for look-ups by age.
//!
//! The last seconds that had a change are known, as many as a day has, and every minute before
//! them: 12 bytes each, at most about 7 MiB for each year. So an age of more than a day is exact to
//! the minute.
//!
//! Time comes with the changes, and goes back when a clock is set back. Changes keep their order
//! all the same: a change counts as made no later than any after it. So what was stored while a
//! clock ran ahead counts as stored when the clock was right again.
//!
//! But the clock may have been right before it went back, and wrong afterwards. Then time comes to
//! the second before the step again not by passing, but by a second step: forward, by at least half
//! of the way back. In that case what was made between the two steps counts as made at the time of
//! the first one, and everything before it keeps its time.

use imbl::OrdMap;

use crate::document::Sequence;

/// So many of the last seconds with a change are kept. It is a number and not an age, because a
/// clock that is set forward for a moment must not make everything coarse.
const SECONDS_KEPT: u32 = 24 * 60 * 60;

/// The first change of each second.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// The time of the newest command, in milliseconds since 1970.
    now_ms: u64,
    /// Seconds since 1970, each with its first change; ascending in both.
    firsts: OrdMap<u32, Sequence>,
    /// The second of the newest change.
    newest: Option<u32>,
    /// Seconds before this one are thinned to minutes.
    thinned: u32,
    /// How many are left of them.
    minutes: usize,
    /// Where the clock has gone back, until it is known which time was right.
    doubt: Option<Doubt>,
}

/// A clock has gone back.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Doubt {
    /// As far as this second.
    until: u32,
    /// The seconds that it has gone back over, with their changes. Not empty.
    passed_over: OrdMap<u32, Sequence>,
}

impl PartialEq for Times {
    fn eq(&self, other: &Self) -> bool {
        // How far the seconds are thinned shows in the seconds.
        self.now_ms == other.now_ms && self.iter().eq(other.iter())
    }
}

impl Eq for Times {}

impl Times {
    /// From the newest time and what [`Self::iter`] gave.
    pub fn restored(now_ms: u64, firsts: impl Iterator<Item = (u32, Sequence)>) -> Self {
        let mut times = Self { now_ms, ..Self::default() };
        for (second, first) in firsts {
            if first == Sequence::ZERO {
                times.doubt = Some(Doubt { until: second, passed_over: OrdMap::new() });
            } else if let Some(Doubt { passed_over, .. }) = &mut times.doubt {
                passed_over.insert(second, first);
            } else {
                times.add(second, first);
            }
        }
        times.doubt = times.doubt.filter(|doubt| !doubt.passed_over.is_empty());
        times
    }

    /// The time of the newest command, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The same in seconds since 1970.
    pub fn now_s(&self) -> u32 {
        second(self.now_ms)
    }

    /// Sets the time to that of the next command.
    pub fn set(&mut self, at_ms: u64) {
        self.now_ms = at_ms;
    }

    /// Notes a change that is made now.
    #[inline]
    pub fn note(&mut self, change: Sequence) {
        let now = self.now_s();
        if self.newest != Some(now) {
            self.note_second(now, change);
        }
    }

    fn note_second(&mut self, now: u32, change: Sequence) {
        if self.newest.is_some_and(|newest| now < newest) {
            self.go_back(now, change);
            return;
        }
        if let Some(doubt) = self.doubt.take_if(|doubt| now >= doubt.from())
            && doubt.was_wrong(self.newest, now)
        {
            self.restore(doubt);
        }
        self.add(now, change);
    }

    /// The clock has gone back to this second.
    fn go_back(&mut self, now: u32, change: Sequence) {
        let mut doubt =
            self.doubt.take().unwrap_or(Doubt { until: now, passed_over: OrdMap::new() });
        doubt.until = now.min(doubt.until);
        // What came after an earlier step back is not kept: that one decides.
        let doubted = doubt.passed_over.get_min().map_or(change, |(_, first)| *first);
        let mut first = change;
        while let Some((second, noted)) = self.firsts.get_max().copied()
            && second > now
        {
            self.firsts.remove(&second);
            if noted < doubted {
                doubt.passed_over.insert(second, noted);
            }
            first = noted;
        }
        self.firsts.entry(now).or_insert(first);
        self.newest = Some(now);
        (self.thinned, self.minutes) = (0, 0);
        self.doubt = Some(doubt);
    }

    /// The clock was right before it went back.
    fn restore(&mut self, doubt: Doubt) {
        while let Some((second, first)) = self.firsts.get_max().copied()
            && first >= doubt.first()
        {
            self.firsts.remove(&second);
        }
        self.newest = Some(doubt.from());
        (self.thinned, self.minutes) = (0, 0);
        self.firsts.extend(doubt.passed_over);
    }

    /// The first change that was made at most this many seconds before a time, or after it; `None`
    /// if none was. As for a change that is made at that time.
    pub fn first_within(&self, age_s: u32, now: u32) -> Option<Sequence> {
        let since = now.saturating_sub(age_s);
        let doubt = self.doubt.as_ref().filter(|doubt| doubt.was_wrong(self.newest, now));
        let Some(doubt) = doubt else { return self.first_since(since) };
        let before = self.firsts.get_next(&since).filter(|(_, first)| **first < doubt.first());
        before.or_else(|| doubt.passed_over.get_next(&since)).map(|(_, first)| *first)
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

    /// The seconds that are kept, ascending. Where it is not known yet whether a clock has gone
    /// back rightly, there follow the second to which it has gone back, with [`Sequence::ZERO`],
    /// and those that it has gone back over, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Sequence)> + '_ {
        let known = |(second, first): (&u32, &Sequence)| (*second, *first);
        let doubt = self.doubt.iter().flat_map(move |doubt| {
            let until = std::iter::once((doubt.until, Sequence::ZERO));
            until.chain(doubt.passed_over.iter().map(known))
        });
        self.firsts.iter().map(known).chain(doubt)
    }

    /// The length of [`Self::iter`].
    pub fn len(&self) -> usize {
        let doubt = self.doubt.as_ref();
        self.firsts.len() + doubt.map_or(0, |doubt| 1 + doubt.passed_over.len())
    }

    /// Whether no second is kept.
    pub fn is_empty(&self) -> bool {
        self.firsts.is_empty()
    }

    fn add(&mut self, second: u32, first: Sequence) {
        self.newest = Some(second);
        // After a doubt has ended, the second may have an earlier change.
        self.firsts.entry(second).or_insert(first);
        while self.firsts.len() - self.minutes > SECONDS_KEPT as usize
            && let Some((&next, _)) = self.firsts.get_next(&self.thinned)
        {
            let minute = next - next % 60;
            let is_first = next == 0
                || self.firsts.get_prev(&(next - 1)).is_none_or(|(&before, _)| before < minute);
            if is_first {
                self.minutes += 1;
            } else {
                self.firsts.remove(&next);
            }
            self.thinned = next + 1;
        }
    }
}

impl Doubt {
    /// The second from which the clock has gone back.
    fn from(&self) -> u32 {
        self.passed_over.get_max().map_or(self.until, |(second, _)| *second)
    }

    /// The first change whose time is in doubt.
    fn first(&self) -> Sequence {
        self.passed_over.get_min().map_or(Sequence::ZERO, |(_, first)| *first)
    }

    /// Whether the clock was wrong when it went back: it comes to this second in one step after the
    /// newest change.
    fn was_wrong(&self, newest: Option<u32>, now: u32) -> bool {
        let step = now.saturating_sub(newest.unwrap_or(now));
        let back = self.from().saturating_sub(self.until);
        now >= self.from() && u64::from(step) * 2 >= u64::from(back)
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

    /// When each change counts as made, in seconds since 1970: all of them, one after the other.
    fn counted(seconds: &[u32]) -> Vec<u32> {
        let (mut counted, mut before): (Vec<u32>, Option<(Vec<u32>, u32)>) = (Vec::new(), None);
        for &now in seconds {
            let last = counted.last().copied().unwrap_or(0);
            if now < last {
                let (_, until) = before.get_or_insert_with(|| (counted.clone(), now));
                *until = now.min(*until);
                for counted in &mut counted {
                    *counted = now.min(*counted);
                }
            } else if let Some((right, until)) = &before
                && let Some(&back_from) = right.last()
                && now >= back_from
            {
                if u64::from(now - last) * 2 >= u64::from(back_from - until) {
                    let meanwhile = counted.len() - right.len();
                    counted = right.clone();
                    counted.extend(std::iter::repeat_n(back_from, meanwhile));
                }
                before = None;
            }
            counted.push(now);
        }
        counted
    }

    /// The times after one change in each of these seconds.
    fn noted(seconds: &[u32]) -> Times {
        let mut times = Times::default();
        for (change, second) in (1..).zip(seconds) {
            times.set(u64::from(*second) * 1_000 + 7);
            times.note(Sequence::new(change));
        }
        times
    }

    /// A clock that runs on, and is set at times.
    fn clock() -> impl Strategy<Value = Vec<u32>> {
        let step = prop_oneof![
            24 => 0_i64..3,
            2 => 0_i64..40_000,
            1 => -8_i64..8,
            1 => -7_200_i64..7_200,
            1 => prop::sample::select(vec![-1_700_000_000, 1_700_000_000, 3_000_000_000]),
        ];
        prop::collection::vec(step, 1..300).prop_map(|steps| {
            let mut now = 1_700_000_000_i64;
            let second = |step: i64| {
                now = (now + step).clamp(0, u32::MAX.into());
                u32::try_from(now).unwrap()
            };
            steps.into_iter().map(second).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Against a list of all changes: exact within a day, to the minute beyond.
        #[test]
        fn the_first_change_since_a_second_is_found(
            seconds in clock(),
            ages in prop::collection::vec(0_u32..400_000, 1..30),
        ) {
            let times = noted(&seconds);
            let counted = counted(&seconds);
            let again = Times::restored(times.now_ms(), times.iter());
            prop_assert_eq!(&again, &times);
            let newest = counted.iter().copied().max().unwrap_or(0);
            for age in ages {
                let wanted = times.now_s().saturating_sub(age);
                let first = |from: u32| {
                    let at = counted.iter().position(|at| *at >= from)?;
                    Some(Sequence::new(at as u64 + 1))
                };
                let found = times.first_since(wanted);
                if newest - wanted < SECONDS_KEPT {
                    prop_assert_eq!(found, first(wanted));
                } else {
                    prop_assert!(found >= first(wanted));
                    let minute = first(wanted.checked_next_multiple_of(60).unwrap_or(u32::MAX));
                    prop_assert!(minute.is_none() || found <= minute);
                }
                prop_assert_eq!(again.first_since(wanted), found);
            }
        }

        /// A look-up sees what a change of that moment would find.
        #[test]
        fn a_look_up_counts_as_a_change_at_its_time_would(
            seconds in clock(),
            ages in prop::collection::vec(0_u32..90_000, 1..30),
        ) {
            let (&now, before) = seconds.split_last().unwrap_or((&0, &[]));
            let times = noted(before);
            let counted = counted(&seconds);
            let is_exact = |age: &u32| {
                let newest = counted.iter().chain(before).max().copied().unwrap_or(0);
                newest.saturating_sub(now.saturating_sub(*age)) < SECONDS_KEPT
            };
            for age in ages.into_iter().filter(is_exact) {
                let since = now.saturating_sub(age);
                let first = counted[..before.len()].iter().position(|at| *at >= since);
                let first = first.map(|at| Sequence::new(at as u64 + 1));
                prop_assert_eq!(times.first_within(age, now), first, "{} {}", age, now);
            }
        }

        /// What is restored goes on as the other does.
        #[test]
        fn what_is_restored_goes_on_alike(seconds in clock(), at in 0_usize..300) {
            let at = at.min(seconds.len());
            let before = noted(&seconds[..at]);
            let mut again = Times::restored(before.now_ms(), before.iter());
            for (change, second) in (at as u64 + 1..).zip(&seconds[at..]) {
                again.set(u64::from(*second) * 1_000 + 7);
                again.note(Sequence::new(change));
            }
            prop_assert_eq!(again, noted(&seconds));
        }
    }

    #[test]
    fn a_jump_of_the_clock_makes_nothing_coarser() {
        let seconds: Vec<u32> = (1_000_000..1_000_200).chain([2_000_000_000, 1_000_200]).collect();
        let times = noted(&seconds);
        for second in 1_000_000..1_000_200 {
            assert_eq!(since(&times, second), u64::from(second) - 999_999, "{second}");
        }
    }

    #[test]
    fn a_look_up_knows_at_once_that_a_clock_ran_behind() {
        let times = noted(&[10_000, 10_001, 1, 2]);
        assert_eq!(times.first_within(5, 10_005), Some(Sequence::new(1)));
        assert_eq!(times.first_within(5, 10_006), Some(Sequence::new(2)));
        assert_eq!(times.first_within(5, 10_007), None);
        assert_eq!(times.first_within(5, 3), Some(Sequence::new(1)));
    }

    fn since(times: &Times, second: u32) -> u64 {
        times.first_since(second).map_or(0, Sequence::get)
    }

    #[test]
    fn what_came_while_a_clock_ran_ahead_counts_as_made_when_it_was_right_again() {
        let times = noted(&[1_000, 1_001, 8_200, 8_201, 1_003, 1_010]);
        assert_eq!(times.now_s(), 1_010);
        assert_eq!((since(&times, 1_001), since(&times, 1_002), since(&times, 1_004)), (2, 3, 6));
        assert_eq!(since(&times, 1_011), 0);
        // Time passes over the second that the wrong clock had shown.
        let seconds: Vec<u32> = [1_000, 8_200].into_iter().chain(1_003..9_000).collect();
        assert_eq!(since(&noted(&seconds), 8_200), u64::from(8_200_u32 - 1_003) + 3);
    }

    #[test]
    fn a_clock_that_ran_behind_for_a_moment_makes_nothing_older() {
        let times = noted(&[10_000, 10_001, 1, 2, 10_005]);
        assert_eq!((since(&times, 10_000), since(&times, 10_001)), (1, 2));
        assert_eq!((since(&times, 10_002), since(&times, 10_006)), (5, 0));
        // While it runs behind, nothing is newer than its time.
        assert_eq!(since(&noted(&[10_000, 10_001, 1, 2]), 2), 4);
    }

    #[test]
    fn a_year_of_seconds_is_kept_as_minutes() {
        let mut times = Times::default();
        for second in 0..3 * SECONDS_KEPT {
            times.set(u64::from(second) * 1_000);
            times.note(Sequence::new(u64::from(second) + 1));
        }
        let minutes = 2 * SECONDS_KEPT / 60;
        let kept = times.len() as u32;
        assert!(
            (SECONDS_KEPT + minutes - 61..=SECONDS_KEPT + minutes + 61).contains(&kept),
            "{kept}"
        );
    }
}

//! Verifies answers: no hit is missed, and none is false.
//!
//! Each planted fingerprint must be among the answers. Each answer must have the distance that it
//! claims, within that of the query, and be stored according to [`super::data::Members`], which
//! share nothing with the index. A few queries are compared with all stored fingerprints one by
//! one. Not timed.

use anyhow::{Result, bail};
use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_index::view::{Near, View};
use nearprint_index::visibility::Visibility;
use serde::Serialize;

use crate::data::{Queries, Stored};

/// Queries that are compared with all stored fingerprints, one by one.
const SCANNED: usize = 32;

/// The verdict on some answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    /// Answers looked at: of single look-ups, of batches.
    pub(super) checked: u64,
    /// Stored fingerprints that they named.
    pub(super) hits: u64,
    /// Stored fingerprints that they should have named.
    pub(super) missed: u64,
    /// Hits that are not stored, too far away, or at another distance than said.
    #[serde(rename = "false")]
    pub(super) wrong: u64,
}

impl Verdict {
    pub(super) fn add(&mut self, other: Self) {
        self.checked += other.checked;
        self.hits += other.hits;
        self.missed += other.missed;
        self.wrong += other.wrong;
    }

    /// An error if anything was wrong: the command ends with 1.
    pub(super) fn as_result(&self) -> Result<()> {
        if self.missed > 0 || self.wrong > 0 {
            bail!(
                "of {} answers, {} stored fingerprints are missing and {} hits are false",
                self.checked,
                self.missed,
                self.wrong
            );
        }
        Ok(())
    }

    /// The answer to one query: a list of what is near.
    pub(super) fn check(
        &mut self,
        (query, plant): (Fingerprint, Option<Fingerprint>),
        found: &[Near],
        distance: Distance,
        is_stored: impl Fn(Fingerprint) -> bool,
    ) {
        let is_true = |near: &&Near| {
            near.distance <= distance
                && query.distance(near.fingerprint) == near.distance
                && is_stored(near.fingerprint)
        };
        let named = |plant: Fingerprint| found.iter().any(|near| near.fingerprint == plant);
        self.checked += 1;
        self.hits += found.len() as u64;
        self.missed += u64::from(plant.is_some_and(|plant| !named(plant)));
        self.wrong += found.iter().filter(|near| !is_true(near)).count() as u64;
    }

    /// The answer to one query of a batch: the distance of the nearest, compared with the result
    /// of a single look-up, or with the plant where there was none.
    pub(super) fn check_nearest(&mut self, said: Option<Distance>, truth: Option<Distance>) {
        self.checked += 1;
        self.hits += u64::from(said.is_some());
        match (said, truth) {
            (None, Some(_)) => self.missed += 1,
            (Some(said), Some(truth)) if said > truth => self.missed += 1,
            (Some(said), Some(truth)) if said < truth => self.wrong += 1,
            (Some(_), None) => self.wrong += 1,
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    /// Packed answers, 255 for none, where only the plants are known: each must be found, and no
    /// farther away than it is.
    pub(super) fn check_packed(&mut self, queries: &Queries, answers: &[u8], distance: Distance) {
        for ((query, plant), &answer) in queries.iter().zip(answers) {
            let said = Distance::new(answer).filter(|said| *said <= distance);
            let plant = plant.map(|plant| query.distance(plant));
            // Something else may be nearer than the plant.
            let truth = said.map_or(plant, |said| plant.map_or(Some(said), |p| Some(p.min(said))));
            self.check_nearest(said, truth);
            self.wrong += u64::from(said.is_none() && answer != u8::MAX);
        }
        self.missed += (queries.plants.len() as u64).saturating_sub(answers.len() as u64);
    }
}

/// Checks the single look-ups and the batches of a view.
pub(super) fn view(view: &View, stored: &Stored, queries: &Queries, distance: Distance) -> Verdict {
    let single = |query| view.near(query, distance, &Visibility::DEFAULT);
    let batch =
        |queries: &[Fingerprint]| view.nearest(queries, distance, Visibility::DEFAULT).collect();
    answers_of(single, batch, (stored, queries), distance)
}

/// Checks an index that is known by its answers alone.
fn answers_of(
    single: impl Fn(Fingerprint) -> Vec<Near>,
    batch: impl Fn(&[Fingerprint]) -> Vec<Option<Distance>>,
    (stored, queries): (&Stored, &Queries),
    distance: Distance,
) -> Verdict {
    let mut verdict = Verdict::default();
    let members = stored.members();
    let nearest = batch(&queries.fingerprints);
    verdict.missed += (queries.plants.len() as u64).abs_diff(nearest.len() as u64);
    for (query, said) in queries.iter().zip(nearest) {
        let found = single(query.0);
        verdict.check(query, &found, distance, |stored| members.contain(stored));
        verdict.check_nearest(said, found.iter().map(|near| near.distance).min());
    }
    verdict.add(against_all(single, (stored, queries), distance));
    verdict
}

/// Compares the answers to a few queries with a scan of everything.
fn against_all(
    single: impl Fn(Fingerprint) -> Vec<Near>,
    (stored, queries): (&Stored, &Queries),
    distance: Distance,
) -> Verdict {
    let few = &queries.fingerprints[..queries.fingerprints.len().min(SCANNED)];
    let mut near = vec![Vec::new(); few.len()];
    for fingerprint in stored.all() {
        for (query, near) in few.iter().zip(&mut near) {
            if query.distance(fingerprint) <= distance {
                near.push(fingerprint);
            }
        }
    }
    let mut verdict = Verdict::default();
    for (&query, mut near) in few.iter().zip(near) {
        near.sort_unstable();
        near.dedup();
        let mut found: Vec<_> = single(query).iter().map(|near| near.fingerprint).collect();
        found.sort_unstable();
        let missing = near.iter().filter(|stored| found.binary_search(stored).is_err()).count();
        let unknown = found.iter().filter(|found| near.binary_search(found).is_err()).count();
        verdict.checked += 1;
        verdict.hits += found.len() as u64;
        verdict.missed += missing as u64;
        verdict.wrong += unknown as u64;
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::view_of;

    const DISTANCE: Distance = Distance::new(3).expect("below 64");

    /// The verdict on an index of 2,000 fingerprints whose answers went through `spoil`.
    fn verdict_on(spoil: impl Fn(Fingerprint, Vec<Near>) -> Vec<Near>) -> Verdict {
        let stored = Stored::random(2_000, 1);
        let view = view_of(2_000, 1, DISTANCE);
        let queries = Queries::aimed_at((&stored, &stored.whole()), 400, DISTANCE, 1);
        let single = |query| spoil(query, view.near(query, DISTANCE, &Visibility::DEFAULT));
        let batch = |queries: &[Fingerprint]| {
            let nearest = |&query| single(query).iter().map(|near| near.distance).min();
            queries.iter().map(nearest).collect()
        };
        answers_of(single, batch, (&stored, &queries), DISTANCE)
    }

    #[test]
    fn right_answers_are_found_right() {
        let verdict = verdict_on(|_, found| found);
        assert_eq!((verdict.missed, verdict.wrong), (0, 0));
        // 400 single ones, 400 of a batch, 32 scans; every second one has a plant.
        assert_eq!((verdict.checked, verdict.hits), (832, 416));
        assert!(verdict.as_result().is_ok());
    }

    #[test]
    fn a_missing_answer_is_missed() {
        let verdict = verdict_on(|query, found| {
            found.into_iter().filter(|near| query.distance(near.fingerprint).get() != 3).collect()
        });
        assert!(verdict.missed >= 40, "{verdict:?}");
        assert_eq!(verdict.wrong, 0);
        let error = verdict.as_result().unwrap_err().to_string();
        assert!(error.contains("missing"), "{error}");
    }

    #[test]
    fn a_hit_that_is_not_stored_or_not_where_it_says_is_false() {
        let invented = verdict_on(|query, mut found| {
            found.push(Near { fingerprint: query, distance: Distance::default() });
            found
        });
        // All but the plants at distance 0, which are stored.
        assert!(invented.wrong > 300, "{invented:?}");
        let misplaced = verdict_on(|_, mut found| {
            for near in &mut found {
                near.distance = DISTANCE;
            }
            found
        });
        assert!(misplaced.wrong > 100, "{misplaced:?}");
        assert!(misplaced.as_result().is_err());
    }

    #[test]
    fn a_batch_must_say_what_single_look_ups_say() {
        let of = |said: Option<u8>, truth: Option<u8>| {
            let mut verdict = Verdict::default();
            let distance = |bits| Distance::new(bits).unwrap();
            verdict.check_nearest(said.map(distance), truth.map(distance));
            (verdict.missed, verdict.wrong)
        };
        assert_eq!([of(Some(2), Some(2)), of(None, None)], [(0, 0); 2]);
        assert_eq!([of(None, Some(2)), of(Some(3), Some(2))], [(1, 0); 2]);
        assert_eq!([of(Some(1), Some(2)), of(Some(1), None)], [(0, 1); 2]);
    }

    #[test]
    fn packed_answers_must_find_the_plants() {
        let stored = Stored::random(100, 1);
        let queries = Queries::aimed_at((&stored, &stored.whole()), 10, DISTANCE, 1);
        let truth = |(query, plant): (Fingerprint, Option<Fingerprint>)| {
            plant.map_or(u8::MAX, |plant| query.distance(plant).get())
        };
        let right: Vec<u8> = queries.iter().map(truth).collect();
        let of = |answers: &[u8]| {
            let mut verdict = Verdict::default();
            verdict.check_packed(&queries, answers, DISTANCE);
            (verdict.missed, verdict.wrong)
        };
        assert_eq!(of(&right), (0, 0));
        assert_eq!(of(&[u8::MAX; 10]), (5, 0));
        assert_eq!(of(&right[..4]), (6, 0));
        assert_eq!(of(&[100; 10]), (5, 10), "no distance that was asked for");
    }
}

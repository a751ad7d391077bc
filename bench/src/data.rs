//! The data and queries of the benchmarks, from a seed, so that a run can be repeated.
//!
//! A [`Stream`] is a random bijection of the numbers. A random set therefore needs no memory, and
//! still knows whether a fingerprint belongs to it: an oracle that shares nothing with the index.

use std::ops::Range;
use std::sync::Arc;

use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_index::permutation::Permutation;
use nearprint_index::plan::SMALL_MAX;
use nearprint_index::view::{Shape, View};

use crate::like_text::LikeText;
use crate::random::Stream;

/// Events in each delta of a built view: several times the default of a service, which builds
/// faster and makes no difference afterwards.
const DELTA_EVENTS: usize = 65_536;

/// The secret of the permutation of a built view.
const PERMUTATION_SECRET: u64 = 0x9e37_79b9_7f4a_7c15;

/// The distance of a query without a plant from the stored fingerprints of a list, as a rule.
const BITS_APART: Range<u64> = 8..17;

/// The most bits in which a member of the adversarial cluster differs from its template.
const CLUSTER_BITS_MAX: u64 = 4;

/// Turns a random number into that of a fresh document of a model.
const FRESH_SHIFT: u32 = 26;

/// How many fresh documents like text are drawn: as many as are stored, within these bounds, which
/// lasts for some seconds of inserts.
const FRESH_LIKE_TEXT: (u64, u64) = (1 << 16, 1 << 22);

/// Numbers of a stream one after the other.
#[derive(Debug)]
pub struct Dice {
    stream: Stream,
    place: u64,
}

impl Dice {
    /// The dice for one purpose of a run with a seed.
    pub fn of(purpose: &str, seed: u64) -> Self {
        Self::after(Stream::of(purpose, seed), 0)
    }

    /// The dice whose first number is the one after a place of a stream.
    pub fn after(stream: Stream, place: u64) -> Self {
        Self { stream, place }
    }

    /// The next number of the stream.
    pub fn roll(&mut self) -> u64 {
        self.place = self.place.wrapping_add(1);
        self.stream.number(self.place)
    }

    /// A random number of a range.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        let width = u128::from(range.end - range.start);
        range.start + ((u128::from(self.roll()) * width) >> 64) as u64
    }

    /// The fingerprint with exactly `bits` bits flipped.
    fn flipped(&mut self, fingerprint: Fingerprint, bits: u64) -> Fingerprint {
        let mut flips = 0_u64;
        while u64::from(flips.count_ones()) < bits {
            flips |= 1 << self.within(0..64);
        }
        Fingerprint::new(fingerprint.bits() ^ flips)
    }
}

/// The fingerprints that are stored.
#[derive(Debug)]
pub struct Stored {
    source: Source,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Source {
    /// The numbers of a stream, from place 0.
    Random(Stream),
    /// The first ones of a list, as many as the parts have; several sets may share it.
    Listed(Arc<[Fingerprint]>),
    /// All that a model of text has drawn.
    LikeText(Box<LikeText>, Vec<Fingerprint>),
}

/// Adjacent fingerprints of one kind, which are measured by themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The kind of data.
    pub name: &'static str,
    /// The places of its fingerprints among all that are stored.
    pub range: Range<u64>,
}

impl Stored {
    /// Random ones. Needs no memory.
    pub fn random(count: u64, seed: u64) -> Self {
        let parts = vec![Part { name: "random", range: 0..count }];
        Self { source: Source::Random(Stream::of("stored", seed)), parts }
    }

    /// The first `count` of a list, which are all of one kind.
    ///
    /// # Panics
    /// Where the list has fewer.
    pub fn listed(name: &'static str, list: &Arc<[Fingerprint]>, count: u64) -> Self {
        assert!(count <= list.len() as u64, "the list has {} fingerprints", list.len());
        let parts = vec![Part { name, range: 0..count }];
        Self { source: Source::Listed(Arc::clone(list)), parts }
    }

    /// As crowded as those of texts, a share of them (0 to 1) in families of near-copies.
    ///
    /// Cost: about 0.4 microseconds and 8 bytes a fingerprint.
    pub fn like_text(count: u64, families: f64, seed: u64) -> Self {
        let model = LikeText::new(count, families, seed);
        let all = model.all(seed);
        let parts = vec![Part { name: "like text", range: 0..count }];
        Self { source: Source::LikeText(Box::new(model), all), parts }
    }

    /// The model that they are drawn from, if there is one.
    pub fn model(&self) -> Option<&LikeText> {
        match &self.source {
            Source::LikeText(model, _) => Some(model),
            Source::Random(_) | Source::Listed(_) => None,
        }
    }

    /// A third each of what tables with sorted keys like least: fingerprints that share half of
    /// their bits; a cluster around one template, a fifth of which is that template; small
    /// integers.
    pub fn adversarial(count: u64, seed: u64) -> Self {
        let mut dice = Dice::of("adversarial", seed);
        let template = Fingerprint::new(dice.roll());
        let (half, cluster) = (count / 3, count / 3 * 2);
        let one = |place: u64| match place {
            place if place < half => {
                let low = dice.roll() >> 32;
                Fingerprint::new(template.bits() >> 32 << 32 | low)
            }
            place if place < cluster => {
                let bits = dice.within(0..CLUSTER_BITS_MAX + 1);
                dice.flipped(template, bits)
            }
            place => Fingerprint::new(place - cluster),
        };
        let parts = vec![
            Part { name: "shared half", range: 0..half },
            Part { name: "cluster", range: half..cluster },
            Part { name: "small integers", range: cluster..count },
        ];
        Self { source: Source::Listed((0..count).map(one).collect()), parts }
    }

    /// The number of fingerprints.
    pub fn count(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.range.end)
    }

    /// Its kinds, in order; each has at least one fingerprint.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(|part| !part.range.is_empty())
    }

    /// All kinds as one part, for measurements that do not tell them apart.
    pub fn whole(&self) -> Part {
        Part { name: "all", range: 0..self.count() }
    }

    /// The fingerprint at a place below [`Self::count`]; computed anew for random ones.
    pub fn at(&self, place: u64) -> Fingerprint {
        match &self.source {
            Source::Random(stream) => Fingerprint::new(stream.number(place)),
            Source::Listed(list) => list[place as usize],
            Source::LikeText(_, all) => all[place as usize],
        }
    }

    /// All of them, in order.
    pub fn all(&self) -> impl Iterator<Item = Fingerprint> + '_ {
        (0..self.count()).map(|place| self.at(place))
    }

    /// All of them, in order, some at a time.
    pub fn batches(&self, size: usize) -> impl Iterator<Item = Vec<Fingerprint>> + '_ {
        let mut all = self.all();
        std::iter::from_fn(move || {
            let batch: Vec<_> = all.by_ref().take(size).collect();
            (!batch.is_empty()).then_some(batch)
        })
    }

    /// The memory of the whole list, where there is one.
    pub fn bytes(&self) -> u64 {
        match &self.source {
            Source::Random(_) => 0,
            Source::Listed(list) => size_of_val(&**list) as u64,
            Source::LikeText(_, all) => size_of_val(&**all) as u64,
        }
    }

    /// The same as a set with a membership test. Sorts a copy of a list.
    pub fn members(&self) -> Members {
        match &self.source {
            Source::Random(stream) => Members::Random(*stream, self.count()),
            Source::Listed(_) | Source::LikeText(..) => Members::sorted(self.all().collect()),
        }
    }

    /// A query without a plant: another one of the same source; for a list, one that visits the
    /// same lines but is farther away.
    fn apart(&self, near: Fingerprint, dice: &mut Dice) -> Fingerprint {
        match &self.source {
            Source::Random(_) => Fingerprint::new(dice.roll()),
            Source::LikeText(model, _) => model.fresh(dice.roll() >> FRESH_SHIFT).0,
            Source::Listed(_) => {
                let bits = dice.within(BITS_APART);
                dice.flipped(near, bits)
            }
        }
    }
}

/// Which fingerprints are stored, without asking the index.
#[derive(Debug)]
pub enum Members {
    /// The first numbers of a stream.
    Random(Stream, u64),
    /// All of them in ascending order.
    Sorted(Vec<Fingerprint>),
}

impl Members {
    fn sorted(mut all: Vec<Fingerprint>) -> Self {
        all.sort_unstable();
        Self::Sorted(all)
    }

    /// Whether this one is stored.
    pub fn contain(&self, fingerprint: Fingerprint) -> bool {
        match self {
            Self::Random(stream, count) => stream.place(fingerprint.bits()) < *count,
            Self::Sorted(all) => all.binary_search(&fingerprint).is_ok(),
        }
    }
}

/// More fingerprints of the kind that is stored, to be inserted during a measurement.
#[derive(Debug)]
pub struct Fresh {
    /// Empty for random ones.
    drawn: Vec<Fingerprint>,
    stream: Stream,
    members: Members,
}

impl Fresh {
    /// More of these. Those like text are drawn here, and repeat after four million at most.
    pub fn like(stored: &Stored, seed: u64) -> Self {
        let stream = Stream::of("fresh", seed);
        let Some(model) = stored.model() else {
            // No run inserts as many.
            return Self { drawn: Vec::new(), stream, members: Members::Random(stream, 1 << 40) };
        };
        let one = |number| model.fresh(stream.number(number) >> FRESH_SHIFT).0;
        let drawn: Vec<_> =
            (0..stored.count().clamp(FRESH_LIKE_TEXT.0, FRESH_LIKE_TEXT.1)).map(one).collect();
        let members = Members::sorted(drawn.clone());
        Self { drawn, stream, members }
    }

    /// The fingerprint at any place; see [`Self::like`] for when they repeat.
    pub fn at(&self, place: u64) -> Fingerprint {
        match self.drawn.len() {
            0 => Fingerprint::new(self.stream.number(place)),
            drawn => self.drawn[(place % drawn as u64) as usize],
        }
    }

    /// Whether this is one of them.
    pub fn contain(&self, fingerprint: Fingerprint) -> bool {
        self.members.contain(fingerprint)
    }
}

/// Queries: half are near a stored fingerprint, evenly at each distance; half are drawn anew, at
/// random or from the model of what is stored.
#[derive(Debug, Clone, Default)]
pub struct Queries {
    /// What is asked, in this order.
    pub fingerprints: Vec<Fingerprint>,
    /// For each query, the stored fingerprint that it was planted near.
    pub plants: Vec<Option<Fingerprint>>,
}

impl Queries {
    /// Queries aimed at a part of what is stored, which must not be empty.
    pub fn aimed_at(
        (stored, part): (&Stored, &Part),
        count: u64,
        distance: Distance,
        seed: u64,
    ) -> Self {
        let mut dice = Dice::of("queries", seed);
        let mut queries = Self::default();
        for i in 0..count {
            let near = stored.at(dice.within(part.range.clone()));
            let (query, plant) = if i % 2 == 0 {
                let bits = dice.within(0..u64::from(distance.get()) + 1);
                (dice.flipped(near, bits), Some(near))
            } else {
                (stored.apart(near, &mut dice), None)
            };
            queries.fingerprints.push(query);
            queries.plants.push(plant);
        }
        queries
    }

    /// The planted queries, and the others.
    pub fn apart(&self) -> (Self, Self) {
        let (planted, others): (Vec<_>, Vec<_>) =
            self.iter().partition(|(_, plant)| plant.is_some());
        let of = |some: Vec<_>| {
            let (fingerprints, plants) = some.into_iter().unzip();
            Self { fingerprints, plants }
        };
        (of(planted), of(others))
    }

    /// Each query with its plant, again and again, from a place on.
    pub fn cycle_from(
        &self,
        place: usize,
    ) -> impl Iterator<Item = (Fingerprint, Option<Fingerprint>)> {
        (0..self.plants.len())
            .cycle()
            .skip(place)
            .map(|place| (self.fingerprints[place], self.plants[place]))
    }

    /// Each query with its plant.
    pub fn iter(&self) -> impl Iterator<Item = (Fingerprint, Option<Fingerprint>)> {
        self.fingerprints.iter().copied().zip(self.plants.iter().copied())
    }
}

/// An index of `count` random fingerprints, settled into one segment.
///
/// Cost: about 0.2 microseconds a fingerprint, and twice the memory of the index for a moment.
pub fn view_of(count: u64, seed: u64, distance_max: Distance) -> View {
    view_holding(&Stored::random(count, seed), distance_max, |_| ())
}

/// An index of these fingerprints, settled into one segment; calls `at` with the number taken.
pub fn view_holding(stored: &Stored, distance_max: Distance, mut at: impl FnMut(u64)) -> View {
    let taken = (1_u64..).zip(stored.all()).map(|(done, fingerprint)| {
        if done.is_multiple_of(DELTA_EVENTS as u64) {
            at(done);
        }
        fingerprint
    });
    View::filled(shape(distance_max), stored.count(), taken)
}

/// An index without documents.
pub(super) fn empty_view(distance_max: Distance) -> View {
    View::new(shape(distance_max))
}

fn shape(distance_max: Distance) -> Shape {
    let permutation = Arc::new(Permutation::from_secret(PERMUTATION_SECRET));
    let (delta_events, small_max) = (DELTA_EVENTS, SMALL_MAX);
    Shape { distance_max, delta_events, small_max, permutation, has_labels: true }
}

#[cfg(test)]
mod tests {
    use nearprint_index::visibility::Visibility;

    use super::*;

    const DISTANCE: Distance = Distance::new(3).expect("below 64");

    #[test]
    fn the_place_of_a_number_is_found_again() {
        let stream = Stream::of("a purpose", 7);
        for place in (0..1_000).chain([u64::MAX - 1, u64::MAX]) {
            assert_eq!(stream.place(stream.number(place)), place);
        }
        assert_ne!(stream, Stream::of("a purpose", 8));
        assert_ne!(stream, Stream::of("another", 7));
    }

    #[test]
    fn members_are_what_is_stored_and_nothing_else() {
        for stored in
            [Stored::random(300, 1), Stored::adversarial(300, 1), Stored::like_text(300, 0.5, 1)]
        {
            let members = stored.members();
            assert!(stored.all().all(|fingerprint| members.contain(fingerprint)));
            assert!(!members.contain(Fingerprint::new(stored.at(7).bits() ^ (1 << 40))));
        }
    }

    #[test]
    fn plants_lie_within_the_distance_and_the_other_queries_apart() {
        for stored in
            [Stored::random(300, 1), Stored::adversarial(300, 1), Stored::like_text(300, 0.5, 1)]
        {
            for part in stored.parts() {
                let queries = Queries::aimed_at((&stored, part), 400, DISTANCE, 5);
                let mut at_distance = [0; 4];
                for (query, plant) in queries.iter().filter_map(|(q, plant)| Some((q, plant?))) {
                    at_distance[usize::from(query.distance(plant).get())] += 1;
                    assert!(part.range.clone().any(|place| stored.at(place) == plant));
                }
                assert!(at_distance.iter().all(|&count| count > 20), "{at_distance:?}");
                assert_eq!(at_distance.iter().sum::<u32>(), 200);
            }
        }
    }

    #[test]
    fn a_built_view_is_settled_and_holds_everything() {
        for count in [1, 1_000] {
            let view = view_of(count, 3, DISTANCE);
            assert_eq!(view.counts().documents, count);
            assert_eq!((view.segments().len(), view.full_deltas().len()), (1, 0));
            let stored = Stored::random(count, 3);
            assert!(
                stored
                    .all()
                    .all(|stored| !view.near(stored, DISTANCE, &Visibility::DEFAULT).is_empty())
            );
        }
    }

    #[test]
    fn the_adversarial_parts_are_what_they_are_called() {
        let stored = Stored::adversarial(3_000, 1);
        let all: Vec<Fingerprint> = stored.all().collect();
        assert!(all[..1_000].iter().all(|one| one.bits() >> 32 == all[0].bits() >> 32));
        assert!(all[1_000..2_000].iter().all(|one| one.distance(all[1_000]).get() <= 8));
        assert_eq!(all[2_000..], (0..1_000).map(Fingerprint::new).collect::<Vec<_>>());
    }
}

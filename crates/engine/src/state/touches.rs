//! Touches: how often a stored document was named as the original of a duplicate, and when last.
//!
//! No verdict depends on these counts, and they are not journaled. Snapshots contain
//! them, so a crash loses what was counted since the last one. The writer counts; the documents are
//! spread over parts with a lock each, so a list never makes the writer wait for long.
//!
//! A document takes about 40 bytes. When a part is full, the half of its documents with the fewest
//! duplicates is forgotten, and begins again from 0 if it is named again: what comes often stays.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nearprint_fingerprint::Fingerprint;
use nearprint_index::view::View;
use nearprint_machine::document::Sequence;
use nearprint_machine::query::Touch;
use tokio::sync::broadcast;

/// How many touches wait for a follower.
const WAITING_MAX: usize = 4_096;

/// The number of parts. Making room in one of them takes less than a millisecond at the default
/// limit.
const PARTS: usize = 64;

/// The counts of all originals.
#[derive(Debug)]
pub(crate) struct Touches {
    parts: Vec<Mutex<HashMap<Sequence, Count>>>,
    /// The number of documents of a part.
    part_max: usize,
    /// Whether a document was named since the last snapshot.
    is_unsaved: AtomicBool,
    /// Where followers hear of them, once there is one.
    followers: OnceLock<broadcast::Sender<Touch>>,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    masked: Fingerprint,
    duplicates: u32,
    last_s: u32,
}

impl Touches {
    /// Counts for this many documents, about; 0 counts nothing.
    pub(crate) fn new(documents_max: usize, known: impl IntoIterator<Item = Touch>) -> Self {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        let part_max = documents_max.div_ceil(PARTS);
        let (is_unsaved, followers) = (AtomicBool::new(false), OnceLock::new());
        let touches = Self { parts, part_max, is_unsaved, followers };
        for touch in known {
            touches.add(touch);
        }
        touches
    }

    /// Counts that a document was named.
    pub(crate) fn touch(&self, sequence: Sequence, masked: Fingerprint, now_s: u32) {
        let touch = Touch { sequence, masked, duplicates: 1, last_s: now_s };
        self.add_of_primary(touch);
        if let Some(followers) = self.followers.get() {
            // Nobody may be there any more.
            drop(followers.send(touch));
        }
    }

    /// Adds what a primary has counted.
    pub(crate) fn add_of_primary(&self, touch: Touch) {
        self.add(touch);
        self.is_unsaved.store(self.part_max > 0, Ordering::Relaxed);
    }

    /// What is counted from now on. Who falls far behind misses some.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Touch> {
        self.followers.get_or_init(|| broadcast::Sender::new(WAITING_MAX)).subscribe()
    }

    /// Whether the last snapshot lacks some.
    pub(crate) fn is_unsaved(&self) -> bool {
        self.is_unsaved.load(Ordering::Relaxed)
    }

    fn add(&self, touch: Touch) {
        if self.part_max == 0 {
            return;
        }
        let Touch { sequence, masked, duplicates, last_s } = touch;
        let mut part = self.part(sequence);
        if let Some(count) = part.get_mut(&sequence) {
            count.duplicates = count.duplicates.saturating_add(duplicates);
            // They come in the order of commands, also if a clock was set back in between.
            count.last_s = last_s;
            return;
        }
        if part.len() >= self.part_max {
            forget_half(&mut part);
        }
        part.insert(sequence, Count { masked, duplicates, last_s });
    }

    /// How often a document was named, if it was.
    pub(crate) fn get(&self, sequence: Sequence) -> Option<Touch> {
        let part = self.part(sequence);
        part.get(&sequence).map(|count| count.of(sequence))
    }

    /// All counts, in no particular order.
    pub(crate) fn all(&self) -> Vec<Touch> {
        let mut all = Vec::new();
        for part in &self.parts {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(part.iter().map(|(sequence, count)| count.of(*sequence)));
        }
        all
    }

    /// The counts for a snapshot, by sequence. Forgets the documents that a view no longer has, of
    /// those that it had. About 1 us for each count.
    pub(crate) fn for_snapshot(&self, view: &View) -> Vec<Touch> {
        // What is counted from here on may be missing.
        self.is_unsaved.store(false, Ordering::Relaxed);
        let mut left = Vec::new();
        // In files each would wait for the disk. Those that are gone are forgotten in time.
        let is_quick = !view.is_in_files();
        for touch in self.all() {
            // What is newer than the view is for the next time.
            if is_quick && touch.sequence <= view.sequence() && !is_stored(view, &touch) {
                self.part(touch.sequence).remove(&touch.sequence);
            } else {
                left.push(touch);
            }
        }
        left.sort_unstable_by_key(|touch| touch.sequence);
        left
    }

    /// Poison is ignored, because a panic in an engine thread ends the process.
    fn part(&self, sequence: Sequence) -> MutexGuard<'_, HashMap<Sequence, Count>> {
        let part = &self.parts[(sequence.get() % PARTS as u64) as usize];
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was counted since the last call. Counts that came too fast are lost: they are not worth a
/// wait.
pub(crate) fn heard(named: &mut broadcast::Receiver<Touch>) -> impl Iterator<Item = Touch> {
    std::iter::from_fn(|| {
        loop {
            match named.try_recv() {
                Ok(touch) => break Some(touch),
                Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => break None,
            }
        }
    })
}

/// One touch for each document, in the order in which it was first named.
pub(crate) fn sum(touches: impl Iterator<Item = Touch>) -> Vec<Touch> {
    let (mut sums, mut places): (Vec<Touch>, HashMap<Sequence, usize>) = Default::default();
    for touch in touches {
        let place = *places.entry(touch.sequence).or_insert(sums.len());
        match sums.get_mut(place) {
            Some(sum) => {
                sum.duplicates = sum.duplicates.saturating_add(touch.duplicates);
                sum.last_s = touch.last_s;
            }
            None => sums.push(touch),
        }
    }
    sums
}

impl Count {
    fn of(self, sequence: Sequence) -> Touch {
        let Self { masked, duplicates, last_s } = self;
        Touch { sequence, masked, duplicates, last_s }
    }
}

fn is_stored(view: &View, touch: &Touch) -> bool {
    !view.documents_at(&[(touch.sequence, touch.masked)]).is_empty()
}

/// Forgets the half with the fewest duplicates; of the same number, those that were named longest
/// ago.
fn forget_half(part: &mut HashMap<Sequence, Count>) {
    let mut order: Vec<_> =
        part.iter().map(|(sequence, count)| (count.duplicates, count.last_s, *sequence)).collect();
    let half = order.len().div_ceil(2);
    order.select_nth_unstable(half - 1);
    for (.., sequence) in &order[..half] {
        part.remove(sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint() -> Fingerprint {
        Fingerprint::new(7)
    }

    #[test]
    fn it_counts_and_remembers_the_last_time() {
        let known =
            Touch { sequence: Sequence::new(5), masked: fingerprint(), duplicates: 3, last_s: 9 };
        let touches = Touches::new(100, [known]);
        // A clock that was set back.
        touches.touch(Sequence::new(5), fingerprint(), 8);
        touches.touch(Sequence::new(6), fingerprint(), 10);
        let got = |number| touches.get(Sequence::new(number)).map(|t| (t.duplicates, t.last_s));
        assert_eq!([got(5), got(6), got(7)], [Some((4, 8)), Some((1, 10)), None]);
        assert_eq!(touches.all().len(), 2);
    }

    #[test]
    fn a_full_part_keeps_what_comes_again_and_again() {
        // All in one part, which has room for four.
        let touches = Touches::new(4 * PARTS, []);
        let sequence = |number: u64| Sequence::new(number * PARTS as u64);
        for _ in 0..5 {
            touches.touch(sequence(1), fingerprint(), 1);
        }
        for number in 2..100 {
            touches.touch(sequence(number), fingerprint(), number as u32);
            assert!(touches.all().len() <= 4);
        }
        assert_eq!(touches.get(sequence(1)).map(|touch| touch.duplicates), Some(5));
        assert!(touches.get(sequence(99)).is_some() && touches.get(sequence(2)).is_none());
    }

    #[test]
    fn with_a_limit_of_0_nothing_is_counted() {
        let touches = Touches::new(0, []);
        touches.touch(Sequence::new(1), fingerprint(), 1);
        assert!(touches.all().is_empty());
    }
}

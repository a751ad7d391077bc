//! Many documents under few fingerprints, against a list of all of them.

use std::collections::BTreeMap;

use nearprint_fingerprint::Fingerprint;
use proptest::prelude::*;

use super::{empty, key, settle, settle_deltas};
use crate::compaction::policy::Load;
use crate::document::{Expiry, Sequence};
use crate::levels::delta::DeltaAt;
use crate::namespace_key::NamespaceKey;
use crate::view::{COUNTED_MAX, Expired, Listed, Located, Put, Selection, View};
use crate::visibility::Visibility;

const NOW_MS: u64 = 1_000_000;

/// The second namespace has the mask of the first, so that their fingerprints coincide.
fn space(at: u8) -> Option<NamespaceKey> {
    match at {
        0 => None,
        at => Some(NamespaceKey { key: key(at), mask: 0x0ff0_5a5a_1234_8765 }),
    }
}

#[derive(Debug, Clone, Copy)]
struct Stored {
    sequence: Sequence,
    bits: u64,
    space: u8,
    expiry: Option<Expiry>,
}

#[derive(Debug, Clone)]
enum Step {
    Put { bits: u64, space: u8, expires_in: Option<u8> },
    RemoveOldest { bits: u64, space: u8, at_most: usize },
    Reset { bits: u64, space: u8 },
    Settle { merged: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fingerprint = || (0..2_u64, 0..3_u8);
    let step = prop_oneof![
        20 => (fingerprint(), prop::option::weighted(0.3, 0..6_u8))
            .prop_map(|((bits, space), expires_in)| Step::Put { bits, space, expires_in }),
        2 => (fingerprint(), 1..4_usize)
            .prop_map(|((bits, space), at_most)| Step::RemoveOldest { bits, space, at_most }),
        1 => fingerprint().prop_map(|(bits, space)| Step::Reset { bits, space }),
        1 => any::<bool>().prop_map(|merged| Step::Settle { merged }),
    ];
    prop::collection::vec(step, 1..120)
}

fn masked(stored: &Stored) -> Fingerprint {
    let mask = space(stored.space).map_or(0, |space| space.mask);
    Fingerprint::new(stored.bits ^ mask)
}

/// Takes a step; the list of all documents as well.
fn take(view: &mut View, all: &mut Vec<Stored>, step: &Step) {
    match *step {
        Step::Put { bits, space: at, expires_in } => {
            let expiry = expires_in.and_then(|s| Expiry::at(NOW_MS / 1_000 + u64::from(s) - 2));
            view.put(
                Fingerprint::new(bits),
                Put { namespace: space(at), expiry, ..Put::default() },
            );
            all.push(Stored { sequence: view.sequence(), bits, space: at, expiry });
        }
        Step::RemoveOldest { bits, space: at, at_most } => {
            let is_of = |stored: &&Stored| (stored.bits, stored.space) == (bits, at);
            let wanted: Vec<_> = all.iter().filter(is_of).take(at_most).collect();
            let wanted: Vec<_> = wanted.iter().map(|s| (s.sequence, masked(s))).collect();
            let located: Vec<Located> = view.documents_at(&wanted);
            assert_eq!(located.len(), wanted.len());
            view.remove_many(&located, space(at).map(|space| space.key));
            view.advance();
            all.retain(|stored| wanted.iter().all(|(sequence, _)| *sequence != stored.sequence));
        }
        Step::Reset { bits, space: at } => {
            view.reset(Fingerprint::new(bits), space(at));
            view.advance();
            all.retain(|stored| (stored.bits, stored.space) != (bits, at));
        }
        Step::Settle { merged: false } => settle_deltas(view),
        Step::Settle { merged: true } => {
            settle(view);
            while let Some(work) = view.next_merge(Load::Writing) {
                view.complete(work);
            }
        }
    }
}

fn check(view: &View, all: &[Stored], (bits, at): (u64, u8), since: Sequence) {
    let visibility = Visibility { since, ..view.visibility(space(at), NOW_MS, None) };
    let fingerprint = Fingerprint::new(bits);
    let has_expired = |stored: &Stored| stored.expiry.is_some_and(|e| e.has_passed(NOW_MS));
    let seen = all
        .iter()
        .filter(|stored| (stored.bits, stored.space) == (bits, at) && !has_expired(stored));
    let of_any_age = seen.clone().count() as u64;
    let seen: Vec<_> =
        seen.filter(|stored| stored.sequence >= since).map(|stored| stored.sequence).collect();
    let found: Vec<_> =
        view.documents_of(fingerprint, visibility).map(|posting| posting.sequence).collect();
    assert_eq!(found, seen);
    assert_eq!(view.is_stored(fingerprint, &visibility), !seen.is_empty());
    assert!((seen.len() as u64) < COUNTED_MAX, "or they are not counted exactly");
    assert_eq!(view.document_counts(fingerprint, &visibility).documents, seen.len() as u64);
    assert_eq!(view.exact_count(fingerprint, &visibility), of_any_age);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_documents_of_a_fingerprint_are_those_of_a_list(
        steps in steps(),
        delta_events in 2..40_usize,
        since in prop::collection::vec(0..130_u64, 3),
    ) {
        let (mut view, mut all) = (empty(3, delta_events), Vec::new());
        for step in &steps {
            take(&mut view, &mut all, step);
        }
        for since in since.into_iter().chain([0]) {
            for fingerprint in (0..2).flat_map(|bits| (0..3).map(move |at| (bits, at))) {
                check(&view, &all, fingerprint, Sequence::new(since));
            }
        }
        prop_assert_eq!(view.documents(), all.len() as u64);
        let mut counts = BTreeMap::new();
        for stored in all.iter().filter(|stored| stored.space > 0) {
            *counts.entry(stored.space).or_insert(0) += 1;
        }
        for at in 1..3 {
            let known = view.namespaces().get(key(at)).map(|entry| entry.documents);
            prop_assert_eq!(known, counts.get(&at).copied());
        }
        let (after, upto) = (Sequence::ZERO, view.sequence());
        let everything = Selection { namespace: None, after, upto, expired: Expired::Any };
        let listed: Vec<_> = view.list(everything, 1_000);
        let listed: Vec<_> =
            listed.iter().map(|Listed { posting, masked }| (posting.sequence, *masked)).collect();
        let stored: Vec<_> = all.iter().map(|stored| (stored.sequence, masked(stored))).collect();
        prop_assert_eq!(&listed, &stored);
        // Each is also found by the change that stored it, and so are its neighbours in time.
        let asked: Vec<_> = (0..2 + view.sequence().get())
            .flat_map(|at| [0, 1].map(|bits| (Sequence::new(at), Fingerprint::new(bits))))
            .chain(stored.iter().copied().filter(|(_, masked)| masked.bits() > 1))
            .collect();
        let found = view.documents_at(&asked);
        let found: Vec<_> = found.iter().map(|l| (l.posting.sequence, l.masked)).collect();
        prop_assert_eq!(&found, &stored);
    }
}

/// How many documents the levels of a view give for a fingerprint from a change on: those that a
/// look-up by age visits.
fn visited(view: &View, value: u64, first: Sequence) -> usize {
    let segments = view.segments().iter();
    let in_segments = segments.map(|segment| segment.postings_from(value, first).count());
    let in_deltas = view.deltas().map(|delta| delta.events_from(value, first).count());
    in_segments.chain(in_deltas).sum()
}

#[test]
fn a_look_up_by_age_visits_no_older_document() {
    const MANY: u64 = 5_000;
    let mut view = empty(3, 1_000);
    for _ in 0..MANY {
        view.put(Fingerprint::new(7), Put::default());
        settle_deltas(&mut view);
    }
    let value = view.shape().permutation.apply(Fingerprint::new(7));
    assert!(!view.segments().is_empty() && view.deltas().any(|delta| delta.length() > 0));
    for newest in [0, 1, 300, 1_500, MANY] {
        let first = Sequence::new(MANY - newest + 1);
        assert_eq!(visited(&view, value, first), newest as usize);
    }
    settle(&mut view);
    assert_eq!(visited(&view, value, Sequence::new(MANY)), 1);
}

#[test]
fn a_reset_is_one_event_however_many_documents_it_removes() {
    let mut view = empty(3, 1_000);
    let expiry = Expiry::at(NOW_MS);
    for number in 0..3_000_u64 {
        let expiry = expiry.filter(|_| number % 2 == 0);
        view.put(Fingerprint::new(7), Put { namespace: space(1), expiry, ..Put::default() });
    }
    settle_deltas(&mut view);
    let before: u32 = view.deltas().map(DeltaAt::length).sum();
    view.reset(Fingerprint::new(7), space(1));
    view.advance();
    let after: u32 = view.deltas().map(DeltaAt::length).sum();
    assert_eq!((after - before, view.documents(), view.namespaces().len()), (1, 0, 0));
}

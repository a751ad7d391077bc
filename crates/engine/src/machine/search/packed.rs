//! Searches for bare fingerprints, whose replies are distances.

use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_index::scope::Visibility;
use nearprint_index::view::View;

use crate::document::Sequence;

/// What a reader found for bare fingerprints.
#[derive(Debug, Clone)]
pub(crate) struct PackedSearch {
    /// The last change that it has seen.
    pub since: Sequence,
    /// The documents that it has seen.
    pub scope: Visibility,
    /// For each fingerprint the distance of the nearest stored one, or [`NO_HIT`].
    pub nearest: Vec<u8>,
}

/// In packed replies: no fingerprint is within the distance.
pub(crate) const NO_HIT: u8 = 255;

impl PackedSearch {
    /// Searches a view. Cost: one look-up for each fingerprint.
    pub(crate) fn new(
        view: &View,
        fingerprints: &[Fingerprint],
        distance: Distance,
        scope: Visibility,
    ) -> Self {
        let nearest = nearest(view, fingerprints, distance, scope);
        Self { since: view.sequence(), scope, nearest }
    }

    /// Whether it is too old to be brought up to date from memory, or saw other documents than
    /// those in scope now: search again.
    pub(crate) fn is_stale(&self, view: &View, scope: &Visibility) -> bool {
        view.may_have_lost_since(self.since) || !super::sees_the_same(view, &self.scope, scope)
    }
}

/// For each fingerprint the distance of the nearest stored one, or [`NO_HIT`].
pub(crate) fn nearest(
    view: &View,
    fingerprints: &[Fingerprint],
    distance: Distance,
    scope: Visibility,
) -> Vec<u8> {
    let nearest = view.nearest(fingerprints, distance, scope);
    nearest.map(|nearest| nearest.map_or(NO_HIT, Distance::get)).collect()
}

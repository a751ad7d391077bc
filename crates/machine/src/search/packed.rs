//! Searches for bare fingerprints, whose replies are distances.

use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_index::view::View;
use nearprint_index::visibility::Visibility;

use crate::document::Sequence;

/// What a reader found for bare fingerprints.
#[derive(Debug, Clone)]
pub struct PackedSearch {
    /// The last change that it has seen.
    pub since: Sequence,
    /// The documents that it has seen.
    pub visibility: Visibility,
    /// For each fingerprint the distance of the nearest stored one, or [`NO_HIT`].
    pub nearest: Vec<u8>,
}

/// In packed replies: no fingerprint is within the distance.
pub const NO_HIT: u8 = 255;

impl PackedSearch {
    /// Searches a view. Cost: one look-up for each fingerprint.
    pub fn new(
        view: &View,
        fingerprints: &[Fingerprint],
        distance: Distance,
        visibility: Visibility,
    ) -> Self {
        let nearest = nearest(view, fingerprints, distance, visibility);
        Self { since: view.sequence(), visibility, nearest }
    }

    /// Whether it is too old to be brought up to date from memory, or saw other documents than
    /// those visible now: search again.
    pub fn is_stale(&self, view: &View, visibility: &Visibility) -> bool {
        view.may_have_lost_since(self.since)
            || !super::sees_the_same(view, &self.visibility, visibility)
    }
}

/// For each fingerprint the distance of the nearest stored one, or [`NO_HIT`].
pub fn nearest(
    view: &View,
    fingerprints: &[Fingerprint],
    distance: Distance,
    visibility: Visibility,
) -> Vec<u8> {
    let nearest = view.nearest(fingerprints, distance, visibility);
    nearest.map(|nearest| nearest.map_or(NO_HIT, Distance::get)).collect()
}

//! The limits of the service, and the defaults of a request.

use nearprint_fingerprint::Distance;
use nearprint_machine::query::SearchKind;
use nearprint_text::{Extract, Recipe, SpectralModel};

/// The limits of the service, and the defaults of a request.
#[derive(Debug, Clone, Copy)]
pub struct ServiceOptions {
    /// The memory of long texts that are analysed at one time.
    pub analyses_bytes_max: usize,
    /// The longest answer, and the longest line of the answer to a batch.
    pub reply_bytes_max: usize,
    /// The bytes of all answers that wait for their clients; at least twice the longest one.
    pub replies_held_bytes_max: usize,
    /// The defaults of a request.
    pub defaults: RequestDefaults,
}

/// The defaults of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestDefaults {
    /// The recipe of the service.
    pub recipe: Recipe,
    /// The model of the recipe; [`Service::new`](crate::Service::new) sets it.
    pub model: Option<&'static SpectralModel>,
    /// Which text of a page of HTML counts.
    pub extract: Extract,
    /// The distance of a look-up.
    pub distance: Distance,
    /// The largest distance of a look-up.
    pub distance_max: Distance,
    /// How many hits are listed.
    pub limit: usize,
    /// The similarity that confirms a hit; 0 switches verification off.
    pub min_similarity: f64,
    /// The share of their numbers that both texts of a hit must have; 0 demands none.
    pub min_numbers: f64,
    /// How far the search for a text goes.
    pub search: SearchKind,
    /// The largest metadata of a document, in bytes of JSON.
    pub metadata_bytes_max: usize,
    /// How many seconds a document is kept; `None` is for ever.
    pub expires_in_s: Option<u64>,
}

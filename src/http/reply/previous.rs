//! What a write tells of the document that its id had before.

use nearprint_engine::{Previous, PreviousUnread};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::reply::agreement::{numbers_shown, similarity};

/// The document that was stored under this id before, compared with the one that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Previous)]
pub(crate) struct PreviousReply {
    /// In how many bits its fingerprint differs.
    #[schema(example = 2)]
    pub(crate) distance: u8,
    /// About how much of the two texts agrees, 0 to 1, rounded down to 4 decimals; null if one of
    /// them came without text.
    #[schema(example = 0.97)]
    pub(crate) similarity: Option<f64>,
    /// The estimated share of their numbers that both have, 0 to 1; null if one has no number.
    pub(crate) numbers: Option<f64>,
    /// When it was stored, in milliseconds since 1970.
    pub(crate) stored_at_ms: u64,
}

impl PreviousReply {
    /// Reads the record of the document, if there was one.
    pub(crate) async fn read(previous: Option<Box<PreviousUnread>>) -> Option<Self> {
        previous?.read().await.map(Self::from)
    }
}

impl From<Previous> for PreviousReply {
    fn from(previous: Previous) -> Self {
        Self {
            distance: previous.distance.get(),
            similarity: previous.resemblance.map(|resemblance| similarity(resemblance, 0.0)),
            numbers: previous.numbers.map(|numbers| numbers_shown(numbers, 0.0)),
            stored_at_ms: previous.stored_at_ms,
        }
    }
}

//! A state together with the records of its documents, as readers load it.

use crate::index::view::View;
use crate::storage::Records;

/// A state with its records. The records are pinned: those of the view's documents stay readable
/// for the life of this value, even if their files are reclaimed.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    /// The state.
    pub view: View,
    /// Its records.
    pub records: Records,
}

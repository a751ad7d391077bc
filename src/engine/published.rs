//! A state together with the records of its documents, as readers load it.

use crate::index::view::View;
use crate::storage::Records;

/// What readers load at once. The records are pinned: those of the view's documents can be read as
/// long as somebody holds this, whatever is given back meanwhile.
#[derive(Debug, Clone)]
pub struct Published {
    /// The state.
    pub view: View,
    /// The records of that moment.
    pub records: Records,
}

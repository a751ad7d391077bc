//! Lists of originals: the documents with the most duplicates.

use std::sync::Arc;

use nearprint_machine::document::Sequence;
use nearprint_machine::query::{ListPlace, Touch};

use crate::api::error::Refused;
use crate::api::replies::{Page, PageOptions};
use crate::handle::Engine;
use crate::read::originals::{Original, OriginalsQuery, page};

impl Engine {
    /// How often a document was named as the original of a duplicate, since the last crash or the
    /// last snapshot before it. The document has to be stored.
    pub fn touch(&self, sequence: Sequence) -> Option<Touch> {
        self.shared.touches.get(sequence)
    }

    /// A page of the documents that were named as originals. Takes one pass over all counts, in
    /// turn with other long work of lists, and reads a record for each document of the page. It may
    /// have fewer than the limit, or none, although more follow.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub async fn originals(
        &self,
        query: OriginalsQuery,
        options: impl Into<PageOptions>,
    ) -> Result<Page<Original, ListPlace>, Refused> {
        let (shared, options) = (Arc::clone(&self.shared), options.into());
        let work = move || {
            let state = shared.published.load_full();
            let known = (&*shared.touches, &shared.id_secret);
            page(&state, known, query, (shared.scans.looked_at_max, options))
        };
        self.shared.scans.slice(self.client.clone(), work).await
    }
}

//! Originals: the documents with the most duplicates.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::api::error::Refused;
use crate::api::replies::{PageOptions, StoredDocument};
use crate::blocking::off_async;
use crate::clock;
use crate::document::Sequence;
use crate::handle::Engine;
use crate::machine::jobs::NamespaceFilter;
use crate::originals::touches::Touch;
use crate::read::reader::RecordReader;

/// The order of a list of originals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginalsOrder {
    /// Those with the most duplicates first.
    Duplicates,
    /// The one with the last duplicate first.
    Recent,
}

/// A place in a list of originals: the larger the first number, the earlier; then by sequence.
pub(crate) type ListPlace = (u32, Sequence);

/// Which originals to list, and in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginalsQuery {
    /// The namespaces whose originals are listed.
    pub reach: NamespaceFilter,
    /// Which of them come first.
    pub order: OriginalsOrder,
    /// The list continues after this place; `None` begins it.
    pub after: Option<ListPlace>,
}

/// A document that was named as the original of a duplicate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// The document; without its metadata unless the caller wants it.
    pub stored: StoredDocument,
    /// How often, and when last.
    pub touch: Touch,
}

/// One page of a list of originals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginalsPage {
    /// The originals, in the order of the query.
    pub items: Vec<Original>,
    /// Whether there are more after the last one.
    pub has_more: bool,
}

impl Touch {
    /// Its place in a list of this order.
    pub fn place(&self, order: OriginalsOrder) -> ListPlace {
        let number = match order {
            OriginalsOrder::Duplicates => self.duplicates,
            OriginalsOrder::Recent => self.last_s,
        };
        (number, self.sequence)
    }

    /// Its place as a cursor.
    pub fn cursor(&self, order: OriginalsOrder) -> String {
        let (number, sequence) = self.place(order);
        format!("{number}.{sequence}")
    }
}

impl Engine {
    /// How often a document was named as the original of a duplicate, since the last crash or the
    /// last snapshot before it. The document has to be stored.
    pub fn touch(&self, sequence: Sequence) -> Option<Touch> {
        self.shared.touches.get(sequence)
    }

    /// A page of the documents that were named as originals. Takes one pass over all counts, and
    /// reads a record for each document of the page.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub async fn originals(
        &self,
        query: OriginalsQuery,
        options: impl Into<PageOptions>,
    ) -> Result<OriginalsPage, Refused> {
        let (shared, options) = (Arc::clone(&self.shared), options.into());
        off_async(move || {
            let OriginalsQuery { reach, order, after } = query;
            let state = shared.published.load_full();
            let visibility = state.view.visibility(None, clock::now_ms(), None);
            let namespace = reach.in_view(&state.view, &shared.id_secret);
            let key = |touch: &Touch| {
                let (number, sequence) = touch.place(order);
                (Reverse(number), sequence)
            };
            let after = after.map(|(number, sequence)| (Reverse(number), sequence));
            let mut touches = shared.touches.all();
            touches.retain(|touch| after.is_none_or(|after| key(touch) > after));
            touches.sort_unstable_by_key(key);
            let mut records = RecordReader::new(&state.records);
            let (mut items, mut bytes) = (Vec::new(), 0);
            for touch in touches {
                let found = state.view.documents_at(&[(touch.sequence, touch.masked)]);
                let is_wanted = found.first().is_some_and(|found| {
                    namespace.is_none_or(|wanted| wanted == found.posting.namespace)
                        && !visibility.has_expired(found.posting)
                });
                if !is_wanted {
                    continue;
                }
                if items.len() == options.limit || bytes > options.bytes_max {
                    return Ok(OriginalsPage { items, has_more: true });
                }
                let mut stored = records.stored(touch.sequence)?;
                let document = &mut stored.document;
                document.metadata = document.metadata.take().filter(|_| options.with_metadata);
                bytes += 512 + document.metadata.as_ref().map_or(0, |m| m.as_str().len());
                bytes += document.id.as_ref().map_or(0, |id| id.as_str().len());
                items.push(Original { stored, touch });
            }
            Ok(OriginalsPage { items, has_more: false })
        })
        .await
    }
}

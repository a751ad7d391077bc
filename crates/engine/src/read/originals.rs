//! Originals: the documents with the most duplicates.

use std::cmp::Reverse;

use nearprint_machine::jobs::NamespaceFilter;
use nearprint_machine::query::{ListPlace, OriginalsOrder, Touch};

use crate::api::clock;
use crate::api::error::Refused;
use crate::api::replies::{Page, PageOptions, StoredDocument};
use crate::read::page::PageSpace;
use crate::read::reader::RecordReader;
use crate::state::published::Published;
use crate::state::touches::Touches;

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

/// A page of the originals; looks at no more counts than `looked_at_max`, or the limit of the page.
///
/// # Errors
/// [`Refused::Unreadable`].
pub(crate) fn page(
    state: &Published,
    (touches, id_secret): (&Touches, &[u8; 16]),
    query: OriginalsQuery,
    (looked_at_max, options): (usize, PageOptions),
) -> Result<Page<Original, ListPlace>, Refused> {
    let OriginalsQuery { reach, order, after } = query;
    let visibility = state.view.visibility(None, clock::now_ms(), None);
    let namespace = reach.in_view(&state.view, id_secret);
    let key = |touch: &Touch| {
        let (number, sequence) = touch.place(order);
        (Reverse(number), sequence)
    };
    let after = after.map(|(number, sequence)| (Reverse(number), sequence));
    let mut touches = touches.all();
    touches.retain(|touch| after.is_none_or(|after| key(touch) > after));
    let looked_at_max = looked_at_max.max(options.limit);
    // The order of those that the page does not look at does not matter.
    let is_cut = touches.len() > looked_at_max;
    if is_cut {
        touches.select_nth_unstable_by_key(looked_at_max, key);
        touches.truncate(looked_at_max);
    }
    touches.sort_unstable_by_key(key);
    let end = touches.last().filter(|_| is_cut).map(|touch| touch.place(order));
    let mut records = RecordReader::new(&state.records);
    let (mut space, mut items) = (PageSpace::new(options), Vec::new());
    let mut last = None;
    for touch in touches {
        let found = state.view.documents_at(&[(touch.sequence, touch.masked)]);
        let is_wanted = found.first().is_some_and(|found| {
            namespace.is_none_or(|wanted| wanted == found.posting.namespace)
                && !visibility.has_expired(found.posting)
        });
        if !is_wanted {
            continue;
        }
        let mut stored = records.stored(touch.sequence)?;
        if !space.takes(Some(&mut stored.document)) {
            return Ok(Page { items, next: last });
        }
        last = Some(touch.place(order));
        items.push(Original { stored, touch });
    }
    Ok(Page { items, next: end })
}

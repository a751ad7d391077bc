//! Lists of documents and of namespaces, by pages and as streams.

use std::sync::Arc;

use nearprint_fingerprint::Fingerprint;
use nearprint_index::namespace_key::NamespaceKey;
use nearprint_machine::document::{Namespace, Sequence};

use crate::api::blocking::{off_async, reading};
use crate::api::client::Client;
use crate::api::clock;
use crate::api::error::Refused;
use crate::api::replies::{NamespaceInfo, Page, PageOptions, StoredDocument};
use crate::handle::Engine;
use crate::read::listing::{Filling, ListQuery, Listing, NamespacePage, Slice};
use crate::read::page::PageSpace;
use crate::read::reader::RecordReader;
use crate::shared::Shared;

/// Documents of a view, a few at a time; see [`Engine::stream`].
#[derive(Debug)]
pub struct DocumentStream {
    shared: Arc<Shared>,
    client: Option<Client>,
    /// `None` while a page has it, and after the end or an error.
    listing: Option<Listing>,
}

/// Runs the next slice of a page; as long work, unless it is light and a run is kept.
async fn slice<F: Filling>(
    shared: &Arc<Shared>,
    client: Option<&Client>,
    mut page: F,
) -> Result<(F, Slice), Refused> {
    let kept = page.kept_run(&shared.scans);
    let is_long = kept.is_none() || !page.is_light();
    let own = Arc::clone(shared);
    let work = move || {
        let before = page.looked_at();
        let run = kept.unwrap_or_else(|| page.run(&own.scans));
        let slice = page.fill(&run)?;
        own.scans.looked_at(page.looked_at() - before);
        Ok((page, slice))
    };
    if !is_long {
        return off_async(work).await;
    }
    shared.scans.slice(client.cloned(), work).await
}

/// Fills a page, until it has looked at this many items.
async fn fill<F: Filling>(
    Engine { shared, client, .. }: &Engine,
    mut page: F,
    looked_at_max: usize,
) -> Result<Page<F::Item>, Refused> {
    let mut ended = Slice::Begun;
    while ended == Slice::Begun && !page.is_at_end() && page.looked_at() < looked_at_max {
        (page, ended) = slice(shared, client.as_ref(), page).await?;
    }
    let has_more = !page.is_at_end();
    let (items, after) = page.finish();
    Ok(Page { items, next: has_more.then_some(after) })
}

impl DocumentStream {
    /// The next documents, at most `limit`; none at the end. Blocks, and takes no permit: for
    /// callers on threads of their own. [`Self::next_piece`] shares the cores with others.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub fn next_documents(&mut self, limit: usize) -> Result<Vec<StoredDocument>, Refused> {
        let Some(listing) = self.listing.take() else { return Ok(Vec::new()) };
        let mut page = listing.page(limit.into());
        reading(|| {
            while !page.is_at_end() {
                let run = page.run(&self.shared.scans);
                if page.fill(&run)? == Slice::Full || page.space.is_full() {
                    break;
                }
            }
            Ok(())
        })?;
        self.listing = Some(page.listing);
        Ok(page.items)
    }

    /// The next documents, as many as fit; none at the end. Works in slices that give other work
    /// its turn, and ends between two of them when the future is dropped.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub async fn next_piece(
        &mut self,
        options: PageOptions,
    ) -> Result<Vec<StoredDocument>, Refused> {
        let Some(listing) = self.listing.take() else { return Ok(Vec::new()) };
        let (mut page, mut ended) = (listing.page(options), Slice::Begun);
        while ended == Slice::Begun && page.items.is_empty() && !page.is_at_end() {
            (page, ended) = slice(&self.shared, self.client.as_ref(), page).await?;
        }
        self.listing = Some(page.listing);
        Ok(page.items)
    }
}

impl Engine {
    /// A page of documents, oldest first. It may have fewer than the limit, or none, although more
    /// follow: it ends when it has looked at `list_scan_max` documents.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub async fn list(
        &self,
        query: ListQuery,
        options: impl Into<PageOptions>,
    ) -> Result<Page<StoredDocument>, Refused> {
        let page = self.listing(query).page(options.into());
        fill(self, page, self.shared.scans.looked_at_max).await
    }

    /// All documents that are stored now, oldest first. Changes that come later do not show, and
    /// nothing waits for the reader.
    pub fn stream(&self, query: ListQuery) -> DocumentStream {
        let listing = self.listing(query);
        let (shared, client) = (Arc::clone(&self.shared), self.client.clone());
        DocumentStream { shared, client, listing: Some(listing) }
    }

    /// The documents of a fingerprint in a namespace that were stored after a change, oldest first.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub async fn documents_of(
        &self,
        namespace: Option<&Namespace>,
        fingerprint: Fingerprint,
        after: Sequence,
        options: impl Into<PageOptions>,
    ) -> Result<Page<StoredDocument>, Refused> {
        let options = options.into();
        let state = self.shared.published.load_full();
        let key = namespace.map(|namespace| NamespaceKey::of(namespace, &self.shared.id_secret));
        let mut visibility = state.view.visibility(key, clock::now_ms(), None);
        visibility.since = Sequence::new(after.get().saturating_add(1));
        off_async(move || {
            let mut records = RecordReader::new(&state.records);
            let (mut space, mut items) = (PageSpace::new(options), Vec::new());
            let mut last = after.get();
            for posting in state.view.documents_of(fingerprint, visibility) {
                let mut stored = records.stored(posting.sequence)?;
                if !space.takes(Some(&mut stored.document)) {
                    return Ok(Page { items, next: Some(last) });
                }
                items.push(stored);
                last = posting.sequence.get();
            }
            Ok(Page { items, next: None })
        })
        .await
    }

    /// A page of the namespaces with documents, other than the default one, in the order in which
    /// they began: those that began after the one that `after` stands for. `admits` chooses by
    /// name. The page looks on until it is full, whatever it takes, so that it does not tell how
    /// many there are that it does not show.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub async fn namespaces(
        &self,
        after: u64,
        limit: usize,
        admits: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<Page<NamespaceInfo>, Refused> {
        let (state, items) = (self.shared.published.load_full(), Vec::new());
        let page = NamespacePage { state, after, limit, looked_at: 0, items, admits };
        fill(self, page, usize::MAX).await
    }

    /// The number of documents in a namespace, including those that have expired and are not
    /// removed yet.
    pub fn documents_in(&self, namespace: Option<&Namespace>) -> u64 {
        let view = &self.shared.published.load().view;
        match namespace {
            None => view.documents() - view.namespaces().documents(),
            Some(namespace) => {
                let key = NamespaceKey::of(namespace, &self.shared.id_secret).key;
                view.namespaces().get(key).map_or(0, |entry| entry.documents)
            }
        }
    }
    fn listing(&self, query: ListQuery) -> Listing {
        Listing::new(self.shared.published.load_full(), &self.shared.id_secret, query)
    }
}

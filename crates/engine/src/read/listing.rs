//! Listings: documents in the order in which they were stored, and namespaces.
//!
//! The view tells which documents there are, without a read from the disk; their records give the
//! rest. A page takes one pass over the view in memory, about 10 ns for each stored document; a
//! stream takes one for each [`WINDOW`] documents, and so constant memory.

use std::sync::Arc;

use nearprint_fingerprint::Fingerprint;
use nearprint_index::namespace_key::NamespaceKey;
use nearprint_index::namespaces::NamespaceEntry;
use nearprint_index::namespaces::NamespaceNumber;
use nearprint_index::times::second;
use nearprint_index::view::{Expired, Listed, Selection};

use crate::api::error::Refused;
use crate::api::replies::{NamespaceInfo, Page, PageOptions, StoredDocument};
use crate::blocking::off_async;
use crate::clock;
use crate::document::{Namespace, Sequence};
use crate::handle::Engine;
use crate::machine::jobs::NamespaceFilter;
use crate::published::Published;
use crate::read::page::PageSpace;
use crate::read::reader::{self, RecordReader};

/// Documents that one pass over the view finds for a stream: at most 40 MiB.
const WINDOW: usize = 1 << 19;
/// A page ends when this many records were read, even if few had the prefix.
const READ_FOR_PAGE_MAX: usize = 100_000;
/// Names of namespaces that are read for one page.
const NAMES_FOR_PAGE_MAX: usize = 10_000;

/// Which documents to list, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQuery {
    /// The namespaces whose documents are listed.
    pub reach: NamespaceFilter,
    /// Only documents whose ids begin so; `None` is any.
    pub prefix: Option<Box<str>>,
    /// They were stored after this change.
    pub after: Sequence,
}

/// Documents of a view, a few at a time; see [`Engine::stream`].
#[derive(Debug)]
pub struct DocumentStream {
    state: Arc<Published>,
    /// What the next pass finds; `None` after the last one.
    selection: Option<Selection>,
    prefix: Option<Box<str>>,
    records: RecordReader,
    /// What the last pass has found, the next one last.
    found: Vec<Listed>,
}

impl DocumentStream {
    fn new(state: Arc<Published>, query: ListQuery, secret: &[u8; 16]) -> Self {
        let ListQuery { reach, prefix, after } = query;
        let view = &state.view;
        let selection = Some(Selection {
            namespace: reach.in_view(view, secret),
            after,
            upto: view.sequence(),
            expired: Expired::Not(view.times().now_s().max(second(clock::now_ms()))),
        });
        Self {
            records: RecordReader::new(&state.records),
            state,
            selection,
            prefix,
            found: Vec::new(),
        }
    }

    /// The next documents, at most `limit`; none at the end. Blocks: it reads records.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub fn next_documents(&mut self, limit: usize) -> Result<Vec<StoredDocument>, Refused> {
        let mut documents = Vec::with_capacity(limit.min(1_024));
        while documents.len() < limit {
            let Some(listed) = self.next_listed(WINDOW) else { break };
            documents.extend(self.wanted(listed)?);
        }
        Ok(documents)
    }

    fn next_listed(&mut self, window: usize) -> Option<Listed> {
        if self.found.is_empty() {
            let selection = self.selection.as_mut()?;
            let mut found = self.state.view.list(*selection, window);
            match found.last() {
                Some(last) if found.len() == window => selection.after = last.posting.sequence,
                // That was the last pass.
                _ => self.selection = None,
            }
            found.reverse();
            self.found = found;
        }
        self.found.pop()
    }

    /// A document with its record, if it has the prefix.
    fn wanted(&mut self, listed: Listed) -> Result<Option<StoredDocument>, Refused> {
        if self.prefix.is_some() && !listed.posting.is_listed {
            return Ok(None);
        }
        let stored = self.records.stored(listed.posting.sequence)?;
        let has_prefix = |prefix: &str| {
            stored.document.id.as_ref().is_some_and(|id| id.as_str().starts_with(prefix))
        };
        let is_wanted = self.prefix.as_deref().is_none_or(has_prefix);
        Ok(is_wanted.then_some(stored))
    }

    fn page(mut self, options: PageOptions) -> Result<Page<StoredDocument>, Refused> {
        let (mut space, mut items) = (PageSpace::new(options), Vec::new());
        // One more, to know whether there is another page.
        let mut window = if self.prefix.is_some() { READ_FOR_PAGE_MAX } else { options.limit + 1 };
        let (mut seen, mut last) = (0, 0);
        while let Some(listed) = self.next_listed(window) {
            if space.is_full() || seen == READ_FOR_PAGE_MAX {
                return Ok(Page { items, next: Some(last) });
            }
            if let Some(mut stored) = self.wanted(listed)? {
                if !space.takes(Some(&mut stored.document)) {
                    return Ok(Page { items, next: Some(last) });
                }
                items.push(stored);
            }
            (seen, last) = (seen + 1, listed.posting.sequence.get());
            window = READ_FOR_PAGE_MAX;
        }
        Ok(Page { items, next: None })
    }
}

impl Engine {
    /// A page of documents, oldest first. With a prefix it may have fewer than the limit although
    /// more follow.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub async fn list(
        &self,
        query: ListQuery,
        options: impl Into<PageOptions>,
    ) -> Result<Page<StoredDocument>, Refused> {
        let (stream, options) = (self.stream(query), options.into());
        off_async(move || stream.page(options)).await
    }

    /// All documents that are stored now, oldest first. Changes that come later do not show, and
    /// nothing waits for the reader.
    pub fn stream(&self, query: ListQuery) -> DocumentStream {
        let state = self.shared.published.load_full();
        DocumentStream::new(state, query, &self.shared.id_secret)
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
        let visibility = state.view.visibility(key, clock::now_ms(), None);
        off_async(move || {
            let documents = state.view.documents_of(fingerprint, visibility);
            let mut records = RecordReader::new(&state.records);
            let (mut space, mut items) = (PageSpace::new(options), Vec::new());
            let mut last = after.get();
            for posting in documents.filter(|posting| posting.sequence > after) {
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
    /// name; the page may have fewer than `limit` although more follow.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub async fn namespaces(
        &self,
        after: u64,
        limit: usize,
        admits: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<Page<NamespaceInfo>, Refused> {
        let state = self.shared.published.load_full();
        off_async(move || {
            let after = NamespaceNumber::new(after);
            let entries = state.view.namespaces().page(after, NAMES_FOR_PAGE_MAX);
            let (mut items, mut last) = (Vec::new(), None);
            for entry in &entries {
                if items.len() == limit {
                    return Ok(Page { items, next: last });
                }
                last = Some(entry.number.get());
                let NamespaceEntry { named_by, documents, .. } = *entry;
                let namespace = reader::name(&state.records, named_by)?;
                if admits(namespace.as_str()) {
                    items.push(NamespaceInfo { namespace, documents });
                }
            }
            let next = last.filter(|_| entries.len() == NAMES_FOR_PAGE_MAX);
            Ok(Page { items, next })
        })
        .await
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
}

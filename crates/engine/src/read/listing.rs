//! Lists: documents in the order in which they were stored, and namespaces.
//!
//! [`runs`](crate::state::runs) tell which documents there are, without a read from the disk; their
//! records give the rest. [`scans`](crate::state::scans) bound the work of one request, and of all
//! of them together.

use std::sync::Arc;

use nearprint_fingerprint::Fingerprint;
use nearprint_index::id_key::IdKey;
use nearprint_index::namespaces::{NamespaceEntry, NamespaceNumber};
use nearprint_index::times::second;
use nearprint_index::view::{Expired, Selection};
use nearprint_machine::document::Sequence;
use nearprint_machine::jobs::NamespaceFilter;

use crate::api::clock;
use crate::api::error::Refused;
use crate::api::replies::{NamespaceInfo, PageOptions, StoredDocument};
use crate::read::page::PageSpace;
use crate::read::reader::{self, RecordReader};
use crate::state::published::Published;
use crate::state::runs::{ListRun, RUN_MAX};
use crate::state::scans::{SLICE, Scans};

/// Documents that are located together.
const LOCATED_MAX: usize = 128;

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

/// A page of a list that is being filled, in slices.
pub(crate) trait Filling: Sized + Send + 'static {
    type Item;
    /// What a run has for each item.
    type Known: Send + Sync + 'static;

    /// Whether the list has been looked at to its end.
    fn is_at_end(&self) -> bool;

    /// Whether the next slice looks at little more than it lists.
    fn is_light(&self) -> bool;

    /// How many items it has looked at.
    fn looked_at(&self) -> usize;

    /// The run that continues the list, if one is kept.
    fn kept_run(&self, scans: &Scans) -> Option<Arc<ListRun<Self::Known>>>;

    /// The run that continues the list; takes a pass over the view if none is kept.
    fn run(&self, scans: &Scans) -> Arc<ListRun<Self::Known>>;

    /// Looks at the next items of a run, at most [`SLICE`], or as many as the page lists. Blocks:
    /// it reads records.
    fn fill(&mut self, run: &ListRun<Self::Known>) -> Result<Slice, Refused>;

    /// Its items, and where the next page begins.
    fn finish(self) -> (Vec<Self::Item>, u64);
}

/// How a slice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slice {
    /// There is more to look at, or the list is at its end.
    Begun,
    /// The page is full, and there is another item.
    Full,
}

/// A list of documents of a view, and how far it has come.
#[derive(Debug)]
pub(crate) struct Listing {
    state: Arc<Published>,
    namespace: Option<NamespaceNumber>,
    prefix: Option<Box<str>>,
    /// It has looked at all documents up to this change.
    after: Sequence,
    now_s: u32,
    records: RecordReader,
}

impl Listing {
    pub(crate) fn new(state: Arc<Published>, id_secret: &[u8; 16], query: ListQuery) -> Self {
        let ListQuery { reach, prefix, after } = query;
        Self {
            namespace: reach.in_view(&state.view, id_secret),
            prefix,
            after,
            now_s: second(clock::now_ms()),
            records: RecordReader::new(&state.records),
            state,
        }
    }

    pub(crate) fn page(self, options: PageOptions) -> DocumentPage {
        let (space, items) = (PageSpace::new(options), Vec::new());
        DocumentPage { listing: self, space, items, looked_at: 0 }
    }

    fn has_prefix(&self, stored: &StoredDocument) -> bool {
        self.prefix.as_deref().is_none_or(|prefix| {
            stored.document.id.as_ref().is_some_and(|id| id.as_str().starts_with(prefix))
        })
    }
}

/// A page of documents.
pub(crate) struct DocumentPage {
    pub(crate) listing: Listing,
    pub(crate) space: PageSpace,
    pub(crate) items: Vec<StoredDocument>,
    looked_at: usize,
}

impl Filling for DocumentPage {
    type Item = StoredDocument;
    type Known = Fingerprint;

    fn is_at_end(&self) -> bool {
        let Listing { state, namespace, after, .. } = &self.listing;
        *after >= state.view.sequence() || *namespace == Some(NamespaceNumber::NONE)
    }

    /// The first documents of a page without a prefix are all that most such pages look at.
    fn is_light(&self) -> bool {
        self.looked_at == 0 && self.listing.prefix.is_none()
    }

    fn looked_at(&self) -> usize {
        self.looked_at
    }

    fn kept_run(&self, scans: &Scans) -> Option<Arc<ListRun<Fingerprint>>> {
        let Listing { state, namespace, after, .. } = &self.listing;
        scans.documents.find(namespace, after.get(), state.view.sequence().get())
    }

    fn run(&self, scans: &Scans) -> Arc<ListRun<Fingerprint>> {
        let &Listing { ref state, namespace, after, .. } = &self.listing;
        let upto = state.view.sequence();
        scans.run(&scans.documents, (namespace, after.get(), upto.get()), || {
            // Others may read the run later, when more has expired.
            let selection = Selection { namespace, after, upto, expired: Expired::Any };
            let found = state.view.list(selection, RUN_MAX);
            let items =
                found.iter().map(|found| (found.posting.sequence.get(), found.masked)).collect();
            ListRun::found(after.get(), items, (upto.get(), upto.get()))
        })
    }

    fn fill(&mut self, run: &ListRun<Fingerprint>) -> Result<Slice, Refused> {
        let mut left = SLICE.max(self.wanted());
        while left > 0 {
            let rest = run.after(self.listing.after.get());
            let some = &rest[..rest.len().min(self.wanted()).min(LOCATED_MAX).min(left)];
            let Some((last, _)) = some.last() else {
                self.listing.after = Sequence::new(run.upto);
                return Ok(Slice::Begun);
            };
            left -= some.len();
            if self.add(some)? == Slice::Full {
                return Ok(Slice::Full);
            }
            self.listing.after = Sequence::new(*last);
        }
        Ok(Slice::Begun)
    }

    fn finish(self) -> (Vec<StoredDocument>, u64) {
        (self.items, self.listing.after.get())
    }
}

impl DocumentPage {
    /// How many of the next documents fill the page and show whether another one follows.
    fn wanted(&self) -> usize {
        match self.listing.prefix {
            None => self.space.room().saturating_add(1),
            Some(_) => LOCATED_MAX,
        }
    }

    /// Adds those of these documents that are wanted to the page.
    fn add(&mut self, some: &[(u64, Fingerprint)]) -> Result<Slice, Refused> {
        let some: Vec<_> = some.iter().map(|&(at, masked)| (Sequence::new(at), masked)).collect();
        self.looked_at += some.len();
        let Self { listing, space, items, .. } = self;
        for located in listing.state.view.documents_at(&some) {
            let posting = located.posting;
            let has_expired = posting.expiry.is_some_and(|expiry| expiry.second() <= listing.now_s);
            if has_expired {
                continue;
            }
            if space.is_full() {
                return Ok(Slice::Full);
            }
            if listing.prefix.is_none() || posting.is_listed {
                let mut stored = listing.records.stored(posting.sequence)?;
                if listing.has_prefix(&stored) {
                    if !space.takes(Some(&mut stored.document)) {
                        return Ok(Slice::Full);
                    }
                    items.push(stored);
                }
            }
            listing.after = posting.sequence;
        }
        Ok(Slice::Begun)
    }
}

/// A page of namespaces.
pub(crate) struct NamespacePage<A> {
    pub(crate) state: Arc<Published>,
    /// It has looked at all namespaces up to this number.
    pub(crate) after: u64,
    pub(crate) limit: usize,
    pub(crate) looked_at: usize,
    pub(crate) items: Vec<NamespaceInfo>,
    pub(crate) admits: A,
}

impl<A: Fn(&str) -> bool + Send + 'static> Filling for NamespacePage<A> {
    type Item = NamespaceInfo;
    type Known = IdKey;

    fn is_at_end(&self) -> bool {
        self.after >= self.state.view.namespaces().last_number()
    }

    fn is_light(&self) -> bool {
        self.looked_at == 0
    }

    fn looked_at(&self) -> usize {
        self.looked_at
    }

    fn kept_run(&self, scans: &Scans) -> Option<Arc<ListRun<IdKey>>> {
        scans.namespaces.find(&(), self.after, self.state.view.sequence().get())
    }

    fn run(&self, scans: &Scans) -> Arc<ListRun<IdKey>> {
        let (namespaces, at) = (self.state.view.namespaces(), self.state.view.sequence().get());
        scans.run(&scans.namespaces, ((), self.after, at), || {
            let found = namespaces.page(NamespaceNumber::new(self.after), RUN_MAX);
            let items = found.iter().map(|entry| (entry.number.get(), entry.key)).collect();
            ListRun::found(self.after, items, (namespaces.last_number(), at))
        })
    }

    fn fill(&mut self, run: &ListRun<IdKey>) -> Result<Slice, Refused> {
        let at_most = SLICE.max(self.limit.saturating_add(1));
        let (namespaces, rest) = (self.state.view.namespaces(), run.after(self.after));
        for &(number, key) in rest.iter().take(at_most) {
            self.looked_at += 1;
            // It may have lost its last document since, and even have begun anew.
            let entry = namespaces.get(key).filter(|entry| entry.number.get() == number);
            if let Some(NamespaceEntry { named_by, documents, .. }) = entry {
                let namespace = reader::name(&self.state.records, named_by)?;
                if (self.admits)(namespace.as_str()) {
                    if self.items.len() == self.limit {
                        return Ok(Slice::Full);
                    }
                    self.items.push(NamespaceInfo { namespace, documents });
                }
            }
            self.after = number;
        }
        if rest.len() <= at_most {
            self.after = run.upto;
        }
        Ok(Slice::Begun)
    }

    fn finish(self) -> (Vec<NamespaceInfo>, u64) {
        (self.items, self.after)
    }
}

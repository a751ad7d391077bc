//! Lists: documents in the order in which they were stored, and namespaces.
//!
//! [`runs`](crate::read::runs) tell which documents there are, without a read from the disk; their
//! records give the rest. [`scans`](crate::read::scans) bound the work of one request, and of all of
//! them together.

use std::sync::Arc;

use nearprint_fingerprint::Fingerprint;
use nearprint_index::id_key::IdKey;
use nearprint_index::namespace_key::NamespaceKey;
use nearprint_index::namespaces::{NamespaceEntry, NamespaceNumber};
use nearprint_index::times::second;
use nearprint_index::view::{Expired, Selection};

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
use crate::read::runs::{RUN_MAX, Run};
use crate::read::scans::{SLICE, Scans};
use crate::shared::Shared;

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

/// Documents of a view, a few at a time; see [`Engine::stream`].
#[derive(Debug)]
pub struct DocumentStream {
    shared: Arc<Shared>,
    /// `None` while a slice has it, and after the end.
    listing: Option<Listing>,
}

/// A list of documents of a view, and how far it has come.
#[derive(Debug)]
struct Listing {
    state: Arc<Published>,
    namespace: Option<NamespaceNumber>,
    prefix: Option<Box<str>>,
    /// It has looked at all documents up to this change.
    after: Sequence,
    now_s: u32,
    records: RecordReader,
    /// How many documents the current page has looked at.
    looked_at: usize,
}

/// A page that is being filled.
struct Filling {
    space: PageSpace,
    items: Vec<StoredDocument>,
}

/// How a slice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slice {
    /// There is more to look at.
    Begun,
    /// The page is full, and there is another document.
    Full,
}

type DocumentRun = Arc<Run<Fingerprint>>;

impl Filling {
    fn new(options: PageOptions) -> Self {
        Self { space: PageSpace::new(options), items: Vec::new() }
    }
}

impl Listing {
    fn new(state: Arc<Published>, query: ListQuery, secret: &[u8; 16]) -> Self {
        let ListQuery { reach, prefix, after } = query;
        Self {
            namespace: reach.in_view(&state.view, secret),
            prefix,
            after,
            now_s: second(clock::now_ms()),
            records: RecordReader::new(&state.records),
            looked_at: 0,
            state,
        }
    }

    fn is_at_end(&self) -> bool {
        self.after >= self.state.view.sequence() || self.namespace == Some(NamespaceNumber::NONE)
    }

    /// The run that continues it, if one is kept.
    fn kept_run(&self, scans: &Scans) -> Option<DocumentRun> {
        scans.documents.find(&self.namespace, self.after.get(), self.state.view.sequence().get())
    }

    /// The run that continues it; takes a pass over the view if none is kept.
    fn run(&self, scans: &Scans) -> DocumentRun {
        run_of(scans, &self.state, self.namespace, self.after)
    }

    /// Looks at the next documents of a run, at most [`SLICE`], or as many as a page without a
    /// prefix has. Blocks: it reads records.
    fn fill(&mut self, run: &Run<Fingerprint>, page: &mut Filling) -> Result<Slice, Refused> {
        let mut left =
            SLICE.max(if self.prefix.is_none() { page.space.room().saturating_add(1) } else { 0 });
        while left > 0 {
            let rest = run.after(self.after.get());
            let wanted = if self.prefix.is_none() {
                page.space.room().saturating_add(1)
            } else {
                LOCATED_MAX
            };
            let some = &rest[..rest.len().min(wanted.min(LOCATED_MAX)).min(left)];
            let Some((last, _)) = some.last() else {
                self.after = Sequence::new(run.upto);
                return Ok(Slice::Begun);
            };
            left -= some.len();
            if self.add(some, page)? == Slice::Full {
                return Ok(Slice::Full);
            }
            self.after = Sequence::new(*last);
        }
        Ok(Slice::Begun)
    }

    /// Adds those of these documents that are wanted to the page.
    fn add(&mut self, some: &[(u64, Fingerprint)], page: &mut Filling) -> Result<Slice, Refused> {
        let some: Vec<_> = some.iter().map(|&(at, masked)| (Sequence::new(at), masked)).collect();
        self.looked_at += some.len();
        for located in self.state.view.documents_at(&some) {
            let posting = located.posting;
            let has_expired = posting.expiry.is_some_and(|expiry| expiry.second() <= self.now_s);
            if has_expired {
                continue;
            }
            if page.space.is_full() {
                return Ok(Slice::Full);
            }
            if self.prefix.is_none() || posting.is_listed {
                let mut stored = self.records.stored(posting.sequence)?;
                if self.has_prefix(&stored) {
                    if !page.space.takes(Some(&mut stored.document)) {
                        return Ok(Slice::Full);
                    }
                    page.items.push(stored);
                }
            }
            self.after = posting.sequence;
        }
        Ok(Slice::Begun)
    }

    fn has_prefix(&self, stored: &StoredDocument) -> bool {
        self.prefix.as_deref().is_none_or(|prefix| {
            stored.document.id.as_ref().is_some_and(|id| id.as_str().starts_with(prefix))
        })
    }
}

/// The run of documents that continues a list; takes a pass over the view if none is kept.
fn run_of(
    scans: &Scans,
    state: &Published,
    namespace: Option<NamespaceNumber>,
    after: Sequence,
) -> DocumentRun {
    let view = &state.view;
    let upto = view.sequence();
    scans.run(&scans.documents, (namespace, after.get(), upto.get()), || {
        // Others may read the run later, when more has expired.
        let selection = Selection { namespace, after, upto, expired: Expired::Any };
        let found = view.list(selection, RUN_MAX);
        let items =
            found.iter().map(|found| (found.posting.sequence.get(), found.masked)).collect();
        Run::found(after.get(), items, (upto.get(), upto.get()))
    })
}

impl DocumentStream {
    /// The next documents, at most `limit`; none at the end. Blocks, and takes no permit: for
    /// callers on threads of their own. [`Self::next_piece`] shares the cores with others.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub fn next_documents(&mut self, limit: usize) -> Result<Vec<StoredDocument>, Refused> {
        let Some(listing) = &mut self.listing else { return Ok(Vec::new()) };
        let mut page = Filling::new(limit.into());
        while !listing.is_at_end() {
            let run = listing.run(&self.shared.scans);
            if listing.fill(&run, &mut page)? == Slice::Full || page.space.is_full() {
                break;
            }
        }
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
        let mut page = Filling::new(options);
        loop {
            let Some(mut listing) = self.listing.take_if(|listing| !listing.is_at_end()) else {
                return Ok(page.items);
            };
            let shared = Arc::clone(&self.shared);
            let work = move || {
                listing.looked_at = 0;
                let run = listing.run(&shared.scans);
                let slice = listing.fill(&run, &mut page)?;
                shared.scans.looked_at(listing.looked_at);
                Ok((listing, page, slice))
            };
            let slice;
            (self.listing, page, slice) = {
                let (listing, page, slice) = self.shared.scans.slice(work).await?;
                (Some(listing), page, slice)
            };
            if slice == Slice::Full || !page.items.is_empty() {
                return Ok(page.items);
            }
        }
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
        let scans = &self.shared.scans;
        let state = self.shared.published.load_full();
        let mut listing = Listing::new(state, query, &self.shared.id_secret);
        let mut page = Filling::new(options.into());
        loop {
            if listing.is_at_end() {
                return Ok(Page { items: page.items, next: None });
            }
            if listing.looked_at >= scans.looked_at_max {
                return Ok(Page { items: page.items, next: Some(listing.after.get()) });
            }
            let run = if let Some(run) = listing.kept_run(scans) {
                run
            } else {
                let (shared, state) = (Arc::clone(&self.shared), Arc::clone(&listing.state));
                let (namespace, after) = (listing.namespace, listing.after);
                let pass = move || Ok(run_of(&shared.scans, &state, namespace, after));
                scans.slice(pass).await?
            };
            // The first documents of a page without a prefix are all that most such pages look at.
            let is_light = listing.looked_at == 0 && listing.prefix.is_none();
            let shared = Arc::clone(&self.shared);
            let work = move || {
                let before = listing.looked_at;
                let slice = listing.fill(&run, &mut page)?;
                shared.scans.looked_at(listing.looked_at - before);
                Ok((listing, page, slice))
            };
            let slice;
            (listing, page, slice) =
                if is_light { off_async(work).await? } else { scans.slice(work).await? };
            if slice == Slice::Full {
                return Ok(Page { items: page.items, next: Some(listing.after.get()) });
            }
        }
    }

    /// All documents that are stored now, oldest first. Changes that come later do not show, and
    /// nothing waits for the reader.
    pub fn stream(&self, query: ListQuery) -> DocumentStream {
        let state = self.shared.published.load_full();
        let listing = Listing::new(state, query, &self.shared.id_secret);
        DocumentStream { shared: Arc::clone(&self.shared), listing: Some(listing) }
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
    /// name; the page may have fewer than `limit`, or none, although more follow.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub async fn namespaces(
        &self,
        after: u64,
        limit: usize,
        admits: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<Page<NamespaceInfo>, Refused> {
        let scans = &self.shared.scans;
        let state = self.shared.published.load_full();
        let items = Vec::new();
        let mut names = Names { state, after, limit, looked_at: 0, items, admits };
        loop {
            let last = names.state.view.namespaces().last_number();
            if names.after >= last {
                return Ok(Page { items: names.items, next: None });
            }
            if names.looked_at >= scans.looked_at_max {
                return Ok(Page { items: names.items, next: Some(names.after) });
            }
            let at = names.state.view.sequence().get();
            let is_kept = scans.namespaces.find(&(), names.after, at).is_some();
            let is_light = is_kept && names.looked_at == 0;
            let shared = Arc::clone(&self.shared);
            let work = move || {
                let before = names.looked_at;
                let run = names.run(&shared.scans);
                let slice = names.fill(&run)?;
                shared.scans.looked_at(names.looked_at - before);
                Ok((names, slice))
            };
            let slice;
            (names, slice) =
                if is_light { off_async(work).await? } else { scans.slice(work).await? };
            if slice == Slice::Full {
                return Ok(Page { items: names.items, next: Some(names.after) });
            }
        }
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

/// A page of namespaces that is being filled.
struct Names<F> {
    state: Arc<Published>,
    /// It has looked at all namespaces up to this number.
    after: u64,
    limit: usize,
    looked_at: usize,
    items: Vec<NamespaceInfo>,
    admits: F,
}

impl<F: Fn(&str) -> bool> Names<F> {
    fn run(&self, scans: &Scans) -> Arc<Run<IdKey>> {
        let (namespaces, at) = (self.state.view.namespaces(), self.state.view.sequence().get());
        scans.run(&scans.namespaces, ((), self.after, at), || {
            let found = namespaces.page(NamespaceNumber::new(self.after), RUN_MAX);
            let items = found.iter().map(|entry| (entry.number.get(), entry.key)).collect();
            Run::found(self.after, items, (namespaces.last_number(), at))
        })
    }

    /// Looks at the next namespaces of a run, at most [`SLICE`], or as many as a page has. Blocks:
    /// it reads the records that have their names.
    fn fill(&mut self, run: &Run<IdKey>) -> Result<Slice, Refused> {
        let at_most = SLICE.max(self.limit.saturating_add(1));
        let (namespaces, rest) = (self.state.view.namespaces(), run.after(self.after));
        for &(number, key) in rest.iter().take(at_most) {
            self.looked_at += 1;
            // It may have lost its last document since, and even have begun anew.
            let entry = namespaces.get(key).filter(|entry| entry.number.get() == number);
            if let Some(NamespaceEntry { named_by, documents, .. }) = entry {
                if self.items.len() == self.limit {
                    return Ok(Slice::Full);
                }
                let namespace = reader::name(&self.state.records, named_by)?;
                if (self.admits)(namespace.as_str()) {
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
}

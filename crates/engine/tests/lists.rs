//! Promise: a page of a list costs its own length; a list that looks at much works in slices, ends
//! when its caller leaves, and has a bounded page. Method: an observer counts what lists look at,
//! and their passes over the index.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/options.rs"]
mod common;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use nearprint_engine::{
    Admission, Engine, ListQuery, NamespaceFilter, Observer, Options, PageOptions, StoredDocument,
};
use nearprint_fingerprint::Fingerprint;
use nearprint_machine::document::{Document, DocumentId, Namespace, Packed, Sequence};

/// The documents that one slice looks at.
const SLICE: u64 = 512;
const BATCH: u64 = 4_000;

#[derive(Debug, Default)]
struct Counts {
    looked_at: AtomicU64,
    passes: AtomicU64,
}

impl Observer for Counts {
    fn list_looked_at(&self, items: u64) {
        self.looked_at.fetch_add(items, Ordering::SeqCst);
    }

    fn list_passed(&self) {
        self.passes.fetch_add(1, Ordering::SeqCst);
    }
}

impl Counts {
    fn looked_at(&self) -> u64 {
        self.looked_at.load(Ordering::SeqCst)
    }

    fn passes(&self) -> u64 {
        self.passes.load(Ordering::SeqCst)
    }
}

struct Opened {
    engine: Engine,
    counts: Arc<Counts>,
    _directory: tempfile::TempDir,
}

fn open(list_scan_max: usize) -> Opened {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { list_threads: 1, list_scan_max, ..common::options(directory.path()) };
    let counts = Arc::new(Counts::default());
    let observer: Arc<dyn Observer> = Arc::clone(&counts) as _;
    let engine = Engine::open_observed(options, observer).unwrap();
    Opened { engine, counts, _directory: directory }
}

impl Drop for Opened {
    fn drop(&mut self) {
        tokio::task::block_in_place(|| self.engine.close());
    }
}

fn spread(number: u64) -> Fingerprint {
    Fingerprint::new((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn namespace(name: &str) -> Namespace {
    Namespace::new(name).unwrap()
}

async fn store(engine: &Engine, namespace: Option<Namespace>, numbers: std::ops::Range<u64>) {
    for first in numbers.clone().step_by(BATCH as usize) {
        let fingerprints = (first..numbers.end.min(first + BATCH)).map(spread).collect();
        let packed = Packed { namespace: namespace.clone(), expiry: None, fingerprints };
        let pending = engine.begin_insert_packed(packed, Admission::Wait).await.unwrap();
        pending.wait().await.unwrap();
    }
}

/// Stores documents with ids, which a list with a prefix has to read.
async fn store_named(engine: &Engine, count: u64) {
    let mut pending = Vec::new();
    for number in 0..count {
        let id = Some(DocumentId::new(format!("id {number:05}")).unwrap());
        let document = Document { id, ..Document::bare(spread(number)) };
        pending.push(engine.begin_insert(document, Admission::Wait).await.unwrap());
    }
    for pending in pending {
        pending.wait().await.unwrap();
    }
}

fn query(reach: NamespaceFilter, prefix: Option<&str>) -> ListQuery {
    ListQuery { reach, prefix: prefix.map(Into::into), after: Sequence::ZERO }
}

/// All documents by pages, and the number of pages.
async fn by_pages(engine: &Engine, mut query: ListQuery, limit: usize) -> (Vec<u64>, u64) {
    let (mut all, mut pages) = (Vec::new(), 0);
    loop {
        let page = engine.list(query.clone(), limit).await.unwrap();
        pages += 1;
        all.extend(page.items.iter().map(|stored| stored.sequence.get()));
        let Some(next) = page.next else { return (all, pages) };
        assert!(next > query.after.get(), "each page goes on");
        query.after = Sequence::new(next);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_looks_at_what_it_lists() {
    let Opened { engine, counts, .. } = &open(20_000);
    store(engine, None, 0..20_000).await;
    store(engine, Some(namespace("small")), 20_000..20_100).await;
    store(engine, None, 20_100..30_000).await;
    let (all, pages) = by_pages(engine, query(NamespaceFilter::All, None), 100).await;
    assert_eq!((all.len(), pages), (30_000, 300));
    assert_eq!(counts.passes(), 1, "one pass serves them all");
    assert!(counts.looked_at() <= 30_000 + 2 * pages, "{}", counts.looked_at());
    let before = counts.looked_at();
    let small = NamespaceFilter::Namespace(Some(namespace("small")));
    let (all, _) = by_pages(engine, query(small, None), 30).await;
    assert_eq!(all, (20_001..=20_100).collect::<Vec<_>>());
    assert_eq!(counts.passes(), 2);
    assert!(counts.looked_at() - before <= 110, "{}", counts.looked_at() - before);
    let none = NamespaceFilter::Namespace(Some(namespace("none")));
    assert_eq!(by_pages(engine, query(none, None), 30).await, (Vec::new(), 1));
    assert_eq!(counts.passes(), 2, "there is nothing to look for");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_ends_when_it_has_looked_at_enough() {
    let Opened { engine, counts, .. } = &open(1_000);
    store_named(engine, 5_000).await;
    let none = query(NamespaceFilter::All, Some("zzz"));
    let page = engine.list(none.clone(), 100).await.unwrap();
    assert!(page.items.is_empty() && page.next.is_some());
    assert!((1_000..1_000 + SLICE).contains(&counts.looked_at()), "{}", counts.looked_at());
    assert_eq!(by_pages(engine, none, 100).await, (Vec::new(), 5));
    let some = query(NamespaceFilter::All, Some("id 049"));
    assert_eq!(by_pages(engine, some, 7).await.0, (4_901..=5_000).collect::<Vec<_>>());
    // A stream goes on by itself.
    let mut stream = engine.stream(query(NamespaceFilter::All, Some("id 04999")));
    let options = PageOptions { limit: 9, bytes_max: 1 << 16, with_metadata: true };
    let found: Vec<StoredDocument> = stream.next_piece(options).await.unwrap();
    assert_eq!(found.iter().map(|stored| stored.sequence.get()).collect::<Vec<_>>(), [5_000]);
    assert!(stream.next_piece(options).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_ends_when_its_caller_leaves() {
    let Opened { engine, counts, .. } = &open(1_000_000);
    store_named(engine, 20_000).await;
    {
        let mut page = pin!(engine.list(query(NamespaceFilter::All, Some("zzz")), 100));
        std::future::poll_fn(|cx| {
            let is_pending = page.as_mut().poll(cx).is_pending();
            assert!(is_pending, "it has not looked at everything");
            if counts.looked_at() > 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    let first = counts.looked_at();
    // There is one permit: if the list went on, its slices would take turns with those of another.
    let other = engine.list(query(NamespaceFilter::All, Some("yyy")), 100).await.unwrap();
    assert_eq!((other.items.len(), other.next), (0, None));
    // One slice may have been under way.
    let most = first + SLICE + 20_000;
    assert!(counts.looked_at() <= most, "{first} {}", counts.looked_at());
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_namespaces_cost_their_own_length() {
    let Opened { engine, counts, .. } = &open(1_000);
    for number in 0..3_000 {
        let namespace = Some(namespace(&format!("n{number:04}")));
        let document = Document { namespace, ..Document::bare(spread(number)) };
        drop(engine.begin_insert(document, Admission::Wait).await.unwrap());
    }
    engine.remove_fingerprint(Some(namespace("n0007")), spread(7)).await.unwrap();
    let (mut names, mut after, mut pages) = (Vec::new(), 0, 0);
    loop {
        let page = engine.namespaces(after, 100, |_| true).await.unwrap();
        names.extend(page.items.into_iter().map(|info| info.namespace.as_str().to_owned()));
        pages += 1;
        if names.len() == 100 {
            // One that vanishes, and one that begins anew, while one pages.
            engine.remove_fingerprint(Some(namespace("n0500")), spread(500)).await.unwrap();
            engine.remove_fingerprint(Some(namespace("n0600")), spread(600)).await.unwrap();
            store(engine, Some(namespace("n0600")), 600..601).await;
        }
        let Some(next) = page.next else { break };
        after = next;
    }
    let mut expected: Vec<_> = (0..3_000).map(|number| format!("n{number:04}")).collect();
    expected.retain(|name| !["n0007", "n0500", "n0600"].contains(&name.as_str()));
    expected.push("n0600".to_owned());
    assert_eq!(names, expected);
    assert!(counts.passes() <= 2, "{}", counts.passes());
    assert!(counts.looked_at() <= 3_000 + 2 * pages, "{}", counts.looked_at());
    // A caller who may see one of them does not notice the others, before it or after it.
    for seen in ["n0000", "n2999"] {
        let page = engine.namespaces(0, 1, move |name| name == seen).await.unwrap();
        assert_eq!((page.items[0].namespace.as_str(), page.next), (seen, None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_does_not_lack_what_was_removed_since_it_began() {
    let Opened { engine, counts, .. } = &open(20_000);
    store(engine, None, 0..3_000).await;
    let mut stream = engine.stream(query(NamespaceFilter::All, None));
    assert_eq!(engine.remove_fingerprint(None, spread(2_999)).await.unwrap().documents, 1);
    // Its pass finds one less.
    assert_eq!(by_pages(engine, query(NamespaceFilter::All, None), 1_000).await.0.len(), 2_999);
    let options = PageOptions { limit: 700, bytes_max: 1 << 20, with_metadata: true };
    let mut streamed = 0;
    loop {
        let some = stream.next_piece(options).await.unwrap();
        if some.is_empty() {
            break;
        }
        streamed += some.len();
    }
    assert_eq!((streamed, counts.passes()), (3_000, 2));
    // Pages use the run of the earlier state.
    assert_eq!(by_pages(engine, query(NamespaceFilter::All, None), 1_000).await.0.len(), 2_999);
    store(engine, None, 5_000..5_001).await;
    assert_eq!(by_pages(engine, query(NamespaceFilter::All, None), 1_000).await.0.len(), 3_000);
    assert!(counts.passes() <= 4, "{}", counts.passes());
}

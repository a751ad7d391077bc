//! Promise: what has expired is not a hit from that second on, and expiry and purges give back what
//! they remove; a purge counts exactly, can be cancelled, and continues after a restart. Method:
//! the whole engine with small files, until the removals are done.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::needless_pass_by_value,
    clippy::ref_option,
    clippy::unnecessary_wraps,
    reason = "a namespace as the engine takes it, and an engine that is closed is gone"
)]

#[path = "common/options.rs"]
mod common;

use std::path::Path;
use std::time::Duration;

use nearprint_engine::{
    Admission, Criteria, Engine, Job, JobState, ListQuery, NamespaceFilter, Options, PackedQuery,
    Purge, QueryOptions, Work,
};
use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_machine::document::{Document, DocumentId, Expiry, Namespace, Packed, Sequence};

/// A hang is a failure; nothing here takes a few seconds.
const DEADLINE: Duration = Duration::from_mins(1);
const BATCH: u64 = 4_000;

fn open(directory: &Path) -> Engine {
    let options = Options { journal_file_bytes: 1 << 20, ..common::options(directory) };
    Engine::open(options).expect("the directory opens")
}

fn close(engine: Engine) {
    tokio::task::block_in_place(|| engine.close());
}

fn spread(number: u64) -> Fingerprint {
    Fingerprint::new((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn named(name: &str) -> Option<Namespace> {
    Some(Namespace::new(name).unwrap())
}

async fn store(engine: &Engine, namespace: &Option<Namespace>, numbers: std::ops::Range<u64>) {
    for first in numbers.clone().step_by(BATCH as usize) {
        let fingerprints = (first..numbers.end.min(first + BATCH)).map(spread).collect();
        let packed = Packed { namespace: namespace.clone(), expiry: None, fingerprints };
        let pending = engine.begin_insert_packed(packed, Admission::Wait).await.unwrap();
        pending.wait().await.unwrap();
    }
}

/// The bytes of the files of snapshots.
fn snapshot_bytes(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let parts = files.filter(|file| file.path().extension().is_some_and(|end| end == "seg"));
    // A file may be removed while this looks.
    parts.map(|file| file.metadata().map_or(0, |metadata| metadata.len())).sum()
}

async fn insert(engine: &Engine, id: &str, number: u64) {
    let id = Some(DocumentId::new(id).unwrap());
    let document = Document { id, ..Document::bare(spread(number)) };
    let pending = engine.begin_insert(document, Admission::Wait).await.unwrap();
    pending.wait().await.unwrap();
}

/// Checks every 20 ms, so that no test rests on how long something takes.
async fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let checks = async {
        while !happened() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, checks).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Waits for the end of a purge: its state, and how many documents it has found and removed.
async fn ended(engine: &Engine, job: &Job) -> (JobState, u64, u64) {
    let find = || engine.job(job.number).unwrap();
    until("the job ends", || find().has_ended()).await;
    let Job { state, work: Work::Purge(work), .. } = find() else { panic!("it is a purge") };
    (state, work.matched, work.removed)
}

fn purge_of(reach: NamespaceFilter) -> Purge {
    Purge { reach, prefix: None, stored_before_ms: None, dry_run: false }
}

async fn hits(engine: &Engine, namespace: &Option<Namespace>, number: u64) -> usize {
    let namespace = namespace.clone();
    let probe = Document { namespace, ..Document::bare(spread(number)) };
    let criteria = Criteria::within(Distance::new(3).unwrap());
    let options = QueryOptions { criteria, limit: 10, with_metadata: false };
    engine.query(&probe, options).await.unwrap().hits.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_expired_is_no_hit_and_is_given_back() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    let now_s = Engine::now_ms() / 1_000;
    for (expires_at, name) in [(now_s + 2, "soon"), (now_s + 3_600, "late")] {
        for first in (0..20_000).step_by(BATCH as usize) {
            let packed = Packed {
                namespace: named(name),
                expiry: Expiry::at(expires_at),
                fingerprints: (first..first + BATCH).map(spread).collect(),
            };
            let pending = engine.begin_insert_packed(packed, Admission::Wait).await.unwrap();
            pending.wait().await.unwrap();
        }
    }
    assert_eq!(hits(&engine, &named("late"), 7).await, 1);
    until("it expires", || Engine::now_ms() / 1_000 >= now_s + 2).await;
    assert_eq!(hits(&engine, &named("soon"), 7).await, 0);
    let query =
        PackedQuery { namespace: named("soon"), criteria: Criteria::within(Distance::default()) };
    let all: Vec<_> = (0..20_000).map(spread).collect();
    let nearest = engine.nearest_scheduled(&engine.share(), all.clone(), &query).await.unwrap();
    assert!(nearest.iter().all(|&distance| distance == 255));
    until("it is removed", || engine.stats().documents == 20_000).await;
    assert_eq!(engine.documents_in(named("soon").as_ref()), 0);
    assert_eq!(engine.documents_in(named("late").as_ref()), 20_000);
    let late = PackedQuery { namespace: named("late"), ..query };
    let nearest = engine.nearest_scheduled(&engine.share(), all, &late).await.unwrap();
    assert!(nearest.iter().all(|&distance| distance == 0));
    close(engine);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_removes_a_namespace_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    let (old, new) = (named("crawl/1"), named("crawl/2"));
    store(&engine, &old, 0..30_000).await;
    store(&engine, &new, 0..1_000).await;
    store(&engine, &None, 0..1_000).await;
    let dry = Purge { dry_run: true, ..purge_of(NamespaceFilter::Namespace(old.clone())) };
    let job = ended(&engine, &engine.begin_purge(dry).await.unwrap()).await;
    assert_eq!(job, (JobState::Done, 30_000, 0));
    assert_eq!(engine.stats().documents, 32_000);
    let purge = purge_of(NamespaceFilter::Namespace(old.clone()));
    let job = ended(&engine, &engine.begin_purge(purge).await.unwrap()).await;
    assert_eq!(job, (JobState::Done, 30_000, 30_000));
    assert_eq!(engine.documents_in(old.as_ref()), 0);
    assert_eq!(engine.documents_in(new.as_ref()), 1_000);
    assert_eq!(engine.documents_in(None), 1_000);
    assert_eq!((hits(&engine, &old, 5).await, hits(&engine, &new, 5).await), (0, 1));
    let page = engine.namespaces(0, 10, |_| true).await.unwrap();
    assert_eq!(page.items.len(), 1);
    assert_eq!(Some(page.items[0].namespace.clone()), new);
    close(engine);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_chooses_by_prefix_and_age_and_spares_what_comes_later() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    for number in 0..200 {
        let site = if number % 2 == 0 { "https://a.example" } else { "https://b.example" };
        insert(&engine, &format!("{site}/{number}"), number).await;
    }
    store(&engine, &None, 1_000..1_100).await;
    let by_prefix = Purge {
        prefix: Some("https://a.example/".into()),
        ..purge_of(NamespaceFilter::Namespace(None))
    };
    let job = ended(&engine, &engine.begin_purge(by_prefix).await.unwrap()).await;
    assert_eq!(job, (JobState::Done, 100, 100));
    let begun_s = Engine::now_ms() / 1_000;
    until("another second begins", || Engine::now_ms() / 1_000 > begun_s).await;
    let limit_ms = Engine::now_ms();
    store(&engine, &None, 2_000..2_010).await;
    let by_age = Purge { stored_before_ms: Some(limit_ms), ..purge_of(NamespaceFilter::All) };
    let job = ended(&engine, &engine.begin_purge(by_age).await.unwrap()).await;
    assert_eq!(job, (JobState::Done, 200, 200));
    assert_eq!(engine.stats().documents, 10);
    close(engine);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_goes_on_after_a_restart_and_its_count_is_exact() {
    const DOCUMENTS: u64 = 600_000;
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    store(&engine, &None, 0..DOCUMENTS).await;
    let job = engine.begin_purge(purge_of(NamespaceFilter::Namespace(None))).await.unwrap();
    until("it has begun", || engine.stats().documents < DOCUMENTS).await;
    close(engine);
    let mut restarts = 0;
    loop {
        let engine = open(directory.path());
        let known = engine.job(job.number).unwrap();
        if known.state == JobState::Running && restarts < 5 {
            restarts += 1;
            let left = engine.stats().documents;
            until("it goes on", || left == 0 || engine.stats().documents < left).await;
            close(engine);
            continue;
        }
        let (state, _, removed) = ended(&engine, &known).await;
        assert_eq!((state, removed), (JobState::Done, DOCUMENTS));
        assert_eq!(engine.stats().documents, 0);
        close(engine);
        break;
    }
    assert!(restarts > 0, "it was interrupted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_purge_removes_no_more() {
    const DOCUMENTS: u64 = 600_000;
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    store(&engine, &None, 0..DOCUMENTS).await;
    let job = engine.begin_purge(purge_of(NamespaceFilter::All)).await.unwrap();
    until("it has begun", || engine.stats().documents < DOCUMENTS).await;
    assert!(engine.cancel_job(job.number).await.unwrap());
    assert!(!engine.cancel_job(job.number).await.unwrap(), "it has ended");
    let (state, _, removed) = ended(&engine, &job).await;
    assert_eq!(state, JobState::Cancelled);
    assert_eq!(removed + engine.stats().documents, DOCUMENTS);
    assert!(removed < DOCUMENTS, "it was cancelled on the way");
    close(engine);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_the_stream_list_everything_once_while_writes_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    store(&engine, &named("site"), 0..3_000).await;
    for number in 0..300 {
        insert(&engine, &format!("id {number:03}"), 10_000 + number).await;
    }
    let everything = ListQuery { reach: NamespaceFilter::All, prefix: None, after: Sequence::ZERO };
    let mut stream = engine.stream(everything.clone());
    store(&engine, &None, 50_000..51_000).await;
    let mut streamed = Vec::new();
    loop {
        let some = tokio::task::block_in_place(|| stream.next_documents(777)).unwrap();
        if some.is_empty() {
            break;
        }
        streamed.extend(some);
    }
    assert_eq!(streamed.len(), 3_300, "what came later does not show");
    assert!(streamed.is_sorted_by_key(|stored| stored.sequence));
    assert!(streamed[..3_000].iter().all(|stored| stored.document.namespace == named("site")));
    let (mut paged, mut query) = (Vec::new(), everything);
    loop {
        let page = engine.list(query.clone(), 100).await.unwrap();
        paged.extend(page.items);
        let Some(next) = page.next else { break };
        query.after = Sequence::new(next);
    }
    assert_eq!(paged[..3_300], streamed);
    assert_eq!(paged.len(), 4_300);
    let prefix = Some("id 29".into());
    let some = ListQuery { reach: NamespaceFilter::Namespace(None), prefix, after: Sequence::ZERO };
    let page = engine.list(some, 5).await.unwrap();
    assert_eq!((page.items.len(), page.next.is_some()), (5, true));
    close(engine);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_documents_of_a_fingerprint_are_reached_by_pages() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    for number in 0..57 {
        let id = Some(DocumentId::new(format!("copy {number}")).unwrap());
        let document = Document { id, ..Document::bare(spread(1)) };
        let pending = engine.begin_insert(document, Admission::Wait).await.unwrap();
        pending.wait().await.unwrap();
    }
    let (mut ids, mut after) = (Vec::new(), Sequence::ZERO);
    loop {
        let page = engine.documents_of(None, spread(1), after, 10).await.unwrap();
        ids.extend(page.items.into_iter().map(|stored| stored.document.id.unwrap().to_string()));
        let Some(next) = page.next else { break };
        after = Sequence::new(next);
    }
    let expected: Vec<_> = (0..57).map(|number| format!("copy {number}")).collect();
    assert_eq!(ids, expected);
    close(engine);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_gives_back_the_files_of_both_snapshots() {
    const MANY: u64 = 3_000_000;
    // Below this, a snapshot is not worth replacing; the rest is the state.
    const SMALL: u64 = 9 << 20;
    let directory = tempfile::tempdir().unwrap();
    let options = Options { delta_events: 32_768, ..common::options(directory.path()) };
    let engine = Engine::open(options).unwrap();
    store(&engine, &None, 0..MANY / 2).await;
    engine.snapshot().await.unwrap();
    store(&engine, &None, MANY / 2..MANY).await;
    engine.snapshot().await.unwrap();
    let before = snapshot_bytes(directory.path());
    assert!(before > 2 * SMALL, "{before}");
    let purge = purge_of(NamespaceFilter::All);
    ended(&engine, &engine.begin_purge(purge).await.unwrap()).await;
    until("it is given back", || snapshot_bytes(directory.path()) < SMALL).await;
    close(engine);
}

//! Promise: a process that is refused memory ends at once, and has lost nothing that was answered.
//! Method: this program starts itself; the child stores and removes documents in an engine with all
//! its threads, prints what was answered, and its allocator fails at the N-th allocation, for many
//! N from the first to the last. Then the directory is opened, and has everything that was printed.

#![expect(unsafe_code, reason = "an allocator is unsafe to write")]
#![expect(clippy::print_stdout, reason = "how the child tells what was answered")]

#[path = "common/options.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};

use nearprint_engine::document::{Document, DocumentId};
use nearprint_engine::{Admission, Engine, Options};
use nearprint_fingerprint::Fingerprint;

/// Children per commit; `make torture` starts 5,000.
const CHILDREN: u64 = 40;
const DOCUMENTS: u64 = 300;
/// One document in this many is removed again.
const REMOVED_EVERY: u64 = 5;
const SIGABRT: i32 = 6;

#[global_allocator]
static ALLOCATOR: FailingAllocator = FailingAllocator;

/// That of the system, without one allocation.
struct FailingAllocator;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// The number of the allocation that fails; 0 for none.
static FAILS_AT: AtomicU64 = AtomicU64::new(0);

impl FailingAllocator {
    fn fails() -> bool {
        let number = ALLOCATIONS.fetch_add(1, Ordering::Relaxed) + 1;
        number == FAILS_AT.load(Ordering::Relaxed)
    }
}

// SAFETY: memory is that of the system's allocator or null, which means that there is none.
unsafe impl GlobalAlloc for FailingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if Self::fails() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the same rules.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if Self::fails() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the same rules.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // Refused, the old memory stays.
        if Self::fails() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the same rules.
        unsafe { System.realloc(old, layout, bytes) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the same rules.
        unsafe { System.dealloc(old, layout) }
    }
}

/// Small files, deltas and snapshots, so that the threads of the background are at work.
fn options(data: &Path) -> Options {
    Options {
        delta_events: 32,
        journal_file_bytes: 4_096,
        snapshot_changes: 50,
        snapshot_interval_ms: 1,
        ..common::options(data)
    }
}

fn id(number: u64) -> DocumentId {
    DocumentId::new(format!("document {number}")).expect("it is short")
}

/// The child: stores documents and prints the number of each change that was answered, and in the
/// end the number of allocations.
async fn store(data: &Path) {
    // The name of the test stands in the line.
    println!();
    let engine = Engine::open(options(data)).expect("the disk works");
    for number in 0..DOCUMENTS {
        let fingerprint = Fingerprint::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let document = Document { id: Some(id(number)), ..Document::bare(fingerprint) };
        let pending = engine.begin_insert(document, Admission::Wait).await.expect("it is up");
        pending.wait().await.expect("it is up");
        println!("stored {number}");
        if number % REMOVED_EVERY == 0 {
            engine.remove(None, id(number)).await.expect("it is up");
            println!("removed {number}");
        }
    }
    engine.close();
    println!("allocations {}", ALLOCATIONS.load(Ordering::Relaxed));
}

/// Runs only as the child of the test below, which names a directory and an allocation.
#[tokio::test]
#[ignore = "the test below starts it"]
#[expect(clippy::disallowed_methods, reason = "how the parent tells the child")]
async fn child() {
    let variable = |name| std::env::var(name).expect("the parent sets it");
    let data = variable("NEARPRINT_TEST_DATA");
    let at = variable("NEARPRINT_TEST_FAILS_AT").parse().expect("a number");
    ALLOCATIONS.store(0, Ordering::Relaxed);
    FAILS_AT.store(at, Ordering::Relaxed);
    store(Path::new(&data)).await;
}

/// What a child printed, and how it ended.
fn run_child(data: &Path, fails_at: u64) -> (Vec<(String, u64)>, ExitStatus) {
    let output = Command::new(std::env::current_exe().expect("it runs"))
        .args(["--exact", "child", "--ignored", "--nocapture", "--test-threads", "1"])
        .env("NEARPRINT_TEST_DATA", data)
        .env("NEARPRINT_TEST_FAILS_AT", fails_at.to_string())
        .output()
        .expect("it starts");
    let said = String::from_utf8(output.stdout).expect("ASCII");
    let line = |line: &str| {
        let (word, number) = line.split_once(' ')?;
        Some((word.to_owned(), number.parse().ok()?))
    };
    (said.lines().filter_map(line).collect(), output.status)
}

/// The directory has what was answered, and nothing else but what may have been under way.
async fn check(data: &Path, answered: &[(String, u64)]) {
    let engine = Engine::open(options(data)).expect("a start after it succeeds");
    let count = |word| answered.iter().filter(|(said, _)| said == word).count() as u64;
    let (stored, removed) = (count("stored"), count("removed"));
    for number in 0..stored {
        let found = engine.document(None, &id(number)).await.expect("it can be read").is_some();
        let is_removed = number % REMOVED_EVERY == 0 && number / REMOVED_EVERY < removed;
        let may_be_removed = number % REMOVED_EVERY == 0 && number + 1 == stored;
        assert!(found != is_removed || may_be_removed, "document {number} is there: {found}");
    }
    let documents = engine.stats().documents;
    assert!((stored - removed).abs_diff(documents) <= 1, "{documents} of {stored} - {removed}");
    engine.close();
}

#[expect(clippy::disallowed_methods, reason = "tests are set up by their environment")]
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_allocation_ends_the_process_and_loses_nothing_that_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (said, ended) = run_child(&folder.path().join("whole"), 0);
    assert!(ended.success(), "{ended}");
    let (_, all) = said.into_iter().find(|(word, _)| word == "allocations").unwrap();
    let children =
        std::env::var("NEARPRINT_TEST_CHILDREN").map_or(CHILDREN, |n| n.parse().unwrap());
    let (mut aborted, mut answers) = (0, 0);
    for child in 0..children {
        let data = &folder.path().join(format!("{child}"));
        let fails_at = 1 + child * all / children;
        let (answered, ended) = run_child(data, fails_at);
        // Threads of the background do not allocate at the same moments each time.
        let was_spared = ended.success();
        assert!(was_spared || ended.signal() == Some(SIGABRT), "allocation {fails_at}: {ended}");
        check(data, &answered).await;
        aborted += u64::from(!was_spared);
        answers += answered.len();
        std::fs::remove_dir_all(data).unwrap();
    }
    println!("{aborted} of {children} children aborted, {answers} answers");
    assert!(aborted * 2 > children && answers > 1_000, "this proves nothing");
}

//! Promise: a process that is refused memory ends at once, and has lost nothing that was answered.
//! Method: this program starts itself; the child stores and removes documents in an engine with all
//! its threads, prints what was answered, and its allocator fails at the N-th allocation after the
//! start or after one of the documents. Then the directory is opened, and has everything that was
//! printed. Counted from a document, as the threads of the background allocate more in a slow run.

#![expect(unsafe_code, reason = "an allocator is unsafe to write")]
#![expect(clippy::print_stdout, reason = "how the child tells what was answered")]

#[path = "common/options.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};

use nearprint_engine::{Admission, Engine, Options};
use nearprint_fingerprint::Fingerprint;
use nearprint_machine::document::{Document, DocumentId};

/// Children per commit; `make torture` starts 5,000.
const CHILDREN: u64 = 40;
const DOCUMENTS: u64 = 300;
/// One document in this many is removed again.
const REMOVED_EVERY: u64 = 5;
const SIGABRT: i32 = 6;
/// Times the number of a document or a child, it is a number without a pattern in its remainders.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

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

/// The allocation of a child that fails: the `count`-th from 1, counted from the start of the
/// opening or after that many documents. A `count` of 0 fails none.
#[derive(Clone, Copy, Debug)]
struct Failing {
    after: Option<u64>,
    count: u64,
}

impl Failing {
    /// Called before the opening, and when that many documents were answered.
    fn arm(self, answered: Option<u64>) {
        if self.count > 0 && self.after == answered {
            FAILS_AT.store(ALLOCATIONS.load(Ordering::Relaxed) + self.count, Ordering::Relaxed);
        }
    }
}

/// The child: stores documents and prints the number of each change that was answered, and the
/// number of allocations after the opening and in the end.
async fn store(data: &Path, failing: Failing) {
    // The name of the test stands in the line.
    println!();
    failing.arm(None);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let allocations = || ALLOCATIONS.load(Ordering::Relaxed) - before;
    let engine = Engine::open(options(data)).expect("the disk works");
    println!("opening {}", allocations());
    for number in 0..DOCUMENTS {
        failing.arm(Some(number));
        let fingerprint = Fingerprint::new(number.wrapping_mul(SPREAD));
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
    println!("allocations {}", allocations());
}

/// Runs only as the child of the test below, which names a directory and an allocation.
#[tokio::test]
#[ignore = "the test below starts it"]
#[expect(clippy::disallowed_methods, reason = "how the parent tells the child")]
async fn child() {
    let variable = |name| std::env::var(name).expect("the parent sets it");
    let failing = Failing {
        after: variable("NEARPRINT_TEST_FAILS_AFTER").parse().ok(),
        count: variable("NEARPRINT_TEST_FAILS_AT").parse().expect("a number"),
    };
    store(Path::new(&variable("NEARPRINT_TEST_DATA")), failing).await;
}

/// What a child printed, and how it ended.
fn run_child(data: &Path, failing: Failing) -> (Vec<(String, u64)>, ExitStatus) {
    let output = Command::new(std::env::current_exe().expect("it runs"))
        .args(["--exact", "child", "--ignored", "--nocapture", "--test-threads", "1"])
        .env("NEARPRINT_TEST_DATA", data)
        .env(
            "NEARPRINT_TEST_FAILS_AFTER",
            failing.after.map_or("opening".to_owned(), |n| n.to_string()),
        )
        .env("NEARPRINT_TEST_FAILS_AT", failing.count.to_string())
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
    let none = Failing { after: None, count: 0 };
    let (said, ended) = run_child(&folder.path().join("whole"), none);
    assert!(ended.success(), "{ended}");
    let said = |wanted: &str| said.iter().find(|(word, _)| word == wanted).unwrap().1;
    let opening = said("opening");
    let by_document = (said("allocations") - opening) / DOCUMENTS;
    let children =
        std::env::var("NEARPRINT_TEST_CHILDREN").map_or(CHILDREN, |n| n.parse().unwrap());
    let (mut aborted, mut answers) = (0, 0);
    for child in 0..children {
        let data = &folder.path().join(format!("{child}"));
        let after = (child * DOCUMENTS / children).checked_sub(1);
        let among = if after.is_some() { by_document } else { opening };
        let failing = Failing { after, count: 1 + child.wrapping_mul(SPREAD) % among };
        let (answered, ended) = run_child(data, failing);
        // A child whose last documents need fewer allocations ends before it.
        let was_spared = ended.success();
        assert!(was_spared || ended.signal() == Some(SIGABRT), "{failing:?}: {ended}");
        check(data, &answered).await;
        aborted += u64::from(!was_spared);
        answers += answered.len();
        std::fs::remove_dir_all(data).unwrap();
    }
    println!("{aborted} of {children} children aborted, {answers} answers");
    assert!(aborted * 2 > children && answers > 1_000, "this proves nothing");
}

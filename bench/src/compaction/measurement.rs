//! The same figures of a real index: a view, and the threads of the engine without its journal.
//!
//! This thread inserts, and installs what the flusher and the merger send it. These two read the
//! published view, as in [`nearprint_engine`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nearprint::cli::measure::numbers::float;
use nearprint_engine::document::Sequence;
use nearprint_fingerprint::Distance;
use nearprint_index::compaction::built::Built;
use nearprint_index::compaction::policy::{self, FULL_DELTAS_MAX, Load};
use nearprint_index::compaction::work::CompactionWork;
use nearprint_index::levels::segment::Segment;
use nearprint_index::permutation::Permutation;
use nearprint_index::plan::SMALL_MAX;
use nearprint_index::view::{Shape, View};

use super::figures::{Figures, Written};
use super::simulation::{Rates, Setup};
use crate::clock::{Stopwatch, pause};
use crate::data::Stored;
use crate::process;
use crate::progress::Progress;

/// Fingerprints inserted between two looks at what is to be installed.
const BATCH: usize = 4_096;
/// How long the flusher and the merger wait before they look for work again.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A kind of background work.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Flush,
    SmallMerge,
    /// Small segments become a large one.
    Promotion,
    LargeMerge,
    Tables,
}

impl Kind {
    fn of(work: &CompactionWork) -> Self {
        match work {
            CompactionWork::Flush { .. } => Self::Flush,
            CompactionWork::MergeSegments { into_large: false, .. } => Self::SmallMerge,
            CompactionWork::MergeSegments { from, .. } if from[0].sorted().is_small() => {
                Self::Promotion
            }
            CompactionWork::MergeSegments { .. } => Self::LargeMerge,
            CompactionWork::MergeTables { .. } => Self::Tables,
        }
    }
}

/// The entries that background work wrote, and the time it took, by kind.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    entries: [u64; 5],
    ns: [u64; 5],
}

impl Totals {
    fn each_ns(&self, kind: Kind) -> u64 {
        self.ns[kind as usize] / self.entries[kind as usize].max(1)
    }

    fn written(&self, setup: &Setup) -> Written {
        let entries = |kind| self.entries[kind as usize];
        let promoted = entries(Kind::Promotion);
        Written {
            flushed: entries(Kind::Flush),
            merged: entries(Kind::SmallMerge) + promoted + entries(Kind::LargeMerge),
            in_tables: entries(Kind::Tables) + promoted * setup.secondary_tables as u64,
        }
    }
}

/// The state that the threads share.
struct Shared {
    published: Mutex<View>,
    merging: Mutex<Option<Merging>>,
    totals: Mutex<Totals>,
    /// Everything has been inserted, and flushed.
    inserted: AtomicBool,
    flushed: AtomicBool,
}

struct Merging {
    segments: Vec<Arc<Segment>>,
    since: Sequence,
}

/// A result for the writer, who drops `_done` once it is installed.
struct Install {
    built: Built,
    _done: Sender<()>,
}

/// Inserts random fingerprints into an index that serves look-ups up to `distance`. Also returns
/// what an entry of each kind of work took, in nanoseconds on a core.
pub(super) fn measure(setup: &Setup, distance: Distance, stored: &Stored) -> (Figures, Rates) {
    let before = process::settled_memory();
    process::forget_peak();
    let mut view = View::new(Shape {
        distance_max: distance,
        delta_events: setup.delta_events as usize,
        small_max: SMALL_MAX,
        permutation: Arc::new(Permutation::from_secret(1)),
        has_labels: true,
    });
    let shared = Shared {
        published: Mutex::new(view.clone()),
        merging: Mutex::new(None),
        totals: Mutex::default(),
        inserted: AtomicBool::new(false),
        flushed: AtomicBool::new(false),
    };
    let begun = Stopwatch::start();
    let (insert_ns, visited) = thread::scope(|scope| {
        let (sender, installs) = mpsc::channel();
        let flusher = scope.spawn({
            let (shared, sender) = (&shared, sender.clone());
            move || flush_all(shared, &sender)
        });
        let merger = &shared;
        scope.spawn(move || merge_all(merger, &sender));
        let insert_ns = insert_all(&mut view, stored, &shared, &installs);
        (insert_ns, flusher.join().expect("the flusher does not panic"))
    });
    let (loaded, seconds) = (lock(&shared.totals).written(setup), float(begun.ns()) / 1e9);
    let newest = |view: &View| view.next_merge_of_newest(None, Load::Paused);
    let _progress = Progress::during("merging the idle index");
    while let Some(work) = newest(&view).or_else(|| view.next_merge(Load::Idle)) {
        run(&shared, work, |built| {
            view.install(&built);
            // An older published view would keep what was merged in memory.
            publish(&shared, &view);
        });
    }
    let totals = *lock(&shared.totals);
    let peak = before.zip(process::settled_memory());
    let figures = Figures {
        how: "measured",
        loaded,
        settled: totals.written(setup),
        peak_bytes: peak.map(|(before, after)| float(after.peak.saturating_sub(before.resident))),
        seconds,
        ..Figures::new(stored.count(), &visited)
    };
    let rates = Rates {
        insert_ns: insert_ns / stored.count(),
        flush_ns: totals.each_ns(Kind::Flush),
        small_merge_ns: totals.each_ns(Kind::SmallMerge),
        promotion_ns: totals.each_ns(Kind::Promotion),
        large_merge_ns: totals.each_ns(Kind::LargeMerge),
        table_ns: totals.each_ns(Kind::Tables),
    };
    (figures, rates)
}

/// The writer: inserts everything, and installs until the other two threads have ended. Returns the
/// time that inserts alone took.
fn insert_all(
    view: &mut View,
    stored: &Stored,
    shared: &Shared,
    installs: &Receiver<Install>,
) -> u64 {
    let progress = Progress::of("inserting fingerprints", stored.count());
    let mut insert_ns = 0;
    for batch in stored.batches(BATCH) {
        let begun_ns = process::thread_cpu_ns();
        view.put_bare(&batch, None, None);
        insert_ns += cpu_ns_since(begun_ns);
        progress.at(view.documents());
        publish(shared, view);
        loop {
            let is_full = view.full_deltas().len() >= FULL_DELTAS_MAX;
            let next = if is_full { installs.recv().ok() } else { installs.try_recv().ok() };
            let Some(install) = next else { break };
            view.install(&install.built);
            publish(shared, view);
        }
    }
    view.rotate();
    publish(shared, view);
    shared.inserted.store(true, Ordering::Release);
    for install in installs {
        view.install(&install.built);
        publish(shared, view);
    }
    insert_ns
}

/// The flusher. Returns the number of segments after each flush.
fn flush_all(shared: &Shared, writer: &Sender<Install>) -> Vec<u64> {
    let mut visited = Vec::new();
    loop {
        // In this order: what was inserted before is then in the view.
        let inserted = shared.inserted.load(Ordering::Acquire);
        let Some(work) = published(shared).next_flush() else {
            if inserted {
                shared.flushed.store(true, Ordering::Release);
                return visited;
            }
            pause(LOOK_EVERY);
            continue;
        };
        run(shared, work, |built| send(writer, built));
        let delay = {
            let merging = lock(&shared.merging);
            let owned = merging.as_ref().map(|merging| &merging.segments[..]);
            let newest = || published(shared).next_merge_of_newest(owned, Load::Writing);
            while let Some(work) = newest() {
                run(shared, work, |built| send(writer, built));
            }
            let view = published(shared);
            visited.push(view.segments().len() as u64);
            let since = merging.as_ref().map(|merging| merging.since.get());
            let arrived = since.map_or(0, |since| view.sequence().get() - since);
            policy::write_delay(&view.sizes(), arrived)
        };
        pause(delay);
    }
}

/// The merger: merges until everything is flushed and nothing is left to merge under load.
fn merge_all(shared: &Shared, writer: &Sender<Install>) {
    loop {
        let flushed = shared.flushed.load(Ordering::Acquire);
        let work = {
            let mut merging = lock(&shared.merging);
            let view = published(shared);
            let work = view.next_merge(Load::Writing);
            *merging = work
                .as_ref()
                .map(|work| Merging { segments: work.segments().to_vec(), since: view.sequence() });
            work
        };
        match work {
            Some(work) => {
                run(shared, work, |built| {
                    let segments = built.segments().to_vec();
                    send(writer, built);
                    if let Some(merging) = &mut *lock(&shared.merging) {
                        merging.segments = segments;
                    }
                });
                *lock(&shared.merging) = None;
            }
            None if flushed => return,
            None => pause(LOOK_EVERY),
        }
    }
}

/// Runs a piece of work, and counts what it wrote and the time on a core, without its installation.
fn run(shared: &Shared, work: CompactionWork, mut install: impl FnMut(Built)) {
    let (kind, entries) = (Kind::of(&work) as usize, work.size());
    let (mut steps, mut ns) = (work.steps(), 0);
    loop {
        let begun_ns = process::thread_cpu_ns();
        let Some(built) = steps.next() else { break };
        ns += cpu_ns_since(begun_ns);
        install(built);
    }
    let mut totals = lock(&shared.totals);
    totals.entries[kind] += entries;
    totals.ns[kind] += ns;
}

/// The time of this thread on a core since an earlier reading: other work on the machine does not
/// count. 0 where the kernel does not count it.
fn cpu_ns_since(begun_ns: Option<u64>) -> u64 {
    begun_ns.zip(process::thread_cpu_ns()).map_or(0, |(begun, now)| now.saturating_sub(begun))
}

/// Sends a result to the writer, and waits until it is installed.
fn send(writer: &Sender<Install>, built: Built) {
    let (done, installed) = mpsc::channel::<()>();
    writer.send(Install { built, _done: done }).expect("the writer outlives the other threads");
    // It ends with an error, when the writer drops its end.
    let _dropped = installed.recv();
}

fn publish(shared: &Shared, view: &View) {
    *lock(&shared.published) = view.clone();
}

fn published(shared: &Shared) -> View {
    lock(&shared.published).clone()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

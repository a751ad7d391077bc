//! Promise: nothing is visible or answered before it is durable, who was answered finds its write, a
//! race has one winner, and every command that has its place is answered, also when the disk fails.
//! Method: loom runs every interleaving (within its bound of preemptions) of two clients, a reader and
//! the writer.
//!
//! The engine's own types rest on tokio's channels and on arc-swap, which do not run under loom. What
//! is tried here is the protocol of `engine/writer.rs` and `index/delta.rs`, step by step: write-once
//! cells with a published length, a queue that closes, a group that is decided, made durable,
//! published, answered, in this order. Each order that would be wrong is a mutant, and is caught.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// What is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    Healthy,
    /// The length of the delta is published without `Release`.
    RelaxedLength,
    PublishBeforeDurable,
    AnswerBeforePublish,
    /// A verdict that trusts a search of an older view.
    StaleSearch,
    /// The writer ends without an answer to those that wait.
    ForgetTheQueue,
}

/// No more writes than this.
const CELLS: usize = 2;

/// The delta: write-once cells, readable up to a length that a view was published with.
struct Delta {
    /// 0 is an empty cell. Only the length orders them.
    cells: [AtomicUsize; CELLS],
    length: AtomicUsize,
}

impl Delta {
    fn append(&self, value: usize, order: Ordering) {
        let at = self.length.load(Ordering::Relaxed);
        self.cells[at].store(value, Ordering::Relaxed);
        self.length.store(at + 1, order);
    }

    /// Whether the value is there, in the first cells of a view.
    fn holds(&self, value: usize, view: usize) -> bool {
        let length = view.min(self.length.load(Ordering::Acquire));
        let cells = self.cells[..length].iter().map(|cell| cell.load(Ordering::Relaxed));
        cells.fold(false, |found, cell| {
            assert_ne!(cell, 0, "a cell is filled before a length covers it");
            found || cell == value
        })
    }
}

/// An answer that is waited for.
#[derive(Default)]
struct Answer {
    told: Mutex<Option<Told>>,
    given: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// The length of the delta after it.
    Inserted(usize),
    Duplicate,
    Refused,
}

impl Answer {
    fn give(&self, told: Told) {
        *self.told.lock().unwrap() = Some(told);
        self.given.notify_one();
    }

    fn wait(&self) -> Told {
        let mut told = self.told.lock().unwrap();
        loop {
            if let Some(told) = *told {
                return told;
            }
            told = self.given.wait(told).unwrap();
        }
    }
}

/// A check-and-insert in the queue: its value, the view it was searched in, what was found.
struct Submission {
    value: usize,
    since: usize,
    found: bool,
    answer: Arc<Answer>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Submission>,
    closed: bool,
}

fn refuse(submissions: &[Submission]) {
    for submission in submissions {
        submission.answer.give(Told::Refused);
    }
}

struct Shared {
    delta: Delta,
    /// The published view: how much of the delta it shows.
    view: AtomicUsize,
    /// What the disk holds.
    durable: AtomicUsize,
    queue: Mutex<Queue>,
    filled: Condvar,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            delta: Delta {
                cells: [AtomicUsize::new(0), AtomicUsize::new(0)],
                length: AtomicUsize::new(0),
            },
            view: AtomicUsize::new(0),
            durable: AtomicUsize::new(0),
            queue: Mutex::new(Queue::default()),
            filled: Condvar::new(),
        })
    }

    /// `Engine::begin_check_and_insert` and the wait for its answer.
    fn check_and_insert(&self, value: usize) -> Told {
        let since = self.view.load(Ordering::Acquire);
        assert!(self.durable.load(Ordering::Acquire) >= since, "visible before it is durable");
        let found = self.delta.holds(value, since);
        let answer = Arc::new(Answer::default());
        {
            let mut queue = self.queue.lock().unwrap();
            if queue.closed {
                return Told::Refused;
            }
            queue.waiting.push(Submission { value, since, found, answer: Arc::clone(&answer) });
        }
        self.filled.notify_one();
        let told = answer.wait();
        if let Told::Inserted(length) = told {
            assert!(
                self.durable.load(Ordering::Acquire) >= length,
                "answered before it is durable"
            );
            let view = self.view.load(Ordering::Acquire);
            assert!(self.delta.holds(value, view), "who was answered finds its write");
        }
        told
    }

    /// A reader: what it sees is durable and whole.
    fn look(&self) {
        let view = self.view.load(Ordering::Acquire);
        assert!(self.durable.load(Ordering::Acquire) >= view, "visible before it is durable");
        for value in [1, 2] {
            self.delta.holds(value, view);
        }
    }

    /// `Writer::serve`, until so many commands were taken; the disk fails from a command on.
    fn write(&self, commands: usize, fails_at: usize, mutant: Mutant) {
        let mut taken = 0;
        while taken < commands {
            let group = {
                let mut queue = self.queue.lock().unwrap();
                while queue.waiting.is_empty() {
                    queue = self.filled.wait(queue).unwrap();
                }
                std::mem::take(&mut queue.waiting)
            };
            taken += group.len();
            if taken >= fails_at {
                refuse(&group);
                break;
            }
            self.commit(group, mutant);
        }
        let left = {
            let mut queue = self.queue.lock().unwrap();
            queue.closed = true;
            std::mem::take(&mut queue.waiting)
        };
        if mutant != Mutant::ForgetTheQueue {
            refuse(&left);
        }
    }

    /// `Writer::commit_group`: decided, durable, published, answered.
    fn commit(&self, group: Vec<Submission>, mutant: Mutant) {
        let relaxed = mutant == Mutant::RelaxedLength;
        let order = if relaxed { Ordering::Relaxed } else { Ordering::Release };
        let mut answers = Vec::new();
        for Submission { value, since, found, answer } in group {
            let length = self.delta.length.load(Ordering::Relaxed);
            // Brought up to date with what changed since the search.
            let changed = since < length && mutant != Mutant::StaleSearch;
            let told = if found || (changed && self.delta.holds(value, length)) {
                Told::Duplicate
            } else {
                self.delta.append(value, order);
                Told::Inserted(length + 1)
            };
            answers.push((answer, told));
        }
        let length = self.delta.length.load(Ordering::Relaxed);
        let publish =
            || self.view.store(length, if relaxed { Ordering::Relaxed } else { Ordering::Release });
        let sync = || self.durable.store(length, Ordering::Release);
        let tell = || answers.iter().for_each(|(answer, told)| answer.give(*told));
        match mutant {
            Mutant::PublishBeforeDurable => {
                publish();
                sync();
                tell();
            }
            Mutant::AnswerBeforePublish => {
                sync();
                tell();
                publish();
            }
            Mutant::Healthy
            | Mutant::RelaxedLength
            | Mutant::StaleSearch
            | Mutant::ForgetTheQueue => {
                sync();
                publish();
                tell();
            }
        }
    }
}

/// Two clients race with equal documents; the main thread reads beside them.
fn race(fails_at: usize, mutant: Mutant) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let shared = Shared::new();
        let clients = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.check_and_insert(1))
        });
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.write(2, fails_at, mutant))
        };
        shared.look();
        let told = clients.map(|client| client.join().unwrap());
        writer.join().unwrap();
        let won = told.iter().filter(|told| matches!(told, Told::Inserted(_))).count();
        if fails_at > 2 {
            assert_eq!(won, 1, "{told:?}");
            assert!(told.contains(&Told::Duplicate), "{told:?}");
        } else {
            assert!(won <= 1 && told.contains(&Told::Refused), "{told:?}");
        }
    });
}

#[test]
fn a_race_has_one_winner_and_nothing_is_seen_too_early() {
    race(usize::MAX, Mutant::Healthy);
}

#[test]
fn every_command_is_answered_when_the_disk_fails() {
    race(1, Mutant::Healthy);
    race(2, Mutant::Healthy);
}

#[test]
fn each_wrong_order_is_caught() {
    for (fails_at, mutant) in [
        (usize::MAX, Mutant::RelaxedLength),
        (usize::MAX, Mutant::PublishBeforeDurable),
        (usize::MAX, Mutant::AnswerBeforePublish),
        (usize::MAX, Mutant::StaleSearch),
        (1, Mutant::ForgetTheQueue),
    ] {
        let caught = catch_unwind(AssertUnwindSafe(|| race(fails_at, mutant)));
        assert!(caught.is_err(), "{mutant:?} was not caught: the model proves nothing");
    }
}

//! Promise: every write whose reply was read before a power cut is stored after it. Method:
//! `strace` records every call by which a real server changes its files, through a kill, a recovery
//! and a stop, while clients note when they read which reply. From this the states are built that a
//! power cut at any event could have left, the real server is started on each, and compared with
//! what had been answered. Needs no root and no file system of its own.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use tempfile::TempDir;

use crate::load::{answered, compare, pause, under_load, until_answered, workers};
use crate::random::{self, Random};
use crate::record::{self, Call, Event, Step};
use crate::recorded_disk::{Image, RecordedDisk};
use crate::strace;
use crate::support::server::Server;
use crate::worker::Worker;

const WORKERS: usize = 3;
/// `make torture` takes 10,000.
const STATES: u64 = 100;
/// States of one record.
const RECORD_STATES: u64 = 100;
/// The records in which a server that lies must be caught; nearly always the first is enough.
const RECORDS_MAX: usize = 5;
/// The writes that are answered before each end of a recorded server; fewer would prove little.
const ANSWERS_MIN: u64 = 21;
/// For the tracer to end after the server; 10 ms each.
const LOOKS_MAX: u32 = 3_000;

/// What a server did while its clients wrote into their ledgers.
struct Recording {
    /// What was there before, and the clients then.
    before: Image,
    workers: Vec<Worker>,
    /// The clients after it.
    later: Vec<Worker>,
    events: Vec<Event>,
}

#[expect(clippy::disallowed_methods, reason = "what the server's disk has")]
fn image(folder: &Path) -> Image {
    let mut image = Image::new();
    let data = folder.join("data");
    if data.is_dir() {
        image.insert("data".to_owned(), None);
        for entry in fs::read_dir(data).expect("it is a folder") {
            let entry = entry.expect("listed");
            let name = entry.file_name().into_string().expect("ASCII");
            image.insert(format!("data/{name}"), Some(fs::read(entry.path()).expect("a file")));
        }
    }
    image
}

#[expect(clippy::disallowed_methods, reason = "what the server's disk has")]
fn write(image: &Image, folder: &Path) {
    for (name, bytes) in image {
        let path = folder.join(name);
        match bytes {
            None => fs::create_dir(path).expect("the disk has space"),
            // A power cut may leave no folder for it.
            Some(_) if !image.contains_key("data") => {}
            Some(bytes) => fs::write(path, bytes).expect("the disk has space"),
        }
    }
}

impl Recording {
    /// A server under load that is killed, and started and stopped; a fault may be injected.
    fn new(folder: &Path, workers: Vec<Worker>, fault: Option<&str>, random: &mut Random) -> Self {
        let before = image(folder);
        let (mut disk, mut events) = (RecordedDisk::new(&before), Vec::new());
        let with_journal = |worker: &Worker| worker.clone().with_journal(random.next());
        let mut later: Vec<_> = workers.iter().map(with_journal).collect();
        for is_killed in [true, false] {
            let known = events.len();
            let record = folder.join("record");
            let command = strace::recorded(&record, fault, &folder.join("data"));
            let server = Server::of(command).expect("it starts");
            if !is_killed {
                compare(&mut later, &server.client());
            }
            let enough = until_answered(ANSWERS_MIN, &later);
            later = under_load(later, &server, |server| {
                enough();
                pause(300 + random.below(400));
                if is_killed {
                    server.kill();
                } else {
                    assert!(server.terminate().success());
                }
            });
            record::read(&complete(&record, server.id()), folder, &mut events);
            (known..).zip(&events[known..]).for_each(|(at, event)| disk.apply(at, &event.step));

            let left = image(folder);
            let time = events.last().expect("it has written").time;
            for (begin, done) in disk.interrupted(&left) {
                let end = Step::End(begin, done);
                disk.apply(events.len(), &end);
                events.push(Event { time, step: end });
            }
            if is_killed && let Some(call) = unseen(&disk.image(), &left) {
                for step in [Step::Begin(call), Step::End(events.len(), true)] {
                    disk.apply(events.len(), &step);
                    events.push(Event { time, step });
                }
            }
            assert_same(&disk.image(), &left);
        }
        Self { before, workers, later, events }
    }

    /// Builds states at random places in their order, and checks each with the clients as they were
    /// when the power went. Returns the last one.
    fn check_states(
        &self,
        states: u64,
        random: &mut Random,
        check: impl Fn(&Path, &mut [Worker]),
    ) -> (TempDir, Vec<Worker>) {
        let mut cuts: Vec<_> =
            (0..states).map(|_| (random.below(self.events.len() + 1), random.next())).collect();
        cuts.sort_unstable();
        let mut disk = RecordedDisk::new(&self.before);
        let (mut applied, mut last) = (0, None);
        for (cut, seed) in cuts {
            (applied..cut).for_each(|at| disk.apply(at, &self.events[at].step));
            applied = cut;
            let time = self.events.get(cut).map_or(u64::MAX, |event| event.time);
            let until = |(worker, later): (&Worker, &Worker)| worker.until(time, later);
            let mut workers: Vec<_> = self.workers.iter().zip(&self.later).map(until).collect();
            let folder = tempfile::tempdir().expect("the disk has space");
            write(&disk.after_power_cut(seed), folder.path());
            check(folder.path(), &mut workers);
            last = Some((folder, workers));
        }
        last.expect("at least one")
    }
}

/// The whole record, once the tracer has written it.
fn complete(record: &Path, process: u32) -> String {
    for _ in 0..LOOKS_MAX {
        let text = fs::read_to_string(record).expect("the tracer writes it");
        if record::is_complete(&text, process) {
            return text;
        }
        pause(10);
    }
    panic!("the tracer does not end");
}

/// The last call, if the death of the process has kept it from the tracer or cut it short: about
/// once in 150 lives a file is there, or gone, or has more bytes, of whose call the record has no
/// begin or no length.
fn unseen(recorded: &Image, left: &Image) -> Option<Call> {
    let created = left.keys().find(|name| !recorded.contains_key(*name));
    let removed = recorded.keys().find(|name| !left.contains_key(*name));
    let named = created.cloned().map(Call::Create).or(removed.cloned().map(Call::Remove));
    named.or_else(|| {
        left.iter().find_map(|(name, is)| unseen_write(name, recorded[name].as_ref(), is.as_ref()))
    })
}

/// What was written where the record of a file has nothing, or zeros to its end.
fn unseen_write(name: &str, recorded: Option<&Vec<u8>>, left: Option<&Vec<u8>>) -> Option<Call> {
    let (recorded, left) = (recorded?, left?);
    let differs = |at: &usize| recorded.get(*at) != left.get(*at);
    let first = (0..left.len()).find(differs)?;
    let last = (first..left.len()).rfind(differs)?;
    let before = recorded.get(first..).unwrap_or_default();
    let is_new = before.iter().all(|byte| *byte == 0);
    is_new.then(|| Call::Write(name.to_owned(), first, left[first..=last].to_vec()))
}

/// Whether the record has every change: otherwise its states prove nothing.
fn assert_same(recorded: &Image, left: &Image) {
    assert!(recorded.keys().eq(left.keys()), "{:?}, not {:?}", recorded.keys(), left.keys());
    for (name, bytes) in recorded {
        assert!(*bytes == left[name], "{name} has other bytes than were recorded");
    }
}

#[test]
fn a_last_write_is_taken_from_the_disk_and_no_other() {
    let image = |bytes: &[u8]| Image::from([("data/a".to_owned(), Some(bytes.to_vec()))]);
    let write = |recorded: &[u8], left: &[u8]| match unseen(&image(recorded), &image(left)) {
        Some(Call::Write(name, offset, bytes)) if name == "data/a" => Some((offset, bytes)),
        other => other.map(|call| panic!("{call:?}")),
    };
    assert_eq!(write(&[1, 2, 0, 0], &[1, 2, 3, 0]), Some((2, vec![3])));
    assert_eq!(write(&[1, 2], &[1, 2, 3, 4]), Some((2, vec![3, 4])));
    assert_eq!(write(&[1, 2, 0, 0], &[1, 2, 0, 0]), None);
    // A record without a write before others proves nothing.
    assert_eq!(write(&[1, 2, 0, 0], &[1, 9, 3, 0]), None);
    assert_eq!(write(&[1, 0, 0, 4], &[1, 2, 3, 4]), None);
}

/// Starts a server on what a power cut has left, and compares.
fn compare_state(folder: &Path, workers: &mut [Worker]) {
    let server = Server::start(&folder.join("data"));
    compare(workers, &server.client());
    server.kill();
}

#[test]
fn every_answer_read_before_is_in_every_state_that_a_power_cut_leaves() {
    if !strace::is_here() {
        return;
    }
    let mut random = Random::of_run();
    let states = random::variable("NEARPRINT_TEST_POWER_STATES").unwrap_or(STATES);
    let mut last = (tempfile::tempdir().unwrap(), workers(WORKERS, &mut random));
    let (mut checked, mut written, mut events) = (0, 0, 0);
    while checked < states {
        // The next record begins with the last state.
        let (folder, workers) = last;
        let recording = Recording::new(folder.path(), workers, None, &mut random);
        let count = RECORD_STATES.min(states - checked);
        last = recording.check_states(count, &mut random, compare_state);
        checked += count;
        written += answered(&recording.later) - answered(&recording.workers);
        events += recording.events.len();
        println!("{checked} states of {events} events: {written} writes answered");
    }
    assert!(written > 20 * states.div_ceil(RECORD_STATES), "too few writes: this proves nothing");
}

/// One fault makes no file durable, the other no name. Both begin in a directory that is whole.
/// On a busy machine few answers are recorded, and perhaps none after a file was created: then the
/// next record begins with the last state.
#[test]
fn a_server_whose_syncs_lie_is_caught_within_a_few_records() {
    if !strace::is_here() {
        return;
    }
    let mut random = Random::of_run();
    for fault in ["fdatasync:retval=0", "fsync:retval=0"] {
        let folder = tempfile::tempdir().unwrap();
        let data = &folder.path().join("data");
        let server = Server::start(data);
        let mut workers = under_load(workers(WORKERS, &mut random), &server, |server| {
            pause(200);
            assert!(server.terminate().success());
        });
        compare_state(folder.path(), &mut workers);
        let mut last = Some((folder, workers));
        let is_caught = (0..RECORDS_MAX).any(|_| {
            let (folder, workers) = last.take().expect("no state was wrong before");
            let recording = Recording::new(folder.path(), workers, Some(fault), &mut random);
            let compared = catch_unwind(AssertUnwindSafe(|| {
                recording.check_states(RECORD_STATES, &mut random, compare_state)
            }));
            last = compared.ok();
            last.is_none()
        });
        assert!(is_caught, "{fault}: the comparison proves nothing");
    }
}

//! Promise: verdicts and hits of concurrent operations equal those of a sequential replay in the
//! order of `sequence`. Method: mixed operations from 64 clients on islands of near
//! fingerprints, then each island replayed by the model, which compares with everything it holds.

use std::collections::BTreeMap;

use nearprint::document::{Document, Sequence};
use nearprint::engine::{Admission, Checked, Durability, Engine, Verdict};
use nearprint::fingerprint::Fingerprint;
use nearprint::machine::change::Change;
use nearprint::machine::model::Model;

use super::{DISTANCE, Random, asked, criteria, document, engine, runs};

/// `make torture` replays 10,000,000.
const OPERATIONS: u64 = 200_000;
const CLIENTS: u64 = 64;
const ISLANDS: u64 = 2_000;
const IDS: usize = 12;
/// Fingerprints of an island differ from its base in so many bits at most.
const FLIPS: usize = 4;

/// What a client asked.
#[derive(Debug, Clone)]
enum Asked {
    Insert(Document),
    CheckAndInsert(Document, bool),
    Remove(Document),
    Reset(Fingerprint),
}

/// What it was told: a fingerprint with its distance and the ids shown for it.
type Shown = Vec<(Fingerprint, u8, Vec<String>)>;

#[derive(Debug, Clone, PartialEq)]
enum Told {
    Verdict(Verdict, Shown),
    Removed(u64),
}

#[derive(Debug)]
struct Done {
    sequence: Sequence,
    asked: Asked,
    told: Told,
}

impl Done {
    /// Whether the answer alone says that something changed.
    fn surely_changed(&self) -> bool {
        match &self.told {
            Told::Removed(documents) => *documents > 0,
            Told::Verdict(Verdict::AlreadyPresent, _) => false,
            Told::Verdict(verdict, _) => verdict.is_stored(),
        }
    }

    /// A duplicate that is not stored removes what its id had, which its answer does not show.
    fn may_have_changed(&self) -> bool {
        matches!(self.told, Told::Verdict(Verdict::Duplicate { stored: false }, _))
    }
}

fn base(island: u64) -> u64 {
    Random(island << 32 | 0x5eed).next()
}

fn draw(random: &mut Random, island: u64) -> Asked {
    let mut bits = base(island);
    for _ in 0..random.below(FLIPS + 1) {
        bits ^= 1 << (random.below(12) * 5);
    }
    let id = (random.below(3) == 0).then(|| format!("{island}/{}", random.below(IDS)));
    match random.below(20) {
        0..12 => {
            let store_duplicates = random.below(4) == 0;
            Asked::CheckAndInsert(document(id, bits), store_duplicates)
        }
        12..15 => Asked::Insert(document(id.or_else(|| Some(format!("{island}/plain"))), bits)),
        15..18 => Asked::Remove(document(Some(format!("{island}/{}", random.below(IDS))), bits)),
        _ => Asked::Reset(Fingerprint::new(bits)),
    }
}

async fn perform(engine: &Engine, asked_for: Asked) -> Done {
    let place = "it has its place";
    let answer = "it is answered";
    let (sequence, told) = match asked_for.clone() {
        Asked::Remove(document) => {
            let removed = engine.remove(document.id.expect("drawn with one")).await.expect(answer);
            (removed.sequence, Told::Removed(removed.documents))
        }
        Asked::Reset(fingerprint) => {
            let removed = engine.remove_fingerprint(fingerprint).await.expect(answer);
            (removed.sequence, Told::Removed(removed.documents))
        }
        Asked::Insert(document) => {
            let pending = engine.begin_insert(document, Admission::Wait).await.expect(place);
            let written = pending.wait().await.expect(answer);
            (written.sequence, Told::Verdict(written.verdict, Vec::new()))
        }
        Asked::CheckAndInsert(document, store_duplicates) => {
            let pending = engine
                .begin_check_and_insert(document, asked(), store_duplicates, Admission::Wait)
                .await
                .expect(place);
            let Checked { written, found } = pending.wait().await.expect(answer);
            let findings = found.show(usize::MAX).await.expect(answer).into_findings();
            let hits = findings.hits.iter().map(|hit| {
                let ids = hit.ids.iter().map(|id| id.as_str().to_owned()).collect();
                (hit.fingerprint, hit.distance.get(), ids)
            });
            (written.sequence, Told::Verdict(written.verdict, hits.collect()))
        }
    };
    Done { sequence, asked: asked_for, told }
}

/// What the model shows for a document.
fn shown(model: &Model, probe: &Document) -> Shown {
    let matches = model.matches(probe, criteria());
    let ids = |fingerprint: Fingerprint| -> Vec<String> {
        let stored = model.documents().iter().filter_map(|(_, stored)| {
            let id = stored.id.as_ref()?;
            let other = stored.fingerprint == fingerprint && probe.id.as_ref() != Some(id);
            other.then(|| id.as_str().to_owned())
        });
        stored.collect()
    };
    let of = |fingerprint| (fingerprint, probe.fingerprint.distance(fingerprint).get());
    let of = |fingerprint| {
        let (fingerprint, distance) = of(fingerprint);
        (fingerprint, distance, ids(fingerprint))
    };
    matches.into_iter().map(|(.., fingerprint)| of(fingerprint)).collect()
}

fn replay(model: &mut Model, asked: &Asked) -> Told {
    match asked {
        Asked::Insert(document) => Told::Verdict(model.insert(document), Vec::new()),
        Asked::CheckAndInsert(document, store_duplicates) => {
            let hits = shown(model, document);
            Told::Verdict(model.check_and_insert(document, criteria(), *store_duplicates), hits)
        }
        Asked::Remove(document) => {
            let id = document.id.clone().expect("drawn with one");
            let was_there = model.find(&id).is_some();
            if was_there {
                model.enact(&Change::Remove { id });
            }
            Told::Removed(u64::from(was_there))
        }
        Asked::Reset(fingerprint) => {
            let under_it = |d: &&(Sequence, Document)| d.1.fingerprint == *fingerprint;
            let documents = model.documents().iter().filter(under_it).count() as u64;
            if documents > 0 {
                model.enact(&Change::Reset { fingerprint: *fingerprint });
            }
            Told::Removed(documents)
        }
    }
}

/// Replays one island. Of the operations that name one sequence the first made the change.
fn check(island: u64, operations: Vec<Done>) {
    let mut model = Model::default();
    let mut by_sequence: BTreeMap<Sequence, Vec<Done>> = BTreeMap::new();
    for done in operations {
        by_sequence.entry(done.sequence).or_default().push(done);
    }
    for (sequence, mut group) in by_sequence {
        let changer = group.iter().position(Done::surely_changed).or_else(|| {
            group.iter().position(|done| {
                let mut model = model.clone();
                let before = model.sequence();
                replay(&mut model, &done.asked);
                done.may_have_changed() && model.sequence() > before
            })
        });
        if let Some(changer) = changer {
            let done = group.swap_remove(changer);
            let told = replay(&mut model, &done.asked);
            assert_eq!(told, done.told, "island {island} at {sequence}: {:?}", done.asked);
        }
        let before = model.sequence();
        for done in group {
            let told = replay(&mut model, &done.asked);
            assert_eq!(told, done.told, "island {island} after {sequence}: {:?}", done.asked);
        }
        assert_eq!(model.sequence(), before, "island {island}: {sequence} changed twice");
    }
}

async fn client(engine: Engine, seed: u64, operations: u64) -> Vec<(u64, Done)> {
    let mut random = Random(seed);
    let mut done = Vec::new();
    for _ in 0..operations {
        // A few islands at a time, or clients would rarely meet.
        let island = (done.len() as u64 / 500 * 8 + random.below(8) as u64) % ISLANDS;
        let asked = draw(&mut random, island);
        done.push((island, perform(&engine, asked).await));
    }
    done
}

#[test]
fn islands_are_so_far_apart_that_they_never_meet() {
    for a in 0..ISLANDS {
        for b in 0..a {
            let apart = (base(a) ^ base(b)).count_ones();
            assert!(apart as usize > 2 * FLIPS + usize::from(DISTANCE), "{a}, {b}: {apart}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mixed_operations_equal_their_replay_by_sequence() {
    let directory = tempfile::tempdir().unwrap();
    let operations = OPERATIONS * runs() / CLIENTS;
    let engine = engine(directory.path(), Durability::Interval { ms: 100 });
    let clients: Vec<_> =
        (0..CLIENTS).map(|seed| tokio::spawn(client(engine.clone(), seed, operations))).collect();
    let mut islands: BTreeMap<u64, Vec<Done>> = BTreeMap::new();
    for client in clients {
        for (island, done) in client.await.unwrap() {
            islands.entry(island).or_default().push(done);
        }
    }
    let replayed: usize = islands.values().map(Vec::len).sum();
    assert_eq!(replayed as u64, operations * CLIENTS);
    tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
    for (island, operations) in islands {
        check(island, operations);
    }
    println!("{replayed} operations replayed");
}

//! Promise: verdicts and hits of concurrent operations equal those of a sequential replay in the
//! order of `sequence`. Method: mixed operations from 64 clients on islands of near fingerprints,
//! then each island replayed by the model, which compares with everything it has stored.

use std::collections::BTreeMap;

use nearprint_engine::{Admission, Checked, Durability, Engine, Verdict};
use nearprint_fingerprint::Fingerprint;
use nearprint_machine::change::Change;
use nearprint_machine::document::{Document, Sequence};
use nearprint_machine::model::Model;

use super::{DISTANCE, Random, criteria, document, engine, query_options, runs};

/// `make torture` replays 10,000,000.
const OPERATIONS: u64 = 200_000;
const CLIENTS: u64 = 64;
const ISLANDS: u64 = 2_000;
const IDS: usize = 12;
/// The maximum number of bits in which fingerprints of an island differ from its base.
const FLIPS: usize = 4;

/// A request of a client.
#[derive(Debug, Clone)]
enum Request {
    Insert(Document),
    CheckAndInsert(Document, bool),
    Remove(Document),
    Reset(Fingerprint),
}

/// A hit of its reply: a fingerprint with its distance and ids.
type Shown = Vec<(Fingerprint, u8, Vec<String>)>;

#[derive(Debug, Clone, PartialEq)]
enum Reply {
    Verdict(Verdict, Shown),
    Removed(u64),
}

#[derive(Debug)]
struct Done {
    sequence: Sequence,
    request: Request,
    reply: Reply,
}

impl Done {
    /// Whether the reply alone shows that something changed.
    fn surely_changed(&self) -> bool {
        match &self.reply {
            Reply::Removed(documents) => *documents > 0,
            Reply::Verdict(Verdict::AlreadyPresent, _) => false,
            Reply::Verdict(verdict, _) => verdict.is_stored(),
        }
    }

    /// A duplicate that is not stored removes what its id had, which its answer does not show.
    fn may_have_changed(&self) -> bool {
        matches!(self.reply, Reply::Verdict(Verdict::Duplicate { stored: false }, _))
    }
}

fn base(island: u64) -> u64 {
    Random(island << 32 | 0x5eed).next()
}

fn draw(random: &mut Random, island: u64) -> Request {
    let mut bits = base(island);
    for _ in 0..random.below(FLIPS + 1) {
        bits ^= 1 << (random.below(12) * 5);
    }
    let id = (random.below(3) == 0).then(|| format!("{island}/{}", random.below(IDS)));
    match random.below(20) {
        0..12 => {
            let store_duplicates = random.below(4) == 0;
            Request::CheckAndInsert(document(id, bits), store_duplicates)
        }
        12..15 => Request::Insert(document(id.or_else(|| Some(format!("{island}/plain"))), bits)),
        15..18 => Request::Remove(document(Some(format!("{island}/{}", random.below(IDS))), bits)),
        _ => Request::Reset(Fingerprint::new(bits)),
    }
}

async fn perform(engine: &Engine, request: Request) -> Done {
    let place = "it has its place";
    let answer = "it is answered";
    let (sequence, reply) = match request.clone() {
        Request::Remove(document) => {
            let id = document.id.expect("drawn with one");
            let removed = engine.remove(None, id).await.expect(answer);
            (removed.sequence, Reply::Removed(removed.documents))
        }
        Request::Reset(fingerprint) => {
            let removed = engine.remove_fingerprint(None, fingerprint).await.expect(answer);
            (removed.sequence, Reply::Removed(removed.documents))
        }
        Request::Insert(document) => {
            let pending = engine.begin_insert(document, Admission::Wait).await.expect(place);
            let written = pending.wait().await.expect(answer).written;
            (written.sequence, Reply::Verdict(written.verdict, Vec::new()))
        }
        Request::CheckAndInsert(document, store_duplicates) => {
            let pending = engine
                .begin_check_and_insert(
                    document,
                    query_options(),
                    store_duplicates,
                    Admission::Wait,
                )
                .await
                .expect(place);
            let Checked { written, found, .. } = pending.wait().await.expect(answer);
            let findings = found.show(usize::MAX).await.expect(answer).into_findings();
            let hits = findings.hits.iter().map(|hit| {
                let ids = hit.documents.iter().filter_map(|document| document.id.as_ref());
                let ids = ids.map(|id| id.as_str().to_owned()).collect();
                (hit.fingerprint, hit.distance.get(), ids)
            });
            (written.sequence, Reply::Verdict(written.verdict, hits.collect()))
        }
    };
    Done { sequence, request, reply }
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

fn replay(model: &mut Model, request: &Request) -> Reply {
    match request {
        Request::Insert(document) => Reply::Verdict(model.insert(document, false), Vec::new()),
        Request::CheckAndInsert(document, store_duplicates) => {
            let hits = shown(model, document);
            let how = (*store_duplicates, false);
            Reply::Verdict(model.check_and_insert(document, criteria(), how), hits)
        }
        Request::Remove(document) => {
            let id = document.id.clone().expect("drawn with one");
            let was_there = model.find(None, &id).is_some();
            if was_there {
                model.enact(&Change::Remove { namespace: None, id });
            }
            Reply::Removed(u64::from(was_there))
        }
        Request::Reset(fingerprint) => {
            let under_it = |d: &&(Sequence, Document)| d.1.fingerprint == *fingerprint;
            let documents = model.documents().iter().filter(under_it).count() as u64;
            if documents > 0 {
                model.enact(&Change::Reset { namespace: None, fingerprint: *fingerprint });
            }
            Reply::Removed(documents)
        }
    }
}

/// Replays one island. Where several operations name one sequence, the first made the change.
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
                replay(&mut model, &done.request);
                done.may_have_changed() && model.sequence() > before
            })
        });
        if let Some(changer) = changer {
            let done = group.swap_remove(changer);
            let reply = replay(&mut model, &done.request);
            assert_eq!(reply, done.reply, "island {island} at {sequence}: {:?}", done.request);
        }
        let before = model.sequence();
        for done in group {
            let reply = replay(&mut model, &done.request);
            assert_eq!(reply, done.reply, "island {island} after {sequence}: {:?}", done.request);
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
        let request = draw(&mut random, island);
        done.push((island, perform(&engine, request).await));
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

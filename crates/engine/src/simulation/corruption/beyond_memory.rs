//! Promise: what is in files answers as what is in memory, and damage of a file refuses the
//! question: never another answer, never the end. Method: a directory whose large segments are in
//! their files, each page of them damaged in every way, and the real threads over it. (The lives of
//! [`crate::simulation::crashes`] are in files as often as not.)

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use nearprint_fingerprint::recipe::Recipe;
use nearprint_fingerprint::{Distance, Fingerprint, Sketch};
use nearprint_index::compaction::policy::Load;
use nearprint_index::id_key::IdKey;
use nearprint_index::memory::file::catch_unreadable;
use nearprint_index::view::{Expired, Located, Selection, View};
use nearprint_index::visibility::Visibility;
use nearprint_machine::commands::{CheckAndInsertPacked, Insert, InsertPacked, Remove, Verdict};
use nearprint_machine::document::{Document, DocumentId, Sequence};
use nearprint_machine::query::Criteria;
use nearprint_machine::search::PackedSearch;
use nearprint_storage::sealed::PAGE_BYTES;
use nearprint_storage::simulated::{Dice, Faults};
use nearprint_storage::{DirectoryLock, Disk, SimulatedDisk};

use crate::api::error::Refused;
use crate::api::options::{Durability, Options};
use crate::api::replies::{QueryOptions, Readiness};
use crate::directories::recovery::{Recovered, recover};
use crate::handle::Engine;
use crate::simulation::rig::{ENTROPY, commit, commit_one, options, queued};
use crate::simulation::sweep::move_into_files;
use crate::snapshot::placing::Movable;
use crate::write::command::SearchedCheckAndInsertPacked;
use crate::write::core::Core;
use crate::write::outbox::Admission;

const DOCUMENTS: u64 = 1_500;

fn settings(index_memory_bytes_max: u64) -> Options {
    Options {
        delta_events: 500,
        small_segment_max: 400,
        journal_file_bytes: 1 << 20,
        queue_changes_max: 10_000,
        group_changes_max: 10_000,
        index_memory_bytes_max,
        ..options(Durability::Always)
    }
}

fn open(disk: &SimulatedDisk, index_memory_bytes_max: u64) -> Recovered {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    recover(&disk, &settings(index_memory_bytes_max), &ENTROPY).unwrap()
}

fn id(number: u64) -> DocumentId {
    DocumentId::new(format!("document {number}")).unwrap()
}

/// Every third fingerprint has two documents.
fn document(number: u64) -> Document {
    let shared = if number.is_multiple_of(3) { number / 2 } else { number };
    let fingerprint = Fingerprint::new((shared + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let sketch = Sketch::from_codes(&[number as u8; nearprint_fingerprint::BINS]);
    Document { id: Some(id(number)), sketch: Some(Box::new(sketch)), ..Document::bare(fingerprint) }
}

/// A directory with one snapshot and nothing after it.
fn stored() -> SimulatedDisk {
    stored_upto(&[DOCUMENTS], Load::Idle)
}

/// The same for documents in batches that end at these numbers, each followed by the merges that
/// are due under this load.
fn stored_upto(ends: &[u64], load: Load) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let Recovered { mut core, mut snapshots, .. } = open(&disk, 0);
    let begins = [&[0], ends].concat();
    for (&begin, &end) in begins.iter().zip(ends) {
        let group = (begin..end).map(|number| {
            let (write, _) = queued(Insert::from(document(number)), 0);
            write as Box<_>
        });
        commit(&mut core, group.collect()).unwrap();
        core.freeze().unwrap();
        while let Some(work) = core.view().next_flush().or_else(|| core.view().next_merge(load)) {
            work.steps().for_each(|built| core.install(&built));
        }
    }
    let frozen = core.freeze().unwrap();
    snapshots.take(core.view().parts_of(&frozen.view), &frozen.jobs, 0).unwrap();
    disk.copy()
}

/// What a view answers to some questions: each is an answer of its own.
fn answers(view: &View, secret: &[u8; 16]) -> Vec<Option<Vec<Located>>> {
    let sorted = |mut found: Vec<Located>| {
        found.sort_unstable_by_key(|located| (located.posting.sequence, located.masked));
        found
    };
    let near = |number: u64| {
        let query = Fingerprint::new(document(number).fingerprint.bits() ^ 0b1001);
        let near = view.near(query, Distance::new(3).unwrap(), &Visibility::DEFAULT);
        let documents = near.iter().flat_map(|near| {
            let postings = view.documents_of(near.fingerprint, Visibility::DEFAULT);
            postings.map(|posting| Located { masked: near.fingerprint, posting })
        });
        sorted(documents.collect())
    };
    let by_id = |number| {
        let key = IdKey::of(id(number).as_str(), None, secret);
        view.find_id(key).into_iter().collect()
    };
    let all = || {
        let (after, upto) = (Sequence::ZERO, view.sequence());
        let selection = Selection { namespace: None, after, upto, expired: Expired::Any };
        let listed = view.list(selection, DOCUMENTS as usize);
        listed.iter().map(|l| Located { masked: l.masked, posting: l.posting }).collect()
    };
    let some = || (0..DOCUMENTS).step_by(53);
    let questions = some().map(|n| catch_unreadable(|| near(n)));
    let questions = questions.chain(some().map(|n| catch_unreadable(|| by_id(n))));
    questions.chain([catch_unreadable(all)]).map(Result::ok).collect()
}

#[test]
fn what_is_in_files_answers_as_what_is_in_memory() {
    let disk = stored();
    let (memory, files) = (open(&disk.copy(), 0), open(&disk, 1));
    assert!(!memory.core.view().is_in_files() && files.core.view().is_in_files());
    let [in_memory, in_files] = [&memory, &files].map(|opened| opened.core.view().settled_bytes());
    assert!(in_files < in_memory, "{in_files} of {in_memory} bytes are left in memory");
    let secret = memory.core.machine().id_secret();
    let expected = answers(memory.core.view(), &secret);
    assert!(expected.iter().all(|answer| answer.as_ref().is_some_and(|found| !found.is_empty())));
    assert_eq!(answers(files.core.view(), &secret), expected);
}

#[test]
fn a_damaged_page_refuses_what_it_is_asked_for_and_nothing_else() {
    let disk = stored();
    let expected = {
        let opened = open(&disk.copy(), 0);
        answers(opened.core.view(), &opened.core.machine().id_secret())
    };
    let names = disk.list().unwrap();
    let is_part = |name: &&String| name.starts_with("segment-") || name.starts_with("table-");
    let (mut dice, mut refused, mut damages) = (Dice::new(7), 0, 0);
    for name in names.iter().filter(is_part) {
        let length = disk.open(name).unwrap().len().unwrap() as usize;
        // Directories are read at the start, which passes over such a snapshot.
        let pages = (PAGE_BYTES..length - PAGE_BYTES).step_by(PAGE_BYTES);
        for page in pages {
            let (at, bit) = (page + dice.below(PAGE_BYTES), dice.below(8));
            let opened = open(&disk, 1);
            assert!(opened.core.view().is_in_files(), "the undamaged snapshot loads");
            let flip = |bytes: &mut Vec<u8>| bytes[at] ^= 1 << bit;
            disk.edit(name, flip);
            let found = answers(opened.core.view(), &opened.core.machine().id_secret());
            for (found, expected) in found.iter().zip(&expected) {
                assert!(found.is_none() || found == expected, "{name}: bit {bit} of {at}");
            }
            refused += found.iter().filter(|found| found.is_none()).count();
            disk.edit(name, flip);
            let again = answers(opened.core.view(), &opened.core.machine().id_secret());
            assert!(again == expected, "{name}: what was refused is answered when it can be read");
            damages += 1;
        }
    }
    assert!(refused > damages / 2, "{refused} answers refused by {damages} damages");
}

#[test]
fn a_write_that_cannot_read_the_index_is_refused_and_changes_nothing() {
    let disk = stored();
    let Recovered { mut core, .. } = open(&disk, 1);
    let segment = disk.list().unwrap().into_iter().find(|name| name.starts_with("segment-"));
    let segment = segment.unwrap();
    let whole = disk.open(&segment).unwrap();
    let mut bytes = vec![0; whole.len().unwrap() as usize];
    whole.read_at(0, &mut bytes).unwrap();
    disk.edit(&segment, |bytes| bytes.truncate(2 * PAGE_BYTES));
    let insert = |core: &mut Core, number, to: u64| {
        let fingerprint = Fingerprint::new(to);
        let changed = Document { fingerprint, ..document(number) };
        commit_one(core, Insert::from(changed)).map(|inserted| inserted.written.verdict)
    };
    let sequence = core.view().sequence();
    for number in (0..DOCUMENTS).step_by(100) {
        assert_eq!(insert(&mut core, number, 7), Err(Refused::UnreadableIndex));
    }
    assert_eq!(core.view().sequence(), sequence);
    // The filter of the ids is in memory.
    let fresh = (DOCUMENTS..DOCUMENTS + 100).filter(|&number| {
        let inserted = insert(&mut core, number, number);
        assert!(matches!(inserted, Ok(Verdict::Inserted) | Err(Refused::UnreadableIndex)));
        inserted.is_ok()
    });
    assert!(fresh.count() > 90);
    disk.edit(&segment, |cut| cut.clone_from(&bytes));
    for number in (0..DOCUMENTS).step_by(100) {
        assert_eq!(insert(&mut core, number, 7), Ok(Verdict::Replaced));
    }
}

/// The first documents of a batch are decided before the index is found unreadable.
#[test]
fn a_batch_that_cannot_be_finished_leaves_nothing_behind() {
    let disk = stored();
    // With a removal every hit is looked up.
    let Recovered { mut core, .. } = open(&disk, 0);
    commit_one(&mut core, Remove { namespace: None, id: id(3) }).unwrap();
    core.seal().unwrap();
    let (disk, search_in) = (disk.copy(), core);
    // This thread keeps no page of these files.
    let Recovered { mut core, .. } = open(&disk, 1);
    let criteria = Criteria::within(Distance::new(3).unwrap());
    let visibility = core.view().visibility(None, core.machine().now_ms(), None);
    let newer: Vec<Fingerprint> = (0..64)
        .map(|n| Fingerprint::new((n + 1_u64).wrapping_mul(0x2545_f491_4f6c_dd1d)))
        .collect();
    let others = [Fingerprint::new(0x0f0f_7777_1234_5678), Fingerprint::new(0x1357_9bdf_0246_8ace)];
    let batch = [&others[..], &newer].concat();
    let search = PackedSearch::new(search_in.view(), &batch, criteria.distance, visibility);
    commit_one(&mut core, InsertPacked { packed: newer.clone().into() }).unwrap();
    let names = disk.list().unwrap();
    let segment = names.iter().find(|name| name.starts_with("segment-")).unwrap();
    let mut bytes = Vec::new();
    disk.edit(segment, |file| {
        bytes.clone_from(file);
        file.truncate(PAGE_BYTES);
    });
    let before = core.view().counts();
    let mut insert = || {
        let command = CheckAndInsertPacked { packed: batch.clone().into(), criteria };
        let search = PackedSearch { nearest: search.nearest.clone(), ..search };
        let inserted = commit_one(&mut core, SearchedCheckAndInsertPacked { command, search });
        (inserted, core.view().counts())
    };
    assert_eq!(insert(), (Err(Refused::UnreadableIndex), before));
    disk.edit(segment, |file| file.clone_from(&bytes));
    let (inserted, after) = insert();
    let nearest = inserted.unwrap();
    assert_eq!((&nearest[..2], &nearest[2..]), (&[255; 2][..], &[0; 64][..]));
    assert_eq!(after.documents, before.documents + 2);
}

#[test]
fn a_start_that_needs_a_damaged_page_makes_the_index_from_the_records() {
    let disk = stored();
    let Recovered { mut core, .. } = open(&disk, 0);
    for number in (0..DOCUMENTS).step_by(11) {
        let moved = Document { fingerprint: Fingerprint::new(number), ..document(number) };
        commit_one(&mut core, Insert::from(moved)).unwrap();
    }
    let (sequence, expected) = (core.view().sequence(), core.view().counts().documents);
    core.seal().unwrap();
    let disk = disk.copy();
    let names = disk.list().unwrap();
    let segment = names.iter().find(|name| name.starts_with("segment-")).unwrap();
    let length = disk.open(segment).unwrap().len().unwrap() as usize;
    let mut rebuilt = 0;
    for page in (PAGE_BYTES..length - PAGE_BYTES).step_by(PAGE_BYTES) {
        let flip = |bytes: &mut Vec<u8>| bytes[page + 77] ^= 4;
        disk.edit(segment, flip);
        let Recovered { core, snapshots, .. } = open(&disk, 1);
        assert_eq!((core.view().sequence(), core.view().counts().documents), (sequence, expected));
        rebuilt += usize::from(snapshots.list().is_empty());
        disk.edit(segment, flip);
    }
    assert!(rebuilt > 0, "a page was needed");
}

#[test]
fn a_part_whose_file_cannot_be_read_stays_in_memory_until_it_is_written_again() {
    let disk = stored();
    let Recovered { mut core, mut snapshots, .. } = open(&disk, 0);
    let expected = answers(core.view(), &core.machine().id_secret());
    let is_segment = |movable: &Movable| matches!(movable, Movable::Segment(_));
    let segment = Movable::in_memory(core.view()).into_iter().find(is_segment).unwrap();
    disk.set_faults(Faults { unreadable: Some("segment-"), ..Faults::default() });
    assert!(snapshots.moved(&segment).is_err());
    disk.set_faults(Faults::default());
    assert!(snapshots.moved(&segment).unwrap().is_none(), "its file is not trusted");
    assert_eq!(answers(core.view(), &core.machine().id_secret()), expected);

    let frozen = core.freeze().unwrap();
    snapshots.retake(core.view().parts_of(&frozen.view), &frozen.jobs, 0).unwrap();
    move_into_files(&mut core, &mut snapshots).unwrap();
    assert!(!Movable::in_memory(core.view()).iter().any(is_segment));
    assert_eq!(answers(core.view(), &core.machine().id_secret()), expected);
}

/// Waits until something is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not in ten seconds: {what}");
}

fn engine(disk: &Arc<dyn Disk>, folder: &std::path::Path) -> Engine {
    let options = Options {
        lookup_threads: 1,
        snapshot_interval_ms: 60_000,
        snapshot_changes: 1 << 30,
        ..Options { data: folder.to_path_buf(), recipe: Recipe::Np2, ..settings(1 << 14) }
    };
    let recovered = recover(disk, &options, &ENTROPY).unwrap();
    let lock = DirectoryLock::acquire(folder).unwrap();
    Engine::start((options, Arc::new(())), disk, (recovered, None), lock).unwrap()
}

async fn store(service: &Engine, numbers: Range<u64>) {
    for number in numbers {
        let inserted = service.begin_insert(document(number), Admission::Wait).await.unwrap();
        assert_eq!(inserted.wait().await.unwrap().written.verdict, Verdict::Inserted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_in_files_waits_for_space_on_the_disk() {
    let simulated = stored_upto(&[DOCUMENTS * 2 / 3, DOCUMENTS], Load::Writing);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let folder = tempfile::tempdir().unwrap();
    let due_bytes = |view: &View| view.next_merge(Load::Idle).map_or(0, |w| w.file_bytes_max());
    let of = |service: &Engine| due_bytes(&service.shared.published.load().view);
    let due = due_bytes(open(&simulated.copy(), 1).core.view());
    assert!(due > 0, "a merge in files is due when nobody writes");

    // Its files fit, and not their copies in the next snapshot.
    let limit = |bytes| {
        simulated.set_faults(Faults { capacity_bytes: Some(bytes), ..Faults::default() });
    };
    limit(1 << 30);
    limit((1 << 30) - simulated.free_bytes().unwrap() + due * 3 / 2);
    let service = engine(&disk, folder.path());
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(of(&service) > 0, "it is merged on a disk that has no room");
    }
    tokio::task::spawn_blocking(move || service.close()).await.unwrap();

    simulated.set_faults(Faults::default());
    let service = engine(&disk, folder.path());
    until("it is merged", || of(&service) == 0).await;
    tokio::task::spawn_blocking(move || service.close()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_parts_leave_memory_and_are_merged_in_files_while_it_serves() {
    let (simulated, folder) = (SimulatedDisk::new(), tempfile::tempdir().unwrap());
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let service = engine(&disk, folder.path());
    let in_files = |service: &Engine| service.stats().index_file_bytes;
    let mut before = 0;
    for half in [0..DOCUMENTS / 2, DOCUMENTS / 2..DOCUMENTS] {
        store(&service, half).await;
        // Nobody asks for a snapshot: memory does.
        until("parts are in files", || in_files(&service) > before).await;
        before = in_files(&service);
    }
    let criteria = Criteria::within(Distance::new(3).unwrap());
    let options = QueryOptions { criteria, limit: 10, with_metadata: false };
    let ask = async |service: &Engine| {
        for number in (0..DOCUMENTS).step_by(29) {
            let stored = service.document(None, &id(number)).await.unwrap();
            assert_eq!(stored.unwrap().document, document(number));
            let query = Fingerprint::new(document(number).fingerprint.bits() ^ 0b11);
            let hits = service.query(Document::bare(query), options).await.unwrap().hits;
            let shown = hits.iter().flat_map(|hit| &hit.documents);
            assert!(shown.filter_map(|d| d.id.as_ref()).any(|shown| *shown == id(number)));
        }
    };
    ask(&service).await;
    tokio::task::spawn_blocking(move || service.close()).await.unwrap();

    let service = engine(&disk, folder.path());
    assert!(in_files(&service) > 0, "they stay there over a restart");
    ask(&service).await;
    tokio::task::spawn_blocking(move || service.close()).await.unwrap();

    let service = engine(&disk, folder.path());
    for unreadable in [Some("segment-"), None] {
        simulated.set_faults(Faults { unreadable, ..Faults::default() });
        let mut refused = 0;
        for number in (0..DOCUMENTS).step_by(31) {
            let query = Fingerprint::new(document(number).fingerprint.bits() ^ 0b11);
            match service.query(Document::bare(query), options).await {
                Ok(found) => assert!(!found.hits.is_empty(), "{number}"),
                Err(why) => {
                    assert_eq!(why, Refused::UnreadableIndex);
                    refused += 1;
                }
            }
        }
        assert_eq!(refused > 0, unreadable.is_some(), "{refused} of EIO");
    }
    for name in simulated.list().unwrap().iter().filter(|name| name.starts_with("segment-")) {
        simulated.edit(name, |bytes| bytes.truncate(PAGE_BYTES));
    }
    let mut refused = 0;
    for number in (0..DOCUMENTS).step_by(29) {
        match service.document(None, &id(number)).await {
            Ok(stored) => assert_eq!(stored.unwrap().document, document(number)),
            Err(why) => {
                assert_eq!(why, Refused::UnreadableIndex);
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && service.readiness() == Readiness::Ready, "{refused}");
    tokio::task::spawn_blocking(move || service.close()).await.unwrap();
}

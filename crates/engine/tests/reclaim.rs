//! Promise: records take at most twice the bytes of those of stored documents, and eight journal
//! files, however often documents are replaced; every stored document reads as it was stored.
//! Method: many updates of a few ids on the whole engine with small files, until the disk is within
//! the bound; then a restart, with and without its snapshots.
//!
//! Also: after a snapshot a start reads a record without the frame headers of its whole file.

#[path = "common/options.rs"]
mod common;

use std::path::Path;
use std::time::Duration;

use nearprint_engine::{Admission, Durability, Engine, Options};
use nearprint_fingerprint::Fingerprint;
use nearprint_machine::document::{Document, DocumentId};
use nearprint_storage::{Disk, RealDisk};

const FILE_BYTES: u64 = 65_536;
const IDS: u64 = 60;
const ROUNDS: u64 = 250;
/// A bound for a test that hangs, 50 ms each.
const LOOKS_MAX: u32 = 2_400;
/// Frame, kind, time, flags, fingerprint, id.
const RECORD_BYTES: u64 = 60 + 1 + 8 + 1 + 8 + 1_000;

fn options(data: &Path) -> Options {
    Options {
        durability: Durability::None,
        journal_file_bytes: FILE_BYTES,
        ..common::options(data)
    }
}

fn id(number: u64) -> DocumentId {
    DocumentId::new(format!("{number:01000}")).expect("short enough")
}

fn fingerprint(number: u64, round: u64) -> Fingerprint {
    Fingerprint::new((number << 32 | round).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Files of records, in bytes.
fn record_bytes(data: &Path) -> u64 {
    let files = std::fs::read_dir(data).expect("it is there").map(|entry| entry.expect("listed"));
    let records = files.filter(|entry| {
        let name = entry.file_name().into_string().expect("ASCII");
        name.starts_with("journal-") || name.starts_with("records-")
    });
    records.map(|entry| entry.metadata().map_or(0, |metadata| metadata.len())).sum()
}

async fn assert_stored(engine: &Engine) {
    for number in 0..IDS {
        let stored = engine.document(None, &id(number)).await.expect("readable").expect("stored");
        assert_eq!(stored.document.fingerprint, fingerprint(number, ROUNDS - 1));
    }
}

#[tokio::test]
async fn disk_use_is_bounded_by_what_is_stored_and_everything_stored_is_read() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let data = folder.path().join("data");
    let engine = Engine::open(options(&data)).expect("a new directory");
    for round in 0..ROUNDS {
        let mut pending = Vec::new();
        for number in 0..IDS {
            let document =
                Document { id: Some(id(number)), ..Document::bare(fingerprint(number, round)) };
            pending.push(engine.begin_insert(document, Admission::Wait).await.expect("taken"));
        }
        for pending in pending {
            pending.wait().await.expect("stored");
        }
    }
    let written = ROUNDS * IDS * RECORD_BYTES;
    let bound = 2 * IDS * RECORD_BYTES + 8 * FILE_BYTES;
    assert!(written > 10 * bound, "the test is to write far more than the bound");
    for look in 0.. {
        if record_bytes(&data) <= bound {
            break;
        }
        assert!(look < LOOKS_MAX, "{} bytes, not {bound}", record_bytes(&data));
        // The reclaimer runs by itself; a snapshot makes records reclaimable.
        engine.snapshot().await.expect("taken");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_stored(&engine).await;
    assert!(engine.stats().space.reclaimed_bytes > written / 2, "{:?}", engine.stats().space);
    let stats = engine.stats();
    engine.close();
    drop(engine);

    let engine = Engine::open(options(&data)).expect("it starts again");
    assert_stored(&engine).await;
    assert_eq!(engine.stats().documents, stats.documents);
    engine.close();
    drop(engine);
    // The records alone lead to the same state.
    let disk = RealDisk::open(&data).expect("it is there");
    for name in disk.list().expect("listed").iter().filter(|name| name.starts_with("snapshot-")) {
        disk.remove(name).expect("removed");
    }
    let engine = Engine::open(options(&data)).expect("it starts without snapshots");
    assert_stored(&engine).await;
    assert_eq!(engine.stats().documents, stats.documents);
    assert_eq!(engine.stats().sequence, stats.sequence);
    engine.close();
}

#[tokio::test]
async fn after_a_snapshot_and_a_start_records_are_found_by_index_files() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let data = folder.path().join("data");
    let engine = Engine::open(options(&data)).expect("a new directory");
    for number in 0..200 {
        let bare = Document::bare(fingerprint(number, 0));
        let document = Document { id: Some(id(number)), ..bare };
        let pending = engine.begin_insert(document, Admission::Wait).await.expect("taken");
        pending.wait().await.expect("stored");
    }
    engine.snapshot().await.expect("taken");
    engine.close();
    drop(engine);
    let disk = RealDisk::open(&data).expect("it is there");
    let (indexes, others): (Vec<_>, Vec<_>) =
        disk.list().expect("listed").into_iter().partition(|name| name.starts_with("index-"));
    let records: Vec<_> = others.into_iter().filter(|name| name.starts_with("journal-")).collect();
    let closed = records.iter().take(records.len() - 1).map(|name| format!("index-{name}"));
    assert!(records.len() > 3 && closed.eq(indexes.iter().cloned()), "{records:?} {indexes:?}");

    // One that is built again is saved at a stop.
    let lost = indexes.first().expect("several");
    disk.remove(lost).expect("removed");
    let engine = Engine::open(options(&data)).expect("it starts again");
    engine.document(None, &id(0)).await.expect("readable").expect("stored");
    engine.close();
    drop(engine);
    assert!(disk.list().expect("listed").contains(lost));

    // Whoever reads all headers of the first file meets a damaged one.
    let first = disk.open(records.first().expect("several")).expect("opened");
    let mut bytes = vec![0; usize::try_from(first.len().expect("known")).expect("small")];
    first.read_at(0, &mut bytes).expect("readable");
    let headers = bytes.windows(4).enumerate().filter(|(_, found)| *found == b"\x89npf");
    let at = headers.map(|(at, _)| at).nth_back(9).expect("many records");
    let damaged = bytes.get(at + 20).expect("inside") ^ 1;
    first.write_at(at as u64 + 20, &[damaged]).expect("written");
    let engine = Engine::open(options(&data)).expect("it starts again");
    for number in 0..40 {
        let stored = engine.document(None, &id(number)).await.expect("readable").expect("stored");
        assert_eq!(stored.document.fingerprint, fingerprint(number, 0));
    }
    engine.close();
    drop(engine);
    for name in indexes {
        disk.remove(&name).expect("removed");
    }
    let engine = Engine::open(options(&data)).expect("it starts again");
    engine.document(None, &id(0)).await.expect_err("the damaged header was read");
    engine.close();
}

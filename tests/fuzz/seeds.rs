//! The first inputs of the binary formats, made by the code that writes them.

use std::io::Write as _;
use std::sync::Arc;

use nearprint_engine::cluster::message::{Digest, LeaderId, Message, SenderRole};
use nearprint_engine::document::{
    Document, DocumentId, Expiry, Metadata, Namespace, Packed, Sequence,
};
use nearprint_engine::{Admission, Engine, Options};
use nearprint_fingerprint::Fingerprint;
use nearprint_machine::change::{Change, Record};
use nearprint_machine::jobs::Progress;
use nearprint_machine::jobs::{JobState, NamespaceFilter, Purge};
use nearprint_storage::scan;
use nearprint_storage::{Disk, FileKind, Identity, Journal, RealDisk, SealedReader, SealedWriter};

use crate::common;
use crate::targets::memory::MemoryDisk;

/// As in `fuzz/src/lib.rs`.
fn identity() -> Identity {
    Identity::new(*b"a fuzzed journal", "np1")
}

fn journal(records: u64) -> Vec<u8> {
    let disk = MemoryDisk::default();
    let tail = scan(&disk, &identity(), 0, &mut |_| ()).expect("it is empty");
    let shared = Arc::new(disk.clone());
    let mut journal = Journal::open(shared, identity(), tail, 1 << 20).expect("it is healthy");
    for number in 0..records {
        journal
            .append(format!("record {number}").as_bytes(), 1 + number as u32 % 3)
            .expect("short");
        if number % 2 == 0 {
            journal.sync().expect("it is healthy");
        }
    }
    journal.sync().and_then(|_| journal.seal()).expect("it is healthy");
    disk.bytes("journal-00000000000000000001.log")
}

fn sealed(body: &[u8]) -> Vec<u8> {
    let disk = MemoryDisk::default();
    let shared = Arc::new(disk.clone());
    let writer = SealedWriter::create(shared, "part", FileKind(1), identity());
    let mut writer = writer.expect("it is healthy");
    writer.write_all(body).expect("it is healthy");
    writer.finish().expect("it is healthy");
    disk.bytes("part")
}

fn records() -> Vec<Vec<u8>> {
    let id = DocumentId::new("https://a.example/1").expect("short");
    let fingerprint = Fingerprint::new(0x0123_4567_89ab_cdef);
    let document = Document { id: Some(id.clone()), ..Document::bare(fingerprint) };
    let name = Namespace::new("news/a.example").expect("short");
    let namespace = Some(name.clone());
    let whole = Document {
        namespace: namespace.clone(),
        expiry: Some(Expiry::MAX),
        metadata: Metadata::new("{\"lang\":\"en\"}"),
        ..document.clone()
    };
    let packed = Packed {
        namespace: namespace.clone(),
        expiry: Some(Expiry::MAX),
        fingerprints: vec![fingerprint; 3],
    };
    let purge = Purge {
        reach: NamespaceFilter::Namespace(namespace.clone()),
        prefix: Some("https://".into()),
        stored_before_ms: Some(1_700_000_000_000),
        dry_run: false,
    };
    let changes = [
        Change::Put { document },
        Change::Put { document: Document::bare(fingerprint) },
        Change::Put { document: whole },
        Change::PutPacked { packed: vec![fingerprint; 3].into() },
        Change::PutPacked { packed },
        Change::PutSparse {
            namespace: namespace.clone(),
            expiry: None,
            fingerprints: vec![(0, fingerprint), (1, fingerprint), (5, fingerprint)],
        },
        Change::Remove { namespace: None, id },
        Change::Reset { namespace: namespace.clone(), fingerprint },
        Change::RemoveMany {
            namespace: None,
            documents: vec![(Sequence::new(1), fingerprint), (Sequence::new(9), fingerprint)],
            progress: Some(Progress { job: 3, through: Sequence::new(9), matched: 2, removed: 2 }),
        },
        Change::PurgeBegun { purge },
        Change::JobEnded { job: 3, state: JobState::Done },
        Change::Named { namespace: name },
    ];
    changes.map(|change| encoded(&Record { at_ms: 1_700_000_000_000, change })).into()
}

fn encoded(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    bytes
}

/// The bodies of the parts of a small snapshot: of segments and tables, and of the state.
fn parts() -> [Vec<Vec<u8>>; 2] {
    let folder = tempfile::tempdir().expect("the disk has space");
    let options = Options { delta_events: 64, ..common::options(folder.path()) };
    let runtime = tokio::runtime::Runtime::new().expect("there are threads");
    let engine = Engine::open(options).expect("an empty directory opens");
    runtime.block_on(async {
        let bits = (0..40).map(|bits| Fingerprint::new(bits << 40 | bits));
        let namespace = Some(Namespace::new("news").expect("short"));
        for namespace in [None, namespace] {
            let fingerprints: Vec<_> = bits.clone().collect();
            let packed = Packed { namespace, expiry: None, fingerprints };
            let packed = engine.begin_insert_packed(packed, Admission::Wait).await;
            packed.expect("it has its place").wait().await.expect("it is stored");
        }
        let prefix = Some("https://".into());
        let purge =
            Purge { reach: NamespaceFilter::All, prefix, stored_before_ms: Some(7), dry_run: true };
        engine.begin_purge(purge).await.expect("there is room");
        engine.snapshot().await.expect("it is taken");
    });
    engine.close();
    let disk = RealDisk::open(folder.path()).expect("it is there");
    let directory = SealedReader::open_first(&disk, "directory", FileKind(1)).expect("it is whole");
    let names = disk.list().expect("it is there");
    let body = |name: &String, kind: u32| {
        let reader = SealedReader::open(&disk, name, FileKind(kind), &directory.identity());
        reader.and_then(|mut reader| reader.read_rest(1 << 20)).expect("it is whole")
    };
    let (mut images, mut states) = (Vec::new(), Vec::new());
    for name in names.iter().filter(|name| name.contains(".seg")) {
        // The first byte decides which of the two it is, as the target wants it.
        match name.split('-').next() {
            Some("segment") => images.push([vec![0], body(name, 5)].concat()),
            Some("table") => images.push([vec![1], body(name, 6)].concat()),
            _ => states.push(body(name, 9)),
        }
    }
    [images, states]
}

/// The stored model file without its checksum.
fn model() -> Vec<u8> {
    let file = include_bytes!("../fixtures/storage/model-v1");
    file[..file.len() - 16].to_vec()
}

/// Messages without their digests: the stored one, and one without changes.
fn messages() -> Vec<Vec<u8>> {
    let stored = include_bytes!("../fixtures/storage/message-v2");
    let beat = Message {
        role: SenderRole::Write,
        prev: Digest(1),
        leader: LeaderId(2),
        first: 3,
        at_ms: 1_700_000_000_000,
        documents: 2,
        distance_max: 3,
        records: vec![],
        touches: vec![],
    };
    let (beat, _) = beat.encode(&identity());
    [&stored[..], &beat].map(|bytes| bytes[..bytes.len() - 16].to_vec()).into()
}

/// Every input with the path of its file below `fuzz/corpus`.
pub(crate) fn all() -> Vec<(String, Vec<u8>)> {
    let mut all = vec![
        ("journal/empty".to_owned(), journal(0)),
        ("journal/five".to_owned(), journal(5)),
        ("sealed/short".to_owned(), sealed(b"a body")),
        ("sealed/empty".to_owned(), sealed(b"")),
    ];
    let numbered = |name: &str, inputs: Vec<Vec<u8>>| {
        let name = name.to_owned();
        inputs.into_iter().enumerate().map(move |(at, bytes)| (format!("{name}/{at}"), bytes))
    };
    all.extend(numbered("record", records()));
    all.extend(numbered("message", messages()));
    let [images, states] = parts();
    all.extend(numbered("image", images));
    all.extend(numbered("state", states));
    all.push(("model/small".to_owned(), model()));
    all.push((
        "export/fixture".to_owned(),
        include_bytes!("../fixtures/storage/export-v2").to_vec(),
    ));
    all
}

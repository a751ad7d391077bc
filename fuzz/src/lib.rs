//! What each fuzz target does with its bytes: hand them to a decoder of nearprint and hold what
//! comes out against what must be true of it. A panic is a finding; so is an answer with a status
//! of 5xx.
//!
//! Used by libFuzzer (`fuzz_targets/`) and, in every `make test`, by the seeded mutator of
//! `tests/fuzz`.

pub mod memory;

use std::io::Write as _;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use memory::MemoryDisk;
use nearprint::access::{self, Access};
use nearprint::config::{Config, ConfigError, Sources};
use nearprint::http::{self, HttpService};
use nearprint_engine::cluster::message::Message;
use nearprint_engine::{Durability, Engine, Options, StateFile};
use nearprint_files::{
    self, BadEntry, Entry, FileRecords, Format, Other, Raw, ReadOptions, RecordForm,
};
use nearprint_fingerprint::Distance;
use nearprint_index::image;
use nearprint_index::plan::Plans;
use nearprint_machine::change::Record;
use nearprint_storage::export::read_export;
use nearprint_storage::scan;
use nearprint_storage::{Disk, FileKind, Identity, Journal, SealedReader};
use nearprint_text::{Extract, Method, Source, SpectralModel, Wanted};
use tokio::runtime::Runtime;
use tower::ServiceExt as _;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128, xxh3_128_with_seed};

/// A target's name and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// Every target; the corpora lie in `fuzz/corpus/<name>`.
pub const TARGETS: &[Target] = &[
    ("journal", journal),
    ("record", record),
    ("message", message),
    ("sealed", sealed),
    ("image", image),
    ("state", state),
    ("model", model),
    ("export", export),
    ("json", json),
    ("ndjson", ndjson),
    ("html", html),
    ("charset", charset),
    ("configuration", configuration),
    ("records", records),
    ("parquet", parquet),
];

/// The directory of the corpora's files.
fn identity() -> Identity {
    Identity::new(*b"a fuzzed journal", "np1")
}

/// The bytes of a journal file: what opens can be appended to, and reads the same again.
pub fn journal(bytes: &[u8]) {
    let disk = MemoryDisk::default();
    disk.put("journal-00000000000000000001.log", bytes);
    let mut records = 0;
    let Ok(tail) = scan(&disk, &identity(), 0, &mut |_| records += 1) else { return };
    let last = tail.last;
    let opened = Journal::open(Arc::new(disk.clone()), identity(), tail, 1 << 20);
    let mut journal = opened.expect("what was scanned opens");
    assert_eq!(journal.append(b"one more", 1).expect("it is short"), last + 1);
    journal.sync().expect("the disk is healthy");
    let mut again = 0;
    let tail = scan(&disk, &identity(), 0, &mut |_| again += 1).expect("it was just written");
    assert_eq!((tail.last, again), (last + 1, records + 1), "nothing else has changed");
}

/// The payload of a record: what decodes encodes to something that decodes to the same.
pub fn record(bytes: &[u8]) {
    let Ok(record) = Record::decode(bytes) else { return };
    let mut encoded = Vec::new();
    record.encode(&mut encoded);
    assert_eq!(Record::decode(&encoded).as_ref(), Ok(&record));
}

/// A message of a cluster without its digest: what is read is written with the same bytes.
pub fn message(body: &[u8]) {
    let digest = xxh3_128_with_seed(body, xxh3_64(&identity().directory()));
    let bytes = [body, &digest.to_le_bytes()].concat();
    if let Ok((message, _)) = Message::decode(&bytes, &identity()) {
        assert_eq!(message.encode(&identity()).0, bytes);
    }
    drop(Message::decode(body, &identity()));
}

/// The bytes of a sealed file, of whatever kind its header names.
pub fn sealed(bytes: &[u8]) {
    let disk = MemoryDisk::default();
    disk.put("part", bytes);
    let Ok(mut reader) = SealedReader::open(&disk, "part", FileKind(1), &identity()) else {
        return;
    };
    let promised = reader.sealed().body_bytes;
    if let Ok(body) = reader.read_rest(1 << 24) {
        assert_eq!(body.len() as u64, promised);
    }
}

/// An exported file: what is whole restores files that are exported to the same bytes.
pub fn export(bytes: &[u8]) {
    let disk = MemoryDisk::default();
    let Ok(exported) = read_export(&mut &bytes[..], Some(&disk)) else { return };
    assert_eq!(disk.list().expect("it is healthy").len() as u64, exported.files);
}

/// The body of a segment's or a table's file, as if its checksums had held.
pub fn image(bytes: &[u8]) {
    let plans = Plans::of(Distance::new(3).expect("at most 64"));
    if let Some((kind, mut body)) = bytes.split_first() {
        if kind % 2 == 0 {
            drop(image::read_segment(&mut body, &plans));
        } else {
            drop(image::read_table(&mut body, &plans.large));
        }
    }
}

/// The body of a snapshot's file of namespaces, times, jobs and originals: what is read is written
/// as something that reads the same.
pub fn state(bytes: &[u8]) {
    let written = |state: &StateFile| {
        let mut written = Vec::new();
        state.write(&mut written).expect("memory has room");
        written
    };
    let Ok(state) = StateFile::read(&mut &bytes[..]) else { return };
    let first = written(&state);
    let again = StateFile::read(&mut &first[..]).expect("it was just written");
    assert_eq!(written(&again), first);
}

/// A model file without its checksum: what is read is written with the same bytes.
pub fn model(body: &[u8]) {
    let file = [body, &xxh3_128(body).to_le_bytes()].concat();
    if let Ok(model) = SpectralModel::from_bytes(&file) {
        assert_eq!(model.to_bytes(), file);
    }
    drop(SpectralModel::from_bytes(body));
}

/// A service over an empty directory of its own; both last as long as the process.
static SERVICE: LazyLock<(Runtime, Router)> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("there is room").keep();
    let options = Options { data: directory, durability: Durability::None, ..defaults() };
    let engine = Engine::open(options).expect("an empty directory opens");
    let settings = Config::default().validated().expect("the defaults are valid");
    let runtime = Runtime::new().expect("there are threads");
    let router = {
        let _inside = runtime.enter();
        let access = Access::open(access::TokenSource::default()).expect("no tokens are asked for");
        http::router(HttpService::new(engine, settings.http, Arc::new(access)))
    };
    (runtime, router)
});

fn defaults() -> Options {
    let settings = Config::default().validated().expect("the defaults are valid");
    Options { disk_free_bytes_min: 0, ..settings.engine }
}

/// Sends a request; a status of 5xx is a finding.
fn send(path: &str, kind: &str, body: &[u8]) {
    let request = Request::post(path).header("content-type", kind);
    let request = request.body(Body::from(body.to_vec())).expect("a valid request");
    let (runtime, router) = &*SERVICE;
    let status = runtime.block_on(async {
        let response = router.clone().oneshot(request).await.expect("a router always answers");
        let status = response.status();
        // The lines of a batch are made while they are read.
        let read = axum::body::to_bytes(response.into_body(), 1 << 26).await;
        assert!(read.is_ok(), "a reply has an end");
        status
    });
    assert!(!status.is_server_error(), "{status} from {path}");
}

/// The first byte chooses the route, the rest is a JSON body.
pub fn json(bytes: &[u8]) {
    const ROUTES: [&str; 5] =
        ["/v1/query", "/v1/insert", "/v1/check-and-insert", "/v1/fingerprint", "/v1/compare"];
    if let Some((route, body)) = bytes.split_first() {
        send(ROUTES[usize::from(*route) % ROUTES.len()], "application/json", body);
    }
}

/// The first byte chooses the route, the rest is a body of lines.
pub fn ndjson(bytes: &[u8]) {
    const ROUTES: [&str; 4] = [
        "/v1/query/batch",
        "/v1/insert/batch",
        "/v1/check-and-insert/batch",
        "/v1/fingerprint/batch",
    ];
    if let Some((route, body)) = bytes.split_first() {
        send(ROUTES[usize::from(*route) % ROUTES.len()], "application/x-ndjson", body);
    }
}

/// HTML, and the same as XHTML, to its content, its visible text and its main text, and each to a
/// fingerprint.
pub fn html(bytes: &[u8]) {
    let page = String::from_utf8_lossy(bytes);
    for page in [page.clone(), nearprint_text::declared_as_xml(page)] {
        for text in [nearprint_text::content_of_html(&page), nearprint_text::text_of_html(&page)] {
            assert!(text.len() <= 4 * bytes.len() + 64, "{} from {}", text.len(), bytes.len());
        }
        for extract in Extract::ALL {
            let method = Method { extract, ..Method::default() };
            drop(nearprint_text::analyse(&Source::Html(page.clone()), method, Wanted::STORED));
        }
    }
}

/// The first byte gives the length of the label and whether it is HTML; then the label, then the
/// bytes.
pub fn charset(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let (label, body) = rest.split_at((usize::from(first / 2) % 24).min(rest.len()));
    let label = std::str::from_utf8(label).ok().filter(|label| !label.is_empty());
    if let Ok(text) = nearprint_text::charset::decode(body, label, first % 2 == 0) {
        assert!(text.len() <= 4 * body.len() + 64, "{} from {}", text.len(), body.len());
    }
}

/// A configuration file; what is accepted is valid when it is written out and read again.
pub fn configuration(bytes: &[u8]) {
    let Ok(config) = loaded(bytes) else { return };
    if config.validated().is_ok() {
        let again = loaded(config.effective().as_bytes());
        let again = again.expect("an effective configuration is one");
        assert_eq!(again.effective(), config.effective());
    }
}

fn loaded(bytes: &[u8]) -> Result<Config, ConfigError> {
    let mut file = tempfile::NamedTempFile::new().expect("there is room");
    file.write_all(bytes).expect("there is room");
    Config::load(&Sources { file: Some(file.path().to_owned()), ..Sources::default() })
}

/// A file of a format that the first byte chooses, compressed or not: its records come in order,
/// and the bytes of each are those at its place.
pub fn records(bytes: &[u8]) {
    let Some((&choice, content)) = bytes.split_first() else { return };
    let formats = [
        Format::Ndjson,
        Format::Json,
        Format::Csv,
        Format::Tsv,
        Format::Warc,
        Format::Hex,
        Format::Lines,
    ];
    let format = formats[usize::from(choice) % formats.len()];
    let options = ReadOptions { form: RecordForm::Both, ..ReadOptions::from(format) };
    let stream = std::io::Cursor::new(content.to_vec());
    let Ok(records) = FileRecords::of_stream(stream, options) else { return };
    // Offsets are those of the decompressed text in UTF-8.
    let others = [&b"\x1f\x8b"[..], b"BZh", b"\xfd7zXZ", b"\xff\xfe", b"\xfe\xff"];
    let is_plain = others.iter().all(|magic| !content.starts_with(magic))
        && content.get(1..3) != Some(b"\xb5\x2f")
        && content.get(1..3) != Some(b"\x2a\x4d");
    let mut last = 0;
    for (items, record) in records.enumerate() {
        let (place, raw) = match record {
            Ok(
                nearprint_files::FileRecord::Document(Entry { place, raw, .. })
                | nearprint_files::FileRecord::Other(Other { place, raw, .. }),
            ) => (place, raw),
            Err(BadEntry { place, .. }) => (place, Raw::None),
        };
        let Some(offset) = place.record.and_then(|record| record.offset) else { continue };
        if !is_plain {
            continue;
        }
        assert!(items <= content.len() + 1, "a record has at least a byte");
        let offset = usize::try_from(offset).expect("it is within the content");
        assert!(offset >= last, "records come in order");
        last = offset;
        if let Raw::Bytes(raw) = raw {
            assert!(content[offset..].starts_with(&raw), "a record is where its place is");
        }
    }
}

/// A file of Parquet.
pub fn parquet(bytes: &[u8]) {
    use std::io::Seek as _;
    static FILE: LazyLock<std::sync::Mutex<tempfile::NamedTempFile>> =
        LazyLock::new(|| tempfile::NamedTempFile::new().expect("a file").into());
    let mut file = FILE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    file.as_file().set_len(0).expect("the disk has space");
    file.rewind().expect("it is a file");
    file.write_all(bytes).expect("the disk has space");
    let options = ReadOptions { form: RecordForm::Both, ..ReadOptions::from(Format::Parquet) };
    // A row of no columns needs no bytes, so a small file may claim any number.
    for record in FileRecords::new(vec![file.path().to_path_buf()], options).take(10_000) {
        drop(record);
    }
}

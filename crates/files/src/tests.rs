//! All formats alike: files that other programs wrote, and files that are broken, cut off, empty,
//! misnamed, too long or without a field. What can be read is read, and each error has its place.

#![expect(clippy::disallowed_methods, reason = "tests lay out their own files")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use flate2::Compression;
use flate2::write::GzEncoder;
use nearprint_wire::offer::Content;
use parquet::arrow::ArrowWriter;

use super::*;

/// The documents of `tests/fixtures/bulk/make.py`: name and text.
const DOCUMENTS: [(&str, &str); 4] = [
    ("ferry", "The ferry leaves at seven in the morning, and returns at noon."),
    ("cafe", "Le caf\u{e9} du port ouvre \u{e0} six heures \u{ab} pr\u{e9}cises \u{bb}."),
    ("lamp", "She lit the lamp,\nthen \"closed\" the window."),
    ("bees", "A hive of bees crossed the garden before the rain began."),
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/bulk").join(name)
}

fn records(path: &Path, options: ReadOptions) -> Vec<Result<FileRecord, BadEntry>> {
    FileRecords::new(vec![path.to_path_buf()], options).collect()
}

/// The documents of a file without an error.
fn documents(path: &Path, options: ReadOptions) -> Vec<Entry> {
    let document = |item| match item {
        Ok(FileRecord::Document(entry)) => Some(entry),
        Ok(FileRecord::Other(_)) => None,
        Err(bad) => panic!("{bad}"),
    };
    records(path, options).into_iter().filter_map(document).collect()
}

fn text(entry: &Entry) -> &str {
    match &entry.content {
        Content::Text(text) | Content::Html(text) => text,
        other @ (Content::Features(_) | Content::Vector(_) | Content::Fingerprint(_)) => {
            panic!("{other:?}")
        }
    }
}

#[test]
fn tables_and_json_of_other_programs_are_read() {
    for name in [
        "duckdb.csv",
        "duckdb.json",
        "duckdb.ndjson",
        "duckdb.parquet",
        "duckdb.tsv",
        "pyarrow-brotli.parquet",
        "pyarrow-gzip.parquet",
        "pyarrow-lz4.parquet",
        "pyarrow-none.parquet",
        "pyarrow-snappy.parquet",
        "pyarrow-zstd.parquet",
    ] {
        let read = documents(&fixture(name), ReadOptions::default());
        let shown: Vec<_> =
            read.iter().map(|entry| (entry.id.as_deref().unwrap(), text(entry))).collect();
        let urls = DOCUMENTS.map(|(name, text)| (format!("https://example.org/{name}"), text));
        let expected: Vec<_> = urls.iter().map(|(url, text)| (url.as_str(), *text)).collect();
        assert_eq!(shown, expected, "{name}");
    }
}

#[test]
fn web_archives_of_other_programs_are_read() {
    for (name, others) in [
        ("warcio-1.0.warc.gz", 9),
        ("warcio-1.1.warc", 9),
        ("warcio-1.1.warc.zst", 9),
        ("warcio.warc.wet.gz", 0),
        ("wget.warc.gz", 0),
    ] {
        let items =
            records(&fixture(name), ReadOptions { form: RecordForm::Both, ..Default::default() });
        let mut read = Vec::new();
        let mut others_read = 0;
        for item in items {
            match item.unwrap() {
                FileRecord::Document(entry) => read.push(entry),
                FileRecord::Other(_) => others_read += 1,
            }
        }
        assert_eq!(read.len(), 4, "{name}");
        assert!(others == 0 || others == others_read, "{name}: {others_read}");
        for (entry, (path, expected)) in read.iter().zip(DOCUMENTS) {
            let id = entry.id.as_deref().unwrap();
            assert!(name.starts_with("wget") || id.ends_with(path), "{name}: {id}");
            assert!(id.starts_with("http"), "{name}: {id}");
            let html = format!("<!DOCTYPE html><title>t</title><p>{expected}</p>");
            let is_html = matches!(entry.content, Content::Html(_));
            assert_eq!(text(entry), if is_html { &html } else { expected }, "{name}");
            assert_eq!(is_html, !name.contains("wet"), "{name}");
        }
    }
}

#[test]
fn all_bytes_of_a_web_archive_are_in_its_records() {
    let path = fixture("warcio-1.1.warc");
    let mut bytes = Vec::new();
    for item in records(&path, ReadOptions { form: RecordForm::Both, ..Default::default() }) {
        let (FileRecord::Document(Entry { raw, place, .. })
        | FileRecord::Other(Other { raw, place, .. })) = item.unwrap();
        assert_eq!(place.record.unwrap().offset, Some(bytes.len() as u64));
        let Raw::Bytes(raw) = raw else { panic!("{raw:?}") };
        bytes.extend_from_slice(&raw);
    }
    assert!(bytes == fs::read(path).unwrap());
}

#[test]
fn columns_of_every_type_are_mapped() {
    let mapping = Mapping {
        id: Some("length".to_owned()),
        body: Some((BodyKind::Text, "content".to_owned())),
        namespace: Some("meta.lang".to_owned()),
        metadata: vec!["lang".to_owned(), "meta".to_owned(), "at".to_owned()],
    };
    let path = fixture("pyarrow-zstd.parquet");
    let options = ReadOptions { mapping, ..Default::default() };
    let shown: Vec<_> = records(&path, options)
        .into_iter()
        .map(|item| match item {
            Ok(FileRecord::Document(entry)) => {
                let passed = entry.passed.iter().map(|(_, json)| &**json);
                format!("{} {}", entry.id.unwrap(), passed.collect::<Vec<_>>().join(" "))
            }
            other => other.unwrap_err().to_string(),
        })
        .collect();
    let first = r#"62 "en" {"lang":"en","meta":{"lang":"en","tags":["a","b"]},"at":"2023-11-14T22:13:20Z"}"#;
    assert_eq!(shown[0], first);
    let third = " row 3: has no field `meta.lang`, or it is empty";
    assert!(shown[2].ends_with(third), "{}", shown[2]);

    let path = fixture("fingerprints.parquet");
    let shown: Vec<_> = records(&path, ReadOptions::default())
        .into_iter()
        .map(|item| match item {
            Ok(FileRecord::Document(Entry { id, content: Content::Fingerprint(bits), .. })) => {
                format!("{} {bits}", id.unwrap())
            }
            other => other.unwrap_err().to_string(),
        })
        .collect();
    assert_eq!(shown[..2], ["1 00000000000000ff", "2 ffffffffffffffff"]);
    assert!(shown[2].contains("row 3: has no text"), "{}", shown[2]);
}

#[test]
fn rows_come_with_their_batch_if_they_are_asked_for() {
    let path = fixture("pyarrow-zstd.parquet");
    let options = ReadOptions { form: RecordForm::Both, ..Default::default() };
    let rows: Vec<(usize, usize, usize)> = documents(&path, options)
        .into_iter()
        .map(|entry| match entry.raw {
            Raw::Row(batch, row) => (batch.num_columns(), batch.num_rows(), row),
            other @ (Raw::None | Raw::Bytes(_) | Raw::Piece { .. }) => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(rows, [(6, 3, 0), (6, 3, 1), (6, 3, 2), (6, 1, 0)]);
}

/// A document as a test writes it. Without a text, the field is missing.
type Written<'a> = (&'a str, Option<&'a str>);

/// A format, and how files of it are written.
struct Case {
    name: &'static str,
    write: fn(&[Written<'_>]) -> Vec<u8>,
    /// What stands in the bytes of a written document, and what breaks that document instead.
    damage: (&'static [u8], &'static [u8]),
    /// Whether each cut is noticed, even between two records or within the last line.
    knows_its_end: bool,
}

const CASES: [Case; 8] = [
    Case { name: "a.ndjson", write: ndjson, damage: (b"\"two", b"\"two\"x"), knows_its_end: false },
    Case { name: "a.json", write: array, damage: (b"\"two", b"two"), knows_its_end: true },
    Case { name: "a.csv", write: csv, damage: (b"two", b"\"two"), knows_its_end: false },
    Case { name: "a.tsv", write: tsv, damage: (b"two", b"tw\to"), knows_its_end: false },
    Case {
        name: "a.warc",
        write: warc,
        damage: (b"Content-Length: 3\r\n\r\ntwo", b"Content-Length: 30\r\n\r\ntwo"),
        knows_its_end: false,
    },
    Case {
        name: "b.warc",
        write: warc,
        damage: (b"Content-Length: 3\r\n\r\ntwo", b"\r\n\r\ntwo"),
        knows_its_end: false,
    },
    Case { name: "a.ndjson.gz", write: ndjson_gz, damage: (&[], &[]), knows_its_end: false },
    Case { name: "a.parquet", write: rows, damage: (&[], &[]), knows_its_end: true },
];

fn ndjson(documents: &[Written<'_>]) -> Vec<u8> {
    let line = |(id, text): &Written<'_>| match text {
        Some(text) => format!("{{\"id\": \"{id}\", \"text\": \"{text}\"}}\n"),
        None => format!("{{\"id\": \"{id}\", \"lang\": \"x\"}}\n"),
    };
    documents.iter().map(line).collect::<String>().into_bytes()
}

fn array(documents: &[Written<'_>]) -> Vec<u8> {
    let lines = String::from_utf8(ndjson(documents)).unwrap();
    format!("[\n{}\n]\n", lines.trim_end().replace('\n', ",\n")).into_bytes()
}

fn csv(documents: &[Written<'_>]) -> Vec<u8> {
    let line = |(id, text): &Written<'_>| format!("{id},{}\r\n", text.unwrap_or_default());
    let lines: String = documents.iter().map(line).collect();
    format!("id,text\r\n{lines}").into_bytes()
}

fn tsv(documents: &[Written<'_>]) -> Vec<u8> {
    String::from_utf8(csv(documents)).unwrap().replace(',', "\t").into_bytes()
}

/// A page without a field `text` has none that the header names.
fn warc(documents: &[Written<'_>]) -> Vec<u8> {
    let record = |(id, text): &Written<'_>| {
        let text = text.unwrap_or_default();
        let kind = if text.is_empty() { "HTTP" } else { "text/plain" };
        let length = text.len();
        format!(
            "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: <{id}>\r\n\
             Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{text}\r\n\r\n"
        )
    };
    documents.iter().map(record).collect::<String>().into_bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A member a line.
fn ndjson_gz(documents: &[Written<'_>]) -> Vec<u8> {
    documents.iter().flat_map(|document| gzip(&ndjson(std::slice::from_ref(document)))).collect()
}

/// A row group a row.
fn rows(documents: &[Written<'_>]) -> Vec<u8> {
    let column = |cells: Vec<Option<&str>>| Arc::new(StringArray::from(cells)) as ArrayRef;
    let batches: Vec<RecordBatch> = documents
        .iter()
        .map(|(id, text)| {
            let columns = [("id", column(vec![Some(id)])), ("text", column(vec![*text]))];
            RecordBatch::try_from_iter_with_nullable(
                columns.map(|(name, column)| (name, column, true)),
            )
            .unwrap()
        })
        .collect();
    let mut writer = ArrowWriter::try_new(Vec::new(), batches[0].schema(), None).unwrap();
    for batch in &batches {
        writer.write(batch).unwrap();
        writer.flush().unwrap();
    }
    writer.into_inner().unwrap()
}

/// The ids of the documents, and the numbers and reasons of the errors.
fn read(folder: &Path, name: &str, bytes: &[u8]) -> (Vec<String>, Vec<(Option<u64>, String)>) {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    let (mut ids, mut bad) = (Vec::new(), Vec::new());
    for item in records(&path, ReadOptions::default()) {
        match item {
            Ok(FileRecord::Document(entry)) => ids.push(entry.id.unwrap()),
            Ok(FileRecord::Other(_)) => {}
            Err(BadEntry { place, why, .. }) => bad.push((place.record.map(|at| at.number), why)),
        }
    }
    (ids, bad)
}

const THREE: [Written<'static>; 3] = [("1", Some("one")), ("2", Some("two")), ("3", Some("three"))];

/// The bytes of a file whose second document is broken.
fn damaged(case: &Case) -> Vec<u8> {
    let whole = (case.write)(&THREE);
    let (old, new) = case.damage;
    if old.is_empty() {
        let one = (case.write)(&THREE[..1]).len();
        let mut broken = whole;
        // Within the data of the second member or row group, whatever its header is.
        let at = if case.name == "a.parquet" { one * 2 / 5 } else { one + 12 };
        let at =
            if case.name == "a.parquet" { find(&broken, b"two").unwrap_or(at) - 30 } else { at };
        broken[at..at + 20].fill(0xff);
        return broken;
    }
    let at = find(&whole, old).unwrap();
    [&whole[..at], new, &whole[at + old.len()..]].concat()
}

fn find(bytes: &[u8], piece: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, piece)
}

#[test]
fn a_record_that_is_broken_is_reported_and_the_rest_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for case in &CASES {
        assert_eq!(read(folder.path(), case.name, &(case.write)(&THREE)).0, ["1", "2", "3"]);
        let (ids, bad) = read(folder.path(), case.name, &damaged(case));
        assert_eq!(ids, ["1", "3"], "{}: {bad:?}", case.name);
        assert_eq!(bad[0].0, Some(2), "{}: {bad:?}", case.name);
    }
}

#[test]
fn a_record_without_a_text_or_above_the_limit_is_reported_and_the_rest_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(3 * DOCUMENT_BYTES_MAX);
    for case in &CASES {
        if !case.name.ends_with("warc") {
            // A web archive names no content that a record lacks.
            let missing = (case.write)(&[THREE[0], ("2", None), THREE[2]]);
            let (ids, bad) = read(folder.path(), case.name, &missing);
            assert_eq!((ids.as_slice(), bad.len()), (&["1".into(), "3".into()][..], 1));
            assert_eq!(bad[0].0, Some(2), "{}", case.name);
            assert!(bad[0].1.contains("has no text"), "{}: {bad:?}", case.name);
        }
        let long = (case.write)(&[THREE[0], ("2", Some(&long)), THREE[2]]);
        let (ids, bad) = read(folder.path(), case.name, &long);
        assert_eq!(ids, ["1", "3"], "{}: {bad:?}", case.name);
        assert_eq!(bad.len(), 1, "{}: {bad:?}", case.name);
        assert_eq!(bad[0].0, Some(2), "{}", case.name);
        assert!(bad[0].1.contains("longer than"), "{}: {bad:?}", case.name);
    }
}

#[test]
fn a_file_that_is_cut_off_anywhere_has_the_documents_before_the_cut() {
    let folder = tempfile::tempdir().unwrap();
    for case in &CASES {
        let whole = (case.write)(&THREE);
        for cut in 1..whole.trim_ascii_end().len() {
            let (ids, bad) = read(folder.path(), case.name, &whole[..cut]);
            let context = || format!("{} cut at {cut}: {ids:?} {bad:?}", case.name);
            assert!(
                ["1", "2", "3"].iter().zip(&ids).all(|(whole, id)| whole == id),
                "{}",
                context()
            );
            assert!(bad.len() <= 1, "{}", context());
            assert!(!case.knows_its_end || bad.len() == 1, "{}", context());
        }
        assert_eq!(read(folder.path(), case.name, b""), (Vec::new(), Vec::new()));
    }
}

#[test]
fn lines_of_hex_and_of_text_that_are_broken_or_cut_off_lose_no_other_line() {
    let folder = tempfile::tempdir().unwrap();
    let read = |bytes: &[u8], format| {
        let path = folder.path().join("a");
        fs::write(&path, bytes).unwrap();
        let shown = |item: Result<FileRecord, BadEntry>| match item {
            Ok(FileRecord::Document(Entry { content: Content::Text(text), .. })) => {
                text.into_owned()
            }
            Ok(FileRecord::Document(entry)) => entry.id.unwrap_or_default(),
            Ok(FileRecord::Other(other)) => panic!("{other:?}"),
            Err(bad) => format!("error in line {}", bad.place.record.unwrap().number),
        };
        records(&path, ReadOptions::from(format)).into_iter().map(shown).collect::<Vec<_>>()
    };
    let hex = b"00000000000000f1\tone\n00000000000000f2\ttwo\n00000000000000f3\tthree\n";
    let text = b"one\ntwo\nthree\n";
    for (format, whole) in [(Format::Hex, &hex[..]), (Format::Lines, &text[..])] {
        assert_eq!(read(whole, format), ["one", "two", "three"]);
        let mut broken = whole.to_vec();
        let second = find(whole, b"\n").unwrap() + 1;
        broken[second] = 0xff;
        assert_eq!(read(&broken, format), ["one", "error in line 2", "three"]);
        for cut in second..whole.len() {
            let got = read(&whole[..cut], format);
            let lines = String::from_utf8_lossy(&whole[..cut]).matches('\n').count();
            assert_eq!(got[..lines], ["one", "two", "three"][..lines], "cut at {cut}");
            assert!(got.len() <= lines + 1, "cut at {cut}: {got:?}");
        }
    }
}

#[test]
fn a_compressed_file_that_is_cut_off_anywhere_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let documents: Vec<String> = (0..2_000).map(|number| format!("{number}")).collect();
    let documents: Vec<Written<'_>> = documents.iter().map(|id| (&**id, Some(&**id))).collect();
    let plain = ndjson(&documents);
    let bzip2 = |plain: &[u8]| {
        let mut packed = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        packed.write_all(plain).unwrap();
        packed.finish().unwrap()
    };
    let xz = |plain: &[u8]| {
        let mut packed =
            lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::default()).unwrap();
        packed.write_all(plain).unwrap();
        packed.finish().unwrap()
    };
    for (name, packed) in [
        ("a.ndjson.gz", gzip(&plain)),
        ("a.ndjson.zst", zstd::encode_all(&plain[..], 1).unwrap()),
        ("a.ndjson.bz2", bzip2(&plain)),
        ("a.ndjson.xz", xz(&plain)),
    ] {
        let (ids, bad) = read(folder.path(), name, &packed);
        assert_eq!((ids.len(), bad.len()), (documents.len(), 0), "{name}: {bad:?}");
        for cut in (20..packed.len()).step_by(packed.len() / 40) {
            let (ids, bad) = read(folder.path(), name, &packed[..cut]);
            assert!(!bad.is_empty(), "{name} cut at {cut}: {} documents", ids.len());
            assert!(ids.iter().zip(&documents).all(|(id, (whole, _))| id == whole), "{name}");
        }
    }
}

#[test]
fn a_table_without_a_text_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    for case in CASES.iter().filter(|case| matches!(case.name, "a.csv" | "a.tsv" | "a.parquet")) {
        let path = folder.path().join(case.name);
        fs::write(&path, (case.write)(&THREE)).unwrap();
        let mapping = |path: &str| Mapping {
            body: Some((BodyKind::Text, path.to_owned())),
            ..Mapping::default()
        };
        let options = ReadOptions { mapping: mapping("page.body"), ..ReadOptions::default() };
        let bad: Vec<BadEntry> =
            records(&path, options).into_iter().filter_map(Result::err).collect();
        assert_eq!(bad.len(), 1, "{}: {bad:?}", case.name);
        assert!(bad[0].why.contains("The rest of the table is not read"), "{}", bad[0].why);
    }
}

#[test]
fn a_file_with_a_wrong_name_is_read_as_what_it_is_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    for case in &CASES {
        let bytes = (case.write)(&THREE);
        for name in ["b.txt", "b", "b.html", "b.json", "b.warc", "b.parquet", "b.pdf", "b.gz"] {
            // HTML can be anything.
            if name == "b.html" && !matches!(case.name, "a.warc" | "b.warc" | "a.parquet") {
                continue;
            }
            let (ids, bad) = read(folder.path(), name, &bytes);
            let is_read = ids == ["1", "2", "3"] && bad.is_empty();
            let is_refused = ids.is_empty() && bad.len() == 1 && bad[0].0.is_none();
            let is_text_of_csv = name == "b.txt" && matches!(case.name, "a.csv" | "a.tsv");
            assert!(
                is_read || is_refused || is_text_of_csv,
                "{} as {name}: {ids:?} {bad:?}",
                case.name
            );
        }
    }
}

#[test]
fn a_damaged_beginning_costs_an_array_only_the_elements_that_it_touches() {
    let folder = tempfile::tempdir().unwrap();
    let element = |n| format!("{{\"id\": \"{n}\", \"text\": \"{}\"}}", "word ".repeat(20));
    let all: Vec<_> = (0..40).map(element).collect();
    let whole = format!("[{}]", all.join(", "));
    let check = |bytes: &[u8], least: usize| {
        let (ids, bad) = read(folder.path(), "a.json", bytes);
        assert!(ids.len() >= least && !bad.is_empty(), "{least}: {ids:?} {bad:?}");
        let named = records(&folder.path().join("a.json"), Format::Json.into());
        assert_eq!(named.iter().filter(|item| item.is_ok()).count(), ids.len());
    };
    for at in [0, 1, 10, 300, 700, 3_000] {
        check(&[&whole.as_bytes()[..at], &[0; 5_000], &whole.as_bytes()[at..]].concat(), 38);
    }
    for (nuls, least) in [(1, 38), (16, 38), (512, 34)] {
        check(&[&vec![0; nuls], &whole.as_bytes()[nuls..]].concat(), least);
    }
    check(format!("[1, null, {}]", all.join(",")).as_bytes(), 40);
    check(format!("[[{}]]", all.join("],[")).as_bytes(), 40);
}

#[test]
fn how_files_are_understood_is_said_once_for_all_that_are_alike() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let line = "{\"url\": \"u\", \"content\": \"a text\", \"lang\": \"en\"}\n";
    fs::write(at("a.ndjson"), line).unwrap();
    fs::write(at("b.ndjson"), line).unwrap();
    fs::write(at("c.csv"), "id;text\n1;two\n").unwrap();
    let mut read = Documents::new(vec![folder.path().to_path_buf()], ReadOptions::default());
    assert_eq!(read.by_ref().flatten().count(), 3);
    let expected = [
        format!(
            "{}: NDJSON; id from `url`, text from `content`; not used: lang",
            at("a.ndjson").display()
        ),
        "  its first document: id \"u\", text of 6 characters \"a text\"".to_owned(),
        format!("{}: CSV; id from `id`, text from `text`", at("c.csv").display()),
        "  its first document: id \"1\", text of 3 characters \"two\"".to_owned(),
    ];
    assert_eq!(read.records().notes(), expected);
    assert_eq!(read.records().notes(), Vec::<String>::new());
}

//! Folders of copies, tables of groups and pairs, revisit records, the standard input, and the
//! limit of memory.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use nearprint_files::{BodyKind, Documents, FileRecord, FileRecords, Raw, ReadOptions, RecordForm};
use serde_json::Value;

use super::support::*;
use crate::server::{Server, serve};

/// Names and contents of all files below a folder.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(below) = folders.pop() {
        for entry in fs::read_dir(below).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn a_folder_gets_a_copy_of_each_file_and_of_each_text_that_stays() {
    let folder = folder();
    let lines = lines();
    fs::create_dir_all(folder.path().join("in/deep")).unwrap();
    write(folder.path(), "in/a.jsonl", of(&lines, &[0, 1]));
    write(folder.path(), "in/deep/b.csv", format!("id,text\n1,\"{}\"\n2,birds\n", TEXTS[1]));
    write(folder.path(), "in/deep/c.txt", TEXTS[2]);
    write(folder.path(), "in/deep/d.md", TEXTS[3]);
    write(folder.path(), "in/e.bin", "no document");
    write(folder.path(), "f.jsonl", of(&lines, &[3]));
    let shown = done(folder.path(), &["in", "f.jsonl", "-o", "out/"]);
    assert!(shown.contains("4  documents in out/"), "{shown}");
    assert!(shown.contains(", 3 files"), "{shown}");
    let expected = [
        ("a.jsonl", of(&lines, &[0, 1])),
        ("deep/b.csv", "id,text\n2,birds\n".to_owned()),
        ("deep/d.md", TEXTS[3].to_owned()),
    ];
    let expected: BTreeMap<_, _> = expected.map(|(name, text)| (name.to_owned(), text)).into();
    assert_eq!(files(&folder.path().join("out")), expected);
    assert!(files_with(folder.path(), ".partial").is_empty());
    // A copy never replaces a folder.
    assert!(failed(folder.path(), 2, &["in", "-o", "out/"]).contains("exists already"));
}

#[test]
fn groups_and_pairs_are_tables_if_their_names_say_so() {
    let folder = folder();
    let lines = lines();
    let named = lines[2].replace("example/2", "example/2, the \\\"second\\\"");
    write(folder.path(), "in.jsonl", format!("{}{named}\n", of(&lines, &[0, 1])));
    let run = |groups: &str, pairs: &str| {
        done(folder.path(), &["in.jsonl", "--groups", groups, "--pairs", pairs]);
    };
    run("groups.csv", "pairs.csv.gz");
    assert_eq!(
        read(folder.path(), "groups.csv"),
        "group,document,original\n1,https://a.example/0,https://a.example/0\n\
         1,\"https://a.example/2, the \"\"second\"\"\",https://a.example/0\n"
    );
    let mut pairs = String::new();
    let file = fs::File::open(folder.path().join("pairs.csv.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut pairs).unwrap();
    let start = "id_a,id_b,distance,similarity\n\
                 https://a.example/0,\"https://a.example/2, the \"\"second\"\"\",";
    assert!(pairs.starts_with(start), "{pairs}");

    // The columns of Parquet, read with the reader of imports.
    run("groups.parquet", "pairs.parquet");
    let rows = |name: &str, id: &str, text: &str, more: &[&str]| -> Vec<String> {
        let mut options = ReadOptions::default();
        options.mapping.id = Some(id.to_owned());
        options.mapping.body = Some((BodyKind::Text, text.to_owned()));
        options.mapping.metadata = more.iter().map(|&name| name.to_owned()).collect();
        let rows = Documents::new(vec![folder.path().join(name)], options);
        rows.map(|row| row.map(|row| format!("{:?} {:?} {:?}", row.id, row.content, row.passed)))
            .map(Result::unwrap)
            .collect()
    };
    let groups = rows("groups.parquet", "document", "original", &["group"]);
    assert_eq!(groups.len(), 2);
    assert!(groups[1].contains("second") && groups[1].contains("{\\\"group\\\":1}"), "{groups:?}");
    let pairs = rows("pairs.parquet", "id_a", "id_b", &["distance", "similarity"]);
    assert_eq!(pairs.len(), 1);
    assert!(pairs[0].contains("distance") && pairs[0].contains("similarity"), "{pairs:?}");
}

#[test]
fn what_comes_from_the_standard_input_is_copied_too() {
    let folder = folder();
    let lines = lines();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(["dedup", "-", "-o", "out.jsonl.xz", "--keep", "last"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let input = of(&lines, &[0, 1, 2, 3]);
    command.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(command.wait().unwrap().success());
    let packed = fs::File::open(folder.path().join("out.jsonl.xz")).unwrap();
    let mut copied = String::new();
    lzma_rust2::XzReader::new(packed, true).read_to_string(&mut copied).unwrap();
    assert_eq!(copied, of(&lines, &[1, 2, 3]));
    // An empty one has nothing.
    assert!(failed(folder.path(), 3, &["-", "-o", "out"]).contains("nothing was read"));
}

/// A response with its page, as crawlers write it.
fn response(number: u32, digest: &str, page: &str) -> String {
    let http = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>{page}");
    format!(
        "WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{number}>\r\n\
         WARC-Date: 2026-01-0{number}T00:00:00Z\r\nWARC-Target-URI: https://a.example/{number}\r\n\
         WARC-Payload-Digest: {digest}\r\nContent-Type: application/http; msgtype=response\r\n\
         Content-Length: {}\r\n\r\n{http}\r\n\r\n",
        http.len()
    )
}

#[test]
fn pages_that_go_become_revisit_records() {
    let folder = folder();
    let (one, two) = (response(1, "sha1:A", TEXTS[0]), response(2, "sha1:B", TEXTS[1]));
    let (near, same) = (response(3, "sha1:C", TEXTS[2]), response(4, "sha1:A", TEXTS[0]));
    write(folder.path(), "in.warc", [&*one, &two, &near, &same].concat());
    for out in ["out.warc", "out.warc.gz", "out.warc.zst"] {
        let shown = done(folder.path(), &["in.warc", "-o", out, "--revisit"]);
        assert!(shown.contains("2  revisit records"), "{shown}");
        let options = ReadOptions { form: RecordForm::Both, ..ReadOptions::default() };
        let records = FileRecords::new(vec![folder.path().join(out)], options);
        let raw = records.map(|record| match record.unwrap() {
            FileRecord::Document(entry) => (entry.raw, "a page"),
            FileRecord::Other(other) => (other.raw, other.what),
        });
        let raw: Vec<(String, &str)> = raw
            .map(|(raw, what)| match raw {
                Raw::Bytes(bytes) => (String::from_utf8(bytes.to_vec()).unwrap(), what),
                Raw::None | Raw::Row(..) | Raw::Piece { .. } => panic!("{out}: no whole record"),
            })
            .collect();
        assert_eq!(raw.len(), 4, "{out}");
        assert_eq!([&raw[0].0, &raw[1].0], [&one, &two]);
        for ((record, what), profile) in raw[2..].iter().zip([
            "urn:nearprint:revisit:near-duplicate",
            "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
        ]) {
            assert!(what.contains("revisit"), "{what}");
            for line in [
                "WARC-Type: revisit",
                &format!("WARC-Profile: {profile}"),
                "WARC-Refers-To: <urn:uuid:1>",
                "WARC-Refers-To-Target-URI: https://a.example/1",
                "WARC-Refers-To-Date: 2026-01-01T00:00:00Z",
                "Content-Length: 44",
            ] {
                assert!(record.contains(&format!("{line}\r\n")), "{out}: {line} in {record}");
            }
            assert!(record.ends_with("Content-Type: text/html\r\n\r\n\r\n\r\n"), "{record}");
        }
    }
}

#[test]
fn revisit_records_of_pages_that_go_are_counted() {
    let folder = folder();
    let revisit = |id: u32, refers: &str| {
        format!(
            "WARC/1.1\r\nWARC-Type: revisit\r\nWARC-Record-ID: <urn:uuid:9{id}>\r\n{refers}\r\n\
             Content-Type: application/http; msgtype=response\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
        )
    };
    let page = |number| {
        format!(
            "WARC-Refers-To-Target-URI: https://a.example/{number}\r\n\
             WARC-Refers-To-Date: 2026-01-0{number}T00:00:00Z"
        )
    };
    let records = [
        response(1, "sha1:A", TEXTS[0]),
        // It comes before the page that it refers to.
        revisit(1, "WARC-Refers-To: <urn:uuid:2>"),
        response(2, "sha1:B", TEXTS[2]),
        revisit(2, &page(2)),
        revisit(3, "WARC-Refers-To: <urn:uuid:1>"),
        revisit(4, &page(1)),
    ];
    write(folder.path(), "in.warc", records.concat());
    let shown = done(folder.path(), &["in.warc", "-o", "out.warc"]);
    assert!(shown.contains("2  revisit records refer to dropped pages"), "{shown}");
    let shown = done(folder.path(), &["out.warc", "-o", "again.warc"]);
    assert!(!shown.contains("refer to pages"), "nothing goes: {shown}");
}

#[test]
fn a_run_ends_before_it_takes_more_memory_than_the_limit() {
    let folder = folder();
    let line = |number: u64| format!("{:016x}\n", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    write(folder.path(), "in.hex", (0..150_000).map(line).collect::<String>());
    let limit = |bytes: &str| {
        let arguments = ["in.hex", "--groups", "groups.csv", "--max-memory", bytes];
        nearprint(folder.path(), &arguments)
    };
    // 96 MiB, and for each document its columns, and a name of 13 bytes or so.
    let output = limit("103m");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("documents need more memory than the limit"), "{said}");
    assert!(
        said.contains("memory: 96 MiB and 102 bytes a document and its id; up to 103 MiB"),
        "{said}"
    );
    assert!(!folder.path().join("groups.csv").exists());
    let output = limit("130m");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Each pair is found in a part of the documents, whatever the number of parts is.
#[test]
fn documents_that_do_not_fit_into_the_limit_are_divided_and_the_groups_are_the_same() {
    let folder = folder();
    let fingerprints = (0..60_000_u64).flat_map(|number| {
        let bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let near = bits ^ 1 << (number % 64) ^ 1 << (number / 64 % 64);
        [Some(bits), number.is_multiple_of(3).then_some(near)]
    });
    let lines = fingerprints.flatten().map(|bits| format!("{bits:016x}\n"));
    write(folder.path(), "in.hex", lines.collect::<String>());
    let groups = |name: &str, limit: &[&str]| {
        let output = nearprint(folder.path(), &[&["in.hex", "--groups", name], limit].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        (read(folder.path(), name), said.contains("one part of the documents after the other"))
    };
    let (whole, is_divided) = groups("whole.csv", &[]);
    assert!(!is_divided);
    // 96 MiB; for each document 40 bytes and its name of 12 bytes are less than 5 MiB, and 102
    // bytes more than that.
    let (divided, is_divided) = groups("divided.csv", &["--max-memory", "101m"]);
    assert!(is_divided);
    assert_eq!(whole, divided);
    let arguments = ["in.hex", "--pairs", "pairs.csv", "--max-memory", "101m"];
    let error = failed(folder.path(), 1, &arguments);
    assert!(error.contains("documents need more memory than the limit"), "{error}");
}

/// The documents of a service are dropped as those of a directory are.
#[test]
fn what_a_service_has_goes_too() {
    let folder = folder();
    let lines = lines();
    let mut command = serve(&[], &folder.path().join("data"));
    command.args(["--listen", "127.0.0.1:0"]);
    let service = Server::of(command).expect("the service starts");
    let address = service.url();
    write(folder.path(), "old.jsonl", of(&lines, &[2]));
    let import = Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(["import", "old.jsonl", "--server", address])
        .env("XDG_STATE_HOME", folder.path())
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(import.status.success(), "{}", String::from_utf8_lossy(&import.stderr));
    write(folder.path(), "in.jsonl", of(&lines, &[0, 1, 2, 3]));
    let arguments = ["in.jsonl", "-o", "out.jsonl", "--json", "--against", address];
    let report: Value = serde_json::from_str(&done(folder.path(), &arguments)).unwrap();
    assert_eq!(report["in_collection"], 2);
    assert_eq!(read(folder.path(), "out.jsonl"), of(&lines, &[1, 3]));
}

//! Promise: an export has every document of the selection, in each format with the same values, and
//! is a file that is whole or absent. Method: the binary on a data directory that it has filled,
//! each file read again by the readers of `import`, and on a service that breaks off.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests lay out their own files, and fail by panicking"
)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn nearprint(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts")
}

/// Runs a command that must succeed; its standard output.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = nearprint(folder, arguments);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {err}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

const DOCUMENTS: u64 = 10_000;

/// A directory with more documents than a batch of Parquet, in two namespaces.
fn filled() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("the disk has space");
    let line = |number: u64| {
        let bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let more = match number % 3 {
            0 => format!(", \"metadata\": {{\"title\": \"a, \\\"b\\\"\", \"n\": {number}}}"),
            1 => ", \"namespace\": \"news/fr\"".to_owned(),
            _ => ", \"expires_at\": 4102444800".to_owned(),
        };
        format!(
            "{{\"id\": \"https://a.example/{number},x\", \"fingerprint\": \"{bits:016x}\"{more}}}\n"
        )
    };
    let text = "{\"id\": \"text\", \"text\": \"The ferry leaves at seven in the morning, and returns at noon.\"}\n";
    let lines: String = (0..DOCUMENTS).map(line).collect();
    fs::write(folder.path().join("in.jsonl"), lines + text).unwrap();
    done(folder.path(), &["import", "in.jsonl", "--data", "data"]);
    folder
}

/// The documents of a stream of lines, without what other formats lack.
fn documents(lines: &str) -> Vec<Value> {
    let document = |line: &str| {
        let mut document: Value = serde_json::from_str(line).unwrap();
        for only in ["short", "verifiable", "sequence", "stored_at_ms", "sketch"] {
            document.as_object_mut().unwrap().remove(only);
        }
        document
    };
    lines.lines().map(document).collect()
}

fn exported(folder: &Path, data: &str) -> String {
    done(folder, &["export", "-o", "-", "--data", data, "--all-namespaces", "--metadata"])
}

#[test]
fn every_format_has_every_document_and_can_be_imported() {
    let folder = filled();
    let folder = folder.path();
    let all = exported(folder, "data");
    assert_eq!(all.lines().count() as u64, DOCUMENTS + 1);
    let expected = documents(&all);
    let names = ["a.jsonl", "a.jsonl.gz", "a.csv", "a.csv.zst", "a.parquet"];
    for name in names {
        let said = done(
            folder,
            &["export", "-o", name, "--data", "data", "--all-namespaces", "--metadata"],
        );
        assert!(said.starts_with(&format!("{name}: 10,001 documents, ")), "{said}");
        let left = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name());
        assert!(left.into_iter().all(|name| !name.to_string_lossy().ends_with(".partial")));
        let data = format!("from-{name}");
        done(folder, &["import", name, "--data", &data, "--fingerprint", "fingerprint"]);
        let again = documents(&exported(folder, &data));
        assert!(again == expected, "{name}");
    }
    let table = fs::read_to_string(folder.join("a.csv")).unwrap();
    let mut rows = table.lines();
    assert_eq!(
        rows.next(),
        Some("namespace,id,fingerprint,sequence,stored_at_ms,expires_at,metadata")
    );
    let first = rows.next().unwrap();
    assert!(first.starts_with(",\"https://a.example/0,x\",0000000000000000,1,"), "{first}");
    assert!(
        first.ends_with(",,\"{\"\"title\"\":\"\"a, \\\"\"b\\\"\"\"\",\"\"n\"\":0}\""),
        "{first}"
    );
    assert!(rows.nth(1).unwrap().ends_with(",4102444800,"));
}

#[test]
fn a_selection_and_columns_are_chosen() {
    let folder = filled();
    // 99, 990 to 999, and 9900 to 9999 begin with 99; a third of them is in the namespace.
    let export = |more: &[&str]| {
        done(folder.path(), &[&["export", "-o", "-", "--data", "data"], more].concat())
    };
    assert_eq!(export(&["--namespace", "news/fr"]).lines().count() as u64, DOCUMENTS / 3);
    assert_eq!(export(&["--prefix", "https://a.example/99"]).lines().count(), 75);
    let with_sketch = export(&["--prefix", "text", "--sketch", "--format", "csv"]);
    let row = with_sketch.lines().nth(1).unwrap();
    assert_eq!(row.rsplit(',').next().unwrap().len(), 312, "{row}");
    assert!(export(&["--namespace", "none"]).is_empty());
}

#[test]
fn sketches_come_back_with_their_fingerprints() {
    let folder = filled();
    let folder = folder.path();
    let export = |data: &str, out: &str| {
        let what = ["export", "-o", out, "--data", data, "--prefix", "text", "--sketch"];
        done(folder, &what)
    };
    let sketch = |lines: &str| serde_json::from_str::<Value>(lines).unwrap()["sketch"].clone();
    let expected = sketch(&export("data", "-"));
    assert!(expected.is_string());
    for name in ["s.jsonl", "s.csv", "s.parquet"] {
        export("data", name);
        let data = format!("of-{name}");
        done(folder, &["import", name, "--data", &data]);
        assert_eq!(sketch(&export(&data, "-")), expected, "{name}");
    }
    // It belongs to its recipe, and has its length.
    let line = fs::read_to_string(folder.join("s.jsonl")).unwrap();
    for (old, new, part) in [
        ("\"np2\"", "\"words-3\"", "compares fingerprints of the recipe np2"),
        ("\"sketch\":\"", "\"sketch\":\"0", "312 hex digits"),
        ("\"recipe\":\"np2\",", "", "needs the field recipe"),
    ] {
        assert!(line.contains(old), "{line}");
        fs::write(folder.join("wrong.jsonl"), line.replace(old, new)).unwrap();
        let output = nearprint(folder, &["import", "wrong.jsonl", "--data", "wrong"]);
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(!output.status.success() && shown.contains(part), "{part} in {shown}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_and_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, code, part) in [
        (&["export", "-o", "-", "--format", "parquet"][..], 2, "files only"),
        (&["export", "-o", "a.csv", "--data", "missing"], 1, "no data directory"),
        (&["export", "-o", "missing/a.csv"], 2, "its folder does not exist"),
        (&["export", "-o", "a/"], 2, "the name of a folder"),
        (&["export", "-o", "../.."], 2, "is a folder"),
        (&["export", "-o", "./a.csv", "--data", "."], 2, "lies in ., which is read"),
        (&["snapshot", "export", "missing/a", "--server", "x"], 2, "its folder does not exist"),
        (&["train", "spectral", "a", "--output", "missing/b"], 2, "its folder does not exist"),
        (&["import", "a", "--data", "b", "--state", "/dev/null"], 2, "is not a regular file"),
        (&["import", ".", "--data", "b", "--state", "c"], 2, "lies in ., which is read"),
        (&["export"], 2, "--output"),
    ] {
        let output = nearprint(folder.path(), arguments);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{err}");
        assert!(err.contains(part), "{arguments:?}: {err}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A service that breaks off leaves no file.
#[test]
fn an_export_that_is_cut_off_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let service = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4_096];
        let _ = stream.read(&mut request).unwrap();
        let line = "{\"namespace\":null,\"id\":\"a\",\"fingerprint\":\"00000000000000ff\",\
                    \"sequence\":1,\"stored_at_ms\":1}\n";
        let reply = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ncontent-length: 9999\r\n\r\n\
             {line}{line}"
        );
        stream.write_all(reply.as_bytes()).unwrap();
    });
    let output = nearprint(folder.path(), &["export", "-o", "a.csv", "--server", &address]);
    service.join().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("the export is not complete"), "{err}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "no file is left");
}

//! Several tables in one copy, and records that cannot be read.

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use nearprint_files::{Documents, ReadOptions};

use super::support::*;

#[test]
fn tables_with_the_same_columns_go_into_one_copy() {
    let folder = folder();
    write(folder.path(), "a.csv", format!("id,text\n1,\"{}\"\n", TEXTS[0]));
    write(folder.path(), "b.csv", format!("\u{feff}\"id\",\"text\"\n2,\"{}\"\n", TEXTS[1]));
    write(folder.path(), "c.csv", format!("text;id\n{};3\n", TEXTS[3]));
    done(folder.path(), &["a.csv", "b.csv", "c.csv", "-o", "out.csv"]);
    let expected = format!("id,text\n1,\"{}\"\n2,\"{}\"\n3,\"{}\"\n", TEXTS[0], TEXTS[1], TEXTS[3]);
    assert_eq!(read(folder.path(), "out.csv"), expected);
    done(folder.path(), &["c.csv", "a.csv", "-o", "out.csv", "--mark"]);
    let expected = format!(
        "text;id;duplicate_of;distance;similarity;group\n{};3;;;;\n{};1;;;;\n",
        TEXTS[3], TEXTS[0]
    );
    assert_eq!(read(folder.path(), "out.csv"), expected);
    // Lines with a byte order mark at the beginning of each file.
    let lines = lines();
    write(folder.path(), "a.jsonl", format!("\u{feff}{}\n", lines[0]));
    write(folder.path(), "b.jsonl", format!("\u{feff}{}\n", lines[1]));
    done(folder.path(), &["a.jsonl", "b.jsonl", "-o", "out.jsonl"]);
    assert_eq!(read(folder.path(), "out.jsonl"), of(&lines, &[0, 1]));
}

#[test]
fn tables_with_other_columns_are_refused_before_they_are_read() {
    let folder = folder();
    write(folder.path(), "a.csv", "id,text,n\n1,one,1\n");
    write(folder.path(), "b.csv", "id,text\n2,two\n");
    let error = failed(folder.path(), 1, &["a.csv", "b.csv", "-o", "out.csv"]);
    for part in ["a.csv and b.csv", "only a.csv has a column `n`", "-o FOLDER/"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    // No pass began, and nothing else is blamed.
    for part in ["memory:", "permissions", "first document"] {
        assert!(!error.contains(part), "{part} in {error}");
    }
    // The advice works.
    done(folder.path(), &["a.csv", "b.csv", "-o", "out/"]);
    assert_eq!(read(folder.path(), "out/b.csv"), "id,text\n2,two\n");
}

#[test]
fn cells_of_tsv_that_begin_with_a_quote_are_copied() {
    let folder = folder();
    let plain = format!("id\ttext\n1\t\"Ferry\" {}\n2\t\"{}\n3\tlast\n", TEXTS[0], TEXTS[1]);
    write(folder.path(), "plain.tsv", &plain);
    done(folder.path(), &["plain.tsv", "-o", "out.tsv"]);
    assert_eq!(read(folder.path(), "out.tsv"), plain);
    let quoted = format!("id\ttext\n4\t\"a tab\tand {}\"\n", TEXTS[3]);
    write(folder.path(), "quoted.tsv", &quoted);
    done(folder.path(), &["quoted.tsv", "-o", "out.tsv"]);
    assert_eq!(read(folder.path(), "out.tsv"), quoted);
    // Both in one copy: the quotes of the first are those of its cells.
    done(folder.path(), &["plain.tsv", "quoted.tsv", "-o", "out.tsv"]);
    let expected = format!(
        "id\ttext\n1\t\"\"\"Ferry\"\" {}\"\n2\t\"\"\"{}\"\n3\tlast\n4\t\"a tab\tand {}\"\n",
        TEXTS[0], TEXTS[1], TEXTS[3]
    );
    assert_eq!(read(folder.path(), "out.tsv"), expected);
}

#[test]
fn a_copy_of_utf_16_is_utf_8_and_this_is_said() {
    let folder = folder();
    let table = format!("id,text\n1,{}\u{e9}\n", TEXTS[3].replace(',', ""));
    let bytes: Vec<u8> = table.encode_utf16().flat_map(u16::to_le_bytes).collect();
    write(folder.path(), "in.csv", [&b"\xff\xfe"[..], &bytes].concat());
    let output = nearprint(folder.path(), &["in.csv", "-o", "out.csv"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("UTF-16LE, read as UTF-8").count(), 1, "{said}");
    assert_eq!(read(folder.path(), "out.csv"), table);
}

/// Records that need an id or a text elsewhere, and not here.
#[test]
fn records_are_compared_without_ids_and_kept_without_texts() {
    let folder = folder();
    let lines = [
        format!("{{\"id\": 1.0, \"text\": \"{}\"}}", TEXTS[0]),
        format!("{{\"_id\": {{\"$oid\": \"x\"}}, \"text\": \"{}\", \"n\": NaN}}", TEXTS[1]),
        format!("{{\"id\": null, \"text\": \"{} \\ud83d\", \"ns\": null}}", TEXTS[3]),
        "{\"id\": 1.5, \"text\": null}".to_owned(),
        format!("{{\"id\": [], \"text\": \"{}\"}}", TEXTS[2]),
    ];
    let numbers: Vec<usize> = (0..lines.len()).collect();
    write(folder.path(), "in.jsonl", of(&lines, &numbers));
    let arguments = ["in.jsonl", "-o", "out.jsonl", "--json", "--namespace-field", "ns"];
    let report: Value = serde_json::from_str(&done(folder.path(), &arguments)).unwrap();
    assert_eq!(read(folder.path(), "out.jsonl"), of(&lines, &[0, 1, 2, 3]));
    assert_eq!([&report["failed"], &report["without_fingerprint"]], [0, 1]);
    assert_eq!([&report["documents"], &report["dropped"]], [5, 1]);
    // A document without an id goes by its place.
    done(folder.path(), &["in.jsonl", "-o", "marked.jsonl", "--mark"]);
    let marked = read(folder.path(), "marked.jsonl");
    assert!(marked.lines().nth(4).unwrap().contains("\"duplicate_of\":\"1\""), "{marked}");
}

#[test]
fn what_cannot_be_read_is_kept_byte_for_byte_unless_it_is_to_go() {
    let folder = folder();
    let lines = lines();
    let bad: [&[u8]; 4] = [
        b"{\"text\": \"not closed",
        b"{\"text\": \"caf\xe9 in another encoding\"}",
        b"{\"id\": \"no text\"}",
        b"{\"id\": \"a\", \"text\": 7}",
    ];
    let file = |lines: &[&[u8]]| [lines.join(&b'\n'), b"\n".to_vec()].concat();
    let all: Vec<&[u8]> =
        [lines[0].as_bytes()].into_iter().chain(bad).chain([lines[2].as_bytes()]).collect();
    write(folder.path(), "in.jsonl", file(&all));
    let output = nearprint(folder.path(), &["in.jsonl", "-o", "out.jsonl"]);
    let [shown, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(shown.contains("4  records that could not be read, copied as they are"), "{shown}");
    assert!(said.contains("4 records could not be read") && said.contains("--drop-unreadable"));
    let bytes = |name| fs::read(folder.path().join(name)).unwrap();
    assert_eq!(bytes("out.jsonl"), file(&all[..5]));
    failed(folder.path(), 1, &["in.jsonl", "-o", "out.jsonl", "--drop-unreadable"]);
    assert_eq!(bytes("out.jsonl"), file(&all[..1]));
    // A mark needs an object.
    failed(folder.path(), 1, &["in.jsonl", "-o", "out.jsonl", "--mark"]);
    let marked = bytes("out.jsonl");
    let rows: Vec<&[u8]> = marked.split(|&byte| byte == b'\n').collect();
    assert_eq!(rows[1..3], bad[..2]);
    assert!(rows[3].ends_with(b"\"group\":null}"), "{}", rows[3].escape_ascii());

    let rows: [&[u8]; 5] =
        [b"id,text", b"1,one", b"2,caf\xe9", b"3", b"4,\"two\nlines\" and a quote"];
    write(folder.path(), "in.csv", file(&rows));
    failed(folder.path(), 1, &["in.csv", "-o", "out.csv"]);
    assert_eq!(bytes("out.csv"), file(&rows));
}

#[test]
fn a_copy_that_is_cut_off_has_all_that_is_whole() {
    let folder = folder();
    let lines = lines();
    let whole = of(&lines, &[0, 1, 3]);
    write(folder.path(), "in.jsonl", &whole[..whole.len() - 9]);
    failed(folder.path(), 1, &["in.jsonl", "-o", "out.jsonl", "--drop-unreadable"]);
    assert_eq!(read(folder.path(), "out.jsonl"), of(&lines, &[0, 1]));
}

fn import(folder: &std::path::Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(["import", "--dry-run"])
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts")
}

/// The advice of an import is followed as it is written.
#[test]
fn advice_about_tables_works() {
    let folder = folder();
    write(folder.path(), "caret.csv", "id^text\n1^one two\n");
    let shown = String::from_utf8(import(folder.path(), &["caret.csv"]).stdout).unwrap();
    assert!(shown.contains("pass --delimiter"), "{shown}");
    for name in ["caret.csv", "sep.csv", "pipe.csv"] {
        write(folder.path(), "sep.csv", "sep=;\r\nid;text\r\n1;one, two\r\n");
        write(folder.path(), "pipe.csv", "id|text\n1|one, two\n");
        let options = if name == "caret.csv" { &["--delimiter", "^"][..] } else { &[] };
        let output = import(folder.path(), &[&[name], options].concat());
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let utf_32 = |text: &str| -> Vec<u8> {
        text.chars().flat_map(|of| u32::from(of).to_le_bytes()).collect()
    };
    write(folder.path(), "a.jsonl", utf_32("\u{feff}{\"id\": \"1\", \"text\": \"t\"}\n"));
    let shown = String::from_utf8(import(folder.path(), &["a.jsonl"]).stdout).unwrap();
    assert!(shown.contains("is UTF-32LE: convert it with iconv -f UTF-32LE"), "{shown}");
    write(folder.path(), "mongo.jsonl", "{\"_id\": {\"$oid\": \"65f\"}, \"text\": \"words\"}\n");
    write(folder.path(), "old.csv", b"id,text\n1,caf\xe9 au lait\n2,d\xe9j\xe0 vu\n");
    for (name, option) in [("mongo.jsonl", "--id"), ("old.csv", "--charset")] {
        let output = import(folder.path(), &[name]);
        assert_eq!(output.status.code(), Some(1));
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains("           1 x "), "one error in {shown}");
        let (_, advice) = shown.split_once(&format!("pass {option} ")).unwrap();
        let value = advice.split([',', '.', ';']).next().unwrap();
        let value = if option == "--id" { "_id.$oid" } else { value };
        assert!(advice.trim_start_matches('\'').starts_with(value), "{advice}");
        let output = import(folder.path(), &[name, option, value]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_field_that_a_mark_would_repeat_is_refused() {
    let folder = folder();
    let own = |name: &str| format!("{{\"id\": \"{name}\", \"text\": \"a text\", \"group\": 7}}\n");
    write(folder.path(), "a.jsonl", own("a"));
    write(folder.path(), "a.json", format!("[{}]", own("a")));
    write(folder.path(), "a.csv", "id,text,distance\na,a text,12\n");
    let marked = "a.parquet";
    write(folder.path(), "plain.jsonl", "{\"id\": \"b\", \"text\": \"a text\"}\n");
    let fixture = fixtures().join("pyarrow-none.parquet");
    done(folder.path(), &[fixture.to_str().unwrap(), "--mark", "-o", marked]);
    for (name, field) in
        [("a.jsonl", "group"), ("a.json", "group"), ("a.csv", "distance"), (marked, "duplicate_of")]
    {
        let error = failed(folder.path(), 2, &["plain.jsonl", name, "--mark", "-o", "x/"]);
        let why = format!("{name} already has a field `{field}`");
        assert!(error.contains(&why) && error.contains("rename it"), "{error}");
        assert!(!error.contains("memory:"), "nothing was read: {error}");
    }
    // Records after the first one are met when they are copied.
    write(
        folder.path(),
        "later.jsonl",
        format!("{{\"id\": \"b\", \"text\": \"t\"}}\n{}", own("a")),
    );
    let error = failed(folder.path(), 1, &["later.jsonl", "--mark", "-o", "x"]);
    assert!(error.contains("later.jsonl line 2 (byte 25) already has a field `group`"), "{error}");
    assert!(error.contains("rename it"), "{error}");
    assert!(!folder.path().join("x").exists());
}

/// The rows of a file of Parquet that are read, and why others are not.
fn rows_of(path: &std::path::Path) -> (Vec<String>, Vec<String>) {
    let (mut read, mut bad) = (Vec::new(), Vec::new());
    for item in Documents::new(vec![path.to_path_buf()], ReadOptions::default()) {
        match item {
            Ok(entry) => read.push(entry.id.unwrap()),
            Err(entry) => bad.push(entry.why),
        }
    }
    (read, bad)
}

#[test]
fn a_cell_of_parquet_that_is_not_utf_8_costs_its_row_or_nothing() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let whole = fs::read(fixtures().join("pyarrow-none.parquet")).unwrap();
    let ids = rows_of(&fixtures().join("pyarrow-none.parquet")).0;
    let replaced = |name: &str, old: &[u8], new: &[u8]| {
        let mut bytes = whole.clone();
        let found: Vec<usize> =
            (0..bytes.len() - old.len()).filter(|&at| bytes[at..].starts_with(old)).collect();
        assert!(!found.is_empty());
        // Statistics have the same bytes.
        for at in found {
            bytes[at..at + new.len()].copy_from_slice(new);
        }
        write(folder.path(), name, bytes);
    };
    replaced("text.parquet", b"A hive of bees", b"A \xffive of bees");
    let error = failed(folder.path(), 1, &["text.parquet", "-o", "copy.parquet"]);
    assert!(error.contains("text.parquet row 4: `content` is not UTF-8"), "{error}");
    for name in ["text.parquet", "copy.parquet"] {
        let (read, bad) = rows_of(&at(name));
        assert_eq!((&read[..], bad.len()), (&ids[..3], 1), "{name}: {bad:?}");
    }
    failed(folder.path(), 1, &["text.parquet", "--drop-unreadable", "-o", "less.parquet"]);
    assert_eq!(rows_of(&at("less.parquet")), (ids[..3].to_vec(), Vec::new()));
    done(folder.path(), &["less.parquet", "--mark", "-o", "marked.parquet"]);
    assert_eq!(rows_of(&at("marked.parquet")).0, ids[..3]);

    // No document needs this column.
    replaced("unused.parquet", b"\x02\0\0\0fr", b"\x02\0\0\0f\xff");
    done(folder.path(), &["unused.parquet", "-o", "unused-copy.parquet"]);
    assert_eq!(rows_of(&at("unused-copy.parquet")), (ids, Vec::new()));
}

#[test]
fn a_page_of_parquet_whose_checksum_is_wrong_is_not_read() {
    let folder = folder();
    let mut bytes = fs::read(fixtures().join("pyarrow-checksums.parquet")).unwrap();
    // Statistics have the same bytes, and no checksum.
    let places = bytes.windows(6).enumerate().filter(|(_, six)| six == b"garden");
    for at in places.map(|(at, _)| at).collect::<Vec<_>>() {
        bytes[at] = b'h';
    }
    write(folder.path(), "a.parquet", bytes);
    let (read, bad) = rows_of(&folder.path().join("a.parquet"));
    assert_eq!((read.len(), bad.len()), (2, 1), "{read:?} {bad:?}");
    assert!(bad[0].contains("row group 2") && bad[0].contains("CRC"), "{bad:?}");
}

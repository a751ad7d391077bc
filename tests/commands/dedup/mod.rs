//! Promise: `dedup` keeps one document of each group of connected near-duplicates, and copies what
//! stays byte by byte, in every format that has records; the copy is whole or absent. Method: the
//! binary on small files with a known answer, on random fingerprints against the comparison of all
//! pairs, and killed while it writes.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests lay out their own files, and fail by panicking"
)]

mod likely;
mod matching;
mod outputs;
mod safety;
mod streams;
mod support;
mod tables;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use serde_json::Value;

use support::*;

#[test]
fn records_without_an_id_go_by_their_file_and_line() {
    let folder = folder();
    let line =
        |number: u64, text: &str| format!("{{\"doc_id\": {number}, \"text\": \"{text}\"}}\n");
    let lines =
        [line(1, TEXTS[0]), line(2, TEXTS[1]), line(3, TEXTS[2]), "{\"doc_id\": 4}\n".to_owned()];
    write(folder.path(), "docs.jsonl", lines[..3].concat());
    let outputs = ["-o", "out.jsonl", "--groups", "groups.jsonl", "--pairs", "pairs.csv"];
    let said = done(folder.path(), &[&["docs.jsonl"], &outputs[..]].concat());
    assert!(said.contains("docs.jsonl:1\n"), "{said}");
    assert_eq!(read(folder.path(), "out.jsonl"), lines[..2].concat());
    let groups = "{\"group\":1,\"original\":\"docs.jsonl:1\",\"documents\":[\"docs.jsonl:1\",\"docs.jsonl:3\"]}\n";
    assert_eq!(read(folder.path(), "groups.jsonl"), groups);
    assert!(read(folder.path(), "pairs.csv").contains("\ndocs.jsonl:1,docs.jsonl:3,"));
    done(folder.path(), &["docs.jsonl", "-o", "marked.jsonl", "--mark"]);
    assert!(read(folder.path(), "marked.jsonl").contains("\"duplicate_of\":\"docs.jsonl:1\""));
    write(folder.path(), "docs.jsonl", lines.concat());
    let error = failed(folder.path(), 1, &["docs.jsonl", "--dry-run"]);
    assert!(error.contains("docs.jsonl line 4 (byte "), "{error}");
}

#[test]
fn lines_that_stay_are_copied_byte_by_byte() {
    let folder = folder();
    let lines = lines();
    write(folder.path(), "in.jsonl", of(&lines, &[0, 1, 2, 3]));
    let kept = |keep: &str| {
        done(folder.path(), &["in.jsonl", "-o", "out.jsonl", "--keep", keep]);
        read(folder.path(), "out.jsonl")
    };
    assert_eq!(kept("first"), of(&lines, &[0, 1, 3]));
    assert_eq!(kept("last"), of(&lines, &[1, 2, 3]));
    assert_eq!(kept("longest"), of(&lines, &[1, 2, 3]));
    assert_eq!(kept("max:n"), of(&lines, &[1, 2, 3]));
    assert_eq!(kept("none"), of(&lines, &[1, 3]));
    // Two inputs, one compressed output.
    write(folder.path(), "more.jsonl", of(&lines, &[3]));
    done(folder.path(), &["in.jsonl", "more.jsonl", "-o", "out.jsonl.gz"]);
    let mut copied = String::new();
    let file = fs::File::open(folder.path().join("out.jsonl.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut copied).unwrap();
    assert_eq!(copied, of(&lines, &[0, 1, 3]));
    done(folder.path(), &["out.jsonl.gz", "-o", "out.jsonl.zst"]);
    let packed = fs::read(folder.path().join("out.jsonl.zst")).unwrap();
    assert_eq!(zstd::decode_all(&packed[..]).unwrap(), copied.as_bytes());
    assert!(files_with(folder.path(), ".partial").is_empty());
}

#[test]
fn arrays_tables_and_lines_of_text_keep_their_form() {
    let folder = folder();
    let lines = lines();
    write(folder.path(), "in.json", format!("[{},\n  {}\n]", lines[0], lines[2]));
    done(folder.path(), &["in.json", "-o", "out.json"]);
    assert_eq!(read(folder.path(), "out.json"), format!("[\n{}\n]\n", lines[0]));
    let table = "id;text;n\n1;\"The ferry leaves at seven; in the morning, and returns at noon\";5\n\
                 2;Nobody had told the baker that the oven would be repaired before;6\n\
                 3;\"The ferry leaves at seven; in the morning, and returns at noon\";7\n";
    write(folder.path(), "in.csv", table);
    done(folder.path(), &["in.csv", "-o", "out.csv"]);
    assert_eq!(read(folder.path(), "out.csv"), table[..table.rfind("3;").unwrap()]);
    done(folder.path(), &["in.csv", "-o", "marked.csv", "--mark"]);
    let marked = read(folder.path(), "marked.csv");
    let rows: Vec<&str> = marked.lines().collect();
    assert_eq!(rows[0], "id;text;n;duplicate_of;distance;similarity;group");
    assert!(rows[1].ends_with(";5;;;;1"), "{marked}");
    assert!(rows[2].ends_with(";6;;;;"), "{marked}");
    assert!(rows[3].ends_with(";7;1;0;1;1"), "{marked}");
    let text: String = [0, 1, 2].map(|number| format!("{}\n", TEXTS[number])).concat();
    write(folder.path(), "in.txt", &text);
    done(folder.path(), &["--format", "lines", "in.txt", "-o", "out.txt"]);
    assert_eq!(read(folder.path(), "out.txt"), format!("{}\n{}\n", TEXTS[0], TEXTS[1]));
    write(folder.path(), "other.csv", "id,text\n1,2\n");
    let error = failed(folder.path(), 1, &["in.csv", "other.csv", "-o", "both.csv"]);
    assert!(error.contains("different headers"), "{error}");
    assert!(!folder.path().join("both.csv").exists());
    assert!(files_with(folder.path(), ".partial").is_empty());
}

#[test]
fn a_marked_copy_says_what_each_document_duplicates() {
    let folder = folder();
    let lines = lines();
    write(folder.path(), "in.jsonl", of(&lines, &[0, 1, 2, 3]));
    let files = ["--groups", "groups.jsonl", "--pairs", "pairs.jsonl"];
    done(folder.path(), &[&["in.jsonl", "-o", "out.jsonl", "--mark"][..], &files].concat());
    let pair: Value = serde_json::from_str(&read(folder.path(), "pairs.jsonl")).unwrap();
    assert_eq!([&pair["id_a"], &pair["id_b"]], ["https://a.example/0", "https://a.example/2"]);
    assert!(pair["similarity"].as_f64().unwrap() > 0.8);
    let marked = read(folder.path(), "out.jsonl");
    let rows: Vec<&str> = marked.lines().collect();
    let own = lines[1].strip_suffix('}').unwrap();
    let unique = "\"duplicate_of\":null,\"distance\":null,\"similarity\":null,\"group\":null}";
    assert_eq!(rows[1], format!("{own},{unique}"));
    let second: Value = serde_json::from_str(rows[2]).unwrap();
    assert_eq!(second["duplicate_of"], "https://a.example/0");
    assert!(second["distance"].as_u64().unwrap() <= 3);
    assert!(second["similarity"].as_f64().unwrap() > 0.8);
    assert_eq!(second["group"], 1);
    assert_eq!(serde_json::from_str::<Value>(rows[0]).unwrap()["duplicate_of"], Value::Null);
    assert_eq!(
        read(folder.path(), "groups.jsonl"),
        "{\"group\":1,\"original\":\"https://a.example/0\",\
         \"documents\":[\"https://a.example/0\",\"https://a.example/2\"]}\n"
    );
}

#[test]
fn tables_of_parquet_and_web_archives_are_read_again_as_they_were() {
    let folder = folder();
    let fixtures = fixtures();
    for (name, out) in [
        ("pyarrow-snappy.parquet", "out.parquet"),
        ("duckdb.parquet", "out2.parquet"),
        ("wget.warc.gz", "out.warc.gz"),
        ("warcio-1.1.warc", "out.warc"),
        ("warcio-1.1.warc.zst", "plain.warc"),
    ] {
        let input = fixtures.join(name);
        let twice = [input.to_str().unwrap(), input.to_str().unwrap(), "-o", out];
        let err = nearprint(folder.path(), &twice).stderr;
        let (before, after) = (documents(&input), documents(&folder.path().join(out)));
        assert!(!before.is_empty() && before.starts_with(&after[..1]), "{name}");
        let mut unique: Vec<&String> = before.iter().collect();
        unique.dedup();
        assert!(after.len() <= unique.len(), "{name}: {after:?} {}", String::from_utf8_lossy(&err));
        // Each document of the copy is one of the input.
        assert!(after.iter().all(|document| before.contains(document)), "{name}");
    }
    // Everything of an archive that has no duplicates is copied, byte by byte.
    let input = fixtures.join("warcio-1.1.warc");
    let arguments = [input.to_str().unwrap(), "-o", "same.warc", "--distance", "0"];
    done(folder.path(), &[&arguments[..], &["--min-similarity", "1"]].concat());
    let (before, after) =
        (fs::read(&input).unwrap(), fs::read(folder.path().join("same.warc")).unwrap());
    assert_eq!(before.len(), after.len());
    assert!(before == after);
    let marked = fixtures.join("pyarrow-zstd.parquet");
    done(folder.path(), &[marked.to_str().unwrap(), "-o", "marked.parquet", "--mark"]);
    let (before, after) = (documents(&marked), documents(&folder.path().join("marked.parquet")));
    assert_eq!(before, after);
}

#[test]
fn three_bits_are_near_unless_the_command_line_says_otherwise() {
    let folder = folder();
    let lines = ["0000000000000000 a\n", "0000000000000007 b\n", "0000000000ffff00 c\n"];
    let swapped = lines.map(|line| {
        let (bits, id) = line.trim().split_once(' ').expect("two parts");
        format!("{bits}\t{id}\n")
    });
    write(folder.path(), "in.hex", swapped.concat());
    done(folder.path(), &["in.hex", "-o", "out.hex"]);
    assert_eq!(read(folder.path(), "out.hex"), [&*swapped[0], &*swapped[2]].concat());
    done(folder.path(), &["in.hex", "-o", "out.hex", "--distance", "2"]);
    assert_eq!(read(folder.path(), "out.hex"), swapped.concat());
}

#[test]
fn a_long_record_that_is_no_page_is_copied() {
    let folder = folder();
    let archive = fs::read(fixtures().join("warcio-1.1.warc")).unwrap();
    let length = 9 << 20;
    let head = format!(
        "WARC/1.1\r\nWARC-Type: resource\r\nWARC-Record-ID: <urn:uuid:1>\r\n\
         WARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Target-URI: https://a.example/big.png\r\n\
         Content-Type: image/png\r\nContent-Length: {length}\r\n\r\n"
    );
    let long = [head.as_bytes(), &vec![7; length], b"\r\n\r\n"].concat();
    write(folder.path(), "in.warc", [&archive[..], &long, &archive].concat());
    let arguments = ["in.warc", "-o", "out.warc", "--distance", "0"];
    done(folder.path(), &arguments);
    let copied = fs::read(folder.path().join("out.warc")).unwrap();
    assert!(copied.starts_with(&[&archive[..], &long].concat()));
    assert!(copied.len() < long.len() + 2 * archive.len());
}

#[test]
fn documents_of_different_namespaces_are_not_compared() {
    let folder = folder();
    let line = |id: u32, site: &str| {
        format!("{{\"id\": \"{id}\", \"fingerprint\": \"00000000000000ff\", \"site\": {site}}}\n")
    };
    let all = [(1, "\"x\""), (2, "\"y\""), (3, "\"z\""), (4, "\"x\""), (5, "\"z\"")];
    write(folder.path(), "in.jsonl", all.map(|(id, site)| line(id, site)).concat());
    let of_sites = ["--namespace-field", "site", "--pairs", "pairs.jsonl"];
    done(folder.path(), &[&["in.jsonl", "-o", "out.jsonl"][..], &of_sites].concat());
    let pairs = read(folder.path(), "pairs.jsonl");
    let ids: Vec<[String; 2]> = pairs
        .lines()
        .map(|line| {
            let pair: Value = serde_json::from_str(line).unwrap();
            ["id_a", "id_b"].map(|name| pair[name].as_str().unwrap().to_owned())
        })
        .collect();
    assert_eq!(ids, [["1", "4"], ["3", "5"]]);
    let kept = read(folder.path(), "out.jsonl");
    assert_eq!(kept, all[..3].iter().map(|(id, site)| line(*id, site)).collect::<String>());
    done(folder.path(), &["in.jsonl", "-o", "out.jsonl"]);
    assert_eq!(read(folder.path(), "out.jsonl"), line(1, "\"x\""));
}

#[test]
fn what_a_collection_has_goes_too() {
    let folder = folder();
    let lines = lines();
    write(folder.path(), "old.jsonl", of(&lines, &[2]));
    let import = Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(["import", "old.jsonl", "--data", "data"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(import.status.success());
    write(folder.path(), "in.jsonl", of(&lines, &[0, 1, 2, 3]));
    let against = ["--against", "data"];
    done(folder.path(), &[&["in.jsonl", "-o", "out.jsonl"][..], &against].concat());
    assert_eq!(read(folder.path(), "out.jsonl"), of(&lines, &[1, 3]));
    let marked = ["in.jsonl", "-o", "marked.jsonl", "--mark", "--json"];
    let report: Value =
        serde_json::from_str(&done(folder.path(), &[&marked[..], &against].concat())).unwrap();
    let number = |name: &str| report[name].as_u64().unwrap();
    assert_eq!(["in_collection", "groups", "kept", "dropped"].map(number), [2, 0, 2, 2]);
    let marked = read(folder.path(), "marked.jsonl");
    let first: Value = serde_json::from_str(marked.lines().next().unwrap()).unwrap();
    assert_eq!(first["duplicate_of"], "https://a.example/2");
    assert!(first["group"].is_null() && first["similarity"].as_f64().unwrap() > 0.8);
    let error = failed(folder.path(), 1, &["in.jsonl", "--dry-run", "--against", "missing"]);
    assert!(error.contains("no data directory missing"), "{error}");
    assert!(!folder.path().join("missing").exists());
}

#[test]
fn what_cannot_be_read_is_reported_and_the_rest_is_copied() {
    let folder = folder();
    let lines = lines();
    let broken = format!("{}\n{{\"text\": \n{}\n{{\"text\": \"...\"}}\n", lines[0], lines[2]);
    write(folder.path(), "in.jsonl", broken);
    let drop = ["in.jsonl", "-o", "out.jsonl", "--drop-unreadable"];
    let error = failed(folder.path(), 1, &drop);
    assert!(error.contains("in.jsonl line 2") && error.contains("1 records"), "{error}");
    let expected = format!("{}\n{{\"text\": \"...\"}}\n", lines[0]);
    assert_eq!(read(folder.path(), "out.jsonl"), expected);
    let error = failed(folder.path(), 1, &["in.jsonl", "-o", "no.jsonl", "--on-error", "stop"]);
    assert!(error.contains("stopped") && !folder.path().join("no.jsonl").exists(), "{error}");
    write(folder.path(), "empty.jsonl", "");
    assert!(failed(folder.path(), 3, &["empty.jsonl", "--dry-run"]).contains("nothing was read"));
}

#[test]
fn the_second_pass_knows_which_lines_could_not_be_read() {
    let folder = folder();
    // Several batches, each with lines of every kind at other places.
    let line = |number: u64| match number % 7 {
        3 => format!("{{\"text\": {number}\n"),
        4 => "{\"url\": \"https://a.example/\"}\n".to_owned(),
        5 => "  \n".to_owned(),
        _ => format!("{{\"id\": {number}, \"text\": \"{}\"}}\n", "word ".repeat(number as usize)),
    };
    let lines: Vec<String> = (0..1_500).map(line).collect();
    write(folder.path(), "in.jsonl", lines.concat());
    let arguments = ["in.jsonl", "-o", "out.jsonl", "--mark", "--drop-unreadable"];
    let error = failed(folder.path(), 1, &arguments);
    assert!(error.contains("428 records could not be read"), "{error}");
    let ids = |content: &str| -> Vec<u64> {
        let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64().unwrap();
        content.lines().map(id).collect()
    };
    let whole: Vec<u64> = (0..1_500).filter(|number| !matches!(number % 7, 3..=5)).collect();
    assert_eq!(ids(&read(folder.path(), "out.jsonl")), whole);
}

#[test]
fn a_command_line_that_makes_no_sense_is_refused() {
    let folder = folder();
    write(folder.path(), "in.jsonl", of(&lines(), &[0]));
    write(folder.path(), "in.txt", "one\ntwo\n");
    write(folder.path(), "in.csv", "id,text\n1,one\n");
    for name in ["folder", "texts", "other"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    write(folder.path(), "texts/a.txt", "one text");
    write(folder.path(), "other/in.jsonl", of(&lines(), &[1]));
    for (arguments, part) in [
        (&["-", "-o", "out/"][..], "standard input"),
        (&["folder", "-o", "out"], "no file"),
        (&["in.jsonl", "-o", "folder"], "exists already"),
        (&["in.jsonl", "texts", "-o", "out"], "is one document"),
        (&["in.jsonl", "other/in.jsonl", "-o", "out/"], "two files would have the name in.jsonl"),
        (&["in.jsonl", "in.csv", "-o", "out"], "another format"),
        (&["in.jsonl", "-o", "out.parquet"], "the ending of another format"),
        (&["in.csv", "-o", "out.jsonl.gz"], "the ending of another format"),
        (&["in.jsonl", "-o", "out", "--keep", "max:scor"], "a number in the field `scor`"),
        (&["in.jsonl", "-o", "out", "--keep", "max:text"], "a number in the field `text`"),
        (&["in.jsonl", "-o", "out", "--revisit"], "--revisit is for web archives"),
        (&["in.jsonl", "-o", "out", "--max-memory", "1m"], "100 MiB or more"),
        (&["--format", "lines", "in.txt", "-o", "out", "--mark"], "--mark"),
        (&["in.jsonl", "-o", "out", "--keep", "best"], "max:FIELD"),
        (&["in.jsonl", "-o", "out", "--min-similarity", "2"], "0 to 1"),
        (&["in.jsonl", "-o", "out", "--distance", "13"], "0 to 12"),
        (&["in.jsonl"], "--output"),
    ] {
        let code = if part == "no file" { 3 } else { 2 };
        let error = failed(folder.path(), code, arguments);
        assert!(error.contains(part), "{arguments:?}: {error}");
        assert!(!folder.path().join("out").exists());
    }
}

#[test]
fn the_summary_is_for_people_and_for_scripts() {
    let folder = folder();
    write(folder.path(), "in.jsonl", of(&lines(), &[0, 1, 2, 3]));
    let shown = done(folder.path(), &["in.jsonl", "--dry-run"]);
    assert!(shown.contains("groups                   1  with 2 documents"), "{shown}");
    let report: Value =
        serde_json::from_str(&done(folder.path(), &["in.jsonl", "--dry-run", "--json"])).unwrap();
    let number = |name: &str| report[name].as_u64().unwrap();
    assert_eq!(["documents", "groups", "kept", "dropped"].map(number), [4, 1, 3, 1]);
    assert_eq!(number("dropped_bytes"), TEXTS[2].len() as u64);
    assert_eq!(report["largest"][0]["documents"], 2);
}

/// Killed while it writes, it leaves no copy; the next run makes a whole one.
#[test]
fn a_killed_run_leaves_no_copy() {
    let folder = folder();
    let line = |number: u64| {
        let bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("{{\"id\": \"{number}\", \"fingerprint\": \"{bits:016x}\"}}\n")
    };
    let all: String = (0..400_000).map(line).collect();
    write(folder.path(), "in.jsonl", &all);
    let out = folder.path().join("out.jsonl");
    let partial = || files_with(folder.path(), ".partial").pop();
    let mut dedup = Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(["dedup", "in.jsonl", "-o", "out.jsonl"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while partial().is_none_or(|file| fs::metadata(file).map_or(0, |file| file.len()) == 0) {
        assert!(dedup.try_wait().unwrap().is_none(), "it ended before it was seen to write");
        std::thread::yield_now();
    }
    dedup.kill().unwrap();
    dedup.wait().unwrap();
    assert!(partial().is_some() && !out.exists());
    done(folder.path(), &["in.jsonl", "-o", "out.jsonl"]);
    assert_eq!(partial(), None);
    assert!(read(folder.path(), "out.jsonl") == all, "no two are near");
}

/// The groups by the comparison of all pairs: of each document the first one of its group.
fn by_all_pairs(fingerprints: &[u64], distance: u32) -> Vec<usize> {
    let mut first: Vec<usize> = (0..fingerprints.len()).collect();
    loop {
        let before = first.clone();
        for one in 0..fingerprints.len() {
            for other in 0..one {
                if (fingerprints[one] ^ fingerprints[other]).count_ones() <= distance {
                    let least = first[one].min(first[other]);
                    (first[one], first[other]) = (least, least);
                }
            }
        }
        if first == before {
            return first;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn groups_are_those_of_all_pairs(
        seeds in prop::collection::vec(any::<u64>(), 1..12),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0_u32..64, 0_u32..64), 0..60),
        distance in 0_u32..=12,
    ) {
        let mut fingerprints = seeds;
        for (of, one, other) in edits {
            let near = fingerprints[of.index(fingerprints.len())] ^ (1 << one) ^ (1 << other);
            fingerprints.push(near);
        }
        let folder = folder();
        let line = |(number, bits): (usize, &u64)| {
            format!("{{\"id\": \"{number}\", \"fingerprint\": \"{bits:016x}\"}}\n")
        };
        let all: Vec<String> = fingerprints.iter().enumerate().map(line).collect();
        write(folder.path(), "in.jsonl", all.concat());
        let distance = distance.to_string();
        done(folder.path(), &["in.jsonl", "-o", "out.jsonl", "--distance", &distance,
            "--groups", "groups.jsonl", "--pairs", "pairs.jsonl"]);
        let first = by_all_pairs(&fingerprints, distance.parse().unwrap());
        let stays = (0..all.len()).filter(|&number| first[number] == number);
        prop_assert_eq!(
            read(folder.path(), "out.jsonl"),
            stays.map(|number| all[number].clone()).collect::<String>()
        );
        let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (number, first) in first.iter().enumerate() {
            expected.entry(first.to_string()).or_default().push(number.to_string());
        }
        expected.retain(|_, members| members.len() > 1);
        let groups = read(folder.path(), "groups.jsonl");
        let found: BTreeMap<String, Vec<String>> = groups.lines().map(|group| {
            let group: Value = serde_json::from_str(group).unwrap();
            let documents = group["documents"].as_array().unwrap().iter();
            let documents = documents.map(|d| d.as_str().unwrap().to_owned()).collect();
            (group["original"].as_str().unwrap().to_owned(), documents)
        }).collect();
        prop_assert_eq!(found, expected);
        let pair = |one: usize, other: usize| {
            let apart = (fingerprints[one] ^ fingerprints[other]).count_ones();
            (apart <= distance.parse().unwrap()).then(|| format!(
                "{{\"id_a\":\"{one}\",\"id_b\":\"{other}\",\"distance\":{apart},\"similarity\":null}}\n"
            ))
        };
        let count = fingerprints.len();
        let pairs = (0..count).flat_map(|one| (one + 1..count).filter_map(move |other| pair(one, other)));
        prop_assert_eq!(read(folder.path(), "pairs.jsonl"), pairs.collect::<String>());
    }
}

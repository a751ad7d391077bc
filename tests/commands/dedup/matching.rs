//! Promise: `match` finds the records that are near a query, in every format and whatever the
//! output, and its exit code says whether everything was read. Method: the binary on small files.
//! `crates/files/src/dedup/matching.rs` compares it with nested loops.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::support::{TEXTS, files_with, folder, read, write};

fn run(folder: &Path, arguments: &[&str], input: &str) -> Output {
    write(folder, "stdin", input);
    Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .arg("match")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::from(std::fs::File::open(folder.join("stdin")).expect("it was written")))
        .output()
        .expect("the binary starts")
}

/// The exit code, the standard output and the standard error.
fn end(folder: &Path, arguments: &[&str], input: &str) -> (i32, String, String) {
    let output = run(folder, arguments, input);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let code = output.status.code().expect("no signal");
    (code, text(output.stdout), text(output.stderr))
}

const QUERIES: &str = "00000000000000ff\tq\nffffffff00000000\tfar\n";
const RECORDS: &str =
    "id,fingerprint\nx,00000000000000fe\ny,00000000000000f0\nz,ffffff0000000000\n";
const PAIR: &str = "{\"query\":\"q\",\"record\":\"x\",\"distance\":1,\"similarity\":null}\n";

#[test]
fn pairs_go_to_the_standard_output_or_to_a_file_by_its_name() {
    let folder = folder();
    let folder = folder.path();
    write(folder, "queries.hex", QUERIES);
    write(folder, "records.csv", RECORDS);
    let (code, said, error) = end(folder, &["queries.hex", "records.csv"], "");
    assert_eq!((code, &*said), (0, PAIR), "{error}");
    assert!(error.contains("pairs                    1  with 1 of the records\n"), "{error}");
    let near = ["queries.hex", "records.csv", "--distance", "4", "-o"];
    for (name, expected) in [
        ("pairs.csv", "query,record,distance,similarity\nq,x,1,\nq,y,4,\n"),
        ("pairs.jsonl", ""),
        ("pairs.parquet", ""),
    ] {
        let (code, said, error) = end(folder, &[&near[..], &[name]].concat(), "");
        assert_eq!(code, 0, "{error}");
        assert!(
            said.contains("queries                  2\nrecords                  3\n"),
            "{said}"
        );
        assert!(said.contains(&format!("with 2 of the records, in {name}, ")), "{said}");
        let bytes = std::fs::read(folder.join(name)).expect("it was written");
        match name {
            "pairs.csv" => assert_eq!(bytes, expected.as_bytes()),
            "pairs.jsonl" => assert!(bytes.starts_with(PAIR.as_bytes())),
            _ => assert!(bytes.starts_with(b"PAR1")),
        }
    }
    // Of one kind and the other, compressed, and from the standard input.
    let (code, said, error) = end(folder, &["queries.hex", "-"], "00000000000000fe\tx\n");
    assert_eq!((code, &*said), (0, PAIR), "{error}");
    let (code, said, error) = end(folder, &["-", "records.csv", "--json"], QUERIES);
    assert_eq!((code, &*said), (0, PAIR), "{error}");
    let report = "{\"queries\":2,\"records\":3,\"without_fingerprint\":0,\"failed\":0,\"in_pairs\":1,\"pairs\":1}\n";
    assert!(error.ends_with(report), "{error}");
}

#[test]
fn texts_are_compared_by_their_sketches_too() {
    let folder = folder();
    let folder = folder.path();
    write(folder, "query.txt", TEXTS[0]);
    let line = |text: &str| format!("{{\"text\": \"{text}\"}}\n");
    write(folder, "in.jsonl", TEXTS.map(line).concat());
    let (code, said, error) = end(folder, &["query.txt", "in.jsonl"], "");
    assert_eq!(code, 0, "{error}");
    let expected = ["in.jsonl:1", "in.jsonl:3"].map(|record| {
        format!("{{\"query\":\"query.txt\",\"record\":\"{record}\",\"distance\":0,\"similarity\":1.0}}\n")
    });
    assert_eq!(said, expected.concat());
    let (_, said, _) = end(folder, &["query.txt", "in.jsonl", "--min-similarity", "0"], "");
    assert_eq!(said, expected.concat().replace("1.0}", "null}"));
}

#[test]
fn without_a_pair_it_says_what_would_be_one() {
    let folder = folder();
    let folder = folder.path();
    write(folder, "queries.hex", QUERIES);
    write(folder, "near.hex", "00000000000000f0\ty\n00000000ffff0000\tz\n");
    write(folder, "far.hex", "0123456789abcdef\tx\n");
    write(folder, "query.jsonl", format!("{{\"id\": \"q\", \"text\": \"{}\"}}\n", TEXTS[0]));
    write(folder, "other.jsonl", format!("{{\"id\": \"r\", \"text\": \"{}\"}}\n", TEXTS[1]));
    let said = |arguments: &[&str]| {
        let (code, said, error) = end(folder, arguments, "");
        assert_eq!((code, &*said), (0, ""), "{error}");
        error.lines().last().unwrap_or_default().to_owned()
    };
    let near = said(&["queries.hex", "near.hex"]);
    let expected = "nothing was found: the nearest of the records is at distance 4; --distance 4 finds \
                    it, with --min-similarity 0 if the texts differ more";
    assert_eq!(near, expected);
    let found = end(folder, &["queries.hex", "near.hex", "--distance", "4"], "").1;
    assert_eq!(found.lines().count(), 1, "as it says");
    let far = said(&["queries.hex", "far.hex", "--min-similarity", "0"]);
    assert!(far.ends_with("; no --distance reaches it, 12 being the largest"), "{far}");
    let none = said(&["query.jsonl", "other.jsonl", "--json"]);
    let none: serde_json::Value = serde_json::from_str(&none).unwrap();
    assert!(none["nearest_distance"].as_u64().unwrap() > 3, "{none}");
}

#[test]
fn what_cannot_be_read_is_said_and_the_rest_is_matched() {
    let folder = folder();
    let folder = folder.path();
    write(folder, "queries.hex", QUERIES);
    write(folder, "bad.hex", "bad\n00000000000000fe\tx\n");
    write(folder, "empty.hex", "");
    let (code, said, error) = end(folder, &["queries.hex", "bad.hex"], "");
    assert_eq!((code, &*said), (1, PAIR), "{error}");
    assert!(error.contains("bad.hex line 1 (byte 0)"), "{error}");
    assert!(error.contains("error: 1 records could not be read"), "{error}");
    let stop = ["queries.hex", "bad.hex", "--on-error", "stop", "-o", "pairs.csv"];
    let (code, said, error) = end(folder, &stop, "");
    assert_eq!((code, &*said), (1, ""), "{error}");
    assert!(error.contains("stopped at a record that cannot be read"), "{error}");
    assert_eq!(files_with(folder, "csv").len(), 0, "there is no file of some of the pairs");
    for arguments in [["queries.hex", "empty.hex"], ["empty.hex", "bad.hex"]] {
        let (code, _, error) = end(folder, &arguments, "");
        assert_eq!(code, 3, "{arguments:?}: {error}");
        assert!(error.contains("error: nothing was read"), "{error}");
    }
    let (code, _, error) = end(folder, &["queries.hex", "missing.parquet"], "");
    assert!(code == 1 && error.contains("missing.parquet"), "{error}");
}

#[test]
fn a_field_that_no_record_has_is_said() {
    let folder = folder();
    let folder = folder.path();
    let line = |text: &str| format!("{{\"doc\": 1, \"text\": \"{text}\"}}\n");
    write(folder, "queries.jsonl", line(TEXTS[0]));
    write(folder, "in.jsonl", TEXTS.map(line).concat());
    for arguments in [
        &["queries.jsonl", "in.jsonl", "--id", "nosuch"][..],
        &["queries.jsonl", "in.jsonl", "--namespace-field", "nosuch"],
    ] {
        let (code, said, error) = end(folder, arguments, "");
        assert_eq!((code, said.lines().count()), (0, 2), "{error}");
        let part = if arguments[2] == "--id" { "no id" } else { "no namespace" };
        assert_eq!(error.matches(&format!("{part}: it has no `nosuch`")).count(), 2, "{error}");
    }
}

#[test]
fn the_exit_code_is_the_one_that_the_help_states() {
    let folder = folder();
    let folder = folder.path();
    write(folder, "queries.hex", QUERIES);
    write(folder, "bad.hex", "bad\n");
    write(folder, "half.hex", "bad\n00000000000000ff\tq\n");
    write(folder, "records.csv", RECORDS);
    for (arguments, expected) in [
        (["queries.hex", "records.csv"], 0),
        (["half.hex", "records.csv"], 1),
        (["bad.hex", "records.csv"], 3),
        (["queries.hex", "bad.hex"], 1),
        (["missing.hex", "records.csv"], 1),
        (["queries.hex", "missing*.hex"], 1),
    ] {
        let (code, _, error) = end(folder, &arguments, "");
        assert_eq!(code, expected, "{arguments:?}: {error}");
        assert_eq!(error.contains("\n  next: "), expected > 0, "{arguments:?}: {error}");
    }
}

/// Begins a command with a pipe as its standard output, which nobody reads, and interrupts it once
/// it writes: what it writes at one time is more than the pipe takes.
fn interrupted_while_it_writes(folder: &Path, arguments: &[&str]) -> Option<i32> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let pipe = command.stdout.take().expect("it is piped");
    poll(|| (rustix::io::ioctl_fionread(&pipe).expect("a pipe") >= 32 << 10).then_some(()));
    let process = Pid::from_child(&command);
    kill_process(process, Signal::TERM).expect("it runs");
    let status = poll(|| command.try_wait().expect("our child"));
    drop(pipe);
    status.code()
}

fn poll<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..3_000 {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("it never came");
}

#[test]
fn one_signal_ends_a_command_whose_output_nobody_reads() {
    let folder = folder();
    let folder = folder.path();
    write(folder, "queries.hex", QUERIES);
    let records = |number: u32| format!("00000000000000fe\t{number:0>90}\n");
    write(folder, "in.hex", (0..30_000).map(records).collect::<String>());
    let texts = |number: u32| format!("{number:016x}\t{number:0>90}\n");
    write(folder, "all.hex", (0..30_000).map(texts).collect::<String>());
    for arguments in [
        &["match", "queries.hex", "in.hex"][..],
        &["dedup", "all.hex", "-o", "-", "--distance", "0"],
    ] {
        assert_eq!(interrupted_while_it_writes(folder, arguments), Some(130), "{arguments:?}");
    }
}

#[test]
fn arguments_that_make_no_sense_are_refused_before_anything_is_read() {
    let folder = folder();
    let folder = folder.path();
    write(folder, "queries.hex", QUERIES);
    write(folder, "in.hex", "00000000000000fe\tx\n");
    for (arguments, part) in [
        (&["-", "-"][..], "read only once"),
        (&["queries.hex"], "<IN>"),
        (&["queries.hex", "in.hex", "-o", "in.hex"], "in.hex"),
        (&["queries.hex", "in.hex", "-o", "queries.hex"], "queries.hex"),
        (&["queries.hex", "in.hex", "--distance", "13"], "0 to 12"),
        (&["queries.hex", "in.hex", "--min-similarity", "1.5"], "0 to 1"),
        (&["queries.hex", "in.hex", "--max-memory", "1m"], "100 MiB or more"),
        (&["queries.hex", "in.hex", "--threads", "0"], "1..=1024"),
    ] {
        let (code, said, error) = end(folder, arguments, "");
        assert_eq!((code, &*said), (2, ""), "{arguments:?}: {error}");
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
    assert_eq!(read(folder, "in.hex"), "00000000000000fe\tx\n");
}

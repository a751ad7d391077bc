//! Promise: an import that was killed or interrupted continues where it was when the same command
//! runs again, and does not continue if its files or the collection have changed. Method: the
//! binary on files that it is killed in the middle of, and on states that belong to something else.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests lay out their own files, and fail by panicking"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Enough that it is interrupted before its end.
const DOCUMENTS: u64 = 60_000;
/// Documents that are sent together.
const BATCH: u64 = 256;

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearprint"));
    command.args(arguments).current_dir(folder).env("XDG_STATE_HOME", folder.join("states"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> (Output, String) {
    let output = command(folder, arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

/// Lines of hex without ids, in two files.
fn lay_out(folder: &Path) {
    let line = |number: u64| format!("{:016x}\n", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let lines: Vec<String> = (0..DOCUMENTS).map(line).collect();
    let (one, other) = lines.split_at(1_000);
    fs::write(folder.join("a.hex"), one.concat()).unwrap();
    fs::write(folder.join("b.hex"), other.concat()).unwrap();
}

const IMPORT: [&str; 5] = ["import", "a.hex", "b.hex", "--data", "data"];

/// The documents that the state says are stored; 0 without one.
fn saved(folder: &Path) -> u64 {
    let mut states = fs::read_dir(folder.join("states/nearprint")).into_iter().flatten().flatten();
    let state = states.find_map(|state| fs::read(state.path()).ok());
    let state: Option<Value> = state.and_then(|state| serde_json::from_slice(&state).ok());
    state.map_or(0, |state| state["documents"].as_u64().unwrap())
}

/// Starts an import, and ends it with a signal after the first file.
fn end_early(folder: &Path, signal: Signal) -> String {
    let mut import = command(folder, &IMPORT).spawn().unwrap();
    while saved(folder) < 2_000 {
        assert!(import.try_wait().unwrap().is_none(), "it ended before it was interrupted");
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&import), signal).unwrap();
    let output = import.wait_with_output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

/// How many documents the directory has.
fn stored(folder: &Path) -> u64 {
    let export = ["export", "--data", "data", "-o", "-"];
    let (output, said) = run(folder, &export);
    assert!(output.status.success(), "{said}");
    output.stdout.split(|&byte| byte == b'\n').count() as u64 - 1
}

/// The number in the row of a summary.
fn row(output: &Output, name: &str) -> u64 {
    let summary = str::from_utf8(&output.stdout).unwrap();
    let row = summary.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    row.trim().replace(',', "").parse().unwrap()
}

#[test]
fn a_killed_import_continues_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    lay_out(folder);
    end_early(folder, Signal::KILL);
    let before = saved(folder);
    assert!((2_000..DOCUMENTS).contains(&before));

    let (output, said) = run(folder, &IMPORT);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("continuing after {before} documents")), "{said}");
    assert_eq!(row(&output, "documents read"), DOCUMENTS - before);
    // A batch that was stored, and not saved as such, is sent twice.
    let stored = stored(folder);
    assert!((DOCUMENTS..=DOCUMENTS + BATCH).contains(&stored), "{stored}");
    assert_eq!(saved(folder), 0, "the state is gone");
}

#[test]
fn an_interrupted_import_says_how_to_continue_and_stores_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    lay_out(folder);
    let said = end_early(folder, Signal::INT);
    assert!(said.contains("run the same command again: it continues there"), "{said}");
    let (output, said) = run(folder, &IMPORT);
    assert!(output.status.success(), "{said}");
    assert_eq!(stored(folder), DOCUMENTS);
}

#[test]
fn everything_is_read_again_if_a_file_or_the_collection_has_changed_or_on_demand() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    lay_out(folder);
    end_early(folder, Signal::INT);
    let states = folder.join("states");
    let state = fs::read_dir(states.join("nearprint")).unwrap().next().unwrap().unwrap().path();
    let kept = fs::read(&state).unwrap();

    let (output, said) = run(folder, &[&IMPORT[..], &["--restart"]].concat());
    assert_eq!(row(&output, "documents read"), DOCUMENTS, "{said}");

    fs::write(&state, &kept).unwrap();
    fs::rename(folder.join("data"), folder.join("old")).unwrap();
    let (output, said) = run(folder, &IMPORT);
    assert!(said.contains("the data directory has lost changes"), "{said}");
    assert_eq!(row(&output, "documents read"), DOCUMENTS, "{said}");

    fs::write(&state, &kept).unwrap();
    fs::write(folder.join("a.hex"), "00000000000000ff\n").unwrap();
    let (output, said) = run(folder, &IMPORT);
    assert!(said.contains("files have changed since"), "{said}");
    assert_eq!(row(&output, "documents read"), DOCUMENTS - 999, "{said}");
}

#[test]
fn a_state_of_something_else_is_refused_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("a.hex"), "00000000000000ff\n").unwrap();
    let import = ["import", "a.hex", "--data", "data", "--state", "state"];
    for (content, why) in [
        (&b"id,text\n"[..], "it is not the state of an import"),
        (
            br#"{"import":"0","inputs":"0","upto":{"path":0,"records":1},"documents":1,"sequence":1}"#,
            "with other files or options",
        ),
    ] {
        fs::write(folder.join("state"), content).unwrap();
        let (output, said) = run(folder, &import);
        assert_eq!(output.status.code(), Some(1));
        assert!(said.contains(why) && said.contains("\n  next: "), "{said}");
        assert_eq!(fs::read(folder.join("state")).unwrap(), content);
    }
    fs::remove_file(folder.join("state")).unwrap();
    let (output, said) = run(folder, &import);
    assert!(output.status.success(), "{said}");
    assert!(!folder.join("state").exists());
}

//! Runs the command in folders of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nearprint_files::{Documents, ReadOptions};

pub(crate) fn nearprint(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .arg("dedup")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts")
}

/// Runs a command that must succeed; its standard output.
pub(crate) fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = nearprint(folder, arguments);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {err}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Runs a command that must fail with this code; its standard error.
pub(crate) fn failed(folder: &Path, code: i32, arguments: &[&str]) -> String {
    let output = nearprint(folder, arguments);
    let err = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
    err
}

pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("the disk has space")
}

pub(crate) fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    fs::write(folder.join(name), content).expect("the disk has space");
}

/// The paths in a folder that end in this way.
pub(crate) fn files_with(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("it exists").flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.display().to_string().ends_with(end))
        .collect()
}

pub(crate) fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).expect("it was written")
}

/// The first and the third differ in case and punctuation alone.
pub(crate) const TEXTS: [&str; 4] = [
    "The ferry leaves at seven in the morning, and returns at noon when the tide allows it to.",
    "Nobody had told the baker that the oven of the old mill would be repaired before the winter.",
    "The FERRY leaves at seven in the morning, and returns at noon - when the tide allows it to!",
    "A short list of birds: heron, grebe, coot, teal, and the bittern that nobody has ever seen.",
];

/// Lines of JSON with their own spaces and fields.
pub(crate) fn lines() -> Vec<String> {
    let line = |(number, text): (usize, &&str)| {
        format!(
            "{{ \"url\":\"https://a.example/{number}\",\"n\": {number}, \"text\" : \"{text}\"}}"
        )
    };
    TEXTS.iter().enumerate().map(line).collect()
}

pub(crate) fn of(lines: &[String], numbers: &[usize]) -> String {
    let chosen: Vec<&str> = numbers.iter().map(|&number| &*lines[number]).collect();
    format!("{}\n", chosen.join("\n"))
}

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bulk")
}

/// Names and contents of the documents of a file.
pub(crate) fn documents(path: &Path) -> Vec<String> {
    let all = Documents::new(vec![path.to_owned()], ReadOptions::default());
    all.map(|entry| entry.map(|entry| format!("{:?} {:?}", entry.id, entry.content)).unwrap())
        .collect()
}

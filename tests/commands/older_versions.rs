//! Promise: a data directory that an older version made is read, or refused in one sentence that
//! says so and names the way out; no command calls it damaged, and none changes it. Method:
//! directories of each form that was ever written, kept under `tests/fixtures`, and the same with
//! the headers of earlier versions; every command that opens a directory is run on them.

#![expect(clippy::disallowed_methods, reason = "a test lays out its own files")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The offsets in the header that all files of all versions have.
const VERSION_AT: usize = 8;
const RECIPE_AT: usize = 32;
/// The lengths of the headers, which end in a CRC32C: of a sealed file, a journal file and a pack.
const HEADERS: [(&str, usize); 3] = [("journal-", 68), ("records-", 84), ("", 52)];

/// The commands that open a data directory, which is their last argument.
const COMMANDS: [&[&str]; 10] = [
    &["serve", "--listen", "127.0.0.1:0", "--data"],
    &["repair", "--yes", "--data"],
    &["reindex", "--distance", "6", "--data"],
    &["inspect", "journal", "--data"],
    &["inspect", "snapshot", "--data"],
    &["snapshot", "list", "--data"],
    &["snapshot", "verify", "--data"],
    &["snapshot", "export", "exported", "--data"],
    &["export", "--output", "-", "--data"],
    &["cluster", "leave", "--data"],
];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Copies of the directories of every form.
fn directories() -> Vec<(String, tempfile::TempDir)> {
    let kept =
        fs::read_dir(fixtures()).expect("the fixtures").map(|entry| entry.expect("one").path());
    let kept = kept.filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        name.starts_with("directory-").then_some((name, path))
    });
    let copies = kept.map(|(name, path)| {
        let copy = tempfile::tempdir().expect("the disk has space");
        for (file, bytes) in files(&path) {
            fs::create_dir_all(copy.path().join("data")).expect("the disk has space");
            fs::write(copy.path().join("data").join(file), bytes).expect("the disk has space");
        }
        (name, copy)
    });
    let copies: Vec<_> = copies.collect();
    assert!(copies.len() >= 2, "the first form and the newest");
    copies
}

/// The names and bytes of the files in a folder, by name.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let paths = fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("one").path());
    let mut files: Vec<_> = paths
        .map(|path| {
            let name = path.file_name().expect("it has one").to_str().expect("ASCII").to_owned();
            (name, fs::read(&path).expect("it is a file"))
        })
        .collect();
    files.sort();
    files
}

/// Gives the headers of all files another version and recipe.
fn relabel(data: &Path, version: u8, recipe: &str) {
    for (name, mut bytes) in files(data) {
        let length = HEADERS.iter().find(|(prefix, _)| name.starts_with(prefix)).expect("one").1;
        bytes[VERSION_AT] = version;
        let mut id = [0; 16];
        id[..recipe.len()].copy_from_slice(recipe.as_bytes());
        bytes[RECIPE_AT..RECIPE_AT + id.len()].copy_from_slice(&id);
        let crc = crc32c(&bytes[..length - 4]);
        bytes[length - 4..length].copy_from_slice(&crc.to_le_bytes());
        fs::write(data.join(name), bytes).expect("the disk has space");
    }
}

fn crc32c(bytes: &[u8]) -> u32 {
    let shift = |crc: u32| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    let step = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| shift(crc));
    !bytes.iter().fold(u32::MAX, step)
}

/// Runs a command on `data` in the folder that it is in.
fn run(words: &[&str], folder: &Path) -> (Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearprint"));
    command.args(words).arg("data").current_dir(folder).stdin(Stdio::null());
    let output = command.output().expect("the binary runs");
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let said = format!("{out}{err}");
    (output, said)
}

/// Each command refuses the directory with these words, and leaves it as it is.
fn all_refuse(folder: &Path, words: &[&str]) {
    let before = files(&folder.join("data"));
    for command in COMMANDS {
        let (output, said) = run(command, folder);
        assert!(!output.status.success(), "{command:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{command:?}: {word} is not in\n{said}");
        }
        for word in ["damaged", "anew", "restore an export"] {
            assert!(!said.contains(word), "{command:?}: {word} is in\n{said}");
        }
        assert!(files(&folder.join("data")) == before, "{command:?} has changed the directory");
        assert!(!folder.join("exported").exists(), "{command:?}");
    }
}

#[test]
fn every_command_refuses_a_directory_of_the_first_version_in_one_sentence() {
    for (_, copy) in directories() {
        relabel(&copy.path().join("data"), 1, "np1");
        let said = "it was made by an older version of nearprint (recipe np1, format version 1;";
        all_refuse(copy.path(), &[said, "use the version that made it"]);
    }
}

#[test]
fn every_command_refuses_a_directory_of_a_newer_version_in_one_sentence() {
    let (_, copy) = directories().remove(0);
    relabel(&copy.path().join("data"), 9, "np9");
    let said = "it was made by a newer version of nearprint (recipe np9, format version 9;";
    all_refuse(copy.path(), &[said, "use the version that made it"]);
}

#[test]
fn every_command_refuses_a_directory_of_a_recipe_that_only_an_older_version_has() {
    for (_, copy) in directories() {
        relabel(&copy.path().join("data"), 2, "np1");
        let said = "it was made by an older version of nearprint (recipe np1, which";
        all_refuse(copy.path(), &[said, "use the version that made it"]);
    }
}

#[test]
fn a_directory_of_each_form_is_whole_and_needs_no_repair() {
    for (form, copy) in directories() {
        let before = files(&copy.path().join("data"));
        for command in [&["snapshot", "verify", "--data"], &["repair", "--yes", "--data"][..]] {
            let (output, said) = run(command, copy.path());
            assert!(output.status.success(), "{form}: {command:?}: {said}");
            assert!(!said.contains("damaged"), "{form}: {command:?}: {said}");
        }
        assert!(files(&copy.path().join("data")) == before, "{form}: a repair has changed it");
        let (output, said) =
            run(&["export", "--output", "-", "--all-namespaces", "--data"], copy.path());
        assert!(output.status.success(), "{form}: {said}");
        assert_eq!(said.matches("http://example.org/").count(), 37, "{form}: {said}");
    }
}

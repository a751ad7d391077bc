//! Promise: the commands for emergencies do what they promise: they list, verify, export and
//! restore a data directory, print what a repair would lose before it does anything, and lose no
//! more. Method: a small directory with packs, journal files and snapshots, damaged in each place,
//! and the binary run as a person runs it; what is stored afterwards is compared.

#[path = "../../crates/engine/tests/common/options.rs"]
mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use nearprint_engine::directory_file::DirectoryFile;
use nearprint_engine::document::{Document, DocumentId};
use nearprint_engine::{Admission, Engine, Options};
use nearprint_fingerprint::Fingerprint;
use nearprint_storage::export::write_export;
use nearprint_storage::{Disk, DiskFile, ExportFile, RealDisk};

const ROUNDS: u64 = 40;
/// Replaced in each round.
const REPLACED: u64 = 30;
/// New ones in each round.
const NEW: u64 = 10;
const DOCUMENTS: u64 = REPLACED + ROUNDS * NEW;
/// Fewer bytes than the records of a round: each has an id of 500 bytes.
const ROUND_BYTES_MIN: u64 = (REPLACED + NEW) * 500;
/// How often the directory is filled until the newest file has a round.
const FILLS_MAX: u32 = 20;
/// A bound for a test that hangs, 50 ms each.
const LOOKS_MAX: u32 = 2_400;

fn options(data: &Path) -> Options {
    Options { journal_file_bytes: 65_536, ..common::options(data) }
}

fn id(number: u64) -> DocumentId {
    DocumentId::new(format!("{number:0500}")).expect("short enough")
}

fn document(number: u64, round: u64) -> Document {
    let bits = (number << 32 | round).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Document { id: Some(id(number)), ..Document::bare(Fingerprint::new(bits)) }
}

/// A closed directory with packs, journal files after them, and two snapshots. The newest file has
/// a round of records: a directory whose last file became full at the end, or was begun there by a
/// snapshot, is filled again.
async fn filled(data: &Path) {
    for _ in 0..FILLS_MAX {
        fill(data).await;
        let newest = names(data, "journal-").pop().expect("one");
        if fs::metadata(data.join(newest)).expect("it is there").len() >= ROUND_BYTES_MIN {
            return;
        }
        fs::remove_dir_all(data).expect("removed");
    }
    panic!("the newest file had no round of records in {FILLS_MAX} directories");
}

async fn fill(data: &Path) {
    let engine = Engine::open(options(data)).expect("a new directory");
    let mut looks = 0;
    for round in 0..ROUNDS {
        let new = REPLACED + round * NEW..REPLACED + (round + 1) * NEW;
        let mut pending = Vec::new();
        for number in (0..REPLACED).chain(new) {
            let document = document(number, round);
            pending.push(engine.begin_insert(document, Admission::Wait).await.expect("taken"));
        }
        for pending in pending {
            pending.wait().await.expect("stored");
        }
        while round == ROUNDS / 2 && names(data, "records-").is_empty() {
            engine.snapshot().await.expect("taken");
            insert(&engine, document(0, round)).await;
            engine.snapshot().await.expect("taken");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            looks += 1;
            assert!(looks < LOOKS_MAX, "nothing is packed");
        }
    }
    engine.close();
}

async fn insert(engine: &Engine, document: Document) {
    let pending = engine.begin_insert(document, Admission::Wait).await.expect("taken");
    pending.wait().await.expect("stored");
}

/// How many of the documents are stored; each must read as it was stored, and can be replaced.
async fn stored(data: &Path) -> u64 {
    let engine = Engine::open(options(data)).expect("it opens");
    let mut there = 0;
    for number in 0..DOCUMENTS {
        let stored = engine.document(None, &id(number)).await.expect("readable");
        there += u64::from(stored.is_some());
        if let Some(stored) = stored.filter(|_| number >= REPLACED) {
            let expected = document(number, (number - REPLACED) / NEW);
            assert_eq!(stored.document, expected);
        }
    }
    insert(&engine, document(0, 9_999)).await;
    engine.close();
    there
}

fn names(data: &Path, prefix: &str) -> Vec<String> {
    let mut names = RealDisk::open(data).and_then(|disk| disk.list()).expect("listed");
    names.retain(|name| name.starts_with(prefix));
    names
}

fn copy(data: &Path, to: &str) -> PathBuf {
    let copy = data.with_file_name(to);
    fs::create_dir(&copy).expect("it is new");
    for name in names(data, "") {
        fs::copy(data.join(&name), copy.join(&name)).expect("copied");
    }
    copy
}

#[expect(clippy::disallowed_methods, reason = "tests damage their own files")]
fn edit(file: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).expect("it is there");
    edit(&mut bytes);
    fs::write(file, bytes).expect("written");
}

fn nearprint(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearprint"));
    let command = command.args(arguments).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code().expect("no signal"), text(stdout), text(stderr))
}

fn on(data: &Path, arguments: &[&str]) -> (i32, String, String) {
    nearprint(&[arguments, &["--data", data.to_str().expect("UTF-8")]].concat())
}

/// The number after `lost: at most`; 0 without.
fn lost(said: &str) -> u64 {
    let Some((_, rest)) = said.split_once("lost: at most ") else { return 0 };
    rest.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// Damage is found, reported, and repaired on request; no more is lost than was reported.
async fn repaired(data: &Path) -> (u64, u64) {
    let before = names(data, "");
    let (code, said, error) = on(data, &["repair"]);
    assert_eq!(code, 1, "{said}{error}");
    assert!(error.contains("nothing was changed") && error.contains("--yes"), "{error}");
    assert_eq!(names(data, ""), before);
    let (code, again, error) = on(data, &["repair", "--yes"]);
    assert_eq!(code, 0, "{again}{error}");
    assert_eq!(lost(&said), lost(&again));
    assert!(names(data, "").iter().any(|name| name.ends_with(".damaged")));
    let (code, said, error) = on(data, &["repair"]);
    assert!(code == 0 && said.contains("nothing to repair"), "{said}{error}");
    assert_eq!(on(data, &["snapshot", "verify"]).0, 0);
    (lost(&again), DOCUMENTS - stored(data).await)
}

#[tokio::test]
async fn what_is_whole_is_listed_verified_exported_and_restored() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let data = folder.path().join("data");
    filled(&data).await;

    let (code, said, error) = on(&data, &["snapshot", "list"]);
    assert_eq!(code, 0, "{error}");
    assert_eq!(said.lines().filter(|line| line.contains(".manifest")).count(), 2, "{said}");
    assert!(said.contains(&DOCUMENTS.to_string()), "{said}");
    let (code, said, error) = on(&data, &["snapshot", "verify"]);
    assert_eq!(code, 0, "{error}");
    let files = names(&data, "records-").len() + names(&data, "journal-").len();
    assert_eq!(said.lines().filter(|line| line.ends_with(": whole")).count(), 2 + files, "{said}");
    let (code, said, error) = on(&data, &["inspect", "journal"]);
    assert_eq!((code, said.lines().count() >= files), (0, true), "{said}{error}");
    let (code, said, error) = on(&data, &["inspect", "snapshot"]);
    assert_eq!((code, said.contains(".seg")), (0, true), "{said}{error}");
    assert!(on(&data, &["repair"]).1.contains("nothing to repair"));
    listed_as_json(&data, files);

    let export = folder.path().join("backup.np");
    let export = export.to_str().expect("UTF-8");
    let (code, said, error) = on(&data, &["snapshot", "export", export]);
    assert_eq!(code, 0, "{said}{error}");
    let (code, _, error) = on(&data, &["snapshot", "export", export]);
    assert_eq!((code, error.contains("exists already")), (1, true), "{error}");
    assert_eq!(nearprint(&["snapshot", "verify", "--export", export]).0, 0);

    let (code, _, error) = on(&data, &["snapshot", "restore", export]);
    assert_eq!((code, error.contains("not empty")), (1, true), "{error}");
    let restored = folder.path().join("restored");
    let (code, _, error) = on(&restored, &["snapshot", "restore", export]);
    assert_eq!(code, 0, "{error}");
    assert_eq!(stored(&restored).await, DOCUMENTS);

    edit(Path::new(export), |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    });
    let (code, _, error) = nearprint(&["snapshot", "verify", "--export", export]);
    assert_eq!((code, error.contains("not whole")), (1, true), "{error}");
    let broken = folder.path().join("broken");
    assert_eq!(on(&broken, &["snapshot", "restore", export]).0, 1);
    assert_eq!(names(&broken, ""), Vec::<String>::new(), "nothing is half restored");
}

#[tokio::test]
async fn damage_in_any_file_is_repaired_at_the_price_that_was_told() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let base = folder.path().join("data");
    filled(&base).await;
    let packs = names(&base, "records-");
    let journals = names(&base, "journal-");
    let newest = journals.last().expect("one");
    assert!(journals.len() > 2 && !packs.is_empty(), "{packs:?} {journals:?}");

    let middle = |bytes: &mut Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    };
    for name in [&packs[0], &journals[0], &journals[1], newest] {
        let data = copy(&base, &format!("middle-of-{name}"));
        edit(&data.join(name), middle);
        let (code, said, error) = on(&data, &["inspect", "journal"]);
        assert!(code == 1 && said.contains(name) && error.contains("repair"), "{said}{error}");
        let (lost, missing) = repaired(&data).await;
        assert!(lost == 1 && missing <= 1, "{name}: {lost} {missing}");
        assert!(data.join(format!("{name}.damaged")).exists());
    }

    // The last record; the seal after it shows that it was there.
    let data = copy(&base, "last-record");
    edit(&data.join(newest), |bytes| {
        let in_last = bytes.len() - 300;
        bytes[in_last] ^= 1;
    });
    assert_eq!(repaired(&data).await, (1, 1));

    // Cut between two records or within one: the snapshot shows what was there.
    let data = copy(&base, "cut");
    edit(&data.join(newest), |bytes| bytes.truncate(bytes.len() / 2));
    let (lost, missing) = repaired(&data).await;
    assert!(lost > 1 && missing > 1 && missing <= lost, "{lost} {missing}");

    for name in [&packs[0], &journals[0], newest] {
        let data = copy(&base, &format!("without-{name}"));
        RealDisk::open(&data).and_then(|disk| disk.remove(name)).expect("removed");
        // A gap has no file that could be put aside; the snapshots are.
        let (lost, missing) = repaired(&data).await;
        assert!(lost > 1 && missing <= lost, "{name}: {lost} {missing}");
    }

    for header in [&packs[0], &journals[0]] {
        let data = copy(&base, &format!("header-of-{header}"));
        edit(&data.join(header), |bytes| bytes[20] ^= 1);
        let (_, missing) = repaired(&data).await;
        assert_eq!(missing, 0, "{header}: its records are whole");
    }
}

/// An export of a directory as it is, made without looking at it.
#[expect(clippy::disallowed_methods, reason = "an export is no data directory")]
fn careless_export(data: &Path, to: &Path) {
    let disk = RealDisk::open(data).expect("it is there");
    let directory = DirectoryFile::read(&disk).expect("readable").expect("there");
    let files = names(data, "").into_iter().filter(|name| name != "directory");
    let files = files.chain(["directory".to_owned()]).map(|name| {
        let file: Arc<dyn DiskFile> = Arc::from(disk.open(&name).expect("it is there"));
        let bytes = file.len().expect("a length");
        ExportFile { name, file, bytes }
    });
    let mut bytes = Vec::new();
    write_export(&mut bytes, directory.identity, &files.collect::<Vec<_>>()).expect("written");
    fs::write(to, bytes).expect("written");
}

#[tokio::test]
async fn a_missing_record_file_is_named_by_a_start_and_by_every_command() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let base = folder.path().join("data");
    filled(&base).await;
    let (packs, journals) = (names(&base, "records-"), names(&base, "journal-"));
    assert!(packs.len() > 1 && journals.len() > 1, "{packs:?} {journals:?}");
    for name in [&packs[0], &packs[1], &journals[0]] {
        let data = copy(&base, &format!("without-{name}"));
        RealDisk::open(&data).and_then(|disk| disk.remove(name)).expect("removed");
        let first: u64 = name[8..28].parse().expect("a sequence");
        let missing = format!("no file has the records of sequences {first} to ");

        let error = Engine::open(options(&data)).expect_err("it is refused").to_string();
        assert!(error.starts_with(&missing) && error.contains("next: "), "{error}");
        let export = folder.path().join(format!("{name}.np"));
        let export = export.to_str().expect("UTF-8");
        let (code, _, error) = on(&data, &["snapshot", "export", export]);
        assert!(code == 1 && error.contains(&missing), "{error}");
        assert!(!Path::new(export).exists());
        let (code, said, _) = on(&data, &["snapshot", "verify"]);
        assert!(code == 1 && said.contains(&missing), "{said}");

        careless_export(&data, Path::new(export));
        let (code, _, error) = nearprint(&["snapshot", "verify", "--export", export]);
        assert!(code == 1 && error.contains(&missing), "{error}");
        let restored = folder.path().join(format!("restored-{name}"));
        let (code, _, error) = on(&restored, &["snapshot", "restore", export]);
        assert!(code == 1 && error.contains(&missing), "{error}");
        assert_eq!(names(&restored, ""), Vec::<String>::new(), "nothing is half restored");
    }
}

#[tokio::test]
async fn an_export_without_a_part_of_a_snapshot_is_not_made() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let data = folder.path().join("data");
    filled(&data).await;
    let segment = names(&data, "segment-").pop().expect("one");
    RealDisk::open(&data).and_then(|disk| disk.remove(&segment)).expect("removed");
    let export = folder.path().join("backup.np");
    let export = export.to_str().expect("UTF-8");
    let (code, _, error) = on(&data, &["snapshot", "export", export]);
    assert!(code == 1 && error.contains(&segment) && error.contains("repair"), "{error}");
    assert_eq!(repaired_snapshots(&data).await, DOCUMENTS);
    assert_eq!(on(&data, &["snapshot", "export", export]).0, 0);
}

/// Repairs a directory with damaged snapshots only; returns how many documents are stored.
async fn repaired_snapshots(data: &Path) -> u64 {
    let (code, said, error) = on(data, &["repair", "--yes"]);
    assert!(code == 0 && lost(&said) == 0, "{said}{error}");
    stored(data).await
}

#[tokio::test]
async fn links_and_folders_in_place_of_data_files_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let base = folder.path().join("data");
    filled(&base).await;
    let some = |prefix| names(&base, prefix).pop().expect("one");
    let kinds = ["directory", "journal-", "records-", "snapshot-", "segment-"];
    for name in kinds.map(some) {
        let data = copy(&base, &format!("link-{name}"));
        let (file, target) = (data.join(&name), folder.path().join(format!("target-{name}")));
        fs::copy(&file, &target).expect("copied");
        remove(&file);
        std::os::unix::fs::symlink(&target, &file).expect("linked");
        assert_refused(&data, &format!("{name} is a symbolic link"));

        remove(&file);
        fs::create_dir(&file).expect("a folder");
        assert_refused(&data, &format!("{name} is a folder"));
    }
}

#[expect(clippy::disallowed_methods, reason = "tests damage their own files")]
fn remove(file: &Path) {
    fs::remove_file(file).expect("removed");
}

fn assert_refused(data: &Path, what: &str) {
    let error = Engine::open(options(data)).expect_err("it is refused").to_string();
    assert!(error.contains(what) && error.contains("next: "), "{error}");
    let export = data.with_extension("np");
    let (code, _, error) = on(data, &["snapshot", "export", export.to_str().expect("UTF-8")]);
    assert!(code == 1 && error.contains(what), "{error}");
}

#[tokio::test]
async fn a_directory_without_records_is_refused_by_every_command() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let data = folder.path().join("data");
    Engine::open(options(&data)).expect("a new directory").close();
    for name in names(&data, "").iter().filter(|name| *name != "directory") {
        remove(&data.join(name));
    }
    let lost = "no journal file and no pack";
    let error = Engine::open(options(&data)).expect_err("it is refused").to_string();
    assert!(error.contains(lost), "{error}");
    for command in [&["repair"][..], &["snapshot", "verify"], &["snapshot", "export", "f"]] {
        let (code, _, error) = on(&data, command);
        assert!(code == 1 && error.contains(lost), "{command:?}: {error}");
    }
}

#[tokio::test]
async fn a_damaged_snapshot_loses_nothing_and_a_damaged_directory_file_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let base = folder.path().join("data");
    filled(&base).await;
    let middle = |bytes: &mut Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    };
    let newest = |prefix| names(&base, prefix).pop().expect("one");
    for name in [newest("snapshot-"), newest("segment-")] {
        let data = copy(&base, &format!("with-{name}"));
        edit(&data.join(&name), middle);
        assert_eq!(on(&data, &["snapshot", "verify"]).0, 1);
        assert_eq!(repaired(&data).await, (0, 0), "{name}");
    }
    let data = copy(&base, "directory-file");
    edit(&data.join("directory"), middle);
    let (code, _, error) = on(&data, &["repair", "--yes"]);
    assert!(code == 1 && error.contains("directory"), "{error}");
}

#[test]
fn arguments_that_contradict_each_other_are_refused() {
    let both = ["snapshot", "export", "f", "--server", "s", "--data", "d"];
    assert_eq!(nearprint(&both).0, 2);
    let both = ["snapshot", "verify", "--export", "f", "--data", "d"];
    assert_eq!(nearprint(&both).0, 2);
    let (code, _, error) = nearprint(&["snapshot", "list", "--data", "/nowhere/at/all"]);
    assert_eq!((code, error.contains("not a directory")), (1, true), "{error}");
}

/// The lists of a directory with two snapshots and so many files of records, as lines of JSON.
fn listed_as_json(data: &Path, files: usize) {
    let lines = |arguments: &[&str]| -> Vec<serde_json::Value> {
        let (code, said, error) = on(data, &[arguments, &["--json"]].concat());
        assert_eq!(code, 0, "{error}");
        said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    for arguments in [["snapshot", "list"], ["inspect", "snapshot"]] {
        let snapshots = lines(&arguments);
        assert_eq!(snapshots.len(), 2);
        for snapshot in &snapshots {
            assert!(snapshot["files"][0]["bytes"].as_u64() > Some(0), "{snapshot}");
            assert!(snapshot["documents"].as_u64() > Some(0), "{snapshot}");
            assert_eq!(snapshot["damage"], serde_json::Value::Null);
        }
    }
    let journal = lines(&["inspect", "journal"]);
    assert_eq!(journal.len(), files);
    assert!(journal.iter().all(|file| file["damage"].is_null() && file["file"].is_string()));
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "tests lay out their own files")]
async fn the_directory_may_come_from_a_configuration() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let data = folder.path().join("data");
    filled(&data).await;
    let config = folder.path().join("nearprint.toml");
    let text = format!("[data]\ndirectory = {:?}\n", data.display().to_string());
    fs::write(&config, text).expect("written");
    let config = config.to_str().expect("UTF-8");
    for (arguments, expected) in [
        (&["repair"][..], "nothing to repair"),
        (&["inspect", "journal"], "changes kept"),
        (&["snapshot", "verify"], "whole"),
        (&["reindex", "--distance", "4"], "maximum distance  3 -> 4"),
    ] {
        let (code, said, error) = nearprint(&[arguments, &["--config", config]].concat());
        assert_eq!(code, 0, "{arguments:?}: {error}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    // A flag comes before the configuration, as it does for the service.
    let elsewhere = ["repair", "--config", config, "--data", "/nowhere/at/all"];
    assert!(nearprint(&elsewhere).2.contains("/nowhere/at/all"));
    let (code, _, error) = nearprint(&["repair", "--config", "/nowhere.toml"]);
    assert_eq!((code, error.contains("/nowhere.toml")), (1, true), "{error}");
}

#[tokio::test]
async fn a_reindexed_directory_has_the_new_distance_and_every_document() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let data = folder.path().join("data");
    filled(&data).await;
    let distance_max = |data: &Path| {
        let disk = RealDisk::open(data).expect("it is there");
        DirectoryFile::read(&disk).expect("readable").expect("there").distance_max.get()
    };

    let (code, said, error) = on(&data, &["reindex", "--distance", "3"]);
    assert_eq!((code, said.contains("nothing to do")), (0, true), "{said}{error}");
    assert_eq!(on(&data, &["reindex", "--distance", "65"]).0, 2);
    let engine = Engine::open(options(&data)).expect("it opens");
    let (code, _, error) = on(&data, &["reindex", "--distance", "6"]);
    assert_eq!((code, error.contains("in use")), (1, true), "{error}");
    engine.close();
    drop(engine);
    assert_eq!(distance_max(&data), 3);

    let (code, said, error) = on(&data, &["reindex", "--distance", "6"]);
    assert_eq!(code, 0, "{said}{error}");
    assert!(said.contains(&format!("reindexed {DOCUMENTS} documents")), "{said}");
    assert!(said.contains("3 -> 6"), "{said}");
    assert_eq!(distance_max(&data), 6);
    let (code, said, error) = on(&data, &["snapshot", "verify"]);
    assert_eq!((code, said.matches(".manifest: whole").count()), (0, 1), "{said}{error}");

    let refused =
        Engine::open(options(&data)).map(|engine| engine.close()).expect_err("3 is not 6");
    assert!(refused.to_string().contains("nearprint reindex --distance 3"), "{refused}");
    let (code, _, error) = on(&data, &["reindex", "--distance", "3"]);
    assert_eq!(code, 0, "{error}");
    assert_eq!(stored(&data).await, DOCUMENTS);
}

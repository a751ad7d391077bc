//! Promise: every later version reads files of these format versions. Method: compares files
//! stored once in `tests/fixtures/storage` with what is written and read now.

use std::io::Write;

use super::*;
use crate::names::journal_name;
use crate::{BodyLayout, FileKind, SealedReader, SealedWriter};

const JOURNAL: &[u8] = include_bytes!("../../../../tests/fixtures/storage/journal-v2.log");
const SEALED: &[u8] = include_bytes!("../../../../tests/fixtures/storage/sealed-v2");
const PAGES: &[u8] = include_bytes!("../../../../tests/fixtures/storage/sealed-v3");

/// A header, a record of one change, one of three changes after a sync, and a seal.
fn current_journal() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, 1 << 20).unwrap();
    journal.append(b"one change", 1).unwrap();
    journal.sync().unwrap();
    journal.append(b"three changes", 3).unwrap();
    journal.sync().unwrap();
    journal.seal().unwrap();
    disk
}

fn sealed_body() -> Vec<u8> {
    Dice::new(1).bytes(65_540)
}

fn current_sealed_file() -> Vec<u8> {
    let disk = SimulatedDisk::new();
    let shared = Arc::new(disk.clone());
    let mut writer = SealedWriter::create(shared, "now", FileKind(1), identity()).unwrap();
    writer.write_all(&sealed_body()).unwrap();
    writer.finish().unwrap();
    file_bytes(&disk, "now")
}

fn current_sealed_pages() -> Vec<u8> {
    let disk = SimulatedDisk::new();
    let shared = Arc::new(disk.clone());
    let mut writer =
        SealedWriter::create_in(BodyLayout::Pages, shared, "then", (FileKind(1), identity()))
            .unwrap();
    writer.write_all(&sealed_body()[..9_000]).unwrap();
    writer.finish().unwrap();
    file_bytes(&disk, "then")
}

#[test]
fn the_journal_of_version_2_is_written_byte_for_byte() {
    let written = file_bytes(&current_journal(), &journal_name(1));
    assert!(written == JOURNAL, "the format has changed: raise its version");
}

#[test]
fn the_journal_of_version_2_is_read() {
    let disk = SimulatedDisk::new();
    disk.edit(&journal_name(1), |bytes| *bytes = JOURNAL.to_vec());
    let (tail, records) = recover(&disk, 0).unwrap();
    assert_eq!((tail.last, tail.claimed, tail.torn), (4, 4, None));
    let read: Vec<_> = records.iter().map(|r| (r.first, r.count, &r.payload[..])).collect();
    assert_eq!(read, [(1, 1, &b"one change"[..]), (2, 3, b"three changes")]);
}

#[test]
fn the_sealed_file_of_version_2_is_written_and_read() {
    assert!(current_sealed_file() == SEALED, "the format has changed: raise its version");

    let disk = SimulatedDisk::new();
    disk.edit("then", |bytes| *bytes = SEALED.to_vec());
    let mut reader = SealedReader::open(&disk, "then", FileKind(1), &identity()).unwrap();
    assert_eq!(reader.read_rest(65_540).unwrap(), sealed_body());
}

#[test]
fn the_sealed_file_in_pages_of_version_3_is_written_and_read() {
    assert!(current_sealed_pages() == PAGES, "the format has changed: raise its version");

    let disk = SimulatedDisk::new();
    disk.edit("then", |bytes| *bytes = PAGES.to_vec());
    let mut reader = SealedReader::open(&disk, "then", FileKind(1), &identity()).unwrap();
    assert_eq!(reader.read_rest(9_000).unwrap(), sealed_body()[..9_000]);
}

/// For a new format version: `cargo test -p nearprint-storage --lib golden -- --ignored` stores
/// what today's code writes.
#[test]
#[ignore = "stores fixtures"]
#[expect(clippy::disallowed_methods, reason = "fixtures are not a data directory")]
fn the_files_of_today_are_stored() {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/storage");
    let journal = file_bytes(&current_journal(), &journal_name(1));
    std::fs::write(folder.join("journal-v2.log"), journal).unwrap();
    std::fs::write(folder.join("sealed-v2"), current_sealed_file()).unwrap();
    std::fs::write(folder.join("sealed-v3"), current_sealed_pages()).unwrap();
}

//! Promise: no record file is missing, cut or swapped unnoticed, whatever a snapshot contains.
//! Method: removes, cuts and renames each file of small journals, with packs and without, then
//! recovers from the first sequence and from the last; does the same with the files of an export.

use super::*;
use crate::disk::ExportFile;
use crate::export::{check_files, read_export, write_export};
use crate::journal::reclaim::{Sweep, SweepRange};
use crate::names::record_range;
use crate::{Damage, Disk, MissingRecords};

const FILE_BYTES: u64 = 2_048;

/// A journal with several files; its older ones are packs if `packed`.
fn journal(packed: bool) -> SimulatedDisk {
    let (disk, _) = written_journal(60, FILE_BYTES);
    if packed {
        let journal = open(&disk, FILE_BYTES).unwrap();
        let next = record_range(&journal_files(&disk)[4]).unwrap().0;
        let mut range = SweepRange { from: 1, next, pack_bytes: FILE_BYTES };
        let half = &mut |record: crate::RecordRef<'_>,
                         keep: &mut dyn FnMut(crate::RecordRef<'_>)| {
            if record.first.is_multiple_of(2) {
                keep(record);
            }
        };
        while let Sweep::UpTo { next, .. } =
            journal.reclaimer().sweep(range, half, &mut |_| true).unwrap()
        {
            range.from = next;
        }
    }
    disk
}

/// The record files, oldest first, each with the sequences that it stands for.
fn ranges(disk: &SimulatedDisk) -> Vec<(String, u64, u64)> {
    let end = recover(disk, 0).unwrap().0.last + 1;
    let first = |name: &str| record_range(name).map(|(first, _)| first);
    let mut names = disk.list().unwrap();
    names.sort_by_key(|name| first(name));
    let firsts: Vec<u64> = names.iter().map(|name| first(name).unwrap()).collect();
    let nexts = firsts[1..].iter().copied().chain([end]);
    names.into_iter().zip(firsts.iter().copied().zip(nexts)).map(|(n, (f, x))| (n, f, x)).collect()
}

fn missing_of(result: Result<impl Sized, StorageError>) -> MissingRecords {
    match result {
        Err(StorageError::Missing(missing)) => missing,
        Err(error) => panic!("expected missing records, got {error}"),
        Ok(_) => panic!("expected missing records, got none"),
    }
}

fn exported(disk: &SimulatedDisk) -> Vec<ExportFile> {
    let names = disk.list().unwrap().into_iter();
    let file = |name: String| {
        let file: Arc<dyn crate::DiskFile> = Arc::from(disk.open(&name).unwrap());
        let bytes = file.len().unwrap();
        ExportFile { name, file, bytes }
    };
    names.map(file).collect()
}

#[test]
fn a_missing_file_is_named_with_its_sequences_even_if_a_snapshot_has_them() {
    for packed in [false, true] {
        let disk = journal(packed);
        let files = ranges(&disk);
        assert!(files.len() > 4, "{files:?}");
        let last = recover(&disk, 0).unwrap().0.last;
        for pair in files.windows(2) {
            let ((name, first, next), (after, ..)) = (&pair[0], &pair[1]);
            let without = disk.copy();
            without.remove(name).unwrap();
            let expected = MissingRecords {
                first: *first,
                last: Some(next - 1),
                followed_by: Some(after.clone()),
            };
            assert_eq!(missing_of(recover(&without, 0)), expected);
            assert_eq!(missing_of(recover(&without, last)), expected);
            assert_eq!(missing_of(check_files(&exported(&without), &identity())), expected);
        }
    }
}

#[test]
fn a_journal_without_files_is_missing_if_there_is_a_snapshot() {
    let empty = SimulatedDisk::new();
    assert!(recover(&empty, 0).unwrap().0.has_no_files());
    let expected = MissingRecords { first: 1, last: Some(5), followed_by: None };
    assert_eq!(missing_of(recover(&empty, 5)), expected);
    let none = MissingRecords { first: 1, last: None, followed_by: None };
    assert_eq!(missing_of(check_files(&[], &identity())), none);
}

#[test]
fn a_newest_file_that_was_never_finished_does_not_stand_for_the_older_ones() {
    let disk = SimulatedDisk::new();
    disk.create("journal-00000000000000000200.log").unwrap();
    assert_eq!(missing_of(recover(&disk, 0)).last, Some(199));
    // There is no file before the first one.
    let disk = SimulatedDisk::new();
    disk.create("journal-00000000000000000001.log").unwrap();
    assert_eq!(recover(&disk, 0).unwrap().0.last, 0);
}

#[test]
fn a_copy_of_another_file_under_its_name_is_damage() {
    let disk = journal(false);
    let names = journal_files(&disk);
    let other = file_bytes(&disk, &names[2]);
    disk.edit(&names[1], |bytes| bytes.clone_from(&other));
    let error = recover(&disk, 0).unwrap_err();
    assert!(matches!(error, StorageError::Damaged { why: Damage::FileName, .. }), "{error}");
}

#[test]
fn an_export_is_whole_only_with_every_record_file() {
    for packed in [false, true] {
        let disk = journal(packed);
        let files = exported(&disk);
        let read = |files: &[ExportFile]| {
            let mut bytes = Vec::new();
            write_export(&mut bytes, identity(), files).unwrap();
            read_export(&mut &bytes[..], None)
        };
        read(&files).unwrap();
        let newest = journal_files(&disk).pop().unwrap();
        for without in 0..files.len() {
            let mut files = files.clone();
            let removed = files.remove(without);
            // Nothing else knows what the newest file contained.
            if removed.name == newest {
                continue;
            }
            let message = read(&files).unwrap_err().to_string();
            assert!(message.contains("incomplete: no file has"), "{message}");
        }
        assert!(read(&[]).unwrap_err().to_string().contains("from sequence 1 on"));
    }
}

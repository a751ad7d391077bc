//! Promise: what a reader finds does not depend on index files; they only save it the frame
//! headers of whole files. Method: a journal with a damaged frame header, which only a reader of
//! all headers sees; index files with every bit flipped, cut at every byte, and of other contents;
//! a power cut at every operation.

use super::*;
use crate::simulated::Faults;
use crate::{Disk, RecordRef, Records, SweepRange};

/// A file is closed after 15 times these records, in whichever order.
const RECORDS: [usize; 3] = [500, 60, 1_200];
const FILE_BYTES: u64 = 68 + 15 * (1_760 + 3 * 60);

const INDEX: &[u8] = include_bytes!("../../../../tests/fixtures/storage/index-14");

const FIRST: &str = "journal-00000000000000000001.log";
const FIRST_INDEX: &str = "index-journal-00000000000000000001.log";

/// A journal of three files, the last one live, with records of these many bytes, again and again.
fn journal_of(sizes: [usize; 3]) -> (SimulatedDisk, Vec<Remembered>) {
    let (disk, mut dice) = (SimulatedDisk::new(), Dice::new(1));
    let mut journal = open(&disk, FILE_BYTES).unwrap();
    let mut records = Vec::new();
    for bytes in sizes.iter().cycle().take(3 * 40) {
        let payload = dice.bytes(*bytes);
        let first = journal.append(&payload, 1).unwrap();
        journal.sync().unwrap();
        records.push(Remembered { first, count: 1, payload });
    }
    journal.seal().unwrap();
    (disk, records)
}

/// The same, with an index file for each closed file.
fn saved() -> (SimulatedDisk, Vec<Remembered>) {
    let (disk, written) = journal_of(RECORDS);
    open(&disk, FILE_BYTES).unwrap().records().save_indexes().unwrap();
    (disk.kill(), written)
}

/// Opens a directory whose snapshot has all changes: recovery reads the newest file alone.
fn open_after_snapshot(disk: &SimulatedDisk, written: &[Remembered]) -> Journal {
    let (tail, _) = recover(disk, written.len() as u64).unwrap();
    Journal::open(Arc::new(disk.clone()), identity(), tail, FILE_BYTES).unwrap()
}

fn index_files(disk: &SimulatedDisk) -> Vec<String> {
    let mut names = disk.list().unwrap();
    names.retain(|name| name.starts_with("index-"));
    names
}

#[test]
fn with_its_index_file_a_file_is_read_without_all_its_headers() {
    let (disk, written) = saved();
    let mut closed = journal_files(&disk);
    closed.pop();
    let expected: Vec<String> = closed.iter().map(|name| format!("index-{name}")).collect();
    assert_eq!((closed.len(), index_files(&disk)), (2, expected));

    let last_header = |bytes: &[u8]| {
        let frames = bytes.windows(4).enumerate().filter(|(_, found)| *found == b"\x89npf");
        frames.map(|(at, _)| at).nth_back(5).unwrap()
    };
    disk.edit(FIRST, |bytes| {
        let at = last_header(bytes);
        bytes[at + 20] ^= 1;
    });
    let records = open_after_snapshot(&disk, &written).records();
    assert_reads(&records, &written[..20], "one header of the file is damaged");
    disk.remove(FIRST_INDEX).unwrap();
    let error = open_after_snapshot(&disk, &written).records().read(1).unwrap_err();
    assert!(matches!(error, StorageError::Damaged { .. }), "{error}");
}

#[test]
fn the_index_file_of_kind_14_is_written_and_read() {
    let (disk, written) = saved();
    assert!(file_bytes(&disk, FIRST_INDEX) == INDEX, "the format has changed: take another kind");
    let next = index_files(&disk)[1].clone();
    disk.remove(&next).unwrap();
    assert_reads(&open_after_snapshot(&disk, &written).records(), &written, "one index file");
}

#[test]
fn an_index_is_saved_once() {
    let (disk, written) = journal_of(RECORDS);
    let journal = open(&disk, FILE_BYTES).unwrap();
    let assert_saved = |records: &Records| {
        disk.set_faults(Faults::default());
        records.save_indexes().unwrap();
        assert_eq!(disk.operations(), 0);
    };
    journal.records().save_indexes().unwrap();
    assert_saved(&journal.records());
    let journal = open_after_snapshot(&disk, &written);
    assert_reads(&journal.records(), &written, "by its index files");
    assert_saved(&journal.records());
}

#[test]
fn an_index_file_that_is_damaged_or_cut_is_ignored() {
    let (disk, written) = saved();
    let whole = file_bytes(&disk, FIRST_INDEX);
    let assert_reads_with = |bytes: &[u8], what: &str| {
        disk.edit(FIRST_INDEX, |file| bytes.clone_into(file));
        let records = open_after_snapshot(&disk, &written).records();
        assert_reads(&records, &written[..45], what);
    };
    for bit in 0..8 * whole.len() {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_reads_with(&bytes, &format!("bit {bit} is flipped"));
    }
    for length in 0..whole.len() {
        assert_reads_with(&whole[..length], &format!("cut at {length}"));
    }
    // It is replaced by one that counts.
    open_after_snapshot(&disk, &written).records().save_indexes().unwrap();
    assert_ne!(file_bytes(&disk, FIRST_INDEX), whole, "nothing was read of the file yet");
    let journal = open_after_snapshot(&disk, &written);
    assert_reads(&journal.records(), &written, "damaged");
    journal.records().save_indexes().unwrap();
    assert_eq!(file_bytes(&disk, FIRST_INDEX), whole);
}

#[test]
fn an_index_file_of_other_contents_is_ignored() {
    let (disk, written) = saved();
    let (other, _) = journal_of([1_200, 500, 60]);
    assert_eq!(file_bytes(&disk, FIRST).len(), file_bytes(&other, FIRST).len());
    open(&other, FILE_BYTES).unwrap().records().save_indexes().unwrap();
    let of_other = file_bytes(&other, FIRST_INDEX);
    let of_second = file_bytes(&disk, &index_files(&disk)[1]);
    for index in [of_other, of_second] {
        disk.edit(FIRST_INDEX, |file| file.clone_from(&index));
        assert_reads(&open_after_snapshot(&disk, &written).records(), &written, "another index");
    }
}

#[test]
fn after_a_crash_at_any_operation_records_are_read() {
    let (whole, written) = journal_of(RECORDS);
    let expected = index_files(&saved().0);
    let save = |journal: &Journal| journal.records().save_indexes();
    let crashes = crash_at_each_operation(&whole, FILE_BYTES, save, |after, what| {
        let journal = open_after_snapshot(after, &written);
        assert_reads(&journal.records(), &written, what);
        journal.records().save_indexes().unwrap();
        assert_eq!(index_files(after), expected);
    });
    assert!(crashes > 8, "two index files have more than {crashes} operations");
}

#[test]
fn a_full_disk_has_no_index_and_loses_nothing() {
    let (disk, written) = journal_of(RECORDS);
    let journal = open(&disk, FILE_BYTES).unwrap();
    let used: usize = journal_files(&disk).iter().map(|name| file_bytes(&disk, name).len()).sum();
    let capacity_bytes = Some(used as u64 + 100);
    disk.set_faults(Faults { capacity_bytes, ..Faults::default() });
    assert!(journal.records().save_indexes().unwrap_err().is_full());
    assert_reads(&journal.records(), &written, "the disk is full");
    disk.set_faults(Faults::default());
    journal.records().save_indexes().unwrap();
    assert_eq!(index_files(&disk).len(), 2);
}

#[test]
fn a_file_that_cannot_be_read_keeps_no_other_from_its_index_file() {
    let (disk, _) = journal_of(RECORDS);
    let journal = open(&disk, FILE_BYTES).unwrap();
    let second = journal_files(&disk)[1].clone();
    disk.edit("index-journal-00000000000000000007.log", |_| ());
    let unreadable = Some("journal-00000000000000000046.log");
    assert_eq!(Some(&*second), unreadable);
    disk.set_faults(Faults { unreadable, ..Faults::default() });
    journal.records().save_indexes().unwrap_err();
    assert_eq!(index_files(&disk), [FIRST_INDEX]);
}

#[test]
fn index_files_go_with_their_record_files() {
    let (disk, written) = saved();
    disk.edit("index-of-words", |_| ());
    let journal = open(&disk, FILE_BYTES).unwrap();
    let next = written[90].first;
    let range = SweepRange { from: 1, next, pack_bytes: 4 * FILE_BYTES };
    let mut odd = |record: RecordRef<'_>, emit: &mut dyn FnMut(RecordRef<'_>)| {
        if record.first % 2 == 1 {
            emit(record);
        }
    };
    journal.reclaimer().sweep(range, &mut odd, &mut |_| true).unwrap();
    let pinned = journal.records().pin();
    journal.records().save_indexes().unwrap();
    let packs: Vec<String> =
        disk.list().unwrap().into_iter().filter(|name| name.starts_with("records-")).collect();
    assert_eq!(packs.len(), 1);
    assert_eq!(index_files(&disk), ["index-of-words".to_owned(), format!("index-{}", packs[0])]);
    let odd: Vec<Remembered> = written.into_iter().filter(|r| r.first % 2 == 1).collect();
    assert_reads(&pinned, &odd, "pinned");
    let (tail, _) = recover(&disk, 120).unwrap();
    let journal = Journal::open(Arc::new(disk.clone()), identity(), tail, FILE_BYTES).unwrap();
    assert_reads(&journal.records(), &odd, "by the index file of the pack");
}

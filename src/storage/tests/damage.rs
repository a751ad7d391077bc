//! Promise: damage is told from a torn tail, and neither is ever a wrong or a missing answer.
//! Method: every bit of a small journal flipped, every cut of its end, tails of zeros and garbage,
//! files missing, and groups that reached the disk in another order.

use super::*;
use crate::storage::frame::{self, FrameHeader};
use crate::storage::header::{JOURNAL_HEADER_BYTES, journal_name};
use crate::storage::{Damage, Records, Refusal};

/// Where the frames of a file begin, and its end.
fn frame_starts(bytes: &[u8]) -> Vec<usize> {
    let mut starts = vec![JOURNAL_HEADER_BYTES];
    let mut at = JOURNAL_HEADER_BYTES;
    while at < bytes.len() {
        let header = frame::decode_header(&bytes[at..], identity().seed()).unwrap();
        at += header.frame_bytes();
        starts.push(at);
    }
    starts
}

fn damage_of(result: Result<(Tail, Vec<Remembered>), StorageError>) -> (u64, u64, Damage) {
    match result {
        Err(StorageError::Damaged { offset, sequence, why, .. }) => (offset, sequence, why),
        other => panic!("expected damage, got {other:?}"),
    }
}

#[test]
fn no_flipped_bit_is_a_wrong_or_a_missing_record() {
    let (disk, records) = written_journal(40, 4_096);
    assert!(journal_files(&disk).len() > 1);
    let mut refused = 0;
    for name in journal_files(&disk) {
        for bit in 0..file_bytes(&disk, &name).len() * 8 {
            let flip = |bytes: &mut Vec<u8>| bytes[bit / 8] ^= 1 << (bit % 8);
            disk.edit(&name, flip);
            match recover(&disk, 0) {
                // Only a flip in the last seal cuts anything, and that holds no record.
                Ok((_, recovered)) => assert_eq!(recovered, records, "{name}, bit {bit}"),
                Err(_) => refused += 1,
            }
            disk.edit(&name, flip);
        }
    }
    assert!(refused > 8 * 8_000, "the journal was to have 8 KiB: {refused}");
}

#[test]
fn no_read_serves_a_flipped_byte() {
    let (disk, records) = written_journal(40, 4_096);
    let reader: Records = open(&disk, 4_096).unwrap().records();
    for name in journal_files(&disk) {
        for at in 0..file_bytes(&disk, &name).len() {
            let flip = |bytes: &mut Vec<u8>| bytes[at] ^= 1 << (at % 8);
            disk.edit(&name, flip);
            for expected in &records {
                if let Ok(record) = reader.read(expected.first) {
                    assert_eq!(record.payload, expected.payload, "{name}, byte {at}");
                }
            }
            disk.edit(&name, flip);
        }
    }
}

#[test]
fn whole_frames_before_any_cut_of_the_last_three_survive() {
    let (disk, records) = written_journal(12, 1 << 20);
    let name = journal_name(1);
    let bytes = file_bytes(&disk, &name);
    let starts = frame_starts(&bytes);
    for cut in starts[starts.len() - 4]..bytes.len() {
        let disk = disk.copy();
        disk.edit(&name, |bytes| bytes.truncate(cut));
        let whole = starts.iter().rfind(|start| **start <= cut).unwrap();
        let (tail, recovered) = recover(&disk, 0).unwrap();
        assert!(records.starts_with(&recovered), "cut at {cut}");
        assert_eq!(tail.torn.map_or(cut, |torn| torn.offset as usize), *whole);

        // And the journal goes on from there.
        let mut journal = open(&disk, 1 << 20).unwrap();
        let added = append(&mut journal, &mut Dice::new(2), 40);
        journal.sync().unwrap();
        let (_, again) = recover(&disk, 0).unwrap();
        assert_eq!(again.last(), Some(&added), "cut at {cut}");
        assert_eq!(again.len(), recovered.len() + 1, "cut at {cut}");
    }
}

#[test]
fn tails_of_zeros_and_garbage_are_cut() {
    let (disk, records) = written_journal(5, 1 << 20);
    let mut dice = Dice::new(3);
    for length in 1..1_500 {
        let zeros = vec![0; length];
        for tail in [zeros, dice.bytes(length)] {
            let disk = disk.copy();
            disk.edit(&journal_name(1), |bytes| bytes.extend(&tail));
            let (found, recovered) = recover(&disk, 0).unwrap();
            assert_eq!(recovered, records);
            assert_eq!(found.torn.unwrap().bytes, length as u64);
        }
    }
}

/// Two groups of one record each: the first synced or not, the second flushed.
fn two_groups(first_is_synced: bool) -> (SimulatedDisk, usize) {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, 1 << 20).unwrap();
    journal.append(b"first", 1).unwrap();
    if first_is_synced {
        journal.sync().unwrap();
    } else {
        journal.flush().unwrap();
    }
    journal.append(b"second", 1).unwrap();
    journal.flush().unwrap();
    let first_at = frame_starts(&file_bytes(&disk, &journal_name(1)))[0];
    (disk, first_at)
}

#[test]
fn a_lost_record_before_a_whole_one_of_the_same_sync_is_a_torn_tail() {
    let (disk, first_at) = two_groups(false);
    disk.edit(&journal_name(1), |bytes| {
        bytes[first_at..first_at + 30].fill(0);
    });
    let (tail, recovered) = recover(&disk, 0).unwrap();
    assert_eq!((tail.last, recovered.len()), (0, 0));
    assert_eq!(tail.torn.unwrap().offset, first_at as u64);
}

#[test]
fn a_lost_record_that_a_later_one_calls_durable_is_damage() {
    let (disk, first_at) = two_groups(true);
    disk.edit(&journal_name(1), |bytes| {
        bytes[first_at..first_at + 30].fill(0);
    });
    let (offset, sequence, _) = damage_of(recover(&disk, 0));
    assert_eq!((offset, sequence), (first_at as u64, 1));
}

#[test]
fn a_claim_counts_even_when_the_payload_of_its_frame_is_torn() {
    let (disk, first_at) = two_groups(true);
    disk.edit(&journal_name(1), |bytes| {
        bytes[first_at] ^= 1;
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
    });
    assert_eq!(damage_of(recover(&disk, 0)).1, 1);
}

#[test]
fn a_payload_cannot_pass_for_a_claim_of_another_directory() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, 1 << 20).unwrap();
    let mut forged = Vec::new();
    let claim =
        FrameHeader { payload_bytes: 0, count: 1, sequence: 100, chain: 0, durable_upto: 99 };
    let guessed = Identity::new([0; 16], "np1").seed();
    frame::encode(&mut forged, guessed, &claim, b"");
    journal.append(&forged, 1).unwrap();
    journal.flush().unwrap();
    disk.edit(&journal_name(1), |bytes| bytes[JOURNAL_HEADER_BYTES] ^= 1);
    let (tail, _) = recover(&disk, 0).unwrap();
    assert_eq!(tail.last, 0);
}

#[test]
fn a_bad_frame_at_or_before_the_snapshot_is_damage() {
    let (disk, first_at) = two_groups(false);
    disk.edit(&journal_name(1), |bytes| bytes.truncate(first_at + 3));
    assert_eq!(damage_of(recover(&disk, 2)).1, 1);
    disk.edit(&journal_name(1), |bytes| bytes.truncate(first_at));
    assert_eq!(damage_of(recover(&disk, 2)).2, Damage::EndsEarly);
}

#[test]
fn a_missing_file_is_damage() {
    use crate::storage::Disk;
    let (disk, _) = written_journal(60, 2_048);
    let names = journal_files(&disk);
    assert!(names.len() > 3);
    for missing in &names[..names.len() - 1] {
        let disk = disk.copy();
        disk.remove(missing).unwrap();
        assert_eq!(damage_of(recover(&disk, 0)).2, Damage::MissingFile);
    }
    let empty = SimulatedDisk::new();
    assert_eq!(damage_of(recover(&empty, 5)).2, Damage::MissingFile);
}

#[test]
fn a_cut_in_an_older_file_is_damage_even_between_frames() {
    let (disk, _) = written_journal(60, 2_048);
    let name = &journal_files(&disk)[1];
    let starts = frame_starts(&file_bytes(&disk, name));
    for cut in [starts[2], starts[2] + 7, 20, 0] {
        let disk = disk.copy();
        disk.edit(name, |bytes| bytes.truncate(cut));
        damage_of(recover(&disk, 0));
    }
}

#[test]
fn an_old_file_cut_short_is_damage_at_the_first_read() {
    let (disk, records) = written_journal(60, 2_048);
    let name = &journal_files(&disk)[0];
    let starts = frame_starts(&file_bytes(&disk, name));
    let from = records.last().unwrap().first;
    // The last frame of the file is its seal, the one before it a record.
    disk.edit(name, |bytes| bytes.truncate(starts[starts.len() - 3]));
    let (tail, _) = recover(&disk, from).unwrap();
    let options = JournalOptions { file_bytes: 2_048 };
    let journal = Journal::open(Arc::new(disk.clone()), identity(), tail, options).unwrap();
    let second: u64 = journal_files(&disk)[1][8..28].parse().unwrap();
    let error = journal.records().read(second - 1).unwrap_err();
    assert!(matches!(error, StorageError::Damaged { .. }), "{error}");
    assert!(journal.records().read(1).is_ok());
}

#[test]
fn a_rotation_cut_short_loses_only_its_empty_file() {
    let (disk, records) = written_journal(5, 1 << 20);
    let last = records.last().unwrap();
    let next = journal_name(last.first + u64::from(last.count));
    for length in 0..JOURNAL_HEADER_BYTES {
        let disk = disk.copy();
        disk.edit(&next, |bytes| *bytes = vec![0; length]);
        let (tail, recovered) = recover(&disk, 0).unwrap();
        assert_eq!(recovered, records);
        assert_eq!(tail.torn.unwrap().file, next);
        drop(open(&disk, 1 << 20).unwrap());
        assert_eq!(journal_files(&disk), [journal_name(1)]);
    }
}

#[test]
fn a_foreign_file_is_refused_by_name() {
    let (disk, _) = written_journal(3, 1 << 20);
    let refusal = |identity| match scan(&disk, &identity, 0, &mut |_| ()) {
        Err(StorageError::Refused { file, why }) => {
            assert_eq!(file, journal_name(1));
            why
        }
        other => panic!("expected a refusal, got {other:?}"),
    };
    assert_eq!(refusal(Identity::new([0; 16], "np1")), Refusal::Directory);
    let other_recipe = refusal(Identity::new(*b"a data directory", "np2"));
    assert!(matches!(other_recipe, Refusal::Recipe { .. }));

    disk.edit(&journal_name(1), |bytes| {
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..JOURNAL_HEADER_BYTES - 4]);
        bytes[JOURNAL_HEADER_BYTES - 4..JOURNAL_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    });
    let (expected, got) = (1, 2);
    assert_eq!(refusal(identity()), Refusal::Version { expected, got });
}

#[test]
fn an_impossible_length_is_refused_before_anything_is_allocated() {
    let header = FrameHeader { payload_bytes: 0, count: 1, sequence: 1, chain: 0, durable_upto: 0 };
    let mut bytes = Vec::new();
    frame::encode(&mut bytes, identity().seed(), &header, b"payload");
    let covered = bytes.len() - frame::FRAME_CHECKSUM_BYTES - b"payload".len() - 4;
    bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let crc = crc32c::crc32c_append(identity().seed().0 as u32, &bytes[..covered]);
    bytes[covered..covered + 4].copy_from_slice(&crc.to_le_bytes());
    let bad = frame::decode_header(&bytes, identity().seed());
    assert_eq!(bad, Err(frame::BadFrame::HeaderFields));
}

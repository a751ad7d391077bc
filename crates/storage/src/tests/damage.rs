//! Promise: damage is distinguished from a torn tail, and neither ever gives a wrong or missing
//! answer. Method: flips every bit of a small journal, cuts its end at every byte, adds tails of
//! zeros and garbage, removes files, and reorders the writes of a group.
//!
//! `NEARPRINT_TEST_FLIPPED_KIB` sets the size of the journal in one file whose bits are flipped (8;
//! 64 in `make torture`): the work grows with its square.

use super::*;
use crate::frame;
use crate::frame::FrameHeader;
use crate::journal::header::JOURNAL_HEADER_BYTES;
use crate::names::journal_name;
use crate::{BadFrame, Damage, FileRefusal, Records};

/// The size of the journal in one file whose bits are flipped.
const FLIPPED_KIB: usize = 8;
/// Enough groups for a KiB.
const GROUPS_PER_KIB: usize = 4;

#[expect(clippy::disallowed_methods, reason = "tests are set up by their environment")]
fn flipped_kib() -> usize {
    let set = std::env::var("NEARPRINT_TEST_FLIPPED_KIB");
    set.map_or(FLIPPED_KIB, |kib| kib.parse().expect("a number of KiB"))
}

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
    let (disk, records) = written_journal(40, 5_000);
    let names = journal_files(&disk);
    let newest = names.last().map(|name| frame_starts(&file_bytes(&disk, name)));
    assert!(names.len() > 1 && newest.unwrap().len() > 4, "old and new files have records");
    let mut refused = 0;
    for name in journal_files(&disk) {
        for bit in 0..file_bytes(&disk, &name).len() * 8 {
            let flip = |bytes: &mut Vec<u8>| bytes[bit / 8] ^= 1 << (bit % 8);
            disk.edit(&name, flip);
            match recover(&disk, 0) {
                // Only a flip in the last seal cuts anything, and that has no record.
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

/// Flips a share of the bits of a journal in one file, one after the other.
fn flips_of_a_share(disk: &SimulatedDisk, records: &[Remembered], share: usize, of: usize) -> u64 {
    let disk = disk.copy();
    let name = journal_name(1);
    let mut refused = 0;
    for bit in (share..file_bytes(&disk, &name).len() * 8).step_by(of) {
        let flip = |bytes: &mut Vec<u8>| bytes[bit / 8] ^= 1 << (bit % 8);
        disk.edit(&name, flip);
        let (mut position, mut same) = (0, true);
        let scanned = scan(&disk, &identity(), 0, &mut |record| {
            same &= records.get(position).is_some_and(|expected| {
                (expected.first, expected.count, &*expected.payload)
                    == (record.first, record.count, record.payload)
            });
            position += 1;
        });
        match scanned {
            Ok(_) => assert!(same && position == records.len(), "bit {bit}"),
            Err(_) => refused += 1,
        }
        disk.edit(&name, flip);
    }
    refused
}

#[test]
fn every_bit_of_a_file_flipped_is_refused_or_changes_nothing() {
    let kib = flipped_kib();
    let (disk, records) = written_journal(kib * GROUPS_PER_KIB, 1 << 20);
    let bits = file_bytes(&disk, &journal_name(1)).len() as u64 * 8;
    assert!(bits >= kib as u64 * 8_192, "{bits} bits");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let refused: u64 = std::thread::scope(|scope| {
        let (disk, records) = (&disk, &records);
        let shares = (0..cores)
            .map(|share| scope.spawn(move || flips_of_a_share(disk, records, share, cores)));
        let shares: Vec<_> = shares.collect();
        shares.into_iter().map(|share| share.join().unwrap()).sum()
    });
    // Only the last seal may go, and that has no record.
    let seal = frame::FRAME_OVERHEAD_BYTES as u64 * 8;
    assert!(refused >= bits - seal, "{refused} of {bits} refused");
}

#[test]
fn whole_frames_before_any_cut_of_the_last_three_survive() {
    let (disk, mut records) = written_journal(12, 1 << 20);
    let mut journal = open(&disk, 1 << 20).unwrap();
    let mut dice = Dice::new(6);
    for _ in 0..3 {
        records.push(append(&mut journal, &mut dice, 1_000));
        journal.sync().unwrap();
    }
    let name = journal_name(1);
    let bytes = file_bytes(&disk, &name);
    let starts = frame_starts(&bytes);
    let mut trials = 0;
    for cut in starts[starts.len() - 4]..bytes.len() {
        let length = dice.below(200);
        for tail in [Vec::new(), vec![0; length], dice.bytes(length)] {
            let disk = disk.copy();
            disk.edit(&name, |bytes| {
                bytes.truncate(cut);
                bytes.extend(&tail);
            });
            let whole = starts.iter().rfind(|start| **start <= cut).unwrap();
            let (found, recovered) = recover(&disk, 0).unwrap();
            assert!(records.starts_with(&recovered), "cut at {cut}");
            let end = found.torn.map_or(cut + tail.len(), |torn| torn.offset as usize);
            assert_eq!(end, *whole, "cut at {cut}");

            // The journal continues from there.
            let mut journal = open(&disk, 1 << 20).unwrap();
            let added = append(&mut journal, &mut Dice::new(2), 40);
            journal.sync().unwrap();
            let (_, again) = recover(&disk, 0).unwrap();
            assert_eq!(again.last(), Some(&added), "cut at {cut}");
            assert_eq!(again.len(), recovered.len() + 1, "cut at {cut}");
            trials += 1;
        }
    }
    assert!(trials > 9_000, "{trials}");
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
    let guessed = Identity::new([0; 16], "np2").seed();
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
    let short = Damage::Frame(BadFrame::Short);
    assert_eq!(damage_of(recover(&disk, 2)), (first_at as u64, 1, short));
    disk.edit(&journal_name(1), |bytes| bytes.truncate(first_at));
    assert_eq!(damage_of(recover(&disk, 2)).2, Damage::EndsEarly);
}

#[test]
fn a_cut_in_an_older_file_is_damage_even_between_frames() {
    let (disk, _) = written_journal(60, 2_048);
    let name = &journal_files(&disk)[1];
    let starts = frame_starts(&file_bytes(&disk, name));
    let last = recover(&disk, 0).unwrap().0.last;
    for (cut, damage) in [
        (starts[2], Damage::EndsEarly),
        (starts[2] + 7, Damage::EndsEarly),
        (20, Damage::FileHeader),
        (0, Damage::FileHeader),
    ] {
        let disk = disk.copy();
        disk.edit(name, |bytes| bytes.truncate(cut));
        assert_eq!(damage_of(recover(&disk, 0)).2, damage);
        // Both its ends are checked even if a snapshot covers the file.
        assert_eq!(damage_of(recover(&disk, last)).2, damage);
    }
}

#[test]
fn a_file_whose_successor_was_begun_cannot_be_torn() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, 1 << 20).unwrap();
    journal.append(b"synced before the rotation", 1).unwrap();
    journal.sync().unwrap();
    let starts = frame_starts(&file_bytes(&disk, &journal_name(1)));
    disk.edit(&journal_name(1), |bytes| bytes.truncate(starts[1] - 1));
    assert_eq!(recover(&disk, 0).unwrap().0.last, 0);
    disk.edit(&journal_name(2), Vec::clear);
    assert_eq!(damage_of(recover(&disk, 0)).1, 1);
}

/// The same journal with other payloads of the same lengths.
fn fork(file_bytes: u64) -> (SimulatedDisk, SimulatedDisk) {
    let written = |byte| {
        let disk = SimulatedDisk::new();
        let mut journal = open(&disk, file_bytes).unwrap();
        for _ in 0..8 {
            journal.append(&[byte; 100], 1).unwrap();
            journal.sync().unwrap();
        }
        disk
    };
    (written(1), written(2))
}

#[test]
fn frames_and_files_of_a_fork_do_not_continue_the_journal() {
    let (disk, other) = fork(1 << 20);
    let foreign = file_bytes(&other, &journal_name(1));
    let second = frame_starts(&foreign)[1..3].to_vec();
    disk.edit(&journal_name(1), |bytes| {
        bytes[second[0]..second[1]].copy_from_slice(&foreign[second[0]..second[1]]);
    });
    assert_eq!(damage_of(recover(&disk, 0)), (second[0] as u64, 2, Damage::Chain));

    let (disk, other) = fork(300);
    let name = journal_files(&disk)[1].clone();
    let foreign = file_bytes(&other, &name);
    disk.edit(&name, |bytes| *bytes = foreign);
    assert_eq!(damage_of(recover(&disk, 0)).2, Damage::Chain);
}

#[test]
fn a_frame_with_another_sequence_does_not_continue_the_journal() {
    let (disk, _) = two_groups(true);
    let tail = recover(&disk, 0).unwrap().0;
    let header = FrameHeader {
        payload_bytes: 0,
        count: 1,
        sequence: tail.last + 2,
        chain: tail.chain,
        durable_upto: tail.last + 1,
    };
    disk.edit(&journal_name(1), |bytes| {
        frame::encode(bytes, identity().seed(), &header, b"");
    });
    assert_eq!(damage_of(recover(&disk, 0)).2, Damage::Chain);
}

#[test]
fn swapped_frames_are_never_served() {
    let (disk, _) = fork(1 << 20);
    let records = open(&disk, 1 << 20).unwrap().records();
    let frame = frame::FRAME_OVERHEAD_BYTES + 100;
    disk.edit(&journal_name(1), |bytes| {
        bytes[JOURNAL_HEADER_BYTES..][..2 * frame].rotate_left(frame);
    });
    let error = records.read(1).unwrap_err();
    assert!(matches!(error, StorageError::Damaged { .. }), "{error}");
    for sequence in 2..=8 {
        assert_eq!(records.read(sequence).unwrap().first, sequence);
    }
}

#[test]
fn a_renamed_file_is_damage() {
    use crate::Disk;
    let (disk, _) = written_journal(3, 1 << 20);
    disk.rename(&journal_name(1), &journal_name(2)).unwrap();
    assert_eq!(damage_of(recover(&disk, 0)).2, Damage::FileName);
    // By this name it is not a journal file.
    disk.rename(&journal_name(2), "journal-1.log").unwrap();
    assert_eq!(recover(&disk, 0).unwrap().0.last, 0);
}

#[test]
fn a_claim_is_found_wherever_it_begins() {
    // The header after the damage crosses the end of the first piece that is searched.
    for straddle in 0..60 {
        let disk = SimulatedDisk::new();
        let mut journal = open(&disk, 1 << 20).unwrap();
        let payload = vec![0; (256 << 10) - frame::FRAME_OVERHEAD_BYTES - 50 + straddle];
        journal.append(&payload, 1).unwrap();
        journal.sync().unwrap();
        journal.seal().unwrap();
        disk.edit(&journal_name(1), |bytes| bytes[JOURNAL_HEADER_BYTES] ^= 1);
        assert_eq!(damage_of(recover(&disk, 0)).1, 1, "{straddle}");
    }
}

#[test]
fn a_restart_seals_so_that_a_later_flip_is_seen() {
    let (disk, _) = two_groups(true);
    drop(open(&disk, 1 << 20).unwrap());
    let starts = frame_starts(&file_bytes(&disk, &journal_name(1)));
    disk.edit(&journal_name(1), |bytes| bytes[starts[1]] ^= 1);
    assert_eq!(damage_of(recover(&disk, 0)).1, 2);
}

#[test]
fn an_old_file_cut_short_while_it_is_open_is_damage_at_the_first_read() {
    let (disk, records) = written_journal(60, 2_048);
    let name = &journal_files(&disk)[0];
    let starts = frame_starts(&file_bytes(&disk, name));
    let from = records.last().unwrap().first;
    let second: u64 = journal_files(&disk)[1][8..28].parse().unwrap();
    // The last frame of the file is its seal, the one before it a record.
    let record = starts[starts.len() - 3];
    for cut in [record, record + 20, record + 50] {
        let disk = disk.copy();
        let (tail, _) = recover(&disk, from).unwrap();
        disk.edit(name, |bytes| bytes.truncate(cut));
        assert!(recover(&disk, from).is_err(), "the next start sees it");
        let journal = Journal::open(Arc::new(disk), identity(), tail, 2_048).unwrap();
        let error = journal.records().read(second - 1).unwrap_err();
        assert!(matches!(error, StorageError::Damaged { .. }), "{error}");
    }
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
    assert_eq!(refusal(Identity::new([0; 16], "np2")), FileRefusal::Directory);
    let other_recipe = refusal(Identity::new(*b"a data directory", "words-2"));
    assert!(matches!(other_recipe, FileRefusal::Recipe { .. }));

    disk.edit(&journal_name(1), |bytes| {
        bytes[8] = 1;
        let crc = crc32c::crc32c(&bytes[..JOURNAL_HEADER_BYTES - 4]);
        bytes[JOURNAL_HEADER_BYTES - 4..JOURNAL_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    });
    let (expected, got, recipe) = (2, 1, identity().recipe());
    assert_eq!(refusal(identity()), FileRefusal::Version { expected, got, recipe });
}

#[test]
fn an_impossible_kind_or_length_is_refused_before_anything_is_allocated() {
    let header = FrameHeader { payload_bytes: 0, count: 1, sequence: 1, chain: 0, durable_upto: 0 };
    for (field, value) in [(4, 2), (4, 3), (8, u32::MAX), (8, (16 << 20) + 1)] {
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, identity().seed(), &header, b"payload");
        bytes[field..field + 4].copy_from_slice(&value.to_le_bytes());
        let (covered, crc) = bytes.split_at_mut(frame::FRAME_HEADER_BYTES - 4);
        let fits = crc32c::crc32c_append(identity().seed().0 as u32, covered);
        crc[..4].copy_from_slice(&fits.to_le_bytes());
        let bad = frame::decode_header(&bytes, identity().seed());
        assert_eq!(bad, Err(BadFrame::HeaderFields), "{value} at {field}");
    }
}

#[test]
fn an_intact_header_that_says_the_impossible_is_no_frame() {
    let header = FrameHeader { payload_bytes: 0, count: 1, sequence: 5, chain: 0, durable_upto: 4 };
    let claims_itself = FrameHeader { durable_upto: 5, ..header };
    let counts_too_far = FrameHeader { sequence: u64::MAX, ..header };
    let seal = FrameHeader { count: 0, ..header };
    for (header, payload) in [(claims_itself, ""), (counts_too_far, ""), (seal, "payload")] {
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, identity().seed(), &header, payload.as_bytes());
        let bad = frame::decode_header(&bytes, identity().seed());
        assert_eq!(bad, Err(BadFrame::HeaderFields), "{header:?}");
    }
}

#[test]
fn a_name_that_no_service_writes_is_left_alone() {
    use crate::{Disk, FILE_NUMBER_MAX};
    let (disk, records) = written_journal(60, 2_048);
    let names = [
        format!("journal-{}.log", u64::MAX),
        format!("journal-{}.log", FILE_NUMBER_MAX + 1),
        "journal-00000000000000000000.log".to_owned(),
        "journal-1.log".to_owned(),
        "journal-+0000000000000000001.log".to_owned(),
        format!("records-00000000000000000001-{}.pack", u64::MAX),
        "records-00000000000000000000-00000000000000000005.pack".to_owned(),
        "records-00000000000000000009-00000000000000000005.pack".to_owned(),
    ];
    for name in &names {
        disk.create(name).unwrap();
    }
    assert_eq!(recover(&disk, 0).unwrap().1, records);
    drop(open(&disk, 2_048).unwrap());
    let listed = disk.list().unwrap();
    assert!(names.iter().all(|name| listed.contains(name)), "{listed:?}");
}

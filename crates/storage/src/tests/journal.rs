//! Promise: a record can be read by any sequence that it covers, across files and
//! restarts, and while the writer writes. Method: small journals, properties of the frame, threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::BadFrame;
use crate::frame;
use crate::frame::FrameHeader;
use crate::{Disk, PAYLOAD_BYTES_MAX, RealDisk};

#[test]
fn a_record_is_found_by_every_sequence_it_covers() {
    let (disk, records) = written_journal(60, 2_048);
    let journal = open(&disk, 2_048).unwrap();
    for expected in &records {
        for sequence in expected.first..expected.first + u64::from(expected.count) {
            let record = journal.records().read(sequence).unwrap();
            assert_eq!(
                (record.first, record.count, &record.payload),
                (expected.first, expected.count, &expected.payload)
            );
        }
    }
}

/// Of a file that recovery did not read, it is not known where a record is.
#[test]
fn what_is_not_in_memory_is_not_waited_for_and_is_the_same_later() {
    let (disk, records) = written_journal(60, 2_048);
    let (tail, _) = recover(&disk, records.last().unwrap().first).unwrap();
    let journal = Journal::open(Arc::new(disk.clone()), identity(), tail, 2_048).unwrap();
    let in_memory = journal.records().in_memory();
    let first = in_memory.read(records[0].first).unwrap_err();
    assert!(matches!(first, StorageError::NotInMemory), "{first}");
    let mut outcomes = [0; 2];
    for expected in &records {
        let payload = in_memory.on_disk().read(expected.first).unwrap().payload;
        assert_eq!(payload, expected.payload);
        let read = in_memory.read(expected.first);
        outcomes[usize::from(read.is_ok())] += 1;
        match read {
            Ok(record) => assert_eq!(record.payload, expected.payload),
            Err(error) => assert!(matches!(error, StorageError::NotInMemory), "{error}"),
        }
    }
    assert!(outcomes.iter().all(|&count| count > 0), "{outcomes:?}");
}

#[test]
fn a_sequence_that_is_not_flushed_has_no_record() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, 1 << 20).unwrap();
    let sequence = journal.append(b"payload", 1).unwrap();
    for absent in [0, sequence, sequence + 1] {
        let error = journal.records().read(absent).unwrap_err();
        assert!(matches!(error, StorageError::NoRecord { .. }), "{error}");
    }
    journal.flush().unwrap();
    assert_eq!(journal.records().read(sequence).unwrap().payload, b"payload");
}

#[test]
fn a_scan_visits_what_lies_after_the_snapshot_and_reads_older_files_later() {
    let (disk, records) = written_journal(60, 2_048);
    let last = recover(&disk, 0).unwrap().0.last;
    for from in 0..=last {
        let after: Vec<_> = records
            .iter()
            .filter(|record| record.first + u64::from(record.count) > from + 1)
            .cloned()
            .collect();
        let (tail, visited) = recover(&disk, from).unwrap();
        assert_eq!(visited, after, "from {from}");
        assert_eq!(tail.last, last);
    }
    let (tail, _) = recover(&disk, last).unwrap();
    let journal = Journal::open(Arc::new(disk.clone()), identity(), tail, 2_048).unwrap();
    for expected in &records {
        let record = journal.records().read(expected.first).unwrap();
        assert_eq!(record.payload, expected.payload);
    }
}

#[test]
fn a_restart_without_a_change_adds_nothing() {
    let (disk, _) = written_journal(5, 1 << 20);
    drop(open(&disk, 1 << 20).unwrap());
    let before = file_bytes(&disk, &journal_files(&disk)[0]);
    drop(open(&disk, 1 << 20).unwrap());
    assert_eq!(file_bytes(&disk, &journal_files(&disk)[0]), before);
}

#[test]
fn an_idle_writer_syncs_and_seals_once() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, 1 << 20).unwrap();
    journal.append(b"payload", 1).unwrap();
    journal.sync().unwrap();
    journal.seal().unwrap();
    let operations = disk.operations();
    journal.sync().unwrap();
    journal.seal().unwrap();
    assert_eq!(disk.operations(), operations);
}

#[test]
fn a_payload_above_the_limit_is_refused_and_one_at_the_limit_is_kept() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, 1 << 30).unwrap();
    let too_long = vec![1; PAYLOAD_BYTES_MAX + 1];
    let error = journal.append(&too_long, 1).unwrap_err();
    assert!(matches!(error, StorageError::PayloadTooLarge { .. }));
    let longest = &too_long[1..];
    let sequence = journal.append(longest, 1).unwrap();
    journal.sync().unwrap();
    assert_eq!(journal.records().read(sequence).unwrap().payload, longest);
    assert_eq!(recover(&disk, 0).unwrap().1[0].payload, longest);
}

#[test]
fn files_close_at_their_size_and_the_extent_counts_them() {
    let (disk, _) = written_journal(60, 2_048);
    let names = journal_files(&disk);
    let lengths: Vec<_> = names.iter().map(|name| file_bytes(&disk, name).len() as u64).collect();
    for closed in &lengths[..lengths.len() - 1] {
        assert!((2_048..3_200).contains(closed), "{closed}");
    }
    let extent = open(&disk, 2_048).unwrap().records().extent();
    assert_eq!(extent.files, names.len() as u64);
    assert_eq!(extent.bytes, lengths.iter().sum::<u64>());
}

#[test]
fn readers_see_only_whole_records_while_the_writer_writes() {
    let directory = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(directory.path()).unwrap());
    let tail = scan(&*disk, &identity(), 0, &mut |_| ()).unwrap();
    let mut journal = Journal::open(disk, identity(), tail, 50_000).unwrap();
    let payload_of = |sequence: u64| Dice::new(sequence).bytes((sequence % 700) as usize);
    let (flushed, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let records = journal.records();
            let (flushed, done) = (&flushed, &done);
            scope.spawn(move || {
                let mut dice = Dice::new(reader);
                while !done.load(Ordering::Acquire) {
                    let last = flushed.load(Ordering::Acquire);
                    if last > 0 {
                        let sequence = 1 + dice.below(last as usize) as u64;
                        let record = records.read(sequence).unwrap();
                        assert_eq!(record.payload, payload_of(sequence));
                    }
                }
            });
        }
        for sequence in 1..=3_000 {
            journal.append(&payload_of(sequence), 1).unwrap();
            if sequence % 7 == 0 {
                journal.flush().unwrap();
                flushed.store(sequence, Ordering::Release);
            }
        }
        done.store(true, Ordering::Release);
    });
    journal.sync().unwrap();
    assert!(journal.records().extent().files > 10);
}

proptest! {
    #[test]
    fn a_frame_is_read_as_it_was_written(
        payload in proptest::collection::vec(any::<u8>(), 0..2_000),
        count in 1_u32..,
        sequence in 1..u64::MAX / 2,
        chain: u64,
        lag in 0_u64..100,
        directory: [u8; 16],
    ) {
        let seed = Identity::new(directory, "np2").seed();
        let header = FrameHeader {
            payload_bytes: payload.len() as u32,
            count,
            sequence,
            chain,
            durable_upto: sequence.saturating_sub(lag + 1),
        };
        let mut bytes = Vec::new();
        let next = frame::encode(&mut bytes, seed, &header, &payload);
        let whole = Ok(frame::Frame { header, payload: &payload, chain: next });
        prop_assert_eq!(frame::decode(&bytes, seed), whole);
        for cut in 0..bytes.len() {
            prop_assert_eq!(frame::decode(&bytes[..cut], seed), Err(BadFrame::Short));
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let seed = identity().seed();
        let mut framed = b"\x89npf".to_vec();
        framed.extend(&bytes);
        prop_assert!(frame::decode(&bytes, seed).is_err());
        prop_assert!(frame::decode(&framed, seed).is_err());
    }
}

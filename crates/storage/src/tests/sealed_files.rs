//! Promise: a sealed file is read as it was written or refused with its name, and a power cut
//! leaves the old file or the new one. Method: flips, cuts, extensions, swaps, files of other
//! directories, simulated crashes; where the layout matters, of both layouts.

use std::io::{Read, Write};

use super::*;
use crate::sealed::{
    BLOCK_BYTES, PAGE_BODY_BYTES, PAGE_BYTES, SEALED_HEADER_BYTES, TRAILER_BYTES, remove_leftovers,
};
use crate::simulated::Faults;
use crate::{BodyLayout, Damage, Disk, FileKind, FileRefusal, Sealed, SealedReader, SealedWriter};

const KIND: FileKind = FileKind(7);
const BLOCK_ON_DISK: usize = BLOCK_BYTES + 8;

fn write(disk: &SimulatedDisk, name: &str, body: &[u8]) -> Result<Sealed, StorageError> {
    let mut writer = SealedWriter::create(Arc::new(disk.clone()), name, KIND, identity())?;
    writer.write_all(body).map_err(|error| StorageError::from_io(error, "write", name))?;
    writer.finish()
}

fn write_pages(disk: &SimulatedDisk, name: &str, body: &[u8]) -> Result<Sealed, StorageError> {
    let shared = Arc::new(disk.clone());
    let mut writer = SealedWriter::create_in(BodyLayout::Pages, shared, name, (KIND, identity()))?;
    writer.write_all(body).map_err(|error| StorageError::from_io(error, "write", name))?;
    writer.finish()
}

fn read(disk: &SimulatedDisk, name: &str) -> Result<Vec<u8>, StorageError> {
    SealedReader::open(disk, name, KIND, &identity())?.read_rest(u64::MAX)
}

fn sealed(body_bytes: usize) -> (SimulatedDisk, Vec<u8>) {
    let [blocks, _] = sealed_in_both(body_bytes);
    blocks
}

/// A file in blocks, and one in pages.
fn sealed_in_both(body_bytes: usize) -> [(SimulatedDisk, Vec<u8>); 2] {
    [write, write_pages].map(|write| {
        let disk = SimulatedDisk::new();
        let body = Dice::new(body_bytes as u64).bytes(body_bytes);
        write(&disk, "file", &body).unwrap();
        (disk, body)
    })
}

#[track_caller]
fn damaged(disk: &SimulatedDisk) {
    let error = read(disk, "file").unwrap_err();
    assert!(matches!(error, StorageError::DamagedSealed { .. }), "{error}");
}

#[test]
fn a_body_of_any_length_is_read_as_it_was_written() {
    let of_blocks = [BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES, 200_000];
    let of_pages = [PAGE_BODY_BYTES - 1, PAGE_BODY_BYTES, 16 * PAGE_BODY_BYTES, 65_409];
    let lengths = [0, 1].into_iter().chain(of_blocks).chain(of_pages);
    for (bytes, (disk, body)) in lengths.flat_map(|bytes| sealed_in_both(bytes).map(|s| (bytes, s)))
    {
        assert_eq!(read(&disk, "file").unwrap(), body);
        let mut reader = SealedReader::open(&disk, "file", KIND, &identity()).unwrap();
        assert_eq!(reader.sealed().body_bytes, bytes as u64);
        assert_eq!(reader.sealed().file_bytes, file_bytes(&disk, "file").len() as u64);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, body);
    }
}

#[test]
fn reads_and_blocks_may_be_mixed() {
    let (disk, body) = sealed(150_000);
    let mut reader = SealedReader::open(&disk, "file", KIND, &identity()).unwrap();
    let mut begin = [0; 10];
    reader.read_exact(&mut begin).unwrap();
    assert_eq!(begin, body[..10]);
    assert_eq!(reader.next_block().unwrap().unwrap(), &body[10..BLOCK_BYTES]);
    assert!(matches!(reader.read_rest(100), Err(StorageError::PayloadTooLarge { .. })));
    assert_eq!(reader.read_rest(100_000).unwrap(), &body[BLOCK_BYTES..]);
    assert_eq!(reader.next_block().unwrap(), None);
}

#[test]
fn every_flipped_bit_of_header_and_trailer_is_refused() {
    for (disk, _) in sealed_in_both(500) {
        let length = file_bytes(&disk, "file").len();
        let ends = (0..SEALED_HEADER_BYTES).chain(length - TRAILER_BYTES..length);
        for bit in ends.flat_map(|byte| byte * 8..byte * 8 + 8) {
            let flip = |bytes: &mut Vec<u8>| bytes[bit / 8] ^= 1 << (bit % 8);
            disk.edit("file", flip);
            damaged(&disk);
            disk.edit("file", flip);
        }
        assert!(read(&disk, "file").is_ok());
    }
}

#[test]
fn random_flips_and_cuts_and_extensions_are_refused() {
    for (disk, _) in sealed_in_both(200_000) {
        let mut dice = Dice::new(5);
        let whole = file_bytes(&disk, "file");
        for _ in 0..300 {
            let (at, bit) = (dice.below(whole.len()), dice.below(8));
            disk.edit("file", |bytes| bytes[at] ^= 1 << bit);
            damaged(&disk);
            disk.edit("file", |bytes| bytes.truncate(at));
            damaged(&disk);
            let longer = dice.bytes(1 + at % 100);
            disk.edit("file", |bytes| {
                bytes.clone_from(&whole);
                bytes.extend(longer);
            });
            damaged(&disk);
            disk.edit("file", |bytes| bytes.clone_from(&whole));
        }
    }
}

#[test]
fn swapped_and_zeroed_blocks_are_refused() {
    let (disk, _) = sealed(3 * BLOCK_BYTES);
    disk.edit("file", |bytes| {
        let blocks = &mut bytes[SEALED_HEADER_BYTES..][..2 * BLOCK_ON_DISK];
        blocks.rotate_left(BLOCK_ON_DISK);
    });
    damaged(&disk);
    for (disk, _) in sealed_in_both(3 * BLOCK_BYTES) {
        disk.edit("file", |bytes| bytes[8_192..12_288].fill(0));
        damaged(&disk);
    }
    let [_, (disk, _)] = sealed_in_both(BLOCK_BYTES);
    disk.edit("file", |bytes| bytes[PAGE_BYTES..3 * PAGE_BYTES].rotate_left(PAGE_BYTES));
    damaged(&disk);
}

#[test]
fn a_missing_block_is_seen_when_the_file_is_opened() {
    let (disk, _) = sealed(3 * BLOCK_BYTES);
    disk.edit("file", |bytes| {
        bytes.drain(SEALED_HEADER_BYTES..SEALED_HEADER_BYTES + BLOCK_ON_DISK);
    });
    assert!(SealedReader::open(&disk, "file", KIND, &identity()).is_err());
}

#[test]
fn an_unfinished_file_does_not_stand_in_the_way() {
    let disk = SimulatedDisk::new();
    let shared = Arc::new(disk.clone());
    drop(SealedWriter::create(shared, "file", KIND, identity()).unwrap());
    assert_eq!(disk.list().unwrap(), ["file.tmp"]);
    write(&disk, "file", b"body").unwrap();
    assert_eq!(read(&disk, "file").unwrap(), b"body");
    assert_eq!(disk.list().unwrap(), ["file"]);
}

#[test]
fn a_block_of_another_file_in_the_same_place_fails_the_whole() {
    let (disk, _) = sealed(2 * BLOCK_BYTES);
    write(&disk, "other", &vec![3; 2 * BLOCK_BYTES]).unwrap();
    let first = SEALED_HEADER_BYTES..SEALED_HEADER_BYTES + BLOCK_ON_DISK;
    let foreign = file_bytes(&disk, "other")[first.clone()].to_vec();
    disk.edit("file", |bytes| bytes[first].copy_from_slice(&foreign));
    let error = read(&disk, "file").unwrap_err();
    assert!(error.to_string().contains(&Damage::Whole.to_string()), "{error}");
}

#[test]
fn a_foreign_file_is_refused_by_name() {
    let (disk, _) = sealed(10);
    let refusal = |kind, identity| match SealedReader::open(&disk, "file", kind, &identity) {
        Err(StorageError::Refused { file, why }) => {
            assert_eq!(file, "file");
            why
        }
        other => panic!("expected a refusal, got {other:?}"),
    };
    let stranger = Identity::new([0; 16], "np2");
    assert_eq!(refusal(KIND, stranger), FileRefusal::Directory);
    let other_recipe = Identity::new(identity().directory(), "words-2");
    assert!(matches!(refusal(KIND, other_recipe), FileRefusal::Recipe { .. }));
    let (expected, got) = (8, 7);
    assert_eq!(refusal(FileKind(8), identity()), FileRefusal::Kind { expected, got });
    disk.edit("file", |bytes| {
        bytes[8] = 1;
        let crc = crc32c::crc32c(&bytes[..SEALED_HEADER_BYTES - 4]);
        bytes[SEALED_HEADER_BYTES - 4..SEALED_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    });
    let (expected, got, recipe) = (2, 1, identity().recipe());
    assert_eq!(refusal(KIND, identity()), FileRefusal::Version { expected, got, recipe });
}

#[test]
fn the_first_file_tells_the_identity() {
    let (disk, body) = sealed(10);
    let mut reader = SealedReader::open_first(&disk, "file", KIND).unwrap();
    assert_eq!(reader.identity(), identity());
    assert_eq!(reader.identity().recipe(), "np2");
    assert_eq!(reader.read_rest(10).unwrap(), body);
}

#[test]
fn a_power_cut_leaves_the_old_file_or_the_new_one() {
    let (old, new) = (vec![1; 100_000], vec![2; 150_000]);
    for at in 1..14 {
        for seed in 0..40 {
            let disk = SimulatedDisk::new();
            write(&disk, "file", &old).unwrap();
            disk.set_faults(Faults { crash_at_operation: Some(at), ..Faults::default() });
            let finished = write(&disk, "file", &new).is_ok();
            let disk = disk.crash(seed);
            let found = read(&disk, "file").unwrap();
            assert!(found == new || (!finished && found == old), "{at}, seed {seed}");
            remove_leftovers(&disk).unwrap();
            assert_eq!(disk.list().unwrap(), ["file"]);
        }
    }
}

#[test]
fn lying_syncs_are_caught_by_the_same_method() {
    for (lying_sync, lying_directory_sync) in [(true, false), (false, true)] {
        let caught = (0..10).any(|seed| {
            let disk = SimulatedDisk::new();
            disk.set_faults(Faults { lying_sync, lying_directory_sync, ..Faults::default() });
            write(&disk, "file", &[2; 1_000]).unwrap();
            read(&disk.crash(seed), "file").is_err()
        });
        assert!(caught);
    }
}

#[test]
fn a_full_disk_is_reported_and_the_temporary_file_can_be_removed() {
    let disk = SimulatedDisk::new();
    disk.set_faults(Faults { capacity_bytes: Some(100_000), ..Faults::default() });
    let mut writer =
        SealedWriter::create(Arc::new(disk.clone()), "file", KIND, identity()).unwrap();
    let error = writer.write_all(&vec![1; 200_000]).unwrap_err();
    assert!(StorageError::from_io(error, "write", "file").is_full());
    writer.abandon().unwrap();
    assert_eq!(disk.list().unwrap(), Vec::<String>::new());
    assert_eq!(disk.free_bytes().unwrap(), 100_000);
}

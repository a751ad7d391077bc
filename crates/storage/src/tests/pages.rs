//! Promise: whatever part of a file in pages is read, it is read as it was written or not at all.
//! Method: random reads against the body in memory, flips, foreign pages, cuts.

use std::io::Write;

use super::*;
use crate::sealed::{PAGE_BODY_BYTES, PAGE_BYTES};
use crate::{BodyLayout, Disk, FileKind, SealedPages, SealedReader, SealedWriter};

const KIND: FileKind = FileKind(7);

fn write(disk: &SimulatedDisk, name: &str, body: &[u8]) {
    let mut writer = writer(disk, name);
    writer.write_all(body).unwrap();
    writer.finish().unwrap();
}

fn writer(disk: &SimulatedDisk, name: &str) -> SealedWriter {
    let shared = Arc::new(disk.clone());
    SealedWriter::create_in(BodyLayout::Pages, shared, name, (KIND, identity())).unwrap()
}

fn open_pages(disk: &SimulatedDisk, name: &str) -> SealedPages {
    let reader = SealedReader::open(disk, name, KIND, &identity()).unwrap();
    reader.into_pages().expect("it is in pages")
}

#[test]
fn any_part_is_read_as_it_was_written() {
    for bytes in [1, PAGE_BODY_BYTES, PAGE_BODY_BYTES + 1, 40 * PAGE_BODY_BYTES + 17] {
        let (disk, mut dice) = (SimulatedDisk::new(), Dice::new(bytes as u64));
        let body = dice.bytes(bytes);
        write(&disk, "file", &body);
        let shared = Arc::new(disk.clone());
        let mut unlinked = SealedWriter::create_unlinked(shared, "other", identity()).unwrap();
        assert_eq!(disk.list().unwrap(), ["file"], "a crash leaves nothing");
        unlinked.write_all(&body).unwrap();
        let files = [open_pages(&disk, "file"), unlinked.into_pages().unwrap()];
        for _ in 0..500 {
            let from = dice.below(bytes);
            let length = dice.below(bytes - from + 1).min(3 * PAGE_BODY_BYTES);
            for pages in &files {
                assert_eq!(pages.body_bytes(), bytes as u64);
                pages.will_need(from as u64..(from + length) as u64);
                let mut read = vec![0; length];
                pages.read(from as u64, &mut read).unwrap();
                assert!(read == body[from..from + length], "{bytes}: {length} from {from}");
            }
        }
        for pages in &files {
            for beyond in [bytes as u64, bytes as u64 - 1, u64::MAX / 2] {
                assert!(pages.read(beyond, &mut [0; 2]).is_err(), "{bytes}: {beyond}");
            }
            assert!(pages.read(bytes as u64, &mut []).is_ok());
        }
    }
}

/// Opened anew for each read, as no thread keeps pages of a file that was closed.
fn read_page(disk: &SimulatedDisk, page: usize) -> Result<[u8; 8], StorageError> {
    let mut read = [0; 8];
    open_pages(disk, "file").read((page * PAGE_BODY_BYTES) as u64 + 100, &mut read).map(|()| read)
}

/// What happens to a page.
type Damaging<'a> = dyn Fn(&mut [u8]) + 'a;

#[test]
fn a_damaged_page_is_never_read_and_the_others_are() {
    let (disk, mut dice) = (SimulatedDisk::new(), Dice::new(2));
    let body = dice.bytes(8 * PAGE_BODY_BYTES);
    write(&disk, "file", &body);
    write(&disk, "other", &dice.bytes(8 * PAGE_BODY_BYTES));
    let (whole, other) = (file_bytes(&disk, "file"), file_bytes(&disk, "other"));
    for page in 0..8 {
        let on_disk = (page + 1) * PAGE_BYTES..(page + 2) * PAGE_BYTES;
        let foreign = other[on_disk.clone()].to_vec();
        let neighbour = whole[(page ^ 1) * PAGE_BYTES + PAGE_BYTES..][..PAGE_BYTES].to_vec();
        let (at, bit) = (dice.below(PAGE_BYTES), dice.below(8));
        let damages: [&Damaging<'_>; 4] = [
            &|bytes| bytes[at] ^= 1 << bit,
            &|bytes| bytes.fill(0),
            &|bytes| bytes.copy_from_slice(&foreign),
            &|bytes| bytes.copy_from_slice(&neighbour),
        ];
        for (number, damage) in damages.iter().enumerate() {
            disk.edit("file", |bytes| damage(&mut bytes[on_disk.clone()]));
            for read in 0..8 {
                let found = read_page(&disk, read);
                let expected = &body[read * PAGE_BODY_BYTES + 100..][..8];
                match found {
                    Ok(found) => assert!(read != page && found == expected, "{number}: {read}"),
                    Err(StorageError::DamagedSealed { .. }) if read == page => {}
                    Err(error) => panic!("{number}: page {read}: {error}"),
                }
            }
            disk.edit("file", |bytes| bytes.copy_from_slice(&whole));
        }
    }
}

#[test]
fn a_file_that_is_cut_while_it_is_open_gives_what_is_left() {
    let (disk, body) = (SimulatedDisk::new(), Dice::new(3).bytes(4 * PAGE_BODY_BYTES));
    write(&disk, "file", &body);
    let pages = open_pages(&disk, "file");
    disk.edit("file", |bytes| bytes.truncate(3 * PAGE_BYTES + 10));
    let mut read = [0; 8];
    pages.read(PAGE_BODY_BYTES as u64, &mut read).unwrap();
    assert_eq!(read, body[PAGE_BODY_BYTES..][..8]);
    for page in 2..4 {
        assert!(pages.read((page * PAGE_BODY_BYTES) as u64, &mut read).is_err());
    }
}

#[test]
fn a_file_under_another_name_is_refused() {
    let disk = SimulatedDisk::new();
    write(&disk, "file", &[1; 100]);
    disk.rename("file", "other").unwrap();
    let mut reader = SealedReader::open(&disk, "other", KIND, &identity()).unwrap();
    assert!(matches!(reader.read_rest(100), Err(StorageError::DamagedSealed { .. })));
    assert!(open_pages(&disk, "other").read(0, &mut [0; 8]).is_err());
}

#[test]
fn a_file_in_blocks_has_no_pages() {
    let disk = SimulatedDisk::new();
    let mut writer =
        SealedWriter::create(Arc::new(disk.clone()), "file", KIND, identity()).unwrap();
    writer.write_all(&[1; 100]).unwrap();
    writer.finish().unwrap();
    let reader = SealedReader::open(&disk, "file", KIND, &identity()).unwrap();
    assert!(reader.into_pages().is_none());
}

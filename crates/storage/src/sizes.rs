//! The sizes of records: how many changes have a record of about which size. They bound the bytes
//! that become garbage when a number of these changes becomes useless, whichever they are.
//!
//! Counted from the headers of frames, so they know no field of a record: whatever a record holds
//! (sketch, metadata, the name of a namespace), its size is that of its frame.
//!
//! Cost: a few nanoseconds a record; memory for at most [`CLASSES`] classes a file.

use std::io::{self, Read};

use crate::frame::{FRAME_OVERHEAD_BYTES, PAYLOAD_BYTES_MAX};

/// A class is an eighth of a power of two wide, so the bound is at most an eighth too large.
const PRECISION_BITS: u32 = 3;
const LONGEST_BYTES: u64 = (FRAME_OVERHEAD_BYTES + PAYLOAD_BYTES_MAX) as u64;
const CLASSES: usize = class_of(LONGEST_BYTES) + 1;

/// The number of changes, and the bytes of their records, for each class of sizes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Up to the largest class that has any.
    classes: Vec<Class>,
    /// The bytes of records of unknown size: one of them may have all of these.
    unread: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Class {
    changes: u64,
    bytes: u64,
}

/// The class of records that take this many bytes for each of their changes.
const fn class_of(each: u64) -> usize {
    if each >> PRECISION_BITS == 0 {
        return each as usize;
    }
    let shift = each.ilog2() - PRECISION_BITS;
    let mantissa = (each >> shift) as usize;
    ((shift as usize) << PRECISION_BITS) + mantissa
}

/// The largest size in a class.
const fn largest_of(class: usize) -> u64 {
    let steps = class >> PRECISION_BITS;
    if steps == 0 {
        return class as u64;
    }
    let mantissa = (class - ((steps - 1) << PRECISION_BITS)) as u64;
    ((mantissa + 1) << (steps - 1)) - 1
}

impl Sizes {
    /// Adds records of this many bytes together, which stand for a number of changes that share
    /// them equally.
    pub fn add(&mut self, bytes: u64, changes: u64) {
        let each = bytes.div_ceil(changes.max(1));
        self.add_to(class_of(each.min(LONGEST_BYTES)), bytes, changes);
    }

    /// Adds records of this many bytes together, whose sizes are unknown.
    pub(crate) fn add_unread(&mut self, bytes: u64) {
        self.unread = self.unread.saturating_add(bytes);
    }

    fn add_to(&mut self, class: usize, bytes: u64, changes: u64) {
        if changes == 0 {
            return;
        }
        if self.classes.len() <= class {
            self.classes.resize(class + 1, Class::default());
        }
        if let Some(class) = self.classes.get_mut(class) {
            class.changes = class.changes.saturating_add(changes);
            class.bytes = class.bytes.saturating_add(bytes);
        }
    }

    /// Adds all of the others.
    pub fn merge(&mut self, others: &Self) {
        for (class, &Class { changes, bytes }) in others.classes.iter().enumerate() {
            self.add_to(class, bytes, changes);
        }
        self.add_unread(others.unread);
    }

    /// The maximum bytes in the records of any `changes` of these changes.
    pub fn largest(&self, changes: u64) -> u64 {
        let mut left = changes;
        let classes = self.classes.iter().enumerate().rev();
        let bytes = classes.map(|(index, class)| {
            let taken = class.changes.min(left);
            left -= taken;
            if taken == class.changes {
                class.bytes
            } else {
                taken.saturating_mul(largest_of(index)).min(class.bytes)
            }
        });
        let unread = if changes == 0 { 0 } else { self.unread };
        bytes.fold(unread, u64::saturating_add)
    }

    /// Numbers of 8 bytes: the bytes of records of unknown size, the number of classes that have
    /// any; for each its index, its changes and their bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let used = self.classes.iter().enumerate().filter(|(_, class)| class.changes > 0);
        out.extend_from_slice(&self.unread.to_le_bytes());
        out.extend_from_slice(&(used.clone().count() as u64).to_le_bytes());
        for (index, Class { changes, bytes }) in used {
            for number in [index as u64, *changes, *bytes] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
    }

    /// What [`Self::encode`] has written.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] for other bytes, and those of the source.
    pub fn decode(source: &mut dyn Read) -> io::Result<Self> {
        let mut sizes = Self { unread: read_number(source)?, ..Self::default() };
        for _ in 0..read_number(source)? {
            let index = usize::try_from(read_number(source)?).unwrap_or(CLASSES);
            let (changes, bytes) = (read_number(source)?, read_number(source)?);
            if index >= CLASSES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            sizes.add_to(index, bytes, changes);
        }
        Ok(sizes)
    }
}

fn read_number(source: &mut dyn Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    source.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_lies_in_its_class_and_classes_are_narrow() {
        for size in (0..5_000).chain((12..24).map(|bits| (1 << bits) + 1)).chain([LONGEST_BYTES]) {
            let class = class_of(size);
            assert!(size <= largest_of(class) && largest_of(class) <= size + size / 8, "{size}");
            assert!(class == 0 || largest_of(class - 1) < size, "{size}");
            assert!(class < CLASSES);
        }
    }

    #[test]
    fn whichever_records_go_no_more_bytes_go_than_said() {
        let mut sizes = Sizes::default();
        let records =
            [(2_254, 1), (90, 3), (300, 1), (65_605, 8_192), (140, 1), (67_000, 1), (1_200_000, 1)];
        for (bytes, changes) in records {
            sizes.add(bytes, changes);
        }
        assert_eq!(sizes.largest(0), 0);
        assert_eq!(sizes.largest(1), 1_200_000);
        assert_eq!(sizes.largest(3), 1_200_000 + 67_000 + 2_254);
        let all: u64 = records.iter().map(|(bytes, _)| bytes).sum();
        assert_eq!(sizes.largest(u64::MAX), all, "all of them is exact");
        assert_eq!(sizes.largest(8_200), all);
        assert!(sizes.largest(8_199) <= all);
        let mut unread = Sizes::default();
        unread.add(90, 1);
        unread.add_unread(70_000);
        assert_eq!(unread.largest(0), 0);
        assert_eq!(unread.largest(1), 70_090, "one of them may be all of it");
    }

    #[test]
    fn sizes_are_read_as_they_were_written() {
        let (mut sizes, mut others) = (Sizes::default(), Sizes::default());
        sizes.add(90, 3);
        others.add(66_000, 1);
        others.add_unread(5);
        sizes.merge(&others);
        let mut bytes = Vec::new();
        sizes.encode(&mut bytes);
        assert_eq!(Sizes::decode(&mut &bytes[..]).unwrap(), sizes);
        Sizes::decode(&mut &bytes[..bytes.len() - 1]).unwrap_err();
        bytes[16..24].copy_from_slice(&(CLASSES as u64).to_le_bytes());
        Sizes::decode(&mut &bytes[..]).unwrap_err();
    }
}

//! The bytes of a simulated file: a durable image, the changes since, and what a power cut leaves.
//! `tests/process` includes this file and applies what it has recorded of a real server.

use super::dice::Dice;

/// A disk writes a sector whole or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;

#[derive(Clone, Default)]
pub(crate) struct Contents {
    pub bytes: Vec<u8>,
    pub durable: Vec<u8>,
    pub unsynced: Vec<Change>,
    pub reserved: u64,
}

#[derive(Clone)]
pub(crate) enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl Contents {
    pub(crate) fn occupied(&self) -> u64 {
        self.reserved.max(self.bytes.len() as u64)
    }

    pub(crate) fn settle(&mut self) {
        self.durable.clone_from(&self.bytes);
        self.unsynced.clear();
    }

    pub(crate) fn forget_unsynced(&mut self) {
        self.bytes.clone_from(&self.durable);
        self.unsynced.clear();
    }

    /// A sync makes durable what is unsynced, not what an earlier failed sync has lost.
    pub(crate) fn settle_unsynced(&mut self) {
        self.settle_first(self.unsynced.len());
    }

    /// As [`Self::settle_unsynced`], for a sync that began before the changes after these.
    pub(crate) fn settle_first(&mut self, changes: usize) {
        for change in self.unsynced.drain(..changes) {
            change.apply(&mut self.durable);
        }
    }

    pub(crate) fn change(&mut self, change: Change) {
        change.apply(&mut self.bytes);
        self.unsynced.push(change);
    }

    pub(crate) fn after_power_cut(&self, mode: CrashMode, dice: &mut Dice) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let kept = mode.kept(self.unsynced.len(), dice);
        for (position, change) in self.unsynced.iter().enumerate() {
            let fate = match mode {
                CrashMode::Each => Fate::roll(dice),
                CrashMode::All | CrashMode::Nothing | CrashMode::Prefix if position < kept => {
                    Fate::Kept
                }
                CrashMode::Prefix if position == kept => Fate::Torn,
                CrashMode::All | CrashMode::Nothing | CrashMode::Prefix => Fate::Lost,
            };
            match (fate, change) {
                (Fate::Kept, change) => change.apply(&mut bytes),
                (Fate::Torn, Change::Write(offset, written)) => {
                    tear(&mut bytes, *offset, written, dice);
                }
                (Fate::Torn, Change::Truncate(_)) | (Fate::Lost, _) => {}
            }
        }
        bytes
    }
}

impl Change {
    pub(crate) fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write(offset, written) => {
                grow(bytes, offset + written.len());
                bytes[*offset..offset + written.len()].copy_from_slice(written);
            }
            Self::Truncate(length) => bytes.resize(*length, 0),
        }
    }
}

fn grow(bytes: &mut Vec<u8>, length: usize) {
    if bytes.len() < length {
        bytes.resize(length, 0);
    }
}

/// Applies a part of a write: its beginning up to any byte, some of its sectors, or only the
/// length it gives the file.
fn tear(bytes: &mut Vec<u8>, offset: usize, written: &[u8], dice: &mut Dice) {
    match dice.below(4) {
        0 => {
            let kept = dice.below(written.len() + 1);
            Change::Write(offset, written[..kept].to_vec()).apply(bytes);
        }
        1 | 2 => {
            let end = offset + written.len();
            let mut start = offset;
            while start < end {
                let next = ((start / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
                if dice.below(2) == 0 {
                    let part = written[start - offset..next - offset].to_vec();
                    Change::Write(start, part).apply(bytes);
                }
                start = next;
            }
        }
        _ => grow(bytes, offset + written.len()),
    }
}

/// What a power cut does with the unsynced operations; the simple cases are as frequent as the wild
/// ones.
#[derive(Clone, Copy)]
pub(crate) enum CrashMode {
    All,
    Nothing,
    Prefix,
    Each,
}

impl CrashMode {
    pub(crate) fn roll(dice: &mut Dice) -> Self {
        match dice.below(8) {
            0 => Self::All,
            1 => Self::Nothing,
            2 | 3 => Self::Prefix,
            _ => Self::Each,
        }
    }

    /// How many of `count` ordered operations are kept.
    pub(crate) fn kept(self, count: usize, dice: &mut Dice) -> usize {
        match self {
            Self::All => count,
            Self::Nothing => 0,
            Self::Prefix | Self::Each => dice.below(count + 1),
        }
    }
}

enum Fate {
    Kept,
    Lost,
    Torn,
}

impl Fate {
    fn roll(dice: &mut Dice) -> Self {
        match dice.below(3) {
            0 => Self::Kept,
            1 => Self::Lost,
            _ => Self::Torn,
        }
    }
}

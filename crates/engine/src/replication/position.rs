//! The file `cluster`: of which log a data directory is a node, and how far it has read.
//!
//! It is replaced from time to time. Its position is never ahead of the durable end of the journal,
//! so whatever the log has from there on is either in the journal, and skipped, or enacted. A crash
//! between two replacements costs only reading.

#![deny(clippy::arithmetic_side_effects, reason = "lengths come from a file")]
#![deny(clippy::indexing_slicing, reason = "lengths come from a file")]

use std::io::Write;
use std::sync::Arc;

use nearprint_storage::{Disk, FileKind, Identity, SealedReader, SealedWriter, StorageError};

use crate::replication::chain::{Halt, Leader, Position, Start};
use crate::replication::log::LogBounds;
use crate::replication::message::{ADDRESS_BYTES_MAX, Digest, LeaderId};

/// The name of the file.
pub(crate) const NAME: &str = "cluster";
const KIND: FileKind = FileKind(8);

const NUMBERS_BYTES: usize = 8 + 8 + 16 + 8 + 16 + 8;
const BODY_BYTES_MAX: usize = NUMBERS_BYTES + 8 + 2 + ADDRESS_BYTES_MAX;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterFile {
    /// The [identity](crate::replication::log::LogSettings::identity) of the log.
    pub log: u64,
    /// How far it was read. The changes before `next` are durable.
    pub position: Position,
}

impl ClusterFile {
    /// A node that has read nothing of a log, and has the changes before `next`.
    pub fn new(log: u64, next: u64) -> Self {
        let (at, digest, changed, at_ms) = (0, Digest(0), Digest(0), 0);
        Self { log, position: Position { at, digest, at_ms, changed, next, leader: None } }
    }

    /// Goes on with a log of this identity, whose first entry comes after the last message with
    /// changes that counted.
    pub(crate) fn begin_anew(&mut self, log: u64) {
        self.log = log;
        let position = &mut self.position;
        (position.at, position.digest, position.leader) = (0, position.changed, None);
    }

    /// How a node begins with a log of this identity.
    pub fn start(&self, log: u64, bounds: LogBounds) -> Start {
        if log == self.log {
            self.position.start(bounds)
        } else {
            Start::Halt(Halt::OtherLog { read: self.log, found: log })
        }
    }

    /// Whether the directory is that of a node.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn is_there(disk: &dyn Disk) -> Result<bool, StorageError> {
        Ok(disk.list()?.iter().any(|name| name == NAME))
    }

    /// Reads the file; `None` if the directory is not that of a node.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn read(disk: &dyn Disk, identity: &Identity) -> Result<Option<Self>, StorageError> {
        let mut reader = match SealedReader::open(disk, NAME, KIND, identity) {
            Err(error) if error.is_not_found() => return Ok(None),
            opened => opened?,
        };
        let body = reader.read_rest(BODY_BYTES_MAX as u64)?;
        let bytes = body.len();
        Self::decode(&body).map(Some).ok_or(StorageError::PayloadTooLarge { bytes })
    }

    /// Replaces the file, durably.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    ///
    /// # Panics
    /// If the address is too long.
    pub fn write(&self, disk: &Arc<dyn Disk>, identity: Identity) -> Result<(), StorageError> {
        let mut writer = SealedWriter::create(Arc::clone(disk), NAME, KIND, identity)?;
        let written = writer.write_all(&self.encode());
        written.map_err(|error| StorageError::from_io(error, "write", NAME))?;
        writer.finish().map(drop)
    }

    fn encode(&self) -> Vec<u8> {
        let Position { at, digest, at_ms, changed, next, leader } = &self.position;
        let mut body = Vec::with_capacity(BODY_BYTES_MAX);
        body.extend_from_slice(&self.log.to_le_bytes());
        body.extend_from_slice(&at.to_le_bytes());
        body.extend_from_slice(&digest.0.to_le_bytes());
        body.extend_from_slice(&at_ms.to_le_bytes());
        body.extend_from_slice(&changed.0.to_le_bytes());
        body.extend_from_slice(&next.to_le_bytes());
        if let Some(Leader { id, address }) = leader {
            body.extend_from_slice(&id.0.to_le_bytes());
            encode_text(address, &mut body);
        }
        body
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let mut rest = body;
        let log = take(&mut rest).map(u64::from_le_bytes)?;
        let at = take(&mut rest).map(u64::from_le_bytes)?;
        let digest = Digest(take(&mut rest).map(u128::from_le_bytes)?);
        let at_ms = take(&mut rest).map(u64::from_le_bytes)?;
        let changed = Digest(take(&mut rest).map(u128::from_le_bytes)?);
        let next = take(&mut rest).map(u64::from_le_bytes)?;
        let leader = if rest.is_empty() {
            None
        } else {
            let id = LeaderId(take(&mut rest).map(u64::from_le_bytes)?);
            Some(Leader { id, address: decode_text(&mut rest)?.into() })
        };
        let position = Position { at, digest, at_ms, changed, next, leader };
        rest.is_empty().then_some(Self { log, position })
    }
}

/// The length in two bytes, and the text.
fn encode_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn decode_text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let length = take(rest).map(u16::from_le_bytes)?;
    let (text, left) = rest.split_at_checked(length.into())?;
    *rest = left;
    std::str::from_utf8(text).ok()
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use nearprint_storage::SimulatedDisk;

    use super::*;

    fn file(leader: Option<Leader>) -> ClusterFile {
        let (at, digest, changed) = (0x0102, Digest(0xab), Digest(0xba));
        let position = Position { at, digest, at_ms: 7, changed, next: 9, leader };
        ClusterFile { position, ..ClusterFile::new(5, 1) }
    }

    fn leader() -> Leader {
        Leader { id: LeaderId(0xcd), address: "http://n2".into() }
    }

    /// These bytes are on disks, so a change here needs another kind.
    #[test]
    fn its_bytes_are_fixed() {
        let hex = |file: &ClusterFile| {
            file.encode().iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
        };
        let numbers = "05000000000000000201000000000000\
                       ab000000000000000000000000000000\
                       0700000000000000ba00000000000000\
                       00000000000000000900000000000000";
        assert_eq!(hex(&file(None)), numbers);
        let leads = "cd000000000000000900687474703a2f2f6e32";
        assert_eq!(hex(&file(Some(leader()))), format!("{numbers}{leads}"));
    }

    #[test]
    fn it_is_read_as_it_was_written_and_replaced() {
        let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new());
        let identity = Identity::new([7; 16], "np2");
        assert_eq!(ClusterFile::read(&*disk, &identity).unwrap(), None);
        let address = "a".repeat(ADDRESS_BYTES_MAX).into();
        let longest = file(Some(Leader { address, ..leader() }));
        for file in [file(None), file(Some(leader())), longest] {
            file.write(&disk, identity).unwrap();
            assert_eq!(ClusterFile::read(&*disk, &identity).unwrap(), Some(file));
        }
    }

    #[test]
    fn what_is_cut_or_too_long_is_refused() {
        for file in [file(None), file(Some(leader()))] {
            let mut body = file.encode();
            let without_leader = file.position.leader.as_ref().map(|_| 64);
            for length in (0..body.len()).filter(|length| Some(*length) != without_leader) {
                assert_eq!(ClusterFile::decode(&body[..length]), None, "{length} bytes");
            }
            body.push(0);
            assert_eq!(ClusterFile::decode(&body), None);
        }
    }

    #[test]
    fn another_log_is_not_read() {
        let bounds = LogBounds { first: 1, last: 0x0102 };
        assert_eq!(file(None).start(5, bounds), Start::Read);
        let halt = Halt::OtherLog { read: 5, found: 6 };
        assert_eq!(file(None).start(6, bounds), Start::Halt(halt));
    }
}

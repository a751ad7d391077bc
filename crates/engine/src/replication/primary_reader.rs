//! The changes of a primary, as the log that a follower reads.
//!
//! A primary sends them as one reply without an end: messages of [`message`](super::message), each
//! after its length in four bytes. They have no role, and each connection is a chain of its own: it
//! begins after the last change of the follower, with the digest 0. [`PrimaryReader`] connects
//! again as often as it has to, so that whoever reads it sees one sequence of entries.

use std::fmt::Debug;
use std::io::{self, Read};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nearprint_machine::change::{Change, Record};
use nearprint_machine::document::Sequence;
use nearprint_storage::{Identity, Records, StorageError};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::api::clock;
use crate::replication::log::{LogEntry, LogError, Reader};
use crate::replication::message::{BadMessage, Digest, MESSAGE_BYTES_MAX, Message};
use crate::replication::mutant::{self, Mutant};

/// The time without changes after which a primary sends a message that says so.
pub(crate) const BEAT: Duration = Duration::from_secs(1);
/// A primary has no more than what it has sent if its last message, which said so, is younger.
const SURE_FOR: Duration = BEAT.saturating_mul(2);
/// A primary that has sent nothing for this time is connected to again.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// How long it waits before it connects again: at first, and at most while nobody answers.
const AGAIN: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// How far a copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerPosition {
    /// The last change that it has.
    pub sequence: Sequence,
    /// The XXH3-64 of the record of this change; `None` if it is packed or not there any more.
    pub record: Option<u64>,
}

impl FollowerPosition {
    /// The position after this change of the journal. Reads its record, unless a pack may have left
    /// parts of it out: then it is no longer the same on all copies.
    ///
    /// # Errors
    /// [`StorageError`]: the record cannot be read.
    pub(crate) fn at(sequence: Sequence, records: &Records) -> Result<Self, StorageError> {
        let read = (sequence > Sequence::ZERO).then(|| records.read(sequence.get()));
        let payload = match read {
            None | Some(Err(StorageError::Reclaimed { .. } | StorageError::NoRecord { .. })) => {
                None
            }
            Some(record) => Some(record?.payload),
        };
        let is_packed = sequence.get() < records.packed_before();
        let is_whole = |payload: &Vec<u8>| !is_packed || keeps_its_parts(payload);
        let payload = payload.filter(is_whole);
        Ok(Self { sequence, record: payload.map(|it| digest_of(&it, records.seed().0)) })
    }
}

/// Whether packs keep a record as it is, or not at all: one that was not stored with others.
fn keeps_its_parts(payload: &[u8]) -> bool {
    let is_put = |record: Record| matches!(record.change, Change::Put { .. });
    mutant::is(Mutant::ComparesPacks) || Record::decode(payload).is_ok_and(is_put)
}

fn digest_of(payload: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(payload, seed)
}

/// Asks a primary for its changes.
pub trait OpenChanges: Debug + Send + Sync {
    /// The changes after a position. Blocks until the primary answers.
    ///
    /// A read of them that finds nothing for a moment fails as
    /// [`TimedOut`](io::ErrorKind::TimedOut); it can be repeated.
    ///
    /// # Errors
    /// [`ChangesError`].
    fn open(&self, after: &FollowerPosition) -> Result<Box<dyn Read + Send>, ChangesError>;
}

/// Why a primary sends no changes. The text is for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangesError {
    /// Time may mend it.
    #[error("{0}")]
    Unreachable(String),
    /// The primary no longer has what the follower lacks.
    #[error("{0}")]
    Packed(String),
    /// The follower has another history.
    #[error("{0}")]
    Diverged(String),
}

/// Reads the changes of a primary, and connects again where that is needed.
pub(crate) struct PrimaryReader {
    primary: Arc<dyn OpenChanges>,
    identity: Identity,
    /// What the next connection asks for.
    position: FollowerPosition,
    /// The number of the last entry.
    at: u64,
    connection: Option<Connection>,
    /// Why there is no connection, and when the next attempt is due.
    waits: Option<(String, Instant)>,
    /// How long it waits after the next failure.
    pause: Duration,
}

impl Debug for PrimaryReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrimaryReader").field("position", &self.position).finish_non_exhaustive()
    }
}

/// A reply of the primary, as far as it was read.
struct Connection {
    stream: Box<dyn Read + Send>,
    /// The digest of the last message.
    prev: Digest,
    /// The beginning of the next message, after its length.
    received: Vec<u8>,
    /// When something came last.
    heard_at: Instant,
    /// The last message said that there is nothing after it.
    is_level: bool,
    /// The same, until whoever reads has been told.
    tells_end: bool,
}

impl PrimaryReader {
    pub(crate) fn new(
        primary: Arc<dyn OpenChanges>,
        identity: Identity,
        position: FollowerPosition,
    ) -> Self {
        Self { primary, identity, position, at: 0, connection: None, waits: None, pause: AGAIN[0] }
    }

    /// Connects, if it is time to.
    fn connect(&mut self, wait: Duration) -> Result<Connection, LogError> {
        if let Some((why, at)) = &self.waits {
            let left = at.saturating_duration_since(clock::now());
            if !left.is_zero() {
                park(left.min(wait));
                return Err(LogError::Unreachable(why.clone()));
            }
        }
        match self.primary.open(&self.position) {
            Ok(stream) => {
                self.pause = AGAIN[0];
                Ok(Connection {
                    stream,
                    prev: Digest(0),
                    received: Vec::new(),
                    heard_at: clock::now(),
                    is_level: false,
                    tells_end: false,
                })
            }
            Err(ChangesError::Unreachable(why)) => Err(self.disconnect(why)),
            Err(ChangesError::Packed(why)) => Err(LogError::Discarded(why)),
            Err(ChangesError::Diverged(why)) => Err(LogError::Diverged(why)),
        }
    }

    /// The next attempt comes after a while.
    fn disconnect(&mut self, why: String) -> LogError {
        self.waits = Some((why.clone(), clock::now() + self.pause));
        self.pause = AGAIN[1].min(self.pause * 2);
        LogError::Unreachable(why)
    }

    /// Takes a message: checks that it is the next one, and notes how far it goes.
    fn take(&mut self, connection: &mut Connection, bytes: &[u8]) -> Result<(), LogError> {
        let (message, digest) = match Message::decode(bytes, &self.identity) {
            Ok(decoded) => decoded,
            Err(BadMessage::Foreign) if connection.prev == Digest(0) => {
                let why = "the primary has another data directory than the one that was copied";
                return Err(LogError::Diverged(why.to_owned()));
            }
            Err(bad @ BadMessage::Foreign) => return Err(self.disconnect(bad.to_string())),
            Err(bad @ (BadMessage::Version(_) | BadMessage::Malformed)) => {
                return Err(LogError::Diverged(bad.to_string()));
            }
        };
        let next = self.position.sequence.next().get();
        if message.prev != connection.prev || message.first != next {
            let why = format!("a message begins at {}, and {next} was due", message.first);
            return Err(self.disconnect(why));
        }
        if let Some(last) = message.records.last() {
            let record = Some(digest_of(last.payload, self.identity.seed().0));
            self.position =
                FollowerPosition { sequence: Sequence::new(message.next() - 1), record };
        }
        (connection.prev, connection.is_level) = (digest, message.records.is_empty());
        connection.tells_end = connection.is_level;
        self.at += 1;
        Ok(())
    }
}

impl Reader for PrimaryReader {
    fn next(&mut self, wait: Duration) -> Result<Option<LogEntry>, LogError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect(wait)?,
        };
        if std::mem::take(&mut connection.tells_end) {
            self.connection = Some(connection);
            return Ok(None);
        }
        let entry = match connection.message() {
            Ok(Some(bytes)) => {
                self.take(&mut connection, &bytes)?;
                Some(LogEntry { at: self.at, bytes: bytes.into(), at_ms: None })
            }
            Ok(None) => {
                let silence = connection.heard_at.elapsed();
                if silence >= SILENCE_MAX {
                    return Err(self.disconnect(silent(silence)));
                }
                if !connection.is_level || silence >= SURE_FOR {
                    self.connection = Some(connection);
                    return Err(LogError::Unreachable(silent(silence)));
                }
                None
            }
            Err(error) => return Err(self.disconnect(format!("the stream broke off: {error}"))),
        };
        self.connection = Some(connection);
        Ok(entry)
    }

    /// The primary says each second that there is nothing after its last change.
    fn confirmed_at(&self) -> Instant {
        self.connection.as_ref().map_or_else(clock::now, |connection| connection.heard_at)
    }
}

impl Connection {
    /// The next message; `None` if it is not there yet.
    fn message(&mut self) -> io::Result<Option<Vec<u8>>> {
        const LENGTH_BYTES: usize = size_of::<u32>();
        loop {
            let missing = match self.received.first_chunk() {
                None => LENGTH_BYTES - self.received.len(),
                Some(length) => {
                    let length = u32::from_le_bytes(*length) as usize;
                    if length > MESSAGE_BYTES_MAX {
                        return Err(io::Error::other(format!("a message of {length} bytes")));
                    }
                    LENGTH_BYTES + length - self.received.len()
                }
            };
            if missing == 0 {
                let message = self.received.split_off(LENGTH_BYTES);
                self.received.clear();
                return Ok(Some(message));
            }
            let begin = self.received.len();
            self.received.resize(begin + missing, 0);
            let read = self.stream.read(&mut self.received[begin..]);
            self.received.truncate(begin + read.as_ref().map_or(0, |read| *read));
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => self.heard_at = clock::now(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Waits for this time, whoever unparks the thread.
pub(crate) fn park(time: Duration) {
    let until = clock::now() + time;
    while let left = until.saturating_duration_since(clock::now())
        && !left.is_zero()
    {
        thread::park_timeout(left);
    }
}

fn silent(silence: Duration) -> String {
    format!("the primary has sent nothing for {} ms", silence.as_millis())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use nearprint_storage::RecordRef;

    use super::*;
    use crate::replication::message::{DOCUMENTS_UNKNOWN, LeaderId, SenderRole};

    /// What the primary sends in each connection, one after the other.
    #[derive(Debug, Default)]
    struct Sends {
        connections: Mutex<Vec<Vec<u8>>>,
        positions: Mutex<Vec<u64>>,
    }

    impl OpenChanges for Sends {
        fn open(&self, after: &FollowerPosition) -> Result<Box<dyn Read + Send>, ChangesError> {
            self.positions.lock().unwrap().push(after.sequence.get());
            let mut connections = self.connections.lock().unwrap();
            let away = || ChangesError::Unreachable("away".to_owned());
            let sends = connections.pop().ok_or_else(away)?;
            Ok(Box::new(io::Cursor::new(sends)))
        }
    }

    fn identity() -> Identity {
        Identity::new([7; 16], "np2")
    }

    /// Messages of a connection that begins before this change, one for each record, and at last
    /// one that says that there are no more.
    fn messages(mut first: u64, records: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut prev = Digest(0);
        let records = records.iter().map(|payload| Some(*payload)).chain([None]);
        let message = |payload: Option<&[u8]>| {
            let record = payload.map(|payload| RecordRef { first, count: 1, payload });
            let message = Message {
                role: SenderRole::Write,
                prev,
                leader: LeaderId::PRIMARY,
                first,
                at_ms: 1_700_000_000_000,
                documents: if record.is_some() { DOCUMENTS_UNKNOWN } else { 1 },
                distance_max: 3,
                records: record.into_iter().collect(),
                touches: Vec::new(),
            };
            first = message.next();
            let (bytes, digest) = message.encode(&identity());
            prev = digest;
            [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
        };
        records.map(message).collect()
    }

    /// The entries that a reader gives until it waits to connect again, and why it waits or ends.
    fn read(reader: &mut PrimaryReader) -> (Vec<LogEntry>, LogError) {
        let mut entries = Vec::new();
        loop {
            match reader.next(Duration::ZERO) {
                Ok(Some(entry)) => entries.push(entry),
                Ok(None) => {
                    let last = entries.last().map(|entry: &LogEntry| &entry.bytes);
                    let (message, _) = Message::decode(last.unwrap(), &identity()).unwrap();
                    assert!(message.records.is_empty(), "it says that there is no more");
                }
                Err(error) => return (entries, error),
            }
        }
    }

    fn reader(sends: &Arc<Sends>) -> PrimaryReader {
        let position = FollowerPosition { sequence: Sequence::new(4), record: None };
        PrimaryReader::new(Arc::<Sends>::clone(sends), identity(), position)
    }

    fn sends(connections: &[Vec<u8>]) -> Arc<Sends> {
        let connections = connections.iter().rev().cloned().collect();
        Arc::new(Sends { connections: Mutex::new(connections), ..Sends::default() })
    }

    #[test]
    fn each_connection_goes_on_where_the_one_before_it_broke() {
        let whole = messages(5, &[b"one", b"two"]).concat();
        for cut in 0..whole.len() {
            let sent = sends(&[whole[..cut].to_vec()]);
            let mut reader = reader(&sent);
            let (mut entries, broken) = read(&mut reader);
            assert!(matches!(&broken, LogError::Unreachable(why) if why.contains("broke off")));
            // What the primary sends depends on what it is asked.
            reader.waits = None;
            let next = 5 + entries.len() as u64;
            let rest: [&[u8]; 2] = [b"one", b"two"];
            let rest = &rest[entries.len()..];
            sent.connections.lock().unwrap().push(messages(next, rest).concat());
            entries.extend(read(&mut reader).0);
            assert_eq!(sent.positions.lock().unwrap()[..], [4, next - 1], "{cut}");
            let numbers = entries.iter().map(|entry| entry.at);
            assert!(numbers.eq(1..=entries.len() as u64), "{cut}");
            let records = entries.iter().flat_map(|entry| {
                let (message, _) = Message::decode(&entry.bytes, &identity()).unwrap();
                message.records.iter().map(|record| record.payload.to_vec()).collect::<Vec<_>>()
            });
            assert_eq!(records.collect::<Vec<_>>(), [b"one", b"two"], "{cut}");
        }
    }

    #[test]
    fn it_waits_before_it_connects_again() {
        let sent = sends(&[]);
        let mut reader = reader(&sent);
        for _ in 0..3 {
            let away = LogError::Unreachable("away".to_owned());
            assert_eq!(reader.next(Duration::ZERO), Err(away));
        }
        assert_eq!(sent.positions.lock().unwrap().len(), 1);
    }

    #[test]
    fn bytes_that_are_flipped_on_the_way_are_noticed() {
        let sent = messages(5, &[b"one", b"two"]);
        let whole = sent.concat();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            let (entries, error) = read(&mut reader(&sends(&[damaged])));
            let is_whole = entries.len() == sent.len();
            let is_noticed = matches!(error, LogError::Unreachable(_) | LogError::Diverged(_));
            assert!(!is_whole && is_noticed, "{at}: {error}");
            for (entry, message) in entries.iter().zip(&sent) {
                assert_eq!(entry.bytes[..], message[size_of::<u32>()..], "{at}");
            }
        }
    }

    #[test]
    fn messages_that_are_lost_repeated_or_reordered_break_the_stream() {
        let sent = messages(5, &[b"one", b"two"]);
        for order in [&[1][..], &[2], &[0, 2], &[0, 0], &[0, 1, 0]] {
            let stream = order.iter().flat_map(|at| sent[*at].clone()).collect();
            let (entries, error) = read(&mut reader(&sends(&[stream])));
            assert_eq!(entries.len(), order.len() - 1, "{order:?}");
            let is_noticed =
                matches!(&error, LogError::Unreachable(why) if why.contains("was due"));
            assert!(is_noticed, "{order:?}: {error}");
        }
    }

    #[test]
    fn a_message_longer_than_any_is_not_waited_for() {
        let sent = (MESSAGE_BYTES_MAX as u32 + 1).to_le_bytes().to_vec();
        let (_, error) = read(&mut reader(&sends(&[sent])));
        assert!(error.to_string().contains("a message of 262145 bytes"), "{error}");
    }

    #[test]
    fn another_data_directory_and_an_unknown_version_are_no_reason_to_go_on() {
        let sent = messages(5, &[]).concat();
        let position = FollowerPosition { sequence: Sequence::new(4), record: None };
        let other = Identity::new([8; 16], "np2");
        let mut reader = PrimaryReader::new(sends(&[sent]), other, position);
        let (_, error) = read(&mut reader);
        assert!(matches!(&error, LogError::Diverged(why) if why.contains("another data")));
    }
}

//! The message: what a leader writes into the log, and its bytes.
//!
//! ```text
//!   magic 4 | version 2 | flags 2 (1 lead, 2 resign) | prev 16 | leader 8 | first 8 | at_ms 8
//!   | documents 8 | distance_max 1 | records 4 | touches 4 | with flag 1: length 2, address
//!   | each record: count 4, length 4, payload as in the journal
//!   | each touch: sequence 8, masked fingerprint 8, how often 4, last second 4
//!   | digest 16: XXH3-128 of everything before, seeded by the directory id
//! ```
//!
//! Little endian. The digest comes before everything else in decoding: bytes without the right one
//! are not of this cluster and are ignored, but bytes that have it and cannot be read were written
//! by a version that this one does not understand. The digest ends every version of the format.
//!
//! Knows no log and no record: payloads are bytes. Decoding allocates in proportion to the bytes
//! that are there, never by a number in them. Cost: one copy and one pass of XXH3. Tested by round
//! trips, cuts and flips, a golden file and a fuzz target.

#![deny(clippy::arithmetic_side_effects, reason = "lengths come from outside")]
#![deny(clippy::indexing_slicing, reason = "lengths come from outside")]

use std::fmt;

use nearprint_fingerprint::{Fingerprint, Sketch};
use nearprint_machine::change::{PACKED_MAX, REMOVED_MAX};
use nearprint_machine::document::{DocumentId, Metadata, Namespace, Sequence};
use nearprint_machine::query::Touch;
use nearprint_storage::{Identity, RecordRef};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The largest message in bytes. A log with smaller messages cannot be used.
pub const MESSAGE_BYTES_MAX: usize = 256 << 10;

/// The longest address of a leader in bytes.
pub const ADDRESS_BYTES_MAX: usize = 512;

const MAGIC: [u8; 4] = *b"\x89npm";
const VERSION: u16 = 2;
const LEADS: u16 = 1;
const RESIGNS: u16 = 2;

const HEADER_BYTES: usize = 65;
const DIGEST_BYTES: usize = 16;
const RECORD_HEADER_BYTES: usize = 8;
const TOUCH_BYTES: usize = 24;

/// What is left of a message for records and touches. A group is no larger, so it is one message,
/// and no record needs to be split: the largest that the machine makes take less than a third of
/// it.
pub(crate) const ROOM_BYTES: usize =
    MESSAGE_BYTES_MAX - HEADER_BYTES - 2 - ADDRESS_BYTES_MAX - DIGEST_BYTES;

const _: () = {
    // Kind, time, flags, fingerprint, expiry, progress, and lengths.
    let fields = 128 + Namespace::BYTES_MAX;
    let document = Metadata::BYTES_MAX + DocumentId::BYTES_MAX + Sketch::BYTES;
    assert!(3 * (RECORD_HEADER_BYTES + fields + document) <= ROOM_BYTES);
    assert!(3 * (RECORD_HEADER_BYTES + fields + 8 * PACKED_MAX) <= ROOM_BYTES);
    assert!(3 * (RECORD_HEADER_BYTES + fields + 16 * REMOVED_MAX) <= ROOM_BYTES);
};

/// The digest of a message, by which the next one names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub u128);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A node for as long as it leads: drawn anew for each attempt, so that no two attempts send the
/// same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaderId(pub u64);

impl LeaderId {
    /// Stands for the primary in the messages to a follower. Who leads a cluster draws another.
    pub(crate) const PRIMARY: Self = Self(0);
}

/// Stands for the number of documents where a primary does not know it: in messages with changes.
pub(crate) const DOCUMENTS_UNKNOWN: u64 = u64::MAX;

/// What a message does in addition to carrying records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderRole<'a> {
    /// Its leader leads from here on, and is reached at this address.
    Lead {
        /// At most [`ADDRESS_BYTES_MAX`] bytes.
        address: &'a str,
    },
    /// Nothing.
    Write,
    /// Nobody leads from here on.
    Resign,
}

/// A message, borrowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message<'a> {
    /// Whether it begins or ends a leader's time.
    pub role: SenderRole<'a>,
    /// The message that it was decided after.
    pub prev: Digest,
    /// Who sent it.
    pub leader: LeaderId,
    /// The sequence of its first change; of the next one, if it has no changes.
    pub first: u64,
    /// The time of its decisions, in milliseconds since 1970.
    pub at_ms: u64,
    /// The number of documents before it: a node with another number has diverged.
    pub documents: u64,
    /// The largest distance that its leader can search.
    pub distance_max: u8,
    /// Its changes, one after the other from `first`.
    pub records: Vec<RecordRef<'a>>,
    /// What was counted of originals since the message before.
    pub touches: Vec<Touch>,
}

/// Why bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// They were not written by a node of this cluster, or are damaged. Ignore them.
    #[error("the bytes are damaged, or of another cluster")]
    Foreign,
    /// They were written by a node of this cluster, of another version. Nothing after them can be
    /// understood.
    #[error("a message has version {0}; this program reads version {VERSION}")]
    Version(u16),
    /// As [`Self::Version`], though their version is known.
    #[error("a message of version {VERSION} cannot be read")]
    Malformed,
}

impl Message<'_> {
    /// The sequence after its last change.
    pub fn next(&self) -> u64 {
        let last = self.records.last();
        last.map_or(self.first, |last| last.first.saturating_add(last.count.into()))
    }

    /// How many touches it has room for.
    pub fn touches_max(&self) -> usize {
        ROOM_BYTES.saturating_sub(self.records.iter().map(record_bytes).sum()) / TOUCH_BYTES
    }

    /// Its bytes, and their digest.
    ///
    /// # Panics
    /// If it is longer than [`MESSAGE_BYTES_MAX`] or its address than [`ADDRESS_BYTES_MAX`], if a
    /// record has no changes, or if the records do not follow one another.
    pub fn encode(&self, identity: &Identity) -> (Vec<u8>, Digest) {
        let (flags, address) = match self.role {
            SenderRole::Lead { address } => (LEADS, Some(address)),
            SenderRole::Write => (0, None),
            SenderRole::Resign => (RESIGNS, None),
        };
        let records: usize = self.records.iter().map(record_bytes).sum();
        let mut out = Vec::with_capacity(HEADER_BYTES.saturating_add(records));
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&self.prev.0.to_le_bytes());
        out.extend_from_slice(&self.leader.0.to_le_bytes());
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.at_ms.to_le_bytes());
        out.extend_from_slice(&self.documents.to_le_bytes());
        out.push(self.distance_max);
        out.extend_from_slice(&(self.records.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.touches.len() as u32).to_le_bytes());
        if let Some(address) = address {
            assert!(address.len() <= ADDRESS_BYTES_MAX, "{} bytes of an address", address.len());
            out.extend_from_slice(&(address.len() as u16).to_le_bytes());
            out.extend_from_slice(address.as_bytes());
        }
        let mut next = self.first;
        for record in &self.records {
            assert!(record.first == next && record.count > 0, "records follow one another");
            next = next.saturating_add(record.count.into());
            out.extend_from_slice(&record.count.to_le_bytes());
            out.extend_from_slice(&(record.payload.len() as u32).to_le_bytes());
            out.extend_from_slice(record.payload);
        }
        for touch in &self.touches {
            out.extend_from_slice(&touch.sequence.get().to_le_bytes());
            out.extend_from_slice(&touch.masked.bits().to_le_bytes());
            out.extend_from_slice(&touch.duplicates.to_le_bytes());
            out.extend_from_slice(&touch.last_s.to_le_bytes());
        }
        let digest = digest_of(&out, identity);
        out.extend_from_slice(&digest.0.to_le_bytes());
        assert!(out.len() <= MESSAGE_BYTES_MAX, "{} bytes of a message", out.len());
        (out, digest)
    }
}

impl<'a> Message<'a> {
    /// Reads a message and its digest.
    ///
    /// # Errors
    /// [`BadMessage`].
    pub fn decode(bytes: &'a [u8], identity: &Identity) -> Result<(Self, Digest), BadMessage> {
        let (covered, digest) = bytes.split_last_chunk().ok_or(BadMessage::Foreign)?;
        let digest = Digest(u128::from_le_bytes(*digest));
        if bytes.len() > MESSAGE_BYTES_MAX
            || !covered.starts_with(&MAGIC)
            || digest_of(covered, identity) != digest
        {
            return Err(BadMessage::Foreign);
        }
        let mut rest = Rest(covered);
        rest.take::<4>()?;
        let version = rest.take().map(u16::from_le_bytes)?;
        if version != VERSION {
            return Err(BadMessage::Version(version));
        }
        let message = rest.message()?;
        if rest.0.is_empty() { Ok((message, digest)) } else { Err(BadMessage::Malformed) }
    }
}

/// What records of this number and with payloads of so many bytes take of [`ROOM_BYTES`].
pub(crate) fn room_of(records: u64, payload_bytes: u64) -> usize {
    let headers = records.saturating_mul(RECORD_HEADER_BYTES as u64);
    usize::try_from(headers.saturating_add(payload_bytes)).unwrap_or(usize::MAX)
}

fn record_bytes(record: &RecordRef<'_>) -> usize {
    record.payload.len().saturating_add(RECORD_HEADER_BYTES)
}

fn digest_of(covered: &[u8], identity: &Identity) -> Digest {
    Digest(xxh3_128_with_seed(covered, identity.seed().0))
}

/// What is not decoded yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], BadMessage> {
        let (taken, left) = self.0.split_first_chunk().ok_or(BadMessage::Malformed)?;
        self.0 = left;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, BadMessage> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, BadMessage> {
        self.take().map(u64::from_le_bytes)
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], BadMessage> {
        let (taken, left) = self.0.split_at_checked(length).ok_or(BadMessage::Malformed)?;
        self.0 = left;
        Ok(taken)
    }

    /// Everything from the flags on.
    fn message(&mut self) -> Result<Message<'a>, BadMessage> {
        let flags = self.take().map(u16::from_le_bytes)?;
        let prev = Digest(self.take().map(u128::from_le_bytes)?);
        let leader = LeaderId(self.u64()?);
        let (first, at_ms, documents) = (self.u64()?, self.u64()?, self.u64()?);
        let [distance_max] = self.take()?;
        let (records, touches) = (self.u32()?, self.u32()?);
        let role = match flags {
            LEADS => SenderRole::Lead { address: self.address()? },
            0 => SenderRole::Write,
            RESIGNS => SenderRole::Resign,
            _ => return Err(BadMessage::Malformed),
        };
        let mut next = first;
        let records = (0..records).map(|_| self.record(&mut next)).collect::<Result<_, _>>()?;
        let touches = (0..touches).map(|_| self.touch()).collect::<Result<_, _>>()?;
        Ok(Message { role, prev, leader, first, at_ms, documents, distance_max, records, touches })
    }

    fn address(&mut self) -> Result<&'a str, BadMessage> {
        let length = usize::from(self.take().map(u16::from_le_bytes)?);
        if length > ADDRESS_BYTES_MAX {
            return Err(BadMessage::Malformed);
        }
        std::str::from_utf8(self.bytes(length)?).map_err(|_| BadMessage::Malformed)
    }

    fn record(&mut self, next: &mut u64) -> Result<RecordRef<'a>, BadMessage> {
        let (first, count, length) = (*next, self.u32()?, self.u32()?);
        let after = first.checked_add(count.into()).filter(|after| *after > first);
        *next = after.ok_or(BadMessage::Malformed)?;
        Ok(RecordRef { first, count, payload: self.bytes(length as usize)? })
    }

    fn touch(&mut self) -> Result<Touch, BadMessage> {
        Ok(Touch {
            sequence: Sequence::new(self.u64()?),
            masked: Fingerprint::new(self.u64()?),
            duplicates: self.u32()?,
            last_s: self.u32()?,
        })
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "tests may overflow")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STORED: &[u8] = include_bytes!("../../../../tests/fixtures/storage/message-v2");

    fn identity() -> Identity {
        Identity::new([7; 16], "np2")
    }

    fn message(role: SenderRole<'_>) -> Message<'_> {
        Message {
            role,
            prev: Digest(0x0102_0304),
            leader: LeaderId(0xab),
            first: 5,
            at_ms: 1_700_000_000_000,
            documents: 3,
            distance_max: 6,
            records: vec![],
            touches: vec![],
        }
    }

    /// With records of one and of three changes, and a touch.
    fn whole(role: SenderRole<'_>) -> Message<'_> {
        let records = vec![
            RecordRef { first: 5, count: 1, payload: b"one change" },
            RecordRef { first: 6, count: 3, payload: b"three changes" },
        ];
        let touch = Touch {
            sequence: Sequence::new(4),
            masked: Fingerprint::new(0xcd),
            duplicates: 2,
            last_s: 1_700_000_000,
        };
        Message { records, touches: vec![touch], ..message(role) }
    }

    fn lead() -> SenderRole<'static> {
        SenderRole::Lead { address: "http://node-1:7878" }
    }

    /// Bytes with the right digest.
    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let digest = digest_of(&bytes, &identity());
        bytes.extend_from_slice(&digest.0.to_le_bytes());
        bytes
    }

    fn without_digest(message: &Message<'_>) -> Vec<u8> {
        let (mut bytes, _) = message.encode(&identity());
        bytes.truncate(bytes.len() - DIGEST_BYTES);
        bytes
    }

    fn decoded(bytes: &[u8]) -> Result<Message<'_>, BadMessage> {
        Message::decode(bytes, &identity()).map(|(message, _)| message)
    }

    prop_compose! {
        fn parts()(
            numbers in any::<[u64; 5]>(),
            prev in any::<u128>(),
            distance_max in any::<u8>(),
            role in 0_usize..3,
            address in "[a-z:/]{0,40}",
            records in prop::collection::vec(
                (1_u32..9_000, prop::collection::vec(any::<u8>(), 0..60)), 0..20),
            touches in prop::collection::vec(any::<(u64, u64, u32, u32)>(), 0..20),
        ) -> (Message<'static>, usize, String, Vec<(u32, Vec<u8>)>) {
            let [leader, first, at_ms, documents, _] = numbers;
            let touches = touches.into_iter().map(|(sequence, masked, duplicates, last_s)| Touch {
                sequence: Sequence::new(sequence),
                masked: Fingerprint::new(masked),
                duplicates,
                last_s,
            });
            let message = Message {
                role: SenderRole::Write,
                prev: Digest(prev),
                leader: LeaderId(leader),
                first: first >> 1,
                at_ms,
                documents,
                distance_max,
                records: vec![],
                touches: touches.collect(),
            };
            (message, role, address, records)
        }
    }

    proptest! {
        #[test]
        fn messages_come_back_as_they_went_in((message, role, address, records) in parts()) {
            let mut next = message.first;
            let records = records.iter().map(|(count, payload)| {
                let first = next;
                next += u64::from(*count);
                RecordRef { first, count: *count, payload }
            });
            let role = [SenderRole::Lead { address: &address }, SenderRole::Write, SenderRole::Resign][role];
            let message = Message { role, records: records.collect(), ..message };
            let (bytes, digest) = message.encode(&identity());
            prop_assert_eq!(message.next(), next);
            prop_assert_eq!(Message::decode(&bytes, &identity()), Ok((message, digest)));
        }

        #[test]
        fn any_bytes_are_read_as_written_or_refused(
            at in 0..STORED.len() - DIGEST_BYTES,
            by in prop::collection::vec(any::<u8>(), 0..6),
            cut in any::<bool>(),
        ) {
            let mut bytes = STORED[..STORED.len() - DIGEST_BYTES].to_vec();
            let end = if cut { bytes.len() } else { (at + by.len()).min(bytes.len()) };
            bytes.splice(at..end, by);
            let bytes = sealed(bytes);
            if let Ok(message) = decoded(&bytes) {
                prop_assert_eq!(message.encode(&identity()).0, bytes);
            }
        }
    }

    #[test]
    fn the_message_of_version_2_is_written_and_read() {
        let (bytes, _) = whole(lead()).encode(&identity());
        assert!(bytes == STORED, "the format has changed: raise its version");
        assert_eq!(decoded(STORED), Ok(whole(lead())));
    }

    /// For a new format version: `cargo test -p nearprint-engine --lib message -- --ignored` stores
    /// what today's code writes.
    #[test]
    #[ignore = "stores fixtures"]
    #[expect(clippy::disallowed_methods, reason = "fixtures are not a data directory")]
    fn the_message_of_today_is_stored() {
        let folder =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/storage");
        std::fs::write(folder.join("message-v2"), whole(lead()).encode(&identity()).0).unwrap();
    }

    #[test]
    fn every_cut_and_flip_makes_it_foreign() {
        for length in 0..STORED.len() {
            assert_eq!(decoded(&STORED[..length]), Err(BadMessage::Foreign), "{length}");
        }
        for bit in 0..8 * STORED.len() {
            let mut bytes = STORED.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decoded(&bytes), Err(BadMessage::Foreign), "{bit}");
        }
        let other = Identity::new([8; 16], "np2");
        assert_eq!(Message::decode(STORED, &other), Err(BadMessage::Foreign));
    }

    #[test]
    fn what_another_version_wrote_is_not_taken_for_foreign() {
        let mut bytes = without_digest(&message(SenderRole::Write));
        let other = VERSION - 1;
        bytes[4..6].copy_from_slice(&other.to_le_bytes());
        assert_eq!(decoded(&sealed(bytes)), Err(BadMessage::Version(other)));
        let mut bytes = without_digest(&message(SenderRole::Write));
        bytes[6] = 3;
        assert_eq!(decoded(&sealed(bytes)), Err(BadMessage::Malformed), "leads and resigns");
        let mut bytes = without_digest(&whole(SenderRole::Write));
        bytes[HEADER_BYTES..HEADER_BYTES + 4].fill(0);
        assert_eq!(decoded(&sealed(bytes)), Err(BadMessage::Malformed), "a record without changes");
        let mut bytes = without_digest(&message(SenderRole::Write));
        bytes.push(0);
        assert_eq!(decoded(&sealed(bytes)), Err(BadMessage::Malformed), "bytes after the end");
        let long = "a".repeat(ADDRESS_BYTES_MAX + 1);
        let mut bytes = without_digest(&message(SenderRole::Lead { address: "" }));
        bytes[HEADER_BYTES..].copy_from_slice(&(long.len() as u16).to_le_bytes());
        bytes.extend_from_slice(long.as_bytes());
        assert_eq!(decoded(&sealed(bytes)), Err(BadMessage::Malformed), "a long address");
    }

    #[test]
    fn announced_numbers_allocate_nothing() {
        for at in [HEADER_BYTES - 8, HEADER_BYTES - 4] {
            let mut bytes = without_digest(&message(SenderRole::Write));
            bytes[at..at + 4].fill(0xff);
            assert_eq!(decoded(&sealed(bytes)), Err(BadMessage::Malformed));
        }
    }

    #[test]
    fn touches_fill_what_records_leave() {
        let payload = vec![0; 100_000];
        let records = (1..=2).map(|first| RecordRef { first, count: 1, payload: &payload });
        let address = "a".repeat(ADDRESS_BYTES_MAX);
        let mut full = Message { first: 1, ..message(SenderRole::Lead { address: &address }) };
        full.records = records.collect();
        full.touches = vec![whole(SenderRole::Write).touches[0]; full.touches_max()];
        let (bytes, _) = full.encode(&identity());
        assert!(bytes.len() > MESSAGE_BYTES_MAX - TOUCH_BYTES, "{}", bytes.len());
        assert_eq!(decoded(&bytes), Ok(full));
    }

    #[test]
    #[should_panic(expected = "bytes of a message")]
    fn no_message_is_longer_than_the_log_allows() {
        let payload = vec![0; MESSAGE_BYTES_MAX];
        let records = vec![RecordRef { first: 5, count: 1, payload: &payload }];
        drop(Message { records, ..message(SenderRole::Write) }.encode(&identity()));
    }
}

//! The frame of a record: a header with its own checksum, the payload, a checksum over both.
//!
//! Knows no file. The header has a CRC32C of its own, so that a flipped length is detected before
//! it is used. Both checksums are seeded with the directory id, so a payload sent by a client
//! cannot contain a valid frame. The low half of the XXH3-128 is the *chain* value, which the next
//! frame repeats, so that frames cannot be swapped, dropped or repeated. A frame without changes is
//! a *seal*: it only records that everything before it is durable.
//!
//! Cost: one pass of XXH3 over the bytes (about memory speed), and 60 bytes a frame. Tested by
//! golden bytes, round trips, and every cut and flip of a small journal.

#![deny(clippy::arithmetic_side_effects, reason = "lengths come from outside")]

use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::error::BadFrame;
use crate::header::{Seed, array_at, u32_at, u64_at};

/// The largest payload of a record in bytes: 16 MiB. Checked before anything is allocated.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;

/// The first byte does not occur in UTF-8 text, so that a search for frames rarely stops in vain.
pub(crate) const MAGIC: [u8; 4] = *b"\x89npf";

const MAGIC_AT: usize = 0;
const KIND_AT: usize = MAGIC_AT + 4;
const PAYLOAD_BYTES_AT: usize = KIND_AT + 4;
const COUNT_AT: usize = PAYLOAD_BYTES_AT + 4;
const SEQUENCE_AT: usize = COUNT_AT + 4;
const CHAIN_AT: usize = SEQUENCE_AT + 8;
const DURABLE_UPTO_AT: usize = CHAIN_AT + 8;
const CRC_AT: usize = DURABLE_UPTO_AT + 8;
/// The length of a frame's header.
pub const FRAME_HEADER_BYTES: usize = CRC_AT + 4;
/// The length of the checksum after the payload.
pub(crate) const FRAME_CHECKSUM_BYTES: usize = 16;
/// What a frame adds to its payload.
pub(crate) const FRAME_OVERHEAD_BYTES: usize = FRAME_HEADER_BYTES + FRAME_CHECKSUM_BYTES;

const KIND_RECORD: u32 = 1;
const KIND_SEAL: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The length of the payload; 0 in a seal.
    pub(crate) payload_bytes: u32,
    /// How many consecutive changes the record stands for; 0 makes the frame a seal.
    pub(crate) count: u32,
    /// The sequence of the first change; in a seal, of the next change.
    pub(crate) sequence: u64,
    /// The chain value of the frame before.
    pub(crate) chain: u64,
    /// Everything up to this sequence was durable when the frame was made; below `sequence`.
    pub(crate) durable_upto: u64,
}

/// A verified frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    pub header: FrameHeader,
    pub(crate) payload: &'a [u8],
    /// The chain value that the next frame repeats.
    pub(crate) chain: u64,
}

impl<'a> Frame<'a> {
    /// Its record; `None` in a seal.
    pub fn record(&self) -> Option<RecordRef<'a>> {
        let FrameHeader { sequence: first, count, .. } = self.header;
        (count > 0).then_some(RecordRef { first, count, payload: self.payload })
    }
}

/// A record of the journal, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// The sequence of its first change.
    pub first: u64,
    /// How many consecutive changes it stands for, at least 1.
    pub count: u32,
    /// The bytes that were appended.
    pub payload: &'a [u8],
}

impl RecordRef<'_> {
    /// The length of its frame in bytes.
    pub fn frame_bytes(&self) -> u64 {
        FRAME_OVERHEAD_BYTES.saturating_add(self.payload.len()) as u64
    }
}

/// A record of the journal, as a reader returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// The sequence of its first change.
    pub first: u64,
    /// How many consecutive changes it stands for, at least 1.
    pub count: u32,
    /// The bytes that were appended.
    pub payload: Vec<u8>,
}

impl FrameHeader {
    /// The sequence after the last change of this frame.
    pub fn next_sequence(&self) -> u64 {
        self.sequence.saturating_add(u64::from(self.count))
    }

    /// The length of the whole frame in bytes.
    pub fn frame_bytes(&self) -> usize {
        FRAME_OVERHEAD_BYTES.saturating_add(self.payload_bytes as usize)
    }

    fn is_possible(&self) -> bool {
        self.payload_bytes as usize <= PAYLOAD_BYTES_MAX
            && self.durable_upto < self.sequence
            && self.sequence.checked_add(u64::from(self.count)).is_some()
            && (self.count > 0 || self.payload_bytes == 0)
    }
}

/// Appends a frame to `out` and returns its chain value. The length in the header is that of
/// `payload`, whatever is in `header`.
///
/// # Panics
/// If the payload is longer than [`PAYLOAD_BYTES_MAX`].
pub(crate) fn encode(out: &mut Vec<u8>, seed: Seed, header: &FrameHeader, payload: &[u8]) -> u64 {
    assert!(payload.len() <= PAYLOAD_BYTES_MAX, "the caller has checked the payload's length");
    let kind = if header.count == 0 { KIND_SEAL } else { KIND_RECORD };
    // One copy from the stack into the buffer is faster than eight small ones.
    let mut bytes = [0; FRAME_HEADER_BYTES];
    put(&mut bytes, MAGIC_AT, &MAGIC);
    put(&mut bytes, KIND_AT, &kind.to_le_bytes());
    put(&mut bytes, PAYLOAD_BYTES_AT, &(payload.len() as u32).to_le_bytes());
    put(&mut bytes, COUNT_AT, &header.count.to_le_bytes());
    put(&mut bytes, SEQUENCE_AT, &header.sequence.to_le_bytes());
    put(&mut bytes, CHAIN_AT, &header.chain.to_le_bytes());
    put(&mut bytes, DURABLE_UPTO_AT, &header.durable_upto.to_le_bytes());
    let crc = header_crc(&bytes, seed);
    put(&mut bytes, CRC_AT, &crc.to_le_bytes());

    let start = out.len();
    out.reserve(FRAME_OVERHEAD_BYTES.saturating_add(payload.len()));
    out.extend_from_slice(&bytes);
    out.extend_from_slice(payload);
    let covered = out.get(start..).expect("the buffer has grown from here");
    let checksum = xxh3_128_with_seed(covered, seed.0);
    out.extend_from_slice(&checksum.to_le_bytes());
    checksum as u64
}

/// Reads the header at the beginning of `bytes`, which may be shorter than the frame.
///
/// # Errors
/// [`BadFrame`]; [`BadFrame::Short`] if `bytes` are fewer than [`FRAME_HEADER_BYTES`].
pub fn decode_header(bytes: &[u8], seed: Seed) -> Result<FrameHeader, BadFrame> {
    let bytes: &[u8; FRAME_HEADER_BYTES] = bytes.first_chunk().ok_or(BadFrame::Short)?;
    if array_at(bytes, MAGIC_AT) != MAGIC {
        return Err(BadFrame::Magic);
    }
    if header_crc(bytes, seed) != u32_at(bytes, CRC_AT) && !mutant::checksums_ignored() {
        return Err(BadFrame::HeaderChecksum);
    }
    let header = FrameHeader {
        payload_bytes: u32_at(bytes, PAYLOAD_BYTES_AT),
        count: u32_at(bytes, COUNT_AT),
        sequence: u64_at(bytes, SEQUENCE_AT),
        chain: u64_at(bytes, CHAIN_AT),
        durable_upto: u64_at(bytes, DURABLE_UPTO_AT),
    };
    let kind = if header.count == 0 { KIND_SEAL } else { KIND_RECORD };
    if u32_at(bytes, KIND_AT) != kind || !header.is_possible() {
        return Err(BadFrame::HeaderFields);
    }
    Ok(header)
}

/// Reads and verifies the frame at the beginning of `bytes`.
///
/// # Errors
/// [`BadFrame`]; [`BadFrame::Short`] if `bytes` end inside the frame.
pub(crate) fn decode(bytes: &[u8], seed: Seed) -> Result<Frame<'_>, BadFrame> {
    let header = decode_header(bytes, seed)?;
    let covered_bytes = header.frame_bytes().saturating_sub(FRAME_CHECKSUM_BYTES);
    let (covered, rest) = bytes.split_at_checked(covered_bytes).ok_or(BadFrame::Short)?;
    let stored = u128::from_le_bytes(*rest.first_chunk().ok_or(BadFrame::Short)?);
    if xxh3_128_with_seed(covered, seed.0) != stored && !mutant::checksums_ignored() {
        return Err(BadFrame::Payload);
    }
    let payload = covered.get(FRAME_HEADER_BYTES..).unwrap_or_default();
    Ok(Frame { header, payload, chain: stored as u64 })
}

/// The chain value of a frame that ends where `bytes` end, unverified; `None` if no frame fits.
pub(crate) fn chain_at_end(bytes: &[u8]) -> Option<u64> {
    let checksum = bytes.last_chunk::<FRAME_CHECKSUM_BYTES>()?;
    checksum.first_chunk().map(|chain| u64::from_le_bytes(*chain))
}

fn header_crc(bytes: &[u8; FRAME_HEADER_BYTES], seed: Seed) -> u32 {
    let covered = bytes.get(..CRC_AT).expect("the checksum lies in the header");
    crc32c::crc32c_append(seed.0 as u32, covered)
}

fn put(bytes: &mut [u8; FRAME_HEADER_BYTES], at: usize, field: &[u8]) {
    let end = at.saturating_add(field.len());
    let place = bytes.get_mut(at..end).expect("the field lies in the header");
    place.copy_from_slice(field);
}

/// The mutant that ignores checksums. Crash tests that do not catch it prove nothing. Outside tests
/// it is a constant `false`.
pub mod mutant {
    #[cfg(any(test, feature = "simulated"))]
    std::thread_local! {
        pub static IGNORE_CHECKSUMS: std::cell::Cell<bool> =
            const { std::cell::Cell::new(false) };
    }

    #[cfg(any(test, feature = "simulated"))]
    pub(crate) fn checksums_ignored() -> bool {
        IGNORE_CHECKSUMS.get()
    }

    #[cfg(not(any(test, feature = "simulated")))]
    pub(crate) const fn checksums_ignored() -> bool {
        false
    }
}

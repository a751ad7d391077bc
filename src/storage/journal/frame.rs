//! The journal frame: a header with its own checksum, a payload, a checksum over both.
//!
//! Knows no file. The header's CRC32C is apart from the payload's XXH3-128, so that a flipped
//! length is seen before it is believed. Both are seeded with the directory's id: a payload sent by
//! a client cannot contain the bytes of a valid frame. The low half of the XXH3-128 is the *chain*
//! value that the next frame repeats, so that frames cannot be swapped, dropped or repeated.
//!
//! Cost: one pass of XXH3 over the bytes (about memory speed), 60 bytes a frame. Tested by golden
//! bytes, round trips, and every cut and flip of a small journal.

#![deny(clippy::arithmetic_side_effects, reason = "lengths come from outside")]

use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::storage::header::{Seed, array_at, u32_at, u64_at};

/// The largest payload of a record in bytes: 16 MiB. Checked before anything is allocated.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;

/// The first byte does not occur in UTF-8 text, so that a search rarely stops in vain.
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
/// The length of the checksum behind the payload.
pub const FRAME_CHECKSUM_BYTES: usize = 16;
/// What a frame adds to its payload.
pub const FRAME_OVERHEAD_BYTES: usize = FRAME_HEADER_BYTES + FRAME_CHECKSUM_BYTES;

const KIND_RECORD: u32 = 1;
const KIND_SEAL: u32 = 2;

/// What a frame says before its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The length of the payload; 0 in a seal.
    pub payload_bytes: u32,
    /// How many consecutive changes the record stands for; 0 makes the frame a seal.
    pub count: u32,
    /// The sequence of the first change; in a seal, of the change that comes next.
    pub sequence: u64,
    /// The chain value of the frame before.
    pub chain: u64,
    /// Up to here everything was durable when the frame was made; below `sequence`.
    pub durable_upto: u64,
}

/// A whole, verified frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its header.
    pub header: FrameHeader,
    /// Its payload.
    pub payload: &'a [u8],
    /// What the next frame repeats.
    pub chain: u64,
}

/// What bytes are, read as a frame from their beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A whole, verified frame.
    Complete(Frame<'a>),
    /// So far valid, but not whole before there are this many bytes.
    Incomplete {
        /// The number of bytes from the beginning of the frame.
        needed: usize,
    },
    /// Not a frame.
    Bad(BadFrame),
}

/// Why bytes are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// The first bytes are not the magic of a frame.
    #[error("no frame begins here")]
    Magic,
    /// The header fails its checksum.
    #[error("the frame header fails its checksum")]
    HeaderChecksum,
    /// The header is intact but says something impossible.
    #[error("the frame header is impossible")]
    HeaderFields,
    /// The payload (or the header with it) fails its checksum.
    #[error("the payload fails its checksum")]
    Payload,
    /// The file ends inside the frame.
    #[error("the file ends inside the frame")]
    Short,
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

/// Appends a frame to `out` and returns its chain value. The header's `payload_bytes` is taken
/// from the payload.
///
/// # Panics
/// When the payload is above [`PAYLOAD_BYTES_MAX`].
pub fn encode(out: &mut Vec<u8>, seed: Seed, header: &FrameHeader, payload: &[u8]) -> u64 {
    assert!(payload.len() <= PAYLOAD_BYTES_MAX, "the caller has checked the payload's length");
    let kind = if header.count == 0 { KIND_SEAL } else { KIND_RECORD };
    // On the stack first: one copy into the buffer instead of eight small ones.
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
/// [`BadFrame`]; [`BadFrame::Short`] when `bytes` are fewer than [`FRAME_HEADER_BYTES`].
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

/// Reads the frame at the beginning of `bytes`; nothing of it is handed out unverified.
pub fn decode(bytes: &[u8], seed: Seed) -> Decoded<'_> {
    let header = match decode_header(bytes, seed) {
        Ok(header) => header,
        Err(BadFrame::Short) => {
            let needed = FRAME_HEADER_BYTES;
            return Decoded::Incomplete { needed };
        }
        Err(bad) => return Decoded::Bad(bad),
    };
    let needed = header.frame_bytes();
    let covered_bytes = needed.saturating_sub(FRAME_CHECKSUM_BYTES);
    let Some((covered, rest)) = bytes.split_at_checked(covered_bytes) else {
        return Decoded::Incomplete { needed };
    };
    let Some(checksum) = rest.first_chunk() else {
        return Decoded::Incomplete { needed };
    };
    let stored = u128::from_le_bytes(*checksum);
    if xxh3_128_with_seed(covered, seed.0) != stored && !mutant::checksums_ignored() {
        return Decoded::Bad(BadFrame::Payload);
    }
    let payload = covered.get(FRAME_HEADER_BYTES..).unwrap_or_default();
    Decoded::Complete(Frame { header, payload, chain: stored as u64 })
}

/// The chain value of the frame that ends where `bytes` end, unverified; `None` where no frame can end.
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

/// The mutant "no checksum check", which the crash tests must catch or prove nothing. Outside
/// tests it is a constant `false`.
pub(crate) mod mutant {
    #[cfg(test)]
    std::thread_local! {
        pub(crate) static IGNORE_CHECKSUMS: std::cell::Cell<bool> =
            const { std::cell::Cell::new(false) };
    }

    #[cfg(test)]
    pub(crate) fn checksums_ignored() -> bool {
        IGNORE_CHECKSUMS.get()
    }

    #[cfg(not(test))]
    pub(crate) const fn checksums_ignored() -> bool {
        false
    }
}

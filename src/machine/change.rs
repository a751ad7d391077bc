//! What the journal records: accepted changes, and their bytes.
//!
//! A record is the *effect* of a command, not the command: a put for a check-and-insert that stored
//! its document, nothing for one that did not. So recovery repeats what was acknowledged, whatever
//! a later version would decide. `docs/disk-format.md` documents the bytes, which are
//! little-endian. The header of the journal has their version, and their frame the checksum.

use crate::document::{Document, DocumentId};
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;

/// An accepted change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A document was stored; one with the same id is replaced.
    Put {
        /// The document.
        document: Document,
    },
    /// Bare fingerprints were stored, each a change of its own.
    PutPacked {
        /// In order of effect, at most [`PACKED_MAX`].
        fingerprints: Vec<Fingerprint>,
    },
    /// What is left of fingerprints that were stored together, after some were removed.
    PutSparse {
        /// Each with its distance from the first one, ascending from 0, below [`PACKED_MAX`].
        fingerprints: Vec<(u16, Fingerprint)>,
    },
    /// The document with this id was removed.
    Remove {
        /// The id.
        id: DocumentId,
    },
    /// A fingerprint was removed with all its documents.
    Reset {
        /// The fingerprint.
        fingerprint: Fingerprint,
    },
}

/// The maximum number of fingerprints in one record.
pub const PACKED_MAX: usize = 8_192;

/// The payload of a journal record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When it was accepted, in milliseconds since 1970.
    pub at_ms: u64,
    /// The change.
    pub change: Change,
}

/// Bytes with the right checksum that are no record: a bug, or a record of a newer version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the payload of a journal record cannot be read")]
pub struct NotARecord;

const PUT: u8 = 1;
const PUT_PACKED: u8 = 2;
const REMOVE: u8 = 3;
const RESET: u8 = 4;
const PUT_SPARSE: u8 = 5;

const HAS_ID: u8 = 1;
const HAS_SKETCH: u8 = 2;
const SHORT: u8 = 4;

impl Change {
    /// The number of sequences that it takes.
    pub fn count(&self) -> u32 {
        match self {
            Self::PutPacked { fingerprints } => fingerprints.len() as u32,
            Self::PutSparse { fingerprints } => {
                fingerprints.last().map_or(0, |(behind, _)| u32::from(*behind) + 1)
            }
            Self::Put { .. } | Self::Remove { .. } | Self::Reset { .. } => 1,
        }
    }
}

impl Record {
    /// Appends the bytes of the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = match &self.change {
            Change::Put { .. } => PUT,
            Change::PutPacked { .. } => PUT_PACKED,
            Change::PutSparse { .. } => PUT_SPARSE,
            Change::Remove { .. } => REMOVE,
            Change::Reset { .. } => RESET,
        };
        out.push(kind);
        out.extend_from_slice(&self.at_ms.to_le_bytes());
        match &self.change {
            Change::Put { document } => encode_document(document, out),
            Change::PutPacked { fingerprints } => {
                for fingerprint in fingerprints {
                    out.extend_from_slice(&fingerprint.bits().to_le_bytes());
                }
            }
            Change::PutSparse { fingerprints } => encode_sparse(fingerprints, out),
            Change::Remove { id } => out.extend_from_slice(id.as_str().as_bytes()),
            Change::Reset { fingerprint } => {
                out.extend_from_slice(&fingerprint.bits().to_le_bytes());
            }
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`NotARecord`].
    pub fn decode(bytes: &[u8]) -> Result<Self, NotARecord> {
        let mut rest = bytes;
        let [kind] = take(&mut rest)?;
        let at_ms = u64::from_le_bytes(take(&mut rest)?);
        let change = match kind {
            PUT => Change::Put { document: decode_document(&mut rest)? },
            PUT_PACKED => {
                let (packed, odd) = std::mem::take(&mut rest).as_chunks::<8>();
                if !odd.is_empty() || packed.is_empty() || packed.len() > PACKED_MAX {
                    return Err(NotARecord);
                }
                let bits = packed.iter().map(|bytes| u64::from_le_bytes(*bytes));
                Change::PutPacked { fingerprints: bits.map(Fingerprint::new).collect() }
            }
            PUT_SPARSE => Change::PutSparse { fingerprints: decode_sparse(&mut rest)? },
            REMOVE => Change::Remove { id: decode_id(std::mem::take(&mut rest))? },
            RESET => Change::Reset { fingerprint: decode_fingerprint(&mut rest)? },
            _ => return Err(NotARecord),
        };
        if rest.is_empty() { Ok(Self { at_ms, change }) } else { Err(NotARecord) }
    }
}

/// Flags, fingerprint, sketch if it has one, and the id to the end if it has one.
fn encode_document(document: &Document, out: &mut Vec<u8>) {
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    out.push(
        flag(document.id.is_some(), HAS_ID)
            | flag(document.sketch.is_some(), HAS_SKETCH)
            | flag(document.short, SHORT),
    );
    out.extend_from_slice(&document.fingerprint.bits().to_le_bytes());
    if let Some(sketch) = &document.sketch {
        out.extend_from_slice(&sketch.to_bytes());
    }
    if let Some(id) = &document.id {
        out.extend_from_slice(id.as_str().as_bytes());
    }
}

fn decode_document(rest: &mut &[u8]) -> Result<Document, NotARecord> {
    let [flags] = take(rest)?;
    if flags & !(HAS_ID | HAS_SKETCH | SHORT) != 0 {
        return Err(NotARecord);
    }
    let fingerprint = decode_fingerprint(rest)?;
    let sketch = match flags & HAS_SKETCH {
        0 => None,
        _ => Some(Box::new(Sketch::from_bytes(&take(rest)?))),
    };
    let id = match flags & HAS_ID {
        0 => None,
        _ => Some(decode_id(std::mem::take(rest))?),
    };
    Ok(Document { id, fingerprint, sketch, short: flags & SHORT != 0 })
}

/// The number of runs, the begin and length of each, then the fingerprints: at most half again as
/// long as the fingerprints alone, and never longer than before some were removed.
fn encode_sparse(fingerprints: &[(u16, Fingerprint)], out: &mut Vec<u8>) {
    let runs = || fingerprints.chunk_by(|(before, _), (after, _)| before + 1 == *after);
    out.extend_from_slice(&(runs().count() as u16).to_le_bytes());
    for run in runs() {
        out.extend_from_slice(&run[0].0.to_le_bytes());
        out.extend_from_slice(&(run.len() as u16).to_le_bytes());
    }
    for (_, fingerprint) in fingerprints {
        out.extend_from_slice(&fingerprint.bits().to_le_bytes());
    }
}

fn decode_sparse(rest: &mut &[u8]) -> Result<Vec<(u16, Fingerprint)>, NotARecord> {
    let runs = u16::from_le_bytes(take(rest)?);
    let mut places: Vec<u16> = Vec::new();
    for _ in 0..runs {
        let (begin, length) = (u16::from_le_bytes(take(rest)?), u16::from_le_bytes(take(rest)?));
        let follows = places.last().map_or(begin == 0, |last| begin > last + 1);
        let end = usize::from(begin) + usize::from(length);
        if !follows || length == 0 || end > PACKED_MAX {
            return Err(NotARecord);
        }
        places.extend(begin..begin + length);
    }
    if places.is_empty() {
        return Err(NotARecord);
    }
    places.into_iter().map(|place| Ok((place, decode_fingerprint(rest)?))).collect()
}

fn decode_fingerprint(rest: &mut &[u8]) -> Result<Fingerprint, NotARecord> {
    take(rest).map(u64::from_le_bytes).map(Fingerprint::new)
}

fn decode_id(bytes: &[u8]) -> Result<DocumentId, NotARecord> {
    let text = std::str::from_utf8(bytes).map_err(|_| NotARecord)?;
    DocumentId::new(text).map_err(|_| NotARecord)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], NotARecord> {
    let (taken, left) = rest.split_first_chunk().ok_or(NotARecord)?;
    *rest = left;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> impl Strategy<Value = Record> {
        let fingerprint = any::<u64>().prop_map(Fingerprint::new);
        let id = "[a-z]{1,40}|\u{4eca}\u{5929}".prop_map(|text| DocumentId::new(text).unwrap());
        let sketch = prop::collection::vec(any::<u8>(), Sketch::BYTES)
            .prop_map(|bytes| Box::new(Sketch::from_bytes(&bytes.try_into().unwrap())));
        let document = (
            prop::option::of(id.clone()),
            fingerprint.clone(),
            prop::option::of(sketch),
            any::<bool>(),
        )
            .prop_map(|(id, fingerprint, sketch, short)| Document {
                id,
                fingerprint,
                sketch,
                short,
            });
        let change = prop_oneof![
            document.prop_map(|document| Change::Put { document }),
            prop::collection::vec(fingerprint.clone(), 1..50)
                .prop_map(|fingerprints| Change::PutPacked { fingerprints }),
            prop::collection::btree_map(1_u16..8_192, fingerprint.clone(), 0..50).prop_map(
                |later| {
                    let first = (0, Fingerprint::new(7));
                    Change::PutSparse { fingerprints: [first].into_iter().chain(later).collect() }
                }
            ),
            id.prop_map(|id| Change::Remove { id }),
            fingerprint.prop_map(|fingerprint| Change::Reset { fingerprint }),
        ];
        (any::<u64>(), change).prop_map(|(at_ms, change)| Record { at_ms, change })
    }

    proptest! {
        #[test]
        fn records_come_back_as_they_went_in(record in records()) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            prop_assert_eq!(Record::decode(&bytes), Ok(record));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(record) = Record::decode(&bytes) {
                let mut again = Vec::new();
                record.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }

    /// These bytes are on disks, so a change here needs a new format version.
    #[test]
    fn the_bytes_of_each_kind_are_fixed() {
        let hex = |change: Change| {
            let mut bytes = Vec::new();
            Record { at_ms: 0x0102, change }.encode(&mut bytes);
            bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
        };
        let fingerprint = Fingerprint::new(0xab);
        let id = DocumentId::new("u").unwrap();
        let mut document = Document { id: Some(id.clone()), ..Document::bare(fingerprint) };
        document.short = true;
        assert_eq!(hex(Change::Put { document }), "01020100000000000005ab0000000000000075");
        let fingerprints = vec![fingerprint, Fingerprint::new(1)];
        assert_eq!(
            hex(Change::PutPacked { fingerprints }),
            "020201000000000000ab000000000000000100000000000000"
        );
        let fingerprints = vec![(0, fingerprint), (3, Fingerprint::new(1))];
        assert_eq!(
            hex(Change::PutSparse { fingerprints }),
            "0502010000000000000200000001000300010\
             0ab000000000000000100000000000000"
        );
        assert_eq!(hex(Change::Remove { id }), "03020100000000000075");
        assert_eq!(hex(Change::Reset { fingerprint }), "040201000000000000ab00000000000000");
    }
}

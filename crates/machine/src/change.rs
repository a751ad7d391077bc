//! What the journal records: accepted changes, and their bytes.
//!
//! A record is the *effect* of a command, not the command: a put for a check-and-insert that stored
//! its document, nothing for one that did not. So recovery repeats what was acknowledged, whatever
//! a later version would decide. `docs/disk-format.md` documents the bytes, which are
//! little-endian. The header of the journal has their version, and their frame the checksum.

use nearprint_fingerprint::{Fingerprint, Sketch};
use nearprint_index::id_key::IdKey;

use crate::document::{Document, DocumentId, Expiry, Metadata, Namespace, Packed, Sequence};
use crate::jobs::{JobState, NamespaceFilter, Progress, Purge};

/// The effect of an accepted command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A document was stored; one with the same id in its namespace is replaced.
    Put {
        document: Document,
    },
    /// Bare fingerprints were stored, each a change of its own.
    PutPacked {
        /// At least one and at most [`PACKED_MAX`].
        packed: Packed,
    },
    /// What is left of fingerprints that were stored together, after some were removed.
    PutSparse {
        namespace: Option<Namespace>,
        expiry: Option<Expiry>,
        /// Each with its distance from the first one, ascending from 0, below [`PACKED_MAX`].
        fingerprints: Vec<(u16, Fingerprint)>,
    },
    /// The document with this id was removed.
    Remove {
        namespace: Option<Namespace>,
        id: DocumentId,
    },
    /// A fingerprint was removed with all its documents in a namespace.
    Reset {
        namespace: Option<Namespace>,
        fingerprint: Fingerprint,
    },
    /// Documents of one namespace were removed, because they had expired or by a job.
    RemoveMany {
        namespace: Option<IdKey>,
        /// The change that stored each, ascending, and its fingerprint combined with the mask of
        /// the namespace; at most [`REMOVED_MAX`].
        documents: Vec<(Sequence, Fingerprint)>,
        /// The progress of the job, if it was one.
        progress: Option<Progress>,
    },
    PurgeBegun {
        purge: Purge,
    },
    JobEnded {
        job: u64,
        state: JobState,
    },
    /// What is left of the change that began a namespace, after its document was removed: the name.
    Named {
        namespace: Namespace,
    },
}

/// The maximum number of fingerprints in one record.
pub const PACKED_MAX: usize = 8_192;

/// The maximum number of documents that one record removes.
pub const REMOVED_MAX: usize = 4_096;

/// The payload of a journal record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When it was accepted, in milliseconds since 1970.
    pub at_ms: u64,
    pub change: Change,
}

/// Bytes with the right checksum that are not a record: a bug, or a record of a newer version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the payload of a journal record cannot be read")]
pub struct NotARecord;

const PUT: u8 = 1;
const PUT_PACKED: u8 = 2;
const REMOVE: u8 = 3;
const RESET: u8 = 4;
const PUT_SPARSE: u8 = 5;
const REMOVE_MANY: u8 = 6;
const PURGE_BEGUN: u8 = 7;
const JOB_ENDED: u8 = 8;
const NAMED: u8 = 9;

const HAS_ID: u8 = 1;
const HAS_SKETCH: u8 = 2;
const SHORT: u8 = 4;
const HAS_NAMESPACE: u8 = 8;
const HAS_EXPIRY: u8 = 16;
const HAS_METADATA: u8 = 32;
const HAS_PROGRESS: u8 = 64;

const IS_DRY_RUN: u8 = 1;
const OF_ALL_NAMESPACES: u8 = 2;
const HAS_PREFIX: u8 = 4;
const HAS_STORED_BEFORE: u8 = 16;

impl Change {
    /// Whether it adds documents.
    pub fn adds(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::PutPacked { .. } | Self::PutSparse { .. })
    }

    /// The number of sequences that it takes.
    pub fn count(&self) -> u32 {
        match self {
            Self::PutPacked { packed } => packed.fingerprints.len() as u32,
            Self::PutSparse { fingerprints, .. } => {
                fingerprints.last().map_or(0, |(behind, _)| u32::from(*behind) + 1)
            }
            Self::Put { .. }
            | Self::Remove { .. }
            | Self::Reset { .. }
            | Self::RemoveMany { .. }
            | Self::PurgeBegun { .. }
            | Self::JobEnded { .. }
            | Self::Named { .. } => 1,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Put { .. } => PUT,
            Self::PutPacked { .. } => PUT_PACKED,
            Self::PutSparse { .. } => PUT_SPARSE,
            Self::Remove { .. } => REMOVE,
            Self::Reset { .. } => RESET,
            Self::RemoveMany { .. } => REMOVE_MANY,
            Self::PurgeBegun { .. } => PURGE_BEGUN,
            Self::JobEnded { .. } => JOB_ENDED,
            Self::Named { .. } => NAMED,
        }
    }
}

impl Record {
    /// Appends the bytes of the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.change.kind());
        out.extend_from_slice(&self.at_ms.to_le_bytes());
        match &self.change {
            Change::Put { document } => encode_document(document, out),
            Change::PutPacked { packed } => {
                let Packed { namespace, expiry, fingerprints } = packed;
                encode_shared(namespace.as_ref(), *expiry, out);
                for fingerprint in fingerprints {
                    encode_fingerprint(*fingerprint, out);
                }
            }
            Change::PutSparse { namespace, expiry, fingerprints } => {
                encode_shared(namespace.as_ref(), *expiry, out);
                encode_sparse(fingerprints, out);
            }
            Change::Remove { namespace, id } => {
                encode_shared(namespace.as_ref(), None, out);
                out.extend_from_slice(id.as_str().as_bytes());
            }
            Change::Reset { namespace, fingerprint } => {
                encode_shared(namespace.as_ref(), None, out);
                encode_fingerprint(*fingerprint, out);
            }
            Change::RemoveMany { namespace, documents, progress } => {
                encode_removed(*namespace, documents, *progress, out);
            }
            Change::PurgeBegun { purge } => encode_purge(purge, out),
            Change::JobEnded { job, state } => {
                out.extend_from_slice(&job.to_le_bytes());
                out.push(state.code());
            }
            Change::Named { namespace } => encode_shared(Some(namespace), None, out),
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`NotARecord`].
    pub fn decode(bytes: &[u8]) -> Result<Self, NotARecord> {
        let mut rest = bytes;
        let [kind] = take(&mut rest)?;
        let at_ms = take_number(&mut rest)?;
        let change = match kind {
            PUT => Change::Put { document: decode_document(&mut rest)? },
            PUT_PACKED => {
                let (namespace, expiry) = decode_shared(&mut rest)?;
                let (packed, odd) = std::mem::take(&mut rest).as_chunks::<8>();
                if !odd.is_empty() || packed.is_empty() || packed.len() > PACKED_MAX {
                    return Err(NotARecord);
                }
                let bits = packed.iter().map(|bytes| u64::from_le_bytes(*bytes));
                let fingerprints = bits.map(Fingerprint::new).collect();
                Change::PutPacked { packed: Packed { namespace, expiry, fingerprints } }
            }
            PUT_SPARSE => {
                let (namespace, expiry) = decode_shared(&mut rest)?;
                Change::PutSparse { namespace, expiry, fingerprints: decode_sparse(&mut rest)? }
            }
            REMOVE => {
                let namespace = decode_namespace_alone(&mut rest)?;
                Change::Remove { namespace, id: decode_id(std::mem::take(&mut rest))? }
            }
            RESET => {
                let namespace = decode_namespace_alone(&mut rest)?;
                Change::Reset { namespace, fingerprint: decode_fingerprint(&mut rest)? }
            }
            REMOVE_MANY => decode_removed(&mut rest)?,
            PURGE_BEGUN => Change::PurgeBegun { purge: decode_purge(&mut rest)? },
            JOB_ENDED => {
                let (job, [state]) = (take_number(&mut rest)?, take(&mut rest)?);
                Change::JobEnded { job, state: JobState::of_code(state).ok_or(NotARecord)? }
            }
            NAMED => {
                let namespace = decode_namespace_alone(&mut rest)?.ok_or(NotARecord)?;
                Change::Named { namespace }
            }
            _ => return Err(NotARecord),
        };
        if rest.is_empty() { Ok(Self { at_ms, change }) } else { Err(NotARecord) }
    }
}

fn flag(is: bool, flag: u8) -> u8 {
    if is { flag } else { 0 }
}

/// Flags, fingerprint, expiry, namespace, metadata and sketch as far as it has them, and the id to
/// the end if it has one.
fn encode_document(document: &Document, out: &mut Vec<u8>) {
    out.push(
        flag(document.id.is_some(), HAS_ID)
            | flag(document.sketch.is_some(), HAS_SKETCH)
            | flag(document.short, SHORT)
            | flag(document.namespace.is_some(), HAS_NAMESPACE)
            | flag(document.expiry.is_some(), HAS_EXPIRY)
            | flag(document.metadata.is_some(), HAS_METADATA),
    );
    encode_fingerprint(document.fingerprint, out);
    encode_expiry(document.expiry, out);
    encode_namespace(document.namespace.as_ref(), out);
    if let Some(metadata) = &document.metadata {
        encode_text(metadata.as_str(), out);
    }
    if let Some(sketch) = &document.sketch {
        out.extend_from_slice(&sketch.to_bytes());
    }
    if let Some(id) = &document.id {
        out.extend_from_slice(id.as_str().as_bytes());
    }
}

fn decode_document(rest: &mut &[u8]) -> Result<Document, NotARecord> {
    let [flags] = take(rest)?;
    let known = HAS_ID | HAS_SKETCH | SHORT | HAS_NAMESPACE | HAS_EXPIRY | HAS_METADATA;
    if flags & !known != 0 {
        return Err(NotARecord);
    }
    let has = |flag: u8| flags & flag != 0;
    let fingerprint = decode_fingerprint(rest)?;
    let expiry = has(HAS_EXPIRY).then(|| decode_expiry(rest)).transpose()?;
    let namespace = has(HAS_NAMESPACE).then(|| decode_namespace(rest)).transpose()?;
    let metadata = has(HAS_METADATA).then(|| decode_metadata(rest)).transpose()?;
    let sketch = has(HAS_SKETCH).then(|| take(rest)).transpose()?;
    let sketch = sketch.map(|bytes| Box::new(Sketch::from_bytes(&bytes)));
    let id = has(HAS_ID).then(|| decode_id(std::mem::take(rest))).transpose()?;
    Ok(Document { namespace, id, fingerprint, sketch, short: has(SHORT), expiry, metadata })
}

/// Flags, expiry and namespace.
fn encode_shared(namespace: Option<&Namespace>, expiry: Option<Expiry>, out: &mut Vec<u8>) {
    out.push(flag(namespace.is_some(), HAS_NAMESPACE) | flag(expiry.is_some(), HAS_EXPIRY));
    encode_expiry(expiry, out);
    encode_namespace(namespace, out);
}

fn decode_shared(rest: &mut &[u8]) -> Result<(Option<Namespace>, Option<Expiry>), NotARecord> {
    let [flags] = take(rest)?;
    if flags & !(HAS_NAMESPACE | HAS_EXPIRY) != 0 {
        return Err(NotARecord);
    }
    let expiry = (flags & HAS_EXPIRY != 0).then(|| decode_expiry(rest)).transpose()?;
    let namespace = (flags & HAS_NAMESPACE != 0).then(|| decode_namespace(rest)).transpose()?;
    Ok((namespace, expiry))
}

fn decode_namespace_alone(rest: &mut &[u8]) -> Result<Option<Namespace>, NotARecord> {
    match decode_shared(rest)? {
        (namespace, None) => Ok(namespace),
        (_, Some(_)) => Err(NotARecord),
    }
}

fn encode_expiry(expiry: Option<Expiry>, out: &mut Vec<u8>) {
    if let Some(expiry) = expiry {
        out.extend_from_slice(&expiry.second().to_le_bytes());
    }
}

fn decode_expiry(rest: &mut &[u8]) -> Result<Expiry, NotARecord> {
    Expiry::at(u32::from_le_bytes(take(rest)?).into()).ok_or(NotARecord)
}

fn encode_namespace(namespace: Option<&Namespace>, out: &mut Vec<u8>) {
    if let Some(namespace) = namespace {
        encode_text(namespace.as_str(), out);
    }
}

fn decode_namespace(rest: &mut &[u8]) -> Result<Namespace, NotARecord> {
    Namespace::new(decode_text(rest)?).map_err(|_| NotARecord)
}

fn decode_metadata(rest: &mut &[u8]) -> Result<Metadata, NotARecord> {
    Metadata::new(decode_text(rest)?).ok_or(NotARecord)
}

/// The length in four bytes, and the text.
fn encode_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn decode_text<'a>(rest: &mut &'a [u8]) -> Result<&'a str, NotARecord> {
    let length = u32::from_le_bytes(take(rest)?) as usize;
    let (text, left) = rest.split_at_checked(length).ok_or(NotARecord)?;
    *rest = left;
    std::str::from_utf8(text).map_err(|_| NotARecord)
}

/// Flags, the key of the namespace, the progress, and each document.
fn encode_removed(
    namespace: Option<IdKey>,
    documents: &[(Sequence, Fingerprint)],
    progress: Option<Progress>,
    out: &mut Vec<u8>,
) {
    out.push(flag(namespace.is_some(), HAS_NAMESPACE) | flag(progress.is_some(), HAS_PROGRESS));
    if let Some(IdKey { high, low }) = namespace {
        out.extend_from_slice(&high.to_le_bytes());
        out.extend_from_slice(&low.to_le_bytes());
    }
    if let Some(Progress { job, through, matched, removed }) = progress {
        for number in [job, through.get(), matched, removed] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
    for (sequence, fingerprint) in documents {
        out.extend_from_slice(&sequence.get().to_le_bytes());
        encode_fingerprint(*fingerprint, out);
    }
}

fn decode_removed(rest: &mut &[u8]) -> Result<Change, NotARecord> {
    let [flags] = take(rest)?;
    if flags & !(HAS_NAMESPACE | HAS_PROGRESS) != 0 {
        return Err(NotARecord);
    }
    let key = |rest: &mut &[u8]| {
        Ok(IdKey { high: take_number(rest)?, low: u32::from_le_bytes(take(rest)?) })
    };
    let namespace = (flags & HAS_NAMESPACE != 0).then(|| key(rest)).transpose()?;
    let progress = |rest: &mut &[u8]| {
        let (job, through) = (take_number(rest)?, Sequence::new(take_number(rest)?));
        let (matched, removed) = (take_number(rest)?, take_number(rest)?);
        Ok(Progress { job, through, matched, removed })
    };
    let progress = (flags & HAS_PROGRESS != 0).then(|| progress(rest)).transpose()?;
    if rest.len() > REMOVED_MAX * 16 {
        return Err(NotARecord);
    }
    let mut documents = Vec::with_capacity(rest.len() / 16);
    while !rest.is_empty() {
        let sequence = Sequence::new(take_number(rest)?);
        documents.push((sequence, decode_fingerprint(rest)?));
    }
    if !documents.is_sorted_by(|(one, _), (other, _)| one < other) {
        return Err(NotARecord);
    }
    Ok(Change::RemoveMany { namespace, documents, progress })
}

fn encode_purge(purge: &Purge, out: &mut Vec<u8>) {
    let Purge { reach, prefix, stored_before_ms, dry_run } = purge;
    let namespace = match reach {
        NamespaceFilter::Namespace(namespace) => namespace.as_ref(),
        NamespaceFilter::All => None,
    };
    out.push(
        flag(*dry_run, IS_DRY_RUN)
            | flag(*reach == NamespaceFilter::All, OF_ALL_NAMESPACES)
            | flag(prefix.is_some(), HAS_PREFIX)
            | flag(namespace.is_some(), HAS_NAMESPACE)
            | flag(stored_before_ms.is_some(), HAS_STORED_BEFORE),
    );
    encode_namespace(namespace, out);
    if let Some(prefix) = prefix {
        encode_text(prefix, out);
    }
    if let Some(stored_before_ms) = stored_before_ms {
        out.extend_from_slice(&stored_before_ms.to_le_bytes());
    }
}

fn decode_purge(rest: &mut &[u8]) -> Result<Purge, NotARecord> {
    let [flags] = take(rest)?;
    let known = IS_DRY_RUN | OF_ALL_NAMESPACES | HAS_PREFIX | HAS_NAMESPACE | HAS_STORED_BEFORE;
    let has = |flag: u8| flags & flag != 0;
    if flags & !known != 0 || (has(OF_ALL_NAMESPACES) && has(HAS_NAMESPACE)) {
        return Err(NotARecord);
    }
    let namespace = has(HAS_NAMESPACE).then(|| decode_namespace(rest)).transpose()?;
    let reach = if has(OF_ALL_NAMESPACES) {
        NamespaceFilter::All
    } else {
        NamespaceFilter::Namespace(namespace)
    };
    let prefix = has(HAS_PREFIX).then(|| decode_text(rest).map(Box::from)).transpose()?;
    let stored_before_ms = has(HAS_STORED_BEFORE).then(|| take_number(rest)).transpose()?;
    Ok(Purge { reach, prefix, stored_before_ms, dry_run: has(IS_DRY_RUN) })
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
        encode_fingerprint(*fingerprint, out);
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

fn encode_fingerprint(fingerprint: Fingerprint, out: &mut Vec<u8>) {
    out.extend_from_slice(&fingerprint.bits().to_le_bytes());
}

fn decode_fingerprint(rest: &mut &[u8]) -> Result<Fingerprint, NotARecord> {
    take(rest).map(u64::from_le_bytes).map(Fingerprint::new)
}

fn decode_id(bytes: &[u8]) -> Result<DocumentId, NotARecord> {
    let text = std::str::from_utf8(bytes).map_err(|_| NotARecord)?;
    DocumentId::new(text).map_err(|_| NotARecord)
}

fn take_number(rest: &mut &[u8]) -> Result<u64, NotARecord> {
    take(rest).map(u64::from_le_bytes)
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

    #[expect(clippy::too_many_lines, reason = "one strategy a kind")]
    fn records() -> impl Strategy<Value = Record> {
        let fingerprint = any::<u64>().prop_map(Fingerprint::new);
        let id = "[a-z]{1,40}|\u{4eca}\u{5929}".prop_map(|text| DocumentId::new(text).unwrap());
        let sketch = prop::collection::vec(any::<u8>(), Sketch::BYTES)
            .prop_map(|bytes| Box::new(Sketch::from_bytes(&bytes.try_into().unwrap())));
        let name = "[a-z/]{1,40}|\u{4eca}{85}".prop_map(|text| Namespace::new(text).unwrap());
        let namespace = prop::option::of(name.clone());
        let expiry = any::<u32>().prop_map(|second| Expiry::at(second.into()));
        let metadata =
            prop::option::of("\\{[a-z\": ]{0,40}\\}").prop_map(|json| json.and_then(Metadata::new));
        let document = (
            namespace.clone(),
            prop::option::of(id.clone()),
            fingerprint.clone(),
            prop::option::of(sketch),
            any::<bool>(),
            expiry.clone(),
            metadata,
        )
            .prop_map(|(namespace, id, fingerprint, sketch, short, expiry, metadata)| Document {
                namespace,
                id,
                fingerprint,
                sketch,
                short,
                expiry,
                metadata,
            });
        let sparse = prop::collection::btree_map(1_u16..8_192, fingerprint.clone(), 0..50);
        let removed = prop::collection::btree_map(any::<u64>(), fingerprint.clone(), 0..50);
        let key = (any::<u64>(), any::<u32>()).prop_map(|(high, low)| IdKey { high, low });
        let progress = any::<[u64; 4]>().prop_map(|[job, through, matched, removed]| {
            let through = Sequence::new(through);
            Progress { job, through, matched, removed }
        });
        let reach = prop_oneof![
            Just(NamespaceFilter::All),
            namespace.clone().prop_map(NamespaceFilter::Namespace)
        ];
        let prefix = prop::option::of("[a-z]{0,20}".prop_map(String::into_boxed_str));
        let purge = (reach, prefix, prop::option::of(any::<u64>()), any::<bool>()).prop_map(
            |(reach, prefix, stored_before_ms, dry_run)| Purge {
                reach,
                prefix,
                stored_before_ms,
                dry_run,
            },
        );
        let change = prop_oneof![
            document.prop_map(|document| Change::Put { document }),
            (namespace.clone(), expiry.clone(), prop::collection::vec(fingerprint.clone(), 1..50))
                .prop_map(|(namespace, expiry, fingerprints)| Change::PutPacked {
                    packed: Packed { namespace, expiry, fingerprints }
                }),
            (namespace.clone(), expiry, sparse).prop_map(|(namespace, expiry, later)| {
                let first = (0, Fingerprint::new(7));
                let fingerprints = [first].into_iter().chain(later).collect();
                Change::PutSparse { namespace, expiry, fingerprints }
            }),
            (namespace.clone(), id).prop_map(|(namespace, id)| Change::Remove { namespace, id }),
            (namespace, fingerprint)
                .prop_map(|(namespace, fingerprint)| Change::Reset { namespace, fingerprint }),
            (prop::option::of(key), removed, prop::option::of(progress)).prop_map(
                |(namespace, removed, progress)| Change::RemoveMany {
                    namespace,
                    documents: removed.into_iter().map(|(s, f)| (Sequence::new(s), f)).collect(),
                    progress,
                }
            ),
            purge.prop_map(|purge| Change::PurgeBegun { purge }),
            (any::<u64>(), 1_u8..4).prop_map(|(job, code)| Change::JobEnded {
                job,
                state: JobState::of_code(code).unwrap(),
            }),
            name.prop_map(|namespace| Change::Named { namespace }),
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
        let name = Namespace::new("n").unwrap();
        let namespace = Some(name.clone());
        let expiry = Expiry::at(0x0304);
        let bare = Document { id: Some(id.clone()), short: true, ..Document::bare(fingerprint) };
        let whole = Document {
            namespace: namespace.clone(),
            expiry,
            metadata: Metadata::new("{}"),
            ..bare.clone()
        };
        let put = |document| hex(Change::Put { document });
        assert_eq!(put(bare), "01020100000000000005ab0000000000000075");
        assert_eq!(
            put(whole),
            "0102010000000000003dab000000000000000403000001000000\
             6e020000007b7d75"
        );
        let fingerprints = vec![fingerprint, Fingerprint::new(1)];
        let packed = Packed { namespace: None, expiry, fingerprints };
        assert_eq!(
            hex(Change::PutPacked { packed }),
            "0202010000000000001004030000ab000000000000000100000000000000"
        );
        let fingerprints = vec![(0, fingerprint), (3, Fingerprint::new(1))];
        assert_eq!(
            hex(Change::PutSparse { namespace: None, expiry: None, fingerprints }),
            "050201000000000000000200000001000300010\
             0ab000000000000000100000000000000"
        );
        let named = |namespace: &Option<Namespace>| {
            hex(Change::Remove { namespace: namespace.clone(), id: id.clone() })
        };
        assert_eq!(named(&None), "0302010000000000000075");
        assert_eq!(named(&namespace), "03020100000000000008010000006e75");
        assert_eq!(
            hex(Change::Reset { namespace: None, fingerprint }),
            "04020100000000000000ab00000000000000"
        );
        let progress = Some(Progress { job: 7, through: Sequence::new(9), matched: 3, removed: 2 });
        let documents = vec![(Sequence::new(9), fingerprint)];
        let key = Some(IdKey { high: 1, low: 2 });
        assert_eq!(
            hex(Change::RemoveMany { namespace: key, documents, progress }),
            "06020100000000000048010000000000000002000000\
             070000000000000009000000000000000300000000000000020000000000000009000000000000\
             00ab00000000000000"
        );
        let purge = Purge {
            reach: NamespaceFilter::Namespace(namespace.clone()),
            prefix: Some("p".into()),
            stored_before_ms: Some(3),
            dry_run: true,
        };
        assert_eq!(
            hex(Change::PurgeBegun { purge }),
            "0702010000000000001d010000006e01000000700300000000000000"
        );
        assert_eq!(
            hex(Change::JobEnded { job: 7, state: JobState::Cancelled }),
            "080201000000000000070000000000000003"
        );
        assert_eq!(hex(Change::Named { namespace: name }), "09020100000000000008010000006e");
    }
}

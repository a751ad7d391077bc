//! Checks that record files follow one another without a gap.
//!
//! Every sequence from 1 on belongs to a journal file or to a pack, and a pack stands for its whole
//! range, however many of its records were reclaimed. So the first file begins at sequence 1, and
//! each other file begins where the one before it ends. Otherwise a file is missing, and its
//! documents would be gone unnoticed.
//!
//! The end of a pack is in its header; the end of a closed journal file is in the seal at its end.
//! A journal file that was closed while the disk was full may have no seal: then the chain value of
//! its last frame must be the one that the next file begins with.
//!
//! Reads only the header and the last frame of each file; [`mod@crate::journal::recovery`]
//! finds damage in between. Tested by removing, cutting and swapping each file of small directories
//! and exports.

use crate::disk::DiskFile;
use crate::error::{Damage, MissingRecords, StorageError};
use crate::frame;
use crate::frame::FRAME_OVERHEAD_BYTES;
use crate::header::Identity;
use crate::journal::header::{JOURNAL_HEADER_BYTES, PACK_HEADER_BYTES, RecordHeader};
use crate::names::{RecordFiles, record_range};

/// The beginning of a record file, with a header of either kind.
const HEAD_BYTES: usize = PACK_HEADER_BYTES;
/// The end of a record file, with its seal.
const END_BYTES: usize = FRAME_OVERHEAD_BYTES;

/// The first and the last bytes of a record file.
#[derive(Debug)]
pub(crate) struct Ends {
    name: String,
    bytes: u64,
    /// The first [`HEAD_BYTES`] bytes, or all of a shorter file.
    head: Vec<u8>,
    /// The last [`END_BYTES`] bytes, or all of a shorter file.
    end: Vec<u8>,
}

impl Ends {
    /// The ends of a file of this length, still to be collected with [`Self::add`].
    pub(crate) fn new(name: &str, bytes: u64) -> Self {
        Self { name: name.to_owned(), bytes, head: Vec::new(), end: Vec::new() }
    }

    /// Adds the next part of the file.
    pub(crate) fn add(&mut self, part: &[u8]) {
        let missing = HEAD_BYTES.saturating_sub(self.head.len()).min(part.len());
        self.head.extend_from_slice(part.get(..missing).unwrap_or_default());
        let skipped = part.len().saturating_sub(END_BYTES);
        self.end.extend_from_slice(part.get(skipped..).unwrap_or_default());
        self.end.drain(..self.end.len().saturating_sub(END_BYTES));
    }

    /// Reads the ends of a file that is `bytes` long.
    pub(crate) fn read(name: &str, file: &dyn DiskFile, bytes: u64) -> Result<Self, StorageError> {
        let mut head = vec![0; HEAD_BYTES.min(usize::try_from(bytes).unwrap_or(HEAD_BYTES))];
        file.read_at(0, &mut head)?;
        let mut end = vec![0; END_BYTES.min(usize::try_from(bytes).unwrap_or(END_BYTES))];
        file.read_at(bytes.saturating_sub(end.len() as u64), &mut end)?;
        Ok(Self { name: name.to_owned(), bytes, head, end })
    }

    fn span(&self, identity: &Identity, is_newest: bool) -> Result<Span<'_>, StorageError> {
        let Self { name, bytes, head, end } = self;
        let span = |first, next, chain_before, chain_after| Span {
            name,
            bytes: *bytes,
            first,
            next,
            chain_before,
            chain_after,
        };
        let RecordHeader { first, chain, pack, .. } =
            match RecordHeader::decode(name, head, identity) {
                Ok(header) => header,
                // A crash cut its rotation short, and the next start removes it.
                Err(_) if is_newest => {
                    let (first, _) = record_range(name).unwrap_or_default();
                    return Ok(span(first, None, None, None));
                }
                Err(error) => return Err(error),
            };
        if let Some(pack) = pack {
            return Ok(span(first, Some(pack.next), None, Some(chain)));
        }
        let (next, chain_after) = if *bytes <= JOURNAL_HEADER_BYTES as u64 {
            (Some(first), Some(chain))
        } else {
            match frame::decode(end, identity.seed()) {
                Ok(seal) if seal.header.count == 0 => {
                    (Some(seal.header.sequence), Some(seal.chain))
                }
                Ok(_) | Err(_) => (None, frame::chain_at_end(end)),
            }
        };
        Ok(span(first, next, Some(chain), chain_after))
    }
}

/// The range of a record file, and the chain values at its ends.
struct Span<'a> {
    name: &'a str,
    bytes: u64,
    first: u64,
    /// The sequence after its range, if the file has it.
    next: Option<u64>,
    /// The chain value that a journal file continues.
    chain_before: Option<u64>,
    /// The chain value that the journal file after it continues.
    chain_after: Option<u64>,
}

/// Checks that these record files, in any order, cover every sequence from 1 on.
///
/// # Errors
/// [`StorageError::Missing`] if no file covers some sequences; [`StorageError::Damaged`] if two
/// files do not continue one another.
pub(crate) fn check(files: &[Ends], identity: &Identity) -> Result<(), StorageError> {
    let found = RecordFiles::among(files.iter().map(|file| file.name.clone()).collect());
    let newest = found.newest_journal();
    let mut spans = Vec::new();
    for name in found.files.iter().map(|file| file.name.as_str()) {
        let file = files.iter().find(|file| file.name == name);
        spans.extend(file.map(|file| file.span(identity, newest == Some(name))).transpose()?);
    }
    if spans.is_empty() {
        let none = MissingRecords { first: 1, last: None, followed_by: None };
        return Err(StorageError::Missing(none));
    }
    spans.sort_by_key(|span| span.first);
    check_spans(&spans)
}

fn check_spans(spans: &[Span<'_>]) -> Result<(), StorageError> {
    let mut before: Option<&Span<'_>> = None;
    for span in spans {
        let expected = before.map_or(Some(1), |before| before.next);
        if let Some(first) = expected.filter(|expected| *expected < span.first) {
            let last = Some(span.first.saturating_sub(1));
            let followed_by = Some(span.name.to_owned());
            return Err(StorageError::Missing(MissingRecords { first, last, followed_by }));
        }
        if expected.is_some_and(|expected| expected > span.first) {
            return Err(StorageError::damaged(span.name, 0, span.first, Damage::Chain));
        }
        if let Some(before) = before
            && let (Some(after), Some(begins)) = (before.chain_after, span.chain_before)
            && after != begins
        {
            return Err(if before.next.is_some() {
                StorageError::damaged(span.name, 0, span.first, Damage::Chain)
            } else {
                // Its last durable record is not at its end.
                let sequence = span.first.saturating_sub(1);
                StorageError::damaged(before.name, before.bytes, sequence, Damage::EndsEarly)
            });
        }
        before = Some(span);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FrameHeader;
    use crate::names::journal_name;

    /// A file with one record of one change, closed without a seal, and the file after it.
    fn pair_without_a_seal(chain_after: impl FnOnce(u64) -> u64) -> [Ends; 2] {
        let identity = Identity::new([7; 16], "np2");
        let record =
            FrameHeader { payload_bytes: 3, count: 1, sequence: 1, chain: 0, durable_upto: 0 };
        let mut frames = Vec::new();
        let chain = frame::encode(&mut frames, identity.seed(), &record, b"abc");
        let file = |first, chain, frames: &[u8]| {
            let header = RecordHeader { identity, first, chain, pack: None };
            let bytes = [&header.encode(), frames].concat();
            let mut ends = Ends::new(&header.name(), bytes.len() as u64);
            ends.add(&bytes);
            ends
        };
        [file(1, 0, &frames), file(2, chain_after(chain), &[])]
    }

    #[test]
    fn a_file_that_was_closed_on_a_full_disk_needs_no_seal() {
        let identity = Identity::new([7; 16], "np2");
        check(&pair_without_a_seal(|chain| chain), &identity).unwrap();
        let error = check(&pair_without_a_seal(|chain| chain + 1), &identity).unwrap_err();
        let StorageError::Damaged { file, why, .. } = error else { panic!("{error}") };
        assert_eq!((file, why), (journal_name(1), Damage::EndsEarly));
    }
}

//! How much garbage the journal has, known without reading it again.
//!
//! A survey reads files and knows exactly what is needed of them at one moment. Since then every
//! change either stored a document or is useless, and each document removed since leaves a useless
//! record, so the number of useless records is known, and [`Sizes`] bounds their bytes. A snapshot
//! keeps the survey, and a recovery reads the files after it, so a restart forgets nothing.

use std::io::{self, Read};

use nearprint_index::view::View;
use nearprint_machine::document::Sequence;
use nearprint_storage::Records;
use nearprint_storage::sizes::Sizes;

/// The result of the last survey; before the first, that of surveying no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Survey {
    /// The sequence after the files that it read.
    pub(crate) next: u64,
    /// The last change at the time.
    pub(crate) sequence: Sequence,
    /// The number of stored documents at the time.
    pub(crate) stored: u64,
    /// The bytes of only the needed records in these files.
    pub(crate) live_bytes: u64,
    /// The sizes of the needed records in these files.
    pub(crate) sizes: Sizes,
    /// The number of changes after these files, up to `sequence`, that did not leave a stored
    /// document.
    pub(crate) useless_after: u64,
    /// The sizes of the records in later files that begin before `read_from`, as a snapshot keeps
    /// them, because a recovery does not read these files.
    pub(crate) unread: Sizes,
    pub(crate) read_from: u64,
}

impl Survey {
    /// A survey that has read no file, of a directory whose files have records of this many
    /// changes.
    pub(crate) fn of_no_file(view: &View, changes: u64) -> Self {
        Self {
            next: 1,
            sequence: view.sequence(),
            stored: view.documents(),
            live_bytes: 0,
            sizes: Sizes::default(),
            useless_after: changes.saturating_sub(view.documents()),
            unread: Sizes::default(),
            read_from: 1,
        }
    }

    /// The same for a snapshot of the state at `sequence`.
    pub(crate) fn for_snapshot(&self, records: &Records, sequence: Sequence) -> Self {
        let mut kept = self.clone();
        // A recovery from the snapshot reads this file and those after it.
        kept.read_from = records.file_of(sequence.next().get()).max(self.read_from);
        let begin = self.next.max(self.read_from);
        kept.unread.merge(&records.sizes(begin..kept.read_from));
        kept
    }

    /// The garbage in the files that it read.
    pub(crate) fn garbage(&self, records: &Records) -> u64 {
        records.bytes_before(self.next).saturating_sub(self.live_bytes)
    }

    /// The upper bound of garbage in all files, for a later view.
    pub(crate) fn garbage_at_most(&self, records: &Records, view: &View) -> u64 {
        // Each change since is a new document or useless, and each document removed since leaves a
        // useless record.
        let changes = view.sequence().get().saturating_sub(self.sequence.get());
        let useless = (changes + self.stored).saturating_sub(view.documents());
        let mut after = self.unread.clone();
        after.merge(&records.sizes(self.next.max(self.read_from)..u64::MAX));
        let all = records.extent().bytes;
        let bytes_after = all.saturating_sub(records.bytes_before(self.next));
        let garbage_after = after.largest(self.useless_after + useless).min(bytes_after);
        (self.garbage(records) + self.sizes.largest(useless) + garbage_after).min(all)
    }

    /// Numbers of 8 bytes, in the order of the fields.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let numbers = [
            self.next,
            self.sequence.get(),
            self.stored,
            self.live_bytes,
            self.useless_after,
            self.read_from,
        ];
        for number in numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
        self.sizes.encode(out);
        self.unread.encode(out);
    }

    /// What [`Self::encode`] has written.
    pub(crate) fn decode(source: &mut dyn Read) -> io::Result<Self> {
        let mut numbers = [0; 6];
        for number in &mut numbers {
            let mut bytes = [0; 8];
            source.read_exact(&mut bytes)?;
            *number = u64::from_le_bytes(bytes);
        }
        let [next, sequence, stored, live_bytes, useless_after, read_from] = numbers;
        let sequence = Sequence::new(sequence);
        let (sizes, unread) = (Sizes::decode(source)?, Sizes::decode(source)?);
        Ok(Self { next, sequence, stored, live_bytes, sizes, useless_after, unread, read_from })
    }
}

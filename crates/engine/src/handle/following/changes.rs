//! The changes of a primary, as messages for a follower.
//!
//! The messages are those of a [cluster](crate::replication::message), in a stream that is a log of
//! its own: it begins with the digest 0, and its messages have no role. They contain what readers
//! see, so nothing that a follower has can be taken back by a crash of the primary, as long as the
//! primary syncs before it acknowledges.
//!
//! When everything is sent, an empty message says so, with the number of documents; and so does one
//! every second without changes. Cost: a sequential read of the journal, a copy and a pass of XXH3.

use std::sync::Arc;
use std::time::Duration;

use nearprint_machine::document::Sequence;
use nearprint_machine::query::Touch;
use nearprint_storage::{
    DiskFile, ExportFile, FRAME_HEADER_BYTES, FileWindow, JOURNAL_HEADER_BYTES, RecordRef, Records,
    StorageError, StoredRecord, decode_header, record_range,
};
use tokio::sync::broadcast;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::api::error::Refused;
use crate::handle::Engine;
use crate::replication::message::{Digest, LeaderId, MESSAGE_BYTES_MAX, Message, SenderRole};
use crate::shared::{Life, Shared};
use crate::state::touches::{heard, sum};

/// The time without changes after which a message says that there are none.
const BEAT: Duration = Duration::from_secs(1);

/// Bytes of records after which a message takes no further one: with the largest record and what
/// surrounds each it has room for them.
const RECORDS_BYTES: usize = MESSAGE_BYTES_MAX / 2;

/// The size of a read of the journal.
const READ_BYTES: usize = 256 << 10;

/// Stands for the number of documents in messages with changes, where it is not known.
pub(crate) const DOCUMENTS_UNKNOWN: u64 = u64::MAX;

/// How far a copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerPosition {
    /// The last change that it has.
    pub sequence: Sequence,
    /// The XXH3-64 of the record of this change; `None` if it is not there any more.
    pub record: Option<u64>,
}

/// Why a primary sends no changes, or no more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangesEnd {
    /// The follower has another history.
    #[error("{0}")]
    Diverged(String),
    /// Removals before this one are no longer in the journal.
    #[error("the changes after {0} are packed already, without the removals among them")]
    Packed(Sequence),
    /// The engine stops, or cannot read a record.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// The changes after a position, without an end.
#[derive(Debug)]
pub struct Changes {
    shared: Arc<Shared>,
    prev: Digest,
    /// The sequence of the next change to send.
    next: u64,
    /// The file that was read last, and the offset of the first record that was not.
    read_upto: Option<(String, u64)>,
    /// The number of documents after the last change, if the follower does not know yet that it has
    /// everything.
    level: Option<u64>,
    named: broadcast::Receiver<Touch>,
}

impl Engine {
    /// How far this copy has come. Reads the last record.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub fn follower_position(&self) -> Result<FollowerPosition, Refused> {
        let state = self.shared.published.load();
        let sequence = state.view.sequence();
        Ok(FollowerPosition { sequence, record: record_digest(&state.records, sequence)? })
    }

    /// The changes after the position of a follower. Blocks for a read or two.
    ///
    /// # Errors
    /// [`ChangesEnd`].
    pub fn changes(&self, after: &FollowerPosition) -> Result<Changes, ChangesEnd> {
        let shared = Arc::clone(&self.shared);
        let state = shared.published.load_full();
        let (own, theirs) = (state.view.sequence(), after.sequence);
        if theirs > own {
            return Err(ChangesEnd::Diverged(format!(
                "the follower has {theirs} changes, and its primary has {own}: the primary has lost \
                 some, or is another one"
            )));
        }
        let own_record = record_digest(&state.records, theirs)?;
        if let (Some(own), Some(theirs)) = (own_record, after.record)
            && own != theirs
        {
            return Err(ChangesEnd::Diverged(format!(
                "change {} of the follower is another one than that of its primary",
                after.sequence
            )));
        }
        let named = shared.touches.subscribe();
        let level = (theirs == own).then(|| state.view.documents());
        let next = theirs.next().get();
        let changes = Changes { shared, prev: Digest(0), next, read_upto: None, level, named };
        if level.is_none() {
            // Whether the journal still has them shows before the reply begins.
            find_record(&state.records, next, None)?;
        }
        Ok(changes)
    }
}

/// The XXH3-64 of the record of a change; `None` before the first one, and if it is not there any
/// more.
fn record_digest(records: &Records, sequence: Sequence) -> Result<Option<u64>, Refused> {
    if sequence == Sequence::ZERO {
        return Ok(None);
    }
    match records.read(sequence.get()) {
        Ok(record) => Ok(Some(xxh3_64_with_seed(&record.payload, records.seed().0))),
        Err(StorageError::Reclaimed { .. } | StorageError::NoRecord { .. }) => Ok(None),
        Err(error) => Err(unreadable(&error)),
    }
}

fn unreadable(error: &StorageError) -> Refused {
    tracing::error!(%error, "the journal cannot be read for a follower");
    Refused::Unreadable
}

impl Changes {
    /// The next message after its length in four bytes, as soon as there is something to say.
    ///
    /// # Errors
    /// [`ChangesEnd`]: there will be no further one.
    pub async fn next(&mut self) -> Result<Vec<u8>, ChangesEnd> {
        let shared = Arc::clone(&self.shared);
        loop {
            let changed = shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if shared.life() != Life::Running {
                return Err(Refused::Stopping.into());
            }
            if let Some(documents) = self.level.take() {
                return Ok(self.message(&[], documents));
            }
            let state = shared.published.load_full();
            let last = state.view.sequence();
            if self.next <= last.get() {
                let (records, documents) = (state.records.clone(), state.view.documents());
                drop(state);
                return self.read(records, last, documents).await;
            }
            let documents = state.view.documents();
            drop(state);
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(BEAT) => self.level = Some(documents),
            }
        }
    }

    /// A message with the records up to this change, or as many as it has room for.
    async fn read(
        &mut self,
        records: Records,
        last: Sequence,
        documents: u64,
    ) -> Result<Vec<u8>, ChangesEnd> {
        let (next, read_upto) = (self.next, self.read_upto.take());
        let read = move || read_records(&records, next, last.get(), read_upto);
        let (read, read_upto) = tokio::task::spawn_blocking(read)
            .await
            .unwrap_or(Err(ChangesEnd::Refused(Refused::Failed)))?;
        self.read_upto = Some(read_upto);
        let message = self.message(&read, DOCUMENTS_UNKNOWN);
        self.level = (self.next > last.get()).then_some(documents);
        Ok(message)
    }

    fn message(&mut self, records: &[StoredRecord], documents: u64) -> Vec<u8> {
        let mut message = Message {
            role: SenderRole::Write,
            prev: self.prev,
            leader: LeaderId(0),
            first: self.next,
            at_ms: Engine::now_ms(),
            documents,
            distance_max: self.shared.options.distance_max.get(),
            records: records.iter().map(borrowed).collect(),
            touches: Vec::new(),
        };
        message.touches = sum(heard(&mut self.named).take(message.touches_max()));
        self.next = message.next();
        let (bytes, digest) = message.encode(&self.shared.identity);
        self.prev = digest;
        [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
    }
}

fn borrowed(record: &StoredRecord) -> RecordRef<'_> {
    RecordRef { first: record.first, count: record.count, payload: &record.payload }
}

/// Reads records from `next` on, up to `last`, until a message is full enough.
fn read_records(
    records: &Records,
    next: u64,
    last: u64,
    read_upto: Option<(String, u64)>,
) -> Result<(Vec<StoredRecord>, (String, u64)), ChangesEnd> {
    let (file, mut offset) = find_record(records, next, read_upto)?;
    let (mut next, mut bytes, mut found) = (next, 0, Vec::new());
    let mut window = FileWindow::new(&*file.file, READ_BYTES);
    let failed = |error: StorageError| ChangesEnd::Refused(unreadable(&error));
    while next <= last && bytes < RECORDS_BYTES && offset < file.bytes {
        let frame = window.frame(offset, records.seed()).map_err(failed)?;
        let frame = frame.map_err(|_| ChangesEnd::Refused(Refused::Unreadable))?;
        offset += frame.header.frame_bytes() as u64;
        let Some(record) = frame.record() else { continue };
        if record.first != next {
            return Err(ChangesEnd::Diverged(format!(
                "change {next} is within a record of the primary, and the first one that the follower \
                 lacks"
            )));
        }
        next += u64::from(record.count);
        bytes += record.payload.len() + size_of::<u64>();
        let RecordRef { first, count, payload } = record;
        found.push(StoredRecord { first, count, payload: payload.to_vec() });
    }
    if found.is_empty() {
        tracing::error!(
            file = file.name,
            sequence = next,
            "the journal ends before its last change"
        );
        return Err(ChangesEnd::Refused(Refused::Unreadable));
    }
    Ok((found, (file.name, offset)))
}

/// The file with the record of a change, and the offset at which it begins; `read_upto` is where
/// the last read has ended.
fn find_record(
    records: &Records,
    next: u64,
    read_upto: Option<(String, u64)>,
) -> Result<(ExportFile, u64), ChangesEnd> {
    let mut files = records.files();
    let first = |file: &ExportFile| record_range(&file.name).map_or(0, |(first, _)| first);
    let after = files.partition_point(|file| first(file) <= next);
    let packed = || ChangesEnd::Packed(Sequence::new(next.saturating_sub(1)));
    let file = files.drain(..after).next_back().ok_or_else(packed)?;
    if record_range(&file.name).is_none_or(|(_, pack_ends)| pack_ends.is_some()) {
        return Err(packed());
    }
    let begin = match read_upto {
        Some((name, offset)) if name == file.name => return Ok((file, offset)),
        _ => JOURNAL_HEADER_BYTES as u64,
    };
    let offset = skip(&*file.file, records, begin..file.bytes, next)?;
    Ok((file, offset))
}

/// Where the record of a change begins in a file of the journal, or its end.
fn skip(
    file: &dyn DiskFile,
    records: &Records,
    within: std::ops::Range<u64>,
    next: u64,
) -> Result<u64, ChangesEnd> {
    let mut window = FileWindow::new(file, READ_BYTES);
    let mut offset = within.start;
    while offset < within.end {
        let bytes = window.at(offset, FRAME_HEADER_BYTES);
        let bytes = bytes.map_err(|error| ChangesEnd::Refused(unreadable(&error)))?;
        let header = decode_header(bytes, records.seed());
        let header = header.map_err(|_| ChangesEnd::Refused(Refused::Unreadable))?;
        if header.next_sequence() > next {
            break;
        }
        offset += header.frame_bytes() as u64;
    }
    Ok(offset)
}

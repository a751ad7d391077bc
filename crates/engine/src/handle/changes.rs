//! The changes of a primary, as messages for a follower.
//!
//! ```text
//!   primary   Changes         its journal after a sequence, as messages; waits at the end
//!   follower  PrimaryReader   verifies their order; a node that never leads enacts them
//! ```
//!
//! The copy begins with an export of the primary ([`follower::seed`]), so both have the same
//! identity and the same secrets. From there on the follower asks for what it lacks, by sequence:
//! its own journal is its position. It cannot ask for records that the primary has packed, because
//! packs leave removals out; then it begins again with an export.
//!
//! The messages are those of a [cluster](crate::replication::message). They contain what readers
//! see, so nothing that a follower has can be taken back by a crash of the primary, as long as the
//! primary syncs before it acknowledges.
//!
//! When everything is sent, an empty message says so, with the number of documents; and so does one
//! every second without changes. A primary whose history is another one is noticed by that number,
//! and by the last record that the follower has. Cost: a sequential read of the journal, a copy and
//! a pass of XXH3.
//!
//! [`follower::seed`]: crate::directories::follower::seed

use std::sync::Arc;

use nearprint_machine::document::Sequence;
use nearprint_machine::query::Touch;
use nearprint_storage::{
    DiskFile, ExportFile, FRAME_HEADER_BYTES, FileWindow, Identity, JOURNAL_HEADER_BYTES,
    RecordRef, Records, StorageError, StoredRecord, decode_header, record_range,
};
use tokio::sync::broadcast;
use tokio::time::Instant;

use crate::api::error::Refused;
use crate::handle::Engine;
use crate::replication::message::{
    DOCUMENTS_UNKNOWN, Digest, LeaderId, MESSAGE_BYTES_MAX, Message, SenderRole,
};
use crate::replication::mutant::{self, Mutant};
use crate::replication::primary_reader::{BEAT, FollowerPosition};
use crate::shared::{Life, Shared};
use crate::state::published::Published;
use crate::state::touches::{heard, sum};

/// Bytes of records after which a message takes no further one: with the largest record and what
/// surrounds each it has room for them.
const RECORDS_BYTES: usize = MESSAGE_BYTES_MAX / 2;

/// The size of a read of the journal.
const READ_BYTES: usize = 256 << 10;

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
    cursor: ChangesCursor,
    /// The number of documents after the last change, if the follower does not know yet that it has
    /// everything.
    level: Option<u64>,
    /// When the next message is due at the latest.
    beat_at: Instant,
    named: broadcast::Receiver<Touch>,
}

/// Where the changes after a position are, and the chain of their messages.
#[derive(Debug, Clone)]
pub(crate) struct ChangesCursor {
    identity: Identity,
    distance_max: u8,
    prev: Digest,
    /// The sequence of the next change to send.
    next: u64,
    /// The file that was read last, and the offset of the first record that was not.
    read_upto: Option<(String, u64)>,
}

impl Engine {
    /// The changes after the position of a follower. Blocks for a read or two.
    ///
    /// # Errors
    /// [`ChangesEnd`].
    pub fn changes(&self, after: &FollowerPosition) -> Result<Changes, ChangesEnd> {
        let shared = Arc::clone(&self.shared);
        let state = shared.published.load_full();
        let distance_max = shared.options.distance_max.get();
        let cursor = ChangesCursor::begin(&state, after, (shared.identity, distance_max))?;
        let named = shared.touches.subscribe();
        let level = cursor.is_level(&state).then(|| state.view.documents());
        Ok(Changes { shared, cursor, level, beat_at: Instant::now() + BEAT, named })
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
            if !self.cursor.is_level(&state) {
                return self.read(state).await;
            }
            let documents = state.view.documents();
            drop(state);
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(self.beat_at) => self.level = Some(documents),
            }
        }
    }

    /// A message with the records of this state, or as many as it has room for.
    async fn read(&mut self, state: Arc<Published>) -> Result<Vec<u8>, ChangesEnd> {
        let (last, documents) = (state.view.sequence(), state.view.documents());
        let records = state.records.clone();
        drop(state);
        let mut cursor = self.cursor.clone();
        let read = move || Ok((cursor.read(&records, last)?, cursor));
        let (read, cursor) = tokio::task::spawn_blocking(read)
            .await
            .unwrap_or(Err(ChangesEnd::Refused(Refused::Failed)))?;
        self.cursor = cursor;
        let message = self.message(&read, DOCUMENTS_UNKNOWN);
        self.level = (self.cursor.next > last.get()).then_some(documents);
        Ok(message)
    }

    fn message(&mut self, records: &[StoredRecord], documents: u64) -> Vec<u8> {
        self.beat_at = Instant::now() + BEAT;
        let named = &mut self.named;
        self.cursor
            .message(records, (documents, Engine::now_ms()), |max| sum(heard(named).take(max)))
    }
}

impl ChangesCursor {
    /// Begins after the position of a follower.
    ///
    /// # Errors
    /// [`ChangesEnd`].
    pub(crate) fn begin(
        state: &Published,
        after: &FollowerPosition,
        (identity, distance_max): (Identity, u8),
    ) -> Result<Self, ChangesEnd> {
        let (own, theirs) = (state.view.sequence(), after.sequence);
        if theirs > own {
            return Err(ChangesEnd::Diverged(format!(
                "the follower has {theirs} changes, and its primary has {own}: the primary has lost \
                 some, or is another one"
            )));
        }
        let own_record = FollowerPosition::at(theirs, &state.records);
        let own_record = own_record.map_err(|error| unreadable(&error))?.record;
        if let (Some(own), Some(theirs)) = (own_record, after.record)
            && own != theirs
        {
            return Err(ChangesEnd::Diverged(format!(
                "change {} of the follower is another one than that of its primary",
                after.sequence
            )));
        }
        let next = theirs.next().get();
        let cursor = Self { identity, distance_max, prev: Digest(0), next, read_upto: None };
        if !cursor.is_level(state) {
            // Whether the journal still has them shows before the reply begins.
            find_record(&state.records, next, None)?;
        }
        Ok(cursor)
    }

    /// Whether everything up to this state was sent.
    pub(crate) fn is_level(&self, state: &Published) -> bool {
        self.next > state.view.sequence().get()
    }

    /// Reads the records of the next message, none after `last`.
    ///
    /// # Errors
    /// [`ChangesEnd`].
    pub(crate) fn read(
        &mut self,
        records: &Records,
        last: Sequence,
    ) -> Result<Vec<StoredRecord>, ChangesEnd> {
        let read_upto = self.read_upto.take();
        let (read, read_upto) = read_records(records, self.next, last.get(), read_upto)?;
        self.read_upto = Some(read_upto);
        Ok(read)
    }

    /// The message with these records, after its length in four bytes. `touches` gives at most so
    /// many.
    pub(crate) fn message(
        &mut self,
        records: &[StoredRecord],
        (documents, at_ms): (u64, u64),
        touches: impl FnOnce(usize) -> Vec<Touch>,
    ) -> Vec<u8> {
        let mut message = Message {
            role: SenderRole::Write,
            prev: self.prev,
            leader: LeaderId::PRIMARY,
            first: self.next,
            at_ms,
            documents,
            distance_max: self.distance_max,
            records: records.iter().map(borrowed).collect(),
            touches: Vec::new(),
        };
        message.touches = touches(message.touches_max());
        self.next = message.next();
        let (bytes, digest) = message.encode(&self.identity);
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
    let is_pack = record_range(&file.name).is_none_or(|(_, pack_ends)| pack_ends.is_some());
    if is_pack && !mutant::is(Mutant::SendsPacks) {
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

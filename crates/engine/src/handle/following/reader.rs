//! Enacts the messages of a primary.

use std::io::Read;

use nearprint_machine::change::Record;
use nearprint_machine::document::Sequence;
use nearprint_machine::query::Touch;
use tokio::sync::oneshot;

use crate::api::error::Refused;
use crate::handle::Engine;
use crate::handle::following::changes::DOCUMENTS_UNKNOWN;
use crate::replication::message::{BadMessage, Digest, MESSAGE_BYTES_MAX, Message};
use crate::shared::ToWriter;
use crate::write::enact::{DecidedRecord, Enactment};
use crate::write::queued::QueuedWrite as _;

/// Why a follower follows no longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowEnd {
    /// The primary has another history or another version, which time does not mend.
    Diverged(String),
    /// The stream has ended, or is damaged: it may begin again where this copy is.
    Broken(String),
    /// A full disk or memory, or the engine stops.
    Refused(Refused),
    /// The caller has ended it.
    Stopped,
}

/// A message that is verified and decoded.
struct Received {
    first: u64,
    documents: u64,
    records: Vec<DecidedRecord>,
    touches: Vec<Touch>,
}

type Enacting = oneshot::Receiver<Result<Sequence, Refused>>;

impl Engine {
    /// Follows the changes of a primary from this copy's position on, until the stream ends.
    /// `heard` is called after each message, with whether everything is enacted with it; it ends
    /// the following when it returns false. Blocks.
    ///
    /// The next message is read while the one before it is made durable.
    pub fn follow(&self, source: &mut dyn Read, heard: &mut dyn FnMut(bool) -> bool) -> FollowEnd {
        let (mut prev, mut next) = (Digest(0), self.sequence().next().get());
        let mut enacting: Option<Enacting> = None;
        loop {
            let received =
                receive(source).and_then(|bytes| self.verified(&bytes, &mut prev, &mut next));
            // What came before is enacted, whatever comes after it.
            if let Some(enacting) = enacting.take()
                && let Err(refused) = enacting.blocking_recv().unwrap_or(Err(Refused::Failed))
            {
                return FollowEnd::Refused(refused);
            }
            let Received { first, documents, records, touches } = match received {
                Ok(received) => received,
                Err(end) => return end,
            };
            if let Err(end) = self.check_documents(documents, first) {
                return end;
            }
            for touch in touches {
                self.shared.touches.add_of_primary(touch);
            }
            let is_level = records.is_empty();
            if !is_level {
                enacting = match self.begin_enactment(records) {
                    Ok(begun) => Some(begun),
                    Err(refused) => return FollowEnd::Refused(refused),
                };
            }
            if !heard(is_level) {
                // Whoever follows next begins after it.
                return match enacting.map(Enacting::blocking_recv) {
                    None | Some(Ok(Ok(_))) => FollowEnd::Stopped,
                    Some(Ok(Err(refused))) => FollowEnd::Refused(refused),
                    Some(Err(_)) => FollowEnd::Refused(Refused::Failed),
                };
            }
        }
    }

    fn begin_enactment(&self, records: Vec<DecidedRecord>) -> Result<Enacting, Refused> {
        let (enactment, enacted) = Enactment::new(records);
        if let Some(refused) = self.shared.refusal(enactment.bounds()) {
            return Err(refused);
        }
        self.shared.writer.send(ToWriter::Write(enactment)).map_err(|_| Refused::Stopping)?;
        Ok(enacted)
    }

    /// Decodes a message, and checks that it is the next one.
    fn verified(
        &self,
        bytes: &[u8],
        prev: &mut Digest,
        next: &mut u64,
    ) -> Result<Received, FollowEnd> {
        let (message, digest) = match Message::decode(bytes, &self.shared.identity) {
            Ok(decoded) => decoded,
            Err(BadMessage::Foreign) if prev.0 == 0 => {
                let why = "the primary has another data directory than the one that was copied";
                return Err(FollowEnd::Diverged(why.to_owned()));
            }
            Err(bad @ BadMessage::Foreign) => return Err(FollowEnd::Broken(bad.to_string())),
            Err(bad) => return Err(FollowEnd::Diverged(bad.to_string())),
        };
        if message.prev != *prev || message.first != *next {
            let why = format!("a message begins at {}, and {next} was due", message.first);
            return Err(FollowEnd::Broken(why));
        }
        let records = message.records.iter().map(|record| {
            let read = Record::decode(record.payload).ok();
            let read = read.filter(|read| read.change.count() == record.count);
            let record_of = |read| DecidedRecord {
                first: record.first,
                record: read,
                payload: record.payload.to_vec(),
            };
            read.map(record_of).ok_or_else(|| {
                let first = record.first;
                FollowEnd::Diverged(format!(
                    "this version cannot read the record of change {first}"
                ))
            })
        });
        let records = records.collect::<Result<Vec<_>, _>>()?;
        (*prev, *next) = (digest, message.next());
        let Message { first, documents, touches, .. } = message;
        Ok(Received { first, documents, records, touches })
    }

    /// Compares the number of documents, if the message has it.
    fn check_documents(&self, theirs: u64, first: u64) -> Result<(), FollowEnd> {
        let own = self.shared.published.load().view.documents();
        if theirs == DOCUMENTS_UNKNOWN || theirs == own {
            return Ok(());
        }
        Err(FollowEnd::Diverged(format!(
            "before change {first} the primary has {theirs} documents, and this copy has {own}"
        )))
    }
}

/// Reads the length of a message, and the message.
fn receive(source: &mut dyn Read) -> Result<Vec<u8>, FollowEnd> {
    let broken =
        |error: std::io::Error| FollowEnd::Broken(format!("the stream broke off: {error}"));
    let mut length = [0; 4];
    source.read_exact(&mut length).map_err(broken)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(FollowEnd::Broken(format!("a message of {length} bytes")));
    }
    let mut bytes = vec![0; length];
    source.read_exact(&mut bytes).map_err(broken)?;
    Ok(bytes)
}

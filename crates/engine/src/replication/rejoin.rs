//! Where a node reads on whose position is older than the oldest entry of the log.
//!
//! The position is stored from time to time, so the journal is ahead of it, and may reach what the
//! log still has. What is needed then is a message of which it is certain that it counted: reading
//! begins before it, and the rule of [`chain`](super::chain) does the rest.
//!
//! A leader has at most [`UNCOUNTED_MAX`] messages that have not counted, and makes the next one
//! only after having read the oldest of them, counted. So of more messages, each chained to the one
//! before, the first has counted, whoever has sent it and whatever stands between them.

use std::collections::HashMap;
use std::sync::Arc;

use nearprint_storage::Identity;

use crate::replication::chain::{Leader, Position, UNDER_WAY_MAX};
use crate::replication::log::LogEntry;
use crate::replication::message::{Digest, LeaderId, Message};
use crate::replication::mutant::{self, Mutant};

/// Groups, and the message with which a leader resigns.
const UNCOUNTED_MAX: usize = UNDER_WAY_MAX + 1;
/// A log that has no such message among so many entries is not worth more reading.
const ENTRIES_MAX: usize = 10_000;

/// Looks for the first message that has counted for certain.
#[derive(Debug, Default)]
pub(crate) struct Rejoin {
    read: HashMap<Digest, ReadMessage>,
    entries: usize,
}

#[derive(Debug, Clone, Copy)]
struct ReadMessage {
    at: u64,
    prev: Digest,
    first: u64,
    leader: LeaderId,
}

/// What the entries read so far say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rejoined {
    /// More of them are needed.
    NotYet,
    /// A node whose journal has all changes before `next` can read on from here.
    From(Position),
    /// It cannot read on.
    Nowhere,
}

impl Rejoin {
    /// Takes the next entry of the log, from its oldest one on. `stored` is the position that is
    /// too old, `next_in_journal` the sequence of the next change that the journal does not have.
    pub(crate) fn read(
        &mut self,
        entry: &LogEntry,
        identity: &Identity,
        (stored, next_in_journal): (&Position, u64),
    ) -> Rejoined {
        self.entries += 1;
        let not_yet = if self.entries < ENTRIES_MAX { Rejoined::NotYet } else { Rejoined::Nowhere };
        let Ok((message, digest)) = Message::decode(&entry.bytes, identity) else { return not_yet };
        let (prev, first, leader) = (message.prev, message.first, message.leader);
        let new = ReadMessage { at: entry.at, prev, first, leader };
        let known = *self.read.entry(digest).or_insert(new);
        let Some(certain) = self.predecessor(known) else { return not_yet };
        if certain.first > next_in_journal {
            return Rejoined::Nowhere;
        }
        Rejoined::From(certain.before(stored))
    }

    /// The message so far before this one that it has counted.
    fn predecessor(&self, message: ReadMessage) -> Option<ReadMessage> {
        // A copy that was sent again may come after its successor.
        let one_before = |message: ReadMessage| {
            self.read.get(&message.prev).filter(|prev| prev.at < message.at).copied()
        };
        let uncounted = if mutant::is(Mutant::RejoinsAnywhere) { 0 } else { UNCOUNTED_MAX };
        (0..uncounted).try_fold(message, |message, _| one_before(message))
    }
}

impl ReadMessage {
    /// The position before it.
    fn before(self, stored: &Position) -> Position {
        let is_unchanged = stored.next == self.first;
        // Only the message with which it began has its address.
        let known = stored.leader.as_ref().filter(|leader| leader.id == self.leader);
        let unknown = || Leader { id: self.leader, address: Arc::from("") };
        Position {
            at: self.at - 1,
            digest: self.prev,
            at_ms: stored.at_ms,
            changed: if is_unchanged { stored.changed } else { Digest(0) },
            next: self.first,
            leader: Some(known.cloned().unwrap_or_else(unknown)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::message::SenderRole;
    use crate::replication::position::ClusterFile;

    fn identity() -> Identity {
        Identity::new([7; 16], "np2")
    }

    /// A message without changes.
    fn entry(at: u64, prev: Digest, first: u64) -> (LogEntry, Digest) {
        let message = Message {
            role: SenderRole::Write,
            prev,
            leader: LeaderId(9),
            first,
            at_ms: at,
            documents: 0,
            distance_max: 3,
            records: vec![],
            touches: vec![],
        };
        let (bytes, digest) = message.encode(&identity());
        (LogEntry { at, bytes: bytes.into(), at_ms: None }, digest)
    }

    /// What is found in a log with so many linked messages, each after noise and twice.
    fn found(linked: u64, next_in_journal: u64) -> Rejoined {
        let stored = ClusterFile::new(1, 2).position;
        let mut rejoin = Rejoin::default();
        let (mut at, mut prev) = (100, Digest(77));
        let noise = LogEntry { at: 1, bytes: Arc::new([1]), at_ms: None };
        for number in 0..linked {
            let (message, digest) = entry(at, prev, 5 + number);
            for read in [&noise, &message, &message] {
                match rejoin.read(read, &identity(), (&stored, next_in_journal)) {
                    Rejoined::NotYet => {}
                    found @ (Rejoined::From(_) | Rejoined::Nowhere) => return found,
                }
            }
            (at, prev) = (at + 3, digest);
        }
        Rejoined::NotYet
    }

    #[test]
    fn the_first_of_more_messages_than_can_be_under_way_has_counted() {
        let all = UNCOUNTED_MAX as u64 + 1;
        assert_eq!(found(all - 1, 9), Rejoined::NotYet);
        let Rejoined::From(position) = found(all, 5) else { panic!("it is found") };
        assert_eq!((position.at, position.digest, position.next), (99, Digest(77), 5));
        assert_eq!(position.leader.map(|leader| leader.id), Some(LeaderId(9)));
        assert_eq!(found(all, 4), Rejoined::Nowhere, "the journal ends before");
    }

    #[test]
    fn messages_that_are_not_linked_say_nothing_however_many() {
        let stored = ClusterFile::new(1, 2).position;
        let mut rejoin = Rejoin::default();
        let mut read = |at| {
            let (entry, _) = entry(at, Digest(u128::from(at)), 5);
            rejoin.read(&entry, &identity(), (&stored, 9))
        };
        let more = (1..ENTRIES_MAX as u64).all(|at| read(at) == Rejoined::NotYet);
        assert!(more && read(ENTRIES_MAX as u64) == Rejoined::Nowhere);
    }
}

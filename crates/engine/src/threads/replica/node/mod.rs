//! A node: decides groups and sends them, reads the log, journals what counts, and answers.
//!
//! Synchronous, without threads, clock, log or channels, as the core that it owns: whoever drives
//! it appends the entries that it returns, gives it what the log has, in order, and lets it sync.
//!
//! ```text
//!   decide   the machine runs ahead; the records become a message and are kept in it only
//!   read     a message counts: its records go to the journal, another's are enacted first
//!   sync     one for all that wait; then their state is published and their callers are answered
//! ```
//!
//! What readers see is the state after the last message that counted, which is not the machine's as
//! long as groups are under way: each group keeps a clone of the view after it. A leader that is
//! deposed with changes under way has a machine ahead of the log; it is rolled back to the state
//! after the last message that counted, which is the one that readers see.

pub(crate) mod group;

use std::collections::VecDeque;
use std::sync::Arc;

use nearprint_index::compaction::built::Built;
use nearprint_index::view::View;
use nearprint_machine::change::Record;
use nearprint_storage::{Identity, RecordRef, StorageError};

use crate::api::error::Refused;
use crate::replication::chain::{Chain, Due, EntryOutcome, Fitness, Halt, Position, Whose};
use crate::replication::log::LogEntry;
use crate::replication::message::{BadMessage, Digest, LeaderId, Message, SenderRole};
use crate::replication::mutant::{self, Mutant};
use crate::state::published::Published;
use crate::state::touches::Touches;
use crate::threads::replica::touched::Touched;
use crate::write::core::{Core, Durable};
use crate::write::queued::{QueuedWrite, decide_group};

/// What a node is, apart from its content.
#[derive(Debug, Clone)]
pub(crate) struct NodeSettings {
    pub(crate) identity: Identity,
    /// Where it is reached.
    pub(crate) address: Arc<str>,
    /// The largest distance that it can search.
    pub(crate) distance_max: u8,
}

/// The time of the caller, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clocks {
    /// What the clock says, since 1970: the time of documents.
    pub(crate) clock_ms: u64,
    /// Of a clock that is never set.
    pub(crate) now_ms: u64,
}

/// A group of commands, as it was decided or not.
#[derive(Debug)]
pub(crate) enum Decided {
    /// Append this to the log. These were left, as there was no time for them.
    Send(Arc<[u8]>, Vec<Box<dyn QueuedWrite>>),
    /// The disk is full, and nothing changed.
    Refused(Refused, Vec<Box<dyn QueuedWrite>>),
}

/// What an entry of the log was for the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It counts, and waits for the next sync.
    Counts,
    /// It does not count, on any node.
    Ignored,
    /// The disk has no space for it. Nothing was read: give it again.
    DiskFull,
    /// The node cannot go on.
    Halts(Halt),
}

/// What a sync has made durable.
#[derive(Debug)]
pub(crate) struct Synced {
    /// Publish it, then acknowledge the writes.
    pub(crate) published: Published,
    pub(crate) writes: Vec<Box<dyn QueuedWrite>>,
}

/// A node of a cluster.
#[derive(Debug)]
pub(crate) struct Node {
    core: Core,
    chain: Chain,
    settings: NodeSettings,
    touches: Arc<Touches>,
    touched: Option<Touched>,
    /// What was sent and has not counted, in order.
    under_way: VecDeque<Group>,
    /// The state after the last message that counted.
    counted: Durable,
    /// They count, and wait for the next sync.
    unsynced: Vec<Box<dyn QueuedWrite>>,
    /// How far the log was read and enacted.
    enacted: Position,
    /// The same as of the last sync.
    synced: Position,
    /// The largest distance of the newest leader.
    leaders_distance_max: u8,
    halted: Option<Halt>,
    /// It could not read a record that another node may be able to read.
    met_unreadable: bool,
    depositions: u64,
}

/// What was decided and sent together.
#[derive(Debug)]
struct Group {
    writes: Vec<Box<dyn QueuedWrite>>,
    /// The state after it.
    state: Durable,
}

impl Node {
    /// Continues from a position with what the journal has, which is at least everything before it.
    pub(crate) fn open(
        mut core: Core,
        position: Position,
        settings: NodeSettings,
        touches: Arc<Touches>,
        now_ms: u64,
    ) -> Self {
        core.keep_records();
        if core.next_in_journal() == position.next {
            core.set_time(position.at_ms);
        }
        Self {
            counted: core.state(),
            chain: Chain::new(position.clone(), now_ms),
            enacted: position.clone(),
            synced: position,
            under_way: VecDeque::new(),
            unsynced: Vec::new(),
            touched: None,
            leaders_distance_max: 0,
            halted: None,
            met_unreadable: false,
            depositions: 0,
            core,
            settings,
            touches,
        }
    }

    /// Goes on from the same content at another position, perhaps in another log.
    pub(crate) fn move_to(&mut self, position: Position, now_ms: u64) {
        self.chain = Chain::new(position.clone(), now_ms);
        self.enacted.clone_from(&position);
        self.synced = position;
    }

    /// How far it has read, durably.
    pub(crate) fn position(&self) -> &Position {
        if mutant::is(Mutant::PositionAheadOfJournal) {
            return self.chain.position();
        }
        &self.synced
    }

    pub(crate) fn chain(&self) -> &Chain {
        &self.chain
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    pub(crate) fn halted(&self) -> Option<&Halt> {
        self.halted.as_ref()
    }

    /// Whether nothing is under way, so that parts may be installed and the state frozen.
    pub(crate) fn is_settled(&self) -> bool {
        self.under_way.is_empty() && !self.is_ahead()
    }

    /// Whether the machine has changes that did not count.
    fn is_ahead(&self) -> bool {
        self.core.view().sequence() != self.counted.view.sequence()
    }

    /// Whether everything in the journal was read in the log.
    fn is_level(&self) -> bool {
        self.core.next_in_journal() == self.chain.position().next
    }

    /// Whether it leads, as far as it can tell.
    pub(crate) fn leads(&self, now_ms: u64) -> bool {
        self.halted.is_none() && self.chain.is_followed(now_ms)
    }

    /// How many groups and other messages are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Whether it may decide a group now.
    pub(crate) fn accepts(&self, now_ms: u64) -> bool {
        self.halted.is_none() && self.chain.accepts(now_ms)
    }

    /// Decides a group that fits a message ([`group::room_in_group`]), as long as there is time.
    ///
    /// # Errors
    /// [`StorageError`]: the node must be opened again.
    pub(crate) fn decide(
        &mut self,
        mut writes: Vec<Box<dyn QueuedWrite>>,
        clocks: Clocks,
        free_bytes_min: u64,
        has_time: &mut dyn FnMut() -> bool,
    ) -> Result<Decided, StorageError> {
        let documents = self.core.view().documents();
        let limits = (clocks.clock_ms, free_bytes_min);
        let left = match decide_group(&mut self.core, &mut writes, limits, has_time)? {
            Ok(decided) => writes.split_off(decided),
            Err(refused) => return Ok(Decided::Refused(refused, writes)),
        };
        self.met_unreadable |= writes.iter().any(|write| write.met_unreadable());
        let leader = self.own_id();
        let bytes = self.send(SenderRole::Write, leader, (documents, writes), clocks.now_ms)?;
        Ok(Decided::Send(bytes, left))
    }

    /// Why this node must not lead, apart from what its surroundings say.
    pub(crate) fn lead_fault(&self) -> Option<&'static str> {
        if self.settings.distance_max < self.leaders_distance_max {
            Some("its index.distance_max is smaller than that of the leader before")
        } else if self.met_unreadable {
            Some("it could not read a record of its journal; next: nearprint check DATA")
        } else {
            None
        }
    }

    /// What is to be done, see [`Chain::due`].
    pub(crate) fn due(&mut self, fitness: Fitness, takeover_ms: Option<u64>, now_ms: u64) -> Due {
        if self.halted.is_some() {
            return Due::Nothing;
        }
        let next = self.chain.position().next;
        if takeover_ms.is_some() && next < self.core.next_in_journal() {
            // It has read to the end.
            self.halt(Halt::Lost { next, last: self.core.next_in_journal() - 1 });
            return Due::Nothing;
        }
        let fitness = if self.lead_fault().is_none() { fitness } else { Fitness::Unfit };
        self.chain.due(fitness, takeover_ms, now_ms)
    }

    /// The message with which it tries to lead, under an id that is drawn for it.
    ///
    /// # Errors
    /// [`StorageError`]: the node must be opened again.
    pub(crate) fn lead(&mut self, id: LeaderId, clocks: Clocks) -> Result<Arc<[u8]>, StorageError> {
        self.touched = Some(Touched::new(&self.touches, clocks.now_ms));
        let address = Arc::clone(&self.settings.address);
        self.send_alone(SenderRole::Lead { address: &address }, id, clocks)
    }

    /// A message without changes: time passes, and it still leads.
    ///
    /// # Errors
    /// As [`Self::lead`].
    pub(crate) fn beat(&mut self, clocks: Clocks) -> Result<Arc<[u8]>, StorageError> {
        let leader = self.own_id();
        self.send_alone(SenderRole::Write, leader, clocks)
    }

    /// Its last message.
    ///
    /// # Errors
    /// As [`Self::lead`].
    pub(crate) fn resign(&mut self, clocks: Clocks) -> Result<Arc<[u8]>, StorageError> {
        let leader = self.own_id();
        self.send_alone(SenderRole::Resign, leader, clocks)
    }

    fn own_id(&self) -> LeaderId {
        self.chain.position().leader.as_ref().expect("it leads").id
    }

    fn send_alone(
        &mut self,
        role: SenderRole<'_>,
        leader: LeaderId,
        clocks: Clocks,
    ) -> Result<Arc<[u8]>, StorageError> {
        self.core.set_time(clocks.clock_ms);
        let documents = self.core.view().documents();
        self.send(role, leader, (documents, Vec::new()), clocks.now_ms)
    }

    /// Makes a message of what was decided since the last one. `documents` are those before it.
    fn send(
        &mut self,
        role: SenderRole<'_>,
        leader: LeaderId,
        (documents, mut writes): (u64, Vec<Box<dyn QueuedWrite>>),
        now_ms: u64,
    ) -> Result<Arc<[u8]>, StorageError> {
        let kept = self.core.take_kept();
        let (prev, first) = self.chain.link();
        let records = kept.iter().map(|record| RecordRef {
            first: record.first,
            count: record.count,
            payload: &record.payload,
        });
        let mut message = Message {
            role,
            prev,
            leader,
            first,
            at_ms: self.core.machine().now_ms(),
            documents,
            distance_max: self.settings.distance_max,
            records: records.collect(),
            touches: Vec::new(),
        };
        if let Some(touched) = &mut self.touched {
            touched.hear();
            message.touches = touched.due(message.touches_max(), now_ms);
        }
        let last = self.core.view().sequence();
        assert_eq!(message.next(), last.next().get(), "the message is what was decided");
        let (bytes, digest) = message.encode(&self.settings.identity);
        let bytes: Arc<[u8]> = bytes.into();
        self.chain.sent(&message, digest, Arc::clone(&bytes), now_ms);
        if mutant::is(Mutant::JournalsBeforeCounting) {
            message.records.iter().try_for_each(|record| self.core.append_decided(*record))?;
        }
        if mutant::is(Mutant::NoMessageWithoutChanges) && message.records.is_empty() {
            writes.drain(..).for_each(QueuedWrite::acknowledge);
        }
        if mutant::is(Mutant::PublishesAhead) {
            self.counted = self.core.state();
        }
        self.under_way.push_back(Group { writes, state: self.core.state() });
        Ok(bytes)
    }

    /// Takes the next entry of the log.
    ///
    /// # Errors
    /// [`StorageError`]: the node must be opened again.
    pub(crate) fn read(&mut self, entry: &LogEntry, now_ms: u64) -> Result<Taken, StorageError> {
        if let Some(halt) = &self.halted {
            return Ok(Taken::Halts(halt.clone()));
        }
        let mut decoded = Message::decode(&entry.bytes, &self.settings.identity);
        let Position { digest, next, .. } = *self.chain.position();
        if mutant::is(Mutant::NoPrev)
            && let Ok((message, _)) = &mut decoded
            && message.first == next
        {
            message.prev = digest;
        }
        if let Ok((message, digest)) = &decoded
            && self.chain.is_chained(message)
            && !self.chain.is_own(*digest)
        {
            // Whoever has sent it leads, and what is under way here can never count.
            if self.give_up(&Refused::NoLeader) {
                self.depositions += 1;
            }
            if !self.reserve(message)? {
                return Ok(Taken::DiskFull);
            }
        }
        let documents = self.is_level().then(|| self.counted.view.documents());
        let taken = match self.chain.read(entry.at, &decoded, documents, now_ms) {
            EntryOutcome::Counts(whose) => self.count(whose, &decoded, now_ms)?,
            EntryOutcome::Ignored(_) => Taken::Ignored,
            EntryOutcome::Halts(halt) => self.halt(halt),
        };
        if matches!(taken, Taken::Counts | Taken::Ignored) {
            self.enacted.clone_from(self.chain.position());
        }
        Ok(taken)
    }

    /// Reserves space for the records of a message. Returns whether there is enough. A message
    /// without records needs none, so that a node with a full disk still hears its leader.
    fn reserve(&mut self, message: &Message<'_>) -> Result<bool, StorageError> {
        if message.records.is_empty() {
            return Ok(true);
        }
        let bytes = message.records.iter().map(|record| record.payload.len() as u64).sum();
        match self.core.begin_group((message.records.len() as u64, bytes), 0, 0) {
            Err(error) if error.is_full() => Ok(false),
            reserved => reserved.map(|_| true),
        }
    }

    fn count(
        &mut self,
        whose: Whose,
        decoded: &Result<(Message<'_>, Digest), BadMessage>,
        now_ms: u64,
    ) -> Result<Taken, StorageError> {
        let (message, _) = decoded.as_ref().expect("what counts was decoded");
        self.leaders_distance_max = message.distance_max;
        match whose {
            Whose::Own => {
                let group = self.under_way.pop_front().expect("it was sent");
                for record in &message.records {
                    if record.first >= self.core.next_in_journal() {
                        self.core.append_decided(*record)?;
                    }
                }
                self.counted = group.state;
                self.unsynced.extend(group.writes);
                Ok(Taken::Counts)
            }
            Whose::Other => {
                self.touched = None;
                let is_new = self.core.next_in_journal() <= message.first;
                if let Some(halt) = self.enact(&message.records, now_ms)? {
                    return Ok(self.halt(halt));
                }
                // A primary tells when it has sent a message, and a follower may be far behind.
                if self.is_level() && !self.chain.follows_primary() {
                    self.core.set_time(message.at_ms);
                }
                // What a restart reads again, a snapshot may have.
                for touch in message.touches.iter().filter(|_| is_new) {
                    self.touches.add_of_primary(*touch);
                }
                self.counted = self.core.state();
                Ok(Taken::Counts)
            }
        }
    }

    /// Enacts the records of another, except for those that the journal has.
    fn enact(
        &mut self,
        records: &[RecordRef<'_>],
        now_ms: u64,
    ) -> Result<Option<Halt>, StorageError> {
        let next = self.core.next_in_journal();
        let too_few = u64::from(mutant::is(Mutant::SkipsOneTooFew));
        let had = records.partition_point(|record| record.first + too_few < next);
        let (had, new) = records.split_at(had);
        if let Some(sequence) = self.rewritten(had)? {
            return Ok(Some(Halt::Rewritten { sequence }));
        }
        for record in new {
            let Ok(mut read) = Record::decode(record.payload) else {
                return Ok(Some(Halt::Unreadable(BadMessage::Malformed)));
            };
            if read.change.count() != record.count {
                return Ok(Some(Halt::Unreadable(BadMessage::Malformed)));
            }
            if mutant::is(Mutant::OwnClock) {
                read.at_ms = now_ms;
            }
            self.core.enact(&read, *record)?;
        }
        Ok(None)
    }

    /// The first of these changes for which the journal has another record. Of what packs have left
    /// nothing can be said.
    fn rewritten(&self, records: &[RecordRef<'_>]) -> Result<Option<u64>, StorageError> {
        if records.is_empty() {
            return Ok(None);
        }
        let pinned = self.core.records().pin();
        let packed_before = pinned.packed_before();
        for record in records.iter().filter(|record| record.first >= packed_before) {
            let stored = pinned.read(record.first)?;
            let same = (stored.first, stored.count, &*stored.payload);
            if same != (record.first, record.count, record.payload) {
                return Ok(Some(record.first));
            }
        }
        Ok(None)
    }

    /// What the log's answer to an append says about it; `read` is how far this node had read then.
    pub(crate) fn acknowledged(&mut self, last: u64, read: u64) {
        if let Err(halt) = Chain::acknowledged(last, read) {
            self.halt(halt);
        }
        if mutant::is(Mutant::AnswersOnAcknowledgement)
            && let Some(group) = self.under_way.back_mut()
        {
            group.writes.drain(..).for_each(QueuedWrite::acknowledge);
        }
    }

    /// It goes no further. What is under way may be done by others or not.
    pub(crate) fn halt(&mut self, halt: Halt) -> Taken {
        self.halted = Some(halt.clone());
        self.give_up(&Refused::OutcomeUnknown);
        Taken::Halts(halt)
    }

    /// Waits no longer for what is under way, refuses it so, and goes on from what has counted.
    /// Returns whether changes were under way.
    pub(crate) fn give_up(&mut self, refused: &Refused) -> bool {
        for group in self.under_way.drain(..) {
            group.writes.into_iter().for_each(|write| write.refuse(refused.clone()));
        }
        self.chain.give_up();
        let was_ahead = self.is_ahead();
        if was_ahead && !mutant::is(Mutant::KeepsMemory) {
            self.core.roll_back(&self.counted);
            self.counted = self.core.state();
        }
        was_ahead
    }

    /// How often another has taken the lead while changes were under way.
    pub(crate) fn depositions(&self) -> u64 {
        self.depositions
    }

    /// Makes durable what counts, as a follower's policy promises.
    ///
    /// # Errors
    /// [`StorageError`]: the node must be opened again.
    pub(crate) fn sync(&mut self) -> Result<Synced, StorageError> {
        self.core.make_durable()?;
        self.synced.clone_from(&self.enacted);
        let mut writes = std::mem::take(&mut self.unsynced);
        let published = self.published();
        if !mutant::is(Mutant::PinsWhenDecided) {
            for write in &mut writes {
                write.pin(&published.records);
            }
        }
        Ok(Synced { published, writes })
    }

    /// The state after the last message that counted. It is durable after a sync.
    pub(crate) fn published(&self) -> Published {
        let Durable { view, jobs } = self.counted.clone();
        Published { view, jobs, records: self.core.records().pin() }
    }

    /// Marks in the journal that everything is durable. For a moment without work.
    ///
    /// # Errors
    /// As [`Self::sync`].
    pub(crate) fn seal(&mut self) -> Result<(), StorageError> {
        self.core.seal()
    }

    /// Makes everything durable, and a seal that records it. A sweep decides from this state what
    /// to remove, so the disk must not lose the state unnoticed.
    ///
    /// # Errors
    /// As [`Self::sync`].
    ///
    /// # Panics
    /// If something is under way: it is not durable.
    pub(crate) fn settle(&mut self) -> Result<Durable, StorageError> {
        assert!(self.is_settled(), "a sweep decides when nothing is under way");
        self.core.settle()
    }

    /// Installs what was built from parts of the published view.
    ///
    /// # Panics
    /// If something is under way: the view after it has the old parts.
    pub(crate) fn install(&mut self, built: &Built) -> View {
        assert!(self.is_settled(), "parts are installed when nothing is under way");
        self.core.install(built);
        self.counted = self.core.state();
        self.counted.view.clone()
    }

    /// Closes the delta and makes everything durable, so that a snapshot can contain the state.
    ///
    /// # Errors
    /// As [`Self::sync`].
    ///
    /// # Panics
    /// If something is under way: it is not durable. If somebody waits for a sync: what is then
    /// reclaimed may be what a reply reads, because it was removed after it.
    pub(crate) fn freeze(&mut self) -> Result<Durable, StorageError> {
        assert!(self.is_settled(), "the state is frozen when nothing is under way");
        assert!(self.unsynced.is_empty(), "who waits is answered before");
        let frozen = self.core.freeze()?;
        self.counted = frozen.clone();
        Ok(frozen)
    }
}

//! A node without an engine: a chain, a journal, and a content that is made from both.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use nearprint_storage::simulated::Dice;
use nearprint_storage::{Identity, RecordRef};

use super::world::{Answer, Operation, World, WorldContent};
use crate::replication::chain::{Chain, Due, EntryOutcome, Halt, Position, Start, Whose};
use crate::replication::log::simulated::SimulatedLog;
use crate::replication::log::{Log, Reader};
use crate::replication::message::{LeaderId, Message, SenderRole};
use crate::replication::position::ClusterFile;

/// What a wrong implementation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mutant {
    /// A message counts if it has the next sequence.
    NoPrev,
    AnswersOnAcknowledgement,
    /// The position is stored as it was read, not as it is durable.
    PositionAheadOfJournal,
    JournalsBeforeCounting,
    /// A restart enacts the last record that the journal has again.
    SkipsOneTooFew,
    /// A deposed leader goes on with what it had decided.
    KeepsMemory,
    /// A group without changes is answered from memory.
    NoMessageWithoutChanges,
}

/// A position, and how many messages had counted there.
#[derive(Debug, Clone)]
struct Read {
    position: Position,
    messages: usize,
}

/// A group that was decided on a content.
struct Decided {
    before: WorldContent,
    answers: Vec<(u32, Answer)>,
    payloads: Vec<Vec<u8>>,
}

/// A group under way.
#[derive(Debug)]
struct Group {
    answers: Vec<(u32, Answer)>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) log: SimulatedLog,
    mutant: Option<Mutant>,
    // What a crash leaves.
    journal: Vec<Vec<u8>>,
    durable: usize,
    stored: Read,
    log_identity: u64,
    // What it takes.
    memory: Memory,
    pub(super) paused_until_ms: u64,
}

#[derive(Debug)]
struct Memory {
    chain: Chain,
    reader: Box<dyn Reader>,
    content: WorldContent,
    messages: usize,
    under_way: VecDeque<Group>,
    /// They wait for the next sync.
    counted: Vec<(u32, Answer)>,
    /// As of the last sync.
    durable: Read,
    takeover_ms: u64,
    is_at_end: bool,
    /// It has found that it may decide a group. Anything may happen before it does.
    is_about_to_write: bool,
    halted: Option<Halt>,
}

fn identity() -> Identity {
    Identity::new([7; 16], "np2")
}

fn origin() -> Read {
    let position = ClusterFile::new(1, 1).position;
    Read { position, messages: 0 }
}

fn contents(journal: &[Vec<u8>]) -> WorldContent {
    let mut content = WorldContent::default();
    for record in journal {
        content.enact(record);
    }
    content
}

impl Memory {
    fn open(journal: &[Vec<u8>], stored: &Read, log: &SimulatedLog, now_ms: u64) -> Self {
        Self {
            chain: Chain::new(stored.position.clone(), now_ms),
            reader: log.read(stored.position.at + 1),
            content: contents(journal),
            messages: stored.messages,
            under_way: VecDeque::new(),
            counted: Vec::new(),
            durable: stored.clone(),
            takeover_ms: 3_000,
            is_at_end: false,
            is_about_to_write: false,
            halted: None,
        }
    }

    fn read(&self) -> Read {
        Read { position: self.chain.position().clone(), messages: self.messages }
    }
}

impl Node {
    pub(super) fn new(log: SimulatedLog, mutant: Option<Mutant>) -> Self {
        let memory = Memory::open(&[], &origin(), &log, 0);
        let log_identity = log.settings().unwrap().identity;
        let journal = Vec::new();
        let stored = origin();
        Self { log, mutant, journal, durable: 0, stored, log_identity, memory, paused_until_ms: 0 }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    pub(super) fn leads(&self) -> bool {
        self.memory.chain.leads()
    }

    /// The last entry that it need not read after a crash.
    pub(super) fn stored_at(&self) -> u64 {
        self.stored.position.at
    }

    pub(super) fn is_about_to_write(&self) -> bool {
        self.memory.is_about_to_write
    }

    pub(super) fn halted(&self) -> Option<Halt> {
        self.memory.halted
    }

    pub(super) fn messages(&self) -> usize {
        self.memory.messages
    }

    /// Loses its memory, and of its journal what is not durable, or a part of that.
    pub(super) fn crash(
        &mut self,
        world: &mut World,
        dice: &mut Dice,
        now_ms: u64,
    ) -> Result<(), String> {
        world.statistics.crashed += 1;
        let torn = dice.below(self.journal.len() - self.durable + 1);
        self.journal.truncate(self.durable + torn);
        self.durable = self.journal.len();
        world.check_journal(0, &self.journal)?;
        self.memory = Memory::open(&self.journal, &self.stored, &self.log, now_ms);
        self.memory.takeover_ms += dice.below(1_000) as u64;
        if self.log.settings().unwrap().identity != self.log_identity {
            self.halt(world, Halt::Regressed { last: 0, read: self.stored.position.at });
        } else if let Ok(Start::Halt(halt)) =
            self.log.bounds().map(|bounds| self.stored.position.start(bounds))
        {
            self.halt(world, halt);
        }
        Ok(())
    }

    fn halt(&mut self, world: &mut World, halt: Halt) {
        world.statistics.halted += 1;
        self.memory.halted = Some(halt);
        self.memory.under_way.clear();
    }

    /// Begins with the content of another node.
    pub(super) fn seed(&mut self, world: &mut World, from: &Self, now_ms: u64) {
        world.statistics.seeded += 1;
        let stored = &from.memory.durable;
        self.journal = from.journal[..from.durable].to_vec();
        (self.durable, self.stored) = (self.journal.len(), stored.clone());
        self.memory = Memory::open(&self.journal, stored, &self.log, now_ms);
    }

    /// Whether the log no longer has what it needs.
    pub(super) fn needs_seed(&self) -> bool {
        let bounds = self.log.bounds();
        bounds.is_ok_and(|bounds| self.memory.chain.position().start(bounds) == Start::Seed)
    }

    /// Reads so many entries.
    pub(super) fn read(
        &mut self,
        entries: usize,
        world: &mut World,
        now_ms: u64,
    ) -> Result<(), String> {
        for _ in 0..entries {
            self.memory.is_at_end = false;
            if self.memory.halted.is_some() {
                return Ok(());
            }
            match self.memory.reader.next(Duration::ZERO) {
                Ok(Some(entry)) => self.take(entry.at, &entry.bytes, world, now_ms)?,
                Ok(None) => self.memory.is_at_end = true,
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        at: u64,
        bytes: &[u8],
        world: &mut World,
        now_ms: u64,
    ) -> Result<(), String> {
        let mut entry = Message::decode(bytes, &identity());
        let Position { digest, next, .. } = *self.memory.chain.position();
        if self.is(Mutant::NoPrev)
            && let Ok((message, _)) = &mut entry
            && message.first == next
        {
            message.prev = digest;
        }
        let led = self.memory.chain.leads();
        // A leader's content is ahead, a restarted node's may be.
        let is_here = self.memory.under_way.is_empty() && self.journal.len() as u64 + 1 == next;
        let documents = is_here.then(|| self.memory.content.documents());
        match self.memory.chain.read(at, &entry, documents, now_ms) {
            EntryOutcome::Counts(whose) => {
                let (message, digest) = entry.expect("it counts");
                if let Whose::Other { lost } = whose
                    && lost > 0
                {
                    world.statistics.deposed += u64::from(led);
                    for group in self.memory.under_way.drain(..) {
                        group.answers.iter().for_each(|(number, _)| world.refuse(*number));
                    }
                    if !self.is(Mutant::KeepsMemory) {
                        self.memory.content = contents(&self.journal);
                    }
                }
                world.counts(self.memory.messages, digest, &message)?;
                self.memory.messages += 1;
                self.count(whose, &message, world)
            }
            EntryOutcome::Ignored(_) => {
                world.statistics.ignored += 1;
                Ok(())
            }
            EntryOutcome::Halts(halt) => {
                self.halt(world, halt);
                Ok(())
            }
        }
    }

    /// Journals the records of a message that counts, except for those that it has.
    fn count(
        &mut self,
        whose: Whose,
        message: &Message<'_>,
        world: &mut World,
    ) -> Result<(), String> {
        let restarted = self.is(Mutant::SkipsOneTooFew) && whose != Whose::Own;
        let has = (self.journal.len() as u64).saturating_sub(u64::from(restarted));
        for record in &message.records {
            let payload = record.payload.to_vec();
            if let Some(journaled) = self.journal.get(record.first as usize - 1)
                && *journaled != payload
            {
                // What the journal has was not in this log.
                let read = self.memory.chain.position().at;
                self.halt(world, Halt::Regressed { last: read, read });
                return Ok(());
            }
            if record.first > has {
                if whose != Whose::Own {
                    self.memory.content.enact(&payload);
                }
                self.journal.push(payload);
            }
        }
        if whose == Whose::Own {
            let group = self.memory.under_way.pop_front().expect("it was sent");
            self.memory.counted.extend(group.answers);
            world.statistics.led += u64::from(matches!(message.role, SenderRole::Lead { .. }));
        }
        let is_here = self.journal.len() as u64 + 1 == message.next();
        if self.memory.under_way.is_empty() && is_here {
            world.check(self.memory.messages, &self.memory.content)?;
        }
        Ok(())
    }

    /// Makes the journal durable, and gives the answers that waited for that.
    pub(super) fn sync(&mut self, world: &mut World) -> Result<(), String> {
        let before = std::mem::replace(&mut self.durable, self.journal.len());
        self.memory.durable = self.memory.read();
        for (number, answer) in self.memory.counted.drain(..) {
            world.answer(number, answer);
        }
        world.check_journal(before, &self.journal)
    }

    /// Stores its position.
    pub(super) fn store(&mut self) {
        let ahead = self.is(Mutant::PositionAheadOfJournal);
        self.stored = if ahead { self.memory.read() } else { self.memory.durable.clone() };
    }

    /// Decides a group for clients, if it may.
    pub(super) fn write(
        &mut self,
        operations: &[Operation],
        world: &mut World,
        now_ms: u64,
    ) -> Result<(), String> {
        if self.memory.halted.is_some() {
            return Ok(());
        }
        if !std::mem::take(&mut self.memory.is_about_to_write) || !self.leads() {
            self.memory.is_about_to_write = self.memory.chain.accepts(now_ms);
            return Ok(());
        }
        let before = self.memory.content.clone();
        let numbers: Vec<_> = operations.iter().map(|it| world.submit(*it)).collect();
        let (mut answers, mut payloads) = (Vec::new(), Vec::new());
        for number in &numbers {
            let operation = world.operation(*number);
            let (answer, record) = self.memory.content.decide(*number, operation);
            answers.push((*number, answer));
            payloads.extend(record);
        }
        let is_alone = payloads.is_empty() && self.memory.under_way.is_empty();
        if self.is(Mutant::NoMessageWithoutChanges) && is_alone {
            let answered = |(number, answer)| world.answer_unsent(number, answer);
            return answers.into_iter().try_for_each(answered);
        }
        let id = self.own_id();
        if self.is(Mutant::JournalsBeforeCounting) {
            self.journal.extend(payloads.iter().cloned());
        }
        self.send((SenderRole::Write, id), Decided { before, answers, payloads }, world, now_ms);
        Ok(())
    }

    fn own_id(&self) -> LeaderId {
        self.memory.chain.position().leader.as_ref().expect("it leads").id
    }

    fn send(
        &mut self,
        (role, leader): (SenderRole<'_>, LeaderId),
        decided: Decided,
        world: &mut World,
        now_ms: u64,
    ) {
        let Decided { before, answers, payloads } = decided;
        let (prev, first) = self.memory.chain.link();
        let records = (first..).zip(&payloads);
        let records = records.map(|(first, payload)| RecordRef { first, count: 1, payload });
        let message = Message {
            role,
            prev,
            leader,
            first,
            at_ms: now_ms,
            documents: before.documents(),
            distance_max: 3,
            records: records.collect(),
            touches: vec![],
        };
        let (bytes, digest) = message.encode(&identity());
        let bytes: Arc<[u8]> = bytes.into();
        world.sent(digest, &before, answers.iter().map(|(number, _)| *number).collect());
        self.memory.chain.sent(&message, digest, Arc::clone(&bytes), now_ms);
        let is_acknowledged = self.append(bytes, world);
        if self.is(Mutant::AnswersOnAcknowledgement) && is_acknowledged {
            for (number, answer) in &answers {
                world.answer(*number, *answer);
            }
        }
        self.memory.under_way.push_back(Group { answers });
    }

    /// Whether the log acknowledges.
    fn append(&mut self, bytes: Arc<[u8]>, world: &mut World) -> bool {
        let read = self.memory.chain.position().at;
        let Ok(Ok(at)) = self.log.append(bytes).try_recv() else { return false };
        if let Err(halt) = Chain::acknowledged(at, read) {
            self.halt(world, halt);
        }
        true
    }

    /// Does what is due.
    pub(super) fn act(
        &mut self,
        is_stopping: bool,
        world: &mut World,
        dice: &mut Dice,
        now_ms: u64,
    ) {
        if self.memory.halted.is_some() {
            return;
        }
        let next = self.memory.chain.position().next;
        if self.memory.is_at_end && next <= self.journal.len() as u64 && !self.leads() {
            let read = self.memory.chain.position().at;
            return self.halt(world, Halt::Regressed { last: read, read });
        }
        let takeover_ms = self.memory.is_at_end.then_some(self.memory.takeover_ms);
        let role = match self.memory.chain.due(!is_stopping, takeover_ms, now_ms) {
            Due::Nothing => return,
            Due::Lead => SenderRole::Lead { address: "here" },
            Due::Beat => SenderRole::Write,
            Due::Resign => SenderRole::Resign,
            Due::SendAgain => {
                let again: Vec<_> = self.memory.chain.again().cloned().collect();
                for bytes in again {
                    self.append(bytes, world);
                }
                return;
            }
        };
        self.memory.is_about_to_write = false;
        let before = self.memory.content.clone();
        let leads = matches!(role, SenderRole::Lead { .. });
        self.memory.takeover_ms = 3_000 + dice.below(1_000) as u64;
        let id = if leads { LeaderId(dice.roll()) } else { self.own_id() };
        let decided = Decided { before, answers: vec![], payloads: vec![] };
        self.send((role, id), decided, world, now_ms);
    }

    /// Whether all that it has read is durable and answered, and nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.memory.under_way.is_empty() && self.memory.counted.is_empty()
    }
}

//! What the schedules are checked against: a machine that runs the operations of all messages that
//! count, one after the other.

use std::collections::{BTreeMap, HashMap};

use crate::replication::message::{Digest, Message};

/// Keys are few, so that operations meet.
pub(super) const KEYS: usize = 2;

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// Stores the number of the operation under a key that has none.
    Insert(u8),
    Remove(u8),
}

/// What the key had before.
pub(super) type Answer = Option<u32>;

/// The content of a node.
#[derive(Debug, Clone, Default)]
pub(super) struct WorldContent {
    stored: BTreeMap<u8, u32>,
    /// A digest of all changes.
    history: u64,
}

impl WorldContent {
    pub(super) fn documents(&self) -> u64 {
        self.stored.len() as u64
    }

    /// Decides an operation; also returns the record of its change, if it changes anything.
    pub(super) fn decide(
        &mut self,
        number: u32,
        operation: Operation,
    ) -> (Answer, Option<Vec<u8>>) {
        let (kind, key) = match operation {
            Operation::Insert(key) => (1, key),
            Operation::Remove(key) => (0, key),
        };
        let before = self.stored.get(&key).copied();
        let record = (before.is_none() == (kind == 1)).then(|| {
            let number = number.to_le_bytes();
            vec![kind, key, number[0], number[1], number[2], number[3]]
        });
        if let Some(record) = &record {
            self.enact(record);
        }
        (before, record)
    }

    pub(super) fn enact(&mut self, record: &[u8]) {
        let number = u32::from_le_bytes(record[2..].try_into().unwrap());
        match record[0] {
            1 => self.stored.insert(record[1], number),
            _ => self.stored.remove(&record[1]),
        };
        let bits = u64::from(number) << 16 | u64::from(record[0]) << 8 | u64::from(record[1]);
        self.history = (self.history ^ bits).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

/// A group that was sent.
#[derive(Debug, Clone)]
struct Group {
    history_before: u64,
    operations: Vec<u32>,
}

#[derive(Debug)]
struct Client {
    operation: Operation,
    /// The number of messages that had counted when the last of the answers before it was given.
    after: usize,
    /// The message that it was counted with.
    counted: Option<usize>,
    /// Answered, with or without a message.
    answer: Option<Answer>,
    is_unsent: bool,
    /// Told that it never happens.
    is_refused: bool,
}

/// The reference and all clients.
#[derive(Debug, Default)]
pub(super) struct World {
    groups: HashMap<Digest, Group>,
    /// The messages that count, and the history after each.
    counted: Vec<(Digest, u64)>,
    content: WorldContent,
    records: Vec<Vec<u8>>,
    clients: Vec<Client>,
    answered_upto: usize,
    pub(super) statistics: Statistics,
}

/// That schedules meet what they are for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Statistics {
    pub(super) answered: u64,
    pub(super) refused: u64,
    pub(super) ignored: u64,
    pub(super) deposed: u64,
    pub(super) led: u64,
    pub(super) crashed: u64,
    pub(super) seeded: u64,
    pub(super) halted: u64,
}

impl Statistics {
    pub(super) fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.refused += other.refused;
        self.ignored += other.ignored;
        self.deposed += other.deposed;
        self.led += other.led;
        self.crashed += other.crashed;
        self.seeded += other.seeded;
        self.halted += other.halted;
    }
}

impl World {
    /// A client asks for something.
    pub(super) fn submit(&mut self, operation: Operation) -> u32 {
        self.clients.push(Client {
            operation,
            after: self.answered_upto,
            counted: None,
            answer: None,
            is_unsent: false,
            is_refused: false,
        });
        self.clients.len() as u32 - 1
    }

    pub(super) fn operation(&self, number: u32) -> Operation {
        self.clients[number as usize].operation
    }

    /// A node sends a message that it decided on this content.
    pub(super) fn sent(&mut self, digest: Digest, before: &WorldContent, operations: Vec<u32>) {
        let group = Group { history_before: before.history, operations };
        self.groups.insert(digest, group);
    }

    /// A message counts on a node, as its `index`th.
    pub(super) fn counts(
        &mut self,
        index: usize,
        digest: Digest,
        message: &Message<'_>,
    ) -> Result<(), String> {
        if let Some((expected, _)) = self.counted.get(index) {
            let is_same = *expected == digest;
            return is_same.then_some(()).ok_or_else(|| format!("{index}: two messages count"));
        }
        let group = self.groups[&digest].clone();
        if group.history_before != self.content.history {
            return Err(format!("{index} was decided on another state"));
        }
        let mut records = Vec::new();
        for number in group.operations {
            let client = &mut self.clients[number as usize];
            if client.counted.replace(index).is_some() {
                return Err(format!("operation {number} counts twice"));
            }
            records.extend(self.content.decide(number, client.operation).1);
        }
        if !records.iter().eq(message.records.iter().map(|record| record.payload)) {
            return Err(format!("{index} has other records than its operations"));
        }
        self.records.extend(records);
        self.counted.push((digest, self.content.history));
        Ok(())
    }

    /// A node gives an answer.
    pub(super) fn answer(&mut self, number: u32, answer: Answer) {
        let client = &mut self.clients[number as usize];
        client.answer = Some(answer);
        self.statistics.answered += 1;
        let upto = client.counted.map_or(0, |index| index + 1);
        self.answered_upto = self.answered_upto.max(upto);
    }

    /// A node answers without a message: the answer must be that of a state between the last answer
    /// before the question and now.
    pub(super) fn answer_unsent(&mut self, number: u32, answer: Answer) -> Result<(), String> {
        let client = &self.clients[number as usize];
        let mut content = WorldContent::default();
        let mut was_right = false;
        for index in 0..=self.counted.len() {
            let now = content.clone().decide(number, client.operation).0;
            was_right |= index >= client.after && now == answer;
            if let Some((digest, _)) = self.counted.get(index) {
                for other in &self.groups[digest].operations {
                    content.decide(*other, self.clients[*other as usize].operation);
                }
            }
        }
        self.answer(number, answer);
        self.clients[number as usize].is_unsent = true;
        was_right.then_some(()).ok_or_else(|| format!("operation {number} got an old answer"))
    }

    /// A node tells a client that its operation never happens.
    pub(super) fn refuse(&mut self, number: u32) {
        self.clients[number as usize].is_refused = true;
        self.statistics.refused += 1;
    }

    /// Whether a node has the right content after so many messages.
    pub(super) fn check(&self, messages: usize, content: &WorldContent) -> Result<(), String> {
        let expected = messages.checked_sub(1).map_or(0, |last| self.counted[last].1);
        let is_right = expected == content.history;
        is_right.then_some(()).ok_or_else(|| format!("other content after {messages} messages"))
    }

    /// Whether a journal, from this record on, has nothing but what counts.
    pub(super) fn check_journal(&self, from: usize, journal: &[Vec<u8>]) -> Result<(), String> {
        let is_prefix = self.records[from.min(self.records.len())..].starts_with(&journal[from..]);
        is_prefix.then_some(()).ok_or_else(|| "a journal has what does not count".to_owned())
    }

    /// Whether all answers are those of one run, in an order that agrees with real time.
    pub(super) fn check_answers(&self) -> Result<(), String> {
        let mut content = WorldContent::default();
        for (digest, _) in &self.counted {
            for number in &self.groups[digest].operations {
                let client = &self.clients[*number as usize];
                let (answer, _) = content.decide(*number, client.operation);
                if client.answer.is_some_and(|given| given != answer) {
                    return Err(format!("operation {number} got a wrong answer"));
                }
            }
        }
        for (number, client) in self.clients.iter().enumerate() {
            if !client.is_unsent && client.answer.is_some() && client.counted.is_none() {
                return Err(format!("operation {number} was answered and is missing"));
            }
            if client.is_refused && client.counted.is_some() {
                return Err(format!("operation {number} was refused and counts"));
            }
            if client.counted.is_some_and(|index| index < client.after) {
                return Err(format!("operation {number} counts before one answered before it"));
            }
        }
        Ok(())
    }

    /// How many messages count.
    pub(super) fn messages(&self) -> usize {
        self.counted.len()
    }
}

//! What the schedules are checked against: the model, which runs the commands of all messages that
//! count, one after the other.

use std::collections::HashMap;

use nearprint_index::times::Times;
use nearprint_machine::model::Model;

use super::asked::{Asked, Reply};
use crate::api::error::Refused;
use crate::replication::message::{Digest, Message};
use crate::simulation::rig::check_state;
use crate::state::published::Published;

/// A group that was sent.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    /// What the clock of the leader said.
    pub(super) clock_ms: u64,
    /// The numbers of its commands.
    pub(super) commands: Vec<usize>,
}

#[derive(Debug)]
struct Client {
    asked: Asked,
    at_ms: u64,
    /// The number of messages that had counted when the last of the answers before it was given.
    after: usize,
    /// The message that it was counted with, and the model's reply.
    counted: Option<(usize, Reply)>,
    answer: Option<Reply>,
    /// Told that it never happens.
    is_refused: bool,
}

/// A message that counts.
struct Counted {
    digest: Digest,
    /// The model after it.
    model: Model,
    /// The same time on all nodes.
    times: Option<Times>,
}

/// The reference and all clients.
pub(super) struct World {
    pub(super) secret: [u8; 16],
    groups: HashMap<Digest, Group>,
    counted: Vec<Counted>,
    empty: Model,
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
    /// Two or more groups were under way.
    pub(super) together: u64,
    pub(super) snapshots: u64,
    pub(super) packs: u64,
    /// The follower has connected, and has begun with an export.
    pub(super) followed: u64,
    pub(super) copied: u64,
    /// A node read on from where the log begins.
    pub(super) rejoined: u64,
}

impl Statistics {
    fn all(&mut self) -> [&mut u64; 14] {
        let Self { answered, refused, ignored, deposed, led, crashed, seeded, halted, .. } = self;
        let Self { together, snapshots, packs, followed, copied, rejoined, .. } = self;
        [
            answered, refused, ignored, deposed, led, crashed, seeded, halted, together, snapshots,
            packs, followed, copied, rejoined,
        ]
    }

    pub(super) fn add(&mut self, other: &Self) {
        let mut other = *other;
        for (sum, more) in self.all().into_iter().zip(other.all()) {
            *sum += *more;
        }
    }
}

impl World {
    pub(super) fn new(secret: [u8; 16]) -> Self {
        Self {
            secret,
            groups: HashMap::new(),
            counted: Vec::new(),
            empty: Model::with_secret(secret),
            clients: Vec::new(),
            answered_upto: 0,
            statistics: Statistics::default(),
        }
    }

    /// A client asks for something. Returns its number.
    pub(super) fn submit(&mut self, asked: Asked, at_ms: u64) -> usize {
        self.clients.push(Client {
            asked,
            at_ms,
            after: self.answered_upto,
            counted: None,
            answer: None,
            is_refused: false,
        });
        self.clients.len() - 1
    }

    /// A node sends a message with a group.
    pub(super) fn sent(&mut self, digest: Digest, group: Group) {
        self.groups.insert(digest, group);
    }

    /// How many messages count.
    pub(super) fn messages(&self) -> usize {
        self.counted.len()
    }

    /// How many messages count up to this one.
    pub(super) fn messages_upto(&self, digest: Digest) -> usize {
        let at = self.counted.iter().rposition(|counted| counted.digest == digest);
        at.map_or(0, |at| at + 1)
    }

    fn model(&self, messages: usize) -> &Model {
        messages.checked_sub(1).map_or(&self.empty, |last| &self.counted[last].model)
    }

    /// A message counts on a node, as its `index`th.
    pub(super) fn counts(
        &mut self,
        index: usize,
        digest: Digest,
        message: &Message<'_>,
    ) -> Result<(), String> {
        if let Some(counted) = self.counted.get(index) {
            let is_same = counted.digest == digest;
            return is_same.then_some(()).ok_or_else(|| format!("{index}: two messages count"));
        }
        let mut model = self.model(index).clone();
        let Group { clock_ms, commands } = self.groups[&digest].clone();
        for number in commands {
            let client = &mut self.clients[number];
            model.set_time(client.at_ms.max(model.now_ms()).min(clock_ms));
            let reply = client.asked.run(&mut model);
            if client.counted.replace((index, reply)).is_some() {
                return Err(format!("command {number} counts twice"));
            }
        }
        if model.sequence().next().get() != message.next() {
            return Err(format!(
                "{index} ends before {}, not {}",
                message.next(),
                model.sequence()
            ));
        }
        model.set_time(message.at_ms);
        self.counted.push(Counted { digest, model, times: None });
        Ok(())
    }

    /// Whether a state after so many messages is the right one. `is_ahead` says that the journal
    /// has more than was read.
    pub(super) fn check(
        &mut self,
        messages: usize,
        published: &Published,
        (is_ahead, is_whole, knows_time): (bool, bool, bool),
    ) -> Result<(), String> {
        let (model, sequence) = (self.model(messages), published.view.sequence());
        if is_ahead {
            let is_ahead = sequence > model.sequence();
            return is_ahead.then_some(()).ok_or_else(|| "a journal is behind".to_owned());
        }
        if sequence != model.sequence() {
            return Err(format!("{messages}: published {sequence}, not {}", model.sequence()));
        }
        if is_whole {
            let checked = check_state(published, model, &self.secret);
            checked.map_err(|error| format!("after {messages} messages: {error}"))?;
        }
        let times = published.view.times().clone();
        if knows_time
            && let Some(counted) = messages.checked_sub(1).map(|last| &mut self.counted[last])
            && *counted.times.get_or_insert_with(|| times.clone()) != times
        {
            return Err(format!("after {messages} messages: other times"));
        }
        Ok(())
    }

    /// Whether a follower has what the nodes have after the same change. Where a file of the
    /// primary's journal ends within a group, it may have a part of that.
    pub(super) fn check_follower(&self, published: &Published) -> Result<(), String> {
        let sequence = published.view.sequence();
        let after = self.counted.iter().rev().map(|counted| &counted.model);
        let mut after = after.chain([&self.empty]);
        match after.find(|model| model.sequence() <= sequence) {
            Some(model) if model.sequence() == sequence => {
                check_state(published, model, &self.secret)
            }
            _ if self.counted.last().is_some_and(|last| last.model.sequence() > sequence) => Ok(()),
            _ => Err(format!("{sequence} is after all messages")),
        }
    }

    /// A node gives an answer.
    pub(super) fn answer(
        &mut self,
        number: usize,
        answer: Result<Reply, Refused>,
    ) -> Result<(), String> {
        let client = &mut self.clients[number];
        match answer {
            Ok(reply) => {
                client.answer = Some(reply);
                self.statistics.answered += 1;
                let upto = client.counted.as_ref().map_or(0, |(index, _)| index + 1);
                self.answered_upto = self.answered_upto.max(upto);
            }
            Err(Refused::NoLeader | Refused::DiskFull) => {
                client.is_refused = true;
                self.statistics.refused += 1;
            }
            // The node has crashed or halted.
            Err(Refused::Failed | Refused::OutcomeUnknown) => {}
            Err(refused) => return Err(format!("command {number}: {refused}")),
        }
        Ok(())
    }

    /// Whether all answers are those of one run, in an order that agrees with real time.
    pub(super) fn check_answers(&self) -> Result<(), String> {
        for (number, client) in self.clients.iter().enumerate() {
            let expected = client.counted.as_ref().map(|(_, reply)| reply);
            if client.answer.is_some() && expected.is_none() {
                return Err(format!("command {number} was answered and is missing"));
            }
            if client.answer.is_some() && client.answer.as_ref() != expected {
                let Client { asked, answer, .. } = client;
                return Err(format!("command {number}: {asked:?}: {answer:?}, not {expected:?}"));
            }
            if client.is_refused && expected.is_some() {
                return Err(format!("command {number} was refused and counts"));
            }
            if client.counted.as_ref().is_some_and(|(index, _)| *index < client.after) {
                return Err(format!("command {number} counts before one answered before it"));
            }
        }
        Ok(())
    }
}

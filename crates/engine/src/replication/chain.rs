//! What counts and who leads.
//!
//! 1. A message counts if its `prev` is the digest of the last message that counted, which fixes
//!    everything before it. All nodes read one order, so all count the same messages. A copy names
//!    a predecessor that has passed; what overtook its predecessor names one that has not come yet.
//!    Both are ignored, so repetition and reordering do no harm.
//! 2. A leader decides on its own state, which may be ahead of the log by what is *under way*. An
//!    answer rests on having read the own message back, counted: an acknowledgement only says that
//!    the message is in the log, perhaps after that of another leader.
//! 3. What is under way when another's message counts names a predecessor that is no longer the
//!    last one, and never will be again. It can never count, and its callers may be told so.
//! 4. Without progress the leader sends the same bytes again, from the first that did not count, so
//!    that what was lost in between is in the log in order once more.
//! 5. Leading begins when a message with [`SenderRole::Lead`] counts. A node tries when it has read
//!    to the end and nothing counted for a while; a leader sends a beat every second for that
//!    reason. Of several that try, one counts.
//! 6. A leader resigns with its last message, and the next one begins at once, as in a new log.
//! 7. A node without room leads only if nobody with room has tried: additions are refused there,
//!    but documents can be removed. It resigns each minute, so that a node with room can begin.
//!
//! Times only decide when something is sent, tried or given up, never what counts. They are
//! arguments, in milliseconds of a clock that is never set. Knows no log, thread or random number.
//!
//! A log that is not one order for all is noticed as far as one node can see it, and halts the
//! node: a gap, a shorter log than before, another number of documents, or a leader who goes on for
//! ten seconds with messages that do not count here.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::replication::log::LogBounds;
use crate::replication::message::{
    BadMessage, DOCUMENTS_UNKNOWN, Digest, LeaderId, Message, SenderRole,
};

/// With this many messages under way no further group is decided. More would only wait in the log.
pub const UNDER_WAY_MAX: usize = 4;
/// After this time without a message the leader sends one without changes.
pub const BEAT_MS: u64 = 1_000;
/// After this time without progress what is under way is sent again; then after twice that, and so
/// on.
pub const SEND_AGAIN_MS: u64 = 500;
/// The longest time between two repetitions.
pub const SEND_AGAIN_MS_MAX: u64 = 5_000;
/// A leader without room resigns after this time, in case another has room by now.
pub const FULL_LEADS_MS: u64 = 60_000;
/// If the newest own message that counted was sent longer ago, the leader accepts no writes, nor
/// does it resign. Less than any takeover time, so that few are accepted in vain. Measured from
/// when it was sent, because a leader that has fallen behind reads its old messages late.
pub const ACCEPT_MS: u64 = 2_500;
/// A leader that goes on for this time with messages that do not count here is one that others
/// follow. More than [`ACCEPT_MS`], after which a leader without followers makes no new ones.
pub const DIVERGED_MS: u64 = 10_000;
/// It goes on if its messages are no further apart than this: more than [`BEAT_MS`]. A leader that
/// was paused may still send one that it had begun.
pub const DIVERGED_GAP_MS: u64 = 5_000;

/// How far a node has read, and what it knows from that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The last entry of the log that it has read.
    pub at: u64,
    /// The last message that counted, and the time of its decisions.
    pub digest: Digest,
    pub at_ms: u64,
    /// The last message with changes that counted. Nodes for which it is the same have the same
    /// content, whatever beats they have read since.
    pub changed: Digest,
    /// The sequence of the next change.
    pub next: u64,
    /// Who leads. Part of the position, because no later message has the address.
    pub leader: Option<Leader>,
}

/// Who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// The attempt with which it began.
    pub id: LeaderId,
    /// Where it is reached. Empty if it is not known, because the message with which it began was
    /// discarded.
    pub address: Arc<str>,
}

/// What a message in the log is for a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryOutcome {
    /// It counts.
    Counts(Whose),
    /// It does not count, on any node.
    Ignored(Ignored),
    /// This node cannot go on.
    Halts(Halt),
}

/// Whose message counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The oldest that this node has under way: it may be answered once it is durable here.
    Own,
    /// Another's, or one that this node sent before it was restarted. The own messages that were
    /// under way can never count.
    Other,
}

/// Why a message does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// It is not a message of this cluster.
    Foreign,
    /// It was not decided after the last one that counted.
    Unchained,
}

/// Why a node cannot go on. Its look-ups can.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// The log has lost what it had acknowledged, or is another one.
    #[error("the log has regressed: it ends at {last}, and this node has read {read}")]
    Regressed { last: u64, read: u64 },
    /// The log is another one, though it may have the same name.
    #[error("the log is another one: its identity is {found:x}, and this node has read {read:x}")]
    OtherLog { read: u64, found: u64 },
    /// The log has another history than the journal.
    #[error(
        "the log is another one: change {sequence} in it is not the one in this node's journal"
    )]
    Rewritten { sequence: u64 },
    /// The log was begun anew at an earlier change.
    #[error(
        "the log was begun anew at change {first}, and this node has changes up to {}, which would be \
         lost; next: begin it anew at this node (nearprint cluster refound), or empty its directory",
        .next - 1
    )]
    Ahead { first: u64, next: u64 },
    /// The log has lost what the journal has.
    #[error("the log has regressed: it ends before change {next}, and this node has change {last}")]
    Lost { next: u64, last: u64 },
    /// An entry is missing.
    #[error("the log has a gap: entry {got} comes after {read}")]
    Gap { read: u64, got: u64 },
    /// A message of this cluster cannot be read.
    #[error(transparent)]
    Unreadable(BadMessage),
    /// The leader had other content when it decided.
    #[error(
        "this copy has diverged: it has {documents} documents before change {next}, the leader or \
         primary had {leaders} before {leaders_next}"
    )]
    Content { documents: u64, next: u64, leaders: u64, leaders_next: u64 },
    /// The primary has another history than this copy.
    #[error("{0}")]
    OtherHistory(String),
    /// What it has not read can be read no more, and nobody who can be copied has what it has.
    #[error("{0}")]
    NoSeed(String),
    /// The messages of a leader that others follow do not count here.
    #[error("this node has diverged: messages of leader {:x} have not counted for 10 s", .0.0)]
    Unfollowed(LeaderId),
}

/// How a node begins with a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// It reads on from its position.
    Read,
    /// What it has not read was discarded; it needs the content of another node.
    Seed,
    /// It must not read.
    Halt(Halt),
}

/// What a node must do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// Send a message with [`SenderRole::Lead`] and a new [`LeaderId`].
    Lead,
    /// Send a message without changes.
    Beat,
    /// Send a message with [`SenderRole::Resign`].
    Resign,
    /// Send what is [under way](Chain::under_way) again.
    SendAgain,
}

/// Whether a node could lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fitness {
    /// It could.
    Fit,
    /// It has no room for additions: it leads if nobody else does.
    Full,
    /// It must not.
    Unfit,
}

/// The state of a node: which message counted last, who leads, and what it has under way itself.
#[derive(Debug)]
pub struct Chain {
    position: Position,
    /// When a message came last that counted or may count on other nodes.
    heard_ms: u64,
    unfollowed: Option<Unfollowed>,
    own: Option<Own>,
    /// It had no room when it tried to lead, nor since.
    began_full: bool,
}

/// A leader whose messages do not count here.
#[derive(Debug)]
struct Unfollowed {
    leader: LeaderId,
    /// When the first of them came, and when the last one that was not a copy.
    since_ms: u64,
    heard_ms: u64,
    /// The times in the first one and the newest one.
    first_at_ms: u64,
    newest_at_ms: u64,
}

/// What this node sends, from its attempt to lead on.
#[derive(Debug)]
struct Own {
    id: LeaderId,
    leads: bool,
    resigns: bool,
    /// When it tried to lead.
    tried_ms: u64,
    /// When the newest of them that counted was sent.
    confirmed_ms: u64,
    under_way: VecDeque<UnderWay>,
    again_at_ms: u64,
    again_after_ms: u64,
}

#[derive(Debug)]
struct UnderWay {
    digest: Digest,
    next: u64,
    sent_ms: u64,
    bytes: Arc<[u8]>,
}

impl Position {
    /// How a node at this position begins with a log. Its journal may have more changes than are
    /// before `next`, but never more than the log.
    pub fn start(&self, log: LogBounds) -> Start {
        if log.last < self.at {
            Start::Halt(Halt::Regressed { last: log.last, read: self.at })
        } else if log.first > self.at.saturating_add(1) {
            Start::Seed
        } else {
            Start::Read
        }
    }
}

impl Chain {
    /// Continues from a position.
    pub fn new(position: Position, now_ms: u64) -> Self {
        Self { position, heard_ms: now_ms, unfollowed: None, own: None, began_full: false }
    }

    /// How far it has read. It may be stored once the changes before `next` are durable.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// Whether this is a follower: the primary leads for good, and each connection to it begins a
    /// chain of its own.
    pub fn follows_primary(&self) -> bool {
        let leader = self.position.leader.as_ref();
        leader.is_some_and(|leader| leader.id == LeaderId::PRIMARY)
    }

    /// Whether a message comes after the last one that counted.
    pub(crate) fn is_chained(&self, message: &Message<'_>) -> bool {
        let begins_anew = message.prev == Digest(0) && self.follows_primary();
        begins_anew || message.prev == self.position.digest
    }

    /// Whether a message is the oldest that this node has under way.
    pub(crate) fn is_own(&self, digest: Digest) -> bool {
        self.under_way().next().is_some_and(|oldest| oldest.digest == digest)
    }

    /// Waits no longer for what is under way, and neither leads nor tries to. If it counts all the
    /// same, it is read as another's.
    pub(crate) fn give_up(&mut self) {
        self.own = None;
    }

    /// What the next message of this node must name: its predecessor, and its first sequence.
    pub fn link(&self) -> (Digest, u64) {
        let last = self.under_way().last();
        last.map_or((self.position.digest, self.position.next), |last| (last.digest, last.next))
    }

    /// Whether this node leads.
    pub fn leads(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.leads)
    }

    /// Whether this node leads, as far as it can tell, and does not resign.
    pub fn is_followed(&self, now_ms: u64) -> bool {
        self.own.as_ref().is_some_and(|own| own.may_send(now_ms) && !own.resigns)
    }

    /// Whether this node may decide a group now.
    pub fn accepts(&self, now_ms: u64) -> bool {
        self.is_followed(now_ms) && self.under_way().count() < UNDER_WAY_MAX
    }

    /// The bytes of what was sent and has not counted, in order.
    pub fn again(&self) -> impl Iterator<Item = &Arc<[u8]>> {
        self.under_way().map(|sent| &sent.bytes)
    }

    fn under_way(&self) -> impl DoubleEndedIterator<Item = &UnderWay> {
        self.own.iter().flat_map(|own| &own.under_way)
    }

    /// Notes a message that this node sends.
    ///
    /// # Panics
    /// If it does not continue what is under way, or if this node neither leads nor tries to.
    pub fn sent(&mut self, message: &Message<'_>, digest: Digest, bytes: Arc<[u8]>, now_ms: u64) {
        assert_eq!(self.link(), (message.prev, message.first), "messages are chained");
        let id = message.leader;
        if matches!(message.role, SenderRole::Lead { .. }) {
            assert!(self.own.is_none(), "who leads or tries does not try again");
            self.own = Some(Own::new(id, now_ms));
        }
        let own = self.own.as_mut().filter(|own| own.id == id).expect("it leads, or tries to");
        own.resigns |= message.role == SenderRole::Resign;
        if own.under_way.is_empty() {
            own.wait(SEND_AGAIN_MS, now_ms);
        }
        let next = message.next();
        own.under_way.push_back(UnderWay { digest, next, sent_ms: now_ms, bytes });
    }

    /// Takes the next entry of the log. `documents` is the number of documents after the last
    /// change before it, unless the journal is further than the log has been read.
    pub fn read(
        &mut self,
        at: u64,
        entry: &Result<(Message<'_>, Digest), BadMessage>,
        documents: Option<u64>,
        now_ms: u64,
    ) -> EntryOutcome {
        let read = self.position.at;
        if at != read.saturating_add(1) {
            return EntryOutcome::Halts(Halt::Gap { read, got: at });
        }
        self.position.at = at;
        let (message, digest) = match entry {
            Ok((message, digest)) => (message, *digest),
            Err(BadMessage::Foreign) => return EntryOutcome::Ignored(Ignored::Foreign),
            Err(bad) => return EntryOutcome::Halts(Halt::Unreadable(*bad)),
        };
        if !self.is_chained(message) {
            return self.ignore(message, now_ms);
        }
        let next = self.position.next;
        let is_known = !(self.follows_primary() && message.documents == DOCUMENTS_UNKNOWN);
        let documents = documents.filter(|_| is_known).unwrap_or(message.documents);
        if (message.first, message.documents) != (next, documents) {
            let (leaders, leaders_next) = (message.documents, message.first);
            return EntryOutcome::Halts(Halt::Content { documents, next, leaders, leaders_next });
        }
        self.count(message, digest, now_ms)
    }

    fn count(&mut self, message: &Message<'_>, digest: Digest, now_ms: u64) -> EntryOutcome {
        self.position.digest = digest;
        if message.next() != message.first {
            self.position.changed = digest;
        }
        self.position.next = message.next();
        self.position.at_ms = message.at_ms;
        self.heard_ms = now_ms;
        self.unfollowed.take_if(|unfollowed| unfollowed.leader == message.leader);
        match message.role {
            SenderRole::Lead { address } => {
                let leader = Leader { id: message.leader, address: address.into() };
                self.position.leader = Some(leader);
            }
            SenderRole::Write => {}
            SenderRole::Resign => self.position.leader = None,
        }
        let is_own = self.is_own(digest);
        let Some(own) = self.own.as_mut().filter(|_| is_own) else {
            self.own = None;
            return EntryOutcome::Counts(Whose::Other);
        };
        own.confirmed_ms = own.under_way.pop_front().map_or(0, |sent| sent.sent_ms);
        own.leads = true;
        own.wait(SEND_AGAIN_MS, now_ms);
        self.own.take_if(|_| message.role == SenderRole::Resign);
        EntryOutcome::Counts(Whose::Own)
    }

    /// A message that is not chained to the last one that counted. If it is not a copy of one that
    /// counted long ago, and its leader goes on making new ones, others follow that leader: without
    /// followers it would make no more.
    fn ignore(&mut self, message: &Message<'_>, now_ms: u64) -> EntryOutcome {
        let (leader, at_ms) = (message.leader, message.at_ms);
        if at_ms <= self.position.at_ms {
            return EntryOutcome::Ignored(Ignored::Unchained);
        }
        let fresh = Unfollowed {
            leader,
            since_ms: now_ms,
            heard_ms: now_ms,
            first_at_ms: at_ms,
            newest_at_ms: at_ms,
        };
        let is_silent =
            |known: &mut Unfollowed| now_ms.saturating_sub(known.heard_ms) >= DIVERGED_MS;
        self.unfollowed.take_if(is_silent);
        let known = self.unfollowed.get_or_insert(fresh);
        if known.leader == leader && at_ms > known.newest_at_ms {
            self.heard_ms = now_ms;
            known.go_on(at_ms, now_ms);
            if known.lasted_ms(now_ms) >= DIVERGED_MS {
                return EntryOutcome::Halts(Halt::Unfollowed(leader));
            }
        }
        EntryOutcome::Ignored(Ignored::Unchained)
    }

    /// What the log's acknowledgement of an append says about the log. `read` is how far this node
    /// had read when it sent the entry.
    ///
    /// # Errors
    /// [`Halt::Regressed`].
    pub fn acknowledged(last: u64, read: u64) -> Result<(), Halt> {
        if last > read { Ok(()) } else { Err(Halt::Regressed { last, read }) }
    }

    /// What is to be done. `takeover_ms` is how long it waits for a silent leader before it tries,
    /// with its part that is drawn, and half of that longer if it is full; `None` while it has not
    /// read to the end.
    pub fn due(&mut self, fitness: Fitness, takeover_ms: Option<u64>, now_ms: u64) -> Due {
        let silent_ms = now_ms.saturating_sub(self.heard_ms);
        let is_full = fitness == Fitness::Full;
        self.began_full &= is_full;
        let Some(own) = &mut self.own else {
            let is_led = self.position.leader.is_some();
            let wait_ms = |ms: u64| {
                (if is_led { ms } else { 0 }).saturating_add(if is_full { ms / 2 } else { 0 })
            };
            let is_due = takeover_ms.is_some_and(|ms| silent_ms >= wait_ms(ms));
            if !is_due || fitness == Fitness::Unfit {
                return Due::Nothing;
            }
            self.began_full = is_full;
            return Due::Lead;
        };
        let leads_on = match fitness {
            Fitness::Fit => true,
            Fitness::Full => self.began_full && now_ms.saturating_sub(own.tried_ms) < FULL_LEADS_MS,
            Fitness::Unfit => false,
        };
        if own.may_send(now_ms) && !leads_on && !own.resigns {
            return Due::Resign;
        }
        if own.under_way.is_empty() {
            let is_due = now_ms.saturating_sub(own.confirmed_ms) >= BEAT_MS;
            return if is_due { Due::Beat } else { Due::Nothing };
        }
        if now_ms < own.again_at_ms {
            return Due::Nothing;
        }
        own.wait((2 * own.again_after_ms).min(SEND_AGAIN_MS_MAX), now_ms);
        Due::SendAgain
    }
}

impl Unfollowed {
    /// Notes a newer message. After a pause it begins anew.
    fn go_on(&mut self, at_ms: u64, now_ms: u64) {
        if at_ms.saturating_sub(self.newest_at_ms) > DIVERGED_GAP_MS {
            (self.since_ms, self.first_at_ms) = (now_ms, at_ms);
        }
        (self.heard_ms, self.newest_at_ms) = (now_ms, at_ms);
    }

    /// How long it has gone on, by this node's clock and by its own: what is read late was sent at
    /// another pace.
    fn lasted_ms(&self, now_ms: u64) -> u64 {
        let here_ms = now_ms.saturating_sub(self.since_ms);
        here_ms.min(self.newest_at_ms.saturating_sub(self.first_at_ms))
    }
}

impl Own {
    fn new(id: LeaderId, now_ms: u64) -> Self {
        Self {
            id,
            leads: false,
            resigns: false,
            tried_ms: now_ms,
            confirmed_ms: 0,
            under_way: VecDeque::new(),
            again_at_ms: 0,
            again_after_ms: 0,
        }
    }

    /// Whether it leads, as far as it can tell.
    fn may_send(&self, now_ms: u64) -> bool {
        self.leads && now_ms.saturating_sub(self.confirmed_ms) < ACCEPT_MS
    }

    fn wait(&mut self, ms: u64, now_ms: u64) {
        self.again_after_ms = ms;
        self.again_at_ms = now_ms.saturating_add(ms);
    }
}

#[cfg(test)]
mod tests {
    use nearprint_storage::Identity;

    use super::*;

    fn chain() -> Chain {
        let leader = Some(Leader { id: LeaderId(1), address: "there".into() });
        let position =
            Position { at: 7, digest: Digest(1), at_ms: 0, changed: Digest(1), next: 5, leader };
        Chain::new(position, 0)
    }

    /// What a node with this chain sends.
    fn message(chain: &Chain, role: SenderRole<'static>, at_ms: u64) -> (Message<'static>, Digest) {
        let (prev, first) = chain.link();
        let (leader, documents, distance_max) = (LeaderId(9), 3, 6);
        let (records, touches) = (vec![], vec![]);
        let message =
            Message { role, prev, leader, first, at_ms, documents, distance_max, records, touches };
        let (_, digest) = message.encode(&Identity::new([7; 16], "np2"));
        (message, digest)
    }

    fn send(
        chain: &mut Chain,
        role: SenderRole<'static>,
        now_ms: u64,
    ) -> (Message<'static>, Digest) {
        let (message, digest) = message(chain, role, now_ms);
        chain.sent(&message, digest, Arc::new([]), now_ms);
        (message, digest)
    }

    fn read(chain: &mut Chain, sent: (Message<'static>, Digest), now_ms: u64) -> EntryOutcome {
        chain.read(chain.position.at + 1, &Ok(sent), Some(3), now_ms)
    }

    const LEAD: SenderRole<'static> = SenderRole::Lead { address: "here" };
    const OWN: EntryOutcome = EntryOutcome::Counts(Whose::Own);

    fn leading(now_ms: u64) -> Chain {
        let mut chain = chain();
        let lead = send(&mut chain, LEAD, now_ms);
        assert_eq!(read(&mut chain, lead, now_ms), OWN);
        chain
    }

    #[test]
    fn a_node_tries_to_lead_at_the_end_of_a_silent_log() {
        let mut chain = chain();
        assert_eq!(chain.due(Fitness::Fit, Some(3_000), 2_999), Due::Nothing);
        assert_eq!(
            chain.due(Fitness::Fit, None, 3_000),
            Due::Nothing,
            "it has not read to the end"
        );
        assert_eq!(chain.due(Fitness::Unfit, Some(3_000), 3_000), Due::Nothing, "it is not fit");
        assert_eq!(chain.due(Fitness::Fit, Some(3_000), 3_000), Due::Lead);
        let lead = send(&mut chain, LEAD, 3_000);
        assert!(!chain.leads() && !chain.accepts(3_000), "it may not be the first");
        assert_eq!(read(&mut chain, lead, 3_001), OWN);
        assert!(chain.leads() && chain.accepts(3_001));
        assert_eq!(chain.position().leader.as_ref().map(|leader| &*leader.address), Some("here"));
    }

    #[test]
    fn after_a_resignation_the_next_one_tries_at_once() {
        let (mut leader, mut follower) = (leading(0), chain());
        let lead = message(&follower, LEAD, 0);
        assert_eq!(read(&mut follower, lead, 0), EntryOutcome::Counts(Whose::Other));
        assert_eq!(leader.due(Fitness::Unfit, None, 10), Due::Resign);
        let resigns = send(&mut leader, SenderRole::Resign, 10);
        assert!(!leader.accepts(10) && leader.due(Fitness::Unfit, None, 10) == Due::Nothing);
        assert_eq!(follower.due(Fitness::Fit, Some(3_000), 11), Due::Nothing);
        read(&mut follower, resigns.clone(), 11);
        assert_eq!(follower.due(Fitness::Fit, Some(3_000), 11), Due::Lead);
        assert_eq!(read(&mut leader, resigns, 11), OWN);
        assert!(!leader.leads());
    }

    #[test]
    fn a_node_without_room_leads_if_nobody_else_does() {
        let (mut chain, full) = (chain(), Fitness::Full);
        assert_eq!(chain.due(full, Some(3_000), 4_499), Due::Nothing, "others try first");
        assert_eq!(chain.due(full, Some(3_000), 4_500), Due::Lead);
        let lead = send(&mut chain, LEAD, 4_500);
        assert_eq!(read(&mut chain, lead, 4_500), OWN);
        let beats = (5..64).filter(|now_s| {
            let due = chain.due(full, None, now_s * 1_000 + 500);
            if due == Due::Beat {
                let beat = send(&mut chain, SenderRole::Write, now_s * 1_000 + 500);
                read(&mut chain, beat, now_s * 1_000 + 500);
            }
            due == Due::Beat
        });
        assert_eq!(beats.count(), 59, "it stays, as it was without room when it began");
        assert_eq!(chain.due(full, None, 64_500), Due::Resign, "perhaps another has room by now");
        let resigns = send(&mut chain, SenderRole::Resign, 64_500);
        read(&mut chain, resigns, 64_500);
        assert_eq!(chain.due(full, Some(3_000), 65_999), Due::Nothing);
        assert_eq!(chain.due(full, Some(3_000), 66_000), Due::Lead);
    }

    #[test]
    fn a_leader_whose_room_ends_resigns() {
        let mut leader = leading(0);
        assert_eq!(leader.due(Fitness::Full, None, 10), Due::Resign);
        let mut chain = chain();
        assert_eq!(chain.due(Fitness::Full, Some(3_000), 9_000), Due::Lead);
        let lead = send(&mut chain, LEAD, 9_000);
        read(&mut chain, lead, 9_000);
        assert_eq!(chain.due(Fitness::Full, None, 9_001), Due::Nothing);
        assert_eq!(chain.due(Fitness::Fit, None, 9_002), Due::Nothing, "it has room again");
        assert_eq!(chain.due(Fitness::Full, None, 9_003), Due::Resign);
    }

    #[test]
    fn a_leader_sends_beats_and_again_what_does_not_count() {
        let mut chain = leading(0);
        assert_eq!(chain.due(Fitness::Fit, None, BEAT_MS - 1), Due::Nothing);
        assert_eq!(chain.due(Fitness::Fit, None, BEAT_MS), Due::Beat);
        let beat = send(&mut chain, SenderRole::Write, BEAT_MS);
        let again: Vec<u64> = (BEAT_MS..20_000)
            .filter(|now_ms| chain.due(Fitness::Fit, None, *now_ms) == Due::SendAgain)
            .collect();
        assert_eq!(again, [1_500, 2_500, 4_500, 8_500, 13_500, 18_500]);
        assert_eq!(chain.again().count(), 1);
        assert_eq!(
            chain.due(Fitness::Unfit, None, 20_000),
            Due::Nothing,
            "nobody follows it any more"
        );
        assert_eq!(read(&mut chain, beat, 20_000), OWN);
        assert!(!chain.accepts(20_000), "what counts was sent long ago");
        assert_eq!(chain.due(Fitness::Fit, None, 20_000), Due::Beat);
    }

    #[test]
    fn a_leader_accepts_a_few_groups_and_only_while_they_count() {
        let mut chain = leading(0);
        assert!(chain.accepts(ACCEPT_MS - 1) && !chain.accepts(ACCEPT_MS));
        for _ in 0..UNDER_WAY_MAX {
            assert!(chain.accepts(0));
            send(&mut chain, SenderRole::Write, 0);
        }
        assert!(!chain.accepts(0));
    }

    #[test]
    fn what_is_under_way_when_another_leads_is_lost() {
        let mut chain = leading(0);
        let other = message(&chain, LEAD, 1);
        let own = send(&mut chain, SenderRole::Write, 0);
        send(&mut chain, SenderRole::Write, 0);
        assert_eq!(read(&mut chain, other, 1), EntryOutcome::Counts(Whose::Other));
        assert_eq!(read(&mut chain, own, 2), EntryOutcome::Ignored(Ignored::Unchained));
        assert!(!chain.leads() && chain.again().next().is_none());
    }

    #[test]
    fn a_log_that_cannot_be_trusted_halts_the_node() {
        let foreign = Err(BadMessage::Foreign);
        let halts = |outcome: EntryOutcome| matches!(outcome, EntryOutcome::Halts(_));
        assert_eq!(
            chain().read(9, &foreign, None, 0),
            EntryOutcome::Halts(Halt::Gap { read: 7, got: 9 })
        );
        assert_eq!(chain().read(8, &foreign, None, 0), EntryOutcome::Ignored(Ignored::Foreign));
        assert!(halts(chain().read(8, &Err(BadMessage::Version(2)), None, 0)));
        let lead = Ok(message(&chain(), LEAD, 0));
        assert!(halts(chain().read(8, &lead, Some(4), 0)), "another number of documents");
        assert!(!halts(chain().read(8, &lead, None, 0)));
        assert!(Chain::acknowledged(7, 7).is_err() && Chain::acknowledged(8, 7).is_ok());
        let start = |first, last| chain().position().start(LogBounds { first, last });
        assert_eq!(start(1, 6), Start::Halt(Halt::Regressed { last: 6, read: 7 }));
        assert_eq!(
            [start(9, 9), start(8, 7), start(1, 9)],
            [Start::Seed, Start::Read, Start::Read]
        );
    }

    /// Messages of one leader, in steps of this length, that do not count.
    fn unfollowed(step_ms: u64, is_made_anew: bool) -> bool {
        let mut chain = chain();
        let mut outcome = |now_ms| {
            let (mut message, digest) =
                message(&chain, LEAD, if is_made_anew { now_ms } else { 1 });
            message.prev = Digest(2);
            read(&mut chain, (message, digest), now_ms)
        };
        let mut outcomes = (1..).map(|step| step * step_ms).take_while(|ms| *ms < 30_000);
        outcomes.any(|now_ms| matches!(outcome(now_ms), EntryOutcome::Halts(Halt::Unfollowed(_))))
    }

    #[test]
    fn a_leader_whom_others_follow_halts_the_node_that_cannot() {
        assert!(unfollowed(1_000, true));
        assert!(!unfollowed(1_000, false), "a deposed leader repeats the same bytes");
        assert!(!unfollowed(6_000, true), "one that was paused sends what it had begun");
    }
}

//! Budgets of bytes: how many bytes of bodies, and of replies, may be in memory at one time.
//!
//! A [`ByteBudget`] gives [`ByteShare`]s, which go back when they are dropped. Small bodies and
//! replies take none. A body that gets no share is refused.
//!
//! Bodies and long replies are divided among clients by the rule of [`Client`], in bytes: a client
//! may take more as long as it then has at most as many as were free, and one whole body or reply
//! in any case. So nobody is refused because another client sends or reads slowly.
//!
//! A reply of up to [`SHORT_BYTES`] does not count, because each connection has a buffer of that
//! size anyway; nor does one that lists a single hit. A longer reply counts from before its hits
//! are read until the operating system has taken its last byte, or the client is gone.
//! `server.replies_held_bytes_max` is split in two, so that neither half can starve the other:
//!
//! - **long replies.** If this half is spent, a single look-up is refused (503), and a single write
//!   gets fewer hits (`truncated`), because it must be answered. A batch waits.
//! - **batches**, for what they work on ahead of their turn, and for finished replies that their
//!   clients have not read. If this half is spent, a batch continues with [`OWN_BYTES`] of its own,
//!   a few lines at a time, and sends what is finished.
//!
//! A batch never waits while it keeps what another one waits for: it waits for shares of the first
//! half only at the line whose reply is finished next, with no such share kept longer than its
//! client takes to read, and never for shares of the second half.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use nearprint_engine::{Client, Findings, Found, Shown};
use nearprint_wire::code::Code;
use serde::Serialize;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::limits::shares::Holdings;
use crate::refusal::Refusal;

/// Shorter replies are not counted.
pub const SHORT_BYTES: usize = 16 << 10;

/// The longest page of documents with a prefix. Many of them wait for their turn together, and long
/// replies of look-ups must not wait for them.
const SEARCHED_PAGE_BYTES: usize = 128 << 10;

/// The bytes of finished replies and waiting writes that each batch may keep when the budget is
/// spent.
pub const OWN_BYTES: usize = 64 << 10;

/// A batch may hold as many times what it leaves free: a single one four fifths of all.
const HELD_PER_FREE: usize = 4;

/// Bytes that may be in memory at one time.
#[derive(Debug)]
pub struct ByteBudget {
    free: Arc<Semaphore>,
    bytes_max: usize,
}

impl ByteBudget {
    /// Of this many bytes.
    pub fn new(bytes_max: usize) -> Self {
        let bytes_max = bytes_max.min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(bytes_max)), bytes_max }
    }

    /// The bytes of all shares.
    pub fn bytes_in_memory(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes_free())
    }

    fn bytes_free(&self) -> usize {
        self.free.available_permits()
    }

    /// A share, unless the budget is spent.
    pub fn try_take(&self, bytes: usize) -> Option<ByteShare> {
        let permit = Arc::clone(&self.free).try_acquire_many_owned(permits(bytes)).ok()?;
        Some(ByteShare { permit, owner: None })
    }

    /// Waits for a share.
    pub async fn take(&self, bytes: usize) -> ByteShare {
        let permit = Arc::clone(&self.free).acquire_many_owned(permits(bytes)).await;
        ByteShare { permit: permit.expect("never closed"), owner: None }
    }
}

/// A budget that is divided among clients.
#[derive(Debug)]
pub struct DividedBudget {
    budget: ByteBudget,
    clients: Arc<Clients>,
}

/// How many bytes each client has of a budget.
#[derive(Debug)]
struct Clients {
    /// The bytes that a client may have in any case, if they are free.
    least: usize,
    held: Mutex<Holdings>,
    /// Some bytes were given back.
    freed: Notify,
}

impl DividedBudget {
    /// `least` bytes are what a client may have in any case, if they are free.
    pub fn new(bytes_max: usize, least: usize) -> Self {
        let clients = Clients { least, held: Mutex::default(), freed: Notify::new() };
        Self { budget: ByteBudget::new(bytes_max), clients: Arc::new(clients) }
    }

    /// The bytes of all shares.
    pub fn bytes_in_memory(&self) -> usize {
        self.budget.bytes_in_memory()
    }

    /// A share of no bytes, which can grow.
    pub fn empty_share(&self, client: &Client) -> ByteShare {
        let share = self.budget.try_take(0).expect("never closed");
        ByteShare { owner: Some(Owner::new(&self.clients, client)), ..share }
    }

    /// A share, unless the budget, or what the client may have of it, is spent.
    pub fn try_take(&self, client: &Client, bytes: usize) -> Option<ByteShare> {
        let mut owner = Owner::new(&self.clients, client);
        owner.grow(bytes, self.budget.bytes_free()).then_some(())?;
        let share = self.budget.try_take(bytes)?;
        Some(ByteShare { owner: Some(owner), ..share })
    }

    /// Waits for a share.
    pub async fn take(&self, client: &Client, bytes: usize) -> ByteShare {
        let mut owner = Owner::new(&self.clients, client);
        loop {
            let mut freed = pin!(self.clients.freed.notified());
            freed.as_mut().enable();
            if owner.grow(bytes, self.budget.bytes_free()) {
                break;
            }
            freed.await;
        }
        let share = self.budget.take(bytes).await;
        ByteShare { owner: Some(owner), ..share }
    }
}

/// A share of a budget; given back on drop.
#[derive(Debug)]
pub struct ByteShare {
    permit: OwnedSemaphorePermit,
    /// Whose it is, if the budget is divided.
    owner: Option<Owner>,
}

impl ByteShare {
    /// Grows or shrinks it to `bytes`; false if the budget, or what the client may have of it, has
    /// fewer.
    pub fn resize(&mut self, bytes: usize) -> bool {
        let held = self.permit.num_permits();
        let more = bytes.saturating_sub(held);
        if more == 0 {
            self.shrink_to(bytes);
            return true;
        }
        let free = Arc::clone(self.permit.semaphore());
        if let Some(owner) = &mut self.owner
            && !owner.grow(more, free.available_permits())
        {
            return false;
        }
        let more = free.try_acquire_many_owned(permits(more));
        let has_grown = more.map(|more| self.permit.merge(more)).is_ok();
        if let (false, Some(owner)) = (has_grown, &mut self.owner) {
            owner.shrink_to(held);
        }
        has_grown
    }

    /// Gives back all but `bytes` of it.
    pub fn shrink_to(&mut self, bytes: usize) {
        let excess = self.permit.num_permits().saturating_sub(bytes);
        if excess == 0 {
            return;
        }
        drop(self.permit.split(excess));
        if let Some(owner) = &mut self.owner {
            owner.shrink_to(bytes);
        }
    }

    /// Takes `bytes` out of it, or all that it has.
    #[must_use]
    pub fn split_up_to(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.permit.num_permits());
        let permit = self.permit.split(bytes).expect("it has as many");
        Self { permit, owner: self.owner.as_mut().map(|owner| owner.split(bytes)) }
    }
}

/// The client that has a share.
#[derive(Debug)]
struct Owner {
    clients: Arc<Clients>,
    client: Client,
    bytes: usize,
}

impl Owner {
    /// Of a share of no bytes.
    fn new(clients: &Arc<Clients>, client: &Client) -> Self {
        Self { clients: Arc::clone(clients), client: client.clone(), bytes: 0 }
    }

    /// Counts `more` bytes of the client, of which the budget has `free`; false if it may not have
    /// them.
    fn grow(&mut self, more: usize, free: usize) -> bool {
        let mut held = self.clients.held();
        let before = held.of(&self.client);
        let is_least = before.saturating_add(more) <= self.clients.least;
        let is_admitted = more > 0 && (is_least || Client::may_take(before, more, free));
        if is_admitted {
            held.add(&self.client, more);
            self.bytes = self.bytes.saturating_add(more);
        }
        is_admitted || more == 0
    }

    fn shrink_to(&mut self, bytes: usize) {
        let excess = self.bytes.saturating_sub(bytes);
        if excess == 0 {
            return;
        }
        self.bytes = bytes;
        self.clients.held().give_back(&self.client, excess);
        self.clients.freed.notify_waiters();
    }

    /// The owner of a part of the share.
    fn split(&mut self, bytes: usize) -> Self {
        self.bytes = self.bytes.saturating_sub(bytes);
        Self { clients: Arc::clone(&self.clients), client: self.client.clone(), bytes }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

impl Clients {
    fn held(&self) -> MutexGuard<'_, Holdings> {
        // No code that holds the lock panics half-way through a change.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The budget of all replies.
#[derive(Debug)]
pub struct Replies {
    long: DividedBudget,
    ahead: ByteBudget,
    /// No reply, and no line of a batch, is longer.
    pub bytes_max: usize,
}

/// What becomes of long hits when the half of long replies is spent.
#[derive(Debug, Clone, Copy)]
pub enum WhenSpent {
    /// The request is refused: it has stored nothing.
    Refuse,
    /// Fewer hits are read: the request has written and must be answered.
    Shorten,
    /// They wait: only for the reply that a client gets next.
    Wait,
}

impl Replies {
    /// For replies of at most `bytes_max` each, and about `held_bytes_max` together, which is at
    /// least twice that.
    pub fn new(bytes_max: usize, held_bytes_max: usize) -> Self {
        let half = held_bytes_max / 2;
        Self { long: DividedBudget::new(half, bytes_max), ahead: ByteBudget::new(half), bytes_max }
    }

    /// The bytes of all shares.
    pub fn bytes_in_memory(&self) -> usize {
        self.long.bytes_in_memory().saturating_add(self.ahead.bytes_in_memory())
    }

    /// A share for what a batch works on ahead, which leaves half of that half to replies.
    pub fn ahead(&self, bytes: usize) -> Option<ByteShare> {
        let left = self.ahead.bytes_free().checked_sub(bytes)?;
        if left < self.ahead.bytes_max / 2 { None } else { self.ahead.try_take(bytes) }
    }

    /// A share for finished replies of a batch, beyond the `held_bytes` that it has. The more of
    /// that half is taken, the less may a batch hold, so that some is always left to others.
    pub fn held(&self, bytes: usize, held_bytes: usize) -> Option<ByteShare> {
        let left = self.ahead.bytes_free().checked_sub(bytes)?;
        let held_bytes = held_bytes.saturating_add(bytes);
        let fits = held_bytes <= left.saturating_mul(HELD_PER_FREE);
        if fits { self.ahead.try_take(bytes) } else { None }
    }

    /// Reads the hits of a look-up, with the share that they take if they are long.
    ///
    /// # Errors
    /// The budget is spent, or a record cannot be read.
    pub async fn hits(
        &self,
        client: &Client,
        found: Found,
        when_spent: WhenSpent,
    ) -> Result<(Findings, Option<ByteShare>), Refusal> {
        let (fewer, found) = match found.show(SHORT_BYTES).await? {
            Shown::All(findings) => return Ok((findings, None)),
            Shown::Cut(fewer, found) => (fewer, found),
        };
        let share = match (self.long.try_take(client, self.bytes_max), when_spent) {
            (Some(share), _) => share,
            (None, WhenSpent::Refuse) => return Err(spent()),
            (None, WhenSpent::Shorten) => return Ok((fewer, None)),
            (None, WhenSpent::Wait) => self.long.take(client, self.bytes_max).await,
        };
        Ok((found.show(self.bytes_max).await?.into_findings(), Some(share)))
    }

    /// The JSON of the answer to who has stored nothing, with the share of its hits.
    ///
    /// # Errors
    /// The budget is spent.
    pub fn answer(
        &self,
        client: &Client,
        mut reply: impl Shorten,
        share: Option<ByteShare>,
    ) -> Result<Bytes, Refusal> {
        let bytes = within(&mut reply, self.bytes_max);
        let share = if share.is_none() && bytes.len() > SHORT_BYTES {
            Some(self.long.try_take(client, bytes.len()).ok_or_else(spent)?)
        } else {
            share
        };
        Ok(counted(bytes, share))
    }

    /// How many bytes a page of a list may take, with the share of them. A page can always be
    /// shorter, so it is never refused; it is read within these bytes.
    pub fn page(&self, client: &Client) -> (usize, Option<ByteShare>) {
        self.page_within(client, self.bytes_max)
    }

    /// The same for a page that may take long to find, and keeps its share as long.
    pub fn searched_page(&self, client: &Client) -> (usize, Option<ByteShare>) {
        self.page_within(client, SEARCHED_PAGE_BYTES.min(self.bytes_max))
    }

    fn page_within(&self, client: &Client, bytes_max: usize) -> (usize, Option<ByteShare>) {
        match self.long.try_take(client, bytes_max) {
            Some(share) => (bytes_max, Some(share)),
            None => (SHORT_BYTES, None),
        }
    }

    /// The JSON of the answer to who has written, which must be sent however few bytes are left.
    pub fn answer_shorter(
        &self,
        client: &Client,
        mut reply: impl Shorten,
        share: Option<ByteShare>,
    ) -> Bytes {
        let bytes = within(&mut reply, self.bytes_max);
        let share = share.or_else(|| {
            if bytes.len() > SHORT_BYTES { self.long.try_take(client, bytes.len()) } else { None }
        });
        if share.is_none() && bytes.len() > SHORT_BYTES {
            return Bytes::from(within(&mut reply, SHORT_BYTES));
        }
        counted(bytes, share)
    }

    /// The reply to the line of a batch whose reply is sent next, with the share of its hits.
    pub async fn line(
        &self,
        client: &Client,
        mut reply: impl Shorten,
        mut share: Option<ByteShare>,
    ) -> (Vec<u8>, Option<ByteShare>) {
        let mut line = within(&mut reply, self.bytes_max.saturating_sub(1));
        line.push(b'\n');
        if share.is_none() && line.len() > SHORT_BYTES {
            share = Some(self.long.take(client, line.len()).await);
        }
        (line, share)
    }
}

/// The JSON of a page of a list, with its share.
pub fn page(page: &impl Serialize, share: Option<ByteShare>) -> Bytes {
    counted(serde_json::to_vec(page).expect("replies are JSON"), share)
}

fn spent() -> Refusal {
    Refusal::new(
        Code::Overloaded,
        "The service has as many bytes of long replies in memory as it may, or as this client's \
         share allows (server.replies_held_bytes_max). \
         Try again after the time in Retry-After, or ask for fewer hits (limit).",
    )
}

/// A reply that can list fewer hits.
pub trait Shorten: Serialize {
    /// Drops the last half of the hits, or of the documents of the last one, and marks the reply as
    /// truncated; false if nothing is left to drop, because a duplicate must name a document.
    fn halve(&mut self) -> bool {
        false
    }
}

/// Drops the last half of a list, but not its first item; false if nothing else is left.
pub fn halve<T>(list: &mut Vec<T>) -> bool {
    let listed = list.len();
    list.truncate((listed / 2).max(1));
    listed > 1
}

/// The JSON of a reply, with as many hits as fit in `bytes_max`.
///
/// Hits are read within the same limit, so this drops some only if many characters of ids need an
/// escape, or each hit is explained.
pub fn within(reply: &mut impl Shorten, bytes_max: usize) -> Vec<u8> {
    loop {
        let bytes = serde_json::to_vec(reply).expect("replies are JSON");
        if bytes.len() <= bytes_max || !reply.halve() {
            return bytes;
        }
    }
}

/// Bytes that give their share back when the last reference to them is dropped.
pub fn counted(bytes: Vec<u8>, share: Option<ByteShare>) -> Bytes {
    match share {
        Some(mut share) if bytes.len() > SHORT_BYTES => {
            share.shrink_to(bytes.capacity());
            Bytes::from_owner(Counted { bytes, _share: share })
        }
        _ => Bytes::from(bytes),
    }
}

struct Counted {
    bytes: Vec<u8>,
    _share: ByteShare,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn client(name: &str) -> Client {
        Client::Token(name.into())
    }

    #[derive(Serialize)]
    struct Hits(Vec<&'static str>, bool);

    impl Shorten for Hits {
        fn halve(&mut self) -> bool {
            let is_shorter = halve(&mut self.0);
            self.1 |= is_shorter;
            is_shorter
        }
    }

    #[test]
    fn a_reply_that_is_too_long_lists_fewer_hits_and_says_so() {
        let reply = |bytes_max| {
            let hits = &mut Hits(vec!["\u{1}"; 8], false);
            String::from_utf8(within(hits, bytes_max)).unwrap()
        };
        let hit = r#""\u0001""#;
        assert_eq!(reply(1_000), format!("[[{}],false]", [hit; 8].join(",")));
        assert_eq!(reply(60), format!("[[{}],true]", [hit; 4].join(",")));
        assert_eq!(reply(20), format!("[[{hit}],true]"));
        // The first one stays.
        assert_eq!(reply(1), format!("[[{hit}],true]"));
    }

    #[test]
    fn a_share_goes_back_with_the_last_reference_to_its_bytes() {
        let replies = Replies::new(SHORT_BYTES * 2, SHORT_BYTES * 8);
        let share = replies.long.try_take(&client("one"), replies.bytes_max);
        assert_eq!(replies.bytes_in_memory(), SHORT_BYTES * 2);
        let bytes = counted(vec![b'a'; SHORT_BYTES + 1], share);
        assert_eq!(replies.bytes_in_memory(), SHORT_BYTES + 1);
        let tail = bytes.slice(SHORT_BYTES..);
        drop(bytes);
        assert_eq!((replies.bytes_in_memory(), &tail[..]), (SHORT_BYTES + 1, &b"a"[..]));
        drop(tail);
        assert_eq!(replies.bytes_in_memory(), 0);
    }

    #[test]
    fn a_short_reply_gives_its_share_back_at_once() {
        let replies = Replies::new(SHORT_BYTES * 2, SHORT_BYTES * 8);
        let bytes = counted(
            vec![b'a'; SHORT_BYTES],
            replies.long.try_take(&client("one"), replies.bytes_max),
        );
        assert_eq!((replies.bytes_in_memory(), bytes.len()), (0, SHORT_BYTES));
    }

    #[test]
    fn a_share_grows_as_far_as_its_budget_and_parts_of_it_go_back_by_themselves() {
        let budget = ByteBudget::new(100);
        let mut share = budget.try_take(0).unwrap();
        assert!(share.resize(80) && share.resize(30) && share.resize(90));
        assert_eq!(budget.bytes_in_memory(), 90);
        assert!(!share.resize(101));
        assert_eq!(budget.bytes_in_memory(), 90, "a refusal changes nothing");
        let part = share.split_up_to(40);
        let rest = share.split_up_to(51);
        drop(share);
        assert_eq!(budget.bytes_in_memory(), 90);
        drop(part);
        assert_eq!(budget.bytes_in_memory(), 50);
        drop(rest);
        assert_eq!(budget.bytes_in_memory(), 0);
    }

    #[test]
    fn a_client_with_many_bytes_leaves_some_to_others() {
        let budget = DividedBudget::new(100, 10);
        let (busy, other) = (client("busy"), client("other"));
        let take = |client: &Client, bytes| budget.try_take(client, bytes);
        let most = take(&busy, 50).unwrap();
        assert!(take(&busy, 1).is_none());
        let mut body = budget.empty_share(&other);
        assert!(body.resize(20) && body.resize(25) && !body.resize(26));
        let part = body.split_up_to(15);
        assert!(body.resize(5) && !body.resize(16) && body.resize(10));
        drop(part);
        assert!(body.resize(35), "a part that is given back is the client's again");
        assert_eq!(budget.bytes_in_memory(), 85);
        let least = take(&client("third"), 10).unwrap();
        assert!(take(&client("fourth"), 10).is_none(), "there are only 5");
        drop((most, body, least));
        assert!(budget.clients.held().is_empty(), "nobody is remembered");
        assert_eq!(budget.bytes_in_memory(), 0);
    }

    #[tokio::test]
    async fn who_waits_for_bytes_gets_them_when_its_own_are_given_back() {
        let budget = DividedBudget::new(100, 10);
        let (one, other) = (client("one"), client("other"));
        let mine = budget.try_take(&one, 50).unwrap();
        let mut waiting = pin!(budget.take(&one, 20));
        assert!(waiting.as_mut().now_or_never().is_none());
        // Nobody waits behind it.
        let others = budget.take(&other, 25).now_or_never().unwrap();
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(mine);
        assert!(waiting.now_or_never().is_some());
        drop(others);
        assert_eq!(budget.bytes_in_memory(), 0);
    }

    #[test]
    fn neither_half_of_the_budget_is_spent_by_the_other() {
        let replies = Replies::new(100, 200);
        let ahead = replies.ahead(50).unwrap();
        assert!(replies.ahead(1).is_none());
        let held = replies.held(40, 0).unwrap();
        assert!(replies.held(11, 0).is_none());
        let long = replies.long.try_take(&client("one"), 100).unwrap();
        assert!(replies.long.try_take(&client("one"), 1).is_none());
        assert_eq!(replies.bytes_in_memory(), 190);
        drop((ahead, held, long));
        assert_eq!(replies.bytes_in_memory(), 0);
    }

    #[test]
    fn a_batch_that_holds_much_leaves_some_to_others() {
        let replies = Replies::new(1_000, 2_000);
        let hold = || {
            let mut shares: Vec<ByteShare> = Vec::new();
            while let Some(share) = replies.held(10, shares.len() * 10) {
                shares.push(share);
            }
            shares
        };
        let first = hold();
        assert_eq!(first.len(), 80);
        let second = hold();
        assert_eq!(second.len(), 16);
        drop(first);
        assert_eq!(hold().len(), 67, "four fifths of what the second one leaves");
    }
}

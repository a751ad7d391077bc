//! The bytes of replies that wait for their clients: one budget for all connections.
//!
//! A reply of up to [`SHORT_BYTES`] is not counted, because each connection has a buffer of that size
//! anyway; nor is one that lists a single hit. What is longer is counted from before its hits are read until its last byte is handed to
//! the operating system, or the client is gone. `server.replies_held_bytes_max` is split in two, so that
//! neither half can starve the other:
//!
//! - **long replies.** A single request that finds this half spent is refused (503), or, when it has
//!   written already, answered with fewer hits (`truncated`). A batch waits.
//! - **batches that work ahead** of what their clients have read. A batch that finds this half spent
//!   goes on with [`OWN_BYTES`] of its own, one line at a time.
//!
//! A batch never waits while it holds what another one waits for: shares of the first half are waited
//! for only at the line whose reply is the next to be sent, and shares of the second half never.

use std::sync::Arc;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::engine::{Findings, Found, Refused, Shown};
use crate::http::problem::{Code, Problem};

/// Shorter replies are not counted.
pub(crate) const SHORT_BYTES: usize = 16 << 10;

/// What each batch may hold of finished replies and waiting writes when the budget is spent.
pub(crate) const OWN_BYTES: usize = 64 << 10;

/// The budget of all replies.
#[derive(Debug)]
pub(crate) struct Replies {
    long: Arc<Semaphore>,
    ahead: Arc<Semaphore>,
    held_bytes_max: usize,
    /// No reply, and no line of a batch, is longer.
    pub(crate) bytes_max: usize,
}

/// A share of a budget, in bytes; given back on drop.
#[derive(Debug)]
pub(crate) struct Share(OwnedSemaphorePermit);

impl Share {
    /// A share of a budget, when there is one.
    pub(crate) async fn waited_for(budget: &Arc<Semaphore>, bytes: usize) -> Self {
        let share = Arc::clone(budget).acquire_many_owned(permits(bytes)).await;
        Self(share.expect("never closed"))
    }

    /// Keeps `bytes` of it at most.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let excess = self.0.num_permits().saturating_sub(bytes);
        drop(self.0.split(excess));
    }

    /// Takes `bytes` out of it; `None` where it has not as many.
    pub(crate) fn split(&mut self, bytes: usize) -> Option<Self> {
        self.0.split(bytes).map(Self)
    }
}

impl Replies {
    /// Replies of at most `bytes_max` each, and about `held_bytes_max` together, which is at least
    /// twice that.
    pub(crate) fn new(bytes_max: usize, held_bytes_max: usize) -> Self {
        let half = || Arc::new(Semaphore::new(held_bytes_max / 2));
        Self { long: half(), ahead: half(), held_bytes_max, bytes_max }
    }

    /// How many bytes are held.
    pub(crate) fn held_bytes(&self) -> usize {
        let free = self.long.available_permits().saturating_add(self.ahead.available_permits());
        self.held_bytes_max.saturating_sub(free)
    }

    /// A share for a batch that works ahead, unless that half is spent.
    pub(crate) fn ahead(&self, bytes: usize) -> Option<Share> {
        Arc::clone(&self.ahead).try_acquire_many_owned(permits(bytes)).ok().map(Share)
    }

    /// A share for one long reply, unless that half is spent.
    fn try_long(&self, bytes: usize) -> Option<Share> {
        Arc::clone(&self.long).try_acquire_many_owned(permits(bytes)).ok().map(Share)
    }

    /// A share for one long reply, when there is one. Only for the reply that a client gets next.
    async fn long(&self, bytes: usize) -> Share {
        Share::waited_for(&self.long, bytes).await
    }

    /// The hits of a request that stored nothing: all of them, or it is refused.
    pub(crate) async fn hits(&self, found: Found) -> Result<(Findings, Option<Share>), Problem> {
        match found.show(SHORT_BYTES).await? {
            Shown::All(findings) => Ok((findings, None)),
            Shown::Cut(_, found) => {
                let share = self.try_long(self.bytes_max).ok_or_else(spent)?;
                Ok((found.show(self.bytes_max).await?.into_findings(), Some(share)))
            }
        }
    }

    /// The hits of a request that has written, and so must be answered: fewer where the budget is
    /// spent.
    pub(crate) async fn hits_of_write(
        &self,
        found: Found,
    ) -> Result<(Findings, Option<Share>), Refused> {
        match found.show(SHORT_BYTES).await? {
            Shown::All(findings) => Ok((findings, None)),
            Shown::Cut(fewer, found) => match self.try_long(self.bytes_max) {
                None => Ok((fewer, None)),
                share => Ok((found.show(self.bytes_max).await?.into_findings(), share)),
            },
        }
    }

    /// The hits of a line of a batch whose reply is the next to be sent.
    pub(crate) async fn hits_of_line(
        &self,
        found: Found,
    ) -> Result<(Findings, Option<Share>), Refused> {
        match found.show(SHORT_BYTES).await? {
            Shown::All(findings) => Ok((findings, None)),
            Shown::Cut(_, found) => {
                let share = self.long(self.bytes_max).await;
                Ok((found.show(self.bytes_max).await?.into_findings(), Some(share)))
            }
        }
    }

    /// The reply of a request that stored nothing, with the share of its hits.
    pub(crate) fn answer(
        &self,
        mut reply: impl Shorten,
        share: Option<Share>,
    ) -> Result<Response, Problem> {
        let bytes = within(&mut reply, self.bytes_max);
        let share = if share.is_none() && bytes.len() > SHORT_BYTES {
            Some(self.try_long(bytes.len()).ok_or_else(spent)?)
        } else {
            share
        };
        Ok(json(counted(bytes, share)))
    }

    /// The reply of a request that has written, with the share of its hits.
    pub(crate) fn answer_write(&self, mut reply: impl Shorten, share: Option<Share>) -> Response {
        let bytes_max = if share.is_some() { self.bytes_max } else { SHORT_BYTES };
        json(counted(within(&mut reply, bytes_max), share))
    }

    /// The reply of a line whose turn it is, with the share of its hits.
    pub(crate) async fn line(
        &self,
        mut reply: impl Shorten,
        mut share: Option<Share>,
    ) -> (Vec<u8>, Option<Share>) {
        let mut line = within(&mut reply, self.bytes_max.saturating_sub(1));
        line.push(b'\n');
        if share.is_none() && line.len() > SHORT_BYTES {
            share = Some(self.long(line.len()).await);
        }
        (line, share)
    }
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn spent() -> Problem {
    Problem::new(
        Code::Overloaded,
        "The service holds as many bytes of long replies as it may (server.replies_held_bytes_max). \
         Try again after the time in Retry-After, or ask for fewer hits (limit).",
    )
}

/// A reply that can list fewer hits.
pub(crate) trait Shorten: Serialize {
    /// Leaves the last half of the hits out and says that not all are listed; false where only the
    /// first is left, which a duplicate must name.
    fn halve(&mut self) -> bool;
}

/// The JSON of a reply, with as many hits as fit in `bytes_max`.
///
/// Hits are read within the same limit, so this leaves some out only where many characters of ids
/// need an escape, or each hit is explained.
pub(crate) fn within(reply: &mut impl Shorten, bytes_max: usize) -> Vec<u8> {
    loop {
        let bytes = serde_json::to_vec(reply).expect("replies are JSON");
        if bytes.len() <= bytes_max || !reply.halve() {
            return bytes;
        }
    }
}

/// Bytes that give their share back when nothing refers to them any more.
pub(crate) fn counted(bytes: Vec<u8>, share: Option<Share>) -> Bytes {
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
    _share: Share,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn json(bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Hits(Vec<&'static str>, bool);

    impl Shorten for Hits {
        fn halve(&mut self) -> bool {
            let hits = self.0.len();
            self.0.truncate((hits / 2).max(1));
            self.1 |= self.0.len() < hits;
            hits > 1
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
        let share = replies.try_long(replies.bytes_max);
        assert_eq!(replies.held_bytes(), SHORT_BYTES * 2);
        let bytes = counted(vec![b'a'; SHORT_BYTES + 1], share);
        assert_eq!(replies.held_bytes(), SHORT_BYTES + 1);
        let tail = bytes.slice(SHORT_BYTES..);
        drop(bytes);
        assert_eq!((replies.held_bytes(), &tail[..]), (SHORT_BYTES + 1, &b"a"[..]));
        drop(tail);
        assert_eq!(replies.held_bytes(), 0);
    }

    #[test]
    fn a_short_reply_gives_its_share_back_at_once() {
        let replies = Replies::new(SHORT_BYTES * 2, SHORT_BYTES * 8);
        let bytes = counted(vec![b'a'; SHORT_BYTES], replies.try_long(replies.bytes_max));
        assert_eq!((replies.held_bytes(), bytes.len()), (0, SHORT_BYTES));
    }

    #[test]
    fn neither_half_of_the_budget_is_spent_by_the_other() {
        let replies = Replies::new(100, 200);
        let ahead = replies.ahead(100).unwrap();
        assert!(replies.ahead(1).is_none());
        let long = replies.try_long(100).unwrap();
        assert!(replies.try_long(1).is_none());
        assert_eq!(replies.held_bytes(), 200);
        drop((ahead, long));
        assert_eq!(replies.held_bytes(), 0);
    }
}

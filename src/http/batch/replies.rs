//! The last stage: replies wait here in the order of the lines until the client takes them.

use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::future::{self, BoxFuture};
use futures_util::{FutureExt as _, stream};
use nearprint_service::Service;
use nearprint_service::budget::ByteShare;
use nearprint_wire::answer;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::http::batch::flow::Flow;
use crate::http::batch::held::Held;
use crate::http::batch::run::Batch;
use crate::http::problem::Problem;
use crate::http::request::body;

/// Most lines are not longer.
const LINE_BYTES: usize = 128;

/// Finished replies that follow each other, as they are sent.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) bytes: Bytes,
    /// Covers them, if they are long.
    _share: Option<ByteShare>,
}

impl Reply {
    pub(super) fn new(bytes: Vec<u8>, mut share: Option<ByteShare>) -> Self {
        if let Some(share) = &mut share {
            share.shrink_to(bytes.capacity());
        }
        Self { bytes: bytes.into(), _share: share }
    }
}

/// Resolves once a reply is finished.
pub(super) type Finishing<T> = BoxFuture<'static, Result<T, Problem>>;

/// A position in the order of replies.
pub(super) struct Slot<T> {
    /// The line that an error belongs to. Without one an error cuts the reply off, so that the
    /// client cannot take it for complete.
    pub(super) line: Option<u64>,
    /// Covers what waits here, until it is finished.
    pub(super) share: Option<ByteShare>,
    pub(super) reply: Finishing<T>,
}

/// A reply that is finished already.
pub(super) fn finished<T: Send + 'static>(reply: Result<T, Problem>) -> Finishing<T> {
    future::ready(reply).boxed()
}

/// The body of a reply, once its head may go out.
pub(super) async fn streamed(batch: &Batch, slots: mpsc::Receiver<Slot<Reply>>) -> Body {
    let (to_client, mut pieces) = mpsc::channel(2);
    let (release, released) = oneshot::channel();
    let out = Outgoing {
        service: Arc::clone(&batch.http.service),
        give_up_after: batch.http.bodies.timeout.checked_div(2).unwrap_or_default(),
        held: Held::default(),
        flow: Arc::clone(&batch.flow),
        release: Some(release),
        blocked: None,
        give_up_at: Instant::now(),
    };
    drop(tokio::spawn(out.run(Finished { slots, current: None }, to_client)));
    // An error means that the task is gone, and so is what it would send.
    drop(released.await);
    // An error ends the connection, whatever is still to be sent. So it comes a turn later than the
    // bytes before it, and the connection sends those in between.
    let mut failure = None;
    Body::from_stream(stream::poll_fn(move |context| {
        if let Some(failure) = failure.take() {
            return Poll::Ready(Some(Err(failure)));
        }
        let next = pieces.poll_recv(context);
        if let Poll::Ready(Some(Err(error))) = next {
            failure = Some(error);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        next
    }))
}

/// Replies in the order of the lines, each once it is finished.
struct Finished {
    slots: mpsc::Receiver<Slot<Reply>>,
    current: Option<Slot<Reply>>,
}

impl Finished {
    /// The next reply; an error cuts all replies off. `None` at the end. May be dropped while it
    /// waits, and called again.
    async fn next(&mut self) -> Option<Result<Reply, Problem>> {
        let slot = match &mut self.current {
            Some(slot) => slot,
            none @ None => none.insert(self.slots.recv().await?),
        };
        let finished = slot.reply.as_mut().await;
        let Slot { line, share, reply: _ } = self.current.take()?;
        drop(share);
        Some(match (finished, line) {
            (Err(problem), Some(line)) => Ok(Reply::new(error_line(problem, line), None)),
            (finished, _) => finished,
        })
    }
}

type ToClient = mpsc::Sender<io::Result<Bytes>>;

/// Replies on their way to the client.
struct Outgoing {
    service: Arc<Service>,
    held: Held,
    flow: Arc<Flow>,
    /// Lets the head of the reply go out; `None` once it has.
    release: Option<oneshot::Sender<()>>,
    /// The next reply, which has no room.
    blocked: Option<Reply>,
    /// When the batch is given up, if the client takes nothing and a reply is still blocked.
    give_up_at: Instant,
    give_up_after: Duration,
}

impl Outgoing {
    /// Takes each reply in turn and sends it, until the end or until the client is gone.
    async fn run(mut self, mut finished: Finished, to_client: ToClient) {
        // Once the last reply has been taken: why it is the last.
        let mut end: Option<Result<(), Problem>> = None;
        loop {
            if let Some(reply) = self.blocked.take() {
                self.blocked = self.held.push(reply, self.service.replies());
            }
            while end.is_none()
                && self.has_room()
                && let Some(next) = finished.next().now_or_never()
            {
                end = self.take(next);
            }
            if self.blocked.is_some() || end.is_some() || self.flow.may_reply() {
                self.let_out();
            }
            if self.blocked.is_some() && self.held.is_empty() {
                // Now it has room.
                continue;
            }
            let may_send = self.release.is_none() && !self.held.is_empty();
            match &end {
                Some(end) if self.held.is_empty() => return complete(end, &to_client).await,
                Some(_) | None => {}
            }
            let may_take = end.is_none() && self.blocked.is_none();
            let sends_first = self.blocked.is_some() || self.held.fills_a_piece();
            tokio::select! {
                biased;
                space = to_client.reserve(), if may_send && sends_first => match space {
                    Ok(space) => space.send(Ok(self.piece())),
                    Err(_) => return,
                },
                next = finished.next(), if may_take => end = self.take(next),
                // Finished replies need not wait for the next one.
                space = to_client.reserve(), if may_send && !sends_first => match space {
                    Ok(space) => space.send(Ok(self.piece())),
                    Err(_) => return,
                },
                () = self.flow.until_reply(), if self.release.is_some() => {}
                () = sleep_until(self.give_up_at), if self.may_give_up() => {
                    self.give_up_at = body::deadline(self.give_up_after);
                    self.flow.give_up();
                }
                () = to_client.closed() => return,
            }
        }
    }

    /// Whether further replies are taken before anything is sent.
    fn has_room(&self) -> bool {
        self.blocked.is_none() && (self.release.is_some() || !self.held.fills_a_piece())
    }

    /// Keeps a reply; returns why it was the last if there is none.
    fn take(&mut self, next: Option<Result<Reply, Problem>>) -> Option<Result<(), Problem>> {
        let reply = match next {
            Some(Ok(reply)) => reply,
            Some(Err(problem)) => return Some(Err(problem)),
            None => return Some(Ok(())),
        };
        self.blocked = self.held.push(reply, self.service.replies());
        self.flow.set_holds_replies(self.release.is_some());
        None
    }

    /// What the client takes next.
    fn piece(&mut self) -> Bytes {
        self.give_up_at = body::deadline(self.give_up_after);
        self.held.take_piece()
    }

    /// Lets the head go out.
    fn let_out(&mut self) {
        if let Some(release) = self.release.take() {
            self.flow.set_holds_replies(false);
            self.give_up_at = body::deadline(self.give_up_after);
            match release.send(()) {
                // Without its handler the channel to the client is closed too.
                Ok(()) | Err(()) => {}
            }
        }
    }

    /// Whether the client keeps its own lines from being taken.
    fn may_give_up(&self) -> bool {
        self.blocked.is_some() && self.release.is_none() && !self.flow.has_ended()
    }
}

/// The head has been sent, so ending early is the only way to report a failure without a line.
async fn complete(end: &Result<(), Problem>, to_client: &ToClient) {
    if let Err(problem) = end {
        let failure = problem.logged();
        tracing::error!(code = failure.code, cause = failure.cause, "a batch broke off");
        drop(to_client.send(Err(io::Error::other("the batch broke off"))).await);
    }
}

/// A line of a batch that went wrong.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ErrorLine<'a> {
    error: answer::ProblemReply<'a>,
}

/// The reply to the line with this number, which went wrong.
pub(super) fn error_line(problem: Problem, line: u64) -> Vec<u8> {
    last_line(&problem.at_line(line))
}

/// The last line of a stream that cannot go on.
pub(crate) fn last_line(problem: &Problem) -> Vec<u8> {
    if let Some(cause) = problem.logged().cause {
        tracing::error!(cause, "a line of a reply failed");
    }
    line_of(&ErrorLine { error: problem.body() })
}

pub(super) fn line_of(reply: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::with_capacity(LINE_BYTES);
    write_line(&mut line, reply);
    line
}

/// Appends the line of a reply.
pub(super) fn write_line(lines: &mut Vec<u8>, reply: &impl Serialize) {
    serde_json::to_writer(&mut *lines, reply).expect("replies are JSON");
    lines.push(b'\n');
}

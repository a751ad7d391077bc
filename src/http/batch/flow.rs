//! When the head of a reply may go out, and when a batch is given up.
//!
//! A proxy such as nginx stops sending a request once its reply begins, and a plain client reads
//! nothing before it has sent everything. So the head of a reply is held back until the body has
//! been read to its end, and finished replies wait; unless they take more memory than they may, or
//! the client has asked for an early reply.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{Notify, watch};

/// How far the body of a batch has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BodyProgress {
    /// Its head has been read.
    Begun,
    /// Some of it has been read, so a client that asked for permission to send has got it.
    Arriving,
    /// It has been read to its end.
    Ended,
    /// The rest of it will not be read.
    Left,
}

/// What the first and the last stage of a batch tell each other.
#[derive(Debug)]
pub(crate) struct Flow {
    progress: watch::Sender<BodyProgress>,
    /// How far the body must be before the head of the reply goes out.
    awaited: BodyProgress,
    given_up: Notify,
    holds_replies: AtomicBool,
}

impl Flow {
    /// Whether the client wants the head of the reply at once, and whether it waits for permission
    /// to send the body: then it would take the head as a refusal.
    pub(super) fn new(early_reply: bool, expects_continue: bool) -> Arc<Self> {
        let awaited = match (early_reply, expects_continue) {
            (false, _) => BodyProgress::Ended,
            (true, true) => BodyProgress::Arriving,
            (true, false) => BodyProgress::Begun,
        };
        Arc::new(Self {
            progress: watch::Sender::new(BodyProgress::Begun),
            awaited,
            given_up: Notify::new(),
            holds_replies: AtomicBool::new(false),
        })
    }

    /// Wraps the body, so that its progress is known.
    pub(super) fn watch(self: &Arc<Self>, body: Body) -> Body {
        let has_ended = body.is_end_stream();
        if has_ended {
            self.has_come_to(BodyProgress::Ended);
        }
        Body::new(Watched { body, has_ended, flow: Arc::clone(self) })
    }

    fn has_come_to(&self, progress: BodyProgress) {
        self.progress.send_if_modified(|so_far| {
            let is_further = *so_far < progress;
            *so_far = progress.max(*so_far);
            is_further
        });
    }

    /// Whether nothing more of the body will be read.
    pub(super) fn has_ended(&self) -> bool {
        *self.progress.borrow() >= BodyProgress::Ended
    }

    /// Whether the rest of the body will not be read, so that the connection must end.
    pub(super) fn has_left(&self) -> bool {
        *self.progress.borrow() == BodyProgress::Left
    }

    /// Whether the head may go out.
    pub(super) fn may_reply(&self) -> bool {
        *self.progress.borrow() >= self.awaited
    }

    /// Resolves once the head may go out.
    pub(super) async fn until_reply(&self) {
        let mut progress = self.progress.subscribe();
        let reached = progress.wait_for(|&progress| progress >= self.awaited).await;
        drop(reached.expect("the sender is here"));
    }

    /// Tells the first stage to take nothing more, because the client reads nothing; unless that
    /// stage waits for the client to send.
    pub(super) fn give_up(&self) {
        self.given_up.notify_waiters();
    }

    /// Resolves when the batch is given up from now on.
    pub(super) async fn until_given_up(&self) {
        self.given_up.notified().await;
    }

    /// Records whether replies wait for the head.
    pub(super) fn set_holds_replies(&self, holds: bool) {
        self.holds_replies.store(holds, Ordering::Relaxed);
    }

    /// Whether replies wait for the head.
    pub(super) fn holds_replies(&self) -> bool {
        self.holds_replies.load(Ordering::Relaxed)
    }
}

/// A body that tells how far it was read.
struct Watched {
    body: Body,
    has_ended: bool,
    flow: Arc<Flow>,
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(Some(Ok(_))) if !self.body.is_end_stream() => {
                self.flow.has_come_to(BodyProgress::Arriving);
            }
            Poll::Ready(_) => {
                self.has_ended = true;
                self.flow.has_come_to(BodyProgress::Ended);
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.has_ended {
            self.flow.has_come_to(BodyProgress::Left);
        }
    }
}

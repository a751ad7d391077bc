//! The last stage: replies wait here in the order of the lines until the client takes them.

use std::io;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::future::{self, BoxFuture};
use futures_util::{FutureExt as _, stream};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::http::budget::{self, ByteShare, SHORT_BYTES};
use crate::http::problem::{Problem, ProblemBody};

/// Replies are sent once they fill this, or when the next one is not finished yet.
const REPLY_BYTES: usize = 16 * 1024;

/// Finished replies that follow each other, with their share.
pub(super) type Reply = (Vec<u8>, Option<ByteShare>);

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

/// The body of a streamed reply.
pub(super) fn body(slots: mpsc::Receiver<Slot<Reply>>) -> Body {
    let (to_client, mut pieces) = mpsc::channel(2);
    drop(tokio::spawn(send(slots, to_client)));
    Body::from_stream(stream::poll_fn(move |context| pieces.poll_recv(context)))
}

/// Waits for each reply in turn and sends it, until the end or until the client is gone.
async fn send(mut slots: mpsc::Receiver<Slot<Reply>>, to_client: mpsc::Sender<io::Result<Bytes>>) {
    let mut out = Outgoing { buffer: BytesMut::with_capacity(REPLY_BYTES), to_client };
    while let Some(Slot { line, share, mut reply }) = slots.recv().await {
        let finished = match reply.as_mut().now_or_never() {
            Some(finished) => finished,
            // Finished replies need not wait for this one.
            None if out.flush().await => reply.await,
            None => return,
        };
        drop(share);
        let sent = match (finished, line) {
            (Ok((replies, share)), _) => out.add(replies, share).await,
            (Err(problem), Some(line)) => out.add(error_line(problem, line), None).await,
            (Err(problem), None) => return out.cut_off(&problem).await,
        };
        if !sent || (slots.is_empty() && !out.flush().await) {
            return;
        }
    }
}

/// Replies on their way to the client; short ones share a piece.
struct Outgoing {
    buffer: BytesMut,
    to_client: mpsc::Sender<io::Result<Bytes>>,
}

impl Outgoing {
    /// False when the client is gone.
    async fn add(&mut self, replies: Vec<u8>, share: Option<ByteShare>) -> bool {
        if replies.len() <= SHORT_BYTES {
            self.buffer.extend_from_slice(&replies);
            return self.buffer.len() < REPLY_BYTES || self.flush().await;
        }
        self.flush().await && self.to_client.send(Ok(budget::counted(replies, share))).await.is_ok()
    }

    async fn flush(&mut self) -> bool {
        let finished = self.buffer.split().freeze();
        finished.is_empty() || self.to_client.send(Ok(finished)).await.is_ok()
    }

    /// The head has been sent, so ending early is the only way to report a failure.
    async fn cut_off(&mut self, problem: &Problem) {
        let failure = problem.logged();
        tracing::error!(code = failure.code, cause = failure.cause, "a batch broke off");
        if self.flush().await {
            drop(self.to_client.send(Err(io::Error::other("the batch broke off"))).await);
        }
    }
}

/// A line of a batch that went wrong.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ErrorLine<'a> {
    error: ProblemBody<'a>,
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
    let mut line = serde_json::to_vec(reply).expect("replies are JSON");
    line.push(b'\n');
    line
}

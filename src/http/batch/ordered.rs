//! The second half of a batch, in the order of its lines: long replies, writes, and the stream of
//! replies.

use std::pin::pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use nearprint_engine::{Admission, Checked, Pending, Written};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::http::batch::context::{
    Batch, BatchStep, BatchSteps, Operation, error_line, line_of, send,
};
use crate::http::budget::{self, ByteShare, SHORT_BYTES, WhenSpent};
use crate::http::problem::Problem;
use crate::http::reply::counts::{count_hits, count_verdict};
use crate::http::reply::wire::{
    CheckAndInsertReply, FingerprintReply, InsertReply, QueryReply, Subject,
};
use crate::http::request::prepare::Prepared;

/// Replies are sent once they fill this, or when the next one is not finished yet.
const REPLY_BYTES: usize = 16 * 1024;

/// The memory of a write that waits for its sync, apart from its matches.
const PENDING_BYTES: usize = 512;

/// A position in the order of replies.
pub(super) enum Slot {
    Done(Vec<u8>, ByteShare),
    Written(Box<Write>),
    /// An internal fault: the reply is cut off, so that the client cannot take it for complete.
    Broken,
}

/// A write that waits for its sync.
pub(super) struct Write {
    line: u64,
    subject: Subject,
    answer: Answer,
    share: ByteShare,
}

enum Answer {
    Insert(Pending<Written>),
    CheckAndInsert(Pending<Checked>),
}

/// Does what needs the order of the lines: long replies, and putting writes into the queue of the
/// engine.
pub(super) async fn run(
    batch: Arc<Batch>,
    mut chunks: mpsc::Receiver<JoinHandle<BatchSteps>>,
    slots: mpsc::Sender<Slot>,
) {
    while let Some(chunk) = chunks.recv().await {
        let Ok(BatchSteps { steps, mut share }) = chunk.await else {
            send(&slots, Slot::Broken).await;
            return;
        };
        for step in steps {
            let slot = match step {
                BatchStep::Done(replies) => {
                    let paid = share.as_mut().and_then(|share| share.split(replies.len()));
                    done(&batch, replies, paid).await
                }
                BatchStep::Run(line, prepared) if batch.operation.writes() => {
                    begin_write(&batch, line, *prepared).await
                }
                BatchStep::Run(line, prepared) => match any_reply(&batch, &prepared).await {
                    Ok((reply, share)) => done(&batch, reply, share).await,
                    Err(problem) => done(&batch, error_line(problem, line), None).await,
                },
            };
            if !send(&slots, slot).await {
                return;
            }
        }
    }
}

/// Finished replies with their share; without one, waits for it.
async fn done(batch: &Batch, replies: Vec<u8>, share: Option<ByteShare>) -> Slot {
    let share = match share {
        Some(share) => share,
        None => batch.reserve(replies.len()).await,
    };
    Slot::Done(replies, share)
}

/// The reply to a document that is not to be stored, however long it is.
async fn any_reply(
    batch: &Batch,
    prepared: &Prepared,
) -> Result<(Vec<u8>, Option<ByteShare>), Problem> {
    let service = &batch.service;
    if batch.operation == Operation::Fingerprint {
        let reply = FingerprintReply::new(prepared, service.options.defaults.recipe);
        return Ok(service.replies.line(reply, None).await);
    }
    let found = service.engine.find(&prepared.sought, prepared.options).await?;
    let (findings, share) = service.replies.hits(found, WhenSpent::Wait).await?;
    count_hits(&findings);
    Ok(service.replies.line(QueryReply::new(prepared, &findings), share).await)
}

async fn begin_write(batch: &Batch, line: u64, prepared: Prepared) -> Slot {
    let engine = &batch.service.engine;
    let subject = Subject::from(&prepared);
    let begun = if batch.operation == Operation::Insert {
        engine.begin_insert(prepared.sought.document, Admission::Wait).await.map(Answer::Insert)
    } else {
        let on_duplicate = prepared.on_duplicate;
        engine
            .begin_check_and_insert(
                prepared.sought,
                prepared.options,
                on_duplicate,
                Admission::Wait,
            )
            .await
            .map(Answer::CheckAndInsert)
    };
    match begun {
        Ok(answer) => {
            let share = batch.reserve(PENDING_BYTES.saturating_add(answer.bytes())).await;
            Slot::Written(Box::new(Write { line, subject, answer, share }))
        }
        Err(refused) => done(batch, error_line(refused.into(), line), None).await,
    }
}

impl Answer {
    const fn bytes(&self) -> usize {
        match self {
            Self::Insert(pending) => pending.bytes(),
            Self::CheckAndInsert(pending) => pending.bytes(),
        }
    }

    /// The reply, once the write is as durable as the policy promises.
    async fn line(
        self,
        batch: &Batch,
        subject: &Subject,
    ) -> Result<(Vec<u8>, Option<ByteShare>), Problem> {
        match self {
            Self::Insert(pending) => {
                let written = pending.wait().await?;
                count_verdict(written.verdict);
                Ok((line_of(&InsertReply::new(subject, written)), None))
            }
            Self::CheckAndInsert(pending) => {
                let Checked { written, found } = pending.wait().await?;
                count_verdict(written.verdict);
                let replies = &batch.service.replies;
                let (findings, share) = replies.hits(found, WhenSpent::Wait).await?;
                count_hits(&findings);
                let reply = CheckAndInsertReply::new(subject, written, &findings);
                Ok(replies.line(reply, share).await)
            }
        }
    }
}

/// Waits for each slot in turn and sends its reply.
pub(super) async fn reply(batch: Arc<Batch>, mut slots: mpsc::Receiver<Slot>, to_client: Pieces) {
    let mut out = Outgoing { buffer: BytesMut::with_capacity(REPLY_BYTES), to_client };
    while let Some(slot) = slots.recv().await {
        let sent = match slot {
            Slot::Done(replies, share) => out.add(replies, Some(share)).await,
            Slot::Written(write) => {
                let Write { line, subject, answer, share } = *write;
                let mut answer = pin!(answer.line(&batch, &subject));
                // Finished replies need not wait for this sync.
                let written = match answer.as_mut().now_or_never() {
                    Some(written) => written,
                    None if out.flush().await => answer.await,
                    None => return,
                };
                drop(share);
                let error = |problem: Problem| (error_line(problem, line), None);
                let (reply, share) = written.unwrap_or_else(error);
                out.add(reply, share).await
            }
            Slot::Broken => {
                let broken = std::io::Error::other("a task of the batch failed");
                send(&out.to_client, Err(broken)).await;
                return;
            }
        };
        if !sent || (slots.is_empty() && !out.flush().await) {
            return;
        }
    }
}

/// The stream of a reply.
pub(super) type Pieces = mpsc::Sender<Result<Bytes, std::io::Error>>;

/// Replies on their way to the client; short ones share a piece.
struct Outgoing {
    buffer: BytesMut,
    to_client: Pieces,
}

impl Outgoing {
    /// False when the client is gone.
    async fn add(&mut self, replies: Vec<u8>, share: Option<ByteShare>) -> bool {
        if replies.len() <= SHORT_BYTES {
            self.buffer.extend_from_slice(&replies);
            return self.buffer.len() < REPLY_BYTES || self.flush().await;
        }
        self.flush().await && send(&self.to_client, Ok(budget::counted(replies, share))).await
    }

    async fn flush(&mut self) -> bool {
        self.buffer.is_empty() || send(&self.to_client, Ok(self.buffer.split().freeze())).await
    }
}

//! The second half of a batch, in the order of its lines: long replies, the places of writes in the
//! queue of the engine, and the stream of replies.

use std::pin::pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::engine::{Admission, Checked, Pending, Refused, Written};
use crate::http::batch::context::{Batch, Operation, Step, Steps, error_line, line_of, send};
use crate::http::problem::Problem;
use crate::http::reply::counts::count_hits;
use crate::http::reply::counts::count_verdict;
use crate::http::reply::replies;
use crate::http::reply::replies::{SHORT_BYTES, Share};
use crate::http::reply::wire::{
    CheckAndInsertReply, FingerprintReply, InsertReply, QueryReply, Subject,
};
use crate::http::request::prepare::Prepared;

/// Replies are sent when they fill this, or when the next one is not there yet.
const REPLY_BYTES: usize = 16 * 1024;

/// What a write takes that waits for its sync, apart from what it found.
const PENDING_BYTES: usize = 512;

/// A place in the order of replies.
pub(super) enum Slot {
    Done(Vec<u8>, Share),
    Written(Box<Write>),
    /// A fault here: the reply is cut off, so that the client cannot take it for complete.
    Broken,
}

/// A write that waits for its sync.
pub(super) struct Write {
    line: u64,
    subject: Subject,
    answer: Answer,
    share: Share,
}

enum Answer {
    Insert(Pending<Written>),
    CheckAndInsert(Pending<Checked>),
}

impl Batch {
    /// Replies whose turn it is, with their share, or one that is taken now.
    async fn done(&self, replies: Vec<u8>, share: Option<Share>) -> Slot {
        let share = match share {
            Some(share) => share,
            None => self.hold(replies.len()).await,
        };
        Slot::Done(replies, share)
    }
}

/// The same in its turn, however long it is.
async fn reply_in_turn(
    batch: &Batch,
    prepared: &Prepared,
) -> Result<(Vec<u8>, Option<Share>), Problem> {
    let service = &batch.service;
    if batch.operation == Operation::Fingerprint {
        let reply = FingerprintReply::new(prepared, service.options.defaults.recipe);
        return Ok(service.replies.line(reply, None).await);
    }
    let found = service.engine.find(&prepared.document, prepared.options).await?;
    let (findings, share) = service.replies.hits_of_line(found).await?;
    count_hits(&findings);
    Ok(service.replies.line(QueryReply::new(prepared, &findings), share).await)
}

/// Does what needs the order of the lines: long replies, and the places of writes in the queue of the
/// engine.
pub(super) async fn begin(
    batch: Arc<Batch>,
    mut chunks: mpsc::Receiver<JoinHandle<Steps>>,
    slots: mpsc::Sender<Slot>,
) {
    while let Some(chunk) = chunks.recv().await {
        let Ok(Steps { steps, mut share }) = chunk.await else {
            send(&slots, Slot::Broken).await;
            return;
        };
        for step in steps {
            let slot = match step {
                Step::Done(replies) => {
                    let paid = share.as_mut().and_then(|share| share.split(replies.len()));
                    batch.done(replies, paid).await
                }
                Step::LookUp(line, prepared) => look_up(&batch, line, &prepared).await,
                Step::Write(line, prepared) => begin_write(&batch, line, *prepared).await,
            };
            if !send(&slots, slot).await {
                return;
            }
        }
    }
}

async fn look_up(batch: &Batch, line: u64, prepared: &Prepared) -> Slot {
    match reply_in_turn(batch, prepared).await {
        Ok((reply, share)) => batch.done(reply, share).await,
        Err(problem) => batch.done(error_line(&problem.at_line(line)), None).await,
    }
}

async fn begin_write(batch: &Batch, line: u64, prepared: Prepared) -> Slot {
    let engine = &batch.service.engine;
    let subject = Subject::from(&prepared);
    let begun = if batch.operation == Operation::Insert {
        engine.begin_insert(prepared.document, Admission::Wait).await.map(Answer::Insert)
    } else {
        let store = prepared.store_duplicates;
        engine
            .begin_check_and_insert(prepared.document, prepared.options, store, Admission::Wait)
            .await
            .map(Answer::CheckAndInsert)
    };
    match begun {
        Ok(answer) => {
            let share = batch.hold(PENDING_BYTES.saturating_add(answer.bytes())).await;
            Slot::Written(Box::new(Write { line, subject, answer, share }))
        }
        Err(refused) => batch.done(error_line(&Problem::from(refused).at_line(line)), None).await,
    }
}

impl Answer {
    const fn bytes(&self) -> usize {
        match self {
            Self::Insert(pending) => pending.bytes(),
            Self::CheckAndInsert(pending) => pending.bytes(),
        }
    }

    /// The reply, when the write is as durable as the policy promises.
    async fn line(
        self,
        batch: &Batch,
        subject: &Subject,
    ) -> Result<(Vec<u8>, Option<Share>), Refused> {
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
                let (findings, share) = replies.hits_of_line(found).await?;
                count_hits(&findings);
                let reply = CheckAndInsertReply::new(subject, written, &findings);
                Ok(replies.line(reply, share).await)
            }
        }
    }
}

/// Waits for each slot in turn and sends the replies.
pub(super) async fn reply(batch: Arc<Batch>, mut slots: mpsc::Receiver<Slot>, to_client: Pieces) {
    let mut out = Outgoing { buffer: BytesMut::with_capacity(REPLY_BYTES), to_client };
    while let Some(slot) = slots.recv().await {
        let sent = match slot {
            Slot::Done(replies, share) => out.add(replies, Some(share)).await,
            Slot::Written(write) => {
                let Write { line, subject, answer, share } = *write;
                let mut answer = pin!(answer.line(&batch, &subject));
                // What is there already need not wait for a sync.
                let written = match answer.as_mut().now_or_never() {
                    Some(written) => written,
                    None if out.flush().await => answer.await,
                    None => return,
                };
                drop(share);
                let error = |refused| (error_line(&Problem::from(refused).at_line(line)), None);
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

/// Where the pieces of a reply go.
pub(super) type Pieces = mpsc::Sender<Result<Bytes, std::io::Error>>;

/// Replies on their way to the client: short ones gather.
struct Outgoing {
    buffer: BytesMut,
    to_client: Pieces,
}

impl Outgoing {
    /// False when the client is gone.
    async fn add(&mut self, replies: Vec<u8>, share: Option<Share>) -> bool {
        if replies.len() <= SHORT_BYTES {
            self.buffer.extend_from_slice(&replies);
            return self.buffer.len() < REPLY_BYTES || self.flush().await;
        }
        self.flush().await && send(&self.to_client, Ok(replies::counted(replies, share))).await
    }

    async fn flush(&mut self) -> bool {
        self.buffer.is_empty() || send(&self.to_client, Ok(self.buffer.split().freeze())).await
    }
}

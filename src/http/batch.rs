//! Batches of documents: NDJSON in, NDJSON out, streamed both ways in bounded memory.
//!
//! ```text
//! body -read-> lines -prepare, look up (parallel)-> steps -begin (in order)-> slots -wait-> reply
//!              CHUNKS_AHEAD pieces of the body                PENDING_MAX writes
//! ```
//!
//! Three tasks joined by bounded channels. A slow client, a slow disk or a full write queue stops
//! the task before it, and in the end the reading of the body. Many writes wait for one sync
//! together; they take their places in the order of their lines, which is the order of effect. A
//! client that sends everything before it reads anything can stop itself once its replies fill the
//! sockets; `proto-free-api.md` tells it.

use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::thread;

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, stream};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout_at;

use super::body::{self, Kind, Reserved};
use super::fields::Asked;
use super::insert::count_outcome;
use super::lines::{Line, LineCutter};
use super::packed::{self, Words};
use super::parameters;
use super::prepare::{self, Prepared, Shape};
use super::problem::{Code, Problem, ProblemBody};
use super::query::count_hits;
use super::service::Service;
use super::wire::{CheckAndInsertReply, FingerprintReply, InsertReply, QueryReply, Subject};
use crate::engine::{Admission, Pending, Written};
use crate::fingerprint::Fingerprint;

/// Pieces of the body being prepared at one time, for each batch: one a core, and at least four.
static CHUNKS_AHEAD: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(0, usize::from).max(4));

/// Writes of one batch waiting for their sync at one time.
const PENDING_MAX: usize = 4_096;

/// Replies are sent when they fill this, or when the next one is not there yet.
const REPLY_BYTES: usize = 16 * 1024;

/// Look-ups between two moments at which other tasks get their turn.
const LOOKUPS_A_TURN: usize = 64;

const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");

/// What is done with each document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Fingerprint,
    Query,
    Insert,
    CheckAndInsert,
}

impl Operation {
    const fn shape(self) -> &'static Shape {
        match self {
            Self::Fingerprint => &prepare::FINGERPRINT,
            Self::Query => &prepare::QUERY,
            Self::Insert => &prepare::INSERT,
            Self::CheckAndInsert => &prepare::CHECK_AND_INSERT,
        }
    }

    const fn takes(self) -> &'static str {
        match self {
            Self::Fingerprint => "application/x-ndjson",
            Self::Query | Self::Insert | Self::CheckAndInsert => {
                "application/x-ndjson or application/octet-stream"
            }
        }
    }

    pub(super) const fn writes(self) -> bool {
        matches!(self, Self::Insert | Self::CheckAndInsert)
    }
}

/// What all lines of a batch share.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) service: Arc<Service>,
    pub(super) operation: Operation,
    /// The query parameters: defaults for the lines.
    pub(super) asked: Asked,
}

/// Answers a batch of either type.
pub(super) async fn run(
    service: Arc<Service>,
    operation: Operation,
    request: Request,
) -> Result<Response, Problem> {
    let (head, stream) = request.into_parts();
    let shape = operation.shape();
    let asked = parameters::parse(head.uri.query(), shape.batch_parameters)?.asked;
    // A default that is wrong for every line refuses the batch.
    let options = prepare::query_options(asked, &service.options.defaults)?;
    let kind = body::kind(&head.headers, operation.takes())?;
    if operation.writes() {
        service.accepts_writes()?;
    }
    let batch = Batch { service, operation, asked };
    match (kind, operation) {
        (Kind::Ndjson, _) => Ok(respond(batch, Source::Lines(stream))),
        (Kind::Packed, Operation::Query | Operation::Insert | Operation::CheckAndInsert) => {
            packed::run(batch, options, &head.headers, stream).await
        }
        (Kind::Packed | Kind::Json | Kind::Text(_) | Kind::Html(_), _) => {
            Err(body::unsupported(format!("A batch comes as {}.", operation.takes())))
        }
    }
}

/// Where the documents come from.
pub(super) enum Source {
    Lines(Body),
    Packed(Words),
}

/// Starts the tasks and answers with the stream they feed.
pub(super) fn respond(batch: Batch, source: Source) -> Response {
    let batch = Arc::new(batch);
    let (to_begin, chunks) = mpsc::channel(*CHUNKS_AHEAD);
    let (to_reply, slots) = mpsc::channel(PENDING_MAX);
    let (to_client, pieces) = mpsc::channel(2);
    // Each ends when the one after it is gone, the last when the client is gone.
    drop(tokio::spawn(read(Arc::clone(&batch), source, to_begin)));
    drop(tokio::spawn(begin(Arc::clone(&batch), chunks, to_reply)));
    drop(tokio::spawn(reply(batch, slots, to_client)));
    let pieces = stream::unfold(pieces, |mut pieces| async move {
        pieces.recv().await.map(|piece| (piece, pieces))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    response.headers_mut().insert(CONTENT_TYPE, NDJSON);
    response
}

/// Some documents of the batch, as they came.
enum Chunk {
    Lines(Vec<Line>),
    Packed { first: u64, fingerprints: Vec<Fingerprint> },
}

/// A document that was prepared, with the number of its line.
type Numbered = (u64, Result<Prepared, Problem>);

/// What is left to do for a document, or for several.
enum Step {
    /// Nothing: these are their replies.
    Done(Vec<u8>),
    /// It is to be written.
    Write(u64, Box<Prepared>),
}

/// A place in the order of replies.
enum Slot {
    Done(Vec<u8>),
    Written(u64, Subject, Pending<Written>),
    /// A fault here: the reply is cut off, so that the client cannot take it for complete.
    Broken,
}

/// Reads the body and starts the preparation of each piece.
async fn read(batch: Arc<Batch>, source: Source, chunks: mpsc::Sender<JoinHandle<Vec<Step>>>) {
    let last = match source {
        Source::Lines(body) => read_lines(&batch, body, &chunks).await,
        Source::Packed(words) => read_words(&batch, words, &chunks).await,
    };
    if let Err((line, problem)) = last {
        let step = Step::Done(error_line(&problem.at_line(line)));
        send(&chunks, tokio::spawn(async { vec![step] })).await;
    }
}

/// Reads lines until the end of the body; an error ends the batch at the line it names.
async fn read_lines(
    batch: &Arc<Batch>,
    mut body: Body,
    chunks: &mpsc::Sender<JoinHandle<Vec<Step>>>,
) -> Result<(), (u64, Problem)> {
    let options = &batch.service.options;
    let mut cutter = LineCutter::new(options.line_bytes_max);
    let mut reserved = Reserved::none(&batch.service);
    let mut deadline = body::deadline(options.body_timeout);
    loop {
        let next = timeout_at(deadline, body::next_data(&mut body))
            .await
            .unwrap_or_else(|_| Err(body::too_slow(options.body_timeout)));
        let data = next.map_err(|problem| (cutter.number(), problem))?;
        let ended = data.is_none();
        let lines = match data {
            Some(data) => cutter.push(data),
            None => cutter.finish().into_iter().collect(),
        };
        let covered = reserved.cover(cutter.held_bytes());
        covered.map_err(|problem| (cutter.number(), problem))?;
        if !lines.is_empty() {
            let work = tokio::spawn(steps(Arc::clone(batch), Chunk::Lines(lines)));
            if !send(chunks, work).await {
                return Ok(());
            }
            // Only a whole line is progress; waiting for our own reply to be taken is not counted.
            deadline = body::deadline(options.body_timeout);
        }
        if ended {
            return Ok(());
        }
    }
}

async fn read_words(
    batch: &Arc<Batch>,
    mut words: Words,
    chunks: &mpsc::Sender<JoinHandle<Vec<Step>>>,
) -> Result<(), (u64, Problem)> {
    let mut first = 1_u64;
    while let Some(fingerprints) = words.next().await.map_err(|problem| (first, problem))? {
        let count = fingerprints.len() as u64;
        let chunk = Chunk::Packed { first, fingerprints };
        if !send(chunks, tokio::spawn(steps(Arc::clone(batch), chunk))).await {
            break;
        }
        first = first.saturating_add(count);
    }
    Ok(())
}

/// False when nobody listens any more.
async fn send<T>(to: &mpsc::Sender<T>, value: T) -> bool {
    to.send(value).await.is_ok()
}

/// Does what needs no order: text to fingerprint, and look-ups that store nothing.
async fn steps(batch: Arc<Batch>, chunk: Chunk) -> Vec<Step> {
    let prepared = if chunk.is_light(&batch.service) {
        Ok(prepare_all(&batch, chunk))
    } else {
        let shared = Arc::clone(&batch);
        batch.service.off_async(move || prepare_all(&shared, chunk)).await
    };
    let mut steps = Vec::new();
    for (turn, (line, prepared)) in prepared.unwrap_or_else(broken).into_iter().enumerate() {
        match prepared {
            Err(problem) => done(&mut steps, error_line(&problem.at_line(line))),
            Ok(prepared) if batch.operation.writes() => {
                steps.push(Step::Write(line, Box::new(prepared)));
            }
            Ok(prepared) => {
                let looked_up = look_up(&batch, &prepared).await;
                let error = |problem: Problem| error_line(&problem.at_line(line));
                done(&mut steps, looked_up.unwrap_or_else(error));
                if turn % LOOKUPS_A_TURN == LOOKUPS_A_TURN - 1 {
                    tokio::task::yield_now().await;
                }
            }
        }
    }
    steps
}

/// The work off the async threads panicked; there is no telling at which line.
fn broken(problem: Problem) -> Vec<Numbered> {
    vec![(0, Err(problem))]
}

/// Adds a reply, joined with the one before where that needs no waiting either.
fn done(steps: &mut Vec<Step>, reply: Vec<u8>) {
    match steps.last_mut() {
        Some(Step::Done(replies)) => replies.extend_from_slice(&reply),
        Some(Step::Write(..)) | None => steps.push(Step::Done(reply)),
    }
}

impl Chunk {
    /// Whether it is prepared in less time than handing it over takes.
    fn is_light(&self, service: &Service) -> bool {
        match self {
            Self::Packed { .. } => true,
            Self::Lines(lines) => {
                let bytes = lines.iter().filter_map(|line| line.bytes.as_ref());
                service.is_light(bytes.map(Bytes::len).sum())
            }
        }
    }
}

fn prepare_all(batch: &Batch, chunk: Chunk) -> Vec<Numbered> {
    let defaults = &batch.service.options.defaults;
    match chunk {
        Chunk::Lines(lines) => {
            lines.into_iter().map(|line| (line.number, prepare_line(batch, &line))).collect()
        }
        Chunk::Packed { first, fingerprints } => (first..)
            .zip(fingerprints)
            .map(|(line, bits)| (line, prepare::bare(bits, None, batch.asked, defaults)))
            .collect(),
    }
}

fn prepare_line(batch: &Batch, line: &Line) -> Result<Prepared, Problem> {
    let options = &batch.service.options;
    let Some(bytes) = &line.bytes else {
        return Err(Problem::new(
            Code::LineTooLarge,
            format!("A line may have {} bytes (server.line_bytes_max).", options.line_bytes_max),
        ));
    };
    prepare::line(bytes, batch.operation.shape(), batch.asked, &options.defaults)
}

/// The reply to a document that is not to be stored.
async fn look_up(batch: &Batch, prepared: &Prepared) -> Result<Vec<u8>, Problem> {
    if batch.operation == Operation::Fingerprint {
        return Ok(line_of(&FingerprintReply::new(
            prepared,
            batch.service.options.defaults.recipe,
        )));
    }
    let engine = &batch.service.engine;
    let findings = engine.query(&prepared.document, prepared.options).await?;
    count_hits(&findings);
    Ok(line_of(&QueryReply::new(prepared, &findings)))
}

/// Gives every write its place in the queue of the engine, in the order of the lines.
async fn begin(
    batch: Arc<Batch>,
    mut chunks: mpsc::Receiver<JoinHandle<Vec<Step>>>,
    slots: mpsc::Sender<Slot>,
) {
    while let Some(chunk) = chunks.recv().await {
        let Ok(steps) = chunk.await else {
            send(&slots, Slot::Broken).await;
            return;
        };
        for step in steps {
            let slot = match step {
                Step::Done(replies) => Slot::Done(replies),
                Step::Write(line, prepared) => begin_write(&batch, line, *prepared).await,
            };
            if !send(&slots, slot).await {
                return;
            }
        }
    }
}

async fn begin_write(batch: &Batch, line: u64, prepared: Prepared) -> Slot {
    let engine = &batch.service.engine;
    let subject = Subject::from(&prepared);
    let begun = if batch.operation == Operation::Insert {
        engine.begin_insert(prepared.document, Admission::Wait).await
    } else {
        let store = prepared.store_duplicates;
        engine
            .begin_check_and_insert(prepared.document, prepared.options, store, Admission::Wait)
            .await
    };
    match begun {
        Ok(pending) => Slot::Written(line, subject, pending),
        Err(refused) => Slot::Done(error_line(&Problem::from(refused).at_line(line))),
    }
}

/// Waits for each slot in turn and sends the replies.
async fn reply(
    batch: Arc<Batch>,
    mut slots: mpsc::Receiver<Slot>,
    pieces: mpsc::Sender<Result<Bytes, std::io::Error>>,
) {
    let mut buffer = BytesMut::with_capacity(REPLY_BYTES);
    while let Some(slot) = slots.recv().await {
        match slot {
            Slot::Done(replies) => buffer.extend_from_slice(&replies),
            Slot::Written(line, subject, pending) => {
                let mut answer = pin!(pending.wait());
                // What is there already need not wait for a sync.
                let written = match answer.as_mut().now_or_never() {
                    Some(written) => written,
                    None if buffer.is_empty() => answer.await,
                    None if send(&pieces, Ok(buffer.split().freeze())).await => answer.await,
                    None => return,
                };
                let reply = written.map(|written| written_line(&batch, &subject, &written));
                let error = |refused| error_line(&Problem::from(refused).at_line(line));
                buffer.extend_from_slice(&reply.unwrap_or_else(error));
            }
            Slot::Broken => {
                send(&pieces, Err(std::io::Error::other("a task of the batch failed"))).await;
                return;
            }
        }
        let full = buffer.len() >= REPLY_BYTES;
        if (full || slots.is_empty()) && !send(&pieces, Ok(buffer.split().freeze())).await {
            return;
        }
    }
}

fn written_line(batch: &Batch, subject: &Subject, written: &Written) -> Vec<u8> {
    count_outcome(written.outcome);
    if batch.operation == Operation::Insert {
        return line_of(&InsertReply::new(subject, written));
    }
    count_hits(&written.findings);
    line_of(&CheckAndInsertReply::new(subject, written))
}

/// A line of a batch that went wrong.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ErrorLine<'a> {
    error: ProblemBody<'a>,
}

fn error_line(problem: &Problem) -> Vec<u8> {
    if let Some(cause) = problem.logged().cause {
        tracing::error!(cause, "a line of a batch failed");
    }
    line_of(&ErrorLine { error: problem.body() })
}

fn line_of(reply: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(reply).expect("replies are JSON");
    line.push(b'\n');
    line
}

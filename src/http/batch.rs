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
//!
//! The channels bound numbers; bytes are bounded by [`super::replies`]. A piece of the body is looked up
//! in parallel as long as its replies fit in [`AHEAD_BYTES`], which it takes from the budget of all
//! connections. What does not fit, and everything while that budget is spent, is looked up in order,
//! when all replies before it are on their way and within [`OWN_BYTES`] of the batch itself.

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
use tokio::sync::{Semaphore, mpsc};
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
use super::replies::{self, OWN_BYTES, SHORT_BYTES, Share};
use super::service::Service;
use super::wire::{CheckAndInsertReply, FingerprintReply, InsertReply, QueryReply, Subject};
use crate::engine::{Admission, Checked, Pending, Refused, Shown, Written};
use crate::fingerprint::Fingerprint;

/// Pieces of the body being prepared at one time, for each batch: one a core, and at least four.
static CHUNKS_AHEAD: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(0, usize::from).max(4));

/// Lines prepared in one piece of work. Each may be a few bytes long and take hundreds when it is
/// prepared, or refused.
const LINES_A_PIECE: usize = 64;

/// Writes of one batch waiting for their sync at one time.
const PENDING_MAX: usize = 4_096;

/// Replies are sent when they fill this, or when the next one is not there yet.
const REPLY_BYTES: usize = 16 * 1024;

/// What the look-ups of one piece of the body may take for their replies before their turn.
const AHEAD_BYTES: usize = 64 * 1024;

/// What a write takes that waits for its sync, apart from what it found.
const PENDING_BYTES: usize = 512;

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
    /// What it may hold when the budget of all connections is spent.
    own: Arc<Semaphore>,
}

impl Batch {
    /// A share for what the batch keeps until its client has read everything before it. Waits for the
    /// client where the budget of all connections and its own are spent.
    async fn hold(&self, bytes: usize) -> Share {
        match self.service.replies.ahead(bytes) {
            Some(share) => share,
            None => Share::waited_for(&self.own, bytes.min(OWN_BYTES)).await,
        }
    }

    /// Replies whose turn it is, with their share, or one that is taken now.
    async fn done(&self, replies: Vec<u8>, share: Option<Share>) -> Slot {
        let share = match share {
            Some(share) => share,
            None => self.hold(replies.len()).await,
        };
        Slot::Done(replies, share)
    }
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
    let batch = Batch { service, operation, asked, own: Arc::new(Semaphore::new(OWN_BYTES)) };
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
    /// With their share of the bodies in memory.
    Lines(Vec<Line>, Reserved),
    Packed {
        first: u64,
        fingerprints: Vec<Fingerprint>,
    },
}

/// A document that was prepared, with the number of its line.
type Numbered = (u64, Result<Prepared, Problem>);

/// What is left to do for the documents of a piece, and the share of the replies that are there.
#[derive(Default)]
struct Steps {
    steps: Vec<Step>,
    share: Option<Share>,
}

/// What is left to do for a document, or for several.
enum Step {
    /// Nothing: these are their replies.
    Done(Vec<u8>),
    /// It is to be looked up in its turn.
    LookUp(u64, Box<Prepared>),
    /// It is to be written.
    Write(u64, Box<Prepared>),
}

/// A place in the order of replies.
enum Slot {
    Done(Vec<u8>, Share),
    Written(Box<Write>),
    /// A fault here: the reply is cut off, so that the client cannot take it for complete.
    Broken,
}

/// A write that waits for its sync.
struct Write {
    line: u64,
    subject: Subject,
    answer: Answer,
    share: Share,
}

enum Answer {
    Insert(Pending<Written>),
    CheckAndInsert(Pending<Checked>),
}

/// Reads the body and starts the preparation of each piece.
async fn read(batch: Arc<Batch>, source: Source, chunks: mpsc::Sender<JoinHandle<Steps>>) {
    let last = match source {
        Source::Lines(body) => read_lines(&batch, body, &chunks).await,
        Source::Packed(words) => read_words(&batch, words, &chunks).await,
    };
    if let Err((line, problem)) = last {
        let steps = vec![Step::Done(error_line(&problem.at_line(line)))];
        send(&chunks, tokio::spawn(async { Steps { steps, share: None } })).await;
    }
}

/// Reads lines until the end of the body; an error ends the batch at the line it names.
async fn read_lines(
    batch: &Arc<Batch>,
    mut body: Body,
    chunks: &mpsc::Sender<JoinHandle<Steps>>,
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
        let any = !lines.is_empty();
        let mut lines = lines.into_iter();
        while lines.len() > 0 {
            let piece: Vec<Line> = lines.by_ref().take(LINES_A_PIECE).collect();
            // The line that was being read is among those that are whole now.
            let held = reserved.split(piece.iter().map(Line::bytes).sum());
            let work = tokio::spawn(steps(Arc::clone(batch), Chunk::Lines(piece, held)));
            if !send(chunks, work).await {
                return Ok(());
            }
        }
        let covered = reserved.cover(cutter.held_bytes());
        covered.map_err(|problem| (cutter.number(), problem))?;
        if any {
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
    chunks: &mpsc::Sender<JoinHandle<Steps>>,
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
async fn steps(batch: Arc<Batch>, chunk: Chunk) -> Steps {
    let bytes = chunk.bytes();
    let prepared = if chunk.is_light(&batch.service) {
        Ok(prepare_all(&batch, chunk))
    } else {
        let shared = Arc::clone(&batch);
        batch.service.off_async(bytes, move || prepare_all(&shared, chunk)).await
    };
    let prepared = prepared.unwrap_or_else(broken);
    if batch.operation.writes() {
        return Steps { steps: prepared.into_iter().map(write).collect(), share: None };
    }
    let mut ahead = Ahead::new(&batch);
    for (turn, (line, prepared)) in prepared.into_iter().enumerate() {
        ahead.answer(&batch, line, prepared).await;
        if turn % LOOKUPS_A_TURN == LOOKUPS_A_TURN - 1 {
            tokio::task::yield_now().await;
        }
    }
    ahead.into_steps()
}

fn write((line, prepared): Numbered) -> Step {
    match prepared {
        Ok(prepared) => Step::Write(line, Box::new(prepared)),
        Err(problem) => Step::Done(error_line(&problem.at_line(line))),
    }
}

/// The look-ups of one piece before it is its turn, as long as there is room for their replies.
struct Ahead {
    steps: Steps,
    room: usize,
    /// Replies behind one that has no room would not be sent before it.
    full: bool,
}

impl Ahead {
    fn new(batch: &Batch) -> Self {
        let share = batch.service.replies.ahead(AHEAD_BYTES);
        let full = share.is_none();
        let room = if full { 0 } else { AHEAD_BYTES };
        Self { steps: Steps { steps: Vec::new(), share }, room, full }
    }

    async fn answer(&mut self, batch: &Batch, line: u64, prepared: Result<Prepared, Problem>) {
        let reply = match prepared {
            Err(problem) => Ok(error_line(&problem.at_line(line))),
            Ok(prepared) if self.full => Err(prepared),
            Ok(prepared) => match short_reply(batch, &prepared).await {
                Ok(Some(reply)) if reply.len() <= self.room => Ok(reply),
                Ok(_) => Err(prepared),
                Err(problem) => Ok(error_line(&problem.at_line(line))),
            },
        };
        match reply {
            Ok(reply) => {
                self.room = self.room.saturating_sub(reply.len());
                self.done(&reply);
            }
            Err(prepared) => {
                self.full = true;
                self.steps.steps.push(Step::LookUp(line, Box::new(prepared)));
            }
        }
    }

    fn into_steps(mut self) -> Steps {
        if let Some(share) = &mut self.steps.share {
            share.shrink_to(AHEAD_BYTES.saturating_sub(self.room));
        }
        self.steps
    }

    /// Adds a reply, joined with the one before where that is there as well.
    fn done(&mut self, reply: &[u8]) {
        match self.steps.steps.last_mut() {
            Some(Step::Done(replies)) => replies.extend_from_slice(reply),
            Some(Step::LookUp(..) | Step::Write(..)) | None => {
                self.steps.steps.push(Step::Done(reply.to_vec()));
            }
        }
    }
}

/// The work off the async threads panicked; there is no telling at which line.
fn broken(problem: Problem) -> Vec<Numbered> {
    vec![(0, Err(problem))]
}

impl Chunk {
    /// Whether it is prepared in less time than handing it over takes.
    fn is_light(&self, service: &Service) -> bool {
        match self {
            Self::Packed { .. } => true,
            Self::Lines(..) => service.is_light(self.bytes()),
        }
    }

    /// How many bytes of the body it has.
    fn bytes(&self) -> usize {
        match self {
            Self::Packed { fingerprints, .. } => size_of_val(fingerprints.as_slice()),
            Self::Lines(lines, _) => lines.iter().map(Line::bytes).sum(),
        }
    }
}

fn prepare_all(batch: &Batch, chunk: Chunk) -> Vec<Numbered> {
    let defaults = &batch.service.options.defaults;
    match chunk {
        Chunk::Lines(lines, _held) => {
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

/// The reply to a document that is not to be stored, where it is a short one.
async fn short_reply(batch: &Batch, prepared: &Prepared) -> Result<Option<Vec<u8>>, Problem> {
    let service = &batch.service;
    let line = if batch.operation == Operation::Fingerprint {
        line_of(&FingerprintReply::new(prepared, service.options.defaults.recipe))
    } else {
        let found = service.engine.find(&prepared.document, prepared.options).await?;
        let Shown::All(findings) = found.show(SHORT_BYTES).await? else { return Ok(None) };
        let line = line_of(&QueryReply::new(prepared, &findings));
        if line.len() <= SHORT_BYTES {
            count_hits(&findings);
        }
        line
    };
    Ok(Some(line).filter(|line| line.len() <= SHORT_BYTES))
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
async fn begin(
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
                count_outcome(written.outcome);
                Ok((line_of(&InsertReply::new(subject, written)), None))
            }
            Self::CheckAndInsert(pending) => {
                let Checked { written, found } = pending.wait().await?;
                count_outcome(written.outcome);
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
async fn reply(batch: Arc<Batch>, mut slots: mpsc::Receiver<Slot>, to_client: Pieces) {
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
type Pieces = mpsc::Sender<Result<Bytes, std::io::Error>>;

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

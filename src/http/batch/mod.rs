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
//! in parallel as long as its replies fit in `pieces::AHEAD_BYTES`, which it takes from the budget of all
//! connections. What does not fit, and everything while that budget is spent, is looked up in order,
//! when all replies before it are on their way and within [`OWN_BYTES`] of the batch itself.
//!
//! - [`pieces`] reads the body and does what needs no order;
//! - [`turns`] does the rest in the order of the lines, and sends the replies.

mod pieces;
mod turns;

use std::sync::{Arc, LazyLock};
use std::thread;

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use futures_util::stream;
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc};

use super::body::{self, Kind};
use super::fields::Asked;
use super::packed::{self, Words};
use super::parameters;
use super::prepare::{self, Prepared, Shape};
use super::problem::{Problem, ProblemBody};
use super::replies::{OWN_BYTES, Share};
use super::service::Service;

/// Pieces of the body being prepared at one time, for each batch: one a core, and at least four.
static CHUNKS_AHEAD: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(0, usize::from).max(4));

/// Writes of one batch waiting for their sync at one time.
const PENDING_MAX: usize = 4_096;

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
    drop(tokio::spawn(pieces::read(Arc::clone(&batch), source, to_begin)));
    drop(tokio::spawn(turns::begin(Arc::clone(&batch), chunks, to_reply)));
    drop(tokio::spawn(turns::reply(batch, slots, to_client)));
    let pieces = stream::unfold(pieces, |mut pieces| async move {
        pieces.recv().await.map(|piece| (piece, pieces))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    response.headers_mut().insert(CONTENT_TYPE, NDJSON);
    response
}

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

/// False when nobody listens any more.
async fn send<T>(to: &mpsc::Sender<T>, value: T) -> bool {
    to.send(value).await.is_ok()
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

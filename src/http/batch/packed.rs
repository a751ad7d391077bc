//! Batches of packed little-endian 64-bit fingerprints: the fast way in and the fast look-up.
//!
//! The body is cut into chunks of up to [`PACKED_MAX`](nearprint_engine::machine::change::PACKED_MAX)
//! fingerprints. The look-ups of a few chunks run at one time on all cores, scheduled with those of
//! other requests, and their replies are sent in order.
//!
//! A length that is no multiple of 8 is refused before anything is done. With a Content-Length that
//! is known at once. A body without one is first read whole, up to `server.body_bytes_max`; above
//! that the client must send a Content-Length (411), since nothing else keeps both that promise and
//! bounded memory.

use std::collections::VecDeque;

use axum::Json;
use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;
use nearprint_engine::document::{Namespace, Packed};
use nearprint_engine::{
    Admission, Criteria, Engine, PackedInserted, PackedQuery, Pending, QueryOptions, Refused, Share,
};
use nearprint_fingerprint::Fingerprint;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::http::batch::context::{Batch, Operation};
use crate::http::batch::ndjson;
use crate::http::batch::unordered::LineSource;
use crate::http::batch::words::{BatchWords, whole_words};
use crate::http::problem::Problem;
use crate::http::reply::wire::PackedInsertReply;
use crate::http::request::body;
use crate::http::request::lifetime::Lifetime;
use crate::metrics;

/// Chunks of one batch that are worked on at one time.
const CHUNKS_AHEAD: usize = 4;

/// The byte that stands for no hit.
const NO_HIT: u8 = 255;

/// Answers a packed batch.
pub(crate) async fn run(
    batch: Batch,
    options: QueryOptions,
    headers: &HeaderMap,
    stream: Body,
) -> Result<Response, Problem> {
    let namespace = batch.options.namespace.clone();
    batch.check_namespace(namespace.as_ref())?;
    let (stream, bytes) = whole_words(&batch.service.bodies, stream).await?;
    let words = BatchWords::new(stream, batch.service.bodies.timeout);
    let operation = batch.operation;
    match operation {
        Operation::Insert => {
            refuse_ids(&batch, "Packed fingerprints are stored without ids.")?;
            insert(Target::new(&batch), words).await
        }
        Operation::Query | Operation::CheckAndInsert if body::accepts_ndjson(headers) => {
            Ok(ndjson::respond(batch, LineSource::Packed(words)))
        }
        Operation::CheckAndInsert if batch.options.on_duplicate.is_some() => {
            Err(Problem::invalid("on_duplicate", ONLY_NDJSON))
        }
        Operation::CheckAndInsert if batch.options.touch == Some(true) => {
            Err(Problem::invalid("touch", "Packed fingerprints are never counted as duplicates."))
        }
        Operation::Query | Operation::CheckAndInsert => {
            refuse_ids(&batch, ONLY_NDJSON)?;
            let query = PackedQuery { namespace, criteria: options.criteria };
            Ok(respond(Target::new(&batch), words, operation, query, bytes / 8))
        }
        Operation::Fingerprint => {
            Err(body::unsupported("A packed fingerprint is a fingerprint already.".to_owned()))
        }
    }
}

/// Why an option is refused that replies of one byte a fingerprint cannot honour.
const ONLY_NDJSON: &str =
    "Packed replies have no place for it; ask for Accept: application/x-ndjson.";

fn refuse_ids(batch: &Batch, detail: &'static str) -> Result<(), Problem> {
    if batch.options.id_from.is_some() {
        return Err(Problem::invalid("id_from", detail));
    }
    Ok(())
}

/// Where the fingerprints are stored, and for how long.
#[derive(Debug, Clone)]
struct Target {
    engine: Engine,
    namespace: Option<Namespace>,
    lifetime: Lifetime,
}

impl Target {
    fn new(batch: &Batch) -> Self {
        let engine = batch.service.engine.clone();
        let namespace = batch.options.namespace.clone();
        Self { engine, namespace, lifetime: batch.lifetime }
    }

    /// A chunk that is stored now.
    fn packed(&self, fingerprints: Vec<Fingerprint>) -> Packed {
        let expiry = self.lifetime.expiry(Engine::now_ms());
        Packed { namespace: self.namespace.clone(), expiry, fingerprints }
    }
}

/// A running piece of work; its result has one byte a fingerprint.
type Work = JoinHandle<Result<Vec<u8>, Problem>>;

/// Replies with one byte a fingerprint, from pieces of work that start in order.
fn respond(
    target: Target,
    mut words: BatchWords,
    operation: Operation,
    query: PackedQuery,
    count: u64,
) -> Response {
    let (to_reply, work) = mpsc::channel(CHUNKS_AHEAD);
    let share = target.engine.share();
    drop(tokio::spawn(async move {
        loop {
            let begun = match words.next().await {
                Ok(None) => return,
                Ok(Some(chunk)) if operation.writes() => {
                    check_and_insert(&target, &share, chunk, query.criteria).await
                }
                Ok(Some(chunk)) => {
                    Ok(look_up(target.engine.clone(), share.clone(), chunk, query.clone()))
                }
                Err(problem) => Err(problem),
            };
            let broken = begun.is_err();
            if to_reply.send(begun).await.is_err() || broken {
                return;
            }
        }
    }));
    let replies = stream::unfold(work, |mut work| async move {
        let replies = match work.recv().await? {
            Ok(work) => work.await.map_err(std::io::Error::other),
            Err(problem) => Ok(Err(problem)),
        };
        Some((cut_off_on_error(replies), work))
    });
    let mut response = Response::new(Body::from_stream(replies));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    // One byte a fingerprint: a client that gets fewer knows that the reply was cut off.
    headers.insert(CONTENT_LENGTH, HeaderValue::from(count));
    response
}

/// The head has been sent, so the only way to report a failure is to end before the length.
fn cut_off_on_error(
    replies: Result<Result<Vec<u8>, Problem>, std::io::Error>,
) -> Result<Bytes, std::io::Error> {
    match replies? {
        Ok(distances) => Ok(Bytes::from(distances)),
        Err(problem) => {
            let failure = problem.logged();
            tracing::error!(code = failure.code, cause = failure.cause, "a packed batch broke off");
            Err(std::io::Error::other("the batch broke off"))
        }
    }
}

fn look_up(engine: Engine, share: Share, chunk: Vec<Fingerprint>, query: PackedQuery) -> Work {
    tokio::spawn(async move {
        let nearest = engine.nearest_scheduled(&share, chunk, &query).await?;
        count_nearest(&nearest);
        Ok(nearest)
    })
}

async fn check_and_insert(
    target: &Target,
    share: &Share,
    chunk: Vec<Fingerprint>,
    criteria: Criteria,
) -> Result<Work, Problem> {
    let packed = target.packed(chunk);
    // The chunk enters the write queue here, in order; only the waiting runs in parallel.
    let pending = target
        .engine
        .begin_check_and_insert_packed(share, packed, criteria, Admission::Wait)
        .await?;
    Ok(tokio::spawn(async move {
        let nearest = pending.wait().await?;
        let inserted = count_nearest(&nearest);
        metrics::written(metrics::WriteOutcome::Inserted, inserted);
        let duplicates = (nearest.len() as u64).saturating_sub(inserted);
        metrics::written(metrics::WriteOutcome::Duplicate, duplicates);
        Ok(nearest)
    }))
}

/// Counts hits by distance; returns the number of fingerprints without a hit.
fn count_nearest(nearest: &[u8]) -> u64 {
    let mut without = 0_u64;
    for &distance in nearest {
        if distance == NO_HIT {
            without = without.saturating_add(1);
        } else {
            metrics::hit(distance);
        }
    }
    without
}

/// Stores all fingerprints and replies with counts.
async fn insert(target: Target, mut words: BatchWords) -> Result<Response, Problem> {
    let mut reply = PackedInsertReply {
        received: 0,
        inserted: 0,
        stored: false,
        sequence: target.engine.sequence().get(),
    };
    let mut in_queue = VecDeque::new();
    let outcome = store_all(&target, &mut words, &mut reply, &mut in_queue).await;
    // Chunks in the write queue are stored whatever went wrong after them.
    while let Some(pending) = in_queue.pop_front() {
        finish(pending, &mut reply).await?;
    }
    let partly = |problem: Problem| match reply.inserted {
        0 => problem,
        inserted => problem.with_detail(format!(
            "The batch ended early; its first {inserted} fingerprints were stored."
        )),
    };
    outcome.map_err(partly)?;
    metrics::written(metrics::WriteOutcome::Inserted, reply.inserted);
    Ok(Json(reply).into_response())
}

async fn store_all(
    target: &Target,
    words: &mut BatchWords,
    reply: &mut PackedInsertReply,
    in_queue: &mut VecDeque<Pending<PackedInserted>>,
) -> Result<(), Problem> {
    while let Some(chunk) = words.next().await? {
        reply.received = reply.received.saturating_add(chunk.len() as u64);
        let pending = target.engine.begin_insert_packed(target.packed(chunk), Admission::Wait);
        in_queue.push_back(pending.await?);
        if in_queue.len() > CHUNKS_AHEAD
            && let Some(oldest) = in_queue.pop_front()
        {
            finish(oldest, reply).await?;
        }
    }
    Ok(())
}

async fn finish(
    pending: Pending<PackedInserted>,
    reply: &mut PackedInsertReply,
) -> Result<(), Refused> {
    let done = pending.wait().await?;
    reply.inserted = reply.inserted.saturating_add(done.inserted);
    reply.sequence = done.sequence.get();
    reply.stored = reply.inserted > 0;
    Ok(())
}

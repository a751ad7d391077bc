//! Batches of packed little-endian 64-bit fingerprints: the fast way in and the fast look-up.
//!
//! The body is cut into chunks of up to [`PACKED_MAX`](crate::machine::change::PACKED_MAX) fingerprints; the look-ups of a few chunks at a
//! time run on all cores, in turn with those of other requests, and their replies go out in order.
//!
//! A length that is no multiple of 8 is refused before anything is done. With a Content-Length
//! that is known at once. A body without one is first read whole, up to `server.body_bytes_max`;
//! a longer one is asked to say its length (411), for nothing else keeps both that promise and
//! bounded memory.

use std::collections::VecDeque;

use axum::Json;
use axum::body::Body;
use axum::http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::engine::{Admission, Engine, PackedInserted, Pending, QueryOptions, Refused, Share};
use crate::fingerprint::{Distance, Fingerprint};
use crate::http::batch::context::{Batch, Operation};
use crate::http::batch::ndjson;
use crate::http::batch::unordered::Source;
use crate::http::batch::words::{Words, whole_words};
use crate::http::problem::Problem;
use crate::http::reply::wire::PackedInsertReply;
use crate::http::request::body;
use crate::metrics;

/// Pieces of work of one batch at one time.
const CHUNKS_AHEAD: usize = 4;

/// The byte that says: no hit.
const NO_HIT: u8 = 255;

/// Answers a packed batch.
pub(crate) async fn run(
    batch: Batch,
    options: QueryOptions,
    headers: &HeaderMap,
    stream: Body,
) -> Result<Response, Problem> {
    let (stream, bytes) = whole_words(&batch.service.bodies, stream).await?;
    let words = Words::new(stream, batch.service.bodies.timeout);
    let count = bytes / 8;
    let full = wants_ndjson(headers);
    let distance = options.criteria.distance;
    match batch.operation {
        Operation::Insert => insert(&batch.service.engine, words).await,
        Operation::Query | Operation::CheckAndInsert if full => {
            Ok(ndjson::respond(batch, Source::Packed(words)))
        }
        Operation::CheckAndInsert if batch.options.on_duplicate.is_some() => Err(Problem::invalid(
            "on_duplicate",
            "Packed replies have no place for it; ask for Accept: application/x-ndjson.",
        )),
        Operation::Query => {
            Ok(respond(batch.service.engine.clone(), words, distance, count, query))
        }
        Operation::CheckAndInsert => {
            Ok(respond(batch.service.engine.clone(), words, distance, count, check_and_insert))
        }
        Operation::Fingerprint => {
            Err(body::unsupported("A packed fingerprint is a fingerprint already.".to_owned()))
        }
    }
}

fn wants_ndjson(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT)
        .iter()
        .any(|value| value.to_str().is_ok_and(|accept| accept.contains("application/x-ndjson")))
}

/// A piece of work under way; its replies are one byte a fingerprint.
type Work = JoinHandle<Result<Vec<u8>, Problem>>;

/// Answers with one byte a fingerprint, from pieces of work that `start` starts in order.
fn respond<S, F>(engine: Engine, words: Words, distance: Distance, count: u64, start: S) -> Response
where
    S: Fn(Engine, Share, Vec<Fingerprint>, Distance) -> F + Send + 'static,
    F: Future<Output = Result<Work, Problem>> + Send,
{
    let (to_reply, work) = mpsc::channel(CHUNKS_AHEAD);
    let share = engine.share();
    drop(tokio::spawn(async move {
        let mut words = words;
        loop {
            let begun = match words.next().await {
                Ok(None) => return,
                Ok(Some(chunk)) => start(engine.clone(), share.clone(), chunk, distance).await,
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
    // One byte a fingerprint: a client that gets fewer knows that the reply broke off.
    headers.insert(CONTENT_LENGTH, HeaderValue::from(count));
    response
}

/// The head is sent already, so the only way to tell of a failure is to end before the length.
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

async fn query(
    engine: Engine,
    share: Share,
    chunk: Vec<Fingerprint>,
    distance: Distance,
) -> Result<Work, Problem> {
    Ok(tokio::spawn(async move {
        let nearest = engine.nearest_scheduled(&share, chunk, distance).await?;
        count_nearest(&nearest);
        Ok(nearest)
    }))
}

async fn check_and_insert(
    engine: Engine,
    share: Share,
    chunk: Vec<Fingerprint>,
    distance: Distance,
) -> Result<Work, Problem> {
    // The place in the queue is taken here, in order; only the waiting runs beside it.
    let pending =
        engine.begin_check_and_insert_packed(&share, chunk, distance, Admission::Wait).await?;
    Ok(tokio::spawn(async move {
        let nearest = pending.wait().await?;
        let inserted = count_nearest(&nearest);
        metrics::written(metrics::WriteOutcome::Inserted, inserted);
        let duplicates = (nearest.len() as u64).saturating_sub(inserted);
        metrics::written(metrics::WriteOutcome::Duplicate, duplicates);
        Ok(nearest)
    }))
}

/// Counts hits by distance; gives the number of those without.
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

/// Stores them all and answers with counts.
async fn insert(engine: &Engine, mut words: Words) -> Result<Response, Problem> {
    let mut reply = PackedInsertReply {
        received: 0,
        inserted: 0,
        stored: false,
        sequence: engine.sequence().get(),
    };
    let mut under_way = VecDeque::new();
    let outcome = store_all(engine, &mut words, &mut reply, &mut under_way).await;
    // What has its place in the queue is stored whatever came after it.
    while let Some(pending) = under_way.pop_front() {
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
    engine: &Engine,
    words: &mut Words,
    reply: &mut PackedInsertReply,
    under_way: &mut VecDeque<Pending<PackedInserted>>,
) -> Result<(), Problem> {
    while let Some(chunk) = words.next().await? {
        reply.received = reply.received.saturating_add(chunk.len() as u64);
        under_way.push_back(engine.begin_insert_packed(chunk, Admission::Wait).await?);
        if under_way.len() > CHUNKS_AHEAD
            && let Some(oldest) = under_way.pop_front()
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

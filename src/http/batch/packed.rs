//! Batches of packed little-endian 64-bit fingerprints: the fast way in and the fast look-up.
//!
//! The body is cut into chunks of up to [`PACKED_MAX`] fingerprints. The look-ups of a few chunks
//! run at one time on all cores, scheduled with those of other requests. Each chunk has a fixed
//! size, so their number bounds their bytes.
//!
//! A length that is not a multiple of 8 is refused before anything is done. With a Content-Length
//! that is known at once. A body without one is first read whole, up to `server.body_bytes_max`;
//! above that the client must send a Content-Length (411), since nothing else keeps both that
//! promise and bounded memory.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use nearprint_engine::document::Packed;
use nearprint_engine::{Admission, Engine, PackedQuery, QueryOptions, Share};
use nearprint_fingerprint::Fingerprint;
use nearprint_machine::change::PACKED_MAX;
use nearprint_service::Operation;
use nearprint_wire::answer::PackedInsertReply;
use nearprint_wire::offer::OfferOptions;
use tokio::sync::mpsc;

use crate::http::batch::documents::BatchSource;
use crate::http::batch::replies::{Finishing, Reply, Slot, finished};
use crate::http::batch::run::{Batch, in_lines, streamed};
use crate::http::batch::source::{DOCUMENTS_PER_PIECE, PackedWords, whole_words};
use crate::http::problem::Problem;
use crate::http::request::body;
use crate::metrics::{self, WriteOutcome};

/// Chunks of one batch that are worked on at one time.
const CHUNKS_AHEAD: usize = 4;

/// The byte that stands for no hit.
const NO_HIT: u8 = 255;

pub(super) async fn run(
    batch: Arc<Batch>,
    options: QueryOptions,
    headers: &HeaderMap,
    stream: Body,
) -> Result<Response, Problem> {
    let namespace = batch.options.namespace.clone();
    batch.check_namespace(namespace.as_ref())?;
    let inserts = batch.operation == Operation::Insert;
    let (stream, bytes) = whole_words(&batch, stream).await?;
    let timeout = batch.http.bodies.timeout;
    if !inserts && body::accepts_ndjson(headers) {
        let words = PackedWords::new(stream, timeout, DOCUMENTS_PER_PIECE);
        return Ok(in_lines(&batch, BatchSource::Words(words)).await);
    }
    check_options(&batch.options, inserts)?;
    let (words, count) = (PackedWords::new(stream, timeout, PACKED_MAX), bytes / 8);
    if inserts {
        return insert(batch, words, count).await;
    }
    let share = batch.http.service.engine_for(&batch.caller).share();
    let query = PackedQuery { namespace, criteria: options.criteria };
    let nearest = Arc::new(Nearest { batch: Arc::clone(&batch), query, share });
    let slots = start(words, move |chunk| Arc::clone(&nearest).begin(chunk));
    let mut response = streamed(&batch, "application/octet-stream", slots).await;
    // One byte a fingerprint: a client that gets fewer knows that the reply was cut off.
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(count));
    Ok(response)
}

/// Refuses options that a reply without lines cannot honour.
fn check_options(options: &OfferOptions, inserts: bool) -> Result<(), Problem> {
    const ONLY_NDJSON: &str =
        "Packed replies have no place for it; ask for Accept: application/x-ndjson.";
    let (field, detail) = if options.on_duplicate.is_some() {
        ("on_duplicate", ONLY_NDJSON)
    } else if options.touch == Some(true) {
        ("touch", "Packed fingerprints are never counted as duplicates.")
    } else if options.id_from.is_some() {
        let stored = "Packed fingerprints are stored without ids.";
        ("id_from", if inserts { stored } else { ONLY_NDJSON })
    } else {
        return Ok(());
    };
    Err(Problem::invalid(field, detail))
}

/// Begins each chunk in the order of the body. An error ends the batch.
fn start<T: Send + 'static, F>(
    mut words: PackedWords,
    begin: impl Fn(Vec<Fingerprint>) -> F + Send + 'static,
) -> mpsc::Receiver<Slot<T>>
where
    F: Future<Output = Result<Finishing<T>, Problem>> + Send,
{
    let (to_reply, slots) = mpsc::channel(CHUNKS_AHEAD);
    drop(tokio::spawn(async move {
        loop {
            let begun = match words.next().await {
                Ok(None) => return,
                Ok(Some(chunk)) => begin(chunk).await,
                Err(problem) => Err(problem),
            };
            let is_last = begun.is_err();
            let reply = begun.unwrap_or_else(|problem| finished(Err(problem)));
            let slot = Slot { line: None, share: None, reply };
            if to_reply.send(slot).await.is_err() || is_last {
                return;
            }
        }
    }));
    slots
}

impl Batch {
    /// A chunk that is stored now.
    fn packed(&self, fingerprints: Vec<Fingerprint>) -> Packed {
        let expiry = self.lifetime.expiry(Engine::now_ms());
        Packed { namespace: self.options.namespace.clone(), expiry, fingerprints }
    }
}

/// A batch of look-ups or check-and-inserts that replies with one byte a fingerprint.
struct Nearest {
    batch: Arc<Batch>,
    query: PackedQuery,
    share: Share,
}

impl Nearest {
    /// Begins a look-up, which then runs in parallel with others, or puts a chunk into the queue of
    /// the engine.
    async fn begin(self: Arc<Self>, chunk: Vec<Fingerprint>) -> Result<Finishing<Reply>, Problem> {
        if !self.batch.operation.writes() {
            let worked_on = self.batch.place.piece();
            let look_up = async move {
                let _worked_on = worked_on;
                self.look_up(chunk).await
            };
            let look_up = tokio::spawn(look_up);
            let fault = |fault| Err(Problem::internal(format!("a batch: {fault}")));
            return Ok(look_up.map(move |done| done.unwrap_or_else(fault)).boxed());
        }
        let (packed, criteria) = (self.batch.packed(chunk), self.query.criteria);
        let engine = self.batch.http.service.engine_for(&self.batch.caller);
        let pending = engine
            .begin_check_and_insert_packed(&self.share, packed, criteria, Admission::Wait)
            .await?;
        let reply = async {
            let nearest = pending.wait().await?;
            let duplicates = count_hits(&nearest);
            let inserted = (nearest.len() as u64).saturating_sub(duplicates);
            metrics::written(WriteOutcome::Duplicate, duplicates);
            metrics::written(WriteOutcome::Inserted, inserted);
            Ok(Reply::new(nearest, None))
        };
        Ok(reply.boxed())
    }

    async fn look_up(self: Arc<Self>, chunk: Vec<Fingerprint>) -> Result<Reply, Problem> {
        let engine = self.batch.http.service.engine_for(&self.batch.caller);
        let nearest = engine.nearest_scheduled(&self.share, chunk, &self.query).await?;
        count_hits(&nearest);
        Ok(Reply::new(nearest, None))
    }
}

/// Counts hits by distance; returns their number.
fn count_hits(nearest: &[u8]) -> u64 {
    let hits = nearest.iter().filter(|&&distance| distance != NO_HIT);
    hits.map(|&distance| metrics::hit(distance)).count() as u64
}

/// Stores all fingerprints and replies with counts.
async fn insert(batch: Arc<Batch>, words: PackedWords, received: u64) -> Result<Response, Problem> {
    let sequence = batch.caller.namespaces.sequence(batch.http.service.engine().sequence());
    let mut reply = PackedInsertReply { received, inserted: 0, stored: false, sequence };
    let reach = batch.caller.namespaces.clone();
    let mut slots = start(words, move |chunk| {
        let batch = Arc::clone(&batch);
        async move {
            let engine = batch.http.service.engine_for(&batch.caller);
            let pending = engine.begin_insert_packed(batch.packed(chunk), Admission::Wait).await?;
            Ok(async { Ok(pending.wait().await?) }.boxed())
        }
    });
    let mut outcome = Ok(());
    while let Some(slot) = slots.recv().await {
        match slot.reply.await {
            Ok(done) => {
                reply.inserted = reply.inserted.saturating_add(done.inserted);
                reply.sequence = reach.sequence(done.sequence);
                reply.stored = reply.inserted > 0;
            }
            Err(problem) => {
                // Chunks in the write queue are stored whatever went wrong before them.
                slots.close();
                outcome = outcome.and(Err(problem));
            }
        }
    }
    metrics::written(WriteOutcome::Inserted, reply.inserted);
    let partly = |problem: Problem| match reply.inserted {
        0 => problem,
        inserted => problem.with_detail(format!(
            "The batch ended early; its first {inserted} fingerprints were stored."
        )),
    };
    outcome.map_err(partly)?;
    Ok(Json(reply).into_response())
}

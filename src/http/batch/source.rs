//! The first stage: cuts the body into pieces, within its limits on bytes and time.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use http_body_util::Full;
use nearprint_fingerprint::Fingerprint;
use nearprint_service::Refusal;
use nearprint_service::budget::ByteShare;
use tokio::time::timeout_at;

use crate::http::batch::documents::ToBegin;
use crate::http::batch::run::Batch;
use crate::http::middleware::guard::Guarded;
use crate::http::problem::{Code, Problem};
use crate::http::request::body;
use crate::lines::{LineCutter, StreamLine};

/// Documents that are prepared together. Each may have a few bytes, and take hundreds once it is
/// prepared or refused.
pub(super) const DOCUMENTS_PER_PIECE: usize = 64;

const WORD: usize = size_of::<u64>();

/// Documents by the numbers of their lines, and the errors of lines that have none.
pub(super) type Numbered<T> = Vec<(u64, Result<T, Problem>)>;

/// A document as it came.
pub(super) enum LineContent {
    Json(Bytes),
    Bare(Fingerprint),
}

impl LineContent {
    /// How many bytes of the body it has.
    pub(super) const fn bytes(&self) -> usize {
        match self {
            Self::Json(json) => json.len(),
            Self::Bare(_) => WORD,
        }
    }
}

/// Reads lines until the end of the body; an error ends the batch at the line it names.
pub(super) async fn lines(
    batch: &Arc<Batch>,
    body: &mut Body,
    to_begin: &ToBegin,
) -> Result<(), (u64, Problem)> {
    let options = &batch.http.options;
    let content = |StreamLine { number, bytes }| {
        (
            number,
            bytes
                .map(LineContent::Json)
                .ok_or_else(|| Refusal::line_too_large(options.line_bytes_max).into()),
        )
    };
    let mut cutter = LineCutter::new(options.line_bytes_max);
    let mut reserved = batch.http.bodies.share(batch.place.client());
    let mut deadline = body::deadline(options.body_timeout);
    loop {
        let next = timeout_at(deadline, body::next_data(body)).await;
        let next = next.unwrap_or_else(|_| Err(batch.too_slow()));
        let data = next.map_err(|problem| (cutter.number(), problem))?;
        let ended = data.is_none();
        let lines = match data {
            Some(data) => cutter.push(data),
            None => cutter.finish().into_iter().collect(),
        };
        let any_line = !lines.is_empty();
        let mut lines = lines.into_iter().map(content);
        while lines.len() > 0 {
            let piece = lines.by_ref().take(DOCUMENTS_PER_PIECE).collect();
            if !batch.offer(piece, &mut reserved, to_begin).await? {
                return Ok(());
            }
        }
        let covered = body::cover(&mut reserved, cutter.partial_bytes());
        covered.map_err(|problem| (cutter.number(), problem))?;
        if any_line {
            // Only a whole line is progress. The time that the client takes to read replies does
            // not count.
            deadline = body::deadline(options.body_timeout);
        }
        if ended {
            return Ok(());
        }
    }
}

/// Reads packed words as documents without ids, one a line.
pub(super) async fn bare(
    batch: &Arc<Batch>,
    words: &mut PackedWords,
    to_begin: &ToBegin,
) -> Result<(), (u64, Problem)> {
    let mut reserved = batch.http.bodies.share(batch.place.client());
    let mut first = 1_u64;
    while let Some(words) = words.next().await.map_err(|problem| (first, problem))? {
        let next = first.saturating_add(words.len() as u64);
        let piece = (first..).zip(words.into_iter().map(LineContent::Bare).map(Ok)).collect();
        if !batch.offer(piece, &mut reserved, to_begin).await? {
            return Ok(());
        }
        first = next;
    }
    Ok(())
}

impl Batch {
    /// Starts the preparation of a piece once there is room, unless the batch is given up, at the
    /// first line of the piece, before there is. False when the client is gone.
    async fn offer(
        self: &Arc<Self>,
        piece: Numbered<LineContent>,
        reserved: &mut ByteShare,
        to_begin: &ToBegin,
    ) -> Result<bool, (u64, Problem)> {
        let first = piece.first().map_or(0, |&(line, _)| line);
        tokio::select! {
            biased;
            is_there = self.prepare_next(piece, reserved, to_begin) => Ok(is_there),
            () = self.flow.until_given_up() => Err((first, not_read(first))),
        }
    }

    /// Refuses the rest of a body that came too slowly.
    fn too_slow(&self) -> Problem {
        let timeout = self.http.bodies.timeout;
        let problem = body::too_slow(timeout);
        if !self.flow.holds_replies() {
            return problem;
        }
        problem.with_detail(format!(
            "The body did not come within {} ms (server.body_timeout_ms). The replies to the lines \
             before waited for its end; a client that reads them while it sends asks for that with \
             the query parameter early_reply=true.",
            timeout.as_millis()
        ))
    }
}

/// Ends a batch whose client reads nothing, before the line with this number.
fn not_read(line: u64) -> Problem {
    Problem::new(
        Code::ReplyNotRead,
        format!(
            "The replies to the lines before line {line} take more memory than unread replies may \
             (server.replies_held_bytes_max), and the client read none of them for half of \
             server.body_timeout_ms. Those lines were taken; line {line} and all after it were not. \
             Send shorter batches, or read the reply while you send."
        ),
    )
}

/// Reads the rest of a body for nothing.
pub(super) async fn discard(mut body: Body) {
    while let Ok(Some(_)) = body::next_data(&mut body).await {}
}

/// The body of a packed batch: little-endian words of 64 bits.
pub(super) struct PackedWords {
    body: Body,
    bytes: BytesMut,
    ended: bool,
    timeout: Duration,
    /// The maximum number of words that are taken together.
    at_once: usize,
}

impl PackedWords {
    pub(super) fn new(body: Body, timeout: Duration, at_once: usize) -> Self {
        Self { body, bytes: BytesMut::new(), ended: false, timeout, at_once }
    }

    pub(super) fn into_body(self) -> Body {
        self.body
    }

    /// The next fingerprints: `at_once` of them, or fewer if no more have arrived yet.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Fingerprint>>, Problem> {
        let deadline = body::deadline(self.timeout);
        while !self.ended && self.bytes.len() < self.at_once.saturating_mul(WORD) {
            let mut data = pin!(body::next_data(&mut self.body));
            let next = match data.as_mut().now_or_never() {
                Some(next) => next,
                None if self.bytes.len() >= WORD => break,
                None => timeout_at(deadline, data)
                    .await
                    .unwrap_or_else(|_| Err(body::too_slow(self.timeout))),
            };
            match next? {
                Some(data) => self.bytes.extend_from_slice(&data),
                None => self.ended = true,
            }
        }
        let words = (self.bytes.len() / WORD).min(self.at_once);
        let taken = self.bytes.split_to(words.saturating_mul(WORD));
        let (words, _) = taken.as_chunks::<WORD>();
        let bits = |word: &[u8; WORD]| Fingerprint::new(u64::from_le_bytes(*word));
        Ok((!words.is_empty()).then(|| words.iter().map(bits).collect()))
    }
}

/// The body of a packed batch and its length, which is a multiple of 8.
pub(super) async fn whole_words(batch: &Batch, stream: Body) -> Result<(Body, u64), Problem> {
    let (stream, bytes) = if let Some(bytes) = stream.size_hint().exact() {
        (stream, bytes)
    } else {
        let bodies = &batch.http.bodies;
        let limit = bodies.bytes_max;
        let body = body::read(bodies, batch.place.client(), stream).await.map_err(|problem| {
            let detail =
                format!("A packed body of more than {limit} bytes needs a Content-Length, and no Content-Encoding.");
            if problem.is(Code::BodyTooLarge) {
                Problem::new(Code::LengthRequired, detail)
            } else {
                problem
            }
        })?;
        let bytes = body.bytes.len() as u64;
        let whole = Full::new(body.bytes.clone());
        (Body::new(Guarded::new(whole, body)), bytes)
    };
    if bytes.is_multiple_of(8) {
        return Ok((stream, bytes));
    }
    Err(Problem::new(
        Code::PackedLength,
        format!("Packed fingerprints have 8 bytes each; the body has {bytes}. Nothing was done."),
    ))
}

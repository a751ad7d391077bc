//! The body of a packed batch: little-endian words of 64 bits.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::BytesMut;
use futures_util::FutureExt as _;
use http_body_util::Full;
use nearprint_engine::machine::change::PACKED_MAX;
use nearprint_fingerprint::Fingerprint;
use tokio::time::timeout_at;

use crate::http::middleware::guard::Guarded;
use crate::http::problem::{Code, Problem};
use crate::http::request::body::{self, Bodies};

/// The maximum number of fingerprints that are looked up or stored together.
const CHUNK: usize = PACKED_MAX;

const WORD: usize = size_of::<u64>();

/// The body and its length, which is a multiple of 8.
pub(crate) async fn whole_words(bodies: &Bodies, stream: Body) -> Result<(Body, u64), Problem> {
    let (stream, bytes) = if let Some(bytes) = stream.size_hint().exact() {
        (stream, bytes)
    } else {
        let limit = bodies.bytes_max;
        let body = body::read(bodies, stream).await.map_err(|problem| {
            let detail =
                format!("A packed body of more than {limit} bytes needs a Content-Length.");
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

/// The fingerprints of a packed body, a chunk at a time.
pub(crate) struct BatchWords {
    body: Body,
    bytes: BytesMut,
    ended: bool,
    timeout: Duration,
}

impl BatchWords {
    pub(crate) fn new(body: Body, timeout: Duration) -> Self {
        Self { body, bytes: BytesMut::new(), ended: false, timeout }
    }

    /// The next fingerprints: [`CHUNK`] of them, or fewer if no more have arrived yet.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Fingerprint>>, Problem> {
        let deadline = body::deadline(self.timeout);
        while !self.ended && self.bytes.len() < CHUNK * WORD {
            let mut data = std::pin::pin!(body::next_data(&mut self.body));
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
        let words = self.bytes.len().min(CHUNK * WORD) / WORD;
        let taken = self.bytes.split_to(words.saturating_mul(WORD));
        let (words, _) = taken.as_chunks::<WORD>();
        let bits = |word: &[u8; WORD]| Fingerprint::new(u64::from_le_bytes(*word));
        Ok((!words.is_empty()).then(|| words.iter().map(bits).collect()))
    }
}

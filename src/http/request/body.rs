//! Bodies: their type by their headers, and reading them within the limits on bytes and time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use nearprint_engine::Client;
use nearprint_service::budget::{ByteShare, DividedBudget};
use nearprint_service::shares::{RequestPlace, ShareSpent};
use nearprint_text::{ContentType, PageSyntax, charset};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::http::options::HttpOptions;
use crate::http::problem::{Code, Problem, quoted};
use crate::http::request::coding::{self, Undecodable};

/// Smaller bodies do not count towards the bytes of all bodies: each connection has a buffer of
/// this size anyway.
const UNCOUNTED_BYTES_MAX: usize = 64 * 1024;

/// How long the rest of a refused body is read and discarded, so that a client that is still
/// sending sees the refusal instead of a reset connection.
const LINGER: Duration = Duration::from_secs(2);

/// A rest of at most this size is read before the reply, which then keeps the connection open.
const DISCARDED_BYTES_MAX: u64 = 1024 * 1024;

/// The names of lines of JSON. None is registered; the first is that of our replies.
const NDJSON: [&str; 6] = [
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/x-jsonl",
    "application/jsonlines",
    "application/x-jsonlines",
];

/// The type of a body, by its Content-Type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ContentKind {
    /// `application/json`.
    Json,
    /// `text/plain`, in this charset.
    Text(Option<String>),
    /// `text/html`, in this charset.
    Html(Option<String>),
    /// `application/xhtml+xml`, in this charset.
    Xhtml(Option<String>),
    /// `application/x-ndjson`.
    Ndjson,
    /// `application/octet-stream`: packed fingerprints.
    Packed,
}

/// Reads the Content-Type; `takes` names the types of this route for the client.
pub(crate) fn kind(headers: &HeaderMap, takes: &str) -> Result<ContentKind, Problem> {
    coding::check(headers)?;
    let values = headers.get_all(CONTENT_TYPE).iter().filter_map(|value| value.to_str().ok());
    let text = values.collect::<Vec<_>>().join(",");
    if text.is_empty() {
        return Err(unsupported(format!(
            "The request has no Content-Type; this resource takes {takes}."
        )));
    }
    let named = ContentType::parse(&text);
    let label = named.as_ref().and_then(ContentType::charset);
    let charset = || label.map(str::to_owned);
    match named.as_ref().and_then(ContentType::page_syntax) {
        Some(PageSyntax::Text) => return Ok(ContentKind::Text(charset())),
        Some(PageSyntax::Html) => return Ok(ContentKind::Html(charset())),
        Some(PageSyntax::Xhtml) => return Ok(ContentKind::Xhtml(charset())),
        None => {}
    }
    match named.as_ref().map_or(text.as_str(), ContentType::essence) {
        "application/json" => utf8_only(label).map(|()| ContentKind::Json),
        name if NDJSON.contains(&name) => utf8_only(label).map(|()| ContentKind::Ndjson),
        "application/octet-stream" => Ok(ContentKind::Packed),
        "application/x-www-form-urlencoded" => Err(unsupported(format!(
            "The body is marked as a web form, which is curl's default; add -H 'Content-Type: application/json'. This resource takes {takes}."
        ))),
        other => Err(unsupported(format!(
            "{} is not taken here; this resource takes {takes}.",
            quoted(other)
        ))),
    }
}

/// Whether the client asks for a reply in lines of JSON.
pub(crate) fn accepts_ndjson(headers: &HeaderMap) -> bool {
    let asks = |accept: &str| NDJSON.iter().any(|name| accept.contains(name));
    headers.get_all(ACCEPT).iter().any(|value| value.to_str().is_ok_and(asks))
}

/// Refuses a Content-Type.
pub(crate) fn unsupported(detail: String) -> Problem {
    Problem::new(Code::UnsupportedMediaType, detail)
}

/// Refuses a label that means another charset. One that means nothing is ignored, as for pages.
fn utf8_only(label: Option<&str>) -> Result<(), Problem> {
    match label.filter(|label| charset::is_other_than_utf_8(label)) {
        None => Ok(()),
        Some(other) => {
            let detail = format!("JSON is UTF-8, not {}.", quoted(other));
            Err(Problem::new(Code::UnsupportedCharset, detail))
        }
    }
}

/// The limits on bodies, and the budget of their bytes in memory.
#[derive(Debug)]
pub(crate) struct Bodies {
    /// The largest body of a single request.
    pub(crate) bytes_max: usize,
    /// How long a body may take.
    pub(crate) timeout: Duration,
    budget: DividedBudget,
}

impl Bodies {
    pub(crate) fn new(options: &HttpOptions) -> Self {
        let bytes_max = options.body_bytes_max;
        let one = bytes_max.saturating_add(coding::MEMORY_MAX);
        Self {
            bytes_max,
            timeout: options.body_timeout,
            budget: DividedBudget::new(options.bodies_held_bytes_max, one),
        }
    }

    /// The bytes of all bodies in memory, as far as they count.
    pub(crate) fn bytes_in_memory(&self) -> usize {
        self.budget.bytes_in_memory()
    }

    /// A share for a body of which nothing has been read.
    pub(crate) fn share(&self, client: &Client) -> ByteShare {
        self.budget.empty_share(client)
    }
}

/// The service stops, so it reads no more of a body: the error of a body in place of its rest.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the service is stopping")]
pub(crate) struct ReadingStopped;

/// Makes the share cover `bytes` of a body; a small body needs none.
pub(crate) fn cover(share: &mut ByteShare, bytes: usize) -> Result<(), Problem> {
    if share.resize(if bytes <= UNCOUNTED_BYTES_MAX { 0 } else { bytes }) {
        return Ok(());
    }
    Err(Problem::new(
        Code::Overloaded,
        "The service has as many bytes of bodies in memory as it may, or as this client's share \
         allows (server.bodies_held_bytes_max). Try again after a moment, or send fewer at one time.",
    ))
}

/// A body in memory, with its share of the budget.
#[derive(Debug)]
pub(crate) struct WholeBody {
    pub(crate) bytes: Bytes,
    _share: ByteShare,
}

/// Reads a whole body within `server.body_bytes_max` and `server.body_timeout_ms`.
pub(crate) async fn read(
    bodies: &Bodies,
    client: &Client,
    body: Body,
) -> Result<WholeBody, Problem> {
    let limit = bodies.bytes_max;
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let reading = collect(bodies.share(client), body, limit);
    timeout(bodies.timeout, reading).await.unwrap_or_else(|_| Err(too_slow(bodies.timeout)))
}

async fn collect(mut share: ByteShare, mut body: Body, limit: usize) -> Result<WholeBody, Problem> {
    let first = next_data(&mut body).await?.unwrap_or_default();
    // Nearly every body is a single frame, which needs no copy.
    let Some(second) = next_data(&mut body).await? else {
        return match first.len() {
            length if length > limit => Err(too_large(limit)),
            length => cover(&mut share, length).map(|()| WholeBody { bytes: first, _share: share }),
        };
    };
    let mut bytes = BytesMut::from(first);
    let mut next = Some(second);
    while let Some(data) = next {
        if bytes.len().saturating_add(data.len()) > limit {
            return Err(too_large(limit));
        }
        bytes.extend_from_slice(&data);
        cover(&mut share, bytes.len())?;
        next = next_data(&mut body).await?;
    }
    Ok(WholeBody { bytes: bytes.freeze(), _share: share })
}

/// The next data of a body; `None` at its end.
pub(crate) async fn next_data(body: &mut Body) -> Result<Option<Bytes>, Problem> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data()
                    && !data.is_empty()
                {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => return Err(incomplete(&error)),
        }
    }
}

/// Refuses a body that breaks off, and says why.
fn incomplete(error: &axum::Error) -> Problem {
    let causes = || std::iter::successors(Some(error as &dyn std::error::Error), |e| e.source());
    if let Some(undecodable) = causes().find_map(<dyn std::error::Error>::downcast_ref) {
        return Undecodable::problem(undecodable);
    }
    if causes().any(<dyn std::error::Error>::is::<ReadingStopped>) {
        let detail = "The service is stopping and reads no more of this request. Send what was not \
                      answered again.";
        return Problem::new(Code::Stopping, detail);
    }
    if let Some(&spent) = causes().find_map(<dyn std::error::Error>::downcast_ref::<ShareSpent>) {
        return spent.into();
    }
    let detail = "The body ended before its announced length, or its chunks were malformed.";
    Problem::new(Code::BodyIncomplete, detail)
}

fn too_large(limit: usize) -> Problem {
    Problem::new(
        Code::BodyTooLarge,
        format!(
            "A body may have {limit} bytes (server.body_bytes_max). Send many documents as a batch, which has no limit."
        ),
    )
}

/// The deadline of something that starts now.
#[expect(clippy::arithmetic_side_effects, reason = "timeouts are at most an hour")]
pub(crate) fn deadline(timeout: Duration) -> Instant {
    Instant::now() + timeout
}

/// Refuses a body that came too slowly.
pub(crate) fn too_slow(timeout: Duration) -> Problem {
    Problem::new(
        Code::RequestTimeout,
        format!(
            "The body did not come within {} ms (server.body_timeout_ms).",
            timeout.as_millis()
        ),
    )
}

/// Wraps a body; [`Rest::discard`] gets what a handler leaves unread. The request gives its place
/// back while the body is waited for.
pub(crate) fn lingering(body: Body, place: Option<Arc<RequestPlace>>) -> (Body, Rest) {
    let (leave, left) = oneshot::channel();
    // Nearly every GET has no body.
    if body.is_end_stream() {
        return (body, Rest(left));
    }
    let leave = Some(leave);
    let lingering = Lingering { body, state: State::Unread, leave, place, arrived: None };
    (Body::new(lingering), Rest(left))
}

/// The unread rest of a body when its request has been answered.
pub(crate) struct Rest(oneshot::Receiver<(Body, State)>);

impl Rest {
    /// Reads and discards it, so that the reply arrives and the connection can be used again: a
    /// refusal under load must not cost a new connection. False if there is too much of it, or it
    /// comes too slowly: then the reply must announce that the connection closes. A client that
    /// waits for permission to send (`Expect: 100-continue`) takes the reply as a refusal and sends
    /// nothing. A body that a streamed reply is still reading is not waited for.
    pub(crate) async fn discard(mut self, expects_continue: bool) -> bool {
        let Ok((rest, state)) = self.0.try_recv() else { return true };
        if expects_continue && state == State::Unread {
            return false;
        }
        if rest.size_hint().upper().is_none_or(|bytes| bytes > DISCARDED_BYTES_MAX) {
            linger(rest);
            return false;
        }
        timeout(LINGER, read_to_end(rest)).await.unwrap_or(false)
    }
}

/// Reads a body to its end; false if it breaks off.
async fn read_to_end(mut body: Body) -> bool {
    loop {
        match body.frame().await {
            Some(Ok(_)) => {}
            Some(Err(_)) => return false,
            None => return true,
        }
    }
}

/// Reads the rest of a body in the background, for at most [`LINGER`].
fn linger(rest: Body) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        drop(runtime.spawn(timeout(LINGER, read_to_end(rest))));
    }
}

struct Lingering {
    body: Body,
    state: State,
    leave: Option<oneshot::Sender<(Body, State)>>,
    place: Option<Arc<RequestPlace>>,
    /// What waits for a place.
    arrived: Option<Arrived>,
}

/// What a body yields.
type Arrived = Option<Result<Frame<Bytes>, axum::Error>>;

/// How much of a body has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unread,
    Begun,
    Ended,
}

impl hyper::body::Body for Lingering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Arrived> {
        let this = &mut *self;
        let arrived = match this.arrived.take() {
            Some(arrived) => arrived,
            None => match Pin::new(&mut this.body).poll_frame(cx) {
                Poll::Ready(arrived) => arrived,
                Poll::Pending => {
                    this.state = State::Begun;
                    this.place.iter().for_each(|place| place.give_back());
                    return Poll::Pending;
                }
            },
        };
        this.state = match arrived {
            None | Some(Err(_)) => State::Ended,
            Some(Ok(_)) => State::Begun,
        };
        match this.place.as_ref().map(|place| place.poll_take(cx)) {
            None | Some(Poll::Ready(Ok(()))) => Poll::Ready(arrived),
            Some(Poll::Ready(Err(spent))) => Poll::Ready(Some(Err(axum::Error::new(spent)))),
            Some(Poll::Pending) => {
                this.arrived = Some(arrived);
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.arrived.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        if self.state == State::Ended || self.body.is_end_stream() {
            return;
        }
        let rest = (std::mem::take(&mut self.body), self.state);
        // The receiver is gone if the request has been answered.
        if let Some(Err((rest, _))) = self.leave.take().map(|leave| leave.send(rest)) {
            linger(rest);
        }
    }
}

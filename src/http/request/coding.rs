//! Compressed bodies (`Content-Encoding`): gzip and Zstandard, decompressed as they arrive.
//!
//! A decompressed body is a body like any other: whoever reads it applies its limits on bytes and
//! time to what it expands to. The memory that a decoder uses counts towards
//! `server.bodies_held_bytes_max`, and a body that expands beyond measure ends early, so that a few
//! bytes cannot keep a core busy.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use axum::http::{HeaderMap, HeaderValue};
use bytes::{Buf as _, Bytes};
use flate2::{Decompress, FlushDecompress, Status};
use hyper::body::Frame;
use nearprint_engine::Client;
use nearprint_service::budget::ByteShare;
use zstd::zstd_safe::{
    DCtx, DParameter, InBuffer, OutBuffer, get_error_name, get_frame_content_size,
};

use crate::http::problem::{Code, Problem, quoted};
use crate::http::request::body::{self, Bodies};

/// The codings that are taken, as the header of a refusal.
const TAKEN: HeaderValue = HeaderValue::from_static("gzip, zstd");

/// The most bytes that are decompressed at one time, before other connections have their turn on
/// this thread.
const PIECE_BYTES: usize = 64 << 10;

/// The most calls of a decoder for a piece: a member of gzip may be empty.
const STEPS_MAX: usize = 64;

/// The window of gzip, as a power of two: 32 KiB, the largest that there is.
const GZIP_WINDOW_LOG: u8 = 15;

/// The memory of a decoder of gzip: its window, its tables, and what it has read ahead.
const GZIP_BYTES: usize = 72 << 10;

/// The largest window of Zstandard, as a power of two: 8 MiB, the most that a body may ask for (RFC
/// 9659).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// The longest block of Zstandard, compressed or not (RFC 8878).
const ZSTD_BLOCK_BYTES_MAX: usize = 128 << 10;

/// No decoder takes more: a window of Zstandard, and what goes with it.
pub(crate) const MEMORY_MAX: usize = (1 << ZSTD_WINDOW_LOG_MAX) + (1 << 20);

/// The longest header of a frame of Zstandard (RFC 8878).
const ZSTD_HEADER_BYTES_MAX: usize = 18;

const OTHER_SIZE: &str = "a frame does not have the size that its header announces";

const WINDOW_TOO_LARGE: &str = "its window is above 8 MiB, the most that RFC 9659 allows (compress \
                                with a level of at most 19, and without --long)";

/// How many times its size a body may expand to, once it is above `server.body_bytes_max`.
/// Documents expand to 5 to 50 times; gzip can reach 1,032, and Zstandard 30,000.
const EXPANSION_MAX: u64 = 256;

/// Wraps a body whose coding is known, and takes the headers away that are about the compressed
/// bytes. Any other coding stays there for [`check`].
pub(crate) fn decoded(
    bodies: &Bodies,
    client: &Client,
    headers: &mut HeaderMap,
    body: Body,
) -> Body {
    // Nearly every body comes as it is.
    if !headers.contains_key(CONTENT_ENCODING) {
        return body;
    }
    let Some(decoder) = Decoder::of(headers) else { return body };
    headers.remove(CONTENT_ENCODING);
    headers.remove(CONTENT_LENGTH);
    Body::new(Decoded {
        body,
        decoder,
        input: Bytes::new(),
        has_more: false,
        is_over: false,
        failure: None,
        is_turn_over: false,
        received: 0,
        expanded: 0,
        uncounted: bodies.bytes_max as u64,
        share: bodies.share(client),
    })
}

/// Refuses a body whose coding is not known. Read as text, compressed bytes would get a meaningless
/// fingerprint.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), Problem> {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter().map(HeaderValue::as_bytes);
    let Some(other) = codings.find(|coding| !coding.eq_ignore_ascii_case(b"identity")) else {
        return Ok(());
    };
    let detail = format!(
        "The Content-Encoding {} is not taken; send the body as gzip, as zstd, or uncompressed.",
        quoted(&String::from_utf8_lossy(other))
    );
    Err(Problem::new(Code::UnsupportedEncoding, detail).with_header(ACCEPT_ENCODING, TAKEN))
}

/// Why a body cannot be decompressed: the error of a body in place of its rest.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the body cannot be decompressed")]
pub(crate) struct Undecodable(Problem);

impl Undecodable {
    /// The reply.
    pub(crate) fn problem(&self) -> Problem {
        self.0.clone()
    }
}

/// A decoder of one coding.
enum Decoder {
    /// The member that is being read; `None` between two.
    Gzip(Option<Box<Decompress>>),
    /// The frames; `None` before the first byte, so that a body that never comes takes no memory.
    Zstd(Option<Box<Frames>>),
}

/// How far a decoder came in one call.
struct Step {
    taken: usize,
    is_idle: bool,
}

impl Decoder {
    /// The decoder of a body with these headers, if it has one coding that is known.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let mut codings = headers.get_all(CONTENT_ENCODING).iter().map(HeaderValue::as_bytes);
        let (coding, None) = (codings.next()?, codings.next()) else { return None };
        let is = |name: &[u8]| coding.eq_ignore_ascii_case(name);
        if is(b"gzip") || is(b"x-gzip") {
            return Some(Self::Gzip(None));
        }
        if !is(b"zstd") {
            return None;
        }
        Some(Self::Zstd(None))
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Gzip(_) => "gzip",
            Self::Zstd(_) => "zstd",
        }
    }

    /// The memory that counts towards the limit.
    fn memory(&self, received: u64, expanded: u64) -> usize {
        match self {
            Self::Gzip(member) => member.as_ref().map_or(0, |_| GZIP_BYTES),
            Self::Zstd(frames) => {
                frames.as_ref().map_or(0, |frames| frames.memory(received, expanded))
            }
        }
    }

    /// Whether a member or a frame has begun that has not ended.
    fn is_inside(&self) -> bool {
        match self {
            Self::Gzip(member) => member.is_some(),
            Self::Zstd(frames) => frames.as_ref().is_some_and(|frames| frames.is_inside),
        }
    }

    /// Decompresses some of `input` into the free space of `output`, or says what is wrong with it.
    fn step(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<Step, &'static str> {
        let before = output.len();
        let taken = match self {
            Self::Gzip(member) => inflate(member, input, output)?,
            Self::Zstd(frames) => {
                let new = || Box::new(Frames::new());
                frames.get_or_insert_with(new).decompress(input, output)?
            }
        };
        Ok(Step { taken, is_idle: taken == 0 && output.len() == before })
    }
}

/// The frames of Zstandard.
struct Frames {
    context: DCtx<'static>,
    /// What the context takes before a frame begins.
    context_bytes: usize,
    is_inside: bool,
    /// How the frame begins, as far as it may be its header.
    head: Vec<u8>,
    /// The bytes that came out of the frame.
    expanded: u64,
}

impl Frames {
    fn new() -> Self {
        let mut context = DCtx::create();
        let limited = context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX));
        limited.expect("the window is within the limits of the format");
        let context_bytes = context.sizeof();
        Self { context, context_bytes, is_inside: false, head: Vec::new(), expanded: 0 }
    }

    /// The most memory that the decoder can have written to. It allocates the whole window when a
    /// frame begins, but that takes memory page by page: first a block as it arrives, and then what
    /// came out, with a block that may wait for its turn. If the whole window counted at once, a
    /// few bytes of some connections would spend the budget.
    fn memory(&self, received: u64, expanded: u64) -> usize {
        let bytes = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let waiting = if expanded == 0 { 0 } else { ZSTD_BLOCK_BYTES_MAX };
        let written = [bytes(received).min(ZSTD_BLOCK_BYTES_MAX), waiting, bytes(expanded)];
        let written = written.into_iter().fold(self.context_bytes, usize::saturating_add);
        self.context.sizeof().min(written)
    }

    /// Decompresses some of a frame; never beyond its end.
    fn decompress(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<usize, &'static str> {
        let before = output.len();
        let mut source = InBuffer::around(input);
        let hint = {
            let mut target = OutBuffer::around_pos(output, before);
            self.context.decompress_stream(&mut target, &mut source)
        };
        let hint = hint.map_err(|code| match get_error_name(code) {
            name if name.contains("too much memory") => WINDOW_TOO_LARGE,
            name => name,
        })?;
        let taken = source.pos();
        let missing = ZSTD_HEADER_BYTES_MAX.saturating_sub(self.head.len());
        self.head.extend(input.iter().take(taken.min(missing)));
        self.expanded = self.expanded.saturating_add(output.len().saturating_sub(before) as u64);
        // Without any input the answer is about a frame that has not begun.
        let was_inside = self.is_inside || taken > 0;
        self.is_inside = was_inside && hint != 0;
        if was_inside && hint == 0 {
            self.end_frame()?;
        }
        Ok(taken)
    }

    /// The library does not compare the sizes of a frame whose last block is empty.
    fn end_frame(&mut self) -> Result<(), &'static str> {
        let announced = get_frame_content_size(&self.head).ok().flatten();
        let is_other = announced.is_some_and(|announced| announced != self.expanded);
        self.head.clear();
        self.expanded = 0;
        if is_other { Err(OTHER_SIZE) } else { Ok(()) }
    }
}

/// Decompresses some of a member of gzip, which begins with the first byte.
fn inflate(
    member: &mut Option<Box<Decompress>>,
    input: &[u8],
    output: &mut Vec<u8>,
) -> Result<usize, &'static str> {
    if member.is_none() && input.is_empty() {
        return Ok(0);
    }
    let new = || Box::new(Decompress::new_gzip(GZIP_WINDOW_LOG));
    let decompress = member.get_or_insert_with(new);
    let before = decompress.total_in();
    let status = decompress.decompress_vec(input, output, FlushDecompress::None);
    let taken = decompress.total_in().saturating_sub(before);
    if status.map_err(|_| "not gzip, or a wrong checksum")? == Status::StreamEnd {
        *member = None;
    }
    Ok(usize::try_from(taken).unwrap_or(usize::MAX))
}

/// A body while it is decompressed.
struct Decoded {
    body: Body,
    decoder: Decoder,
    /// What has arrived and was not decompressed yet.
    input: Bytes,
    /// The last piece was full, so that the decoder may have more without any input.
    has_more: bool,
    is_over: bool,
    /// Why there is no more, once what came before it is passed on.
    failure: Option<Problem>,
    /// Work was done: other connections have their turn before the next.
    is_turn_over: bool,
    received: u64,
    expanded: u64,
    /// So many bytes may come of however few.
    uncounted: u64,
    /// The memory of the decoder.
    share: ByteShare,
}

impl Decoded {
    /// The next bytes; empty if the decoder needs more input, has worked enough for now, or has
    /// failed.
    fn piece(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        if self.failure.is_some() || (self.input.is_empty() && !self.has_more) {
            return output;
        }
        output.reserve_exact(PIECE_BYTES);
        for _ in 0..STEPS_MAX {
            let step = match self.decoder.step(&self.input, &mut output) {
                Ok(step) => step,
                Err(why) => {
                    // What came before goes first: lines of a batch take effect.
                    self.failure = Some(malformed(self.decoder.name(), why));
                    break;
                }
            };
            self.input.advance(step.taken);
            if step.is_idle || output.len() == output.capacity() {
                break;
            }
        }
        self.has_more = output.len() == output.capacity();
        self.expanded = self.expanded.saturating_add(output.len() as u64);
        let most = self.uncounted.max(self.received.saturating_mul(EXPANSION_MAX));
        if self.expanded > most {
            self.failure = Some(expands(self.uncounted));
        }
        let covered =
            body::cover(&mut self.share, self.decoder.memory(self.received, self.expanded));
        self.failure = self.failure.take().or(covered.err());
        // Lines that wait keep the whole piece in memory.
        output.shrink_to_fit();
        output
    }

    fn end(&mut self, with: Result<(), Problem>) -> Option<Result<Frame<Bytes>, axum::Error>> {
        self.is_over = true;
        with.err().map(|problem| Err(axum::Error::new(Undecodable(problem))))
    }
}

impl hyper::body::Body for Decoded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if std::mem::take(&mut self.is_turn_over) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            let piece = self.piece();
            if !piece.is_empty() {
                self.is_turn_over = true;
                return Poll::Ready(Some(Ok(Frame::data(piece.into()))));
            }
            if let Some(problem) = self.failure.take() {
                return Poll::Ready(self.end(Err(problem)));
            }
            if !self.input.is_empty() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    // Trailers mean nothing here.
                    self.input = frame.into_data().unwrap_or_default();
                    self.received = self.received.saturating_add(self.input.len() as u64);
                }
                Some(Err(error)) => {
                    self.is_over = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    let is_cut = self.decoder.is_inside();
                    let ended = if is_cut { Err(cut(self.decoder.name())) } else { Ok(()) };
                    return Poll::Ready(self.end(ended));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }
}

fn malformed(coding: &str, why: &str) -> Problem {
    let detail = format!("The body is not what its Content-Encoding, {coding}, says: {why}.");
    Problem::new(Code::MalformedEncoding, detail)
}

fn cut(coding: &str) -> Problem {
    let detail = format!("The body ended in the middle of its {coding} data.");
    Problem::new(Code::BodyIncomplete, detail)
}

fn expands(uncounted: u64) -> Problem {
    let detail = format!(
        "Above {uncounted} bytes (server.body_bytes_max), a compressed body may expand to at most \
         {EXPANSION_MAX} times its size, and this one expands to more. Send it uncompressed."
    );
    Problem::new(Code::BodyTooLarge, detail)
}

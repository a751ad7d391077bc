//! The body of a request, which ends with an error when the service stops before it has arrived.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::http::ReadingStopped;
use crate::server::connection::phase::Phase;

/// The body of a request of a connection.
#[derive(Debug)]
pub(crate) struct RequestBody {
    body: Incoming,
    phase: Phase,
}

impl RequestBody {
    pub(crate) const fn new(body: Incoming, phase: Phase) -> Self {
        Self { body, phase }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        // A client may send without end, so what has arrived already does not count.
        if !self.phase.refuses_body() {
            let polled = Pin::new(&mut self.body).poll_frame(cx);
            if polled.is_ready() {
                return polled.map(|frame| frame.map(|read| read.map_err(Into::into)));
            }
            self.phase.wakes_on_refusal(cx.waker());
            // It may have been refused before the reader was registered.
            if !self.phase.refuses_body() {
                return Poll::Pending;
            }
        }
        Poll::Ready(Some(Err(ReadingStopped.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

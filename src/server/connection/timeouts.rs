//! A stream with timeouts: for a client that does not finish its request head, is idle too long,
//! reads nothing of its reply, or does not close the connection after the last one.
//!
//! The phase of the connection, which the service around it sets, decides which of them applies.
//! The handler that reads a body limits the time of the body.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use crate::server::connection::phase::{BUSY, HEAD, IDLE, LINGERING, NEW, Phase};
use crate::server::options::ServerOptions;

/// How long a client may take to read the last reply and close.
const LINGER: Duration = Duration::from_secs(2);

/// The same while the service stops.
const LINGER_STOPPING: Duration = Duration::from_millis(500);

/// A socket that the task of a connection watches while hyper owns the [`TimeoutStream`] over it.
/// One task uses both, so the lock is never contended.
#[derive(Debug, Clone)]
pub(crate) struct Socket(Arc<Mutex<TcpStream>>);

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }

    /// Resolves when the client has reset the connection. The end of its stream does not count: a
    /// client may close its half once it has sent a request, and still wait for the reply.
    pub(crate) fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut byte = [0];
        match self.lock().poll_peek(cx, &mut ReadBuf::new(&mut byte)) {
            Poll::Ready(Err(_)) => Poll::Ready(()),
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
        }
    }

    fn lock(&self) -> MutexGuard<'_, TcpStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream with deadlines.
#[derive(Debug)]
pub(crate) struct TimeoutStream {
    socket: Socket,
    phase: Phase,
    header_timeout: Duration,
    idle_timeout: Duration,
    reply_timeout: Duration,
    read_deadline: Deadline,
    write_deadline: Deadline,
}

impl TimeoutStream {
    pub(crate) fn new(socket: Socket, phase: Phase, options: &ServerOptions) -> Self {
        Self {
            socket,
            phase,
            header_timeout: options.header_timeout,
            idle_timeout: options.idle_timeout,
            reply_timeout: options.reply_timeout,
            read_deadline: Deadline::default(),
            write_deadline: Deadline::default(),
        }
    }

    fn poll_written(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.write_deadline.disarm();
            return written;
        }
        ready!(self.write_deadline.poll(cx, BUSY, self.reply_timeout));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimeoutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = Pin::new(&mut *this.socket.lock()).poll_read(cx, buffer);
        let phase = this.phase.get();
        if read.is_ready() {
            if phase == IDLE && buffer.filled().len() > before {
                this.phase.set(HEAD);
                // Without this, the next idle time would continue this one if the request is
                // answered at once, so that nothing waits to be read meanwhile.
                this.read_deadline.disarm();
            }
            return read;
        }
        let limit = match phase {
            NEW | HEAD => this.header_timeout,
            IDLE => this.idle_timeout,
            _ => {
                this.read_deadline.disarm();
                return Poll::Pending;
            }
        };
        ready!(this.read_deadline.poll(cx, phase, limit));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Writes are vectored: otherwise hyper copies a reply into its own buffer, and the budget of
/// replies no longer counts what the client has not read.
impl AsyncWrite for TimeoutStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut *self.socket.lock()).poll_write(cx, bytes);
        self.poll_written(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut *self.socket.lock()).poll_write_vectored(cx, slices);
        self.poll_written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.lock().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.socket.lock()).poll_flush(cx)
    }

    /// Ends the written half, then reads for a moment what the client still sends: if a socket is
    /// closed with unread bytes, the operating system discards the reply that is on its way.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let mut rest = [0; 4_096];
        // On a second call the client may be gone.
        if ready!(Pin::new(&mut *this.socket.lock()).poll_shutdown(cx)).is_err() {
            return Poll::Ready(Ok(()));
        }
        let linger = if this.phase.is_stopping() { LINGER_STOPPING } else { LINGER };
        while this.read_deadline.poll(cx, LINGERING, linger).is_pending() {
            let mut unread = ReadBuf::new(&mut rest);
            let read = ready!(Pin::new(&mut *this.socket.lock()).poll_read(cx, &mut unread));
            if read.is_err() || unread.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The timeout of one thing that a stream waits for.
///
/// It starts when the wait begins in a phase, and does not restart with each byte: a client that
/// sends one byte a second is as slow as one that sends none. The timer is made once and reset.
#[derive(Debug, Default)]
struct Deadline {
    timer: Option<Pin<Box<Sleep>>>,
    armed_for: Option<u8>,
}

impl Deadline {
    fn disarm(&mut self) {
        self.armed_for = None;
    }

    fn poll(&mut self, cx: &mut Context<'_>, phase: u8, limit: Duration) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        if self.armed_for != Some(phase) {
            timer.as_mut().reset(Instant::now() + limit);
            self.armed_for = Some(phase);
        }
        timer.as_mut().poll(cx)
    }
}

//! A stream that loses patience: with a client that does not finish its request head, is idle for
//! too long, takes nothing of its reply, or does not close after the last one.
//!
//! Which of these is the case follows from the phase of the connection, which the service around
//! it sets. The time a body may take is the business of the handler that reads it.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use super::Options;

/// Waiting for the rest of a request head.
const HEAD: u8 = 0;
/// A request is being answered.
const BUSY: u8 = 1;
/// Between requests.
const IDLE: u8 = 2;

/// After the last reply.
const LINGERING: u8 = 3;
/// A new connection, waiting for the first request head.
const NEW: u8 = 4;
/// Closed to make room for another connection.
const EVICTED: u8 = 5;
/// The connection is gone.
const ENDED: u8 = 6;

/// How long a client may take to read the last reply and close.
const LINGER: Duration = Duration::from_secs(2);

/// What a connection is doing.
#[derive(Debug, Clone)]
pub(super) struct Phase(Arc<AtomicU8>);

impl Phase {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU8::new(NEW)))
    }

    /// A request has come; it is answered when the returned value is dropped. `None` where it comes
    /// after the connection was evicted or has ended.
    pub(super) fn busy(&self) -> Option<Busy> {
        let before = self.0.swap(BUSY, Ordering::Relaxed);
        let is_over = matches!(before, EVICTED | ENDED);
        (!is_over).then(|| Busy(self.clone()))
    }

    /// Whether no request has come yet.
    pub(super) fn is_new(&self) -> bool {
        self.get() == NEW
    }

    /// Evicts a connection that has made no request yet; false where it has, or has ended.
    pub(super) fn evict(&self) -> bool {
        self.0.compare_exchange(NEW, EVICTED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The connection has ended.
    pub(super) fn end(&self) {
        self.set(ENDED);
    }

    /// Whether a request is being answered.
    pub(super) fn is_busy(&self) -> bool {
        self.get() == BUSY
    }

    // Relaxed: the number guards nothing else. Only an eviction comes from another task, and each
    // of its outcomes is right.
    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, phase: u8) {
        self.0.store(phase, Ordering::Relaxed);
    }
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Busy(Phase);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set(IDLE);
    }
}

/// A socket that the task of a connection watches while hyper owns the [`Patient`] over it. One
/// task uses both, so nobody ever waits for the lock.
#[derive(Debug, Clone)]
pub(super) struct Socket(Arc<Mutex<TcpStream>>);

impl Socket {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }

    /// Resolves when the client has reset the connection. The end of its stream does not count: a
    /// client may close its half once it has sent a request, and still wait for the reply.
    pub(super) fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<()> {
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
pub(super) struct Patient {
    socket: Socket,
    phase: Phase,
    header_timeout: Duration,
    idle_timeout: Duration,
    reply_timeout: Duration,
    read_deadline: Deadline,
    write_deadline: Deadline,
}

impl Patient {
    pub(super) fn new(socket: Socket, phase: Phase, options: &Options) -> Self {
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

impl AsyncRead for Patient {
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
            }
            return read;
        }
        let patience = match phase {
            NEW | HEAD => this.header_timeout,
            IDLE => this.idle_timeout,
            _ => {
                this.read_deadline.disarm();
                return Poll::Pending;
            }
        };
        ready!(this.read_deadline.poll(cx, phase, patience));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Patient {
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

    /// Ends what is written, then reads for a moment what the client still sends: when a socket is
    /// closed with bytes unread, the operating system takes back the reply that is on its way.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let mut rest = [0; 4_096];
        // The second time there may be nobody left to be told.
        if ready!(Pin::new(&mut *this.socket.lock()).poll_shutdown(cx)).is_err() {
            return Poll::Ready(Ok(()));
        }
        while this.read_deadline.poll(cx, LINGERING, LINGER).is_pending() {
            let mut unread = ReadBuf::new(&mut rest);
            let read = ready!(Pin::new(&mut *this.socket.lock()).poll_read(cx, &mut unread));
            if read.is_err() || unread.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The end of patience for one thing that is waited for.
///
/// It starts when the thing is first waited for in a phase, not anew with each byte: a client that
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

    fn poll(&mut self, cx: &mut Context<'_>, phase: u8, patience: Duration) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(patience)));
        if self.armed_for != Some(phase) {
            timer.as_mut().reset(Instant::now() + patience);
            self.armed_for = Some(phase);
        }
        timer.as_mut().poll(cx)
    }
}

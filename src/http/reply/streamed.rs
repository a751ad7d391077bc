//! Replies of any length: exports, and streams of documents.
//!
//! Each has a place among `server.exports_max`. It works only when its client wants the next piece,
//! so one that nobody reads costs a few buffers and the state that it reads. When all places are
//! taken, a new reply takes the place of the one that has waited longest for its client, if that is
//! at least five seconds. If there is none, it takes the place of the newest reply of
//! whoever has most places, provided that its own client has fewer even then. So neither clients
//! that stop reading nor those that begin many replies keep others out.
//!
//! A FIN does not tell whether a client has closed its socket or only sends no more and waits for
//! the reply. A write does: a closed socket answers it with a reset. So that an abandoned reply
//! ends, every stream of documents writes something at least once a second ([`with_blank_lines`]).

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use futures_util::{Stream, StreamExt as _};
use nearprint_engine::Client;
use nearprint_service::shares::ShareSpent;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::http::problem::{Code, Problem};
use crate::metrics;

/// The maximum number of pieces of a thread that wait for a slow client; then the thread waits.
const PIECES_MAX: usize = 2;

/// The longest time in which a stream of lines writes nothing while its client reads.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// The pieces of a reply, each made when it is asked for.
pub(crate) type Pieces = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// The places of such replies.
#[derive(Debug)]
pub(crate) struct StreamPlaces {
    max: usize,
    stall: Duration,
    taken: Mutex<Vec<Arc<Held>>>,
}

/// The place of one reply; given back on drop.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    places: Arc<StreamPlaces>,
    held: Arc<Held>,
}

struct Held {
    client: Client,
    reply: Mutex<Reply>,
}

enum Reply {
    /// It has no pieces yet, or makes one; the task that waits for that.
    Working(Option<Pieces>, Option<Waker>),
    /// It has given a piece away, and its client has not asked for another since.
    Waiting(Pieces, Instant),
    /// Another has its place, for this reason.
    Displaced(Option<Problem>),
}

impl StreamPlaces {
    pub(crate) fn new(max: usize, stall: Duration) -> Arc<Self> {
        Arc::new(Self { max, stall, taken: Mutex::default() })
    }

    /// The number of places that are taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// A free place, or that of a reply that nobody reads, or of one whose client has many.
    ///
    /// # Errors
    /// 503 if there is none.
    pub(crate) fn take(self: &Arc<Self>, client: Client) -> Result<StreamPlace, Problem> {
        let reply = Mutex::new(Reply::Working(None, None));
        let held = Arc::new(Held { client, reply });
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.len() >= self.max {
            let unread = self.displace_unread(&mut taken);
            let displaced = match unread {
                Some(displaced) => displaced,
                None => self.displace_above_share(&mut taken, &held.client)?,
            };
            tracing::info!("an export or stream has ended for a new one (server.exports_max)");
            metrics::export_displaced();
            taken.push(Arc::clone(&held));
            drop(taken);
            // It may let go of a large state.
            drop(displaced);
        } else {
            taken.push(Arc::clone(&held));
        }
        Ok(StreamPlace { places: Arc::clone(self), held })
    }

    /// Takes the place of the reply that has waited longest for its client, if that is long enough.
    fn displace_unread(&self, taken: &mut Vec<Arc<Held>>) -> Option<Reply> {
        let waiting = |held: &Arc<Held>| held.waits_since();
        let (since, at) =
            taken.iter().enumerate().filter_map(|(at, held)| Some((waiting(held)?, at))).min()?;
        if since.elapsed() < self.stall {
            return None;
        }
        let why = format!(
            "Nothing of this reply was read for {} ms or longer, and another one has taken its place \
             (server.exports_max).",
            self.stall.as_millis()
        );
        Some(taken.remove(at).displace(Problem::new(Code::Overloaded, why)))
    }

    /// Takes the place of the newest reply of the client that has most, if this one has fewer even
    /// with one more.
    fn displace_above_share(
        &self,
        taken: &mut Vec<Arc<Held>>,
        client: &Client,
    ) -> Result<Reply, Problem> {
        let count = |client: &Client| taken.iter().filter(|held| held.client == *client).count();
        let held = count(client);
        let most = taken.iter().enumerate().map(|(at, held)| (count(&held.client), at)).max();
        let above = most.filter(|(most, _)| *most > held.saturating_add(1));
        let (_, at) = above.ok_or_else(|| {
            let spent = ShareSpent { held, max: self.max };
            spent.refuse("server.exports_max", "exports and streams")
        })?;
        let why = format!(
            "This client has more of the {} exports and streams (server.exports_max) than another \
             one, which has taken the place of this reply. Begin fewer at one time.",
            self.max
        );
        Ok(taken.remove(at).displace(Problem::new(Code::Overloaded, why)))
    }
}

impl StreamPlace {
    /// Replies with pieces, for as long as the client reads them. `last` is the last piece if
    /// another reply takes the place meanwhile; an error cuts the reply off.
    pub(crate) fn respond(
        self,
        content_type: &'static str,
        pieces: Pieces,
        last: impl FnOnce(Problem) -> io::Result<Bytes> + Send + Unpin + 'static,
    ) -> Response {
        self.held.begin(pieces);
        let body = PlacedBody { place: self, last: Some(last) };
        let mut response = Response::new(Body::from_stream(body));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        response
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|held| !Arc::ptr_eq(held, &self.held));
    }
}

impl Held {
    fn lock(&self) -> std::sync::MutexGuard<'_, Reply> {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with these pieces, unless another reply has the place already.
    fn begin(&self, pieces: Pieces) {
        if let Reply::Working(none, _) = &mut *self.lock() {
            *none = Some(pieces);
        }
    }

    /// Ends it for another reply. What it keeps is returned.
    fn displace(&self, why: Problem) -> Reply {
        let mut displaced = std::mem::replace(&mut *self.lock(), Reply::Displaced(Some(why)));
        if let Reply::Working(_, waker) = &mut displaced {
            waker.take().into_iter().for_each(Waker::wake);
        }
        displaced
    }

    fn waits_since(&self) -> Option<Instant> {
        match &*self.lock() {
            Reply::Waiting(_, since) => Some(*since),
            Reply::Working(..) | Reply::Displaced(_) => None,
        }
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Held(waits since {:?})", self.waits_since())
    }
}

/// The body of such a reply.
struct PlacedBody<L> {
    place: StreamPlace,
    last: Option<L>,
}

impl<L: FnOnce(Problem) -> io::Result<Bytes> + Unpin> Stream for PlacedBody<L> {
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        // Only a reply that takes the place waits for the lock.
        let mut reply = this.place.held.lock();
        let mut pieces = match std::mem::replace(&mut *reply, Reply::Displaced(None)) {
            Reply::Working(Some(pieces), _) | Reply::Waiting(pieces, _) => pieces,
            Reply::Working(None, _) => return Poll::Ready(None),
            Reply::Displaced(why) => {
                drop(reply);
                let last = why.and_then(|why| Some(this.last.take()?(why)));
                return Poll::Ready(last);
            }
        };
        let next = pieces.as_mut().poll_next(cx);
        *reply = match &next {
            Poll::Ready(None) => Reply::Working(None, None),
            Poll::Ready(Some(_)) => Reply::Waiting(pieces, Instant::now()),
            Poll::Pending => Reply::Working(Some(pieces), Some(cx.waker().clone())),
        };
        next
    }
}

/// Lines, and a blank one after each [`SILENCE_MAX`] without any; the work on the next line goes
/// on.
pub(crate) fn with_blank_lines(lines: Pieces) -> Pieces {
    Box::pin(futures_util::stream::unfold(lines, async |mut lines| {
        let next = timeout(SILENCE_MAX, lines.next()).await;
        let piece = next.unwrap_or_else(|_| Some(Ok(Bytes::from_static(b"\n"))))?;
        Some((piece, lines))
    }))
}

/// Where a thread sends the pieces of its reply.
pub(crate) struct ReplyPieces(mpsc::Sender<io::Result<Bytes>>);

impl ReplyPieces {
    /// Sends a piece, once there is room for it. False when the client is gone.
    pub(crate) fn send(&self, piece: impl Into<Bytes>) -> bool {
        self.0.blocking_send(Ok(piece.into())).is_ok()
    }

    /// Cuts the reply off, which its client notices.
    pub(crate) fn cut(&self, error: io::Error) {
        drop(self.0.blocking_send(Err(error)));
    }
}

/// The pieces that a thread of its own writes. Look-ups that read records need not wait for it.
pub(crate) fn written_by_thread(
    write: impl FnOnce(&ReplyPieces) + Send + 'static,
) -> Result<Pieces, Problem> {
    let (pieces, sent) = mpsc::channel(PIECES_MAX);
    let work = move || write(&ReplyPieces(pieces));
    let thread = thread::Builder::new().name("export".to_owned()).spawn(work);
    thread.map_err(|error| Problem::internal(format!("no thread for an export: {error}")))?;
    Ok(Box::pin(futures_util::stream::unfold(sent, async |mut sent| {
        let piece: io::Result<Bytes> = sent.recv().await?;
        Some((piece, sent))
    })))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const STALL: Duration = Duration::from_secs(2);

    fn endless() -> Pieces {
        Box::pin(futures_util::stream::repeat_with(|| Ok(Bytes::from_static(b"piece"))))
    }

    fn body(place: StreamPlace, pieces: Pieces) -> impl Stream<Item = io::Result<Bytes>> + Unpin {
        place.held.begin(pieces);
        let last = |problem: Problem| Ok(Bytes::from(format!("{problem:?}")));
        PlacedBody { place, last: Some(last) }
    }

    async fn next(body: &mut (impl Stream<Item = io::Result<Bytes>> + Unpin)) -> Option<String> {
        let piece = body.next().await?.unwrap();
        Some(String::from_utf8(piece.to_vec()).unwrap())
    }

    fn client(name: &str) -> Client {
        Client::Token(name.into())
    }

    #[tokio::test(start_paused = true)]
    async fn the_reply_that_is_unread_for_longest_gives_its_place_away() {
        let places = StreamPlaces::new(2, STALL);
        let mut first = body(places.take(client("one")).unwrap(), endless());
        let mut second = body(places.take(client("one")).unwrap(), endless());
        assert_eq!(next(&mut second).await.unwrap(), "piece");
        tokio::time::advance(STALL / 2).await;
        assert_eq!(next(&mut first).await.unwrap(), "piece");
        assert!(places.take(client("one")).is_err(), "both were read");
        tokio::time::advance(STALL / 2).await;
        let third = places.take(client("one")).expect("the second one waits for so long");
        assert_eq!(places.taken(), 2);
        assert!(
            places.take(client("one")).is_err(),
            "the first one does not, and the third one has not begun"
        );
        let last = next(&mut second).await.unwrap();
        assert!(last.contains("was read for"), "{last}");
        assert_eq!(next(&mut second).await, None);
        assert_eq!(next(&mut first).await.unwrap(), "piece");
        drop(second);
        assert_eq!(places.taken(), 2, "its place is no longer its own");
        drop((first, third));
        assert_eq!(places.taken(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_works_keeps_its_place_however_long_it_takes() {
        let places = StreamPlaces::new(1, STALL);
        let mut working =
            body(places.take(client("one")).unwrap(), Box::pin(futures_util::stream::pending()));
        assert!(working.next().now_or_never().is_none());
        tokio::time::advance(10 * STALL).await;
        assert!(places.take(client("one")).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_finds_nothing_is_never_silent_for_long() {
        let places = StreamPlaces::new(1, STALL);
        let finds_late = futures_util::stream::once(async {
            tokio::time::sleep(SILENCE_MAX * 5 / 2).await;
            Ok(Bytes::from_static(b"line\n"))
        });
        let lines = with_blank_lines(Box::pin(finds_late));
        let mut body = body(places.take(client("one")).unwrap(), lines);
        for expected in [Some("\n"), Some("\n"), Some("line\n"), None] {
            let begun = Instant::now();
            assert_eq!(next(&mut body).await.as_deref(), expected);
            assert!(begun.elapsed() <= SILENCE_MAX, "{expected:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_displaced_reply_keeps_is_freed_at_once() {
        let places = StreamPlaces::new(1, STALL);
        let state = Arc::new(());
        let kept = Arc::clone(&state);
        let pieces = futures_util::stream::repeat_with(move || {
            assert!(Arc::strong_count(&kept) > 1);
            Ok(Bytes::from_static(b"piece"))
        });
        let mut abandoned = body(places.take(client("one")).unwrap(), Box::pin(pieces));
        next(&mut abandoned).await.unwrap();
        tokio::time::advance(STALL).await;
        assert_eq!(Arc::strong_count(&state), 2);
        let _new = places.take(client("one")).unwrap();
        assert_eq!(Arc::strong_count(&state), 1);
    }

    #[tokio::test]
    async fn a_client_with_most_places_gives_its_newest_to_others_with_fewer() {
        let places = StreamPlaces::new(4, STALL);
        let pieces = || -> Pieces { Box::pin(futures_util::stream::pending()) };
        let begin = |name| Some(body(places.take(client(name)).ok()?, pieces()));
        let [mut oldest, second, third, mut newest] = [(); 4].map(|()| begin("one").unwrap());
        assert!(oldest.next().now_or_never().is_none());
        let ended = tokio::spawn(async move { next(&mut newest).await });
        tokio::task::yield_now().await;
        assert!(begin("one").is_none(), "it has all");
        let _other = begin("other").unwrap();
        let last = ended.await.unwrap().unwrap();
        assert!(last.contains("server.exports_max"), "it wakes up: {last}");
        let _also = begin("other").unwrap();
        assert!(begin("other").is_none() && begin("one").is_none(), "both have two");
        let _third = begin("third").unwrap();
        assert!(begin("third").is_none());
        assert_eq!(places.taken(), 4);
        assert!(oldest.next().now_or_never().is_none(), "the oldest goes on");
        drop((second, third));
    }
}

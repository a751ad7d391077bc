//! Shares: how clients share the places of a limit. [`Client`] has the rule.
//!
//! A request has a place among `server.requests_in_flight_max` while it is worked on. It gives the
//! place back while it waits for its client to send more of its body, and gets one again before it
//! goes on ([`RequestPlace`]): a slow client costs a connection, not a place.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use nearprint_engine::Client;
use nearprint_wire::code::Code;
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

use crate::refusal::Refusal;

/// How long a request whose body has arrived waits for a place; then it is refused.
const PLACE_WAIT_MAX: Duration = Duration::from_secs(10);

/// How much each client has of what all share.
#[derive(Debug, Default)]
pub(crate) struct Holdings(HashMap<Client, usize>);

impl Holdings {
    /// How much a client has.
    pub(crate) fn of(&self, client: &Client) -> usize {
        self.0.get(client).copied().unwrap_or(0)
    }

    /// Gives a client more.
    pub(crate) fn add(&mut self, client: &Client, more: usize) {
        match self.0.get_mut(client) {
            Some(held) => *held = held.saturating_add(more),
            None => drop(self.0.insert(client.clone(), more)),
        }
    }

    /// Forgets who has nothing left.
    pub(crate) fn give_back(&mut self, client: &Client, some: usize) {
        let Some(held) = self.0.get_mut(client) else { return };
        *held = held.saturating_sub(some);
        if *held == 0 {
            self.0.remove(client);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The places of a limit that all clients share.
#[derive(Debug)]
pub struct SharedPlaces {
    max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    held: Holdings,
    /// Who waits for a place, the first one first.
    waiting: VecDeque<(Client, oneshot::Sender<SharedPlace>)>,
}

/// A place; given back on drop.
#[derive(Debug)]
pub struct SharedPlace {
    places: Arc<SharedPlaces>,
    client: Client,
}

/// A client has its share of a limit already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client has {held} of {max} places")]
pub struct ShareSpent {
    /// How many it has.
    pub held: usize,
    /// How many there are.
    pub max: usize,
}

impl SharedPlaces {
    /// This many places.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, state: Mutex::default() })
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.state().taken
    }

    /// A place, if the share of the client has one.
    ///
    /// # Errors
    /// It has its share already.
    pub fn take(self: &Arc<Self>, client: &Client) -> Result<SharedPlace, ShareSpent> {
        let max = self.max;
        let held = self.state().take(client, max).map_err(|held| ShareSpent { held, max });
        held.map(|()| self.place(client.clone()))
    }

    /// A place as soon as the share of the client has one; first come, first served.
    fn wait(self: &Arc<Self>, client: &Client) -> oneshot::Receiver<SharedPlace> {
        let (sender, place) = oneshot::channel();
        let mut state = self.state();
        // Those whose request has ended are forgotten when others come.
        state.waiting.retain(|(_, sender)| !sender.is_closed());
        state.waiting.push_back((client.clone(), sender));
        place
    }

    fn give_back(self: &Arc<Self>, client: &Client) {
        let mut state = self.state();
        state.give_back(client);
        let next = state.next_waiting(self.max);
        drop(state);
        if let Some((client, sender)) = next {
            // If nobody waits for it any more, the place comes back here.
            drop(sender.send(self.place(client)));
        }
    }

    fn place(self: &Arc<Self>, client: Client) -> SharedPlace {
        SharedPlace { places: Arc::clone(self), client }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts one more place of a client; the error is how many it has.
    fn take(&mut self, client: &Client, max: usize) -> Result<(), usize> {
        let held = self.held.of(client);
        if !Client::may_take(held, 1, max.saturating_sub(self.taken)) {
            return Err(held);
        }
        self.taken = self.taken.saturating_add(1);
        self.held.add(client, 1);
        Ok(())
    }

    fn give_back(&mut self, client: &Client) {
        self.taken = self.taken.saturating_sub(1);
        self.held.give_back(client, 1);
    }

    /// Who gets the next place, which is counted.
    fn next_waiting(&mut self, max: usize) -> Option<(Client, oneshot::Sender<SharedPlace>)> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut next = None;
        for (client, sender) in waiting {
            if next.is_none() && !sender.is_closed() && self.take(&client, max).is_ok() {
                next = Some((client, sender));
            } else {
                self.waiting.push_back((client, sender));
            }
        }
        next
    }
}

impl Drop for SharedPlace {
    fn drop(&mut self) {
        self.places.give_back(&self.client);
    }
}

impl ShareSpent {
    /// Refuses a request; `limit` is the name of the limit, and `what` what has its places.
    pub fn refuse(self, limit: &str, what: &str) -> Refusal {
        let Self { held, max } = self;
        let detail = if held == 0 {
            format!(
                "All {max} places for {what} are taken ({limit}). Try again after the time in Retry-After."
            )
        } else {
            format!(
                "This client already has {held} of the {max} places for {what} ({limit}), which is \
                 its share now. Send fewer at one time, or try again after the time in Retry-After."
            )
        };
        Refusal::new(Code::Overloaded, detail)
    }
}

impl From<ShareSpent> for Refusal {
    fn from(spent: ShareSpent) -> Self {
        spent.refuse("server.requests_in_flight_max", "requests")
    }
}

/// The place of a request among those that are worked on. It is given back while the client is
/// waited for and nothing else is to be done.
#[derive(Debug)]
pub struct RequestPlace {
    places: Arc<SharedPlaces>,
    client: Client,
    state: Mutex<PlaceState>,
}

#[derive(Debug)]
struct PlaceState {
    place: Option<SharedPlace>,
    awaits_client: bool,
    /// Parts of the request that are worked on whether or not the client is waited for.
    pieces: usize,
    coming: Option<Coming>,
}

/// A place that will come, unless it takes too long.
#[derive(Debug)]
struct Coming {
    place: oneshot::Receiver<SharedPlace>,
    deadline: Pin<Box<Sleep>>,
}

/// A part of a request that is worked on.
#[derive(Debug)]
pub struct Piece(Arc<RequestPlace>);

impl RequestPlace {
    /// The place of a request that begins.
    ///
    /// # Errors
    /// The client has its share already.
    pub fn take(places: &Arc<SharedPlaces>, client: &Client) -> Result<Arc<Self>, ShareSpent> {
        let place = Some(places.take(client)?);
        let state = PlaceState { place, awaits_client: false, pieces: 0, coming: None };
        Ok(Arc::new(Self {
            places: Arc::clone(places),
            client: client.clone(),
            state: state.into(),
        }))
    }

    /// Who has it.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// The client is waited for: gives the place back once no piece is worked on.
    pub fn give_back(&self) {
        let mut state = self.state();
        state.awaits_client = true;
        let unused = state.unused();
        drop(state);
        drop(unused);
    }

    /// Resolves once the request has a place again.
    pub fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Result<(), ShareSpent>> {
        let mut state = self.state();
        state.awaits_client = false;
        if state.place.is_some() {
            return Poll::Ready(Ok(()));
        }
        let mut coming = match state.coming.take() {
            Some(coming) => coming,
            None => match self.places.take(&self.client) {
                Ok(place) => {
                    state.place = Some(place);
                    return Poll::Ready(Ok(()));
                }
                Err(_) => Coming {
                    place: self.places.wait(&self.client),
                    deadline: Box::pin(sleep(PLACE_WAIT_MAX)),
                },
            },
        };
        if let Poll::Ready(Ok(place)) = Pin::new(&mut coming.place).poll(cx) {
            state.place = Some(place);
            return Poll::Ready(Ok(()));
        }
        if coming.deadline.as_mut().poll(cx).is_ready() {
            let max = self.places.max;
            let held = self.places.state().held.of(&self.client);
            return Poll::Ready(Err(ShareSpent { held, max }));
        }
        state.coming = Some(coming);
        Poll::Pending
    }

    /// Waits for the client to take what is finished; without a place, if it does not take it at
    /// once.
    pub async fn await_client<T>(&self, taken: impl Future<Output = T>) -> T {
        let mut taken = pin!(taken);
        if let Some(taken) = taken.as_mut().now_or_never() {
            return taken;
        }
        self.give_back();
        let taken = taken.await;
        // What was begun goes on: whoever waits too long waits again.
        while poll_fn(|cx| self.poll_take(cx)).await.is_err() {}
        taken
    }

    /// Keeps the place, if there is one, until the piece is dropped.
    pub fn piece(self: &Arc<Self>) -> Piece {
        let mut state = self.state();
        state.pieces = state.pieces.saturating_add(1);
        drop(state);
        Piece(Arc::clone(self))
    }

    fn state(&self) -> MutexGuard<'_, PlaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PlaceState {
    fn unused(&mut self) -> Option<SharedPlace> {
        let is_unused = self.awaits_client && self.pieces == 0;
        self.place.take_if(|_| is_unused)
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.pieces = state.pieces.saturating_sub(1);
        let unused = state.unused();
        drop(state);
        drop(unused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str) -> Client {
        Client::Token(name.into())
    }

    #[test]
    fn a_client_with_many_places_leaves_some_to_others() {
        let places = SharedPlaces::new(8);
        let (busy, other) = (client("busy"), client("other"));
        let taken: Vec<_> = std::iter::from_fn(|| places.take(&busy).ok()).collect();
        assert_eq!((taken.len(), places.taken()), (4, 4));
        assert_eq!(places.take(&busy).unwrap_err(), ShareSpent { held: 4, max: 8 });
        let mine = places.take(&other).unwrap();
        drop(taken);
        assert_eq!(places.taken(), 1);
        drop(mine);
        assert!(places.state().held.is_empty(), "nobody is remembered");
    }

    #[tokio::test]
    async fn a_request_has_no_place_while_it_waits_for_its_client() {
        let (places, one, other) = (SharedPlaces::new(1), client("one"), client("other"));
        let slow = RequestPlace::take(&places, &one).unwrap();
        assert!(places.take(&other).is_err());
        let piece = slow.piece();
        slow.give_back();
        assert_eq!(places.taken(), 1, "a piece is worked on");
        drop(piece);
        let quick = places.take(&other).unwrap();
        let mut again = Box::pin(poll_fn(|cx| slow.poll_take(cx)));
        assert!(again.as_mut().now_or_never().is_none());
        drop(quick);
        assert_eq!(again.await, Ok(()));
        assert!(places.take(&other).is_err());
        drop(slow);
        assert_eq!(places.taken(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_for_a_place_is_refused_and_gets_none_later() {
        let (places, one, other) = (SharedPlaces::new(1), client("one"), client("other"));
        let slow = RequestPlace::take(&places, &one).unwrap();
        slow.give_back();
        let quick = places.take(&other).unwrap();
        let refused = poll_fn(|cx| slow.poll_take(cx)).await;
        assert_eq!(refused, Err(ShareSpent { held: 0, max: 1 }));
        drop(quick);
        assert_eq!(places.taken(), 0);
    }

    #[tokio::test]
    async fn a_place_goes_to_the_first_who_waits_and_whose_share_has_one() {
        let (places, one, other) = (SharedPlaces::new(3), client("one"), client("other"));
        let held = [(); 2].map(|()| places.take(&one).unwrap());
        let mine = places.take(&other).unwrap();
        let (mut first, mut second) = (places.wait(&one), places.wait(&other));
        let [first_held, second_held] = held;
        drop(first_held);
        assert!(first.try_recv().is_err() && second.try_recv().is_err(), "both have one");
        drop(second_held);
        let given = first.try_recv().unwrap();
        assert!(second.try_recv().is_err());
        drop((given, mine));
        assert!(second.try_recv().is_ok());
    }
}

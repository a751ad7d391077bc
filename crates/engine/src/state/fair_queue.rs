//! The fair queue: long work takes turns by client, on threads of its own.
//!
//! The client that has used least of the threads goes first; the work of one client runs in its
//! order. A client that comes back starts level with the one that was served last, so nobody saves
//! up time, and a client that comes alone waits for at most the pieces that run. Work cannot be
//! interrupted, so its callers cut it into pieces of about a millisecond.
//!
//! The threads have a lower priority than those that serve connections and write, so on a machine
//! whose cores are all at work, probes and short look-ups still get theirs at once.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, thread};

use tokio::sync::oneshot;

use crate::api::blocking::{lower_priority, reading};
use crate::api::client::Client;
use crate::api::clock;
use crate::api::error::{OpenError, Refused};

/// How much the threads give way.
const NICENESS: i32 = 5;

/// The queue, and its threads, which end with it.
pub(crate) struct FairQueue(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// Wakes a thread.
    changed: Condvar,
}

type Work = Box<dyn FnOnce() + Send>;

/// Whose turn is next.
#[derive(Default)]
struct State {
    clients: BTreeMap<Option<Client>, Turns>,
    /// Thread time used by the client that was served last.
    level: Duration,
    is_closed: bool,
}

/// The work of a client.
#[derive(Default)]
struct Turns {
    used: Duration,
    waiting: VecDeque<Work>,
    running: usize,
}

impl FairQueue {
    /// Starts so many threads; 0 means as many as `cores` makes of the number of cores.
    ///
    /// # Errors
    /// [`OpenError::System`] if the operating system refuses a thread.
    pub(crate) fn start(
        name: &str,
        threads: usize,
        cores: impl Fn(usize) -> usize,
    ) -> Result<(Self, usize), OpenError> {
        let all = || thread::available_parallelism().map_or(1, usize::from);
        let threads = if threads == 0 { cores(all()) } else { threads };
        let queue = Self(Arc::default());
        for _ in 0..threads {
            let queue = Arc::clone(&queue.0);
            let thread = thread::Builder::new().name(name.to_owned()).spawn(move || queue.run());
            thread.map_err(|error| OpenError::System {
                what: format!("no {name} thread: {error}"),
            })?;
        }
        Ok((queue, threads))
    }

    /// Runs a piece of work when it is the turn of its client. Work that nobody waits for any more
    /// does not begin.
    ///
    /// # Errors
    /// [`Refused::Failed`] if it panics, [`Refused::UnreadableIndex`] if it cannot read a file
    /// of the index.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        client: Option<Client>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let (sender, done) = oneshot::channel();
        let work = move || {
            if !sender.is_closed() {
                drop(sender.send(reading(|| Ok(work()))));
            }
        };
        self.0.state().add(client, Box::new(work));
        self.0.changed.notify_one();
        done.await.unwrap_or(Err(Refused::Failed))
    }
}

impl Drop for FairQueue {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.changed.notify_all();
    }
}

impl fmt::Debug for FairQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FairQueue({} clients)", self.0.state().clients.len())
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What each thread does.
    fn run(&self) {
        lower_priority(NICENESS);
        let mut state = self.state();
        loop {
            if let Some((client, work)) = state.next() {
                drop(state);
                let begun = clock::now();
                // Whoever waits for it learns of a panic by getting no result.
                drop(catch_unwind(AssertUnwindSafe(work)));
                state = self.state();
                state.charge(client.as_ref(), begun.elapsed());
            } else if state.is_closed {
                return;
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl State {
    fn add(&mut self, client: Option<Client>, work: Work) {
        let level = self.level;
        let turns = self.clients.entry(client).or_default();
        if turns.waiting.is_empty() && turns.running == 0 {
            turns.used = turns.used.max(level);
        }
        turns.waiting.push_back(work);
    }

    fn next(&mut self) -> Option<(Option<Client>, Work)> {
        let waiting = self.clients.iter_mut().filter(|(_, turns)| !turns.waiting.is_empty());
        let (client, turns) = waiting.min_by_key(|(_, turns)| turns.used)?;
        let work = turns.waiting.pop_front()?;
        turns.running += 1;
        self.level = self.level.max(turns.used);
        Some((client.clone(), work))
    }

    /// Counts what the work of a client has taken, and forgets those who have nothing to come.
    fn charge(&mut self, client: Option<&Client>, took: Duration) {
        if let Some(turns) = self.clients.get_mut(&client.cloned()) {
            turns.used += took;
            turns.running -= 1;
        }
        let level = self.level;
        self.clients.retain(|_, turns| {
            !turns.waiting.is_empty() || turns.running > 0 || turns.used > level
        });
    }
}

#[cfg(test)]
mod tests {
    use nearprint_fingerprint::recipe::Recipe;
    use nearprint_fingerprint::{Distance, Fingerprint};
    use nearprint_machine::document::{Document, Packed};
    use nearprint_machine::query::Criteria;
    use nearprint_machine::search::Probe;

    use super::*;
    use crate::api::options::Options;
    use crate::api::replies::QueryOptions;
    use crate::handle::Engine;
    use crate::read::reader::RecordLookup;
    use crate::state::published::Published;
    use crate::write::outbox::Admission;

    fn client(name: &str) -> Client {
        Client::Token(name.into())
    }

    /// Adds work that takes `ms`, and runs what comes next as often as wanted; whose it was.
    fn run(state: &mut State, count: usize, ms: impl Fn(&str) -> u64) -> String {
        let mut order = String::new();
        for _ in 0..count {
            let (client, work) = state.next().unwrap();
            work();
            let Some(Client::Token(name)) = &client else { panic!("{client:?}") };
            order.push_str(name);
            state.charge(client.as_ref(), Duration::from_millis(ms(name)));
        }
        order
    }

    fn add(state: &mut State, name: &str, count: usize) {
        (0..count).for_each(|_| state.add(Some(client(name)), Box::new(|| ())));
    }

    #[test]
    fn who_has_used_least_goes_first() {
        let mut state = State::default();
        add(&mut state, "a", 9);
        add(&mut state, "b", 9);
        let ms = |name: &str| if name == "a" { 3 } else { 1 };
        assert_eq!(run(&mut state, 8, ms), "abbbabbb");
        // Who comes now is level with who was served last.
        add(&mut state, "c", 9);
        assert_eq!(run(&mut state, 4, |_| 1), "cabc");
    }

    #[test]
    fn nobody_saves_up_time_and_who_has_nothing_to_do_is_forgotten() {
        let mut state = State::default();
        add(&mut state, "a", 1);
        run(&mut state, 1, |_| 1);
        add(&mut state, "b", 99);
        run(&mut state, 50, |_| 1);
        assert_eq!(state.clients.len(), 1, "b");
        add(&mut state, "a", 9);
        assert_eq!(run(&mut state, 4, |_| 1), "aaba");
    }

    #[tokio::test]
    async fn a_panic_refuses_the_work_and_the_thread_goes_on() {
        let (queue, threads) = FairQueue::start("look-ups", 0, |_| 1).unwrap();
        assert_eq!(threads, 1);
        let panics = queue.run(Some(client("a")), || panic!("a test"));
        assert_eq!(panics.await, Err::<(), _>(Refused::Failed));
        assert_eq!(queue.run(Some(client("b")), || 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_look_up_in_a_crowd_does_not_keep_an_async_thread() {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::open(Options::new(directory.path(), Recipe::Features)).unwrap();
        let pairs =
            (0..64_u32).flat_map(|one| (0..one).map(move |other| 1_u64 << one | 1 << other));
        let fingerprints = pairs.map(Fingerprint::new).collect();
        let packed = Packed { namespace: None, expiry: None, fingerprints };
        let pending = engine.begin_insert_packed(packed, Admission::Wait).await.unwrap();
        pending.wait().await.unwrap();
        let thread_of = async |bits| {
            let document = Document::bare(Fingerprint::new(bits));
            let criteria = Criteria::within(Distance::new(3).unwrap());
            let options = QueryOptions { criteria, limit: 1, with_metadata: false };
            let name = |_: &Published, _: &Probe<'_>, _: RecordLookup| {
                Ok(thread::current().name().map(str::to_owned))
            };
            engine.look_up(&document, options, Engine::now_ms(), name).await.unwrap()
        };
        let is_of_queue = |name: Option<String>| name.is_some_and(|name| name == "look-ups");
        assert!(is_of_queue(thread_of(0).await));
        assert!(!is_of_queue(thread_of(u64::MAX).await));
        tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
    }
}

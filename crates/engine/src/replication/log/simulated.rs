//! A log in memory whose faults are drawn from a seed.
//!
//! Each node has a handle of its own, which can be cut off, and reads a replica of its own. All
//! replicas are equal until one is made to [drift](SimulatedLog::drift).

use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use nearprint_storage::simulated::Dice;
use tokio::sync::oneshot;

use super::{Log, LogBounds, LogEntry, LogError, LogSettings, Reader};
use crate::api::clock;

/// How often each fault occurs: in one of so many appends; 0 is never.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// The entry comes twice, the second time later.
    pub(crate) copies: usize,
    /// It never comes, and there is no answer.
    pub(crate) losses: usize,
    /// It comes after later ones, or much later; there is no answer.
    pub(crate) late: usize,
    /// It comes, but the answer does not.
    pub(crate) unanswered: usize,
}

/// A handle of one node.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedLog {
    state: Arc<Mutex<State>>,
    node: usize,
}

#[derive(Debug)]
struct State {
    dice: Dice,
    faults: Faults,
    identity: u64,
    /// How many entries were discarded.
    discarded: usize,
    /// How far its clock is ahead of that of each node, in milliseconds.
    ahead_ms: Vec<i64>,
    /// How many copies it keeps, as far as it tells.
    copies: u32,
    /// The reason for which it takes no entries.
    refuses: Option<String>,
    replicas: Vec<Replica>,
    /// Sent, and not there yet.
    late: Vec<Arc<[u8]>>,
}

/// What one node reads, and whether it can.
#[derive(Debug, Default, Clone)]
struct Replica {
    entries: Vec<Arc<[u8]>>,
    cut_off: CutOff,
    misses_next: bool,
}

/// What a node cannot do.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct CutOff {
    pub(crate) appends: bool,
    pub(crate) reads: bool,
}

impl State {
    fn fault(&mut self, one_in: usize) -> bool {
        one_in > 0 && self.dice.below(one_in) == 0
    }

    fn deliver(&mut self, entry: &Arc<[u8]>) {
        for replica in &mut self.replicas {
            if !std::mem::take(&mut replica.misses_next) {
                replica.entries.push(Arc::clone(entry));
            }
        }
    }

    fn deliver_late(&mut self) {
        if !self.late.is_empty() {
            let at = self.dice.below(self.late.len());
            let entry = self.late.swap_remove(at);
            self.deliver(&entry);
        }
    }
}

impl SimulatedLog {
    /// An empty log, and its handles for so many nodes.
    pub(crate) fn new(seed: u64, nodes: usize, faults: Faults) -> Vec<Self> {
        let replicas = vec![Replica::default(); nodes];
        let dice = Dice::new(seed);
        let state = State {
            dice,
            faults,
            identity: 1,
            discarded: 0,
            ahead_ms: vec![0; nodes],
            copies: 3,
            refuses: None,
            replicas,
            late: vec![],
        };
        let state = Arc::new(Mutex::new(state));
        (0..nodes).map(|node| Self { state: Arc::clone(&state), node }).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Something that was late may come.
    pub(crate) fn pass_time(&self) {
        self.state().deliver_late();
    }

    /// What was late comes, nobody is cut off, and there are no more faults.
    pub(crate) fn heal(&self) {
        let mut state = self.state();
        state.faults = Faults::default();
        state.replicas.iter_mut().for_each(|replica| replica.cut_off = CutOff::default());
        while !state.late.is_empty() {
            state.deliver_late();
        }
    }

    /// Cuts this node off, or connects it.
    pub(crate) fn cut_off(&self, cut_off: CutOff) {
        self.state().replicas[self.node].cut_off = cut_off;
    }

    /// Discards the oldest entries except for so many, and none after this position.
    pub(crate) fn trim(&self, kept: usize, upto: u64) {
        let mut state = self.state();
        let entries = state.replicas.iter().map(|replica| replica.entries.len()).min();
        state.discarded =
            state.discarded.max(entries.unwrap_or(0).saturating_sub(kept).min(upto as usize));
    }

    /// Forgets the newest entries, and goes on as if they had never been.
    pub(crate) fn forget(&self, entries: usize) {
        for replica in &mut self.state().replicas {
            replica.entries.truncate(replica.entries.len().saturating_sub(entries));
        }
    }

    /// Becomes another log, which is empty.
    pub(crate) fn begin_anew(&self) {
        let mut state = self.state();
        (state.identity, state.discarded) = (state.identity + 1, 0);
        state.replicas.iter_mut().for_each(|replica| replica.entries.clear());
    }

    /// Makes its clock be ahead of this node's.
    pub(crate) fn set_ahead_ms(&self, ahead_ms: i64) {
        self.state().ahead_ms[self.node] = ahead_ms;
    }

    /// Takes no entries for this reason, or takes them again.
    pub(crate) fn refuse(&self, why: Option<&str>) {
        self.state().refuses = why.map(str::to_owned);
    }

    /// Keeps so many copies of each entry from now on, as far as it tells.
    pub(crate) fn set_replicas(&self, replicas: u32) {
        self.state().copies = replicas;
    }

    /// Flips a bit of the newest entry where this node reads it.
    pub(crate) fn damage_newest(&self) {
        let entries = &mut self.state().replicas[self.node].entries;
        let newest = entries.last_mut().expect("there is one");
        let mut bytes = newest.to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        *newest = bytes.into();
    }

    /// Makes this node's replica miss the next entry.
    pub(crate) fn drift(&self) {
        self.state().replicas[self.node].misses_next = true;
    }
}

impl Log for SimulatedLog {
    fn append(&self, entry: Arc<[u8]>) -> oneshot::Receiver<Result<u64, LogError>> {
        let (answer, receiver) = oneshot::channel();
        let mut state = self.state();
        let Faults { copies, losses, late, unanswered } = state.faults;
        if state.replicas[self.node].cut_off.appends || state.fault(losses) {
            return receiver;
        }
        if let Some(why) = state.refuses.clone() {
            answer.send(Err(LogError::Refused(why))).unwrap();
            return receiver;
        }
        if state.fault(late) {
            state.late.push(entry);
            return receiver;
        }
        if state.fault(2) {
            state.deliver_late();
        }
        state.deliver(&entry);
        if state.fault(copies) {
            state.late.push(entry);
        }
        if !state.fault(unanswered) {
            let at = state.replicas[self.node].entries.len() as u64;
            answer.send(Ok(at)).unwrap();
        }
        receiver
    }

    fn read(&self, from: u64) -> Box<dyn Reader> {
        Box::new(SimulatedReader { log: self.clone(), next: from })
    }

    fn entry(&self, at: u64) -> Result<Option<LogEntry>, LogError> {
        let other = Self { node: (self.node + 1) % self.state().replicas.len(), ..self.clone() };
        other.read(at).next(Duration::ZERO)
    }

    fn bounds(&self) -> Result<LogBounds, LogError> {
        let state = self.state();
        let replica = &state.replicas[self.node];
        if replica.cut_off.reads {
            return Err(LogError::Unreachable("cut off".to_owned()));
        }
        let first = state.discarded as u64 + 1;
        Ok(LogBounds { first, last: replica.entries.len() as u64 })
    }

    fn settings(&self) -> Result<LogSettings, LogError> {
        let (identity, replicas) = {
            let state = self.state();
            (state.identity, state.copies)
        };
        Ok(LogSettings {
            identity,
            replicas,
            syncs: Some(true),
            bytes_max: 1 << 30,
            bytes: 1 << 20,
            leader: Some("simulated".to_owned()),
            behind: vec![],
            entry_bytes_max: 1 << 20,
        })
    }
}

#[derive(Debug)]
struct SimulatedReader {
    log: SimulatedLog,
    next: u64,
}

impl Reader for SimulatedReader {
    fn next(&mut self, wait: Duration) -> Result<Option<LogEntry>, LogError> {
        let begun = clock::now();
        loop {
            let read = self.look()?;
            if read.is_some() || begun.elapsed() >= wait {
                return Ok(read);
            }
            thread::park_timeout(Duration::from_millis(1));
        }
    }
}

impl SimulatedReader {
    fn look(&mut self) -> Result<Option<LogEntry>, LogError> {
        let LogBounds { first, .. } = self.log.bounds()?;
        if self.next < first {
            return Err(LogError::discarded_before(first));
        }
        let state = self.log.state();
        let entry = state.replicas[self.log.node].entries.get(self.next as usize - 1);
        let at_ms = clock::now_ms().checked_add_signed(state.ahead_ms[self.log.node]);
        let entry = entry.map(|bytes| LogEntry { at: self.next, bytes: Arc::clone(bytes), at_ms });
        self.next += u64::from(entry.is_some());
        Ok(entry)
    }
}

mod tests {
    use super::*;

    fn entry(number: u8) -> Arc<[u8]> {
        Arc::new([number])
    }

    fn all(log: &SimulatedLog, from: u64) -> Vec<u8> {
        let mut reader = log.read(from);
        let next = || reader.next(Duration::ZERO).unwrap();
        std::iter::from_fn(next).map(|entry| entry.bytes[0]).collect()
    }

    #[test]
    fn without_faults_all_read_what_was_appended() {
        let logs = SimulatedLog::new(1, 2, Faults::default());
        for number in 1..=3 {
            let answer = logs[0].append(entry(number)).try_recv().unwrap();
            assert_eq!(answer, Ok(number.into()));
        }
        assert_eq!((all(&logs[0], 1), all(&logs[1], 2)), (vec![1, 2, 3], vec![2, 3]));
        logs[0].trim(1, 3);
        assert_eq!(logs[1].bounds(), Ok(LogBounds { first: 3, last: 3 }));
        let discarded = logs[1].read(2).next(Duration::ZERO);
        assert_eq!(discarded, Err(LogError::discarded_before(3)));
        logs[0].begin_anew();
        assert_eq!(logs[1].bounds(), Ok(LogBounds { first: 1, last: 0 }));
        assert_eq!(logs[1].settings().unwrap().identity, 2);
    }

    #[test]
    fn every_fault_occurs() {
        let faults = Faults { copies: 5, losses: 5, late: 5, unanswered: 5 };
        let logs = SimulatedLog::new(1, 2, faults);
        let answers = (0..200).map(|number| logs[0].append(entry(number)).try_recv());
        let answered = answers.flatten().count();
        logs[0].heal();
        let read = all(&logs[1], 1);
        let is_there = |number: &u8| read.contains(number);
        let there = (0..200).filter(is_there).count();
        assert!(answered < there && there < 200 && read.len() > there && !read.is_sorted());
        assert_eq!(all(&logs[0], 1), read, "there is one order");
        logs[1].drift();
        drop(logs[0].append(entry(200)));
        assert_eq!((all(&logs[0], 1).len(), all(&logs[1], 1)), (read.len() + 1, read));
    }
}

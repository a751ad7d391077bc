//! Clients that ask one request after the other, each over a connection of its own.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::target::Target;
use crate::connection::Request;
use crate::latency::Latencies;
use nearprint::cli::measure::clock::Stopwatch;

/// How many there are, and for how long they ask.
pub(super) struct Clients<'a> {
    pub(super) target: &'a Target,
    pub(super) threads: usize,
    pub(super) seconds: u64,
    /// They stop earlier when all have been asked: what is inserted twice is not new.
    pub(super) requests: u64,
}

/// What they saw.
pub(super) struct Asked {
    /// Of each request.
    pub(super) times: Latencies,
    /// From the first to the last.
    pub(super) ns: u64,
    /// How many replies were not as they should be.
    pub(super) wrong: u64,
}

impl Clients<'_> {
    /// Asks numbered requests, no number twice; `is_right` judges each reply.
    pub(super) fn ask(
        &self,
        request: impl Fn(u64) -> Request + Sync,
        is_right: impl Fn(u64, &[u8]) -> bool + Sync,
    ) -> Result<Asked> {
        let begun = Stopwatch::start();
        let one = |first: u64| self.ask_over_one(first, &request, &is_right);
        let mut all = Asked { times: Latencies::new(), ns: 0, wrong: 0 };
        thread::scope(|scope| {
            let one = &one;
            let clients: Vec<_> =
                (0..self.threads as u64).map(|first| scope.spawn(move || one(first))).collect();
            for client in clients {
                let asked = client.join().expect("a client does not panic")?;
                all.times.add(&asked.times);
                all.wrong += asked.wrong;
            }
            anyhow::Ok(())
        })?;
        all.ns = begun.ns();
        Ok(all)
    }

    fn ask_over_one(
        &self,
        first: u64,
        request: &impl Fn(u64) -> Request,
        is_right: &impl Fn(u64, &[u8]) -> bool,
    ) -> Result<Asked> {
        let mut connection = self.target.connect()?;
        let mut asked = Asked { times: Latencies::new(), ns: 0, wrong: 0 };
        let time = Duration::from_secs(self.seconds);
        let all = Stopwatch::start();
        for number in (first..self.requests).step_by(self.threads) {
            let request = request(number);
            let begun = Stopwatch::start();
            let reply = connection.ask(&request).context("a request failed")?;
            asked.times.record(begun.ns());
            asked.wrong += u64::from(!is_right(number, reply));
            if all.elapsed() >= time {
                break;
            }
        }
        Ok(asked)
    }
}

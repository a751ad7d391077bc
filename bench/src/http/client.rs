//! Clients that send one request after the other, each over a connection of its own.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::target::Target;
use crate::clock::Stopwatch;
use crate::connection::Request;
use crate::latency::Latencies;

/// The clients: how many there are, and how long they send requests.
pub(super) struct Clients<'a> {
    pub(super) target: &'a Target,
    pub(super) threads: usize,
    pub(super) seconds: u64,
    /// They stop earlier after this many: a document that is inserted twice is not new.
    pub(super) requests: u64,
}

/// The times and the verdict on some requests.
pub(super) struct Sent {
    /// The time of each request.
    pub(super) times: Latencies,
    /// From the first to the last.
    pub(super) ns: u64,
    /// The number of wrong replies.
    pub(super) wrong: u64,
}

impl Clients<'_> {
    /// Sends numbered requests, no number twice; `is_right` judges each reply.
    pub(super) fn send(
        &self,
        request: impl Fn(u64) -> Request + Sync,
        is_right: impl Fn(u64, &[u8]) -> bool + Sync,
    ) -> Result<Sent> {
        let begun = Stopwatch::start();
        let one = |first: u64| self.send_over_one(first, &request, &is_right);
        let mut all = Sent { times: Latencies::new(), ns: 0, wrong: 0 };
        thread::scope(|scope| {
            let one = &one;
            let clients: Vec<_> =
                (0..self.threads as u64).map(|first| scope.spawn(move || one(first))).collect();
            for client in clients {
                let sent = client.join().expect("a client does not panic")?;
                all.times.add(&sent.times);
                all.wrong += sent.wrong;
            }
            anyhow::Ok(())
        })?;
        all.ns = begun.ns();
        Ok(all)
    }

    fn send_over_one(
        &self,
        first: u64,
        request: &impl Fn(u64) -> Request,
        is_right: &impl Fn(u64, &[u8]) -> bool,
    ) -> Result<Sent> {
        let mut connection = self.target.connect()?;
        let mut sent = Sent { times: Latencies::new(), ns: 0, wrong: 0 };
        let time = Duration::from_secs(self.seconds);
        let all = Stopwatch::start();
        for number in (first..self.requests).step_by(self.threads) {
            let request = request(number);
            let begun = Stopwatch::start();
            let reply = connection.send(request).context("a request failed")?;
            sent.times.record(begun.ns());
            sent.wrong += u64::from(!is_right(number, &reply));
            if all.elapsed() >= time {
                break;
            }
        }
        Ok(sent)
    }
}

//! The load that every test of this binary puts on a server, and the comparison after it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::corpus;
use crate::random::Random;
use crate::support::server::{Client, Server};
use crate::worker::Worker;

/// The number of clients that compare at one time.
const COMPARING: usize = 4;

/// A bound for a server that hangs, a millisecond each.
const LOOKS_MAX: usize = 120_000;

/// The number of clients, each with ids of its own.
pub(crate) fn workers(count: usize, random: &mut Random) -> Vec<Worker> {
    let corpus = Arc::new(corpus::documents());
    let answers = Arc::default();
    let worker = |name| Worker::new(name, random.next(), Arc::clone(&corpus), Arc::clone(&answers));
    (0..count).map(worker).collect()
}

/// Lets all workers send requests until `end` has ended the server.
pub(crate) fn under_load(
    workers: Vec<Worker>,
    server: &Server,
    end: impl FnOnce(&Server),
) -> Vec<Worker> {
    let client = server.client();
    thread::scope(|scope| {
        let running: Vec<_> = workers
            .into_iter()
            .map(|worker| {
                let client = client.clone();
                scope.spawn(move || worker.run(&client))
            })
            .collect();
        end(server);
        running.into_iter().map(|worker| worker.join().expect("its assertions hold")).collect()
    })
}

/// Compares the ledgers with the server; returns how many verdicts were repeated.
pub(crate) fn compare(workers: &mut [Worker], client: &Client) -> usize {
    let stats = Client::expect(client.get("/v1/stats"));
    let sequence = stats["sequence"].as_u64().expect("a number");
    in_parallel(workers, |worker| {
        worker.check_documents(client, sequence);
        0
    });
    let all: HashMap<String, usize> = workers.iter().flat_map(Worker::stored).collect();
    in_parallel(workers, |worker| {
        worker.check_queries(client, &all);
        worker.check_verdicts(client, &all)
    })
}

fn in_parallel(workers: &mut [Worker], check: impl Fn(&mut Worker) -> usize + Sync) -> usize {
    let part = workers.len().div_ceil(COMPARING);
    thread::scope(|scope| {
        let parts = workers.chunks_mut(part).map(|part| {
            let check = &check;
            scope.spawn(move || part.iter_mut().map(check).sum::<usize>())
        });
        let parts: Vec<_> = parts.collect();
        parts.into_iter().map(|part| part.join().expect("its assertions hold")).sum()
    })
}

/// Lets the load run for a while; how much is done by then varies.
pub(crate) fn pause(ms: usize) {
    let (_never, nothing) = mpsc::channel::<()>();
    let ended = nothing.recv_timeout(Duration::from_millis(ms as u64));
    assert_eq!(ended, Err(mpsc::RecvTimeoutError::Timeout));
}

/// Waits, where it is called under load, until so many more writes of these workers have been
/// answered, however slow the machine is.
pub(crate) fn until_answered(more: u64, workers: &[Worker]) -> impl FnOnce() + use<> {
    let answers = workers.first().expect("there are workers").answers();
    move || {
        let enough = answers.load(Ordering::Relaxed) + more;
        for look in 0.. {
            assert!(look < LOOKS_MAX, "the server answers");
            if answers.load(Ordering::Relaxed) >= enough {
                break;
            }
            pause(1);
        }
    }
}

/// The number of acknowledged writes of all workers.
pub(crate) fn answered(workers: &[Worker]) -> u64 {
    workers.iter().map(Worker::answered).sum()
}

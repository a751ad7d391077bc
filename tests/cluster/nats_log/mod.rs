//! The replicated log on real NATS servers, on loopback or (as root) on hosts of their own, in
//! temporary directories.

mod access;
mod faults;
mod figures;
mod single;

use std::sync::Arc;
use std::time::{Duration, Instant};

use nearprint_engine::log::{Log, LogEntry, LogError, Reader};
use tokio::sync::oneshot::Receiver;

use crate::servers::eventually;

/// Anything that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(40);

fn entry(number: u64) -> Arc<[u8]> {
    Arc::from(number.to_string().into_bytes())
}

fn number(entry: &LogEntry) -> u64 {
    std::str::from_utf8(&entry.bytes).unwrap().parse().unwrap()
}

/// Waits for the answer to an append.
fn answer(receiver: Receiver<Result<u64, LogError>>) -> Result<u64, LogError> {
    receiver.blocking_recv().expect("an append is answered")
}

fn append_all(log: &impl Log, mut numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let Some(first) = numbers.next() else { return Vec::new() };
    // A stream that was just made may not listen yet.
    let first = eventually(|| answer(log.append(entry(first))));
    let answers: Vec<_> = numbers.map(|number| log.append(entry(number))).collect();
    let answers = answers.into_iter().map(|receiver| answer(receiver).unwrap());
    std::iter::once(first).chain(answers).collect()
}

/// Reads until the log has confirmed that there is no more.
fn read_to_end(reader: &mut dyn Reader) -> Vec<LogEntry> {
    let mut entries = Vec::new();
    let began = Instant::now();
    while began.elapsed() < DEADLINE {
        match reader.next(Duration::from_millis(100)) {
            Ok(Some(entry)) => entries.push(entry),
            Ok(None) => return entries,
            Err(LogError::Unreachable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the end does not come after {} entries", entries.len());
}

/// The first answer of a reader other than that there is none.
fn first_answer(reader: &mut dyn Reader) -> Result<LogEntry, LogError> {
    let began = Instant::now();
    while began.elapsed() < DEADLINE {
        match reader.next(Duration::from_millis(100)) {
            Ok(Some(entry)) => return Ok(entry),
            Ok(None) | Err(LogError::Unreachable(_)) => {}
            Err(error) => return Err(error),
        }
    }
    panic!("the reader waits");
}

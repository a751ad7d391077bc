//! Three servers that are killed, paused, cut off from one another, and wiped.

use std::collections::HashMap;
use std::fs;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use nearprint::replicas::nats::NatsLog;
use nearprint_engine::log::{Log, LogEntry, LogError};

use super::{DEADLINE, answer, append_all, entry, first_answer, number, read_to_end};
use crate::servers::{Servers, eventually};

/// A reader stands still no longer than this. A request for entries that was lost would be made
/// again by itself after 30 s.
const STANDS_STILL_MAX: Duration = Duration::from_secs(20);

/// Reads all the time, on a thread of its own; ends with the first error that is final.
fn follow(log: &NatsLog, from: u64) -> Receiver<Result<LogEntry, LogError>> {
    let mut reader = log.read(from);
    let (sender, receiver): (Sender<_>, _) = channel();
    thread::spawn(move || {
        loop {
            let read = match reader.next(Duration::from_millis(200)) {
                Ok(None) | Err(LogError::Unreachable(_)) => continue,
                Ok(Some(entry)) => Ok(entry),
                Err(error) => Err(error),
            };
            let is_final = read.is_err();
            if sender.send(read).is_err() || is_final {
                return;
            }
        }
    });
    receiver
}

/// What was acknowledged, by number.
#[derive(Default)]
struct Writer {
    appended: u64,
    acknowledged: HashMap<u64, u64>,
}

impl Writer {
    /// Appends until so many more were acknowledged.
    fn write(&mut self, log: &NatsLog, count: usize) {
        let wanted = self.acknowledged.len() + count;
        eventually(|| {
            while self.acknowledged.len() < wanted {
                self.appended += 1;
                let at = answer(log.append(entry(self.appended)))?;
                self.acknowledged.insert(self.appended, at);
            }
            Ok::<_, LogError>(())
        });
    }
}

#[test]
fn kills_pauses_and_partitions_leave_one_order_for_all() {
    let Some(mut servers) = Servers::start_on_hosts(3) else { return };
    let log = servers.create();
    let identity = log.settings().unwrap().identity;
    let followers = [follow(&log, 1), follow(&servers.open().unwrap(), 1)];
    let mut writer = Writer::default();
    writer.write(&log, 20);
    for round in 0..2 {
        let victim = if round == 0 { servers.leader() } else { (servers.leader() + 1) % 3 };
        servers.kill(victim);
        writer.write(&log, 20);
        servers.begin(victim);
        writer.write(&log, 20);
    }
    let paused = servers.leader();
    thread::scope(|scope| {
        scope.spawn(|| servers.pause(paused, Duration::from_secs(3)));
        writer.write(&log, 20);
    });
    writer.write(&log, 20);
    let isolated = servers.leader();
    let stale = eventually(|| servers.open_at(isolated));
    if servers.isolate(isolated, true) {
        assert!(answer(stale.append(entry(u64::MAX))).is_err(), "it has no majority");
    }
    writer.write(&eventually(|| servers.open_at((isolated + 1) % 3)), 20);
    servers.isolate(isolated, false);
    writer.write(&log, 20);
    let entries = read_to_end(&mut *eventually(|| servers.open()).read(1));
    for follower in followers {
        let read =
            entries.iter().map(|_| follower.recv_timeout(STANDS_STILL_MAX).unwrap().unwrap());
        assert!(read.eq(entries.iter().cloned()));
    }
    for (acknowledged, at) in writer.acknowledged {
        assert_eq!(number(&entries[at as usize - 1]), acknowledged);
    }
    let settings = eventually(|| log.settings());
    assert_eq!((settings.replicas, settings.identity), (3, identity));
    assert_eq!(settings.syncs, Some(true));
}

#[test]
fn without_a_quorum_nothing_is_answered_and_no_end_is_confirmed() {
    let Some(mut servers) = Servers::start(3) else { return };
    let log = servers.create();
    append_all(&log, 1..=10);
    let mut reader = log.read(1);
    assert_eq!(read_to_end(&mut *reader).len(), 10);
    let leader = servers.leader();
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    for at in others {
        servers.kill(at);
    }
    let unanswered = log.append(entry(11));
    // The leader resigns after a while. Until then it confirms the end, and rightly so.
    let began = Instant::now();
    loop {
        match reader.next(Duration::from_millis(100)) {
            Err(LogError::Unreachable(_)) => break,
            Ok(None) if began.elapsed() < DEADLINE => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(answer(unanswered).is_err());
    for at in others {
        servers.begin(at);
    }
    let last = eventually(|| answer(log.append(entry(12))));
    let mut entries = vec![first_answer(&mut *reader).unwrap()];
    while entries.last().unwrap().at < last {
        entries.push(first_answer(&mut *reader).unwrap());
    }
    // Whether the unanswered one came is left open; if so, once, and before.
    let numbers: Vec<_> = entries.iter().map(number).collect();
    assert!(numbers.starts_with(&[11, 12]) || numbers.starts_with(&[12]), "{numbers:?}");
    assert_eq!(numbers.last(), Some(&12));
}

/// With two empty servers of three the stream is either restored from the third or begins again at
/// 1, with the same identity.
#[test]
fn a_log_wiped_on_two_of_three_servers_is_read_on_only_if_it_is_whole() {
    let Some(mut servers) = Servers::start(3) else { return };
    let log = servers.create();
    append_all(&log, 1..=50);
    let mut reader = log.read(1);
    let before = read_to_end(&mut *reader);
    assert_eq!(before.len(), 50);
    let leader = servers.leader();
    let wiped = [leader, (leader + 1) % 3];
    for at in wiped {
        servers.kill(at);
        fs::remove_dir_all(servers.store(at)).unwrap();
    }
    for at in wiped {
        servers.begin(at);
    }
    let acknowledged = eventually(|| answer(log.append(entry(51))));
    match first_answer(&mut *reader) {
        Err(LogError::Regressed { last, read: 50 }) => assert!(acknowledged <= last && last < 50),
        Ok(entry) => {
            assert_eq!((entry.at, number(&entry)), (51, 51));
            assert_eq!(read_to_end(&mut *log.read(1))[..50], before);
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// Consumers on the server with the damaged copy pass over the entry without a word.
#[test]
fn an_entry_that_is_damaged_on_one_server_is_read_from_another() {
    let Some(mut servers) = Servers::start(3) else { return };
    let log = servers.create();
    append_all(&log, 1_000_001..=1_000_060);
    let damaged = (servers.leader() + 1) % 3;
    let block = servers.block(damaged);
    // The other two have acknowledged the entries; this one may get them later.
    let place = || {
        let bytes = fs::read(&block).map_err(|_| "the server has no file")?;
        let place = |number: &[u8]| bytes.windows(7).position(|window| window == number);
        place(b"1000060").and(place(b"1000034")).ok_or("the server has not got the entries")
    };
    let at = eventually(place);
    servers.kill(damaged);
    let mut bytes = fs::read(&block).unwrap();
    bytes[at + 3] ^= 1;
    fs::write(&block, bytes).unwrap();
    servers.begin(damaged);
    // By chance one consumer in three is there, so a dozen readers meet it.
    for _ in 0..12 {
        let read = read_to_end(&mut *log.read(1));
        let numbers: Vec<_> = read.iter().map(number).collect();
        assert!(numbers.iter().copied().eq(1_000_001..=1_000_060), "{numbers:?}");
    }
}

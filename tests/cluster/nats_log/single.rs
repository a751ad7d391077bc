//! What a log promises while nothing fails, and what is noticed about one that has lost something.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::jetstream;
use nearprint::replicas::nats::{NatsError, NatsLog, NatsOptions, NewStream};
use nearprint_engine::cluster::message::MESSAGE_BYTES_MAX;
use nearprint_engine::log::{Log, LogBounds, LogError};

use super::{answer, append_all, entry, first_answer, number, read_to_end};
use crate::servers::{Servers, eventually};

#[test]
fn entries_are_read_back_in_order_from_any_position() {
    let Some(servers) = Servers::start(1) else { return };
    let log = servers.create();
    assert_eq!(log.bounds(), Ok(LogBounds { first: 1, last: 0 }));
    let mut early = log.read(1);
    assert_eq!(read_to_end(&mut *early), []);
    assert_eq!(append_all(&log, 1..=300), (1..=300).collect::<Vec<_>>());
    assert_eq!(log.bounds(), Ok(LogBounds { first: 1, last: 300 }));
    let other = servers.open().unwrap();
    for (mut reader, from) in [(early, 1), (other.read(1), 1), (other.read(150), 150)] {
        let entries = read_to_end(&mut *reader);
        assert!(entries.iter().all(|entry| entry.at == number(entry)));
        assert_eq!(
            entries.iter().map(|entry| entry.at).collect::<Vec<_>>(),
            (from..=300).collect::<Vec<_>>()
        );
    }
    let mut reader = other.read(301);
    assert_eq!(read_to_end(&mut *reader), []);
    append_all(&log, 301..=301);
    assert_eq!(number(&first_answer(&mut *reader).unwrap()), 301);
}

#[test]
fn the_largest_message_fits_and_what_no_server_takes_is_refused() {
    let Some(servers) = Servers::start(1) else { return };
    let log = servers.create();
    let largest: Arc<[u8]> = (0..MESSAGE_BYTES_MAX).map(|at| (at % 251) as u8).collect();
    let answers: Vec<_> = (0..100).map(|_| log.append(Arc::clone(&largest))).collect();
    let answers = answers.into_iter().map(|receiver| answer(receiver).unwrap());
    assert_eq!(answers.collect::<Vec<_>>(), (1..=100).collect::<Vec<_>>());
    let entries = read_to_end(&mut *log.read(1));
    assert!(entries.len() == 100 && entries.iter().all(|entry| entry.bytes == largest));
    let entry_bytes_max = log.settings().unwrap().entry_bytes_max;
    let too_large = vec![0; entry_bytes_max as usize + 1];
    assert!(matches!(answer(log.append(too_large.into())), Err(LogError::Refused(_))));
    assert_eq!(answer(log.append(vec![0; entry_bytes_max as usize].into())), Ok(101));
}

#[test]
fn settings_tell_what_the_servers_do() {
    for (interval, syncs) in [("always", true), ("2m", false)] {
        let Some(servers) = Servers::start_with(1, "", interval) else { return };
        let log = servers.create();
        let settings = log.settings().unwrap();
        assert_eq!((settings.replicas, settings.syncs), (1, Some(syncs)));
        assert_eq!((settings.bytes_max, settings.entry_bytes_max), (1 << 30, 1 << 20));
        assert_eq!(servers.open().unwrap().settings().unwrap(), settings);
        let options = NatsOptions { monitors: Vec::new(), ..servers.options() };
        let silent = NatsLog::open(&options, servers.runtime.handle()).unwrap();
        assert_eq!(silent.settings().unwrap().syncs, None);
    }
}

#[test]
fn a_stream_is_made_once_and_must_keep_its_entries() {
    let Some(servers) = Servers::start(1) else { return };
    let (options, runtime) = (servers.options(), servers.runtime.handle());
    assert!(matches!(servers.open(), Err(NatsError::Missing(name)) if name == "NEARPRINT_test"));
    for name in ["", "a.b", "a b", &"a".repeat(65)] {
        let options = NatsOptions { name: name.to_owned(), ..options.clone() };
        assert!(matches!(NatsLog::open(&options, runtime), Err(NatsError::Name(_))), "{name:?}");
    }
    let three = NewStream { replicas: 3, bytes_max: 1 << 20 };
    let refused = NatsLog::create(&options, three, runtime);
    assert!(matches!(refused, Err(NatsError::Refused { .. })), "{refused:?}");
    append_all(&servers.create(), 1..=3);
    let again = NatsLog::create(&options, NewStream { replicas: 1, bytes_max: 1 << 30 }, runtime);
    assert!(matches!(again, Err(NatsError::Exists(_))), "{again:?}");
    let config = servers.info().config;
    assert!(config.deny_delete && config.deny_purge);
    servers.change_stream(|config| config.max_age = Duration::from_hours(1));
    let unsuitable = servers.open();
    assert!(matches!(unsuitable, Err(NatsError::Unsuitable { .. })), "{unsuitable:?}");
}

#[test]
fn entries_that_were_discarded_are_told_from_a_gap() {
    let Some(servers) = Servers::start(1) else { return };
    let log = make(&servers);
    append_all(&log, 1..=10);
    servers.change_stream(|config| config.max_messages = 6);
    assert_eq!(eventually_bounds(&log, 5), LogBounds { first: 5, last: 10 });
    assert_eq!(first_answer(&mut *log.read(4)), Err(LogError::discarded_before(5)));
    servers.change_stream(|config| config.max_messages = -1);
    let mut reader = log.read(5);
    assert_eq!(number(&first_answer(&mut *reader).unwrap()), 5);
    servers.runtime.block_on(async {
        let client = async_nats::connect(&servers.options().servers[0]).await.unwrap();
        let stream = jetstream::new(client).get_stream("NEARPRINT_test").await.unwrap();
        assert!(stream.delete_message(8).await.unwrap());
    });
    // What was on its way before may still come.
    let mut reader = log.read(5);
    let read: Vec<_> = (5..8).map(|_| first_answer(&mut *reader).unwrap().at).collect();
    assert_eq!(read, [5, 6, 7]);
    let gap = LogError::Gap { read: 7, got: 9 };
    assert_eq!(first_answer(&mut *reader), Err(gap.clone()));
    assert_eq!(first_answer(&mut *reader), Err(gap), "it is not passed over later");
}

#[test]
fn a_log_that_forgets_its_end_is_noticed() {
    let Some(mut servers) = Servers::start(1) else { return };
    let log = servers.create();
    append_all(&log, 1..=10);
    servers.kill(0);
    let copy = servers.store(0).with_extension("copy");
    copy_folder(&servers.store(0), &copy);
    servers.begin(0);
    let mut reader = log.read(1);
    eventually(|| answer(log.append(entry(11))));
    let read = read_to_end(&mut *reader).len() as u64;
    servers.kill(0);
    fs::remove_dir_all(servers.store(0)).unwrap();
    fs::rename(&copy, servers.store(0)).unwrap();
    servers.begin(0);
    assert_eq!(first_answer(&mut *reader), Err(LogError::Regressed { last: 10, read }));
    assert_eq!(eventually_bounds(&log, 1), LogBounds { first: 1, last: 10 });
    assert_eq!(read_to_end(&mut *log.read(1)).len(), 10);
}

#[test]
fn a_log_begun_anew_is_another() {
    let Some(mut servers) = Servers::start(1) else { return };
    let log = servers.create();
    append_all(&log, 1..=5);
    let mut reader = log.read(1);
    assert_eq!(read_to_end(&mut *reader).len(), 5);
    let before = log.settings().unwrap().identity;
    servers.kill(0);
    fs::remove_dir_all(servers.store(0)).unwrap();
    servers.begin(0);
    let anew = servers.create();
    append_all(&anew, 1..=7);
    let identity = anew.settings().unwrap().identity;
    assert_ne!(identity, before);
    let another = LogError::Another { identity };
    assert_eq!(first_answer(&mut *reader), Err(another.clone()));
    assert_eq!(log.bounds(), Err(another));
    assert_eq!(log.settings().unwrap().identity, identity);
    assert_eq!(anew.bounds(), Ok(LogBounds { first: 1, last: 7 }));
}

#[test]
fn a_log_that_takes_no_entries_says_why() {
    let Some(servers) = Servers::start(1) else { return };
    let log = servers.create();
    append_all(&log, 1..=3);
    servers.change_stream(|stream| stream.max_message_size = 8);
    let large = || answer(log.append(Arc::new([0; 100])));
    let refused = eventually(|| match large() {
        Err(LogError::Refused(why)) => Ok(why),
        other => Err(format!("{other:?}")),
    });
    assert!(refused.contains("size"), "{refused}");
    assert_eq!(log.settings().unwrap().entry_bytes_max, 8);
    servers.change_stream(|stream| stream.sealed = true);
    let refused = eventually(|| match answer(log.append(entry(4))) {
        Err(LogError::Refused(why)) => Ok(why),
        other => Err(format!("{other:?}")),
    });
    assert!(refused.contains("sealed"), "{refused}");
    let settings = log.settings();
    assert!(
        matches!(&settings, Err(LogError::Refused(why)) if why.contains("sealed")),
        "{settings:?}"
    );
    assert_eq!(read_to_end(&mut *log.read(1)).len(), 3, "what it has can be read");
}

#[test]
fn entries_have_the_time_of_the_log() {
    let Some(servers) = Servers::start(1) else { return };
    let log = servers.create();
    let since_1970 = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let before = since_1970().as_millis() as u64;
    append_all(&log, 1..=2);
    let entries = read_to_end(&mut *log.read(1));
    let now = before..=since_1970().as_millis() as u64;
    assert!(entries.iter().all(|entry| now.contains(&entry.at_ms.unwrap())), "{entries:?}");
    assert_eq!(log.entry(2).unwrap().as_ref(), Some(&entries[1]));
    assert_eq!(log.entry(3).unwrap(), None);
}

#[test]
fn an_identity_survives_restarts() {
    let Some(mut servers) = Servers::start(1) else { return };
    let log = servers.create();
    append_all(&log, 1..=5);
    let settings = log.settings().unwrap();
    servers.kill(0);
    assert!(matches!(log.bounds(), Err(LogError::Unreachable(_))));
    servers.begin(0);
    assert_eq!(eventually(|| log.settings()), settings);
}

/// A stream from which entries can be deleted.
fn make(servers: &Servers) -> NatsLog {
    servers.runtime.block_on(async {
        let client = async_nats::connect(&servers.options().servers[0]).await.unwrap();
        let name = "NEARPRINT_test".to_owned();
        let subjects = vec![name.clone()];
        let config = jetstream::stream::Config { name, subjects, ..Default::default() };
        jetstream::new(client).create_stream(config).await.unwrap();
    });
    servers.open().unwrap()
}

fn eventually_bounds(log: &NatsLog, first: u64) -> LogBounds {
    eventually(|| match log.bounds() {
        Ok(bounds) if bounds.first == first => Ok(bounds),
        other => Err(format!("{other:?}")),
    })
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

//! Promise: a follower that has heard everything holds what its primary holds, whatever was stored,
//! replaced, removed and purged, wherever its connection broke; and it notices a primary with
//! another history. Method: two engines and the stream between them, cut at many bytes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/options.rs"]
mod common;

use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use nearprint_engine::following::{ChangesEnd, FollowEnd, FollowerPosition, follower};
use nearprint_engine::{
    Admission, Criteria, Durability, Engine, JobState, ListQuery, NamespaceFilter, OpenError,
    Options, OriginalsOrder, OriginalsQuery, Purge, QueryOptions, Refused, StoredDocument,
};
use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_machine::document::{Document, DocumentId, Metadata, Namespace, Packed, Sequence};
use nearprint_storage::{Disk as _, RealDisk};

/// A hang is a failure; nothing here takes a few seconds.
const DEADLINE: Duration = Duration::from_mins(1);
const ADDRESS: &str = "http://primary:7878";

fn open(directory: &Path) -> Engine {
    Engine::open(common::options(directory)).unwrap()
}

fn open_follower(directory: &Path) -> Engine {
    Engine::open(Options { follows: true, ..common::options(directory) }).unwrap()
}

fn close(engine: &Engine) {
    tokio::task::block_in_place(|| engine.close());
}

fn spread(number: u64) -> Fingerprint {
    Fingerprint::new((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn document(number: u64) -> Document {
    Document {
        id: Some(DocumentId::new(format!("id-{number}")).unwrap()),
        namespace: number.is_multiple_of(3).then(|| Namespace::new("news").unwrap()),
        metadata: Metadata::new(format!("{{\"n\":{number}}}")),
        ..Document::bare(spread(number))
    }
}

async fn store(engine: &Engine, document: Document) {
    engine.begin_insert(document, Admission::Wait).await.unwrap().wait().await.unwrap();
}

async fn store_packed(engine: &Engine, numbers: std::ops::Range<u64>) {
    let fingerprints: Vec<_> = numbers.map(spread).collect();
    let packed = Packed { namespace: None, expiry: None, fingerprints };
    engine.begin_insert_packed(packed, Admission::Wait).await.unwrap().wait().await.unwrap();
}

/// Changes of every kind.
async fn change(engine: &Engine, round: u64) {
    for number in 0..40 {
        store(engine, document(100 * round + number)).await;
    }
    // Replaced, removed, reset, packed, and a duplicate of what is stored.
    let replaced = Document { fingerprint: spread(7 + round), ..document(100 * round + 1) };
    store(engine, replaced).await;
    engine.remove(None, DocumentId::new(format!("id-{}", 100 * round + 2)).unwrap()).await.unwrap();
    engine.remove_fingerprint(None, spread(100 * round + 4)).await.unwrap();
    store_packed(engine, 10_000 * (round + 1)..10_000 * (round + 1) + 3_000).await;
    check_and_insert(engine, Document::bare(spread(100 * round + 5))).await;
}

async fn check_and_insert(engine: &Engine, document: Document) {
    let criteria = Criteria::within(Distance::new(3).unwrap());
    let options = QueryOptions { criteria, limit: 1, with_metadata: false };
    let pending = engine.begin_check_and_insert(document, options, false, Admission::Wait);
    pending.await.unwrap().wait().await.unwrap();
}

async fn purge(engine: &Engine) {
    let reach = NamespaceFilter::Namespace(Some(Namespace::new("news").unwrap()));
    let prefix = Some("id-1".into());
    let purge = Purge { reach, prefix, stored_before_ms: None, dry_run: false };
    let job = engine.begin_purge(purge).await.unwrap().number;
    until("the purge ends", || engine.job(job).unwrap().state == JobState::Done).await;
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waits = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, waits).await.is_ok(), "waiting until {what}");
}

/// Fills a directory from an export of a primary.
async fn seed(primary: &Engine, directory: &Path) {
    let export = primary.export().await.unwrap();
    let mut bytes = Vec::new();
    export.write(&mut bytes).unwrap();
    follower::seed(&mut &bytes[..], directory, ADDRESS).unwrap();
}

/// The stream of a primary, which ends after some bytes or when the other side hangs up.
struct Wire(mpsc::Receiver<Vec<u8>>, Vec<u8>, usize);

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.1.is_empty() {
            self.1 = self.0.recv().unwrap_or_default();
        }
        let taken = buffer.len().min(self.1.len()).min(self.2);
        buffer[..taken].copy_from_slice(&self.1[..taken]);
        self.1.drain(..taken);
        self.2 -= taken;
        Ok(taken)
    }
}

/// Connects a follower with its primary, for at most so many bytes, and until it has everything.
async fn connect(primary: &Engine, follower: &Engine, bytes: usize) -> FollowEnd {
    let mut changes = primary.changes(&follower.follower_position().unwrap()).unwrap();
    let (sender, receiver) = mpsc::channel();
    let sending = tokio::spawn(async move {
        while let Ok(message) = changes.next().await
            && sender.send(message).is_ok()
        {}
    });
    let (follower, last) = (follower.clone(), primary.sequence());
    let following = tokio::task::spawn_blocking(move || {
        let mut wire = Wire(receiver, Vec::new(), bytes);
        let seen = follower.clone();
        follower.follow(&mut wire, &mut |is_level| !is_level || seen.sequence() < last)
    });
    let end = tokio::time::timeout(DEADLINE, following).await.expect("it ends").unwrap();
    sending.abort();
    end
}

/// A primary with a document, and its follower.
async fn pair(folder: &Path) -> (Engine, Engine) {
    let (primary, two) = (open(&folder.join("primary")), folder.join("follower"));
    store(&primary, document(1)).await;
    seed(&primary, &two).await;
    (primary, open_follower(&two))
}

/// Lets a follower read this stream.
async fn follow(follower: &Engine, stream: Vec<u8>) -> FollowEnd {
    let follower = follower.clone();
    let follow = move || follower.follow(&mut &stream[..], &mut |_| true);
    tokio::task::spawn_blocking(follow).await.unwrap()
}

/// Everything that an engine stores, and the states of its jobs.
async fn content(engine: &Engine) -> (Vec<StoredDocument>, String, u64) {
    let query = ListQuery { reach: NamespaceFilter::All, prefix: None, after: Sequence::ZERO };
    let listed = engine.list(query, 1_000_000).await.unwrap().items;
    (listed, format!("{:?}", engine.jobs()), engine.stats().documents)
}

/// Asserts that both hold the same, and find the same.
async fn assert_same(primary: &Engine, follower: &Engine) {
    assert_eq!(primary.sequence(), follower.sequence());
    assert_eq!(content(primary).await, content(follower).await);
    let distance = Distance::new(3).unwrap();
    let probes: Vec<_> = (0..60_000).map(spread).collect();
    let [one, other] = [primary, follower].map(|engine| engine.nearest(&probes, distance).unwrap());
    assert!(one == other, "look-ups differ");
    assert!(one.contains(&0) && one.contains(&255), "some are found, and some are not");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_holds_what_its_primary_holds_wherever_the_connection_breaks() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("primary"), folder.path().join("follower"));
    let primary = open(&one);
    change(&primary, 0).await;
    seed(&primary, &two).await;
    let mut follower = open_follower(&two);
    assert_same(&primary, &follower).await;
    let mut bytes = 1;
    for round in 1..4 {
        change(&primary, round).await;
        if round == 2 {
            purge(&primary).await;
        }
        // A few bytes more each time, so that it breaks within messages, between them, and at last
        // not at all.
        while follower.sequence() < primary.sequence() {
            let end = connect(&primary, &follower, bytes).await;
            assert!(matches!(end, FollowEnd::Broken(_) | FollowEnd::Stopped), "{end:?}");
            bytes = bytes * 3 / 2 + 1;
        }
        assert_same(&primary, &follower).await;
        close(&follower);
        follower = open_follower(&two);
        assert_same(&primary, &follower).await;
    }
    // Its own journal is enough, also without its snapshots.
    close(&follower);
    let disk = RealDisk::open(&two).unwrap();
    let kept = ["journal-", "records-", "directory", "follower"];
    for name in disk.list().unwrap() {
        if !kept.iter().any(|kept| name.starts_with(kept)) {
            disk.remove(&name).unwrap();
        }
    }
    follower = open_follower(&two);
    assert_same(&primary, &follower).await;
    close(&follower);
    close(&primary);
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_of_originals_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let (primary, follower) = pair(folder.path()).await;
    let mut changes = primary.changes(&follower.follower_position().unwrap()).unwrap();
    for _ in 0..3 {
        check_and_insert(&primary, Document::bare(spread(1))).await;
    }
    let mut stream = changes.next().await.unwrap();
    stream.extend(changes.next().await.unwrap());
    assert!(matches!(follow(&follower, stream).await, FollowEnd::Broken(_)), "it ends");
    let query = || OriginalsQuery {
        reach: NamespaceFilter::All,
        order: OriginalsOrder::Duplicates,
        after: None,
    };
    let [one, other] = [
        primary.originals(query(), 10).await.unwrap().items,
        follower.originals(query(), 10).await.unwrap().items,
    ];
    assert_eq!(one.len(), 1);
    assert_eq!(one[0].touch.duplicates, 3);
    assert_eq!(one, other);
    close(&follower);
    close(&primary);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_decides_nothing_and_a_directory_has_one_role() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("primary"), folder.path().join("follower"));
    let primary = open(&one);
    change(&primary, 0).await;
    seed(&primary, &two).await;
    let follower = open_follower(&two);
    let begun = follower.begin_insert(document(1), Admission::Wait).await;
    assert_eq!(begun.err(), Some(Refused::Follower));
    assert!(follower.snapshot().await.is_ok(), "backups are taken here");
    close(&follower);
    let refused = Engine::open(common::options(&two)).unwrap_err();
    assert!(matches!(&refused, OpenError::Follower { primary } if primary == ADDRESS), "{refused}");
    // Commands that only read do not care.
    let reading = Engine::open_to_read_at_least(common::options(&two)).unwrap();
    assert_same(&primary, &reading).await;
    close(&reading);
    close(&primary);
    let following = Options { follows: true, ..common::options(&one) };
    assert!(matches!(Engine::open(following), Err(OpenError::NotAFollower)));
    let nothing: &[u8] = &[];
    let refused = follower::seed(&mut &*nothing, &one, ADDRESS).unwrap_err();
    assert!(matches!(refused, OpenError::NotAFollower), "{refused}");
    assert!(matches!(follower::needs_seed(&one), Err(OpenError::NotAFollower)));
    assert!(matches!(follower::promote(&one), Err(OpenError::NotPromoted { .. })));
    assert_eq!(follower::promote(&two).unwrap(), ADDRESS);
    let promoted = open(&two);
    store(&promoted, document(1_000_000)).await;
    close(&promoted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_was_cut_begins_again() {
    let folder = tempfile::tempdir().unwrap();
    let two = folder.path().join("follower");
    let primary = open(&folder.path().join("primary"));
    change(&primary, 0).await;
    let mut export = Vec::new();
    primary.export().await.unwrap().write(&mut export).unwrap();
    assert!(follower::needs_seed(&two).unwrap());
    for length in [0, 1, 100, export.len() / 2, export.len() - 1] {
        assert!(follower::seed(&mut &export[..length], &two, ADDRESS).is_err());
        assert!(follower::needs_seed(&two).unwrap(), "{length}");
        assert!(follower::promote(&two).is_err(), "{length}");
        assert!(Engine::open(common::options(&two)).is_err(), "{length}");
    }
    follower::seed(&mut &export[..], &two, ADDRESS).unwrap();
    assert!(!follower::needs_seed(&two).unwrap());
    // A second copy takes the place of the first one.
    change(&primary, 1).await;
    seed(&primary, &two).await;
    let follower = open_follower(&two);
    assert_same(&primary, &follower).await;
    close(&follower);
    close(&primary);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_with_another_history_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("primary"), folder.path().join("follower"));
    let primary = open(&one);
    change(&primary, 0).await;
    let mut export = Vec::new();
    primary.export().await.unwrap().write(&mut export).unwrap();
    follower::seed(&mut &export[..], &two, ADDRESS).unwrap();
    change(&primary, 1).await;
    let follower = open_follower(&two);
    connect(&primary, &follower, usize::MAX).await;
    let position = follower.follower_position().unwrap();
    // One that was set back is behind.
    let restored = folder.path().join("restored");
    nearprint_engine::open::offline::restore(&mut &export[..], &restored).unwrap();
    let behind = open(&restored);
    let diverges = |part: &str| {
        let end = behind.changes(&position).err();
        assert!(matches!(&end, Some(ChangesEnd::Diverged(why)) if why.contains(part)), "{end:?}");
    };
    diverges("lost");
    // And has another history once it is as far.
    while behind.sequence() < follower.sequence() {
        store(&behind, document(500_000 + behind.sequence().get())).await;
    }
    diverges("is another one");
    // The same without the record of the last change, if only the number of documents differs.
    let unknown = FollowerPosition { record: None, ..position };
    assert_ne!(behind.stats().documents, follower.stats().documents);
    let mut changes = behind.changes(&unknown).unwrap();
    let message = changes.next().await.unwrap();
    let end = follow(&follower, message).await;
    assert!(matches!(&end, FollowEnd::Diverged(why) if why.contains("documents")), "{end:?}");
    // Another directory altogether.
    let other = open(&folder.path().join("other"));
    let mut changes = other.changes(&other.follower_position().unwrap()).unwrap();
    let end = follow(&follower, changes.next().await.unwrap()).await;
    assert!(
        matches!(&end, FollowEnd::Diverged(why) if why.contains("another data directory")),
        "{end:?}"
    );
    for engine in [&other, &behind, &follower, &primary] {
        close(engine);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_flipped_on_the_way_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (primary, follower) = pair(folder.path()).await;
    let mut changes = primary.changes(&follower.follower_position().unwrap()).unwrap();
    let mut stream = changes.next().await.unwrap();
    store(&primary, document(2)).await;
    stream.extend(changes.next().await.unwrap());
    let before = follower.sequence();
    for at in 0..stream.len() {
        let mut damaged = stream.clone();
        damaged[at] ^= 0x10;
        let end = follow(&follower, damaged).await;
        assert!(matches!(end, FollowEnd::Broken(_) | FollowEnd::Diverged(_)), "{at}: {end:?}");
    }
    assert_eq!(follower.sequence(), before);
    assert!(matches!(follow(&follower, stream).await, FollowEnd::Broken(_)), "it ends");
    assert_same_documents(&primary, &follower).await;
    close(&follower);
    close(&primary);
}

async fn assert_same_documents(primary: &Engine, follower: &Engine) {
    assert_eq!(content(primary).await, content(follower).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_lost_repeated_or_reordered_break_the_stream() {
    let folder = tempfile::tempdir().unwrap();
    let (primary, follower) = pair(folder.path()).await;
    let mut changes = primary.changes(&follower.follower_position().unwrap()).unwrap();
    let mut messages = vec![changes.next().await.unwrap()];
    for number in 2..4 {
        store(&primary, document(number)).await;
        // The change, and that there is no other.
        messages.extend([changes.next().await.unwrap(), changes.next().await.unwrap()]);
    }
    let before = follower.sequence();
    for order in [&[1][..], &[0, 2], &[0, 3], &[0, 0], &[0, 4]] {
        let stream = order.iter().flat_map(|at| messages[*at].clone()).collect();
        let end = follow(&follower, stream).await;
        let is_noticed = matches!(&end, FollowEnd::Broken(why) if why.contains("was due"));
        assert!(is_noticed, "{order:?}: {end:?}");
        assert_eq!(follower.sequence(), before, "{order:?}");
    }
    connect(&primary, &follower, usize::MAX).await;
    assert_same_documents(&primary, &follower).await;
    close(&follower);
    close(&primary);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_stops_at_its_limit_of_memory_and_goes_on_with_a_larger_one() {
    let folder = tempfile::tempdir().unwrap();
    let (primary, follower) = pair(folder.path()).await;
    close(&follower);
    // More than one message.
    for first in (0..48_000).step_by(8_000) {
        store_packed(&primary, first..first + 8_000).await;
    }
    let two = folder.path().join("follower");
    let limited = Options { follows: true, memory_bytes_max: 10_000, ..common::options(&two) };
    let follower = Engine::open(limited).unwrap();
    // Until it has published once it does not know how much it takes.
    let ends = [
        connect(&primary, &follower, usize::MAX).await,
        connect(&primary, &follower, usize::MAX).await,
    ];
    assert!(ends.contains(&FollowEnd::Refused(Refused::MemoryFull)), "{ends:?}");
    assert!(follower.sequence() < primary.sequence());
    close(&follower);
    let follower = open_follower(&two);
    connect(&primary, &follower, usize::MAX).await;
    assert_same_documents(&primary, &follower).await;
    close(&follower);
    close(&primary);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_packed_has_to_be_copied_again() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        journal_file_bytes: 65_536,
        durability: Durability::None,
        ..common::options(&folder.path().join("primary"))
    };
    let primary = Engine::open(options).unwrap();
    store(&primary, document(0)).await;
    let two = folder.path().join("follower");
    seed(&primary, &two).await;
    let follower = open_follower(&two);
    for turn in 0.. {
        if primary.stats().packs > 0 {
            break;
        }
        assert!(turn < 1_000, "nothing is packed");
        for round in 0..200 {
            for number in 0..20 {
                let fingerprint = spread(round * 20 + number);
                store(&primary, Document { fingerprint, ..document(number) }).await;
            }
        }
        primary.snapshot().await.unwrap();
    }
    let position = follower.follower_position().unwrap();
    assert!(
        matches!(primary.changes(&position), Err(ChangesEnd::Packed(at)) if at == position.sequence)
    );
    close(&follower);
    seed(&primary, &two).await;
    let follower = open_follower(&two);
    connect(&primary, &follower, usize::MAX).await;
    assert_same_documents(&primary, &follower).await;
    close(&follower);
    close(&primary);
}

//! Promise: a job finds the groups of the documents of one moment, whatever is written meanwhile;
//! it gives way to a stop, and leaves nothing in the directory. Method: the whole engine, against
//! union-find over all pairs of what was stored at that moment.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/options.rs"]
mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use nearprint_engine::{
    Admission, Criteria, Engine, GroupsRequest, GroupsWork, Job, JobFailure, JobState,
    NamespaceFilter, Options, Purge, Work, progress_of,
};
use nearprint_fingerprint::{Distance, Fingerprint};

/// A hang is a failure; nothing here takes a few seconds.
const DEADLINE: Duration = Duration::from_mins(1);
const BATCH: usize = 500;
const BATCHES: usize = 8;

fn open(directory: &Path) -> Engine {
    Engine::open(Options { delta_events: 1_024, ..common::options(directory) }).unwrap()
}

fn request() -> GroupsRequest {
    let criteria = Criteria::within(Distance::new(3).unwrap());
    GroupsRequest { reach: NamespaceFilter::All, criteria, size_min: 2 }
}

/// Every third fingerprint is near the one before it.
fn fingerprint(number: u64) -> Fingerprint {
    let mixed = (number / 3 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Fingerprint::new(if number.is_multiple_of(3) { mixed } else { mixed ^ (1 << (number % 3 * 9)) })
}

async fn ended(engine: &Engine, number: u64) -> Job {
    let looks = async {
        loop {
            let job = engine.job(number).unwrap();
            if job.has_ended() {
                return job;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, looks).await.unwrap()
}

/// The sizes of the groups among the first `count` fingerprints, each of which is one document.
fn sizes(count: u64) -> Vec<u64> {
    let mut names: Vec<u64> = (0..count).collect();
    for one in 0..count {
        // Those of different thirds are far apart.
        for other in one + 1..count.min(one + 3) {
            if fingerprint(one).distance(fingerprint(other)).get() <= 3 {
                names[other as usize] = names[one as usize];
            }
        }
    }
    let mut groups: BTreeMap<u64, u64> = BTreeMap::new();
    for name in names {
        *groups.entry(name).or_default() += 1;
    }
    let mut sizes: Vec<u64> = groups.into_values().filter(|size| *size > 1).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_sees_the_documents_of_one_moment_while_others_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let mut jobs = Vec::new();
    for batch in 0..BATCHES {
        let first = (batch * BATCH) as u64;
        let fingerprints: Vec<_> = (first..first + BATCH as u64).map(fingerprint).collect();
        let pending = engine.begin_insert_packed(fingerprints, Admission::Wait).await.unwrap();
        jobs.push(engine.begin_groups(request()).unwrap().number);
        pending.wait().await.unwrap();
    }
    for number in jobs {
        let job = ended(&engine, number).await;
        assert_eq!((job.state, progress_of(&job)), (JobState::Done, 1.0));
        let Work::Groups(GroupsWork { sequence, groups, documents, .. }) = job.work else {
            panic!("it finds groups")
        };
        let expected = sizes(sequence.unwrap().get());
        let page = engine.groups_of_job(number, 0, usize::MAX).await.unwrap().unwrap();
        let found: Vec<u64> = page.items.iter().map(|group| group.size).collect();
        assert_eq!(found, expected);
        assert_eq!((groups, documents), (expected.len() as u64, expected.iter().sum()));
    }
    tokio::task::block_in_place(|| engine.close());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_jobs_and_the_next_start_knows_none() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let fingerprints: Vec<_> = (0..5_000).map(fingerprint).collect();
    let pending = engine.begin_insert_packed(fingerprints, Admission::Wait).await.unwrap();
    pending.wait().await.unwrap();
    let numbers = [(); 5].map(|()| engine.begin_groups(request()).unwrap().number);
    tokio::task::block_in_place(|| engine.close());
    for number in numbers {
        let state = engine.job(number).unwrap().state;
        let stopped = JobState::Failed(JobFailure::Stopping);
        assert!([JobState::Done, stopped].contains(&state), "{state:?}");
    }
    assert!(engine.begin_groups(request()).is_err());
    drop(engine);
    let engine = open(folder.path());
    assert!(engine.jobs().is_empty());
    assert_eq!(engine.stats().documents, 5_000);
    tokio::task::block_in_place(|| engine.close());
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_both_kinds_are_listed_found_and_cancelled_alike() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let fingerprints: Vec<_> = (0..5_000).map(fingerprint).collect();
    let pending = engine.begin_insert_packed(fingerprints, Admission::Wait).await.unwrap();
    pending.wait().await.unwrap();
    let purge = Purge {
        reach: NamespaceFilter::Namespace(None),
        prefix: None,
        stored_before_ms: Some(1),
        dry_run: false,
    };
    let mut begun = Vec::new();
    for _ in 0..3 {
        begun.push(engine.begin_groups(request()).unwrap().number);
        begun.push(engine.begin_purge(purge.clone()).await.unwrap().number);
    }
    for number in &begun {
        let job = engine.job(*number).unwrap();
        let was_cancelled = engine.cancel_job(*number).await.unwrap();
        let now = ended(&engine, *number).await;
        assert!((0.0..=1.0).contains(&progress_of(&now)) && progress_of(&now) >= progress_of(&job));
        assert_eq!(was_cancelled, now.state == JobState::Cancelled);
        assert!(!engine.cancel_job(*number).await.unwrap(), "it has ended");
        let after = engine.job(*number).unwrap();
        assert_eq!((after.state, after.ended_ms), (now.state, now.ended_ms));
    }
    begun.sort_unstable();
    let listed: Vec<u64> = engine.jobs().iter().map(|job| job.number).collect();
    assert_eq!(listed, begun);
    assert!(!engine.cancel_job(u64::MAX).await.unwrap() && engine.job(u64::MAX).is_none());
    tokio::task::block_in_place(|| engine.close());
    drop(engine);
    // Searches are in memory only.
    let engine = open(folder.path());
    let listed: Vec<u64> = engine.jobs().iter().map(|job| job.number).collect();
    assert_eq!(listed, begun[..3]);
    tokio::task::block_in_place(|| engine.close());
}

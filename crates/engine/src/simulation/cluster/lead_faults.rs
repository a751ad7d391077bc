//! Promise: somebody leads, or a node says why it does not: with a clock that is off, without room,
//! with a log that refuses entries, was changed, damaged, or trimmed beyond the stored positions.
//! Method: as [`super::threads`].

use std::path::Path;
use std::time::Duration;

use nearprint_machine::document::DocumentId;

use super::threads::{Cluster, NODES, document, eventually, halted, insert, state, within_3};
use crate::api::error::Refused;
use crate::handle::Engine;
use crate::state::replica::NodeState;
use crate::write::outbox::Admission;

const OFF_MS: i64 = 60_000;

fn lead_fault(engine: &Engine) -> Option<String> {
    engine.node().unwrap().lead_fault.clone()
}

fn log_fault(engine: &Engine) -> Option<String> {
    engine.node().unwrap().log_fault.clone()
}

async fn remove(engine: &Engine, id: &str) -> Result<bool, Refused> {
    let id = DocumentId::new(id).unwrap();
    let begun = engine.begin_remove(None, id, Admission::Wait).await?;
    begun.wait().await.map(|removed| removed.documents == 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_clock_is_off_leaves_the_lead() {
    let cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    // The log's clock is behind for this node: its own is ahead of those of all others.
    cluster.logs[leader].set_ahead_ms(-OFF_MS);
    eventually("another leads", || state(cluster.engine(leader)) == NodeState::Following).await;
    let next = cluster.leader().await;
    assert_ne!(next, leader);
    insert(cluster.engine(next), document("a", 1)).await.unwrap();
    cluster.level().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_agrees_with_the_leaders_is_right_whatever_the_logs_says() {
    let mut cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    for node in (0..NODES).filter(|node| *node != leader) {
        cluster.logs[node].set_ahead_ms(OFF_MS);
    }
    insert(cluster.engine(leader), document("a", 1)).await.unwrap();
    cluster.level().await;
    let sees_it = |engine: &Engine| engine.node().unwrap().clock_ahead_ms.unwrap_or(0) < -1_000;
    let others = || cluster.running().filter(|engine| state(engine) == NodeState::Following);
    let compare_it = || others().filter(|engine| sees_it(engine)).count() == NODES - 1;
    eventually("they compare the clocks", compare_it).await;
    assert!(others().all(|engine| lead_fault(engine).is_none()));
    cluster.close(leader).await;
    assert_ne!(cluster.leader().await, leader);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_room_anywhere_documents_can_be_removed() {
    let mut cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    insert(cluster.engine(leader), document("a", 1)).await.unwrap();
    cluster.level().await;
    cluster.disk_free_bytes_min = u64::MAX / 4;
    for node in 0..NODES {
        cluster.close(node).await;
        cluster.open(node);
    }
    let leader = cluster.leader().await;
    let full = lead_fault(cluster.engine(leader)).unwrap();
    assert!(full.contains("disk"), "{full}");
    let refused = insert(cluster.engine(leader), document("b", 1 << 9)).await;
    assert_eq!(refused, Err(Refused::DiskFull));
    assert_eq!(remove(cluster.engine(leader), "a").await, Ok(true));
    cluster.level().await;
    assert_eq!(cluster.engine((leader + 1) % NODES).stats().documents, 0);
    // One that has room leads as soon as this one leaves.
    let roomy = (leader + 1) % NODES;
    cluster.close(roomy).await;
    cluster.disk_free_bytes_min = 0;
    cluster.open(roomy);
    eventually("it follows", || state(cluster.engine(roomy)) == NodeState::Following).await;
    cluster.engine(leader).stand_back(Duration::from_secs(1));
    eventually("it leads", || state(cluster.engine(roomy)) == NodeState::Leading).await;
    insert(cluster.engine(roomy), document("b", 1 << 9)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stands_back_leaves_the_lead_to_others_for_a_while() {
    let mut cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    let other = (leader + 1) % NODES;
    for node in (0..NODES).filter(|node| *node != other) {
        cluster.engine(node).stand_back(Duration::from_millis(500));
    }
    eventually("the one that does not", || state(cluster.engine(other)) == NodeState::Leading)
        .await;
    cluster.close(other).await;
    assert_ne!(cluster.leader().await, other, "the others lead again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_refuses_entries_is_a_fault_until_it_takes_them() {
    let cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    cluster.logs[0].refuse(Some("the stream is sealed"));
    let says = |engine: &Engine| log_fault(engine).is_some_and(|why| why.contains("sealed"));
    eventually("all who tried say why", || cluster.running().all(says)).await;
    let last_refused = |engine: &Engine| engine.node().unwrap().last_refused.clone();
    let why = last_refused(cluster.engine(leader)).unwrap().why;
    assert!(why.contains("sealed"), "{why}");
    let refused = insert(cluster.engine(leader), document("a", 1)).await;
    assert_eq!(refused, Err(Refused::NoLeader));
    cluster.logs[0].refuse(None);
    let next = cluster.leader().await;
    insert(cluster.engine(next), document("a", 1)).await.unwrap();
    eventually("nobody says it any longer", || cluster.running().all(|one| !says(one))).await;
    assert!(cluster.running().all(|one| last_refused(one).is_some()), "the last one is still told");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_changed_is_a_fault() {
    let cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    cluster.logs[0].set_replicas(1);
    let says = |engine: &Engine| log_fault(engine).is_some_and(|why| why.contains("1 copies"));
    eventually("all say it", || cluster.running().all(says)).await;
    assert_eq!(state(cluster.engine(leader)), NodeState::Leading, "writes go on");
    cluster.logs[0].set_replicas(3);
    eventually("nobody says it any longer", || cluster.running().all(|one| !says(one))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_damaged_where_it_is_read_is_read_elsewhere() {
    let mut cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    let behind = (leader + 1) % NODES;
    cluster.close(behind).await;
    for number in 0..10 {
        insert(cluster.engine(leader), document(&number.to_string(), number << 20)).await.unwrap();
        cluster.logs[behind].damage_newest();
    }
    cluster.open(behind);
    cluster.level().await;
    assert_eq!(halted(cluster.engine(behind)), None);
    let found = cluster.engine(behind).query(&document("q", 9 << 20), within_3()).await.unwrap();
    assert!(found.duplicate);
}

/// All are killed, and the log keeps less than lies behind the positions that they have stored.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_read_on_from_where_the_log_begins_if_their_journals_reach_it() {
    let mut cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    let stored: Vec<_> = cluster.folders.iter().map(|folder| cluster_file(folder.path())).collect();
    for number in 0..100 {
        insert(cluster.engine(leader), document(&number.to_string(), number << 20)).await.unwrap();
    }
    cluster.level().await;
    for (node, stored) in stored.iter().enumerate() {
        cluster.close(node).await;
        // As if it had been killed.
        set_cluster_file(cluster.folders[node].path(), stored);
    }
    cluster.logs[0].trim(20, u64::MAX);
    for node in 0..NODES {
        cluster.open(node);
    }
    let leader = cluster.leader().await;
    insert(cluster.engine(leader), document("after", 1 << 50)).await.unwrap();
    cluster.level().await;
    assert!(cluster.running().all(|engine| engine.stats().documents == 101));
}

#[expect(clippy::disallowed_methods, reason = "as a kill leaves it")]
fn cluster_file(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join("cluster")).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "as a kill leaves it")]
fn set_cluster_file(folder: &Path, bytes: &[u8]) {
    std::fs::write(folder.join("cluster"), bytes).unwrap();
}

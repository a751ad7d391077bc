//! `/v1/stats`: the state of the service in numbers.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use nearprint_engine::replica::{LogHolding, NodeState, NodeStatus, RefusedEntry};
use nearprint_engine::{Durability, MemoryStats, SegmentStats, SnapshotInfo, Stats};
use nearprint_service::answers;
use nearprint_wire::answer::{NamespaceReply, SnapshotReply};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::problem::Problem;
use crate::http::request::caller::CalledBy;
use crate::http::request::parameters;
use crate::http::request::selection::NamespaceParameter;
use crate::http::role::{self, Copies};
use crate::http::service::HttpService;
use crate::process;

/// The state of the service in numbers, or the number of documents in a namespace.
#[utoipa::path(get, path = "/v1/stats", tag = "operations",
    params(NamespaceParameter),
    responses((status = 200, description = "The state of the service", body = StatsOrNamespace<'_>)))]
pub(crate) async fn get_stats(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: NamespaceParameter = parameters::read(request.uri().query())?;
    let Some(namespace) = parameters.namespace else {
        caller.namespaces.check_all()?;
        return Ok(Json(StatsReply::new(http.service.engine().stats(), &http)).into_response());
    };
    caller.namespaces.check(Some(namespace.as_str()))?;
    let documents = http.service.engine().documents_in(Some(&namespace));
    Ok(Json(answers::namespace(&namespace, documents)).into_response())
}

/// With `namespace` the number of its documents, without it the state of the service.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "a description")]
pub(crate) enum StatsOrNamespace<'a> {
    Service(Box<StatsReply>),
    Namespace(NamespaceReply<'a>),
}

/// How old a snapshot is by the clock of this machine, in milliseconds.
pub(crate) fn age_ms(snapshot: Option<&SnapshotInfo>) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "an age for people; nothing is decided by it")]
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let now_ms = u64::try_from(now.as_millis()).ok()?;
    Some(now_ms.saturating_sub(snapshot?.taken_at_ms))
}

/// The state of the service in numbers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatsReply {
    /// Stored documents, with and without ids.
    documents: u64,
    /// Namespaces with documents, other than the default one.
    namespaces: u64,
    /// The last accepted change.
    sequence: u64,
    /// The exact definition of text to fingerprint.
    #[schema(example = "np2")]
    recipe: String,
    /// The largest distance of a look-up.
    distance_max: u8,
    durability: DurabilityReply,
    index: IndexReply,
    /// Bytes of memory of the index, by part.
    memory: MemoryReply,
    journal: JournalReply,
    disk: DiskReply,
    /// The newest snapshot; null before the first one.
    last_snapshot: Option<SnapshotReply>,
    /// How long ago the newest snapshot was taken.
    snapshot_age_ms: Option<u64>,
    clock: ClockReply,
    /// Of a follower: what it follows, and how far it has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    following: Option<FollowingReply>,
    /// Of a node of a cluster: what it does there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    cluster: Option<ClusterReply>,
    #[schema(example = "0.1.0")]
    version: &'static str,
    uptime_seconds: u64,
}

/// The clock of the service.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClockReply {
    /// What it says, in milliseconds since 1970.
    now_ms: u64,
    /// By how much the newest change is later: above 0 only for a moment, after the clock was set
    /// back.
    behind_ms: u64,
}

/// What a follower follows, and how far it has come.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FollowingReply {
    /// The address of the primary.
    primary: String,
    /// `catching_up` since it was started, `following` or `halted`.
    state: &'static str,
    /// Whether the primary was heard a moment ago.
    connected: bool,
    /// How long ago it had everything that the primary has.
    lag_ms: u64,
    /// Why it follows no longer; null while it does.
    halted: Option<String>,
    /// Why it cannot read or store changes now; null if it can.
    fault: Option<String>,
}

impl FollowingReply {
    fn new(status: &NodeStatus) -> Self {
        Self {
            primary: status.leader.as_deref().unwrap_or_default().to_owned(),
            state: role::state_name(&status.state),
            connected: status.is_connected,
            lag_ms: status.lag_ms,
            halted: halted(&status.state),
            fault: status.log_fault.clone(),
        }
    }
}

/// What a node does in its cluster.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClusterReply {
    /// Where the other nodes reach it.
    #[schema(example = "http://10.0.0.1:7878")]
    address: String,
    /// `catching_up` since it was started, `following` the leader, `leading` or `halted`.
    state: &'static str,
    /// The address of the leader; null if nobody leads.
    leader: Option<String>,
    /// Whether the log can be read.
    connected: bool,
    /// How far it is behind the end of the log.
    lag_ms: u64,
    /// The last entry of the log that it has read.
    read: u64,
    /// How many entries of the log did not count, since it was started.
    ignored: u64,
    /// Why it has halted; null while it has not.
    halted: Option<String>,
    /// Why the log cannot be read now, does not take what a leader appends, or may lose it; null if
    /// it is well.
    log_fault: Option<String>,
    /// Why the node does not try to lead, or only if nobody else does; null if it would.
    lead_fault: Option<String>,
    /// The last of its entries that the log has refused since it was started; null if none was.
    last_refused: Option<RefusedReply>,
    /// How far the clock is ahead of the log's; null while it is not known.
    clock_ahead_ms: Option<i64>,
    /// The nodes that it names in `cluster.seeds`.
    seeds: Vec<String>,
    /// The log, as it was a minute ago or less; null while it is not known.
    log: Option<LogReply>,
}

/// An entry that the log of a cluster has refused.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RefusedReply {
    /// What the log said.
    why: String,
    /// How many milliseconds ago that was.
    ago_ms: u64,
}

/// What the log of a cluster has.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LogReply {
    /// The server that orders its entries; null if it does not tell.
    leader: Option<String>,
    /// The servers that do not follow that one.
    behind: Vec<String>,
    /// The bytes of its entries, of which it keeps at most `bytes_max`.
    bytes: u64,
    bytes_max: u64,
    /// How many bytes may be appended before this node has to be filled anew, if it reads nothing
    /// until then.
    bytes_left: u64,
}

impl RefusedReply {
    fn new(refused: &RefusedEntry) -> Self {
        let ago_ms = refused.at.elapsed().as_millis() as u64;
        Self { why: refused.why.to_string(), ago_ms }
    }
}

impl LogReply {
    fn new(status: &NodeStatus) -> Option<Self> {
        let log = status.log.clone()?;
        let bytes_left = log.bytes_left(status.read);
        let LogHolding { leader, behind, bytes, bytes_max, .. } = log;
        Some(Self { leader, behind, bytes, bytes_max, bytes_left })
    }
}

impl ClusterReply {
    fn new(address: &str, seeds: &[String], status: &NodeStatus) -> Self {
        Self {
            address: address.to_owned(),
            state: role::state_name(&status.state),
            leader: status.leader.as_deref().map(str::to_owned),
            connected: status.is_connected,
            lag_ms: status.lag_ms,
            read: status.read,
            ignored: status.ignored,
            halted: halted(&status.state),
            log_fault: status.log_fault.clone(),
            lead_fault: status.lead_fault.clone(),
            last_refused: status.last_refused.as_ref().map(RefusedReply::new),
            clock_ahead_ms: status.clock_ahead_ms,
            seeds: seeds.to_vec(),
            log: LogReply::new(status),
        }
    }
}

/// What the service is among others: a follower, a node, or neither.
fn among_others(http: &HttpService) -> (Option<FollowingReply>, Option<ClusterReply>) {
    let Some((replica, status)) = http.replica() else { return (None, None) };
    match &replica.copies {
        Copies::Primary => (Some(FollowingReply::new(&status)), None),
        Copies::Cluster { address } => {
            (None, Some(ClusterReply::new(address, &replica.peers.urls, &status)))
        }
    }
}

/// Why a copy has halted; `None` while it has not.
fn halted(state: &NodeState) -> Option<String> {
    match state {
        NodeState::Halted(why) => Some(why.clone()),
        NodeState::CatchingUp | NodeState::Following | NodeState::Leading => None,
    }
}

/// When a write is acknowledged.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DurabilityReply {
    /// `always`, `interval` or `none`.
    policy: &'static str,
    /// With `interval`: the longest time between two syncs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    interval_ms: Option<u64>,
}

/// The index.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IndexReply {
    /// The immutable parts, oldest first.
    segments: Vec<SegmentReply>,
    /// Bytes of segments and tables that are in files and not in memory
    /// (`engine.index_memory_bytes_max`).
    file_bytes: u64,
    /// Inserts and removals in the mutable part, and in those that wait to become a segment.
    delta_events: u64,
}

/// One segment of the index.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SegmentReply {
    documents: u64,
    fingerprints: u64,
    /// In memory and in its file.
    bytes: u64,
    /// Key bits and search radius of each table.
    #[schema(example = "32r1f+32r1f")]
    plan: String,
}

impl From<SegmentStats> for SegmentReply {
    fn from(segment: SegmentStats) -> Self {
        Self {
            documents: segment.documents,
            fingerprints: segment.fingerprints,
            bytes: segment.bytes,
            plan: segment.plan,
        }
    }
}

/// Bytes of memory: of the index by part and in total, and outside it.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "the names of the API end in their unit")]
pub(crate) struct MemoryReply {
    total_bytes: u64,
    tables_bytes: u64,
    documents_bytes: u64,
    ids_bytes: u64,
    /// The sorted labels of texts, by which similar ones are found.
    labels_bytes: u64,
    removals_bytes: u64,
    namespaces_bytes: u64,
    deltas_bytes: u64,
    /// Reserved for merges, which need input and output at one time.
    merging_bytes: u64,
    /// Bodies of requests, as far as they are counted (`server.bodies_held_bytes_max`).
    bodies_bytes: u64,
    /// Replies that wait for their clients, as far as they are counted
    /// (`server.replies_held_bytes_max`).
    replies_bytes: u64,
    /// The resident memory of the process; null if the operating system does not report it.
    resident_bytes: Option<u64>,
    /// `engine.memory_bytes_max` in bytes, also where it is `auto`; null without a limit.
    max_bytes: Option<u64>,
}

/// The memory of the index.
pub(crate) fn memory_bytes(memory: &MemoryStats) -> u64 {
    let documents = [memory.tables, memory.documents, memory.ids, memory.labels];
    let parts = [memory.removals, memory.namespaces, memory.deltas];
    documents.iter().chain(&parts).sum()
}

/// The journal.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JournalReply {
    bytes: u64,
    files: u64,
    /// How many of the files are packs: closed ones with only the records that are still needed.
    packs: u64,
    /// The bytes of records of stored documents, at least.
    live_bytes: u64,
    /// Bytes of old records freed since the start.
    reclaimed_bytes: u64,
    /// The running sweep, if there is one.
    sweep: Option<SweepReply>,
}

/// The disk of the data directory.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DiskReply {
    free_bytes: u64,
    /// Writes that add documents are refused below this: `engine.disk_free_bytes_min`, or what the
    /// next snapshot, the next sweep and removals take if that is more.
    needed_bytes: u64,
    /// Whether the space of removed documents is reclaimed now, or why not.
    freeing: &'static str,
}

/// The progress of a sweep.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SweepReply {
    /// The last change that was swept.
    done: u64,
    /// The last change of the sweep.
    upto: u64,
}

impl StatsReply {
    pub(crate) fn new(stats: Stats, http: &HttpService) -> Self {
        let (policy, interval_ms) = match stats.durability {
            Durability::Always => ("always", None),
            Durability::Interval { ms } => ("interval", Some(ms)),
            Durability::None => ("none", None),
        };
        let (following, cluster) = among_others(http);
        let memory = stats.memory;
        Self {
            documents: stats.documents,
            namespaces: stats.namespaces,
            sequence: stats.sequence.get(),
            recipe: stats.recipe.to_string(),
            distance_max: stats.distance_max.get(),
            durability: DurabilityReply { policy, interval_ms },
            index: IndexReply {
                segments: stats.segments.into_iter().map(SegmentReply::from).collect(),
                file_bytes: stats.index_file_bytes,
                delta_events: stats.delta_events,
            },
            memory: MemoryReply {
                total_bytes: memory_bytes(&memory),
                tables_bytes: memory.tables,
                documents_bytes: memory.documents,
                ids_bytes: memory.ids,
                labels_bytes: memory.labels,
                removals_bytes: memory.removals,
                namespaces_bytes: memory.namespaces,
                deltas_bytes: memory.deltas,
                merging_bytes: memory.merging,
                bodies_bytes: http.bodies.bytes_in_memory() as u64,
                replies_bytes: http.service.replies().bytes_in_memory() as u64,
                resident_bytes: process::resident_bytes(),
                max_bytes: Some(http.options.memory_bytes_max).filter(|&bytes| bytes > 0),
            },
            journal: JournalReply {
                bytes: stats.journal_bytes,
                files: stats.journal_files,
                packs: stats.packs,
                live_bytes: stats.space.live_bytes,
                reclaimed_bytes: stats.space.reclaimed_bytes,
                sweep: stats.space.sweep.map(|(done, upto)| SweepReply { done, upto }),
            },
            disk: DiskReply {
                free_bytes: stats.disk.free_bytes,
                needed_bytes: stats.disk.needed_bytes,
                freeing: stats.disk.freeing.explanation(),
            },
            snapshot_age_ms: age_ms(stats.last_snapshot.as_ref()),
            last_snapshot: stats.last_snapshot.as_ref().map(answers::snapshot),
            clock: ClockReply { now_ms: stats.clock_ms, behind_ms: stats.clock_behind_ms },
            following,
            cluster,
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: http.started.elapsed().as_secs(),
        }
    }
}

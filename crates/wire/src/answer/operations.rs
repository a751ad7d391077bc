//! Snapshots and probes.

use serde::Serialize;

/// One snapshot on disk.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotReply {
    /// The last change it contains.
    pub sequence: u64,
    /// When it was taken, in milliseconds since 1970.
    pub taken_at_ms: u64,
    pub bytes: u64,
    pub documents: u64,
}

/// The snapshots on disk.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotsReply {
    /// Newest first.
    pub snapshots: Vec<SnapshotReply>,
}

/// A node leaves the lead to others.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StandsBackReply {
    /// For so many milliseconds.
    pub for_ms: u64,
}

/// The reply of `/healthz`, `/readyz`, `/readyz/reads` and `/readyz/writes`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HealthReply {
    #[cfg_attr(feature = "openapi", schema(example = "ready"))]
    pub status: &'static str,
    /// Of a follower: how long ago it had everything that its primary has. Of a node: how far it is
    /// behind the end of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub lag_ms: Option<u64>,
}

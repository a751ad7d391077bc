//! Jobs.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A job. Numbers that are missing are not those of its kind.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobReply {
    /// Its name.
    #[cfg_attr(
        feature = "openapi",
        schema(pattern = "^[0-9a-f]{32}$", example = "8b0c5e1f7a92d3641c0de9f2a7b35846")
    )]
    pub job: String,
    /// `purge` removes documents, `groups` finds groups of near-duplicates.
    #[cfg_attr(feature = "openapi", schema(example = "purge"))]
    pub kind: Cow<'static, str>,
    pub state: State,
    /// Why it failed; otherwise missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub error: Option<String>,
    /// The namespace whose documents it concerns; null for the default namespace, missing with
    /// `all_namespaces`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[expect(clippy::option_option, reason = "null and missing are two answers")]
    pub namespace: Option<Option<String>>,
    /// It concerns the documents of all namespaces; otherwise missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub all_namespaces: Option<bool>,
    /// `purge`: only documents whose ids begin so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub prefix: Option<String>,
    /// `purge`: only documents that were stored before this time, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub stored_before: Option<u64>,
    /// `purge`: it counts documents and removes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub dry_run: Option<bool>,
    /// `purge`: how many documents it has found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub matched: Option<u64>,
    /// `purge`: how many documents it has removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub removed: Option<u64>,
    /// `groups`: the largest distance of two near-duplicates.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub distance: Option<u8>,
    /// `groups`: whether pairs that sketches refute do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub verified: Option<bool>,
    /// `groups`: the smallest number of documents of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub min_size: Option<u32>,
    /// `groups`: the last change that it sees; null until it runs, missing if the token is limited
    /// to namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    #[expect(clippy::option_option, reason = "null and missing are two answers")]
    pub sequence: Option<Option<u64>>,
    /// `groups`: how many groups it found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub groups: Option<u64>,
    /// `groups`: how many documents they have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub documents: Option<u64>,
    /// `groups`: how many fingerprints have more than 256 sketches, of which 256 were compared, and
    /// others near them that are in other groups, so that they may belong together; otherwise
    /// missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub partly_compared: Option<u64>,
    /// 0 to 1; 1 once it is done. Missing before if the token is limited to namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub progress: Option<f64>,
    /// When it was requested, in milliseconds since 1970.
    pub begun_at_ms: u64,
    /// When it ended, in milliseconds since 1970; null until then.
    pub ended_at_ms: Option<u64>,
}

/// Whether a job runs, and how it ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits for the one before it.
    #[default]
    Waiting,
    /// It runs; or, if it is a purge, waits for the one before it.
    Running,
    /// It has seen every document.
    Done,
    /// It was cancelled. What it has removed stays removed.
    Cancelled,
    /// It failed; `error` says why.
    Failed,
}

impl State {
    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// Whether it is the last one.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled | Self::Failed)
    }
}

/// Jobs, each kind oldest first.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobsReply {
    pub jobs: Vec<JobReply>,
    /// The `after` of the next page; null on the last one.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next: Option<String>,
}

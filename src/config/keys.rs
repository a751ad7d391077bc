//! The keys of the configuration, section by section, and their defaults.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The text of `config/default.toml`.
pub const DEFAULT_TOML: &str = include_str!("../../config/default.toml");

/// The merged configuration as written, before any range is checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `[server]`: connections, requests, TLS.
    pub server: ServerKeys,
    /// `[data]`: what is stored where, and how durably.
    pub data: DataKeys,
    /// `[query]`: the defaults of requests.
    pub query: QueryKeys,
    /// `[engine]`: queues, files and limits.
    pub engine: EngineKeys,
    /// `[access]`: tokens.
    pub access: AccessKeys,
    /// `[log]`: what is logged.
    pub log: LogKeys,
}

/// The keys of `[server]`; `config/default.toml` explains each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml explains each key")]
pub struct ServerKeys {
    pub listen: String,
    pub host_names: String,
    pub body_bytes_max: u64,
    pub line_bytes_max: u64,
    pub bodies_held_bytes_max: u64,
    pub reply_bytes_max: u64,
    pub replies_held_bytes_max: u64,
    pub exports_max: u64,
    pub header_timeout_ms: u64,
    pub body_timeout_ms: u64,
    pub idle_timeout_ms: u64,
    pub connections_max: u64,
    pub requests_in_flight_max: u64,
    pub shutdown_grace_ms: u64,
    pub tls_certificate_file: PathBuf,
    pub tls_key_file: PathBuf,
}

/// The keys of `[data]`; `config/default.toml` explains each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml explains each key")]
pub struct DataKeys {
    pub directory: PathBuf,
    pub recipe: String,
    pub distance_max: u64,
    pub durability: String,
    pub durability_interval_ms: u64,
}

/// The keys of `[query]`; `config/default.toml` explains each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml explains each key")]
pub struct QueryKeys {
    pub distance: u64,
    pub limit: u64,
    pub min_similarity: f64,
    pub extract: String,
}

/// The keys of `[engine]`; `config/default.toml` explains each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml explains each key")]
pub struct EngineKeys {
    pub lookup_threads: u64,
    pub delta_events: u64,
    pub queue_changes_max: u64,
    pub group_changes_max: u64,
    pub journal_file_bytes: u64,
    pub snapshot_interval_ms: u64,
    pub snapshot_changes: u64,
    pub memory_bytes_max: u64,
    pub disk_free_bytes_min: u64,
}

/// The keys of `[access]`; `config/default.toml` explains each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml explains each key")]
pub struct AccessKeys {
    pub tokens_file: PathBuf,
    pub tokens: String,
    pub requests_per_second: u64,
}

/// The keys of `[log]`; `config/default.toml` explains each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml explains each key")]
pub struct LogKeys {
    pub format: String,
    pub level: String,
}

impl Config {
    /// The effective configuration as TOML, every key, for `check-config`. Tokens are struck out,
    /// even though only their digests are configured.
    pub fn effective(&self) -> String {
        let mut shown = self.clone();
        if !shown.access.tokens.is_empty() {
            "(not shown)".clone_into(&mut shown.access.tokens);
        }
        toml::to_string(&shown).expect("strings, numbers and six tables are TOML")
    }
}

impl Default for Config {
    fn default() -> Self {
        toml::from_str(DEFAULT_TOML).expect("a test parses config/default.toml")
    }
}

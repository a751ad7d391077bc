//! The configuration: one commented file of defaults, four layers, two types.
//!
//! `config/default.toml` is compiled in and says every key with its unit, default and range. Over
//! it go, in this order, a file, the environment (`NEARPRINT_SECTION__KEY`) and the flags. The
//! layers are merged by [`layers`], which refuses unknown keys and variables by name; the result is the raw
//! [`Config`], which [`Config::validated`] turns into the [`Settings`] that the rooms take. Nothing
//! else in the house reads the environment or a configuration file.
//!
//! Tested by changing every key and observing the setting it ends in (`tests` here), and its
//! effect on a running server in `tests/http_contract/limits.rs`.

mod layers;
mod validate;
mod variables;

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use layers::{ConfigError, Sources, UnknownVariable};
pub use variables::OPTION_VARIABLES;

use crate::{engine, http, server, telemetry};

/// The text of `config/default.toml`.
pub const DEFAULT_TOML: &str = include_str!("../../config/default.toml");

/// The merged configuration as it is written, before any range is checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `[server]`: the outside.
    pub server: ServerKeys,
    /// `[data]`: where and how durably.
    pub data: DataKeys,
    /// `[query]`: what a request that says nothing gets.
    pub query: QueryKeys,
    /// `[engine]`: queues, files and limits of the engine.
    pub engine: EngineKeys,
    /// `[access]`: who gets in.
    pub access: AccessKeys,
    /// `[log]`: what is written to standard error.
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

/// The configuration with every range checked, in the types of the rooms it goes to.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The accept loop and its timeouts.
    pub server: server::Options,
    /// Bodies, limits and defaults of requests.
    pub http: http::Options,
    /// The engine.
    pub engine: engine::Options,
    /// Logs.
    pub log: telemetry::Options,
}

impl Config {
    /// Merges the defaults, the file, the environment and the flags.
    ///
    /// # Errors
    /// [`ConfigError`] names the key, where it came from and what would be right.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        layers::merge(sources)
    }

    /// Checks every range and every relation between keys.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] names the key and its range.
    pub fn validated(&self) -> Result<Settings, ConfigError> {
        validate::settings(self)
    }

    /// The effective configuration as TOML, every key, for `check-config`. Of the tokens it shows
    /// only that there are some: even their digests are nobody else's business.
    pub fn effective(&self) -> String {
        let mut shown = self.clone();
        if !shown.access.tokens.is_empty() {
            "(not shown)".clone_into(&mut shown.access.tokens);
        }
        toml::to_string(&shown).expect("strings, numbers and six tables are TOML")
    }
}

/// The embedded defaults.
impl Default for Config {
    fn default() -> Self {
        toml::from_str(DEFAULT_TOML).expect("a test parses config/default.toml")
    }
}

#[cfg(test)]
mod tests;

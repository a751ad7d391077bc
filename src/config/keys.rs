//! The keys of the configuration, section by section, and their defaults.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The text of `config/default.toml`.
pub const DEFAULT_TOML: &str = include_str!("../../config/default.toml");

/// Declares the sections with their keys. `config/default.toml` explains each key.
macro_rules! sections {
    ($($(#[$doc:meta])* $section:ident: $keys:ident { $($key:ident: $type:ty,)* })*) => {
        /// The merged configuration as written, before any range is checked.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Config {
            $($(#[$doc])* pub $section: $keys,)*
        }

        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
            #[serde(deny_unknown_fields)]
            #[expect(missing_docs, reason = "config/default.toml explains each key")]
            pub struct $keys {
                $(pub $key: $type,)*
            }
        )*
    };
}

sections! {
    /// `[server]`: connections, requests, TLS.
    server: ServerKeys {
        listen: String,
        host_names: String,
        body_bytes_max: u64,
        line_bytes_max: u64,
        bodies_held_bytes_max: u64,
        reply_bytes_max: u64,
        replies_held_bytes_max: u64,
        exports_max: u64,
        header_timeout_ms: u64,
        body_timeout_ms: u64,
        idle_timeout_ms: u64,
        connections_max: u64,
        requests_in_flight_max: u64,
        shutdown_grace_ms: u64,
        tls_certificate_file: PathBuf,
        tls_key_file: PathBuf,
    }
    /// `[data]`: what is stored where, and how durably.
    data: DataKeys {
        directory: PathBuf,
        recipe: String,
        model_file: PathBuf,
        distance_max: u64,
        search: String,
        durability: String,
        durability_interval_ms: u64,
    }
    /// `[query]`: the defaults of requests.
    query: QueryKeys {
        distance: u64,
        limit: u64,
        min_similarity: f64,
        min_numbers: f64,
        search: String,
        extract: String,
    }
    /// `[documents]`: what is kept with a document, and for how long.
    documents: DocumentsKeys {
        metadata_bytes_max: u64,
        expires_in_s: u64,
    }
    /// `[engine]`: queues, files and limits.
    engine: EngineKeys {
        lookup_threads: u64,
        journal_file_bytes: u64,
        snapshot_interval_ms: u64,
        snapshot_changes: u64,
        memory_bytes_max: String,
        index_memory_bytes_max: String,
        disk_free_bytes_min: u64,
        expired_kept_ms: u64,
    }
    /// `[groups]`: jobs that find groups of near-duplicates.
    groups: GroupsKeys {
        memory_bytes_max: u64,
    }
    /// `[access]`: tokens.
    access: AccessKeys {
        tokens_file: PathBuf,
        tokens: String,
        requests_per_second: u64,
    }
    /// `[follow]`: the primary that the service follows.
    follow: FollowKeys {
        url: String,
        forward: bool,
        token_file: PathBuf,
        ca_file: PathBuf,
    }
    /// `[cluster]`: the cluster that the service is a node of.
    cluster: ClusterKeys {
        name: String,
        address: String,
        seeds: Vec<String>,
        token_file: PathBuf,
        ca_file: PathBuf,
        servers: Vec<String>,
        monitors: Vec<String>,
        replicas: u64,
        trust_sync: bool,
        credentials_file: PathBuf,
        user: String,
        password_file: PathBuf,
        log_ca_file: PathBuf,
        takeover_ms: u64,
        write_timeout_ms: u64,
    }
    /// `[log]`: what is logged.
    log: LogKeys {
        format: String,
        access: String,
        level: String,
    }
}

impl Config {
    /// The effective configuration as TOML, every key, for `check-config`. Tokens are struck out,
    /// even though only their digests are configured.
    pub fn effective(&self) -> String {
        let mut shown = self.clone();
        if !shown.access.tokens.is_empty() {
            "(not shown)".clone_into(&mut shown.access.tokens);
        }
        toml::to_string(&shown).expect("strings, numbers, flags and tables are TOML")
    }
}

impl Default for Config {
    fn default() -> Self {
        toml::from_str(DEFAULT_TOML).expect("a test parses config/default.toml")
    }
}

//! Loads the configuration of a command, and advises what to do when it, or the service with it,
//! fails.

use std::io::ErrorKind;

use nearprint_engine::OpenError;
use nearprint_storage::StorageError;

use crate::cli::error_report::ErrorReport;
use crate::config::{Config, ConfigError, Sources};
use crate::replicas::SeedError;
use crate::server::{ServeError, Settings};

/// What to do about a clock that is behind the data directory.
pub(super) const CLOCK_BEHIND_NEXT: &str = "look at the clock: date -u; then set it right, or start once with nearprint serve --accept-time";

/// What to do about a directory that is not that of a node.
pub(super) const NOT_A_NODE_NEXT: &str = "to begin a cluster with its documents: nearprint cluster create; to join one: empty it, or \
     name another directory: --data DIR";

/// Loads and checks a configuration.
pub(super) fn load(sources: &Sources) -> Result<(Config, Settings), ErrorReport> {
    let load = || {
        let config = Config::load_in_force(sources)?;
        let settings = config.validated()?;
        Ok((config, settings))
    };
    load().map_err(config_error)
}

/// The keys as they are written, whatever a data directory has.
pub(super) fn merged(sources: &Sources) -> Result<Config, ErrorReport> {
    Config::load(sources).map_err(config_error)
}

/// Checks keys.
pub(super) fn validated(config: &Config) -> Result<Settings, ErrorReport> {
    config.validated().map_err(config_error)
}

/// Adds advice to the error of a configuration.
fn config_error(error: ConfigError) -> ErrorReport {
    let next = if let ConfigError::Contradicts { .. } = error {
        "what is fixed when a directory is created is read from it, so neither key is needed"
    } else if let ConfigError::NoTokens { .. } = error {
        "make a token and its line with `nearprint token >> FILE`, and name that file: \
         NEARPRINT_ACCESS__TOKENS_FILE=FILE; or listen on 127.0.0.1"
    } else if let ConfigError::Missing { missing: "cluster.address", .. } = error {
        "name the address at which the other nodes reach this one, in the file or as \
         NEARPRINT_CLUSTER__ADDRESS=http://HOST:7878"
    } else if let ConfigError::Unreadable { .. } = error {
        "name a file that is there and that this user may read, or none: every key has a default"
    } else {
        "`nearprint check-config --defaults` prints every key with its range"
    };
    ErrorReport::new("the configuration is not right", next).because(error)
}

/// Adds advice to the error of a service that does not start, or stopped.
pub(super) fn serve_error(error: ServeError) -> ErrorReport {
    let next = match &error {
        ServeError::Runtime(_) => "look at the limits of this process: ulimit -a",
        ServeError::Listen { .. } => "choose another address: --listen 127.0.0.1:PORT",
        ServeError::Access(_) => {
            "make a token and its line with `nearprint token`; config/default.toml explains [access]"
        }
        ServeError::Tls(_) => {
            "name a certificate and its key, both PEM: server.tls_certificate_file, server.tls_key_file"
        }
        ServeError::Open(OpenError::ClockBehind { .. }) => CLOCK_BEHIND_NEXT,
        ServeError::Remote(_) => {
            "name a PEM file of certificates, or leave follow.ca_file and cluster.ca_file empty"
        }
        ServeError::Seed(SeedError::NoSeeds) => {
            "make the first node with `nearprint cluster create`, or name other nodes in cluster.seeds"
        }
        ServeError::Seed(_) => {
            "check follow.url or cluster.seeds, and token_file of the same section: a follower needs a \
             token with the scope admin, a node one with read and admin"
        }
        ServeError::Open(OpenError::NotANode) => NOT_A_NODE_NEXT,
        ServeError::Open(OpenError::NodeOfCluster) => {
            "start it with its section [cluster], or make it a service alone: nearprint cluster leave \
             --data DIR"
        }
        ServeError::Open(OpenError::Follower { .. }) => {
            "start it with --follow URL, or make it a primary: nearprint promote --data DIR"
        }
        ServeError::Open(OpenError::NotAFollower) => {
            "follow with a directory that is empty or does not exist: --data DIR"
        }
        ServeError::Open(OpenError::Storage(error)) if error.is_of_other_version() => {
            "use the version that made the directory, or choose another one: --data DIR"
        }
        ServeError::Open(OpenError::Storage(StorageError::Io { source, .. }))
            if source.kind() == ErrorKind::NotADirectory =>
        {
            "name a directory, which is made if it does not exist: --data DIR"
        }
        ServeError::Open(_) => {
            "if another process uses the directory, stop it, or choose another one: --data DIR"
        }
        ServeError::SignalledTwice => {
            "start the service again; to shorten a stop, lower server.shutdown_grace_ms"
        }
        ServeError::StorageFailed => {
            "look at the disk, then start the service again: it recovers what was answered"
        }
    };
    let was_ended = matches!(error, ServeError::SignalledTwice);
    let what = if was_ended { "the service ended at once" } else { "the service does not run" };
    ErrorReport::new(what, next).because(error)
}

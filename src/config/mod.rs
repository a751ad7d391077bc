//! The configuration: one commented file of defaults, four layers, two types.
//!
//! `config/default.toml` is compiled in and documents every key with its unit, default and range. A
//! file, the environment (`NEARPRINT_SECTION__KEY`) and the flags override it, in this order.
//! `layers` merges them into the raw [`Config`], and refuses unknown keys and variables by name;
//! `validate` turns it into the [`Settings`](crate::server::Settings) of the service. No other
//! module reads the environment or a configuration file.
//!
//! `tests` changes every key and checks the setting it ends in; `tests/http_contract/limits.rs`
//! checks its effect on a running server.

mod error;
mod keys;
mod layers;
mod memory;
mod replicas;
mod suggestion;
#[cfg(test)]
mod tests;
mod validate;
mod variables;

pub use error::{ConfigError, UnknownVariable};
pub use keys::{
    AccessKeys, ClusterKeys, Config, DEFAULT_TOML, DataKeys, DocumentsKeys, EngineKeys, FollowKeys,
    GroupsKeys, LogKeys, QueryKeys, ServerKeys,
};
pub use layers::Sources;
pub use variables::OPTION_VARIABLES;

//! One file a command of `nearprint`; `serve`, `import` and `query` are the ones most used.

pub(crate) mod check_config;
pub(crate) mod cluster;
pub(crate) mod compare;
pub(crate) mod directory;
pub(crate) mod documents;
pub(crate) mod files;
pub(crate) mod fingerprint;
pub(crate) mod generate;
pub(crate) mod health;
pub(crate) mod inspect;
pub(crate) mod plan;
pub(crate) mod serve;
pub(crate) mod snapshot;
pub(crate) mod stored;
pub(crate) mod token;
pub(crate) mod train;
pub(crate) mod version;

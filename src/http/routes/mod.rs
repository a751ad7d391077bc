//! The handlers, one file a resource. [`mod@crate::http::router`] lists their routes.
//!
//! To add a route: a file here, a line in the router, a section in `proto-free-api.md`.

pub(crate) mod about;
pub(crate) mod check_and_insert;
pub(crate) mod compare;
pub(crate) mod console;
pub(crate) mod copies;
pub(crate) mod documents;
pub(crate) mod fingerprint;
pub(crate) mod health;
pub(crate) mod insert;
pub(crate) mod jobs;
pub(crate) mod metrics;
pub(crate) mod namespaces;
pub(crate) mod query;
pub(crate) mod stats;

//! nearprint: a networked near-duplicate lookup service.

pub mod bulk;
pub mod cli;
pub mod config;
pub mod document;
pub mod engine;
pub mod fingerprint;
pub mod http;
pub mod index;
pub mod machine;
pub mod metrics;
pub mod server;
pub mod sketch;
pub mod storage;
pub mod telemetry;
pub mod text;

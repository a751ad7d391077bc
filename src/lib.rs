//! nearprint: a networked near-duplicate lookup service.

pub mod bulk;
pub mod cli;
pub mod config;
pub mod document;
pub mod engine;
pub mod fingerprint;
pub mod machine;
pub mod sketch;
pub mod text;

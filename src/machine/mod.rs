//! The pure core.

pub mod query;

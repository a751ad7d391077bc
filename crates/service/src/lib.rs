//! The service without a protocol: offers of documents in, answers out, in their order.
//!
//! Whoever asks is a [`Caller`]: a request over HTTP, a command on a data directory, a test. An
//! offer is [prepared](prepare), then looked up or put into the queue of the engine
//! ([`Service::find`], [`Service::begin_insert`]), and its answer is made of what the engine says
//! ([`answers`]). Many offers are an [`OfferBatch`]. What is not done is a [`Refusal`], which each
//! protocol renders in its own way.
//!
//! | module | what it has |
//! |---|---|
//! | [`prepare`], `lifetime` | a document with its options, ready for the engine |
//! | `limits` | what all clients share: the queue of long texts, bytes, places |
//! | `documents`, `jobs`, `listing` | look-ups and writes; purges and groups; pages and streams |
//! | [`answers`] | what the engine says, as it travels ([`nearprint_wire::answer`]) |
//! | [`cipher`] | cursors of pages and names of jobs |
//! | `callers` | who asks, and which namespaces that reaches |
//!
//! It reads no header and no path; its messages name those of the HTTP API, which says what to do
//! next.

#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "lengths come from outside"
)]

pub mod answers;
mod batch;
mod callers;
pub mod cipher;
mod documents;
mod jobs;
mod lifetime;
mod limits;
mod listing;
mod options;
pub mod prepare;
mod refusal;
mod service;

pub use batch::{DryBatch, OfferBatch, Operation};
pub use callers::{AllowedNamespaces, Caller, namespaces};
pub use documents::{Begun, previous};
pub use lifetime::Lifetime;
pub use limits::{budget, shares};
pub use listing::{DocumentLines, ListedPage, PageRequest, Selected};
pub use options::{RequestDefaults, ServiceOptions};
pub use prepare::{Needs, Prepared, Setting};
pub use refusal::{Refusal, quoted};
pub use service::Service;

//! A service that is a copy of others: a node of a cluster, or the follower of a primary.
//!
//! ```text
//!   options   whom it copies, and what it does with them
//!   seeding   filling its directory from one of them
//!   sources   what the engine reads then: the log of the cluster, or the changes of the primary
//!   nats      the replicated log on NATS JetStream
//!   nodes     what services tell of their part among others
//! ```

pub mod nats;
pub(crate) mod nodes;
mod options;
mod seeding;
mod sources;

pub use options::{ClusterOptions, Peers, Replica, ReplicaKind};
pub use seeding::{SeedError, SeedRefusal};
pub(crate) use seeding::{find_seed, needs_seed, seed};

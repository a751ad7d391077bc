//! What the service adds to the engine's cluster.
//!
//! ```text
//!   options   how a service takes part in a cluster
//!   opening   the log of a running node
//!   seeding   filling the directory of a node from another node
//!   nats      the replicated log on NATS JetStream
//! ```

pub mod nats;
mod opening;
mod options;
mod seeding;

pub use options::ClusterOptions;
pub use seeding::SeedError;
pub(crate) use seeding::seed;

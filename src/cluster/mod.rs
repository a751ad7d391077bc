//! What the service adds to the engine's cluster.
//!
//! ```text
//!   nats      the replicated log on NATS JetStream
//! ```

pub mod nats;

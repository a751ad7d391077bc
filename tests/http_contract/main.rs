//! The HTTP contract, sentence by sentence, through the real server in this process.
//!
//! Each test starts a server of its own on port 0 over an empty directory, and speaks HTTP/1.1 to
//! it over plain sockets ([`support`]), so that no client library hides a fault.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/manual.rs"]
mod manual;
#[expect(dead_code, reason = "other tests use more of it")]
#[path = "../support/server.rs"]
mod process;
#[path = "../support/random.rs"]
mod random;
mod support;
#[path = "../support/wait.rs"]
mod wait;

mod access;
mod api_manual;
mod batches;
mod bodies;
mod comparisons;
mod compressed;
mod declared;
mod description;
mod documents;
mod errors;
mod expiry;
mod explanations;
mod forms;
mod groups;
mod heads;
mod held_replies;
mod history;
mod jobs;
mod leavers;
mod likely;
mod limited;
mod limits;
mod listing;
mod lookups;
mod me;
mod metadata;
mod mutated;
mod namespaces;
mod nodes;
mod numbers;
mod operations;
mod originals;
mod packed;
mod previous;
mod purge;
mod races;
mod recipes;
mod replies;
mod shares;
mod slow_clients;
mod validators;
mod vectors;
mod writes;

//! The edge of a real process: tokens and certificates read again, slow and many clients, a log
//! that nobody reads, few file descriptors, the end under load.
//!
//! Real sockets against the binary, as an operator starts it. [`siege`] and [`batches`] run small
//! here and at full size by `make siege`, which prints its figures.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batches;
mod client;
mod crowds;
mod hostile;
mod log;
mod memory;
mod proxies;
mod secrets;
mod server;
mod siege;
mod supervisor;
mod tls;
mod unread;

//! Batches of documents: NDJSON in, NDJSON out, streamed both ways in bounded memory.
//!
//! ```text
//! body -read-> lines -prepare, look up (parallel)-> steps -run (in order)-> slots -wait-> reply
//!              CHUNKS_AHEAD pieces of the body              PENDING_MAX writes
//! ```
//!
//! Three tasks are joined by bounded channels. A slow client, a slow disk or a full write queue
//! blocks the task before it, and in the end the reading of the body (back-pressure). Many writes
//! wait for one sync together. They enter the write queue in the order of their lines, which is the
//! order of effect. A client that sends everything before it reads anything can block itself once
//! its replies fill the sockets; `proto-free-api.md` warns of that.
//!
//! The channels bound numbers; [`crate::http::budget`] bounds bytes. A piece of the body is
//! looked up in parallel as long as its replies fit in `unordered::AHEAD_BYTES`, which come from
//! the budget of all connections. What does not fit, and everything while that budget is spent, is
//! looked up in order, once all replies before it have been sent, and within
//! [`OWN_BYTES`](crate::http::budget::OWN_BYTES) of the batch itself.
//!
//! - [`run()`] checks the head of the request and chooses between [`ndjson`] and [`packed`];
//! - [`unordered`] reads the body and does what needs no order;
//! - [`ordered`] does the rest in the order of the lines, and sends the replies;
//! - [`ndjson`] connects the two; [`packed`] replies with one byte a fingerprint.

pub(crate) mod context;
pub(crate) mod direct;
mod ndjson;
mod ordered;
mod packed;
mod run;
mod unordered;
mod words;

pub(crate) use context::Operation;
pub(crate) use run::run;

//! Batches of documents: one ordered pipeline in bounded memory.
//!
//! ```text
//! body -> source -> prepare (parallel) -> begin (in order) -> finish -> held -> client
//!                   PIECES_AHEAD                              SLOTS_MAX, or CHUNKS_AHEAD if packed
//! ```
//!
//! - [`run()`] checks the head of the request, and makes the head of a streamed reply;
//! - [`source`] cuts the body into pieces: lines, or packed words;
//! - [`documents`] prepares them, looks up in parallel what is not to be stored, and puts writes
//!   into the queue of the engine in the order of their lines, which is the order of effect;
//! - [`packed`] begins chunks of fingerprints, which need no preparation and have no lines;
//! - [`replies`] finishes all replies in order, and sends them once they may be sent;
//! - [`held`] keeps what is finished until the client takes it;
//! - [`flow`] tells when the reply may begin: when the body has ended, for proxies that stop
//!   sending once it begins, and for plain clients, which send everything before they read
//!   anything.
//!
//! Tasks are joined by bounded channels. A slow client, a slow disk or a full write queue blocks
//! the task before it, and in the end the reading of the body (back-pressure). Many writes wait for
//! one sync together. When finished replies have no room left, the reply begins early. If its
//! client takes nothing then, because it is still sending, the batch is given up: the rest of the
//! body is discarded, and the last line of the reply names the first line that was not taken.
//!
//! The channels bound numbers; [`nearprint_service::budget`] bounds bytes. A piece is looked up
//! once it has room for its replies, and a write keeps a share until its reply is finished. Both
//! come from the budget of all connections, or while that is spent from the bytes of the batch
//! itself ([`OWN_BYTES`](nearprint_service::budget::OWN_BYTES)). Shares are taken in the order of
//! the lines, so that no line waits for the share of a later one. A look-up whose reply has no room
//! is left for its turn, when all replies before it are finished.

mod documents;
mod flow;
mod held;
mod packed;
pub(crate) mod replies;
mod run;
mod source;

pub(crate) use run::run;

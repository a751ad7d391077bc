//! What travels between nearprint and its clients, in the program as on the wire.
//!
//! | module | what it has |
//! |---|---|
//! | [`offer`] | documents as they come in, and the one table of their fields and options |
//! | [`answer`] | what the service says of them |
//! | [`code`] | the codes of errors |
//!
//! Readers of files make offers too, so they need no service. Knows the values of
//! [`nearprint_machine`], and neither the engine nor HTTP.

pub mod answer;
pub mod code;
pub mod offer;

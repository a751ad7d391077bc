//! What travels between nearprint and its clients, in the program as on the wire.
//!
//! | module | what it has |
//! |---|---|
//! | [`offer`] | documents as they come in, and the one table of their fields and options |
//!
//! Readers of files make offers too, so they need no service. Knows the values of
//! [`nearprint_machine`], and neither the engine nor HTTP.

pub mod offer;

//! A nearprint service over HTTP, for threads that may block: commands, and copies of a service.
//!
//! [`ServiceClient`] sends requests and reads replies as they arrive; a [`Peer`] is a service that
//! this one is a copy of. [`trust`] decides whose certificates are trusted, for every client of
//! this program. No redirect is followed and no proxy is used: an address is that of a service.

mod client;
mod peer;
pub mod trust;

pub use client::{ClientError, ReplyBody, ServiceClient};
pub use peer::{EXPORT_BEGINS, Peer, PeerError};
pub use trust::{RemoteError, Trust, read_token};

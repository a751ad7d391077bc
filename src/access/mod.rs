//! Access control: bearer tokens with permissions and namespaces, and a request rate for each
//! token.
//!
//! A token is 256 random bits, so a plain SHA-256 digest of it is safe to store; salts and many
//! rounds only help passwords that people choose. The service never stores a token itself: not in a
//! file, a log or an error, nor in memory after the request that carried it.
//!
//! - [`admit`] decides whether a request is let in.
//! - [`permission`] defines what a token allows, and [`nearprint_service::namespaces`] on which
//!   documents.
//! - [`token`] makes tokens and their digests, and compares digests in constant time.
//! - [`table`] parses the lines that define tokens, and finds the token of a request.
//!
//! Knows no HTTP: [`crate::http`] decides which permission a route needs, which namespace a request
//! concerns, and how a denial is answered. A check costs one SHA-256 and a comparison of 32 bytes
//! with each of at most [`TOKENS_MAX`] tokens; about a microsecond with a handful.

mod admit;
mod permission;
mod table;
mod token;

pub use admit::{Access, Admitted, Denied, Need, Rights};
pub use nearprint_service::namespaces::{
    AllowedNamespaces, BadNamespaces, NAMESPACES_MAX, NamePattern,
};
pub use permission::{NotPermissions, Permission, Permissions};
pub use table::{AccessError, TOKENS_MAX, TokenSource};
pub use token::{Token, TokenDigest};

#[cfg(test)]
mod tests;

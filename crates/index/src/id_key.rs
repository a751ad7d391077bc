//! The keyed hash that stands for an id.
//!
//! The index stores no ids, so that its memory does not grow with their length, but SipHash-2-4-128
//! of each under the secret of the directory, cut to 96 bits. Among a billion ids the probability
//! of a collision is 6e-12, and nobody without the secret can find one.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher24};

use crate::document::Namespace;

/// The keyed hash of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdKey {
    /// The first 64 bits.
    pub high: u64,
    /// The next 32 bits.
    pub low: u32,
}

impl IdKey {
    /// The key of an id in a namespace under a secret.
    pub fn of(id: &str, namespace: Option<&Namespace>, secret: &[u8; 16]) -> Self {
        let mut hasher = SipHasher24::new_with_key(secret);
        hasher.write(id.as_bytes());
        if let Some(namespace) = namespace {
            // UTF-8 has no such byte, so no other id in no other namespace is hashed alike.
            hasher.write_u8(0xff);
            hasher.write(namespace.as_str().as_bytes());
        }
        let hash = hasher.finish128();
        Self { high: hash.h1, low: hash.h2 as u32 }
    }
}

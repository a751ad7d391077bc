//! The mask of a namespace, and the keyed hash that stands for its name.
//!
//! A fingerprint is combined (exclusive or) with the *mask* of its namespace, a keyed hash of the
//! name, before it is indexed. So fingerprints of one namespace keep their distances, and those of
//! different namespaces are as far apart as random fingerprints. Where two coincide, the number of
//! the namespace in each posting, which a look-up compares, prevents a hit.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher24};

use crate::document::Namespace;
use crate::id_key::IdKey;

/// Separates what is hashed. UTF-8 has none of these bytes, so no two inputs are the same.
const OF_KEY: u8 = 0xfe;
const OF_MASK: u8 = 0xfd;

/// What the index knows of the name of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceKey {
    /// The keyed hash that stands for the name, 96 bits as for ids.
    pub key: IdKey,
    /// What fingerprints of the namespace are combined with.
    pub mask: u64,
}

impl NamespaceKey {
    /// The key of a namespace under a secret.
    pub fn of(namespace: &Namespace, secret: &[u8; 16]) -> Self {
        let hash = |purpose: u8| {
            let mut hasher = SipHasher24::new_with_key(secret);
            hasher.write(namespace.as_str().as_bytes());
            hasher.write_u8(purpose);
            hasher.finish128()
        };
        let (key, mask) = (hash(OF_KEY), hash(OF_MASK));
        Self { key: IdKey { high: key.h1, low: key.h2 as u32 }, mask: mask.h1 }
    }
}

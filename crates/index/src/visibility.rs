//! Namespaces, expiry and age: which stored documents a look-up sees.
//!
//! A fingerprint is combined (exclusive or) with the *mask* of its namespace, a keyed hash of the
//! name, before it is indexed. So fingerprints of one namespace keep their distances, and those of
//! different namespaces are as far apart as random fingerprints. Where two coincide, the number of
//! the namespace in each posting, which a look-up compares, prevents a hit.

use std::hash::Hasher as _;

use nearprint_fingerprint::Fingerprint;
use siphasher::sip128::{Hasher128 as _, SipHasher24};

use crate::document::{Namespace, Sequence};
use crate::levels::ids::IdKey;
use crate::levels::posting::{Common, Posting};
use crate::namespaces::NamespaceNumber;

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

/// Which documents a look-up sees: those of one namespace that have not expired, and that were
/// stored late enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visibility {
    pub namespace: NamespaceNumber,
    pub mask: u64,
    /// The time of the look-up, in seconds since 1970.
    pub now_s: u32,
    /// The first change that counts.
    pub since: Sequence,
}

impl Visibility {
    /// Every document of the default namespace, as before any expires.
    pub const DEFAULT: Self =
        Self { namespace: NamespaceNumber::DEFAULT, mask: 0, now_s: 0, since: Sequence::ZERO };

    /// The same for documents of any age.
    #[must_use]
    pub const fn of_any_age(self) -> Self {
        Self { since: Sequence::ZERO, ..self }
    }

    /// Whether a document is seen.
    pub fn sees(&self, posting: Posting) -> bool {
        posting.namespace == self.namespace
            && posting.sequence >= self.since
            && !self.has_expired(posting)
    }

    /// Whether all documents of a list are seen, whatever their age.
    #[inline]
    pub fn sees_all(&self, common: &Common) -> bool {
        common.namespaces == (self.namespace, self.namespace)
            && common.expiries.is_none_or(|(first, _)| first.second() > self.now_s)
    }

    /// Whether a document has expired.
    pub fn has_expired(&self, posting: Posting) -> bool {
        posting.expiry.is_some_and(|expiry| expiry.second() <= self.now_s)
    }

    /// The fingerprint as it is indexed, and back.
    pub const fn masked(&self, fingerprint: Fingerprint) -> Fingerprint {
        Fingerprint::new(fingerprint.bits() ^ self.mask)
    }
}

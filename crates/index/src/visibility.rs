//! Namespaces, expiry and age: which stored documents a look-up sees.

use nearprint_fingerprint::Fingerprint;

use crate::document::Sequence;
use crate::levels::posting::{Common, Posting};
use crate::namespaces::NamespaceNumber;

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

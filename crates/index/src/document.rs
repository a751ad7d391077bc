//! What an index knows of a document besides its fingerprint: its namespace, when it came, and when
//! it expires.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The number of an accepted change, counted from 1 over the life of a data directory.
///
/// It is the age of a document (smaller is older) and the key of its journal record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(u64);

impl Sequence {
    /// The sequence before the first change.
    pub const ZERO: Self = Self(0);

    /// The change with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number; the first change has 1.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The change after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// When a document expires: a whole second since 1970, at most in the year 2106.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expiry(NonZeroU32);

impl Expiry {
    /// The last second that an expiry can name, in the year 2106.
    pub const MAX: Self = Self(NonZeroU32::MAX);

    /// At this second since 1970; `None` when it is 0 or above [`Self::MAX`].
    pub fn at(second: u64) -> Option<Self> {
        u32::try_from(second).ok().and_then(NonZeroU32::new).map(Self)
    }

    /// The second since 1970 from which on the document is not a hit.
    pub const fn second(self) -> u32 {
        self.0.get()
    }

    /// Whether it has passed at a time in milliseconds since 1970.
    pub const fn has_passed(self, now_ms: u64) -> bool {
        self.second() as u64 <= now_ms / 1_000
    }
}

/// The name of a namespace: 1 to [`Namespace::BYTES_MAX`] bytes of UTF-8. Cloning is shallow.
///
/// Documents meet only documents of their namespace.
///
/// ```
/// use nearprint_index::document::Namespace;
/// assert!(Namespace::new("news/a.example").is_ok());
/// assert!(Namespace::new("").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// The longest name, in bytes.
    pub const BYTES_MAX: usize = 256;

    /// Checks the length and takes the text.
    ///
    /// # Errors
    /// [`BadNamespace`] when it is empty or too long.
    pub fn new(text: impl AsRef<str> + Into<Arc<str>>) -> Result<Self, BadNamespace> {
        let bytes = text.as_ref().len();
        if (1..=Self::BYTES_MAX).contains(&bytes) {
            Ok(Self(text.into()))
        } else {
            Err(BadNamespace { bytes })
        }
    }

    /// The name, of 1 to [`Self::BYTES_MAX`] bytes.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The name of a namespace is empty or longer than [`Namespace::BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadNamespace {
    /// The length of the refused name in bytes.
    pub bytes: usize,
}

impl fmt::Display for BadNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a namespace has 1 to 256 bytes, this one has {}", self.bytes)
    }
}

impl std::error::Error for BadNamespace {}

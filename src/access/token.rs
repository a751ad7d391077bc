//! Tokens and their digests.

use std::fmt;
use std::str::FromStr;

use ring::digest;
use subtle::{Choice, ConstantTimeEq as _};

/// Every token begins with this, so that scanners for leaked secrets can find it.
const PREFIX: &str = "nearprint_";

/// Every digest begins with this.
const ALGORITHM: &str = "sha256:";

/// A new token, shown once by [`Token::reveal`] and never stored.
pub struct Token(String);

impl Token {
    /// Draws 256 random bits from the operating system.
    ///
    /// # Errors
    /// The operating system cannot provide random bits.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bits = [0; 32];
        getrandom::fill(&mut bits)?;
        Ok(Self(format!("{PREFIX}{}", Hex(&bits))))
    }

    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The digest that is stored in place of the token.
    pub fn digest(&self) -> TokenDigest {
        TokenDigest::of(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// The SHA-256 of a token.
#[derive(Debug, Clone)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// The digest of a text that was presented as a token.
    pub fn of(token: &str) -> Self {
        let sha256 = digest::digest(&digest::SHA256, token.as_bytes());
        Self(sha256.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// Whether both are equal, in a time that does not reveal where they differ.
    pub(super) fn same(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

/// `sha256:` and 64 hex digits.
impl fmt::Display for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}{}", Hex(&self.0))
    }
}

/// The text is not a digest. It is not quoted, because it may be a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoDigest;

impl FromStr for TokenDigest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let digits = text.strip_prefix(ALGORITHM).ok_or(NoDigest)?;
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        if !rest.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(NoDigest);
        }
        let byte = |pair: &[u8; 2]| {
            let pair = str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        };
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        Ok(Self(bytes.ok_or(NoDigest)?.try_into().map_err(|_| NoDigest)?))
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

//! The lines that define tokens, and the table made of them.
//!
//! ```text
//! # name   scopes       digest of the token    requests a second, namespaces (both optional)
//! crawler  read,write   sha256:9f86d081...     rate=200 namespaces=news/*,shop
//! ```

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use nearprint_engine::operator_file;
use nearprint_service::namespaces::{AllowedNamespaces, BadNamespaces};
use subtle::{Choice, ConditionallySelectable as _};

use super::permission::Permissions;
use super::token::TokenDigest;

/// The largest number of tokens: each is compared with the token of every request.
pub const TOKENS_MAX: usize = 1_000;

/// The largest file of tokens.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Why the tokens cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// Reading the file failed.
    #[error("cannot read the tokens of {}: {source}", path.display())]
    Unreadable {
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A line does not define a token.
    #[error("line {line} of {origin} names no token: {why}")]
    BadLine {
        /// Counted from 1.
        line: usize,
        /// The file, or the key of the configuration.
        origin: String,
        /// What is wrong with it. Static, so that it cannot quote a token.
        why: &'static str,
    },
    /// There is no token, so nobody could use the service.
    #[error("{origin} names no token at all")]
    Empty {
        /// The file, or the key of the configuration.
        origin: String,
    },
    /// There are more than [`TOKENS_MAX`].
    #[error("{origin} names more than {TOKENS_MAX} tokens")]
    TooMany {
        /// The file, or the key of the configuration.
        origin: String,
    },
}

/// Where the tokens are defined.
#[derive(Debug, Clone, Default)]
pub struct TokenSource {
    /// A file of lines, read again by [`super::Access::reload`].
    pub file: Option<PathBuf>,
    /// More lines, separated by line ends or `;`.
    pub lines: String,
    /// The rate of tokens whose line has none; `None` means no limit.
    pub requests_per_second: Option<NonZero<u32>>,
}

impl TokenSource {
    /// Whether it defines any token, so that requests need one.
    pub fn is_on(&self) -> bool {
        self.file.is_some() || !self.lines.trim().is_empty()
    }
}

#[derive(Debug)]
pub(super) struct TokenTable(Vec<TokenEntry>);

#[derive(Debug)]
pub(super) struct TokenEntry {
    /// The name of its client.
    pub(super) name: Arc<str>,
    digest: TokenDigest,
    pub(super) permissions: Permissions,
    pub(super) namespaces: AllowedNamespaces,
    /// Requests a second.
    pub(super) rate: Option<NonZero<u32>>,
    limiter: Option<DefaultDirectRateLimiter>,
}

impl TokenTable {
    /// Reads the file and the lines of a source.
    pub(super) fn read(source: &TokenSource) -> Result<Self, AccessError> {
        let mut entries = Vec::new();
        let mut origin = "access.tokens".to_owned();
        read_lines(source.lines.split(['\n', ';']), &origin, source, &mut entries)?;
        if let Some(path) = &source.file {
            origin = path.display().to_string();
            let text = operator_file::read_text(path, FILE_BYTES_MAX)
                .map_err(|source| AccessError::Unreadable { path: path.clone(), source })?;
            read_lines(text.lines(), &origin, source, &mut entries)?;
        }
        match entries.len() {
            0 => Err(AccessError::Empty { origin }),
            1..=TOKENS_MAX => Ok(Self(entries)),
            _ => Err(AccessError::TooMany { origin }),
        }
    }

    pub(super) fn length(&self) -> usize {
        self.0.len()
    }

    /// The entry with this digest. Visits every entry, so that the time reveals nothing.
    pub(super) fn find(&self, presented: &TokenDigest) -> Option<&TokenEntry> {
        // 0 means none; entry `i` has number `i + 1`.
        let mut found = 0_u32;
        for (number, entry) in (1..).zip(&self.0) {
            let same: Choice = entry.digest.same(presented);
            found.conditional_assign(&number, same);
        }
        self.0.get((found as usize).checked_sub(1)?)
    }
}

impl TokenEntry {
    /// Counts a request; the error is how long to wait when the rate is used up.
    pub(super) fn count(&self) -> Result<(), Duration> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        limiter.check().map_err(|until| until.wait_time_from(DefaultClock::default().now()))
    }
}

fn read_lines<'a>(
    lines: impl Iterator<Item = &'a str>,
    origin: &str,
    source: &TokenSource,
    entries: &mut Vec<TokenEntry>,
) -> Result<(), AccessError> {
    for (number, line) in (1..).zip(lines) {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            let bad = |why| AccessError::BadLine { line: number, origin: origin.to_owned(), why };
            entries.push(entry(line, source.requests_per_second).map_err(bad)?);
        }
    }
    Ok(())
}

fn entry(line: &str, rate: Option<NonZero<u32>>) -> Result<TokenEntry, &'static str> {
    let mut columns = line.split_whitespace();
    let (Some(name), Some(permissions), Some(digest)) =
        (columns.next(), columns.next(), columns.next())
    else {
        return Err("it needs a name, scopes and sha256:DIGEST; `nearprint token` prints a line");
    };
    let permissions =
        permissions.parse().map_err(|_| "scopes are read, write and admin, with commas")?;
    let digest = digest
        .parse()
        .map_err(|_| "the third column must be sha256: and 64 hex digits, not the token itself")?;
    let (mut own_rate, mut namespaces) = (None, None);
    for column in columns {
        match column.split_once('=') {
            Some(("rate", number)) if own_rate.is_none() => {
                own_rate = Some(number.parse().map_err(|_| "rate= takes a number from 1 on")?);
            }
            Some(("namespaces", list)) if namespaces.is_none() => {
                namespaces = Some(list.parse().map_err(BadNamespaces::why)?);
            }
            _ => return Err("after the digest it may have only rate= and namespaces=, once each"),
        }
    }
    let rate = own_rate.or(rate);
    Ok(TokenEntry {
        name: name.into(),
        digest,
        permissions,
        namespaces: namespaces.unwrap_or(AllowedNamespaces::ALL),
        rate,
        limiter: rate.map(|rate| RateLimiter::direct(Quota::per_second(rate))),
    })
}

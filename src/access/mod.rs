//! Who may do what: bearer tokens with scopes, and how many requests a second each may send.
//!
//! A token is 256 random bits, so a plain SHA-256 of it can be kept: what slows a guesser down
//! (salt, many rounds) is for passwords that people choose. Tokens themselves are nowhere: not in a
//! file, a log, an error or the memory of the process beyond the request that carries one.
//!
//! - [`token`] makes tokens and their digests, and compares those in constant time.
//! - [`table`] reads the lines that name tokens, and finds the one that was presented.
//!
//! Knows no HTTP: [`crate::http`] says which scope a route needs and how a denial is answered.
//! Cost of a check: one SHA-256 and 32 bytes compared for each token there is, at most
//! [`TOKENS_MAX`]; about a microsecond with a handful.

mod table;
mod token;

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use arc_swap::ArcSwapOption;

pub use table::{AccessError, TOKENS_MAX};
pub use token::{Digest, Token};

use table::Table;

/// What a token may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// To look up, and to see numbers.
    Read,
    /// To store and to forget.
    Write,
    /// To do what only an operator does: snapshots.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// Its name in lines, options and errors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::Write => 2,
            Self::Admin => 4,
        }
    }
}

/// Some scopes, none of which includes another.
///
/// ```
/// use nearprint::access::{Scope, Scopes};
/// let scopes: Scopes = "read,write".parse().unwrap();
/// assert!(scopes.have(Scope::Write) && !scopes.have(Scope::Admin));
/// assert_eq!(scopes.to_string(), "read,write");
/// assert!("reed".parse::<Scopes>().is_err() && "".parse::<Scopes>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// Whether this one is among them.
    pub const fn have(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }
}

/// A word that is no scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("scopes are read, write and admin, with commas between them")]
pub struct NoScope;

impl std::str::FromStr for Scopes {
    type Err = NoScope;

    fn from_str(text: &str) -> Result<Self, NoScope> {
        let mut bits = 0;
        for name in text.split(',') {
            let scope = Scope::ALL.into_iter().find(|scope| scope.name() == name.trim());
            bits |= scope.ok_or(NoScope)?.bit();
        }
        Ok(Self(bits))
    }
}

impl std::fmt::Display for Scopes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = Scope::ALL.into_iter().filter(|&scope| self.have(scope)).map(Scope::name);
        f.write_str(&names.collect::<Vec<_>>().join(","))
    }
}

/// Where the tokens are named.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// A file of lines, read again by [`Access::reload`].
    pub file: Option<PathBuf>,
    /// More lines; `;` ends one as well.
    pub lines: String,
    /// How many requests a second a token may send whose line does not say; `None` is no limit.
    pub requests_per_second: Option<NonZero<u32>>,
}

impl Source {
    /// Whether tokens are asked for at all.
    pub fn is_on(&self) -> bool {
        self.file.is_some() || !self.lines.trim().is_empty()
    }
}

/// What a request asks to be let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: it is open to all.
    Nothing,
    /// A token, whatever its scopes.
    Token,
    /// A token with this scope.
    Scope(Scope),
}

/// Why a request is not let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// It brought no token.
    NoToken,
    /// It brought one that is not known.
    UnknownToken,
    /// Its token has not the scope.
    NoScope(Scope),
    /// Its token was used too often; when it may be used again.
    TooMany(Duration),
}

/// The tokens in effect.
#[derive(Debug)]
pub struct Access {
    source: Source,
    table: ArcSwapOption<Table>,
}

impl Access {
    /// Reads the tokens. Without a source everybody is let through.
    ///
    /// # Errors
    /// [`AccessError`] names the file and the line, and never what stands there.
    pub fn open(source: Source) -> Result<Self, AccessError> {
        let table = source.is_on().then(|| Table::read(&source)).transpose()?;
        Ok(Self { source, table: ArcSwapOption::from_pointee(table) })
    }

    /// Reads the tokens again; how many there are. After an error the old ones stay in effect.
    ///
    /// # Errors
    /// As [`Access::open`].
    pub fn reload(&self) -> Result<usize, AccessError> {
        if !self.is_on() {
            return Ok(0);
        }
        let table = Table::read(&self.source)?;
        let count = table.length();
        self.table.store(Some(table.into()));
        Ok(count)
    }

    /// Whether tokens are asked for.
    pub fn is_on(&self) -> bool {
        self.source.is_on()
    }

    /// Lets a request through that presents this token, and counts it.
    ///
    /// # Errors
    /// [`Denied`] says what is missing.
    pub fn admit(&self, presented: Option<&str>, need: Need) -> Result<(), Denied> {
        let table = self.table.load();
        let Some(table) = table.as_ref() else { return Ok(()) };
        if need == Need::Nothing {
            return Ok(());
        }
        let presented = Digest::of(presented.ok_or(Denied::NoToken)?);
        let entry = table.find(&presented).ok_or(Denied::UnknownToken)?;
        if let Need::Scope(scope) = need
            && !entry.scopes.have(scope)
        {
            return Err(Denied::NoScope(scope));
        }
        entry.count().map_err(Denied::TooMany)
    }
}

#[cfg(test)]
mod tests;

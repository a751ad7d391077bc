//! Scopes: what a token allows.

/// What a token may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Look-ups and statistics.
    Read,
    /// Inserts and removals.
    Write,
    /// Operator tasks such as snapshots.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// The name in token lines, options and errors.
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

/// A set of scopes. No scope includes another.
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
    /// Whether the set contains this scope.
    pub const fn have(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }
}

/// The text is not a list of scopes.
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

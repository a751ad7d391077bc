//! Permissions: what a token allows. Users know them as its scopes.

/// What a token may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Look-ups and statistics.
    Read,
    /// Inserts and removals.
    Write,
    /// Operator tasks such as snapshots.
    Admin,
}

impl Permission {
    /// Every permission.
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

/// A set of permissions. No permission includes another.
///
/// ```
/// use nearprint::access::{Permission, Permissions};
/// let permissions: Permissions = "read,write".parse().unwrap();
/// assert!(permissions.have(Permission::Write) && !permissions.have(Permission::Admin));
/// assert_eq!(permissions.to_string(), "read,write");
/// assert!("reed".parse::<Permissions>().is_err() && "".parse::<Permissions>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permissions(u8);

impl Permissions {
    /// All of them.
    pub const ALL: Self = Self(7);

    /// Whether the set contains this permission.
    pub const fn have(self, permission: Permission) -> bool {
        self.0 & permission.bit() != 0
    }

    /// The names of those that the set contains.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Permission::ALL.into_iter().filter(move |&it| self.have(it)).map(Permission::name)
    }
}

/// The text is not a list of permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("scopes are read, write and admin, with commas between them")]
pub struct NotPermissions;

impl std::str::FromStr for Permissions {
    type Err = NotPermissions;

    fn from_str(text: &str) -> Result<Self, NotPermissions> {
        let mut bits = 0;
        for name in text.split(',') {
            let permission = Permission::ALL.into_iter().find(|known| known.name() == name.trim());
            bits |= permission.ok_or(NotPermissions)?.bit();
        }
        Ok(Self(bits))
    }
}

impl std::fmt::Display for Permissions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(","))
    }
}

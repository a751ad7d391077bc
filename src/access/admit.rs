//! Whether a request is admitted: the tokens in effect, and what a request must present.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use nearprint_service::namespaces::AllowedNamespaces;

use super::permission::{Permission, Permissions};
use super::table::{AccessError, TokenEntry, TokenSource, TokenTable};
use super::token::TokenDigest;

/// What a request must present to be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: the route is open to everybody.
    Nothing,
    /// Any token, whatever it permits.
    Token,
    /// A token with this permission.
    Permission(Permission),
}

impl From<Permission> for Need {
    fn from(permission: Permission) -> Self {
        Self::Permission(permission)
    }
}

/// Why a request is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// The request has no token.
    NoToken,
    /// Its token is not known.
    UnknownToken,
    /// Its token lacks this permission.
    NoPermission(Permission),
    /// Its token has used up its rate; it may be used again after this time.
    TooMany(Duration),
}

/// A request that is admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The namespaces that it may reach: those of its token, and none if it needs nothing.
    pub namespaces: AllowedNamespaces,
    /// The name of its token, which stays the same when the token is replaced; `None` if it needs
    /// none. Lines with the same name are one client.
    pub token: Option<Arc<str>>,
}

/// What a token allows, for whoever has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// The name of the token; `None` where none is needed.
    pub name: Option<Arc<str>>,
    /// What it may be used for.
    pub permissions: Permissions,
    /// The namespaces that it reaches.
    pub namespaces: AllowedNamespaces,
    /// How many requests a second it may send; `None` for any number.
    pub rate: Option<NonZero<u32>>,
}

/// The tokens in effect.
#[derive(Debug)]
pub struct Access {
    source: TokenSource,
    table: ArcSwapOption<TokenTable>,
}

impl Access {
    /// Reads the tokens. An empty source admits everybody.
    ///
    /// # Errors
    /// [`AccessError`] names the file and the line, but never quotes the line.
    pub fn open(source: TokenSource) -> Result<Self, AccessError> {
        let table = source.is_on().then(|| TokenTable::read(&source)).transpose()?;
        Ok(Self { source, table: ArcSwapOption::from_pointee(table) })
    }

    /// Reads the tokens again and returns their number. After an error the old ones stay in effect.
    ///
    /// # Errors
    /// As [`Access::open`].
    pub fn reload(&self) -> Result<usize, AccessError> {
        if !self.is_on() {
            return Ok(0);
        }
        let table = TokenTable::read(&self.source)?;
        let count = table.length();
        self.table.store(Some(table.into()));
        Ok(count)
    }

    /// Whether requests need a token.
    pub fn is_on(&self) -> bool {
        self.source.is_on()
    }

    /// How many tokens are in effect.
    pub fn tokens(&self) -> usize {
        self.table.load().as_ref().map_or(0, |table| table.length())
    }

    /// The name of a token, if it is in effect.
    pub fn name_of(&self, presented: &str) -> Option<Arc<str>> {
        let table = self.table.load();
        let entry = table.as_ref()?.find(&TokenDigest::of(presented))?;
        Some(Arc::clone(&entry.name))
    }

    /// Admits a request with this token, and counts it towards the token's rate.
    ///
    /// # Errors
    /// [`Denied`] is the reason.
    pub fn admit(&self, presented: Option<&str>, need: Need) -> Result<Admitted, Denied> {
        let without_token = |namespaces| Ok(Admitted { namespaces, token: None });
        let table = self.table.load();
        let Some(table) = table.as_ref() else { return without_token(AllowedNamespaces::ALL) };
        if need == Need::Nothing {
            return without_token(AllowedNamespaces::none());
        }
        let entry = entry(table, presented)?;
        if let Need::Permission(permission) = need
            && !entry.permissions.have(permission)
        {
            return Err(Denied::NoPermission(permission));
        }
        entry.count().map_err(Denied::TooMany)?;
        Ok(Admitted { namespaces: entry.namespaces.clone(), token: Some(Arc::clone(&entry.name)) })
    }

    /// What a request with this token may do. Does not count towards the token's rate.
    ///
    /// # Errors
    /// [`Denied::NoToken`] and [`Denied::UnknownToken`].
    pub fn rights(&self, presented: Option<&str>) -> Result<Rights, Denied> {
        let table = self.table.load();
        let Some(table) = table.as_ref() else {
            let (permissions, namespaces) = (Permissions::ALL, AllowedNamespaces::ALL);
            return Ok(Rights { name: None, permissions, namespaces, rate: None });
        };
        let entry = entry(table, presented)?;
        Ok(Rights {
            name: Some(Arc::clone(&entry.name)),
            permissions: entry.permissions,
            namespaces: entry.namespaces.clone(),
            rate: entry.rate,
        })
    }
}

/// The entry of a token.
fn entry<'t>(table: &'t TokenTable, presented: Option<&str>) -> Result<&'t TokenEntry, Denied> {
    let presented = TokenDigest::of(presented.ok_or(Denied::NoToken)?);
    table.find(&presented).ok_or(Denied::UnknownToken)
}

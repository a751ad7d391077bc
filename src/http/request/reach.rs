//! The namespaces that a request may reach, for the routes that know which one it concerns.
//!
//! [`crate::http::middleware::access`] puts it into the extensions of a request whose token is
//! limited to namespaces. Any other request carries nothing there and reaches everything, so
//! services without such tokens pay nothing for it.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use nearprint_engine::document::{Document, Namespace, Sequence};

use crate::access::AllowedNamespaces;
use crate::http::problem::{Code, Problem, quoted};

/// The namespaces that a request may reach. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct NamespaceAccess(AllowedNamespaces);

impl NamespaceAccess {
    /// Everything.
    pub(crate) const ALL: Self = Self(AllowedNamespaces::ALL);

    pub(crate) const fn new(namespaces: AllowedNamespaces) -> Self {
        Self(namespaces)
    }

    /// The reach of the request with these extensions.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or(Self::ALL)
    }

    /// Refuses a request that concerns this namespace; `None` is the default namespace.
    pub(crate) fn check(&self, namespace: Option<&str>) -> Result<(), Problem> {
        if self.0.admits(namespace) {
            return Ok(());
        }
        let detail = match namespace {
            None => {
                "The token of this request is limited to other namespaces than the default one."
                    .to_owned()
            }
            Some(name) => {
                format!("The token of this request does not reach the namespace {}.", quoted(name))
            }
        };
        Err(Problem::new(Code::NamespaceNotAllowed, detail))
    }

    /// Refuses a request that concerns the namespace of this document.
    pub(crate) fn check_document(&self, document: &Document) -> Result<(), Problem> {
        self.check(document.namespace.as_ref().map(Namespace::as_str))
    }

    /// Whether a namespace may be shown; `None` is the default namespace.
    pub(crate) fn admits(&self, namespace: Option<&str>) -> bool {
        self.0.admits(namespace)
    }

    /// Whether it reaches everything. Otherwise no reply may have a number that grows with what
    /// others do.
    pub(crate) const fn is_unlimited(&self) -> bool {
        !self.0.is_limited()
    }

    /// The number of a change among those of all namespaces, as replies show it.
    pub(crate) fn sequence(&self, sequence: Sequence) -> Option<u64> {
        self.is_unlimited().then_some(sequence.get())
    }

    /// Refuses a request that concerns all namespaces at once.
    pub(crate) fn check_all(&self) -> Result<(), Problem> {
        if self.is_unlimited() {
            return Ok(());
        }
        let detail = "The token of this request is limited to certain namespaces, and this resource \
                      concerns all of them.";
        Err(Problem::new(Code::NamespaceNotAllowed, detail))
    }
}

impl<S: Sync> FromRequestParts<S> for NamespaceAccess {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.extensions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_a_limited_token_reaches_everything() {
        let reach = NamespaceAccess::of(&Extensions::new());
        assert!(reach.check(None).is_ok() && reach.check(Some("a")).is_ok());
        assert!(reach.check_all().is_ok());
    }

    #[test]
    fn a_limited_token_reaches_its_namespaces_alone() {
        let mut extensions = Extensions::new();
        extensions.insert(NamespaceAccess::new("a,b*".parse().unwrap()));
        let reach = NamespaceAccess::of(&extensions);
        assert!(reach.check(Some("a")).is_ok() && reach.check(Some("bc")).is_ok());
        for refused in [reach.check(None), reach.check(Some("c")), reach.check_all()] {
            assert!(refused.is_err_and(|problem| problem.is(Code::NamespaceNotAllowed)));
        }
    }
}

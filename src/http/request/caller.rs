//! Who sends a request.
//!
//! [`crate::http::middleware::access`] notes the client of a request that has a token, and the
//! namespaces of one whose token is limited to some. Any other request reaches everything, so
//! services without such tokens pay nothing for it.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use nearprint_engine::Client;
use nearprint_service::{AllowedNamespaces, Caller};

/// The address that a connection comes from; the accept loop puts it into every request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerAddress(pub(crate) IpAddr);

/// The client of a request.
pub(crate) fn client_of(extensions: &Extensions) -> Client {
    let address =
        || extensions.get().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |PeerAddress(at)| *at);
    extensions.get().cloned().unwrap_or_else(|| Client::at(address()))
}

/// The namespaces that a request reaches.
pub(crate) fn namespaces_of(extensions: &Extensions) -> AllowedNamespaces {
    extensions.get().cloned().unwrap_or(AllowedNamespaces::ALL)
}

/// Who sends a request.
pub(crate) fn caller_of(extensions: &Extensions) -> Caller {
    Caller { client: client_of(extensions), namespaces: namespaces_of(extensions) }
}

/// Who sends the request of a handler.
pub(crate) struct CalledBy(pub(crate) Caller);

impl<S: Sync> FromRequestParts<S> for CalledBy {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(caller_of(&parts.extensions)))
    }
}

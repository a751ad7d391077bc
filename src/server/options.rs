//! What the server needs to know, as the configuration gives it after checking every range.

use std::net::SocketAddr;
use std::time::Duration;

use super::tls::TlsSource;
use crate::replicas::Replica;
use crate::{access, http, telemetry};

/// Everything that a running service needs, in the types of the modules it goes to.
#[derive(Debug, Clone)]
pub struct Settings {
    pub listen: SocketAddr,
    /// Connections, tokens and the certificate.
    pub server: ServerOptions,
    /// Bodies, limits and defaults of requests.
    pub http: http::HttpOptions,
    pub engine: nearprint_engine::Options,
    /// Whom it copies, if it is a follower or a node of a cluster.
    pub replica: Option<Replica>,
    pub log: telemetry::LogOptions,
}

/// Connections and their timeouts, the tokens and the certificate.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// How long the head of a request, or a TLS handshake, may take.
    pub header_timeout: Duration,
    /// How long a connection may be idle between requests.
    pub idle_timeout: Duration,
    /// How long a client may read nothing of its reply.
    pub reply_timeout: Duration,
    /// The maximum number of open connections.
    pub connections_max: usize,
    /// How long accepted requests may take to finish once the service stops.
    pub shutdown_grace: Duration,
    pub access: access::TokenSource,
    /// Where the certificate is; `None` serves plain HTTP.
    pub tls: Option<TlsSource>,
}

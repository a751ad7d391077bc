//! The tokens and the certificate: read at the start, and again on SIGHUP.

use std::sync::Arc;

use super::error::ServeError;
use super::options::ServerOptions;
use super::tls::Tls;
use crate::access::Access;

/// The tokens that are accepted, and the certificate that is shown.
#[derive(Debug, Clone)]
pub(super) struct Credentials {
    pub(super) access: Arc<Access>,
    /// `None` for plain HTTP.
    pub(super) tls: Option<Arc<Tls>>,
}

impl Credentials {
    pub(super) fn open(options: &ServerOptions) -> Result<Self, ServeError> {
        let access = Arc::new(Access::open(options.access.clone())?);
        let tls = options.tls.clone().map(Tls::open).transpose()?.map(Arc::new);
        Ok(Self { access, tls })
    }

    /// Reads both again. One that cannot be read stays as it was.
    pub(super) fn reload(&self) {
        match self.access.reload() {
            Ok(tokens) => tracing::info!(tokens, "tokens read again"),
            Err(error) => tracing::error!(%error, "the tokens stay as they were"),
        }
        match self.tls.as_ref().map(|tls| tls.reload()) {
            None => {}
            Some(Ok(())) => tracing::info!("certificate read again"),
            Some(Err(error)) => tracing::error!(%error, "the certificate stays as it was"),
        }
    }
}

//! TLS: the certificate and its key, read from two files at the start and again on demand.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use nearprint_engine::operator_file;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The largest file of certificates or of a key.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// Where the certificate is.
#[derive(Debug, Clone)]
pub struct TlsSource {
    /// The certificate with its chain to a root, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

/// Why the certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file is not PEM, or contains something else.
    #[error("{} is not PEM with {wanted}: {source}", path.display())]
    NotPem {
        path: PathBuf,
        /// What it should contain.
        wanted: &'static str,
        /// The parser's error.
        source: pem::Error,
    },
    /// Certificate and key do not belong together, or are of an unsupported kind.
    #[error("{} cannot be used with its key: {source}", path.display())]
    Unusable {
        path: PathBuf,
        /// The error of the TLS library.
        source: rustls::Error,
    },
}

/// The certificate in effect.
#[derive(Debug)]
pub(super) struct Tls {
    source: TlsSource,
    config: ArcSwap<ServerConfig>,
}

impl Tls {
    pub(super) fn open(source: TlsSource) -> Result<Self, TlsError> {
        let config = ArcSwap::new(read(&source)?);
        Ok(Self { source, config })
    }

    /// Reads the files again; new connections get the new certificate. After an error the old one
    /// stays in effect.
    pub(super) fn reload(&self) -> Result<(), TlsError> {
        self.config.store(read(&self.source)?);
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.load_full())
    }
}

fn read(source: &TlsSource) -> Result<Arc<ServerConfig>, TlsError> {
    let not_pem =
        |path: &Path, wanted, source| TlsError::NotPem { path: path.to_owned(), wanted, source };
    let chain = CertificateDer::pem_slice_iter(&bytes(&source.certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .and_then(|chain| if chain.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(chain) })
        .map_err(|error| not_pem(&source.certificate, "a certificate", error))?;
    let key = PrivateKeyDer::from_pem_slice(&bytes(&source.key)?)
        .map_err(|error| not_pem(&source.key, "a private key", error))?;
    let unusable = |error| TlsError::Unusable { path: source.certificate.clone(), source: error };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn bytes(path: &Path) -> Result<Vec<u8>, TlsError> {
    operator_file::read(path, PEM_BYTES_MAX)
        .map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}

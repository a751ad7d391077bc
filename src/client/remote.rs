//! HTTP to another nearprint service from a thread that may block: timeouts, trusted certificates,
//! and the token to send.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nearprint_engine::operator_file;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// The largest file with a token.
const TOKEN_FILE_BYTES_MAX: u64 = 4 << 10;
/// The largest file of trusted certificates.
const ROOTS_BYTES_MAX: u64 = 16 << 20;

/// A file that a client of another service needs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// It cannot be read.
    #[error("cannot read {what} of {}: {source}", file.display())]
    Unreadable {
        /// What it is to contain.
        what: &'static str,
        file: PathBuf,
        source: io::Error,
    },
    /// It does not contain one token.
    #[error("{} does not contain one token and nothing else", .0.display())]
    NotAToken(PathBuf),
    /// It is not PEM.
    #[error("{} is not PEM: {why}", file.display())]
    NotPem { file: PathBuf, why: String },
    /// It has no certificate.
    #[error("there is no certificate in {}", .0.display())]
    NoCertificate(PathBuf),
}

/// An agent that follows no redirects, uses no proxy, and reports every status as a reply.
pub(crate) fn agent(tls: TlsConfig, read: Duration) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .proxy(None)
        .tls_config(tls)
        .max_redirects(0)
        .timeout_connect(Some(Duration::from_secs(5)))
        .timeout_per_read(Some(read))
        .timeout_per_write(Some(Duration::from_mins(2)))
        .build();
    config.into()
}

/// Trusts the certificates of a PEM file, or those of public authorities without one.
///
/// # Errors
/// [`RemoteError`].
pub(crate) fn trusting(file: Option<&Path>) -> Result<TlsConfig, RemoteError> {
    let Some(file) = file else { return Ok(TlsConfig::default()) };
    let certificates = certificates(file)?;
    let certificates = certificates.iter().map(|der| Certificate::from_der(der).to_owned());
    let roots = RootCerts::new_with_certs(&certificates.collect::<Vec<_>>());
    Ok(TlsConfig::builder().root_certs(roots).build())
}

/// The same for clients that use rustls themselves.
///
/// # Errors
/// [`RemoteError`].
pub(crate) fn root_store(file: &Path) -> Result<RootCertStore, RemoteError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(file)? {
        store.add(certificate).map_err(|error| RemoteError::NotPem {
            file: file.to_owned(),
            why: error.to_string(),
        })?;
    }
    Ok(store)
}

/// The certificates of a PEM file, at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, RemoteError> {
    let text = read(file, "the certificates", ROOTS_BYTES_MAX)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let read = read
        .map_err(|error| RemoteError::NotPem { file: file.to_owned(), why: error.to_string() })?;
    if read.is_empty() {
        return Err(RemoteError::NoCertificate(file.to_owned()));
    }
    Ok(read)
}

/// Reads a file with a token and nothing else.
///
/// # Errors
/// [`RemoteError`].
pub(crate) fn read_token(file: &Path) -> Result<String, RemoteError> {
    let text = read(file, "the token", TOKEN_FILE_BYTES_MAX)?;
    let mut words = text.split_whitespace();
    match (words.next(), words.next()) {
        (Some(token), None) => Ok(token.to_owned()),
        _ => Err(RemoteError::NotAToken(file.to_owned())),
    }
}

fn read(file: &Path, what: &'static str, bytes_max: u64) -> Result<String, RemoteError> {
    operator_file::read_text(file, bytes_max).map_err(|source| RemoteError::Unreadable {
        what,
        file: file.to_owned(),
        source,
    })
}

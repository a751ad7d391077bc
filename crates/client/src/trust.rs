//! Whose certificates a client trusts, and the token that it sends.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt as _;
use nearprint_storage::operator_file;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

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
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It does not contain one token.
    #[error("{} does not contain one token and nothing else", .0.display())]
    NotAToken(PathBuf),
    /// It is not PEM.
    #[error("{} is not PEM: {why}", file.display())]
    NotPem {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It has no certificate.
    #[error("there is no certificate in {}", .0.display())]
    NoCertificate(PathBuf),
}

/// Whose certificates are trusted.
#[derive(Debug, Clone, Copy)]
pub enum Trust<'a> {
    /// Those of public authorities.
    Public,
    /// Those of this PEM file, and no others.
    File(&'a Path),
    /// Any. For a probe of a service on this machine: its certificate is not for a loopback
    /// address, and the probe sends no secret.
    Anybody,
}

impl<'a> From<Option<&'a Path>> for Trust<'a> {
    /// Those of a file, or those of public authorities without one.
    fn from(file: Option<&'a Path>) -> Self {
        file.map_or(Self::Public, Self::File)
    }
}

/// TLS that trusts these certificates.
///
/// # Errors
/// [`RemoteError`]: the file cannot be used.
pub fn tls(trust: Trust<'_>) -> Result<ClientConfig, RemoteError> {
    let config = ClientConfig::builder();
    Ok(match trust {
        Trust::Public => config.with_webpki_roots().with_no_client_auth(),
        Trust::File(file) => config.with_root_certificates(root_store(file)?).with_no_client_auth(),
        Trust::Anybody => config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustsAnybody))
            .with_no_client_auth(),
    })
}

fn root_store(file: &Path) -> Result<RootCertStore, RemoteError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(file)? {
        store.add(certificate).map_err(|error| RemoteError::NotPem {
            file: file.to_owned(),
            why: error.to_string(),
        })?;
    }
    Ok(store)
}

/// Accepts every certificate, with a signature of any kind.
#[derive(Debug)]
struct TrustsAnybody;

impl ServerCertVerifier for TrustsAnybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
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
pub fn read_token(file: &Path) -> Result<String, RemoteError> {
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

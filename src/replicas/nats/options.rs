//! How the servers are reached, and how a stream is made.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::{Auth, AuthError, Client, ConnectOptions, Event, ServerAddr};
use nearprint_engine::operator_file;

use super::NatsError;

/// A server that does not accept a connection in this time is passed over.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the server is asked for a sign of life. After the third without an answer the client
/// goes to another server.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// The longest pause between two attempts to connect. Short, because nothing is written meanwhile.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(500);

/// The largest file with a password or credentials.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// Where a log is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NatsOptions {
    /// URLs of some of the servers, such as `nats://10.0.0.1:4222`; `tls://` requires TLS. They
    /// tell of the others.
    pub servers: Vec<String>,
    /// URLs at which the servers can be monitored, such as `http://10.0.0.1:8222`: the only place
    /// where they tell whether they sync.
    pub monitors: Vec<String>,
    /// What the node proves who it is with.
    pub sign_in: SignIn,
    /// The certificates by which servers are trusted, PEM; those of the system without it.
    pub roots: Option<PathBuf>,
    /// The log's name. Its stream is `NEARPRINT_` and this.
    pub name: String,
}

/// What a node proves who it is with.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum SignIn {
    /// Nothing.
    #[default]
    Nothing,
    /// A credentials file, as `nsc` makes it.
    Credentials(PathBuf),
    /// A user and a password.
    Password {
        /// The user.
        user: String,
        /// The file with the password and nothing else.
        file: PathBuf,
    },
    /// A token.
    Token(String),
}

impl fmt::Debug for SignIn {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Credentials(_) => "Credentials",
            Self::Password { .. } => "Password",
            Self::Token(_) => "Token",
        })
    }
}

/// How a stream is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewStream {
    /// How many servers keep each entry.
    pub replicas: u32,
    /// The size from which it discards its oldest entries.
    pub bytes_max: u64,
}

impl Default for NewStream {
    fn default() -> Self {
        Self { replicas: 3, bytes_max: 64 << 30 }
    }
}

/// Why there is no connection, as the client of the log has told it last.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionFault(Arc<Mutex<Option<String>>>);

impl ConnectionFault {
    pub(super) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, fault: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}

impl SignIn {
    /// What a server is shown that has sent this nonce. The files are read each time, so that what
    /// they say may change while a node runs.
    fn auth(&self, nonce: &[u8]) -> Result<Auth, NatsError> {
        let mut auth = Auth::new();
        match self {
            Self::Nothing => {}
            Self::Credentials(path) => {
                let unusable = |source| NatsError::Options {
                    what: format!("credentials file {}", path.display()),
                    source,
                };
                let text = operator_file::read_text(path, SECRET_BYTES_MAX).map_err(unusable)?;
                let (jwt, seed) = jwt_and_seed(&text).ok_or_else(|| {
                    unusable(invalid("it has no user JWT and seed, as nsc writes them"))
                })?;
                let signed = nkeys::KeyPair::from_seed(seed).and_then(|key| key.sign(nonce));
                auth.signature = Some(signed.map_err(|error| unusable(invalid(error)))?);
                auth.jwt = Some(jwt.to_owned());
            }
            Self::Password { user, file } => {
                let text = operator_file::read_text(file, SECRET_BYTES_MAX).map_err(|source| {
                    let what = format!("password file {}", file.display());
                    NatsError::Options { what, source }
                })?;
                auth.username = Some(user.clone());
                auth.password = Some(text.trim_end_matches(['\r', '\n']).to_owned());
            }
            Self::Token(token) => auth.token = Some(token.clone()),
        }
        Ok(auth)
    }
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The two blocks of a credentials file: what stands after a line of dashes with a title.
fn jwt_and_seed(text: &str) -> Option<(&str, &str)> {
    let mut blocks = text.split("-----BEGIN ").skip(1).map(|block| block.lines().nth(1));
    Some((blocks.next()??.trim(), blocks.next()??.trim()))
}

impl NatsOptions {
    pub(super) async fn connect(&self) -> Result<(Client, ConnectionFault), NatsError> {
        let servers = self.servers.iter().map(|server| {
            let address = server.parse::<ServerAddr>();
            address
                .map_err(|source| NatsError::Options { what: format!("server {server:?}"), source })
        });
        let servers = servers.collect::<Result<Vec<_>, _>>()?;
        // A file that cannot be used is told at once.
        self.sign_in.auth(b"")?;
        let (sign_in, fault) = (self.sign_in.clone(), ConnectionFault::default());
        let signs_in = move |nonce: Vec<u8>| {
            let auth = sign_in.auth(&nonce).map_err(|error| AuthError::new(error.to_string()));
            std::future::ready(auth)
        };
        let kept = fault.clone();
        let mut options = ConnectOptions::with_auth_callback(signs_in)
            .name("nearprint")
            .connection_timeout(CONNECT_TIMEOUT)
            .request_timeout(Some(super::REQUEST_TIMEOUT))
            .ping_interval(PING_INTERVAL)
            .reconnect_delay_callback(reconnect_pause)
            .event_callback(move |event| {
                report(event, &kept);
                std::future::ready(())
            });
        if let Some(roots) = &self.roots {
            options = options.add_root_certificates(roots.clone());
        }
        let connected = options.connect(servers).await;
        let client = connected.map_err(|error| NatsError::Unreachable(error.to_string()))?;
        Ok((client, fault))
    }
}

/// Nothing before the first attempt: servers that are left are tried at once.
fn reconnect_pause(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(2)).unwrap_or(u32::MAX);
    let pause = Duration::from_millis(10).saturating_mul(2_u32.saturating_pow(doublings));
    if attempts <= 1 { Duration::ZERO } else { pause.min(RECONNECT_PAUSE_MAX) }
}

fn report(event: Event, fault: &ConnectionFault) {
    match event {
        Event::Connected => {
            fault.set(None);
            tracing::info!("connected to the log");
        }
        Event::Disconnected | Event::Closed => tracing::warn!("disconnected from the log"),
        Event::SlowConsumer(_) => tracing::warn!("entries of the log were read too slowly"),
        Event::ServerError(error) => {
            fault.set(Some(error.to_string()));
            tracing::warn!(%error, "a server of the log reports an error");
        }
        Event::ClientError(error) => {
            fault.set(Some(error.to_string()));
            tracing::warn!(%error, "the client of the log reports an error");
        }
        Event::LameDuckMode | Event::Draining => {
            tracing::info!("a server of the log is about to stop");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_half_a_second() {
        let pauses = [0, 1, 2, 3, 7, 8, usize::MAX].map(|n| reconnect_pause(n).as_millis());
        assert_eq!(pauses, [0, 0, 10, 20, 320, 500, 500]);
    }

    #[test]
    fn a_credentials_file_has_a_jwt_and_a_seed() {
        let file = "-----BEGIN NATS USER JWT-----\neyJ0.e-Q_\n------END NATS USER JWT------\n\n\
                    *** keep it\n\n-----BEGIN USER NKEY SEED-----\r\nSUAIO\r\n------END USER";
        assert_eq!(jwt_and_seed(file), Some(("eyJ0.e-Q_", "SUAIO")));
        assert_eq!(jwt_and_seed("-----BEGIN NATS USER JWT-----\neyJ0\n"), None);
        assert_eq!(jwt_and_seed(""), None);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a file of a test")]
    fn a_password_is_read_again_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let sign_in = SignIn::Password { user: "node".to_owned(), file: file.clone() };
        assert!(sign_in.auth(b"").is_err_and(|error| error.to_string().contains("password")));
        for password in ["one", "two"] {
            std::fs::write(&file, format!("{password}\n")).unwrap();
            assert_eq!(sign_in.auth(b"").unwrap().password.as_deref(), Some(password));
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let token = SignIn::Token("secret".to_owned());
        assert!(!format!("{token:?}").contains("secret"));
    }
}

//! How the servers are reached, and how a stream is made.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use nearprint_engine::operator_file;

use super::NatsError;

/// A server that does not accept a connection in this time is passed over.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the server is asked for a sign of life. After the third without an answer the client
/// goes to another server.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// The longest pause between two attempts to connect. Short, because nothing is written meanwhile.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(500);

/// The largest file with a password.
const PASSWORD_BYTES_MAX: u64 = 4 << 10;

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

impl NatsOptions {
    pub(super) async fn connect(&self) -> Result<Client, NatsError> {
        let servers = self.servers.iter().map(|server| {
            let address = server.parse::<ServerAddr>();
            address
                .map_err(|source| NatsError::Options { what: format!("server {server:?}"), source })
        });
        let servers = servers.collect::<Result<Vec<_>, _>>()?;
        let mut options = ConnectOptions::new()
            .name("nearprint")
            .connection_timeout(CONNECT_TIMEOUT)
            .request_timeout(Some(super::REQUEST_TIMEOUT))
            .ping_interval(PING_INTERVAL)
            .reconnect_delay_callback(reconnect_pause)
            .event_callback(report);
        options = match &self.sign_in {
            SignIn::Nothing => options,
            SignIn::Credentials(path) => {
                let what = || format!("credentials file {}", path.display());
                let signed = options.credentials_file(path).await;
                signed.map_err(|source| NatsError::Options { what: what(), source })?
            }
            SignIn::Password { user, file } => {
                let what = || format!("password file {}", file.display());
                let password = operator_file::read_text(file, PASSWORD_BYTES_MAX)
                    .map_err(|source| NatsError::Options { what: what(), source })?;
                let password = password.trim_end_matches(['\r', '\n']).to_owned();
                options.user_and_password(user.clone(), password)
            }
            SignIn::Token(token) => options.token(token.clone()),
        };
        if let Some(roots) = &self.roots {
            options = options.add_root_certificates(roots.clone());
        }
        let connected = options.connect(servers).await;
        connected.map_err(|error| NatsError::Unreachable(error.to_string()))
    }
}

/// Nothing before the first attempt: servers that are left are tried at once.
fn reconnect_pause(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(2)).unwrap_or(u32::MAX);
    let pause = Duration::from_millis(10).saturating_mul(2_u32.saturating_pow(doublings));
    if attempts <= 1 { Duration::ZERO } else { pause.min(RECONNECT_PAUSE_MAX) }
}

async fn report(event: Event) {
    match event {
        Event::Connected => tracing::info!("connected to the log"),
        Event::Disconnected | Event::Closed => tracing::warn!("disconnected from the log"),
        Event::SlowConsumer(_) => tracing::warn!("entries of the log were read too slowly"),
        Event::ServerError(error) => tracing::warn!(%error, "a server of the log reports an error"),
        Event::ClientError(error) => {
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
    fn secrets_are_not_shown() {
        let token = SignIn::Token("secret".to_owned());
        assert!(!format!("{token:?}").contains("secret"));
    }
}

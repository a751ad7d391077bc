//! What the service says when it accepts requests: in the log, and to people on standard output.

use std::fmt::{Display, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use super::options::Settings;
use crate::replicas::{Replica, ReplicaKind};
use crate::telemetry::LogFormat;

/// What is known before the service listens.
#[derive(Debug)]
pub(super) struct StartMessage {
    /// Whether the log is for people, too.
    is_for_people: bool,
    directory: PathBuf,
    /// Where tokens are defined; empty if everybody is admitted.
    tokens_in: Vec<String>,
    /// Whose copy it is.
    copy: Option<String>,
}

/// What is known once it listens.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) address: SocketAddr,
    pub(super) has_tls: bool,
    /// How many tokens are admitted.
    pub(super) tokens: usize,
    /// How many documents are stored.
    pub(super) documents: u64,
}

impl StartMessage {
    pub(super) fn of(settings: &Settings) -> Self {
        let access = &settings.server.access;
        let file = access.file.as_ref().map(|file| file.display().to_string());
        let key = (!access.lines.trim().is_empty()).then(|| "access.tokens".to_owned());
        let directory = &settings.engine.data;
        Self {
            is_for_people: settings.log.format == LogFormat::Text,
            directory: std::path::absolute(directory).unwrap_or_else(|_| directory.clone()),
            tokens_in: file.into_iter().chain(key).collect(),
            copy: settings.replica.as_ref().map(copy),
        }
    }

    /// Logs that the service listens.
    pub(super) fn log(&self, listening: &Listening) {
        tracing::info!(
            address = %listening.address,
            version = env!("CARGO_PKG_VERSION"),
            directory = %self.directory.display(),
            documents = listening.documents,
            tokens = listening.tokens,
            copy = self.copy,
            "listening"
        );
    }

    /// The lines of standard output: the first one is for programs, too.
    pub(super) fn text(&self, listening: &Listening) -> String {
        let mut text = format!("listening on {}\n", listening.address);
        if self.is_for_people {
            let mut line = |name: &str, value: &dyn Display| {
                _ = writeln!(text, "  {name:<9}{value}");
            };
            let Listening { documents, .. } = listening;
            line("version", &env!("CARGO_PKG_VERSION"));
            line("data", &format!("{}, {documents} documents", self.directory.display()));
            line("console", &console(listening));
            line("access", &self.access(listening.tokens));
            if let Some(copy) = &self.copy {
                line("copy", copy);
            }
        }
        text
    }

    /// Who may use the service.
    fn access(&self, tokens: usize) -> String {
        if self.tokens_in.is_empty() {
            return "no tokens: everybody who reaches this address".to_owned();
        }
        let noun = if tokens == 1 { "token" } else { "tokens" };
        format!("{tokens} {noun} in {}", self.tokens_in.join(" and "))
    }
}

fn copy(replica: &Replica) -> String {
    match &replica.kind {
        ReplicaKind::Follower { .. } => format!("of {}", replica.peers.urls.join(", ")),
        ReplicaKind::Node(cluster) => format!("of a cluster, in which it is {}", cluster.address),
    }
}

/// Where the page of the service is, for a browser on this machine.
fn console(listening: &Listening) -> String {
    let mut address = listening.address;
    if address.ip().is_unspecified() {
        let is_v4 = address.is_ipv4();
        address.set_ip(if is_v4 { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    let scheme = if listening.has_tls { "https" } else { "http" };
    format!("{scheme}://{address}/")
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Sources};

    use super::*;

    /// The lines of a service that listens on any address of the machine.
    fn lines(variables: &[(&str, &str)], tokens: usize, has_tls: bool) -> Vec<String> {
        let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), value.into()));
        let sources = Sources { environment: environment.collect(), ..Sources::default() };
        let settings = Config::load(&sources).unwrap().validated().unwrap();
        let address = "0.0.0.0:7878".parse().unwrap();
        let listening = Listening { address, has_tls, tokens, documents: 12 };
        let text = StartMessage::of(&settings).text(&listening);
        text.lines().map(str::to_owned).collect()
    }

    const DATA: (&str, &str) = ("NEARPRINT_DATA__DIRECTORY", "/var/lib/nearprint");

    #[test]
    fn people_see_where_it_is_what_it_has_and_who_may_use_it() {
        let version = format!("  version  {}", env!("CARGO_PKG_VERSION"));
        let expected = [
            "listening on 0.0.0.0:7878",
            &version,
            "  data     /var/lib/nearprint, 12 documents",
            "  console  http://127.0.0.1:7878/",
            "  access   no tokens: everybody who reaches this address",
        ];
        assert_eq!(lines(&[DATA], 0, false), expected);
    }

    #[test]
    fn tokens_and_tls_show() {
        let file = ("NEARPRINT_ACCESS__TOKENS_FILE", "/etc/nearprint/tokens");
        let both = lines(&[DATA, file, ("NEARPRINT_ACCESS__TOKENS", "a line")], 2, true);
        assert_eq!(both[3], "  console  https://127.0.0.1:7878/");
        assert_eq!(both[4], "  access   2 tokens in /etc/nearprint/tokens and access.tokens");
        assert_eq!(lines(&[file], 1, true)[4], "  access   1 token in /etc/nearprint/tokens");
    }

    #[test]
    fn a_copy_says_whose_it_is() {
        let follow = ("NEARPRINT_FOLLOW__URL", "http://10.0.0.1:7878");
        assert_eq!(lines(&[DATA, follow], 0, false)[5], "  copy     of http://10.0.0.1:7878");
    }

    #[test]
    fn programs_that_read_the_log_get_one_line() {
        let json = ("NEARPRINT_LOG__FORMAT", "json");
        assert_eq!(lines(&[DATA, json], 0, false), ["listening on 0.0.0.0:7878"]);
    }
}

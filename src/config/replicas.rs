//! Checks the sections `[follow]` and `[cluster]`.

use nearprint_engine::cluster::chain::ACCEPT_MS;
use nearprint_engine::cluster::message::ADDRESS_BYTES_MAX;
use nearprint_engine::log::required::Required;

use super::error::ConfigError;
use super::keys::Config;
use super::validate::{MINUTES_10_MS, address, given, key, within, wrong};
use crate::replicas::nats::{self, NatsOptions, SignIn};
use crate::replicas::{ClusterOptions, Peers, Replica, ReplicaKind};

/// The most addresses in a list.
const LISTED_MAX: usize = 100;
/// The most copies that NATS keeps.
const REPLICAS_MAX: u64 = 5;
/// A leader without followers stops accepting writes before another node tries to lead.
const TAKEOVER_MS_MIN: u64 = 3_000;
const _: () = assert!(TAKEOVER_MS_MIN > ACCEPT_MS);
const WRITE_TIMEOUT_MS_MIN: u64 = 100;

const HTTP: &[&str] = &["http://", "https://"];
const NATS: &[&str] = &["nats://", "tls://"];

/// Whom the service copies; `None` if nobody.
pub(super) fn replica(config: &Config) -> Result<Option<Replica>, ConfigError> {
    let follower = follower(config)?;
    Ok(node(config)?.or(follower))
}

/// The follower of a primary.
fn follower(config: &Config) -> Result<Option<Replica>, ConfigError> {
    let keys = &config.follow;
    if keys.url.is_empty() {
        return Ok(None);
    }
    let Some(url) = address(&keys.url, HTTP) else {
        let range = "empty, or the address of the primary, such as http://10.0.0.1:7878";
        return Err(wrong("follow.url", &keys.url, range));
    };
    let peers = Peers {
        urls: vec![url],
        token_file: given(&keys.token_file),
        ca_file: given(&keys.ca_file),
    };
    Ok(Some(Replica { peers, kind: ReplicaKind::Follower { forward: keys.forward } }))
}

/// The node of a cluster.
fn node(config: &Config) -> Result<Option<Replica>, ConfigError> {
    let keys = &config.cluster;
    let has_servers = !keys.servers.is_empty();
    if keys.name.is_empty() {
        // Whoever forgets the name does not want a service alone.
        return if has_servers {
            Err(missing("cluster.servers", "cluster.name"))
        } else {
            Ok(None)
        };
    }
    if !config.follow.url.is_empty() {
        let why = "a service is a node of a cluster or follows a primary";
        return Err(ConfigError::Excluded { one: "cluster.name", other: "follow.url", why });
    }
    if !has_servers {
        return Err(missing("cluster.name", "cluster.servers"));
    }
    if keys.address.is_empty() {
        return Err(missing("cluster.name", "cluster.address"));
    }
    let address = own_address(&keys.address)?;
    let peers = Peers {
        urls: addresses("cluster.seeds", &keys.seeds, HTTP, "http://10.0.0.2:7878")?,
        token_file: given(&keys.token_file),
        ca_file: given(&keys.ca_file),
    };
    let kind = ReplicaKind::Node(Box::new(ClusterOptions {
        address,
        log: log(config)?,
        required: Required {
            replicas: u32::try_from(within(key!(config.cluster.replicas), 1..=REPLICAS_MAX)?)
                .expect("it is small"),
            trust_sync: keys.trust_sync,
            identity: None,
        },
        takeover_ms: within(key!(config.cluster.takeover_ms), TAKEOVER_MS_MIN..=MINUTES_10_MS)?,
        write_timeout_ms: within(
            key!(config.cluster.write_timeout_ms),
            WRITE_TIMEOUT_MS_MIN..=MINUTES_10_MS,
        )?,
    }));
    Ok(Some(Replica { peers, kind }))
}

fn own_address(text: &str) -> Result<String, ConfigError> {
    let fits = |url: &String| url.len() <= ADDRESS_BYTES_MAX;
    address(text, HTTP).filter(fits).ok_or_else(|| {
        let range = format!(
            "the address at which the other nodes reach this one, such as http://10.0.0.1:7878, of at \
             most {ADDRESS_BYTES_MAX} bytes"
        );
        wrong("cluster.address", text, &range)
    })
}

fn log(config: &Config) -> Result<NatsOptions, ConfigError> {
    let keys = &config.cluster;
    if nats::stream_name(&keys.name).is_err() {
        let range =
            format!("empty, or up to {} letters, digits, - and _ of ASCII", nats::NAME_BYTES_MAX);
        return Err(wrong("cluster.name", &keys.name, &range));
    }
    Ok(NatsOptions {
        servers: addresses("cluster.servers", &keys.servers, NATS, "nats://10.0.0.1:4222")?,
        monitors: addresses("cluster.monitors", &keys.monitors, HTTP, "http://10.0.0.1:8222")?,
        sign_in: sign_in(config)?,
        roots: given(&keys.log_ca_file),
        name: keys.name.clone(),
    })
}

fn sign_in(config: &Config) -> Result<SignIn, ConfigError> {
    let keys = &config.cluster;
    let (credentials, user) = ("cluster.credentials_file", "cluster.user");
    match (given(&keys.credentials_file), keys.user.as_str(), given(&keys.password_file)) {
        (None, "", None) => Ok(SignIn::Nothing),
        (Some(file), "", None) => Ok(SignIn::Credentials(file)),
        (None, "", Some(_)) => Err(missing("cluster.password_file", user)),
        (None, _, None) => Err(missing(user, "cluster.password_file")),
        (None, user, Some(file)) => Ok(SignIn::Password { user: user.to_owned(), file }),
        (Some(_), "", Some(_)) => Err(two_ways(credentials, "cluster.password_file")),
        (Some(_), _, _) => Err(two_ways(credentials, user)),
    }
}

/// A list of addresses, without a `/` at their end.
fn addresses(
    key: &'static str,
    listed: &[String],
    schemes: &[&str],
    example: &str,
) -> Result<Vec<String>, ConfigError> {
    let range = || format!("a list of at most {LISTED_MAX} addresses, such as {example}");
    if listed.len() > LISTED_MAX {
        return Err(wrong(key, format!("a list of {}", listed.len()), &range()));
    }
    let read = |one: &String| address(one, schemes).ok_or_else(|| wrong(key, one, &range()));
    listed.iter().map(read).collect()
}

const fn missing(given: &'static str, missing: &'static str) -> ConfigError {
    ConfigError::Missing { given, missing }
}

const fn two_ways(one: &'static str, other: &'static str) -> ConfigError {
    ConfigError::Excluded { one, other, why: "a node signs in one way" }
}

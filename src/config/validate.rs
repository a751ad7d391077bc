//! Checks every range and the relations between keys, and makes the options of each module.

use std::fmt::Display;
use std::net::SocketAddr;
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nearprint_engine::{Durability, SearchKind};
use nearprint_fingerprint::Distance;
use nearprint_service::{RequestDefaults, ServiceOptions};
use nearprint_text::{Extract, Recipe, UnknownRecipe};
use nearprint_wire::offer::{ExpiresIn, OfferOptions};

use super::error::ConfigError;
use super::keys::Config;
use super::memory::MemoryLimits;
use crate::server::Settings;
use crate::{access, http, memory, model, server, telemetry};

const MS_MIN: u64 = 10;
pub(super) const MINUTES_10_MS: u64 = 600_000;
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 86_400_000;
const WEEK_MS: u64 = 604_800_000;
/// Enough for one hit with ten ids of the largest size if every character needs an escape.
const REPLY_BYTES_MIN: u64 = 1 << 17;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// The name of a key, and its value.
type Key = (&'static str, u64);

macro_rules! key {
    ($config:ident.$section:ident.$key:ident) => {
        (concat!(stringify!($section), ".", stringify!($key)), $config.$section.$key)
    };
}
pub(super) use key;

impl Config {
    /// Checks every range and every relation between keys.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] names the key and its range.
    pub fn validated(&self) -> Result<Settings, ConfigError> {
        let listen = listen(self)?;
        let access = access_source(self)?;
        if !access.is_on() && !listen.ip().is_loopback() {
            return Err(ConfigError::NoTokens { listen });
        }
        let memory = MemoryLimits::of(self, memory::total())?;
        Ok(Settings {
            listen,
            server: server_options(self, access)?,
            http: http_options(self, memory)?,
            engine: engine_options(self, memory)?,
            replica: super::replicas::replica(self)?,
            log: log_options(self)?,
        })
    }
}

fn listen(config: &Config) -> Result<SocketAddr, ConfigError> {
    let text = &config.server.listen;
    text.parse().map_err(|_| {
        wrong("server.listen", text, "an IP address and a port, such as 127.0.0.1:7878")
    })
}

fn host_names(config: &Config) -> Result<http::HostNames, ConfigError> {
    let text = &config.server.host_names;
    text.parse().map_err(|http::BadHostNames| {
        let range = format!(
            "at most {} names or addresses without ports, such as near.example.org, with commas \
             between them",
            http::HostNames::COUNT_MAX
        );
        wrong("server.host_names", text, &range)
    })
}

fn access_source(config: &Config) -> Result<access::TokenSource, ConfigError> {
    let keys = &config.access;
    let rate = within(key!(config.access.requests_per_second), 0..=1_000_000)?;
    Ok(access::TokenSource {
        file: given(&keys.tokens_file),
        lines: keys.tokens.clone(),
        requests_per_second: u32::try_from(rate).ok().and_then(NonZero::new),
    })
}

fn tls_source(config: &Config) -> Result<Option<server::TlsSource>, ConfigError> {
    let (certificate, key) = ("server.tls_certificate_file", "server.tls_key_file");
    let keys = &config.server;
    match (given(&keys.tls_certificate_file), given(&keys.tls_key_file)) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(server::TlsSource { certificate, key })),
        (Some(_), None) => Err(ConfigError::Missing { given: certificate, missing: key }),
        (None, Some(_)) => Err(ConfigError::Missing { given: key, missing: certificate }),
    }
}

/// A path, unless it is empty.
pub(super) fn given(path: &Path) -> Option<PathBuf> {
    (!path.as_os_str().is_empty()).then(|| path.to_owned())
}

fn server_options(
    config: &Config,
    access: access::TokenSource,
) -> Result<server::ServerOptions, ConfigError> {
    Ok(server::ServerOptions {
        header_timeout: ms(key!(config.server.header_timeout_ms), MS_MIN..=MINUTES_10_MS)?,
        idle_timeout: ms(key!(config.server.idle_timeout_ms), MS_MIN..=HOUR_MS)?,
        reply_timeout: ms(key!(config.server.body_timeout_ms), MS_MIN..=HOUR_MS)?,
        connections_max: length(key!(config.server.connections_max), 1..=1_000_000)?,
        shutdown_grace: ms(key!(config.server.shutdown_grace_ms), 0..=MINUTES_10_MS)?,
        access,
        tls: tls_source(config)?,
    })
}

fn http_options(config: &Config, memory: MemoryLimits) -> Result<http::HttpOptions, ConfigError> {
    let (server, query) = (&config.server, &config.query);
    let distance_max = distance(key!(config.data.distance_max), Distance::LOOKUP_MAX)?;
    let shares = 0.0..=1.0;
    for (key, share) in
        [("query.min_similarity", query.min_similarity), ("query.min_numbers", query.min_numbers)]
    {
        if !shares.contains(&share) {
            return Err(wrong(key, share, "0 to 1"));
        }
    }
    if query.min_numbers > 0.0 && query.min_similarity == 0.0 {
        let needs = "0 where query.min_similarity is 0: numbers are compared with sketches";
        return Err(wrong("query.min_numbers", query.min_numbers, needs));
    }
    let body_bytes_max = length(key!(config.server.body_bytes_max), 1_024..=GIB)?;
    let reply_bytes_max = length(key!(config.server.reply_bytes_max), REPLY_BYTES_MIN..=GIB)?;
    let bodies_held_bytes_max =
        length(key!(config.server.bodies_held_bytes_max), server.body_bytes_max..=TIB)?
            .min(usize::try_from(memory.bodies).unwrap_or(usize::MAX));
    let replies_held_bytes_max =
        length(key!(config.server.replies_held_bytes_max), 2 * server.reply_bytes_max..=TIB)?
            .min(usize::try_from(memory.replies).unwrap_or(usize::MAX));
    let defaults = defaults(config, distance_max)?;
    Ok(http::HttpOptions {
        host_names: host_names(config)?,
        body_bytes_max,
        line_bytes_max: length(key!(config.server.line_bytes_max), 1_024..=GIB)?,
        bodies_held_bytes_max,
        exports_max: length(key!(config.server.exports_max), 1..=1_024)?,
        export_stall: http::EXPORT_STALL,
        history_interval: http::HISTORY_INTERVAL,
        body_timeout: ms(key!(config.server.body_timeout_ms), MS_MIN..=HOUR_MS)?,
        requests_in_flight_max: length(key!(config.server.requests_in_flight_max), 1..=1_000_000)?,
        memory_bytes_max: memory.all,
        index_memory_bytes_max: memory.index,
        access_log: access_log(config)?,
        service: ServiceOptions {
            analyses_bytes_max: bodies_held_bytes_max,
            reply_bytes_max,
            replies_held_bytes_max,
            defaults,
        },
    })
}

/// The defaults of a request.
fn defaults(config: &Config, distance_max: Distance) -> Result<RequestDefaults, ConfigError> {
    Ok(RequestDefaults {
        recipe: recipe(config)?,
        model: None,
        extract: extract(config)?,
        distance: distance(key!(config.query.distance), distance_max)?,
        distance_max,
        limit: length(key!(config.query.limit), 1..=OfferOptions::LIMIT_MAX)?,
        min_similarity: config.query.min_similarity,
        min_numbers: config.query.min_numbers,
        search: search("query.search", &config.query.search)?,
        metadata_bytes_max: length(key!(config.documents.metadata_bytes_max), 2..=65_536)?,
        expires_in_s: expiry(config)?,
    })
}

/// How long a document is kept if its request names no expiry; `None` keeps it until it is removed.
fn expiry(config: &Config) -> Result<Option<u64>, ConfigError> {
    let seconds = within(key!(config.documents.expires_in_s), 0..=ExpiresIn::SECONDS_MAX)?;
    Ok(Some(seconds).filter(|&seconds| seconds > 0))
}

fn engine_options(
    config: &Config,
    memory: MemoryLimits,
) -> Result<nearprint_engine::Options, ConfigError> {
    let data = &config.data;
    Ok(nearprint_engine::Options {
        model_file: model_file(config)?,
        model_check: model::CHECK,
        distance_max: distance(key!(config.data.distance_max), Distance::LOOKUP_MAX)?,
        has_labels: search("data.search", &config.data.search)? == SearchKind::Likely,
        durability: durability(config)?,
        lookup_threads: length(key!(config.engine.lookup_threads), 0..=1_024)?,
        journal_file_bytes: within(key!(config.engine.journal_file_bytes), 65_536..=64 * GIB)?,
        snapshot_interval_ms: within(key!(config.engine.snapshot_interval_ms), 1_000..=WEEK_MS)?,
        snapshot_changes: within(key!(config.engine.snapshot_changes), 1_000..=1_000_000_000_000)?,
        memory_bytes_max: memory.index,
        index_memory_bytes_max: memory.settled,
        groups_memory_bytes_max: within(key!(config.groups.memory_bytes_max), 1 << 20..=256 * GIB)?
            .min(memory.groups),
        disk_free_bytes_min: within(key!(config.engine.disk_free_bytes_min), 0..=1 << 60)?,
        expired_kept_ms: within(key!(config.engine.expired_kept_ms), 0..=DAY_MS)?,
        ..nearprint_engine::Options::new(data.directory.clone(), recipe(config)?)
    })
}

/// A URL of one of these schemes that names a host, and perhaps a port, without a `/` at its end.
pub(super) fn address(url: &str, schemes: &[&str]) -> Option<String> {
    let url = url.trim_end_matches('/');
    let host = schemes.iter().find_map(|scheme| url.strip_prefix(scheme))?;
    let is_host = !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ', ',']);
    is_host.then(|| url.to_owned())
}

fn durability(config: &Config) -> Result<Durability, ConfigError> {
    let data = &config.data;
    let ms = within(key!(config.data.durability_interval_ms), 1..=60_000)?;
    match data.durability.as_str() {
        "always" => Ok(Durability::Always),
        "interval" => Ok(Durability::Interval { ms }),
        "none" => Ok(Durability::None),
        other => Err(wrong("data.durability", other, "\"always\", \"interval\" or \"none\"")),
    }
}

fn recipe(config: &Config) -> Result<Recipe, ConfigError> {
    let id = &config.data.recipe;
    id.parse().map_err(|unknown: UnknownRecipe| wrong("data.recipe", id, &unknown.to_string()))
}

fn model_file(config: &Config) -> Result<Option<PathBuf>, ConfigError> {
    let file = given(&config.data.model_file);
    if let Some(file) = &file
        && !recipe(config)?.needs_model()
    {
        let range = "empty unless data.recipe is spectral-D";
        return Err(wrong("data.model_file", file.display(), range));
    }
    Ok(file)
}

fn extract(config: &Config) -> Result<Extract, ConfigError> {
    let name = &config.query.extract;
    Extract::named(name)
        .ok_or_else(|| wrong("query.extract", name, "\"content\", \"visible\" or \"main\""))
}

fn search(key: &'static str, value: &str) -> Result<SearchKind, ConfigError> {
    match value {
        "likely" => Ok(SearchKind::Likely),
        "exact" => Ok(SearchKind::Exact),
        other => Err(wrong(key, other, "\"likely\" or \"exact\"")),
    }
}

fn log_options(config: &Config) -> Result<telemetry::LogOptions, ConfigError> {
    let keys = &config.log;
    Ok(telemetry::LogOptions {
        format: match keys.format.as_str() {
            "text" => telemetry::LogFormat::Text,
            "json" => telemetry::LogFormat::Json,
            other => return Err(wrong("log.format", other, "\"text\" or \"json\"")),
        },
        level: match keys.level.as_str() {
            "error" => tracing::Level::ERROR,
            "warn" => tracing::Level::WARN,
            "info" => tracing::Level::INFO,
            "debug" => tracing::Level::DEBUG,
            "trace" => tracing::Level::TRACE,
            other => {
                let levels = "\"error\", \"warn\", \"info\", \"debug\" or \"trace\"";
                return Err(wrong("log.level", other, levels));
            }
        },
    })
}

fn access_log(config: &Config) -> Result<http::AccessLog, ConfigError> {
    let one_in = |number: &str| number.parse().ok().map(http::AccessLog::OneIn);
    match config.log.access.as_str() {
        "all" => Ok(http::AccessLog::All),
        "errors" => Ok(http::AccessLog::Errors),
        other => other.strip_prefix("1 in ").and_then(one_in).ok_or_else(|| {
            wrong("log.access", other, "\"all\", \"errors\" or \"1 in N\", such as \"1 in 100\"")
        }),
    }
}

fn distance(key: Key, max: Distance) -> Result<Distance, ConfigError> {
    let bits = within(key, 0..=u64::from(max.get()))?;
    Ok(u8::try_from(bits).ok().and_then(Distance::new).expect("within 0 to 64"))
}

fn ms(key: Key, range: RangeInclusive<u64>) -> Result<Duration, ConfigError> {
    within(key, range).map(Duration::from_millis)
}

fn length(key: Key, range: RangeInclusive<u64>) -> Result<usize, ConfigError> {
    let value = within(key, range)?;
    usize::try_from(value).map_err(|_| wrong(key.0, value, "a size that this machine can address"))
}

pub(super) fn within(key: Key, range: RangeInclusive<u64>) -> Result<u64, ConfigError> {
    let (name, value) = key;
    if range.contains(&value) {
        return Ok(value);
    }
    Err(wrong(name, value, &format!("{} to {}", range.start(), range.end())))
}

pub(super) fn wrong(key: &'static str, value: impl Display, range: &str) -> ConfigError {
    ConfigError::OutOfRange { key, value: value.to_string(), range: range.to_owned() }
}

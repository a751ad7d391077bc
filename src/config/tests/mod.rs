//! The layers, the ranges and the messages of the configuration. Every key is changed and observed.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use nearprint_engine::{Durability, Options};
use nearprint_fingerprint::Distance;
use nearprint_text::Recipe;

use super::*;
use crate::replicas::{Peers, Replica, ReplicaKind};
use crate::server::Settings;
use crate::{http, telemetry};

mod replicas;

fn with(environment: &[(&str, &str)]) -> Sources {
    let pair = |&(name, value): &(&str, &str)| (name.to_owned(), value.into());
    Sources { environment: environment.iter().map(pair).collect(), ..Sources::default() }
}

fn settings(environment: &[(&str, &str)]) -> Result<Settings, ConfigError> {
    Config::load(&with(environment))?.validated()
}

fn refusal(environment: &[(&str, &str)]) -> String {
    settings(environment).expect_err("it must be refused").to_string()
}

/// A file in a directory that goes away with the returned value.
fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nearprint.toml");
    #[expect(clippy::disallowed_methods, reason = "a file of a test")]
    std::fs::write(&path, text).unwrap();
    (directory, path)
}

#[test]
fn the_embedded_file_is_the_default_and_is_valid() {
    let config = Config::load(&Sources::default()).unwrap();
    assert_eq!(config, Config::default());
    let settings = config.validated().unwrap();
    assert_eq!(settings.listen.to_string(), "127.0.0.1:7878");
    assert_eq!(settings.engine.data, Path::new("nearprint-data"));
    assert_eq!(settings.engine.durability, Durability::Always);
    assert_eq!(settings.http.service.defaults.distance.get(), 3);
    assert_eq!(settings.http.service.defaults.limit, 10);
    assert_eq!(settings.http.service.defaults.expires_in_s, None, "documents are kept for ever");
}

#[test]
fn an_embedded_engine_has_the_defaults_of_the_service() {
    let settings = settings(&[]).unwrap();
    let embedded = Options::new("nearprint-data", settings.engine.recipe);
    // An embedded engine has no limit: who embeds it knows what else the process does.
    let engine = Options {
        memory_bytes_max: 0,
        index_memory_bytes_max: 0,
        groups_memory_bytes_max: 1 << 30,
        ..settings.engine
    };
    assert_eq!(engine, embedded);
}

#[test]
fn the_file_for_production_is_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/production.toml");
    let sources = Sources { file: Some(path), ..Sources::default() };
    let settings = Config::load(&sources).unwrap().validated().unwrap();
    assert_eq!(settings.listen.port(), 7878);
    assert_eq!(settings.log.format, telemetry::LogFormat::Json);
}

#[test]
fn the_file_for_verified_look_ups_looks_up_at_distance_six() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/verified.toml");
    let sources = Sources { file: Some(path), ..Sources::default() };
    let settings = Config::load(&sources).unwrap().validated().unwrap();
    let defaults = settings.http.service.defaults;
    assert_eq!((defaults.distance.get(), settings.engine.distance_max.get()), (6, 6));
    assert!(defaults.min_similarity > 0.0);
}

#[test]
fn what_is_printed_as_effective_loads_to_the_same() {
    let text = Config::load(&with(&[("NEARPRINT_QUERY__LIMIT", "7")])).unwrap().effective();
    let (_directory, path) = file(&text);
    let sources = Sources { file: Some(path), ..Sources::default() };
    let loaded = Config::load(&sources).unwrap();
    assert_eq!(loaded.query.limit, 7);
    assert_eq!(loaded.effective(), text);
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let (_directory, path) = file("[server]\nlisten = \"1.1.1.1:1\"\n[data]\ndirectory = \"1\"\n");
    let mut sources = Sources { file: Some(path), ..Sources::default() };
    assert_eq!(Config::load(&sources).unwrap().server.listen, "1.1.1.1:1");
    sources.environment = with(&[("NEARPRINT_SERVER__LISTEN", "2.2.2.2:2")]).environment;
    let both = Config::load(&sources).unwrap();
    assert_eq!(
        (both.server.listen.as_str(), both.data.directory.to_str()),
        ("2.2.2.2:2", Some("1"))
    );
    sources.listen = Some("3.3.3.3:3".to_owned());
    sources.data = Some("3".into());
    let all = Config::load(&sources).unwrap();
    assert_eq!((all.server.listen.as_str(), all.data.directory.to_str()), ("3.3.3.3:3", Some("3")));
}

/// Each key, changed by a variable, and what it changes.
#[test]
#[expect(clippy::too_many_lines, reason = "a line for each key")]
fn every_key_has_an_effect() {
    type Seen = fn(&Settings) -> String;
    let keys: &[(&str, &str, Seen)] = &[
        ("SERVER__LISTEN", "127.0.0.1:99", |s| s.listen.to_string()),
        ("SERVER__BODY_BYTES_MAX", "5000", |s| s.http.body_bytes_max.to_string()),
        ("SERVER__LINE_BYTES_MAX", "6000", |s| s.http.line_bytes_max.to_string()),
        ("SERVER__BODIES_HELD_BYTES_MAX", "17000000", |s| s.http.bodies_held_bytes_max.to_string()),
        ("SERVER__REPLY_BYTES_MAX", "131072", |s| s.http.service.reply_bytes_max.to_string()),
        ("SERVER__REPLIES_HELD_BYTES_MAX", "8388608", |s| {
            s.http.service.replies_held_bytes_max.to_string()
        }),
        ("SERVER__EXPORTS_MAX", "5", |s| s.http.exports_max.to_string()),
        ("SERVER__HEADER_TIMEOUT_MS", "101", |s| s.server.header_timeout.as_millis().to_string()),
        ("SERVER__BODY_TIMEOUT_MS", "102", |s| s.http.body_timeout.as_millis().to_string()),
        ("SERVER__IDLE_TIMEOUT_MS", "103", |s| s.server.idle_timeout.as_millis().to_string()),
        ("SERVER__CONNECTIONS_MAX", "104", |s| s.server.connections_max.to_string()),
        ("SERVER__REQUESTS_IN_FLIGHT_MAX", "105", |s| s.http.requests_in_flight_max.to_string()),
        ("SERVER__SHUTDOWN_GRACE_MS", "106", |s| s.server.shutdown_grace.as_millis().to_string()),
        ("ACCESS__TOKENS_FILE", "112", |s| {
            s.server.access.file.clone().unwrap_or_default().display().to_string()
        }),
        ("ACCESS__TOKENS", "a line", |s| s.server.access.lines.clone()),
        ("ACCESS__REQUESTS_PER_SECOND", "113", |s| {
            s.server.access.requests_per_second.map_or(0, NonZero::get).to_string()
        }),
        ("DATA__DIRECTORY", "107", |s| s.engine.data.display().to_string()),
        ("DATA__RECIPE", "np2-5", |s| s.engine.recipe.to_string()),
        ("DATA__RECIPE", "words-3", |s| s.http.service.defaults.recipe.to_string()),
        ("DATA__DISTANCE_MAX", "12", |s| s.engine.distance_max.to_string()),
        ("DATA__SEARCH", "exact", |s| if s.engine.has_labels { "likely" } else { "exact" }.into()),
        ("DATA__DISTANCE_MAX", "7", |s| s.http.service.defaults.distance_max.to_string()),
        ("QUERY__DISTANCE", "2", |s| s.http.service.defaults.distance.to_string()),
        ("QUERY__LIMIT", "108", |s| s.http.service.defaults.limit.to_string()),
        ("QUERY__MIN_SIMILARITY", "0.5", |s| s.http.service.defaults.min_similarity.to_string()),
        ("QUERY__MIN_NUMBERS", "0.25", |s| s.http.service.defaults.min_numbers.to_string()),
        ("QUERY__SEARCH", "exact", |s| {
            format!("{:?}", s.http.service.defaults.search).to_lowercase()
        }),
        ("QUERY__EXTRACT", "main", |s| s.http.service.defaults.extract.name().to_owned()),
        ("DOCUMENTS__METADATA_BYTES_MAX", "114", |s| {
            s.http.service.defaults.metadata_bytes_max.to_string()
        }),
        ("DOCUMENTS__EXPIRES_IN_S", "115", |s| {
            s.http.service.defaults.expires_in_s.unwrap_or_default().to_string()
        }),
        ("LOG__ACCESS", "1 in 20", |s| match s.http.access_log {
            http::AccessLog::OneIn(number) => format!("1 in {number}"),
            http::AccessLog::All | http::AccessLog::Errors => String::new(),
        }),
        ("ENGINE__LOOKUP_THREADS", "9", |s| s.engine.lookup_threads.to_string()),
        ("ENGINE__JOURNAL_FILE_BYTES", "70000", |s| s.engine.journal_file_bytes.to_string()),
        ("ENGINE__SNAPSHOT_INTERVAL_MS", "1001", |s| s.engine.snapshot_interval_ms.to_string()),
        ("ENGINE__SNAPSHOT_CHANGES", "1002", |s| s.engine.snapshot_changes.to_string()),
        ("ENGINE__MEMORY_BYTES_MAX", "400000000", |s| s.http.memory_bytes_max.to_string()),
        ("ENGINE__MEMORY_BYTES_MAX", "335544321", |s| {
            (s.engine.memory_bytes_max + (1 << 28) + (1 << 26)).to_string()
        }),
        ("ENGINE__INDEX_MEMORY_BYTES_MAX", "1048578", |s| {
            s.engine.index_memory_bytes_max.to_string()
        }),
        ("GROUPS__MEMORY_BYTES_MAX", "1048577", |s| s.engine.groups_memory_bytes_max.to_string()),
        ("ENGINE__DISK_FREE_BYTES_MIN", "1004", |s| s.engine.disk_free_bytes_min.to_string()),
        ("ENGINE__EXPIRED_KEPT_MS", "1006", |s| s.engine.expired_kept_ms.to_string()),
    ];
    for (key, value, seen) in keys {
        let variable = format!("NEARPRINT_{key}");
        assert_ne!(seen(&settings(&[]).unwrap()), *value, "{key} must be changed");
        assert_eq!(seen(&settings(&[(&variable, value)]).unwrap()), *value, "{key}");
    }
    let interval = [
        ("NEARPRINT_DATA__DURABILITY", "interval"),
        ("NEARPRINT_DATA__DURABILITY_INTERVAL_MS", "9"),
    ];
    assert_eq!(settings(&interval).unwrap().engine.durability, Durability::Interval { ms: 9 });
    let log = [("NEARPRINT_LOG__FORMAT", "json"), ("NEARPRINT_LOG__LEVEL", "warn")];
    let log = settings(&log).unwrap().log;
    assert_eq!((log.format, log.level), (telemetry::LogFormat::Json, tracing::Level::WARN));
    let tls = [
        ("NEARPRINT_SERVER__TLS_CERTIFICATE_FILE", "110"),
        ("NEARPRINT_SERVER__TLS_KEY_FILE", "111"),
    ];
    let tls = settings(&tls).unwrap().server.tls.unwrap();
    assert_eq!((tls.certificate.to_str(), tls.key.to_str()), (Some("110"), Some("111")));
    let follow = [
        ("NEARPRINT_FOLLOW__URL", "https://a.example:1/"),
        ("NEARPRINT_FOLLOW__FORWARD", "true"),
        ("NEARPRINT_FOLLOW__TOKEN_FILE", "113"),
        ("NEARPRINT_FOLLOW__CA_FILE", "114"),
    ];
    let peers = Peers {
        urls: vec!["https://a.example:1".to_owned()],
        token_file: Some("113".into()),
        ca_file: Some("114".into()),
    };
    let expected = Replica { peers, kind: ReplicaKind::Follower { forward: true } };
    assert_eq!(settings(&follow).unwrap().replica, Some(expected));
    let names = settings(&[("NEARPRINT_SERVER__HOST_NAMES", "a.example")]).unwrap().http.host_names;
    assert_eq!(names, "a.example".parse().unwrap());
    let model = [("NEARPRINT_DATA__RECIPE", "spectral-8"), ("NEARPRINT_DATA__MODEL_FILE", "112")];
    assert_eq!(settings(&model).unwrap().engine.model_file.as_deref(), Some(Path::new("112")));
    // Keys that are seen together, and those of a cluster; the list names all others of the file.
    let in_file = toml::from_str::<toml::Table>(DEFAULT_TOML).unwrap();
    let in_file: usize = in_file.values().map(|keys| keys.as_table().unwrap().len()).sum();
    assert_eq!(in_file, keys.len() - 3 + 12 + replicas::KEYS, "a key without a test");
}

#[test]
fn a_key_that_takes_a_word_takes_a_number_from_a_file_as_well() {
    for (value, expected) in
        [("400_000_000", 400_000_000), ("\"400000000\"", 400_000_000), ("0", 0)]
    {
        let (_directory, path) = file(&format!("[engine]\nmemory_bytes_max = {value}\n"));
        let mut sources = Sources { file: Some(path), ..Sources::default() };
        let settings = Config::load(&sources).unwrap().validated().unwrap();
        assert_eq!(settings.http.memory_bytes_max, expected);
        sources.environment = with(&[("NEARPRINT_ENGINE__MEMORY_BYTES_MAX", "auto")]).environment;
        assert_eq!(Config::load(&sources).unwrap().engine.memory_bytes_max, "auto");
    }
    let (_directory, path) = file("[engine]\nmemory_bytes_max = -1\n");
    let sources = Sources { file: Some(path), ..Sources::default() };
    let refused = Config::load(&sources).unwrap_err().to_string();
    assert!(refused.contains("a whole number of 0 or more"), "{refused}");
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_known_one() {
    let refused = refusal(&[("NEARPRINT_SERVER__LISTNE", "x")]);
    assert_eq!(
        refused,
        "unknown key `server.listne` in the variable NEARPRINT_SERVER__LISTNE; did you mean `server.listen`?"
    );
    for (text, key, nearest) in [
        ("[server]\nbody_byte_max = 1\n", "server.body_byte_max", "server.body_bytes_max"),
        ("[sever]\nlisten = \"x\"\n", "sever.listen", "server.listen"),
        ("listen = \"x\"\n", "listen", "server.listen"),
    ] {
        let (_directory, path) = file(text);
        let sources = Sources { file: Some(path.clone()), ..Sources::default() };
        let refused = Config::load(&sources).unwrap_err().to_string();
        let expected =
            format!("unknown key `{key}` in {}; did you mean `{nearest}`?", path.display());
        assert_eq!(refused, expected);
    }
}

#[test]
fn a_misspelt_variable_is_named_with_the_nearest_known_one() {
    for (variable, nearest) in [
        ("NEARPRINT_SERVER_LISTEN", "NEARPRINT_SERVER__LISTEN"),
        ("NEARPRINT_LISTEN", "NEARPRINT_SERVER__LISTEN"),
        ("NEARPRINT_ENGINE_MEMORY_BYTES_MAX", "NEARPRINT_ENGINE__MEMORY_BYTES_MAX"),
        ("NEARPRINT_TOKENS_FILE", "NEARPRINT_ACCESS__TOKENS_FILE"),
        ("NEARPRINT_TOKN", "NEARPRINT_TOKEN"),
    ] {
        let expected = format!("unknown variable {variable}; did you mean {nearest}?");
        assert_eq!(refusal(&[(variable, "x")]), expected);
    }
    let both = refusal(&[("NEARPRINT_LISTEN", "x"), ("NEARPRINT_LEVEL", "x")]);
    assert!(both.contains("NEARPRINT_LISTEN") && both.contains("NEARPRINT_LEVEL"), "{both}");
    // A number is not a service link of a container platform: somebody wants that port.
    assert!(refusal(&[("NEARPRINT_PORT", "7878")]).starts_with("unknown variable NEARPRINT_PORT;"));
}

#[test]
fn variables_of_others_are_ignored() {
    for (variable, value) in [
        ("PATH", "/bin"),
        ("NEARPRINT_TOKEN", "nearprint_0123"),
        ("NEARPRINT_CA_FILE", "ca.pem"),
        ("NEARPRINT_TEST_SEED", "1"),
        // Kubernetes sets these for a service of this name.
        ("NEARPRINT_SERVICE_HOST", "10.0.0.1"),
        ("NEARPRINT_SERVICE_PORT", "7878"),
        ("NEARPRINT_SERVICE_PORT_HTTP", "7878"),
        ("NEARPRINT_PORT", "tcp://10.0.0.1:7878"),
        ("NEARPRINT_PORT_7878_TCP", "tcp://10.0.0.1:7878"),
        ("NEARPRINT_PORT_7878_TCP_PROTO", "tcp"),
        ("NEARPRINT_PORT_7878_TCP_ADDR", "10.0.0.1"),
        // And these for one called nearprint-staging.
        ("NEARPRINT_STAGING_SERVICE_HOST", "10.0.0.1"),
        ("NEARPRINT_STAGING_PORT", "tcp://10.0.0.1:7878"),
    ] {
        let settings = settings(&[(variable, value)]);
        assert!(settings.is_ok(), "{variable}: {settings:?}");
    }
}

#[test]
fn a_variable_that_is_not_utf_8_is_refused_and_not_ignored() {
    use std::os::unix::ffi::OsStringExt;

    let value = std::ffi::OsString::from_vec(b"/data/\xff".to_vec());
    let environment = vec![("NEARPRINT_DATA__DIRECTORY".to_owned(), value)];
    let refused = Config::load(&Sources { environment, ..Sources::default() }).unwrap_err();
    let expected = "the value of the variable NEARPRINT_DATA__DIRECTORY is not UTF-8";
    assert_eq!(refused.to_string(), expected);
}

#[test]
fn a_value_of_another_kind_is_refused_by_name() {
    for (variable, value, key) in [
        ("NEARPRINT_SERVER__CONNECTIONS_MAX", "many", "server.connections_max"),
        ("NEARPRINT_SERVER__CONNECTIONS_MAX", "1.5", "server.connections_max"),
        ("NEARPRINT_SERVER__CONNECTIONS_MAX", "-1", "server.connections_max"),
        ("NEARPRINT_QUERY__MIN_SIMILARITY", "high", "query.min_similarity"),
    ] {
        let refused = refusal(&[(variable, value)]);
        assert!(
            refused.starts_with(&format!("`{key}` in the variable {variable} must be")),
            "{refused}"
        );
    }
}

#[test]
fn text_that_looks_like_a_number_stays_text_where_text_is_wanted() {
    let settings = settings(&[("NEARPRINT_DATA__DIRECTORY", "2026")]).unwrap();
    assert_eq!(settings.engine.data, Path::new("2026"));
}

#[test]
fn a_value_outside_its_range_is_refused_by_name() {
    for (variable, value, refused) in [
        (
            "DATA__RECIPE",
            "np3",
            "`data.recipe` is np3; it must be np2, np2-5, words-N or words-N-stop (N 1 to 8), keywords-N or \
             keywords-N-wL (N 1 to 99, L 1 to 5), textrank-N or textrank-N-wL, features, hyperplanes-D or \
             spectral-D (D 1 to 8192)",
        ),
        (
            "DATA__MODEL_FILE",
            "m.model",
            "`data.model_file` is m.model; it must be empty unless data.recipe is spectral-D",
        ),
        (
            "SERVER__HOST_NAMES",
            "http://near.example",
            "`server.host_names` is http://near.example; it must be at most 100 names or addresses \
             without ports, such as near.example.org, with commas between them",
        ),
        ("QUERY__SEARCH", "all", "`query.search` is all; it must be \"likely\" or \"exact\""),
        ("DATA__SEARCH", "all", "`data.search` is all; it must be \"likely\" or \"exact\""),
        (
            "QUERY__EXTRACT",
            "all",
            "`query.extract` is all; it must be \"content\", \"visible\" or \"main\"",
        ),
        ("QUERY__LIMIT", "0", "`query.limit` is 0; it must be 1 to 1000"),
        ("QUERY__LIMIT", "1001", "`query.limit` is 1001; it must be 1 to 1000"),
        ("QUERY__DISTANCE", "4", "`query.distance` is 4; it must be 0 to 3"),
        ("DATA__DISTANCE_MAX", "13", "`data.distance_max` is 13; it must be 0 to 12"),
        ("QUERY__MIN_SIMILARITY", "1.1", "`query.min_similarity` is 1.1; it must be 0 to 1"),
        ("QUERY__MIN_NUMBERS", "1.5", "`query.min_numbers` is 1.5; it must be 0 to 1"),
        ("QUERY__MIN_SIMILARITY", "nan", "`query.min_similarity` is NaN; it must be 0 to 1"),
        (
            "LOG__ACCESS",
            "1 in 0",
            "`log.access` is 1 in 0; it must be \"all\", \"errors\" or \"1 in N\", such as \"1 in 100\"",
        ),
        (
            "LOG__LEVEL",
            "loud",
            "`log.level` is loud; it must be \"error\", \"warn\", \"info\", \"debug\" or \"trace\"",
        ),
        (
            "DATA__DURABILITY",
            "never",
            "`data.durability` is never; it must be \"always\", \"interval\" or \"none\"",
        ),
        (
            "SERVER__LISTEN",
            "7878",
            "`server.listen` is 7878; it must be an IP address and a port, such as 127.0.0.1:7878",
        ),
        (
            "ENGINE__MEMORY_BYTES_MAX",
            "335544320",
            "`engine.memory_bytes_max` is 335544320; it must be \"auto\", 0, or above server.bodies_held_bytes_max and server.replies_held_bytes_max together (335544320) and at most 2^60",
        ),
        (
            "ENGINE__MEMORY_BYTES_MAX",
            "automatic",
            "`engine.memory_bytes_max` is automatic; it must be \"auto\", 0, or above server.bodies_held_bytes_max and server.replies_held_bytes_max together (335544320) and at most 2^60",
        ),
    ] {
        assert_eq!(refusal(&[(&format!("NEARPRINT_{variable}"), value)]), refused);
    }
}

#[test]
fn a_limit_of_what_is_kept_outside_its_range_is_refused_by_name() {
    for (variable, value, refused) in [
        (
            "ENGINE__EXPIRED_KEPT_MS",
            "86400001",
            "`engine.expired_kept_ms` is 86400001; it must be 0 to 86400000",
        ),
        (
            "GROUPS__MEMORY_BYTES_MAX",
            "1048575",
            "`groups.memory_bytes_max` is 1048575; it must be 1048576 to 274877906944",
        ),
        (
            "DOCUMENTS__METADATA_BYTES_MAX",
            "1",
            "`documents.metadata_bytes_max` is 1; it must be 2 to 65536",
        ),
        (
            "DOCUMENTS__METADATA_BYTES_MAX",
            "65537",
            "`documents.metadata_bytes_max` is 65537; it must be 2 to 65536",
        ),
        (
            "DOCUMENTS__EXPIRES_IN_S",
            "3155760001",
            "`documents.expires_in_s` is 3155760001; it must be 0 to 3155760000",
        ),
        (
            "ENGINE__INDEX_MEMORY_BYTES_MAX",
            "1048575",
            "`engine.index_memory_bytes_max` is 1048575; it must be \"auto\", 0, or 1048576 to 2^60",
        ),
    ] {
        assert_eq!(refusal(&[(&format!("NEARPRINT_{variable}"), value)]), refused);
    }
}

#[test]
fn a_file_that_is_missing_or_no_toml_is_named() {
    let missing = Sources { file: Some("no-such.toml".into()), ..Sources::default() };
    let refused = Config::load(&missing).unwrap_err().to_string();
    assert!(refused.contains("no-such.toml"), "{refused}");
    let (_directory, path) = file("[server\n");
    let broken = Sources { file: Some(path.clone()), ..Sources::default() };
    let refused = Config::load(&broken).unwrap_err().to_string();
    assert!(
        refused.contains(&path.display().to_string()) && refused.contains("not TOML"),
        "{refused}"
    );
}

#[test]
fn without_tokens_only_a_loopback_address_is_listened_on() {
    for listen in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1"] {
        assert!(settings(&[("NEARPRINT_SERVER__LISTEN", listen)]).is_ok(), "{listen}");
    }
    for listen in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
        let listens = ("NEARPRINT_SERVER__LISTEN", listen);
        let refused = refusal(&[listens]);
        assert!(refused.starts_with(&format!("`server.listen` is {listen}")), "{refused}");
        for tokens in ["NEARPRINT_ACCESS__TOKENS", "NEARPRINT_ACCESS__TOKENS_FILE"] {
            assert!(settings(&[listens, (tokens, "some")]).is_ok(), "{tokens}");
            assert!(settings(&[listens, (tokens, "")]).is_err(), "{tokens}");
        }
    }
}

#[test]
fn a_certificate_needs_its_key() {
    let refused = refusal(&[("NEARPRINT_SERVER__TLS_CERTIFICATE_FILE", "a")]);
    assert!(refused.ends_with("so `server.tls_key_file` must be set as well"), "{refused}");
    let refused = refusal(&[("NEARPRINT_SERVER__TLS_KEY_FILE", "a")]);
    assert!(refused.ends_with("so `server.tls_certificate_file` must be set as well"), "{refused}");
}

#[test]
fn what_is_printed_as_effective_shows_no_token() {
    let config =
        Config::load(&with(&[("NEARPRINT_ACCESS__TOKENS", "a read sha256:0123")])).unwrap();
    let text = config.effective();
    assert!(text.contains("tokens = \"(not shown)\"") && !text.contains("0123"), "{text}");
}

#[test]
fn what_is_fixed_in_a_directory_is_read_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let load = |environment: &[(&str, &str)]| {
        let sources = Sources { data: Some(data.clone()), ..with(environment) };
        Config::load_in_force(&sources)?.validated()
    };
    assert_eq!(load(&[]).unwrap().engine.distance_max.get(), 3, "there is no directory yet");
    assert!(!data.exists(), "looking creates nothing");

    let words: Recipe = "words-2".parse().unwrap();
    let distance_max = Distance::new(2).unwrap();
    let has_labels = false;
    let options = Options { distance_max, has_labels, ..Options::new(&data, words) };
    nearprint_engine::Engine::open(options).unwrap().close();
    let settings = load(&[]).unwrap();
    let defaults = settings.http.service.defaults;
    assert_eq!((settings.engine.recipe, settings.engine.distance_max), (words, distance_max));
    assert_eq!((defaults.recipe, defaults.distance_max), (words, distance_max));
    assert_eq!(defaults.distance, distance_max, "the default is lowered to what can be asked");
    assert!(!settings.engine.has_labels);
    let refused = load(&[("NEARPRINT_DATA__SEARCH", "likely")]).unwrap_err().to_string();
    assert!(refused.contains("nearprint reindex --search likely --data "), "{refused}");
    let same = [("NEARPRINT_DATA__RECIPE", "words-2"), ("NEARPRINT_DATA__DISTANCE_MAX", "2")];
    load(&same).unwrap();

    // The default of the file, given explicitly, contradicts as any other value does.
    let refused = load(&[("NEARPRINT_DATA__DISTANCE_MAX", "3")]).unwrap_err().to_string();
    let expected = format!(
        "`data.distance_max` is 3, but that of the data directory {0} is 2; leave the key out, \
         or change the directory: nearprint reindex --distance 3 --data {0}",
        data.display()
    );
    assert_eq!(refused, expected);
    let refused = load(&[("NEARPRINT_DATA__RECIPE", "np2")]).unwrap_err().to_string();
    assert!(
        refused.starts_with("`data.recipe` is np2, but that of the data directory "),
        "{refused}"
    );
    assert!(refused.contains(" is words-2;") && refused.contains("texts again"), "{refused}");
    let refused = load(&[("NEARPRINT_QUERY__DISTANCE", "3")]).unwrap_err().to_string();
    assert_eq!(refused, "`query.distance` is 3; it must be 0 to 2");
}

#[test]
fn numbers_are_not_demanded_where_nothing_is_verified() {
    let refused = refusal(&[
        ("NEARPRINT_QUERY__MIN_SIMILARITY", "0"),
        ("NEARPRINT_QUERY__MIN_NUMBERS", "0.5"),
    ]);
    assert!(refused.contains("`query.min_numbers` is 0.5; it must be 0 where"), "{refused}");
}

//! The section `[cluster]`.

use nearprint_engine::log::required::Required;

use super::{file, refusal, settings};
use crate::config::{Config, Sources};
use crate::replicas::nats::{NatsOptions, SignIn};
use crate::replicas::{ClusterOptions, Peers, Replica, ReplicaKind};

/// How many keys it has, all of which [`every_key_ends_in_an_option`] changes.
pub(super) const KEYS: usize = 15;

const NAME: (&str, &str) = ("NEARPRINT_CLUSTER__NAME", "crawl");
const ADDRESS: (&str, &str) = ("NEARPRINT_CLUSTER__ADDRESS", "http://10.0.0.1:7878");
const SERVERS: (&str, &str) = ("NEARPRINT_CLUSTER__SERVERS", "nats://10.0.0.1:4222");

fn with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    [&[NAME, ADDRESS, SERVERS], more].concat()
}

#[test]
fn every_key_ends_in_an_option() {
    let nobody = Peers { urls: vec![], token_file: None, ca_file: None };
    let defaults = ClusterOptions {
        address: "http://10.0.0.1:7878".to_owned(),
        log: NatsOptions {
            servers: vec!["nats://10.0.0.1:4222".to_owned()],
            name: "crawl".to_owned(),
            ..NatsOptions::default()
        },
        required: Required { replicas: 3, trust_sync: false, identity: None },
        takeover_ms: 3_000,
        write_timeout_ms: 10_000,
    };
    let node = |peers, options| Some(Replica { peers, kind: ReplicaKind::Node(Box::new(options)) });
    assert_eq!(settings(&with(&[])).unwrap().replica, node(nobody, defaults.clone()));
    let all = with(&[
        ("NEARPRINT_CLUSTER__SEEDS", "https://a.example/, http://b.example:1"),
        ("NEARPRINT_CLUSTER__TOKEN_FILE", "1"),
        ("NEARPRINT_CLUSTER__CA_FILE", "2"),
        ("NEARPRINT_CLUSTER__MONITORS", "http://10.0.0.1:8222"),
        ("NEARPRINT_CLUSTER__REPLICAS", "1"),
        ("NEARPRINT_CLUSTER__TRUST_SYNC", "true"),
        ("NEARPRINT_CLUSTER__USER", "node"),
        ("NEARPRINT_CLUSTER__PASSWORD_FILE", "3"),
        ("NEARPRINT_CLUSTER__LOG_CA_FILE", "4"),
        ("NEARPRINT_CLUSTER__TAKEOVER_MS", "3001"),
        ("NEARPRINT_CLUSTER__WRITE_TIMEOUT_MS", "101"),
    ]);
    let peers = Peers {
        urls: vec!["https://a.example".to_owned(), "http://b.example:1".to_owned()],
        token_file: Some("1".into()),
        ca_file: Some("2".into()),
    };
    let expected = ClusterOptions {
        log: NatsOptions {
            monitors: vec!["http://10.0.0.1:8222".to_owned()],
            sign_in: SignIn::Password { user: "node".to_owned(), file: "3".into() },
            roots: Some("4".into()),
            ..defaults.log.clone()
        },
        required: Required { replicas: 1, trust_sync: true, identity: None },
        takeover_ms: 3_001,
        write_timeout_ms: 101,
        ..defaults
    };
    assert_eq!(settings(&all).unwrap().replica, node(peers, expected));
    let signs_in = with(&[("NEARPRINT_CLUSTER__CREDENTIALS_FILE", "5")]);
    let signs_in = settings(&signs_in).unwrap().replica.unwrap();
    assert_eq!(signs_in.cluster().unwrap().log.sign_in, SignIn::Credentials("5".into()));
    assert_eq!(all.len() + 1, KEYS);
    assert_eq!(settings(&[]).unwrap().replica, None);
}

#[test]
fn what_a_cluster_lacks_or_what_contradicts_it_is_named() {
    let both = "`cluster.name` and `follow.url` are both set; a service is a node of a cluster or \
                follows a primary, so leave one of them empty";
    let two_ways = "`cluster.credentials_file` and `cluster.user` are both set; a node signs in one \
                    way, so leave one of them empty";
    let cases = [
        (vec![SERVERS], "`cluster.servers` is set, so `cluster.name` must be set as well"),
        (vec![NAME, ADDRESS], "`cluster.name` is set, so `cluster.servers` must be set as well"),
        (vec![NAME, SERVERS], "`cluster.name` is set, so `cluster.address` must be set as well"),
        (
            with(&[("NEARPRINT_CLUSTER__USER", "a")]),
            "`cluster.user` is set, so `cluster.password_file` must be set as well",
        ),
        (
            with(&[("NEARPRINT_CLUSTER__PASSWORD_FILE", "a")]),
            "`cluster.password_file` is set, so `cluster.user` must be set as well",
        ),
        (
            with(&[("NEARPRINT_CLUSTER__CREDENTIALS_FILE", "a"), ("NEARPRINT_CLUSTER__USER", "b")]),
            two_ways,
        ),
        (with(&[("NEARPRINT_FOLLOW__URL", "http://a:1")]), both),
    ];
    for (environment, refused) in cases {
        assert_eq!(refusal(&environment), refused);
    }
}

#[test]
fn a_value_outside_its_range_is_refused_by_name() {
    let address = "it must be the address at which the other nodes reach this one, such as \
                   http://10.0.0.1:7878, of at most 512 bytes";
    let listed =
        |example: &str| format!("it must be a list of at most 100 addresses, such as {example}");
    let (node, server) = (listed("http://10.0.0.2:7878"), listed("nats://10.0.0.1:4222"));
    let monitor = listed("http://10.0.0.1:8222");
    let long = format!("http://{}", "a".repeat(506));
    let many = "http://a,".repeat(101);
    for (key, value, range) in [
        ("NAME", "a.b", "it must be empty, or up to 64 letters, digits, - and _ of ASCII"),
        ("ADDRESS", "10.0.0.1:7878", address),
        ("ADDRESS", "http://a/b", address),
        ("ADDRESS", &long, address),
        ("SEEDS", "http://user@a", &node),
        ("SERVERS", "http://a", &server),
        ("MONITORS", "nats://a", &monitor),
        ("REPLICAS", "0", "it must be 1 to 5"),
        ("REPLICAS", "6", "it must be 1 to 5"),
        ("TAKEOVER_MS", "2999", "it must be 3000 to 600000"),
        ("WRITE_TIMEOUT_MS", "99", "it must be 100 to 600000"),
    ] {
        let variable = format!("NEARPRINT_CLUSTER__{key}");
        let environment = [&with(&[])[..], &[(&variable, value)]].concat();
        let name = key.to_lowercase();
        assert_eq!(refusal(&environment), format!("`cluster.{name}` is {value}; {range}"));
    }
    let environment = [&with(&[])[..], &[("NEARPRINT_CLUSTER__SEEDS", &many)]].concat();
    let refused = refusal(&environment);
    assert_eq!(refused, format!("`cluster.seeds` is a list of 101; {node}"));
}

#[test]
fn a_list_is_one_of_strings() {
    let (_directory, path) = file("[cluster]\nseeds = [\"http://a\", \"http://b\"]\n");
    let sources = Sources { file: Some(path), ..Sources::default() };
    assert_eq!(Config::load(&sources).unwrap().cluster.seeds, ["http://a", "http://b"]);
    for (list, found) in [("[\"http://a\", 1]", "a whole number"), ("\"http://a\"", "a string")] {
        let (_directory, path) = file(&format!("[cluster]\nseeds = {list}\n"));
        let sources = Sources { file: Some(path.clone()), ..Sources::default() };
        let refused = Config::load(&sources).unwrap_err().to_string();
        let expected = if found == "a string" { "a list" } else { "a list of strings" };
        let origin = path.display();
        assert_eq!(refused, format!("`cluster.seeds` in {origin} must be {expected}, not {found}"));
    }
}

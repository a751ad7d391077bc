//! Whether the servers sync what they acknowledge.
//!
//! They tell it only at their monitoring endpoints.

use std::collections::HashMap;
use std::time::Duration;

use nearprint_client::{ClientError, ServiceClient, Trust};
use serde::Deserialize;

/// A monitor that has not answered in this time tells nothing.
const TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Deserialize)]
struct Server {
    server_name: String,
    #[serde(default)]
    jetstream: JetStream,
}

#[derive(Debug, Default, Deserialize)]
struct JetStream {
    config: Option<Config>,
}

#[derive(Debug, Deserialize)]
struct Config {
    /// Absent if it does not.
    #[serde(default)]
    sync_always: bool,
}

/// Whether all of these servers do; `None` if one of them does not tell.
pub(super) fn all_sync(monitors: &[String], servers: &[String]) -> Option<bool> {
    let told: Vec<_> = monitors.iter().filter_map(|monitor| ask(monitor)).collect();
    combine(&told, servers)
}

fn ask(url: &str) -> Option<Server> {
    let asked = ServiceClient::new(url, None, Trust::Public, TIMEOUT)
        .and_then(|monitor| monitor.ask("/varz"))
        .and_then(|(_, body)| {
            serde_json::from_slice(&body).map_err(|error| ClientError::NoAnswer(error.to_string()))
        });
    asked
        .inspect_err(|error| tracing::warn!(%error, url, "a monitor of the log does not answer"))
        .ok()
}

fn combine(told: &[Server], servers: &[String]) -> Option<bool> {
    let told = told.iter().filter_map(|server| {
        let config = server.jetstream.config.as_ref()?;
        Some((server.server_name.as_str(), config.sync_always))
    });
    let told: HashMap<_, _> = told.collect();
    let syncs = servers.iter().map(|server| told.get(server.as_str()).copied());
    let syncs: Vec<_> = syncs.collect();
    if syncs.contains(&Some(false)) {
        return Some(false);
    }
    let all_tell = !syncs.is_empty() && !syncs.contains(&None);
    all_tell.then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(json: &[&str]) -> Vec<Server> {
        json.iter().map(|json| serde_json::from_str(json).unwrap()).collect()
    }

    #[test]
    fn one_lazy_server_is_enough_and_all_must_tell() {
        const ALWAYS: &str =
            r#"{"server_name": "a", "jetstream": {"config": {"sync_always": true}}}"#;
        const LAZY: &str =
            r#"{"server_name": "b", "jetstream": {"config": {"sync_interval": 120000000000}}}"#;
        const WITHOUT: &str = r#"{"server_name": "c", "jetstream": {}}"#;
        let all = told(&[ALWAYS, LAZY, WITHOUT]);
        let cases: [(&[&str], Option<bool>); 6] = [
            (&["a"], Some(true)),
            (&["a", "b"], Some(false)),
            (&["a", "b", "d"], Some(false)),
            (&["a", "c"], None),
            (&["a", "d"], None),
            (&[], None),
        ];
        for (servers, expected) in cases {
            let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
            assert_eq!(combine(&all, &servers), expected, "{servers:?}");
        }
    }
}

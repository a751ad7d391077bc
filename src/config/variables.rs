//! Which environment variables are configuration, which belong to other programs, and which are
//! misspelt.

use std::ffi::OsStr;

/// The prefix of all our variables.
pub(super) const PREFIX: &str = "NEARPRINT_";
/// What separates section and key in the name of a variable.
pub(super) const SEPARATOR: &str = "__";

/// The variables that commands read as defaults of their options; a test of `cli` compares them
/// with the options.
pub const OPTION_VARIABLES: [&str; 3] = ["NEARPRINT_TOKEN", "NEARPRINT_CA_FILE", "NEARPRINT_URL"];

/// The variables of this project's own tests, which start the service in their environment.
const TEST_PREFIXES: [&str; 3] = ["NEARPRINT_TEST_", "NEARPRINT_SIMULATION_", "NEARPRINT_BLESS"];

/// The key that a variable sets, as `section.key`; `None` if its name lacks the separator.
pub(super) fn key_of(name: &str) -> Option<String> {
    let (section, key) = name.strip_prefix(PREFIX)?.split_once(SEPARATOR)?;
    Some(format!("{section}.{key}").to_ascii_lowercase())
}

/// Whether a variable begins with [`PREFIX`], but is read by somebody else.
pub(super) fn is_ignored(name: &str, value: &OsStr) -> bool {
    OPTION_VARIABLES.contains(&name)
        || TEST_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || is_service_link(name, value)
}

/// Whether a container platform sets the variable. Kubernetes gives every container the addresses
/// of the services in its namespace, so those of a service called `nearprint` have our prefix:
/// `NEARPRINT_SERVICE_HOST`, `NEARPRINT_SERVICE_PORT_HTTP`, `NEARPRINT_PORT=tcp://10.0.0.1:7878`,
/// `NEARPRINT_PORT_7878_TCP_ADDR`.
fn is_service_link(name: &str, value: &OsStr) -> bool {
    let parts: Vec<&str> = name.split('_').collect();
    let names_service = parts.windows(2).any(|pair| matches!(pair, ["SERVICE", "HOST" | "PORT"]));
    let names_port = parts.windows(3).any(|part| match part {
        ["PORT", number, "TCP" | "UDP" | "SCTP"] => number.parse::<u16>().is_ok(),
        _ => false,
    });
    let is_url = value.to_str().is_some_and(|value| {
        ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme))
    });
    names_service || names_port || (is_url && parts.last() == Some(&"PORT"))
}

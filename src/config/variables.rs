//! Which environment variables are configuration, which belong to other programs, and which are
//! misspelt.

use std::ffi::OsStr;

use strsim::levenshtein as edits;

/// The prefix of all our variables.
pub(super) const PREFIX: &str = "NEARPRINT_";
/// What separates section and key in the name of a variable.
const SEPARATOR: &str = "__";

/// The variables that commands read as defaults of their options; a test of `cli` compares them
/// with the options.
pub const OPTION_VARIABLES: [&str; 2] = ["NEARPRINT_TOKEN", "NEARPRINT_CA_FILE"];

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

/// The known variable whose name is nearest to `name`, with its section or without.
pub(super) fn nearest(name: &str, keys: &[String]) -> String {
    let given = name.strip_prefix(PREFIX).unwrap_or(name).to_ascii_uppercase();
    let of_keys = keys.iter().filter_map(|key| {
        let (section, key) = key.split_once('.')?;
        let (section, key) = (section.to_ascii_uppercase(), key.to_ascii_uppercase());
        let with_section = format!("{section}{SEPARATOR}{key}");
        let distance = edits(&given, &with_section).min(edits(&given, &key));
        Some((distance, format!("{PREFIX}{with_section}")))
    });
    let of_options = OPTION_VARIABLES.iter().filter_map(|option| {
        Some((edits(&given, option.strip_prefix(PREFIX)?), (*option).to_owned()))
    });
    let nearest = of_keys.chain(of_options).min_by_key(|(distance, _)| *distance);
    nearest.map(|(_, variable)| variable).expect("there are keys and options")
}

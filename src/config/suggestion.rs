//! "Did you mean ...?": the known key or variable that a misspelt one is nearest to.

use strsim::levenshtein as edits;

use super::variables::{OPTION_VARIABLES, PREFIX, SEPARATOR};

/// The known key, as `section.key`, that is nearest to `name`. A name outside any section is looked
/// for in all of them.
pub(super) fn nearest_key(name: &str, keys: Vec<String>) -> String {
    let distance = |key: &String| match key.rsplit('.').next() {
        Some(last) if !name.contains('.') => edits(last, name),
        _ => edits(key, name),
    };
    keys.into_iter().min_by_key(distance).expect("the defaults have keys")
}

/// The known variable whose name is nearest to `name`, with its section or without.
pub(super) fn nearest_variable(name: &str, keys: &[String]) -> String {
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

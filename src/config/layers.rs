//! Merging the layers of the configuration, and saying precisely what is wrong with one.
//!
//! Works on TOML tables: a key is known if the embedded defaults have it, and a value fits if it is
//! of the same kind as the default. So the file of defaults is the only list of keys.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::{Config, DEFAULT_TOML};

/// Where the configuration comes from besides the embedded defaults.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// A configuration file.
    pub file: Option<PathBuf>,
    /// The environment of the process, or a part of it; names without the form
    /// `NEARPRINT_SECTION__KEY` are left alone.
    pub environment: Vec<(String, String)>,
    /// The flag `--listen`.
    pub listen: Option<String>,
    /// The flag `--data`.
    pub data: Option<PathBuf>,
}

impl Sources {
    /// The environment of this process, with an optional file.
    pub fn of_process(file: Option<PathBuf>) -> Self {
        Self {
            file,
            environment: std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .collect(),
            ..Self::default()
        }
    }
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{} is not TOML: {message}", path.display())]
    NotToml {
        /// The file.
        path: PathBuf,
        /// Where and why.
        message: String,
    },
    /// A key that does not exist.
    #[error("unknown key `{key}` in {origin}; did you mean `{nearest}`?")]
    UnknownKey {
        /// The key, as `section.key`.
        key: String,
        /// The file, variable or flag.
        origin: String,
        /// The known key with the most similar name.
        nearest: String,
    },
    /// A value of another kind than the key takes.
    #[error("`{key}` in {origin} must be {expected}, not {found}")]
    WrongKind {
        /// The key.
        key: String,
        /// The file, variable or flag.
        origin: String,
        /// What the key takes.
        expected: &'static str,
        /// What was given.
        found: &'static str,
    },
    /// Others could reach the service, and nothing keeps them out.
    #[error(
        "`server.listen` is {listen}, where others can reach it, but no tokens are configured \
         (access.tokens_file)"
    )]
    NoTokens {
        /// The address.
        listen: std::net::SocketAddr,
    },
    /// A key that is of no use without another one.
    #[error("`{given}` is set, so `{missing}` must be set as well")]
    Missing {
        /// The key that is set.
        given: &'static str,
        /// The key that is not.
        missing: &'static str,
    },
    /// A value outside the range of its key.
    #[error("`{key}` is {value}; it must be {range}")]
    OutOfRange {
        /// The key.
        key: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        range: String,
    },
}

const PREFIX: &str = "NEARPRINT_";
const SEPARATOR: &str = "__";

pub(super) fn merge(sources: &Sources) -> Result<Config, ConfigError> {
    let mut merged: Table = DEFAULT_TOML.parse().expect("a test parses config/default.toml");
    if let Some(path) = &sources.file {
        merge_file(&mut merged, path)?;
    }
    for (name, text) in &sources.environment {
        // A name without the double underscore is not ours to judge: container platforms put
        // NEARPRINT_PORT and the like there for a service of this name.
        if let Some((section, key)) =
            name.strip_prefix(PREFIX).and_then(|rest| rest.split_once(SEPARATOR))
        {
            let (section, key) = (section.to_ascii_lowercase(), key.to_ascii_lowercase());
            set_text(&mut merged, (&section, &key), text, &format!("the variable {name}"))?;
        }
    }
    if let Some(listen) = &sources.listen {
        set_text(&mut merged, ("server", "listen"), listen, "--listen")?;
    }
    if let Some(data) = &sources.data {
        set_text(&mut merged, ("data", "directory"), &data.to_string_lossy(), "--data")?;
    }
    Ok(merged.try_into().expect("every key is known and of the kind of its default"))
}

fn merge_file(merged: &mut Table, path: &Path) -> Result<(), ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| ConfigError::NotToml {
        path: path.to_owned(),
        message: error.to_string(),
    })?;
    let origin = path.display().to_string();
    for (section, keys) in table {
        match keys {
            Value::Table(keys) if merged.contains_key(&section) => {
                for (key, value) in keys {
                    set(merged, (&section, &key), value, &origin)?;
                }
            }
            Value::Table(keys) => {
                let first = keys.keys().next().map_or("", String::as_str);
                return Err(unknown(merged, format!("{section}.{first}"), &origin));
            }
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Array(_) => return Err(unknown(merged, section, &origin)),
        }
    }
    Ok(())
}

/// Sets a key from text: a number or boolean where the default is one, else the text itself.
fn set_text(
    merged: &mut Table,
    (section, key): (&str, &str),
    text: &str,
    origin: &str,
) -> Result<(), ConfigError> {
    let wants_text =
        matches!(merged.get(section).and_then(|keys| keys.get(key)), Some(Value::String(_)));
    let scalar = || format!("value = {text}").parse::<Table>().ok()?.remove("value");
    let value = if wants_text { None } else { scalar() };
    let value = value.unwrap_or_else(|| Value::String(text.to_owned()));
    set(merged, (section, key), value, origin)
}

fn set(
    merged: &mut Table,
    (section, key): (&str, &str),
    value: Value,
    origin: &str,
) -> Result<(), ConfigError> {
    let name = format!("{section}.{key}");
    let Some(current) =
        merged.get_mut(section).and_then(Value::as_table_mut).and_then(|keys| keys.get_mut(key))
    else {
        return Err(unknown(merged, name, origin));
    };
    *current = match (&*current, value) {
        (Value::Float(_), Value::Integer(whole)) =>
        {
            #[expect(clippy::cast_precision_loss, reason = "the ranges of float keys are small")]
            Value::Float(whole as f64)
        }
        // TOML integers are signed; every integer of ours counts something.
        (Value::Integer(_), Value::Integer(negative)) if negative < 0 => {
            return Err(ConfigError::WrongKind {
                key: name,
                origin: origin.to_owned(),
                expected: "a whole number of 0 or more",
                found: "a negative one",
            });
        }
        (current, value) if current.same_type(&value) => value,
        (current, value) => {
            return Err(ConfigError::WrongKind {
                key: name,
                origin: origin.to_owned(),
                expected: kind(current),
                found: kind(&value),
            });
        }
    };
    Ok(())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

fn unknown(known: &Table, key: String, origin: &str) -> ConfigError {
    let names = known.iter().flat_map(|(section, keys)| {
        let keys = keys.as_table().into_iter().flat_map(Table::keys);
        keys.map(move |key| format!("{section}.{key}"))
    });
    // A key that stands outside any section is looked for in all of them.
    let without_section = |name: &str| name.rsplit('.').next().map_or(0, |last| edits(last, &key));
    let distance = |name: &String| {
        if key.contains('.') { edits(name, &key) } else { without_section(name) }
    };
    let nearest = names.min_by_key(distance).expect("the defaults have keys");
    ConfigError::UnknownKey { key, origin: origin.to_owned(), nearest }
}

/// The Levenshtein distance, for names of a few dozen bytes.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

//! Merging the layers of the configuration, and saying precisely what is wrong with one.
//!
//! Works on TOML tables: a key is known if the embedded defaults have it, and a value fits if it is
//! of the same kind as the default. So the file of defaults is the only list of keys.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use strsim::levenshtein as edits;
use toml::{Table, Value};

use super::variables::{self, PREFIX};
use super::{Config, DEFAULT_TOML};

/// Where the configuration comes from besides the embedded defaults.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// A configuration file.
    pub file: Option<PathBuf>,
    /// The environment of the process, or a part of it. Names that do not begin with `NEARPRINT_`
    /// are ignored.
    pub environment: Vec<(String, OsString)>,
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
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
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
    /// Variables that look like ours and are not.
    #[error("{}", unknown_variables(.0))]
    UnknownVariables(Vec<UnknownVariable>),
    /// A variable whose value is not text.
    #[error("the value of the variable {name} is not UTF-8")]
    NotUtf8 {
        /// The variable.
        name: String,
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

/// A variable of the environment that begins with `NEARPRINT_` and that nothing reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownVariable {
    /// Its name.
    pub name: String,
    /// The known variable with the most similar name.
    pub nearest: String,
}

fn unknown_variables(variables: &[UnknownVariable]) -> String {
    let sentence = |UnknownVariable { name, nearest }: &UnknownVariable| {
        format!("unknown variable {name}; did you mean {nearest}?")
    };
    variables.iter().map(sentence).collect::<Vec<_>>().join(" ")
}

pub(super) fn merge(sources: &Sources) -> Result<Config, ConfigError> {
    let mut merged: Table = DEFAULT_TOML.parse().expect("a test parses config/default.toml");
    if let Some(path) = &sources.file {
        merge_file(&mut merged, path)?;
    }
    merge_environment(&mut merged, &sources.environment)?;
    if let Some(listen) = &sources.listen {
        set_text(&mut merged, ("server", "listen"), listen, "--listen")?;
    }
    if let Some(data) = &sources.data {
        set_text(&mut merged, ("data", "directory"), &data.to_string_lossy(), "--data")?;
    }
    Ok(merged.try_into().expect("every key is known and of the kind of its default"))
}

fn merge_environment(
    merged: &mut Table,
    environment: &[(String, OsString)],
) -> Result<(), ConfigError> {
    let mut unknown = Vec::new();
    for (name, value) in environment {
        if !name.starts_with(PREFIX) || variables::is_of_others(name, value) {
            continue;
        }
        let Some((section, key)) = variables::key_of(name) else {
            let nearest = variables::nearest(name, &keys(merged));
            unknown.push(UnknownVariable { name: name.clone(), nearest });
            continue;
        };
        let text = value.to_str().ok_or_else(|| ConfigError::NotUtf8 { name: name.clone() })?;
        set_text(merged, (&section, &key), text, &format!("the variable {name}"))?;
    }
    if unknown.is_empty() { Ok(()) } else { Err(ConfigError::UnknownVariables(unknown)) }
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
    // A key that stands outside any section is looked for in all of them.
    let without_section = |name: &str| name.rsplit('.').next().map_or(0, |last| edits(last, &key));
    let distance = |name: &String| {
        if key.contains('.') { edits(name, &key) } else { without_section(name) }
    };
    let nearest = keys(known).into_iter().min_by_key(distance).expect("the defaults have keys");
    ConfigError::UnknownKey { key, origin: origin.to_owned(), nearest }
}

/// Every key of a table of sections, as `section.key`.
fn keys(sections: &Table) -> Vec<String> {
    let of_section = |(section, keys): (&String, &Value)| {
        let keys = keys.as_table().into_iter().flat_map(Table::keys);
        keys.map(|key| format!("{section}.{key}")).collect::<Vec<_>>()
    };
    sections.iter().flat_map(of_section).collect()
}

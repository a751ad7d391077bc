//! Merges the layers of the configuration, and names what is wrong with one.
//!
//! Works on TOML tables: a key is known if the embedded defaults have it, and a value fits if it is
//! of the same kind as the default. So the file of defaults is the only list of keys.
//! `docs/decisions/0023-own-configuration-layers.md` explains why no library does this.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nearprint_engine::directory_file::DirectoryFile;
use nearprint_engine::operator_file;
use toml::{Table, Value};

use super::error::{ConfigError, UnknownVariable};
use super::keys::{Config, DEFAULT_TOML};
use super::memory::{INDEX_MEMORY, MEMORY};
use super::suggestion;
use super::variables::{self, PREFIX};

/// Keys that take a word or a count; the word is their default.
const WORD_OR_NUMBER: [&str; 2] = [MEMORY, INDEX_MEMORY];

/// The largest configuration file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where the configuration comes from, in addition to the embedded defaults.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    pub file: Option<PathBuf>,
    /// The environment of the process, or a part of it. Names that do not begin with `NEARPRINT_`
    /// are ignored.
    pub environment: Vec<(String, OsString)>,
    /// The flag `--listen`.
    pub listen: Option<String>,
    /// The flag `--data`.
    pub data: Option<PathBuf>,
    /// The flag `--follow`.
    pub follow: Option<String>,
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

impl Config {
    /// Merges the defaults, the file, the environment and the flags.
    ///
    /// # Errors
    /// [`ConfigError`] names the key, where it came from and what would be right.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        Ok(Layers::merge(sources)?.config())
    }

    /// As [`Self::load`], with what is fixed when a directory is created taken from the data
    /// directory if it exists. A directory file that cannot be read is left to whoever opens the
    /// directory.
    ///
    /// # Errors
    /// As [`Self::load`], and [`ConfigError::Contradicts`] if a key contradicts the directory.
    pub fn load_in_force(sources: &Sources) -> Result<Self, ConfigError> {
        let mut layers = Layers::merge(sources)?;
        let path = layers.config().data.directory;
        if let Some(directory) = DirectoryFile::read_at(&path) {
            layers.adopt(&directory, &path)?;
        }
        Ok(layers.config())
    }
}

/// The values of all keys, and which of them a file, a variable or a flag gives.
struct Layers {
    values: Table,
    given: BTreeSet<String>,
}

impl Layers {
    fn merge(sources: &Sources) -> Result<Self, ConfigError> {
        let values = DEFAULT_TOML.parse().expect("a test parses config/default.toml");
        let mut merged = Self { values, given: BTreeSet::new() };
        if let Some(path) = &sources.file {
            merge_file(&mut merged, path)?;
        }
        merge_environment(&mut merged, &sources.environment)?;
        if let Some(listen) = &sources.listen {
            set_text(&mut merged, "server.listen", listen, "--listen")?;
        }
        if let Some(data) = &sources.data {
            set_text(&mut merged, "data.directory", &data.to_string_lossy(), "--data")?;
        }
        if let Some(url) = &sources.follow {
            set_text(&mut merged, "follow.url", url, "--follow")?;
        }
        Ok(merged)
    }

    fn config(&self) -> Config {
        let values = self.values.clone();
        values.try_into().expect("every key is known and of the kind of its default")
    }

    /// Takes from a directory what is fixed when it is created.
    fn adopt(&mut self, directory: &DirectoryFile, path: &Path) -> Result<(), ConfigError> {
        let distance_max = i64::from(directory.distance_max.get());
        let search = if directory.has_labels { "likely" } else { "exact" };
        let fixed = [
            ("data.recipe", Value::String(directory.identity.recipe())),
            ("data.distance_max", Value::Integer(distance_max)),
            ("data.search", Value::String(search.to_owned())),
        ];
        for (key, created) in fixed {
            let is_given = self.given.contains(key);
            let configured = value_of(&mut self.values, key).expect("a key of the defaults");
            if is_given && *configured != created {
                return Err(contradicts(key, configured, &created, path));
            }
            *configured = created;
        }
        // The default must be a distance that the directory can look up.
        if !self.given.contains("query.distance")
            && let Some(Value::Integer(distance)) = value_of(&mut self.values, "query.distance")
        {
            *distance = distance_max.min(*distance);
        }
        Ok(())
    }
}

fn merge_environment(
    merged: &mut Layers,
    environment: &[(String, OsString)],
) -> Result<(), ConfigError> {
    let mut unknown = Vec::new();
    for (name, value) in environment {
        if !name.starts_with(PREFIX) || variables::is_ignored(name, value) {
            continue;
        }
        let Some(key) = variables::key_of(name) else {
            let nearest = suggestion::nearest_variable(name, &keys(&merged.values));
            unknown.push(UnknownVariable { name: name.clone(), nearest });
            continue;
        };
        let text = value.to_str().ok_or_else(|| ConfigError::NotUtf8 { name: name.clone() })?;
        set_text(merged, &key, text, &format!("the variable {name}"))?;
    }
    if unknown.is_empty() { Ok(()) } else { Err(ConfigError::UnknownVariables(unknown)) }
}

fn merge_file(merged: &mut Layers, path: &Path) -> Result<(), ConfigError> {
    let text = operator_file::read_text(path, FILE_BYTES_MAX)
        .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| ConfigError::NotToml {
        path: path.to_owned(),
        message: error.to_string(),
    })?;
    let origin = path.display().to_string();
    for (section, keys) in table {
        match keys {
            Value::Table(keys) if merged.values.contains_key(&section) => {
                for (key, value) in keys {
                    set(merged, &format!("{section}.{key}"), value, &origin)?;
                }
            }
            Value::Table(keys) => {
                let first = keys.keys().next().map_or("", String::as_str);
                return Err(unknown(&merged.values, format!("{section}.{first}"), &origin));
            }
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Array(_) => return Err(unknown(&merged.values, section, &origin)),
        }
    }
    Ok(())
}

/// Sets a key from text: to a number or boolean if its default is one, to what is between the
/// commas if it is a list, and otherwise to the text itself.
fn set_text(merged: &mut Layers, key: &str, text: &str, origin: &str) -> Result<(), ConfigError> {
    let words = || text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let scalar = || format!("value = {text}").parse::<Table>().ok()?.remove("value");
    let value = match value_of(&mut merged.values, key) {
        Some(Value::Array(_)) => Some(Value::Array(words().map(Value::from).collect())),
        Some(Value::String(_)) => None,
        Some(_) | None => scalar(),
    };
    set(merged, key, value.unwrap_or_else(|| Value::String(text.to_owned())), origin)
}

/// The value of a key such as `server.listen`.
fn value_of<'a>(values: &'a mut Table, key: &str) -> Option<&'a mut Value> {
    let (section, key) = key.split_once('.')?;
    values.get_mut(section)?.as_table_mut()?.get_mut(key)
}

fn set(merged: &mut Layers, key: &str, value: Value, origin: &str) -> Result<(), ConfigError> {
    let Some(current) = value_of(&mut merged.values, key) else {
        return Err(unknown(&merged.values, key.to_owned(), origin));
    };
    let wrong_kind = |expected, found| ConfigError::WrongKind {
        key: key.to_owned(),
        origin: origin.to_owned(),
        expected,
        found,
    };
    let is_count = current.is_integer() || WORD_OR_NUMBER.contains(&key);
    *current = match (&*current, value) {
        (Value::Float(_), Value::Integer(whole)) =>
        {
            #[expect(clippy::cast_precision_loss, reason = "the ranges of float keys are small")]
            Value::Float(whole as f64)
        }
        // TOML integers are signed, but every integer key is a count.
        (_, Value::Integer(negative)) if negative < 0 && is_count => {
            return Err(wrong_kind("a whole number of 0 or more", "a negative one"));
        }
        // All lists are of strings.
        (Value::Array(_), Value::Array(items)) => match items.iter().find(|item| !item.is_str()) {
            Some(item) => return Err(wrong_kind("a list of strings", kind(item))),
            None => Value::Array(items),
        },
        // A number where a word such as `auto` may stand.
        (Value::String(_), Value::Integer(number)) if WORD_OR_NUMBER.contains(&key) => {
            Value::String(number.to_string())
        }
        (current, value) if current.same_type(&value) => value,
        (current, value) => return Err(wrong_kind(kind(current), kind(&value))),
    };
    merged.given.insert(key.to_owned());
    Ok(())
}

fn contradicts(key: &'static str, configured: &Value, created: &Value, path: &Path) -> ConfigError {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (configured, created) = (plain(configured), plain(created));
    let data = path.display();
    let change = if key == "data.recipe" {
        "another recipe needs the texts again, in a new directory".to_owned()
    } else {
        let option = if key == "data.search" { "search" } else { "distance" };
        format!("change the directory: nearprint reindex --{option} {configured} --data {data}")
    };
    ConfigError::Contradicts { key, configured, created, data: path.to_owned(), change }
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
    let nearest = suggestion::nearest_key(&key, keys(known));
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

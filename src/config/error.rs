//! Why a configuration is refused.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Unreadable {
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{} is not TOML: {message}", path.display())]
    NotToml {
        path: PathBuf,
        /// The message of the TOML parser, with line and column.
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
    /// Variables that begin with `NEARPRINT_`, and that nothing reads.
    #[error("{}", unknown_variables(.0))]
    UnknownVariables(Vec<UnknownVariable>),
    /// A variable whose value is not text.
    #[error("the value of the variable {name} is not UTF-8")]
    NotUtf8 { name: String },
    /// A key contradicts the data directory, where it is fixed.
    #[error(
        "`{key}` is {configured}, but that of the data directory {} is {created}; leave the key \
         out, or {change}", data.display()
    )]
    Contradicts {
        key: &'static str,
        /// Its value in the configuration.
        configured: String,
        /// Its value in the directory.
        created: String,
        data: PathBuf,
        /// How to change the directory.
        change: String,
    },
    /// A value of the wrong kind.
    #[error("`{key}` in {origin} must be {expected}, not {found}")]
    WrongKind {
        key: String,
        /// The file, variable or flag.
        origin: String,
        /// The kind that the key takes.
        expected: &'static str,
        /// The kind that was given.
        found: &'static str,
    },
    /// The service would listen on a public address without tokens.
    #[error(
        "`server.listen` is {listen}, where others can reach it, but no tokens are configured \
         (access.tokens_file)"
    )]
    NoTokens { listen: SocketAddr },
    /// A key that has no effect without another one.
    #[error("`{given}` is set, so `{missing}` must be set as well")]
    Missing {
        /// The key that is set.
        given: &'static str,
        /// The key that is not.
        missing: &'static str,
    },
    /// Two keys that exclude each other.
    #[error("`{one}` and `{other}` are both set; {why}, so leave one of them empty")]
    Excluded {
        one: &'static str,
        other: &'static str,
        /// Why not both.
        why: &'static str,
    },
    /// A value outside the range of its key.
    #[error("`{key}` is {value}; it must be {range}")]
    OutOfRange {
        key: &'static str,
        /// The value that was given.
        value: String,
        /// The values that are allowed.
        range: String,
    },
}

/// An environment variable that begins with `NEARPRINT_`, and that nothing reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownVariable {
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

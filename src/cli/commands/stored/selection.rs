//! Which documents a command concerns.

use std::fmt;

use clap::builder::NonEmptyStringValueParser;

use crate::cli::collection::Which;
use crate::cli::printable::printable;

/// The documents of one namespace or of all, with ids that begin in one way.
///
/// An empty value is refused. It may come from a variable that is not set, and would concern
/// everything.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub(super) struct SelectionArgs {
    /// The namespace; without it, the default one
    #[arg(
        long,
        value_name = "NAME",
        value_parser = NonEmptyStringValueParser::new(),
        conflicts_with = "all_namespaces"
    )]
    pub(super) namespace: Option<String>,
    /// All namespaces, the default one included
    #[arg(long)]
    pub(super) all_namespaces: bool,
    /// Only documents whose id begins so
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(super) prefix: Option<String>,
}

impl SelectionArgs {
    /// The same for a collection.
    pub(super) fn which(&self) -> Which<'_> {
        let Self { namespace, all_namespaces, prefix } = self;
        let (namespace, prefix) = (namespace.as_deref(), prefix.as_deref());
        Which { namespace, all_namespaces: *all_namespaces, prefix }
    }
}

impl fmt::Display for SelectionArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            _ if self.all_namespaces => f.write_str("all namespaces")?,
            Some(name) => write!(f, "namespace {}", printable(name))?,
            None => f.write_str("the default namespace")?,
        }
        match &self.prefix {
            Some(prefix) => write!(f, ", ids that begin with {}", printable(prefix)),
            None => Ok(()),
        }
    }
}

//! `token`: makes a token for the service, and its line for the file of tokens.

use std::io::Write;
use std::num::NonZero;

use anyhow::{Context, Result};

use crate::access::{AllowedNamespaces, BadNamespaces, NamePattern, Permissions, Token};

const EXAMPLES: &str = "\
Examples:
  nearprint token crawler >> /etc/nearprint/tokens
  nearprint token news --scopes read --rate 50 --namespace 'news/*' >> /etc/nearprint/tokens";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TokenArgs {
    /// The name of the token, for readers of the file; not a secret
    #[arg(default_value = "client", value_parser = name)]
    name: String,
    /// What the token allows: read, write, admin, separated by commas
    #[arg(long, value_name = "SCOPES", default_value = "read,write")]
    scopes: Permissions,
    /// The maximum number of requests a second, if not that of the configuration
    #[arg(long, value_name = "REQUESTS")]
    rate: Option<NonZero<u32>>,
    /// Limits the token to the documents of a namespace, or with NAME* to those of all namespaces
    /// whose names begin with NAME; may be given several times
    #[arg(long = "namespace", value_name = "NAME", value_parser = NamePattern::new)]
    namespaces: Vec<NamePattern>,
}

/// The line goes to standard output, so that it can be appended to a file. The token is shown once,
/// on standard error.
pub(crate) fn run(args: &TokenArgs, out: &mut dyn Write) -> Result<()> {
    let namespaces = namespaces_column(&args.namespaces)?;
    let token = Token::generate().context("the operating system has no random numbers")?;
    let rate = args.rate.map_or_else(String::new, |rate| format!(" rate={rate}"));
    writeln!(out, "{} {} {}{rate}{namespaces}", args.name, args.scopes, token.digest())?;
    say!("the token (shown once, not stored): {}", token.reveal());
    say!("its line, for the file that access.tokens_file names:");
    Ok(())
}

/// The last column of the line; empty for a token that reaches every namespace.
fn namespaces_column(names: &[NamePattern]) -> Result<String, BadNamespaces> {
    if names.is_empty() {
        return Ok(String::new());
    }
    let namespaces = AllowedNamespaces::limited_to(names.to_vec())?;
    Ok(format!(" namespaces={namespaces}"))
}

/// Reads a name: one word that does not begin a comment.
fn name(text: &str) -> Result<String, &'static str> {
    let whole = !text.is_empty() && !text.starts_with('#');
    if whole && !text.contains(|c: char| c.is_whitespace() || c == ';') {
        Ok(text.to_owned())
    } else {
        Err("is not one word")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Access, NAMESPACES_MAX, TokenSource};

    fn line(namespaces: &[&str]) -> Result<String> {
        let args = TokenArgs {
            name: "crawler".to_owned(),
            scopes: "read".parse().unwrap(),
            rate: NonZero::new(7),
            namespaces: namespaces.iter().map(|name| NamePattern::new(name).unwrap()).collect(),
        };
        let mut line = Vec::new();
        run(&args, &mut line)?;
        Ok(String::from_utf8(line).unwrap())
    }

    #[test]
    fn the_line_is_one_that_the_service_takes() {
        let lines = line(&[]).unwrap();
        assert!(lines.starts_with("crawler read sha256:") && lines.ends_with(" rate=7\n"));
        assert!(!lines.contains("nearprint_"), "the token is not in the line");
        Access::open(TokenSource { lines, ..TokenSource::default() }).unwrap();
    }

    #[test]
    fn namespaces_are_in_the_line_and_percent_encoded() {
        let lines = line(&["news/*", "a, b;"]).unwrap();
        assert!(lines.ends_with(" rate=7 namespaces=news/*,a%2C%20b%3B\n"), "{lines}");
        Access::open(TokenSource { lines, ..TokenSource::default() }).unwrap();
        assert!(line(&vec!["a"; NAMESPACES_MAX + 1]).is_err());
    }

    #[test]
    fn a_name_is_one_word() {
        assert_eq!(name("a-b"), Ok("a-b".to_owned()));
        for wrong in ["", "a b", "#a", "a;b"] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}

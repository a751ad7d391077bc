//! `cluster verify`: whether all nodes have the same content.
//!
//! The streams of all documents of two nodes are compared. Writes go on meanwhile, so the streams
//! are of two moments, and a document may be in one of them alone because it was removed or stored
//! in between. So what differs is looked at again in streams that begin once both nodes have all
//! changes of the first ones: what differs then in the same way, does.

use std::collections::BTreeSet;
use std::io::{BufRead, Write};

use anyhow::{Context as _, Result, anyhow};
use serde_json::Value;

use super::nodes::{self, NodesArgs};
use crate::cli::collection::RemoteService;
use crate::cli::error_report::ErrorReport;
use crate::cli::exit_code;
use crate::cli::measure::numbers::count;

/// No more differences are kept.
const DIFFERENCES_MAX: usize = 100_000;
/// So many are shown.
const SHOWN_MAX: usize = 10;

#[derive(Debug, clap::Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    nodes: NodesArgs,
}

/// A document that one of two nodes has, and the other has not or otherwise.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Difference {
    sequence: u64,
    /// Whether the first of the two has it.
    is_first: bool,
    line: String,
}

pub(super) fn run(args: &VerifyArgs, out: &mut dyn Write) -> Result<()> {
    let services = args.nodes.services()?;
    let asked = nodes::ask(&services);
    let silent: Vec<&str> =
        asked.iter().filter(|node| node.sequence.is_none()).map(|n| n.server.as_str()).collect();
    if let [silent, ..] = silent[..] {
        let next = "start it, or name only the nodes to compare: --server URL";
        return Err(ErrorReport::new(format!("{silent} does not answer"), next).into());
    }
    let [first, others @ ..] = &services[..] else { return Ok(()) };
    let mut are_equal = true;
    for other in others {
        let (documents, differences) = compare(first, other)?;
        are_equal &= differences.is_empty();
        let pair = format!("{} and {}", first.address(), other.address());
        if differences.is_empty() {
            writeln!(out, "{pair} have the same {} documents", count(documents))?;
            continue;
        }
        writeln!(out, "{pair} differ in {} documents:", count(differences.len() as u64))?;
        for Difference { is_first, line, .. } in differences.iter().take(SHOWN_MAX) {
            let who = if *is_first { first } else { other };
            writeln!(out, "  {} alone: {line}", who.address())?;
        }
    }
    if are_equal {
        return Ok(());
    }
    let next = "empty the directory of the node that is wrong and start it, so that it is filled \
                from another; and report this: it must not happen";
    let report = ErrorReport::new("nodes have other content", next);
    Err(report.with_code(exit_code::NODES_DIFFER).into())
}

/// The number of documents of two nodes, and what differs.
fn compare(first: &RemoteService, other: &RemoteService) -> Result<(u64, BTreeSet<Difference>)> {
    let (documents, seen) = pass(first, other, None)?;
    if seen.is_empty() {
        return Ok((documents, seen));
    }
    let newest = [first, other].map(RemoteService::sequence).into_iter().flatten().max();
    let (documents, again) = pass(first, other, newest)?;
    Ok((documents, seen.intersection(&again).cloned().collect()))
}

fn pass(
    first: &RemoteService,
    other: &RemoteService,
    min_sequence: Option<u64>,
) -> Result<(u64, BTreeSet<Difference>)> {
    let lines = |service: &RemoteService| -> Result<_> {
        let lines = service.all_documents(min_sequence)?;
        Ok(Documents { lines, address: service.address().to_owned() })
    };
    differences(&mut lines(first)?, &mut lines(other)?)
}

/// A stream of documents in the order of their sequences.
struct Documents<R> {
    lines: R,
    address: String,
}

impl<R: BufRead> Documents<R> {
    fn next(&mut self) -> Result<Option<(u64, String)>> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let line = line.trim_end();
            if line.is_empty() {
                continue;
            }
            let document: Value = serde_json::from_str(line).context(self.address.clone())?;
            let sequence = document["sequence"].as_u64();
            let sequence = sequence.ok_or_else(|| anyhow!("{} sent {line}", self.address))?;
            return Ok(Some((sequence, line.to_owned())));
        }
    }
}

/// Reads both to their ends; the documents of the first one, and what differs.
fn differences(
    first: &mut Documents<impl BufRead>,
    other: &mut Documents<impl BufRead>,
) -> Result<(u64, BTreeSet<Difference>)> {
    let (mut documents, mut found) = (0, BTreeSet::new());
    let (mut one, mut two) = (first.next()?, other.next()?);
    while one.is_some() || two.is_some() {
        if one == two {
            (one, two) = (first.next()?, other.next()?);
            documents += 1;
            continue;
        }
        let at = |next: &Option<(u64, String)>| next.as_ref().map_or(u64::MAX, |(at, _)| *at);
        let is_first = at(&one) <= at(&two);
        let alone = if is_first {
            documents += 1;
            std::mem::replace(&mut one, first.next()?)
        } else {
            std::mem::replace(&mut two, other.next()?)
        };
        let Some((sequence, line)) = alone else { break };
        found.insert(Difference { sequence, is_first, line });
        if found.len() > DIFFERENCES_MAX {
            let what = format!("more than {} documents differ", count(DIFFERENCES_MAX as u64));
            let next = "wait until the nodes are level: nearprint cluster status";
            return Err(ErrorReport::new(what, next).with_code(exit_code::NODES_DIFFER).into());
        }
    }
    Ok((documents, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(sequences: &[(u64, &str)]) -> Documents<std::io::Cursor<String>> {
        let line = |(sequence, id): &(u64, &str)| {
            format!("{{\"sequence\": {sequence}, \"id\": \"{id}\"}}\n\n")
        };
        let lines: String = sequences.iter().map(line).collect();
        Documents { lines: std::io::Cursor::new(lines), address: "http://a".to_owned() }
    }

    fn found(one: &[(u64, &str)], two: &[(u64, &str)]) -> (u64, Vec<(u64, bool)>) {
        let (count, found) = differences(&mut documents(one), &mut documents(two)).unwrap();
        (count, found.into_iter().map(|found| (found.sequence, found.is_first)).collect())
    }

    #[test]
    fn what_one_has_alone_or_otherwise_is_found() {
        let same = [(1, "a"), (3, "b")];
        assert_eq!(found(&same, &same), (2, vec![]));
        assert_eq!(found(&[], &[]), (0, vec![]));
        assert_eq!(found(&same, &same[1..]), (2, vec![(1, true)]));
        assert_eq!(found(&same[..1], &same), (1, vec![(3, false)]));
        assert_eq!(found(&[(1, "a")], &[(1, "b")]), (1, vec![(1, false), (1, true)]));
    }

    #[test]
    fn an_error_in_a_stream_is_one() {
        let lines = std::io::Cursor::new("{\"error\": \"stopping\"}\n".to_owned());
        let broken = &mut Documents { lines, address: "http://b".to_owned() };
        let error = differences(&mut documents(&[]), broken).unwrap_err();
        assert!(error.to_string().contains("http://b sent"), "{error}");
    }
}

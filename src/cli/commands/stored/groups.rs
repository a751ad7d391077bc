//! `groups`: the groups of near-duplicates of a running service, or of a stopped directory.
//!
//! A job finds them; the command shows its progress, lists what it found and removes it. A stopped
//! directory is opened in this process, without a socket.

use std::io::Write;

use anyhow::Result;
use nearprint_engine::SearchKind;
use nearprint_wire::answer::{GroupReply, JobReply, MemberReply, State};
use nearprint_wire::offer::OfferOptions;
use serde::Serialize;

use super::jobs;
use crate::cli::collection::{CollectionArgs, GroupSearch};
use crate::cli::columns::{Column, json_lines, table};
use crate::cli::commands::files::SearchRule;
use crate::cli::error_report::ErrorReport;
use crate::cli::exit_code;
use crate::cli::measure::numbers::count;
use crate::cli::measure::times;
use crate::cli::printable::printable;

const EXAMPLES: &str = "\
Examples:
  nearprint groups --limit 50 --members 5
  nearprint groups --min-size 10 --json > groups.jsonl
  nearprint groups --data nearprint-data --distance 2";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GroupsArgs {
    /// The largest distance of two near-duplicates [default: that of look-ups]
    #[arg(long, value_name = "BITS")]
    distance: Option<u64>,
    /// How much of two texts must agree, 0 to 1; 0 does not compare them [default: that of
    /// look-ups]
    #[arg(long, value_name = "SIMILARITY")]
    min_similarity: Option<f64>,
    /// How many of their numbers two texts must share, 0 to 1 [default: that of look-ups]
    #[arg(long, value_name = "SHARE")]
    min_numbers: Option<f64>,
    /// How texts are searched: exact joins only what is within the distance; likely also similar
    /// texts beyond it [default: that of look-ups]
    #[arg(long, value_enum, value_name = "HOW")]
    search: Option<SearchRule>,
    /// The namespace; without it, the default one
    #[arg(long, value_name = "NAME", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// All namespaces; a group has documents of one
    #[arg(long)]
    all_namespaces: bool,
    /// Only groups of at least this many documents
    #[arg(long, alias = "size-min", value_name = "COUNT", default_value_t = 2)]
    min_size: u64,
    /// List at most this many groups, the largest first
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: u64,
    /// List at most this many documents of each group, the oldest first
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    members: u64,
    /// Print a JSON object a line for each group
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    collection: CollectionArgs,
}

/// A group with its documents, which come from pages of their own.
#[derive(Debug, Serialize)]
struct Group {
    #[serde(flatten)]
    group: GroupReply<'static>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    documents: Vec<MemberReply<'static>>,
}

fn name(document: &MemberReply<'_>) -> String {
    match &document.id {
        Some(id) => printable(id).to_string(),
        None if document.gone == Some(true) => "(gone)".to_owned(),
        None => "(no id)".to_owned(),
    }
}

pub(crate) fn run(args: &GroupsArgs, out: &mut dyn Write) -> Result<()> {
    let collection = &args.collection.open()?;
    let interrupt = args.collection.listen("cancelling the job")?;
    let job = collection.begin_groups(&search(args))?;
    let job = jobs::watch(job, &|name| collection.job(name), &interrupt)?;
    if interrupt.is_noted() {
        collection.end_job(&job.job)?;
        let report = ErrorReport::new("interrupted; the job was cancelled", "run it again");
        return Err(report.with_code(exit_code::INTERRUPTED).into());
    }
    if job.state != State::Done {
        let why = anyhow::anyhow!(job.error.unwrap_or_else(|| job.state.name().to_owned()));
        let next = "the log of the service may say more";
        return Err(ErrorReport::new("the groups were not found", next).because(why).into());
    }
    let mut groups = Vec::new();
    for group in collection.groups(&job.job, args.limit)? {
        let documents = collection.members(&job.job, group.group, args.members)?;
        groups.push(Group { group, documents });
    }
    // Its result is of no use to anybody else.
    collection.end_job(&job.job)?;
    interrupt.end_at_once();
    if args.json {
        return Ok(json_lines(&groups, out)?);
    }
    show(&job, &groups, out)
}

fn search(args: &GroupsArgs) -> GroupSearch<'_> {
    GroupSearch {
        options: OfferOptions {
            distance: args.distance,
            min_similarity: args.min_similarity,
            min_numbers: args.min_numbers,
            search: args.search.map(SearchKind::from),
            ..OfferOptions::default()
        },
        namespace: args.namespace.as_deref(),
        all_namespaces: args.all_namespaces,
        min_size: args.min_size,
    }
}

const COLUMNS: &[Column<Group>] = &[
    ("group", |group| group.group.group.to_string()),
    ("documents", |group| count(group.group.size)),
    ("namespace", |group| group.group.namespace.as_deref().unwrap_or_default().to_owned()),
    ("fingerprint", |group| group.group.oldest.fingerprint.to_string()),
    ("stored", |group| times::shown_ms(group.group.oldest.stored_at_ms)),
    ("oldest", |group| name(&group.group.oldest)),
];

fn show(job: &JobReply, groups: &[Group], out: &mut dyn Write) -> Result<()> {
    if !groups.is_empty() {
        write!(out, "{}", table(COLUMNS, groups))?;
    }
    for group in groups.iter().filter(|group| !group.documents.is_empty()) {
        writeln!(out, "\ngroup {}", group.group.group)?;
        for document in &group.documents {
            let stored = times::shown_ms(document.stored_at_ms);
            let fingerprint = document.fingerprint;
            writeln!(out, "  {fingerprint}  {stored:20}  {}", name(document))?;
        }
    }
    if groups.is_empty() {
        writeln!(out, "no groups")?;
    } else {
        let [found, documents] =
            [job.groups, job.documents].map(|number| count(number.unwrap_or_default()));
        let groups = if job.groups == Some(1) { "group" } else { "groups" };
        writeln!(out, "\n{found} {groups}, {documents} documents in total")?;
    }
    if let Some(partly) = job.partly_compared {
        let partly = count(partly);
        writeln!(
            out,
            "{partly} fingerprints were compared in part, and may belong to larger groups"
        )?;
    }
    Ok(())
}

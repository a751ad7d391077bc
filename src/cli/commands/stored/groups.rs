//! `groups`: the groups of near-duplicates of a running service, or of a stopped directory.
//!
//! A job finds them; the command shows its progress, lists what it found and removes it. A stopped
//! directory is opened in this process, without a socket.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::cli::collection::{self, Collection, CollectionArgs};
use crate::cli::columns::{Column, table};
use crate::cli::error_report::ErrorReport;
use crate::cli::exit_code;
use crate::cli::import::interrupt::Interrupt;
use crate::cli::measure::numbers::count;
use crate::cli::printable::printable;
use crate::cli::times;

/// The time between two looks at the job: short at first, as many jobs end at once.
const LOOKS: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];
/// The steps of the progress bar.
const STEPS: u64 = 1_000;

/// The arguments of `groups`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The largest distance of two near-duplicates [default: that of look-ups]
    #[arg(long, value_name = "BITS")]
    distance: Option<u64>,
    /// The similarity that confirms two texts, 0 to 1; 0 does not compare them [default: that of
    /// look-ups]
    #[arg(long, value_name = "SIMILARITY")]
    min_similarity: Option<f64>,
    /// The namespace; without it, the default one
    #[arg(long, value_name = "NAME", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// All namespaces; a group has documents of one
    #[arg(long)]
    all_namespaces: bool,
    /// Only groups of at least this many documents
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    size_min: u64,
    /// List at most this many groups, the largest first
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: u64,
    /// List at most this many documents of each group, the oldest first
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    members: u64,
    /// Print one JSON object a line for each group
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    collection: CollectionArgs,
}

/// A job as the service shows it.
#[derive(Debug, Deserialize)]
struct Job {
    #[serde(rename = "job")]
    number: u64,
    state: String,
    #[serde(default)]
    error: Option<String>,
    progress: f64,
    groups: u64,
    documents: u64,
}

/// A group; its documents come from pages of their own.
#[derive(Debug, Serialize, Deserialize)]
struct Group {
    #[serde(rename = "group")]
    number: u64,
    size: u64,
    namespace: Option<String>,
    oldest: Document,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    documents: Vec<Document>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    sequence: u64,
    fingerprint: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    gone: bool,
    id: Option<String>,
    stored_at_ms: Option<u64>,
}

impl Document {
    fn name(&self) -> String {
        match &self.id {
            Some(id) => printable(id).to_string(),
            None if self.gone => "(gone)".to_owned(),
            None => "(no id)".to_owned(),
        }
    }
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let collection = &args.collection.open()?;
    let interrupt = Interrupt::listen("removing the job")?;
    let job: Job = collection.post_json("/v1/groups", &request(args))?;
    let path = format!("/v1/groups/{}", job.number);
    let job = watch(collection, job, &interrupt)?;
    if interrupt.is_noted() {
        drop(collection.delete_json::<Value>(&path)?);
        let what = "interrupted; the job was removed";
        return Err(ErrorReport::new(what, "run it again")
            .with_code(exit_code::INTERRUPTED)
            .into());
    }
    if job.state != "done" {
        let why = anyhow::anyhow!(job.error.unwrap_or(job.state));
        let next = "the log of the service may say more";
        return Err(ErrorReport::new("the groups were not found", next).because(why).into());
    }
    let mut groups: Vec<Group> = collection.items(&path, "found", args.limit)?;
    for group in &mut groups {
        let members = format!("{path}/{}", group.number);
        group.documents = collection.items(&members, "documents", args.members)?;
    }
    // Its result is of no use to anybody else.
    drop(collection.delete_json::<Value>(&path)?);
    if args.json {
        for group in &groups {
            serde_json::to_writer(&mut *out, group)?;
            writeln!(out)?;
        }
        return Ok(());
    }
    show(&job, &groups, out)
}

fn request(args: &Args) -> Value {
    let mut request = Map::new();
    let mut field = |name: &str, value: Option<Value>| {
        request.extend(value.map(|value| (name.to_owned(), value)));
    };
    field("distance", args.distance.map(|distance| json!(distance)));
    field("min_similarity", args.min_similarity.map(|similarity| json!(similarity)));
    field("namespace", args.namespace.as_ref().map(|name| json!(name)));
    field("all_namespaces", args.all_namespaces.then(|| json!(true)));
    field("size_min", Some(json!(args.size_min)));
    request.into()
}

/// Shows the progress of a job until it has ended, or the user ends the command.
#[expect(clippy::cast_sign_loss, reason = "the progress is not negative")]
fn watch(collection: &Collection, mut job: Job, interrupt: &Interrupt) -> Result<Job> {
    let template = "{bar:30} {percent:>3}%  {msg}";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    let bar = ProgressBar::new(STEPS).with_style(style.progress_chars("=> "));
    let [mut pause, pause_max] = LOOKS;
    while (job.state == "waiting" || job.state == "running") && !interrupt.is_noted() {
        bar.set_message(job.state.clone());
        collection::wait(pause);
        pause = (pause * 2).min(pause_max);
        job = collection.get_json(&format!("/v1/groups/{}?limit=1", job.number))?;
        bar.set_position((job.progress * 1_000.0) as u64);
    }
    bar.finish_and_clear();
    Ok(job)
}

const COLUMNS: &[Column<Group>] = &[
    ("group", |group| group.number.to_string()),
    ("documents", |group| count(group.size)),
    ("namespace", |group| {
        group.namespace.as_ref().map_or_else(String::new, |name| printable(name).to_string())
    }),
    ("fingerprint", |group| group.oldest.fingerprint.clone()),
    ("stored", |group| times::shown_ms(group.oldest.stored_at_ms)),
    ("oldest", |group| group.oldest.name()),
];

fn show(job: &Job, groups: &[Group], out: &mut dyn Write) -> Result<()> {
    if groups.is_empty() {
        writeln!(out, "no groups")?;
        return Ok(());
    }
    write!(out, "{}", table(COLUMNS, groups))?;
    for group in groups.iter().filter(|group| !group.documents.is_empty()) {
        writeln!(out, "\ngroup {}", group.number)?;
        for document in &group.documents {
            let stored = times::shown_ms(document.stored_at_ms);
            writeln!(out, "  {}  {stored:20}  {}", document.fingerprint, document.name())?;
        }
    }
    writeln!(out, "\n{} groups, {} documents in them", count(job.groups), count(job.documents))?;
    Ok(())
}

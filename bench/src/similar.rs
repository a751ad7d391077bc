//! `nearprint-bench similar`: the search for similar texts by their labels, compared with the
//! exact look-up of the same texts, in this process.
//!
//! The stored texts are passages of the documents on this machine, with all their families
//! (licences, change logs), or generated: families of edited texts of many sizes,
//! a third of which begin with a paragraph of their site. Half of the queries are stored texts with
//! one word changed, half belong to no stored text.
//!
//! As the service does with a text that has no hit within the distance, a query searches by labels
//! and then compares sketches, the nearest first, until one is confirmed. Sketches are in memory
//! here, where the service reads them from the journal, so they are counted, not timed.

use std::hint::black_box;
use std::path::PathBuf;

use nearprint::cli::measure::arguments::count;
use nearprint::cli::measure::numbers::{per_second, ratio};
use nearprint_files::{Documents, ReadOptions};
use nearprint_fingerprint::{Distance, Fingerprint, MinResemblance, Sketch};
use nearprint_index::compaction::policy::Load;
use nearprint_index::levels::posting::Posting;
use nearprint_index::view::{Near, Put, SimilarTo, View};
use nearprint_index::visibility::Visibility;
use nearprint_text::{Analysis, analyse_text};
use nearprint_wire::offer::Content;

use crate::clock::{Stopwatch, overhead_ns};
use crate::data::{Dice, empty_view};
use crate::latency::Latencies;
use crate::pages::folders;
use crate::progress::Progress;
use crate::prose;
use crate::report::{Fact, Report, Row};

/// The distance of the exact look-up, and the similarity that confirms a text: the defaults.
const DISTANCE: Distance = Distance::new(3).expect("at most 64");
const MIN_SIMILARITY: f64 = 0.83;

/// Passes of a loop; the quickest counts.
const PASSES: usize = 3;

const NOTES: [&str; 2] = [
    "mean: the quickest of 3 passes without a clock in the loop; quantiles: each timed in a further \
     pass, less what reading the clock costs",
    "search: the exact look-up and then the search by labels, before any sketch is compared",
];

/// The arguments of `bench similar`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many texts are stored
    #[arg(long, value_name = "N", default_value = "100k", value_parser = count)]
    count: u64,
    /// Store passages of these files and folders instead of generated texts; without names, of the
    /// documents of this machine
    #[arg(long, value_name = "PATH", num_args = 0..)]
    passages: Option<Vec<PathBuf>>,
    /// How many queries
    #[arg(long, value_name = "N", default_value = "20k", value_parser = count)]
    queries: u64,
    /// The seed of texts and queries; the same seed repeats a run
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

/// A text as it is stored or asked.
struct Text {
    fingerprint: Fingerprint,
    sketch: Sketch,
}

/// What is stored, and what is asked.
struct Collection {
    view: View,
    /// By the change that stored each, from 1 on.
    stored: Vec<Text>,
    queries: Vec<Text>,
    /// For each query, the change that stored the text it was made of.
    originals: Vec<Option<u64>>,
}

/// What all queries found.
#[derive(Default)]
struct Found {
    candidates: u64,
    read_in_vain: u64,
    originals: u64,
    cut: u64,
}

pub(super) fn run(args: &Args) -> Report {
    let mut report = Report::new("similar", args.seed);
    report.notes = &NOTES;
    let begun = Stopwatch::start();
    let collection = collection(args);
    let count = collection.stored.len() as u64;
    let rate = per_second(count, begun.ns());
    report.facts.push(Fact::number("texts analysed and indexed", count, rate, "a second"));
    let segments = collection.view.segments().iter();
    let labels: u64 = segments.map(|segment| segment.bytes().labels).sum();
    report.facts.push(Fact::number("labels", count, ratio(labels, count), "bytes a text"));
    let exact = |query: &Text| {
        collection.view.near(query.fingerprint, DISTANCE, &Visibility::DEFAULT).len()
    };
    let whole = |query: &Text| exact(query) + collection.similar(query).0.len();
    report.results.push(row("exact look-up", count, &collection.queries, exact));
    report.results.push(row("search", count, &collection.queries, whole));
    report.facts.extend(collection.facts());
    report
}

fn row(what: &str, count: u64, queries: &[Text], one: impl Fn(&Text) -> usize) -> Row {
    let mut ns = u64::MAX;
    for _ in 0..PASSES {
        let begun = Stopwatch::start();
        black_box(queries.iter().map(&one).fold(0, usize::wrapping_add));
        ns = ns.min(begun.ns());
    }
    let (overhead_ns, mut times) = (overhead_ns(), Latencies::new());
    for query in queries {
        let begun = Stopwatch::start();
        black_box(one(query));
        times.record(begun.ns().saturating_sub(overhead_ns));
    }
    let asked = queries.len() as u64;
    let row = Row::new(what, count).at(DISTANCE).rate(per_second(asked, ns), "queries");
    Row { mean_ns: Some(ratio(ns, asked)), ..row }.quantiles(&times, "each query")
}

impl Collection {
    fn similar(&self, query: &Text) -> (Vec<Near>, bool) {
        let (fingerprint, sketch) = (query.fingerprint, &query.sketch);
        let text = SimilarTo { fingerprint, sketch, threshold: threshold(), beyond: DISTANCE };
        self.view.similar(text, &Visibility::DEFAULT, &mut |_| true)
    }

    fn facts(&self) -> Vec<Fact> {
        let mut all = Found::default();
        for (query, original) in self.queries.iter().zip(&self.originals) {
            self.ask(query, *original, &mut all);
        }
        let (count, asked) = (self.stored.len() as u64, self.queries.len() as u64);
        let edited = self.originals.iter().flatten().count() as u64;
        let of_queries = |what, number| Fact::number(what, count, ratio(number, asked), "a query");
        vec![
            of_queries("candidates", all.candidates),
            of_queries("sketches read that confirm nothing", all.read_in_vain),
            of_queries("searches that met a bound", all.cut),
            Fact::number("texts found by an edited copy", count, ratio(all.originals, edited), ""),
        ]
    }

    /// Searches as the service does for a verdict.
    fn ask(&self, query: &Text, original: Option<u64>, all: &mut Found) {
        let agrees = |posting: &Posting| {
            let stored = &self.stored[posting.sequence.get() as usize - 1].sketch;
            query.sketch.resemblance(stored).reaches(threshold())
        };
        let near = self.view.near(query.fingerprint, DISTANCE, &Visibility::DEFAULT);
        let of = |fingerprint| self.view.documents_of(fingerprint, Visibility::DEFAULT);
        if near.iter().any(|near| of(near.fingerprint).any(|posting| agrees(&posting))) {
            all.originals += u64::from(original.is_some());
            return;
        }
        let (similar, is_cut) = self.similar(query);
        all.cut += u64::from(is_cut);
        all.candidates += similar.len() as u64;
        let mut documents = similar.iter().filter_map(|near| of(near.fingerprint).next());
        let in_vain = documents.by_ref().take_while(|posting| !agrees(posting)).count() as u64;
        all.read_in_vain += in_vain;
        let is_confirmed = in_vain < similar.len() as u64;
        all.originals += u64::from(is_confirmed && original.is_some());
    }
}

fn threshold() -> MinResemblance {
    MinResemblance::of_similarity(MIN_SIMILARITY).expect("above 0")
}

/// Analyses and indexes the texts, and makes the queries.
fn collection(args: &Args) -> Collection {
    let progress = Progress::of("analysing and indexing", args.count);
    let (mut view, mut stored) = (empty_view(DISTANCE), Vec::new());
    let mut edits = Vec::new();
    let asked_every = (args.count / (args.queries / 2).max(1)).max(1);
    let mut store = |text: &str| {
        let Some(analysed) = analysed(text) else { return true };
        let sketch = Some(Box::new(analysed.sketch.clone()));
        view.put(analysed.fingerprint, Put { sketch, ..Put::default() });
        settle(&mut view, Load::Writing);
        stored.push(analysed);
        let number = stored.len() as u64;
        if number.is_multiple_of(asked_every) {
            edits.push((number, with_a_changed_word(text, number)));
        }
        progress.at(number);
        number < args.count
    };
    match &args.passages {
        None => {
            (0..args.count).all(|number| store(&generated(number, args.seed)));
        }
        Some(paths) => each_passage(paths, args.seed, &mut store),
    }
    view.rotate();
    settle(&mut view, Load::Idle);
    let (mut queries, mut originals) = (Vec::new(), Vec::new());
    for (number, text) in edits {
        queries.extend(analysed(&text));
        originals.resize(queries.len(), Some(number));
    }
    for number in 0..args.queries / 2 {
        queries.extend(analysed(&generated(number * BLOCK, args.seed + 1)));
        originals.resize(queries.len(), None);
    }
    Collection { view, stored, queries, originals }
}

fn settle(view: &mut View, load: Load) {
    while let Some(work) = view.next_flush() {
        view.complete(work);
        while let Some(work) = view.next_merge(load) {
            view.complete(work);
        }
    }
    while load == Load::Idle
        && let Some(work) = view.next_merge(load)
    {
        view.complete(work);
    }
}

fn analysed(text: &str) -> Option<Text> {
    let Analysis { fingerprint, sketch, .. } = analyse_text(text).ok()?;
    Some(Text { fingerprint, sketch: *sketch? })
}

/// Generated texts come in blocks of this many, each of which holds families of every size.
const BLOCK: u64 = 64;

/// A text of a family: of each [`BLOCK`], one family of 8 texts, two of 4, eight of 2, and 32
/// single texts.
fn generated(number: u64, seed: u64) -> String {
    let (block, place) = (number / BLOCK, number % BLOCK);
    let size_bits = if place < 8 { 3 } else { 5 - place.ilog2() };
    let family = block * BLOCK + (place >> size_bits << size_bits);
    let mut dice = Dice::of("family", seed.wrapping_add(family));
    let bytes = dice.within(300..3_000) as usize;
    let mut text = String::new();
    if dice.within(0..3) == 0 {
        let site = seed.wrapping_mul(31).wrapping_add(dice.within(0..1_000));
        text = prose::unlike(dice.within(80..400) as usize, site);
    }
    text.push_str(&prose::unlike(bytes, seed.wrapping_add(family) << 8 | 1));
    let mut edited = text;
    for change in 0..number - family {
        edited = with_a_changed_word(&edited, number * BLOCK + change);
    }
    edited
}

fn with_a_changed_word(text: &str, seed: u64) -> String {
    let words: Vec<&str> = text.split_inclusive(char::is_whitespace).collect();
    let changed = Dice::of("change", seed).within(0..words.len().max(1) as u64) as usize;
    let word = |(at, word): (usize, &&str)| {
        if at == changed { format!("changed{} ", seed % 1_000) } else { (*word).to_owned() }
    };
    words.iter().enumerate().map(word).collect()
}

/// Passes passages of 60 to 1,200 words of the documents under some paths, until `store` has
/// enough.
fn each_passage(paths: &[PathBuf], seed: u64, store: &mut impl FnMut(&str) -> bool) {
    let mut dice = Dice::of("passages", seed);
    let paths = if paths.is_empty() { folders() } else { paths.to_vec() };
    for entry in Documents::new(paths, ReadOptions::default()).flatten() {
        let Content::Text(text) = entry.content else { continue };
        let mut words = text.split_inclusive(char::is_whitespace).peekable();
        while words.peek().is_some() {
            let count = dice.within(60..1_201) as usize;
            let passage: String = words.by_ref().take(count).collect();
            let is_long = passage.split_whitespace().nth(59).is_some();
            if is_long && !store(&passage) {
                return;
            }
        }
    }
}

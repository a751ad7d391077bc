//! Promise: no page stops the service, and each costs what its bytes cost. Method: pages that were
//! made to cost more ([`crate::support::hostile`]), by every way that takes a page, one after
//! another, to a real server of each recipe and to the command line.
//!
//! The test is small and looks only at whether everything is answered. `tools/torture hostile` runs
//! ten thousand pages up to the largest body against a release build, prints what the worst of them
//! cost, and fails above the budget of the recipe (np2: 150 ns a byte; main text: 1 us).

use std::path::Path;
use std::process::Command;

use nearprint_text::normalise;

use super::client::{Connection, post};
use super::server::{Server, binary, write_bytes};
use crate::support::hostile::page;
use crate::support::random::variable;

/// The recipes that work in different ways, each with the nanoseconds that a byte of text may take.
/// `words` reads the text twice; `keywords` looks each character up in the dictionary of jieba,
/// many times.
const RECIPES: [(&str, u64); 4] =
    [("np2", 150), ("words-2", 300), ("keywords-22", 400), ("words-3-stop", 300)];

/// A way to send a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Visible,
    Main,
    Text,
    Json,
    Explained,
    Line,
    Compared,
    /// `nearprint fingerprint` and `nearprint import`, which read it from a file.
    CommandLine,
}

const ENTRIES: [Entry; 8] = [
    Entry::Visible,
    Entry::Main,
    Entry::Text,
    Entry::Json,
    Entry::Explained,
    Entry::Line,
    Entry::Compared,
    Entry::CommandLine,
];

impl Entry {
    /// Nanoseconds that a byte may take, where `text` is the budget of a text.
    const fn budget(self, text: u64) -> u64 {
        match self {
            Self::Main => 1_000,
            Self::Visible | Self::Text | Self::Json | Self::Line => text,
            // Explained: the features are counted as well. Compared: two pages. The command line
            // starts a process of its own, which is not measured.
            Self::Explained | Self::Compared | Self::CommandLine => u64::MAX,
        }
    }

    fn request(self, page: &[u8]) -> Vec<u8> {
        let text = || String::from_utf8_lossy(page);
        let json = |body: serde_json::Value| body.to_string().into_bytes();
        let kind = "application/json";
        match self {
            Self::Visible | Self::CommandLine => post("/v1/query", "text/html", page),
            Self::Main => post("/v1/query?extract=main", "text/html", page),
            Self::Text => post("/v1/check-and-insert", "text/plain", page),
            Self::Json => post("/v1/query", kind, &json(serde_json::json!({"html": text()}))),
            Self::Explained => {
                let body = serde_json::json!({"html": text(), "explain": true});
                post("/v1/fingerprint", kind, &json(body))
            }
            Self::Line => {
                let line = json(serde_json::json!({"html": text()}));
                post("/v1/check-and-insert/batch", "application/x-ndjson", &line)
            }
            Self::Compared => {
                let body = serde_json::json!({"a": {"html": text()}, "b": {"text": text()}});
                post("/v1/compare", kind, &json(body))
            }
        }
    }
}

/// What the worst page of an entry cost.
#[derive(Debug, Clone, Copy, Default)]
struct Worst {
    ns_per_byte: u64,
    number: u64,
    bytes: usize,
}

/// Sends pages by all entries in turn; returns the worst of each.
async fn send(server: &Server, pages: impl Iterator<Item = (u64, usize)>) -> Vec<(Entry, Worst)> {
    let mut worst: Vec<_> = ENTRIES.iter().map(|entry| (*entry, Worst::default())).collect();
    let folder = tempfile::tempdir().unwrap();
    let mut connection = Connection::open(&server.address).await.unwrap();
    for (number, bytes) in pages {
        let (entry, worst) = &mut worst[(number / 8 + number) as usize % ENTRIES.len()];
        let page = page(number, bytes);
        if *entry == Entry::CommandLine {
            command_line(server, folder.path(), &page, number);
        }
        let request = entry.request(&page);
        let before = server.cpu_ns();
        let reply = connection.ask(&request).await;
        let reply = reply.unwrap_or_else(|error| panic!("page {number}, {bytes} bytes: {error}"));
        // An escape in JSON may make the body larger than it may be.
        let answers = [200, 413, 422];
        assert!(answers.contains(&reply.status), "page {number}, {bytes} bytes: {}", reply.status);
        let ns_per_byte = server.cpu_ns().saturating_sub(before) / bytes_to_read(&page);
        if ns_per_byte > worst.ns_per_byte {
            *worst = Worst { ns_per_byte, number, bytes };
        }
        if reply.closes {
            connection = Connection::open(&server.address).await.unwrap();
        }
    }
    worst
}

/// The bytes of a page, or of its normal form where that is longer: NFKC makes eighteen characters
/// of some that have three bytes, and all of them are read.
fn bytes_to_read(page: &[u8]) -> u64 {
    page.len().max(normalise(&String::from_utf8_lossy(page)).len()).max(1) as u64
}

fn command_line(server: &Server, folder: &Path, page: &[u8], number: u64) {
    let file = folder.join("page.html");
    write_bytes(&file, page);
    let run = |arguments: &[&str]| {
        let output = Command::new(binary()).args(arguments).arg(&file).output().unwrap();
        // 1: the page has no text.
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1)), "page {number}: {:?}\n{output:?}", output.status);
    };
    run(&["fingerprint"]);
    run(&["import", "--server", &format!("http://{}", server.address)]);
}

#[tokio::test]
async fn every_hostile_page_is_answered() {
    let server = Server::with(&[]);
    send(&server, (0..400).map(|number| (number, 100_000))).await;
    let server = Server::with(&[("DATA__RECIPE", "keywords-22")]);
    send(&server, (0..100).map(|number| (number * 7, 30_000))).await;
    // A million attributes, and a million elements.
    let server = Server::with(&[]);
    let mut connection = Connection::open(&server.address).await.unwrap();
    for (begin, repeated) in [("<a ", "a=\"\" "), ("<a ", "a=b "), ("", "<div>")] {
        let page = format!("<p>word{begin}{}", repeated.repeat(1_000_000));
        for path in ["/v1/query", "/v1/query?extract=main"] {
            let reply = connection.ask(&post(path, "text/html", page.as_bytes())).await;
            assert_eq!(reply.unwrap().status, 200, "{begin}{repeated}");
        }
    }
}

/// The sizes of ten thousand pages: most of them small, some as large as a body may be.
fn size_of(number: u64) -> usize {
    match number % 100 {
        0..2 => 16 << 20,
        2..12 => 2 << 20,
        12..40 => 512 << 10,
        _ => 128 << 10,
    }
}

#[tokio::test]
#[ignore = "an hour of CPU: tools/torture hostile"]
async fn ten_thousand_hostile_pages_cost_what_their_bytes_cost() {
    let count = variable("NEARPRINT_TEST_HOSTILE_PAGES").unwrap_or(10_000);
    let mut failed = false;
    for ((recipe, text_budget), first) in RECIPES.into_iter().zip(0..) {
        let server = Server::with(&[("DATA__RECIPE", recipe), ("LOG__LEVEL", "warn")]);
        // The first keywords load the dictionary.
        let mut connection = Connection::open(&server.address).await.unwrap();
        connection.ask(&Entry::Text.request(b"some words")).await.unwrap();
        let before = server.memory_bytes();
        let each = count / RECIPES.len() as u64;
        let pages = (0..each).map(|at| (first * each + at, size_of(at)));
        let worst = send(&server, pages).await;
        for (entry, Worst { ns_per_byte, number, bytes }) in worst {
            let over = ns_per_byte > entry.budget(text_budget);
            failed |= over;
            let mark = if over { "  above the budget" } else { "" };
            println!(
                "{recipe:12} {entry:?}: {ns_per_byte} ns a byte, page {number} of {bytes}{mark}"
            );
        }
        let took = (server.memory_peak_bytes() - before) >> 20;
        println!("{recipe:12} memory at most {took} MiB above {} MiB", before >> 20);
    }
    assert!(!failed, "some pages cost more than their bytes");
}

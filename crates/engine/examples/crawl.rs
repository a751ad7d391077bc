//! Stores texts as a crawler would, and shows which of them are near-duplicates.
//!
//! `cargo run --release -p nearprint-engine --example crawl`

#![expect(clippy::print_stdout, reason = "an example prints")]

use nearprint_engine::document::{Document, DocumentId};
use nearprint_engine::{Admission, Criteria, Engine, Options, QueryOptions};
use nearprint_fingerprint::Distance;
use nearprint_text::{Recipe, analyse_text};

const PAGES: [(&str, &str); 3] = [
    (
        "https://a.example/ferry",
        "The ferry leaves at seven in the morning and returns at noon, every day but Sunday.",
    ),
    (
        "https://b.example/ferry",
        "The ferry leaves at seven in the morning and returns at noon, every day but Monday.",
    ),
    (
        "https://c.example/bread",
        "Bread needs four things: flour, water, salt and a night in a cool kitchen.",
    ),
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let engine = Engine::open(Options::new(directory.path(), Recipe::Np2))?;
    let criteria = Criteria::within(Distance::new(3).expect("at most 64"));
    for (url, text) in PAGES {
        let analysis = analyse_text(text)?;
        let document = Document {
            id: Some(DocumentId::new(url)?),
            sketch: analysis.sketch,
            ..Document::bare(analysis.fingerprint)
        };
        let options = QueryOptions { criteria, limit: 10, with_metadata: false };
        let found = engine.query(&document, options).await?;
        println!("{url}: {}", if found.duplicate { "a near-duplicate" } else { "new" });
        engine.begin_insert(document, Admission::Wait).await?.wait().await?;
    }
    engine.close();
    Ok(())
}

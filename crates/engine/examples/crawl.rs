//! Stores texts as a crawler would, and shows which of them are near-duplicates.
//!
//! `cargo run --release -p nearprint-engine --example crawl`

#![expect(clippy::print_stdout, reason = "an example prints")]

use nearprint_engine::{Admission, Criteria, Engine, Options, QueryOptions, SearchKind};
use nearprint_fingerprint::{Distance, Threshold};
use nearprint_machine::document::{Document, DocumentId};
use nearprint_text::{Recipe, analyse_text};

/// The first two differ in one word.
const PAGES: [(&str, &str); 3] = [
    (
        "https://a.example/ferry",
        "The ferry leaves the old harbour at seven in the morning and returns at noon. Tickets are \
         sold on board, children under six travel free, and bicycles cost two euros each. In bad \
         weather it stays in port; the office on the quay announces this an hour before. The \
         crossing takes forty minutes, and there is coffee on the upper deck.",
    ),
    (
        "https://b.example/ferry",
        "The ferry leaves the old harbour at seven in the morning and returns at noon. Tickets are \
         sold on board, children under ten travel free, and bicycles cost two euros each. In bad \
         weather it stays in port; the office on the quay announces this an hour before. The \
         crossing takes forty minutes, and there is coffee on the upper deck.",
    ),
    (
        "https://c.example/bread",
        "Bread needs four things: flour, water, salt and time. Mix them in the evening, fold the \
         dough twice, and leave it overnight in a cool kitchen. In the morning shape it, let it \
         rest under a cloth, and bake it in a hot oven until the crust is dark.",
    ),
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let engine = Engine::open(Options::new(directory.path(), Recipe::Np2))?;
    // Everything within distance 3, and likely near-duplicates beyond it that a sketch confirms.
    let criteria = Criteria {
        search: SearchKind::Likely,
        threshold: Threshold::of_similarity(0.75),
        ..Criteria::within(Distance::new(3).expect("at most 64"))
    };
    let options = QueryOptions { criteria, limit: 10, with_metadata: false };
    for (url, text) in PAGES {
        let analysis = analyse_text(text)?;
        let document = Document {
            id: Some(DocumentId::new(url)?),
            sketch: analysis.sketch,
            ..Document::bare(analysis.fingerprint)
        };
        let found = engine.query(&document, options).await?;
        println!("{url}: {}", if found.duplicate { "a near-duplicate" } else { "new" });
        engine.begin_insert(document, Admission::Wait).await?.wait().await?;
    }
    engine.close();
    Ok(())
}

//! Fingerprints of documents, for `evaluate.py` of the quality set: reads lines of
//! `{"id": ..., "text": ...}`, writes `id <TAB> fingerprint <TAB> sketch`, with `-` for none.
//!
//! `cargo run --release -p nearprint-text --example fingerprints < docs.jsonl > fingerprints.tsv`

use std::io::{self, BufRead as _, Write as _};

use nearprint_text::analyse_text;

fn main() -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let document: serde_json::Value = serde_json::from_str(&line?)?;
        let field = |name: &str| document[name].as_str().unwrap_or_default();
        write!(out, "{}\t", field("id"))?;
        match analyse_text(field("text")) {
            Err(_) => writeln!(out, "-\t-")?,
            Ok(analysis) => {
                write!(out, "{}\t", analysis.fingerprint)?;
                for byte in analysis.sketch.map_or([0; 156], |sketch| sketch.to_bytes()) {
                    write!(out, "{byte:02x}")?;
                }
                writeln!(out)?;
            }
        }
    }
    Ok(out.flush()?)
}

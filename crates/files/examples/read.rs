//! Prints the id and the size of each document in files of any known format.
//!
//! `cargo run --release -p nearprint-files --example read -- README.md docs`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::path::PathBuf;

use nearprint_files::{Documents, ReadOptions};

fn main() {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    for entry in Documents::new(paths, ReadOptions::default()) {
        match entry {
            Ok(entry) => {
                let id = entry.id.as_deref().unwrap_or("-");
                println!("{:>9} bytes  {id}", entry.content.bytes());
            }
            Err(bad) => eprintln!("{bad}"),
        }
    }
}

//! Promise: no decoder that meets bytes from outside panics, whatever the bytes. Method: the fuzz
//! targets of `fuzz/`, each on its corpus and on seeded mutations of it; with a nightly toolchain
//! `cargo fuzz run TARGET` runs the same functions under libFuzzer.
//!
//! `NEARPRINT_TEST_FUZZ` sets how many inputs for each target, `NEARPRINT_TEST_SEED` repeats a run.

#[expect(unreachable_pub, reason = "a crate of its own for libFuzzer: one source for both")]
#[path = "../../fuzz/src/lib.rs"]
mod targets;

#[path = "../../crates/engine/tests/common/options.rs"]
mod common;
#[path = "../support/hostile.rs"]
mod hostile_pages;
#[path = "../support/random.rs"]
mod random;

mod seeds;

use std::fs;
use std::path::Path;

use random::{Random, variable};
use targets::TARGETS;

const INPUTS: u64 = 2_000;
/// A hostile page comes with this many mutated inputs: it is larger than they are.
const INPUTS_PER_HOSTILE_PAGE: u64 = 40;
/// Enough for each pair of `REPEATED` (`tests/support/hostile.rs`) to occur.
const HOSTILE_PAGES_MIN: u64 = 500;
const HOSTILE_PAGE_BYTES: usize = 16_384;
/// Inputs grow by splicing; longer ones are cut.
const BYTES_MAX: usize = 8_192;
/// Found by splicing rarely, so they are put in: magic numbers, limits, openings and ends.
const WORDS: &[&[u8]] = &[
    b"\x89npf",
    b"\x89npm",
    b"\x89npjrnl\n",
    b"\x89npseal\n",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\0\0\0\0\0\0\0\0",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\x1b$B",
    b"{\"text\":",
    b"\"html\":\"<p>\"",
    b"\\ud800",
    b"1e999",
    b"[[[[[[[[",
    b"\n\n",
    b"<ul><li>",
    b"<script>",
    b"<!--",
    b"&#x10ffff;",
    b"charset=",
    b"utf-16le",
    b"[server]\n",
    b"listen = ",
    b"_max = ",
    b"WARC/1.0\r\n",
    b"Content-Length: ",
    b"\r\n\r\n",
    b"\"\"",
    b"},{",
    b"PAR1",
];

/// The kept inputs of a target, in order.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let entries = fs::read_dir(&folder).expect("each target has a corpus");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

#[expect(clippy::disallowed_methods, reason = "tests read their own files")]
fn read(file: &Path) -> Vec<u8> {
    fs::read(file).expect("it was just listed")
}

fn mutate(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() + 1);
        match random.below(8) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 if at < bytes.len() => bytes[at] = random.next().to_le_bytes()[0],
            3 => bytes.truncate(at),
            4 => {
                let word = WORDS[random.below(WORDS.len())].iter().copied();
                bytes.splice(at..at, word);
            }
            5 => {
                // A piece of this or another input, once or many times.
                let other = &corpus[random.below(corpus.len())];
                let start = random.below(other.len() + 1);
                let end = start + random.below(other.len() - start + 1);
                let times = [1, 1, 2, 40][random.below(4)];
                bytes.splice(at..at, other[start..end].repeat(times));
            }
            6 => {
                let end = at + random.below(bytes.len() - at + 1);
                bytes.drain(at..end);
            }
            _ => bytes.insert(at, random.next().to_le_bytes()[0]),
        }
        bytes.truncate(BYTES_MAX);
    }
    bytes
}

fn fuzz(name: &str) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target");
    let corpus = corpus(name);
    for input in &corpus {
        target(input);
    }
    let seed = variable("NEARPRINT_TEST_SEED").unwrap_or(1);
    let mut random = Random(seed);
    for number in 0..variable("NEARPRINT_TEST_FUZZ").unwrap_or(INPUTS) {
        let bytes = mutate(&mut random, &corpus);
        let outcome = std::panic::catch_unwind(|| target(&bytes));
        let shown = bytes.escape_ascii();
        assert!(outcome.is_ok(), "{name}, seed {seed}, input {number}: b\"{shown}\"");
    }
}

/// Far larger than mutated inputs, on a thread with little stack: nothing in a page may need more.
#[test]
fn hostile_pages_are_read() {
    let inputs = variable("NEARPRINT_TEST_FUZZ").unwrap_or(INPUTS);
    let count = (inputs / INPUTS_PER_HOSTILE_PAGE).max(HOSTILE_PAGES_MIN);
    let read = move || {
        for number in 0..count {
            let page = hostile_pages::page(number, HOSTILE_PAGE_BYTES);
            let outcome = std::panic::catch_unwind(|| targets::html(&page));
            assert!(outcome.is_ok(), "page {number} of {HOSTILE_PAGE_BYTES} bytes");
        }
    };
    let thread = std::thread::Builder::new().stack_size(512 * 1024).spawn(read);
    thread.expect("a thread").join().expect("each page is read");
}

/// Writes the corpora of the binary formats: run it (`-- --ignored`) when a format has changed.
#[test]
#[ignore = "writes into fuzz/corpus"]
#[expect(clippy::disallowed_methods, reason = "tests lay out their own files")]
fn corpora_of_the_binary_formats_are_written() {
    for (name, bytes) in seeds::all() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
        fs::create_dir_all(file.parent().expect("it lies in a folder"))
            .expect("the disk has space");
        fs::write(file, bytes).expect("the disk has space");
    }
}

macro_rules! targets {
    ($($name:ident),*) => {
        $(#[test] fn $name() { fuzz(stringify!($name)); })*

        #[test]
        fn every_target_is_run() {
            assert_eq!(TARGETS.len(), [$(stringify!($name)),*].len());
        }
    };
}

targets!(
    journal,
    record,
    message,
    sealed,
    image,
    state,
    model,
    export,
    json,
    ndjson,
    html,
    charset,
    configuration,
    records,
    parquet
);

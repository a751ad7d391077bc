//! Promise: a record of any length is reported with its place, and takes no more memory than a
//! record of 8 MiB does. Method: streams whose second record is a gigabyte long, which exist
//! nowhere as a whole, and the peak of memory of this process.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{BufReader, Read};

use nearprint_files::{FileRecord, FileRecords, Format, ReadOptions};
use procfs::process::Process;

const LONG: u64 = 1 << 30;
/// A record, what is cut out of it and copied, and what the allocator keeps.
const MEMORY: u64 = 96 << 20;

/// The peak of memory so far.
fn peak() -> u64 {
    Process::myself().unwrap().status().unwrap().vmhwm.unwrap() << 10
}

#[test]
fn a_record_of_a_gigabyte_is_reported_in_the_memory_of_a_short_one() {
    let head = |kind: &str, length: u64| {
        format!(
            "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: {kind}\r\n\
             Content-Type: text/plain\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let short = |id: &str| format!("{}one\r\n\r\n", head(id, 3));
    let start = peak();
    for (format, before, after) in [
        (
            Format::Ndjson,
            "{\"id\": 1, \"text\": \"one\"}\n{\"id\": 2, \"text\": \"".to_owned(),
            "\"}\n{\"id\": 3, \"text\": \"three\"}\n".to_owned(),
        ),
        (
            Format::Json,
            "[{\"id\": 1, \"text\": \"one\"}, {\"id\": 2, \"text\": \"".to_owned(),
            "\"}, {\"id\": 3, \"text\": \"three\"}]".to_owned(),
        ),
        (Format::Csv, "id,text\n1,one\n2,\"".to_owned(), "\"\n3,three\n".to_owned()),
        (Format::Tsv, "id\ttext\n1\tone\n2\t".to_owned(), "\n3\tthree\n".to_owned()),
        (
            Format::Warc,
            format!("{}{}", short("1"), head("2", LONG)),
            format!("\r\n\r\n{}", short("3")),
        ),
        (Format::Lines, "one\n".to_owned(), "\nthree\n".to_owned()),
        (Format::Hex, "00000000000000f1\n".to_owned(), "\n00000000000000f3\n".to_owned()),
    ] {
        let long = std::io::repeat(b'x').take(LONG);
        let stream = std::io::Cursor::new(before.into_bytes()).chain(long);
        let stream = BufReader::new(stream.chain(std::io::Cursor::new(after.into_bytes())));
        let records = FileRecords::of_stream(stream, ReadOptions::from(format)).unwrap();
        let shown: Vec<String> = records
            .filter_map(|record| match record {
                Ok(FileRecord::Document(_)) => Some("a document".to_owned()),
                Ok(FileRecord::Other(_)) => None,
                Err(bad) => Some(bad.to_string()),
            })
            .collect();
        assert_eq!(shown.len(), 3, "{format:?}: {shown:?}");
        assert_eq!([&shown[0], &shown[2]], ["a document"; 2], "{format:?}");
        assert!(
            shown[1].contains("standard input ") && shown[1].contains(" 2 (byte "),
            "{shown:?}"
        );
        assert!(shown[1].ends_with("longer than 8388608 bytes"), "{format:?}: {shown:?}");
        let grown = peak() - start;
        assert!(grown < MEMORY, "{format:?} took {} MiB", grown >> 20);
    }
}

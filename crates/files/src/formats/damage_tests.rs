//! Damage costs the damaged record only. Method: a small file of each format, with a few bytes of
//! it replaced at every offset in turn. All records that the damage does not touch are read as they
//! were, and a record that is not read is reported.

use std::ops::Range;

use nearprint_wire::offer::Content;

use crate::{Entry, FileRecord, FileRecords, Format, HEADERS};

/// A file of records: its bytes, and where each record is, with what separates it from the others.
struct Sample {
    format: Format,
    name: &'static str,
    bytes: Vec<u8>,
    records: Vec<Range<usize>>,
}

const RECORDS: usize = 5;

fn text(number: usize) -> String {
    format!("the {number} ferry leaves at noon")
}

impl Sample {
    /// The records one after the other, between a beginning and an end.
    fn of(
        format: Format,
        name: &'static str,
        [begin, between, end]: [&str; 3],
        record: impl Fn(usize) -> String,
    ) -> Self {
        let (mut bytes, mut records) = (begin.as_bytes().to_vec(), Vec::new());
        for number in 0..RECORDS {
            let start = bytes.len().saturating_sub(between.len());
            bytes.extend_from_slice(record(number).as_bytes());
            let separator = if number + 1 < RECORDS { between } else { end };
            bytes.extend_from_slice(separator.as_bytes());
            records.push(start..bytes.len());
        }
        Self { format, name, bytes, records }
    }

    fn all() -> Vec<Self> {
        let object = |number| format!("{{\"id\": \"{number}\", \"text\": \"{}\"}}", text(number));
        let page = |number| {
            let text = text(number);
            format!(
                "WARC/1.1\r\nWARC-Type: conversion\r\nWARC-Target-URI: {number}\r\n\
                 Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{text}\r\n\r\n",
                text.len()
            )
        };
        vec![
            Self::of(Format::Ndjson, "a.jsonl", ["", "\n", "\n"], object),
            Self::of(Format::Json, "a.json", ["[", ", ", "]"], object),
            Self::of(Format::Json, "lines.json", ["[\n", ",\n", "\n]\n"], object),
            Self::of(Format::Json, "arrays.json", ["[\n", "\n][\n", "\n]\n"], object),
            Self::of(Format::Csv, "a.csv", ["id,text\n", "\n", "\n"], |n| {
                format!("{n},{}", text(n))
            }),
            Self::of(Format::Csv, "quoted.csv", ["id,text\r\n", "\r\n", "\r\n"], |n| {
                format!("\"{n}\",\"{}\"", text(n))
            }),
            Self::of(Format::Tsv, "a.tsv", ["id\ttext\n", "\n", "\n"], |n| {
                format!("{n}\t{}", text(n))
            }),
            Self::of(Format::Lines, "a.lines", ["", "\n", "\n"], text),
            Self::of(Format::Warc, "a.warc", ["", "", ""], page),
        ]
    }

    /// The texts that are read of the file with other bytes, and how many records are not read.
    fn read(&self, bytes: &[u8]) -> (Vec<String>, usize) {
        let stream = std::io::Cursor::new(bytes.to_vec());
        let (mut texts, mut failed) = (Vec::new(), 0);
        let Ok(records) = FileRecords::of_stream(stream, self.format.into()) else {
            return (texts, 1);
        };
        for item in records {
            match item {
                Ok(FileRecord::Document(Entry { content: Content::Text(text), .. })) => {
                    texts.push(text.into_owned());
                }
                Ok(FileRecord::Document(entry)) => panic!("{entry:?}"),
                Ok(FileRecord::Other(other)) if other.what == HEADERS => {}
                // It is counted by what it is.
                Ok(FileRecord::Other(_)) | Err(_) => failed += 1,
            }
        }
        (texts, failed)
    }

    /// Replaces the bytes at an offset, and reads the file; what is wrong with what is read.
    fn wrong(&self, at: usize, damage: &[u8]) -> Option<String> {
        let mut bytes = self.bytes.clone();
        let end = bytes.len().min(at + damage.len());
        bytes[at..end].copy_from_slice(&damage[..end - at]);
        let (texts, failed) = self.read(&bytes);
        let what = |why: &str| {
            let damage = damage.escape_ascii();
            Some(format!(
                "{} with \"{damage}\" at {at}: {why}: {texts:?}, {failed} failed",
                self.name
            ))
        };
        let is_touched = |of: &Range<usize>| of.start < end && at < of.end;
        let mut unread = 0;
        for (number, record) in self.records.iter().enumerate() {
            let count = texts.iter().filter(|own| **own == text(number)).count();
            if is_touched(record) {
                unread += usize::from(count == 0);
            } else if count != 1 {
                return what(&format!("record {number} is not touched, and is read {count} times"));
            }
        }
        let others = texts.len() + unread - RECORDS;
        if unread > 0 && failed + others == 0 { what("nothing is said") } else { None }
    }
}

#[test]
fn damage_at_any_offset_costs_only_what_it_touches() {
    let mut wrong = Vec::new();
    for sample in Sample::all() {
        assert_eq!(sample.read(&sample.bytes), ((0..RECORDS).map(text).collect(), 0));
        // The names of the columns are needed by every record.
        let first = sample.records[0].start + 1;
        for damage in [&b"\0"[..], &[0; 9], b"\xff", b"\"", b"{", b"}", b"]", b",", b"\n", b"\\"] {
            for at in first..sample.bytes.len() {
                wrong.extend(sample.wrong(at, damage));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}

#[test]
fn a_block_of_nuls_in_a_long_file_costs_the_records_of_the_block() {
    for sample in Sample::all() {
        let many = 200;
        let (begin, end) = (sample.records[1].start, sample.records[3].start);
        let middle = &sample.bytes[begin..end];
        let bytes = [&sample.bytes[..end], &middle.repeat(many), &sample.bytes[end..]].concat();
        let whole = sample.read(&bytes).0.len();
        let mut damaged = bytes;
        damaged[1_000..1_512].fill(0);
        let (texts, failed) = sample.read(&damaged);
        let least = whole - 512 / (middle.len() / 2) - 3;
        assert!(failed > 0 && texts.len() >= least, "{}: {} of {whole}", sample.name, texts.len());
    }
}

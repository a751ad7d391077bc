//! Records in pieces of every size, broken records, and the encodings of pages.

use std::io::BufReader;
use std::path::Path;

use nearprint_wire::offer::Content;

use super::*;
use crate::context::{Context, RecordForm};
use crate::entry::FileRecord;
use crate::mapping::Mapping;

/// Id and content of each page, the names of other records, or what is wrong with them.
fn read(bytes: &[u8], piece: usize) -> Vec<String> {
    let bytes: &'static [u8] = bytes.to_vec().leak();
    let source = Box::new(BufReader::with_capacity(piece, bytes));
    let file = File::new(
        &Context::new(Mapping::default(), RecordForm::Both),
        Path::new("f"),
        "",
        "record",
    );
    let mut archive = Archive::new(file, Window::new(source));
    archive.bytes_max = 400;
    let shown = |item: Item| match item {
        Ok(FileRecord::Document(entry)) => {
            let id = entry.id.unwrap_or_default();
            match entry.content {
                Content::Text(text) => format!("{id} text {text}"),
                Content::Html(html) => format!("{id} html {html}"),
                other @ (Content::Features(_) | Content::Vector(_) | Content::Fingerprint(_)) => {
                    panic!("{other:?}")
                }
            }
        }
        Ok(FileRecord::Other(other)) => other.what.to_owned(),
        Err(bad) => bad.to_string(),
    };
    let is_rest = |item: &Item| matches!(item, Ok(FileRecord::Other(of)) if of.what == REST);
    archive.filter(|item| !is_rest(item)).map(shown).collect()
}

#[track_caller]
fn check(bytes: &[u8], expected: &[&str]) {
    for piece in (1..bytes.len().min(60)).chain([bytes.len()]) {
        let read = read(bytes, piece);
        let matches = |(read, expected): (&String, &&str)| read.starts_with(expected);
        let is_same = read.len() == expected.len() && read.iter().zip(expected).all(matches);
        assert!(is_same, "pieces of {piece}: {read:?}");
    }
}

fn record(kind: &str, content_type: &str, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let header = format!(
        "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: https://a.example/\r\n\
         Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
    );
    [header.as_bytes(), content, b"\r\n\r\n"].concat()
}

fn response(header: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\n{header}\r\n\r\n");
    record("response", "application/http; msgtype=response", &[head.as_bytes(), body].concat())
}

#[test]
fn each_type_of_record_is_a_page_or_is_named() {
    let bytes = [
        record("warcinfo", "application/warc-fields", b"software: x"),
        record("request", "application/http; msgtype=request", b"GET / HTTP/1.1\r\n\r\n"),
        response("Content-Type: text/html", b"<p>page"),
        record("resource", "text/plain; charset=latin1", b"caf\xe9"),
        record("conversion", "text/plain", b"a text"),
        response("Content-Type: text/html\r\nContent-Encoding: gzip", b"\r\n"),
        record("revisit", "application/http; msgtype=response", b"HTTP/1.1 200 OK\r\n\r\n"),
        record("response", "text/dns", b"20260101 a.example"),
        record("response", "application/http", b"HTTP/1.1 404 Not Found\r\n\r\n<p>gone"),
        response("Content-Type: image/png", b"\x89PNG"),
        response("X: none", b" <!DOCTYPE html><p>no type"),
        record("continuation", "application/http", b"rest"),
    ];
    check(
        &bytes.concat(),
        &[
            "descriptions of web archives",
            "web requests",
            "https://a.example/ html <p>page",
            "https://a.example/ text caf\u{e9}",
            "https://a.example/ text a text",
            "web pages without content",
            "web revisits",
            "web records that are neither pages",
            "web responses with another status",
            "web records that are neither pages",
            "https://a.example/ html  <!DOCTYPE html><p>no type",
            "continuations of web records",
        ],
    );
}

#[test]
fn interim_responses_come_before_a_page() {
    let page = |interim: &str| {
        let http = format!("{interim}HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>page");
        record("response", "application/http", http.as_bytes())
    };
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
    let all = [
        page("HTTP/1.1 100 Continue\r\n\r\n"),
        page(&format!("HTTP/1.1 100 Continue\r\n\r\n{hints}{hints}")),
        record("response", "application/http", hints.as_bytes()),
        record("response", "application/http", b"HTTP/1.1 101 Switching\r\n\r\n\x01frame"),
    ];
    let (page, other) =
        ("https://a.example/ html <p>page", "web responses with another status than 2xx");
    check(&all.concat(), &[page, page, other, other]);
}

#[test]
fn a_segment_of_a_page_is_no_page() {
    let segment = |kind: &str, number: u32| {
        let whole = record(kind, "text/plain", b"half a text");
        let line = format!("WARC-Segment-Number: {number}\r\nContent-Type");
        String::from_utf8(whole).unwrap().replacen("Content-Type", &line, 1).into_bytes()
    };
    let all = [
        segment("resource", 1),
        segment("continuation", 2),
        segment("request", 1),
        record("resource", "text/plain", b"a text"),
    ];
    let first = "f record 1 (byte 0): is a segment of a longer record (WARC-Segment-Number): join";
    let expected =
        [first, "continuations of web records", "web requests", "https://a.example/ text a text"];
    check(&all.concat(), &expected);
}

#[test]
fn reading_goes_on_behind_a_record_that_is_broken() {
    let good = record("conversion", "text/plain", b"a text");
    let page = "https://a.example/ text a text";
    let replaced = |from: &str, to: &str| {
        String::from_utf8(good.clone()).unwrap().replacen(from, to, 1).into_bytes()
    };
    let long = |length: usize| {
        let long = record("conversion", "text/plain", &[b'x'; 40]);
        let length = format!("Length: {length}");
        String::from_utf8(long).unwrap().replacen("Length: 40", &length, 1).into_bytes()
    };
    for (broken, why) in [
        (long(60), "another record does not begin where"),
        (long(20), "another record does not begin where"),
        (replaced("Length: 6", "Length: 1000000000"), "the file ends before this record does, or"),
        (replaced("Length: 6", "Length: 1000000000000"), "its Content-Length is above"),
        (replaced("Length: 6", "Length: 18446744073709551615"), "its Content-Length is above"),
        (replaced("Length: 6", "Length: six"), "its Content-Length is not a number"),
        (replaced("Content-Length: 6", "X: y"), "has no Content-Length"),
        (replaced("WARC/1.1", "WORC/1.1"), "no record of a web archive begins here"),
    ] {
        let second = format!("f record 2 (byte {}): {why}", good.len());
        check(&[&good[..], &broken, &good].concat(), &[page, &second, page]);
    }
    let long = record("conversion", "text/plain", &[b'x'; 401]);
    let second = format!("f record 2 (byte {}): longer than", good.len());
    check(&[&good[..], &long, &good].concat(), &[page, &second, page]);
    let picture = record("resource", "image/png", &[b'x'; 401]);
    check(
        &[&good[..], &picture, &good].concat(),
        &[page, "web records that are neither pages", page],
    );
    let far = replaced("Length: 6", "Length: 99999999999999");
    check(&[&good[..], &far].concat(), &[page, "f record 2"]);
    // However much follows.
    check(&[&far[..], &good.repeat(9)].concat(), &[&["f record 1"][..], &[page; 9]].concat());
    let film = record("resource", "video/mp4", b"film");
    let film = String::from_utf8(film).unwrap().replacen("Length: 4", "Length: 999999999", 1);
    check(&[film.as_bytes(), &good].concat(), &["f record 1", page]);
}

#[test]
fn encoded_pages_are_decoded_and_those_that_are_no_longer_encoded_are_taken() {
    let page = b"<p>page";
    let chunked = |body: &[u8]| {
        let (first, last) = body.split_at(3);
        let mut chunks = format!("{:x};x=y\r\n", first.len()).into_bytes();
        chunks.extend_from_slice(first);
        chunks.extend_from_slice(format!("\r\n{:X}\r\n", last.len()).as_bytes());
        chunks.extend_from_slice(last);
        chunks.extend_from_slice(b"\r\n0\r\n\r\n");
        chunks
    };
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    io::Write::write_all(&mut zlib, page).unwrap();
    let zlib = zlib.finish().unwrap();
    let bare = &zlib[2..zlib.len() - 4];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    io::Write::write_all(&mut gzip, page).unwrap();
    let gzip = gzip.finish().unwrap();
    let encoded =
        |encoding: &str| format!("Content-Type: text/html\r\nContent-Encoding: {encoding}");
    let transfer = "\r\nTransfer-Encoding: chunked";
    for (header, body) in [
        (encoded("gzip"), gzip.clone()),
        (encoded("x-gzip"), page.to_vec()),
        (encoded("deflate"), zlib.clone()),
        (encoded("deflate"), bare.to_vec()),
        (encoded("br"), page.to_vec()),
        (encoded("zstd"), zstd::encode_all(&page[..], 1).unwrap()),
        (encoded("gzip") + transfer, chunked(&gzip)),
        (encoded("identity") + transfer, chunked(page)),
        (encoded("identity") + transfer, page.to_vec()),
        (encoded("unheard-of"), page.to_vec()),
    ] {
        let read = read(&response(&header, &body), 99);
        assert_eq!(read, ["https://a.example/ html <p>page"], "{header}");
    }
    let broken = read(&response(&encoded("gzip"), b"\x1f\x8b\x08\xff\xff\xff"), 99);
    assert_eq!(broken.len(), 1);
    assert!(broken[0].contains("content encoding \"gzip\" cannot be undone"), "{broken:?}");
}

#[test]
fn charsets_are_those_of_the_header_or_of_the_page() {
    for (header, body) in [
        ("text/html; charset=windows-1251", &b"\xf7\xe0\xe9"[..]),
        ("text/html; charset=\"WINDOWS-1251\"", b"\xf7\xe0\xe9"),
        ("text/html; charset=unheard-of", "\u{447}\u{430}\u{439}".as_bytes()),
        ("text/plain", "\u{447}\u{430}\u{439}".as_bytes()),
    ] {
        let read = read(&response(&format!("Content-Type: {header}"), body), 99);
        assert!(read[0].ends_with("\u{447}\u{430}\u{439}"), "{header}: {read:?}");
    }
}

/// What is wrong with records that were read nevertheless, by how many.
fn doubts(bytes: &[u8]) -> Vec<(&'static str, u64)> {
    let bytes: &'static [u8] = bytes.to_vec().leak();
    let context = Context::new(Mapping::default(), RecordForm::Parsed);
    let file = File::new(&context, Path::new("f"), "", "record");
    drop(Archive::new(file, Window::new(Box::new(bytes))).collect::<Vec<_>>());
    context.doubts().into_iter().map(|(what, doubt)| (what, doubt.count)).collect()
}

#[test]
fn a_length_that_is_wrong_by_a_few_bytes_costs_no_page() {
    let good = record("conversion", "text/plain", b"a text of a page");
    let page = "https://a.example/ text a text of a page";
    for ends in ["\r\n\r\n", "\n\n", "\r\n", "\n"] {
        for length in 16 - LENGTH_ERROR_MAX..=16 + LENGTH_ERROR_MAX {
            let wrong = String::from_utf8(good.clone()).unwrap();
            let wrong = wrong.replacen("Length: 16", &format!("Length: {length}"), 1);
            let wrong = [wrong.trim_ascii_end(), ends].concat().into_bytes();
            for bytes in [[&wrong[..], &good].concat(), [&good[..], &wrong].concat()] {
                let read = read(&bytes, 99);
                let is_page = |read: &String| read.trim_ascii_end().starts_with(page);
                // A few bytes short of the end of the file may also be a file that is cut off.
                assert!(read.len() == 2 && read.iter().all(is_page), "{length} {ends:?}: {read:?}");
            }
        }
    }
    let wrong = String::from_utf8(good.clone()).unwrap().replace("Length: 16", "Length: 15");
    assert_eq!(doubts(&[wrong.as_bytes(), &good].concat()), [(WRONG_LENGTH, 1)]);
    assert_eq!(doubts(&[&good[..], &good].concat()), []);
    // The last byte of the last page is missing.
    let cut = &good[..good.len() - 5];
    check(&[&good[..], cut].concat(), &[page, "f record 2"]);
}

#[test]
fn every_version_of_a_record_is_found_behind_a_broken_one() {
    for version in ["WARC/0.17", "WARC/0.18", "WARC/1.0", "WARC/1.1", "WARC/2.0"] {
        let good = record("conversion", "text/plain", b"a text, WARC/1.1 and\nWARC/x");
        let good = String::from_utf8(good).unwrap().replacen("WARC/1.1", version, 1);
        let broken = good.replacen("Content-Length: 27", "Content-Length: 2", 1);
        let page = "https://a.example/ text a text, WARC/1.1 and";
        let bytes = [&*good, &broken, &good].concat();
        check(bytes.as_bytes(), &[page, "f record 2", page]);
    }
}

/// Yields some bytes, then an error, then more.
struct Damaged(Vec<Result<&'static [u8], ()>>);

impl io::Read for Damaged {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(first) = self.0.first_mut() else { return Ok(0) };
        let Ok(bytes) = first else {
            self.0.drain(..1);
            return Err(io::Error::other("damage"));
        };
        let count = io::Read::read(bytes, buffer)?;
        if bytes.is_empty() {
            self.0.drain(..1);
        }
        Ok(count)
    }
}

#[test]
fn whole_records_before_damage_and_after_it_are_read_and_it_counts_once() {
    let good = record("conversion", "text/plain", b"a text").leak();
    let page = "https://a.example/ text a text";
    let bad = "f record 2 (byte 125): damage";
    let read = |parts: &[Result<&'static [u8], ()>], piece| {
        let source = Box::new(BufReader::with_capacity(piece, Damaged(parts.to_vec())));
        let context = Context::new(Mapping::default(), RecordForm::Parsed);
        let archive =
            Archive::new(File::new(&context, Path::new("f"), "", "record"), Window::new(source));
        let shown = |item: Item| match item {
            Ok(FileRecord::Document(entry)) => format!("{:?}", entry.content),
            other => format!("{:?}", other.map_err(|bad| bad.to_string())),
        };
        archive.map(shown).collect::<Vec<_>>()
    };
    let (page, bad) = (page.rsplit(' ').next().unwrap(), bad.rsplit(' ').next().unwrap());
    for piece in [1, 7, 999] {
        for cut in 1..good.len() {
            // The record before the cut one is whole, and so is the one in the next member.
            let cut_one = [&*good, &good[..cut]].concat().leak();
            let read = read(&[Ok(cut_one), Err(()), Ok(good)], piece);
            let is_whole = cut >= good.len() - ENDS_MAX;
            let expected = if is_whole { 4 } else { 3 };
            assert_eq!(read.len(), expected, "cut after {cut}: {read:?}");
            assert!(read[0].contains(page) && read[expected - 1].contains(page), "{read:?}");
            assert!(read[expected - 2].contains(bad), "{read:?}");
        }
    }
    let twice: [Result<&'static [u8], ()>; 4] = [Ok(good), Err(()), Ok(&good[..50]), Err(())];
    assert_eq!(read(&twice, 99).len(), 3);
}

#[test]
fn long_records_that_are_no_pages_are_left_out_and_can_be_copied_in_pieces() {
    let long = |header: &str, body: &[u8]| response(header, &body.repeat(500));
    let good = response("Content-Type: text/html", b"<p>page");
    let page = "https://a.example/ html <p>page";
    for (header, body, what) in [
        ("Content-Type: video/mp4", &b"film"[..], "web records that are neither pages nor texts"),
        ("Content-Type: text/html", b"\0\x01", "web records of pages or texts whose"),
        ("X: y", b"anything", "web records that are neither pages nor texts"),
        ("Content-Type: text/html", b"<p>", "f record 2 (byte"),
    ] {
        check(&[&good[..], &long(header, body), &good].concat(), &[page, what, page]);
    }
    let film = long("Content-Type: video/mp4", b"film");
    let bytes: &'static [u8] = [&good[..], &film, &good].concat().leak();
    let context = Context::new(Mapping::default(), RecordForm::Raw);
    let source = Box::new(BufReader::with_capacity(99, bytes));
    let file = File::new(&context, Path::new("f"), "", "record");
    let mut archive = Archive::new(file, Window::new(source));
    archive.bytes_max = 400;
    let mut copied = Vec::new();
    let mut ended = 0;
    for item in archive {
        let raw = match item.unwrap() {
            FileRecord::Document(entry) => entry.raw,
            FileRecord::Other(other) => other.raw,
        };
        match raw {
            Raw::Bytes(bytes) => copied.extend_from_slice(&bytes),
            Raw::Piece { bytes, is_last } => {
                copied.extend_from_slice(&bytes);
                ended += u32::from(is_last);
            }
            other @ (Raw::None | Raw::Row(..)) => panic!("{other:?}"),
        }
    }
    assert_eq!((copied, ended), (bytes.to_vec(), 1));
}

#[test]
fn addresses_that_are_not_utf_8_stay_different() {
    let of = |byte: u8| {
        let mut bytes = record("conversion", "text/plain", b"a text");
        let at = memmem::find(&bytes, b"a.example/").unwrap() + 10;
        bytes.insert(at, byte);
        bytes
    };
    check(
        &[of(0xe9), of(0xe8)].concat(),
        &["https://a.example/%E9 text", "https://a.example/%E8 text"],
    );
}

#[test]
fn resources_that_describe_a_page_are_no_pages() {
    for (address, is_page) in [
        ("urn:text:https://a.example/", false),
        ("urn:pageinfo:http://a.example/", false),
        ("urn:X-wpull:log", false),
        ("metadata://gnu.org/software/wget/warc/wget.log", false),
        ("urn:isbn:0451450523", true),
        ("urn:uuid:7a2c", true),
        ("file:///a.txt", true),
    ] {
        let bytes = record("resource", "text/plain", b"a text");
        let text = String::from_utf8(bytes).unwrap().replace("https://a.example/", address);
        assert_eq!(read(text.as_bytes(), 99)[0].ends_with("a text"), is_page, "{address}");
    }
}

#[test]
fn content_types_are_read_as_in_browsers() {
    for (header, is_page) in [
        ("Content-Type: text/html, text/html; charset=utf-8", true),
        ("Content-Type: text/html,charset=utf-8", true),
        ("Content-Type: text/html charset='utf-8'", true),
        ("Content-Type: text/html\r\nContent-Type: text/html", true),
        ("Content-Type: image/png\r\nContent-Type: text/html", true),
        ("Content-Type: text/html, image/png", false),
    ] {
        let read = read(&response(header, "<p>caf\u{e9}".as_bytes()), 99);
        assert_eq!(read[0].ends_with("<p>caf\u{e9}"), is_page, "{header}: {read:?}");
    }
    let unknown = response("Content-Type: text : html", b"<!DOCTYPE html><p>page");
    assert!(read(&unknown, 99)[0].ends_with("<p>page"));
}

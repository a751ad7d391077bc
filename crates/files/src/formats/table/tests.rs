//! Tables of every dialect, as their readers see them.

use std::io::BufReader;
use std::path::Path;

use nearprint_wire::offer::Content;

use super::*;
use crate::context::{Context, RecordForm};
use crate::detect::content;
use crate::mapping::Mapping;

/// Id, text and bytes of each record, or what is wrong with it.
fn read(text: &str, piece: usize) -> Vec<String> {
    let text: &'static [u8] = text.as_bytes().to_vec().leak();
    let source = Box::new(BufReader::with_capacity(piece, text));
    let file = File::new(
        &Context::new(Mapping::default(), RecordForm::Both),
        Path::new("f"),
        "",
        "record",
    );
    let mut table = TableRows::new(file, Window::new(source), delimiter(content::trimmed(text)));
    table.bytes_max = 40;
    let raw = |place: &Place, raw: Raw| {
        let at = place.record.unwrap().offset.unwrap() as usize;
        let Raw::Bytes(raw) = raw else { panic!("{raw:?}") };
        assert!(text[at..].starts_with(&raw), "its place is where its bytes are");
        String::from_utf8(raw.to_vec()).unwrap()
    };
    let shown = |item: Item| match item {
        Ok(FileRecord::Document(entry)) => {
            let Content::Text(text) = &entry.content else { panic!("{:?}", entry.content) };
            let (id, text) = (entry.id.as_deref().unwrap_or("-").to_owned(), text.clone());
            format!("{id}|{text}|{}", raw(&entry.place, entry.raw))
        }
        Ok(FileRecord::Other(other)) => {
            format!("{}: {}", other.what, raw(&other.place, other.raw))
        }
        Err(bad) => bad.to_string(),
    };
    table.map(shown).collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    for piece in 1..=text.len() {
        let read = read(text, piece);
        let (header, records) = read.split_first().unwrap();
        assert!(header.starts_with("headers of tables: "), "{header}");
        let matches = |(read, expected): (&String, &&str)| read.starts_with(expected);
        let is_same = records.len() == expected.len() && records.iter().zip(expected).all(matches);
        assert!(is_same, "pieces of {piece}: {records:?}");
    }
}

#[test]
fn quoted_cells_line_ends_and_other_delimiters_are_read() {
    check(
        "id,text,n\r\n1,one,\r\n\r\n2,\"two, and\n\"\"three\"\"\",x\r\n,four,",
        &["1|one|1,one,", "2|two, and\n\"three\"|2,\"two, and\n\"\"three\"\"\",x", "-|four|,four,"],
    );
    check("\u{feff}Text;URL\nt;u\n", &["u|t|t;u"]);
    check("text\tid\nt, u\ti\n", &["i|t, u|t, u\ti"]);
}

#[test]
fn a_stray_quote_swallows_no_records() {
    check(
        "id,text\n1,\"one\n2,two\n3,three\n",
        &["f record 1 (byte 8): has a quote that is not closed", "2|two", "3|three"],
    );
    check(
        "id,text\n1,\"one\n2,\"two\"\n3,three\n",
        &["f record 1 (byte 8): has", "2|two", "3|three"],
    );
}

#[test]
fn a_record_with_another_number_of_cells_is_refused() {
    check(
        "id,text\n1\n2,two\n3,three,3\n4,four\n",
        &[
            "f record 1 (byte 8): has 1 cell, and the header has 2",
            "2|two",
            "f record 3 (byte 16): has 3 cells",
            "4|four",
        ],
    );
}

#[test]
fn a_record_above_the_limit_is_skipped() {
    let long = "x".repeat(99);
    let text = format!("id,text\n1,{long}\n2,two\n3,\"{long}\n{long}\"\n4,four\n5,five");
    let read = read(&text, 7);
    assert!(read[1].starts_with("f record 1 (byte 8): longer than"), "{read:?}");
    assert_eq!(read[2], "2|two|2,two");
    assert!(read[3].starts_with("f record 3 (byte 116): longer than"), "{read:?}");
    assert_eq!(read[read.len() - 2..], ["4|four|4,four", "5|five|5,five"]);
}

#[test]
fn a_table_without_content_is_reported_once() {
    let items = read("id,price\n1,2\n3,4\n5,6\n", 8);
    // The header, and the first record.
    assert_eq!(items.len(), 2, "{items:?}");
    assert!(items[1].starts_with("f record 1 (byte 9): has no text"), "{items:?}");
    assert!(items[1].ends_with("The rest of the table is not read"), "{items:?}");
    // A cell may be empty, and the next one not.
    check("id,text\n1,\n2,two\n", &["f record 1 (byte 8): has no text", "2|two"]);
}

#[test]
fn an_empty_file_or_a_header_alone_has_no_documents() {
    assert_eq!(read("", 1), Vec::<String>::new());
    check("id,text\n", &[]);
    check("id,text", &[]);
}

/// Ids and texts, or reasons, of a table with this delimiter.
fn read_bytes(bytes: &[u8], delimiter: u8, options: &crate::ReadOptions) -> Vec<String> {
    let source = Box::new(std::io::Cursor::new(bytes.to_vec()));
    let file = File::new(&Context::of(options), Path::new("f"), "", "record");
    let shown = |item: Item| match item {
        Ok(FileRecord::Document(entry)) => {
            let Content::Text(text) = &entry.content else { panic!("{:?}", entry.content) };
            format!("{}|{text}", entry.id.as_deref().unwrap_or("-"))
        }
        Ok(FileRecord::Other(other)) => other.what.to_owned(),
        Err(bad) => bad.why,
    };
    TableRows::new(file, Window::new(source), delimiter).map(shown).skip(1).collect()
}

#[test]
fn a_sample_of_tsv_decides_about_quotes_unless_the_user_does() {
    let read = |text: &str, quoting| {
        let options = crate::ReadOptions { quoting, ..Default::default() };
        read_bytes(text.as_bytes(), b'\t', &options)
    };
    let plain = "id\ttext\n1\tone\n2\t\"Sociology\" is a word\n3\t\"never closed\n4\tfour\n";
    let expected = ["1|one", "2|\"Sociology\" is a word", "3|\"never closed", "4|four"];
    assert_eq!(read(plain, None), expected);
    let quoted = "id\ttext\n1\t\"a tab\tand a\nline\"\n2\t\"\"\"two\"\"\"\n";
    assert_eq!(read(quoted, None), ["1|a tab\tand a\nline", "2|\"two\""]);
    let either = "id\ttext\n1\t\"one\"\n";
    assert_eq!(read(either, None), ["1|one"]);
    assert_eq!(read(either, Some(Quoting::None)), ["1|\"one\""]);
    let forced = read(plain, Some(Quoting::Double));
    assert!(forced[1].contains("pass --quote none"), "{forced:?}");
}

#[test]
fn a_table_that_is_not_utf8_is_one_error_that_names_its_encoding() {
    let rows = b"id,text\n1,plain\n2,caf\xe9 au lait\n3,d\xe9j\xe0 vu\n4,four\n";
    let read = |is_lenient| {
        read_bytes(rows, b',', &crate::ReadOptions { is_lenient, ..Default::default() })
    };
    let strict = read(false);
    assert_eq!(strict.len(), 2, "{strict:?}");
    assert!(strict[1].contains("--charset windows-1252. The rest of"), "{strict:?}");
    // A copy keeps what cannot be read.
    assert_eq!((read(true).len(), &*read(true)[3]), (4, "4|four"));
    // One record of a file that is UTF-8.
    let mixed = b"id,text\n1,caf\xc3\xa9\n2,caf\xe9\n3,three\n";
    let read = read_bytes(mixed, b',', &crate::ReadOptions::default());
    assert_eq!(read, ["1|caf\u{e9}", "is not UTF-8", "3|three"]);
    // A character that is cut by the end of its cell.
    let cut = b"id,text\n1,caf\xc3\xa9\n2\xc3,\xa9\n3,three\n";
    let read = read_bytes(cut, b',', &crate::ReadOptions::default());
    assert_eq!(read, ["1|caf\u{e9}", "is not UTF-8", "3|three"]);
}

#[test]
fn a_record_of_several_lines_that_is_cut_off_is_one_error() {
    check(
        "id,text\n1,one\n2,\"two\nand\nmore",
        &["1|one", "f record 2 (byte 14): has a quote that is not closed"],
    );
    check("id,text\n1,one\n2", &["1|one", "f record 2 (byte 14): has 1 cell"]);
}

#[test]
fn open_quotes_are_read_by_one_reader() {
    // Each line opens a quote that the next one closes, or one that the next one does not close.
    let open = "1,\"1\n".repeat(999);
    let chained = "1,\"a\",\"b\n".repeat(9);
    let cut = format!("1,\"{}", "a\n".repeat(9));
    for text in [&*open, &*chained, &cut] {
        let before = quoting::READERS.get();
        let read = read(&format!("id,text\n{text}"), 1 << 10);
        assert!(read[1..].iter().all(|item| item.starts_with("f record")), "{read:?}");
        assert_eq!(quoting::READERS.get() - before, 1);
    }
    let before = quoting::READERS.get();
    let sample = "2\t\"a\nb\"\n".repeat(99);
    quoting::of_sample(sample.as_bytes(), b'\t', 2);
    assert_eq!(quoting::READERS.get() - before, 1);
}

#[test]
fn a_quote_is_looked_for_as_far_as_a_record_may_be_long() {
    let text = format!("id,text\n0,\"a\",\"b\n{}", "1,1\n".repeat(98));
    let all = read(&text, 16);
    assert!(all[1].ends_with("bytes, or has a quote that is not closed"), "{all:?}");
    assert_eq!(all.len(), 1 + 99, "the lines after it are read");
}

#[test]
fn what_is_read_again_is_earned_by_records() {
    let source = Box::new(BufReader::new(&b"id,text\n1,one\n2,\"two\n3,three\n4,four\n"[..]));
    let options = crate::ReadOptions::default();
    let file = File::new(&Context::of(&options), Path::new("f"), "", "record");
    let mut table = TableRows::new(file, Window::new(source), b',');
    table.budget.allows(8 * DOCUMENT_BYTES_MAX);
    assert!(!table.budget.allows(1));
    table.by_ref().take(2).for_each(drop);
    assert!(table.budget.allows("1,one\n".len()));
    assert!(!table.budget.allows(1));
    // Nothing is left for the lines after the quote.
    assert_eq!(table.flatten().count(), 0);
    let mut budget = Budget::default();
    budget.earn(1);
    assert!(!budget.allows(8 * DOCUMENT_BYTES_MAX + 1));
}

#[test]
fn the_first_line_shows_what_separates_cells() {
    for (text, separator) in [
        ("id,text\n", b','),
        ("id;text\n", b';'),
        ("id\ttext\n", b'\t'),
        ("id|text\n", b'|'),
        ("id|name,text\n", b','),
        ("sep=;\r\nid;a,b;text\r\n", b';'),
        ("\"sep=|\"\nid|text\n", b'|'),
        ("sep=\nid,text\n", b','),
        ("text\n", b','),
    ] {
        assert_eq!(delimiter(text.as_bytes()), separator, "{text}");
    }
    for piece in 1..30 {
        let text = "\u{feff}sep=;\r\nid;text\r\n1;one, two\r\n";
        assert_eq!(read(text, piece)[1..], ["1|one, two|1;one, two"], "pieces of {piece}");
    }
}

//! Revisit records (WARC 1.1, section 6.7): what stays of a page that goes, so that its address
//! still leads to the page that stays.

use std::borrow::Cow;
use std::collections::HashSet;

use memchr::memmem;
use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::formats::warc::{Headers, header_of_response};

/// The profile of a page whose bytes are those of the other, for the version of the record.
const IDENTICAL: [(&str, &str); 2] = [
    ("WARC/1.0", "http://netpreserve.org/warc/1.0/revisit/identical-payload-digest"),
    ("WARC/1.1", "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"),
];
/// The profile of a page that is nearly the other.
const NEAR: &str = "urn:nearprint:revisit:near-duplicate";

/// What ends a header, and a record.
const END: &[u8] = b"\r\n\r\n";

/// Fields of a record that a revisit record of it, or to it, needs: the metadata to ask for.
pub const FIELDS: [&str; 3] = ["WARC-Record-ID", "WARC-Date", "WARC-Payload-Digest"];

/// The record that stays.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct OriginalRecord<'a> {
    /// Its address.
    #[serde(skip)]
    pub address: &'a str,
    #[serde(rename = "WARC-Record-ID", borrow)]
    record: Option<Cow<'a, str>>,
    #[serde(rename = "WARC-Date", borrow)]
    date: Option<Cow<'a, str>>,
    #[serde(rename = "WARC-Payload-Digest", borrow)]
    digest: Option<Cow<'a, str>>,
}

impl<'a> OriginalRecord<'a> {
    /// From its address and its metadata.
    pub fn of(address: &'a str, metadata: &'a str) -> Self {
        Self { address, ..serde_json::from_str(metadata).unwrap_or_default() }
    }
}

/// The revisit record of a response; `None` for a record of another type, which has no such.
pub fn revisit(record: &[u8], original: &OriginalRecord<'_>) -> Option<Vec<u8>> {
    let end = memmem::find(record, END)?;
    let header = str::from_utf8(&record[..end]).ok()?;
    // A line that begins with white space continues the one before it.
    let header = header.replace("\r\n ", " ").replace("\r\n\t", " ");
    let mut lines = header.split("\r\n");
    let version = lines.next()?;
    let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    let is = |own: &str, name: &str| own.trim().eq_ignore_ascii_case(name);
    let value = |name| fields.iter().find(|(own, _)| is(own, name)).map(|(_, value)| value.trim());
    if value("WARC-Type") != Some("response") {
        return None;
    }
    let digest = value("WARC-Payload-Digest");
    let is_identical = digest.is_some() && digest == original.digest.as_deref();
    let identical = IDENTICAL.iter().find(|(of, _)| *of == version).map(|(_, profile)| *profile);
    let profile = identical.filter(|_| is_identical).unwrap_or(NEAR);

    // Of the response, only its header stays.
    let block = &record[end + END.len()..];
    let http = header_of_response(block).map_or(&[][..], |header| &block[header]);
    let length = http.len().to_string();
    // The reader takes the angle brackets of ids off.
    let id = original.record.as_deref().map(|id| format!("<{id}>"));
    let replaced = [
        ("WARC-Type", Some("revisit")),
        ("WARC-Profile", Some(profile)),
        ("WARC-Refers-To", id.as_deref()),
        ("WARC-Refers-To-Target-URI", Some(original.address).filter(|name| name.contains(':'))),
        ("WARC-Refers-To-Date", original.date.as_deref()),
        ("WARC-Block-Digest", None),
        ("Content-Length", Some(&length)),
    ];
    let mut revisit = format!("{version}\r\n");
    let kept = |own: &str| replaced.iter().all(|(name, _)| !is(own, name));
    for (name, value) in fields.iter().filter(|(own, _)| kept(own)) {
        revisit.extend([name, ":", value, "\r\n"]);
    }
    for (name, value) in replaced {
        revisit.extend(value.map(|value| format!("{name}: {value}\r\n")));
    }
    Some([revisit.as_bytes(), b"\r\n", http, END].concat())
}

/// Records of web archives that are not copied, and what revisit records refer to, by hashes of
/// their names: 8 bytes each.
#[derive(Debug, Default)]
pub(super) struct References {
    dropped: HashSet<u64>,
    referred: Vec<u64>,
}

impl References {
    /// A record is not copied, or becomes a revisit record itself.
    pub(super) fn drop_record(&mut self, record: &[u8]) {
        let headers = Headers::parse(header(record));
        self.dropped.extend(name(headers.get("warc-record-id"), None));
        self.dropped.extend(name(headers.get("warc-target-uri"), headers.get("warc-date")));
    }

    /// A record is copied that may be a revisit record.
    pub(super) fn copy_record(&mut self, record: &[u8]) {
        let headers = Headers::parse(header(record));
        if headers.get("warc-type").as_deref() != Some("revisit") {
            return;
        }
        let of_page = || {
            let date = headers.get("warc-refers-to-date");
            name(headers.get("warc-refers-to-target-uri"), date.or(Some(Cow::Borrowed(""))))
        };
        self.referred.extend(name(headers.get("warc-refers-to"), None).or_else(of_page));
    }

    /// How many revisit records refer to records that are not copied.
    pub(super) fn dangling(&self) -> u64 {
        self.referred.iter().filter(|name| self.dropped.contains(name)).count() as u64
    }
}

/// What stands for a record, by its id, or by its address and time.
fn name(id: Option<Cow<'_, str>>, date: Option<Cow<'_, str>>) -> Option<u64> {
    let id = id?;
    let id = id.trim_start_matches('<').trim_end_matches('>');
    Some(xxh3_64(format!("{id} {}", date.unwrap_or_default()).as_bytes()))
}

fn header(record: &[u8]) -> &[u8] {
    memmem::find(record, END).map_or(record, |end| &record[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSE: &str = "WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:2>\r\n\
        WARC-Target-URI: http://a.example/\r\n b\r\nWARC-Payload-Digest: sha1:AB\r\n\
        warc-block-digest: sha1:CD\r\nContent-Type: application/http; msgtype=response\r\n\
        Content-Length: 51\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>page\r\n\r\n";

    fn of(metadata: &str) -> Option<String> {
        let made =
            revisit(RESPONSE.as_bytes(), &OriginalRecord::of("http://a.example/1", metadata));
        made.map(|record| String::from_utf8(record).unwrap())
    }

    #[test]
    fn a_response_becomes_its_header_and_a_reference() {
        let identical = r#"{"WARC-Record-ID":"urn:uuid:1","WARC-Date":"2026-01-01T00:00:00Z",
            "WARC-Payload-Digest":"sha1:AB"}"#;
        assert_eq!(
            of(identical).unwrap(),
            "WARC/1.1\r\nWARC-Record-ID: <urn:uuid:2>\r\nWARC-Target-URI: http://a.example/ b\r\n\
             WARC-Payload-Digest: sha1:AB\r\nContent-Type: application/http; msgtype=response\r\n\
             WARC-Type: revisit\r\n\
             WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n\
             WARC-Refers-To: <urn:uuid:1>\r\nWARC-Refers-To-Target-URI: http://a.example/1\r\n\
             WARC-Refers-To-Date: 2026-01-01T00:00:00Z\r\nContent-Length: 44\r\n\r\n\
             HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n\r\n\r\n"
        );
        // Other bytes are no identical payload, and what is not known is left out.
        for near in [r#"{"WARC-Payload-Digest":"sha1:EF"}"#, "{}", "nonsense"] {
            let made = of(near).unwrap();
            assert!(made.contains("WARC-Profile: urn:nearprint:revisit:near-duplicate\r\n"));
            assert!(!made.contains("WARC-Refers-To:"), "{made}");
        }
    }

    #[test]
    fn other_records_have_no_revisit_record() {
        let text = RESPONSE.replace("response\r\nWARC-R", "conversion\r\nWARC-R");
        assert!(revisit(text.as_bytes(), &OriginalRecord::default()).is_none());
        assert!(revisit(b"WARC/1.0\r\n", &OriginalRecord::default()).is_none());
    }
}

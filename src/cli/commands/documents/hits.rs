//! The hits of a look-up, for people.

use std::io::{self, Write};

use nearprint_wire::answer::{Answer, HitDocumentReply, HitReply, PreviousReply};

use crate::cli::measure::numbers::count;
use crate::cli::measure::times;
use crate::cli::printable::printable;

/// Prints the hits of a reply as a table.
pub(super) fn print(reply: &Answer, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", fingerprint(reply))?;
    if reply.hits.is_empty() {
        return writeln!(out, "nothing near it is stored");
    }
    let stored = || reply.hits.iter().flat_map(|hit| &hit.documents);
    let columns = Columns {
        numbers: reply.hits.iter().any(|hit| hit.numbers.is_some()),
        expiry: stored().any(|document| document.expires_at.is_some()),
    };
    writeln!(
        out,
        "\ndistance  similarity  {}duplicate  {:<20}  {}document",
        columns.numbers("numbers"),
        "stored",
        columns.expiry("expires")
    )?;
    for hit in &reply.hits {
        columns.hit(hit, reply.short, out)?;
    }
    let listed = reply.hits.len() as u64;
    if reply.hit_count > listed {
        writeln!(out, "{} more; see --limit", reply.hit_count - listed)?;
    }
    Ok(())
}

/// The row of the fingerprint of the document that was sent.
pub(super) fn fingerprint(answer: &Answer) -> String {
    let digits = answer.fingerprint.map_or_else(String::new, |hex| hex.to_string());
    format!("fingerprint {digits}")
}

/// The columns of a table of hits, with a line for each document of a hit.
struct Columns {
    /// There is one for the numbers.
    numbers: bool,
    /// There is one for the expiry.
    expiry: bool,
}

impl Columns {
    /// The cell of the numbers and the space after it.
    fn numbers(&self, cell: &str) -> String {
        if self.numbers { format!("{cell:>7}  ") } else { String::new() }
    }

    /// The cell of the expiry and the space after it.
    fn expiry(&self, cell: &str) -> String {
        if self.expiry { format!("{cell:<20}  ") } else { String::new() }
    }

    fn hit(&self, hit: &HitReply<'_>, short: bool, out: &mut dyn Write) -> io::Result<()> {
        let similarity = shown(hit.similarity);
        let duplicate = if hit.counts(short) { "yes" } else { "no" };
        let numbers = self.numbers(&shown(hit.numbers));
        let mut first = format!("{:>8}  {similarity:>10}  {numbers}{duplicate:>9}", hit.distance);
        let width = first.len();
        for document in &hit.documents {
            self.document(&first, document, out)?;
            first = " ".repeat(width);
        }
        let listed = hit.documents.len() as u64;
        let at_least = if hit.document_count_is_at_least { "at least " } else { "" };
        match hit.document_count.saturating_sub(listed) {
            0 if listed > 0 => Ok(()),
            // What has neither an id nor metadata is not listed.
            0 | 1 if listed == 0 => writeln!(out, "{first}  a document without an id"),
            more if listed == 0 => {
                writeln!(out, "{first}  {at_least}{} documents without an id", count(more))
            }
            more => {
                let more = count(more);
                writeln!(out, "{first}  and {at_least}{more} more with the same fingerprint")
            }
        }
    }

    fn document(
        &self,
        first: &str,
        document: &HitDocumentReply<'_>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let stored = times::shown_ms(Some(document.stored_at_ms));
        let expires = self.expiry(&times::shown(document.expires_at.map(u64::from)));
        let id = document.id.as_deref().map_or("(no id)".into(), printable);
        writeln!(out, "{first}  {stored:<20}  {expires}{id}")?;
        if let Some(metadata) = &document.metadata {
            let indent = first.len() + 24 + expires.len();
            writeln!(out, "{:indent$}{}", "", printable(metadata.get()))?;
        }
        Ok(())
    }
}

/// A share of 1, or a dash where nothing is known.
fn shown(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{share:.3}"))
}

/// Prints what has changed since the document was stored under its id the last time.
pub(super) fn print_previous(previous: &PreviousReply, out: &mut dyn Write) -> io::Result<()> {
    let PreviousReply { distance, similarity, numbers, stored_at_ms } = *previous;
    let (similarity, numbers) = (shown(similarity), shown(numbers));
    let stored = times::shown_ms(Some(stored_at_ms));
    writeln!(out, "since {stored}: distance {distance}, similarity {similarity}, numbers {numbers}")
}

#[cfg(test)]
mod tests {
    use nearprint_wire::answer::Hex;
    use serde_json::{Value, json};

    use super::*;

    fn printed(hits: Value, hit_count: u64) -> String {
        let hits = serde_json::from_value(hits).unwrap();
        let answer = Answer { fingerprint: Some(Hex(0xff)), hits, hit_count, ..Answer::default() };
        let mut out = Vec::new();
        print(&answer, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_document_of_a_hit_has_its_line() {
        let hits = json!([
            {"fingerprint": "00000000000000ff", "distance": 0, "similarity": 1.0, "confirmed": true, "document_count": 5, "documents": [
                {"id": "a", "stored_at_ms": 1_772_366_400_000_u64, "expires_at": 1_772_366_460,
                 "metadata": {"b": 1, "a": "\n"}},
                {"id": null, "stored_at_ms": 1_772_366_401_000_u64},
            ]},
            {"fingerprint": "00000000000000f8", "distance": 3, "similarity": null, "document_count": 1, "documents": [
                {"id": "c", "stored_at_ms": 0},
            ]},
            {"fingerprint": "000000000000001f", "distance": 3, "documents": [], "document_count": 1},
            {"fingerprint": "000000000000003e", "distance": 3, "documents": [], "document_count": 2000},
        ]);
        let expected = "\
fingerprint 00000000000000ff

distance  similarity  duplicate  stored                expires               document
       0       1.000        yes  2026-03-01T12:00:00Z  2026-03-01T12:01:00Z  a
                                                                             {\"b\":1,\"a\":\"\\n\"}
                                 2026-03-01T12:00:01Z                        (no id)
                                 and 3 more with the same fingerprint
       3           -        yes  1970-01-01T00:00:00Z                        c
       3           -        yes  a document without an id
       3           -        yes  2,000 documents without an id
1 more; see --limit
";
        assert_eq!(printed(hits, 5), expected);
    }

    #[test]
    fn where_texts_have_numbers_there_is_a_column_for_them() {
        let hit = |numbers: Value| {
            json!({"fingerprint": "f", "distance": 1, "similarity": 0.9, "numbers": numbers,
                "confirmed": true, "documents": [], "document_count": 1})
        };
        let reply = printed(json!([hit(json!(0.25)), hit(Value::Null)]), 2);
        let expected = "\
distance  similarity  numbers  duplicate  stored                document
       1       0.900    0.250        yes  a document without an id
       1       0.900        -        yes  a document without an id
";
        assert!(reply.ends_with(expected), "{reply}");
    }

    #[test]
    fn without_an_expiry_there_is_no_column_for_it() {
        let document = json!({"id": "a", "stored_at_ms": 0});
        let hit = json!({"fingerprint": "f", "distance": 1, "documents": [document], "document_count": 1});
        let reply = printed(json!([hit]), 1);
        assert!(!reply.contains("expires"), "{reply}");
        assert!(printed(json!([]), 0).contains("nothing near it is stored"));
    }
}

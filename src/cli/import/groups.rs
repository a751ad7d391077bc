//! Groups of near-duplicates: the documents that the replies of an import connect, directly or
//! through others.
//!
//! A union-find over the documents with a hit; a document without one costs nothing. A document
//! joins the oldest document of each hit that counts. Small distances are not transitive, so two
//! members of a group may be farther apart than the look-up distance.

use std::collections::HashMap;
use std::io::{self, Write};

use nearprint_files::Entry;
use nearprint_index::groups::UnionFind;
use nearprint_wire::answer::{Answer, ProblemReply};

use crate::cli::printable::printable;

/// Members shown in addition to the representative.
const MEMBERS_SHOWN_MAX: usize = 2;
/// The width of a table that does not go to a terminal.
const WIDTH_DEFAULT: usize = 120;
const WIDTH_MIN: usize = 60;

/// The groups found so far.
#[derive(Debug, Default)]
pub(crate) struct ImportGroups {
    numbers: HashMap<Box<str>, u32>,
    nodes: Vec<Node>,
    joined: UnionFind,
    without_id: u64,
}

#[derive(Debug)]
struct Node {
    name: Box<str>,
    /// To its nearest hit on arrival; `None` for a document that was stored before its group began.
    distance: Option<u8>,
}

/// A finished group.
#[derive(Debug, PartialEq, Eq)]
struct Group<'a> {
    size: usize,
    /// The number of members at each distance to the nearest document before them.
    distances: Vec<(u8, usize)>,
    /// Oldest first.
    names: Vec<&'a str>,
}

impl ImportGroups {
    /// Joins the documents of a batch with their hits.
    pub(crate) fn add(
        &mut self,
        documents: &[Entry],
        replies: &[Result<Answer, ProblemReply<'static>>],
    ) {
        for (document, reply) in documents.iter().zip(replies) {
            if let Ok(reply) = reply {
                self.join(document.id.as_deref(), reply);
            }
        }
    }

    fn join(&mut self, id: Option<&str>, reply: &Answer) {
        let counting: Vec<_> = reply.hits.iter().filter(|hit| hit.counts(reply.short)).collect();
        let Some(nearest) = counting.iter().map(|hit| hit.distance).min() else {
            return;
        };
        // Hits are numbered before the document, so that the smaller number is the older.
        let hits: Vec<usize> = counting.iter().map(|hit| self.number(&hit.name())).collect();
        let document = if let Some(id) = id {
            self.number(id)
        } else {
            self.without_id += 1;
            let fingerprint = reply.fingerprint.map_or_else(String::new, |hex| hex.to_string());
            let name = format!("{fingerprint} (no id, {})", self.without_id);
            self.number(&name)
        };
        self.nodes[document].distance.get_or_insert(nearest);
        for hit in hits {
            self.joined.join(document, hit);
        }
    }

    fn number(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number as usize;
        }
        let number = self.joined.add();
        self.nodes.push(Node { name: name.into(), distance: None });
        let key = u32::try_from(number).expect("fewer than 2^32 documents");
        self.numbers.insert(name.into(), key);
        number
    }

    /// The largest groups; of equal ones the older first.
    fn largest(&self, count: usize) -> Vec<Group<'_>> {
        let root = |&at: &usize| self.joined.root(at);
        let mut nodes: Vec<usize> = (0..self.nodes.len()).collect();
        nodes.sort_by_key(root);
        let mut sets: Vec<&[usize]> =
            nodes.chunk_by(|one, other| root(one) == root(other)).collect();
        sets.sort_unstable_by_key(|set| (std::cmp::Reverse(set.len()), set[0]));
        sets.truncate(count);
        sets.into_iter().map(|members| self.group(members)).collect()
    }

    fn group(&self, members: &[usize]) -> Group<'_> {
        let mut counts = [0; 65];
        for &at in &members[1..] {
            if let Some(distance) = self.nodes[at].distance {
                counts[usize::from(distance)] += 1;
            }
        }
        Group {
            size: members.len(),
            distances: (0..).zip(counts).filter(|&(_, n)| n > 0).collect(),
            names: members.iter().map(|&at| &*self.nodes[at].name).collect(),
        }
    }

    /// Prints a table of the `count` largest groups.
    pub(crate) fn print(self, count: usize, out: &mut dyn Write) -> io::Result<()> {
        let width = terminal_width().unwrap_or(WIDTH_DEFAULT).max(WIDTH_MIN);
        let groups = self.largest(count);
        if groups.is_empty() {
            return writeln!(out, "\nno near-duplicates were found");
        }
        writeln!(out, "\nthe {} largest groups of near-duplicates", groups.len())?;
        writeln!(out, "  size  distance:members      first member, and some others")?;
        for group in &groups {
            let distances: Vec<_> = group
                .distances
                .iter()
                .map(|(distance, count)| format!("{distance}:{count}"))
                .collect();
            let (size, distances) = (group.size, distances.join(" "));
            let indent = 8 + 20.max(distances.len()) + 2;
            let width_left = width.saturating_sub(indent).max(20);
            let first = printable(group.names[0]);
            writeln!(out, "{size:>6}  {distances:<20}  {}", shortened(&first, width_left))?;
            let others = group.names.iter().skip(1).take(MEMBERS_SHOWN_MAX);
            for other in others {
                let other = printable(other);
                writeln!(out, "{:indent$}{}", "", shortened(&other, width_left))?;
            }
        }
        Ok(())
    }
}

/// The end of a long name, which says more than the start of a path.
fn shortened(name: &str, width_left: usize) -> String {
    let length = name.chars().count();
    if length <= width_left {
        return name.to_owned();
    }
    let tail: String = name.chars().skip(length - width_left.saturating_sub(3)).collect();
    format!("...{tail}")
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use nearprint_wire::answer::Hex;
    use serde_json::json;

    use super::*;

    fn reply(hits: &[(&str, u8)]) -> Answer {
        let hit = |&(id, distance): &(&str, u8)| {
            json!({
                "fingerprint": "00000000000000ff", "distance": distance, "document_count": 1,
                "documents": [{"id": id, "stored_at_ms": 0}],
            })
        };
        let hits = hits.iter().map(hit).collect();
        Answer { hits: serde_json::from_value(hits).unwrap(), ..Answer::default() }
    }

    #[test]
    fn documents_are_grouped_over_others_and_the_oldest_stands_for_them() {
        let mut groups = ImportGroups::default();
        groups.join(Some("a"), &reply(&[]));
        groups.join(Some("b"), &reply(&[("a", 1)]));
        groups.join(Some("x"), &reply(&[]));
        groups.join(Some("y"), &reply(&[("x", 0)]));
        groups.join(Some("c"), &reply(&[("b", 2), ("a", 3)]));

        let largest = groups.largest(9);

        assert_eq!(largest.len(), 2);
        assert_eq!(largest[0].names, ["a", "b", "c"]);
        assert_eq!(largest[0].distances, [(1, 1), (2, 1)]);
        assert_eq!((largest[1].size, largest[1].names[0]), (2, "x"));
    }

    #[test]
    fn two_groups_become_one_when_a_document_is_near_both() {
        let mut groups = ImportGroups::default();
        groups.join(Some("b"), &reply(&[("a", 0)]));
        groups.join(Some("d"), &reply(&[("c", 0)]));
        groups.join(Some("e"), &reply(&[("d", 1), ("b", 2)]));
        let largest = groups.largest(9);
        assert_eq!(largest.len(), 1);
        assert_eq!(largest[0].names[0], "a");
        assert_eq!(largest[0].size, 5);
    }

    #[test]
    fn a_hit_that_does_not_count_joins_nothing() {
        let mut groups = ImportGroups::default();
        let mut refuted = reply(&[("a", 1)]);
        refuted.hits[0].confirmed = Some(false);
        groups.join(Some("b"), &refuted);
        let mut short = reply(&[("a", 1)]);
        short.short = true;
        groups.join(Some("c"), &short);
        assert_eq!(groups.largest(9), []);
    }

    #[test]
    fn documents_without_ids_count_each() {
        let mut groups = ImportGroups::default();
        let mut bare = reply(&[("", 0)]);
        bare.hits[0].documents[0].id = None;
        bare.fingerprint = Some(Hex(0xff));
        groups.join(None, &bare);
        groups.join(None, &bare);
        assert_eq!(groups.largest(1)[0].size, 3);
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        assert_eq!(shortened("/usr/share/doc/a", 10), "...e/doc/a");
        assert_eq!(shortened("/doc/a", 10), "/doc/a");
    }
}

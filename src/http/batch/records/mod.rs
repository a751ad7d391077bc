//! Replies while they wait for their client: packed, to a tenth of their JSON, which is made when
//! they are sent.
//!
//! A record is a byte of flags and what differs from reply to reply: the fingerprint, the sequence,
//! the hits with their ids. What has no packed form (errors, metadata, explanations) is a record of
//! the bytes themselves. Records live in memory only, so their form may change at any time.

use std::borrow::Cow;

use bytes::{BufMut as _, BytesMut};
use nearprint_text::Recipe;
use serde::Serialize;

use crate::http::batch::replies::line_of;
use nearprint_service::budget::SHORT_BYTES;
use nearprint_wire::answer::Hex;
use nearprint_wire::answer::PreviousReply;
use nearprint_wire::answer::SIMILARITY_UNITS;
use nearprint_wire::answer::{
    CheckAndInsertReply, FingerprintReply, HitDocumentReply, HitReply, InsertReply, Outcome,
    QueryReply,
};

/// Longer replies are kept as JSON, so that a record never expands to much more than this.
const PACKED_BYTES_MAX: usize = 2 << 10;

/// About how many times as long the line of a record is.
const EXPANSION: usize = 8;

/// The kinds of records; the lowest bits of the first byte. A plain reply has no hits.
const BYTES: u8 = 0;
const INSERT: u8 = 1;
const CHECK_AND_INSERT: u8 = 2;
const QUERY: u8 = 3;
const PLAIN_CHECK_AND_INSERT: u8 = 4;
const PLAIN_QUERY: u8 = 5;
const FINGERPRINT: u8 = 6;
/// Of a write whose id was stored before: what it says of that document, and then its record.
const PREVIOUS: u8 = 7;
const KINDS: u8 = 0b111;

/// The other bits of the first byte.
const SHORT: u8 = 1 << 3;
const STORED: u8 = 1 << 4;
const OUTCOME_SHIFT: u32 = 5;

const OUTCOMES: [Outcome; 5] = [
    Outcome::Inserted,
    Outcome::Duplicate,
    Outcome::AlreadyPresent,
    Outcome::Refreshed,
    Outcome::Replaced,
];

/// A reply that has a packed form.
pub(super) trait PackedReply {
    /// Appends the record; false if this reply has none, whatever was appended.
    fn pack(&self, out: &mut Vec<u8>) -> bool;
}

/// Records that follow each other.
#[derive(Debug, Default)]
pub(super) struct ReplyRecords {
    pub(super) bytes: Vec<u8>,
    /// About how long their lines are.
    pub(super) expanded_bytes: usize,
}

impl ReplyRecords {
    /// No record is longer.
    pub(super) const BYTES_MAX_EACH: usize = SHORT_BYTES + size_of::<u64>();

    /// Appends the record of a reply, or one of its line; false if that is long.
    pub(super) fn push_short(&mut self, reply: &(impl PackedReply + Serialize)) -> bool {
        if self.push(reply) {
            return true;
        }
        let line = line_of(reply);
        let is_short = line.len() <= SHORT_BYTES;
        if is_short {
            self.push_bytes(&line);
        }
        is_short
    }

    /// Appends the record of a reply; false if it has none.
    pub(super) fn push(&mut self, reply: &impl PackedReply) -> bool {
        let before = self.bytes.len();
        let has_record = reply.pack(&mut self.bytes);
        let length = self.bytes.len().saturating_sub(before);
        if !has_record || length > PACKED_BYTES_MAX {
            self.bytes.truncate(before);
            return false;
        }
        let expanded = length.saturating_mul(EXPANSION);
        self.expanded_bytes = self.expanded_bytes.saturating_add(expanded);
        true
    }

    /// Appends a record of at most [`SHORT_BYTES`], which are sent as they are.
    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        self.bytes.push(BYTES);
        put_number(&mut self.bytes, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self.expanded_bytes = self.expanded_bytes.saturating_add(bytes.len());
    }
}

/// Appends what the first of these records stands for, and returns the others.
pub(super) fn expand_first<'r>(records: &'r [u8], recipe: Recipe, out: &mut BytesMut) -> &'r [u8] {
    let mut reader = Reader(records);
    let mut head = reader.byte();
    let previous = (head == PREVIOUS).then(|| {
        let previous = reader.previous();
        head = reader.byte();
        previous
    });
    let (short, stored) = (head & SHORT != 0, head & STORED != 0);
    let outcome = OUTCOMES.get(usize::from(head >> OUTCOME_SHIFT)).copied();
    let outcome = outcome.expect("packed outcomes are those of the table");
    match head & KINDS {
        INSERT => {
            let (fingerprint, sequence) = (reader.fingerprint(), reader.sequence());
            line(out, &InsertReply { fingerprint, short, outcome, stored, sequence, previous });
        }
        kind @ (CHECK_AND_INSERT | PLAIN_CHECK_AND_INSERT) => {
            let (fingerprint, sequence) = (reader.fingerprint(), reader.sequence());
            let found = reader.found(kind == CHECK_AND_INSERT);
            let Found { duplicate, numbers_differ, hits, hit_count, .. } = found;
            let Found { truncated, unverified_matches, .. } = found;
            line(
                out,
                &CheckAndInsertReply {
                    outcome,
                    stored,
                    sequence,
                    fingerprint,
                    short,
                    duplicate,
                    numbers_differ,
                    hits,
                    hit_count,
                    truncated,
                    unverified_matches,
                    previous,
                },
            );
        }
        kind @ (QUERY | PLAIN_QUERY) => {
            let (fingerprint, found) = (reader.fingerprint(), reader.found(kind == QUERY));
            let Found { duplicate, hits, hit_count, truncated, unverified_matches, .. } = found;
            line(
                out,
                &QueryReply {
                    fingerprint,
                    short,
                    duplicate,
                    hits,
                    hit_count,
                    truncated,
                    unverified_matches,
                    explanation: None,
                },
            );
        }
        FINGERPRINT => {
            let (fingerprint, features) = (reader.fingerprint(), reader.optional());
            let recipe = recipe.to_string();
            line(
                out,
                &FingerprintReply { fingerprint, recipe, features, short, explanation: None },
            );
        }
        _ => {
            let length = reader.count();
            out.extend_from_slice(reader.bytes(length));
        }
    }
    reader.0
}

fn line(out: &mut BytesMut, reply: &impl Serialize) {
    serde_json::to_writer((&mut *out).writer(), reply).expect("replies are JSON");
    out.put_u8(b'\n');
}

impl PackedReply for InsertReply {
    fn pack(&self, out: &mut Vec<u8>) -> bool {
        let Self { fingerprint, short, outcome, stored, sequence, previous } = self;
        let is_packed = pack_previous(previous.as_ref(), out);
        out.push(INSERT | flags(*short, *stored, *outcome));
        put_fingerprint(out, *fingerprint);
        put_sequence(out, *sequence);
        is_packed
    }
}

impl PackedReply for CheckAndInsertReply<'_> {
    fn pack(&self, out: &mut Vec<u8>) -> bool {
        let found = Found {
            duplicate: self.duplicate,
            numbers_differ: self.numbers_differ,
            hits: &self.hits[..],
            hit_count: self.hit_count,
            truncated: self.truncated,
            unverified_matches: self.unverified_matches,
        };
        let is_packed = pack_previous(self.previous.as_ref(), out);
        let kind = if found.is_plain() { PLAIN_CHECK_AND_INSERT } else { CHECK_AND_INSERT };
        out.push(kind | flags(self.short, self.stored, self.outcome));
        put_fingerprint(out, self.fingerprint);
        put_sequence(out, self.sequence);
        is_packed && found.pack(out)
    }
}

impl PackedReply for QueryReply<'_> {
    fn pack(&self, out: &mut Vec<u8>) -> bool {
        let found = Found {
            duplicate: self.duplicate,
            numbers_differ: false,
            hits: &self.hits[..],
            hit_count: self.hit_count,
            truncated: self.truncated,
            unverified_matches: self.unverified_matches,
        };
        let kind = if found.is_plain() { PLAIN_QUERY } else { QUERY };
        out.push(kind | flags(self.short, false, Outcome::Inserted));
        put_fingerprint(out, self.fingerprint);
        self.explanation.is_none() && found.pack(out)
    }
}

impl PackedReply for FingerprintReply {
    /// Without the recipe, which all replies of a service have in common.
    fn pack(&self, out: &mut Vec<u8>) -> bool {
        let Self { fingerprint, recipe: _, features, short, explanation } = self;
        out.push(FINGERPRINT | flags(*short, false, Outcome::Inserted));
        put_fingerprint(out, *fingerprint);
        put_optional(out, *features);
        explanation.is_none()
    }
}

const fn flags(short: bool, stored: bool, outcome: Outcome) -> u8 {
    let short = if short { SHORT } else { 0 };
    let stored = if stored { STORED } else { 0 };
    short | stored | (outcome as u8) << OUTCOME_SHIFT
}

/// What a look-up found, as a query and a check-and-insert reply with it.
#[derive(Debug)]
struct Found<H> {
    duplicate: bool,
    /// Of a check-and-insert.
    numbers_differ: bool,
    hits: H,
    hit_count: usize,
    truncated: bool,
    unverified_matches: Option<usize>,
}

const DUPLICATE: u8 = 1;
const TRUNCATED: u8 = 1 << 1;
const NUMBERS_DIFFER: u8 = 1 << 2;

impl Found<&[HitReply<'_>]> {
    fn is_plain(&self) -> bool {
        let Self { duplicate, hits, hit_count, truncated, unverified_matches, .. } = self;
        let counts = *hit_count > 0 || unverified_matches.is_some();
        !duplicate && !truncated && hits.is_empty() && !counts
    }

    fn pack(&self, out: &mut Vec<u8>) -> bool {
        if self.is_plain() {
            return true;
        }
        let duplicate = if self.duplicate { DUPLICATE } else { 0 };
        let truncated = if self.truncated { TRUNCATED } else { 0 };
        let numbers_differ = if self.numbers_differ { NUMBERS_DIFFER } else { 0 };
        out.push(duplicate | truncated | numbers_differ);
        put_number(out, self.hit_count as u64);
        put_optional(out, self.unverified_matches);
        put_number(out, self.hits.len() as u64);
        self.hits.iter().all(|hit| pack_hit(hit, out))
    }
}

/// The values of `confirmed`.
const CONFIRMED: [Option<bool>; 3] = [None, Some(false), Some(true)];

/// Added to the number of the value of `confirmed` where more documents were there than counted.
const AT_LEAST: u8 = 4;

/// False if it has parts for which a record has no place.
fn pack_hit(hit: &HitReply<'_>, out: &mut Vec<u8>) -> bool {
    let HitReply {
        fingerprint,
        distance,
        similarity,
        numbers,
        confirmed,
        documents,
        document_count,
        document_count_is_at_least,
        differing_bits,
    } = hit;
    put_fingerprint(out, *fingerprint);
    out.push(*distance);
    let confirmed = CONFIRMED.iter().position(|value| value == confirmed);
    let at_least = if *document_count_is_at_least { AT_LEAST } else { 0 };
    out.push(confirmed.expect("all values are in the table") as u8 | at_least);
    put_share(out, *similarity);
    put_share(out, *numbers);
    put_number(out, *document_count);
    put_number(out, documents.len() as u64);
    is_whole(*similarity)
        && is_whole(*numbers)
        && differing_bits.is_none()
        && documents.iter().all(|document| pack_document(document, out))
}

fn pack_document(document: &HitDocumentReply<'_>, out: &mut Vec<u8>) -> bool {
    let HitDocumentReply { id, stored_at_ms, expires_at, metadata } = document;
    put_number(out, *stored_at_ms);
    put_optional(out, expires_at.map(|second| second as usize));
    put_optional(out, id.as_ref().map(|id| id.len()));
    out.extend_from_slice(id.as_deref().unwrap_or_default().as_bytes());
    metadata.is_none()
}

#[expect(clippy::cast_sign_loss, reason = "a share is not negative")]
fn units_of(share: f64) -> usize {
    (share * SIMILARITY_UNITS).round() as usize
}

#[expect(clippy::cast_precision_loss, reason = "there are ten thousand of them")]
fn share_of(units: usize) -> f64 {
    units as f64 / SIMILARITY_UNITS
}

/// Whether it is a whole number of units, so that a record has a place for it.
fn is_whole(share: Option<f64>) -> bool {
    share.map(units_of).map(share_of) == share
}

fn put_share(out: &mut Vec<u8>, share: Option<f64>) {
    put_optional(out, share.map(units_of));
}

/// Appends what is said of the document that an id had, if it had one; false if it has no place.
fn pack_previous(previous: Option<&PreviousReply>, out: &mut Vec<u8>) -> bool {
    let Some(PreviousReply { distance, similarity, numbers, stored_at_ms }) = previous else {
        return true;
    };
    out.extend([PREVIOUS, *distance]);
    put_share(out, *similarity);
    put_share(out, *numbers);
    put_number(out, *stored_at_ms);
    is_whole(*similarity) && is_whole(*numbers)
}

fn put_fingerprint(out: &mut Vec<u8>, Hex(bits): Hex) {
    out.extend_from_slice(&bits.to_le_bytes());
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The number of a change, or 0 for none: changes are numbered from 1.
fn put_sequence(out: &mut Vec<u8>, sequence: Option<u64>) {
    put_number(out, sequence.unwrap_or(0));
}

/// One more than the number, or 0 for none.
fn put_optional(out: &mut Vec<u8>, number: Option<usize>) {
    put_number(out, number.map_or(0, |number| (number as u64).saturating_add(1)));
}

/// Reads what the functions above have written.
struct Reader<'r>(&'r [u8]);

impl<'r> Reader<'r> {
    fn bytes(&mut self, count: usize) -> &'r [u8] {
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest;
        bytes
    }

    fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or_default()
    }

    fn fingerprint(&mut self) -> Hex {
        let bytes = self.bytes(size_of::<u64>());
        Hex(u64::from_le_bytes(bytes.try_into().expect("there are eight")))
    }

    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0_u32);
        loop {
            let byte = self.byte();
            number |= u64::from(byte & 0x7f) << shift;
            shift = shift.wrapping_add(7);
            if byte & 0x80 == 0 {
                return number;
            }
        }
    }

    fn sequence(&mut self) -> Option<u64> {
        Some(self.number()).filter(|&sequence| sequence > 0)
    }

    fn count(&mut self) -> usize {
        usize::try_from(self.number()).expect("it was a usize")
    }

    fn optional(&mut self) -> Option<usize> {
        self.count().checked_sub(1)
    }

    fn share(&mut self) -> Option<f64> {
        self.optional().map(share_of)
    }

    fn found(&mut self, any: bool) -> Found<Vec<HitReply<'r>>> {
        if !any {
            let (duplicate, truncated, hit_count) = (false, false, 0);
            let (hits, unverified_matches, numbers_differ) = (Vec::new(), None, false);
            return Found {
                duplicate,
                numbers_differ,
                hits,
                hit_count,
                truncated,
                unverified_matches,
            };
        }
        let flags = self.byte();
        let (hit_count, unverified_matches) = (self.count(), self.optional());
        let hits = (0..self.count()).map(|_| self.hit()).collect();
        let (duplicate, truncated) = (flags & DUPLICATE != 0, flags & TRUNCATED != 0);
        let numbers_differ = flags & NUMBERS_DIFFER != 0;
        Found { duplicate, numbers_differ, hits, hit_count, truncated, unverified_matches }
    }

    fn previous(&mut self) -> PreviousReply {
        PreviousReply {
            distance: self.byte(),
            similarity: self.share(),
            numbers: self.share(),
            stored_at_ms: self.number(),
        }
    }

    fn hit(&mut self) -> HitReply<'r> {
        let (fingerprint, distance) = (self.fingerprint(), self.byte());
        let flags = self.byte();
        let confirmed = CONFIRMED.get(usize::from(flags & !AT_LEAST)).copied().flatten();
        let (similarity, numbers) = (self.share(), self.share());
        let document_count = self.number();
        let documents = (0..self.count()).map(|_| self.document()).collect();
        HitReply {
            fingerprint,
            distance,
            similarity,
            numbers,
            confirmed,
            documents,
            document_count,
            document_count_is_at_least: flags & AT_LEAST != 0,
            differing_bits: None,
        }
    }

    fn document(&mut self) -> HitDocumentReply<'r> {
        let (stored_at_ms, expires_at) = (self.number(), self.optional());
        let id = self.optional().map(|length| {
            let id = std::str::from_utf8(self.bytes(length));
            Cow::Borrowed(id.expect("it was text"))
        });
        HitDocumentReply {
            id,
            stored_at_ms,
            expires_at: expires_at.map(|second| u32::try_from(second).expect("it was a u32")),
            metadata: None,
        }
    }
}

#[cfg(test)]
mod tests;

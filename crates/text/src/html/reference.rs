//! Character references: `&eacute;`, `&#233;`, `&#xe9;`.
//!
//! A name is looked up prefix by prefix, and the longest that is known counts. Names are at most 32
//! bytes long, so that a reference costs at most 32 look-ups in the table.

use std::borrow::Cow;

use html5ever::data::{C1_REPLACEMENTS, NAMED_ENTITIES};

/// What a reference stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) first: char,
    /// A few names stand for two characters.
    pub(super) second: Option<char>,
    /// The offset after the reference.
    pub(super) after: usize,
}

/// Where a reference occurs. In an attribute value, `&copy=1` is part of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReferencePlace {
    Text,
    Attribute,
}

/// Decodes the references in an attribute value, and turns its line ends into line feeds.
pub(crate) fn decode_attribute(source: &str) -> Cow<'_, str> {
    let special = |text: &str| memchr::memchr3(b'&', b'\r', b'\0', text.as_bytes());
    if special(source).is_none() {
        return Cow::Borrowed(source);
    }
    let mut value = String::with_capacity(source.len());
    let mut at = 0;
    while let Some(length) = special(&source[at..]) {
        value.push_str(&source[at..at + length]);
        at += length;
        match source.as_bytes()[at] {
            b'&' => {
                if let Some(Reference { first, second, after }) =
                    read(source, at, ReferencePlace::Attribute)
                {
                    value.extend([Some(first), second].into_iter().flatten());
                    at = after;
                    continue;
                }
                value.push('&');
            }
            b'\r' if source.as_bytes().get(at + 1) == Some(&b'\n') => {}
            b'\r' => value.push('\n'),
            _ => value.push(char::REPLACEMENT_CHARACTER),
        }
        at += 1;
    }
    value.push_str(&source[at..]);
    Cow::Owned(value)
}

/// The reference that begins at the ampersand at this offset, if one does.
pub(super) fn read(html: &str, ampersand: usize, place: ReferencePlace) -> Option<Reference> {
    let name = ampersand + 1;
    if html.as_bytes().get(name) == Some(&b'#') {
        numeric(html, name + 1)
    } else {
        named(html, name, place)
    }
}

fn numeric(html: &str, start: usize) -> Option<Reference> {
    let bytes = html.as_bytes();
    let (base, digits) = match bytes.get(start)? {
        b'x' | b'X' => (16, start + 1),
        _ => (10, start),
    };
    let mut at = digits;
    let mut number: u32 = 0;
    while let Some(digit) = bytes.get(at).and_then(|byte| char::from(*byte).to_digit(base)) {
        number = number.saturating_mul(base).saturating_add(digit);
        at += 1;
    }
    if at == digits {
        return None;
    }
    let after = at + usize::from(bytes.get(at) == Some(&b';'));
    Some(Reference { first: character(number), second: None, after })
}

/// The character with this number; browsers read 128 to 159 as windows-1252.
fn character(number: u32) -> char {
    let c1 = number.checked_sub(0x80).and_then(|at| C1_REPLACEMENTS.get(at as usize));
    let known = c1.copied().flatten().or_else(|| char::from_u32(number));
    known.filter(|c| *c != '\0').unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn named(html: &str, start: usize, place: ReferencePlace) -> Option<Reference> {
    let bytes = html.as_bytes();
    let mut found = None;
    let mut end = start;
    // The table also contains every prefix of a name, as a pair of zeros.
    while bytes.get(end).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b';') {
        end += 1;
        let Some(&(first, second)) = NAMED_ENTITIES.get(&html[start..end]) else { break };
        if let Some(first) = char::from_u32(first).filter(|c| *c != '\0') {
            let second = char::from_u32(second).filter(|c| *c != '\0');
            found = Some(Reference { first, second, after: end });
        }
    }
    let found = found?;
    let is_parameter = place == ReferencePlace::Attribute
        && bytes[found.after - 1] != b';'
        && bytes.get(found.after).is_some_and(|byte| *byte == b'=' || byte.is_ascii_alphanumeric());
    (!is_parameter).then_some(found)
}

//! Header lines, `Name: value`, of records of web archives and of HTTP.

use std::borrow::Cow;

use memchr::memchr;

use crate::escape::escaped;

/// The header lines after the first line.
pub(crate) struct Headers<'a> {
    first: Cow<'a, str>,
    lines: Vec<(&'a str, Cow<'a, str>)>,
}

impl<'a> Headers<'a> {
    /// Reads what it can. A line that begins with white space continues the one before it. Bytes
    /// that are not UTF-8 are escaped as in addresses, so that two addresses stay two.
    pub(crate) fn parse(header: &'a [u8]) -> Self {
        let mut lines = header.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
        let first = String::from_utf8_lossy(lines.next().unwrap_or_default());
        let mut parsed: Vec<(&str, Cow<'_, str>)> = Vec::with_capacity(12);
        for line in lines {
            if line.first().is_some_and(u8::is_ascii_whitespace) {
                if let Some((_, value)) = parsed.last_mut() {
                    let more = escaped(line.trim_ascii());
                    *value = Cow::Owned(format!("{value} {more}"));
                }
            } else if let Some(colon) = memchr(b':', line)
                && let Ok(name) = str::from_utf8(line[..colon].trim_ascii())
            {
                parsed.push((name, escaped(line[colon + 1..].trim_ascii())));
            }
        }
        Self { first, lines: parsed }
    }

    /// The status of a response of HTTP, from its first line.
    pub(super) fn status(&self) -> &str {
        self.first.split_ascii_whitespace().nth(1).unwrap_or_default()
    }

    /// The first value of a name, whatever the case of its letters.
    pub(crate) fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut lines = self.lines.iter();
        let (_, value) = lines.find(|(own, _)| own.eq_ignore_ascii_case(name))?;
        Some(Cow::Borrowed(value))
    }

    /// All values of a name, joined with commas; `None` if there is none.
    pub(super) fn all(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut values =
            self.lines.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, v)| &**v);
        let first = values.next()?;
        let joined = |all: String, value: &str| all + ", " + value;
        Some(match values.next() {
            None => Cow::Borrowed(first),
            Some(second) => Cow::Owned(values.fold(joined(first.to_owned(), second), joined)),
        })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|(name, _)| *name)
    }
}

/// The length of a header with the blank line that ends it; the bytes before `from` have no end.
pub(super) fn end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(found) = memchr(b'\n', &bytes[at..]) {
        at += found + 1;
        match &bytes[at..] {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
    None
}

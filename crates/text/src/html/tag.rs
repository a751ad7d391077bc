//! Tags: their names and their attributes, as slices of the source.
//!
//! Attributes are not stored: each iteration over them reads the source.

/// A start tag or an end tag.
#[derive(Debug, Clone)]
pub(crate) struct Tag<'a> {
    /// The name as the source spells it, in any case.
    pub(crate) name: &'a str,
    pub(crate) is_end: bool,
    /// The tag ends with a slash, as `<br/>` does.
    pub(crate) self_closing: bool,
    /// The value of the first attribute `role`.
    pub(crate) role: Option<&'a str>,
    pub(crate) attributes: Attributes<'a>,
}

impl<'a> Tag<'a> {
    /// The tag whose name begins at `name`, and the offset after the tag. `None` if the source ends
    /// within it.
    pub(crate) fn read(html: &'a str, name: usize, is_end: bool) -> Option<(Self, usize)> {
        let bytes = html.as_bytes();
        let length = bytes[name..].iter().position(|byte| ends_name(*byte))?;
        let attributes = Attributes { html, at: name + length, end: None };
        let mut passed = attributes.clone();
        let mut role = None;
        for (name, value) in passed.by_ref() {
            if role.is_none() && is(name, "role") {
                role = Some(value);
            }
        }
        let TagEnd { self_closing, after } = passed.end?;
        let name = &html[name..name + length];
        Some((Self { name, is_end, self_closing, role, attributes }, after))
    }

    /// The value of the first attribute of this name, as the source spells it.
    pub(crate) fn attribute(&self, name: &str) -> Option<&'a str> {
        self.attributes.clone().find_map(|(other, value)| is(other, name).then_some(value))
    }
}

#[derive(Debug, Clone, Copy)]
struct TagEnd {
    self_closing: bool,
    /// The offset after the `>`.
    after: usize,
}

/// The attributes of a tag in order: name and value, both as the source spells them. Duplicates are
/// listed too.
#[derive(Debug, Clone)]
pub(crate) struct Attributes<'a> {
    html: &'a str,
    at: usize,
    /// Known once the last attribute was taken, unless the source ends within the tag.
    end: Option<TagEnd>,
}

impl<'a> Attributes<'a> {
    fn peek(&self) -> Option<u8> {
        self.html.as_bytes().get(self.at).copied()
    }

    /// Skips white space, and returns what follows it.
    fn skip_space(&mut self) -> Option<u8> {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
        self.peek()
    }

    /// Skips to the first byte from `from` on that ends a piece of the tag. Returns the piece.
    fn piece(&mut self, from: usize, ends: impl Fn(u8) -> bool) -> Option<&'a str> {
        let start = self.at;
        let rest = self.html.as_bytes().get(from..)?;
        self.at = from + rest.iter().position(|byte| ends(*byte))?;
        Some(&self.html[start..self.at])
    }

    /// The value after an equals sign.
    fn value(&mut self) -> Option<&'a str> {
        match self.skip_space()? {
            quote @ (b'"' | b'\'') => {
                let start = self.at + 1;
                let length = memchr::memchr(quote, &self.html.as_bytes()[start..])?;
                self.at = start + length + 1;
                Some(&self.html[start..start + length])
            }
            b'>' => Some(""),
            _ => self.piece(self.at, |byte| is_space(byte) || byte == b'>'),
        }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let mut slash = false;
        loop {
            match self.peek()? {
                b'>' => {
                    self.end = Some(TagEnd { self_closing: slash, after: self.at + 1 });
                    return None;
                }
                b'/' => slash = true,
                byte if is_space(byte) => slash = false,
                _ => break,
            }
            self.at += 1;
        }
        // An equals sign may begin a name.
        let name = self.piece(self.at + 1, |byte| ends_name(byte) || byte == b'=')?;
        if self.skip_space()? != b'=' {
            return Some((name, ""));
        }
        self.at += 1;
        Some((name, self.value()?))
    }
}

/// Whether an attribute has this name, in any case.
const fn is(attribute: &str, name: &str) -> bool {
    attribute.len() == name.len() && attribute.eq_ignore_ascii_case(name)
}

const fn ends_name(byte: u8) -> bool {
    is_space(byte) || matches!(byte, b'/' | b'>')
}

/// White space between the parts of a tag. A carriage return counts as the line feed it becomes.
pub(super) const fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ')
}

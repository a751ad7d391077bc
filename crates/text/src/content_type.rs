//! The header `Content-Type` as servers of pages send it: with quotes of either kind, twice, or
//! with a charset that means nothing.
//!
//! Reads it as browsers do ([Fetch], "extract a MIME type"): of several types the last valid one
//! counts, and it keeps the charset of an earlier one of the same type if it has none itself. Where
//! browsers find no type at all, parameters after a comma or a space count too. Pure.
//!
//! [Fetch]: https://fetch.spec.whatwg.org/#concept-header-extract-mime-type

/// The type of a document, and the label of its charset.
///
/// ```
/// use nearprint_text::{ContentType, PageSyntax};
/// let twice = ContentType::parse("text/html, TEXT/HTML; charset='utf-8'").unwrap();
/// assert_eq!((twice.essence(), twice.charset()), ("text/html", Some("utf-8")));
/// assert_eq!(twice.page_syntax(), Some(PageSyntax::Html));
/// assert_eq!(ContentType::parse("nonsense"), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentType {
    essence: String,
    charset: Option<String>,
}

/// How a page or a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageSyntax {
    /// Plain text.
    Text,
    /// HTML.
    Html,
    /// HTML by the rules of XML, in which every element may close itself.
    Xhtml,
}

impl ContentType {
    /// Reads the value of the header; several headers may be joined with commas. `None` if it names
    /// no type.
    pub fn parse(header: &str) -> Option<Self> {
        let mut last: Option<Self> = None;
        for part in unquoted(header, ',') {
            let part = part.trim();
            let end = part.find(|c: char| c == ';' || c.is_ascii_whitespace());
            let (essence, parameters) = part.split_at(end.unwrap_or(part.len()));
            if is_type(essence) {
                let essence = essence.to_ascii_lowercase();
                let before = last.filter(|before| before.essence == essence);
                let charset = charset_in(parameters).or_else(|| before?.charset);
                last = Some(Self { essence, charset });
            } else if let Some(before) = &mut last {
                before.charset = before.charset.take().or_else(|| charset_in(part));
            }
        }
        last
    }

    /// The type and the subtype, in lower case.
    pub fn essence(&self) -> &str {
        &self.essence
    }

    /// The label of the charset, which may be unknown ([`decode_or_guess`] then ignores it).
    ///
    /// [`decode_or_guess`]: crate::charset::decode_or_guess
    pub fn charset(&self) -> Option<&str> {
        self.charset.as_deref()
    }

    /// How a document of this type is read; `None` if it is neither a page nor a text.
    pub fn page_syntax(&self) -> Option<PageSyntax> {
        match self.essence.as_str() {
            "text/html" => Some(PageSyntax::Html),
            "application/xhtml+xml" => Some(PageSyntax::Xhtml),
            "text/plain" | "text/markdown" => Some(PageSyntax::Text),
            _ => None,
        }
    }
}

/// The parts between separators that are not in double quotes.
fn unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.split(move |c| {
        is_quoted ^= c == '"';
        c == separator && !is_quoted
    })
}

/// Whether it is a type and a subtype; a range is none.
fn is_type(essence: &str) -> bool {
    let is_token = |name: &str| {
        let is_in_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        !name.is_empty() && name.chars().all(is_in_token)
    };
    let names = essence.split_once('/');
    essence != "*/*" && names.is_some_and(|(name, sub)| is_token(name) && is_token(sub))
}

/// The first label that is not empty.
fn charset_in(parameters: &str) -> Option<String> {
    unquoted(parameters, ';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let label = value.trim().trim_matches(['"', '\'']).trim();
        let is_charset = name.trim().eq_ignore_ascii_case("charset") && !label.is_empty();
        is_charset.then(|| label.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str) -> Option<(String, Option<String>)> {
        ContentType::parse(header).map(|read| (read.essence, read.charset))
    }

    #[test]
    fn the_charset_comes_in_any_quotes_or_not_at_all() {
        for (header, charset) in [
            ("text/html", None),
            ("Text/HTML;Charset=UTF-8", Some("UTF-8")),
            (" text/html ; charset = utf-8 ", Some("utf-8")),
            ("text/html; charset='utf-8'", Some("utf-8")),
            ("text/html; charset=\"utf-8\"", Some("utf-8")),
            ("text/html; charset=\"utf-8", Some("utf-8")),
            ("text/html; version=\"a;charset=x, b/c\"; charset=utf-8", Some("utf-8")),
            ("text/html; charset=; charset=utf-8", Some("utf-8")),
            ("text/html; charset=utf-8; charset=latin1", Some("utf-8")),
            ("text/html; charset=none", Some("none")),
            ("text/html; charset", None),
            ("text/html;;", None),
            ("text/html charset=utf-8", Some("utf-8")),
            ("text/html,charset=utf-8", Some("utf-8")),
        ] {
            let expected = Some(("text/html".to_owned(), charset.map(str::to_owned)));
            assert_eq!(read(header), expected, "{header}");
        }
    }

    #[test]
    fn of_several_types_the_last_valid_one_counts() {
        for (header, essence, charset) in [
            ("text/html, text/html; charset=a", "text/html", Some("a")),
            ("text/html; charset=a, text/html", "text/html", Some("a")),
            ("text/html; charset=a, text/html; charset=b", "text/html", Some("b")),
            ("text/html; charset=a, text/plain", "text/plain", None),
            ("text/plain; charset=a, text/html, text/plain", "text/plain", None),
            ("text/html; charset=a, */*", "text/html", Some("a")),
            ("text/html, nonsense, /, a/, text/ html", "text/html", None),
            (", text/html,", "text/html", None),
            ("nonsense, text/html", "text/html", None),
        ] {
            let expected = Some((essence.to_owned(), charset.map(str::to_owned)));
            assert_eq!(read(header), expected, "{header}");
        }
        for nothing in ["", ",", ";", "html", "*/*", "charset=utf-8", "text/h\u{e9}"] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn pages_and_texts_are_known_by_their_types() {
        for (header, syntax) in [
            ("TEXT/HTML", Some(PageSyntax::Html)),
            ("application/xhtml+xml; charset=x", Some(PageSyntax::Xhtml)),
            ("text/plain", Some(PageSyntax::Text)),
            ("text/markdown", Some(PageSyntax::Text)),
            ("text/css", None),
            ("application/json", None),
        ] {
            assert_eq!(ContentType::parse(header).unwrap().page_syntax(), syntax, "{header}");
        }
    }
}

//! Which pages are cheap enough for Readability, decided by one pass over their tokens.
//!
//! `html5ever` and `dom_smoothie` take time that grows with the square of some things on a page: an
//! element's attributes, the depth of what it nests, headings times the length of the title, characters
//! that need an escape within one text. [`is_cheap`] adds these up and compares each sum with a multiple
//! of the page's length, so that main text takes linear time on every page that passes. Ordinary pages
//! stay far below every limit.
//!
//! The gates depend on the page alone: one of time would give the same page another fingerprint on a busy
//! day. What only the tree builder knows, the number of nodes, is counted in [`mod@super::tree`].

use crate::text::html::elements::{self, RAW};
use crate::text::html::tag::Tag;
use crate::text::html::tokenizer::{Token, Tokenizer};

/// Elements open at once.
pub(super) const DEPTH_MAX: usize = 256;

/// Elements in all.
const ELEMENTS_MAX: usize = 50_000;

/// Attributes of one element: each is compared with all before it.
const ATTRIBUTES_OF_ELEMENT_MAX: usize = 512;

/// Attributes in all.
const ATTRIBUTES_MAX: usize = 200_000;

/// Each byte of text, times the number of elements it stands in, for each byte of the page: every one
/// of those elements counts its text.
const TEXT_DEPTH_MAX: usize = 64;

/// Each element, times the number of elements it stands in, for each byte of the page: rules look for
/// ancestors.
const ELEMENT_DEPTH_MAX: usize = 4;

/// Headings, times the length of what may be the title, for each byte of the page: each heading is
/// compared with the title.
const TITLE_WORK_MAX: usize = 16;

/// Characters that need an escape, times the bytes of the text they stand in, for each byte of the page:
/// the serialiser searches the rest of the text anew behind each.
const ESCAPE_WORK_MAX: usize = 4_096;

/// Whether the work of Readability on a page is linear in its length.
pub(super) fn is_cheap(page: &str) -> bool {
    let mut sums = Sums::default();
    let mut tokens = Tokenizer::new(page);
    while let Some(token) = tokens.next() {
        match token {
            Token::Text(text) => sums.text(text),
            Token::Characters(first, second) => {
                for character in [Some(first), second].into_iter().flatten() {
                    sums.text(character.encode_utf8(&mut [0; 4]));
                }
            }
            Token::Tag(tag) => {
                sums.tag(&tag);
                let name = tag.name.to_ascii_lowercase();
                if tag.is_end {
                    sums.end(&name);
                } else {
                    if let Some(element) = elements::raw(name.as_bytes()) {
                        tokens.begin_raw(RAW[element].1, tag.name);
                    }
                    sums.start(name);
                }
            }
            Token::Comment | Token::Doctype => {}
        }
        if sums.exceed_what_is_absolute() {
            return false;
        }
    }
    sums.end_of_text();
    sums.end_of_title();
    !sums.exceed_multiples_of(page.len())
}

/// What is added up.
#[derive(Debug, Default)]
struct Sums {
    /// The names of the elements that are open. Never fewer than a browser's rules make of the page: an
    /// end tag closes only the innermost element, or what stands around elements that need no end tag.
    open: Vec<String>,
    elements: usize,
    attributes: usize,
    /// The most attributes of one element.
    attributes_of_element: usize,
    text_bytes: usize,
    text_depth: usize,
    element_depth: usize,
    headings: usize,
    /// Where the text of the title or of the heading begins that is being read.
    title_from: Option<usize>,
    /// The bytes of the longest of them, and of the attributes that may be the title.
    title_bytes: usize,
    /// The bytes of the text since the last tag, and its characters that need an escape.
    run: (usize, usize),
    escape_work: usize,
}

impl Sums {
    fn text(&mut self, text: &str) {
        self.text_bytes += text.len();
        self.text_depth = self.text_depth.saturating_add(text.len() * self.open.len());
        self.run.0 += text.len();
        self.run.1 += escapes(text);
    }

    fn tag(&mut self, tag: &Tag<'_>) {
        self.end_of_text();
        let mut count = 0;
        for (_, value) in tag.attributes.clone() {
            count += 1;
            let work = value.len().saturating_mul(escapes(value));
            self.escape_work = self.escape_work.saturating_add(work);
            if tag.name.eq_ignore_ascii_case("meta") {
                self.title_bytes = self.title_bytes.max(value.len());
            }
        }
        self.attributes += count;
        self.attributes_of_element = self.attributes_of_element.max(count);
    }

    fn start(&mut self, name: String) {
        let is_heading = matches!(name.as_str(), "h1" | "h2");
        self.headings += usize::from(is_heading);
        if (is_heading || name == "title") && self.title_from.is_none() {
            self.title_from = Some(self.text_bytes);
        }
        if is_void(&name) {
            return;
        }
        if ends_by_itself(&name) && self.open.last().is_some_and(|last| *last == name) {
            self.open.pop();
        }
        self.open.push(name);
        self.elements += 1;
        self.element_depth = self.element_depth.saturating_add(self.open.len());
    }

    fn end(&mut self, name: &str) {
        if matches!(name, "h1" | "h2" | "title") {
            self.end_of_title();
        }
        let open = &mut self.open;
        let inner = open.iter().rev().take_while(|open| *open != name && ends_by_itself(open));
        let kept = open.len() - inner.count();
        if kept > 0 && open[kept - 1] == name {
            open.truncate(kept - 1);
        }
    }

    fn end_of_text(&mut self) {
        let (bytes, escapes) = std::mem::take(&mut self.run);
        self.escape_work = self.escape_work.saturating_add(bytes.saturating_mul(escapes));
    }

    fn end_of_title(&mut self) {
        if let Some(from) = self.title_from.take() {
            self.title_bytes = self.title_bytes.max(self.text_bytes - from);
        }
    }

    fn exceed_what_is_absolute(&self) -> bool {
        self.open.len() > DEPTH_MAX
            || self.elements > ELEMENTS_MAX
            || self.attributes > ATTRIBUTES_MAX
            || self.attributes_of_element > ATTRIBUTES_OF_ELEMENT_MAX
    }

    fn exceed_multiples_of(&self, page_bytes: usize) -> bool {
        let title_work = self.headings.saturating_mul(self.title_bytes);
        [
            (self.text_depth, TEXT_DEPTH_MAX),
            (self.element_depth, ELEMENT_DEPTH_MAX),
            (title_work, TITLE_WORK_MAX),
            (self.escape_work, ESCAPE_WORK_MAX),
        ]
        .into_iter()
        .any(|(work, max)| work > page_bytes.saturating_mul(max))
    }
}

/// Where the serialiser stops: at ampersands, and at each byte that may begin a no-break space.
fn escapes(text: &str) -> usize {
    memchr::memchr2_iter(b'&', 0xc2, text.as_bytes()).count()
}

/// Elements that have no content and no end tag.
fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area"
            | "base"
            | "br"
            | "col"
            | "embed"
            | "hr"
            | "img"
            | "input"
            | "link"
            | "meta"
            | "param"
            | "source"
            | "track"
            | "wbr"
    )
}

/// Elements whose end tag may be left out.
fn ends_by_itself(name: &str) -> bool {
    matches!(
        name,
        "li" | "p"
            | "dt"
            | "dd"
            | "tr"
            | "td"
            | "th"
            | "thead"
            | "tbody"
            | "tfoot"
            | "option"
            | "optgroup"
            | "colgroup"
            | "rp"
            | "rt"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page that is large enough for every multiple of its length to matter.
    fn filled(page: &str) -> String {
        format!("{page}<p>{}</p>", "word ".repeat(2_000))
    }

    fn depth_of(page: &str) -> usize {
        let mut deepest = 0;
        let mut sums = Sums::default();
        let mut tokens = Tokenizer::new(page);
        while let Some(token) = tokens.next() {
            let Token::Tag(tag) = token else { continue };
            let name = tag.name.to_ascii_lowercase();
            if tag.is_end {
                sums.end(&name);
            } else {
                if let Some(element) = elements::raw(name.as_bytes()) {
                    tokens.begin_raw(RAW[element].1, tag.name);
                }
                sums.start(name);
            }
            deepest = deepest.max(sums.open.len());
        }
        deepest
    }

    #[test]
    fn an_ordinary_page_is_cheap() {
        let paragraph = "<p class=\"a b\" id='c'>Some &amp; words, <a href=\"/x?a=1&amp;b=2\">a link</a>, \
                         caf\u{e9}\u{a0}\u{ab}noir\u{bb}.</p>";
        let page = format!(
            "<title>A title of some length</title><meta name=d content=\"{}\"><h1>Head</h1>{}<div>{}{}</div>",
            "described ".repeat(30),
            paragraph.repeat(200),
            "<div><ul>".repeat(20),
            "<li>item".repeat(500),
        );
        assert!(is_cheap(&page));
    }

    #[test]
    fn what_costs_the_square_of_itself_is_not() {
        let attributes = |count: usize| {
            let list = (0..count).fold(String::new(), |list, number| format!("{list}a{number}=b "));
            format!("<a {list}>")
        };
        let heads = "<h2>a</h2>".repeat(500);
        for (cheap, costly) in [
            (attributes(ATTRIBUTES_OF_ELEMENT_MAX), attributes(ATTRIBUTES_OF_ELEMENT_MAX + 1)),
            ("<p>a</p>".repeat(ELEMENTS_MAX - 1), "<p>a</p>".repeat(ELEMENTS_MAX)),
            ("<a b c d e></a>".repeat(200), "<a b c d e></a>".repeat(ATTRIBUTES_MAX / 4 + 1)),
            (
                "<div>".repeat(20) + &"text ".repeat(9_000),
                "<div>".repeat(100) + &"text ".repeat(9_000),
            ),
            ("<i>".repeat(40), "<i>".repeat(250) + &"<b></b>".repeat(3_000)),
            (
                format!("<title>title</title>{heads}"),
                format!("<title>{}</title>{heads}", "t".repeat(20_000)),
            ),
            ("&amp; ".repeat(1_000), "&amp;".repeat(30_000)),
            (format!("<i a='{}'>", "& ".repeat(1_000)), format!("<i a='{}'>", "&".repeat(60_000))),
        ] {
            assert!(is_cheap(&filled(&cheap)), "{}", &cheap[..40]);
            assert!(!is_cheap(&filled(&costly)), "{}", &costly[..40]);
        }
    }

    #[test]
    fn depth_is_that_of_open_elements() {
        let nested = |depth| "<div>".repeat(depth) + "x" + &"</div>".repeat(depth);
        assert_eq!(depth_of(&nested(7).repeat(100)), 7);
        assert!(
            is_cheap(&filled(&nested(DEPTH_MAX))) && !is_cheap(&filled(&nested(DEPTH_MAX + 1)))
        );
    }

    #[test]
    fn elements_without_end_tags_do_not_add_up() {
        let page = "<ul><li>a<li>b<li>c</ul><p>a<p>b<br><img><table><tr><td>1<tr><td>2</table>";
        assert!(depth_of(&page.repeat(100)) <= 7);
    }

    #[test]
    fn an_end_tag_that_a_browser_may_ignore_closes_nothing() {
        // In a cell, the end tag of what stands around the table is ignored.
        let page = "<div><table><tr><td></div></td></tr></table>";
        assert!(depth_of(&page.repeat(100)) > 50);
        assert!(depth_of(&"<b><i></b></i>".repeat(100)) > 50);
    }

    #[test]
    fn tags_in_scripts_and_comments_are_none() {
        let page = "<script>'<div><div><div>'</script><!-- <div><div> -->".repeat(100);
        assert!(depth_of(&page) <= 100);
        assert_eq!(depth_of("<script>'<div><div><div>'</script><!-- <div><div> -->"), 1);
    }
}

//! The visible text of a page of HTML, without the elements that are never its content.
//!
//! A tokenizer by the WHATWG standard and no tree: the cost of a browser's tree grows with the
//! square of the nesting depth, and visible text needs only the tags in order. Character references
//! are decoded; comments and attributes are not text; block-level elements separate words and
//! inline ones do not; navigation and similar elements are dropped ([`elements`] lists them).
//!
//! An unclosed element never hides the rest of its page. A dropped element is cut out only when its
//! end tag is read; an unclosed `<script>` or comment is read as if its opening were missing; and
//! the text of a page with nothing but boilerplate is its boilerplate.
//!
//! Time is linear in the bytes at any depth and for any markup: one pass, and at most one search
//! for a missing end tag for each of the eight elements of raw text. Nothing recurses. Memory: the
//! text, and 24 bytes for each element that is dropped. Tested against html5ever's tokenizer, by
//! pages of each shape, and by oversized ones.

pub(crate) mod elements;
pub(crate) mod page;
pub(crate) mod reference;
mod scanner;
pub(crate) mod tag;
pub(crate) mod tokenizer;

use std::borrow::Cow;

/// The visible text of a page.
///
/// ```
/// use nearprint::text::text_of_html;
/// let text = text_of_html("<nav>Home</nav><p>Tea &amp; <b>b</b>read<p>Now");
/// assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["Tea", "&", "bread", "Now"]);
/// ```
pub fn text_of_html(html: &str) -> String {
    scanner::scan(&without_unclosed_comment(html)).visible_text()
}

/// Removes the opening of an unclosed comment, which would hide the rest of the page.
fn without_unclosed_comment(html: &str) -> Cow<'_, str> {
    const OPEN: &str = "<!--";
    const CLOSE: &str = "-->";
    if !html.contains(OPEN) {
        return Cow::Borrowed(html);
    }
    let (closed, tail) = html.split_at(html.rfind(CLOSE).map_or(0, |at| at + CLOSE.len()));
    if tail.contains(OPEN) {
        Cow::Owned(closed.to_owned() + &tail.replace(OPEN, " "))
    } else {
        Cow::Borrowed(html)
    }
}

#[cfg(test)]
mod tests;

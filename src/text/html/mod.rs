//! The visible text of a page of HTML, without the elements that are never its content.
//!
//! A WHATWG tokenizer (`html5gum`) and no tree: browsers' trees cost time quadratic in the nesting
//! depth, and what is asked here needs only the tags in order. Entities are decoded; comments and
//! attributes are not text; block-level elements separate words and inline ones do not; navigation
//! and its like is dropped (the lists: `elements.rs`). Attributes are not looked at.
//!
//! A page is never lost to an element that nobody closed. What would be dropped is cut out only
//! once its end tag has come; an unclosed `<script>` or comment is read as if its opening were not
//! there; and a page with nothing but boilerplate gives its boilerplate.
//!
//! Time is linear in the bytes at any depth: one pass, and at most one more for each of the seven
//! elements of raw text that stays open. Memory: the text, and 16 bytes an open element that may
//! be dropped. Tested by pages of each shape, and by oversized nested ones.

mod elements;
mod page;
mod scanner;

use std::borrow::Cow;

use page::Part;

/// The visible text of a page.
///
/// ```
/// use nearprint::text::text_of_html;
/// let text = text_of_html("<nav>Home</nav><p>Tea &amp; <b>b</b>read<p>Now");
/// assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["Tea", "&", "bread", "Now"]);
/// ```
pub fn text_of(html: &str) -> String {
    let page = scanner::scan(&without_unclosed_comment(html));
    let content = page.text(Part::Content);
    if content.contains(char::is_alphanumeric) { content } else { page.text(Part::WithBoilerplate) }
}

/// A comment that nothing closes would hide the rest of the page; its opening goes.
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

//! The text of a page of HTML: what a reader sees of it, or its content alone.
//!
//! A tokenizer by the WHATWG standard and no tree: the cost of a browser's tree grows with the
//! square of the nesting depth, and the text needs only the tags in order. Character references
//! are decoded; comments and attributes are not text, except what stands for the images of a page
//! of little else; block-level elements separate words and inline ones do not; navigation and
//! similar elements are dropped ([`elements`] lists them). `docs/pages.md` defines it all.
//!
//! An unclosed element never hides the rest of its page. A dropped element is cut out only when its
//! end tag is read; an unclosed `<script>` or comment is read as if its opening were missing; and
//! the text of a page with little but boilerplate is its boilerplate.
//!
//! Time is linear in the bytes at any depth and for any markup, but for sorting the ranges that are
//! dropped: one pass, and at most one search for a missing end tag for each of the eight elements
//! of raw text. Nothing recurses. Memory: the text, and at most 64 bytes for each element that is
//! dropped, each article and each image. Tested against html5ever's tokenizer, by a plain form of
//! the content, by pages of each shape, and by oversized ones.

pub(crate) mod content;
pub(crate) mod elements;
mod ranges;
pub(crate) mod reference;
mod regions;
mod scanner;
pub(crate) mod tag;
pub(crate) mod tokenizer;

use std::borrow::Cow;

/// The content of a page: the text of its main content if it marks that and it is not nearly empty,
/// or else all that a reader sees but what belongs to the site.
///
/// ```
/// use nearprint_text::content_of_html;
/// let text = content_of_html("<div role=banner>Shop</div><main><p>Tea</main><p>Imprint");
/// assert_eq!(text.trim(), "Tea");
/// ```
pub fn content_of_html(html: &str) -> String {
    scanner::scan(&without_unclosed_comment(html)).content()
}

/// The visible text of a page, without navigation and similar elements.
///
/// ```
/// use nearprint_text::text_of_html;
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

/// A page that came as XHTML (`application/xhtml+xml`). One that does not declare this itself gets
/// an XML declaration, so that it is read by the same rules wherever it is passed on to.
pub fn declared_as_xml(page: Cow<'_, str>) -> Cow<'_, str> {
    const DECLARATION: &str = "<?xml version=\"1.0\"?>";
    if tokenizer::begins_with_xml_declaration(&page) {
        page
    } else {
        Cow::Owned(DECLARATION.to_owned() + &page)
    }
}

#[cfg(test)]
mod tests;

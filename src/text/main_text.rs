//! The main text of a page: its article, without what surrounds it on every page of a site.
//!
//! Navigation, related links and footers drown a short page: two pages of a site are then near
//! whatever they say. Mozilla's Readability, as `dom_smoothie` has it, scores the elements of a page
//! by their text, commas and links, and cuts out the best. It builds a tree, whose cost grows
//! with the square of the nesting depth. So a page goes to it only within [`DEPTH_MAX`],
//! [`ELEMENTS_MAX`] and [`BYTES_MAX`]: gates that depend on the page alone, because one of time would give the same page
//! a different fingerprint on a busy day. Beyond them, and where no article can be told, all visible
//! text counts.
//!
//! Measured in `docs/quality.md`. About 25 us a KiB, thirty times what visible text takes.

use dom_smoothie::{Config, Readability};
use html5gum::emitters::default::DefaultEmitter;
use html5gum::{Token, Tokenizer};

use crate::text::html;

/// A page of more bytes has no main text.
const BYTES_MAX: usize = 2 * 1024 * 1024;

/// Nor one with more elements open at once.
const DEPTH_MAX: usize = 256;

/// Nor one with more elements in all.
const ELEMENTS_MAX: usize = 50_000;

/// An article of fewer letters and numbers is not believed: on pages that are lists of links it is
/// the menu, the same on all of them.
const ARTICLE_LETTERS_MIN: usize = 400;

/// The visible text of the article of a page; `None` where there is none, or beyond the gates.
pub(crate) fn main_text_of_html(page: &str) -> Option<String> {
    if page.len() > BYTES_MAX || needs_more_than(page, DEPTH_MAX, ELEMENTS_MAX) {
        return None;
    }
    let config = Config { disable_json_ld: true, ..Config::default() };
    let article = Readability::new(page, None, Some(config)).ok()?.parse().ok()?;
    let text = html::text_of(&article.content);
    let letters = text.chars().filter(|c| c.is_alphanumeric()).take(ARTICLE_LETTERS_MIN).count();
    (letters == ARTICLE_LETTERS_MIN).then_some(text)
}

/// Whether a tree of the page may have more elements open at once, or more in all.
///
/// Never less than what a browser's rules make of it: an end tag closes only the innermost element,
/// or what stands around elements that need no end tag.
fn needs_more_than(page: &str, depth: usize, elements: usize) -> bool {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut open: Vec<Vec<u8>> = Vec::new();
    let mut begun = 0;
    for token in Tokenizer::new_with_emitter(page, emitter) {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) if !is_void(&tag.name) => {
                let name: &[u8] = &tag.name;
                if ends_by_itself(name) && open.last().is_some_and(|last| last == name) {
                    open.pop();
                }
                open.push(name.to_vec());
                begun += 1;
                if open.len() > depth || begun > elements {
                    return true;
                }
            }
            Token::EndTag(tag) => {
                let name: &[u8] = &tag.name;
                let inner =
                    open.iter().rev().take_while(|open| *open != name && ends_by_itself(open));
                let kept = open.len() - inner.count();
                if kept > 0 && open[kept - 1] == name {
                    open.truncate(kept - 1);
                }
            }
            Token::StartTag(_)
            | Token::String(_)
            | Token::Comment(_)
            | Token::Doctype(_)
            | Token::Error(_) => {}
        }
    }
    false
}

/// Elements that have no content and no end tag.
const fn is_void(name: &[u8]) -> bool {
    matches!(
        name,
        b"area"
            | b"base"
            | b"br"
            | b"col"
            | b"embed"
            | b"hr"
            | b"img"
            | b"input"
            | b"link"
            | b"meta"
            | b"param"
            | b"source"
            | b"track"
            | b"wbr"
    )
}

/// Elements whose end tag may be left out.
const fn ends_by_itself(name: &[u8]) -> bool {
    matches!(
        name,
        b"li"
            | b"p"
            | b"dt"
            | b"dd"
            | b"tr"
            | b"td"
            | b"th"
            | b"thead"
            | b"tbody"
            | b"tfoot"
            | b"option"
            | b"optgroup"
            | b"colgroup"
            | b"rp"
            | b"rt"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_deeper_than(page: &str, depth: usize) -> bool {
        needs_more_than(page, depth, usize::MAX)
    }

    #[test]
    fn elements_are_counted_in_all() {
        assert!(!needs_more_than(&"<p>a</p><br>".repeat(50), 256, 50));
        assert!(needs_more_than(&"<p>a</p><br>".repeat(51), 256, 50));
    }

    #[test]
    fn depth_is_that_of_open_elements() {
        let nested = |depth| "<div>".repeat(depth) + "x" + &"</div>".repeat(depth);
        assert!(!is_deeper_than(&nested(7), 7));
        assert!(is_deeper_than(&nested(8), 7));
        assert!(!is_deeper_than(&nested(7).repeat(100), 7));
    }

    #[test]
    fn elements_without_end_tags_do_not_add_up() {
        let page = "<ul><li>a<li>b<li>c</ul><p>a<p>b<br><img><table><tr><td>1<tr><td>2</table>";
        assert!(!is_deeper_than(&page.repeat(100), 7));
    }

    #[test]
    fn an_end_tag_that_a_browser_may_ignore_closes_nothing() {
        // In a cell, the end tag of what stands around the table is ignored.
        let page = "<div><table><tr><td></div></td></tr></table>";
        assert!(is_deeper_than(&page.repeat(100), 50));
        assert!(is_deeper_than(&"<b><i></b></i>".repeat(100), 50));
    }

    #[test]
    fn tags_in_scripts_and_comments_are_none() {
        let page = "<script>'<div><div><div>'</script><!-- <div><div> -->".repeat(100);
        assert!(!is_deeper_than(&page, 3));
    }
}

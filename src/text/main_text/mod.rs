//! The main text of a page: its article, without what surrounds it on every page of a site.
//!
//! Navigation, related links and footers drown a short page: two pages of a site are then near
//! whatever they say. Mozilla's Readability, as `dom_smoothie` has it, scores the elements of a page
//! by their text, commas and links, and cuts out the best. Some pages would take it minutes; those, and
//! pages without an article, count by all their visible text ([`gates`], [`tree`]).
//!
//! Measured in `docs/quality.md`. About 25 us a KiB, thirty times what visible text takes.

mod article;
mod gates;
mod tree;

use dom_smoothie::{Config, Readability};

/// A page of more bytes has no main text.
const BYTES_MAX: usize = 2 * 1024 * 1024;

/// An article of fewer letters and numbers is not believed: on pages that are lists of links it is
/// the menu, the same on all of them.
const ARTICLE_LETTERS_MIN: usize = 400;

/// The visible text of the article of a page; `None` where there is none, or the page is beyond the
/// gates.
pub(crate) fn main_text_of_html(page: &str) -> Option<String> {
    if page.len() > BYTES_MAX || !gates::is_cheap(page) {
        return None;
    }
    let config = Config { disable_json_ld: true, ..Config::default() };
    let mut readability = Readability::with_document(tree::of(page)?, None, Some(config)).ok()?;
    readability.parse().ok()?;
    let text = article::text_in(&readability.doc)?;
    let letters = text.chars().filter(|c| c.is_alphanumeric()).take(ARTICLE_LETTERS_MIN).count();
    (letters == ARTICLE_LETTERS_MIN).then_some(text)
}

#[cfg(test)]
mod tests {
    use dom_query::Document;

    use super::*;
    use crate::text::html;

    fn article_page() -> String {
        let paragraph = "<p>The harbour was quiet in the morning &amp; the boats lay still, while the \
            keeper of the light, an old man, counted the nets on the quay, one by one, and wrote \
            their number into a book<sup>2</sup> that nobody has read since.<br>So it goes.</p>";
        format!(
            "<!doctype html><html><head><title>Harbour</title></head><body><nav><ul><li><a href=/>Home</a>\
             <li><a href=/b>News</a></ul></nav><div id=content class=article><h1>The harbour</h1>{}\
             <script>var a = '<p>no</p>';</script><ul><li>one<li>two</ul><button>Share</button>\
             <p>co&shy;operation</p></div><footer>Imprint</footer></body></html>",
            paragraph.repeat(6)
        )
    }

    /// What was done before: the article as HTML, and its visible text.
    #[test]
    fn the_text_of_the_tree_is_that_of_its_html() {
        let page = article_page();
        let config = Config { disable_json_ld: true, ..Config::default() };
        let article = Readability::new(page.as_str(), None, Some(config)).unwrap().parse().unwrap();
        let text = main_text_of_html(&page).unwrap();
        assert_eq!(text.trim(), html::text_of(&article.content).trim());
        assert!(text.contains("harbour was quiet") && text.contains("cooperation"), "{text}");
        assert!(!text.contains("Imprint") && !text.contains("Share"), "{text}");
    }

    #[test]
    fn a_page_beyond_a_gate_has_no_main_text() {
        let page = article_page();
        assert!(main_text_of_html(&page).is_some());
        let attributes = (0..1_000).fold(String::new(), |list, number| format!("{list} a{number}"));
        assert_eq!(main_text_of_html(&page.replace("<h1>", &format!("<h1{attributes}>"))), None);
        assert_eq!(main_text_of_html(&(page + &" ".repeat(BYTES_MAX))), None);
    }

    /// Each paragraph makes the formatting elements anew that the first one left open.
    #[test]
    fn a_page_that_makes_millions_of_nodes_is_given_up() {
        let left_open =
            (0..200).fold(String::new(), |tags, number| format!("{tags}<b a={number}>"));
        let page = format!("<p>{left_open}</p>{}", "<p>x".repeat(20_000));
        assert!(tree::of(&page).is_none());
        assert!(tree::of(&article_page()).is_some());
    }

    #[test]
    fn a_tree_is_that_of_the_whole_page_however_it_is_fed() {
        let page = article_page().repeat(3);
        let html = |document: Document| document.html().to_string();
        assert_eq!(html(tree::of(&page).unwrap()), html(Document::from(page.as_str())));
    }
}

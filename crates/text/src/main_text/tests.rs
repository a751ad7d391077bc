//! Main text against the longer way through HTML, the tree against that of html5ever, and pages
//! beyond each limit.

use dom_query::Document;
use dom_smoothie::{Config, Readability};
use proptest::prelude::*;

use super::gates::{self, DEPTH_MAX};
use super::tree::{self, ATTRIBUTES_MAX, ATTRIBUTES_OF_ELEMENT_MAX, NODES_MAX};
use super::{BYTES_MAX, main_text_of_html};
use crate::html::text_of_html;

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

/// A page that is large enough for every multiple of its length to matter.
fn filled(page: &str) -> String {
    format!("{page}<p>{}</p>", "word ".repeat(2_000))
}

fn is_cheap(page: &str) -> bool {
    tree::of(page).is_some_and(|tree| gates::is_cheap(&tree, page.len()))
}

/// The longer way: the article as HTML, and its visible text.
#[test]
fn the_text_of_the_tree_is_that_of_its_html() {
    let page = article_page();
    let config = Config { disable_json_ld: true, ..Config::default() };
    let article = Readability::new(page.as_str(), None, Some(config)).unwrap().parse().unwrap();
    let text = main_text_of_html(&page).unwrap();
    assert_eq!(text.trim(), text_of_html(&article.content).trim());
    assert!(text.contains("harbour was quiet") && text.contains("cooperation"), "{text}");
    assert!(!text.contains("Imprint") && !text.contains("Share"), "{text}");
}

#[test]
fn a_page_beyond_a_limit_has_no_main_text() {
    let page = article_page();
    assert!(main_text_of_html(&page).is_some());
    let attributes = (0..1_000).fold(String::new(), |list, number| format!("{list} a{number}"));
    assert_eq!(main_text_of_html(&page.replace("<h1>", &format!("<h1{attributes}>"))), None);
    assert_eq!(main_text_of_html(&(page + &" ".repeat(BYTES_MAX))), None);
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
fn what_costs_the_square_of_itself_is_not_cheap() {
    let attributes = |count: usize| {
        let list = (0..count).fold(String::new(), |list, number| format!("{list}a{number}=b "));
        format!("<a {list}>")
    };
    let bodies = |count: usize| {
        (0..count).fold(String::new(), |page, number| format!("{page}<body a{number}=b>"))
    };
    let heads = "<h2>a</h2>".repeat(500);
    for (cheap, costly) in [
        (attributes(ATTRIBUTES_OF_ELEMENT_MAX), attributes(ATTRIBUTES_OF_ELEMENT_MAX + 1)),
        (bodies(ATTRIBUTES_OF_ELEMENT_MAX), bodies(ATTRIBUTES_OF_ELEMENT_MAX + 1)),
        ("<p>a</p>".repeat(49_990), "<p>a</p>".repeat(50_000)),
        ("<a b c d e></a>".repeat(200), "<a b c d e></a>".repeat(ATTRIBUTES_MAX / 4 + 1)),
        ("<div>".repeat(20) + &"text ".repeat(9_000), "<div>".repeat(100) + &"text ".repeat(9_000)),
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
fn depth_is_that_of_the_tree() {
    let nested = |depth: usize, name: &str| {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        filled(&format!("{}x{}", open.repeat(depth), close.repeat(depth)))
    };
    // `html` and `body` count as well.
    assert!(is_cheap(&nested(DEPTH_MAX - 2, "div")));
    assert!(!is_cheap(&nested(DEPTH_MAX - 1, "div")));
    // Elements that nobody need close.
    assert!(is_cheap(&filled(&"<ul><li>a<li>b</ul><table><tr><td>1<tr><td>2</table>".repeat(300))));
    // Within SVG, a title is not raw text.
    assert!(!is_cheap(&filled(&"<svg><title>".repeat(300))));
    assert!(!is_cheap(&filled(&"<svg><title><a>".repeat(40_000))));
    // In a cell, the end tag of what stands around the table is ignored.
    assert!(!is_cheap(&filled(&"<div><table><tr><td></div></td></tr></table>".repeat(400))));
}

/// Each paragraph opens again the formatting elements that the first one left open.
#[test]
fn a_page_of_millions_of_nodes_has_no_tree() {
    let left_open = (0..200).fold(String::new(), |tags, number| format!("{tags}<b a={number}>"));
    assert!(tree::of(&format!("<p>{left_open}</p>{}", "<p>x".repeat(20_000))).is_none());
    assert!(tree::of(&"<br>x".repeat(NODES_MAX)).is_none());
    assert!(tree::of(&article_page()).is_some());
}

/// Depth is limited while the tree is built: html5ever looks through all open elements.
#[test]
fn building_stops_early_on_a_page_that_is_too_deep() {
    for opened in ["<div>", "<svg><title>", "<template>", "<b>", "<table><tr><td>", "<math><mi><a>"]
    {
        assert!(tree::of(&opened.repeat(1_000)).is_none(), "{opened}");
    }
}

/// Comments are kept without their content, so the pieces have none.
const PIECES: &[&str] = &[
    "<p>",
    "</p>",
    "<div class='a b'>",
    "</div>",
    "<a href=\"/x?a=1&copy=2&amp;b\">",
    "</a>",
    "<b>",
    "</b>",
    "<i id=x ID=y>",
    "</i>",
    "<table>",
    "<tr>",
    "<td>",
    "</table>",
    "<ul>",
    "<li>",
    "</ul>",
    "<svg>",
    "<title>",
    "</title>",
    "</svg>",
    "<math>",
    "<mi>",
    "</math>",
    "<foreignObject>",
    "<style>",
    "</style>",
    "<script>",
    "</script>",
    "<!---->",
    "<textarea>",
    "</textarea>",
    "<select>",
    "<option>",
    "</select>",
    "<template>",
    "</template>",
    "<noscript>",
    "</noscript>",
    "<body c=d>",
    "<html lang=en>",
    "<head>",
    "</head>",
    "<br/>",
    "<svg/>",
    "<h1>",
    "</h1>",
    "<plaintext>",
    "<pre>\n",
    "</pre>",
    "<form>",
    "</form>",
    "<button>",
    "</button>",
    "<frameset>",
    "&amp;",
    "&notit;",
    "&#0;",
    "text ",
    "\r\n",
    "\r",
    "\0",
    "\u{a0}",
    "<!doctype html>",
    "<!DOCTYPE html PUBLIC \"-//W3C//DTD HTML 3.2//EN\">",
    "<a b='\r\n\0&lt'>",
    "\u{8336}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_tree_is_that_of_html5ever(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..24),
    ) {
        let page = pieces.concat();
        let html = |document: Document| document.html().to_string();
        prop_assert_eq!(html(tree::of(&page).unwrap()), html(Document::from(page.as_str())), "{:?}", page);
    }
}

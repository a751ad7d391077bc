//! The visible text of pages, shape by shape; and the tokens of generated markup (`oracle`).

mod content;
mod oracle;

use std::fmt::Write as _;

use proptest::prelude::*;

use super::text_of_html;

fn words(html: &str) -> String {
    text_of_html(html).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn block_elements_separate_words_and_inline_ones_do_not() {
    assert_eq!(words("<p>a</p><p>b</p>"), "a b");
    assert_eq!(words("<b>a</b>b"), "ab");
    assert_eq!(words("<td>a<td>b<br>c<hr>d<img alt=x>e"), "a b c d e");
    assert_eq!(words("H<sub>2</sub>O super<wbr>man"), "H2O superman");
    assert_eq!(words("<my-card>a</my-card>b"), "a b");
}

#[test]
fn entities_are_decoded_in_text() {
    assert_eq!(
        words("caf&eacute; &lt;b&gt; &#x8336;&#33590; &AMP &notit; R&D &#0;"),
        "caf\u{e9} <b> \u{8336}\u{8336} & \u{ac}it; R&D \u{fffd}"
    );
    assert_eq!(words("co&shy;op\u{ad}erate&nbsp;now"), "cooperate now");
}

#[test]
fn attributes_comments_and_markup_declarations_are_not_text() {
    let html = "<!DOCTYPE html><?xml version='1'?><a title='x > y' href=\"z\">a</a>\
        <!-- <p>hidden</p> --><![CDATA[c]]>b<!-->c<!--- -->";
    assert_eq!(words(html), "abc");
}

#[test]
fn hidden_elements_are_dropped() {
    for name in [
        "script", "style", "template", "svg", "iframe", "object", "canvas", "audio", "video",
        "datalist", "noembed",
    ] {
        let html = format!("a <{name} x='1'>hidden</{name} > b");
        assert_eq!(words(&html), "a b", "{name}");
    }
    let ruby = "<ruby>\u{6f22}<rp>(</rp><rt>kan</rt><rp>)</rp>\u{5b57}<rt>ji</rt></ruby>";
    assert_eq!(words(ruby), "\u{6f22}\u{5b57}");
}

#[test]
fn boilerplate_elements_are_dropped_whatever_is_nested_in_them() {
    for name in
        ["nav", "aside", "footer", "dialog", "select", "button", "textarea", "title", "noscript"]
    {
        let html = format!("a<{name}>x <div>y</div></{name}>b");
        assert_eq!(words(&html), "a b", "{name}");
    }
    let nested = "a<nav>x<nav>y</nav>z<aside>u</nav>v</aside>b";
    assert_eq!(words(nested), "a b");
    assert_eq!(words("<header><h1>a</h1></header><form>b</form>"), "a b");
}

#[test]
fn raw_text_is_not_markup_and_ends_only_with_its_own_end_tag() {
    assert_eq!(words("<script>if (a</b>1) '<p>x'</script>y"), "y");
    assert_eq!(words("<style>p > a { content: '</p>' }</STYLE\n>y"), "y");
    assert_eq!(words("<xmp><b>a</b></xmp>"), "<b>a</b>");
    assert_eq!(words("<SCRIPT/>x</SCRIPT>y <svg>x<svg/>x</svg>z"), "y z");
}

#[test]
fn an_element_never_closed_takes_nothing_with_it() {
    assert_eq!(words("<nav>menu<p>text"), "menu text");
    assert_eq!(words("<nav>menu<main>text</main></nav>end"), "menu text end");
    assert_eq!(words("<svg><p>text"), "text");
    assert_eq!(words("a</nav></p>b</script>c</div>d"), "a bc d");
}

#[test]
fn raw_text_never_closed_is_read_as_markup() {
    assert_eq!(words("a <script>b<p>c &amp; d"), "a b c & d");
    assert_eq!(
        words("\u{e9}\r\n<title>t\u{e9}<b>u</b><style>v<script>w</script> &eacute;<p>x"),
        "\u{e9} t\u{e9}uv \u{e9} x"
    );
    assert_eq!(words("a<!-- b<p>c<!-- d"), "a b c d");
    assert_eq!(words("a<script><!-- <script> </script>b --><p>c"), "a c");
}

#[test]
fn a_page_of_nothing_but_boilerplate_gives_its_boilerplate() {
    let html = "<title>Shop</title><script>1</script><nav>Home</nav><noscript>No</noscript>";
    assert_eq!(words(html), "Shop Home No");
    assert_eq!(words("<script>1</script><p>&nbsp;</p>"), "");
}

/// Each of these takes minutes where work grows with the square of the depth.
#[test]
fn half_a_megabyte_of_any_nesting_is_read_to_its_end() {
    const BYTES: usize = 512 * 1024;
    let deep = |open: &str| open.repeat(BYTES / open.len());
    for open in [
        "<div>",
        "<ul><li>",
        "<nav>",
        "<b><p>",
        "<a href='",
        "<svg><title>",
        "<script>",
        "<title>",
        "<textarea><xmp><style>",
        "<!--",
        "<!-",
        "</",
        "<",
        "&",
        "&notin",
        "&#x1",
        "</div>",
        "<nav></aside>",
        "\u{e9}<i>",
    ] {
        let html = format!("<p>first</p>{}", deep(open));
        assert!(text_of_html(&html).starts_with("first\n"), "{open}");
    }
    let mut closed = deep("<nav>");
    let depth = closed.len() / "<nav>".len();
    write!(closed, "x{}last", "</aside></nav>".repeat(depth)).unwrap();
    assert_eq!(words(&closed), "last");
}

/// A tokenizer whose states call each other needs stack for each attribute or reference.
#[test]
fn a_page_of_any_shape_is_read_with_a_small_stack() {
    const STACK_BYTES: usize = 128 * 1024;
    const BYTES: usize = 1024 * 1024;
    let shapes = [
        ("<a ", "a=\"\" "),
        ("<a ", "a='' "),
        ("<a ", "a=b "),
        ("<a ", "a "),
        ("<a ", "a/"),
        ("<a ", "= "),
        ("</a ", "a=\"\" "),
        ("<a b=\"", "&amp;"),
        ("", "<a b=c>"),
        ("", "<br/>"),
        ("", "&amp;"),
        ("", "&"),
        ("", "<!---->"),
        ("", "<!doctype html>"),
        ("<title>", "</title"),
        ("<script><!--", "<script></script>"),
        ("", "<![CDATA["),
        ("", "\r"),
    ];
    let read = move || {
        for (begin, repeated) in shapes {
            let page = format!("first<p>{begin}{}>last", repeated.repeat(BYTES / repeated.len()));
            assert!(text_of_html(&page).starts_with("first\n"), "{begin}{repeated}");
        }
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(read).unwrap();
    thread.join().unwrap();
}

proptest! {
    #[test]
    fn any_input_gives_a_text(html in ".{0,60}", tags in markup()) {
        let both = format!("{html}{tags}{html}");
        prop_assert!(text_of_html(&both).len() <= 3 * both.len());
    }

    #[test]
    fn a_page_without_dropped_elements_keeps_every_word(
        pieces in prop::collection::vec(("[a-z]{1,5}", prop::sample::select(BLOCKS)), 1..20),
    ) {
        let html: String = pieces.iter().flat_map(|(word, tag)| [tag, word.as_str()]).collect();
        let kept: Vec<_> = pieces.iter().map(|(word, _)| word.as_str()).collect();
        prop_assert_eq!(words(&html), kept.join(" "));
    }
}

const BLOCKS: &[&str] = &["<p>", "</p>", "<div class='a>b'>", "<li/>", "<br>", "</nav>", "<h1\n>"];

fn markup() -> impl Strategy<Value = String> {
    let pieces = [
        "<script>",
        "</script>",
        "<nav>",
        "</nav>",
        "<!--",
        "-->",
        "<title>",
        "</title",
        ">",
        "&",
        "amp;",
        "\"",
        "'",
        "<svg/>",
        "<main>",
        "\u{ad}",
        "\u{8336}",
        "word ",
        "<",
        "/",
        "\r\n",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..30)
        .prop_map(|pieces| pieces.concat())
}

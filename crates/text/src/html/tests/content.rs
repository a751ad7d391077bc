//! The content of pages: shape by shape, and against its plain form.

use proptest::prelude::*;

use super::super::{content_of_html, declared_as_xml};
use super::words;

fn content(html: &str) -> String {
    content_of_html(html).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_content_is_the_main_content_where_the_page_marks_it() {
    assert_eq!(content("<div>menu</div><main>a<p>b</main><p>imprint"), "a b");
    assert_eq!(content("menu<div Role=' MAIN x'><div>a</div>b</div>imprint"), "a b");
    assert_eq!(content("<body role=main>a<p>b</body>"), "a b");
    assert_eq!(content("menu<main>a<aside>b</aside><div role=search>c</div></main>d"), "a");
    assert_eq!(content("<aside role=main>a</aside>b"), "a");
}

#[test]
fn several_main_elements_count_together_and_those_within_one_another_once() {
    assert_eq!(content("x<main>a</main>x<main>b</main>x"), "a b");
    assert_eq!(content("x<span role=main>a</span><b>x</b><span role=main>b</span>"), "a b");
    assert_eq!(content("x<main>a<main>b</main>c</main>x"), "a b c");
    assert_eq!(content("x<main>a<div role=main>b</div>c</main>x"), "a b c");
    assert_eq!(content("x<main hidden>a</main><main>b</main><main hidden=''>c</main>x"), "b");
    assert_eq!(content("x<main hidden>a<main>b</main></main>x"), "b");
}

#[test]
fn a_main_element_never_closed_extends_to_the_end_of_the_page() {
    assert_eq!(content("x<main>a<p>b<footer>c</footer>d"), "a b d");
    assert_eq!(content("x<div role=main>a<div>b</div>"), "a b");
    assert_eq!(content("<nav>x<main>a</main></nav>x"), "a");
    assert_eq!(content("<div role=navigation>x<main>a</main></div>x"), "a");
}

#[test]
fn a_main_element_without_a_letter_is_none() {
    assert_eq!(content("a<main> &nbsp; - </main>b"), "a - b");
    assert_eq!(content("a<main><script>x</script><nav>y</nav></main>b"), "a b");
    assert_eq!(content("a<template><main>x</main></template>b"), "ab");
    assert_eq!(content("a<main hidden>b</main>c"), "a b c");
    assert_eq!(content("a<div hidden role=main>b</div>c"), "a b c");
}

#[test]
fn thin_main_content_is_that_of_the_page() {
    let of = |letters: usize| "x".repeat(letters);
    let page = |main: usize, outside: usize| format!("<main>{}</main>{}", of(main), of(outside));
    for (main, outside, is_thin) in
        [(1, 199, false), (1, 200, true), (39, 200, true), (40, 200, false), (40, 900, false)]
    {
        let expected = if is_thin { of(main) + " " + &of(outside) } else { of(main) };
        assert_eq!(content(&page(main, outside)), expected, "{main} {outside}");
        let around = format!("<div>{}</div>{}", of(outside / 2), page(main, outside.div_ceil(2)));
        assert_eq!(content(&around) != of(main), is_thin, "{main} {outside}");
    }
    for (begin, end) in [
        ("<a href=x>", "</a>"),
        ("<nav>", "</nav>"),
        ("<footer>", "</footer>"),
        ("<div role=banner>", "</div>"),
        ("<div role=dialog>", "</div>"),
        ("<script>", "</script>"),
        ("<img alt='", "'>"),
    ] {
        assert_eq!(content(&format!("{begin}{}{end}<main>a</main>", of(900))), "a", "{begin}");
    }
    // Two elements count together, and so do links within them.
    let half = format!("<main><a>{}</a></main>", of(20));
    assert_eq!(content(&format!("{half}{}{half}", of(200))), of(20) + " " + &of(20));
    // What is dropped from the page stays dropped.
    assert_eq!(
        content(&format!("<nav>y</nav><main>a</main>{}", of(200))),
        "a ".to_owned() + &of(200)
    );
}

#[test]
fn an_article_beside_the_main_content_counts_if_it_is_longer() {
    assert_eq!(content("x<main>abc</main>x<article>d<p>efg</article>x"), "abc d efg");
    assert_eq!(content("<article>defg</article>x<main>abc</main>x"), "defg abc");
    assert_eq!(content("<main>abc</main><article>def</article>x"), "abc");
    assert_eq!(content("<main>abc</main><article>de</article>x<article>fg</article>"), "abc");
    assert_eq!(content("<main>abc</main><article>de<article>fg</article></article>"), "abc de fg");
    assert_eq!(content("x<article>defg<main>abc</main></article>x"), "defg abc");
    assert_eq!(content("x<main>abc<article>defg</article></main>x"), "abc defg");
    assert_eq!(content("<main>abc</main><article>de<a>fg</a></article>"), "abc");
    assert_eq!(content("<main>abc</main><article>de<nav>fg</nav></article>"), "abc");
    assert_eq!(content("<main>abc</main><aside><article>defg</article></aside>"), "abc");
    assert_eq!(content("<main>abc</main><article>defg"), "abc");
    assert_eq!(content("</article><main>abc</main><article>defg</article>"), "abc defg");
    assert_eq!(content("<main>-</main>x<article>defg</article>"), "- x defg");
    assert_eq!(content("x<article>defg</article>x"), "x defg x");
}

#[test]
fn what_stands_for_images_counts_if_it_outweighs_the_text() {
    assert_eq!(content("<main>abc<img alt='defg'></main>x"), "abc defg");
    assert_eq!(content("<main><img alt=de>abc<IMG ALT='f g&amp;'></main>x"), "de abc f g&");
    assert_eq!(content("<main>abc<img alt=de><img alt=f></main>x"), "abc");
    assert_eq!(content("abc<img alt=de><nav><img alt=fghi></nav>"), "abc");
    assert_eq!(content("abc<template><img alt=defg></template>"), "abc");
    assert_eq!(content("a<img alt>b<img alt=''>c<img>d"), "a b c d");
    assert_eq!(content("<img alt=a>"), "a");
    assert_eq!(content("<?xml version='1.0'?><p>a</p><img alt='bc'/>d<img alt='e'/>"), "a bc d e");
    assert_eq!(content("<main>- <img alt=abc></main>de"), "- abc de");
    // Where boilerplate is the content, so are its images.
    assert_eq!(content("<aside>ab<img alt=cde></aside>"), "ab cde");
    assert_eq!(words("ab<img alt=cde><p alt=x>f"), "ab f");
    assert_eq!(words("<img alt=cde>"), "");
}

#[test]
fn elements_of_the_site_are_dropped_by_their_role() {
    for role in [
        "navigation",
        "search",
        "banner",
        "contentinfo",
        "complementary",
        "\nBanner x",
        "dialog",
        "alertdialog",
        "menu",
        "menubar",
    ] {
        let html = format!("a b<div role='{role}'>x<div>y</div>x</div>c");
        assert_eq!(content(&html), "a b c", "{role}");
        assert_eq!(words(&html), "a b x y x c", "{role}");
    }
    for role in ["", "region", "form", "article navigation", "searchbox", "menuitem", "alert"] {
        assert_eq!(content(&format!("a<div role='{role}'>x</div>b")), "a x b", "{role}");
    }
    assert_eq!(content("a b<search>x</search>c"), "a b c");
    assert_eq!(content("a b<x-long-name role=search>x</X-Long-Name>c"), "a b c");
    let nested = "a b c<div role=banner>x<ul role=search>y<div role=search>z</div></ul>x</div>d";
    assert_eq!(content(nested), "a b c d");
}

#[test]
fn an_element_of_the_site_never_closed_is_not_dropped() {
    assert_eq!(content("<div role=banner>a<div>b</div>c"), "a b c");
    assert_eq!(content("<div role=banner>a b c<div role=search>x</div>d"), "a b c d");
    assert_eq!(content("<input role=search>a<input>b</input>c"), "a b c");
    assert_eq!(content("a<div role=search/>b"), "a b");
    assert_eq!(content("x<main>a<div role=search>b</main></div>x"), "a b");
}

#[test]
fn boilerplate_that_outweighs_the_rest_is_the_content() {
    let text = "nothing else on this page has words but what stands here".to_owned();
    for (begin, end) in [
        ("<aside>", "</aside>"),
        ("<footer>", "</footer>"),
        ("<nav>", "</nav>"),
        ("<noscript>", "</noscript>"),
        ("<textarea>", "</textarea>"),
        ("<button>", "</button>"),
        ("<dialog open>", "</dialog>"),
        ("<select><option>", "</select>"),
        ("<search>", "</search>"),
        ("<section role=complementary>", "</section>"),
        ("<main></main><aside>", "</aside>"),
        ("<main><aside>", "</aside>"),
    ] {
        assert_eq!(content(&format!("Imprint{begin}{text}{end}")).replace("Imprint ", ""), text);
        let half = format!("{text}<p>{begin}{text}{end}");
        assert_eq!(content(&half), text, "{begin}");
    }
}

#[test]
fn the_border_is_at_three_times_the_letters_of_the_rest_without_links() {
    assert_eq!(content("abcd<aside>efgh efgh efgh</aside>"), "abcd");
    assert_eq!(content("abcd<aside>efgh efgh efgh i</aside>"), "abcd efgh efgh efgh i");
    let menu = "<a href=x>about</a> ".repeat(30);
    assert_eq!(content(&format!("abcd<nav>{menu} menu menu</nav>")), "abcd");
    // A link never closed has no end, and the next one shows that.
    assert_eq!(content("abcd<nav><a>ijkl ijkl<a>ijkl ijkl</nav>"), "abcd ijkl ijklijkl ijkl");
    // What is hidden never counts.
    assert_eq!(content("a<script>many letters</script><template>here</template>"), "a");
    assert_eq!(content("<title>Shop</title><nav><a>Home</a></nav>"), "Shop Home");
}

#[test]
fn the_content_of_a_declarative_shadow_root_is_text_where_it_stands() {
    for mode in ["open", "CLOSED"] {
        let html = format!(
            "a<x-page><template shadowrootmode={mode}>b<p>c</template>d</x-page><template>x</template>"
        );
        assert_eq!(words(&html), "a b c d");
        assert_eq!(content(&html), "a b c d");
    }
    assert_eq!(words("a<template shadowrootmode=x>b</template><template shadow>c</template>"), "a");
    let nested = "a<template>x<template shadowrootmode=open>x</template>x</template>b";
    assert_eq!(words(nested), "ab");
    let nested = "a<template shadowrootmode=open>b<template>x</template>c</template>d";
    assert_eq!(words(nested), "a bc d");
}

#[test]
fn xhtml_is_read_by_its_own_syntax_where_the_page_says_so() {
    let page = "<title/><script src='a'/><p>a</p><textarea/><iframe/><aside/>b<nav/><![CDATA[c <d>]]>\
                <script>//<![CDATA[\nx < y //]]></script><object/>e<br/>f";
    assert_eq!(words(page), "e f", "in HTML the script extends to the next end tag");
    for declaration in [
        "<?xml version='1.0'?>",
        "\u{feff}\n<?xml\tversion='1.0' encoding='utf-8'?>",
        "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Strict//EN\" \"x.dtd\">",
    ] {
        let text = words(&format!("{declaration}{page}"));
        assert_eq!(text.trim_start_matches('\u{feff}').trim(), "a b c <d> e f", "{declaration}");
    }
    let declared = declared_as_xml(page.into());
    assert_eq!(words(&declared), "a b c <d> e f");
    assert_eq!(declared_as_xml(declared.clone()), declared);
    for html in ["<?xmlversion?>", "<!doctype html>", "<p><?xml version='1.0'?>"] {
        assert_eq!(words(&format!("{html}<aside/>x<![CDATA[x]]></aside>y")), "y", "{html}");
    }
}

#[test]
fn a_cdata_section_never_closed_hides_nothing() {
    let declaration = "<?xml version='1.0'?>";
    assert_eq!(words(&format!("{declaration}a<![CDATA[b>c<![CDATA[>d")), "acd");
    assert_eq!(
        words(&format!("{declaration}<![CDATA[]]><![CDATA[]]>a<![CDATA[&amp;]]>")),
        "a&amp;"
    );
}

#[test]
fn half_a_megabyte_of_regions_is_read_to_its_end() {
    const BYTES: usize = 512 * 1024;
    for (open, close) in [
        ("<div role=main>", "</div>"),
        ("<main>", "</main>"),
        ("<main>", ""),
        ("<div role=search>", "</div>"),
        ("<div role=search>", ""),
        ("<main><div role=search>", "</div>"),
        ("<a><a role=search>", "</a>"),
        ("<template shadowrootmode=open>", "</template>"),
        ("<nav><main></main>", "</nav>"),
        ("<article>", "</article>"),
        ("<main>a</main><article>", "</article>"),
        ("<img alt=a>", ""),
    ] {
        let depth = BYTES / (open.len() + close.len());
        let html = format!("first<p>{}x{}last", open.repeat(depth), close.repeat(depth));
        assert!(!content_of_html(&html).is_empty(), "{open}");
    }
    let names = (0..BYTES / 32).map(|name| format!("<x{name} role=search>"));
    let html = names.collect::<String>() + "last";
    assert!(content_of_html(&html).ends_with("last"));
    let sections = "<?xml version='1.0'?>".to_owned() + &"<![CDATA[]]>".repeat(BYTES / 12);
    assert_eq!(words(&(sections.clone() + "last")), "last");
    assert!(words(&(sections + &"<![CDATA[".repeat(BYTES / 9) + ">last")).ends_with("last"));
}

/// A piece of a page whose tags are known without a tokenizer.
#[derive(Debug, Clone, Copy)]
enum Piece {
    Start(&'static str, &'static str),
    End(&'static str),
    Word(&'static str),
    Image(&'static str),
}

const NAMES: &[&str] =
    &["div", "main", "nav", "aside", "article", "section", "template", "a", "button"];
const ATTRIBUTES: &[&str] = &[
    "",
    "",
    "",
    "role=main",
    "role=search",
    "role=banner",
    "hidden role=main",
    "shadowrootmode=open",
];

/// A word of 42 letters, and one of five times as many, which is enough to make it thin.
const LONG: &str = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnop ";
const LONGEST: &str = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnop\
                       abcdefghijklmnopqrstuvwxyzabcdefghijklmnop\
                       abcdefghijklmnopqrstuvwxyzabcdefghijklmnop\
                       abcdefghijklmnopqrstuvwxyzabcdefghijklmnop\
                       abcdefghijklmnopqrstuvwxyzabcdefghijklmnop ";

fn piece() -> impl Strategy<Value = Piece> {
    let word =
        prop::sample::select(&["word ", "a b ", ". ", "long long words ", LONG, LONGEST][..]);
    let tags = (prop::sample::select(NAMES), prop::sample::select(ATTRIBUTES));
    prop_oneof![
        tags.prop_map(|(name, attributes)| Piece::Start(name, attributes)),
        prop::sample::select(NAMES).prop_map(Piece::End),
        word.clone().prop_map(Piece::Word),
        word.prop_map(Piece::Image),
    ]
}

/// What a start tag stands for in the definition of the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Main,
    Site,
    Hidden,
    Boilerplate,
    Link,
    Image,
    /// An outermost article, identified by where it begins.
    Article(usize),
}

fn is_main(name: &str, attributes: &str) -> bool {
    !attributes.contains("hidden") && (name == "main" || attributes == "role=main")
}

/// The marks of a start tag. A role that is main takes an element out of those dropped by name.
fn marks(name: &str, attributes: &str, at: usize) -> Vec<Mark> {
    let by_name = match name {
        "template" if attributes == "shadowrootmode=open" => None,
        "template" => Some(Mark::Hidden),
        "nav" | "aside" | "button" => Some(Mark::Boilerplate),
        "a" => Some(Mark::Link),
        "article" => Some(Mark::Article(at)),
        _ => None,
    };
    let by_role = match attributes {
        _ if is_main(name, attributes) => Some(Mark::Main),
        _ if name == "main" => None,
        "role=search" | "role=banner" => Some(Mark::Site),
        _ => None,
    };
    let is_dropped = |mark: &Mark| matches!(mark, Mark::Hidden | Mark::Boilerplate);
    let by_name = by_name.filter(|mark| by_role != Some(Mark::Main) || !is_dropped(mark));
    by_name.into_iter().chain(by_role).collect()
}

/// Where the element that a piece begins ends: its matching end tag by the count of its name.
fn end_of(pieces: &[Piece], start: usize, mark: Mark) -> Option<usize> {
    let Piece::Start(name, _) = pieces[start] else { return None };
    let mut depth = 1;
    for (at, piece) in pieces.iter().enumerate().skip(start + 1) {
        let begins_main = matches!(*piece, Piece::Start(name, more) if is_main(name, more));
        let is_main_tag = matches!(*piece, Piece::Start("main", _));
        let closes = match mark {
            Mark::Site => begins_main,
            Mark::Boilerplate => name != "button" && (begins_main || is_main_tag),
            Mark::Link => matches!(*piece, Piece::Start("a", _)),
            Mark::Main | Mark::Hidden | Mark::Image | Mark::Article(_) => false,
        };
        if closes {
            return None;
        }
        match *piece {
            Piece::Start(other, _) if other == name => depth += 1,
            Piece::End(other) if other == name => depth -= 1,
            Piece::Start(..) | Piece::End(_) | Piece::Word(_) | Piece::Image(_) => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The marks of the elements that each piece is within.
fn marks_around(pieces: &[Piece]) -> Vec<Vec<Mark>> {
    let mut within = vec![Vec::new(); pieces.len()];
    let (mut main_ends, mut article_ends) = (0, 0);
    for (start, piece) in pieces.iter().enumerate() {
        if matches!(piece, Piece::Image(_)) {
            within[start].push(Mark::Image);
        }
        let Piece::Start(name, attributes) = *piece else { continue };
        for mark in marks(name, attributes, start) {
            let end = end_of(pieces, start, mark);
            let end_or_last = end.unwrap_or(pieces.len());
            let end = match mark {
                Mark::Main if start < main_ends => None,
                Mark::Main => {
                    main_ends = end_or_last;
                    Some(end_or_last)
                }
                Mark::Article(_) if start < article_ends => None,
                Mark::Article(_) => {
                    article_ends = end_or_last;
                    end
                }
                Mark::Site => end.filter(|end| main_ends <= start || *end <= main_ends),
                Mark::Hidden | Mark::Boilerplate | Mark::Link | Mark::Image => end,
            };
            let around = start..end.unwrap_or(start);
            within[around].iter_mut().for_each(|marks| marks.push(mark));
        }
    }
    within
}

/// The words of the content by its definition, in time that grows with the square of the pieces.
fn plain_content(pieces: &[Piece]) -> Vec<&'static str> {
    let within = marks_around(pieces);
    let select = |matches: &dyn Fn(&[Mark]) -> bool| -> Vec<&'static str> {
        let words = pieces.iter().zip(&within).filter(|(_, marks)| matches(marks));
        let words = words.filter_map(|(piece, _)| match *piece {
            Piece::Word(word) | Piece::Image(word) => Some(word.split_whitespace()),
            Piece::Start(..) | Piece::End(_) => None,
        });
        words.flatten().collect()
    };
    let letters = |matches: &dyn Fn(&[Mark]) -> bool| {
        select(matches).concat().chars().filter(|c| c.is_alphanumeric()).count()
    };
    let is = |mark| move |marks: &[Mark]| marks.contains(&mark);
    let (is_main, is_hidden, is_image) = (is(Mark::Main), is(Mark::Hidden), is(Mark::Image));
    let is_left_out =
        |marks: &[Mark]| is_hidden(marks) || is(Mark::Boilerplate)(marks) || is(Mark::Site)(marks);
    let is_rest = |marks: &[Mark]| !is_left_out(marks) && !is_image(marks);
    let is_outside = |marks: &[Mark]| is_rest(marks) && !is_main(marks) && !is(Mark::Link)(marks);

    let main = letters(&|marks| is_main(marks) && is_rest(marks));
    let outside = letters(&is_outside);
    let has_main = main > 0 && (outside < 200 || main >= 40);
    let is_longer = |mark: &Mark| {
        matches!(mark, Mark::Article(_))
            && letters(&|marks| marks.contains(mark) && is_outside(marks)) > main
    };
    let in_region = |marks: &[Mark]| !has_main || is_main(marks) || marks.iter().any(is_longer);

    let rest = letters(&|marks| in_region(marks) && is_rest(marks));
    let boilerplate = letters(&|marks| {
        let seen = in_region(marks) && !is_hidden(marks) && !is_image(marks);
        seen && is_left_out(marks) && !is(Mark::Link)(marks)
    });
    let is_content = rest == 0 || boilerplate > 3 * rest;
    let shown = |marks: &[Mark]| {
        in_region(marks) && !is_hidden(marks) && (is_content || !is_left_out(marks))
    };
    let is_text = |marks: &[Mark]| shown(marks) && !is_image(marks);
    let images = letters(&|marks| shown(marks) && is_image(marks));
    if images > letters(&is_text) { select(&shown) } else { select(&is_text) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_content_is_that_of_its_plain_form(pieces in prop::collection::vec(piece(), 0..24)) {
        let tag = |piece: &Piece| match *piece {
            Piece::Start(name, attributes) => format!("<{name} {attributes}>"),
            Piece::End(name) => format!("</{name}>"),
            Piece::Word(word) => word.to_owned(),
            Piece::Image(word) => format!("<img alt='{word}'>"),
        };
        let html: String = pieces.iter().map(tag).collect();
        prop_assert_eq!(content(&html), plain_content(&pieces).join(" "), "{}", html);
    }
}

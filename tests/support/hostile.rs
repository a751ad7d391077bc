//! Pages that try to cost more than their bytes: each kind of token of the HTML standard repeated
//! to a size, pairs of them, single bytes and pairs of bytes, and shapes that multiply what a tree
//! builder or a text analysis does. The same number and size give the same page.

use std::fmt::Write as _;

use super::random::Random;

/// What begins a page, and what is repeated after it.
const REPEATED: &[(&str, &str)] = &[
    ("", "<p>"),
    ("", "</p>"),
    ("", "<br/>"),
    ("", "<div>"),
    ("", "<ul><li>"),
    ("", "<b>"),
    ("", "<b><p>"),
    ("", "<a href=x>"),
    ("", "<a><div>"),
    ("", "<nav>"),
    ("", "<nav></nav>"),
    ("", "<aside></nav>"),
    ("", "<svg>"),
    ("", "<svg><title>"),
    ("", "<math><mi>"),
    ("", "<svg><foreignObject>"),
    ("", "<table>"),
    ("", "<table><tr><td>"),
    ("", "<table><b>x"),
    ("<table>", "x<tr>"),
    ("", "<select>"),
    ("<select>", "<option>a"),
    ("", "<template>"),
    ("", "<frameset>"),
    ("", "<button>"),
    ("", "<form>"),
    ("", "<h1>a</h1>"),
    ("", "<h1>"),
    ("", "<marquee>"),
    ("", "<ruby><rt>"),
    ("", "<body a=b>"),
    ("", "<html a=b>"),
    ("", "<image>"),
    ("", "<isindex>"),
    ("", "<noscript>"),
    ("", "<noscript><img src=a>"),
    ("", "<p><font>"),
    ("", "<br> "),
    ("", "<meta content=a>"),
    ("<a ", "a=\"\" "),
    ("<a ", "a='' "),
    ("<a ", "a=b "),
    ("<a ", "a "),
    ("<a ", "a/"),
    ("<a ", "= "),
    ("<a ", "a=\"&amp;\" "),
    ("<a ", "\""),
    ("</a ", "a=\"\" "),
    ("<a b=\"", "&"),
    ("<a b=\"", "&amp;"),
    ("<a b='", "x"),
    ("<a b=", "x"),
    ("<a", "a"),
    ("", "<a b='c'>"),
    ("", "<!---->"),
    ("", "<!-->"),
    ("", "<!--->"),
    ("", "<!--a--!>"),
    ("<!--", "-"),
    ("<!--", "--!"),
    ("<!--", "<!--"),
    ("", "<!--"),
    ("", "<!-"),
    ("", "<!"),
    ("", "<!doctype html>"),
    ("<!doctype ", "a"),
    ("", "<!doctype"),
    ("", "<![CDATA["),
    ("", "<![CDATA[a]]>"),
    ("<svg>", "<![CDATA[a]]>"),
    ("", "<?a?>"),
    ("", "<?"),
    ("", "</>"),
    ("", "</ >"),
    ("", "</"),
    ("", "<"),
    ("", "< "),
    ("", "<1"),
    ("", "&"),
    ("", "&amp;"),
    ("", "&amp"),
    ("", "&am"),
    ("", "&notin;"),
    ("", "&notit"),
    ("", "&CounterClockwiseContourIntegral;"),
    ("", "&CounterClockwiseContourIntegra"),
    ("", "&NotEqualTilde;"),
    ("", "&#"),
    ("", "&#x"),
    ("", "&#1"),
    ("", "&#x41;"),
    ("&#", "1"),
    ("&#x", "f"),
    ("&", "a"),
    ("", "&nbsp;"),
    ("", "\u{a0}"),
    ("", "\u{ab}"),
    ("", "&shy;"),
    ("", "\u{ad}"),
    ("<script>", "a"),
    ("<script>", "<"),
    ("<script>", "</script"),
    ("<script>", "<!--"),
    ("<script><!--", "<script></script>"),
    ("<script><!--", "-"),
    ("", "<script>"),
    ("", "<script></script>"),
    ("", "<style></style>"),
    ("<style>", "</styl"),
    ("<title>", "</title"),
    ("<title>", "</title "),
    ("", "<title>"),
    ("", "<title></title x"),
    ("", "<title></title>"),
    ("<textarea>", "&amp;"),
    ("", "<textarea><xmp><style><iframe>"),
    ("", "<xmp></xmp>"),
    ("", "<plaintext>"),
    ("", "<noframes>"),
    ("", "\r"),
    ("", "\r\n"),
    ("", "\0"),
    ("", "\u{fffd}"),
    ("", "a\u{301}"),
    ("a", "\u{301}"),
    ("a", "\u{301}\u{316}"),
    ("", "\u{1d157}\u{1d165}"),
    ("", "\u{fdfa}"),
    ("", "\u{8336}"),
    ("", "\u{8336}\u{9053}"),
    ("", "\u{ac00}"),
    ("", "\u{1100}\u{1161}"),
    ("", "\u{304b}\u{3099}"),
    ("", "\u{e01}\u{e33}"),
    ("", "\u{1f468}\u{200d}"),
    ("", "\u{130}"),
    ("", "\u{df}"),
    ("", "\u{3a3}"),
    ("", "the "),
    ("", "a "),
    ("", ","),
    ("<p>", "a, "),
];

/// A page of about this many bytes.
pub(crate) fn page(number: u64, bytes: usize) -> Vec<u8> {
    let kinds = REPEATED.len();
    let mut random = Random(number);
    match number % 8 {
        // Each kind of token in turn; among ten thousand pages each comes many times, in many
        // sizes.
        0..3 => {
            let (begin, repeated) =
                REPEATED[(number / 8 * 3 + number % 8) as usize % REPEATED.len()];
            filled(begin.as_bytes(), repeated.as_bytes(), bytes)
        }
        3 => {
            let (begin, one) = REPEATED[random.below(kinds)];
            let (_, other) = REPEATED[random.below(kinds)];
            filled(begin.as_bytes(), format!("{one}{other}").as_bytes(), bytes)
        }
        4 => filled(b"", &[(number / 8) as u8], bytes),
        5 => filled(b"", &[random.below(256) as u8, random.below(256) as u8], bytes),
        6 => multiplied(number / 8, bytes).into_bytes(),
        _ => mixed(&mut random, bytes),
    }
}

fn filled(begin: &[u8], repeated: &[u8], bytes: usize) -> Vec<u8> {
    let count = bytes.saturating_sub(begin.len()) / repeated.len();
    let mut page = begin.to_vec();
    page.extend(repeated.repeat(count));
    page
}

/// All kinds of tokens, in any order.
fn mixed(random: &mut Random, bytes: usize) -> Vec<u8> {
    let mut page = Vec::with_capacity(bytes);
    while page.len() < bytes {
        let (begin, repeated) = REPEATED[random.below(REPEATED.len())];
        page.extend_from_slice(begin.as_bytes());
        page.extend(repeated.as_bytes().repeat(random.below(20)));
    }
    page.truncate(bytes);
    page
}

/// Repeats what a function writes; its argument is the number of the call.
fn written(bytes: usize, begin: &str, mut each: impl FnMut(&mut String, usize)) -> String {
    let mut page = begin.to_owned();
    let mut number = 0;
    while page.len() < bytes {
        each(&mut page, number);
        number += 1;
    }
    page
}

/// Shapes in which something small is done many times.
fn multiplied(shape: u64, bytes: usize) -> String {
    let put = |page: &mut String, text: std::fmt::Arguments<'_>| {
        page.write_fmt(text).expect("a string takes any text");
    };
    let formatting = (0..250).fold(String::new(), |tags, number| format!("{tags}<b a={number}>"));
    match shape % 18 {
        0 => written(bytes, "<a ", |page, number| put(page, format_args!("a{number}=b "))),
        1 => written(bytes, &format!("<p>{formatting}</p>"), |page, _| page.push_str("<p>x")),
        2 => {
            written(bytes, &format!("<p>{formatting}"), |page, _| page.push_str("</p><div>x</div>"))
        }
        3 => written(bytes, "", |page, number| put(page, format_args!("<e{number}>"))),
        4 => {
            let title = "a".repeat(bytes / 2);
            written(bytes, &format!("<title>{title}</title>"), |page, _| {
                page.push_str("<h1>a</h1>");
            })
        }
        5 => {
            let title = "a b ".repeat(bytes / 8);
            written(bytes, &format!("<h1>{title}</h1>"), |page, _| page.push_str("<h2>a</h2>"))
        }
        6 => {
            let deep = "<div>".repeat(250);
            written(bytes, &deep, |page, _| page.push_str("some text, "))
        }
        7 => {
            let deep = "<div>".repeat(200);
            written(bytes, &deep, |page, _| page.push_str("<p>a, b</p>"))
        }
        8 => written(bytes, "<div>", |page, number| put(page, format_args!("w{number:x} "))),
        9 => written(bytes, "<p>", |page, number| {
            put(page, format_args!("<a href=/{number}>link {number}</a>"));
        }),
        10 => {
            let class = "comment ".repeat(bytes / 16);
            written(bytes, "", |page, _| put(page, format_args!("<div class='{class}'>a</div>")))
        }
        11 => written(bytes, "<table>", |page, _| page.push_str("<tr><td>x<table>")),
        12 => written(bytes, "<p>", |page, number| {
            put(page, format_args!("{:016x}", (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        }),
        13 => written(bytes, "", |page, number| {
            page.extend(char::from_u32(0x4e00 + number as u32 % 20_000));
        }),
        // The tree keeps the attributes of every `body` tag in one element.
        14 => written(bytes, "", |page, number| put(page, format_args!("<body a{number}=b>"))),
        // Within SVG, `style` is not raw text.
        15 => {
            written(bytes, "<svg><style><a ", |page, number| put(page, format_args!("a{number} ")))
        }
        16 => written(bytes, "<div><p>", |page, _| page.push_str("a<br><br>b ")),
        _ => written(bytes, "<p>text</p>", |page, _| {
            page.push_str("<noscript><img src=a.png></noscript><img><span></span>");
        }),
    }
}

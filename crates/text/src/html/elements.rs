//! Which elements are dropped, which join words, which contain raw text or nothing, and which roles
//! count.

use crate::html::tokenizer::RawText;

/// Why an element is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dropped {
    /// A reader does not see its content.
    Hidden,
    /// It belongs to the site or to a form, not to the content of the page.
    Boilerplate,
    /// Its role says that it belongs to the site.
    Site,
    /// It stands for an image, which a reader sees in its place.
    Image,
}

/// What the attribute `role` of an element tells about its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementRole {
    /// It is the content of the page.
    Main,
    /// It belongs to the site: navigation, a menu, search, banner, contentinfo, complementary, or a
    /// dialog, as many notices about cookies are.
    Site,
}

impl ElementRole {
    /// The role that the first word of the attribute names, in any case.
    pub(super) fn named(attribute: &str) -> Option<Self> {
        const SITE: [&str; 9] = [
            "navigation",
            "search",
            "banner",
            "contentinfo",
            "complementary",
            "dialog",
            "alertdialog",
            "menu",
            "menubar",
        ];
        let first = attribute.split_ascii_whitespace().next()?;
        if first.eq_ignore_ascii_case("main") {
            return Some(Self::Main);
        }
        SITE.iter().any(|name| first.eq_ignore_ascii_case(name)).then_some(Self::Site)
    }
}

/// The elements that are dropped; each is identified by its index.
///
/// `header` stays (it contains the headline of an article as often as the logo of a site) and so do
/// `form` (some systems wrap the page in one) and `math`. The title is boilerplate: it is not on
/// the page, where the headline repeats it, and names the site, in which copies differ.
pub(super) const DROPPED: [(&[u8], Dropped); 23] = [
    (b"script", Dropped::Hidden),
    (b"style", Dropped::Hidden),
    (b"template", Dropped::Hidden),
    (b"svg", Dropped::Hidden),
    (b"iframe", Dropped::Hidden),
    (b"object", Dropped::Hidden),
    (b"canvas", Dropped::Hidden),
    (b"audio", Dropped::Hidden),
    (b"video", Dropped::Hidden),
    (b"datalist", Dropped::Hidden),
    (b"noembed", Dropped::Hidden),
    (b"rp", Dropped::Hidden),
    (b"rt", Dropped::Hidden),
    (b"nav", Dropped::Boilerplate),
    (b"aside", Dropped::Boilerplate),
    (b"footer", Dropped::Boilerplate),
    (b"search", Dropped::Boilerplate),
    (b"dialog", Dropped::Boilerplate),
    (b"select", Dropped::Boilerplate),
    (b"button", Dropped::Boilerplate),
    (b"textarea", Dropped::Boilerplate),
    (b"title", Dropped::Boilerplate),
    (b"noscript", Dropped::Boilerplate),
];

/// The elements whose content is not markup, and how it is read; each is identified by its index.
pub(crate) const RAW: [(&[u8], RawText); 8] = [
    (b"script", RawText::Script),
    (b"style", RawText::Rawtext),
    (b"iframe", RawText::Rawtext),
    (b"noembed", RawText::Rawtext),
    (b"noframes", RawText::Rawtext),
    (b"xmp", RawText::Rawtext),
    (b"title", RawText::Rcdata),
    (b"textarea", RawText::Rcdata),
];

/// The index of an element in [`DROPPED`].
pub(super) fn dropped(name: &[u8]) -> Option<usize> {
    DROPPED.iter().position(|&(dropped, _)| dropped == name)
}

/// The index of an element in [`RAW`].
pub(crate) fn raw(name: &[u8]) -> Option<usize> {
    RAW.iter().position(|&(raw, _)| raw == name)
}

/// Whether text before and after a tag of this element belongs to one word, as on the screen.
/// Every other element separates, unknown ones too: they are mostly containers.
#[rustfmt::skip]
pub(super) const fn joins(name: &[u8]) -> bool {
    matches!(
        name,
        b"a" | b"abbr" | b"acronym" | b"b" | b"bdi" | b"bdo" | b"big" | b"cite" | b"code"
        | b"data" | b"del" | b"dfn" | b"em" | b"font" | b"i" | b"ins" | b"kbd" | b"mark"
        | b"nobr" | b"q" | b"rb" | b"rp" | b"rt" | b"ruby" | b"s" | b"samp" | b"script"
        | b"small" | b"span" | b"strike" | b"strong" | b"style" | b"sub" | b"sup"
        | b"template" | b"time" | b"tt" | b"u" | b"var" | b"wbr"
    )
}

/// The elements that never contain the body or the main content of a page: one that is still open
/// where these begin was never closed.
pub(super) const BESIDE_CONTENT: [&[u8]; 4] = [b"nav", b"aside", b"footer", b"search"];

/// Whether an element has no content and no end tag.
#[rustfmt::skip]
pub(crate) fn is_void(name: &str) -> bool {
    const VOID: [&str; 14] = [
        "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param",
        "source", "track", "wbr",
    ];
    VOID.iter().any(|void| void.eq_ignore_ascii_case(name))
}

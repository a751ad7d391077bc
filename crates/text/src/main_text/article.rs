//! The text of an article, from its tree.
//!
//! The tree is walked without recursion, by the rules for pages in source form
//! ([`crate::html`]).

use dom_query::{Document, NodeData, NodeRef};

use crate::html::content::{ElementContent, HtmlPage};

/// The element in which `dom_smoothie` collects the article.
const ARTICLE: &str = "#readability-page-1";

/// The visible text of the article that Readability has cut out, if there is one.
pub(super) fn text_in(document: &Document) -> Option<String> {
    let selection = document.select_single(ARTICLE);
    let article = selection.nodes().first()?;
    let mut page = HtmlPage::default();
    let mut node = Some(*article);
    while let Some(current) = node {
        begin(&mut page, &current);
        node = current.first_child().or_else(|| next(&mut page, current, article));
    }
    Some(page.visible_text())
}

/// The node after this one and its content; ends the elements that end before it.
fn next<'a>(page: &mut HtmlPage, from: NodeRef<'a>, article: &NodeRef<'_>) -> Option<NodeRef<'a>> {
    let mut node = from;
    loop {
        if let Some(name) = node.qual_name_ref() {
            page.end(name.local.as_bytes());
        }
        if node.id == article.id {
            return None;
        }
        if let Some(next) = node.next_sibling() {
            return Some(next);
        }
        node = node.parent()?;
    }
}

fn begin(page: &mut HtmlPage, node: &NodeRef<'_>) {
    node.query(|node| match &node.data {
        NodeData::Element(element) => {
            page.start(element.name.local.as_bytes(), ElementContent::ByName);
        }
        NodeData::Text { contents } => page.words(contents),
        NodeData::Document
        | NodeData::Fragment
        | NodeData::Doctype { .. }
        | NodeData::Comment { .. }
        | NodeData::ProcessingInstruction { .. } => {}
    });
}

//! The tree of a page, unless it grows beyond measure.
//!
//! A formatting element that is never closed is made again in every later block, so a page may have a
//! thousand times as many nodes as tags. The page is therefore fed in pieces, and given up when its
//! tree has more than [`NODES_MAX`] nodes; a piece adds at most one node for each of its bytes and each
//! element that is open.

use dom_query::Document;
use html5ever::tendril::{StrTendril, TendrilSink as _};
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{ParseOpts, parse_document};

/// Elements, texts and comments of a page.
const NODES_MAX: usize = 200_000;

/// The bytes between two looks at the size of the tree.
const PIECE_BYTES: usize = 2 * 1024;

/// The tree of a page; `None` where it has too many nodes.
pub(super) fn of(page: &str) -> Option<Document> {
    let tree_builder = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let options = ParseOpts { tree_builder, ..ParseOpts::default() };
    let mut parser = parse_document(Document::default(), options);
    let mut rest = page;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.ceil_char_boundary(PIECE_BYTES));
        parser.process(StrTendril::from_slice(piece));
        if parser.tokenizer.sink.sink.tree.len() > NODES_MAX {
            return None;
        }
        rest = behind;
    }
    Some(parser.finish())
}

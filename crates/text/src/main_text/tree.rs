//! The tree of a page, unless it would cost too much to build.
//!
//! `html5ever` builds the tree from the tokens of [`crate::html::tokenizer`]. It decides
//! which elements contain raw text, because that depends on the open elements. Its work on a token
//! grows with the number of open elements, and its work on an element with the square of its
//! attributes; a formatting element that is never closed is opened again in every later block.
//! [`of`] gives up when one of these exceeds its limit, so building takes linear time on every page
//! that passes.
//!
//! Tested against the tree that html5ever builds by itself.

use std::cell::{Cell, RefCell};

use dom_query::{Document, NodeId};
use html5ever::interface::Tracer;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    self, BufferQueue, Doctype, TagKind, Token as TreeToken, TokenSink, TokenSinkResult,
};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts};
use html5ever::{Attribute, LocalName, QualName, ns};

use crate::html::elements::is_void;
use crate::html::reference;
use crate::html::tag::Tag;
use crate::html::tokenizer::{HtmlToken, RawText, Tokenizer};

/// Elements, texts and comments of a page.
pub(super) const NODES_MAX: usize = 200_000;

/// Open elements and formatting elements to be opened again, together. An element may be both.
const OPEN_MAX: usize = 600;

/// The start tags between two looks at the numbers of nodes and of open elements.
const TAGS_PER_LOOK: usize = 16;

/// Attributes of one element: each is compared with all before it. Those of all `html` tags, and of
/// all `body` tags, count as those of one element, because that is where the tree keeps them.
pub(super) const ATTRIBUTES_OF_ELEMENT_MAX: usize = 512;

/// Attributes of a page.
pub(super) const ATTRIBUTES_MAX: usize = 200_000;

/// The tree of a page; `None` if it exceeds a limit.
pub(super) fn of(page: &str) -> Option<Document> {
    let options = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let mut build = Build {
        builder: TreeBuilder::new(Document::default(), options),
        start_tags: 0,
        attributes: 0,
        attributes_of_root_and_body: 0,
    };
    let mut tokens = Tokenizer::new(page);
    let mut has_doctype = false;
    while let Some(token) = tokens.next() {
        match token {
            HtmlToken::Text(text) => build.text(text),
            HtmlToken::Characters(first, second) => {
                let characters = [Some(first), second].into_iter().flatten();
                build.put(TreeToken::CharacterTokens(characters.collect::<String>().into()));
            }
            HtmlToken::Comment => build.put(TreeToken::CommentToken(StrTendril::new())),
            HtmlToken::Doctype(source) if !has_doctype => {
                has_doctype = true;
                if let Some(doctype) = doctype(source) {
                    build.put(TreeToken::DoctypeToken(doctype));
                }
            }
            // Only the first one can count.
            HtmlToken::Doctype(_) => {}
            HtmlToken::Tag(tag) if tokens.is_xml() && tag.self_closing && !is_void(tag.name) => {
                build.tag(&Tag { self_closing: false, ..tag.clone() })?;
                build.tag(&Tag { self_closing: false, is_end: true, ..tag })?;
            }
            HtmlToken::Tag(tag) => match build.tag(&tag)? {
                Content::Markup => {}
                Content::Raw(kind) => tokens.begin_raw(kind, tag.name),
                Content::Plaintext => tokens.begin_plaintext(),
            },
        }
    }
    build.put(TreeToken::EOFToken);
    build.builder.end();
    Some(build.builder.sink)
}

/// How the tokenizer reads what follows a tag.
enum Content {
    Markup,
    Raw(RawText),
    Plaintext,
}

/// A tree that is being built.
struct Build {
    builder: TreeBuilder<NodeId, Document>,
    start_tags: usize,
    attributes: usize,
    attributes_of_root_and_body: usize,
}

impl Build {
    fn put(&self, token: TreeToken) {
        // Only a start tag changes how the tokenizer reads on.
        let _continue = self.builder.process_token(token, 1);
    }

    fn text(&self, text: &str) {
        let mut pieces = text.split('\0');
        if let Some(first) = pieces.next().filter(|first| !first.is_empty()) {
            self.put(TreeToken::CharacterTokens(first.into()));
        }
        for piece in pieces {
            self.put(TreeToken::NullCharacterToken);
            if !piece.is_empty() {
                self.put(TreeToken::CharacterTokens(piece.into()));
            }
        }
    }

    /// `None` if a limit is exceeded.
    fn tag(&mut self, tag: &Tag<'_>) -> Option<Content> {
        let name = LocalName::from(name_of(tag.name));
        let attrs = if tag.is_end { Vec::new() } else { self.attributes(tag)? };
        let kind = if tag.is_end { TagKind::EndTag } else { TagKind::StartTag };
        let token = tokenizer::Tag {
            kind,
            name,
            self_closing: tag.self_closing,
            attrs,
            had_duplicate_attributes: false,
        };
        let result = self.builder.process_token(TreeToken::TagToken(token), 1);
        self.start_tags += usize::from(!tag.is_end);
        if self.start_tags.is_multiple_of(TAGS_PER_LOOK)
            && (self.builder.sink.tree.len() > NODES_MAX || self.open() > OPEN_MAX)
        {
            return None;
        }
        Some(match result {
            TokenSinkResult::RawData(RawKind::Rcdata) => Content::Raw(RawText::Rcdata),
            TokenSinkResult::RawData(RawKind::Rawtext) => Content::Raw(RawText::Rawtext),
            TokenSinkResult::RawData(RawKind::ScriptData | RawKind::ScriptDataEscaped(_)) => {
                Content::Raw(RawText::Script)
            }
            TokenSinkResult::Plaintext => Content::Plaintext,
            TokenSinkResult::Continue
            | TokenSinkResult::Script(_)
            | TokenSinkResult::EncodingIndicator(_) => Content::Markup,
        })
    }

    /// The attributes of a start tag, each name once; `None` if there are too many.
    fn attributes(&mut self, tag: &Tag<'_>) -> Option<Vec<Attribute>> {
        let mut attributes: Vec<Attribute> = Vec::new();
        for (count, (name, value)) in (1..).zip(tag.attributes.clone()) {
            self.attributes += 1;
            if count > ATTRIBUTES_OF_ELEMENT_MAX || self.attributes > ATTRIBUTES_MAX {
                return None;
            }
            let name = LocalName::from(name_of(name));
            if attributes.iter().all(|attribute| attribute.name.local != name) {
                let value = StrTendril::from(&*reference::decode_attribute(value));
                attributes.push(Attribute { name: QualName::new(None, ns!(), name), value });
            }
        }
        if ["html", "body"].iter().any(|name| tag.name.eq_ignore_ascii_case(name)) {
            self.attributes_of_root_and_body += attributes.len();
            if self.attributes_of_root_and_body > ATTRIBUTES_OF_ELEMENT_MAX {
                return None;
            }
        }
        Some(attributes)
    }

    /// The number of elements that are open or would be opened again.
    fn open(&self) -> usize {
        #[derive(Default)]
        struct Count(Cell<usize>);
        impl Tracer for Count {
            type Handle = NodeId;
            fn trace_handle(&self, _: &NodeId) {
                self.0.set(self.0.get() + 1);
            }
        }
        let count = Count::default();
        self.builder.trace_handles(&count);
        count.0.get()
    }
}

/// The name of an element or an attribute in the form of the standard.
fn name_of(source: &str) -> String {
    let mut name = source.replace('\0', "\u{fffd}");
    name.make_ascii_lowercase();
    name
}

/// What html5ever reads in a `<!DOCTYPE ...>`.
fn doctype(source: &str) -> Option<Doctype> {
    #[derive(Default)]
    struct Sink(RefCell<Option<Doctype>>);
    impl TokenSink for Sink {
        type Handle = ();
        fn process_token(&self, token: TreeToken, _: u64) -> TokenSinkResult<()> {
            if let TreeToken::DoctypeToken(doctype) = token {
                self.0.replace(Some(doctype));
            }
            TokenSinkResult::Continue
        }
    }
    let tokenizer = tokenizer::Tokenizer::new(Sink::default(), tokenizer::TokenizerOpts::default());
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from(source));
    drop(tokenizer.feed(&queue));
    tokenizer.end();
    tokenizer.sink.0.take()
}

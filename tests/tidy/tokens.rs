//! The product's Rust files as flat lists of tokens, without comments and without their tests.

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A token and the lines on which it stands, from one.
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) first_line: usize,
    pub(crate) last_line: usize,
}

/// A file of the product, its path relative to the root.
pub(crate) struct Product {
    pub(crate) path: String,
    pub(crate) tokens: Vec<Token>,
}

impl Product {
    /// The lines that hold code of the product.
    pub(crate) fn lines(&self) -> usize {
        let lines = self.tokens.iter().flat_map(|token| token.first_line..=token.last_line);
        lines.collect::<BTreeSet<_>>().len()
    }

    /// The token at an index, or nothing after the last.
    pub(crate) fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &token.text)
    }

    /// Whether these tokens stand at an index.
    pub(crate) fn has(&self, at: usize, texts: &[&str]) -> bool {
        (at..).zip(texts).all(|(at, text)| self.text(at) == *text)
    }

    /// The index after the bracket that closes the one at an index.
    pub(crate) fn after_closing(&self, opening: usize) -> usize {
        let mut depth = 0_usize;
        for at in opening..self.tokens.len() {
            match self.text(at) {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at + 1;
            }
        }
        self.tokens.len()
    }
}

/// Reads files, given as path and text, and leaves out what is compiled for tests only.
pub(crate) fn read_product(files: Vec<(String, String)>) -> Vec<Product> {
    let mut test_modules = Vec::new();
    let mut products = Vec::new();
    for (path, text) in files {
        let stream: TokenStream = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        let mut product = Product { path, tokens };
        test_modules.extend(remove_tests(&mut product));
        products.push(product);
    }
    products.retain(|product| {
        let path = product.path.trim_end_matches(".rs");
        !test_modules.iter().any(|module| Path::new(path).starts_with(module))
    });
    products
}

fn flatten(stream: TokenStream, into: &mut Vec<Token>) {
    for tree in stream {
        let (start, end) = (tree.span().start().line, tree.span().end().line);
        let mut push = |text: String, first_line, last_line| {
            into.push(Token { text, first_line, last_line });
        };
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                push(open.to_owned(), start, start);
                flatten(group.stream(), into);
                into.push(Token { text: close.to_owned(), first_line: end, last_line: end });
            }
            other @ (TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_)) => {
                push(other.to_string(), start, end);
            }
        }
    }
}

/// Removes documentation and items that only tests compile; returns the modules among them that
/// stand in files of their own, as paths without an ending.
fn remove_tests(product: &mut Product) -> Vec<String> {
    let mut modules = Vec::new();
    let mut removed = vec![false; product.tokens.len()];
    let mut at = 0;
    while at < product.tokens.len() {
        if !product.has(at, &["#", "["]) && !product.has(at, &["#", "!", "["]) {
            at += 1;
            continue;
        }
        let opening = if product.text(at + 1) == "[" { at + 1 } else { at + 2 };
        let after = product.after_closing(opening);
        let end = if product.has(opening + 1, &["doc", "="]) {
            after
        } else if is_for_tests(product, opening, after) {
            modules.extend(module_of(product, after));
            end_of_item(product, after)
        } else {
            at = after;
            continue;
        };
        removed[at..end].fill(true);
        at = end;
    }
    let mut is_removed = removed.into_iter();
    product.tokens.retain(|_| !is_removed.next().unwrap_or_default());
    modules
}

/// Whether an attribute says `cfg(test)`, alone or as one of several cases.
fn is_for_tests(product: &Product, opening: usize, after: usize) -> bool {
    let has = |text| (opening..after).any(|at| product.text(at) == text);
    product.has(opening + 1, &["cfg", "("]) && has("test") && !has("not")
}

/// The index after the item at an index: after its body or its semicolon.
fn end_of_item(product: &Product, mut at: usize) -> usize {
    while at < product.tokens.len() {
        match product.text(at) {
            "{" => return product.after_closing(at),
            ";" | "," => return at + 1,
            "(" | "[" => at = product.after_closing(at),
            "}" => return at,
            _ => at += 1,
        }
    }
    at
}

/// The path of `mod name;` at an index, without an ending.
fn module_of(product: &Product, mut at: usize) -> Option<String> {
    while product.text(at) == "#" {
        at = product.after_closing(at + 1);
    }
    if product.text(at) == "pub" {
        at += 1;
        if product.text(at) == "(" {
            at = product.after_closing(at);
        }
    }
    let folder = Path::new(&product.path).parent()?;
    let stem = Path::new(&product.path).file_stem()?.to_str()?;
    let folder =
        if ["mod", "lib", "main"].contains(&stem) { folder.to_owned() } else { folder.join(stem) };
    let is_file = product.text(at) == "mod" && product.text(at + 2) == ";";
    is_file.then(|| folder.join(product.text(at + 1)).to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_documentation_and_tests_are_no_product() {
        let text = "//! What.\n\nuse a::b; // why\n/// A.\n#[derive(A)]\npub fn f() {\n\n}\n\
                    #[cfg(test)]\nmod tests {\n fn g() {}\n}\n#[cfg(test)]\nmod naive;\nfn h() {}\n";
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let files = read_product(vec![
            file("src/x/mod.rs", text),
            file("src/x/naive.rs", "fn n() {}"),
            file("src/x/naive/deep.rs", "fn n() {}"),
        ]);
        let paths: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["src/x/mod.rs"]);
        assert_eq!(files[0].lines(), 5);
    }
}

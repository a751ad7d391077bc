//! Which file uses an item that another file defines, read with `syn`.
//!
//! A path in a `use` or in code is followed through modules, imports and re-exports to the file that
//! defines its item. These give no edge: test code; a `mod`; a module that is named without an item of
//! it; a re-export of an item that is defined below the re-exporting module.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// Names from the root of the crate to a module; the root has none.
type ModulePath = Vec<String>;

/// From a file to a file that defines something it uses.
pub(crate) type Edges = BTreeMap<String, BTreeSet<String>>;

/// A path as it is written, and whether it only re-exports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Written {
    names: Vec<String>,
    is_reexport: bool,
}

/// A module of a file, or one within braces.
#[derive(Debug, Default)]
struct Module {
    file: String,
    /// What is defined here, and so ends a path.
    items: BTreeSet<String>,
    /// Each name that an import brings into scope, with the path behind it.
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    written: BTreeSet<Written>,
}

/// The modules of a crate without its test code.
#[derive(Debug, Default)]
pub(crate) struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

/// What a path leads to.
enum Target {
    Module(ModulePath),
    /// An item, by the module that defines it.
    Item(ModulePath),
}

/// Imports that refer to each other end here.
const DEPTH_MAX: usize = 32;

impl Crate {
    /// Follows the `mod` lines from `root`, such as `src/lib.rs`. `read` has the text of each file, or
    /// `None` where there is no such file.
    pub(crate) fn load(root: &str, read: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut found = Self::default();
        let text = read(root).unwrap_or_else(|| panic!("{root} is missing"));
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let file = Place { path: root.to_owned(), folder };
        found.add(Vec::new(), &file, &parse(root, &text), read);
        found
    }

    fn add(
        &mut self,
        path: ModulePath,
        place: &Place,
        items: &[syn::Item],
        read: &dyn Fn(&str) -> Option<String>,
    ) {
        let mut module = Module { file: place.path.clone(), ..Module::default() };
        for item in items.iter().filter(|item| !is_test_code(attributes(item))) {
            if let Some(name) = defined(item) {
                module.items.insert(name);
            }
            let syn::Item::Mod(child) = item else {
                Reader { module: &mut module, is_top: true }.visit_item(item);
                continue;
            };
            let name = child.ident.to_string();
            let below = [path.clone(), vec![name.clone()]].concat();
            let folder = below_folder(&place.folder, &name);
            if let Some((_, items)) = &child.content {
                self.add(below, &Place { path: place.path.clone(), folder }, items, read);
                continue;
            }
            let candidates = [format!("{folder}.rs"), format!("{folder}/mod.rs")];
            let file = candidates.into_iter().find_map(|file| Some((read(&file)?, file)));
            let (text, file) = file.unwrap_or_else(|| panic!("{} has no file {name}", place.path));
            let items = parse(&file, &text);
            self.add(below, &Place { path: file, folder }, &items, read);
        }
        self.modules.insert(path, module);
    }

    /// Each file with those that define what it uses.
    pub(crate) fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (path, module) in &self.modules {
            let uses = edges.entry(module.file.clone()).or_default();
            for written in &module.written {
                let Some(Target::Item(definer)) = self.resolve(path, &written.names, 0) else {
                    continue;
                };
                let is_own_child = written.is_reexport && definer.starts_with(path);
                let file = &self.modules[&definer].file;
                if !is_own_child && *file != module.file {
                    uses.insert(file.clone());
                }
            }
        }
        edges
    }

    /// Each file with the modules of the root that its paths name, whoever defines what they lead to.
    pub(crate) fn named_from_root(&self) -> Edges {
        let mut named = Edges::new();
        for (path, module) in &self.modules {
            let names = named.entry(module.file.clone()).or_default();
            let absolute = module.written.iter().filter_map(|use_| absolute(path, &use_.names));
            names.extend(absolute.filter_map(|path| path.first().cloned()));
        }
        named
    }

    /// Follows a path that is written in a module; `None` where it leaves the crate.
    fn resolve(&self, from: &[String], names: &[String], depth: usize) -> Option<Target> {
        let first = names.first()?;
        if let Some((start, rest)) = start(from, names) {
            return self.descend(start, rest, depth);
        }
        self.lookup(from, first, &names[1..], depth)
    }

    /// Follows the names below a module.
    fn descend(&self, module: ModulePath, names: &[String], depth: usize) -> Option<Target> {
        self.modules.get(&module)?;
        match names.split_first() {
            None => Some(Target::Module(module)),
            Some((name, rest)) => self.lookup(&module, name, rest, depth),
        }
    }

    /// Follows a name that is in scope in a module, and the names behind it.
    fn lookup(
        &self,
        from: &[String],
        name: &String,
        rest: &[String],
        depth: usize,
    ) -> Option<Target> {
        let module = self.modules.get(from).filter(|_| depth < DEPTH_MAX)?;
        let child = [from, std::slice::from_ref(name)].concat();
        let is_child = self.modules.contains_key(&child);
        // A module and an item can have one name: only the module goes on.
        if module.items.contains(name) && (rest.is_empty() || !is_child) {
            return Some(Target::Item(from.to_vec()));
        }
        let behind = |path: &Vec<String>| [path.as_slice(), rest].concat();
        if let Some(path) = module.imports.get(name) {
            // An import of an external crate under the name of a module is not followed to itself.
            let path = behind(path);
            if let Some(target) = self.resolve_import(from, &path, depth + 1) {
                return Some(target);
            }
        }
        if is_child {
            return self.descend(child, rest, depth + 1);
        }
        module.globs.iter().find_map(|glob| {
            let Some(Target::Module(module)) = self.resolve_import(from, glob, depth + 1) else {
                return None;
            };
            // A glob of the module itself or of one above it does not lead back here.
            let rest = [std::slice::from_ref(name), rest].concat();
            (module != from).then(|| self.descend(module, &rest, depth + 1)).flatten()
        })
    }

    /// As [`Self::resolve`], for the path of an import: `use a::a` does not mean itself.
    fn resolve_import(&self, from: &[String], names: &[String], depth: usize) -> Option<Target> {
        let (first, rest) = names.split_first()?;
        if self
            .modules
            .get(from)?
            .imports
            .get(first)
            .is_some_and(|path| path.first() == Some(first))
        {
            let child = [from, std::slice::from_ref(first)].concat();
            return self.descend(child, rest, depth);
        }
        self.resolve(from, names, depth)
    }
}

/// A file, and the folder that its children are in.
struct Place {
    path: String,
    folder: String,
}

fn below_folder(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn parse(file: &str, text: &str) -> Vec<syn::Item> {
    syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}")).items
}

/// The module in which a path with `crate`, `self` or `super` begins, and its other names.
fn start<'a>(from: &[String], names: &'a [String]) -> Option<(ModulePath, &'a [String])> {
    match names.first()?.as_str() {
        "crate" => Some((Vec::new(), &names[1..])),
        "self" | "super" => {
            let names = names.strip_prefix(&["self".to_owned()]).unwrap_or(names);
            let up = names.iter().take_while(|name| *name == "super").count();
            Some((from[..from.len().checked_sub(up)?].to_vec(), &names[up..]))
        }
        _ => None,
    }
}

fn absolute(from: &[String], names: &[String]) -> Option<ModulePath> {
    let (start, rest) = start(from, names)?;
    Some([start.as_slice(), rest].concat())
}

fn is_test_code(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_test = |list: &syn::MetaList| list.tokens.to_string() == "test";
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(is_test)
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "syn may add kinds of items at any time")]
fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::ExternCrate(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::ForeignMod(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::TraitAlias(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name that an item defines in its module.
#[expect(clippy::wildcard_enum_match_arm, reason = "syn may add kinds of items at any time")]
fn defined(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::TraitAlias(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// Collects the paths of one module.
struct Reader<'a> {
    module: &'a mut Module,
    /// Outside every function: a `use` here is in scope in the whole module.
    is_top: bool,
}

impl Reader<'_> {
    fn write(&mut self, names: Vec<String>, is_reexport: bool) {
        self.module.written.insert(Written { names, is_reexport });
    }

    /// Each leaf of a `use`.
    fn import(&mut self, before: &[String], tree: &syn::UseTree, is_reexport: bool) {
        let path = |name: &syn::Ident| match name.to_string().as_str() {
            "self" if !before.is_empty() => before.to_vec(),
            name => [before, &[name.to_owned()]].concat(),
        };
        match tree {
            syn::UseTree::Path(tree) => {
                self.import(&path(&tree.ident), &tree.tree, is_reexport);
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(before, tree, is_reexport);
                }
            }
            syn::UseTree::Name(name) => {
                let path = path(&name.ident);
                let name = path.last().cloned().unwrap_or_default();
                self.bring(name, path, is_reexport);
            }
            syn::UseTree::Rename(name) => {
                self.bring(name.rename.to_string(), path(&name.ident), is_reexport);
            }
            syn::UseTree::Glob(_) => {
                // Of an enum or a trait this names the item; of a module it names nothing.
                self.write(before.to_vec(), is_reexport);
                self.module.globs.push(before.to_vec());
            }
        }
    }

    fn bring(&mut self, name: String, path: Vec<String>, is_reexport: bool) {
        self.write(path.clone(), is_reexport);
        if self.is_top {
            self.module.imports.insert(name, path);
        }
    }

    /// The paths in the tokens of a macro or an attribute, which have no other grammar.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut names: Vec<String> = Vec::new();
        let mut colons = 0;
        let mut is_field = false;
        for token in tokens {
            match token {
                TokenTree::Ident(name) if colons == 2 && !names.is_empty() => {
                    names.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Ident(name) => {
                    self.end(&mut names);
                    if !is_field && colons < 2 {
                        names.push(name.to_string());
                    }
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.end(&mut names);
                    colons = 0;
                    self.tokens(group.stream());
                }
                TokenTree::Punct(mark) => {
                    self.end(&mut names);
                    colons = 0;
                    is_field = mark.as_char() == '.';
                    continue;
                }
                TokenTree::Literal(_) => {
                    self.end(&mut names);
                    colons = 0;
                }
            }
            is_field = false;
        }
        self.end(&mut names);
    }

    fn end(&mut self, names: &mut Vec<String>) {
        if !names.is_empty() {
            self.write(std::mem::take(names), false);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_code(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            let is_reexport = !matches!(item.vis, syn::Visibility::Inherited);
            self.import(&[], &item.tree, is_reexport);
        }
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        let outside = std::mem::replace(&mut self.is_top, false);
        visit::visit_block(self, block);
        self.is_top = outside;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test_code(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_test_code(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, value: &'ast syn::FieldValue) {
        if !is_test_code(&value.attrs) {
            visit::visit_field_value(self, value);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_test_code(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_expr_block(&mut self, block: &'ast syn::ExprBlock) {
        if !is_test_code(&block.attrs) {
            visit::visit_expr_block(self, block);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.write(path.segments.iter().map(|part| part.ident.to_string()).collect(), false);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_meta_list(&mut self, list: &'ast syn::MetaList) {
        self.tokens(list.tokens.clone());
        visit::visit_meta_list(self, list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the files of a small crate use of each other, `from -> to`.
    fn uses(files: &[(&str, &str)]) -> Vec<String> {
        let read = |path: &str| {
            files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
        };
        let edges = Crate::load("lib.rs", &read).edges();
        let lines = edges.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
        lines.map(|(from, to)| format!("{from} -> {to}")).collect()
    }

    /// What `code` in `a/mod.rs` uses, next to `a/child.rs`, `b/mod.rs`, `b/inner.rs` and `c.rs`.
    fn uses_of(code: &str) -> Vec<String> {
        uses(&[
            ("lib.rs", "mod a; mod b; mod c; pub use b::Thing as Public;"),
            ("a/mod.rs", &format!("pub mod child; {code}")),
            ("a/child.rs", "pub struct Child; pub fn make() {}"),
            (
                "b/mod.rs",
                "mod inner; pub use inner::{Thing, Kind}; pub use self::inner::call as run;",
            ),
            ("b/inner.rs", "pub struct Thing; pub enum Kind { One } pub fn call() {}"),
            ("c.rs", "pub struct Other; pub const LIMIT: u8 = 1; pub trait Able {}"),
        ])
    }

    #[test]
    fn every_way_of_writing_an_import_leads_to_the_file_that_defines_the_item() {
        let inner: &[&str] = &["a/mod.rs -> b/inner.rs"];
        let other: &[&str] = &["a/mod.rs -> c.rs"];
        let child: &[&str] = &["a/mod.rs -> a/child.rs"];
        let both: &[&str] = &["a/mod.rs -> b/inner.rs", "a/mod.rs -> c.rs"];
        for (code, expected) in [
            ("use crate::c::Other;", other),
            ("use super::c::Other;", other),
            ("use self::super::c::Other;", other),
            ("use super::c::Other as Renamed;", other),
            ("pub(crate) use crate::c::Other;", other),
            ("use crate::b::Thing;", inner),
            ("use crate::b::run;", inner),
            ("use crate::Public;", inner),
            ("use crate::b::Kind::One;", inner),
            ("use crate::b::Kind::*;", inner),
            ("use crate::b::Kind::{self, One};", inner),
            ("use crate::{b::{self, Thing}, c::Other};", both),
            ("use super::{b::*, c::*}; fn f(_: Thing) -> u8 { LIMIT }", both),
            ("use self::child::Child;", child),
            ("use child::Child;", child),
        ] {
            assert_eq!(uses_of(code), expected, "{code}");
        }
    }

    #[test]
    fn a_path_in_code_leads_to_the_file_that_defines_the_item() {
        let inner: &[&str] = &["a/mod.rs -> b/inner.rs"];
        let other: &[&str] = &["a/mod.rs -> c.rs"];
        let child: &[&str] = &["a/mod.rs -> a/child.rs"];
        for (code, expected) in [
            ("fn f() -> u8 { crate::c::LIMIT }", other),
            ("fn f(_: super::c::Other) {}", other),
            ("use crate::c; fn f() -> u8 { c::LIMIT }", other),
            ("use crate::c as renamed; fn f() -> u8 { renamed::LIMIT }", other),
            ("use crate::b; fn f() { b::run() }", inner),
            ("fn f() { let _ = crate::b::Kind::One; }", inner),
            ("fn f() { use crate::b::Thing; }", inner),
            ("impl crate::c::Able for u8 {}", other),
            ("type T = Vec<crate::c::Other>;", other),
            ("fn f() { assert!(x == y[crate::c::LIMIT]); }", other),
            ("macro_rules! m { () => { $crate::b::run() } }", inner),
            ("#[derive(Debug)] #[route(body = crate::b::Thing)] struct S;", inner),
            ("mod within { fn f() -> u8 { super::super::c::LIMIT } }", other),
            ("fn f() { child::make() }", child),
            ("fn f() { self::child::make() }", child),
        ] {
            assert_eq!(uses_of(code), expected, "{code}");
        }
    }

    #[test]
    fn these_are_no_uses() {
        for code in [
            "",
            "pub use child::Child;",
            "pub(crate) use self::child::{Child, make};",
            "pub use crate::a::child::*;",
            "use crate::b;",
            "use crate::{b::{self}, c as renamed};",
            "use std::fmt; use ::c::Other; use outside::c::LIMIT;",
            "pub(in crate::a) struct S;",
            "/// See [`crate::c::Other`].\nfn f() { /* crate::c::LIMIT */ }",
            "fn f() { let s = \"crate::c::LIMIT\"; }",
            "#[cfg(test)] use crate::c::Other;",
            "#[cfg(test)] mod tests { use crate::c::Other; }",
            "#[cfg(test)] mod tests;",
            "#[test] fn f() { crate::b::run() }",
            "struct S { #[cfg(test)] field: crate::c::Other }",
            "impl u8 { #[cfg(test)] fn f() -> u8 { crate::c::LIMIT } }",
            "fn f() { #[cfg(test)] let x = crate::c::LIMIT; }",
        ] {
            assert_eq!(uses_of(code), Vec::<String>::new(), "{code}");
        }
    }

    #[test]
    fn a_child_uses_what_its_parent_defines() {
        let found = uses(&[
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod child; pub struct Parent(child::Child);"),
            ("a/child.rs", "use super::Parent; pub struct Child;"),
        ]);
        assert_eq!(found, ["a/child.rs -> a/mod.rs", "a/mod.rs -> a/child.rs"]);
    }

    #[test]
    fn a_reexport_that_its_own_file_uses_is_a_use() {
        let code = "pub use child::Child; fn f(_: Child) {}";
        assert_eq!(uses_of(code), ["a/mod.rs -> a/child.rs"]);
    }

    #[test]
    fn modules_are_named_by_their_first_name_below_the_root() {
        let files = [
            ("lib.rs", "mod a; mod c;"),
            ("a.rs", "use crate::{c::Other}; fn f() { super::c::run() } use std::fmt;"),
            ("c.rs", "pub use super::a::f;"),
        ];
        let read = |path: &str| {
            files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
        };
        let named = Crate::load("lib.rs", &read).named_from_root();
        assert!(named["a.rs"].contains("c") && !named["a.rs"].contains("std"), "{named:?}");
        assert!(named["c.rs"].contains("a"), "{named:?}");
    }
}

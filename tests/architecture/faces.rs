//! Small faces: each public name of a member crate is named outside it, and what only tests name is there only for tests.
//!
//! Names are compared as words of code: one that is common elsewhere counts as named. A type in the signature of another
//! public item needs no other use.

#![expect(clippy::wildcard_enum_match_arm, reason = "syn adds kinds of items")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::Visibility;
use syn::visit::{self, Visit};

use crate::root;

/// What gtop-ssh and gtop name for other programs, because their functions take or return it.
const PROMISED: &[&str] = &[
    "KnownHostName",
    "MasterLogin",
    "Stream",
    "CancelGuard",
    "CancellableStream",
    "ParseMetricError",
];

/// A public name: of an item, of a module, or of a method or constant of a type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    text: String,
    file: PathBuf,
    /// It exists only with the feature `testing`.
    is_for_tests: bool,
    is_module: bool,
}

/// How often words occur in code, except in imports.
#[derive(Default)]
struct Words {
    program: BTreeMap<String, usize>,
    /// In tests, and in what exists only for them.
    tests: BTreeMap<String, usize>,
    /// In imports, of tests or not.
    imports: BTreeSet<String>,
}

/// A member crate.
struct Member {
    name: String,
    /// The names that lead to items.
    face: BTreeSet<Name>,
    /// The public methods and constants of its types.
    methods: BTreeSet<Name>,
    /// The types in public signatures and fields.
    shown_types: BTreeSet<String>,
    /// The words of exported macros, which occur wherever these are expanded.
    macro_words: Words,
    words: Words,
}

/// What is wrong with a public name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Complaint {
    /// Nobody outside names it.
    Unused,
    /// Only tests name it, the crate itself included.
    OnlyTests,
}

/// Returns true if a condition holds only in tests.
fn is_test_condition(condition: &str) -> bool {
    let condition: String = condition.split_whitespace().collect();
    ["test", "feature=\"testing\"", "any(test,feature=\"testing\")"].contains(&&*condition)
}

/// Returns the condition of `#[cfg]`.
fn conditions(attributes: &[syn::Attribute]) -> impl Iterator<Item = String> {
    attributes.iter().filter_map(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => Some(list.tokens.to_string()),
        _ => None,
    })
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    conditions(attributes).any(|condition| is_test_condition(&condition))
}

fn is_own_test(attributes: &[syn::Attribute]) -> bool {
    conditions(attributes).any(|condition| condition == "test")
}

fn is_exported(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("macro_export"))
}

fn parse(file: &Path) -> syn::File {
    syn::parse_file(&fs::read_to_string(file).unwrap()).unwrap()
}

/// Returns the attributes, the visibility and the name of an item that can be public.
fn described(item: &syn::Item) -> Option<(&[syn::Attribute], &Visibility, Option<&syn::Ident>)> {
    Some(match item {
        syn::Item::Const(item) => (&item.attrs, &item.vis, Some(&item.ident)),
        syn::Item::Enum(item) => (&item.attrs, &item.vis, Some(&item.ident)),
        syn::Item::Fn(item) => (&item.attrs, &item.vis, Some(&item.sig.ident)),
        syn::Item::Macro(item) => (&item.attrs, &Visibility::Inherited, item.ident.as_ref()),
        syn::Item::Mod(item) => (&item.attrs, &item.vis, Some(&item.ident)),
        syn::Item::Static(item) => (&item.attrs, &item.vis, Some(&item.ident)),
        syn::Item::Struct(item) => (&item.attrs, &item.vis, Some(&item.ident)),
        syn::Item::Trait(item) => (&item.attrs, &item.vis, Some(&item.ident)),
        syn::Item::Type(item) => (&item.attrs, &item.vis, Some(&item.ident)),
        syn::Item::Use(item) => (&item.attrs, &item.vis, None),
        _ => return None,
    })
}

/// Returns the file of a module that another declares.
fn module_file(parent: &Path, name: &str) -> PathBuf {
    let is_root = parent.ends_with("lib.rs") || parent.ends_with("main.rs");
    let folder = if is_root { parent.parent().unwrap().into() } else { parent.with_extension("") };
    folder.join(name).with_extension("rs")
}

/// Collects the names that lead to the items of a crate: from its root, through public modules and re-exports.
#[derive(Default)]
struct Face(BTreeSet<Name>);

impl Face {
    fn add_items(&mut self, file: &Path, items: &[syn::Item], is_in_tests: bool) {
        for item in items {
            let Some((attributes, visibility, name)) = described(item) else { continue };
            let is_public = is_exported(attributes) || matches!(visibility, Visibility::Public(_));
            if !is_public || is_own_test(attributes) {
                continue;
            }
            let is_for_tests = is_in_tests || is_for_tests(attributes);
            match item {
                syn::Item::Use(import) => self.add_import(file, file, &import.tree, is_for_tests),
                syn::Item::Mod(module) => match &module.content {
                    Some((_, items)) => {
                        self.add_module_name(file, module.ident.to_string(), is_for_tests);
                        self.add_items(file, items, is_for_tests);
                    }
                    None => self.add_module(file, &module.ident.to_string(), is_for_tests),
                },
                _ => self.add(file, name.unwrap().to_string(), is_for_tests),
            }
        }
    }

    fn add(&mut self, file: &Path, text: String, is_for_tests: bool) {
        self.0.insert(Name { text, file: file.to_owned(), is_for_tests, is_module: false });
    }

    fn add_module_name(&mut self, file: &Path, text: String, is_for_tests: bool) {
        self.0.insert(Name { text, file: file.to_owned(), is_for_tests, is_module: true });
    }

    fn add_module(&mut self, parent: &Path, name: &str, is_for_tests: bool) {
        self.add_module_name(parent, name.to_owned(), is_for_tests);
        let file = module_file(parent, name);
        self.add_items(&file, &parse(&file).items, is_for_tests);
    }

    /// Adds what is re-exported in a file; `from` is that of the module that the path has led to.
    fn add_import(&mut self, file: &Path, from: &Path, tree: &syn::UseTree, is_for_tests: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                let from = module_file(from, &path.ident.to_string());
                self.add_import(file, &from, &path.tree, is_for_tests);
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_import(file, from, tree, is_for_tests);
                }
            }
            syn::UseTree::Name(name) if module_file(from, &name.ident.to_string()).exists() => {
                self.add_module(from, &name.ident.to_string(), is_for_tests);
            }
            syn::UseTree::Name(name) => self.add(file, name.ident.to_string(), is_for_tests),
            syn::UseTree::Rename(name) => self.add(file, name.rename.to_string(), is_for_tests),
            // Nobody names it so: a face lists what it shows.
            syn::UseTree::Glob(_) => self.add(file, "*".to_owned(), is_for_tests),
        }
    }
}

/// Collects the public methods and constants of the types in a file, and the types in public signatures and fields.
struct Methods {
    file: PathBuf,
    is_for_tests: bool,
    names: BTreeSet<Name>,
    shown_types: BTreeSet<String>,
    macro_words: Words,
}

impl Methods {
    fn add(&mut self, name: &syn::Ident, attributes: &[syn::Attribute]) {
        if !is_own_test(attributes) {
            let is_for_tests = self.is_for_tests || is_for_tests(attributes);
            let (text, file) = (name.to_string(), self.file.clone());
            self.names.insert(Name { text, file, is_for_tests, is_module: false });
        }
    }

    fn show_types(&mut self, visit: impl FnOnce(&mut Types)) {
        let mut types = Types(std::mem::take(&mut self.shown_types));
        visit(&mut types);
        self.shown_types = types.0;
    }
}

/// Collects the words of types.
struct Types(BTreeSet<String>);

impl<'ast> Visit<'ast> for Types {
    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        self.0.insert(segment.ident.to_string());
        visit::visit_path_segment(self, segment);
    }
}

impl<'ast> Visit<'ast> for Methods {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Impl(item) => &item.attrs[..],
            _ => described(item).map_or(&[][..], |(attributes, ..)| attributes),
        };
        if is_own_test(attributes) {
            return;
        }
        let before = self.is_for_tests;
        self.is_for_tests |= is_for_tests(attributes);
        match item {
            syn::Item::Fn(item) if matches!(item.vis, Visibility::Public(_)) => {
                self.show_types(|types| types.visit_signature(&item.sig));
            }
            syn::Item::Const(item) if matches!(item.vis, Visibility::Public(_)) => {
                self.show_types(|types| types.visit_type(&item.ty));
            }
            syn::Item::Macro(item) if is_exported(&item.attrs) => {
                self.macro_words.add(item.mac.tokens.clone(), false);
            }
            // Its variants are as public as it is.
            syn::Item::Enum(item) if matches!(item.vis, Visibility::Public(_)) => {
                self.show_types(|types| types.visit_item_enum(item));
            }
            _ => visit::visit_item(self, item),
        }
        self.is_for_tests = before;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if matches!(item.vis, Visibility::Public(_)) {
            self.add(&item.sig.ident, &item.attrs);
            self.show_types(|types| types.visit_signature(&item.sig));
        }
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        if matches!(item.vis, Visibility::Public(_)) {
            self.add(&item.ident, &item.attrs);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if matches!(field.vis, Visibility::Public(_)) {
            self.show_types(|types| types.visit_type(&field.ty));
        }
    }
}

impl Words {
    fn add_file(&mut self, file: &Path, is_test: bool) {
        self.add(fs::read_to_string(file).unwrap().parse().unwrap(), is_test);
    }

    fn add(&mut self, code: TokenStream, is_test: bool) {
        let mut tokens = code.into_iter().peekable();
        // From the attribute of an item that only tests have to the item's end; and from `use` to its end.
        let (mut is_in_test_item, mut is_in_import) = (false, false);
        while let Some(token) = tokens.next() {
            let is_test = is_test || is_in_test_item;
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    let attribute = tokens.peek().map(ToString::to_string).unwrap_or_default();
                    let attribute: String = attribute.split_whitespace().collect();
                    let condition = attribute.strip_prefix("[cfg(").unwrap_or_default();
                    is_in_test_item |= condition.strip_suffix(")]").is_some_and(is_test_condition);
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => {
                    (is_in_test_item, is_in_import) = (false, false);
                }
                TokenTree::Punct(_) => {}
                TokenTree::Group(group) if is_in_import => self.add_imported(group.stream()),
                TokenTree::Group(group) => {
                    self.add(group.stream(), is_test);
                    is_in_test_item &= group.delimiter() != Delimiter::Brace;
                }
                TokenTree::Ident(word) if word == "use" => {
                    // `use<…>` names what a future captures.
                    let next = tokens.peek().map(ToString::to_string);
                    is_in_import = next.is_none_or(|next| next != "<");
                }
                TokenTree::Ident(word) if is_in_import => self.imports.extend([word.to_string()]),
                TokenTree::Ident(word) => self.insert(&word.to_string(), is_test),
                // The words in the braces of a text that is formatted.
                TokenTree::Literal(literal) => {
                    for part in literal.to_string().split('{').skip(1) {
                        let end = |letter: char| !letter.is_alphanumeric() && letter != '_';
                        self.insert(part.split(end).next().unwrap_or_default(), is_test);
                    }
                }
            }
        }
    }

    /// Adds the words in the braces of an import.
    fn add_imported(&mut self, names: TokenStream) {
        for token in names {
            match token {
                TokenTree::Group(group) => self.add_imported(group.stream()),
                TokenTree::Ident(word) => self.imports.extend([word.to_string()]),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    fn insert(&mut self, word: &str, is_test: bool) {
        let words = if is_test { &mut self.tests } else { &mut self.program };
        *words.entry(word.to_owned()).or_default() += 1;
    }
}

/// Returns the Rust files of a folder.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// Returns the files of a crate that only tests have.
fn test_files(root: &Path) -> BTreeSet<PathBuf> {
    let (mut found, mut open) = (BTreeSet::new(), vec![(root.to_owned(), false)]);
    while let Some((file, is_in_tests)) = open.pop() {
        for item in &parse(&file).items {
            if let syn::Item::Mod(syn::ItemMod { attrs, ident, content: None, .. }) = item {
                let child = module_file(&file, &ident.to_string());
                open.push((child, is_in_tests || is_for_tests(attrs)));
            }
        }
        if is_in_tests {
            found.insert(file);
        }
    }
    found
}

fn member(folder: &Path) -> Member {
    let source = folder.join("src");
    let library = source.join("lib.rs");
    let mut face = Face::default();
    face.add_items(&library, &parse(&library).items, false);
    let tests = test_files(&library);
    let mut member = Member {
        name: folder.file_name().unwrap().to_string_lossy().into_owned(),
        face: face.0,
        methods: BTreeSet::new(),
        shown_types: BTreeSet::new(),
        macro_words: Words::default(),
        words: Words::default(),
    };
    for file in rust_files(&source) {
        let is_for_tests = tests.contains(&file);
        member.words.add_file(&file, is_for_tests);
        let code = parse(&file);
        let (names, shown_types) = (BTreeSet::new(), BTreeSet::new());
        let macro_words = std::mem::take(&mut member.macro_words);
        let mut methods = Methods { file, is_for_tests, names, shown_types, macro_words };
        methods.visit_file(&code);
        member.methods.extend(methods.names);
        member.shown_types.extend(methods.shown_types);
        member.macro_words = methods.macro_words;
    }
    member
}

/// Returns the words of the root package, its tests, benches and examples included.
fn root_words(root: &Path) -> Words {
    let mut words = Words::default();
    let source = root.join("src");
    let tests = test_files(&source.join("lib.rs"));
    for file in rust_files(&source) {
        words.add_file(&file, tests.contains(&file));
    }
    for (folder, is_test) in [("examples", false), ("tests", true), ("benches", true)] {
        for file in rust_files(&root.join(folder)) {
            words.add_file(&file, is_test);
        }
    }
    words
}

impl Member {
    /// Returns what is wrong with a name, if these are the words of all other crates.
    fn complaint(&self, name: &Name, others: &[&Words]) -> Option<Complaint> {
        let Name { text, is_for_tests, is_module, .. } = name;
        if *is_module && others.iter().any(|words| words.imports.contains(text)) {
            return None;
        }
        let is_promised = PROMISED.contains(&text.as_str());
        let is_expanded = self.macro_words.program.contains_key(text);
        if is_promised || is_expanded || others.iter().any(|words| words.program.contains_key(text))
        {
            return None;
        }
        if !others.iter().any(|words| words.tests.contains_key(text)) {
            let is_shown = self.shown_types.contains(text) && declares(&name.file, text);
            return (!is_shown).then_some(Complaint::Unused);
        }
        let is_used = self.words.program.get(text).is_some_and(|count| *count > 1);
        (!is_used && !is_for_tests).then_some(Complaint::OnlyTests)
    }
}

/// Returns true if a file declares an item; what it only re-exports need not be named.
fn declares(file: &Path, name: &str) -> bool {
    let is_named = |item: &syn::Item| {
        described(item).and_then(|(.., ident)| ident).is_some_and(|ident| ident == name)
    };
    parse(file).items.iter().any(is_named)
}

/// Returns what is wrong with the public names of the members, one a line.
fn complaints(root: &Path) -> String {
    let folders = fs::read_dir(root.join("crates")).unwrap();
    let members: Vec<Member> = folders.map(|folder| member(&folder.unwrap().path())).collect();
    let own = root_words(root);
    let mut wrong = String::new();
    for member in &members {
        let others = members.iter().filter(|other| other.name != member.name);
        let others: Vec<&Words> = others.map(|other| &other.words).chain([&own]).collect();
        for name in member.face.iter().chain(&member.methods) {
            if let Some(complaint) = member.complaint(name, &others) {
                let file = name.file.strip_prefix(root).unwrap().display();
                writeln!(wrong, "{file}: {}: {complaint:?}", name.text).unwrap();
            }
        }
    }
    wrong
}

#[test]
fn what_a_crate_shows_is_used_outside() {
    let wrong = complaints(root());
    assert!(wrong.is_empty(), "public, and not used as such:\n{wrong}");
}

/// Returns the complaints about a member `one` with this root and this module, used by a program and by tests.
fn complaints_about(library: &str, module: &str, program: &str, tests: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let program = format!("#[cfg(test)] mod tests {{ fn test() {{ test_inside() }} }} {program}");
    for (name, text) in [
        ("crates/one/src/lib.rs", library),
        ("crates/one/src/inner.rs", module),
        ("src/lib.rs", &program),
        ("tests/main.rs", tests),
    ] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    complaints(folder.path())
}

#[test]
fn a_name_that_nobody_uses_is_found_however_it_is_shown() {
    let unused = |library: &str, module: &str| {
        let found = complaints_about(library, module, "// left(), fn main() {}", "");
        assert!(found.contains("left: Unused"), "{library} {module}: {found}");
    };
    unused("mod inner; pub fn left() {}", "");
    unused("mod inner; pub mod left {}", "");
    unused("pub mod inner;", "pub const left: u8 = 1;");
    unused("mod inner; pub use inner::left;", "pub fn left() {}");
    unused("mod inner; pub use crate::inner::{right as left};", "pub fn right() {}");

    unused("#[macro_export] macro_rules! left { () => {} } mod inner;", "");
    unused("mod inner; pub struct One; impl One { pub fn left() {} }", "");
    // Its own use, and a type in a signature that is only re-exported, are none.
    unused("mod inner; pub fn left() {} fn here() { left() }", "");
    let glob = complaints_about("mod inner; pub use inner::*;", "pub fn left() {}", "", "");
    assert_eq!(glob, "crates/one/src/lib.rs: *: Unused\n");
    unused("mod inner; pub use inner::left;", "pub struct left; pub fn right() -> left { left }");
}

#[test]
fn a_name_that_only_tests_use_is_found() {
    let found =
        |library: &str| complaints_about(library, "", "", "use one::left; fn main() { left() }");
    assert_eq!(found("mod inner; pub fn left() {}"), "crates/one/src/lib.rs: left: OnlyTests\n");
    assert_eq!(found("mod inner; #[cfg(feature = \"testing\")] pub fn left() {}"), "");
    assert_eq!(found("mod inner; pub fn left() {} fn here() { left() }"), "");
    let inside = "mod inner; pub fn test_inside() {}";
    assert_eq!(found(inside), "crates/one/src/lib.rs: test_inside: OnlyTests\n");
}

#[test]
fn a_name_that_is_used_is_left_alone() {
    for program in [
        "use one::left; fn main() { left() }",
        "fn main() { println!(\"{left}\", left = 1) }",
        "fn main() { println!(\"{left}\") }",
        "fn main() { format!(\"{}\", one::left) }",
    ] {
        let library = "mod inner; pub use inner::left;";
        assert_eq!(complaints_about(library, "pub fn left() {}", program, ""), "");
    }
    assert_eq!(complaints_about("pub mod inner;", "", "use one::inner;", ""), "");
    // A type that a public signature at the face needs.
    let library = "mod inner; pub struct One; pub fn left() -> Result<One, ()> { Ok(One) }";
    assert_eq!(complaints_about(library, "", "fn main() { left() }", ""), "");
    assert_eq!(complaints_about("mod inner; pub(crate) fn left() {}", "", "", ""), "");
}

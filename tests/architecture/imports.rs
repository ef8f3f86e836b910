//! The import graph of the workspace: which file uses which, by what it names.
//!
//! Parses every module with `syn`, collects the paths it names (imports, types, expressions, patterns, macro
//! arguments) and follows each to the file that defines its item, through re-exports and globs. Methods are not
//! resolved: a file that calls one gets the value from somewhere it names. Tests (`#[cfg(test)]`) are left out.

#![expect(clippy::wildcard_enum_match_arm, reason = "syn adds kinds of items")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// The segments of a path, such as `["crate", "fleet", "Node"]`; of a module with the name of its crate for `crate`.
type Segments = Vec<String>;

/// Re-exports followed before a path counts as unknown: a name may be imported from itself.
const MAX_DEPTH: usize = 16;

/// What one module declares and names.
#[derive(Default)]
struct Module {
    file: PathBuf,
    items: BTreeSet<String>,
    /// Imported names, with where each comes from.
    imports: BTreeMap<String, Vec<Segments>>,
    globs: Vec<Segments>,
    named: BTreeSet<Segments>,
}

/// What a path leads to: a module, or the file that declares an item.
enum Target {
    Module(Segments),
    Item(PathBuf),
}

/// Files, relative to the root of the sources, and the files each uses.
pub(crate) type Graph = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// Returns the import graph of the crates in a folder: of the one in `src`, and of those below `crates`.
pub(crate) fn graph(root: &Path) -> Graph {
    let mut modules = Modules::default();
    for krate in crates(root) {
        let folder = if krate == "gtop" { "src".into() } else { member_folder(&krate) };
        modules.read(root, &folder.join("lib.rs"), vec![krate]);
    }
    modules.graph()
}

/// Returns the names of the crates, as paths have them.
fn crates(root: &Path) -> Vec<String> {
    let members = fs::read_dir(root.join("crates")).into_iter().flatten();
    let names = members.map(|member| member.unwrap().file_name().to_string_lossy().into_owned());
    names.map(|name| format!("gtop_{name}")).chain(["gtop".to_owned()]).collect()
}

/// Returns the folder of the sources of a member.
fn member_folder(krate: &str) -> PathBuf {
    Path::new("crates").join(krate.trim_start_matches("gtop_")).join("src")
}

#[derive(Default)]
struct Modules(BTreeMap<Segments, Module>);

impl Modules {
    fn read(&mut self, root: &Path, file: &Path, path: Segments) {
        let text = fs::read_to_string(root.join(file)).unwrap();
        let parsed = syn::parse_file(&text).unwrap();
        self.add(root, file, path, &parsed.items);
    }

    /// Adds a module and those inside it.
    fn add(&mut self, root: &Path, file: &Path, path: Segments, items: &[syn::Item]) {
        let mut collector = Collector::default();
        for item in items {
            collector.visit_item(item);
        }
        for (name, items) in collector.children {
            let child = [path.clone(), vec![name.clone()]].concat();
            if let Some(items) = items {
                self.add(root, file, child, &items);
            } else {
                let is_root = path.len() == 1;
                let folder =
                    if is_root { file.parent().unwrap().into() } else { file.with_extension("") };
                self.read(root, &folder.join(name).with_extension("rs"), child);
            }
        }
        self.0.insert(path, Module { file: file.to_owned(), ..collector.module });
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph::new();
        for (path, module) in &self.0 {
            let used = graph.entry(module.file.clone()).or_default();
            let imports = module.imports.values().flatten();
            for named in imports.chain(&module.globs).chain(&module.named) {
                let file = match self.resolve(path, named, MAX_DEPTH) {
                    Some(Target::Module(module)) => self.file(&module),
                    Some(Target::Item(file)) => Some(file),
                    None => None,
                };
                if let Some(file) = file.filter(|file| *file != module.file) {
                    used.insert(file);
                }
            }
        }
        graph
    }

    fn file(&self, module: &Segments) -> Option<PathBuf> {
        Some(self.0.get(module)?.file.clone())
    }

    /// Follows a path named in a module; `None` for another crate, a local name or a primitive.
    fn resolve(&self, from: &Segments, path: &[String], depth: usize) -> Option<Target> {
        let depth = depth.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        let mut target = match first.as_str() {
            "crate" => Target::Module(vec![from.first()?.clone()]),
            "self" => Target::Module(from.clone()),
            "super" => Target::Module(from.split_last()?.1.to_vec()),
            name if self.0.contains_key(std::slice::from_ref(first)) => {
                Target::Module(vec![name.to_owned()])
            }
            name => self.find(from, name, depth)?,
        };
        for name in rest {
            target = match target {
                Target::Module(module) if name == "super" => {
                    Target::Module(module.split_last()?.1.to_vec())
                }
                Target::Module(module) if name == "self" => Target::Module(module),
                Target::Module(module) => match self.find(&module, name, depth) {
                    Some(found) => found,
                    // An item that a macro of the module declares.
                    None => return Some(Target::Item(self.file(&module)?)),
                },
                // A variant or an associated item.
                Target::Item(file) => return Some(Target::Item(file)),
            };
        }
        Some(target)
    }

    /// Finds a name in a module: an item of its own, a child, an import or what a glob brings in.
    fn find(&self, module: &Segments, name: &str, depth: usize) -> Option<Target> {
        let known = self.0.get(module)?;
        if known.items.contains(name) {
            return Some(Target::Item(known.file.clone()));
        }
        let child = [module.clone(), vec![name.to_owned()]].concat();
        if self.0.contains_key(&child) {
            return Some(Target::Module(child));
        }
        let mut imported = known.imports.get(name).into_iter().flatten();
        if let Some(target) = imported.find_map(|path| self.resolve(module, path, depth)) {
            return Some(target);
        }
        known.globs.iter().find_map(|glob| match self.resolve(module, glob, depth)? {
            Target::Module(from) if from != *module => {
                self.find(&from, name, depth.checked_sub(1)?)
            }
            Target::Module(_) | Target::Item(_) => None,
        })
    }
}

/// Collects what one module declares and names.
#[derive(Default)]
struct Collector {
    module: Module,
    /// Modules declared here, with their items where they are written in place.
    children: Vec<(String, Option<Vec<syn::Item>>)>,
}

impl Collector {
    fn import(&mut self, start: &Segments, tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [start.clone(), vec![name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.import(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => {
                let path = with(&name.ident);
                let own = if name.ident == "self" { start.last() } else { path.last() };
                self.module.imports.entry(own.cloned().unwrap_or_default()).or_default().push(path);
            }
            syn::UseTree::Rename(renamed) => {
                let name = renamed.rename.to_string();
                self.module.imports.entry(name).or_default().push(with(&renamed.ident));
            }
            syn::UseTree::Glob(_) => self.module.globs.push(start.clone()),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(start, tree);
                }
            }
        }
    }

    /// Collects the paths among the arguments of a macro, which no parser knows.
    fn collect_tokens(&mut self, tokens: TokenStream) {
        let mut path = Segments::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add_named(std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => self.collect_tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => colons = 0,
            }
        }
        self.add_named(path);
    }

    /// Adds a path; `crate` or `super` alone is a visibility.
    fn add_named(&mut self, path: Segments) {
        if !path.is_empty() && path != ["crate"] && path != ["super"] {
            self.module.named.insert(path);
        }
    }
}

/// Returns the name an item declares.
fn declared_name(item: &syn::Item) -> Option<&syn::Ident> {
    match item {
        syn::Item::Const(item) => Some(&item.ident),
        syn::Item::Enum(item) => Some(&item.ident),
        syn::Item::Fn(item) => Some(&item.sig.ident),
        syn::Item::Macro(item) => item.ident.as_ref(),
        syn::Item::Static(item) => Some(&item.ident),
        syn::Item::Struct(item) => Some(&item.ident),
        syn::Item::Trait(item) => Some(&item.ident),
        syn::Item::Type(item) => Some(&item.ident),
        _ => None,
    }
}

/// Returns true for what is compiled only with the tests.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string() == "test")
    })
}

/// Returns the attributes of an item.
fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test(attributes(item)) {
            return;
        }
        if let Some(name) = declared_name(item) {
            self.module.items.insert(name.to_string());
        }
        match item {
            syn::Item::Mod(module) => {
                let items = module.content.as_ref().map(|(_, items)| items.clone());
                self.children.push((module.ident.to_string(), items));
            }
            syn::Item::Use(import) => self.import(&Segments::new(), &import.tree),
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.module.named.insert(path.segments.iter().map(|part| part.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        visit::visit_macro(self, call);
        self.collect_tokens(call.tokens.clone());
    }

    /// A visibility such as `pub(in crate::fleet)` is no use of it.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

/// Returns the rings of a graph, largest first: keys each of which leads to all the others.
pub(crate) fn rings<Key: Ord + Clone>(graph: &BTreeMap<Key, BTreeSet<Key>>) -> Vec<BTreeSet<Key>> {
    let reached: BTreeMap<&Key, BTreeSet<&Key>> =
        graph.keys().map(|key| (key, reach(graph, key))).collect();
    let mut rings = BTreeSet::new();
    for (key, there) in &reached {
        let ring: BTreeSet<Key> = there
            .iter()
            .filter(|other| reached.get(**other).is_some_and(|back| back.contains(key)))
            .map(|other| (*other).clone())
            .collect();
        if ring.len() > 1 {
            rings.insert(ring);
        }
    }
    let mut rings: Vec<_> = rings.into_iter().collect();
    rings.sort_by_key(|ring| std::cmp::Reverse(ring.len()));
    rings
}

/// Returns the keys that a key leads to, in one or more steps.
fn reach<'graph, Key: Ord>(
    graph: &'graph BTreeMap<Key, BTreeSet<Key>>,
    key: &'graph Key,
) -> BTreeSet<&'graph Key> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![key];
    while let Some(next) = waiting.pop() {
        for other in graph.get(next).into_iter().flatten() {
            if reached.insert(other) {
                waiting.push(other);
            }
        }
    }
    reached
}

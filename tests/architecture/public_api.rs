//! What the crate shows to other programs, as text: `tests/golden/public-api.txt`. `BLESS=1` writes it anew.
//!
//! The sources are formatted: a declaration is found by how its line begins, and a body by its indentation. So the bodies of
//! macros are read, too.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display, Write as _};
use std::fs;
use std::str::Lines;

use gtop::{DeviceMetric, HostMetric, JobMetric, ProcessMetric};

use crate::{root, sources};

/// What a macro declares for each enum of metrics.
const EACH_METRIC: &str = "$metric";

/// Returns the names that the crate's root shows, as they are declared, each with the crate or module that has it.
fn shown_names(code: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::from([(EACH_METRIC.to_owned(), "gtop_fleet".to_owned())]);
    for item in syn::parse_file(code).unwrap().items {
        if let syn::Item::Use(import) = item
            && matches!(import.vis, syn::Visibility::Public(_))
            && let syn::UseTree::Path(path) = &import.tree
            && path.ident != "crate"
        {
            add_names(&path.tree, &path.ident.to_string(), &mut names);
        }
    }
    names
}

fn add_names(tree: &syn::UseTree, owner: &str, names: &mut BTreeMap<String, String>) {
    match tree {
        syn::UseTree::Path(path) => add_names(&path.tree, owner, names),
        syn::UseTree::Group(group) => {
            group.items.iter().for_each(|tree| add_names(tree, owner, names));
        }
        syn::UseTree::Name(syn::UseName { ident })
        | syn::UseTree::Rename(syn::UseRename { ident, .. }) => {
            names.insert(ident.to_string(), owner.to_owned());
        }
        // It fails the test: nothing is declared under this name.
        syn::UseTree::Glob(_) => drop(names.insert("*".to_owned(), owner.to_owned())),
    }
}

/// Returns the type that a header declares or implements something for.
fn type_in(header: &str) -> &str {
    let name = header.rsplit(" for ").next().unwrap();
    let name = name.strip_prefix("impl<'a>").unwrap_or(name).trim_start();
    let name = ["pub struct ", "pub enum ", "impl "]
        .iter()
        .find_map(|start| name.strip_prefix(start))
        .unwrap_or(name);
    name.split(['<', '(', ' ', ';']).next().unwrap()
}

/// Returns a header whose first line this is, up to one of these ends, in one line.
fn whole_header(first: &str, ends: &[char], lines: &mut Lines<'_>) -> String {
    let mut text = first.trim().to_owned();
    while !text.ends_with(ends) {
        let next = lines.next().unwrap().trim();
        let space = if text.ends_with(['(', '{']) { "" } else { " " };
        write!(text, "{space}{next}").unwrap();
    }
    text.trim_end_matches(['{', ';', ',', ' ']).replace(", }", "}").replace(",)", ")")
}

/// Returns a declaration without the value of a constant and without the private field of a tuple.
fn without_details(header: &str) -> &str {
    let is_value = !header.contains("fn ") && !header.contains("struct ");
    let value = header.find(" = ").filter(|_| is_value);
    let end = value.or_else(|| header.find('(').filter(|_| header.starts_with("pub struct ")));
    header.split_at(end.unwrap_or(header.len())).0
}

/// A declaration whose body is being read.
struct Body {
    indent: usize,
    is_shown: bool,
    /// Only implementations without a trait have public functions, and only enums variants.
    is_enum: bool,
}

/// Returns what a file declares of the shown types.
fn declarations(code: &str, is_shown: impl Fn(&str) -> bool) -> String {
    let mut lines = code.split("\nmod tests {").next().unwrap().lines();
    let (mut text, mut attributes, mut body) = (String::new(), String::new(), None::<Body>);
    while let Some(line) = lines.next() {
        let start = line.trim_start();
        let indent = line.len() - start.len();
        let is_type = start.starts_with("pub struct ") || start.starts_with("pub enum ");
        if start.starts_with("#[") {
            write!(attributes, "{start} ").unwrap();
            continue;
        }
        let is_hidden = attributes.contains("doc(hidden)") || attributes.contains("cfg(any(test");
        let shown_attributes: String = attributes
            .split_inclusive("] ")
            .filter(|text| {
                ["#[derive", "#[cfg", "#[non_ex"].iter().any(|start| text.starts_with(start))
            })
            .collect();
        if is_type || start.starts_with("impl") {
            let header = whole_header(line, &['{', ';', '}'], &mut lines);
            let is_shown = is_shown(type_in(&header));
            if is_shown {
                writeln!(text, "{shown_attributes}{}", without_details(&header)).unwrap();
            }
            let is_open = !line.ends_with([';', '}']);
            body = is_open.then_some(Body {
                indent,
                is_shown,
                is_enum: start.starts_with("pub enum "),
            });
        } else if let Some(Body { indent: outer, is_shown: true, is_enum }) = body {
            let is_function = start.starts_with("pub ") && !is_hidden;
            let is_variant =
                is_enum && start.starts_with(|letter: char| letter.is_ascii_uppercase());
            // A table has the functions that read it after the enum.
            if (indent == outer + 4 || (is_enum && indent == outer)) && (is_function || is_variant)
            {
                let is_code = start.contains("fn ") || start.contains(" const ");
                let ends: &[char] = if is_code { &['{', ';', '}'] } else { &[','] };
                let header = whole_header(line, ends, &mut lines);
                writeln!(text, "    {shown_attributes}{}", without_details(&header)).unwrap();
            } else if line.trim() == "}"
                && indent <= outer
                && !(is_enum && indent == outer && outer > 0)
            {
                body = None;
            }
        }
        if !start.starts_with("//") {
            attributes.clear();
        }
    }
    text
}

/// Lists the variants of an enum of metrics.
fn write_metrics<M: Debug + Display>(text: &mut String, name: &str, all: &[M]) {
    writeln!(text, "\n{EACH_METRIC} {name}").unwrap();
    for metric in all {
        writeln!(text, "    {metric:?} = {metric}").unwrap();
    }
}

#[test]
fn the_public_interface_is_as_blessed() {
    let code = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let names = shown_names(&code);
    let mut text =
        "# What the crate gtop shows. BLESS=1 cargo test --test architecture writes it anew.\n\n"
            .to_owned();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        // What it shows of `crate` is for its own program.
        if line.starts_with("pub use ") && !line.starts_with("pub use crate") {
            writeln!(text, "{}", whole_header(line, &[';'], &mut lines)).unwrap();
        }
    }
    let mut files = sources();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    for source in files {
        let owner = if source.module == "api" { "api" } else { "gtop_fleet" };
        let is_shown = |name: &str| names.get(name).is_some_and(|known| known == owner);
        if owner == "api" || source.path.starts_with(root().join("crates/fleet")) {
            text.push_str(&declarations(&source.code, is_shown));
        }
    }
    write_metrics(&mut text, "DeviceMetric", DeviceMetric::ALL);
    write_metrics(&mut text, "HostMetric", HostMetric::ALL);
    write_metrics(&mut text, "ProcessMetric", ProcessMetric::ALL);
    write_metrics(&mut text, "JobMetric", JobMetric::ALL);
    let missing: Vec<_> = names.keys().filter(|name| !text.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let golden = root().join("tests/golden/public-api.txt");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&golden, &text).unwrap();
    }
    let blessed = fs::read_to_string(&golden).unwrap_or_default();
    let differs = text.lines().zip(blessed.lines()).find(|(now, before)| now != before);
    assert!(text == blessed, "see BLESS=1; the first difference: {differs:?}");
}

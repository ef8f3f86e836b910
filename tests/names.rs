//! Names that must not come back: those of `tests/names.txt`, with what replaces each.
//!
//! A line is `KIND FORMER CURRENT`. KIND is `type`, `fn` or `const`, for declarations, or `file`, for Rust files and
//! folders; `*` at the end of FORMER stands for any ending. A line `except KIND FORMER PATH REASON…` allows one of
//! them in one file. A name may be listed for one kind and used for another.
//!
//! Also: no two modules of the crate declare a type of the same name.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed step fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Keywords before a declared name, and the kind of the name.
const KEYWORDS: [(&str, &str); 8] = [
    ("struct", "type"),
    ("enum", "type"),
    ("trait", "type"),
    ("type", "type"),
    ("fn", "fn"),
    ("const", "const"),
    ("static", "const"),
    ("mod", "file"),
];

#[derive(Default)]
struct Names {
    /// Current name by kind and former name.
    former: BTreeMap<(String, String), String>,
    /// Kind, former name and the file that may use it.
    exceptions: BTreeSet<(String, String, PathBuf)>,
}

impl Names {
    fn read(root: &Path) -> Self {
        let mut names = Self::default();
        let text = fs::read_to_string(root.join("tests/names.txt")).unwrap();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["except", kind, former, path, _, ..] => {
                    names.exceptions.insert((kind.into(), former.into(), path.into()));
                }
                [kind, former, current] => {
                    names.former.insert((kind.into(), former.into()), current.into());
                }
                _ => panic!("{line}: write KIND FORMER CURRENT, or except KIND FORMER PATH REASON"),
            }
        }
        names
    }

    /// Returns the current name if this one is former and not allowed here.
    fn replacement(&self, kind: &str, name: &str, path: &Path) -> Option<&str> {
        let is_former = |former: &str| {
            former.strip_suffix('*').map_or(name == former, |start| name.starts_with(start))
        };
        let mut all = self.former.iter().filter(|((of, _), _)| of == kind);
        let (_, current) = all.find(|((_, former), _)| is_former(former))?;
        let exception = (kind.to_owned(), name.to_owned(), path.to_owned());
        (!self.exceptions.contains(&exception)).then_some(current)
    }
}

/// Returns the paths of all Rust files, relative to the root.
fn rust_files(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let folders = ["src", "crates", "tests", "benches"].map(|name| root.join(name));
    let mut folders: Vec<_> = folders.into_iter().filter(|folder| folder.exists()).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                files.push(path.strip_prefix(root).unwrap().to_owned());
            }
        }
    }
    files.sort();
    files
}

/// Type names that several modules use, always read with their module.
const SHARED_TYPE_NAMES: [&str; 4] = ["Action", "Columns", "Fault", "State"];

/// Returns the kinds and names a line declares.
fn declared(line: &str) -> impl Iterator<Item = (&'static str, &str)> {
    let mut words =
        line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').peekable();
    std::iter::from_fn(move || {
        loop {
            let word = words.next()?;
            let Some((_, kind)) = KEYWORDS.iter().find(|(keyword, _)| *keyword == word) else {
                continue;
            };
            // `const fn` declares a function, `static mut` is not used here.
            if let Some(name) = words.peek().filter(|next| !next.is_empty()) {
                return Some((*kind, *name));
            }
        }
    })
}

#[test]
fn no_former_name_is_declared() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = Names::read(root);
    let mut found = Vec::new();
    for path in rust_files(root) {
        let parts = path.iter().filter_map(|part| part.to_str());
        for name in parts.map(|part| part.trim_end_matches(".rs")) {
            if let Some(current) = names.replacement("file", name, &path) {
                found.push(format!("{}: {name} is now {current}", path.display()));
            }
        }
        let text = fs::read_to_string(root.join(&path)).unwrap();
        let lines = text.lines().enumerate();
        for (number, line) in lines.filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for (kind, name) in declared(line) {
                if let Some(current) = names.replacement(kind, name, &path) {
                    let at = format!("{}:{}", path.display(), number + 1);
                    found.push(format!("{at}: {kind} {name} is now {current}"));
                }
            }
        }
    }
    assert!(found.is_empty(), "{} former names:\n{}", found.len(), found.join("\n"));
}

#[test]
fn every_exception_is_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (kind, name, path) in Names::read(root).exceptions {
        let text = fs::read_to_string(root.join(&path)).unwrap();
        let is_used = text.lines().flat_map(declared).any(|declared| declared == (&*kind, &*name))
            || path.iter().any(|part| part.to_string_lossy().trim_end_matches(".rs") == name);
        assert!(is_used, "{kind} {name} is not in {} any more", path.display());
    }
}

#[test]
fn a_type_name_is_used_for_one_thing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut declared_in: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for path in rust_files(root) {
        // The bodies of frames have the names of what they are decoded to, and are read as `body::Device`; the
        // library shows the same things to other programs, as `api::Device`. Without recordings, something of the same
        // name stands in the place of their recorder.
        let name = path.to_string_lossy();
        let is_apart = ["/wire/body", "src/api", "/no_record.rs"];
        let is_apart = is_apart.iter().any(|part| name.contains(part));
        if !(path.starts_with("src") || path.starts_with("crates")) || is_apart {
            continue;
        }
        let text = fs::read_to_string(root.join(&path)).unwrap();
        // Items of a module, without those inside functions, macros and tests.
        let lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
        for line in lines.filter(|line| !line.starts_with([' ', '/'])) {
            for (_, name) in declared(line).filter(|(kind, _)| *kind == "type") {
                declared_in.entry(name.to_owned()).or_default().insert(path.clone());
            }
        }
    }
    assert!(declared_in.len() > 500, "types are found");
    let shared: Vec<_> = declared_in
        .iter()
        .filter(|(name, paths)| paths.len() > 1 && !SHARED_TYPE_NAMES.contains(&name.as_str()))
        .collect();
    assert!(shared.is_empty(), "{shared:#?}");
}

//! One type name, one meaning: no two modules declare a type of the same name.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Type names that several modules use, always read with their module.
const SHARED_TYPE_NAMES: [&str; 4] = ["Action", "Columns", "Fault", "State"];

/// Returns the paths of all Rust files of the program and its crates, relative to the root.
fn rust_files(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root.join("src"), root.join("crates")];
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
    files
}

/// Returns the types that a line declares.
fn declared_types(line: &str) -> Vec<&str> {
    let mut words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let mut names = Vec::new();
    while let Some(word) = words.next() {
        if ["struct", "enum", "trait", "type"].contains(&word) {
            names.extend(words.next().filter(|name| !name.is_empty()));
        }
    }
    names
}

#[test]
fn a_type_name_is_used_for_one_thing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut declared_in: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for path in rust_files(root) {
        // The bodies of frames have the names of what they are decoded to, and are read as `body::Device`; the
        // library shows the same things to other programs, as `gtop::Device`. Without recordings, a type of the same
        // name replaces the recorder.
        let name = path.to_string_lossy();
        let is_apart = ["/wire/body", "src/api", "/no_record.rs"];
        if is_apart.iter().any(|part| name.contains(part)) {
            continue;
        }
        let text = fs::read_to_string(root.join(&path)).unwrap();
        // Items of a module, without those inside functions, macros and tests, and without short names that only the file uses.
        let lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
        for line in lines.filter(|line| !line.starts_with([' ', '/']) && !line.starts_with("type "))
        {
            for name in declared_types(line) {
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

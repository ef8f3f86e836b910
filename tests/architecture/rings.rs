//! No rings: in every folder the modules use each other in one direction only.
//!
//! A module is a file with the folder of its children. A child may use what its parent declares; two children of
//! one parent may not use each other, neither directly nor by way of others. In the screen, no file is in a ring with its
//! children either.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::imports::{self, Graph};

/// Returns the modules on the way to a file. The root of a crate is the parent of all in it.
fn segments(path: &Path) -> Vec<String> {
    let names = path.iter().map(|part| part.to_string_lossy().trim_end_matches(".rs").to_owned());
    names.filter(|name| !["lib", "src", "crates"].contains(&name.as_str())).collect()
}

/// Returns the modules of every folder and which of their siblings each uses.
fn siblings(graph: &Graph) -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
    let mut folders: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (user, files) in graph {
        let user = segments(user);
        for used in files.iter().map(|used| segments(used)) {
            let common = user.iter().zip(&used).take_while(|(left, right)| left == right).count();
            if let (Some(user_name), Some(used_name)) = (user.get(common), used.get(common)) {
                let folder = folders
                    .entry(user.iter().take(common).cloned().collect::<Vec<_>>().join("/"))
                    .or_default();
                folder.entry(user_name.clone()).or_default().insert(used_name.clone());
            }
        }
    }
    folders
}

/// Returns every ring, as the folder and the names of the modules in it.
fn rings(graph: &Graph) -> BTreeSet<(String, Vec<String>)> {
    let mut found = BTreeSet::new();
    for (folder, modules) in siblings(graph) {
        for ring in imports::rings(&modules) {
            found.insert((folder.clone(), ring.into_iter().collect()));
        }
    }
    found
}

#[test]
fn no_module_is_in_a_ring() {
    let graph = imports::graph(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert_eq!(rings(&graph), BTreeSet::new());
}

#[test]
fn no_view_uses_another_or_navigation() {
    let graph = imports::graph(Path::new(env!("CARGO_MANIFEST_DIR")));
    let folders = siblings(&graph);
    let among_views = folders.get("ui/views");
    assert!(among_views.is_none_or(BTreeMap::is_empty), "a view uses another: {among_views:?}");
    let views = folders["ui"].get("views").cloned().unwrap_or_default();
    assert!(views.contains("widgets"), "the views use {views:?}");
    for above in ["navigation", "overlays", "render", "screen", "event_loop", "help", "keymap"] {
        assert!(!views.contains(above), "a view uses {above}");
    }
}

/// Returns the rings of files of the screen, largest first, by their modules.
fn file_rings(graph: &Graph) -> Vec<BTreeSet<String>> {
    let rings = imports::rings(graph).into_iter();
    let named = rings.map(|ring| ring.iter().map(|file| segments(file).join("/")).collect());
    named
        .filter(|ring: &BTreeSet<String>| ring.iter().any(|name| name.starts_with("ui/")))
        .collect()
}

#[test]
fn no_file_of_the_screen_is_in_a_ring() {
    let graph = imports::graph(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert_eq!(file_rings(&graph), Vec::<BTreeSet<String>>::new());
}

#[test]
fn a_ring_of_files_is_found() {
    let uses = [("ui/a", "ui/b"), ("ui/b", "ui/b/c"), ("ui/b/c", "ui/a"), ("ui/d", "ui/a")];
    let mut graph = Graph::new();
    for (user, used) in uses {
        graph.entry(user.into()).or_default().insert(used.into());
    }
    assert_eq!(file_rings(&graph), [["ui/a", "ui/b", "ui/b/c"].map(str::to_owned).into()]);
}

/// Returns the rings of a crate of these files.
fn rings_of(files: &[(&str, &str)]) -> Vec<(String, Vec<String>)> {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join("src").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    rings(&imports::graph(root.path())).into_iter().collect()
}

#[test]
fn a_ring_is_found_however_it_is_closed() {
    let ring =
        |folder: &str| vec![(folder.to_owned(), vec!["left".to_owned(), "right".to_owned()])];
    let lib = ("lib.rs", "mod left; mod right; mod prelude { pub use crate::left::Left; }");
    let left = ("left.rs", "pub struct Left(crate::right::Right); made! { pub struct Made; }");
    for right in [
        // An import, a full path, one from the parent, one in a function, one in a macro's arguments.
        "use crate::left::Left; pub struct Right;",
        "pub struct Right; fn left() -> crate::left::Left { todo!() }",
        "pub struct Right; fn left() -> super::left::Left { todo!() }",
        "pub struct Right; fn left() { use crate::left::Left as Other; drop::<Other>(todo!()) }",
        "pub struct Right; fn left() { assert!(crate::left::Left::is_there()) }",
        // A re-export, a glob, a re-export of a re-export.
        "use crate::prelude::Left; pub struct Right(Left);",
        "use crate::prelude::*; pub struct Right(Left);",
        "use inner::Left; mod inner { pub use crate::prelude::Left; } pub struct Right(Left);",
        // What a macro declares.
        "use crate::left::Made; pub struct Right(Made);",
    ] {
        assert_eq!(rings_of(&[lib, left, ("right.rs", right)]), ring(""), "{right}");
    }
    // Within a folder, from the child of one to the other.
    let nested = [
        ("lib.rs", "mod parent;"),
        ("parent.rs", "mod left; mod right;"),
        ("parent/left.rs", "mod child; use super::right::Right; pub struct Left;"),
        ("parent/left/child.rs", "pub struct Child;"),
        ("parent/right.rs", "mod child; pub struct Right;"),
        ("parent/right/child.rs", "use crate::parent::left::Left;"),
    ];
    assert_eq!(rings_of(&nested), ring("parent"));
}

#[test]
fn what_is_no_ring_is_left_alone() {
    for right in [
        "pub struct Right;",
        // Tests may look at everything, and a visibility names no item.
        "pub struct Right; #[cfg(test)] mod tests { use crate::left::Left; }",
        "pub struct Right; pub(in crate::left) struct Left;",
        "pub struct Right; struct Left; impl Left { fn left() -> Left { Left } }",
        "pub struct Right; // crate::left::Left",
    ] {
        let files = [
            ("lib.rs", "mod left; mod right;"),
            ("left.rs", "mod child; pub struct Left(crate::right::Right);"),
            // A child may use what its parent declares.
            ("left/child.rs", "use super::Left;"),
            ("right.rs", right),
        ];
        assert_eq!(rings_of(&files), [], "{right}");
    }
}

//! The layers inside the crates, of which Cargo knows nothing: reads the sources and checks which modules may import which,
//! which third-party crates each module may use, and that only `storage` writes files.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[path = "architecture/faces.rs"]
mod faces;
#[path = "architecture/imports.rs"]
mod imports;
#[path = "architecture/public_api.rs"]
mod public_api;
#[path = "architecture/rings.rs"]
mod rings;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates, bottom up, with the modules of each, bottom up: a module may import only those before it. The crate in `src`
/// has no name here. Where a module has the name of its crate, it is the crate's root, with all files of no other.
#[rustfmt::skip]
const CRATES: &[(&str, &[&str])] = &[
    ("local", &["time", "text", "lock", "storage", "process", "fault"]),
    ("ssh", &["ssh"]),
    ("model", &["model", "training", "nodeset"]),
    ("fleet", &["fleet", "advice", "metrics", "query", "settings", "insight"]),
    ("ui", &["ui"]),
    ("collect", &["scheduler", "wire", "probe", "transport", "inventory", "collect", "runs", "sums", "record", "source", "sim"]),
    ("", &["report", "export", "serve", "watch", "doctor", "config", "setting_table", "cli", "app", "api"]),
];

/// Returns all modules, bottom up.
fn modules() -> impl Iterator<Item = &'static str> {
    CRATES.iter().flat_map(|(_, modules)| *modules).copied()
}

/// Modules that a module must not import although they are below it, and its crate has them.
const FORBIDDEN_IMPORTS: &[(&str, &[&str])] = &[
    ("model", &["process"]),
    ("scheduler", &["fault"]),
    ("wire", &["ssh", "process"]),
    ("transport", &["wire", "probe", "metrics"]),
    ("inventory", &["wire", "probe", "metrics"]),
    ("probe", &["wire"]),
    ("collect", &["metrics", "inventory"]),
    ("training", &["process", "storage"]),
    ("runs", &["scheduler", "inventory"]),
    (
        "sums",
        &["ssh", "process", "scheduler", "wire", "probe", "transport", "inventory", "collect"],
    ),
    ("record", &["ssh", "process", "probe", "transport", "inventory", "collect"]),
    ("source", &["ssh", "probe", "metrics", "query", "settings", "insight"]),
    ("report", &["ssh", "process", "probe", "transport", "inventory", "collect", "metrics"]),
    ("advice", &["process"]),
    ("export", &["ui", "ssh", "transport", "collect", "probe"]),
    ("watch", &["ui", "settings"]),
    (
        "serve",
        &[
            "ui",
            "wire",
            "probe",
            "ssh",
            "process",
            "transport",
            "inventory",
            "collect",
            "runs",
            "record",
            "report",
            "source",
        ],
    ),
    ("config", &["ui"]),
    ("cli", &["ui", "fleet", "ssh", "transport", "wire", "collect", "sim"]),
];

/// Crates, and the only modules that may use them; a path is a part of a module.
const CRATE_USERS: &[(&[&str], &[&str])] = &[
    (&["russh"], &["ssh", "sim"]),
    (&["ratatui"], &["ui/paint", "ui/screen", "ui/surface", "ui/terminal", "ui/text", "ui/theme"]),
    (
        &["crossterm"],
        &["ui/background", "ui/event_loop", "ui/keyboard", "ui/screen", "ui/terminal"],
    ),
    (&["flate2"], &["export", "serve"]),
    (&["hyper"], &["serve", "transport/page"]),
    (&["tokio_rustls"], &["serve"]),
    (&["clap"], &["cli", "main"]),
    (&["toml"], &["config"]),
    (&["saphyr_parser"], &["nodeset"]),
    (&["pco", "zstd"], &["record"]),
    (&["parquet"], &["export"]),
    (
        &["serde", "serde_json"],
        &[
            "scheduler",
            "wire",
            "probe",
            "record",
            "export",
            "doctor",
            "inventory",
            "runs",
            "training",
            "sim",
            "api",
        ],
    ),
    (&["serde"], &["config"]),
];

/// Names of functions that write, replace or remove files; only `storage` may use them.
const WRITERS: &[&str] = &[
    "OpenOptions",
    "File::create",
    "fs::write",
    "fs::rename",
    "fs::copy",
    "fs::hard_link",
    "symlink(",
    "set_permissions",
    "set_len",
    "renameat",
    "DirBuilder",
    "create_dir",
    "remove_file",
    "remove_dir",
];

struct Source {
    /// The top-level module the file belongs to.
    module: String,
    /// The path below the folder that has the module, without the extension.
    name: String,
    path: PathBuf,
    code: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folders of the sources, relative to the root.
fn source_folders() -> Vec<PathBuf> {
    let members = fs::read_dir(root().join("crates")).into_iter().flatten();
    let names = members.map(|member| member.unwrap().file_name());
    let members = names.map(|name| Path::new("crates").join(name).join("src"));
    std::iter::once(PathBuf::from("src")).chain(members).collect()
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = source_folders();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let inside = folder.join(entry.unwrap().file_name());
            let path = root().join(&inside);
            if path.is_dir() {
                folders.push(inside);
                continue;
            }
            let (module, name) = place_of(&inside);
            let code = fs::read_to_string(&path).unwrap();
            found.push(Source { module, name, path, code });
        }
    }
    found
}

/// Returns the lines that are not comments.
fn code_lines(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Returns the lines of code before the tests.
fn program_lines(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code_lines(code).take_while(|(_, line)| *line != "#[cfg(test)]")
}

/// Returns true if a line uses a path of a crate.
fn uses(line: &str, krate: &str) -> bool {
    line.match_indices(&format!("{krate}::")).any(|(at, _)| {
        let before = line.split_at(at).0.chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
    })
}

/// Returns the modules that may use a crate.
fn users_of(krate: &str) -> impl Iterator<Item = &'static str> {
    let of_crate = CRATE_USERS.iter().filter(move |(crates, _)| crates.contains(&krate));
    of_crate.flat_map(|(_, users)| *users).copied()
}

/// Returns true if a module is in the list, or a module it is in.
fn is_one_of(name: &str, modules: &[&str]) -> bool {
    modules.iter().any(|module| {
        name.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

fn position(module: &str) -> Option<usize> {
    modules().position(|known| known == module)
}

/// Returns the top-level module of a file, and the path of the file from there, without the extension.
fn place_of(path: &Path) -> (String, String) {
    let whole = path.with_extension("").to_string_lossy().into_owned();
    let Some(below) = whole.strip_prefix("crates/") else {
        let name = whole.trim_start_matches("src/");
        return (first_part(name), name.to_owned());
    };
    let (krate, name) = below.split_once("/src/").unwrap();
    let modules = CRATES.iter().find(|(known, _)| *known == krate).map_or(&[][..], |(_, all)| all);
    let first = first_part(name);
    if first == "lib" {
        let module = if modules.contains(&krate) { krate } else { "lib" };
        return (module.to_owned(), module.to_owned());
    }
    if modules.contains(&&*first) {
        return (first, name.to_owned());
    }
    (krate.to_owned(), format!("{krate}/{name}"))
}

fn first_part(path: &str) -> String {
    path.split('/').next().unwrap_or_default().to_owned()
}

fn module_of(path: &Path) -> String {
    place_of(path).0
}

#[test]
fn no_module_imports_upward() {
    let mut wrong = String::new();
    for (user, files) in imports::graph(root()) {
        let module = module_of(&user);
        if module == "lib" {
            continue;
        }
        let own = position(&module).unwrap_or_else(|| panic!("{module} is not in CRATES"));
        let apart = FORBIDDEN_IMPORTS
            .iter()
            .find(|(name, _)| *name == module)
            .map_or(&[][..], |(_, list)| list);
        for used in files.iter().filter(|used| module_of(used) != module) {
            let name = module_of(used);
            let is_upward = position(&name).is_none_or(|there| there > own);
            if is_upward || apart.contains(&&*name) {
                let (from, to) = (user.display(), used.display());
                writeln!(wrong, "{from} uses {to}: {module} must not import {name}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn each_crate_is_used_only_by_its_modules() {
    let mut wrong = String::new();
    for source in sources() {
        for (number, line) in code_lines(&source.code) {
            for krate in CRATE_USERS.iter().flat_map(|(crates, _)| *crates) {
                let users: Vec<&str> = users_of(krate).collect();
                if uses(line, krate) && !is_one_of(&source.name, &users) {
                    writeln!(
                        wrong,
                        "{}:{}: only {users:?} may use {krate}",
                        source.path.display(),
                        number + 1
                    )
                    .unwrap();
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn only_storage_writes_files() {
    let mut wrong = String::new();
    for source in sources().iter().filter(|source| source.module != "storage") {
        for (number, line) in program_lines(&source.code) {
            for writer in WRITERS.iter().filter(|writer| line.contains(*writer)) {
                let place = source.path.display();
                writeln!(wrong, "{place}:{}: only storage may use {writer}", number + 1).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn remedies_are_written_in_one_place() {
    // A text as a remedy: given to a step of the doctor, or kept in a field or a variable.
    let has_text = |line: &str| {
        ["with_remedy(\"", "remedy = \"", "remedy: \""]
            .iter()
            .any(|start| line.split_once(start).is_some_and(|(_, text)| !text.starts_with('"')))
    };
    let mut wrong = String::new();
    // The errors of files and of the command line say what to type instead.
    let elsewhere = ["advice", "storage", "app", "cli"];
    for source in sources().iter().filter(|source| !elsewhere.contains(&&*source.module)) {
        for (number, line) in program_lines(&source.code).filter(|(_, line)| has_text(line)) {
            writeln!(wrong, "{}:{}: {line}", source.path.display(), number + 1).unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn every_file_begins_with_its_docs() {
    for source in sources() {
        assert!(
            source.code.starts_with("//! "),
            "{} does not begin with //!",
            source.path.display()
        );
    }
}

/// Returns the cells of the rows of a Markdown table that follow a heading.
fn table_after<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let part = page.split_once(heading).unwrap().1;
    let rows = part.lines().skip_while(|line| !line.starts_with("|--"));
    let rows = rows.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn the_map_names_modules_files_and_types_that_exist() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let code: String = sources().into_iter().map(|source| source.code).collect();
    for row in table_after(&page, "## Words") {
        let name = row[2].trim_matches('`');
        let declares = |kind: &str| {
            ["<", " ", "(", ";"].iter().any(|end| code.contains(&format!("{kind} {name}{end}")))
        };
        assert!(
            name == "–" || ["struct", "enum", "trait", "type"].iter().any(|kind| declares(kind)),
            "no type {name}"
        );
    }
    let mapped: Vec<&str> = table_after(&page, "## The modules")
        .iter()
        .flat_map(|row| row[0].split(' ').map(|name| name.trim_matches('`')))
        .collect();
    assert!(mapped.iter().copied().eq(modules()), "the map is not bottom up: {mapped:?}");
    for source in sources() {
        let is_mapped =
            ["lib", "main"].contains(&&*source.module) || mapped.contains(&&*source.module);
        assert!(is_mapped, "{} is not on the map", source.module);
    }
    let names = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let mut files =
        names.filter(|name| [".rs", ".py", ".sh"].iter().any(|end| name.ends_with(end)));
    let mut places = source_folders();
    places.push(PathBuf::new());
    let exists = |file: &str| places.iter().any(|place| root().join(place).join(file).exists());
    let is_in_crate_root = |file: &str| {
        let (krate, rest) = file.split_once('/').unwrap_or_default();
        root().join(format!("crates/{krate}/src")).join(rest).is_file()
    };
    let missing = files.find(|file| !exists(file) && !is_in_crate_root(file));
    assert_eq!(missing, None, "no such file");
}

#[test]
fn the_checks_find_violations() {
    // The helpers of the checks find what they look for.
    assert!(position("ui") > position("fleet"));
    assert!(uses("use russh::client;", "russh") && uses("(russh::client)", "russh"));
    assert!(!uses("use not_russh::client;", "russh") && !uses("serde_json::x", "serde"));
    assert_eq!(code_lines("// use crate::ui\nuse crate::time;").count(), 1);
    assert_eq!(program_lines("use std::fs;\n#[cfg(test)]\nfs::write(x, y);").count(), 1);
}

#[test]
fn every_file_is_a_module() {
    let rust_files = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|ext| ext == "rs")).collect::<Vec<_>>()
    };
    let mut open: Vec<PathBuf> =
        source_folders().iter().map(|folder| root().join(folder).join("lib.rs")).collect();
    open.push(root().join("tests/main.rs"));
    while let Some(parent) = open.pop() {
        let code = fs::read_to_string(&parent).unwrap();
        let is_root = ["lib", "main"].iter().any(|name| parent.file_stem().unwrap() == *name);
        let folder =
            if is_root { parent.parent().unwrap().into() } else { parent.with_extension("") };
        for file in rust_files(&folder) {
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            if is_root && ["lib", "main"].contains(&&*name) {
                continue;
            }
            let is_program = is_root && ["architecture", "names"].contains(&&*name);
            let is_declared = code.contains(&format!("mod {name};"));
            assert!(is_program || is_declared, "{} is not compiled", file.display());
            open.push(file);
        }
    }
}

//! Finds the group files and reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::nodeset::groups::conf::GroupsConf;
use crate::nodeset::groups::yaml::YamlError;
use crate::nodeset::groups::{GroupError, GroupSource, GroupSources, shorten, yaml};
use gtop_local::storage;
use gtop_local::text::sanitized_chars;

/// Maximum size of a file, in bytes.
const MAX_FILE_SIZE: u64 = 4 << 20;

/// Maximum number of files read from a folder.
const MAX_FILES_PER_DIR: usize = 256;

/// The upcall of `ClusterShell`'s default `groups.conf`, which looks a group up in a flat file.
const UPCALL_LOOKUP: &str = r"sed -n 's/^$GROUP:\(.*\)/\1/p' ";

/// Reads all group sources in these folders.
pub(super) fn load_sources(folders: &[PathBuf]) -> Result<GroupSources, GroupError> {
    let mut conf = GroupsConf::default();
    let mut last = None;
    for folder in folders {
        let file = folder.join("groups.conf");
        if let Some(text) = read_text(&file)? {
            conf.merge(&text).map_err(|line| syntax_error(&file, line))?;
            last = Some(file);
        }
    }
    // Without a groups.conf, the folders of the default one are used.
    let conf_dir = last.as_deref().and_then(Path::parent);
    let mut sources = GroupSources {
        file: last.as_ref().map_or_else(|| "no groups.conf".to_owned(), |file| display_path(file)),
        ..GroupSources::default()
    };
    let conf_dirs = ["confdir", "groupsdir"].iter().rev().find_map(|key| conf.get("Main", key));
    for folder in parse_folders(conf_dirs.unwrap_or_default(), conf_dir) {
        for file in list_files(&folder, "conf") {
            let mut conf_part = GroupsConf::default();
            if let Some(text) = read_text(&file)? {
                conf_part.merge(&text).map_err(|line| syntax_error(&file, line))?;
            }
            add_upcall_sources(&conf_part, &file, &folder, &mut sources)?;
        }
    }
    let list_dirs: Vec<PathBuf> = match conf.get("Main", "autodir") {
        Some(named) => parse_folders(named, conf_dir),
        None if last.is_some() => Vec::new(),
        None => folders.iter().map(|folder| folder.join("groups.d")).collect(),
    };
    for file in list_dirs.iter().flat_map(|folder| list_files(folder, "yaml")) {
        let Some(text) = read_text(&file)? else { continue };
        let parsed = yaml::parse(&text).map_err(|YamlError { line, why }| GroupError::File {
            file: format!("{}:{line}", display_path(&file)),
            why,
        })?;
        for (name, groups) in parsed {
            let source = GroupSource { file: display_path(&file), lists: Some(groups) };
            sources.all.insert(name, source);
        }
    }
    if let (Some(file), Some(folder)) = (&last, conf_dir) {
        add_upcall_sources(&conf, file, folder, &mut sources)?;
    }
    // A flat file without a section is a source named after the file.
    for file in list_dirs.iter().flat_map(|folder| list_files(folder, "cfg")) {
        let name = file.file_stem().map(|name| name.to_string_lossy().into_owned());
        let Some(name) = name.filter(|name| !sources.all.contains_key(name)) else { continue };
        if let Some(source) = read_flat_file(&file)? {
            sources.all.insert(name, source);
        }
    }
    let named = conf.get("Main", "default").filter(|name| !name.is_empty());
    let only = sources.all.keys().next().filter(|_| sources.all.len() == 1);
    let local = sources.all.contains_key("local").then(|| "local".to_owned());
    sources.default = named.map(str::to_owned).or_else(|| only.cloned()).or(local);
    Ok(sources)
}

/// Adds the sources that are upcalls, reading those that only look into a flat file.
fn add_upcall_sources(
    conf: &GroupsConf,
    file: &Path,
    folder: &Path,
    sources: &mut GroupSources,
) -> Result<(), GroupError> {
    for section in conf.sections().filter(|section| *section != "Main") {
        let map = conf.get(section, "map").unwrap_or_default();
        let source = match flat_file_of_upcall(map, folder) {
            Some(path) => read_flat_file(&path)?,
            None => Some(GroupSource { file: display_path(file), lists: None }),
        };
        // A missing flat file has no groups.
        let Some(source) = source else { continue };
        for name in section.split(',') {
            sources.all.insert(name.trim().to_owned(), source.clone());
        }
    }
    Ok(())
}

/// Returns the flat file that an upcall reads, if it does nothing else.
fn flat_file_of_upcall(command: &str, folder: &Path) -> Option<PathBuf> {
    let (before, file) = command.split_once(UPCALL_LOOKUP)?;
    if before.trim().is_empty() {
        return plain_path(file, folder);
    }
    let rest = before.trim().strip_prefix("[ -f ")?;
    let (tested, rest) = rest.split_once(" ] && f=")?;
    let (first, second) = rest.split_once(" || f=")?;
    if tested != first || file.trim() != "$f" {
        return None;
    }
    let first = plain_path(first, folder)?;
    let second = plain_path(second.strip_suffix(';')?, folder)?;
    Some(if first.is_file() { first } else { second })
}

/// Returns the path that a word of a shell names; `None` if the shell would change more of it than `$CFGDIR`.
fn plain_path(word: &str, folder: &Path) -> Option<PathBuf> {
    let path = word.trim().replace("$CFGDIR", &folder.to_string_lossy());
    let is_plain = !path.is_empty() && !path.contains(['$', '`', ';', '|', '&', ' ', '\'', '"']);
    is_plain.then(|| path.into())
}

/// Reads a flat file with lines such as `group: nodes`.
fn read_flat_file(file: &Path) -> Result<Option<GroupSource>, GroupError> {
    let Some(text) = read_text(file)? else { return Ok(None) };
    let mut lists: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    for (group, nodes) in lines.filter_map(|line| line.split_once(':')) {
        lists.entry(group.to_owned()).or_default().push(nodes.trim().to_owned());
    }
    Ok(Some(GroupSource { file: display_path(file), lists: Some(lists) }))
}

/// Reads a file; `None` if it is missing, not readable, or not a regular file.
fn read_text(file: &Path) -> Result<Option<String>, GroupError> {
    let Ok(opened) = std::fs::File::open(file) else { return Ok(None) };
    // Reading a FIFO would block.
    if !opened.metadata().is_ok_and(|about| about.is_file()) {
        return Ok(None);
    }
    let why = match storage::read_bounded(opened, MAX_FILE_SIZE) {
        Ok(Some(bytes)) => {
            let text = String::from_utf8_lossy(&bytes);
            return Ok(Some(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned()));
        }
        Ok(None) => "is larger than 4 MiB; split it",
        Err(_) => "cannot be read",
    };
    Err(GroupError::File { file: display_path(file), why: why.to_owned() })
}

/// Returns the files of a folder with this extension, sorted.
fn list_files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path()).filter(|path| {
        let is_hidden =
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        !is_hidden && path.extension().is_some_and(|actual| actual == extension) && path.is_file()
    });
    let mut found: Vec<PathBuf> = paths.take(MAX_FILES_PER_DIR).collect();
    found.sort_unstable();
    found
}

/// Splits a list of folders at unquoted spaces, without duplicates.
fn parse_folders(text: &str, conf_dir: Option<&Path>) -> Vec<PathBuf> {
    let conf_dir = conf_dir.map(Path::to_string_lossy).unwrap_or_default();
    let mut quote = None;
    let words = text.split(|letter: char| {
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
        quote.is_none() && letter.is_whitespace()
    });
    let words = words.map(|word| word.replace(['"', '\''], "")).filter(|word| !word.is_empty());
    let mut seen = BTreeSet::new();
    let paths = words.map(|word| PathBuf::from(word.replace("$CFGDIR", &conf_dir)));
    paths.filter(|path| seen.insert(path.clone())).collect()
}

fn syntax_error(file: &Path, line: usize) -> GroupError {
    let why = "this line is neither [SECTION] nor KEY: VALUE".to_owned();
    GroupError::File { file: format!("{}:{line}", display_path(file)), why }
}

fn display_path(file: &Path) -> String {
    let text = file.to_string_lossy();
    // The end of a path is more useful than its beginning.
    match text.char_indices().nth_back(120) {
        Some((at, _)) => format!("…{}", shorten(text.get(at..).unwrap_or_default())),
        None => sanitized_chars(&text).collect(),
    }
}

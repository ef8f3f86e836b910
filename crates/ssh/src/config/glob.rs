//! Expands the file name patterns of `Include`.

use std::path::{Path, PathBuf};

use gtop_local::text;

/// Most matches of one pattern.
const MAX_MATCHES: usize = 4096;

/// Returns the files that match a pattern, in byte order.
///
/// `on_look` is called for every path the result depends on.
pub(crate) fn expand(pattern: &str, mut on_path: impl FnMut(&Path)) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from(if pattern.starts_with('/') { "/" } else { "" })];
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    let Some((last, folders)) = parts.split_last() else { return found };
    for part in folders {
        found = expand_component(&found, part, &mut on_path);
    }
    let mut files = expand_component(&found, last, &mut on_path);
    for file in &files {
        on_path(file);
    }
    // A dangling symlink counts as existing.
    files.retain(|file| file.symlink_metadata().is_ok());
    if pattern.ends_with('/') {
        files.retain(|file| file.is_dir());
    }
    files
}

/// Expands one path component.
fn expand_component(
    folders: &[PathBuf],
    part: &str,
    on_path: &mut impl FnMut(&Path),
) -> Vec<PathBuf> {
    if !part.contains(['*', '?', '[']) {
        let name = part.replace('\\', "");
        return folders.iter().map(|folder| folder.join(&name)).collect();
    }
    let pattern: Vec<char> = part.chars().collect();
    let mut found = Vec::new();
    for folder in folders {
        on_path(folder);
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut names: Vec<_> = names
            .filter(|name| {
                let name = name.to_string_lossy();
                let is_hidden = name.starts_with('.') && !part.starts_with('.');
                !is_hidden
                    && text::matches_wildcards(
                        &name.chars().collect::<Vec<_>>(),
                        &pattern,
                        '*',
                        match_one,
                    )
            })
            .take(MAX_MATCHES)
            .collect();
        names.sort_unstable();
        found.extend(names.into_iter().map(|name| folder.join(name)));
        found.truncate(MAX_MATCHES);
    }
    found
}

fn split(chars: &[char]) -> Option<(char, &[char])> {
    chars.split_first().map(|(first, rest)| (*first, rest))
}

/// Matches one letter; returns the rest of the pattern.
fn match_one(c: char, pattern: &[char]) -> Option<&[char]> {
    let (first, after) = split(pattern)?;
    match first {
        '?' => Some(after),
        '\\' => split(after).and_then(|(kept, after)| (kept == c).then_some(after)),
        '[' => match match_bracket(c, after) {
            Some((true, after)) => Some(after),
            Some((false, _)) => None,
            // An unclosed bracket is literal.
            None => (c == '[').then_some(after),
        },
        first => (first == c).then_some(after),
    }
}

/// Matches a letter against `[…]`, after the `[`; `None` if it is unclosed.
fn match_bracket(c: char, text: &[char]) -> Option<(bool, &[char])> {
    let (is_negated, mut text) = match split(text)? {
        ('!' | '^', after) => (true, after),
        _ => (false, text),
    };
    let mut is_in = false;
    let mut is_first = true;
    loop {
        let (low, after) = split(text)?;
        if low == ']' && !is_first {
            return Some((is_in != is_negated, after));
        }
        is_first = false;
        match after {
            ['-', high, rest @ ..] if *high != ']' => {
                is_in |= (low..=*high).contains(&c);
                text = rest;
            }
            after => {
                is_in |= low == c;
                text = after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        for (name, pattern, want) in [
            ("10-site.conf", "*.conf", true),
            ("10-site.conf", "[0-9][0-9]-*", true),
            ("a", "[!a]", false),
            ("b", "[^a]", true),
            ("]", "[]]", true),
            ("[", "[", true),
            ("-", "[a-]", true),
            ("a*", r"a\*", true),
            ("ab", r"a\*", false),
            ("config.d", "conf??.d", true),
            ("", "*", true),
        ] {
            let (letters, glob) = (chars(name), chars(pattern));
            let is_match = text::matches_wildcards(&letters, &glob, '*', match_one);
            assert_eq!(is_match, want, "{name} {pattern}");
        }
    }

    #[test]
    fn files_are_listed_in_order_without_hidden_ones() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.conf", "a.conf", ".c.conf", "d.txt"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/x"), "").unwrap();
        let find = |pattern: &str| {
            let mut looked = 0;
            let pattern = format!("{}/{pattern}", folder.path().display());
            let found = expand(&pattern, |_| looked += 1);
            assert!(looked > 0, "{pattern}");
            let names = found.iter().map(|path| path.strip_prefix(folder.path()).unwrap());
            names.map(|name| name.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(find("*.conf"), ["a.conf", "b.conf"]);
        assert_eq!(find(".*.conf"), [".c.conf"]);
        assert_eq!(find("a.conf"), ["a.conf"]);
        assert_eq!(find("*/x"), ["sub/x"]);
        assert!(find("none").is_empty() && find("none/*").is_empty());
    }
}

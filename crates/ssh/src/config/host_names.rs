//! The host names in the configuration, without patterns.

use std::collections::BTreeSet;

use crate::config::ConfigError;
use crate::config::parse::Pattern;
use crate::config::resolve::matches_any;
use crate::config::tree::{Block, BlockCondition, ConfigTree, Directive, SshConfigFile};

/// Returns the names of all `Host` lines that match themselves, in file order.
pub(crate) fn hosts(tree: &ConfigTree) -> Result<Vec<String>, ConfigError> {
    let files = tree.files.as_ref().map_err(Clone::clone)?;
    let mut host_names = HostNames::default();
    for file in files {
        host_names.add_file(file, &mut Vec::new());
    }
    Ok(host_names.names.into_iter().map(str::to_owned).collect())
}

#[derive(Default)]
struct HostNames<'a> {
    names: Vec<&'a str>,
    seen: BTreeSet<&'a str>,
}

impl<'a> HostNames<'a> {
    /// `within`: the `Host` lines around the `Include` of the file.
    fn add_file(&mut self, file: &'a SshConfigFile, within: &mut Vec<&'a [Pattern]>) {
        for Block { condition: when, lines, .. } in &file.blocks {
            let patterns: &[Pattern] = match when {
                BlockCondition::Host(patterns) => patterns,
                BlockCondition::Always | BlockCondition::Match(_) => &[],
            };
            for Pattern { text, is_negated } in patterns {
                let holds = matches_any(text, patterns)
                    && within.iter().all(|patterns| matches_any(text, patterns));
                let is_name = !is_negated && !text.contains(['*', '?']);
                if is_name && holds && self.seen.insert(text) {
                    self.names.push(text);
                }
            }
            if !patterns.is_empty() {
                within.push(patterns);
            }
            for line in lines {
                let Directive::Include(files) = &line.directive else { continue };
                for file in files {
                    self.add_file(file, within);
                }
            }
            if !patterns.is_empty() {
                within.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LocalEnv;

    #[test]
    fn names_without_wildcards_are_listed_from_included_files_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let more = path("more").display().to_string();
        let inner = path("inner").display().to_string();
        let config = format!(
            "Host gpu01 gpu02 !gpu02 gpu0?\n  Port 22\nInclude {more}\nHost *\n  Include {more}\n\
             Match host gpu09\n  Port 23\nHost login !login.old\nHost gpu01 x\n  Include {inner}\n"
        );
        std::fs::write(path("config"), config).unwrap();
        std::fs::write(path("more"), "Host n1 \"n2\"\nHost=n3\n").unwrap();
        std::fs::write(path("inner"), "Host x y\n  Port 1\n").unwrap();
        let tree = |name: &str| {
            let chosen = path(name);
            let env = LocalEnv::of_this_process();
            ConfigTree::read(&env, Some(&chosen), &[])
        };
        // The first include stands below a Host line that n1 is not among.
        assert_eq!(hosts(&tree("config")).unwrap(), ["gpu01", "n1", "n2", "n3", "login", "x"]);
        std::fs::write(path("bad"), "Host\n").unwrap();
        assert!(hosts(&tree("bad")).is_err());
    }
}

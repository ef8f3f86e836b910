//! Node groups from `ClusterShell`'s files: `@gpu`, `@racks:r1`, `@*`.
//!
//! Reads `groups.conf`, the `groups.conf.d/*.conf` and `groups.d/*.yaml` that it names, and flat files
//! (`group: nodes`) such as `groups.d/local.cfg`. Upcalls (`map:` and the like) are not run, except
//! that the default one, which reads `groups.d/local.cfg`, is recognised. For a group of another
//! upcall the error shows how to let `ClusterShell` expand it.

mod conf;
mod load;
mod yaml;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;

use gtop_local::text::sanitized_chars;

/// Maximum number of known names listed in an error.
const MAX_LISTED: usize = 8;

/// The group source of gtop's own settings.
const CONFIG_SOURCE: &str = "gtop";
const CONFIG_FILE: &str = "config.toml";

/// The groups of a user; the files are read when the first group is looked up.
#[derive(Debug, Default)]
pub struct Groups {
    /// Groups of gtop's own settings, which take precedence.
    configured: BTreeMap<String, String>,
    folders: Vec<PathBuf>,
    loaded_sources: OnceLock<Result<GroupSources, GroupError>>,
}

/// Why a group cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// There are no group files.
    #[error("no node groups are defined{0}; write the nodes, as in gpu[01-16]")]
    NoGroups(String),
    /// There is no default source.
    #[error("{0} names no default group source; write @SOURCE:GROUP{1}")]
    NoDefault(String, String),
    /// The source is not defined.
    #[error("there is no group source {0:?}{1}")]
    NoSource(String, String),
    /// The group is not defined in the source.
    #[error("{file} has no group {group:?}{known}")]
    NoGroup {
        /// The requested group, shortened.
        group: String,
        /// The file of the source.
        file: String,
        /// The groups of the source, see [`known_names`].
        known: String,
    },
    /// The source is an upcall, which is not run.
    #[error(
        "the group source {source_name:?} of {file} is a command, which gtop does not run; use gtop $(nodeset -f @{source_name}:{group})"
    )]
    Command {
        /// The name of the source, shortened.
        source_name: String,
        /// The requested group.
        group: String,
        /// The file that defines the source.
        file: String,
    },
    /// Groups contain each other.
    #[error("these groups contain each other: {0}; remove one of the references")]
    Cycle(String),
    /// Groups are nested deeper than the limit.
    #[error("groups are nested more than {1} deep: {0}; list nodes instead")]
    TooDeep(String, usize),
    /// A file cannot be read or parsed.
    #[error("{file}: {why}")]
    File {
        /// The file, with the line if known.
        file: String,
        /// The error and the remedy.
        why: String,
    },
}

impl GroupError {
    fn no_group<V>(group: &str, file: &str, known: &BTreeMap<String, V>) -> Self {
        let (group, known) = (shorten(group), known_names(known));
        Self::NoGroup { group, file: file.to_owned(), known }
    }
}

/// Returns the end of an error that lists the known names; empty if there are none.
fn known_names<V>(named: &BTreeMap<String, V>) -> String {
    if named.is_empty() {
        return String::new();
    }
    let more = if named.len() > MAX_LISTED { ", …" } else { "" };
    let listed: Vec<_> = named.keys().take(MAX_LISTED).map(|name| shorten(name)).collect();
    format!("; known: {}{more}", listed.join(", "))
}

/// A group of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupId {
    pub(super) source: String,
    pub(super) group: String,
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}:{}", self.source, self.group)
    }
}

/// The definition of a group.
#[derive(Debug)]
pub(super) struct GroupDefinition {
    pub(super) id: GroupId,
    /// Node sets.
    pub(super) texts: Vec<String>,
    file: String,
}

impl GroupDefinition {
    fn new(source: &str, group: &str, texts: Vec<String>, file: &str) -> Self {
        let id = GroupId { source: source.to_owned(), group: group.to_owned() };
        Self { id, texts, file: file.to_owned() }
    }

    pub(super) fn title(&self) -> String {
        format!("{} of {}", self.id, self.file)
    }
}

/// All group sources.
#[derive(Debug, Default)]
struct GroupSources {
    all: BTreeMap<String, GroupSource>,
    default: Option<String>,
    /// The file that should name the default source.
    file: String,
}

/// A group source.
#[derive(Clone, Debug)]
struct GroupSource {
    file: String,
    /// Node sets by group; `None` if a command returns them.
    lists: Option<BTreeMap<String, Vec<String>>>,
}

impl Groups {
    /// Returns no groups.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Returns the groups in folders with a `groups.conf` or a `groups.d`; later folders take precedence.
    pub fn in_folders(folders: Vec<PathBuf>) -> Self {
        Self { folders, ..Self::default() }
    }

    /// Adds the groups of gtop's own settings, which take precedence over all others.
    #[must_use]
    pub fn with_config_groups(self, config_groups: BTreeMap<String, String>) -> Self {
        Self { configured: config_groups, ..self }
    }

    fn sources(&self) -> Result<&GroupSources, GroupError> {
        let loaded = self.loaded_sources.get_or_init(|| load::load_sources(&self.folders));
        loaded.as_ref().map_err(Clone::clone)
    }

    /// Looks a group up; `*` is all nodes of a source.
    pub(super) fn lookup(
        &self,
        source: Option<&str>,
        group: &str,
    ) -> Result<GroupDefinition, GroupError> {
        let is_config_group =
            source.is_none_or(|source| source.is_empty() || source == CONFIG_SOURCE);
        if let Some(set) = self.configured.get(group).filter(|_| is_config_group) {
            let texts = vec![set.clone()];
            return Ok(GroupDefinition::new(CONFIG_SOURCE, group, texts, CONFIG_FILE));
        }
        let sources = match self.sources() {
            // There are only gtop's own groups.
            Ok(sources) if sources.all.is_empty() && !self.configured.is_empty() => {
                return Err(GroupError::no_group(group, CONFIG_FILE, &self.configured));
            }
            sources => sources?,
        };
        if sources.all.is_empty() {
            let searched = self.folders.iter().map(|folder| folder.display().to_string());
            let searched = searched.collect::<Vec<_>>().join(", ");
            let searched =
                if searched.is_empty() { searched } else { format!(" (looked in {searched})") };
            return Err(GroupError::NoGroups(searched));
        }
        // A group of gtop's settings may refer to a group of the default source.
        let source = source.filter(|source| {
            let is_config = *source == CONFIG_SOURCE && !sources.all.contains_key(CONFIG_SOURCE);
            !source.is_empty() && !is_config
        });
        let Some(name) = source.or(sources.default.as_deref()) else {
            return Err(GroupError::NoDefault(sources.file.clone(), known_names(&sources.all)));
        };
        let Some(GroupSource { file, lists }) = sources.all.get(name) else {
            return Err(GroupError::NoSource(shorten(name), known_names(&sources.all)));
        };
        let Some(lists) = lists else {
            let (source_name, group) = (shorten(name), shorten(group));
            return Err(GroupError::Command { source_name, group, file: file.clone() });
        };
        let texts = match lists.get(if group == "*" { "all" } else { group }) {
            Some(texts) => texts.clone(),
            None if group == "*" => lists.values().flatten().cloned().collect(),
            None => return Err(GroupError::no_group(group, file, lists)),
        };
        Ok(GroupDefinition::new(name, group, texts, file))
    }
}

/// Formats the last groups of a path of groups in groups.
pub(super) fn format_path<'a>(path: impl IntoIterator<Item = &'a GroupId>) -> String {
    let path: Vec<String> = path.into_iter().map(|id| shorten(&id.to_string())).collect();
    let last = path.len().saturating_sub(MAX_LISTED);
    path.get(last..).unwrap_or_default().join(" → ")
}

/// Returns a name that is safe to show, truncated.
fn shorten(name: &str) -> String {
    sanitized_chars(name).take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodeset::expand_with;
    use std::fmt::Write as _;
    use std::fs;
    use std::path::Path;

    /// The default file of `ClusterShell`.
    const DEFAULT_CONF: &str = r"[Main]
default: local
confdir: /etc/clustershell/groups.conf.d $CFGDIR/groups.conf.d
autodir: /etc/clustershell/groups.d $CFGDIR/groups.d
[local]
map: [ -f $CFGDIR/groups ] && f=$CFGDIR/groups || f=$CFGDIR/groups.d/local.cfg; sed -n 's/^$GROUP:\(.*\)/\1/p' $f
all: [ -f $CFGDIR/groups ] && f=$CFGDIR/groups || f=$CFGDIR/groups.d/local.cfg; sed -n 's/^all:\(.*\)/\1/p' $f
";

    const LOCAL: &str =
        "# c\nadm: n0\noss: n4 n5\ngpu: n[8-10]\ngpu: n20\nall: n[0-32]\nboth: @oss,@racks:new\n";

    const RACKS: &str = "racks:\n  rack1: 'n[0,2]'\n  rack2: 'n[4-5]'\n  new: '@rack[1-2]!n4'\n  loop: '@round'\n  \
        round: '@loop'\n  bad: 'n[1'\ncpu:\n  zen: [ n1, n2 ]\n";

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn groups(folders: &[&Path]) -> Groups {
        Groups::in_folders(folders.iter().map(|folder| folder.to_path_buf()).collect())
    }

    fn sample_folder() -> tempfile::TempDir {
        let command = "[queue]\nmap: sinfo -h -o %N -p $GROUP\n";
        folder(&[
            ("groups.conf", DEFAULT_CONF),
            ("groups.conf.d/queue.conf", command),
            ("groups.d/local.cfg", LOCAL),
            ("groups.d/cluster.yaml", RACKS),
        ])
    }

    #[test]
    fn groups_are_read_from_the_files() {
        let folder = sample_folder();
        let groups = groups(&[folder.path()]);
        let expand = |text: &str| expand_with(text, &groups).unwrap().join(" ");
        assert_eq!(expand("@gpu"), "n8 n9 n10 n20");
        assert_eq!(expand("@oss,@local:adm"), "n4 n5 n0");
        assert_eq!(expand("@racks:rack[1-2]"), "n0 n2 n4 n5");
        assert_eq!(expand("@racks:new"), "n0 n2 n5");
        assert_eq!(expand("@both"), "n4 n5 n0 n2");
        assert_eq!(expand("@gpu!n9&n[9-99]"), "n10 n20");
        assert_eq!(expand_with("@*", &groups).unwrap().len(), 33);
        assert_eq!(expand("@cpu:*"), "n1 n2");
        assert_eq!(expand("n3?"), "n30 n31 n32");
        assert_eq!(expand("@*!n?!n1*!n2*"), "n30 n31 n32");
    }

    #[test]
    fn groups_in_the_settings_take_precedence() {
        let folder = sample_folder();
        let config_groups: BTreeMap<_, _> = [("gpu", "own[1-2]"), ("both", "@gpu,@oss,@gtop:gpu")]
            .map(|(name, set)| (name.to_owned(), set.to_owned()))
            .into();
        let with_files = groups(&[folder.path()]).with_config_groups(config_groups.clone());
        assert_eq!(expand_with("@gpu", &with_files).unwrap(), ["own1", "own2"]);
        assert_eq!(expand_with("@both", &with_files).unwrap(), ["own1", "own2", "n4", "n5"]);
        assert_eq!(expand_with("@local:adm", &with_files).unwrap(), ["n0"]);
        let without_files = Groups::empty().with_config_groups(config_groups);
        assert_eq!(expand_with("@gpu", &without_files).unwrap(), ["own1", "own2"]);
        let error = expand_with("@gqu", &without_files).unwrap_err().to_string();
        assert!(error.contains("config.toml has no group \"gqu\"; known: both, gpu"), "{error}");
    }

    #[test]
    fn a_later_folder_takes_precedence() {
        let system = sample_folder();
        let user = folder(&[
            ("groups.conf", "[Main]\ndefault: mine\nautodir: $CFGDIR/groups.d\n"),
            ("groups.d/mine.yaml", "mine:\n  gpu: x[1-2]\n"),
        ]);
        let groups = groups(&[system.path(), user.path()]);
        assert_eq!(expand_with("@gpu", &groups).unwrap(), ["x1", "x2"]);
    }

    #[test]
    fn flat_files_and_yaml_need_no_configuration() {
        let folder =
            folder(&[("groups.d/local.cfg", "gpu: n1\n"), ("groups.d/r.yaml", "r:\n  a: n2\n")]);
        let groups = groups(&[Path::new("/nowhere"), folder.path()]);
        assert_eq!(expand_with("@gpu,@r:a", &groups).unwrap(), ["n1", "n2"]);
    }

    #[test]
    fn errors_name_the_group_and_the_file() {
        let folder = sample_folder();
        let groups = groups(&[folder.path()]);
        for (text, words) in [
            ("@gpuu", "local.cfg has no group \"gpuu\"; known: adm, all, both, gpu, oss"),
            ("@rakcs:a", "no group source \"rakcs\"; known: cpu, local, queue, racks"),
            ("@queue:debug", "gtop $(nodeset -f @queue:debug)"),
            ("@racks:loop", "@racks:loop → @racks:round → @racks:loop"),
            ("n1,@racks:bad", "@racks:bad of "),
        ] {
            let error = expand_with(text, &groups).expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        let error = expand_with("@a", &Groups::in_folders(vec!["/nowhere".into()])).unwrap_err();
        assert!(error.to_string().contains("looked in /nowhere"), "{error}");
        let bad = self::folder(&[("groups.conf", "[Main]\nnonsense\n")]);
        let error = expand_with("@a", &self::groups(&[bad.path()])).unwrap_err().to_string();
        assert!(error.contains("groups.conf:2: "), "{error}");
    }

    #[test]
    fn expanding_nested_groups_is_bounded() {
        let mut text = String::from("a:\n  g0: n[1-1000]\n");
        for level in 1..30 {
            let below = level - 1;
            writeln!(text, "  g{level}: '@g{below}^@g{below},@g{below}'").unwrap();
        }
        let folder = folder(&[("groups.d/a.yaml", text.as_str())]);
        let error = expand_with("@a:g29", &groups(&[folder.path()])).unwrap_err();
        assert_eq!(*error.kind, crate::nodeset::NodeSetErrorKind::TooMany);
    }
}

//! Where the node groups of this user are written down.

use std::path::PathBuf;

use crate::nodeset::Groups;

/// Returns the groups of `ClusterShell`'s folders: the machine's, then the user's.
pub fn groups_of_this_user() -> Groups {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = variable("HOME").map(PathBuf::from);
    let below_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let own = variable("XDG_CONFIG_HOME").map(PathBuf::from).or_else(|| below_home(".config"));
    let folders = [
        Some(PathBuf::from("/etc/clustershell")),
        below_home(".local/etc/clustershell"),
        own.map(|own| own.join("clustershell")),
        variable("CLUSTERSHELL_CFGDIR").map(PathBuf::from),
    ];
    Groups::in_folders(folders.into_iter().flatten().collect())
}

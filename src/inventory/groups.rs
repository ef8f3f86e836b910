//! Finds the node groups of this user.

use std::path::PathBuf;

use crate::nodeset::Groups;
use crate::storage::user_dirs;

/// Returns the groups in `ClusterShell`'s folders: the system's, then the user's.
pub fn user_groups() -> Groups {
    let named = std::env::var_os("CLUSTERSHELL_CFGDIR").filter(|value| !value.is_empty());
    let folders = [
        Some(PathBuf::from("/etc/clustershell")),
        user_dirs::home().map(|home| home.join(".local/etc/clustershell")),
        user_dirs::config().map(|config| config.join("clustershell")),
        named.map(PathBuf::from),
    ];
    Groups::in_folders(folders.into_iter().flatten().collect())
}

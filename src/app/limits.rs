//! Kernel limits: open files (`RLIMIT_NOFILE`) and core dumps.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Files that are open whatever the number of nodes: terminal, runtimes, log, name lookups.
const BASE_FILES: u64 = 64;

/// Open files per node: an SSH session.
pub(super) const FILES_PER_SESSION: u64 = 1;
/// An SSH session and its server, which runs in the same process with `--demo`.
pub(super) const FILES_PER_SESSION_AND_SERVER: u64 = 3;
/// The pipes of a child process.
pub(super) const FILES_PER_PROGRAM: u64 = 4;

/// Keeps typed secrets out of core dumps and out of reach of ptrace.
pub(super) fn forbid_core_dumps() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // Lowering both is always permitted. A core dump handler that takes a pipe ignores the limit, so dumpable
    // is cleared too.
    setrlimit(Resource::Core, none).ok();
    set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
}

/// Returns a warning, with the remedy, if not all nodes fit below the limit.
pub(super) fn open_files_warning(
    limit: Option<u64>,
    nodes: usize,
    files_per_node: u64,
) -> Option<String> {
    let nodes = u64::try_from(nodes).unwrap_or(u64::MAX);
    let needed = nodes.saturating_mul(files_per_node).saturating_add(BASE_FILES);
    let limit = limit.filter(|limit| *limit < needed)?;
    let fit = limit.saturating_sub(BASE_FILES) / files_per_node;
    Some(format!(
        "the limit of {limit} open files is enough for about {fit} of {nodes} nodes; watch fewer, or raise \
         the hard limit to {} (ulimit -Hn shows it; nofile in /etc/security/limits.conf sets it)",
        needed.next_power_of_two()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_appears_only_if_not_all_nodes_fit() {
        for (limit, nodes, cost, expected) in [
            (None, usize::MAX, FILES_PER_PROGRAM, None),
            (Some(1024), 960, FILES_PER_SESSION, None),
            (Some(1024), 961, FILES_PER_SESSION, Some("960 of 961 nodes")),
            (Some(1024), 2000, FILES_PER_SESSION, Some("hard limit to 4096")),
            (Some(1024), 1000, FILES_PER_PROGRAM, Some("240 of 1000 nodes")),
            (Some(1024), 1000, FILES_PER_SESSION_AND_SERVER, Some("320 of 1000 nodes")),
            (Some(20), 1, FILES_PER_SESSION, Some("about 0 of 1 nodes")),
        ] {
            let warning = open_files_warning(limit, nodes, cost);
            match expected {
                Some(text) => {
                    assert!(warning.as_ref().is_some_and(|one| one.contains(text)), "{warning:?}");
                }
                None => assert_eq!(warning, None, "{limit:?} {nodes}"),
            }
        }
    }

    #[test]
    fn core_dumps_are_disabled_after_a_secret_prompt() {
        forbid_core_dumps();
        let limit = rustix::process::getrlimit(Resource::Core);
        assert_eq!((limit.current, limit.maximum), (Some(0), Some(0)));
        let behavior = rustix::process::dumpable_behavior().unwrap();
        assert_eq!(behavior, DumpableBehavior::NotDumpable);
    }
}

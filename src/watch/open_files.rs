//! The limit of open files (`RLIMIT_NOFILE`): each node needs some.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit that the process was started with.
static INITIAL: OnceLock<Rlimit> = OnceLock::new();

/// Sets the limit of open files back, for a program that replaces gtop: some fail above 1024.
pub fn restore_open_files() {
    if let Some(limit) = INITIAL.get() {
        // Lowering the soft limit is always permitted.
        setrlimit(Resource::Nofile, *limit).ok();
    }
}

/// Raises the limit of open files to the hard limit. Returns the new limit; `None` if unlimited.
pub fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    INITIAL.get_or_init(|| limit);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let limit = raise_open_files();
        let now = getrlimit(Resource::Nofile);
        assert_eq!((now.current, now.maximum), (limit, limit));
    }
}

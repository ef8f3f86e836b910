//! Why a node has no Python for the probe.

use super::PYTHONS;

/// Prefix of a reason in the output of a login shell.
pub const REASON_PREFIX: &str = "gtop-reason ";

/// Returns the command that prints, for each Python the loader tries, why it cannot be used, one per line; for any
/// login shell.
pub fn why_no_python() -> String {
    format!(
        "exec /bin/sh -c 'for p in {PYTHONS};do q=$(command -v $p)||{{ echo \"{REASON_PREFIX}$p: not there\";continue;}};\
         if $q -IS -c \"import sys;sys.exit(sys.version_info<(3,6))\" </dev/null >/dev/null 2>&1;then \
         echo \"{REASON_PREFIX}$q: lacks zlib or binascii\";else \
         echo \"{REASON_PREFIX}$q: $($q -V 2>&1 </dev/null|head -n 1), and 3.6 is needed\";fi;done'"
    )
}

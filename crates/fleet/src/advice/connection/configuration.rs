//! Where an option of ssh or sshd is corrected, and what an administrator does.

use crate::advice::known::Known;
use crate::advice::steps::Step;

/// Most distributions call the unit `sshd`; Debian and Ubuntu call it `ssh`.
pub(super) const RELOAD_SSHD: &str = "systemctl reload sshd || systemctl reload ssh";

pub(super) const SSH_CONFIG: &str = "~/.ssh/config";

pub(super) const SSHD_CONFIG: &str = "/etc/ssh/sshd_config";

impl Known {
    /// Returns where to change an option: the line that sets it, or the file to add it to.
    pub(super) fn correct_option(&self, name: &str) -> String {
        if self.is_in_name(name) {
            return format!("correct the {} of {}", name.to_lowercase(), self.node);
        }
        match self.origin(name) {
            Some(origin) => format!("correct {name} in {origin}"),
            None => format!("set {name} for {} in ~/.ssh/config", self.host),
        }
    }

    /// Returns what to add to `~/.ssh/config`, where the first value counts. The final `Host *` ends the
    /// section of the node.
    pub(super) fn ssh_config(&self, then: &str, lines: &[&str]) -> Step {
        let lines = lines.iter().map(|line| format!("  {line}"));
        let host = std::iter::once(format!("Host {}", self.host));
        let lines = host.chain(lines).chain(["Host *".to_owned()]).collect();
        Step::put(SSH_CONFIG, format!("add at the top of {SSH_CONFIG}{then}"), lines)
    }

    /// Returns what an administrator adds to `sshd_config`, where the first value counts.
    pub(super) fn sshd_config(&self, line: &str) -> Step {
        let words = format!(
            "add at the top of {SSHD_CONFIG}, outside any Match block, then run {RELOAD_SSHD}"
        );
        Step::put(SSHD_CONFIG, words, vec![line.to_owned()]).with_root_on(&self.host)
    }

    pub(super) fn as_root(&self, command: impl Into<String>) -> Step {
        Step::run("", command).with_root_on(&self.host)
    }
}

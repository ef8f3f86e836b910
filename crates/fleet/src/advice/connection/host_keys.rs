//! What to do about host keys that are unknown, changed or revoked.

use crate::advice::connection::algorithms::is_old;
use crate::advice::known::{Known, shell_quoted, shell_quoted_path};
use crate::advice::reader::Reader;
use crate::advice::steps::{Advice, Step};
use gtop_local::fault::ssh::{Fault as SshFault, HostKeyChange};
use gtop_local::fault::{Origin, UnknownHostKey};

/// Returns what to do if the host key of a node cannot be fetched to be trusted.
pub fn of_untrusted(fault: &SshFault, known: &Known) -> Advice {
    // ssh asks for the keys of gateways too, and stores them.
    let accept = known.accept_with_ssh();
    let root = fault.root();
    if matches!(root, SshFault::NeedsSshProgram { .. } | SshFault::UnsupportedAlgorithms { .. }) {
        let is_of_node = !matches!(fault, SshFault::AtGateway { .. });
        if is_of_node && known.unknown_host_key() != UnknownHostKey::Kept {
            return known.of_key_kept_nowhere();
        }
        return accept.into();
    }
    let SshFault::NoCommonAlgorithm { kind, theirs, .. } = root else {
        return known.of_ssh(fault);
    };
    if theirs.iter().any(|name| !is_old(name)) {
        return accept.into();
    }
    let mut at = known.clone();
    if let SshFault::AtGateway { gateway, .. } = fault {
        at = known.gateway(gateway);
    }
    let allow = at.of_algorithms(kind, theirs).steps.into_iter().take(1);
    Advice::default().then(allow).then([accept.and()])
}

/// Returns what to do about two hosts with different keys under one name of `known_hosts`.
pub fn of_shared_name() -> Advice {
    "give each of them a HostKeyAlias of its own in ~/.ssh/config; if they are one host, ask the administrator".into()
}

/// Returns how to accept unknown host keys.
pub(super) fn trust(nodes: &str, reader: Reader) -> Step {
    let words = if reader.has_keys() {
        "press A to see the key and answer, or run"
    } else {
        "compare the fingerprint with the administrator's, then"
    };
    Step::run(words, format!("gtop trust {nodes}"))
}

impl Known {
    pub(super) fn trust(&self) -> Step {
        trust(&self.quoted_node(), self.reader)
    }

    pub(super) fn accept_with_ssh(&self) -> Step {
        let words = "compare the fingerprint with the administrator's, and answer yes to";
        let ask = "-o StrictHostKeyChecking=ask -o BatchMode=no";
        Step::run(words, format!("ssh {ask} {} true", self.destination))
    }

    /// Returns what to do about a host key that is unknown and would be forgotten again.
    pub(super) fn of_key_kept_nowhere(&self) -> Advice {
        let correct = Step::words(self.correct_option("UserKnownHostsFile"));
        if self.unknown_host_key() == UnknownHostKey::Refused {
            // ssh refuses the key in a login as well.
            return Advice::from(correct).then([self.trust().and()]);
        }
        Advice::from(self.log_in_once()).then([correct.or(), self.trust().and()])
    }

    pub(super) fn of_changed_key(&self, change: &HostKeyChange) -> Advice {
        let words = "ask the administrator; if the node was reinstalled";
        if change.at.file.starts_with("/etc") {
            let (file, host) = (shell_quoted_path(&change.at.file), shell_quoted(&change.host));
            let remove = Step::run(words, format!("ssh-keygen -f {file} -R {host}"));
            let trust = format!("gtop trust {}", self.quoted_node());
            return Advice::from(remove.with_root_on("this machine"))
                .then([Step::run("run", trust).and()]);
        }
        let command = format!(
            "ssh-keygen -f {} -R {} && gtop trust {}",
            shell_quoted_path(&change.at.file),
            shell_quoted(&change.host),
            self.quoted_node()
        );
        Step::run(words, command).into()
    }

    pub(super) fn of_revoked_key(&self, at: Option<&Origin>) -> Advice {
        let unless = at.map(|at| format!(", unless {at} is wrong")).unwrap_or_default();
        Step::words(format!("do not connect; {} needs a new host key{unless}", self.host)).into()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::advice::connection::examples::{plain, text};
    use gtop_local::fault::LoginFacts;

    #[test]
    fn a_changed_key_of_all_users_is_removed_by_root() {
        let change = HostKeyChange {
            host: "gpu11".to_owned(),
            at: Origin { file: Path::new("/etc/ssh/ssh_known_hosts").into(), line: 3 },
            known: String::new(),
            algorithm: String::new(),
            fingerprint: String::new(),
        };
        let text = text(&plain(), &SshFault::HostKeyChanged(Box::new(change)));
        assert!(
            text.contains("as root on this machine: ")
                && text.contains("ssh-keygen -f /etc/ssh/ssh_known_hosts -R gpu11\n")
                && text.ends_with("and run: gtop trust gpu11"),
            "{text}"
        );
    }

    #[test]
    fn a_host_that_ssh_itself_cannot_reach_yet_is_trusted_after_the_line_that_helps() {
        let fault = |names: &[&str]| SshFault::NoCommonAlgorithm {
            kind: "key exchange",
            ours: vec!["x".to_owned()],
            theirs: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let old = of_untrusted(&fault(&["diffie-hellman-group14-sha1", "ext-info-s"]), &plain());
        assert!(
            old.text().contains("KexAlgorithms +diffie-hellman-group14-sha1"),
            "{}",
            old.text()
        );
        assert!(old.text().contains("and compare the fingerprint"), "{}", old.text());
        let new = of_untrusted(&fault(&["sntrup761x25519-sha512"]), &plain());
        assert!(new.text().starts_with("compare the fingerprint"), "{}", new.text());
        let gateway = fault(&["diffie-hellman-group14-sha1"]).at_gateway("gate");
        let text = of_untrusted(&gateway, &plain()).text();
        assert!(text.contains("Host gate\n") && text.contains(" gpu11 true"), "{text}");
    }

    #[test]
    fn a_key_that_no_file_keeps_is_accepted_in_a_login_where_ssh_asks_about_it() {
        let needs = SshFault::NeedsSshProgram { options: "KnownHostsCommand".to_owned() };
        for (unknown_host_key, start) in [
            (UnknownHostKey::Kept, "compare the fingerprint"),
            (UnknownHostKey::Forgotten, "log in once"),
            (UnknownHostKey::Refused, "set UserKnownHostsFile for gpu11"),
        ] {
            let mut known = plain();
            let facts =
                LoginFacts { unknown_host_key, shares_logins: true, ..LoginFacts::default() };
            known.set_facts(Some(facts.into()));
            let text = of_untrusted(&needs, &known).text();
            assert!(text.starts_with(start), "{text}");
            assert_eq!(text.contains("gtop login"), start == "log in once", "{text}");
        }
    }
}

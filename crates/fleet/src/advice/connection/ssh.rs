//! What to do about faults of SSH.

use crate::advice::connection::algorithms::algorithm_option;
use crate::advice::connection::authentication::{
    offers_login_without_key, offers_method, signature_algorithm,
};
use crate::advice::connection::kinds::FILE_LIMIT;
use crate::advice::connection::reachability::START_SSHD;
use crate::advice::known::{Known, shell_quoted, shell_quoted_path};
use crate::advice::steps::{Advice, Step};
use gtop_local::fault::ssh::Fault as SshFault;
use gtop_local::fault::{ConnectPhase, KeyFileProblem, SshProgramCause, UnknownHostKey};

pub(super) fn use_ssh_program(nodes: &str) -> Step {
    Step::run("use the ssh program", format!("gtop --transport ssh {nodes}"))
}

/// Returns true if the name of a node looks like a command.
pub(super) fn is_word(name: &str) -> bool {
    name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
}

impl Known {
    #[expect(clippy::too_many_lines, reason = "a line or two for each fault")]
    pub(super) fn of_ssh(&self, fault: &SshFault) -> Advice {
        let Self { destination, .. } = self;
        let node = self.quoted_node();
        let (address, port) = (self.address(), self.port());
        match fault {
            SshFault::NameNotFound { host, .. } => {
                let host = host.as_deref().unwrap_or(&self.host);
                let words = if self.is_like_command(host) {
                    "there is no such command either (gtop --help lists them); check the spelling"
                } else {
                    "check the spelling"
                };
                let check = Step::run(words, format!("getent hosts {}", shell_quoted(host)));
                Advice::from(check).then([Step::words(self.correct_option("HostName")).or()])
            }
            SshFault::Unreachable { .. } => Step::run(
                "check that it is up and reachable from this network",
                format!("ping -c 3 {address}"),
            )
            .into(),
            SshFault::TooManyOpenFiles => FILE_LIMIT.into(),
            SshFault::ConnectionRefused { port } => {
                let correct = self.correct_option("Port");
                Advice::from(self.as_root(START_SSHD))
                    .then([Step::words(format!("{correct} if it is not {port}")).or()])
            }
            SshFault::TimedOut { phase, .. } => {
                let is_slow = *phase == ConnectPhase::BannerExchange;
                Advice::from(self.for_timeout(*phase)).then(is_slow.then(|| self.wait_longer()))
            }
            SshFault::OtherProtocol { .. } => {
                "ask the administrator for a newer sshd: protocol 1 is broken, and neither gtop nor ssh speaks it".into()
            }
            SshFault::NoBanner { is_closed: true, .. } => Advice::words(format!(
                "sshd may refuse new connections for now (MaxStartups): {}",
                self.reader.reconnects()
            ))
            .then([Step::words(format!("if the port is wrong, {}", self.correct_option("Port")))]),
            SshFault::NoBanner { .. } => {
                Step::words(format!(
                    "no SSH server listens on the port; if the port is wrong, {}",
                    self.correct_option("Port")
                ))
                .into()
            }
            SshFault::NoCommonAlgorithm { kind, ours, theirs } => {
                let update = self.of_algorithms(kind, theirs);
                // Without a list of gtop's own, the ssh program found none in common either.
                if ours.is_empty() || self.origin(algorithm_option(kind)).is_some() {
                    return update;
                }
                if let Some(line) = self.old_algorithm(kind, theirs) {
                    return Advice::from(line).then([self.use_ssh_program().and()]);
                }
                Advice::from(self.use_ssh_program()).then(update.steps.into_iter().map(Step::or))
            }
            SshFault::HostKeyUnknown { .. } => self.trust().into(),
            SshFault::HostKeyNotKept { .. } => self.of_key_kept_nowhere(),
            SshFault::HostCertificateRefused { .. } => Step::run(
                "have the certificate renewed, or compare the fingerprint, then",
                format!("gtop trust {node}"),
            )
            .into(),
            SshFault::HostKeyChanged(change) => self.of_changed_key(change),
            SshFault::HostKeyRevoked { at, .. } => self.of_revoked_key(Some(at)),
            SshFault::AuthenticationRefused { user, offers, .. } if fault.had_no_key() => {
                let log_in =
                    offers_login_without_key(offers).then(|| self.log_in_once().or());
                Advice::from(self.new_key(user, offers)).then(log_in)
            }
            SshFault::AuthenticationRefused { user, offers, tried }
                if offers_method(offers, "publickey") =>
            {
                self.authorize_key(user, offers, tried)
            }
            SshFault::AuthenticationRefused { offers, .. } => self.without_key(offers),
            SshFault::TooManyKeys { .. } => {
                let then = ", with the key that the node accepts as FILE (FILE.pub for a key in the agent)";
                self.ssh_config(then, &["IdentityFile FILE", "IdentitiesOnly yes"]).into()
            }
            SshFault::MoreAuthenticationRequired { required, .. }
                if offers_method(required, "publickey") =>
            {
                Step::run("the node wants a second key: load another one that it accepts", "ssh-add FILE").into()
            }
            SshFault::MoreAuthenticationRequired { .. } => self.log_in(),
            SshFault::PasswordOnly { .. } => self.log_in().then([
                self.allow_keys().or(),
                Step::run("install your key on the node", self.copy_id()).and(),
            ]),
            SshFault::PromptUnanswered { why, .. } => self.of_prompt(*why),
            SshFault::KeyUnusable { file, problem: KeyFileProblem::Unprotected, .. } => {
                Step::run("", format!("chmod 600 {}", shell_quoted_path(file))).into()
            }
            SshFault::KeyUnusable { problem: KeyFileProblem::AlgorithmExcluded(kind), .. } => {
                let kind = signature_algorithm(kind);
                self.ssh_config("", &[&format!("PubkeyAcceptedAlgorithms +{kind}")]).into()
            }
            SshFault::KeyUnusable { problem: KeyFileProblem::TooShort(_), offers, .. } => {
                self.new_key("", offers).into()
            }
            SshFault::KeyEncrypted { file } => {
                let file = shell_quoted_path(file);
                let agent =
                    if self.has(|facts| facts.has_agent) { "" } else { "eval $(ssh-agent) && " };
                Step::run(
                    "start gtop from a terminal, or load the key",
                    format!("{agent}ssh-add {file}"),
                )
                .into()
            }
            SshFault::AgentUnreachable { .. } => Step::run(
                "start an agent and add your key FILE",
                "eval $(ssh-agent) && ssh-add FILE",
            )
            .into(),
            SshFault::ChannelRefused { .. } => Advice::words("close other sessions")
                .then([self.sshd_config("MaxSessions 100").or()]),
            SshFault::CommandRefused => {
                "ask the administrator to let this account run commands".into()
            }
            SshFault::NeedsSshProgram { .. } | SshFault::UnsupportedAlgorithms { .. } => {
                self.use_ssh_program().into()
            }
            // The key of a gateway is asked about on the way to the node.
            SshFault::AtGateway { fault, .. }
                if matches!(
                    fault.root(),
                    SshFault::HostKeyUnknown { .. } | SshFault::HostCertificateRefused { .. }
                ) =>
            {
                self.of_ssh(fault)
            }
            SshFault::AtGateway { gateway, fault } => self.gateway(gateway).of_ssh(fault),
            SshFault::GatewayCannotReach { gateway, .. } => {
                let gateway = Self::of_destination(gateway).destination;
                let check = Step::run(
                    "check from the gateway whether the node answers",
                    format!("ssh {gateway} nc -zv {address} {port}"),
                );
                let start = self.as_root(START_SSHD).when("nothing listens there");
                Advice::from(check).then([start])
            }
            SshFault::GatewayForwardingRefused { gateway, .. } => {
                let gateway = self.gateway(gateway);
                let renew = gateway.renew_password().when("the password there has expired");
                Advice::from(gateway.sshd_config("AllowTcpForwarding yes")).then([
                    Step::words(format!("add {address}:{port} to PermitOpen if it is set")).and(),
                    renew,
                ])
            }
            SshFault::ProxyCommandFailed { command, .. } => {
                Advice::from(Step::run("run it by hand", command.as_str()))
                    .then([Step::words(self.correct_option("ProxyCommand")).or(), self.wait_longer()])
            }
            SshFault::SshProgram { cause: SshProgramCause::HostKeyUnknown, .. }
                if self.unknown_host_key() != UnknownHostKey::Kept =>
            {
                self.of_key_kept_nowhere()
            }
            SshFault::SshProgram { cause: SshProgramCause::HostKeyUnknown, .. } => {
                self.accept_with_ssh().into()
            }
            SshFault::SshProgram { cause: SshProgramCause::HostKeyRevoked, .. } => {
                self.of_revoked_key(None)
            }
            SshFault::SshProgram { cause: SshProgramCause::Configuration, .. }
            | SshFault::BadConfiguration { .. } => {
                Step::run("correct it, then check it with", format!("ssh -G {destination}")).into()
            }
            SshFault::SshProgram { cause: SshProgramCause::Other, .. } => self.by_hand().into(),
            SshFault::ConnectionLost { .. } | SshFault::SessionLost { .. } => {
                Advice::words(self.reader.reconnects()).then([self.by_hand().or()])
            }
            SshFault::AccountRefused { user, message } => self.of_account(user, message),
            SshFault::JobRequired { .. } => {
                let host = shell_quoted(&self.host);
                Advice::from(Step::run("submit a job to this node", format!("salloc -w {host}")))
                    .then([Step::run("if one of your jobs runs there", "gtop --slurm --transport srun")])
            }
            SshFault::ProgramNotFound(error) => Step::words(format!(
                "install {}, or specify another one (--ssh-binary=PROGRAM, --exec 'PROGRAM …')",
                error.program
            ))
            .into(),
        }
    }

    /// Returns true if the user may have meant a command: the node is a word, and its name is the one that is looked up.
    pub(super) fn is_like_command(&self, host: &str) -> bool {
        host == self.node && self.node == self.watched && is_word(host)
    }

    /// Returns what is known of a gateway: what `ProxyJump` names.
    pub(super) fn gateway(&self, gateway: &str) -> Self {
        let mut known = Self::of_destination(gateway);
        known.reader = self.reader;
        known.watched.clone_from(&self.watched);
        known.facts.clone_from(&self.facts);
        known
    }

    pub(super) fn by_hand(&self) -> Step {
        Step::run("try by hand", format!("ssh -v {} true", self.destination))
    }

    pub(super) fn use_ssh_program(&self) -> Step {
        use_ssh_program(&self.watched)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::advice::connection::examples::{known, plain, text};
    use crate::advice::connection::for_fault;
    use gtop_local::fault::ssh::HostKeyChange;
    use gtop_local::fault::{LoginFacts, Origin};
    use gtop_model::{Fault, FaultKind};

    #[test]
    fn each_program_gets_the_node_in_its_own_syntax() {
        let known = known("ada@gpu11:2222", Some("ada"), Some(2222), Some("ada"));
        let x = || "x".to_owned();
        for (fault, expected) in [
            (SshFault::JobRequired { message: x() }, "salloc -w gpu11\n"),
            (SshFault::SessionLost { why: x() }, "ssh -v -p 2222 ada@gpu11 true"),
            (SshFault::PasswordOnly { user: x() }, "gtop login ada@gpu11:2222\n"),
            (SshFault::PasswordOnly { user: x() }, "ssh-copy-id -p 2222 ada@gpu11"),
            (
                SshFault::ChannelRefused { why: x() },
                "as root on gpu11: add at the top of /etc/ssh/sshd_config, outside any Match block, then run systemctl reload sshd || systemctl reload ssh:\n",
            ),
            (
                SshFault::ConnectionRefused { port: 22 },
                "as root on gpu11: systemctl start sshd || systemctl start ssh\n",
            ),
            (SshFault::NeedsSshProgram { options: x() }, "gtop --transport ssh ada@gpu11:2222"),
            (
                SshFault::GatewayCannotReach { gateway: "eve@bastion:2200".to_owned(), why: x() },
                "ssh -p 2200 eve@bastion nc -zv gpu11 22",
            ),
            (
                SshFault::GatewayForwardingRefused {
                    gateway: "ssh://eve@[fe80::1]:2200".to_owned(),
                    why: x(),
                },
                "as root on fe80::1: ",
            ),
            (
                SshFault::HostKeyUnknown { host: x(), algorithm: x(), fingerprint: x() }
                    .at_gateway("eve@bastion:2200"),
                "gtop trust ada@gpu11:2222",
            ),
        ] {
            let text = text(&known, &fault);
            assert!(text.contains(expected), "{expected} in {text}");
        }
        for (kind, expected) in [
            (FaultKind::HostKeyUnknown, "gtop trust ada@gpu11:2222"),
            (FaultKind::BadReply, "ssh -p 2222 ada@gpu11 true"),
        ] {
            let text = for_fault(&Fault::new(kind, ""), &known).text();
            assert!(text.ends_with(expected), "{expected} in {text}");
        }
    }

    #[test]
    fn names_with_shell_metacharacters_are_quoted() {
        let file = Path::new("/k/my $(id)");
        let open = SshFault::KeyUnusable {
            file: file.into(),
            problem: KeyFileProblem::Unprotected,
            offers: Vec::new(),
        };
        assert_eq!(text(&plain(), &open), "chmod 600 '/k/my $(id)'");
        let locked = text(&plain(), &SshFault::KeyEncrypted { file: file.into() });
        assert!(locked.ends_with("ssh-add '/k/my $(id)'"), "{locked}");
        let changed = SshFault::HostKeyChanged(Box::new(HostKeyChange {
            host: "'; curl evil".to_owned(),
            at: Origin { file: file.into(), line: 1 },
            known: String::new(),
            algorithm: String::new(),
            fingerprint: String::new(),
        }));
        let changed = text(&plain(), &changed);
        let expected = r"ssh-keygen -f '/k/my $(id)' -R ''\''; curl evil' && gtop";
        assert!(changed.contains(expected), "{changed}");
        let origin = Origin { file: Path::new("/c").into(), line: 1 };
        let mut known = plain();
        known.set_option("IdentityFile", &["~/.ssh/my key".to_owned()], Some(&origin));
        let install = text(&known, &SshFault::PasswordOnly { user: String::new() });
        assert!(install.ends_with("ssh-copy-id -i ~/'.ssh/my key' gpu11"), "{install}");
    }

    #[test]
    fn only_a_command_follows_a_colon() {
        let closed = SshFault::NoBanner { port: 22, why: String::new(), is_closed: false };
        let after = std::time::Duration::from_secs(1);
        let silent = SshFault::TimedOut { phase: ConnectPhase::BannerExchange, after };
        let wait = "if it is only slow, wait longer: gtop --connect-timeout 60 gpu11";
        for (fault, colons) in [(closed, 0), (silent, 1)] {
            let text = text(&plain(), &fault);
            assert_eq!(text.matches(": ").count(), colons, "{text}");
            assert!(text.contains("set Port for gpu11"), "{text}");
            assert_eq!(text.contains(wait), colons == 1, "{text}");
        }
    }

    #[test]
    fn what_the_name_of_a_node_or_an_option_gives_is_corrected_there() {
        let after = std::time::Duration::from_secs(1);
        let silent = SshFault::TimedOut { phase: ConnectPhase::BannerExchange, after };
        let typed = text(&Known::of_destination("ada@gpu11:2222"), &silent);
        assert!(typed.contains("correct the port of ada@gpu11:2222"), "{typed}");
        let mut known = plain();
        let facts = LoginFacts {
            login_option: Some("eve".to_owned()),
            shares_logins: true,
            ..LoginFacts::default()
        };
        known.set_facts(Some(facts.into()));
        let refused = SshFault::PasswordOnly { user: "eve".to_owned() };
        let text = text(&known, &refused);
        assert!(text.contains("gtop login eve@gpu11\n"), "{text}");
        assert!(text.contains("ssh -fNM eve@gpu11"), "{text}");
    }

    #[test]
    fn what_the_configuration_says_of_the_host_is_in_the_commands() {
        let mut known = plain();
        let facts = LoginFacts {
            host_name: "10.0.0.1".to_owned(),
            port: 2222,
            user: "eve".to_owned(),
            key_file: Some("/k/my key".to_owned()),
            unknown_host_key: UnknownHostKey::Forgotten,
            ..LoginFacts::default()
        };
        known.facts = Some(facts.into());
        let x = || "x".to_owned();
        let refused = |tried: &str| SshFault::AuthenticationRefused {
            user: x(),
            offers: vec!["publickey".to_owned(), "password".to_owned()],
            tried: vec![tried.to_owned()],
        };
        let keygen = "ssh-keygen -t ed25519 -f '/k/my key' && ssh-copy-id -i '/k/my key' gpu11\n";
        let shared = "gtop login --transport auto gpu11 && gtop --transport auto gpu11";
        let unknown = SshFault::SshProgram { cause: SshProgramCause::HostKeyUnknown, message: x() };
        for (fault, expected) in [
            (
                refused("/k/my key"),
                "install your key on the node: ssh-copy-id -i '/k/my key' gpu11\n",
            ),
            (refused("no key to offer"), keygen),
            (refused("no key to offer"), shared),
            (SshFault::PasswordOnly { user: x() }, shared),
            (SshFault::KeyEncrypted { file: "/k/id".into() }, "eval $(ssh-agent) && ssh-add /k/id"),
            (unknown, shared),
            (
                SshFault::GatewayCannotReach { gateway: "bastion".to_owned(), why: x() },
                "ssh bastion nc -zv 10.0.0.1 2222",
            ),
        ] {
            let text = text(&known, &fault);
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }

    #[test]
    fn what_helps_at_a_gateway_is_done_for_the_node_behind_it() {
        let known = known("ada@gpu11:2222", Some("ada"), Some(2222), None);
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let fault = |ours: &[&str], theirs: &[&str]| SshFault::NoCommonAlgorithm {
            kind: "cipher",
            ours: names(ours),
            theirs: names(theirs),
        };
        let needs = SshFault::NeedsSshProgram { options: "KnownHostsCommand".to_owned() };
        for fault in [needs, fault(&["a"], &["b"]), fault(&["a"], &["3des-cbc"])] {
            let text = text(&known, &fault.at_gateway("bastion"));
            assert!(
                text.contains("use the ssh program: gtop --transport ssh ada@gpu11:2222"),
                "{text}"
            );
        }
        // An algorithm that the ssh program does not offer by itself needs both.
        let both = text(&known, &fault(&["a"], &["3des-cbc"]).at_gateway("bastion"));
        assert!(both.contains("Host bastion\n      Ciphers +3des-cbc"), "{both}");
        assert!(both.contains("\nand use the ssh program: "), "{both}");
        let refuses = SshFault::GatewayForwardingRefused {
            gateway: "eve@bastion:2200".to_owned(),
            why: String::new(),
        };
        let expired = "if the password there has expired, log in and set a new password: ssh -t -p 2200 eve@bastion";
        assert!(text(&known, &refuses).contains(expired));
    }
}

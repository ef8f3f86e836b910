//! What to do about a fault, with the names of this very node filled in.
//!
//! A remedy is a line or more, of which one is enough unless it says otherwise. What stands behind the last colon of
//! a line is literal: a command as it can be typed, or, indented below it, the lines that go into a file.

use std::collections::BTreeMap;

use crate::model::{self, FaultKind, clean};
use crate::transport::{Fault, KeyFlaw, Origin, Reach, Step, Target};

/// Knows a node well enough to name files, lines and commands.
#[derive(Clone, Debug)]
pub(super) struct Advice {
    /// As typed.
    node: String,
    options: BTreeMap<&'static str, (String, Option<String>)>,
}

/// What nologin prints in place of a shell.
const NO_SHELL: &str = "account is currently not available";

/// What sshd prints in place of a command while the password has to be changed.
const EXPIRED: &str = "password has expired";

/// What the PAM of Linux says of an account that ended.
const ACCOUNT_EXPIRED: &str = "account has expired";

/// Returns whether somebody without a key may log in.
fn can_log_in(offers: &[String]) -> bool {
    offers.iter().any(|offer| offer == "password" || offer == "keyboard-interactive")
}

/// Returns whether an agent listens where ssh-add looks for one.
fn has_agent() -> bool {
    let socket = std::env::var_os("SSH_AUTH_SOCK");
    socket.is_some_and(|socket| std::os::unix::net::UnixStream::connect(socket).is_ok())
}

impl Advice {
    pub(super) fn about(target: &Target) -> Self {
        let node = match &target.reach {
            Reach::Ssh(_) => target.name.host().to_owned(),
            Reach::Local => "this machine".to_owned(),
        };
        Self { node, options: BTreeMap::new() }
    }

    /// Remembers an option in effect, and the line that set it.
    pub(super) fn know(&mut self, name: &'static str, value: &str, origin: Option<&Origin>) {
        self.options.insert(name, (value.to_owned(), origin.map(ToString::to_string)));
    }

    fn value(&self, name: &str) -> &str {
        self.options.get(name).map_or("", |(value, _)| value)
    }

    /// Says where to change an option: the line that sets it, or the file to add it to.
    fn correct(&self, name: &str) -> String {
        match self.options.get(name).and_then(|(_, origin)| origin.as_deref()) {
            Some(origin) => format!("correct {name} in {origin}"),
            None => format!("set {name} for {} in ~/.ssh/config", self.node),
        }
    }

    /// Says what to add to the configuration of ssh; what comes first there counts. The last line keeps what follows
    /// from being meant for this node alone.
    fn ssh_config(&self, then: &str, lines: &[&str]) -> String {
        let lines = lines.join("\n      ");
        format!(
            "put first in ~/.ssh/config{then}:\n    Host {}\n      {lines}\n    Host *",
            self.node
        )
    }

    /// Says what an administrator adds to the configuration of sshd; what comes first there counts.
    fn sshd_config(&self, line: &str) -> String {
        self.as_root(&format!(
            "put first in /etc/ssh/sshd_config, then run systemctl reload sshd:\n    {line}"
        ))
    }

    fn as_root(&self, what: &str) -> String {
        format!("as root on {}: {what}", self.node)
    }

    /// Returns the same for a host on the way, of which nothing is known but its name.
    fn about_gateway(gateway: &str) -> Self {
        Self { node: gateway.to_owned(), options: BTreeMap::new() }
    }

    /// How to get a key accepted.
    fn copy_id(&self) -> String {
        let key = self.value("IdentityFile").split_whitespace().next().unwrap_or("");
        // Several are the defaults, and which of them exists is not known.
        let file = if self.options.get("IdentityFile").is_some_and(|(_, origin)| origin.is_some()) {
            format!("-i {key} ")
        } else {
            String::new()
        };
        format!("ssh-copy-id {file}{}", self.node)
    }

    /// Asks for what nobody but the administrator can do about a key that is not there yet.
    fn add_key(&self, file: &str) -> String {
        let user = self.value("User");
        format!("ask the administrator to add {file}.pub to ~{user}/.ssh/authorized_keys there")
    }

    /// How a new key is made and gets there: by who can log in without it, or by others.
    fn new_key(&self, offers: &[String]) -> String {
        let make = "ssh-keygen -t ed25519";
        if can_log_in(offers) {
            return format!("make a key and give it to the node: {make} && {}", self.copy_id());
        }
        format!("{}, once it is made: {make}", self.add_key("~/.ssh/id_ed25519"))
    }

    /// What to do about a key that was refused, which a node never explains but in its log.
    fn known_key(&self, offers: &[String], tried: &[String]) -> String {
        let shown = tried.iter().find(|what| !what.starts_with("not "));
        let file = shown.map(|what| what.trim_end_matches(" in the agent"));
        let give = match file {
            Some(file) if !can_log_in(offers) => self.add_key(file),
            _ => format!("give the node your key: {}", self.copy_id()),
        };
        let mut remedy = format!("{give}\nor {}", self.correct("User"));
        let public = file.and_then(|file| std::fs::read_to_string(format!("{file}.pub")).ok());
        let kind = public.as_deref().and_then(|key| key.split_whitespace().next());
        let line = kind.map(|kind| format!("PubkeyAcceptedAlgorithms +{}", clean(kind, 64)));
        let accept = line.map(|line| self.sshd_config(&line));
        let user = self.value("User");
        let open =
            self.as_root(&format!("chmod go-w ~{user} ~{user}/.ssh ~{user}/.ssh/authorized_keys"));
        let shell = self.give_shell();
        for (says, what) in [
            ("not in PubkeyAcceptedAlgorithms", accept.as_deref()),
            ("bad ownership or modes", Some(&open)),
            ("because shell", Some(&shell)),
        ] {
            remedy.extend(what.map(|what| format!("\nif its sshd logs \"{says}\", {what}")));
        }
        remedy
    }

    #[expect(clippy::too_many_lines, reason = "a line or two for each fault")]
    pub(super) fn of_transport(&self, fault: &Fault) -> String {
        let Self { node, .. } = self;
        match fault {
            Fault::NameNotFound { host, .. } => {
                let name = host.as_deref().unwrap_or(node);
                format!("check the spelling (getent hosts {name}), or {}", self.correct("HostName"))
            }
            Fault::Unreachable { .. } => {
                format!("see whether it is up (ping {}), and on this network", self.host())
            }
            Fault::FileLimit => FaultKind::FileLimit.remedy().to_owned(),
            Fault::Refused { port } => format!(
                "{}\nor {} if it is not {port}",
                self.as_root("systemctl start sshd"),
                self.correct("Port")
            ),
            Fault::TimedOut { step, .. } => self.of_timeout(*step),
            Fault::NotSsh { .. } => format!(
                "what listens there is no SSH server, or refuses new connections: {}",
                self.correct("Port")
            ),
            Fault::NoCommonAlgorithm { kind, .. } => {
                let option = match *kind {
                    "host key" => "HostKeyAlgorithms",
                    "cipher" => "Ciphers",
                    "MAC" => "MACs",
                    _ => "KexAlgorithms",
                };
                match self.options.get(option) {
                    Some((_, Some(origin))) => {
                        format!("correct {option} in {origin}, or in the node's sshd_config")
                    }
                    _ => format!(
                        "allow one that gtop knows by {option} in the node's sshd_config\nor {}",
                        self.by_program()
                    ),
                }
            }
            Fault::HostKeyUnknown { .. } => {
                format!("compare the fingerprint with the administrator's, then: gtop trust {node}")
            }
            Fault::HostCertificateRefused { .. } => format!(
                "have the certificate signed anew, or compare the fingerprint, then: gtop trust {node}"
            ),
            Fault::HostKeyChanged(change) => format!(
                "ask the administrator; if the node was set up anew: ssh-keygen -f {} -R '{}' && gtop trust {node}",
                change.file.display(),
                change.host
            ),
            Fault::HostKeyRevoked { file, line, .. } => {
                let line = line.map_or_else(String::new, |line| format!(":{line}"));
                format!(
                    "do not connect; the node needs a new host key, unless {}{line} is wrong",
                    file.display()
                )
            }
            Fault::AuthenticationRefused { offers, .. } if fault.had_no_key() => {
                self.new_key(offers)
            }
            Fault::AuthenticationRefused { offers, tried, .. }
                if offers.iter().any(|offer| offer == "publickey") =>
            {
                self.known_key(offers, tried)
            }
            Fault::AuthenticationRefused { .. } => {
                format!("{}\nor {}", self.sshd_config("PubkeyAuthentication yes"), self.master())
            }
            Fault::TooManyKeys { .. } => {
                let then =
                    ", with the key it knows as FILE (FILE.pub is enough for one of the agent)";
                self.ssh_config(then, &["IdentityFile FILE", "IdentitiesOnly yes"])
            }
            Fault::MoreAuthentication { .. } => self.master(),
            Fault::PasswordOnly { .. } => format!(
                "{}\nand give the node your key: {}\nor {}",
                self.sshd_config("PubkeyAuthentication yes"),
                self.copy_id(),
                self.master()
            ),
            Fault::Unanswered { .. } => format!(
                "log in with a key, or answer from a terminal: gtop doctor {node}\nor {}",
                self.master()
            ),
            Fault::KeyUnusable { file, flaw: flaw @ KeyFlaw::OpenToOthers, .. } => {
                flaw.remedy(file)
            }
            Fault::KeyUnusable { flaw: KeyFlaw::LeftOut(kind), .. } => {
                self.ssh_config("", &[&format!("PubkeyAcceptedAlgorithms +{kind}")])
            }
            Fault::KeyEncrypted { file } => {
                let agent = if has_agent() { "" } else { "eval $(ssh-agent) && " };
                format!(
                    "start gtop from a terminal, or load the key: {agent}ssh-add {}",
                    file.display()
                )
            }
            Fault::AgentUnreachable { .. } => {
                "start an agent with your key, whose file is FILE: eval $(ssh-agent) && ssh-add FILE".to_owned()
            }
            Fault::ChannelRefused { .. } => {
                format!("close other sessions\nor {}", self.sshd_config("MaxSessions 100"))
            }
            Fault::CommandRefused => {
                "ask the administrator to let this account run commands".to_owned()
            }
            Fault::OnlySsh { .. } | Fault::NoKnownAlgorithm { .. } => {
                self.by_program()
            }
            Fault::ByWayOf { gateway, fault } => Self::about_gateway(gateway).of_transport(fault),
            Fault::GatewayCannotReach { gateway, .. } => format!(
                "see from there whether it answers: ssh {gateway} nc -zv {} {}",
                self.host(),
                self.port()
            ),
            Fault::GatewayForbids { gateway, .. } => format!(
                "{}\nand add {}:{} to PermitOpen if there is one",
                Self::about_gateway(gateway).sshd_config("AllowTcpForwarding yes"),
                self.host(),
                self.port()
            ),
            Fault::ProxyCommandFailed { .. } => {
                format!("run it by hand, and {}", self.correct("ProxyCommand"))
            }
            Fault::SshProgram { .. } | Fault::Broken { .. } | Fault::SessionLost { .. } => {
                format!("try by hand: ssh -v {node} true")
            }
            Fault::AccountRefused { user, says } if says.contains(ACCOUNT_EXPIRED) => {
                self.as_root(&format!("chage -E -1 {user}"))
            }
            Fault::AccountRefused { .. } => format!(
                "ask the administrator of the node about its words\nif they stand in a file, and it is over, {}",
                self.as_root("rm -f /etc/nologin /run/nologin")
            ),
            Fault::NoJob { .. } => format!(
                "submit a job to this node: salloc -w {node}\nif one of yours runs there: gtop --slurm --transport srun"
            ),
            Fault::ExecFailed { .. } => {
                "run the command by hand; it must pass standard input on to a shell on the node, \
                 or take what to run as {command}"
                    .to_owned()
            }
            Fault::BadConfiguration { .. } => format!("correct it; ssh -G {node} reads it too"),
            Fault::Step { cause, .. } => cause.remedy().to_owned(),
            Fault::ProgramNotFound { program, .. } => {
                format!(
                    "install {program}, or name another (--ssh-binary=PROGRAM, --exec 'PROGRAM …')"
                )
            }
        }
    }

    fn of_timeout(&self, step: Step) -> String {
        let node = &self.node;
        match step {
            Step::Configuration => format!("see whether ssh -G {node} hangs; a Match exec may"),
            Step::Name => format!("the name service hangs: getent hosts {}", self.host()),
            Step::Connection => format!(
                "see whether it is up (ping {}) and no firewall drops port {}; or --connect-timeout",
                self.host(),
                self.port()
            ),
            Step::Greeting => format!(
                "something listens and never speaks: {}, or look at sshd there",
                self.correct("Port")
            ),
            Step::KeyExchange => {
                "the node may be overloaded, or the path loses large packets (MTU)".to_owned()
            }
            Step::Login => {
                "the directory service of the node may hang; look at its sshd's log".to_owned()
            }
            Step::Command => "the node may be overloaded, or its file system hangs".to_owned(),
        }
    }

    fn by_program(&self) -> String {
        format!("let the ssh program do it: gtop --transport ssh {}", self.node)
    }

    fn give_shell(&self) -> String {
        self.as_root(&format!("usermod -s /bin/sh {}", self.value("User")))
    }

    /// How to lend gtop a connection that a person opened.
    fn master(&self) -> String {
        let node = &self.node;
        if self.value("ControlPath").is_empty() {
            return self
                .ssh_config(&format!(", then run ssh -fNM {node}"), &["ControlPath ~/.ssh/%C"]);
        }
        format!("open a master connection: ssh -fNM {node}")
    }

    fn host(&self) -> &str {
        let host = self.value("HostName");
        if host.is_empty() { &self.node } else { host }
    }

    fn port(&self) -> &str {
        let port = self.value("Port");
        if port.is_empty() { "22" } else { port }
    }

    pub(super) fn of_model(&self, fault: &model::Fault, has_noise: bool) -> String {
        let node = &self.node;
        match fault.kind {
            // What the node says of the account is the reason, whatever else its login files do.
            FaultKind::NoInterpreter if fault.detail.contains(NO_SHELL) => self.give_shell(),
            FaultKind::NoInterpreter if fault.detail.contains(EXPIRED) => {
                format!("log in and set a new password: ssh -t {node}")
            }
            FaultKind::NoInterpreter | FaultKind::TimedOut if !fault.particulars.is_empty() => {
                fault.remedy().replace("HOST", node)
            }
            FaultKind::NoInterpreter if has_noise => format!(
                "something runs in place of gtop's command: a login file that ends or starts another program \
                 (~/.bashrc, ~/.profile: do so only when interactive), or a forced command; \
                 try ssh {node} /bin/sh -c true"
            ),
            FaultKind::NoInterpreter => format!(
                "the login shell must run /bin/sh: look for exit or exec in ~/.bashrc and for a forced \
                 command; try ssh {node} /bin/sh -c true\nif it is /bin/false, {}",
                self.give_shell()
            ),
            kind @ (FaultKind::NameNotFound
            | FaultKind::Unreachable
            | FaultKind::FileLimit
            | FaultKind::Refused
            | FaultKind::TimedOut
            | FaultKind::KeyExchange
            | FaultKind::HostKeyUnknown
            | FaultKind::HostKeyChanged
            | FaultKind::HostKeyRevoked
            | FaultKind::AuthenticationRefused
            | FaultKind::Question
            | FaultKind::KeyLocked
            | FaultKind::Configuration
            | FaultKind::ChannelRefused
            | FaultKind::Silent
            | FaultKind::BadReply
            | FaultKind::NoJob
            | FaultKind::NoGreeting
            | FaultKind::AccountRefused
            | FaultKind::SessionLost) => kind.remedy().replace("HOST", node),
        }
    }
}

//! What to do about a fault, with the names of this very node filled in.

use std::collections::BTreeMap;

use crate::model::{self, FaultKind};
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

    /// How a new key gets there: by who can log in without it, or by others.
    fn copied_by(&self, offers: &[String]) -> String {
        let asks = |method: &String| method == "password" || method == "keyboard-interactive";
        if offers.iter().any(asks) {
            return format!(" && {}", self.copy_id());
        }
        let user = self.value("User");
        format!(
            "; then ask the administrator to add ~/.ssh/id_ed25519.pub to ~{user}/.ssh/authorized_keys there"
        )
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
            Fault::Refused { port } => {
                format!("start sshd there, or {} if it is not {port}", self.correct("Port"))
            }
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
                        "allow one that gtop knows by {option} in the node's sshd_config, or use --transport ssh"
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
                let and = self.copied_by(offers);
                format!("make a key and give it to the node: ssh-keygen -t ed25519{and}")
            }
            Fault::AuthenticationRefused { offers, .. }
                if offers.iter().any(|offer| offer == "publickey") =>
            {
                format!("give the node your key: {}; or {}", self.copy_id(), self.correct("User"))
            }
            Fault::AuthenticationRefused { .. } => format!(
                "the node takes no keys: allow PubkeyAuthentication in its sshd_config, or {}",
                self.master()
            ),
            Fault::TooManyKeys { .. } => format!(
                "name the key it knows: IdentityFile FILE and IdentitiesOnly yes under Host {node} in \
                 ~/.ssh/config; FILE.pub is enough for a key of the agent"
            ),
            Fault::MoreAuthentication { .. } => self.master(),
            Fault::PasswordOnly { .. } => format!(
                "allow PubkeyAuthentication in the node's sshd_config, then {}; or {}",
                self.copy_id(),
                self.master()
            ),
            Fault::Unanswered { .. } => {
                format!("run gtop doctor {node} from a terminal and answer, or log in with a key")
            }
            Fault::KeyUnusable { file, flaw: flaw @ KeyFlaw::OpenToOthers, .. } => {
                flaw.remedy(file)
            }
            Fault::KeyUnusable { flaw: KeyFlaw::LeftOut(kind), .. } => {
                format!("let it have {kind}: {}", self.correct("PubkeyAcceptedAlgorithms"))
            }
            Fault::KeyEncrypted { file } => {
                let agent = if has_agent() { "" } else { "eval $(ssh-agent) && " };
                format!("{agent}ssh-add {}; or start gtop from a terminal", file.display())
            }
            Fault::AgentUnreachable { .. } => {
                "start an agent (eval $(ssh-agent) && ssh-add), or set IdentityFile".to_owned()
            }
            Fault::ChannelRefused { .. } => {
                "raise MaxSessions in the node's sshd_config, or close other sessions".to_owned()
            }
            Fault::CommandRefused => {
                "ask the administrator to let this account run commands".to_owned()
            }
            Fault::OnlySsh { .. } | Fault::NoKnownAlgorithm { .. } => {
                format!("let the ssh program do it: gtop --transport ssh {node}")
            }
            Fault::ByWayOf { gateway, fault } => Self::about_gateway(gateway).of_transport(fault),
            Fault::GatewayCannotReach { gateway, .. } => format!(
                "see from there whether it answers: ssh {gateway} nc -zv {} {}",
                self.host(),
                self.port()
            ),
            Fault::GatewayForbids { gateway, .. } => format!(
                "in the sshd_config of {gateway}: AllowTcpForwarding yes, and {}:{} in PermitOpen if there is one",
                self.host(),
                self.port()
            ),
            Fault::ProxyCommandFailed { .. } => {
                format!("run it by hand, and {}", self.correct("ProxyCommand"))
            }
            Fault::SshProgram { .. } | Fault::Broken { .. } | Fault::SessionLost { .. } => {
                format!("try by hand: ssh -v {node} true")
            }
            Fault::AccountRefused { says, .. } => {
                format!("ask the administrator of the node, with its own words: {says}")
            }
            Fault::NoJob { .. } => {
                "submit a job to this node first: salloc or sbatch with -w; if one of yours runs there: \
                 gtop --slurm --transport srun"
                    .to_owned()
            }
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

    /// How to lend gtop a connection that a person opened.
    fn master(&self) -> String {
        let node = &self.node;
        if self.value("ControlPath").is_empty() {
            return format!(
                "put ControlPath ~/.ssh/%C for {node} into ~/.ssh/config and open a master connection: \
                 ssh -fNM {node}"
            );
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
            FaultKind::NoInterpreter if fault.detail.contains(NO_SHELL) => format!(
                "the account has no login shell; ask the administrator to give it one there: \
                 usermod -s /bin/sh {}",
                self.value("User")
            ),
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
                 command; try ssh {node} /bin/sh -c true"
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

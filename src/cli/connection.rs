//! Options of connections: they are settings.

use std::path::PathBuf;

use crate::config::Settings;

/// Options of connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionOptions {
    /// Maximum number of connections opened at once.
    pub max_connecting: u16,
    pub transport: TransportChoice,
    /// Command that connects to a node.
    pub exec: Option<String>,
    /// The ssh program, if it is to be used.
    pub ssh_binary: Option<PathBuf>,
}

/// The transport setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TransportChoice {
    /// Built-in SSH, with fallbacks
    #[default]
    Auto,
    /// Built-in SSH only
    Native,
    /// The ssh program
    Ssh,
    /// No connections: this machine only
    Local,
    /// The command of --exec
    Exec,
    /// One step per job, for clusters that forbid ssh to nodes
    Srun,
}

impl ConnectionOptions {
    /// Reads the options from the settings. A setting from a source of higher precedence, such as the command
    /// line, disables conflicting ones from other sources.
    pub(super) fn from_settings(settings: &Settings) -> Self {
        let names = ["transport", "exec", "ssh-binary"];
        let highest = names.iter().map(|name| settings.layer(name)).max();
        let is_highest = |name: &str| Some(settings.layer(name)) == highest;
        let transport = match settings.choice("transport") {
            "native" => TransportChoice::Native,
            "ssh" => TransportChoice::Ssh,
            "local" => TransportChoice::Local,
            "exec" => TransportChoice::Exec,
            "srun" => TransportChoice::Srun,
            _ => TransportChoice::Auto,
        };
        let transport = if is_highest("transport") { transport } else { TransportChoice::Auto };
        let has_exec = is_highest("exec") || transport == TransportChoice::Exec;
        let has_program = is_highest("ssh-binary") || transport == TransportChoice::Ssh;
        Self {
            max_connecting: settings.count("max-connecting").unwrap_or(64),
            transport,
            exec: settings.text("exec").filter(|_| has_exec),
            ssh_binary: settings.text("ssh-binary").filter(|_| has_program).map(PathBuf::from),
        }
    }

    /// Returns the transport; `--ssh-binary` and `--exec` imply theirs.
    pub(crate) fn transport_kind(&self) -> TransportChoice {
        if self.ssh_binary.is_some() {
            TransportChoice::Ssh
        } else if self.exec.is_some() {
            TransportChoice::Exec
        } else {
            self.transport
        }
    }

    /// Returns an error message if options conflict.
    pub(super) const fn conflict(&self) -> Option<&'static str> {
        use TransportChoice::{Exec, Local, Native, Srun, Ssh};
        match (self.transport, self.ssh_binary.is_some(), self.exec.is_some()) {
            (Native, true, _) => Some("--ssh-binary conflicts with --transport native"),
            (Local | Exec | Srun, true, _) => {
                Some("--ssh-binary conflicts with --transport; leave one of them out")
            }
            (Native | Ssh | Local | Srun, _, true) => {
                Some("--exec conflicts with --transport; leave one of them out")
            }
            (Exec, _, false) => Some(
                "--transport exec needs --exec COMMAND, such as 'kubectl exec -i {node} -- sh'",
            ),
            _ => None,
        }
    }
}

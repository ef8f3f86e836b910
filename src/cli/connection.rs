//! Options of connections: they are settings.

use std::path::PathBuf;

use crate::config::Settings;
use crate::setting_table::{ConnectionSettings, TransportChoice};

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

impl ConnectionOptions {
    /// Reads the options from the settings. A setting from a source of higher precedence, such as the command
    /// line, disables conflicting ones from other sources.
    pub(super) fn from_settings(settings: &Settings) -> Self {
        let ConnectionSettings { transport, exec, ssh_binary, max_connecting, .. } =
            settings.read();
        let highest = transport.layer.max(exec.layer).max(ssh_binary.layer);
        let transport =
            if transport.layer == highest { transport.value } else { TransportChoice::Auto };
        let has_exec = exec.layer == highest || transport == TransportChoice::Exec;
        let has_program = ssh_binary.layer == highest || transport == TransportChoice::Ssh;
        Self {
            max_connecting: max_connecting.try_into().unwrap_or(u16::MAX),
            transport,
            exec: exec.value.filter(|_| has_exec),
            ssh_binary: ssh_binary.value.filter(|_| has_program).map(PathBuf::from),
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

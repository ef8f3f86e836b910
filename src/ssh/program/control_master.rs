//! The user's open `ControlMaster` connections (`ControlPath`), used for hosts that refuse gtop's own login.
//!
//! Only the existing connection is used: the ssh program is kept from opening one of its own, which would
//! authenticate again, or prompt.

use std::ffi::OsString;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::fault::ssh::Fault;
use crate::ssh::config::{HostQuery, HostSettings};
use crate::ssh::program::{OPTIONS, run};
use crate::ssh::trace::{self, ConnectEvent};
use crate::ssh::{Client, ClientState};
use crate::text;

/// Timeout for the check of a master, and for the file system of its socket.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes a connection of ssh's own fail at once.
const NO_CONNECTION: &str = "ProxyCommand=false";

/// The socket of a master that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ControlMaster(pub(crate) PathBuf);

impl ControlMaster {
    /// Returns the options that make ssh use only this connection.
    pub(crate) fn options(&self) -> [String; 2] {
        // ssh expands `%` tokens here.
        let path = self.0.to_string_lossy().replace('%', "%%");
        [format!("ControlPath={path}"), NO_CONNECTION.to_owned()]
    }

    /// Returns the arguments for `ssh -W`: forwards stdin and stdout to a port of another host.
    pub(crate) fn forward_args(
        &self,
        (query, settings): (&HostQuery, &HostSettings),
        file: Option<&Path>,
        host: &str,
        port: u16,
    ) -> Vec<OsString> {
        let to =
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let mut args: Vec<OsString> = vec!["-W".into(), to.into()];
        let options = OPTIONS.iter().map(|option| (*option).to_owned());
        let command_overrides =
            settings.command_overrides.iter().map(|option| (*option).to_owned());
        args.extend(
            options
                .chain(self.options())
                .chain(command_overrides)
                .flat_map(|option| ["-o".into(), option.into()]),
        );
        args.extend(query.destination_args(file));
        args
    }

    /// Returns true if the master has exited: a running one greets each client.
    pub(crate) async fn is_gone(&self) -> bool {
        let first_byte = async { UnixStream::connect(&self.0).await?.read_u8().await };
        // A master that hangs is running.
        timeout(CHECK_TIMEOUT, first_byte).await.is_ok_and(|first_byte| first_byte.is_err())
    }

    /// Returns the fault of a master that has exited.
    pub(crate) fn lost_fault(&self) -> Fault {
        let why = format!("the master connection at {} has ended", self.0.display());
        Fault::SessionLost { why: text::excerpt_line(&why) }
    }
}

/// Records whether a master is open, if `ControlPath` is set.
pub(crate) fn record(settings: &HostSettings, master: Option<&ControlMaster>) {
    if !settings.control_paths.is_empty() {
        trace::record(|| {
            master.map_or(ConnectEvent::MasterMissing, |master| {
                ConnectEvent::MasterFound(master.0.clone())
            })
        });
    }
}

impl Client {
    /// Returns the user's master connection to a host, if one answers.
    ///
    /// Costs nothing without `ControlPath`, and little if no socket exists.
    pub(crate) async fn find_master(
        &self,
        query: &HostQuery,
        settings: &HostSettings,
    ) -> Option<ControlMaster> {
        if !self.0.options.uses_masters || settings.control_paths.is_empty() {
            return None;
        }
        let paths = settings.control_paths.clone();
        let finding = self.run_blocking(move |_: &ClientState| {
            paths.into_iter().find(|path| is_own_socket(path))
        });
        // A file system that hangs counts as no master.
        let path = timeout(CHECK_TIMEOUT, finding).await.ok().and_then(Result::ok).flatten();
        self.check_alive(query, ControlMaster(path?)).await
    }

    /// Returns the master if `ssh -O check` succeeds in time.
    async fn check_alive(&self, query: &HostQuery, master: ControlMaster) -> Option<ControlMaster> {
        let options = &self.0.options;
        let permit = self.0.resolve_permits.acquire().await.ok()?;
        let mut args: Vec<OsString> = Vec::new();
        for option in master.options() {
            args.extend(["-o".into(), option.into()]);
        }
        args.extend(["-O".into(), "check".into()]);
        args.extend(query.destination_args(options.config_file.as_deref()));
        let answer = run(&options.ssh_program, &args, CHECK_TIMEOUT).await;
        drop(permit);
        answer.is_ok_and(|answer| answer.succeeded).then_some(master)
    }
}

/// Returns true if the path is a socket of the user's: its owner can read and forge the session.
fn is_own_socket(path: &Path) -> bool {
    let found = std::fs::metadata(path);
    found.is_ok_and(|found| {
        found.file_type().is_socket() && found.uid() == rustix::process::geteuid().as_raw()
    })
}

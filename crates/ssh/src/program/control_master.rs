//! Open `ControlMaster` connections, used for hosts that refuse gtop's own login: those of the user (`ControlPath`) and
//! those that `gtop login` has opened.
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

use sha1::{Digest as _, Sha1};

use crate::config::{HostQuery, HostSettings, LocalEnv};
use crate::program::{OPTIONS, run};
use crate::trace::{self, ConnectEvent};
use crate::{Client, ClientState};
use gtop_local::fault::ssh::Fault;
use gtop_local::storage::socket_folder;
use gtop_local::text;

/// Timeout for the check of a master, and for the file system of its socket.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes a connection of ssh's own fail at once.
const NO_CONNECTION: &str = "ProxyCommand=false";

/// The socket of a master that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlMaster {
    pub(crate) path: PathBuf,
    /// `gtop login` has opened it at a path of its own: the node is known to need it.
    pub is_of_login: bool,
}

impl ControlMaster {
    /// Returns the connection with this id that `gtop login` has opened, if its socket exists.
    pub(crate) fn of_login(id: &str) -> Option<Self> {
        let path = socket_folder::find()?.join(id);
        path.exists().then_some(Self { path, is_of_login: true })
    }

    /// Returns the options that make ssh use only this connection.
    pub fn options(&self) -> [String; 2] {
        [control_path(&self.path), NO_CONNECTION.to_owned()]
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
        let first_byte = async { UnixStream::connect(&self.path).await?.read_u8().await };
        // A master that hangs is running.
        timeout(CHECK_TIMEOUT, first_byte).await.is_ok_and(|first_byte| first_byte.is_err())
    }

    /// Returns the fault of a master that has exited.
    pub fn lost_fault(&self) -> Fault {
        let why = format!("the master connection at {} has ended", self.path.display());
        Fault::SessionLost { why: text::excerpt_line(&why) }
    }
}

/// Records the open master, or that there is none although `ControlPath` is set.
pub fn record(settings: &HostSettings, master: Option<&ControlMaster>) {
    match master {
        Some(master) => trace::record(|| ConnectEvent::MasterFound(master.path.clone())),
        None if settings.control_paths.is_empty() => {}
        None => trace::record(|| ConnectEvent::MasterMissing),
    }
}

impl Client {
    /// Returns the master connection to a host, if one answers: the user's, or that of `gtop login`.
    ///
    /// Costs little if no socket exists.
    pub async fn find_master(
        &self,
        query: &HostQuery,
        settings: &HostSettings,
    ) -> Option<ControlMaster> {
        if !self.0.options.uses_masters {
            return None;
        }
        let of_user = settings
            .control_paths
            .iter()
            .map(|path| ControlMaster { path: path.clone(), is_of_login: false });
        let of_user: Vec<_> = of_user.collect();
        let id = connection_id(settings, &self.0.options.env);
        let finding = self.run_blocking(move |_: &ClientState| {
            let of_login = ControlMaster::of_login(&id);
            of_user.into_iter().chain(of_login).find(|master| is_own_socket(&master.path))
        });
        // A file system that hangs counts as no master.
        let master = timeout(CHECK_TIMEOUT, finding).await.ok().and_then(Result::ok).flatten()?;
        self.check_alive(query, master).await
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

    /// Returns the process of the master at a socket.
    pub(crate) async fn master_pid(&self, socket: &Path) -> Option<u32> {
        let answer = self.control(socket, "check").await?;
        answer.split_once("pid=")?.1.split(')').next()?.parse().ok()
    }

    /// Sends a command to the master at a socket of the user's, and returns what ssh prints; `None` if it fails.
    pub(crate) async fn control(&self, socket: &Path, command: &str) -> Option<String> {
        if !is_own_socket(socket) {
            return None;
        }
        // No configuration is read: the socket identifies the host.
        let words = ["-F", "/dev/null", "-O", command, "-o"];
        let mut args: Vec<OsString> = words.map(OsString::from).into();
        args.extend([control_path(socket).into(), "gtop".into()]);
        let answer = run(&self.0.options.ssh_program, &args, CHECK_TIMEOUT).await.ok()?;
        answer.succeeded.then_some(answer.stderr)
    }
}

/// Returns true if the path is a socket of the user's: its owner can read and forge the session.
fn is_own_socket(path: &Path) -> bool {
    let found = std::fs::metadata(path);
    found.is_ok_and(|found| {
        found.file_type().is_socket() && found.uid() == rustix::process::geteuid().as_raw()
    })
}

/// Returns what tells the connection to a host from all others, as a part of a file name.
pub(crate) fn connection_id(settings: &HostSettings, env: &LocalEnv) -> String {
    let HostSettings { user, host, port, route, .. } = settings;
    let text = format!("{}\n{user}\n{host}\n{port}\n{route:?}", env.host_name);
    let digest: [u8; 20] = Sha1::digest(text.as_bytes()).into();
    let id = digest.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes));
    format!("{id:032x}")
}

/// Returns the option for a socket; ssh expands `%` tokens in it.
pub(crate) fn control_path(socket: &Path) -> String {
    format!("ControlPath={}", socket.to_string_lossy().replace('%', "%%"))
}

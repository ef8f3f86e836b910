//! Master connections that the ssh program opens for `gtop login`: to nodes that ask for a password or a code, and to the
//! gateways in front of them. Later sessions use them without a login, for as long as `ControlPersist` keeps them.

pub(crate) mod askpass;
mod record;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::Client;
use crate::config::{HostQuery, HostSettings, LocalEnv, Route};
use crate::gateway::Gateway;
use crate::login::askpass::AskpassServer;
use crate::login::record::LoginRecord;
use crate::program::LOGIN_OPTIONS;
use crate::program::control_master::{connection_id, control_path};
use crate::program::stderr::{self, SshStderr};
use crate::target::SshTarget;
use gtop_local::fault::ssh::{Fault, SshProgramCause};
use gtop_local::process::{BackgroundProgram, Exit, Launch, Output, OutputTail};
use gtop_local::storage::socket_folder;
use gtop_local::text;

/// Most bytes of stderr that are kept.
const MAX_STDERR: usize = 8192;

/// Timeout for a master to remove its socket at its end, and how often it is looked for.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(2);
const REMOVAL_POLL: Duration = Duration::from_millis(10);

/// A host to log in to: a node, or a gateway in front of it.
#[derive(Debug, Clone)]
pub struct LoginHost {
    query: HostQuery,
    settings: Arc<HostSettings>,
    /// The last gateway in front of it.
    gateway: Option<Arc<Gateway>>,
}

impl LoginHost {
    /// Returns the name, as the user or `ProxyJump` spells it.
    pub fn name(&self) -> &str {
        &self.query.host
    }

    /// Returns the login, `user@host`, by the names that ssh may give the host when it asks.
    pub fn logins(&self) -> [String; 2] {
        let HostSettings { user, host, known_hosts_name, .. } = self.settings.as_ref();
        let host = host.to_ascii_lowercase();
        [&host, &known_hosts_name.full].map(|host| format!("{user}@{host}"))
    }

    /// Returns the user to log in as.
    pub fn user(&self) -> &str {
        &self.settings.user
    }

    /// Returns true if its connection is one of a `ProxyCommand`, which may ask as well.
    pub fn has_proxy_command(&self) -> bool {
        matches!(self.settings.route, Route::Command(_))
    }

    fn id(&self, env: &LocalEnv) -> String {
        connection_id(&self.settings, env)
    }
}

/// An ssh program that opens a master connection. Dropping it ends it, unless the connection is open.
#[derive(Debug)]
pub struct MasterLogin {
    host: LoginHost,
    program: BackgroundProgram,
    stderr: OutputTail,
    connect_timeout: Duration,
}

/// An event of a [`MasterLogin`].
#[derive(Debug)]
pub enum LoginEvent {
    /// ssh or the node has something to say, such as which codes are accepted; bounded, without control characters.
    Text(Vec<String>),
    /// It has ended; `Ok` if the connection is open.
    Ended(Result<(), Fault>),
}

impl MasterLogin {
    /// Waits for the next event. Cancel-safe.
    pub async fn next(&mut self) -> LoginEvent {
        match self.program.next().await {
            Ok(Output::Stderr(bytes)) => {
                self.stderr.push(&bytes);
                let text = String::from_utf8_lossy(&bytes);
                let lines = text.lines().map(text::excerpt_line).filter(|line| !line.is_empty());
                LoginEvent::Text(lines.collect())
            }
            Ok(Output::Exit(Exit::Status(0))) => LoginEvent::Ended(Ok(())),
            Ok(Output::Stdout(_) | Output::Exit(_)) => LoginEvent::Ended(Err(self.fault())),
            Err(error) => LoginEvent::Ended(Err(Fault::session_lost(&error))),
        }
    }

    fn fault(&self) -> Fault {
        let settings = &self.host.settings;
        stderr::parse_fault(&SshStderr {
            text: &self.stderr.text(),
            typed_name: &self.host.query.host,
            port: settings.port,
            user: &settings.user,
            route: &settings.route,
            connect_timeout: self.connect_timeout,
        })
    }
}

impl Client {
    /// Returns the hosts to log in to for a node: its gateways in the order of connection, then the node.
    pub async fn login_hosts(&self, ssh: &SshTarget) -> Result<Vec<LoginHost>, Fault> {
        let query = self.host_query(ssh);
        let settings = self.host_settings(&query).await?;
        let route = self.resolve_route(&query, &settings).await?;
        let mut hosts = vec![LoginHost { query, settings, gateway: None }];
        for gateway in route.gateways() {
            let (query, settings) = (gateway.query.clone(), Arc::clone(&gateway.settings));
            if let Some(behind) = hosts.last_mut() {
                behind.gateway = Some(Arc::clone(gateway));
            }
            hosts.push(LoginHost { query, settings, gateway: None });
        }
        hosts.reverse();
        Ok(hosts)
    }

    /// Returns the socket of the open master connection to a host.
    pub async fn master_socket(&self, host: &LoginHost) -> Option<PathBuf> {
        Some(self.find_master(&host.query, &host.settings).await?.path)
    }

    /// Logs in to the gateway in front of a host as monitoring does, and fails as that does.
    pub async fn check_gateway_of(&self, host: &LoginHost) -> Result<(), Fault> {
        match &host.gateway {
            Some(gateway) => self.open_gateway(gateway).await.map(drop),
            None => Ok(()),
        }
    }

    /// Starts to open a master connection that stays for as long as it is used, and then for `persist`.
    pub async fn start_login(
        &self,
        host: &LoginHost,
        askpass: &AskpassServer,
        persist: Duration,
    ) -> Result<MasterLogin, Fault> {
        let options = &self.0.options;
        let settings = &host.settings;
        let connect_timeout = self.connect_timeout(&host.query.host, settings);
        let mut args: Vec<OsString> = vec!["-N".into(), "-f".into()];
        let mut words: Vec<String> = LOGIN_OPTIONS.map(str::to_owned).into();
        words.push(format!("ControlPersist={}", persist.as_secs()));
        words.push(format!("ConnectTimeout={:.0}", connect_timeout.as_secs_f64().ceil().max(1.0)));
        if settings.control_paths.is_empty() {
            let folder = socket_folder::create().map_err(|error| folder_fault(&error))?;
            words.push(control_path(&folder.join(host.id(&options.env))));
        }
        if let Some(command) = self.gateway_command(host).await {
            words.push(format!("ProxyCommand={command}"));
        } else if let Some(address) = self.fallback_address(&host.query.host, settings).await {
            words.push(format!("HostName={address}"));
            words.push(format!("HostKeyAlias={}", settings.known_hosts_name.full));
        }
        let overrides = settings.command_overrides.iter();
        let overrides = overrides.filter(|option| option.starts_with("RemoteCommand="));
        words.extend(overrides.map(|option| (*option).to_owned()));
        args.extend(words.into_iter().flat_map(|word| ["-o".into(), word.into()]));
        args.extend(host.query.destination_args(options.config_file.as_deref()));
        let launch = Launch {
            program: &options.ssh_program,
            args: &args,
            parent_guard: options.parent_guard.as_deref(),
            hides: |_| false,
            env: &askpass.env(),
        };
        Ok(MasterLogin {
            host: host.clone(),
            program: BackgroundProgram::launch(launch)?,
            stderr: OutputTail::new(MAX_STDERR),
            connect_timeout,
        })
    }

    /// Returns the `ProxyCommand` that reaches a host over the connection that gtop has opened to its gateway. ssh finds
    /// that of a `ControlPath` itself.
    async fn gateway_command(&self, host: &LoginHost) -> Option<String> {
        let gateway = host.gateway.as_deref()?;
        let master = self.find_master(&gateway.query, &gateway.settings).await?;
        if !master.is_of_login {
            return None;
        }
        let options = &self.0.options;
        let args = master.forward_args(
            (&gateway.query, &gateway.settings),
            options.config_file.as_deref(),
            &host.settings.host,
            host.settings.port,
        );
        let words = [options.ssh_program.as_os_str()].into_iter();
        let words = words.chain(args.iter().map(OsString::as_os_str)).map(quoted);
        let words: Vec<String> = words.collect();
        Some(words.join(" ").replace('%', "%%"))
    }

    /// Records the connection to a host that was just opened, for [`Client::close_logins`].
    pub async fn record_login(&self, host: &LoginHost) -> Result<(), Fault> {
        let master = async {
            let socket = self.find_master(&host.query, &host.settings).await?.path;
            Some((self.master_pid(&socket).await?, socket))
        };
        let Some((pid, socket)) = master.await else {
            let message = "it has logged in, and opened no master connection".to_owned();
            return Err(Fault::SshProgram { cause: SshProgramCause::Other, message });
        };
        let env = &self.0.options.env;
        let gateway = host.gateway.as_ref().map(|gateway| connection_id(&gateway.settings, env));
        let folder = socket_folder::create().map_err(|error| folder_fault(&error))?;
        let known = LoginRecord::read_all(&folder);
        let record = LoginRecord {
            id: host.id(env),
            pid,
            gateway: gateway.filter(|id| known.iter().any(|record| record.id == *id)),
            name: host.query.host.clone(),
            socket,
        };
        record.write(&folder).map_err(|error| folder_fault(&error))
    }

    /// Ends the connections that gtop has opened to some hosts, or to all, and those to gateways that no other of them
    /// goes through. Returns the names of the hosts.
    pub async fn close_logins(&self, hosts: Option<&[LoginHost]>) -> Vec<String> {
        let Some(folder) = socket_folder::find() else { return Vec::new() };
        let mut open = LoginRecord::read_all(&folder);
        let ids = hosts.map(|hosts| {
            hosts.iter().map(|host| host.id(&self.0.options.env)).collect::<BTreeSet<_>>()
        });
        let closing =
            open.extract_if(.., |record| ids.as_ref().is_none_or(|ids| ids.contains(&record.id)));
        let mut closing: Vec<_> = closing.collect();
        let mut names = Vec::new();
        while !closing.is_empty() {
            let mut gateways = BTreeSet::new();
            for record in closing {
                let is_closed = self.close_master(&record).await;
                record.remove(&folder);
                names.extend(is_closed.then_some(record.name));
                gateways.extend(record.gateway);
            }
            gateways.retain(|id| open.iter().all(|record| record.gateway.as_ref() != Some(id)));
            closing = open.extract_if(.., |record| gateways.contains(&record.id)).collect();
        }
        socket_folder::remove_if_empty();
        names
    }

    /// Ends a master connection if it is still the recorded one. Returns true if it was.
    async fn close_master(&self, record: &LoginRecord) -> bool {
        if self.master_pid(&record.socket).await != Some(record.pid) {
            return false;
        }
        let has_ended = self.control(&record.socket, "exit").await.is_some();
        // It answers before it removes the socket.
        let removing = async {
            while record.socket.exists() {
                sleep(REMOVAL_POLL).await;
            }
        };
        timeout(REMOVAL_TIMEOUT, removing).await.ok();
        has_ended
    }
}

/// Quotes a word for the shell that runs a `ProxyCommand`.
fn quoted(word: &std::ffi::OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}

fn folder_fault(error: &std::io::Error) -> Fault {
    let why = format!("there is no folder for its sockets: {}", text::io_error(error));
    Fault::BadConfiguration { why }
}

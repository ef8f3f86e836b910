//! Chooses between gtop's own SSH client, the ssh program, and a `ControlMaster` connection for a node.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex};

use crate::transport::channel::Channel;
use crate::transport::openssh::{FIRST_OUTPUT_TIMEOUT, ProgramKind, ProgramSession, SshCall};
use crate::transport::{Target, Transport, TransportMode};
use gtop_local::fault::Fault;
use gtop_local::lock::lock;
use gtop_local::process::Launch;
use gtop_ssh::{
    self as ssh, ConnectEvent, ConnectPhase, ControlMaster, HostQuery, HostSettings, Recourse,
    RemoteCommand, SshTarget, record_event, record_master,
};

/// Authentication methods that only the ssh program supports.
const SSH_ONLY_METHODS: [&str; 3] = ["hostbased", "gssapi-with-mic", "gssapi-keyex"];

/// The authentication methods the ssh program may use; all when empty.
///
/// It must not offer the same keys again: servers count them, and some penalise the address.
pub(crate) type AuthMethods = Vec<String>;

/// How the ssh program gets into a node.
#[derive(Debug, Clone)]
pub(crate) enum SshProgramAccess {
    /// With a connection of its own, by these methods.
    Methods(AuthMethods),
    /// Over the user's `ControlMaster` connection, while there is one.
    Master,
}

/// The nodes that only the ssh program could log in to; kept for the life of the process.
pub(crate) type FallbackCache = Mutex<BTreeMap<HostQuery, SshProgramAccess>>;

impl Transport {
    /// Starts a command on a node of the user's ssh configuration.
    pub(crate) async fn open_configured(
        &self,
        target: &Target,
        ssh: &SshTarget,
        command: &str,
        mut on_phase: impl FnMut(ConnectPhase),
    ) -> Result<Channel, Fault> {
        on_phase(ConnectPhase::Configuration);
        let client = &self.0.ssh;
        let query = client.host_query(ssh);
        let settings = client.host_settings(&query).await?;
        let cached = self.known_access(&query);
        let master = client.find_master(&query, &settings).await;
        record_master(&settings, master.as_ref());
        let call = SshCall {
            query: &query,
            settings: &settings,
            methods: &[],
            master: None,
            has_terminal: false,
        };
        if let Some(master) = master.as_ref().filter(|master| master.is_of_login) {
            return self.open_over_master(call, command, master, on_phase).await;
        }
        match (cached, &master) {
            (Some(SshProgramAccess::Methods(methods)), _) => {
                let call = SshCall { methods: &methods, ..call };
                return match self.open_with_ssh_program(call, command, on_phase).await {
                    Err(Fault::Ssh(fault)) => {
                        Err(client.explain_refusal(&query, fault).await.into())
                    }
                    opened => opened,
                };
            }
            (Some(SshProgramAccess::Master), Some(master)) => {
                return self.open_over_master(call, command, master, on_phase).await;
            }
            (Some(SshProgramAccess::Master) | None, _) => {}
        }
        let native = async {
            let mut plan = client.plan(&query, &settings).await?;
            plan.set_master(master.as_ref());
            client
                .open(
                    target.name.host(),
                    target.name.as_str(),
                    plan,
                    RemoteCommand::plain(command),
                    &mut on_phase,
                )
                .await
        };
        let fault = match Box::pin(native).await {
            Err(fault) if self.0.options.mode == TransportMode::Auto => fault,
            opened => return Ok(Channel::Ssh(Box::new(opened?))),
        };
        if let Some(master) = master.filter(|_| fault.permits(Recourse::Master)) {
            record_event(|| ConnectEvent::Fallback(fault.to_string()));
            return self.open_over_master(call, command, &master, on_phase).await;
        }
        let has_foreign_key = client.has_foreign_key(&settings).await?;
        let Some(methods) = ssh_program_methods(&fault, &settings, has_foreign_key) else {
            return Err(fault.into());
        };
        record_event(|| ConnectEvent::Fallback(fault.to_string()));
        let call = SshCall { methods: &methods, ..call };
        match self.open_with_ssh_program(call, command, on_phase).await {
            Ok(channel) => {
                // One that is silent may not be logged in.
                if channel.silent_since().is_none() {
                    let access = SshProgramAccess::Methods(methods);
                    lock(&self.0.fallback_cache).insert(query, access);
                }
                Ok(channel)
            }
            Err(Fault::Ssh(program)) => Err(merge_faults(fault, program).into()),
            Err(fault) => Err(fault),
        }
    }

    /// Returns how the ssh program gets into a node, if it is to be used there.
    pub(crate) fn known_access(&self, query: &HostQuery) -> Option<SshProgramAccess> {
        match self.0.options.mode {
            TransportMode::Auto => lock(&self.0.fallback_cache).get(query).cloned(),
            TransportMode::Native | TransportMode::Srun => None,
            TransportMode::Ssh => Some(SshProgramAccess::Methods(AuthMethods::new())),
        }
    }

    /// Returns the arguments of the ssh program for a command.
    pub(crate) async fn ssh_args(&self, call: SshCall<'_>, command: &str) -> Vec<OsString> {
        let SshCall { query, settings, .. } = call;
        let address = self.0.ssh.fallback_address(&query.host, settings).await;
        let connect_timeout = self.0.ssh.connect_timeout(&query.host, settings);
        let mut args = call.options(connect_timeout, address.as_deref());
        args.extend(query.destination_args(self.0.options.ssh.config_file.as_deref()));
        args.push(command.into());
        args
    }

    /// Starts a command over a `ControlMaster` connection.
    async fn open_over_master(
        &self,
        call: SshCall<'_>,
        command: &str,
        master: &ControlMaster,
        on_phase: impl FnMut(ConnectPhase),
    ) -> Result<Channel, Fault> {
        let over_master = SshCall { master: Some(master), ..call };
        match self.open_with_ssh_program(over_master, command, on_phase).await {
            // The master is gone, so there was nothing to connect to.
            Err(Fault::Ssh(ssh::Fault::NoBanner { .. })) => Err(master.lost_fault().into()),
            opened => {
                // A master without a free session has authenticated: next time it is tried first.
                if matches!(&opened, Ok(_) | Err(Fault::Ssh(ssh::Fault::ChannelRefused { .. }))) {
                    let query = call.query.clone();
                    lock(&self.0.fallback_cache).insert(query, SshProgramAccess::Master);
                }
                opened
            }
        }
    }

    /// Starts a command with the ssh program, and waits for its first output for a while: ssh does not report a successful
    /// login.
    async fn open_with_ssh_program(
        &self,
        call: SshCall<'_>,
        command: &str,
        mut on_phase: impl FnMut(ConnectPhase),
    ) -> Result<Channel, Fault> {
        on_phase(ConnectPhase::Connection);
        let options = &self.0.options.ssh;
        record_event(|| ConnectEvent::Delegated {
            to: "ssh program",
            what: options.ssh_program.display().to_string(),
        });
        let SshCall { query, settings, .. } = call;
        let connect_timeout = self.0.ssh.connect_timeout(&query.host, settings);
        let args = self.ssh_args(call, command).await;
        let launch = Launch {
            program: &options.ssh_program,
            args: &args,
            parent_guard: options.parent_guard.as_deref(),
            hides: |_| false,
            env: &[],
        };
        let kind = ProgramKind::Ssh {
            typed_name: query.host.clone(),
            settings: Arc::clone(settings),
            connect_timeout,
        };
        let mut session = ProgramSession::start(launch, kind)?;
        let opened =
            Box::pin(session.wait_for_output(connect_timeout + FIRST_OUTPUT_TIMEOUT)).await;
        if matches!(&opened, Err(Fault::Ssh(fault)) if fault.is_slow_banner()) {
            self.0.ssh.add_timeout(&query.host, settings);
        }
        opened?;
        Ok(Channel::Program(Box::new(session)))
    }
}

/// Returns the methods by which the ssh program may succeed where gtop failed; `None` if it would not.
pub(crate) fn ssh_program_methods(
    fault: &ssh::Fault,
    settings: &HostSettings,
    has_foreign_key: bool,
) -> Option<AuthMethods> {
    // Those that gtop lacks.
    let mut methods = settings.methods.clone();
    methods.retain(|method| {
        SSH_ONLY_METHODS.contains(&method.as_str()) || (has_foreign_key && method == "publickey")
    });
    let root = fault.root();
    let needs_ssh_program = matches!(
        root,
        ssh::Fault::NeedsSshProgram { .. }
            | ssh::Fault::UnsupportedAlgorithms { .. }
            | ssh::Fault::NoCommonAlgorithm { .. }
    );
    if needs_ssh_program {
        return Some(AuthMethods::new());
    }
    // The node requires several methods, so all of them may be needed.
    if let ssh::Fault::MoreAuthenticationRequired { required, .. } = root {
        return methods.iter().any(|method| required.contains(method)).then(AuthMethods::new);
    }
    if let ssh::Fault::AuthenticationRefused { offers, .. }
    | ssh::Fault::KeyUnusable { offers, .. } = root
    {
        methods.retain(|method| offers.contains(method));
    } else if matches!(root, ssh::Fault::KeyEncrypted { .. } | ssh::Fault::AgentUnreachable { .. })
    {
        // The node's methods are not known; a user who configured hostbased expects it to work.
        methods.retain(|method| method == "hostbased");
    } else {
        return None;
    }
    // The gateway's own configuration decides which of them it needs.
    let is_at_gateway = matches!(fault, ssh::Fault::AtGateway { .. });
    (!methods.is_empty()).then(|| if is_at_gateway { AuthMethods::new() } else { methods })
}

/// Returns the fault to report when both gtop and the ssh program failed.
pub(crate) fn merge_faults(native: ssh::Fault, program: ssh::Fault) -> ssh::Fault {
    match (native, program) {
        // gtop's fault about the key is more precise than ssh's.
        (native @ ssh::Fault::KeyUnusable { .. }, _)
        | (native, ssh::Fault::ProgramNotFound { .. }) => native,
        (
            ssh::Fault::AuthenticationRefused { user, offers, mut tried },
            ssh::Fault::AuthenticationRefused { .. },
        ) => {
            tried.push("the ssh program".to_owned());
            ssh::Fault::AuthenticationRefused { user, offers, tried }
        }
        (_, program) => program,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_local::process::NotStarted;
    use gtop_ssh::LocalEnv;

    fn settings(methods: &str) -> HostSettings {
        let query = HostQuery { host: "gpu01".to_owned(), user: None, port: None };
        let env = LocalEnv {
            home: "/home/ada".into(),
            include_home: "/home/ada".into(),
            user: "ada".to_owned(),
            host_name: "here".to_owned(),
            agent: None,
        };
        let text = format!(
            "hostname gpu01\nuser ada\nport 22\ngssapiauthentication yes\nhostbasedauthentication yes\n\
             preferredauthentications {methods}\n"
        );
        query.settings_from_ssh_g(&text, &env).unwrap()
    }

    fn refused(offers: &str) -> ssh::Fault {
        let offers = offers.split(',').map(str::to_owned).collect();
        ssh::Fault::AuthenticationRefused { user: "ada".to_owned(), offers, tried: Vec::new() }
    }

    #[test]
    fn the_ssh_program_gets_only_methods_that_gtop_lacks_and_both_sides_allow() {
        let all = settings("gssapi-with-mic,hostbased,publickey,password");
        let methods = |fault: &ssh::Fault, settings: &HostSettings| {
            ssh_program_methods(fault, settings, false)
        };
        assert_eq!(methods(&refused("hostbased"), &all), Some(vec!["hostbased".to_owned()]));
        let both = Some(vec!["gssapi-with-mic".to_owned(), "hostbased".to_owned()]);
        assert_eq!(methods(&refused("publickey,hostbased,gssapi-with-mic"), &all), both);
        assert_eq!(methods(&refused("publickey,password"), &all), None);
        assert_eq!(methods(&refused("hostbased"), &settings("publickey")), None);
        assert_eq!(methods(&ssh::Fault::ConnectionRefused { port: 22 }, &all), None);
        let lacking = ssh::Fault::NeedsSshProgram { options: "VerifyHostKeyDNS".to_owned() };
        assert_eq!(methods(&lacking, &all), Some(Vec::new()));
        let at_gateway = refused("hostbased").at_gateway("bastion");
        assert_eq!(methods(&at_gateway, &all), Some(Vec::new()));
        assert_eq!(
            ssh_program_methods(&refused("publickey"), &all, true),
            Some(vec!["publickey".to_owned()]),
            "a key on a security key"
        );
    }

    #[test]
    fn refusals_by_both_clients_are_one_fault() {
        let fault = merge_faults(refused("hostbased"), refused("hostbased"));
        assert!(fault.to_string().contains("tried: the ssh program"), "{fault}");
        let (program, why) = ("ssh".to_owned(), String::new());
        let absent = NotStarted { program, why }.into();
        assert_eq!(merge_faults(refused("hostbased"), absent), refused("hostbased"));
    }
}

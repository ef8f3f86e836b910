//! Starts a command on a node for the person at this gtop: with their terminal, or the pipes of this process.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::transport::fallback::SshProgramAccess;
use crate::transport::openssh::SshCall;
use crate::transport::{Reach, ScrapeFault, Target, Transport, TransportMode, bad_configuration};
use gtop_local::fault::Fault;
use gtop_ssh::{ConnectPlan, ControlMaster, Profile, RemoteCommand, SshChannel, SshTarget};

/// A command on a node, started or ready to be.
#[derive(Debug)]
pub enum AttachedCommand {
    /// It runs on a connection of gtop's own.
    Running(Box<SshChannel>),
    /// This program runs it with the terminal and the pipes that gtop has.
    Program { program: PathBuf, args: Vec<OsString> },
}

impl Transport {
    /// Starts a command on a node in the way in which its probe was started, or returns the program that does.
    ///
    /// # Errors
    ///
    /// If the node is not reached, or in a way that gives a command no input of its own.
    pub async fn attach(
        &self,
        target: &Target,
        command: RemoteCommand<'_>,
    ) -> Result<AttachedCommand, Fault> {
        let ssh = match &target.reach {
            Reach::Local => {
                let args = vec!["-c".into(), command.line.into()];
                return Ok(AttachedCommand::Program { program: "/bin/sh".into(), args });
            }
            Reach::InProcess(_) => {
                return Err(bad_configuration("simulated nodes run no commands").into());
            }
            Reach::Page(_) => return Err(ScrapeFault::OnlyPage.into()),
            Reach::Ssh(ssh) => ssh,
        };
        if let Profile::Fixed(fixed) = &ssh.profile {
            let plan = self.0.ssh.fixed_plan(fixed, ssh);
            return self.attach_natively(target, plan, command).await;
        }
        let options = &self.0.options;
        if let Some(template) = &options.exec {
            let program = template.command(target.name.host(), command.line);
            let (program, args) = program.ok_or_else(|| {
                bad_configuration("--exec has no {command}, so a command on the node has no input")
            })?;
            return Ok(AttachedCommand::Program { program, args });
        }
        if options.mode == TransportMode::Srun {
            let why = "srun only runs the probe; a command on the node needs ssh";
            return Err(bad_configuration(why).into());
        }
        self.attach_configured(target, ssh, command).await
    }

    /// Starts a command on a node of the user's ssh configuration.
    async fn attach_configured(
        &self,
        target: &Target,
        ssh: &SshTarget,
        command: RemoteCommand<'_>,
    ) -> Result<AttachedCommand, Fault> {
        let client = &self.0.ssh;
        let query = client.host_query(ssh);
        let settings = client.host_settings(&query).await?;
        let known = self.known_access(&query);
        let master = client.find_master(&query, &settings).await;
        let master = master.filter(|master: &ControlMaster| {
            master.is_of_login || matches!(known, Some(SshProgramAccess::Master))
        });
        let methods = match &known {
            Some(SshProgramAccess::Methods(methods)) => methods.as_slice(),
            Some(SshProgramAccess::Master) | None => &[],
        };
        let has_methods = matches!(known, Some(SshProgramAccess::Methods(_)));
        if master.is_none() && !has_methods {
            let plan = client.plan(&query, &settings).await?;
            return self.attach_natively(target, plan, command).await;
        }
        let call = SshCall {
            query: &query,
            settings: &settings,
            methods,
            master: master.as_ref(),
            has_terminal: command.terminal.is_some(),
        };
        let args = self.ssh_args(call, command.line).await;
        Ok(AttachedCommand::Program { program: self.0.options.ssh.ssh_program.clone(), args })
    }

    async fn attach_natively(
        &self,
        target: &Target,
        plan: ConnectPlan,
        command: RemoteCommand<'_>,
    ) -> Result<AttachedCommand, Fault> {
        let (name, label) = (target.name.host(), target.name.as_str());
        let opened = Box::pin(self.0.ssh.open(name, label, plan, command, |_phase| {})).await;
        Ok(AttachedCommand::Running(Box::new(opened?)))
    }
}

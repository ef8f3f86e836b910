//! Logs in to nodes and the gateways before them, one after the other.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use crate::app::login::answers::{Answers, Dialogue};
use crate::app::login::dialogue::{self, LoginEnd, Questions};
use crate::app::login::{LoginFault, check};
use crate::app::{AppError, unless_stopped};
use gtop_collect::transport::{self, Target, Transport};
use gtop_model::nodeset;
use gtop_ssh::{self as ssh, AskpassServer, Client, LoginEvent, LoginHost};
use gtop_ui::StopSignals;

/// Logs in to nodes.
pub(super) struct LoginRun<'a, W> {
    pub(super) transport: &'a Transport,
    pub(super) persist: Duration,
    pub(super) askpass: AskpassServer,
    /// By user: one's password is not tried for another.
    pub(super) answers: BTreeMap<String, Answers>,
    pub(super) questions: Questions,
    /// The hosts to log in to afterwards, and the user there; empty for one that asks for no password.
    pub(super) waiting: Vec<(String, String)>,
    /// Gateways whose login has failed: it is not tried again for the next node.
    pub(super) failed_gateways: Vec<String>,
    pub(super) signals: StopSignals,
    pub(super) out: &'a mut W,
}

impl<W: Write> LoginRun<'_, W> {
    /// Returns true if all are reachable afterwards.
    pub(super) async fn log_in_to_nodes(
        &mut self,
        nodes: Vec<(Target, ssh::Fault)>,
    ) -> Result<bool, AppError> {
        let mut all_succeeded = true;
        let users = self.users_of(&nodes).await?;
        for (at, (target, fault)) in nodes.into_iter().enumerate() {
            self.waiting = users.get(at + 1..).unwrap_or_default().to_vec();
            let name = target.name.label();
            match self.log_in_to_node(&target, &fault).await {
                Ok(()) => writeln!(self.out, "{name}: logged in")?,
                Err(LoginEnd::Fault(fault)) => {
                    all_succeeded = false;
                    writeln!(self.out, "{name}: {fault}")?;
                }
                Err(LoginEnd::SkipAll) => return Ok(false),
                Err(LoginEnd::Ended(error)) => return Err(error),
            }
            self.out.flush()?;
        }
        Ok(all_succeeded)
    }

    /// Returns the name of each node and the user to log in as, without those that ask for no password.
    async fn users_of(
        &mut self,
        nodes: &[(Target, ssh::Fault)],
    ) -> Result<Vec<(String, String)>, AppError> {
        let mut users = Vec::with_capacity(nodes.len());
        for (target, fault) in nodes {
            let asks = !matches!(
                fault.root(),
                ssh::Fault::KeyEncrypted { .. } | ssh::Fault::AgentUnreachable { .. }
            );
            let mut user = String::new();
            if let Ok((client, ssh)) = self.transport.ssh_client(target)
                && let Ok(hosts) =
                    unless_stopped(&mut self.signals, client.login_hosts(&ssh)).await?
                && let Some(host) = hosts.last().filter(|_| asks)
            {
                host.user().clone_into(&mut user);
            }
            users.push((target.name.label().to_owned(), user));
        }
        Ok(users)
    }

    /// Logs in to the gateways of a node that need it, and to the node if it needs it.
    async fn log_in_to_node(
        &mut self,
        target: &Target,
        fault: &ssh::Fault,
    ) -> Result<(), LoginEnd> {
        let transport = self.transport;
        let (client, ssh) = transport.ssh_client(target)?;
        let hosts = unless_stopped(&mut self.signals, client.login_hosts(&ssh)).await??;
        let Some((node, gateways)) = hosts.split_last() else { return Ok(()) };
        let behind = gateways.iter().skip(1).chain([node]);
        let mut needs_master = false;
        for (gateway, next) in gateways.iter().zip(behind) {
            self.log_in_to_gateway(client, gateway, next, &mut needs_master).await?;
        }
        if matches!(fault, ssh::Fault::AtGateway { .. }) {
            // What the node itself needs is not known yet.
            match unless_stopped(&mut self.signals, check(transport, target)).await? {
                Err(LoginFault::Transport(transport::Fault::Ssh(fault)))
                    if fault.is_solved_by_login() => {}
                checked => return Ok(checked.map(drop)?),
            }
        }
        self.log_in(client, node).await?;
        let checked = unless_stopped(&mut self.signals, check(transport, target)).await?;
        if checked.is_err() {
            // The connection is of no use.
            client.close_logins(Some(std::slice::from_ref(node))).await;
        }
        Ok(checked.map(drop)?)
    }

    /// Logs in to a gateway, unless it has an open connection or a key is enough. Behind a gateway with a connection of
    /// gtop's, `needs_master`, the next one needs one, too: ssh would not find the first.
    async fn log_in_to_gateway(
        &mut self,
        client: &Client,
        gateway: &LoginHost,
        next: &LoginHost,
        needs_master: &mut bool,
    ) -> Result<(), LoginEnd> {
        let name = gateway.name().to_owned();
        if self.failed_gateways.contains(&name) {
            return Err(LoginFault::Gateway(name).into());
        }
        if unless_stopped(&mut self.signals, client.master_socket(gateway)).await?.is_some() {
            *needs_master = true;
            return Ok(());
        }
        if !*needs_master {
            match unless_stopped(&mut self.signals, client.check_gateway_of(next)).await? {
                Ok(()) => return Ok(()),
                Err(fault) if !fault.is_solved_by_login() => {
                    return Err(fault.at_gateway(&name).into());
                }
                Err(_) => *needs_master = true,
            }
        }
        // The next one waits as well.
        self.waiting.insert(0, (next.name().to_owned(), next.user().to_owned()));
        let result = self.log_in(client, gateway).await;
        self.waiting.remove(0);
        if let Err(LoginEnd::Fault(fault)) = result {
            writeln!(self.out, "{name}: {fault}")?;
            self.out.flush()?;
            self.failed_gateways.push(name.clone());
            return Err(LoginFault::Gateway(name).into());
        }
        result?;
        writeln!(self.out, "{name}: logged in, for the nodes behind it")?;
        Ok(self.out.flush()?)
    }

    /// Opens a master connection to one host.
    async fn log_in(&mut self, client: &Client, host: &LoginHost) -> Result<(), LoginEnd> {
        let mut dialogue = Dialogue::default();
        self.askpass.discard();
        let mut login = client.start_login(host, &self.askpass, self.persist).await?;
        let mut unread: Vec<String> = Vec::new();
        let ended = loop {
            let question = tokio::select! {
                biased;
                reason = self.signals.next() => return Err(reason.into()),
                event = login.next() => match event {
                    LoginEvent::Text(lines) => {
                        unread.extend(lines);
                        continue;
                    }
                    LoginEvent::Ended(result) => break result,
                },
                question = self.askpass.next() => question,
            };
            dialogue::show(host, &std::mem::take(&mut unread))?;
            let asking = self.questions.answer(
                host,
                question,
                &mut dialogue,
                self.answers.entry(host.user().to_owned()).or_default(),
                &mut self.signals,
            );
            asking.await?;
        };
        drop(login);
        let recorded = match ended {
            Ok(()) => client.record_login(host).await,
            Err(fault) => Err(fault),
        };
        recorded.map_err(|fault| explained(fault, &dialogue))?;
        let alike = self.waiting.iter().filter(|(_, user)| user == host.user());
        let alike: Vec<&str> = alike.map(|(name, _)| name.as_str()).collect();
        if !alike.is_empty() {
            let place = (host.user(), nodeset::fold(alike));
            let answers = self.answers.entry(host.user().to_owned()).or_default();
            self.questions.offer(&dialogue, answers, place, &mut self.signals).await?;
        }
        Ok(())
    }
}

/// Returns why a login failed: ssh reports refused keys where an answer was refused.
fn explained(fault: ssh::Fault, dialogue: &Dialogue) -> LoginFault {
    let is_refusal = matches!(fault, ssh::Fault::AuthenticationRefused { .. });
    if is_refusal && !dialogue.is_empty() { LoginFault::Refused } else { fault.into() }
}

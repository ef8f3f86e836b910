//! `gtop login`: logs in to nodes that ask for a password or a code, one after the other, and keeps the connections.
//!
//! One after the other, because an answer may be wrong, and wrong answers to many nodes would lock an account.

mod answers;
mod dialogue;
mod offer;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use tokio::time::timeout;

use crate::app::env::Env;
use crate::app::line_prompt::NoEcho;
use crate::app::login::answers::{Answers, Dialogue};
use crate::app::login::dialogue::{AskResult, Questions};
use crate::app::prompt_place::PromptPlace;
use crate::app::{AppError, ExitReason, targets};
use crate::cli::LoginOptions;
use crate::setting_table::TransportChoice;
use crate::watch::SCHEDULER_TIMEOUT;
use gtop_collect::transport::{self, Reach, Target, Transport};
use gtop_local::fault::ConnectPhase;
use gtop_local::process::Output;
use gtop_local::storage::socket_folder;
use gtop_local::text;
use gtop_model::TransportKind;
use gtop_model::nodeset;
use gtop_ssh::{self as ssh, AskpassServer, Client, LoginEvent, LoginHost, SshTarget};
use gtop_ui::StopSignals;

/// What is run on a node to see that it is reachable, and what it prints.
const CHECK_COMMAND: &str = "echo gtop-login";
const CHECK_OUTPUT: &str = "gtop-login";

/// Further attempts at a server that is too slow for the limit, which grows with each.
const SLOW_ATTEMPTS: usize = 2;

/// Timeout for the command, once the node has started it.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) use offer::{log_in_from_screen, offer_at_start};

/// Why a node is not reachable.
#[derive(Debug, Clone, thiserror::Error)]
enum LoginFault {
    #[error(transparent)]
    Transport(#[from] transport::Fault),
    #[error("the node runs no commands: {0}")]
    NoCommands(String),
    #[error("the node refuses the answers")]
    Refused,
    #[error("skipped")]
    Skipped,
    #[error("via {0}: not logged in there")]
    Gateway(String),
}

impl From<ssh::Fault> for LoginFault {
    fn from(fault: ssh::Fault) -> Self {
        Self::Transport(fault.into())
    }
}

/// Why the logins do not go on to the next node.
enum Interruption {
    /// The user skips the rest.
    SkipAll,
    /// The user or a signal ends gtop.
    Stopped(ExitReason),
    Io(io::Error),
}

impl From<io::Error> for Interruption {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The result of one login, unless all end.
type LoginResult = Result<Result<(), LoginFault>, Interruption>;

/// Runs `gtop login`.
pub(super) fn run(
    env: &Env,
    options: &LoginOptions,
    out: &mut impl Write,
) -> Result<ExitReason, AppError> {
    if env.cli.connection.transport_kind() == TransportChoice::Native {
        return Err(AppError::LoginUnused);
    }
    let (targets, page) = login_targets(env)?;
    let names_nodes =
        !env.cli.hosts.is_empty() || env.cli.nodes.names_nodes() || env.cli.jobs.is_requested();
    if options.close {
        let targets = names_nodes.then_some(targets);
        return Ok(env.runtime.block_on(close(env, targets, out))?);
    }
    if targets.is_empty() {
        return Err(match page {
            Some(page) => AppError::OnlyPage(page),
            None => AppError::NoLoginNode,
        });
    }
    let max_connecting = env.cli.connection.max_connecting;
    let logging_in = log_in_to_all(&env.transport, max_connecting, options.persist(), targets, out);
    env.runtime.block_on(logging_in)
}

/// Returns the nodes that are reached by SSH, and the address of a page if there is one.
fn login_targets(env: &Env) -> Result<(Vec<Target>, Option<String>), AppError> {
    let (discovery, _) = targets::discovery(env)?;
    env.runtime.block_on(discovery.wait_for_answer(SCHEDULER_TIMEOUT));
    let mut targets = discovery.rosters().borrow().targets.clone();
    let page = targets.iter().find_map(|target| match &target.reach {
        Reach::Page(url) => Some(url.to_string()),
        Reach::Local | Reach::Ssh(_) => None,
    });
    targets.retain(|target| matches!(target.reach, Reach::Ssh(_)));
    Ok((targets, page))
}

/// Ends the connections to some nodes, or all that gtop has opened.
async fn close(
    env: &Env,
    targets: Option<Vec<Target>>,
    out: &mut impl Write,
) -> io::Result<ExitReason> {
    let mut hosts = Vec::new();
    for target in targets.iter().flatten() {
        if let Ok((client, ssh)) = env.transport.ssh_client(target) {
            // Only the node: a gateway is closed with the last node behind it.
            hosts.extend(client.login_hosts(&ssh).await.ok().and_then(|mut hosts| hosts.pop()));
        }
    }
    let client = env.transport.client();
    let names = client.close_logins(targets.is_some().then_some(hosts.as_slice())).await;
    if names.is_empty() {
        writeln!(out, "no connection of gtop login is open")?;
    } else {
        writeln!(out, "{}: closed", nodeset::fold(&names))?;
    }
    Ok(ExitReason::Done)
}

/// Logs in to those of the nodes that need it.
pub(super) async fn log_in_to_all(
    transport: &Transport,
    max_connecting: u16,
    persist: Duration,
    targets: Vec<Target>,
    out: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let mut signals = StopSignals::new();
    let _no_echo = NoEcho::between_prompts();
    let checks = tokio::select! {
        checks = check_all(transport, max_connecting, targets) => checks,
        reason = signals.next() => return Ok(reason.into()),
    };
    let mut needed = Vec::new();
    let mut ready: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut has_failed = false;
    for (target, checked) in checks {
        let name = target.name.label().to_owned();
        match checked {
            Ok(text) => ready.entry(text).or_default().push(name),
            Err(LoginFault::Transport(transport::Fault::Ssh(fault)))
                if fault.is_solved_by_login() =>
            {
                needed.push((target, fault));
            }
            Err(fault) => {
                has_failed = true;
                writeln!(out, "{name}: {fault}")?;
            }
        }
    }
    for (text, names) in ready {
        writeln!(out, "{}: {text}", nodeset::fold(&names))?;
    }
    if needed.is_empty() {
        return Ok(exit_reason(has_failed));
    }
    let place = PromptPlace::for_login().ok_or(AppError::NobodyToAsk)?;
    let program = std::env::current_exe()?.into_os_string();
    let mut run = LoginRun {
        transport,
        persist,
        askpass: AskpassServer::start(program)?,
        answers: BTreeMap::new(),
        questions: Questions::new(place),
        waiting: Vec::new(),
        failed_gateways: Vec::new(),
        signals,
        out,
    };
    let result = run.log_in_to_nodes(needed).await;
    socket_folder::remove_if_empty();
    match result {
        Ok(all_succeeded) => Ok(exit_reason(has_failed || !all_succeeded)),
        Err(Interruption::SkipAll) => Ok(ExitReason::Failed),
        Err(Interruption::Stopped(reason)) => Ok(reason),
        Err(Interruption::Io(error)) => Err(error.into()),
    }
}

const fn exit_reason(has_failed: bool) -> ExitReason {
    if has_failed { ExitReason::Failed } else { ExitReason::Done }
}

/// Checks which nodes are reachable without a login, in the order of the targets.
async fn check_all(
    transport: &Transport,
    max_connecting: u16,
    targets: Vec<Target>,
) -> Vec<(Target, Result<&'static str, LoginFault>)> {
    let checking = targets::spawn_for_each(targets, max_connecting, |target| {
        let transport = transport.clone();
        async move {
            let result = check(&transport, &target).await;
            (target, result)
        }
    });
    let mut checks = checking.join_all().await;
    checks.sort_by_key(|(index, _)| *index);
    checks.into_iter().map(|(_, check)| check).collect()
}

/// Runs a command on a node, as monitoring would, and returns why it needs no login.
async fn check(transport: &Transport, target: &Target) -> Result<&'static str, LoginFault> {
    let mut opened = Box::pin(transport.open(target, CHECK_COMMAND, |_| ())).await;
    for _ in 0..SLOW_ATTEMPTS {
        let Err(transport::Fault::Ssh(fault)) = &opened else { break };
        if !matches!(fault.root(), ssh::Fault::TimedOut { phase: ConnectPhase::BannerExchange, .. })
        {
            break;
        }
        opened = Box::pin(transport.open(target, CHECK_COMMAND, |_| ())).await;
    }
    let mut channel = opened?;
    let uses_program = channel.via() == TransportKind::SshProgram;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let reading = async {
        loop {
            match channel.next().await {
                Ok(Output::Stdout(bytes)) => stdout.extend(bytes),
                Ok(Output::Stderr(bytes)) => stderr.extend(bytes),
                Ok(Output::Exit(_)) => return None,
                Err(end) => return end,
            }
            let is_enough = stdout.len() + stderr.len() > 64 * 1024;
            if is_enough || contains(&stdout, CHECK_OUTPUT) {
                return None;
            }
        }
    };
    let end = timeout(CHECK_TIMEOUT, reading).await;
    if contains(&stdout, CHECK_OUTPUT) {
        let is_over_master = uses_program && has_master(transport, target).await;
        return Ok(if is_over_master { "already logged in" } else { "no login needed" });
    }
    if let Ok(Some(fault)) = end {
        return Err(fault.into());
    }
    stderr.extend(channel.unread_stderr().into_bytes());
    let said = String::from_utf8_lossy(if stderr.is_empty() { &stdout } else { &stderr });
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = if lines.is_empty() { "it does not answer".to_owned() } else { lines.join(" ") };
    Err(LoginFault::NoCommands(text::excerpt_line(&said)))
}

/// Returns true if a master connection to a node is open.
async fn has_master(transport: &Transport, target: &Target) -> bool {
    let Ok((client, ssh)) = transport.ssh_client(target) else { return false };
    let hosts = client.login_hosts(&ssh).await.unwrap_or_default();
    let Some(node) = hosts.last() else { return false };
    client.master_socket(node).await.is_some()
}

fn contains(output: &[u8], text: &str) -> bool {
    output.windows(text.len()).any(|part| part == text.as_bytes())
}

/// Logs in to nodes.
struct LoginRun<'a, W> {
    transport: &'a Transport,
    persist: Duration,
    askpass: AskpassServer,
    /// By user: one's password is not tried for another.
    answers: BTreeMap<String, Answers>,
    questions: Questions,
    /// The hosts to log in to afterwards, and the user there; empty for one that asks for no password.
    waiting: Vec<(String, String)>,
    /// Gateways whose login has failed: nobody is asked again for the next node.
    failed_gateways: Vec<String>,
    signals: StopSignals,
    out: &'a mut W,
}

impl<W: Write> LoginRun<'_, W> {
    /// Returns true if all are reachable afterwards.
    async fn log_in_to_nodes(
        &mut self,
        nodes: Vec<(Target, ssh::Fault)>,
    ) -> Result<bool, Interruption> {
        let mut all_succeeded = true;
        let users = self.users_of(&nodes).await?;
        for (at, (target, fault)) in nodes.into_iter().enumerate() {
            self.waiting = users.get(at + 1..).unwrap_or_default().to_vec();
            let result = self.log_in_to_node(&target, &fault).await?;
            let name = target.name.label();
            match result {
                Ok(()) => writeln!(self.out, "{name}: logged in")?,
                Err(fault) => {
                    all_succeeded = false;
                    writeln!(self.out, "{name}: {fault}")?;
                }
            }
            self.out.flush()?;
        }
        Ok(all_succeeded)
    }

    /// Returns the name of each node and the user to log in as, without those that ask for no password.
    async fn users_of(
        &mut self,
        nodes: &[(Target, ssh::Fault)],
    ) -> Result<Vec<(String, String)>, Interruption> {
        let mut users = Vec::with_capacity(nodes.len());
        for (target, fault) in nodes {
            let asks = !matches!(
                fault.root(),
                ssh::Fault::KeyEncrypted { .. } | ssh::Fault::AgentUnreachable { .. }
            );
            let found = match self.transport.ssh_client(target) {
                Ok((client, ssh)) => self.unless_stopped(hosts_of(client, &ssh)).await?.ok(),
                Err(_fault) => None,
            };
            let user = found.and_then(|hosts| hosts.last().map(|host| host.user().to_owned()));
            let user = user.filter(|_| asks).unwrap_or_default();
            users.push((target.name.label().to_owned(), user));
        }
        Ok(users)
    }

    /// Logs in to the gateways of a node that need it, and to the node if it needs it.
    async fn log_in_to_node(&mut self, target: &Target, fault: &ssh::Fault) -> LoginResult {
        let transport = self.transport;
        let (client, ssh) = match transport.ssh_client(target) {
            Ok(found) => found,
            Err(fault) => return Ok(Err(fault.into())),
        };
        let hosts = match self.unless_stopped(hosts_of(client, &ssh)).await? {
            Ok(hosts) => hosts,
            Err(fault) => return Ok(Err(fault)),
        };
        let Some((node, gateways)) = hosts.split_last() else { return Ok(Ok(())) };
        let behind = gateways.iter().skip(1).chain([node]);
        let mut needs_master = false;
        for (gateway, next) in gateways.iter().zip(behind) {
            let logged_in =
                self.log_in_to_gateway(client, gateway, next, &mut needs_master).await?;
            if let Err(fault) = logged_in {
                return Ok(Err(fault));
            }
        }
        if matches!(fault, ssh::Fault::AtGateway { .. }) {
            // What the node itself needs is not known yet.
            match self.unless_stopped(check(transport, target)).await? {
                Err(LoginFault::Transport(transport::Fault::Ssh(fault)))
                    if fault.is_solved_by_login() => {}
                checked => return Ok(checked.map(drop)),
            }
        }
        if let Err(fault) = self.log_in(client, node).await? {
            return Ok(Err(fault));
        }
        let checked = self.unless_stopped(check(transport, target)).await?;
        if checked.is_err() {
            // The connection is of no use.
            client.close_logins(Some(std::slice::from_ref(node))).await;
        }
        Ok(checked.map(drop))
    }

    /// Logs in to a gateway, unless it has an open connection or a key is enough. Behind a gateway with a connection of
    /// gtop's, `needs_master`, the next one needs one, too: ssh would not find the first.
    async fn log_in_to_gateway(
        &mut self,
        client: &Client,
        gateway: &LoginHost,
        next: &LoginHost,
        needs_master: &mut bool,
    ) -> LoginResult {
        let name = gateway.name().to_owned();
        if self.failed_gateways.contains(&name) {
            return Ok(Err(LoginFault::Gateway(name)));
        }
        if self.unless_stopped(client.master_socket(gateway)).await?.is_some() {
            *needs_master = true;
            return Ok(Ok(()));
        }
        if !*needs_master {
            match self.unless_stopped(client.check_gateway_of(next)).await? {
                Ok(()) => return Ok(Ok(())),
                Err(fault) if !fault.is_solved_by_login() => {
                    return Ok(Err(fault.at_gateway(&name).into()));
                }
                Err(_) => *needs_master = true,
            }
        }
        // The next one waits as well.
        self.waiting.insert(0, (next.name().to_owned(), next.user().to_owned()));
        let result = self.log_in(client, gateway).await?;
        self.waiting.remove(0);
        match &result {
            Ok(()) => writeln!(self.out, "{name}: logged in, for the nodes behind it")?,
            Err(fault) => {
                writeln!(self.out, "{name}: {fault}")?;
                self.failed_gateways.push(name.clone());
            }
        }
        self.out.flush()?;
        Ok(result.map_err(|_printed| LoginFault::Gateway(name)))
    }

    /// Opens a master connection to one host.
    async fn log_in(&mut self, client: &Client, host: &LoginHost) -> LoginResult {
        let mut dialogue = Dialogue::default();
        self.askpass.discard();
        let starting = client.start_login(host, &self.askpass, self.persist);
        let mut login = match starting.await {
            Ok(login) => login,
            Err(fault) => return Ok(Err(fault.into())),
        };
        let mut unread: Vec<String> = Vec::new();
        let ended = loop {
            let question = tokio::select! {
                biased;
                reason = self.signals.next() => return Err(Interruption::Stopped(reason.into())),
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
            match asking.await? {
                AskResult::Answered => {}
                AskResult::Skip => return Ok(Err(LoginFault::Skipped)),
                AskResult::SkipAll => return Err(Interruption::SkipAll),
                AskResult::Stopped(reason) => return Err(Interruption::Stopped(reason)),
            }
        };
        drop(login);
        let recorded = match ended {
            Ok(()) => client.record_login(host).await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = recorded {
            return Ok(Err(explained(fault, &dialogue)));
        }
        let is_alike = |(_, user): &&(String, String)| user == host.user();
        let alike: Vec<&str> =
            self.waiting.iter().filter(is_alike).map(|(name, _)| name.as_str()).collect();
        if !alike.is_empty() {
            let place = (host.user(), nodeset::fold(alike));
            let answers = self.answers.entry(host.user().to_owned()).or_default();
            let offering = self.questions.offer(&dialogue, answers, place, &mut self.signals);
            if let AskResult::Stopped(reason) = offering.await? {
                return Err(Interruption::Stopped(reason));
            }
        }
        Ok(Ok(()))
    }

    /// Waits for something, unless gtop is to end.
    async fn unless_stopped<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, Interruption> {
        tokio::select! {
            done = work => Ok(done),
            reason = self.signals.next() => Err(Interruption::Stopped(reason.into())),
        }
    }
}

async fn hosts_of(client: &Client, ssh: &SshTarget) -> Result<Vec<LoginHost>, LoginFault> {
    Ok(client.login_hosts(ssh).await?)
}

/// Returns why a login failed: ssh speaks of keys where an answer was refused.
fn explained(fault: ssh::Fault, dialogue: &Dialogue) -> LoginFault {
    let is_refusal = matches!(fault, ssh::Fault::AuthenticationRefused { .. });
    if is_refusal && dialogue.has_answers() { LoginFault::Refused } else { fault.into() }
}

//! `gtop login`: logs in to nodes that ask for a password or a code, one after the other, and keeps the connections.
//!
//! One after the other, because an answer may be wrong, and wrong answers to many nodes would lock an account.

mod answers;
mod dialogue;
mod login_run;
mod offer;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use tokio::time::timeout;

use crate::app::env::Env;
use crate::app::line_prompt::NoEcho;
use crate::app::login::dialogue::Questions;
use crate::app::login::login_run::LoginRun;
use crate::app::prompt_place::PromptPlace;
use crate::app::targets::{self, TargetError};
use crate::app::{AppError, CommandError, ExitReason, unless_stopped};
use crate::cli::LoginOptions;
use crate::setting_table::TransportChoice;
use crate::watch::SCHEDULER_TIMEOUT;
use gtop_collect::transport::{self, Reach, Target, Transport};
use gtop_local::fault::ConnectPhase;
use gtop_local::process::Output;
use gtop_local::storage::socket_folder;
use gtop_local::text;
use gtop_model::{TransportKind, nodeset};
use gtop_ssh::{self as ssh, AskpassServer};
use gtop_ui::StopSignals;

/// What is run on a node to see that it is reachable, and what it prints.
const CHECK_COMMAND: &str = "echo gtop-login";
const CHECK_OUTPUT: &str = "gtop-login";

/// Further attempts at a server that is too slow for the limit, which grows with each.
const SLOW_ATTEMPTS: usize = 2;

/// Timeout for the command, once the node has started it.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) use offer::{log_in_from_screen, offer_after_start};

/// Why no login is possible.
#[derive(Debug, thiserror::Error)]
enum LoginError {
    #[error("no node given; use gtop login NODES, or gtop -- login to watch a node called login")]
    NoNode,
    #[error(
        "there is no terminal to ask on; run gtop login in one, or set SSH_ASKPASS to a program that asks in a window"
    )]
    NobodyToAsk,
    #[error(
        "--transport native uses no connection of the ssh program, so gtop login cannot help it; log in and watch with --transport auto"
    )]
    Unused,
}

impl CommandError for LoginError {
    fn exit_code(&self) -> u8 {
        if matches!(self, Self::NobodyToAsk) { 1 } else { 2 }
    }
}

impl CommandError for ssh::Fault {}

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

/// Runs `gtop login`.
pub(super) fn run(
    env: &Env,
    options: &LoginOptions,
    out: &mut impl Write,
) -> Result<ExitReason, AppError> {
    if env.cli.connection.transport_kind() == TransportChoice::Native {
        return Err(LoginError::Unused.into());
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
            Some(page) => TargetError::OnlyPage(page).into(),
            None => LoginError::NoNode.into(),
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
        Reach::Local | Reach::Ssh(_) | Reach::InProcess(_) => None,
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
    let checking = check_all(transport, max_connecting, targets);
    let checks = unless_stopped(&mut signals, checking).await?;
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
    let place = PromptPlace::for_login().ok_or(LoginError::NobodyToAsk)?;
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
    Ok(exit_reason(has_failed || !result?))
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

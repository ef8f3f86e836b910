//! Reports what Slurm needs on this machine: its configuration, munge and the controller.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::doctor::{SLOW_ANSWER, StepResult, StepStatus};
use gtop_collect::scheduler::SchedulerError;
use gtop_collect::scheduler::slurm::{PROFILE, of_stderr, run_command_within};
use gtop_fleet::advice::scheduler;
use gtop_local::text::sanitize;
use gtop_model::SchedulerErrorKind;

/// Time limit of commands that answer in milliseconds.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(8);
/// Time limit of `scontrol ping`, which itself waits 10 s for the controller.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Where `slurm.conf` may be if `SLURM_CONF` is not set.
const CONF_PATHS: [&str; 4] = [
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/run/slurm/conf/slurm.conf",
    "/opt/slurm/etc/slurm.conf",
];

/// Adds the steps of configuration, authentication and controller; returns `None` after a failure that makes further ones
/// pointless.
pub(super) async fn add_steps(steps: &mut Vec<StepResult>) -> Option<()> {
    let configuration = configuration_step();
    let has_configuration = configuration.status != StepStatus::Failed;
    steps.push(configuration);
    has_configuration.then_some(())?;
    add_step(steps, munge_step()).await?;
    check_controller(steps).await
}

/// Adds a step with its duration; returns `None` if it failed.
async fn add_step(
    steps: &mut Vec<StepResult>,
    step: impl Future<Output = StepResult>,
) -> Option<()> {
    let began = Instant::now();
    let row = step.await;
    let has_failed = row.status == StepStatus::Failed;
    steps.push(row.with_duration(began.elapsed()));
    (!has_failed).then_some(())
}

/// Returns the file that is read if `SLURM_CONF` is not set.
fn default_configuration() -> Option<&'static str> {
    CONF_PATHS.into_iter().find(|path| Path::new(path).exists())
}

fn configuration_step() -> StepResult {
    let step = "configuration";
    let Ok(path) = std::env::var("SLURM_CONF") else {
        return match default_configuration() {
            Some(path) => StepResult::ok(step, path),
            None => StepResult::note(step, "no slurm.conf in the default folders")
                .with_details(CONF_PATHS.iter().map(|path| format!("not found: {path}")).collect()),
        };
    };
    let path = sanitize(&path, 300);
    if Path::new(&path).exists() {
        return StepResult::ok(step, format!("{path} (SLURM_CONF)"));
    }
    StepResult::failed(step, format!("SLURM_CONF is {path}, which does not exist"))
        .with_remedy(scheduler::BAD_SLURM_CONF)
}

/// Reports a failure at the step of the configuration, if that is its cause. Returns true if so.
fn attribute_to_configuration(steps: &mut [StepResult], error: Option<&SchedulerError>) -> bool {
    let row = steps.iter_mut().find(|row| row.step == "configuration");
    let Some(row) = row else { return false };
    let error = error.filter(|error| error.kind == SchedulerErrorKind::BadConfiguration);
    let remedy = if let Some(error) = error {
        let previous = std::mem::replace(&mut row.finding, error.message.clone());
        row.details.insert(0, previous);
        scheduler::of_scheduler(&PROFILE.words, error.kind, &error.message)
    } else if row.status == StepStatus::Note {
        "slurm.conf is missing and no server provides it".clone_into(&mut row.finding);
        scheduler::NO_SLURM_CONF.to_owned()
    } else {
        return false;
    };
    row.status = StepStatus::Failed;
    row.remedy = Some(remedy);
    true
}

async fn munge_step() -> StepResult {
    let complaint = match run_command_within(COMMAND_TIMEOUT, "munge", &["--no-input"], "").await {
        Ok(answer) if answer.stdout.starts_with("MUNGE:") => {
            return StepResult::ok("munge", "authentication works");
        }
        // Slurm may use another authentication plugin than munge.
        Err(SchedulerError { kind: SchedulerErrorKind::NotInstalled, .. }) => {
            return StepResult::not_applicable("munge", "not on the PATH");
        }
        Ok(answer) if answer.stderr.trim().is_empty() => answer.stdout,
        Ok(answer) => answer.stderr,
        Err(_late) => format!("no answer within {} s", COMMAND_TIMEOUT.as_secs()),
    };
    StepResult::failed("munge", "authentication fails: Slurm cannot identify you")
        .with_details(vec![sanitize(complaint.lines().next().unwrap_or_default(), 300)])
        .with_remedy(scheduler::MUNGE)
}

async fn check_controller(steps: &mut Vec<StepResult>) -> Option<()> {
    let began = Instant::now();
    let answer = run_command_within(PING_TIMEOUT, "scontrol", &["ping"], "").await;
    let took = began.elapsed();
    let (row, error) = match answer {
        Ok(answer) => {
            let mut lines = answer.stdout.lines();
            if let Some(line) = lines.clone().find(|line| line.contains(" is UP")) {
                steps.push(StepResult::of_answer("controller", took, line).with_duration(took));
                return Some(());
            }
            if let Some(line) = lines.find(|line| line.contains(" is DOWN")) {
                (controller_failure(line).await, None)
            } else if answer.succeeded {
                let line = answer.stdout.lines().find(|line| !line.trim().is_empty());
                let line = sanitize(line.unwrap_or("nothing"), 200);
                let finding = format!("unexpected output of scontrol ping: {line:?}");
                let row =
                    StepResult::failed("controller", finding).with_remedy(scheduler::ODD_PING);
                // With a broken configuration, scontrol would have failed.
                steps.push(row.with_duration(took));
                return None;
            } else {
                let error = of_stderr("scontrol", &answer.stderr);
                (StepResult::of_error(&PROFILE, "controller", &error), Some(error))
            }
        }
        Err(error) => (StepResult::of_error(&PROFILE, "controller", &error), Some(error)),
    };
    if !attribute_to_configuration(steps, error.as_ref()) {
        steps.push(row.with_duration(took));
    }
    None
}

/// Distinguishes a controller that hangs from one that is down, by a TCP connection; scontrol calls both
/// DOWN.
async fn controller_failure(line: &str) -> StepResult {
    let address = controller_address();
    let is_listening = match &address {
        Some((host, port)) => {
            let connecting = tokio::net::TcpStream::connect((host.as_str(), *port));
            tokio::time::timeout(SLOW_ANSWER, connecting).await.is_ok_and(|done| done.is_ok())
        }
        None => false,
    };
    let detail = address.map(|(host, port)| format!("tried {host}:{port}"));
    let row = if is_listening {
        StepResult::failed("controller", "hangs: accepts connections, but does not answer")
            .with_remedy(scheduler::CONTROLLER_HANGS)
    } else {
        StepResult::failed("controller", "down: nothing listens at its address")
            .with_remedy(scheduler::CONTROLLER_DOWN)
    };
    row.with_details([Some(line.to_owned()), detail].into_iter().flatten().collect())
}

/// Returns the address of the controller in `slurm.conf`.
fn controller_address() -> Option<(String, u16)> {
    let configured = std::env::var("SLURM_CONF").ok();
    let path = configured.as_deref().or_else(|| default_configuration())?;
    let text = std::fs::read_to_string(path).ok()?;
    let host = value_of("SlurmctldHost", &text).or_else(|| value_of("ControlMachine", &text))?;
    let host = match host.split_once('(') {
        Some((_, inside)) => inside.trim_end_matches(')'),
        None => host,
    };
    let port = value_of("SlurmctldPort", &text);
    let port = port.and_then(|port| port.split('-').next()?.parse().ok());
    Some((host.to_owned(), port.unwrap_or(6817)))
}

/// Returns the value of a key in the text of `slurm.conf`.
fn value_of<'a>(key: &str, text: &'a str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        name.trim().eq_ignore_ascii_case(key).then(|| value.trim())
    })
}

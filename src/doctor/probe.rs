//! Reports the steps on the node itself: login shell, interpreter, hello of the probe, clock.

use tokio::time::{Instant, timeout};

use crate::doctor::{StepResult, StepStatus, backends, sudo};
use gtop_collect::collect::{Handshake, LoaderError, ShellHistory};
use gtop_collect::probe::{self, Interpreter};
use gtop_collect::transport::{Target, Transport};
use gtop_collect::wire::body::{Body, Hello, Raw};
use gtop_collect::wire::job_of_cgroup;
use gtop_fleet::advice::{self, Known};
use gtop_local::fault;
use gtop_local::process::Output;
use gtop_local::text::sanitize;
use gtop_local::time::{Clock, Timestamp};
use gtop_model::{Fault, TransportKind};

/// Maximum time to find out why the node does not run Python.
const REASONS_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// Maximum number of reported reasons.
const MAX_REASONS: usize = 4;
/// Maximum size of the output with the reasons.
const MAX_REASONS_BYTES: usize = 2048;

/// Maximum size of the login files' output that is kept; the end is kept.
const MAX_NOISE_BYTES: usize = 4096;

/// Larger clock differences are reported, in microseconds.
const MAX_CLOCK_OFFSET_US: i64 = 2_000_000;

/// Finds out why a node does not run Python.
#[derive(Clone, Copy, Debug)]
pub(super) struct PythonSearch<'a> {
    pub(super) transport: &'a Transport,
    pub(super) target: &'a Target,
}

/// Adds the steps of a node that is connected.
pub(super) async fn add_steps(
    mut handshake: Handshake,
    clock: &Clock,
    python_search: PythonSearch<'_>,
    known: &Known,
    steps: &mut Vec<StepResult>,
) {
    let began = Instant::now();
    let limits = ShellHistory::default().limits(python_search.transport.connect_timeout());
    let mut is_slow = false;
    let loaded = handshake.await_loader(limits, &mut |_fault, _remaining| is_slow = true).await;
    let shell = login_shell_step(handshake.noise(), is_slow.then(|| began.elapsed()), known);
    let privilege = python_search.transport.privilege(python_search.target);
    let interpreter = match loaded {
        Ok(interpreter) => interpreter,
        Err(LoaderError::SudoRefused(refusal, output)) => {
            steps.push(shell);
            let row = sudo::refused_step(refusal, &output, known, privilege);
            steps.push(row.with_duration(began.elapsed()));
            handshake.close().await;
            return;
        }
        Err(LoaderError::Fault(fault)) => {
            let row = failed("login shell", &fault, known);
            steps.push(row.with_duration(began.elapsed()));
            return;
        }
    };
    steps.push(shell.with_duration(began.elapsed()));
    if handshake.via() != TransportKind::Step {
        steps.extend(sudo::permitted_step(privilege));
    }
    let began = Instant::now();
    let frame = handshake.start_probe(interpreter).await;
    let arrival = clock.now();
    let took = began.elapsed();
    let frame = match frame {
        Ok(frame) => frame,
        Err(fault) => {
            steps.push(failed("probe", &fault, known).with_duration(took));
            return;
        }
    };
    let Body::Hello(hello) = &frame.body else { return };
    let finding = interpreter_text(interpreter, hello);
    steps.push(match interpreter {
        Interpreter::Python => StepResult::ok("interpreter", finding),
        Interpreter::Shell => StepResult::note("interpreter", finding)
            .with_details(python_search.fetch_reasons().await)
            .with_remedy(advice::source::SHELL_PROBE),
    });
    steps.push(probe_step(hello).with_duration(took));
    steps.extend(enclosing_job_step(hello, handshake.via()));
    backends::add_steps(&mut handshake, &frame.body, clock, arrival, known, steps).await;
    steps.extend(clock_step(hello, arrival, took));
    handshake.close().await;
}

fn failed(step: &str, fault: &Fault, known: &Known) -> StepResult {
    StepResult::failed(step, sanitize(&fault.message(), 900))
        .with_advice(&advice::for_fault(fault, known))
}

/// Reports what the login files printed, and how long a slow shell took.
fn login_shell_step(
    noise: &[u8],
    slow_start: Option<std::time::Duration>,
    known: &Known,
) -> StepResult {
    let step = login_output_step(noise);
    let Some(took) = slow_start else { return step };
    let detail = format!("it started the probe only after {} s", took.as_secs());
    StepResult { status: StepStatus::Note, ..step }
        .with_details(vec![detail])
        .with_advice(&advice::of_slow_shell(known))
}

fn login_output_step(noise: &[u8]) -> StepResult {
    let text = String::from_utf8_lossy(noise);
    let first = text.lines().map(|line| sanitize(line, 120)).find(|line| !line.is_empty());
    match first {
        None => StepResult::ok("login shell", "no output before the probe"),
        Some(line) => {
            let count = noise.len();
            let or_more = if count >= MAX_NOISE_BYTES { " or more" } else { "" };
            let finding =
                format!("{count} bytes{or_more} of output before the probe, first line: {line}");
            StepResult::note("login shell", finding)
        }
    }
}

fn interpreter_text(interpreter: Interpreter, hello: &Hello) -> String {
    let version = sanitize(&hello.version, 100);
    match interpreter {
        Interpreter::Python => {
            let path = hello.path.as_deref().map(|path| sanitize(path, 200)).unwrap_or_default();
            let path = if path.is_empty() { "python".to_owned() } else { path };
            format!("{path} {version}")
        }
        Interpreter::Shell => format!("sh ({version}): no suitable Python"),
    }
}

/// Reports the job that the probe runs in without the user's request, and the consequences.
fn enclosing_job_step(hello: &Hello, via: TransportKind) -> Option<StepResult> {
    let job = job_of_cgroup(hello.cgroup.as_deref()).filter(|_| via != TransportKind::Step)?;
    let finding =
        format!("the probe runs inside job {job}; {} does this with logins", fault::JOB_GATE);
    let detail =
        "if jobs are confined to their devices, devices of other jobs on this node are hidden";
    Some(StepResult::note("job", finding).with_details(vec![detail.to_owned()]))
}

fn probe_step(hello: &Hello) -> StepResult {
    let Hello { host, kernel, arch, cpus, tick, uid, user, hidepid, .. } = hello;
    let is_sudo = hello.sudo.as_deref() == Some("root");
    let by_sudo = if is_sudo { ", root by sudo" } else { "" };
    let [host, kernel, arch, user] = [host, kernel, arch, user].map(|text| sanitize(text, 100));
    let finding = format!(
        "{host}, Linux {kernel}, {arch}, {cpus} CPUs, {tick} ticks per second, as {user} (uid {uid}{by_sudo}), hidepid {hidepid}"
    );
    if *hidepid == 0 || *uid == 0 || is_sudo {
        return StepResult::ok("probe", finding);
    }
    StepResult::note("probe", finding)
        .with_details(vec!["processes of other users are hidden by hidepid".to_owned()])
}

/// Compares the clock of the node with this machine's.
fn clock_step(hello: &Hello, arrival: Timestamp, took: std::time::Duration) -> Option<StepResult> {
    let Raw::Value(seconds) = hello.time else { return None };
    if !(0.0..1e11).contains(&seconds) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a float cast saturates, and it is in range"
    )]
    let node_time = (seconds * 1e6) as i64;
    let offset = node_time.saturating_sub(arrival.as_micros());
    // The node read its clock at some moment between sending the probe and receiving the hello.
    let uncertainty = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
    if offset > -uncertainty.saturating_add(MAX_CLOCK_OFFSET_US) && offset < MAX_CLOCK_OFFSET_US {
        let finding = format!("within {} ms of this machine", uncertainty.max(offset.abs()) / 1000);
        return Some(StepResult::ok("clock", finding));
    }
    let direction = if offset > 0 { "ahead of" } else { "behind" };
    let finding = format!("{} s {direction} this machine", offset.abs() / 1_000_000);
    Some(StepResult::note("clock", finding).with_remedy(advice::source::CLOCK))
}

impl PythonSearch<'_> {
    /// Runs a command on the node that lists its Pythons and what is wrong with each.
    async fn fetch_reasons(self) -> Vec<String> {
        let query = async {
            let command = probe::why_no_python();
            let mut channel = self.transport.open(self.target, &command, |_| ()).await.ok()?;
            let mut output = Vec::new();
            while let Ok(part) = channel.next().await {
                if let Output::Stdout(bytes) = part {
                    let room = MAX_REASONS_BYTES.saturating_sub(output.len());
                    output.extend(bytes.iter().take(room));
                }
            }
            channel.shutdown().await;
            Some(String::from_utf8_lossy(&output).into_owned())
        };
        let output =
            timeout(REASONS_TIMEOUT, Box::pin(query)).await.ok().flatten().unwrap_or_default();
        parse_reasons(&output)
    }
}

/// Extracts the reasons from the output of a login shell, without duplicates: one Python may have several
/// names.
fn parse_reasons(output: &str) -> Vec<String> {
    let mut reasons = Vec::new();
    for (_, reason) in output.lines().filter_map(|line| line.split_once(probe::REASON_PREFIX)) {
        let reason = sanitize(reason, 200);
        if reasons.len() < MAX_REASONS && !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn clocks_are_compared_within_the_uncertainty_of_the_wait() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let row = |theirs: f64, took: u64| {
            let hello = Hello { time: Raw::Value(theirs), ..Hello::default() };
            clock_step(&hello, at(1000), Duration::from_millis(took))
                .map(|row| (row.status, row.finding))
        };
        let ok = |ms: u64| Some((StepStatus::Ok, format!("within {ms} ms of this machine")));
        assert_eq!(row(999.9, 100), ok(100));
        assert_eq!(row(1001.5, 100), ok(1500));
        assert_eq!(row(993.0, 8000), ok(8000), "the wait may have been before it");
        assert_eq!(
            row(1010.0, 8000),
            Some((StepStatus::Note, "10 s ahead of this machine".to_owned()))
        );
        assert_eq!(
            row(900.0, 100),
            Some((StepStatus::Note, "100 s behind this machine".to_owned()))
        );
        for invalid in [f64::NAN, -1.0, 1e300, f64::INFINITY] {
            assert_eq!(row(invalid, 1), None);
        }
    }

    #[test]
    fn a_python_with_two_names_has_one_reason() {
        let output =
            "Welcome\ngtop-reason a: old\nx gtop-reason b: not there\r\ngtop-reason a: old\n";
        assert_eq!(parse_reasons(output), ["a: old", "b: not there"]);
        assert_eq!(parse_reasons(&output.repeat(9)).len(), 2);
    }

    #[test]
    fn output_of_login_files_has_no_terminal_escapes() {
        let known = Known::new("gpu01", None, "gpu01", None);
        let row = login_shell_step(b"\n\x1b[2JWelcome\nmore\n", None, &known);
        assert_eq!(row.finding, "18 bytes of output before the probe, first line: [2JWelcome");
        assert_eq!(login_shell_step(b"\n", None, &known).status, StepStatus::Ok);
        let slow = login_shell_step(b"", Some(Duration::from_millis(60_500)), &known);
        assert_eq!(slow.details, ["it started the probe only after 60 s"]);
        assert_eq!(slow.status, StepStatus::Note);
    }
}

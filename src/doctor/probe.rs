//! Reports the steps on the node itself: login shell, interpreter, hello of the probe, clock.

use tokio::time::{Instant, timeout};

use crate::collect::Handshake;
use crate::doctor::remedy::Advice;
use crate::doctor::{StepResult, StepStatus, backends};
use crate::model::{TransportKind, sanitize};
use crate::probe::{self, Interpreter};
use crate::time::{Clock, Timestamp};
use crate::transport::{Output, Target, Transport};
use crate::wire::body::{Body, Hello, Raw};
use crate::wire::job_of_group;

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
    mut visit: Handshake,
    clock: &Clock,
    python_search: PythonSearch<'_>,
    advice: &Advice,
    rows: &mut Vec<StepResult>,
) {
    let began = Instant::now();
    let woken = visit.await_loader(Handshake::loader_timeout(python_search.transport)).await;
    let shell = login_shell_step(visit.noise());
    let interpreter = match woken {
        Ok(interpreter) => {
            rows.push(shell.with_duration(began.elapsed()));
            interpreter
        }
        Err(fault) => {
            let remedy = advice.for_node_fault(&fault, !visit.noise().is_empty());
            let row = StepResult {
                status: StepStatus::Failed,
                finding: sanitize(&fault.message(), 900),
                ..shell
            };
            rows.push(row.with_duration(began.elapsed()).with_remedy(remedy));
            return;
        }
    };
    let began = Instant::now();
    let frame = visit.start_probe(interpreter).await;
    let arrival = clock.now();
    let took = began.elapsed();
    let frame = match frame {
        Ok(frame) => frame,
        Err(fault) => {
            let row = StepResult::new("probe", StepStatus::Failed, sanitize(&fault.message(), 900));
            rows.push(row.with_duration(took).with_remedy(advice.for_node_fault(&fault, true)));
            return;
        }
    };
    let Body::Hello(hello) = &frame.body else { return };
    let found = interpreter_text(interpreter, hello);
    rows.push(match interpreter {
        Interpreter::Python => StepResult::new("interpreter", StepStatus::Ok, found),
        Interpreter::Shell => StepResult::new("interpreter", StepStatus::Note, found)
            .with_details(python_search.fetch_reasons().await)
            .with_remedy(
                "sh works, at a higher CPU cost for the node; install Python 3.6 or newer",
            ),
    });
    rows.push(probe_step(hello).with_duration(took));
    rows.extend(enclosing_job_step(hello, visit.via()));
    backends::add_steps(&mut visit, &frame.body, clock, arrival, rows).await;
    rows.extend(clock_step(hello, arrival, took));
    visit.close().await;
}

/// Reports what the login files printed.
fn login_shell_step(noise: &[u8]) -> StepResult {
    let text = String::from_utf8_lossy(noise);
    let first = text.lines().map(|line| sanitize(line, 120)).find(|line| !line.is_empty());
    match first {
        None => StepResult::new("login shell", StepStatus::Ok, "no output before the probe"),
        Some(line) => {
            let count = noise.len();
            let more = if count >= MAX_NOISE_BYTES { " or more" } else { "" };
            let found =
                format!("{count} bytes{more} of output before the probe, first line: {line}");
            StepResult::new("login shell", StepStatus::Note, found)
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

/// Reports the Slurm job that the probe runs in without the user's request, and the consequences.
fn enclosing_job_step(hello: &Hello, via: TransportKind) -> Option<StepResult> {
    let job = job_of_group(hello.cgroup.as_deref()).filter(|_| via != TransportKind::Step)?;
    let found = format!("the probe runs inside job {job}; pam_slurm_adopt does this with logins");
    let more =
        "if jobs are confined to their devices, devices of other jobs on this node are hidden";
    Some(StepResult::new("job", StepStatus::Note, found).with_details(vec![more.to_owned()]))
}

fn probe_step(hello: &Hello) -> StepResult {
    let Hello { host, kernel, arch, cpus, tick, uid, user, hidepid, .. } = hello;
    let name = |text: &str| sanitize(text, 100);
    let found = format!(
        "{}, Linux {}, {}, {cpus} CPUs, {tick} ticks per second, as {} (uid {uid}), hidepid {hidepid}",
        name(host),
        name(kernel),
        name(arch),
        name(user)
    );
    if *hidepid == 0 || *uid == 0 {
        return StepResult::new("probe", StepStatus::Ok, found);
    }
    StepResult::new("probe", StepStatus::Note, found)
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
    let theirs = (seconds * 1e6) as i64;
    let ahead = theirs.saturating_sub(arrival.as_micros());
    // The node read its clock at some moment between sending the probe and receiving the hello.
    let doubt = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
    if ahead > -doubt.saturating_add(MAX_CLOCK_OFFSET_US) && ahead < MAX_CLOCK_OFFSET_US {
        let found = format!("within {} ms of this machine", doubt.max(ahead.abs()) / 1000);
        return Some(StepResult::new("clock", StepStatus::Ok, found));
    }
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    let found = format!("{} s {direction} this machine", ahead.abs() / 1_000_000);
    let remedy = "ages are still shown correctly; check timedatectl on both machines";
    Some(StepResult::new("clock", StepStatus::Note, found).with_remedy(remedy))
}

impl PythonSearch<'_> {
    /// Runs a command on the node that lists its Pythons and what is wrong with each.
    async fn fetch_reasons(self) -> Vec<String> {
        let asked = async {
            let line = probe::why_no_python();
            let mut channel = self.transport.open(self.target, &line, |_| ()).await.ok()?;
            let mut said = Vec::new();
            loop {
                match channel.next().await {
                    Output::Stdout(bytes) => {
                        let room = MAX_REASONS_BYTES.saturating_sub(said.len());
                        said.extend(bytes.iter().take(room));
                    }
                    Output::Stderr(_) => {}
                    Output::Exit(_) | Output::Closed(_) => break,
                }
            }
            channel.shutdown().await;
            Some(String::from_utf8_lossy(&said).into_owned())
        };
        let said =
            timeout(REASONS_TIMEOUT, Box::pin(asked)).await.ok().flatten().unwrap_or_default();
        parse_reasons(&said)
    }
}

/// Extracts the reasons from the output of a login shell, without duplicates: one Python may have several
/// names.
fn parse_reasons(said: &str) -> Vec<String> {
    let mut reasons = Vec::new();
    for (_, reason) in said.lines().filter_map(|line| line.split_once(probe::REASON)) {
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
    fn clocks_are_compared_as_far_as_the_wait_allows() {
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
        for nonsense in [f64::NAN, -1.0, 1e300, f64::INFINITY] {
            assert_eq!(row(nonsense, 1), None);
        }
    }

    #[test]
    fn a_python_of_two_names_has_one_reason() {
        let said =
            "Welcome\ngtop-reason a: old\nx gtop-reason b: not there\r\ngtop-reason a: old\n";
        assert_eq!(parse_reasons(said), ["a: old", "b: not there"]);
        assert_eq!(parse_reasons(&said.repeat(9)).len(), 2);
    }

    #[test]
    fn what_a_shell_prints_cannot_command_the_terminal() {
        let row = login_shell_step(b"\n\x1b[2JWelcome\nmore\n");
        assert_eq!(row.finding, "18 bytes of output before the probe, first line: [2JWelcome");
        assert_eq!(login_shell_step(b"\n").status, StepStatus::Ok);
    }
}

//! A simulated probe in one session: announces itself, reads its source, sends samples, obeys commands.
//!
//! Works on byte streams, without SSH.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::{Instant, sleep, sleep_until};

use crate::probe::ProbeCommand;
use crate::sim::corrupt::{BANNER, corrupt_answers, corrupt_frame};
use crate::sim::injected_fault::InjectedFault;
use crate::sim::launch::{LaunchLine, SettingsLine, parse_command};
use crate::sim::machine::{DriverState, Machine, SampleRequest};
use crate::sim::rng::Rng;
use crate::sim::scenario::FleetSpec;
use crate::wire::body::{Body, Bye, Cost, Sample};
use crate::wire::encode;
use gtop_local::text::LineReader;
use gtop_model::{NodeName, ProcessRequest, Signal};

/// Maximum bytes of a command.
const MAX_COMMAND_LENGTH: usize = 4096;
const SLOW_INTERVAL: f64 = 10.0;
const USES_INTERVAL: f64 = 2.0;
const FULL_INTERVAL: f64 = 60.0;
/// A call is reported as stuck after this, and again each `STUCK_REPEAT`.
const STUCK_AFTER: f64 = 3.0;
const STUCK_REPEAT: f64 = 2.0;
/// A session that begins so soon after the fleet gets the events since the fleet's start.
const EARLY: f64 = 10.0;
/// A focus that no command ends, ends by itself.
const FOCUS_TIMEOUT: f64 = 65.0;
/// Seconds between samples of the devices in focus, as with NVML.
const FOCUSED_DEVICES: f64 = 0.1;
/// Seconds between two reports of the probe's own CPU time, in focus.
const COST_INTERVAL: f64 = 4.0;

/// The state of a node that its sessions share.
#[derive(Clone, Debug)]
pub(crate) struct ProbedNode {
    pub(crate) machine: Machine,
    pub(crate) fault: Option<InjectedFault>,
    /// Start of the fleet.
    pub(crate) began: Instant,
    /// Spreads the ticks of the nodes over time.
    pub(crate) rng: Rng,
}

/// How the command of a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeExit {
    /// It exits with this status.
    Exited(u32),
    /// It is killed by its alarm.
    Killed,
    /// The connection is cut.
    Disconnected,
}

impl ProbedNode {
    /// Returns the node with this index of a fleet that was started at `began`.
    pub(crate) fn new(spec: &FleetSpec, node: u32, name: &NodeName, began: Instant) -> Self {
        Self {
            machine: Machine::new(spec, node, name),
            fault: spec.faults.get(&node).copied(),
            began,
            rng: Rng::new(spec.seed).branch(6).branch(u64::from(node)),
        }
    }

    fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn instant(&self, t: f64) -> Instant {
        self.began + Duration::try_from_secs_f64(t).unwrap_or_default()
    }

    /// Runs the command of a launch line to its end.
    pub(crate) async fn run_command(
        &self,
        line: &str,
        mut input: mpsc::Receiver<Bytes>,
        output: mpsc::Sender<Bytes>,
    ) -> ProbeExit {
        let Some(launch) = LaunchLine::parse(line) else {
            send_text(&output, "sh: 1: not found\n").await;
            return ProbeExit::Exited(127);
        };
        match self.fault {
            Some(InjectedFault::LoginExits) => {
                send_text(&output, "This account is closed for maintenance.\n").await;
                return ProbeExit::Exited(0);
            }
            Some(InjectedFault::NoNonce) => return wait_for_eof(&mut input).await,
            Some(InjectedFault::SlowShell { after }) => sleep(after).await,
            Some(InjectedFault::ReadsInput) => drop(wait_for_eof(&mut input).await),
            Some(InjectedFault::BannerNoise) => send_text(&output, BANNER).await,
            _ => {}
        }
        let is_shell = self.fault == Some(InjectedFault::NoPython);
        let announcement = if is_shell { " NOPY\n" } else { "\n" };
        send_text(&output, &format!("\n{}{announcement}", launch.nonce)).await;
        let rest = if is_shell {
            read_shell_source(&mut input, &launch).await
        } else {
            read_python_source(&mut input, &launch).await
        };
        let Some(rest) = rest else { return ProbeExit::Exited(3) };
        if self.fault == Some(InjectedFault::Silent) {
            return wait_for_eof(&mut input).await;
        }
        let Some((settings, rest)) = read_line(&mut input, rest).await else {
            return ProbeExit::Exited(3);
        };
        let mut probe = SimProbe::new(self, SettingsLine::parse(&settings), output);
        probe.on_input(&rest);
        probe.run(input).await
    }
}

async fn send_text(output: &mpsc::Sender<Bytes>, text: &str) {
    // If the client is gone, the end of the input ends the probe.
    drop(output.send(Bytes::copy_from_slice(text.as_bytes())).await);
}

async fn wait_for_eof(input: &mut mpsc::Receiver<Bytes>) -> ProbeExit {
    while input.recv().await.is_some() {}
    ProbeExit::Exited(0)
}

/// Reads a line; returns it and the bytes after it.
async fn read_line(
    input: &mut mpsc::Receiver<Bytes>,
    mut received: Vec<u8>,
) -> Option<(String, Vec<u8>)> {
    loop {
        if let Some(end) = received.iter().position(|byte| *byte == b'\n') {
            let rest = received.split_off(end + 1);
            return Some((String::from_utf8_lossy(&received).into_owned(), rest));
        }
        received.extend_from_slice(&input.recv().await?);
    }
}

/// Reads the source; returns the bytes after it.
async fn read_python_source(
    input: &mut mpsc::Receiver<Bytes>,
    launch: &LaunchLine,
) -> Option<Vec<u8>> {
    let mut source = Vec::new();
    while source.len() < launch.length {
        source.extend_from_slice(&input.recv().await?);
    }
    Some(source.split_off(launch.length))
}

/// Reads the source up to the line with the nonce; returns the bytes after it.
async fn read_shell_source(
    input: &mut mpsc::Receiver<Bytes>,
    launch: &LaunchLine,
) -> Option<Vec<u8>> {
    let end = format!("\n{}\n", launch.nonce);
    // The first line may be the nonce already.
    let mut source = vec![b'\n'];
    loop {
        let found = source.windows(end.len()).position(|window| window == end.as_bytes());
        if let Some(at) = found {
            return Some(source.split_off(at + end.len()));
        }
        if source.len() > 1 << 20 {
            return None;
        }
        source.extend_from_slice(&input.recv().await?);
    }
}

/// Samples are taken more often until a command or this time ends it.
#[derive(Clone, Copy, Debug)]
struct SimFocus {
    interval: f64,
    end: f64,
    devices_at: f64,
    cost_at: f64,
}

struct SimProbe<'a> {
    node: &'a ProbedNode,
    machine: Cow<'a, Machine>,
    node_name: String,
    output: mpsc::Sender<Bytes>,
    lines: LineReader,
    began: f64,
    interval: f64,
    focus: Option<SimFocus>,
    /// The interval in the last hello.
    announced: Option<f64>,
    next: f64,
    dead_man: Duration,
    dies_at: Instant,
    number: u64,
    since: f64,
    uses_since: f64,
    is_full_due: bool,
    full_at: f64,
    slow_at: f64,
    uses_at: f64,
    stuck_reported_at: f64,
    /// Answers to send at once.
    answers: Vec<Vec<u8>>,
    events_at: f64,
}

impl<'a> SimProbe<'a> {
    fn new(node: &'a ProbedNode, settings: SettingsLine, output: mpsc::Sender<Bytes>) -> Self {
        let began = node.now();
        let machine = match node.fault {
            Some(InjectedFault::Reboot { after }) if began >= after.as_secs_f64() => {
                Cow::Owned(node.machine.rebooted(after.as_secs_f64()))
            }
            _ => Cow::Borrowed(&node.machine),
        };
        Self {
            node,
            machine,
            node_name: settings.node,
            output,
            lines: LineReader::new(MAX_COMMAND_LENGTH),
            began,
            interval: settings.interval,
            focus: None,
            announced: None,
            next: began,
            dead_man: settings.dead_man,
            dies_at: Instant::now() + settings.dead_man,
            number: 0,
            since: f64::NEG_INFINITY,
            uses_since: f64::NEG_INFINITY,
            is_full_due: true,
            full_at: began + 1.0 + node.rng.branch(1).range(0.0, FULL_INTERVAL),
            slow_at: began,
            uses_at: began,
            stuck_reported_at: f64::NEG_INFINITY,
            answers: Vec::new(),
            // A session that begins early gets the events of the first seconds.
            events_at: if began < EARLY { 0.0 } else { began },
        }
    }

    fn tick_interval(&self) -> f64 {
        self.focus.map_or(self.interval, |focus| focus.interval)
    }

    /// Handles ticks and commands until the input ends, the alarm fires, or a fault ends the session.
    async fn run(&mut self, mut input: mpsc::Receiver<Bytes>) -> ProbeExit {
        loop {
            let wake = self.node.instant(self.next).min(self.dies_at);
            tokio::select! {
                biased;
                bytes = input.recv() => match bytes {
                    Some(bytes) => {
                        self.on_input(&bytes);
                        for frame in std::mem::take(&mut self.answers) {
                            drop(self.output.send(frame.into()).await);
                        }
                    }
                    None => return self.send_bye().await,
                },
                () = sleep_until(wake) => {
                    if Instant::now() >= self.dies_at {
                        return ProbeExit::Killed;
                    }
                    if let Some(exit) = self.tick().await {
                        return exit;
                    }
                    self.schedule_next();
                }
            }
        }
    }

    /// Executes the commands for this node.
    fn on_input(&mut self, bytes: &[u8]) {
        self.lines.push(Bytes::copy_from_slice(bytes));
        while let Some(line) = self.lines.next_line() {
            let line = String::from_utf8_lossy(&line.unwrap_or_default()).into_owned();
            let Some((id, command)) = parse_command(&line, &self.node_name) else { continue };
            match command {
                ProbeCommand::Heartbeat => self.dies_at = Instant::now() + self.dead_man,
                ProbeCommand::Interval(time) => self.interval = time.as_secs_f64(),
                ProbeCommand::Focus(time) => self.focus = time.map(|time| self.focus_of(time)),
                ProbeCommand::Full => self.is_full_due = true,
                ProbeCommand::Request(request) => {
                    let t = self.node.now();
                    let answer = self.machine.answer(t, id, request);
                    if let ProcessRequest::Signal(
                        key,
                        Signal::Kill | Signal::Terminate | Signal::Interrupt,
                    ) = request
                        && answer.result == "sent"
                    {
                        self.machine.to_mut().end_process(t, key);
                    }
                    self.answers.extend(corrupt_answers(self.node.fault, request, answer));
                }
            }
        }
        self.next = self.next.min(self.node.now() + self.tick_interval());
    }

    fn focus_of(&self, interval: Duration) -> SimFocus {
        let now = self.node.now();
        SimFocus {
            interval: interval.as_secs_f64(),
            end: now + FOCUS_TIMEOUT,
            devices_at: now,
            cost_at: now + COST_INTERVAL,
        }
    }

    /// Returns true if the devices are not due at this tick.
    fn skips_devices(&mut self, t: f64) -> bool {
        let is_full_due = self.is_full_due;
        let Some(focus) = self.focus.as_mut().filter(|_| !is_full_due) else { return false };
        let is_due = t >= focus.devices_at - 0.1 * focus.interval;
        if is_due {
            focus.devices_at = t + FOCUSED_DEVICES;
        }
        !is_due
    }

    /// Returns what the probe costs, if it is due.
    fn cost(&mut self, t: f64) -> Option<Cost> {
        let focus = self.focus.as_mut().filter(|focus| t >= focus.cost_at)?;
        focus.cost_at = t + COST_INTERVAL;
        // What the probe in Python was measured to use with eight devices.
        let cpu = 2.3 + 0.3 * self.node.rng.branch(3).noise(t, 4.0);
        Some(Cost { cpu, seconds: COST_INTERVAL })
    }

    /// Schedules the next tick: the second one early, to have rates, then on the node's own grid.
    fn schedule_next(&mut self) {
        let (now, interval) = (self.node.now(), self.tick_interval());
        if self.number == 1 {
            self.next = self.began + interval.min(0.3);
            return;
        }
        let phase = self.node.rng.branch(2).unit() * interval;
        self.next = (((now - phase) / interval).floor() + 1.0) * interval + phase;
        if self.next - now < 0.3 * interval {
            self.next += interval;
        }
    }

    /// Handles a tick; `Some` if the session ends.
    async fn tick(&mut self) -> Option<ProbeExit> {
        let t = self.node.now();
        self.focus = self.focus.filter(|focus| t < focus.end);
        let age = t - self.began;
        let reached = |after: Duration| age >= after.as_secs_f64();
        let mut sampled_at = t;
        match self.node.fault {
            Some(InjectedFault::DropSession { after }) if reached(after) => {
                return Some(ProbeExit::Disconnected);
            }
            Some(InjectedFault::Reboot { after })
                if (self.began..=t).contains(&after.as_secs_f64()) =>
            {
                return Some(ProbeExit::Disconnected);
            }
            Some(InjectedFault::Stall { after, lasting }) => {
                let (sending, period) = (after.as_secs_f64(), (after + lasting).as_secs_f64());
                if age.rem_euclid(period) >= sending {
                    return None;
                }
            }
            Some(InjectedFault::Lag { after, by }) if reached(after) => {
                sampled_at = t - by.as_secs_f64();
                if !reached(after + by) {
                    return None;
                }
            }
            _ => {}
        }
        self.send_hello(t).await;
        let is_stuck = self.report_stuck(t).await;
        self.send_events(t);
        self.send_sample(t, sampled_at, is_stuck).await
    }

    /// Sends a hello if there was none or the interval has changed.
    async fn send_hello(&mut self, t: f64) {
        let interval = self.tick_interval();
        if self.announced == Some(interval) {
            return;
        }
        self.announced = Some(interval);
        let mut hello = self.machine.hello(t, interval);
        if self.focus.is_some() {
            hello.intervals.insert(self.machine.backend_kind(), interval.max(FOCUSED_DEVICES));
        }
        match self.node.fault {
            Some(InjectedFault::WrongVersion) => hello.v = 2,
            Some(InjectedFault::NoPython) => {
                "sh".clone_into(&mut hello.probe);
                "dash".clone_into(&mut hello.version);
                hello
                    .commands
                    .retain(|verb| !["environ", "tree", "detail"].contains(&verb.as_str()));
            }
            _ => {}
        }
        drop(self.output.send(encode(&Body::Hello(hello)).into()).await);
    }

    /// Returns true if the driver hangs, and reports it after [`STUCK_AFTER`].
    async fn report_stuck(&mut self, t: f64) -> bool {
        let Some(InjectedFault::StuckBackend { after }) = self.node.fault else { return false };
        let lasting = t - self.began - after.as_secs_f64();
        if lasting >= STUCK_AFTER && t - self.stuck_reported_at >= STUCK_REPEAT {
            self.stuck_reported_at = t;
            let error = self.machine.stuck_error(t, lasting);
            drop(self.output.send(encode(&Body::Error(error)).into()).await);
        }
        lasting >= 0.0
    }

    /// Sends the events of the devices; drops them if the client does not read.
    fn send_events(&mut self, t: f64) {
        for event in self.machine.events(self.events_at, t) {
            drop(self.output.try_send(encode(&Body::Event(event)).into()));
        }
        self.events_at = t;
    }

    async fn send_sample(&mut self, t: f64, sampled_at: f64, is_stuck: bool) -> Option<ProbeExit> {
        self.number += 1;
        if t >= self.full_at {
            self.is_full_due = true;
            self.full_at += FULL_INTERVAL;
        }
        let driver = if is_stuck {
            DriverState::Hangs
        } else if self.skips_devices(t) {
            DriverState::Waits
        } else if t >= self.uses_at {
            DriverState::DevicesAndUses
        } else {
            DriverState::Devices
        };
        let request = SampleRequest {
            number: self.number,
            since: self.since,
            uses_since: self.uses_since,
            full: self.is_full_due,
            slow: t >= self.slow_at,
            driver,
        };
        let cost = self.cost(t);
        let sample = Sample { cost, ..self.machine.sample(sampled_at, request) };
        let frame = encode(&Body::Sample(sample));
        let sent = if self.node.fault == Some(InjectedFault::SlowFrames) {
            self.send_slowly(&frame).await
        } else {
            // Never waits: if the client does not read, the sample is dropped, which its number shows.
            self.output.try_send(corrupt_frame(self.node.fault, self.number, frame).into())
        };
        match sent {
            Ok(()) => {
                self.is_full_due = false;
                if request.slow || request.full {
                    self.slow_at = t + SLOW_INTERVAL - 0.05;
                }
                if !matches!(driver, DriverState::Hangs | DriverState::Waits) {
                    self.since = sampled_at;
                    if request.full || request.driver == DriverState::DevicesAndUses {
                        self.uses_since = sampled_at;
                        self.uses_at = t + USES_INTERVAL - 0.05;
                    }
                }
                None
            }
            Err(TrySendError::Full(_)) => None,
            Err(TrySendError::Closed(_)) => Some(ProbeExit::Exited(0)),
        }
    }

    async fn send_slowly(&self, frame: &[u8]) -> Result<(), TrySendError<Bytes>> {
        for chunk in frame.chunks(frame.len().div_ceil(20).max(1)) {
            let chunk = Bytes::copy_from_slice(chunk);
            self.output.send(chunk).await.map_err(|unsent| TrySendError::Closed(unsent.0))?;
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    async fn send_bye(&self) -> ProbeExit {
        let at = self.machine.clock(self.node.now());
        let bye = Body::Bye(Bye { at, why: "stdin closed".to_owned() });
        drop(self.output.send(encode(&bye).into()).await);
        ProbeExit::Exited(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{FrameReader, Received};

    const NONCE: &str = "0123456789abcdef";

    struct TestClient {
        frames: mpsc::Receiver<Bytes>,
        input: Option<mpsc::Sender<Bytes>>,
        reader: FrameReader,
        began: Instant,
    }

    fn start_probe(node: &ProbedNode) -> TestClient {
        let (input, receiver) = mpsc::channel(8);
        let (output, frames) = mpsc::channel(4);
        let source = "import os\ngpu01 1.0 30 0 -\n";
        let line = format!("sh -c 'x {} {NONCE}'", "import os\n".len());
        let began = Instant::now();
        input.try_send(Bytes::from_static(source.as_bytes())).unwrap();
        let node = node.clone();
        tokio::spawn(async move { node.run_command(&line, receiver, output).await });
        TestClient { frames, input: Some(input), reader: FrameReader::default(), began }
    }

    fn node_with(fault: Option<InjectedFault>) -> ProbedNode {
        let spec = FleetSpec::busy(1, 2, 2, 3);
        let machine = Machine::new(&spec, 0, &NodeName::new("gpu01").unwrap());
        ProbedNode { machine, fault, began: Instant::now(), rng: Rng::new(1) }
    }

    impl TestClient {
        async fn next(&mut self) -> Option<Body> {
            loop {
                match self.reader.next_frame() {
                    Some(Received::Frame(frame)) => return Some(frame.body),
                    Some(Received::Malformed(malformed)) => panic!("{malformed}"),
                    None => self.reader.push(self.frames.recv().await?),
                }
            }
        }

        fn send_command(&self, rest: &str) {
            let line = format!("{{\"id\":1,\"node\":\"gpu01\",\"verb\":{rest}}}\n");
            self.input.as_ref().unwrap().try_send(line.into()).unwrap();
        }

        /// Returns the frames received within this time, each with its second.
        async fn frames_until(&mut self, seconds: f64) -> Vec<(f64, Body)> {
            let mut received = Vec::new();
            let end = self.began + Duration::from_secs_f64(seconds);
            while let Ok(Some(body)) = tokio::time::timeout_at(end, self.next()).await {
                received.push((self.began.elapsed().as_secs_f64(), body));
            }
            received
        }
    }

    fn samples(frames: &[(f64, Body)]) -> Vec<(f64, &Sample)> {
        frames
            .iter()
            .filter_map(
                |(at, body)| {
                    if let Body::Sample(sample) = body { Some((*at, sample)) } else { None }
                },
            )
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_sample_is_sent_at_once_the_second_soon_and_the_rest_on_a_grid() {
        let mut probe = start_probe(&node_with(None));
        let frames = probe.frames_until(12.0).await;
        assert!(matches!(frames[0].1, Body::Hello(_)));
        let samples = samples(&frames);
        let times: Vec<f64> = samples.iter().map(|(at, _)| *at).collect();
        assert!(times[0] < 0.01 && (times[1] - 0.3).abs() < 0.01, "{times:?}");
        assert!(times.windows(2).skip(2).all(|two| (two[1] - two[0] - 1.0).abs() < 0.01));
        assert!(samples.iter().zip(1..).all(|((_, sample), n)| sample.n == n));
        let full: Vec<u64> = samples.iter().filter(|(_, s)| s.full).map(|(_, s)| s.n).collect();
        assert_eq!(full, [1]);
        assert_eq!(samples.iter().filter(|(_, sample)| sample.host_slow.is_some()).count(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_probe_exits_without_heartbeats() {
        let mut probe = start_probe(&node_with(None));
        let last = probe.frames_until(60.0).await.last().unwrap().0;
        assert!((28.0..30.01).contains(&last), "{last}");
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_keep_the_probe_alive_and_each_minute_has_a_full_sample() {
        let mut probe = start_probe(&node_with(None));
        let mut full = 0;
        for beat in 1..=24 {
            probe.send_command("\"heartbeat\"");
            let frames = probe.frames_until(f64::from(beat) * 10.0).await;
            full += samples(&frames).iter().filter(|(_, sample)| sample.full).count();
        }
        assert!((4..=5).contains(&full), "{full}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_probe_follows_commands_and_announces_its_interval() {
        let mut probe = start_probe(&node_with(None));
        probe.frames_until(3.0).await;
        probe.send_command("\"focus\",\"seconds\":0.25");
        let frames = probe.frames_until(5.0).await;
        let is_focused =
            |body: &Body| matches!(body, Body::Hello(hello) if hello.intervals["host"] < 0.3);
        assert!(frames.iter().any(|(_, body)| is_focused(body)));
        assert!((7..=9).contains(&samples(&frames).len()));
        probe.send_command("\"focus\",\"seconds\":0");
        probe.send_command("\"interval\",\"seconds\":2.0");
        probe.send_command("\"full\"");
        let frames = probe.frames_until(11.0).await;
        assert!((3..=4).contains(&samples(&frames).len()));
        assert!(samples(&frames)[0].1.full);
        // A command for another node is ignored.
        let input = probe.input.as_ref().unwrap();
        input.try_send("{\"id\":1,\"node\":\"gpu02\",\"verb\":\"full\"}\n".into()).unwrap();
        let frames = probe.frames_until(16.0).await;
        assert!(samples(&frames).iter().all(|(_, sample)| !sample.full));
    }

    #[tokio::test(start_paused = true)]
    async fn the_probe_sends_bye_when_its_input_closes() {
        let mut probe = start_probe(&node_with(None));
        probe.frames_until(2.0).await;
        probe.input = None;
        let frames = probe.frames_until(3.0).await;
        assert!(matches!(&frames.last().unwrap().1, Body::Bye(bye) if bye.why == "stdin closed"));
        assert_eq!(probe.next().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn samples_that_are_not_read_are_dropped_and_counted() {
        let mut probe = start_probe(&node_with(None));
        probe.frames_until(2.0).await;
        sleep(Duration::from_secs(10)).await;
        let frames = probe.frames_until(15.0).await;
        let numbers: Vec<u64> = samples(&frames).iter().map(|(_, sample)| sample.n).collect();
        assert!(numbers.windows(2).any(|two| two[1] - two[0] >= 5), "{numbers:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stuck_driver_is_reported_while_host_metrics_continue() {
        let fault = InjectedFault::StuckBackend { after: Duration::from_secs(5) };
        let mut probe = start_probe(&node_with(Some(fault)));
        let frames = probe.frames_until(15.0).await;
        let errors: Vec<f64> = frames
            .iter()
            .filter(|(_, body)| matches!(body, Body::Error(error) if error.code == "stuck"))
            .map(|(at, _)| *at)
            .collect();
        assert!((8.0..9.1).contains(&errors[0]) && errors.len() >= 3, "{errors:?}");
        for (at, sample) in samples(&frames) {
            assert_eq!(sample.backends.is_empty(), at > 5.0);
            assert!(sample.host.is_some());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalling_probe_resumes() {
        let (after, lasting) = (Duration::from_secs(4), Duration::from_secs(6));
        let mut probe = start_probe(&node_with(Some(InjectedFault::Stall { after, lasting })));
        let frames = probe.frames_until(16.0).await;
        assert!(frames.iter().all(|(at, _)| at % 10.0 < 4.01));
        assert!(frames.iter().any(|(at, _)| *at > 10.0));
    }

    #[tokio::test(start_paused = true)]
    async fn late_samples_have_their_true_age() {
        let (after, by) = (Duration::from_secs(3), Duration::from_secs(4));
        let node = node_with(Some(InjectedFault::Lag { after, by }));
        let mut probe = start_probe(&node);
        for (at, sample) in samples(&probe.frames_until(15.0).await) {
            let age = node.machine.clock(at) - sample.at;
            assert!((age - if at < 3.0 { 0.0 } else { 4.0 }).abs() < 0.01, "{at}: {age}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rebooted_node_has_another_boot_id_and_a_small_uptime() {
        let node = node_with(Some(InjectedFault::Reboot { after: Duration::from_secs(5) }));
        let mut before = start_probe(&node);
        let frames = before.frames_until(60.0).await;
        assert!(frames.last().unwrap().0 < 6.0);
        let Body::Hello(first) = &frames[0].1 else { panic!() };
        let Some(Body::Hello(second)) = start_probe(&node).next().await else { panic!() };
        assert_ne!(first.boot, second.boot);
        assert!(first.at > 86_400.0 && second.at < 120.0);
    }
}

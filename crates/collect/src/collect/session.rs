//! One session: sends the probe, reads its frames, sends heartbeats and commands.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use crate::collect::fault::{close_fault, exit_fault, from_transport};
use crate::collect::handshake::{Handshake, LoaderError, ProbeStart};
use crate::collect::login_shell::{OnSlowShell, ShellDelay, ShellLimits};
use crate::collect::park::NoDelayGuard;
use crate::collect::requests::{MAX_OPEN_REQUESTS, PendingRequest, RequestQueue};
use crate::collect::{Collector, CollectorConfig, FOCUS_INTERVAL};
use crate::probe::{self, ProbeCommand};
use crate::transport::{self, Channel, Target, Transport};
use crate::wire::{
    self, Body, Delivery, DeliverySink, Frame, FrameReader, MalformedFrame, RawUpdate, Received,
    body,
};
use gtop_local::process::Output;
use gtop_local::text::sanitize;
use gtop_local::time::Clock;
use gtop_model::{
    Fault, FaultKind, Focus, Link, NodeName, Privilege, ProcessRequest, RequestError, SessionUpdate,
};

/// A probe that is silent for this long, and for five intervals, is given up.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// During this time a new session's output is processed without delay: its first samples are all new.
const WARM_UP: Duration = Duration::from_secs(5);
/// This many malformed frames in a row end the session.
const MAX_MALFORMED_FRAMES: u32 = 20;

/// A session whose probe has sent its hello.
pub(super) struct ProbeSession {
    node: NodeName,
    channel: Channel,
    reader: FrameReader,
    /// The first frame, until it is delivered: it keeps all the bytes it came with.
    hello: Option<Box<Frame>>,
    /// The configuration as last sent to the probe.
    interval: Duration,
    focus: Option<Focus>,
    refresh: Option<u64>,
    /// The id of the last command.
    commands_sent: u64,
    /// Counts ticks; there are two per heartbeat.
    heartbeat_ticks: u8,
    /// Number of the next sample.
    expected_sample: Option<u64>,
    /// Malformed frames in a row.
    malformed_frames: u32,
    /// The probe may already be running, with another interval, and may have sent its static values before.
    joins_running_probe: bool,
    /// Requests without response, by command id.
    pending: BTreeMap<u64, PendingRequest>,
    /// Prevents parks until the warm-up ends.
    warm_up: Option<(NoDelayGuard, Instant)>,
}

/// Why no session was opened.
pub(super) struct OpenError {
    pub(super) fault: Fault,
    /// Why the login shell did not start the loader in time.
    pub(super) delay: Option<ShellDelay>,
    /// The login shell that is still starting.
    pub(super) shell: Option<Box<Handshake>>,
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> Self {
        Self { fault, delay: None, shell: None }
    }
}

impl ProbeSession {
    /// Connects to a node, starts the probe and waits for its first frame.
    ///
    /// Where sudo refuses a probe as root, one runs without it, and reports that: the node keeps its values.
    pub(super) async fn open(
        transport: &Transport,
        target: &Target,
        interval: Duration,
        limits: ShellLimits,
        on_slow: OnSlowShell<'_>,
    ) -> Result<Box<Self>, OpenError> {
        let privilege = transport.privilege(target);
        let mut start = ProbeStart { interval, privilege, sudo_refusal: None };
        let (mut handshake, interpreter) = loop {
            let handshake = Handshake::start(transport, target, start).await;
            let mut handshake = handshake.map_err(|fault| from_transport(&fault))?;
            match handshake.await_loader(limits, &mut *on_slow).await {
                Ok(interpreter) => break (handshake, interpreter),
                Err(LoaderError::SudoRefused(refusal, output)) => {
                    log::info!("{}: not root: {output}", target.name);
                    start.privilege = Privilege::Login;
                    start.sudo_refusal = Some(refusal);
                    handshake.close().await;
                }
                Err(LoaderError::Fault(fault)) => {
                    let delay = handshake.shell.delay;
                    let is_kept =
                        delay == Some(ShellDelay::Slow) && handshake.channel.has_keepalive();
                    let shell = is_kept.then(|| Box::new(handshake));
                    return Err(OpenError { fault, delay, shell });
                }
            }
        };
        let hello = handshake.start_probe(interpreter).await?;
        let Handshake { channel, reader, .. } = handshake;
        let joins_running_probe = channel.step_nonce().is_some();
        Ok(Box::new(Self {
            node: target.name.clone(),
            channel,
            reader,
            hello: Some(hello),
            interval,
            focus: None,
            refresh: None,
            commands_sent: 0,
            heartbeat_ticks: 0,
            expected_sample: None,
            malformed_frames: 0,
            joins_running_probe,
            pending: BTreeMap::new(),
            warm_up: None,
        }))
    }

    /// Runs the session until a fault ends it, or gtop stops.
    pub(super) async fn run(
        mut self: Box<Self>,
        collector: &mut Collector,
        sink: &mut DeliverySink,
    ) -> Result<(), Fault> {
        let Collector { config, clock, queue, no_delay, .. } = collector;
        self.warm_up = Some((no_delay.hold_until_reply(), Instant::now() + WARM_UP));
        let hello = self.hello.take();
        if let Some(frame) = &hello {
            self.on_hello(queue, frame);
        }
        let via = SessionUpdate::Reached(self.channel.via());
        let interval = SessionUpdate::Interval(self.interval);
        let updates = [via, SessionUpdate::Link(Link::Up), interval].map(RawUpdate::Session);
        for raw in updates.into_iter().chain(hello.map(RawUpdate::Frame)) {
            sink(Delivery { at: clock.now(), raw });
        }
        let end = self.event_loop(config, clock, queue, sink).await;
        queue.set_commands(&self.node, None);
        for pending in std::mem::take(&mut self.pending).into_values() {
            pending.respond(Err(RequestError::SessionLost));
        }
        // The end of its input ends a probe at once. The future of the shutdown is large.
        Box::pin(self.channel.shutdown()).await;
        end
    }

    async fn event_loop(
        &mut self,
        config: &mut watch::Receiver<CollectorConfig>,
        clock: &Clock,
        queue: &RequestQueue,
        sink: &mut DeliverySink,
    ) -> Result<(), Fault> {
        if self.joins_running_probe {
            self.send_command(ProbeCommand::Interval(self.interval)).await;
            self.send_command(ProbeCommand::Focus(None)).await;
            self.send_command(ProbeCommand::Full).await;
        }
        let queued = queue.open(&self.node);
        let mut heartbeat = heartbeat_timer();
        let mut last_frame_at = Instant::now();
        config.mark_changed();
        // The first sample may have come together with the hello.
        self.deliver_frames(clock, queue, sink).await?;
        loop {
            self.warm_up.take_if(|(_, until)| *until < Instant::now());
            let silence = SILENCE_TIMEOUT.max(self.interval * 5);
            tokio::select! {
                output = self.channel.next() => {
                    let Some(bytes) = self.check_output(output)? else { continue };
                    self.reader.push(bytes);
                    if self.deliver_frames(clock, queue, sink).await? {
                        last_frame_at = Instant::now();
                    }
                }
                _ = heartbeat.tick() => self.on_heartbeat_tick().await,
                () = queued.notified() => self.send_requests(queue.take_waiting(&self.node)).await,
                changed = config.changed() => {
                    let new = config.borrow_and_update().clone();
                    if changed.is_err() || new.ends_session() {
                        return Ok(());
                    }
                    if new.interval != self.interval {
                        let raw = SessionUpdate::Interval(new.interval).into();
                        sink(Delivery { at: clock.now(), raw });
                    }
                    self.apply_config(&new).await;
                }
                () = sleep_until(last_frame_at + silence) => {
                    let detail = format!("nothing for {} s", silence.as_secs());
                    return Err(Fault::new(FaultKind::Silent, detail));
                }
            }
        }
    }

    /// Delivers the frames that have arrived whole; returns true if there was one.
    async fn deliver_frames(
        &mut self,
        clock: &Clock,
        queue: &RequestQueue,
        sink: &mut DeliverySink,
    ) -> Result<bool, Fault> {
        let mut has_frame = false;
        while let Some(received) = self.reader.next_frame() {
            let Some(frame) = self.on_received(received).await? else { continue };
            has_frame = true;
            self.on_hello(queue, &frame);
            sink(Delivery { at: clock.now(), raw: RawUpdate::Frame(frame) });
        }
        Ok(has_frame)
    }

    /// Returns the bytes of frames in a channel's output, or the fault that ended it.
    fn check_output(
        &self,
        output: Result<Output, Option<transport::Fault>>,
    ) -> Result<Option<Vec<u8>>, Fault> {
        match output.map_err(close_fault)? {
            Output::Stdout(bytes) => Ok(Some(bytes)),
            Output::Stderr(bytes) => {
                log::debug!("{}: {}", self.node, sanitize(&String::from_utf8_lossy(&bytes), 200));
                Ok(None)
            }
            Output::Exit(exit) => Err(exit_fault(&exit)),
        }
    }

    /// Checks sequence numbers, and requests a complete sample when one is missing.
    async fn on_received(&mut self, received: Received) -> Result<Option<Box<Frame>>, Fault> {
        let frame = match received {
            Received::Frame(frame) => frame,
            Received::Malformed(MalformedFrame::Version(version)) => {
                let detail = MalformedFrame::Version(version).to_string();
                return Err(Fault::new(FaultKind::BadReply, detail));
            }
            Received::Malformed(malformed) => {
                log::warn!("{}: {malformed}", self.node);
                self.malformed_frames += 1;
                if self.malformed_frames >= MAX_MALFORMED_FRAMES {
                    return Err(Fault::new(FaultKind::BadReply, malformed.to_string()));
                }
                self.send_command(ProbeCommand::Full).await;
                return Ok(None);
            }
        };
        self.malformed_frames = 0;
        if let Body::Answer(answer) = &frame.body {
            // A response goes only to the caller of the request.
            self.on_response(answer);
            return Ok(None);
        }
        if let Body::Sample(sample) = &frame.body {
            let is_gap = self.expected_sample.is_some_and(|expected| expected != sample.n);
            self.expected_sample = sample.n.checked_add(1);
            if is_gap && !sample.full {
                log::debug!("{}: samples were dropped before {}", self.node, sample.n);
                self.send_command(ProbeCommand::Full).await;
            }
        }
        Ok(Some(frame))
    }

    /// Sends the probe the commands for what has changed in the configuration.
    async fn apply_config(&mut self, config: &CollectorConfig) {
        if config.interval != self.interval {
            self.interval = config.interval;
            self.send_command(ProbeCommand::Interval(config.interval)).await;
        }
        let focus = config.focus.as_ref().filter(|focus| focus.node == self.node);
        if focus != self.focus.as_ref() {
            self.focus = focus.cloned();
            let interval = self.focus.as_ref().map(|_| FOCUS_INTERVAL);
            self.send_command(ProbeCommand::Focus(interval)).await;
        }
        // The first sample of a session is always complete.
        if self.refresh.replace(config.refresh).is_some_and(|before| before != config.refresh) {
            self.send_command(ProbeCommand::Full).await;
        }
    }

    /// Records the commands that the probe supports.
    fn on_hello(&self, queue: &RequestQueue, frame: &Frame) {
        if let Body::Hello(hello) = &frame.body {
            let mut commands = ProcessRequest::COMMANDS.to_vec();
            commands.retain(|command| hello.commands.iter().any(|known| known == command));
            queue.set_commands(&self.node, Some(commands));
        }
    }

    /// Sends requests to the probe.
    async fn send_requests(&mut self, requests: Vec<PendingRequest>) {
        self.pending.retain(|_, pending| !pending.is_cancelled());
        for pending in requests {
            if pending.is_cancelled() {
                continue;
            }
            if self.pending.len() >= MAX_OPEN_REQUESTS {
                pending.respond(Err(RequestError::QueueFull));
                continue;
            }
            self.send_command(ProbeCommand::Request(pending.request)).await;
            self.pending.insert(self.commands_sent, pending);
        }
    }

    /// Passes a response to its caller; one without a pending request is dropped.
    fn on_response(&mut self, answer: &body::Answer) {
        let Some(pending) = self.pending.remove(&answer.id) else {
            log::debug!("{}: a response to no pending request, id {}", self.node, answer.id);
            return;
        };
        let response = wire::decode_response(pending.request, answer);
        pending.respond(response);
    }

    async fn send_command(&mut self, command: ProbeCommand) {
        let line = self.encode_command(&command);
        self.send_line(&line).await;
    }

    fn encode_command(&mut self, command: &ProbeCommand) -> String {
        self.commands_sent += 1;
        probe::encode(self.commands_sent, self.node.as_str(), command)
    }

    async fn send_line(&mut self, line: &str) {
        if let Err(fault) = self.channel.send(line.as_bytes()).await {
            // The session then ends by silence or by a close.
            log::debug!("{}: not sent: {fault}: {}", self.node, line.trim_end());
        }
    }

    /// Queues a heartbeat at every second tick, to be sent together with the next incoming data; if none arrives until
    /// the next tick, the heartbeat is sent then.
    async fn on_heartbeat_tick(&mut self) {
        if let Some(unsent) = self.channel.take_queued_line() {
            return self.send_line(&unsent).await;
        }
        self.heartbeat_ticks = self.heartbeat_ticks.wrapping_add(1);
        if self.heartbeat_ticks.is_multiple_of(2) {
            let line = self.encode_command(&ProbeCommand::Heartbeat);
            if let Some(line) = self.channel.queue_line(line) {
                self.send_line(&line).await;
            }
        }
    }
}

fn heartbeat_timer() -> Interval {
    let half = probe::HEARTBEAT_INTERVAL / 2;
    let mut heartbeat = interval_at(Instant::now() + half, half);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat
}

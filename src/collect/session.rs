//! One session: the probe is sent, talks, is kept alive and told what is wanted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use crate::collect::complaint::Complaint;
use crate::collect::desk::{Desk, Inquiry, MOST_OPEN};
use crate::collect::fault::of_transport;
use crate::collect::rest::Hurry;
use crate::collect::visit::{self, Visit};
use crate::collect::{Collector, Orders};
use crate::model::{Fault, FaultKind, Link, NodeName, ProcessRequest, RequestError, clean};
use crate::probe::{self, Command, Greeting, Interpreter, Progress};
use crate::time::Clock;
use crate::transport::{self, Channel, Exit, Output, Target, Transport};
use crate::wire::{
    self, Body, Delivery, Frame, FrameReader, Intake, MalformedFrame, News, Received, body,
};

/// A probe that says nothing for so long, and for five intervals, is given up.
const SILENCE: Duration = Duration::from_secs(30);
/// How often a node in focus is sampled.
pub(super) const FOCUS_INTERVAL: Duration = Duration::from_millis(250);
/// For how long all that a new session says is looked at as it comes: it tells what nobody knows yet.
const YOUTH: Duration = Duration::from_secs(5);
/// So many frames in a row that cannot be read end the session.
const MALFORMED_LIMIT: u32 = 20;

/// A node whose probe has presented itself.
pub(super) struct Session {
    node: NodeName,
    channel: Channel,
    reader: FrameReader,
    /// The first frame, until it is delivered: it keeps all the bytes it came with.
    hello: Option<Box<Frame>>,
    /// The orders as the probe knows them.
    interval: Duration,
    in_focus: bool,
    refresh: Option<u64>,
    commands: u64,
    /// Halves of the time between two heartbeats.
    beats: u8,
    expected: Option<u64>,
    malformed: u32,
    /// The probe may have been there before, and has other orders, and told much already.
    joins: bool,
    /// What was asked and not answered yet, by the command's id.
    open: BTreeMap<u64, Inquiry>,
    /// While and until when the session is young.
    youth: Option<(Hurry, Instant)>,
}

/// Why there is no session.
pub(super) struct Missed {
    pub(super) fault: Fault,
    /// The login shell that was too slow, and still is.
    pub(super) shell: Option<Box<Visit>>,
}

impl From<Fault> for Missed {
    fn from(fault: Fault) -> Self {
        Self { fault, shell: None }
    }
}

/// How a session ended.
pub(super) enum Ended {
    /// It was to end.
    AsOrdered,
    /// Something went wrong.
    Fault(Fault),
}

impl Session {
    /// Reaches a node, starts the probe and waits for its first frame.
    pub(super) async fn open(
        transport: &Transport,
        target: &Target,
        interval: Duration,
        too_slow: u32,
    ) -> Result<Box<Self>, Missed> {
        let visit = Visit::begin(transport, target, interval).await;
        let mut visit = visit.map_err(|fault| of_transport(&fault))?;
        let interpreter = match visit.wake(visit::patience(transport, too_slow)).await {
            Ok(interpreter) => interpreter,
            Err(fault) => {
                let shell = visit.is_shell_slow().then(|| Box::new(visit));
                return Err(Missed { fault, shell });
            }
        };
        let hello = visit.hello(interpreter).await?;
        let Visit { channel, reader, .. } = visit;
        let joins = channel.step_nonce().is_some();
        Ok(Box::new(Self {
            node: target.name.clone(),
            channel,
            reader,
            hello: Some(hello),
            interval,
            in_focus: false,
            refresh: None,
            commands: 0,
            beats: 0,
            expected: None,
            malformed: 0,
            joins,
            open: BTreeMap::new(),
            youth: None,
        }))
    }

    /// Stays with the node until the session ends.
    pub(super) async fn run(
        mut self: Box<Self>,
        collector: &mut Collector,
        intake: &mut Intake,
    ) -> Ended {
        let Collector { orders, clock, desk, haste, .. } = collector;
        self.youth = Some((haste.wait(), Instant::now() + YOUTH));
        let hello = self.hello.take().map(News::Frame);
        // What a probe can answer is noted where its node is known.
        desk.open(&self.node);
        if let Some(News::Frame(frame)) = &hello {
            self.present(desk, frame);
        }
        let via = News::Transport(self.channel.via());
        let ordered = News::Ordered(self.interval);
        let first = [Some(via), Some(News::Link(Link::Up)), Some(ordered), hello];
        for news in first.into_iter().flatten() {
            intake(self.delivery(news, clock));
        }
        let ended = self.stay(orders, clock, desk, intake).await;
        desk.set_verbs(&self.node, None);
        for inquiry in std::mem::take(&mut self.open).into_values() {
            inquiry.answer(Err(RequestError::SessionLost));
        }
        // The end of its input is what ends a probe at once. Taking leave needs a large future.
        Box::pin(self.channel.shutdown()).await;
        ended
    }

    async fn stay(
        &mut self,
        orders: &mut watch::Receiver<Orders>,
        clock: &Clock,
        desk: &Desk,
        intake: &mut Intake,
    ) -> Ended {
        if self.joins {
            self.command(Command::Interval(self.interval)).await;
            self.command(Command::Focus(None)).await;
            self.command(Command::Full).await;
        }
        let bell = desk.open(&self.node);
        let mut heartbeat = heartbeat();
        let mut heard = Instant::now();
        orders.mark_changed();
        loop {
            self.youth.take_if(|(_, until)| *until < Instant::now());
            let silence = SILENCE.max(self.interval * 5);
            tokio::select! {
                output = self.channel.next() => {
                    let Some(bytes) = (match self.judge(output) {
                        Ok(bytes) => bytes,
                        Err(fault) => return Ended::Fault(fault),
                    }) else { continue };
                    self.reader.push(&bytes);
                    while let Some(received) = self.reader.next_frame() {
                        let frame = match self.receive(received).await {
                            Ok(Some(frame)) => frame,
                            Ok(None) => continue,
                            Err(fault) => return Ended::Fault(fault),
                        };
                        heard = Instant::now();
                        self.present(desk, &frame);
                        intake(self.delivery(News::Frame(frame), clock));
                    }
                }
                _ = heartbeat.tick() => self.beat().await,
                () = bell.notified() => self.ask(desk.take(&self.node)).await,
                changed = orders.changed() => {
                    let now = orders.borrow_and_update().clone();
                    if changed.is_err() || now.is_ending {
                        return Ended::AsOrdered;
                    }
                    if now.interval != self.interval {
                        intake(self.delivery(News::Ordered(now.interval), clock));
                    }
                    self.follow(&now).await;
                }
                () = sleep_until(heard + silence) => {
                    return Ended::Fault(Fault::new(FaultKind::Silent, format!("nothing for {} s", silence.as_secs())));
                }
            }
        }
    }

    fn delivery(&self, what: News, clock: &Clock) -> Delivery {
        Delivery { node: self.node.clone(), at: clock.now(), what }
    }

    /// Takes what the channel yields: bytes of frames, or the end.
    fn judge(&self, output: Output) -> Result<Option<Vec<u8>>, Fault> {
        match output {
            Output::Stdout(bytes) => Ok(Some(bytes)),
            Output::Stderr(bytes) => {
                log::debug!("{}: {}", self.node, clean(&String::from_utf8_lossy(&bytes), 200));
                Ok(None)
            }
            Output::Exit(exit) => Err(ended(&exit)),
            Output::Closed(fault) => Err(closed(fault)),
        }
    }

    /// Counts frames, and asks for a complete sample when one is missing.
    async fn receive(&mut self, received: Received) -> Result<Option<Box<Frame>>, Fault> {
        let frame = match received {
            Received::Frame(frame) => frame,
            Received::Malformed(MalformedFrame::Version(version)) => {
                let detail = MalformedFrame::Version(version).to_string();
                return Err(Fault::new(FaultKind::BadReply, detail));
            }
            Received::Malformed(malformed) => {
                log::warn!("{}: {malformed}", self.node);
                self.malformed += 1;
                if self.malformed >= MALFORMED_LIMIT {
                    return Err(Fault::new(FaultKind::BadReply, malformed.to_string()));
                }
                self.command(Command::Full).await;
                return Ok(None);
            }
        };
        self.malformed = 0;
        if let Body::Answer(answer) = &frame.body {
            // Not news of the node: it goes to who asked, and nowhere else.
            self.answered(answer);
            return Ok(None);
        }
        if let Body::Sample(sample) = &frame.body {
            let is_gap = self.expected.is_some_and(|expected| expected != sample.n);
            self.expected = sample.n.checked_add(1);
            if is_gap && !sample.full {
                log::debug!("{}: samples were dropped before {}", self.node, sample.n);
                self.command(Command::Full).await;
            }
        }
        Ok(Some(frame))
    }

    /// Tells the probe what has changed in the orders.
    async fn follow(&mut self, orders: &Orders) {
        if orders.interval != self.interval {
            self.interval = orders.interval;
            self.command(Command::Interval(orders.interval)).await;
        }
        let in_focus = orders.focus.as_ref() == Some(&self.node);
        if in_focus != self.in_focus {
            self.in_focus = in_focus;
            self.command(Command::Focus(in_focus.then_some(FOCUS_INTERVAL))).await;
        }
        // The first sample of a session is complete anyhow.
        if self.refresh.replace(orders.refresh).is_some_and(|before| before != orders.refresh) {
            self.command(Command::Full).await;
        }
    }

    /// Takes note of what the probe says it can answer.
    fn present(&self, desk: &Desk, frame: &Frame) {
        if let Body::Hello(hello) = &frame.body {
            let is_known = |verb: &&str| hello.commands.iter().any(|known| known == verb);
            let verbs = ProcessRequest::COMMANDS.into_iter().filter(is_known).collect();
            desk.set_verbs(&self.node, Some(verbs));
        }
    }

    /// Puts questions to the probe.
    async fn ask(&mut self, inquiries: Vec<Inquiry>) {
        self.open.retain(|_, inquiry| !inquiry.is_given_up());
        for inquiry in inquiries {
            if inquiry.is_given_up() {
                continue;
            }
            if self.open.len() >= MOST_OPEN {
                inquiry.answer(Err(RequestError::QueueFull));
                continue;
            }
            self.command(Command::Ask(inquiry.question)).await;
            self.open.insert(self.commands, inquiry);
        }
    }

    /// Hands an answer to who waits for it; one that nobody waits for, or not any more, is dropped.
    fn answered(&mut self, answer: &body::Answer) {
        let Some(inquiry) = self.open.remove(&answer.id) else {
            log::debug!("{}: an answer to no open question, number {}", self.node, answer.id);
            return;
        };
        let judged = wire::answer(inquiry.question, answer);
        inquiry.answer(judged);
    }

    async fn command(&mut self, command: Command) {
        let line = self.line(&command);
        self.write(&line).await;
    }

    fn line(&mut self, command: &Command) -> String {
        self.commands += 1;
        probe::encode(self.commands, self.node.as_str(), command)
    }

    async fn write(&mut self, line: &str) {
        if let Err(fault) = self.channel.send(line.as_bytes()).await {
            // A session that cannot be written to ends by its own signs: silence or a close.
            log::debug!("{}: not sent: {fault}: {}", self.node, line.trim_end());
        }
    }

    /// Every second time a heartbeat is due: it goes as soon as the node says something. Where that is not so
    /// until the next time, it goes by itself.
    async fn beat(&mut self) {
        if let Some(late) = self.channel.take_back() {
            return self.write(&late).await;
        }
        self.beats = self.beats.wrapping_add(1);
        if self.beats.is_multiple_of(2) {
            let line = self.line(&Command::Heartbeat);
            if let Some(line) = self.channel.reply(line) {
                self.write(&line).await;
            }
        }
    }
}

fn heartbeat() -> Interval {
    let half = probe::HEARTBEAT / 2;
    let mut heartbeat = interval_at(Instant::now() + half, half);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat
}

/// What a person can do about a shell such as rbash, which starts nothing by its path.
const RESTRICTED: &str = "the login shell is a restricted one and may not run /bin/sh: ask the administrator for \
                          another (chsh -s /bin/bash), or watch this node by srun or --exec";

/// Waits until the loader announces itself, through whatever the login files print.
pub(super) async fn greet(
    channel: &mut Channel,
    greeting: &mut Greeting,
) -> Result<(Interpreter, Vec<u8>), Fault> {
    let mut complaint = Complaint::default();
    loop {
        match channel.next().await {
            Output::Stdout(bytes) => {
                if let Progress::Ready { interpreter, rest } = greeting.feed(&bytes) {
                    return Ok((interpreter, rest));
                }
            }
            Output::Stderr(bytes) => complaint.hear(&bytes),
            Output::Exit(exit) => {
                complaint.hear_out(channel).await;
                let how = format!("the login shell ended first, {}", exit_words(&exit));
                let why = complaint.explain(how, greeting.noise());
                let remedy = if why.contains("restricted") { RESTRICTED } else { "" };
                return Err(Fault::new(FaultKind::NoInterpreter, why).with_remedy(remedy));
            }
            Output::Closed(fault) => return Err(closed(fault)),
        }
    }
}

/// Returns why the probe's end is one.
pub(super) fn ended(exit: &Exit) -> Fault {
    Fault::new(FaultKind::SessionLost, format!("the probe ended: {}", exit_words(exit)))
}

pub(super) fn closed(fault: Option<Box<transport::Fault>>) -> Fault {
    let unsaid = || Fault::new(FaultKind::SessionLost, "the node closed it");
    fault.map_or_else(unsaid, |fault| of_transport(&fault))
}

fn exit_words(exit: &Exit) -> String {
    match exit {
        Exit::Status(status) => format!("exit status {status}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    }
}

/// Waits for the probe's hello.
pub(super) async fn first_frame(
    channel: &mut Channel,
    reader: &mut FrameReader,
) -> Result<Box<Frame>, Fault> {
    let mut complaint = Complaint::default();
    loop {
        match channel.next().await {
            Output::Stdout(bytes) => reader.push(&bytes),
            Output::Stderr(bytes) => complaint.hear(&bytes),
            Output::Exit(exit) => {
                complaint.hear_out(channel).await;
                let how = format!("the probe ended at once, {}", exit_words(&exit));
                let why = complaint.explain(how, reader.noise().as_bytes());
                return Err(Fault::new(FaultKind::BadReply, why));
            }
            Output::Closed(fault) => return Err(closed(fault)),
        }
        match reader.next_frame() {
            Some(Received::Frame(frame)) if matches!(frame.body, Body::Hello(_)) => {
                return Ok(frame);
            }
            Some(Received::Frame(frame)) => return Err(no_hello(&frame.body)),
            Some(Received::Malformed(malformed)) => {
                return Err(Fault::new(FaultKind::BadReply, malformed.to_string()));
            }
            None => {}
        }
    }
}

/// Returns why a probe that begins with something else is none.
fn no_hello(body: &Body) -> Fault {
    let Body::Error(error) = body else {
        return Fault::new(FaultKind::BadReply, "the first frame is no hello");
    };
    // It cannot work on this node, and says why.
    let why = clean(error.message.as_deref().unwrap_or(&error.call), 200);
    Fault::new(FaultKind::NoInterpreter, why.clone()).with_remedy(why)
}

/// Returns 32 hexadecimal digits nobody can have guessed.
pub(super) fn nonce() -> String {
    let mut bytes = [0_u8; 16];
    // Only noise that imitates an announcement could profit, and it cannot read ahead either.
    _ = getrandom(&mut bytes, GetRandomFlags::empty());
    let mut text = String::with_capacity(32);
    for byte in bytes {
        _ = write!(text, "{byte:02x}");
    }
    text
}

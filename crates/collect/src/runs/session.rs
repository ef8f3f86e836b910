//! One script on one host: starts it, passes on its messages and sends it commands; starts it again when it is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use crate::collect::{Backoff, ShellHistory, start_script};
use crate::probe::{self, HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT};
use crate::runs::message::{Answer, Message, MessageReader, command};
use crate::transport::{Channel, Target, Transport};
use gtop_local::process::Output;
use gtop_local::text::sanitize;
use gtop_model::Fault;

/// A script that sends nothing for this long and five intervals does not answer.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of requests without an answer.
const MAX_PENDING: usize = 64;

/// What a script is started for.
#[derive(Clone, Debug)]
pub(super) struct ScriptSpec {
    pub(super) target: Target,
    /// The folder of runs; `None` for a script that looks only at processes or logs.
    pub(super) folder: Option<String>,
    pub(super) logs: Vec<String>,
    pub(super) interval: Duration,
}

/// A command to a session.
#[derive(Debug)]
pub(super) enum SessionCommand {
    /// Look at these processes: pids, and those of which threads are listed too.
    Processes(Arc<[u32]>, Arc<[u32]>),
    /// Ask, and pass on the answer.
    Ask(&'static str, Map<String, Value>, oneshot::Sender<Answer>),
    /// Tell, without an answer.
    Tell(&'static str, Map<String, Value>),
}

/// The processes to look at: pids, and those of which threads are listed too.
type WatchedPids = (Arc<[u32]>, Arc<[u32]>);

/// An event of a session.
#[derive(Debug)]
pub(super) enum SessionEvent {
    Message(Box<Message>),
    /// It does not answer, for this reason. Its open outputs are gone.
    Fault(String),
}

/// Keeps a script running until the commands end.
pub(super) async fn supervise(
    transport: Transport,
    spec: ScriptSpec,
    mut commands: mpsc::Receiver<SessionCommand>,
    mut on_event: impl AsyncFnMut(SessionEvent),
) {
    let mut backoff = Backoff::new();
    let mut watched: Option<WatchedPids> = None;
    let mut history = ShellHistory::default();
    loop {
        let started_at = Instant::now();
        let ending =
            run(&transport, &spec, &mut history, &mut commands, &mut watched, &mut on_event);
        let Some(reason) = Box::pin(ending).await else { return };
        on_event(SessionEvent::Fault(reason)).await;
        backoff.after_session(started_at.elapsed());
        let wait = sleep(backoff.next_wait(0));
        tokio::pin!(wait);
        loop {
            tokio::select! {
                () = &mut wait => break,
                // A request is refused by dropping its sender.
                command = commands.recv() => match command {
                    None => return,
                    Some(SessionCommand::Processes(pids, expanded)) => {
                        watched = Some((pids, expanded));
                    }
                    Some(SessionCommand::Ask(..) | SessionCommand::Tell(..)) => {}
                },
            }
        }
    }
}

/// Runs one session; returns why it ended, `None` if the commands have ended.
async fn run(
    transport: &Transport,
    spec: &ScriptSpec,
    history: &mut ShellHistory,
    commands: &mut mpsc::Receiver<SessionCommand>,
    watched: &mut Option<WatchedPids>,
    on_event: &mut impl AsyncFnMut(SessionEvent),
) -> Option<String> {
    let source =
        probe::runs_source(spec.folder.as_deref(), &spec.logs, spec.interval, HEARTBEAT_TIMEOUT);
    let (slow_shell, mut slow_shells) = watch::channel(None);
    let mut on_slow = |fault: Fault, _remaining| {
        slow_shell.send_replace(Some(fault.what().into_owned()));
    };
    let starting = start_script(transport, &spec.target, &source, history, &mut on_slow);
    tokio::pin!(starting);
    // Requests wait for the script; those that are no longer waited for are dropped.
    let mut waiting = Vec::new();
    let started = loop {
        tokio::select! {
            started = &mut starting => break started,
            Ok(()) = slow_shells.changed() => {
                let reason = slow_shells.borrow_and_update().clone();
                on_event(SessionEvent::Fault(reason.unwrap_or_default())).await;
            }
            command = commands.recv() => match command {
                None => return None,
                Some(SessionCommand::Processes(pids, expanded)) => *watched = Some((pids, expanded)),
                Some(command) if waiting.len() < MAX_PENDING => waiting.push(command),
                Some(SessionCommand::Ask(..) | SessionCommand::Tell(..)) => {}
            },
        }
    };
    let (channel, rest) = match started {
        Ok(started) => started,
        Err(fault) => return Some(fault.what().into_owned()),
    };
    let mut session = Session {
        channel,
        reader: MessageReader::default(),
        sent: 0,
        pending: BTreeMap::new(),
        stderr: String::new(),
    };
    session.reader.push(rest);
    if let Some((pids, expanded)) = watched.as_ref()
        && let Err(reason) = session.send("processes", pid_lists(pids, expanded)).await
    {
        return Some(reason);
    }
    for command in waiting {
        if let Err(reason) = session.perform(command, watched).await {
            return Some(reason);
        }
    }
    let ending = session.event_loop(spec, commands, watched, on_event).await;
    // The end of its input ends the script.
    Box::pin(session.channel.shutdown()).await;
    ending
}

struct Session {
    channel: Channel,
    reader: MessageReader,
    /// Number of the last command.
    sent: u64,
    pending: BTreeMap<u64, oneshot::Sender<Answer>>,
    /// The last words of the script.
    stderr: String,
}

impl Session {
    async fn event_loop(
        &mut self,
        spec: &ScriptSpec,
        commands: &mut mpsc::Receiver<SessionCommand>,
        watched: &mut Option<WatchedPids>,
        on_event: &mut impl AsyncFnMut(SessionEvent),
    ) -> Option<String> {
        let mut heartbeat = interval(HEARTBEAT_INTERVAL);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let silence = SILENCE_TIMEOUT + spec.interval * 5;
        let (mut heard_at, mut is_silent) = (Instant::now(), false);
        loop {
            while let Some(message) = self.reader.next_message() {
                (heard_at, is_silent) = (Instant::now(), false);
                match message {
                    Ok(Message::Hello(hello)) if hello.v != 1 => {
                        return Some(format!("its script speaks version {}", hello.v));
                    }
                    Ok(Message::Answer(answer)) => {
                        if let Some(asked) = self.pending.remove(&answer.id) {
                            // Fails if nobody waits any more.
                            asked.send(answer).ok();
                        }
                    }
                    Ok(message) => on_event(SessionEvent::Message(Box::new(message))).await,
                    Err(reason) => log::warn!("{}: {reason}", spec.target.name),
                }
            }
            let sent = tokio::select! {
                output = self.channel.next() => match output {
                    Ok(Output::Stdout(bytes)) => {
                        self.reader.push(bytes);
                        Ok(())
                    }
                    Ok(Output::Stderr(bytes)) => {
                        self.stderr = sanitize(&String::from_utf8_lossy(&bytes), 200);
                        Ok(())
                    }
                    Ok(Output::Exit(exit)) => return Some(self.ending(&exit.to_string())),
                    Err(fault) => {
                        let reason = fault.map_or_else(|| "it closed the channel".to_owned(), |fault| fault.to_string());
                        return Some(reason);
                    }
                },
                command = commands.recv() => match command {
                    None => return None,
                    Some(command) => self.perform(command, watched).await,
                },
                _ = heartbeat.tick() => self.send("heartbeat", Map::new()).await,
                // A script that hangs in a dead file system cannot be killed: it goes on when that returns, and another
                // one would hang, too.
                () = sleep_until(heard_at + silence), if !is_silent => {
                    is_silent = true;
                    let reason = format!("it has sent nothing for {} s; a file system there may hang", silence.as_secs());
                    on_event(SessionEvent::Fault(reason)).await;
                    Ok(())
                }
            };
            if let Err(reason) = sent {
                return Some(reason);
            }
        }
    }

    async fn perform(
        &mut self,
        command: SessionCommand,
        watched: &mut Option<WatchedPids>,
    ) -> Result<(), String> {
        match command {
            SessionCommand::Processes(pids, expanded) => {
                let lists = pid_lists(&pids, &expanded);
                *watched = Some((pids, expanded));
                self.send("processes", lists).await
            }
            SessionCommand::Ask(verb, values, asked) => self.ask(verb, values, asked).await,
            SessionCommand::Tell(verb, values) => self.send(verb, values).await,
        }
    }

    async fn ask(
        &mut self,
        verb: &str,
        values: Map<String, Value>,
        asked: oneshot::Sender<Answer>,
    ) -> Result<(), String> {
        self.pending.retain(|_, asked| !asked.is_closed());
        if self.pending.len() < MAX_PENDING {
            self.pending.insert(self.sent + 1, asked);
        }
        self.send(verb, values).await
    }

    async fn send(&mut self, verb: &str, values: Map<String, Value>) -> Result<(), String> {
        self.sent += 1;
        let line = command(self.sent, verb, values);
        self.channel.send(line.as_bytes()).await.map_err(|fault| fault.to_string())
    }

    fn ending(&self, exit: &str) -> String {
        let says = if self.stderr.is_empty() { "" } else { "; it says: " };
        format!("its script ended: {exit}{says}{}", self.stderr)
    }
}

fn pid_lists(pids: &[u32], expanded: &[u32]) -> Map<String, Value> {
    object(json!({ "pids": pids, "expanded": expanded }))
}

/// Returns the members of a JSON object.
pub(super) fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value { map } else { Map::new() }
}

/// Returns the session number of a folder.
pub(super) fn index_as_session(index: usize) -> u64 {
    u64::try_from(index).unwrap_or(u64::MAX)
}

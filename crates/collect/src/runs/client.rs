//! Requests about runs: which script serves them, and what its answers mean.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::runs::message::{Answer, Growth, clean};
use crate::runs::session::{SessionCommand, index_as_session, object};
use crate::transport::Target;
use gtop_local::lock::lock;
use gtop_model::{
    Bytes, DeletionPlan, NodeName, OutputFile, OutputGrowth, OutputId, OutputStream, ProcessKey,
    Run, RunId, RunList, RunRequest, RunRequestError, RunResponse,
};

/// Maximum time for an answer.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Deleting a large folder takes long.
const DELETE_TIMEOUT: Duration = Duration::from_secs(300);
/// Sessions of hosts are numbered from here, those of folders from 0.
const FIRST_HOST_SESSION: u64 = 1 << 32;

type StartSender = mpsc::Sender<(NodeName, Target, u64, mpsc::Receiver<SessionCommand>)>;
type Folders = BTreeMap<Arc<str>, (usize, NodeName, mpsc::Sender<SessionCommand>)>;

/// Sends requests about runs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RunsClient {
    inner: Arc<Inner>,
    list: watch::Receiver<Arc<RunList>>,
    is_readonly: bool,
}

#[derive(Debug)]
pub(super) struct Inner {
    folders: Folders,
    hosts: Mutex<BTreeMap<NodeName, HostSession>>,
    starts: StartSender,
    queue_size: usize,
}

#[derive(Debug)]
struct HostSession {
    session: u64,
    commands: mpsc::Sender<SessionCommand>,
    /// The pids that were last asked for.
    watched: (Arc<[u32]>, Arc<[u32]>),
}

/// The processes to look at on one host.
#[derive(Clone, Debug)]
pub struct HostProcesses {
    /// How the host is reached.
    pub target: Target,
    /// Main processes of runs.
    pub pids: Vec<u32>,
    /// Those of which threads are listed too.
    pub expanded: Vec<u32>,
}

/// A place to open outputs at: the run's process there, if it is known.
#[derive(Clone, Debug)]
pub struct OutputPlace {
    /// The run.
    pub run: Arc<Run>,
    /// The node that the run is on, if it is watched.
    pub node: Option<NodeName>,
    /// Its main process there.
    pub process: Option<ProcessKey>,
}

impl Inner {
    pub(super) fn new(folders: Folders, starts: StartSender, queue_size: usize) -> Self {
        Self { folders, hosts: Mutex::default(), starts, queue_size }
    }

    fn session(&self, session: u64) -> Option<mpsc::Sender<SessionCommand>> {
        let mut folders = self.folders.values();
        if let Some((_, _, commands)) =
            folders.find(|(index, ..)| index_as_session(*index) == session)
        {
            return Some(commands.clone());
        }
        let hosts = lock(&self.hosts);
        hosts.values().find(|host| host.session == session).map(|host| host.commands.clone())
    }
}

impl RunsClient {
    pub(super) fn new(inner: Arc<Inner>, list: watch::Receiver<Arc<RunList>>) -> Self {
        Self { inner, list, is_readonly: false }
    }

    /// Refuses every change.
    #[must_use]
    pub fn readonly(mut self) -> Self {
        self.is_readonly = true;
        self
    }

    /// Looks at these processes and at no others, and starts the scripts of hosts that need one.
    pub fn watch_processes(&self, wanted: BTreeMap<NodeName, HostProcesses>) {
        let mut hosts = lock(&self.inner.hosts);
        for (node, host) in hosts.iter_mut().filter(|(node, _)| !wanted.contains_key(node)) {
            host.watch(node, Arc::default(), Arc::default());
        }
        for (node, HostProcesses { target, pids, expanded }) in wanted {
            if !hosts.contains_key(&node) {
                let (commands, receiver) = mpsc::channel(self.inner.queue_size);
                let count = u64::try_from(hosts.len()).unwrap_or(u64::MAX);
                let session = FIRST_HOST_SESSION.saturating_add(count);
                // Full only if gtop ends.
                if self.inner.starts.try_send((node.clone(), target, session, receiver)).is_err() {
                    continue;
                }
                let watched = (Arc::default(), Arc::default());
                hosts.insert(node.clone(), HostSession { session, commands, watched });
            }
            if let Some(host) = hosts.get_mut(&node) {
                host.watch(&node, pids.into(), expanded.into());
            }
        }
    }

    /// Carries out a request; `place` is where the run is, for its outputs.
    pub async fn request(
        &self,
        request: &RunRequest,
        place: Option<&OutputPlace>,
    ) -> Result<RunResponse, RunRequestError> {
        let changes = matches!(request, RunRequest::SetVariable { .. } | RunRequest::Delete { .. });
        if changes && self.is_readonly {
            return Err(RunRequestError::ReadOnly);
        }
        match request {
            RunRequest::SetVariable { run, base, name, json } => {
                let values = json!({ "run": run.name, "base": base, "name": name, "value": json });
                let answer = self.ask_folder(run, "set", values, REPLY_TIMEOUT).await?;
                Ok(RunResponse::Changed(text_of(&answer, "text")))
            }
            RunRequest::PlanDeletion(run) => {
                let values = json!({ "run": run.name });
                let answer = self.ask_folder(run, "plan", values, REPLY_TIMEOUT).await?;
                Ok(RunResponse::Plan(plan_of(&answer)))
            }
            RunRequest::Delete { run, identity } => {
                let values = json!({ "run": run.name, "identity": identity });
                let answer = self.ask_folder(run, "delete", values, DELETE_TIMEOUT).await?;
                Ok(RunResponse::Deleted(number_of(&answer, "count")))
            }
            RunRequest::OpenOutputs(_) => {
                let place = place.ok_or(RunRequestError::NoRun)?;
                let stdout = self.open_output(place, OutputStream::Stdout).await;
                let stderr = self.open_output(place, OutputStream::Stderr).await;
                Ok(RunResponse::Outputs([stdout, stderr]))
            }
            RunRequest::ReadOutput { output, offset, length } => {
                let values = json!({ "handle": output.handle, "offset": offset, "length": length });
                let answer = self.ask_session(output.session, "read", values).await?;
                let data = STANDARD.decode(&*text_of(&answer, "data")).unwrap_or_default();
                let (offset, size) = (number_of(&answer, "offset"), number_of(&answer, "size"));
                Ok(RunResponse::Read { offset, data: data.into(), size })
            }
            RunRequest::FindInOutput { output, offset, pattern, is_backwards } => {
                // As in many pagers: a pattern without capitals finds both cases.
                let fold = !pattern.chars().any(char::is_uppercase);
                let values = json!({
                    "handle": output.handle, "offset": offset, "pattern": pattern,
                    "backwards": is_backwards, "fold": fold,
                });
                let answer = self.ask_session(output.session, "find", values).await?;
                let at = answer.values.get("found").and_then(Value::as_u64);
                let (searched, size) = (number_of(&answer, "searched"), number_of(&answer, "size"));
                Ok(RunResponse::Found { at, searched, size })
            }
            RunRequest::FollowOutputs(outputs) => {
                self.follow(outputs).await;
                Ok(RunResponse::Done)
            }
            RunRequest::CloseOutputs(outputs) => {
                self.follow(&[]).await;
                for output in outputs {
                    let values = json!({ "handle": output.handle });
                    // A lost session has closed it.
                    self.ask_session(output.session, "close", values).await.ok();
                }
                Ok(RunResponse::Done)
            }
        }
    }

    /// Follows these outputs and no others.
    async fn follow(&self, outputs: &[OutputId]) {
        let mut by_session: BTreeMap<u64, Vec<u64>> =
            self.sessions().into_iter().map(|session| (session, Vec::new())).collect();
        for output in outputs {
            by_session.entry(output.session).or_default().push(output.handle);
        }
        for (session, handles) in by_session {
            let Some(commands) = self.inner.session(session) else { continue };
            let values = object(json!({ "handles": handles }));
            // Fails if gtop ends.
            commands.send(SessionCommand::Tell("follow", values)).await.ok();
        }
    }

    fn sessions(&self) -> Vec<u64> {
        let hosts = lock(&self.inner.hosts);
        let folders = self.inner.folders.values().map(|(index, ..)| index_as_session(*index));
        folders.chain(hosts.values().map(|host| host.session)).collect()
    }

    /// Opens an output on the host of the run, or else on that of its folder.
    async fn open_output(
        &self,
        place: &OutputPlace,
        stream: OutputStream,
    ) -> Result<OutputFile, Arc<str>> {
        let progress = place.run.progress.as_ref();
        let path = progress.and_then(|progress| match stream {
            OutputStream::Stdout => progress.stdout.clone(),
            OutputStream::Stderr => progress.stderr.clone(),
        });
        let path =
            path.ok_or_else(|| format!("the run does not say where its {} goes", stream.as_str()))?;
        let (session, node) =
            self.output_session(place).ok_or("the folder is no longer watched")?;
        let process = place.process;
        let values = json!({
            "path": path, "stream": stream.as_str(), "pid": process.map(|key| key.pid),
            "start": process.map(|key| key.start_ticks), "uid": place.run.uid,
        });
        let answer = self
            .ask_session(session, "open", values)
            .await
            .map_err(|error| Arc::from(format!("{path} on {node}: {error}")))?;
        let output = OutputId { session, handle: number_of(&answer, "handle") };
        Ok(OutputFile {
            output,
            path,
            size: number_of(&answer, "size"),
            identity: text_of(&answer, "ino"),
            written_at: answer.values.get("mtime").and_then(Value::as_f64).unwrap_or(0.0),
            is_deleted: answer.values.get("deleted").and_then(Value::as_bool) == Some(true),
        })
    }

    /// Returns the session that opens the outputs of a run, and its node: the host of the run, or else that of its
    /// folder.
    fn output_session(&self, place: &OutputPlace) -> Option<(u64, NodeName)> {
        if let Some(node) = &place.node
            && let Some(host) = lock(&self.inner.hosts).get(node)
        {
            return Some((host.session, node.clone()));
        }
        let (index, node, _) = self.inner.folders.get(&place.run.id.folder)?;
        Some((index_as_session(*index), node.clone()))
    }

    /// Returns the node on which the outputs of a run are opened.
    pub fn output_node(&self, place: &OutputPlace) -> Option<NodeName> {
        self.output_session(place).map(|(_, node)| node)
    }

    async fn ask_folder(
        &self,
        run: &RunId,
        verb: &'static str,
        values: Value,
        limit: Duration,
    ) -> Result<Answer, RunRequestError> {
        let folder = self.inner.folders.get(&run.folder).ok_or(RunRequestError::NoRun)?;
        let (_, node, commands) = folder;
        ask(commands, node.label(), verb, object(values), limit).await
    }

    async fn ask_session(
        &self,
        session: u64,
        verb: &'static str,
        values: Value,
    ) -> Result<Answer, RunRequestError> {
        let commands = self.inner.session(session).ok_or(RunRequestError::NoRun)?;
        ask(&commands, "the host", verb, object(values), REPLY_TIMEOUT).await
    }

    /// Returns the newest list.
    pub fn list(&self) -> Arc<RunList> {
        Arc::clone(&self.list.borrow())
    }
}

impl HostSession {
    fn watch(&mut self, node: &NodeName, pids: Arc<[u32]>, expanded: Arc<[u32]>) {
        let wanted = (pids, expanded);
        if wanted == self.watched {
            return;
        }
        let command = SessionCommand::Processes(Arc::clone(&wanted.0), Arc::clone(&wanted.1));
        match self.commands.try_send(command) {
            Ok(()) => self.watched = wanted,
            // The next list sends it again.
            Err(error) => log::debug!("{node}: {error}"),
        }
    }
}

async fn ask(
    commands: &mpsc::Sender<SessionCommand>,
    host: &str,
    verb: &'static str,
    values: Map<String, Value>,
    limit: Duration,
) -> Result<Answer, RunRequestError> {
    let (sender, answer) = oneshot::channel();
    if commands.try_send(SessionCommand::Ask(verb, values, sender)).is_err() {
        return Err(RunRequestError::Down(host.into()));
    }
    let answer = match timeout(limit, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_dropped)) => return Err(RunRequestError::Down(host.into())),
        Err(_elapsed) => return Err(RunRequestError::TimedOut(host.into(), limit.as_secs())),
    };
    if answer.ok {
        return Ok(answer);
    }
    if answer.kind.as_deref() == Some("conflict") {
        return Err(RunRequestError::Conflict);
    }
    Err(RunRequestError::Refused(clean(answer.why.as_deref().unwrap_or("refused"))))
}

fn text_of(answer: &Answer, name: &str) -> Arc<str> {
    answer.values.get(name).and_then(Value::as_str).unwrap_or_default().into()
}

fn number_of(answer: &Answer, name: &str) -> u64 {
    answer.values.get(name).and_then(Value::as_u64).unwrap_or_default()
}

fn plan_of(answer: &Answer) -> DeletionPlan {
    let entries = answer.values.get("entries").and_then(Value::as_array);
    let entries = entries.into_iter().flatten().filter_map(|entry| {
        let path = entry.get(0).and_then(Value::as_str)?;
        Some((clean(path), Bytes(entry.get(1).and_then(Value::as_u64).unwrap_or(0))))
    });
    DeletionPlan {
        folder: clean(&text_of(answer, "folder")),
        entries: entries.collect(),
        count: number_of(answer, "count"),
        bytes: Bytes(number_of(answer, "bytes")),
        identity: text_of(answer, "identity"),
    }
}

/// Returns the news of an output; `None` for data that cannot be decoded.
pub(super) fn growth_of(session: u64, growth: Growth) -> Option<OutputGrowth> {
    Some(OutputGrowth {
        output: OutputId { session, handle: growth.handle },
        size: growth.size,
        from: growth.from,
        data: STANDARD.decode(growth.data).ok()?.into(),
        is_truncated: growth.truncated,
        is_rotated: growth.rotated,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Commands = mpsc::Receiver<SessionCommand>;

    /// Returns a client of two folders, and what their sessions are told.
    fn client() -> (RunsClient, [Commands; 2]) {
        let (starts, _) = mpsc::channel(1);
        let mut folders = Folders::new();
        let mut receive = |index: usize, label: &str| {
            let (sender, receiver) = mpsc::channel(4);
            folders.insert(label.into(), (index, NodeName::new("gpu01").unwrap(), sender));
            receiver
        };
        let receivers = [receive(0, "a"), receive(1, "b")];
        let list = watch::channel(Arc::<RunList>::default()).1;
        (RunsClient::new(Arc::new(Inner::new(folders, starts, 4)), list), receivers)
    }

    fn run_of(folder: &str) -> RunId {
        RunId { folder: folder.into(), name: "train".into() }
    }

    /// Answers the next request of a session.
    async fn answer(commands: &mut Commands, answer: Value) -> (&'static str, Map<String, Value>) {
        let Some(SessionCommand::Ask(verb, values, asked)) = commands.recv().await else {
            panic!()
        };
        asked.send(serde_json::from_value(answer).unwrap()).unwrap();
        (verb, values)
    }

    #[tokio::test]
    async fn nothing_is_changed_read_only() {
        // Whoever asks a session is told that it is down.
        let client = client().0.readonly();
        let run = run_of("a");
        for request in [
            RunRequest::Delete { run: run.clone(), identity: "1".into() },
            RunRequest::SetVariable { run, base: "{}".into(), name: "lr".into(), json: "1".into() },
        ] {
            assert_eq!(client.request(&request, None).await, Err(RunRequestError::ReadOnly));
        }
        let plan = RunRequest::PlanDeletion(run_of("nowhere"));
        assert_eq!(client.request(&plan, None).await, Err(RunRequestError::NoRun));
    }

    #[tokio::test]
    async fn a_request_goes_to_the_folder_of_its_run_and_a_refusal_comes_back() {
        let (client, [_, mut second]) = client();
        for (reply, expected) in [
            (
                json!({"id": 1, "ok": false, "kind": "conflict", "why": "changed"}),
                Err(RunRequestError::Conflict),
            ),
            (
                json!({"id": 1, "ok": false, "kind": "owner", "why": "of \u{1b}[31mada"}),
                Err(RunRequestError::Refused("of ?[31mada".into())),
            ),
            (json!({"id": 1, "ok": true, "count": 3}), Ok(RunResponse::Deleted(3))),
        ] {
            let request = RunRequest::Delete { run: run_of("b"), identity: "1:2".into() };
            let asking = client.request(&request, None);
            let (found, (verb, values)) = tokio::join!(asking, answer(&mut second, reply));
            assert_eq!(
                (verb, &values["run"], &values["identity"]),
                ("delete", &json!("train"), &json!("1:2"))
            );
            match (found, expected) {
                (Err(RunRequestError::Refused(found)), Err(RunRequestError::Refused(_))) => {
                    assert!(!found.contains('\u{1b}') && found.contains("ada"), "{found}");
                }
                (found, expected) => assert_eq!(found, expected),
            }
        }
    }

    #[tokio::test]
    async fn only_the_outputs_of_the_last_request_are_followed() {
        let (client, mut commands) = client();
        let output = OutputId { session: 1, handle: 7 };
        client.request(&RunRequest::FollowOutputs(vec![output]), None).await.unwrap();
        for (commands, handles) in commands.iter_mut().zip([json!([]), json!([7])]) {
            let Ok(SessionCommand::Tell("follow", values)) = commands.try_recv() else { panic!() };
            assert_eq!(values["handles"], handles);
        }
    }

    #[tokio::test]
    async fn a_search_finds_both_cases_unless_the_pattern_has_capitals() {
        for (pattern, fold) in [("loss", true), ("Loss", false), ("verlust 日本", true)] {
            let (client, [mut first, _]) = client();
            let request = RunRequest::FindInOutput {
                output: OutputId { session: 0, handle: 1 },
                offset: 5,
                pattern: pattern.to_owned(),
                is_backwards: true,
            };
            let reply = json!({"id": 1, "ok": true, "found": null, "searched": 2, "size": 9});
            let asking = client.request(&request, None);
            let (found, (verb, values)) = tokio::join!(asking, answer(&mut first, reply));
            assert_eq!(found, Ok(RunResponse::Found { at: None, searched: 2, size: 9 }));
            let sent = (verb, &values["fold"], &values["backwards"]);
            assert_eq!(sent, ("find", &json!(fold), &json!(true)), "{pattern}");
        }
    }

    #[test]
    fn growth_is_decoded_and_what_is_no_base64_is_dropped() {
        let growth = |data: &str| Growth {
            handle: 3,
            size: 9,
            from: 4,
            data: data.to_owned(),
            truncated: true,
            rotated: false,
        };
        let found = growth_of(2, growth("aGVsbG8=")).unwrap();
        assert_eq!(found.output, OutputId { session: 2, handle: 3 });
        assert_eq!((found.from, found.size, &*found.data), (4, 9, &b"hello"[..]));
        assert!(found.is_truncated && !found.is_rotated);
        assert_eq!(growth_of(2, growth("\u{1b}")), None);
    }

    #[test]
    fn an_output_is_opened_on_the_host_of_its_run_if_that_is_asked_already() {
        let (client, _commands) = client();
        let host = NodeName::new("gpu07").unwrap();
        let run = Run {
            id: run_of("b"),
            is_flat: false,
            uid: None,
            user: None,
            progress: None,
            written_at: None,
            fault: None,
            advanced_at: None,
            seen_rate: None,
            variables: gtop_model::RunVariables::default(),
        };
        let place = OutputPlace { run: Arc::new(run), node: Some(host.clone()), process: None };
        let folder = NodeName::new("gpu01").unwrap();
        assert_eq!(client.output_session(&place), Some((1, folder.clone())));
        let session = HostSession {
            session: FIRST_HOST_SESSION,
            commands: mpsc::channel(1).0,
            watched: (Arc::default(), Arc::default()),
        };
        client.inner.hosts.lock().unwrap().insert(host.clone(), session);
        assert_eq!(client.output_node(&place), Some(host));
        let unknown = OutputPlace { node: None, ..place };
        assert_eq!(client.output_node(&unknown), Some(folder));
    }
}

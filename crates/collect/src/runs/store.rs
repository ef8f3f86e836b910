//! Folds the messages of all scripts into one list of runs.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::runs::message::{
    ChangedRun, ChangedRuns, FileText, ListedProcess, LogTail, Processes, ScriptHello, clean,
};
use gtop_local::time::{ClockOffset, Timestamp};
use gtop_model::training::log_progress::progress_of_log;
use gtop_model::training::natural_order;
use gtop_model::training::progress::parse_progress;
use gtop_model::training::variables::parse_variables;
use gtop_model::{
    Bytes, FoundProcess, NodeName, ProcessKey, ProcessState, Progress, Run, RunFolder, RunHost,
    RunId, RunLimits, RunList, RunProcess, RunStatus, RunTask, RunTreeProcess, RunVariables,
    UserResources,
};

/// Maximum number of runs of one folder; the script sends no more.
const MAX_RUNS: usize = 5_000;
const LATEST: Timestamp = Timestamp::from_micros(i64::MAX);
/// A log that was written within this time belongs to a run that goes on.
const LOG_IS_WRITTEN: Duration = Duration::from_secs(120);

/// What is known of all folders and hosts.
#[derive(Debug)]
pub(super) struct Store {
    folders: Vec<FolderState>,
    hosts: BTreeMap<NodeName, RunHost>,
    limits: RunLimits,
    list: watch::Sender<Arc<RunList>>,
}

#[derive(Debug)]
struct FolderState {
    folder: RunFolder,
    /// The logs that are followed, as they were named.
    logs: Vec<Arc<str>>,
    offset: ClockOffset,
    runs: BTreeMap<NaturalName, Arc<Run>>,
}

/// A name in natural order.
#[derive(Clone, Debug)]
struct NaturalName(Arc<str>);

impl Ord for NaturalName {
    fn cmp(&self, other: &Self) -> Ordering {
        natural_order::compare(&self.0, &other.0)
    }
}

impl PartialOrd for NaturalName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for NaturalName {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for NaturalName {}

impl Store {
    /// Makes a store for folders, each with its label, its node and the logs that are followed instead of it.
    pub(super) fn new(
        folders: impl Iterator<Item = (Arc<str>, NodeName, Vec<Arc<str>>)>,
        limits: RunLimits,
    ) -> Self {
        let folders = folders.map(|(label, node, logs)| FolderState {
            folder: RunFolder {
                label,
                node,
                total: 0,
                is_polled: true,
                fault: None,
                answered_at: None,
                clock_offset: 0,
            },
            logs,
            offset: ClockOffset::default(),
            runs: BTreeMap::new(),
        });
        Self {
            folders: folders.collect(),
            hosts: BTreeMap::new(),
            limits,
            list: watch::channel(Arc::default()).0,
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Arc<RunList>> {
        self.list.subscribe()
    }

    /// Publishes the list as it is now.
    pub(super) fn publish(&self) {
        let runs = self.folders.iter().flat_map(|state| state.runs.values()).cloned().collect();
        self.list.send_replace(Arc::new(RunList {
            folders: self.folders.iter().map(|state| state.folder.clone()).collect(),
            runs,
            hosts: self.hosts.values().cloned().map(Arc::new).collect(),
            limits: self.limits,
        }));
    }

    /// Records that the script of a folder has started. Its first tick, which follows the runs, is its first answer.
    pub(super) fn on_folder_hello(&mut self, index: usize, hello: &ScriptHello, now: Timestamp) {
        let Some(state) = self.folders.get_mut(index) else { return };
        state.offset = ClockOffset::default();
        state.offset.update(hello.now, now);
        state.folder.is_polled = hello.watch.as_deref() != Some("inotify");
        state.folder.fault = None;
    }

    /// Records why a folder's host does not answer.
    pub(super) fn on_folder_fault(&mut self, index: usize, fault: &str) {
        if let Some(state) = self.folders.get_mut(index) {
            state.folder.fault = Some(clean(fault));
        }
    }

    pub(super) fn on_tick(&mut self, index: usize, at: f64, error: Option<&str>, now: Timestamp) {
        let Some(state) = self.folders.get_mut(index) else { return };
        state.offset.update(at, now);
        state.folder.clock_offset = micros(&state.offset);
        state.folder.fault = error.map(clean);
        state.folder.answered_at = Some(now);
    }

    pub(super) fn on_runs(&mut self, index: usize, changed: ChangedRuns, now: Timestamp) {
        let Some(state) = self.folders.get_mut(index) else { return };
        state.offset.update(changed.now, now);
        state.folder.total = changed.total;
        for name in changed.gone {
            state.runs.remove(&NaturalName(name.into()));
        }
        for run in changed.runs {
            state.on_run(run, now);
        }
    }

    pub(super) fn on_logs(&mut self, index: usize, logs: Vec<LogTail>, now: Timestamp) {
        let Some(state) = self.folders.get_mut(index) else { return };
        for log in logs {
            state.on_log(&log, now);
        }
        state.folder.total = state.runs.len();
    }

    /// Records that the script of a host has started.
    pub(super) fn on_host_hello(&mut self, node: &NodeName, hello: &ScriptHello, now: Timestamp) {
        let host = self.host(node);
        host.host_name = clean(&hello.host);
        host.pid_namespace = hello.pidns.as_deref().map(clean);
        host.fault = None;
        host.answered_at = Some(now);
    }

    /// Records why a host does not answer.
    pub(super) fn on_host_fault(&mut self, node: &NodeName, fault: &str) {
        self.host(node).fault = Some(clean(fault));
    }

    pub(super) fn on_processes(&mut self, node: &NodeName, sample: Processes, now: Timestamp) {
        let host = self.host(node);
        host.answered_at = Some(now);
        host.fault = None;
        let mut offset = ClockOffset::default();
        offset.update(sample.now, now);
        host.user = sample.user.zip(sample.cores).zip(sample.ram).map(|((user, cpus), memory)| {
            UserResources {
                cpu_percent: user.cpu,
                resident: Bytes(user.rss),
                cpus,
                memory: Bytes(memory),
            }
        });
        host.clock_offset = micros(&offset);
        let mut before = std::mem::take(&mut host.processes);
        let processes = sample.list.into_iter().map(|one| {
            let pid = one.pid;
            let known = before.remove(&pid);
            let found = if one.gone {
                known
                    .filter(|known| matches!(known, RunProcess::Gone { .. }))
                    .unwrap_or(RunProcess::Gone { since: now })
            } else {
                found_process(one, &offset)
                    .map_or(RunProcess::Hidden, |found| RunProcess::Found(Box::new(found)))
            };
            (pid, found)
        });
        host.processes = processes.collect();
    }

    fn host(&mut self, node: &NodeName) -> &mut RunHost {
        self.hosts.entry(node.clone()).or_insert_with(|| RunHost {
            node: node.clone(),
            host_name: "".into(),
            pid_namespace: None,
            fault: None,
            answered_at: None,
            clock_offset: 0,
            processes: BTreeMap::new(),
            user: None,
        })
    }
}

impl FolderState {
    /// Returns a time of the host by our clock.
    fn local_time(&self, seconds: f64, now: Timestamp) -> Option<Timestamp> {
        self.offset.local_time(seconds, now).filter(|_| seconds > 0.0)
    }

    fn empty_run(&self, name: &Arc<str>) -> Run {
        Run {
            id: RunId { folder: Arc::clone(&self.folder.label), name: Arc::clone(name) },
            is_flat: false,
            uid: None,
            user: None,
            progress: None,
            written_at: None,
            fault: None,
            advanced_at: None,
            seen_rate: None,
            variables: RunVariables::default(),
        }
    }

    fn on_run(&mut self, changed: ChangedRun, now: Timestamp) {
        let name: Arc<str> = changed.run.into();
        let key = NaturalName(Arc::clone(&name));
        if !self.runs.contains_key(&key) && self.runs.len() >= MAX_RUNS {
            return;
        }
        let mut run =
            self.runs.get(&key).map_or_else(|| self.empty_run(&name), |run| Run::clone(run));
        run.is_flat = changed.flat;
        run.uid = changed.uid.or(run.uid);
        run.user = changed.user.as_deref().map(clean).or(run.user);
        if let Some(file) = changed.progress {
            self.on_progress(&mut run, &file, now);
        }
        if let Some(file) = changed.control {
            on_control(&mut run.variables, file);
        }
        self.runs.insert(key, Arc::new(run));
    }

    /// Takes over a progress file; one that cannot be read leaves the last good copy.
    fn on_progress(&self, run: &mut Run, file: &FileText, now: Timestamp) {
        // The time of the host's second 0 by our clock.
        let offset = micros(&self.offset);
        let parsed = match (&file.text, &file.error) {
            (Some(text), _) => parse_progress(text, offset),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Err("missing".to_owned()),
        };
        match parsed {
            Ok(progress) => {
                let written_at = file.mtime.and_then(|time| self.local_time(time, now));
                set_progress(run, progress, written_at);
            }
            Err(reason) => run.fault = Some(clean(&reason)),
        }
    }

    fn on_log(&mut self, log: &LogTail, now: Timestamp) {
        let Some(name) = self.logs.get(log.log).cloned() else { return };
        let key = NaturalName(Arc::clone(&name));
        let mut run =
            self.runs.get(&key).map_or_else(|| self.empty_run(&name), |run| Run::clone(run));
        run.uid = log.uid.or(run.uid);
        if let Some(tail) = &log.tail {
            let written_at = log.mtime.and_then(|time| self.local_time(time, now));
            let is_written = written_at.is_some_and(|at| now.since(at) < LOG_IS_WRITTEN);
            let progress = Progress {
                stdout: log.path.as_deref().map(clean),
                // A log does not show how the run ended.
                status: Some(if is_written { RunStatus::Running } else { RunStatus::Unknown }),
                ..progress_of_log(tail)
            };
            set_progress(&mut run, progress, written_at);
        }
        if let Some(error) = &log.error {
            run.fault = Some(clean(error));
        }
        self.runs.insert(key, Arc::new(run));
    }
}

fn set_progress(run: &mut Run, progress: Progress, written_at: Option<Timestamp>) {
    let is_same = run.progress.as_deref().is_some_and(|old| {
        let [old, new] = [old, &progress].map(|progress| {
            let Progress { epoch, batch, validation_batch, samples, phase, status, .. } = progress;
            (epoch, batch, validation_batch, samples, phase, status)
        });
        old == new
    });
    if !is_same {
        run.seen_rate = seen_rate(run, &progress, written_at);
        run.advanced_at = written_at;
    }
    run.progress = Some(Arc::new(progress));
    run.written_at = written_at;
    run.fault = None;
}

/// Returns the batches per second by which a run advances: the newest step counts a third. Another epoch or phase
/// leaves it as it is.
fn seen_rate(run: &Run, progress: &Progress, written_at: Option<Timestamp>) -> Option<f64> {
    let Some(step) = step_rate(run, progress, written_at) else { return run.seen_rate };
    Some(run.seen_rate.map_or(step, |rate| rate + (step - rate) / 3.0))
}

/// Returns the batches per second of the newest step.
fn step_rate(run: &Run, progress: &Progress, written_at: Option<Timestamp>) -> Option<f64> {
    let old = run.progress.as_deref().filter(|old| old.epoch == progress.epoch)?;
    let [before, after] =
        [old, progress].map(|progress| progress.validation_batch.or(progress.batch));
    let is_same_phase = old.validation_batch.is_some() == progress.validation_batch.is_some();
    let batches = after?.checked_sub(before?).filter(|batches| *batches > 0 && is_same_phase)?;
    let seconds = written_at?.since(run.advanced_at?).as_secs_f64();
    let batches = u32::try_from(batches).ok().map(f64::from)?;
    (seconds > 0.0).then(|| batches / seconds)
}

fn on_control(variables: &mut RunVariables, file: FileText) {
    let Some(text) = file.text else {
        let reason = file.error.filter(|error| error != "missing");
        *variables =
            RunVariables { fault: reason.as_deref().map(clean), ..RunVariables::default() };
        return;
    };
    match parse_variables(&text) {
        Ok(list) => {
            *variables = RunVariables { text: Some(text.into()), list: list.into(), fault: None };
        }
        // The last good copy stays.
        Err(reason) => variables.fault = Some(clean(&reason)),
    }
}

/// Returns our clock less the other one.
fn micros(offset: &ClockOffset) -> i64 {
    offset.local_time(0.0, LATEST).map_or(0, Timestamp::as_micros)
}

/// Returns a process; `None` if it is hidden, or lacks what each process has.
fn found_process(one: ListedProcess, offset: &ClockOffset) -> Option<FoundProcess> {
    let mut tasks = one.tasks;
    let tree = one.tree.into_iter().map(|(pid, parent, start, name, cpu, rss, threads)| {
        let own = tasks.remove(&pid.to_string()).unwrap_or_default().into_iter();
        let tasks =
            own.map(|(tid, name, cpu_percent)| RunTask { tid, name: clean(&name), cpu_percent });
        RunTreeProcess {
            key: ProcessKey { pid, start_ticks: start },
            parent_pid: parent,
            name: clean(&name),
            cpu_percent: cpu,
            resident: Bytes(rss),
            threads,
            tasks: tasks.collect(),
        }
    });
    Some(FoundProcess {
        key: ProcessKey { pid: one.pid, start_ticks: one.start? },
        state: one.state.as_deref().and_then(ProcessState::new),
        started_at: offset.local_time(one.created?, LATEST)?,
        uid: one.uid?,
        is_kernel: one.kernel,
        pid_namespace: one.pidns.as_deref().map(clean),
        cpu_percent: one.cpu,
        resident: Bytes(one.rss?),
        threads: one.threads?,
        tree: tree.collect(),
        outputs: [one.stdout.as_deref().map(clean), one.stderr.as_deref().map(clean)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_answered_once_its_runs_are_known() {
        let now = Timestamp::from_micros(1_000_000);
        let name = NodeName::new("gpu01").unwrap();
        let mut store =
            Store::new([("runs".into(), name, Vec::new())].into_iter(), RunLimits::default());
        let is_answered = |store: &Store| store.folders[0].folder.answered_at.is_some();
        let hello =
            serde_json::from_str(r#"{"v": 1, "host": "gpu01", "now": 1.0, "watch": "inotify"}"#);
        store.on_folder_hello(0, &hello.unwrap(), now);
        assert!(!is_answered(&store));
        let runs = r#"{"now": 1.0, "total": 1, "runs": [{"run": "train"}]}"#;
        store.on_runs(0, serde_json::from_str(runs).unwrap(), now);
        assert!(!is_answered(&store));
        store.on_tick(0, 1.0, None, now);
        assert!(is_answered(&store));
        assert_eq!(store.folders[0].folder.total, 1);
    }

    #[test]
    fn a_run_is_seen_to_advance() {
        let at = |second: i64| Some(Timestamp::from_micros(second * 1_000_000));
        let progress = |epoch, batch| Progress {
            epoch: Some(epoch),
            batch: Some(batch),
            ..Progress::default()
        };
        let name = NodeName::new("gpu01").unwrap();
        let folders = [("runs".into(), name, Vec::new())];
        let store = Store::new(folders.into_iter(), RunLimits::default());
        let mut run = store.folders[0].empty_run(&"train".into());
        for (epoch, batch, second, rate, advanced_at) in [
            (0, 10, 100, None, 100),
            (0, 10, 110, None, 100),
            (0, 30, 110, Some(2.0), 110),
            // Another epoch begins at 0 again.
            (1, 0, 111, Some(2.0), 111),
            (1, 5, 112, Some(3.0), 112),
            // Fewer than before, in no time, and beyond all numbers.
            (1, 4, 113, Some(3.0), 113),
            (1, 5, 113, Some(3.0), 113),
        ] {
            set_progress(&mut run, progress(epoch, batch), at(second));
            assert_eq!((run.seen_rate, run.advanced_at), (rate, at(advanced_at)), "{second}");
        }
        set_progress(&mut run, progress(1, u64::MAX), at(114));
        assert_eq!(run.seen_rate, Some(3.0));
    }

    fn new_store() -> Store {
        let name = NodeName::new("gpu01").unwrap();
        let logs = vec!["train.log".into()];
        Store::new([("runs".into(), name, logs)].into_iter(), RunLimits::default())
    }

    fn changed(store: &mut Store, runs: &str, second: i64) {
        let text = format!(r#"{{"now": {second}, "total": 9, {runs}}}"#);
        let now = Timestamp::from_micros(second * 1_000_000);
        store.on_runs(0, serde_json::from_str(&text).unwrap(), now);
    }

    fn runs(store: &Store) -> Vec<Arc<Run>> {
        store.publish();
        let list = store.list.borrow();
        list.runs.clone()
    }

    #[test]
    fn runs_come_and_go_in_natural_order() {
        let mut store = new_store();
        let listener = store.subscribe();
        let record = |name: &str| format!(r#"{{"run": "{name}", "uid": 5, "user": "ada"}}"#);
        let all = ["run_10", "run_2", "run_1"].map(record).join(",");
        changed(&mut store, &format!(r#""runs": [{all}]"#), 1);
        changed(&mut store, r#""gone": ["run_1", "other"], "runs": [{"run": "run_2"}]"#, 2);
        let found = runs(&store);
        let names: Vec<&str> = found.iter().map(|run| &*run.id.name).collect();
        assert_eq!(names, ["run_2", "run_10"]);
        // What is not told again stays.
        assert_eq!((found[0].uid, found[0].user.as_deref()), (Some(5), Some("ada")));
        assert_eq!(listener.borrow().runs.len(), 2);
    }

    #[test]
    fn a_broken_file_leaves_the_last_good_values_with_the_reason() {
        let mut store = new_store();
        let file = |name: &str, text: &str| {
            let text = serde_json::to_string(text).unwrap();
            format!(r#""runs": [{{"run": "a", "{name}": {{"text": {text}, "mtime": 3.0}}}}]"#)
        };
        changed(&mut store, &file("progress", r#"{"state": {"batch": 4}}"#), 4);
        changed(&mut store, &file("control", r#"{"lr": 1}"#), 4);
        changed(&mut store, &file("progress", "{"), 5);
        changed(&mut store, &file("control", "["), 5);
        let batch = |run: &Run| run.progress.as_ref().and_then(|progress| progress.batch);
        let run = &runs(&store)[0];
        assert_eq!((batch(run), run.fault.as_deref()), (Some(4), Some("incomplete JSON")));
        assert_eq!(run.written_at, Some(Timestamp::from_micros(3_000_000)));
        assert_eq!((run.variables.list.len(), run.variables.fault.is_some()), (1, true));
        changed(&mut store, &file("progress", r#"{"state": {"batch": 5}}"#), 6);
        changed(&mut store, r#""runs": [{"run": "a", "control": {"error": "missing"}}]"#, 6);
        let run = &runs(&store)[0];
        assert_eq!((batch(run), run.fault.as_deref()), (Some(5), None));
        assert_eq!(run.variables, RunVariables::default());
    }

    #[test]
    fn a_process_is_gone_since_it_was_first_missing() {
        let mut store = new_store();
        let node = NodeName::new("gpu01").unwrap();
        let at = |second: i64| Timestamp::from_micros(second * 1_000_000);
        for (second, process, since) in [
            (1, r#"{"pid": 7, "gone": true}"#, Some(1)),
            (2, r#"{"pid": 7, "gone": true}"#, Some(1)),
            (3, r#"{"pid": 7, "start": 9}"#, None),
            (4, r#"{"pid": 7, "gone": true}"#, Some(4)),
        ] {
            let text = format!(r#"{{"now": {second}, "list": [{process}]}}"#);
            store.on_processes(&node, serde_json::from_str(&text).unwrap(), at(second));
            let found = match &store.hosts[&node].processes[&7] {
                RunProcess::Gone { since } => Some(*since),
                RunProcess::Hidden | RunProcess::Found(_) => None,
            };
            assert_eq!(found, since.map(at), "{second}");
        }
    }

    #[test]
    fn a_process_of_which_less_is_known_than_of_each_is_hidden() {
        let whole = r#""start": 9, "created": 1.0, "uid": 1000, "rss": 4096, "threads": 1"#;
        for (fields, is_hidden) in [
            (whole, false),
            (r#""state": null, "kernel": true"#, true),
            (r#""start": 9, "created": 1.0, "rss": 4096, "threads": 1"#, true),
        ] {
            let mut store = new_store();
            let node = NodeName::new("gpu01").unwrap();
            let text = format!(r#"{{"now": 1, "list": [{{"pid": 7, {fields}}}]}}"#);
            let now = Timestamp::from_micros(1_000_000);
            store.on_processes(&node, serde_json::from_str(&text).unwrap(), now);
            let process = &store.hosts[&node].processes[&7];
            assert_eq!(*process == RunProcess::Hidden, is_hidden, "{fields}");
        }
    }

    #[test]
    fn a_log_that_is_not_written_any_more_tells_no_status() {
        for (now, status) in [(219, RunStatus::Running), (220, RunStatus::Unknown)] {
            let mut store = new_store();
            let now = Timestamp::from_micros(now * 1_000_000);
            store.on_tick(0, 219.0, None, Timestamp::from_micros(219_000_000));
            let log = r#"[{"log": 0, "mtime": 100.0, "tail": "step 3/9", "path": "/train.log"}]"#;
            store.on_logs(0, serde_json::from_str(log).unwrap(), now);
            let run = &runs(&store)[0];
            let progress = run.progress.as_ref().unwrap();
            assert_eq!((progress.status, progress.batch), (Some(status), Some(3)));
            assert_eq!(progress.stdout.as_deref(), Some("/train.log"));
        }
    }
}

//! Answers of a simulated node to requests about its processes.

use crate::sim::job_traces;
use crate::sim::machine::{Machine, ProcessSlot, SampleRequest};
use crate::sim::workload::{WorkloadKind, YOUR_UID};
use crate::wire::body::{Answer, Detail, Process, TreeRow};
use gtop_model::{ProcessKey, ProcessRequest};

/// First pid of child processes, far from all others.
const FIRST_CHILD_PID: u32 = 1_000_000;
/// Clock ticks between the start of a process and of its children.
const CHILD_START_DELAY: u64 = 700;

impl Machine {
    /// Answers a request at `t`.
    pub fn answer(&self, t: f64, id: u64, request: ProcessRequest) -> Answer {
        let answer = match request {
            ProcessRequest::Tree(key) => self.tree(t, key),
            ProcessRequest::Signal(key, _) => {
                self.find_own_slot(t, key).map(|_| answer_with("sent"))
            }
            ProcessRequest::Environment(key) => {
                self.find_own_slot(t, key).map(|slot| self.environment(slot))
            }
            ProcessRequest::Detail(key) => {
                self.find_slot(t, key).map(|slot| self.detail(slot, t, key))
            }
        };
        Answer { id, at: self.clock(t), ..answer.unwrap_or_else(RefusedRequest::into_answer) }
    }

    fn full_process(&self, slot: &ProcessSlot, t: f64) -> Process {
        self.process(slot, t, &SampleRequest { full: true, ..SampleRequest::default() })
    }

    /// Ends a process after a signal.
    pub(crate) fn end_process(&mut self, t: f64, key: ProcessKey) {
        let found = self.find_slot(t, key).ok().filter(|_| key.pid < FIRST_CHILD_PID);
        if let Some(ended) =
            found.map(|slot| (slot.number, self.process_lifetime(slot, t).generation))
        {
            self.ended.insert(ended);
        }
    }

    /// Returns the slot of a process or of one of its children.
    fn find_slot(&self, t: f64, key: ProcessKey) -> Result<&ProcessSlot, RefusedRequest> {
        let (pid, delay) = match key.pid.checked_sub(FIRST_CHILD_PID) {
            Some(child) => (child / 2, CHILD_START_DELAY),
            None => (key.pid, 0),
        };
        let slot =
            self.live_slots(t).find(|slot| self.pid(slot, self.process_lifetime(slot, t)) == pid);
        let slot = slot.ok_or(RefusedRequest("gone", "no such process"))?;
        if self.full_process(slot, t).start + delay != key.start_ticks {
            return Err(RefusedRequest("reused", "another process has this pid now"));
        }
        Ok(slot)
    }

    fn find_own_slot(&self, t: f64, key: ProcessKey) -> Result<&ProcessSlot, RefusedRequest> {
        let slot = self.find_slot(t, key)?;
        let is_ours = self.workload(slot).is_some_and(|work| work.owner.uid == YOUR_UID);
        is_ours.then_some(slot).ok_or(RefusedRequest("refused", "it belongs to another user"))
    }

    fn environment(&self, slot: &ProcessSlot) -> Answer {
        let mut list = vec![
            "PATH=/opt/conda/bin:/usr/local/bin:/usr/bin:/bin".to_owned(),
            "HOME=/home/ada".to_owned(),
            format!("HOSTNAME={}", self.host),
            "NCCL_DEBUG=WARN".to_owned(),
            "WANDB_API_KEY=0000-not-a-secret".to_owned(),
        ];
        if let Some(job) = self.workload(slot).and_then(|work| work.job) {
            list.extend(job_traces::variables(job));
        }
        Answer { environ: Some(list), ..answer_with("ok") }
    }

    fn tree(&self, t: f64, key: Option<ProcessKey>) -> Result<Answer, RefusedRequest> {
        let slots = match key {
            Some(key) => vec![self.find_slot(t, key)?],
            None => self.live_slots(t).collect(),
        };
        let parent = self.first_pid() - 7;
        let mut rows = vec![
            system_row(1, 0, 1, "/usr/lib/systemd/systemd --system"),
            system_row(parent, 1, 2_900, &format!("{}: [step.0]", job_traces::STEP_DAEMON)),
        ];
        for slot in slots {
            let row = tree_row(&self.full_process(slot, t));
            let is_training =
                self.workload(slot).is_some_and(|work| work.kind == WorkloadKind::Training);
            let loaders = if is_training { 0..2 } else { 0..0 };
            let pids = loaders.map(|number| FIRST_CHILD_PID + row.pid * 2 + number);
            let children = pids.map(|pid| TreeRow {
                pid,
                ppid: row.pid,
                start: row.start + CHILD_START_DELAY,
                command: Some("pt_data_worker".to_owned()),
                ..row.clone()
            });
            let children: Vec<TreeRow> = children.collect();
            rows.push(row);
            rows.extend(children);
        }
        Ok(Answer { tree: Some(rows), ..answer_with("ok") })
    }

    fn detail(&self, slot: &ProcessSlot, t: f64, key: ProcessKey) -> Answer {
        let process = self.full_process(slot, t);
        let is_ours = self.workload(slot).is_some_and(|work| work.owner.uid == YOUR_UID);
        let [cwd, exe] = ["/scratch/ada/run", "/opt/conda/bin/python3.11"]
            .map(|path| is_ours.then(|| path.to_owned()));
        let limits = [
            ["Max open files", "65536", "1048576"],
            ["Max locked memory", "unlimited", "unlimited"],
        ];
        let detail = Detail {
            row: TreeRow { pid: key.pid, start: key.start_ticks, ..tree_row(&process) },
            threads: 112.into(),
            nice: 0.0.into(),
            vsize: (96_u64 << 30).into(),
            swap: 0.into(),
            cwd,
            exe,
            cgroup: process.statics.and_then(|statics| statics.cgroup),
            wchan: Some("futex_wait_queue".to_owned()),
            io: is_ours.then_some([9_123_456_789, 1_234_567, 8_000_000_000, 1_200_000]),
            limits: limits.map(|limit| limit.map(str::to_owned)).to_vec(),
            ..Detail::default()
        };
        Answer { detail: Some(Box::new(detail)), ..answer_with("ok") }
    }
}

fn answer_with(result: &str) -> Answer {
    Answer { result: result.to_owned(), ..Answer::default() }
}

/// Why a request is refused: result and reason.
struct RefusedRequest(&'static str, &'static str);

impl RefusedRequest {
    fn into_answer(self) -> Answer {
        let Self(result, why) = self;
        Answer { why: Some(why.to_owned()), ..answer_with(result) }
    }
}

fn tree_row(process: &Process) -> TreeRow {
    let statics = process.statics.as_deref().cloned().unwrap_or_default();
    TreeRow {
        pid: process.pid,
        ppid: statics.parents.first().map_or(0, |(pid, ..)| *pid),
        start: process.start,
        uid: statics.uid,
        user: statics.user,
        state: process.state.clone(),
        cpu: process.cpu,
        rss: process.rss,
        command: statics.command,
    }
}

fn system_row(pid: u32, parent: u32, start: u64, command: &str) -> TreeRow {
    TreeRow {
        pid,
        ppid: parent,
        start,
        uid: 0.into(),
        user: Some("root".to_owned()),
        state: Some("S".to_owned()),
        cpu: 40.into(),
        rss: (9_u64 << 20).into(),
        command: Some(command.to_owned()),
    }
}

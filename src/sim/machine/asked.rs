//! What a simulated node answers when somebody asks about its processes.

use crate::model::{ProcessKey, ProcessRequest};
use crate::sim::machine::{Ask, Machine, Slot};
use crate::sim::work::Kind;
use crate::wire::body::{Answer, Detail, Process, TreeRow};

/// The user the simulated probe runs as.
const OURS: u32 = 1001;
/// Where pids of a process's own children begin, far from all others.
const CHILDREN: u32 = 1_000_000;
/// Clock ticks from the start of a process to that of its children.
const LATER: u64 = 700;

impl Machine {
    /// Returns the answer to a question asked at `t`.
    pub fn answer(&self, t: f64, id: u64, question: ProcessRequest) -> Answer {
        let answer = match question {
            ProcessRequest::Tree(key) => self.tree(t, key),
            ProcessRequest::Signal(key, _) => self.owned(t, key).map(|_| result("sent")),
            ProcessRequest::Environment(key) => {
                self.owned(t, key).map(|slot| self.environment(slot))
            }
            ProcessRequest::Detail(key) => self.found(t, key).map(|slot| self.detail(slot, t, key)),
        };
        Answer { id, at: self.clock(t), ..answer.unwrap_or_else(Refused::answer) }
    }

    fn told(&self, slot: &Slot, t: f64) -> Process {
        self.process(slot, t, &Ask { full: true, ..Ask::default() })
    }

    /// Ends a process, as a signal does that went to it.
    pub fn end(&mut self, t: f64, key: ProcessKey) {
        let found = self.found(t, key).ok().filter(|_| key.pid < CHILDREN);
        if let Some(one) = found.map(|slot| (slot.number, self.life(slot, t).generation)) {
            self.ended.insert(one);
        }
    }

    /// Returns whose process it is; those below it count as itself.
    fn found(&self, t: f64, key: ProcessKey) -> Result<&Slot, Refused> {
        let (pid, later) = match key.pid.checked_sub(CHILDREN) {
            Some(child) => (child / 2, LATER),
            None => (key.pid, 0),
        };
        let slot = self.living(t).find(|slot| self.pid(slot, self.life(slot, t)) == pid);
        let slot = slot.ok_or(Refused("gone", "no such process"))?;
        if self.told(slot, t).start + later != key.start_ticks {
            return Err(Refused("reused", "another process has this pid now"));
        }
        Ok(slot)
    }

    fn owned(&self, t: f64, key: ProcessKey) -> Result<&Slot, Refused> {
        let slot = self.found(t, key)?;
        let is_ours = self.works.get(slot.work).is_some_and(|work| work.owner.uid == OURS);
        is_ours.then_some(slot).ok_or(Refused("refused", "it belongs to another user"))
    }

    fn environment(&self, slot: &Slot) -> Answer {
        let mut list = vec![
            "PATH=/opt/conda/bin:/usr/local/bin:/usr/bin:/bin".to_owned(),
            "HOME=/home/ada".to_owned(),
            format!("HOSTNAME={}", self.host),
            "NCCL_DEBUG=WARN".to_owned(),
            "WANDB_API_KEY=0000-not-a-secret".to_owned(),
        ];
        if let Some(job) = self.works.get(slot.work).and_then(|work| work.job) {
            list.push(format!("SLURM_JOB_ID={job}"));
            list.push("SLURM_STEP_ID=0".to_owned());
        }
        Answer { environ: Some(list), ..result("ok") }
    }

    fn tree(&self, t: f64, key: Option<ProcessKey>) -> Result<Answer, Refused> {
        let meant = match key {
            Some(key) => vec![self.found(t, key)?],
            None => self.living(t).collect(),
        };
        let parent = self.first_pid() - 7;
        let mut rows = vec![
            system(1, 0, 1, "/usr/lib/systemd/systemd --system"),
            system(parent, 1, 2_900, "slurmstepd: [step.0]"),
        ];
        for slot in meant {
            let row = row(&self.told(slot, t));
            let is_training =
                self.works.get(slot.work).is_some_and(|work| work.kind == Kind::Training);
            let loaders = if is_training { 0..2 } else { 0..0 };
            let pids = loaders.map(|number| CHILDREN + row.pid * 2 + number);
            let children = pids.map(|pid| TreeRow {
                pid,
                ppid: row.pid,
                start: row.start + LATER,
                command: Some("pt_data_worker".to_owned()),
                ..row.clone()
            });
            let children: Vec<TreeRow> = children.collect();
            rows.push(row);
            rows.extend(children);
        }
        Ok(Answer { tree: Some(rows), ..result("ok") })
    }

    fn detail(&self, slot: &Slot, t: f64, key: ProcessKey) -> Answer {
        let told = self.told(slot, t);
        let is_ours = self.works.get(slot.work).is_some_and(|work| work.owner.uid == OURS);
        let own = |text: &str| is_ours.then(|| text.to_owned());
        let limit = |name: &str, soft: &str, hard: &str| [name, soft, hard].map(str::to_owned);
        let detail = Detail {
            row: TreeRow { pid: key.pid, start: key.start_ticks, ..row(&told) },
            threads: 112.into(),
            nice: 0.0.into(),
            vsize: (96_u64 << 30).into(),
            swap: 0.into(),
            cwd: own("/scratch/ada/run"),
            exe: own("/opt/conda/bin/python3.11"),
            cgroup: told.statics.and_then(|statics| statics.cgroup),
            wchan: Some("futex_wait_queue".to_owned()),
            io: is_ours.then_some([9_123_456_789, 1_234_567, 8_000_000_000, 1_200_000]),
            limits: vec![
                limit("Max open files", "65536", "1048576"),
                limit("Max locked memory", "unlimited", "unlimited"),
            ],
            ..Detail::default()
        };
        Answer { detail: Some(Box::new(detail)), ..result("ok") }
    }
}

fn result(word: &str) -> Answer {
    Answer { result: word.to_owned(), ..Answer::default() }
}

/// Why a question has no better answer.
struct Refused(&'static str, &'static str);

impl Refused {
    fn answer(self) -> Answer {
        let Self(word, why) = self;
        Answer { why: Some(why.to_owned()), ..result(word) }
    }
}

fn row(told: &Process) -> TreeRow {
    let statics = told.statics.as_deref().cloned().unwrap_or_default();
    TreeRow {
        pid: told.pid,
        ppid: statics.parents.first().map_or(0, |(pid, ..)| *pid),
        start: told.start,
        uid: statics.uid,
        user: statics.user,
        state: told.state.clone(),
        cpu: told.cpu,
        rss: told.rss,
        command: statics.command,
    }
}

fn system(pid: u32, parent: u32, start: u64, command: &str) -> TreeRow {
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

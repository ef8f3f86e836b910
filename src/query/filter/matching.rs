//! Matches nodes, devices and processes against a filter.

use std::borrow::Cow;
use std::sync::Arc;

use crate::fleet::{Node, allocated_on};
use crate::metrics::{JobAt, Usage, Value};
use crate::model::{Device, Job, JobId, Link, Reason};
use crate::query::filter::operand::Operand;
use crate::query::filter::{Comparison, Filter, FilterField, Predicate, StateWord, Term};
use crate::time::Timestamp;

/// Utilization below which a device counts as idle, in percent.
const ACTIVE_PERCENT: f32 = 5.0;

/// One combination of node, device, process and job that terms are matched against.
#[derive(Clone, Copy)]
struct FilterRow<'a> {
    node: &'a Node,
    device: Option<&'a Device>,
    usage: Option<&'a Usage>,
    /// The job the process belongs to, or to which the device or node is allocated.
    job: Option<&'a Job>,
    now: Timestamp,
}

impl Filter {
    /// Returns true if the node, or a device or process on it, matches.
    pub fn matches_node(&self, node: &Node, now: Timestamp) -> bool {
        self.terms.is_empty() || self.matches_rows(&self.rows_of_node(node, now))
    }

    /// Returns true if the device, or a process on it, matches.
    pub fn matches_device(&self, node: &Node, device: &Device, now: Timestamp) -> bool {
        let rows = || self.rows(node, std::slice::from_ref(device), now);
        self.terms.is_empty() || self.matches_rows(&rows())
    }

    /// Returns true if the process on this device matches.
    pub fn matches_usage(
        &self,
        node: &Node,
        device: Option<&Device>,
        usage: &Usage,
        now: Timestamp,
    ) -> bool {
        let job = self.listed_job(usage);
        let parts = [RowParts { device, usage: Some(Cow::Borrowed(usage)), job }];
        self.terms.is_empty() || self.matches_rows(&Rows { node, parts: parts.into(), now })
    }

    /// Returns true if one row matches every positive term and no row matches a negated one.
    fn matches_rows(&self, rows: &Rows<'_>) -> bool {
        let (negated, positive): (Vec<&Term>, Vec<&Term>) =
            self.terms.iter().partition(|term| term.is_negated);
        rows.iter().any(|row| positive.iter().all(|term| term.predicate.matches(row)))
            && !rows.iter().any(|row| negated.iter().any(|term| term.predicate.matches(row)))
    }
}

/// A device with one of its processes, or with one of the jobs it is allocated to.
struct RowParts<'a> {
    device: Option<&'a Device>,
    usage: Option<Cow<'a, Usage>>,
    job: Option<&'a Job>,
}

/// All rows of a node or of one of its devices.
struct Rows<'a> {
    node: &'a Node,
    parts: Vec<RowParts<'a>>,
    now: Timestamp,
}

impl Rows<'_> {
    fn iter(&self) -> impl Iterator<Item = FilterRow<'_>> {
        self.parts.iter().map(|parts| FilterRow {
            node: self.node,
            device: parts.device,
            usage: parts.usage.as_deref(),
            job: parts.job,
            now: self.now,
        })
    }
}

impl Filter {
    fn rows<'a>(&'a self, node: &'a Node, devices: &'a [Device], now: Timestamp) -> Rows<'a> {
        let mut parts = vec![];
        let listed: Vec<_> = self.jobs.iter().flat_map(|jobs| jobs.on_node(&node.name)).collect();
        let allocated = allocated_on(node, &listed);
        for device in devices {
            let count = parts.len();
            parts.extend(Usage::of(node, device).map(|usage| {
                let job = self.listed_job(&usage);
                RowParts { device: Some(device), usage: Some(Cow::Owned(usage)), job }
            }));
            let jobs_here = allocated.iter().filter(|(_, uuid)| *uuid == device.uuid);
            parts.extend(jobs_here.map(|(job, _)| RowParts {
                device: Some(device),
                usage: None,
                job: Some(*job),
            }));
            if parts.len() == count {
                parts.push(RowParts { device: Some(device), usage: None, job: None });
            }
        }
        if parts.is_empty() {
            parts.push(RowParts { device: None, usage: None, job: None });
        }
        Rows { node, parts, now }
    }

    /// Returns the rows of a whole node, including its jobs without known devices.
    fn rows_of_node<'a>(&'a self, node: &'a Node, now: Timestamp) -> Rows<'a> {
        let mut rows = self.rows(node, &node.devices, now);
        let jobs = self.jobs.iter().flat_map(|jobs| jobs.on_node(&node.name));
        rows.parts.extend(jobs.map(|(job, _)| RowParts {
            device: None,
            usage: None,
            job: Some(job),
        }));
        rows
    }

    fn listed_job(&self, usage: &Usage) -> Option<&Job> {
        self.jobs.as_ref()?.by_process_job_id(process_job_id(usage)?)
    }
}

/// Returns the job id of a process, from its cgroup.
fn process_job_id(usage: &Usage) -> Option<&JobId> {
    let seen = usage.process.as_ref().map(|process| &*process.statics);
    let statics = seen.or_else(|| usage.unseen.as_ref().map(|unseen| &unseen.statics));
    statics?.job.as_ref()
}

impl Predicate {
    fn matches(&self, row: FilterRow<'_>) -> bool {
        match self {
            Self::Word(word) => {
                searchable_names(row).any(|name| name.to_lowercase().contains(word.as_str()))
            }
            Self::StateWord(state) => state.matches(row),
            Self::Compare(FilterField::Job, comparison, operand) => {
                matches_job_id(row, *comparison, operand)
            }
            Self::Compare(field, comparison, operand) => {
                field.value(row).is_some_and(|value| operand.matches(*comparison, &value))
            }
        }
    }
}

/// Returns true if the job id of a row matches. A job has several ids: `11` for processes, `2_1` for users,
/// and `2` as a member of its array.
fn matches_job_id(row: FilterRow<'_>, comparison: Comparison, operand: &Operand) -> bool {
    let shown = row.job.map(|job| &*job.shown_id);
    let whole = shown.and_then(|shown| shown.split(['_', '+']).next());
    let id = row.job.map(|job| &job.id).or_else(|| process_job_id(row.usage?)).map(JobId::as_str);
    let matches = |name: &str| operand.matches(comparison, &Value::Text(name.into()));
    let mut ids = [id, shown, whole].into_iter().flatten().peekable();
    if ids.peek().is_none() {
        let unknown = Value::Unknown(Reason::NotAvailable);
        return row.usage.is_some() && operand.matches(comparison, &unknown);
    }
    match comparison {
        Comparison::Unequal | Comparison::NotContains => ids.all(matches),
        Comparison::Equal | Comparison::Contains => ids.any(matches),
        Comparison::Less | Comparison::AtMost | Comparison::More | Comparison::AtLeast => {
            id.is_some_and(matches)
        }
    }
}

/// Returns the names of a row that a word may match.
fn searchable_names(row: FilterRow<'_>) -> impl Iterator<Item = Cow<'_, str>> {
    let device = row.device.into_iter().flat_map(|device| {
        let name = device.name.known().map(|name| &**name);
        [Some(&*device.uuid), name].into_iter().flatten().map(Into::into)
    });
    let statics =
        row.usage.and_then(|usage| usage.process.as_ref()).map(|process| &process.statics);
    let of_process = statics.into_iter().flat_map(|statics| {
        let user = statics.user.known().map(|user| &**user);
        let command = statics.command.known().map(|command| &**command);
        let job = statics.job.as_ref().map(JobId::as_str);
        [user, command, job].into_iter().flatten().map(Into::into)
    });
    let driver = row.usage.and_then(|usage| usage.used.driver_name.as_deref()).map(Into::into);
    let job = row.job.into_iter().flat_map(|job| [&*job.shown_id, &*job.name, &*job.user]);
    let job = job.map(Into::into);
    std::iter::once(row.node.name.as_str().into())
        .chain(device)
        .chain(of_process)
        .chain(driver)
        .chain(job)
}

impl StateWord {
    fn matches(self, row: FilterRow<'_>) -> bool {
        let FilterRow { node, device, .. } = row;
        match self {
            Self::Fresh => is_fresh(row),
            Self::Stale => node.taken_at().is_some() && !is_fresh(row),
            Self::Up => matches!(node.link, Link::Up),
            Self::Down => matches!(node.link, Link::Down { .. }),
            Self::Fault => {
                node.fault().is_some() || device.is_some_and(|device| device.fault.is_some())
            }
            Self::Throttled => device.is_some_and(is_throttled),
            Self::Busy => is_active(device) == Some(true),
            Self::Idle => is_active(device) == Some(false),
            Self::Free => row.usage.is_none() && row.job.is_none() && device.is_some_and(is_free),
        }
    }
}

/// Returns true if nothing runs on a device; a TPU chip is free if no process has it open.
fn is_free(device: &Device) -> bool {
    match &device.tpu {
        Some(_) => device.is_open() == Some(false),
        None => is_active(Some(device)) == Some(false),
    }
}

/// Returns true if clocks are throttled by heat, by the power supply, or by the hardware for another reason;
/// the software power limit is normal and does not count.
fn is_throttled(device: &Device) -> bool {
    device.throttle.get().is_some_and(|throttle| {
        throttle.is_thermal() || throttle.is_power_brake() || throttle.is_hardware_slowdown()
    })
}

fn is_active(device: Option<&Device>) -> Option<bool> {
    device?.utilization.get().map(|share| share.get() >= ACTIVE_PERCENT)
}

fn is_fresh(row: FilterRow<'_>) -> bool {
    let index = row
        .device
        .and_then(|device| row.node.devices.iter().position(|other| other.uuid == device.uuid));
    match index {
        Some(index) => row.node.device_freshness(index, row.now).is_fresh(),
        None => row.node.freshness(row.now).is_fresh(),
    }
}

impl FilterField {
    /// Returns the value of the field; `None` if the row has no such field.
    fn value(self, row: FilterRow<'_>) -> Option<Value> {
        Some(match self {
            Self::Node => Value::Text(row.node.name.as_str().into()),
            Self::Index => match row.device?.index.get() {
                Some(index) => Value::Integer(index.into()),
                None => Value::Unknown(Reason::NotSampled),
            },
            Self::Uuid => Value::Text(Arc::clone(&row.device?.uuid)),
            Self::Pid => Value::Integer(row.usage?.used.pid.into()),
            Self::MemoryShare => match row.device?.memory_share() {
                Some(share) => Value::Number(share.get()),
                None => Value::Unknown(Reason::NotAvailable),
            },
            Self::Host(field) => (field.read)(row.node),
            Self::Device(field) => (field.read)(row.device?),
            Self::Process(field) => (field.read)(row.usage?),
            // Compared by `is_job`, since a job has several ids.
            Self::Job => return None,
            Self::OfJob(field) => (field.read)(&JobAt { job: row.job?.clone(), now: row.now }),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fleet::Process;
    use crate::model::{
        Allocation, Bytes, DeviceAllocation, DeviceUse, JobList, NodeName, Percent, ProcessKey,
        ProcessStatics, Reading, Throttle,
    };

    fn device(uuid: &str, util: Option<f32>, throttle: u64) -> Device {
        Device {
            uuid: uuid.into(),
            name: Reading::Known("H100 80GB".into()),
            utilization: util.and_then(Percent::new).map_or_else(Reading::default, Reading::Known),
            memory_total: Reading::Known(Bytes(80 << 30)),
            memory_used: Reading::Known(Bytes(60 << 30)),
            throttle: Reading::Known(Throttle(throttle)),
            ..Device::default()
        }
    }

    /// A busy device of alice's, an idle throttled one without a user, and one that reports nothing.
    fn node() -> Node {
        let mut node = Node::new(NodeName::new("gpu07").unwrap(), Duration::ZERO);
        node.devices = vec![
            device("GPU-a", Some(97.0), 0),
            device("GPU-b", Some(1.0), 0x40),
            device("GPU-c", None, 0),
        ];
        node.uses = vec![DeviceUse {
            device: "GPU-a".into(),
            pid: 7,
            memory: Reading::Known(Bytes(50 << 30)),
            ..DeviceUse::default()
        }]
        .into();
        let statics = ProcessStatics {
            user: Reading::Known("alice".into()),
            command: Reading::Known("python train.py --lr 1".into()),
            ..ProcessStatics::default()
        };
        let key = ProcessKey { pid: 7, start_ticks: 1 };
        node.processes =
            vec![Process { key, statics: Arc::new(statics), ..Process::default() }].into();
        node
    }

    #[test]
    fn a_node_without_a_sample_is_neither_fresh_nor_stale() {
        let second = Duration::from_secs(1);
        let seen = |taken_at: Option<Timestamp>| {
            let mut node = Node::new(NodeName::new("gpu07").unwrap(), Duration::ZERO);
            node.sources = vec![crate::fleet::SourceState {
                source: crate::model::Source::host(),
                taken_at,
                interval: second,
                fault: None,
                absent: None,
            }];
            node
        };
        let now = Timestamp::default().plus(second * 1000);
        let never_sampled = Node::new(NodeName::new("gpu07").unwrap(), Duration::ZERO);
        for (what, node, fresh, stale) in [
            ("never asked", never_sampled, false, false),
            ("never answered", seen(None), false, false),
            ("new", seen(Some(now)), true, false),
            ("old", seen(Some(now.minus(second * 100))), false, true),
        ] {
            let matches = |text: &str| Filter::new(text).unwrap().matches_node(&node, now);
            assert_eq!((matches("fresh"), matches("stale")), (fresh, stale), "{what}");
            assert_eq!((matches("!fresh"), matches("!stale")), (!fresh, !stale), "{what}");
            assert_eq!(matches("!fresh !stale"), !fresh && !stale, "{what}");
        }
    }

    #[test]
    fn a_chip_is_free_only_if_it_is_known_that_no_process_has_it_open() {
        let chip = |is_held| {
            let tpu = crate::model::TpuDetails { is_held, ..crate::model::TpuDetails::default() };
            Device { tpu: Some(Arc::new(tpu)), ..Device::default() }
        };
        assert!(is_free(&chip(Reading::Known(false))));
        assert!(!is_free(&chip(Reading::Known(true))));
        assert!(!is_free(&chip(Reading::Unknown(Reason::NoPermission))));
        assert!(!is_free(&Device::default()));
    }

    #[test]
    fn all_terms_must_match_the_same_device_and_process() {
        let node = node();
        let matches = |text: &str| {
            let filter = Filter::new(text).unwrap();
            let devices = node.devices.iter();
            let of_devices: String = devices
                .map(|device| {
                    if filter.matches_device(&node, device, Timestamp::default()) {
                        '+'
                    } else {
                        '.'
                    }
                })
                .collect();
            (filter.matches_node(&node, Timestamp::default()), of_devices)
        };
        for (text, on_node, on_devices) in [
            ("", true, "+++"),
            ("alice", true, "+.."),
            ("gpu07", true, "+++"),
            ("ALICE util>50", true, "+.."),
            ("alice util<50", false, "..."),
            ("util<10", true, ".+."),
            ("util=unknown", true, "..+"),
            ("idle", true, ".+."),
            ("free", true, ".+."),
            ("busy user=al*", true, "+.."),
            ("!alice", false, ".++"),
            ("!user=bob", true, "+++"),
            ("!alice !throttled", false, "..+"),
            ("!alice !user=bob", false, ".++"),
            ("!user=bob !alice", false, ".++"),
            ("!busy !idle", false, "..+"),
            ("user!=bob", true, "+.."),
            ("mem>50%", true, "+++"),
            ("mem>70GiB", false, "..."),
            ("gpumem>=50g", true, "+.."),
            ("throttled", true, ".+."),
            ("node~gpu0", true, "+++"),
            ("node=gpu0", false, "..."),
            ("node=gpu0*", true, "+++"),
            ("pid=7", true, "+.."),
            ("command~'train.py --lr'", true, "+.."),
            ("down", false, "..."),
        ] {
            assert_eq!(matches(text), (on_node, on_devices.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_node_without_devices_is_found_by_its_name() {
        let node = Node::new(NodeName::new("login1").unwrap(), Duration::ZERO);
        let matches =
            |text: &str| Filter::new(text).unwrap().matches_node(&node, Timestamp::default());
        assert!(matches("login"));
        assert!(!matches("util<10"));
        assert!(!matches("free"));
    }

    fn job(id: &str, shown: &str, name: &str, devices: DeviceAllocation) -> Job {
        let node = NodeName::new("gpu07").unwrap();
        Job {
            shown_id: shown.into(),
            name: name.into(),
            account: Some("phys".into()),
            ends_at: Some(Timestamp::default().plus(Duration::from_secs(1800))),
            allocations: [Allocation { node, devices }].into(),
            ..Job::example(id)
        }
    }

    /// The process on the first device belongs to job 11; the second device is allocated to job 12.
    #[test]
    fn job_fields_match_processes_and_allocated_devices() {
        let mut node = node();
        let mut processes = node.processes.to_vec();
        let statics = &mut processes[0].statics;
        *statics = Arc::new(ProcessStatics { job: JobId::new("11"), ..(**statics).clone() });
        node.processes = processes.into();
        let jobs = vec![
            job("11", "2_1", "train llama", DeviceAllocation::Unknown),
            job("12", "12", "eval", DeviceAllocation::Indices([1].into())),
            Job { partition: "cpu".into(), ..job("13", "13", "prepare", DeviceAllocation::None) },
        ];
        let list = Arc::new(JobList { jobs, ..JobList::default() });
        let now = Timestamp::default();
        let matches = |text: &str, list: Option<&Arc<JobList>>| {
            let filter = Filter::new(text).unwrap().with_jobs(list);
            let mark = |device| if filter.matches_device(&node, device, now) { '+' } else { '.' };
            let usage = Usage::of(&node, &node.devices[0]).next().unwrap();
            let of_usage = filter.matches_usage(&node, node.devices.first(), &usage, now);
            let of_devices: String = node.devices.iter().map(mark).collect();
            (filter.matches_node(&node, now), of_devices, of_usage)
        };
        for (text, on_node, on_devices, on_usage) in [
            ("job=11", true, "+..", true),
            ("job=2_1", true, "+..", true),
            ("job=2", true, "+..", true),
            ("job=2_*", true, "+..", true),
            ("job=12", true, ".+.", false),
            ("job=13", true, "...", false),
            ("job=1", false, "...", false),
            ("job!=11", true, ".+.", false),
            ("!job=11", false, ".++", false),
            ("job>11", true, ".+.", false),
            ("job=11 util>50", true, "+..", true),
            ("job=12 util>50", false, "...", false),
            ("jobname~llama", true, "+..", true),
            ("jobname='train llama'", true, "+..", true),
            ("jobuser=alice job=12", true, ".+.", false),
            ("partition=gpu", true, "++.", true),
            ("partition=cpu", true, "...", false),
            ("account=phys jobstate=running jobname=eval", true, ".+.", false),
            ("left<1h", true, "++.", true),
            ("jobleft>1h", false, "...", false),
            ("llama", true, "+..", true),
            ("free", false, "...", false),
        ] {
            let found = matches(text, Some(&list));
            assert_eq!(found, (on_node, on_devices.to_owned(), on_usage), "{text}");
        }
        // Without a scheduler, only processes have a job id.
        assert_eq!(matches("job=11", None), (true, "+..".to_owned(), true));
        assert_eq!(matches("jobname~llama", None), (false, "...".to_owned(), false));
        assert_eq!(matches("job=unknown", None), (false, "...".to_owned(), false));
    }
}

//! Matches nodes, devices and processes against a filter.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::metrics::{Field, JobAt, Usage, Value};
use crate::query::filter::expression::{Conditions, Expression};
use crate::query::filter::operand::Operand;
use crate::query::filter::words::StateWord;
use crate::query::filter::{Comparison, Filter, FilterField, Predicate};
use crate::{DeviceState, Health, Holder, Node, NodeCount};
use gtop_local::time::Timestamp;
use gtop_model::{Device, Job, JobId, Link, NodeName, PART_MARKS, Percent, Reason, Throttle};

/// What of a node matches a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeMatch {
    /// The node, or a device or process on it, matches.
    pub is_match: bool,
    /// Those of [`Node::device_positions`] that match.
    pub devices: Vec<usize>,
    /// The number of devices that do not match only because a compared value of theirs is unknown.
    pub unknown_devices: usize,
}

/// One combination of node, device, process and job that terms are matched against.
#[derive(Clone)]
pub(super) struct FilterRow<'a> {
    pub(super) counts: &'a Counts<'a>,
    pub(super) device: Option<&'a Device>,
    /// The position of the device, see [`Node::device_positions`]; `None` if its slices count instead.
    pub(super) position: Option<usize>,
    pub(super) usage: Option<Cow<'a, Usage>>,
    /// Who held the device, where it is not known by which processes.
    pub(super) holder: Option<&'a Holder>,
    /// The job the process belongs to, or to which the device or node is allocated.
    pub(super) job: Option<&'a Job>,
}

/// What a node and its devices count as in summaries; found on first use, once for all rows.
pub(super) struct Counts<'a> {
    node: &'a Node,
    now: Timestamp,
    of_node: OnceCell<NodeCount>,
    /// By position.
    of_devices: Vec<OnceCell<Option<DeviceState>>>,
    /// The node stands for none: a job waits for its nodes.
    is_nowhere: bool,
}

/// The node of jobs that wait for theirs.
static NOWHERE: LazyLock<Option<Node>> =
    LazyLock::new(|| Some(Node::new(NodeName::new("nowhere").ok()?, Duration::ZERO)));

impl<'a> Counts<'a> {
    pub(super) fn new(node: &'a Node, now: Timestamp) -> Self {
        let of_devices = node.devices.iter().map(|_| OnceCell::new()).collect();
        Self { node, now, of_node: OnceCell::new(), of_devices, is_nowhere: false }
    }

    fn node(&self) -> NodeCount {
        *self.of_node.get_or_init(|| NodeCount::of(self.node, self.now))
    }

    fn device(&self, position: usize) -> Option<DeviceState> {
        if let Some(known) = self.node.reported() {
            return Some(DeviceState::of_reported(known).get(position)?.0);
        }
        let known = self.of_devices.get(position)?;
        *known.get_or_init(|| DeviceState::of(self.node, position, self.now))
    }

    /// Returns true if the scheduler allocated the device to a job; `None` if that is not known.
    fn is_allocated(&self, position: usize) -> Option<bool> {
        let device = self.node.devices.get(position).filter(|_| self.node.reported().is_none())?;
        self.node.holdings.device(&device.uuid).is_allocated()
    }
}

impl Filter {
    /// Returns what of a node matches: devices one by one, then what is there besides them.
    pub fn match_node(&self, node: &Node, now: Timestamp) -> NodeMatch {
        let counts = Counts::new(node, now);
        let rows = self.rows_of_node(&counts);
        let mut found = NodeMatch::default();
        for position in node.device_positions() {
            let of_device = rows.iter().filter(|row| row.position == Some(position));
            let evaluation = Evaluation::new(&self.conditions, of_device);
            if evaluation.matches() {
                found.devices.push(position);
            } else if evaluation.could_match() {
                found.unknown_devices += 1;
            }
        }
        found.is_match = !found.devices.is_empty() || self.matches_any(&rows);
        found
    }

    fn matches_any(&self, rows: &[FilterRow<'_>]) -> bool {
        Evaluation::new(&self.conditions, rows.iter()).matches()
    }

    /// Returns true if a job that waits for its nodes matches, by what is known of the job; a term about nodes, devices or
    /// processes is not true of it.
    pub fn matches_waiting_job(&self, job: &Job, now: Timestamp) -> bool {
        let Some(node) = &*NOWHERE else { return false };
        let counts = Counts { is_nowhere: true, ..Counts::new(node, now) };
        self.matches_any(&[FilterRow { job: Some(job), ..FilterRow::of(&counts) }])
    }

    /// Returns true if a job matches of which it is not known which devices of a node it has: they may be any.
    pub(crate) fn matches_job_on(&self, node: &Node, job: &Job, now: Timestamp) -> bool {
        let counts = Counts::new(node, now);
        let units = node.units().map(|(position, unit)| FilterRow {
            device: Some(unit),
            position: Some(position),
            job: Some(job),
            ..FilterRow::of(&counts)
        });
        let without_device = FilterRow { job: Some(job), ..FilterRow::of(&counts) };
        self.matches_any(&units.chain([without_device]).collect::<Vec<_>>())
    }

    /// Returns true if the process on this device matches.
    pub fn matches_usage(
        &self,
        node: &Node,
        device: Option<&Device>,
        usage: &Usage,
        now: Timestamp,
    ) -> bool {
        if self.is_empty() {
            return true;
        }
        let mut units = node.units();
        let position = device
            .and_then(|device| units.find(|(_, unit)| unit.uuid == device.uuid))
            .map(|(position, _)| position);
        let counts = &Counts::new(node, now);
        let (usage, job) = (Some(Cow::Borrowed(usage)), self.listed_job(usage));
        self.matches_any(&[FilterRow { device, position, usage, job, ..FilterRow::of(counts) }])
    }
}

/// Whether an unknown value matches a comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UnknownValues {
    Differ,
    Match,
}

/// The rows of a node, a device or a process, matched against the conditions of a filter.
pub(super) struct Evaluation<'a> {
    conditions: &'a Conditions,
    rows: Vec<&'a FilterRow<'a>>,
    /// For each negated expression, whether no row matches it; computed on first use.
    is_absent: Vec<OnceCell<bool>>,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(
        conditions: &'a Conditions,
        rows: impl Iterator<Item = &'a FilterRow<'a>>,
    ) -> Self {
        let is_absent = conditions.negated.iter().map(|_| OnceCell::new()).collect();
        Self { conditions, rows: rows.collect(), is_absent }
    }

    fn matches(&self) -> bool {
        self.any_row(self.conditions.matched.as_ref(), UnknownValues::Differ)
    }

    /// Returns which rows match.
    pub(super) fn matches_each(&self) -> Vec<bool> {
        let Some(matched) = &self.conditions.matched else { return vec![true; self.rows.len()] };
        let rows = self.rows.iter();
        rows.map(|row| self.holds(matched, row, UnknownValues::Differ)).collect()
    }

    /// Returns true if a row would match with other values in place of those that are unknown.
    fn could_match(&self) -> bool {
        self.any_row(self.conditions.matched.as_ref(), UnknownValues::Match)
    }

    fn any_row(&self, expression: Option<&Expression>, unknown: UnknownValues) -> bool {
        let Some(expression) = expression else { return true };
        self.rows.iter().any(|row| self.holds(expression, row, unknown))
    }

    fn holds(&self, expression: &Expression, row: &FilterRow<'_>, unknown: UnknownValues) -> bool {
        match expression {
            Expression::Is(predicate) => {
                predicate.matches(row)
                    || (unknown == UnknownValues::Match && predicate.reads_unknown(row))
            }
            Expression::All(parts) => parts.iter().all(|part| self.holds(part, row, unknown)),
            Expression::Any(parts) => parts.iter().any(|part| self.holds(part, row, unknown)),
            Expression::Not(index) => {
                let negated = self.conditions.negated.get(*index);
                self.is_absent.get(*index).is_some_and(|known| {
                    *known.get_or_init(|| !self.any_row(negated, UnknownValues::Differ))
                })
            }
        }
    }
}

impl Filter {
    /// Returns the rows of a node: those of its devices, and its jobs without known devices.
    fn rows_of_node<'a>(&'a self, counts: &'a Counts<'a>) -> Vec<FilterRow<'a>> {
        let node = counts.node;
        let mut rows = vec![];
        let is_reported = node.reported().is_some();
        if is_reported {
            let positions = node.device_positions().map(Some);
            rows.extend(positions.map(|position| FilterRow { position, ..FilterRow::of(counts) }));
        }
        let mut units = node.units().map(|(position, _)| position).peekable();
        for (index, device) in node.devices.iter().enumerate().filter(|_| !is_reported) {
            let (count, position) = (rows.len(), units.next_if_eq(&index));
            if self.reads_processes {
                rows.extend(Usage::of(node, device).map(|usage| {
                    let (job, usage) = (self.listed_job(&usage), Some(Cow::Owned(usage)));
                    FilterRow {
                        usage,
                        job,
                        device: Some(device),
                        position,
                        ..FilterRow::of(counts)
                    }
                }));
            }
            let claims = node.device_holdings(index).claims.iter();
            let jobs_here = claims.filter(|claim| claim.is_allocation());
            let jobs_here = jobs_here.filter_map(|claim| self.jobs.job(claim.holder.job.as_ref()?));
            let device = Some(device);
            rows.extend(jobs_here.map(|job| FilterRow {
                device,
                position,
                job: Some(job),
                ..FilterRow::of(counts)
            }));
            if rows.len() == count {
                rows.push(FilterRow { device, position, ..FilterRow::of(counts) });
            }
        }
        if rows.is_empty() {
            rows.push(FilterRow::of(counts));
        }
        let jobs = self.jobs.on_node(&node.name).into_iter().map(|(job, _)| Some(job));
        rows.extend(jobs.map(|job| FilterRow { job, ..FilterRow::of(counts) }));
        rows
    }

    fn listed_job(&self, usage: &Usage) -> Option<&Job> {
        self.jobs.job(usage.statics()?.job.as_ref()?)
    }
}

impl Predicate {
    pub(super) fn matches(&self, row: &FilterRow<'_>) -> bool {
        match self {
            // Only what is of jobs can be true of a job without nodes.
            _ if row.counts.is_nowhere && !self.reads_jobs() => false,
            Self::Word(word) => {
                searchable_names(row).any(|name| name.to_lowercase().contains(word.as_str()))
            }
            Self::StateWord(state) => state.matches(row),
            Self::Compare(FilterField::Job, comparison, operand) => {
                matches_job_id(row, *comparison, operand)
            }
            Self::Compare(field, comparison, operand) => {
                let names = field.names(row);
                if names.is_empty() || comparison.is_order() {
                    return field
                        .value(row)
                        .is_some_and(|value| operand.matches(*comparison, &value));
                }
                matches_name(names.iter().map(|name| &**name), *comparison, operand)
            }
        }
    }

    /// Returns true if it compares a value that is unknown, and not with `unknown`.
    fn reads_unknown(&self, row: &FilterRow<'_>) -> bool {
        match self {
            Self::Compare(_, _, Operand::Unknown) | Self::Word(_) | Self::StateWord(_) => false,
            Self::Compare(field, ..) => matches!(field.value(row), Some(Value::Unknown(_))),
        }
    }
}

/// Returns true if the job id of a row matches. A job has several ids: `11` for processes, `2_1` for users,
/// and `2` as a member of its array, or `2[]` where ids have brackets; `2_[3-5]` stands for several.
fn matches_job_id(row: &FilterRow<'_>, comparison: Comparison, operand: &Operand) -> bool {
    let shown = row.job.map(|job| &*job.shown_id);
    let whole = shown.and_then(|shown| shown.split(PART_MARKS).next());
    let id = row.job.map(|job| &job.id).or_else(|| row.process_job_id());
    let Some(id) = id.map(JobId::as_str) else {
        let unknown = Value::Unknown(Reason::NotAvailable);
        let may_have_job = row.usage.is_some() || row.holder.is_some();
        return may_have_job && operand.matches(comparison, &unknown);
    };
    let is_whole = matches!(comparison, Comparison::Equal | Comparison::Unequal);
    let task = match (operand, row.job) {
        (Operand::Text(task), Some(job)) if is_whole && job.lists_task(task) == Some(true) => {
            Some(task.as_str())
        }
        _ => None,
    };
    let rest = shown.zip(whole).and_then(|(shown, whole)| shown.strip_prefix(whole));
    let has_brackets = rest.is_some_and(|rest| rest.starts_with('['));
    let array = whole.filter(|_| has_brackets).map(|whole| format!("{whole}[]"));
    let others = [shown, whole, array.as_deref(), task].into_iter().flatten();
    let others = others.filter(|_| !comparison.is_order());
    matches_name([id].into_iter().chain(others), comparison, operand)
}

/// Returns true if one of several names of the same thing matches, or, where it must differ, all of them do.
fn matches_name<'a>(
    names: impl IntoIterator<Item = &'a str>,
    comparison: Comparison,
    operand: &Operand,
) -> bool {
    let mut matches = names
        .into_iter()
        .map(|name| operand.matches(comparison, &Value::Text(name.into())))
        .peekable();
    if comparison.is_negative() {
        matches.peek().is_some() && matches.all(|is_match| is_match)
    } else {
        matches.any(|is_match| is_match)
    }
}

/// Returns the partition of the job of a row; of a row that has none, the partitions of the node. They are unknown for
/// a process of a job that is not listed.
fn partitions<'a>(row: &FilterRow<'a>) -> Vec<&'a str> {
    if let Some(job) = row.job {
        // A job that waits may start in any of several.
        return job.partition.split(',').collect();
    }
    let has_job = row.process_job_id().is_some()
        || row.position.is_some_and(|position| row.counts.is_allocated(position) == Some(true));
    let node = row.counts.node.scheduler.as_deref().filter(|_| !has_job);
    node.into_iter().flat_map(|node| &node.partitions).map(|name| &**name).collect()
}

/// Returns the names of a row that a word may match.
fn searchable_names<'a>(row: &'a FilterRow<'_>) -> impl Iterator<Item = Cow<'a, str>> {
    let device = row.device.into_iter().flat_map(|device| {
        let name = device.name.known().map(|name| &**name);
        [Some(&*device.uuid), name].into_iter().flatten().map(Into::into)
    });
    let usage = row.usage.as_deref();
    let statics = usage.and_then(|usage| usage.process.as_ref()).map(|process| &process.statics);
    let of_process = statics.into_iter().flat_map(|statics| {
        let user = statics.user.known().map(|user| &**user);
        let command = statics.command.known().map(|command| &**command);
        let job = statics.job.as_ref().map(JobId::as_str);
        [user, command, job].into_iter().flatten().map(Into::into)
    });
    let of_holder = row.holder.into_iter().flat_map(|holder| {
        let user = holder.user.is_known().then(|| holder.user.text().into());
        [user, holder.job.as_ref().map(|job| job.as_str().into())].into_iter().flatten()
    });
    let driver = usage.and_then(|usage| usage.used.driver_name.as_deref()).map(Into::into);
    let job = row.job.into_iter().flat_map(|job| [&*job.shown_id, &*job.name, &*job.user]);
    let job = job.map(Into::into);
    let node = (!row.counts.is_nowhere).then(|| row.counts.node.name.as_str().into());
    let of_holders = of_process.chain(of_holder).chain(driver).chain(job);
    node.into_iter().chain(device).chain(of_holders)
}

impl<'a> FilterRow<'a> {
    /// Returns the row of a node alone.
    pub(super) const fn of(counts: &'a Counts<'a>) -> Self {
        Self { counts, device: None, position: None, usage: None, holder: None, job: None }
    }

    /// Returns the device; of a slice, the device that it is cut from.
    fn whole(&self) -> Option<&'a Device> {
        Some(self.counts.node.whole(self.device?))
    }

    fn device_count(&self) -> Option<DeviceState> {
        self.counts.device(self.position?)
    }

    fn has_health(&self, health: Health) -> bool {
        self.device.is_some_and(|device| self.counts.node.health(device) == health)
    }

    /// Returns the job id of the process, from its cgroup, or of who held the device.
    fn process_job_id(&self) -> Option<&JobId> {
        let of_usage = || self.usage.as_ref()?.statics()?.job.as_ref();
        self.holder.map_or_else(of_usage, |holder| holder.job.as_ref())
    }

    /// Reads a value of the device; what a slice does not report is that of its device.
    fn device_value(&self, read: impl Fn(&Device) -> Value) -> Option<Value> {
        let own = read(self.device?);
        if matches!(own, Value::Unknown(_)) { self.whole().map(read) } else { Some(own) }
    }
}

impl StateWord {
    fn matches(self, row: &FilterRow<'_>) -> bool {
        match self {
            Self::Device(count) => row.device_count() == Some(count),
            Self::Node(count) => row.counts.node() == count,
            Self::Stale if row.device.is_some() => row.device_count() == Some(DeviceState::Stale),
            Self::Stale => row.counts.node() == NodeCount::Stale,
            Self::Up => row.counts.node.link == Link::Up,
            Self::Fault => row.has_health(Health::Faulty) || row.counts.node() == NodeCount::Down,
            Self::Degraded => row.has_health(Health::Degraded),
            Self::Throttled => row
                .whole()
                .and_then(|device| device.throttle.get())
                .is_some_and(Throttle::is_harmful),
        }
    }
}

impl FilterField {
    /// Returns the texts that the field is compared with if it may have several; empty for any other field.
    fn names<'a>(self, row: &FilterRow<'a>) -> Vec<Cow<'a, str>> {
        match self {
            Self::Partition => partitions(row).into_iter().map(Into::into).collect(),
            Self::NodeState => {
                let known = row.counts.node.scheduler.iter();
                known.flat_map(|known| known.state_words()).map(Into::into).collect()
            }
            Self::Index => {
                let whole = row.whole().and_then(|whole| whole.index.get());
                let slice = row.device.filter(|device| device.parent.is_some());
                let slice = whole.zip(slice.and_then(|slice| slice.index.get()));
                let slice = slice.map(|(whole, slice)| format!("{whole}.{slice}"));
                let whole = whole.map(|whole| whole.to_string());
                whole.into_iter().chain(slice).map(Into::into).collect()
            }
            Self::Uuid => {
                let devices = [row.device, row.whole()].into_iter().flatten();
                devices.map(|device| (&*device.uuid).into()).collect()
            }
            Self::Device(field) if field.id == "name" => {
                let devices = [row.device, row.whole()].into_iter().flatten();
                let names = devices
                    .flat_map(|device| [device.name.known().map(|name| &**name), device.model()]);
                names.flatten().map(Into::into).collect()
            }
            Self::Node
            | Self::Pid
            | Self::Job
            | Self::MemoryShare
            | Self::Host(_)
            | Self::Device(_)
            | Self::Process(_)
            | Self::OfJob(_) => Vec::new(),
        }
    }

    /// Returns the value of the field; `None` if the row has no such field.
    fn value(self, row: &FilterRow<'_>) -> Option<Value> {
        Some(match self {
            Self::Node => row.counts.node.name.as_str().into(),
            Self::Index => match row.whole()?.index.get() {
                Some(index) => index.into(),
                None => Value::Unknown(Reason::NotSampled),
            },
            Self::Uuid => Value::Text(Arc::clone(&row.device?.uuid)),
            Self::Pid => row.usage.as_ref()?.used.pid.into(),
            Self::MemoryShare => {
                return row.device_value(|device| device.memory_share().map(Percent::get).into());
            }
            Self::Host(field) => (field.read)(row.counts.node),
            Self::Device(field) => return row.device_value(field.read),
            Self::Process(field) => match row.holder {
                Some(holder) => holder_value(field, holder)?,
                None => (field.read)(row.usage.as_deref()?),
            },
            // Each has several names.
            Self::Job | Self::Partition | Self::NodeState => return None,
            Self::OfJob(field) => {
                (field.read)(&JobAt { job: row.job?.clone(), now: row.counts.now })
            }
        })
    }
}

/// Returns what is known of who held a device, of a field of its processes.
fn holder_value(field: &Field<Usage>, holder: &Holder) -> Option<Value> {
    let user = (field.alias == "user").then_some(&holder.user)?;
    Some(if user.is_known() {
        Value::Text(user.text().into())
    } else {
        Value::Unknown(Reason::NotAvailable)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fleet, Process, SourceState};
    use gtop_model::{
        Allocation, Bytes, DeviceAllocation, DeviceUse, Fault, FaultKind, JobList, JobState,
        NodeFlag, NodeState, ProcessKey, ProcessStatics, Reading, SchedulerNode, Source, Watts,
    };

    fn device(uuid: &str, util: Option<f32>, throttle: u64) -> Device {
        Device {
            uuid: uuid.into(),
            name: Reading::Known("NVIDIA H100 80GB HBM3".into()),
            utilization: util.and_then(Percent::new).map_or_else(Reading::default, Reading::Known),
            memory_total: Reading::Known(Bytes(80 << 30)),
            memory_used: Reading::Known(Bytes(60 << 30)),
            throttle: Reading::Known(Throttle(throttle)),
            ..Device::default()
        }
    }

    fn host_sampled(taken_at: Option<Timestamp>) -> SourceState {
        let interval = Duration::from_secs(1);
        SourceState { source: Source::host(), taken_at, interval, fault: None, absent: None }
    }

    /// Returns true if the device, or a process on it, matches, whether its node does or not.
    fn matches_device(filter: &Filter, node: &Node, device: &Device) -> bool {
        let position = node.devices.iter().position(|other| other.uuid == device.uuid).unwrap();
        filter.match_node(node, Timestamp::default()).devices.contains(&position)
    }

    /// A busy device of alice's, an idle throttled one without a user, and one that reports nothing.
    fn node() -> Node {
        let mut node = Node::new(NodeName::new("gpu07").unwrap(), Duration::ZERO);
        node.link = Link::Up;
        node.sources = vec![host_sampled(Some(Timestamp::default()))];
        node.devices = vec![
            device("GPU-a", Some(97.0), 0),
            device("GPU-b", Some(1.0), 0x40),
            device("GPU-c", None, 0),
        ]
        .into();
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
            node.sources = vec![host_sampled(taken_at)];
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
            let matches = |text: &str| Filter::new(text).unwrap().match_node(&node, now).is_match;
            assert_eq!((matches("fresh"), matches("stale")), (fresh, stale), "{what}");
            assert_eq!((matches("!fresh"), matches("!stale")), (!fresh, !stale), "{what}");
            assert_eq!(matches("!fresh !stale"), !fresh && !stale, "{what}");
        }
    }

    #[test]
    fn all_terms_must_match_the_same_device_and_process() {
        let node = node();
        let matches = |text: &str| {
            let filter = Filter::new(text).unwrap();
            let devices = node.devices.iter();
            let of_devices: String = devices
                .map(|device| if matches_device(&filter, &node, device) { '+' } else { '.' })
                .collect();
            (filter.match_node(&node, Timestamp::default()).is_match, of_devices)
        };
        for (text, on_node, on_devices) in [
            ("", true, "+++"),
            ("alice", true, "+.."),
            ("gpu07", true, "+++"),
            ("ALICE util>50", true, "+.."),
            ("alice util<50", false, "..."),
            ("util<10", true, ".+."),
            ("util=unknown", true, "..+"),
            ("free", true, ".+."),
            ("unknown", true, "..+"),
            ("busy user=al*", true, "+.."),
            ("!alice", true, ".++"),
            ("!user=bob", true, "+++"),
            ("!alice !throttled", true, "..+"),
            ("!alice !user=bob", true, ".++"),
            ("!user=bob !alice", true, ".++"),
            ("!busy !free", true, "..+"),
            ("free not busy", true, ".+."),
            ("not busy", true, ".++"),
            ("not mem>50%", false, "..."),
            ("busy or free", true, "++."),
            ("not (busy or free)", true, "..+"),
            ("!(alice busy)", true, ".++"),
            ("alice or util<10", true, "++."),
            ("(alice or throttled) util<50", true, ".+."),
            ("alice or throttled util<50", true, "++."),
            ("not not alice", true, "+.."),
            ("not util<10", true, "+.+"),
            ("not util<10 not util=unknown", true, "+.."),
            ("util>=10", true, "+.."),
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
            ("name='H100 80GB HBM3'", true, "+++"),
            ("name='nvidia H100 80GB HBM3'", true, "+++"),
            ("name!='H100 80GB HBM3'", false, "..."),
            ("name='H100 80GB'", false, "..."),
        ] {
            assert_eq!(matches(text), (on_node, on_devices.to_owned()), "{text}");
        }
    }

    #[test]
    fn the_example_of_a_model_in_the_docs_matches_as_the_screen_prints_it() {
        let docs = include_str!("../../../../../docs/filter.md");
        let example = docs.split('`').find(|part| part.starts_with("name=\"")).unwrap();
        let filter = Filter::new(example).unwrap();
        let found = filter.match_node(&node(), Timestamp::default()).devices;
        assert_eq!(found, [0, 1, 2], "{example}");
    }

    /// The first device is cut in two, and alice uses the second slice.
    #[test]
    fn a_slice_has_the_index_of_its_device_and_the_values_it_does_not_report_itself() {
        let mut node = node();
        let whole = &mut node.devices[0];
        (whole.index, whole.power) = (Reading::Known(3), Reading::checked(Watts::new(400.0)));
        whole.throttle = Reading::Known(Throttle(0x40));
        node.devices[1].index = Reading::Known(1);
        let slice = |index: u32| Device {
            uuid: format!("MIG-{index}").into(),
            parent: Some("GPU-a".into()),
            index: Reading::Known(index),
            memory_total: Reading::Known(Bytes(20 << 30)),
            memory_used: Reading::Known(Bytes(1 << 30)),
            ..Device::default()
        };
        node.devices.extend([slice(0), slice(1)]);
        node.uses = vec![DeviceUse { device: "MIG-1".into(), ..node.uses[0].clone() }].into();
        let usage = Usage::of(&node, &node.devices[4]).next().unwrap();
        for (text, on_devices, on_usage) in [
            ("gpu=3", "..++", true),
            ("gpu=1", "+...", false),
            ("gpu=0", "....", false),
            ("gpu=03", "..++", true),
            ("gpu=3.1", "...+", true),
            ("gpu=03.01", "...+", true),
            ("gpu~03", "....", false),
            ("gpu=+3", "....", false),
            ("gpu=3.0", "..+.", false),
            ("gpu=3.2", "....", false),
            ("gpu!=3", "+...", false),
            ("gpu>3", "....", false),
            ("gpu<=3", "+.++", true),
            ("gpu=unknown", ".+..", false),
            ("user=alice power>300", "...+", true),
            ("user=alice power<300", "....", false),
            ("user=alice util>90", "...+", true),
            ("user=alice mem<10%", "...+", true),
            ("user=alice mem>50%", "....", false),
            ("user=alice uuid=GPU-a", "...+", true),
            ("uuid=mig-0", "..+.", false),
            ("alice throttled", "...+", true),
            ("alice name='H100 80GB HBM3'", "...+", true),
            ("uuid=GPU-a", "..++", true),
            ("free", "+...", false),
        ] {
            let filter = Filter::new(text).unwrap();
            let found: String = node.devices[1..]
                .iter()
                .map(|device| if matches_device(&filter, &node, device) { '+' } else { '.' })
                .collect();
            let now = Timestamp::default();
            let of_usage = filter.matches_usage(&node, node.devices.get(4), &usage, now);
            assert_eq!((found.as_str(), of_usage), (on_devices, on_usage), "{text}");
        }
    }

    #[test]
    fn devices_left_out_only_for_an_unknown_value_are_counted() {
        let node = node();
        let unknown = |text: &str| {
            Filter::new(text).unwrap().match_node(&node, Timestamp::default()).unknown_devices
        };
        for (text, expected) in [
            ("util<10", 1),
            ("util<10 throttled", 0),
            ("util<10 or gpu07", 0),
            ("not util<10", 0),
            ("util=unknown", 0),
            ("busy", 0),
            ("mem>50% temp>10", 3),
        ] {
            assert_eq!(unknown(text), expected, "{text}");
        }
    }

    #[test]
    fn devices_without_a_job_have_the_partitions_of_their_node() {
        let mut node = node();
        let partitions = vec!["gpu".into(), "debug".into()];
        node.scheduler = Some(Arc::new(SchedulerNode {
            partitions,
            state: NodeState::Idle,
            is_responding: true,
            ..SchedulerNode::default()
        }));
        // The last device is allocated to a job.
        let devices = DeviceAllocation::Indices([2].into());
        let jobs = vec![Job { partition: "debug".into(), ..job("12", "12", "eval", devices) }];
        let list = Some(Arc::new(JobList { jobs, ..JobList::default() }));
        let fleet = Fleet::new(vec![Arc::new(node)].into()).with_jobs(list.clone());
        let node = &*fleet.nodes[0];
        for (text, on_devices) in [
            ("partition=gpu", "++."),
            ("partition=debug", "+++"),
            ("partition=gpu util<5", ".+."),
            // Where the job has its device is only likely.
            ("partition=gpu free", "..."),
            ("partition=g* busy", "+.."),
            ("partition!=gpu", "..+"),
            ("partition!~other", "+++"),
            ("not partition=gpu", "..+"),
            ("partition=other", "..."),
            ("partition=unknown", "..."),
        ] {
            let filter = Filter::new(text).unwrap().with_jobs(list.as_ref());
            let mark = |device| if matches_device(&filter, node, device) { '+' } else { '.' };
            let found: String = node.devices.iter().map(mark).collect();
            assert_eq!(found, on_devices, "{text}");
        }
    }

    #[test]
    fn a_job_that_waits_matches_by_what_is_known_of_it() {
        let waiting = Job {
            state: JobState::Pending,
            partition: "gpu,long".into(),
            reason: Some("Priority".into()),
            ..job("12", "12_[3-5%3]", "eval", DeviceAllocation::None)
        };
        for (text, is_match) in [
            ("eval", true),
            ("nowhere", false),
            ("job=12", true),
            ("jobname=eval", true),
            ("jobname=train", false),
            ("partition=long", true),
            ("partition=debug", false),
            ("jobstate=pending reason=Priority", true),
            ("jobname=train or partition=gpu", true),
            ("not jobname=train", true),
            // It has no nodes, devices or processes.
            ("util<10", false),
            ("connecting", false),
            ("nodestate=idle", false),
            ("user=alice", false),
            ("left<1h", false),
        ] {
            let filter = Filter::new(text).unwrap();
            let is_found = filter.matches_waiting_job(&waiting, Timestamp::default());
            assert_eq!(is_found, is_match, "{text}");
        }
    }

    #[test]
    fn nodes_match_by_each_word_of_their_state() {
        let planned = || SchedulerNode::in_state(NodeState::Mixed, &[NodeFlag::Planned]);
        let off = || SchedulerNode::in_state(NodeState::PoweredDown, &[]);
        let silent = || SchedulerNode {
            state: NodeState::Drained,
            is_responding: false,
            ..SchedulerNode::default()
        };
        for (state, text, is_match) in [
            (planned(), "nodestate=mixed", true),
            (planned(), "nodestate=planned", true),
            (planned(), "nodestate!=planned", false),
            (off(), "nodestate=\"powered down\"", true),
            (off(), "nodestate~powered", true),
            (off(), "nodestate=idle", false),
            (silent(), "nodestate=drained nodestate~responding", true),
        ] {
            let mut node = node();
            node.scheduler = Some(Arc::new(state));
            let filter = Filter::new(text).unwrap();
            let is_found = filter.match_node(&node, Timestamp::default()).is_match;
            assert_eq!(is_found, is_match, "{text}");
        }
    }

    #[test]
    fn a_node_known_from_the_scheduler_alone_has_neither_fault_nor_stale_devices() {
        let with_link = |kind: Option<FaultKind>| {
            let mut node = node();
            node.scheduler = Some(Arc::new(SchedulerNode::default()));
            if let Some(kind) = kind {
                let (fault, retry_at) = (Fault::new(kind, "refused"), None);
                node.link = Link::Down { fault, retry_at };
            }
            node
        };
        let matches = |node: &Node, text: &str| {
            Filter::new(text).unwrap().match_node(node, Timestamp::default()).is_match
        };
        for (kind, [fault, stale, down, reported]) in [
            (None, [false, false, false, false]),
            (Some(FaultKind::NoJob), [false, false, false, true]),
            (Some(FaultKind::Refused), [true, true, true, false]),
        ] {
            let mut node = with_link(kind);
            let words = ["fault", "stale", "down", "reported"].map(|word| matches(&node, word));
            assert_eq!(words, [fault, stale, down, reported], "{kind:?}");
            // Without devices, only a node that is connected counts as stale.
            node.devices.clear();
            assert!(!matches(&node, "stale"), "{kind:?}");
        }
    }

    #[test]
    fn a_node_without_devices_is_found_by_its_name() {
        let node = Node::new(NodeName::new("login1").unwrap(), Duration::ZERO);
        let matches = |text: &str| {
            Filter::new(text).unwrap().match_node(&node, Timestamp::default()).is_match
        };
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

    #[test]
    fn pending_tasks_of_an_array_are_found_one_by_one() {
        let pending =
            Job { allocations: [].into(), ..job("7", "2_[3-5]", "sweep", DeviceAllocation::None) };
        let matches = |text: &str| {
            Filter::new(text).unwrap().matches_waiting_job(&pending, Timestamp::default())
        };
        for text in ["job=2_4", "job=2", "job=7", "job=2_[3-5]", "job!=2_6"] {
            assert!(matches(text), "{text}");
        }
        for text in ["job=2_6", "job!=2_4", "job~2_4", "job=4"] {
            assert!(!matches(text), "{text}");
        }
    }

    #[test]
    fn the_id_of_an_array_is_that_of_its_tasks() {
        let task = Job {
            allocations: [].into(),
            ..job("21[3].server", "21[3]", "sweep", DeviceAllocation::None)
        };
        let matches = |text: &str| {
            Filter::new(text).unwrap().matches_waiting_job(&task, Timestamp::default())
        };
        for text in ["job=21", "job=21[]", "job=21[3]", "job=21[3].server", "job!=2"] {
            assert!(matches(text), "{text}");
        }
        for text in ["job=2", "job=2[]", "job=21[4]", "job!=21", "job!=21[]", "job=3"] {
            assert!(!matches(text), "{text}");
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
            let fleet = Fleet::new(vec![Arc::new(node.clone())].into());
            let fleet = fleet.with_jobs(list.cloned());
            let node = &*fleet.nodes[0];
            let filter = Filter::new(text).unwrap().with_jobs(list);
            let mark = |device| if matches_device(&filter, node, device) { '+' } else { '.' };
            let usage = Usage::of(node, &node.devices[0]).next().unwrap();
            let of_usage = filter.matches_usage(node, node.devices.first(), &usage, now);
            let of_devices: String = node.devices.iter().map(mark).collect();
            (filter.match_node(node, now).is_match, of_devices, of_usage)
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
            ("!job=11", true, ".++", false),
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
            ("idle-held", true, ".+.", false),
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

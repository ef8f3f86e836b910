//! Turns what was collected into the numbers of a report.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::report::counted::{CountedSums, DeviceRecord};
use crate::report::filter::ReportFilter;
use crate::report::holders::HolderRecord;
use crate::report::job_device::{JobDevice, devices_by_holder};
use crate::report::labels::{HolderNames, ReportNames, holder_names};
use crate::report::node_span::node_spans;
use crate::report::scope::ReportScope;
use crate::report::{
    CommandReport, DeviceReport, DeviceSteps, HostUse, IdleTime, JobReport, JobSteps, JobVerdict,
    ModelTime, NodeReport, ReportCriteria, ReportSteps, UsageReport, UsageSummary, UserReport,
    findings,
};
use gtop_collect::sums::{PartSeries, StepGrid, StepSeries};
use gtop_fleet::query::Filter;
use gtop_fleet::usage::DeviceUsage;

/// Jobs with lines of their own; those that held the most.
const MAX_JOB_SERIES: usize = 300;
/// Machines with several names that a note names.
const MAX_NAMED_MACHINES: usize = 8;
/// What a step without a value is in the bytes of a device.
const GAP: u8 = 255;

/// Fills a report with what was collected.
pub(super) fn summarize(
    report: &mut UsageReport,
    counted: &CountedSums<'_>,
    scope: &ReportScope,
    names: &mut ReportNames,
) {
    report.is_of_holders = counted.is_of_holders(scope);
    let nodes = node_spans(counted, names);
    report.notes.extend(same_machines(counted, names));
    report.notes.extend(filter_note(&scope.filter, names));
    report.notes.extend(certainty_note(counted));
    report.notes.extend(assumption_note(counted));
    report.filter = shown_filter(&scope.filter, names);
    let holders: Vec<HolderNames> = counted
        .holders
        .records
        .iter()
        .map(|record| holder_names(&record.holder, &counted.sums.jobs, names))
        .collect();
    let recorded = recorded_steps(scope);
    report.steps.grid = Some(scope.sums.grid);
    let mut all = DeviceUsage::default();
    let (mut cluster_parts, mut cluster) = (PartSeries::default(), StepSeries::default());
    let mut cluster_power = vec![None; scope.sums.grid.count];
    let mut samples = (0, 0.0);
    for node in &nodes {
        let mut of_node = DeviceUsage::default();
        let mut watched_seconds = 0.0;
        let mut node_power = vec![None; scope.sums.grid.count];
        for device in sorted_devices(&node.devices) {
            let watched = node.watched_seconds(device);
            watched_seconds += watched;
            of_node += &device.usage;
            cluster.merge(&device.series, 1.0);
            let power = device.series.sums.iter().map(|step| mean(step.power, 1.0));
            add_known(node_power.iter_mut().skip(device.series.first), power);
            report.devices.push(device_report(
                device,
                &node.label,
                watched,
                scope.sums.grid,
                names,
            ));
        }
        add_known(&mut cluster_power, node_power.iter().copied());
        cluster_parts.merge(&node.record.parts, 1.0);
        all += &of_node;
        let seen = node.seen_samples();
        samples = (samples.0 + seen, samples.1 + node.expected);
        let mut summary = UsageSummary::of(&of_node, watched_seconds);
        summary.samples = Some((seen, node.expected));
        let [utilization, memory] = node.record.parts.ranges(scope.sums.grid);
        report.nodes.push(NodeReport {
            name: node.label.clone(),
            devices: node.devices.len(),
            down_seconds: node.down_seconds,
            summary,
            steps: ReportSteps { utilization, memory, power: node_power },
        });
    }
    let watched = report.devices.iter().map(|device| device.summary.watched_seconds);
    let watched = watched.fold(0.0, |sum, seconds| sum + seconds);
    report.totals = UsageSummary::of(&all, watched);
    report.totals.samples = Some(samples);
    report.nodes_seen = nodes.iter().filter(|node| node.record.samples > 0).count();
    let [utilization, memory] = cluster_parts.ranges(scope.sums.grid);
    report.steps.cluster = ReportSteps { utilization, memory, power: cluster_power };
    report.steps.devices = device_counts(&cluster, &recorded);
    let devices = devices_by_holder(&nodes, holders.len(), names);
    add_users(report, counted, &holders, &devices);
    add_jobs(report, counted, (&holders, devices), names);
    report.commands = scope.sums.has_commands.then(|| commands(counted, &holders, names));
    report.findings = findings::find(&nodes, counted, (&holders, names));
    report.judge(ReportCriteria::default());
}

/// Returns a note on what counts, if not all does.
fn filter_note(filter: &ReportFilter, names: &ReportNames) -> Option<String> {
    let what = names.free_text(&filter.text());
    if !filter.matching.is_empty() {
        return Some(format!(
            "only this counts: {what}; where it depends on who holds a device, only what they held"
        ));
    }
    if filter.names_holders() {
        return Some(format!("only devices held by {what} count, and only while they were held"));
    }
    (!filter.is_empty()).then(|| format!("only these nodes count: {what}"))
}

/// Returns a note on the time before the first values, in which it is not known who held the devices.
fn assumption_note(counted: &CountedSums<'_>) -> Option<String> {
    let hours = counted.holders.assumed_seconds / 3600.0;
    (hours > 0.0).then(|| {
        format!(
            "{hours:.2} device-hours before the first values of devices are counted for those who held the devices at that moment"
        )
    })
}

/// Returns a note on the time that is not certain to be of those to whom it is counted.
fn certainty_note(counted: &CountedSums<'_>) -> Option<String> {
    let counted = counted.holders.records.iter();
    let unsure: f64 = counted.clone().map(|record| record.unsure_seconds).sum();
    let all: f64 = counted.map(|record| record.usage.seconds()).sum();
    (unsure > 0.0).then(|| {
        let [unsure, all] = [unsure, all].map(|seconds| seconds / 3600.0);
        format!(
            "{unsure:.2} of {all:.2} device-hours are only likely: it is not certain that the devices were held by those for whom they are counted"
        )
    })
}

/// Returns the filter as a report shows it.
fn shown_filter(filter: &ReportFilter, names: &ReportNames) -> ReportFilter {
    let [jobs, users, nodes] = [&filter.jobs, &filter.users, &filter.nodes]
        .map(|given| given.iter().map(|name| names.free_text(name)).collect());
    let matching = match filter.matching.text() {
        "" => Ok(Filter::default()),
        text => Filter::of_span(&names.free_text(text)),
    };
    let matching = matching.unwrap_or_default();
    ReportFilter { jobs, users, nodes, matching }
}

/// Returns a note on the nodes that are machines that count under another name.
fn same_machines(counted: &CountedSums<'_>, names: &mut ReportNames) -> Option<String> {
    let others = counted.nodes.iter().filter_map(|(name, record)| {
        let other = record.sums.other_name.as_ref()?;
        Some([*name, other])
    });
    let count = others.clone().count();
    let shown: Vec<String> = others
        .take(MAX_NAMED_MACHINES)
        .map(|pair| {
            let [name, other] = pair.map(|name| names.node(name));
            format!("{name} is the same machine as {other}")
        })
        .collect();
    let more = match count - shown.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (count > 0).then(|| format!("not counted twice: {}{more}", shown.join(", ")))
}

/// Returns the devices in the order of their indices.
fn sorted_devices<'a>(devices: &[&'a DeviceRecord<'a>]) -> Vec<&'a DeviceRecord<'a>> {
    let mut devices = devices.to_vec();
    devices.sort_by_key(|device| {
        (device.sums.index.unwrap_or(u32::MAX), Arc::clone(&device.sums.uuid))
    });
    devices
}

impl UsageSummary {
    fn of(usage: &DeviceUsage, watched_seconds: f64) -> Self {
        let [max_memory_percent, max_power, max_temperature] = usage.maxima();
        Self {
            watched_seconds,
            states: usage.states,
            utilization: usage.utilization.get(),
            percentiles: [0.5, 0.95].map(|share| usage.percentile(share)),
            memory_percent: usage.mean_memory_percent(),
            max_memory_percent,
            memory_used: usage.memory_used.get(),
            power: usage.power.get(),
            max_power,
            energy_kwh: usage.energy_kwh(),
            max_temperature,
            samples: None,
        }
    }
}

fn device_report(
    device: &DeviceRecord<'_>,
    node: &str,
    watched_seconds: f64,
    grid: StepGrid,
    names: &mut ReportNames,
) -> DeviceReport {
    let steps = (0..grid.count).map(|number| device.series.get(number));
    let utilization = steps.clone().map(|step| mean(step?.utilization, 1.0));
    let memory = steps.map(|step| mean(step?.memory, 100.0));
    DeviceReport {
        node: node.to_owned(),
        index: device.sums.index,
        uuid: names.uuid(&device.sums.uuid),
        model: device.sums.model.as_deref().map(str::to_owned),
        summary: UsageSummary::of(&device.usage, watched_seconds),
        steps: DeviceSteps {
            utilization: utilization.map(percent_byte).collect(),
            memory: memory.map(percent_byte).collect(),
        },
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
fn percent_byte(percent: Option<f32>) -> u8 {
    percent.map_or(GAP, |percent| percent.clamp(0.0, 100.0).round() as u8)
}

/// Returns the mean of weighted values.
fn mean([sum, weight]: [f32; 2], factor: f32) -> Option<f32> {
    (weight > 0.0).then(|| sum / weight * factor)
}

/// Adds what is known of some steps.
fn add_known<'a>(
    sums: impl IntoIterator<Item = &'a mut Option<f32>>,
    more: impl IntoIterator<Item = Option<f32>>,
) {
    for (sum, more) in sums.into_iter().zip(more) {
        *sum = more.map(|more| sum.unwrap_or_default() + more).or(*sum);
    }
}

/// Returns the recorded seconds of each step.
fn recorded_steps(scope: &ReportScope) -> Vec<f32> {
    let mut seconds = vec![0.0; scope.sums.grid.count];
    for span in scope.counted_times().as_slice() {
        scope.sums.grid.for_each_part(*span, |part, of_part| {
            if let Some(sum) = seconds.get_mut(part / scope.sums.grid.parts) {
                *sum += of_part;
            }
        });
    }
    seconds
}

/// Returns the mean numbers of devices that are busy, idle-held, free and seen; `None` where nothing was recorded.
fn device_counts(cluster: &StepSeries, recorded: &[f32]) -> [Vec<Option<f32>>; 4] {
    [0, 1, 2, 3].map(|kind| {
        let counts = recorded.iter().enumerate().map(|(number, seconds)| {
            let sum = cluster.get(number).and_then(|step| step.devices.get(kind)).copied();
            mean([sum.unwrap_or_default(), *seconds], 1.0)
        });
        counts.collect()
    })
}

fn add_users(
    report: &mut UsageReport,
    counted: &CountedSums<'_>,
    holders: &[HolderNames],
    devices: &[Vec<JobDevice>],
) {
    let mut users: BTreeMap<&str, (DeviceUsage, ModelTime, usize)> = BTreeMap::new();
    let (mut all, mut unseen) = (DeviceUsage::default(), 0.0);
    for ((record, names), devices) in counted.holders.records.iter().zip(holders).zip(devices) {
        let held = record.usage.seconds() + record.unseen_seconds;
        if held <= 0.0 {
            continue;
        }
        let (usage, models, jobs) = users.entry(&names.user).or_default();
        *usage += &record.usage;
        models.add(&model_time(held, devices));
        *jobs += usize::from(names.job.is_some());
        all += &record.usage;
        unseen += record.unseen_seconds;
    }
    report.held = UsageSummary::of(&all, all.seconds() + unseen);
    report.users = users
        .into_iter()
        .map(|(user, (usage, model_time, jobs))| UserReport {
            user: user.to_owned(),
            jobs,
            summary: UsageSummary::of(&usage, model_time.seconds()),
            model_time,
            cost: None,
        })
        .collect();
    report.users.sort_by(|one, other| by_hours(&one.summary, &other.summary));
}

/// Divides the time of a holder among the models of its devices.
fn model_time(seconds: f64, devices: &[JobDevice]) -> ModelTime {
    ModelTime::divided(seconds, devices.iter().map(|device| (&device.model, device.seconds)))
}

fn by_hours(one: &UsageSummary, other: &UsageSummary) -> std::cmp::Ordering {
    other.watched_seconds.total_cmp(&one.watched_seconds)
}

fn add_jobs(
    report: &mut UsageReport,
    counted: &CountedSums<'_>,
    (holders, devices): (&[HolderNames], Vec<Vec<JobDevice>>),
    names: &mut ReportNames,
) {
    let grid = report.steps.grid.unwrap_or_default();
    for ((record, holder), each_device) in counted.holders.records.iter().zip(holders).zip(devices)
    {
        let (Some((id, name)), Some((from, to))) = (&holder.job, record.span) else { continue };
        let steps = record.series.sums.iter();
        let steps = JobSteps {
            first: record.series.first,
            utilization: steps.clone().map(|step| mean(step.utilization, 1.0)).collect(),
            memory: steps.map(|step| mean(step.memory, 100.0)).collect(),
        };
        let held = record.usage.seconds() + record.unseen_seconds;
        report.jobs.push(JobReport {
            id: id.clone(),
            name: name.clone(),
            user: holder.user.clone(),
            partition: holder.partition.clone(),
            nodes: record.nodes.iter().map(|node| names.node(node)).collect(),
            devices: record.devices.len(),
            from,
            to,
            summary: UsageSummary::of(&record.usage, held),
            load_seconds: record.usage.utilization.seconds,
            throttled_seconds: record.usage.throttled_seconds,
            occupied_seconds: record.usage.occupied_seconds,
            empty_seconds: record.usage.empty_seconds,
            longest_idle: IdleTime::longest(&record.series, grid),
            unsure_seconds: record.unsure_seconds,
            model_time: model_time(held, &each_device),
            host: host_use(counted, record),
            each_device,
            cost: None,
            verdict: JobVerdict::default(),
            steps: Some(steps),
        });
    }
    report.jobs.sort_by(|one, other| by_hours(&one.summary, &other.summary));
    for job in report.jobs.iter_mut().skip(MAX_JOB_SERIES) {
        job.steps = None;
    }
}

/// Returns what a job had and used of its hosts.
fn host_use(counted: &CountedSums<'_>, record: &HolderRecord) -> HostUse {
    let Some(job) = &record.holder.job else { return HostUse::default() };
    let facts = counted.sums.jobs.get(job);
    let used = counted.nodes.values().filter_map(|node| node.sums.shares.get(job));
    let known = used.clone().count();
    let is_whole = known > 0 && facts.is_none_or(|facts| known >= facts.nodes.len());
    let used = used.filter(|_| is_whole);
    HostUse {
        cpus: facts.and_then(|facts| facts.cpus),
        cpus_used: added(used.clone().map(|share| share.cpus.get())),
        memory: facts.and_then(|facts| Some(facts.memory?.0)),
        max_memory: added(used.map(|share| Some(share.max_memory?.0))),
    }
}

/// Returns the sum of values; `None` if there are none, or if one is unknown.
fn added<T: std::iter::Sum>(values: impl Iterator<Item = Option<T>>) -> Option<T> {
    let values: Vec<T> = values.collect::<Option<_>>()?;
    (!values.is_empty()).then(|| values.into_iter().sum())
}

fn commands(
    counted: &CountedSums<'_>,
    holders: &[HolderNames],
    names: &mut ReportNames,
) -> Vec<CommandReport> {
    let mut commands: Vec<CommandReport> = counted
        .sums
        .commands
        .iter()
        .filter(|(command, _)| counted.holders.counts_on(&command.holder, &command.node))
        .filter_map(|(command, seconds)| {
            let mut known = counted.holders.records.iter().zip(holders);
            let (_, holder) = known.find(|(record, _)| record.holder == command.holder)?;
            Some(CommandReport {
                job: holder.job.as_ref().map(|(id, _)| id.clone()),
                user: holder.user.clone(),
                node: names.node(&command.node),
                command: command.text.to_string(),
                device_seconds: *seconds,
            })
        })
        .collect();
    commands.sort_by(|one, other| other.device_seconds.total_cmp(&one.device_seconds));
    commands
}

impl UsageSummary {
    /// Returns the watched time in which nothing was known, in seconds.
    pub fn not_seen_seconds(&self) -> f64 {
        // A sum of nothing is -0.
        (self.watched_seconds - self.states.iter().sum::<f64>()).max(0.0) + 0.0
    }

    /// Returns how much of what should have been seen was, in percent: the smaller share of device-time and of samples;
    /// `None` if nothing was to be seen.
    pub fn coverage_percent(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
        let samples = self.samples.map(|(seen, expected)| (seen as f64, expected));
        let time = (self.states.iter().sum(), self.watched_seconds);
        let shares = std::iter::once(time).chain(samples).filter(|(_, all)| *all > 0.0);
        shares.map(|(seen, all)| (seen / all * 100.0).min(100.0)).min_by(f64::total_cmp)
    }
}

//! Sums as lines of JSON: one of what the scheduler listed, and one of each node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::record::value::{from_seconds, node_name, short_text, text, to_seconds};
use crate::sums::{
    CounterValue, DeviceError, DeviceSums, EnergyMeter, HeldSums, HolderSet, JobFacts, ListedSpan,
    NodeSums, SeenReason, SeenSpan, SeriesStep, ShareSums, SpanSums, StepSeries, TimeIntervals,
    TimedSums,
};
use crate::wire::objects;
use gtop_fleet::usage::{DeviceUsage, TimedMean};
use gtop_fleet::{Health, Holder, User};
use gtop_local::time::Timestamp;
use gtop_model::{Bytes, JobId, NodeName};

/// Grows with each change of what is added up, and how: sums of other rules are not used.
const RULES: u32 = 3;
const MIB: f64 = 1_048_576.0;
/// Bytes of lines from which on the other nodes are in a frame of their own.
const MAX_FRAME: usize = 16 << 20;
const HEALTH: [Health; 4] = [Health::Ok, Health::Unknown, Health::Degraded, Health::Faulty];

objects! {
    /// The first line.
    struct SpanLine {
        rules: u32,
        from: f64,
        to: f64,
        jobs?: Vec<JobLine>,
        first_list?: Option<f64>,
    }

    /// A job with nodes.
    struct JobLine {
        id: String,
        shown_id?: Arc<str>,
        name?: Arc<str>,
        user?: Arc<str>,
        partition?: Arc<str>,
        nodes?: Vec<String>,
        cpus?: Option<u32>,
        memory?: Option<u64>,
        /// From when until when the scheduler listed it; the last end may be missing.
        listed?: Vec<(f64, Option<f64>)>,
    }

    struct NodeLine {
        node: String,
        listed?: Spans,
        down?: Spans,
        blind?: Spans,
        elsewhere?: Spans,
        other_name?: Option<String>,
        fault?: Option<String>,
        /// Why its devices gave no values, and what to do.
        source_fault?: Option<(Arc<str>, Arc<str>)>,
        interval?: Option<f64>,
        errors?: Vec<ErrorLine>,
        sets?: Vec<Vec<HolderLine>>,
        samples?: Vec<(Vec<usize>, u64)>,
        shares?: Vec<ShareLine>,
        devices: Vec<DeviceLine>,
    }

    /// What a job used of the host.
    struct ShareLine {
        job: String,
        /// CPUs times seconds, and seconds in which it is known.
        cpus?: Option<(f64, f64)>,
        max_memory?: Option<u64>,
    }

    struct ErrorLine {
        device: Arc<str>,
        text: String,
        xid?: Option<u64>,
        /// Seconds, and how often in each.
        times: Vec<(f64, u64)>,
    }

    struct HolderLine {
        user?: Option<Arc<str>>,
        uid?: Option<u32>,
        /// Why the user is not known: `unknown`, `hidden` or `not_shown`.
        why?: Option<String>,
        job?: Option<Arc<str>>,
        is_certain: bool,
    }

    struct DeviceLine {
        device: Arc<str>,
        index?: Option<u32>,
        model?: Option<Arc<str>>,
        health?: Option<(f64, String)>,
        present?: Spans,
        seen?: Vec<(f64, f64, usize)>,
        counter?: Option<CounterLine>,
        unseen_joules?: Vec<(usize, usize, f64)>,
        held: Vec<HeldLine>,
    }

    /// The driver's counter of energy.
    struct CounterLine {
        first: (f64, f64),
        last: (f64, f64),
        joules_before: f64,
        joules_since: f64,
        has_moved: bool,
    }

    struct HeldLine {
        set: usize,
        /// Seconds in each state.
        active?: Option<f64>,
        idle_held?: Option<f64>,
        free?: Option<f64>,
        faulty?: Option<f64>,
        unknown?: Option<f64>,
        /// Each whole percent of utilization, and the seconds at it.
        loads?: Vec<(u8, f64)>,
        /// Percent times seconds, and seconds in which it is known.
        utilization?: Option<(f64, f64)>,
        /// MiB in use times seconds, seconds in which it is known, and MiB in total times seconds.
        memory?: Option<(f64, f64, f64)>,
        max_memory_percent?: Option<f32>,
        /// Watts times seconds, and seconds in which it is known.
        power?: Option<(f64, f64)>,
        max_power?: Option<f32>,
        joules?: Option<f64>,
        max_temperature?: Option<f32>,
        throttled?: Option<f64>,
        degraded?: Option<f64>,
        /// Seconds in which any process was on it, and in which none was.
        occupied?: Option<f64>,
        empty?: Option<f64>,
        reasons?: Vec<ReasonLine>,
        minutes?: Option<MinutesLine>,
    }

    struct ReasonLine {
        id: Arc<str>,
        health: String,
        text: Arc<str>,
        is_of_driver?: bool,
        remedy?: Arc<str>,
    }

    /// Sums of minutes that follow each other.
    struct MinutesLine {
        /// The number of the first one since 1970.
        first: usize,
        utilization?: Vec<f32>,
        utilization_known?: Vec<f32>,
        memory?: Vec<f32>,
        memory_total?: Vec<f32>,
        power?: Vec<f32>,
        power_known?: Vec<f32>,
        active?: Vec<f32>,
        idle_held?: Vec<f32>,
        free?: Vec<f32>,
        seen: Vec<f32>,
    }
}

/// Times, each from one to another, in seconds since 1970.
type Spans = Vec<(f64, f64)>;

/// Returns the lines of sums over a span of time, in as many frames as they need.
pub(super) fn write((from, to): (Timestamp, Timestamp), sums: &SpanSums) -> Vec<Vec<u8>> {
    let span = SpanLine {
        rules: RULES,
        from: to_seconds(from),
        to: to_seconds(to),
        ..SpanLine::default()
    };
    let mut frames = vec![json_line(&span.clone().with_jobs(sums))];
    for (name, node) in &sums.nodes {
        let line = json_line(&NodeLine::of(name, node));
        match frames.last_mut() {
            Some(frame) if frame.len() + line.len() <= MAX_FRAME => frame.extend(line),
            _ => frames.push([json_line(&span), line].concat()),
        }
    }
    frames
}

fn json_line(line: &impl serde::Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).unwrap_or_default();
    text.push(b'\n');
    text
}

/// Reads the lines of sums, and their span; `None` for those of other rules.
pub(super) fn read(lines: &[u8]) -> Option<((Timestamp, Timestamp), SpanSums)> {
    let mut lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let span: SpanLine = serde_json::from_slice(lines.next()?).ok()?;
    if span.rules != RULES {
        return None;
    }
    let mut sums = SpanSums::default();
    for line in lines {
        let line: NodeLine = serde_json::from_slice(line).ok()?;
        sums.nodes.insert(node_name(&line.node)?, line.to_sums()?);
    }
    span.add_jobs(&mut sums);
    Some(((from_seconds(span.from), from_seconds(span.to)), sums))
}

/// Returns a number with three decimals, which columns have as a whole number.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

/// Returns a number with two decimals.
fn short(number: f32) -> f32 {
    (number * 100.0).round() / 100.0
}

fn positive(seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| rounded(seconds))
}

fn pair(mean: TimedMean) -> Option<(f64, f64)> {
    (mean.seconds > 0.0).then(|| (rounded(mean.sum), rounded(mean.seconds)))
}

fn mean(pair: Option<(f64, f64)>) -> TimedMean {
    let (sum, seconds) = pair.unwrap_or_default();
    TimedMean { sum, seconds }
}

fn spans(times: &TimeIntervals) -> Spans {
    times.as_slice().iter().map(|(from, to)| (to_seconds(*from), to_seconds(*to))).collect()
}

fn times(spans: &Spans) -> TimeIntervals {
    let mut times = TimeIntervals::default();
    for (from, to) in spans {
        times.push(from_seconds(*from), from_seconds(*to));
    }
    times
}

fn health(word: &str) -> Option<Health> {
    HEALTH.into_iter().find(|health| health.as_str() == word)
}

impl SpanLine {
    fn with_jobs(self, sums: &SpanSums) -> Self {
        let listed = sums.listings.spans().map(|(id, spans)| {
            let facts = sums.jobs.get(id);
            let text = |of: fn(&JobFacts) -> &Arc<str>| facts.map(of).cloned().unwrap_or_default();
            let spans =
                spans.iter().map(|span| (to_seconds(span.since), span.until.map(to_seconds)));
            let nodes = facts.into_iter().flat_map(|facts| &facts.nodes);
            JobLine {
                id: id.as_str().to_owned(),
                shown_id: text(|facts| &facts.shown_id),
                name: text(|facts| &facts.name),
                user: text(|facts| &facts.user),
                partition: text(|facts| &facts.partition),
                nodes: nodes.map(|name| name.as_str().to_owned()).collect(),
                cpus: facts.and_then(|facts| facts.cpus),
                memory: facts.and_then(|facts| Some(facts.memory?.0)),
                listed: spans.collect(),
            }
        });
        Self {
            jobs: listed.collect(),
            first_list: sums.listings.first_at().map(to_seconds),
            ..self
        }
    }

    fn add_jobs(&self, sums: &mut SpanSums) {
        let mut listed = BTreeMap::new();
        for job in &self.jobs {
            let Some(id) = JobId::new(&job.id) else { continue };
            let spans = job.listed.iter();
            let spans = spans.map(|(since, until)| ListedSpan {
                since: from_seconds(*since),
                until: until.map(from_seconds),
            });
            listed.insert(id.clone(), spans.collect());
            if job.shown_id.is_empty() {
                continue;
            }
            let nodes: BTreeSet<_> = job.nodes.iter().filter_map(|name| node_name(name)).collect();
            let facts = JobFacts {
                shown_id: short_text(&job.shown_id),
                name: short_text(&job.name),
                user: short_text(&job.user),
                partition: short_text(&job.partition),
                nodes,
                cpus: job.cpus,
                memory: job.memory.map(Bytes),
            };
            sums.jobs.insert(id, facts);
        }
        sums.listings.set(self.first_list.map(from_seconds), listed);
    }
}

impl NodeLine {
    fn of(name: &NodeName, node: &NodeSums) -> Self {
        let name_of = |name: &NodeName| name.as_str().to_owned();
        let errors = node.errors.iter().map(|(error, times)| ErrorLine {
            device: Arc::clone(&error.device),
            text: error.text.clone(),
            xid: error.xid,
            times: times.iter().map(|(at, count)| (to_seconds(*at), *count)).collect(),
        });
        let fault = node.source_fault.as_ref();
        let sets = node.sets.iter().map(|set| set.iter().map(HolderLine::of).collect());
        Self {
            node: name_of(name),
            listed: spans(&node.listed),
            down: spans(&node.down),
            blind: spans(&node.blind),
            elsewhere: spans(&node.elsewhere),
            other_name: node.other_name.as_ref().map(name_of),
            fault: node.fault.clone(),
            source_fault: fault.map(|(text, remedy)| (Arc::from(&**text), Arc::clone(remedy))),
            interval: (!node.interval.is_zero()).then_some(node.interval.as_secs_f64()),
            errors: errors.collect(),
            sets: sets.collect(),
            samples: node.samples.iter().map(|(sets, count)| (sets.to_vec(), *count)).collect(),
            shares: node.shares.iter().map(ShareLine::of).collect(),
            devices: node.devices.iter().map(DeviceLine::of).collect(),
        }
    }

    fn to_sums(&self) -> Option<NodeSums> {
        let sets: Vec<HolderSet> =
            self.sets.iter().map(|set| set.iter().map(HolderLine::to_holder).collect()).collect();
        let is_set = |set: usize| set < sets.len();
        let devices: Option<Vec<_>> =
            self.devices.iter().map(|device| device.to_sums(is_set)).collect();
        let errors = self.errors.iter().map(|error| {
            let times = error.times.iter().map(|(at, count)| (from_seconds(*at), *count));
            let known = DeviceError {
                device: short_text(&error.device),
                text: text(&error.text).to_string(),
                xid: error.xid,
            };
            (known, times.collect())
        });
        let samples = self.samples.iter().map(|(sets, count)| (sets.clone().into(), *count));
        let source_fault = self.source_fault.as_ref();
        Some(NodeSums {
            listed: times(&self.listed),
            down: times(&self.down),
            blind: times(&self.blind),
            elsewhere: times(&self.elsewhere),
            other_name: self.other_name.as_deref().and_then(node_name),
            fault: self.fault.as_deref().map(|fault| text(fault).to_string()),
            source_fault: source_fault
                .map(|(fault, remedy)| (text(fault).to_string(), text(remedy))),
            interval: Duration::try_from_secs_f64(self.interval.unwrap_or_default()).ok()?,
            errors: errors.collect(),
            samples: samples.collect(),
            shares: self.shares.iter().filter_map(ShareLine::to_sums).collect(),
            devices: devices?,
            parts: BTreeMap::new(),
            sets,
        })
    }
}

impl ShareLine {
    fn of((job, sums): (&JobId, &ShareSums)) -> Self {
        Self {
            job: job.as_str().to_owned(),
            cpus: pair(sums.cpus),
            max_memory: sums.max_memory.map(|bytes| bytes.0),
        }
    }

    fn to_sums(&self) -> Option<(JobId, ShareSums)> {
        let max_memory = self.max_memory.map(Bytes);
        Some((JobId::new(&self.job)?, ShareSums { cpus: mean(self.cpus), max_memory }))
    }
}

impl DeviceLine {
    fn of(device: &DeviceSums) -> Self {
        let health = device.last_health;
        let seen = device.seen.iter();
        let unseen = device.unseen_energy.iter();
        Self {
            device: Arc::clone(&device.uuid),
            index: device.index,
            model: device.model.clone(),
            health: health.map(|(at, health)| (to_seconds(at), health.as_str().to_owned())),
            present: spans(&device.present),
            seen: seen.map(|span| (to_seconds(span.from), to_seconds(span.to), span.set)).collect(),
            counter: CounterLine::of(&device.energy),
            unseen_joules: unseen
                .map(|((before, after), joules)| (*before, *after, rounded(*joules)))
                .collect(),
            held: device.held.iter().map(|(set, held)| HeldLine::of(*set, held)).collect(),
        }
    }

    fn to_sums(&self, is_set: impl Fn(usize) -> bool) -> Option<DeviceSums> {
        let mut sums = DeviceSums {
            uuid: short_text(&self.device),
            index: self.index,
            model: self.model.as_deref().map(short_text),
            present: times(&self.present),
            energy: self.counter.as_ref().map(CounterLine::to_meter).unwrap_or_default(),
            ..DeviceSums::default()
        };
        if let Some((at, word)) = &self.health {
            sums.last_health = Some((from_seconds(*at), health(word)?));
        }
        for (from, to, set) in &self.seen {
            let [from, to] = [*from, *to].map(from_seconds);
            let is_later = sums.seen.last().is_none_or(|last| last.to <= from) && from <= to;
            if !is_later || !is_set(*set) {
                return None;
            }
            sums.seen.push(SeenSpan { from, to, set: *set });
        }
        for (before, after, joules) in &self.unseen_joules {
            if !is_set(*before) || !is_set(*after) {
                return None;
            }
            sums.unseen_energy.insert((*before, *after), *joules);
        }
        for held in &self.held {
            if !is_set(held.set) {
                return None;
            }
            sums.held.insert(held.set, held.to_sums()?);
        }
        Some(sums)
    }
}

impl CounterLine {
    fn of(meter: &EnergyMeter) -> Option<Self> {
        let (first, last) = meter.first.zip(meter.last)?;
        let value = |value: CounterValue| (to_seconds(value.at), rounded(value.joules));
        Some(Self {
            first: value(first),
            last: value(last),
            joules_before: rounded(meter.before_first),
            joules_since: rounded(meter.since_last),
            has_moved: meter.has_moved,
        })
    }

    fn to_meter(&self) -> EnergyMeter {
        let value = |(at, joules): (f64, f64)| Some(CounterValue { at: from_seconds(at), joules });
        EnergyMeter {
            first: value(self.first),
            last: value(self.last),
            before_first: self.joules_before,
            since_last: self.joules_since,
            has_moved: self.has_moved,
        }
    }
}

impl HeldLine {
    fn of(set: usize, held: &HeldSums) -> Self {
        let usage = &held.usage;
        let [active, idle_held, free, faulty, unknown] = usage.states.map(positive);
        let loads = (0_u8..).zip(usage.by_percent.iter()).filter(|(_, seconds)| **seconds > 0.0);
        let memory = pair(usage.memory_used);
        let reasons = held.reasons.iter().map(|(id, reason)| ReasonLine {
            id: Arc::clone(id),
            health: reason.health.as_str().to_owned(),
            text: Arc::clone(&reason.text),
            is_of_driver: reason.is_of_driver,
            remedy: Arc::clone(&reason.remedy),
        });
        Self {
            set,
            active,
            idle_held,
            free,
            faulty,
            unknown,
            loads: loads.map(|(percent, seconds)| (percent, rounded(*seconds))).collect(),
            utilization: pair(usage.utilization),
            memory: memory.map(|(sum, seconds)| {
                (rounded(sum / MIB), seconds, rounded(usage.memory_total / MIB))
            }),
            max_memory_percent: usage.max_memory_percent,
            power: pair(usage.power),
            max_power: usage.max_power,
            joules: usage.energy.map(rounded),
            max_temperature: usage.max_temperature,
            throttled: positive(usage.throttled_seconds),
            degraded: positive(usage.degraded_seconds),
            occupied: positive(usage.occupied_seconds),
            empty: positive(usage.empty_seconds),
            reasons: reasons.collect(),
            minutes: MinutesLine::of(&held.series),
        }
    }

    fn to_sums(&self) -> Option<HeldSums> {
        let (used, known, total) = self.memory.unwrap_or_default();
        let states = [self.active, self.idle_held, self.free, self.faulty, self.unknown];
        let mut usage = DeviceUsage {
            states: states.map(Option::unwrap_or_default),
            utilization: mean(self.utilization),
            memory_used: TimedMean { sum: used * MIB, seconds: known },
            memory_total: total * MIB,
            max_memory_percent: self.max_memory_percent,
            power: mean(self.power),
            max_power: self.max_power,
            energy: self.joules,
            max_temperature: self.max_temperature,
            throttled_seconds: self.throttled.unwrap_or_default(),
            degraded_seconds: self.degraded.unwrap_or_default(),
            occupied_seconds: self.occupied.unwrap_or_default(),
            empty_seconds: self.empty.unwrap_or_default(),
            ..DeviceUsage::default()
        };
        for (percent, seconds) in &self.loads {
            *usage.by_percent.get_mut(usize::from(*percent))? = *seconds;
        }
        let reasons = self.reasons.iter().map(|line| {
            let reason = SeenReason {
                health: health(&line.health)?,
                text: text(&line.text),
                is_of_driver: line.is_of_driver,
                remedy: text(&line.remedy),
            };
            Some((short_text(&line.id), reason))
        });
        let series = self.minutes.as_ref().map(MinutesLine::to_series).unwrap_or_default();
        Some(HeldSums { usage, series, reasons: reasons.collect::<Option<_>>()? })
    }
}

impl MinutesLine {
    fn of(series: &StepSeries) -> Option<Self> {
        let list = |of: fn(&SeriesStep) -> f32| {
            let list: Vec<f32> = series.sums.iter().map(|step| short(of(step))).collect();
            if list.iter().all(|sum| *sum == 0.0) { Vec::new() } else { list }
        };
        (!series.sums.is_empty()).then(|| Self {
            first: series.first,
            utilization: list(|step| step.utilization[0]),
            utilization_known: list(|step| step.utilization[1]),
            memory: list(|step| step.memory[0]),
            memory_total: list(|step| step.memory[1]),
            power: list(|step| step.power[0]),
            power_known: list(|step| step.power[1]),
            active: list(|step| step.devices[0]),
            idle_held: list(|step| step.devices[1]),
            free: list(|step| step.devices[2]),
            seen: series.sums.iter().map(|step| short(step.devices[3])).collect(),
        })
    }

    fn to_series(&self) -> StepSeries {
        let sums = self.seen.iter().enumerate().map(|(number, seen)| {
            let get = |list: &Vec<f32>| list.get(number).copied().unwrap_or_default();
            SeriesStep {
                utilization: [get(&self.utilization), get(&self.utilization_known)],
                memory: [get(&self.memory), get(&self.memory_total)],
                power: [get(&self.power), get(&self.power_known)],
                devices: [get(&self.active), get(&self.idle_held), get(&self.free), *seen],
            }
        });
        TimedSums { first: self.first, sums: sums.collect() }
    }
}

impl HolderLine {
    fn of((holder, is_certain): &(Holder, bool)) -> Self {
        let why = match &holder.user {
            User::Named(_) | User::Number(_) => None,
            User::Unknown => Some("unknown"),
            User::Hidden => Some("hidden"),
            User::NotShown => Some("not_shown"),
        };
        Self {
            user: if let User::Named(name) = &holder.user { Some(Arc::clone(name)) } else { None },
            uid: if let User::Number(uid) = &holder.user { Some(*uid) } else { None },
            why: why.map(str::to_owned),
            job: holder.job.as_ref().map(|job| job.as_str().into()),
            is_certain: *is_certain,
        }
    }

    fn to_holder(&self) -> (Holder, bool) {
        let user = match (&self.user, self.uid, self.why.as_deref()) {
            (Some(name), _, _) => User::Named(short_text(name)),
            (None, Some(uid), _) => User::Number(uid),
            (None, None, Some("hidden")) => User::Hidden,
            (None, None, Some("not_shown")) => User::NotShown,
            (None, None, _) => User::Unknown,
        };
        let job = self.job.as_deref().and_then(JobId::new);
        (Holder { user, job }, self.is_certain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_other_rules_are_not_used() {
        let sums = SpanSums {
            nodes: [(NodeName::new("n1").unwrap(), NodeSums::default())].into(),
            ..SpanSums::default()
        };
        let span = (Timestamp::from_micros(1_000_000), Timestamp::from_micros(2_000_000));
        let lines = String::from_utf8(write(span, &sums).remove(0)).unwrap();
        let found = read(lines.as_bytes()).map(|(span, sums)| (span, sums.nodes.len()));
        assert_eq!(found, Some((span, 1)));
        for rules in [0, RULES - 1, RULES + 1, 1_000] {
            let other = lines.replace(&format!("\"rules\":{RULES}"), &format!("\"rules\":{rules}"));
            assert_ne!(other, lines);
            assert!(read(other.as_bytes()).is_none());
        }
    }
}

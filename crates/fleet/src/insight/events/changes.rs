//! Derives events from two consecutive snapshots: nodes lost and reconnected, sources and devices that fail
//! or recover, throttling, jobs that start and end.
//!
//! Events that drivers report themselves, such as Xids, are already in the nodes.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::advice::{self, Reader};
use crate::insight::FleetView;
use crate::insight::Severity;
use crate::insight::device_flag::DeviceFlag;
use crate::insight::node_status::NodeStatus;
use crate::insight::note::Note;
use crate::{Fleet, HealthReason, Node, SlowdownCause};
use gtop_local::time::Timestamp;
use gtop_model::{
    Device, EventKind, Job, JobId, JobList, JobOutcome, JobState, Link, MarkKind, NodeName,
    SourceFaultKind, Throttle,
};

/// Stands for the nodes in a remedy, so that equal events of many nodes are one.
pub(super) const HOST: &str = "HOST";
/// What a reboot means for its processes.
const REBOOTED: &str = "the node has rebooted: whatever ran there has ended";

#[derive(Clone, Debug, PartialEq)]
pub struct ObservedEvent {
    /// When it was noticed.
    pub at: Timestamp,
    pub kind: MarkKind,
    /// The nodes concerned; a job starts on many nodes at once.
    pub nodes: Vec<NodeName>,
    /// UUID of the device, if one is concerned.
    pub device: Option<Arc<str>>,
    pub summary: EventSummary,
}

/// Severity and text, what it means, and what to do about it; events with the same text are grouped, whatever their nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventSummary {
    pub severity: Severity,
    pub text: Arc<str>,
    /// Empty where the text says all.
    pub meaning: Cow<'static, str>,
    /// Empty where nothing is to be done; says [`HOST`] for the nodes.
    pub(crate) remedy: Cow<'static, str>,
}

impl EventSummary {
    /// Returns an event that needs no explanation.
    pub fn plain(severity: Severity, text: impl Into<Arc<str>>) -> Self {
        Self { severity, text: text.into(), meaning: "".into(), remedy: "".into() }
    }

    /// Adds what it means, and what to do about it.
    #[must_use]
    pub fn explained(
        self,
        meaning: impl Into<Cow<'static, str>>,
        remedy: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { meaning: meaning.into(), remedy: remedy.into(), ..self }
    }

    /// Returns the event that something is wrong with a device.
    fn of_flag(flag: &DeviceFlag, text: impl Into<Arc<str>>) -> Self {
        Self::plain(flag.severity(), text).explained(flag.meaning(), flag.remedy())
    }
}

/// A fleet at a moment.
#[derive(Clone, Copy, Debug)]
pub struct FleetMoment<'a> {
    pub(crate) fleet: &'a Fleet,
    pub(crate) now: Timestamp,
}

impl<'a> From<&'a FleetView> for FleetMoment<'a> {
    fn from(FleetView { fleet, now, .. }: &'a FleetView) -> Self {
        Self { fleet, now: *now }
    }
}

/// Returns the events between two snapshots.
///
/// Nodes behind the same `Arc` have not changed, so only their age is compared.
pub fn events_between<'a>(
    before: impl Into<FleetMoment<'a>>,
    after: impl Into<FleetMoment<'a>>,
) -> Vec<ObservedEvent> {
    let (before, after) = (before.into(), after.into());
    let mut detector = ChangeDetector { at: after.now, events: Vec::new() };
    let by_name = LazyCell::new(|| -> BTreeMap<&NodeName, &Arc<Node>> {
        before.fleet.nodes.iter().map(|node| (&node.name, node)).collect()
    });
    let listed = LazyCell::new(|| -> BTreeSet<&JobId> {
        let lists = [before, after].into_iter().filter_map(|moment| moment.fleet.jobs.as_ref());
        // The end of a job that has left the list is reported from the list, once.
        lists
            .flat_map(|list| {
                let left = list.awaiting_outcome.iter().chain(&list.jobs).map(|job| &job.id);
                left.chain(list.ended.iter().map(|(id, _)| id))
            })
            .collect()
    });
    for (index, node) in after.fleet.nodes.iter().enumerate() {
        let same_index = before.fleet.nodes.get(index).filter(|old| old.name == node.name);
        let Some(old) = same_index.or_else(|| by_name.get(&node.name).copied()) else { continue };
        detector.compare_freshness(old, node, before.now);
        if !Arc::ptr_eq(old, node) {
            detector.compare_link(old, node);
            detector.compare_sources(old, node);
            detector.compare_devices(old, node);
            detector.compare_unlisted_jobs(old, node, &listed);
        }
    }
    if let (Some(old), Some(new)) = (&before.fleet.jobs, &after.fleet.jobs)
        && !Arc::ptr_eq(old, new)
    {
        detector.compare_job_lists(old, new);
    }
    detector.events
}

struct ChangeDetector {
    at: Timestamp,
    events: Vec<ObservedEvent>,
}

impl ChangeDetector {
    fn add(&mut self, kind: MarkKind, node: &Node, summary: EventSummary) {
        self.add_device(kind, node, None, summary);
    }

    fn add_device(
        &mut self,
        kind: MarkKind,
        node: &Node,
        device: Option<&Device>,
        summary: EventSummary,
    ) {
        self.events.push(ObservedEvent {
            at: self.at,
            kind,
            nodes: vec![node.name.clone()],
            device: device.map(|device| Arc::clone(&device.uuid)),
            summary,
        });
    }

    fn add_recovery(&mut self, kind: MarkKind, node: &Node, text: impl Into<Arc<str>>) {
        self.add(kind, node, EventSummary::plain(Severity::Recovery, text));
    }

    /// Reports when samples stop or resume arriving while the connection stays up.
    fn compare_freshness(&mut self, old: &Node, new: &Node, old_now: Timestamp) {
        if old.link != Link::Up || new.link != Link::Up || new.has_source_problem() {
            return;
        }
        match (NodeStatus::of(old, old_now), NodeStatus::of(new, self.at)) {
            (NodeStatus::Fresh, NodeStatus::Stale(age)) => {
                let stale = Note::of_age(new, age);
                let summary = EventSummary::plain(stale.severity(), "stale: no new samples");
                let remedy = stale.advice(&new.name, Reader::Screen).text();
                self.add(MarkKind::Stale, new, summary.explained(stale.meaning(), remedy));
            }
            (NodeStatus::Stale(_), NodeStatus::Fresh) => {
                self.add_recovery(MarkKind::Over, new, "fresh again");
            }
            _ => {}
        }
    }

    fn compare_link(&mut self, old: &Node, new: &Node) {
        match (old.fault(), new.fault()) {
            (old_fault, Some(fault)) if old_fault.map(|old| old.kind) != Some(fault.kind) => {
                let summary = EventSummary::plain(Severity::Error, fault.message());
                let remedy = advice::of_alike(fault, HOST, Reader::Screen).first();
                self.add(MarkKind::Down, new, summary.explained(fault.kind.meaning(), remedy));
            }
            (Some(_), None) if new.link == Link::Up => {
                self.add_recovery(MarkKind::Up, new, "reconnected");
            }
            (Some(_) | None, _) => {}
        }
        let [old_id, new_id] = [old, new].map(|node| {
            let id = node.hello.as_ref().map(|hello| &*hello.host.boot_id);
            id.filter(|id| !id.is_empty())
        });
        if old_id.zip(new_id).is_some_and(|(old_id, new_id)| old_id != new_id) {
            let summary = EventSummary::plain(Severity::Warning, "rebooted");
            self.add(MarkKind::Rebooted, new, summary.explained(REBOOTED, ""));
        }
    }

    fn compare_sources(&mut self, old: &Node, new: &Node) {
        if new.link != Link::Up {
            return;
        }
        for state in &new.sources {
            let source = &state.source;
            let [before, now] = [old, new].map(|node| {
                let fault = node.source(source)?.fault.as_ref();
                fault.filter(|fault| fault.is_problem()).map(|fault| fault.kind)
            });
            match (before, now) {
                (None | Some(SourceFaultKind::Unanswered), Some(fault)) if before != now => {
                    let text = fault.text(source, None);
                    let summary = EventSummary::plain(Severity::Error, text);
                    let remedy = advice::source::of_source(fault);
                    let summary = summary.explained("this source provides no values", remedy);
                    self.add(MarkKind::Source, new, summary);
                }
                (Some(_), None) if state.fault.is_none() => {
                    self.add_recovery(
                        MarkKind::Over,
                        new,
                        format!("values from {} again", source.title()),
                    );
                }
                (Some(_) | None, _) => {}
            }
        }
    }

    fn compare_devices(&mut self, old: &Node, new: &Node) {
        for (index, device) in new.devices.iter().enumerate() {
            let same_index = old.devices.get(index).filter(|old| old.uuid == device.uuid);
            let Some(old_device) = same_index.or_else(|| old.device(&device.uuid)) else {
                continue;
            };
            let before = old.own_health_reasons(old_device);
            let reasons = new.own_health_reasons(device);
            for reason in reasons {
                let is_known = before.iter().any(|known| known.id() == reason.id());
                let is_new =
                    reported_as(reason).is_some_and(|kinds| !is_reported(new, device, kinds));
                if !is_known && is_new {
                    let text = format!("device {}", reason.text());
                    let flag = DeviceFlag::Health(reason.clone());
                    let summary = EventSummary::of_flag(&flag, text);
                    self.add_device(MarkKind::Health, new, Some(device), summary);
                }
            }
            if before.iter().any(|reason| reported_as(reason).is_some()) && reasons.is_empty() {
                let summary = EventSummary::plain(Severity::Recovery, "device recovered");
                self.add_device(MarkKind::Over, new, Some(device), summary);
            }
            let errors = old_device.ecc_uncorrected.get().zip(device.ecc_uncorrected.get());
            if let Some((_, after)) = errors.filter(|(before, after)| after > before)
                && !is_reported(new, device, &[EventKind::MemoryError])
            {
                let flag = DeviceFlag::Health(HealthReason::EccUncorrected(after));
                let summary = EventSummary::of_flag(&flag, "uncorrected memory error");
                self.add_device(MarkKind::Health, new, Some(device), summary);
            }
            if let Some((before, after)) = old_device.throttle.get().zip(device.throttle.get()) {
                self.compare_throttle(new, device, before, after);
            }
        }
    }

    fn compare_throttle(&mut self, node: &Node, device: &Device, old: Throttle, new: Throttle) {
        for cause in SlowdownCause::ALL {
            let text = cause.text();
            let (kind, summary) = match (cause.applies(old), cause.applies(new)) {
                (false, true) => {
                    let flag = DeviceFlag::Slowed(cause);
                    let summary = EventSummary::of_flag(&flag, format!("throttled: {text}"));
                    (MarkKind::Throttled, summary)
                }
                (true, false) => {
                    let text = format!("no longer throttled: {text}");
                    (MarkKind::Over, EventSummary::plain(Severity::Recovery, text))
                }
                (false, false) | (true, true) => continue,
            };
            self.add_device(kind, node, Some(device), summary);
        }
    }

    /// Reports the start and end of jobs that no scheduler lists, as their processes show them.
    fn compare_unlisted_jobs(&mut self, old: &Node, new: &Node, listed: &BTreeSet<&JobId>) {
        let have_lists = [old, new].iter().all(|node| {
            let mut lists = node.sources.iter().filter(|state| state.source.is_processes());
            lists.any(|state| state.taken_at.is_some())
        });
        if new.link != Link::Up || !have_lists {
            return;
        }
        // Fast path: nearly always the same jobs in the same order.
        if jobs_of(old).eq(jobs_of(new)) {
            return;
        }
        let [before, now] = [old, new].map(|node| jobs_of(node).collect::<BTreeSet<_>>());
        for job in now.difference(&before).filter(|job| !listed.contains(*job)) {
            let text = format!("job {job} started (it has processes)");
            self.add(MarkKind::Job, new, EventSummary::plain(Severity::Info, text));
        }
        for job in before.difference(&now).filter(|job| !listed.contains(*job)) {
            let text = format!("job {job} ended (no processes left)");
            self.add(MarkKind::Job, new, EventSummary::plain(Severity::Info, text));
        }
    }

    fn compare_job_lists(&mut self, old: &JobList, new: &JobList) {
        if old.at.is_none() || new.at.is_none() {
            return;
        }
        let [before, now] = [old, new].map(|list| {
            let jobs = list.with_nodes().chain(&list.awaiting_outcome);
            jobs.map(|job| &job.id).collect::<BTreeSet<_>>()
        });
        let listed: BTreeMap<&JobId, JobState> =
            new.jobs.iter().map(|job| (&job.id, job.state)).collect();
        for job in new.with_nodes().filter(|job| !before.contains(&job.id)) {
            self.add_job(job, "started");
        }
        for job in
            old.with_nodes().chain(&old.awaiting_outcome).filter(|job| !now.contains(&job.id))
        {
            let outcome = new.outcome(&job.id);
            let is_plain = matches!(outcome, JobOutcome::Completed | JobOutcome::Unknown);
            match listed.get(&job.id) {
                Some(JobState::Pending) => self.add_job(job, "waits again"),
                // It is listed, so it has not ended.
                Some(_) => {}
                None if is_plain => self.add_job(job, "ended"),
                None => self.add_job(job, outcome.text()),
            }
        }
        let starts: BTreeMap<&JobId, Option<Timestamp>> = old
            .with_nodes()
            .chain(&old.awaiting_outcome)
            .filter(|job| has_run(job))
            .map(|job| (&job.id, job.starts_at))
            .collect();
        for job in new.with_nodes() {
            let before = starts.get(&job.id).copied().flatten();
            if before.zip(job.starts_at).is_some_and(|(before, start)| before < start) {
                self.add_job(job, "was requeued and runs again");
            }
        }
    }

    fn add_job(&mut self, job: &Job, verb: &str) {
        let text = format!("job {} {verb} · {} of {}", job.shown_id, job.name, job.user);
        self.events.push(ObservedEvent {
            at: self.at,
            kind: MarkKind::Job,
            nodes: job.allocations.iter().map(|one| one.node.clone()).collect(),
            device: None,
            summary: EventSummary::plain(Severity::Info, text),
        });
    }
}

/// Returns true if a driver has reported an event of one of these kinds.
fn is_reported(node: &Node, device: &Device, kinds: &[EventKind]) -> bool {
    let mut events = node.events.iter().map(|record| &record.event);
    events.any(|event| event.device == device.uuid && kinds.contains(&event.kind))
}

/// Returns true if a job has begun to run; before that, the scheduler moves its start.
fn has_run(job: &Job) -> bool {
    matches!(job.state, JobState::Running | JobState::Suspended | JobState::Ending)
}

/// Returns the events of drivers that report a reason; `None` if it is reported in another way.
const fn reported_as(reason: &HealthReason) -> Option<&'static [EventKind]> {
    match reason {
        HealthReason::Lost | HealthReason::NeedsReset | HealthReason::Driver(_) => {
            Some(&[EventKind::Lost, EventKind::NeedsReset, EventKind::Unavailable])
        }
        HealthReason::Recovery(_) => Some(&[EventKind::Recovery]),
        HealthReason::RemapPending | HealthReason::RetirementPending => {
            Some(&[EventKind::Retirement])
        }
        // Xids are events, also that a device is gone and back, and a count of errors is compared with the one before. A slow
        // link comes and goes with the load.
        HealthReason::Xid { .. }
        | HealthReason::Gone(_)
        | HealthReason::NotRead(_)
        | HealthReason::EccUncorrected(_)
        | HealthReason::PcieBelowMax { .. } => None,
        HealthReason::NoPermission
        | HealthReason::RemapFailed
        | HealthReason::SramThreshold
        | HealthReason::EccUncorrectedTotal(_)
        | HealthReason::FanFailed
        | HealthReason::NvlinksDown { .. }
        | HealthReason::Slowed { .. }
        | HealthReason::LoadWithoutProcess(_) => Some(&[]),
    }
}

fn jobs_of(node: &Node) -> impl Iterator<Item = &JobId> {
    let seen = node.processes.iter().filter_map(|process| process.statics.job.as_ref());
    seen.chain(node.unseen.iter().filter_map(|process| process.statics.job.as_ref()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Process, SourceState};
    use gtop_model::{
        Allocation, DeviceAllocation, DeviceDetails, DeviceFault, FaultKind, ProcessStatics,
        Reading, Source, SourceFault,
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn node(change: impl FnOnce(&mut Node)) -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        node.link = Link::Up;
        let state = |source| SourceState {
            source,
            taken_at: Some(at(100)),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        };
        node.sources = vec![state(Source::host()), state(Source::new("nvml.processes"))];
        let device = Device {
            uuid: "GPU-1".into(),
            throttle: Reading::Known(Throttle(0)),
            ecc_uncorrected: Reading::Known(0),
            ..Device::default()
        };
        node.devices = vec![device].into();
        node.device_sources = vec![Source::host()].into();
        change(&mut node);
        node
    }

    fn fleet_view(node: Node, second: i64) -> FleetView {
        FleetView::new(Fleet::new(vec![Arc::new(node)].into()), at(second))
    }

    /// Returns the event texts when a node changes from `before` to `after` within a second.
    fn texts(before: Node, after: Node) -> Vec<String> {
        let found = events_between(&fleet_view(before, 100), &fleet_view(after, 101));
        assert!(found.iter().all(|one| one.at == at(101)));
        found.into_iter().map(|one| one.summary.text.to_string()).collect()
    }

    fn disconnect(node: &mut Node) {
        node.link =
            Link::Down { fault: gtop_model::Fault::new(FaultKind::Silent, ""), retry_at: None };
    }

    type Change = fn(&mut Node);

    #[test]
    fn each_change_of_a_node_and_its_devices_has_a_text_in_both_directions() {
        let none: Change = |_| {};
        let stuck: Change = |node| {
            node.sources[1].fault = Some(Box::new(SourceFault {
                kind: SourceFaultKind::Stuck,
                call: "".into(),
                message: "".into(),
                duration: Duration::ZERO,
                at: at(100),
                code: None,
            }));
        };
        let hot: Change = |node| node.devices[0].throttle = Reading::Known(Throttle(0x48));
        let throttle_unknown: Change = |node| node.devices[0].throttle = Reading::default();
        let lost: Change = |node| node.devices[0].fault = Some(DeviceFault::Lost);
        let errors: Change = |node| node.devices[0].ecc_uncorrected = Reading::Known(2);
        let remap: Change = |node| {
            let details = DeviceDetails {
                remapping_failed: Reading::Known(true),
                ..DeviceDetails::default()
            };
            node.devices[0].details = Some(Arc::new(details));
        };
        let job: Change = |node| {
            let statics = ProcessStatics { job: JobId::new("7"), ..ProcessStatics::default() };
            let process = Process { statics: Arc::new(statics), ..Process::default() };
            node.processes = [process].into();
        };
        let cases: [(Change, &[&str], &[&str]); 9] = [
            (none, &[], &[]),
            (disconnect, &["silent"], &["reconnected"]),
            (
                stuck,
                &["no answer from the process list of the NVIDIA driver"],
                &["values from the process list of the NVIDIA driver again"],
            ),
            (hot, &["throttled: thermal"], &["no longer throttled: thermal"]),
            // An unknown value neither begins nor ends anything.
            (throttle_unknown, &[], &[]),
            (lost, &["device lost"], &["device recovered"]),
            (errors, &["uncorrected memory error"], &[]),
            (remap, &["device memory row remapping failed"], &["device recovered"]),
            (job, &["job 7 started (it has processes)"], &["job 7 ended (no processes left)"]),
        ];
        for (change, begun, ended) in cases {
            assert_eq!(texts(node(none), node(change)), begun);
            assert_eq!(texts(node(change), node(none)), ended);
        }
    }

    #[test]
    fn stale_samples_are_an_event_although_the_node_has_not_changed() {
        let same = Arc::new(node(|_| {}));
        let fleet_view_at =
            |second| FleetView::new(Fleet::new(vec![Arc::clone(&same)].into()), at(second));
        let texts = |before, after| -> Vec<String> {
            let found = events_between(&fleet_view_at(before), &fleet_view_at(after)).into_iter();
            found.map(|one| one.summary.text.to_string()).collect()
        };
        assert_eq!(texts(101, 102), Vec::<String>::new());
        assert_eq!(texts(103, 104), ["stale: no new samples"]);
    }

    #[test]
    fn added_and_removed_nodes_are_no_events() {
        let empty = FleetView::new(Fleet::default(), at(100));
        assert_eq!(events_between(&empty, &fleet_view(node(disconnect), 101)), []);
        assert_eq!(events_between(&fleet_view(node(disconnect), 100), &empty), []);
    }

    #[test]
    fn listed_jobs_start_and_end_once_on_all_their_nodes() {
        let list = |ids: &[&str], second: Option<i64>| {
            let allocation = |name: &str| Allocation {
                node: NodeName::new(name).unwrap(),
                devices: DeviceAllocation::Unknown,
            };
            let job = |id: &&str| Job {
                allocations: ["a", "b"].map(allocation).into(),
                ..Job::example(id)
            };
            let jobs = ids.iter().map(job).collect();
            Arc::new(JobList { jobs, at: second.map(at), ..JobList::default() })
        };
        let fleet_view =
            |jobs| FleetView::new(Fleet { jobs: Some(jobs), ..Fleet::default() }, at(9));
        let texts = |before, after| -> Vec<(String, usize)> {
            let found = events_between(&fleet_view(before), &fleet_view(after)).into_iter();
            found.map(|one| (one.summary.text.to_string(), one.nodes.len())).collect()
        };
        let found = texts(list(&["1", "2"], Some(1)), list(&["2", "3"], Some(2)));
        let expected = ["job 3 started · x of alice", "job 1 ended · x of alice"];
        assert_eq!(found, expected.map(|text| (text.to_owned(), 2)));
        // The first job list starts no jobs.
        assert_eq!(texts(list(&[], None), list(&["1"], Some(1))), []);
        // A job's end is reported once, after the scheduler has reported its outcome.
        let after_the_end = |outcome: Option<JobOutcome>| {
            let job = list(&["1"], Some(1)).jobs[0].clone();
            let ended = outcome.map(|outcome| (job.id.clone(), outcome)).into_iter().collect();
            let awaiting_outcome = if outcome.is_none() { vec![job] } else { Vec::new() };
            Arc::new(JobList { awaiting_outcome, ended, ..JobList::clone(&list(&[], Some(2))) })
        };
        assert_eq!(texts(list(&["1"], Some(1)), after_the_end(None)), []);
        for (outcome, text) in [
            (JobOutcome::Cancelled, "job 1 was cancelled · x of alice"),
            (JobOutcome::TimeLimit, "job 1 reached its time limit · x of alice"),
            (JobOutcome::Unknown, "job 1 ended · x of alice"),
        ] {
            let expected = [(text.to_owned(), 2)];
            assert_eq!(texts(after_the_end(None), after_the_end(Some(outcome))), expected);
            assert_eq!(texts(list(&["1"], Some(1)), after_the_end(Some(outcome))), expected);
        }
        assert_eq!(texts(after_the_end(Some(JobOutcome::Cancelled)), list(&[], Some(3))), []);
    }

    fn job_texts(before: JobList, after: JobList) -> Vec<String> {
        let fleet_view = |jobs: JobList| {
            let jobs = JobList { at: Some(at(1)), ..jobs };
            FleetView::new(Fleet { jobs: Some(Arc::new(jobs)), ..Fleet::default() }, at(9))
        };
        let found = events_between(&fleet_view(before), &fleet_view(after)).into_iter();
        found.map(|one| one.summary.text.to_string()).collect()
    }

    #[test]
    fn a_job_that_waits_again_has_not_ended() {
        let job = |state, start: i64| {
            let node = NodeName::new("a").unwrap();
            let allocation = Allocation { node, devices: DeviceAllocation::Unknown };
            let allocations = [allocation].into_iter().filter(|_| state != JobState::Pending);
            let allocations = allocations.collect();
            Job { state, starts_at: Some(at(start)), allocations, ..Job::example("1") }
        };
        let list = |job: Job| JobList { jobs: vec![job], ..JobList::default() };
        let (running, pending) = (job(JobState::Running, 5), job(JobState::Pending, 90));
        let away = JobList { awaiting_outcome: vec![running.clone()], ..JobList::default() };
        let again = "job 1 waits again · x of alice";
        assert_eq!(job_texts(list(running.clone()), list(pending.clone())), [again]);
        assert_eq!(job_texts(away.clone(), list(pending.clone())), [again]);
        assert_eq!(job_texts(list(running.clone()), away.clone()), [""; 0]);
        let later = job(JobState::Running, 60);
        let started = "job 1 started · x of alice";
        assert_eq!(job_texts(list(pending), list(later.clone())), [started]);
        let requeued = "job 1 was requeued and runs again · x of alice";
        assert_eq!(job_texts(list(running.clone()), list(later.clone())), [requeued]);
        // Meanwhile the filter left it out.
        assert_eq!(job_texts(away.clone(), list(later.clone())), [requeued]);
        // The start of a job whose nodes boot moves.
        assert_eq!(job_texts(list(job(JobState::Starting, 5)), list(later)), [""; 0]);
        // It has no nodes, and its state is none that gtop knows.
        let odd = Job { allocations: Arc::default(), ..job(JobState::Other, 5) };
        assert_eq!(job_texts(list(running), list(odd)), [""; 0]);
    }

    #[test]
    fn the_end_of_a_listed_job_is_one_event_whenever_its_processes_end() {
        let with_process = |is_there: bool| {
            node(|node| {
                let statics = ProcessStatics { job: JobId::new("1"), ..ProcessStatics::default() };
                let process = Process { statics: Arc::new(statics), ..Process::default() };
                node.processes = [process].into_iter().filter(|_| is_there).collect();
            })
        };
        let view = |is_there: bool, jobs: JobList, second| {
            let jobs = Some(Arc::new(JobList { at: Some(at(1)), ..jobs }));
            let nodes = vec![Arc::new(with_process(is_there))].into();
            FleetView::new(Fleet { jobs, ..Fleet::new(nodes) }, at(second))
        };
        let away = JobList { awaiting_outcome: vec![Job::example("1")], ..JobList::default() };
        let ended = [(JobId::new("1").unwrap(), JobOutcome::Cancelled)].into();
        let ended = JobList { ended, ..JobList::default() };
        for list in [away, ended] {
            let found = events_between(&view(true, list.clone(), 100), &view(false, list, 101));
            assert_eq!(found, []);
        }
    }
}

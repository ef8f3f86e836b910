//! The status of a node, and the short notes shown for it in the list and above its panel.

use std::borrow::Cow;
use std::time::Duration;

use crate::advice::{self, Advice, Known, Reader};
use crate::insight::FleetView;
use crate::insight::Severity;
use crate::insight::device_count;
use crate::insight::device_flag::DeviceFlag;
use crate::insight::note::{NextAttempt, Note};
use crate::{Fleet, Node};
use gtop_local::text::{UNKNOWN, counted};
use gtop_local::time::Timestamp;
use gtop_model::{
    Device, Fault, FaultKind, Freshness, JobId, JobList, Link, SchedulerNode, SudoState,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeStatus {
    /// Queued to connect.
    Waiting,
    /// A connection is being opened; the number of the attempt, from 1.
    Opening(u32),
    /// Connected; no sample has arrived yet.
    Starting,
    /// The newest sample is fresh.
    Fresh,
    /// The newest sample is this old.
    Stale(Duration),
    /// The connection is down.
    Down,
    /// It is powered off, or does not let gtop in and need not; only the scheduler's state of it is known.
    Reported,
}

impl NodeStatus {
    pub fn of(node: &Node, now: Timestamp) -> Self {
        match &node.link {
            _ if node.powered_off().is_some() => Self::Reported,
            Link::Idle => Self::Waiting,
            Link::Opening { .. } | Link::Down { .. } if node.reported().is_some() => Self::Reported,
            // Shown as down until the next connection is up, so that the reason stays readable.
            Link::Opening { .. } | Link::Down { .. } if node.fault().is_some() => Self::Down,
            Link::Opening { attempt } => Self::Opening(*attempt),
            Link::Down { .. } => Self::Down,
            Link::Up => match node.freshness(now) {
                Freshness::Fresh => Self::Fresh,
                Freshness::Stale(age) => Self::Stale(age),
                Freshness::Missing => Self::Starting,
            },
        }
    }

    pub fn is_fresh(self) -> bool {
        self == Self::Fresh
    }
}

/// Returns the notes on a node and its devices, the most important first.
pub fn notes(fleet_view: &FleetView, node: &Node) -> Vec<Note> {
    let mut notes = fleet_notes(&fleet_view.fleet, node, fleet_view.now);
    if notes.iter().all(|note| matches!(note, Note::Aged(_))) && is_free(fleet_view, node) {
        notes.push(Note::Free);
    }
    notes
}

/// Returns the notes on a node and its devices without that it is free, which depends on what is shown.
pub fn fleet_notes(fleet: &Fleet, node: &Node, now: Timestamp) -> Vec<Note> {
    let mut notes = status_notes(fleet, node, now);
    if node.link == Link::Up {
        notes.extend(device_notes(node));
    }
    notes
}

/// Returns the notes on a node without those on its devices.
pub fn status_notes(fleet: &Fleet, node: &Node, now: Timestamp) -> Vec<Note> {
    let mut notes = Vec::new();
    if let Some(first) = fleet.same_as.get(&node.name) {
        notes.push(Note::SameMachine(first.clone()));
    }
    let status = NodeStatus::of(node, now);
    match status {
        NodeStatus::Waiting => notes.push(Note::Waiting),
        NodeStatus::Opening(attempt) => notes.push(Note::Connecting(attempt)),
        NodeStatus::Down => notes.extend(down_notes(node, now)),
        NodeStatus::Reported => {
            notes.extend(node.reported().map(|known| reported_note(fleet, node, known, now)));
        }
        NodeStatus::Starting if node.hello.is_none() => notes.push(Note::StartingProbe),
        NodeStatus::Starting => notes.push(Note::FirstSample),
        NodeStatus::Stale(_) | NodeStatus::Fresh => {}
    }
    notes.extend(scheduler_note(fleet, node, status, now));
    if node.link != Link::Up {
        return notes;
    }
    let faults = source_fault_notes(node, now);
    if let NodeStatus::Stale(age) = status
        && faults.is_empty()
    {
        notes.push(Note::of_age(node, age));
    }
    notes.extend(faults);
    notes.extend(sudo_note(node));
    if status == NodeStatus::Fresh {
        notes.extend(node.unusual_age(now).map(Note::Aged));
    }
    let unreadable = unreadable_note(node);
    notes.extend(backend_note(node, unreadable.is_some()));
    notes.extend(unreadable);
    notes.extend(left_out_note(node));
    notes.extend(device_count::kernel_notes(node));
    notes.extend(device_count::notes(node, now));
    notes
}

/// Says why the probe does not run as root, if that is wanted.
fn sudo_note(node: &Node) -> Option<Note> {
    match node.hello.as_ref()?.sudo? {
        SudoState::Root => None,
        SudoState::Refused(refusal) => Some(Note::SudoRefused(refusal)),
    }
}

/// Returns what the scheduler says of a node that cannot be reached, and how long ago.
fn reported_note(fleet: &Fleet, node: &Node, known: &SchedulerNode, now: Timestamp) -> Note {
    let devices = match (known.unallocated(), known.devices) {
        (Some(free), Some(all)) if known.takes_jobs() => {
            format!(" · {free} of {} free", counted_devices(all))
        }
        (_, Some(all)) => format!(" · {}", counted_devices(all)),
        (_, None) => String::new(),
    };
    let doubt = login_doubt(node).map(|fault| format!(" · {}", fault.kind.label()));
    let is_old = known.is_old || known.is_count_old;
    let severity = if known.takes_jobs() && !is_old { Severity::Info } else { Severity::Warning };
    let said = format!("{}{devices}{}", known.state_text(), doubt.unwrap_or_default());
    let words = &fleet.scheduler().words;
    Note::ReportedByScheduler { words, said, age: scheduler_age(fleet, known, now), severity }
}

/// Returns the age of the scheduler's state of a node.
fn scheduler_age(fleet: &Fleet, known: &SchedulerNode, now: Timestamp) -> Option<Duration> {
    fleet.answered_at(known).map(|at| now.since(at))
}

/// Returns the fault of a node that may be closed, unless the node says that it is: the login may be wrong too.
fn login_doubt(node: &Node) -> Option<&Fault> {
    if node.powered_off().is_some() {
        return None;
    }
    node.reported()?;
    node.fault().filter(|fault| fault.kind == FaultKind::AuthenticationRefused)
}

fn counted_devices(count: u32) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "device")
}

/// Says that the scheduler gives a node no jobs, and why; if that is old, also since when.
fn scheduler_note(fleet: &Fleet, node: &Node, status: NodeStatus, now: Timestamp) -> Option<Note> {
    let known = node.scheduler.as_ref().filter(|known| !known.takes_jobs())?;
    if status == NodeStatus::Reported {
        return None;
    }
    let age = scheduler_age(fleet, known, now).filter(|_| known.is_old);
    Some(Note::ClosedByScheduler { words: &fleet.scheduler().words, said: known.state_text(), age })
}

/// Returns why a node is down, and when the next attempt is due.
fn down_notes(node: &Node, now: Timestamp) -> Vec<Note> {
    let Some(fault) = node.fault() else { return Vec::new() };
    vec![Note::Down(Box::new(fault.clone())), Note::NextAttempt(next_attempt(node, now))]
}

/// Returns when a node that is down is tried again.
fn next_attempt(node: &Node, now: Timestamp) -> NextAttempt {
    match &node.link {
        Link::Opening { attempt } => NextAttempt::Running(*attempt),
        Link::Down { retry_at: Some(at), .. } if *at > now => NextAttempt::In(at.since(now)),
        Link::Down { retry_at: None, fault } if fault.kind == FaultKind::HostKeyUnknown => {
            NextAttempt::OnHostKey
        }
        Link::Down { retry_at: None, fault } if fault.is_solved_by_login() => NextAttempt::OnLogin,
        Link::Down { retry_at: None, .. } => NextAttempt::OnRequest,
        Link::Down { .. } | Link::Idle | Link::Up => NextAttempt::Soon,
    }
}

fn source_fault_notes(node: &Node, now: Timestamp) -> Vec<Note> {
    let notes = node.sources.iter().filter_map(|state| {
        let fault = state.fault.clone()?;
        let span = fault.duration.saturating_add(now.since(fault.at));
        Some(Note::SourceFault { source: state.source.clone(), fault, span })
    });
    notes.collect()
}

/// Returns what to do about the fault of a node; nothing if it has none.
pub fn node_advice(node: &Node, reader: Reader) -> Advice {
    let is_reported = node.reported().is_some();
    let fault = if is_reported { login_doubt(node) } else { node.fault() };
    match (fault, node.source_fault()) {
        (Some(fault), _) => advice::for_fault(fault, &Known::of_node(&node.name, reader)),
        (None, Some((_, fault))) if !is_reported => advice::source::of_source(fault.kind).into(),
        (None, _) => Advice::default(),
    }
}

/// Groups devices by flag: `#3,5 !THERM`.
fn device_notes(node: &Node) -> Vec<Note> {
    let mut grouped: Vec<(DeviceFlag, Vec<String>)> = Vec::new();
    for device in &node.devices {
        for flag in DeviceFlag::of(node, device) {
            let label = device_label(node, device);
            match grouped.iter_mut().find(|(known, _)| known.is_told_with(&flag)) {
                Some((_, labels)) => labels.push(label),
                None => grouped.push((flag, vec![label])),
            }
        }
    }
    grouped.sort_by_key(|(flag, _)| flag.rank());
    grouped.into_iter().map(|(flag, labels)| Note::Devices { labels, flag }).collect()
}

/// Returns the job id as users know it; the internal id if there is no list of jobs.
pub fn shown_id<'a>(jobs: Option<&'a JobList>, id: &'a JobId) -> Cow<'a, str> {
    jobs.map_or_else(|| id.as_str().into(), |jobs| jobs.shown_id(id))
}

/// Returns the model of a device without the vendor.
pub fn model_name(device: &Device) -> &str {
    device.model().unwrap_or(UNKNOWN)
}

/// Returns the number of a device: `3`, or `3.1` for a slice; of a device without a number, its place on the PCI bus.
pub fn device_label(node: &Node, device: &Device) -> String {
    let Some(parent) = &device.parent else { return own_label(device) };
    let parent = node.device(parent).map_or_else(|| UNKNOWN.to_owned(), own_label);
    format!("{parent}.{}", own_label(device))
}

/// Returns a device as a line: its node, its number and its UUID.
pub fn device_line(node: &Node, device: &Device) -> String {
    format!("{} {} {}", node.name.label(), device_label(node, device), device.uuid)
}

fn own_label(device: &Device) -> String {
    let index = device.index.get().map(|index| index.to_string());
    index.unwrap_or_else(|| device.bus_address().unwrap_or(UNKNOWN).to_owned())
}

/// Names the accelerators that gtop cannot read.
fn unreadable_note(node: &Node) -> Option<Note> {
    let texts = node.hello.as_ref()?.unreadable_texts();
    (!texts.is_empty()).then_some(Note::UnreadableDevices(texts))
}

/// Says that only some of its devices are read.
fn left_out_note(node: &Node) -> Option<Note> {
    let more = node.hello.as_ref()?.devices_left_out;
    (more > 0).then_some(Note::DevicesLeftOut { read: node.devices.len(), more })
}

/// Says why a node shows no devices, unless another note names those that cannot be read.
fn backend_note(node: &Node, has_unreadable: bool) -> Option<Note> {
    let hello = node.hello.as_ref().filter(|_| node.devices.is_empty())?;
    if node.has_hidden_devices {
        return Some(Note::NoneSelected);
    }
    let states = hello.backends.iter().filter_map(|backend| node.source(&backend.source));
    let mut absent = Vec::new();
    for state in states {
        match (&state.absent, &state.fault, state.taken_at) {
            (Some(_), Some(fault), _) if fault.is_problem() => return None,
            (Some(why), _, _) => absent.push(why.to_string()),
            (None, None, None) => return Some(Note::SourceStarting(state.source.clone())),
            (None, None, Some(_)) => absent.push(format!("{} found none", state.source)),
            (None, Some(_), _) => return None,
        }
    }
    if absent.is_empty() {
        let why = if node.is_read_from_page() {
            "none on its page of metrics"
        } else {
            "no backend for this machine"
        };
        absent.push(why.to_owned());
    }
    (!has_unreadable).then_some(Note::NoDevices(absent))
}

/// Returns true if all devices of a node are free.
fn is_free(fleet_view: &FleetView, node: &Node) -> bool {
    !node.devices.is_empty() && node.units().all(|(position, _)| fleet_view.is_free(node, position))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{SourceState, Totals};
    use gtop_model::{
        DeviceFault, Job, NodeFlag, NodeName, NodeState, Percent, Reading, SchedulerNodes, Source,
        SourceFault, SourceFaultKind, Throttle,
    };

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    #[test]
    fn job_ids_are_shown_as_the_scheduler_shows_them() {
        let list = [("11", "2000_7"), ("13", "12+1"), ("14", "14")].map(|(id, shown)| Job {
            shown_id: shown.into(),
            alias: JobId::new(&format!("s{id}")),
            ..Job::example(id)
        });
        let mut list = JobList { jobs: list.into(), ..JobList::default() };
        for (id, shown) in
            [("11", "2000_7"), ("s11", "2000_7"), ("13", "12+1"), ("14", "14"), ("99", "99")]
        {
            let id = JobId::new(id).unwrap();
            assert_eq!(shown_id(Some(&list), &id), shown);
            assert_eq!(shown_id(None, &id), id.as_str());
        }
        // Beside ids of the list, that of a job that is not listed is marked.
        list.at = Some(NOW);
        assert_eq!(shown_id(Some(&list), &JobId::new("99").unwrap()), "raw 99");
    }

    fn node(link: Link) -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        node.link = link;
        node
    }

    fn notes_text(node: &Node) -> String {
        let fleet_view = FleetView::new(Fleet::new(vec![Arc::new(node.clone())].into()), NOW);
        let notes = notes(&fleet_view, node);
        notes.iter().map(Note::text).collect::<Vec<_>>().join(" · ")
    }

    fn source(node: &mut Node, taken_ago: Option<u64>, fault: Option<SourceFaultKind>) {
        let at = |ago: u64| {
            Timestamp::from_micros(NOW.as_micros() - i64::try_from(ago).unwrap() * 1_000_000)
        };
        let fault = fault.map(|kind| SourceFault {
            kind,
            call: "".into(),
            message: "".into(),
            duration: Duration::from_secs(4),
            at: at(2),
            code: None,
        });
        node.sources.push(SourceState {
            source: if node.sources.is_empty() { Source::host() } else { Source::new("nvml") },
            taken_at: taken_ago.map(at),
            interval: Duration::from_secs(1),
            fault: fault.map(Box::new),
            absent: None,
        });
    }

    #[test]
    fn the_note_names_the_link_state_and_the_next_retry() {
        let down = |kind, detail: &str, seconds: Option<u64>| Link::Down {
            fault: Fault::new(kind, detail),
            retry_at: seconds.map(|seconds| NOW.plus(Duration::from_secs(seconds))),
        };
        for (link, words) in [
            (Link::Idle, "waiting to connect"),
            (Link::Opening { attempt: 1 }, "connecting"),
            (Link::Opening { attempt: 4 }, "connecting (attempt 4)"),
            (Link::Up, "starting the probe"),
            (down(FaultKind::Silent, "", Some(12)), "silent · retry in 12s"),
            (down(FaultKind::Silent, "", Some(0)), "silent · retrying"),
            (
                down(FaultKind::AuthenticationRefused, "offers hostbased", None),
                "authentication refused: offers hostbased · R retries",
            ),
        ] {
            assert_eq!(notes_text(&node(link)), words);
        }
    }

    #[test]
    fn the_fault_is_shown_while_reconnecting() {
        let mut node = node(Link::Opening { attempt: 3 });
        node.last_fault = Some(Fault::new(FaultKind::SessionLost, "reset"));
        assert_eq!(notes_text(&node), "session lost: reset · connecting (attempt 3)");
    }

    #[test]
    fn a_fault_has_a_remedy_that_names_the_node() {
        let fault = Fault::new(FaultKind::HostKeyUnknown, "").with_what("eavesdropping");
        let node = node(Link::Down { fault, retry_at: None });
        assert_eq!(
            node_advice(&node, Reader::Screen).first(),
            "check the fingerprint and run: gtop trust gpu01"
        );
    }

    #[test]
    fn a_stuck_source_replaces_the_stale_note_and_its_age_grows() {
        let mut stale = node(Link::Up);
        source(&mut stale, Some(102), None);
        assert_eq!(notes_text(&stale), "stale 1m42s");
        source(&mut stale, None, Some(SourceFaultKind::Stuck));
        assert_eq!(notes_text(&stale), "no answer for 6s from the NVIDIA driver");
        let mut new = node(Link::Up);
        source(&mut new, Some(0), None);
        source(&mut new, None, Some(SourceFaultKind::Starting));
        assert_eq!(notes_text(&new), "starting the NVIDIA driver (6s)");
    }

    #[test]
    fn values_that_come_seldom_have_their_age_and_are_stale_only_later() {
        for (ago, text) in [(9, "free"), (42, "42s old · free"), (91, "stale 1m31s")] {
            let mut slow = node(Link::Up);
            source(&mut slow, Some(0), None);
            source(&mut slow, Some(ago), None);
            slow.sources[1].interval = Duration::from_secs(30);
            let utilization = Reading::checked(Percent::new(0.0));
            slow.devices = vec![Device { utilization, ..Device::default() }].into();
            slow.device_sources = vec![Source::new("nvml")].into();
            assert_eq!(notes_text(&slow), text);
        }
    }

    #[test]
    fn flags_list_their_devices_and_faults_come_first() {
        let mut busy = node(Link::Up);
        source(&mut busy, Some(0), None);
        let throttled = |index, bits| Device {
            uuid: format!("GPU-{index}").into(),
            index: Reading::Known(index),
            throttle: Reading::Known(Throttle(bits)),
            utilization: Reading::checked(Percent::new(50.0)),
            ..Device::default()
        };
        let lost = Device {
            uuid: "GPU-7".into(),
            index: Reading::Known(7),
            fault: Some(DeviceFault::Lost),
            ..Device::default()
        };
        let errors = Device {
            uuid: "GPU-2".into(),
            index: Reading::Known(2),
            ecc_uncorrected: Reading::Known(1),
            ..Device::default()
        };
        busy.devices =
            vec![errors, throttled(3, 0x40), throttled(5, 0x60), throttled(6, 0x08), lost].into();
        busy.device_sources = vec![Source::host(); 5].into();
        assert_eq!(notes_text(&busy), "#7 lost · #2 ECC · #3,5 !THERM · #6 !SLOW");
        // What the driver says is told whole.
        busy.health.forget();
        busy.devices[4].fault = Some(DeviceFault::Other("Xid 79: pci: gone".into()));
        assert!(notes_text(&busy).starts_with("#7 xid 79: pci: gone · "), "{}", notes_text(&busy));
    }

    #[test]
    fn the_software_power_limit_is_no_flag() {
        let device = Device { throttle: Reading::Known(Throttle(0x04)), ..Device::default() };
        assert_eq!(DeviceFlag::of(&node(Link::Up), &device), []);
    }

    #[test]
    fn what_the_scheduler_said_of_a_node_has_its_age() {
        let known = |kind, is_extra, is_old, state| {
            let mut node = node(Link::Down { fault: Fault::new(kind, ""), retry_at: None });
            node.scheduler = Some(Arc::new(SchedulerNode {
                state,
                is_responding: true,
                devices: Some(8),
                allocated: Some(5),
                is_extra,
                is_old,
                ..SchedulerNode::default()
            }));
            let at = Timestamp::from_micros(NOW.as_micros() - 90_000_000);
            let nodes = Arc::new(SchedulerNodes { at: Some(at), ..SchedulerNodes::default() });
            let jobs = Some(Arc::new(JobList { nodes, ..JobList::default() }));
            let fleet = Fleet { jobs, ..Fleet::new(vec![Arc::new(node.clone())].into()) };
            let fleet_view = FleetView::new(fleet, NOW);
            let problems = fleet_view.problems.len();
            (notes(&fleet_view, &node)[0].text(), problems)
        };
        let (closed, login) = (FaultKind::NoJob, FaultKind::AuthenticationRefused);
        for (kind, is_extra, state, note, problems) in [
            (
                closed,
                false,
                NodeState::Mixed,
                "the scheduler 1m30s ago: mixed · 3 of 8 devices free",
                0,
            ),
            (closed, false, NodeState::Down, "the scheduler 1m30s ago: down · 8 devices", 0),
            // Nobody was let in, so the login may be wrong.
            (
                login,
                true,
                NodeState::Mixed,
                "the scheduler 1m30s ago: mixed · 3 of 8 devices free · authentication refused",
                1,
            ),
            // A job runs there, and a daemon that is not there refuses everybody.
            (login, false, NodeState::Mixed, "authentication refused", 1),
            (FaultKind::Refused, true, NodeState::Mixed, "connection refused", 1),
        ] {
            let found = known(kind, is_extra, false, state);
            assert_eq!(found, (note.to_owned(), problems), "{kind:?}");
        }
        let mut reachable = node(Link::Up);
        reachable.scheduler = Some(Arc::new(SchedulerNode {
            state: NodeState::Drained,
            is_responding: true,
            ..SchedulerNode::default()
        }));
        assert!(
            notes_text(&reachable).contains("the scheduler: drained"),
            "{}",
            notes_text(&reachable)
        );
    }

    #[test]
    fn a_powered_down_node_is_neither_down_nor_waiting_nor_free() {
        for (state, flags, note) in [
            (NodeState::PoweredDown, &[][..], "the scheduler: powered down · 8 devices"),
            (
                NodeState::PoweringUp,
                &[NodeFlag::Cloud],
                "the scheduler: powering up, cloud · 8 devices",
            ),
            (
                NodeState::Mixed,
                &[NodeFlag::PoweringDown],
                "the scheduler: mixed, powering down · 8 devices",
            ),
        ] {
            let mut off = node(Link::Idle);
            let known = SchedulerNode::in_state(state, flags);
            off.scheduler = Some(Arc::new(SchedulerNode { devices: Some(8), ..known }));
            assert_eq!(notes_text(&off), note);
            assert_eq!(NodeStatus::of(&off, NOW), NodeStatus::Reported);
            let totals = Totals::of_nodes([&off], NOW);
            assert_eq!((totals.down, totals.reported, totals.devices), (0, 1, 8), "{state:?}");
            assert_eq!((totals.free, totals.max_free), (0, 0), "{state:?}");
            let fleet_view = FleetView::new(Fleet::new(vec![Arc::new(off)].into()), NOW);
            assert_eq!(fleet_view.problems.len(), 0, "{state:?}");
        }
        // The scheduler's list is older than the answer of the node.
        let mut up = node(Link::Up);
        up.scheduler = Some(Arc::new(SchedulerNode::in_state(NodeState::PoweredDown, &[])));
        assert_ne!(NodeStatus::of(&up, NOW), NodeStatus::Reported);
        // It is tried because a job runs there, and does not answer.
        let fault = Fault::new(FaultKind::Silent, "");
        up.link = Link::Down { fault, retry_at: None };
        assert_eq!(NodeStatus::of(&up, NOW), NodeStatus::Down);
    }

    #[test]
    fn an_idle_node_is_free_and_one_of_unknown_load_is_not() {
        let mut idle = node(Link::Up);
        source(&mut idle, Some(0), None);
        idle.devices = vec![Device::default()].into();
        idle.device_sources = vec![Source::host()].into();
        assert_eq!(notes_text(&idle), "");
        idle.devices[0].utilization = Reading::checked(Percent::new(0.0));
        assert_eq!(notes_text(&idle), "free");
    }
}

//! The problems of the fleet: each kind once, with its nodes, since when, an example, and what to do about it.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::advice::{self, Advice, Known, Reader};
use crate::insight::device_flag::DeviceFlag;
use crate::insight::node_status::{NodeStatus, device_label, device_line, status_notes};
use crate::insight::note::Note;
use crate::insight::{FleetView, Severity};
use crate::{EventRecord, Fleet, Health, HealthReason, Node, NodeCount};
use gtop_local::text::{counted, excerpt_line};
use gtop_local::time::{Timestamp, format_age, format_duration};
use gtop_model::nodeset;
use gtop_model::{Device, Fault, FaultKind, NodeName, Source, SourceFaultKind};

/// A problem of one or more nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetProblem {
    /// What is wrong.
    pub kind: ProblemKind,
    /// How serious it is.
    pub severity: Severity,
    /// The nodes as a node set: `gpu[01-40]`.
    pub nodes: String,
    /// The nodes, in fleet order.
    pub members: Vec<ProblemNode>,
    /// What to do about it.
    pub advice: Advice,
    /// The command by which an administrator keeps new jobs from these nodes, for a shell; `None` if they may stay.
    pub drain: Option<String>,
}

/// A node that has a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemNode {
    /// The index of the node in the fleet.
    pub index: usize,
    /// Since when it has it.
    pub since: Since,
}

/// Since when something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// When it began, or the first time at which it was seen.
    pub at: Timestamp,
    /// It may have begun earlier.
    pub is_lower_bound: bool,
}

/// What is wrong: equal problems of many nodes are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemKind {
    /// The node cannot be reached: the kind of the fault and its details.
    Down(FaultKind, Arc<str>),
    /// A source of values fails: what it does, and its name.
    Source(SourceFaultKind, Source),
    /// A device is not sound, in words that are the same for all devices that have it.
    Device(String),
    /// No new values arrive.
    Stale {
        /// It is read from a page of metrics.
        is_page: bool,
    },
}

/// A problem of one node.
struct FoundProblem {
    kind: ProblemKind,
    /// How bad it is, the worst first.
    rank: (Severity, u8),
    /// Since when; `None` if nothing tells.
    since: Option<Since>,
    /// What to do about it; empty if the node is down.
    remedy: &'static str,
    /// Why the node is to take no new jobs; empty if it may.
    drain_reason: String,
}

impl FleetProblem {
    /// Returns what is wrong, in one line.
    pub fn sentence(&self) -> String {
        self.kind.sentence()
    }

    /// Returns what to do about it, in one line.
    pub fn remedy(&self) -> String {
        self.advice.first()
    }

    /// Returns the number of nodes.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// Returns the nodes, in fleet order.
    pub fn nodes_of<'a>(&'a self, fleet: &'a Fleet) -> impl Iterator<Item = &'a Arc<Node>> {
        self.members.iter().filter_map(|member| fleet.nodes.get(member.index))
    }

    /// Returns since when there is any such node.
    pub fn since(&self) -> Option<Since> {
        self.members.iter().map(|member| member.since).reduce(Since::or_earlier)
    }

    /// Returns what shows the problem on its first node.
    pub fn evidence(&self, fleet: &Fleet, now: Timestamp) -> Option<String> {
        let node = self.nodes_of(fleet).next()?;
        Some(format!("{}: {}", node.name.label(), self.kind.evidence(node, now)))
    }

    /// Returns a line for each device that has the problem.
    pub fn device_lines(&self, fleet: &Fleet) -> Vec<String> {
        self.nodes_of(fleet).flat_map(|node| self.kind.device_lines(node)).collect()
    }
}

impl Since {
    const fn exactly(at: Timestamp) -> Self {
        Self { at, is_lower_bound: false }
    }

    const fn before(at: Timestamp) -> Self {
        Self { at, is_lower_bound: true }
    }

    /// Returns it if it is exact, or else the earlier one.
    fn or_seen(self, seen: Self) -> Self {
        if self.is_lower_bound { self.or_earlier(seen) } else { self }
    }

    /// Returns since when the one or the other holds.
    fn or_earlier(self, other: Self) -> Self {
        let is_lower_bound = self.is_lower_bound || other.is_lower_bound;
        Self { at: self.at.min(other.at), is_lower_bound }
    }

    /// Returns how long it has lasted: `3m12s`, or `>3m12s` if it may have begun earlier.
    pub fn age_text(self, now: Timestamp) -> String {
        let longer = if self.is_lower_bound { ">" } else { "" };
        format!("{longer}{}", format_duration(now.since(self.at)))
    }
}

impl ProblemKind {
    fn of_fault(fault: &Fault) -> Self {
        // The port and how the connection ended may differ between nodes with the same problem.
        let has_one_kind = matches!(fault.kind, FaultKind::Refused | FaultKind::NoBanner);
        let detail = if has_one_kind { Arc::default() } else { Arc::clone(&fault.detail) };
        Self::Down(fault.kind, detail)
    }

    fn sentence(&self) -> String {
        match self {
            Self::Down(kind, detail) if detail.is_empty() => kind.label().to_owned(),
            Self::Down(kind, detail) => format!("{}: {detail}", kind.label()),
            Self::Source(kind, source) => kind.text(source, None),
            Self::Device(label) => format!("device {label}"),
            Self::Stale { is_page: false } => "stale: no new samples".to_owned(),
            Self::Stale { is_page: true } => "stale: old pages of metrics".to_owned(),
        }
    }

    /// Returns what shows this problem on a node, in one line.
    pub fn evidence(&self, node: &Node, now: Timestamp) -> String {
        let text = match self {
            Self::Down(..) => node.fault().map(|fault| fault.what().into_owned()),
            Self::Source(_, source) => {
                let fault = node.source(source).and_then(|state| state.fault.as_ref());
                fault.map(|fault| match (&*fault.call, &*fault.message) {
                    (call, "") => format!("{source}: {call}"),
                    (call, message) => format!("{source}: {call}: {message}"),
                })
            }
            Self::Device(_) => self.devices(node).next().map(|(device, reason)| {
                let logged = first_event(node, device, reason)
                    .and_then(|record| Some(format!(" · {}", record.lines.last()?.text())));
                let label = device_label(node, device);
                format!("#{label} {}{}", reason.text(), logged.unwrap_or_default())
            }),
            Self::Stale { .. } => node
                .taken_at()
                .map(|at| format!("the newest values are {} old", format_age(now.since(at)))),
        };
        excerpt_line(&text.unwrap_or_default())
    }

    /// Returns what this problem of a node means.
    pub fn meaning(&self, node: &Node, now: Timestamp) -> String {
        if let Self::Device(_) = self {
            let reason = self.devices(node).next().map(|(_, reason)| reason.meaning());
            return reason.unwrap_or_default().to_owned();
        }
        let notes = status_notes(&Fleet::default(), node, now);
        let told = notes.iter().find(|told| match (self, told) {
            (Self::Source(_, name), Note::SourceFault { source, .. }) => name == source,
            (Self::Down(..), Note::Down(_))
            | (Self::Stale { .. }, Note::Stale(_) | Note::OldPage(_)) => true,
            _ => false,
        });
        told.map(|note| note.meaning().into_owned()).unwrap_or_default()
    }

    /// Returns a line for each device of a node that has this problem.
    pub fn device_lines<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = String> {
        self.devices(node).map(|(device, _)| device_line(node, device))
    }

    /// Returns the devices of a node that have this problem, each with its reason.
    pub fn devices<'a>(
        &'a self,
        node: &'a Node,
    ) -> impl Iterator<Item = (&'a Device, &'a HealthReason)> {
        let label = if let Self::Device(label) = self { Some(label) } else { None };
        let unsound = label.into_iter().flat_map(|_| worst_reasons(node));
        unsound.filter(move |(_, reason)| label.is_some_and(|label| reason.label() == *label))
    }
}

impl FleetView {
    /// Finds the problems of the nodes, failures first, and of these those of most nodes; `shown` are the names of the nodes
    /// to look at. What the view before has found already goes on.
    pub(super) fn find_problems(
        &self,
        fleet: &Fleet,
        now: Timestamp,
        shown: Option<&BTreeSet<&NodeName>>,
    ) -> Arc<[FleetProblem]> {
        let mut by_kind: BTreeMap<ProblemKind, (FoundProblem, Vec<ProblemNode>)> = BTreeMap::new();
        let seen = self.seen_problems();
        let any_let_in = fleet.nodes.iter().any(|node| node.taken_at().is_some());
        for (index, node) in fleet.nodes.iter().enumerate() {
            let is_shown = |name| shown.is_none_or(|shown| shown.contains(name));
            let is_elsewhere = fleet.is_repeated(node) && is_shown(fleet.machine_name(&node.name));
            if is_elsewhere || !is_shown(&node.name) {
                continue;
            }
            for found in problems_of(self, node, any_let_in, now) {
                let first_seen = seen.get(&(&found.kind, &node.name)).copied().unwrap_or(now);
                let first_seen = Since::before(first_seen);
                let since = found.since.map_or(first_seen, |since| since.or_seen(first_seen));
                let kind = found.kind.clone();
                let (_, members) = by_kind.entry(kind).or_insert((found, Vec::new()));
                members.push(ProblemNode { index, since });
            }
        }
        let mut kinds: Vec<(FoundProblem, Vec<ProblemNode>)> = by_kind.into_values().collect();
        kinds.sort_by_key(|(found, members)| {
            let (severity, rank) = found.rank;
            (severity, Reverse(members.len()), rank)
        });
        kinds.into_iter().map(|(found, members)| self.grouped(fleet, found, members)).collect()
    }

    /// Returns when each problem of this view was first seen on a node, where nothing tells when it began.
    fn seen_problems(&self) -> BTreeMap<(&ProblemKind, &NodeName), Timestamp> {
        let members = self
            .problems
            .iter()
            .flat_map(|problem| problem.members.iter().map(move |member| (&problem.kind, member)));
        let unknown = members.filter(|(_, member)| member.since.is_lower_bound);
        unknown
            .filter_map(|(kind, member)| {
                let node = self.fleet.nodes.get(member.index)?;
                Some(((kind, &node.name), member.since.at))
            })
            .collect()
    }

    fn grouped(
        &self,
        fleet: &Fleet,
        found: FoundProblem,
        members: Vec<ProblemNode>,
    ) -> FleetProblem {
        let alike: Vec<&Node> =
            members.iter().filter_map(|member| Some(&**fleet.nodes.get(member.index)?)).collect();
        let nodes = nodeset::fold(alike.iter().map(|node| node.name.label()));
        let down = alike.first().and_then(|first| Some((*first, first.fault()?)));
        let advice = match down {
            Some((node, fault)) if alike.len() == 1 => {
                advice::for_fault(fault, &Known::of_node(&node.name, self.reader))
            }
            Some((_, fault)) => advice::of_alike(fault, &nodes, self.reader),
            None => found.remedy.into(),
        };
        // A made-up name may be that of another node of the reader's.
        let has_real_names = self.reader != Reader::Stranger;
        let drain = has_real_names.then(|| drain_command(fleet, &alike, &found.drain_reason));
        let drain = drain.flatten();
        let advice = advice.then(drain.as_deref().map(advice::scheduler::until_repaired));
        let FoundProblem { kind, rank: (severity, _), .. } = found;
        FleetProblem { kind, severity, nodes, members, advice, drain }
    }
}

/// Returns the command that keeps new jobs from the nodes that take any; `None` without a reason or such nodes.
fn drain_command(fleet: &Fleet, nodes: &[&Node], reason: &str) -> Option<String> {
    if reason.is_empty() {
        return None;
    }
    let takers = nodes.iter().filter(|node| node.scheduler.is_some() && node.takes_jobs());
    let takers: BTreeSet<&str> = takers.map(|node| node.name.label()).collect();
    advice::scheduler::drain(&fleet.scheduler().words, &takers, reason)
}

/// Returns the problems of a node. That one which needs not let gtop in refuses it is a problem only if no node has.
fn problems_of(
    fleet_view: &FleetView,
    node: &Node,
    any_let_in: bool,
    now: Timestamp,
) -> Vec<FoundProblem> {
    if let Some(fault) = node.fault() {
        let is_login = fault.kind == FaultKind::AuthenticationRefused && !any_let_in;
        if node.reported().is_some() && !is_login {
            return Vec::new();
        }
        let kind = ProblemKind::of_fault(fault);
        // It has been silent or down since its last values.
        let began = node.sources.iter().filter_map(|state| state.taken_at).max();
        return vec![FoundProblem::failure(kind, began, "")];
    }
    let of_sources = node.sources.iter().filter_map(|state| {
        // A driver that is being loaded is no problem.
        let fault = state.fault.as_ref().filter(|fault| fault.is_problem())?;
        let kind = ProblemKind::Source(fault.kind, state.source.clone());
        let began = fault.at.minus(fault.duration);
        Some(FoundProblem::failure(kind, Some(began), advice::source::of_source(fault.kind)))
    });
    let mut all: Vec<FoundProblem> = of_sources.collect();
    if all.is_empty() && matches!(NodeStatus::of(node, now), NodeStatus::Stale(_)) {
        let is_page = node.is_read_from_page();
        let words = if is_page {
            advice::source::OLD_PAGE
        } else {
            advice::source::of_stale(fleet_view.reader)
        };
        let found = FoundProblem::failure(ProblemKind::Stale { is_page }, node.taken_at(), words);
        all.push(FoundProblem { rank: (Severity::Warning, 0), ..found });
    }
    let mut by_kind: BTreeMap<ProblemKind, FoundProblem> = BTreeMap::new();
    for (device, reason) in worst_reasons(node) {
        let found = FoundProblem::of_device(node, device, reason);
        match by_kind.entry(found.kind.clone()) {
            Entry::Vacant(place) => {
                place.insert(found);
            }
            Entry::Occupied(mut known) => {
                let since = known.get().since.zip(found.since);
                known.get_mut().since = since.map(|(one, other)| one.or_earlier(other));
            }
        }
    }
    all.extend(by_kind.into_values());
    all
}

/// Returns the devices of a node that are not sound, each with the worst reason. What is not known to be wrong is left out,
/// unless nobody lets gtop look.
fn worst_reasons(node: &Node) -> impl Iterator<Item = (&Device, &HealthReason)> {
    let worst = node
        .devices
        .iter()
        .filter_map(|device| Some((device, node.own_health_reasons(device).first()?)));
    worst.filter(|(_, reason)| {
        reason.health() >= Health::Degraded || **reason == HealthReason::NoPermission
    })
}

/// Returns the first event that tells of this fault of a device.
fn first_event<'a>(
    node: &'a Node,
    device: &Device,
    reason: &HealthReason,
) -> Option<&'a EventRecord> {
    let own = node.events.iter().filter(|record| record.event.device == device.uuid);
    own.filter(|record| reason.is_told_by(&record.event)).min_by_key(|record| node.begin_of(record))
}

/// Returns since when a device is not sound for this reason; `None` if nothing tells.
fn device_since(node: &Node, device: &Device, reason: &HealthReason) -> Option<Since> {
    if let HealthReason::Gone(at) = reason {
        return Some(Since::exactly(*at));
    }
    if let HealthReason::Slowed { span, .. } | HealthReason::LoadWithoutProcess(span) = reason {
        return Some(Since::before(node.taken_at()?.minus(*span)));
    }
    let record = first_event(node, device, reason)?;
    Some(Since::exactly(node.begin_of(record)))
}

impl FoundProblem {
    fn failure(kind: ProblemKind, began: Option<Timestamp>, remedy: &'static str) -> Self {
        let (rank, drain_reason) = ((Severity::Error, 0), String::new());
        Self { kind, rank, since: began.map(Since::exactly), remedy, drain_reason }
    }

    fn of_device(node: &Node, device: &Device, reason: &HealthReason) -> Self {
        Self {
            kind: ProblemKind::Device(reason.label()),
            rank: DeviceFlag::Health(reason.clone()).rank(),
            since: device_since(node, device, reason),
            remedy: advice::device::of_health(reason),
            drain_reason: reason.drain_reason(),
        }
    }
}

/// Says that no shown node has a problem, and of which nodes that is not known.
pub fn no_problem_text(fleet_view: &FleetView) -> String {
    no_problem_text_of(fleet_view, fleet_view.fleet.nodes.len())
}

/// Says the same of a view that has only the nodes of `all` that match a filter.
pub fn no_problem_text_of(fleet_view: &FleetView, all: usize) -> String {
    let shown = fleet_view.count();
    let place = match (shown, all) {
        (_, 0) => return "no nodes".to_owned(),
        (0, _) => return "no node matches the filter".to_owned(),
        _ if shown < all => format!(" among the {shown} of {all} nodes that match the filter"),
        _ => String::new(),
    };
    let mut unknown = Vec::new();
    for (wanted, what) in [
        (NodeCount::Connecting, "connecting"),
        (NodeCount::Reported, "known from the scheduler alone"),
    ] {
        let counts = fleet_view.nodes().map(|node| NodeCount::of(node, fleet_view.now));
        let count = counts.filter(|count| *count == wanted).count();
        if count > 0 {
            let verb = if count == 1 { "is" } else { "are" };
            unknown.push(format!("{} {verb} {what}", counted(count, "node")));
        }
    }
    match (unknown.is_empty(), place.is_empty()) {
        (true, true) => "no problems: every node answers, and no device has a fault".to_owned(),
        (true, false) => format!("no problems{place}"),
        (false, _) => format!("no problems{place} so far: {}", unknown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::SourceState;
    use crate::query::{DisplaySelection, Filter};
    use gtop_model::{
        Celsius, DeviceFault, Event, EventKind, JobList, Link, NodeState, Reading, Reason,
        SchedulerNode, SchedulerProfile, SourceFault,
    };

    #[test]
    fn each_fault_of_a_device_has_its_own_remedy() {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        let faults = [
            (DeviceFault::Lost, "fell off the bus"),
            (DeviceFault::NeedsReset, "--gpu-reset"),
            (DeviceFault::NoPermission, "access to the devices"),
            (DeviceFault::Other("lost in thought".into()), "nvidia-smi on the node by hand"),
        ];
        let device = |(number, (fault, _)): (usize, &(DeviceFault, &str))| Device {
            uuid: format!("GPU-{number}").into(),
            fault: Some(fault.clone()),
            ..Device::default()
        };
        node.devices = faults.iter().chain(&faults).enumerate().map(device).collect();
        let found = problems_of(&FleetView::default(), &node, true, Timestamp::default());
        assert_eq!(found.len(), faults.len());
        for (fault, remedy) in &faults {
            let kind = ProblemKind::Device(HealthReason::from(fault).text());
            assert!(
                found.iter().any(|found| found.kind == kind && found.remedy.contains(remedy)),
                "{fault:?}"
            );
        }
    }

    #[test]
    fn no_problem_is_said_only_of_nodes_that_answer() {
        let text = |nodes: Vec<Node>, filter: &str| {
            let nodes: Vec<_> = nodes.into_iter().map(Arc::new).collect();
            let filter = Filter::new(filter).unwrap();
            let fleet = Fleet::new(nodes.into());
            no_problem_text(&FleetView::filtered(fleet, Timestamp::default(), filter))
        };
        let node = |name: &str| Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        let fresh = |name: &str| Node {
            link: Link::Up,
            sources: vec![SourceState {
                source: Source::host(),
                taken_at: Some(Timestamp::default()),
                interval: Duration::from_secs(1),
                fault: None,
                absent: None,
            }],
            ..node(name)
        };
        let reported = |name: &str| Node {
            link: Link::Down { fault: Fault::new(FaultKind::NoJob, ""), retry_at: None },
            scheduler: Some(Arc::default()),
            ..node(name)
        };
        assert_eq!(text(vec![], ""), "no nodes");
        assert_eq!(text(vec![fresh("a")], "b"), "no node matches the filter");
        let all_answer = "no problems: every node answers, and no device has a fault";
        assert_eq!(text(vec![fresh("a")], ""), all_answer);
        let one = text(vec![fresh("a"), node("b")], "");
        assert_eq!(one, "no problems so far: 1 node is connecting");
        let both = text(vec![fresh("a"), node("b"), node("c"), reported("d")], "");
        assert_eq!(
            both,
            "no problems so far: 2 nodes are connecting, 1 node is known from the scheduler alone"
        );
        let filtered = text(vec![fresh("a"), node("b")], "a");
        assert_eq!(filtered, "no problems among the 1 of 2 nodes that match the filter");
    }

    fn down(name: &str, kind: FaultKind, detail: &str) -> Arc<Node> {
        let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        let fault = Fault::new(kind, detail);
        node.link = Link::Down { fault, retry_at: None };
        Arc::new(node)
    }

    #[test]
    fn equal_faults_are_grouped_and_the_most_frequent_come_first() {
        let refused = FaultKind::AuthenticationRefused;
        let fleet = Fleet::new(
            vec![
                down("gpu01", FaultKind::Silent, ""),
                down("gpu02", refused, "offers hostbased"),
                down("gpu03", refused, "offers hostbased"),
                down("gpu04", refused, "offers gssapi"),
                down("gpu05", refused, "offers hostbased"),
            ]
            .into(),
        );
        let fleet_view = FleetView::new(fleet, Timestamp::default());
        let text_of = |problem: &FleetProblem| format!("{} {}", problem.nodes, problem.sentence());
        assert_eq!(
            fleet_view.problems.iter().map(text_of).collect::<Vec<_>>(),
            [
                "gpu[02-03,05] authentication refused: offers hostbased",
                "gpu04 authentication refused: offers gssapi",
                "gpu01 silent",
            ]
        );
        let remedies = fleet_view.problems.iter().map(FleetProblem::remedy);
        let refused = |nodes: &str| {
            format!("check the login name and the key; this tells more: gtop doctor {nodes}")
        };
        let silent = "look at the node; gtop reconnects automatically".to_owned();
        let expected = [refused("'gpu[02-03,05]'"), refused("gpu04"), silent];
        assert_eq!(remedies.collect::<Vec<_>>(), expected);
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    /// A node that answers, with two devices.
    fn up(name: &str, change: impl FnOnce(&mut Node)) -> Arc<Node> {
        let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        node.link = Link::Up;
        node.mark_sampled(&Source::host(), at(1_000));
        let device = |index: u32| Device {
            uuid: format!("GPU-{index}").into(),
            index: Reading::Known(index),
            ..Device::default()
        };
        node.devices = vec![device(0), device(1)].into();
        change(&mut node);
        Arc::new(node)
    }

    fn record_xid(node: &mut Node, code: u64, second: i64) {
        node.record_event(Event {
            at: at(second),
            source: Source::new("nvml"),
            kind: EventKind::Xid,
            device: "GPU-1".into(),
            code: Some(code),
            message: "".into(),
            count: 1,
            line: None,
        });
    }

    fn view_of(nodes: Vec<Arc<Node>>) -> FleetView {
        FleetView::new(Fleet::new(nodes.into()), at(1_000))
    }

    fn since(second: i64, is_lower_bound: bool) -> Since {
        Since { at: at(second), is_lower_bound }
    }

    #[test]
    fn a_kind_comes_once_however_often_it_occurred_on_each_node() {
        let broken = |name, times: i64| {
            up(name, |node| (0..times).for_each(|time| record_xid(node, 79, 900 + time)))
        };
        let view = view_of(vec![broken("gpu01", 3), up("gpu02", |_| {}), broken("gpu03", 1)]);
        let [problem] = &*view.problems else { panic!("{:?}", view.problems) };
        assert_eq!((&*problem.nodes, problem.count()), ("gpu[01,03]", 2));
        assert_eq!(
            (problem.sentence(), problem.severity),
            ("device Xid 79".into(), Severity::Error)
        );
        assert_eq!(problem.since(), Some(since(900, false)));
        let evidence = problem.evidence(&view.fleet, at(1_000));
        assert_eq!(evidence.as_deref(), Some("gpu01: #1 Xid 79, 3 times"));
        assert_eq!(problem.device_lines(&view.fleet), ["gpu01 1 GPU-1", "gpu03 1 GPU-1"]);
    }

    #[test]
    fn nodes_that_refuse_connections_have_one_problem_whatever_the_port() {
        let refused = |name, port| down(name, FaultKind::Refused, port);
        let view = view_of(vec![refused("gpu01", "port 22"), refused("gpu02", "port 2222")]);
        let [problem] = &*view.problems else { panic!("{:?}", view.problems) };
        assert_eq!((problem.sentence(), problem.count()), ("connection refused".to_owned(), 2));
        let evidence = problem.evidence(&view.fleet, at(1_000)).unwrap();
        assert!(evidence.contains("port 22"), "{evidence}");
    }

    #[test]
    fn failures_come_before_what_is_slower_on_more_nodes() {
        let slow = |name| up(name, break_fan);
        let lost = up("gpu09", |node| node.devices[0].fault = Some(DeviceFault::Lost));
        let view = view_of(vec![slow("gpu01"), slow("gpu02"), lost]);
        let found: Vec<_> =
            view.problems.iter().map(|problem| (problem.severity, &*problem.nodes)).collect();
        assert_eq!(found, [(Severity::Error, "gpu09"), (Severity::Warning, "gpu[01-02]")]);
    }

    /// Lets the driver not read the fan of the first device.
    fn break_fan(node: &mut Node) {
        node.devices[0].fan = Reading::Unknown(Reason::DriverError);
        node.devices[0].temperature = Reading::Known(Celsius::new(40.0).unwrap());
    }

    #[test]
    fn since_when_is_told_exactly_only_where_something_tells_it() {
        let down_since = |seen: Option<i64>| {
            let mut node = Node::clone(&down("gpu01", FaultKind::Silent, ""));
            if let Some(second) = seen {
                node.mark_sampled(&Source::host(), at(second));
            }
            Arc::new(node)
        };
        let gone = |second| Some(DeviceFault::Gone(at(second)));
        let stuck = SourceFault {
            kind: SourceFaultKind::Stuck,
            call: "nvmlInit".into(),
            message: "".into(),
            duration: Duration::from_secs(60),
            at: at(990),
            code: None,
        };
        for (node, expected) in [
            (down_since(Some(700)), Some(since(700, false))),
            (down_since(None), Some(since(1_000, true))),
            (
                up("gpu01", |node| node.mark_sampled(&Source::host(), at(640))),
                Some(since(640, false)),
            ),
            (up("gpu01", |node| node.devices[1].fault = gone(800)), Some(since(800, false))),
            (
                up("gpu01", |node| node.devices[1].fault = Some(DeviceFault::Lost)),
                Some(since(1_000, true)),
            ),
            (
                up("gpu01", |node| {
                    record_xid(node, 31, 650);
                    record_xid(node, 79, 750);
                    node.devices[1].fault = Some(DeviceFault::Lost);
                }),
                Some(since(750, false)),
            ),
            (
                // Of two devices, one tells.
                up("gpu01", |node| {
                    record_xid(node, 79, 750);
                    node.devices
                        .iter_mut()
                        .for_each(|device| device.fault = Some(DeviceFault::Lost));
                }),
                Some(since(1_000, true)),
            ),
            (
                up("gpu01", |node| {
                    node.source_mut(&Source::new("nvml")).fault = Some(Box::new(stuck));
                }),
                Some(since(930, false)),
            ),
        ] {
            let view = view_of(vec![node]);
            assert_eq!(view.problems[0].since(), expected, "{:?}", view.problems);
        }
    }

    #[test]
    fn what_was_first_seen_goes_on_in_later_snapshots_and_begins_anew_after_an_end() {
        let lost = up("gpu02", |node| node.devices[0].fault = Some(DeviceFault::Lost));
        let sound = up("gpu02", |_| {});
        let selection = DisplaySelection::default();
        let mut view = FleetView::default();
        let mut next = |second, node: &Arc<Node>, filter: &str| {
            // The position of the node changes.
            let mut nodes = vec![up("gpu01", |_| {}), Arc::clone(node)];
            nodes.rotate_left(usize::from(second % 2 == 1));
            let (fleet, filter) = (Fleet::new(nodes.into()), Filter::new(filter).unwrap());
            view = view.updated(fleet, at(second), filter, &selection);
            view.shown_problems().first().and_then(FleetProblem::since)
        };
        assert_eq!(next(1_000, &lost, ""), Some(since(1_000, true)));
        assert_eq!(next(1_001, &lost, ""), Some(since(1_000, true)));
        assert_eq!(next(1_002, &lost, "gpu02"), Some(since(1_000, true)));
        assert_eq!(next(1_002, &lost, "gpu01"), None);
        assert_eq!(next(1_003, &sound, ""), None);
        assert_eq!(next(1_004, &lost, ""), Some(since(1_004, true)));
        assert_eq!(Since { at: at(1_000), is_lower_bound: true }.age_text(at(1_004)), ">4s");
    }

    #[test]
    fn nodes_with_broken_devices_are_drained_unless_they_take_no_jobs_already() {
        let drain = |fault: Option<DeviceFault>, states: &[NodeState]| {
            let nodes = states.iter().enumerate().map(|(number, state)| {
                up(&format!("gpu{number}"), |node| {
                    node.devices[0].fault.clone_from(&fault);
                    break_fan(node);
                    node.scheduler = Some(Arc::new(SchedulerNode::in_state(*state, &[])));
                })
            });
            let mut fleet = Fleet::new(nodes.collect());
            fleet.jobs = Some(Arc::new(JobList {
                scheduler: SchedulerProfile::example(),
                ..JobList::default()
            }));
            let view = |reader| {
                let shown = DisplaySelection::default();
                FleetView::printed_for(reader, fleet.clone(), at(1_000), &shown)
            };
            // Where names are made up, a command would mean another node.
            let [of_stranger, of_user] = [Reader::Stranger, Reader::Print].map(view);
            assert_eq!(of_stranger.problems[0].drain, None);
            assert!(!of_stranger.problems[0].advice.text().contains("drain"));
            of_user.problems[0].drain.clone()
        };
        let (idle, drained) = (NodeState::Idle, NodeState::Drained);
        let lost = || Some(DeviceFault::Lost);
        let command = |text: &str| Some(text.to_owned());
        assert_eq!(drain(lost(), &[idle]), command("drain nodes=gpu0 why='gtop: device lost'"));
        let several = drain(lost(), &[idle, drained, idle]);
        assert_eq!(several, command("drain nodes='gpu[0,2]' why='gtop: device lost'"));
        assert_eq!(drain(lost(), &[drained]), None);
        // A fan that cannot be read, and a device that gtop may not read, keep nobody from using the node.
        assert_eq!(drain(None, &[idle]), None);
        assert_eq!(drain(Some(DeviceFault::NoPermission), &[idle]), None);
        // What a node writes stands in no command.
        let hostile = Some(DeviceFault::Other("';reboot;'".into()));
        assert_eq!(drain(hostile, &[idle]), command("drain nodes=gpu0 why='gtop: device faulty'"));
    }
}

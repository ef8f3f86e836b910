//! The nodes with problems, those where the problem does most harm first.

use std::collections::{BTreeMap, BTreeSet};

use crate::insight::device_flag::DeviceFlag;
use crate::insight::node_status::NodeStatus;
use crate::insight::{FleetView, Severity};
use crate::{Health, JobHoldings, Node};
use gtop_local::time::Timestamp;
use gtop_model::NodeName;

/// How sick a node is, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Illness {
    /// A device of a job of one's own is lost or faulty.
    OwnDeviceFault,
    /// It cannot be reached, and a job of one's own runs there.
    OwnDown,
    /// A device is lost or faulty.
    DeviceFault,
    /// It cannot be reached.
    Down,
    /// A source of values is stuck or fails.
    SourceFault,
    /// A device has uncorrected errors.
    DeviceErrors,
    /// It answers, and refuses this user's login.
    Login,
    /// No new values arrive.
    Stale,
    /// A device is slowed down.
    Slowed,
}

/// Returns how sick a node is; `own` is what jobs of one's own have there.
fn illness(node: &Node, own: &[&JobHoldings], now: Timestamp) -> Option<Illness> {
    let status = NodeStatus::of(node, now);
    if status == NodeStatus::Down {
        let is_of_login = node.fault().is_some_and(|fault| fault.kind.is_of_login());
        return Some(match (own, is_of_login) {
            ([], true) => Illness::Login,
            ([], false) => Illness::Down,
            _ => Illness::OwnDown,
        });
    }
    // Its own values are from the time when it let gtop in.
    if status == NodeStatus::Reported {
        return None;
    }
    let mut faulty = node.devices.iter().filter(|device| node.health(device) == Health::Faulty);
    if faulty.clone().next().is_some() {
        // A job whose devices are not known may have any.
        let is_own = faulty.any(|device| {
            own.iter().any(|known| !known.is_known() || known.devices.contains(&device.uuid))
        });
        return Some(if is_own { Illness::OwnDeviceFault } else { Illness::DeviceFault });
    }
    if node.has_source_problem() {
        return Some(Illness::SourceFault);
    }
    let flags = node.devices.iter().flat_map(|device| DeviceFlag::of(node, device));
    let severities: Vec<Severity> = flags.map(|flag| flag.severity()).collect();
    match (severities.iter().min(), status) {
        (Some(Severity::Error), _) => Some(Illness::DeviceErrors),
        (_, NodeStatus::Stale(_)) => Some(Illness::Stale),
        _ => severities.contains(&Severity::Warning).then_some(Illness::Slowed),
    }
}

/// Returns how sick a node is, whatever jobs run there: the worse, the greater. `None` if it has no problem.
pub fn sickness(node: &Node, now: Timestamp) -> Option<u8> {
    illness(node, &[], now).map(|illness| u8::MAX - illness as u8)
}

/// Returns the indices in the fleet of the shown nodes with a problem, the sickest first.
///
/// Checks every shown node, so it is called on a key press and not in each frame.
pub fn sick_nodes(fleet_view: &FleetView) -> Vec<usize> {
    let own_jobs = own_assignments(fleet_view);
    let problems = fleet_view.problems.iter();
    let with_problem: BTreeSet<usize> =
        problems.flat_map(|problem| problem.members.iter().map(|member| member.index)).collect();
    let shown: BTreeSet<&NodeName> = fleet_view.nodes().map(|node| &node.name).collect();
    let fleet = &fleet_view.fleet;
    let mut sick = Vec::new();
    for index in &fleet_view.matching {
        let Some(node) = fleet.nodes.get(*index) else { continue };
        // A machine is listed once, unless the filter hides the name under which it counts.
        if fleet.is_repeated(node) && shown.contains(fleet.machine_name(&node.name)) {
            continue;
        }
        let jobs = own_jobs.get(index).map_or([].as_slice(), Vec::as_slice);
        // A node without a job of one's own may refuse the login. If all nodes refuse it, that is a problem, and the only
        // one that such a node has.
        let refused = with_problem.contains(index).then_some(Illness::Login);
        if let Some(illness) = illness(node, jobs, fleet_view.now).or(refused) {
            sick.push((illness, *index));
        }
    }
    sick.sort_by_key(|(illness, _)| *illness);
    sick.into_iter().map(|(_, index)| index).collect()
}

/// Returns what jobs of one's own have, by the index of the node.
fn own_assignments(fleet_view: &FleetView) -> BTreeMap<usize, Vec<&JobHoldings>> {
    let own = fleet_view.own_users();
    let entries = fleet_view.job_index().entries.iter();
    let nodes =
        entries.filter(|entry| own.contains(&*entry.job.user)).flat_map(|entry| &entry.nodes);
    let mut assignments: BTreeMap<usize, Vec<&JobHoldings>> = BTreeMap::new();
    for job_node in nodes {
        if let Some(index) = job_node.node_index {
            assignments.entry(index).or_default().push(&job_node.holdings);
        }
    }
    assignments
}

/// Returns the position of the device with the worst problem: one with a fault, else with errors, else slowed down.
pub fn sick_device(node: &Node) -> Option<usize> {
    let flagged = node.whole_devices().filter_map(|(position, device)| {
        let flags = DeviceFlag::of(node, device);
        Some((flags.iter().map(DeviceFlag::severity).min()?, position))
    });
    let fault = node.whole_devices().find(|(_, device)| node.health(device) == Health::Faulty);
    let fault = fault.map(|(position, _)| position);
    fault.or_else(|| Some(flagged.min_by_key(|(severity, _)| *severity)?.1))
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::insight::FleetProblem;
    use crate::query::Filter;
    use crate::{Fleet, SourceState};
    use gtop_model::{
        Allocation, Device, DeviceAllocation, DeviceFault, Fault, FaultKind, Hello, HostFacts, Job,
        JobList, Link, Reading, SchedulerNode, Source,
    };

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn node(name: &str, change: impl FnOnce(&mut Node)) -> Arc<Node> {
        let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        node.link = Link::Up;
        node.sources.push(SourceState {
            source: Source::host(),
            taken_at: Some(NOW),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        });
        let device = |uuid: &str| Device { uuid: uuid.into(), ..Device::default() };
        node.devices = vec![device("GPU-0"), device("GPU-1")].into();
        change(&mut node);
        Arc::new(node)
    }

    fn names(nodes: Vec<Arc<Node>>) -> Vec<String> {
        names_with_jobs(nodes, None)
    }

    fn names_with_jobs(nodes: Vec<Arc<Node>>, jobs: Option<JobList>) -> Vec<String> {
        let fleet = Fleet { jobs: jobs.map(Arc::new), ..Fleet::new(nodes.into()) };
        let view = FleetView::new(fleet, NOW);
        let name = |index: usize| view.fleet.nodes[index].name.to_string();
        sick_nodes(&view).into_iter().map(name).collect()
    }

    #[test]
    fn the_sickest_node_comes_first_and_healthy_ones_do_not_come() {
        let down = |kind| Link::Down { fault: Fault::new(kind, ""), retry_at: None };
        let nodes = vec![
            node("healthy", |_| {}),
            node("login", |node| node.link = down(FaultKind::AuthenticationRefused)),
            node("errors", |node| node.devices[1].ecc_uncorrected = Reading::Known(2)),
            node("lost", |node| node.devices[1].fault = Some(DeviceFault::Lost)),
            node("down", |node| node.link = down(FaultKind::Refused)),
            node("stale", |node| {
                node.sources[0].taken_at = Some(NOW.minus(Duration::from_secs(9)));
            }),
            node("opening", |node| node.link = Link::Opening { attempt: 1 }),
            node("reported", |node| {
                node.link = down(FaultKind::NoJob);
                node.scheduler = Some(Arc::new(SchedulerNode::default()));
                node.devices[1].fault = Some(DeviceFault::Lost);
            }),
        ];
        // The list sorted by note has the same order.
        let mut by_note: Vec<(u8, String)> = nodes
            .iter()
            .filter_map(|node| Some((sickness(node, NOW)?, node.name.to_string())))
            .collect();
        by_note.sort_by_key(|(sickness, _)| Reverse(*sickness));
        let by_note: Vec<String> = by_note.into_iter().map(|(_, name)| name).collect();
        assert_eq!(by_note, ["lost", "down", "errors", "login", "stale"]);
        assert_eq!(names(nodes), by_note);
        assert_eq!(names(Vec::new()), [""; 0]);
    }

    #[test]
    fn a_closed_node_that_refuses_the_login_is_visited_if_nobody_was_let_in() {
        let closed = node("closed", |node| {
            let fault = Fault::new(FaultKind::AuthenticationRefused, "");
            node.link = Link::Down { fault, retry_at: None };
            let scheduler = SchedulerNode { is_extra: true, ..SchedulerNode::default() };
            node.scheduler = Some(Arc::new(scheduler));
            node.sources.clear();
        });
        assert!(closed.reported().is_some());
        assert_eq!(names(vec![Arc::clone(&closed)]), ["closed"]);
        assert_eq!(names(vec![closed, node("open", |_| {})]), [""; 0]);
    }

    #[test]
    fn a_machine_with_two_names_is_visited_once_under_a_name_that_is_shown() {
        let lost = |name: &str| {
            node(name, |node| {
                let host = HostFacts { boot_id: "boot-1".into(), ..HostFacts::default() };
                node.hello = Some(Arc::new(Hello { host, ..Hello::default() }));
                node.devices[0].fault = Some(DeviceFault::Lost);
            })
        };
        let visited = |filter: &str| {
            let fleet = Fleet::new([lost("gpu01"), lost("alias")].into());
            let view = FleetView::filtered(fleet, NOW, Filter::new(filter).unwrap());
            let told: usize = view.problems.iter().map(FleetProblem::count).sum();
            (sick_nodes(&view), told)
        };
        assert_eq!(visited(""), (vec![0], 1));
        assert_eq!(visited("node=alias"), (vec![1], 1));
    }

    #[test]
    fn nodes_of_own_jobs_come_before_those_of_others() {
        let refused = || Fault::new(FaultKind::AuthenticationRefused, "");
        let down = |node: &mut Node| node.link = Link::Down { fault: refused(), retry_at: None };
        let lost = |node: &mut Node| {
            node.devices[0].uuid = "GPU-0".into();
            node.devices[0].fault = Some(DeviceFault::Lost);
        };
        let hello = Hello {
            host: HostFacts { user: "ada".into(), ..HostFacts::default() },
            ..Hello::default()
        };
        let nodes = vec![
            node("healthy", |node| node.hello = Some(Arc::new(hello))),
            node("lost", lost),
            node("down", down),
            node("own-down", down),
            node("own-lost", lost),
        ];
        let job = |id: &str, user: &str, nodes: &[&str]| Job {
            user: user.into(),
            allocations: nodes
                .iter()
                .map(|node| Allocation {
                    node: NodeName::new(node).unwrap(),
                    devices: DeviceAllocation::Unknown,
                })
                .collect(),
            ..Job::example(id)
        };
        let jobs =
            vec![job("1", "bob", &["lost", "down"]), job("2", "ada", &["own-down", "own-lost"])];
        let jobs = JobList { jobs, ..JobList::default() };
        let expected = ["own-lost", "own-down", "lost", "down"];
        assert_eq!(names_with_jobs(nodes, Some(jobs)), expected);
    }

    #[test]
    fn the_device_with_a_fault_is_looked_at_first() {
        let lost = node("a", |node| node.devices[1].fault = Some(DeviceFault::Lost));
        assert_eq!(sick_device(&lost), Some(1));
        assert_eq!(sick_device(&node("b", |_| {})), None);
    }
}

//! What devices are picked from: a complete snapshot, with the jobs of everybody on its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::app::env::Env;
use crate::app::watch::WatchSession;
use crate::app::{AppError, unless_stopped};
use crate::setting_table::{JobSettings, OutputSettings};
use crate::watch::{Discovery, is_complete};
use gtop_collect::inventory::JobTargets;
use gtop_collect::scheduler::{JobFilter, Scheduler, SchedulerKind};
use gtop_collect::transport::{Reach, Target};
use gtop_fleet::{Fleet, Node, advice};
use gtop_local::time::Timestamp;
use gtop_model::{
    Allocation, Freshness, Job, JobList, JobListError, Link, NodeName, SchedulerNodes,
    SourceFaultKind, nodeset,
};
use gtop_ui::StopSignals;

/// The scheduler is asked for at least this part of the time: a node may take all the rest without an answer.
const SCHEDULER_SHARE: u32 = 4;

/// What devices are picked from.
pub(super) struct Snapshot {
    pub(super) fleet: Fleet,
    /// How long the scheduler was asked; zero where there is none.
    pub(super) scheduler_time: Duration,
}

/// Waits for a complete snapshot and the jobs on its nodes, at most until the deadline and `end`.
pub(super) async fn complete_fleet(
    env: &Env,
    session: &WatchSession,
    end: Option<Instant>,
    err: &mut impl Write,
) -> Result<Snapshot, AppError> {
    let limit =
        env.settings.read::<OutputSettings>().deadline.saturating_sub(session.scheduler_wait);
    let (monitor, now) = (&session.monitor, Instant::now());
    let limit = end.map_or(limit, |end| limit.min(end.saturating_duration_since(now)));
    let deadline = now + limit;
    let mut signals = StopSignals::new();
    let mut reader = monitor.fleet();
    let gathered = async {
        let has_scheduler = scheduler_of(env).is_some();
        let kept = if has_scheduler { limit / SCHEDULER_SHARE } else { Duration::ZERO };
        let current =
            reader.wait_for(|fleet| is_complete(fleet) && !awaits_samples(fleet, env.clock.now()));
        // An error means that the publisher has stopped: there will be no more.
        drop(timeout_at(deadline - kept, current).await);
        let fleet = reader.borrow().clone();
        let asked = Instant::now();
        let jobs = jobs_on(env, &fleet, deadline).await?;
        let scheduler_time = jobs.as_ref().map_or(Duration::ZERO, |_| asked.elapsed());
        // It also shows which nodes belong to a scheduler, which matters most where that does not answer.
        drop(timeout_at(deadline, reader.wait_for(has_all_evidence)).await);
        io::Result::Ok((jobs, scheduler_time))
    };
    let (jobs, scheduler_time) = unless_stopped(&mut signals, gathered).await??;
    let fleet = monitor.fleet().borrow().clone();
    let Some(jobs) = jobs else { return Ok(Snapshot { fleet, scheduler_time }) };
    if is_unconfigured(&jobs) && !env.cli.jobs.is_requested() {
        return Ok(Snapshot { fleet, scheduler_time: Duration::ZERO });
    }
    let problem = problem(&jobs);
    let fleet = fleet.clone().with_jobs(Some(Arc::new(with_fleet_names(jobs, &fleet))));
    if let Some(problem) = problem {
        warn_of_free_devices(&fleet, &problem, err)?;
    }
    Ok(Snapshot { fleet, scheduler_time })
}

/// Returns true if this machine has the commands of a scheduler, and no scheduler.
fn is_unconfigured(jobs: &JobList) -> bool {
    jobs.error.as_ref().is_some_and(JobListError::is_unconfigured)
}

/// Returns true if devices have been read, and not lately, by a driver that answers slowly.
fn awaits_samples(fleet: &Fleet, now: Timestamp) -> bool {
    fleet.nodes.iter().filter(|node| node.link == Link::Up).any(|node| {
        node.device_sources.iter().enumerate().any(|(position, source)| {
            let fault = node.source(source).and_then(|state| state.fault.as_deref());
            let is_stale = matches!(node.device_freshness(position, now), Freshness::Stale(_));
            is_stale && fault.is_none_or(|fault| fault.kind == SourceFaultKind::Slow)
        })
    })
}

/// Returns true if no node will report more of how a scheduler numbers its devices.
fn has_all_evidence(fleet: &Fleet) -> bool {
    fleet.nodes.iter().all(|node| {
        node.has_all_evidence() || node.fault().is_some() || node.powered_off().is_some()
    })
}

/// Returns why jobs are not known.
fn problem(jobs: &JobList) -> Option<String> {
    if let Some(error) = &jobs.error {
        return Some(advice::scheduler::explained(&jobs.scheduler.words, error));
    }
    let name = jobs.scheduler.words.name;
    (!jobs.is_answered()).then(|| format!("{name} has not answered; a longer --deadline may help"))
}

/// Warns of nodes on which nothing shows that they are a scheduler's: their devices are not refused.
fn warn_of_free_devices(fleet: &Fleet, problem: &str, err: &mut impl Write) -> io::Result<()> {
    let others = fleet.machines().filter(|node| !node.devices.is_empty() && !node.is_scheduled());
    let names = nodeset::fold(others.map(|node| node.name.label()));
    if names.is_empty() {
        return Ok(());
    }
    let daemon = fleet.scheduler().words.daemon;
    writeln!(
        err,
        "gtop: {problem}; {names} shows no {daemon}, so devices that a job holds and does not use count as free"
    )
}

/// Returns the scheduler that is asked, if there is one.
fn scheduler_of(env: &Env) -> Option<SchedulerKind> {
    env.cli.jobs.scheduler_here().filter(|_| env.cli.nodes.demo.is_none())
}

/// Queries the nodes of a fleet and the jobs of everybody on them; `None` where there is no scheduler.
async fn jobs_on(env: &Env, fleet: &Fleet, deadline: Instant) -> io::Result<Option<JobList>> {
    let Some(kind) = scheduler_of(env) else { return Ok(None) };
    let names = fleet.nodes.iter().flat_map(|node| names_of(node));
    let names: BTreeSet<NodeName> = names.filter_map(|name| NodeName::new(&name).ok()).collect();
    let interval = env.settings.read::<JobSettings>().discovery_interval;
    // The scheduler is asked for these nodes too: for what jobs have there that it does not list.
    let targets = names.iter().map(|name| Target { name: name.clone(), reach: Reach::Local });
    let targets: Vec<Target> = targets.collect();
    let fixed = names.iter().cloned().collect();
    let scheduler = Scheduler::new(kind, JobFilter::default(), interval, fixed);
    let jobs = JobTargets::new(scheduler.with_jobs_on(names), targets);
    let discovery = Discovery::scheduler(jobs, env.clock.clone())?;
    let mut rosters = discovery.rosters();
    let answered = rosters.wait_for(|roster| {
        roster.jobs.as_ref().is_none_or(|list| list.is_answered() || is_unconfigured(list))
    });
    drop(timeout_at(deadline, answered).await);
    let list = rosters.borrow().jobs.clone();
    Ok(list.map(|list| JobList::clone(&list)))
}

/// Returns the names that a scheduler may have for a node, which may be listed by an alias: the name and the host
/// name, without login, port and domain too.
fn names_of(node: &Node) -> Vec<String> {
    let host = node.name.host();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    let reported = node.hello.as_ref().map_or("", |hello| &hello.host.host_name);
    let mut names: Vec<String> = Vec::new();
    for name in [host, reported] {
        let short = name.split_once('.').map_or(name, |(short, _)| short);
        for name in [name, short] {
            let is_plain = NodeName::new(name).is_ok() && !name.contains(['[', ']']);
            if is_plain && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

/// Returns a list with the fleet's names of its nodes.
fn with_fleet_names(list: JobList, fleet: &Fleet) -> JobList {
    let mut names: BTreeMap<String, &NodeName> = BTreeMap::new();
    // A machine has the jobs of all its names.
    let others = fleet.nodes.iter().filter(|node| fleet.same_as.contains_key(&node.name));
    for node in fleet.machines().chain(others) {
        for name in names_of(node) {
            names.entry(name).or_insert_with(|| fleet.machine_name(&node.name));
        }
    }
    let fleet_name =
        |name: &NodeName| NodeName::clone(names.get(name.as_str()).copied().unwrap_or(name));
    let jobs = list.jobs.into_iter().map(|job| {
        let allocations = job.allocations.iter().map(|allocation| Allocation {
            node: fleet_name(&allocation.node),
            ..allocation.clone()
        });
        Job { allocations: allocations.collect(), ..job }
    });
    let nodes = list.nodes.nodes.iter();
    let nodes = nodes.map(|(name, node)| (fleet_name(name), Arc::clone(node))).collect();
    let nodes = Arc::new(SchedulerNodes { nodes, ..SchedulerNodes::clone(&list.nodes) });
    let proved = list.proved.iter();
    let proved = proved.map(|(name, proved)| (fleet_name(name), proved.clone())).collect();
    JobList { jobs: jobs.collect(), nodes, proved: Arc::new(proved), ..list }
}

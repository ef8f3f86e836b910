//! Determines the nodes to watch from the command line.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::app::configuration::node_groups;
use crate::app::env::Env;
use crate::app::output_mode::OutputMode;
use crate::app::{AppError, CommandError};
use crate::cli::Cli;
use crate::setting_table::{JobSettings, TransportChoice};
use crate::watch::{Discovery, folded_names, with_local};
use gtop_collect::inventory::{
    InventoryError, JobTargets, Pod, PodEnv, PodError, Roster, find_pod,
};
use gtop_collect::scheduler::{self, JobFilter, OwnJob, Scheduler, SchedulerKind};
use gtop_collect::transport::{Reach, Target};
use gtop_fleet::advice;
use gtop_local::storage::user_dirs;
use gtop_model::{NodeName, SchedulerWords};

/// Why there are no nodes.
#[derive(Debug, thiserror::Error)]
pub(super) enum TargetError {
    #[error("{0}; {remedy}", remedy = advice::scheduler::of_pod(.0.is_no_metadata_server()))]
    Pod(#[from] PodError),
    #[error("--transport srun needs jobs; add --slurm or --job ID")]
    NoJob,
    #[error("{0} is a page of metrics: there is no login to it, and no probe; name a host")]
    OnlyPage(String),
}

impl CommandError for TargetError {
    fn exit_code(&self) -> u8 {
        if matches!(self, Self::Pod(_)) { 1 } else { 2 }
    }
}

impl CommandError for InventoryError {
    fn exit_code(&self) -> u8 {
        2
    }
}

/// The result of a search for a TPU pod, and its duration.
pub(super) struct PodSearch {
    pub(super) result: Result<Pod, PodError>,
    pub(super) duration: Duration,
}

impl PodSearch {
    /// Searches for the TPU pod of this machine if the command line requests it.
    pub(super) fn of(cli: &Cli) -> io::Result<Option<Self>> {
        if !cli.nodes.tpu_pod {
            return Ok(None);
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let search = runtime.block_on(async {
            let started_at = Instant::now();
            let found = find_pod(&PodEnv::from_env()).await;
            Self { result: found, duration: started_at.elapsed() }
        });
        // A blocked name lookup must not delay the rest.
        runtime.shutdown_background();
        Ok(Some(search))
    }
}

/// Returns the nodes named on the command line, as arguments and by options.
pub(super) fn named_roster(env: &Env, hosts: &[String]) -> Result<Roster, AppError> {
    let pod = PodSearch::of(&env.cli)?.map(|search| search.result).transpose();
    Ok(named_roster_with_pod(env, hosts, pod.map_err(TargetError::Pod)?.as_ref())?)
}

/// Returns the same, with a pod that was found already.
pub(super) fn named_roster_with_pod(
    env: &Env,
    hosts: &[String],
    pod: Option<&Pod>,
) -> Result<Roster, InventoryError> {
    let nodes = &env.cli.nodes;
    let groups = node_groups(&env.settings);
    let mut roster = Roster::with_groups(groups);
    roster.add_arguments(hosts)?;
    if let Some(file) = &nodes.hosts_file {
        roster.add_file(file)?;
    }
    if let Some(file) = &nodes.mpi_hostfile {
        roster.add_mpi_file(file)?;
    }
    if let Some(pattern) = &nodes.ssh_config_hosts {
        roster.add_ssh_config_hosts(env.transport.configured_hosts(), pattern)?;
    }
    if let Some(pod) = pod {
        roster.add_pod(pod)?;
    }
    if let Some(name) = &nodes.pod_ips {
        roster.add_pod_file(&pod_file(name))?;
    }
    roster.exclude(&nodes.exclude)?;
    // All named nodes were excluded: do not fall back to this machine.
    if roster.targets.is_empty() && (!hosts.is_empty() || nodes.names_nodes()) {
        return Err(InventoryError::NoNodesLeft);
    }
    Ok(roster)
}

/// Returns the path of the file of pod addresses; a bare name is in the home directory.
fn pod_file(name: &Path) -> PathBuf {
    if name.as_os_str() == "-" || name.as_os_str().as_encoded_bytes().contains(&b'/') {
        return name.to_owned();
    }
    let home = user_dirs::home().unwrap_or_default();
    let mut file = name.as_os_str().to_owned();
    if name.extension().is_none_or(|ending| ending != "txt") {
        file.push(".txt");
    }
    home.join(file)
}

/// Returns the number of targets that are reached by SSH.
pub(super) fn ssh_count(targets: &[Target]) -> usize {
    targets.iter().filter(|target| matches!(target.reach, Reach::Ssh(_))).count()
}

/// Does some work for each target, for at most `max_connecting` at once; results carry the target's position.
pub(super) fn spawn_for_each<W>(
    targets: Vec<Target>,
    max_connecting: u16,
    work: impl Fn(Target) -> W,
) -> JoinSet<(usize, W::Output)>
where
    W: Future<Output: Send> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(usize::from(max_connecting)));
    let mut tasks = JoinSet::new();
    for (index, target) in targets.into_iter().enumerate() {
        let (permits, work) = (Arc::clone(&permits), work(target));
        tasks.spawn(async move {
            let _permit = permits.acquire().await;
            (index, work.await)
        });
    }
    tasks
}

/// Returns the source of rosters, and the title.
pub(super) fn discovery(env: &Env) -> Result<(Discovery, String), AppError> {
    let cli = &env.cli;
    let Some(JobRequest { kind, filter, mut title, initial }) = JobRequest::of(cli) else {
        if cli.connection.transport_kind() == TransportChoice::Srun {
            return Err(TargetError::NoJob.into());
        }
        let (targets, title) = with_local(named_roster(env, &cli.hosts)?, cli.nodes.local);
        return Ok((Discovery::from_roster(Roster::new(targets)), title));
    };
    let mut roster = named_roster(env, &cli.hosts)?;
    if !roster.targets.is_empty() {
        title = format!("{title} and {}", folded_names(&roster.targets));
    }
    if cli.nodes.local {
        roster.add_local();
        title = format!("{title} and this machine");
    }
    let JobSettings { discovery_interval: interval, finished_jobs, .. } = env.settings.read();
    let fixed = roster.targets.iter().map(|target| target.name.clone()).collect();
    let mut scheduler = Scheduler::new(kind, filter, interval, fixed).with_initial_nodes(initial);
    if cli.jobs.all_nodes {
        scheduler = scheduler.with_all_nodes();
    }
    let goes_on = matches!(env.output_mode, OutputMode::Screen | OutputMode::Continuous);
    if goes_on && finished_jobs {
        scheduler = scheduler.with_finished_jobs();
    }
    let jobs = JobTargets::new(scheduler, roster.targets);
    Ok((Discovery::scheduler(jobs, env.clock.clone())?, title))
}

/// The jobs to watch.
struct JobRequest {
    kind: SchedulerKind,
    filter: JobFilter,
    title: String,
    /// Nodes that are watched until the scheduler answers: its programs may be missing, as in a container, while the
    /// environment still names the nodes.
    initial: Vec<NodeName>,
}

impl JobRequest {
    /// Returns the requested jobs or else, if no nodes are named either, the job that gtop runs in.
    fn of(cli: &Cli) -> Option<Self> {
        if cli.jobs.is_requested() {
            return Some(Self::of_options(cli));
        }
        if cli.nodes.local || !cli.hosts.is_empty() || cli.nodes.names_nodes() {
            return None;
        }
        let (kind, job) = OwnJob::of_this_process()?;
        let SchedulerWords { name, .. } = &kind.profile().words;
        let title = format!("{name}: job {}, this allocation", job.shown_id);
        let filter = JobFilter { jobs: vec![job.shown_id], ..JobFilter::default() };
        Some(Self { kind, filter, title, initial: job.nodes })
    }

    fn of_options(cli: &Cli) -> Self {
        let kind = cli.jobs.scheduler();
        let filter = job_filter_of_options(cli);
        let jobs = filter.describe();
        let SchedulerWords { name, queue, .. } = &kind.profile().words;
        let title = if cli.jobs.all_nodes {
            let queues = if filter.partitions.is_empty() {
                format!("all {queue}s")
            } else {
                filter.partitions.join(",")
            };
            format!("{name}: all nodes of {queues}, jobs {jobs}")
        } else {
            format!("{name}: jobs {jobs}")
        };
        Self { kind, filter, title, initial: Vec::new() }
    }
}

/// Returns the filter of the command line's options; default: this user's jobs.
pub(super) fn job_filter_of_options(cli: &Cli) -> JobFilter {
    let options = &cli.jobs;
    let wants_own_jobs = options.user.is_empty() && !options.all_users && options.job.is_empty();
    JobFilter {
        users: if wants_own_jobs { vec![scheduler::own_uid()] } else { options.user.clone() },
        jobs: options.job.clone(),
        partitions: options.partition.clone(),
        accounts: options.account.clone(),
        qos: options.qos.clone(),
        reservations: options.reservation.clone(),
        nodes: options.nodelist.clone(),
    }
}

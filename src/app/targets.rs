//! Determines the nodes to watch from the command line.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::app::discovery::Discovery;
use crate::app::env::Env;
use crate::app::{AppError, variable};
use crate::cli::{Cli, CliCommand, TransportChoice};
use crate::inventory::slurm::{self, JobFilter, SlurmPoller};
use crate::inventory::{InventoryError, Pod, PodEnv, PodError, Roster, find_pod, user_groups};
use crate::model::JobId;
use crate::nodeset;
use crate::storage::user_dirs;
use crate::transport::{Reach, Target};

/// Maximum number of components of a heterogeneous job (`MAX_HET_JOB_COMPS` of Slurm).
const MAX_COMPONENTS: u32 = 128;

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
    let pod = PodSearch::of(&env.cli)?.map(|search| search.result).transpose()?;
    named_roster_with_pod(env, hosts, pod.as_ref())
}

/// Returns the same, with a pod that was found already.
pub(super) fn named_roster_with_pod(
    env: &Env,
    hosts: &[String],
    pod: Option<&Pod>,
) -> Result<Roster, AppError> {
    let nodes = &env.cli.nodes;
    let groups = user_groups().with_config_groups(env.settings.groups.clone());
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
        return Err(InventoryError::NoNodesLeft.into());
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

/// Adds this machine if `is_local`, or if there are no other targets.
pub(super) fn with_local(mut roster: Roster, is_local: bool) -> (Vec<Target>, String) {
    let mut title = folded_names(&roster.targets);
    if let Some(slice) = roster.slice {
        title = format!("{title}, {}", slice.text());
    }
    if is_local || roster.targets.is_empty() {
        roster.add_local();
        title = if title.is_empty() {
            "this machine".to_owned()
        } else {
            format!("{title} and this machine")
        };
    }
    (roster.targets, title)
}

/// Returns the names of the targets as a node set.
fn folded_names(targets: &[Target]) -> String {
    nodeset::fold(targets.iter().map(|target| target.name.label()))
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
    let Some((filter, mut title)) = job_filter(cli) else {
        if cli.connection.transport_kind() == TransportChoice::Srun {
            return Err(AppError::NoJob);
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
    let interval = env.settings.seconds("discovery-interval");
    let mut slurm = SlurmPoller::new(filter, interval, roster.targets);
    if cli.slurm.all_nodes {
        slurm = slurm.with_all_nodes();
    }
    if !cli.slurm.is_requested() {
        // Slurm's commands may be missing, as in a container; the environment still names the nodes.
        slurm = slurm.with_initial_nodes(allocated_nodes());
    }
    Ok((Discovery::slurm(slurm, env.clock.clone())?, title))
}

/// Returns the jobs to watch and their title: the requested ones, or else, if no nodes are named either, the
/// job that gtop runs in.
fn job_filter(cli: &Cli) -> Option<(JobFilter, String)> {
    if cli.slurm.is_requested() {
        let filter = job_filter_of_options(cli);
        let jobs = filter.describe();
        let title = if cli.slurm.all_nodes {
            let partitions = if filter.partitions.is_empty() {
                "all partitions".to_owned()
            } else {
                filter.partitions.join(",")
            };
            format!("Slurm: all nodes of {partitions}, jobs {jobs}")
        } else {
            format!("Slurm: jobs {jobs}")
        };
        return Some((filter, title));
    }
    if cli.nodes.local || !cli.hosts.is_empty() || cli.nodes.names_nodes() {
        return None;
    }
    let job_id = allocation_id(|name| std::env::var(name).ok())?;
    let title = format!("Slurm: job {job_id}, this allocation");
    Some((JobFilter { jobs: vec![job_id], ..JobFilter::default() }, title))
}

/// Returns true if the shell of an allocation runs on another machine than its nodes, as that of `salloc` on a login node
/// does.
pub(super) fn is_allocation_elsewhere() -> bool {
    let nodes = allocated_nodes();
    !nodes.is_empty() && nodes.iter().all(|node| node.reach != Reach::Local)
}

/// Returns the job whose environment this is, or each component of a heterogeneous one; none if the environment names none.
pub(super) fn jobs_of_environment() -> Vec<JobId> {
    let ids = allocation_id(variable).map(|_| of_components(variable, "SLURM_JOB_ID"));
    ids.iter().flatten().filter_map(|id| JobId::new(id)).collect()
}

/// Returns the nodes of the job whose environment this is.
fn allocated_nodes() -> Vec<Target> {
    let lists = of_components(variable, "SLURM_JOB_NODELIST");
    lists.iter().flat_map(|list| slurm::targets_of_nodelist(list)).collect()
}

/// Returns the values of a variable for the components of a heterogeneous job, or that for the whole job.
fn of_components(variable: impl Fn(&str) -> Option<String>, name: &str) -> Vec<String> {
    let components = (0..MAX_COMPONENTS)
        .map_while(|number| variable(&format!("{name}_HET_GROUP_{number}")))
        .collect::<Vec<_>>();
    if components.is_empty() { variable(name).into_iter().collect() } else { components }
}

/// Returns the id of the job whose environment this is, as `squeue` writes it: `2_1` for a task of an array.
fn allocation_id(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let is_number = |text: &String| {
        (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let number = |name| variable(name).filter(is_number);
    let id = number("SLURM_JOB_ID")?;
    let task = number("SLURM_ARRAY_JOB_ID").zip(number("SLURM_ARRAY_TASK_ID"));
    Some(task.map_or(id, |(array, task)| format!("{array}_{task}")))
}

/// Rejects `--user` where `--login` is probably meant: with hosts, or without Slurm on this machine.
pub(super) fn check_user_option(cli: &Cli) -> Result<(), AppError> {
    let options = &cli.slurm;
    let others =
        [&options.job, &options.partition, &options.account, &options.qos, &options.reservation];
    let names_others = options.slurm
        || options.all_nodes
        || !options.nodelist.is_empty()
        || others.iter().any(|list| !list.is_empty());
    let hosts = match &cli.command {
        Some(CliCommand::Doctor(doctor)) if doctor.slurm => return Ok(()),
        Some(CliCommand::Doctor(doctor)) => &doctor.hosts,
        Some(_) | None => &cli.hosts,
    };
    let why = match options.user.as_slice() {
        [] => return Ok(()),
        _ if names_others => return Ok(()),
        _ if !hosts.is_empty() || cli.nodes.names_nodes() => ", and hosts are named",
        _ if !slurm::is_available() => ", and squeue is not on the PATH of this machine",
        _ => return Ok(()),
    };
    Err(AppError::AmbiguousUser { user: options.user.join(","), why })
}

/// Returns the filter of the command line's options; default: this user's jobs.
pub(super) fn job_filter_of_options(cli: &Cli) -> JobFilter {
    let options = &cli.slurm;
    let wants_own_jobs = options.user.is_empty() && !options.all_users && options.job.is_empty();
    JobFilter {
        users: if wants_own_jobs { vec![slurm::own_uid()] } else { options.user.clone() },
        jobs: options.job.clone(),
        partitions: options.partition.clone(),
        accounts: options.account.clone(),
        qos: options.qos.clone(),
        reservations: options.reservation.clone(),
        nodes: options.nodelist.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_has_the_id_that_squeue_shows() {
        let id = |variables: &[(&str, &str)]| {
            let variables = variables.to_vec();
            allocation_id(move |name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let job = ("SLURM_JOB_ID", "11");
        assert_eq!(id(&[job]).as_deref(), Some("11"));
        let task = [job, ("SLURM_ARRAY_JOB_ID", "2"), ("SLURM_ARRAY_TASK_ID", "1")];
        assert_eq!(id(&task).as_deref(), Some("2_1"));
        assert_eq!(id(&[job, ("SLURM_ARRAY_JOB_ID", "2")]).as_deref(), Some("11"));
        assert_eq!(id(&[("SLURM_JOB_ID", "1;x")]), None);
        assert_eq!(id(&[]), None);
    }

    #[test]
    fn a_heterogeneous_job_has_the_nodes_of_all_its_components() {
        let nodes = |variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            of_components(variable, "SLURM_JOB_NODELIST")
        };
        let of_two = [
            ("SLURM_JOB_NODELIST_HET_GROUP_0", "n1"),
            ("SLURM_JOB_NODELIST_HET_GROUP_1", "n[2-3]"),
            ("SLURM_JOB_NODELIST", "n1"),
        ];
        assert_eq!(nodes(&of_two), ["n1", "n[2-3]"]);
        assert_eq!(nodes(&[("SLURM_JOB_NODELIST", "n[1-2]")]), ["n[1-2]"]);
        assert!(nodes(&[]).is_empty());
    }
}

//! Options that select nodes and jobs.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::setting_table::JOBS;
use gtop_collect::scheduler::{SchedulerKind, slurm};
use gtop_fleet::settings::check;
use gtop_model::{IdForm, JobId, SchedulerProfile, SchedulerWords};

const EXCLUDE_HELP: &str =
    "Exclude these nodes from every source: a node set such as gpu[03,07], or @down";

/// Options that select nodes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Nodes")]
pub(crate) struct NodeOptions {
    /// Read nodes from a file, one per line; # starts a comment, - is standard input
    #[arg(short = 'f', long, value_name = "FILE", global = true)]
    pub hosts_file: Option<PathBuf>,
    /// Read nodes from an MPI host file, with lines such as gpu01 slots=8 or gpu01:8
    #[arg(long, value_name = "FILE", global = true)]
    pub mpi_hostfile: Option<PathBuf>,
    /// Watch the hosts that ~/.ssh/config names without wildcards, or those matching PATTERN, such as gpu*
    #[arg(
        long,
        value_name = "PATTERN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "*",
        global = true
    )]
    pub ssh_config_hosts: Option<String>,
    /// Watch the workers of this TPU pod, as listed by GKE or the metadata server
    #[arg(long, global = true)]
    pub tpu_pod: bool,
    /// Watch the workers of a TPU pod listed in ~/podips.txt, one address per line, # starts a comment;
    /// or in ~/NAME.txt, or in FILE if it contains a /
    #[arg(
        long,
        alias = "podips",
        value_name = "NAME|FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "podips",
        global = true
    )]
    pub pod_ips: Option<PathBuf>,
    /// Exclude these nodes from every source
    #[arg(help = EXCLUDE_HELP, long, value_name = "SET", global = true)]
    pub exclude: Vec<String>,
    /// Watch this machine in addition to other hosts
    #[arg(long)]
    pub local: bool,
    /// Watch NODES simulated nodes (default: 12), at most 10000; above 1000 without SSH
    #[arg(
        long,
        value_name = "NODES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "12",
        value_parser = parse_node_count,
        conflicts_with_all = ["hosts", "hosts_file", "mpi_hostfile", "ssh_config_hosts", "tpu_pod", "pod_ips", "exclude", "local"]
    )]
    pub demo: Option<u16>,
    /// Random seed of the simulated nodes
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "demo")]
    pub seed: u64,
}

/// Options that select jobs.
#[derive(Debug, Args)]
#[command(next_help_heading = JOBS)]
pub(crate) struct JobOptions {
    /// Watch the nodes of your running jobs, updated as jobs start and end
    #[arg(long, conflicts_with = "demo")]
    pub slurm: bool,
    /// The scheduler of the jobs; default: the one on this machine. --slurm is short for --scheduler slurm
    #[arg(long, value_name = "NAME", value_parser = scheduler_parser(), conflicts_with_all = ["slurm", "demo"])]
    scheduler: Option<SchedulerKind>,
    /// Watch jobs of these users instead of yours
    #[arg(long, value_name = "USER", value_delimiter = ',', value_parser = parse_name, conflicts_with = "demo")]
    pub user: Vec<String>,
    /// Watch jobs of all users
    #[arg(long, conflicts_with_all = ["user", "demo"])]
    pub all_users: bool,
    /// Watch these jobs, whoever owns them; `12` is a whole array, `12_3` or `12[3]` one task of it
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = parse_job_id, conflicts_with = "demo")]
    pub job: Vec<String>,
    /// Only jobs in these partitions
    #[arg(long, value_name = "PARTITION", value_delimiter = ',', value_parser = parse_name, conflicts_with = "demo")]
    pub partition: Vec<String>,
    /// Watch all nodes of the partitions (default: all partitions), even those without a job of yours
    #[arg(long, conflicts_with = "demo")]
    pub all_nodes: bool,
    /// Only jobs of these accounts
    #[arg(long, value_name = "ACCOUNT", value_delimiter = ',', value_parser = parse_name, conflicts_with = "demo")]
    pub account: Vec<String>,
    /// Only jobs with these qualities of service
    #[arg(long, value_name = "QOS", value_delimiter = ',', value_parser = parse_name, conflicts_with = "demo")]
    pub qos: Vec<String>,
    /// Only jobs in these reservations
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_name, conflicts_with = "demo")]
    pub reservation: Vec<String>,
    /// Only jobs that run on these nodes, such as gpu[01-08]
    #[arg(long, value_name = "SET", value_parser = parse_nodelist, conflicts_with = "demo")]
    pub nodelist: Vec<String>,
}

impl JobOptions {
    /// Adds the options given to a subcommand.
    pub(super) fn add(&mut self, other: &mut Self) {
        self.slurm |= other.slurm;
        self.scheduler = other.scheduler.or(self.scheduler);
        self.all_users |= other.all_users;
        self.all_nodes |= other.all_nodes;
        self.user.append(&mut other.user);
        self.job.append(&mut other.job);
        self.partition.append(&mut other.partition);
        self.account.append(&mut other.account);
        self.qos.append(&mut other.qos);
        self.reservation.append(&mut other.reservation);
        self.nodelist.append(&mut other.nodelist);
    }

    /// Returns true if a scheduler is named.
    pub(crate) const fn names_scheduler(&self) -> bool {
        self.slurm || self.scheduler.is_some()
    }

    /// Returns the scheduler of the jobs: the named one, or the one on this machine.
    pub(crate) fn scheduler(&self) -> SchedulerKind {
        self.named_scheduler().or_else(SchedulerKind::here).unwrap_or_default()
    }

    /// Returns the same if its programs are on this machine.
    pub(crate) fn scheduler_here(&self) -> Option<SchedulerKind> {
        let named = self.named_scheduler();
        named.map_or_else(SchedulerKind::here, |kind| kind.has_program().then_some(kind))
    }

    /// Returns the named scheduler.
    pub(super) fn named_scheduler(&self) -> Option<SchedulerKind> {
        self.slurm.then_some(SchedulerKind::Slurm).or(self.scheduler)
    }

    /// Returns an error message if an id is one of another scheduler than the named one.
    pub(super) fn foreign_id(&self) -> Option<String> {
        let SchedulerProfile { words, claims, .. } = self.named_scheduler()?.profile();
        let is_served = claims.variables.as_ref()?.form == IdForm::AtServer;
        let id = self.job.iter().find(|id| is_served && !is_at_server(id))?;
        let SchedulerWords { name, job_ids, .. } = words;
        Some(format!("{id} is not a job ID of {name}; write {job_ids}"))
    }

    /// Returns true if jobs are to be watched: with `--slurm` or any option that selects jobs.
    pub(crate) fn is_requested(&self) -> bool {
        let Self { user, job, partition, account, qos, reservation, nodelist, .. } = self;
        let lists = [user, job, partition, account, qos, reservation, nodelist];
        self.names_scheduler()
            || self.all_users
            || self.all_nodes
            || lists.iter().any(|list| !list.is_empty())
    }
}

impl NodeOptions {
    /// Adds the options given to a subcommand.
    pub(super) fn add(&mut self, other: &mut Self) {
        let Self { hosts_file, mpi_hostfile, ssh_config_hosts, pod_ips, demo, .. } = other;
        self.hosts_file = hosts_file.take().or(self.hosts_file.take());
        self.mpi_hostfile = mpi_hostfile.take().or(self.mpi_hostfile.take());
        self.ssh_config_hosts = ssh_config_hosts.take().or(self.ssh_config_hosts.take());
        self.pod_ips = pod_ips.take().or(self.pod_ips.take());
        if demo.is_some() {
            (self.demo, self.seed) = (*demo, other.seed);
        }
        self.tpu_pod |= other.tpu_pod;
        self.local |= other.local;
        self.exclude = std::mem::take(&mut other.exclude);
    }

    /// Returns true if an option names nodes.
    pub(crate) const fn names_nodes(&self) -> bool {
        self.hosts_file.is_some()
            || self.mpi_hostfile.is_some()
            || self.ssh_config_hosts.is_some()
            || self.tpu_pod
            || self.pod_ips.is_some()
    }
}

/// Returns true for an id of a scheduler that adds its server, which may be left out.
fn is_at_server(id: &str) -> bool {
    [id, &format!("{id}.server")].iter().any(|id| IdForm::AtServer.matches(id))
}

fn parse_job_id(text: &str) -> Result<String, String> {
    let (first, second) = text.split_once(['_', '+']).unwrap_or((text, "0"));
    let is_task =
        text.len() <= 32 && [first, second].iter().all(|part| IdForm::Number.matches(part));
    if is_task || (is_at_server(text) && JobId::new(text).is_some()) {
        return Ok(text.to_owned());
    }
    let forms = SchedulerKind::ALL.map(|kind| {
        let SchedulerWords { name, job_ids, .. } = &kind.profile().words;
        format!("{job_ids} of {name}")
    });
    Err(format!("expected a job ID, such as {}", forms.join(", or ")))
}

/// Returns the parser of a scheduler's name.
fn scheduler_parser() -> impl TypedValueParser<Value = SchedulerKind> {
    let names = SchedulerKind::ALL.map(|kind| kind.profile().id);
    PossibleValuesParser::new(names)
        .try_map(|name| SchedulerKind::named(&name).ok_or("no scheduler"))
}

fn parse_nodelist(text: &str) -> Result<String, String> {
    slurm::check_nodelist(text).map(|()| text.to_owned())
}

fn parse_node_count(nodes: &str) -> Result<u16, String> {
    let count = nodes.parse().ok().filter(|count| (1..=10_000).contains(count));
    count.ok_or_else(|| {
        "expected a number of nodes between 1 and 10000, such as --demo=64".to_owned()
    })
}

fn parse_name(text: &str) -> Result<String, &'static str> {
    check::name(text).map(|()| text.to_owned())
}

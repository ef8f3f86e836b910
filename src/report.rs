//! Reports: what happened over a span of time, added up from recordings or from a log of rntop.
//!
//! A recording is read in parts at the same time, each from its checkpoint on; what each part adds up is merged.

use std::sync::Arc;

use gtop_local::time::Timestamp;
use gtop_model::table;

pub use filter::ReportFilter;
pub use filter_check::{NothingMatched, UnmatchedName};
pub use gtop_collect::sums::StepGrid;
pub use gtop_fleet::usage::STATES;
pub use idle_job::IdleTime;
pub use job_device::JobDevice;
pub use prices::{DevicePrice, ModelTime, PriceError};
pub use recordings::{ReportRequest, WrittenSums, report_recordings};
pub use rntop_log::{RntopLogError, is_rntop_log, report_rntop_logs};
pub use verdict::{EnoughDevices, JobVerdict, ReportCriteria};
pub use verdict_word::VerdictWord;

mod counted;
mod filter;
mod filter_check;
mod findings;
mod folded_findings;
mod headline;
mod held_time;
mod holders;
mod idle_job;
mod job_device;
mod judgement;
mod labels;
mod node_span;
mod prices;
mod recordings;
mod rntop_log;
mod scope;
mod summary;
mod verdict;
mod verdict_word;

/// What happened over a span of time.
#[derive(Clone, Debug, Default)]
pub struct UsageReport {
    /// What was watched, as text.
    pub title: String,
    /// When the report was made.
    pub made_at: Timestamp,
    /// Where the values come from: `recording`, `rntop-log` or `live`.
    pub kind: &'static str,
    /// The names of the files.
    pub files: Vec<String>,
    /// What a reader must know: losses, what is not in it.
    pub notes: Vec<String>,
    /// Whose devices and time count.
    pub filter: ReportFilter,
    /// Only what some jobs or users held counts.
    pub is_of_holders: bool,
    /// The first and the last recorded time that counts.
    pub span: (Timestamp, Timestamp),
    /// The recorded times, in rising order and apart.
    pub recorded: Vec<(Timestamp, Timestamp)>,
    /// All devices.
    pub totals: UsageSummary,
    /// Those parts of it that users held.
    pub held: UsageSummary,
    /// Nodes that answered at least once.
    pub nodes_seen: usize,
    /// The mean over the rows of a log of rntop, as its board computes it, in percent.
    pub row_mean: Option<f64>,
    /// The nodes, by name.
    pub nodes: Vec<NodeReport>,
    /// The devices, by node and index.
    pub devices: Vec<DeviceReport>,
    /// The users, those that held the most first.
    pub users: Vec<UserReport>,
    /// The jobs, those that held the most first.
    pub jobs: Vec<JobReport>,
    /// By what it judges.
    pub criteria: ReportCriteria,
    /// The whole in a sentence.
    pub headline: String,
    /// What was wrong or wasteful, the worst first.
    pub findings: Vec<ReportFinding>,
    /// Events, the first one first.
    pub events: Vec<EventReport>,
    /// How many events are left out.
    pub events_left_out: usize,
    /// The command lines, if they were asked for.
    pub commands: Option<Vec<CommandReport>>,
    /// Values over time.
    pub steps: ClusterSteps,
}

/// What one or several devices did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UsageSummary {
    /// Device-time in which they were watched, in seconds.
    pub watched_seconds: f64,
    /// Seconds in each [`LastState`](gtop_fleet::LastState), in the order of its declaration.
    pub states: [f64; STATES],
    /// Mean utilization in percent.
    pub utilization: Option<f64>,
    /// The utilization that was not exceeded for 50 and for 95 % of the time.
    pub percentiles: [Option<u8>; 2],
    /// Memory in use as a share of all, in percent.
    pub memory_percent: Option<f64>,
    /// The largest share of one device.
    pub max_memory_percent: Option<f32>,
    /// Mean memory in use of a device, in bytes.
    pub memory_used: Option<f64>,
    /// Mean power of a device in watts.
    pub power: Option<f64>,
    /// The largest power of a device in watts.
    pub max_power: Option<f32>,
    /// Energy in kWh.
    pub energy_kwh: Option<f64>,
    /// The highest temperature of a device.
    pub max_temperature: Option<f32>,
    /// Samples seen, and expected.
    pub samples: Option<(u64, f64)>,
}

/// Values over time, one per step; `None` is a gap.
#[derive(Clone, Debug, Default)]
pub struct ReportSteps {
    /// Mean, minimum and maximum of the mean utilization of the devices, in percent.
    pub utilization: Vec<Option<[f32; 3]>>,
    /// The same of the share of memory.
    pub memory: Vec<Option<[f32; 3]>>,
    /// Power of all devices in watts.
    pub power: Vec<Option<f32>>,
}

/// Values of all devices over time.
#[derive(Clone, Debug, Default)]
pub struct ClusterSteps {
    /// The steps.
    pub grid: Option<StepGrid>,
    /// The values.
    pub cluster: ReportSteps,
    /// Mean numbers of devices that are busy, idle-held, free, and seen.
    pub devices: [Vec<Option<f32>>; 4],
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// Number of its devices.
    pub devices: usize,
    /// Seconds without a connection.
    pub down_seconds: f64,
    /// What its devices did.
    pub summary: UsageSummary,
    /// Values over time.
    pub steps: ReportSteps,
}

/// A device.
#[derive(Clone, Debug)]
pub struct DeviceReport {
    /// Name of its node.
    pub node: String,
    /// The index that the driver gives it.
    pub index: Option<u32>,
    /// Its UUID.
    pub uuid: String,
    /// Its model.
    pub model: Option<String>,
    /// What it did.
    pub summary: UsageSummary,
    /// Values over time.
    pub steps: DeviceSteps,
}

/// Values of a device over time: percents, one byte per step; 255 is a gap.
#[derive(Clone, Debug, Default)]
pub struct DeviceSteps {
    /// Utilization.
    pub utilization: Vec<u8>,
    /// Share of memory in use.
    pub memory: Vec<u8>,
}

/// A user.
#[derive(Clone, Debug, Default)]
pub struct UserReport {
    /// The name, `uid N`, `unknown` or `hidden`.
    pub user: String,
    /// Number of jobs that held devices.
    pub jobs: usize,
    /// What the devices did, each divided equally among those that held it.
    pub summary: UsageSummary,
    /// Its device-time by model.
    pub model_time: ModelTime,
    /// What the devices cost, if prices are given.
    pub cost: Option<f64>,
}

/// A job.
#[derive(Clone, Debug, Default)]
pub struct JobReport {
    /// The id, as users know it.
    pub id: String,
    /// The name; empty if the scheduler does not list the job.
    pub name: String,
    /// The user.
    pub user: String,
    /// The partition.
    pub partition: Option<String>,
    /// The nodes on which it held devices.
    pub nodes: Vec<String>,
    /// Number of devices that it held.
    pub devices: usize,
    /// When it was first and last seen to hold one.
    pub from: Timestamp,
    /// See `from`.
    pub to: Timestamp,
    /// What the devices did.
    pub summary: UsageSummary,
    /// Device-time in which the load was known, in seconds.
    pub load_seconds: f64,
    /// Device-time in which a device was slowed down, in seconds.
    pub throttled_seconds: f64,
    /// Device-time in which any process was on a device, in seconds.
    pub occupied_seconds: f64,
    /// Device-time in which none was, in seconds.
    pub empty_seconds: f64,
    /// The longest time in which none of its devices was active.
    pub longest_idle: IdleTime,
    /// Device-time in which it is not certain that the job held the device, in seconds.
    pub unsure_seconds: f64,
    /// What it had and used of its hosts.
    pub host: HostUse,
    /// Each of the devices that were seen.
    pub each_device: Vec<JobDevice>,
    /// Its device-time by model.
    pub model_time: ModelTime,
    /// What the devices cost, if prices are given.
    pub cost: Option<f64>,
    /// How well they were used.
    pub verdict: JobVerdict,
    /// Values over time; `None` for the small ones of very many.
    pub steps: Option<JobSteps>,
}

/// What a job had and used of its hosts; `None` is unknown, also if that of one of its nodes is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostUse {
    /// CPUs that the scheduler gave it, on all nodes.
    pub cpus: Option<u32>,
    /// CPUs that it used at once, on average.
    pub cpus_used: Option<f64>,
    /// Memory that the scheduler gave it, on all nodes, in bytes.
    pub memory: Option<u64>,
    /// The most that it used of each node, added up, in bytes.
    pub max_memory: Option<u64>,
}

impl HostUse {
    /// Returns it in words; `None` if nothing is known of what was used.
    pub fn text(&self) -> Option<String> {
        let percent =
            |part: Option<f64>| part.map(|part| format!(" ({part:.0} %)")).unwrap_or_default();
        let cpus = self.cpus_used.map(|used| {
            let of = self.cpus.map(|cpus| format!(" of {cpus}")).unwrap_or_default();
            format!("{used:.1}{of} CPUs{}", percent(self.cpu_percent()))
        });
        let memory = self.max_memory.map(|most| {
            let of = self.memory.map(|all| format!(" of {:.1}", gib(all))).unwrap_or_default();
            format!(
                "at most {:.1}{of} GiB of host memory{}",
                gib(most),
                percent(self.memory_percent())
            )
        });
        let parts: Vec<String> = cpus.into_iter().chain(memory).collect();
        (!parts.is_empty()).then(|| format!("used {}", parts.join(", ")))
    }

    /// Returns the part of its CPUs that it used, in percent.
    pub fn cpu_percent(&self) -> Option<f64> {
        let cpus = self.cpus.filter(|cpus| *cpus > 0)?;
        Some(self.cpus_used? / f64::from(cpus) * 100.0)
    }

    /// Returns the part of its memory that it used at most, in percent.
    #[expect(clippy::cast_precision_loss, reason = "a percentage needs few digits")]
    pub fn memory_percent(&self) -> Option<f64> {
        let memory = self.memory.filter(|bytes| *bytes > 0)?;
        Some(self.max_memory? as f64 / memory as f64 * 100.0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a text has one decimal")]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// Values of a job over time, in percent.
#[derive(Clone, Debug, Default)]
pub struct JobSteps {
    /// The number of the first step.
    pub first: usize,
    /// Mean utilization.
    pub utilization: Vec<Option<f32>>,
    /// Share of memory in use.
    pub memory: Vec<Option<f32>>,
}

table! {
    /// What a finding is about.
    #[derive(PartialOrd, Ord)]
    pub enum FindingKind {
        /// A device was lost or had another fault.
        Faulty = "faulty",
        /// A node did not answer.
        Down = "down",
        /// The driver of a node gave no values.
        HungDriver = "hung-driver",
        /// A device worked, and was slower or less reliable than it should be.
        Degraded = "degraded",
        /// A device was slowed down.
        Throttled = "throttled",
        /// A device reported errors.
        Errors = "errors",
        /// A job never ran a process on its devices.
        Unlaunched = "unlaunched",
        /// A job had processes on its devices, which never did anything.
        HeldCold = "held-cold",
        /// A job had processes on its devices, which did next to nothing.
        HeldWarm = "held-warm",
        /// A job never used its devices, and why is not known.
        Unused = "unused",
        /// A job never used some of its devices.
        PartlyUsed = "partly-used",
        /// A job made little use of its devices.
        LowLoad = "low-load",
        /// Devices were held and did nothing for a while.
        IdleHeld = "idle-held",
        /// A device of a job did less than half of what the others did.
        Imbalance = "imbalance",
        /// The devices of a job waited for its CPUs.
        Starved = "starved",
        /// A node was connected and sent nothing.
        NotSeen = "not-seen",
    }
    /// Returns the word used in reports.
    pub fn as_str -> &'static str;
}

table! {
    /// How much a finding matters.
    #[derive(PartialOrd, Ord)]
    pub enum FindingSeverity {
        /// It can wait.
        Low = "low",
        /// It should be looked at.
        Medium = "medium",
        /// It stops or hinders work.
        High = "high",
    }
    /// Returns the word used in reports.
    pub fn as_str -> &'static str;
}

/// Something that was wrong or wasteful.
#[derive(Clone, Debug)]
pub struct ReportFinding {
    /// What it is about.
    pub kind: FindingKind,
    /// How much it matters.
    pub severity: FindingSeverity,
    /// It in a sentence.
    pub text: String,
    /// The nodes that it is about.
    pub nodes: Vec<String>,
    /// The index of the device, if it is about one.
    pub device: Option<u32>,
    /// The names of the devices, if it is about some.
    pub devices: Vec<String>,
    /// The job, if it is about one.
    pub job: Option<String>,
    /// The user, if it is about one.
    pub user: Option<String>,
    /// Device-time that it concerns, in seconds; 0 for an error, which has no duration.
    pub device_seconds: f64,
    /// What to do.
    pub remedy: String,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub struct EventReport {
    /// When.
    pub at: Timestamp,
    /// The name of its [`MarkKind`](gtop_model::MarkKind).
    pub kind: &'static str,
    /// The same as text.
    pub text: Arc<str>,
}

/// A program.
#[derive(Clone, Debug)]
pub struct CommandReport {
    /// Its job, if it has one.
    pub job: Option<String>,
    /// Its user.
    pub user: String,
    /// Its node.
    pub node: String,
    /// Its command line.
    pub command: String,
    /// Time on devices, in seconds.
    pub device_seconds: f64,
}

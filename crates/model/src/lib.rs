//! What gtop knows of nodes, devices, jobs and runs: ids, units, readings, devices, processes, freshness and faults.
//!
//! Knows nothing of JSON, SSH or screens. A value is checked once, where it comes in (`wire`); from then on its
//! type guarantees the check.
//!
//! A part of gtop: its interface changes with it.

#![warn(missing_docs)]

pub use details::{
    DeviceActivity, DeviceCounters, DeviceDetails, DeviceRates, DeviceStatics, LinkCounters,
};
pub use device::{Device, DeviceFault, Throttle};
pub use device_evidence::{
    ConfigurationState, DaemonDevices, DeviceConfig, DeviceEvidence, DriverDevice, JobDeviceFiles,
    ListedDevice, ProvedIndices, SliceCapability,
};
pub use event::{Event, EventKind, KernelLine, xid_meaning};
pub use fault::{Fault, FaultKind, Link, SourceFault, SourceFaultKind, TransportKind};
pub use focus::Focus;
pub use freshness::{Freshness, max_interval, stale_after};
pub use health::{ComputeMode, FabricHealth, FabricState, RecoveryAction};
pub use host::{
    Counter, CpuTicks, HostFacts, HostReading, HostShareReading, HostSlowReading, MachineId,
    Pressure, SharesReading, Space,
};
pub use host_key::{
    AcceptedKey, HostKey, HostKeyAnswer, HostKeyQuestion, HostKeyReply, HostKeyRequest,
    RefusedHost, UnknownHost,
};
pub use id::{JobId, NodeName, NodeNameError, ProcessKey, Source};
pub use job::{
    Allocation, DeviceAllocation, FinishedJob, FinishedJobs, Job, JobList, JobListError,
    JobOutcome, JobState, PART_MARKS, RequestedJobs, SchedulerErrorKind, Unanswered,
};
pub use pci::{PciFunction, UnreadableDevices, bus_address};
pub use playback::{
    Mark, MarkKind, Playback, PlaybackCommand, RecordedBy, RecorderState, SPEEDS, Severity,
};
pub use process::{
    Ancestor, Container, ContainerKind, DeviceUse, ProcessReading, ProcessState, ProcessStatics,
    UnseenProcess, UnseenReason, UseKind,
};
pub use reading::{Reading, Reason};
pub use request::{
    Environment, IoCounters, ProcessDetail, ProcessRequest, ProcessResponse, ProcessTree, Refusal,
    RequestError, ResourceLimit, TreeProcess, Variable,
};
pub use run::{
    Estimate, FileResources, FoundProcess, MetricValue, Progress, Run, RunFolder, RunHost, RunId,
    RunLimits, RunList, RunProcess, RunStatus, RunTask, RunTreeProcess, RunVariable, RunVariables,
    UserResources,
};
pub use run_request::{
    DeletionPlan, OutputFile, OutputGrowth, OutputId, OutputStream, RunReply, RunRequest,
    RunRequestError, RunResponse,
};
pub use sample::{
    BackendReading, BackendState, DevicesReading, DriverFacts, Hello, ProbeCost, ProcessesReading,
    Sample, UsesReading,
};
pub use scheduler::{
    ClaimRules, DetectedOrder, DeviceOrder, GroupRule, IdForm, NodeCommand, NumberingRule,
    PartPattern, SchedulerProfile, SchedulerWords, StateSigns, UNNAMED_SCHEDULER, VariableRule,
};
pub use scheduler_node::{DeviceType, NodeFlag, NodeState, SchedulerNode, SchedulerNodes};
pub use signal::Signal;
pub use sudo::{Privilege, SudoRefusal, SudoState};
pub use tpu::{TpuCore, TpuDetails};
pub use unit::{Bytes, Celsius, FanSpeed, Megahertz, Percent, Watts};
pub use update::{NodeUpdate, SessionUpdate};
pub use vendor::Vendor;

pub(crate) use run::VariableKind;

mod declare;
mod details;
mod device;
mod device_evidence;
mod event;
mod fault;
mod focus;
mod freshness;
mod health;
mod host;
mod host_key;
mod id;
mod job;
mod pci;
mod playback;
mod process;
mod reading;
mod request;
mod run;
mod run_request;
mod sample;
mod scheduler;
mod scheduler_node;
mod signal;
mod sudo;
mod tpu;
mod unit;
mod update;
mod vendor;

pub mod nodeset;
pub mod training;

#[cfg(test)]
mod tests {
    use super::*;

    // These names are part of `--json` and of filters.

    fn joined<const N: usize>(words: [&str; N]) -> String {
        words.join(", ")
    }

    #[test]
    fn names_of_devices_and_processes_are_stable() {
        let vendors = ["nvml", "nvidia-smi", "amdgpu", "tpu"].map(Vendor::from_backend);
        assert_eq!(
            joined(vendors.map(|vendor| vendor.unwrap().as_str())),
            "nvidia, nvidia, amd, google"
        );
        assert_eq!(Vendor::from_backend("host"), None);
        let transports = [
            TransportKind::Native,
            TransportKind::SshProgram,
            TransportKind::Exec,
            TransportKind::Step,
            TransportKind::Local,
            TransportKind::Http,
            TransportKind::InProcess,
        ];
        assert_eq!(
            joined(transports.map(TransportKind::as_str)),
            "native, ssh, exec, srun, local, http, in-process"
        );
        let letters = ["R", "S", "D", "T", "t", "Z", "X", "I"];
        let read = |letter| ProcessState::new(letter).unwrap().letter();
        assert_eq!(letters.map(read), letters);
        assert_eq!(["x", "P", "W", "K"].map(read), ["X", "I", "I", "I"]);
        let uses = ["C", "G", "C+G"];
        assert_eq!(uses.map(|letters| UseKind::new(letters).unwrap().as_str()), uses);
        let containers = [
            ContainerKind::Docker,
            ContainerKind::Podman,
            ContainerKind::Containerd,
            ContainerKind::Crio,
            ContainerKind::Kubernetes,
            ContainerKind::Lxc,
            ContainerKind::Machine,
        ];
        assert_eq!(
            joined(containers.map(ContainerKind::as_str)),
            "docker, podman, containerd, cri-o, kubernetes, lxc, machine"
        );
        let modes = [0, 1, 2, 3].map(|number| ComputeMode::new(number).unwrap().text());
        assert_eq!(joined(modes), "default, exclusive thread, prohibited, exclusive process");
        let states = [0, 1, 2, 3].map(|number| FabricState::new(number).unwrap().text());
        assert_eq!(joined(states), "no fabric, not started, in progress, completed");
        let actions = [0, 1, 2, 3, 4, 5, 15].map(|number| RecoveryAction::new(number).unwrap());
        assert_eq!(
            actions.map(RecoveryAction::text).join(", "),
            "none, reset the device, reboot the node, drain peer-to-peer traffic, drain and reset the device, \
             number 5, see nvidia-smi -q, number 15, see nvidia-smi -q"
        );
        let numbers = actions.map(RecoveryAction::number);
        assert_eq!(numbers, [Some(0), Some(1), Some(2), Some(3), Some(4), Some(5), Some(15)]);
    }

    #[test]
    fn names_of_jobs_and_reasons_are_stable() {
        let jobs = [
            JobState::Running,
            JobState::Starting,
            JobState::Suspended,
            JobState::Ending,
            JobState::Pending,
            JobState::Ended,
            JobState::Other,
        ];
        assert_eq!(
            joined(jobs.map(JobState::as_str)),
            "running, starting, suspended, ending, pending, ended, other"
        );
        let outcomes = [
            JobOutcome::Completed,
            JobOutcome::Unknown,
            JobOutcome::Cancelled,
            JobOutcome::TimeLimit,
            JobOutcome::Deadline,
            JobOutcome::Failed,
            JobOutcome::NodeFailed,
            JobOutcome::OutOfMemory,
            JobOutcome::Preempted,
        ];
        assert_eq!(
            joined(outcomes.map(JobOutcome::text)),
            "has ended, has ended, was cancelled, reached its time limit, reached its deadline, has failed, \
             was ended by a node failure, ran out of memory, was preempted"
        );
        assert_eq!(
            joined(outcomes.map(JobOutcome::name)),
            "completed, ended, cancelled, time limit, deadline, failed, node failed, out of memory, preempted"
        );
        assert_eq!(
            joined(Reason::ALL.map(Reason::text)),
            "not sampled, not supported, not offered by this source, not available, driver error, no permission, \
             malformed, no workload, needs two samples, gone, in another PID namespace, \
             pid may be another process's here, asleep, withheld"
        );
        let key = ProcessKey { pid: 1, start_ticks: 2 };
        let requests = [
            ProcessRequest::Signal(key, Signal::Terminate),
            ProcessRequest::Environment(key),
            ProcessRequest::Tree(None),
            ProcessRequest::Detail(key),
        ];
        assert_eq!(requests.map(ProcessRequest::command), ProcessRequest::COMMANDS);
    }
}

//! The nouns of gtop: ids, units, readings, devices, processes, freshness and faults.
//!
//! Knows nothing of JSON, SSH or screens. A value is judged once, where it comes in (`wire`), and
//! from then on its type remembers the verdict.

pub use details::{
    DeviceActivity, DeviceCounters, DeviceDetails, DeviceRates, DeviceStatics, LinkCounters,
};
pub use device::{Device, DeviceFault, Throttle};
pub use event::{Event, EventKind, xid_meaning};
pub use fault::{Fault, FaultKind, Link, SourceFault, SourceFaultKind, Via};
pub use fresh::{Freshness, longest_interval, stale_after};
pub use health::{ComputeMode, FabricHealth, FabricState, Recovery};
pub use host::{Counter, CpuTicks, HostFacts, HostReading, HostSlowReading, Pressure, Space};
pub use id::{JobId, NodeName, NodeNameError, ProcessKey, Source};
pub use job::{Allocation, Allotment, Job, JobList, JobOutcome, JobProblem, JobState};
pub use process::{
    Absence, Ancestor, Container, ContainerKind, DeviceUse, ProcessReading, ProcessState,
    ProcessStatics, UnseenProcess, UseKind,
};
pub use question::{
    Answer, AskError, Environment, InputOutput, Limit, ProcessDetail, ProcessTree, Question,
    Refusal, TreeProcess, Variable,
};
pub use reading::{Reading, Reason};
pub use sample::{
    BackendReading, BackendState, DevicesReading, DriverFacts, Hello, ProcessesReading, Sample,
    UsesReading,
};
pub use signal::Signal;
pub use text::{clean, clean_shared, harmless, is_hostile};
pub use tpu::{TpuCore, TpuDetails};
pub use unit::{Bytes, Celsius, FanSpeed, Megahertz, Percent, Watts};
pub use vendor::Vendor;

mod details;
mod device;
mod event;
mod fault;
mod fresh;
mod health;
mod host;
mod id;
mod job;
mod process;
mod question;
mod reading;
mod sample;
mod signal;
mod text;
mod tpu;
mod unit;
mod vendor;

//! Reports the driver interfaces of a node: their devices, missing values, and the reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::doctor::{StepResult, StepStatus};
use gtop_collect::collect::Handshake;
use gtop_collect::wire::{Body, Decoder};
use gtop_fleet::advice::{self, Known, device, source};
use gtop_fleet::metrics::{DEVICE, Value};
use gtop_local::text::{counted, sanitize};
use gtop_local::time::{Clock, Timestamp};
use gtop_model::{
    BackendState, Device, DeviceFault, NodeUpdate, Reading, Reason, Sample, Source, SourceFault,
    SourceFaultKind, UnreadableDevices,
};

/// Maximum wait for all interfaces; the probe reports a slow call after three seconds.
const BACKEND_TIMEOUT: Duration = Duration::from_secs(8);
/// The same while one is slow, such as a driver that is loaded for each call. A probe without heartbeats ends later.
const SLOW_TIMEOUT: Duration = Duration::from_secs(24);

/// What one interface has reported.
#[derive(Debug, Default)]
struct BackendResult {
    devices: Option<Vec<Device>>,
    fault: Option<SourceFault>,
}

impl BackendResult {
    /// Returns true if it failed for good; a driver that is slow or still starting may yet answer.
    fn has_failed(&self) -> bool {
        self.fault.as_ref().is_some_and(SourceFault::is_problem)
    }

    /// Returns true if its driver is slow or still starting.
    fn is_slow(&self) -> bool {
        self.devices.is_none() && self.fault.is_some() && !self.has_failed()
    }
}

/// Adds a step for each driver interface of a node.
pub(super) async fn add_steps(
    handshake: &mut Handshake,
    hello: &Body,
    clock: &Clock,
    arrival: Timestamp,
    known: &Known,
    steps: &mut Vec<StepResult>,
) {
    let mut decoder = Decoder::default();
    let Some(NodeUpdate::Hello(hello)) = decoder.decode(hello, arrival) else { return };
    let unreadable = hello.host.unreadable_devices();
    for found in &unreadable {
        let remedy = device::of_driver(found.driver.as_deref());
        steps.push(StepResult::note("accelerators", found.text()).with_remedy(remedy));
    }
    // The shell reads no driver but through nvidia-smi.
    let is_shell_probe = hello.is_shell_probe;
    let is_confined = hello.host.is_confined();
    let has_devices = hello.host.nvidia_devices() > 0;
    let are_elsewhere = unreadable.iter().any(UnreadableDevices::is_nvidia);
    let mut states = hello.backends.clone();
    let mut results: BTreeMap<Source, BackendResult> = BTreeMap::new();
    let began = Instant::now();
    let mut session_fault = None;
    while !is_complete(&states, &results) {
        let is_slow = results.values().any(BackendResult::is_slow);
        let limit = if is_slow { SLOW_TIMEOUT } else { BACKEND_TIMEOUT };
        let frame = match timeout_at(began + limit, handshake.next_frame()).await {
            Ok(Ok(frame)) => frame,
            Ok(Err(fault)) => {
                session_fault = Some(fault);
                break;
            }
            Err(_elapsed) => break,
        };
        match decoder.decode(&frame.body, clock.now()) {
            Some(NodeUpdate::Hello(again)) => states = again.backends,
            Some(NodeUpdate::Sample(sample)) => record_sample(*sample, &mut results),
            Some(NodeUpdate::Event(_) | NodeUpdate::Session(_)) | None => {}
        }
    }
    let took = began.elapsed();
    // A container or a job may have none of the devices.
    for result in results.values_mut().filter(|_| is_confined) {
        result.fault.take_if(|fault| fault.kind == SourceFaultKind::NoDevices);
    }
    // Inside a container, the bus has devices of others; what a virtual machine is given needs no tools here.
    let are_unbound =
        unreadable.iter().any(|found| found.is_nvidia() && found.driver.as_deref() != Some(VFIO));
    let needs_tools = (has_devices || are_unbound) && !is_confined && has_no_tools(&states);
    let devices: Vec<Device> =
        results.values().filter_map(|result| result.devices.clone()).flatten().collect();
    let unlisted = hello.unlisted_devices(&devices);
    let are_read =
        results.values().all(|result| result.devices.is_some() && result.fault.is_none());
    let is_certain = !is_confined && !results.is_empty() && are_read;
    if is_certain && !unlisted.is_empty() {
        let row = StepResult::failed("devices", format!("not listed: {}", unlisted.join(", ")));
        steps.push(row.with_remedy(device::UNLISTED));
    }
    for state in &states {
        let needs_python = is_shell_probe && state.source.as_str() != "nvidia-smi";
        if let Some(mut step) = absent_step(state, needs_python, (has_devices, are_elsewhere)) {
            if needs_tools && state.is_missing {
                step.status = StepStatus::Failed;
            }
            steps.push(step);
            continue;
        }
        steps.push(backend_step(state, results.remove(&state.source).unwrap_or_default(), took));
    }
    if let Some(fault) = session_fault {
        let row = StepResult::failed("samples", sanitize(&fault.message(), 400));
        steps.push(row.with_duration(took).with_advice(&advice::for_fault(&fault, known)));
    }
}

fn is_complete(states: &[BackendState], results: &BTreeMap<Source, BackendResult>) -> bool {
    states.iter().all(|state| {
        let result = results.get(&state.source);
        state.absent.is_some()
            || result.is_some_and(|result| result.devices.is_some() || result.has_failed())
    })
}

fn record_sample(sample: Sample, results: &mut BTreeMap<Source, BackendResult>) {
    for backend in sample.backends {
        if let Some(devices) = backend.devices {
            let result = results.entry(backend.source).or_default();
            result.devices = Some(devices.list);
            result.fault = None;
        }
    }
    for (source, fault) in sample.faults {
        results.entry(source).or_default().fault = Some(fault);
    }
}

/// The driver of devices that are given to virtual machines.
const VFIO: &str = "vfio-pci";

/// Returns true if neither NVIDIA's library nor `nvidia-smi` is there.
fn has_no_tools(states: &[BackendState]) -> bool {
    let mut missing = states.iter().filter(|state| state.absent.is_some() && state.is_missing);
    let is_missing = missing.any(|state| state.source.as_str() == "nvidia-smi");
    let mut library = states.iter().filter(|state| state.source.as_str() == "nvml");
    is_missing && library.all(|state| state.absent.is_some() && state.is_missing)
}

/// Returns the step of an interface that the node does not have. The node may have devices for NVIDIA's driver, or such of
/// another one.
fn absent_step(
    state: &BackendState,
    needs_python: bool,
    (has_devices, are_elsewhere): (bool, bool),
) -> Option<StepResult> {
    let why = state.absent.as_ref().filter(|_| state.fault.is_none())?;
    let remedy = if needs_python {
        source::NEEDS_PYTHON
    } else if has_devices && state.is_missing {
        device::NO_TOOLS
    } else if are_elsewhere && state.is_missing {
        device::UNBOUND
    } else if state.is_missing {
        source::of_source(SourceFaultKind::NoLibrary)
    } else {
        source::NOT_THERE
    };
    let name = sanitize(state.source.as_str(), 40);
    Some(StepResult::note(&name, why.to_string()).with_remedy(remedy))
}

fn backend_step(state: &BackendState, result: BackendResult, took: Duration) -> StepResult {
    let name = sanitize(state.source.as_str(), 40);
    if let Some(fault) = state.fault.clone().or(result.fault) {
        let kind = fault.kind;
        let status =
            if kind == SourceFaultKind::NoLibrary { StepStatus::Note } else { StepStatus::Failed };
        let call = sanitize(&fault.call, 100);
        let duration = format!("{} s", fault.duration.as_secs());
        let text = if kind.is_duration() {
            kind.text(&state.source, Some(&duration))
        } else {
            kind.label().to_owned()
        };
        let message = sanitize(&fault.message, 200);
        let message = if message.is_empty() { message } else { format!(": {message}") };
        let finding = format!("{text} ({call}){message}");
        return StepResult::new(&name, status, finding)
            .with_duration(took)
            .with_remedy(source::of_source(kind));
    }
    let Some(devices) = result.devices else {
        let finding = format!("no answer within {} s", BACKEND_TIMEOUT.as_secs());
        return StepResult::failed(&name, finding)
            .with_duration(took)
            .with_remedy(source::NO_ANSWER);
    };
    let faulty: Vec<String> = devices.iter().filter_map(device_fault_text).collect();
    let status = if faulty.is_empty() { StepStatus::Ok } else { StepStatus::Failed };
    let details = faulty.into_iter().chain(missing_fields(&devices)).collect();
    let row = StepResult::new(&name, status, summarize_devices(&devices))
        .with_duration(took)
        .with_details(details);
    if status == StepStatus::Failed {
        row.with_remedy(source::of_source(SourceFaultKind::Lost))
    } else {
        row
    }
}

/// Returns the number of devices per model, and the driver version.
fn summarize_devices(devices: &[Device]) -> String {
    let physical: Vec<&Device> = devices.iter().filter(|device| device.parent.is_none()).collect();
    let mut models: BTreeMap<String, usize> = BTreeMap::new();
    let mut drivers = BTreeSet::new();
    for device in &physical {
        let model = device
            .name
            .known()
            .map_or_else(|| "unknown model".to_owned(), |name| sanitize(name, 60));
        *models.entry(model).or_default() += 1;
        let driver = Reading::of(device.statics.as_deref(), |known| known.driver.clone());
        drivers.extend(driver.known().map(|driver| sanitize(driver, 40)));
    }
    if physical.is_empty() {
        return "no devices".to_owned();
    }
    let slices = devices.len() - physical.len();
    let models = models.iter().map(|(model, count)| format!("{count} {model}"));
    let mut parts: Vec<String> = models.take(8).collect();
    if slices > 0 {
        parts.push(counted(slices, "slice"));
    }
    parts.extend(drivers.into_iter().take(2).map(|driver| format!("driver {driver}")));
    parts.join(", ")
}

/// Describes the error of a device; `None` if it has none.
fn device_fault_text(device: &Device) -> Option<String> {
    let why = match device.fault.as_ref()? {
        DeviceFault::Lost => "lost by the driver".to_owned(),
        DeviceFault::NeedsReset => "needs a reset".to_owned(),
        DeviceFault::NoPermission => "no permission".to_owned(),
        DeviceFault::Gone(_) => "no longer listed by the driver".to_owned(),
        DeviceFault::Other(text) => sanitize(text, 120),
    };
    let name = device
        .index
        .known()
        .map_or_else(|| sanitize(&device.uuid, 60), |index| format!("#{index}"));
    Some(format!("device {name}: {why}"))
}

/// Returns one line for each reason why values are missing.
fn missing_fields(devices: &[Device]) -> Vec<String> {
    let mut by_reason: BTreeMap<&'static str, Vec<&'static str>> = BTreeMap::new();
    for field in DEVICE {
        let missing = devices.iter().filter(|device| device.fault.is_none()).find_map(|device| {
            let Value::Unknown(reason) = (field.read)(device) else { return None };
            (reason != Reason::NotSampled).then(|| reason.text())
        });
        if let Some(reason) = missing {
            by_reason.entry(reason).or_default().push(field.alias);
        }
    }
    by_reason
        .into_iter()
        .map(|(reason, fields)| format!("{reason}: {}", fields.join(", ")))
        .collect()
}

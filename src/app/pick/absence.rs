//! Why there are no devices to pick.

use std::sync::Arc;

use crate::app::pick::{Outcome, PickError};
use gtop_fleet::{Fleet, Node, SourceState, is_memory_refused};
use gtop_local::time::Timestamp;
use gtop_model::{
    BackendState, Freshness, Link, SourceFault, SourceFaultKind, TransportKind, nodeset,
};

/// Fails if no node has devices.
pub(super) fn check_any_devices(fleet: &Fleet) -> Result<(), PickError> {
    if fleet.nodes.iter().any(|node| !node.devices.is_empty()) {
        return Ok(());
    }
    let names = doctor_argument(fleet);
    let reasons: Vec<NoDevices> = fleet.nodes.iter().flat_map(|node| absences(node)).collect();
    let driver = reasons.iter().find(|reason| !reason.is_missing);
    let is_answered = fleet.nodes.iter().any(|node| node.taken_at().is_some());
    let hellos = fleet.nodes.iter().filter_map(|node| node.hello.as_ref());
    if let Some(found) = hellos.flat_map(|hello| hello.unreadable_texts()).next() {
        return Err(PickError::NoDevices(found, names));
    }
    if driver.is_none() && fleet.nodes.iter().any(|node| awaits_driver(node)) {
        let awaited = "a driver has not answered yet; a longer --deadline helps";
        return Err(PickError::NoDevices(awaited.to_owned(), names));
    }
    if let Some(driver) = driver {
        return Err(PickError::DriverError(driver.text.clone(), names));
    }
    let why = match reasons.first() {
        Some(reason) => reason.text.as_str(),
        None if is_answered => "the nodes have no accelerators",
        None => "no node answered",
    };
    Err(PickError::NoDevices(why.to_owned(), names))
}

/// Returns true if a node has devices, or may still report some.
pub(super) fn has_hope(node: &Arc<Node>) -> bool {
    let is_given_up = matches!(node.link, Link::Down { retry_at: None, .. });
    let is_silent = node.taken_at().is_none() && !is_given_up;
    !node.devices.is_empty() || is_silent || awaits_driver(node)
}

/// Fails if none of the devices of any node can be read, and all that are free were asked for: none is not an answer then.
pub(super) fn check_any_readable(outcome: &Outcome) -> Result<(), PickError> {
    let Outcome { fleet, request, picks, now, .. } = outcome;
    let takes_any_number = request.min_count == 0 && request.max_count != Some(0);
    let mut nodes = fleet.nodes.iter();
    let has_readable =
        nodes.any(|node| node.units().any(|(position, _)| !is_unreadable(node, position, *now)));
    if !takes_any_number || has_readable {
        return Ok(());
    }
    let why = picks.main_reason.as_ref().map(|(reason, count)| format!("; {count}: {reason}"));
    Err(PickError::Unreadable(why.unwrap_or_default(), doctor_argument(fleet)))
}

/// Returns true if the state of the device at this position is not known now.
pub(super) fn is_unreadable(node: &Node, position: usize, now: Timestamp) -> bool {
    node.devices.get(position).is_none_or(|device| {
        device.fault.is_some()
            || node.device_freshness(position, now) != Freshness::Fresh
            || is_memory_refused(device)
    })
}

/// Returns the nodes of a fleet as an argument of `gtop doctor`, with a space behind it; empty for this machine.
fn doctor_argument(fleet: &Fleet) -> String {
    let names = fleet.nodes.iter().filter(|node| node.via != Some(TransportKind::Local));
    let names = nodeset::fold(names.map(|node| node.name.label()));
    if names.is_empty() { names } else { format!("'{names}' ") }
}

/// Why a driver reports no devices.
struct NoDevices {
    text: String,
    /// It is not installed.
    is_missing: bool,
}

/// Returns true if a driver may yet answer.
fn is_awaited(fault: &SourceFault) -> bool {
    matches!(fault.kind, SourceFaultKind::Starting | SourceFaultKind::Slow)
}

/// Returns true if a driver of a node has reported neither devices nor why there are none.
fn awaits_driver(node: &Node) -> bool {
    let mut backends = node.hello.iter().flat_map(|hello| &hello.backends);
    backends.any(|backend| {
        node.source(&backend.source).is_some_and(|state| {
            let has_none = state.taken_at.is_none() && state.absent.is_none();
            has_none && state.fault.as_ref().is_none_or(|fault| is_awaited(fault))
        })
    })
}

/// Returns why the drivers of a node report no devices: NVIDIA's library first.
fn absences(node: &Node) -> Vec<NoDevices> {
    let backends = node.hello.iter().flat_map(|hello| &hello.backends);
    let mut states: Vec<(&BackendState, &SourceState)> =
        backends.filter_map(|backend| Some((backend, node.source(&backend.source)?))).collect();
    states.sort_by_key(|(backend, _)| backend.source.as_str() != "nvml");
    let reasons = states.into_iter().filter_map(|(backend, state)| {
        let fault = state.fault.as_ref().filter(|fault| !is_awaited(fault));
        let fault = fault.map(|fault| fault.kind.text(&state.source, None));
        let text = state.absent.as_deref().map(str::to_owned).or(fault)?;
        Some(NoDevices { text, is_missing: state.absent.is_some() && backend.is_missing })
    });
    reasons.collect()
}

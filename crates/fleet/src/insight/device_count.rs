//! Whether a node shows all its devices: those on its PCI bus, and those that the scheduler gives to jobs.

use crate::Node;
use crate::insight::note::Note;
use gtop_local::time::Timestamp;
use gtop_model::SourceFaultKind;

/// Returns the notes on missing devices; none while that is not certain.
pub(super) fn notes(node: &Node, now: Timestamp) -> Vec<Note> {
    // A driver that answers and has no devices lists none, whatever keeps others from starting.
    let lists_none = node.has_fault(SourceFaultKind::NoDevices);
    let has_failure = node.sources.iter().any(|state| {
        let fault = state.fault.as_ref().filter(|fault| fault.kind != SourceFaultKind::NoDevices);
        fault.is_some() && !(lists_none && state.absent.is_some())
    });
    // A session that may see only some devices reports nothing of the others, and a source that fails has a note of its own.
    let is_certain = node.is_settled
        && !node.is_confined()
        && !node.has_hidden_devices
        && node.freshness(now).is_fresh()
        && !has_failure;
    if !is_certain {
        return Vec::new();
    }
    unlisted(node).into_iter().chain(below_scheduler(node)).collect()
}

/// Returns the notes on what the kernel has logged of devices that the node does not show, for whatever reason.
pub(super) fn kernel_notes(node: &Node) -> impl Iterator<Item = Note> {
    let is_certain = node.is_settled && !node.has_hidden_devices;
    let xids = if is_certain { node.xids_of_unlisted_devices() } else { Vec::new() };
    xids.into_iter().map(|(code, address)| Note::UnlistedXid { code, address })
}

/// Returns the devices on the PCI bus that no driver lists, if there are any.
fn unlisted(node: &Node) -> Option<Note> {
    let unlisted = node.hello.as_ref()?.unlisted_devices(&node.devices);
    (!unlisted.is_empty()).then_some(Note::UnlistedDevices(unlisted))
}

/// Compares the number of devices with that of the scheduler, which may count slices for their device.
fn below_scheduler(node: &Node) -> Option<Note> {
    let scheduler = node.scheduler.as_ref().filter(|known| !known.is_old && !known.is_count_old)?;
    let configured = usize::try_from(scheduler.devices?).ok()?;
    let whole = node.whole_devices();
    let found: usize = whole.map(|(_, device)| node.slices(device).count().max(1)).sum();
    (found < configured).then_some(Note::BelowScheduler { found, configured })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::SourceState;
    use gtop_model::{
        Device, DeviceFault, Hello, HostFacts, JobId, Link, NodeName, Reading, SchedulerNode,
        Source, SourceFault, TransportKind,
    };

    const NOW: Timestamp = Timestamp::from_micros(100_000_000);

    fn device(bus: u32) -> Device {
        Device {
            uuid: format!("GPU-{bus}").into(),
            pci: Reading::Known(format!("00000000:{bus:02X}:00.0").into()),
            ..Device::default()
        }
    }

    /// Returns a node with two of the three devices of its bus, and of the scheduler.
    fn node() -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        node.link = Link::Up;
        node.is_settled = true;
        let source = |source| SourceState {
            source,
            taken_at: Some(NOW),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        };
        node.sources = vec![source(Source::host()), source(Source::new("nvml"))];
        node.devices = vec![device(0x18), device(0x29)].into();
        node.device_sources = vec![Source::new("nvml"); 2].into();
        let bus_devices = [0x18, 0x29, 0x3a].map(|bus| format!("0000:{bus:02x}:00.0").into());
        node.hello = Some(Arc::new(Hello { bus_devices: bus_devices.into(), ..Hello::default() }));
        let scheduler = SchedulerNode { devices: Some(3), ..SchedulerNode::default() };
        node.scheduler = Some(Arc::new(scheduler));
        node
    }

    fn texts(change: impl FnOnce(&mut Node)) -> Vec<String> {
        let mut node = node();
        change(&mut node);
        notes(&node, NOW).iter().map(Note::text).collect()
    }

    type Change = fn(&mut Node);

    const UNLISTED: &str = "not listed: 0000:3a:00.0";
    const BELOW: &str = "2 of the 3 devices that the scheduler expects";

    #[test]
    fn devices_that_are_missing_from_the_start_are_a_reason() {
        assert_eq!(texts(|_| {}), [UNLISTED, BELOW]);
        let alone = |node: &mut Node| node.scheduler = None;
        assert_eq!(texts(alone), [UNLISTED]);
        let without_bus = |node: &mut Node| node.hello = Some(Arc::default());
        assert_eq!(texts(without_bus), [BELOW]);
    }

    #[test]
    fn a_driver_that_lists_none_misses_all_although_another_does_not_start() {
        let fault = |kind| {
            let (call, message, duration) = ("".into(), "".into(), Duration::ZERO);
            Some(Box::new(SourceFault { kind, call, message, duration, at: NOW, code: None }))
        };
        let refused = |node: &mut Node| {
            (node.devices, node.device_sources) = Default::default();
            node.scheduler = None;
            node.sources[1].absent = Some("NVML: error 999 at the start".into());
            node.sources[1].fault = fault(SourceFaultKind::NoStart);
        };
        assert_eq!(texts(refused), [""; 0]);
        let lists_none = |node: &mut Node| {
            refused(node);
            let source = Source::new("nvidia-smi");
            let fault = fault(SourceFaultKind::NoDevices);
            node.sources.push(SourceState { source, fault, ..node.sources[0].clone() });
        };
        assert_eq!(texts(lists_none), ["not listed: 0000:18:00.0, 0000:29:00.0, 0000:3a:00.0"]);
    }

    #[test]
    fn a_device_that_has_a_row_is_not_missing() {
        let gone = |node: &mut Node| {
            let fault = Some(DeviceFault::Gone(NOW));
            node.devices.push(Device { fault, ..device(0x3a) });
        };
        assert_eq!(texts(gone), [""; 0]);
        let unnamed = |node: &mut Node| {
            node.devices.push(Device { uuid: "index-2".into(), ..Device::default() });
        };
        assert_eq!(texts(unnamed), [""; 0]);
    }

    #[test]
    fn slices_count_for_their_device() {
        let sliced = |count: u32| {
            move |node: &mut Node| {
                let parent = Some(Arc::clone(&node.devices[0].uuid));
                let slices = (0..count).map(|number| Device {
                    uuid: format!("MIG-{number}").into(),
                    parent: parent.clone(),
                    ..Device::default()
                });
                node.devices.extend(slices);
                node.hello = None;
            }
        };
        assert_eq!(texts(sliced(1)), [BELOW]);
        assert_eq!(texts(sliced(2)), [""; 0]);
    }

    #[test]
    fn nothing_is_said_while_devices_may_be_hidden_or_are_not_read() {
        let changes: [(&str, Change); 9] = [
            ("selected", |node| node.has_hidden_devices = true),
            ("a step", |node| node.via = Some(TransportKind::Step)),
            ("a job", |node| {
                let host = HostFacts { job: JobId::new("7"), ..HostFacts::default() };
                let hello = Hello::clone(node.hello.as_ref().unwrap());
                node.hello = Some(Arc::new(Hello { host, ..hello }));
            }),
            ("a container", |node| {
                let host = HostFacts { is_contained: true, ..HostFacts::default() };
                let hello = Hello::clone(node.hello.as_ref().unwrap());
                node.hello = Some(Arc::new(Hello { host, ..hello }));
            }),
            ("starting", |node| node.is_settled = false),
            ("stale", |node| node.sources[1].taken_at = Some(Timestamp::default())),
            ("no answer", |node| {
                node.sources[1].fault = Some(Box::new(SourceFault {
                    kind: SourceFaultKind::Failed,
                    call: "".into(),
                    message: "".into(),
                    duration: Duration::ZERO,
                    at: NOW,
                    code: None,
                }));
            }),
            ("an old list", |node| {
                node.hello = None;
                let known = SchedulerNode::clone(node.scheduler.as_ref().unwrap());
                node.scheduler = Some(Arc::new(SchedulerNode { is_old: true, ..known }));
            }),
            ("more than there are to be", |node| {
                node.hello = None;
                let known = SchedulerNode::clone(node.scheduler.as_ref().unwrap());
                node.scheduler = Some(Arc::new(SchedulerNode { devices: Some(1), ..known }));
            }),
        ];
        for (what, change) in changes {
            assert_eq!(texts(change), [""; 0], "{what}");
        }
    }
}

//! Hidden users of a device: the number of processes the node does not show, and the memory that no visible
//! process holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::node::{Node, refused_users};
use gtop_model::{Bytes, Device, Reading, Reason, UnseenReason};

/// Users of one device: memory of the visible ones, number of the hidden ones.
#[derive(Clone, Copy)]
struct DeviceUsers {
    /// Device memory of processes that are visible or have ended.
    visible_memory: Reading<Bytes>,
    hidden: Reading<u32>,
}

impl DeviceUsers {
    const NONE: Self = Self { visible_memory: Reading::Known(Bytes(0)), hidden: Reading::Known(0) };

    fn add_memory(&mut self, memory: Reading<Bytes>) {
        let both = self.visible_memory.zip(memory);
        self.visible_memory = both.map(|(sum, more)| Bytes(sum.0.saturating_add(more.0)));
    }
}

/// Sets the hidden counts, once both the driver's list of processes and the kernel's are known.
pub(super) fn count_hidden(node: &mut Node) {
    let mut visible_pids: Vec<u32> = node.processes.iter().map(|process| process.key.pid).collect();
    visible_pids.sort_unstable();
    let unseen: BTreeMap<u32, UnseenReason> =
        node.unseen.iter().map(|process| (process.pid, process.why)).collect();
    let mut sums = vec![DeviceUsers::NONE; node.devices.len()];
    for (position, device) in node.devices.iter().enumerate() {
        let parent =
            device.parent.as_ref().and_then(|parent| device_index(&node.devices, parent, None));
        for sum in [Some(position), parent].into_iter().flatten() {
            if let Some(sum) = sums.get_mut(sum) {
                let nameless = device.nameless_processes;
                sum.hidden = sum.hidden.map(|count| count.saturating_add(nameless));
            }
        }
    }
    let mut index = None;
    for used in node.uses.iter() {
        // Uses of one device are adjacent.
        index = device_index(&node.devices, &used.device, index);
        let slice = index.and_then(|index| node.devices.get(index));
        let parent =
            slice.and_then(|slice| device_index(&node.devices, slice.parent.as_ref()?, None));
        for position in [index, parent].into_iter().flatten() {
            let Some(sum) = sums.get_mut(position) else { continue };
            match unseen.get(&used.pid) {
                _ if visible_pids.binary_search(&used.pid).is_ok() => sum.add_memory(used.memory),
                Some(UnseenReason::Gone) => sum.add_memory(used.memory),
                Some(
                    UnseenReason::Hidden | UnseenReason::OtherNamespace | UnseenReason::Ambiguous,
                ) => {
                    sum.hidden = sum.hidden.map(|count| count.saturating_add(1));
                }
                // The node did not report whether the process has ended or is hidden.
                None => {
                    sum.visible_memory = Reading::Unknown(Reason::NotAvailable);
                    sum.hidden = Reading::Unknown(Reason::NotAvailable);
                }
            }
        }
    }
    // Without a backend's process list, no device is known to be unused.
    let lists = node.device_sources.iter().map(|source| node.process_list(source)?.taken_at);
    let has_list: Vec<bool> = lists.map(|taken_at| taken_at.is_some()).collect();
    let refused: Vec<Option<Reason>> = node.devices.iter().map(refused_users).collect();
    let devices = node.devices.iter_mut().zip(sums).zip(refused).zip(has_list);
    for (((device, sum), refused), _) in devices.filter(|(_, has_list)| *has_list) {
        if let Some(reason) = refused {
            device.hidden_processes = Reading::Unknown(reason);
            device.hidden_memory = Reading::Unknown(reason);
            continue;
        }
        device.hidden_processes = sum.hidden;
        if device.has_host_memory {
            continue; // most of it belongs to processes that use no device
        }
        let both = device.memory_used.zip(sum.visible_memory);
        device.hidden_memory = both.map(|(used, visible)| Bytes(used.0.saturating_sub(visible.0)));
    }
}

/// Returns the position of a device, trying `near` first.
fn device_index(devices: &[Device], uuid: &Arc<str>, near: Option<usize>) -> Option<usize> {
    let near = near.filter(|index| devices.get(*index).is_some_and(|near| near.uuid == *uuid));
    near.or_else(|| devices.iter().position(|device| device.uuid == *uuid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::NodeBuilder;
    use gtop_local::time::Timestamp;
    use gtop_model::{
        BackendReading, DeviceUse, DevicesReading, Link, NodeName, ProcessKey, ProcessReading,
        ProcessStatics, ProcessesReading, Sample, Source, UnseenProcess, UsesReading,
    };

    fn device_use(device: &str, pid: u32, memory: Reading<Bytes>) -> DeviceUse {
        DeviceUse { device: device.into(), pid, memory, ..DeviceUse::default() }
    }

    fn bytes(memory: u64) -> Reading<Bytes> {
        Reading::Known(Bytes(memory))
    }

    fn hidden_counts(
        uses: Option<Vec<DeviceUse>>,
        seen: &[u32],
        unseen: &[(u32, UnseenReason)],
    ) -> Vec<(Reading<u32>, Reading<Bytes>)> {
        hidden_counts_with(uses, seen, unseen, &[])
    }

    /// Returns the hidden counts of a device and its slice, each with 100 bytes in use. `nameless` is how many processes
    /// without a pid are listed on which.
    fn hidden_counts_with(
        uses: Option<Vec<DeviceUse>>,
        seen: &[u32],
        unseen: &[(u32, UnseenReason)],
        nameless: &[(&str, u32)],
    ) -> Vec<(Reading<u32>, Reading<Bytes>)> {
        let at = Timestamp::default();
        let nameless: BTreeMap<Arc<str>, u32> =
            nameless.iter().map(|(uuid, count)| ((*uuid).into(), *count)).collect();
        let device = |uuid: &str, parent: Option<&str>| Device {
            uuid: uuid.into(),
            parent: parent.map(Into::into),
            memory_used: bytes(100),
            ..Device::default()
        };
        let list = vec![device("GPU", None), device("MIG", Some("GPU"))];
        let process = |pid: &u32| ProcessReading {
            key: ProcessKey { pid: *pid, start_ticks: 1 },
            cpu_ticks: Reading::default(),
            cpu_percent: Reading::default(),
            running_seconds: Reading::default(),
            resident: Reading::default(),
            state: Reading::default(),
            threads: Reading::default(),
            statics: None,
        };
        let unseen_process = |(pid, why): &(u32, UnseenReason)| UnseenProcess {
            pid: *pid,
            why: *why,
            statics: ProcessStatics::default(),
        };
        let mut builder = NodeBuilder::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        builder.on_link(Link::Up);
        builder.on_sample(Sample {
            backends: vec![BackendReading {
                source: Source::new("nvml"),
                slow_at: None,
                devices: Some(DevicesReading { at, list, is_cut_short: false }),
                uses: uses.map(|list| UsesReading { at, list, nameless: nameless.clone() }),
            }],
            processes: Some(ProcessesReading {
                at,
                list: seen.iter().map(process).collect(),
                unseen: unseen.iter().map(unseen_process).collect(),
            }),
            ..Sample::default()
        });
        let node = builder.node();
        node.devices.iter().map(|device| (device.hidden_processes, device.hidden_memory)).collect()
    }

    #[test]
    fn hidden_memory_is_what_no_visible_process_holds() {
        let uses = vec![
            device_use("GPU", 1, bytes(30)),
            device_use("MIG", 2, bytes(20)),
            device_use("MIG", 3, bytes(9)),
        ];
        let found = hidden_counts(Some(uses), &[1, 2], &[(3, UnseenReason::OtherNamespace)]);
        assert_eq!(found, [(Reading::Known(1), bytes(50)), (Reading::Known(1), bytes(80))]);
    }

    #[test]
    fn what_is_hidden_is_not_known_if_the_driver_refuses_its_list() {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        let details = gtop_model::DeviceDetails {
            reports_users: Reading::Unknown(Reason::NoPermission),
            ..gtop_model::DeviceDetails::default()
        };
        let device = Device {
            memory_used: bytes(100),
            details: details.shared(),
            hidden_processes: Reading::Known(0),
            hidden_memory: bytes(100),
            ..Device::default()
        };
        node.devices = vec![device].into();
        node.device_sources = [Source::new("nvml")].into();
        node.mark_sampled(&Source::new("nvml").processes(), Timestamp::default());
        count_hidden(&mut node);
        let device = &node.devices[0];
        assert_eq!(device.hidden_processes, Reading::Unknown(Reason::NoPermission));
        assert_eq!(device.hidden_memory, Reading::Unknown(Reason::NoPermission));
    }

    #[test]
    fn a_process_without_a_pid_is_hidden() {
        let found = hidden_counts_with(
            Some(vec![device_use("GPU", 1, bytes(30))]),
            &[1],
            &[],
            &[("GPU", 2), ("MIG", 1)],
        );
        assert_eq!(found, [(Reading::Known(3), bytes(70)), (Reading::Known(1), bytes(100))]);
    }

    #[test]
    fn a_pid_that_may_be_of_another_process_is_hidden() {
        let uses = vec![device_use("GPU", 7, bytes(30))];
        let found = hidden_counts(Some(uses), &[], &[(7, UnseenReason::Ambiguous)]);
        assert_eq!(found[0], (Reading::Known(1), bytes(100)));
    }

    #[test]
    fn an_ended_process_is_not_hidden() {
        let uses = vec![device_use("MIG", 2, bytes(20)), device_use("MIG", 3, bytes(30))];
        let found = hidden_counts(Some(uses), &[2], &[(3, UnseenReason::Gone)]);
        assert_eq!(found[1], (Reading::Known(0), bytes(50)));
    }

    #[test]
    fn missing_data_leaves_the_counts_unknown() {
        // Unknown in turn: the list of processes, what became of a process, and its memory.
        assert_eq!(hidden_counts(None, &[], &[])[0], (Reading::default(), Reading::default()));
        let unknown = Reading::Unknown(Reason::NotAvailable);
        let found = hidden_counts(Some(vec![device_use("GPU", 1, bytes(5))]), &[], &[]);
        assert_eq!(found[0], (Reading::Unknown(Reason::NotAvailable), unknown));
        let unsupported = Reading::Unknown(Reason::NotSupported);
        let found = hidden_counts(Some(vec![device_use("GPU", 1, unsupported)]), &[1], &[]);
        assert_eq!(found[0], (Reading::Known(0), unsupported));
        assert_eq!(hidden_counts(Some(vec![]), &[], &[])[0], (Reading::Known(0), bytes(100)));
    }
}

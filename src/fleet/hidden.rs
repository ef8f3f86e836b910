//! Hidden users of a device: the number of processes the node does not show, and the memory that no visible
//! process holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fleet::node::Node;
use crate::model::{Bytes, Device, Reading, Reason, Source, UnseenReason};

/// Users of one device: memory of the visible ones, number of the hidden ones.
#[derive(Clone, Copy)]
struct DeviceUsers {
    /// Device memory of processes that are visible or have ended.
    held: Reading<Bytes>,
    hidden: Reading<u32>,
}

impl Default for DeviceUsers {
    fn default() -> Self {
        Self { held: Reading::Known(Bytes(0)), hidden: Reading::Known(0) }
    }
}

impl DeviceUsers {
    fn add_memory(&mut self, memory: Reading<Bytes>) {
        self.held = match (self.held, memory) {
            (Reading::Known(sum), Reading::Known(more)) => {
                Reading::Known(Bytes(sum.0.saturating_add(more.0)))
            }
            (Reading::Unknown(reason), _) | (_, Reading::Unknown(reason)) => {
                Reading::Unknown(reason)
            }
        };
    }
}

/// Sets the hidden counts, once both the driver's list of processes and the kernel's are known.
pub(super) fn count_hidden(node: &mut Node) {
    let mut seen: Vec<u32> = node.processes.iter().map(|process| process.key.pid).collect();
    seen.sort_unstable();
    let unseen: BTreeMap<u32, UnseenReason> =
        node.unseen.iter().map(|process| (process.pid, process.why)).collect();
    let mut sums = vec![DeviceUsers::default(); node.devices.len()];
    let mut own = None;
    for used in node.uses.iter() {
        // Uses of one device are adjacent.
        own = position(&node.devices, &used.device, own);
        let slice = own.and_then(|own| node.devices.get(own));
        let parent = slice.and_then(|slice| position(&node.devices, slice.parent.as_ref()?, None));
        for place in [own, parent].into_iter().flatten() {
            let Some(sum) = sums.get_mut(place) else { continue };
            match unseen.get(&used.pid) {
                _ if seen.binary_search(&used.pid).is_ok() => sum.add_memory(used.memory),
                Some(UnseenReason::Gone) => sum.add_memory(used.memory),
                Some(UnseenReason::Hidden | UnseenReason::OtherNamespace) => {
                    sum.hidden = sum.hidden.map(|count| count.saturating_add(1));
                }
                // The node did not report whether the process has ended or is hidden.
                None => {
                    sum.held = Reading::Unknown(Reason::NotAvailable);
                    sum.hidden = Reading::Unknown(Reason::NotAvailable);
                }
            }
        }
    }
    let told: Vec<bool> =
        node.device_sources.iter().map(|source| reports_users(node, source)).collect();
    let devices = node.devices.iter_mut().zip(sums).zip(told);
    for ((device, sum), _) in devices.filter(|(_, is_told)| *is_told) {
        device.hidden_processes = sum.hidden;
        if device.has_host_memory {
            continue; // most of it belongs to processes that use no device
        }
        device.hidden_memory = match (device.memory_used, sum.held) {
            (Reading::Known(used), Reading::Known(held)) => {
                Reading::Known(Bytes(used.0.saturating_sub(held.0)))
            }
            (Reading::Unknown(reason), _) | (_, Reading::Unknown(reason)) => {
                Reading::Unknown(reason)
            }
        };
    }
}

/// Returns the position of a device, trying `near` first.
fn position(devices: &[Device], uuid: &Arc<str>, near: Option<usize>) -> Option<usize> {
    let is_it = |place: &usize| devices.get(*place).is_some_and(|device| device.uuid == *uuid);
    near.filter(is_it).or_else(|| (0..devices.len()).find(is_it))
}

/// Returns true if a backend has reported its process list; without it no device is known to be unused.
fn reports_users(node: &Node, source: &Source) -> bool {
    node.process_list(source).is_some_and(|state| state.taken_at.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::fleet::NodeBuilder;
    use crate::model::{
        BackendReading, DeviceUse, DevicesReading, Link, NodeName, ProcessKey, ProcessReading,
        ProcessStatics, ProcessesReading, Sample, UnseenProcess, UsesReading,
    };
    use crate::time::Timestamp;

    fn used(device: &str, pid: u32, memory: Reading<Bytes>) -> DeviceUse {
        DeviceUse { device: device.into(), pid, memory, ..DeviceUse::default() }
    }

    fn known(memory: u64) -> Reading<Bytes> {
        Reading::Known(Bytes(memory))
    }

    /// Returns the hidden counts of a device and its slice, each with 100 bytes in use.
    fn counted(
        uses: Option<Vec<DeviceUse>>,
        seen: &[u32],
        unseen: &[(u32, UnseenReason)],
    ) -> Vec<(Reading<u32>, Reading<Bytes>)> {
        let at = Timestamp::default();
        let device = |uuid: &str, parent: Option<&str>| Device {
            uuid: uuid.into(),
            parent: parent.map(Into::into),
            memory_used: known(100),
            ..Device::default()
        };
        let list = vec![device("GPU", None), device("MIG", Some("GPU"))];
        let process = |pid: &u32| ProcessReading {
            key: ProcessKey { pid: *pid, start_ticks: 1 },
            cpu_ticks: Reading::default(),
            resident: Reading::default(),
            state: Reading::default(),
            threads: Reading::default(),
            statics: None,
        };
        let absent = |(pid, why): &(u32, UnseenReason)| UnseenProcess {
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
                devices: Some(DevicesReading { at, list }),
                uses: uses.map(|list| UsesReading { at, list }),
            }],
            processes: Some(ProcessesReading {
                at,
                list: seen.iter().map(process).collect(),
                unseen: unseen.iter().map(absent).collect(),
            }),
            ..Sample::default()
        });
        let node = builder.node();
        node.devices.iter().map(|one| (one.hidden_processes, one.hidden_memory)).collect()
    }

    #[test]
    fn what_nobody_we_see_holds_is_the_remainder() {
        let uses =
            vec![used("GPU", 1, known(30)), used("MIG", 2, known(20)), used("MIG", 3, known(9))];
        let found = counted(Some(uses), &[1, 2], &[(3, UnseenReason::OtherNamespace)]);
        assert_eq!(found, [(Reading::Known(1), known(50)), (Reading::Known(1), known(80))]);
    }

    #[test]
    fn one_that_has_ended_is_not_hidden() {
        let uses = vec![used("MIG", 2, known(20)), used("MIG", 3, known(30))];
        let found = counted(Some(uses), &[2], &[(3, UnseenReason::Gone)]);
        assert_eq!(found[1], (Reading::Known(0), known(50)));
    }

    #[test]
    fn nothing_is_made_up() {
        // Unknown in turn: the list of processes, what became of a process, and its memory.
        assert_eq!(counted(None, &[], &[])[0], (Reading::default(), Reading::default()));
        let unknown = Reading::Unknown(Reason::NotAvailable);
        let found = counted(Some(vec![used("GPU", 1, known(5))]), &[], &[]);
        assert_eq!(found[0], (Reading::Unknown(Reason::NotAvailable), unknown));
        let silent = Reading::Unknown(Reason::NotSupported);
        let found = counted(Some(vec![used("GPU", 1, silent)]), &[1], &[]);
        assert_eq!(found[0], (Reading::Known(0), silent));
        assert_eq!(counted(Some(vec![]), &[], &[])[0], (Reading::Known(0), known(100)));
    }
}

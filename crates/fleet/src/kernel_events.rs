//! Finds the devices of what the kernel has logged, which names them by their place on the PCI bus.

use std::sync::Arc;

use crate::event_record::EventRecord;
use crate::node::Node;
use gtop_model::{Device, KernelLine};

impl Node {
    /// Gives what the kernel has logged to the devices at the places that it names.
    pub(super) fn place_kernel_events(&mut self) {
        if self.events.iter().all(|record| record.event.line.is_none()) {
            return;
        }
        let (moved, kept): (Vec<EventRecord>, Vec<EventRecord>) =
            self.events.iter().cloned().partition(|record| self.moved_device(record).is_some());
        if moved.is_empty() {
            return;
        }
        self.events = kept.into();
        for mut record in moved {
            record.event.device = self.moved_device(&record).unwrap_or_default();
            self.add_record(record);
        }
    }

    /// Returns the identity of a record's device if another one is known.
    fn moved_device(&self, record: &EventRecord) -> Option<Arc<str>> {
        let device = self.device_of_line(record.event.line.as_ref()?)?;
        (device.uuid != record.event.device).then(|| Arc::clone(&device.uuid))
    }

    /// Returns the device or slice that a line of the kernel names.
    fn device_of_line(&self, line: &KernelLine) -> Option<&Device> {
        let mut whole = self.whole_devices();
        let (_, device) = whole.find(|(_, device)| device.has_pci_id(&line.pci))?;
        if line.gpu_instance.is_none() {
            return Some(device);
        }
        let mut slices = self.slices(device).filter(|(_, slice)| {
            let statics = slice.statics.as_ref();
            statics.and_then(|statics| statics.gpu_instance.get()) == line.gpu_instance
        });
        match (slices.next(), slices.next()) {
            (Some((_, slice)), None) => Some(slice),
            _ => Some(device),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gtop_local::time::Timestamp;
    use gtop_model::{DeviceStatics, Event, EventKind, NodeName, Reading, Source};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_micros(1_000_000_000 + millis * 1000)
    }

    fn of_driver(millis: i64, count: u64) -> Event {
        Event {
            at: at(millis),
            source: Source::new("nvml"),
            kind: EventKind::Xid,
            device: "GPU-0".into(),
            code: Some(31),
            message: "".into(),
            count,
            line: None,
        }
    }

    fn of_kernel(millis: i64, number: u64) -> Event {
        let line = KernelLine {
            at: at(millis),
            number,
            first_number: number,
            first_at: at(millis),
            pci: "0000:3b:00.0".into(),
            gpu_instance: None,
            pid: Some(7),
            process: "python".into(),
            words: "MMU Fault".into(),
        };
        let source = Source::new("kernel");
        Event {
            source,
            device: Arc::clone(&line.pci),
            line: Some(line.into()),
            ..of_driver(millis, 1)
        }
    }

    fn node(devices: &[(&str, &str)]) -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        let device = |(uuid, pci): &(&str, &str)| Device {
            uuid: (*uuid).into(),
            pci: Reading::Known((*pci).into()),
            ..Device::default()
        };
        node.devices = devices.iter().map(device).collect();
        node
    }

    /// Returns device, count, lines and time after the start of each record of a node with these events.
    fn records(events: impl IntoIterator<Item = Event>) -> Vec<(String, u64, usize, i64)> {
        let mut node = node(&[("GPU-0", "00000000:3B:00.0")]);
        for event in events {
            node.record_event(event);
            node.place_kernel_events();
        }
        let told = |record: &EventRecord| {
            let millis = i64::try_from(record.event.at.since(at(0)).as_millis()).unwrap();
            (record.event.device.to_string(), record.count, record.lines.len(), millis)
        };
        node.events.iter().map(told).collect()
    }

    fn of_gpu(count: u64, lines: usize, millis: i64) -> Vec<(String, u64, usize, i64)> {
        vec![("GPU-0".to_owned(), count, lines, millis)]
    }

    #[test]
    fn what_driver_and_kernel_report_is_one_occurrence() {
        assert_eq!(records([of_driver(900, 1), of_kernel(500, 1)]), of_gpu(1, 1, 500));
        assert_eq!(records([of_kernel(500, 1), of_driver(900, 1)]), of_gpu(1, 1, 500));
        let storm = (0..50).map(|number| of_kernel(number, number.unsigned_abs()));
        assert_eq!(records(storm.clone().chain([of_driver(900, 50)])), of_gpu(50, 8, 49));
        assert_eq!(records([of_driver(900, 50)].into_iter().chain(storm)), of_gpu(50, 8, 49));
        // One of both has missed some.
        assert_eq!(
            records([of_kernel(1, 1), of_driver(900, 3), of_kernel(950, 2)]),
            of_gpu(3, 2, 950)
        );
        // They are different ones.
        assert_eq!(records([of_kernel(1, 1), of_driver(900_000, 1)]), of_gpu(2, 1, 900_000));
        assert_eq!(records([of_driver(900_000, 1), of_kernel(1, 1)]), of_gpu(2, 1, 900_000));
        assert_eq!(records([of_driver(1, 1), of_driver(2, 1)]), of_gpu(2, 0, 2));
    }

    #[test]
    fn what_the_kernel_logged_goes_to_a_device_once_it_is_listed() {
        let mut node = node(&[]);
        node.record_event(of_kernel(1, 1));
        node.place_kernel_events();
        assert!(node.events[0].is_of_unlisted_device());
        assert_eq!(&*node.events[0].event.device, "0000:3b:00.0");
        node.record_event(of_driver(900, 1));
        node.devices = self::node(&[("GPU-1", "0000:3A:00.0"), ("GPU-0", "0:3b:00.0")]).devices;
        node.place_kernel_events();
        assert_eq!((node.events.len(), node.events[0].count), (1, 1));
        assert_eq!(&*node.events[0].event.device, "GPU-0");
        assert!(!node.events[0].is_of_unlisted_device());
    }

    #[test]
    fn a_line_of_a_slice_goes_to_the_slice_if_there_is_one_such() {
        let found = |instances: &[u32], wanted| {
            let mut node = node(&[("GPU-0", "0000:3b:00.0")]);
            for (number, instance) in instances.iter().enumerate() {
                let gpu_instance = Reading::Known(*instance);
                let statics = DeviceStatics { gpu_instance, ..DeviceStatics::default() };
                node.devices.push(Device {
                    uuid: format!("MIG-{number}").into(),
                    parent: Some("GPU-0".into()),
                    statics: Some(statics.into()),
                    ..Device::default()
                });
            }
            let event = of_kernel(1, 1);
            let line =
                KernelLine { gpu_instance: wanted, ..KernelLine::clone(&event.line.unwrap()) };
            node.device_of_line(&line).unwrap().uuid.to_string()
        };
        assert_eq!(found(&[3, 5], Some(5)), "MIG-1");
        assert_eq!(found(&[5, 5], Some(5)), "GPU-0");
        assert_eq!(found(&[3], Some(5)), "GPU-0");
        assert_eq!(found(&[3], None), "GPU-0");
    }
}

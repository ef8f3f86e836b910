//! What all samples of a session amount to: one complete sample with the newest value of each key.

use std::collections::BTreeMap;

use crate::wire::body::{Backend, Device, Hello, Host, HostSlow, Processes, Sample, Use, Uses};
use crate::wire::raw::{Changes as _, OptionalKey as _};

/// The newest value of each key that a probe has sent. Readings keep the time of the probe at which they were taken.
#[derive(Debug, Default)]
pub(crate) struct MergedSample(Option<Box<Sample>>);

impl MergedSample {
    /// Returns the complete sample; `None` before the first one.
    pub(crate) fn sample(&self) -> Option<&Sample> {
        self.0.as_deref()
    }

    /// Returns the sample itself.
    pub(crate) fn into_sample(self) -> Option<Sample> {
        self.0.map(|sample| *sample)
    }

    /// Adds a sample.
    pub(crate) fn add(&mut self, newer: Sample) {
        let Some(known) = &mut self.0 else {
            let mut first = Box::new(newer);
            for uses in first.backends.iter_mut().filter_map(|backend| backend.uses.as_mut()) {
                name_devices(uses);
            }
            self.0 = Some(first);
            return;
        };
        (known.n, known.at, known.took) = (newer.n, newer.at, newer.took);
        known.full |= newer.full;
        merge(&mut known.host, newer.host, update_host);
        merge(&mut known.host_slow, newer.host_slow, update_host_slow);
        for backend in newer.backends {
            match known.backends.iter_mut().find(|before| before.kind == backend.kind) {
                Some(before) => update_backend(before, backend),
                None => known.backends.push(backend),
            }
        }
        merge(&mut known.processes, newer.processes, update_processes);
        known.shares = newer.shares.or_else(|| known.shares.take());
        known.evidence = newer.evidence.or_else(|| known.evidence.take());
        known.cost = newer.cost.or(known.cost);
    }

    /// Removes the backends that a new hello no longer announces.
    pub(crate) fn on_hello(&mut self, hello: &Hello) {
        if let Some(known) = &mut self.0 {
            known.backends.retain(|backend| hello.intervals.contains_key(&backend.kind));
        }
    }
}

fn merge<T>(known: &mut Option<T>, newer: Option<T>, update: fn(&mut T, T)) {
    match (known.as_mut(), newer) {
        (Some(known), Some(newer)) => update(known, newer),
        (None, newer) => *known = newer,
        (Some(_), None) => {}
    }
}

fn update_host(known: &mut Host, newer: Host) {
    known.at = newer.at;
    known.cpu.update(newer.cpu);
    known.load.update(newer.load);
    known.memory_total.update(newer.memory_total);
    known.memory_available.update(newer.memory_available);
    known.memory_cached.update(newer.memory_cached);
    known.memory_buffers.update(newer.memory_buffers);
    known.swap_total.update(newer.swap_total);
    known.swap_free.update(newer.swap_free);
    known.pressure.update(newer.pressure);
    known.uptime.update(newer.uptime);
    // A list that is left out is empty.
    (known.net, known.infiniband, known.disk) = (newer.net, newer.infiniband, newer.disk);
}

fn update_host_slow(known: &mut HostSlow, newer: HostSlow) {
    known.at = newer.at;
    known.temperature.update(newer.temperature);
    known.space.update(newer.space);
}

fn update_backend(known: &mut Backend, newer: Backend) {
    known.at = newer.at;
    known.slow.update(newer.slow);
    known.csv.update(newer.csv);
    known.more.update(newer.more);
    known.mig.update(newer.mig);
    known.minors.update(newer.minors);
    known.apps.update(newer.apps);
    merge(&mut known.devices, newer.devices, update_devices);
    merge(&mut known.uses, newer.uses, update_uses);
}

/// Takes the order and number of the newer devices, and the values that they leave out from the known ones.
fn update_devices(known: &mut Vec<Device>, newer: Vec<Device>) {
    let mut before = std::mem::replace(known, newer);
    for device in known {
        if let Some(index) = before.iter().position(|known| known.uuid == device.uuid) {
            let mut merged = before.swap_remove(index);
            update_device(&mut merged, std::mem::take(device));
            *device = merged;
        }
    }
}

fn update_device(known: &mut Device, mut newer: Device) {
    if newer.fault.is_some() {
        // The readings of a lost device no longer hold; its identity stays.
        let Device { uuid, parent, index, name, pci, statics, .. } = std::mem::take(known);
        *known = Device { uuid, parent, index, name, pci, statics, ..Device::default() };
    }
    known.lacks.append(&mut newer.lacks);
    known.fault = newer.fault.take();
    match (&mut known.tpu, newer.tpu.take()) {
        (Some(known), Some(newer)) => known.update(*newer),
        (known, newer) => known.update(newer),
    }
    known.update(newer);
}

fn update_uses(known: &mut Uses, mut newer: Uses) {
    name_devices(&mut newer);
    let mut before: BTreeMap<(String, u32), Use> =
        known.list.drain(..).map(|used| ((used.device.clone(), used.pid), used)).collect();
    (known.at, known.nameless) = (newer.at, newer.nameless);
    known.list = newer.list;
    for used in &mut known.list {
        if let Some(mut merged) = before.remove(&(used.device.clone(), used.pid)) {
            merged.lacks.append(&mut used.lacks);
            merged.update(std::mem::take(used));
            *used = merged;
        }
    }
}

/// Fills in the devices that are left out because they are those of the entry before.
fn name_devices(uses: &mut Uses) {
    let mut device = String::new();
    for used in &mut uses.list {
        if used.device.is_empty() {
            used.device.clone_from(&device);
        } else {
            device.clone_from(&used.device);
        }
    }
}

fn update_processes(known: &mut Processes, newer: Processes) {
    let mut before: BTreeMap<(u32, u64), _> =
        known.list.drain(..).map(|process| ((process.pid, process.start), process)).collect();
    known.at = newer.at;
    known.unseen = newer.unseen;
    known.list = newer.list;
    for process in &mut known.list {
        if let Some(mut merged) = before.remove(&(process.pid, process.start)) {
            merged.update(std::mem::take(process));
            *process = merged;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(samples: &[&str]) -> serde_json::Value {
        let mut merged = MergedSample::default();
        for text in samples {
            merged.add(serde_json::from_str(text).unwrap());
        }
        serde_json::to_value(merged.sample().unwrap()).unwrap()
    }

    #[test]
    fn the_newest_value_of_each_key_is_kept() {
        let both = merged(&[
            r#"{"n":1,"at":1,"full":true,
                "host":{"at":1,"cpu":[1,1,1,1,1,1,1,1],"memory_total":5,"net":[{"name":"e","rx":1,"tx":1}]},
                "backends":[{"kind":"nvml","at":1,"devices":[
                    {"uuid":"a","util":5,"memory_used":7,"driver":"5","energy":1,"lacks":{"fan":"no"},"fan":null},
                    {"uuid":"b","util":1}],
                  "uses":{"at":1,"list":[{"device":"a","pid":1,"memory":9},{"pid":2,"memory":3},{"device":"b","pid":1}]}}],
                "processes":{"at":1,"list":[{"pid":1,"start":2,"cpu":3,"user":"u"},{"pid":3,"start":1}]}}"#,
            r#"{"n":2,"at":2,"host":{"at":2,"cpu":[2,2,2,2,2,2,2,2],"net":[{"name":"e","rx":2,"tx":2}]},
                "host_slow":{"at":2,"temperature":40},
                "backends":[{"kind":"nvml","at":2,"devices":[{"uuid":"b"},{"uuid":"a","util":6,"energy":2}],
                  "uses":{"at":2,"list":[{"device":"a","pid":2},{"pid":1,"sm":4}]}}],
                "processes":{"at":2,"list":[{"pid":1,"start":2,"cpu":4},{"pid":3,"start":9}]}}"#,
        ]);
        let expected: serde_json::Value = serde_json::from_str(
            r#"{"n":2,"at":2.0,"full":true,
                "host":{"at":2.0,"cpu":[2,2,2,2,2,2,2,2],"memory_total":5,"net":[{"name":"e","rx":2,"tx":2}]},
                "host_slow":{"at":2.0,"temperature":40.0},
                "backends":[{"kind":"nvml","at":2.0,"devices":[
                    {"uuid":"b","util":1.0},
                    {"uuid":"a","util":6.0,"memory_used":7,"driver":"5","energy":2,"lacks":{"fan":"no"},"fan":null}],
                  "uses":{"at":2.0,"list":[{"device":"a","pid":2,"memory":3},{"device":"a","pid":1,"memory":9,"sm":4.0}]}}],
                "processes":{"at":2.0,"list":[{"pid":1,"start":2,"cpu":4,"user":"u"},{"pid":3,"start":9}]}}"#,
        )
        .unwrap();
        assert_eq!(both, expected);
    }

    #[test]
    fn the_newest_evidence_is_repeated_whole() {
        let first = r#"{"n":1,"at":1,"evidence":{"node":"n1","jobs":{"7":[0]}}}"#;
        let both = merged(&[first, r#"{"n":2,"at":2}"#]);
        assert_eq!(both["evidence"], serde_json::json!({"node": "n1", "jobs": {"7": [0]}}));
        let newer = merged(&[first, r#"{"n":2,"at":2,"evidence":{"node":"n1"}}"#]);
        assert_eq!(newer["evidence"], serde_json::json!({"node": "n1"}));
    }

    #[test]
    fn a_fault_ends_with_the_next_reading_and_backends_with_their_announcement() {
        let sample = |device: &str| {
            format!(r#"{{"at":1,"backends":[{{"kind":"nvml","at":1,"devices":[{device}]}}]}}"#)
        };
        let lost = sample(r#"{"uuid":"a","fault":"lost"}"#);
        let back = sample(r#"{"uuid":"a","util":1}"#);
        let device = |samples: &[&str]| merged(samples)["backends"][0]["devices"][0].clone();
        let lost_device = device(&[&back, &lost]);
        assert_eq!((&lost_device["fault"], &lost_device["util"]), (&"lost".into(), &().into()));
        assert_eq!(device(&[&lost, &back])["fault"], serde_json::Value::Null);
        let mut merged = MergedSample::default();
        merged.add(serde_json::from_str(&back).unwrap());
        merged.on_hello(&Hello::default());
        assert!(merged.sample().unwrap().backends.is_empty());
    }
}

//! How a scheduler's list of devices is made: what its files and rules say that an index means.

use std::sync::Arc;

use crate::node::Node;
use crate::placing::device_map::{MAX_UNITS, Meant, UnitSet};
use gtop_model::{
    Device, DeviceConfig, DeviceEvidence, DeviceOrder, DeviceType, ListedDevice, NumberingRule,
    Reading, Vendor,
};

/// The devices of a node as a scheduler's list counts them: those without slices, and slices, in the driver's order.
#[derive(Debug)]
pub(super) struct NodeUnits<'a> {
    pub(super) node: &'a Node,
    pub(super) devices: Vec<&'a Device>,
    /// How the scheduler numbers them.
    rule: &'a NumberingRule,
}

impl<'a> NodeUnits<'a> {
    pub(super) fn of(node: &'a Node, rule: &'a NumberingRule) -> Self {
        let is_unit = |device: &&Device| {
            device.gone_since().is_none() && (device.parent.is_some() || !node.has_slices(device))
        };
        Self { node, devices: node.devices.iter().filter(is_unit).collect(), rule }
    }

    pub(super) fn len(&self) -> usize {
        self.devices.len()
    }

    /// Returns the unit with this UUID.
    pub(super) fn position(&self, uuid: &str) -> Option<usize> {
        self.devices.iter().position(|device| *device.uuid == *uuid)
    }

    /// Returns all units.
    pub(super) fn all(&self) -> UnitSet {
        (0..self.len()).fold(0, |units, unit| units | bit(unit))
    }

    /// Returns the UUIDs of units.
    pub(super) fn uuids(&self, units: UnitSet) -> impl Iterator<Item = &'a Arc<str>> {
        let devices = self.devices.iter().enumerate();
        devices.filter(move |(unit, _)| units & bit(*unit) != 0).map(|(_, device)| &device.uuid)
    }

    /// Returns the units on devices with these minor numbers.
    pub(super) fn on_minors(&self, minors: &[u32]) -> UnitSet {
        let is_on = |device: &Device| self.minor(device).is_some_and(|one| minors.contains(&one));
        self.matching(is_on)
    }

    /// Returns the units that a UUID names as CUDA reads it: one of them, or the only one that begins so.
    pub(super) fn named(&self, name: &str) -> UnitSet {
        if let Some(unit) = self.position(name) {
            return bit(unit);
        }
        let found = self.matching(|device| name.len() > 4 && device.uuid.starts_with(name));
        if found.is_power_of_two() { found } else { 0 }
    }

    fn matching(&self, matches: impl Fn(&Device) -> bool) -> UnitSet {
        let devices = self.devices.iter().enumerate();
        devices.filter(|(_, device)| matches(device)).fold(0, |units, (unit, _)| units | bit(unit))
    }

    /// Returns the devices that are no slices, as the driver lists them.
    fn listed_devices(&self) -> impl Iterator<Item = &'a Device> {
        let whole = self.node.whole_devices().map(|(_, device)| device);
        whole.filter(|device| device.gone_since().is_none())
    }

    /// Returns true if the driver lists no other devices, which may be hidden here or lost.
    pub(super) fn is_all_of_driver(&self) -> bool {
        let evidence = self.node.evidence.as_deref();
        let all = evidence.map_or(0, |evidence| evidence.driver_devices.len());
        all > 0 && all == self.listed_devices().count()
    }

    /// Returns true if it is not known that the driver lists others.
    pub(super) fn may_be_all(&self) -> bool {
        let evidence = self.node.evidence.as_deref();
        let is_told = evidence.is_some_and(|evidence| !evidence.driver_devices.is_empty());
        !is_told || self.is_all_of_driver()
    }

    /// Returns true if they are some of this many devices and slices of the driver, which may be hidden here.
    pub(super) fn are_some_of(&self, count: usize) -> bool {
        let units = |known: &DeviceEvidence| {
            let is_cut = |minor| known.capabilities.iter().any(|one| one.minor == minor);
            let whole = known.driver_devices.iter().filter(|device| !is_cut(device.minor)).count();
            let slices = known.capabilities.iter().filter(|one| one.compute_instance.is_some());
            whole + slices.count()
        };
        self.node.evidence.as_deref().is_some_and(|known| units(known) == count)
    }

    /// Returns true if some of them are slices.
    pub(super) fn has_slices(&self) -> bool {
        self.devices.iter().any(|device| device.parent.is_some())
    }

    /// Returns the minor number of a device; of a slice, that of its device.
    fn minor(&self, device: &Device) -> Option<u32> {
        let whole = match &device.parent {
            Some(parent) => self.node.device(parent)?,
            None => device,
        };
        Reading::of(whole.statics.as_deref(), |known| known.minor).get()
    }

    /// Returns what an entry of a list means, by its device files.
    fn meant_by(&self, entry: &ListedDevice, evidence: &DeviceEvidence) -> Meant {
        let (mut minors, mut capabilities) = (Vec::new(), Vec::new());
        for file in entry.files.split(',') {
            match (capability_number(file), evidence.minor_of(file)) {
                (Some(number), _) => capabilities.push(number),
                (None, Some(minor)) => minors.push(minor),
                (None, None) => return Meant::Unknown,
            }
        }
        let [minor] = minors[..] else { return Meant::Unknown };
        if let Some(unit) = self.unit_of(minor, &capabilities, evidence) {
            return Meant::Unit(unit);
        }
        let may_be = |device: &Device| self.minor(device).is_none_or(|other| other == minor);
        if self.matching(may_be) == 0 { Meant::NotShown } else { Meant::Unknown }
    }

    /// Returns the unit on the device with this minor number; of its slices, that with these capability files.
    fn unit_of(
        &self,
        minor: u32,
        capabilities: &[u32],
        evidence: &DeviceEvidence,
    ) -> Option<usize> {
        let is_unit = |device: &Device| {
            if self.minor(device) != Some(minor) {
                return false;
            }
            let number = |read: fn(&gtop_model::DeviceStatics) -> Reading<u32>| {
                Reading::of(device.statics.as_deref(), read).get()
            };
            let [gpu_instance, compute_instance] =
                [number(|known| known.gpu_instance), number(|known| known.compute_instance)];
            let is_capability = |found: &&gtop_model::SliceCapability| {
                found.minor == minor && Some(found.gpu_instance) == gpu_instance
            };
            let of_slice = || evidence.capabilities.iter().filter(is_capability);
            let has = |instance: Option<u32>| {
                of_slice().any(|found| {
                    found.compute_instance == instance && capabilities.contains(&found.number)
                })
            };
            match (&device.parent, capabilities.is_empty()) {
                (None, is_whole) => is_whole,
                (Some(_), true) => false,
                (Some(_), false) => has(None) && (capabilities.len() < 2 || has(compute_instance)),
            }
        };
        self.devices.iter().position(|device| is_unit(device))
    }

    /// Returns what the entries of a list mean, by index; `None` if no unit is among them.
    pub(super) fn meant_by_list(
        &self,
        list: &[ListedDevice],
        evidence: &DeviceEvidence,
    ) -> Option<Vec<Meant>> {
        let meant: Vec<Meant> = list.iter().map(|entry| self.meant_by(entry, evidence)).collect();
        let mut known: Vec<usize> = meant.iter().copied().filter_map(Meant::unit).collect();
        let count = known.len();
        known.sort_unstable();
        known.dedup();
        // A file that is listed twice means nothing.
        (count > 0 && known.len() == count).then_some(meant)
    }

    /// Returns the units that the entries of a list mean, by index.
    fn of_list(
        &self,
        list: &[ListedDevice],
        evidence: &DeviceEvidence,
    ) -> Option<Vec<Option<usize>>> {
        let meant = self.meant_by_list(list, evidence)?;
        Some(meant.into_iter().map(Meant::unit).collect())
    }

    /// Returns what the indices of a list of this many devices likely mean.
    pub(super) fn likely(&self, indices: usize) -> Option<Vec<Option<usize>>> {
        // What the node will tell in a moment is not guessed before.
        if self.node.awaits_evidence() {
            return None;
        }
        let evidence = self.node.evidence.as_deref();
        let types = self.node.scheduler.as_ref().map_or(&[][..], |known| &known.device_types);
        let daemon = evidence.and_then(|evidence| evidence.daemon.list.as_deref());
        let listed = daemon.filter(|list| list.len() == indices);
        // How files of other vendors are numbered is not known.
        let is_foreign = |device: &&Device| device.vendor.get() != Some(Vendor::Nvidia);
        if self.devices.iter().all(is_foreign) {
            return self.by_number(indices);
        }
        if let Some((list, evidence)) = listed.zip(evidence) {
            return self.of_list(list, evidence);
        }
        match evidence.and_then(|evidence| Some((evidence, evidence.config.as_deref()?))) {
            Some((evidence, config)) => self.by_config(config, evidence, types, indices),
            None => self.by_number(indices),
        }
    }

    /// Returns what the indices mean by `gres.conf`.
    fn by_config(
        &self,
        config: &DeviceConfig,
        evidence: &DeviceEvidence,
        types: &[DeviceType],
        indices: usize,
    ) -> Option<Vec<Option<usize>>> {
        let configured = match &config.detection {
            None => by_type(&config.devices, types)?,
            Some(_) => config.devices.to_vec(),
        };
        let found = match config.detection.as_deref().unwrap_or("off") {
            "off" => self.of_list(&configured, evidence)?,
            detection => {
                let mut detected = if configured.is_empty() {
                    (0..self.len()).collect()
                } else {
                    self.of_list(&configured, evidence)?.into_iter().collect::<Option<Vec<_>>>()?
                };
                self.sort_detected(&mut detected, detection)?;
                detected.into_iter().map(Some).collect()
            }
        };
        (found.len() == indices).then_some(found)
    }

    /// Sorts units as a daemon does that detects them; `None` if that is not known.
    fn sort_detected(&self, units: &mut [usize], detection: &str) -> Option<()> {
        let by_minor = |unit: &usize| self.devices.get(*unit).and_then(|device| self.minor(device));
        match self.rule.order(detection, self.has_slices(), self.version())? {
            DeviceOrder::DeviceFile => units.sort_by_key(by_minor),
            DeviceOrder::Driver => units.sort_unstable(),
            DeviceOrder::PlaceOnCard => {
                units.sort_by_key(|unit| (self.place_on_card(*unit), *unit));
            }
            DeviceOrder::SlicesLast => {
                let is_slice = |unit: &usize| {
                    self.devices.get(*unit).is_some_and(|device| device.parent.is_some())
                };
                let capability = |unit: &usize| self.capability(*unit);
                if units.iter().any(|unit| is_slice(unit) && capability(unit).is_none()) {
                    return None;
                }
                units.sort_by_key(|unit| {
                    let place = is_slice(unit).then(|| (by_minor(unit), capability(unit)));
                    (is_slice(unit), place, *unit)
                });
            }
        }
        Some(())
    }

    /// Returns the number of a slice's capability file.
    fn capability(&self, unit: usize) -> Option<u32> {
        let device = self.devices.get(unit)?;
        let instance = Reading::of(device.statics.as_deref(), |known| known.gpu_instance).get()?;
        let minor = self.minor(device)?;
        let found = self.node.evidence.as_deref()?.capabilities.iter().find(|known| {
            (known.minor, known.gpu_instance, known.compute_instance) == (minor, instance, None)
        });
        found.map(|known| known.number)
    }

    /// Returns the position of a slice among those of its device; of a device without slices, its own among all devices.
    fn place_on_card(&self, unit: usize) -> usize {
        let Some(device) = self.devices.get(unit) else { return 0 };
        match &device.parent {
            Some(parent) => {
                let before = self.devices.iter().take(unit);
                before.filter(|other| other.parent.as_ref() == Some(parent)).count()
            }
            None => self.listed_devices().take_while(|other| other.uuid != device.uuid).count(),
        }
    }

    /// Returns the version of the scheduler's daemon.
    fn version(&self) -> Option<(u32, u32, u32)> {
        let scheduler = self.node.scheduler.as_ref().and_then(|known| known.version.as_deref());
        let daemon = self.node.evidence.as_ref().and_then(|known| known.daemon.version.as_deref());
        let mut numbers = scheduler.or(daemon)?.split(['.', '-']).map(str::parse::<u32>);
        let mut next = || numbers.next()?.ok();
        Some((next()?, next()?, next().unwrap_or_default()))
    }

    /// Returns what the indices mean where nothing is known of the list: with device files numbered without a gap, in the
    /// driver's order, the number of the file; for other vendors the driver's order.
    fn by_number(&self, indices: usize) -> Option<Vec<Option<usize>>> {
        if self.has_slices() || self.len() != indices {
            return None;
        }
        let is_numbered = self.devices.iter().zip(0..).all(|(device, number)| {
            device.vendor.get() != Some(Vendor::Nvidia) || self.minor(device) == Some(number)
        });
        is_numbered.then(|| (0..indices).map(Some).collect())
    }
}

/// Returns configured devices in the order in which the scheduler is told of their types; `None` if their types are several
/// and it is told of as many without their names.
fn by_type(devices: &[ListedDevice], types: &[DeviceType]) -> Option<Vec<ListedDevice>> {
    let named: Vec<&Arc<str>> = types.iter().filter_map(|known| known.name.as_ref()).collect();
    let has_several = devices.windows(2).any(|pair| match pair {
        [one, other] => one.kind != other.kind,
        _ => false,
    });
    if has_several && types.len() > 1 && named.is_empty() {
        return None;
    }
    let place = |device: &ListedDevice| {
        let kind = device.kind.as_ref();
        kind.and_then(|kind| named.iter().position(|name| **name == *kind)).unwrap_or(named.len())
    };
    let mut sorted = devices.to_vec();
    sorted.sort_by_key(place);
    Some(sorted)
}

/// Returns the bit of a unit; none beyond [`MAX_UNITS`].
pub(super) fn bit(unit: usize) -> UnitSet {
    if unit < MAX_UNITS { 1 << unit } else { 0 }
}

/// Returns the number of a capability file: 12 for `/dev/nvidia-caps/nvidia-cap12`.
fn capability_number(path: &str) -> Option<u32> {
    path.strip_prefix("/dev/nvidia-caps/nvidia-cap")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placing::examples::nvidia_node;
    use gtop_local::time::Timestamp;
    use gtop_model::{DeviceFault, SchedulerProfile};

    #[test]
    fn a_device_that_is_gone_is_none_of_the_units() {
        let mut node = nvidia_node(&[("a", Some(0)), ("b", Some(1)), ("c", Some(2))]);
        let rule = &SchedulerProfile::example().numbering;
        assert_eq!(NodeUnits::of(&node, rule).position("c"), Some(2));
        node.devices[1].fault = Some(DeviceFault::Gone(Timestamp::default()));
        let units = NodeUnits::of(&node, rule);
        assert_eq!((units.len(), units.position("b"), units.position("c")), (2, None, Some(1)));
    }

    #[test]
    fn the_beginning_of_a_uuid_names_a_device_if_it_tells_it_from_others() {
        let node = nvidia_node(&[("GPU-1a", Some(0)), ("GPU-1b", Some(1))]);
        let rule = &SchedulerProfile::example().numbering;
        let units = NodeUnits::of(&node, rule);
        let named = ["GPU-1b", "GPU-1", "GPU-", "MIG-1"].map(|name| units.named(name));
        assert_eq!(named, [bit(1), 0, 0, 0]);
        let single = nvidia_node(&[("GPU-1a", Some(0))]);
        let units = NodeUnits::of(&single, rule);
        assert_eq!(["GPU-1", "GPU-"].map(|name| units.named(name)), [bit(0), 0]);
    }
}

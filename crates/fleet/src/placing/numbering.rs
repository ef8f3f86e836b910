//! How a scheduler's list of devices is made: what its files and rules say that an index means.

use std::sync::Arc;

use crate::node::Node;
use crate::placing::device_map::{MAX_UNITS, Meant, UnitSet, union};
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
        let listed = node.devices.iter().filter(|device| !device.is_gone());
        let units = listed.filter(|device| device.parent.is_some() || !node.has_slices(device));
        Self { node, devices: units.collect(), rule }
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
        union((0..self.len()).map(bit))
    }

    /// Returns the UUIDs of units.
    pub(super) fn uuids(&self, units: UnitSet) -> impl Iterator<Item = &'a Arc<str>> {
        let devices = self.devices.iter().enumerate();
        devices.filter(move |(unit, _)| units & bit(*unit) != 0).map(|(_, device)| &device.uuid)
    }

    /// Returns the units on devices with these minor numbers.
    pub(super) fn on_minors(&self, minors: &[u32]) -> UnitSet {
        self.matching(|device| self.minor(device).is_some_and(|minor| minors.contains(&minor)))
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
        union(devices.filter(|(_, device)| matches(device)).map(|(unit, _)| bit(unit)))
    }

    /// Returns the devices that are no slices, as the driver lists them.
    fn listed_devices(&self) -> impl Iterator<Item = &'a Device> {
        let whole = self.node.whole_devices().map(|(_, device)| device);
        whole.filter(|device| !device.is_gone())
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
        let Some(evidence) = self.node.evidence.as_deref() else { return false };
        let capabilities = &evidence.capabilities;
        let whole = evidence
            .driver_devices
            .iter()
            .filter(|device| capabilities.iter().all(|slice| slice.minor != device.minor));
        let slices = capabilities.iter().filter(|slice| slice.compute_instance.is_some());
        whole.count() + slices.count() == count
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
        let possible = self.matching(|device| self.minor(device).is_none_or(|own| own == minor));
        if possible == 0 { Meant::NotShown } else { Meant::Unknown }
    }

    /// Returns the unit on the device with this minor number; of its slices, that with these capability files.
    fn unit_of(
        &self,
        minor: u32,
        capabilities: &[u32],
        evidence: &DeviceEvidence,
    ) -> Option<usize> {
        self.devices.iter().position(|device| {
            if self.minor(device) != Some(minor) {
                return false;
            }
            if device.parent.is_none() {
                return capabilities.is_empty();
            }
            let statics = device.statics.as_deref();
            let gpu_instance = Reading::of(statics, |known| known.gpu_instance).get();
            let compute_instance = Reading::of(statics, |known| known.compute_instance).get();
            let listed = evidence.capabilities.iter().filter(|file| file.minor == minor);
            let own = listed.filter(|file| Some(file.gpu_instance) == gpu_instance);
            let instances: Vec<Option<u32>> = own
                .filter(|file| capabilities.contains(&file.number))
                .map(|file| file.compute_instance)
                .collect();
            instances.contains(&None)
                && (capabilities.len() < 2 || instances.contains(&compute_instance))
        })
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
        // What the node is about to report is not guessed.
        if self.node.awaits_evidence() {
            return None;
        }
        let evidence = self.node.evidence.as_deref();
        let types = self.node.scheduler.as_ref().map_or(&[][..], |known| &known.device_types);
        let daemon = evidence.and_then(|evidence| evidence.daemon.list.as_deref());
        let listed = daemon.filter(|list| list.len() == indices);
        // How files of other vendors are numbered is not known.
        if self.devices.iter().all(|device| device.vendor.get() != Some(Vendor::Nvidia)) {
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
        match self.rule.order(detection, self.has_slices(), self.version())? {
            DeviceOrder::DeviceFile => {
                units.sort_by_key(|unit| self.minor(self.devices.get(*unit)?));
            }
            DeviceOrder::Driver => units.sort_unstable(),
            DeviceOrder::PlaceOnCard => {
                units.sort_by_key(|unit| (self.place_on_card(*unit), *unit));
            }
            DeviceOrder::SlicesLast => {
                if units.iter().any(|unit| matches!(self.slice_files(*unit), Some((_, None)))) {
                    return None;
                }
                units.sort_by_key(|unit| (self.slice_files(*unit), *unit));
            }
        }
        Some(())
    }

    /// Returns the minor number of a slice's device and the number of its capability file; `None` if it is no slice.
    fn slice_files(&self, unit: usize) -> Option<(Option<u32>, Option<u32>)> {
        let slice = self.devices.get(unit).filter(|device| device.parent.is_some())?;
        let minor = self.minor(slice);
        let instance = Reading::of(slice.statics.as_deref(), |known| known.gpu_instance).get();
        let mut files = self.node.evidence.iter().flat_map(|known| known.capabilities.iter());
        let file = files.find(|file| {
            (Some(file.minor), Some(file.gpu_instance), file.compute_instance)
                == (minor, instance, None)
        });
        Some((minor, file.map(|file| file.number)))
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
        let mut numbers = scheduler.or(daemon)?.split(['.', '-']).map(|part| part.parse().ok());
        Some((numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or_default()))
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

/// Returns configured devices in the order in which the scheduler knows their types; `None` if they have several types
/// and it knows as many without their names.
fn by_type(devices: &[ListedDevice], types: &[DeviceType]) -> Option<Vec<ListedDevice>> {
    let named: Vec<&Arc<str>> = types.iter().filter_map(|known| known.name.as_ref()).collect();
    let mut pairs = devices.iter().zip(devices.iter().skip(1));
    let has_several = pairs.any(|(device, next)| device.kind != next.kind);
    if has_several && types.len() > 1 && named.is_empty() {
        return None;
    }
    let mut sorted = devices.to_vec();
    sorted.sort_by_key(|device| {
        let place = named.iter().position(|name| device.kind.as_ref() == Some(*name));
        place.unwrap_or(named.len())
    });
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

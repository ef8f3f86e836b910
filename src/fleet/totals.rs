//! Sums and means over nodes that are fresh, and over no others.

use crate::fleet::Fleet;
use crate::fleet::idle::{Given, is_busy, is_idle_held, is_in_hand};
use crate::fleet::node::Node;
use crate::model::{Bytes, Device, Percent, Watts};
use crate::time::Timestamp;

/// Totals over a group of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Nodes in the group.
    pub nodes: usize,
    /// Nodes whose numbers are fresh: the only ones in what follows.
    pub fresh: usize,
    /// Nodes that talked once and are stale now.
    pub stale: usize,
    /// Nodes without a session.
    pub down: usize,
    /// Devices of fresh nodes; slices count with their device.
    pub devices: usize,
    /// Devices at 5 % or more.
    pub busy: usize,
    /// Devices that somebody holds and that do nothing.
    pub held: usize,
    /// Devices that nobody uses, as far as that is known.
    pub free: usize,
    /// Devices the driver gives no numbers for.
    pub faulty: usize,
    /// Mean utilization of the devices that report it.
    pub utilization: Option<Percent>,
    /// Devices behind `utilization`.
    pub utilization_devices: usize,
    /// Memory in use on devices that report it.
    pub memory_used: Option<Bytes>,
    /// All memory of those devices.
    pub memory_total: Option<Bytes>,
    /// Power drawn by devices that report it.
    pub power: Option<Watts>,
    /// Limit of those devices.
    pub power_limit: Option<Watts>,
}

impl Totals {
    /// Sums up each machine of a fleet once.
    pub fn of(fleet: &Fleet, now: Timestamp) -> Self {
        Self::over(fleet.machines().map(|node| &**node), now, &Given::of(fleet))
    }

    /// Sums up some nodes.
    pub fn over<'a>(
        nodes: impl IntoIterator<Item = &'a Node>,
        now: Timestamp,
        given: &Given,
    ) -> Self {
        Self::over_parts(nodes.into_iter().map(|node| (node, None)), now, given)
    }

    /// Sums up parts of nodes: the devices at these positions, or all.
    pub fn over_parts<'a>(
        parts: impl IntoIterator<Item = (&'a Node, Option<&'a [usize]>)>,
        now: Timestamp,
        given: &Given,
    ) -> Self {
        let mut totals = Self::default();
        let mut sums = Sums::default();
        for (node, part) in parts {
            totals.nodes += 1;
            if node.fault().is_some() {
                totals.down += 1;
            } else if node.freshness(now).is_fresh() {
                totals.fresh += 1;
                totals.add(node, part, given, &mut sums);
            } else if node.taken_at().is_some() {
                totals.stale += 1;
            }
        }
        sums.close(&mut totals);
        totals
    }

    /// Sums up the devices of one node as it was last known, fresh or not.
    pub fn of_devices(node: &Node) -> Self {
        Self::of_part(node, None)
    }

    /// Sums up the devices at these positions of a node, or all, as they were last known.
    pub fn of_part(node: &Node, part: Option<&[usize]>) -> Self {
        let mut totals = Self { nodes: 1, ..Self::default() };
        let mut sums = Sums::default();
        totals.add(node, part, &Given::default(), &mut sums);
        sums.close(&mut totals);
        totals
    }

    /// Returns how many devices are neither busy, held, free nor broken, as far as anybody tells.
    pub const fn untold(&self) -> usize {
        self.devices.saturating_sub(self.busy + self.held + self.free + self.faulty)
    }

    fn add(&mut self, node: &Node, part: Option<&[usize]>, given: &Given, sums: &mut Sums) {
        let is_meant = |place: &usize| part.is_none_or(|part| part.contains(place));
        let all = node.devices.iter().enumerate().filter(|(place, _)| is_meant(place));
        for (place, device) in all.filter(|(_, device)| device.parent.is_none()) {
            self.devices += 1;
            if device.fault.is_some() {
                self.faulty += 1;
                continue;
            }
            sums.add(device);
            let is_given = given.has(node, device);
            if is_busy(device) {
                self.busy += 1;
            } else if is_idle_held(node, device, is_given) {
                self.held += 1;
            } else if !is_given
                && !is_in_hand(node, device)
                && node.why_users_unknown(place).is_none()
            {
                self.free += 1;
            }
        }
    }
}

#[derive(Default)]
struct Sums {
    utilization: f64,
    utilization_devices: usize,
    memory: Option<(u64, u64)>,
    power: Option<(f32, f32)>,
}

impl Sums {
    fn add(&mut self, device: &Device) {
        if let Some(share) = device.utilization.get() {
            self.utilization += f64::from(share.get());
            self.utilization_devices += 1;
        }
        if let (Some(used), Some(total)) = (device.memory_used.get(), device.memory_total.get()) {
            let (all_used, all) = self.memory.unwrap_or_default();
            self.memory = Some((all_used.saturating_add(used.0), all.saturating_add(total.0)));
        }
        if let (Some(drawn), Some(limit)) = (device.power.get(), device.power_limit.get()) {
            let (all_drawn, all) = self.power.unwrap_or_default();
            self.power = Some((all_drawn + drawn.get(), all + limit.get()));
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a mean of shares"
    )]
    fn close(self, totals: &mut Totals) {
        totals.utilization_devices = self.utilization_devices;
        if self.utilization_devices > 0 {
            totals.utilization =
                Percent::new((self.utilization / self.utilization_devices as f64) as f32);
        }
        if let Some((used, total)) = self.memory {
            (totals.memory_used, totals.memory_total) = (Some(Bytes(used)), Some(Bytes(total)));
        }
        // A whole fleet may draw more than one device can.
        if let Some((drawn, limit)) = self.power {
            (totals.power, totals.power_limit) = (Watts::total(drawn), Watts::total(limit));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::model::{NodeName, Reading, Reason, TpuDetails};

    #[test]
    fn a_chip_whose_holder_cannot_be_seen_is_not_counted_as_free() {
        let chip = |is_held| Device {
            uuid: "tpu-1".into(),
            tpu: Some(Arc::new(TpuDetails { is_held, ..TpuDetails::default() })),
            ..Device::default()
        };
        let counts = |device: Device| {
            let mut node = Node::new(NodeName::new("tpu01").unwrap(), Duration::ZERO);
            node.devices = vec![device];
            let totals = Totals::of_devices(&node);
            (totals.devices, totals.held, totals.free)
        };
        assert_eq!(counts(chip(Reading::Known(true))), (1, 0, 0));
        assert_eq!(counts(chip(Reading::Known(false))), (1, 0, 1));
        assert_eq!(counts(chip(Reading::Unknown(Reason::NoPermission))), (1, 0, 0));
        assert_eq!(counts(Device::default()), (1, 0, 1));
    }
}

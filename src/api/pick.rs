//! Devices for a program, chosen as `gtop pick` chooses them.

use crate::api::{Device, Fleet, Node};
use gtop_fleet::insight::pick::{self, EligibleDevice, Refused, Spread, variables};

/// Which devices a program wants.
#[derive(Clone, Debug)]
pub struct PickRequest(pick::PickRequest);

/// The devices that a program gets, and why others are not among them.
#[derive(Clone, Debug)]
pub struct Picks<'a> {
    fleet: &'a Fleet,
    picks: pick::Picks,
}

/// A device, or a whole node, that is not picked.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'a> {
    fleet: &'a Fleet,
    refused: &'a Refused,
}

impl PickRequest {
    /// Wants so many devices, of any nodes, that nobody uses or may use.
    pub fn new(count: usize) -> Self {
        Self(pick::PickRequest {
            min_count: count,
            max_count: Some(count),
            ..pick::PickRequest::default()
        })
    }

    /// Takes devices that others use, if so many bytes of their memory are free.
    #[must_use]
    pub fn min_free_memory(mut self, bytes: u64) -> Self {
        self.0.min_free_memory = Some(bytes);
        self
    }

    /// Takes devices that others use, if their utilization in percent is no higher.
    #[must_use]
    pub fn max_utilization(mut self, percent: u32) -> Self {
        self.0.max_utilization = Some(percent);
        self
    }

    /// Takes devices that work, and are slower or less reliable than they should be, after all others.
    #[must_use]
    pub fn allow_degraded(mut self) -> Self {
        self.0.allows_degraded = true;
        self
    }

    /// Takes all devices from one node.
    #[must_use]
    pub fn same_node(mut self) -> Self {
        self.0.spread = Spread::SameNode;
        self
    }
}

impl Fleet {
    /// Picks devices, the best first.
    ///
    /// Those of a scheduler's nodes are picked only if its jobs are known: those of all users, as `gtop pick` asks for.
    pub fn pick(&self, request: &PickRequest) -> Picks<'_> {
        Picks { fleet: self, picks: pick::Picks::of(&self.data, self.at, &request.0) }
    }

    fn find_device(&self, node: &str, uuid: &str) -> Option<Device<'_>> {
        self.find_node(node)?.devices().find(|device| device.uuid() == uuid)
    }

    fn find_node(&self, name: &str) -> Option<Node<'_>> {
        self.nodes().find(|node| node.node.name.as_str() == name)
    }
}

impl<'a> Picks<'a> {
    /// Returns true if there are as many devices as wanted.
    pub fn is_enough(&self) -> bool {
        self.picks.is_enough
    }

    /// Returns the devices, the best first; fewer than wanted if there are not enough.
    pub fn devices(&self) -> impl Iterator<Item = Device<'a>> {
        let picked = self.picks.picked.iter();
        picked.filter_map(|device| self.fleet.find_device(device.node.as_str(), &device.uuid))
    }

    /// Returns the variables, such as `CUDA_VISIBLE_DEVICES`, by which a program on their node sees these devices alone.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let picked: Vec<&EligibleDevice> = self.picks.picked.iter().collect();
        variables(&picked, false)
    }

    /// Returns the devices and nodes that are not picked.
    pub fn refused(&self) -> impl Iterator<Item = Refusal<'_>> {
        self.picks.refused.iter().map(|refused| Refusal { fleet: self.fleet, refused })
    }
}

impl<'a> Refusal<'a> {
    /// Returns the node.
    pub fn node(self) -> Option<Node<'a>> {
        self.fleet.find_node(self.refused.node.as_str())
    }

    /// Returns the device; `None` if it is the whole node.
    pub fn device(self) -> Option<Device<'a>> {
        self.fleet.find_device(self.refused.node.as_str(), self.refused.uuid.as_deref()?)
    }

    /// Returns why it is not picked.
    pub fn reason(self) -> &'a str {
        &self.refused.reason
    }
}

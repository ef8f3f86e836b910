//! Which devices may be picked, and why the others may not.

use std::sync::Arc;

use crate::insight::pick::held::{HeldDevices, is_own};
use crate::insight::pick::inherited::{Inherited, Place};
use crate::insight::pick::{EligibleDevice, PickRequest, Refused};
use crate::{Fleet, Health, HealthReason, Node, is_busy, is_much, memory_owner, min_unexplained};
use gtop_local::text;
use gtop_local::time::Timestamp;
use gtop_model::{
    Bytes, Device, DeviceFault, DeviceUse, Freshness, Percent, Reading, Reason, Vendor,
};

/// The devices that meet all limits, and all others.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) candidates: Vec<EligibleDevice>,
    pub(super) refused: Vec<Refused>,
    pub(super) notice: Option<String>,
}

/// What the devices of a node are eligible by.
struct NodeRules<'a> {
    node: &'a Node,
    now: Timestamp,
    request: &'a PickRequest,
    held: HeldDevices<'a>,
    /// The positions of the devices that match the filter; `None` without a filter.
    matching: Option<Vec<usize>>,
}

/// Checks every device of a fleet, in the order of nodes and devices, or of the inherited list.
pub(super) fn find_candidates(fleet: &Fleet, now: Timestamp, request: &PickRequest) -> Found {
    let inherited = request.inherited.as_ref().map(|list| Inherited::of(fleet, list));
    let (ranks, notice) = inherited.map_or((None, None), |list| (Some(list.ranks()), list.notice));
    let filter = request.filter.clone().with_jobs(fleet.jobs.as_ref());
    let mut found = Found::default();
    let mut eligible: Vec<(Place, EligibleDevice)> = Vec::new();
    for (position, node) in fleet.nodes.iter().enumerate() {
        if let Some(reason) = node_refusal(fleet, node) {
            found.refused.push(Refused::of_node(node, reason));
            continue;
        }
        let held = HeldDevices::of(fleet, node, &request.jobs);
        if let Some(reason) = closed_refusal(node, &held) {
            found.refused.push(Refused::of_node(node, reason.clone()));
            let devices = node.devices.iter();
            found.refused.extend(devices.map(|device| refused(node, device, reason.clone())));
            continue;
        }
        if let Some(reason) = held.silence() {
            found.refused.push(Refused::of_node(node, reason.to_owned()));
        }
        let matching = (!filter.is_empty()).then(|| filter.match_node(node, now).devices);
        let rules = NodeRules { node, now, request, held, matching };
        for (index, device) in node.devices.iter().enumerate() {
            let place = (position, index);
            let is_listed = ranks.as_ref().is_none_or(|ranks| ranks.contains_key(&place));
            match rules.check(index, device, is_listed) {
                Ok(candidate) => eligible.push((place, candidate)),
                Err(reason) => found.refused.push(refused(node, device, reason)),
            }
        }
    }
    if let Some(ranks) = ranks {
        eligible.sort_by_key(|(place, _)| ranks.get(place).copied());
    }
    found.notice = notice;
    found.candidates = eligible.into_iter().map(|(_, candidate)| candidate).collect();
    found
}

fn refused(node: &Node, device: &Device, reason: String) -> Refused {
    Refused::of_device(&node.name, device.index.get(), &device.uuid, reason)
}

/// Returns why no device of a node may be picked.
fn node_refusal(fleet: &Fleet, node: &Node) -> Option<String> {
    if let Some(first) = fleet.same_as.get(&node.name) {
        return Some(format!("the same machine as {first}"));
    }
    if let Some(fault) = node.fault() {
        let detail = text::excerpt_line(&fault.detail);
        let label = fault.kind.label();
        let sentence =
            if detail.is_empty() { label.to_owned() } else { format!("{label}: {detail}") };
        return Some(format!("down: {sentence}"));
    }
    if let Some(known) = node.powered_off() {
        return Some(format!("the scheduler has it {}", known.state_text()));
    }
    if node.taken_at().is_none() {
        return Some("no answer yet; a longer --deadline may help".to_owned());
    }
    let unreadable = node.hello.as_ref().map(|hello| hello.unreadable_texts()).unwrap_or_default();
    let why = if unreadable.is_empty() { "no devices".to_owned() } else { unreadable.join("; ") };
    node.devices.is_empty().then_some(why)
}

/// Returns why no device of a node may be picked to which the scheduler gives no jobs, unless one of this user runs there.
fn closed_refusal(node: &Node, held: &HeldDevices<'_>) -> Option<String> {
    let scheduler = node.scheduler.as_ref().filter(|known| !known.takes_jobs())?;
    (!held.has_own_job()).then(|| format!("the scheduler has it {}", scheduler.state_text()))
}

impl NodeRules<'_> {
    /// Returns the device with what decides its rank, or why it may not be picked.
    fn check(
        &self,
        position: usize,
        device: &Device,
        is_listed: bool,
    ) -> Result<EligibleDevice, String> {
        if let Some(reason) = self.state_refusal(position, device) {
            return Err(reason);
        }
        let vendor = usable_vendor(device)?;
        if device.parent.is_none() && self.node.is_cut(device) {
            let reason = match (device.mig.get(), self.node.has_slices(device)) {
                (Some(true), true) => "in MIG mode: its slices are picked, not the device",
                (Some(true), false) => "in MIG mode without slices: there is nothing to pick",
                _ => "partitioned: its partitions are picked, not the device",
            };
            return Err(reason.to_owned());
        }
        if !is_listed {
            return Err("not among the devices of -i".to_owned());
        }
        if self.matching.as_ref().is_some_and(|matching| !matching.contains(&position)) {
            return Err("does not match --filter".to_owned());
        }
        if self.request.reserved.contains(&*device.uuid) {
            return Err("another gtop pick has reserved it".to_owned());
        }
        if let Some(reason) = self.held.refusal(device) {
            return Err(reason);
        }
        let mut eligible = self.describe(position, device, vendor)?;
        eligible.loosened = self.check_limits(device, &eligible)?;
        Ok(eligible)
    }

    /// Returns the device with what decides its rank.
    fn describe(
        &self,
        position: usize,
        device: &Device,
        vendor: Vendor,
    ) -> Result<EligibleDevice, String> {
        let index = known("index", device.index)?;
        let (free, used) = self.memory(device)?;
        Ok(EligibleDevice {
            node: self.node.name.clone(),
            vendor,
            uuid: Arc::clone(&device.uuid),
            index,
            whole_index: self.node.whole(device).index.get().unwrap_or(index),
            is_slice: device.parent.is_some(),
            is_renumbered: self.node.devices.iter().any(|other| other.gone_since().is_some()),
            name: device.name.known().cloned(),
            free_memory: free,
            total_memory: device.memory_total.get().map(|bytes| bytes.0),
            used_memory: used,
            utilization: device.load().get().map(Percent::get),
            memory_utilization: device.memory_utilization.get().map(Percent::get),
            health: self.node.health(device),
            is_shared: !self.request.has_limits() && self.may_be_used_by_others(position, device),
            loosened: 0,
        })
    }

    /// Returns why the state of a device keeps it from being picked.
    fn state_refusal(&self, position: usize, device: &Device) -> Option<String> {
        if let Some(fault) = &device.fault {
            return Some(match fault {
                DeviceFault::Lost => "lost: the driver no longer reaches it".to_owned(),
                DeviceFault::NeedsReset => "needs a reset".to_owned(),
                DeviceFault::NoPermission => "no permission to read it".to_owned(),
                DeviceFault::Gone(_) => "gone: the driver no longer lists it".to_owned(),
                DeviceFault::Other(message) => format!("faulty: {}", text::excerpt_line(message)),
            });
        }
        match self.node.device_freshness(position, self.now) {
            Freshness::Fresh => {
                self.health_refusal(device).or_else(|| self.memory_refusal(position, device))
            }
            Freshness::Stale(age) => Some(format!("stale: sampled {} s ago", age.as_secs())),
            Freshness::Missing => Some("never sampled".to_owned()),
        }
    }

    /// Returns why a device is not sound enough to be picked.
    fn health_refusal(&self, device: &Device) -> Option<String> {
        let reasons = self.node.health_reasons(device);
        let worst = reasons.first()?;
        let text = worst.text();
        match worst.health() {
            Health::Faulty => Some(format!("faulty: {}", text::excerpt_line(&text))),
            Health::Degraded if !self.request.allows_degraded => {
                Some(format!("degraded: {text}; --allow-degraded picks it"))
            }
            Health::Unknown if *worst == HealthReason::NotRead(Reason::NotSampled) => {
                Some("its health is not known yet; a longer --deadline helps".to_owned())
            }
            // Nothing speaks against it, and it comes after those that are known to be sound.
            Health::Unknown if *worst == HealthReason::NotRead(Reason::NotOffered) => None,
            Health::Unknown if !self.request.allows_degraded => {
                Some(format!("{text}; --allow-degraded picks it"))
            }
            Health::Degraded | Health::Unknown | Health::Ok => None,
        }
    }

    /// Returns that a device has memory in use that no listed process has: a limit cannot tell it from a free one.
    fn memory_refusal(&self, position: usize, device: &Device) -> Option<String> {
        let gibibytes = memory_of_nobody(self.node, position)?.gib();
        let hidden = device.hidden_processes.get().unwrap_or(0);
        let why = if self.node.users_unknown_reason(position).is_some() {
            "which processes have it is not known".to_owned()
        } else if hidden > 0 {
            let ending = if hidden == 1 { " is" } else { "es are" };
            format!("no process that the node lists has it; {hidden} process{ending} hidden")
        } else {
            "no process that the node lists has it".to_owned()
        };
        Some(format!("{gibibytes:.1} GiB in use, and {why}"))
    }

    /// Returns true if a process is of a user whose memory counts as free.
    fn counts_as_free(&self, used: &DeviceUse) -> bool {
        let request = self.request;
        let process = self.node.process(used.pid);
        process.and_then(|process| process.statics.user.known()).is_some_and(|owner| {
            request.free_users.contains(&**owner)
                || (request.is_own_memory_free && is_own(self.node, owner))
        })
    }

    /// Returns true if a device is busy, or if processes use it whose memory does not count as free, or may.
    fn may_be_used_by_others(&self, position: usize, device: &Device) -> bool {
        let others = self.node.uses_on(device).filter(|used| !self.counts_as_free(used));
        is_much(others)
            || is_busy(device)
            || device.is_open() == Some(true)
            || device.hidden_processes.get().is_some_and(|count| count > 0)
            || self.node.users_unknown_reason(position).is_some()
    }

    /// Returns free and used memory in bytes, after that of the users whose memory counts as free.
    fn memory(&self, device: &Device) -> Result<(u64, u64), String> {
        // nvidia-smi does not report the free memory of a slice.
        let rest = device.memory_total.get().zip(device.memory_used.get());
        let rest = rest.filter(|_| device.parent.is_some());
        let free = match (device.memory_free.get(), rest) {
            (None, Some((total, used))) => total.0.saturating_sub(used.0),
            _ => known("free memory", device.memory_free)?.0,
        };
        let in_use = device.memory_used.get().map_or(0, |bytes| bytes.0);
        let uses = self.node.uses_of(&device.uuid);
        let freeable = uses.filter(|used| self.counts_as_free(used));
        let freed: u64 = freeable.filter_map(|used| used.memory.get()).map(|bytes| bytes.0).sum();
        Ok((free.saturating_add(freed), in_use.saturating_sub(freed)))
    }

    /// Returns the number of limits that only the tolerance lets a device meet, or the limit that it does not meet.
    fn check_limits(&self, device: &Device, candidate: &EligibleDevice) -> Result<u32, String> {
        let mut loosened = 0;
        let request = self.request;
        let tolerance = f64::from(request.tolerance) / 100.0;
        let total = device.memory_total;
        let memory = [
            ("free memory", request.min_free_memory, Reading::Known(Bytes(candidate.free_memory))),
            ("total memory", request.min_total_memory, total),
        ];
        for (what, limit, reading) in memory {
            let Some(limit) = limit else { continue };
            let bytes = known(what, reading)?.0;
            if as_float(bytes) < as_float(limit) * (1.0 - tolerance) {
                return Err(format!("{what} is {}, below {}", mebibytes(bytes), mebibytes(limit)));
            }
            loosened += u32::from(bytes < limit);
        }
        let shares = [
            ("utilization", request.max_utilization, device.load()),
            ("memory utilization", request.max_memory_utilization, device.memory_utilization),
        ];
        for (what, limit, reading) in shares {
            let Some(limit) = limit.map(f64::from) else { continue };
            let share = f64::from(known(what, reading)?.get());
            if share > limit + 100.0 * tolerance {
                return Err(format!("{what} is {share} %, above {limit} %"));
            }
            loosened += u32::from(share > limit);
        }
        Ok(loosened)
    }
}

/// Returns the memory in use of the device at this position that no listed process has, unless listed ones have as much:
/// programs need a little more than the driver reports. A device with slices has none of its own.
///
/// Processes that are not listed, because they have no pid or because the list is refused, explain nothing.
pub fn memory_of_nobody(node: &Node, position: usize) -> Option<Bytes> {
    let device = node.devices.get(position)?;
    node.process_list(node.device_sources.get(position)?)?;
    // Most of the memory of a host belongs to processes that use no device.
    if node.is_cut(device) || device.has_host_memory {
        return None;
    }
    let device = memory_owner(node, device);
    let is_complete =
        device.nameless_processes == 0 && node.users_unknown_reason(position).is_none();
    let mut listed = 0_u64;
    for used in node.uses_on(device) {
        match used.memory.get() {
            Some(memory) => listed = listed.saturating_add(memory.0),
            // All that is in use may be of this process.
            None if is_complete => return None,
            None => {}
        }
    }
    let unexplained = memory_in_use(device)?.saturating_sub(listed);
    (unexplained >= min_unexplained(device) && listed < unexplained).then_some(Bytes(unexplained))
}

/// Returns how many bytes of a device are in use.
fn memory_in_use(device: &Device) -> Option<u64> {
    let total_and_free = device.memory_total.get().zip(device.memory_free.get());
    let rest = total_and_free.map(|(total, free)| total.0.saturating_sub(free.0));
    device.memory_used.get().map(|used| used.0).or(rest)
}

/// Returns the vendor if its devices can be picked.
fn usable_vendor(device: &Device) -> Result<Vendor, String> {
    match known("vendor", device.vendor)? {
        Vendor::Google => {
            Err("TPU chips are not picked: which chips a program may use depends on their topology"
                .to_owned())
        }
        // That of a partition may be made of its card's.
        Vendor::Amd if !device.uuid.starts_with("GPU-") || device.uuid.contains('/') => {
            Err("it has no unique id by which ROCR_VISIBLE_DEVICES could name it".to_owned())
        }
        // The list is meant for a shell.
        Vendor::Nvidia | Vendor::Amd if !is_plain(&device.uuid) => {
            Err("its UUID has unusual characters".to_owned())
        }
        vendor @ (Vendor::Nvidia | Vendor::Amd) => Ok(vendor),
    }
}

fn is_plain(uuid: &str) -> bool {
    uuid.chars().all(|letter| letter.is_ascii_alphanumeric() || "-/:._".contains(letter))
}

/// Returns a value, or that it is unknown.
fn known<T: Copy>(what: &str, reading: Reading<T>) -> Result<T, String> {
    match reading {
        Reading::Known(value) => Ok(value),
        Reading::Unknown(reason) => Err(format!("{what} is unknown: {}", reason.text())),
    }
}

#[expect(clippy::cast_precision_loss, reason = "no device has 2^53 bytes")]
fn as_float(bytes: u64) -> f64 {
    bytes as f64
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

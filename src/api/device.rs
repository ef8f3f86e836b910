//! Devices: their values, how sound they are, who has them, and the processes on them.

use std::fmt;

use crate::api::{Device, Node, Unknown, Value};
use gtop_fleet::metrics::{DeviceMetric, ProcessMetric, Usage};
use gtop_fleet::{Certainty, Claim, DeviceState, Health, StateReason};
use gtop_model::{JobId, Source};

/// Why a device is in its state, or not sound.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reason {
    /// Its name, which never changes.
    pub id: &'static str,
    /// It as a sentence.
    pub text: String,
}

/// Somebody who has a device.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a>(&'a Claim);

/// A process on a device.
#[derive(Clone)]
pub struct Process<'a> {
    device: Device<'a>,
    usage: Usage,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Process<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Process").field(&self.pid()).finish()
    }
}

impl<'a> Device<'a> {
    /// Returns the node it is in.
    pub fn node(self) -> Node<'a> {
        self.node
    }

    /// Returns the index that the driver gives it; of a slice, that among the slices of its device.
    pub fn index(self) -> Option<u32> {
        self.readings.index.get()
    }

    /// Returns the UUID; that of a TPU chip is unique on its node only.
    pub fn uuid(self) -> &'a str {
        &self.readings.uuid
    }

    /// Returns the device that a slice is part of.
    pub fn parent(self) -> Option<Self> {
        let parent = self.readings.parent.as_deref()?;
        self.node.devices().find(|device| device.uuid() == parent)
    }

    /// Returns true if its values are at most a few sampling intervals old.
    pub fn is_fresh(self) -> bool {
        self.freshness().is_ok()
    }

    fn freshness(self) -> Result<(), Unknown> {
        let now = self.node.fleet.at;
        Unknown::of_freshness(self.node.node.device_freshness(self.position, now))
    }

    /// Returns a value.
    ///
    /// # Errors
    ///
    /// If it is not known, or old.
    pub fn value(self, metric: DeviceMetric) -> Result<Value, Unknown> {
        self.freshness()?;
        let unsampled = self.node.node.unsampled_reason(self.position, Source::slow);
        Value::of(metric.reader()(self.readings), unsampled)
    }

    /// Returns the number of a metric; `None` if it is unknown or old, or no number.
    pub fn number(self, metric: DeviceMetric) -> Option<f64> {
        self.value(metric).ok()?.number()
    }

    /// Returns the text of a metric; `None` if it is unknown or old, or no text.
    pub fn text(self, metric: DeviceMetric) -> Option<String> {
        self.value(metric).ok()?.text().map(str::to_owned)
    }

    /// Returns whether a metric is on; `None` if it is unknown or old, or neither on nor off.
    pub fn flag(self, metric: DeviceMetric) -> Option<bool> {
        self.value(metric).ok()?.flag()
    }

    /// Returns what it counts as, such as busy or free; `None` if its slices count instead.
    pub fn state(self) -> Option<DeviceState> {
        DeviceState::of(self.node.node, self.position, self.node.fleet.at)
    }

    /// Returns why it is not free, or not known to be; `None` if it is busy, free, faulty or stale.
    pub fn state_reason(self) -> Option<Reason> {
        let reason = StateReason::of(self.node.node, self.position, self.node.fleet.at)?;
        Some(Reason { id: reason.id(), text: reason.text().to_owned() })
    }

    /// Returns how sound it is.
    pub fn health(self) -> Health {
        self.node.node.health(self.readings)
    }

    /// Returns why it is not sound, the worst first.
    pub fn health_reasons(self) -> impl Iterator<Item = Reason> {
        let reasons = self.node.node.health_reasons(self.readings).iter();
        reasons.map(|reason| Reason { id: reason.id(), text: reason.text() })
    }

    /// Returns who has it: jobs of the scheduler first, then others whose processes use it.
    pub fn holders(self) -> impl Iterator<Item = Holder<'a>> {
        self.node.node.holdings.device(&self.readings.uuid).claims.iter().map(Holder)
    }

    /// Returns how sure it is that nobody else has it. It is nobody's if that is certain and it has no holders.
    pub fn no_other_holder(self) -> Certainty {
        self.node.node.holdings.device(&self.readings.uuid).rest
    }

    /// Returns the processes on it.
    ///
    /// # Errors
    ///
    /// If they are not known, or were read too long ago.
    pub fn processes(self) -> Result<Vec<Process<'a>>, Unknown> {
        let node = self.node.node;
        Unknown::of_freshness(node.process_freshness(self.position, self.node.fleet.at))?;
        if let Some(reason) = node.users_unknown_reason(self.position) {
            return Err(Unknown::Absent(reason.text()));
        }
        let usages = Usage::of(node, self.readings);
        Ok(usages.map(|usage| Process { device: self, usage }).collect())
    }
}

impl<'a> Holder<'a> {
    /// Returns the user, or `uid` and its number; `None` if it is not known.
    pub fn user(self) -> Option<String> {
        self.0.holder.user.is_known().then(|| self.0.holder.user.text())
    }

    /// Returns the id of the job; `None` outside of jobs, and of jobs that the scheduler does not show.
    pub fn job(self) -> Option<&'a str> {
        self.0.holder.job.as_ref().map(JobId::as_str)
    }

    /// Returns how sure it is that it has the device.
    pub fn certainty(self) -> Certainty {
        self.0.certainty
    }

    /// Returns what shows it: `scheduler`, `cgroup`, `processes`, `environment`.
    pub fn evidence(self) -> impl Iterator<Item = &'static str> {
        self.0.evidence.names()
    }
}

impl<'a> Process<'a> {
    /// Returns the device it is on.
    pub fn device(&self) -> Device<'a> {
        self.device
    }

    /// Returns the process id on its node.
    pub fn pid(&self) -> u32 {
        self.usage.used.pid
    }

    /// Returns when it started, in clock ticks since the node's boot, which with the pid identifies it.
    pub fn start_ticks(&self) -> Option<u64> {
        self.usage.process.as_ref()?.key.start()
    }

    /// Returns a value.
    ///
    /// # Errors
    ///
    /// If it is not known.
    pub fn value(&self, metric: ProcessMetric) -> Result<Value, Unknown> {
        let Device { node, position, .. } = self.device;
        let unsampled = node.node.unsampled_reason(position, Source::processes);
        Value::of(metric.reader()(&self.usage), unsampled)
    }

    /// Returns the number of a metric; `None` if it is unknown, or no number.
    pub fn number(&self, metric: ProcessMetric) -> Option<f64> {
        self.value(metric).ok()?.number()
    }

    /// Returns the text of a metric; `None` if it is unknown, or no text.
    pub fn text(&self, metric: ProcessMetric) -> Option<String> {
        self.value(metric).ok()?.text().map(str::to_owned)
    }
}

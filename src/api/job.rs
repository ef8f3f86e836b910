//! Jobs.

use crate::api::{Device, Job, Node, Unknown, Value};
use gtop_fleet::metrics::{DeviceMetric, JobAt, JobMetric};
use gtop_model::Reason;

impl<'a> Job<'a> {
    /// Returns the id, as the scheduler prints it.
    pub fn id(self) -> &'a str {
        &self.entry.job.shown_id
    }

    /// Returns the name; empty if only processes show the job.
    pub fn name(self) -> &'a str {
        &self.entry.job.name
    }

    /// Returns the user; empty if unknown.
    pub fn user(self) -> &'a str {
        &self.entry.job.user
    }

    /// Returns true if the scheduler lists it; otherwise only processes show it.
    pub fn is_listed(self) -> bool {
        self.entry.is_listed
    }

    /// Returns a value.
    ///
    /// # Errors
    ///
    /// If it is not known.
    pub fn value(self, metric: JobMetric) -> Result<Value, Unknown> {
        let at = JobAt { job: self.entry.job.clone(), now: self.fleet.at };
        Value::of(metric.reader()(&at), Reason::NotSampled)
    }

    /// Returns its devices on the watched nodes, as far as they are known.
    pub fn devices(self) -> impl Iterator<Item = Device<'a>> {
        self.entry.nodes.iter().flat_map(move |job_node| {
            let node = job_node.node_index.and_then(|index| self.fleet.data.nodes.get(index));
            let uuids = &job_node.holdings.devices;
            let node = node.map(|node| Node { fleet: self.fleet, node });
            node.into_iter()
                .flat_map(Node::devices)
                .filter(move |device| uuids.contains(&device.readings.uuid))
        })
    }

    /// Returns the mean utilization of its devices in percent; `None` if no device has a fresh one.
    pub fn utilization(self) -> Option<f64> {
        let known =
            self.devices().filter_map(|device| device.number(DeviceMetric::UtilizationPercent));
        let (sum, count) = known.fold((0.0, 0.0), |(sum, count), util| (sum + util, count + 1.0));
        (count > 0.0).then(|| sum / count)
    }
}

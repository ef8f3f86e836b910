//! The jobs of a snapshot: those of the scheduler's list, and those that only processes tell of.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value as Json, json};

use crate::export::json::{millis, write_fields};
use crate::fields::{JOB, JobAt};
use crate::fleet::{Basis, Fleet, Ledger};
use crate::model::{Allocation, Allotment, Job, JobList};
use crate::time::Timestamp;

/// Says how old the list is, why there is no newer one, and what else there is to know about it.
pub(super) fn list(list: &JobList, now: Timestamp) -> Json {
    json!({
        "whose": &*list.whose,
        "age_seconds": list.at.map(|at| millis(now.since(at).as_secs_f64())),
        "problem": list.problem.as_ref().map(|problem| json!({
            "sentence": &*problem.sentence,
            "remedy": &*problem.remedy,
            "for_seconds": millis(now.since(problem.since).as_secs_f64()),
        })),
        "notes": list.notes.iter().map(|note| &**note).collect::<Vec<_>>(),
        "jobs": list.jobs.len(),
    })
}

/// Returns all jobs.
pub(super) fn all(fleet: &Fleet, ledger: &Ledger<'_>, now: Timestamp) -> Vec<Json> {
    let listed = fleet.jobs.iter().flat_map(|list| &list.jobs).map(|job| {
        let at = JobAt { job: job.clone(), now };
        serde_json::to_value(Listed { at: &at, ledger }).unwrap_or_default()
    });
    let unlisted = ledger.unlisted().into_iter().map(|(id, uses)| {
        let allocations: Vec<Json> = uses
            .iter()
            .map(|(node, devices)| {
                let devices: Vec<&str> = devices.iter().map(|device| &**device).collect();
                let from = Basis::Processes.word();
                json!({"node": node.as_str(), "devices": devices, "devices_from": from})
            })
            .collect();
        json!({"id": id.as_str(), "allocations": allocations})
    });
    listed.chain(unlisted).collect()
}

struct Listed<'a> {
    at: &'a JobAt,
    ledger: &'a Ledger<'a>,
}

impl Serialize for Listed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let job = &self.at.job;
        let allocations: Vec<Json> =
            job.allocations.iter().map(|one| allocation(self.ledger, job, one)).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", job.id.as_str())?;
        write_fields(&mut map, JOB, self.at, None)?;
        map.serialize_entry("allocations", &allocations)?;
        map.end()
    }
}

/// `places` and `count` are the scheduler's words; `devices` is what they mean on the node.
fn allocation(ledger: &Ledger<'_>, job: &Job, allocation: &Allocation) -> Json {
    let held = ledger.held(job, allocation);
    let devices = held.devices.as_ref();
    let devices = devices.map(|list| list.iter().map(|device| &**device).collect::<Vec<_>>());
    let (places, count) = match &allocation.devices {
        Allotment::Places(places) => (Some(places.to_vec()), Some(places.len())),
        Allotment::Count(count) => (None, usize::try_from(*count).ok()),
        Allotment::Nothing => (Some(Vec::new()), Some(0)),
        Allotment::Unsaid => (None, None),
    };
    json!({
        "node": allocation.node.as_str(),
        "devices": devices,
        "devices_from": held.basis.map(Basis::word),
        "places": places,
        "count": count,
    })
}

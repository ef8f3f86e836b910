//! What was seen at several nodes or devices for one cause is one finding.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::report::counted::DeviceRecord;
use crate::report::job_device::device_name;
use crate::report::node_span::NodeSpan;
use crate::report::{FindingKind, FindingSeverity, ReportFinding};
use gtop_fleet::advice;
use gtop_local::time::format_duration;
use gtop_model::nodeset;

/// Devices of a node that a text names.
const MAX_NAMED_DEVICES: usize = 4;

/// What is the same of all places that fold into one finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FindingCause {
    pub(super) kind: FindingKind,
    /// What one place did, and what several did.
    pub(super) verb: [&'static str; 2],
    /// What follows the verb.
    pub(super) what: String,
    /// What follows the time: the reason.
    pub(super) after: String,
    pub(super) has_recovered: bool,
    /// Empty where it depends on the place.
    pub(super) remedy: String,
    /// How much it matters at least.
    pub(super) severity: FindingSeverity,
}

/// What of a node a cause is about.
#[derive(Clone, Copy, Debug)]
enum SightingPlace {
    Node,
    /// A device, with the index that the driver gives it.
    Device(Option<u32>),
}

/// A cause at one place.
#[derive(Debug)]
pub(super) struct Sighting {
    cause: FindingCause,
    node: String,
    place: SightingPlace,
    /// For how long; 0 if that is not known.
    seconds: f64,
    device_seconds: f64,
    /// How often; 0 for what lasts.
    times: u64,
}

impl Sighting {
    pub(super) fn of_node(
        cause: FindingCause,
        node: &NodeSpan<'_>,
        seconds: f64,
        devices: f64,
    ) -> Self {
        let (node, device_seconds) = (node.label.clone(), seconds * devices);
        let place = SightingPlace::Node;
        Self { cause, node, place, seconds, device_seconds, times: 0 }
    }

    pub(super) fn of_device(
        cause: FindingCause,
        node: &NodeSpan<'_>,
        device: &DeviceRecord<'_>,
        seconds: f64,
    ) -> Self {
        let (node, place) = (node.label.clone(), SightingPlace::Device(device.sums.index));
        Self { cause, node, place, seconds, device_seconds: seconds, times: 0 }
    }

    /// Returns the node and the index of the device, if it is about one.
    fn device(&self) -> Option<(&str, Option<u32>)> {
        match self.place {
            SightingPlace::Node => None,
            SightingPlace::Device(index) => Some((&self.node, index)),
        }
    }

    /// Notes how often it occurred.
    pub(super) fn repeated(self, times: u64) -> Self {
        Self { times, ..self }
    }
}

/// Returns a finding for each cause.
pub(super) fn folded(sightings: Vec<Sighting>) -> Vec<ReportFinding> {
    let mut by_cause: BTreeMap<FindingCause, Vec<Sighting>> = BTreeMap::new();
    for sighting in sightings {
        by_cause.entry(sighting.cause.clone()).or_default().push(sighting);
    }
    by_cause.into_iter().map(|(cause, places)| finding(cause, &places)).collect()
}

fn finding(cause: FindingCause, places: &[Sighting]) -> ReportFinding {
    let nodes: BTreeSet<&str> = places.iter().map(|place| &*place.node).collect();
    let devices: Vec<(&str, Option<u32>)> = places.iter().filter_map(Sighting::device).collect();
    let set = nodeset::fold(&nodes);
    let longest = places.iter().map(|place| place.seconds).fold(0.0, f64::max);
    let times = places.iter().fold(0, |sum: u64, place| sum.saturating_add(place.times));
    let [one, several] = cause.verb;
    let (verb, up_to) = if places.len() == 1 { (one, "") } else { (several, "up to ") };
    let device = match places {
        [Sighting { place: SightingPlace::Device(index), .. }] => *index,
        _ => None,
    };
    let subject = match &devices[..] {
        [] => set.clone(),
        [(node, index)] => device_name(node, *index),
        few if nodes.len() == 1 && few.len() <= MAX_NAMED_DEVICES => {
            let indices = few.iter().map(|(_, index)| device_name("", *index));
            format!("{set}{}", indices.collect::<Vec<_>>().join(","))
        }
        many => format!("{} devices of {set}", many.len()),
    };
    let end = match (cause.has_recovered, places.len()) {
        (false, _) => "",
        (true, 1) => "; it has recovered",
        (true, _) => "; they have recovered",
    };
    let amount = match (times, longest) {
        (0, seconds) if seconds > 0.0 => {
            let span = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            format!(" for {up_to}{}", format_duration(span))
        }
        (0, _) => String::new(),
        (1, _) => ", once".to_owned(),
        (2, _) => ", twice".to_owned(),
        (count, _) => format!(", {count} times"),
    };
    let remedy =
        if cause.kind == FindingKind::Down { advice::source::examine(&set) } else { cause.remedy };
    let device_seconds = places.iter().map(|place| place.device_seconds).sum();
    let text = format!("{subject} {verb}{}{amount}{}{end}", cause.what, cause.after);
    ReportFinding {
        severity: cause.severity,
        nodes: nodes.into_iter().map(str::to_owned).collect(),
        device,
        devices: devices.iter().map(|(node, index)| device_name(node, *index)).collect(),
        ..ReportFinding::new(cause.kind, text, &remedy, device_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(node: &str, device: Option<u32>, seconds: f64, times: u64) -> Sighting {
        let cause = FindingCause {
            kind: FindingKind::HungDriver,
            verb: ["was silent", "were silent"],
            what: String::new(),
            after: ": it hangs".to_owned(),
            has_recovered: false,
            remedy: "wait".to_owned(),
            severity: FindingSeverity::Low,
        };
        let place = device.map_or(SightingPlace::Node, |index| SightingPlace::Device(Some(index)));
        Sighting { cause, node: node.to_owned(), place, seconds, device_seconds: seconds, times }
    }

    #[test]
    fn places_of_one_cause_are_one_finding() {
        let seen = |node, device| sighting(node, device, 60.0, 0);
        for (places, text, nodes) in [
            (vec![seen("gpu3", Some(2))], "gpu3 #2 was silent for 1m00s: it hangs", 1),
            (
                vec![seen("gpu3", Some(2)), sighting("gpu3", Some(3), 90.0, 0)],
                "gpu3 #2, #3 were silent for up to 1m30s: it hangs",
                1,
            ),
            (
                vec![seen("gpu3", Some(2)), seen("gpu4", Some(0))],
                "2 devices of gpu[3-4] were silent for up to 1m00s: it hangs",
                2,
            ),
            (
                vec![seen("gpu3", None), seen("gpu4", None)],
                "gpu[3-4] were silent for up to 1m00s: it hangs",
                2,
            ),
            (
                vec![sighting("a", Some(0), 0.0, 1), sighting("b", Some(0), 0.0, 3)],
                "2 devices of a,b were silent, 4 times: it hangs",
                2,
            ),
        ] {
            let count = places.len();
            let seconds: f64 = places.iter().map(|place| place.seconds).sum();
            let found = folded(places);
            assert_eq!(found.len(), 1);
            assert_eq!((&*found[0].text, found[0].nodes.len()), (text, nodes));
            assert!((found[0].device_seconds - seconds).abs() < 1e-9);
            assert_eq!(found[0].device.is_some(), count == 1);
        }
    }

    #[test]
    fn each_of_many_devices_is_named_beside_the_text() {
        let mut places: Vec<_> = (0..5).map(|n| sighting("gpu3", Some(n), 60.0, 0)).collect();
        for place in &mut places {
            place.cause.has_recovered = true;
        }
        let [found] = &folded(places)[..] else { panic!() };
        let text = "5 devices of gpu3 were silent for up to 1m00s: it hangs; they have recovered";
        assert_eq!((&*found.text, found.devices.len(), &*found.devices[4]), (text, 5, "gpu3 #4"));
    }

    #[test]
    fn another_reason_is_another_finding() {
        let mut other = sighting("gpu4", Some(0), 60.0, 0);
        other.cause.after = ": it is lost".to_owned();
        assert_eq!(folded(vec![sighting("gpu3", Some(0), 60.0, 0), other]).len(), 2);
    }
}

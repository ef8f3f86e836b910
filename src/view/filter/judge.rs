//! Whether a node, a device or a process is what was asked for.

use std::borrow::Cow;
use std::sync::Arc;

use crate::fields::{Usage, Value};
use crate::fleet::Node;
use crate::model::{Device, JobId, Link, Reason};
use crate::time::Timestamp;
use crate::view::filter::{Filter, State, Subject, Term, Test};

/// A device below this share does nothing worth the name.
const ACTIVE_PERCENT: f32 = 5.0;

/// One combination of things that terms are asked about.
#[derive(Clone, Copy)]
struct Row<'a> {
    node: &'a Node,
    device: Option<&'a Device>,
    usage: Option<&'a Usage>,
    now: Timestamp,
}

impl Filter {
    /// Says whether a node, or something on it, is asked for.
    pub fn takes_node(&self, node: &Node, now: Timestamp) -> bool {
        self.terms.is_empty() || self.takes(&rows(node, &node.devices, now))
    }

    /// Says whether a device, or a process on it, is asked for.
    pub fn takes_device(&self, node: &Node, device: &Device, now: Timestamp) -> bool {
        self.terms.is_empty() || self.takes(&rows(node, std::slice::from_ref(device), now))
    }

    /// Says whether a process on a device is asked for.
    pub fn takes_usage(
        &self,
        node: &Node,
        device: Option<&Device>,
        usage: &Usage,
        now: Timestamp,
    ) -> bool {
        let kept = [Kept { device, usage: Some(Cow::Borrowed(usage)) }];
        self.terms.is_empty() || self.takes(&Rows { node, kept: kept.into(), now })
    }

    /// Something meets every term, and nothing meets what shall not be.
    fn takes(&self, rows: &Rows<'_>) -> bool {
        let (negated, wanted): (Vec<&Term>, Vec<&Term>) =
            self.terms.iter().partition(|term| term.is_negated);
        rows.iter().any(|row| wanted.iter().all(|term| term.test.holds(row)))
            && !rows.iter().any(|row| negated.iter().any(|term| term.test.holds(row)))
    }
}

/// A device with one of its processes.
struct Kept<'a> {
    device: Option<&'a Device>,
    usage: Option<Cow<'a, Usage>>,
}

/// Everything a node, or a device of it, is made of.
struct Rows<'a> {
    node: &'a Node,
    kept: Vec<Kept<'a>>,
    now: Timestamp,
}

impl Rows<'_> {
    fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.kept.iter().map(|kept| Row {
            node: self.node,
            device: kept.device,
            usage: kept.usage.as_deref(),
            now: self.now,
        })
    }
}

fn rows<'a>(node: &'a Node, devices: &'a [Device], now: Timestamp) -> Rows<'a> {
    let mut kept = vec![];
    for device in devices {
        let before = kept.len();
        let usages = Usage::of(node, device);
        kept.extend(
            usages.map(|usage| Kept { device: Some(device), usage: Some(Cow::Owned(usage)) }),
        );
        if kept.len() == before {
            kept.push(Kept { device: Some(device), usage: None });
        }
    }
    if kept.is_empty() {
        kept.push(Kept { device: None, usage: None });
    }
    Rows { node, kept, now }
}

impl Test {
    fn holds(&self, row: Row<'_>) -> bool {
        match self {
            Self::Word(word) => names(row).any(|name| name.to_lowercase().contains(word.as_str())),
            Self::State(state) => state.holds(row),
            Self::Compare(subject, relation, wanted) => {
                subject.value(row).is_some_and(|value| wanted.is_met_by(*relation, &value))
            }
        }
    }
}

/// What a row is called by, one way or another.
fn names(row: Row<'_>) -> impl Iterator<Item = Cow<'_, str>> {
    let device = row.device.into_iter().flat_map(|device| {
        let name = device.name.known().map(|name| &**name);
        [Some(&*device.uuid), name].into_iter().flatten().map(Into::into)
    });
    let statics =
        row.usage.and_then(|usage| usage.process.as_ref()).map(|process| &process.statics);
    let words = statics.into_iter().flat_map(|statics| {
        let user = statics.user.known().map(|user| &**user);
        let command = statics.command.known().map(|command| &**command);
        let job = statics.job.as_ref().map(JobId::as_str);
        [user, command, job].into_iter().flatten().map(Into::into)
    });
    let driver = row.usage.and_then(|usage| usage.used.driver_name.as_deref()).map(Into::into);
    std::iter::once(row.node.name.as_str().into()).chain(device).chain(words).chain(driver)
}

impl State {
    fn holds(self, row: Row<'_>) -> bool {
        let Row { node, device, .. } = row;
        match self {
            Self::Fresh => is_fresh(row),
            Self::Stale => node.taken_at().is_some() && !is_fresh(row),
            Self::Up => matches!(node.link, Link::Up),
            Self::Down => matches!(node.link, Link::Down { .. }),
            Self::Fault => {
                node.fault().is_some() || device.is_some_and(|device| device.fault.is_some())
            }
            Self::Throttled => device.is_some_and(is_slowed),
            Self::Busy => is_active(device) == Some(true),
            Self::Idle => is_active(device) == Some(false),
            Self::Free => {
                device.is_some() && row.usage.is_none() && is_active(device) == Some(false)
            }
        }
    }
}

/// By heat, by the power supply, or by the hardware for some other reason; the power limit is ordinary.
fn is_slowed(device: &Device) -> bool {
    device.throttle.get().is_some_and(|throttle| {
        throttle.is_thermal() || throttle.is_power_brake() || throttle.is_hardware_slowdown()
    })
}

fn is_active(device: Option<&Device>) -> Option<bool> {
    device?.utilization.get().map(|share| share.get() >= ACTIVE_PERCENT)
}

fn is_fresh(row: Row<'_>) -> bool {
    let place = row
        .device
        .and_then(|device| row.node.devices.iter().position(|other| other.uuid == device.uuid));
    match place {
        Some(place) => row.node.device_freshness(place, row.now).is_fresh(),
        None => row.node.freshness(row.now).is_fresh(),
    }
}

impl Subject {
    /// Reads it; `None` where the row has no such thing.
    fn value(self, row: Row<'_>) -> Option<Value> {
        Some(match self {
            Self::Node => Value::Text(row.node.name.as_str().into()),
            Self::Index => match row.device?.index.get() {
                Some(index) => Value::Whole(index.into()),
                None => Value::Unknown(Reason::NotSampled),
            },
            Self::Uuid => Value::Text(Arc::clone(&row.device?.uuid)),
            Self::Pid => Value::Whole(row.usage?.used.pid.into()),
            Self::MemoryShare => match row.device?.memory_share() {
                Some(share) => Value::Number(share.get()),
                None => Value::Unknown(Reason::NotAvailable),
            },
            Self::Host(field) => (field.read)(row.node),
            Self::Device(field) => (field.read)(row.device?),
            Self::Process(field) => (field.read)(row.usage?),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fleet::Process;
    use crate::model::{
        Bytes, DeviceUse, NodeName, Percent, ProcessKey, ProcessStatics, Reading, Throttle,
    };

    fn device(uuid: &str, util: Option<f32>, throttle: u64) -> Device {
        Device {
            uuid: uuid.into(),
            name: Reading::Known("H100 80GB".into()),
            utilization: util.and_then(Percent::new).map_or_else(Reading::default, Reading::Known),
            memory_total: Reading::Known(Bytes(80 << 30)),
            memory_used: Reading::Known(Bytes(60 << 30)),
            throttle: Reading::Known(Throttle(throttle)),
            ..Device::default()
        }
    }

    /// One busy device of alice's, one idle and slowed one of nobody's, one that tells nothing.
    fn node() -> Node {
        let mut node = Node::new(NodeName::new("gpu07").unwrap(), Duration::ZERO);
        node.devices = vec![
            device("GPU-a", Some(97.0), 0),
            device("GPU-b", Some(1.0), 0x40),
            device("GPU-c", None, 0),
        ];
        node.uses = vec![DeviceUse {
            device: "GPU-a".into(),
            pid: 7,
            memory: Reading::Known(Bytes(50 << 30)),
            ..DeviceUse::default()
        }]
        .into();
        let statics = ProcessStatics {
            user: Reading::Known("alice".into()),
            command: Reading::Known("python train.py --lr 1".into()),
            ..ProcessStatics::default()
        };
        let key = ProcessKey { pid: 7, start_ticks: 1 };
        node.processes =
            vec![Process { key, statics: Arc::new(statics), ..Process::default() }].into();
        node
    }

    #[test]
    fn all_terms_hold_of_one_device_and_process() {
        let node = node();
        let taken = |text: &str| {
            let filter = Filter::new(text).unwrap();
            let devices = node.devices.iter();
            let of_devices: String = devices
                .map(|device| {
                    if filter.takes_device(&node, device, Timestamp::default()) { '+' } else { '.' }
                })
                .collect();
            (filter.takes_node(&node, Timestamp::default()), of_devices)
        };
        for (text, on_node, on_devices) in [
            ("", true, "+++"),
            ("alice", true, "+.."),
            ("gpu07", true, "+++"),
            ("ALICE util>50", true, "+.."),
            ("alice util<50", false, "..."),
            ("util<10", true, ".+."),
            ("util=unknown", true, "..+"),
            ("idle", true, ".+."),
            ("free", true, ".+."),
            ("busy user=al*", true, "+.."),
            ("!alice", false, ".++"),
            ("!user=bob", true, "+++"),
            ("user!=bob", true, "+.."),
            ("mem>50%", true, "+++"),
            ("mem>70GiB", false, "..."),
            ("gpumem>=50g", true, "+.."),
            ("throttled", true, ".+."),
            ("node~gpu0", true, "+++"),
            ("node=gpu0", false, "..."),
            ("node=gpu0*", true, "+++"),
            ("pid=7", true, "+.."),
            ("command~'train.py --lr'", true, "+.."),
            ("down", false, "..."),
        ] {
            assert_eq!(taken(text), (on_node, on_devices.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_node_without_devices_is_found_by_its_name() {
        let node = Node::new(NodeName::new("login1").unwrap(), Duration::ZERO);
        let takes = |text: &str| Filter::new(text).unwrap().takes_node(&node, Timestamp::default());
        assert!(takes("login"));
        assert!(!takes("util<10"));
        assert!(!takes("free"));
    }
}

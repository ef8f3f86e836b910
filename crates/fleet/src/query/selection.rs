//! The selection of devices and processes to show, and the columns that name a device.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::Node;
use crate::advice;
use gtop_model::{
    Device, DeviceUse, JobList, ProcessStatics, Reading, RequestedJobs, TransportKind, UseKind,
};

/// The selection of what is shown; by default everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DisplaySelection {
    /// Devices with these indices, on every node; MIG slices go with their device.
    pub devices: Option<BTreeSet<u32>>,
    /// The devices listed in `CUDA_VISIBLE_DEVICES`.
    pub visible: Option<Vec<VisibleDevice>>,
    pub kinds: ProcessKinds,
    /// Processes of these users, by name or uid; of all users if empty.
    pub users: BTreeSet<String>,
    /// Processes with these pids; all if empty.
    pub pids: BTreeSet<u32>,
    pub names: NameColumns,
}

/// A device in `CUDA_VISIBLE_DEVICES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VisibleDevice {
    /// An index, which is valid on the local host only.
    Index(u32),
    /// A UUID or a prefix of one, which is valid on every host.
    Uuid(Box<str>),
}

/// What processes use a device for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessKinds {
    #[default]
    All,
    /// Compute, with or without graphics.
    Compute,
    /// Compute only.
    OnlyCompute,
    /// Graphics, with or without compute.
    Graphics,
    /// Graphics only.
    OnlyGraphics,
}

/// The columns that name a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameColumns {
    /// The index.
    pub has_index: bool,
    /// The model, where it fits.
    pub has_name: bool,
    /// The UUID.
    pub has_uuid: bool,
}

impl Default for NameColumns {
    fn default() -> Self {
        Self { has_index: true, has_name: true, has_uuid: false }
    }
}

impl ProcessKinds {
    /// Returns true if the selection includes this kind. An unknown kind counts as compute: drivers that do
    /// not report the kind list compute processes only.
    fn includes(self, kind: Reading<UseKind>) -> bool {
        let kind = kind.get().unwrap_or(UseKind::Compute);
        match self {
            Self::All => true,
            Self::Compute => kind != UseKind::Graphics,
            Self::OnlyCompute => kind == UseKind::Compute,
            Self::Graphics => kind != UseKind::Compute,
            Self::OnlyGraphics => kind == UseKind::Graphics,
        }
    }
}

impl DisplaySelection {
    /// Returns true if devices may be hidden.
    pub(crate) fn selects_devices(&self) -> bool {
        self.devices.is_some() || self.visible.is_some()
    }

    /// Returns a short description of the selection; `None` if everything is shown.
    pub fn summary(&self) -> Option<String> {
        let numbers = self.devices.iter().flatten().map(ToString::to_string).collect::<Vec<_>>();
        let numbers = (!numbers.is_empty()).then(|| numbers.join(","));
        let visible = self.visible.is_some().then(|| "visible".to_owned());
        let processes = self.processes_summary().map(|parts| format!("processes {parts}"));
        let parts: Vec<String> = numbers.into_iter().chain(visible).chain(processes).collect();
        (!parts.is_empty()).then(|| format!("only {}", parts.join(" ")))
    }

    /// Returns the message for a list without any selected process; `None` if all processes are shown.
    pub fn no_processes_message(&self, jobs: Option<&JobList>) -> Option<String> {
        let summary = self.processes_summary()?;
        let hint = jobs.and_then(|jobs| self.jobs_hint(jobs)).unwrap_or_default();
        Some(format!("no processes {summary} use a device; others are hidden{hint}"))
    }

    /// Returns why no job has nodes; `None` if one has.
    pub fn no_jobs_message(&self, jobs: &JobList) -> Option<String> {
        let error = jobs.error.as_ref().filter(|_| jobs.at.is_none());
        let reason = jobs.empty_reason()?;
        let words = &jobs.scheduler.words;
        let reason = error.map_or(reason, |error| advice::scheduler::explained(words, error));
        Some(reason + &self.jobs_hint(jobs).unwrap_or_default())
    }

    /// Names the option for jobs of the selected users, if only jobs of some users are watched.
    fn jobs_hint(&self, jobs: &JobList) -> Option<String> {
        let users = self.users.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        (jobs.requested == RequestedJobs::Selected && !users.is_empty())
            .then(|| format!("; --user {users} watches the nodes of their jobs"))
    }

    fn processes_summary(&self) -> Option<String> {
        let kinds = match self.kinds {
            ProcessKinds::All => None,
            ProcessKinds::Compute => Some("that compute"),
            ProcessKinds::OnlyCompute => Some("that only compute"),
            ProcessKinds::Graphics => Some("that draw"),
            ProcessKinds::OnlyGraphics => Some("that only draw"),
        };
        let users = self.users.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        let pids = self.pids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let lists = [("of", users), ("pid", pids)].into_iter();
        let lists = lists.filter(|(_, list)| !list.is_empty());
        let lists = lists.map(|(label, list)| format!("{label} {list}"));
        let text = lists.chain(kinds.map(str::to_owned)).collect::<Vec<_>>().join(" ");
        (!text.is_empty()).then_some(text)
    }

    /// Returns true if the device is selected.
    pub fn matches_device(&self, node: &Node, device: &Device) -> bool {
        let whole = node.whole(device);
        let index = whole.index.get();
        if let Some(numbers) = &self.devices
            && index.is_none_or(|number| !numbers.contains(&number))
        {
            return false;
        }
        let Some(visible) = &self.visible else { return true };
        let is_here = node.via == Some(TransportKind::Local);
        let is_anywhere = visible.iter().any(|one| matches!(one, VisibleDevice::Uuid(_)));
        if !is_here && !is_anywhere {
            return true;
        }
        let slices = node.slices(device).map(|(_, slice)| slice);
        let family: Vec<&Device> = slices.chain([whole, device]).collect();
        visible.iter().any(|named| match named {
            VisibleDevice::Index(number) => is_here && index == Some(*number),
            VisibleDevice::Uuid(start) => {
                family.iter().any(|member| has_prefix(&member.uuid, start))
            }
        })
    }

    /// Returns true if the process is selected, whichever device it uses.
    pub fn matches_process(&self, node: &Node, used: &DeviceUse) -> bool {
        let Self { kinds, users, pids, .. } = self;
        (pids.is_empty() || pids.contains(&used.pid))
            && kinds.includes(used.kind)
            && (users.is_empty()
                || node.process(used.pid).is_some_and(|process| {
                    let ProcessStatics { user, uid, .. } = &*process.statics;
                    user.known().is_some_and(|name| users.contains(&**name))
                        || uid.get().is_some_and(|uid| users.contains(&uid.to_string()))
                }))
    }

    /// Returns the node without the devices that are not selected, and without what runs on them.
    pub(crate) fn filter_devices(&self, node: &Arc<Node>) -> Arc<Node> {
        let hidden = node.devices.iter().filter(|device| !self.matches_device(node, device));
        without_devices(node, &hidden.map(|device| &*device.uuid).collect())
    }

    /// Returns the node with the selected devices and processes only.
    pub fn filter_node(&self, node: &Arc<Node>) -> Arc<Node> {
        let selected = self.filter_devices(node);
        let uses = selected.uses.iter().filter(|used| self.matches_process(node, used));
        let uses: Arc<[DeviceUse]> = uses.cloned().collect();
        if uses.len() == selected.uses.len() {
            return selected;
        }
        Arc::new(Node { uses, ..Node::clone(&selected) })
    }
}

/// Returns the node without these devices, and without what runs on them.
pub(crate) fn without_devices(node: &Arc<Node>, hidden: &BTreeSet<&str>) -> Arc<Node> {
    if hidden.is_empty() {
        return Arc::clone(node);
    }
    let mut filtered = Node::clone(node);
    filtered.has_hidden_devices = true;
    let both = node.devices.iter().cloned().zip(node.device_sources.iter().cloned());
    let kept = both.filter(|(device, _)| !hidden.contains(&*device.uuid));
    let (devices, sources): (Vec<_>, Vec<_>) = kept.unzip();
    (filtered.devices, filtered.device_sources) = (devices.into(), sources.into());
    filtered.holdings = Arc::new(node.holdings.of_devices(|uuid| !hidden.contains(uuid)));
    let uses = node.uses.iter().filter(|used| !hidden.contains(&*used.device));
    filtered.uses = uses.cloned().collect();
    let events = node.events.iter();
    let events = events.filter(|record| !hidden.contains(&*record.event.device));
    filtered.events = events.cloned().collect();
    Arc::new(filtered)
}

fn has_prefix(uuid: &str, start: &str) -> bool {
    let head = uuid.as_bytes().get(..start.len());
    !start.is_empty() && head.is_some_and(|head| head.eq_ignore_ascii_case(start.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{NodeHoldings, Process};
    use gtop_model::{NodeName, ProcessKey, Source};

    /// Two devices, the first with two slices; one process on each.
    fn node(via: TransportKind) -> Arc<Node> {
        let device = |uuid: &str, parent: Option<&str>, index| Device {
            uuid: uuid.into(),
            parent: parent.map(Into::into),
            index: Reading::Known(index),
            ..Device::default()
        };
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        node.via = Some(via);
        node.devices = vec![
            device("GPU-aa11", None, 0),
            device("MIG-s0", Some("GPU-aa11"), 0),
            device("MIG-s1", Some("GPU-aa11"), 1),
            device("GPU-bb22", None, 1),
        ]
        .into();
        node.device_sources = vec![Source::new("nvml"); 4].into();
        let using = |device: &str, pid, kind| DeviceUse {
            device: device.into(),
            pid,
            kind,
            ..DeviceUse::default()
        };
        node.uses = vec![
            using("MIG-s0", 7, Reading::Known(UseKind::Compute)),
            using("GPU-bb22", 8, Reading::Known(UseKind::Both)),
            using("GPU-bb22", 9, Reading::Known(UseKind::Graphics)),
            using("GPU-bb22", 10, Reading::default()),
        ]
        .into();
        let process = |pid, user: &str| Process {
            key: ProcessKey { pid, start_ticks: 1 },
            statics: Arc::new(ProcessStatics {
                uid: Reading::Known(1_000 + pid),
                user: Reading::Known(user.into()),
                ..ProcessStatics::default()
            }),
            ..Process::default()
        };
        node.processes = vec![process(7, "alice"), process(8, "bob")].into();
        Arc::new(node)
    }

    #[test]
    fn the_summary_names_users_pids_and_kinds() {
        let of = |users: &[&str], pids: &[u32], kinds| DisplaySelection {
            users: users.iter().map(|user| (*user).to_owned()).collect(),
            pids: pids.iter().copied().collect(),
            kinds,
            ..DisplaySelection::default()
        };
        for (only, words) in [
            (DisplaySelection::default(), None),
            (of(&["ada", "bob"], &[], ProcessKinds::All), Some("only processes of ada,bob")),
            (of(&[], &[7], ProcessKinds::Compute), Some("only processes pid 7 that compute")),
        ] {
            assert_eq!(only.summary().as_deref(), words);
            assert_eq!(only.no_processes_message(None).is_some(), words.is_some());
        }
        let only = of(&["ada", "bob"], &[], ProcessKinds::All);
        let none = "no processes of ada,bob use a device; others are hidden";
        assert_eq!(only.no_processes_message(None).unwrap(), none);
        // As with `-u=ada,bob`.
        let hint = "; --user ada,bob watches the nodes of their jobs";
        let list = |requested| JobList { requested, ..JobList::default() };
        let message = |requested| only.no_processes_message(Some(&list(requested))).unwrap();
        assert_eq!(message(RequestedJobs::Selected), format!("{none}{hint}"));
        assert_eq!(message(RequestedJobs::All), none);
        let no_jobs = |requested| only.no_jobs_message(&list(requested)).unwrap();
        assert_eq!(
            no_jobs(RequestedJobs::Selected),
            format!("asking the scheduler which jobs run{hint}")
        );
        assert_eq!(no_jobs(RequestedJobs::All), "asking the scheduler which jobs run");
    }

    #[test]
    fn who_has_the_selected_devices_stays_known() {
        let mut here = node(TransportKind::Local);
        let devices = [("MIG-s0", "ada", None), ("GPU-bb22", "bob", None)];
        Arc::make_mut(&mut here).holdings = Arc::new(NodeHoldings::example(&devices));
        let only = DisplaySelection { devices: Some([1].into()), ..DisplaySelection::default() };
        let selected = only.filter_devices(&here);
        let is_held = |uuid| !selected.holdings.device(uuid).claims.is_empty();
        assert_eq!(["MIG-s0", "GPU-bb22"].map(is_held), [false, true]);
        assert!(selected.has_hidden_devices && !here.has_hidden_devices);
        assert_eq!(only.filter_devices(&selected).devices.len(), 1);
        assert_eq!(only.summary().as_deref(), Some("only 1"));
        assert!(Arc::ptr_eq(&DisplaySelection::default().filter_devices(&here), &here));
    }

    fn shown(node: &Arc<Node>, only: &DisplaySelection) -> (Vec<String>, Vec<u32>) {
        let filtered = only.filter_node(node);
        assert_eq!(filtered.devices.len(), filtered.device_sources.len());
        let devices = filtered.devices.iter().map(|device| device.uuid.to_string());
        (devices.collect(), filtered.uses.iter().map(|used| used.pid).collect())
    }

    #[test]
    fn devices_are_selected_by_index_and_slices_with_their_device() {
        let here = node(TransportKind::Local);
        assert_eq!(shown(&here, &DisplaySelection::default()).0.len(), 4);
        let only = |numbers: &[u32]| DisplaySelection {
            devices: Some(numbers.iter().copied().collect()),
            ..DisplaySelection::default()
        };
        assert_eq!(
            shown(&here, &only(&[0])),
            (vec!["GPU-aa11".into(), "MIG-s0".into(), "MIG-s1".into()], vec![7])
        );
        assert_eq!(shown(&here, &only(&[5])), (vec![], vec![]));
    }

    #[test]
    fn visible_indices_hold_on_the_local_host_and_uuids_everywhere() {
        let index = |number| VisibleDevice::Index(number);
        let uuid = |start: &str| VisibleDevice::Uuid(start.into());
        let all = 4;
        for (via, visible, count) in [
            (TransportKind::Local, vec![index(1)], 1),
            (TransportKind::Native, vec![index(1)], all),
            (TransportKind::Local, vec![], 0),
            (TransportKind::Native, vec![], all),
            (TransportKind::Native, vec![uuid("GPU-bb")], 1),
            (TransportKind::Native, vec![uuid("gpu-BB22")], 1),
            (TransportKind::Native, vec![uuid("GPU-bb22"), index(0)], 1),
            (TransportKind::Local, vec![uuid("GPU-bb22"), index(0)], all),
            (TransportKind::Local, vec![uuid("MIG-s1")], 2),
            (TransportKind::Native, vec![uuid("GPU-zz")], 0),
            (TransportKind::Native, vec![uuid("")], 0),
        ] {
            let only =
                DisplaySelection { visible: Some(visible.clone()), ..DisplaySelection::default() };
            assert_eq!(shown(&node(via), &only).0.len(), count, "{via:?} {visible:?}");
        }
    }

    #[test]
    fn processes_are_selected_by_kind_user_and_pid() {
        let here = node(TransportKind::Local);
        let pids = |only| shown(&here, &only).1;
        for (kinds, expected) in [
            (ProcessKinds::All, vec![7, 8, 9, 10]),
            (ProcessKinds::Compute, vec![7, 8, 10]),
            (ProcessKinds::OnlyCompute, vec![7, 10]),
            (ProcessKinds::Graphics, vec![8, 9]),
            (ProcessKinds::OnlyGraphics, vec![9]),
        ] {
            assert_eq!(
                pids(DisplaySelection { kinds, ..DisplaySelection::default() }),
                expected,
                "{kinds:?}"
            );
        }
        let users = ["alice".to_owned()].into();
        assert_eq!(pids(DisplaySelection { users, ..DisplaySelection::default() }), [7]);
        // Whatever its name turns out to be.
        let users = ["1008".to_owned()].into();
        assert_eq!(pids(DisplaySelection { users, ..DisplaySelection::default() }), [8]);
        assert_eq!(
            pids(DisplaySelection { pids: [9, 7].into(), ..DisplaySelection::default() }),
            [7, 9]
        );
    }
}

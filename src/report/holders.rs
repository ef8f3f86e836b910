//! Who held devices, and what they ran on them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use crate::fleet::{MIN_HELD_BYTES, Node};
use crate::insight::ownership::{AllocationIndex, Holder};
use crate::model::NodeName;
use crate::report::series::StepSeries;
use crate::report::usage::DeviceUsage;
use crate::time::Timestamp;

/// Pairs of users and jobs that are kept apart; those that come later are added up under one name.
const MAX_HOLDERS: usize = 20_000;

/// Who held devices, numbered in the order in which they appeared.
#[derive(Debug, Default)]
pub(super) struct HolderIndex {
    numbers: BTreeMap<Holder, usize>,
    pub(super) records: Vec<HolderRecord>,
}

/// What was collected of a user or a job of theirs.
#[derive(Debug)]
pub(super) struct HolderRecord {
    pub(super) holder: Holder,
    /// Of devices that several hold, an equal part.
    pub(super) usage: DeviceUsage,
    pub(super) series: StepSeries,
    /// The first and the last time.
    pub(super) span: Option<(Timestamp, Timestamp)>,
    pub(super) nodes: BTreeSet<NodeName>,
    /// The devices, by node and UUID.
    pub(super) devices: BTreeSet<(NodeName, Arc<str>)>,
}

/// A program, as its node, user and job have it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeldCommand {
    pub(super) node: NodeName,
    pub(super) holder: Holder,
    pub(super) text: Arc<str>,
}

/// The holders of each device of a node, as long as its processes and allocations stay the same.
#[derive(Debug, Default)]
pub(super) struct CachedHolders {
    signature: u64,
    pub(super) by_position: Vec<CachedHolder>,
}

/// The holders of one device.
#[derive(Clone, Debug, Default)]
pub(super) struct CachedHolder {
    pub(super) numbers: Arc<[usize]>,
    /// `None` if that is not known.
    pub(super) is_allocated: Option<bool>,
    pub(super) commands: Arc<[HeldCommand]>,
}

impl HolderIndex {
    /// Returns the number of a holder.
    pub(super) fn number(&mut self, holder: &Holder) -> usize {
        if let Some(number) = self.numbers.get(holder) {
            return *number;
        }
        if self.records.len() >= MAX_HOLDERS {
            return self.records.len() - 1;
        }
        let number = self.records.len();
        self.numbers.insert(holder.clone(), number);
        self.records.push(HolderRecord {
            holder: holder.clone(),
            usage: DeviceUsage::default(),
            series: StepSeries::default(),
            span: None,
            nodes: BTreeSet::new(),
            devices: BTreeSet::new(),
        });
        number
    }
}

impl HolderRecord {
    pub(super) fn extend_span(&mut self, from: Timestamp, to: Timestamp) {
        let (first, last) = self.span.unwrap_or((from, to));
        self.span = Some((first.min(from), last.max(to)));
    }
}

impl CachedHolders {
    /// Finds the holders again if processes, allocations or devices have changed.
    pub(super) fn refresh(
        &mut self,
        node: &Node,
        allocations: &AllocationIndex,
        holders: &mut HolderIndex,
        has_commands: bool,
    ) {
        let signature = signature(node, allocations);
        if signature == self.signature && self.by_position.len() == node.devices.len() {
            return;
        }
        self.signature = signature;
        let commands = if has_commands { commands_of(node, allocations) } else { Vec::new() };
        let cached = allocations.holders(node).into_iter().enumerate().map(|(position, known)| {
            let numbers = known.holders.iter().map(|holder| holders.number(holder)).collect();
            let commands = commands.get(position).map(|all| Arc::from(&**all)).unwrap_or_default();
            CachedHolder { numbers, is_allocated: known.is_allocated, commands }
        });
        self.by_position = cached.collect();
    }
}

/// Returns a number that changes when the holders of the node's devices may have changed.
fn signature(node: &Node, allocations: &AllocationIndex) -> u64 {
    let mut hasher = DefaultHasher::new();
    allocations.generation().hash(&mut hasher);
    for device in &node.devices {
        device.uuid.hash(&mut hasher);
    }
    for used in node.uses.iter() {
        let memory = used.memory.get().map(|memory| memory.0 / MIN_HELD_BYTES);
        (used.pid, &used.device, memory).hash(&mut hasher);
    }
    for process in node.processes.iter() {
        (process.key.pid, Arc::as_ptr(&process.statics) as usize).hash(&mut hasher);
    }
    node.unseen.len().hash(&mut hasher);
    hasher.finish()
}

/// Returns the command lines on each device of a node.
fn commands_of(node: &Node, allocations: &AllocationIndex) -> Vec<Vec<HeldCommand>> {
    let mut commands = vec![Vec::new(); node.devices.len()];
    for (position, holder, used) in allocations.uses(node) {
        let statics = node.statics_of(used.pid);
        let text = statics.and_then(|statics| statics.command.known()).cloned();
        if let (Some(text), Some(of_device)) = (text, commands.get_mut(position)) {
            of_device.push(HeldCommand { node: node.name.clone(), holder, text });
        }
    }
    commands
}

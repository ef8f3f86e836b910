//! Machines that are watched under several names: each counts once.

use std::collections::BTreeMap;
use std::sync::Arc;

use gtop_fleet::Node;
use gtop_local::time::Timestamp;
use gtop_model::{Hello, Link, MachineId, NodeName};

/// The name that each machine counts under.
#[derive(Debug, Default)]
pub(super) struct MachineIndex(BTreeMap<MachineId, NodeName>);

/// Which name of a machine counts.
pub(super) enum MachineName {
    /// This one.
    Own,
    /// This one from now on; until now, the other one did.
    OwnNow(NodeName),
    /// The other one.
    Other(NodeName),
}

impl MachineIndex {
    /// Finds the name that the machine of a node counts under; of several that answer, the first by the alphabet.
    pub(super) fn name_of(
        &mut self,
        node: &Node,
        answers: impl FnOnce(&NodeName) -> bool,
    ) -> MachineName {
        let Some(machine) = node.hello.as_ref().and_then(|hello| hello.host.machine_id()) else {
            return MachineName::Own;
        };
        match self.0.get(&machine) {
            Some(known) if *known == node.name => MachineName::Own,
            Some(known) if *known < node.name && answers(known) => {
                MachineName::Other(known.clone())
            }
            _ => match self.0.insert(machine, node.name.clone()) {
                Some(before) => MachineName::OwnNow(before),
                None => MachineName::Own,
            },
        }
    }
}

/// Whether the machine of a node counts under another name.
#[derive(Debug, Default)]
pub(super) struct OtherName {
    /// Since when it counts under its own name again.
    pub(super) ended_at: Timestamp,
    since: Option<Timestamp>,
    /// The hello whose machine was looked for.
    known_hello: Option<Arc<Hello>>,
}

impl OtherName {
    /// Returns true while the machine counts under another name.
    pub(super) fn is_now(&self) -> bool {
        self.since.is_some()
    }

    /// Returns true if another name may count from now on: only a node that answers can be distinguished from others.
    pub(super) fn may_change(&mut self, node: &Node) -> bool {
        if !matches!(node.link, Link::Up) {
            return false;
        }
        let is_known = match (&self.known_hello, &node.hello) {
            (Some(known), Some(hello)) => Arc::ptr_eq(known, hello),
            (known, hello) => known.is_none() && hello.is_none(),
        };
        self.known_hello.clone_from(&node.hello);
        !is_known || self.is_now()
    }

    /// Returns false if it has begun before.
    pub(super) fn begin(&mut self, at: Timestamp) -> bool {
        let is_new = self.since.is_none();
        self.since.get_or_insert(at);
        is_new
    }

    /// Ends it; returns since when it was so.
    pub(super) fn end(&mut self, at: Timestamp) -> Option<Timestamp> {
        let since = self.since.take()?;
        self.ended_at = at;
        Some(since)
    }

    /// Begins it anew at a time if it is so; returns since when it was.
    pub(super) fn restart(&mut self, at: Timestamp) -> Option<Timestamp> {
        let since = self.since?;
        self.since = Some(at.max(since));
        Some(since)
    }
}

//! Machines that are watched under several names: each counts once.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fleet::Node;
use crate::model::NodeName;

/// The name that each machine counts under, by boot id and host name.
#[derive(Debug, Default)]
pub(super) struct MachineIndex(BTreeMap<(Arc<str>, Arc<str>), NodeName>);

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
        let host = node.hello.as_ref().map(|hello| &hello.host);
        let Some(host) = host.filter(|host| !host.boot_id.is_empty()) else {
            return MachineName::Own;
        };
        let machine = (Arc::clone(&host.boot_id), Arc::clone(&host.host_name));
        match self.0.get(&machine) {
            Some(known) if *known == node.name => MachineName::Own,
            Some(known) if answers(known) && *known < node.name => {
                MachineName::Other(known.clone())
            }
            _ => match self.0.insert(machine, node.name.clone()) {
                Some(before) => MachineName::OwnNow(before),
                None => MachineName::Own,
            },
        }
    }
}

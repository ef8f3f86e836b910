//! The addresses of nodes whose names may not resolve: queried once per node, beside everything else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::command::fetch_node_addresses;
use crate::scheduler::scheduled_query::{ScheduledQuery, TimedAnswer};
use gtop_model::NodeName;
use gtop_ssh::SchedulerAddresses;

/// The known addresses, and the query for others.
#[derive(Debug, Default)]
pub(super) struct AddressPoll {
    known: Arc<BTreeMap<String, Option<String>>>,
    pub(super) query: ScheduledQuery<BTreeMap<String, Option<String>>>,
    /// The nodes to query.
    wanted: BTreeSet<NodeName>,
}

impl AddressPoll {
    /// Sets the nodes that are needed.
    pub(super) fn set_nodes<'a>(&mut self, nodes: impl Iterator<Item = &'a NodeName>) {
        let nodes = nodes.filter(|node| !self.known.contains_key(node.as_str()));
        self.wanted = nodes.cloned().collect();
    }

    /// Returns true if addresses of nodes are to be queried.
    pub(super) fn is_needed(&self) -> bool {
        !self.wanted.is_empty() && !self.query.is_running()
    }

    /// Starts the query if one is due.
    pub(super) fn start(&mut self) {
        if self.is_needed() && self.query.is_due() {
            let nodes = self.wanted.clone();
            self.query.start(async move { fetch_node_addresses(&nodes).await });
        }
    }

    /// Stores the addresses; there are none if `sinfo` failed.
    pub(super) fn apply(
        &mut self,
        answer: TimedAnswer<BTreeMap<String, Option<String>>>,
        interval: Duration,
    ) {
        if answer.value.is_empty() {
            self.query.on_failure(interval, answer.took);
            return;
        }
        self.query.on_success(Duration::ZERO, answer.took);
        Arc::make_mut(&mut self.known).extend(answer.value);
        self.wanted.retain(|node| !self.known.contains_key(node.as_str()));
    }

    pub(super) fn addresses(&self) -> SchedulerAddresses {
        let known = Arc::clone(&self.known);
        SchedulerAddresses { known, is_query_running: self.query.is_running() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_is_queried_until_sinfo_answers_and_never_again() {
        let interval = Duration::from_secs(30);
        let node = |name: &str| NodeName::new(name).unwrap();
        let answer = |names: &[&str]| {
            let value = names.iter().map(|name| ((*name).to_owned(), None)).collect();
            TimedAnswer { value, took: Duration::ZERO }
        };
        let mut poll = AddressPoll::default();
        assert!(!poll.is_needed());
        let nodes = [node("n1"), node("n2")];
        poll.set_nodes(nodes.iter());
        assert!(poll.is_needed() && poll.query.is_due());
        // It failed.
        poll.apply(answer(&[]), interval);
        assert!(poll.is_needed() && !poll.query.is_due());
        tokio::time::advance(interval * 2).await;
        assert!(poll.query.is_due());
        poll.apply(answer(&["n1", "n2"]), interval);
        assert!(!poll.is_needed());
        poll.set_nodes(nodes.iter());
        assert!(!poll.is_needed());
        poll.set_nodes([node("n3")].iter());
        assert!(poll.is_needed());
        assert_eq!(poll.addresses().known.len(), 2);
    }
}

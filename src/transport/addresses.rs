//! The addresses a scheduler has for its nodes, for node names that DNS does not resolve.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::model::NodeName;

/// Timeout for a scheduler query in progress.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Addresses from the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerAddresses {
    /// The address of each node; `None` for a node with no other address than its name.
    pub known: Arc<BTreeMap<NodeName, Option<String>>>,
    /// A scheduler query is in progress.
    pub is_asking: bool,
}

/// The addresses known now.
#[derive(Debug, Default)]
pub(super) struct AddressTable(watch::Sender<SchedulerAddresses>);

impl AddressTable {
    pub(super) fn set(&self, addresses: SchedulerAddresses) {
        self.0.send_replace(addresses);
    }

    /// Returns the scheduler's address of a node; waits for a query in progress.
    pub(super) async fn of(&self, host: &str) -> Option<String> {
        let node = NodeName::new(host).ok()?;
        let mut followed = self.0.subscribe();
        let is_told =
            |known: &SchedulerAddresses| !known.is_asking || known.known.contains_key(&node);
        let told = timeout(LOOKUP_TIMEOUT, followed.wait_for(is_told)).await.ok()?.ok()?;
        told.known.get(&node)?.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_scheduler_that_is_being_asked_is_waited_for_and_not_for_ever() {
        let addresses = |is_asking, list: &[(&str, Option<&str>)]| {
            let pair = |(node, at): &(&str, Option<&str>)| {
                (NodeName::new(node).unwrap(), at.map(str::to_owned))
            };
            SchedulerAddresses { known: Arc::new(list.iter().map(pair).collect()), is_asking }
        };
        let book = AddressTable::default();
        assert_eq!(book.of("n1").await, None);
        book.set(addresses(true, &[("n1", Some("10.0.0.1")), ("n2", None)]));
        assert_eq!(book.of("n1").await.as_deref(), Some("10.0.0.1"));
        assert_eq!(book.of("n2").await, None);
        assert_eq!(book.of("n3").await, None, "in the end");
        let late = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            book.set(addresses(false, &[("n3", Some("10.0.0.3"))]));
        };
        let (found, ()) = tokio::join!(book.of("n3"), late);
        assert_eq!(found.as_deref(), Some("10.0.0.3"));
    }
}

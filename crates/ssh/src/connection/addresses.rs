//! The addresses a scheduler has for its nodes, for node names that DNS does not resolve.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// Timeout for a scheduler query in progress.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Addresses from the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerAddresses {
    /// The address of each node; `None` for a node with no other address than its name.
    pub known: Arc<BTreeMap<String, Option<String>>>,
    /// A scheduler query is in progress.
    pub is_query_running: bool,
}

/// The addresses known now.
#[derive(Debug, Default)]
pub(crate) struct AddressTable(watch::Sender<SchedulerAddresses>);

impl AddressTable {
    pub(crate) fn set(&self, addresses: SchedulerAddresses) {
        self.0.send_replace(addresses);
    }

    /// Returns true if a query in progress may tell the address of a node.
    pub(crate) fn is_awaited(&self, host: &str) -> bool {
        let addresses = self.0.borrow();
        addresses.is_query_running && !addresses.known.contains_key(host)
    }

    /// Returns the scheduler's address of a node; waits for a query in progress.
    pub(crate) async fn get(&self, host: &str) -> Option<String> {
        let mut updates = self.0.subscribe();
        let known = updates.wait_for(|addresses| {
            !addresses.is_query_running || addresses.known.contains_key(host)
        });
        timeout(LOOKUP_TIMEOUT, known).await.ok()?.ok()?.known.get(host)?.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_scheduler_query_in_progress_is_waited_for_until_the_timeout() {
        let addresses = |is_query_running, list: &[(&str, Option<&str>)]| {
            let pair =
                |(node, at): &(&str, Option<&str>)| ((*node).to_owned(), at.map(str::to_owned));
            SchedulerAddresses {
                known: Arc::new(list.iter().map(pair).collect()),
                is_query_running,
            }
        };
        let table = AddressTable::default();
        assert_eq!(table.get("n1").await, None);
        table.set(addresses(true, &[("n1", Some("10.0.0.1")), ("n2", None)]));
        assert_eq!(table.get("n1").await.as_deref(), Some("10.0.0.1"));
        assert_eq!(table.get("n2").await, None);
        assert!(table.is_awaited("n3") && !table.is_awaited("n2"));
        assert_eq!(table.get("n3").await, None, "after the timeout");
        let answering = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            table.set(addresses(false, &[("n3", Some("10.0.0.3"))]));
        };
        let (address, ()) = tokio::join!(table.get("n3"), answering);
        assert_eq!(address.as_deref(), Some("10.0.0.3"));
        assert!(!table.is_awaited("n3") && !table.is_awaited("n4"));
    }
}

//! The nodes of a scheduler's jobs as targets, which follow its jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::sleep_until;

use crate::inventory::{Roster, ssh_reach};
use crate::scheduler::{Listing, PollRequest, Scheduler, nodes_of_jobs};
use crate::transport::{Reach, Target};
use gtop_local::time::{Clock, Timestamp};
use gtop_model::{Job, NodeName, SchedulerProfile};

/// A scheduler whose jobs' nodes are watched, and targets that are watched in addition.
#[derive(Debug)]
pub struct JobTargets {
    scheduler: Scheduler,
    /// The names that this machine may have for the scheduler.
    own_names: Vec<String>,
    fixed: BTreeMap<NodeName, Target>,
}

impl JobTargets {
    /// Returns the nodes of jobs and these targets, which the scheduler knows as its fixed nodes.
    pub fn new(scheduler: Scheduler, fixed: Vec<Target>) -> Self {
        let own_names = own_names(scheduler.profile());
        let fixed = fixed.into_iter().map(|target| (target.name.clone(), target)).collect();
        Self { scheduler, own_names, fixed }
    }

    /// Returns the roster as of `now`.
    pub fn roster(&self, now: Timestamp) -> Roster {
        let Listing { jobs, nodes, addresses } = self.scheduler.listing(now);
        let targets = nodes.iter().map(|node| match self.fixed.get(node) {
            Some(fixed) => fixed.clone(),
            None => target(node, &self.own_names),
        });
        Roster { addresses, ..Roster::from_scheduler(targets.collect(), jobs) }
    }

    /// Polls until the receiver of rosters is dropped.
    pub async fn run(
        mut self,
        clock: Clock,
        mut requests: watch::Receiver<PollRequest>,
        rosters: watch::Sender<Arc<Roster>>,
    ) {
        let mut request = requests.borrow_and_update().clone();
        loop {
            self.scheduler.start_queries(&clock);
            let roster = self.roster(clock.now());
            let is_new = !rosters.borrow().has_same_jobs(&roster);
            if is_new && rosters.send(Arc::new(roster)).is_err() {
                return;
            }
            let due = self.scheduler.next_due();
            tokio::select! {
                () = sleep_until(due) => {}
                () = rosters.closed() => return,
                next = next_request(&mut requests) => {
                    self.scheduler.on_request(&request, &next);
                    request = next;
                }
                () = self.scheduler.poll(&clock) => {}
            }
        }
    }
}

/// Returns the targets of the nodes of jobs, without duplicates.
pub fn targets_of_jobs(jobs: &[Job], profile: &SchedulerProfile) -> Vec<Target> {
    targets_of_nodes(&nodes_of_jobs(jobs), profile)
}

/// Returns the targets of nodes that a scheduler lists.
pub fn targets_of_nodes(nodes: &[NodeName], profile: &SchedulerProfile) -> Vec<Target> {
    let names = own_names(profile);
    nodes.iter().map(|node| target(node, &names)).collect()
}

fn target(node: &NodeName, own_names: &[String]) -> Target {
    if own_names.iter().any(|name| name == node.as_str()) {
        return Target { name: node.clone(), reach: Reach::Local };
    }
    Target { name: node.clone(), reach: ssh_reach(node.as_str(), None, None) }
}

/// Returns the names that a scheduler may use for this machine.
fn own_names(profile: &SchedulerProfile) -> Vec<String> {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy().into_owned();
    let short = name.split('.').next().map(str::to_owned);
    let told = profile.node_variable.and_then(|variable| std::env::var(variable).ok());
    [told, short, Some(name)].into_iter().flatten().collect()
}

/// Waits for another request; forever if its sender is gone.
async fn next_request(requests: &mut watch::Receiver<PollRequest>) -> PollRequest {
    if requests.changed().await.is_err() {
        return std::future::pending().await;
    }
    requests.borrow_and_update().clone()
}

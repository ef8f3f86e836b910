//! Follows a changing list of targets: starts a task for each new node and stops those of removed nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::collect::{Collector, CollectorConfig, node};
use crate::transport::{Reach, Target, sleep_until_some};
use crate::wire::DeliverySink;
use gtop_model::{JobId, NodeName};

/// The task of one node.
struct NodeTask {
    target: Target,
    /// The configuration as this node's task sees it.
    config: watch::Sender<CollectorConfig>,
    /// When its session ends, once it is no longer listed.
    stops_at: Option<Instant>,
    /// The user's jobs there in the last list.
    jobs: Vec<JobId>,
}

impl Collector {
    /// Monitors the nodes that `targets` currently lists, until the configuration sets `is_stopping` and all sessions have
    /// ended. `sink` returns the sink for the events of a node.
    pub async fn follow(
        mut self,
        mut targets: watch::Receiver<Arc<[Target]>>,
        mut sink: impl FnMut(&NodeName) -> DeliverySink,
    ) {
        let mut tasks = JoinSet::new();
        let mut nodes: BTreeMap<NodeName, NodeTask> = BTreeMap::new();
        let mut is_closed = false;
        targets.mark_changed();
        loop {
            let next_end = nodes.values().filter_map(|task| task.stops_at).min();
            tokio::select! {
                changed = targets.changed(), if !is_closed => {
                    is_closed = changed.is_err();
                    let listed = Arc::clone(&targets.borrow_and_update());
                    schedule_removals(&mut nodes, &listed, self.grace);
                    for target in listed.iter() {
                        let jobs = self.transport.jobs_on(&target.name);
                        let is_powered_off = self.transport.is_powered_off(&target.name);
                        if let Some(task) = nodes.get_mut(&target.name) {
                            task.set_jobs(jobs);
                            task.set_powered_off(is_powered_off);
                            continue;
                        }
                        // Until its first session, a request fails because the node is down.
                        self.queue.open(&target.name);
                        let is_page = matches!(target.reach, Reach::Page(_));
                        self.queue.set_page(&target.name, is_page);
                        let config = CollectorConfig { is_powered_off, ..self.config.borrow().clone() };
                        let (config, config_receiver) = watch::channel(config);
                        let collector = Self { config: config_receiver, ..self.clone() };
                        tasks.spawn(node::monitor(collector, target.clone(), sink(&target.name)));
                        let target = target.clone();
                        let task = NodeTask { target, config, stops_at: None, jobs };
                        nodes.insert(task.target.name.clone(), task);
                    }
                }
                changed = self.config.changed() => {
                    let config = self.config.borrow_and_update().clone();
                    for task in nodes.values() {
                        task.config.send_modify(|known| {
                            let (job_starts, is_powered_off) = (known.job_starts, known.is_powered_off);
                            *known = CollectorConfig { job_starts, is_powered_off, ..config.clone() };
                        });
                    }
                    if changed.is_err() || config.is_stopping {
                        break;
                    }
                }
                () = sleep_until_some(next_end) => stop_expired(&mut nodes),
                Some(_ended) = tasks.join_next() => {}
            }
        }
        // A closed configuration channel ends everything too.
        drop(nodes);
        while tasks.join_next().await.is_some() {}
    }
}

/// Schedules the end of nodes that are no longer listed, and cancels it for those that are listed again.
fn schedule_removals(nodes: &mut BTreeMap<NodeName, NodeTask>, listed: &[Target], grace: Duration) {
    let listed: BTreeMap<&NodeName, &Target> =
        listed.iter().map(|target| (&target.name, target)).collect();
    nodes.retain(|name, task| {
        match listed.get(name) {
            Some(target) if **target == task.target => task.stops_at = None,
            // The target has changed: end the session, and start a new one.
            Some(_) => {
                task.stop();
                return false;
            }
            None => {
                task.stops_at = task.stops_at.or_else(|| Some(Instant::now() + grace));
            }
        }
        true
    });
}

fn stop_expired(nodes: &mut BTreeMap<NodeName, NodeTask>) {
    let now = Instant::now();
    nodes.retain(|_, task| {
        let is_due = task.stops_at.is_some_and(|at| at <= now);
        if is_due {
            task.stop();
        }
        !is_due
    });
}

impl NodeTask {
    /// Sets the user's jobs on the node; a new one triggers a retry.
    fn set_jobs(&mut self, jobs: Vec<JobId>) {
        if jobs.iter().any(|job| !self.jobs.contains(job)) {
            self.config.send_modify(|config| config.job_starts += 1);
        }
        self.jobs = jobs;
    }

    /// Ends the session of a node that is powered down, and lets one that is up again be tried.
    fn set_powered_off(&self, is_powered_off: bool) {
        self.config.send_if_modified(|config| {
            let has_changed = config.is_powered_off != is_powered_off;
            config.is_powered_off = is_powered_off;
            has_changed
        });
    }

    fn stop(&self) {
        self.config.send_modify(|config| config.is_stopping = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_starts_on_a_node_triggers_a_retry_and_one_that_ends_does_not() {
        let target = Target { name: NodeName::new("gpu01").unwrap(), reach: Reach::Local };
        let (config, receiver) = watch::channel(CollectorConfig::every(Duration::from_secs(1)));
        let mut task = NodeTask { target, config, stops_at: None, jobs: Vec::new() };
        let jobs = |list: &[&str]| list.iter().map(|id| JobId::new(id).unwrap()).collect();
        for (list, starts) in
            [(&["7"][..], 1), (&["7"], 1), (&["7", "8"], 2), (&["8"], 2), (&[], 2), (&["7"], 3)]
        {
            task.set_jobs(jobs(list));
            assert_eq!(receiver.borrow().job_starts, starts, "{list:?}");
        }
    }
}

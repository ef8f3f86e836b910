//! Nodes that come and go: each has a life of its own, begun and ended by the list of targets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::collect::{Collector, Orders, node};
use crate::model::{JobId, NodeName};
use crate::transport::Target;
use crate::wire::Intake;

/// A node that has a task.
struct Life {
    target: Target,
    /// The orders as this node gets them.
    orders: watch::Sender<Orders>,
    /// When its session is to end, once it is not listed any more.
    leaves_at: Option<Instant>,
    /// The user's jobs there, when it was last listed.
    jobs: Vec<JobId>,
}

impl Collector {
    /// Watches the nodes that `targets` lists at each moment, until the orders say that sessions are
    /// to end, and until they have. `intake` says where to send what happens at a node.
    pub async fn follow(
        mut self,
        mut targets: watch::Receiver<Arc<[Target]>>,
        mut intake: impl FnMut(&NodeName) -> Intake,
    ) {
        let mut tasks = JoinSet::new();
        let mut lives: BTreeMap<NodeName, Life> = BTreeMap::new();
        let mut is_closed = false;
        targets.mark_changed();
        loop {
            let next_end = lives.values().filter_map(|life| life.leaves_at).min();
            tokio::select! {
                changed = targets.changed(), if !is_closed => {
                    is_closed = changed.is_err();
                    let listed = Arc::clone(&targets.borrow_and_update());
                    let_go(&mut lives, &listed, self.grace);
                    for target in listed.iter() {
                        let jobs = self.transport.jobs_on(&target.name);
                        if let Some(life) = lives.get_mut(&target.name) {
                            life.take_jobs(jobs);
                            continue;
                        }
                        let (orders, followed) = watch::channel(self.orders.borrow().clone());
                        let own = Self { orders: followed, ..self.clone() };
                        tasks.spawn(node::live(own, target.clone(), intake(&target.name)));
                        let target = target.clone();
                        let life = Life { target, orders, leaves_at: None, jobs };
                        lives.insert(life.target.name.clone(), life);
                    }
                }
                changed = self.orders.changed() => {
                    let orders = self.orders.borrow_and_update().clone();
                    for life in lives.values() {
                        life.orders.send_modify(|own| {
                            *own = Orders { job_starts: own.job_starts, ..orders.clone() };
                        });
                    }
                    if changed.is_err() || orders.is_ending {
                        break;
                    }
                }
                () = until(next_end) => end_those_due(&mut lives),
                Some(_ended) = tasks.join_next() => {}
            }
        }
        // Nobody can order anything any more: that is the end too.
        drop(lives);
        while tasks.join_next().await.is_some() {}
    }
}

/// Gives nodes that are not listed their time, and takes it back from those that are again.
fn let_go(lives: &mut BTreeMap<NodeName, Life>, listed: &[Target], grace: Duration) {
    let listed: BTreeMap<&NodeName, &Target> =
        listed.iter().map(|target| (&target.name, target)).collect();
    lives.retain(|name, life| {
        match listed.get(name) {
            Some(target) if **target == life.target => life.leaves_at = None,
            // Another way leads there now.
            Some(_) => {
                life.end();
                return false;
            }
            None => {
                life.leaves_at = life.leaves_at.or_else(|| Some(Instant::now() + grace));
            }
        }
        true
    });
}

fn end_those_due(lives: &mut BTreeMap<NodeName, Life>) {
    let now = Instant::now();
    lives.retain(|_, life| {
        let is_due = life.leaves_at.is_some_and(|at| at <= now);
        if is_due {
            life.end();
        }
        !is_due
    });
}

impl Life {
    /// Takes note of the user's jobs on the node; one that is new there is worth another try.
    fn take_jobs(&mut self, jobs: Vec<JobId>) {
        if jobs.iter().any(|job| !self.jobs.contains(job)) {
            self.orders.send_modify(|orders| orders.job_starts += 1);
        }
        self.jobs = jobs;
    }

    fn end(&self) {
        self.orders.send_modify(|orders| orders.is_ending = true);
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Reach;

    #[test]
    fn a_job_that_begins_on_a_node_is_worth_another_try_and_one_that_ends_is_not() {
        let target = Target { name: NodeName::new("gpu01").unwrap(), reach: Reach::Local };
        let (orders, followed) = watch::channel(Orders::every(Duration::from_secs(1)));
        let mut life = Life { target, orders, leaves_at: None, jobs: Vec::new() };
        let jobs = |list: &[&str]| list.iter().map(|id| JobId::new(id).unwrap()).collect();
        for (list, starts) in
            [(&["7"][..], 1), (&["7"], 1), (&["7", "8"], 2), (&["8"], 2), (&[], 2), (&["7"], 3)]
        {
            life.take_jobs(jobs(list));
            assert_eq!(followed.borrow().job_starts, starts, "{list:?}");
        }
    }
}

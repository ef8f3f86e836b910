//! Live nodes: those of a roster, which may change at any time.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::collect::Collector;
use crate::inventory::Roster;
use crate::record::RecorderSink;
use crate::scheduler::step_candidates;
use crate::source::pipeline::Pipeline;
use crate::transport::Transport;
use gtop_fleet::{FleetStore, PublishIntervals};
use gtop_model::JobList;

/// Passes a roster's nodes and jobs to the store, and to a recorder if there is one.
pub fn publish_roster(store: &FleetStore, recorder: Option<&RecorderSink>, roster: &Roster) {
    if let Some(recorder) = recorder {
        let names = roster.targets.iter().map(|target| target.name.clone());
        let jobs = roster.jobs.as_ref().map(|list| {
            Arc::new(JobList { proved: Arc::new(store.proved()), ..JobList::clone(list) })
        });
        recorder.on_roster(names, jobs);
    }
    store.set_nodes(roster.targets.iter().map(|target| target.name.clone()), roster.jobs.clone());
}

/// Passes the jobs on nodes, and which nodes can be reached, to the transport.
fn set_jobs(transport: &Transport, roster: &Roster) {
    if let Some(jobs) = &roster.jobs {
        let candidates = step_candidates(jobs);
        transport.update_jobs(|before| before.with_running_jobs(&candidates));
        transport.set_scheduler_addresses(roster.addresses.clone());
        transport.set_powered_off(jobs.powered_off());
    }
}

/// Feeds a store with the deliveries of the nodes that the roster lists at the time, until the collector stops.
pub async fn run(
    mut rosters: watch::Receiver<Arc<Roster>>,
    collector: Collector,
    store: Arc<FleetStore>,
    recorder: Option<RecorderSink>,
) {
    let pipeline = Pipeline::new(Arc::clone(&store)).with_recorder(recorder.clone());
    let transport = collector.transport();
    // Reads the roster once: with two reads, the nodes could be newer than the jobs.
    let first = Arc::clone(&rosters.borrow_and_update());
    publish_roster(&store, recorder.as_ref(), &first);
    set_jobs(&transport, &first);
    let (target_sender, target_changes) = watch::channel(first.targets.as_slice().into());
    let updating = async {
        while rosters.changed().await.is_ok() {
            let roster = Arc::clone(&rosters.borrow_and_update());
            publish_roster(&store, recorder.as_ref(), &roster);
            set_jobs(&transport, &roster);
            target_sender.send_replace(roster.targets.as_slice().into());
        }
        std::future::pending::<()>().await;
    };
    // In its own task, publishing runs after all events that arrived together are in the store.
    let mut publishing = JoinSet::new();
    publishing.spawn(Arc::clone(&store).publish(PublishIntervals::default()));
    tokio::select! {
        () = collector.follow(target_changes, |node| pipeline.sink(node.clone())) => {}
        _ended = publishing.join_next() => {}
        () = updating => {}
    }
}

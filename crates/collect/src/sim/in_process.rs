//! Simulated nodes without SSH: their probes are started through a queue of this process.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::sim::injected_fault::InjectedFault;
use crate::sim::scenario::FleetSpec;
use crate::sim::sim_probe::{ProbeExit, ProbedNode};
use crate::transport::{InProcessCommand, InProcessNode, Reach, Target};
use gtop_local::process::Exit;

/// The nodes of a fleet that run in this process. Dropping it ends them.
#[derive(Debug)]
pub struct InProcessFleet {
    /// The nodes, in order.
    pub targets: Vec<Target>,
    _nodes: JoinSet<()>,
}

impl InProcessFleet {
    /// Starts the nodes of a fleet on the current runtime. One that refuses connections or logins cannot be reached.
    pub fn start(spec: &FleetSpec) -> Self {
        let mut nodes = JoinSet::new();
        let began = Instant::now();
        let targets = (0..).zip(spec.names()).map(|(number, name)| {
            let node = ProbedNode::new(spec, number, &name, began);
            let (commands, receiver) = mpsc::channel(1);
            let is_refused =
                matches!(node.fault, Some(InjectedFault::RefusedPort | InjectedFault::RefuseAuth));
            if !is_refused {
                nodes.spawn(run_commands(Arc::new(node), receiver));
            }
            let reach = Reach::InProcess(InProcessNode { number, commands });
            Target { name, reach }
        });
        Self { targets: targets.collect(), _nodes: nodes }
    }
}

async fn run_commands(node: Arc<ProbedNode>, mut commands: mpsc::Receiver<InProcessCommand>) {
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(command) => drop(running.spawn(run_command(Arc::clone(&node), command))),
                None => return,
            },
            Some(_) = running.join_next() => {}
        }
    }
}

async fn run_command(node: Arc<ProbedNode>, command: InProcessCommand) {
    let InProcessCommand { line, input, output, exit } = command;
    let status = match node.run_command(&line, input, output).await {
        ProbeExit::Exited(status) => Exit::Status(status),
        ProbeExit::Killed => Exit::Signal("ALRM".to_owned()),
        ProbeExit::Disconnected => return,
    };
    // Fails if nobody waits for the end.
    exit.send(status).ok();
}

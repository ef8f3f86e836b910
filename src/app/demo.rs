//! `--demo`: simulated nodes behind real SSH servers on loopback, on their own thread.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use tokio::runtime;
use tokio::sync::oneshot;

use crate::app::AppError;
use crate::app::discovery::Discovery;
use gtop_collect::sim::{FleetSpec, SimNode, serve};
use gtop_collect::transport::{Reach, Target};
use gtop_local::time::Clock;
use gtop_ssh::{Fault, FixedProfile, Profile, SshTarget};

/// A running simulated fleet. Dropping it stops the servers.
#[derive(Debug)]
pub(super) struct Demo {
    nodes: Vec<SimNode>,
    spec: FleetSpec,
    /// Stops the servers when dropped.
    _stop: oneshot::Sender<()>,
}

impl Demo {
    /// Starts servers for `nodes` simulated nodes, generated from `seed`.
    pub(super) fn start(nodes: u16, seed: u64) -> io::Result<Self> {
        let spec = FleetSpec::demo(u32::from(nodes), seed);
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let served_spec = spec.clone();
        let (ready, started) = sync_channel(1);
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new().name("demo".to_owned()).spawn(move || {
            runtime.block_on(async {
                let server = serve(&served_spec).await;
                let nodes = server.as_ref().map(|server| server.nodes.clone());
                ready.send(nodes.map_err(|error| io::Error::other(error.to_string()))).ok();
                if let Ok(server) = server {
                    stopped.await.ok();
                    server.stop().await;
                }
            });
        })?;
        let nodes = started.recv().map_err(io::Error::other)??;
        Ok(Self { nodes, spec, _stop: stop })
    }

    /// Returns the nodes as targets.
    fn targets(&self) -> Result<Vec<Target>, Fault> {
        self.nodes.iter().map(target).collect()
    }

    /// Returns a discovery of the nodes and their jobs.
    pub(super) fn discovery(&self, clock: Clock) -> Result<Discovery, AppError> {
        let (spec, started_at) = (self.spec.clone(), clock.now());
        let jobs = move || spec.jobs(started_at, clock.now());
        Ok(Discovery::simulated(self.targets()?, jobs)?)
    }

    pub(super) fn title(&self) -> String {
        let plural = if self.nodes.len() == 1 { "" } else { "s" };
        format!("demo, {} simulated node{plural}", self.nodes.len())
    }
}

fn target(node: &SimNode) -> Result<Target, Fault> {
    let profile = FixedProfile::new(node.address, &node.client_key, node.host_key.as_deref())?;
    let reach = Reach::Ssh(SshTarget {
        host: node.name.as_str().to_owned(),
        user: None,
        port: None,
        profile: Profile::Fixed(Arc::new(profile)),
    });
    Ok(Target { name: node.name.clone(), reach })
}

//! `--demo`: simulated nodes behind real SSH servers on loopback, on their own thread.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use tokio::runtime;
use tokio::sync::oneshot;

use crate::watch::Discovery;
use gtop_collect::sim::{FleetSpec, SimNode, serve};
use gtop_collect::transport::{Reach, Target};
use gtop_local::time::{Clock, Timestamp};
use gtop_model::JobList;
use gtop_ssh::{FixedProfile, Profile, SshTarget};

/// A running simulated fleet. Dropping it stops the servers.
#[derive(Debug)]
struct Demo {
    nodes: Vec<SimNode>,
    spec: FleetSpec,
    /// Stops the servers when dropped.
    _stop: oneshot::Sender<()>,
}

impl Demo {
    /// Starts servers for `nodes` simulated nodes, generated from `seed`.
    fn start(nodes: u16, seed: u64) -> io::Result<Self> {
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
    fn targets(&self) -> io::Result<Vec<Target>> {
        self.nodes.iter().map(target).collect()
    }

    /// Returns the jobs of nodes that were started at a time.
    fn jobs(&self, started_at: Timestamp, now: Timestamp) -> JobList {
        self.spec.jobs(started_at, now)
    }
}

/// Simulates `nodes` nodes, generated from `seed`, and jobs on them; the text says what is watched. They end with the
/// discovery.
pub fn simulate(nodes: u16, seed: u64, clock: Clock) -> io::Result<(Discovery, String)> {
    let demo = Demo::start(nodes, seed)?;
    let plural = if demo.nodes.len() == 1 { "" } else { "s" };
    let title = format!("demo, {} simulated node{plural}", demo.nodes.len());
    let (targets, started_at) = (demo.targets()?, clock.now());
    // The jobs have the servers, too: they end with the discovery, which is dropped after the sessions.
    let discovery = Discovery::simulated(targets, move || demo.jobs(started_at, clock.now()));
    Ok((discovery?, title))
}

fn target(node: &SimNode) -> io::Result<Target> {
    let profile = FixedProfile::new(node.address, &node.client_key, node.host_key.as_deref());
    let profile = profile.map_err(io::Error::other)?;
    let reach = Reach::Ssh(SshTarget {
        host: node.name.as_str().to_owned(),
        user: None,
        port: None,
        profile: Profile::Fixed(Arc::new(profile)),
    });
    Ok(Target { name: node.name.clone(), reach })
}

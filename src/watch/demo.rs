//! `--demo`: simulated nodes behind real SSH servers on loopback, or without SSH if there are many, on their own thread.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use tokio::runtime;
use tokio::sync::oneshot;

use crate::watch::Discovery;
use gtop_collect::sim::{FleetSpec, InProcessFleet, SimNode, serve};
use gtop_collect::transport::{Reach, Target};
use gtop_local::time::{Clock, Timestamp};
use gtop_model::JobList;
use gtop_ssh::{FixedProfile, Profile, SshTarget};

/// Maximum number of nodes behind SSH servers. Each takes three open files.
const MAX_SSH_NODES: u16 = 1000;

/// A running simulated fleet. Dropping it stops the nodes.
#[derive(Debug)]
struct Demo {
    targets: Vec<Target>,
    spec: FleetSpec,
    /// Stops the nodes when dropped.
    _stop: oneshot::Sender<()>,
}

impl Demo {
    /// Starts `nodes` simulated nodes, generated from `seed`.
    fn start(nodes: u16, seed: u64, has_ssh: bool) -> io::Result<Self> {
        let spec = FleetSpec::demo(u32::from(nodes), seed);
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let thread_spec = spec.clone();
        let (ready, started) = sync_channel(1);
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new().name("demo".to_owned()).spawn(move || {
            runtime.block_on(async {
                if has_ssh {
                    serve_ssh(&thread_spec, &ready, stopped).await;
                } else {
                    let fleet = InProcessFleet::start(&thread_spec);
                    ready.send(Ok(fleet.targets.clone())).ok();
                    stopped.await.ok();
                }
            });
        })?;
        let targets = started.recv().map_err(io::Error::other)??;
        Ok(Self { targets, spec, _stop: stop })
    }

    /// Returns the jobs of nodes that were started at a time.
    fn jobs(&self, started_at: Timestamp, now: Timestamp) -> JobList {
        self.spec.jobs(started_at, now)
    }
}

/// Runs SSH servers for a fleet until they are stopped.
async fn serve_ssh(
    spec: &FleetSpec,
    ready: &SyncSender<io::Result<Vec<Target>>>,
    stopped: oneshot::Receiver<()>,
) {
    match serve(spec).await {
        Ok(server) => {
            ready.send(server.nodes.iter().map(target).collect()).ok();
            stopped.await.ok();
            server.stop().await;
        }
        Err(error) => drop(ready.send(Err(error))),
    }
}

/// Simulates `nodes` nodes, generated from `seed`, and jobs on them; the text says what is watched. They end with the
/// discovery.
pub fn simulate(nodes: u16, seed: u64, clock: Clock) -> io::Result<(Discovery, String)> {
    simulate_with(nodes, seed, clock, nodes <= MAX_SSH_NODES)
}

fn simulate_with(
    nodes: u16,
    seed: u64,
    clock: Clock,
    has_ssh: bool,
) -> io::Result<(Discovery, String)> {
    let demo = Demo::start(nodes, seed, has_ssh)?;
    let plural = if nodes == 1 { "" } else { "s" };
    let count = demo.targets.len();
    // It is cut at its end where there is little room.
    let title = if has_ssh {
        format!("demo, {count} simulated node{plural}")
    } else {
        format!("demo without SSH, {count} nodes")
    };
    let (targets, started_at) = (demo.targets.clone(), clock.now());
    // The jobs have the nodes, too: they end with the discovery, which is dropped after the sessions.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::watch::{MonitorOptions, Watcher};
    use gtop_collect::transport::{Options, Transport};
    use gtop_fleet::Fleet;
    use gtop_model::{FaultKind, Link, TransportKind};

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn without_ssh_probes_answer_as_with_it_and_the_title_says_so() {
        let clock = Clock::system();
        let (discovery, title) = simulate_with(12, 1, clock.clone(), false).unwrap();
        let transport = Transport::new(Options::of_this_process());
        let options = MonitorOptions::default();
        let watcher = Watcher::start(transport, discovery, title, options, clock).unwrap();
        assert_eq!(&**watcher.title(), "demo without SSH, 12 nodes");
        watcher.wait_until_complete(LIMIT).await;
        let fleet = watcher.fleet();
        let (up, down): (Vec<_>, Vec<_>) =
            fleet.nodes.iter().partition(|node| node.link == Link::Up);
        assert_eq!((up.len(), down.len()), (10, 2));
        for node in up {
            assert_eq!(node.via, Some(TransportKind::InProcess));
            assert!(!node.devices.is_empty(), "{}", node.name);
        }
        for node in down {
            let Link::Down { fault, .. } = &node.link else { panic!("{:?}", node.link) };
            assert_eq!(fault.kind, FaultKind::Unreachable);
        }
        // Later samples arrive too.
        let taken = |fleet: &Fleet| fleet.nodes.first().and_then(|node| node.taken_at());
        let (mut reader, first) = (watcher.reader(), taken(&fleet));
        let newer = reader.wait_for(|fleet| taken(fleet) > first);
        assert!(timeout(LIMIT, newer).await.unwrap().is_ok());
    }

    #[test]
    fn small_demos_use_ssh() {
        let (_discovery, title) = simulate(1, 1, Clock::system()).unwrap();
        assert_eq!(title, "demo, 1 simulated node");
    }
}

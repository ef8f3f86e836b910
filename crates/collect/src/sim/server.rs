//! SSH servers on loopback, one per simulated node.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use russh::keys::PrivateKey;
use russh::server::Config;
use russh::{MethodKind, MethodSet, Preferred, cipher, kex};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::sim::injected_fault::InjectedFault;
use crate::sim::keys::{generate_key, private_text, public_text};
use crate::sim::rng::Rng;
use crate::sim::scenario::FleetSpec;
use crate::sim::session::{self, SshServer};
use crate::sim::sim_probe::ProbedNode;
use gtop_model::NodeName;

/// The running servers of a fleet. Dropping it ends all servers and sessions.
#[derive(Debug)]
pub struct SimFleet {
    /// The nodes, in order.
    pub nodes: Vec<SimNode>,
    servers: JoinSet<()>,
    /// Bound ports that do not listen, so that no other process gets them.
    closed: Vec<TcpSocket>,
}

/// How to reach one simulated node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimNode {
    pub name: NodeName,
    /// Address of its SSH server.
    pub address: SocketAddr,
    /// The accepted private key in OpenSSH's format, the same for all nodes.
    pub client_key: String,
    /// The known host key as a line of OpenSSH; `None` if the node is unknown.
    pub host_key: Option<String>,
}

/// Serves a fleet until the result is dropped.
pub async fn serve(spec: &FleetSpec) -> io::Result<SimFleet> {
    let seed = Rng::new(spec.seed);
    let client = generate_key(seed.branch(3))?;
    let client_text = private_text(&client)?;
    let mut fleet = SimFleet { nodes: Vec::new(), servers: JoinSet::new(), closed: Vec::new() };
    let began = Instant::now();
    for (node, name) in (0..).zip(spec.names()) {
        let fault = spec.faults.get(&node).copied();
        let host_key = generate_key(seed.branch(4).branch(u64::from(node)))?;
        let known_key = match fault {
            Some(InjectedFault::UnknownHostKey) => None,
            Some(InjectedFault::ChangedHostKey) => {
                Some(generate_key(seed.branch(5).branch(u64::from(node)))?)
            }
            _ => Some(host_key.clone()),
        };
        let address = if fault == Some(InjectedFault::RefusedPort) {
            fleet.reserve_port()?
        } else {
            let server = Arc::new(SshServer {
                node: ProbedNode::new(spec, node, &name, began),
                config: Arc::new(config(host_key, fault)),
                client_key: client.public_key().key_data().clone(),
            });
            fleet.listen(server).await?
        };
        fleet.nodes.push(SimNode {
            name,
            address,
            client_key: client_text.clone(),
            host_key: known_key.map(|key| public_text(key.public_key())).transpose()?,
        });
    }
    Ok(fleet)
}

impl SimFleet {
    /// Ends all servers and sessions, and waits for their end.
    pub async fn stop(mut self) {
        self.closed.clear();
        self.servers.shutdown().await;
    }

    async fn listen(&mut self, server: Arc<SshServer>) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        self.servers.spawn(accept_loop(listener, server));
        Ok(address)
    }

    fn reserve_port(&mut self) -> io::Result<SocketAddr> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = socket.local_addr()?;
        self.closed.push(socket);
        Ok(address)
    }
}

async fn accept_loop(listener: TcpListener, server: Arc<SshServer>) {
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if server.node.fault == Some(InjectedFault::SilentPort) => {
                    sessions.spawn(stay_silent(stream));
                }
                Ok((stream, _)) => {
                    sessions.spawn(session::run(Arc::clone(&server), stream));
                }
                // Out of descriptors: wait until some are closed.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            Some(_) = sessions.join_next() => {}
        }
    }
}

/// Reads until the client disconnects, without sending.
async fn stay_silent(stream: TcpStream) {
    let mut buffer = [0; 256];
    while stream.readable().await.is_ok() {
        match stream.try_read(&mut buffer) {
            Ok(0) => return,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
            Ok(_) | Err(_) => {}
        }
    }
}

/// Returns a configuration with cheap handshakes: one curve, two fast ciphers, no delay.
fn config(host_key: PrivateKey, fault: Option<InjectedFault>) -> Config {
    let method = if fault == Some(InjectedFault::RefuseAuth) {
        MethodKind::HostBased
    } else {
        MethodKind::PublicKey
    };
    Config {
        methods: MethodSet::from(&[method][..]),
        auth_rejection_time: Duration::ZERO,
        keys: vec![host_key],
        channel_buffer_size: 8,
        inactivity_timeout: None,
        nodelay: true,
        preferred: Preferred {
            kex: vec![
                kex::CURVE25519,
                kex::CURVE25519_PRE_RFC_8731,
                kex::EXTENSION_SUPPORT_AS_SERVER,
                kex::EXTENSION_OPENSSH_STRICT_KEX_AS_SERVER,
            ]
            .into(),
            cipher: vec![cipher::CHACHA20_POLY1305, cipher::AES_256_GCM].into(),
            ..Preferred::DEFAULT
        },
        ..Config::default()
    }
}
